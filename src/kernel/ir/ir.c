/* Builds kernel IR: instructions are appended one by one and trivial ones are folded at once, so that the printers
 * receive short code.  If an append runs out of memory, the whole kernel is marked as failed. */
#include "kernel/ir/ir_util.h"
#include <stdio.h>
#include <string.h>

/* By operation, after the scalar ones, in the order of gale__ir_op. */
static const gale__ir_op_info ir_ops[GALE__IR_COUNT - GALE__SCALAR_COUNT] = {
#define ROW(NAME, kind, arity) [GALE__IR_##NAME - GALE__SCALAR_COUNT] = {#NAME, GALE__IR_##kind, arity}
    ROW(CONST, VALUE, 0),
    ROW(WORD, VALUE, 0),
    ROW(GROUP_ID, VALUE, 0),
    ROW(LOCAL_ID, VALUE, 0),
    ROW(GROUP_COUNT, VALUE, 0),
    ROW(LANE, VALUE, 0),
    ROW(DIV, VALUE, 2),
    ROW(REM, VALUE, 2),
    ROW(MIN, VALUE, 2),
    ROW(MAX, VALUE, 2),
    ROW(SHL, VALUE, 2),
    ROW(SHR, VALUE, 2),
    ROW(CONVERT, VALUE, 1),
    ROW(MULHI, VALUE, 2),
    ROW(F16_TO_F32, VALUE, 1),
    ROW(F32_TO_F16, VALUE, 1),
    ROW(LOAD, READ, 1),
    ROW(STORE, EFFECT, 2),
    ROW(EXTRACT, VALUE, 1),
    ROW(PACK, VALUE, 2),
    ROW(SHARED, DECLARE, 0),
    ROW(ARRAY, DECLARE, 0),
    ROW(GET, READ, 2),
    ROW(SET, EFFECT, 3),
    ROW(FOR, CONTROL, 3),
    ROW(IF, CONTROL, 1),
    ROW(ELSE, CONTROL, 0),
    ROW(END, CONTROL, 0),
    ROW(BARRIER, EFFECT, 0),
    ROW(SHUFFLE_XOR, READ, 1),
    ROW(MIN_NAN, VALUE, 2),
    ROW(MAX_NAN, VALUE, 2),
    ROW(SATURATE, VALUE, 1),
    ROW(JOIN_BYTES, VALUE, 3),
    ROW(FMA_HALVES, VALUE, 3),
    ROW(FAST_EXP, VALUE, 1),
    ROW(FAST_EXP2, VALUE, 1),
    ROW(FAST_LOG, VALUE, 1),
    ROW(FAST_LOG2, VALUE, 1),
    ROW(FAST_SIN, VALUE, 1),
    ROW(FAST_COS, VALUE, 1),
    ROW(FAST_SQRT, VALUE, 1),
    ROW(FAST_DIV, VALUE, 2),
    ROW(FAST_QUOTIENT, VALUE, 2),
    ROW(COPY, EFFECT, 4),
    ROW(COMMIT, EFFECT, 0),
    ROW(WAIT, EFFECT, 0),
    ROW(MATRIX_A, READ, 2),
    ROW(MATRIX_B, READ, 2),
    ROW(SUMS, DECLARE, 0),
    ROW(SUMS_ZERO, EFFECT, 1),
    ROW(SUMS_ADD, EFFECT, 3),
    ROW(SUMS_STORE, EFFECT, 3),
    ROW(GROUP_ADD, EFFECT, 4),
    ROW(GROUP_BEGIN, EFFECT, 0),
    ROW(GROUP_END, EFFECT, 0),
    ROW(GROUP_WAIT, EFFECT, 0),
    ROW(GROUP_FENCE, EFFECT, 0),
    ROW(GATE_INIT, EFFECT, 2),
    ROW(GATE_ARRIVE, EFFECT, 2),
    ROW(GATE_COPIES, EFFECT, 2),
    ROW(GATE_WAIT, EFFECT, 3),
    ROW(REGISTERS, EFFECT, 0),
    ROW(STORE_ADD, EFFECT, 2),
    ROW(SET_ADD, EFFECT, 3),
    ROW(MATRIX_SUMS, READ, 2),
    ROW(ARRIVE, EFFECT, 1),
    ROW(AWAIT, EFFECT, 2),
    ROW(GATE_EXPECT, EFFECT, 2),
    ROW(MAP_COPY, EFFECT, 4),
    ROW(READY, EFFECT, 0),
    ROW(GET_OF_CLUSTER, READ, 3),
    ROW(SEND, EFFECT, 4),
#undef ROW
};

gale__ir_op_info gale__ir_op_get(int op)
{
    if (op >= GALE__SCALAR_COUNT) return ir_ops[op - GALE__SCALAR_COUNT];
    return (gale__ir_op_info){gale__scalar_table[op].name, GALE__IR_VALUE, (uint8_t)gale__scalar_table[op].arity};
}

void gale__ir_init(gale__ir *ir, const char *name)
{
    memset(ir, 0, sizeof *ir);
    snprintf(ir->name, sizeof ir->name, "%s", name);
    ir->group[0] = ir->group[1] = ir->group[2] = 1;
}

void gale__ir_init_like(gale__ir *ir, const gale__ir *from)
{
    *ir = *from;
    ir->code = NULL;
    ir->count = 0;
    ir->capacity = 0;
    ir->failed = false;
}

void gale__ir_finish(gale__ir *ir)
{
    gale__free(ir->code);
    memset(ir, 0, sizeof *ir);
}

gale_status gale__ir_check(const gale__ir *ir)
{
    return ir->failed ? gale__fail(GALE_NO_MEMORY, "kernel %s: out of memory for its instructions", ir->name) : GALE_OK;
}

static gale__ir_val append(gale__ir *ir, const gale__ir_instr *in)
{
    if (ir->failed) return 0;
    uint32_t at = ir->count ? ir->count : 1;
    if (at + 1 > ir->capacity && gale__grow((void **)&ir->code, &ir->capacity, at + 1, sizeof *ir->code) != GALE_OK) {
        ir->failed = true;
        return 0;
    }
    if (at == 1) memset(ir->code, 0, sizeof *ir->code);
    ir->code[at] = *in;
    ir->count = at + 1;
    return at;
}

gale__ir_val gale__ir_add(gale__ir *ir, gale__ir_instr in)
{
    if (!in.width) in.width = 1;
    if (gale__ir_is_compare(in.op)) in.type = GALE_BOOL;
    if (in.op == GALE__IR_LANE || in.op == GALE__IR_SHUFFLE_XOR) ir->subgroup_ops = true;
    gale__ir_val folded = ir->failed ? 0 : gale__ir_fold(ir, &in);
    return folded ? folded : append(ir, &in);
}

gale__ir_val gale__ir_const(gale__ir *ir, gale_type type, uint64_t bits)
{
    int width = gale__ir_bits(type);
    if (width < 64) bits &= ((uint64_t)1 << width) - 1;
    return append(ir, &(gale__ir_instr){.op = GALE__IR_CONST, .type = (uint8_t)type, .width = 1, .imm = bits});
}

gale__ir_val gale__ir_u32(gale__ir *ir, uint32_t v) { return gale__ir_const(ir, GALE_U32, v); }
gale__ir_val gale__ir_i32(gale__ir *ir, int32_t v) { return gale__ir_const(ir, GALE_I32, (uint32_t)v); }

gale__ir_val gale__ir_f32(gale__ir *ir, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return gale__ir_const(ir, GALE_F32, bits);
}

gale__ir_val gale__ir_op1(gale__ir *ir, int op, gale_type type, gale__ir_val a)
{
    return gale__ir_op3(ir, op, type, a, 0, 0);
}

gale__ir_val gale__ir_op2(gale__ir *ir, int op, gale_type type, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op3(ir, op, type, a, b, 0);
}

gale__ir_val gale__ir_op3(gale__ir *ir, int op, gale_type type, gale__ir_val a, gale__ir_val b, gale__ir_val c)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op, .type = (uint8_t)type, .a = a, .b = b, .c = c});
}

gale__ir_val gale__ir_load(gale__ir *ir, int pointer, gale_type mem, int width, gale__ir_val index)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_LOAD,
                                .type = (uint8_t)gale__compute_type(mem),
                                .width = (uint8_t)width,
                                .mem = (uint8_t)mem,
                                .a = index,
                                .imm = (uint64_t)pointer});
}

void gale__ir_store(gale__ir *ir, int pointer, gale_type mem, int width, gale__ir_val index, gale__ir_val value)
{
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_STORE,
                         .type = (uint8_t)gale__compute_type(mem),
                         .width = (uint8_t)width,
                         .mem = (uint8_t)mem,
                         .a = index,
                         .b = value,
                         .imm = (uint64_t)pointer});
}

gale__ir_val gale__ir_pack(gale__ir *ir, int width, const gale__ir_val *lanes)
{
    gale__ir_instr in = {.op = GALE__IR_PACK, .type = (uint8_t)gale__ir_type(ir, lanes[0]), .width = (uint8_t)width};
    in.a = lanes[0], in.b = lanes[1];
    if (width == 4) in.c = lanes[2], in.d = lanes[3];
    return gale__ir_add(ir, in);
}

gale__ir_val gale__ir_lane(gale__ir *ir, gale__ir_val vector, int lane)
{
    return gale__ir_add(ir,
        (gale__ir_instr){
            .op = GALE__IR_EXTRACT, .type = (uint8_t)gale__ir_type(ir, vector), .a = vector, .imm = (uint64_t)lane});
}

static void get_lanes(gale__ir *ir, gale__ir_instr in, gale_type mem, int width, gale__ir_val *out)
{
    if (width > 1) in.mem = (uint8_t)mem, in.width = (uint8_t)width;
    gale__ir_val v = gale__ir_add(ir, in);
    out[0] = v;
    for (int i = 0; width > 1 && i < width; i++) out[i] = gale__ir_lane(ir, v, i);
}

void gale__ir_get_lanes(
    gale__ir *ir, gale__ir_val array, gale_type mem, int width, gale__ir_val index, gale__ir_val *out)
{
    gale__ir_instr in = {.op = GALE__IR_GET, .type = (uint8_t)gale__compute_type(mem), .a = array, .b = index};
    get_lanes(ir, in, mem, width, out);
}

void gale__ir_get_of_cluster(
    gale__ir *ir, gale__ir_val array, int width, gale__ir_val index, gale__ir_val group, gale__ir_val *out)
{
    gale_type type = gale__ir_type(ir, array);
    gale__ir_instr in = {.op = GALE__IR_GET_OF_CLUSTER, .type = (uint8_t)type, .a = array, .b = index, .c = group};
    get_lanes(ir, in, type, width, out);
}

void gale__ir_set_lanes(
    gale__ir *ir, gale__ir_val array, gale_type mem, int width, gale__ir_val index, const gale__ir_val *values)
{
    gale__ir_instr in = {.op = GALE__IR_SET, .type = (uint8_t)gale__compute_type(mem), .a = array, .b = index};
    in.c = width > 1 ? gale__ir_pack(ir, width, values) : values[0];
    if (width > 1) in.mem = (uint8_t)mem, in.width = (uint8_t)width;
    gale__ir_add(ir, in);
}

#define SHARED_DECLARED (48u << 10) /* what every CUDA device lets a kernel declare */

uint32_t gale__ir_shared_bytes(const gale__ir *ir)
{
    uint64_t sum = 0;
    for (gale__ir_val v = 1; v < ir->count; v++)
        if (ir->code[v].op == GALE__IR_SHARED && !ir->code[v].a) sum += gale__ir_array_bytes(&ir->code[v]);
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

uint32_t gale__ir_launch_bytes(const gale__ir *ir)
{
    uint32_t bytes = gale__ir_shared_bytes(ir);
    return bytes > SHARED_DECLARED ? bytes : 0;
}

static bool uses(const gale__ir *ir, int op)
{
    for (gale__ir_val v = 1; v < ir->count; v++)
        if (ir->code[v].op == op) return true;
    return false;
}

bool gale__ir_has_ready(const gale__ir *ir) { return uses(ir, GALE__IR_READY); }

bool gale__ir_is_together(const gale__ir *ir) { return uses(ir, GALE__IR_ARRIVE) || uses(ir, GALE__IR_AWAIT); }

gale_type gale__ir_type(const gale__ir *ir, gale__ir_val v)
{
    return v && v < ir->count ? (gale_type)ir->code[v].type : GALE_F32;
}

bool gale__ir_is_const(const gale__ir *ir, gale__ir_val v, uint64_t *bits)
{
    if (!v || v >= ir->count || ir->code[v].op != GALE__IR_CONST) return false;
    *bits = ir->code[v].imm;
    return true;
}

int gale__ir_operands(const gale__ir_instr *in, gale__ir_val out[4])
{
    int n = in->op == GALE__IR_PACK ? in->width : gale__ir_op_get(in->op).arity;
    const gale__ir_val all[4] = {in->a, in->b, in->c, in->d};
    for (int i = 0; i < n; i++) out[i] = all[i];
    return n;
}

void gale__ir_count_uses(const gale__ir *ir, uint32_t *uses, gale__ir_val *user)
{
    memset(uses, 0, ir->count * sizeof *uses);
    memset(user, 0, ir->count * sizeof *user);
    for (gale__ir_val v = ir->count; v-- > 1;) {
        const gale__ir_instr *in = &ir->code[v];
        int kind = gale__ir_op_get(in->op).kind;
        if (!uses[v] && (kind == GALE__IR_VALUE || kind == GALE__IR_READ)) continue;
        gale__ir_val operands[4];
        int n = gale__ir_operands(in, operands);
        for (int i = 0; i < n; i++) {
            uses[operands[i]]++;
            if (!user[operands[i]]) user[operands[i]] = v;
        }
    }
}

gale__ir_needs gale__ir_get_needs(const gale__ir *ir)
{
    gale__ir_needs needs = {.subgroup = ir->subgroup_ops, .together = gale__ir_is_together(ir)};
    for (gale__ir_val v = 1; v < ir->count; v++) {
        const gale__ir_instr *in = &ir->code[v];
        bool value =
            in->op != GALE__IR_STORE && in->op != GALE__IR_SET && gale__ir_op_get(in->op).kind != GALE__IR_CONTROL;
        if (value && in->type == GALE_F64) needs.f64 = true;
        if (value && (in->type == GALE_I64 || in->type == GALE_U64)) needs.i64 = true;
        if (in->op == GALE__IR_F16_TO_F32 || in->op == GALE__IR_F32_TO_F16) needs.f16 = true;
        if (in->op >= GALE__IR_MIN_NAN && in->op <= GALE__IR_FMA_HALVES) needs.corners = true;
        if (in->op >= GALE__IR_FAST_EXP && in->op <= GALE__IR_FAST_QUOTIENT) needs.fast = true;
        if (in->op >= GALE__IR_COPY && in->op <= GALE__IR_WAIT) needs.copies = true;
        bool element = in->op == GALE__IR_GET || in->op == GALE__IR_SET;
        if ((element && in->width > 1) || (in->op == GALE__IR_SHARED && in->a)) needs.wide = true;
        if (in->op == GALE__IR_MATRIX_A || in->op == GALE__IR_MATRIX_B)
            needs.matrix |= gale__ir_is_byte(in->type) ? 4 : in->type == GALE_F16 ? 1 : 2;
        if (in->op == GALE__IR_SUMS) needs.sums = true;
        if (in->op == GALE__IR_SUMS && in->type == GALE_I32) needs.matrix |= 4;
        if (in->op == GALE__IR_MATRIX_SUMS || (element && ir->code[in->a].op == GALE__IR_SUMS)) needs.quads = true;
        if (in->op != GALE__IR_LOAD && in->op != GALE__IR_STORE) continue;
        int bits = gale__type_table[in->mem].bits;
        if (bits == 8) needs.mem8 = true;
        if (bits == 16) needs.mem16 = true;
        if (bits == 8 && in->op == GALE__IR_STORE) needs.store8 = true;
        if (bits == 16 && in->op == GALE__IR_STORE) needs.store16 = true;
    }
    return needs;
}

gale_status gale__ir_check_device(const gale__ir *ir, const gale_device_caps *caps)
{
    gale__ir_needs needs = gale__ir_get_needs(ir);
    const char *missing = needs.f64 && !caps->f64                 ? "64-bit floats"
                          : needs.i64 && !caps->i64               ? "64-bit integers"
                          : needs.subgroup && !caps->subgroup_ops ? "subgroup operations"
                          : needs.corners && !caps->corners ? "minima that pass NaN on and conversions that saturate"
                          : ir->cluster && !caps->matrix_groups      ? "clusters of work-groups"
                          : needs.together && !caps->groups_together ? "work-groups that wait for each other"
                                                                     : NULL;
    if (!missing) return GALE_OK;
    return gale__fail(GALE_UNSUPPORTED, "kernel %s needs %s, which this device lacks", ir->name, missing);
}
