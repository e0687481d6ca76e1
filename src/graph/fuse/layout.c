/* Decides which values are stored channels-last.  Matrix units load an operand in pieces of 16 bytes, and a window over
 * a map has such pieces only along its channels.  The kernels are first emitted with every value as declared.  Their
 * accesses show what each value would cost in either layout, given the layouts of the values it is computed with.
 * Layouts are then flipped one value at a time until no flip gains anything, and the kernels are emitted again.
 *
 * Costs are in bytes: a value read across the direction in which a kernel iterates counts twice, and a product whose
 * operand cannot be copied in such pieces adds the time it loses. */
#include "graph/fuse/layout.h"
#include "base/thread.h"
#include "kernel/schedule/schedule.h"
#include <string.h>

enum { SWEEPS = 8, NONE = -1 };
/* Bytes that memory moves while an operation waits: 4.8 TB/s against 30 instead of 250 TFLOP/s, on an H200.  Other
 * cards with matrix units have much the same proportions. */
#define BYTES_PER_OPERATION 0.14
#define ACROSS 0.2      /* share of that loss if mma.sync replaces wgmma, or if copies are of 4 elements */
#define FEW_CHANNELS 32 /* fewer contiguous elements leave threads idle where each thread computes a whole sum */
#define OF_F32 0.4      /* share of that loss for f32: 40 instead of 85 TFLOP/s */

/* A kernel that reads value `from` and writes value `to`; linked into a list for each of them. */
typedef struct use {
    const gale__fused *kernel;
    const gale__nest_access *access;
    gale__node from, to;
    bool operand, grouped; /* an operand of a product; the product would use wgmma */
    double bytes, loss;
    int partner; /* the use of the product's other operand */
    int next_from, next_to;
} use;

typedef struct chooser {
    gale__fusion *f;
    use *uses;
    int n_uses;
    int *from, *to; /* by node: the first use */
} chooser;

/* The channels of a matrix are axis 0.  The sum of a convolution has an axis of extent 1 (the group) before its
 * channels. */
int gale__channel_axis(const int64_t *dims, int rank)
{
    if (rank > 2 && dims[1] > 1) return 1;
    return rank > 5 && dims[2] > 1 ? 2 : 0;
}

/* Axes are items, channels, then one to three spatial axes; a sum leaves axes of extent 1 behind.  Depthwise weights
 * have one input channel; their items are the channels. */
static bool has_channels(const gale__prim_node *p)
{
    for (int a = 5; a < p->rank; a++)
        if (p->dims[a] != 1) return false;
    if (p->rank < 4) return false;
    return gale__channel_axis(p->dims, p->rank) || (p->op == GALE__PRIM_CONST && p->dims[0] > 1);
}

bool gale__layout_may_be_last(const gale__fusion *f, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(f->g, n);
    return !f->dense[n] && !gale__fuse_written_dense(p) && has_channels(p);
}

static bool multiplied_bytes(const gale__fusion *f, int type)
{
    return f->options.bytes && (type == GALE_I8 || type == GALE_U8);
}

/* Constants can have either layout too: they are converted when they are uploaded. */
static bool may_choose(const gale__fusion *f, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(f->g, n);
    if (p->op != GALE__PRIM_CONST) return f->root[n] && gale__layout_may_be_last(f, n);
    if (!f->live[n] || f->dense[n] || p->splat) return false;
    return has_channels(p) || (p->rank == 2 && (f->options.groups || multiplied_bytes(f, p->type)));
}

static int64_t plane_of(const int64_t *dims, int rank)
{
    int64_t size = rank == 2 ? dims[1] : 1;
    for (int a = gale__channel_axis(dims, rank) == 2 ? 3 : 2; a < rank; a++) size *= dims[a];
    return size;
}

int64_t gale__layout_plane(const gale__prim_node *p) { return plane_of(p->dims, p->rank); }

static int64_t channels_of(const gale__prim_node *p) { return p->dims[gale__channel_axis(p->dims, p->rank)]; }

/* A stride of a declared value when it is stored channels-last. */
static int64_t stride_last(const gale__prim_node *p, int64_t step)
{
    int64_t size = gale__layout_plane(p), channels = channels_of(p), item = size * channels;
    if (item <= 0) return step;
    int64_t rest = step % item;
    return step - rest + rest / size + rest % size * channels;
}

static int64_t step_of(const gale__fusion *f, gale__node n, int64_t step, bool last)
{
    return last ? stride_last(gale__prim_at(f->g, n), step) : step;
}

/* The offset of an access in the chosen layout.  It may be negative: padding starts before the plane. */
static int64_t offset_of(const gale__fusion *f, gale__node n, int64_t offset, bool last)
{
    int64_t half = gale__layout_plane(gale__prim_at(f->g, n)) / 2;
    if (!last) return offset;
    return offset < 0 ? -stride_last(gale__prim_at(f->g, n), -offset)
                      : stride_last(gale__prim_at(f->g, n), offset + half) - stride_last(gale__prim_at(f->g, n), half);
}

/* Whether a loop dimension over a value in its declared layout runs across several channels. */
static bool covers_channels(const gale__prim_node *p, int64_t step, int64_t extent)
{
    return p->rank >= 4 && step >= 1 && step < gale__layout_plane(p) && extent * step > gale__layout_plane(p);
}

/* The dimension along which the kernel's stores are contiguous. *whole: that dimension covers channels and plane at
 * once. */
static int fast_dim(const gale__fusion *f, const use *u, bool last, bool *whole)
{
    const gale__nest *nest = &u->kernel->nest;
    const gale__nest_access *store = &nest->accesses[nest->stores[0].access];
    const gale__prim_node *p = gale__prim_at(f->g, u->to), *from = gale__prim_at(f->g, u->from);
    int found = NONE;
    *whole = false;
    for (int d = 0; d < nest->n_outer; d++) {
        int64_t step = store->stride[d];
        bool merged = covers_channels(p, step, nest->extent[d]);
        if (step != 1) merged = merged && covers_channels(from, u->access->stride[d], nest->extent[d]);
        if (merged) {
            *whole = true;
            return d;
        }
        if (step_of(f, u->to, step, last) == 1) found = d;
    }
    return found;
}

/* The dimension along which `unit` aligned elements can be copied at once; NONE if there is none. */
static int copies_along(const gale__fusion *f, const use *u, bool last, int unit)
{
    const gale__nest *nest = &u->kernel->nest;
    const gale__nest_access *a = u->access;
    int vector = NONE, dims = nest->n_outer + nest->n_inner;
    for (int d = 0; d < dims; d++)
        if (step_of(f, u->from, a->stride[d], last) == 1 && nest->extent[d] % unit == 0) vector = d;
    if (vector == NONE || offset_of(f, u->from, a->offset, last) % unit) return NONE;
    for (int d = 0; d < dims; d++)
        if (d != vector && step_of(f, u->from, a->stride[d], last) % unit) return NONE;
    for (int g = 0; g < a->n_guards; g++)
        if (a->guards[g].coef[vector] || a->guards[g].div > 1) return NONE;
    return vector;
}

static int pieces_along(const gale__fusion *f, const use *u, bool last)
{
    return copies_along(f, u, last, 16 / (int)gale_type_size(u->access->type));
}

/* Both operands of a product are copied in pieces along k only if it is the same dimension of k: the weights of patches
 * of 8 x 8 have such pieces in either layout, the channels-last map along its channels alone. */
static bool pieces_differ(const chooser *c, const use *u, int along)
{
    if (u->partner == NONE || along < u->kernel->nest.n_outer) return false;
    const use *other = &c->uses[u->partner];
    int its = pieces_along(c->f, other, c->f->last[other->from]);
    return its >= u->kernel->nest.n_outer && its != along;
}

/* wgmma requires operands that are contiguous along k; byte operands in any other order are transposed by threads. */
static double operand_cost(const chooser *c, const use *u, bool last)
{
    const gale__fusion *f = c->f;
    bool bytes = gale_type_size(u->access->type) == 1;
    int along = pieces_along(f, u, last);
    if (pieces_differ(c, u, along)) return u->loss;
    if (u->access->type == GALE_F32) return along >= u->kernel->nest.n_outer ? 0 : u->loss * OF_F32;
    if (along == NONE && copies_along(f, u, last, 4) >= u->kernel->nest.n_outer) return u->loss * ACROSS;
    if (along == NONE) return u->loss;
    if (along >= u->kernel->nest.n_outer) return 0;
    return bytes ? u->loss : u->grouped ? u->loss * ACROSS : 0;
}

/* Whether the value is contiguous along a reduced dimension that is long enough for the threads of a subgroup to
 * share. */
static bool reduces_along(const gale__fusion *f, const use *u, bool last)
{
    const gale__nest *nest = &u->kernel->nest;
    for (int d = nest->n_outer; d < nest->n_outer + nest->n_inner; d++)
        if (nest->extent[d] >= 32 && step_of(f, u->from, u->access->stride[d], last) == 1) return true;
    return false;
}

/* Whether channels-last would make a reduction along rows strided, with too few channels to compensate (attention,
 * whose heads look like channels). */
static bool loses_rows(const gale__fusion *f, const use *u)
{
    return channels_of(gale__prim_at(f->g, u->from)) < FEW_CHANNELS && reduces_along(f, u, false) &&
           !reduces_along(f, u, true);
}

/* Whether a value in its declared layout is read with a stride along the dimension that the kernel reduces and stores
 * contiguously: norms over channels. */
static bool across_rows(const gale__fusion *f, const use *u)
{
    const gale__nest *nest = &u->kernel->nest;
    const gale__nest_access *store = &nest->accesses[nest->stores[0].access];
    if (!nest->code[nest->stores[0].value].inner || reduces_along(f, u, false)) return false;
    for (int d = nest->n_outer; d < nest->n_outer + nest->n_inner; d++)
        if (store->stride[d] == 1 && (u->access->stride[d] > 2 || u->access->stride[d] < -2)) return true;
    return false;
}

static double cost(const chooser *c, const use *u, bool from_last, bool to_last)
{
    const gale__fusion *f = c->f;
    if (u->operand) return operand_cost(c, u, from_last);
    bool whole;
    int fast = fast_dim(f, u, to_last, &whole);
    if (fast == NONE) return to_last || (!from_last && across_rows(f, u)) ? u->bytes : 0;
    if (!u->access->stride[fast]) return 0;
    if (whole) return from_last != to_last || (from_last && loses_rows(f, u)) ? u->bytes : 0;
    int64_t step = step_of(f, u->from, u->access->stride[fast], from_last);
    return (step >= -2 && step <= 2) || reduces_along(f, u, from_last) ? 0 : u->bytes;
}

static double cost_of(const chooser *c, gale__node n, bool last)
{
    const uint8_t *now = c->f->last;
    double sum = 0;
    for (int i = c->from[n]; i != NONE; i = c->uses[i].next_from) {
        const use *u = &c->uses[i];
        sum += cost(c, u, last, u->to == n ? last : now[u->to]);
    }
    for (int i = c->to[n]; i != NONE; i = c->uses[i].next_to) {
        const use *u = &c->uses[i];
        if (u->from != n) sum += cost(c, u, now[u->from], last);
    }
    return sum;
}

/* Multiplications of the product that this kernel computes; 0 if it is not a product for matrix units. */
static double product(const gale__nest *nest, gale__contraction *c)
{
    if (!gale__nest_contraction(nest, c) || c->k < 16) return 0;
    if ((c->m < 8 || c->n < 8) && !gale__schedule_large_operand(c->m, c->n, c->k)) return 0;
    return (double)c->b_count * (double)c->m * (double)c->n * (double)c->k;
}

static use *add_use(chooser *c, const gale__fused *k, const gale__nest_access *a, bool operand, double operations)
{
    const gale__prim_graph *g = c->f->g;
    gale__node from = k->buffers[a->buffer];
    gale_type type = (gale_type)gale__prim_at(g, from)->type;
    bool narrow = type == GALE_F16 || type == GALE_BF16 || multiplied_bytes(c->f, type) ||
                  (type == GALE_F32 && c->f->options.f32);
    use *u = &c->uses[c->n_uses];
    *u = (use){.kernel = k,
        .access = a,
        .from = from,
        .to = k->root,
        .operand = operand && narrow,
        .bytes = (double)gale__prim_elements(g, from) * (double)gale_type_size(type),
        .loss = operations * BYTES_PER_OPERATION,
        .partner = NONE,
        .next_from = c->from[from],
        .next_to = c->to[k->root]};
    if (gale__prim_at(g, k->root)->invariant) u->bytes = 0; /* computed once */
    c->from[from] = c->to[k->root] = c->n_uses++;
    return u;
}

static bool describes(const gale__fused *k)
{
    return k->kind == GALE__FUSED_NEST && k->nest.n_stores == 1 && k->nest.stores[0].index < 0;
}

static void add_kernel(chooser *c, const gale__fused *k)
{
    gale__contraction found;
    double operations = product(&k->nest, &found);
    bool grouped = operations > 0 && c->f->options.groups &&
                   gale__schedule_groups_pay(found.m, found.n, found.k, c->f->options.maps && found.b_count == 1);
    use *operand = NULL;
    for (int i = 0; i < k->nest.n_code; i++) {
        const gale__nest_instr *in = &k->nest.code[i];
        if (in->op != GALE__NEST_LOAD) continue;
        use *u = add_use(c, k, &k->nest.accesses[in->access], in->inner && operations > 0, operations);
        u->grouped = grouped;
        if (!u->operand) continue;
        if (operand) u->partner = (int)(operand - c->uses), operand->partner = (int)(u - c->uses);
        operand = u;
    }
}

static gale_status collect(chooser *c)
{
    gale__fusion *f = c->f;
    size_t loads = 1, nodes = (size_t)f->g->count + 1;
    for (int i = 0; i < f->n_kernels; i++)
        if (describes(&f->kernels[i])) loads += (size_t)f->kernels[i].nest.n_code;
    c->uses = gale__calloc(loads, sizeof *c->uses);
    c->from = gale__calloc(nodes, sizeof *c->from);
    c->to = gale__calloc(nodes, sizeof *c->to);
    if (!c->uses || !c->from || !c->to) return GALE_NO_MEMORY;
    memset(c->from, NONE, nodes * sizeof *c->from);
    memset(c->to, NONE, nodes * sizeof *c->to);
    for (int i = 0; i < f->n_kernels; i++)
        if (describes(&f->kernels[i])) add_kernel(c, &f->kernels[i]);
    return GALE_OK;
}

/* Constant f32 matrices are stored along k even if nothing is gained, so that plans for few and for many rows share one
 * copy. */
static bool stays_last(const gale__fusion *f, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(f->g, n);
    return p->op == GALE__PRIM_CONST && p->rank == 2 && p->type == GALE_F32 && f->options.f32;
}

/* Every value starts channels-last, since the products that gain from it decide, and goes back where that costs less.
 */
static void minimise_cost(chooser *c)
{
    gale__fusion *f = c->f;
    bool changed = true;
    for (int sweep = 0; changed && sweep < SWEEPS; sweep++) {
        changed = false;
        for (gale__node n = 0; n < f->g->count; n++) {
            if (!may_choose(f, n)) continue;
            double last = cost_of(c, n, true), declared = cost_of(c, n, false);
            uint8_t better = last < declared || (last == declared && stays_last(f, n));
            changed |= better != f->last[n];
            f->last[n] = better;
        }
    }
}

gale_status gale__layout_choose(gale__fusion *f, bool *any)
{
    chooser c = {.f = f};
    gale_status status = GALE_OK;
    *any = false;
    for (gale__node n = 0; n < f->g->count; n++) *any |= f->last[n] = may_choose(f, n);
    if (!*any) goto done;
    GALE_GO(collect(&c));
    minimise_cost(&c);
    *any = false;
    for (gale__node n = 0; n < f->g->count; n++) *any |= f->last[n] != 0;
done:
    gale__free(c.uses);
    gale__free(c.from);
    gale__free(c.to);
    return status;
}

void gale__layout_force(gale__fusion *f)
{
    for (gale__node n = 0; n < f->g->count; n++) f->last[n] = gale__layout_may_be_last(f, n);
}

/* Tiles of SIDE x SIDE elements stay in the L1 cache while they are transposed. */
enum { SIDE = 64 };
typedef struct transposition {
    const char *from; /* [items, channels, size] */
    char *to;         /* [items, size, channels] */
    int64_t size, channels;
    size_t element;
} transposition;

/* to[at][k] = from[k][at], for at most one tile. */
#define TRANSPOSE(T)                                                                                       \
    static void transpose_##T(const transposition *t, const T *from, T *to, int64_t rows, int64_t columns) \
    {                                                                                                      \
        for (int64_t at = 0; at < rows; at++)                                                              \
            for (int64_t k = 0; k < columns; k++) to[at * t->channels + k] = from[k * t->size + at];       \
    }
TRANSPOSE(uint8_t)
TRANSPOSE(uint16_t)
TRANSPOSE(uint32_t)
TRANSPOSE(uint64_t)

static void transpose_rows(void *arg, size_t i, int worker)
{
    const transposition *t = arg;
    int64_t blocks = (t->size + SIDE - 1) / SIDE, first = (int64_t)i % blocks * SIDE;
    int64_t base = (int64_t)i / blocks * t->size * t->channels, rows = t->size - first < SIDE ? t->size - first : SIDE;
    (void)worker;
    for (int64_t c = 0; c < t->channels; c += SIDE) {
        int64_t columns = t->channels - c < SIDE ? t->channels - c : SIDE;
        const void *from = t->from + (size_t)(base + c * t->size + first) * t->element;
        void *to = t->to + (size_t)(base + first * t->channels + c) * t->element;
        if (t->element == 1) transpose_uint8_t(t, from, to, rows, columns);
        else if (t->element == 2) transpose_uint16_t(t, from, to, rows, columns);
        else if (t->element == 4) transpose_uint32_t(t, from, to, rows, columns);
        else transpose_uint64_t(t, from, to, rows, columns);
    }
}

void gale__layout_to_last(const int64_t *dims, int rank, size_t element, const void *from, void *to)
{
    int axis = gale__channel_axis(dims, rank);
    int64_t items = axis ? dims[0] : 1;
    transposition t = {from, to, plane_of(dims, rank), dims[axis], element};
    gale__parallel((size_t)(items * ((t.size + SIDE - 1) / SIDE)), transpose_rows, &t);
}
