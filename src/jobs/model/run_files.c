/* One run of a model, values from and to files. */
#include "base/num.h"
#include "device/device.h"
#include "gale/profile.h"
#include "jobs/model/data_file.h"
#include "jobs/model/data_picture.h"
#include "jobs/model/model_inputs.h"
#include "jobs/model/placement.h"
#include "onnx/run/model_place.h"
#include "onnx/run/session.h"
#include <math.h>
#include <string.h>

/* With a profile, a run before it takes planning and compiling out of the picture. */
static gale_status run_model(
    gale_model *m, const gale_run_options *o, gale_device *device, gale_object **inputs, gale_object ***outputs)
{
    const char *profile = o->profile;
    uint64_t seed = o->job.inputs.seed;
    gale_profiler *p = NULL;
    if (!profile) return gale__model_run_once(m, inputs, seed, true, outputs);
    GALE_TRY(gale__model_run_once(m, inputs, seed, true, NULL));
    GALE_TRY(gale_profiler_start(device, &p));
    gale_status status = gale__model_run_once(m, inputs, seed, true, outputs);
    gale_status stopped = gale_profiler_stop(p);
    if (status == GALE_OK) status = stopped;
    const char *dot = strrchr(profile, '.');
    if (status == GALE_OK) status = gale_profiler_write(p, dot && !strcmp(dot, ".json") ? "trace" : "table", profile);
    gale_profiler_destroy(&p);
    return status;
}

/* Extents of the only picture that is given, for masks to be laid over it; 0: there is none, or there are several. */
static gale_status find_extents(const gale_run_options *o, int64_t extents[2])
{
    const gale_input_options *in = &o->job.inputs;
    const char *path = NULL;
    int n = 0;
    bool wanted = false;
    extents[0] = extents[1] = 0;
    for (int i = 0; i < o->n_outputs; i++) wanted |= gale__is_picture(o->outputs[i]);
    for (int i = 0; i < in->n_files && wanted; i++) {
        const char *equals = strchr(in->files[i], '='), *file = equals ? equals + 1 : in->files[i];
        if (gale__is_picture(file)) path = file, n++;
    }
    if (n != 1) return GALE_OK;
    gale_picture *p = NULL;
    GALE_TRY(gale_picture_read(path, &(gale_picture_read_options){.first_frame = true}, &p));
    extents[0] = p->width;
    extents[1] = p->height;
    gale_picture_destroy(&p);
    return GALE_OK;
}

/* Whether the model fixes the extents of its pictures: then they were resized, and results are resized back. */
static bool fixes_extents(gale_model *m)
{
    for (int i = 0; i < gale_model_inputs(m); i++) {
        gale_model_value v;
        if (gale_model_input(m, i, &v) != GALE_OK || v.rank < 3) continue;
        for (int k = v.rank - 3; k < v.rank; k++)
            if (v.dims[k] > 4) return true;
    }
    return false;
}

static gale_status write_output(
    const char *file, const gale_object *value, const gale_run_options *o, const int64_t extents[2])
{
    if (!gale__is_picture(file)) return gale__data_write(file, value);
    return gale__picture_from_output(file, value, &o->job.inputs.pixels, extents[0], extents[1]);
}

/* Which output a file without a name is for: the only one, or, for a picture, the first that is one. */
static int unnamed_output(const gale_run_options *o, gale_object **outputs, int n)
{
    bool picture = false;
    for (int i = 0; i < o->n_outputs; i++) picture |= !strchr(o->outputs[i], '=') && gale__is_picture(o->outputs[i]);
    for (int i = 0; i < n && picture; i++)
        if (gale__picture_is_output(outputs[i])) return i;
    return n == 1 ? 0 : -1;
}

/* Outputs become the result's one by one, so that each is freed once whatever fails. */
static gale_status hand_over(gale_model *m, const gale_run_options *o, gale_object **outputs, gale_run_result *r)
{
    int n = gale_model_outputs(m);
    gale__arena *arena = gale__result_arena(r);
    gale_run_output *list = gale__arena_alloc(arena, ((size_t)n + 1) * sizeof *list);
    int64_t extents[2] = {0, 0};
    int unnamed = unnamed_output(o, outputs, n);
    if (!list) return GALE_NO_MEMORY;
    r->outputs = list;
    if (fixes_extents(m) || o->job.inputs.n_dims) GALE_TRY(find_extents(o, extents));
    for (int i = 0; i < n; i++) {
        gale_model_value v;
        GALE_TRY(gale_model_output(m, i, &v));
        if (!(list[i].name = gale__arena_strdup(arena, v.name))) return GALE_NO_MEMORY;
        list[i].value = outputs[i];
        outputs[i] = NULL;
        r->n_outputs++;
        const char *file = gale__text_for(o->outputs, o->n_outputs, v.name, i == unnamed);
        if (file) GALE_TRY(write_output(file, list[i].value, o, extents));
        if (o->done) o->done(o->user, &list[i]);
    }
    return GALE_OK;
}

static gale_status add_report(gale_model *m, gale_run_result *r)
{
    char *report = NULL;
    GALE_TRY(gale_model_report(m, 0, &report));
    r->report = gale__arena_strdup(gale__result_arena(r), report);
    gale_free(report);
    return r->report ? GALE_OK : GALE_NO_MEMORY;
}

/* The model on the device, or on the best of several, and its inputs. */
static gale_status open_model(
    const char *path, const gale_run_options *o, gale__placing *p, gale_run_result *r, gale_model **out)
{
    GALE_TRY(gale__model_open_placed(p, path, gale__result_arena(r), out));
    r->placements = p->placements;
    r->n_placements = p->n_placements;
    return gale__model_outputs_check(*out, o->outputs, o->n_outputs);
}

static gale_status run_files(const char *path, gale_device *device, const gale_run_options *options, gale_run_result *r)
{
    gale_run_options completed = *options, *o = &completed;
    gale__job_stage stage = {&o->job.control, "run"};
    gale__placing p = {.model = &o->job.model, .inputs_wanted = &o->job.inputs, .stage = &stage};
    gale_model *m = NULL;
    gale_object **outputs = NULL;
    gale_status status;
    GALE_TRY(gale__inputs_complete(path, gale__result_arena(r), &completed.job.inputs));
    GALE_TRY(gale__devices_for(device, o->others, o->n_others, gale__result_arena(r), &p));
    GALE_GO(open_model(path, o, &p, r, &m));
    GALE_GO(run_model(m, o, p.chosen, p.inputs, &outputs));
    r->took_us = gale__onnx_model_session(m)->counts.run_us;
    gale__place_note(p.chosen, "a run", p.predicted_us, r->took_us);
    GALE_GO(hand_over(m, o, outputs, r));
    if (o->report) status = add_report(m, r);
done:
    gale__objects_free(&p.inputs, p.n_inputs);
    if (m) gale__objects_free(&outputs, gale_model_outputs(m));
    gale_model_close(&m);
    return status;
}

gale_status gale_model_run_files(
    const char *path, gale_device *device, const gale_run_options *options, gale_run_result **out)
{
    GALE__NEED({"path", path}, {"device", device});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    if (options && options->n_others < 0)
        return gale__fail(
            GALE_INVALID, "gale_model_run_files: n_others is %d; it must not be negative", options->n_others);
    for (int i = 0; options && i < options->n_others; i++)
        if (!options->others || !options->others[i])
            return gale__fail(GALE_INVALID, "gale_model_run_files: others[%d] is NULL", i);
    static const gale_run_options usual = {0};
    gale_run_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? run_files(path, device, options ? options : &usual, result) : GALE_NO_MEMORY;
    if (status == GALE_OK && out) *out = result;
    else gale_run_result_destroy(&result);
    return status;
}

void gale_run_result_destroy(gale_run_result **result)
{
    gale_run_result *r = result ? *result : NULL;
    if (!r) return;
    for (size_t i = 0; i < r->n_outputs; i++) {
        gale_object *value = r->outputs[i].value;
        gale_object_destroy(&value);
    }
    gale__result_destroy(r);
    *result = NULL;
}

bool gale__tensor_statistics(gale_tensor *t, gale__statistics *out)
{
    gale_type type = gale_tensor_type(t);
    size_t size = gale_type_size(type), n = size ? gale_tensor_size_bytes(t) / size : 0, seen = 0;
    const char *data = gale_tensor_data(t);
    double sum = 0, squares = 0;
    *out = (gale__statistics){0};
    if (type == GALE_STRING || !n || !data) return false;
    for (size_t i = 0; i < n; i++) {
        double v = gale__load_f64(type, data + i * size);
        if (!isfinite(v)) {
            out->not_finite++;
            continue;
        }
        out->least = !seen || v < out->least ? v : out->least;
        out->largest = !seen || v > out->largest ? v : out->largest;
        sum += v, squares += v * v;
        seen++;
    }
    double many = seen ? (double)seen : 1;
    out->mean = sum / many;
    out->deviation = sqrt(fmax(0, squares / many - out->mean * out->mean));
    return true;
}

static void add_output(gale__json_out *j, const gale_run_output *o)
{
    static const char *const kinds[] = {"none", "tensor", "sequence", "map"};
    gale_tensor *t = gale_object_get_tensor(o->value);
    gale__json_object(j);
    gale__json_put_text(j, "name", o->name);
    gale__json_put_text(j, "kind", kinds[gale_object_get_kind(o->value)]);
    if (gale_object_get_kind(o->value) == GALE_OBJECT_TENSOR) {
        gale__json_put_text(j, "type", gale_type_name(gale_tensor_type(t)));
        gale__json_open(j, "shape", '[');
        for (int i = 0; i < gale_tensor_rank(t); i++) gale__json_i64(j, gale_tensor_dims(t)[i]);
        gale__json_close(j, ']');
        gale__statistics s;
        if (gale__tensor_statistics(t, &s)) {
            gale__json_put_f64(j, "least", s.least);
            gale__json_put_f64(j, "largest", s.largest);
            gale__json_put_f64(j, "mean", s.mean);
            gale__json_put_f64(j, "deviation", s.deviation);
            gale__json_put_u64(j, "not_finite", s.not_finite);
        }
    } else gale__json_put_u64(j, "items", gale_object_count(o->value));
    gale__json_close(j, '}');
}

GALE__RESULT_JSON(gale_run_result, '{')
{
    gale__json_open(j, "outputs", '[');
    for (size_t i = 0; i < r->n_outputs; i++) add_output(j, &r->outputs[i]);
    gale__json_close(j, ']');
    gale__placements_json(j, r->placements, r->n_placements);
    gale__json_put_f64(j, "took_us", r->took_us);
    if (r->report) gale__json_put_text(j, "report", r->report);
}
