/* Conversions between storage formats: every code of the small types there and back, and roundings against a slow
 * search for the nearest value. */
#include "test.h"
#include "base/num.h"
#include <math.h>

TEST(f16_round_trip)
{
    for (uint32_t b = 0; b < 0x10000; b++) {
        float v = gale__f16_to_f32((uint16_t)b);
        if ((b & 0x7fff) > 0x7c00) {
            CHECK(isnan(v) && (gale__f32_to_f16(v) & 0x7fff) > 0x7c00);
            continue;
        }
        int e = (int)(b >> 10 & 31), m = (int)(b & 1023);
        double want = e == 31 ? INFINITY : e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
        CHECK((double)v == (b & 0x8000 ? -want : want) && !signbit(v) == !(b & 0x8000));
        CHECK_EQ(gale__f32_to_f16(v), b);
        CHECK_EQ(gale__f64_to_f16(v), b);
    }
}

TEST(bf16_round_trip)
{
    for (uint32_t b = 0; b < 0x10000; b++) {
        float v = gale__bf16_to_f32((uint16_t)b);
        if ((b & 0x7fff) > 0x7f80) CHECK(isnan(v) && (gale__f32_to_bf16(v) & 0x7fff) > 0x7f80);
        else CHECK_EQ(gale__f32_to_bf16(v), b);
    }
}

/* Between two neighbours of a 16-bit format: the middle goes to the even one, a hair to either side to that side. */
static void check_neighbours(uint16_t (*to)(double), float (*from)(uint16_t), uint16_t inf)
{
    for (uint16_t b = 0; b < inf; b++) {
        double low = from(b), high = b + 1 == inf ? 2 * low - from((uint16_t)(b - 1)) : from((uint16_t)(b + 1));
        double middle = (low + high) / 2;
        CHECK_EQ(to(middle), b & 1 ? b + 1 : b);
        CHECK_EQ(to(nextafter(middle, 0)), b);
        CHECK_EQ(to(nextafter(middle, INFINITY)), b + 1);
        CHECK_EQ(to(-middle), 0x8000 | (b & 1 ? b + 1 : b));
    }
}

TEST(f16_rounding)
{
    check_neighbours(gale__f64_to_f16, gale__f16_to_f32, 0x7c00);
    /* Through f32 first this would round twice, and to the wrong side. */
    CHECK_EQ(gale__f64_to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    CHECK_EQ(gale__f64_to_f16(1e300), 0x7c00);
    CHECK_EQ(gale__f64_to_f16(-INFINITY), 0xfc00);
    CHECK_EQ(gale__f64_to_f16(4.9e-324), 0);
}

TEST(bf16_rounding)
{
    check_neighbours(gale__f64_to_bf16, gale__bf16_to_f32, 0x7f80);
    CHECK_EQ(gale__f32_to_bf16(3.4e38f), 0x7f80);
}

static const gale_type small[] = {
    GALE_F8E4M3FN, GALE_F8E4M3FNUZ, GALE_F8E5M2, GALE_F8E5M2FNUZ, GALE_F8E8M0, GALE_F4E2M1, GALE_F6E2M3, GALE_F6E3M2};

TEST(f8_round_trip)
{
    for (size_t t = 0; t < sizeof small / sizeof *small; t++)
        for (int b = 0; b < 1 << gale__type_table[small[t]].bits; b++) {
            double v = gale__f8_to_f64(small[t], (uint8_t)b);
            if (isnan(v)) CHECK(isnan(gale__f8_to_f64(small[t], gale__f64_to_f8(small[t], v, true))));
            else CHECK_EQ(gale__f64_to_f8(small[t], v, true), b);
        }
}

TEST(f8_nearest)
{
    /* Every positive finite code of each type, and points between two neighbours. */
    for (size_t t = 0; t < sizeof small / sizeof *small; t++) {
        if (small[t] == GALE_F8E8M0) continue;
        double most = gale__type_max(small[t]);
        for (int b = 0;; b++) {
            double low = gale__f8_to_f64(small[t], (uint8_t)b), high = gale__f8_to_f64(small[t], (uint8_t)(b + 1));
            if (low == most) break;
            double middle = (low + high) / 2;
            CHECK_EQ(gale__f64_to_f8(small[t], middle, true), b & 1 ? b + 1 : b);
            CHECK_EQ(gale__f64_to_f8(small[t], nextafter(middle, 0), true), b);
            CHECK_EQ(gale__f64_to_f8(small[t], nextafter(middle, INFINITY), true), b + 1);
        }
    }
}

/* From ONNX's conformance data for Cast; infinity in f8e5m2 is the operator's to saturate. */
TEST(f8_corners)
{
    static const struct {
        gale_type type;
        double v;
        int saturated, free;
    } rows[] = {
        {GALE_F8E4M3FN, 1e6, 0x7e, 0x7f},
        {GALE_F8E4M3FN, -INFINITY, 0xfe, 0xff},
        {GALE_F8E4M3FN, -1e-7, 0x80, 0x80},
        {GALE_F8E4M3FN, 0.48, 0x2f, 0x2f},
        {GALE_F8E4M3FN, NAN, 0x7f, 0x7f},
        {GALE_F8E4M3FN, 464, 0x7e, 0x7e},
        {GALE_F8E4M3FN, 465, 0x7e, 0x7f},
        {GALE_F8E4M3FNUZ, 1e6, 0x7f, 0x80},
        {GALE_F8E4M3FNUZ, INFINITY, 0x7f, 0x80},
        {GALE_F8E4M3FNUZ, -INFINITY, 0xff, 0x80},
        {GALE_F8E4M3FNUZ, -1e-7, 0, 0},
        {GALE_F8E4M3FNUZ, NAN, 0x80, 0x80},
        {GALE_F8E4M3FNUZ, -0.0, 0, 0},
        {GALE_F8E5M2, 1e6, 0x7b, 0x7c},
        {GALE_F8E5M2, -INFINITY, 0xfc, 0xfc},
        {GALE_F8E5M2, -1e-7, 0x80, 0x80},
        {GALE_F8E5M2, NAN, 0x7e, 0x7e},
        {GALE_F8E5M2FNUZ, -1e6, 0xff, 0x80},
        {GALE_F8E5M2FNUZ, NAN, 0x80, 0x80},
        {GALE_F8E5M2FNUZ, -1e-7, 0, 0},
        {GALE_F8E5M2FNUZ, 0.4996848702430725, 0x3c, 0x3c},
        {GALE_F8E8M0, 0, 0, 0},
        {GALE_F8E8M0, 0.124, 0x7c, 0x7c},
        {GALE_F8E8M0, 1.1, 0x80, 0x80},
        {GALE_F8E8M0, 8, 0x82, 0x82},
        {GALE_F8E8M0, 1e300, 0xfe, 0xff},
        {GALE_F8E8M0, INFINITY, 0xff, 0xff},
        {GALE_F8E8M0, NAN, 0xff, 0xff},
        {GALE_F8E8M0, -2, 0x80, 0x80},
        {GALE_F6E2M3, 0.1, 1, 1},
        {GALE_F6E2M3, 0.0625, 0, 0},
        {GALE_F6E2M3, -INFINITY, 0x3f, 0x3f},
        {GALE_F6E2M3, NAN, 0x20, 0x20},
        {GALE_F6E3M2, 0.0624, 1, 1},
        {GALE_F6E3M2, 7.4, 0x17, 0x17},
        {GALE_F6E3M2, 30, 0x1f, 0x1f},
        {GALE_F6E3M2, -0.01, 0x20, 0x20},
        {GALE_F4E2M1, 0.48, 1, 1},
        {GALE_F4E2M1, 0.25, 0, 0},
        {GALE_F4E2M1, -3.5, 0xe, 0xe},
        {GALE_F4E2M1, -8, 0xf, 0xf},
        {GALE_F4E2M1, INFINITY, 7, 7},
        {GALE_F4E2M1, NAN, 8, 8},
        {GALE_F4E2M1, -0.0, 8, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int a = gale__f64_to_f8(rows[i].type, rows[i].v, true), b = gale__f64_to_f8(rows[i].type, rows[i].v, false);
        if (!CHECK_EQ(a, rows[i].saturated) || !CHECK_EQ(b, rows[i].free))
            printf("  %s of %g\n", gale_type_name(rows[i].type), rows[i].v);
    }
    CHECK(gale__f8_to_f64(GALE_F8E4M3FN, 0x7e) == 448 && gale__f8_to_f64(GALE_F8E4M3FNUZ, 0x7f) == 240);
    CHECK(gale__f8_to_f64(GALE_F8E5M2, 0x7b) == 57344 && gale__f8_to_f64(GALE_F8E5M2FNUZ, 0x7f) == 57344);
    CHECK(gale__f8_to_f64(GALE_F4E2M1, 0xf) == -6 && gale__f8_to_f64(GALE_F8E8M0, 0) == 0x1p-127);
}

TEST(integers)
{
    static const gale_type ints[] = {GALE_I8, GALE_I16, GALE_I32, GALE_I64, GALE_U8, GALE_U16, GALE_U32, GALE_U64,
        GALE_I4, GALE_U4, GALE_I2, GALE_U2};
    for (size_t t = 0; t < sizeof ints / sizeof *ints; t++) {
        gale_type type = ints[t];
        bool is_signed = gale__type_is_signed(type);
        int bits = gale__type_table[type].bits;
        uint64_t p = 0;
        gale__store_f64(type, &p, INFINITY);
        CHECK_EQ(gale__load_i64(type, &p),
            is_signed ? (int64_t)((1ull << (bits - 1)) - 1) : (int64_t)(UINT64_MAX >> (64 - bits)));
        gale__store_f64(type, &p, -INFINITY);
        CHECK_EQ(gale__load_i64(type, &p), is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0);
        gale__store_f64(type, &p, NAN);
        CHECK_EQ(gale__load_i64(type, &p), 0);
        gale__store_f64(type, &p, 1.9);
        CHECK_EQ(gale__load_i64(type, &p), 1);
        gale__store_f64(type, &p, -1.9);
        CHECK_EQ(gale__load_i64(type, &p), is_signed ? -1 : 0);
        gale__store_i64(type, &p, -1);
        CHECK_EQ(gale__load_i64(type, &p), is_signed ? -1 : (int64_t)(UINT64_MAX >> (64 - bits)));
        gale__store_i64(type, &p, bits < 64 ? (1ll << bits) + 1 : 1);
        CHECK_EQ(gale__load_i64(type, &p), 1);
        CHECK(gale__type_min(type) <= 0 && gale__type_max(type) > 0);
    }
    uint8_t b = 0x08;
    CHECK_EQ(gale__load_i64(GALE_I4, &b), -8);
    gale__store_i64(GALE_I4, &b, 9);
    CHECK_EQ((int8_t)b, -7);
    gale__store_f64(GALE_BOOL, &b, 0.25);
    CHECK_EQ(b, 1);
    gale__store_i64(GALE_BOOL, &b, 256);
    CHECK_EQ(b, 1);
    uint64_t u = UINT64_MAX;
    CHECK(gale__load_f64(GALE_U64, &u) == 0x1p64);
    CHECK(gale__type_max(GALE_U64) == 0x1p64 && gale__type_max(GALE_I8) == 127 && gale__type_min(GALE_I8) == -128);
}

TEST(floats)
{
    uint64_t p = 0;
    gale__store_f64(GALE_F32, &p, 1e20);
    CHECK_EQ(gale__load_i64(GALE_F32, &p), INT64_MAX);
    gale__store_f64(GALE_F64, &p, -2.5);
    CHECK_EQ(gale__load_i64(GALE_F64, &p), -2);
    /* An integer of 63 bits into a float of 24: one rounding, not two. */
    const int64_t hard = (1ll << 62) + (1ll << 38) + 1;
    gale__store_i64(GALE_F32, &p, hard);
    CHECK(gale__load_f64(GALE_F32, &p) == (double)(float)hard);
    gale__store_i64(GALE_F32, &p, -hard);
    CHECK(gale__load_f64(GALE_F32, &p) == (double)(float)-hard);
    gale__store_i64(GALE_BF16, &p, (1ll << 62) + (1ll << 54) + 1);
    CHECK(gale__load_f64(GALE_BF16, &p) == 0x1.02p62);
    gale__store_i64(GALE_F16, &p, INT64_MIN);
    CHECK(gale__load_f64(GALE_F16, &p) == -INFINITY);
    for (int t = 0; t < GALE_TYPE_COUNT; t++) {
        if (!gale__type_is_float((gale_type)t)) continue;
        double most = gale__type_max((gale_type)t);
        gale__store_f64((gale_type)t, &p, most);
        CHECK(gale__load_f64((gale_type)t, &p) == most);
    }
}

TESTS(ROW(f16_round_trip), ROW(bf16_round_trip), ROW(f16_rounding), ROW(bf16_rounding), ROW(f8_round_trip),
    ROW(f8_nearest), ROW(f8_corners), ROW(integers), ROW(floats))
