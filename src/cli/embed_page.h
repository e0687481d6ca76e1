/* The page of gale embed --report: rate over time, text lengths, where the time went, and a map of a sample. */
#ifndef GALE_CLI_EMBED_PAGE_H
#define GALE_CLI_EMBED_PAGE_H
#include "base/str.h"
#include "gale/embed.h"

typedef struct gale__embed_point {
    double seconds;
    uint64_t texts, tokens;
} gale__embed_point;
typedef struct gale__embed_page {
    gale__embed_point *points; /* of the run, in order */
    size_t count, capacity;
    const gale_embed_options *options;
    const gale_embed_report *report;
    const gale_embedder_info *info;
    const char *device;
} gale__embed_page;
/* Notes how far the run is. */
gale_status gale__embed_page_note(gale__embed_page *p, const gale_embed_report *now);
gale_status gale__embed_page_write(const gale__embed_page *p, const char *path);
void gale__embed_page_finish(gale__embed_page *p);
#endif
