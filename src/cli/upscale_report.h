/* The result of a gale upscale run: for the last line, as JSON and as a page. */
#ifndef GALE_CLI_UPSCALE_REPORT_H
#define GALE_CLI_UPSCALE_REPORT_H
#include "base/claim.h"
#include "base/str.h"
#include "gale/upscale.h"
#include "jobs/batch/inputs.h"

typedef struct gale__upscale_where {
    const char *provider, *device;
    int index;
} gale__upscale_where;
typedef struct gale__upscale_row {
    const char *input, *output;
    const char *error;         /* NULL: it was done */
    gale__work_claim claim;    /* while it is worked on, so that another process leaves it alone */
    bool elsewhere;            /* another process has it, or has just done it */
    gale__upscale_where where; /* it was done */
    int64_t size[4];           /* width and height, before and after */
    int frames;                /* of an animation; 0: a still picture */
    gale_upscale_report report;
    double seconds; /* in the network, with tiles and blending */
    double read_seconds, write_seconds;
} gale__upscale_row;

typedef struct gale__upscale_sum {
    gale__upscale_where where; /* in the end */
    gale_upscaler_info info;
    gale__upscale_row *rows; /* by file, those that were skipped not among them */
    size_t count, left_out;
    const gale__ignored *ignored; /* of the inputs */
    size_t ignored_count;
    int done, failed, skipped, cancelled;
    uint64_t tiles;
    double seconds, run_seconds;  /* all of it; in the network */
    gale_picture *before, *after; /* of the first, for the page; NULL: none */
    bool cut;                     /* these are the middle of it */
    bool automatic;               /* it was decided picture by picture whether to clean */
    int cleaned;                  /* pictures that were */
} gale__upscale_sum;

/* Keeps copies of both for the page, u8 RGB; of very large ones the same part from the middle. */
gale_status gale__upscale_keep(gale__upscale_sum *s, const gale_picture *before, const gale_picture *after);
/* What a line about a picture says of cleaning: ", cleaned (JPEG quality 75)"; "": nothing. */
void gale__upscale_cleaned(const gale__upscale_row *r, char *out, size_t size);
void gale__upscale_line(const gale__upscale_sum *s, gale__str *out);
void gale__upscale_json(const gale__upscale_sum *s, gale__str *out);
gale_status gale__upscale_html(const gale__upscale_sum *s, gale__str *out);
#endif
