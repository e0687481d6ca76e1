/* Pre-tokenizers: split a normalized text into words. */
#ifndef GALE_TEXT_SPLIT_H
#define GALE_TEXT_SPLIT_H
#include "text/normalize.h"
#include "text/vocab.h"

typedef enum gale__splitter_kind {
    GALE__SPLIT_WHITE, /* at white space, which goes */
    GALE__SPLIT_PUNCT,
    GALE__SPLIT_DIGITS,
    GALE__SPLIT_CHARACTER,
    GALE__SPLIT_PATTERN,
    GALE__SPLIT_WORDS, /* \w+|[^\w\s]+ */
    GALE__SPLIT_METASPACE,
    GALE__SPLIT_BYTES,
    GALE__SPLIT_SCRIPTS,
    GALE__SPLIT_LENGTH
} gale__splitter_kind;
/* What becomes of the matches. */
typedef enum gale__split_behaviour {
    GALE__SPLIT_REMOVED,
    GALE__SPLIT_ISOLATED,
    GALE__SPLIT_MERGED_WITH_PREVIOUS,
    GALE__SPLIT_MERGED_WITH_NEXT,
    GALE__SPLIT_CONTIGUOUS
} gale__split_behaviour;
typedef enum gale__split_prepend { GALE__PREPEND_ALWAYS, GALE__PREPEND_FIRST, GALE__PREPEND_NEVER } gale__split_prepend;

/* One step; sequences are laid out flat. */
typedef struct gale__splitter {
    gale__splitter_kind kind;
    gale__split_behaviour behaviour;
    bool invert;              /* PATTERN */
    bool prefix_space, regex; /* BYTES */
    bool split;               /* METASPACE */
    gale__split_prepend prepend;
    uint32_t character; /* METASPACE, CHARACTER */
    uint32_t length;
    gale__split_pattern *pattern;
} gale__splitter;
typedef struct gale__splitters {
    gale__splitter *items;
    size_t count, capacity;
} gale__splitters;
void gale__splitters_finish(gale__splitters *s);
gale_status gale__splitters_add(gale__splitters *s, gale__splitter_kind kind, gale__splitter **out);
gale_status gale__splitters_read(gale__splitters *s, const gale__json *v); /* null: none */
gale_status gale__splitter_read_metaspace(gale__splitter *s, const gale__json *v);

/* A part of the text that is a word, or a token already. */
typedef struct gale__split {
    uint32_t begin, end, token; /* token: GALE__NO_ID where there is none yet */
} gale__split;
typedef struct gale__splits {
    gale__split *items;
    size_t count, capacity;
} gale__splits;
gale_status gale__splits_add(gale__splits *s, size_t begin, size_t end, uint32_t token); /* nothing where it is empty */

typedef struct gale__split_state {
    gale__aligned text, other; /* the text, and room for the next one */
    gale__aligned spaced;      /* a word with a space in front */
    gale__splits now, next, segments;
    gale__split_pattern_state *patterns;
} gale__split_state;
void gale__split_state_finish(gale__split_state *s);
/* Cuts the words of s->now. */
gale_status gale__split_words(const gale__splitters *splitters, gale__split_state *s);
#endif
