/* Chooses between the loop schedules: the dimension along which neighbours are contiguous, how many of them a thread
 * processes at once, how many threads share an outer point.  The choice uses classes of sizes rather than sizes where
 * possible, so that new shapes reuse existing kernels. */
#include "kernel/schedule/schedule_emit.h"
#include <math.h>

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

static uint32_t power_up(int64_t n)
{
    uint32_t p = 1;
    while (p < n) p *= 2;
    return p;
}

static uint32_t group_limit(const gale_device_caps *caps, uint32_t wanted)
{
    uint32_t most = caps->group_max ? caps->group_max : 256, p = 1;
    if (most > wanted) most = wanted;
    while (p * 2 <= most) p *= 2;
    return p;
}

/* Smallest element among the accesses that run along dim: what decides how many make 16 bytes. */
static int most_vector(const gale__nest *nest, int dim)
{
    int size = 16;
    for (int i = 0; i < nest->n_accesses; i++) {
        const gale__nest_access *a = &nest->accesses[i];
        if (a->buffer >= 0 && a->stride[dim] == 1 && (int)gale_type_size(a->type) < size)
            size = (int)gale_type_size(a->type);
    }
    return 16 / size < 4 ? 16 / size : 4;
}

/* True when everything that runs along dim with stride 1 can be moved in whole vectors, and something can. */
static bool fits_vector(const gale__nest *nest, int dim, int vector)
{
    bool any = false;
    for (int i = 0; i < nest->n_accesses; i++) {
        const gale__nest_access *a = &nest->accesses[i];
        int most = a->buffer >= 0 ? 16 / (int)gale_type_size(a->type) : 1,
            width = gale__schedule_access_width(nest, a, dim, vector);
        bool guarded = false;
        for (int g = 0; g < a->n_guards; g++) guarded |= a->guards[g].coef[dim] != 0;
        if (a->buffer < 0 || a->stride[dim] != 1 || guarded) continue;
        if (width < (vector < most ? vector : most)) return false;
        any = true;
    }
    return any;
}

static int pick_vector(const gale__nest *nest, int dim)
{
    if (dim < 0) return 1;
    for (int v = most_vector(nest, dim); v > 1; v /= 2)
        if (nest->extent[dim] % v == 0 && fits_vector(nest, dim, v)) return v;
    return 1;
}

/* Whether every access that is contiguous along the dimension uses the full vector, so that a partial last vector can
 * be processed element by element. */
static bool fits_tail(const gale__nest *nest, int dim, int vector)
{
    for (int i = 0; i < nest->n_accesses; i++) {
        const gale__nest_access *a = &nest->accesses[i];
        if (a->buffer >= 0 && gale__schedule_access_walks(a, dim) &&
            gale__schedule_access_width(nest, a, dim, vector) != vector)
            return false;
    }
    return true;
}

#define MAP_GROUP 256
#define TAIL_LEAST 1024 /* extent from which a vector with a tail is worth its code */

static int64_t units_of(const gale_device_caps *caps) { return caps->compute_units ? caps->compute_units : 1; }

/* Narrow elements: several vectors a thread, so that it still moves 16 bytes of the widest ones; not for small nests.
 */
static int map_steps(const gale__nest *nest, const gale_device_caps *caps, int dim, int vector)
{
    int size = 1;
    for (int i = 0; i < nest->n_accesses; i++) {
        const gale__nest_access *a = &nest->accesses[i];
        if (a->buffer >= 0 && a->stride[dim] && (int)gale_type_size(a->type) > size)
            size = (int)gale_type_size(a->type);
    }
    int steps = 16 / (size * vector) < 4 ? 16 / (size * vector) : 4;
    return vector > 1 && steps > 1 && gale__nest_count(nest, 0, dim + 1) / vector >= units_of(caps) * 4096 * steps
               ? steps
               : 1;
}

void gale__schedule_choose_map(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s)
{
    int dim = nest->n_outer + nest->n_inner - 1, v;
    s->kind = GALE__SCHEDULE_MAP;
    s->rows = (uint16_t)group_limit(caps, MAP_GROUP);
    if (dim < 0) return;
    s->vector = (uint8_t)pick_vector(nest, dim);
    if (s->vector == 1 && nest->extent[dim] >= TAIL_LEAST && (v = most_vector(nest, dim)) > 1 &&
        fits_tail(nest, dim, v)) {
        s->vector = (uint8_t)v;
        s->tail = 1;
    }
    s->steps = (uint8_t)map_steps(nest, caps, dim, s->vector);
}

/* Instructions the kernel takes per INNER point, roughly. */
static int64_t inner_size(const gale__nest *nest)
{
    int64_t size = 0;
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        if (!in->inner && in->op != GALE__NEST_REDUCE) continue;
        if (in->op >= GALE__SCALAR_COUNT)
            size += 4 + (in->op == GALE__NEST_LOAD ? 4 * nest->accesses[in->access].n_guards : 0);
        else size += gale__scalar_table[in->op].class_ == 'm' ? 25 : gale__scalar_table[in->op].class_ == 'c' ? 5 : 1;
    }
    return size;
}

#define KERNEL_SIZE 4000 /* instructions above which an unrolled kernel costs more in the compiler than it gains */

#define WINDOW 32 /* a row of a sliding window is shorter: then neighbouring results find neighbours too */

/* Runs along the inner dimensions (1), along the outer ones (-1), or neither (0): by the bytes each access moves. */
static int direction(const gale__nest *nest)
{
    int inner = nest->n_outer + nest->n_inner - 1, outer = nest->n_outer - 1;
    double along_inner = 0, along_outer = 0;
    if (!nest->n_inner) return -1;
    for (int i = 0; i < nest->n_accesses; i++) {
        const gale__nest_access *a = &nest->accesses[i];
        bool walks_inner = false;
        double weight = 1;
        for (int d = 0; d <= inner; d++) {
            if (gale__schedule_access_walks(a, d)) weight *= (double)nest->extent[d];
            walks_inner |= d > outer && gale__schedule_access_walks(a, d);
        }
        if (a->buffer < 0 || !walks_inner) continue;
        weight *= (double)gale_type_size(a->type);
        int64_t in = a->stride[inner], out = outer >= 0 ? a->stride[outer] : 0;
        bool slides = nest->extent[inner] < WINDOW && out && out >= -2 && out <= 2;
        if ((in == 1 || in == -1) && !slides) along_inner += weight;
        else if (out == 1 || out == -1 || slides) along_outer += weight;
    }
    return along_inner > along_outer ? 1 : along_outer > 0 ? -1 : 0;
}

#define ROW_LANES 16 /* maximum number of inner points that a thread keeps in registers */
#define ROW_LONG 32  /* of rows that need the largest group */
#define ROW_USUAL 8  /* and usually */
#define ROW_GROUP 128
#define ROW_THREADS 512 /* two groups of them run side by side with their rows in registers */

static void choose_row(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s)
{
    int all = nest->n_outer + nest->n_inner;
    int64_t n = gale__nest_count(nest, nest->n_outer, all);
    s->kind = GALE__SCHEDULE_ROW;
    s->vector = (uint8_t)pick_vector(nest, nest->n_inner ? all - 1 : -1);
    int64_t blocks = n / s->vector, usual = ROW_USUAL / s->vector, most = ROW_LANES / s->vector;
    uint32_t limit = group_limit(caps, ROW_THREADS);
    if (blocks > limit * most) most = ROW_LONG / s->vector;
    while (most > 1 && inner_size(nest) * most * s->vector > KERNEL_SIZE) most /= 2;
    if (usual > most) usual = most;
    uint32_t threads = n <= ROW_USUAL ? 1 : power_up(up(blocks, usual));
    if (threads > limit) threads = limit;
    int64_t steps = up(blocks, threads);
    /* Uses half the threads if fewer of their steps are then wasted: 768 = 64 threads x 4 x 3, not 128 x 4 x 2. */
    if (threads > 1 && up(blocks, threads / 2) <= most && threads / 2 * up(blocks, threads / 2) < threads * steps)
        steps = up(blocks, threads /= 2);
    s->resident = steps <= most;
    if (!s->resident) steps = usual;
    s->threads = (uint16_t)threads;
    s->steps = (uint8_t)steps;
    s->exact = blocks % (steps * threads) == 0;
    uint32_t group = group_limit(caps, ROW_GROUP);
    s->rows = (uint16_t)(threads < group ? group / threads : 1);
    uint32_t width = caps->subgroup_ops ? caps->subgroup : 0;
    s->shuffle = (uint8_t)(width >= 2 && width <= 128 && !(width & (width - 1)) ? width : 0);
}

#define COLUMN_GROUP 128
#define COLUMN_SPLIT 512   /* threads of a group when several share an outer point */
#define COLUMN_LEAST 8     /* neighbours among them: fewer do not fill a memory transaction */
#define COLUMN_RESIDENT 16 /* maximum inner points kept by a thread that does not share its outer point */

/* Few outer points: several threads walk the inner ones of each, in groups narrow enough that there are many. */
static void split_columns(int64_t chunks, int64_t n, const gale_device_caps *caps, uint32_t *rows, uint32_t *threads)
{
    uint32_t limit = group_limit(caps, COLUMN_SPLIT), r = chunks < 32 ? power_up(chunks) : 32, t = 1;
    while (r > COLUMN_LEAST && chunks / r < 2 * units_of(caps)) r /= 2;
    if (r > limit) r = limit;
    while (chunks * t < units_of(caps) * 2048 && t * 8 <= n && t * 2 * r <= limit) t *= 2;
    if (t == 1) return;
    *rows = r;
    *threads = t;
}

static void choose_column(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s)
{
    int all = nest->n_outer + nest->n_inner;
    int64_t n = gale__nest_count(nest, nest->n_outer, all);
    s->kind = GALE__SCHEDULE_COLUMN;
    s->vector = (uint8_t)pick_vector(nest, nest->n_outer - 1);
    int64_t chunks = gale__nest_count(nest, 0, nest->n_outer) / s->vector;
    uint32_t rows = group_limit(caps, COLUMN_GROUP), threads = 1;
    s->rows = (uint16_t)rows;
    s->threads = (uint16_t)threads;
    if (gale__schedule_choose_window(nest, caps, s)) return;
    bool too_long = caps->loop_max && n > caps->loop_max / 4; /* for one thread to walk, on this driver */
    if (((chunks <= units_of(caps) * 512 && !nest->steady) || too_long) && n >= 32)
        split_columns(too_long ? 1 : chunks, n, caps, &rows, &threads);
    int64_t size = inner_size(nest) * s->vector, steps = up(n, threads), most = threads == 1 ? COLUMN_RESIDENT : 8;
    s->resident = steps <= most && size * steps <= KERNEL_SIZE;
    if (!s->resident) steps = size * 4 <= KERNEL_SIZE && n >= 4 * threads ? 4 : 1;
    s->threads = (uint16_t)threads;
    s->rows = (uint16_t)rows;
    s->steps = (uint8_t)steps;
    s->exact = n % (steps * threads) == 0;
}

void gale__schedule_choose_reduce(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s)
{
    int along = direction(nest);
    int64_t outer = gale__nest_count(nest, 0, nest->n_outer),
            inner = gale__nest_count(nest, nest->n_outer, nest->n_outer + nest->n_inner);
    if (along > 0 || (along == 0 && (nest->steady || inner > outer))) choose_row(nest, caps, s);
    else choose_column(nest, caps, s);
}

/* --- TILE ------------------------------------------------------------------------------------------------------------
 */

/* Marks what instruction `at` is made of. */
static void mark_cone(const gale__nest *nest, int at, uint8_t *wanted)
{
    for (int i = 0; i < nest->n_code; i++) wanted[i] = i == at;
    for (int i = at; i >= 0; i--) {
        const gale__nest_instr *in = &nest->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        for (int k = 0; wanted[i] && k < gale__nest_arity(in); k++) wanted[operand[k]] = 1;
    }
}

static const gale__nest_access *load_of(const gale__nest *nest, const uint8_t *wanted, int i)
{
    return wanted[i] && nest->code[i].op == GALE__NEST_LOAD ? &nest->accesses[nest->code[i].access] : NULL;
}

/* Along k or along its rows: where the operand's loads find neighbours; and how many of them at once. */
void gale__schedule_choose_operand(const gale__nest *nest, const gale__contraction *c, gale__schedule *s, int which)
{
    uint8_t wanted[GALE__NEST_CODE_MAX];
    int votes = 0;
    mark_cone(nest, gale__schedule_tile_operand(s, c, which), wanted);
    s->fast[which] = 1;
    int k = gale__schedule_tile_vector_dim(nest, s, c, which);
    s->fast[which] = 0;
    int side = gale__schedule_tile_vector_dim(nest, s, c, which);
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_access *a = load_of(nest, wanted, i);
        if (!a) continue;
        if (k >= 0 && (a->stride[k] == 1 || a->stride[k] == -1)) votes++;
        else if (side >= 0 && (a->stride[side] == 1 || a->stride[side] == -1)) votes--;
    }
    s->fast[which] = votes > 0 || side < 0;
    int dim = s->fast[which] ? k : side;
    for (s->wide[which] = 4; s->wide[which] > 1; s->wide[which] /= 2) {
        bool fits = dim >= 0 && nest->extent[dim] % s->wide[which] == 0;
        for (int i = 0; fits && i < nest->n_code; i++) {
            const gale__nest_access *a = load_of(nest, wanted, i);
            if (a && gale__schedule_access_walks(a, dim) &&
                gale__schedule_access_width(nest, a, dim, s->wide[which]) != s->wide[which])
                fits = false;
        }
        if (fits) return;
    }
}

/* Instructions after the sum, which every point of a micro-tile repeats. */
static int64_t outer_size(const gale__nest *nest)
{
    int64_t size = 4 * nest->n_stores;
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        if (in->inner) continue;
        size += in->op >= GALE__SCALAR_COUNT ? 3 : gale__scalar_table[in->op].class_ == 'm' ? 25 : 3;
    }
    return size;
}

/* Tiles: their sides, those of a thread's part, sets of threads that share k, how far along k at once; and how much
 * longer an element takes than in the largest (percent, f32 on an H200): small parts load more for each product. */
static const struct tile_form {
    uint8_t m, n, micro_m, micro_n, sets, k, percent;
} tile_forms[] = {
    {128, 128, 8, 8, 1, 8, 100},
    {128, 64, 8, 8, 2, 16, 116},
    {64, 128, 8, 8, 2, 16, 116},
    {64, 64, 8, 8, 4, 32, 119},
    {128, 64, 8, 4, 1, 16, 123},
    {64, 128, 4, 8, 1, 16, 135},
    {64, 32, 8, 4, 4, 64, 131},
    {32, 64, 4, 8, 4, 64, 131},
    {64, 64, 4, 4, 1, 16, 134},
    {64, 32, 4, 4, 1, 16, 150},
    {32, 64, 4, 4, 1, 16, 148},
    {32, 32, 4, 4, 4, 64, 164},
    {32, 32, 4, 4, 1, 16, 177},
};

static uint32_t form_threads(const struct tile_form *f)
{
    return (uint32_t)(f->m / f->micro_m) * (uint32_t)(f->n / f->micro_n) * f->sets;
}

/* long_tail: much follows the sums, which every point of a thread's part repeats. */
static bool form_fits(const gale__nest *nest, const gale__contraction *c, const gale_device_caps *caps, bool long_tail,
    const struct tile_form *f)
{
    uint32_t size = (uint32_t)gale_type_size((gale_type)nest->code[c->reduce].acc);
    uint32_t shared = (f->k * (uint32_t)(f->m + f->n + 8) + (f->sets > 1 ? (uint32_t)f->m * f->n : 0)) * size;
    /* Compilers for processors take minutes over large tiles, and run them no faster. */
    if (caps->software && (f->m > 32 || f->n > 32 || f->sets > 1)) return false;
    if (f->sets > 1 && (nest->steady || size != 4 || c->k < 2 * f->k)) return false;
    if (long_tail && f->micro_m * f->micro_n > 16) return false;
    return form_threads(f) <= (caps->group_max ? caps->group_max : 256) &&
           (!caps->shared_bytes || shared <= caps->shared_bytes);
}

#define PRODUCTS_PER_CYCLE 83 /* of a compute unit, f32 */
#define STEP_CYCLES 1500      /* cycles of a step along k whose load latency is not hidden */

/* Cycles that a form takes: of all products, or of all steps one after the other where there are few tiles. */
static double form_cycles(const gale__contraction *c, const gale__schedule *s, const struct tile_form *f, int64_t units)
{
    int64_t rounds = up(gale__schedule_tiles(c, s, f->m, f->n), units), area = (int64_t)f->m * f->n;
    int64_t together = (f->micro_m * f->micro_n > 16 ? 512 : 1024) / form_threads(f);
    double settle = (double)area * (f->sets > 1 ? 1.0 : 0.4); /* sums of all sets, results */
    double each = (double)area * (double)c->k / PRODUCTS_PER_CYCLE * f->percent / 100 + settle;
    double work = (double)rounds * each, waits = (double)up(rounds, together) * (double)up(c->k, f->k) * STEP_CYCLES;
    return work > waits ? work : waits;
}

static bool form_is(const struct tile_form *f, const gale__schedule_want *want)
{
    return want->how == (f->sets > 1 ? GALE__HOW_SETS : GALE__HOW_TILE) && want->m == f->m && want->n == f->n;
}

static const struct tile_form *choose_form(const gale__nest *nest, const gale__contraction *c,
    const gale_device_caps *caps, const gale__schedule_want *want, const gale__schedule *s, double *least)
{
    const struct tile_form *best = NULL;
    bool long_tail = outer_size(nest) > 60;
    int64_t units = caps->compute_units ? caps->compute_units : 1;
    *least = INFINITY;
    for (size_t i = 0; i < sizeof tile_forms / sizeof *tile_forms; i++) {
        const struct tile_form *f = &tile_forms[i];
        if (want && !form_is(f, want)) continue;
        double cycles = form_fits(nest, c, caps, long_tail, f) ? form_cycles(c, s, f, units) : INFINITY;
        if (cycles >= *least) continue;
        *least = cycles;
        best = f;
    }
    return best;
}

double gale__schedule_tile_cycles(
    const gale__nest *nest, const gale__contraction *c, const gale_device_caps *caps, const gale__schedule *s)
{
    double cycles;
    choose_form(nest, c, caps, NULL, s, &cycles);
    return cycles;
}

static bool choose_tile_sizes(const gale__nest *nest, const gale__contraction *c, const gale_device_caps *caps,
    const gale__schedule_want *want, gale__schedule *s)
{
    double cycles;
    const struct tile_form *best = choose_form(nest, c, caps, want, s, &cycles);
    if (!best) return false;
    s->unroll = !caps->software || (caps->loop_max && c->k + c->k / 8 > caps->loop_max);
    s->tile_m = best->m, s->tile_n = best->n, s->tile_k = best->k;
    s->micro_m = best->micro_m, s->micro_n = best->micro_n;
    s->steps = best->sets;
    return true;
}

/* Whether four neighbours along the columns can be stored at once. */
static bool stores_vectors(const gale__nest *nest, const gale__contraction *c, const gale__schedule *s)
{
    int last = gale__schedule_matrix_vector_dim(nest, s, c);
    return last >= 0 && nest->extent[last] % 4 == 0 && gale_type_size(gale__emit_acc_type(nest, c->reduce)) == 4;
}

bool gale__schedule_choose_tile(
    const gale__nest *nest, const gale_device_caps *caps, const gale__schedule_want *want, gale__schedule *s)
{
    gale__contraction c;
    if (!gale__nest_contraction(nest, &c)) return false;
    const gale__nest_instr *mul = &nest->code[c.mul];
    gale_type type = gale__compute_type((gale_type)mul->type);
    bool small = c.m < 8 || c.n < 8 || c.m * c.n < 256; /* ROW or COLUMN is faster, but has another summation order */
    if (c.k < 4 || (small && !nest->steady && !want)) return false;
    if (type != gale__emit_acc_type(nest, c.reduce) ||
        (gale__type_is_int((gale_type)mul->type) && gale__type_table[mul->type].bits < 32))
        return false;
    gale__schedule t = *s;
    t.kind = GALE__SCHEDULE_TILE;
    t.swap = c.kind[nest->n_outer - 1] == 'M';
    if (!choose_tile_sizes(nest, &c, caps, want, &t)) return false;
    for (int w = 0; w < 2; w++) gale__schedule_choose_operand(nest, &c, &t, w);
    t.exact = c.k % t.tile_k == 0;
    t.vector = (uint8_t)(stores_vectors(nest, &c, &t) ? 4 : 1);
    *s = t;
    return true;
}
