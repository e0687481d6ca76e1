/* The steps of RNN, GRU and LSTM on a GPU: one launch a step.  A work-group computes all gates of four neighbouring
 * units for some items of the batch.  Its threads share the sums: each takes a few items and a part of the state they
 * are multiplied with, the parts are added up through work-group memory, and the gates follow.  As primitives a step is
 * four launches: a product of few rows, which leaves most of a device idle, what follows it in two, and a copy. */
#include "kernel/routines/cell_gates.h"
#include <stdio.h>
#include <string.h>

enum { QUAD = 4, EACH_MAX = 2, THREADS = 256, FEW_THREADS = 128, SOFTWARE_THREADS = 32 };
enum { RESULT, X, WEIGHTS, BEFORE, OTHER }; /* buffers; OTHER: c of an LSTM, the bias of a GRU */
enum { W_BATCH, W_HIDDEN, W_X, W_H, W_BEFORE, W_C_BEFORE, W_C, W_LAST, W_IS_LAST, WORDS };

static int64_t gates_of(const gale__cpu_cell *a) { return gale__cell_gates(a); }

/* How a work-group is divided: `each` items a thread, `blocks` threads beside each other for other items, `slices`
 * groups of those for other parts of the state. */
typedef struct division {
    uint32_t each, blocks, slices, threads, sums; /* sums: of a thread */
} division;

static division divide(const gale__cpu_cell *a, const gale_device_caps *caps)
{
    division d = {.each = a->batch >= 8 ? EACH_MAX : 1, .blocks = 1};
    while (d.blocks < 8 && d.blocks * d.each < a->batch) d.blocks *= 2;
    bool roomy = caps->shared_bytes >= 40u << 10 && (!caps->group_max || caps->group_max >= THREADS);
    d.threads = caps->software ? SOFTWARE_THREADS : roomy ? THREADS : FEW_THREADS;
    d.slices = d.threads / d.blocks;
    d.sums = d.each * (uint32_t)gates_of(a) * QUAD;
    return d;
}

/* Threads that add up a total. */
static uint32_t shares_of(const division *d)
{
    uint32_t totals = d->blocks * d->sums, n = 1;
    while (2 * n * totals <= d->threads && 2 * n <= d->slices) n *= 2;
    return n;
}

/* Rows of work-group memory are that much longer than the threads, so that neighbours are in different banks. */
static uint32_t pitch_of(const division *d) { return d->threads + d->blocks; }

bool gale__cell_kernels_fit(const gale__cpu_cell *a, const gale_device_caps *caps)
{
    const int64_t most = INT32_MAX / 2;
    int64_t step = a->batch * a->hidden;
    if (a->hidden % QUAD || a->hidden < QUAD || a->trips < 1 || a->batch < 1 || a->hidden > 1 << 16) return false;
    if (step > most / (a->trips + 2) || step > most / gates_of(a) / a->trips) return false;
    if (a->hidden * (a->hidden + GALE__CELL_UNITS) > most / gates_of(a)) return false;
    if (caps->group_max && caps->group_max < FEW_THREADS) return false;
    return !caps->groups_max[1] || a->batch < caps->groups_max[1];
}

static bool describe(const void *args, const gale_device_caps *caps, int i, gale__routine_launch *out)
{
    const gale__cpu_cell *a = args;
    if (i >= a->trips) return false;
    division d = divide(a, caps);
    int64_t step = a->batch * a->hidden, t = a->reverse ? a->trips - 1 - i : i, c = (a->trips + 1) * step;
    int64_t before = i == 0 ? 0 : (a->reverse ? t + 1 : t - 1) * step;
    const int64_t words[WORDS] = {a->batch, a->hidden, t * step * gates_of(a), t * step, before, i == 0 ? 0 : c, c,
        a->trips * step, i == a->trips - 1};
    uint32_t items = d.each * d.blocks;
    *out = (gale__routine_launch){
        .groups = {(uint32_t)(a->hidden / QUAD), ((uint32_t)a->batch + items - 1) / items, 1}, .n_words = WORDS};
    for (int w = 0; w < WORDS; w++) out->words[w] = (uint32_t)words[w];
    const int8_t refs[5] = {
        RESULT, X, WEIGHTS, i == 0 ? BEFORE : RESULT, a->kind == GALE__CELL_LSTM && i > 0 ? RESULT : OTHER};
    out->n_refs = a->kind == GALE__CELL_LSTM || a->biased ? 5 : 4;
    memcpy(out->refs, refs, sizeof refs);
    snprintf(out->key, sizeof out->key, "gale_cell_%d%d_%u_%u_%u", (int)a->kind, a->biased != 0, d.each, d.blocks,
        d.threads);
    return true;
}

/* --- The kernel. --- */

typedef struct step {
    gale__ir *ir;
    const gale__cpu_cell *a;
    division d;
    uint32_t gates;
    gale__ir_val tid, hidden, batch, quad, first_item; /* quad: of units; first_item: of the group */
    gale__ir_val sums, parts, totals;                  /* a thread's; all of them, and added up, in work-group memory */
} step;

/* Items past the last repeat it, and are not stored. */
static gale__ir_val item(const step *s, uint32_t i)
{
    gale__ir *ir = s->ir;
    gale__ir_val own = mul(ir, bin(ir, GALE__IR_REM, s->tid, u32(ir, s->d.blocks)), u32(ir, s->d.each));
    gale__ir_val b = add(ir, s->first_item, add(ir, own, u32(ir, i)));
    return bin(ir, GALE__IR_MIN, b, bin(ir, GALE__SUB, s->batch, u32(ir, 1)));
}

/* Four elements of the state from k on, for each item and all gates. */
static void add_products(const step *s, gale__ir_val k)
{
    gale__ir *ir = s->ir;
    gale__ir_val state[EACH_MAX], weights[GALE__CELL_GATES];
    for (uint32_t i = 0; i < s->d.each; i++)
        state[i] = gale__ir_load(
            ir, BEFORE, GALE_F32, QUAD, add(ir, word(ir, W_BEFORE), add(ir, mul(ir, item(s, i), s->hidden), k)));
    gale__ir_val block = bin(ir, GALE__IR_DIV, s->quad, u32(ir, GALE__CELL_UNITS / QUAD)),
                 units = mul(ir, bin(ir, GALE__IR_REM, s->quad, u32(ir, GALE__CELL_UNITS / QUAD)), u32(ir, QUAD));
    for (int j = 0; j < QUAD; j++) {
        for (uint32_t g = 0; g < s->gates; g++) {
            gale__ir_val row = add(ir, mul(ir, block, u32(ir, s->gates)), u32(ir, g));
            gale__ir_val at = add(ir, mul(ir, row, s->hidden), add(ir, k, u32(ir, (uint32_t)j)));
            weights[g] =
                gale__ir_load(ir, WEIGHTS, GALE_F32, QUAD, add(ir, mul(ir, at, u32(ir, GALE__CELL_UNITS)), units));
        }
        for (uint32_t n = 0; n < s->d.sums; n++) {
            uint32_t i = n / (s->gates * QUAD), g = n / QUAD % s->gates;
            gale__ir_val at = u32(ir, n), sum = get(ir, s->sums, at);
            sum = gale__ir_op3(ir, GALE__FMA, GALE_F32, gale__ir_lane(ir, state[i], j),
                gale__ir_lane(ir, weights[g], (int)(n % QUAD)), sum);
            set(ir, s->sums, at, sum);
        }
    }
}

/* Each thread's part of the sums, to work-group memory. */
static void sum_parts(const step *s)
{
    gale__ir *ir = s->ir;
    for (uint32_t n = 0; n < s->d.sums; n++) set(ir, s->sums, u32(ir, n), gale__ir_f32(ir, 0));
    gale__ir_val slice = bin(ir, GALE__IR_DIV, s->tid, u32(ir, s->d.blocks));
    gale__ir_val k = begin_for(ir, mul(ir, slice, u32(ir, QUAD)), s->hidden, s->d.slices * QUAD);
    add_products(s, k);
    end(ir);
    for (uint32_t n = 0; n < s->d.sums; n++)
        set(ir, s->parts, add(ir, s->tid, u32(ir, n * pitch_of(&s->d))), get(ir, s->sums, u32(ir, n)));
    barrier(ir);
}

/* Adds up every `by`-th element from `from` + `begin` on, up to `from` + `stop`, in order. */
static gale__ir_val sum_of(
    gale__ir *ir, gale__ir_val from_array, gale__ir_val from, gale__ir_val begin, gale__ir_val stop, uint32_t by)
{
    gale__ir_val sum = variable(ir, GALE_F32), zero = u32(ir, 0);
    set(ir, sum, zero, gale__ir_f32(ir, 0));
    gale__ir_val i = begin_for(ir, begin, stop, by);
    set(ir, sum, zero, gale__cell_f32(ir, GALE__ADD, get(ir, sum, zero), get(ir, from_array, add(ir, from, i))));
    end(ir);
    return get(ir, sum, zero);
}

/* The parts of all slices: total number n of block b is at n * blocks + b.  Where there are fewer totals than
 * threads, several of them add up a total. */
static void add_up(const step *s)
{
    gale__ir *ir = s->ir;
    uint32_t blocks = s->d.blocks, totals = blocks * s->d.sums, shares = shares_of(&s->d), each = s->d.threads / shares;
    gale__ir_val zero = u32(ir, 0), t = begin_for(ir, s->tid, u32(ir, totals * shares), s->d.threads);
    gale__ir_val total = bin(ir, GALE__IR_REM, t, u32(ir, totals)), share = bin(ir, GALE__IR_DIV, t, u32(ir, totals));
    gale__ir_val from = add(ir, mul(ir, bin(ir, GALE__IR_DIV, total, u32(ir, blocks)), u32(ir, pitch_of(&s->d))),
        bin(ir, GALE__IR_REM, total, u32(ir, blocks)));
    gale__ir_val begin = mul(ir, share, u32(ir, each));
    set(ir, s->totals, t, sum_of(ir, s->parts, from, begin, add(ir, begin, u32(ir, each)), blocks));
    end(ir);
    barrier(ir);
    if (shares == 1) return;
    begin_if(ir, test(ir, GALE__LT, s->tid, u32(ir, totals)));
    set(ir, s->totals, s->tid, sum_of(ir, s->totals, s->tid, zero, u32(ir, totals * shares), totals));
    end(ir);
    barrier(ir);
}

/* One unit of one item: its position among a step's units, and its gates. */
typedef struct unit {
    gale__ir_val at, number; /* element of [batch, hidden]; number of the unit */
    gale__ir_val x[GALE__CELL_GATES],
        z[GALE__CELL_GATES]; /* from the input; from the state, or the gate where it is ready */
} unit;

/* Where the sum of a gate is, for a unit (of four) of an item of the group. */
static gale__ir_val total_at(const step *s, gale__ir_val item, gale__ir_val gate, gale__ir_val number)
{
    gale__ir *ir = s->ir;
    gale__ir_val block = bin(ir, GALE__IR_DIV, item, u32(ir, s->d.each)),
                 own = bin(ir, GALE__IR_REM, item, u32(ir, s->d.each));
    gale__ir_val sum = add(ir, mul(ir, add(ir, mul(ir, own, u32(ir, s->gates)), gate), u32(ir, QUAD)), number);
    return add(ir, mul(ir, sum, u32(ir, s->d.blocks)), block);
}

/* What the input contributes to a gate. */
static gale__ir_val input_at(const step *s, gale__ir_val item, gale__ir_val gate, gale__ir_val number)
{
    gale__ir *ir = s->ir;
    gale__ir_val row = add(ir, mul(ir, item, u32(ir, s->gates)), gate);
    return gale__ir_load(ir, X, GALE_F32, 1, add(ir, word(ir, W_X), add(ir, mul(ir, row, s->hidden), number)));
}

/* Gates that need nothing else (all of an LSTM's, two of a GRU's), each by a thread: side by side, not one after
 * the other. */
static void open_gates(const step *s)
{
    gale__ir *ir = s->ir;
    bool lstm = s->a->kind == GALE__CELL_LSTM;
    uint32_t items = s->d.each * s->d.blocks, count = items * QUAD;
    gale__ir_val zero = u32(ir, 0), v = variable(ir, GALE_F32);
    gale__ir_val e = begin_for(ir, s->tid, u32(ir, count * (lstm ? 4 : 2)), s->d.threads);
    gale__ir_val gate = bin(ir, GALE__IR_DIV, e, u32(ir, count)), rest = bin(ir, GALE__IR_REM, e, u32(ir, count));
    gale__ir_val number = bin(ir, GALE__IR_REM, rest, u32(ir, QUAD)), item = bin(ir, GALE__IR_DIV, rest, u32(ir, QUAD));
    gale__ir_val b = bin(ir, GALE__IR_MIN, add(ir, s->first_item, item), bin(ir, GALE__SUB, s->batch, u32(ir, 1)));
    gale__ir_val at = total_at(s, item, gate, number), own = add(ir, mul(ir, s->quad, u32(ir, QUAD)), number);
    gale__ir_val sum = gale__cell_f32(ir, GALE__ADD, input_at(s, b, gate, own), get(ir, s->totals, at));
    if (lstm) begin_if(ir, test(ir, GALE__LT, gate, u32(ir, 3)));
    set(ir, v, zero, gale__cell_sigmoid(ir, sum));
    if (lstm) {
        begin_else(ir);
        set(ir, v, zero, gale__cell_tanh(ir, sum));
        end(ir);
    }
    set(ir, s->totals, at, get(ir, v, zero));
    end(ir);
    barrier(ir);
}

static gale__ir_val finish_lstm(const step *s, const unit *u)
{
    gale__ir *ir = s->ir;
    gale__ir_val c = gale__ir_load(ir, OTHER, GALE_F32, 1, add(ir, word(ir, W_C_BEFORE), u->at));
    gale__ir_val h = gale__cell_lstm(ir, u->z, &c);
    gale__ir_store(ir, RESULT, GALE_F32, 1, add(ir, word(ir, W_C), u->at), c);
    return h;
}

static gale__ir_val finish_gru(const step *s, const unit *u)
{
    gale__ir *ir = s->ir;
    gale__ir_val late = u->z[2];
    if (s->a->biased) late = gale__cell_f32(ir, GALE__ADD, late, gale__ir_load(ir, OTHER, GALE_F32, 1, u->number));
    gale__ir_val old = gale__ir_load(ir, BEFORE, GALE_F32, 1, add(ir, word(ir, W_BEFORE), u->at));
    return gale__cell_gru(ir, u->z[0], u->z[1], late, u->x[2], old);
}

static gale__ir_val finish_unit(const step *s, const unit *u)
{
    if (s->a->kind == GALE__CELL_LSTM) return finish_lstm(s, u);
    if (s->a->kind == GALE__CELL_GRU) return finish_gru(s, u);
    return gale__cell_tanh(s->ir, gale__cell_f32(s->ir, GALE__ADD, u->x[0], u->z[0]));
}

/* A thread for each unit of each item. */
static void finish_units(const step *s)
{
    gale__ir *ir = s->ir;
    gale__ir_val e = begin_for(ir, s->tid, u32(ir, s->d.each * s->d.blocks * QUAD), s->d.threads);
    gale__ir_val number = bin(ir, GALE__IR_REM, e, u32(ir, QUAD)), item = bin(ir, GALE__IR_DIV, e, u32(ir, QUAD));
    gale__ir_val b = add(ir, s->first_item, item);
    begin_if(ir, test(ir, GALE__LT, b, s->batch));
    unit u = {.number = add(ir, mul(ir, s->quad, u32(ir, QUAD)), number)};
    u.at = add(ir, mul(ir, b, s->hidden), u.number);
    for (uint32_t g = 0; g < s->gates; g++) {
        bool open = s->a->kind == GALE__CELL_LSTM || (s->a->kind == GALE__CELL_GRU && g < 2);
        u.z[g] = get(ir, s->totals, total_at(s, item, u32(ir, g), number));
        if (!open) u.x[g] = input_at(s, b, u32(ir, g), u.number);
    }
    gale__ir_val h = finish_unit(s, &u);
    gale__ir_store(ir, RESULT, GALE_F32, 1, add(ir, word(ir, W_H), u.at), h);
    begin_if(ir, test(ir, GALE__NE, word(ir, W_IS_LAST), u32(ir, 0)));
    gale__ir_store(ir, RESULT, GALE_F32, 1, add(ir, word(ir, W_LAST), u.at), h);
    end(ir);
    end(ir);
    end(ir);
}

static void build(const void *args, const gale_device_caps *caps, int i, gale__ir *ir)
{
    const gale__cpu_cell *a = args;
    step s = {.ir = ir, .a = a, .d = divide(a, caps), .gates = (uint32_t)gates_of(a)};
    (void)i;
    ir->group[0] = s.d.threads;
    ir->readonly = 1u << X | 1u << WEIGHTS | (a->biased ? 1u << OTHER : 0);
    s.tid = thread_id(ir), s.hidden = word(ir, W_HIDDEN), s.batch = word(ir, W_BATCH);
    s.quad = special(ir, GALE__IR_GROUP_ID, 0);
    s.first_item = mul(ir, special(ir, GALE__IR_GROUP_ID, 1), u32(ir, s.d.each * s.d.blocks));
    s.sums = array(ir, GALE__IR_ARRAY, GALE_F32, s.d.sums);
    s.parts = array(ir, GALE__IR_SHARED, GALE_F32, s.d.sums * pitch_of(&s.d));
    s.totals = array(ir, GALE__IR_SHARED, GALE_F32, s.d.blocks * s.d.sums * shares_of(&s.d));
    sum_parts(&s);
    add_up(&s);
    if (a->kind != GALE__CELL_RNN) open_gates(&s);
    finish_units(&s);
}

const gale__kernel_routine gale__cell_kernels = {.describe = describe, .build = build};
