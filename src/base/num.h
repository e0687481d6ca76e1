/* Conversions between storage formats and numbers, exact and round-to-nearest-even.  Scalar functions for the
 * reference and small values, row functions for bulk (SIMD versions are in src/kernel/). */
#ifndef GALE_BASE_NUM_H
#define GALE_BASE_NUM_H
#include "gale/base.h"

typedef struct gale__type_info {
    const char *name;
    int bits, size;
    char kind;
    int exponent_bits, mantissa_bits;
} gale__type_info;
extern const gale__type_info gale__type_table[GALE_TYPE_COUNT];
static inline bool gale__type_is_float(gale_type t) { return gale__type_table[t].kind == 'f'; }
static inline bool gale__type_is_int(gale_type t)
{
    return gale__type_table[t].kind == 'i' || gale__type_table[t].kind == 'u';
}
static inline bool gale__type_is_signed(gale_type t)
{
    return gale__type_table[t].kind == 'i' || gale__type_table[t].kind == 'f';
}

float gale__f16_to_f32(uint16_t bits);
uint16_t gale__f32_to_f16(float v);  /* nearest even; overflow to infinity */
uint16_t gale__f64_to_f16(double v); /* one rounding */
float gale__bf16_to_f32(uint16_t bits);
uint16_t gale__f32_to_bf16(float v);
uint16_t gale__f64_to_bf16(double v);
double gale__f8_to_f64(gale_type type, uint8_t bits);             /* f8 family, f8e8m0, f6, f4e2m1 */
uint8_t gale__f64_to_f8(gale_type type, double v, bool saturate); /* ONNX Cast rules, but infinity stays in f8e5m2 */
/* One element of any numeric type as double or as int64 (u64 keeps its bits in the int64). */
double gale__load_f64(gale_type type, const void *p);
int64_t gale__load_i64(gale_type type, const void *p); /* floats saturate, NaN to 0; to f8: saturate */
void gale__store_f64(
    gale_type type, void *p, double v); /* to integers: truncate, saturate, NaN to 0; to f8: saturate */
void gale__store_i64(gale_type type, void *p, int64_t v); /* wraps to the width */
/* L2 norm of a's difference from b, relative to b's; infinite where one of two elements is not finite and the other is.
 * largest: of a single element. */
double gale__relative_difference(gale_type type, const void *a, const void *b, size_t n, double *largest);
/* For qsort of doubles: the least first. */
int gale__by_value(const void *a, const void *b);
double gale__type_min(gale_type type); /* lowest finite value, as double */
double gale__type_max(gale_type type);
#endif
