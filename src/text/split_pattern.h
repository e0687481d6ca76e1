/* Patterns of pre-tokenizers, normalizers and decoders: a text as it stands, or a regular expression in Oniguruma's
 * syntax, run by PCRE2 with a limit to its steps. */
#ifndef GALE_TEXT_PATTERN_H
#define GALE_TEXT_PATTERN_H
#include "base/mem.h"

typedef struct gale__pattern gale__pattern; /* immutable: shared by threads */
gale_status gale__pattern_create(const char *text, size_t size, bool literal, gale__pattern **out);
void gale__pattern_destroy(gale__pattern **p);

typedef struct gale__pattern_state { /* of one thread */
    void *match;
} gale__pattern_state;
gale_status gale__pattern_state_init(gale__pattern_state *s);
void gale__pattern_state_finish(gale__pattern_state *s);

/* A walk over the matches of a text, from left to right. */
typedef struct gale__pattern_walk {
    size_t begin, end; /* the match */
    size_t at, last;   /* where to look next; where the last match ended, + 1 */
} gale__pattern_walk;  /* begins zeroed */
/* *found is false behind the last match. */
gale_status gale__pattern_next(const gale__pattern *p, gale__pattern_state *s, const char *text, size_t size,
    gale__pattern_walk *walk, bool *found);

/* Where the piece at the front of the text ends by GPT-2's expression, which needs no library:
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t gale__gpt2_piece(const char *text, size_t size);
#endif
