/* Runs of a device share its memory.  While memory suffices, a run is only counted.  A run that lacks memory waits
 * until another has ended, and may take over its context; after a few tries new runs wait too, so that in the end it
 * runs alone.  Then plans of other shapes and the idle contexts of all programs are freed, and the run fails only if
 * there was nothing to free.  Runs that a queue has sent ahead are not counted: they end when somebody waits for them.
 */
#include "graph/run/run.h"
#include <stdatomic.h>

enum { POLITE = 4, TRIES_MOST = 64 };

typedef gale__turns turns;

void gale__turns_join(gale_program *p)
{
    turns *t = &p->device->turns;
    gale__mutex_lock(&t->lock);
    p->next = t->programs;
    t->programs = p;
    gale__mutex_unlock(&t->lock);
}

void gale__turns_part(gale_program *p)
{
    turns *t = &p->device->turns;
    gale__mutex_lock(&t->lock);
    gale_program **at = &t->programs;
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    gale__mutex_unlock(&t->lock);
}

bool gale__turns_shed(gale_device *device, gale_program *own)
{
    bool any = own && gale__program_shed(own);
    gale__mutex_lock(&device->turns.lock);
    for (gale_program *p = device->turns.programs; p; p = p->next)
        if (p != own) any |= gale__program_shed_idle(p);
    gale__mutex_unlock(&device->turns.lock);
    if (any) gale_memory_trim(device);
    return any;
}

static bool in_flight(turns *t) { return atomic_load(&t->started) != atomic_load(&t->ended); }

gale_status gale__turn_begin(gale_device *device, gale__turn *turn)
{
    turns *t = &device->turns;
    gale_status status = GALE_OK;
    if (!turn->tries && atomic_load(&t->waiting)) {
        gale__mutex_lock(&t->lock);
        while (status == GALE_OK && atomic_load(&t->waiting) && in_flight(t))
            status = gale__limits_wait(&t->changed, &t->lock);
        gale__mutex_unlock(&t->lock);
    }
    if (status != GALE_OK) return status;
    turn->ended = atomic_load(&t->ended);
    atomic_fetch_add(&t->started, 1);
    return GALE_OK;
}

/* Waits until another run has ended, or none is left. */
static gale_status wait_for_others(turns *t, gale__turn *turn)
{
    gale_status status = GALE_OK;
    gale__mutex_lock(&t->lock);
    uint64_t done = t->done;
    atomic_fetch_add(&t->waiting, 1);
    while (status == GALE_OK && in_flight(t) && t->done == done) status = gale__limits_wait(&t->changed, &t->lock);
    turn->insists = status == GALE_OK && turn->tries >= POLITE;
    if (!turn->insists) atomic_fetch_sub(&t->waiting, 1), gale__cond_broadcast(&t->changed);
    gale__mutex_unlock(&t->lock);
    return status;
}

/* True: memory was freed, or another run began meanwhile, which may hold what is missing. */
static bool free_idle(gale_program *p, gale__turn *turn, uint64_t started)
{
    if (turn->shed && started == turn->shed + 1) return false; /* only this one has begun since */
    turn->shed = started;
    bool any = gale__turns_shed(p->device, p);
    if (any) gale__log(GALE__INFO, "%s; plans of other shapes and idle memory were released", gale_error());
    return any || started != atomic_load(&p->device->turns.started);
}

bool gale__turn_again(gale_program *p, gale__turn *turn, gale_status *status)
{
    turns *t = &p->device->turns;
    uint64_t started = atomic_load(&t->started), ended = atomic_load(&t->ended);
    bool failed = *status == GALE_NO_MEMORY, again = failed && turn->tries++ < TRIES_MOST;
    bool crowded = again && (ended != turn->ended || started - ended > 1);
    if (again && !crowded) again = free_idle(p, turn, started); /* as one of the runs: others wait for what it frees */
    atomic_fetch_add(&t->ended, 1);
    if (atomic_load(&t->waiting)) {
        gale__mutex_lock(&t->lock);
        t->done += !failed;
        if (turn->insists) atomic_fetch_sub(&t->waiting, 1);
        gale__cond_broadcast(&t->changed);
        gale__mutex_unlock(&t->lock);
    }
    turn->insists = false;
    if (!crowded) return again;
    turn->shed = 0;
    gale_status waited = wait_for_others(t, turn);
    if (waited != GALE_OK) *status = waited;
    return waited == GALE_OK;
}
