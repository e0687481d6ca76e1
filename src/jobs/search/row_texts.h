/* What stands beside the rows of an index: the texts they were made from, and, in JSONL, what else is known of them. */
#ifndef GALE_JOBS_SEARCH_ROW_TEXTS_H
#define GALE_JOBS_SEARCH_ROW_TEXTS_H
#include "gale/search.h"
#include "text/records.h"

typedef struct gale__row_text {
    int64_t row;
    char *text; /* NULL: the file has no such row */
    size_t size;
} gale__row_text;
/* Rows in any order, given more than once or not; texts are copied, in one pass over the file.  GALE_MISMATCH if it has
 * fewer texts than the index rows. */
gale_status gale__row_texts_find(const gale__records_options *source, int64_t rows, const gale_hit *hits, size_t count,
    gale__row_text **out, size_t *n /* sorted by row, each once */);
void gale__row_texts_finish(gale__row_text **list, size_t n);
const gale__row_text *gale__row_texts_get(const gale__row_text *list, size_t n, int64_t row);

/* A byte for each row: 1 where all conditions hold.  A condition is "KEY=VALUE": the object of that row has the text,
 * number or truth value; or one of a list of texts.  source: JSONL. */
gale_status gale__row_filter(
    const gale__records_options *source, const char *const *conditions, size_t count, int64_t rows, uint8_t **allowed);
#endif
