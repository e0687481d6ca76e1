/* Vocabularies: tokens by id and by text, and the tree that finds the tokens at the beginning of a text. */
#include "text/vocab.h"
#include <stdlib.h>

enum { NODES_MOST = 1 << 24, TRIES_MOST = 64 };

void gale__vocab_finish(gale__vocab *v)
{
    gale__free(v->pool);
    gale__free(v->entries);
    gale__hash_table_finish(&v->table);
    gale__free(v->by_id);
    *v = (gale__vocab){0};
}

static bool is_entry(const gale__vocab *v, uint32_t entry, const char *text, size_t length)
{
    const gale__vocab_entry *e = v->entries + entry;
    return e->length == length && !memcmp(v->pool + e->at, text, length);
}

static int64_t find_entry(const gale__vocab *v, const char *text, size_t length, uint64_t hash)
{
    gale__hash_table_probe probe = gale__hash_table_look(hash);
    for (int64_t i; (i = gale__hash_table_next(&v->table, &probe)) >= 0;)
        if (is_entry(v, (uint32_t)i, text, length)) return i;
    return -1;
}

uint32_t gale__vocab_find(const gale__vocab *v, const char *text, size_t length)
{
    int64_t i = find_entry(v, text, length, gale__hash(text, length, 0));
    return i < 0 ? GALE__NO_ID : v->entries[i].id;
}

const char *gale__vocab_token(const gale__vocab *v, uint32_t id, size_t *length)
{
    if (id >= v->id_count || !v->by_id[id]) return NULL;
    const gale__vocab_entry *e = v->entries + v->by_id[id] - 1;
    *length = e->length;
    return v->pool + e->at;
}

static gale_status set_id(gale__vocab *v, uint32_t id, uint32_t entry)
{
    size_t had = v->id_capacity;
    GALE_TRY(gale__grow((void **)&v->by_id, &v->id_capacity, (size_t)id + 1, sizeof *v->by_id));
    if (v->id_capacity > had) memset(v->by_id + had, 0, (v->id_capacity - had) * sizeof *v->by_id);
    if (v->id_count <= id) v->id_count = (size_t)id + 1;
    v->by_id[id] = entry + 1;
    return GALE_OK;
}

gale_status gale__vocab_add(gale__vocab *v, const char *text, size_t length, uint32_t id)
{
    if (id > GALE__VOCAB_ID_MOST)
        return gale__fail(GALE_LIMIT, "token '%.40s' has the id %u; the limit is %d", text, id, GALE__VOCAB_ID_MOST);
    if (length > GALE__TOKEN_BYTES_MOST || v->pool_size > UINT32_MAX / 2)
        return gale__fail(GALE_LIMIT, "token %u has %zu bytes; the limit is %d", id, length, GALE__TOKEN_BYTES_MOST);
    uint64_t hash = gale__hash(text, length, 0);
    int64_t known = find_entry(v, text, length, hash);
    if (known >= 0) {
        v->entries[known].id = id;
        return set_id(v, id, (uint32_t)known);
    }
    GALE_TRY(gale__grow((void **)&v->pool, &v->pool_capacity, v->pool_size + length + 1, 1));
    GALE_TRY(gale__grow((void **)&v->entries, &v->capacity, v->count + 1, sizeof *v->entries));
    GALE_TRY(set_id(v, id, (uint32_t)v->count));
    GALE_TRY(gale__hash_table_add(&v->table, hash, (uint32_t)v->count));
    memcpy(v->pool + v->pool_size, text, length);
    v->pool[v->pool_size + length] = 0;
    v->entries[v->count++] = (gale__vocab_entry){(uint32_t)v->pool_size, (uint32_t)length, id};
    v->pool_size += length + 1;
    return GALE_OK;
}

/* --- The tree. --- */

void gale__trie_finish(gale__trie *t)
{
    gale__free(t->nodes);
    *t = (gale__trie){0};
}

static int by_text(const void *a, const void *b)
{
    const gale__trie_key *x = a, *y = b;
    uint32_t common = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, common);
    if (order) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* A node whose children are not placed yet: the keys that pass through it. */
typedef struct pending {
    uint32_t node, begin, end, depth;
} pending;
typedef struct builder {
    gale__trie *trie;
    const gale__trie_key *keys;
    pending *queue;
    size_t count, capacity;
    uint32_t first, last; /* of the free nodes, which are linked by base (next) and value (previous); 0: none */
} builder;

/* Makes the array so long; what is new is free. */
static gale_status make_room(builder *b, size_t count)
{
    gale__trie *t = b->trie;
    size_t had = t->capacity;
    if (count > NODES_MOST) return gale__fail(GALE_LIMIT, "the tokens of the vocabulary are too long");
    GALE_TRY(gale__grow((void **)&t->nodes, &t->capacity, count + 256, sizeof *t->nodes));
    if (t->capacity > had) memset(t->nodes + had, 0, (t->capacity - had) * sizeof *t->nodes);
    for (; t->count < count; t->count++) {
        uint32_t at = (uint32_t)t->count;
        if (!at) continue; /* the root is never free */
        t->nodes[at] = (gale__trie_node){0, 0, b->last};
        if (b->last) t->nodes[b->last].base = at;
        else b->first = at;
        b->last = at;
    }
    return GALE_OK;
}

static void take(builder *b, uint32_t at, uint32_t parent)
{
    gale__trie_node *nodes = b->trie->nodes, free = nodes[at];
    if (free.value) nodes[free.value].base = free.base;
    else b->first = free.base;
    if (free.base) nodes[free.base].value = free.value;
    else b->last = free.value;
    nodes[at] = (gale__trie_node){0, parent + 1, 0};
}

static bool is_free(const gale__trie *t, const uint8_t *labels, size_t count, size_t base)
{
    for (size_t i = 0; i < count; i++)
        if (base + labels[i] < t->count && t->nodes[base + labels[i]].parent) return false;
    return true;
}

/* The first base among the free places where all children fit; after some tries the end of the array, which always
 * does. */
static size_t find_base(const builder *b, const uint8_t *labels, size_t count)
{
    const gale__trie *t = b->trie;
    uint32_t at = b->first;
    for (int tries = 0; tries < TRIES_MOST && at; tries++, at = t->nodes[at].base)
        if (at > labels[0] && is_free(t, labels, count, at - labels[0])) return at - labels[0];
    return t->count > labels[0] ? t->count - labels[0] : 1;
}

static size_t collect(builder *b, pending p, uint32_t from, uint8_t *labels)
{
    size_t count = 0;
    for (uint32_t i = from; i < p.end; i++) {
        uint8_t label = (uint8_t)b->keys[i].text[p.depth];
        if (!count || labels[count - 1] != label) labels[count++] = label;
    }
    return count;
}

static gale_status place_children(builder *b, pending p)
{
    gale__trie *t = b->trie;
    uint8_t labels[256];
    uint32_t i = p.begin;
    for (; i < p.end && b->keys[i].length == p.depth; i++)
        if (p.depth) t->nodes[p.node].value = b->keys[i].value + 1;
    size_t count = collect(b, p, i, labels);
    if (!count) return GALE_OK;
    size_t base = find_base(b, labels, count);
    GALE_TRY(make_room(b, base + labels[count - 1] + 1));
    GALE_TRY(gale__grow((void **)&b->queue, &b->capacity, b->count + count, sizeof *b->queue));
    t->nodes[p.node].base = (uint32_t)base;
    for (size_t k = 0; k < count; k++) {
        pending child = {(uint32_t)base + labels[k], i, i, p.depth + 1};
        while (i < p.end && (uint8_t)b->keys[i].text[p.depth] == labels[k]) i++;
        child.end = i;
        take(b, child.node, p.node);
        b->queue[b->count++] = child;
    }
    return GALE_OK;
}

gale_status gale__trie_build(gale__trie *t, gale__trie_key *keys, size_t count)
{
    builder b = {.trie = t, .keys = keys};
    gale_status status;
    if (count) qsort(keys, count, sizeof *keys, by_text);
    GALE_GO(make_room(&b, 1));
    t->nodes[0].parent = UINT32_MAX; /* nobody's child */
    GALE_GO(place_children(&b, (pending){0, 0, (uint32_t)count, 0}));
    for (size_t i = 0; i < b.count; i++) GALE_GO(place_children(&b, b.queue[i]));
done:
    gale__free(b.queue);
    return status;
}

size_t gale__trie_longest(const gale__trie *t, const char *text, size_t size, uint32_t *value)
{
    size_t longest = 0;
    if (!t->count) return 0;
    for (size_t i = 0, node = 0; i < size; i++) {
        node = gale__trie_step(t, (uint32_t)node, (uint8_t)text[i]);
        if (!node) break;
        if (t->nodes[node].value) longest = i + 1, *value = t->nodes[node].value - 1;
    }
    return longest;
}
