/* An encoder of text: a folder's model with pooling in its graph, its tokenizer, and the devices it runs on. */
#include "device/device.h"
#include "jobs/embed/embedder_inside.h"
#include "jobs/embed/heuristic.h"
#include "onnx/run/model_place.h"
#include "onnx/run/session.h"
#include <stdio.h>
#include <string.h>

enum { LENGTH_USUAL = 512 };

const char *gale_pooling_name(gale_pooling pooling)
{
    static const char *const names[GALE_POOLING_COUNT] = {
        "auto", "mean", "cls", "max", "last", "mean-sqrt", "weighted", "model"};
    return (unsigned)pooling < GALE_POOLING_COUNT ? names[pooling] : "?";
}

const gale_device *gale_embedder_device(const gale_embedder *e)
{
    if (!e) return gale__lack(__func__, "embedder"), NULL;
    return gale__embedder_device(e, 0);
}

gale_status gale_embedder_add_device(gale_embedder *e, gale_device *device)
{
    GALE__NEED({"embedder", e}, {"device", device});
    GALE__WITHIN(e->context);
    if (e->heuristic) return GALE_OK;
    if (e->n_sites == GALE__SITES) return gale__fail(GALE_LIMIT, "an embedder runs on at most %d devices", GALE__SITES);
    return gale__encoder_site_open(e, device);
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

/* How many tokens of a text come from the prompt: all of the prompt's alone, without what is added after it. */
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

/* A run finds out how long vectors are, and whether the device runs the model at all.  Where texts will be packed, it
 * is one of the batches that most of them will be in, so that their plan is made now. */
static gale_status try_model(gale_embedder *e)
{
    uint32_t tokens[2] = {e->pad_id, e->pad_id};
    gale__row row = {tokens, 2, 0, NULL};
    gale__batch least = {.count = 1, .slots = 1, .length = 2, .each = e->pack.on ? 2 : 0, .texts = 1};
    gale__batch b = e->pack.on && e->info.max_length >= GALE__PACK_LENGTH ? gale__batch_packed(e, 0) : least;
    for (;;) {
        gale_tensor *out = NULL;
        gale__encoder_place *p = atomic_load(&e->sites[0].place);
        gale_status status = gale__encoder_run_once(e, p, &row, &b, &out);
        if (status == GALE_OK) {
            bool fits = gale_tensor_rank(out) == 2 && gale_tensor_type(out) == GALE_F32;
            e->info.dims = fits ? gale_tensor_dims(out)[1] : 0;
            gale_tensor_destroy(&out);
            if (!fits || e->info.dims < 1)
                return gale__fail(
                    GALE_UNSUPPORTED, "%s: the model does not produce one vector per text", e->folder.model);
            break;
        }
        bool large = b.slots > 1;
        b = least;
        if (large && status == GALE_NO_MEMORY) continue;
        if (!gale__encoder_may_move(status)) return gale__fail_within(status, "%s", e->folder.model);
        GALE_TRY(gale__encoder_move(e, &e->sites[0], p, status));
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
    GALE_TRY(gale__encoder_folder_open(path, o->file, &e->folder));
    e->info.max_length = o->max_length;
    GALE_TRY(open_tokenizer(e));
    e->info.prompt = o->prompt ? gale__arena_strdup(&e->folder.arena, o->prompt) : "";
    if (!o->prompt) GALE_TRY(gale__encoder_folder_prompt(&e->folder, o->prompt_name, &e->info.prompt));
    if (!e->info.prompt) return GALE_NO_MEMORY;
    e->prompt_size = strlen(e->info.prompt);
    gale_device *other = gale__place_other(device);
    GALE_TRY(gale__encoder_site_open(e, other ? other : device));
    describe(e);
    if (other) GALE_TRY(gale__encoder_choose(e, device, other));
    GALE_TRY(check_vocabulary(e));
    GALE_TRY(count_prompt(e));
    return try_model(e);
}

static gale_status open_heuristic(gale_embedder *e, gale_device *device, const gale_embedder_options *o)
{
    gale__encoder_place *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    p->device = device;
    atomic_store(&e->sites[0].place, p);
    e->n_sites = 1;
    atomic_store(&e->tokens, GALE__HEURISTIC_TOKENS);
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
    GALE__WITHIN(device->context);
    gale_embedder_options none = {0}, o = options ? *options : none;
    if ((unsigned)o.pooling >= GALE_POOLING_COUNT || (unsigned)o.packing >= GALE_PACKING_COUNT || o.dims < 0 ||
        o.max_length < 0)
        return gale__fail(GALE_INVALID,
            "gale_embedder_options: pooling %d, packing %d, dims %lld, max_length %lld: one is out of range",
            (int)o.pooling, (int)o.packing, (long long)o.dims, (long long)o.max_length);
    gale_embedder *e = gale__calloc(1, sizeof *e);
    if (!e) return GALE_NO_MEMORY;
    gale__mutex_init(&e->lock);
    e->context = gale__context_hold(device->context);
    e->predicted_us = -1;
    e->options = o.model;
    e->wanted = o.pooling;
    e->dims_wanted = o.dims;
    e->pack.wanted = o.packing == GALE_PACKING_ON;
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
    for (int i = 0; i < GALE__SITES; i++) gale__encoder_site_close(&e->sites[i]);
    for (int i = 0; i < e->n_makers; i++) gale__row_maker_finish(&e->makers[i]);
    gale_tokenizer_destroy(&e->tokenizer);
    gale__encoder_folder_finish(&e->folder);
    gale__mutex_finish(&e->lock);
    gale__context_drop(e->context);
    gale__free(e);
    *embedder = NULL;
}
