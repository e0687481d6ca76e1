/* Matrix units in SPIR-V: SPV_KHR_cooperative_matrix, and SPV_KHR_bfloat16 for bf16.  The headers of Debian 12 are
 * older than both, so their constants are defined here. */
#include "gale_built.h"
#ifdef GALE_HAVE_SPIRV
#include "kernel/print/print_spirv.h"

typedef gale__spv_printer printer;

enum {
    OP_TYPE_MATRIX = 4456, /* OpTypeCooperativeMatrixKHR */
    OP_MATRIX_LOAD = 4457,
    OP_MATRIX_STORE = 4458,
    OP_MATRIX_MUL_ADD = 4459,
};
enum { ROW_MAJOR = 0, COLUMN_MAJOR = 1 };
enum { USE_A, USE_B, USE_SUM };
enum { BFLOAT16 = 0 }; /* the encoding */

static uint32_t component(printer *p, gale_type type)
{
    gale__spv *s = &p->spv;
    if (type == GALE_BF16) {
        s->capabilities |= 1u << GALE__SPV_BF16 | 1u << GALE__SPV_BF16_MATRIX;
        return gale__spv_global_type(s, SpvOpTypeFloat, (const uint32_t[]){16, BFLOAT16}, 2);
    }
    if (type == GALE_F16) s->capabilities |= 1u << GALE__SPV_FLOAT16;
    return gale__spv_type(s, type, 1);
}

static uint32_t matrix_type(printer *p, gale_type type, uint32_t use)
{
    gale__spv *s = &p->spv;
    uint32_t side = gale__spv_u32(s, 16);
    s->capabilities |= 1u << GALE__SPV_MATRIX;
    const uint32_t words[] = {
        component(p, type), gale__spv_u32(s, SpvScopeSubgroup), side, side, gale__spv_u32(s, use)};
    return gale__spv_global_type(s, (SpvOp)OP_TYPE_MATRIX, words, 5);
}

/* From row to row, in what the array is an array of. */
static uint32_t row_of(printer *p, gale__ir_val array, uint64_t elements, uint32_t size)
{
    return gale__spv_u32(&p->spv, (uint32_t)elements * size / gale__spv_unit_bytes(p, array));
}

static uint32_t load(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t type = matrix_type(p, (gale_type)in->type, in->op == GALE__IR_MATRIX_A ? USE_A : USE_B);
    uint32_t pointer = gale__spv_unit_pointer(p, in->a, p->id[in->b]);
    return VALUE(s, &s->body, (SpvOp)OP_MATRIX_LOAD, type, pointer,
        gale__spv_u32(s, in->mem ? COLUMN_MAJOR : ROW_MAJOR), row_of(p, in->a, in->imm, 2),
        SpvMemoryAccessNonPrivatePointerMask);
}

static uint32_t sum_pointer(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t type = gale__spv_pointer(s, SpvStorageClassFunction, matrix_type(p, GALE_F32, USE_SUM));
    return VALUE(s, &s->body, SpvOpAccessChain, type, p->id[in->a], gale__spv_u32(s, (uint32_t)in->imm));
}

static void add(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t type = matrix_type(p, GALE_F32, USE_SUM), pointer = sum_pointer(p, in);
    uint32_t old = VALUE(s, &s->body, SpvOpLoad, type, pointer);
    uint32_t sum = VALUE(s, &s->body, (SpvOp)OP_MATRIX_MUL_ADD, type, p->id[in->b], p->id[in->c], old);
    EMIT(s, &s->body, SpvOpStore, pointer, sum);
}

static void store(printer *p, const gale__ir_instr *in)
{
    gale__spv *s = &p->spv;
    uint32_t v = VALUE(s, &s->body, SpvOpLoad, matrix_type(p, GALE_F32, USE_SUM), sum_pointer(p, in));
    uint32_t to = gale__spv_unit_pointer(p, in->b, p->id[in->c]);
    EMIT(s, &s->body, (SpvOp)OP_MATRIX_STORE, to, v, gale__spv_u32(s, ROW_MAJOR), row_of(p, in->b, in->imm >> 32, 4),
        SpvMemoryAccessNonPrivatePointerMask);
}

void gale__spv_matrix(printer *p, gale__ir_val v)
{
    gale__spv *s = &p->spv;
    const gale__ir_instr *in = &p->ir->code[v];
    uint32_t sum = in->op == GALE__IR_SUMS || in->op == GALE__IR_SUMS_ZERO ? matrix_type(p, GALE_F32, USE_SUM) : 0;
    switch (in->op) {
    case GALE__IR_SUMS:
        p->id[v] = gale__spv_variable(s, SpvStorageClassFunction, gale__spv_array(s, sum, in->imm));
        break;
    case GALE__IR_SUMS_ZERO: {
        uint32_t zero = VALUE(s, &s->body, SpvOpCompositeConstruct, sum, gale__spv_const(s, GALE_F32, 0));
        EMIT(s, &s->body, SpvOpStore, sum_pointer(p, in), zero);
        break;
    }
    case GALE__IR_SUMS_ADD: add(p, in); break;
    case GALE__IR_SUMS_STORE: store(p, in); break;
    default: p->id[v] = load(p, in); break;
    }
}
#endif
