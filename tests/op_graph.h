/* Writing an operator graph in a few lines, with inputs of random contents. */
#ifndef GALE_TEST_OP_GRAPH_H
#define GALE_TEST_OP_GRAPH_H
#include "base/mem.h"
#include "gale/graph.h"
#include "test.h"
#include <math.h>

#define OG_INPUTS 24

typedef struct og {
    gale_graph *graph;
    gale_status status; /* the first failure stays */
    int n_inputs, n_outputs;
    int rank[OG_INPUTS];
    int64_t dims[OG_INPUTS][GALE_MAX_RANK];
    gale_type type[OG_INPUTS];
    gale_tensor *inputs[OG_INPUTS];
    uint32_t seed;
} og;

static inline void og_begin(og *t)
{
    memset(t, 0, sizeof *t);
    t->seed = 1;
    t->status = gale_graph_create(&t->graph);
}

static inline void og_end(og *t)
{
    for (int i = 0; i < t->n_inputs; i++) gale_tensor_destroy(&t->inputs[i]);
    gale_graph_destroy(&t->graph);
}

static inline void og_note(og *t, gale_status status)
{
    if (t->status == GALE_OK) t->status = status;
}

static inline gale_value og_input(og *t, int rank, const int64_t *dims)
{
    gale_value v = GALE_NONE;
    char name[8] = {'x', (char)('a' + t->n_inputs)};
    int i = t->n_inputs++;
    t->rank[i] = rank;
    t->type[i] = GALE_F32;
    memcpy(t->dims[i], dims, (size_t)rank * sizeof *dims);
    og_note(t, gale_graph_input(t->graph, name, GALE_F32, rank, dims, NULL, &v));
    return v;
}
#define OG_INPUT(t, ...) \
    og_input(t, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static inline gale_value og_op(
    og *t, const char *name, const gale_value *in, int n, const gale_attr *attrs, int n_attrs)
{
    gale_value out = GALE_NONE;
    if (t->status == GALE_OK) t->status = gale_graph_op(t->graph, name, in, n, attrs, n_attrs, &out, 1);
    return out;
}
static inline gale_value og_op1(og *t, const char *name, gale_value x) { return og_op(t, name, &x, 1, NULL, 0); }
static inline gale_value og_op2(og *t, const char *name, gale_value x, gale_value y)
{
    return og_op(t, name, (gale_value[]){x, y}, 2, NULL, 0);
}

static inline gale_value og_constant(og *t, int rank, const int64_t *dims, const float *data)
{
    gale_value v = GALE_NONE;
    if (t->status == GALE_OK) t->status = gale_graph_constant(t->graph, GALE_F32, rank, dims, data, &v);
    return v;
}
static inline gale_value og_data(og *t, gale_type type, int rank, const int64_t *dims, const void *data)
{
    gale_value v = GALE_NONE;
    og_note(t, gale_graph_constant(t->graph, type, rank, dims, data, &v));
    return v;
}
/* An input with these contents; og_tensors is not for graphs with such inputs. */
static inline gale_value og_given(og *t, gale_type type, int rank, const int64_t *dims, const void *data)
{
    gale_value v = GALE_NONE;
    char name[8] = {'x', (char)('a' + t->n_inputs)};
    og_note(t, gale_graph_input(t->graph, name, type, rank, dims, NULL, &v));
    og_note(t, gale_tensor_from_cpu(NULL, type, rank, dims, data, &t->inputs[t->n_inputs++]));
    return v;
}
static inline gale_value og_number(og *t, float v) { return og_constant(t, 0, NULL, &v); }

static inline gale_value og_ints(og *t, int n, const int64_t *values)
{
    gale_value v = GALE_NONE;
    int64_t dims[1] = {n};
    if (t->status == GALE_OK) t->status = gale_graph_constant(t->graph, GALE_I64, 1, dims, values, &v);
    return v;
}
#define OG_INTS(t, ...) \
    og_ints(t, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

/* Weights of 4 or 8 bits [n, k] in blocks of 32, any bytes. */
static inline gale_value og_packed(og *t, gale_value x, int64_t n, int64_t k, int64_t bits, bool zeros)
{
    int64_t blocks = (k + 31) / 32, dims[3] = {n, blocks, 4 * bits}, row[2] = {n, (blocks * bits + 7) / 8},
            total = n * blocks * 4 * bits;
    uint8_t *data = gale__alloc((size_t)total);
    float *scales = gale__alloc((size_t)(n * blocks) * sizeof *scales);
    gale_value in[4] = {x, GALE_NONE, GALE_NONE, GALE_NONE};
    for (int64_t i = 0; data && i < total; i++) data[i] = (uint8_t)(i * 37 + i / 11);
    for (int64_t i = 0; scales && i < n * blocks; i++) scales[i] = (float)(1 + i % 7) / 64;
    if (!data || !scales) t->status = GALE_NO_MEMORY;
    if (t->status == GALE_OK) t->status = gale_graph_constant(t->graph, GALE_U8, 3, dims, data, &in[1]);
    if (t->status == GALE_OK)
        t->status = gale_graph_constant(t->graph, GALE_F32, 2, (const int64_t[]){n, blocks}, scales, &in[2]);
    if (t->status == GALE_OK && zeros) t->status = gale_graph_constant(t->graph, GALE_U8, 2, row, data, &in[3]);
    gale__free(data);
    gale__free(scales);
    const gale_attr attrs[] = {GALE_INT("N", n), GALE_INT("K", k), GALE_INT("bits", bits), GALE_INT("block_size", 32)};
    return og_op(t, "MSMatMulNBits", in, zeros ? 4 : 3, attrs, 4);
}

/* The best of s boxes for each of c classes, and how many rows that is. */
/* n batches of c classes and s boxes. */
static inline void og_suppress(og *t, int64_t n, int64_t c, int64_t s, int64_t most, gale_value out[2])
{
    const int64_t boxes[3] = {n, s, 4}, scores[3] = {n, c, s};
    gale_value in[5] = {
        og_input(t, 3, boxes), og_input(t, 3, scores), og_ints(t, 1, &most), og_number(t, 0.2f), og_number(t, 0.1f)};
    if (t->status == GALE_OK) t->status = gale_graph_op(t->graph, "NonMaxSuppressionPadded", in, 5, NULL, 0, out, 2);
}

static inline gale_value og_softmax(og *t, gale_value x, int64_t axis)
{
    return og_op(t, "Softmax", &x, 1, (gale_attr[]){GALE_INT("axis", axis)}, 1);
}
static inline gale_value og_reshape(og *t, gale_value x, gale_value shape) { return og_op2(t, "Reshape", x, shape); }
static inline gale_value og_transpose(og *t, gale_value x, int n, const int64_t *perm)
{
    return og_op(t, "Transpose", &x, 1, (gale_attr[]){GALE_INTS("perm", perm, (size_t)n)}, 1);
}
#define OG_TRANSPOSE(t, x, ...) \
    og_transpose(t, x, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

/* Two spatial axes, the same stride and padding along both. */
static inline gale_value og_conv(
    og *t, gale_value x, gale_value w, gale_value b, int64_t groups, int64_t stride, int64_t pad)
{
    int64_t strides[2] = {stride, stride}, pads[4] = {pad, pad, pad, pad};
    gale_attr attrs[3] = {GALE_INT("group", groups), GALE_INTS("strides", strides, 2), GALE_INTS("pads", pads, 4)};
    return og_op(t, "Conv", (gale_value[]){x, w, b}, b == GALE_NONE ? 2 : 3, attrs, 3);
}

static inline void og_output(og *t, gale_value v)
{
    char name[8] = {'y', (char)('a' + t->n_outputs++)};
    if (t->status == GALE_OK) t->status = gale_graph_output(t->graph, name, v);
}

static inline float og_random(og *t)
{
    return (float)((t->seed = t->seed * 1664525u + 1013904223u) >> 8) * 0x1p-22f - 2;
} /* in [-2, 2) */

/* A layer of RNN (1 gate), GRU (3, linear before its reset) or LSTM (4); first: states are given; timed: sequences of
 * all lengths. */
typedef struct og_cell {
    const char *op;
    int64_t gates, trips, batch, inputs, hidden;
    const char *direction;
    bool bias, first, timed;
} og_cell;
static inline gale_value og_lengths(og *t, const og_cell *c)
{
    int32_t lengths[512];
    gale_value v = GALE_NONE;
    for (int64_t i = 0; i < c->batch && i < 512; i++) lengths[i] = (int32_t)(1 + i % c->trips);
    if (t->status == GALE_OK) t->status = gale_graph_constant(t->graph, GALE_I32, 1, &c->batch, lengths, &v);
    return v;
}
static inline int og_directions(const og_cell *c) { return strcmp(c->direction, "bidirectional") ? 1 : 2; }
static inline void og_recurrent(og *t, const og_cell *c)
{
    int64_t d = og_directions(c), rows = c->gates * c->hidden;
    bool lstm = c->gates == 4;
    gale_value in[7] = {OG_INPUT(t, c->trips, c->batch, c->inputs), OG_INPUT(t, d, rows, c->inputs),
        OG_INPUT(t, d, rows, c->hidden), c->bias ? OG_INPUT(t, d, 2 * rows) : GALE_NONE, GALE_NONE, GALE_NONE,
        GALE_NONE};
    if (c->timed) in[4] = og_lengths(t, c);
    if (c->first) in[5] = OG_INPUT(t, d, c->batch, c->hidden);
    if (c->first && lstm) in[6] = OG_INPUT(t, d, c->batch, c->hidden);
    gale_attr attrs[3] = {GALE_STRING_ATTR("direction", c->direction), GALE_INT("hidden_size", c->hidden),
        GALE_INT("linear_before_reset", 1)};
    gale_value out[3] = {GALE_NONE, GALE_NONE, GALE_NONE};
    if (t->status == GALE_OK)
        t->status = gale_graph_op(
            t->graph, c->op, in, 5 + (c->first ? 1 + lstm : 0), attrs, c->gates == 3 ? 3 : 2, out, 2 + lstm);
    for (int i = 0; i < 2 + lstm; i++) og_output(t, out[i]);
}

/* The largest difference of two tensors of f32. */
static inline double og_distance(gale_tensor *a, gale_tensor *b)
{
    const float *x = gale_tensor_data(a), *y = gale_tensor_data(b);
    double worst = 0;
    for (size_t i = 0; i < gale_tensor_size_bytes(a) / sizeof *x; i++) worst = fmax(worst, fabs((double)x[i] - y[i]));
    return worst;
}

/* The inputs as tensors of the device. */
static inline gale_status og_tensors(og *t, gale_device *device)
{
    for (int i = 0; i < t->n_inputs; i++) {
        gale_tensor *host = NULL;
        gale_status status = gale_tensor_create(NULL, GALE_F32, t->rank[i], t->dims[i], &host);
        if (status != GALE_OK) return status;
        float *data = gale_tensor_data(host);
        for (size_t k = 0; k < gale_tensor_size_bytes(host) / sizeof *data; k++) data[k] = og_random(t);
        status = device ? gale_tensor_to_device(host, device, &t->inputs[i]) : (t->inputs[i] = host, GALE_OK);
        if (device) gale_tensor_destroy(&host);
        if (status != GALE_OK) return status;
    }
    return GALE_OK;
}
#endif
