/* Added tokens: strings that are matched before the surrounding text is normalized or split. */
#ifndef GALE_TEXT_ADDED_H
#define GALE_TEXT_ADDED_H
#include "text/token_model.h"
#include "text/normalize.h"

typedef struct gale__added_token {
    char *content;
    size_t size;
    char *normal; /* the content, normalized; NULL: the same */
    size_t normal_size;
    uint32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
    bool as_it_is; /* looked for in the normalized text without being normalized itself */
    bool hidden;   /* never looked for: only its number means it */
} gale__added_token;

/* Tokens that are looked for in the same text. */
typedef struct gale__added_set {
    gale__trie trie;
    bool first[256]; /* bytes that one of them begins with */
    bool any;
} gale__added_set;

typedef struct gale__added {
    gale__added_token *items;
    size_t count, capacity;
    gale__vocab names;           /* content to place in items */
    uint32_t *by_id;             /* place + 1, of each number below id_end */
    gale__added_set raw, normal; /* in the text as it is given; in the normalized one */
    uint32_t id_end;             /* one more than the largest number, of these and of the model */
} gale__added;
void gale__added_finish(gale__added *a);
/* Takes a copy of the content.  The model's number where it has the token, else the next free one.  A token that is
 * there already is replaced. */
gale_status gale__added_add(gale__added *a, const gale__token_model *m, const gale__added_token *token);
/* After the last one. */
gale_status gale__added_prepare(gale__added *a, const gale__token_model *m, const gale__normalizers *n);
const gale__added_token *gale__added_by_id(const gale__added *a, uint32_t id); /* NULL: none */
const gale__added_token *gale__added_find(const gale__added *a, const char *text, size_t size);

/* A walk over the tokens of a text. */
typedef struct gale__added_walk {
    size_t at, last;     /* where to look next; where the last one ended */
    size_t begin, end;   /* of the one that was found */
    size_t white, black; /* white space that was measured, so that a long run of it is measured once; at first none */
    const gale__added_token *token;
} gale__added_walk;
/* False behind the last.  no_special: those are taken for text. */
bool gale__added_next(const gale__added *a, const gale__added_set *set, const char *text, size_t size, bool no_special,
    gale__added_walk *w);
#endif
