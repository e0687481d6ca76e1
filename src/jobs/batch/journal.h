/* Records which result in a folder was made from which picture.  A later run with additional pictures uses it to avoid
 * giving a picture the name of another one's result. */
#ifndef GALE_JOBS_JOURNAL_H
#define GALE_JOBS_JOURNAL_H
#include "base/str.h"

#define GALE__JOURNAL_NAME ".gale-results"

typedef struct gale__journal_entry {
    const char *output; /* below the folder */
    const char *input;  /* with all links followed */
} gale__journal_entry;
typedef struct gale__journal {
    gale__arena arena;
    gale__journal_entry *by_output, *by_input; /* the same, sorted */
    size_t count;
} gale__journal;

/* Nothing where there is none, or none that can be read: then no names are known. */
gale_status gale__journal_open(const char *folder, gale__journal *out);
void gale__journal_finish(gale__journal *j);
const char *gale__journal_input(const gale__journal *j, const char *output); /* NULL: not known */
const char *gale__journal_output(
    const gale__journal *j, const char *input, size_t i); /* the i-th of them; NULL: no more */
/* Writes what was known and these; an output that is in both is the new one's. */
gale_status gale__journal_write(
    const gale__journal *j, const char *folder, const gale__journal_entry *entries, size_t count);
#endif
