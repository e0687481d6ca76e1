/* Sort, scan and scatter on every device that is here, against the CPU's plain loops. */
#include "ir_run.h"
#include "kernel/cpu/cpu_special.h"
#include "kernel/ir/ir_util.h"
#include "kernel/kernels.h"
#include "kernel/print/print.h"
#include "kernel/routines/cell_loop.h"
#include "kernel/schedule/special.h"
#include "nest_random.h"
#include "nvidia_caps.h"

typedef struct buffers {
    const void *input, *index;
    void *result;
    size_t input_size, index_size, result_size;
} buffers;

/* All kernels of the job that the device does not have yet. */
static gale_status build_all(gale_device *device, const gale__special_job *job)
{
    gale__kernel_wants wants = {.device = device};
    gale__arena arena = {0};
    gale__runnable none[1];
    gale_status status = GALE_OK;
    for (int i = 0; i < job->n_launches && status == GALE_OK; i++) {
        gale__special_launch l;
        gale__ir ir;
        gale__special_launch_get(job, i, &l);
        if (!gale__kernel_is_new(&wants, l.key)) continue;
        status = gale__special_build(&l, &ir);
        if (status == GALE_OK) status = gale__ir_validate(&ir);
        if (status == GALE_OK) status = gale__kernel_want(&wants, &ir);
    }
    if (status == GALE_OK) status = gale__runnables_make(device, &arena, NULL, NULL, 0, &wants, none);
    gale__kernel_wants_finish(&wants);
    gale__arena_finish(&arena);
    return status;
}

static gale_status launch_all(
    gale_device *device, gale_stream *stream, const gale__special_job *job, gale_buffer *const *at)
{
    for (int i = 0; i < job->n_launches; i++) {
        gale__special_launch l;
        gale__ref refs[5];
        gale__special_launch_get(job, i, &l);
        for (int r = 0; r < l.n_refs; r++) refs[r] = gale__buffer_ref(at[l.refs[r].buffer], l.refs[r].offset);
        gale__launch launch = {
            .n_refs = l.n_refs, .n_words = l.n_words, .refs = refs, .words = l.words, .group = {l.threads, 1, 1}};
        memcpy(launch.groups, l.groups, sizeof launch.groups);
        GALE_TRY(gale__launch_run(stream, gale__kernel_known(device, l.key), &launch));
    }
    return GALE_OK;
}

static gale_status run_job(gale_device *device, const gale__special_job *job, const buffers *b)
{
    gale_stream *stream = NULL;
    gale_buffer *at[4] = {0};
    const size_t size[4] = {b->result_size, b->input_size, b->index_size, job->scratch_bytes};
    const void *from[4] = {b->result, b->input, b->index, NULL};
    gale_status status;
    GALE_GO(gale_stream_create(device, &stream));
    for (int i = 0; i < 4; i++) {
        if (!size[i]) continue;
        GALE_GO(gale_buffer_create(device, size[i], &at[i]));
        if (from[i]) GALE_GO(gale_upload(stream, at[i], 0, from[i], size[i]));
    }
    GALE_GO(build_all(device, job));
    GALE_GO(launch_all(device, stream, job, at));
    GALE_GO(gale_download(stream, at[0], 0, b->result, size[0]));
    GALE_GO(gale_stream_sync(stream));
done:
    for (int i = 0; i < 4; i++) gale_buffer_destroy(&at[i]);
    gale_stream_destroy(&stream);
    return status;
}

/* Values with many ties and, among floats, a few that are no numbers. */
static void *random_values(gale_type type, int64_t n)
{
    size_t size = gale_type_size(type);
    char *p = malloc((size_t)(n + 1) * size);
    for (int64_t i = 0; i < n; i++) {
        double v = nr_below(41) - 20;
        if (gale__type_is_float(type))
            gale__store_f64(type, p + (size_t)i * size,
                nr_chance(3)   ? NAN
                : nr_chance(3) ? INFINITY
                : nr_chance(5) ? -0.0
                               : v / 8);
        else gale__store_i64(type, p + (size_t)i * size, (int64_t)v * (gale__type_is_signed(type) ? 1 : -1));
    }
    return p;
}

static int64_t first_difference(gale_type type, const void *a, const void *b, int64_t n, double loose)
{
    for (int64_t i = 0; i < n; i++) {
        nr_value x = nr_read(type, a, i), y = nr_read(type, b, i);
        bool same = !nr_float(type) ? x.i == y.i
                    : isnan(x.f)    ? isnan(y.f)
                                    : x.f == y.f || fabs(x.f - y.f) <= loose * (fabs(x.f) + 1);
        if (!same) return i;
    }
    return -1;
}

static void check_sort(
    int target, gale_type type, int64_t rows, int64_t n, bool descending, const gale_device_caps *caps)
{
    gale__special_job job;
    int64_t *want = malloc((size_t)(rows * n) * 8), *have = calloc((size_t)(rows * n), 8),
            *scratch = malloc((size_t)(n * GALE__CPU_SORT_SCRATCH * gale__parallel_width()) * 8);
    void *x = random_values(type, rows * n);
    gale__cpu_sort(type, x, want, scratch, rows, n, n, descending);
    for (int64_t first = n / 3; first > 0; first /= 4) { /* the first ones are those of the whole */
        gale__cpu_sort(type, x, have, scratch, rows, n, first, descending);
        for (int64_t r = 0; r < rows; r++)
            CHECK_EQ(first_difference(GALE_I64, want + r * n, have + r * n, first, 0), -1);
    }
    memset(have, 0, (size_t)(rows * n) * 8);
    buffers b = {.input = x,
        .input_size = (size_t)(rows * n) * gale_type_size(type),
        .result = have,
        .result_size = (size_t)(rows * n) * 8};
    if (CHECK_OK(gale__special_sort(&job, caps, type, rows, n, descending)) &&
        CHECK_OK(run_job(ir_device(target), &job, &b)) &&
        !CHECK_EQ(first_difference(GALE_I64, want, have, rows * n, 0), -1))
        printf("  sort of %s, %d rows of %d\n", gale_type_name(type), (int)rows, (int)n);
    free(want), free(have), free(scratch), free(x);
}

static void check_scan(int target, gale_type type, gale__reduce kind, int64_t outer, int64_t n, int64_t inner,
    const gale_device_caps *caps)
{
    gale__special_job job;
    int64_t all = outer * n * inner;
    size_t size = (size_t)all * gale_type_size(type);
    void *x = random_values(type, all), *want = malloc(size), *have = calloc(1, size);
    for (int64_t i = 0; kind == GALE__PROD && i < all; i++) { /* products stay in range */
        char *p = (char *)x + (size_t)i * gale_type_size(type);
        if (gale__type_is_float(type)) gale__store_f64(type, p, 1 + (nr_unit() - 0.5) / 16);
    }
    for (int64_t i = 0; kind == GALE__SUM && gale__type_is_float(type) && i < all; i++)
        gale__store_f64(type, (char *)x + (size_t)i * gale_type_size(type), nr_unit());
    gale__cpu_scan(type, kind, x, want, outer, n, inner);
    buffers b = {.input = x, .input_size = size, .result = have, .result_size = size};
    if (CHECK_OK(gale__special_scan(&job, caps, type, kind, outer, n, inner)) &&
        CHECK_OK(run_job(ir_device(target), &job, &b)) &&
        !CHECK_EQ(first_difference(type, want, have, all, type == GALE_F16 ? 4e-3 : 1e-4), -1))
        printf("  scan %d of %s [%d, %d, %d]\n", kind, gale_type_name(type), (int)outer, (int)n, (int)inner);
    free(x), free(want), free(have);
}

static void check_put(int target, gale_type type, int mode, int64_t n, int64_t count, const gale_device_caps *caps)
{
    gale__special_job job;
    size_t size = (size_t)n * gale_type_size(type), updates_size = (size_t)count * gale_type_size(type);
    void *want = random_values(type, n), *have = malloc(size), *x = random_values(type, count);
    int64_t *index = malloc((size_t)count * 8);
    for (int64_t i = 0; i < count; i++) index[i] = n > 1 ? nr_below((int)n + 6) - 3 : 0; /* some out of range */
    memcpy(have, want, size);
    gale__cpu_put(type, mode, want, n, index, x, count);
    buffers b = {.input = x,
        .input_size = updates_size,
        .index = index,
        .index_size = (size_t)count * 8,
        .result = have,
        .result_size = size};
    if (CHECK_OK(gale__special_put(&job, caps, type, mode, n, count)) &&
        CHECK_OK(run_job(ir_device(target), &job, &b)) && !CHECK_EQ(first_difference(type, want, have, n, 1e-4), -1))
        printf("  put %d of %s, %d into %d\n", mode, gale_type_name(type), (int)count, (int)n);
    free(want), free(have), free(x), free(index);
}

/* Rows of updates together give what each of them alone does, in any type. */
TEST(put_runs)
{
    enum { N = 90, COUNT = 400 };
    int64_t index[COUNT];
    nr_state = 7;
    for (int i = 0; i < COUNT; i++)
        index[i] = i && nr_below(20) ? (int64_t)((uint64_t)index[i - 1] + 1) : nr_below(2 * N) - N / 2;
    index[20] = INT64_MIN, index[21] = INT64_MIN + 1, index[22] = INT64_MAX, index[23] = INT64_MIN;
    for (gale_type type = 0; type < GALE_TYPE_COUNT; type++)
        for (int mode = -1; mode <= GALE__RMIN; mode++) {
            size_t size = gale_type_size(type);
            if (type == GALE_STRING || !size) continue;
            char *y = random_values(type, N), *want = malloc(N * size), *x = random_values(type, COUNT);
            memcpy(want, y, N * size);
            gale__cpu_put(type, mode, y, N, index, x, COUNT);
            for (size_t i = 0; i < COUNT; i++) gale__cpu_put(type, mode, want, N, index + i, x + i * size, 1);
            CHECK_EQ(first_difference(type, want, y, N, 0), -1);
            free(y), free(want), free(x);
        }
}

/* Sums of words, in place too. */
TEST(scan_words)
{
    static const int64_t shapes[][3] = {{1, 1000, 1}, {3, 40, 7}, {5, 1, 4}};
    for (size_t s = 0; s < 3; s++) {
        int64_t outer = shapes[s][0], n = shapes[s][1], inner = shapes[s][2], all = outer * n * inner;
        int64_t *x = random_values(GALE_I64, all), *y = malloc((size_t)all * 8);
        gale__cpu_scan(GALE_I64, GALE__SUM, x, y, outer, n, inner);
        for (int64_t i = 0; i < all; i++)
            CHECK_EQ(y[i], (int64_t)((uint64_t)x[i] + (i / inner % n ? (uint64_t)y[i - inner] : 0)));
        gale__cpu_scan(GALE_I64, GALE__SUM, x, x, outer, n, inner);
        CHECK(!memcmp(x, y, (size_t)all * 8));
        free(x), free(y);
    }
}

static void check_target(int target)
{
    gale_device *device = ir_device(target);
    if (!device) return;
    const gale_device_caps *caps = &gale_device_get_info(device)->caps;
    gale_device_caps small = *caps; /* more levels and blocks at sizes that take no time */
    small.group_max = 16;
    small.shared_bytes = 1024;
    nr_state = 5;
    check_sort(target, GALE_F32, 33, 100, true, caps);
    check_sort(target, GALE_F32, 5, 1, false, caps);
    check_sort(target, GALE_I64, 1, 700, false, caps);
    check_sort(target, GALE_U8, 3, 7, false, caps);
    check_sort(target, GALE_F16, 2, 1000, true, &small);
    check_sort(target, GALE_F32, 1, 3000, false, caps);
    check_scan(target, GALE_F32, GALE__SUM, 3, 50, 7, caps);
    check_scan(target, GALE_F32, GALE__SUM, 2, 5000, 1, caps);
    check_scan(target, GALE_I32, GALE__PROD, 2, 300, 3, &small);
    check_scan(target, GALE_F32, GALE__RMAX, 1, 30000, 1, &small);
    check_scan(target, GALE_I8, GALE__SUM, 1, 100, 40, caps);
    check_put(target, GALE_F32, -1, 50, 70, caps);
    check_put(target, GALE_F32, GALE__SUM, 40, 600, caps);
    check_put(target, GALE_I32, GALE__RMAX, 900, 3000, caps);
    small.loop_max = 100; /* updates of one element over several launches */
    check_put(target, GALE_F32, GALE__SUM, 3, 600, &small);
    if (!test_light()) check_put(target, GALE_I32, GALE__SUM, 1, 70000, caps); /* more than lavapipe's loops go round */
}

TEST(opencl) { check_target(0); }
TEST(vulkan) { check_target(1); }
TEST(cuda) { check_target(2); }
TEST(hip) { check_target(3); }
TEST(too_large)
{
    gale__special_job job;
    CHECK_FAILS(gale__special_sort(&job, &ir_full_caps, GALE_F32, 3, (int64_t)1 << 30, false), LIMIT);
    CHECK_FAILS(gale__special_scan(&job, &ir_full_caps, GALE_F32, GALE__SUM, 1, (int64_t)1 << 32, 1), LIMIT);
    CHECK_OK(gale__special_sort(&job, &ir_full_caps, GALE_F32, 0, 5, false));
    CHECK_EQ(job.n_launches, 0);
}
/* Kernels of fast paths: what is printed for a device with everything is valid in every language; in CUDA C alone where
 * groups wait for each other. */
static void check_routine_for(
    const gale_device_caps *caps, const gale__kernel_routine *routine, const void *args, int launches)
{
    gale__routine_launch l;
    int n = 0;
    for (; routine->describe(args, caps, n, &l); n++) {
        gale__ir ir;
        gale__str text = {0};
        gale__ir_words words = {0};
        const gale__ir *list = &ir;
        gale__ir_init(&ir, l.key);
        ir.n_pointers = l.n_refs;
        ir.n_words = l.n_words;
        routine->build(args, caps, n, &ir);
        if (CHECK_OK(gale__ir_validate(&ir))) {
            if (CHECK_OK(gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, caps, &text)))
                ir_nvrtc_for(text.text, ir.name, ir.cluster ? "sm_90a" : "compute_80", ir.cluster ? 100 : 80);
            if (getenv("TEXTS")) ir_save(ir.name, text.text, text.length);
            if (gale__ir_is_together(&ir)) CHECK_FAILS(gale__ir_print_spirv(&ir, caps, &words), UNSUPPORTED);
            else if (ir.cluster) CHECK_FAILS(gale__ir_check_device(&ir, &ir_full_caps), UNSUPPORTED);
            else if (CHECK_OK(gale__ir_print_spirv(&ir, caps, &words))) ir_spirv_val(&words, ir.name);
        }
        gale__str_finish(&text);
        gale__ir_words_finish(&words);
        gale__ir_finish(&ir);
    }
    CHECK_EQ(n, launches);
}

static void check_routine(const gale__kernel_routine *routine, const void *args, int launches)
{
    check_routine_for(&ir_full_caps, routine, args, launches);
}

TEST(routines)
{
    gale__nms_args one = {.batches = 1, .classes = 1, .boxes = 300, .most = 300, .overlap = 1, .least = 1}, some = one;
    some.classes = 20, some.centre = 1, some.least = 0, some.boxes = 8400;
    check_routine(&gale__nms_kernels, &one, 1);
    check_routine(&gale__nms_kernels, &some, 2);
    const gale__levels_args levels = {.channels = 4, .height = 2160, .width = 4096, .type = GALE_F16},
                            odd = {.channels = 1,
                                .height = 77,
                                .width = 131,
                                .type = GALE_F32,
                                .reduce = 1,
                                .round_up = 1};
    const gale__counts_args counts = {.rows = 4, .samples = 2160 * 4096};
    check_routine(&gale__levels_kernels, &levels, 2);
    check_routine(&gale__levels_kernels, &odd, 2);
    check_routine(&gale__counts_kernels, &counts, 2);
    for (int64_t width = 13; width <= 16; width += 3)
        check_routine(&gale__inflate_kernels, &(gale__inflate_args){.chunks = 9, .channels = 4, .width = width}, 1);
    uint64_t bytes = 0;
    gale_device_caps caps = ir_full_caps;
    CHECK(gale__nms_kernels_fit(&some, &caps, &bytes) && bytes == 4 * (20 * 8400 + 20 * 300 + 20));
    caps.loop_max = 1000; /* a driver that leaves long loops would give wrong boxes */
    CHECK(!gale__nms_kernels_fit(&some, &caps, &bytes));
}

TEST(recurrent_steps)
{
    for (int64_t kind = 0; kind < GALE__CELL_COUNT; kind++)
        for (int64_t batch = 1; batch <= 16; batch *= 16) {
            gale__cpu_cell a = {.kind = kind, .trips = 2, .batch = batch, .hidden = 64};
            a.biased = kind == GALE__CELL_GRU;
            CHECK(gale__cell_kernels_fit(&a, &ir_full_caps));
            check_routine(&gale__cell_kernels, &a, 2);
        }
    gale__cpu_cell odd = {.kind = GALE__CELL_LSTM, .trips = 2, .batch = 1, .hidden = 6}, huge = odd;
    CHECK(!gale__cell_kernels_fit(&odd, &ir_full_caps));
    huge.hidden = 1 << 16, huge.batch = 1 << 16;
    CHECK(!gale__cell_kernels_fit(&huge, &ir_full_caps));
}
/* All steps in one kernel: which cells it takes on an H200, and that its text compiles. */
TEST(recurrent_loops)
{
    static const int64_t types[] = {GALE_F32, GALE_F16, GALE_BF16};
    uint64_t bytes = 0;
    gale__routine_launch l;
    for (int64_t kind = 0; kind < GALE__CELL_COUNT; kind++)
        for (int t = 0; t < 3; t++)
            for (int64_t batch = 1; batch <= 16; batch *= 16) {
                gale__cpu_cell a = {.kind = kind, .trips = 9, .batch = batch, .hidden = 512, .type = types[t]};
                a.biased = kind == GALE__CELL_GRU, a.timed = kind == t && batch == 1;
                bool few = kind == GALE__CELL_RNN; /* weights, all in the registers of a cluster */
                CHECK(gale__cell_loop_fits(&a, &nvidia, &bytes) &&
                      bytes == (few ? 0 : 128 + 2 * 512 * (uint64_t)batch * (t ? 2 : 4)));
                check_routine_for(&nvidia, &gale__cell_loop_kernels, &a, few ? 1 : 2);
            }
    gale__cpu_cell a = {.kind = GALE__CELL_LSTM, .trips = 256, .batch = 64, .hidden = 512, .type = GALE_F16};
    CHECK(gale__cell_loop_kernels.describe(&a, &nvidia, 1, &l) && l.groups[0] == 32 && l.groups[1] == 4);
    a.batch = 128; /* each group computes the items twice */
    CHECK(gale__cell_loop_kernels.describe(&a, &nvidia, 1, &l) && l.groups[0] == 32 && l.groups[1] == 4);
    check_routine_for(&nvidia, &gale__cell_loop_kernels, &a, 2);
    a.batch = 16, a.type = GALE_F32;
    CHECK(gale__cell_loop_kernels.describe(&a, &nvidia, 1, &l) && l.groups[0] == 128 && l.groups[1] == 1);
    a.hidden = 4096; /* the weights do not fit */
    CHECK(!gale__cell_loop_fits(&a, &nvidia, &bytes));
    a.hidden = 512, a.trips = 2; /* two launches anyway */
    CHECK(!gale__cell_loop_fits(&a, &nvidia, &bytes));
    a.trips = 3;
    CHECK(gale__cell_loop_fits(&a, &nvidia, &bytes) && !gale__cell_loop_fits(&a, &ir_full_caps, &bytes));
}

static void check_close(gale__cpu_cell a, uint32_t clusters, uint32_t groups, uint32_t items)
{
    gale__cell_close c = {0};
    gale__routine_launch l;
    gale_device_caps caps = nvidia;
    if (!CHECK(gale__cell_close_for(&a, &nvidia, &c) && c.clusters == clusters && c.groups == groups &&
               c.items == items && c.groups * c.units == (uint32_t)a.hidden))
        printf("  %u clusters of %u groups, %u items\n", c.clusters, c.groups, c.items);
    CHECK(gale__cell_loop_kernels.describe(&a, &nvidia, 0, &l) && l.groups[0] == clusters * groups);
    check_routine_for(&nvidia, &gale__cell_loop_kernels, &a, 1);
    caps.matrix_groups = false;
    CHECK(!gale__cell_close_for(&a, &caps, &c)); /* other devices keep the other form */
}

/* Layers whose weights fit into the registers of a group, or of a cluster. */
TEST(recurrent_clusters)
{
    gale__cpu_cell a = {.kind = GALE__CELL_LSTM, .trips = 50, .batch = 1, .hidden = 32, .type = GALE_F16};
    gale__cell_close c = {0};
    check_close(a, 1, 1, 1);
    a.batch = 5, a.timed = 1, a.type = GALE_F32;
    check_close(a, 5, 1, 1);
    a.batch = 64, a.timed = 0, a.hidden = 256, a.type = GALE_F16;
    check_close(a, 16, 8, 4);
    a.batch = 16, a.type = GALE_BF16;
    check_close(a, 16, 8, 1);
    a.kind = GALE__CELL_GRU, a.hidden = 128, a.biased = 1, a.type = GALE_F32;
    check_close(a, 16, 4, 1);
    a.kind = GALE__CELL_RNN, a.hidden = 512, a.biased = 0, a.batch = 3;
    check_close(a, 3, 8, 1);
    a.hidden = 264, a.type = GALE_F16;
    CHECK(!gale__cell_close_for(&a, &nvidia, &c)); /* in eighths, not vectors of units */
    a.hidden = 256, a.batch = 4096;
    CHECK(!gale__cell_close_for(&a, &nvidia, &c)); /* more than the device has at once */
}

/* Builds and prints the kernel of all steps for an H200. */
static gale_status build_loop(const gale__cpu_cell *a)
{
    gale__routine_launch l;
    gale__ir ir;
    gale__str text = {0};
    const gale__ir *list = &ir;
    int i = gale__cell_loop_kernels.describe(a, &nvidia, 1, &l);
    gale__cell_loop_kernels.describe(a, &nvidia, i, &l);
    gale__ir_init(&ir, l.key);
    ir.n_pointers = l.n_refs, ir.n_words = l.n_words;
    gale__cell_loop_kernels.build(a, &nvidia, i, &ir);
    gale_status status = gale__ir_print_c(&list, 1, GALE__DIALECT_CUDA, &nvidia, &text);
    gale__str_finish(&text);
    gale__ir_finish(&ir);
    return status;
}

TEST(recurrent_faults)
{
    for (int t = 0; t < 2; t++) {
        gale__cpu_cell a = {.kind = GALE__CELL_LSTM,
            .trips = 9,
            .batch = 3,
            .hidden = t ? 64 : 264,
            .timed = t,
            .type = t ? GALE_F32 : GALE_F16};
        int64_t live = gale__alloc_live();
        int n = 1;
        for (gale_status status = GALE_NO_MEMORY; status != GALE_OK && n < 5000; n++) {
            gale__alloc_fail_at((uint64_t)n);
            status = build_loop(&a);
            gale__alloc_fail_at(0);
            CHECK(status == GALE_OK || status == GALE_NO_MEMORY);
            CHECK_EQ(gale__alloc_live(), live);
        }
        CHECK(n > 10 && n < 5000);
    }
}
TEST(close) { ir_close_devices(); }

TESTS(ROW(opencl), ROW(vulkan), ROW(cuda), ROW(hip), ROW(too_large), ROW(routines), ROW(put_runs), ROW(scan_words),
    ROW(recurrent_steps), ROW(recurrent_loops), ROW(recurrent_clusters), ROW(recurrent_faults), ROW(close))
