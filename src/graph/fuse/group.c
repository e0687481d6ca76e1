/* Decides which values are stored in memory, in one pass from the outputs back: a value read by only one kernel is
 * fused into it; a value read by several is recomputed in each if that is cheaper than a load, and stored otherwise.
 * A kernel has at most one contraction, and a contraction does not share a kernel with other reductions. */
#include "graph/fuse/fuse.h"
#include "graph/fuse/layout.h"
#include <string.h>

enum { HAS_REDUCE = 1, HAS_CONTRACTION = 2 };
enum { ZONE = 1, PRODUCT = 2, SUM_CHAIN = 4, WINDOWED = 8 };

typedef struct grouper {
    gale__fusion *fusion;
    const gale__prim_graph *g;
    uint8_t *job;       /* flags by job; a job is numbered by its root, pieces of CONCAT above count */
    gale__node *reduce; /* by job: one of its reductions; the others must run over the same axes */
    uint8_t *zone; /* by node: ZONE feeds a contraction, PRODUCT is its MUL, SUM_CHAIN has only views between it and a
                      sum, WINDOWED a window reads it again and again */
    uint8_t *uses; /* by node: how many nodes read it, and outputs; 2: or more */
    int32_t next_job;
} grouper;

gale__node gale__fuse_base(const gale__fusion *f, gale__node n)
{
    while (!f->root[n] && gale__prim_at(f->g, n)->op == GALE__PRIM_RESHAPE) n = gale__prim_at(f->g, n)->in[0];
    return n;
}

int gale__fuse_joined_axes(const gale__prim_node *p, int64_t *dims)
{
    int axis = gale__channel_axis(p->dims, p->rank), rank = 0;
    for (; rank <= axis && rank < p->rank; rank++) dims[rank] = p->dims[rank];
    if (rank < p->rank) dims[rank++] = gale__layout_plane(p);
    return rank;
}

/* Whether a reshape of b splits its axes, but for those after the channels, which it may join. */
static bool keeps_channels(const gale__prim_node *a, const gale__prim_node *b)
{
    int64_t dims[GALE_MAX_RANK];
    int i = 0, rank = gale__fuse_joined_axes(b, dims);
    for (int j = 0; j < rank; j++) {
        int64_t size = 1;
        while (i < a->rank && size < dims[j]) size *= a->dims[i++];
        if (size != dims[j]) return false;
    }
    while (i < a->rank && a->dims[i] == 1) i++;
    return i == a->rank;
}

static bool in_memory(const gale__prim_node *n)
{
    return n->op == GALE__PRIM_INPUT || (n->op == GALE__PRIM_CONST && !n->splat);
}

void gale__fuse_make_root(gale__fusion *f, gale__node n)
{
    if (!in_memory(gale__prim_at(f->g, n))) f->root[n] = 1;
}

static bool always_root(int op)
{
    switch (op) {
    case GALE__PRIM_CONCAT:
    case GALE__PRIM_SORT:
    case GALE__PRIM_SCAN:
    case GALE__PRIM_PUT:
    case GALE__PRIM_LOOP:
    case GALE__PRIM_LOOP_OUT:
    case GALE__PRIM_COPY:
    case GALE__PRIM_ROUTINE: return true;
    default: return false;
    }
}

/* Inputs that must be in memory in row-major order. */
static bool needs_memory(const gale__prim_node *n, int input)
{
    switch (n->op) {
    case GALE__PRIM_SORT:
    case GALE__PRIM_SCAN:
    case GALE__PRIM_PUT:
    case GALE__PRIM_LOOP:
    case GALE__PRIM_ROUTINE: return true;
    case GALE__PRIM_TAKE: return input == 0;
    default: return false;
    }
}

static bool light(int op)
{
    return op < GALE__SCALAR_COUNT && gale__scalar_table[op].class_ != 'm' && op != GALE__DIV && op != GALE__REM &&
           op != GALE__SQRT;
}

static int tensor_operands(const gale__prim_graph *g, const gale__prim_node *n)
{
    int count = 0;
    for (int i = 0; i < n->n_in; i++) {
        gale__node x = n->in[i];
        while (gale__prim_is_view(gale__prim_at(g, x)->op)) x = gale__prim_at(g, x)->in[0];
        const gale__prim_node *p = gale__prim_at(g, x);
        if (!(p->op == GALE__PRIM_CONST && p->splat) && p->op != GALE__PRIM_IOTA) count++;
    }
    return count;
}

static int64_t source_elements(const gale__prim_graph *g, gale__node x)
{
    while (gale__prim_at(g, x)->op == GALE__PRIM_EXPAND || gale__prim_at(g, x)->op == GALE__PRIM_RESHAPE ||
           gale__prim_at(g, x)->op == GALE__PRIM_PERMUTE)
        x = gale__prim_at(g, x)->in[0];
    return gale__prim_elements(g, x);
}

/* Storing the value would take much more memory than its inputs. */
static bool blows_up(const gale__prim_graph *g, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(g, n);
    int64_t sources = 0;
    for (int i = 0; i < p->n_in; i++) sources += source_elements(g, p->in[i]);
    return gale__prim_elements(g, n) > 4 * sources;
}

/* Integers computed from counters and short tables by a few cheap operations, such as positions. Recomputing them costs
 * little, while a table of their size takes much memory. The remaining budget is counted down. */
static bool is_index_arithmetic(const grouper *s, gale__node n, int *operations, int64_t *elements)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    if (p->op == GALE__PRIM_IOTA || (p->op == GALE__PRIM_CONST && p->splat)) return true;
    if (in_memory(p) || s->fusion->root[n]) return (*elements -= gale__prim_elements(s->g, n)) >= 0;
    if (--*operations < 0) return false;
    if (p->op == GALE__PRIM_EXPAND || p->op == GALE__PRIM_RESHAPE || p->op == GALE__PRIM_PERMUTE)
        return is_index_arithmetic(s, p->in[0], operations, elements);
    if (!p->invariant || !light(p->op) || (!gale__type_is_int((gale_type)p->type) && p->type != GALE_BOOL))
        return false;
    for (int i = 0; i < p->n_in; i++)
        if (!is_index_arithmetic(s, p->in[i], operations, elements)) return false;
    return true;
}

static bool cheap_indices(const grouper *s, gale__node n)
{
    int operations = 48; /* and views */
    int64_t elements = gale__prim_elements(s->g, n) / 16;
    return gale__prim_at(s->g, n)->invariant && is_index_arithmetic(s, n, &operations, &elements);
}

/* Views of a window: the other factor of weights by channel, which need not be expanded. */
static bool over_window(const gale__prim_graph *g, gale__node n)
{
    while (gale__prim_at(g, n)->op == GALE__PRIM_RESHAPE || gale__prim_at(g, n)->op == GALE__PRIM_PERMUTE)
        n = gale__prim_at(g, n)->in[0];
    return gale__prim_at(g, n)->op == GALE__PRIM_WINDOW;
}

/* One factor is a whole matrix that is known beforehand. */
static bool by_weights(const gale__prim_graph *g, const gale__prim_node *m)
{
    for (int i = 0; i < 2; i++) {
        const gale__prim_node *p = gale__prim_at(g, m->in[i]);
        while (gale__prim_is_view(p->op) && p->op != GALE__PRIM_EXPAND) p = gale__prim_at(g, p->in[0]);
        if (p->op == GALE__PRIM_CONST && !p->splat) return true;
    }
    return false;
}

bool gale__fuse_is_contraction(const gale__prim_graph *g, gale__node reduce)
{
    const gale__prim_node *r = gale__prim_at(g, reduce);
    if (r->op != GALE__PRIM_REDUCE || r->attr[0] != GALE__SUM) return false;
    const gale__prim_node *m = gale__prim_at(g, r->in[0]);
    if (m->op != GALE__MUL) return false;
    const gale__prim_node *a = gale__prim_at(g, m->in[0]), *b = gale__prim_at(g, m->in[1]);
    bool a_wide = a->op == GALE__PRIM_EXPAND, b_wide = b->op == GALE__PRIM_EXPAND;
    /* one row by a matrix of bytes is a product, too */
    bool whole = (g->integer_products && m->type == GALE_I32) || (g->row_products && by_weights(g, m));
    if (!(a_wide && b_wide) && !(a_wide && (whole || over_window(g, m->in[1]))) &&
        !(b_wide && (whole || over_window(g, m->in[0]))))
        return false;
    bool a_alone = false, b_alone = false;
    for (int d = 0; d < m->rank; d++) {
        if (r->attr[1] >> d & 1 || m->dims[d] == 1) continue;
        bool in_a = !a_wide || gale__prim_at(g, a->in[0])->dims[d] != 1,
             in_b = !b_wide || gale__prim_at(g, b->in[0])->dims[d] != 1;
        a_alone |= in_a && !in_b;
        b_alone |= in_b && !in_a;
    }
    return a_alone || b_alone;
}

static bool same_axes(const gale__prim_graph *g, gale__node a, gale__node b)
{
    const gale__prim_node *x = gale__prim_at(g, a), *y = gale__prim_at(g, b);
    return x->attr[1] == y->attr[1] && gale__prim_same_shape(g, x->in[0], y->in[0]);
}

static void note_reduce(grouper *s, int32_t job, gale__node n, bool contraction)
{
    s->job[job] |= contraction ? HAS_CONTRACTION : HAS_REDUCE;
    s->reduce[job] = n;
}

/* What the node adds to its kernel's flags; true when the kernel cannot take it. */
static bool reduce_conflicts(grouper *s, gale__node n)
{
    bool contraction = gale__fuse_is_contraction(s->g, n);
    if (s->zone[n] & SUM_CHAIN) {
        if (contraction) s->job[s->fusion->group[n]] |= HAS_CONTRACTION;
        return false;
    }
    if (s->zone[n] & ZONE) return true;
    int32_t job = s->fusion->group[n];
    if (contraction ? s->job[job] != 0 : (s->job[job] & HAS_CONTRACTION) != 0) return true;
    if ((s->job[job] & HAS_REDUCE) && !same_axes(s->g, s->reduce[job], n)) return true;
    note_reduce(s, job, n, contraction);
    return false;
}

static bool is_byte(int type) { return type == GALE_I8 || type == GALE_U8; }

/* A cast from a narrow float to f32, or from bytes that matrix units may multiply: the narrow value should be the
 * stored one. */
static bool widens(const grouper *s, const gale__prim_node *p)
{
    if (p->op != GALE__CAST) return false;
    uint8_t from = gale__prim_at(s->g, p->in[0])->type;
    if (s->fusion->options.bytes && is_byte(from)) return p->type == GALE_F32 || p->type == GALE_I32;
    return p->type == GALE_F32 && (from == GALE_F16 || from == GALE_BF16);
}

/* Whether an input of n, looking through views, is a reduction that n's kernel cannot contain. n is then computed in
 * the reduction's kernel, unless it is much larger, or the reduction is part of the prologue. */
static bool splits_kernel(const grouper *s, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    int32_t job = s->fusion->group[n];
    if (job < 0 || !s->job[job] || widens(s, p) || blows_up(s->g, n)) return false;
    for (int i = 0; i < p->n_in; i++) {
        gale__node x = p->in[i];
        while (gale__prim_is_view(gale__prim_at(s->g, x)->op)) x = gale__prim_at(s->g, x)->in[0];
        const gale__prim_node *from = gale__prim_at(s->g, x);
        if (from->op != GALE__PRIM_REDUCE || (from->invariant && !p->invariant)) continue;
        if (gale__fuse_is_contraction(s->g, x) || (s->job[job] & HAS_CONTRACTION) ||
            !same_axes(s->g, s->reduce[job], x))
            return true;
    }
    return false;
}

/* A computed value that a contraction or a window reads repeatedly is stored by its own kernel instead of being
 * recomputed. */
static bool stored_once(const grouper *s, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    if (!s->fusion->options.store_operands || p->op == GALE__CAST || p->invariant || blows_up(s->g, n)) return false;
    if (s->zone[n] & WINDOWED) return true;
    if (!(s->zone[n] & ZONE)) return false;
    for (int i = 0; i < p->n_in; i++) {
        gale__node x = p->in[i];
        while (gale__prim_is_view(gale__prim_at(s->g, x)->op)) x = gale__prim_at(s->g, x)->in[0];
        if (!in_memory(gale__prim_at(s->g, x)) && gale__prim_at(s->g, x)->op != GALE__PRIM_CONST) return true;
    }
    return false;
}

/* Dequantised bytes: they are narrower than halves, and cheap to dequantise again. */
static bool made_of_bytes(const gale__prim_graph *g, gale__node n)
{
    for (int steps = 0; steps < 8; steps++) {
        const gale__prim_node *p = gale__prim_at(g, n);
        if (is_byte(p->type)) return true;
        bool scaled = (p->op == GALE__MUL || p->op == GALE__SUB) && tensor_operands(g, p) == 1;
        if (p->op != GALE__CAST && !scaled && !gale__prim_is_view(p->op)) return false;
        n = p->in[0];
    }
    return false;
}

/* A cast to a narrower float, or to bytes if products read bytes: if the value is stored at all, it is stored after
 * this cast. */
static bool narrows(const grouper *s, const gale__prim_node *p)
{
    bool bytes = is_byte(p->type) && (s->fusion->options.store_operands || s->fusion->options.bytes);
    if (p->op != GALE__CAST || (p->type != GALE_F16 && p->type != GALE_BF16 && !bytes)) return false;
    gale_type from = (gale_type)gale__prim_at(s->g, p->in[0])->type;
    if (s->fusion->options.bytes && !bytes && made_of_bytes(s->g, p->in[0])) return false;
    return from == GALE_F32 || from == GALE_F64;
}

/* Bytes minus a zero point, as the factor of a product: products load the bytes themselves, so this is not stored. */
static bool is_centred(const grouper *s, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    if (p->op != GALE__SUB || p->type != GALE_I32 || !(s->zone[n] & (ZONE | WINDOWED))) return false;
    const gale__prim_node *x = gale__prim_at(s->g, p->in[0]);
    return x->op == GALE__CAST && is_byte(gale__prim_at(s->g, x->in[0])->type);
}

/* Whether n depends on a contraction through element-wise operations and views only. */
static bool over_contraction(const grouper *s, gale__node n, int *budget)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    if (p->op == GALE__PRIM_REDUCE) return gale__fuse_is_contraction(s->g, n);
    if (in_memory(p) || s->fusion->root[n] || --*budget < 0) return false;
    if (p->op >= GALE__SCALAR_COUNT && !gale__prim_is_view(p->op)) return false;
    for (int i = 0; i < p->n_in; i++)
        if (over_contraction(s, p->in[i], budget)) return true;
    return false;
}

/* A narrow value that several kernels read, or one reads repeatedly, is stored narrow; a single kernel reads it from
 * memory unchanged.  Between a contraction and a reducing kernel, the narrow value is what is in memory. */
static bool stored_narrow(const grouper *s, gale__node n, bool multi)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    gale__node x = p->in[0];
    if (blows_up(s->g, n)) return false;
    if (multi) return true;
    int32_t job = s->fusion->group[n];
    int budget = 32;
    if (!(s->zone[n] & (ZONE | WINDOWED))) return job >= 0 && s->job[job] && over_contraction(s, n, &budget);
    while (gale__prim_is_view(gale__prim_at(s->g, x)->op)) x = gale__prim_at(s->g, x)->in[0];
    return p->invariant || !in_memory(gale__prim_at(s->g, x));
}

/* A conditional COPY (attr[0] is 1) that a single kernel reads element by element is omitted. */
static bool left_out(const grouper *s, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    int32_t job = s->fusion->group[n];
    return p->op == GALE__PRIM_COPY && p->attr[0] && job >= 0 && !s->job[job] && !(s->zone[n] & (ZONE | WINDOWED)) &&
           !s->fusion->options.no_fusion;
}

static bool single_use_view(const gale__prim_graph *g, gale__node n)
{
    return gale__prim_is_view(gale__prim_at(g, n)->op) && gale__prim_at(g, n)->op != GALE__PRIM_EXPAND;
}

/* What several kernels read, computed by light operations from a result of a contraction that nothing else reads: its
 * kernel stores one or the other, so the former, which nobody then computes again. */
static bool stored_after(const grouper *s, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    int budget = 32;
    if (!s->fusion->options.store_operands) return false;
    for (; single_use_view(s->g, n) || (light(p->op) && p->op != GALE__CAST && tensor_operands(s->g, p) == 1);
         p = gale__prim_at(s->g, n)) {
        for (int i = 0; i < p->n_in; i++)
            if (!gale__prim_at(s->g, p->in[i])->invariant) n = p->in[i];
        if (s->uses[n] != 1 || s->fusion->root[n] || gale__prim_at(s->g, n) == p) return false;
    }
    return over_contraction(s, n, &budget);
}

static bool decide_root(grouper *s, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    if (s->fusion->root[n] || (always_root(p->op) && !left_out(s, n))) return true;
    if (p->op == GALE__PRIM_COPY) return false;
    if (in_memory(p)) return false;
    if (p->op == GALE__PRIM_ROLL && !s->fusion->options.wraps) return true;
    bool multi = s->fusion->group[n] == GALE__GROUP_MULTI;
    if (p->op == GALE__PRIM_CONST || p->op == GALE__PRIM_IOTA || gale__prim_is_view(p->op))
        return s->fusion->options.no_fusion && p->op == GALE__PRIM_IOTA;
    if (s->fusion->options.no_fusion) return !(s->zone[n] & PRODUCT);
    if (p->op == GALE__PRIM_REDUCE) return multi || reduce_conflicts(s, n);
    if (s->zone[n] & PRODUCT) return false;
    if (p->op == GALE__PRIM_TAKE) return multi || (s->zone[n] & ZONE);
    if (narrows(s, p) && stored_narrow(s, n, multi)) return true;
    if (s->fusion->options.store_operands && is_centred(s, n)) return false;
    if (stored_once(s, n)) return true;
    if (s->zone[n] & ZONE) return !light(p->op) || tensor_operands(s->g, p) > 1;
    if (!multi) return splits_kernel(s, n);
    if (stored_after(s, n)) return true;
    return !(light(p->op) && tensor_operands(s->g, p) <= 1) && !blows_up(s->g, n) && !cheap_indices(s, n);
}

/* Whether a value that depends only on constants is expensive enough to be kept from run to run. */
static bool dear_invariant(const gale__prim_graph *g, gale__node x)
{
    const gale__prim_node *p = gale__prim_at(g, x);
    if (!p->invariant || blows_up(g, x)) return false;
    return p->op == GALE__PRIM_REDUCE || p->op == GALE__PRIM_TAKE || (p->op < GALE__SCALAR_COUNT && !light(p->op));
}

/* Whether n depends, through element-wise operations and views only, on a reduction of at least so many elements that
 * is not a contraction.  The reducing kernel then computes n once for each result. */
static bool over_reduction(const grouper *s, gale__node n, int64_t elements, int *budget)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    if (p->op == GALE__PRIM_REDUCE)
        return !gale__fuse_is_contraction(s->g, n) && gale__prim_elements(s->g, p->in[0]) >= elements;
    if (in_memory(p) || s->fusion->root[n] || always_root(p->op)) return false;
    if (--*budget < 0) return true;
    for (int i = 0; i < p->n_in; i++)
        if (over_reduction(s, p->in[i], elements, budget)) return true;
    return false;
}

enum { SPREAD = 16 };

/* A value with few elements that many elements read, such as a gate per channel, is not recomputed for each of them. */
static void store_spread(const grouper *s, gale__node n)
{
    gale__node x = gale__prim_at(s->g, n)->in[0];
    int budget = 32;
    while (gale__prim_at(s->g, x)->op == GALE__PRIM_RESHAPE || gale__prim_at(s->g, x)->op == GALE__PRIM_PERMUTE)
        x = gale__prim_at(s->g, x)->in[0];
    const gale__prim_node *p = gale__prim_at(s->g, x);
    if (!s->fusion->options.store_operands || p->op >= GALE__SCALAR_COUNT || p->op == GALE__CAST || p->invariant)
        return;
    if (s->zone[n] || gale__prim_elements(s->g, n) < SPREAD * gale__prim_elements(s->g, x)) return;
    if (gale__prim_elements(s->g, x) > 1 && !over_reduction(s, x, gale__prim_elements(s->g, n), &budget))
        gale__fuse_make_root(s->fusion, x);
}

static void note_user(grouper *s, gale__node x, int32_t job)
{
    int32_t *group = &s->fusion->group[x];
    s->fusion->live[x] = 1;
    if (*group == GALE__GROUP_NONE) *group = job;
    else if (*group != job) *group = GALE__GROUP_MULTI;
}

static void visit_inputs(grouper *s, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    bool root = s->fusion->root[n];
    bool product_below = p->op == GALE__PRIM_REDUCE && gale__fuse_is_contraction(s->g, n);
    bool sum = p->op == GALE__PRIM_REDUCE && p->attr[0] == GALE__SUM && !s->fusion->options.no_fusion;
    if (p->op == GALE__PRIM_EXPAND && !s->fusion->options.no_fusion) store_spread(s, n);
    for (int i = 0; i < p->n_in; i++) {
        gale__node x = p->in[i];
        int32_t job = root ? n : s->fusion->group[n];
        if (p->op == GALE__PRIM_CONCAT) job = s->next_job++;
        bool first = s->fusion->group[x] == GALE__GROUP_NONE;
        note_user(s, x, job);
        if (!p->invariant && dear_invariant(s->g, x)) gale__fuse_make_root(s->fusion, x);
        if (needs_memory(p, i)) {
            gale__node base = gale__fuse_base(s->fusion, x);
            gale__fuse_make_root(s->fusion, base);
            s->fusion->dense[base] |= !(i == 0 && gale__fuse_takes_layouts(s->g, p, base));
        }
        if (product_below) s->zone[x] |= PRODUCT;
        if (s->zone[n] & PRODUCT || (!root && (s->zone[n] & ZONE))) s->zone[x] |= ZONE;
        if (p->op == GALE__PRIM_WINDOW || (!root && (s->zone[n] & WINDOWED))) s->zone[x] |= WINDOWED;
        bool chain = sum || ((s->zone[n] & SUM_CHAIN) && single_use_view(s->g, n));
        if (chain && first) s->zone[x] |= SUM_CHAIN;
        else s->zone[x] &= (uint8_t)~SUM_CHAIN;
    }
}

static void find_over_reduce(gale__fusion *f)
{
    for (gale__node n = 0; n < f->g->count; n++) {
        const gale__prim_node *p = gale__prim_at(f->g, n);
        if (!f->live[n] || f->root[n]) continue;
        if (p->op == GALE__PRIM_REDUCE) f->over_reduce[n] = 1;
        for (int i = 0; i < p->n_in; i++)
            if (f->over_reduce[p->in[i]]) f->over_reduce[n] = 1;
    }
}

/* The only stored value that a chain of element-wise operations reads, apart from constants; NIL if there are several,
 * or if the chain contains anything else. */
static gale__node only_source(const grouper *s, gale__node n, int *budget)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    gale__node from = GALE__NIL;
    if (p->op >= GALE__SCALAR_COUNT || --*budget < 0) return GALE__NIL;
    for (int i = 0; i < p->n_in; i++) {
        gale__node x = p->in[i];
        if (gale__prim_at(s->g, x)->invariant) continue;
        gale__node leaf = s->fusion->root[x] ? x : only_source(s, x, budget);
        if (leaf < 0 || (from >= 0 && leaf != from)) return GALE__NIL;
        from = leaf;
    }
    return from;
}

/* A root whose kernel can also write root n, because n holds the quantised values of that root element by element; NIL:
 * none.  Products are excluded. */
static gale__node join_levels(const grouper *s, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(s->g, n);
    int budget = 16;
    if (p->op != GALE__CAST || !is_byte(p->type)) return GALE__NIL;
    gale__node from = only_source(s, n, &budget);
    bool ok = from >= 0 && gale__prim_at(s->g, from)->op < GALE__SCALAR_COUNT && s->job[from] == HAS_REDUCE &&
              gale__prim_same_shape(s->g, from, n);
    return ok ? from : GALE__NIL;
}

/* The same for the first steps of two reductions of one value, such as its minimum and its maximum. */
static gale__node join_parts(const grouper *s, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(s->g, n),
                          *r = p->op == GALE__PRIM_COPY ? gale__prim_at(s->g, p->in[0]) : p;
    if (p->op != GALE__PRIM_COPY || r->op != GALE__PRIM_REDUCE) return GALE__NIL;
    for (gale__node m = n - 1; m >= 0 && m > n - 16; m--) {
        const gale__prim_node *q = gale__prim_at(s->g, m);
        if (q->op != GALE__PRIM_COPY || !s->fusion->root[m] || !s->fusion->live[m]) continue;
        const gale__prim_node *o = gale__prim_at(s->g, q->in[0]);
        if (o->op == GALE__PRIM_REDUCE && o->in[0] == r->in[0] && o->attr[1] == r->attr[1]) return m;
    }
    return GALE__NIL;
}

static void join_roots(grouper *s)
{
    gale__fusion *f = s->fusion;
    for (gale__node n = 0; n < s->g->count; n++) f->with[n] = GALE__NIL;
    for (gale__node n = 0; n < s->g->count && f->options.bytes && !f->options.no_fusion; n++) {
        if (!f->live[n] || !f->root[n] || gale__prim_at(s->g, n)->invariant) continue;
        gale__node from = join_levels(s, n);
        if (from < 0) from = join_parts(s, n);
        if (from < 0 || f->with[from] >= 0 || f->joined[from]) continue;
        f->with[from] = n;
        f->joined[n] = 1;
    }
}

static gale_status allocate(grouper *s)
{
    gale__fusion *f = s->fusion;
    size_t n = (size_t)s->g->count, pieces = 0;
    for (gale__node i = 0; i < s->g->count; i++)
        if (gale__prim_at(s->g, i)->op == GALE__PRIM_CONCAT) pieces += (size_t)gale__prim_at(s->g, i)->n_in;
    f->live = gale__arena_alloc(&f->arena, n + 1);
    f->root = gale__arena_alloc(&f->arena, n + 1);
    f->dense = gale__arena_alloc(&f->arena, n + 1);
    f->last = gale__arena_alloc(&f->arena, n + 1);
    f->over_reduce = gale__arena_alloc(&f->arena, n + 1);
    f->is_output = gale__arena_alloc(&f->arena, n + 1);
    f->group = gale__arena_alloc(&f->arena, (n + 1) * sizeof *f->group);
    f->emitted_in = gale__arena_alloc(&f->arena, (n + 1) * sizeof *f->emitted_in);
    f->with = gale__arena_alloc(&f->arena, (n + 1) * sizeof *f->with);
    f->joined = gale__arena_alloc(&f->arena, n + 1);
    s->job = gale__arena_alloc(&f->arena, n + pieces + 1);
    s->reduce = gale__arena_alloc(&f->arena, (n + pieces + 1) * sizeof *s->reduce);
    s->zone = gale__arena_alloc(&f->arena, n + 1);
    s->uses = gale__arena_alloc(&f->arena, n + 1);
    if (!f->live || !f->root || !f->dense || !f->last || !f->over_reduce || !f->is_output || !f->group ||
        !f->emitted_in || !f->with || !f->joined || !s->job || !s->reduce || !s->zone || !s->uses)
        return GALE_NO_MEMORY;
    for (size_t i = 0; i < n; i++) f->group[i] = GALE__GROUP_NONE, f->emitted_in[i] = -1;
    s->next_job = s->g->count;
    return GALE_OK;
}

static void count_use(grouper *s, gale__node n)
{
    if (s->uses[n] < 2) s->uses[n]++;
}

/* Nodes that nothing needs do not count. */
static void count_uses(grouper *s, const gale__node *outputs, int n_outputs)
{
    for (int i = 0; i < n_outputs; i++) count_use(s, outputs[i]);
    for (gale__node n = s->g->count - 1; n >= 0; n--)
        for (int i = 0; s->uses[n] && i < gale__prim_at(s->g, n)->n_in; i++)
            count_use(s, gale__prim_at(s->g, n)->in[i]);
}

gale_status gale__fuse_group(gale__fusion *f, const gale__node *outputs, int n_outputs)
{
    grouper s = {.fusion = f, .g = f->g};
    GALE_TRY(allocate(&s));
    count_uses(&s, outputs, n_outputs);
    for (int i = 0; i < n_outputs; i++) {
        gale__node base = gale__fuse_base(f, outputs[i]); /* a reshape is another name for the same memory */
        f->live[outputs[i]] = f->is_output[outputs[i]] = f->dense[base] = 1;
        gale__fuse_make_root(f, base);
        f->group[outputs[i]] = f->group[base] = GALE__GROUP_MULTI;
    }
    for (gale__node n = f->g->count - 1; n >= 0; n--) {
        if (!f->live[n]) continue;
        f->root[n] = decide_root(&s, n);
        if (f->root[n] && gale__prim_at(f->g, n)->op == GALE__PRIM_REDUCE)
            note_reduce(&s, n, n, gale__fuse_is_contraction(f->g, n));
        const gale__prim_node *p = gale__prim_at(f->g, n), *base = gale__prim_at(f->g, gale__fuse_base(f, n));
        if (p->op == GALE__PRIM_RESHAPE && !keeps_channels(p, base)) f->dense[gale__fuse_base(f, n)] = 1;
        visit_inputs(&s, n);
    }
    find_over_reduce(f);
    join_roots(&s);
    return GALE_OK;
}
