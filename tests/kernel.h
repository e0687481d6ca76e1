/* What the tests of one backend's kernels share: a device with a stream, buffers of floats, and a launch in gale's own
 * parameter block. */
#ifndef GALE_TEST_KERNEL_H
#define GALE_TEST_KERNEL_H
#include "test.h"
#include "base/file.h"
#include "base/program.h"
#include "device/binary_cache.h"
#include "device/registry.h"
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

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
    if (CHECK_OK(gale_buffer_create(device, n * sizeof *host, &b))) CHECK_OK(gale_upload(stream, b, 0, host, n * sizeof *host));
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
    CHECK_OK(gale__program_run(argv, &said, &code));
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
#endif
