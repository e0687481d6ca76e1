/* Products of dequantised bytes: if a device multiplies bytes faster than floats, the product of two dequantised values
 * is computed in integers, exactly, and scaled once. No pattern has to be recognised, however many readers a
 * dequantised value has and whatever follows the product. */
#include "graph/build/build.h"
#include <math.h>
#include <string.h>

enum {
    SUM_MOST = 32768,
    LEAST_K = 16,
    LEAST_ROWS = 4,
    CHANNEL_TAPS = 128
}; /* SUM_MOST: number of products of 255 * 255 whose sum fits I32 */

static bool is_byte(const gale__prim_node *p) { return p->type == GALE_I8 || p->type == GALE_U8; }

gale__node gale__prim_one_number(gale__prim_graph *g, gale__node n)
{
    double value;
    if (gale__prim_is_splat(g, n, &value)) return gale__prim_respread(g, n, 0, NULL);
    return gale__prim_elements(g, n) == 1 ? gale__prim_reshape(g, n, 0, NULL) : n;
}

static bool is_float(const gale__prim_graph *g, gale__node x)
{
    return gale__type_is_float((gale_type)gale__prim_at(g, x)->type);
}

/* Looks through casts to a narrower float, and through the clamps that keep them finite: half precision inserts both
 * before products, and integer products do not need them. */
static gale__node unrounded(const gale__prim_graph *g, gale__node x)
{
    for (;;) {
        const gale__prim_node *p = gale__prim_at(g, x);
        double most;
        bool clamp = (p->op == GALE__MIN || p->op == GALE__MAX) && gale__prim_is_splat(g, p->in[1], &most) &&
                     fabs(most) >= gale__type_max(GALE_F16);
        if (!is_float(g, x) || (p->op != GALE__CAST && !clamp) || !is_float(g, p->in[0])) return x;
        x = p->in[0];
    }
}

/* Matches x = numbers * scale, where numbers is I32: bytes minus an optional zero point.  False if x is not of this
 * form. */
static bool find_in_order(gale__prim_graph *g, gale__node x, gale__node *numbers, gale__node *scale)
{
    const gale__prim_node *p = gale__prim_at(g, unrounded(g, x));
    if (p->op != GALE__MUL || p->type != GALE_F32) return false;
    int cast = gale__prim_at(g, p->in[0])->op == GALE__CAST ? 0 : 1;
    const gale__prim_node *q = gale__prim_at(g, p->in[cast]);
    gale__node s = p->in[1 - cast];
    if (q->op != GALE__CAST) return false;
    gale__node inner = q->in[0], byte = inner;
    const gale__prim_node *c = gale__prim_at(g, inner);
    if (c->op == GALE__SUB && c->type == GALE_I32) byte = c->in[0], c = gale__prim_at(g, byte);
    if (c->op == GALE__CAST && c->type == GALE_I32) byte = c->in[0];
    if (!is_byte(gale__prim_at(g, byte))) return false;
    if (gale__prim_at(g, s)->op == GALE__PRIM_EXPAND) s = gale__prim_at(g, s)->in[0];
    *numbers = gale__prim_cast(g, inner, GALE_I32);
    *scale = gale__prim_one_number(g, s);
    return *numbers >= 0 && *scale >= 0;
}

/* The same, looking through a PERMUTE, as on the weights of Gemm. */
static bool find_numbers(gale__prim_graph *g, gale__node x, gale__node *numbers, gale__node *scale)
{
    gale__prim_node p = *gale__prim_at(g, unrounded(g, x));
    if (p.op != GALE__PRIM_PERMUTE) return find_in_order(g, x, numbers, scale);
    int perm[GALE_MAX_RANK];
    for (int d = 0; d < p.rank; d++) perm[d] = (int)p.attr[d];
    if (!find_in_order(g, p.in[0], numbers, scale)) return false;
    int rank = gale__prim_at(g, *scale)->rank;
    if (rank && rank != p.rank) return false;
    *numbers = gale__prim_permute(g, *numbers, perm);
    if (rank) *scale = gale__prim_permute(g, *scale, perm);
    return *numbers >= 0 && *scale >= 0;
}

/* Whether the scale is constant along an axis, counted from the last one. */
static bool same_along(const gale__prim_graph *g, gale__node scale, int from_end)
{
    const gale__prim_node *p = gale__prim_at(g, scale);
    return p->rank <= from_end || p->dims[p->rank - 1 - from_end] == 1;
}

gale__node gale__prim_integer_matmul(gale__prim_graph *g, gale__node a, gale__node b)
{
    gale__node x, y, by_x, by_y;
    if (!g->integer_products || !find_numbers(g, a, &x, &by_x) || !find_numbers(g, b, &y, &by_y)) return GALE__NIL;
    gale__prim_node p = *gale__prim_at(g, a), q = *gale__prim_at(g, b);
    if (p.rank < 2 || q.rank < 2 || p.dims[p.rank - 1] > SUM_MOST || p.dims[p.rank - 1] < LEAST_K) return GALE__NIL;
    if (!same_along(g, by_x, 0) || !same_along(g, by_y, 1)) return GALE__NIL;
    gale__node sum = gale__prim_cast(g, gale__prim_matmul(g, x, y), GALE_F32);
    return gale__prim_cast(g, gale__prim_mul(g, sum, gale__prim_mul(g, by_x, by_y)), (gale_type)p.type);
}

gale__node gale__prim_integer_conv(gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c)
{
    gale__node numbers, kernel, by_x, by_w;
    if (!g->integer_products || !find_numbers(g, x, &numbers, &by_x) || !find_numbers(g, w, &kernel, &by_w))
        return GALE__NIL;
    gale_type type = (gale_type)gale__prim_at(g, x)->type;
    gale__prim_node q = *gale__prim_at(g, w), s = *gale__prim_at(g, by_w);
    int64_t k = 1, along[GALE_MAX_RANK];
    for (int d = 1; d < q.rank; d++) k *= q.dims[d];
    for (int d = 0; d < c->spatial + 2; d++) along[d] = d == 1 ? q.dims[0] : 1;
    bool by_channel = s.rank == q.rank && s.dims[0] == q.dims[0] && gale__prim_elements(g, by_w) == q.dims[0];
    bool alone = c->groups == q.dims[0] && q.dims[1] == 1 && k > 1 && k <= CHANNEL_TAPS; /* each channel */
    if (k > SUM_MOST || (!alone && (k < LEAST_K || q.dims[0] / c->groups < LEAST_ROWS)) || gale__prim_at(g, by_x)->rank)
        return GALE__NIL;
    if (s.rank && !by_channel) return GALE__NIL;
    if (by_channel) by_w = gale__prim_reshape(g, by_w, q.rank, along);
    gale__node sum = gale__prim_cast(g, gale__prim_conv(g, numbers, kernel, c), GALE_F32);
    return gale__prim_cast(g, gale__prim_mul(g, sum, gale__prim_mul(g, by_x, by_w)), type);
}

bool gale__prim_dequantised(gale__prim_graph *g, gale__node x, gale__prim_scaled *out)
{
    const gale__prim_node *p = gale__prim_at(g, x);
    if (!g->integer_products || p->op != GALE__MUL || p->type != GALE_F32) return false;
    int cast = gale__prim_at(g, p->in[0])->op == GALE__CAST ? 0 : 1;
    const gale__prim_node *c = gale__prim_at(g, p->in[cast]);
    *out = (gale__prim_scaled){.bytes = c->in[0]};
    if (c->op != GALE__CAST || !gale__prim_is_splat(g, p->in[1 - cast], &out->scale)) return false;
    c = gale__prim_at(g, out->bytes);
    if (c->op == GALE__SUB && c->type == GALE_I32) {
        if (!gale__prim_is_splat(g, c->in[1], &out->zero) || gale__prim_at(g, c->in[0])->op != GALE__CAST) return false;
        out->bytes = gale__prim_at(g, c->in[0])->in[0];
    }
    return is_byte(gale__prim_at(g, out->bytes)) && out->scale > 0 && out->scale < INFINITY;
}

gale__node gale__prim_dequantise(gale__prim_graph *g, gale__node bytes, const gale__prim_scaled *as)
{
    if (as->zero)
        bytes = gale__prim_sub(g, gale__prim_cast(g, bytes, GALE_I32), gale__prim_scalar(g, GALE_I32, as->zero));
    return gale__prim_mul(g, gale__prim_cast(g, bytes, GALE_F32), gale__prim_scalar(g, GALE_F32, as->scale));
}

/* Bytes are padded with their zero point before it is subtracted, if it is known: the convolution then reads with plain
 * loads instead of guarded ones. */
gale__node gale__prim_pad_bytes(gale__prim_graph *g, gale__node x, gale__prim_conv_args *c)
{
    const gale__prim_node *p = gale__prim_at(g, x);
    if (p->op != GALE__SUB || p->type != GALE_I32) return x;
    gale__node cast = p->in[0], zero = p->in[1];
    const gale__prim_node *from = gale__prim_at(g, cast);
    double point;
    if (from->op != GALE__CAST || !is_byte(gale__prim_at(g, from->in[0])) || !gale__prim_is_splat(g, zero, &point))
        return x;
    int64_t low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0};
    bool any = false;
    for (int i = 0; i < c->spatial; i++) {
        if (c->low[i] < 0 || c->high[i] < 0 || c->input_dilation[i] != 1) return x;
        low[2 + i] = c->low[i], high[2 + i] = c->high[i];
        any |= c->low[i] || c->high[i];
    }
    if (!any) return x;
    gale__node padded = gale__prim_pad(g, from->in[0], low, high, NULL, point);
    memset(c->low, 0, sizeof c->low);
    memset(c->high, 0, sizeof c->high);
    return gale__prim_sub(g, gale__prim_cast(g, padded, GALE_I32), gale__prim_scalar(g, GALE_I32, point));
}
