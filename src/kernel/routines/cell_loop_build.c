/* The kernel of all steps: a loop in which groups wait for the state of the step before, add up its products, open the
 * gates and hand the new state on.  What a thread needs of its own units (the last h and c, the input of the next
 * step) stays in its registers; all that need not be waited for is done between arriving and waiting. */
#include "kernel/routines/cell_loop.h"

/* Units of a row are neighbours.  With matrix units the two rows of a subgroup are two apart, whose sums are in other
 * banks. */
static void number_unit(const gale__loop_build *b, gale__loop_place *p)
{
    gale__ir *ir = b->ir;
    const gale__cell_loop *s = b->s;
    gale__ir_val row = bin(ir, GALE__IR_DIV, b->tid, u32(ir, s->units));
    p->unit = bin(ir, GALE__IR_REM, b->tid, u32(ir, s->units));
    p->item = bin(ir, GALE__IR_MIN, row, u32(ir, s->items - 1));
    if (!s->matrix) return;
    gale__ir_val bit0 = bin(ir, GALE__AND, row, u32(ir, 1)), bit1 = bin(ir, GALE__AND, row, u32(ir, 2));
    gale__ir_val swapped = add(ir, bin(ir, GALE__IR_SHL, bit0, u32(ir, 1)), bin(ir, GALE__IR_SHR, bit1, u32(ir, 1)));
    p->item = add(ir, bin(ir, GALE__AND, row, u32(ir, ~3u)), swapped);
}

static gale__loop_place find_place(const gale__loop_build *b, uint32_t tile)
{
    gale__ir *ir = b->ir;
    const gale__cell_loop *s = b->s;
    gale__loop_place p;
    number_unit(b, &p);
    gale__ir_val item = add(ir, b->first_item, add(ir, p.item, u32(ir, tile * s->items)));
    gale__ir_val unit = add(ir, b->first_unit, p.unit);
    p.live = both(ir, test(ir, GALE__LT, item, b->batch), test(ir, GALE__LT, unit, b->hidden));
    if (s->units * s->items < GALE__LOOP_THREADS)
        p.live = both(ir, p.live, test(ir, GALE__LT, b->tid, u32(ir, s->units * s->items)));
    p.row = bin(ir, GALE__IR_MIN, item, gale__loop_minus_one(ir, b->batch));
    p.number = bin(ir, GALE__IR_MIN, unit, gale__loop_minus_one(ir, b->hidden));
    p.at = add(ir, mul(ir, p.row, b->hidden), p.number);
    return p;
}

void gale__loop_load_input(
    const gale__loop_build *b, const gale__loop_place *p, gale__ir_val step, gale__ir_val to, uint32_t at)
{
    gale__ir *ir = b->ir;
    gale__ir_val first = add(ir, word(ir, GALE__LW_X_FIRST), mul(ir, step, word(ir, GALE__LW_X_STEP)));
    for (uint32_t g = 0; g < b->s->gates; g++) {
        gale__ir_val row = add(ir, mul(ir, p->row, u32(ir, b->s->gates)), u32(ir, g));
        gale__ir_val from = add(ir, first, add(ir, mul(ir, row, b->hidden), p->number));
        gale__ir_val x;
        gale__ir_load_as(ir, GALE__LOOP_X, b->s->type == GALE_F16 ? GALE_F16 : GALE_F32, 1, from, &x);
        set(ir, to, u32(ir, at + g), x);
    }
}

void gale__loop_begin_registers(const gale__loop_build *b, uint32_t tiles, gale__loop_registers *r)
{
    gale__ir *ir = b->ir;
    r->h = array(ir, GALE__IR_ARRAY, GALE_F32, tiles);
    r->y = array(ir, GALE__IR_ARRAY, GALE_F32, tiles);
    r->x = array(ir, GALE__IR_ARRAY, GALE_F32, tiles * b->s->gates);
    if (b->a->kind == GALE__CELL_LSTM) r->c = array(ir, GALE__IR_ARRAY, GALE_F32, tiles);
    if (b->a->biased) r->bias = array(ir, GALE__IR_ARRAY, GALE_F32, tiles);
    if (b->a->timed) r->length = array(ir, GALE__IR_ARRAY, GALE_I32, tiles);
}

void gale__loop_load_registers(
    const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, const gale__loop_place *p)
{
    gale__ir *ir = b->ir;
    gale__ir_val at = u32(ir, tile);
    set(ir, r->h, at, gale__ir_load(ir, GALE__LOOP_BEFORE, GALE_F32, 1, p->at));
    if (r->c) set(ir, r->c, at, gale__ir_load(ir, GALE__LOOP_OTHER, GALE_F32, 1, p->at));
    if (r->bias) set(ir, r->bias, at, gale__ir_load(ir, GALE__LOOP_OTHER, GALE_F32, 1, p->number));
    if (r->length) set(ir, r->length, at, gale__ir_load(ir, GALE__LOOP_LENGTHS, GALE_I32, 1, p->row));
    gale__loop_load_input(b, p, u32(ir, 0), r->x, tile * b->s->gates);
}

/* The new h, and the new c of an LSTM. */
static gale__ir_val open_gates(
    const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, gale__ir_val *z, gale__ir_val *c)
{
    gale__ir *ir = b->ir;
    gale__ir_val x[GALE__CELL_GATES];
    uint32_t gates = b->s->gates;
    for (uint32_t g = 0; g < gates; g++) {
        x[g] = get(ir, r->x, u32(ir, tile * gates + g));
        if (g < 2 || gates != 3) z[g] = gale__cell_f32(ir, GALE__ADD, x[g], z[g]);
    }
    if (gates == 1) return gale__cell_tanh(ir, z[0]);
    for (uint32_t g = 0; g < gates - 1; g++)
        if (g < 2 || gates == 4) z[g] = gale__cell_sigmoid(ir, z[g]);
    if (gates == 4) {
        z[3] = gale__cell_tanh(ir, z[3]);
        return gale__cell_lstm(ir, z, c);
    }
    if (r->bias) z[2] = gale__cell_f32(ir, GALE__ADD, z[2], get(ir, r->bias, u32(ir, tile)));
    return gale__cell_gru(ir, z[0], z[1], z[2], x[2], get(ir, r->h, u32(ir, tile)));
}

/* A sequence that has ended keeps its state and gives out zeros. */
static void end_sequence(const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, gale__ir_val step,
    gale__ir_val *h, gale__ir_val *c, gale__ir_val *y)
{
    gale__ir *ir = b->ir;
    gale__ir_val t = add(ir, word(ir, GALE__LW_T_FIRST), mul(ir, step, word(ir, GALE__LW_T_STEP)));
    gale__ir_val goes_on =
        gale__ir_op2(ir, GALE__LT, GALE_BOOL, convert(ir, GALE_I32, t), get(ir, r->length, u32(ir, tile)));
    *y = pick(ir, goes_on, *h, gale__ir_f32(ir, 0));
    *h = pick(ir, goes_on, *h, get(ir, r->h, u32(ir, tile)));
    if (*c) *c = pick(ir, goes_on, *c, get(ir, r->c, u32(ir, tile)));
}

gale__ir_val gale__loop_finish(
    const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, gale__ir_val step, gale__ir_val *sums)
{
    gale__ir *ir = b->ir;
    gale__ir_val at = u32(ir, tile), c = r->c ? get(ir, r->c, at) : 0, h = open_gates(b, r, tile, sums, &c), y = h;
    if (b->a->timed) end_sequence(b, r, tile, step, &h, &c, &y);
    set(ir, r->h, at, h);
    set(ir, r->y, at, y);
    if (c) set(ir, r->c, at, c);
    return h;
}

/* The state of a tile after this step: to the registers, and to the groups that wait for it. */
static void finish_tile(
    const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, gale__ir_val step, gale__ir_val to)
{
    gale__ir *ir = b->ir;
    gale__loop_place p = find_place(b, tile);
    gale__ir_val sums[GALE__CELL_GATES];
    for (uint32_t g = 0; g < b->s->gates; g++) sums[g] = gale__loop_sum(b, g, p.item, p.unit);
    gale__ir_val h = gale__loop_finish(b, r, tile, step, sums);
    begin_if(ir, p.live);
    gale__ir_store_as(ir, GALE__LOOP_SPACE, b->s->type, 1, add(ir, to, p.at), &h);
    end(ir);
}

static void give_out(const gale__loop_build *b, gale__ir_val at, gale__ir_val v)
{
    gale__ir_store_as(b->ir, GALE__LOOP_RESULT, b->s->type, 1, at, &v);
}

void gale__loop_give_step(const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile,
    const gale__loop_place *p, gale__ir_val step)
{
    gale__ir *ir = b->ir;
    gale__ir_val first = add(ir, word(ir, GALE__LW_H_FIRST), mul(ir, step, word(ir, GALE__LW_H_STEP)));
    begin_if(ir, p->live);
    give_out(b, add(ir, first, p->at), get(ir, r->y, u32(ir, tile)));
    end(ir);
}

gale__ir_val gale__loop_next(const gale__loop_build *b, gale__ir_val step)
{
    gale__ir *ir = b->ir;
    return bin(ir, GALE__IR_MIN, add(ir, step, u32(ir, 1)), gale__loop_minus_one(ir, word(ir, GALE__LW_TRIPS)));
}

/* What nobody waits for: the result of this step, and the input of the next. */
static void follow_up(const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, gale__ir_val step)
{
    gale__loop_place p = find_place(b, tile);
    gale__loop_load_input(b, &p, gale__loop_next(b, step), r->x, tile * b->s->gates);
    gale__loop_give_step(b, r, tile, &p, step);
}

static void meet(gale__ir *ir, int op, gale__ir_val counter, gale__ir_val count)
{
    gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op, .a = counter, .b = count, .imm = GALE__LOOP_SPACE});
}

static void add_loop(gale__loop_build *b, const gale__loop_registers *r)
{
    gale__ir *ir = b->ir;
    gale__ir_val size = mul(ir, b->batch, b->hidden), state = word(ir, GALE__LW_STATE);
    gale__ir_val counter = mul(ir, special(ir, GALE__IR_GROUP_ID, 1), u32(ir, GALE__LOOP_COUNTER));
    gale__ir_val step = begin_for(ir, u32(ir, 0), word(ir, GALE__LW_TRIPS), 1);
    gale__ir_val odd = bin(ir, GALE__AND, step, u32(ir, 1));
    gale__ir_val from = add(ir, state, mul(ir, odd, size)),
                 to = add(ir, state, mul(ir, bin(ir, GALE__XOR, odd, u32(ir, 1)), size));
    meet(ir, GALE__IR_AWAIT, counter, mul(ir, step, special(ir, GALE__IR_GROUP_COUNT, 0)));
    for (uint32_t t = 0; t < b->s->tiles; t++) {
        gale__loop_add_products(b, t, from);
        finish_tile(b, r, t, step, to);
    }
    meet(ir, GALE__IR_ARRIVE, counter, 0);
    for (uint32_t t = 0; t < b->s->tiles; t++) follow_up(b, r, t, step);
    end(ir);
}

void gale__loop_give_last(
    const gale__loop_build *b, const gale__loop_registers *r, uint32_t tile, const gale__loop_place *p)
{
    gale__ir *ir = b->ir;
    gale__ir_val at = add(ir, word(ir, GALE__LW_LAST), p->at);
    begin_if(ir, p->live);
    give_out(b, at, get(ir, r->h, u32(ir, tile)));
    if (r->c) give_out(b, add(ir, at, mul(ir, b->batch, b->hidden)), get(ir, r->c, u32(ir, tile)));
    end(ir);
}

void gale__loop_begin(gale__loop_build *b)
{
    gale__ir *ir = b->ir;
    bool narrow = b->s->type != GALE_F32;
    ir->math = narrow ? GALE__IR_FAST : 0; /* more exact than halves are */
    ir->readonly = 1u << GALE__LOOP_X | 1u << GALE__LOOP_WEIGHTS | 1u << GALE__LOOP_BEFORE | 1u << GALE__LOOP_OTHER |
                   1u << GALE__LOOP_LENGTHS;
    b->tid = thread_id(ir), b->hidden = word(ir, GALE__LW_HIDDEN), b->batch = word(ir, GALE__LW_BATCH);
}

void gale__cell_loop_build(const gale__cpu_cell *a, const gale__cell_loop *s, gale__ir *ir)
{
    gale__loop_build b = {.ir = ir, .a = a, .s = s};
    gale__loop_registers r = {0};
    gale__loop_begin(&b);
    ir->group[0] = GALE__LOOP_THREADS;
    ir->subgroup = s->matrix ? GALE__LOOP_LANES : 0;
    b.first_unit = mul(ir, special(ir, GALE__IR_GROUP_ID, 0), u32(ir, s->units));
    b.first_item = mul(ir, special(ir, GALE__IR_GROUP_ID, 1), u32(ir, s->items * s->tiles));
    gale__loop_declare(&b);
    gale__loop_load_weights(&b);
    gale__loop_begin_registers(&b, s->tiles, &r);
    for (uint32_t t = 0; t < s->tiles; t++) {
        gale__loop_place p = find_place(&b, t);
        gale__loop_load_registers(&b, &r, t, &p);
    }
    add_loop(&b, &r);
    for (uint32_t t = 0; t < s->tiles; t++) {
        gale__loop_place p = find_place(&b, t);
        gale__loop_give_last(&b, &r, t, &p);
    }
}

void gale__cell_loop_prepare(const gale__cpu_cell *a, const gale__cell_loop *s, gale__ir *ir)
{
    (void)a;
    ir->group[0] = GALE__LOOP_THREADS;
    ir->readonly = 1u << GALE__LOOP_BEFORE;
    gale__ir_val i = add(ir, mul(ir, special(ir, GALE__IR_GROUP_ID, 0), u32(ir, GALE__LOOP_THREADS)), thread_id(ir));
    begin_if(ir, test(ir, GALE__LT, i, word(ir, GALE__LW_COUNTERS)));
    gale__ir_store(ir, GALE__LOOP_SPACE, GALE_U32, 1, i, u32(ir, 0));
    end(ir);
    begin_if(ir, test(ir, GALE__LT, i, mul(ir, word(ir, GALE__LW_BATCH), word(ir, GALE__LW_HIDDEN))));
    gale__ir_val h = gale__ir_load(ir, GALE__LOOP_BEFORE, GALE_F32, 1, i);
    gale__ir_store_as(ir, GALE__LOOP_SPACE, s->type, 1, add(ir, word(ir, GALE__LW_STATE), i), &h);
    end(ir);
}
