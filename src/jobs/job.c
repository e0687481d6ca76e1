/* Progress, cancellation and results of jobs.  A result is preceded by its arena, so that its struct contains only
 * public fields. */
#include "jobs/job.h"
#include <string.h>

typedef union owner {
    gale__arena arena;
    char aligned[32]; /* so that results are aligned as allocations are */
} owner;

gale_status gale__job_tell(
    const gale_job_control *control, const char *stage, const char *unit, uint64_t done, uint64_t total)
{
    if (!control) return GALE_OK;
    if (gale__reserved_used(control->reserved))
        return gale__fail(GALE_INVALID, "gale_job_control has an option that gale %s does not know", gale_version());
    gale_job_progress now = {.stage = stage, .unit = unit, .done = done, .total = total};
    bool go_on = !control->cancel || !__atomic_load_n(control->cancel, __ATOMIC_RELAXED);
    if (go_on && control->progress) go_on = control->progress(control->user, &now);
    return go_on ? GALE_OK : gale__fail(GALE_CANCELLED, "cancelled");
}

bool gale__job_step(void *stage, int step, int steps)
{
    const gale__job_stage *s = stage;
    return gale__job_tell(s->control, s->name, "steps", (uint64_t)step, (uint64_t)steps) == GALE_OK;
}

void *gale__result_create(size_t size_bytes)
{
    owner *o = gale__calloc(1, sizeof *o + size_bytes);
    return o ? o + 1 : NULL;
}

gale__arena *gale__result_arena(void *result) { return &((owner *)result - 1)->arena; }

void gale__result_destroy(void *result)
{
    if (!result) return;
    gale__arena_finish(gale__result_arena(result));
    gale__free((owner *)result - 1);
}

gale_status gale__result_give(gale_status status, void *result, void *out)
{
    if (status == GALE_OK) memcpy(out, &result, sizeof result);
    else gale__result_destroy(result);
    return status;
}

void *gale__arena_add(gale__arena *arena, void *items, size_t *count, size_t item_bytes)
{
    char *list;
    memcpy(&list, items, sizeof list);
    bool full = !(*count & (*count - 1)); /* room is doubled at each power of two */
    if (full) {
        char *more = gale__arena_alloc(arena, (*count ? 2 * *count : 1) * item_bytes);
        if (!more) return NULL;
        if (*count) memcpy(more, list, *count * item_bytes);
        list = more;
        memcpy(items, &list, sizeof list);
    }
    return list + (*count)++ * item_bytes;
}

gale_status gale__str_give(gale__str *s, char **out)
{
    gale_status status = gale__str_check(s);
    if (status == GALE_OK && !s->text) gale__str_add_n(s, "", 0);
    if (status == GALE_OK) *out = s->text;
    else gale__str_finish(s);
    return status;
}
