/* A progress line on a terminal: share, rate, time left.  In a pipe nothing is printed. */
#ifndef GALE_CLI_PROGRESS_H
#define GALE_CLI_PROGRESS_H
#include "gale/base.h"

typedef struct gale__progress {
    const char *label, *unit;
    uint64_t total, done, start_ns, shown_ns;
    bool on;
} gale__progress;
/* unit: "cases"; total 0: not known. */
void gale__progress_begin(gale__progress *p, const char *label, const char *unit, uint64_t total);
void gale__progress_add(gale__progress *p, uint64_t n); /* redraws at most ten times a second */
/* "12 s", "3 min 05 s"; returns buf. */
const char *gale__duration_text(double seconds, char buf[32]);
void gale__progress_end(gale__progress *p); /* wipes the line */
#endif
