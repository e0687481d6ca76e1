/* Which products with packed weights the CPU's routine accepts: f32, few rows (with more, weights unpacked once are
 * faster), no groups of rows. */
#include "graph/plan/paths.h"

enum { ROWS_MAX = 12, LANES = 16 };

/* An operand that may be left out; false: it is not of this type and size. */
static bool take_optional(gale__claim *c, int i, gale_type type, int64_t elements, int64_t *present)
{
    gale__node n = i < c->n_in ? c->in[i] : GALE__NIL;
    *present = n >= 0;
    if (n < 0) return true;
    return gale__claim_node(c, n).type == type && gale__prim_elements(c->g, n) == elements && gale__claim_operand(c, n);
}

bool gale__claim_packed(gale__claim *c)
{
    gale__cpu_packed *a = gale__claim_args(c, sizeof *a);
    gale__prim_node x = gale__claim_node(c, c->in[0]);
    if (!a || c->g->steady) return false; /* more rows than it takes would be added up in another order */
    *a = (gale__cpu_packed){.n = (int64_t)gale__claim_attr(c, "N", 0),
        .k = (int64_t)gale__claim_attr(c, "K", 0),
        .bits = (int64_t)gale__claim_attr(c, "bits", 4),
        .size = (int64_t)gale__claim_attr(c, "block_size", 0)};
    if (x.type != GALE_F32 || (a->bits != 4 && a->bits != 8) || a->size % LANES || a->k < 1 || a->size < 1)
        return false;
    a->m = gale__prim_elements(c->g, c->in[0]) / a->k;
    int64_t blocks = (a->k + a->size - 1) / a->size, there,
            bytes = gale__claim_node(c, c->n_in > 3 ? c->in[3] : GALE__NIL).type == GALE_U8;
    if (a->m < 1 || a->m > ROWS_MAX || (c->n_in > 4 && c->in[4] >= 0)) return false;
    if (!gale__claim_operand(c, c->in[0]) ||
        !take_optional(c, 1, GALE_U8, a->n * blocks * a->size * a->bits / 8, &there) ||
        !take_optional(c, 2, GALE_F32, a->n * blocks, &there))
        return false;
    if (!take_optional(
            c, 3, bytes ? GALE_U8 : GALE_F32, a->n * (bytes ? (blocks * a->bits + 7) / 8 : blocks), &a->zeros) ||
        !take_optional(c, 5, GALE_F32, a->n, &a->biased))
        return false;
    if (a->zeros) a->zeros = bytes ? 1 : 2;
    c->scratch_bytes = gale__cpu_packed_scratch(a);
    c->operations = 2.0 * (double)(a->m * a->n) * (double)a->k;
    return true;
}
