/* NVRTC without a device: which targets it takes, that text becomes code, that a mistake is told in the compiler's
 * words. */
#include "test.h"
#include "base/thread.h"
#include "device/cuda/nvrtc.h"

static const char add_text[] =
    "typedef struct { unsigned long long p[3]; unsigned int w[1]; } block;\n"
    "extern \"C\" __global__ void add(block b) {\n"
    "    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < b.w[0]) ((float *)b.p[2])[i] = ((const float *)b.p[0])[i] + ((const float *)b.p[1])[i];\n"
    "}\n";

/* The targets of this NVRTC; 0 and a spoken skip when there is none. */
static int targets(int list[64])
{
    int count = 64;
    return gale__nvrtc_archs(list, &count) == GALE_OK ? count : 0;
}

TEST(targets_are_listed_oldest_first)
{
    int list[64], count = targets(list);
    if (!count) SKIP("%s", gale_error());
    for (int i = 1; i < count; i++) CHECK(list[i] > list[i - 1]);
    char target[32];
    CHECK_OK(gale__rtc_target(&gale__cu_cuda, 0, list[count - 1], target, sizeof target));
    CHECK(!strncmp(target, "sm_", 3));
    CHECK_OK(gale__rtc_target(&gale__cu_cuda, 0, list[count - 1] + 1, target, sizeof target));
    CHECK(!strncmp(target, "compute_", 8));
    CHECK_FAILS(gale__rtc_target(&gale__cu_cuda, 0, 20, target, sizeof target), UNSUPPORTED);
    CHECK(strstr(gale_error(), "compute capability 2.0 is too old") != NULL);
}

TEST(text_becomes_code_for_each_target)
{
    int list[64], count = targets(list);
    if (!count) SKIP("%s", gale_error());
    for (int i = 0; i < count; i++) {
        if (i > 0 && i < count - 1 && list[i] != 80 && list[i] != 90) continue;
        char target[32];
        gale__bytes code = {0};
        snprintf(target, sizeof target, "sm_%d", list[i]);
        if (CHECK_OK(gale__nvrtc_compile_only(add_text, target, "--fmad=false", &code)))
            CHECK(code.size > 4 && !memcmp(code.data, "\177ELF", 4));
        gale__bytes_finish(&code);
        snprintf(target, sizeof target, "compute_%d", list[i]);
        if (CHECK_OK(gale__nvrtc_compile_only(add_text, target, "", &code)))
            CHECK(strstr(code.data, ".visible .entry add") != NULL);
        gale__bytes_finish(&code);
    }
}

TEST(the_compilers_message_is_the_error)
{
    int list[64];
    if (!targets(list)) SKIP("%s", gale_error());
    gale__bytes code = {0};
    int64_t live = gale__alloc_live();
    CHECK_FAILS(gale__nvrtc_compile_only("extern \"C\" __global__ void k() { nonsense; }", "sm_90", "", &code), BUILD);
    CHECK(strstr(gale_error(), "identifier \"nonsense\" is undefined") != NULL);
    CHECK_FAILS(gale__nvrtc_compile_only(add_text, "sm_90", "--no-such-option", &code), BUILD);
    CHECK(strstr(gale_error(), "no-such-option") != NULL);
    CHECK_FAILS(gale__nvrtc_compile_only(add_text, "sm_12345", "", &code), BUILD);
    CHECK_EQ(gale__alloc_live(), live);
}

static void compile_one(void *arg, size_t i, int worker)
{
    char text[512];
    gale__bytes code = {0};
    (void)worker;
    snprintf(text, sizeof text, "extern \"C\" __global__ void k%zu(int *p) { p[threadIdx.x] = %zu; }", i, i);
    ((gale_status *)arg)[i] = gale__nvrtc_compile_only(text, "sm_90", "", &code);
    gale__bytes_finish(&code);
}

TEST(threads_compile_side_by_side)
{
    int list[64];
    if (!targets(list)) SKIP("%s", gale_error());
    gale_status results[8];
    gale__parallel(8, compile_one, results);
    for (int i = 0; i < 8; i++) CHECK_EQ(results[i], GALE_OK);
    gale__parallel_finish();
}

TEST(allocations_may_fail)
{
    int list[64];
    if (!targets(list)) SKIP("%s", gale_error());
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1; n < 4; n++) {
        gale__bytes code = {0};
        gale__alloc_fail_at(n);
        gale_status status = gale__nvrtc_compile_only(add_text, "sm_90", "", &code);
        gale__alloc_fail_at(0);
        CHECK(status == GALE_OK || status == GALE_NO_MEMORY);
        gale__bytes_finish(&code);
        CHECK_EQ(gale__alloc_live(), live);
    }
}

TESTS(ROW(targets_are_listed_oldest_first), ROW(text_becomes_code_for_each_target),
    ROW(the_compilers_message_is_the_error), ROW(threads_compile_side_by_side), ROW(allocations_may_fail))
