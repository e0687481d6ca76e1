/* The products of a step within its group: weights and state in work-group memory, multiplied by matrix units for f16
 * and bf16, by ordinary threads for f32.  k is divided among subgroups, or threads, whose parts of the sums meet in
 * work-group memory. */
#include "kernel/routines/cell_loop.h"

enum { MATRIX = 16, QUAD = 4 };

static gale__ir_val rem(gale__ir *ir, gale__ir_val a, uint32_t b) { return bin(ir, GALE__IR_REM, a, u32(ir, b)); }
static gale__ir_val quotient(gale__ir *ir, gale__ir_val a, uint32_t b) { return bin(ir, GALE__IR_DIV, a, u32(ir, b)); }
static gale__ir_val times(gale__ir *ir, gale__ir_val a, uint32_t b) { return mul(ir, a, u32(ir, b)); }
static gale__ir_val plus(gale__ir *ir, gale__ir_val a, uint32_t b) { return add(ir, a, u32(ir, b)); }

static void effect(gale__ir *ir, int op, uint64_t imm)
{
    gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op, .imm = imm});
}

/* 16 bytes from memory to work-group memory. */
static void copy(gale__ir *ir, gale__ir_val to, gale__ir_val at, int pointer, gale__ir_val from, gale__ir_val ok)
{
    gale__ir_add(
        ir, (gale__ir_instr){
                .op = GALE__IR_COPY, .width = 4, .a = to, .b = at, .c = from, .d = ok, .imm = (uint64_t)pointer});
}

static void finish_copies(gale__ir *ir)
{
    effect(ir, GALE__IR_COMMIT, 0);
    effect(ir, GALE__IR_WAIT, 0);
    barrier(ir);
}

void gale__loop_declare(gale__loop_build *b)
{
    const gale__cell_loop *s = b->s;
    gale_type type = s->matrix ? GALE_U16 : GALE_F32;
    uint32_t sums = gale__loop_sums(s);
    b->weights = array(b->ir, GALE__IR_SHARED, type, s->gates * s->plane);
    b->state = array(b->ir, GALE__IR_SHARED, type, s->items * s->row);
    b->parts = array(b->ir, GALE__IR_SHARED, GALE_F32, s->matrix ? s->parts * MATRIX * s->pitch : sums * s->pitch);
    b->sums = s->matrix ? array(b->ir, GALE__IR_SUMS, GALE_F32, s->gates / s->gate_warps)
                        : array(b->ir, GALE__IR_ARRAY, GALE_F32, sums);
}

/* --- Matrix units. --- */

static gale__ir_val warp_of(const gale__loop_build *b) { return quotient(b->ir, b->tid, GALE__LOOP_LANES); }

/* Where this subgroup's k of product number `step` begins. */
static gale__ir_val k_of(const gale__loop_build *b, uint32_t step)
{
    gale__ir_val part = rem(b->ir, warp_of(b), b->s->k_warps);
    return times(b->ir, plus(b->ir, part, step * b->s->k_warps), MATRIX);
}

static gale__ir_val first_gate(const gale__loop_build *b)
{
    const gale__cell_loop *s = b->s;
    return times(b->ir, quotient(b->ir, warp_of(b), s->k_warps), s->gates / s->gate_warps);
}

static gale__ir_val matrix(const gale__loop_build *b, int op, gale__ir_val from, gale__ir_val at, uint32_t row)
{
    return gale__ir_add(
        b->ir, (gale__ir_instr){.op = (uint8_t)op, .type = (uint8_t)b->s->type, .a = from, .b = at, .imm = row});
}

static gale__ir_val factor_of(const gale__loop_build *b, uint32_t step, uint32_t gate)
{
    gale__ir *ir = b->ir;
    gale__ir_val at = add(ir, times(ir, plus(ir, first_gate(b), gate), b->s->plane), times(ir, k_of(b, step), MATRIX));
    return matrix(b, GALE__IR_MATRIX_B, b->weights, at, MATRIX);
}

static void add_matrices(const gale__loop_build *b)
{
    gale__ir *ir = b->ir;
    const gale__cell_loop *s = b->s;
    uint32_t gates = s->gates / s->gate_warps;
    for (uint32_t g = 0; g < gates; g++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_ZERO, .a = b->sums, .imm = g});
    for (uint32_t i = 0; i < s->steps; i++) {
        gale__ir_val state = matrix(b, GALE__IR_MATRIX_A, b->state, k_of(b, i), s->row);
        for (uint32_t g = 0; g < gates; g++)
            gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_ADD,
                                 .a = b->sums,
                                 .b = state,
                                 .c = s->held ? b->factor[i * gates + g] : factor_of(b, i, g),
                                 .imm = g});
    }
    gale__ir_val part = rem(ir, warp_of(b), s->k_warps), row = times(ir, part, MATRIX * s->pitch);
    for (uint32_t g = 0; g < gates; g++)
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SUMS_STORE,
                             .a = b->sums,
                             .b = b->parts,
                             .c = add(ir, row, times(ir, plus(ir, first_gate(b), g), MATRIX)),
                             .imm = g | (uint64_t)s->pitch << 32});
}

/* --- Ordinary threads. --- */

/* Which items, units and gates are this thread's. */
static gale__ir_val block_of(const gale__loop_build *b) { return rem(b->ir, b->tid, b->s->blocks); }
static gale__ir_val quad_of(const gale__loop_build *b)
{
    return rem(b->ir, quotient(b->ir, b->tid, b->s->blocks), b->s->quads);
}
static gale__ir_val gate_of(const gale__loop_build *b)
{
    gale__ir_val part = rem(b->ir, quotient(b->ir, b->tid, b->s->blocks * b->s->quads), b->s->gate_parts);
    return times(b->ir, part, b->s->tile_gates);
}

/* Four elements of the state from k on, for each item, by their weights. */
static void add_four(const gale__loop_build *b, gale__ir_val k)
{
    gale__ir *ir = b->ir;
    const gale__cell_loop *s = b->s;
    gale__ir_val state[8][QUAD], weights[GALE__CELL_GATES][QUAD];
    for (uint32_t i = 0; i < s->each; i++) {
        gale__ir_val row = times(ir, plus(ir, block_of(b), i * s->blocks), s->row);
        gale__ir_get_lanes(ir, b->state, GALE_F32, QUAD, add(ir, row, k), state[i]);
    }
    gale__ir_val first = add(ir, times(ir, gate_of(b), s->plane), times(ir, quad_of(b), QUAD));
    for (uint32_t j = 0; j < QUAD; j++) {
        for (uint32_t g = 0; g < s->tile_gates; g++) {
            gale__ir_val at = add(ir, first, plus(ir, times(ir, k, s->units), g * s->plane + j * s->units));
            gale__ir_get_lanes(ir, b->weights, GALE_F32, QUAD, at, weights[g]);
        }
        for (uint32_t n = 0; n < gale__loop_sums(s); n++) {
            uint32_t i = n / (s->tile_gates * QUAD), g = n / QUAD % s->tile_gates;
            gale__ir_val sum = get(ir, b->sums, u32(ir, n));
            set(ir, b->sums, u32(ir, n), gale__ir_op3(ir, GALE__FMA, GALE_F32, state[i][j], weights[g][n % QUAD], sum));
        }
    }
}

static gale__ir_val from_lane(gale__ir *ir, gale__ir_val v, uint32_t lanes)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHUFFLE_XOR, .type = GALE_F32, .a = v, .imm = lanes});
}

/* Adds up the sums of threads of a subgroup that differ in their part of k alone.  Of two such threads each keeps a
 * half of the sums, while there is more than one; `first` is the number of the first one left, `owner` whether it is
 * this thread that stores them.  Returns how many. */
static uint32_t shuffle(const gale__loop_build *b, gale__ir_val *sum, gale__ir_val *first, gale__ir_val *owner)
{
    gale__ir *ir = b->ir;
    uint32_t n = gale__loop_sums(b->s), lanes = gale__loop_side(b->s);
    *first = u32(ir, 0), *owner = 0;
    for (uint32_t round = 0; round < b->s->rounds; round++, lanes *= 2) {
        gale__ir_val upper = test(ir, GALE__NE, bin(ir, GALE__AND, b->tid, u32(ir, lanes)), u32(ir, 0));
        if (n % 2) {
            gale__ir_val lower = gale__ir_op1(ir, GALE__NOT, GALE_BOOL, upper);
            *owner = *owner ? both(ir, *owner, lower) : lower;
            for (uint32_t i = 0; i < n; i++)
                sum[i] = gale__cell_f32(ir, GALE__ADD, sum[i], from_lane(ir, sum[i], lanes));
            continue;
        }
        n /= 2;
        *first = add(ir, *first, pick(ir, upper, u32(ir, n), u32(ir, 0)));
        for (uint32_t i = 0; i < n; i++) {
            gale__ir_val own = pick(ir, upper, sum[n + i], sum[i]), other = pick(ir, upper, sum[i], sum[n + i]);
            sum[i] = gale__cell_f32(ir, GALE__ADD, own, from_lane(ir, other, lanes));
        }
    }
    return n;
}

static void add_plainly(const gale__loop_build *b)
{
    gale__ir *ir = b->ir;
    const gale__cell_loop *s = b->s;
    uint32_t count = gale__loop_sums(s), side = gale__loop_side(s), slices = GALE__LOOP_THREADS / side;
    gale__ir_val sum[8 * GALE__CELL_GATES * QUAD], first, owner;
    for (uint32_t n = 0; n < count; n++) set(ir, b->sums, u32(ir, n), gale__ir_f32(ir, 0));
    gale__ir_val slice = quotient(ir, b->tid, side);
    gale__ir_val k = begin_for(ir, times(ir, slice, QUAD), b->hidden, slices * QUAD);
    add_four(b, k);
    end(ir);
    for (uint32_t n = 0; n < count; n++) sum[n] = get(ir, b->sums, u32(ir, n));
    count = shuffle(b, sum, &first, &owner);
    gale__ir_val part = quotient(ir, slice, 1u << s->rounds);
    gale__ir_val at = add(ir, times(ir, first, s->pitch), add(ir, times(ir, part, side), rem(ir, b->tid, side)));
    if (owner) begin_if(ir, owner);
    for (uint32_t n = 0; n < count; n++) set(ir, b->parts, plus(ir, at, n * s->pitch), sum[n]);
    if (owner) end(ir);
}

/* --- Either. --- */

/* [blocks of units, gates, hidden, units of a block]: this group's units, zeros past the last k. */
void gale__loop_load_weights(gale__loop_build *b)
{
    gale__ir *ir = b->ir;
    const gale__cell_loop *s = b->s;
    uint32_t per = s->matrix ? 8 : QUAD, chunks = s->units / per;
    gale__ir_val block = quotient(ir, b->first_unit, GALE__CELL_UNITS),
                 first = rem(ir, b->first_unit, GALE__CELL_UNITS);
    gale__ir_val c = begin_for(ir, b->tid, u32(ir, s->gates * s->k * chunks), GALE__LOOP_THREADS);
    gale__ir_val row = quotient(ir, c, chunks), k = rem(ir, row, s->k), gate = quotient(ir, row, s->k);
    gale__ir_val from = add(ir, mul(ir, add(ir, times(ir, block, s->gates), gate), b->hidden), k);
    gale__ir_val column = times(ir, rem(ir, c, chunks), per);
    gale__ir_val to = add(ir, times(ir, gate, s->plane), add(ir, times(ir, k, s->units), column));
    copy(ir, b->weights, to, GALE__LOOP_WEIGHTS, add(ir, times(ir, from, GALE__CELL_UNITS), add(ir, first, column)),
        test(ir, GALE__LT, k, b->hidden));
    end(ir);
    finish_copies(ir);
    uint32_t gates = s->matrix ? s->gates / s->gate_warps : 0;
    for (uint32_t i = 0; s->held && i < s->steps * gates; i++) b->factor[i] = factor_of(b, i / gates, i % gates);
}

static void copy_state(const gale__loop_build *b, uint32_t tile, gale__ir_val from)
{
    gale__ir *ir = b->ir;
    const gale__cell_loop *s = b->s;
    uint32_t per = s->matrix ? 8 : QUAD, chunks = s->k / per, total = s->items * chunks;
    for (uint32_t first = 0; first < total; first += GALE__LOOP_THREADS) {
        gale__ir_val c = plus(ir, b->tid, first), row = quotient(ir, c, chunks), k = times(ir, rem(ir, c, chunks), per);
        gale__ir_val item = plus(ir, add(ir, b->first_item, row), tile * s->items);
        gale__ir_val ok = both(ir, test(ir, GALE__LT, item, b->batch), test(ir, GALE__LT, k, b->hidden));
        bool part = first + GALE__LOOP_THREADS > total;
        if (part) begin_if(ir, test(ir, GALE__LT, c, u32(ir, total)));
        copy(ir, b->state, add(ir, times(ir, row, s->row), k), GALE__LOOP_SPACE,
            add(ir, from, add(ir, mul(ir, item, b->hidden), k)), ok);
        if (part) end(ir);
    }
    finish_copies(ir);
}

void gale__loop_add_products(gale__loop_build *b, uint32_t tile, gale__ir_val from)
{
    copy_state(b, tile, from);
    if (b->s->matrix) add_matrices(b);
    else add_plainly(b);
    barrier(b->ir);
}

/* Where part 0 is, and how far it is to the next. */
static gale__ir_val part_at(
    const gale__loop_build *b, uint32_t gate, gale__ir_val item, gale__ir_val unit, uint32_t *next)
{
    gale__ir *ir = b->ir;
    const gale__cell_loop *s = b->s;
    *next = s->matrix ? MATRIX * s->pitch : gale__loop_side(s);
    if (s->matrix) return add(ir, times(ir, item, s->pitch), plus(ir, unit, gate * MATRIX));
    gale__ir_val number = plus(ir, times(ir, quotient(ir, item, s->blocks), s->tile_gates), gate % s->tile_gates);
    gale__ir_val sum = add(ir, times(ir, number, QUAD), rem(ir, unit, QUAD));
    gale__ir_val column = plus(ir, quotient(ir, unit, QUAD), gate / s->tile_gates * s->quads);
    return add(ir, times(ir, sum, s->pitch), add(ir, times(ir, column, s->blocks), rem(ir, item, s->blocks)));
}

gale__ir_val gale__loop_sum(const gale__loop_build *b, uint32_t gate, gale__ir_val item, gale__ir_val unit)
{
    enum { UNROLLED = 8 };
    gale__ir *ir = b->ir;
    uint32_t next;
    gale__ir_val at = part_at(b, gate, item, unit, &next), sum = get(ir, b->parts, at);
    for (uint32_t i = 1; i < b->s->parts && i < UNROLLED; i++)
        sum = gale__cell_f32(ir, GALE__ADD, sum, get(ir, b->parts, plus(ir, at, i * next)));
    if (b->s->parts <= UNROLLED) return sum;
    gale__ir_val total = variable(ir, GALE_F32), zero = u32(ir, 0);
    set(ir, total, zero, sum);
    gale__ir_val i = begin_for(ir, u32(ir, UNROLLED), u32(ir, b->s->parts), 1);
    gale__ir_val part = get(ir, b->parts, add(ir, at, times(ir, i, next)));
    set(ir, total, zero, gale__cell_f32(ir, GALE__ADD, get(ir, total, zero), part));
    end(ir);
    return get(ir, total, zero);
}
