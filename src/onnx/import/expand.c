/* Operators composed of others: applies expand.def, and those of the standard.  A result whose size depends on data is
 * computed on the device with the largest possible size, then sliced; the executor reads the count in between. */
#include "onnx/import/expand.h"
#include "graph/build/opgraph.h"
#include <string.h>

static const struct row {
    const char *domain, *op;
    gale__onnx_rewriter *run;
} rows[] = {
#define X(domain, Operator, function) {domain, #Operator, gale__onnx_expand_##function},
#include "onnx/import/expand.def"
#undef X
};

static gale_status own_name(gale__onnx_net *net, gale__onnx_net_node *node)
{
    char *name = gale__arena_printf(net->arena, "MS%s", node->op);
    if (!name) return GALE_NO_MEMORY;
    if (!gale__op_find(name)) return GALE_OK; /* the message is written where operators are looked up */
    node->op = name;
    node->domain = "";
    return GALE_OK;
}

gale_status gale__onnx_expand(gale__onnx_net *net, gale__onnx_net_node *node, bool *done)
{
    const struct row *row = NULL;
    *done = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !row; i++)
        if (rows[i].op[0] == node->op[0] && strcmp(rows[i].op, node->op) == 0 &&
            strcmp(rows[i].domain, node->domain) == 0)
            row = &rows[i];
    if (row) GALE_TRY(row->run(net, node, done));
    return *done || strcmp(node->domain, "com.microsoft") ? GALE_OK : own_name(net, node);
}

/* The first `count` (an i64 of one element) along axis. */
static void cut(gale__onnx_rewrite *w, int32_t x, int32_t count, int64_t axis, int32_t *out)
{
    int32_t ends = gale__rw(w, "Reshape", count, gale__rw_int(w, 1));
    if (w->status == GALE_OK)
        gale__rw_node(w, "Slice", NULL, 0, GALE__VALUES(x, gale__rw_int(w, 0), ends, gale__rw_int(w, axis)), out, 1);
}

/* The padded operator in the node's place, and its first result cut along `axis`. */
static gale_status padded(gale__onnx_rewrite *w, const char *op, int64_t axis)
{
    int32_t out[2] = {-1, -1};
    gale__rw_node(w, op, w->node->attrs, w->node->n_attrs, w->node->in, w->node->n_in, out, 2);
    cut(w, out[0], out[1], axis, w->node->out);
    return w->status;
}

static bool numbers(const gale__onnx_rewrite *w)
{
    int32_t x = gale__rw_in(w, 0);
    return x >= 0 && w->node->n_out > 0 && w->net->values[x].kind == GALE__KIND_NUMBERS;
}

EXPAND(nonzero)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = numbers(&w);
    return *done ? padded(&w, "NonZeroPadded", 1) : GALE_OK;
}

/* A cast to the type that a value has already: recognisers look through Identity. */
EXPAND(cast)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    gale_type from, to;
    *done = false;
    if (!numbers(&w) || !gale__onnx_net_type(net, node->in[0], &from) || !gale__onnx_net_type(net, node->out[0], &to) ||
        from != to)
        return GALE_OK;
    gale__rw_drop_all(&w);
    gale__rw_become(&w, "Identity", node->in[0]);
    return w.status;
}

EXPAND(compress)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = numbers(&w);
    return *done ? padded(&w, "CompressPadded", gale__onnx_net_attr_i(node, "axis", 0)) : GALE_OK;
}

EXPAND(suppression)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    *done = numbers(&w);
    return *done ? padded(&w, "NonMaxSuppressionPadded", 0) : GALE_OK;
}

EXPAND(unique)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int32_t out[5] = {-1, -1, -1, -1, -1};
    *done = numbers(&w);
    if (!*done) return GALE_OK;
    if (node->n_out > 2) out[2] = node->out[2]; /* its size is known */
    gale__rw_node(&w, "UniquePadded", node->attrs, node->n_attrs, node->in, node->n_in, out, 5);
    if (node->out[0] >= 0) cut(&w, out[0], out[4], gale__onnx_net_attr_i(node, "axis", 0), &node->out[0]);
    for (int i = 1; i < 4 && i < node->n_out; i += 2)
        if (node->out[i] >= 0) cut(&w, out[i], out[4], 0, &node->out[i]);
    return w.status;
}

/* A sample is the place of the largest of the logarithms with noise of Gumbel's distribution added. */
EXPAND(multinomial)
{
    static const gale_attr first = GALE_INT("axis", 0);
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int64_t samples = gale__onnx_net_attr_i(node, "sample_size", 1), type = gale__onnx_net_attr_i(node, "dtype", 6);
    gale_attr draw[] = {GALE_FLOAT("low", 1e-7), GALE_FLOAT("high", 1),
        GALE_FLOAT("seed", gale__rw_float(&w, "seed", 0))},
              arg[] = {GALE_INT("axis", 2), GALE_INT("keepdims", 0)};
    bool seeded = gale__onnx_net_attr(node, "seed");
    *done = false;
    if (samples < 1 || samples > INT32_MAX)
        return gale__onnx_net_fail(node, GALE_FORMAT, "sample_size %lld is out of range", (long long)samples);
    int32_t x = gale__rw_in(&w, 0), row = gale__rw(&w, "Unsqueeze", x, gale__rw_int(&w, 1));
    int32_t shape = gale__rw_with(
        &w, "Concat", first, gale__rw_extent(&w, x, 0), gale__rw_int(&w, samples), gale__rw_extent(&w, x, 1));
    int32_t rowed = gale__rw(&w, "Expand", row, shape),
            u = gale__rw_op(&w, "RandomUniformLike", draw, seeded ? 3 : 2, &rowed, 1);
    int32_t noise = gale__rw(&w, "Log", gale__rw(&w, "Neg", gale__rw(&w, "Log", u))),
            noisy = gale__rw(&w, "Sub", rowed, noise);
    int32_t place = gale__rw_op(&w, "ArgMax", arg, 2, &noisy, 1);
    gale__rw_drop_all(&w);
    gale__rw_set(&w, (gale_attr)GALE_INT("to", type));
    gale__rw_become(&w, "Cast", place);
    return w.status;
}

EXPAND(standard)
{
    (void)net;
    *done = false;
    node->domain = "";
    return GALE_OK;
}

/* Classes with names: the classifier gives their places, and names are looked up.  Scores come from the classifier as
 * they are. */
EXPAND(class_names)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    const gale_attr *names = gale__onnx_net_attr(node, "classlabels_strings");
    int32_t out[2] = {-1, node->n_out > 1 ? node->out[1] : -1};
    *done = false;
    if (!names || names->kind != GALE_ATTR_STRINGS || !names->count || node->n_out < 1 || node->out[0] < 0)
        return GALE_OK;
    gale_attr values = *names;
    int64_t *places = gale__arena_alloc(net->arena, values.count * sizeof *places);
    if (!places) return GALE_NO_MEMORY;
    for (size_t i = 0; i < values.count; i++) places[i] = (int64_t)i;
    gale__rw_node(&w, node->op, node->attrs, node->n_attrs, node->in, node->n_in, out, node->n_out > 1 ? 2 : 1);
    values.name = "values_strings";
    node->n_out = 1;
    gale__rw_drop_all(&w);
    gale__rw_set(&w, gale__rw_ints_attr(&w, "keys_int64s", places, (int)values.count));
    gale__rw_set(&w, values);
    gale__rw_become(&w, "LabelEncoder", out[0]);
    node->domain = "ai.onnx.ml";
    return w.status;
}
