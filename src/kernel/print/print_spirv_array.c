/* Arrays in SPIR-V.  A work-group array of small elements is declared as an array of the largest unit that all its
 * accesses are made of (16 bytes where it is only moved and multiplied): SPIR-V has no pointer to several elements. */
#include "gale_built.h"
#ifdef GALE_HAVE_SPIRV
#include "kernel/print/print_spirv.h"

typedef gale__spv_printer printer;

static uint32_t type1(printer *p, gale_type t) { return gale__spv_type(&p->spv, t, 1); }

static uint32_t size_of(gale_type t) { return t == GALE_BOOL ? 4 : (uint32_t)gale__type_table[t].size; }

/* Bytes of the smallest access. */
static void note_access(printer *p, gale__ir_val array, uint32_t bytes)
{
    if (p->ir->code[array].op == GALE__IR_SHARED && bytes < p->unit[array]) p->unit[array] = bytes;
}

/* An array over another one takes its memory if both are made of whole words, the smaller units of the two. */
static void plan_overlays(printer *p)
{
    for (int round = 0; round < 2; round++) /* the second time all have what the smallest needs */
        for (gale__ir_val v = 1; v < p->ir->count; v++) {
            gale__ir_val under = p->ir->code[v].op == GALE__IR_SHARED ? p->ir->code[v].a : 0;
            if (!under || p->ir->code[v].imm < 2 || p->unit[v] < 4 || p->unit[under] < 4) continue;
            p->unit[v] = p->unit[under] = p->unit[v] < p->unit[under] ? p->unit[v] : p->unit[under];
            p->under[v] = p->under[under] = under;
        }
}

gale_status gale__spv_plan_arrays(printer *p)
{
    const gale__ir *ir = p->ir;
    for (gale__ir_val v = 1; v < ir->count; v++) {
        const gale__ir_instr *in = &ir->code[v];
        if (in->op == GALE__IR_SHARED) p->unit[v] = in->type == GALE_BOOL || size_of((gale_type)in->type) > 4 ? 0 : 16;
        if (in->op == GALE__IR_GET || in->op == GALE__IR_SET || in->op == GALE__IR_SET_ADD)
            note_access(p, in->a,
                in->width > 1 ? in->width * size_of((gale_type)in->mem) : size_of((gale_type)ir->code[in->a].type));
    }
    plan_overlays(p);
    for (gale__ir_val v = 1; v < ir->count; v++) {
        const gale__ir_instr *in = &ir->code[v];
        if (in->op != GALE__IR_SHARED) continue;
        uint32_t size = size_of((gale_type)in->type);
        if (p->unit[v] == size && !p->under[v]) p->unit[v] = 0;
        if (size == 1 || p->unit[v] == 1) p->spv.capabilities |= 1u << GALE__SPV_INT8;
        if (p->unit[v] == 2 || (size == 2 && !p->unit[v])) p->spv.capabilities |= 1u << GALE__SPV_INT16;
        if (size < 4 && !(size == 1 ? p->caps->storage8 : p->caps->storage16))
            return gale__fail(GALE_UNSUPPORTED,
                "kernel %s keeps %u-bit elements in work-group memory, which this device does not support", ir->name,
                size * 8);
    }
    return GALE_OK;
}

uint32_t gale__spv_unit_bytes(const printer *p, gale__ir_val array)
{
    return p->unit[array] ? p->unit[array] : size_of((gale_type)p->ir->code[array].type);
}

static uint32_t unit_type(printer *p, gale__ir_val array)
{
    switch (p->unit[array]) {
    case 0: return type1(p, (gale_type)p->ir->code[array].type);
    case 2: return type1(p, GALE_U16);
    case 4: return type1(p, GALE_U32);
    case 8: return gale__spv_type(&p->spv, GALE_U32, 2);
    default: return gale__spv_type(&p->spv, GALE_U32, 4);
    }
}

uint32_t gale__spv_declare(printer *p, gale__ir_val v)
{
    const gale__ir_instr *in = &p->ir->code[v];
    bool shared = in->op == GALE__IR_SHARED;
    if (p->under[v] && p->under[v] != v) return p->id[p->under[v]];
    uint32_t type = shared ? unit_type(p, v) : type1(p, (gale_type)in->type);
    uint64_t units = in->imm;
    if (shared && p->unit[v]) units = (in->imm * size_of((gale_type)in->type) + p->unit[v] - 1) / p->unit[v];
    if (in->imm > 1) type = gale__spv_array(&p->spv, type, units);
    return gale__spv_variable(&p->spv, shared ? SpvStorageClassWorkgroup : SpvStorageClassFunction, type);
}

/* Whether words of the array are f32, and not bits of one. */
static bool is_f32(const printer *p, gale__ir_val array)
{
    return p->ir->code[array].type == GALE_F32 && !p->unit[array];
}

/* Index in elements to index in units. */
uint32_t gale__spv_unit_pointer(printer *p, gale__ir_val array, uint32_t index)
{
    gale__spv *s = &p->spv;
    const gale__ir_instr *in = &p->ir->code[array];
    bool shared = in->op == GALE__IR_SHARED;
    if (in->imm == 1) return p->id[array];
    uint32_t size = size_of((gale_type)in->type), unit = shared && p->unit[array] ? p->unit[array] : size, shift = 0;
    while (size << shift < unit) shift++;
    if (shift) index = VALUE(s, &s->body, SpvOpShiftRightLogical, type1(p, GALE_U32), index, gale__spv_u32(s, shift));
    uint32_t type = shared ? unit_type(p, array) : type1(p, (gale_type)in->type);
    SpvStorageClass where = shared ? SpvStorageClassWorkgroup : SpvStorageClassFunction;
    return VALUE(s, &s->body, SpvOpAccessChain, gale__spv_pointer(s, where, type), p->id[array], index);
}

static uint32_t load(printer *p, gale__ir_val array, uint32_t type, uint32_t pointer)
{
    gale__spv *s = &p->spv;
    if (p->model && p->ir->code[array].op == GALE__IR_SHARED)
        return VALUE(s, &s->body, SpvOpLoad, type, pointer, SpvMemoryAccessNonPrivatePointerMask);
    return VALUE(s, &s->body, SpvOpLoad, type, pointer);
}

static void store(printer *p, gale__ir_val array, uint32_t pointer, uint32_t value)
{
    gale__spv *s = &p->spv;
    if (p->model && p->ir->code[array].op == GALE__IR_SHARED)
        EMIT(s, &s->body, SpvOpStore, pointer, value, SpvMemoryAccessNonPrivatePointerMask);
    else EMIT(s, &s->body, SpvOpStore, pointer, value);
}

/* --- vectors, by way of words of 32 bits --- */

static uint32_t shifted(printer *p, SpvOp op, uint32_t v, uint32_t by)
{
    return by ? VALUE(&p->spv, &p->spv.body, op, type1(p, GALE_U32), v, gale__spv_u32(&p->spv, by)) : v;
}

static uint32_t lane_of(printer *p, gale_type type, uint32_t vector, uint32_t lane)
{
    return VALUE(&p->spv, &p->spv.body, SpvOpCompositeExtract, type1(p, type), vector, lane);
}

/* The lanes of a value as words, and the way back. */
static void to_words(printer *p, const gale__ir_instr *in, uint32_t value, uint32_t *words)
{
    gale__spv *s = &p->spv;
    gale_type mem = (gale_type)in->mem, compute = gale__compute_type(mem);
    uint32_t bits = (uint32_t)gale__type_table[mem].bits, u32 = type1(p, GALE_U32), per = 32 / bits;
    for (uint32_t i = 0; i < in->width; i++) {
        uint32_t v = lane_of(p, compute, value, i);
        if (mem == GALE_F32) v = VALUE(s, &s->body, SpvOpBitcast, u32, v);
        if (bits < 32) {
            v = VALUE(s, &s->body, SpvOpBitwiseAnd, u32, v, gale__spv_u32(s, (1u << bits) - 1));
            v = shifted(p, SpvOpShiftLeftLogical, v, i % per * bits);
            if (i % per) v = VALUE(s, &s->body, SpvOpBitwiseOr, u32, words[i / per], v);
        }
        words[i / per] = v;
    }
}

static uint32_t from_words(printer *p, const gale__ir_instr *in, const uint32_t *words)
{
    gale__spv *s = &p->spv;
    gale_type mem = (gale_type)in->mem;
    uint32_t bits = (uint32_t)gale__type_table[mem].bits, per = 32 / bits, lanes[4];
    SpvOp cut = gale__type_is_signed(mem) ? SpvOpBitFieldSExtract : SpvOpBitFieldUExtract;
    for (uint32_t i = 0; i < in->width; i++) {
        lanes[i] = words[i / per];
        if (mem == GALE_F32) lanes[i] = VALUE(s, &s->body, SpvOpBitcast, type1(p, GALE_F32), lanes[i]);
        if (bits < 32)
            lanes[i] = VALUE(s, &s->body, cut, type1(p, GALE_U32), lanes[i], gale__spv_u32(s, i % per * bits),
                gale__spv_u32(s, bits));
    }
    return gale__spv_value(
        s, &s->body, SpvOpCompositeConstruct, gale__spv_type(s, gale__compute_type(mem), in->width), lanes, in->width);
}

/* Pointer to unit i of a vector. */
static uint32_t pointer_at(printer *p, const gale__ir_instr *in, uint32_t unit, uint32_t i)
{
    uint32_t size = size_of((gale_type)p->ir->code[in->a].type), index = p->id[in->b];
    if (i)
        index =
            VALUE(&p->spv, &p->spv.body, SpvOpIAdd, type1(p, GALE_U32), index, gale__spv_u32(&p->spv, i * unit / size));
    return gale__spv_unit_pointer(p, in->a, index);
}

static bool same_elements(const printer *p, const gale__ir_instr *in)
{
    return !p->unit[in->a] && in->mem == p->ir->code[in->a].type && gale__type_table[in->mem].bits >= 32;
}

static void set_vector(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t words[4], unit = gale__spv_unit_bytes(p, in->a), value = p->id[in->c];
    if (same_elements(p, in)) {
        for (uint32_t i = 0; i < in->width; i++)
            store(p, in->a, pointer_at(p, in, unit, i), lane_of(p, (gale_type)in->mem, value, i));
        return;
    }
    uint32_t bytes = in->width * size_of((gale_type)in->mem);
    to_words(p, in, value, words);
    for (uint32_t i = 0; i < bytes / unit; i++) {
        uint32_t v = words[i * unit / 4];
        if (unit < 4)
            v = VALUE(s, &s->body, SpvOpUConvert, type1(p, unit == 2 ? GALE_U16 : GALE_U8),
                shifted(p, SpvOpShiftRightLogical, v, i * unit % 4 * 8));
        if (unit == 4 && is_f32(p, in->a)) v = VALUE(s, &s->body, SpvOpBitcast, type1(p, GALE_F32), v);
        if (unit > 4)
            v = gale__spv_value(
                s, &s->body, SpvOpCompositeConstruct, unit_type(p, in->a), words + i * unit / 4, (int)unit / 4);
        store(p, in->a, pointer_at(p, in, unit, i), v);
    }
}

static uint32_t get_vector(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t words[4] = {0}, unit = gale__spv_unit_bytes(p, in->a), u32 = type1(p, GALE_U32);
    uint32_t bytes = in->width * size_of((gale_type)in->mem);
    if (same_elements(p, in)) {
        for (uint32_t i = 0; i < in->width; i++)
            words[i] = load(p, in->a, type1(p, (gale_type)in->mem), pointer_at(p, in, unit, i));
        return gale__spv_value(
            s, &s->body, SpvOpCompositeConstruct, gale__spv_type(s, (gale_type)in->mem, in->width), words, in->width);
    }
    for (uint32_t i = 0; i < bytes / unit; i++) {
        uint32_t v = load(p, in->a, unit_type(p, in->a), pointer_at(p, in, unit, i)), at = i * unit / 4;
        if (unit > 4)
            for (uint32_t k = 0; k < unit / 4; k++) words[at + k] = lane_of(p, GALE_U32, v, k);
        else if (unit < 4) {
            v = shifted(p, SpvOpShiftLeftLogical, VALUE(s, &s->body, SpvOpUConvert, u32, v), i * unit % 4 * 8);
            words[at] = words[at] ? VALUE(s, &s->body, SpvOpBitwiseOr, u32, words[at], v) : v;
        } else words[at] = is_f32(p, in->a) ? VALUE(s, &s->body, SpvOpBitcast, u32, v) : v;
    }
    return from_words(p, in, words);
}

uint32_t gale__spv_get(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    gale_type element = (gale_type)p->ir->code[in->a].type;
    if (in->width > 1) return get_vector(p, in);
    bool bits = p->unit[in->a] && element == GALE_F32;
    uint32_t v = load(p, in->a, type1(p, bits ? GALE_U32 : element), gale__spv_unit_pointer(p, in->a, p->id[in->b]));
    if (bits) return VALUE(s, &s->body, SpvOpBitcast, type1(p, element), v);
    if (element == GALE_BOOL || gale__type_table[element].bits >= 32) return v;
    return VALUE(s, &s->body, gale__type_is_signed(element) ? SpvOpSConvert : SpvOpUConvert, type1(p, GALE_U32), v);
}

void gale__spv_set(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    gale_type element = (gale_type)p->ir->code[in->a].type;
    uint32_t v = p->id[in->c];
    if (in->width > 1) {
        set_vector(p, in);
        return;
    }
    if (element != GALE_BOOL && gale__type_table[element].bits < 32)
        v = VALUE(s, &s->body, SpvOpUConvert, type1(p, element), v);
    if (p->unit[in->a] && element == GALE_F32) v = VALUE(s, &s->body, SpvOpBitcast, type1(p, GALE_U32), v);
    store(p, in->a, gale__spv_unit_pointer(p, in->a, p->id[in->b]), v);
}
#endif
