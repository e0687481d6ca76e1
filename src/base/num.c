/* Conversions between storage formats and numbers.  All small floats go through one rounding routine driven by a table
 * row per format, so that there is a single place that loses bits.  Where ONNX's conformance data and its tables
 * differ (infinity into the FNUZ types under saturation, NaN into f6 and f4e2m1), the data is followed. */
#include "base/num.h"
#include <float.h>
#include <math.h>
#include <string.h>

static uint64_t f64_bits(double v)
{
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    return b;
}

static double f64_from(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static float f32_from(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Rounds |v|, finite, to the code (exponent, then m bits of mantissa) of a format without an upper end: nearest even,
 * denormals included.  The carry of the rounding runs into the exponent as it should. */
static uint32_t round_code(double v, int m, int bias)
{
    uint64_t bits = f64_bits(v);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023 + bias;
    uint64_t significand = (bits & 0xfffffffffffffu) | 1ull << 52;
    int shift = 52 - m + (exponent < 1 ? 1 - exponent : 0);
    if (shift > 53) return 0; /* less than half of the smallest value, including denormals of f64 */
    uint64_t code = significand >> shift, rest = significand & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    if (rest > half || (rest == half && (code & 1))) code++;
    return (uint32_t)code + (exponent > 1 ? (uint32_t)(exponent - 1) << m : 0);
}

static double code_value(uint32_t code, int m, int bias)
{
    uint32_t exponent = code >> m, mantissa = code & ((1u << m) - 1);
    if (exponent == 0) return mantissa * f64_from((uint64_t)(1 - bias - m + 1023) << 52);
    return f64_from((uint64_t)((int)exponent - bias + 1023) << 52 | (uint64_t)mantissa << (52 - m));
}

float gale__f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00) return f32_from(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    return f32_from(sign | (rest < 0x400 ? 0 : (rest << 13) + (112u << 23))) +
           (rest < 0x400 ? (sign ? -1.0f : 1.0f) * (float)rest * 0x1p-24f : 0.0f);
}

uint16_t gale__f64_to_f16(double v)
{
    uint64_t bits = f64_bits(v);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    if (isnan(v)) return (uint16_t)(sign | 0x7e00 | (bits >> 42 & 0x3ff));
    if (isinf(v)) return sign | 0x7c00;
    uint32_t code = round_code(v, 10, 15);
    return (uint16_t)(sign | (code > 0x7c00 ? 0x7c00 : code));
}

uint16_t gale__f32_to_f16(float v) { return gale__f64_to_f16(v); }

float gale__bf16_to_f32(uint16_t bits) { return f32_from((uint32_t)bits << 16); }

uint16_t gale__f64_to_bf16(double v)
{
    uint64_t bits = f64_bits(v);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    if (isnan(v)) return (uint16_t)(sign | 0x7fc0 | (bits >> 45 & 0x7f));
    if (isinf(v)) return sign | 0x7f80;
    uint32_t code = round_code(v, 7, 127);
    return (uint16_t)(sign | (code > 0x7f80 ? 0x7f80 : code));
}

uint16_t gale__f32_to_bf16(float v) { return gale__f64_to_bf16(v); }

/* `over` is what a number past `max` becomes without saturation; `single_zero`: the code of -0 is NaN. */
typedef struct f8_format {
    uint8_t m, bias, sign, max, over, nan;
    bool single_zero;
} f8_format;

static f8_format f8_of(gale_type type)
{
    switch (type) {
    case GALE_F8E4M3FN: return (f8_format){3, 7, 0x80, 0x7e, 0x7f, 0x7f, false};
    case GALE_F8E4M3FNUZ: return (f8_format){3, 8, 0x80, 0x7f, 0x80, 0x80, true};
    case GALE_F8E5M2: return (f8_format){2, 15, 0x80, 0x7b, 0x7c, 0x7e, false};
    case GALE_F8E5M2FNUZ: return (f8_format){2, 16, 0x80, 0x7f, 0x80, 0x80, true};
    case GALE_F6E2M3: return (f8_format){3, 1, 0x20, 0x1f, 0x1f, 0x20, false}; /* these have neither infinity nor NaN */
    case GALE_F6E3M2: return (f8_format){2, 3, 0x20, 0x1f, 0x1f, 0x20, false};
    default: return (f8_format){1, 1, 0x08, 0x07, 0x07, 0x08, false}; /* f4e2m1 */
    }
}

double gale__f8_to_f64(gale_type type, uint8_t bits)
{
    if (type == GALE_F8E8M0) return bits == 0xff ? NAN : f64_from((uint64_t)(bits - 127 + 1023) << 52);
    f8_format f = f8_of(type);
    uint32_t code = bits & (uint32_t)(f.sign - 1);
    if (f.single_zero && bits == f.nan) return NAN;
    if (!f.single_zero && code > f.max)
        return type == GALE_F8E5M2 && code == f.over ? (bits & f.sign ? -INFINITY : INFINITY) : NAN;
    double v = code_value(code, f.m, f.bias);
    return bits & f.sign ? -v : v;
}

/* The format stores only a power of two: the next larger one, ONNX's default. The sign is lost. */
static uint8_t round_e8m0(double v, bool saturate)
{
    if (!isfinite(v)) return 0xff;
    if (v == 0) return 0;
    int exponent;
    double fraction = frexp(fabs(v), &exponent); /* [0.5, 1) */
    int code = exponent - 1 + 127 + (fraction > 0.5);
    return (uint8_t)(code < 0 ? 0 : code > 0xfe ? (saturate ? 0xfe : 0xff) : code);
}

uint8_t gale__f64_to_f8(gale_type type, double v, bool saturate)
{
    if (type == GALE_F8E8M0) return round_e8m0(v, saturate);
    f8_format f = f8_of(type);
    uint8_t sign = signbit(v) ? f.sign : 0;
    if (isnan(v)) return f.nan | (f.single_zero ? 0 : sign);
    uint32_t code = isinf(v) ? f.max + 1u : round_code(v, f.m, f.bias);
    bool stays = isinf(v) && type == GALE_F8E5M2;
    if (code > f.max) code = saturate && !stays ? f.max : f.over;
    if (f.single_zero && (code == 0 || code == f.nan)) return (uint8_t)code;
    return (uint8_t)(sign | code);
}

static int64_t sign_extend(int64_t v, int bits) { return (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits); }

/* An integer element in `p` of the type's width, extended to 64 bits. */
static int64_t load_int(gale_type type, const void *p)
{
    const gale__type_info *t = &gale__type_table[type];
    uint64_t raw = 0;
    switch (t->size) {
    case 1: raw = *(const uint8_t *)p; break;
    case 2: {
        uint16_t v;
        memcpy(&v, p, 2);
        raw = v;
        break;
    }
    case 4: {
        uint32_t v;
        memcpy(&v, p, 4);
        raw = v;
        break;
    }
    case 8: memcpy(&raw, p, 8); break;
    default: return 0;
    }
    if (t->kind == 'i') return sign_extend((int64_t)raw, t->bits);
    if (t->kind == 'b') return raw != 0;
    return (int64_t)(t->bits < 64 ? raw & ((1ull << t->bits) - 1) : raw);
}

static int64_t f64_to_i64(double v)
{
    if (isnan(v)) return 0;
    if (v >= 0x1p63) return INT64_MAX;
    return v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

double gale__load_f64(gale_type type, const void *p)
{
    switch (type) {
    case GALE_F32: {
        float v;
        memcpy(&v, p, 4);
        return v;
    }
    case GALE_F64: {
        double v;
        memcpy(&v, p, 8);
        return v;
    }
    case GALE_F16: {
        uint16_t v;
        memcpy(&v, p, 2);
        return gale__f16_to_f32(v);
    }
    case GALE_BF16: {
        uint16_t v;
        memcpy(&v, p, 2);
        return gale__bf16_to_f32(v);
    }
    case GALE_U64: return (double)(uint64_t)load_int(type, p);
    default: return gale__type_is_float(type) ? gale__f8_to_f64(type, *(const uint8_t *)p) : (double)load_int(type, p);
    }
}

int64_t gale__load_i64(gale_type type, const void *p)
{
    return gale__type_is_float(type) ? f64_to_i64(gale__load_f64(type, p)) : load_int(type, p);
}

static void store_int(gale_type type, void *p, int64_t v)
{
    const gale__type_info *t = &gale__type_table[type];
    if (t->kind == 'b') v = v != 0;
    else if (t->kind == 'i') v = sign_extend(v, t->bits);
    else if (t->bits < 64) v &= (int64_t)((1ull << t->bits) - 1);
    switch (t->size) {
    case 1: *(uint8_t *)p = (uint8_t)v; break;
    case 2: {
        uint16_t w = (uint16_t)v;
        memcpy(p, &w, 2);
        break;
    }
    case 4: {
        uint32_t w = (uint32_t)v;
        memcpy(p, &w, 4);
        break;
    }
    case 8: memcpy(p, &v, 8); break;
    default: break;
    }
}

static void store_saturated(gale_type type, void *p, double v)
{
    const gale__type_info *t = &gale__type_table[type];
    if (t->kind == 'b') {
        store_int(type, p, v != 0);
    } else if (type == GALE_U64) {
        store_int(type, p, v >= 0x1p64 ? -1 : v > 0 ? (int64_t)(uint64_t)v : 0);
    } else {
        int64_t most = t->kind == 'u' ? (int64_t)((1ull << t->bits) - 1) : (int64_t)((1ull << (t->bits - 1)) - 1);
        int64_t least = t->kind == 'u' ? 0 : -most - 1, w = f64_to_i64(v);
        store_int(type, p, w < least ? least : w > most ? most : w);
    }
}

void gale__store_f64(gale_type type, void *p, double v)
{
    switch (type) {
    case GALE_F32: {
        float w = (float)v;
        memcpy(p, &w, 4);
        break;
    }
    case GALE_F64: memcpy(p, &v, 8); break;
    case GALE_F16: {
        uint16_t w = gale__f64_to_f16(v);
        memcpy(p, &w, 2);
        break;
    }
    case GALE_BF16: {
        uint16_t w = gale__f64_to_bf16(v);
        memcpy(p, &w, 2);
        break;
    }
    case GALE_STRING:
    case GALE_TYPE_COUNT: break;
    default:
        if (gale__type_is_float(type)) *(uint8_t *)p = gale__f64_to_f8(type, v, true);
        else store_saturated(type, p, v);
    }
}

/* A double that rounds to every shorter format as v itself would: the bits that do not fit set the last one. */
static double round_to_odd(int64_t v)
{
    uint64_t a = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    int spare = a >> 53 ? 11 - __builtin_clzll(a) : 0;
    if (spare > 0) a = (a >> spare | ((a & ((1ull << spare) - 1)) != 0)) << spare;
    return v < 0 ? -(double)a : (double)a;
}

void gale__store_i64(gale_type type, void *p, int64_t v)
{
    if (!gale__type_is_float(type)) {
        store_int(type, p, v);
    } else if (type == GALE_F64) {
        gale__store_f64(type, p, (double)v);
    } else {
        gale__store_f64(type, p, round_to_odd(v));
    }
}

double gale__type_max(gale_type type)
{
    const gale__type_info *t = &gale__type_table[type];
    switch (type) {
    case GALE_F32: return FLT_MAX;
    case GALE_F64: return DBL_MAX;
    case GALE_F16: return 65504;
    case GALE_BF16: return 0x1.fep127;
    case GALE_F8E8M0: return 0x1p127;
    case GALE_BOOL: return 1;
    default: break;
    }
    if (t->kind == 'f') return gale__f8_to_f64(type, f8_of(type).max);
    if (t->kind == 's') return 0;
    return (double)((t->kind == 'u' && t->bits == 64 ? 0 : 1ull << (t->kind == 'u' ? t->bits : t->bits - 1)) - 1);
}

double gale__type_min(gale_type type)
{
    const gale__type_info *t = &gale__type_table[type];
    if (type == GALE_F8E8M0) return 0x1p-127;
    if (t->kind == 'f') return -gale__type_max(type);
    return t->kind == 'i' ? -(double)(1ull << (t->bits - 1)) : 0;
}

double gale__relative_difference(gale_type type, const void *a, const void *b, size_t n, double *largest)
{
    size_t size = gale_type_size(type);
    double sum = 0, norm = 0;
    *largest = 0;
    for (size_t i = 0; i < n; i++) {
        double x = gale__load_f64(type, (const char *)a + i * size),
               y = gale__load_f64(type, (const char *)b + i * size);
        if (isnan(x) && isnan(y)) continue;
        double d = x == y ? 0 : isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
        sum += d * d;
        norm += isfinite(y) ? y * y : 0;
        if (d > *largest) *largest = d;
    }
    return sum == 0 ? 0 : norm > 0 ? sqrt(sum / norm) : INFINITY;
}

int gale__by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
