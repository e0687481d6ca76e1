/* Contractions by matrix units: chosen and random ones, built for each device that is here with its own instructions
 * or, where it has none, written for plain threads; run, and compared with their meaning.  The form with CUDA's
 * instructions goes through NVRTC, the one with Vulkan's as far through spirv-val as that knows them. */
#include "gale_built.h"
#include "kernel/ir/ir_util.h"
#include "kernel/print/print.h"
#include "kernel/schedule/schedule_emit.h"
#include "nest_launch.h"

#define CASES 64
typedef struct matrix_case {
    nest_case c;
    gale__schedule wish; /* tile_m 0: as chosen */
    int async;           /* which operands must be copied directly; -1: any */
    bool relay;          /* groups compute one tile after another where the device can and has one unit */
    bool team;           /* the same, and both sets share a tile */
    bool maps;           /* the same, and operands come as maps */
    bool keep;           /* the same, and the columns' operand stays */
    bool sets;           /* sets of subgroups share k where the device has enough units (a card of 9.0) */
    bool split;          /* groups of a cluster share k where the device has them, and enough units */
    bool along; /* f32, both along k: chosen where the device has one unit and multiplies four subgroups at once */
} matrix_case;
static matrix_case *cases;
static int n_cases;

static nest_case *new_case(const char *name, int n_outer, int n_inner, const int64_t *extent)
{
    nr_init(&cases[n_cases].c, name, n_outer, n_inner, extent);
    cases[n_cases].async = -1;
    return &cases[n_cases].c;
}

static int to_f32(nest_case *c, int v)
{
    return c->code[v].type == GALE_F32 ? v : nr_op(c, GALE__CAST, GALE_F32, v, 0, 0);
}

static int sum_of(nest_case *c, int p, int q)
{
    return nr_reduce(c, GALE__SUM, nr_op(c, GALE__MUL, GALE_F32, to_f32(c, p), to_f32(c, q), 0));
}

/* What stands before the product and after the sum. */
typedef enum fusion { PLAIN, BEFORE = 1, AFTER = 2, HALF_RESULT = 4 } fusion;

static int before(nest_case *c, gale_type type, int v)
{
    int x = nr_op(c, GALE__MUL, GALE_F32, to_f32(c, v), nr_const(c, GALE_F32, 0.7), 0);
    return nr_op(c, GALE__CAST, type, nr_op(c, GALE__TANH, GALE_F32, x, 0, 0), 0, 0);
}

static void finish(nest_case *c, int sum, gale_type type, int column_dim, int flags)
{
    if (flags & AFTER) {
        nr_axis bias = nr_plain(column_dim, c->nest.extent[column_dim]);
        sum = nr_op(c, GALE__ADD, GALE_F32, sum, to_f32(c, nr_load(c, nr_access(c, type, &bias, 1, NULL, 1, 0))), 0);
        sum = nr_op(c, GALE__MAX, GALE_F32, sum, nr_const(c, GALE_F32, 0), 0);
    }
    if (flags & HALF_RESULT) sum = nr_op(c, GALE__CAST, type, sum, 0, 0);
    nr_store(c, sum);
}

/* turned: bit 0 the first operand lies as [k][m], bit 1 the second as [n][k]. */
static matrix_case *product(
    const char *name, const int64_t size[4], gale_type type, int turned, int64_t lead, int64_t gap, int flags)
{
    int64_t b = size[0], m = size[1], n = size[2], k = size[3];
    nest_case *c = new_case(name, 3, 1, size);
    nr_axis x[3] = {nr_plain(0, b), nr_plain(1, m), nr_plain(3, k)},
            y[3] = {nr_plain(0, b), nr_plain(3, k), nr_plain(2, n)};
    int order[3] = {0, 2, 1};
    int p = nr_load(c, nr_access(c, type, x, 3, turned & 1 ? order : NULL, lead, gap)),
        q = nr_load(c, nr_access(c, type, y, 3, turned & 2 ? order : NULL, lead, gap));
    if (flags & BEFORE) p = before(c, type, p);
    finish(c, sum_of(c, p, q), type, 2, flags);
    return &cases[n_cases++];
}

/* in[n, c, y, x] * w[o, c, ky, kx], or with channels last; k is (c, ky, kx) or (ky, kx, c). */
static matrix_case *convolution(
    const char *name, int64_t channels, int64_t out, int64_t size, int64_t stride, int64_t dilation, bool last)
{
    int64_t nchw[7] = {2, out, size, size, channels, 3, 3}, nhwc[7] = {2, size, size, out, 3, 3, channels};
    nest_case *c = new_case(name, 4, 3, last ? nhwc : nchw);
    int d_out = last ? 3 : 1, d_y = last ? 1 : 2, d_c = last ? 6 : 4, d_ky = last ? 4 : 5;
    nr_axis x[4] = {nr_plain(0, 2)}, w[4] = {nr_plain(d_out, out)}, channel = nr_plain(d_c, channels);
    for (int i = 0; i < 2; i++) {
        nr_axis a = {
            .c0 = -1, .extent = dilation > 1 ? (size + 1) / dilation : size * stride, .div = dilation, .guard = true};
        a.coef[d_y + i] = stride;
        a.coef[d_ky + i] = 1;
        x[(last ? 1 : 2) + i] = a;
        w[(last ? 1 : 2) + i] = nr_plain(d_ky + i, 3);
    }
    x[last ? 3 : 1] = w[last ? 3 : 1] = channel;
    int p = nr_load(c, nr_access(c, GALE_F16, x, 4, NULL, 0, 0)),
        q = nr_load(c, nr_access(c, GALE_F16, w, 4, NULL, 0, 0));
    finish(c, sum_of(c, p, q), GALE_F16, d_out, AFTER);
    return &cases[n_cases++];
}

/* Any order, batch and extents; a result as f32, to be near. */
static void random_product(int seed)
{
    char name[32];
    nr_state = (uint64_t)seed * 7127 + 5;
    int64_t size[4] = {1 + nr_below(3), 20 + nr_below(60), 52 + nr_below(40), 16 + nr_below(80)};
    if (nr_chance(50))
        for (int i = 1; i < 4; i++) size[i] = (size[i] + 7) / 8 * 8;
    snprintf(name, sizeof name, "random %d", seed);
    int64_t lead = nr_chance(30) ? nr_below(9) : 0, gap = nr_chance(30) ? 8 * nr_below(2) + nr_below(2) : 0;
    int turned = nr_below(4), flags = (nr_chance(30) ? BEFORE : 0) | (nr_chance(40) ? AFTER : 0);
    product(name, size, nr_chance(30) ? GALE_BF16 : GALE_F16, turned, lead, gap, flags);
}

static void wish(matrix_case *c, int m, int n, int k, int micro_m, int micro_n, int stages)
{
    c->wish = (gale__schedule){.tile_m = (uint16_t)m,
        .tile_n = (uint16_t)n,
        .tile_k = (uint16_t)k,
        .rows = 1,
        .micro_m = (uint8_t)micro_m,
        .micro_n = (uint16_t)micro_n,
        .stages = (uint8_t)stages};
}

/* Sets that share k. */
static void wish_sets(matrix_case *c, int m, int k, int sets, int stages)
{
    wish(c, m, 16, k, m, 16, stages);
    c->wish.rows = (uint16_t)sets;
}

/* The device's own units where it has them, else plain threads. */
static gale_device_caps caps_of(const gale_device_caps *caps)
{
    gale_device_caps c = *caps;
    if (!c.n_matrix) c.matrix_emulated = true;
    c.matrix_f32 = c.matrix_quads || c.matrix_emulated;
    return c;
}

/* Whether a device with these capabilities runs a case.  Two software drivers share the cases of a brief run. */
static bool runs(const gale_device_caps *caps, int i)
{
    bool few = test_brief() && caps->software;
    int every = few ? (caps->spirv ? 12 : 24) : test_light() ? 3 : 1, first = few && caps->spirv ? 6 : 0;
    return cases[i].relay || cases[i].team || cases[i].maps || cases[i].keep ? caps->matrix_groups : i % every == first;
}

/* The naive evaluator takes seconds: it is for the cases that a device here runs. */
static void finish_case(int i)
{
    bool run = false;
    for (int target = 0; target < 3 && !run; target++) {
        gale_device *device = ir_device(target);
        run = device && runs(&gale_device_get_info(device)->caps, i);
    }
    if (run) nr_evaluate(&cases[i].c);
    gale__nest_canonicalize(&cases[i].c.nest);
    gale__nest_buffer *b = cases[i].c.buffers;
    for (int k = 1; k < cases[i].c.nest.n_buffers; k++) b[k].settled = !b[k].written; /* as weights are */
}

static void make_cases(void)
{
#define SIZE(...) \
    (const int64_t[4]) { __VA_ARGS__ }
    const char *more = getenv("GALE_TEST_MORE");
    int n = (test_light() ? 1 : 3) + (more ? atoi(more) : 0);
    cases = calloc(CASES, sizeof *cases);
    product("f16, copied", SIZE(1, 64, 64, 96), GALE_F16, 0, 0, 0, PLAIN)->async = 3;
    product("f16, both along k", SIZE(1, 64, 64, 96), GALE_F16, 2, 0, 0, PLAIN)->async = 3;
    product("f16, both along their sides", SIZE(1, 64, 64, 40), GALE_F16, 1, 0, 0, HALF_RESULT)->async = 3;
    product("f16, both turned", SIZE(2, 40, 72, 48), GALE_F16, 3, 8, 0, AFTER)->async = 3;
    product("f16, odd sizes", SIZE(1, 45, 51, 37), GALE_F16, 0, 0, 0, AFTER | HALF_RESULT)->async = 0;
    product("f16, odd start", SIZE(1, 64, 64, 32), GALE_F16, 2, 3, 0, PLAIN)->async = 0;
    product("f16, rows apart", SIZE(1, 64, 64, 32), GALE_F16, 2, 8, 8, PLAIN)->async = 3;
    product("f16, short k", SIZE(3, 33, 34, 17), GALE_F16, 1, 0, 0, PLAIN);
    product("f16, work before", SIZE(1, 48, 64, 64), GALE_F16, 0, 0, 0, BEFORE | AFTER)->async = 2;
    product("bf16", SIZE(1, 72, 40, 64), GALE_BF16, 2, 0, 0, HALF_RESULT)->async = 3;
    product("bf16, odd sizes", SIZE(2, 35, 46, 61), GALE_BF16, 1, 0, 0, BEFORE);
    product("f32, both along k", SIZE(1, 72, 40, 128), GALE_F32, 2, 0, 0, PLAIN)->along = true;
    product("f32, both along their sides", SIZE(2, 64, 64, 40), GALE_F32, 1, 0, 0, AFTER)->async = 0;
    product("f32, odd sizes", SIZE(1, 45, 51, 137), GALE_F32, 0, 0, 0, AFTER)->async = 0;
    product("f32, both along k, longer", SIZE(1, 200, 136, 392), GALE_F32, 2, 0, 0, AFTER)->along = true;
    product("f32, both along k, odd columns", SIZE(2, 200, 141, 320), GALE_F32, 2, 0, 0, PLAIN)->async = 0;
    product("f32, work before", SIZE(1, 130, 72, 192), GALE_F32, 2, 0, 0, BEFORE)->along = true;
    convolution("convolution", 5, 40, 7, 1, 1, false);
    convolution("convolution, strided", 8, 33, 6, 2, 1, false);
    convolution("convolution, channels last", 16, 40, 6, 1, 1, true)->async = 3;
    convolution("convolution, channels last, by fours", 4, 40, 9, 2, 1, true)->async = 3;
    convolution("convolution, channels last, dilated input", 8, 36, 7, 1, 2, true);
    product("f16, both along k, longer", SIZE(1, 200, 136, 200), GALE_F16, 2, 0, 0, AFTER | HALF_RESULT)->async = 3;
    product("f16, both along k, 64 columns", SIZE(1, 300, 64, 128), GALE_F16, 2, 0, 0, PLAIN)->async = 3;
    product("bf16, both along k, batches", SIZE(3, 130, 120, 328), GALE_BF16, 2, 0, 0, PLAIN)->async = 3;
    convolution("convolution, channels last, longer", 24, 72, 9, 1, 1, true)->async = 3;
    product("f16, tiles in turn", SIZE(5, 100, 104, 136), GALE_F16, 2, 0, 0, AFTER | HALF_RESULT)->relay = true;
    product("bf16, tiles in turn, longer", SIZE(4, 70, 100, 328), GALE_BF16, 2, 0, 0, PLAIN)->relay = true;
    product("bf16, both sets on a tile", SIZE(2, 130, 504, 1096), GALE_BF16, 2, 0, 0, AFTER)->team = true;
    product("f16, maps, tiles in turn", SIZE(1, 500, 256, 136), GALE_F16, 2, 0, 0, AFTER | HALF_RESULT)->maps = true;
    product("bf16, maps, odd rows of tiles", SIZE(1, 1100, 128, 200), GALE_BF16, 2, 8, 8, PLAIN)->maps = true;
    product("f16, maps, both sets on a tile", SIZE(1, 250, 480, 1096), GALE_F16, 2, 0, 0, AFTER)->maps = true;
    product("f16, maps, columns kept", SIZE(1, 840, 96, 200), GALE_F16, 2, 0, 0, AFTER | HALF_RESULT)->keep = true;
    product("bf16, maps, narrow columns kept", SIZE(1, 650, 64, 712), GALE_BF16, 2, 8, 8, PLAIN)->keep = true;
    convolution("convolution, maps", 64, 96, 19, 1, 1, true)->maps = true;
    convolution("convolution, maps, strided", 128, 64, 13, 2, 1, true)->maps = true;
    wish(product("tiles 64 x 64", SIZE(1, 100, 136, 72), GALE_F16, 0, 0, 0, AFTER), 64, 64, 32, 32, 32, 2);
    wish(product("tiles 64 x 64, three stages", SIZE(1, 64, 72, 200), GALE_F16, 2, 0, 0, PLAIN), 64, 64, 16, 32, 32, 3);
    wish(product("tiles 64 x 32, four stages", SIZE(1, 80, 40, 104), GALE_BF16, 1, 0, 0, PLAIN), 64, 32, 32, 32, 16, 4);
    wish(product("tiles 32 x 64, by registers", SIZE(1, 33, 65, 67), GALE_F16, 3, 1, 0, PLAIN), 32, 64, 32, 16, 32, 3);
    wish_sets(product("four sets share k", SIZE(1, 45, 72, 328), GALE_F16, 0, 0, 0, AFTER), 32, 64, 4, 3);
    wish_sets(product("two sets share k, odd columns", SIZE(2, 20, 57, 136), GALE_BF16, 2, 0, 0, PLAIN), 16, 128, 2, 3);
    product("f16, groups share k", SIZE(1, 50, 56, 1000), GALE_F16, 2, 0, 0, AFTER | HALF_RESULT)->split = true;
    product("bf16, groups share k, batches", SIZE(2, 70, 100, 1288), GALE_BF16, 2, 8, 8, PLAIN)->split = true;
    product("few rows, long sums", SIZE(1, 20, 72, 776), GALE_F16, 0, 0, 0, AFTER | HALF_RESULT)->sets = true;
    for (int i = 0; i < n && n_cases < CASES; i++) random_product(i);
    for (int i = 0; i < n_cases; i++) finish_case(i);
}

/* --- running --- */

static bool build_case(int i, const gale_device_caps *caps, gale__schedule *s, gale__ir *ir)
{
    matrix_case *c = &cases[i];
    char name[32];
    if (c->c.buffers[0].type == GALE_F32 && !caps->matrix_f32) return false;
    if (caps->subgroup > 32 && (c->sets || c->wish.rows > 1)) return false; /* too many threads for 16 columns */
    if (!CHECK_OK(gale__schedule_choose(&c->c.nest, caps, s))) return false;
    bool spared = c->c.buffers[0].type == GALE_F32 && caps->matrix_groups && s->kind == GALE__SCHEDULE_TILE;
    if (spared && !(c->along && caps->compute_units == 1)) return false; /* TILE takes less time */
    if (!CHECK_EQ(s->kind, GALE__SCHEDULE_MATRIX)) printf("  in %s\n", c->c.name);
    if (s->kind != GALE__SCHEDULE_MATRIX) return false;
    if (c->async >= 0 && !CHECK_EQ(s->async & 3, s->swap ? (c->async & 1) << 1 | c->async >> 1 : c->async))
        printf("  in %s\n", c->c.name);
    if (c->wish.tile_m) {
        s->tile_m = c->wish.tile_m, s->tile_n = c->wish.tile_n, s->tile_k = c->wish.tile_k;
        s->micro_m = c->wish.micro_m, s->micro_n = c->wish.micro_n, s->stages = c->wish.stages;
        s->slice = i % 2 ? s->micro_m : 16, s->groups = s->relay = s->team = s->maps = s->keep = s->split = 0;
        if (s->direct) s->vector = 4;
        s->direct = 0;
        if (!gale__schedule_matrix_columns(s)) s->steps = 1;
        while (s->steps > 1 && s->slice * s->micro_n / s->vector / s->lanes % s->steps) s->steps /= 2;
        s->exact = s->unroll = 0;
        s->rows = c->wish.rows;
        if (s->rows > 1) {
            s->vector = s->vector > 1 && s->tile_m > 16 ? 2 : 1;
            s->steps = (uint8_t)(s->tile_m * s->tile_n / s->vector / (s->rows * s->lanes));
            s->unroll = c->c.nest.extent[c->c.nest.n_outer] <= (s->stages - 1) * s->tile_k;
        }
    }
    if (c->sets && caps->arch == 90 && caps->n_matrix && caps->compute_units > 1)
        CHECK(s->rows == 8 && (!caps->begins_early || s->settled));
    if (c->relay && caps->matrix_groups && caps->compute_units == 1) CHECK_EQ(s->relay, 1);
    if (c->team && caps->matrix_groups && caps->compute_units == 1) CHECK_EQ(s->team, 1);
    if ((c->maps || c->keep) && caps->matrix_maps && caps->compute_units == 1) CHECK(s->maps);
    if (c->keep && caps->matrix_maps && caps->compute_units == 1) CHECK(s->keep > 0);
    if (c->split && caps->matrix_groups && caps->compute_units > 100) CHECK(s->split > 1);
    snprintf(name, sizeof name, "k%d", i);
    if (!CHECK_OK(gale__schedule_build(&c->c.nest, s, name, ir))) return false;
    if (CHECK_OK(gale__ir_validate(ir))) return true;
    printf("  in %s\n", c->c.name);
    return false;
}

static double distance(gale_type type, const void *want, const void *have, int64_t n)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        double w = nr_read(type, want, i).f, h = nr_read(type, have, i).f;
        off += (w - h) * (w - h), all += w * w;
        if (isnan(h)) return INFINITY;
    }
    return sqrt(off / (all > 0 ? all : 1));
}

/* f32 results differ by the order of the sum alone; narrow ones are rounded besides, and so are operands that are
 * computed. */
static double bound(gale_type type) { return type == GALE_F32 ? 1e-5 : type == GALE_F16 ? 1e-3 : 8e-3; }

static void run_case(gale_device *device, gale_module *module, int i, const gale__schedule *s, gale__ir *ir)
{
    const nest_case *c = &cases[i].c;
    void *results[NR_BUFFERS];
    bool ran = nr_launch(device, module, c, s, ir, results);
    for (int b = 0; ran && b < c->nest.n_buffers; b++) {
        if (!results[b]) continue;
        gale_type type = c->buffers[b].type;
        double d = distance(type, c->expected[b], results[b], c->buffers[b].elements);
        /* tanh on devices may round to a neighbour in the narrow type */
        double most = cases[i].c.nest.n_code > 12 && type == GALE_F32 ? 2e-4 : bound(type);
        if (!CHECK(d <= most))
            printf(
                "  %s: relative L2 %.3g; tile %d x %d x %d, of a subgroup %d x %d, stages %d, async %d, wide %d %d\n",
                c->name, d, s->tile_m, s->tile_n, s->tile_k, s->micro_m, s->micro_n, s->stages, s->async, s->wide[0],
                s->wide[1]);
    }
    for (int b = 0; b < NR_BUFFERS; b++) free(results[b]);
}

/* Kernels of a device: one text for compilers of C, since each text costs them more than a kernel; a module each for
 * SPIR-V. */
typedef struct built {
    gale__schedule s;
    gale__ir ir;
    bool made;
} built;

static gale_module *build_text(gale_device *device, const built *list, int dialect, const gale_device_caps *caps)
{
    const gale__ir *irs[CASES];
    gale__str text = {0};
    gale_module *module = NULL;
    gale__source source = {
        .code = GALE__CODE_TEXT, .options = dialect == GALE__DIALECT_CUDA ? "--fmad=false" : "", .ours = true};
    int n = 0;
    for (int i = 0; i < n_cases; i++)
        if (list[i].made) irs[n++] = &list[i].ir;
    if (CHECK_OK(gale__ir_print_c(irs, n, (gale__dialect)dialect, caps, &text))) {
        source.data = text.text;
        source.size = text.length;
        CHECK_OK(gale__module_build(device, &source, &module));
    }
    gale__str_finish(&text);
    return module;
}

/* units: as many as the schedules shall believe the device has; 0: what it has. */
static void run_target(int target, uint32_t units)
{
    gale_device *device = ir_device(target);
    if (!device) return;
    gale_device_caps caps = caps_of(&gale_device_get_info(device)->caps);
    if (units) caps.compute_units = units;
    int dialect = ir_targets[target].dialect;
    built *list = calloc(CASES, sizeof *list);
    printf("%s: %d contractions, %s\n", ir_targets[target].provider, n_cases,
        caps.n_matrix ? "by matrix units" : "by plain threads");
    for (int i = 0; i < n_cases; i++) list[i].made = runs(&caps, i) && build_case(i, &caps, &list[i].s, &list[i].ir);
    gale_module *all = dialect >= 0 ? build_text(device, list, dialect, &caps) : NULL;
    for (int i = 0; i < n_cases; i++) {
        gale_module *module = all;
        gale_status status = GALE_OK;
        if (!list[i].made) continue;
        if (dialect < 0) status = ir_build_for(device, &caps, &list[i].ir, dialect, &module);
        if (status == GALE_UNSUPPORTED) printf("SKIP %s: %s\n", cases[i].c.name, gale_error());
        else if (CHECK_OK(status) && module) run_case(device, module, i, &list[i].s, &list[i].ir);
        if (dialect < 0) gale_module_destroy(&module);
        gale__ir_finish(&list[i].ir);
    }
    gale_module_destroy(&all);
    free(list);
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
    caps.matrix[0] = (gale_matrix_shape){16, 16, 16, GALE_F16, GALE_F32};
    caps.matrix[1] = (gale_matrix_shape){16, 16, 16, GALE_BF16, GALE_F32};
    caps.n_matrix = 2, caps.matrix_quads = caps.matrix_f32 = true;
    return caps;
}

static void compile(const char *text, const char *target)
{
#ifdef GALE_HAVE_CUDA
    gale__bytes code = {0};
    if (!CHECK_OK(gale__nvrtc_compile_only(text, target, "--fmad=false", &code)))
        printf("%s: %s\n", target, gale_error());
    gale__bytes_finish(&code);
#else
    (void)text, (void)target;
#endif
}

/* OpenCL C with inline PTX, by clang for NVIDIA's target: as near to NVIDIA's compiler as a machine without a card
 * gets. */
static void compile_opencl(const char *text, const char *target)
{
    const char *path = ir_save("ptx.cl", text, strlen(text));
    char command[500];
    if (!CHECK(path != NULL)) return;
    snprintf(command, sizeof command,
        "clang -x cl -Dasm=__asm__ -cl-std=CL1.2 -target nvptx64-nvidia-cuda -Xclang -finclude-default-header -Xclang "
        "-target-cpu -Xclang %s -Xclang -target-feature -Xclang +ptx70 -w -O1 -S -o /dev/null %s",
        target, path);
    fflush(stdout);
    if (CHECK(system(command) == 0)) unlink(path);
    else printf("  kept as %s\n", path);
}

/* What hiprtc declares by itself, as far as these kernels use it. */
static const char hip_prelude[] =
    "#define __global__ __attribute__((global))\n#define __device__ __attribute__((device))\n"
    "#define __shared__ __attribute__((shared))\n#define __forceinline__ inline __attribute__((always_inline))\n"
    "#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))\n"
    "#define __align__(n) __attribute__((aligned(n)))\n"
    "struct place{unsigned x,y,z;};extern const __device__ place threadIdx,blockIdx,gridDim;\n"
    "__device__ void __syncthreads();__device__ unsigned __umulhi(unsigned,unsigned);\n"
    "__device__ unsigned min(unsigned,unsigned);__device__ unsigned max(unsigned,unsigned);\n"
    "__device__ float fmaf(float,float,float);__device__ float rintf(float);__device__ float fabsf(float);\n"
    "__device__ float __uint_as_float(unsigned);__device__ unsigned __float_as_uint(float);\n"
    "__device__ float fminf(float,float);__device__ float fmaxf(float,float);__device__ float sqrtf(float);\n"
    "__device__ double __longlong_as_double(long);__device__ long __double_as_longlong(double);\n"
    "__device__ float __int_as_float(int);__device__ int __float_as_int(float);\n"
    "typedef float float2 __attribute__((ext_vector_type(2)));typedef float float4 "
    "__attribute__((ext_vector_type(4)));\n"
    "typedef unsigned uint2 __attribute__((ext_vector_type(2)));typedef unsigned uint4 "
    "__attribute__((ext_vector_type(4)));\n"
    "typedef unsigned short ushort2 __attribute__((ext_vector_type(2)));\n"
    "typedef unsigned short ushort4 __attribute__((ext_vector_type(4)));\n"
    "#define MAKE(t,e) static __device__ inline t##2 make_##t##2(e a,e b){return t##2{a,b};}"
    "static __device__ inline t##4 make_##t##4(e a,e b,e c,e d){return t##4{a,b,c,d};}\n"
    "MAKE(float,float) MAKE(uint,unsigned) MAKE(ushort,unsigned short)\n";

/* HIP, by the first clang here that knows the card: as near to hiprtc as a machine without a card gets. */
static bool compile_hip(const char *text, const char *target)
{
    static const char *const compilers[] = {"clang", "clang-19", "clang-17", "clang-16"};
    gale__str all = {0};
    char command[500];
    bool found = false;
    gale__str_addf(&all, "%s%s", hip_prelude, text);
    const char *path = ir_save("kernels.hip", all.text, all.length);
    for (size_t i = 0; path && !found && i < sizeof compilers / sizeof *compilers; i++) {
        snprintf(command, sizeof command,
            "%s -x c -target amdgcn-amd-amdhsa -mcpu=%s -nogpulib -S -o /dev/null /dev/null 2>/dev/null", compilers[i],
            target);
        if (system(command)) continue;
        found = true;
        snprintf(command, sizeof command,
            "%s -x hip --cuda-device-only --offload-arch=%s -nogpuinc -nogpulib -w -O1 -S -o /dev/null %s",
            compilers[i], target, path);
        fflush(stdout);
        if (!CHECK(system(command) == 0)) printf("  kept as %s\n", path), path = NULL;
    }
    if (path) unlink(path);
    gale__str_finish(&all);
    return found;
}

/* The compilers of a brief run share the cases. */
static void keep_third(
    const gale__ir **list, int n, gale__dialect dialect, const gale_device_caps *caps, gale__str *text)
{
    static int turn;
    int kept = 0;
    for (int i = turn++ % 3; i < n; i += 3) list[kept++] = list[i];
    gale__str_finish(text);
    CHECK_OK(gale__ir_print_c(list, kept, dialect, caps, text));
}

#define MANY_UNITS 132

/* All cases as these capabilities have them, in one text; with many units those alone that use them. */
static void compile_cases(const gale_device_caps *caps, const char *const *wanted, const char *const *targets)
{
    gale__dialect dialect;
    if (!CHECK_OK(gale__dialect_find(caps->dialect, &dialect))) return;
    gale__str text = {0};
    gale__ir irs[CASES];
    const gale__ir *list[CASES];
    int n = 0;
    for (int i = 0; i < n_cases; i++) {
        gale__schedule s;
        if (caps->compute_units == MANY_UNITS && !cases[i].split) continue;
        if (build_case(i, caps, &s, &irs[n])) list[n] = &irs[n], n++;
    }
    if (CHECK_OK(gale__ir_print_c(list, n, dialect, caps, &text))) {
        for (; *wanted; wanted++)
            if (!CHECK(strstr(text.text, *wanted))) printf("  no %s\n", *wanted);
        if (test_brief()) keep_third(list, n, dialect, caps, &text);
        for (; *targets; targets++) {
            if (!strcmp(caps->dialect, "cuda")) compile(text.text, *targets);
            else if (strcmp(caps->dialect, "hip")) compile_opencl(text.text, *targets);
            else if (!compile_hip(text.text, *targets)) printf("SKIP compiling for %s: no clang knows it\n", *targets);
        }
    }
    if (getenv("GALE_TEST_KEEP")) printf("%s", text.text);
    for (int i = 0; i < n; i++) gale__ir_finish(&irs[i]);
    gale__str_finish(&text);
}

/* With mma.sync, ldmatrix and cp.async, for the oldest cards that have them and for Hopper; with wgmma for Hopper,
 * where the compiler is not older than it. */
TEST(nvrtc)
{
    gale_device_caps caps = with_units();
    int archs[64], count = 64;
#ifdef GALE_HAVE_CUDA
    if (test_sanitized()) SKIP("what the sanitizer would look at is NVRTC");
    if (gale__nvrtc_archs(archs, &count) != GALE_OK) SKIP("%s", gale_error());
#else
    (void)archs, (void)count;
    SKIP("built without CUDA");
#endif
    compile_cases(&caps, (const char *const[]){"mma.sync", "sums_add_bf16(&v", "copy_16(&v", NULL},
        (const char *const[]){"sm_80", "sm_90", NULL});
    caps.arch = 90, caps.matrix_groups = caps.matrix_quads = true, caps.shared_most_bytes = 227 << 10;
    caps.begins_early = caps.matrix_maps = true;
    bool newer = archs[count - 1] >= 100;
    compile_cases(&caps,
        (const char *const[]){"wgmma.mma_async", "m64n64k16.f32.f16", "m64n96k16.f32.f16", "m64n128k16.f32.bf16",
            "registers_inc(216);", "gate_copies(&v", "map_copy_2(&v", "map_copy_4(&v", "map_copy_5(&v",
            "registers_inc(232);", NULL},
        (const char *const[]){newer ? "sm_90a" : NULL, NULL});
    caps.compute_units = MANY_UNITS;
    compile_cases(&caps, (const char *const[]){"__cluster_dims__(", "&of_cluster(v", "cluster_barrier();", NULL},
        (const char *const[]){newer ? "sm_90a" : NULL, NULL});
}

TEST(opencl_with_ptx)
{
    gale_device_caps caps = with_units();
    caps.dialect = "opencl+ptx", caps.shared_most_bytes = caps.shared_bytes = 48 << 10;
    if (test_sanitized()) SKIP("what the sanitizer would look at is clang");
    bool clang = system("clang --version >/dev/null 2>&1") == 0;
    compile_cases(&caps, (const char *const[]){"mma.sync", "sums_add_bf16(&v", "copy_16(&v", "__local", NULL},
        (const char *const[]){clang ? "sm_80" : NULL, NULL});
    if (!clang) printf("SKIP compiling OpenCL C with PTX: clang is not installed\n");
}

/* MFMA for 64 threads, WMMA for 32; gfx90a has the same instructions as gfx942, and older compilers know it. */
TEST(hip)
{
    gale_device_caps caps = with_units();
    caps.dialect = "hip", caps.shared_most_bytes = 0, caps.shared_bytes = 64 << 10;
    caps.matrix_quads = caps.matrix_f32 = false;
    if (test_sanitized()) SKIP("what the sanitizer would look at is clang");
    caps.arch = 94, caps.subgroup = 64;
    compile_cases(&caps, (const char *const[]){"mfma_f32_16x16x16f16", "sums_add_bf16(&v", "__shared__", NULL},
        (const char *const[]){"gfx90a", NULL});
    caps.arch = 110, caps.subgroup = 32;
    compile_cases(&caps, (const char *const[]){"wmma_f32_16x16x16_f16_w32", "sums_add_f16(&v", NULL},
        (const char *const[]){"gfx1100", NULL});
}

static bool knows_matrices(void)
{
    /* An empty module that declares the extension and its capability. */
    static const uint32_t words[] = {0x07230203, 0x10500, 0, 1, 0, 2 << 16 | 17, 1, 2 << 16 | 17, 6022, 2 << 16 | 17,
        5345, 8 << 16 | 10, 0x5f565053, 0x5f52484b, 0x706f6f63, 0x74617265, 0x5f657669, 0x7274616d, 0x00007869,
        3 << 16 | 14, 0, 3};
    const char *path = ir_save("probe.spv", words, sizeof words);
    char command[400];
    snprintf(command, sizeof command, "spirv-val --target-env vulkan1.2 %s >/dev/null 2>&1", path ? path : "");
    bool knows = path && system(command) == 0;
    if (path) unlink(path);
    return knows;
}

/* Every instruction of a module has a length that leads to the next, and cooperative matrices are among them. */
static void check_words(const gale__ir_words *w)
{
    int loads = 0, stores = 0, products = 0;
    size_t at = 5;
    while (at < w->count && w->words[at] >> 16) {
        uint32_t op = w->words[at] & 0xffff;
        loads += op == 4457, stores += op == 4458, products += op == 4459;
        at += w->words[at] >> 16;
    }
    CHECK_EQ(at, w->count);
    CHECK(loads && stores && products);
}

TEST(spirv)
{
    gale_device_caps caps = with_units();
    bool knows = knows_matrices();
    caps.arch = 0, caps.shared_most_bytes = 0;
    for (int i = 0; i < n_cases; i++) {
        gale__schedule s;
        gale__ir ir;
        gale__ir_words words = {0};
        if (!build_case(i, &caps, &s, &ir)) continue;
        gale_status status = gale__ir_print_spirv(&ir, &caps, &words);
        if (status == GALE_OK) check_words(&words);
        if (status == GALE_OK && knows) ir_spirv_val(&words, cases[i].c.name);
        if (status != GALE_UNSUPPORTED) CHECK_OK(status);
        gale__ir_words_finish(&words);
        gale__ir_finish(&ir);
    }
    if (!knows) SKIP("this spirv-val does not know cooperative matrices: only the modules' form was checked");
}

/* --- choosing --- */

TEST(choices)
{
    gale_device_caps caps = with_units(), none = ir_full_caps;
    gale__schedule s;
    gale__str keys[2] = {{0}};
    CHECK_OK(gale__schedule_choose(&cases[0].c.nest, &none, &s));
    CHECK_EQ(s.kind, GALE__SCHEDULE_TILE); /* no units */
    caps.n_matrix = 1;
    for (int i = 0; i < n_cases; i++) {
        CHECK_OK(gale__schedule_choose(&cases[i].c.nest, &caps, &s));
        CHECK_EQ(s.kind, strncmp(cases[i].c.name, "bf16", 4) && cases[i].c.buffers[0].type == GALE_F16
                             ? GALE__SCHEDULE_MATRIX
                             : GALE__SCHEDULE_TILE);
    }
    /* Two shapes of a class have one key, and so one kernel. */
    caps = with_units();
    nest_case *a = &cases[0].c;
    gale__nest twin = a->nest;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(gale__schedule_choose(i ? &twin : &a->nest, &caps, &s));
        CHECK_OK(gale__schedule_params(i ? &twin : &a->nest, &s, &keys[i], NULL, NULL));
    }
    CHECK(keys[0].length == keys[1].length && !memcmp(keys[0].text, keys[1].text, keys[0].length));
    for (int i = 0; i < 2; i++) gale__str_finish(&keys[i]);
}

TEST(close)
{
    for (int i = 0; i < n_cases; i++) nr_finish(&cases[i].c);
    free(cases);
    ir_close_devices();
}

static const test_row rows[] = {ROW(choices), ROW(nvrtc), ROW(opencl_with_ptx), ROW(hip), ROW(spirv), ROW(opencl),
    ROW(vulkan), ROW(cuda), ROW(cuda_one_unit), ROW(close)};
int main(int argc, char **argv)
{
    make_cases();
    return test_main(rows, sizeof rows / sizeof *rows, argc, argv);
}
