/* Low-bit weights in blocks that share a scale, as in com.microsoft's operators: packed into bytes or in their own
 * types. */
#include "ops/ms/ms_blocks.h"
#include <string.h>

gale__node gale__lower_unpack(gale__lower *L, gale__node x, int bits, int64_t count, bool high)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, x);
    int64_t each = 8 / bits;
    if (p.rank < 1 || p.rank >= GALE_MAX_RANK || p.dims[p.rank - 1] * each < count)
        return gale__lower_refuse(L, "too few packed numbers: %lld are needed", (long long)count);
    int64_t dims[GALE_MAX_RANK];
    memcpy(dims, p.dims, sizeof dims);
    dims[p.rank] = each;
    gale__node low = gale__lower_walk(L, p.rank + 1, dims, p.rank, bits),
               shift = gale__prim_cast(g, high ? gale__prim_sub(g, gale__lower_index(L, 8 - bits), low) : low, GALE_U8),
               wide = gale__prim_expand(g, gale__prim_unsqueeze(g, x, 1u << p.rank), p.rank + 1, dims);
    gale__node y = gale__prim_binary(
        g, GALE__AND, gale__prim_binary(g, GALE__SHR, wide, shift), gale__lower_value(L, x, (double)((1 << bits) - 1)));
    p.dims[p.rank - 1] *= each;
    return gale__prim_slice_axis(g, gale__prim_reshape(g, y, p.rank, p.dims), p.rank - 1, 0, count);
}

/* Zero points [N, blocks]: packed, of the scales' type, or half of the range. */
static gale__node block_zeros(gale__lower *L, int bits, int64_t n, int64_t blocks)
{
    gale__prim_graph *g = L->g;
    gale__node zero = gale__lower_arg(L, 3);
    if (zero < 0) return gale__prim_scalar(g, GALE_F32, (double)(1 << (bits - 1)));
    bool packed = gale__lower_type_of(g, zero) == GALE_U8;
    int64_t row = packed ? (blocks * bits + 7) / 8 : blocks;
    zero = gale__prim_reshape(g, zero, 2, (int64_t[]){n, row});
    return gale__prim_cast(g, packed ? gale__lower_unpack(L, zero, bits, blocks, false) : zero, GALE_F32);
}

LOWER(MSMatMulNBits)
{
    gale__prim_graph *g = L->g;
    int64_t n = gale__attr_i(L, "N", 0), k = gale__attr_i(L, "K", 0), size = gale__attr_i(L, "block_size", 0),
            bits = gale__attr_i(L, "bits", 4);
    bool fits = n > 0 && k > 0 && size >= 8 && (bits == 2 || bits == 4 || bits == 8) && n < INT32_MAX &&
                k < INT32_MAX && size < INT32_MAX;
    if (!fits)
        gale__lower_refuse(L, "invalid N %lld, K %lld, block_size %lld or bits %lld", (long long)n, (long long)k,
            (long long)size, (long long)bits);
    if (!gale__lower_good(L)) return;
    int64_t blocks = (k + size - 1) / size, whole[2] = {n, blocks * size}, in_blocks[3] = {n, blocks, size};
    gale__node w = gale__lower_unpack(L, gale__prim_reshape(g, L->in[1], 2, (int64_t[]){n, blocks * size * bits / 8}),
                   (int)bits, blocks * size, false),
               groups = gale__lower_arg(L, 4), bias = gale__lower_arg(L, 5);
    gale__node scale = gale__prim_cast(g, gale__prim_reshape(g, L->in[2], 2, (int64_t[]){n, blocks}), GALE_F32),
               zero = block_zeros(L, (int)bits, n, blocks);
    w = gale__prim_cast(g, w, GALE_F32);
    if (groups >= 0) { /* each row of the matrix names its block */
        w = gale__prim_slice_axis(g, w, 1, 0, k);
        if (gale__lower_rank_of(g, zero) == 2) zero = gale__prim_gather(g, zero, groups, 1);
        w = gale__prim_mul(g, gale__prim_sub(g, w, zero), gale__prim_gather(g, scale, groups, 1));
    } else {
        w = gale__prim_reshape(g, w, 3, in_blocks);
        if (gale__lower_rank_of(g, zero) == 2) zero = gale__prim_unsqueeze(g, zero, 1u << 2);
        w = gale__prim_mul(g, gale__prim_sub(g, w, zero), gale__prim_unsqueeze(g, scale, 1u << 2));
        w = gale__prim_slice_axis(g, gale__prim_reshape(g, w, 2, whole), 1, 0, k);
    }
    gale__node y = gale__lower_product(L, gale__lower_wide(L, L->in[0]), gale__prim_permute(g, w, (int[]){1, 0}));
    if (bias >= 0) y = gale__prim_add(g, y, gale__lower_wide(L, bias));
    L->out[0] = gale__prim_cast(g, y, gale__lower_type_of(g, L->in[0]));
}

gale__node gale__lower_by_element(gale__lower *L, gale__node s, int axis, int64_t size, int64_t extent)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, s);
    int64_t wide[GALE_MAX_RANK];
    if (!gale__lower_good(L)) return GALE__NIL;
    if (axis >= p.rank || p.rank >= GALE_MAX_RANK || size < 1 || size > INT32_MAX || p.dims[axis] * size < extent)
        return gale__lower_refuse(
            L, "scales of blocks of %lld do not cover %lld elements", (long long)size, (long long)extent);
    for (int d = 0; d <= p.rank; d++) wide[d] = d == axis + 1 ? size : p.dims[d - (d > axis)];
    s = gale__prim_expand(g, gale__prim_unsqueeze(g, s, 1u << (axis + 1)), p.rank + 1, wide);
    p.dims[axis] *= size;
    return gale__prim_slice_axis(g, gale__prim_reshape(g, s, p.rank, p.dims), axis, 0, extent);
}

static gale__node last_unpacked(gale__lower *L, gale__node x, int bits, int64_t count)
{
    return x < 0 || gale__lower_type_of(L->g, x) != GALE_U8 || bits == 8 ? x
                                                                         : gale__lower_unpack(L, x, bits, count, false);
}

/* Rows are taken before they become floats, so that a table stays as small as it is; along the blocks themselves that
 * cannot be. */
LOWER(MSGatherBlockQuantized)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int from = gale__lower_axis(L, gale__attr_i(L, "gather_axis", 0), p.rank),
        axis = gale__lower_axis(L, gale__attr_i(L, "quantize_axis", 1), p.rank);
    int64_t bits = gale__attr_i(L, "bits", 4), size = gale__attr_i(L, "block_size", 128);
    bool bytes = p.type == GALE_U8, before = from != axis;
    gale__node part[] = {L->in[0], L->in[2], gale__lower_arg(L, 3)};
    if (bytes && bits != 2 && bits != 4 && bits != 8)
        gale__lower_refuse(L, "%lld bits per number are not supported", (long long)bits);
    if (bytes && bits < 8 && axis != p.rank - 1)
        gale__lower_refuse(L, "packed numbers must be quantised along their last axis");
    for (int i = 0; i < 3 && gale__lower_good(L) && before; i++)
        if (part[i] >= 0) part[i] = gale__prim_gather(g, part[i], L->in[1], from);
    if (!gale__lower_good(L)) return;
    if (before && from < axis) axis += gale__lower_rank_of(g, L->in[1]) - 1;
    int64_t extent = gale__lower_peek(g, part[0]).dims[axis] * (bytes ? 8 / bits : 1),
            blocks = gale__lower_peek(g, part[1]).dims[axis];
    gale__node x = last_unpacked(L, part[0], (int)bits, extent), zero = last_unpacked(L, part[2], (int)bits, blocks);
    zero = zero >= 0 ? gale__lower_by_element(L, zero, axis, size, extent)
           : bytes   ? gale__lower_value(L, x, (double)(1 << (bits - 1)))
                     : GALE__NIL;
    gale__node y =
        gale__prim_cast(g, gale__lower_dequantise(L, x, gale__lower_by_element(L, part[1], axis, size, extent), zero),
            gale__lower_type_of(g, L->in[2]));
    L->out[0] = before ? y : gale__prim_gather(g, y, L->in[1], from);
}

/* bitsandbytes' sixteen values, by the larger of which each block was divided; the first of two is in the high bits. */
LOWER(MSMatMulBnb4)
{
    static const float values[2][16] = {
        {0, 5.208333333e-03f, 0.66666667f, 1, 0.33333333f, 0.5f, 0.16666667f, 0.25f, 0, -5.208333333e-03f, -0.66666667f,
            -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
        {-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
            -0.18477343022823334f, -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f,
            0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f,
            1}};
    gale__prim_graph *g = L->g;
    int64_t n = gale__attr_i(L, "N", 0), k = gale__attr_i(L, "K", 0), size = gale__attr_i(L, "block_size", 0),
            kind = gale__attr_i(L, "quant_type", 0);
    if (n < 1 || k < 1 || n > INT32_MAX || k > INT32_MAX || kind < 0 || kind > 1)
        gale__lower_refuse(L, "invalid N %lld, K %lld or quant_type %lld", (long long)n, (long long)k, (long long)kind);
    if (!gale__lower_good(L)) return;
    gale__node table = gale__prim_const(g, GALE_F32, 1, (const int64_t[]){16}, values[kind]),
               code = gale__lower_unpack(L, L->in[1], 4, n * k, true);
    gale__node w = gale__prim_mul(g, gale__prim_gather(g, table, gale__prim_cast(g, code, GALE_I64), 0),
        gale__prim_cast(g, gale__lower_by_element(L, L->in[2], 0, size, n * k), GALE_F32));
    w = gale__prim_permute(g, gale__prim_reshape(g, w, 2, (const int64_t[]){n, k}), (int[]){1, 0});
    L->out[0] =
        gale__prim_cast(g, gale__lower_product(L, gale__lower_wide(L, L->in[0]), w), gale__lower_type_of(g, L->in[0]));
}
