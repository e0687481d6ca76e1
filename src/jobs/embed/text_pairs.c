/* Similarity of pairs: both texts become vectors, several pairs at a time, and their cosines are returned in order. */
#include "jobs/embed/embedder_inside.h"
#include "text/records.h"
#include <math.h>
#include <string.h>

enum { PAIRS = 1024 };

typedef struct pairs {
    gale_embedder *e;
    size_t dims, count; /* texts, two for each pair */
    gale__str text;
    size_t sizes[2 * PAIRS];
    const char *at[2 * PAIRS];
    float *vectors;
    uint64_t number;
} pairs;

static gale_status add_pair(pairs *p, const char *text, size_t size)
{
    const char *tab = memchr(text, '\t', size);
    if (!tab)
        return gale__fail(GALE_FORMAT, "text %llu has no tab; a pair is two texts separated by a tab",
            (unsigned long long)p->number + p->count / 2 + 1);
    p->sizes[p->count++] = (size_t)(tab - text);
    p->sizes[p->count++] = size - (size_t)(tab - text) - 1;
    gale__str_add_n(&p->text, text, (size_t)(tab - text));
    gale__str_add_n(&p->text, tab + 1, size - (size_t)(tab - text) - 1);
    return gale__str_check(&p->text);
}

static float cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? (float)(ab / sqrt(aa * bb)) : 0;
}

static gale_status run_pairs(pairs *p, gale_pair_sink *sink, void *user)
{
    const char *at = gale__str_text(&p->text);
    for (size_t i = 0; i < p->count; at += p->sizes[i++]) p->at[i] = at;
    GALE_TRY(gale_embed(p->e, p->at, p->sizes, p->count, p->vectors));
    for (size_t i = 0; i < p->count; i += 2) {
        const float *v = p->vectors + i * p->dims;
        if (!sink(user, p->number++, cosine(v, v + p->dims, p->dims))) return gale__fail(GALE_CANCELLED, "cancelled");
    }
    p->count = p->text.length = 0;
    return GALE_OK;
}

static gale_status read_pairs(pairs *p, gale__records *r, gale_pair_sink *sink, void *user)
{
    const char *text = "";
    size_t size;
    while (text) {
        GALE_TRY(gale__records_next(r, &text, &size));
        if (text) GALE_TRY(add_pair(p, text, size));
        if (p->count == 2 * PAIRS || (!text && p->count)) GALE_TRY(run_pairs(p, sink, user));
    }
    return GALE_OK;
}

gale_status gale_embed_pairs(gale_embedder *embedder, const gale_embed_options *o, gale_pair_sink *sink)
{
    GALE__NEED({"embedder", embedder}, {"options", o}, {"sink", sink});
    GALE__OPTIONS(o);
    GALE__WITHIN(embedder->context);
    gale__records_options source = {o->files, o->file_count, (gale__record_kind)o->kind, o->field, .pairs = true};
    gale_embedder_info info;
    gale__records *r = NULL;
    pairs *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    gale_embedder_get_info(embedder, &info);
    p->e = embedder;
    p->dims = (size_t)info.dims;
    p->vectors = gale__alloc(2 * PAIRS * p->dims * sizeof *p->vectors);
    gale_status status = p->vectors ? gale__records_open(&source, &r) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = read_pairs(p, r, sink, o->user);
    gale__records_close(&r);
    gale__str_finish(&p->text);
    gale__free(p->vectors);
    gale__free(p);
    return status;
}
