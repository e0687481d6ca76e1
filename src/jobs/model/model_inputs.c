/* Inputs of models: read from files, or random. */
#include "jobs/model/model_inputs.h"
#include "base/num.h"
#include "base/thread.h"
#include "jobs/model/data_file.h"
#include "jobs/model/data_picture.h"
#include "onnx/run/object.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The names in NAME=TEXT; copies. */
static gale_status add_names(const char *const *texts, int count, gale__arena *arena, const char **names, int *n)
{
    for (int i = 0; i < count; i++) {
        if (!strchr(texts[i], '=')) continue;
        names[*n] = gale__arena_printf(arena, "%.*s", (int)strcspn(texts[i], "="), texts[i]);
        if (!names[*n]) return GALE_NO_MEMORY;
        ++*n;
    }
    return GALE_OK;
}

void gale__model_follow(gale_model_options *options, gale__job_stage *stage)
{
    bool told = stage && stage->control && (stage->control->progress || stage->control->cancel);
    options->progress = told ? gale__job_step : NULL;
    options->user = stage;
    options->cancel = told ? stage->control->cancel : NULL;
}

gale_status gale__model_open_with(const char *path, gale_device *device, const gale_model_options *options,
    const gale_input_options *inputs, gale__job_stage *stage, gale_model **out)
{
    gale_model_options o = *options;
    gale__arena arena = {0};
    const char **names = gale__calloc((size_t)(inputs->n_files + inputs->n_shapes) + 1, sizeof *names);
    gale_status status = names ? GALE_OK : GALE_NO_MEMORY;
    o.n_given = 0;
    o.given = names;
    gale__model_follow(&o, stage);
    if (status == GALE_OK) status = add_names(inputs->files, inputs->n_files, &arena, names, &o.n_given);
    if (status == GALE_OK) status = add_names(inputs->shapes, inputs->n_shapes, &arena, names, &o.n_given);
    if (status == GALE_OK) status = gale_model_open(path, device, &o, out);
    gale__arena_finish(&arena);
    gale__free(names);
    return status;
}

const char *gale__text_for(const char *const *texts, int count, const char *key, bool only)
{
    const char *found = NULL;
    size_t n = strlen(key);
    for (int i = 0; i < count; i++) {
        if (!strncmp(texts[i], key, n) && texts[i][n] == '=') found = texts[i] + n + 1;
        else if (only && !strchr(texts[i], '=')) found = texts[i];
    }
    return found;
}

bool gale__shape_parse(const char *text, int *rank, int64_t *dims)
{
    int n = 0;
    for (const char *at = text; *at;) {
        char *end;
        if (*at < '0' || *at > '9' || n == GALE_MAX_RANK) return false;
        dims[n++] = strtoll(at, &end, 10);
        if (*end && *end != 'x' && *end != ',') return false;
        at = *end ? end + 1 : end;
    }
    *rank = n;
    return true;
}

const char *gale__shape_text(int rank, const int64_t *dims, const char *const *symbols, char buf[256])
{
    size_t at = 0;
    buf[0] = 0;
    if (rank < 0) return "any shape";
    for (int i = 0; i < rank && at < 230; i++) {
        const char *x = i ? "x" : "";
        if (dims[i] >= 0) at += (size_t)snprintf(buf + at, 256 - at, "%s%lld", x, (long long)dims[i]);
        else at += (size_t)snprintf(buf + at, 256 - at, "%s%.40s", x, symbols && symbols[i] ? symbols[i] : "?");
    }
    return rank ? buf : "one number";
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static gale_status fill(gale_tensor *t, uint64_t seed)
{
    gale_type type = gale_tensor_type(t);
    size_t size = gale_type_size(type), n = size ? gale_tensor_size_bytes(t) / size : 0;
    char *data = gale_tensor_data(t);
    if (type == GALE_STRING)
        return gale__fail(GALE_UNSUPPORTED, "strings cannot be random: give the input with --input");
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = mix(seed * 0x9e3779b97f4a7c15u + i);
        double v = (double)(bits >> 40) / 16777216.0;
        gale__store_f64(type, data + i * size, gale__type_is_float(type) ? v : (double)(bits >> 63));
    }
    return GALE_OK;
}

/* Open extents that were given a number by their names. */
static gale_status name_dims(const gale_input_options *o, const gale_model_value *v, int64_t *dims)
{
    for (int i = 0; i < v->rank; i++) {
        const char *text =
            dims[i] < 0 && v->symbols[i] ? gale__text_for(o->dims, o->n_dims, v->symbols[i], false) : NULL;
        if (text && (!gale__text_to_i64(text, &dims[i]) || dims[i] < 0))
            return gale__fail(GALE_INVALID, "--dim %s=%s: expected NAME=N", v->symbols[i], text);
    }
    return GALE_OK;
}

/* A name that no extent has is a mistake. */
static gale_status check_dims(gale_model *m, const gale_input_options *o)
{
    for (int i = 0; i < o->n_dims; i++) {
        bool known = false;
        size_t n = strcspn(o->dims[i], "=");
        for (int k = 0; !known && k < gale_model_inputs(m); k++) {
            gale_model_value v;
            GALE_TRY(gale_model_input(m, k, &v));
            for (int d = 0; d < v.rank; d++)
                known |= v.symbols[d] && strlen(v.symbols[d]) == n && !strncmp(v.symbols[d], o->dims[i], n);
        }
        if (!known)
            return gale__fail(
                GALE_INVALID, "--dim %s: no extent of an input has that name; `gale inspect` shows them", o->dims[i]);
    }
    return GALE_OK;
}

static gale_status make_up(
    const gale_input_options *o, const gale_model_value *v, int index, bool only, gale_object **out)
{
    int64_t dims[GALE_MAX_RANK];
    int rank = v->rank;
    char text[256];
    gale_tensor *t = NULL;
    const char *shape = gale__text_for(o->shapes, o->n_shapes, v->name, only);
    if (v->kind != GALE_OBJECT_TENSOR)
        return gale__fail(
            GALE_UNSUPPORTED, "input %s is a sequence or map: give it with --input %s=FILE", v->name, v->name);
    if (v->type == GALE_STRING)
        return gale__fail(GALE_UNSUPPORTED,
            "input %s takes strings, which cannot be random: give them with --input %s=FILE", v->name, v->name);
    memcpy(dims, v->dims, sizeof dims);
    if (shape && !gale__shape_parse(shape, &rank, dims))
        return gale__fail(GALE_INVALID, "--shape %s: '%s' is not a shape such as 1x3x256x256", v->name, shape);
    if (!shape) GALE_TRY(name_dims(o, v, dims));
    if (!shape && rank > 0 && dims[0] < 0) dims[0] = 1; /* one item */
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0)
            return gale__fail(GALE_INVALID, "input %s is %s: give its extents with --shape %s=..., or --dim NAME=N",
                v->name, gale__shape_text(v->rank, v->dims, v->symbols, text), v->name);
    if (rank < 0)
        return gale__fail(
            GALE_INVALID, "input %s has no declared shape: give one with --shape %s=...", v->name, v->name);
    GALE_TRY(gale_tensor_create(NULL, v->type, rank, dims, &t));
    gale_status status = fill(t, o->seed * 1000 + (uint64_t)index);
    if (status != GALE_OK) return gale_tensor_destroy(&t), status;
    return gale__onnx_object_take(&t, out);
}

/* The only input without a value in the file needs no name. */
static bool is_only(const gale_model *m, int input)
{
    for (int i = 0; i < gale_model_inputs(m); i++) {
        gale_model_value v;
        if (gale_model_input(m, i, &v) != GALE_OK || v.has_default != (i != input)) return false;
    }
    return true;
}

static gale_status make_one(gale_model *m, const gale_input_options *o, bool random, int i, gale_object **out)
{
    gale_model_value v;
    bool only = is_only(m, i);
    GALE_TRY(gale_model_input(m, i, &v));
    const char *file = gale__text_for(o->files, o->n_files, v.name, only);
    if (file && gale__is_picture(file)) GALE_TRY(name_dims(o, &v, v.dims));
    if (file && gale__is_picture(file)) return gale__picture_to_input(file, &v, &o->pixels, out);
    if (file) return gale__data_read(file, &v, out);
    if (random) return make_up(o, &v, i, only, out);
    if (v.optional) return gale_object_none(out);
    return gale__fail(
        GALE_INVALID, "missing input %s: use --input %s=FILE, or --random for random numbers", v.name, v.name);
}

/* An argument that names no input or output is a mistake, not a wish. */
static gale_status check_names(gale_model *m, const char *const *texts, int count, const char *argument, bool outputs)
{
    int n = outputs ? gale_model_outputs(m) : gale_model_inputs(m);
    for (int i = 0; i < count; i++) {
        const char *text = texts[i];
        bool known = false;
        for (int k = 0; !known && k < n; k++) {
            gale_model_value v;
            GALE_TRY(outputs ? gale_model_output(m, k, &v) : gale_model_input(m, k, &v));
            known = (!strncmp(text, v.name, strlen(v.name)) && text[strlen(v.name)] == '=') ||
                    (!strchr(text, '=') && (outputs ? n == 1 || gale__is_picture(text) : is_only(m, k)));
        }
        if (!known)
            return gale__fail(GALE_INVALID, "--%s %s: the model has no such %s; `gale inspect` lists them", argument,
                text, outputs ? "output" : "input");
    }
    return GALE_OK;
}

gale_status gale__model_outputs_check(gale_model *m, const char *const *texts, int n)
{
    return check_names(m, texts, n, "output", true);
}

gale_status gale__model_inputs_make(gale_model *m, const gale_input_options *o, bool random, gale_object ***out)
{
    int n = gale_model_inputs(m);
    GALE_TRY(check_names(m, o->files, o->n_files, "input", false));
    GALE_TRY(check_names(m, o->shapes, o->n_shapes, "shape", false));
    GALE_TRY(check_dims(m, o));
    gale_object **objects = gale__calloc((size_t)n + 1, sizeof *objects);
    gale_status status = objects ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; status == GALE_OK && i < n; i++) status = make_one(m, o, random || o->random, i, &objects[i]);
    if (status != GALE_OK) return gale__objects_free(&objects, n), status;
    *out = objects;
    return GALE_OK;
}

gale_status gale__model_run_once(
    gale_model *m, gale_object **inputs, uint64_t seed, bool on_host, gale_object ***outputs)
{
    int n = gale_model_outputs(m);
    gale_object **made = gale__calloc((size_t)n + 1, sizeof *made);
    if (!made) return GALE_NO_MEMORY;
    gale_run_control control = {.outputs_on_host = on_host, .seed = seed + 1 ? seed + 1 : 1};
    gale_status status = gale_model_run_with(m, inputs, made, &control);
    if (status == GALE_OK && outputs) *outputs = made;
    else gale__objects_free(&made, n);
    return status;
}

gale_status gale__model_run_timed(gale_model *m, gale_object **inputs, double *ms)
{
    gale_object **outputs = NULL;
    uint64_t start = gale__time_ns();
    GALE_TRY(gale__model_run_once(m, inputs, 0, true, &outputs));
    *ms = (double)(gale__time_ns() - start) / 1e6;
    gale__objects_free(&outputs, gale_model_outputs(m));
    return GALE_OK;
}

void gale__objects_free(gale_object ***objects, int count)
{
    for (int i = 0; *objects && i < count; i++) gale_object_destroy(&(*objects)[i]);
    gale__free(*objects);
    *objects = NULL;
}
