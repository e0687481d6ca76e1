/* TfIdfVectorizer: how often each n-gram of a pool occurs in a row of words or whole numbers.  Words are first numbered
 * by their place in the pool; the n-grams are a tree whose branches are in one hash table, so a row is read once per
 * distance of its items. */
#include "base/hash.h"
#include "base/hash_table.h"
#include "onnx/host/lookup.h"
#include <string.h>

/* Node 0 is the root; every other node is the branch that leads to it. */
typedef struct node {
    int32_t from;
    int64_t word;
    int64_t gram; /* n-gram that ends here, -1: none */
} node;
typedef struct tree {
    node *nodes;
    int32_t count;
    gale__hash_table table; /* nodes by hash of from and word */
} tree;
typedef struct settings {
    int64_t least, most, skips, columns;
    const gale_attr *counts, *indexes, *weights;
    const char *mode;
} settings;

static uint64_t hash_of(int32_t from, int64_t word)
{
    return gale__hash(&(struct { int64_t from, word; }){from, word}, 2 * sizeof(int64_t), 0);
}

/* The node that a word leads to; 0: none. */
static int32_t find(const tree *t, int32_t from, int64_t word)
{
    gale__hash_table_probe probe = gale__hash_table_look(hash_of(from, word));
    for (int64_t i; (i = gale__hash_table_next(&t->table, &probe)) >= 0;)
        if (t->nodes[i].from == from && t->nodes[i].word == word) return (int32_t)i;
    return 0;
}

static gale_status add_gram(tree *t, const int64_t *words, int64_t size, int64_t number)
{
    int32_t at = 0;
    for (int64_t i = 0; i < size; i++) {
        int32_t next = find(t, at, words[i]);
        if (!next) {
            GALE_TRY(gale__hash_table_add(&t->table, hash_of(at, words[i]), (uint32_t)t->count));
            next = t->count++;
            t->nodes[next] = (node){at, words[i], -1};
        }
        at = next;
    }
    t->nodes[at].gram = number;
    return GALE_OK;
}

static gale_status new_tree(gale__onnx_host_call *call, size_t words, tree *t)
{
    *t = (tree){.nodes = gale__arena_alloc(&call->arena, (words + 1) * sizeof *t->nodes), .count = 1};
    if (!t->nodes) return GALE_NO_MEMORY;
    t->nodes[0] = (node){-1, -1, -1};
    return gale__hash_table_reserve(&t->table, words);
}

/* pool: the numbers of its words; the n-grams of each size follow one another from counts[size - 1] on. */
static gale_status fill_tree(const settings *s, const int64_t *pool, int64_t words, tree *t)
{
    int64_t number = 0;
    for (size_t k = 0; k < s->counts->count; k++) {
        int64_t from = s->counts->ints[k], to = k + 1 < s->counts->count ? s->counts->ints[k + 1] : words,
                size = (int64_t)k + 1;
        if (from < 0 || to < from || to > words || (to - from) % size)
            return gale__fail(GALE_INVALID, "the %lld-grams of the pool are at %lld to %lld of %lld", (long long)size,
                (long long)from, (long long)to, (long long)words);
        for (; from < to; from += size, number++) {
            if (number >= (int64_t)s->indexes->count)
                return gale__fail(
                    GALE_INVALID, "the pool has more n-grams than the %zu ngram_indexes", s->indexes->count);
            if (size >= s->least && size <= s->most) GALE_TRY(add_gram(t, pool + from, size, number));
        }
    }
    return GALE_OK;
}

static gale_status read_settings(gale__onnx_host_call *call, settings *s)
{
    const gale__onnx_net_node *n = call->node;
    *s = (settings){.least = gale__onnx_net_attr_i(n, "min_gram_length", 1),
        .most = gale__onnx_net_attr_i(n, "max_gram_length", 1),
        .skips = gale__onnx_net_attr_i(n, "max_skip_count", 0),
        .mode = gale__onnx_host_text(call, "mode", "TF")};
    s->counts = gale__onnx_net_attr(n, "ngram_counts");
    s->indexes = gale__onnx_net_attr(n, "ngram_indexes");
    s->weights = gale__onnx_net_attr(n, "weights");
    if (!s->counts || !s->indexes || s->counts->kind != GALE_ATTR_INTS || s->indexes->kind != GALE_ATTR_INTS)
        return gale__fail(GALE_INVALID, "attributes ngram_counts and ngram_indexes are both needed");
    if (s->least < 1 || s->most < s->least || s->skips < 0)
        return gale__fail(GALE_INVALID, "invalid n-grams of %lld to %lld with %lld skips", (long long)s->least,
            (long long)s->most, (long long)s->skips);
    if (strcmp(s->mode, "TF") && strcmp(s->mode, "IDF") && strcmp(s->mode, "TFIDF"))
        return gale__fail(GALE_INVALID, "mode '%s' is not TF, IDF or TFIDF", s->mode);
    for (size_t i = 0; i < s->indexes->count; i++) {
        int64_t index = s->indexes->ints[i];
        if (index < 0 || index >= INT32_MAX)
            return gale__fail(GALE_INVALID, "invalid ngram_indexes[%zu]: %lld", i, (long long)index);
        if (index >= s->columns) s->columns = index + 1;
    }
    if (s->weights && s->weights->kind == GALE_ATTR_FLOATS && s->weights->count &&
        s->weights->count < s->indexes->count)
        return gale__fail(GALE_INVALID, "%zu weights for %zu n-grams", s->weights->count, s->indexes->count);
    return GALE_OK;
}

/* Counts the n-grams of one row; single words do not depend on the distance and are counted once. */
static void count_row(const settings *s, const tree *t, const int64_t *row, int64_t n, float *counts)
{
    int64_t least = s->least;
    for (int64_t distance = 1; distance <= s->skips + 1 && distance <= (n > 1 ? n : 1); distance++) {
        for (int64_t start = 0; start < n && (least - 1) <= (n - 1 - start) / distance; start++) {
            int32_t branch = 0;
            for (int64_t size = 1, at = start; size <= s->most && at < n && row[at] >= 0; size++, at += distance) {
                if (!(branch = find(t, branch, row[at]))) break;
                if (size >= least && t->nodes[branch].gram >= 0) counts[t->nodes[branch].gram] += 1;
            }
        }
        if (least == 1 && ++least > s->most) break;
    }
}

/* From n-grams to columns, as the mode has it: the i-th weight belongs to the i-th n-gram. */
static void place(const settings *s, const float *counts, float *to)
{
    bool weighted = strcmp(s->mode, "TF") && s->weights && s->weights->kind == GALE_ATTR_FLOATS && s->weights->count;
    for (size_t i = 0; i < s->indexes->count; i++) {
        float v = !strcmp(s->mode, "IDF") ? counts[i] > 0 : counts[i];
        to[s->indexes->ints[i]] += weighted ? v * (float)s->weights->floats[i] : v;
    }
}

static gale_status count_all(gale__onnx_host_call *call, const settings *s, const gale_tensor *x,
    const gale_tensor *pool, tree *t, gale_tensor **out)
{
    gale__onnx_lookup lookup;
    const int64_t *words, *items;
    gale_tensor *made = NULL;
    int64_t columns = x->dims[x->rank - 1], rows = x->rank == 2 ? x->dims[0] : 1;
    GALE_TRY(gale__onnx_lookup_make(call, pool, &lookup));
    GALE_TRY(gale__onnx_lookup_all(call, &lookup, pool, &words));
    GALE_TRY(gale__onnx_lookup_all(call, &lookup, x, &items));
    GALE_TRY(new_tree(call, lookup.count, t));
    GALE_TRY(fill_tree(s, words, (int64_t)lookup.count, t));
    float *counts = gale__arena_alloc(&call->arena, (s->indexes->count + 1) * sizeof *counts);
    if (!counts) return GALE_NO_MEMORY;
    GALE_TRY(
        gale_tensor_create(NULL, GALE_F32, x->rank, x->rank == 2 ? (int64_t[]){rows, s->columns} : &s->columns, &made));
    float *to = memset(gale_tensor_data(made), 0, gale_tensor_size_bytes(made));
    for (int64_t i = 0; i < rows; i++, to += s->columns) {
        memset(counts, 0, s->indexes->count * sizeof *counts);
        count_row(s, t, items + i * columns, columns, counts);
        place(s, counts, to);
    }
    *out = made;
    return GALE_OK;
}

gale_status gale__onnx_host_tfidf_vectorizer(gale__onnx_host_call *call)
{
    gale_tensor *x, *pool = NULL, *made = NULL;
    settings s;
    tree t = {0};
    GALE_TRY(gale__onnx_host_tensor(call, 0, &x));
    if (x->rank < 1 || x->rank > 2)
        return gale__fail(GALE_INVALID, "the input has rank %d, but must have 1 or 2", x->rank);
    GALE_TRY(read_settings(call, &s));
    GALE_TRY(gale__onnx_lookup_column(call, "pool", &pool));
    if (!pool) return gale__fail(GALE_INVALID, "missing attribute pool_strings or pool_int64s");
    gale_status status = count_all(call, &s, x, pool, &t, &made);
    gale__hash_table_finish(&t.table);
    gale_tensor_destroy(&pool);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}
