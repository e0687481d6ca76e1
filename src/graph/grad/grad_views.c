/* Gradients of views and of concat: views again, and a sum wherever one element was seen more than once. */
#include "graph/grad/grad.h"
#include <string.h>

static gale__node unpermute(gale__prim_graph *g, const gale__prim_node *p, gale__node d)
{
    int back[GALE_MAX_RANK];
    for (int i = 0; i < p->rank; i++) back[p->attr[i]] = i;
    return gale__prim_permute(g, d, back);
}

/* Each element goes back to its place; those that were skipped get 0. */
static gale__node unslice(gale__prim_graph *g, const gale__prim_node *p, const gale__prim_node *in, gale__node d)
{
    int64_t low[GALE_MAX_RANK], high[GALE_MAX_RANK], between[GALE_MAX_RANK];
    uint32_t turned = 0;
    for (int i = 0; i < p->rank; i++) {
        int64_t step = p->attr[2 * i + 1], reach = (p->dims[i] - 1) * step, first = p->attr[2 * i];
        if (step < 0) turned |= 1u << i, first += reach, step = -step, reach = -reach;
        low[i] = first;
        high[i] = in->dims[i] - 1 - (first + reach);
        between[i] = step - 1;
    }
    return gale__prim_pad(g, gale__prim_flip(g, d, turned), low, high, between, 0);
}

/* A gradient d that is a SUM over UNWINDOW's k axes.  The next rule is applied to the summand instead of d, so that all
 * windows of a convolution share one sum, which the fuser merges with the contraction below it. */
typedef struct open_sum {
    gale__node inside;     /* what is summed; d itself where it is not such a sum */
    uint32_t axes;         /* of `inside`, summed */
    int at[GALE_MAX_RANK]; /* by axis of d: where it is in `inside` */
} open_sum;

static bool find_sum(const gale__prim_graph *g, gale__node d, open_sum *s)
{
    const gale__prim_node *p = &g->nodes[d];
    const gale__prim_node *r = p->op == GALE__PRIM_RESHAPE ? &g->nodes[p->in[0]] : p;
    int kept = 0;
    if (r->op != GALE__PRIM_REDUCE || r->attr[0] != GALE__SUM || g->nodes[r->in[0]].op != GALE__PRIM_UNWINDOW)
        return false;
    for (int i = 0; i < r->rank; i++) {
        if (r->attr[1] >> i & 1) continue;
        if (kept >= p->rank || p->dims[kept] != r->dims[i]) return false;
        s->at[kept++] = i;
    }
    s->inside = r->in[0];
    s->axes = (uint32_t)r->attr[1];
    return kept == p->rank;
}

static open_sum no_sum(gale__node d)
{
    open_sum s = {.inside = d};
    for (int i = 0; i < GALE_MAX_RANK; i++) s.at[i] = i;
    return s;
}

/* What was added is cut off, what was cut off gets 0. */
static gale__node unpad(gale__prim_graph *g, const gale__prim_node *p, const gale__prim_node *in, gale__node d)
{
    if (!gale__prim_ok(g, d)) return GALE__NIL;
    open_sum s;
    if (!find_sum(g, d, &s)) s = no_sum(d);
    int64_t low[GALE_MAX_RANK] = {0}, high[GALE_MAX_RANK] = {0}, first[GALE_MAX_RANK] = {0}, step[GALE_MAX_RANK],
            dims[GALE_MAX_RANK];
    const gale__prim_node *inside = &g->nodes[s.inside];
    for (int i = 0; i < inside->rank; i++) step[i] = 1, dims[i] = inside->dims[i];
    for (int i = 0; i < p->rank; i++) {
        low[s.at[i]] = -p->attr[3 * i];
        high[s.at[i]] = -p->attr[3 * i + 1];
        step[s.at[i]] = p->attr[3 * i + 2] + 1;
        dims[s.at[i]] = in->dims[i];
    }
    gale__node part = gale__prim_slice(g, gale__prim_pad(g, s.inside, low, high, NULL, 0), first, step, dims);
    return gale__prim_reduce(g, GALE__SUM, part, s.axes, false);
}

/* Element i is the sum over k of d at (o, k) where o*stride + k*dilation + offset = i. */
static gale__node unwindow(gale__prim_graph *g, const gale__prim_node *p, const gale__prim_node *in, gale__node d)
{
    int axis = (int)p->attr[0];
    int64_t stride = p->attr[1], offset = p->attr[3];
    if (stride == 0) d = gale__prim_reduce(g, GALE__SUM, d, 1u << axis, true), stride = 1;
    if (stride < 0) d = gale__prim_flip(g, d, 1u << axis), offset += (p->dims[axis] - 1) * stride, stride = -stride;
    if (!gale__prim_ok(g, d)) return GALE__NIL;
    open_sum s;
    if (!find_sum(g, d, &s) || s.at[axis + 1] != s.at[axis] + 1) s = no_sum(d);
    gale__node sheared = gale__prim_unwindow(g, s.inside, s.at[axis], in->dims[axis], stride, p->attr[2], offset);
    return gale__prim_reduce(g, GALE__SUM, sheared, s.axes | 1u << (s.at[axis] + 1), false);
}

/* (o, k) shows (o*stride + k*dilation + offset, k).  With (i, k) as one axis of i*K + k that is a window of its own,
 * and i is out of range exactly where the joined coordinate is. */
static gale__node unshear(gale__prim_graph *g, const gale__prim_node *p, const gale__prim_node *in, gale__node d)
{
    int axis = (int)p->attr[0], rank = p->rank - 1;
    int64_t dims[GALE_MAX_RANK], k = p->dims[axis + 1];
    memcpy(dims, p->dims, sizeof dims);
    dims[axis] *= k;
    memmove(dims + axis + 1, p->dims + axis + 2, (p->rank - axis - 2) * sizeof *dims);
    gale__node joined = gale__prim_reshape(g, d, rank, dims);
    return gale__prim_window(g, joined, axis, in->dims[axis], k, p->attr[1] * k, p->attr[2] * k + 1, p->attr[3] * k, 0);
}

void gale__grad_view(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    (void)n;
    gale__prim_graph *g = s->g;
    const gale__prim_node in = g->nodes[p->in[0]];
    switch ((int)p->op) {
    case GALE__PRIM_RESHAPE: d = gale__prim_reshape(g, d, in.rank, in.dims); break;
    case GALE__PRIM_PERMUTE: d = unpermute(g, p, d); break;
    case GALE__PRIM_EXPAND: d = gale__prim_sum_to(g, d, in.rank, in.dims); break;
    case GALE__PRIM_SLICE: d = unslice(g, p, &in, d); break;
    case GALE__PRIM_PAD: d = unpad(g, p, &in, d); break;
    case GALE__PRIM_WINDOW: d = unwindow(g, p, &in, d); break;
    case GALE__PRIM_ROLL: d = gale__prim_roll(g, d, (int)p->attr[0], -p->attr[1]); break;
    case GALE__PRIM_UNWINDOW: d = unshear(g, p, &in, d); break;
    default: break;
    }
    gale__grad_add(s, p->in[0], d);
}

void gale__grad_concat(gale__grad *s, gale__node n, const gale__prim_node *p, gale__node d)
{
    (void)n;
    int axis = (int)p->attr[0];
    int64_t at = 0;
    for (int i = 0; i < p->n_in; i++) {
        int64_t extent = s->g->nodes[p->in[i]].dims[axis];
        if (gale__grad_wants(s, p->in[i]))
            gale__grad_add(s, p->in[i], gale__prim_slice_axis(s->g, d, axis, at, extent));
        at += extent;
    }
}
