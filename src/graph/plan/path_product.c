/* Which matrix products go to a vendor's library: large float products whose factors are stored by rows or columns.
 * The epilogue of such a product is a separate kernel, so small products stay with gale's own kernels, which fuse it.
 * */
#include "device/call.h"
#include "graph/plan/paths.h"
#include <string.h>

#define LEAST_OPERATIONS ((double)(1 << 27)) /* multiplications: 512 x 512 x 512 */
enum { ALIGNMENT = 16, BATCHES_MOST = 65535 };

static bool type_fits(const gale_device_caps *caps, int type)
{
    return type == GALE_F32 || (type == GALE_F16 && caps->f16) || (type == GALE_BF16 && caps->bf16);
}

/* Merges the axes before the last two into one batch axis with stride *batch; false if they are not evenly spaced. */
static bool join_lead(const gale__prim_node *p, const int64_t *stride, const gale__prim_node *out, int64_t *batch)
{
    int64_t step = 0, count = 1;
    bool any = false;
    for (int d = out->rank - 3; d >= 0; d--) {
        int at = d - (out->rank - p->rank);
        int64_t extent = out->dims[d], s = at < 0 || p->dims[at] == 1 ? 0 : stride[at];
        if (extent == 1) continue;
        if (any && s != step * count) return false;
        if (!any) step = s, any = true;
        count *= extent;
    }
    *batch = step;
    return true;
}

/* A factor of `rows` and `columns`; transposed: it is given as [columns, rows]. */
static bool take_factor(gale__claim *c, gale__node n, bool transposed, int64_t rows, int64_t columns, gale__factor *out)
{
    gale__prim_node p = gale__claim_node(c, n), result = gale__claim_node(c, c->out);
    int64_t stride[GALE_MAX_RANK] = {0}, size = (int64_t)gale_type_size((gale_type)p.type);
    gale__node base;
    if (p.rank < 2 || p.dims[p.rank - 2 + transposed] != rows || p.dims[p.rank - 1 - transposed] != columns)
        return false;
    gale__claim_view(c, n, &base, stride, &out->offset);
    int64_t row = stride[p.rank - 2 + transposed], column = stride[p.rank - 1 - transposed];
    out->transposed = column != 1;
    out->pitch = out->transposed ? column : row;
    if ((out->transposed && row != 1) || out->pitch < (out->transposed ? rows : columns)) return false;
    if (!join_lead(&p, stride, &result, &out->batch) || out->batch < 0) return false;
    bool aligned = out->offset * size % ALIGNMENT == 0 && out->batch * size % ALIGNMENT == 0;
    return aligned && gale__claim_operand(c, base);
}

/* The same matrix for every batch, and rows that continue from one batch to the next: one larger product. */
static void fold_batches(gale__matrix_product *s)
{
    if (s->b.batch || s->a.transposed || s->a.batch != s->m * s->a.pitch) return;
    s->m *= s->batches;
    s->batches = 1;
    s->a.batch = 0;
}

static bool claim_product(gale__claim *c, bool transpose_a, bool transpose_b)
{
    gale__prim_node out = gale__claim_node(c, c->out), a = gale__claim_node(c, c->in[0]),
                    b = gale__claim_node(c, c->in[1]);
    gale__matrix_product *s = gale__claim_args(c, sizeof *s);
    gale__call *call = NULL;
    if (out.type == GALE_F32 && c->device->info.caps.matrix_f32) return false; /* gale's own are faster */
    if (!s || c->g->steady || !type_fits(&c->device->info.caps, out.type) || a.type != out.type || b.type != out.type ||
        a.rank < 2 || b.rank < 2)
        return false;
    *s = (gale__matrix_product){.type = out.type,
        .m = out.dims[out.rank - 2],
        .n = out.dims[out.rank - 1],
        .k = a.dims[a.rank - 1 - transpose_a],
        .batches = 1};
    for (int d = 0; d < out.rank - 2; d++) s->batches *= out.dims[d];
    c->operations = 2.0 * (double)(s->m * s->n) * (double)s->k * (double)s->batches;
    int64_t least = c->device->info.caps.products_side;
    if (c->operations < 2 * LEAST_OPERATIONS || s->n < least || s->k < least) return false;
    if (!take_factor(c, c->in[0], transpose_a, s->m, s->k, &s->a) ||
        !take_factor(c, c->in[1], transpose_b, s->k, s->n, &s->b))
        return false;
    fold_batches(s);
    if (s->m < least || s->batches > BATCHES_MOST || s->m > INT32_MAX || s->n > INT32_MAX || s->k > INT32_MAX)
        return false;
    /* Whether the library supports the product is known only after asking it. */
    if (gale__call_product((gale_device *)c->device, s, &call) != GALE_OK) return false;
    gale__call_destroy(&call);
    return true;
}

bool gale__claim_matmul(gale__claim *c) { return claim_product(c, false, false); }

bool gale__claim_gemm(gale__claim *c)
{
    if ((c->n_in > 2 && c->in[2] >= 0) || gale__claim_attr(c, "alpha", 1) != 1) return false;
    return claim_product(c, gale__claim_attr(c, "transA", 0) != 0, gale__claim_attr(c, "transB", 0) != 0);
}
