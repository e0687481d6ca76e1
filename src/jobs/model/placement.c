/* Which of several devices a model runs on: the one that its run is predicted to take the least time on.  Without a
 * prediction the first one given keeps the work, since callers name the one they prefer first. */
#include "jobs/model/placement.h"
#include "jobs/model/model_inputs.h"

static const char *name_of(const gale_device *d, gale__arena *arena)
{
    const gale_device_info *info = gale_device_get_info(d);
    return gale__arena_printf(arena, "%s:%d", info->backend, info->index);
}

/* Planning compiles nothing where kernels are host functions. */
static gale_device *planner_of(const gale__placing *p)
{
    for (int i = 0; i < p->n; i++)
        if (gale_device_get_info(p->devices[i])->caps.host_functions) return p->devices[i];
    return p->devices[0];
}

static int best_of(const gale_placement *list, int n)
{
    int best = 0;
    for (int i = 0; i < n; i++) {
        if (list[i].predicted_us < 0) {
            gale__log(
                GALE__INFO, "%s is not measured (`gale devices --measure`): no choice by prediction", list[i].device);
            return 0;
        }
        if (list[i].predicted_us < list[best].predicted_us) best = i;
    }
    return best;
}

static gale_status predict(gale__placing *p, gale_model *m, gale_placement *list, int *best)
{
    double *times = gale__calloc((size_t)p->n, sizeof *times);
    gale_status status = times ? gale_model_forecast(m, p->inputs, p->devices, p->n, times) : GALE_NO_MEMORY;
    for (int i = 0; i < p->n; i++) list[i].predicted_us = status == GALE_OK ? times[i] : -1;
    gale__free(times);
    if (status == GALE_UNSUPPORTED) {
        gale__log(GALE__INFO, "%s; %s is used", gale_error(), list[0].device);
        gale__error_clear();
        return GALE_OK;
    }
    if (status == GALE_OK) *best = best_of(list, p->n);
    return status;
}

static void log_choice(const gale_placement *list, int n, int best)
{
    for (int i = 0; i < n && list[best].predicted_us >= 0; i++)
        gale__log(GALE__INFO, "%s is predicted to take %.3f ms%s", list[i].device, list[i].predicted_us / 1e3,
            i == best ? " and is chosen" : "");
}

gale_status gale__model_place(gale__placing *p, const char *path, gale__arena *arena, gale_model **out)
{
    gale_device *planner = planner_of(p);
    gale_placement *list = gale__arena_alloc(arena, (size_t)p->n * sizeof *list);
    int best = 0;
    if (!list) return GALE_NO_MEMORY;
    for (int i = 0; i < p->n; i++)
        if (!(list[i].device = name_of(p->devices[i], arena))) return GALE_NO_MEMORY;
    GALE_TRY(gale__model_open_with(path, planner, &p->job->model, &p->job->inputs, p->stage, out));
    GALE_TRY(gale__model_inputs_make(*out, &p->job->inputs, false, &p->inputs));
    p->n_inputs = gale_model_inputs(*out);
    GALE_TRY(predict(p, *out, list, &best));
    log_choice(list, p->n, best);
    list[best].chosen = true;
    p->placements = list;
    p->chosen = p->devices[best];
    if (p->chosen == planner) return GALE_OK;
    gale_model_close(out);
    return gale__model_open_with(path, p->chosen, &p->job->model, &p->job->inputs, p->stage, out);
}
