/* Every scalar operation and every cast as kernel IR, on every device, against plain C: NaN, infinities, zeros with
 * their sign, the lowest integers, shifts past the width, casts out of range. */
#include "ir_run.h"
#include <float.h>
#include <math.h>

#define MAX_CORNERS 64
#define COLUMNS 64 /* operations in one kernel at most */

typedef union num {
    double f;
    int64_t i;
} num; /* by the type's kind */

static bool is_float(gale_type t) { return gale__type_is_float(t); }

static num get(gale_type t, const void *base, size_t at)
{
    const char *p = (const char *)base + at * gale_type_size(t);
    return is_float(t) ? (num){.f = gale__load_f64(t, p)} : (num){.i = gale__load_i64(t, p)};
}

static void put(gale_type t, void *base, size_t at, num v)
{
    char *p = (char *)base + at * gale_type_size(t);
    if (is_float(t)) gale__store_f64(t, p, v.f);
    else gale__store_i64(t, p, v.i);
}

/* Numbers where things go wrong, in a type; returns how many. */
static int corners(gale_type t, num *out)
{
    static const double floats[] = {0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -7, 100.25, -1000.75, 65504, 65520,
        -70000, 448, 449, 500, 127.9, 128, -128.9, -129, 255.9, 256, 1e-3, -3e-5, 6e-8, 1e-10, 2147483520.0,
        2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0, 4294967296.0, 9.2e18, 1e19, -1e19, 1e30, -1e38,
        3.4e38, 1e-38, 1e-40, INFINITY, -INFINITY, NAN, 0.9999999, 1.0000001, M_PI, -M_PI / 2, 12345.678, 7.5, 88.5,
        -103.0, 1e5, 240, 57344, 60000, 6, 5, 0.25, 0.75};
    static const int64_t ints[] = {0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, 63, 64, 65, 100, 127, 128, -128, -129, 255,
        256, 32767, 32768, -32769, 65535, 65536, 1000003, -99999, 16777217, 33554435, 2147483647, INT32_MIN,
        -2147483647, 4294967295, 4294967296, -4294967297, 1234567890123, 9007199254740993, INT64_MAX, INT64_MIN,
        INT64_MIN + 1, 0x5555555555555555};
    int n = 0;
    if (is_float(t)) {
        for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) out[n++].f = floats[i];
        if (t == GALE_F64) {
            const double more[] = {1e300, -1e300, 1e-300, 5e-324, 1 + DBL_EPSILON};
            for (int i = 0; i < 5 && n < MAX_CORNERS; i++) out[n++].f = more[i];
        }
    } else {
        for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) out[n++].i = ints[i];
    }
    return n;
}

/* One column of results: what was asked, and how close it must be. */
typedef struct column {
    int op;
    gale_type from, to;
    double ulps;
} column;
typedef struct plan {
    gale_type in;
    int n;
    size_t items;
    column columns[COLUMNS];
} plan;

static int64_t wrap(gale_type t, uint64_t v)
{
    int bits = gale__type_table[t].bits, spare = 64 - bits;
    if (t == GALE_BOOL) return v != 0;
    return gale__type_is_signed(t) ? (int64_t)(v << spare) >> spare : (int64_t)(v << spare >> spare);
}

static bool less(gale_type t, int64_t a, int64_t b)
{
    return gale__type_is_signed(t) ? a < b : (uint64_t)a < (uint64_t)b;
}

static int64_t int_op(int op, gale_type t, int64_t a, int64_t b, int64_t c)
{
    bool is_signed = gale__type_is_signed(t);
    int bits = gale__type_table[t].bits;
    bool past = less(t, b, 0) || (uint64_t)b >= (uint64_t)bits;
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (op) {
    case GALE__NEG: return wrap(t, 0 - ua);
    case GALE__ABS: return wrap(t, less(t, a, 0) ? 0 - ua : ua);
    case GALE__NOT: return wrap(t, ~ua);
    case GALE__ADD: return wrap(t, ua + ub);
    case GALE__SUB: return wrap(t, ua - ub);
    case GALE__MUL: return wrap(t, ua * ub);
    case GALE__DIV: return b == 0 ? 0 : is_signed && b == -1 ? wrap(t, 0 - ua) : is_signed ? a / b : (int64_t)(ua / ub);
    case GALE__REM: return b == 0 || (is_signed && b == -1) ? 0 : is_signed ? a % b : (int64_t)(ua % ub);
    case GALE__MIN: return less(t, a, b) ? a : b;
    case GALE__MAX: return less(t, a, b) ? b : a;
    case GALE__AND: return a & b;
    case GALE__OR: return a | b;
    case GALE__XOR: return a ^ b;
    case GALE__SHL: return past ? 0 : wrap(t, ua << b);
    case GALE__SHR: return past ? (is_signed && a < 0 ? -1 : 0) : is_signed ? a >> b : (int64_t)(ua >> b);
    case GALE__EQ: return a == b;
    case GALE__NE: return a != b;
    case GALE__LT: return less(t, a, b);
    case GALE__LE: return !less(t, b, a);
    case GALE__GT: return less(t, b, a);
    case GALE__GE: return !less(t, a, b);
    case GALE__SELECT: return less(t, a, b) ? b : c;
    default: return a; /* rounding a whole number */
    }
}

static double float_op(int op, gale_type t, double a, double b, double c)
{
    bool narrow = t == GALE_F32;
    switch (op) {
    case GALE__NEG: return -a;
    case GALE__ABS: return fabs(a);
    case GALE__FLOOR: return floor(a);
    case GALE__CEIL: return ceil(a);
    case GALE__RINT: return rint(a);
    case GALE__TRUNC: return trunc(a);
    case GALE__SQRT: return sqrt(a);
    case GALE__ADD: return a + b;
    case GALE__SUB: return a - b;
    case GALE__MUL: return a * b;
    case GALE__DIV: return a / b;
    case GALE__REM: return fmod(a, b);
    case GALE__MIN: return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    case GALE__MAX: return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    case GALE__EQ: return a == b;
    case GALE__NE: return a != b;
    case GALE__LT: return a < b;
    case GALE__LE: return a <= b;
    case GALE__GT: return a > b;
    case GALE__GE: return a >= b;
    case GALE__SELECT: return a < b ? b : c;
    case GALE__FMA: return narrow ? fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
    case GALE__EXP: return exp(a);
    case GALE__EXPM1: return expm1(a);
    case GALE__LOG: return log(a);
    case GALE__LOG1P: return log1p(a);
    case GALE__SIN: return sin(a);
    case GALE__COS: return cos(a);
    case GALE__TAN: return tan(a);
    case GALE__ASIN: return asin(a);
    case GALE__ACOS: return acos(a);
    case GALE__ATAN: return atan(a);
    case GALE__SINH: return sinh(a);
    case GALE__COSH: return cosh(a);
    case GALE__ASINH: return asinh(a);
    case GALE__ACOSH: return acosh(a);
    case GALE__ATANH: return atanh(a);
    case GALE__TANH: return tanh(a);
    case GALE__ERF: return erf(a);
    case GALE__POW: return pow(a, b);
    case GALE__ATAN2: return atan2(a, b);
    default: return NAN;
    }
}

static double least_normal(gale_type t) { return t == GALE_F64 ? DBL_MIN : FLT_MIN; }
static double flush(gale_type t, double v) { return fabs(v) < least_normal(t) ? copysign(0, v) : v; }

static bool float_close(gale_type t, double got, double want, double ulps)
{
    char cell[8];
    put(t, cell, 0, (num){.f = want});
    want = get(t, cell, 0).f;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return want == got;
    if (want == 0 && got == 0) return true;
    if (ulps == 0) return got == want || (fabs(want) <= least_normal(t) && (got == 0 || fabs(got) == least_normal(t)));
    double unit = t == GALE_F64 ? DBL_EPSILON : t == GALE_F32 ? FLT_EPSILON : 0;
    return fabs(got - want) <= ulps * unit * fabs(want) + 2 * least_normal(t);
}

/* Devices may flush denormals, operands and results alike. */
static bool float_right(const column *c, const char *device, double got, double a, double b, double z)
{
    gale_type t = c->from;
    double ulps = c->ulps;
    /* Where fma of f64 is put together from halves, the last bit and overflow on the way are lost. */
    if (c->op == GALE__FMA && t == GALE_F64 && !strcmp(device, "vulkan")) {
        if (isinf(a * b)) return true;
        ulps = 1;
    }
    bool trig = c->op == GALE__SIN || c->op == GALE__COS || c->op == GALE__TAN;
    if (trig && fabs(a) > 1e5) return isinf(a) ? isnan(got) : c->op == GALE__TAN || fabs(got) <= 1;
    if (float_close(t, got, float_op(c->op, t, a, b, z), ulps)) return true;
    return float_close(t, got, float_op(c->op, t, flush(t, a), flush(t, b), flush(t, z)), ulps);
}

static bool compare_right(const column *c, int64_t got, double a, double b)
{
    return got == (int64_t)float_op(c->op, c->from, a, b, 0) ||
           got == (int64_t)float_op(c->op, c->from, flush(c->from, a), flush(c->from, b), 0);
}

static bool say(const column *c, const char *device, gale_type t, num got, num want, num a, num b)
{
    static int said;
    const char *name = c->op < GALE__SCALAR_COUNT ? gale__scalar_table[c->op].name : "?";
    if (said++ > 60) return false;
    printf("  %s %s %s->%s: ", device, name, gale_type_name(c->from), gale_type_name(c->to));
    if (is_float(t)) printf("%.17g, not %.17g", got.f, want.f);
    else printf("%lld, not %lld", (long long)got.i, (long long)want.i);
    if (is_float(c->from)) printf(" (of %.17g, %.17g)\n", a.f, b.f);
    else printf(" (of %lld, %lld)\n", (long long)a.i, (long long)b.i);
    return false;
}

/* Buffers: x, y, z, then one result per column in rows of 8 bytes. */
static bool check_ops(const ir_job *job, const char *device)
{
    const plan *p = job->user;
    bool ok = true;
    for (int k = 0; k < p->n; k++) {
        const column *c = &p->columns[k];
        const char *row = (const char *)job->buffers[3].data + (size_t)k * p->items * 8;
        for (size_t i = 0; i < p->items; i++) {
            num a = get(p->in, job->buffers[0].data, i), b = get(p->in, job->buffers[1].data, i),
                z = get(p->in, job->buffers[2].data, i);
            num got, want = {0};
            if (is_float(p->in) && c->to != GALE_BOOL) {
                got = get(p->in, row, i);
                want.f = float_op(c->op, p->in, a.f, b.f, z.f);
                if (!float_right(c, device, got.f, a.f, b.f, z.f)) ok = say(c, device, p->in, got, want, a, b);
            } else {
                got = get(c->to == GALE_BOOL ? GALE_U8 : p->in, row, i);
                want.i = is_float(p->in) ? (int64_t)float_op(c->op, p->in, a.f, b.f, 0)
                                         : int_op(c->op, p->in, a.i, b.i, z.i);
                bool right = is_float(p->in) ? compare_right(c, got.i, a.f, b.f) : got.i == want.i;
                if (!right) ok = say(c, device, GALE_I64, got, want, a, b);
            }
        }
    }
    return ok;
}

/* Element index of this thread, for groups of 64. */
static gale__ir_val thread_index(gale__ir *ir)
{
    gale__ir_val group = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GROUP_ID, .type = GALE_U32});
    gale__ir_val local = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
    return gale__ir_op2(
        ir, GALE__ADD, GALE_U32, gale__ir_op2(ir, GALE__MUL, GALE_U32, group, gale__ir_u32(ir, 64)), local);
}

static gale__ir_val guard(gale__ir *ir, gale__ir_val index)
{
    gale__ir_val items = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = GALE_U32});
    gale__ir_op1(ir, GALE__IR_IF, GALE_BOOL, gale__ir_op2(ir, GALE__LT, GALE_BOOL, index, items));
    return items;
}

static void end(gale__ir *ir) { gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_END}); }

/* y[k][i] = op_k(x[i], y[i], z[i]) for all operations of the plan. */
static void build_ops(gale__ir *ir, const plan *p, const char *name)
{
    gale__ir_init(ir, name);
    ir->group[0] = 64;
    ir->n_pointers = 4;
    ir->n_words = 1;
    ir->readonly = 7;
    gale__ir_val index = thread_index(ir), in[3];
    gale__ir_val items = guard(ir, index);
    for (int i = 0; i < 3; i++) gale__ir_load_as(ir, i, p->in, 1, index, &in[i]);
    for (int k = 0; k < p->n; k++) {
        const column *c = &p->columns[k];
        gale__ir_val a = in[0], b = in[1], z = in[2];
        if (c->op == GALE__SELECT) a = gale__ir_op2(ir, GALE__LT, GALE_BOOL, a, b);
        gale__ir_val v = gale__ir_scalar(ir, (gale__scalar)c->op, gale__compute_type(c->to), a, b, z);
        if (c->to != GALE_BOOL && !is_float(c->to)) v = gale__ir_narrow(ir, c->to, v);
        int per_row = 8 / (int)gale_type_size(c->to);
        gale__ir_val row = gale__ir_op2(ir, GALE__MUL, GALE_U32, items, gale__ir_u32(ir, (uint32_t)(k * per_row)));
        gale__ir_store_as(ir, 3, c->to, 1, gale__ir_op2(ir, GALE__ADD, GALE_U32, row, index), &v);
    }
    end(ir);
}

/* All pairs of corners; z runs along differently. */
static size_t fill_inputs(gale_type t, void **x, void **y, void **z)
{
    num c[MAX_CORNERS];
    size_t n = (size_t)corners(t, c), items = n * n, size = gale_type_size(t);
    *x = malloc(items * size), *y = malloc(items * size), *z = malloc(items * size);
    for (size_t i = 0; i < items; i++) {
        put(t, *x, i, c[i % n]);
        put(t, *y, i, c[i / n]);
        put(t, *z, i, c[(i * 7 + i / n) % n]);
    }
    return items;
}

static void run_plan(plan *p, const char *name)
{
    gale__ir ir;
    void *x, *y, *z;
    p->items = fill_inputs(p->in, &x, &y, &z);
    size_t in_bytes = p->items * gale_type_size(p->in), out_bytes = (size_t)p->n * p->items * 8;
    void *out = calloc(1, out_bytes);
    build_ops(&ir, p, name);
    ir_job job = {.ir = &ir,
        .buffers = {{x, in_bytes}, {y, in_bytes}, {z, in_bytes}, {out, out_bytes}},
        .words = {(uint32_t)p->items},
        .groups = {(uint32_t)(p->items + 63) / 64, 1, 1},
        .check = check_ops,
        .user = p};
    ir_run(&job);
    free(x), free(y), free(z), free(out);
}

static void add_column(plan *p, int op, gale_type to, double ulps)
{
    p->columns[p->n++] = (column){op, p->in, to, ulps};
}

static void run_type(gale_type t, char class_, const char *name)
{
    plan p = {.in = t};
    for (int op = 0; op < GALE__SCALAR_COUNT; op++) {
        char k = gale__scalar_table[op].class_;
        bool bits = op == GALE__NOT || (op >= GALE__AND && op <= GALE__SHR),
             floats = op == GALE__FMA || op == GALE__SQRT;
        bool others = op == GALE__CAST || op == GALE__BITCAST || op == GALE__RANDOM || op == GALE__FMA_HALVES;
        if (others || (class_ == 'm') != (k == 'm')) continue;
        if (is_float(t) ? bits : floats) continue;
        bool to_bool = op >= GALE__EQ && op <= GALE__GE;
        /* Drivers owe division 2.5 ulp and the square root 3. */
        double ulps = k == 'm' ? 6 : op == GALE__DIV || op == GALE__SQRT ? 3 : 0;
        add_column(&p, op, to_bool ? GALE_BOOL : t, ulps);
    }
    run_plan(&p, name);
}

TEST(f32) { run_type(GALE_F32, 'r', "ops_f32"); }
TEST(f64) { run_type(GALE_F64, 'r', "ops_f64"); }
TEST(i32) { run_type(GALE_I32, 'r', "ops_i32"); }
TEST(u32) { run_type(GALE_U32, 'r', "ops_u32"); }
TEST(i64) { run_type(GALE_I64, 'r', "ops_i64"); }
TEST(u64) { run_type(GALE_U64, 'r', "ops_u64"); }
TEST(i8) { run_type(GALE_I8, 'r', "ops_i8"); }
TEST(u8) { run_type(GALE_U8, 'r', "ops_u8"); }
TEST(i16) { run_type(GALE_I16, 'r', "ops_i16"); }
TEST(u16) { run_type(GALE_U16, 'r', "ops_u16"); }
TEST(i4) { run_type(GALE_I4, 'r', "ops_i4"); }
TEST(u2) { run_type(GALE_U2, 'r', "ops_u2"); }
TEST(math_f32) { run_type(GALE_F32, 'm', "math_f32"); }
TEST(math_f64) { run_type(GALE_F64, 'm', "math_f64"); }

TEST(close) { ir_close_devices(); }

TESTS(ROW(f32), ROW(f64), ROW(i32), ROW(u32), ROW(i64), ROW(u64), ROW(i8), ROW(u8), ROW(i16), ROW(u16), ROW(i4),
    ROW(u2), ROW(math_f32), ROW(math_f64), ROW(close))
