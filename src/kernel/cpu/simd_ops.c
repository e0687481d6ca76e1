/* Arithmetic, comparison, logic and selection over blocks, one loop per operation and compute type, with the corner
 * cases of scalar.def.  Plain C: the compiler vectorises it for the instruction set. */
#include "kernel/cpu/simd_isa.h"
#include <math.h>

/* Integers wrap, so signed ones are computed as unsigned. */
#define INT_OPS(N, T, U, width)                                                 \
    SIMD_FN1(neg_##N, T, T, (U)0 - (U)x)                                        \
    SIMD_FN1(not_##N, T, T, ~x)                                                 \
    SIMD_FN2(add_##N, T, T, T, (U)x + (U)y)                                     \
    SIMD_FN2(sub_##N, T, T, T, (U)x - (U)y)                                     \
    SIMD_FN2(mul_##N, T, T, T, (U)x *(U)y)                                      \
    SIMD_FN2(min_##N, T, T, T, x < y ? x : y)                                   \
    SIMD_FN2(max_##N, T, T, T, x > y ? x : y)                                   \
    SIMD_FN2(and_##N, T, T, T, x &y)                                            \
    SIMD_FN2(or_##N, T, T, T, x | y)                                            \
    SIMD_FN2(xor_##N, T, T, T, x ^ y)                                           \
    SIMD_FN2(shl_##N, T, T, T, (U)y < width ? (U)x << ((U)y & (width - 1)) : 0) \
    SIMD_FN3(fma_##N, T, T, T, T, (U)x *(U)y + (U)z)
INT_OPS(i32, int32_t, uint32_t, 32)
INT_OPS(u32, uint32_t, uint32_t, 32)
INT_OPS(i64, int64_t, uint64_t, 64)
INT_OPS(u64, uint64_t, uint64_t, 64)

#define SIGNED_OPS(N, T, U, width)                                              \
    SIMD_FN2(shr_##N, T, T, T, x >> ((U)y < width ? (U)y : width - 1))          \
    SIMD_FN1(abs_##N, T, T, x < 0 ? (U)0 - (U)x : (U)x)                         \
    SIMD_FN2(div_##N, T, T, T, y == 0 ? 0 : y == -1 ? (T)((U)0 - (U)x) : x / y) \
    SIMD_FN2(rem_##N, T, T, T, y == 0 || y == -1 ? 0 : x % y)
SIGNED_OPS(i32, int32_t, uint32_t, 32)
SIGNED_OPS(i64, int64_t, uint64_t, 64)
#define UNSIGNED_OPS(N, T, width)                                      \
    SIMD_FN2(shr_##N, T, T, T, y < width ? x >> (y & (width - 1)) : 0) \
    SIMD_FN1(abs_##N, T, T, x)                                         \
    SIMD_FN2(div_##N, T, T, T, y == 0 ? 0 : x / y)                     \
    SIMD_FN2(rem_##N, T, T, T, y == 0 ? 0 : x % y)
UNSIGNED_OPS(u32, uint32_t, 32)
UNSIGNED_OPS(u64, uint64_t, 64)

/* max and min pass NaN on: x when it is greater or NaN itself; else y, NaN included. */
#define FLOAT_OPS(N, T, S)                                   \
    SIMD_FN1(neg_##N, T, T, -x)                              \
    SIMD_FN1(abs_##N, T, T, __builtin_fabs##S(x))            \
    SIMD_FN1(floor_##N, T, T, __builtin_floor##S(x))         \
    SIMD_FN1(ceil_##N, T, T, __builtin_ceil##S(x))           \
    SIMD_FN1(rint_##N, T, T, __builtin_rint##S(x))           \
    SIMD_FN1(trunc_##N, T, T, __builtin_trunc##S(x))         \
    SIMD_FN1(sqrt_##N, T, T, __builtin_sqrt##S(x))           \
    SIMD_FN2(add_##N, T, T, T, x + y)                        \
    SIMD_FN2(sub_##N, T, T, T, x - y)                        \
    SIMD_FN2(mul_##N, T, T, T, x *y)                         \
    SIMD_FN2(div_##N, T, T, T, x / y)                        \
    SIMD_FN2(rem_##N, T, T, T, fmod##S(x, y))                \
    SIMD_FN2(min_##N, T, T, T, ((x < y) | (x != x)) ? x : y) \
    SIMD_FN2(max_##N, T, T, T, ((x > y) | (x != x)) ? x : y) \
    SIMD_FN3(fma_##N, T, T, T, T, __builtin_fma##S(x, y, z))
FLOAT_OPS(f32, float, f)
FLOAT_OPS(f64, double, )

#define COMPARE_OPS(N, T)                   \
    SIMD_FN2(eq_##N, uint8_t, T, T, x == y) \
    SIMD_FN2(ne_##N, uint8_t, T, T, x != y) \
    SIMD_FN2(lt_##N, uint8_t, T, T, x < y)  \
    SIMD_FN2(le_##N, uint8_t, T, T, x <= y) \
    SIMD_FN2(gt_##N, uint8_t, T, T, x > y)  \
    SIMD_FN2(ge_##N, uint8_t, T, T, x >= y) \
    SIMD_FN3(select_##N, T, uint8_t, T, T, x ? y : z)
COMPARE_OPS(bool, uint8_t)
COMPARE_OPS(i32, int32_t)
COMPARE_OPS(u32, uint32_t)
COMPARE_OPS(i64, int64_t)
COMPARE_OPS(u64, uint64_t)
COMPARE_OPS(f32, float)
COMPARE_OPS(f64, double)

SIMD_FN1(not_bool, uint8_t, uint8_t, !x)
SIMD_FN2(and_bool, uint8_t, uint8_t, uint8_t, x &y)
SIMD_FN2(or_bool, uint8_t, uint8_t, uint8_t, x | y)
SIMD_FN2(xor_bool, uint8_t, uint8_t, uint8_t, x ^ y)

static inline uint32_t half_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return gale__f32_to_f16(
        fmaf(gale__f16_to_f32((uint16_t)a), gale__f16_to_f32((uint16_t)b), gale__f16_to_f32((uint16_t)c)));
}
SIMD_FN3(fma_halves, uint32_t, uint32_t, uint32_t, uint32_t, half_fma(x, y, z) | half_fma(x >> 16, y, z >> 16) << 16)

#define COMMON_ROWS(N, CT)        \
    t->op[GALE__EQ][CT] = eq_##N; \
    t->op[GALE__NE][CT] = ne_##N; \
    t->op[GALE__LT][CT] = lt_##N; \
    t->op[GALE__LE][CT] = le_##N; \
    t->op[GALE__GT][CT] = gt_##N; \
    t->op[GALE__GE][CT] = ge_##N; \
    t->op[GALE__SELECT][CT] = select_##N;
#define NUMBER_ROWS(N, CT)          \
    COMMON_ROWS(N, CT)              \
    t->op[GALE__NEG][CT] = neg_##N; \
    t->op[GALE__ABS][CT] = abs_##N; \
    t->op[GALE__ADD][CT] = add_##N; \
    t->op[GALE__SUB][CT] = sub_##N; \
    t->op[GALE__MUL][CT] = mul_##N; \
    t->op[GALE__DIV][CT] = div_##N; \
    t->op[GALE__REM][CT] = rem_##N; \
    t->op[GALE__MIN][CT] = min_##N; \
    t->op[GALE__MAX][CT] = max_##N; \
    t->op[GALE__FMA][CT] = fma_##N;
#define LOGIC_ROWS(N, CT)           \
    t->op[GALE__NOT][CT] = not_##N; \
    t->op[GALE__AND][CT] = and_##N; \
    t->op[GALE__OR][CT] = or_##N;   \
    t->op[GALE__XOR][CT] = xor_##N;
#define INT_ROWS(N, CT)             \
    NUMBER_ROWS(N, CT)              \
    LOGIC_ROWS(N, CT)               \
    t->op[GALE__SHL][CT] = shl_##N; \
    t->op[GALE__SHR][CT] = shr_##N;
#define FLOAT_ROWS(N, CT)               \
    NUMBER_ROWS(N, CT)                  \
    t->op[GALE__FLOOR][CT] = floor_##N; \
    t->op[GALE__CEIL][CT] = ceil_##N;   \
    t->op[GALE__RINT][CT] = rint_##N;   \
    t->op[GALE__TRUNC][CT] = trunc_##N; \
    t->op[GALE__SQRT][CT] = sqrt_##N;

void SIMD(ops)(gale__simd *t)
{
    COMMON_ROWS(bool, GALE__SIMD_TYPE_BOOL)
    LOGIC_ROWS(bool, GALE__SIMD_TYPE_BOOL)
    t->op[GALE__MIN][GALE__SIMD_TYPE_BOOL] = t->op[GALE__MUL][GALE__SIMD_TYPE_BOOL] = and_bool;
    t->op[GALE__MAX][GALE__SIMD_TYPE_BOOL] = or_bool;
    INT_ROWS(i32, GALE__SIMD_TYPE_I32)
    INT_ROWS(u32, GALE__SIMD_TYPE_U32)
    INT_ROWS(i64, GALE__SIMD_TYPE_I64)
    INT_ROWS(u64, GALE__SIMD_TYPE_U64)
    t->op[GALE__FMA_HALVES][GALE__SIMD_TYPE_U32] = fma_halves;
    FLOAT_ROWS(f32, GALE__SIMD_TYPE_F32)
    FLOAT_ROWS(f64, GALE__SIMD_TYPE_F64)
}
