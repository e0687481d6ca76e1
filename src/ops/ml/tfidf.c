/* TfIdfVectorizer on integers: every window of a row is compared with every n-gram of its size at once, so counting is
 * one reduction per size and distance. (On words it runs on the host, src/onnx/host/host_tfidf.c.) */
#include "ops/ml/ml.h"
#include <stdlib.h>
#include <string.h>

#define MOST_WINDOWS 4096 /* sizes times distances: nodes of the graph */

typedef struct gram {
    const int64_t *words;
    int64_t size, number;
} gram;
typedef struct grams {
    gram *all;
    int64_t count, least, most, distances, columns;
    gale__ml_list indexes, weights;
    bool *hidden; /* by number: an equal n-gram follows it, and that one counts */
} grams;

static int compare(const void *a, const void *b)
{
    const gram *x = a, *y = b;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    for (int64_t i = 0; i < x->size; i++)
        if (x->words[i] != y->words[i]) return x->words[i] < y->words[i] ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void hide_repeated(gale__lower *L, grams *s)
{
    gram *sorted = gale__arena_copy(&L->g->arena, s->all, (size_t)s->count * sizeof *sorted);
    if (!sorted) return (void)(L->g->status = GALE_NO_MEMORY);
    qsort(sorted, (size_t)s->count, sizeof *sorted, compare);
    for (int64_t i = 0; i + 1 < s->count; i++) {
        const gram *x = &sorted[i], *y = x + 1;
        s->hidden[x->number] = x->size == y->size && !memcmp(x->words, y->words, (size_t)x->size * sizeof *x->words);
    }
}

/* The n-grams of each size follow one another in the pool, from counts[size - 1] on. */
static void read_grams(gale__lower *L, grams *s)
{
    gale__ml_list pool = gale__ml_list_read(L, "pool_int64s"), counts = gale__ml_list_read(L, "ngram_counts");
    s->indexes = gale__ml_list_read(L, "ngram_indexes");
    if (gale__lower_good(L) && (!pool.data || pool.type != GALE_I64 || !counts.data || !s->indexes.data))
        gale__lower_refuse(L, "attributes pool_int64s, ngram_counts and ngram_indexes are all needed");
    if (!gale__lower_good(L)) return;
    s->all = gale__arena_alloc(&L->g->arena, (size_t)(s->indexes.count + 1) * sizeof *s->all);
    s->hidden = gale__arena_alloc(&L->g->arena, (size_t)s->indexes.count + 1);
    if (!s->all || !s->hidden) return (void)(L->g->status = GALE_NO_MEMORY);
    for (int64_t k = 0; k < counts.count; k++) {
        int64_t from = gale__ml_list_i(&counts, k),
                to = k + 1 < counts.count ? gale__ml_list_i(&counts, k + 1) : pool.count, size = k + 1;
        if (from < 0 || to < from || to > pool.count || (to - from) % size ||
            (to - from) / size > s->indexes.count - s->count) {
            gale__lower_refuse(L, "the %lld-grams of the pool are at %lld to %lld of %lld", (long long)size,
                (long long)from, (long long)to, (long long)pool.count);
            return;
        }
        for (; from < to; from += size, s->count++)
            s->all[s->count] = (gram){(const int64_t *)pool.data + from, size, s->count};
    }
    hide_repeated(L, s);
}

static void read_settings(gale__lower *L, grams *s)
{
    s->least = gale__attr_i(L, "min_gram_length", 1);
    s->most = gale__attr_i(L, "max_gram_length", 1);
    int64_t skips = gale__attr_i(L, "max_skip_count", 0);
    s->weights = gale__ml_list_read(L, "weights");
    if (s->least < 1 || s->most < s->least || skips < 0)
        gale__lower_refuse(L, "invalid n-grams of %lld to %lld with %lld skips", (long long)s->least,
            (long long)s->most, (long long)skips);
    s->distances = skips < INT32_MAX ? skips + 1 : INT32_MAX;
    for (int64_t i = 0; gale__lower_good(L) && i < s->indexes.count; i++) {
        int64_t index = gale__ml_list_i(&s->indexes, i);
        if (index < 0 || index >= INT32_MAX)
            gale__lower_refuse(L, "invalid ngram_indexes[%lld]: %lld", (long long)i, (long long)index);
        else if (index >= s->columns) s->columns = index + 1;
    }
    if (gale__lower_good(L) && s->weights.count && s->weights.count < s->count)
        gale__lower_refuse(L, "%lld weights for %lld n-grams", (long long)s->weights.count, (long long)s->count);
}

/* Whether each window of x [B, C] is each n-gram: [B, windows, n] of bool. */
static gale__node matches(gale__lower *L, gale__node x, const gram *first, int64_t n, int64_t distance, int64_t windows)
{
    gale__prim_graph *g = L->g;
    gale__node all = GALE__NIL;
    int64_t dims[3] = {1, 1, n};
    for (int64_t k = 0; k < first->size && gale__lower_good(L); k++) {
        int64_t *words = gale__arena_alloc(&g->arena, (size_t)n * sizeof *words);
        if (!words) return g->status = GALE_NO_MEMORY, GALE__NIL;
        for (int64_t i = 0; i < n; i++) words[i] = first[i].words[k];
        gale__node item = gale__prim_unsqueeze(g, gale__prim_slice_axis(g, x, 1, k * distance, windows), 1u << 2);
        gale__node same = gale__prim_binary(g, GALE__EQ, item, gale__prim_const(g, GALE_I64, 3, dims, words));
        all = k ? gale__prim_binary(g, GALE__AND, all, same) : same;
    }
    return all;
}

/* How often each of n n-grams of one size occurs in the rows: F32 [B, n].  Single words do not depend on the distance.
 */
static gale__node count_size(
    gale__lower *L, const grams *s, gale__node x, const gram *first, int64_t n, int *windows_made)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    gale__node sum = gale__prim_splat(g, GALE_F32, 2, (int64_t[]){p.dims[0], n}, 0);
    if (first->size < s->least || first->size > s->most) return sum;
    for (int64_t d = 1; d <= (first->size == 1 ? 1 : s->distances) && gale__lower_good(L); d++) {
        if (first->size > 1 && first->size - 1 > (p.dims[1] - 1) / d) break;
        int64_t windows = p.dims[1] - (first->size - 1) * d;
        if (windows <= 0) break;
        if (++*windows_made > MOST_WINDOWS)
            return gale__lower_refuse(L, "more than %d sizes and distances of n-grams", MOST_WINDOWS);
        gale__node found = gale__prim_cast(g, matches(L, x, first, n, d, windows), GALE_F32);
        sum = gale__prim_add(g, sum, gale__prim_reduce(g, GALE__SUM, found, 1u << 1, false));
    }
    return sum;
}

/* counts [B, n + 1], the last column 0, to columns [B, columns]: one n-gram a column each time, until all are placed.
 */
static gale__node place(gale__lower *L, const grams *s, gale__node counts)
{
    gale__prim_graph *g = L->g;
    gale__node sum = GALE__NIL;
    int64_t next = 0;
    bool *placed = gale__arena_alloc(&g->arena, (size_t)s->count + 1);
    if (!placed) return g->status = GALE_NO_MEMORY, GALE__NIL;
    for (int round = 0; gale__lower_good(L) && (round == 0 || next < s->count); round++) {
        int64_t *from = gale__arena_alloc(&g->arena, (size_t)(s->columns + 1) * sizeof *from);
        if (!from) return g->status = GALE_NO_MEMORY, GALE__NIL;
        if (round == 64) return gale__lower_refuse(L, "more than 64 n-grams share a column");
        for (int64_t i = 0; i < s->columns; i++) from[i] = s->count;
        for (int64_t i = next; i < s->count; i++) {
            int64_t *at = &from[gale__ml_list_i(&s->indexes, i)];
            if (!placed[i] && (s->hidden[i] || *at == s->count)) {
                if (!s->hidden[i]) *at = i;
                placed[i] = true;
            }
        }
        while (next < s->count && placed[next]) next++;
        gale__node columns = gale__prim_gather(g, counts, gale__prim_const(g, GALE_I64, 1, &s->columns, from), 1);
        sum = round ? gale__prim_add(g, sum, columns) : columns;
    }
    return sum;
}

/* counts [B, n] as the mode has them: the i-th weight belongs to the i-th n-gram. */
static gale__node weigh(gale__lower *L, const grams *s, gale__node counts)
{
    gale__prim_graph *g = L->g;
    const char *mode = gale__attr_s(L, "mode", "TF");
    bool idf = !strcmp(mode, "IDF");
    if (!strcmp(mode, "TF")) return counts;
    if (!idf && strcmp(mode, "TFIDF")) return gale__lower_refuse(L, "mode '%s' is not TF, IDF or TFIDF", mode);
    if (idf)
        counts = gale__prim_cast(g, gale__prim_binary(g, GALE__GT, counts, gale__lower_value(L, counts, 0)), GALE_F32);
    if (!s->weights.count) return counts;
    gale__ml_list weights = {s->weights.type, s->count, s->weights.data};
    return gale__prim_mul(g, counts, gale__ml_list_node(L, &weights, "weights", GALE_F32, 1, &s->count));
}

LOWER(TfIdfVectorizer)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    grams s = {0};
    int windows = 0, n = 0;
    if (p.rank < 1 || p.rank > 2) gale__lower_refuse(L, "the input has rank %d, but must have 1 or 2", p.rank);
    if (gale__lower_good(L)) read_grams(L, &s);
    if (gale__lower_good(L)) read_settings(L, &s);
    gale__node *parts =
        gale__lower_good(L) ? gale__arena_alloc(&g->arena, (size_t)(s.count + 1) * sizeof *parts) : NULL;
    if (!parts && gale__lower_good(L)) g->status = GALE_NO_MEMORY;
    if (!parts) return;
    gale__node x = gale__prim_cast(g, p.rank == 1 ? gale__prim_unsqueeze(g, L->in[0], 1u) : L->in[0], GALE_I64);
    for (int64_t from = 0, to; from < s.count && gale__lower_good(L); from = to) {
        for (to = from; to < s.count && s.all[to].size == s.all[from].size;) to++;
        parts[n++] = count_size(L, &s, x, &s.all[from], to - from, &windows);
    }
    if (!gale__lower_good(L)) return;
    gale__node none = gale__prim_splat(g, GALE_F32, 2, (int64_t[]){gale__lower_peek(g, x).dims[0], 1}, 0), all = none;
    if (n)
        all = gale__prim_concat(
            g, 1, (gale__node[]){weigh(L, &s, n > 1 ? gale__prim_concat(g, 1, parts, n) : parts[0]), none}, 2);
    gale__node y = place(L, &s, all);
    L->out[0] = p.rank == 1 ? gale__prim_squeeze(g, y, 1u) : y;
}
