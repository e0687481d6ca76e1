/* Names, chains and the messages people search for. */
#include "test.h"
#include "base/env.h"
#include "device/null/null.h"
#include "device/registry.h"
#include <stdlib.h>

static char lines[4096]; /* what was logged at level 2 */

static void keep(void *user, int level, const char *line)
{
    (void)user;
    if (level == 2) snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", line);
}

static gale_status open_chain(const char *chain, int index, bool strict, gale_device **out)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.chain = chain;
    options.index = index;
    options.strict = strict;
    lines[0] = 0;
    gale_log_set(keep, NULL, 0);
    gale_status status = gale_device_open(&options, out);
    gale_log_set(NULL, NULL, 2);
    return status;
}

/* A provider whose backend has no device here, or NULL. */
static const gale__provider *missing(void)
{
    int count;
    const gale__provider *all = gale__providers(&count);
    for (int i = 0; i < count; i++) {
        const gale__probe *probe;
        if (gale__provider_probe(&all[i], &probe) == GALE_OK && !probe->count) return &all[i];
    }
    return NULL;
}

TEST(names)
{
    CHECK_TEXT(gale__provider_find("CUDA")->name, "cuda");
    CHECK_TEXT(gale__provider_find("gpu")->name, "cuda");
    CHECK_TEXT(gale__provider_find("cudaexecutionprovider")->name, "cuda");
    CHECK_TEXT(gale__provider_find("trt")->backend, "cuda");
    CHECK_TEXT(gale__provider_find("MIGraphX")->name, "rocm");
    CHECK_TEXT(gale__provider_find("coreml")->name, "vulkan");
    CHECK_TEXT(gale__provider_find("WebGPU")->name, "vulkan");
    CHECK(!gale__provider_find("") && !gale__provider_find(" ") && !gale__provider_find("cud") &&
          !gale__provider_find("trt "));
    int count;
    const gale__provider *all = gale__providers(&count);
    for (int i = 0; i < count; i++) { /* each probes, or says why there is nothing */
        const gale__probe *probe;
        CHECK_OK(gale__provider_probe(&all[i], &probe));
        CHECK(probe->count > 0 || *probe->reason);
        for (int k = 0; k < probe->count; k++) {
            CHECK_EQ(probe->devices[k].index, k);
            CHECK(*probe->devices[k].name && *probe->devices[k].id && probe->devices[k].caps.memory_bytes);
        }
    }
}

TEST(unknown)
{
    gale_device *d = NULL;
    CHECK_FAILS(open_chain("cudda", -1, false, &d), NO_DEVICE);
    CHECK(strstr(gale_error(), "unknown provider \"cudda\"") && strstr(gale_error(), "vulkan"));
    CHECK_FAILS(open_chain("cpu,,null", -1, false, &d), NO_DEVICE); /* before anything is opened */
    CHECK_FAILS(open_chain("cpu,nothing", -1, false, &d), NO_DEVICE);
    CHECK_FAILS(
        open_chain("cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", -1, false, &d), LIMIT);
    CHECK(d == NULL);
}

TEST(index_out_of_range)
{
    gale_device *d = NULL;
    CHECK_FAILS(open_chain("cpu", 7, false, &d), NO_DEVICE);
    CHECK(strstr(gale_error(), "device index 7 is out of range: cpu has 1 device here"));
    CHECK(d == NULL);
}

TEST(by_name)
{
    gale_device *d = NULL;
    if (!CHECK_OK(open_chain(" CPUExecutionProvider ", -1, true, &d))) return;
    CHECK_TEXT(gale_device_get_info(d)->backend, "cpu");
    CHECK(strstr(gale_device_why(d), "requested by name"));
    CHECK_TEXT(lines, "");
    gale_device_close(&d);
    CHECK(d == NULL);
}

TEST(step_down)
{
    const gale__provider *gone = missing();
    char chain[64], want[128];
    gale_device *d = NULL;
    if (!gone) SKIP("every provider has a device here");
    snprintf(chain, sizeof chain, "%s,cpu", gone->name);
    snprintf(want, sizeof want, "%s execution provider requested but not available: ", gone->label);
    if (!CHECK_OK(open_chain(chain, -1, false, &d))) return;
    CHECK_TEXT(gale_device_get_info(d)->backend, "cpu");
    CHECK(!strncmp(lines, want, strlen(want)) && strstr(lines, "; falling back to cpu\n"));
    CHECK_EQ(strchr(lines, '\n') - lines + 1, strlen(lines)); /* one line a step */
    CHECK(strstr(gale_device_why(d), want) && strstr(gale_device_why(d), "first of the chain that works"));
    gale_device_close(&d);
    CHECK_OK(open_chain(chain, 3, false, &d)); /* the fourth of the first provider is not the fourth of all */
    gale_device_close(&d);
    CHECK_FAILS(open_chain(chain, -1, true, &d), NO_DEVICE);
    CHECK(!strncmp(gale_error(), want, strlen(want)) && strstr(gale_error(), "--strict: no fallback to cpu"));
    CHECK_FAILS(open_chain(gone->name, -1, false, &d), NO_DEVICE);
    CHECK(!strncmp(gale_error(), want, strlen(want)));
    snprintf(chain, sizeof chain, "%s,%s", gone->name, gone->name);
    CHECK_FAILS(open_chain(chain, -1, false, &d), NO_DEVICE);
    CHECK(strstr(gale_error(), "no provider in the chain is available"));
}

/* What a device came from leads to the one after it. */
TEST(next)
{
    gale_device *d = NULL, *then = NULL;
    if (!CHECK_OK(open_chain("null,cpu", -1, false, &d))) return;
    gale__fail(GALE_DEVICE_LOST, "it is gone");
    if (CHECK_OK(gale__device_next(d, GALE_DEVICE_LOST, &then))) {
        CHECK_TEXT(gale_device_get_info(then)->backend, "cpu");
        CHECK(!strncmp(gale_device_why(then), "null: it is gone\ncpu: the next provider: cpu:0 ", 47));
        gale_device_close(&d);
        gale__fail(GALE_NO_MEMORY, "too small");
        CHECK_FAILS(gale__device_next(then, GALE_NO_MEMORY, &d), NO_MEMORY); /* the last */
        CHECK_TEXT(gale_error(), "too small");
        CHECK(d == NULL);
    }
    gale_device_close(&then);
    gale_device_close(&d);
    if (!CHECK_OK(open_chain("null,cpu", -1, true, &d))) return;
    gale__fail(GALE_DEVICE_LOST, "it is gone");
    CHECK_FAILS(gale__device_next(d, GALE_DEVICE_LOST, &then), DEVICE_LOST);
    CHECK_TEXT(gale_error(), "it is gone; --strict: no fallback to cpu");
    gale_device_close(&d);
}

TEST(automatic)
{
    gale_device *d = NULL;
    if (!CHECK_OK(open_chain("auto", -1, true, &d))) return;
    CHECK(!gale_device_get_info(d)->caps.software);
    if (!strcmp(gale_device_get_info(d)->backend, "cpu")) CHECK(strstr(gale_device_why(d), "No GPU detected"));
    CHECK_TEXT(lines, "");
    gale_device_close(&d);
}

TEST(environment)
{
    gale_device *d = NULL;
    setenv("GALE_PROVIDER", "null", 1);
    setenv("GALE_POOL_LIMIT_MB", "3", 1);
    if (CHECK_OK(open_chain(NULL, -1, false, &d))) {
        gale_memory_stats stats;
        CHECK_TEXT(gale_device_get_info(d)->backend, "null");
        gale_memory_get_stats(d, &stats);
        CHECK_EQ(stats.limit_bytes, 3 << 20);
        gale_device_close(&d);
    }
    setenv("GALE_DEVICE", "5", 1);
    CHECK_FAILS(open_chain(NULL, -1, false, &d), NO_DEVICE);
    setenv("GALE_DEVICE", "first", 1);
    CHECK_FAILS(open_chain(NULL, -1, false, &d), INVALID);
    if (CHECK_OK(open_chain("cpu", GALE_DEVICE_FIRST, false, &d)))
        CHECK_TEXT(gale_device_get_info(d)->backend, "cpu"); /* options win */
    gale_device_close(&d);
    unsetenv("GALE_PROVIDER");
    unsetenv("GALE_DEVICE");
    unsetenv("GALE_POOL_LIMIT_MB");
}

TEST(counting)
{
    gale_device *d = NULL, *second;
    gale_buffer *b = NULL;
    CHECK_OK(open_chain("cpu", -1, false, &d));
    CHECK_OK(gale_buffer_create(d, 100, &b));
    second = gale__device_hold(d);
    gale_device_close(&second);
    setenv("GALE_DEBUG", "1", 1);
    lines[0] = 0;
    gale_log_set(keep, NULL, 0);
    gale_device_close(&d); /* the buffer keeps it alive, and that is said */
    gale_log_set(NULL, NULL, 2);
    CHECK(strstr(lines, "cpu:0 closed while 1 of its objects still exist, 1 of them buffers with 512 bytes"));
    CHECK_EQ(gale_buffer_size(b), 100);
    gale_buffer_destroy(&b);
    unsetenv("GALE_DEBUG");
}

TEST(null_limits)
{
    gale_device *d = NULL;
    gale_buffer *b = NULL, *c = NULL;
    gale_device_caps caps = {
        .memory_bytes = 8 << 20, .memory_free_bytes = 8 << 20, .alloc_max_bytes = 3 << 20, .group_max = 64};
    gale__null_set_caps(&caps);
    gale__null_reset_counts();
    CHECK_OK(open_chain("null", -1, false, &d));
    gale__null_set_caps(NULL);
    CHECK_FAILS(gale_buffer_create(d, (3 << 20) + 1, &b), NO_MEMORY);
    CHECK_TEXT(gale_error(),
        "null out of memory: 3.0 MiB requested, but the largest single allocation of this device is 3.0 MiB");
    CHECK_OK(gale_buffer_create(d, 3 << 20, &b));
    CHECK_OK(gale_buffer_create(d, 1 << 20, &c));
    gale__null_counts counts;
    gale__null_get_counts(&counts);
    CHECK_EQ(counts.allocations, 2);
    CHECK_EQ(counts.live_bytes, 5 << 20);
    gale_buffer_destroy(&b);
    gale_buffer_destroy(&c);
    gale_device_close(&d);
    gale__null_get_counts(&counts);
    CHECK_EQ(counts.live_bytes, 0);
    CHECK_EQ(counts.frees, 2);
}

/* A driver that compiles on the processor it runs on is slow beside other work, not hung. */
static void test_watchdog(void)
{
    const uint64_t second = 1000000000;
    unsetenv("GALE_WATCHDOG_S");
    CHECK_EQ(gale__watchdog_ns(false), 30 * second);
    CHECK_EQ(gale__watchdog_ns(true), 300 * second);
    setenv("GALE_WATCHDOG_S", "5", 1);
    CHECK_EQ(gale__watchdog_ns(false), 5 * second);
    CHECK_EQ(gale__watchdog_ns(true), 5 * second);
    setenv("GALE_WATCHDOG_S", "0", 1);
    CHECK_EQ(gale__watchdog_ns(true), 300 * second);
    unsetenv("GALE_WATCHDOG_S");
}

TESTS(ROW(watchdog), ROW(names), ROW(unknown), ROW(index_out_of_range), ROW(by_name), ROW(step_down), ROW(next),
    ROW(automatic), ROW(environment), ROW(counting), ROW(null_limits))
