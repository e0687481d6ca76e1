/* What the tests of one backend's kernels share: a device with a stream, buffers of floats, and a launch in gale's own
 * parameter block. */
#ifndef GALE_TEST_KERNEL_H
#define GALE_TEST_KERNEL_H
#include "test.h"
#include "base/file.h"
#include "base/process.h"
#include "device/binary_cache.h"
#include "device/registry.h"
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#define N 1000u /* elements of most buffers */

static gale_device *device;
static gale_stream *stream;

/* False, and the test is skipped or failed, when there is no device. */
static inline bool open_device(const gale__backend *backend, bool debug_layer)
{
    const gale__probe *probe;
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.debug_layer = debug_layer;
    if (!CHECK_OK(gale__backend_probe(backend, &probe))) return false;
    if (!probe->count) {
        printf("SKIP %s: %s\n", test_at, probe->reason);
        test_skipped = 1;
        return false;
    }
    if (!CHECK_OK(gale__device_open_one(backend, 0, &options, &device))) return false;
    if (CHECK_OK(gale_stream_create(device, &stream))) return true;
    gale_device_close(&device);
    return false;
}

static inline void close_device(void)
{
    gale_stream_destroy(&stream);
    CHECK_EQ(device->refs, 1); /* nothing made from it is left */
    gale_device_close(&device);
}

/* A buffer with 0, 1, 2 ... in it. */
static inline gale_buffer *counting(size_t n)
{
    gale_buffer *b = NULL;
    float *host = malloc(n * sizeof *host);
    for (size_t i = 0; i < n; i++) host[i] = (float)i;
    if (CHECK_OK(gale_buffer_create(device, n * sizeof *host, &b)))
        CHECK_OK(gale_upload(stream, b, 0, host, n * sizeof *host));
    free(host);
    return b;
}

/* Counts the elements of b that are not i * scale + add. */
static inline size_t count_wrong(gale_buffer *b, size_t n, float scale, float add)
{
    size_t wrong = 0;
    float *host = calloc(n, sizeof *host);
    CHECK_OK(gale_download(stream, b, 0, host, n * sizeof *host));
    CHECK_OK(gale_stream_sync(stream));
    for (size_t i = 0; i < n; i++) wrong += host[i] != (float)i * scale + add;
    free(host);
    return wrong;
}

static inline uint32_t word_of(float v)
{
    uint32_t w;
    memcpy(&w, &v, sizeof w);
    return w;
}

/* Runs this program's test `probe` with a variable of the environment set; whether it says `wanted`. */
static inline bool probe_says(const char *setting, const char *wanted)
{
    const char *argv[] = {"env", setting, "/proc/self/exe", "probe", NULL};
    char self[1024] = "";
    gale__str said = {0};
    int code = 0;
    if (readlink("/proc/self/exe", self, sizeof self - 1) > 0) argv[2] = self;
    CHECK_OK(gale__process_run(argv, &said, &code));
    bool found = code == 0 && strstr(gale__str_text(&said), wanted);
    if (!found) printf("%s: %s", setting, gale__str_text(&said));
    gale__str_finish(&said);
    return found;
}

/* The same where the library, by either of its names, is no library. */
static inline bool probe_says_of_garbage(const char *name, const char *wanted)
{
    char folder[512], path[1024], setting[1024];
    if (!CHECK_OK(gale__temp_folder_make(folder, sizeof folder))) return false;
    snprintf(setting, sizeof setting, "LD_LIBRARY_PATH=%s", folder);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s%s", folder, name, i ? ".1" : "");
        CHECK_OK(gale__file_write(path, "garbage", 7));
    }
    bool found = probe_says(setting, wanted);
    gale__temp_folder_remove(folder);
    return found;
}

static char cache_folder[] = "/tmp/gale-test-XXXXXX";

static inline int drop_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static inline void drop_cache(void) { nftw(cache_folder, drop_one, 8, FTW_DEPTH | FTW_PHYS); }

/* A folder of its own for compiled kernels, empty at first. */
static inline void own_cache(void)
{
    if (mkdtemp(cache_folder)) setenv("GALE_CACHE", cache_folder, 1);
    atexit(drop_cache);
}

static inline uint64_t cached_files(void)
{
    gale__binary_cache_stats stats = {0};
    CHECK_OK(gale__binary_cache_get_stats(&stats));
    return stats.files;
}

/* y = x * a + b over N elements, sent to a stream. */
typedef gale_status scale_fn(gale_stream *on, gale_kernel *kernel, gale_buffer *y, gale_buffer *x, float a, float b);
typedef struct worker {
    gale_kernel *kernel;
    scale_fn *scale;
    float a;
    gale_status status;
    size_t wrong;
} worker;

static inline gale_status scale_often(worker *w, gale_stream *own, gale_buffer *x)
{
    float back[N];
    for (int i = 0; i < 50; i++) {
        gale_buffer *y = NULL;
        GALE_TRY(gale_buffer_create(device, sizeof back, &y));
        gale_status status = w->scale(own, w->kernel, y, x, w->a, (float)i);
        if (status == GALE_OK) status = gale_download(own, y, 0, back, sizeof back);
        if (status == GALE_OK) status = gale_stream_sync(own);
        gale_buffer_destroy(&y);
        if (i % 10 == 9) gale_memory_trim(device);
        GALE_TRY(status);
        for (uint32_t k = 0; k < N; k++) w->wrong += back[k] != (float)k * w->a + (float)i;
    }
    return GALE_OK;
}

static inline void work(void *arg)
{
    worker *w = arg;
    gale_stream *own = NULL;
    gale_buffer *x = NULL;
    float host[N];
    for (uint32_t i = 0; i < N; i++) host[i] = (float)i;
    w->status = gale_stream_create(device, &own);
    if (w->status == GALE_OK) w->status = gale_buffer_create(device, sizeof host, &x);
    if (w->status == GALE_OK) w->status = gale_upload(own, x, 0, host, sizeof host);
    if (w->status == GALE_OK) w->status = scale_often(w, own, x);
    gale_buffer_destroy(&x);
    gale_stream_destroy(&own);
}

/* One kernel on four streams from four threads, with memory coming and going. */
static inline void check_threads(gale_kernel *kernel, scale_fn *scale)
{
    gale__thread *threads[4] = {NULL};
    worker workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){kernel, scale, (float)(i + 1), GALE_OK, 0};
        CHECK_OK(gale__thread_start(work, &workers[i], &threads[i]));
    }
    for (int i = 0; i < 4; i++) {
        gale__thread_join(&threads[i]);
        CHECK_EQ(workers[i].status, GALE_OK);
        CHECK_EQ(workers[i].wrong, 0);
    }
}

static inline gale_status count_in(gale_kernel *kernel, gale_buffer *y, double groups)
{
    uint32_t n = 8192, rows = (uint32_t)(groups / 256) + 1;
    return gale_kernel_launch(stream, kernel, (const uint32_t[3]){256, rows < 65535 ? rows : 65535, 1}, &y, 1, &n, 1);
}

/* A kernel of one buffer and one word that counts so far: given ever more to do, it outlasts a watchdog of one second.
 */
static inline void check_watchdog(gale_kernel *kernel)
{
    gale_buffer *y = counting(64);
    gale_status status = GALE_OK;
    setenv("GALE_WATCHDOG_S", "1", 1);
    for (double groups = 256; groups < 1e7 && status == GALE_OK; groups *= 2) {
        CHECK_OK(count_in(kernel, y, groups));
        status = gale_stream_sync(stream);
    }
    CHECK_EQ(status, GALE_TIMEOUT);
    CHECK(strstr(gale_error(), "GALE_WATCHDOG_S") != NULL);
    unsetenv("GALE_WATCHDOG_S");
    CHECK_OK(gale_stream_sync(stream));
    gale_buffer_destroy(&y);
}
#endif
