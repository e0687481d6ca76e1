/* Chooses layouts for the CPU's kernels.  1 x 1 convolutions read and write either layout, and are faster over small
 * maps if at least one of the two values is channels-last.  Depthwise convolutions need both values in the same layout;
 * other products need the declared layout.  Convolutions of bytes write channels-last and read either.  Values that a
 * kernel connects in another way, such as the terms of a sum, should have one layout: they form a set that is flipped
 * as a whole. */
#include "graph/fuse/layout.h"
#include "graph/plan/paths.h"
#include "kernel/cpu/interp.h"

enum { SWEEPS = 4 };
#define ACROSS 0.25   /* nanoseconds for each byte that is read or written with a stride */
#define SUM_ROWS 0.16 /* nanoseconds for each element of a map that is summed; the same channels-last, */
#define SUM_COLUMNS 0.05
#define SUM_STEP 8       /* and for each place of the map besides */
#define UNFIT 8          /* nanoseconds for each multiplication by a kernel that does not support the layout */
#define UNFIT_ROUTINE 10 /* times the time of a routine of which only one of the two values is channels-last */
#define WORTH_IT 0.985   /* channels-last is used if the time is at most this share of that with declared layouts */

/* Two values of one kernel, and its time in nanoseconds by their layouts: [from is last][to is last]. */
typedef struct pair {
    gale__node from, to;
    double ns[2][2];
} pair;

typedef struct chooser {
    gale__fusion *f;
    pair *pairs;
    int n_pairs;
    gale__node *set;  /* by node: its parent in a union-find forest of values that change together */
    gale__node *list; /* those that have a choice */
    int n_list;
    uint8_t *kept; /* layouts of these */
    bool any;      /* some kernel has a form for channels-last values */
} chooser;

/* If a channel has one element, both layouts are the same. */
static bool may_choose(const gale__fusion *f, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(f->g, n);
    bool has_kernels = p->type == GALE_F32 || p->type == GALE_U8 || p->type == GALE_I8;
    return p->op != GALE__PRIM_CONST && has_kernels && f->root[n] && !p->invariant && gale__layout_may_be_last(f, n) &&
           gale__layout_plane(p) > 1;
}

static gale__node first_of(const chooser *c, gale__node n)
{
    while (c->set[n] != n) n = c->set[n] = c->set[c->set[n]];
    return n;
}

static void add_pair(
    chooser *c, gale__node from, gale__node to, double declared, double to_last, double from_last, double last)
{
    c->pairs[c->n_pairs++] = (pair){from, to, {{declared, to_last}, {from_last, last}}};
    if (declared + last >= to_last + from_last || !may_choose(c->f, from) || !may_choose(c->f, to)) return;
    c->set[first_of(c, from)] = first_of(c, to);
}

/* Bytes of one batch item.  Choices must not depend on the batch size, so that results do not either. */
static double per_item(const gale__prim_graph *g, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(g, n);
    return (double)gale__prim_elements(g, n) * (double)gale_type_size((gale_type)p->type) /
           (double)(p->rank && p->dims[0] ? p->dims[0] : 1);
}

/* A map that is summed for each channel: channels-last its places are added as rows of channels.  Where channels are
 * summed, too, each element is a step. */
static void add_sum(chooser *c, const gale__fused *k, const gale__nest_instr *in, double bytes)
{
    const gale__nest *nest = &k->nest;
    const gale__nest_access *a = &nest->accesses[in->access];
    gale__node from = k->buffers[a->buffer];
    const gale__prim_node *p = gale__prim_at(c->f->g, from);
    double elements = bytes / (double)gale_type_size((gale_type)p->type), plane = (double)gale__layout_plane(p),
           steps = 1;
    bool kept = false;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) {
        kept |= d < nest->n_outer && a->stride[d] == gale__layout_plane(p);
        steps *= (double)nest->extent[d];
    }
    double last = kept ? elements * SUM_COLUMNS + plane * SUM_STEP : steps * SUM_STEP;
    add_pair(c, from, k->root, elements * SUM_ROWS, elements * SUM_ROWS, last, last);
}

/* Adds the pair of a loaded value and the kernel's result: a feature map that is multiplied, or any other operand. */
static void add_load(chooser *c, const gale__fused *k, const gale__nest_instr *in, gale__cpu_last_kind kind,
    const double time[3], double work)
{
    const gale__prim_graph *g = c->f->g;
    gale__node from = k->buffers[k->nest.accesses[in->access].buffer], to = k->root;
    const gale__prim_node *p = gale__prim_at(g, from);
    if (p->op == GALE__PRIM_CONST || p->rank < 3 || gale__layout_plane(p) == 1) return;
    double read = per_item(g, from), written = per_item(g, to), across = ACROSS * (read > written ? read : written),
           unfit = UNFIT * work;
    if (kind == GALE__CPU_LAST_POINT && in->inner && time[2] > time[1]) /* worth less alone, but no set either */
        c->pairs[c->n_pairs++] = (pair){from, to, {{time[0], time[2]}, {time[2], time[1]}}};
    else if (kind == GALE__CPU_LAST_POINT && in->inner) add_pair(c, from, to, time[0], time[2], time[2], time[1]);
    else if (kind == GALE__CPU_LAST_BYTES && in->inner) /* may change the layout: not one set */
        c->pairs[c->n_pairs++] = (pair){from, to, {{time[0], time[1] + ACROSS * read}, {unfit, time[1]}}};
    else if (kind == GALE__CPU_LAST_FIRST && in->inner)
        c->pairs[c->n_pairs++] = (pair){from, to, {{time[0], time[1]}, {unfit, unfit}}};
    else if (kind && kind != GALE__CPU_LAST_POINT && in->inner) add_pair(c, from, to, time[0], unfit, unfit, time[1]);
    else if (work > 0) add_pair(c, from, to, 0, unfit, unfit, kind && !in->inner ? 0 : unfit);
    else if (in->op == GALE__NEST_TAKE || k->also != GALE__NIL) add_pair(c, from, to, 0, across, across, across);
    else if (gale__layout_plane(gale__prim_at(g, to)) == 1) add_sum(c, k, in, read);
    else add_pair(c, from, to, 0, across, across, 0);
}

static void add_kernel(chooser *c, gale__fused *k)
{
    gale__nest *nest = &k->nest;
    gale__contraction info;
    double time[3] = {0}, work = 0;
    gale__cpu_last_kind kind = GALE__CPU_LAST_NONE;
    for (int i = 0; i < nest->n_buffers; i++) {
        const gale__prim_node *p = gale__prim_at(c->f->g, k->buffers[i]);
        nest->buffers[i].constant = p->op == GALE__PRIM_CONST && !p->splat;
    }
    if (gale__nest_contraction(nest, &info)) {
        work = (double)info.b_count * (double)info.m * (double)info.n * (double)info.k;
        kind = gale__cpu_last_could(nest, time);
        c->any |= kind != GALE__CPU_LAST_NONE;
    }
    const gale__prim_node *root = gale__prim_at(c->f->g, k->root);
    double items = (double)(root->rank && root->dims[0] ? root->dims[0] : 1);
    work /= items, time[0] /= items, time[1] /= items, time[2] /= items;
    for (int i = 0; i < nest->n_code; i++)
        if (nest->code[i].op == GALE__NEST_LOAD || nest->code[i].op == GALE__NEST_TAKE)
            add_load(c, k, &nest->code[i], kind, time, work);
}

static void add_routine(chooser *c, const gale__fused *k)
{
    const gale__prim_node *p = gale__prim_at(c->f->g, k->root);
    double ns[2], items = (double)(p->rank && p->dims[0] ? p->dims[0] : 1);
    if (!gale__fast_paths_layouts(p, ns)) return;
    ns[0] /= items, ns[1] /= items;
    add_pair(c, gale__fuse_base(c->f, p->in[0]), k->root, ns[0], ns[0] * UNFIT_ROUTINE, ns[0] * UNFIT_ROUTINE, ns[1]);
}

static double total(const chooser *c)
{
    const uint8_t *last = c->f->last;
    double sum = 0;
    for (const pair *p = c->pairs; p < c->pairs + c->n_pairs; p++) sum += p->ns[last[p->from] != 0][last[p->to] != 0];
    return sum;
}

static void flip_set(const chooser *c, gale__node first)
{
    for (int i = 0; i < c->n_list; i++)
        if (first_of(c, c->list[i]) == first) c->f->last[c->list[i]] = !c->f->last[c->list[i]];
}

/* Whether the value is the first of its set in the list. */
static bool leads(const chooser *c, int i)
{
    for (int j = 0; j < i; j++)
        if (first_of(c, c->list[j]) == first_of(c, c->list[i])) return false;
    return true;
}

/* Layouts that change once: sets that begin before the best place as declared, others channels-last. */
static void change_once(const chooser *c)
{
    double best = total(c), now;
    int at = 0, i;
    for (i = 0; i < c->n_list; i++) {
        if (!leads(c, i)) continue;
        flip_set(c, first_of(c, c->list[i]));
        now = total(c);
        if (now * WORTH_IT < best) at = i + 1;
        if (now < best) best = now;
    }
    while (--i >= at)
        if (leads(c, i)) flip_set(c, first_of(c, c->list[i]));
}

/* Flips sets one after the other until no flip gains anything. */
static double descend(const chooser *c)
{
    double best = total(c);
    bool changed = true;
    for (int sweep = 0; changed && sweep < SWEEPS; sweep++) {
        changed = false;
        for (int i = 0; i < c->n_list; i++) {
            gale__node n = c->list[i];
            if (c->set[n] != n) continue;
            flip_set(c, n);
            double now = total(c);
            if (now >= best) flip_set(c, n);
            else best = now, changed = true;
        }
    }
    return best;
}

static void set_layouts(const chooser *c, const uint8_t *last)
{
    for (int i = 0; i < c->n_list; i++) c->f->last[c->list[i]] = last ? last[i] : 1;
}

/* Where each change of layouts costs something, flips do not get far from where they begin: a second time they begin
 * with one change.  What the estimates leave out is rather faster as declared, so of results that are nearly as good
 * this is taken, which has more values so. */
static double minimise_time(const chooser *c)
{
    set_layouts(c, NULL);
    double best = descend(c), now;
    if (!gale__cpu_last_change_costs()) return best;
    for (int i = 0; i < c->n_list; i++) c->kept[i] = c->f->last[c->list[i]];
    set_layouts(c, NULL);
    change_once(c);
    now = descend(c);
    if (best >= WORTH_IT * now) return now;
    set_layouts(c, c->kept);
    return best;
}

static gale_status collect(chooser *c)
{
    gale__fusion *f = c->f;
    size_t loads = 1;
    for (int i = 0; i < f->n_kernels; i++)
        loads += f->kernels[i].kind == GALE__FUSED_NEST ? (size_t)f->kernels[i].nest.n_code : 1;
    c->pairs = gale__calloc(loads, sizeof *c->pairs);
    c->set = gale__calloc((size_t)f->g->count + 1, sizeof *c->set);
    c->list = gale__calloc((size_t)f->g->count + 1, sizeof *c->list);
    c->kept = gale__calloc((size_t)f->g->count + 1, sizeof *c->kept);
    if (!c->pairs || !c->set || !c->list || !c->kept) return GALE_NO_MEMORY;
    for (gale__node n = 0; n < f->g->count; n++) {
        c->set[n] = n;
        if (may_choose(f, n)) c->list[c->n_list++] = n;
    }
    for (int i = 0; i < f->n_kernels; i++)
        if (f->kernels[i].kind == GALE__FUSED_NEST) add_kernel(c, &f->kernels[i]);
        else if (f->kernels[i].kind == GALE__FUSED_ROUTINE) add_routine(c, &f->kernels[i]);
    return GALE_OK;
}

gale_status gale__layout_choose_host(gale__fusion *f, bool *any)
{
    chooser c = {.f = f};
    gale_status status;
    *any = false;
    GALE_GO(collect(&c));
    if (!c.any) goto done;
    double declared = total(&c);
    bool worth = minimise_time(&c) < WORTH_IT * declared;
    for (int i = 0; i < c.n_list; i++) {
        f->last[c.list[i]] &= worth;
        *any |= f->last[c.list[i]] != 0;
    }
done:
    gale__free(c.pairs);
    gale__free(c.set);
    gale__free(c.list);
    gale__free(c.kept);
    return status;
}
