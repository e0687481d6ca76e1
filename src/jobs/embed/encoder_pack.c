/* Packed batches: their inputs, and whether an encoder may use them.  The graph is rewritten by its form
 * (compose_pack.c), which proves nothing, so results decide: before the first packed batch some sequences of tokens run
 * packed and each by itself, on the CPU in single precision, and their vectors are compared.  The verdict is stored. */
#include "device/record.h"
#include "jobs/embed/embedder_inside.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define REVISION "2" /* of the rewriting: a new one asks for new verdicts */
#define NEAR 1e-5f

typedef gale__encoder_feed feed;

/* --- Inputs. --- */

/* What a run of places in an input holds: something of the tokens, 0, 1, 2 ..., or one value. */
typedef enum run_kind { IDS, TYPES, COUNT, VALUE } run_kind;
static void put(gale_tensor *t, size_t at, size_t n, run_kind kind, const uint32_t *tokens, int64_t value)
{
    if (!t) return;
    int64_t *wide = gale_tensor_type(t) == GALE_I64 ? gale_tensor_data(t) : NULL;
    int32_t *narrow = wide ? NULL : gale_tensor_data(t);
    for (size_t i = 0; i < n; i++) {
        int64_t v = kind == IDS     ? tokens[i] & 0xffffff
                    : kind == TYPES ? tokens[i] >> 24
                    : kind == COUNT ? (int64_t)i
                                    : value;
        if (wide) wide[at + i] = v;
        else narrow[at + i] = (int32_t)v;
    }
}

static gale_status add(
    feed *f, const char *name, gale_type type, int rank, size_t first, size_t second, gale_tensor **t)
{
    int64_t dims[2] = {(int64_t)first, (int64_t)second};
    f->names[f->n] = name;
    GALE_TRY(gale_tensor_create(NULL, type, rank, dims, &f->tensors[f->n]));
    *t = f->tensors[f->n++];
    return GALE_OK;
}

typedef struct inputs {
    gale_tensor *model[GALE__TEXT_INPUTS], *segments, *weights, *each, *texts, *places; /* NULL: not taken */
} inputs;

static gale_status add_all(const gale__composed *c, const gale__batch *b, feed *f, inputs *in)
{
    for (int i = 0; i < GALE__TEXT_INPUTS; i++)
        if (c->takes[i])
            GALE_TRY(add(f, gale__text_input_names[i], c->types[i], 2, b->slots, b->length, &in->model[i]));
    GALE_TRY(add(f, GALE__PACK_SEGMENTS, GALE_I32, 2, b->slots, b->length, &in->segments));
    GALE_TRY(add(f, GALE__POOL_INPUT, GALE_F32, 2, b->slots, b->length, &in->weights));
    GALE_TRY(add(f, GALE__PACK_EACH, GALE_I32, 1, b->each, 0, &in->each));
    GALE_TRY(add(f, GALE__PACK_TEXTS, GALE_I32, 1, b->texts, 0, &in->texts));
    return c->places ? add(f, GALE__PACK_PLACES, GALE_I32, 2, b->slots, b->length, &in->places) : GALE_OK;
}

/* Places from `at` on that no text takes are a text of their own.  Its token is not that of padding, which models may
 * hide, so that its vectors are numbers. */
static void put_padding(const inputs *in, size_t at, size_t end, uint32_t token)
{
    size_t n = end - at;
    put(in->model[GALE__TEXT_IDS], at, n, VALUE, NULL, token);
    put(in->model[GALE__TEXT_TYPES], at, n, VALUE, NULL, 0);
    put(in->model[GALE__TEXT_POSITIONS], at, n, VALUE, NULL, 0);
    put(in->places, at, n, VALUE, NULL, 0);
    put(in->segments, at, n, VALUE, NULL, -1);
    memset((float *)gale_tensor_data(in->weights) + at, 0, n * sizeof(float));
}

static void put_text(const inputs *in, size_t at, const gale__row *r, int64_t segment, gale_pooling pooling)
{
    float *weights = (float *)gale_tensor_data(in->weights) + at;
    put(in->model[GALE__TEXT_IDS], at, r->count, IDS, r->tokens, 0);
    put(in->model[GALE__TEXT_TYPES], at, r->count, TYPES, r->tokens, 0);
    put(in->model[GALE__TEXT_POSITIONS], at, r->count, COUNT, NULL, 0);
    put(in->places, at, r->count, COUNT, NULL, 0);
    put(in->segments, at, r->count, VALUE, NULL, segment);
    for (size_t i = 0; i < r->count; i++) weights[i] = gale__pooling_weight(pooling, i, r->skip, r->count);
}

gale_status gale__encoder_feed_packed(const gale_embedder *e, const gale__row *rows, const gale__batch *b, feed *f)
{
    inputs in = {0};
    gale__slot slot = {0};
    size_t filled = 0, all = b->slots * b->length;
    uint32_t padding = rows[0].count ? rows[0].tokens[0] & 0xffffff : 0;
    GALE_TRY(add_all(&e->pack.composed, b, f, &in));
    put(in.each, 0, b->each, COUNT, NULL, 0);
    put(in.model[GALE__TEXT_MASK], 0, all, VALUE, NULL, 1);
    for (size_t t = 0; t < b->count; t++) {
        gale__slot_next(&slot, &rows[t], b);
        size_t at = slot.number * b->length + slot.at;
        put_padding(&in, filled, at, padding);
        put_text(&in, at, &rows[t], (int64_t)slot.texts - 1, e->pack.composed.pooling);
        put(in.texts, t, 1, VALUE, NULL, (int64_t)(slot.number * b->each + slot.texts - 1));
        filled = at + rows[t].count;
    }
    put_padding(&in, filled, all, padding);
    put(in.texts, b->count, b->texts - b->count, VALUE, NULL, 0);
    return GALE_OK;
}

gale__batch gale__batch_packed(const gale_embedder *e, size_t tokens)
{
    size_t slots = gale__embedder_tokens(e, tokens) / GALE__PACK_LENGTH;
    if (!slots) slots = 1;
    return (gale__batch){
        .count = 1, .slots = slots, .length = GALE__PACK_LENGTH, .each = GALE__PACK_EACH_LEAST, .texts = 4 * slots};
}

/* Models may count positions by tokens that are not padding.  A text with such a token would move those after it. */
bool gale__embedder_shares(const gale_embedder *e, const gale__row *row)
{
    uint32_t i = 0;
    if (!e->pack.composed.places) return true;
    while (i < row->count && (row->tokens[i] & 0xffffff) != e->pad_id) i++;
    return i == row->count;
}

/* --- The decision. --- */

enum { SAMPLE = 9, LENGTH_MOST = GALE__PACK_LENGTH };

static void make_sample(const gale_embedder *e, uint32_t *tokens, gale__row *rows)
{
    size_t longest = e->info.max_length < LENGTH_MOST ? (size_t)e->info.max_length : LENGTH_MOST;
    const size_t lengths[SAMPLE] = {longest, longest / 2 + 3, longest / 3, longest / 4, 9, 5, 3, 2, 1};
    uint32_t vocabulary = (uint32_t)(e->info.vocabulary ? e->info.vocabulary : 256), state = 1;
    for (int i = 0; i < SAMPLE; i++, tokens += LENGTH_MOST) {
        size_t n = lengths[i] < longest ? lengths[i] : longest;
        rows[i] = (gale__row){tokens, (uint32_t)(n ? n : 1), 0, NULL};
        for (size_t k = 0; k < rows[i].count; k++) {
            state = state * 1664525 + 1013904223;
            tokens[k] = (state >> 8) % vocabulary;
            if (tokens[k] == e->pad_id) tokens[k] = (e->pad_id + 1) % vocabulary;
        }
    }
}

static gale_status compare(gale_tensor *alone, const float *packed)
{
    const float *a = gale_tensor_data(alone);
    size_t dims = gale_tensor_size_bytes(alone) / sizeof *a;
    float scale = 1;
    for (size_t i = 0; i < dims; i++) scale = fabsf(a[i]) > scale ? fabsf(a[i]) : scale;
    for (size_t i = 0; i < dims; i++)
        if (!(fabsf(a[i] - packed[i]) <= NEAR * scale))
            return gale__fail(GALE_MISMATCH, "the packing test failed: an element of a vector is %g instead of %g",
                (double)packed[i], (double)a[i]);
    return GALE_OK;
}

/* All texts packed, then each by itself, with its own length, as a batch of one has it. */
static gale_status run_sample(const gale_embedder *e, gale__encoder_place *p)
{
    uint32_t tokens[SAMPLE * LENGTH_MOST];
    gale__row rows[SAMPLE];
    gale__batch batches[SAMPLE];
    gale_tensor *alone = NULL, *packed = NULL;
    size_t n = 0;
    make_sample(e, tokens, rows);
    GALE_TRY(gale__rows_sort(rows, SAMPLE));
    GALE_TRY(gale__pack(rows, SAMPLE, 1 << 20, rows[0].count, batches, &n, NULL));
    batches[0].texts = SAMPLE;
    gale_status status = gale__encoder_run_once(e, p, rows, &batches[0], &packed);
    for (size_t i = 0; i < SAMPLE && status == GALE_OK; i++) {
        gale__batch one = {.count = 1, .slots = 1, .length = rows[i].count};
        status = gale__encoder_run_once(e, p, &rows[i], &one, &alone);
        bool fits = status == GALE_OK && gale_tensor_size_bytes(packed) == SAMPLE * gale_tensor_size_bytes(alone);
        if (status == GALE_OK && !fits)
            status = gale__fail(GALE_MISMATCH, "the packing test failed: packed texts give vectors of another size");
        size_t dims = fits ? gale_tensor_size_bytes(alone) / sizeof(float) : 0;
        if (fits) status = compare(alone, (const float *)gale_tensor_data(packed) + i * dims);
        gale_tensor_destroy(&alone);
    }
    gale_tensor_destroy(&packed);
    return status;
}

static gale_status verify(gale_embedder *e)
{
    gale__encoder_place p = {0};
    gale_model_options options = {0};
    GALE_TRY(gale_device_open(&(gale_device_options){.chain = "cpu"}, &p.device));
    gale_status status = gale__encoder_model(e, p.device, &options, true, true, &e->pack.composed, &p.packed);
    if (status == GALE_OK) status = gale__encoder_model(e, p.device, &options, false, true, &e->composed, &p.model);
    if (status == GALE_OK) status = run_sample(e, &p);
    gale_model_close(&p.packed);
    gale_model_close(&p.model);
    gale_device_close(&p.device);
    return status;
}

static void write_verdict(gale__json_out *j, const void *user) { gale__json_put_text(j, "why", user); }

/* What is stored about it; *known: anything. */
static gale_status recall(gale_embedder *e, const gale_device_info *info, char extra[160], bool *known)
{
    char key[65];
    gale__arena arena = {0};
    gale__json *root = NULL;
    GALE_TRY(gale__embedder_model_key(e, key));
    snprintf(extra, 160, "%s %s %s", REVISION, gale_version(), key);
    gale__record_read(info, "packing", extra, &arena, &root);
    if (root) snprintf(e->pack.why, sizeof e->pack.why, "%s", gale__json_text(root, "why", "?"));
    gale__arena_finish(&arena);
    *known = root != NULL;
    return GALE_OK;
}

gale_status gale__embedder_recall_packing(gale_embedder *e, const gale_device *device)
{
    const gale_device_info *info = gale_device_get_info(device);
    char extra[160];
    bool known = false;
    if (info->caps.host_functions || info->caps.software) return GALE_OK;
    GALE_TRY(recall(e, info, extra, &known));
    e->pack.tried = known;
    e->pack.on = known && !*e->pack.why;
    return GALE_OK;
}

/* What is stored, else what a test says. */
static gale_status decide(gale_embedder *e)
{
    char extra[160];
    bool known = false;
    const gale_device_info *info = gale_device_get_info(gale__embedder_device(e, 0));
    GALE_TRY(recall(e, info, extra, &known));
    if (known) return GALE_OK;
    gale_status status = verify(e);
    if (status == GALE_NO_MEMORY || status == GALE_CANCELLED || status == GALE_DEADLINE) return status;
    if (status != GALE_OK) snprintf(e->pack.why, sizeof e->pack.why, "%s", gale_error());
    if (gale__record_write(info, "packing", extra, write_verdict, e->pack.why) != GALE_OK)
        gale__log(GALE__INFO, "the result of the packing test is not stored: %s", gale_error());
    gale__error_clear();
    return GALE_OK;
}

gale_status gale__embedder_pack(gale_embedder *e, bool *packs, const char **why)
{
    gale_status status = GALE_OK;
    gale__mutex_lock(&e->lock);
    if (e->heuristic) snprintf(e->pack.why, sizeof e->pack.why, "there is no model");
    else if (!e->pack.tried) {
        status = decide(e);
        if (status == GALE_OK && !*e->pack.why) status = gale__encoder_open_packed(e);
        e->pack.tried = status == GALE_OK;
        e->pack.on = status == GALE_OK && !*e->pack.why;
    }
    *packs = e->pack.on;
    *why = e->pack.why;
    gale__mutex_unlock(&e->lock);
    return status;
}
