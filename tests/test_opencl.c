/* Kernels through OpenCL: gale's parameter block, kernels that users bring, the compiler's message, the cache.  Memory,
 * streams and events are tested for all backends in test_device.c. */
#include "kernel.h"

static const uint32_t group[3] = {64, 1, 1};
static const uint32_t groups[3] = {(N + 63) / 64, 1, 1};

static const char scale_text[] = "struct block { ulong offset[2]; uint w[3]; };\n"
                                 "__kernel void scale(__global uchar *py, __global uchar *px, struct block b) {\n"
                                 "    __global float *y = (__global float *)(py + b.offset[0]);\n"
                                 "    __global const float *x = (__global const float *)(px + b.offset[1]);\n"
                                 "    uint i = (uint)get_global_id(0);\n"
                                 "    if (i < b.w[0]) y[i] = x[i] * as_float(b.w[1]) + as_float(b.w[2]);\n"
                                 "}\n";
static const char user_text[] = "__kernel void axpy(__global float *y, __global const float *x, uint n, float a) {\n"
                                "    uint i = (uint)get_global_id(0);\n"
                                "    if (i < n) y[i] = a * x[i];\n"
                                "}\n";

static gale_status build_ours(const char *text, gale_module **module)
{
    gale__source source = {.code = GALE__CODE_TEXT, .data = text, .size = strlen(text), .options = "", .ours = true};
    return gale__module_build(device, &source, module);
}

static gale_status scale(gale_stream *on, gale_kernel *kernel, gale_buffer *y, gale_buffer *x, float a, float b)
{
    gale__ref refs[2] = {gale__buffer_ref(y, 0), gale__buffer_ref(x, 0)};
    uint32_t words[3] = {N, word_of(a), word_of(b)};
    gale__launch launch = {
        .groups = {groups[0], 1, 1}, .group = {64, 1, 1}, .n_refs = 2, .n_words = 3, .refs = refs, .words = words};
    return gale__launch_run(on, kernel, &launch);
}

TEST(probe)
{
    const gale__probe *p;
    if (!CHECK_OK(gale__backend_probe(&gale__backend_opencl, &p))) return;
    if (!p->count) {
        CHECK(p->reason[0] && p->remedy[0]);
        SKIP("%s", p->reason);
    }
    const gale_device_info *d = &p->devices[0];
    CHECK(d->name[0] && d->driver[0] && d->id[0] && p->library[0]);
    CHECK(d->caps.memory_bytes && d->caps.alloc_max_bytes && d->caps.group_max && d->caps.shared_bytes &&
          d->caps.compute_units);
    CHECK_FAILS(gale__device_open_one(&gale__backend_opencl, p->count, NULL, &device), NO_DEVICE);
}

/* Each want is a reason in words, and no error. */
TEST(absent)
{
    const gale__probe *p;
    if (!CHECK_OK(gale__backend_probe(&gale__backend_opencl, &p))) return;
    if (!p->library[0]) SKIP("%s", p->reason);
    /* NVIDIA's loader knows its own driver without being told. */
    if (!p->count || p->devices[0].caps.software)
        CHECK(probe_says("OCL_ICD_VENDORS=/nonexistent", "no OpenCL platform"));
    CHECK(probe_says_of_garbage("libOpenCL.so", "libOpenCL.so.1: file too short"));
}

TEST(ours)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_device(&gale__backend_opencl, false)) return;
    gale_buffer *pad = counting(3), *x = counting(N), *y = counting(N); /* x and y begin inside a block */
    CHECK(x->offset > 0);
    if (CHECK_OK(build_ours(scale_text, &module)) && CHECK_OK(gale_kernel_get(module, "scale", group, &kernel))) {
        CHECK_OK(scale(stream, kernel, y, x, 3, 1));
        CHECK_EQ(count_wrong(y, N, 3, 1), 0);
        CHECK_OK(scale(stream, kernel, x, y, 2, 0));
        CHECK_EQ(count_wrong(x, N, 6, 2), 0);
    }
    gale_buffer_destroy(&pad);
    gale_buffer_destroy(&x);
    gale_buffer_destroy(&y);
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    close_device();
}

static void count_whole(void *user, int level, const char *line)
{
    (void)level;
    *(int *)user += strstr(line, "all of PoCL's declarations") != NULL;
}

/* PoCL 3 gets only the declarations of functions that our kernels call; after one that calls others
 * programs get all of them. */
TEST(declarations)
{
    static const char all[] =
        "__kernel void all(__global float *x, __global double *y, __global uint *u) {\n"
        "    uint i = (uint)(get_local_id(0) + get_group_id(0) * get_num_groups(0)), w = mul_hi(u[i], min(u[0], 7u));\n"
        "    ushort h = 0;\n"
        "    float a = fma(floor(x[i]), ceil(x[0]), rint(trunc(sqrt(fabs(fmin(x[1], fmax(x[2], 1.0f)))))));\n"
        "    vstore_half_rte(native_exp(native_divide(a, native_sin(a))), 0, (half *)&h);\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    x[i] = vload_half(0, (const half *)&h), y[i] = fma(y[0], y[1], y[2]), u[i] = max(w, atomic_add(u, "
        "3u));\n}";
    static const char other[] = "__kernel void other(__global float *x) { x[0] = sin(x[1]); }";
    gale_module *module = NULL;
    int whole = 0;
    if (!open_device(&gale__backend_opencl, false)) return;
    bool lean = strstr(device->info.driver, "Portable Computing Language 3.") != NULL;
    gale_log_set(count_whole, &whole, GALE__INFO);
    if (lean && device->info.caps.f64) CHECK_OK(build_ours(all, &module));
    gale_module_destroy(&module);
    CHECK_EQ(whole, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(build_ours(other, &module));
        gale_module_destroy(&module);
        CHECK_EQ(whole, lean);
    }
    gale_log_set(NULL, NULL, 0);
    close_device();
}

TEST(users)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_device(&gale__backend_opencl, false)) return;
    gale_buffer *x = counting(N), *y = counting(N);
    uint32_t words[2] = {N, word_of(0.5f)};
    if (CHECK_OK(
            gale_module_create(device, "opencl", user_text, strlen(user_text), "-cl-fast-relaxed-math", &module)) &&
        CHECK_OK(gale_kernel_get(module, "axpy", group, &kernel))) {
        CHECK_OK(gale_kernel_launch(stream, kernel, groups, (gale_buffer *[]){y, x}, 2, words, 2));
        CHECK_EQ(count_wrong(y, N, 0.5f, 0), 0);
        CHECK_FAILS(gale_kernel_launch(stream, kernel, groups, (gale_buffer *[]){y, x, x}, 3, words, 2), INVALID);
        CHECK(strstr(gale_error(), "axpy") != NULL);
        CHECK_FAILS(gale_kernel_launch(stream, kernel, groups, (gale_buffer *[]){y, x}, 2, words, 1), INVALID);
        CHECK(strstr(gale_error(), "4 arguments") != NULL);
    }
    gale_buffer_destroy(&x);
    gale_buffer_destroy(&y);
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    close_device();
}

TEST(refusals)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_device(&gale__backend_opencl, false)) return;
    const char bad[] = "__kernel void f(__global float *y) { y[0] = undeclared_thing; }";
    CHECK_FAILS(gale_module_create(device, "opencl", bad, sizeof bad - 1, NULL, &module), BUILD);
    CHECK(strstr(gale_error(), "undeclared_thing") != NULL);
    CHECK_FAILS(gale_module_create(device, "spirv", "\3\2\43\7", 4, NULL, &module), UNSUPPORTED);
    CHECK(gale_module_create(device, "binary", "garbage", 7, NULL, &module) != GALE_OK);
    CHECK(module == NULL);
    if (CHECK_OK(gale_module_create(device, "opencl", user_text, strlen(user_text), NULL, &module))) {
        CHECK_FAILS(gale_kernel_get(module, "nothing", group, &kernel), NOT_FOUND);
        CHECK(strstr(gale_error(), "axpy") != NULL);
        CHECK_FAILS(gale_kernel_get(module, "axpy", (const uint32_t[3]){32768, 1, 1}, &kernel), LIMIT);
    }
    gale_module_destroy(&module);
    close_device();
}

/* The second build comes from the disk; what cannot be used there is compiled anew. */
TEST(cache)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_device(&gale__backend_opencl, false)) return;
    own_cache();
    gale_buffer *x = counting(N), *y = counting(N);
    char key[GALE__BINARY_KEY];
    gale__binary_cache_key_for(user_text, strlen(user_text), device->info.name, device->info.driver, "", key);
    for (int round = 0; round < 3; round++) {
        if (round == 2) gale__binary_cache_put(key, "garbage", 7);
        if (!CHECK_OK(gale_module_create(device, "opencl", user_text, strlen(user_text), "", &module))) break;
        CHECK_EQ(cached_files(), 1);
        if (CHECK_OK(gale_kernel_get(module, "axpy", group, &kernel))) {
            uint32_t words[2] = {N, word_of((float)(round + 2))};
            CHECK_OK(gale_kernel_launch(stream, kernel, groups, (gale_buffer *[]){y, x}, 2, words, 2));
            CHECK_EQ(count_wrong(y, N, (float)(round + 2), 0), 0);
        }
        gale_kernel_destroy(&kernel);
        gale_module_destroy(&module);
        gale__bytes kept = {0};
        CHECK(gale__binary_cache_get(key, &kept) && kept.size > 100);
        gale__bytes_finish(&kept);
    }
    gale_buffer_destroy(&x);
    gale_buffer_destroy(&y);
    close_device();
}

/* One kernel from several threads: the arguments of one launch must not leak into another. */
TEST(threads)
{
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_device(&gale__backend_opencl, false)) return;
    if (CHECK_OK(build_ours(scale_text, &module)) && CHECK_OK(gale_kernel_get(module, "scale", group, &kernel)))
        check_threads(kernel, scale);
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    close_device();
}

TEST(watchdog)
{
    static const char text[] =
        "__kernel void count(__global volatile float *y, uint n) { for (uint i = 0; i < n; i++) y[0] += 1; }";
    gale_module *module = NULL;
    gale_kernel *kernel = NULL;
    if (!open_device(&gale__backend_opencl, false)) return;
    if (CHECK_OK(gale_module_create(device, "opencl", text, strlen(text), NULL, &module)) &&
        CHECK_OK(gale_kernel_get(module, "count", (const uint32_t[3]){1, 1, 1}, &kernel)))
        check_watchdog(kernel);
    gale_kernel_destroy(&kernel);
    gale_module_destroy(&module);
    close_device();
}

TESTS(ROW(probe), ROW(absent), ROW(ours), ROW(declarations), ROW(users), ROW(refusals), ROW(cache), ROW(threads),
    ROW(watchdog))
