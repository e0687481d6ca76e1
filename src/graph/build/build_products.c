/* Matrix products and convolutions, as a product of two expanded views summed over their shared axes.  There is no
 * separate primitive: the fuser sees REDUCE SUM(MUL(a, b)) and turns it into a contraction. */
#include "graph/build/build.h"
#include <string.h>

/* Sums of half floats are kept in F32; the result goes back to `type`. */
static gale_type sum_type(gale_type type) { return gale__type_is_float(type) && type != GALE_F64 ? GALE_F32 : type; }

gale__node gale__prim_matmul(gale__prim_graph *g, gale__node a, gale__node b)
{
    if (!gale__prim_ok(g, a) || !gale__prim_ok(g, b)) return GALE__NIL;
    gale__node whole = gale__prim_integer_matmul(g, a, b);
    if (whole < 0 && g->status == GALE_OK) whole = gale__prim_shifted_matmul(g, a, b);
    if (whole >= 0 || g->status != GALE_OK) return whole;
    gale_type type = g->nodes[a].type;
    gale__node wide_a = gale__prim_cast(g, a, sum_type(type)), wide_b = gale__prim_cast(g, b, sum_type(type));
    if (wide_a < 0 || wide_b < 0) return GALE__NIL;
    gale__prim_node p = g->nodes[a], q = g->nodes[b];
    int r = p.rank, s = q.rank;
    if (r < 2 || s < 2 || p.type != q.type || p.dims[r - 1] != q.dims[s - 2] || r >= GALE_MAX_RANK ||
        s >= GALE_MAX_RANK)
        return gale__prim_fail(g, GALE_INVALID, "matmul: %s %s and %s %s do not match", gale_type_name(p.type),
            gale__prim_shape_text(g, a), gale_type_name(q.type), gale__prim_shape_text(g, b));
    int perm[GALE_MAX_RANK];
    for (int d = 0; d < s; d++) perm[d] = d < s - 2 ? d : d == s - 2 ? s - 1 : s - 2;
    /* a [batch..., M, 1, K], b [batch..., 1, N, K] */
    gale__node x = gale__prim_unsqueeze(g, wide_a, 1u << (r - 1));
    gale__node y = gale__prim_unsqueeze(g, gale__prim_permute(g, wide_b, perm), 1u << (s - 2));
    gale__node product = gale__prim_mul(g, x, y);
    if (product < 0) return GALE__NIL;
    gale__node sum = gale__prim_reduce(g, GALE__SUM, product, 1u << (g->nodes[product].rank - 1), false);
    return gale__prim_cast(g, sum, type);
}

/* x as [N, G, 1, o..., C/G, k...]: windows on each spatial axis; out[i] of them, the first at -low[i]. */
static gale__node conv_windows(
    gale__prim_graph *g, gale__node x, const gale__prim_conv_args *c, const int64_t *kernel, const int64_t *out)
{
    int n = c->spatial;
    gale__prim_node p = g->nodes[x];
    int64_t dims[GALE_MAX_RANK] = {p.dims[0], c->groups, p.dims[1] / c->groups}, zero[GALE_MAX_RANK] = {0},
            between[GALE_MAX_RANK] = {0};
    for (int i = 0; i < n; i++) dims[3 + i] = p.dims[2 + i], between[3 + i] = c->input_dilation[i] - 1;
    x = gale__prim_reshape(g, x, 3 + n, dims);
    x = gale__prim_pad(g, x, zero, zero, between, 0);
    for (int i = n - 1; i >= 0; i--)
        x = gale__prim_window(g, x, 3 + i, out[i], kernel[i], c->stride[i], c->dilation[i], -c->low[i], 0);
    int perm[GALE_MAX_RANK] = {0, 1};
    for (int i = 0; i < n; i++) perm[2 + i] = 3 + 2 * i, perm[3 + n + i] = 4 + 2 * i;
    perm[2 + n] = 2;
    return gale__prim_unsqueeze(g, gale__prim_permute(g, x, perm), 1u << 2);
}

/* w [O, C/G, k...] as [1, G, O/G, 1..., C/G, k...]. */
static gale__node conv_kernel(gale__prim_graph *g, gale__node w, const gale__prim_conv_args *c)
{
    int n = c->spatial;
    gale__prim_node p = g->nodes[w];
    int64_t dims[GALE_MAX_RANK] = {1, c->groups, p.dims[0] / c->groups};
    for (int i = 0; i < n; i++) dims[3 + i] = 1, dims[4 + n + i] = p.dims[2 + i];
    dims[3 + n] = p.dims[1];
    return gale__prim_reshape(g, w, 4 + 2 * n, dims);
}

/* The sum itself, for windows already counted. */
static gale__node convolve(
    gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c, const int64_t *out)
{
    int n = c->spatial;
    gale__prim_node p = g->nodes[x], q = g->nodes[w];
    int64_t dims[GALE_MAX_RANK] = {p.dims[0], q.dims[0]};
    memcpy(dims + 2, out, n * sizeof *out);
    gale_type type = p.type;
    x = gale__prim_cast(g, x, sum_type(type));
    w = gale__prim_cast(g, w, sum_type(type));
    if (x < 0 || w < 0) return GALE__NIL;
    gale__node product = gale__prim_mul(g, conv_windows(g, x, c, q.dims + 2, out), conv_kernel(g, w, c));
    uint32_t axes = ((1u << (n + 1)) - 1) << (3 + n);
    gale__node sum = gale__prim_reduce(g, GALE__SUM, product, axes, false);
    return gale__prim_cast(g, gale__prim_reshape(g, sum, 2 + n, dims), type);
}

static bool conv_fits(
    gale__prim_graph *g, const char *name, gale__node x, gale__node w, const gale__prim_conv_args *c, bool transposed)
{
    const gale__prim_node *p = &g->nodes[x], *q = &g->nodes[w];
    int n = c->spatial;
    bool ok = n >= 1 && n <= 3 && p->rank == 2 + n && q->rank == 2 + n && p->type == q->type && c->groups >= 1;
    ok = ok && p->dims[1] % c->groups == 0 && q->dims[0] % c->groups == 0;
    ok = ok && (transposed ? q->dims[0] == p->dims[1] : q->dims[1] == p->dims[1] / c->groups);
    for (int i = 0; ok && i < n; i++) ok = c->stride[i] >= 1 && c->dilation[i] >= 1 && c->input_dilation[i] >= 1;
    if (!ok)
        gale__prim_fail(g, GALE_INVALID, "%s: %s %s with kernel %s %s, %lld groups, %d spatial axes do not match", name,
            gale_type_name(p->type), gale__prim_shape_text(g, x), gale_type_name(q->type), gale__prim_shape_text(g, w),
            (long long)c->groups, n);
    return ok;
}

gale__node gale__prim_conv(gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *args)
{
    if (!gale__prim_ok(g, x) || !gale__prim_ok(g, w) || !conv_fits(g, "conv", x, w, args, false)) return GALE__NIL;
    gale__prim_conv_args padded = *args, *c = &padded;
    gale__node whole = gale__prim_integer_conv(g, x, w, c);
    if (whole >= 0 || g->status != GALE_OK) return whole;
    if ((x = gale__prim_pad_bytes(g, x, c)) < 0) return GALE__NIL;
    whole = gale__prim_shifted_conv(g, x, w, c);
    if (whole < 0) whole = gale__prim_pixel_conv(g, x, GALE__NIL, w, c);
    if (whole >= 0 || g->status != GALE_OK) return whole;
    int64_t out[3];
    for (int i = 0; i < c->spatial; i++) {
        int64_t n = g->nodes[x].dims[2 + i], k = g->nodes[w].dims[2 + i];
        int64_t wide = n ? (n - 1) * c->input_dilation[i] + 1 : 0;
        int64_t room = wide + c->low[i] + c->high[i] - ((k - 1) * c->dilation[i] + 1);
        if (room < 0)
            return gale__prim_fail(g, GALE_INVALID, "conv: a kernel of %lld exceeds axis %d of %s", (long long)k, 2 + i,
                gale__prim_shape_text(g, x));
        out[i] = room / c->stride[i] + 1;
    }
    return convolve(g, x, w, c, out);
}

/* w [C, O/G, k...] as a convolution's [O, C/G, k...], with the kernel flipped along each spatial axis. */
static gale__node turn_kernel(gale__prim_graph *g, gale__node w, const gale__prim_conv_args *c)
{
    int n = c->spatial, perm[GALE_MAX_RANK] = {0, 2, 1};
    gale__prim_node p = g->nodes[w];
    int64_t split[GALE_MAX_RANK] = {c->groups, p.dims[0] / c->groups, p.dims[1]};
    int64_t dims[GALE_MAX_RANK] = {c->groups * p.dims[1], p.dims[0] / c->groups};
    for (int i = 0; i < n; i++) split[3 + i] = dims[2 + i] = p.dims[2 + i], perm[3 + i] = 3 + i;
    w = gale__prim_reshape(g, w, 3 + n, split);
    w = gale__prim_reshape(g, gale__prim_permute(g, w, perm), 2 + n, dims);
    return gale__prim_flip(g, w, ((1u << n) - 1) << 2);
}

/* w [C, O/G, k...] as [C, O/G * stride..., taps...]: element (phase, tap) is kernel position tap * stride + phase, or
 * zero past the end of the kernel. */
static gale__node kernel_by_phase(gale__prim_graph *g, gale__node w, const gale__prim_conv_args *c, int64_t *taps)
{
    int n = c->spatial, perm[GALE_MAX_RANK] = {0, 1};
    gale__prim_node p = g->nodes[w];
    int64_t zero[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0}, split[GALE_MAX_RANK] = {p.dims[0], p.dims[1]},
            dims[GALE_MAX_RANK] = {p.dims[0], p.dims[1]};
    for (int i = 0; i < n; i++) {
        taps[i] = (p.dims[2 + i] + c->stride[i] - 1) / c->stride[i];
        high[2 + i] = taps[i] * c->stride[i] - p.dims[2 + i];
        split[2 + 2 * i] = dims[2 + i] = taps[i];
        split[3 + 2 * i] = c->stride[i];
        dims[1] *= c->stride[i];
        perm[2 + i] = 3 + 2 * i;
        perm[2 + n + i] = 2 + 2 * i;
    }
    w = gale__prim_reshape(g, gale__prim_pad(g, w, zero, high, NULL, 0), 2 + 2 * n, split);
    return gale__prim_reshape(g, gale__prim_permute(g, w, perm), 2 + n, dims);
}

/* y [N, O * stride..., i...] as [N, O, i * stride...], of which [low, low + extent) are wanted; zeros where there are
 * no more. */
static gale__node join_phases(
    gale__prim_graph *g, gale__node y, const gale__prim_conv_args *c, int64_t channels, const int64_t *extent)
{
    int n = c->spatial, perm[GALE_MAX_RANK] = {0, 1};
    if (y < 0) return y;
    gale__prim_node p = g->nodes[y];
    int64_t split[GALE_MAX_RANK] = {p.dims[0], channels}, dims[GALE_MAX_RANK] = {p.dims[0], channels},
            low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0};
    for (int i = 0; i < n; i++) {
        split[2 + i] = c->stride[i];
        split[2 + n + i] = p.dims[2 + i];
        dims[2 + i] = p.dims[2 + i] * c->stride[i];
        perm[2 + 2 * i] = 2 + n + i;
        perm[3 + 2 * i] = 2 + i;
        low[2 + i] = -c->low[i];
        high[2 + i] = extent[i] + c->low[i] - dims[2 + i];
    }
    y = gale__prim_reshape(g, gale__prim_permute(g, gale__prim_reshape(g, y, 2 + 2 * n, split), perm), 2 + n, dims);
    return gale__prim_pad(g, y, low, high, NULL, 0);
}

/* Each result of a transposed convolution belongs to one phase of the stride, and only every stride-th kernel position
 * contributes to it.  So one convolution computes all phases as channels, without inserting zeros between the
 * inputs. */
static gale__node transpose_by_phase(
    gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c, const int64_t *extent)
{
    int64_t taps[3], out[3], channels = g->nodes[w].dims[1] * c->groups;
    gale__prim_conv_args back = *c;
    w = kernel_by_phase(g, w, c, taps);
    for (int i = 0; i < c->spatial; i++) {
        back.stride[i] = 1;
        back.low[i] = taps[i] - 1;
        out[i] = g->nodes[x].dims[2 + i] + taps[i] - 1;
    }
    w = w < 0 ? w : turn_kernel(g, w, &back);
    return w < 0 ? GALE__NIL
                 : gale__prim_laid_out(g, join_phases(g, convolve(g, x, w, &back, out), c, channels,
                                              extent)); /* interleaved phases are slow to read */
}

gale__node gale__prim_conv_transpose(
    gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c, const int64_t *extent)
{
    if (!gale__prim_ok(g, x) || !gale__prim_ok(g, w) || !conv_fits(g, "conv_transpose", x, w, c, true))
        return GALE__NIL;
    gale__prim_conv_args back = *c;
    bool strided = false, dense = true, dilated = false;
    int64_t zero[GALE_MAX_RANK] = {0}, between[GALE_MAX_RANK] = {0};
    for (int i = 0; i < c->spatial; i++) {
        strided |= c->stride[i] > 1;
        dilated |= c->dilation[i] > 1;
        dense &= c->dilation[i] == 1 && c->input_dilation[i] == 1 && c->low[i] >= 0 && extent[i] >= 0 &&
                 g->nodes[x].dims[2 + i] > 0;
    }
    if (g->phases_apart && strided && dilated) { /* more weights, of which some are 0, but no zeros between inputs */
        for (int i = 0; i < c->spatial; i++) between[2 + i] = c->dilation[i] - 1, back.dilation[i] = 1;
        return gale__prim_conv_transpose(g, x, gale__prim_pad(g, w, zero, zero, between, 0), &back, extent);
    }
    gale__node apart = strided && dense ? gale__prim_transpose_apart(g, x, w, c, extent) : GALE__NIL;
    if (apart >= 0 || g->status != GALE_OK) return apart;
    if (strided && dense) return transpose_by_phase(g, x, w, c, extent);
    for (int i = 0; i < c->spatial; i++) {
        back.input_dilation[i] = c->stride[i];
        back.stride[i] = 1;
        back.low[i] = c->dilation[i] * (g->nodes[w].dims[2 + i] - 1) - c->low[i];
        if (extent[i] < 0)
            return gale__prim_fail(g, GALE_INVALID, "conv_transpose: invalid extent %lld", (long long)extent[i]);
    }
    w = turn_kernel(g, w, c);
    if (w < 0) return GALE__NIL;
    return convolve(g, x, w, &back, extent);
}
