/* Post-processing: the tokens around a text, truncation and padding. */
#ifndef GALE_TEXT_POST_H
#define GALE_TEXT_POST_H
#include "base/json.h"

enum { GALE__POST_PIECES = 64, GALE__TRIMS = 4 };

/* A part of the result: a sequence or special tokens. */
typedef struct gale__post_piece {
    int sequence; /* 0, 1; -1: special tokens */
    uint32_t type_id;
    uint32_t first, count; /* of the special ids */
} gale__post_piece;
typedef struct gale__post_template {
    gale__post_piece pieces[GALE__POST_PIECES];
    size_t count, added; /* added: special tokens in it */
} gale__post_template;

typedef enum gale__post_strategy {
    GALE__POST_LONGEST_FIRST,
    GALE__POST_ONLY_FIRST,
    GALE__POST_ONLY_SECOND
} gale__post_strategy;

typedef struct gale__post {
    gale__post_template single, pair;
    uint32_t *ids; /* special ones */
    size_t id_count, id_capacity;
    size_t trim_count;
    bool trim_prefix_space[GALE__TRIMS]; /* white space at the ends of tokens is not theirs */
    bool adds;                           /* a processor has set the templates */
    bool truncates, truncate_left;
    gale__post_strategy strategy;
    uint32_t max_length, stride;
    bool pads, pad_left;
    uint32_t pad_length, pad_multiple, pad_id, pad_type_id; /* pad_length 0: the longest of a batch */
} gale__post;
void gale__post_finish(gale__post *p);
/* What happens without any processor. */
void gale__post_init(gale__post *p);
gale_status gale__post_read(gale__post *p, const gale__json *v); /* null: none */
gale_status gale__post_read_truncation(gale__post *p, const gale__json *v);
gale_status gale__post_read_padding(gale__post *p, const gale__json *v);
/* [first] A [last]; first [A] last middle... as Bert has it: cls A sep, cls A sep B sep.  GALE__NO_ID leaves one out.
 */
gale_status gale__post_set_bert(gale__post *p, uint32_t cls, uint32_t sep, bool roberta);
/* How many tokens of both sequences stay: *a and *b are lengths before and after. most: without special tokens. */
gale_status gale__post_truncate(const gale__post *p, size_t most, bool pair, size_t *a, size_t *b);
#endif
