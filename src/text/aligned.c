/* Aligned text: growing, copying, rewriting. */
#include "text/aligned.h"

enum { SIZE_MOST = 1 << 28 }; /* with its spans that is 2.25 GiB */

void gale__aligned_finish(gale__aligned *a)
{
    gale__free(a->text);
    gale__free(a->from);
    *a = (gale__aligned){0};
}

void gale__aligned_clear(gale__aligned *a, uint32_t base)
{
    a->size = 0;
    a->base = base;
    a->failed = false;
}

bool gale__aligned_reserve(gale__aligned *a, size_t more)
{
    if (a->failed) return false;
    if (a->capacity - a->size >= more) return true;
    size_t want = a->size + more < 256 ? 256 : (a->size + more) + (a->size + more) / 2;
    char *text = want > SIZE_MOST ? NULL : gale__realloc(a->text, want);
    if (text) a->text = text;
    gale__text_span *from = text ? gale__realloc(a->from, want * sizeof *from) : NULL;
    if (from) a->from = from;
    a->failed = !from;
    if (want > SIZE_MOST) gale__fail(GALE_LIMIT, "a text exceeds 256 MiB when it is normalised; split it");
    if (from) a->capacity = want;
    return from != NULL;
}

void gale__aligned_add_plain(gale__aligned *a, const char *text, size_t size, uint32_t base)
{
    if (!gale__aligned_reserve(a, size)) return;
    gale__text_span *from = a->from + a->size;
    memcpy(a->text + a->size, text, size);
    for (size_t i = 0, n; i < size; i += n) {
        n = gale__utf8_size(text + i);
        gale__text_span span = {base + (uint32_t)i, base + (uint32_t)(i + n)};
        for (size_t k = i; k < i + n; k++) from[k] = span;
    }
    a->size += size;
}

void gale__aligned_add_part(gale__aligned *a, const gale__aligned *from, size_t begin, size_t end)
{
    if (!gale__aligned_reserve(a, end - begin)) return;
    memcpy(a->text + a->size, from->text + begin, end - begin);
    memcpy(a->from + a->size, from->from + begin, (end - begin) * sizeof *a->from);
    a->size += end - begin;
}

void gale__aligned_rewrite_skip(gale__aligned_rewrite *r, size_t characters)
{
    for (; characters && r->at < r->in->size; characters--) r->at += gale__utf8_size(r->in->text + r->at);
}

void gale__aligned_rewrite_put(gale__aligned_rewrite *r, uint32_t c, int32_t change)
{
    bool new = change > 0 || r->at >= r->in->size;
    gale__text_span base = {r->in->base, r->in->base};
    gale__text_span from = !new ? r->in->from[r->at] : r->at ? r->in->from[r->at - 1] : base;
    gale__aligned_put(r->out, c, from);
    if (change <= 0) gale__aligned_rewrite_skip(r, 1 + (size_t) - (int64_t)change);
}
