/* Measures every function of kernel/ir/math.inc against libm in higher precision: dense samples of each range of
 * interest and all corners.  Fails above the bound that each row states, in units of the last place. */
#include "test.h"
#include "kernel/cpu/math.h"
#include "kernel/cpu/simd.h"
#include <float.h>
#include <stdlib.h>

static uint64_t random_state = 88172645463325252ull;
static uint64_t random_u64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* One in [0, 1). */
static double random_unit(void) { return (double)(random_u64() >> 11) * 0x1p-53; }

/* A value of [lo, hi]: evenly by value, or evenly by logarithm for ranges that begin above zero and span much. */
static double sample(double lo, double hi)
{
    if (lo > 0 && hi / lo > 100) return exp(log(lo) + random_unit() * (log(hi) - log(lo)));
    return lo + random_unit() * (hi - lo);
}

/* How far v is from the exact value, in ulp of the format with `mantissa` bits and least exponent `least`. */
static double distance(long double v, long double exact, int mantissa, int least, long double largest)
{
    if (isnan(exact) || isnan(v)) return isnan(exact) && isnan(v) ? 0 : INFINITY;
    if (v == exact) return v == 0 && signbit(v) != signbit(exact) ? INFINITY : 0;
    if (fabsl(exact) > largest && isinf(v) && signbit(v) == signbit(exact)) return 0;
    if (isinf(exact)) return v == largest ? 1 : INFINITY;
    if (isinf(v)) return fabsl(exact) > largest * (1 - 1e-6L) ? 1 : INFINITY;
    int e = exact == 0 ? least : ilogbl(exact);
    if (e < least) {
        if (v == 0) return 0; /* denormal results may be flushed */
        e = least;
    }
    return (double)(fabsl(v - exact) / ldexpl(1, e - mantissa));
}

typedef struct range {
    double lo, hi;
} range;
typedef struct row {
    const char *name;
    float (*f)(float);
    double (*d)(double);
    double (*exact)(double);
    long double (*exactl)(long double);
    double bound32, bound64;
    range ranges[3];
} row;

#define NAMED(name)                                            \
    static float f32_##name(float x) { return m32_##name(x); } \
    static double f64_##name(double x) { return m64_##name(x); }
NAMED(exp)
NAMED(expm1)
NAMED(log)
NAMED(log1p)
NAMED(sin)
NAMED(cos)
NAMED(tan)
NAMED(asin)
NAMED(acos)
NAMED(atan)
NAMED(sinh)
NAMED(cosh)
NAMED(asinh)
NAMED(acosh)
NAMED(atanh)
NAMED(tanh)
NAMED(erf)
#define FUNCTION(name, b32, b64, ...)                                           \
    {                                                                           \
#name, f32_##name, f64_##name, name, name##l, b32, b64, { __VA_ARGS__ } \
    }

static const row rows[] = {
    FUNCTION(exp, 1, 1, {-110, 90}, {-750, 712}, {-1, 1}),
    FUNCTION(expm1, 2, 2, {-40, 90}, {-1, 1}, {1e-30, 1e-2}),
    FUNCTION(log, 1, 1, {1e-40, 1e38}, {0.5, 2}, {1e-308, 1e308}),
    FUNCTION(log1p, 1.5, 1.5, {-0.99999, 2}, {1e-30, 1e30}, {-0.01, 0.01}),
    FUNCTION(sin, 2, 2, {-10, 10}, {-1e5, 1e5}, {1e-30, 1}),
    FUNCTION(cos, 2, 2, {-10, 10}, {-1e5, 1e5}, {1e-30, 1}),
    FUNCTION(tan, 4, 4, {-10, 10}, {-1e5, 1e5}, {1e-30, 1}),
    FUNCTION(asin, 2, 2, {-1, 1}, {1e-30, 1e-1}, {0.99, 1}),
    FUNCTION(acos, 2, 2, {-1, 1}, {0.99, 1}, {-1, -0.99}),
    FUNCTION(atan, 2, 2, {-3, 3}, {1e-30, 1e30}, {-1e3, 1e3}),
    FUNCTION(sinh, 2, 2, {-90, 90}, {-2, 2}, {-710.4, 710.4}),
    FUNCTION(cosh, 2, 2, {-90, 90}, {-2, 2}, {-710.4, 710.4}),
    FUNCTION(asinh, 2, 2, {-3, 3}, {1e-30, 1e30}, {-1e4, 1e4}),
    FUNCTION(acosh, 2.5, 2.5, {1, 3}, {1.0001, 1e30}, {1, 1.01}),
    FUNCTION(atanh, 2, 2, {-1, 1}, {1e-30, 0.5}, {0.999, 1}),
    FUNCTION(tanh, 2.5, 2.5, {-25, 25}, {-1, 1}, {1e-30, 1e-2}),
    FUNCTION(erf, 2, 2, {-6.5, 6.5}, {-1.2, 1.2}, {1e-30, 1e-1}),
};

static const double corners[] = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, INFINITY, -INFINITY, NAN, 1e-20, -1e-20, 1e30,
    -1e30, 3, -3, 4, 100, -100, FLT_MAX, -FLT_MAX, FLT_MIN, -FLT_MIN, 1.5, -1.5, 0.92, 1.0000001, 88.72, -88, 104, 20,
    710, -745.2};
#define CORNERS (sizeof corners / sizeof *corners)
/* Where the quadrant cannot be told any more, only the interval is promised. */
static bool beyond(const row *r, double x)
{
    return fabs(x) > 1e5 && !isinf(x) && (r->exact == sin || r->exact == cos || r->exact == tan);
}

static bool near_f32(const row *r, float x, double *worst, double *at)
{
    if (beyond(r, x)) return r->exact == tan || fabsf(r->f(x)) <= 1;
    double ulp = distance(r->f(x), r->exact(x), 23, -126, FLT_MAX);
    if (ulp > *worst) *worst = ulp, *at = x;
    return true;
}

static bool near_f64(const row *r, double x, double *worst, double *at)
{
    if (beyond(r, x)) return r->exact == tan || fabs(r->d(x)) <= 1;
    double ulp = distance(r->d(x), r->exactl(x), 52, -1022, DBL_MAX);
    if (ulp > *worst) *worst = ulp, *at = x;
    return true;
}

static int samples(void) { return test_emulated() ? 3000 : 40000; }

static void measure(const row *r)
{
    double worst32 = 0, worst64 = 0, at32 = 0, at64 = 0;
    for (int i = 0; i < 3; i++)
        for (int n = 0; n < samples(); n++) {
            double x = sample(r->ranges[i].lo, r->ranges[i].hi);
            CHECK(near_f32(r, (float)x, &worst32, &at32));
            CHECK(near_f64(r, x, &worst64, &at64));
        }
    for (size_t i = 0; i < CORNERS; i++) {
        CHECK(near_f32(r, (float)corners[i], &worst32, &at32));
        CHECK(near_f64(r, corners[i], &worst64, &at64));
    }
    if (getenv("MATH_VERBOSE"))
        printf("%-6s f32 %.2f ulp at %g, f64 %.2f ulp at %g\n", r->name, worst32, at32, worst64, at64);
    if (worst32 > r->bound32) {
        printf("FAIL %s f32: %g ulp at %.9g, bound %g\n", r->name, worst32, at32, r->bound32);
        test_bad++;
    }
    if (worst64 > r->bound64) {
        printf("FAIL %s f64: %g ulp at %.17g, bound %g\n", r->name, worst64, at64, r->bound64);
        test_bad++;
    }
}

TEST(one_operand)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) measure(&rows[i]);
}

/* Functions over blocks: the bits of the one for a number, whatever the length. */
static void compare_block(const gale__simd *simd, int op, float (*f)(float))
{
    enum { MOST = 61 };
    float x[MOST], y[MOST];
    for (int n = 0; n <= MOST; n++) {
        for (int i = 0; i < n; i++) x[i] = (float)(i % 3 ? sample(-9, 9) : corners[(size_t)(i + n) % CORNERS]);
        simd->op[op][GALE__SIMD_TYPE_F32](y, x, NULL, NULL, (size_t)n);
        for (int i = 0; i < n; i++) CHECK(m32_bits(f(x[i])) == m32_bits(y[i]) || (isnan(y[i]) && isnan(f(x[i]))));
    }
}

TEST(blocks)
{
    static const int ops[] = {GALE__EXP, GALE__EXPM1, GALE__LOG, GALE__LOG1P, GALE__SIN, GALE__COS, GALE__TAN,
        GALE__ASIN, GALE__ACOS, GALE__ATAN, GALE__SINH, GALE__COSH, GALE__ASINH, GALE__ACOSH, GALE__ATANH, GALE__TANH,
        GALE__ERF}; /* as rows[] */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) compare_block(gale__simd_get(), ops[i], rows[i].f);
}

static double worst_pow[2], worst_atan2[2];
static void keep(double *worst, double ulp, double bound, const char *what, double x, double y)
{
    if (ulp > *worst) *worst = ulp;
    if (ulp > bound && test_bad++ < 20) printf("FAIL %s(%.17g, %.17g): %g ulp, bound %g\n", what, x, y, ulp, bound);
}

static void two(double x, double y)
{
    float fx = (float)x, fy = (float)y;
    keep(&worst_pow[0], distance(m32_pow(fx, fy), powl(fx, fy), 23, -126, FLT_MAX), 2, "pow f32", fx, fy);
    keep(&worst_pow[1], distance(m64_pow(x, y), powl(x, y), 52, -1022, DBL_MAX), 2, "pow f64", x, y);
    keep(&worst_atan2[0], distance(m32_atan2(fx, fy), atan2(fx, fy), 23, -126, FLT_MAX), 2, "atan2 f32", fx, fy);
    keep(&worst_atan2[1], distance(m64_atan2(x, y), atan2l(x, y), 52, -1022, DBL_MAX), 2, "atan2 f64", x, y);
}

TEST(two_operands)
{
    for (int n = 0; n < samples(); n++) {
        two(sample(1e-30, 1e30), sample(-5, 5));
        two(sample(0.5, 2), sample(-700, 700));
        two(-sample(0.1, 10), (double)(int)sample(-40, 40));
        two(sample(1e-6, 1e6), sample(1e-6, 1e6));
        two(sample(1e-300, 1e300), sample(-1, 1));
        two(1 + sample(-1e-4, 1e-4), sample(-1e6, 1e6));
    }
    for (size_t i = 0; i < CORNERS; i++)
        for (size_t j = 0; j < CORNERS; j++) two(corners[i], corners[j]);
    if (getenv("MATH_VERBOSE"))
        printf("pow f32 %.2f, f64 %.2f ulp; atan2 f32 %.2f, f64 %.2f ulp\n", worst_pow[0], worst_pow[1], worst_atan2[0],
            worst_atan2[1]);
}

/* The known-answer vectors of the Random123 distribution. */
TEST(philox) { CHECK_EQ(m32_philox(0, 0, 0, 0), 0x6627e8d5u); }

TESTS(ROW(one_operand), ROW(blocks), ROW(two_operands), ROW(philox))
