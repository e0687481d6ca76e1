/* A hash table of numbers.  Keys are the caller's: it hashes them, and compares the few whose hash is equal, so that
 * one table serves texts, pairs of numbers and nodes of graphs.
 *
 *     gale__hash_table_probe probe = gale__hash_table_look(hash);
 *     for (int64_t i; (i = gale__hash_table_next(&table, &probe)) >= 0;)
 *         if (is_equal(&items[i], key)) return i;
 *     return gale__hash_table_add(&table, hash, number_of_the_new_item);
 *
 * A zeroed table is empty.  Reading from several threads is safe while nothing is added. */
#ifndef GALE_BASE_HASH_TABLE_H
#define GALE_BASE_HASH_TABLE_H
#include "base/mem.h"

typedef struct gale__hash_table_slot {
    uint32_t hash, number; /* number: + 1; 0: free */
} gale__hash_table_slot;
typedef struct gale__hash_table {
    gale__hash_table_slot *slots; /* probed in a row; at most half of them are taken */
    size_t size, count;           /* size: 0 or a power of two */
} gale__hash_table;
typedef struct gale__hash_table_probe {
    uint32_t hash;
    size_t at;
} gale__hash_table_probe;

static inline gale__hash_table_probe gale__hash_table_look(uint64_t hash)
{
    uint32_t folded = (uint32_t)(hash ^ hash >> 32);
    return (gale__hash_table_probe){folded, folded};
}

/* The next number that was added under this hash; -1: no more. */
static inline int64_t gale__hash_table_next(const gale__hash_table *t, gale__hash_table_probe *probe)
{
    if (!t->size) return -1;
    for (;;) {
        gale__hash_table_slot slot = t->slots[probe->at++ & (t->size - 1)];
        if (!slot.number) return -1;
        if (slot.hash == probe->hash) return (int64_t)slot.number - 1;
    }
}

/* Adds a number (less than 2^32 - 1) under a hash, beside existing ones. GALE_LIMIT if too many keys collide, which
 * happens only for crafted keys: a hostile file is rejected instead of taking quadratic time. */
gale_status gale__hash_table_add(gale__hash_table *t, uint64_t hash, uint32_t number);
/* Reserves room for this many numbers. */
gale_status gale__hash_table_reserve(gale__hash_table *t, size_t count);
void gale__hash_table_finish(gale__hash_table *t);

#endif
