/* The profiler's records, added up.  Streams of several lanes overlap, so the time in which the device had work is that
 * of the union of all records, and kernels that run side by side fill it together. */
#include "jobs/exr/exr_usage.h"
#include "base/mem.h"
#include "device/profiler.h"
#include <math.h>
#include <stdlib.h>

typedef struct span {
    double from, to;
} span;

static int by_start(const void *a, const void *b)
{
    double x = ((const span *)a)->from, y = ((const span *)b)->from;
    return (x > y) - (x < y);
}

/* Length of the union. */
static double covered(span *spans, size_t count)
{
    double sum = 0, end = -1;
    qsort(spans, count, sizeof *spans, by_start);
    for (size_t i = 0; i < count; i++) {
        double from = spans[i].from > end ? spans[i].from : end;
        if (spans[i].to > from) sum += spans[i].to - from, end = spans[i].to;
    }
    return sum;
}

gale_status gale__exr_usage(const gale_profiler *p, gale_exr_usage *out)
{
    span *spans = gale__calloc(p->count + 1, sizeof *spans);
    gale_exr_usage u = {.measured = true};
    size_t n = 0;
    double filled_us = 0;
    if (!spans) return GALE_NO_MEMORY;
    for (size_t i = 0; i < p->count; i++) {
        const gale__profiler_record *r = &p->records[i];
        if (!(r->time_us >= 0) || r->kind == GALE__SPAN_RANGE) continue;
        bool transfer = r->kind == GALE__SPAN_UPLOAD || r->kind == GALE__SPAN_DOWNLOAD;
        *(transfer ? &u.transfer_seconds : &u.kernel_seconds) += r->time_us / 1e6;
        if (r->occupancy >= 0) filled_us += r->time_us * r->occupancy;
        spans[n++] = (span){r->start_us / 1e6, (r->start_us + r->time_us) / 1e6};
    }
    u.busy_seconds = covered(spans, n);
    for (size_t i = n = 0; filled_us > 0 && i < p->count; i++)
        if (p->records[i].occupancy >= 0 && p->records[i].time_us >= 0)
            spans[n++] = (span){p->records[i].start_us, p->records[i].start_us + p->records[i].time_us};
    if (n) u.occupancy = fmin(1, filled_us / covered(spans, n));
    gale__free(spans);
    *out = u;
    return GALE_OK;
}
