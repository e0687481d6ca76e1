/* Scores are products of queries and tables, side by side.  Sorting millions of them for ten would take longer than
 * computing them: the best k are in the k blocks with the highest maxima, so maxima of blocks are taken until few are
 * left, and the way back down looks only into k blocks of each level. */
#include "jobs/search/index_graph.h"
#include "base/error.h"
#include <math.h>
#include <stdio.h>

enum { BLOCK = 64, SORTED_MOST = 4096, LEVELS_MOST = 12 };

/* The first failure stays. */
typedef struct sketch {
    gale_graph *g;
    gale_status status;
    int64_t k;
} sketch;

static gale_value op(sketch *s, const char *name, const gale_value *in, int n, const gale_attr *attrs, int n_attrs)
{
    gale_value out = GALE_NONE;
    if (s->status == GALE_OK) s->status = gale_graph_op(s->g, name, in, n, attrs, n_attrs, &out, 1);
    return out;
}

static gale_value op2(sketch *s, const char *name, gale_value a, gale_value b)
{
    return op(s, name, (const gale_value[]){a, b}, 2, NULL, 0);
}

static gale_value ints(sketch *s, const int64_t *values, int64_t n)
{
    gale_value out = GALE_NONE;
    if (s->status == GALE_OK) s->status = gale_graph_constant(s->g, GALE_I64, 1, &n, values, &out);
    return out;
}

static gale_value worst(sketch *s)
{
    const float value = -INFINITY;
    gale_value out = GALE_NONE;
    if (s->status == GALE_OK) s->status = gale_graph_constant(s->g, GALE_F32, 0, NULL, &value, &out);
    return out;
}

/* [q, dims] and [rows, dims] to [q, rows]. */
static gale_value product(sketch *s, gale_value queries, const gale__index_shape *shape, int64_t table)
{
    const int64_t first = table * shape->table_rows, left = shape->rows - first, order[2] = {1, 0};
    const int64_t dims[2] = {left < shape->table_rows ? left : shape->table_rows, shape->dims};
    const gale_attr turn[] = {GALE_INTS("perm", order, 2)}, wide[] = {GALE_INT("to", 1)};
    char name[32];
    gale_value rows = GALE_NONE;
    snprintf(name, sizeof name, "table%lld", (long long)table);
    if (s->status == GALE_OK) s->status = gale_graph_input(s->g, name, shape->type, 2, dims, NULL, &rows);
    if (shape->type != GALE_F32) rows = op(s, "Cast", &rows, 1, wide, 1);
    return op2(s, "MatMul", queries, op(s, "Transpose", &rows, 1, turn, 1));
}

/* The scores of all rows; what is not a number is worse than all. */
static gale_value score(sketch *s, const gale__index_shape *shape)
{
    const int64_t dims[2] = {-1, shape->dims};
    const gale_attr along[] = {GALE_INT("axis", 1)};
    gale_value queries = GALE_NONE, parts[GALE__INDEX_TABLES], all;
    int n = 0;
    if (s->status == GALE_OK) s->status = gale_graph_input(s->g, "queries", GALE_F32, 2, dims, NULL, &queries);
    for (int64_t at = 0; at < shape->rows; at += shape->table_rows, n++) parts[n] = product(s, queries, shape, n);
    all = n == 1 ? parts[0] : op(s, "Concat", parts, n, along, 1);
    return op(s, "Where", (const gale_value[]){op(s, "IsNaN", &all, 1, NULL, 0), worst(s), all}, 3, NULL, 0);
}

/* [q, n] to [q, n / BLOCK, BLOCK], filled up at the end. */
static gale_value blocks_of(sketch *s, gale_value x, int64_t n)
{
    const int64_t blocks = (n + BLOCK - 1) / BLOCK, pads[4] = {0, 0, 0, blocks * BLOCK - n},
                  shape[3] = {0, blocks, BLOCK};
    if (pads[3]) x = op(s, "Pad", (const gale_value[]){x, ints(s, pads, 4), worst(s)}, 3, NULL, 0);
    return op2(s, "Reshape", x, ints(s, shape, 3));
}

static void best(sketch *s, gale_value x, bool largest, gale_value out[2])
{
    const gale_attr how[] = {GALE_INT("largest", largest)};
    gale_value in[2] = {x, ints(s, &s->k, 1)};
    out[0] = out[1] = GALE_NONE;
    if (s->status == GALE_OK) s->status = gale_graph_op(s->g, "TopK", in, 2, how, 1, out, 2);
}

/* The best k of the blocks at `places`, in the order of rows, so that of equals the first is found first. */
static void descend(sketch *s, gale_value blocks, gale_value found[2])
{
    const int64_t two = 2, wide[3] = {1, 1, BLOCK}, flat[2] = {0, s->k * BLOCK}, block = BLOCK;
    const gale_attr along[] = {GALE_INT("axis", 1)};
    gale_value ordered[2], inside[2];
    best(s, found[1], false, ordered);
    gale_value each = op2(s, "Expand", op2(s, "Unsqueeze", ordered[0], ints(s, &two, 1)), ints(s, wide, 3));
    gale_value some = op(s, "GatherElements", (const gale_value[]){blocks, each}, 2, along, 1);
    best(s, op2(s, "Reshape", some, ints(s, flat, 2)), true, inside);
    gale_value size = ints(s, &block, 1), which = op2(s, "Div", inside[1], size), at = op2(s, "Mod", inside[1], size);
    gale_value from = op(s, "GatherElements", (const gale_value[]){ordered[0], which}, 2, along, 1);
    found[0] = inside[0];
    found[1] = op2(s, "Add", op2(s, "Mul", from, size), at);
}

gale_status gale__index_graph(gale_graph *g, const gale__index_shape *shape)
{
    sketch s = {.g = g, .k = shape->k};
    const int64_t two = 2;
    const gale_attr flat[] = {GALE_INT("keepdims", 0)};
    gale_value levels[LEVELS_MOST], found[2], x;
    int n = 0;
    if (shape->rows > GALE__INDEX_TABLES * shape->table_rows)
        return gale__fail(
            GALE_LIMIT, "%lld vectors are more than a device can search; use --provider cpu", (long long)shape->rows);
    x = score(&s, shape);
    for (int64_t left = shape->rows; left > SORTED_MOST && 2 * BLOCK * s.k <= left; left = (left + BLOCK - 1) / BLOCK) {
        levels[n] = blocks_of(&s, x, left);
        x = op(&s, "ReduceMax", (const gale_value[]){levels[n], ints(&s, &two, 1)}, 2, flat, 1);
        n++;
    }
    best(&s, x, true, found);
    while (n) descend(&s, levels[--n], found);
    GALE_TRY(s.status);
    GALE_TRY(gale_graph_output(g, "scores", found[0]));
    return gale_graph_output(g, "rows", found[1]);
}
