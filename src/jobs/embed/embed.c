/* Embeds texts that are in memory.  Files go through the pipeline instead. */
#include "jobs/embed/embedder_inside.h"
#include <string.h>

typedef struct texts {
    gale_embedder *e;
    gale__row_maker maker;
    bool has_maker;
    uint32_t *tokens;
    size_t used, capacity;
    gale__row *rows;
} texts;

/* A row maker is large and slow to make: they are kept. */
static gale_status take_maker(texts *t)
{
    gale_embedder *e = t->e;
    gale__mutex_lock(&e->lock);
    bool found = e->n_makers > 0;
    if (found) t->maker = e->makers[--e->n_makers];
    gale__mutex_unlock(&e->lock);
    if (!found) GALE_TRY(gale__row_maker_init(e, &t->maker));
    t->has_maker = true;
    return GALE_OK;
}

static void give_maker(texts *t)
{
    gale_embedder *e = t->e;
    if (!t->has_maker) return;
    gale__mutex_lock(&e->lock);
    bool room = e->n_makers < GALE__ROW_MAKERS;
    if (room) e->makers[e->n_makers++] = t->maker;
    gale__mutex_unlock(&e->lock);
    if (!room) gale__row_maker_finish(&t->maker);
}

static gale_status make_rows(texts *t, const char *const *list, const size_t *sizes, size_t count, float *vectors)
{
    size_t dims = (size_t)t->e->info.dims, at = 0;
    for (size_t i = 0; i < count; i++) {
        gale__row *row = &t->rows[i];
        size_t size = sizes ? sizes[i] : strlen(list[i]);
        GALE_TRY(gale__row_make(
            t->e, &t->maker, list[i], size, &t->tokens, &t->used, &t->capacity, &row->count, &row->skip));
        row->out = vectors + i * dims;
    }
    for (size_t i = 0; i < count; at += t->rows[i++].count) t->rows[i].tokens = t->tokens + at;
    return GALE_OK;
}

static gale_status run_rows(texts *t, size_t count)
{
    gale_embedder *e = t->e;
    gale__batch_how how = {.tokens = gale__embedder_tokens(e, 0)};
    const char *why;
    size_t n = 0;
    if (e->pack.wanted && count > 1) GALE_TRY(gale__embedder_pack(e, &how.packs, &why));
    gale__batch one, *batches = count > 1 ? gale__alloc(count * sizeof *batches) : &one;
    gale_status status = batches ? gale__rows_batch(e, t->rows, count, &how, batches, &n) : GALE_NO_MEMORY;
    for (size_t i = 0; i < n && status == GALE_OK; i++)
        status = gale__embedder_run(e, 0, t->rows + batches[i].first, &batches[i]);
    if (batches != &one) gale__free(batches);
    return status;
}

gale_status gale_embed(
    gale_embedder *embedder, const char *const *list, const size_t *sizes, size_t count, float *vectors)
{
    GALE__NEED({"embedder", embedder}, {"texts", !count || list}, {"vectors", !count || vectors});
    GALE__WITHIN(embedder->context);
    texts t = {.e = embedder};
    gale_status status;
    for (size_t i = 0; i < count; i++)
        if (!list[i]) return gale__fail(GALE_INVALID, "%s: texts[%zu] is NULL", __func__, i);
    if (!count) return GALE_OK;
    t.rows = gale__calloc(count, sizeof *t.rows);
    GALE_GO(t.rows ? GALE_OK : GALE_NO_MEMORY);
    GALE_GO(take_maker(&t));
    GALE_GO(make_rows(&t, list, sizes, count, vectors));
    status = run_rows(&t, count);
done:
    give_maker(&t);
    gale__free(t.rows);
    gale__free(t.tokens);
    return status;
}

/* Texts of padding, in a batch of the shape that so many texts of this length get, or packed into rows. */
static gale_status run_length(gale_embedder *e, size_t length, size_t count, size_t tokens, bool packed)
{
    size_t n_batches = 0;
    uint32_t *ids = gale__calloc(length, sizeof *ids);
    gale__row *rows = gale__calloc(count, sizeof *rows);
    gale__batch *batches = gale__calloc(count, sizeof *batches);
    float *out = gale__alloc((size_t)e->info.dims * sizeof *out);
    gale_status status = ids && rows && batches && out ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK) {
        for (size_t i = 0; i < count; i++) rows[i] = (gale__row){ids, (uint32_t)length, 0, out};
        if (!packed) gale__batch_next(rows, count, 0, tokens, 0, (size_t)e->info.max_length, NULL, batches);
        else status = gale__pack(rows, count, tokens, (size_t)e->info.max_length, batches, &n_batches, NULL);
    }
    if (status == GALE_OK) status = gale__embedder_run(e, 0, rows, batches);
    gale__free(ids);
    gale__free(rows);
    gale__free(batches);
    gale__free(out);
    return status;
}

/* Full batches and single texts.  Kernels depend on which extents divide evenly, so lengths of several kinds are run.
 */
gale_status gale_embedder_warm(gale_embedder *e)
{
    static const size_t lengths[] = {5, 8, 12, 16, 17, 18, 24, 32, 64, 128, 256};
    bool packs = false;
    const char *why;
    GALE__NEED({"embedder", e});
    GALE__WITHIN(e->context);
    size_t tokens = gale__embedder_tokens(e, 0);
    const gale_device_caps *caps = &gale_device_get_info(gale__embedder_device(e, 0))->caps;
    if (!caps->host_functions) GALE_TRY(gale__embedder_pack(e, &packs, &why));
    for (size_t i = 0; !e->heuristic && i < sizeof lengths / sizeof *lengths; i++) {
        size_t most = tokens / lengths[i] ? tokens / lengths[i] : 1;
        if ((int64_t)lengths[i] > e->info.max_length) break;
        GALE_TRY(run_length(e, lengths[i], most, tokens, false));
        GALE_TRY(run_length(e, lengths[i], 1, tokens, false));
        if (packs && lengths[i] >= 16) GALE_TRY(run_length(e, lengths[i], most, tokens, true));
    }
    return GALE_OK;
}
