/* Contractions of bytes by matrix units, with whole sums: built for each device that is here with its own instructions
 * or, where it has none, written for plain threads; run, and compared with their meaning, which they must equal.  The
 * forms with CUDA's instructions go through NVRTC. */
#include "gale_built.h"
#include "kernel/ir/ir_util.h"
#include "kernel/print/print.h"
#include "kernel/schedule/schedule_emit.h"
#include "nest_launch.h"

#define CASES 16
typedef struct bytes_case {
    nest_case c;
    int async; /* which operands must be copied directly; -1: any */
} bytes_case;
static bytes_case *cases;
static int n_cases;

static int to_i32(nest_case *c, int v) { return nr_op(c, GALE__CAST, GALE_I32, v, 0, 0); }

typedef enum ending { PLAIN, NARROW, RESIDUAL } ending;

/* A byte for each result, less a zero point. */
static int load_residual(nest_case *c)
{
    nr_axis x[3] = {nr_plain(0, c->nest.extent[0]), nr_plain(1, c->nest.extent[1]), nr_plain(2, c->nest.extent[2])};
    int byte = to_i32(c, nr_load(c, nr_access(c, GALE_U8, x, 3, NULL, 0, 0)));
    return nr_op(c, GALE__CAST, GALE_F32, nr_op(c, GALE__SUB, GALE_I32, byte, nr_const(c, GALE_I32, 7), 0), 0, 0);
}

/* Whether a device with these capabilities runs a case.  Two software drivers share the cases of a brief run. */
static bool runs(const gale_device_caps *caps, int i)
{
    bool few = test_brief() && caps->software;
    int every = few ? (caps->spirv ? 10 : 20) : test_light() ? 3 : 1;
    return i % every == (few && caps->spirv ? 5 : 0);
}

/* The naive evaluator takes seconds: it is for the cases that a device here runs. */
static void finish_case(void)
{
    bool run = false;
    for (int target = 0; target < 3 && !run; target++) {
        gale_device *device = ir_device(target);
        run = device && runs(&gale_device_get_info(device)->caps, n_cases);
    }
    if (run) nr_evaluate(&cases[n_cases].c);
    gale__nest_canonicalize(&cases[n_cases].c.nest);
}

/* The sum as it is, or made a byte again: scaled, with a bias for each column, none below 0; before that a RESIDUAL is
 * added. */
static void finish(nest_case *c, int p, int q, int column, ending narrow, int async)
{
    int sum = nr_reduce(c, GALE__SUM, nr_op(c, GALE__MUL, GALE_I32, to_i32(c, p), to_i32(c, q), 0));
    if (narrow) {
        nr_axis bias = nr_plain(column, c->nest.extent[column]);
        int by = nr_load(c, nr_access(c, GALE_I32, &bias, 1, NULL, 0, 0));
        sum = nr_op(c, GALE__CAST, GALE_F32, nr_op(c, GALE__ADD, GALE_I32, sum, by, 0), 0, 0);
        sum = nr_op(c, GALE__MUL, GALE_F32, sum, nr_const(c, GALE_F32, 1.0 / 512), 0);
        if (narrow == RESIDUAL) sum = nr_op(c, GALE__ADD, GALE_F32, sum, load_residual(c), 0);
        sum = nr_op(c, GALE__MAX, GALE_F32, sum, nr_const(c, GALE_F32, 0), 0);
        sum = nr_op(c, GALE__CAST, GALE_U8, sum, 0, 0);
    }
    nr_store(c, sum);
    finish_case();
    cases[n_cases++].async = async;
}

/* turned: bit 0 the first operand lies as [k][m], bit 1 the second as [n][k]. */
static void product(const char *name, const int64_t size[4], gale_type a, gale_type b, int turned, int64_t lead,
    ending narrow, int async)
{
    nest_case *c = &cases[n_cases].c;
    nr_init(c, name, 3, 1, size);
    nr_axis x[3] = {nr_plain(0, size[0]), nr_plain(1, size[1]), nr_plain(3, size[3])},
            y[3] = {nr_plain(0, size[0]), nr_plain(3, size[3]), nr_plain(2, size[2])};
    int order[3] = {0, 2, 1};
    int p = nr_load(c, nr_access(c, a, x, 3, turned & 1 ? order : NULL, lead, 0)),
        q = nr_load(c, nr_access(c, b, y, 3, turned & 2 ? order : NULL, lead, 0));
    finish(c, p, q, 2, narrow, async);
}

/* u8 by s8, padded with a zero point: in[n, c, y, x] * w[o, c, ky, kx], or with channels last. */
static void convolution(const char *name, int64_t channels, int64_t out, int64_t size, int zero, bool last, int async)
{
    int64_t nchw[7] = {2, out, size, size, channels, 3, 3}, nhwc[7] = {2, size, size, out, 3, 3, channels};
    nest_case *c = &cases[n_cases].c;
    nr_init(c, name, 4, 3, last ? nhwc : nchw);
    int d_out = last ? 3 : 1, d_y = last ? 1 : 2, d_c = last ? 6 : 4, d_ky = last ? 4 : 5;
    nr_axis x[4] = {nr_plain(0, 2)}, w[4] = {nr_plain(d_out, out)}, channel = nr_plain(d_c, channels);
    for (int i = 0; i < 2; i++) {
        nr_axis a = {.c0 = -1, .extent = size, .div = 1, .guard = true};
        a.coef[d_y + i] = a.coef[d_ky + i] = 1;
        x[(last ? 1 : 2) + i] = a;
        w[(last ? 1 : 2) + i] = nr_plain(d_ky + i, 3);
    }
    x[last ? 3 : 1] = w[last ? 3 : 1] = channel;
    int access = nr_access(c, GALE_U8, x, 4, NULL, 0, 0);
    c->accesses[access].fill = (uint64_t)zero;
    int p = nr_load(c, access), q = nr_load(c, nr_access(c, GALE_I8, w, 4, NULL, 0, 0));
    finish(c, p, q, d_out, NARROW, async);
}

static void make_cases(void)
{
#define SIZE(...) (const int64_t[4]){__VA_ARGS__}
    cases = calloc(CASES, sizeof *cases);
    product("s8 by s8, both along k", SIZE(1, 64, 64, 96), GALE_I8, GALE_I8, 2, 0, PLAIN, 3);
    product("u8 by s8, both along k, longer", SIZE(1, 136, 72, 272), GALE_U8, GALE_I8, 2, 16, NARROW, 3);
    product("u8 by s8, columns along their side", SIZE(1, 64, 72, 96), GALE_U8, GALE_I8, 0, 0, NARROW, 1);
    product("u8 by u8, rows along their side", SIZE(2, 40, 72, 48), GALE_U8, GALE_U8, 3, 0, PLAIN, 2);
    product("s8 by u8, both along their sides", SIZE(1, 36, 44, 40), GALE_I8, GALE_U8, 1, 0, PLAIN, 0);
    product("u8 by s8, copied by fours", SIZE(1, 45, 48, 100), GALE_U8, GALE_I8, 2, 4, NARROW, 3);
    product("u8 by s8, odd sizes", SIZE(1, 45, 51, 37), GALE_U8, GALE_I8, 2, 3, NARROW, 0);
    convolution("convolution, channels last", 16, 40, 6, 0, true, 3);
    convolution("convolution, channels last, zero point", 16, 40, 6, 113, true, 3);
    convolution("convolution, by eights, zero point", 24, 40, 6, 9, true, 3);
    convolution("convolution, by fours, zero point", 4, 40, 6, 113, true, 3);
    convolution("convolution, longer, zero point", 64, 72, 5, 3, true, 3);
    convolution("convolution as declared", 3, 40, 7, 128, false, -1);
    product("u8 by s8, with a residual", SIZE(1, 264, 256, 64), GALE_U8, GALE_I8, 2, 0, RESIDUAL, 3);
    product("u8 by s8, groups share k", SIZE(1, 50, 56, 1904), GALE_U8, GALE_I8, 2, 0, NARROW, 3);
    convolution("convolution, maps of 64 bytes", 64, 64, 9, 0, true, 3);
}

/* --- running --- */

static bool build_case(int i, const gale_device_caps *caps, gale__schedule *s, gale__ir *ir)
{
    bytes_case *c = &cases[i];
    char name[32];
    snprintf(name, sizeof name, "k%d", i);
    if (!CHECK_OK(gale__schedule_choose(&c->c.nest, caps, s))) return false;
    bool right = CHECK_EQ(s->kind, GALE__SCHEDULE_MATRIX) && CHECK_EQ(s->narrow, GALE_I8);
    if (c->async >= 0) right &= CHECK_EQ(s->async & 3, s->swap ? (c->async & 1) << 1 | c->async >> 1 : c->async);
    if (!right) printf("  in %s\n", c->c.name);
    if (!right || !CHECK_OK(gale__schedule_build(&c->c.nest, s, name, ir))) return false;
    if (CHECK_OK(gale__ir_validate(ir))) return true;
    gale__ir_finish(ir);
    return false;
}

static void compare(const nest_case *c, int b, const void *have)
{
    gale_type type = c->buffers[b].type;
    for (int64_t i = 0; i < c->buffers[b].elements; i++) {
        int64_t want = nr_read(type, c->expected[b], i).i, got = nr_read(type, have, i).i;
        if (want == got) continue;
        CHECK_EQ(got, want);
        printf("  %s: element %lld\n", c->name, (long long)i);
        return;
    }
}

static void run_case(gale_device *device, gale_module *module, int i, const gale__schedule *s, gale__ir *ir)
{
    const nest_case *c = &cases[i].c;
    void *results[NR_BUFFERS];
    bool ran = nr_launch(device, module, c, s, ir, results);
    for (int b = 0; b < c->nest.n_buffers; b++) {
        if (ran && results[b]) compare(c, b, results[b]);
        free(results[b]);
    }
}

/* units: as if the device had so many; 0: as it is. */
static void run_target(int target, uint32_t units)
{
    gale_device *device = ir_device(target);
    if (!device) return;
    gale_device_caps caps = gale_device_get_info(device)->caps;
    if (units) caps.compute_units = units;
    if (!gale__ir_caps_have_matrix(&caps, GALE_I8)) caps.n_matrix = 0, caps.matrix_emulated = true;
    for (int i = 0; i < n_cases; i++) {
        if (!runs(&caps, i)) continue;
        gale__schedule s;
        gale__ir ir;
        gale_module *module = NULL;
        if (!build_case(i, &caps, &s, &ir)) continue;
        gale_status status = ir_build_for(device, &caps, &ir, ir_targets[target].dialect, &module);
        if (status == GALE_UNSUPPORTED) printf("SKIP %s: %s\n", cases[i].c.name, gale_error());
        else if (CHECK_OK(status)) run_case(device, module, i, &s, &ir);
        gale_module_destroy(&module);
        gale__ir_finish(&ir);
    }
}

TEST(opencl) { run_target(0, 0); }
TEST(vulkan) { run_target(1, 0); }
TEST(cuda) { run_target(2, 0); }
TEST(cuda_one_unit) { run_target(2, 1); }

/* --- printing --- */

static gale_device_caps with_units(void)
{
    gale_device_caps caps = ir_full_caps;
    caps.dialect = "cuda";
    caps.arch = 80, caps.compute_units = 1, caps.shared_most_bytes = 160 << 10, caps.memory_model = true;
    caps.matrix[0] = (gale_matrix_shape){16, 16, 32, GALE_I8, GALE_I32};
    caps.n_matrix = 1;
    return caps;
}

/* On its own, as devices compile it, a text has all that it mentions. */
static void check_text(const gale__ir *ir, gale__dialect dialect, const gale_device_caps *caps)
{
    gale__str text = {0};
    if (CHECK_OK(gale__ir_print_c(&ir, 1, dialect, caps, &text))) CHECK(strstr(text.text, "}sums_i32;") != NULL);
    gale__str_finish(&text);
}

/* All cases as these capabilities have them, in one text. */
static void compile_cases(const gale_device_caps *caps, const char *const *wanted, const char *target)
{
    gale__str text = {0};
    gale__ir irs[CASES];
    const gale__ir *list[CASES];
    int n = 0;
    for (int i = 0; i < n_cases; i++) {
        gale__schedule s;
        if (build_case(i, caps, &s, &irs[n])) list[n] = &irs[n], n++;
    }
    gale__dialect dialect = strcmp(caps->dialect, "cuda") ? GALE__DIALECT_OPENCL_PTX : GALE__DIALECT_CUDA;
    for (int i = 0; i < n; i++) check_text(list[i], dialect, caps);
    if (CHECK_OK(gale__ir_print_c(list, n, dialect, caps, &text)))
        for (; *wanted; wanted++)
            if (!CHECK(strstr(text.text, *wanted))) printf("  %s\n", *wanted);
#ifdef GALE_HAVE_CUDA
    gale__bytes code = {0};
    if (target && !CHECK_OK(gale__nvrtc_compile_only(text.text, target, "--fmad=false", &code)))
        printf("%s: %s\n", target, gale_error());
    gale__bytes_finish(&code);
#else
    (void)target;
#endif
    if (getenv("GALE_TEST_KEEP")) printf("%s", text.text);
    for (int i = 0; i < n; i++) gale__ir_finish(&irs[i]);
    gale__str_finish(&text);
}

TEST(texts)
{
    gale_device_caps caps = with_units();
    int archs[64], count = 64;
    bool compiles = false;
#ifdef GALE_HAVE_CUDA
    compiles = !test_sanitized() && gale__nvrtc_archs(archs, &count) == GALE_OK;
#endif
    bool newer = compiles && archs[count - 1] >= 100;
    compile_cases(&caps,
        (const char *const[]){
            "m16n8k32.row.col.s32.u8.s8", "sums_add_s8_u8(&v", "sums_add_u8_u8(&v", "copy_16(&v", NULL},
        compiles ? "sm_80" : NULL);
    caps.arch = 90, caps.matrix_groups = caps.matrix_quads = true, caps.shared_most_bytes = 227 << 10;
    compile_cases(&caps, (const char *const[]){"m64n96k32.s32.u8.s8", NULL}, newer ? "sm_90a" : NULL);
    caps.matrix_maps = caps.begins_early = true; /* windows of 64 bytes; three sets; a residual that is loaded ahead */
    compile_cases(
        &caps, (const char *const[]){"(group_part_half(&v", "__launch_bounds__(512,1)", NULL}, newer ? "sm_90a" : NULL);
    caps.compute_units = 132;
    compile_cases(&caps, (const char *const[]){"(*(int4*)&of_cluster(v", NULL}, NULL);
    caps = with_units();
    caps.dialect = "opencl+ptx", caps.shared_most_bytes = caps.shared_bytes = 48 << 10;
    compile_cases(&caps, (const char *const[]){"sums_add_u8_s8(&v", "__local", NULL}, NULL);
    if (!compiles) SKIP("NVRTC is not used: the texts were not compiled");
}

/* Units that know no bytes leave them to other schedules, and so does a type that sums do not have. */
TEST(choices)
{
    gale_device_caps caps = with_units();
    gale__schedule s;
    for (int i = 0; i < n_cases; i++) {
        CHECK_OK(gale__schedule_choose(&cases[i].c.nest, &caps, &s));
        CHECK_EQ(s.kind, GALE__SCHEDULE_MATRIX);
        CHECK(strstr(gale__schedule_describe(&s, &caps), "mma.sync m16n8k32 int8") != NULL);
    }
    caps.matrix[0] = (gale_matrix_shape){16, 16, 16, GALE_F16, GALE_F32};
    CHECK_OK(gale__schedule_choose(&cases[0].c.nest, &caps, &s));
    CHECK_EQ(s.kind, GALE__SCHEDULE_TILE);
    caps = with_units();
    for (int i = 0; i < cases[0].c.nest.n_code; i++)
        if (cases[0].c.nest.code[i].op == GALE__NEST_REDUCE) cases[0].c.nest.code[i].acc = GALE_I64;
    CHECK_OK(gale__schedule_choose(&cases[0].c.nest, &caps, &s));
    CHECK(s.kind != GALE__SCHEDULE_MATRIX);
}

TEST(close)
{
    for (int i = 0; i < n_cases; i++) nr_finish(&cases[i].c);
    free(cases);
    ir_close_devices();
}

static const test_row rows[] = {
    ROW(texts), ROW(opencl), ROW(vulkan), ROW(cuda), ROW(cuda_one_unit), ROW(choices), ROW(close)};
int main(int argc, char **argv)
{
    make_cases();
    return test_main(rows, sizeof rows / sizeof *rows, argc, argv);
}
