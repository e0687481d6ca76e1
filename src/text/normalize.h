/* Normalizers: applied to a text before it is split. */
#ifndef GALE_TEXT_NORMALIZE_H
#define GALE_TEXT_NORMALIZE_H
#include "base/json.h"
#include "text/charsmap.h"
#include "text/normal_form.h"
#include "text/split_pattern.h"

typedef enum gale__normalizer_kind {
    GALE__NORM_CLEAN,   /* Bert: controls go, white space becomes a space */
    GALE__NORM_CHINESE, /* Bert: ideographs stand alone */
    GALE__NORM_STRIP_MN,
    GALE__NORM_STRIP_MARKS,
    GALE__NORM_LOWERCASE,
    GALE__NORM_FORM,
    GALE__NORM_NMT,
    GALE__NORM_STRIP,
    GALE__NORM_REPLACE,
    GALE__NORM_PREPEND,
    GALE__NORM_CHARSMAP,
    GALE__NORM_BYTES,
    GALE__NORM_SQUEEZE,    /* SentencePiece: rows of spaces become one */
    GALE__NORM_STRIP_SPACE /* and those at both ends go */
} gale__normalizer_kind;

/* One step; sequences are laid out flat. */
typedef struct gale__normalizer {
    gale__normalizer_kind kind;
    gale__normal_form_kind form;
    bool left, right; /* STRIP */
    bool whole;       /* CHARSMAP: SentencePiece's own way, longest keys first, without regard to graphemes */
    gale__split_pattern *pattern; /* REPLACE */
    char *text;                   /* REPLACE, PREPEND */
    size_t text_size;
    gale__charsmap map;
} gale__normalizer;
typedef struct gale__normalizers {
    gale__normalizer *items;
    size_t count, capacity;
} gale__normalizers;
void gale__normalizers_finish(gale__normalizers *n);
gale_status gale__normalizers_add(gale__normalizers *n, gale__normalizer_kind kind, gale__normalizer **out);
gale_status gale__normalizers_read(gale__normalizers *n, const gale__json *v); /* null: none */

typedef struct gale__normalize_state {
    gale__aligned a, b;
    gale__normal_steps steps;
    gale__split_pattern_state patterns;
} gale__normalize_state;
gale_status gale__normalize_state_init(gale__normalize_state *s);
void gale__normalize_state_finish(gale__normalize_state *s);
/* Normalizes what is in s->a, in place. */
gale_status gale__normalize(const gale__normalizers *n, gale__normalize_state *s);

/* The character that stands for a byte in byte-level tokenizers; and back, -1: none. */
uint32_t gale__byte_character(uint8_t byte);
int gale__character_byte(uint32_t c);
void gale__byte_level_add(gale__aligned *out, const char *text, const gale__text_span *from, size_t size);
#endif
