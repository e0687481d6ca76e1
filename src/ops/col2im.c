/* Operators that put elements back where windows took them from, and that crop pictures: Col2Im, MaxUnpool,
 * CenterCropPad, ReverseSequence. */
#include "ops/spatial.h"
#include <string.h>

typedef struct blocks {
    int n;                                                                 /* axes of the picture, 1 to 5 */
    int64_t image[5], size[5], stride[5], dilation[5], pads[10], count[5]; /* count: how many are along an axis */
    int64_t elements, all;                                                 /* of a block; blocks */
} blocks;

static bool read_block(gale__lower *L, blocks *b, int i)
{
    int64_t image = b->image[i], size = b->size[i], stride = b->stride[i], dilation = b->dilation[i];
    if (image < 1 || image > INT32_MAX || size < 1 || size > INT32_MAX || stride < 1 || dilation < 1 ||
        dilation > INT32_MAX)
        return gale__lower_refuse(L, "axis %d: invalid picture %lld, block %lld, stride %lld, dilation %lld", i,
                   (long long)image, (long long)size, (long long)stride, (long long)dilation) >= 0;
    int64_t room = image + b->pads[i] + b->pads[b->n + i] - dilation * (size - 1) - 1;
    if (room < 0) return gale__lower_refuse(L, "a block exceeds axis %d", i) >= 0;
    b->count[i] = room / stride + 1;
    return !__builtin_mul_overflow(b->elements, size, &b->elements) &&
           !__builtin_mul_overflow(b->all, b->count[i], &b->all);
}

static bool read_blocks(gale__lower *L, const gale__prim_node *p, blocks *b)
{
    int64_t n, n_size;
    const int64_t *image = gale__lower_known_ints(L, 1, &n), *size = gale__lower_known_ints(L, 2, &n_size);
    if (gale__lower_good(L) && (p->rank != 3 || n < 1 || n > 5 || n != n_size))
        gale__lower_refuse(L, "columns of rank %d do not match a picture of %lld axes and blocks of %lld", p->rank,
            (long long)n, (long long)n_size);
    if (!gale__lower_good(L)) return false;
    b->n = (int)n, b->elements = b->all = 1;
    memcpy(b->image, image, (size_t)n * sizeof *image);
    memcpy(b->size, size, (size_t)n * sizeof *size);
    if (!gale__lower_read_ints(L, "strides", b->n, 1, b->stride) ||
        !gale__lower_read_ints(L, "dilations", b->n, 1, b->dilation) ||
        !gale__lower_read_ints(L, "pads", 2 * b->n, 0, b->pads))
        return false;
    bool fits = true;
    for (int i = 0; i < n && fits; i++) fits = read_block(L, b, i);
    if (gale__lower_good(L) && (!fits || p->dims[1] % b->elements || p->dims[2] != b->all))
        gale__lower_refuse(L, "%lld by %lld columns is not a multiple of %lld by %lld", (long long)p->dims[1],
            (long long)p->dims[2], (long long)b->elements, (long long)b->all);
    return gale__lower_good(L);
}

/* Blocks [N, C block..., blocks...] overlap in the picture: each axis is sheared back, then blocks are
 * summed. */
LOWER(Col2Im)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    blocks b;
    if (!read_blocks(L, &p, &b)) return;
    int64_t dims[GALE_MAX_RANK] = {p.dims[0], p.dims[1] / b.elements};
    int perm[GALE_MAX_RANK] = {0, 1};
    uint32_t summed = 0;
    for (int i = 0; i < b.n; i++) {
        dims[2 + i] = b.size[i], dims[2 + b.n + i] = b.count[i];
        perm[2 + 2 * i] = 2 + b.n + i, perm[3 + 2 * i] = 2 + i;
        summed |= 1u << (3 + 2 * i);
    }
    gale__node x = gale__prim_permute(g, gale__prim_reshape(g, gale__lower_wide(L, L->in[0]), 2 + 2 * b.n, dims), perm);
    for (int i = 0; i < b.n; i++)
        x = gale__prim_unwindow(g, x, 2 + 2 * i, b.image[i], b.stride[i], b.dilation[i], -b.pads[i]);
    L->out[0] = gale__prim_cast(g, gale__prim_reduce(g, GALE__SUM, x, summed, false), p.type);
}

/* Places count in the picture the pool would have had; a larger output_shape has it in its corner. */
LOWER(MaxUnpool)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int n = p.rank - 2;
    int64_t kernel[3], stride[3], pads[6], dims[GALE_MAX_RANK], low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0},
                                                                count;
    if (n < 1 || n > 3) gale__lower_refuse(L, "the input has rank %d; supported are 3 to 5", p.rank);
    if (!gale__lower_good(L) || !gale__lower_read_ints(L, "kernel_shape", n, 1, kernel) ||
        !gale__lower_read_ints(L, "strides", n, 1, stride) || !gale__lower_read_ints(L, "pads", 2 * n, 0, pads))
        return;
    const int64_t *wanted = gale__lower_known_ints(L, 2, &count);
    if (wanted && count != p.rank)
        gale__lower_refuse(L, "output_shape has %lld numbers instead of %d", (long long)count, p.rank);
    if (!gale__lower_good(L)) return;
    dims[0] = p.dims[0], dims[1] = p.dims[1];
    for (int i = 0; i < n; i++) {
        bool over = __builtin_mul_overflow(p.dims[2 + i] - 1, stride[i], &dims[2 + i]) ||
                    __builtin_add_overflow(dims[2 + i], kernel[i], &dims[2 + i]);
        over = over || __builtin_sub_overflow(dims[2 + i], pads[i], &dims[2 + i]) ||
               __builtin_sub_overflow(dims[2 + i], pads[n + i], &dims[2 + i]);
        if (over || dims[2 + i] < 1 || stride[i] < 1) gale__lower_refuse(L, "axis %d has an invalid extent", 2 + i);
    }
    for (int d = 0; wanted && d < p.rank; d++) {
        if (wanted[d] < 0) gale__lower_refuse(L, "output_shape has the invalid extent %lld", (long long)wanted[d]);
        else high[d] = wanted[d] - dims[d];
    }
    if (!gale__lower_good(L)) return;
    gale__node y = gale__prim_put(g, gale__prim_splat(g, p.type, p.rank, dims, 0), L->in[1], L->in[0], -1);
    L->out[0] = gale__prim_pad(g, y, low, high, NULL, 0);
}

/* Half of what is too much or too little goes to each side, the odd one to the end. */
LOWER(CenterCropPad)
{
    gale__prim_node p = gale__lower_peek(L->g, L->in[0]);
    int64_t n, low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0};
    int count = 0;
    const int64_t *shape = gale__lower_known_ints(L, 1, &n), *axes = gale__attr_ints(L, "axes", &count);
    if (gale__lower_good(L) && n != (axes ? count : p.rank))
        gale__lower_refuse(L, "%lld extents for %d axes", (long long)n, axes ? count : p.rank);
    for (int i = 0; i < n && gale__lower_good(L); i++) {
        int axis = gale__lower_axis(L, axes ? axes[i] : i, p.rank);
        int64_t more = shape[i] < 0 ? 0 : shape[i] - p.dims[axis];
        if (shape[i] < 0) gale__lower_refuse(L, "extent %lld", (long long)shape[i]);
        low[axis] = more / 2, high[axis] = more - more / 2;
    }
    if (gale__lower_good(L)) L->out[0] = gale__prim_pad(L->g, L->in[0], low, high, NULL, 0);
}

/* The first lens[b] elements along time are read from the end. */
LOWER(ReverseSequence)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, L->in[0]);
    int64_t batch = gale__attr_i(L, "batch_axis", 1), time = gale__attr_i(L, "time_axis", 0), stride = 1;
    if (p.rank < 2 || batch < 0 || batch > 1 || time != 1 - batch)
        gale__lower_refuse(
            L, "batch_axis %lld and time_axis %lld: one must be 0 and the other 1", (long long)batch, (long long)time);
    if (gale__lower_good(L) && gale__prim_elements(g, L->in[1]) != p.dims[batch])
        gale__lower_refuse(L, "%lld lengths for %lld sequences", (long long)gale__prim_elements(g, L->in[1]),
            (long long)p.dims[batch]);
    if (!gale__lower_good(L)) return;
    gale__node t = gale__prim_iota(g, p.rank, p.dims, (int)time),
               n = gale__lower_along(L, gale__prim_cast(g, L->in[1], GALE_I64), p.rank, (int)batch),
               place = gale__lower_index(L, 0);
    gale__node turned = gale__prim_select(g, gale__prim_binary(g, GALE__LT, t, n),
        gale__prim_sub(g, gale__prim_sub(g, n, gale__lower_index(L, 1)), t), t);
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--])
        place = gale__prim_add(g, place,
            d == time ? gale__prim_mul(g, turned, gale__lower_index(L, stride))
                      : gale__lower_walk(L, p.rank, p.dims, d, stride));
    L->out[0] = gale__prim_take(g, L->in[0], place);
}
