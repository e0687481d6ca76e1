/* Graphs through the public API, for tests of programs: a builder that stops at the first failure, and a network with
 * something of everything. */
#ifndef GALE_TEST_PROGRAM_GRAPHS_H
#define GALE_TEST_PROGRAM_GRAPHS_H
#include "test.h"
#include "gale/graph.h"
#include <math.h>
#include <stdlib.h>

/* "rank, dims" of a shape. */
#define SHAPE(...) \
    (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define SCALAR 0, NULL

typedef struct pg {
    gale_graph *graph;
    gale_status status;
} pg;

static inline pg pg_begin(void)
{
    pg g = {0};
    g.status = gale_graph_create(&g.graph);
    return g;
}

/* The graph, or NULL and the status of what failed first. */
static inline gale_status pg_end(pg *g, gale_graph **out)
{
    if (g->status != GALE_OK) return gale_graph_destroy(&g->graph), g->status;
    *out = g->graph;
    return GALE_OK;
}

static inline gale_value pg_input(
    pg *g, const char *name, gale_type type, int rank, const int64_t *dims, const char *const *symbols)
{
    gale_value v = GALE_NONE;
    if (g->status == GALE_OK) g->status = gale_graph_input(g->graph, name, type, rank, dims, symbols, &v);
    return v;
}

static inline gale_value pg_constant(pg *g, gale_type type, int rank, const int64_t *dims, const void *data)
{
    gale_value v = GALE_NONE;
    if (g->status == GALE_OK) g->status = gale_graph_constant(g->graph, type, rank, dims, data, &v);
    return v;
}

static inline gale_value pg_op(
    pg *g, const char *op, const gale_value *inputs, int n, const gale_attr *attrs, int n_attrs)
{
    gale_value v = GALE_NONE;
    if (g->status == GALE_OK) g->status = gale_graph_op(g->graph, op, inputs, n, attrs, n_attrs, &v, 1);
    return v;
}
#define OP1(g, op, a) pg_op(g, op, (gale_value[]){a}, 1, NULL, 0)
#define OP2(g, op, a, b) pg_op(g, op, (gale_value[]){a, b}, 2, NULL, 0)
#define OP1_WITH(g, op, a, ...) \
    pg_op(g, op, (gale_value[]){a}, 1, (gale_attr[]){__VA_ARGS__}, sizeof(gale_attr[]){__VA_ARGS__} / sizeof(gale_attr))

static inline void pg_output(pg *g, const char *name, gale_value v)
{
    if (g->status == GALE_OK) g->status = gale_graph_output(g->graph, name, v);
}

/* Numbers in [-1, 1], the same for the same seed. */
static inline void pg_fill(float *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
}

/* x[N, 8] -> softmax(x W + b)[N, 4]: two kernels, so that devices which capture do. */
enum { PG_IN = 8, PG_OUT = 4 };
static inline gale_status pg_layer(gale_graph **out)
{
    static const char *const symbols[] = {"N", NULL};
    float w[PG_IN * PG_OUT], b[PG_OUT];
    pg_fill(w, PG_IN * PG_OUT, 1);
    pg_fill(b, PG_OUT, 2);
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1, PG_IN), symbols);
    gale_value y = OP2(&g, "MatMul", x, pg_constant(&g, GALE_F32, SHAPE(PG_IN, PG_OUT), w));
    pg_output(&g, "y", OP1(&g, "Softmax", OP2(&g, "Add", y, pg_constant(&g, GALE_F32, SHAPE(PG_OUT), b))));
    return pg_end(&g, out);
}

static inline void pg_layer_want(const float *x, int n, float *y)
{
    float w[PG_IN * PG_OUT], b[PG_OUT];
    pg_fill(w, PG_IN * PG_OUT, 1);
    pg_fill(b, PG_OUT, 2);
    for (int r = 0; r < n; r++) {
        double sum[PG_OUT], total = 0;
        for (int j = 0; j < PG_OUT; j++) {
            sum[j] = b[j];
            for (int k = 0; k < PG_IN; k++) sum[j] += (double)x[r * PG_IN + k] * (double)w[k * PG_OUT + j];
            total += exp(sum[j]);
        }
        for (int j = 0; j < PG_OUT; j++) y[r * PG_OUT + j] = (float)(exp(sum[j]) / total);
    }
}

/* A network with something of everything: convolution, a shape given at run time, matrix product, softmax, gather,
 * concat, and the gradient of a loss by its weights; with `special` also scatter, sort and a running sum. Inputs: x
 * f32[N, 2, 6, 6], w f32[3, 2, 3, 3], shape i64[2], index i64[N].  Outputs: loss, probabilities, gradients of w and x.
 */
static inline gale_status pg_network(bool special, gale_graph **out)
{
    static const char *const batch[] = {"N", NULL, NULL, NULL};
    static const int64_t pads[] = {1, 1, 1, 1};
    float weight[27 * 5], table[7 * 5], bias[3];
    pg_fill(weight, 27 * 5, 3);
    pg_fill(table, 7 * 5, 4);
    pg_fill(bias, 3, 5);
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1, 2, 6, 6), batch),
               w = pg_input(&g, "w", GALE_F32, SHAPE(3, 2, 3, 3), NULL);
    gale_value shape = pg_input(&g, "shape", GALE_I64, SHAPE(2), NULL),
               index = pg_input(&g, "index", GALE_I64, SHAPE(-1), batch);
    gale_attr attrs[] = {GALE_INTS("pads", pads, 4)};
    gale_value c = pg_op(&g, "Conv", (gale_value[]){x, w, pg_constant(&g, GALE_F32, SHAPE(3), bias)}, 3, attrs, 1);
    gale_value pooled = OP1_WITH(&g, "MaxPool", OP1(&g, "Relu", c), GALE_INTS("kernel_shape", ((int64_t[]){2, 2}), 2),
        GALE_INTS("strides", ((int64_t[]){2, 2}), 2));
    gale_value flat = OP2(&g, "Reshape", pooled, shape); /* [N, 27] */
    gale_value logits = OP2(&g, "MatMul", flat, pg_constant(&g, GALE_F32, SHAPE(27, 5), weight));
    gale_value p = OP1(&g, "Softmax", logits);
    gale_value rows = OP2(&g, "Gather", pg_constant(&g, GALE_F32, SHAPE(7, 5), table), index);
    gale_value both =
        pg_op(&g, "Concat", (gale_value[]){OP2(&g, "Mul", p, rows), rows}, 2, (gale_attr[]){GALE_INT("axis", 1)}, 1);
    if (special) {
        int64_t zero = 0;
        gale_value at = OP1_WITH(&g, "ArgSort", p, GALE_INT("axis", 1));
        both = pg_op(&g, "ScatterElements", (gale_value[]){both, at, p}, 3,
            (gale_attr[]){GALE_INT("axis", 1), GALE_STRING_ATTR("reduction", "add")}, 2);
        both = OP2(&g, "CumSum", both, pg_constant(&g, GALE_I64, SCALAR, &zero));
    }
    gale_value loss = OP1_WITH(&g, "ReduceSum", OP2(&g, "Mul", both, both), GALE_INT("keepdims", 0)), grads[2] = {0};
    if (g.status == GALE_OK) g.status = gale_graph_gradient(g.graph, loss, (gale_value[]){w, x}, 2, grads);
    pg_output(&g, "loss", loss);
    pg_output(&g, "p", p);
    pg_output(&g, "dw", grads[0]);
    pg_output(&g, "dx", grads[1]);
    return pg_end(&g, out);
}

/* The network's inputs for a batch of n, in order; NULLs on failure. */
static inline gale_status pg_network_inputs(gale_device *on, int64_t n, gale_tensor *in[4])
{
    float x[8 * 72], w[54];
    int64_t shape[2] = {n, 27}, index[8];
    pg_fill(x, sizeof x / sizeof *x, 6);
    pg_fill(w, 54, 7);
    for (int i = 0; i < 8; i++) index[i] = i % 7 - (i == 3 ? 7 : 0); /* -4 counts from the end */
    gale_status status = gale_tensor_from_cpu(on, GALE_F32, SHAPE(n, 2, 6, 6), x, &in[0]);
    if (status == GALE_OK) status = gale_tensor_from_cpu(on, GALE_F32, SHAPE(3, 2, 3, 3), w, &in[1]);
    if (status == GALE_OK) status = gale_tensor_from_cpu(on, GALE_I64, SHAPE(2), shape, &in[2]);
    if (status == GALE_OK) status = gale_tensor_from_cpu(on, GALE_I64, SHAPE(n), index, &in[3]);
    return status;
}
#endif
