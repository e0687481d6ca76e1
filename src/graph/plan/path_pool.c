/* Which pools the CPU's routine accepts: f32, or bytes for maxima, two spatial axes, windows given as attributes. */
#include "graph/plan/paths.h"
#include <string.h>

enum { TAPS_MAX = 64, LEAST_CHANNELS = 16 };
/* Nanoseconds for a tap: as declared, and along channels; one core of a Cascade Lake Xeon. */
#define NS_MAXIMA 0.15
#define NS_SUMS 0.15
#define NS_LAST 0.05

static void read_ints(const gale__claim *c, const char *name, int n, int64_t fallback, int64_t *out)
{
    const gale_attr *a = gale__op_attr(c->node, name);
    for (int i = 0; i < n; i++)
        out[i] = a && a->kind == GALE_ATTR_INTS && a->count >= (size_t)n ? a->ints[i] : fallback;
}

bool gale__claim_pool(gale__claim *c)
{
    gale__cpu_pool *a = gale__claim_args(c, sizeof *a);
    gale__prim_node x = gale__claim_node(c, c->in[0]), out = gale__claim_node(c, c->out);
    int64_t kernel[2];
    bool bytes = (x.type == GALE_U8 || x.type == GALE_I8) && gale__claim_attr(c, "largest", 0) != 0;
    if (!a || (x.type != GALE_F32 && !bytes) || x.rank != 4) return false;
    read_ints(c, "kernel_shape", 2, 1, kernel);
    *a = (gale__cpu_pool){.n = x.dims[0],
        .channels = x.dims[1],
        .height = x.dims[2],
        .width = x.dims[3],
        .out_height = out.dims[2],
        .out_width = out.dims[3],
        .rows = kernel[0],
        .columns = kernel[1],
        .type = (int64_t)x.type,
        .largest = (int64_t)gale__claim_attr(c, "largest", 0)};
    read_ints(c, "strides", 2, 1, a->stride);
    read_ints(c, "dilations", 2, 1, a->dilation);
    read_ints(c, "pads", 2, 0, a->low);
    if (a->stride[1] > 2 || a->rows > TAPS_MAX || a->columns > TAPS_MAX || a->rows * a->columns > TAPS_MAX)
        return false;
    gale__claim_operand(c, c->in[0]);
    c->scratch_bytes = gale__cpu_pool_scratch(a);
    c->operations = (double)gale__prim_elements(c->g, c->out) * (double)(a->rows * a->columns);
    bool wide = a->channels >= LEAST_CHANNELS;
    c->ns[0] = c->operations * (a->largest ? NS_MAXIMA : NS_SUMS);
    c->ns[1] = wide ? c->operations * NS_LAST : 0;
    return true;
}
