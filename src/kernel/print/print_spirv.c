/* Prints kernel IR as SPIR-V words, so that Vulkan needs no compiler on the user's machine.  Buffers are 64-bit
 * addresses (physical storage buffers), parameters push constants, or a block that one push constant points to.
 * Integers carry no sign in their type: the operation does. */
#include "gale_built.h"
#include "kernel/ir/ir_util.h"
#include "kernel/print/print.h"

void gale__ir_words_finish(gale__ir_words *w)
{
    gale__free(w->words);
    *w = (gale__ir_words){0};
}

#ifndef GALE_HAVE_SPIRV
gale_status gale__ir_print_spirv(const gale__ir *kernel, const gale_device_caps *caps, gale__ir_words *out)
{
    (void)caps, (void)out;
    return gale__fail(GALE_UNSUPPORTED,
        "kernel %s: this build of gale does not include SPIR-V (install spirv-headers and rebuild)", kernel->name);
}
#else
#include "kernel/print/print_spirv.h"
#include <string.h>

typedef gale__spv_frame frame;
typedef gale__spv_printer printer;

/* Opcodes by column: floats, signed, unsigned, bool; 0: none.  Those of the GLSL set are in the second table. */
typedef struct opcode_row {
    uint16_t f, i, u, b;
} opcode_row;
static const opcode_row core_rows[GALE__IR_COUNT] = {
    [GALE__NEG] = {SpvOpFNegate, SpvOpSNegate, SpvOpSNegate, 0},
    [GALE__NOT] = {0, SpvOpNot, SpvOpNot, SpvOpLogicalNot},
    [GALE__ADD] = {SpvOpFAdd, SpvOpIAdd, SpvOpIAdd, 0},
    [GALE__SUB] = {SpvOpFSub, SpvOpISub, SpvOpISub, 0},
    [GALE__MUL] = {SpvOpFMul, SpvOpIMul, SpvOpIMul, 0},
    [GALE__AND] = {0, SpvOpBitwiseAnd, SpvOpBitwiseAnd, SpvOpLogicalAnd},
    [GALE__OR] = {0, SpvOpBitwiseOr, SpvOpBitwiseOr, SpvOpLogicalOr},
    [GALE__XOR] = {0, SpvOpBitwiseXor, SpvOpBitwiseXor, SpvOpLogicalNotEqual},
    [GALE__EQ] = {SpvOpFOrdEqual, SpvOpIEqual, SpvOpIEqual, SpvOpLogicalEqual},
    [GALE__NE] = {SpvOpFUnordNotEqual, SpvOpINotEqual, SpvOpINotEqual, SpvOpLogicalNotEqual},
    [GALE__LT] = {SpvOpFOrdLessThan, SpvOpSLessThan, SpvOpULessThan, 0},
    [GALE__LE] = {SpvOpFOrdLessThanEqual, SpvOpSLessThanEqual, SpvOpULessThanEqual, 0},
    [GALE__GT] = {SpvOpFOrdGreaterThan, SpvOpSGreaterThan, SpvOpUGreaterThan, 0},
    [GALE__GE] = {SpvOpFOrdGreaterThanEqual, SpvOpSGreaterThanEqual, SpvOpUGreaterThanEqual, 0},
    [GALE__SELECT] = {SpvOpSelect, SpvOpSelect, SpvOpSelect, SpvOpSelect},
    [GALE__IR_DIV] = {SpvOpFDiv, SpvOpSDiv, SpvOpUDiv, 0},
    [GALE__IR_FAST_DIV] = {SpvOpFDiv, 0, 0, 0},
    [GALE__IR_FAST_QUOTIENT] = {SpvOpFDiv, 0, 0, 0},
    [GALE__IR_REM] = {0, 0, SpvOpUMod, 0}, /* signed: see print_rem */
    [GALE__IR_SHL] = {0, SpvOpShiftLeftLogical, SpvOpShiftLeftLogical, 0},
    [GALE__IR_SHR] = {0, SpvOpShiftRightArithmetic, SpvOpShiftRightLogical, 0},
};
static const opcode_row glsl_rows[GALE__IR_COUNT] = {
    [GALE__ABS] = {GLSLstd450FAbs, 0, 0, 0},
    [GALE__FLOOR] = {GLSLstd450Floor, 0, 0, 0},
    [GALE__CEIL] = {GLSLstd450Ceil, 0, 0, 0},
    [GALE__RINT] = {GLSLstd450RoundEven, 0, 0, 0},
    [GALE__TRUNC] = {GLSLstd450Trunc, 0, 0, 0},
    [GALE__SQRT] = {GLSLstd450Sqrt, 0, 0, 0},
    [GALE__FMA] = {GLSLstd450Fma, 0, 0, 0},
    [GALE__IR_FAST_EXP] = {GLSLstd450Exp, 0, 0, 0},
    [GALE__IR_FAST_EXP2] = {GLSLstd450Exp2, 0, 0, 0},
    [GALE__IR_FAST_LOG] = {GLSLstd450Log, 0, 0, 0},
    [GALE__IR_FAST_LOG2] = {GLSLstd450Log2, 0, 0, 0},
    [GALE__IR_FAST_SIN] = {GLSLstd450Sin, 0, 0, 0},
    [GALE__IR_FAST_COS] = {GLSLstd450Cos, 0, 0, 0},
    [GALE__IR_FAST_SQRT] = {GLSLstd450Sqrt, 0, 0, 0},
    [GALE__IR_MIN] = {GLSLstd450FMin, GLSLstd450SMin, GLSLstd450UMin, 0},
    [GALE__IR_MAX] = {GLSLstd450FMax, GLSLstd450SMax, GLSLstd450UMax, 0},
};

static uint16_t in_column(const opcode_row *row, gale_type t)
{
    if (t == GALE_BOOL) return row->b;
    if (t == GALE_F32 || t == GALE_F64) return row->f;
    return gale__type_is_signed(t) ? row->i : row->u;
}

static uint32_t type1(printer *p, gale_type t) { return gale__spv_type(&p->spv, t, 1); }

/* One rounding per written operation. */
static void no_contraction(printer *p, uint32_t id)
{
    EMIT(&p->spv, &p->spv.notes, SpvOpDecorate, id, SpvDecorationNoContraction);
}

static uint32_t plus(printer *p, gale__ir_words *to, uint32_t address, uint32_t offset)
{
    return offset
               ? VALUE(&p->spv, to, SpvOpIAdd, type1(p, GALE_U64), address, gale__spv_const(&p->spv, GALE_U64, offset))
               : address;
}

/* How memory of the device is accessed; the alignment follows. */
static uint32_t access_mask(const printer *p)
{
    return SpvMemoryAccessAlignedMask | (p->hands ? SpvMemoryAccessNonPrivatePointerMask : 0);
}

static uint32_t load_at(printer *p, gale__ir_words *to, gale_type t, int width, uint32_t address)
{
    uint32_t type = gale__spv_type(&p->spv, t, width);
    uint32_t pointer = VALUE(&p->spv, to, SpvOpConvertUToPtr,
        gale__spv_pointer(&p->spv, SpvStorageClassPhysicalStorageBuffer, type), address);
    return VALUE(&p->spv, to, SpvOpLoad, type, pointer, access_mask(p), (uint32_t)(width * gale__type_table[t].size));
}

/* The push constants: { u64 p[NP]; u32 w[NW]; }, or the address of a block of that form. */
static void declare_parameters(printer *p)
{
    gale__spv *s = &p->spv;
    uint32_t np = (uint32_t)p->ir->n_pointers, nw = (uint32_t)p->ir->n_words, members[2], n = 0;
    if (!np && !nw) return;
    p->block = 8 * np + 4 * nw > p->caps->push_bytes;
    if (p->block) np = 1, nw = 0;
    uint32_t offsets[2] = {0, 8 * np};
    if (np) members[n++] = gale__spv_array(s, type1(p, GALE_U64), np);
    if (nw) members[n++] = gale__spv_array(s, type1(p, GALE_U32), nw);
    uint32_t structure = gale__spv_struct(s, members, (int)n);
    EMIT(s, &s->notes, SpvOpDecorate, structure, SpvDecorationBlock);
    for (uint32_t i = 0; i < n; i++) {
        bool pointers = np && i == 0;
        EMIT(s, &s->notes, SpvOpDecorate, members[i], SpvDecorationArrayStride, pointers ? 8u : 4u);
        EMIT(s, &s->notes, SpvOpMemberDecorate, structure, i, SpvDecorationOffset, pointers ? 0u : offsets[1]);
    }
    p->parameters = gale__spv_variable(s, SpvStorageClassPushConstant, structure);
    if (!p->block) return;
    uint32_t place =
        VALUE(s, &s->entry, SpvOpAccessChain, gale__spv_pointer(s, SpvStorageClassPushConstant, type1(p, GALE_U64)),
            p->parameters, gale__spv_u32(s, 0), gale__spv_u32(s, 0));
    p->parameters = VALUE(s, &s->entry, SpvOpLoad, type1(p, GALE_U64), place);
}

/* Pointer i (t U64) or word i (t U32), read in the first block. */
static uint32_t parameter(printer *p, gale_type t, uint32_t i)
{
    gale__spv *s = &p->spv;
    uint32_t *known = t == GALE_U64 ? &p->pointer[i] : &p->word[i], np = (uint32_t)p->ir->n_pointers;
    if (*known) return *known;
    if (p->block) {
        uint32_t offset = t == GALE_U64 ? 8 * i : 8 * np + 4 * i;
        return *known = load_at(p, &s->entry, t, 1, plus(p, &s->entry, p->parameters, offset));
    }
    uint32_t member = gale__spv_u32(s, t == GALE_U32 && np ? 1 : 0);
    uint32_t place = VALUE(s, &s->entry, SpvOpAccessChain,
        gale__spv_pointer(s, SpvStorageClassPushConstant, type1(p, t)), p->parameters, member, gale__spv_u32(s, i));
    return *known = VALUE(s, &s->entry, SpvOpLoad, type1(p, t), place);
}

static uint32_t print_word(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    gale_type t = (gale_type)in->type;
    uint32_t low = parameter(p, GALE_U32, (uint32_t)in->imm);
    if (gale__ir_bits(t) == 32) return t == GALE_F32 ? VALUE(s, &s->body, SpvOpBitcast, type1(p, t), low) : low;
    uint32_t high = parameter(p, GALE_U32, (uint32_t)in->imm + 1);
    uint32_t pair = VALUE(s, &s->body, SpvOpCompositeConstruct, gale__spv_type(s, GALE_U32, 2), low, high);
    return VALUE(s, &s->body, SpvOpBitcast, type1(p, t), pair);
}

static uint32_t print_builtin(printer *p, const gale__ir_instr *in)
{
    static const SpvBuiltIn names[4] = {SpvBuiltInWorkgroupId, SpvBuiltInLocalInvocationId, SpvBuiltInNumWorkgroups,
        SpvBuiltInSubgroupLocalInvocationId};
    gale__spv *s = &p->spv;
    int which = in->op - GALE__IR_GROUP_ID;
    uint32_t type = gale__spv_type(s, GALE_U32, which == 3 ? 1 : 3);
    if (which == 3) s->capabilities |= 1u << GALE__SPV_SUBGROUP;
    if (!p->builtin[which]) {
        p->builtin[which] = gale__spv_builtin(s, names[which], type);
        p->builtin_value[which] = VALUE(s, &s->entry, SpvOpLoad, type, p->builtin[which]);
    }
    if (which == 3) return p->builtin_value[which];
    return VALUE(s, &s->body, SpvOpCompositeExtract, type1(p, GALE_U32), p->builtin_value[which], (uint32_t)in->imm);
}

static uint32_t element_address(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t base = parameter(p, GALE_U64, (uint32_t)in->imm), wide = type1(p, GALE_U64), index = p->id[in->a];
    uint64_t bits;
    uint32_t size = (uint32_t)gale__type_table[in->mem].size;
    if (gale__ir_is_const(p->ir, in->a, &bits))
        return bits ? VALUE(s, &s->body, SpvOpIAdd, wide, base, gale__spv_const(s, GALE_U64, bits * size)) : base;
    if (gale__ir_type(p->ir, in->a) == GALE_U32) index = VALUE(s, &s->body, SpvOpUConvert, wide, index);
    if (size > 1) index = VALUE(s, &s->body, SpvOpIMul, wide, index, gale__spv_const(s, GALE_U64, size));
    return VALUE(s, &s->body, SpvOpIAdd, wide, base, index);
}

/* Bytes and halves where the device loads whole words only: each lane is cut out of the word that holds it. */
static uint32_t load_by_words(printer *p, const gale__ir_instr *in, uint32_t address)
{
    gale__spv *s = &p->spv;
    uint32_t u32 = type1(p, GALE_U32), u64 = type1(p, GALE_U64), bits = (uint32_t)gale__type_table[in->mem].bits;
    uint32_t total = bits * in->width, words[2], lanes[4], from = gale__spv_u32(s, 0);
    if (total < 32) {
        uint32_t within = VALUE(s, &s->body, SpvOpBitwiseAnd, u64, address, gale__spv_const(s, GALE_U64, 3));
        address = VALUE(s, &s->body, SpvOpISub, u64, address, within);
        from = VALUE(s, &s->body, SpvOpUConvert, u32, within);
        from = VALUE(s, &s->body, SpvOpIMul, u32, from, gale__spv_u32(s, 8));
    }
    for (uint32_t i = 0; i < (total + 31) / 32; i++)
        words[i] = load_at(p, &s->body, GALE_U32, 1, plus(p, &s->body, address, 4 * i));
    SpvOp cut = gale__type_is_signed((gale_type)in->mem) ? SpvOpBitFieldSExtract : SpvOpBitFieldUExtract;
    for (uint32_t i = 0; i < in->width; i++) {
        uint32_t offset = gale__spv_u32(s, i * bits % 32);
        if (total < 32) offset = VALUE(s, &s->body, SpvOpIAdd, u32, from, offset);
        lanes[i] = VALUE(s, &s->body, cut, u32, words[i * bits / 32], offset, gale__spv_u32(s, bits));
    }
    if (in->width == 1) return lanes[0];
    return gale__spv_value(
        s, &s->body, SpvOpCompositeConstruct, gale__spv_type(s, GALE_U32, in->width), lanes, in->width);
}

static bool needs_words(printer *p, gale_type mem)
{
    int bits = gale__type_table[mem].bits;
    if (bits == 8) p->spv.capabilities |= p->caps->storage8 ? 1u << GALE__SPV_STORAGE8 : 0u;
    if (bits == 16) p->spv.capabilities |= p->caps->storage16 ? 1u << GALE__SPV_STORAGE16 : 0u;
    return (bits == 8 && !p->caps->storage8) || (bits == 16 && !p->caps->storage16);
}

static uint32_t print_load(printer *p, const gale__ir_instr *in)
{
    gale_type mem = (gale_type)in->mem;
    uint32_t address = element_address(p, in);
    if (needs_words(p, mem)) return load_by_words(p, in, address);
    uint32_t v = load_at(p, &p->spv.body, mem, in->width, address);
    if (gale__type_table[mem].bits >= 32) return v;
    SpvOp widen = gale__type_is_signed(mem) ? SpvOpSConvert : SpvOpUConvert;
    return VALUE(&p->spv, &p->spv.body, widen, gale__spv_type(&p->spv, GALE_U32, in->width), v);
}

static gale_status print_store(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    gale_type mem = (gale_type)in->mem;
    if (needs_words(p, mem))
        return gale__fail(GALE_UNSUPPORTED,
            "kernel %s stores %s elements, but this device does not support %d-bit stores", p->ir->name,
            gale_type_name(mem), gale__type_table[mem].bits);
    uint32_t type = gale__spv_type(s, mem, in->width), v = p->id[in->b], address = element_address(p, in);
    if (gale__type_table[mem].bits < 32) v = VALUE(s, &s->body, SpvOpUConvert, type, v);
    uint32_t pointer = VALUE(
        s, &s->body, SpvOpConvertUToPtr, gale__spv_pointer(s, SpvStorageClassPhysicalStorageBuffer, type), address);
    EMIT(s, &s->body, SpvOpStore, pointer, v, access_mask(p), (uint32_t)(in->width * gale__type_table[mem].size));
    return GALE_OK;
}

/* Ordered by barriers alone, as other accesses are. */
static void print_add(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    bool memory = in->op == GALE__IR_STORE_ADD;
    uint32_t u32 = type1(p, GALE_U32), pointer,
             everyone = gale__spv_u32(s, p->model ? SpvScopeQueueFamily : SpvScopeDevice);
    if (memory)
        pointer = VALUE(s, &s->body, SpvOpConvertUToPtr,
            gale__spv_pointer(s, SpvStorageClassPhysicalStorageBuffer, u32), element_address(p, in));
    else pointer = gale__spv_unit_pointer(p, in->a, p->id[in->b]);
    VALUE(s, &s->body, SpvOpAtomicIAdd, u32, pointer, memory ? everyone : gale__spv_u32(s, SpvScopeWorkgroup),
        gale__spv_u32(s, 0), p->id[memory ? in->b : in->c]);
}

static uint32_t print_convert(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    gale_type to = (gale_type)in->type, from = gale__ir_type(p->ir, in->a);
    bool to_float = gale__type_is_float(to), from_float = gale__type_is_float(from);
    uint32_t type = type1(p, to), v = p->id[in->a];
    SpvOp op;
    if (from == GALE_BOOL) {
        uint64_t one = to == GALE_F32 ? 0x3f800000u : to == GALE_F64 ? 0x3ff0000000000000u : 1;
        return VALUE(s, &s->body, SpvOpSelect, type, v, gale__spv_const(s, to, one), gale__spv_const(s, to, 0));
    }
    if (to_float && from_float) op = SpvOpFConvert;
    else if (to_float) op = gale__type_is_signed(from) ? SpvOpConvertSToF : SpvOpConvertUToF;
    else if (from_float) op = gale__type_is_signed(to) ? SpvOpConvertFToS : SpvOpConvertFToU;
    else if (gale__ir_bits(to) == gale__ir_bits(from)) return v;
    else op = gale__type_is_signed(from) ? SpvOpSConvert : SpvOpUConvert;
    if (op == SpvOpSConvert && p->caps->software &&
        gale__ir_bits(to) == 64) { /* Mesa 22 takes comparisons of widened values for unsigned ones */
        uint32_t half = gale__spv_const(s, GALE_U32, 32);
        v = VALUE(s, &s->body, SpvOpUConvert, type, v);
        v = VALUE(s, &s->body, SpvOpShiftLeftLogical, type, v, half);
        return VALUE(s, &s->body, SpvOpShiftRightArithmetic, type, v, half);
    }
    return VALUE(s, &s->body, op, type, v);
}

static uint32_t print_half(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t f32 = type1(p, GALE_F32), pair = gale__spv_type(s, GALE_F32, 2);
    if (in->op == GALE__IR_F16_TO_F32) {
        uint32_t v = VALUE(s, &s->body, SpvOpExtInst, pair, s->glsl, GLSLstd450UnpackHalf2x16, p->id[in->a]);
        return VALUE(s, &s->body, SpvOpCompositeExtract, f32, v, 0);
    }
    uint32_t v = VALUE(s, &s->body, SpvOpCompositeConstruct, pair, p->id[in->a], gale__spv_const(s, GALE_F32, 0));
    return VALUE(s, &s->body, SpvOpExtInst, type1(p, GALE_U32), s->glsl, GLSLstd450PackHalf2x16, v);
}

static uint32_t print_mulhi(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t u32 = type1(p, GALE_U32);
    uint32_t both = gale__spv_struct(s, (const uint32_t[]){u32, u32}, 2);
    uint32_t v = VALUE(s, &s->body, SpvOpUMulExtended, both, p->id[in->a], p->id[in->b]);
    return VALUE(s, &s->body, SpvOpCompositeExtract, u32, v, 1);
}

static uint32_t print_shuffle(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    s->capabilities |= 1u << GALE__SPV_SUBGROUP | 1u << GALE__SPV_SHUFFLE;
    return VALUE(s, &s->body, SpvOpGroupNonUniformShuffleXor, type1(p, (gale_type)in->type),
        gale__spv_u32(s, SpvScopeSubgroup), p->id[in->a], gale__spv_u32(s, (uint32_t)in->imm));
}

static uint32_t print_arithmetic(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    gale__ir_val operands[4];
    uint32_t words[6] = {s->glsl};
    int n = gale__ir_operands(in, operands), core = 0;
    gale_type by = in->op == GALE__SELECT ? (gale_type)in->type : gale__ir_type(p->ir, in->a);
    bool is_float = by == GALE_F32 || by == GALE_F64;
    /* Drivers that assume no NaN still keep this one. */
    if (in->op == GALE__NE && is_float && in->a == in->b)
        return VALUE(s, &s->body, SpvOpIsNan, type1(p, GALE_BOOL), p->id[in->a]);
    core = in_column(&core_rows[in->op], by);
    words[1] = in_column(&glsl_rows[in->op], by);
    for (int i = 0; i < n; i++) words[i + 2] = p->id[operands[i]];
    uint32_t type = type1(p, (gale_type)in->type);
    uint32_t id = core ? gale__spv_value(s, &s->body, (SpvOp)core, type, words + 2, n)
                       : gale__spv_value(s, &s->body, SpvOpExtInst, type, words, n + 2);
    if (is_float && in->op != GALE__SELECT) no_contraction(p, id);
    return id;
}

/* Vulkan leaves OpSRem of negative operands undefined; OpSDiv it defines. */
static uint32_t print_rem(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t type = type1(p, (gale_type)in->type), a = p->id[in->a], b = p->id[in->b];
    uint32_t whole = VALUE(s, &s->body, SpvOpIMul, type, VALUE(s, &s->body, SpvOpSDiv, type, a, b), b);
    return VALUE(s, &s->body, SpvOpISub, type, a, whole);
}

static void open_block(printer *p, uint32_t label)
{
    EMIT(&p->spv, &p->spv.body, SpvOpLabel, label);
    p->spv.label = label;
}

static void open_loop(printer *p, gale__ir_val v, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    frame *f = &p->frames[p->depth++];
    uint32_t u32 = type1(p, GALE_U32), test = gale__spv_id(s), before = s->label;
    *f = (frame){.op = GALE__IR_FOR,
        .header = gale__spv_id(s),
        .body = gale__spv_id(s),
        .next = gale__spv_id(s),
        .merge = gale__spv_id(s),
        .after = gale__spv_id(s)};
    EMIT(s, &s->body, SpvOpBranch, f->header);
    open_block(p, f->header);
    f->counter = p->id[v] = VALUE(s, &s->body, SpvOpPhi, u32, p->id[in->a], before, f->after, f->next);
    EMIT(s, &s->body, SpvOpLoopMerge, f->merge, f->next, (uint32_t)in->imm); /* SpvLoopControlMask is the same */
    EMIT(s, &s->body, SpvOpBranch, test);
    open_block(p, test);
    uint32_t inside = VALUE(s, &s->body, SpvOpULessThan, type1(p, GALE_BOOL), f->counter, p->id[in->b]);
    EMIT(s, &s->body, SpvOpBranchConditional, inside, f->body, f->merge);
    open_block(p, f->body);
    f->other = p->id[in->c];
}

static void close_loop(printer *p, const frame *f)
{
    gale__spv *s = &p->spv;
    EMIT(s, &s->body, SpvOpBranch, f->next);
    open_block(p, f->next);
    EMIT(s, &s->body, SpvOpIAdd, type1(p, GALE_U32), f->after, f->counter, f->other);
    EMIT(s, &s->body, SpvOpBranch, f->header);
    open_block(p, f->merge);
}

/* Every IF has both arms; the second is empty when there is no ELSE. */
static void open_if(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    frame *f = &p->frames[p->depth++];
    *f = (frame){.op = GALE__IR_IF, .body = gale__spv_id(s), .other = gale__spv_id(s), .merge = gale__spv_id(s)};
    EMIT(s, &s->body, SpvOpSelectionMerge, f->merge, SpvSelectionControlMaskNone);
    EMIT(s, &s->body, SpvOpBranchConditional, p->id[in->a], f->body, f->other);
    open_block(p, f->body);
}

static void print_control(printer *p, gale__ir_val v, const gale__ir_instr *in)
{
    if (in->op == GALE__IR_FOR) {
        open_loop(p, v, in);
        return;
    }
    if (in->op == GALE__IR_IF) {
        open_if(p, in);
        return;
    }
    frame *f = &p->frames[p->depth - 1];
    if (in->op == GALE__IR_END) p->depth--;
    if (f->op == GALE__IR_FOR) {
        close_loop(p, f);
        return;
    }
    EMIT(&p->spv, &p->spv.body, SpvOpBranch, f->merge);
    if (f->op == GALE__IR_IF) {
        open_block(p, f->other);
        f->op = GALE__IR_ELSE;
        if (in->op == GALE__IR_ELSE) return;
        EMIT(&p->spv, &p->spv.body, SpvOpBranch, f->merge);
    }
    open_block(p, f->merge);
}

/* Without the Vulkan memory model a barrier orders accesses to the device's memory but does not make writes visible.
 */
static void print_barrier(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t scope = gale__spv_u32(s, in->imm == 2 ? SpvScopeSubgroup : SpvScopeWorkgroup),
             memory = SpvMemorySemanticsAcquireReleaseMask | SpvMemorySemanticsWorkgroupMemoryMask;
    if (p->model) memory |= SpvMemorySemanticsMakeAvailableMask | SpvMemorySemanticsMakeVisibleMask;
    if (in->imm == 1) memory |= SpvMemorySemanticsUniformMemoryMask;
    EMIT(s, &s->body, SpvOpControlBarrier, scope, scope, gale__spv_u32(s, memory));
}

static uint32_t print_value(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    gale_type type = (gale_type)in->type;
    switch (in->op) {
    case GALE__IR_CONST: return gale__spv_const(s, type, in->imm);
    case GALE__IR_WORD: return print_word(p, in);
    case GALE__IR_GROUP_ID:
    case GALE__IR_LOCAL_ID:
    case GALE__IR_GROUP_COUNT:
    case GALE__IR_LANE: return print_builtin(p, in);
    case GALE__IR_CONVERT: return print_convert(p, in);
    case GALE__IR_REM: return gale__type_is_signed(type) ? print_rem(p, in) : print_arithmetic(p, in);
    case GALE__BITCAST: {
        bool same = !gale__type_is_float(type) && !gale__type_is_float(gale__ir_type(p->ir, in->a));
        return same ? p->id[in->a] : VALUE(s, &s->body, SpvOpBitcast, type1(p, type), p->id[in->a]);
    }
    case GALE__IR_MULHI: return print_mulhi(p, in);
    case GALE__IR_F16_TO_F32:
    case GALE__IR_F32_TO_F16: return print_half(p, in);
    case GALE__IR_LOAD: return print_load(p, in);
    case GALE__IR_EXTRACT:
        return VALUE(s, &s->body, SpvOpCompositeExtract, type1(p, type), p->id[in->a], (uint32_t)in->imm);
    case GALE__IR_PACK: {
        uint32_t lanes[4] = {p->id[in->a], p->id[in->b], p->id[in->c], p->id[in->d]};
        return gale__spv_value(
            s, &s->body, SpvOpCompositeConstruct, gale__spv_type(s, type, in->width), lanes, in->width);
    }
    case GALE__IR_GET: return gale__spv_get(p, in);
    case GALE__IR_SHUFFLE_XOR: return print_shuffle(p, in);
    default: return print_arithmetic(p, in);
    }
}

static gale_status print_instr(printer *p, gale__ir_val v)
{
    const gale__ir_instr *in = &p->ir->code[v];
    int kind = gale__ir_op_get(in->op).kind;
    if ((kind == GALE__IR_VALUE || kind == GALE__IR_READ) && !p->uses[v]) return GALE_OK;
    switch (in->op) {
    case GALE__IR_STORE: return print_store(p, in);
    case GALE__IR_SET: gale__spv_set(p, in); return GALE_OK;
    case GALE__IR_STORE_ADD:
    case GALE__IR_SET_ADD: print_add(p, in); return GALE_OK;
    case GALE__IR_SHARED:
    case GALE__IR_ARRAY: p->id[v] = gale__spv_declare(p, v); return GALE_OK;
    case GALE__IR_MATRIX_A:
    case GALE__IR_MATRIX_B:
    case GALE__IR_SUMS:
    case GALE__IR_SUMS_ZERO:
    case GALE__IR_SUMS_ADD:
    case GALE__IR_SUMS_STORE: gale__spv_matrix(p, v); return GALE_OK;
    case GALE__IR_BARRIER: print_barrier(p, in); return GALE_OK;
    case GALE__IR_READY: return GALE_OK; /* kernels run one after the other */
    case GALE__IR_FOR:
    case GALE__IR_IF:
    case GALE__IR_ELSE:
    case GALE__IR_END: print_control(p, v, in); return GALE_OK;
    default: p->id[v] = print_value(p, in); return GALE_OK;
    }
}

static gale_status print_kernel(const gale__ir *kernel, const gale_device_caps *caps, gale__ir_words *out)
{
    gale__arena arena = {0};
    size_t n = kernel->count + 1u;
    printer *p = gale__arena_alloc(&arena, sizeof *p);
    uint32_t *arrays =
        gale__arena_alloc(&arena, (5 * n + (size_t)kernel->n_pointers + (size_t)kernel->n_words) * sizeof *arrays);
    if (!p || !arrays) {
        gale__arena_finish(&arena);
        return GALE_NO_MEMORY;
    }
    p->ir = kernel, p->caps = caps, p->spv.next_id = 1;
    p->spv.capabilities =
        (caps->denormals ? 1u << GALE__SPV_DENORMALS : 0u) | (caps->nan_inf ? 1u << GALE__SPV_NAN_INF : 0u);
    p->id = arrays, p->uses = arrays + n, p->unit = arrays + 3 * n, p->under = arrays + 4 * n;
    p->pointer = arrays + 5 * n, p->word = p->pointer + kernel->n_pointers;
    gale__ir_count_uses(kernel, p->uses, arrays + 2 * n);
    for (gale__ir_val v = 1; v < kernel->count; v++)
        p->hands |= kernel->code[v].op == GALE__IR_BARRIER && kernel->code[v].imm == 1;
    p->model = p->hands || kernel->subgroup;
    if (p->model) p->spv.capabilities |= 1u << GALE__SPV_MEMORY_MODEL;
    uint32_t function = gale__spv_id(&p->spv);
    p->spv.glsl = gale__spv_id(&p->spv);
    p->spv.first_label = p->spv.label = gale__spv_id(&p->spv);
    declare_parameters(p);
    gale_status status = gale__spv_plan_arrays(p);
    for (gale__ir_val v = 1; v < kernel->count && status == GALE_OK && !p->spv.failed; v++) status = print_instr(p, v);
    if (status == GALE_OK) status = gale__spv_link(&p->spv, kernel, function, out);
    gale__spv_finish(&p->spv);
    gale__arena_finish(&arena);
    return status;
}

static gale_status print_lowered(const gale__ir *kernel, const gale_device_caps *caps, gale__ir_words *out)
{
    gale__ir_lowering what = gale__ir_lowering_for(caps);
    if (!what.fma && !what.f16 && !what.integers && !what.division) return print_kernel(kernel, caps, out);
    gale__ir lowered;
    GALE_TRY(gale__ir_lower(kernel, what, &lowered));
    gale_status status = print_kernel(&lowered, caps, out);
    gale__ir_finish(&lowered);
    return status;
}

gale_status gale__ir_print_spirv(const gale__ir *kernel, const gale_device_caps *caps, gale__ir_words *out)
{
    GALE_TRY(gale__ir_check(kernel));
    GALE_TRY(gale__ir_check_device(kernel, caps));
    if (gale__ir_is_together(kernel))
        return gale__fail(
            GALE_UNSUPPORTED, "kernel %s needs work-groups that wait for each other, which SPIR-V lacks", kernel->name);
    gale__ir_plainly what = gale__ir_plainly_for(kernel, caps, false);
    if (!what.matrix && !what.copies) return print_lowered(kernel, caps, out);
    gale__ir plain;
    GALE_TRY(gale__ir_write_plainly(kernel, what, &plain));
    gale_status status = print_lowered(&plain, caps, out);
    gale__ir_finish(&plain);
    return status;
}
#endif
