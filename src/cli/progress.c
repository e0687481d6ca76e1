/* A progress line on stderr that overwrites itself. */
#include "cli/progress.h"
#include "cli/job_progress.h"
#include "base/thread.h"
#include <stdio.h>
#include <unistd.h>

#define REDRAW_NS 100000000u

void gale__progress_begin(gale__progress *p, const char *label, const char *unit, uint64_t total)
{
    *p = (gale__progress){.label = label, .unit = unit, .total = total, .start_ns = gale__time_ns()};
    /* With --quiet nothing listens to warnings: then progress is not wanted either. */
    p->on = isatty(STDERR_FILENO) && gale__log_on(GALE__WARN);
}

const char *gale__duration_text(double seconds, char buf[32])
{
    long s = (long)(seconds + 0.5);
    if (s < 60) snprintf(buf, 32, "%ld s", s);
    else snprintf(buf, 32, "%ld min %02ld s", s / 60, s % 60);
    return buf;
}

static void draw(const gale__progress *p, uint64_t now)
{
    double seconds = (double)(now - p->start_ns) / 1e9, rate = seconds > 0 ? (double)p->done / seconds : 0;
    fprintf(stderr, "\r\033[K%s: %llu", p->label, (unsigned long long)p->done);
    if (p->total)
        fprintf(stderr, " of %llu %s (%.0f %%)", (unsigned long long)p->total, p->unit,
            100.0 * (double)p->done / (double)p->total);
    else fprintf(stderr, " %s", p->unit);
    fprintf(stderr, ", %.*f/s", rate < 10 ? 1 : 0, rate);
    if (p->total > p->done && rate > 0 && seconds > 0.5) {
        char left[32];
        fprintf(stderr, ", %s left", gale__duration_text((double)(p->total - p->done) / rate, left));
    }
    fflush(stderr);
}

void gale__progress_add(gale__progress *p, uint64_t n)
{
    p->done += n;
    if (!p->on) return;
    uint64_t now = gale__time_ns();
    if (now - p->shown_ns < REDRAW_NS) return;
    p->shown_ns = now;
    draw(p, now);
}

void gale__progress_end(gale__progress *p)
{
    if (p->on && p->shown_ns) fputs("\r\033[K", stderr);
    p->on = false;
}

bool gale__job_progress_show(void *user, const gale_job_progress *now)
{
    gale__job_progress *p = user;
    if (!now->total) return true; /* nothing to count yet */
    if (p->stage != now->stage) {
        gale__job_progress_end(p);
        gale__progress_begin(&p->line, now->stage, now->unit, now->total);
        p->stage = now->stage;
    }
    gale__progress_add(&p->line, now->done - p->line.done);
    return true;
}

void gale__job_progress_end(gale__job_progress *p)
{
    if (p->stage) gale__progress_end(&p->line);
    p->stage = NULL;
}
