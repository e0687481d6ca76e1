/* See limits.h. Numbers are narrowed when limits are entered; flags cannot be combined, so they are checked from the
 * innermost limits outwards. */
#include "base/limits.h"
#include <stdatomic.h>

static _Thread_local const gale__limits *current;

void gale__limits_enter(gale__limits *l)
{
    const gale__limits *outer = current;
    l->outer = outer;
    if (outer && outer->threads && (!l->threads || outer->threads < l->threads)) l->threads = outer->threads;
    if (outer && outer->deadline_ns && (!l->deadline_ns || outer->deadline_ns < l->deadline_ns))
        l->deadline_ns = outer->deadline_ns;
    if (outer && !l->seed) l->seed = outer->seed;
    current = l;
}

void gale__limits_leave(const gale__limits *l) { current = l->outer; }

static gale_status state(void)
{
    gale_status left_out = current && current->stopped ? (gale_status)atomic_load(current->stopped) : GALE_OK;
    if (left_out != GALE_OK) return left_out;
    for (const gale__limits *l = current; l; l = l->outer)
        if (l->cancel && __atomic_load_n(l->cancel, __ATOMIC_RELAXED)) return GALE_CANCELLED;
    return current && current->deadline_ns && gale__time_ns() >= current->deadline_ns ? GALE_DEADLINE : GALE_OK;
}

gale_status gale__limits_check(void)
{
    gale_status status = state();
    if (status == GALE_OK) return GALE_OK;
    if (status == GALE_CANCELLED) return gale__fail(status, "the run was cancelled");
    return gale__fail(status, "the run was stopped %.1f ms past its deadline",
        (double)(gale__time_ns() - current->deadline_ns) * 1e-6);
}

bool gale__limits_stopped(void)
{
    gale_status status = current && current->stopped ? state() : GALE_OK;
    if (status != GALE_OK) atomic_store(current->stopped, (int)status);
    return status != GALE_OK;
}

bool gale__limits_stoppable(void)
{
    if (current && current->deadline_ns) return true;
    for (const gale__limits *l = current; l; l = l->outer)
        if (l->cancel) return true;
    return false;
}

gale_status gale__limits_wait(gale__cond *cond, gale__mutex *lock)
{
    enum { CHECK_NS = 2000000 };
    if (!gale__limits_stoppable()) return gale__cond_wait(cond, lock), GALE_OK;
    GALE_TRY(gale__limits_check());
    gale__cond_wait_ns(cond, lock, CHECK_NS);
    return GALE_OK;
}

int gale__limits_threads(void) { return current ? current->threads : 0; }
uint64_t gale__limits_seed(void) { return current ? current->seed : 0; }
const gale__limits *gale__limits_get(void) { return current; }
void gale__limits_set(const gale__limits *l) { current = l; }
