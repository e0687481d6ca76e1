/* From instructions of a nest to instructions of a kernel: coordinates, addresses with their guards, loads, stores and
 * scalar operations, each for all lanes of a thread.  Lanes that would compute the same value share it. */
#include "kernel/ir/ir_util.h"
#include "kernel/schedule/schedule_emit.h"
#include <string.h>

/* Room for the lanes; the layout's own arrays too when the layout is new. */
static gale_status take_memory(gale__emit *e, bool own_layout)
{
    const gale__nest *nest = e->nest;
    int lanes = e->outer_blocks * e->outer_vector * e->inner_blocks * e->inner_vector;
    size_t code = (size_t)nest->n_code, accesses = (size_t)nest->n_accesses, blocks = (size_t)e->outer_blocks;
    size_t layout =
        own_layout ? accesses * sizeof(gale__emit_access) + (code + (size_t)nest->n_stores) * sizeof(gale__ir_val) : 0;
    size_t vals = accesses * blocks * (1 + GALE__GUARDS) + code * (size_t)lanes;
    char *p = e->memory = gale__calloc(1, layout + vals * sizeof(gale__ir_val) + 3 * code);
    if (!p) return GALE_NO_MEMORY;
    e->lanes = lanes;
    e->inner_to = e->inner_blocks;
    if (own_layout) {
        e->layout.access = (gale__emit_access *)p;
        e->layout.number = (gale__ir_val *)(e->layout.access + accesses);
        e->layout.limit = e->layout.number + code;
    }
    e->base = (gale__ir_val *)(p + layout);
    e->guard_base = e->base + accesses * blocks;
    e->val = e->guard_base + accesses * blocks * GALE__GUARDS;
    e->done = (uint8_t *)(e->val + code * (size_t)lanes);
    e->level = e->done + code;
    e->wanted = e->level + code;
    return GALE_OK;
}

gale_status gale__emit_begin(gale__emit *e, const gale__nest *nest, const gale__schedule *s, gale__ir *ir)
{
    e->nest = nest;
    e->schedule = s;
    e->ir = ir;
    e->index = s->index64 ? GALE_U64 : GALE_U32;
    e->vector_dim = gale__schedule_vector_dim(nest, s);
    e->reduces = gale__nest_has_reduce(nest);
    GALE_TRY(take_memory(e, true));
    gale__emit_walk walk = {.nest = nest, .schedule = s, .ir = ir, .layout = &e->layout};
    GALE_TRY(gale__emit_walk_run(&walk));
    ir->n_words = walk.n_words;
    ir->n_pointers = nest->n_buffers;
    for (int i = 0; i < nest->n_buffers; i++)
        if (!nest->buffers[i].written && i < 64) ir->readonly |= (uint64_t)1 << i;
    gale__schedule_group(s, ir->group);
    e->tid = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
    e->row_tid = gale__ir_u32(ir, 0);
    return GALE_OK;
}

gale_status gale__emit_begin_within(gale__emit *e, const gale__emit *parent)
{
    e->nest = parent->nest;
    e->schedule = parent->schedule;
    e->ir = parent->ir;
    e->index = parent->index;
    e->reduces = parent->reduces;
    e->layout = parent->layout;
    e->tid = parent->tid;
    e->row_tid = parent->row_tid;
    return take_memory(e, false);
}

void gale__emit_end(gale__emit *e) { gale__free(e->memory); }

gale__ir_val gale__emit_add(gale__emit *e, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(e->ir, GALE__ADD, e->index, a, b);
}
gale__ir_val gale__emit_mul(gale__emit *e, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(e->ir, GALE__MUL, e->index, a, b);
}
gale__ir_val gale__emit_index(gale__emit *e, uint32_t v) { return gale__ir_const(e->ir, e->index, v); }

gale__ir_val gale__emit_widen(gale__emit *e, gale__ir_val u32)
{
    return e->index == GALE_U32 ? u32 : gale__ir_op1(e->ir, GALE__IR_CONVERT, e->index, u32);
}

void gale__emit_divmod(
    gale__emit *e, gale__ir_val v, const gale__emit_divisor *by, gale__ir_val *quotient, gale__ir_val *rest)
{
    gale__ir *ir = e->ir;
    if (e->index == GALE_U64) {
        *quotient = gale__ir_op2(ir, GALE__IR_DIV, GALE_U64, v, by->by);
    } else {
        gale__ir_val high = gale__ir_op2(ir, GALE__IR_MULHI, GALE_U32, v, by->mul);
        *quotient = gale__ir_op2(ir, GALE__IR_SHR, GALE_U32, gale__ir_op2(ir, GALE__ADD, GALE_U32, high, v), by->shift);
    }
    *rest = gale__ir_op2(ir, GALE__SUB, e->index, v, gale__emit_mul(e, *quotient, by->by));
}

gale__ir_val gale__emit_and(gale__emit *e, gale__ir_val a, gale__ir_val b)
{
    if (!a || !b) return a ? a : b;
    return gale__ir_op2(e->ir, GALE__AND, GALE_BOOL, a, b);
}

void gale__emit_if(gale__emit *e, gale__ir_val condition)
{
    gale__ir_add(e->ir, (gale__ir_instr){.op = GALE__IR_IF, .a = condition});
}
void gale__emit_close(gale__emit *e) { gale__ir_add(e->ir, (gale__ir_instr){.op = GALE__IR_END}); }

gale__ir_val gale__emit_for(gale__emit *e, gale__ir_val end, uint32_t step)
{
    return gale__ir_add(e->ir, (gale__ir_instr){.op = GALE__IR_FOR,
                                   .type = GALE_U32,
                                   .a = gale__ir_u32(e->ir, 0),
                                   .b = end,
                                   .c = gale__ir_u32(e->ir, step)});
}

gale__ir_val gale__emit_group(gale__emit *e)
{
    gale__ir *ir = e->ir;
    gale__ir_val x = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_ID, .type = GALE_U32, .imm = 0});
    gale__ir_val y = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_ID, .type = GALE_U32, .imm = 1});
    gale__ir_val n = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_COUNT, .type = GALE_U32, .imm = 0});
    return gale__ir_op2(ir, GALE__ADD, GALE_U32, x, gale__ir_op2(ir, GALE__MUL, GALE_U32, y, n));
}

void gale__emit_coords(gale__emit *e, gale__ir_val linear, int from, int to, gale__ir_val *coord)
{
    for (int d = to - 1; d >= from; d--) {
        gale__ir_val rest = linear;
        if (d > from) gale__emit_divmod(e, linear, &e->layout.extent[d], &linear, &rest);
        if (d == e->vector_dim) rest = gale__emit_mul(e, rest, gale__emit_index(e, e->schedule->vector));
        coord[d] = rest;
    }
}

void gale__emit_outer_place(gale__emit *e, int b, const gale__ir_val *coord, int dims)
{
    for (int i = 0; i < e->nest->n_accesses; i++) {
        const gale__emit_access *a = &e->layout.access[i];
        gale__ir_val address = a->offset;
        for (int d = 0; d < dims; d++) address = gale__emit_add(e, address, gale__emit_mul(e, coord[d], a->stride[d]));
        e->base[i * e->outer_blocks + b] = address;
        for (int g = 0; g < e->nest->accesses[i].n_guards; g++) {
            gale__ir_val at = a->guard[g].c0;
            for (int d = 0; d < dims; d++) at = gale__emit_add(e, at, gale__emit_mul(e, coord[d], a->guard[g].coef[d]));
            e->guard_base[(i * GALE__GUARDS + g) * e->outer_blocks + b] = at;
        }
    }
}

bool gale__emit_is_inner(const gale__emit *e, int i) { return e->reduces && e->nest->code[i].inner; }

/* Where lane (outer lane, inner lane) of instruction i is kept. */
static gale__ir_val *slot(const gale__emit *e, int i, int outer_lane, int inner_lane)
{
    int inner = e->inner_blocks * e->inner_vector;
    return &e->val[i * e->lanes + (gale__emit_is_inner(e, i) ? outer_lane * inner + inner_lane : outer_lane)];
}

gale__ir_val gale__emit_get(const gale__emit *e, int i, int outer_lane, int inner_lane)
{
    return *slot(e, i, outer_lane, inner_lane);
}

/* A position in the domain: outer block, inner block (-1: none), and offset along the vector dimension. */
typedef struct place {
    int outer_block, inner_block, lane;
} place;

/* Advances by p.v points along the vector dimension, clamped to its end. */
static gale__ir_val along(gale__emit *e, gale__ir_val sum, gale__ir_val coef, place p)
{
    gale__ir_val step = gale__emit_index(e, (uint32_t)p.lane);
    if (!p.lane) return sum;
    if (e->schedule->tail) step = gale__ir_op2(e->ir, GALE__IR_MIN, e->index, step, e->last[p.outer_block]);
    return gale__emit_add(e, sum, gale__emit_mul(e, coef, step));
}

static gale__ir_val affine(gale__emit *e, gale__ir_val base, const gale__ir_val *coef, place p)
{
    int from = e->nest->n_outer, to = from + e->nest->n_inner;
    for (int d = from; e->reduces && p.inner_block >= 0 && d < to; d++)
        base = gale__emit_add(e, base, gale__emit_mul(e, e->inner_coord[p.inner_block][d], coef[d]));
    return e->vector_dim >= 0 ? along(e, base, coef[e->vector_dim], p) : base;
}

/* The element index of an access at a position; *ok: whether the guards hold (0: always). */
static gale__ir_val address(gale__emit *e, int access, place p, gale__ir_val *ok)
{
    const gale__nest_access *a = &e->nest->accesses[access];
    const gale__emit_access *vals = &e->layout.access[access];
    gale__ir *ir = e->ir;
    gale__ir_val at = affine(e, e->base[access * e->outer_blocks + p.outer_block], vals->stride, p);
    *ok = 0;
    for (int g = 0; g < a->n_guards; g++) {
        const gale__emit_guard *gv = &vals->guard[g];
        gale__ir_val c =
            affine(e, e->guard_base[(access * GALE__GUARDS + g) * e->outer_blocks + p.outer_block], gv->coef, p);
        gale__ir_val below =
            gale__ir_op2(ir, GALE__LT, GALE_BOOL, c, gv->limit); /* negative ones are large: unsigned */
        if (a->guards[g].div == GALE__WRAPS) {
            at = gale__ir_op3(
                ir, GALE__SELECT, e->index, below, at, gale__ir_op2(ir, GALE__SUB, e->index, at, gv->stride));
            continue;
        }
        *ok = gale__emit_and(e, *ok, below);
        if (a->guards[g].div <= 1) continue;
        gale__ir_val quotient, rest;
        gale__emit_divmod(e, c, &gv->div, &quotient, &rest);
        *ok = gale__emit_and(e, *ok, gale__ir_op2(ir, GALE__EQ, GALE_BOOL, rest, gale__emit_index(e, 0)));
        at = gale__emit_add(e, at, gale__emit_mul(e, quotient, gv->stride));
    }
    return at;
}

gale__ir_val gale__emit_address(gale__emit *e, int access, int outer_block, int inner_block, gale__ir_val *ok)
{
    return address(e, access, (place){outer_block, inner_block, 0}, ok);
}

gale__ir_val gale__emit_fill(gale__emit *e, const gale__nest_access *a)
{
    gale_type type = a->buffer < 0 ? GALE_I64 : gale__compute_type(a->type);
    uint64_t bits = 0;
    if (type == GALE_BOOL) bits = a->fill & 1;
    else if (gale__type_is_float(type)) gale__store_f64(type, &bits, gale__load_f64(a->type, &a->fill));
    else bits = (uint64_t)gale__load_i64(a->buffer < 0 ? GALE_I64 : a->type, &a->fill);
    return gale__ir_const(e->ir, type, bits);
}

/* Loads `width` elements; if the guards fail, element 0 is loaded and discarded. */
static void load(gale__emit *e, int access, place p, int width, gale__ir_val *out)
{
    const gale__nest_access *a = &e->nest->accesses[access];
    gale__ir_val ok, at = address(e, access, p, &ok);
    if (ok) at = gale__ir_op3(e->ir, GALE__SELECT, e->index, ok, at, gale__emit_index(e, 0));
    gale__ir_load_as(e->ir, a->buffer, a->type, width, at, out);
    if (!ok) return;
    gale__ir_val fill = gale__emit_fill(e, a);
    for (int v = 0; v < width; v++)
        out[v] = gale__ir_op3(e->ir, GALE__SELECT, gale__ir_type(e->ir, out[v]), ok, out[v], fill);
}

/* A partial last vector: its elements are loaded one by one, with the last one repeated. */
static void load_tail(gale__emit *e, int access, place p, int vector, gale__ir_val *out)
{
    gale__ir *ir = e->ir;
    const gale__nest_access *a = &e->nest->accesses[access];
    gale_type type = gale__compute_type(a->type);
    gale__ir_val ok, at = address(e, access, p, &ok), var[4], zero = gale__ir_u32(ir, 0);
    for (int v = 0; v < vector; v++)
        var[v] = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = (uint8_t)type, .imm = 1});
    gale__emit_if(e, e->whole[p.outer_block]);
    gale__ir_load_as(ir, a->buffer, a->type, vector, at, out);
    for (int v = 0; v < vector; v++) gale__ir_op3(ir, GALE__IR_SET, type, var[v], zero, out[v]);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ELSE});
    for (int v = 0; v < vector; v++) {
        gale__ir_val step =
            gale__ir_op2(ir, GALE__IR_MIN, e->index, gale__emit_index(e, (uint32_t)v), e->last[p.outer_block]);
        gale__ir_load_as(ir, a->buffer, a->type, 1, gale__emit_add(e, at, step), out);
        gale__ir_op3(ir, GALE__IR_SET, type, var[v], zero, out[0]);
    }
    gale__emit_close(e);
    for (int v = 0; v < vector; v++) out[v] = gale__ir_op2(ir, GALE__IR_GET, type, var[v], zero);
}

static gale__ir_val index_value(gale__emit *e, int access, place p)
{
    gale__ir *ir = e->ir;
    gale__ir_val ok, at = address(e, access, p, &ok);
    gale_type narrow = e->index == GALE_U64 ? GALE_I64 : GALE_I32;
    gale__ir_val v = gale__ir_op1(ir, GALE__IR_CONVERT, GALE_I64, gale__ir_op1(ir, GALE__BITCAST, narrow, at));
    return ok ? gale__ir_op3(ir, GALE__SELECT, GALE_I64, ok, v, gale__emit_fill(e, &e->nest->accesses[access])) : v;
}

static gale__ir_val emit_take(gale__emit *e, int i, place p, gale__ir_val index)
{
    gale__ir *ir = e->ir;
    const gale__nest_instr *in = &e->nest->code[i];
    const gale__nest_access *a = &e->nest->accesses[in->access];
    gale_type type = gale__ir_type(ir, index);
    gale__ir_val ok, out, at = address(e, in->access, p, &ok);
    if (!in->acc) {
        gale__ir_val limit = gale__ir_op1(ir, GALE__IR_CONVERT, type, e->layout.number[i]),
                     top = gale__ir_op2(ir, GALE__SUB, type, limit, gale__ir_const(ir, type, 1));
        index = gale__ir_op2(ir, GALE__IR_MAX, type, index, gale__ir_const(ir, type, 0));
        index = gale__ir_op2(ir, GALE__IR_MIN, type, index, top);
    }
    at = gale__emit_add(e, at, gale__ir_op1(ir, GALE__IR_CONVERT, e->index, index));
    uint32_t before = ir->count;
    gale__ir_load_as(ir, a->buffer, a->type, 1, at, &out);
    for (uint32_t v = before; in->acc && v < ir->count; v++)
        if (ir->code[v].op == GALE__IR_LOAD) ir->code[v].c = 1;
    return out;
}

/* The bits of a value in its storage type, as U32 or U64. */
static gale__ir_val storage_bits(gale__ir *ir, gale_type type, gale__ir_val v)
{
    if (gale__type_is_float(type) && gale__type_table[type].bits < 32) return gale__ir_encode(ir, type, v);
    return gale__ir_op1(ir, GALE__BITCAST, gale__type_table[type].bits == 64 ? GALE_U64 : GALE_U32, v);
}

static gale__ir_val bitcast(gale__ir *ir, gale_type from, gale_type to, gale__ir_val v)
{
    gale__ir_val bits = storage_bits(ir, from, v);
    if (gale__type_is_float(to) && gale__type_table[to].bits < 32)
        return gale__ir_decode(ir, to, gale__ir_narrow(ir, gale_type_size(to) == 1 ? GALE_U8 : GALE_U16, bits));
    gale__ir_val out = gale__ir_op1(ir, GALE__BITCAST, gale__compute_type(to), bits);
    return gale__type_table[to].bits < 32 ? gale__ir_narrow(ir, to, out) : out;
}

/* Results of these stay in the range their operands were in. */
static bool keeps_range(int op)
{
    return op == GALE__SELECT || op == GALE__MIN || op == GALE__MAX || op == GALE__AND || op == GALE__OR ||
           op == GALE__REM;
}

gale__ir_val gale__emit_scalar(gale__emit *e, int i, gale__ir_val a, gale__ir_val b, gale__ir_val c)
{
    const gale__nest_instr *in = &e->nest->code[i];
    gale_type type = (gale_type)in->type, compute = gale__compute_type(type);
    bool level = in->acc >= GALE__NEST_LEVEL && in->op < GALE__SCALAR_COUNT, loose = e->ir->math & GALE__IR_LOOSE;
    if (loose && in->acc == GALE__NEST_GELU && e->ir->code[a].op == GALE__MUL)
        return gale__ir_fast_gelu(e->ir, e->ir->code[a].a);
    if (loose && level && (in->op == GALE__DIV || in->op == GALE__RINT || in->op == GALE__CAST))
        return gale__ir_level(e->ir, (gale__scalar)in->op, type, a, b, (gale__ir_nearness)(in->acc - GALE__NEST_LEVEL));
    if (loose && level && in->op == GALE__SELECT && e->ir->math & GALE__IR_CORNERS)
        return gale__ir_op2(e->ir, GALE__IR_MAX, type, b, c); /* at least c, also where b is NaN */
    if (in->op == GALE__CAST) return gale__ir_cast(e->ir, (gale_type)e->nest->code[in->a].type, type, a);
    if (in->op == GALE__BITCAST) return bitcast(e->ir, (gale_type)e->nest->code[in->a].type, type, a);
    uint8_t math = e->ir->math;
    if (in->acc && !level && math & GALE__IR_LOOSE) e->ir->math |= GALE__IR_FAST | (in->acc == 2 ? GALE__IR_NORMAL : 0);
    gale__ir_val v = gale__ir_scalar(e->ir, (gale__scalar)in->op, compute, a, b, c);
    e->ir->math = math;
    if (level && e->ir->code[v].op == GALE__IR_MIN_NAN) e->ir->code[v].imm = 1;
    bool narrow = gale__type_is_int(type) && gale__type_table[type].bits < 32 && !keeps_range(in->op);
    return narrow ? gale__ir_narrow(e->ir, type, v) : v;
}

/* Reads all neighbours of one outer and one inner block into their lanes. */
static void emit_load_block(gale__emit *e, int i, place p, int vector, gale__ir_val *out)
{
    const gale__nest_instr *in = &e->nest->code[i];
    const gale__nest_access *a = &e->nest->accesses[in->access];
    bool same = vector == 1 || !gale__schedule_access_walks(a, e->vector_dim);
    int width = same ? 1 : gale__schedule_access_width(e->nest, a, e->vector_dim, vector);
    if (in->op == GALE__NEST_LOAD && width > 1 && e->schedule->tail) {
        if (width == vector) {
            load_tail(e, in->access, p, vector, out);
            return;
        }
        width = 1;
    }
    for (int v = 0; v < vector; v += width) {
        p.lane = v;
        if (same && v) out[v] = out[0];
        else if (in->op == GALE__NEST_INDEX) out[v] = index_value(e, in->access, p);
        else load(e, in->access, p, width, out + v);
    }
}

static bool walks_inner(const gale__emit *e, const gale__nest_access *a)
{
    for (int d = e->nest->n_outer; d < e->nest->n_outer + e->nest->n_inner; d++)
        if (gale__schedule_access_walks(a, d)) return true;
    return false;
}

/* The first outer block at which an access means the same element as at block b. */
static int twin_of(const gale__emit *e, int access, int b)
{
    const gale__ir_val *base = e->base + access * e->outer_blocks,
                       *guard = e->guard_base + access * GALE__GUARDS * e->outer_blocks;
    for (int k = 0; k < b; k++) {
        bool same = base[k] == base[b];
        for (int g = 0; g < e->nest->accesses[access].n_guards; g++)
            same &= guard[g * e->outer_blocks + k] == guard[g * e->outer_blocks + b];
        if (same) return k;
    }
    return b;
}

/* WINDOW: the first outer and inner block at which an access that slides, or does not know the axis, means the same
 * element. */
static place window_twin(const gale__emit *e, const gale__nest_access *a, int b, int ib)
{
    const gale__schedule *s = e->schedule;
    int at = b * s->micro_m + ib * s->micro_n;
    if (!gale__schedule_access_walks(a, s->axis)) return (place){0, ib, 0};
    for (int k = 0; k < b; k++)
        for (int i = 0; i < e->inner_blocks; i++)
            if (k * s->micro_m + i * s->micro_n == at) return (place){k, i, 0};
    return (place){b, ib, 0};
}

/* With a vector along the outer dimensions (ov > 1) the neighbours of one load are outer lanes, else inner ones. */
static void emit_load(gale__emit *e, int i)
{
    bool inner = gale__emit_is_inner(e, i),
         repeat = inner && !walks_inner(e, &e->nest->accesses[e->nest->code[i].access]);
    int vector = e->outer_vector > 1 ? e->outer_vector : inner ? e->inner_vector : 1;
    gale__ir_val out[GALE__EMIT_VECTOR];
    for (int b = 0; b < e->outer_blocks; b++)
        for (int ib = inner ? e->inner_from : 0; ib < (inner ? e->inner_to : 1); ib++) {
            place twin = {inner ? b : twin_of(e, e->nest->code[i].access, b), ib, 0};
            if (inner && e->schedule->kind == GALE__SCHEDULE_WINDOW)
                twin = window_twin(e, &e->nest->accesses[e->nest->code[i].access], b, ib);
            if (twin.outer_block != b) {
                for (int v = 0; v < e->outer_vector; v++)
                    *slot(e, i, b * e->outer_vector + v, ib) =
                        *slot(e, i, twin.outer_block * e->outer_vector + v, twin.inner_block);
                continue;
            }
            if (!repeat || ib == e->inner_from) emit_load_block(e, i, (place){b, inner ? ib : -1, 0}, vector, out);
            for (int v = 0; v < vector; v++)
                if (e->outer_vector > 1 || !inner) *slot(e, i, b * e->outer_vector + v, ib) = out[v];
                else *slot(e, i, b, ib * e->inner_vector + v) = out[v];
        }
}

static place place_of(const gale__emit *e, int outer_lane, int inner_lane, bool inner)
{
    place p = {outer_lane / e->outer_vector, inner ? inner_lane / e->inner_vector : -1, outer_lane % e->outer_vector};
    if (inner && e->inner_vector > 1) p.lane = inner_lane % e->inner_vector;
    return p;
}

/* Whether an instruction has the same operands here as at the first outer block. */
static bool is_twin(const gale__emit *e, const gale__nest_instr *in, int o, int k)
{
    const int32_t operand[3] = {in->a, in->b, in->c};
    for (int j = 0; j < gale__nest_arity(in); j++)
        if (*slot(e, operand[j], o, k) != *slot(e, operand[j], o % e->outer_vector, k)) return false;
    return o >= e->outer_vector;
}

static void emit_lanes(gale__emit *e, int i)
{
    const gale__nest_instr *in = &e->nest->code[i];
    bool inner = gale__emit_is_inner(e, i);
    int arity = gale__nest_arity(in), first_inner = inner ? e->inner_from * e->inner_vector : 0,
        end_inner = inner ? e->inner_to * e->inner_vector : 1;
    gale__ir_val first[3] = {0}, shared = 0;
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++)
        for (int k = first_inner; k < end_inner; k++) {
            gale__ir_val x[3] = {0};
            if (arity > 0) x[0] = gale__emit_get(e, in->a, o, k);
            if (arity > 1) x[1] = gale__emit_get(e, in->b, o, k);
            if (arity > 2) x[2] = gale__emit_get(e, in->c, o, k);
            bool same = shared && in->op != GALE__NEST_TAKE && !memcmp(x, first, sizeof x);
            if (!same && in->op != GALE__NEST_TAKE && is_twin(e, in, o, k)) {
                *slot(e, i, o, k) = *slot(e, i, o % e->outer_vector, k);
                continue;
            }
            gale__ir_val v = same                        ? shared
                             : in->op == GALE__NEST_TAKE ? emit_take(e, i, place_of(e, o, k, inner), x[0])
                                                         : gale__emit_scalar(e, i, x[0], x[1], x[2]);
            if (!shared) {
                shared = v;
                memcpy(first, x, sizeof x);
            }
            *slot(e, i, o, k) = v;
        }
}

void gale__emit_instr(gale__emit *e, int i)
{
    const gale__nest_instr *in = &e->nest->code[i];
    if (e->done[i]) return;
    e->done[i] = !gale__emit_is_inner(e, i) || e->inner_to == e->inner_blocks;
    if (in->op == GALE__NEST_LOAD || in->op == GALE__NEST_INDEX) emit_load(e, i);
    else if (in->op == GALE__NEST_CONST)
        for (int l = 0; l < e->lanes; l++) e->val[i * e->lanes + l] = e->layout.number[i];
    else emit_lanes(e, i);
}

void gale__emit_loads(gale__emit *e, bool settled)
{
    for (int i = 0; i < e->nest->n_code; i++) {
        const gale__nest_instr *in = &e->nest->code[i];
        if (in->op != GALE__NEST_LOAD || (in->inner && e->schedule->kind == GALE__SCHEDULE_MATRIX)) continue;
        uint64_t buffer = (uint64_t)e->nest->accesses[in->access].buffer;
        if (gale__ir_marks(e->schedule->settled, buffer) == settled) gale__emit_instr(e, i);
    }
}

/* Stores one vector of a block; lanes[] are its values. */
static void store_block(gale__emit *e, const gale__nest_store *st, place p, const gale__ir_val *lanes,
    const gale__ir_val *index, int vector, gale__ir_val condition)
{
    gale__ir *ir = e->ir;
    const gale__nest_access *a = &e->nest->accesses[st->access];
    int width =
        st->index >= 0 || e->schedule->tail ? 1 : gale__schedule_access_width(e->nest, a, e->vector_dim, vector);
    if (condition) gale__emit_if(e, condition);
    for (int v = 0; v < vector; v += width) {
        p.lane = v;
        gale__ir_val ok, at = address(e, st->access, p, &ok);
        if (st->index >= 0) {
            gale_type type = gale__ir_type(ir, index[v]), positive = type == GALE_I64 ? GALE_U64 : GALE_U32;
            gale__ir_val u = gale__ir_op1(ir, GALE__BITCAST, positive, index[v]);
            gale__ir_val limit = gale__ir_op1(ir, GALE__IR_CONVERT, positive, e->layout.limit[st - e->nest->stores]);
            ok = gale__emit_and(e, ok, gale__ir_op2(ir, GALE__LT, GALE_BOOL, u, limit));
            at = gale__emit_add(e, at, gale__ir_op1(ir, GALE__IR_CONVERT, e->index, u));
        }
        if (e->schedule->tail)
            ok = gale__emit_and(
                e, ok, gale__ir_op2(ir, GALE__LE, GALE_BOOL, gale__emit_index(e, (uint32_t)v), e->last[p.outer_block]));
        if (ok) gale__emit_if(e, ok);
        gale__ir_store_as(ir, a->buffer, a->type, width, at, lanes + v);
        if (ok) gale__emit_close(e);
    }
    if (condition) gale__emit_close(e);
}

/* A vector store where the vector is whole, else point by point. */
static void store_tail(
    gale__emit *e, const gale__nest_store *st, place p, const gale__ir_val *lanes, int vector, gale__ir_val condition)
{
    gale__ir *ir = e->ir;
    const gale__nest_access *a = &e->nest->accesses[st->access];
    gale__ir_val ok, at = address(e, st->access, p, &ok);
    if (condition) gale__emit_if(e, condition);
    gale__emit_if(e, e->whole[p.outer_block]);
    gale__ir_store_as(ir, a->buffer, a->type, vector, at, lanes);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ELSE});
    for (int v = 0; v + 1 < vector; v++) {
        gale__emit_if(
            e, gale__ir_op2(ir, GALE__LE, GALE_BOOL, gale__emit_index(e, (uint32_t)v), e->last[p.outer_block]));
        gale__ir_store_as(
            ir, a->buffer, a->type, 1, gale__emit_add(e, at, gale__emit_index(e, (uint32_t)v)), lanes + v);
        gale__emit_close(e);
    }
    gale__emit_close(e);
    if (condition) gale__emit_close(e);
}

void gale__emit_store(gale__emit *e, const gale__nest_store *st, gale__ir_val condition)
{
    bool inner = e->reduces && (e->nest->code[st->value].inner || (st->index >= 0 && e->nest->code[st->index].inner));
    const gale__nest_access *a = &e->nest->accesses[st->access];
    int vector = e->outer_vector > 1 ? e->outer_vector : inner ? e->inner_vector : 1;
    bool tail = e->schedule->tail && st->index < 0 &&
                gale__schedule_access_width(e->nest, a, e->vector_dim, vector) == vector && vector > 1;
    for (int b = 0; b < e->outer_blocks; b++)
        for (int ib = inner ? e->inner_from : 0; ib < (inner ? e->inner_to : 1); ib++) {
            gale__ir_val lanes[GALE__EMIT_VECTOR], index[GALE__EMIT_VECTOR] = {0},
                                                   ok = gale__emit_and(e, condition, e->outer_valid[b]);
            for (int v = 0; v < vector; v++) {
                int o = e->outer_vector > 1 ? b * e->outer_vector + v : b, k = e->outer_vector > 1 ? ib
                                                                               : inner ? ib * e->inner_vector + v
                                                                                       : 0;
                lanes[v] = gale__emit_get(e, st->value, o, k);
                if (st->index >= 0) index[v] = gale__emit_get(e, st->index, o, k);
            }
            if (inner) ok = gale__emit_and(e, ok, e->inner_valid[ib]);
            place p = {b, inner ? ib : -1, 0};
            if (tail) store_tail(e, st, p, lanes, vector, ok);
            else store_block(e, st, p, lanes, index, vector, ok);
        }
}

void gale__emit_inner_cone(gale__emit *e)
{
    for (int i = 0; i < e->nest->n_code; i++) {
        if (!e->wanted[i] || !e->nest->code[i].inner) continue;
        e->done[i] = 0;
        gale__emit_instr(e, i);
    }
}
