/* Loads CUDA's or HIP's driver by its symbol list, and translates its errors.  A driver stays loaded: unloading one
 * that has run is not safe, and loading it again is slow. */
#include "device/cuda/driver.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const cuda_sonames[] = {
    "libcuda.so.1", "libcuda.so", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", NULL};
static const char *const hip_sonames[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
    "libamdhip64.so.4", "libamdhip64.so", "/opt/rocm/lib/libamdhip64.so", NULL};
static const char *const nvrtc_sonames[] = {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13", "libnvrtc.so.12",
    "/usr/local/cuda/lib64/libnvrtc.so.12", "libnvrtc.so.11.2", "/usr/local/cuda/lib64/libnvrtc.so.11.2", "libnvrtc.so",
    "/usr/local/cuda/lib64/libnvrtc.so", NULL};
static const char *const hiprtc_sonames[] = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so",
    "/opt/rocm/lib/libhiprtc.so", "libamdhip64.so.4", "libamdhip64.so", NULL};

const gale__cu_maker gale__cu_cuda = {
    .label = "CUDA",
    .vendor = "NVIDIA",
    .hip = false,
    .library = GALE__ENV_CUDA_LIBRARY,
    .rtc_library = GALE__ENV_NVRTC_LIBRARY,
    .sonames = cuda_sonames,
    .rtc_label = "NVRTC",
    .rtc_sonames = nvrtc_sonames,
    .rtc_remedy =
        "install NVRTC (libnvrtc11.2 or libnvrtc12 on Debian, cuda-nvrtc-12-8 or cuda-nvrtc-13-0 from NVIDIA)",
    .oldest_version = 11000,
    .major_unit = 1000,
    .minor_unit = 10,
    .attributes =
        {
#define X(id, cuda, hip) cuda,
#include "device/cuda/attributes.def"
#undef X
        },
};
const gale__cu_maker gale__cu_hip = {
    .label = "HIP",
    .vendor = "AMD",
    .hip = true,
    .library = GALE__ENV_HIP_LIBRARY,
    .rtc_library = GALE__ENV_HIPRTC_LIBRARY,
    .sonames = hip_sonames,
    .rtc_label = "hipRTC",
    .rtc_sonames = hiprtc_sonames,
    .rtc_remedy = "install hipRTC (libamdhip64-5 and libhiprtc-builtins5 on Debian, hip-runtime-amd from AMD)",
    .oldest_version = 40300000,
    .major_unit = 10000000,
    .minor_unit = 100000,
    .attributes =
        {
#define X(id, cuda, hip) hip,
#include "device/cuda/attributes.def"
#undef X
        },
};

static const gale__cu_symbol symbols[] = {
#define X(need, result, field, cuda, hip, args) {GALE__CU_##need, {cuda, hip}, offsetof(gale__cu_api, field)},
#include "device/cuda/api.def"
#undef X
};

gale_status gale__cu_open_library(gale__env variable, const char *const *sonames, gale__dl **out, bool *damaged)
{
    const char *named[] = {gale__env_get(variable), NULL};
    if (*named[0]) sonames = named;
    char reason[1024] = "";
    *damaged = false;
    for (; *sonames; sonames++) {
        const char *one[] = {*sonames, NULL};
        gale_status status = gale__dl_open(one, out);
        if (status == GALE_OK || status == GALE_NO_MEMORY) return status;
        bool missing = strstr(gale_error(), "No such file") != NULL;
        if (*damaged || (missing && reason[0])) continue;
        *damaged = !missing;
        snprintf(reason, sizeof reason, "%s", gale_error());
    }
    return gale__fail(GALE_NOT_FOUND, "%s", reason);
}

gale_status gale__cu_fill(gale__dl *dl, bool hip, const gale__cu_symbol *list, size_t count, void *table)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = list[i].names[hip];
        void *symbol = *name ? gale__dl_symbol(dl, name) : NULL;
        if (!symbol && *name && list[i].need)
            return gale__fail(
                GALE_UNSUPPORTED, "%s has no symbol %s: it is damaged or too old", gale__dl_name(dl), name);
        memcpy((char *)table + list[i].offset, &symbol, sizeof symbol);
    }
    return GALE_OK;
}

static gale_status start(gale__cu_api *api, gale__cu_step *step, int *code)
{
    const gale__cu_maker *maker = api->maker;
    bool damaged = false;
    gale_status status = gale__cu_open_library(maker->library, maker->sonames, &api->dl, &damaged);
    *step = damaged ? GALE__CU_DAMAGED : GALE__CU_LIBRARY;
    if (status != GALE_OK) return status;
    *step = GALE__CU_SYMBOLS;
    GALE_TRY(gale__cu_fill(api->dl, maker->hip, symbols, sizeof symbols / sizeof *symbols, api));
    *step = GALE__CU_TOO_OLD;
    if (api->driver_version(&api->version) == 0 && api->version > 0 && api->version < maker->oldest_version)
        return gale__fail(GALE_UNSUPPORTED, "the driver is for %s %d.%d, older than %d.%d", maker->label,
            api->version / maker->major_unit, api->version % maker->major_unit / maker->minor_unit,
            maker->oldest_version / maker->major_unit, maker->oldest_version % maker->major_unit / maker->minor_unit);
    *step = GALE__CU_INIT;
    *code = api->init(0);
    if (*code) return gale__cu_check(api, *code, "starting the driver");
    api->has_capture = api->capture_begin && api->capture_end && api->graph_instantiate && api->graph_destroy &&
                       api->exec_launch && api->exec_destroy;
    *step = GALE__CU_READY;
    return GALE_OK;
}

static gale__once once;
static gale__mutex lock;
static void init(void) { gale__mutex_init(&lock); }

gale_status gale__cu_load(const gale__cu_maker *maker, const gale__cu_api **out, gale__cu_step *step, int *code)
{
    static gale__cu_api loaded[2];
    static bool ready[2];
    gale__once_run(&once, init);
    gale__mutex_lock(&lock);
    gale_status status = GALE_OK;
    gale__cu_api *api = &loaded[maker->hip];
    *step = GALE__CU_READY;
    *code = 0;
    if (!ready[maker->hip]) {
        *api = (gale__cu_api){.maker = maker};
        status = start(api, step, code);
        ready[maker->hip] = status == GALE_OK;
        if (status != GALE_OK && api->dl) gale__dl_close(&api->dl);
    }
    gale__mutex_unlock(&lock);
    if (status == GALE_OK) *out = api;
    return status;
}

void gale__cu_error_words(const gale__cu_api *api, int code, char *text, size_t size)
{
    const char *name = NULL, *words = NULL;
    if (api->error_name) api->error_name(code, &name);
    if (api->error_text) api->error_text(code, &words);
    if (api->error_name_of) name = api->error_name_of(code);
    if (api->error_text_of) words = api->error_text_of(code);
    snprintf(text, size, "%s%s%s (%d)", name ? name : "error", words ? ": " : "", words ? words : "", code);
}

static gale_status status_of(int code)
{
    switch (code) {
    case GALE__CU_OUT_OF_MEMORY: return GALE_NO_MEMORY;
    case GALE__CU_NO_DEVICE: return GALE_NO_DEVICE;
    case GALE__CU_INVALID_IMAGE:
    case GALE__CU_NO_BINARY_FOR_GPU:
    case GALE__CU_INVALID_PTX:
    case GALE__CU_UNSUPPORTED_PTX_VERSION: return GALE_BUILD;
    case GALE__CU_NOT_FOUND: return GALE_NOT_FOUND;
    case GALE__CU_LAUNCH_OUT_OF_RESOURCES: return GALE_LIMIT;
    case GALE__CU_NOT_PERMITTED:
    case GALE__CU_NOT_SUPPORTED: return GALE_UNSUPPORTED;
    case GALE__CU_ECC_UNCORRECTABLE:
    case GALE__CU_NVLINK_UNCORRECTABLE:
    case GALE__CU_ILLEGAL_ADDRESS:
    case GALE__CU_LAUNCH_TIMEOUT:
    case GALE__CU_CONTEXT_IS_DESTROYED:
    case GALE__CU_ASSERT:
    case GALE__CU_UNKNOWN: return GALE_DEVICE_LOST;
    default:
        return code >= GALE__CU_HARDWARE_STACK_ERROR && code <= GALE__CU_LAUNCH_FAILED ? GALE_DEVICE_LOST
                                                                                       : GALE_INTERNAL;
    }
}

gale_status gale__cu_check(const gale__cu_api *api, int code, const char *what)
{
    if (!code) return GALE_OK;
    char words[512];
    gale__cu_error_words(api, code, words, sizeof words);
    gale_status status = status_of(code);
    const char *label = api->maker->label;
    if (status == GALE_NO_MEMORY) return gale__fail(status, "%s out of memory: %s: %s", label, what, words);
    if (status == GALE_DEVICE_LOST) return gale__fail(status, "%s device lost: %s: %s", label, what, words);
    return gale__fail(status, "%s: %s: %s", label, what, words);
}
