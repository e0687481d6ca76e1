/* Nodes that move elements by computed indices: take, put, concat, copy; and loops. */
#include "graph/build/build.h"
#include <string.h>

static gale__node flatten(gale__prim_graph *g, gale__node x)
{
    int64_t n = gale__prim_ok(g, x) ? gale__prim_elements(g, x) : 0;
    return gale__prim_reshape(g, x, 1, &n);
}

gale__node gale__prim_take(gale__prim_graph *g, gale__node data, gale__node index)
{
    if (!gale__prim_ok(g, data) || !gale__prim_ok(g, index)) return GALE__NIL;
    gale_type type = g->nodes[data].type;
    if (!gale__type_is_int(g->nodes[index].type))
        return gale__prim_fail(
            g, GALE_INVALID, "take: the index has type %s; integers are needed", gale_type_name(g->nodes[index].type));
    index = gale__prim_cast(g, index, GALE_I64);
    data = flatten(g, data);
    if (data < 0 || index < 0) return GALE__NIL;
    gale__prim_node p = g->nodes[index];
    if (gale__prim_elements(g, data) == 0 && gale__prim_elements(g, index) > 0)
        return gale__prim_fail(g, GALE_INVALID, "take: the input is empty");
    if (g->nodes[data].splat) return gale__prim_respread(g, data, p.rank, p.dims);
    gale__prim_draft d;
    gale__prim_draft_init(&d, GALE__PRIM_TAKE, type, p.rank, p.dims);
    d.in[0] = data, d.in[1] = index;
    d.node.n_in = 2;
    return gale__prim_push(g, &d.node);
}

/* Constant indices with a constant step are a slice, which costs nothing. */
static bool even_steps(
    gale__prim_graph *g, gale__node index, int64_t extent, int64_t *first, int64_t *step, int64_t *count)
{
    const gale__prim_node *p = &g->nodes[index];
    int64_t *v;
    if (p->op != GALE__PRIM_CONST || p->rank > 1 || gale__prim_known_ints(g, index, &v, count) != GALE_OK || *count < 1)
        return false;
    for (int64_t i = 0; i < *count; i++) {
        if (v[i] < 0) v[i] += extent;
        if (v[i] < 0 || v[i] >= extent) return false;
    }
    *first = v[0];
    *step = *count > 1 ? v[1] - v[0] : 1;
    for (int64_t i = 1; i < *count; i++)
        if (v[i] - v[i - 1] != *step) return false;
    return *step != 0;
}

static gale__node gather_slice(
    gale__prim_graph *g, gale__node data, int axis, int64_t first, int64_t step, int64_t count, bool drop)
{
    const gale__prim_node *p = &g->nodes[data];
    int64_t start[GALE_MAX_RANK] = {0}, steps[GALE_MAX_RANK], size[GALE_MAX_RANK];
    for (int d = 0; d < p->rank; d++) steps[d] = 1, size[d] = p->dims[d];
    start[axis] = first, steps[axis] = step, size[axis] = count;
    gale__node part = gale__prim_slice(g, data, start, steps, size);
    return drop ? gale__prim_squeeze(g, part, 1u << axis) : part;
}

gale__node gale__prim_gather(gale__prim_graph *g, gale__node data, gale__node index, int axis)
{
    if (!gale__prim_ok(g, data) || !gale__prim_ok(g, index)) return GALE__NIL;
    gale__prim_node p = g->nodes[data], q = g->nodes[index];
    int rank = p.rank - 1 + q.rank;
    if (axis < 0 || axis >= p.rank || rank > GALE_MAX_RANK)
        return gale__prim_fail(g, GALE_INVALID,
            "gather: axis %d of %s by indices %s: no such axis, or the result has too many axes", axis,
            gale__prim_shape_text(g, data), gale__prim_shape_text(g, index));
    int64_t first, step, count;
    if (even_steps(g, index, p.dims[axis], &first, &step, &count))
        return gather_slice(g, data, axis, first, step, count, q.rank == 0);
    /* The result is [data's axes before, index's axes, data's axes after]. */
    int64_t dims[GALE_MAX_RANK], spot[GALE_MAX_RANK], inner = 1;
    for (int d = 0; d < rank; d++) {
        bool before = d < axis, inside = !before && d < axis + q.rank;
        dims[d] = before ? p.dims[d] : inside ? q.dims[d - axis] : p.dims[d - q.rank + 1];
        spot[d] = inside ? dims[d] : 1;
    }
    for (int d = axis + 1; d < p.rank; d++) inner *= p.dims[d];
    gale__node at = gale__prim_cast(g, index, GALE_I64), n = gale__prim_scalar(g, GALE_I64, (double)p.dims[axis]);
    at = gale__prim_select(
        g, gale__prim_binary(g, GALE__LT, at, gale__prim_like(g, at, 0)), gale__prim_add(g, at, n), at);
    at = gale__prim_mul(g, gale__prim_reshape(g, at, rank, spot), gale__prim_scalar(g, GALE_I64, (double)inner));
    /* Strides of the axes that are not indexed. */
    int64_t stride = 1;
    for (int d = p.rank - 1; d >= 0; stride *= p.dims[d--]) {
        if (d == axis) continue;
        gale__node walk = gale__prim_iota(g, rank, dims, d < axis ? d : d + q.rank - 1);
        at = gale__prim_add(g, at, gale__prim_mul(g, walk, gale__prim_scalar(g, GALE_I64, (double)stride)));
    }
    return gale__prim_take(g, data, gale__prim_expand(g, at, rank, dims));
}

gale__node gale__prim_put(gale__prim_graph *g, gale__node init, gale__node index, gale__node updates, int mode)
{
    if (!gale__prim_ok(g, init) || !gale__prim_ok(g, index) || !gale__prim_ok(g, updates)) return GALE__NIL;
    gale__prim_node p = g->nodes[init];
    if (g->nodes[updates].type != p.type || gale__prim_elements(g, updates) != gale__prim_elements(g, index) ||
        mode < -1 || mode > GALE__RMIN)
        return gale__prim_fail(g, GALE_INVALID, "put: %s updates %s at indices %s do not match a value of type %s",
            gale_type_name(g->nodes[updates].type), gale__prim_shape_text(g, updates), gale__prim_shape_text(g, index),
            gale_type_name(p.type));
    if (gale__prim_elements(g, updates) == 0) return init;
    gale__node flat = flatten(g, init), at = flatten(g, gale__prim_cast(g, index, GALE_I64)),
               new_ = flatten(g, updates);
    if (flat < 0 || at < 0 || new_ < 0) return GALE__NIL;
    gale__prim_draft d;
    gale__prim_draft_init(&d, GALE__PRIM_PUT, p.type, 1, g->nodes[flat].dims);
    d.in[0] = flat, d.in[1] = at, d.in[2] = new_;
    d.node.n_in = 3;
    d.attr[0] = mode;
    d.node.n_attr = 1;
    return gale__prim_reshape(g, gale__prim_push(g, &d.node), p.rank, p.dims);
}

/* Whether x is a slice of *whole that starts at `first` along the axis and is complete along all others.  If *whole is
 * NIL, it is set to the sliced node. */
static bool is_part(const gale__prim_graph *g, gale__node x, int axis, int64_t first, gale__node *whole)
{
    const gale__prim_node *p = &g->nodes[x];
    if (p->op != GALE__PRIM_SLICE || (*whole >= 0 && p->in[0] != *whole)) return false;
    *whole = p->in[0];
    for (int a = 0; a < p->rank; a++) {
        bool all = p->dims[a] == g->nodes[*whole].dims[a];
        if (p->dims[a] > 1 && p->attr[2 * a + 1] != 1) return false;
        if (a == axis ? p->attr[2 * a] != first : !all || p->attr[2 * a] != 0) return false;
    }
    return true;
}

/* The concatenation of the end and the beginning of the same value is a ROLL; NIL if it is not. */
static gale__node find_roll(gale__prim_graph *g, int axis, const gale__node *in)
{
    gale__node whole = GALE__NIL;
    int64_t last = g->nodes[in[0]].dims[axis], first = g->nodes[in[1]].dims[axis];
    if (!is_part(g, in[0], axis, first, &whole) || !is_part(g, in[1], axis, 0, &whole)) return GALE__NIL;
    return g->nodes[whole].dims[axis] == first + last ? gale__prim_roll(g, whole, axis, first) : GALE__NIL;
}

/* Replaces the longest prefix of in[] that an existing CONCAT computes by that node: each layer of a DenseNet appends
 * one part to the list that the previous layer read.  Returns the new number of parts. */
static int share_beginning(const gale__prim_graph *g, const gale__prim_draft *whole, int axis, gale__node *in, int n)
{
    gale__prim_node part = whole->node;
    int64_t at = axis;
    part.in = in;
    part.attr = &at;
    part.n_attr = 1;
    for (part.n_in = n - 1; part.n_in > 1; part.n_in--) {
        part.dims[axis] = 0;
        for (int i = 0; i < part.n_in; i++) part.dims[axis] += g->nodes[in[i]].dims[axis];
        gale__node known = gale__prim_find(g, &part);
        if (known < 0) continue;
        memmove(in + 1, in + part.n_in, (size_t)(n - part.n_in) * sizeof *in);
        in[0] = known;
        n -= part.n_in - 1;
        part.n_in = n;
    }
    return n;
}

gale__node gale__prim_concat(gale__prim_graph *g, int axis, const gale__node *xs, int n)
{
    if (n < 1) return gale__prim_fail(g, GALE_INVALID, "concat: no inputs");
    gale__node *in = gale__arena_alloc(&g->arena, n * sizeof *in);
    if (!in) return gale__prim_fail(g, GALE_NO_MEMORY, "concat: out of memory");
    gale__prim_draft d;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (!gale__prim_ok(g, xs[i])) return GALE__NIL;
        const gale__prim_node *p = &g->nodes[xs[i]];
        if (i == 0) gale__prim_draft_init(&d, GALE__PRIM_CONCAT, p->type, p->rank, p->dims);
        bool fits = p->type == d.node.type && p->rank == d.node.rank && axis >= 0 && axis < p->rank;
        for (int a = 0; fits && a < p->rank; a++) fits = a == axis || p->dims[a] == d.node.dims[a];
        if (!fits)
            return gale__prim_fail(g, GALE_INVALID, "concat: %s and %s differ outside axis %d",
                gale__prim_shape_text(g, xs[0]), gale__prim_shape_text(g, xs[i]), axis);
        if (i) d.node.dims[axis] += p->dims[axis];
        if (p->dims[axis]) in[kept++] = xs[i];
    }
    if (kept <= 1) return kept ? in[0] : xs[0];
    gale__node roll = kept == 2 ? find_roll(g, axis, in) : GALE__NIL;
    if (roll >= 0 || g->status != GALE_OK) return roll;
    kept = share_beginning(g, &d, axis, in, kept);
    d.node.in = in;
    d.node.n_in = kept;
    d.attr[0] = axis;
    d.node.n_attr = 1;
    return gale__prim_push(g, &d.node);
}

static gale__node copy(gale__prim_graph *g, gale__node x, bool where_needed)
{
    if (!gale__prim_ok(g, x)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[x];
    if (p->op == GALE__PRIM_COPY || p->op == GALE__PRIM_INPUT || p->op == GALE__PRIM_CONST) return x;
    gale__prim_draft d;
    gale__prim_draft_init(&d, GALE__PRIM_COPY, p->type, p->rank, p->dims);
    d.in[0] = x;
    d.node.n_in = 1;
    d.attr[0] = where_needed;
    d.node.n_attr = 1;
    return gale__prim_push(g, &d.node);
}

gale__node gale__prim_copy(gale__prim_graph *g, gale__node x) { return copy(g, x, false); }
gale__node gale__prim_laid_out(gale__prim_graph *g, gale__node x) { return copy(g, x, true); }

/* Whether the outside input fits the body's: the same, or with a leading axis of trips. */
static bool loop_input_fits(
    const gale__prim_node *inside, const gale__prim_node *outside, const gale__prim_loop_args *loop, bool sliced)
{
    if (inside->type != outside->type || outside->rank != inside->rank + sliced) return false;
    if (sliced && outside->dims[0] != loop->trips) return false;
    return !memcmp(outside->dims + sliced, inside->dims, inside->rank * sizeof *inside->dims);
}

static bool loop_fits(gale__prim_graph *g, const gale__prim_loop_args *loop, const gale__node *inputs)
{
    const gale__prim_graph *body = loop->body;
    int total = loop->n_carried + loop->n_sliced + loop->n_constant;
    for (gale__node i = 0; i < body->count; i++) {
        const gale__prim_node *p = &body->nodes[i];
        if (p->op != GALE__PRIM_INPUT) continue;
        int64_t which = p->attr[0];
        bool sliced = which >= loop->n_carried && which < loop->n_carried + loop->n_sliced;
        if (which < 0 || which >= total || !loop_input_fits(p, &g->nodes[inputs[which]], loop, sliced)) {
            gale__prim_fail(g, GALE_INVALID, "loop: input %lld does not match the body", (long long)which);
            return false;
        }
    }
    for (int i = 0; i < loop->n_carried; i++) {
        const gale__prim_node *out = &body->nodes[loop->out[i]];
        if (!loop_input_fits(out, &g->nodes[inputs[i]], loop, false)) {
            gale__prim_fail(g, GALE_INVALID, "loop: carried value %d changes its shape or type", i);
            return false;
        }
    }
    return true;
}

gale__node gale__prim_loop(gale__prim_graph *g, const gale__prim_loop_args *loop, const gale__node *inputs)
{
    int n = loop->n_carried + loop->n_sliced + loop->n_constant, n_out = loop->n_carried + loop->n_stacked;
    if (g->status == GALE_OK) g->status = loop->body->status; /* the failure of the body has already been reported */
    for (int i = 0; i < n; i++)
        if (!gale__prim_ok(g, inputs[i])) return GALE__NIL;
    for (int i = 0; i < n_out; i++)
        if (!gale__prim_ok(loop->body, loop->out[i]))
            return gale__prim_fail(g, GALE_INVALID, "loop: output %d of the body is missing", i);
    if (g->status != GALE_OK || !loop_fits(g, loop, inputs)) return GALE__NIL;
    gale__prim_loop_args *kept = gale__arena_copy(&g->arena, loop, sizeof *loop);
    if (kept) kept->out = gale__arena_copy(&g->arena, loop->out, n_out * sizeof *loop->out);
    if (!kept || !kept->out) return gale__prim_fail(g, GALE_NO_MEMORY, "loop: out of memory");
    gale__prim_draft d;
    int64_t none = 0; /* a loop itself has no value; its outputs do */
    gale__prim_draft_init(&d, GALE__PRIM_LOOP, GALE_F32, 1, &none);
    d.node.in = (gale__node *)inputs; /* push copies it */
    d.node.n_in = n;
    d.node.loop = kept;
    return gale__prim_push(g, &d.node);
}

gale__node gale__prim_loop_out(gale__prim_graph *g, gale__node loop, int which)
{
    if (!gale__prim_ok(g, loop)) return GALE__NIL;
    const gale__prim_node *p = &g->nodes[loop];
    if (p->op != GALE__PRIM_LOOP || which < 0 || which >= p->loop->n_carried + p->loop->n_stacked)
        return gale__prim_fail(g, GALE_INVALID, "loop: no output %d", which);
    const gale__prim_node *out = &p->loop->body->nodes[p->loop->out[which]];
    bool stacked = which >= p->loop->n_carried;
    if (p->loop->trips == 0 && !stacked) return p->in[which];
    int64_t dims[GALE_MAX_RANK + 1] = {p->loop->trips};
    if (out->rank + stacked > GALE_MAX_RANK)
        return gale__prim_fail(g, GALE_LIMIT, "loop: output %d has too many axes", which);
    memcpy(dims + stacked, out->dims, out->rank * sizeof *dims);
    gale__prim_draft d;
    gale__prim_draft_init(&d, GALE__PRIM_LOOP_OUT, out->type, out->rank + stacked, dims);
    d.in[0] = loop;
    d.node.n_in = 1;
    d.attr[0] = which;
    d.node.n_attr = 1;
    return gale__prim_push(g, &d.node);
}
