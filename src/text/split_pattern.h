/* Patterns of pre-tokenizers, normalizers and decoders: a literal string, or a regular expression in Oniguruma's
 * syntax, run by PCRE2 with a step limit. */
#ifndef GALE_TEXT_PATTERN_H
#define GALE_TEXT_PATTERN_H
#include "base/str.h"

typedef struct gale__split_pattern gale__split_pattern; /* immutable: shared by threads */
gale_status gale__split_pattern_create(const char *text, size_t size, bool literal, gale__split_pattern **out);
void gale__split_pattern_destroy(gale__split_pattern **p);

typedef struct gale__split_pattern_state { /* of one thread */
    void *match;
} gale__split_pattern_state;
gale_status gale__split_pattern_state_init(gale__split_pattern_state *s);
void gale__split_pattern_state_finish(gale__split_pattern_state *s);

/* A walk over the matches of a text, from left to right. */
typedef struct gale__split_pattern_walk {
    size_t begin, end;      /* the match */
    size_t at, last;        /* where to look next; where the last match ended, + 1 */
} gale__split_pattern_walk; /* begins zeroed */
/* *found is false behind the last match. */
gale_status gale__split_pattern_next(const gale__split_pattern *p, gale__split_pattern_state *s, const char *text,
    size_t size, gale__split_pattern_walk *walk, bool *found);

/* pattern_perl.c: an expression of Oniguruma's as PCRE2 takes it. */
gale_status gale__pattern_to_perl(const char *text, size_t size, gale__str *out);

/* Where the piece at the front of the text ends by GPT-2's expression, which needs no library:
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t gale__gpt2_piece(const char *text, size_t size);
#endif
