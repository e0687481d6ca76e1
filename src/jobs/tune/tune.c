/* Tunes a model: plans it in one run, collects its contractions, measures each class of them, the costliest first, and
 * records what was the fastest. */
#include "base/thread.h"
#include "device/device.h"
#include "jobs/model/model_inputs.h"
#include "jobs/tune/tune_bench.h"
#include <stdlib.h>
#include <string.h>

#define SECONDS 60

typedef struct found {
    gale__nest nest;
    char key[GALE__TUNING_KEY];
    int uses;
    double operations;
} found;
typedef struct collection {
    gale__arena arena;
    found **list;
    size_t count, capacity;
    uint64_t weight_bytes;
    gale_status status;
} collection;

static gale_status add(collection *c, const gale__nest *nest)
{
    char key[GALE__TUNING_KEY];
    int weight = gale__tune_weight(nest);
    size_t i = 0;
    double bytes;
    if (!gale__tuning_key(nest, key)) return GALE_OK;
    if (weight >= 0)
        c->weight_bytes +=
            (uint64_t)nest->buffers[weight].elements * (uint64_t)gale_type_size(nest->buffers[weight].type);
    while (i < c->count && strcmp(c->list[i]->key, key)) i++;
    if (i < c->count) return c->list[i]->uses++, GALE_OK;
    GALE_TRY(gale__grow((void **)&c->list, &c->capacity, c->count + 1, sizeof *c->list));
    found *f = gale__arena_alloc(&c->arena, sizeof *f);
    if (!f) return GALE_NO_MEMORY;
    GALE_TRY(gale__nest_copy(&c->arena, nest, &f->nest));
    memcpy(f->key, key, sizeof f->key);
    f->uses = 1;
    gale__nest_cost(nest, &bytes, &f->operations);
    c->list[c->count++] = f;
    return GALE_OK;
}

static void watch(void *user, const gale__nest *nest)
{
    collection *c = user;
    if (c->status == GALE_OK) c->status = add(c, nest);
}

static int by_cost(const void *a, const void *b)
{
    const found *x = *(found *const *)a, *y = *(found *const *)b;
    double p = x->operations * x->uses, q = y->operations * y->uses;
    return p != q ? (p < q ? 1 : -1) : strcmp(x->key, y->key);
}

static gale_status collect(const char *path, gale_device *device, const gale_model_job_options *o, collection *c)
{
    gale__job_stage stage = {&o->control, "run"};
    gale_model *m = NULL;
    gale_object **in = NULL;
    gale_status status;
    GALE_GO(gale__model_open_with(path, device, &o->model, &o->inputs, &stage, &m));
    if (gale_device_get_info(device)->caps.host_functions) goto done;
    GALE_GO(gale__model_inputs_make(m, &o->inputs, true, &in));
    GALE_GO(gale__tuning_follow(device, watch, c));
    status = gale__model_run_once(m, in, 0, false, NULL);
    gale__tuning_follow(device, NULL, NULL);
    if (status == GALE_OK) status = c->status;
    if (c->count) qsort(c->list, c->count, sizeof *c->list, by_cost);
done:
    if (m) gale__objects_free(&in, gale_model_inputs(m));
    gale_model_close(&m);
    return status;
}

static gale_status tune_one(gale__tune_bench *b, const found *f, gale_tune_result *r, gale_tune_kernel *k)
{
    gale__arena *arena = gale__result_arena(r);
    gale__tune_choice c;
    GALE_TRY(gale__tune_bench_run(b, &f->nest, &c));
    GALE_TRY(gale__tuning_set(b->device, f->key, c.wants[c.best]));
    gale_tune_candidate *list = gale__arena_alloc(arena, (size_t)c.n * sizeof *list);
    for (int i = 0; list && i < c.n; i++) {
        char text[GALE__WANT_TEXT];
        gale__schedule_want_text(c.wants[i], text);
        list[i] = (gale_tune_candidate){gale__arena_strdup(arena, text), c.us[i]};
        if (!list[i].name) return GALE_NO_MEMORY;
    }
    *k = (gale_tune_kernel){gale__arena_strdup(arena, f->key), f->uses, c.wrong};
    if (!list || !k->key) return GALE_NO_MEMORY;
    k->usual = list[0];
    k->best = list[c.best];
    k->candidates = list;
    k->n_candidates = (size_t)c.n;
    r->usual_us += k->usual.us * f->uses;
    r->best_us += k->best.us * f->uses;
    r->n_kernels++;
    return GALE_OK;
}

static gale_status tune_all(gale_device *device, const gale_tune_options *o, const collection *c, gale_tune_result *r)
{
    gale__tune_bench b = {.device = device, .weight_bytes = c->weight_bytes};
    gale_tune_kernel *kernels = gale__arena_alloc(gale__result_arena(r), (c->count + 1) * sizeof *kernels);
    uint64_t end = gale__time_ns() + (uint64_t)((o->seconds > 0 ? o->seconds : SECONDS) * 1e9);
    gale_status status = kernels ? gale__tune_bench_init(&b) : GALE_NO_MEMORY;
    r->kernels = kernels;
    for (size_t i = 0; i < c->count && status == GALE_OK && gale__time_ns() < end; i++) {
        status = gale__job_tell(&o->job.control, "tune", "kernels", i, c->count);
        if (status == GALE_OK) status = tune_one(&b, c->list[i], r, &kernels[i]);
    }
    r->n_left = c->count - r->n_kernels;
    gale__tune_bench_finish(&b);
    if (!r->n_kernels) return status; /* else what is known is kept, whatever came after it */
    gale_status saved = gale__tuning_save(device);
    return status == GALE_OK ? saved : status;
}

static gale_status tune(const char *path, gale_device *device, const gale_tune_options *o, gale_tune_result *r)
{
    collection c = {0};
    gale_status status = collect(path, device, &o->job, &c);
    r->device = gale__arena_strdup(gale__result_arena(r), gale_device_get_info(device)->name);
    if (status == GALE_OK && !r->device) status = GALE_NO_MEMORY;
    if (status == GALE_OK) status = tune_all(device, o, &c, r);
    gale__arena_finish(&c.arena);
    gale__free(c.list);
    return status;
}

gale_status gale_model_tune(
    const char *path, gale_device *device, const gale_tune_options *options, gale_tune_result **out)
{
    GALE__NEED({"path", path}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    static const gale_tune_options usual = {0};
    gale_tune_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? tune(path, device, options ? options : &usual, result) : GALE_NO_MEMORY;
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_tune_result)

GALE__RESULT_JSON(gale_tune_result, '{')
{
    gale__json_put_text(j, "device", r->device);
    gale__json_put_f64(j, "usual_us", r->usual_us);
    gale__json_put_f64(j, "best_us", r->best_us);
    gale__json_put_u64(j, "left", r->n_left);
    gale__json_open(j, "kernels", '[');
    for (const gale_tune_kernel *k = r->kernels; k && k < r->kernels + r->n_kernels; k++) {
        gale__json_object(j);
        gale__json_put_text(j, "key", k->key);
        gale__json_put_i64(j, "uses", k->uses);
        gale__json_put_i64(j, "wrong", k->wrong);
        gale__json_put_text(j, "usual", k->usual.name);
        gale__json_put_text(j, "best", k->best.name);
        gale__json_open(j, "candidates_us", '{');
        for (size_t i = 0; i < k->n_candidates; i++) gale__json_put_f64(j, k->candidates[i].name, k->candidates[i].us);
        gale__json_close(j, '}');
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}
