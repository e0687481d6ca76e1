/* Reads texts from files, one after another: lines, a field of JSON lines, a column of CSV or TSV. */
#ifndef GALE_TEXT_RECORDS_H
#define GALE_TEXT_RECORDS_H
#include "base/str.h"

typedef enum gale__record_kind {
    GALE__RECORDS_AUTO, /* by the file's name (.jsonl, .ndjson, .csv, .tsv, with .gz or .zst behind), else lines */
    GALE__RECORDS_LINES,
    GALE__RECORDS_JSONL,
    GALE__RECORDS_CSV,
    GALE__RECORDS_TSV,
    GALE__RECORDS_FOOTPRINT /* JSON objects as footprints (footprint.h) */
} gale__record_kind;

enum { GALE__RECORD_BYTES = 64 << 20 }; /* what is longer is cut there */

/* field: the key of a JSON object (default: "text"), or a column: its name in the first record, or its number,
 * counted from 1, and then the first record is one like the others.  Texts have to live as long as the reader.
 *
 * A line ends with \n or \r\n; the last may have no end.  A byte order mark at the beginning of a file is left out. */
typedef struct gale__records gale__records;
typedef struct gale__records_options {
    const char *const *files; /* "-": standard input */
    size_t count;
    gale__record_kind kind;
    const char *field;
    bool whole; /* JSONL: records are the objects as they stand, not a field of them */
    bool pairs; /* TSV: records are whole lines, two texts with a tab between */
} gale__records_options;
gale_status gale__records_open(const gale__records_options *options, gale__records **out);
void gale__records_close(gale__records **records);
/* *text belongs to the reader until the next call; NULL: no more.  Errors name the file and the line. */
gale_status gale__records_next(gale__records *records, const char **text, size_t *size);
uint64_t gale__records_cut(const gale__records *records);   /* records that were too long */
uint64_t gale__records_taken(const gale__records *records); /* bytes of the files so far, before decompression */
#endif
