/* A vocabulary: tokens to ids and back, in three flat arrays, and a tree that finds all tokens at the beginning of a
 * text. */
#ifndef GALE_TEXT_VOCAB_H
#define GALE_TEXT_VOCAB_H
#include "base/hash.h"
#include "base/hash_table.h"
#include <string.h>

enum {
    GALE__VOCAB_ID_MOST = (1 << 24) - 1, /* numbers index arrays, so that a hostile file cannot ask for gigabytes */
    GALE__TOKEN_BYTES_MOST = 1 << 16,
};
#define GALE__NO_ID UINT32_MAX

typedef struct gale__vocab_entry {
    uint32_t at, length, id; /* at: in the pool, where a zero byte follows */
} gale__vocab_entry;
typedef struct gale__vocab {
    char *pool;
    size_t pool_size, pool_capacity;
    gale__vocab_entry *entries;
    size_t count, capacity;
    gale__hash_table table; /* entries by hash */
    uint32_t *by_id;        /* entry + 1 */
    size_t id_count, id_capacity;
} gale__vocab;
/* A token that is there already gets the new number. */
gale_status gale__vocab_add(gale__vocab *v, const char *text, size_t length, uint32_t id);
uint32_t gale__vocab_find(const gale__vocab *v, const char *text, size_t length); /* GALE__NO_ID: not there */
const char *gale__vocab_token(const gale__vocab *v, uint32_t id, size_t *length); /* NULL: no such number */
void gale__vocab_finish(gale__vocab *v);

/* A tree over bytes as a double array: the child of a node by a byte is at the node's base plus the byte, and names
 * its parent, so that a step is one comparison. */
typedef struct gale__trie_node {
    uint32_t base, parent; /* parent: + 1; 0: free */
    uint32_t value;        /* + 1; 0: no key ends here */
} gale__trie_node;
typedef struct gale__trie {
    gale__trie_node *nodes; /* node 0 is the root; 256 free ones follow the last */
    size_t count, capacity;
} gale__trie;
typedef struct gale__trie_key {
    const char *text;
    uint32_t length, value;
} gale__trie_key;
/* Sorts the keys.  Of equal keys the one with the largest value counts.  Empty keys are left out. */
gale_status gale__trie_build(gale__trie *t, gale__trie_key *keys, size_t count);
void gale__trie_finish(gale__trie *t);

/* The child of a node by a byte; 0: none. */
static inline uint32_t gale__trie_step(const gale__trie *t, uint32_t node, uint8_t byte)
{
    uint32_t child = t->nodes[node].base + byte;
    return t->nodes[child].parent == node + 1 ? child : 0;
}
/* The longest key that begins the text: its bytes (0: none) and value. */
size_t gale__trie_longest(const gale__trie *t, const char *text, size_t size, uint32_t *value);
#endif
