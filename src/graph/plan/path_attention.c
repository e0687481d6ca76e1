/* Which attentions the routines accept: f32, f16 and bf16 on the CPU, f16 and bf16 on matrix units, all axes in their
 * standard order, operands in memory with any strides. */
#include "graph/build/build.h"
#include "graph/plan/paths.h"
#include <math.h>
#include <string.h>

enum { SCRATCH_MAX = 32 << 20, LEAST_SIDE = 8 };

/* Describes an operand [lead, rows, columns], or [lead, columns, rows] if transposed, by strides along the result's
 * axes.  Axes of extent 1 are broadcast. */
static bool view_operand(gale__claim *c, gale__node n, const int64_t *lead, int n_lead, int64_t rows, int64_t columns,
    bool transposed, gale_type type, gale__cpu_view *out)
{
    gale__prim_node p = gale__claim_node(c, n);
    int64_t want[GALE_MAX_RANK], stride[GALE_MAX_RANK] = {0};
    int rank = n_lead + 2;
    gale__node base;
    if (p.type != type || p.rank > rank) return false;
    memcpy(want, lead, (size_t)n_lead * sizeof *want);
    want[n_lead + transposed] = rows;
    want[n_lead + !transposed] = columns;
    gale__claim_view(c, n, &base, stride, &out->offset);
    memset(out->lead, 0, sizeof out->lead);
    out->row = out->column = 0;
    for (int a = 0; a < p.rank; a++) {
        int axis = a + rank - p.rank;
        if (p.dims[a] == 1) continue;
        if (p.dims[a] != want[axis]) return false;
        *(axis < n_lead                   ? &out->lead[axis + GALE__CPU_LEAD - n_lead]
            : axis == n_lead + transposed ? &out->row
                                          : &out->column) = stride[a];
    }
    return gale__claim_operand(c, base);
}

/* Matches a mask of the form EQ(number of the query, number of the key), in which both operands are views of the same
 * i32 numbers, one for each position: packed texts. */
static bool view_numbers(gale__claim *c, gale__node n, const gale__cpu_attention *a, int rank, gale__cpu_view *out)
{
    gale__prim_node p = gale__claim_node(c, n);
    int64_t stride[2][GALE_MAX_RANK] = {{0}}, offset[2];
    gale__node base[2];
    if (p.op != GALE__EQ || p.rank != rank || p.dims[rank - 2] != a->m || p.dims[rank - 1] != a->n) return false;
    for (int i = 0; i < 2; i++) {
        if (gale__claim_node(c, p.in[i]).type != GALE_I32 || gale__claim_node(c, p.in[i]).rank != rank) return false;
        gale__claim_view(c, p.in[i], &base[i], stride[i], &offset[i]);
    }
    int rows = stride[0][rank - 1] == 0 ? 0 : 1; /* which operand varies along the rows */
    if (base[0] != base[1] || offset[0] != offset[1] || stride[rows][rank - 1] || stride[!rows][rank - 2]) return false;
    *out = (gale__cpu_view){.offset = offset[0], .row = stride[rows][rank - 2], .column = stride[!rows][rank - 1]};
    for (int i = 0; i < rank - 2; i++) {
        if (p.dims[i] == 1) continue;
        if (stride[0][i] != stride[1][i] || p.dims[i] != a->lead[i + GALE__CPU_LEAD + 2 - rank]) return false;
        out->lead[i + GALE__CPU_LEAD + 2 - rank] = stride[0][i];
    }
    return gale__claim_operand(c, base[0]);
}

/* The value of a constant whose elements are all equal; 0 if it is not one. */
static double number_of(const gale__claim *c, gale__node n)
{
    while (gale__claim_node(c, n).op == GALE__PRIM_EXPAND || gale__claim_node(c, n).op == GALE__PRIM_RESHAPE)
        n = gale__claim_node(c, n).in[0];
    gale__prim_node p = gale__claim_node(c, n);
    if (p.op != GALE__PRIM_CONST || !p.data || (!p.splat && gale__prim_elements(c->g, n) != 1)) return 0;
    double v = gale__load_f64((gale_type)p.type, p.data);
    return isfinite(v) ? v : 0;
}

/* If an operand is a scaled value, returns that value and multiplies the factor into *scale, so that no separate kernel
 * is needed for the product. */
static gale__node unscale(const gale__claim *c, gale__node n, double *scale)
{
    gale__prim_node whole = gale__claim_node(c, n), p = whole;
    if (p.op == GALE__CAST) p = gale__claim_node(c, p.in[0]);
    if (p.op != GALE__MUL || !gale__type_is_float((gale_type)p.type)) return n;
    for (int i = 0; i < 2; i++) {
        gale__prim_node other = gale__claim_node(c, p.in[1 - i]);
        double factor = number_of(c, p.in[i]);
        gale__node from = other.op == GALE__CAST ? other.in[0] : p.in[1 - i];
        if (factor == 0 || gale__claim_node(c, from).type != whole.type) continue;
        *scale *= factor;
        return from;
    }
    return n;
}

/* A recognised chain; the ONNX operator of the same name has other inputs. */
static bool is_region(const gale__claim *c) { return c->node->n_body != 0; }

static bool is_half(int type) { return type == GALE_F16 || type == GALE_BF16; }

/* numbers: whether view_numbers may be tried. */
static bool describe(gale__claim *c, gale_type type, gale__node mask, bool numbers, gale__cpu_attention *a)
{
    gale__prim_node out = gale__claim_node(c, c->out), q = gale__claim_node(c, c->in[0]),
                    v = gale__claim_node(c, c->in[2]);
    int n_lead = out.rank - 2;
    if (n_lead < 0 || n_lead > GALE__CPU_LEAD || q.rank != out.rank || v.rank != out.rank) return false;
    *a = (gale__cpu_attention){
        .m = out.dims[n_lead], .c = out.dims[n_lead + 1], .d = q.dims[n_lead + 1], .n = v.dims[n_lead]};
    gale__node hide = c->n_in <= 4 ? GALE__NIL : c->in[4] >= 0 ? c->in[4] : c->in[5];
    a->masked = mask >= 0;
    a->hides = hide >= 0;
    a->hidden = a->hides && c->in[4] >= 0;
    a->scale = gale__claim_attr(c, "scale", 1) / gale__claim_attr(c, "divide", 1);
    a->fill = gale__claim_attr(c, "fill", 0);
    a->seen = (int64_t)gale__claim_attr(c, "seen", 0);
    a->causal = a->seen > 0;
    a->blind = gale__claim_attr(c, "blind", 0) != 0 && (a->masked || a->hides);
    if (q.dims[n_lead] != a->m || v.dims[n_lead + 1] != a->c || a->n < 1 || a->d < 1) return false;
    for (int i = 0; i < GALE__CPU_LEAD; i++)
        a->lead[i] = i < GALE__CPU_LEAD - n_lead ? 1 : out.dims[i - GALE__CPU_LEAD + n_lead];
    bool by_rows = gale__claim_attr(c, "turned", 0) != 0;
    gale__node queries = unscale(c, c->in[0], &a->scale), keys = unscale(c, c->in[1], &a->scale);
    if (!view_operand(c, queries, out.dims, n_lead, a->m, a->d, false, type, &a->q)) return false;
    if (!view_operand(c, keys, out.dims, n_lead, a->n, a->d, !by_rows, type, &a->k)) return false;
    if (!view_operand(c, c->in[2], out.dims, n_lead, a->n, a->c, false, type, &a->v)) return false;
    if (a->masked && !view_operand(c, mask, out.dims, n_lead, a->m, a->n, false,
                         (gale_type)gale__claim_node(c, mask).type, &a->mask))
        return false;
    if (a->hides && numbers && !a->hidden && view_numbers(c, hide, a, out.rank, &a->hide))
        a->hides = GALE__HIDES_OTHERS;
    else if (a->hides && !view_operand(c, hide, out.dims, n_lead, a->m, a->n, false, GALE_BOOL, &a->hide)) return false;
    c->operations =
        2.0 * (double)gale__prim_elements(c->g, c->out) / (double)a->c * (double)a->n * (double)(a->d + a->c);
    return true;
}

bool gale__claim_attention(gale__claim *c)
{
    gale__cpu_attention *a = is_region(c) ? gale__claim_args(c, sizeof *a) : NULL;
    gale_type type = (gale_type)gale__claim_node(c, c->out).type;
    if (!a || (type != GALE_F32 && !is_half(type))) return false;
    gale__node mask = c->in[3];
    if (mask >= 0 && is_half(gale__claim_node(c, mask).type)) mask = gale__prim_cast(c->g, mask, GALE_F32);
    if ((mask >= 0 && gale__claim_node(c, mask).type != GALE_F32) || !describe(c, type, mask, false, a)) return false;
    a->type = type;
    c->scratch_bytes = gale__cpu_attention_scratch(a);
    return c->scratch_bytes <= SCRATCH_MAX;
}

/* Kernels count elements in 32 bits. */
static bool is_countable(const gale__claim *c)
{
    bool ok = gale__prim_elements(c->g, c->out) < INT32_MAX;
    for (int i = 0; i < c->n_operands; i++) ok = ok && gale__prim_elements(c->g, c->operand[i]) < INT32_MAX;
    return ok;
}

/* Fewer rows, keys or columns leave most of the matrices empty. */
bool gale__claim_attention_kernels(gale__claim *c)
{
    gale__attention *a = is_region(c) ? gale__claim_args(c, sizeof *a) : NULL;
    if (!a) return false;
    double added = 1;
    bool none = c->in[3] >= 0 && gale__prim_is_splat(c->g, c->in[3], &added) && added == 0; /* nothing is masked */
    gale__node masks = none ? GALE__NIL : c->in[3];
    gale_type type = (gale_type)gale__claim_node(c, c->out).type, mask = (gale_type)gale__claim_node(c, masks).type;
    if (masks >= 0 && mask != GALE_F32 && !is_half(mask)) return false;
    if (!describe(c, type, masks, true, &a->a) || a->a.m < LEAST_SIDE || a->a.n < LEAST_SIDE || a->a.d < LEAST_SIDE)
        return false;
    a->type = type;
    a->mask_type = mask;
    /* Most networks join the heads, and products read the result as rows then. */
    gale__prim_node out = gale__claim_node(c, c->out);
    c->turned = out.rank > 3 && out.dims[out.rank - 3] > 1;
    a->beside = c->turned ? out.dims[out.rank - 3] : 0;
    return is_countable(c) && gale__attention_fits(a, &c->device->info.caps);
}

/* --- Attention with a quantised result. --- */

/* The f16 or bf16 value that was cast to f32, or NIL. */
static gale__node narrow_of(const gale__claim *c, gale__node n)
{
    gale__prim_node p = gale__claim_node(c, n);
    return p.op == GALE__CAST && p.type == GALE_F32 && is_half(gale__claim_node(c, p.in[0]).type) ? p.in[0] : GALE__NIL;
}

/* If x is a value of halves times one constant per column, cast back to halves: the value, with the constants in
 * *factors.  Otherwise x. */
static gale__node split_factors(const gale__claim *c, gale__node x, gale__node *factors)
{
    gale__prim_node p = gale__claim_node(c, x);
    *factors = GALE__NIL;
    if (p.op != GALE__CAST || gale__claim_node(c, p.in[0]).op != GALE__MUL) return x;
    p = gale__claim_node(c, p.in[0]);
    for (int i = 0; i < 2; i++) {
        gale__node by = p.in[1 - i], from = narrow_of(c, p.in[i]);
        while (gale__claim_node(c, by).op == GALE__PRIM_EXPAND || gale__claim_node(c, by).op == GALE__PRIM_RESHAPE)
            by = gale__claim_node(c, by).in[0];
        gale__prim_node constant = gale__claim_node(c, by);
        if (from < 0 || constant.op != GALE__PRIM_CONST || constant.splat || constant.type != GALE_F32) continue;
        *factors = by;
        return from;
    }
    return x;
}

/* The attention [.., rows, heads, columns] whose heads are concatenated along the columns of x; NIL if x is nothing of
 * the kind. */
static gale__node attention_of(const gale__claim *c, gale__node x, int64_t *heads)
{
    gale__prim_node joined = gale__claim_node(c, x);
    gale__node from = joined.op == GALE__PRIM_RESHAPE ? joined.in[0] : GALE__NIL;
    gale__prim_node p = gale__claim_node(c, from);
    if (p.op != GALE__PRIM_ROUTINE || p.rank < 3 || !is_half(p.type) ||
        gale__fast_paths_at((int)p.attr[GALE__ROUTINE_ROW])->run.kernels != &gale__attention_kernels)
        return GALE__NIL;
    *heads = p.dims[p.rank - 2];
    return joined.dims[joined.rank - 1] == *heads * p.dims[p.rank - 1] ? from : GALE__NIL;
}

/* If only QuantizeLinear reads the result of an attention, the attention kernel writes the quantised values. */
bool gale__claim_attention_levels(gale__claim *c)
{
    gale__prim_node out = gale__claim_node(c, c->out);
    gale__node factors, x = split_factors(c, narrow_of(c, c->in[0]), &factors);
    int64_t heads = 0;
    gale__node from = x < 0 ? GALE__NIL : attention_of(c, x, &heads);
    double step, zero = 0;
    if (from < 0 || (out.type != GALE_U8 && out.type != GALE_I8) || !gale__prim_is_splat(c->g, c->in[1], &step) ||
        (c->n_in > 2 && c->in[2] >= 0 && !gale__prim_is_splat(c->g, c->in[2], &zero)))
        return false;
    gale__prim_node p = gale__claim_node(c, from), joined = gale__claim_node(c, x);
    if (factors >= 0 && gale__prim_elements(c->g, factors) != joined.dims[joined.rank - 1]) return false;
    gale__attention *a = gale__claim_args(c, sizeof *a);
    if (!a || step < 0x1p-60 || step > 0x1p60) return false;
    memcpy(a, &p.attr[GALE__ROUTINE_ARGS], sizeof *a);
    memcpy(&c->operations, &p.attr[GALE__ROUTINE_OPERATIONS], sizeof c->operations);
    a->levels = out.type, a->beside = heads, a->factors = factors >= 0, a->step = step, a->zero = zero;
    bool ok = true;
    for (int i = 0; i < p.n_in; i++) ok = ok && gale__claim_operand(c, p.in[i]);
    if (factors >= 0) ok = ok && gale__claim_operand(c, factors);
    return ok && gale__attention_fits(a, &c->device->info.caps);
}
