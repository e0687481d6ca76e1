/* The kernel of all steps of a layer of few units.  Neighbouring threads share k of a unit, whose weights for all gates
 * stay in their registers; the sums meet by shuffles, so that each of these threads ends up with those of some items,
 * and opens their gates.  The new state goes to work-group memory, which has that of two steps: of the group itself, or
 * of all groups of the cluster, whose gates open when all units have arrived.  Nobody overwrites what others still
 * read, since a step's state is complete only when every thread has read the one before. */
#include "kernel/routines/cell_loop.h"

enum { QUAD = 4 };

typedef struct close_build {
    gale__loop_build b;
    const gale__cell_close *c;
    gale__loop_registers r;
    uint32_t gates, places, k, row, plane; /* places: of a thread; elements of k, of four k, of a gate */
    gale__ir_val member, unit, slice;      /* of the cluster; of the group; of k */
    gale__ir_val first, copy; /* the first item of this thread; which one of those that have the same items */
    gale__ir_val opens, next; /* gates of the two states; the next input */
    gale__ir_val swap;        /* emulated: an element for each thread */
    gale__ir_val held[GALE__CLOSE_HELD];
} close_build;

static gale__ir_val rem(gale__ir *ir, gale__ir_val a, uint32_t b) { return bin(ir, GALE__IR_REM, a, u32(ir, b)); }
static gale__ir_val quotient(gale__ir *ir, gale__ir_val a, uint32_t b) { return bin(ir, GALE__IR_DIV, a, u32(ir, b)); }
static gale__ir_val times(gale__ir *ir, gale__ir_val a, uint32_t b) { return mul(ir, a, u32(ir, b)); }
static gale__ir_val plus(gale__ir *ir, gale__ir_val a, uint32_t b) { return add(ir, a, u32(ir, b)); }
static gale__ir_val is(gale__ir *ir, gale__ir_val a, uint32_t b) { return test(ir, GALE__EQ, a, u32(ir, b)); }

static uint32_t threads_of(const gale__cell_close *c) { return c->units * c->slices; }
static bool is_sent(const gale__cell_close *c) { return c->groups > 1 && !c->emulated; }
static uint32_t state_size(const close_build *n) { return 2 * n->c->items * n->k; }

/* Where an array of group `member` begins, of which there are as many as groups where these are emulated. */
static gale__ir_val base(const close_build *n, gale__ir_val member, uint32_t size)
{
    gale__ir *ir = n->b.ir;
    return n->c->emulated ? times(ir, member, size) : u32(ir, 0);
}

static gale__ir_val declare(const close_build *n, gale_type type, uint32_t size)
{
    return array(n->b.ir, GALE__IR_SHARED, type, size * (n->c->emulated ? n->c->groups : 1));
}

static void gate(const close_build *n, int op, gale__ir_val which, gale__ir_val phase, uint32_t imm)
{
    gale__ir_add(n->b.ir, (gale__ir_instr){.op = (uint8_t)op, .a = n->opens, .b = which, .c = phase, .imm = imm});
}

static void find_thread(close_build *n)
{
    gale__ir *ir = n->b.ir;
    const gale__cell_close *c = n->c;
    uint32_t threads = threads_of(c), shared = c->items < c->slices ? c->items : c->slices;
    gale__ir_val group = special(ir, GALE__IR_GROUP_ID, 0);
    n->member = c->emulated ? quotient(ir, n->b.tid, threads) : rem(ir, group, c->groups);
    gale__ir_val cluster = c->emulated ? group : quotient(ir, group, c->groups);
    n->b.tid = rem(ir, n->b.tid, threads);
    n->b.first_unit = times(ir, n->member, c->units);
    n->b.first_item = times(ir, cluster, c->items);
    n->unit = quotient(ir, n->b.tid, c->slices);
    n->slice = rem(ir, n->b.tid, c->slices);
    n->copy = quotient(ir, n->slice, shared);
    n->first = u32(ir, 0);
    for (uint32_t lanes = 1, items = c->items / 2; lanes < c->slices && items; lanes *= 2, items /= 2) {
        gale__ir_val upper = test(ir, GALE__NE, bin(ir, GALE__AND, n->slice, u32(ir, lanes)), u32(ir, 0));
        n->first = add(ir, n->first, pick(ir, upper, u32(ir, items), u32(ir, 0)));
    }
}

static gale__loop_place find_place(const close_build *n, uint32_t i)
{
    const gale__loop_build *b = &n->b;
    gale__ir *ir = b->ir;
    gale__loop_place p = {.item = plus(ir, n->first, i), .unit = n->unit};
    gale__ir_val item = add(ir, b->first_item, p.item);
    p.live = both(ir, test(ir, GALE__LT, item, b->batch), is(ir, n->copy, 0));
    p.row = bin(ir, GALE__IR_MIN, item, gale__loop_minus_one(ir, b->batch));
    p.number = add(ir, b->first_unit, n->unit);
    p.at = add(ir, mul(ir, p.row, b->hidden), p.number);
    return p;
}

/* --- The weights: through work-group memory, so that memory is read in rows. --- */

/* [gate][four k][k][unit], each four k 16 bytes apart from the ones before, whose neighbours are in other banks. */
static void stage_weights(const close_build *n, gale__ir_val weights, gale__ir_val at)
{
    gale__ir *ir = n->b.ir;
    const gale__cell_close *c = n->c;
    uint32_t per = n->b.s->type == GALE_F32 ? 4 : 8, vectors = c->units / per;
    gale__ir_val i = begin_for(ir, n->b.tid, u32(ir, n->gates * n->k * vectors), threads_of(c));
    gale__ir_val line = quotient(ir, i, vectors), k = rem(ir, line, n->k), g = quotient(ir, line, n->k);
    gale__ir_val unit = times(ir, rem(ir, i, vectors), per), number = add(ir, n->b.first_unit, unit);
    gale__ir_val block = quotient(ir, number, GALE__CELL_UNITS), column = rem(ir, number, GALE__CELL_UNITS);
    gale__ir_val from = add(ir, mul(ir, add(ir, times(ir, block, n->gates), g), n->b.hidden), k);
    gale__ir_val to = add(ir, times(ir, g, n->plane), times(ir, quotient(ir, k, QUAD), n->row));
    to = add(ir, to, add(ir, times(ir, rem(ir, k, QUAD), c->units), unit));
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_COPY,
                         .width = 4,
                         .a = weights,
                         .b = add(ir, at, to),
                         .c = add(ir, times(ir, from, GALE__CELL_UNITS), column),
                         .d = test(ir, GALE__LT, k, n->b.hidden),
                         .imm = GALE__LOOP_WEIGHTS});
    end(ir);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_COMMIT});
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_WAIT});
    barrier(ir);
}

static void hold_weights(close_build *n)
{
    gale__ir *ir = n->b.ir;
    gale_type type = n->b.s->type;
    uint32_t chunks = n->c->chunks, size = n->gates * n->plane;
    gale__ir_val weights = declare(n, type == GALE_F32 ? GALE_F32 : GALE_U16, size), at = base(n, n->member, size);
    stage_weights(n, weights, at);
    for (uint32_t i = 0; i < n->gates * chunks * QUAD; i++) {
        uint32_t g = i / (chunks * QUAD), j = i / QUAD % chunks;
        gale__ir_val quad = plus(ir, n->slice, j * n->c->slices);
        gale__ir_val from = add(ir, times(ir, quad, n->row), plus(ir, n->unit, g * n->plane + i % QUAD * n->c->units));
        gale_type read = type == GALE_F32 ? GALE_F32 : GALE_U32;
        gale__ir_val w = gale__ir_op2(ir, GALE__IR_GET, read, weights, add(ir, at, from));
        n->held[i] = type == GALE_F32 ? w : gale__ir_decode(ir, type, w);
    }
}

/* --- The state. --- */

static gale__ir_val rounded(const close_build *n, gale__ir_val h)
{
    gale_type type = n->b.s->type;
    return type == GALE_F32 ? h : gale__ir_decode(n->b.ir, type, gale__ir_encode(n->b.ir, type, h));
}

/* The state before the first step, which each group reads for itself; zeros past the last k. */
static void begin_state(close_build *n)
{
    gale__ir *ir = n->b.ir;
    const gale__cell_close *c = n->c;
    n->b.state = declare(n, GALE_F32, state_size(n));
    gale__ir_val at = base(n, n->member, state_size(n));
    gale__ir_val i = begin_for(ir, n->b.tid, u32(ir, state_size(n)), threads_of(c));
    gale__ir_val item = add(ir, n->b.first_item, rem(ir, quotient(ir, i, n->k), c->items)), k = rem(ir, i, n->k);
    gale__ir_val row = bin(ir, GALE__IR_MIN, item, gale__loop_minus_one(ir, n->b.batch));
    gale__ir_val last = gale__loop_minus_one(ir, n->b.hidden);
    gale__ir_val from = add(ir, mul(ir, row, n->b.hidden), bin(ir, GALE__IR_MIN, k, last));
    gale__ir_val h = rounded(n, gale__ir_load(ir, GALE__LOOP_BEFORE, GALE_F32, 1, from));
    set(ir, n->b.state, add(ir, at, i), pick(ir, test(ir, GALE__LT, k, n->b.hidden), h, gale__ir_f32(ir, 0)));
    end(ir);
    if (!is_sent(c)) return;
    n->opens = array(ir, GALE__IR_SHARED, GALE_U64, 2);
    begin_if(ir, is(ir, n->b.tid, 0));
    for (uint32_t i2 = 0; i2 < 2; i2++) gate(n, GALE__IR_GATE_INIT, u32(ir, i2), 0, 1);
    end(ir);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = GALE__IR_CLUSTER});
}

/* Waits for the state of this step, and expects that of the next: `other` is the number of its half. */
static void await_state(const close_build *n, gale__ir_val step, gale__ir_val odd, gale__ir_val other)
{
    gale__ir *ir = n->b.ir;
    if (!is_sent(n->c)) {
        barrier(ir);
        return;
    }
    /* The first state is there: its gate has not opened yet, and so is open for phase 1. */
    gale__ir_val times_opened = bin(ir, GALE__IR_SHR, gale__loop_minus_one(ir, step), u32(ir, 1));
    gate(n, GALE__IR_GATE_WAIT, odd, bin(ir, GALE__AND, times_opened, u32(ir, 1)), 0);
    gale__ir_val more = test(ir, GALE__LT, plus(ir, step, 1), word(ir, GALE__LW_TRIPS));
    begin_if(ir, both(ir, is(ir, n->b.tid, 0), more));
    gate(n, GALE__IR_GATE_EXPECT, other, 0, (uint32_t)n->b.a->hidden * n->c->items * 4);
    end(ir);
    gate(n, GALE__IR_GATE_EXPECT, other, 0, 0);
}

static gale__ir_val from_lane(const close_build *n, gale__ir_val v, uint32_t lanes)
{
    gale__ir *ir = n->b.ir;
    if (!n->c->emulated)
        return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHUFFLE_XOR, .type = GALE_F32, .a = v, .imm = lanes});
    gale__ir_val tid = add(ir, base(n, n->member, threads_of(n->c)), n->b.tid);
    set(ir, n->swap, tid, v);
    barrier(ir);
    gale__ir_val other = get(ir, n->swap, bin(ir, GALE__XOR, tid, u32(ir, lanes)));
    barrier(ir);
    return other;
}

/* This thread's h and those of its neighbours, in the order of their units; how many. */
static uint32_t gather(const close_build *n, gale__ir_val h, gale__ir_val *out)
{
    gale__ir *ir = n->b.ir;
    uint32_t count = 1;
    out[0] = h;
    for (; count < n->c->pack; count *= 2) {
        gale__ir_val upper = test(ir, GALE__NE, bin(ir, GALE__AND, n->unit, u32(ir, count)), u32(ir, 0));
        for (uint32_t i = 0; i < count; i++) {
            gale__ir_val own = out[i], other = from_lane(n, own, count * n->c->slices);
            out[i] = pick(ir, upper, other, own);
            out[count + i] = pick(ir, upper, own, other);
        }
    }
    return count;
}

static void store(const close_build *n, gale__ir_val member, gale__ir_val at, uint32_t count, const gale__ir_val *h)
{
    gale__ir *ir = n->b.ir;
    at = add(ir, at, base(n, member, state_size(n)));
    if (is_sent(n->c))
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SEND,
                             .width = (uint8_t)count,
                             .mem = GALE_F32,
                             .a = n->b.state,
                             .b = at,
                             .c = count > 1 ? gale__ir_pack(ir, (int)count, h) : h[0],
                             .d = member});
    else gale__ir_set_lanes(ir, n->b.state, GALE_F32, (int)count, at, h);
}

/* The new h of a place, to all groups: threads that have the same one share these. */
static void hand_on(const close_build *n, gale__ir_val h, const gale__loop_place *p, gale__ir_val other)
{
    gale__ir *ir = n->b.ir;
    const gale__cell_close *c = n->c;
    uint32_t copies = c->items < c->slices ? c->slices / c->items : 1;
    gale__ir_val lanes[QUAD], to = add(ir, times(ir, add(ir, times(ir, other, c->items), p->item), n->k), p->number);
    if (c->groups == 1) {
        begin_if(ir, is(ir, n->copy, 0));
        store(n, n->member, to, 1, &h);
        end(ir);
        return;
    }
    uint32_t count = gather(n, h, lanes), senders = copies * count;
    gale__ir_val sender = add(ir, times(ir, rem(ir, n->unit, count), copies), n->copy);
    to = bin(ir, GALE__SUB, to, rem(ir, n->unit, count));
    if (senders > c->groups) begin_if(ir, test(ir, GALE__LT, sender, u32(ir, c->groups)));
    for (uint32_t g = 0; g < c->groups; g += senders) store(n, plus(ir, sender, g), to, count, lanes);
    if (senders > c->groups) end(ir);
}

/* --- A step. --- */

/* Sums of all items and gates over this thread's k.  Few of them are made as several, which do not wait for each other.
 */
static void add_products(const close_build *n, gale__ir_val odd, gale__ir_val *sum)
{
    gale__ir *ir = n->b.ir;
    const gale__cell_close *c = n->c;
    uint32_t count = c->items * n->gates, ways = count >= 4 ? 1 : count == 1 ? 4 : 2;
    gale__ir_val way[QUAD * QUAD], from = add(ir, base(n, n->member, state_size(n)), times(ir, odd, c->items * n->k));
    for (uint32_t i = 0; i < count; i++) sum[i] = gale__ir_f32(ir, 0);
    for (uint32_t i = 0; ways > 1 && i < count * ways; i++) way[i] = sum[0];
    for (uint32_t j = 0; j < c->chunks; j++)
        for (uint32_t i = 0; i < c->items; i++) {
            gale__ir_val state[QUAD], quad = times(ir, plus(ir, n->slice, j * c->slices), QUAD);
            gale__ir_get_lanes(ir, n->b.state, GALE_F32, QUAD, add(ir, from, plus(ir, quad, i * n->k)), state);
            for (uint32_t e = 0; e < QUAD * n->gates; e++) {
                uint32_t g = e % n->gates, k = e / n->gates, at = i * n->gates + g;
                gale__ir_val *to = ways > 1 ? &way[at * ways + k % ways] : &sum[at];
                *to = gale__ir_op3(ir, GALE__FMA, GALE_F32, state[k], n->held[(g * c->chunks + j) * QUAD + k], *to);
            }
        }
    for (uint32_t i = 0; ways > 1 && i < count; i++) {
        sum[i] = way[i * ways];
        for (uint32_t w = 1; w < ways; w++) sum[i] = gale__cell_f32(ir, GALE__ADD, sum[i], way[i * ways + w]);
    }
}

/* Adds up the sums of the threads of a unit.  Of two of them each keeps a half of the items while there is more than
 * one. */
static void meet(const close_build *n, gale__ir_val *sum)
{
    gale__ir *ir = n->b.ir;
    uint32_t items = n->c->items;
    for (uint32_t lanes = 1; lanes < n->c->slices; lanes *= 2) {
        gale__ir_val upper = test(ir, GALE__NE, bin(ir, GALE__AND, n->slice, u32(ir, lanes)), u32(ir, 0));
        bool halves = items > 1;
        if (halves) items /= 2;
        for (uint32_t i = 0; i < items * n->gates; i++) {
            gale__ir_val own = sum[i], other = own;
            if (halves) {
                own = pick(ir, upper, sum[items * n->gates + i], sum[i]);
                other = pick(ir, upper, sum[i], sum[items * n->gates + i]);
            }
            sum[i] = gale__cell_f32(ir, GALE__ADD, own, from_lane(n, other, lanes));
        }
    }
}

static void add_loop(close_build *n)
{
    gale__ir *ir = n->b.ir;
    gale__ir_val sum[GALE__CLOSE_SUMS], step = begin_for(ir, u32(ir, 0), word(ir, GALE__LW_TRIPS), 1);
    gale__ir_val odd = bin(ir, GALE__AND, step, u32(ir, 1)), other = bin(ir, GALE__XOR, odd, u32(ir, 1));
    for (uint32_t i = 0; i < n->places; i++) {
        gale__loop_place p = find_place(n, i);
        gale__loop_load_input(&n->b, &p, gale__loop_next(&n->b, step), n->next, i * n->gates);
    }
    await_state(n, step, odd, other);
    add_products(n, odd, sum);
    meet(n, sum);
    gale__ir_val more = test(ir, GALE__LT, plus(ir, step, 1), word(ir, GALE__LW_TRIPS));
    for (uint32_t i = 0; i < n->places; i++) {
        gale__loop_place p = find_place(n, i);
        gale__ir_val h = rounded(n, gale__loop_finish(&n->b, &n->r, i, step, sum + i * n->gates));
        begin_if(ir, more);
        hand_on(n, h, &p, other);
        end(ir);
    }
    for (uint32_t i = 0; i < n->places; i++) {
        gale__loop_place p = find_place(n, i);
        gale__loop_give_step(&n->b, &n->r, i, &p, step);
    }
    for (uint32_t i = 0; i < n->places * n->gates; i++) set(ir, n->r.x, u32(ir, i), get(ir, n->next, u32(ir, i)));
    end(ir);
}

void gale__cell_close_build(const gale__cpu_cell *a, const gale__cell_loop *s, gale__ir *ir)
{
    const gale__cell_close *c = &s->close;
    close_build n = {.b = {.ir = ir, .a = a, .s = s}, .c = c, .gates = s->gates};
    gale__loop_begin(&n.b);
    ir->group[0] = threads_of(c) * (c->emulated ? c->groups : 1);
    ir->cluster = is_sent(c) ? (uint8_t)c->groups : 0;
    n.places = c->items > c->slices ? c->items / c->slices : 1;
    n.k = QUAD * c->chunks * c->slices;
    n.row = QUAD * c->units + (s->type == GALE_F32 ? 4 : 8);
    n.plane = n.k / QUAD * n.row;
    find_thread(&n);
    if (c->emulated) n.swap = declare(&n, GALE_F32, threads_of(c));
    begin_state(&n);
    hold_weights(&n);
    gale__loop_begin_registers(&n.b, n.places, &n.r);
    n.next = array(ir, GALE__IR_ARRAY, GALE_F32, n.places * n.gates);
    for (uint32_t i = 0; i < n.places; i++) {
        gale__loop_place p = find_place(&n, i);
        gale__loop_load_registers(&n.b, &n.r, i, &p);
    }
    add_loop(&n);
    for (uint32_t i = 0; i < n.places; i++) {
        gale__loop_place p = find_place(&n, i);
        gale__loop_give_last(&n.b, &n.r, i, &p);
    }
}
