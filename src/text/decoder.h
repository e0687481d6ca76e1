/* Decoders: from tokens back to text. */
#ifndef GALE_TEXT_DECODE_H
#define GALE_TEXT_DECODE_H
#include "text/split.h"

typedef enum gale__decoder_kind {
    GALE__DECODE_BPE,
    GALE__DECODE_BYTES,
    GALE__DECODE_WORDPIECE,
    GALE__DECODE_METASPACE,
    GALE__DECODE_CTC,
    GALE__DECODE_REPLACE,
    GALE__DECODE_FUSE,
    GALE__DECODE_STRIP,
    GALE__DECODE_BYTE_FALLBACK
} gale__decoder_kind;

typedef struct gale__decoder {
    gale__decoder_kind kind;
    char *text, *more;      /* suffix, prefix, pad token or content; delimiter of words */
    bool cleanup, prepends; /* prepends: Metaspace put a mark in front of the first word */
    uint32_t character, start, stop;
    gale__split_pattern *pattern;
} gale__decoder;
typedef struct gale__decoders {
    gale__decoder *items;
    size_t count, capacity;
    bool none; /* no decoder: tokens are joined with spaces */
} gale__decoders;
void gale__decoders_finish(gale__decoders *d);
gale_status gale__decoders_add(gale__decoders *d, gale__decoder_kind kind, gale__decoder **out);
gale_status gale__decoders_read(gale__decoders *d, const gale__json *v);

/* Texts side by side. */
typedef struct gale__text_list {
    gale__str pool;
    size_t *ends;
    size_t count, capacity;
} gale__text_list;
void gale__text_list_clear(gale__text_list *l);
void gale__text_list_finish(gale__text_list *l);
/* Ends the text that was written to the pool. */
gale_status gale__text_list_end(gale__text_list *l);
const char *gale__text_list_get(const gale__text_list *l, size_t i, size_t *size);

typedef struct gale__decode_state {
    gale__text_list a, b;
    gale__str first, second;
} gale__decode_state;
void gale__decode_state_finish(gale__decode_state *s);
/* The tokens are in s->a; the text is appended to *out. */
gale_status gale__decode(
    const gale__decoders *d, gale__decode_state *s, gale__split_pattern_state *patterns, gale__str *out);
#endif
