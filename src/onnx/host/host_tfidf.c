/* TfIdfVectorizer: how often each n-gram of a pool occurs in a row of words or whole numbers.  Words are first numbered
 * by their place in the pool; the n-grams are a tree whose branches lie in one hash table, so a row is read once per
 * distance of its items. */
#include "base/hash.h"
#include "onnx/host/lookup.h"
#include <string.h>

typedef struct branch {
    int32_t from, to;
    int64_t word;
} branch; /* to 0: free */
typedef struct tree {
    branch *branches;
    size_t mask;
    int64_t *grams; /* by node: which n-gram ends here, -1 none */
    int32_t nodes;
} tree;
typedef struct settings {
    int64_t least, most, skips, columns;
    const gale_attr *counts, *indexes, *weights;
    const char *mode;
} settings;

static branch *find(const tree *t, int32_t from, int64_t word)
{
    size_t i = (size_t)gale__hash(&(struct { int64_t from, word; }){from, word}, 2 * sizeof(int64_t), 0) & t->mask;
    while (t->branches[i].to && (t->branches[i].from != from || t->branches[i].word != word)) i = (i + 1) & t->mask;
    return &t->branches[i];
}

static void add_gram(tree *t, const int64_t *words, int64_t size, int64_t number)
{
    int32_t node = 0;
    for (int64_t i = 0; i < size; i++) {
        branch *b = find(t, node, words[i]);
        if (!b->to) {
            *b = (branch){node, t->nodes, words[i]};
            t->grams[t->nodes++] = -1;
        }
        node = b->to;
    }
    t->grams[node] = number;
}

static gale_status new_tree(gale__host_call *call, size_t words, tree *t)
{
    size_t slots = 16;
    while (slots < 2 * words + 2) slots *= 2;
    *t = (tree){.mask = slots - 1, .nodes = 1};
    t->branches = gale__arena_alloc(&call->arena, slots * sizeof *t->branches);
    t->grams = gale__arena_alloc(&call->arena, (words + 1) * sizeof *t->grams);
    if (!t->branches || !t->grams) return GALE_NO_MEMORY;
    t->grams[0] = -1;
    return GALE_OK;
}

/* pool: the numbers of its words; the n-grams of each size lie one after another from counts[size - 1] on. */
static gale_status fill_tree(const settings *s, const int64_t *pool, int64_t words, tree *t)
{
    int64_t number = 0;
    for (size_t k = 0; k < s->counts->count; k++) {
        int64_t from = s->counts->ints[k], to = k + 1 < s->counts->count ? s->counts->ints[k + 1] : words,
                size = (int64_t)k + 1;
        if (from < 0 || to < from || to > words || (to - from) % size)
            return gale__fail(GALE_INVALID, "the %lld-grams of the pool lie from %lld to %lld of %lld", (long long)size,
                (long long)from, (long long)to, (long long)words);
        for (; from < to; from += size, number++) {
            if (number >= (int64_t)s->indexes->count)
                return gale__fail(
                    GALE_INVALID, "the pool has more n-grams than ngram_indexes, which are %zu", s->indexes->count);
            if (size >= s->least && size <= s->most) add_gram(t, pool + from, size, number);
        }
    }
    return GALE_OK;
}

static gale_status read_settings(gale__host_call *call, settings *s)
{
    const gale__net_node *n = call->node;
    *s = (settings){.least = gale__net_attr_i(n, "min_gram_length", 1),
        .most = gale__net_attr_i(n, "max_gram_length", 1),
        .skips = gale__net_attr_i(n, "max_skip_count", 0),
        .mode = gale__host_text(call, "mode", "TF")};
    s->counts = gale__net_attr(n, "ngram_counts");
    s->indexes = gale__net_attr(n, "ngram_indexes");
    s->weights = gale__net_attr(n, "weights");
    if (!s->counts || !s->indexes || s->counts->kind != GALE_ATTR_INTS || s->indexes->kind != GALE_ATTR_INTS)
        return gale__fail(GALE_INVALID, "attributes ngram_counts and ngram_indexes are both needed");
    if (s->least < 1 || s->most < s->least || s->skips < 0)
        return gale__fail(GALE_INVALID, "n-grams of %lld to %lld with %lld skips", (long long)s->least,
            (long long)s->most, (long long)s->skips);
    if (strcmp(s->mode, "TF") && strcmp(s->mode, "IDF") && strcmp(s->mode, "TFIDF"))
        return gale__fail(GALE_INVALID, "mode '%s' is not TF, IDF or TFIDF", s->mode);
    for (size_t i = 0; i < s->indexes->count; i++) {
        int64_t index = s->indexes->ints[i];
        if (index < 0 || index >= INT32_MAX)
            return gale__fail(GALE_INVALID, "ngram_indexes[%zu] is %lld", i, (long long)index);
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
            int32_t node = 0;
            for (int64_t size = 1, at = start; size <= s->most && at < n && row[at] >= 0; size++, at += distance) {
                node = find(t, node, row[at])->to;
                if (!node) break;
                if (size >= least && t->grams[node] >= 0) counts[t->grams[node]] += 1;
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

static gale_status count_all(
    gale__host_call *call, const settings *s, const gale_tensor *x, const gale_tensor *pool, gale_tensor **out)
{
    gale__lookup lookup;
    tree t;
    const int64_t *words, *items;
    gale_tensor *made = NULL;
    int64_t columns = x->dims[x->rank - 1], rows = x->rank == 2 ? x->dims[0] : 1;
    GALE_TRY(gale__lookup_make(call, pool, &lookup));
    GALE_TRY(gale__lookup_all(call, &lookup, pool, &words));
    GALE_TRY(gale__lookup_all(call, &lookup, x, &items));
    GALE_TRY(new_tree(call, lookup.count, &t));
    GALE_TRY(fill_tree(s, words, (int64_t)lookup.count, &t));
    float *counts = gale__arena_alloc(&call->arena, (s->indexes->count + 1) * sizeof *counts);
    if (!counts) return GALE_NO_MEMORY;
    GALE_TRY(
        gale_tensor_create(NULL, GALE_F32, x->rank, x->rank == 2 ? (int64_t[]){rows, s->columns} : &s->columns, &made));
    float *to = memset(gale_tensor_data(made), 0, gale_tensor_size_bytes(made));
    for (int64_t i = 0; i < rows; i++, to += s->columns) {
        memset(counts, 0, s->indexes->count * sizeof *counts);
        count_row(s, &t, items + i * columns, columns, counts);
        place(s, counts, to);
    }
    *out = made;
    return GALE_OK;
}

gale_status gale__host_tfidf_vectorizer(gale__host_call *call)
{
    gale_tensor *x, *pool = NULL, *made = NULL;
    settings s;
    GALE_TRY(gale__host_tensor(call, 0, &x));
    if (x->rank < 1 || x->rank > 2)
        return gale__fail(GALE_INVALID, "the input has rank %d, and 1 or 2 is needed", x->rank);
    GALE_TRY(read_settings(call, &s));
    GALE_TRY(gale__lookup_column(call, "pool", &pool));
    if (!pool) return gale__fail(GALE_INVALID, "neither pool_strings nor pool_int64s is there");
    gale_status status = count_all(call, &s, x, pool, &made);
    gale_tensor_destroy(&pool);
    return status == GALE_OK ? gale__host_give(call, 0, &made) : status;
}
