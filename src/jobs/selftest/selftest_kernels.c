/* What each kernel of the self-test computes, in the words of ONNX. */
#include "jobs/selftest/selftest_kernels.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/num.h"
#include <stdio.h>

/* Over -25..25, or over -2..2 for what is summed, as f32 or f16. */
typedef enum range { WIDE, NEAR, HALF } range;

/* A new input with values in no order, all different. */
static gale_status input(gale__selftest_net *net, int rank, const int64_t *dims, range over, gale_value *out)
{
    gale_type type = over == HALF ? GALE_F16 : GALE_F32;
    float *data;
    char name[16];
    int64_t size = 1;
    for (int i = 0; i < rank; i++) size *= dims[i];
    if (net->n_inputs == GALE__SELFTEST_INPUTS) return gale__fail(GALE_INTERNAL, "too many inputs in the self-test");
    if (!(data = gale__alloc((size_t)size * sizeof *data))) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < size; i++) {
        double at = (double)((i * 19 + net->n_inputs) % size) / (double)size;
        float value = (float)((at * 2 - 1) * (over == WIDE ? 25 : 2));
        if (over == HALF) ((uint16_t *)data)[i] = gale__f32_to_f16(value);
        else data[i] = value;
    }
    snprintf(name, sizeof name, "x%d", net->n_inputs);
    gale_status status = gale_tensor_from_cpu(NULL, type, rank, dims, data, &net->inputs[net->n_inputs]);
    gale__free(data);
    if (status != GALE_OK) return status;
    net->n_inputs++;
    return gale_graph_input(net->graph, name, type, rank, dims, NULL, out);
}

static gale_status unary(gale__selftest_net *net, const char *op, gale_value x, gale_value *out)
{
    return gale_graph_op(net->graph, op, &x, 1, NULL, 0, out, 1);
}

static gale_status mish(gale__selftest_net *net, gale_value *out)
{
    gale_value v;
    GALE_TRY(input(net, 1, (int64_t[]){1031}, WIDE, &v));
    return unary(net, "Mish", v, out);
}

/* erf(sin(x)) + log(1 + exp(x)) through operators that fuse into one kernel. */
static gale_status functions(gale__selftest_net *net, gale_value *out)
{
    gale_value v, sum[2], t;
    GALE_TRY(input(net, 1, (int64_t[]){777}, WIDE, &v));
    GALE_TRY(unary(net, "Sin", v, &t));
    GALE_TRY(unary(net, "Erf", t, &sum[0]));
    GALE_TRY(unary(net, "Exp", v, &t));
    GALE_TRY(unary(net, "Sqrt", t, &t));
    GALE_TRY(unary(net, "Atan", t, &sum[1]));
    GALE_TRY(gale_graph_op(net->graph, "Add", sum, 2, NULL, 0, &t, 1));
    GALE_TRY(gale_graph_constant(net->graph, GALE_F32, 0, NULL, &(float){3}, &sum[1]));
    sum[0] = t;
    return gale_graph_op(
        net->graph, "Add", sum, 2, NULL, 0, out, 1); /* away from zero, where rounding would be all there is */
}

static gale_status softmax(gale__selftest_net *net, gale_value *out)
{
    static const gale_attr axis[] = {GALE_INT("axis", 1)};
    gale_value v;
    GALE_TRY(input(net, 2, (int64_t[]){37, 129}, WIDE, &v));
    return gale_graph_op(net->graph, "Softmax", &v, 1, axis, 1, out, 1);
}

static gale_status column(gale__selftest_net *net, gale_value *out)
{
    static const int64_t one = 1, first = 0;
    gale_value in[2];
    GALE_TRY(input(net, 2, (int64_t[]){129, 37}, NEAR, &in[0]));
    GALE_TRY(gale_graph_constant(net->graph, GALE_I64, 1, &one, &first, &in[1]));
    return gale_graph_op(net->graph, "ReduceSum", in, 2, NULL, 0, out, 1);
}

static gale_status convolution(gale__selftest_net *net, gale_value *out)
{
    static const int64_t pads[4] = {1, 1, 1, 1};
    static const gale_attr attrs[] = {GALE_INTS("pads", pads, 4)};
    gale_value in[2];
    GALE_TRY(input(net, 4, (int64_t[]){1, 2, 4, 4}, NEAR, &in[0]));
    GALE_TRY(input(net, 4, (int64_t[]){44, 2, 3, 3}, NEAR, &in[1]));
    return gale_graph_op(net->graph, "Conv", in, 2, attrs, 1, out, 1);
}

static gale_status transpose(gale__selftest_net *net, gale_value *out)
{
    static const int64_t perm[2] = {1, 0};
    static const gale_attr attrs[] = {GALE_INTS("perm", perm, 2)};
    gale_value v;
    GALE_TRY(input(net, 2, (int64_t[]){131, 149}, WIDE, &v));
    return gale_graph_op(net->graph, "Transpose", &v, 1, attrs, 1, out, 1);
}

static gale_status scan(gale__selftest_net *net, gale_value *out)
{
    gale_value in[2];
    GALE_TRY(input(net, 2, (int64_t[]){3, 1201}, NEAR, &in[0]));
    GALE_TRY(gale_graph_constant(net->graph, GALE_I64, 0, NULL, &(int64_t){1}, &in[1]));
    return gale_graph_op(net->graph, "CumSum", in, 2, NULL, 0, out, 1);
}

static gale_status sort(gale__selftest_net *net, gale_value *out)
{
    static const int64_t one = 1, k = 17;
    gale_value in[2], both[2];
    GALE_TRY(input(net, 2, (int64_t[]){3, 203}, WIDE, &in[0]));
    GALE_TRY(gale_graph_constant(net->graph, GALE_I64, 1, &one, &k, &in[1]));
    GALE_TRY(gale_graph_op(net->graph, "TopK", in, 2, NULL, 0, both, 2));
    *out = both[0];
    return GALE_OK;
}

/* Windows that reach over both ends.  With two axes compilers would take twice as long. */
static gale_status pool(gale__selftest_net *net, gale_value *out)
{
    static const int64_t two = 2, pads[2] = {1, 1};
    static const gale_attr attrs[] = {
        GALE_INTS("kernel_shape", &two, 1), GALE_INTS("strides", &two, 1), GALE_INTS("pads", pads, 2)};
    gale_value v;
    GALE_TRY(input(net, 3, (int64_t[]){1, 7, 4201}, WIDE, &v));
    return gale_graph_op(net->graph, "MaxPool", &v, 1, attrs, 3, out, 1);
}

static gale_status halves(gale__selftest_net *net, gale_value *out)
{
    static const gale_attr narrow[] = {GALE_INT("to", 10)}, wide[] = {GALE_INT("to", 1)};
    gale_value in[2], h;
    GALE_TRY(input(net, 1, (int64_t[]){501}, NEAR, &in[0]));
    GALE_TRY(gale_graph_op(net->graph, "Cast", in, 1, narrow, 1, &h, 1));
    in[0] = in[1] = h;
    GALE_TRY(gale_graph_op(net->graph, "Mul", in, 2, NULL, 0, &in[0], 1));
    GALE_TRY(gale_graph_op(net->graph, "Add", in, 2, NULL, 0, &h, 1));
    return gale_graph_op(net->graph, "Cast", &h, 1, wide, 1, out, 1);
}

static gale_status half_product(gale__selftest_net *net, gale_value *out)
{
    static const gale_attr wide[] = {GALE_INT("to", 1)};
    gale_value in[2], h;
    GALE_TRY(input(net, 2, (int64_t[]){45, 40}, HALF, &in[0]));
    GALE_TRY(input(net, 2, (int64_t[]){40, 56}, HALF, &in[1]));
    GALE_TRY(gale_graph_op(net->graph, "MatMul", in, 2, NULL, 0, &h, 1));
    return gale_graph_op(net->graph, "Cast", &h, 1, wide, 1, out, 1);
}

/* Too small for a tile, which would take compilers four times as long: the convolution has one. */
static gale_status einsum_scatter(gale__selftest_net *net, gale_value *out)
{
    static const int64_t index_dims[2] = {2, 1}, index[2] = {0, 2};
    static const gale_attr equation[] = {GALE_STRING_ATTR("equation", "cnhw,wk->nhkc")};
    gale_value in[3], factors[2];
    GALE_TRY(input(net, 4, (int64_t[]){3, 1, 4, 8}, NEAR, &in[0]));
    GALE_TRY(gale_graph_constant(net->graph, GALE_I64, 2, index_dims, index, &in[1]));
    GALE_TRY(input(net, 4, (int64_t[]){2, 1, 4, 8}, NEAR, &in[2]));
    GALE_TRY(gale_graph_op(net->graph, "ScatterND", in, 3, NULL, 0, &factors[0], 1));
    GALE_TRY(input(net, 2, (int64_t[]){8, 19}, NEAR, &factors[1]));
    return gale_graph_op(net->graph, "Einsum", factors, 2, equation, 1, out, 1);
}

const gale__selftest_kernel gale__selftest_kernels[] = {
#define KERNEL(name, function, compare) {name, function, compare},
#include "jobs/selftest/selftest_kernels.def"
#undef KERNEL
};

int gale__selftest_count(bool matrix)
{
    return (int)(sizeof gale__selftest_kernels / sizeof *gale__selftest_kernels) - !matrix;
}

gale_status gale__selftest_net_create(gale__selftest_net *net, int count, gale__trust_part part)
{
    gale_value y;
    *net = (gale__selftest_net){0};
    gale_status status = gale_graph_create(&net->graph);
    for (int i = part.index; status == GALE_OK && i < count; i += part.count) {
        status = gale__selftest_kernels[i].write(net, &y);
        if (status == GALE_OK) status = gale_graph_output(net->graph, gale__selftest_kernels[i].name, y);
    }
    if (status != GALE_OK) gale__selftest_net_finish(net);
    return status;
}

void gale__selftest_net_finish(gale__selftest_net *net)
{
    gale_graph_destroy(&net->graph);
    for (int i = 0; i < net->n_inputs; i++) gale_tensor_destroy(&net->inputs[i]);
    net->n_inputs = 0;
}
