/* Shared by the builder, the validator and the printers of kernel IR. */
#ifndef GALE_KERNEL_IR_UTIL_H
#define GALE_KERNEL_IR_UTIL_H
#include "kernel/ir/ir.h"

/* Where an instruction may go and what it means to the rest.  From ir_ops in ir.c. */
typedef enum gale__ir_kind {
    GALE__IR_VALUE,   /* a pure function of its operands */
    GALE__IR_READ,    /* reads memory or an array: dropped when unused, never moved past an effect */
    GALE__IR_EFFECT,  /* writes, or orders others */
    GALE__IR_DECLARE, /* names an array */
    GALE__IR_CONTROL
} gale__ir_kind;
typedef struct gale__ir_op_info {
    const char *name;
    uint8_t kind;
    uint8_t arity; /* operands a.. that must be there */
} gale__ir_op_info;
gale__ir_op_info gale__ir_op_get(int op);

/* Folds an instruction whose operands are constants or neutral; 0 when there is nothing to fold. */
gale__ir_val gale__ir_fold(gale__ir *ir, const gale__ir_instr *in);
/* True, with the bits, when v is a constant. */
bool gale__ir_is_const(const gale__ir *ir, gale__ir_val v, uint64_t *bits);
/* How often each value is used by what is not dead, and by whom last; both arrays hold ir->count entries. */
void gale__ir_count_uses(const gale__ir *ir, uint32_t *uses, gale__ir_val *user);
/* Operands of an instruction, in order; returns how many. */
int gale__ir_operands(const gale__ir_instr *in, gale__ir_val out[4]);
/* F64 or 64-bit integers, subgroups, types in memory: what a kernel needs of a device. */
typedef struct gale__ir_needs {
    bool f64, i64, f16, subgroup, corners, fast, mem8, mem16, store8, store16;
    bool copies, sums, wide; /* wide: vectors in work-group arrays, or arrays that share memory */
    bool together;           /* groups wait for each other */
    bool quads;              /* it must be known which thread holds what of a sum */
    uint8_t matrix;          /* operands of matrix units: 1 F16, 2 BF16, 4 bytes */
} gale__ir_needs;
gale__ir_needs gale__ir_get_needs(const gale__ir *ir);
/* GALE_UNSUPPORTED, with the reason, when the device lacks what the kernel needs. */
gale_status gale__ir_check_device(const gale__ir *ir, const gale_device_caps *caps);

static inline bool gale__ir_is_compare(int op) { return op >= GALE__EQ && op <= GALE__GE; }
static inline bool gale__ir_is_byte(int type) { return type == GALE_I8 || type == GALE_U8; }
static inline int gale__ir_bits(gale_type compute) { return compute == GALE_BOOL ? 1 : gale__type_table[compute].bits; }
static inline gale_type gale__ir_unsigned(gale_type t)
{
    return t == GALE_I32 || t == GALE_F32 ? GALE_U32 : t == GALE_I64 || t == GALE_F64 ? GALE_U64 : t;
}

/* Bytes of a work-group array, up to where the next one may begin. */
static inline uint64_t gale__ir_array_bytes(const gale__ir_instr *array)
{
    uint64_t size = array->type == GALE_BOOL ? 1 : (uint64_t)gale__type_table[array->type].size;
    return (array->imm * size + 15) & ~(uint64_t)15;
}

/* Rewrites a kernel for a driver with known faults (ir_lower.c).  `out` is initialised here; the caller finishes it
 * unless this fails. */
typedef struct gale__ir_lowering {
    bool fma, f16, integers, division, rint;
} gale__ir_lowering;
gale__ir_lowering gale__ir_lowering_for(const gale_device_caps *caps);
gale_status gale__ir_lower(const gale__ir *ir, gale__ir_lowering what, gale__ir *out);

/* Matrix units and asynchronous copies written out for plain threads (ir_matrix.c); out as above. */
typedef struct gale__ir_plainly {
    bool matrix, copies;
} gale__ir_plainly;
/* What of a kernel the device has no instructions for; `copies`: whether the printer has some. */
gale__ir_plainly gale__ir_plainly_for(const gale__ir *ir, const gale_device_caps *caps, bool copies);
gale_status gale__ir_write_plainly(const gale__ir *ir, gale__ir_plainly what, gale__ir *out);
/* Whether the device multiplies 16 x 16 x 16 matrices of this type into F32; GALE_I8: 16 x 16 x 32 matrices of bytes,
 * signed or not each, into I32. */
bool gale__ir_caps_have_matrix(const gale_device_caps *caps, gale_type operand);
/* Whether it runs kernels that do: with its own units, or as plain threads if requested. */
bool gale__caps_run_matrix(const gale_device_caps *caps, gale_type operand);
/* The most work-group memory such a kernel should take: half of what it may ask for, so that two groups share a unit.
 */
uint32_t gale__caps_matrix_bytes(const gale_device_caps *caps);

/* Class 'm' of gale__ir_scalar (ir_math.c); 0 when the operation has no mathematics of ours. */
gale__ir_val gale__ir_math(gale__ir *ir, gale__scalar op, gale_type type, gale__ir_val a, gale__ir_val b);
/* F16_TO_F32 and F32_TO_F16 without the device's help. */
gale__ir_val gale__ir_half_by_bits(gale__ir *ir, int op, gale__ir_val v);
/* A number that is not negative, rounded to I32: the product with the least subnormal number has it as its bits. */
gale__ir_val gale__ir_number_bits(gale__ir *ir, gale__ir_val number);
/* Four levels as the bytes of a word, in fewer instructions than one by one, since joining their numbers saturates.  0:
 * they are not of that kind. */
gale__ir_val gale__ir_join_levels(gale__ir *ir, const gale__ir_val *levels);
/* DIV, RINT and CAST to F32, I8 or U8 as gale__nest_mark_levels marks them (ir_levels.c).  NEAR: the number is within
 * the levels' range; ROUGH: it is, and ties and its last digits do not count. */
typedef enum gale__ir_nearness { GALE__IR_ANY_LEVEL, GALE__IR_NEAR, GALE__IR_ROUGH } gale__ir_nearness;
gale__ir_val gale__ir_level(
    gale__ir *ir, gale__scalar op, gale_type to, gale__ir_val a, gale__ir_val b, gale__ir_nearness near);
/* x / 2 * (1 + erf(x / sqrt 2)) by the device's own power of two, within 1e-6 of |x|. */
gale__ir_val gale__ir_fast_gelu(gale__ir *ir, gale__ir_val x);
/* Float to integer of storage type `to`: truncates, saturates, NaN to 0. */
gale__ir_val gale__ir_float_to_int(gale__ir *ir, gale_type to, gale__ir_val v);
/* x, if a minimum is min(x > 0 ? x : 0, 1), which devices have as one instruction or a part of one; else 0. */
gale__ir_val gale__ir_clamped(const gale__ir *ir, const gale__ir_instr *min);
#endif
