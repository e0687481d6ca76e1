/* Kernels through Vulkan: gale's parameter block in push constants and by address, capture, several streams, SPIR-V and
 * GLSL that users bring, the compiler's message, the cache, and silence of the validation layer over all of it.
 * Memory, streams and events are tested for all backends in test_device.c. */
#include "kernel.h"
#include "spirv_scale.h"
#include "base/error.h"
#include <unistd.h>

#define MANY 128 /* words of a block that no device takes as push constants */
static const uint32_t group[3] = {64, 1, 1};
static const uint32_t groups[3] = {(N + 63) / 64, 1, 1};

/* Messages of the layer: each is a fault of the backend. */
static int complaints;
static void listen(void *user, int level, const char *line)
{
    (void)user;
    if (level < 2 || !strstr(line, "vulkan layer:")) return;
    if (++complaints <= 5) printf("%s\n", line);
}

static bool open_checked(void)
{
    complaints = 0;
    gale_log_set(listen, NULL, 2);
    return open_device(&gale__backend_vulkan, true);
}

static void close_checked(void)
{
    close_device();
    CHECK_EQ(complaints, 0);
    gale_log_set(NULL, NULL, 2);
}

static bool make_scale(bool by_address, gale_module **module, gale_kernel **kernel)
{
    assembly a;
    size_t n = spirv_scale(&a, by_address, group[0]);
    gale__source source = {.code = GALE__CODE_SPIRV, .data = a.words, .size = n * 4, .options = "", .ours = true};
    return CHECK_OK(gale__module_build(device, &source, module)) &&
           CHECK_OK(gale_kernel_get(*module, "scale", group, kernel));
}

static gale_status scale(
    gale_stream *on, gale_kernel *kernel, bool by_address, gale_buffer *y, gale_buffer *x, float a, float b)
{
    gale__ref refs[2] = {gale__buffer_ref(y, 0), gale__buffer_ref(x, 0)};
    uint32_t words[MANY] = {N, word_of(a), word_of(b)};
    gale__launch launch = {.groups = {groups[0], 1, 1},
        .group = {64, 1, 1},
        .n_refs = 2,
        .n_words = by_address ? MANY : 3,
        .refs = refs,
        .words = words};
    return gale__launch_run(on, kernel, &launch);
}

TEST(probe)
{
    const gale__probe *p;
    if (!CHECK_OK(gale__backend_probe(&gale__backend_vulkan, &p))) return;
    if (!p->count) {
        CHECK(p->reason[0] && p->remedy[0]);
        SKIP("%s", p->reason);
    }
    const gale_device_info *d = &p->devices[0];
    CHECK(d->name[0] && d->driver[0] && d->vendor[0] && p->library[0]);
    CHECK_EQ(strlen(d->id), 5 + 32);
    CHECK(d->caps.memory_bytes && d->caps.alloc_max_bytes && d->caps.group_max && d->caps.shared_bytes &&
          d->caps.push_bytes >= 128);
    CHECK(d->caps.groups_max[0] >= 65535 && d->caps.subgroup && d->caps.capture);
    CHECK_FAILS(gale__device_open_one(&gale__backend_vulkan, p->count, NULL, &device), NO_DEVICE);
}

/* Each want is a reason in words, and no error. */
TEST(absent)
{
    const gale__probe *p;
    if (!CHECK_OK(gale__backend_probe(&gale__backend_vulkan, &p))) return;
    if (!p->library[0]) SKIP("%s", p->reason);
    CHECK(probe_says("VK_ICD_FILENAMES=/nonexistent", "no Vulkan driver"));
    gale__dl *nvidia = NULL; /* NVIDIA's driver is asked without the loader */
    bool direct = gale__dl_open((const char *const[]){"libEGL_nvidia.so.0", NULL}, &nvidia) == GALE_OK;
    gale__dl_close(&nvidia);
    CHECK(probe_says_of_garbage("libvulkan.so", direct ? "1 passed" : "libvulkan.so.1: file too short"));
}

/* The module itself, by Khronos' own judge. */
TEST(assembly_is_valid)
{
    if (system("spirv-val --version > /dev/null 2>&1")) SKIP("spirv-val is not installed (spirv-tools)");
    for (int by_address = 0; by_address < 2; by_address++) {
        assembly a;
        char path[] = "/tmp/gale-spirv-XXXXXX", command[128];
        size_t n = spirv_scale(&a, by_address, 64);
        int fd = mkstemp(path);
        CHECK(fd >= 0 && write(fd, a.words, n * 4) == (ssize_t)(n * 4));
        close(fd);
        snprintf(command, sizeof command, "spirv-val --target-env vulkan1.2 %s", path);
        CHECK_EQ(system(command), 0);
        remove(path);
    }
}

TEST(ours)
{
    if (!open_checked()) return;
    for (int by_address = 0; by_address < 2; by_address++) {
        gale_module *module = NULL;
        gale_kernel *kernel = NULL;
        gale_buffer *pad = counting(3), *x = counting(N), *y = counting(N);
        if (make_scale(by_address, &module, &kernel)) {
            CHECK_OK(scale(stream, kernel, by_address, y, x, 3, 1));
            CHECK_EQ(count_wrong(y, N, 3, 1), 0);
            CHECK_OK(scale(stream, kernel, by_address, x, y, 2, 0));
            CHECK_EQ(count_wrong(x, N, 6, 2), 0);
            gale__launch far = {.groups = {1, 1u << 31, 1}, .group = {64, 1, 1}};
            CHECK_FAILS(gale__launch_run(stream, kernel, &far), LIMIT);
        }
        gale_buffer_destroy(&pad);
        gale_buffer_destroy(&x);
        gale_buffer_destroy(&y);
        gale_kernel_destroy(&kernel);
        gale_module_destroy(&module);
    }
    close_checked();
}

/* More commands than a batch takes, and more parameters than all batches: each launch must see its own. */
TEST(many_launches)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_checked()) return;
    gale_buffer *x = counting(N);
    int rounds = 2000;
    if (make_scale(true, &module, &kernel)) {
        for (int i = 0; i < rounds; i++) CHECK_OK(scale(stream, kernel, true, x, x, 1, (float)(i % 7)));
        float sum = 0;
        for (int i = 0; i < rounds; i++) sum += (float)(i % 7);
        CHECK_EQ(count_wrong(x, N, 1, sum), 0);
    }
    gale_buffer_destroy(&x);
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    close_checked();
}

/* A captured sequence keeps its parameters while the stream goes on with others, and replays on another stream. */
TEST(captures)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    gale_capture *capture = NULL;
    gale_stream *other = NULL;
    if (!open_checked()) return;
    gale_buffer *x = counting(N), *y = counting(N);
    if (make_scale(true, &module, &kernel) && CHECK_OK(gale_stream_create(device, &other))) {
        CHECK_OK(gale_stream_sync(stream));
        CHECK_OK(gale_capture_begin(stream));
        for (int i = 0; i < 300; i++)
            CHECK_OK(scale(stream, kernel, true, x, x, 1, 2)); /* several chunks of parameters */
        CHECK_OK(gale_capture_end(stream, &capture));
        CHECK_EQ(count_wrong(x, N, 1, 0), 0);
        for (int i = 0; i < 200; i++) CHECK_OK(scale(stream, kernel, true, y, y, 1, 1));
        CHECK_OK(gale_capture_replay(stream, capture));
        CHECK_OK(gale_capture_replay(stream, capture));
        CHECK_EQ(count_wrong(y, N, 1, 200), 0);
        CHECK_EQ(count_wrong(x, N, 1, 1200), 0);
        CHECK_OK(gale_capture_replay(stream, capture));
        CHECK_OK(gale_capture_replay(other, capture));
        gale_capture_destroy(&capture); /* while it may still be running */
        CHECK_OK(gale_stream_sync(other));
        CHECK_EQ(count_wrong(x, N, 1, 2400), 0);
    }
    gale_stream_destroy(&other);
    gale_buffer_destroy(&x);
    gale_buffer_destroy(&y);
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    close_checked();
}

/* Two streams hand a buffer to and fro by events; memory and the kernel go away while work is still queued. */
TEST(streams)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    gale_stream *other = NULL;
    gale_event *mine = NULL, *theirs = NULL;
    double time_us = -1;
    if (!open_checked()) return;
    gale_buffer *x = counting(N), *y = counting(N), *z = counting(N);
    if (make_scale(false, &module, &kernel) && CHECK_OK(gale_stream_create(device, &other)) &&
        CHECK_OK(gale_event_create(device, &mine)) && CHECK_OK(gale_event_create(device, &theirs))) {
        for (int i = 0; i < 20; i++) {
            CHECK_OK(scale(stream, kernel, false, x, x, 1, 1));
            CHECK_OK(gale_event_record(mine, stream));
            CHECK_OK(gale_stream_wait(other, mine));
            CHECK_OK(scale(other, kernel, false, x, x, 1, 2));
            CHECK_OK(gale_event_record(theirs, other));
            CHECK_OK(gale_stream_wait(stream, theirs));
        }
        CHECK_EQ(count_wrong(x, N, 1, 60), 0);
        CHECK_OK(gale_event_wait(theirs));
        CHECK_OK(gale_event_elapsed(mine, theirs, &time_us));
        CHECK(time_us >= 0 && time_us < 1e7);
        CHECK_OK(scale(other, kernel, false, z, y, 1, 1));
        gale_stream_destroy(&other); /* its event outlives it */
        CHECK_OK(gale_event_wait(theirs));
        CHECK_OK(scale(stream, kernel, false, z, y, 1, 1));
    }
    gale_event_destroy(&mine);
    gale_event_destroy(&theirs);
    gale_buffer_destroy(&x);
    gale_buffer_destroy(&y);
    gale_buffer_destroy(&z);
    gale_memory_trim(device);
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    gale_stream_destroy(&other);
    close_checked();
}

/* A stream and its event go while work of another stream, which waits for them, is still on its way. */
TEST(waits_outlive_their_stream)
{
    enum { SIZE = 8 << 20, ROUNDS = 100 };
    gale_buffer *a = NULL, *b = NULL;
    uint32_t first = 0;
    if (!open_checked()) return;
    if (CHECK_OK(gale_buffer_create(device, SIZE, &a)) && CHECK_OK(gale_buffer_create(device, SIZE, &b)))
        for (uint32_t i = 0; i < ROUNDS; i++) {
            gale_stream *other = NULL;
            gale_event *event = NULL;
            if (!CHECK_OK(gale_stream_create(device, &other)) || !CHECK_OK(gale_event_create(device, &event))) break;
            CHECK_OK(gale_fill(other, a, 0, 4, &i, 4));
            CHECK_OK(gale_event_record(event, other));
            CHECK_OK(gale_stream_wait(stream, event));
            CHECK_OK(gale_copy(stream, b, 0, a, 0, i % 10 ? 4 : SIZE)); /* the large ones take their time */
            gale_stream_destroy(&other);
            gale_event_destroy(&event);
            if (i == 79) CHECK_OK(gale_stream_sync(stream)); /* so many are outstanding at once */
        }
    CHECK_OK(gale_download(stream, b, 0, &first, 4));
    CHECK_OK(gale_stream_sync(stream));
    CHECK_EQ(first, ROUNDS - 1);
    gale_buffer_destroy(&a);
    gale_buffer_destroy(&b);
    close_checked();
}

/* Large copies and fills, which are kernels where the layer watches: odd ends, and nothing beyond them. */
TEST(bulk)
{
    enum { SIZE = (3 << 20) + 64, AT = 32, USED = (2 << 20) + 13 * 8 };
    gale_buffer *a = NULL, *b = NULL;
    uint64_t pattern = 0x0123456789abcdefu, guard = 0x7777777777777777u, *host = malloc(SIZE);
    size_t wrong = 0;
    if (!open_checked()) return;
    CHECK_OK(gale_buffer_create(device, SIZE, &a));
    CHECK_OK(gale_buffer_create(device, SIZE, &b));
    CHECK_OK(gale_fill(stream, a, 0, SIZE, &guard, 1));
    CHECK_OK(gale_fill(stream, b, 0, SIZE, &guard, 4));
    CHECK_OK(gale_fill(stream, a, AT, USED, &pattern, 8));
    CHECK_OK(gale_copy(stream, b, 2 * AT, a, AT, USED));
    CHECK_OK(gale_download(stream, b, 0, host, SIZE));
    CHECK_OK(gale_stream_sync(stream));
    for (size_t i = 0; i < SIZE / 8; i++)
        wrong += host[i] != (i >= 2 * AT / 8 && i < (2 * AT + USED) / 8 ? pattern : guard);
    CHECK_EQ(wrong, 0);
    CHECK_OK(gale_fill(stream, b, 1, SIZE - 2, "\5", 1)); /* begins at an odd byte: by copies */
    CHECK_OK(gale_download(stream, b, 0, host, SIZE));
    CHECK_OK(gale_stream_sync(stream));
    const uint8_t *bytes = (const uint8_t *)host;
    CHECK(bytes[0] == 0x77 && bytes[1] == 5 && bytes[SIZE - 2] == 5 && bytes[SIZE - 1] == 0x77);
    gale_buffer_destroy(&a);
    gale_buffer_destroy(&b);
    free(host);
    close_checked();
}

static gale_status scale_pushed(gale_stream *on, gale_kernel *kernel, gale_buffer *y, gale_buffer *x, float a, float b)
{
    return scale(on, kernel, false, y, x, a, b);
}

TEST(threads)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_checked()) return;
    if (make_scale(false, &module, &kernel)) check_threads(kernel, scale_pushed);
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    close_checked();
}

static const char glsl_text[] = "#version 450\n"
                                "#extension GL_EXT_buffer_reference : require\n"
                                "layout(local_size_x = 64) in;\n"
                                "layout(buffer_reference, std430) buffer Floats { float v[]; };\n"
                                "layout(push_constant) uniform Block { Floats y; Floats x; uint n; float a; };\n"
                                "void main() {\n"
                                "    uint i = gl_GlobalInvocationID.x;\n"
                                "    if (i < n) y.v[i] = x.v[i] * a + ADD;\n"
                                "}\n";

/* Whether anything here compiles GLSL; said aloud when not. */
static bool compiles_glsl(void)
{
    gale_module *module = NULL;
    gale_status status = gale_module_create(device, "glsl", glsl_text, strlen(glsl_text), "-DADD=1.0", &module);
    gale_module_destroy(&module);
    if (status != GALE_UNSUPPORTED) return CHECK_OK(status);
    printf("SKIP %s: %s\n", test_at, gale_error());
    test_skipped = 1;
    return false;
}

TEST(glsl)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_checked()) return;
    if (!compiles_glsl()) {
        close_checked();
        return;
    }
    gale_buffer *x = counting(N), *y = counting(N);
    uint32_t words[32] = {N, word_of(0.5f)};
    if (CHECK_OK(gale_module_create(device, "glsl", glsl_text, strlen(glsl_text), "-DADD=1.0", &module)) &&
        CHECK_OK(gale_kernel_get(module, "main", group, &kernel))) {
        CHECK_OK(gale_kernel_launch(stream, kernel, groups, (gale_buffer *[]){y, x}, 2, words, 2));
        CHECK_EQ(count_wrong(y, N, 0.5f, 1), 0);
        gale_buffer *all[32];
        for (int i = 0; i < 32; i++) all[i] = x;
        CHECK_FAILS(gale_kernel_launch(stream, kernel, groups, all, 32, words, 32), INVALID);
        CHECK_FAILS(gale_kernel_launch(stream, kernel, groups, all, 2, words, 1), INVALID); /* a word is missing */
        CHECK(strstr(gale_error(), "24") != NULL);
        CHECK_FAILS(gale_kernel_launch(stream, kernel, groups, all, 1, words, 2), INVALID);
        CHECK_FAILS(gale_kernel_launch(stream, kernel, groups, all, 2, words, 3), INVALID);
    }
    gale_kernel_destroy(&kernel);
    CHECK_FAILS(gale_kernel_get(module, "main", (const uint32_t[3]){32, 1, 1}, &kernel), INVALID);
    gale_module_destroy(&module);
    CHECK_FAILS(gale_module_create(device, "glsl", glsl_text, strlen(glsl_text), NULL, &module), BUILD);
    CHECK(strstr(gale_error(), "ADD") != NULL);
    CHECK_FAILS(gale_module_create(device, "glsl", glsl_text, strlen(glsl_text), "-O3", &module), INVALID);
    gale_buffer_destroy(&x);
    gale_buffer_destroy(&y);
    close_checked();
}

TEST(refusals)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    assembly a;
    if (!open_checked()) return;
    CHECK_FAILS(gale_module_create(device, "spirv", "not spir-v at all, not spir-v at all", 36, NULL, &module), FORMAT);
    CHECK_FAILS(gale_module_create(device, "opencl", "x", 1, NULL, &module), UNSUPPORTED);
    size_t n = spirv_scale(&a, false, 64);
    if (CHECK_OK(gale_module_create(device, "spirv", a.words, n * 4, NULL, &module))) {
        CHECK_FAILS(gale_kernel_get(module, "scales", group, &kernel), NOT_FOUND);
        CHECK(strstr(gale_error(), "scale)") != NULL);
        CHECK_FAILS(gale_kernel_get(module, "scale", (const uint32_t[3]){128, 1, 1}, &kernel), INVALID);
        CHECK(strstr(gale_error(), "64x1x1") != NULL);
    }
    gale_module_destroy(&module);
    close_checked();
}

/* GLSL is compiled once; the second time its words come from the disk. */
TEST(cache)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_checked()) return;
    if (!compiles_glsl()) {
        close_checked();
        return;
    }
    own_cache();
    uint64_t files = 0;
    for (int round = 0; round < 2; round++) {
        CHECK_OK(gale_module_create(device, "glsl", glsl_text, strlen(glsl_text), "-DADD=2.0", &module));
        CHECK_OK(gale_kernel_get(module, "main", group, &kernel));
        gale_kernel_destroy(&kernel);
        gale_module_destroy(&module);
        if (round) CHECK_EQ(cached_files(), files);
        files = cached_files();
        CHECK(files >= 1);
    }
    close_checked();
}

TEST(watchdog)
{
    static const char text[] = "#version 450\n"
                               "#extension GL_EXT_buffer_reference : require\n"
                               "layout(local_size_x = 1) in;\n"
                               "layout(buffer_reference, std430) volatile buffer Floats { float v[]; };\n"
                               "layout(push_constant) uniform Block { Floats y; uint n; };\n"
                               "void main() { for (uint i = 0; i < n; i++) y.v[0] += 1; }\n";
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_checked()) return;
    if (compiles_glsl() && CHECK_OK(gale_module_create(device, "glsl", text, strlen(text), NULL, &module)) &&
        CHECK_OK(gale_kernel_get(module, "main", (const uint32_t[3]){1, 1, 1}, &kernel)))
        check_watchdog(kernel);
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    close_checked();
}

TESTS(ROW(probe), ROW(absent), ROW(assembly_is_valid), ROW(ours), ROW(many_launches), ROW(captures), ROW(streams),
    ROW(waits_outlive_their_stream), ROW(bulk), ROW(threads), ROW(glsl), ROW(refusals), ROW(cache), ROW(watchdog))
