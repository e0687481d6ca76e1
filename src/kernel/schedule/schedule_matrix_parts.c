/* MATRIX: parts of both operands on their way into work-group memory, copied directly if possible, else through
 * registers, where the operand's own instructions run.  Bytes lie there along k, since nothing turns them later: those
 * that run along a side in memory are turned by fours on their way. */
#include "kernel/schedule/schedule_matrix.h"

/* How a part is divided among the threads: neighbours in memory go to neighbouring threads. */
gale_status gale__matrix_part_begin(gale__matrix *t, int which)
{
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    gale__matrix_part *p = &t->parts[which];
    int operand = gale__schedule_tile_operand(s, &t->tile.tiling.contraction, which);
    uint32_t wide = s->wide[which];
    p->which = which;
    p->core = gale__schedule_matrix_core(t->tile.tiling.emit.nest, operand);
    p->access = s->async >> which & 1 ? gale__schedule_matrix_access(t->tile.tiling.emit.nest, operand) : -1;
    p->type = (gale_type)t->tile.tiling.emit.nest->code[p->core].type;
    p->size = which ? s->tile_n : s->tile_m;
    bool along_k = gale__schedule_matrix_along_k(s, which);
    p->turns = along_k && !s->fast[which];
    p->row = (along_k ? s->tile_k : p->size) + (s->groups ? 0 : gale__schedule_matrix_unit(s));
    p->at = s->keep && which ? s->stages * t->stage : t->stage;
    p->share = p->row * (along_k ? p->size : s->tile_k);
    if (!s->keep || !which) t->stage += p->share * gale__schedule_matrix_shares(s);
    p->emit.outer_blocks = p->emit.outer_vector = p->emit.inner_blocks = p->emit.inner_vector = 1;
    p->per = (s->fast[which] ? s->tile_k : p->size) / wide;
    uint32_t across = gale__schedule_matrix_copiers(s) / p->per;
    int lanes = p->access < 0 ? (int)wide : 1; /* a copy does not check elements individually */
    if (s->fast[which]) {
        p->emit.inner_vector = lanes;
        p->step_side = across;
        p->emit.outer_blocks = (int)(p->size / across);
    } else {
        p->emit.outer_vector = lanes;
        p->step_k = across; /* turned: four neighbours along k for each thread */
        p->emit.inner_blocks = (int)(s->tile_k / across);
    }
    GALE_TRY(gale__emit_begin_within(&p->emit, &t->tile.tiling.emit));
    p->emit.vector_dim =
        gale__schedule_tile_vector_dim(t->tile.tiling.emit.nest, s, &t->tile.tiling.contraction, which);
    return GALE_OK;
}

/* Padding of copies: a zero point, where it is not 0. */
static void place_fill(gale__matrix_part *p)
{
    const gale__nest_access *a = &p->emit.nest->accesses[p->access];
    uint32_t byte = (uint32_t)(a->fill & 255);
    if (a->n_guards && byte) p->fill = gale__ir_u32(p->emit.ir, byte * 0x01010101u);
}

/* The column that lies at place `at`: bits 1 and 2 say which thread of four has its sums, and `vector` columns of each
 * thread are neighbours (schedule_matrix_store.c). */
static gale__ir_val column_at(gale__ir *ir, gale__ir_val at, uint32_t vector)
{
    gale__ir_val thread = op32(ir, GALE__AND, op32(ir, GALE__IR_SHL, at, vector == 16 ? 3 : 2), 3 * vector);
    gale__ir_val pair = op32(ir, GALE__AND, op32(ir, GALE__IR_SHR, at, 2), vector - 2);
    return add32(ir, op32(ir, GALE__AND, at, ~(4 * vector - 2)), add32(ir, thread, pair));
}

/* Rows or columns past the end repeat the last one; their results are never stored.  Where `few` says so, nothing is
 * loaded for them, since a cache line that all groups request repeatedly is slow. */
void gale__matrix_part_place(gale__matrix *t, gale__matrix_part *p)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t wide = s->wide[p->which], unit = s->fast[p->which] ? 1 : wide;
    gale__ir_val along = op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, e->tid, p->per), wide);
    gale__ir_val across = op32(ir, GALE__IR_DIV, e->tid, p->per);
    p->first_k = s->fast[p->which] ? along : p->turns ? op32(ir, GALE__MUL, across, 4) : across;
    p->first_side = s->fast[p->which] ? across : along;
    gale__ir_val lies = along; /* in the row: the order that GROUP_ADD wants, the same in every eighth row */
    if (s->groups)
        lies = gale__ir_op2(ir, GALE__XOR, GALE_U32, along,
            op32(ir, GALE__MUL, op32(ir, GALE__AND, across, 7), gale__schedule_matrix_unit(s)));
    if (p->turns) p->base = add32(ir, op32(ir, GALE__MUL, along, p->row), p->first_k);
    else p->base = add32(ir, op32(ir, GALE__MUL, across, p->row), lies);
    p->base = op32(ir, GALE__ADD, p->base, p->at);
    gale__ir_val count = p->which ? e->layout.n : e->layout.m,
                 top = gale__ir_op2(ir, GALE__SUB, e->index, count, gale__emit_index(e, unit));
    for (int b = 0; b < e->outer_blocks; b++) {
        gale__ir_val coord[GALE__NEST_DIMS], at = op32(ir, GALE__ADD, p->first_side, (uint32_t)b * p->step_side);
        if (p->which && s->direct) at = column_at(ir, at, s->vector);
        at = gale__emit_add(e, t->tile.tiling.origin[p->which], gale__emit_widen(e, at));
        if (s->few >> p->which & 1) p->there[b] = gale__ir_op2(ir, GALE__LT, GALE_BOOL, at, count);
        gale__emit_tile_clear_coords(&t->tile.tiling, coord);
        gale__emit_tile_coords(&t->tile.tiling, gale__ir_op2(ir, GALE__IR_MIN, e->index, at, top),
            gale__schedule_tile_kind(s, p->which), coord);
        gale__emit_outer_place(e, b, coord, e->nest->n_outer);
    }
    if (p->access >= 0) {
        place_fill(p);
        return;
    }
    e->wanted[p->core] = 1;
    gale__nest_mark_cone(e->nest, e->wanted);
    for (int i = 0; i < e->nest->n_code; i++)
        if (e->wanted[i] && !e->nest->code[i].inner) gale__emit_instr(e, i);
    for (int l = 0; l < e->lanes; l++) p->staging[l] = variable(ir, gale__compute_type(p->type));
}

/* Positions of the inner blocks for the part that starts at k; past the end the last point, which is not used. */
static void place_inner(gale__matrix *t, gale__matrix_part *p, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    for (int b = 0; b < e->inner_blocks; b++) {
        uint32_t block = (uint32_t)b, further = p->turns ? block / 4 * 4 * p->step_k + block % 4 : block * p->step_k;
        gale__ir_val at = add32(ir, k, op32(ir, GALE__ADD, p->first_k, further)), count = e->layout.inner_count;
        e->inner_valid[b] = gale__ir_op2(ir, GALE__LT, GALE_BOOL, at, count);
        if (p->access < 0)
            at = gale__ir_op2(ir, GALE__IR_MIN, GALE_U32, at, op32(ir, GALE__SUB, count, (uint32_t)e->inner_vector));
        gale__emit_tile_coords(&t->tile.tiling, gale__emit_widen(e, at), 'K', e->inner_coord[b]);
    }
}

static uint32_t offset_of(const gale__matrix_part *p, uint32_t outer, uint32_t inner)
{
    return p->step_side ? outer * p->step_side * p->row : inner * p->step_k * p->row;
}

/* Copies up to 16 bytes: zeros past the end of the rows or of k, and the padding value if the guards fail. */
static void copy_group(
    gale__matrix *t, gale__matrix_part *p, gale__ir_val to, gale__ir_val from, gale__ir_val there, gale__ir_val ok)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    bool filled = p->fill && ok;
    if (!there && (filled || !ok)) there = gale__ir_const(ir, GALE_BOOL, 1);
    int words = 4 * e->schedule->wide[p->which] / (int)gale__schedule_matrix_unit(e->schedule);
    gale__ir_instr in = {.op = GALE__IR_COPY,
        .width = (uint8_t)words,
        .a = t->shared,
        .b = to,
        .c = from,
        .d = filled ? there : gale__emit_and(e, there, ok),
        .imm = (uint64_t)e->nest->accesses[p->access].buffer};
    if (!filled) {
        gale__ir_add(ir, in);
        return;
    }
    gale__ir_val outside = gale__ir_op1(ir, GALE__NOT, GALE_BOOL, ok);
    gale__ir_val pads = gale__ir_op2(ir, GALE__AND, GALE_BOOL, there, outside);
    gale__emit_if(e, pads);
    gale__ir_val byte = op32(ir, GALE__AND, p->fill, 255);
    if (words > 1)
        gale__ir_set_lanes(
            ir, t->shared, GALE_U32, words, to, (const gale__ir_val[]){p->fill, p->fill, p->fill, p->fill});
    else gale__ir_set_lanes(ir, t->shared, GALE_U8, 4, to, (const gale__ir_val[]){byte, byte, byte, byte});
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ELSE});
    gale__ir_add(ir, in);
    gale__emit_close(e);
}

/* Copies the part from k on to the stage that begins at `stage`. */
void gale__matrix_part_copy(gale__matrix *t, gale__matrix_part *p, gale__ir_val stage, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale__ir_val to = add32(ir, stage, p->base);
    place_inner(t, p, k);
    for (int b = 0; b < e->outer_blocks; b++)
        for (int i = 0; i < e->inner_blocks; i++) {
            gale__ir_val ok, from = gale__emit_address(e, p->access, b, i, &ok);
            copy_group(t, p, op32(ir, GALE__ADD, to, offset_of(p, (uint32_t)b, (uint32_t)i)), from,
                gale__emit_and(e, p->there[b], t->sure ? 0 : e->inner_valid[i]), ok);
        }
}

/* Computes the operand's values from k on into the staging variables; 0 past the end. */
static void fetch_part(gale__matrix *t, gale__matrix_part *p, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale_type type = gale__compute_type(p->type);
    gale__ir_val none = gale__ir_const(ir, type, 0);
    place_inner(t, p, k);
    gale__emit_inner_cone(e);
    int n_inner = e->inner_blocks * e->inner_vector;
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++)
        for (int i = 0; i < n_inner; i++) {
            gale__ir_val v = gale__emit_get(e, p->core, o, i), valid = e->inner_valid[i / e->inner_vector];
            if (!e->schedule->exact) v = gale__ir_op3(ir, GALE__SELECT, type, valid, v, none);
            set(ir, p->staging[o * n_inner + i], v);
        }
}

/* What a staging variable is in work-group memory. */
static gale__ir_val code_of(gale__matrix_part *p, int lane)
{
    gale__ir *ir = p->emit.ir;
    gale__ir_val v = get(ir, p->staging[lane]);
    if (!gale__schedule_matrix_bytes(p->emit.schedule))
        return gale__ir_encode(ir, (gale_type)p->emit.schedule->narrow, v);
    return p->type == GALE_I8 ? gale__ir_op1(ir, GALE__BITCAST, GALE_U32, v) : v;
}

/* Four neighbours along k of each of the thread's rows or columns. */
static void deliver_turned(gale__matrix *t, gale__matrix_part *p, gale__ir_val stage)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale__ir_val to = add32(ir, stage, p->base);
    for (int o = 0; o < e->outer_vector; o++)
        for (int i = 0; i < e->inner_blocks; i += 4) {
            gale__ir_val codes[4];
            for (int v = 0; v < 4; v++) codes[v] = code_of(p, o * e->inner_blocks + i + v);
            uint32_t further = (uint32_t)o * p->row + (uint32_t)i * p->step_k;
            gale__ir_set_lanes(ir, t->shared, GALE_U8, 4, op32(ir, GALE__ADD, to, further), codes);
        }
}

/* The upper half of an f32 is a bf16, the first share; the next is that of what is left without it. */
static void deliver_shares(gale__matrix *t, gale__matrix_part *p, gale__ir_val to, int vector, const int *lanes)
{
    gale__ir *ir = p->emit.ir;
    gale__ir_val v[4];
    for (int i = 0; i < vector; i++) v[i] = get(ir, p->staging[lanes[i]]);
    for (uint32_t share = 0; share < 3; share++) {
        gale__ir_val bits[4], upper[4], codes[4];
        for (int i = 0; i < vector; i++) {
            bits[i] = gale__ir_op1(ir, GALE__BITCAST, GALE_U32, v[i]);
            upper[i] = op32(ir, GALE__AND, bits[i], 0xffff0000u);
            codes[i] = op32(ir, GALE__IR_SHR, bits[i], 16);
            v[i] = gale__ir_op2(ir, GALE__SUB, GALE_F32, v[i], gale__ir_op1(ir, GALE__BITCAST, GALE_F32, upper[i]));
        }
        for (int i = 0; vector == 4 && i < 4; i += 2)
            codes[i / 2] = gale__ir_op2(ir, GALE__OR, GALE_U32, codes[i], upper[i + 1]);
        gale__ir_set_lanes(ir, t->shared, vector == 4 ? GALE_U32 : GALE_U16, vector == 4 ? 2 : vector,
            op32(ir, GALE__ADD, to, share * p->share), codes);
    }
}

/* Staging variables, rounded or in shares, to the stage that begins at `stage`. */
static void deliver_part(gale__matrix *t, gale__matrix_part *p, gale__ir_val stage)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    bool shares = gale__schedule_matrix_shares(e->schedule) > 1;
    gale_type type = gale__schedule_matrix_bytes(e->schedule) ? GALE_U8 : GALE_U16;
    gale__ir_val to = add32(ir, stage, p->base);
    int vector = e->outer_vector > 1 ? e->outer_vector : e->inner_vector, n_inner = e->inner_blocks * e->inner_vector;
    for (int b = 0; b < e->outer_blocks; b++)
        for (int i = 0; i < e->inner_blocks; i++) {
            gale__ir_val codes[4] = {0};
            int lanes[4];
            for (int v = 0; v < vector; v++) {
                int o = e->outer_vector > 1 ? b * e->outer_vector + v : b,
                    k = e->outer_vector > 1 ? i : i * e->inner_vector + v;
                lanes[v] = o * n_inner + k;
                if (!shares) codes[v] = code_of(p, lanes[v]);
            }
            gale__ir_val at = op32(ir, GALE__ADD, to, offset_of(p, (uint32_t)b, (uint32_t)i));
            if (shares) deliver_shares(t, p, at, vector, lanes);
            else gale__ir_set_lanes(ir, t->shared, type, vector, at, codes);
        }
}

void gale__matrix_fetch(gale__matrix *t, gale__ir_val k)
{
    for (int w = 0; w < 2; w++)
        if (t->parts[w].access < 0) fetch_part(t, &t->parts[w], k);
}

void gale__matrix_deliver(gale__matrix *t, gale__ir_val stage)
{
    for (int w = 0; w < 2; w++)
        if (t->parts[w].access < 0) (t->parts[w].turns ? deliver_turned : deliver_part)(t, &t->parts[w], stage);
}

void gale__matrix_gate(gale__matrix *t, int op, gale__ir_val which, gale__ir_val count)
{
    gale__ir_add(t->tile.tiling.emit.ir, (gale__ir_instr){.op = (uint8_t)op, .a = t->gates, .b = which, .c = count});
}
