/* The driver file of CUDA and HIP against a stand-in library (fake_driver.c): everything the backend does but run on a
 * device.  Each test runs in a child process, since a driver once opened stays open. */
#include "test.h"
#include "base/access.h"
#include "base/file.h"
#include "base/thread.h"
#include "device/profiler.h"
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct maker {
    const char *name, *label, *library, *variable, *rtc_variable;
    const gale__backend *backend;
} maker;
static const maker makers[] = {
    {"cuda", "CUDA", FAKE_CUDA, "GALE_CUDA_LIBRARY", "GALE_NVRTC_LIBRARY", &gale__backend_cuda},
    {"hip", "HIP", FAKE_HIP, "GALE_HIP_LIBRARY", "GALE_HIPRTC_LIBRARY", &gale__backend_hip},
};

/* Runs `fn` in a child for each maker, with an empty cache folder; its failed checks become ours. */
static void in_children(void (*fn)(const maker *m))
{
    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            char folder[] = "/tmp/gale-cuda-XXXXXX", command[64];
            if (!mkdtemp(folder)) _exit(99);
            setenv("GALE_CACHE", folder, 1);
            setenv(makers[i].variable, makers[i].library, 1);
            setenv(makers[i].rtc_variable, makers[i].library, 1);
            test_bad = 0;
            fn(&makers[i]);
            snprintf(command, sizeof command, "rm -rf '%s'", folder);
            if (system(command)) test_bad++;
            fflush(stdout);
            _exit(test_bad > 90 ? 90 : test_bad);
        }
        int code = -1;
        waitpid(child, &code, 0);
        if (code) {
            printf("FAIL %s: with %s: child ended with %#x\n", test_at, makers[i].label, code);
            test_bad++;
        }
    }
}
#define CHILD_TEST(name)                      \
    static void child_##name(const maker *m); \
    TEST(name) { in_children(child_##name); } \
    static void child_##name(const maker *m)

static bool says(const char *text, const char *word)
{
    if (strstr(text, word)) return true;
    printf("  \"%s\" does not say \"%s\"\n", text, word);
    return false;
}

/* What the stand-in still holds: a function of the library itself. */
static long fake_live(const maker *m)
{
    const char *names[] = {m->library, NULL};
    gale__dl *dl = NULL;
    if (gale__dl_open(names, &dl) != GALE_OK) return -1;
    long (*fn)(void);
    void *symbol = gale__dl_symbol(dl, "fake_live");
    memcpy(&fn, &symbol, sizeof fn);
    long n = fn ? fn() : -1;
    gale__dl_close(&dl);
    return n;
}

/* ---- why there is no device ---- */

static void check_reason(const maker *m, const char *words, const char *remedy)
{
    gale__probe probe;
    if (!CHECK_OK(m->backend->probe(&probe))) return;
    gale__free(probe.devices);
    int64_t live = gale__alloc_live(); /* a library that was opened stays so */
    if (!CHECK_OK(m->backend->probe(&probe))) return;
    CHECK_EQ(probe.count, 0);
    CHECK(says(probe.reason, words));
    CHECK(says(probe.remedy, remedy));
    gale__free(probe.devices);
    CHECK_EQ(gale__alloc_live(), live);
}

CHILD_TEST(a_missing_library_is_a_reason)
{
    setenv(m->variable, "/nowhere/lib.so", 1);
    check_reason(m, "/nowhere/lib.so", "");
    unsetenv(m->variable);
    gale__probe probe;
    if (!CHECK_OK(m->backend->probe(&probe))) return;
    if (!probe.count) CHECK(strlen(probe.reason) > 20 && strlen(probe.remedy) > 10);
    gale__free(probe.devices);
}

CHILD_TEST(a_damaged_library_is_a_reason)
{
    char path[128];
    snprintf(path, sizeof path, "%s/lib.so", getenv("GALE_CACHE"));
    CHECK_OK(gale__file_write(path, "this is no library", 18));
    setenv(m->variable, path, 1);
    check_reason(m, "does not load", "install");
}

CHILD_TEST(a_missing_symbol_is_named)
{
    bool cuda = m->backend == &gale__backend_cuda;
    setenv(m->variable, cuda ? FAKE_CUDA_BROKEN : FAKE_CUDA, 1);
    check_reason(m, cuda ? "no symbol cuLaunchKernel" : "no symbol hipInit", "install");
}

CHILD_TEST(an_old_version_is_named)
{
    setenv("FAKE_VERSION", m->backend == &gale__backend_cuda ? "10020" : "30500000", 1);
    check_reason(
        m, m->backend == &gale__backend_cuda ? "CUDA 10.2, older than 11.0" : "HIP 3.5, older than 4.3", "newer");
}

CHILD_TEST(a_driver_that_does_not_start_is_a_reason)
{
    setenv("FAKE_INIT", "803", 1);
    bool cuda = m->backend == &gale__backend_cuda;
    check_reason(m, cuda ? "different versions" : "does not start", cuda ? "restart" : "");
    setenv("FAKE_INIT", "2", 1);
    check_reason(m, "out of memory", "");
    setenv("FAKE_INIT", "100", 1);
    check_reason(m, "No GPU detected", "");
}

CHILD_TEST(no_device_is_a_reason)
{
    const char *variable = m->backend == &gale__backend_cuda ? "CUDA_VISIBLE_DEVICES" : "HIP_VISIBLE_DEVICES";
    setenv("FAKE_DEVICES", "0", 1);
    unsetenv(variable);
    check_reason(m, "No GPU detected", "load");
    setenv(variable, "-1", 1);
    check_reason(m, "_VISIBLE_DEVICES=-1 hides all devices", "unset");
}

TEST(groups_of_device_nodes)
{
    char group[64] = "", path[] = "/tmp/gale-node-XXXXXX";
    CHECK_EQ(gale__path_access("/dev/null", group, sizeof group), GALE__ACCESS_OK);
    CHECK(group[0] != 0);
    CHECK_EQ(gale__path_access("/nowhere/at/all", group, sizeof group), GALE__ACCESS_MISSING);
    CHECK_TEXT(group, "");
    int fd = mkstemp(path);
    if (!CHECK(fd >= 0)) return;
    close(fd);
    chmod(path, 0);
    if (geteuid() != 0) CHECK_EQ(gale__path_access(path, group, sizeof group), GALE__ACCESS_DENIED);
    unlink(path);
}

/* ---- the whole way ---- */

static gale_device *open_device(const maker *m)
{
    gale_device *device = NULL;
    CHECK_OK(gale__device_open_one(m->backend, 0, NULL, &device));
    return device;
}

CHILD_TEST(devices_are_described)
{
    bool cuda = m->backend == &gale__backend_cuda;
    const gale__probe *probe;
    if (!CHECK_OK(gale__backend_probe(m->backend, &probe)) || !CHECK_EQ(probe->count, 2)) return;
    const gale_device_info *info = &probe->devices[1];
    CHECK_TEXT(probe->library, m->library);
    CHECK_TEXT(info->backend, m->name);
    CHECK_TEXT(info->name, "Stand-in 1");
    CHECK_TEXT(info->id, "11111111-1111-1111-1111-111111111111");
    CHECK(says(info->driver, cuda ? "CUDA 12.8" : "HIP 6.3"));
    CHECK_EQ(info->caps.arch, 90);
    CHECK_EQ(info->caps.compute_units, 132);
    CHECK_EQ(info->caps.clock_mhz, 1980);
    CHECK_EQ(info->caps.subgroup, cuda ? 32 : 64);
    CHECK_EQ(info->caps.group_max, 1024);
    CHECK_EQ(info->caps.groups_max[1], 65535);
    CHECK_EQ(info->caps.shared_bytes, 49152);
    CHECK(info->caps.f16 && info->caps.f64 && info->caps.capture && info->caps.bf16 == cuda);
    gale_device *device = open_device(m);
    if (!device) return;
    CHECK_EQ(gale_device_get_info(device)->caps.memory_free_bytes, 1 << 29);
    gale_device_close(&device);
    CHECK_EQ(fake_live(m), 0);
}

static gale_status check_fill(
    gale_stream *stream, gale_buffer *buffer, size_t offset, size_t size, const char *pattern, size_t bytes)
{
    char got[4096];
    GALE_TRY(gale_fill(stream, buffer, offset, size, pattern, bytes));
    GALE_TRY(gale_download(stream, buffer, offset, got, size));
    GALE_TRY(gale_stream_sync(stream));
    for (size_t i = 0; i < size; i++)
        if (got[i] != pattern[i % bytes])
            return gale__fail(GALE_MISMATCH, "byte %zu of a fill with %zu bytes", i, bytes);
    return GALE_OK;
}

static gale_status do_memory(gale_stream *stream, gale_buffer *a, gale_buffer *b)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyz";
    char got[26];
    GALE_TRY(gale_upload(stream, a, 3, bytes, 26));
    GALE_TRY(gale_copy(stream, b, 1001, a, 4, 24));
    GALE_TRY(gale_download(stream, b, 1002, got, 23));
    GALE_TRY(gale_stream_sync(stream));
    if (memcmp(got, bytes + 2, 23)) return gale__fail(GALE_MISMATCH, "copied bytes differ");
    GALE_TRY(check_fill(stream, a, 1, 7, "x", 1));
    GALE_TRY(check_fill(stream, a, 2, 1022, "xy", 2));
    GALE_TRY(check_fill(stream, a, 4, 1020, "wxyz", 4));
    GALE_TRY(check_fill(stream, a, 4, 1020, "aaaa", 4));
    GALE_TRY(check_fill(stream, a, 8, 4008, "01234567", 8));
    GALE_TRY(check_fill(stream, a, 0, 8, "01234567", 8));
    return check_fill(stream, a, 8, 4008, "01230123", 8);
}

static gale_status do_events(gale_device *device, gale_stream *stream)
{
    gale_event *from = NULL, *to = NULL;
    double time_us = -1;
    gale_status status;
    GALE_GO(gale_event_create(device, &from));
    GALE_GO(gale_event_create(device, &to));
    GALE_GO(gale_event_record(from, stream));
    gale__sleep_ns(1000000);
    GALE_GO(gale_event_record(to, stream));
    GALE_GO(gale_stream_wait(stream, to));
    GALE_GO(gale_event_wait(to));
    GALE_GO(gale_event_elapsed(from, to, &time_us));
    if (time_us < 900) status = gale__fail(GALE_MISMATCH, "%g us between events 1 ms apart", time_us);
done:
    gale_event_destroy(&from);
    gale_event_destroy(&to);
    return status;
}

static gale_status build(
    gale_device *device, bool ours, const char *text, const char *options, const char *entry, gale_kernel **out)
{
    gale__source source = {
        .code = GALE__CODE_TEXT, .data = text, .size = strlen(text), .options = options, .ours = ours};
    gale_module *module = NULL;
    GALE_TRY(gale__module_build(device, &source, &module));
    gale_status status = gale_kernel_get(module, entry, (uint32_t[]){64, 1, 1}, out);
    gale_module_destroy(&module);
    return status;
}

/* c = a + b over 100 floats, by our kernels' one block or by parameters one by one, twice, the second time replayed. */
static gale_status do_kernel(
    gale_device *device, gale_stream *stream, bool ours, bool captured, gale_buffer *const abc[3])
{
    float x[100], y[100], z[100] = {0};
    gale_kernel *kernel = NULL;
    gale_capture *capture = NULL;
    const uint32_t groups[] = {2, 1, 1}, words[] = {100};
    const char *entry = ours ? "block_add" : "args_add";
    for (int i = 0; i < 100; i++) x[i] = (float)i, y[i] = (float)(i * i);
    gale_status status;
    GALE_GO(build(device, ours, entry, "", entry, &kernel));
    GALE_GO(gale_upload(stream, abc[0], 0, x, sizeof x));
    GALE_GO(gale_upload(stream, abc[1], 0, y, sizeof y));
    if (captured) GALE_GO(gale_capture_begin(stream));
    GALE_GO(gale_kernel_launch(stream, kernel, groups, abc, 3, words, 1));
    if (captured) {
        GALE_GO(gale_capture_end(stream, &capture));
        for (int i = 0; i < 3; i++) GALE_GO(gale_capture_replay(stream, capture));
    }
    GALE_GO(gale_download(stream, abc[2], 0, z, sizeof z));
    GALE_GO(gale_stream_sync(stream));
    for (int i = 0; i < 100 && status == GALE_OK; i++)
        if (z[i] != x[i] + y[i]) status = gale__fail(GALE_MISMATCH, "sum %d is %g", i, (double)z[i]);
done:
    gale_capture_destroy(&capture);
    gale_kernel_destroy(&kernel);
    return status;
}

/* Groups that wait for each other are launched together, and no more of them than there is room for. */
CHILD_TEST(groups_wait_for_each_other)
{
    gale_device *device = NULL;
    gale_stream *stream = NULL;
    gale_kernel *kernel = NULL;
    gale_buffer *abc[3] = {0};
    const uint32_t words[] = {100};
    bool cuda = m->backend == &gale__backend_cuda;
    if (CHECK_OK(gale__device_open_one(m->backend, 0, NULL, &device)) &&
        CHECK_OK(gale_stream_create(device, &stream)) &&
        CHECK_OK(build(device, true, "block_add", "", "block_add", &kernel))) {
        for (int i = 0; i < 3; i++) CHECK_OK(gale_buffer_create(device, 400, &abc[i]));
        CHECK_EQ(device->info.caps.groups_together, cuda ? 132 : 0);
        kernel->together = true;
        if (cuda) CHECK_OK(gale_kernel_launch(stream, kernel, (uint32_t[]){33, 4, 1}, abc, 3, words, 1));
        CHECK_FAILS(gale_kernel_launch(stream, kernel, (uint32_t[]){7, 19, 1}, abc, 3, words, 1), LIMIT);
        CHECK(strstr(gale_error(), "wait for each other"));
        CHECK_OK(gale_stream_sync(stream));
    }
    for (int i = 0; i < 3; i++) gale_buffer_destroy(&abc[i]);
    gale_kernel_destroy(&kernel);
    gale_stream_destroy(&stream);
    gale_device_close(&device);
    CHECK_EQ(fake_live(m), 0);
}

/* 1000 groups of 64 threads, of which each of 132 processors holds four and 2048 threads in all; 2 groups in captures.
 */
static void check_occupancy(const gale_profiler *p)
{
    CHECK(p->count == 2 && fabs(p->records[0].occupancy - 0.125) < 1e-9);
    CHECK(p->records[1].kind == GALE__SPAN_REPLAY);
    CHECK(fabs(p->records[1].occupancy - 2 * 64 / 2048. / 132) < 1e-9);
    char *text = NULL;
    if (CHECK_OK(gale_profiler_to_text(p, "table", &text))) CHECK(strstr(text, "occup.") && strstr(text, "12.5%"));
    gale_free(text);
    if (CHECK_OK(gale_profiler_to_text(p, "json", &text))) CHECK(strstr(text, "\"occupancy\": 0.125"));
    gale_free(text);
}

CHILD_TEST(occupancy_is_told)
{
    gale_device *device = NULL;
    gale_stream *stream = NULL;
    gale_kernel *kernel = NULL;
    gale_buffer *abc[3] = {0};
    gale_capture *capture = NULL;
    gale_profiler *p = NULL;
    const uint32_t words[] = {100};
    gale_status status;
    GALE_GO(gale__device_open_one(m->backend, 0, NULL, &device));
    GALE_GO(gale_stream_create(device, &stream));
    GALE_GO(build(device, true, "block_add", "", "block_add", &kernel));
    for (int i = 0; i < 3; i++) GALE_GO(gale_buffer_create(device, 400, &abc[i]));
    GALE_GO(gale_capture_begin(stream));
    GALE_GO(gale_kernel_launch(stream, kernel, (uint32_t[]){2, 1, 1}, abc, 3, words, 1));
    GALE_GO(gale_capture_end(stream, &capture));
    GALE_GO(gale_profiler_start(device, &p));
    GALE_GO(gale_kernel_launch(stream, kernel, (uint32_t[]){100, 10, 1}, abc, 3, words, 1));
    GALE_GO(gale_capture_replay(stream, capture));
    GALE_GO(gale_stream_sync(stream));
    GALE_GO(gale_profiler_stop(p));
    check_occupancy(p);
done:
    CHECK_OK(status);
    gale_profiler_destroy(&p);
    gale_capture_destroy(&capture);
    for (int i = 0; i < 3; i++) gale_buffer_destroy(&abc[i]);
    gale_kernel_destroy(&kernel);
    gale_stream_destroy(&stream);
    gale_device_close(&device);
    CHECK_EQ(fake_live(m), 0);
}

/* Everything once. */
static gale_status ride(const maker *m)
{
    gale_device *device = NULL;
    gale_stream *stream = NULL;
    gale_buffer *abc[3] = {0};
    gale_status status;
    GALE_GO(gale__device_open_one(m->backend, 0, NULL, &device));
    GALE_GO(gale_stream_create(device, &stream));
    for (int i = 0; i < 3; i++) GALE_GO(gale_buffer_create(device, 5000, &abc[i]));
    GALE_GO(do_memory(stream, abc[0], abc[1]));
    GALE_GO(do_events(device, stream));
    GALE_GO(do_kernel(device, stream, true, false, abc));
    GALE_GO(do_kernel(device, stream, false, false, abc));
    GALE_GO(do_kernel(device, stream, true, true, abc));
done:
    for (int i = 0; i < 3; i++) gale_buffer_destroy(&abc[i]);
    gale_stream_destroy(&stream);
    gale_device_close(&device);
    return status;
}

CHILD_TEST(everything_once)
{
    CHECK_OK(ride(m));
    CHECK_EQ(fake_live(m), 0);
    setenv("GALE_WATCHDOG_S", "0", 1);
    CHECK_OK(ride(m));
    setenv("GALE_DEBUG_LAYER", "1", 1);
    CHECK_OK(ride(m));
    CHECK_EQ(fake_live(m), 0);
}

static _Atomic int thread_failures;
static void ride_thread(void *arg)
{
    for (int i = 0; i < 10; i++)
        if (ride(arg) != GALE_OK) {
            printf("  %s\n", gale_error());
            thread_failures++;
        }
}

CHILD_TEST(threads_work_side_by_side)
{
    gale__thread *threads[4] = {0};
    for (int i = 0; i < 4; i++) CHECK_OK(gale__thread_start(ride_thread, (void *)(uintptr_t)m, &threads[i]));
    for (int i = 0; i < 4; i++) gale__thread_join(&threads[i]);
    CHECK_EQ(thread_failures, 0);
    CHECK_EQ(fake_live(m), 0);
}

/* ---- kernels ---- */

CHILD_TEST(ours_are_built_once_and_kept)
{
    gale_device *device = open_device(m);
    gale_kernel *kernel = NULL;
    if (!device) return;
    CHECK_OK(build(device, true, "block_add", "-DA", "block_add", &kernel));
    gale_kernel_destroy(&kernel);
    setenv("FAKE_NO_COMPILER", "1", 1);
    CHECK_OK(build(device, true, "block_add", "-DA", "block_add", &kernel));
    gale_kernel_destroy(&kernel);
    CHECK_FAILS(build(device, true, "block_add", "-DB", "block_add", &kernel), BUILD);
    CHECK_FAILS(build(device, true, "block_add ", "-DA", "block_add", &kernel), BUILD);
    CHECK_FAILS(build(device, false, "block_add", "-DA", "block_add", &kernel), BUILD);
    CHECK(says(gale_error(), "the compiler was called"));
    gale_device_close(&device);
    CHECK_EQ(fake_live(m), 0);
}

CHILD_TEST(mistakes_in_kernels_are_told)
{
    bool cuda = m->backend == &gale__backend_cuda;
    gale_device *device = open_device(m);
    gale_kernel *kernel = NULL;
    gale_module *module = NULL;
    if (!device) return;
    CHECK_FAILS(build(device, true, "#error", "-DX", "x", &kernel), BUILD);
    CHECK(says(gale_error(), "kernel.cu(1): error"));
    CHECK(!cuda || says(gale_error(), "--gpu-architecture=sm_90")); /* sm_90a where the compiler knows it */
    CHECK(says(gale_error(), cuda ? "--fmad=false -DX" : "-ffp-contract=off -DX"));
    CHECK_FAILS(build(device, false, "#error", "-arch=sm_75", "x", &kernel), BUILD);
    CHECK(strstr(gale_error(), "sm_90") == NULL && strstr(gale_error(), "fmad") == NULL);
    CHECK_FAILS(build(device, false, "block_add", "", "nothing", &kernel), NOT_FOUND);
    CHECK(says(gale_error(), "extern \"C\""));
    CHECK_FAILS(gale_module_create(device, "binary", "junk", 4, "", &module), BUILD);
    CHECK(says(gale_error(), "not an image"));
    CHECK_FAILS(gale_module_create(device, "opencl", "text", 4, "", &module), UNSUPPORTED);
    CHECK_OK(gale_module_create(device, m->name, "args_add", 8, "", &module));
    CHECK_FAILS(gale_kernel_get(module, "args_add", (uint32_t[]){1000, 1, 1}, &kernel), LIMIT);
    gale_module_destroy(&module);
    gale_device_close(&device);
    CHECK_EQ(fake_live(m), 0);
}

CHILD_TEST(a_missing_compiler_is_told)
{
    setenv(m->rtc_variable, "/nowhere/rtc.so", 1);
    gale_device *device = open_device(m);
    gale_kernel *kernel = NULL;
    if (!device) return;
    CHECK_FAILS(build(device, true, "block_add", "", "block_add", &kernel), NOT_FOUND);
    CHECK(says(gale_error(), "install") && says(gale_error(), "/nowhere/rtc.so"));
    setenv(m->rtc_variable, FAKE_CUDA_BROKEN, 1);
    CHECK_FAILS(build(device, true, "block_add", "", "block_add", &kernel), UNSUPPORTED);
    CHECK(says(gale_error(), "no symbol"));
    gale_device_close(&device);
}

CHILD_TEST(old_and_new_devices)
{
    static const char *const rows[][2] = {
        {"52", "compute capability 5.2 is too old: NVRTC 12.8 supports 7.5"}, {"121", "compute_90"}, {"80", "sm_80"}};
    gale_kernel *kernel = NULL;
    if (m->backend != &gale__backend_cuda) return;
    for (int i = 0; i < 3; i++) {
        gale_device *device = open_device(m);
        if (!device) return;
        device->info.caps.arch = (uint32_t)atoi(rows[i][0]);
        CHECK(build(device, true, "#error", "", "x", &kernel) != GALE_OK);
        CHECK(says(gale_error(), rows[i][1]));
        gale_device_close(&device);
    }
}

CHILD_TEST(a_driver_without_capture)
{
    gale_stream *stream = NULL;
    if (m->backend != &gale__backend_cuda) return;
    setenv(m->variable, FAKE_CUDA_BARE, 1);
    gale_device *device = open_device(m);
    if (!device || !CHECK_OK(gale_stream_create(device, &stream))) return;
    CHECK(!gale_device_get_info(device)->caps.capture);
    CHECK_FAILS(gale_capture_begin(stream), UNSUPPORTED);
    gale_stream_destroy(&stream);
    gale_device_close(&device);
}

/* ---- failures ---- */

CHILD_TEST(a_lost_device_is_told)
{
    gale_device *device = open_device(m);
    gale_stream *stream = NULL;
    gale_kernel *kernel = NULL;
    gale_buffer *buffer = NULL;
    int64_t live = gale__alloc_live();
    if (!device || !CHECK_OK(gale_stream_create(device, &stream))) return;
    CHECK_OK(gale_buffer_create(device, 100, &buffer));
    CHECK_OK(build(device, true, "lose", "", "lose", &kernel));
    CHECK_OK(gale_kernel_launch(stream, kernel, (uint32_t[]){1, 1, 1}, &buffer, 1, NULL, 0));
    CHECK_FAILS(gale_stream_sync(stream), DEVICE_LOST);
    CHECK(says(gale_error(), "device lost"));
    CHECK_FAILS(gale_fill(stream, buffer, 0, 8, "x", 1), DEVICE_LOST);
    gale_buffer_destroy(&buffer);
    gale_kernel_destroy(&kernel);
    gale_stream_destroy(&stream);
    gale_device_close(&device);
    CHECK(gale__alloc_live() < live);
}

CHILD_TEST(a_hung_device_times_out)
{
    setenv("GALE_WATCHDOG_S", "1", 1);
    gale_device *device = open_device(m);
    gale_stream *stream = NULL;
    gale_buffer *buffer = NULL;
    if (!device || !CHECK_OK(gale_stream_create(device, &stream))) return;
    CHECK_OK(gale_buffer_create(device, 100, &buffer));
    setenv("FAKE_HANG", "1", 1);
    uint64_t begin = gale__time_ns();
    CHECK_OK(gale_fill(stream, buffer, 0, 8, "x", 1));
    CHECK_FAILS(gale_stream_sync(stream), TIMEOUT);
    CHECK(says(gale_error(), "GALE_WATCHDOG_S"));
    uint64_t waited = gale__time_ns() - begin;
    /* What the late work may still write to is nobody's until the stream has answered. */
    gale__ref late = gale__buffer_ref(buffer, 0), next;
    gale_memory_stats stats;
    gale_buffer_destroy(&buffer);
    if (!CHECK_OK(gale_buffer_create(device, 100, &buffer))) return;
    next = gale__buffer_ref(buffer, 0);
    CHECK(next.mem != late.mem || next.offset != late.offset);
    gale_buffer_destroy(&buffer);
    gale_memory_get_stats(device, &stats);
    CHECK(stats.buffers == 0 && stats.in_use_bytes >= 200);
    unsetenv("FAKE_HANG");
    for (int i = 0; i < 100 && gale_stream_sync(stream) != GALE_OK; i++) {
    } /* a device that hung once is asked once a time */
    gale_memory_get_stats(device, &stats);
    CHECK_EQ(stats.in_use_bytes, 0);
    setenv("FAKE_HANG", "1", 1); /* and a stream that never answers takes nothing with it */
    CHECK_OK(gale_buffer_create(device, 100, &buffer));
    CHECK_OK(gale_fill(stream, buffer, 0, 8, "x", 1));
    CHECK_FAILS(gale_stream_sync(stream), TIMEOUT);
    gale_buffer_destroy(&buffer);
    gale_stream_destroy(&stream);
    gale_device_close(&device);
    CHECK(waited > 900000000 && waited < 20000000000u); /* the setting, not the 30 s it is without one */
}

CHILD_TEST(device_allocations_may_fail)
{
    char n[16], words[64];
    int failed = 0;
    for (int i = 1; i < 12; i++) {
        snprintf(n, sizeof n, "%d", i);
        snprintf(words, sizeof words, "%s out of memory", m->label);
        fflush(stdout);
        pid_t child = fork(); /* the stand-in counts from the start */
        if (!child) {
            setenv("FAKE_ALLOC_FAIL_FROM", n, 1);
            gale_status status = ride(m);
            bool right = status == GALE_OK || (status == GALE_NO_MEMORY && says(gale_error(), words));
            if (!right) printf("  n=%d: %s: %s\n", i, gale_status_text(status), gale_error());
            fflush(stdout);
            _exit(!right || fake_live(m) ? 1 : status == GALE_OK ? 0 : 2);
        }
        int code = -1;
        waitpid(child, &code, 0);
        CHECK(WIFEXITED(code) && WEXITSTATUS(code) != 1);
        if (WIFEXITED(code) && WEXITSTATUS(code) == 2) failed++;
    }
    CHECK(failed >= 2);
}

CHILD_TEST(host_allocations_may_fail)
{
    CHECK_OK(ride(m)); /* what stays for the process is made here */
    int64_t live = gale__alloc_live();
    uint64_t n = 1;
    for (bool done = false; !done && n < 400; n++) {
        gale__alloc_fail_at(n);
        gale_status status = ride(m);
        gale__alloc_fail_at(0);
        done = status == GALE_OK && gale__alloc_count() < n;
        if (status != GALE_OK) CHECK_EQ(status, GALE_NO_MEMORY);
        CHECK_EQ(gale__alloc_live(), live);
        CHECK_EQ(fake_live(m), 0);
    }
    CHECK(n > 5 && n < 400);
}

TESTS(ROW(a_missing_library_is_a_reason), ROW(a_damaged_library_is_a_reason), ROW(a_missing_symbol_is_named),
    ROW(an_old_version_is_named), ROW(a_driver_that_does_not_start_is_a_reason), ROW(no_device_is_a_reason),
    ROW(groups_of_device_nodes), ROW(devices_are_described), ROW(everything_once), ROW(groups_wait_for_each_other),
    ROW(occupancy_is_told), ROW(threads_work_side_by_side), ROW(ours_are_built_once_and_kept),
    ROW(mistakes_in_kernels_are_told), ROW(a_missing_compiler_is_told), ROW(old_and_new_devices),
    ROW(a_driver_without_capture), ROW(a_lost_device_is_told), ROW(a_hung_device_times_out),
    ROW(device_allocations_may_fail), ROW(host_allocations_may_fail))
