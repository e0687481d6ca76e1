/* SentencePiece's normalisation rules: a double array over bytes whose leaves point to a list of replacements. */
#ifndef GALE_TEXT_CHARSMAP_H
#define GALE_TEXT_CHARSMAP_H
#include "base/mem.h"

typedef struct gale__charsmap {
    uint32_t *units;
    size_t unit_count;
    char *texts; /* zero-ended, one after the other */
    size_t texts_size;
} gale__charsmap;
/* Takes a copy.  GALE_FORMAT: not such a map. */
gale_status gale__charsmap_read(gale__charsmap *m, const void *data, size_t size);
gale_status gale__charsmap_read_base64(gale__charsmap *m, const char *text, size_t size);
void gale__charsmap_finish(gale__charsmap *m);
/* What replaces the shortest key that begins the text; NULL: nothing does. */
const char *gale__charsmap_shortest(const gale__charsmap *m, const char *text, size_t size, size_t *length);
/* The same for the longest key, whose bytes are *taken. */
const char *gale__charsmap_longest(
    const gale__charsmap *m, const char *text, size_t size, size_t *taken, size_t *length);
#endif
