/* Convolutions over pictures of three channels on matrix units: the first layer of most image networks.  A pixel of
 * three f16, bf16 or byte channels is not aligned, so it cannot be loaded as a vector.  The picture, which is cast
 * anyway, is therefore padded to four channels and stored channels-last.  Most of these layers have a stride of two.
 * They become convolutions with stride 1 over blocks of 2 x 2 pixels, stored as one pixel of 16 channels (space to
 * depth): half as many steps along each side of a window, and four times as many bytes per step. */
#include "graph/build/build.h"

enum { FEW = 3, UNIT = 4, LONG = 5 }; /* LONG: smallest side of a window for which blocks pay */

static bool is_cast_from_narrow(const gale__prim_node *p, const gale__prim_graph *g)
{
    int from = p->op == GALE__CAST ? gale__prim_at(g, p->in[0])->type : GALE_F64;
    bool half = from == GALE_F16 || from == GALE_BF16, byte = from == GALE_I8 || from == GALE_U8;
    return (half && p->type == GALE_F32) || (byte && p->type == GALE_I32);
}

static bool has_few_channels(const gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c)
{
    const gale__prim_node *p = gale__prim_at(g, x), *q = gale__prim_at(g, w);
    return is_cast_from_narrow(p, g) && is_cast_from_narrow(q, g) && c->groups == 1 && p->dims[1] == FEW &&
           q->dims[0] >= UNIT;
}

/* Pads three channels to four with zeros, and stores the result channels-last. */
static gale__node fill_channels(gale__prim_graph *g, gale__node x)
{
    gale__prim_node p = *gale__prim_at(g, x);
    int64_t low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0, UNIT - FEW};
    int last[GALE_MAX_RANK] = {0}, back[GALE_MAX_RANK] = {0, p.rank - 1};
    for (int d = 1; d < p.rank; d++) last[d] = d + 1 < p.rank ? d + 1 : 1;
    for (int d = 2; d < p.rank; d++) back[d] = d - 1;
    x = gale__prim_permute(g, gale__prim_pad(g, p.in[0], low, high, NULL, 0), last);
    return gale__prim_cast(g, gale__prim_permute(g, gale__prim_laid_out(g, x), back), (gale_type)p.type);
}

/* Space to depth: n[0] x n[1] blocks of 2 x 2 pixels with four channels each, after `low` pixels of zero padding. */
static gale__node to_blocks(gale__prim_graph *g, gale__node x, const int64_t *low, const int64_t *n)
{
    gale__prim_node p = *gale__prim_at(g, x);
    const int64_t before[4] = {0, 0, low[0], low[1]},
                  after[4] = {0, UNIT - FEW, 2 * n[0] - p.dims[2] - low[0], 2 * n[1] - p.dims[3] - low[1]};
    x = gale__prim_pad(g, p.in[0], before, after, NULL, 0);
    x = gale__prim_reshape(g, x, 6, (int64_t[]){p.dims[0], UNIT, n[0], 2, n[1], 2});
    x = gale__prim_permute(g, x, (int[]){0, 2, 4, 3, 5, 1});
    x = gale__prim_laid_out(g, gale__prim_reshape(g, x, 4, (int64_t[]){p.dims[0], n[0], n[1], 4 * UNIT}));
    return gale__prim_cast(g, gale__prim_permute(g, x, (int[]){0, 3, 1, 2}), (gale_type)p.type);
}

/* Number of blocks along each side of the picture and of a window; false if blocks cannot express the convolution.
 * Nonzero padding must have been applied already (gale__prim_pad_bytes). */
static bool count_blocks(const gale__prim_node *p, const gale__prim_node *q, const gale__prim_conv_args *c, bool zeros,
    int64_t *picture, int64_t *window)
{
    if (c->spatial != 2) return false;
    for (int i = 0; i < 2; i++) {
        int64_t k = q->dims[2 + i], room = p->dims[2 + i] + c->low[i] + c->high[i] - k;
        if (c->stride[i] != 2 || c->dilation[i] != 1 || c->input_dilation[i] != 1 || k < LONG || room < 0) return false;
        if (!zeros && (c->low[i] || c->high[i])) return false;
        window[i] = (k + 1) / 2;
        picture[i] = room / 2 + window[i];
    }
    return true;
}

gale__node gale__prim_pixel_conv(
    gale__prim_graph *g, gale__node x, gale__node zero, gale__node w, const gale__prim_conv_args *c)
{
    if (!g->pixel_blocks || !has_few_channels(g, x, w, c)) return GALE__NIL;
    const int64_t none[2] = {0, 0};
    int64_t picture[2], window[2];
    gale__prim_conv_args args = *c;
    if (count_blocks(gale__prim_at(g, x), gale__prim_at(g, w), c, zero < 0, picture, window)) {
        x = to_blocks(g, x, c->low, picture);
        w = to_blocks(g, w, none, window);
        for (int i = 0; i < 2; i++) args.stride[i] = 1, args.low[i] = args.high[i] = 0;
    } else {
        x = fill_channels(g, x);
        w = fill_channels(g, w);
    }
    if (zero >= 0) x = gale__prim_sub(g, x, zero);
    return gale__prim_conv(g, x, w, &args);
}
