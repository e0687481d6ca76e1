/* Levels of pictures, several in one launch: a work-group reads a tile of 64 x 128 samples once, and makes up to six
 * levels of it.  A thread reads 8 x 4 samples and makes the first two levels of them in registers; the rest goes
 * through work-group memory.  A level is made from the one before as it is stored, so that the results are those of a
 * kernel for each level. */
#include "kernel/routines/routine.h"
#include "kernel/schedule/special_ir.h"
#include <stdio.h>

enum { TILE_X = 64, TILE_Y = 128, LEVELS = 6, THREADS = 256, EACH = 4, ROWS = 2, PITCH = TILE_X / 4 + 1 };
enum { RESULT, SOURCE };
enum { W_SOURCE, W_WIDTH, W_HEIGHT, W_LEVEL /* offset, width and height of each */, WORDS = W_LEVEL + 3 * LEVELS };

int64_t gale__levels_size(const gale__levels_args *a, int64_t n, int64_t level)
{
    n = (n + (a->round_up ? ((int64_t)1 << level) - 1 : 0)) >> level;
    return n < 1 ? 1 : n;
}

int64_t gale__levels_count(const gale__levels_args *a)
{
    int64_t n = 0;
    while (gale__levels_size(a, a->width, n) > 1 || gale__levels_size(a, a->height, n) > 1) n++;
    return n;
}

/* Where a level begins in the result; of one past the last: the elements of all. */
int64_t gale__levels_offset(const gale__levels_args *a, int64_t level)
{
    int64_t n = 0;
    for (int64_t i = 1; i < level; i++)
        n += a->channels * gale__levels_size(a, a->width, i) * gale__levels_size(a, a->height, i);
    return n;
}

bool gale__levels_kernels_fit(const gale__levels_args *a, const gale_device_caps *caps)
{
    const int64_t most = INT32_MAX / 2;
    if (a->width > most / a->height || a->width * a->height > most / a->channels) return false;
    if (caps->group_max && caps->group_max < THREADS) return false;
    if (caps->shared_bytes && caps->shared_bytes < PITCH * (TILE_Y / 4 + TILE_Y / 8) * 4) return false;
    return a->channels < 65536 && a->height / TILE_Y < 65535;
}

/* Rows of whole vectors: those of the source, and with them those of its first level. */
static bool is_wide(const gale__levels_args *a, int64_t source)
{
    bool places = gale__levels_offset(a, source) % 8 == 0;
    return gale__levels_size(a, a->width, source) % 8 == 0 && (source == 0 || places) &&
           gale__levels_offset(a, source + 1) % 4 == 0;
}

static int levels_from(const gale__levels_args *a, int64_t source)
{
    int64_t left = gale__levels_count(a) - source;
    return left < LEVELS ? (int)left : LEVELS;
}

static bool describe(const void *args, const gale_device_caps *caps, int i, gale__routine_launch *out)
{
    const gale__levels_args *a = args;
    int64_t source = (int64_t)i * LEVELS, w = gale__levels_size(a, a->width, source),
            h = gale__levels_size(a, a->height, source);
    (void)caps;
    if (source >= gale__levels_count(a)) return false;
    int n = levels_from(a, source);
    *out = (gale__routine_launch){
        .groups = {(uint32_t)((w + TILE_X - 1) / TILE_X), (uint32_t)((h + TILE_Y - 1) / TILE_Y), (uint32_t)a->channels},
        .n_words = WORDS,
        .n_refs = 2,
        .refs = {RESULT, i ? RESULT : SOURCE}};
    out->words[W_SOURCE] = i ? (uint32_t)gale__levels_offset(a, source) : 0;
    out->words[W_WIDTH] = (uint32_t)w, out->words[W_HEIGHT] = (uint32_t)h;
    for (int k = 0; k < n; k++) {
        uint32_t *l = out->words + W_LEVEL + 3 * k;
        l[0] = (uint32_t)gale__levels_offset(a, source + k + 1);
        l[1] = (uint32_t)gale__levels_size(a, a->width, source + k + 1);
        l[2] = (uint32_t)gale__levels_size(a, a->height, source + k + 1);
    }
    snprintf(out->key, sizeof out->key, "gale_levels_%d_%d_%d_%d%d", (int)a->type, (int)a->reduce, n,
        is_wide(a, source), i > 0);
    return true;
}

typedef struct maker {
    gale__ir *ir;
    const gale__levels_args *a;
    gale__ir_val tid, tile[2], channel, size[2], source;
    bool wide;
} maker;

static gale__ir_val minimum(gale__ir *ir, gale__ir_val a, gale__ir_val b) { return bin(ir, GALE__IR_MIN, a, b); }

static gale__ir_val pair(const maker *m, gale__ir_val x, gale__ir_val y)
{
    gale__ir *ir = m->ir;
    if (m->a->reduce == GALE__LEVELS_LARGEST) return gale__ir_scalar(ir, GALE__MAX, GALE_F32, x, y, 0);
    if (m->a->reduce == GALE__LEVELS_LEAST) return gale__ir_scalar(ir, GALE__MIN, GALE_F32, x, y, 0);
    return gale__ir_op2(ir, GALE__MUL, GALE_F32, gale__ir_op2(ir, GALE__ADD, GALE_F32, x, y), gale__ir_f32(ir, 0.5f));
}

/* Two by two samples, by rows first, as they are stored. */
static gale__ir_val reduced(const maker *m, const gale__ir_val v[4])
{
    gale__ir_val r = pair(m, pair(m, v[0], v[1]), pair(m, v[2], v[3]));
    return m->a->type == GALE_F16 ? gale__ir_narrow(m->ir, GALE_F16, r) : r;
}

/* The samples of two rows for EACH results from column x (of the first level) on; beyond the edge is the edge. */
static void load_rows(const maker *m, gale__ir_val x, gale__ir_val y, gale__ir_val rows[2][8])
{
    gale__ir *ir = m->ir;
    gale__ir_val last[2], plane = mul(ir, m->channel, mul(ir, m->size[0], m->size[1]));
    for (int d = 0; d < 2; d++) last[d] = bin(ir, GALE__SUB, m->size[d], u32(ir, 1));
    for (uint32_t r = 0; r < 2; r++) {
        gale__ir_val row = minimum(ir, add(ir, mul(ir, y, u32(ir, 2)), u32(ir, r)), last[1]);
        row = add(ir, add(ir, m->source, plane), mul(ir, row, m->size[0]));
        gale__ir_val first = mul(ir, x, u32(ir, 2));
        if (m->wide) {
            gale__ir_load_as(ir, SOURCE, (gale_type)m->a->type, 8,
                add(ir, row, minimum(ir, first, bin(ir, GALE__SUB, m->size[0], u32(ir, 8)))), rows[r]);
            continue;
        }
        for (uint32_t i = 0; i < 2 * EACH; i++)
            gale__ir_load_as(ir, SOURCE, (gale_type)m->a->type, 1,
                add(ir, row, minimum(ir, add(ir, first, u32(ir, i)), last[0])), &rows[r][i]);
    }
}

static gale__ir_val level_word(const maker *m, int level, int which)
{
    return word(m->ir, W_LEVEL + 3 * level + which);
}

static gale__ir_val address(const maker *m, int level, gale__ir_val x, gale__ir_val y)
{
    gale__ir *ir = m->ir;
    gale__ir_val w = level_word(m, level, 1), row = add(ir, mul(ir, m->channel, level_word(m, level, 2)), y);
    return add(ir, add(ir, level_word(m, level, 0), mul(ir, row, w)), x);
}

/* A row of the first level, EACH neighbours from (x, y) on: made, and stored where the level has them. */
static void make_row(const maker *m, gale__ir_val x, gale__ir_val y, gale__ir_val rows[2][8], gale__ir_val made[EACH])
{
    gale__ir *ir = m->ir;
    for (int i = 0; i < EACH; i++)
        made[i] = reduced(m, (gale__ir_val[]){rows[0][2 * i], rows[0][2 * i + 1], rows[1][2 * i], rows[1][2 * i + 1]});
    begin_if(ir, test(ir, GALE__LT, y, level_word(m, 0, 2)));
    for (uint32_t i = 0; i < EACH; i += m->wide ? EACH : 1) {
        begin_if(ir, test(ir, GALE__LT, add(ir, x, u32(ir, i)), level_word(m, 0, 1)));
        gale__ir_store_as(
            ir, RESULT, (gale_type)m->a->type, m->wide ? EACH : 1, add(ir, address(m, 0, x, y), u32(ir, i)), made + i);
        end(ir);
    }
    end(ir);
}

/* Two results of the second level from those of the first; beyond the edge is the edge. */
static void make_second(const maker *m, const gale__ir_val at[2], const gale__ir_val local[2],
    gale__ir_val made[ROWS][EACH], gale__ir_val shared)
{
    gale__ir *ir = m->ir;
    gale__ir_val two = u32(ir, 2), x = bin(ir, GALE__IR_DIV, at[0], two), y = bin(ir, GALE__IR_DIV, at[1], two);
    gale__ir_val below = test(ir, GALE__LT, add(ir, at[1], u32(ir, 1)), level_word(m, 0, 2));
    for (uint32_t i = 0; i < EACH / 2; i++) {
        gale__ir_val v[4], beside = test(ir, GALE__LT, add(ir, at[0], u32(ir, 2 * i + 1)), level_word(m, 0, 1));
        for (int r = 0; r < ROWS; r++) {
            v[2 * r] = r ? pick(ir, below, made[1][2 * i], made[0][2 * i]) : made[0][2 * i];
            v[2 * r + 1] = r ? pick(ir, below, made[1][2 * i + 1], made[0][2 * i + 1]) : made[0][2 * i + 1];
            v[2 * r + 1] = pick(ir, beside, v[2 * r + 1], v[2 * r]);
        }
        gale__ir_val result = reduced(m, v), own = add(ir, x, u32(ir, i));
        set(ir, shared, add(ir, mul(ir, local[1], u32(ir, PITCH)), add(ir, local[0], u32(ir, i))), result);
        begin_if(
            ir, both(ir, test(ir, GALE__LT, own, level_word(m, 1, 1)), test(ir, GALE__LT, y, level_word(m, 1, 2))));
        gale__ir_store_as(ir, RESULT, (gale_type)m->a->type, 1, address(m, 1, own, y), &result);
        end(ir);
    }
}

/* The first level and, if `second`, the next: EACH by ROWS results of the first a thread. */
static void make_first(const maker *m, bool second, gale__ir_val shared)
{
    gale__ir *ir = m->ir;
    gale__ir_val rows[ROWS][2][8], made[ROWS][EACH], per_row = u32(ir, TILE_X / 2 / EACH);
    gale__ir_val column = bin(ir, GALE__IR_REM, m->tid, per_row), row = bin(ir, GALE__IR_DIV, m->tid, per_row);
    const gale__ir_val at[2] = {add(ir, mul(ir, m->tile[0], u32(ir, TILE_X / 2)), mul(ir, column, u32(ir, EACH))),
        add(ir, mul(ir, m->tile[1], u32(ir, TILE_Y / 2)), mul(ir, row, u32(ir, ROWS)))};
    for (uint32_t r = 0; r < ROWS; r++) load_rows(m, at[0], add(ir, at[1], u32(ir, r)), rows[r]);
    for (uint32_t r = 0; r < ROWS; r++) make_row(m, at[0], add(ir, at[1], u32(ir, r)), rows[r], made[r]);
    const gale__ir_val local[2] = {mul(ir, column, u32(ir, EACH / 2)), row};
    if (second) make_second(m, at, local, made, shared);
}

/* Level number `level` (from 0) of this launch, from the one before in `from`. */
static void make_next(const maker *m, int level, gale__ir_val from, gale__ir_val to)
{
    gale__ir *ir = m->ir;
    const uint32_t n[2] = {TILE_X >> (level + 1), TILE_Y >> (level + 1)};
    gale__ir_val v[4], l[2], at[2], edge[2][2];
    barrier(ir);
    begin_if(ir, test(ir, GALE__LT, m->tid, u32(ir, n[0] * n[1])));
    l[0] = bin(ir, GALE__IR_REM, m->tid, u32(ir, n[0])), l[1] = bin(ir, GALE__IR_DIV, m->tid, u32(ir, n[0]));
    for (int d = 0; d < 2; d++) {
        at[d] = add(ir, mul(ir, m->tile[d], u32(ir, n[d])), l[d]);
        /* Tiles without a pixel of the level before find a huge number here, and store nothing. */
        gale__ir_val last = bin(ir, GALE__SUB, level_word(m, level - 1, 1 + d), u32(ir, 1));
        last = bin(ir, GALE__SUB, last, mul(ir, m->tile[d], u32(ir, 2 * n[d])));
        for (uint32_t k = 0; k < 2; k++) edge[d][k] = minimum(ir, add(ir, mul(ir, l[d], u32(ir, 2)), u32(ir, k)), last);
    }
    for (int i = 0; i < 4; i++) v[i] = get(ir, from, add(ir, mul(ir, edge[1][i / 2], u32(ir, PITCH)), edge[0][i % 2]));
    gale__ir_val made = reduced(m, v);
    set(ir, to, add(ir, mul(ir, l[1], u32(ir, PITCH)), l[0]), made);
    begin_if(ir, both(ir, test(ir, GALE__LT, at[0], level_word(m, level, 1)),
                     test(ir, GALE__LT, at[1], level_word(m, level, 2))));
    gale__ir_store_as(ir, RESULT, (gale_type)m->a->type, 1, address(m, level, at[0], at[1]), &made);
    end(ir);
    end(ir);
}

static void build(const void *args, const gale_device_caps *caps, int i, gale__ir *ir)
{
    maker m = {.ir = ir, .a = args, .wide = is_wide(args, (int64_t)i * LEVELS)};
    int n = levels_from(m.a, (int64_t)i * LEVELS);
    ir->group[0] = THREADS;
    ir->math = caps->corners ? GALE__IR_CORNERS : 0;
    if (!i) ir->readonly = 1u << SOURCE;
    m.tid = thread_id(ir), m.channel = special(ir, GALE__IR_GROUP_ID, 2), m.source = word(ir, W_SOURCE);
    for (int d = 0; d < 2; d++) m.tile[d] = special(ir, GALE__IR_GROUP_ID, d), m.size[d] = word(ir, W_WIDTH + d);
    gale__ir_val shared[2] = {array(ir, GALE__IR_SHARED, GALE_F32, PITCH * TILE_Y / 4),
        array(ir, GALE__IR_SHARED, GALE_F32, PITCH * TILE_Y / 8)};
    make_first(&m, n > 1, shared[0]);
    for (int k = 2; k < n; k++) make_next(&m, k, shared[k % 2], shared[(k + 1) % 2]);
}

const gale__kernel_routine gale__levels_kernels = {.describe = describe, .build = build};
