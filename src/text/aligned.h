/* Text in which every byte carries its position in the original, so that tokens can be located there whatever
 * normalisation did. */
#ifndef GALE_TEXT_ALIGNED_H
#define GALE_TEXT_ALIGNED_H
#include "base/mem.h"
#include "text/unicode.h"
#include <string.h>

typedef struct gale__text_span {
    uint32_t begin, end; /* bytes of the original */
} gale__text_span;

/* Grows and is used again; appends after a failed one do nothing, so callers check once. */
typedef struct gale__aligned {
    char *text;            /* valid UTF-8 */
    gale__text_span *from; /* one for each byte */
    size_t size, capacity;
    uint32_t base; /* where the original piece begins: what belongs to nothing is put there */
    bool failed;
} gale__aligned;
void gale__aligned_finish(gale__aligned *a);
void gale__aligned_clear(gale__aligned *a, uint32_t base);
bool gale__aligned_reserve(gale__aligned *a, size_t more); /* room for this many bytes after `size` */
/* Text whose characters come from themselves, the first of them at byte `base` of the original. */
void gale__aligned_add_plain(gale__aligned *a, const char *text, size_t size, uint32_t base);
void gale__aligned_add_part(gale__aligned *a, const gale__aligned *from, size_t begin, size_t end);

static inline void gale__aligned_put(gale__aligned *a, uint32_t c, gale__text_span from)
{
    if (a->capacity - a->size < 4 && !gale__aligned_reserve(a, 4)) return;
    size_t begin = a->size;
    a->size = (size_t)(gale__utf8_put(a->text + begin, c) - a->text);
    for (size_t i = begin; i < a->size; i++) a->from[i] = from;
}

/* Rewriting a whole text by steps: each puts a character and says how it relates to the next one of the source.
 * change 0: takes its place; 1: is new, and comes from where the one before does; -n: takes its place, and the n that
 * follow are gone. */
typedef struct gale__aligned_rewrite {
    const gale__aligned *in;
    gale__aligned *out;
    size_t at; /* in the source */
} gale__aligned_rewrite;
void gale__aligned_rewrite_put(gale__aligned_rewrite *r, uint32_t c, int32_t change);
void gale__aligned_rewrite_skip(gale__aligned_rewrite *r, size_t characters);
#endif
