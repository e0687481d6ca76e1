/* Prepares a contraction: assigns operands to rows and lanes, chooses tile sizes. */
#include "kernel/cpu/contract.h"
#include "base/thread.h"
#include "kernel/cpu/divide.h"
#include <string.h>

#define K_NARROW 2048  /* steps of narrow operands; for tiles K_BYTES of them */
#define K_WINDOW 8192  /* most of them in a window, whose rows are packed at once */
#define K_BYTES 1024   /* of one row of a panel: what a tile's pass over k keeps in the first cache */
#define K_SHARES 512   /* steps of operands in shares */
#define K_PRODUCT 2048 /* the same of plain products, so that more tiles are finished at once */
#define TILE_ROWS 128  /* at most, as TILE_ROWS_MOST; each of them reads all panels of its lanes */
#define TILE_LANES 768
#define LEAST_PANELS 4          /* of a tile that is made smaller for more threads; 1 where these would have none */
#define PACKED_BYTES (4u << 20) /* of b, shared by all threads */
#define PARTS_BYTES (16u << 20)
#define GROUP_K 1024      /* least k of a group */
#define GROUP_RESULT 8192 /* most elements of a result whose k is split: others have tiles enough */
#define GROUPS_MOST 32
#define ROWS_SHARED 8192       /* elements for each thread that need not be packed again: worth a loop */
#define SHORT_BYTES (1u << 20) /* of a factor that every block of lanes reads as a whole */
#define MANY_LANES 8           /* for each row of such a factor: fewer, and its panels are not read often enough */
#define SHORT_LANES 8
#define NEAR_ROWS 256      /* most that one thread multiplies by lanes in place: panels are better for more */
#define NEAR_ROWS_HALF 112 /* the same with AVX2, whose sums leave the first cache to panels */
#define JOINT_LANES 100
#define NARROW_LANES 8
#define NARROW_K 16
#define TILE_LEAST 16 /* rows and lanes that instructions for tiles are used for */
#define FEW_LANES 16  /* least lanes, and steps, of a product of fewer rows than a tile, by a constant */
#define TRANSPOSED_LANES 128
#define FEW_RESULTS 4 /* of a channel: for more, panels are filled well enough */
#define MANY_ROWS 16  /* least of a product of fewer than four steps */
#define PATCH_MOST 16 /* places between lanes whose taps do not meet */
#define FEW_K 32      /* least k of a window with fewer rows than a tile is worth */

/* The type sums are taken in, when its products may be taken in it as well. */
static bool sum_type(const gale__nest *nest, const gale__contraction *info, gale__simd_type *ct)
{
    gale_type mul = (gale_type)nest->code[info->mul].type, acc = (gale_type)nest->code[info->reduce].acc;
    *ct = gale__simd_type_of(acc);
    if (gale__type_is_float(mul)) return gale__type_is_float(acc) && *ct >= gale__simd_type_of(mul);
    return (mul == GALE_I32 || mul == GALE_U32) && (acc == GALE_I32 || acc == GALE_U32);
}

static void find_spans(gale__cpu_contract *c, const gale__contraction *info, char row_kind)
{
    uint8_t dims[4][GALE__NEST_DIMS];
    int n[4] = {0};
    for (int d = 0; d < c->nest->n_outer + c->nest->n_inner; d++) {
        int which = info->kind[d] == 'B' ? 0 : info->kind[d] == 'K' ? 1 : info->kind[d] == row_kind ? 2 : 3;
        dims[which][n[which]++] = (uint8_t)d;
    }
    gale__cpu_span *spans[4] = {&c->batch, &c->k, &c->a.rows, &c->b.rows};
    for (int i = 0; i < 4; i++) gale__cpu_span_init(spans[i], c->nest, dims[i], n[i]);
}

static const gale__nest_access *access_of(const gale__nest *nest, int value)
{
    return nest->code[value].op == GALE__NEST_LOAD ? &nest->accesses[nest->code[value].access] : NULL;
}

/* The same of a weight: of one that is widened as it is read, too. */
static const gale__nest_access *weight_of(const gale__nest *nest, int value)
{
    const gale__nest_instr *in = &nest->code[value];
    const gale__nest_access *x = in->op == GALE__CAST && in->type == GALE_F32 ? access_of(nest, in->a) : NULL;
    return x && (x->type == GALE_F16 || x->type == GALE_BF16) ? x : access_of(nest, value);
}

/* Whether a is read through a window.  Its places are the lanes even of a result whose channels are stored side by
 * side, since windows would have to be packed one by one. */
static bool reads_window(const gale__nest *nest, const gale__contraction *info)
{
    gale__cpu_contract c = {.nest = nest};
    find_spans(&c, info, 'N');
    return gale__cpu_window_find(&c.window, nest, info->a, &c.b.rows, &c.k, GALE__SIMD_TYPE_F32) &&
           c.window.x.tap >= 0 && c.window.y.tap >= 0;
}

/* Even few rows are worth it for weights that are packed already, and for bytes. */
static bool narrow_fits(const gale__nest *nest, const gale__contraction *info, bool turned)
{
    gale__cpu_narrow a, b;
    int64_t rows = turned ? info->n : info->m, lanes = turned ? info->m : info->n;
    bool whole = nest->code[info->mul].type == GALE_I32;
    if (lanes < NARROW_LANES || info->k < (whole ? NARROW_LANES : NARROW_K)) return false;
    return gale__cpu_narrow_find(
               nest, info->mul, turned ? info->b : info->a, turned ? info->a : info->b, false, &a, &b) &&
           (rows >= 4 || whole || nest->buffers[b.access->buffer].constant);
}

/* Rows or columns whose steps are apart in memory: summed one by one, each step of each would be a load of its own. */
static bool is_apart(const gale__nest *nest, const gale__contraction *info, int value)
{
    const gale__nest_access *x = access_of(nest, value);
    return x && nest->n_inner == 1 && x->stride[nest->n_outer] > 1 && info->k >= NARROW_K;
}

/* The lanes are a's: the fastest outer dimension decides, unless it is short and the other operand is contiguous
 * along a longer one. */
static bool is_turned(const gale__nest *nest, const gale__contraction *info)
{
    int last = nest->n_outer - 1;
    if (last < 0) return false;
    for (int d = 0; d < nest->n_outer && nest->last; d++) /* channels, where these are adjacent */
        if (nest->extent[d] > 1 && nest->accesses[nest->stores[0].access].stride[d] == 1) last = d;
    while (last > 0 && info->kind[last] == 'B') last--; /* interleaved phases */
    bool turned = info->kind[last] == 'M';
    const gale__nest_access *other = weight_of(nest, turned ? info->b : info->a);
    for (int d = 0; d < last && other && nest->extent[last] < SHORT_LANES; d++)
        if (info->kind[d] == (turned ? 'N' : 'M') && other->stride[d] == 1 && nest->extent[d] >= 2 * SHORT_LANES)
            return !turned;
    /* A map of a few pixels by many weights: these are the lanes. */
    int64_t lanes = turned ? info->m : info->n, rows = turned ? info->n : info->m;
    if (lanes < SHORT_LANES && rows >= 2 * SHORT_LANES && other && nest->buffers[other->buffer].constant)
        return !turned;
    /* Few columns of bytes: the rows are the lanes. */
    if (lanes < NARROW_LANES && rows >= NARROW_LANES && narrow_fits(nest, info, !turned)) return !turned;
    if (lanes > 1 && lanes < SHORT_LANES && rows >= 2 * SHORT_LANES && is_apart(nest, info, turned ? info->a : info->b))
        return !turned;
    return turned || nest->last || !reads_window(nest, info) ? turned : true;
}

/* Several results of each channel are channels of their own, which read the same map. */
static void join_batch(gale__cpu_contract *c, const gale__contraction *info, char row_kind)
{
    uint8_t dims[GALE__NEST_DIMS];
    int n = 0;
    for (int d = 0; d < c->nest->n_outer; d++)
        if (info->kind[d] == 'B' || info->kind[d] == row_kind) dims[n++] = (uint8_t)d;
    gale__cpu_span_init(&c->batch, c->nest, dims, n);
    gale__cpu_span_init(&c->a.rows, c->nest, dims, 0);
}

/* One row of weights for each batch, and lanes that taps share, whichever of the two factors they are. */
static bool find_channel(gale__cpu_contract *c, const gale__contraction *info, gale__simd_type ct, bool *turned)
{
    int64_t few = least(info->m, info->n);
    *turned = info->n == few && info->m > 1;
    int lanes = *turned ? info->a : info->b, other = *turned ? info->b : info->a;
    if (few > FEW_RESULTS || info->k < 2 || info->m * info->n < 4) return false;
    find_spans(c, info, *turned ? 'N' : 'M');
    if (few > 1) join_batch(c, info, *turned ? 'N' : 'M');
    return gale__cpu_channel_find(&c->channel, &c->window, c->nest, lanes, other, &c->batch, &c->b.rows, &c->k, ct);
}

/* Whether the buffer is read by that load alone, and not written. */
static bool is_read_once(const gale__nest *nest, const gale__nest_access *only)
{
    int n = 0;
    for (int i = 0; i < nest->n_code; i++)
        if (nest->code[i].op == GALE__NEST_LOAD || nest->code[i].op == GALE__NEST_TAKE)
            n += nest->accesses[nest->code[i].access].buffer == only->buffer;
    for (int s = 0; s < nest->n_stores; s++) n += nest->accesses[nest->stores[s].access].buffer == only->buffer;
    return n == 1;
}

/* One vector, or a few, times a matrix of floats that is already packed into panels. */
static bool few_fit(const gale__nest *nest, const gale__contraction *info, bool turned, gale__simd_type ct)
{
    const gale__nest_access *b = weight_of(nest, turned ? info->a : info->b);
    bool float_ = b && (b->type == GALE_F32 || b->type == GALE_F16 || b->type == GALE_BF16);
    if (ct != GALE__SIMD_TYPE_F32 || !float_ || b->n_guards || info->b_count != 1) return false;
    return (turned ? info->m : info->n) >= FEW_LANES && info->k >= FEW_LANES && nest->buffers[b->buffer].constant &&
           is_read_once(nest, b);
}

bool gale__cpu_contract_fits(const gale__nest *nest, gale__contraction *info)
{
    gale__simd_type ct;
    if (!gale__nest_contraction(nest, info) || !sum_type(nest, info, &ct) ||
        !gale__simd_gemm_find(gale__simd_plain(ct)))
        return false;
    for (int s = 0; s < nest->n_stores; s++)
        if (nest->stores[s].index >= 0) return false;
    bool turned = is_turned(nest, info), other;
    if (find_channel(&(gale__cpu_contract){.nest = nest}, info, ct, &other)) return true;
    int64_t rows = turned ? info->n : info->m, lanes = turned ? info->m : info->n;
    if (narrow_fits(nest, info, turned)) return true;
    if ((rows >= 4 && lanes >= 8 && info->k >= (rows < MANY_ROWS ? 4 : 2)) || few_fit(nest, info, turned, ct))
        return true;
    if (rows > 1 && lanes > 1 && (is_apart(nest, info, info->a) || is_apart(nest, info, info->b)) &&
        (ct == GALE__SIMD_TYPE_F32 || ct == GALE__SIMD_TYPE_F64))
        return true;
    gale__cpu_contract c = {.nest = nest};
    if (lanes < 32 || info->k < (info->b_count > 4 ? FEW_K : 8) || !nest->n_outer) return false;
    find_spans(&c, info, turned ? 'N' : 'M');
    return gale__cpu_window_find(&c.window, nest, turned ? info->a : info->b, &c.b.rows, &c.k, ct) &&
           (c.window.x.tap >= 0 || c.window.x.unit == 1);
}

/* v in equal parts of at most `most`, each a multiple of `unit`. */
static int64_t equal_parts(int64_t v, int64_t most, int64_t unit)
{
    int64_t parts = (v + most - 1) / most;
    return round_up((v + parts - 1) / parts, unit);
}

static void choose_tiles(gale__cpu_contract *c)
{
    int64_t m = c->a.rows.count, n = c->b.rows.count, k = c->k.count, mr = c->gemm.mr, nr = c->gemm.nr,
            size = (int64_t)c->size;
    int64_t steps = c->shares ? K_SHARES : c->gemm.b_group ? K_BYTES / ((int64_t)c->unit / c->group) : K_NARROW;
    c->kc = c->group > 1 ? equal_parts(k, steps, c->group) : equal_parts(k, K_PRODUCT / size, 1);
    c->mc = equal_parts(m, TILE_ROWS / mr * mr, mr);
    c->tile_lanes = equal_parts(n, TILE_LANES, nr);
    int64_t tiles = round_up(m, c->mc) / c->mc * (round_up(n, c->tile_lanes) / c->tile_lanes);
    c->groups = 1;
    c->group_len = k;
    if (c->group == 1 && m * n * c->batch.count <= GROUP_RESULT && tiles * c->batch.count < 8 && k >= 8 * GROUP_K) {
        int64_t most = least(GROUPS_MOST, (int64_t)PARTS_BYTES / (m * n * size * c->batch.count));
        int64_t groups = least(k / GROUP_K, most);
        c->group_len = groups > 1 ? round_up((k + groups - 1) / groups, c->kc) : k;
        c->groups = (k + c->group_len - 1) / c->group_len;
    }
    /* From here on the choice may follow the threads of the run: the order of sums is settled. */
    int64_t width = gale__parallel_now();
    c->by_batch = c->groups == 1 && c->batch.count >= 2 * width;
    bool divides = c->groups == 1 && !c->by_batch;
    if (c->shares && divides && width > 1) gale__cpu_shares_divide(m, n, k, width, &c->mc, &c->tile_lanes);
    divides &= !c->shares;
    while (divides && width > 1 && tiles < 4 * width && c->mc > (tiles < width ? 1 : 2) * mr) {
        c->mc = round_up(c->mc / 2, mr);
        tiles = round_up(m, c->mc) / c->mc * (round_up(n, c->tile_lanes) / c->tile_lanes);
    }
    while (divides && width > 1 && tiles < 2 * width && c->tile_lanes > (tiles < width ? 1 : LEAST_PANELS) * nr) {
        c->tile_lanes = round_up(c->tile_lanes / 2, nr);
        tiles = round_up(m, c->mc) / c->mc * (round_up(n, c->tile_lanes) / c->tile_lanes);
    }
    int64_t fit = (int64_t)(PACKED_BYTES / gale__cpu_contract_steps(c, k)) / c->tile_lanes * c->tile_lanes;
    c->packed_lanes = least(round_up(n, c->tile_lanes), fit < c->tile_lanes ? c->tile_lanes : fit);
}

/* The constant that a load reads and nothing else does, as it is multiplied or as halves of that. */
static const gale__nest_access *constant_of(const gale__cpu_contract *c, const gale__cpu_operand *o, int value)
{
    const gale__nest_access *x = c->narrow ? o->narrow.access : weight_of(c->nest, value);
    if (!x || c->nest->n_buffers > GALE__CPU_PANELS_BUFFERS || !c->nest->buffers[x->buffer].constant || c->groups > 1 ||
        !is_read_once(c->nest, x))
        return NULL;
    bool half = x->type == GALE_F16 || x->type == GALE_BF16,
         wide = (size_t)gale_type_size(x->type) == c->size || (half && c->sum_type == GALE__SIMD_TYPE_F32);
    return (c->narrow ? !x->n_guards : wide) ? x : NULL;
}

/* Panels of a constant, unless they would take more room than it. */
static void find_panels(gale__cpu_contract *c, int value)
{
    const gale__nest_access *x = constant_of(c, &c->b, value);
    c->panels = c->a_panels = (gale__cpu_panels){.buffer = -1};
    if (!x) return;
    for (int i = 0; i < c->batch.n; i++)
        if (x->stride[c->batch.dim[i]]) return;
    for (int i = 0; i < c->a.rows.n; i++)
        if (x->stride[c->a.rows.dim[i]]) return;
    c->packed_lanes = round_up(c->b.rows.count, c->tile_lanes); /* they need no room: all lanes are one part */
    c->panels =
        (gale__cpu_panels){x->buffer, gale__cpu_contract_panel_bytes(c, &c->b, round_up(c->b.rows.count, c->gemm.nr)),
            gale__cpu_contract_panels_key(c, x, &c->b, NULL)};
}

/* The same for a, whose batches may each have their own: the weights of groups. */
static void find_a_panels(gale__cpu_contract *c, int value)
{
    const gale__nest_access *x = constant_of(c, &c->a, value);
    if (!x || c->panels.bytes) return;
    int64_t shared = 1;
    for (int i = 0; i < c->b.rows.n; i++)
        if (x->stride[c->b.rows.dim[i]]) return;
    for (int i = 0; i < c->batch.n; i++)
        if (!x->stride[c->batch.dim[i]]) shared *= c->batch.extent[i];
    size_t bytes = (c->winograd.m ? gale__cpu_winograd_weights_bytes(c)
                                  : gale__cpu_contract_panel_bytes(c, &c->a, gale__cpu_contract_padded_rows(c))) *
                   (size_t)c->batch.count,
           given = x->n_guards ? (size_t)(c->a.rows.count * c->k.count * c->batch.count) * c->size
                               : (size_t)c->nest->buffers[x->buffer].elements * c->size;
    if ((shared > 1 && shared < c->batch.count) || (!c->winograd.m && !c->shares && bytes > 2 * given + (64u << 10)))
        return;
    if (shared > 1) bytes /= (size_t)shared;
    c->a_panels =
        (gale__cpu_panels){x->buffer, bytes, gale__cpu_contract_panels_key(c, x, &c->a, shared > 1 ? NULL : &c->batch)};
}

static int64_t batches_of(const gale__cpu_contract *c) { return c->by_batch ? 1 << 20 : c->batch.count; }
/* Windows of narrow lanes in units, where only the rows' sums are needed and the zero point of lanes is one number. */
static gale_status choose_narrow_window(gale__cpu_contract *c)
{
    gale__cpu_window *w = &c->window;
    int64_t steps = c->gemm.b_group ? c->gemm.b_group : c->group;
    bool found =
        !c->b.sums && c->b.narrow.known && c->k.count <= K_WINDOW && c->sum_type != GALE__SIMD_TYPE_F32 &&
        gale__cpu_window_find_units(w, c->nest, c->b.narrow.access, &c->b.rows, &c->k, steps, c->group / steps) &&
        (w->x.tap >= 0 || w->y.tap >= 0 || (w->together > 1 && !c->panels.bytes));
    if (!found) return *w = (gale__cpu_window){0}, GALE_OK;
    GALE_TRY(gale__cpu_window_init(
        w, &c->k, w->units, c->a.rows.count, batches_of(c), &c->gemm, c->unit / (size_t)w->together));
    if (w->access) c->kc = c->k.count, c->tile_lanes = w->block_lanes, c->panels.bytes = 0;
    return GALE_OK;
}

/* Vectors of 8 lanes, and few of them. */
static bool is_half(void) { return gale__simd_get()->upright_rows == GALE__UPRIGHT_ROWS / 2; }

/* Lanes are read in place when taps share them, or when the other factor stays in the cache and has no panels. */
static gale_status choose_window(gale__cpu_contract *c, int value)
{
    gale__cpu_window *w = &c->window;
    if (c->narrow) return choose_narrow_window(c);
    if (c->shares || c->groups > 1 || !gale__cpu_window_find(w, c->nest, value, &c->b.rows, &c->k, c->sum_type))
        return GALE_OK;
    int64_t rows = c->a.rows.count, lanes = c->b.rows.count;
    bool small = (size_t)(rows * c->k.count) * c->size <= SHORT_BYTES && lanes >= MANY_LANES * rows,
         few = gale__simd_is_wide() && lanes <= TRANSPOSED_LANES && lanes % c->gemm.nr;
    small |= gale__cpu_window_is_near(w) && (rows <= NEAR_ROWS || few);
    small &= rows < NEAR_ROWS_HALF || !is_half();
    bool apart = w->x.unit > 1 && w->x.unit <= (c->k.n > 1 ? PATCH_MOST : few ? 2 : 0); /* refused if not upright */
    small = (apart ? !w->access->n_guards : small && w->x.unit == 1) && !c->panels.bytes;
    w->access = w->x.tap >= 0 || w->y.tap >= 0 || small ? w->access : NULL;
    if (!w->access) return GALE_OK;
    /* In either form, which may follow the threads: the order of sums does not. */
    if (is_half() && (w->x.tap >= 0 || w->y.tap >= 0 || apart))
        c->kc = equal_parts(c->k.count, K_BYTES / (int64_t)c->size, 1);
    gale__cpu_window_sort_taps(w, c->nest, &c->k, K_BYTES / (int64_t)c->size, &c->kc);
    GALE_TRY(gale__cpu_window_init(w, &c->k, c->kc, rows, batches_of(c), &c->gemm, c->size));
    if (w->access) c->a.width = c->gemm.mr, c->tile_lanes = w->block_lanes, c->panels.bytes = 0;
    return GALE_OK;
}

/* Short rows of results that follow one another are finished together, when a block holds whole ones. */
static void join_rows(gale__cpu_contract *c)
{
    const gale__cpu_window *w = &c->window;
    int64_t lanes = w->access ? w->x.lanes * w->y.lanes : c->b.rows.count;
    uint8_t dims[GALE__NEST_DIMS];
    int n = c->a.rows.n;
    memcpy(dims, c->a.rows.dim, (size_t)n);
    c->joint = (gale__cpu_span){0};
    if (lanes > JOINT_LANES || c->a.rows.count < 2 || c->transposed) return;
    if (w->access && (w->rows < w->y.lanes || w->columns < w->x.lanes)) return;
    for (int i = w->access && c->b.rows.n > 2 ? c->b.rows.n - 2 : 0; i < c->b.rows.n; i++) dims[n++] = c->b.rows.dim[i];
    gale__cpu_span_init(&c->joint, c->nest, dims, n);
}

static gale_status init_channel(gale__cpu_contract *c, const gale__contraction *info)
{
    const gale__cpu_window *w = &c->window;
    uint8_t dims[GALE__NEST_DIMS];
    int n = c->batch.n;
    gale__cpu_channel_init(&c->channel, &c->window, &c->batch, &c->k);
    memcpy(dims, c->batch.dim, (size_t)n);
    if (w->y.lane >= 0) dims[n++] = (uint8_t)w->y.lane;
    dims[n++] = (uint8_t)w->x.lane;
    gale__cpu_span_init(&c->joint, c->nest, dims, n);
    GALE_TRY(gale__cpu_contract_make_tail(c, info));
    c->private_bytes = gale__cpu_channel_bytes(c);
    return GALE_OK;
}

/* Whether fewer multiplications are worth their transforms; weights must be constants, which are transformed once. */
static bool find_winograd(gale__cpu_contract *c, const gale__contraction *info, bool turned)
{
    int lanes = turned ? info->a : info->b, rows = turned ? info->b : info->a;
    const gale__nest_access *x = constant_of(c, &c->a, rows);
    c->gemm = *gale__simd_gemm_find(gale__simd_plain(c->sum_type));
    c->window = (gale__cpu_window){0};
    if (c->sum_type != GALE__SIMD_TYPE_F32 || !x ||
        !gale__cpu_window_find(&c->window, c->nest, lanes, &c->b.rows, &c->k, c->sum_type))
        return false;
    c->winograd.m = gale__cpu_winograd_choose(&c->window, x, &c->batch, c->a.rows.count, &c->gemm);
    if (!c->winograd.m) return false;
    c->winograd.points = (c->winograd.m + 2) * (c->winograd.m + 2);
    c->winograd.channels = c->window.rest.count;
    c->kc = equal_parts(c->winograd.channels, K_BYTES / (int64_t)c->size, 1);
    find_a_panels(c, rows);
    if (c->a_panels.bytes) c->winograd.weights = x;
    return c->a_panels.bytes != 0;
}

static gale_status init_winograd(gale__cpu_contract *c, const gale__contraction *info)
{
    int64_t width = gale__parallel_now();
    c->group = c->groups = c->window.phases = 1;
    c->unit = c->size;
    c->by_batch = c->batch.count >= 2 * width;
    GALE_TRY(gale__cpu_winograd_init(
        &c->winograd, &c->window, c->winograd.m, c->a.rows.count, c->kc, &c->gemm, c->by_batch ? 1 : width));
    c->tile_lanes = least(c->b.rows.count, TILE_LANES);
    c->window.rows = c->window.y.lanes;
    c->window.columns = c->window.x.lanes;
    join_rows(c);
    GALE_TRY(gale__cpu_contract_make_tail(c, info));
    gale__cpu_winograd_bytes(c, &c->private_bytes, &c->shared_bytes);
    c->shared_pieces = c->by_batch ? gale__parallel_width() : 1;
    return GALE_OK;
}

/* Sums of one operand's rows are wanted where the other's zero points may be other than 0. */
static bool has_points(const gale__cpu_operand *o) { return !o->narrow.known || o->narrow.point; }

/* Enough of everything for tiles of 16 rows of 64 bytes. */
static bool fills_tiles(const gale__cpu_contract *c)
{
    return c->a.rows.count >= TILE_LEAST && c->b.rows.count >= TILE_LEAST && c->k.count >= TILE_LEAST;
}

static void take_shares(gale__cpu_contract *c)
{
    c->gemm = *gale__simd_gemm_find(gale__cpu_shares_key());
    c->group = c->gemm.key.group;
    c->unit = GALE__SHARES_UNIT / (size_t)c->gemm.mr;
    c->a.width = c->gemm.mr;
}

/* Convolutions of f32 by constants in shares, then products; bands.maps: a convolution. */
static void find_shares(gale__cpu_contract *c, const gale__contraction *info, bool turned)
{
    const gale__nest *nest = c->nest;
    int rows = turned ? info->b : info->a;
    gale__cpu_span k = c->k;
    if (c->sum_type != GALE__SIMD_TYPE_F32 || nest->code[info->mul].type != GALE_F32 || nest->steady ||
        narrow_fits(nest, info, turned))
        return;
    c->shares = gale__cpu_shares_fit(c, info, turned);
    if (c->shares || !constant_of(c, &c->a, rows)) return;
    if (gale__cpu_winograd_asked() <= 0 && gale__cpu_bands_fit(c, info, turned)) {
        c->shares = true;
        take_shares(c);
        find_a_panels(c, rows);
    }
    if (c->a_panels.bytes) return;
    c->shares = false;
    c->k = k;
    c->bands = (gale__cpu_bands){0};
    c->window = (gale__cpu_window){0};
}

/* Narrow operands, unless windows of floats are better read in place. */
static void choose_gemm(gale__cpu_contract *c, const gale__contraction *info, bool turned)
{
    int rows = turned ? info->b : info->a, lanes = turned ? info->a : info->b;
    c->gemm = *gale__simd_gemm_find(gale__simd_plain(c->sum_type));
    c->group = 1, c->unit = c->size;
    if (c->shares) {
        take_shares(c);
        return;
    }
    if (!narrow_fits(c->nest, info, turned)) return;
    gale__cpu_window *w = &c->window;
    bool shares = c->sum_type == GALE__SIMD_TYPE_F32 &&
                  gale__cpu_window_find(w, c->nest, lanes, &c->b.rows, &c->k, c->sum_type) &&
                  (w->x.tap >= 0 || w->y.tap >= 0);
    *w = (gale__cpu_window){0};
    if (shares) return;
    gale__cpu_narrow_find(c->nest, info->mul, rows, lanes, false, &c->a.narrow, &c->b.narrow);
    bool tiles = fills_tiles(c);
    c->gemm = *gale__cpu_narrow_find(c->nest, info->mul, rows, lanes, tiles, &c->a.narrow, &c->b.narrow);
    c->narrow = true;
    c->group = c->gemm.key.group;
    c->unit = gale__cpu_narrow_unit(&c->gemm);
    c->a.sums = has_points(&c->b);
    c->b.sums = has_points(&c->a);
}

size_t gale__cpu_contract_temp(const gale__cpu_contract *c)
{
    int64_t widest = c->gemm.mr > c->gemm.nr ? c->gemm.mr : c->gemm.nr;
    if (c->shares) return gale__cpu_shares_temp(c);
    if (!c->narrow) return (size_t)(widest * c->kc) * c->size;
    size_t a = gale__cpu_units_temp(&c->a.tape), b = gale__cpu_units_temp(&c->b.tape),
           row = c->window.order ? gale__cpu_contract_steps(c, c->k.count) : 0;
    return row > a && row > b ? row : a > b ? a : b;
}

/* What a task works in. */
static size_t task_bytes(const gale__cpu_contract *c)
{
    size_t tapes = gale__cpu_tape_scratch_bytes(&c->a.tape) + gale__cpu_tape_scratch_bytes(&c->b.tape) +
                   gale__cpu_tape_scratch_bytes(&c->tail);
    size_t panels = (size_t)c->mc * gale__cpu_contract_steps(c, c->kc) +
                    (c->groups > 1 ? (size_t)c->tile_lanes * gale__cpu_contract_steps(c, c->kc) : 0);
    size_t points = 0;
    if (c->narrow)
        points = gale__cpu_tape_scratch_bytes(&c->a.narrow.tape) + gale__cpu_tape_scratch_bytes(&c->b.narrow.tape) +
                 (size_t)(4 * c->mc + 2 * c->tile_lanes) * sizeof(int32_t) + 512;
    return tapes + panels + points + gale__cpu_contract_temp(c) + (size_t)(c->mc * c->tile_lanes) * c->size + 1024;
}

static gale_status init_bands(gale__cpu_contract *c, const gale__contraction *info, bool turned)
{
    c->groups = 1;
    GALE_TRY(gale__cpu_bands_init(c));
    GALE_TRY(gale__cpu_contract_make_operand(c, &c->a, turned ? info->b : info->a));
    GALE_TRY(gale__cpu_contract_make_operand(c, &c->b, turned ? info->a : info->b));
    GALE_TRY(gale__cpu_contract_make_tail(c, info));
    size_t bytes = gale__cpu_bands_private(c);
    c->private_bytes = task_bytes(c);
    if (c->private_bytes < bytes) c->private_bytes = bytes;
    c->shared_pieces = c->by_batch ? gale__parallel_width() : 1;
    return GALE_OK;
}

static int64_t padded_work(const gale__simd_gemm *gemm, int64_t rows, int64_t lanes)
{
    int64_t rest = rows % gemm->mr;
    return round_up(lanes, gemm->nr) * (rows - rest + (rest ? gale__simd_part_for(gemm, rest)->rows : 0));
}

/* Whether lanes of small maps are better rows: panels are filled better, and the tile can be finished transposed. */
static bool is_better_transposed(gale__cpu_contract *c, const gale__contraction *info, bool turned)
{
    const gale__simd_gemm *gemm = gale__simd_gemm_find(gale__simd_plain(c->sum_type));
    const gale__nest_access *x = constant_of(c, &c->a, turned ? info->b : info->a);
    gale__cpu_window w;
    gale__cpu_finish finish;
    int64_t m = c->a.rows.count, n = c->b.rows.count;
    if (c->sum_type != GALE__SIMD_TYPE_F32 || c->batch.count > 1 || n > TRANSPOSED_LANES || !x ||
        padded_work(gemm, n, m) * 10 > padded_work(gemm, m, n) * 9)
        return false;
    gale__cpu_finish_find(&finish, c->nest, info->reduce, &c->b.rows, false);
    return finish.out && !finish.also &&
           gale__cpu_window_find(&w, c->nest, turned ? info->a : info->b, &c->b.rows, &c->k, c->sum_type) &&
           w.x.tap < 0 && w.y.tap < 0 && !(gale__simd_is_wide() && gale__cpu_window_is_near(&w));
}

gale_status gale__cpu_contract_init(gale__cpu_contract *c, const gale__nest *nest, const gale__contraction *info)
{
    bool turned;
    *c = (gale__cpu_contract){.nest = nest, .panels = {.buffer = -1}, .a_panels = {.buffer = -1}};
    sum_type(nest, info, &c->sum_type);
    c->size = (size_t)gale__simd_type_size(c->sum_type);
    if (find_channel(c, info, c->sum_type, &turned)) return init_channel(c, info);
    turned = is_turned(nest, info);
    c->window = (gale__cpu_window){0};
    find_spans(c, info, turned ? 'N' : 'M');
    find_shares(c, info, turned);
    if (c->bands.maps) return init_bands(c, info, turned);
    if (!c->shares && find_winograd(c, info, turned)) return init_winograd(c, info);
    c->winograd = (gale__cpu_winograd){0}, c->window = (gale__cpu_window){0};
    if (!c->shares && is_better_transposed(c, info, turned)) {
        c->transposed = true;
        turned = !turned;
        find_spans(c, info, turned ? 'N' : 'M');
    }
    choose_gemm(c, info, turned);
    c->a.width = c->gemm.mr;
    c->b.width = c->gemm.nr;
    choose_tiles(c);
    find_panels(c, turned ? info->a : info->b);
    GALE_TRY(choose_window(c, turned ? info->a : info->b));
    find_a_panels(c, turned ? info->b : info->a);
    join_rows(c);
    GALE_TRY(gale__cpu_contract_make_operand(c, &c->a, turned ? info->b : info->a));
    GALE_TRY(gale__cpu_contract_make_operand(c, &c->b, turned ? info->a : info->b));
    GALE_TRY(gale__cpu_contract_make_tail(c, info));
    c->private_bytes = task_bytes(c);
    if (c->groups > 1)
        c->shared_bytes = (size_t)(c->groups * c->batch.count * round_up(c->a.rows.count, c->mc) *
                                   round_up(c->b.rows.count, c->tile_lanes)) *
                          c->size;
    else if (!c->panels.bytes) c->shared_bytes = gale__cpu_contract_panel_bytes(c, &c->b, c->packed_lanes);
    else if ((c->transposed || (c->shares && gale__parallel_now() == 1)) &&
             c->a.rows.count * c->k.count * ((c->b.rows.count - 1) / c->tile_lanes) >
                 ROWS_SHARED * gale__parallel_now())
        c->shared_bytes = gale__cpu_contract_panel_bytes(c, &c->a, gale__cpu_contract_padded_rows(c));
    if (c->window.access) {
        const gale__cpu_window *w = &c->window;
        c->private_bytes += w->band_bytes + w->temp_bytes + (size_t)w->packed * c->unit +
                            (size_t)(round_up(w->part_rows, c->gemm.mr) * c->tile_lanes) * c->size + 256;
        c->shared_bytes =
            gale__cpu_window_shared_at(c) + (size_t)gale__cpu_window_blocks(w) * (w->shared_band + w->shared_panels);
    }
    c->shared_pieces = c->by_batch ? gale__parallel_width() : 1;
    return GALE_OK;
}

void gale__cpu_contract_finish(gale__cpu_contract *c)
{
    gale__cpu_window_finish(&c->window);
    gale__cpu_winograd_finish(&c->winograd);
    gale__free(c->bands.offset);
    gale__cpu_tape_finish(&c->a.tape);
    gale__cpu_tape_finish(&c->b.tape);
    gale__cpu_tape_finish(&c->a.narrow.tape);
    gale__cpu_tape_finish(&c->b.narrow.tape);
    gale__cpu_tape_finish(&c->tail);
}
