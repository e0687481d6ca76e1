/* The devices that a job on a model file may use, and the model opened on the one that gale_model_place chooses. */
#include "jobs/model/placement.h"
#include "device/device.h"
#include "jobs/model/model_inputs.h"
#include "onnx/run/model_place.h"

gale_status gale__devices_for(
    gale_device *device, gale_device *const *others, int n_others, gale__arena *arena, gale__placing *out)
{
    gale_device *other = n_others ? NULL : gale__place_other(device);
    int n = 1 + n_others + (other != NULL);
    gale_device **list = gale__arena_alloc(arena, (size_t)n * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    list[0] = device;
    for (int i = 0; i < n_others; i++) list[1 + i] = others[i];
    if (other) list[1] = other;
    out->devices = list;
    out->n = n;
    out->chosen = device;
    out->predicted_us = -1;
    return GALE_OK;
}

/* Planning compiles nothing where kernels are host functions. */
static gale_device *planner_of(const gale__placing *p)
{
    for (int i = 0; i < p->n; i++)
        if (gale_device_get_info(p->devices[i])->caps.host_functions) return p->devices[i];
    return p->devices[0];
}

static gale_status note_placements(gale__placing *p, const double *times_us, int best, gale__arena *arena)
{
    gale_placement *list = gale__arena_alloc(arena, (size_t)p->n * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    for (int i = 0; i < p->n; i++) {
        const gale_device_info *info = gale_device_get_info(p->devices[i]);
        list[i].device = gale__arena_printf(arena, "%s:%d", info->backend, info->index);
        if (!list[i].device) return GALE_NO_MEMORY;
        list[i].predicted_us = times_us[i];
        list[i].chosen = i == best;
    }
    p->placements = list;
    p->n_placements = (size_t)p->n;
    p->chosen = p->devices[best];
    p->predicted_us = times_us[best];
    return GALE_OK;
}

/* Progress counts devices, since it never goes back. */
static gale_status report_trial(void *stage, int done, int n)
{
    const gale__job_stage *s = stage;
    return s ? gale__job_tell(s->control, "trial", "devices", (uint64_t)done, (uint64_t)n) : GALE_OK;
}

gale_status gale__model_open_placed(gale__placing *p, const char *path, gale__arena *arena, gale_model **out)
{
    gale_device *planner = p->n > 1 ? planner_of(p) : p->chosen;
    int best = 0;
    GALE_TRY(gale__model_open_with(path, planner, p->model, p->inputs_wanted, p->stage, out));
    GALE_TRY(gale__model_inputs_make(*out, p->inputs_wanted, p->random, &p->inputs));
    p->n_inputs = gale_model_inputs(*out);
    if (p->n == 1) return GALE_OK;
    double *times_us = gale__arena_alloc(arena, (size_t)p->n * sizeof *times_us);
    if (!times_us) return GALE_NO_MEMORY;
    GALE_TRY(
        gale__place(*out, p->inputs, p->devices, p->n, &(gale__place_told){report_trial, p->stage}, times_us, &best));
    GALE_TRY(note_placements(p, times_us, best, arena));
    if (p->chosen == planner) return GALE_OK;
    gale_model_close(out);
    return gale__model_open_with(path, p->chosen, p->model, p->inputs_wanted, p->stage, out);
}

gale_status gale__model_choose(gale__placing *p, const char *path, gale__arena *arena)
{
    gale_model *m = NULL;
    if (p->n == 1) return GALE_OK;
    gale_status status = gale__model_open_placed(p, path, arena, &m);
    gale__objects_free(&p->inputs, p->n_inputs);
    gale_model_close(&m);
    return status;
}

void gale__placements_json(gale__json_out *j, const gale_placement *list, size_t n)
{
    if (!n) return;
    gale__json_open(j, "placement", '[');
    for (size_t i = 0; i < n; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "device", list[i].device);
        gale__json_key(j, "predicted_us");
        if (list[i].predicted_us >= 0) gale__json_f64(j, list[i].predicted_us);
        else gale__json_null(j);
        gale__json_put_bool(j, "chosen", list[i].chosen);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}
