/* Non-maximum suppression on a GPU.  A work-group does one class of one batch: every thread keeps the scores of its own
 * boxes up to date and finds the best of them, the group agrees on the best of all, and with the next step drops what
 * overlaps it.  The classes' choices are put together by a second launch; where there is one class, the first writes
 * the result itself.  As primitives this is a loop of several launches a step. */
#include "kernel/routines/routine.h"
#include "kernel/schedule/special_ir.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GROUP = 1024, SOFTWARE_GROUP = 256, BOXES_EACH = 4, PAIRS_MAX = 4096, GATHER_GROUP = 128 };
enum { RESULT, BOXES, SCORES, NUMBERS }; /* buffers; thresholds follow where they are given */
enum { W_BOXES, W_MOST, W_CLASSES, W_PAIRS, W_BATCHES, WORDS };
#define NOBODY UINT32_MAX

static int64_t pairs_of(const gale__nms_args *a) { return a->batches * a->classes; }

/* A few boxes per thread: with more threads, the reduction costs more than it saves. */
static uint32_t threads_of(const gale__nms_args *a, const gale_device_caps *caps)
{
    uint32_t most = caps->software ? SOFTWARE_GROUP : GROUP, n = 1;
    if (caps->group_max && caps->group_max < most) most = caps->group_max;
    while (2 * n <= most && (n < 32 || (int64_t)n * BOXES_EACH < a->boxes)) n *= 2;
    return n;
}

static uint32_t gather_threads(const gale_device_caps *caps)
{
    return caps->group_max && caps->group_max < GATHER_GROUP ? 1 : GATHER_GROUP;
}

/* Threads that reduce by shuffles; 1: through work-group memory only. */
static uint32_t width_of(const gale_device_caps *caps, uint32_t threads)
{
    uint32_t width = caps->subgroup_ops ? caps->subgroup : 1;
    return width > 1 && threads % width == 0 ? width : 1;
}

bool gale__nms_kernels_fit(const gale__nms_args *a, const gale_device_caps *caps, uint64_t *space_bytes)
{
    int64_t pairs = pairs_of(a), threads = threads_of(a, caps);
    const int64_t most = INT32_MAX / 4;
    if (a->boxes < 1 || a->most < 1 || pairs < 1 || pairs > PAIRS_MAX) return false;
    if (a->boxes > most / pairs || a->most > most / pairs || a->boxes > most / a->batches) return false;
    int64_t trips = (a->most + 1) * (a->boxes / threads + 2) + pairs;
    if (caps->loop_max && trips > caps->loop_max / 2) return false;
    if (caps->groups_max[0] && (pairs * a->most) / gather_threads(caps) >= caps->groups_max[0]) return false;
    *space_bytes = 4 * (uint64_t)(pairs * a->boxes + (pairs > 1 ? pairs * a->most + pairs : 0));
    return true;
}

static bool describe(const void *args, const gale_device_caps *caps, int i, gale__routine_launch *out)
{
    const gale__nms_args *a = args;
    int64_t pairs = pairs_of(a);
    bool alone = pairs == 1, gathers = i == 1;
    if (i > 1 || (gathers && alone)) return false;
    uint32_t threads = gathers ? gather_threads(caps) : threads_of(a, caps);
    *out = (gale__routine_launch){.groups = {(uint32_t)pairs, 1, 1}, .n_words = WORDS};
    const int64_t words[WORDS] = {a->boxes, a->most, a->classes, pairs, a->batches};
    for (int w = 0; w < WORDS; w++) out->words[w] = (uint32_t)words[w];
    if (gathers) {
        out->groups[0] = (uint32_t)((pairs * a->most + threads - 1) / threads);
        out->refs[out->n_refs++] = RESULT;
    } else {
        int last = SCORES + (a->overlap != 0) + (a->least != 0);
        for (int b = RESULT; b <= last; b++) out->refs[out->n_refs++] = (int8_t)b;
    }
    out->refs[out->n_refs++] = GALE__ROUTINE_SPACE;
    snprintf(out->key, sizeof out->key, "gale_suppress_%s_%d%d%d%d_%u_%u", gathers ? "gather" : "choose",
        a->centre != 0, a->overlap != 0, a->least != 0, alone, threads, width_of(caps, threads));
    return true;
}

/* --- Boxes. --- */

typedef struct box {
    gale__ir_val low[2], high[2];
} box;

static gale__ir_val f32(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, GALE_F32, a, b);
}
static gale__ir_val smaller(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return pick(ir, test(ir, GALE__LT, a, b), a, b);
}
static gale__ir_val larger(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return pick(ir, test(ir, GALE__GT, a, b), a, b);
}

static box load_box(gale__ir *ir, const gale__nms_args *a, gale__ir_val at)
{
    gale__ir_val all = gale__ir_load(ir, BOXES, GALE_F32, 4, mul(ir, at, u32(ir, 4))), c[4];
    box b;
    for (int i = 0; i < 4; i++) c[i] = gale__ir_lane(ir, all, i);
    for (int i = 0; i < 2; i++) {
        gale__ir_val first = c[i], second = c[i + 2];
        if (a->centre) {
            gale__ir_val half = f32(ir, GALE__MUL, second, gale__ir_f32(ir, 0.5f));
            second = f32(ir, GALE__ADD, first, half);
            first = f32(ir, GALE__SUB, first, half);
        }
        b.low[i] = smaller(ir, first, second);
        b.high[i] = larger(ir, first, second);
    }
    return b;
}

static gale__ir_val extent(gale__ir *ir, gale__ir_val low, gale__ir_val high)
{
    return pick(ir, test(ir, GALE__GT, high, low), f32(ir, GALE__SUB, high, low), gale__ir_f32(ir, 0));
}

static gale__ir_val area(gale__ir *ir, const box *b)
{
    return f32(ir, GALE__MUL, extent(ir, b->low[0], b->high[0]), extent(ir, b->low[1], b->high[1]));
}

static gale__ir_val overlapping(gale__ir *ir, const box *a, const box *b, gale__ir_val area_b, gale__ir_val most)
{
    gale__ir_val side[2];
    for (int i = 0; i < 2; i++)
        side[i] = extent(ir, larger(ir, a->low[i], b->low[i]), smaller(ir, a->high[i], b->high[i]));
    gale__ir_val shared = f32(ir, GALE__MUL, side[0], side[1]),
                 all = f32(ir, GALE__SUB, f32(ir, GALE__ADD, area(ir, a), area_b), shared);
    gale__ir_val share = gale__ir_scalar(ir, GALE__DIV, GALE_F32, shared, all, 0);
    return both(ir, test(ir, GALE__GT, shared, gale__ir_f32(ir, 0)), test(ir, GALE__GT, share, most));
}

/* --- Reduction to the best box: the highest score, the first of equals. --- */

typedef struct best {
    gale__ir_val score, at;
} best;

static best better(gale__ir *ir, best a, best b)
{
    gale__ir_val equal = both(ir, test(ir, GALE__EQ, a.score, b.score), test(ir, GALE__LT, a.at, b.at));
    gale__ir_val first = gale__ir_op2(ir, GALE__OR, GALE_BOOL, test(ir, GALE__GT, a.score, b.score), equal);
    return (best){pick(ir, first, a.score, b.score), pick(ir, first, a.at, b.at)};
}

static gale__ir_val shuffle(gale__ir *ir, gale__ir_val v, uint32_t mask)
{
    return gale__ir_add(
        ir, (gale__ir_instr){.op = GALE__IR_SHUFFLE_XOR, .type = (uint8_t)gale__ir_type(ir, v), .a = v, .imm = mask});
}

typedef struct boards {
    gale__ir_val scores, places;
} boards;

static void write_board(gale__ir *ir, boards b, gale__ir_val i, best x)
{
    set(ir, b.scores, i, x.score);
    set(ir, b.places, i, x.at);
}
static best read_board(gale__ir *ir, boards b, gale__ir_val i)
{
    return (best){get(ir, b.scores, i), get(ir, b.places, i)};
}

/* Every thread has the answer.  The barrier in front keeps this step's writes from the last step's reads. */
static best agree(gale__ir *ir, boards b, uint32_t threads, uint32_t width, gale__ir_val tid, best x)
{
    for (uint32_t mask = width / 2; mask; mask /= 2)
        x = better(ir, x, (best){shuffle(ir, x.score, mask), shuffle(ir, x.at, mask)});
    if (threads == width) return x;
    uint32_t n = threads / width;
    gale__ir_val slot = width > 1 ? bin(ir, GALE__IR_DIV, tid, u32(ir, width)) : tid;
    barrier(ir);
    write_board(ir, b, slot, x); /* threads of a subgroup write the same */
    barrier(ir);
    for (; n > 8; n /= 2) {
        begin_if(ir, test(ir, GALE__LT, slot, u32(ir, n / 2)));
        write_board(ir, b, slot, better(ir, read_board(ir, b, slot), read_board(ir, b, add(ir, slot, u32(ir, n / 2)))));
        end(ir);
        barrier(ir);
    }
    x = read_board(ir, b, u32(ir, 0));
    for (uint32_t i = 1; i < n; i++) x = better(ir, x, read_board(ir, b, u32(ir, i)));
    return x;
}

/* --- The first launch. --- */

typedef struct choosing {
    const gale__nms_args *a;
    gale__ir *ir;
    int space; /* pointer: scores that live, then choices, then counts */
    gale__ir_val tid, pair, boxes, first_box, first_score, none, zero;
    gale__ir_val best_score, best_at, last, count; /* variables; last: the box chosen in the step before, NOBODY */
    gale__ir_val overlap;
    uint32_t threads;
} choosing;

static gale__ir_val threshold(gale__ir *ir, int pointer) { return gale__ir_load(ir, pointer, GALE_F32, 1, u32(ir, 0)); }

/* Boxes without a score above the least are out from the beginning. */
static void copy_scores(const choosing *c)
{
    gale__ir *ir = c->ir;
    gale__ir_val least = c->a->least ? threshold(ir, NUMBERS + (c->a->overlap != 0)) : c->none;
    gale__ir_val i = begin_for(ir, c->tid, c->boxes, c->threads), at = add(ir, c->first_score, i);
    gale__ir_val score = gale__ir_load(ir, SCORES, GALE_F32, 1, at);
    gale__ir_store(ir, c->space, GALE_F32, 1, at, pick(ir, test(ir, GALE__GT, score, least), score, c->none));
    end(ir);
}

/* Removes this thread's boxes that overlap the last choice, and finds the best of the others. */
static void suppress_and_find_best(const choosing *c)
{
    gale__ir *ir = c->ir;
    gale__ir_val last = get(ir, c->last, c->zero), going = test(ir, GALE__NE, last, u32(ir, NOBODY));
    gale__ir_val safe = pick(ir, test(ir, GALE__LT, last, c->boxes), last, c->zero);
    box chosen = load_box(ir, c->a, add(ir, c->first_box, safe));
    gale__ir_val chosen_area = area(ir, &chosen);
    set(ir, c->best_score, c->zero, c->none);
    set(ir, c->best_at, c->zero, u32(ir, NOBODY));
    gale__ir_val i = begin_for(ir, c->tid, pick(ir, going, c->boxes, c->zero), c->threads);
    gale__ir_val at = add(ir, c->first_score, i), score = gale__ir_load(ir, c->space, GALE_F32, 1, at);
    begin_if(ir, test(ir, GALE__GT, score, c->none));
    box mine = load_box(ir, c->a, add(ir, c->first_box, i));
    gale__ir_val hides = both(ir, test(ir, GALE__LT, last, c->boxes),
        gale__ir_op2(ir, GALE__OR, GALE_BOOL, test(ir, GALE__EQ, i, last),
            overlapping(ir, &mine, &chosen, chosen_area, c->overlap)));
    begin_if(ir, hides);
    gale__ir_store(ir, c->space, GALE_F32, 1, at, c->none);
    begin_else(ir);
    begin_if(ir, test(ir, GALE__GT, score, get(ir, c->best_score, c->zero)));
    set(ir, c->best_score, c->zero, score);
    set(ir, c->best_at, c->zero, i);
    end(ir);
    end(ir);
    end(ir);
    end(ir);
}

static void write_row(gale__ir *ir, gale__ir_val row, gale__ir_val batch, gale__ir_val class, gale__ir_val place)
{
    gale__ir_val at = mul(ir, row, u32(ir, 3)), v[3] = {batch, class, place};
    for (uint32_t i = 0; i < 3; i++) gale__ir_store(ir, RESULT, GALE_I64, 1, add(ir, at, u32(ir, i)), v[i]);
}

static gale__ir_val i64(gale__ir *ir, gale__ir_val v) { return convert(ir, GALE_I64, v); }

static void store_choice(const choosing *c, bool alone, gale__ir_val chosen)
{
    gale__ir *ir = c->ir;
    gale__ir_val count = get(ir, c->count, c->zero), zero = gale__ir_const(ir, GALE_I64, 0);
    begin_if(ir, test(ir, GALE__NE, chosen, u32(ir, NOBODY)));
    begin_if(ir, test(ir, GALE__EQ, c->tid, c->zero));
    if (alone) write_row(ir, count, zero, zero, i64(ir, chosen));
    else {
        gale__ir_val choices = mul(ir, word(ir, W_PAIRS), c->boxes),
                     at = add(ir, add(ir, choices, mul(ir, c->pair, word(ir, W_MOST))), count);
        gale__ir_store(ir, c->space, GALE_U32, 1, at, chosen);
    }
    end(ir);
    set(ir, c->count, c->zero, add(ir, count, u32(ir, 1)));
    end(ir);
}

/* With one class: rows that nothing was chosen for, and how many there are of the others. */
static void finish_alone(const choosing *c)
{
    gale__ir *ir = c->ir;
    gale__ir_val most = word(ir, W_MOST), count = get(ir, c->count, c->zero), zero = gale__ir_const(ir, GALE_I64, 0);
    gale__ir_val row = begin_for(ir, add(ir, count, c->tid), most, c->threads);
    write_row(ir, row, zero, zero, gale__ir_const(ir, GALE_I64, UINT64_MAX));
    end(ir);
    begin_if(ir, test(ir, GALE__EQ, c->tid, c->zero));
    gale__ir_store(ir, RESULT, GALE_I64, 1, mul(ir, most, u32(ir, 3)), i64(ir, count));
    end(ir);
}

static void finish_class(const choosing *c)
{
    gale__ir *ir = c->ir;
    gale__ir_val counts = mul(ir, word(ir, W_PAIRS), add(ir, c->boxes, word(ir, W_MOST)));
    begin_if(ir, test(ir, GALE__EQ, c->tid, c->zero));
    gale__ir_store(ir, c->space, GALE_U32, 1, add(ir, counts, c->pair), get(ir, c->count, c->zero));
    end(ir);
}

static void build_choose(const gale__nms_args *a, const gale_device_caps *caps, gale__ir *ir)
{
    bool alone = pairs_of(a) == 1;
    choosing c = {.a = a, .ir = ir, .space = ir->n_pointers - 1, .threads = threads_of(a, caps)};
    uint32_t width = width_of(caps, c.threads);
    ir->group[0] = c.threads;
    ir->subgroup_ops = width > 1;
    ir->readonly = ((1u << c.space) - 1) & ~1u;
    c.tid = thread_id(ir), c.zero = u32(ir, 0), c.none = gale__ir_f32(ir, -INFINITY);
    c.pair = special(ir, GALE__IR_GROUP_ID, 0), c.boxes = word(ir, W_BOXES);
    c.first_score = mul(ir, c.pair, c.boxes);
    c.first_box = mul(ir, bin(ir, GALE__IR_DIV, c.pair, word(ir, W_CLASSES)), c.boxes);
    c.overlap = a->overlap ? threshold(ir, NUMBERS) : gale__ir_f32(ir, 0);
    c.best_score = variable(ir, GALE_F32), c.best_at = variable(ir, GALE_U32);
    c.last = variable(ir, GALE_U32), c.count = variable(ir, GALE_U32);
    boards b = {0};
    if (c.threads > width)
        b = (boards){array(ir, GALE__IR_SHARED, GALE_F32, c.threads / width),
            array(ir, GALE__IR_SHARED, GALE_U32, c.threads / width)};
    copy_scores(&c);
    set(ir, c.last, c.zero, u32(ir, NOBODY - 1)); /* not a box, but not the end either */
    set(ir, c.count, c.zero, c.zero);
    begin_for(ir, c.zero, word(ir, W_MOST), 1);
    suppress_and_find_best(&c);
    best x = agree(ir, b, c.threads, width, c.tid, (best){get(ir, c.best_score, c.zero), get(ir, c.best_at, c.zero)});
    store_choice(&c, alone, x.at);
    set(ir, c.last, c.zero, x.at);
    end(ir);
    if (alone) finish_alone(&c);
    else finish_class(&c);
}

/* --- The second launch: a thread for each row of the result. --- */

static void build_gather(const gale_device_caps *caps, gale__ir *ir)
{
    uint32_t threads = gather_threads(caps);
    ir->group[0] = threads;
    ir->readonly = 2;
    gale__ir_val zero = u32(ir, 0), pairs = word(ir, W_PAIRS), most = word(ir, W_MOST), rows = mul(ir, pairs, most);
    gale__ir_val choices = mul(ir, pairs, word(ir, W_BOXES)), counts = add(ir, choices, rows);
    gale__ir_val row = add(ir, mul(ir, special(ir, GALE__IR_GROUP_ID, 0), u32(ir, threads)), thread_id(ir));
    begin_if(ir, test(ir, GALE__LT, row, rows));
    gale__ir_val pair = bin(ir, GALE__IR_DIV, row, most), k = bin(ir, GALE__SUB, row, mul(ir, pair, most));
    gale__ir_val before = variable(ir, GALE_U32), all = variable(ir, GALE_U32);
    set(ir, before, zero, zero), set(ir, all, zero, zero);
    gale__ir_val p = begin_for(ir, zero, pairs, 1), n = gale__ir_load(ir, 1, GALE_U32, 1, add(ir, counts, p));
    set(ir, before, zero, add(ir, get(ir, before, zero), pick(ir, test(ir, GALE__LT, p, pair), n, zero)));
    set(ir, all, zero, add(ir, get(ir, all, zero), n));
    end(ir);
    gale__ir_val total = get(ir, all, zero), one = u32(ir, 1), classes = word(ir, W_CLASSES);
    begin_if(ir, test(ir, GALE__LT, k, gale__ir_load(ir, 1, GALE_U32, 1, add(ir, counts, pair))));
    gale__ir_val batch = bin(ir, GALE__IR_DIV, pair, classes),
                 class = bin(ir, GALE__SUB, pair, mul(ir, batch, classes));
    write_row(ir, add(ir, get(ir, before, zero), k), i64(ir, batch), i64(ir, class),
        i64(ir, gale__ir_load(ir, 1, GALE_U32, 1, add(ir, choices, row))));
    end(ir);
    /* Rows after those repeat the last one. */
    begin_if(ir, test(ir, GALE__GE, row, total));
    gale__ir_val final = bin(ir, GALE__SUB, rows, one),
                 full = gale__ir_load(ir, 1, GALE_U32, 1, add(ir, counts, bin(ir, GALE__SUB, pairs, one)));
    gale__ir_val place = gale__ir_load(ir, 1, GALE_U32, 1, add(ir, choices, final));
    write_row(ir, row, i64(ir, bin(ir, GALE__SUB, word(ir, W_BATCHES), one)), i64(ir, bin(ir, GALE__SUB, classes, one)),
        pick(ir, test(ir, GALE__EQ, full, most), i64(ir, place), gale__ir_const(ir, GALE_I64, UINT64_MAX)));
    end(ir);
    begin_if(ir, test(ir, GALE__EQ, row, zero));
    gale__ir_store(ir, RESULT, GALE_I64, 1, mul(ir, rows, u32(ir, 3)), i64(ir, total));
    end(ir);
    end(ir);
}

static void build(const void *args, const gale_device_caps *caps, int i, gale__ir *ir)
{
    if (i == 0) build_choose(args, caps, ir);
    else build_gather(caps, ir);
}

const gale__kernel_routine gale__nms_kernels = {describe, build};
