/* How fast the kernels of the schedules are, against a plain copy of the same device in the same run.
 *
 *     build/bench/bench_schedule cuda [WORD] [all]
 *
 * prints a line per nest whose name contains WORD; `all` tries other sizes of groups and steps too, for tuning. */
#include "../tests/ir_run.h"
#include "../tests/nest_random.h"
#include "kernel/schedule/schedule.h"

static int target;
static gale_device *device;
static gale_stream *stream;
static gale_event *from, *to;
static double copy_gbps;
static const char *word = "";
static bool all;

static double elapsed(int rounds)
{
    double us = 0;
    CHECK_OK(gale_event_record(to, stream));
    CHECK_OK(gale_event_wait(to));
    CHECK_OK(gale_event_elapsed(from, to, &us));
    return us / rounds;
}

static void measure_copy(void)
{
    gale_buffer *a = NULL, *b = NULL;
    size_t size = (size_t)256 << 20;
    CHECK_OK(gale_buffer_create(device, size, &a));
    CHECK_OK(gale_buffer_create(device, size, &b));
    for (int r = 0; r < 3; r++) {
        gale_event_record(from, stream);
        for (int i = 0; i < 20; i++) gale_copy(stream, b, 0, a, 0, size);
        double gbps = 2.0 * (double)size / elapsed(20) / 1e3;
        if (gbps > copy_gbps) copy_gbps = gbps;
    }
    printf("copy: %.0f GB/s\n", copy_gbps);
    gale_buffer_destroy(&a);
    gale_buffer_destroy(&b);
}

/* Ordinary numbers: zeros and the like take paths of their own through division and roots. */
static void fill_random(gale_buffer *buffer, gale_type type, size_t size)
{
    static char block[1 << 20];
    size_t step = gale_type_size(type);
    for (size_t i = 0; i < sizeof block; i += step) {
        if (gale__type_is_float(type)) gale__store_f64(type, block + i, nr_unit() * 2 - 1);
        else gale__store_i64(type, block + i, nr_below(100));
    }
    for (size_t at = 0; at < size; at += sizeof block)
        CHECK_OK(gale_upload(stream, buffer, at, block, size - at < sizeof block ? size - at : sizeof block));
}

static double run_kernel(const nest_case *c, const gale__schedule *s, gale_kernel *kernel, const gale__ir *ir)
{
    gale_buffer *buffers[NR_BUFFERS] = {0};
    gale__ref refs[NR_BUFFERS];
    uint32_t words[GALE__SCHEDULE_WORDS];
    int n_words;
    double best = 1e30;
    CHECK_OK(gale__schedule_params(&c->nest, s, NULL, words, &n_words));
    for (int b = 0; b < c->nest.n_buffers; b++) {
        size_t size = (size_t)c->buffers[b].elements * gale_type_size(c->buffers[b].type);
        CHECK_OK(gale_buffer_create(device, size, &buffers[b]));
        fill_random(buffers[b], c->buffers[b].type, size);
        refs[b] = gale__buffer_ref(buffers[b], 0);
    }
    gale__matrix_map maps[GALE__LAUNCH_MAPS];
    gale__launch launch = {.n_refs = ir->n_pointers, .n_words = n_words, .refs = refs, .words = words};
    launch.n_maps = gale__schedule_maps(&c->nest, s, maps);
    launch.maps = maps;
    gale__schedule_grid(&c->nest, s, launch.groups);
    memcpy(launch.group, ir->group, sizeof launch.group);
    CHECK_OK(gale__launch_run(stream, kernel, &launch));
    for (int r = 0; r < 4; r++) {
        gale_event_record(from, stream);
        for (int i = 0; i < 10; i++) gale__launch_run(stream, kernel, &launch);
        double us = elapsed(10);
        if (us < best) best = us;
    }
    for (int b = 0; b < c->nest.n_buffers; b++) gale_buffer_destroy(&buffers[b]);
    return best;
}

static void bench_schedule(const nest_case *c, const gale__schedule *s)
{
    gale__ir ir;
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    double bytes, operations;
    if (!CHECK_OK(gale__schedule_build(&c->nest, s, "k", &ir))) return;
    if (CHECK_OK(ir_build(device, &ir, ir_targets[target].dialect, &module)) &&
        CHECK_OK(gale__kernel_create(module, ir.name, ir.group, (uint32_t)(8 * ir.n_pointers + 4 * ir.n_words),
            gale__ir_launch_bytes(&ir), &kernel))) {
        double us = run_kernel(c, s, kernel, &ir);
        gale__nest_cost(&c->nest, &bytes, &operations);
        printf("%-26s %-9s v%d s%-2d t%-4d r%-3d %s | %9.1f us %6.0f GB/s %4.0f %% of copy %7.0f GFLOP/s\n", c->name,
            gale__schedule_name(s), s->vector, s->steps, s->threads, s->rows,
            s->kind == GALE__SCHEDULE_TILE ? "tile"
            : s->resident                  ? "resident"
                                           : "streaming",
            us, bytes / us / 1e3, bytes / us / 1e3 / copy_gbps * 100, operations / us / 1e3);
        fflush(stdout);
    }
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    gale__ir_finish(&ir);
}

/* The neighbours of a choice: more or fewer threads, steps, rows. */
static void bench_variants(const nest_case *c, const gale__schedule *s)
{
    gale__schedule v = *s;
    int64_t inner = 1;
    for (int d = c->nest.n_outer; d < c->nest.n_outer + c->nest.n_inner; d++) inner *= c->nest.extent[d];
    if (s->kind == GALE__SCHEDULE_MAP)
        for (int steps = 1; steps <= 4; steps *= 2)
            for (int rows = 128; rows <= 512; rows *= 2) {
                v.steps = (uint8_t)steps;
                v.rows = (uint16_t)rows;
                bench_schedule(c, &v);
            }
    if (s->kind == GALE__SCHEDULE_ROW && s->resident)
        for (int threads = s->threads > 2 ? s->threads / 4 : 1; threads <= s->threads * 2 && threads <= 1024;
             threads *= 2)
            for (int group = 64; group <= 256; group *= 2) {
                int64_t steps = (inner / s->vector + threads - 1) / threads;
                if (steps < 1 || steps * s->vector > 32 || (threads >= group * 2 && group > 64)) continue;
                v.threads = (uint16_t)threads;
                v.steps = (uint8_t)steps;
                v.rows = (uint16_t)(threads < group ? group / threads : 1);
                v.exact = inner / s->vector % (steps * threads) == 0;
                bench_schedule(c, &v);
            }
    if ((s->kind == GALE__SCHEDULE_COLUMN || s->kind == GALE__SCHEDULE_ROW) && !s->resident)
        for (int steps = 1; steps <= 8; steps *= 2) {
            v.steps = (uint8_t)steps;
            v.exact = inner / (s->kind == GALE__SCHEDULE_ROW ? s->vector : 1) % (steps * v.threads) == 0;
            bench_schedule(c, &v);
            if (s->kind == GALE__SCHEDULE_ROW) {
                v.threads /= 2;
                bench_schedule(c, &v);
                v.threads *= 2;
            }
        }
}

static void bench_case(nest_case *c)
{
    gale__schedule s;
    gale__nest_canonicalize(&c->nest);
    if (strstr(c->name, word) && CHECK_OK(gale__schedule_choose(&c->nest, &gale_device_get_info(device)->caps, &s))) {
        bench_schedule(c, &s);
        if (all) bench_variants(c, &s);
    }
    nr_finish(c);
}

static void maps(void)
{
    nest_case c;
    int64_t n = 64 << 20;
    nr_axis line = nr_plain(0, n);
    nr_init(&c, "max(a*x+b, 0)", 1, 0, &n);
    int x = nr_load(&c, nr_access(&c, GALE_F32, &line, 1, NULL, 0, 0));
    x = nr_op(&c, GALE__ADD, GALE_F32, nr_op(&c, GALE__MUL, GALE_F32, x, nr_const(&c, GALE_F32, 3), 0),
        nr_const(&c, GALE_F32, 0.1), 0);
    nr_store(&c, nr_op(&c, GALE__MAX, GALE_F32, x, nr_const(&c, GALE_F32, 0), 0));
    bench_case(&c);
    nr_init(&c, "tanh(x + y)", 1, 0, &n);
    x = nr_load(&c, nr_access(&c, GALE_F32, &line, 1, NULL, 0, 0));
    x = nr_op(&c, GALE__ADD, GALE_F32, x, nr_load(&c, nr_access(&c, GALE_F32, &line, 1, NULL, 0, 0)), 0);
    nr_store(&c, nr_op(&c, GALE__TANH, GALE_F32, x, 0, 0));
    bench_case(&c);
    nr_init(&c, "u8 to u8", 1, 0, &n);
    x = nr_load(&c, nr_access(&c, GALE_U8, &line, 1, NULL, 0, 0));
    nr_store(&c, nr_op(&c, GALE__ADD, GALE_U8, x, x, 0));
    bench_case(&c);
    int64_t square[2] = {8192, 8192};
    nr_axis axes[2] = {nr_plain(0, 8192), nr_plain(1, 8192)};
    int turned[2] = {1, 0};
    nr_init(&c, "x + y[row] + z[column]", 2, 0, square);
    x = nr_load(&c, nr_access(&c, GALE_F32, axes, 2, NULL, 0, 0));
    x = nr_op(&c, GALE__ADD, GALE_F32, x, nr_load(&c, nr_access(&c, GALE_F32, axes, 1, NULL, 0, 0)), 0);
    nr_store(&c, nr_op(&c, GALE__ADD, GALE_F32, x, nr_load(&c, nr_access(&c, GALE_F32, axes + 1, 1, NULL, 0, 0)), 0));
    bench_case(&c);
    nr_init(&c, "transpose", 2, 0, square);
    nr_store(&c, nr_op(&c, GALE__NEG, GALE_F32, nr_load(&c, nr_access(&c, GALE_F32, axes, 2, turned, 0, 0)), 0, 0));
    bench_case(&c);
    nr_init(&c, "transpose f16", 2, 0, square);
    nr_store(&c, nr_op(&c, GALE__NEG, GALE_F16, nr_load(&c, nr_access(&c, GALE_F16, axes, 2, turned, 0, 0)), 0, 0));
    bench_case(&c);
}

static void softmax(int64_t n)
{
    nest_case c;
    char name[40];
    int64_t extent[2] = {(64 << 20) / n, n};
    nr_axis axes[2] = {nr_plain(0, extent[0]), nr_plain(1, n)};
    snprintf(name, sizeof name, "softmax %d", (int)n);
    nr_init(&c, name, 1, 1, extent);
    int x = nr_load(&c, nr_access(&c, GALE_F32, axes, 2, NULL, 0, 0));
    int y = nr_op(&c, GALE__EXP, GALE_F32, nr_op(&c, GALE__SUB, GALE_F32, x, nr_reduce(&c, GALE__RMAX, x), 0), 0, 0);
    nr_store(&c, nr_op(&c, GALE__DIV, GALE_F32, y, nr_reduce(&c, GALE__SUM, y), 0));
    bench_case(&c);
}

static void layer_norm(int64_t n)
{
    nest_case c;
    char name[40];
    int64_t extent[2] = {(64 << 20) / n, n};
    nr_axis axes[2] = {nr_plain(0, extent[0]), nr_plain(1, n)};
    snprintf(name, sizeof name, "layer norm %d", (int)n);
    nr_init(&c, name, 1, 1, extent);
    int x = nr_load(&c, nr_access(&c, GALE_F32, axes, 2, NULL, 0, 0));
    int scale = nr_load(&c, nr_access(&c, GALE_F32, axes + 1, 1, NULL, 0, 0)),
        shift = nr_load(&c, nr_access(&c, GALE_F32, axes + 1, 1, NULL, 0, 0));
    int share = nr_const(&c, GALE_F32, 1.0 / (double)n);
    int d = nr_op(&c, GALE__SUB, GALE_F32, x, nr_op(&c, GALE__MUL, GALE_F32, nr_reduce(&c, GALE__SUM, x), share, 0), 0);
    int var =
        nr_op(&c, GALE__MUL, GALE_F32, nr_reduce(&c, GALE__SUM, nr_op(&c, GALE__MUL, GALE_F32, d, d, 0)), share, 0);
    int root =
        nr_op(&c, GALE__SQRT, GALE_F32, nr_op(&c, GALE__ADD, GALE_F32, var, nr_const(&c, GALE_F32, 1e-5), 0), 0, 0);
    int y = nr_op(&c, GALE__MUL, GALE_F32, nr_op(&c, GALE__DIV, GALE_F32, d, root, 0), scale, 0);
    nr_store(&c, nr_op(&c, GALE__ADD, GALE_F32, y, shift, 0));
    bench_case(&c);
}

static void sums(const char *name, int64_t rows, int64_t n, bool columns)
{
    nest_case c;
    nr_axis axes[2] = {nr_plain(0, rows), nr_plain(1, n)};
    int turned[2] = {1, 0};
    nr_init(&c, name, 1, 1, (int64_t[]){rows, n});
    nr_store(
        &c, nr_reduce(&c, GALE__SUM, nr_load(&c, nr_access(&c, GALE_F32, axes, 2, columns ? turned : NULL, 0, 0))));
    bench_case(&c);
}

static void product(const char *name, int64_t m, int64_t n, int64_t k, gale_type type)
{
    nest_case c;
    nr_axis x[2] = {nr_plain(0, m), nr_plain(2, k)}, y[2] = {nr_plain(2, k), nr_plain(1, n)};
    nr_init(&c, name, 2, 1, (int64_t[]){m, n, k});
    int p = nr_load(&c, nr_access(&c, type, x, 2, NULL, 0, 0)), q = nr_load(&c, nr_access(&c, type, y, 2, NULL, 0, 0));
    nr_store(&c, nr_reduce(&c, GALE__SUM, nr_op(&c, GALE__MUL, type, p, q, 0)));
    bench_case(&c);
}

static void convolution(const char *name, int64_t n, int64_t channels, int64_t out, int64_t size)
{
    nest_case c;
    nr_axis x[4] = {nr_plain(0, n), nr_plain(4, channels)},
            w[4] = {nr_plain(1, out), nr_plain(4, channels), nr_plain(5, 3), nr_plain(6, 3)};
    nr_init(&c, name, 4, 3, (int64_t[]){n, out, size, size, channels, 3, 3});
    for (int i = 0; i < 2; i++) {
        nr_axis a = {.c0 = -1, .extent = size, .div = 1, .guard = true};
        a.coef[2 + i] = a.coef[5 + i] = 1;
        x[2 + i] = a;
    }
    int p = nr_load(&c, nr_access(&c, GALE_F32, x, 4, NULL, 0, 0)),
        q = nr_load(&c, nr_access(&c, GALE_F32, w, 4, NULL, 0, 0));
    nr_store(&c, nr_reduce(&c, GALE__SUM, nr_op(&c, GALE__MUL, GALE_F32, p, q, 0)));
    bench_case(&c);
}

int main(int argc, char **argv)
{
    test_at = "bench";
    nr_no_data = true;
    for (int i = 1; i < argc; i++) {
        int known = -1;
        for (int t = 0; t < IR_TARGETS; t++)
            if (!strcmp(argv[i], ir_targets[t].provider)) known = t;
        if (known >= 0) target = known;
        else if (!strcmp(argv[i], "all")) all = true;
        else word = argv[i];
    }
    device = ir_device(target);
    if (!device || gale_stream_create(device, &stream) || gale_event_create(device, &from) ||
        gale_event_create(device, &to))
        return 1;
    printf("%s, %s\n", gale_device_get_info(device)->name, gale_device_get_info(device)->driver);
    measure_copy();
    maps();
    for (int64_t n = 64; n <= 16384; n *= 16) softmax(n);
    for (int64_t n = 64; n <= 16384; n *= 16) layer_norm(n);
    softmax(1 << 16);
    layer_norm(768);
    sums("sum of rows of 5", 64 << 18, 5, false);
    sums("sum of rows of 33", 1 << 21, 33, false);
    sums("sum of 264 rows", 264, 1 << 18, false);
    sums("sum of columns, tall", 4096, 16384, true);
    sums("sum of columns, wide", 1 << 20, 64, true);
    product("product 4096", 4096, 4096, 4096, GALE_F32);
    product("product 1024", 1024, 1024, 1024, GALE_F32);
    product("product 4096 f16", 4096, 4096, 4096, GALE_F16);
    convolution("convolution 64 x 256^2", 4, 64, 64, 256);
    gale_event_destroy(&from);
    gale_event_destroy(&to);
    gale_stream_destroy(&stream);
    ir_close_devices();
    return test_bad != 0;
}
