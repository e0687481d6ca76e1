/* Converts rows of tokens to the model's input tensors, and copies its vectors to their destination.  Padding follows
 * the tokens, is masked, and has no weight in pooling. */
#include "jobs/embed/embedder_inside.h"
#include <string.h>

typedef gale__encoder_feed feed;

void gale__encoder_feed_finish(feed *f)
{
    for (int i = 0; i < f->n; i++) gale_tensor_destroy(&f->tensors[i]);
}

/* One row of an input: tokens, then padding. */
static void fill_row(const gale_embedder *e, gale__text_input which, const gale__row *row, size_t length, int64_t *to)
{
    size_t live = row ? row->count : 0;
    switch (which) {
    case GALE__TEXT_IDS:
        for (size_t i = 0; i < live; i++) to[i] = row->tokens[i] & 0xffffff;
        for (size_t i = live; i < length; i++) to[i] = e->pad_id;
        break;
    case GALE__TEXT_MASK:
        for (size_t i = 0; i < length; i++) to[i] = i < live;
        if (!live) to[0] = 1; /* something is seen, so that the row is finite */
        break;
    case GALE__TEXT_TYPES:
        for (size_t i = 0; i < live; i++) to[i] = row->tokens[i] >> 24;
        for (size_t i = live; i < length; i++) to[i] = 0;
        break;
    default:
        for (size_t i = 0; i < length; i++) to[i] = (int64_t)i;
    }
}

static void narrow(const int64_t *from, size_t n, int32_t *to)
{
    for (size_t i = 0; i < n; i++) to[i] = (int32_t)from[i];
}

static gale_status fill_input(
    const gale_embedder *e, feed *f, gale__text_input which, const gale__row *rows, const gale__batch *b)
{
    size_t slots = b->slots, length = b->length;
    int64_t dims[2] = {(int64_t)slots, (int64_t)length};
    f->names[f->n] = gale__text_input_names[which];
    GALE_TRY(gale_tensor_create(NULL, e->composed.types[which], 2, dims, &f->tensors[f->n]));
    gale_tensor *t = f->tensors[f->n++];
    bool wide = gale_tensor_type(t) == GALE_I64;
    int64_t *row = wide ? NULL : gale__alloc(length * sizeof *row), *data = gale_tensor_data(t);
    if (!wide && !row) return GALE_NO_MEMORY;
    for (size_t r = 0; r < slots; r++) {
        fill_row(e, which, r < b->count ? &rows[r] : NULL, length, wide ? data + r * length : row);
        if (!wide) narrow(row, length, (int32_t *)(void *)data + r * length);
    }
    gale__free(row);
    return GALE_OK;
}

float gale__pooling_weight(gale_pooling pooling, size_t i, size_t first, size_t count)
{
    float n = (float)(count - first);
    bool counts = i >= first && i < count;
    if (pooling == GALE_POOLING_MAX) return counts ? 0 : GALE__POOL_NOTHING;
    if (!counts) return 0;
    switch (pooling) {
    case GALE_POOLING_CLS: return i == first;
    case GALE_POOLING_LAST: return i + 1 == count;
    case GALE_POOLING_MEAN_SQRT: return 1 / __builtin_sqrtf(n);
    case GALE_POOLING_WEIGHTED: return (float)(i - first + 1) * 2 / (n * (n + 1));
    default: return 1 / n;
    }
}

static gale_status fill_weights(const gale_embedder *e, feed *f, const gale__row *rows, const gale__batch *b)
{
    size_t slots = b->slots, length = b->length;
    gale_pooling pooling = e->info.pooling;
    bool max = pooling == GALE_POOLING_MAX;
    int64_t dims[3] = {(int64_t)slots, max ? (int64_t)length : 1, max ? 1 : (int64_t)length};
    if (pooling == GALE_POOLING_MODEL) return GALE_OK;
    f->names[f->n] = GALE__POOL_INPUT;
    GALE_TRY(gale_tensor_create(NULL, GALE_F32, 3, dims, &f->tensors[f->n]));
    float *to = gale_tensor_data(f->tensors[f->n++]);
    for (size_t r = 0; r < slots; r++, to += length) {
        size_t n = r < b->count ? rows[r].count : 1, first = r < b->count ? rows[r].skip : 0;
        for (size_t i = 0; i < length; i++) to[i] = gale__pooling_weight(pooling, i, first, n);
    }
    return GALE_OK;
}

gale_status gale__encoder_feed_make(const gale_embedder *e, const gale__row *rows, const gale__batch *b, feed *f)
{
    if (b->each) return gale__encoder_feed_packed(e, rows, b, f);
    for (int i = 0; i < GALE__TEXT_INPUTS; i++)
        if (e->composed.takes[i]) GALE_TRY(fill_input(e, f, (gale__text_input)i, rows, b));
    return fill_weights(e, f, rows, b);
}

gale_status gale__encoder_run_once(
    const gale_embedder *e, gale__encoder_place *p, const gale__row *rows, const gale__batch *b, gale_tensor **out)
{
    feed f = {0};
    const char *name = GALE__POOL_OUTPUT;
    gale_status status = gale__encoder_feed_make(e, rows, b, &f);
    if (status == GALE_OK)
        status = gale_model_run_named(
            b->each ? p->packed : p->model, f.names, f.tensors, f.n, &name, out, 1, GALE_RUN_ON_HOST);
    gale__encoder_feed_finish(&f);
    return status;
}

gale_status gale__encoder_run_at(
    const gale_embedder *e, gale__encoder_place *p, const gale__row *rows, const gale__batch *b)
{
    gale_tensor *out = NULL;
    size_t dims = (size_t)e->info.dims;
    GALE_TRY(gale__encoder_run_once(e, p, rows, b, &out));
    const float *from = gale_tensor_data(out);
    gale_status status = GALE_OK;
    if (gale_tensor_size_bytes(out) != (b->each ? b->texts : b->slots) * dims * sizeof *from)
        status = gale__fail(GALE_MISMATCH, "the model produces vectors of a different size for a different batch");
    for (size_t i = 0; status == GALE_OK && i < b->count; i++)
        memcpy(rows[i].out, from + i * dims, dims * sizeof *from);
    gale_tensor_destroy(&out);
    return status;
}
