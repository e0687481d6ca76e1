/* An encoder of text: a folder's model with pooling in its graph, its tokenizer, and where it runs.
 *
 * Runs may come from many threads.  A device that fails is left for the next of its chain; the model that ran there
 * stays until the embedder is closed, since other threads may still be in it. */
#include "device/device.h"
#include "jobs/embed/embedder_inside.h"
#include "jobs/embed/heuristic.h"
#include "onnx/run/session.h"
#include <stdio.h>
#include <string.h>

enum {
    TOKENS_HOST = 1024,    /* in a run: on the CPU what caches like, */
    TOKENS_DEVICE = 32768, /* elsewhere what keeps a device busy */
    LENGTH_USUAL = 512
};

const char *gale_pooling_name(gale_pooling pooling)
{
    static const char *const names[GALE_POOLING_COUNT] = {
        "auto", "mean", "cls", "max", "last", "mean-sqrt", "weighted", "model"};
    return (unsigned)pooling < GALE_POOLING_COUNT ? names[pooling] : "?";
}

static bool is_of_device(gale_status status)
{
    return status == GALE_NO_MEMORY || status == GALE_UNSUPPORTED || status == GALE_BUILD ||
           status == GALE_DEVICE_LOST || status == GALE_TIMEOUT;
}

/* --- Where it runs. --- */

/* Plans of all lengths should stay: an encoder has a device's memory for itself more often than not. */
static gale_model_options options_for(const gale_embedder *e, const gale_device *device)
{
    const gale_device_caps *caps = &gale_device_get_info(device)->caps;
    gale_model_options o = e->options;
    if (!o.program.plan_memory_bytes && !caps->host_functions) o.program.plan_memory_bytes = caps->memory_bytes / 2;
    return o;
}

static gale_status open_place(gale_embedder *e, gale_device *device, bool own, gale__encoder_place **out)
{
    gale__onnx *file = NULL;
    gale_model_options options = options_for(e, device);
    gale__encoder_place *p = gale__calloc(1, sizeof *p);
    gale_status status = p ? gale__onnx_open(e->folder.model, GALE__PB_KIND_MODEL, &file) : GALE_NO_MEMORY;
    if (status == GALE_OK) {
        status = gale__compose(file, e->wanted, e->folder.pooling, e->dims_wanted, e->info.normalized, &e->composed);
        if (status == GALE_OK) status = gale__onnx_model_from_file(&file, device, &options, &p->model);
        else gale__onnx_close(&file);
        if (status != GALE_OK) gale__fail_within(status, "%s", e->folder.model);
    }
    if (status != GALE_OK) return gale__free(p), status;
    p->device = device;
    p->own = own;
    *out = p;
    return GALE_OK;
}

/* The next device of the chain that opens the model, with a line about each step. */
static gale_status step_down(gale_embedder *e, gale_device *from, gale_status status)
{
    char why[1024];
    gale__encoder_place *p = NULL;
    gale_device *tried = NULL;
    while (is_of_device(status)) {
        gale_device *next = NULL;
        snprintf(why, sizeof why, "%s", *gale_error() ? gale_error() : gale_status_text(status));
        gale_status asked = gale__device_next(tried ? tried : from, status, &next);
        gale_device_close(&tried);
        if (asked != GALE_OK) return asked;
        tried = next;
        gale__log(GALE__WARN, "%s; falling back to %s", why, gale_device_get_info(next)->backend);
        status = open_place(e, next, true, &p);
    }
    if (status != GALE_OK) return gale_device_close(&tried), status;
    p->before = atomic_load(&e->place);
    atomic_store(&e->place, p);
    return GALE_OK;
}

/* Many threads may see the device fail: the first one falls back, the others find it done. */
static gale_status step_down_once(gale_embedder *e, gale__encoder_place *failed, gale_status status)
{
    gale__mutex_lock(&e->lock);
    if (atomic_load(&e->place) == failed) status = step_down(e, failed->device, status);
    else status = GALE_OK;
    gale__mutex_unlock(&e->lock);
    return status;
}

gale_status gale__embedder_run(gale_embedder *e, const gale__row *rows, size_t count, size_t slots, size_t length)
{
    gale__encoder_place *p = atomic_load(&e->place);
    for (size_t i = 0; e->heuristic && i < count; i++)
        memcpy(rows[i].out, rows[i].tokens, rows[i].count * sizeof *rows[i].out);
    if (e->heuristic) return GALE_OK;
    gale_status status = gale__encoder_run_at(e, p, rows, count, slots, length);
    if (status == GALE_NO_MEMORY && slots > 1) {
        size_t half = slots / 2, now = atomic_load(&e->tokens);
        if (now > half * length) {
            atomic_store(&e->tokens, half * length);
            gale__log(GALE__WARN, "%s; halving the batch to %zu texts", gale_error(), half);
        }
        size_t first = count < half ? count : half;
        GALE_TRY(gale__embedder_run(e, rows, first, half, length));
        return count > first ? gale__embedder_run(e, rows + first, count - first, slots - half, length) : GALE_OK;
    }
    if (status == GALE_OK || !is_of_device(status)) return status;
    GALE_TRY(step_down_once(e, p, status));
    return gale__embedder_run(e, rows, count, slots, length);
}

size_t gale__embedder_tokens(const gale_embedder *e) { return atomic_load(&e->tokens); }
gale_device *gale__embedder_device(const gale_embedder *e) { return atomic_load(&e->place)->device; }

const gale_device *gale_embedder_device(const gale_embedder *e)
{
    if (!e) return gale__lack(__func__, "embedder"), NULL;
    return gale__embedder_device(e);
}

void gale_embedder_get_info(const gale_embedder *e, gale_embedder_info *out)
{
    if (GALE__LACKS({"embedder", e}, {"out", out})) return;
    *out = e->info;
}

/* --- Opening. --- */

static gale_status open_tokenizer(gale_embedder *e)
{
    gale_tokenizer_info info;
    uint32_t id;
    static const char *const pads[] = {"[PAD]", "<pad>", "<|endoftext|>", NULL};
    gale_status status = gale_tokenizer_open(e->folder.path, &e->tokenizer);
    if (status != GALE_OK) return gale__fail_within(status, "the encoder's tokenizer");
    gale_tokenizer_get_info(e->tokenizer, &info);
    e->pad_id = info.pads ? info.pad_id : 0;
    for (int i = 0; !info.pads && e->folder.pad_id < 0 && pads[i]; i++)
        if (gale_tokenizer_find(e->tokenizer, pads[i], strlen(pads[i]), &id) == GALE_OK) {
            e->pad_id = id;
            break;
        }
    if (e->folder.pad_id >= 0) e->pad_id = (uint32_t)e->folder.pad_id;
    if (!e->info.max_length) e->info.max_length = e->folder.max_length;
    if (!e->info.max_length) e->info.max_length = info.max_length ? (int64_t)info.max_length : LENGTH_USUAL;
    if (e->folder.max_length && e->info.max_length > e->folder.max_length)
        gale__log(GALE__WARN, "%s: the model is limited to %lld tokens per text, but %lld were requested",
            e->folder.path, (long long)e->folder.max_length, (long long)e->info.max_length);
    return GALE_OK;
}

static gale_status check_vocabulary(gale_embedder *e)
{
    int64_t rows = e->composed.vocabulary ? e->composed.vocabulary : e->folder.vocabulary;
    size_t size = gale_tokenizer_size(e->tokenizer);
    e->info.vocabulary = rows;
    if (!rows || (int64_t)size <= rows) {
        if (rows && e->pad_id >= (uint64_t)rows) e->pad_id = 0;
        return GALE_OK;
    }
    return gale__fail(GALE_MISMATCH, "%s: the tokenizer has %zu tokens but the model %lld: they do not belong together",
        e->folder.path, size, (long long)rows);
}

/* How many tokens of a text come from the prompt: all of the prompt's alone, without what is added behind it. */
static gale_status count_prompt(gale_embedder *e)
{
    gale__row_maker m;
    uint32_t *tokens = NULL, count = 0, skip;
    size_t used = 0, capacity = 0;
    gale_tokenizer_info info;
    if (!e->prompt_size || e->folder.prompt_in_pooling) return GALE_OK;
    gale_tokenizer_get_info(e->tokenizer, &info);
    GALE_TRY(gale__row_maker_init(e, &m));
    gale_status status = gale__row_make(e, &m, "", 0, &tokens, &used, &capacity, &count, &skip);
    e->prompt_tokens = count && info.special_count ? count - 1 : count;
    gale__row_maker_finish(&m);
    gale__free(tokens);
    return status;
}

/* A short run finds out how long vectors are, and whether the device runs the model at all. */
static gale_status try_model(gale_embedder *e)
{
    uint32_t tokens[2] = {e->pad_id, e->pad_id};
    gale__row row = {tokens, 2, 0, NULL};
    for (;;) {
        gale_tensor *out = NULL;
        gale__encoder_place *p = atomic_load(&e->place);
        gale_status status = gale__encoder_run_once(e, p, &row, 1, 1, 2, &out);
        if (status == GALE_OK) {
            bool fits = gale_tensor_rank(out) == 2 && gale_tensor_type(out) == GALE_F32;
            e->info.dims = fits ? gale_tensor_dims(out)[1] : 0;
            gale_tensor_destroy(&out);
            if (!fits || e->info.dims < 1)
                return gale__fail(
                    GALE_UNSUPPORTED, "%s: the model does not produce one vector per text", e->folder.model);
            break;
        }
        if (!is_of_device(status)) return gale__fail_within(status, "%s", e->folder.model);
        GALE_TRY(step_down_once(e, p, status));
    }
    if (e->dims_wanted > e->info.dims)
        return gale__fail(GALE_INVALID, "%s: vectors have %lld numbers, but %lld were requested", e->folder.model,
            (long long)e->info.dims, (long long)e->dims_wanted);
    return GALE_OK;
}

static void describe(gale_embedder *e)
{
    e->info.model = e->folder.model;
    e->info.family = e->folder.family;
    e->info.pooling = e->composed.pooling;
    e->info.takes_mask = e->composed.takes[GALE__TEXT_MASK];
    e->info.takes_types = e->composed.takes[GALE__TEXT_TYPES];
    e->info.takes_positions = e->composed.takes[GALE__TEXT_POSITIONS];
}

static gale_status open_parts(gale_embedder *e, const char *path, gale_device *device, const gale_embedder_options *o)
{
    gale__encoder_place *p = NULL;
    GALE_TRY(gale__encoder_folder_open(path, o->file, &e->folder));
    e->info.max_length = o->max_length;
    GALE_TRY(open_tokenizer(e));
    e->info.prompt = o->prompt ? gale__arena_strdup(&e->folder.arena, o->prompt) : "";
    if (!o->prompt) GALE_TRY(gale__encoder_folder_prompt(&e->folder, o->prompt_name, &e->info.prompt));
    if (!e->info.prompt) return GALE_NO_MEMORY;
    e->prompt_size = strlen(e->info.prompt);
    gale_status status = open_place(e, device, false, &p);
    if (status == GALE_OK) atomic_store(&e->place, p);
    else GALE_TRY(step_down(e, device, status));
    describe(e);
    GALE_TRY(check_vocabulary(e));
    GALE_TRY(count_prompt(e));
    GALE_TRY(try_model(e));
    const gale_device_info *info = gale_device_get_info(gale__embedder_device(e));
    atomic_store(&e->tokens, info->caps.host_functions || info->caps.software ? TOKENS_HOST : TOKENS_DEVICE);
    return GALE_OK;
}

static gale_status open_heuristic(gale_embedder *e, gale_device *device, const gale_embedder_options *o)
{
    gale__encoder_place *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    p->device = device;
    atomic_store(&e->place, p);
    atomic_store(&e->tokens, TOKENS_DEVICE);
    if (o->dims > GALE__HEURISTIC_DIMS || o->prompt_name)
        return gale__fail(GALE_INVALID, "the heuristic produces %d numbers and has no prompts", GALE__HEURISTIC_DIMS);
    e->heuristic = true;
    e->info.model = e->info.family = GALE__HEURISTIC;
    e->info.prompt = o->prompt ? gale__arena_strdup(&e->folder.arena, o->prompt) : "";
    e->info.dims = o->dims ? o->dims : GALE__HEURISTIC_DIMS;
    e->info.max_length = GALE__HEURISTIC_DIMS + 1;
    e->info.pooling = GALE_POOLING_MODEL;
    if (!e->info.prompt) return GALE_NO_MEMORY;
    e->prompt_size = strlen(e->info.prompt);
    return GALE_OK;
}

gale_status gale_embedder_open(
    const char *path, gale_device *device, const gale_embedder_options *options, gale_embedder **out)
{
    GALE__NEED({"path", path}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    gale_embedder_options none = {0}, o = options ? *options : none;
    if ((unsigned)o.pooling >= GALE_POOLING_COUNT || o.dims < 0 || o.max_length < 0)
        return gale__fail(GALE_INVALID, "an embedder option is out of range");
    gale_embedder *e = gale__calloc(1, sizeof *e);
    if (!e) return GALE_NO_MEMORY;
    gale__mutex_init(&e->lock);
    e->options = o.model;
    e->wanted = o.pooling;
    e->dims_wanted = o.dims;
    e->info.normalized = !o.no_normalize;
    gale_status status =
        !strcmp(path, GALE__HEURISTIC) ? open_heuristic(e, device, &o) : open_parts(e, path, device, &o);
    if (status == GALE_OK) *out = e;
    else gale_embedder_close(&e);
    return status;
}

void gale_embedder_close(gale_embedder **embedder)
{
    gale_embedder *e = embedder ? *embedder : NULL;
    if (!e) return;
    for (gale__encoder_place *p = atomic_load(&e->place), *before; p; p = before) {
        before = p->before;
        gale_model_close(&p->model);
        if (p->own) gale_device_close(&p->device);
        gale__free(p);
    }
    for (int i = 0; i < e->n_makers; i++) gale__row_maker_finish(&e->makers[i]);
    gale_tokenizer_destroy(&e->tokenizer);
    gale__encoder_folder_finish(&e->folder);
    gale__mutex_finish(&e->lock);
    gale__free(e);
    *embedder = NULL;
}
