/* Providers and backends: two tables generated from lists, and what each backend finds on this machine, probed once
 * per process because drivers take time to start. */
#include "device/registry.h"
#include "gale_built.h"
#include <stdio.h>
#include <string.h>

static const gale__backend *const backends[] = {
#define X(symbol, label) &gale__backend_##symbol,
#include "device/backends.def"
#undef X
};
static const char *const labels[] = {
#define X(symbol, label) label,
#include "device/backends.def"
#undef X
};
#define N_BACKENDS ((int)(sizeof backends / sizeof *backends))

static const gale__provider providers[] = {
#define X(name, label, backend, aliases, rank, note) {name, label, #backend, aliases, note, rank},
#include "device/providers.def"
#undef X
};
#define N_PROVIDERS ((int)(sizeof providers / sizeof *providers))

const gale__backend *const *gale__backends(int *count)
{
    *count = N_BACKENDS;
    return backends;
}

const gale__provider *gale__providers(int *count)
{
    *count = N_PROVIDERS;
    return providers;
}

const char *gale__backend_label(const gale__backend *backend)
{
    for (int i = 0; i < N_BACKENDS; i++)
        if (backends[i] == backend) return labels[i];
    return backend->name;
}

const gale__backend *gale__provider_backend(const gale__provider *provider)
{
    for (int i = 0; i < N_BACKENDS; i++)
        if (!strcmp(backends[i]->name, provider->backend)) return backends[i];
    return NULL;
}

/* Is `name` one of the words in `list`? */
static bool listed(const char *list, const char *name)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)n, list);
        if (gale__text_equal_nocase(word, name)) return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

const gale__provider *gale__provider_find(const char *name)
{
    for (int i = 0; i < N_PROVIDERS; i++)
        if (gale__text_equal_nocase(providers[i].name, name) || (*name && listed(providers[i].aliases, name)))
            return &providers[i];
    return NULL;
}

/* One slot per backend, filled under its lock by whoever asks first. */
static struct slot {
    gale__mutex lock;
    gale__probe probe;
    bool done;
} slots[N_BACKENDS];
static gale__once slots_once;

static void make_slots(void)
{
    for (int i = 0; i < N_BACKENDS; i++) gale__mutex_init(&slots[i].lock);
}

gale_status gale__backend_probe(const gale__backend *backend, const gale__probe **out)
{
    gale__once_run(&slots_once, make_slots);
    int i = 0;
    while (i < N_BACKENDS && backends[i] != backend) i++;
    if (i == N_BACKENDS) return gale__fail(GALE_INTERNAL, "backend %s is not in backends.def", backend->name);
    struct slot *slot = &slots[i];
    gale_status status = GALE_OK;
    gale__mutex_lock(&slot->lock);
    if (!slot->done) {
        memset(&slot->probe, 0, sizeof slot->probe);
        status = backend->probe(&slot->probe);
        slot->done = status == GALE_OK;
    }
    gale__mutex_unlock(&slot->lock);
    if (status == GALE_OK) *out = &slot->probe;
    return status;
}

/* Driver headers of Khronos are asked for by the build; the rest can only be left out by an option.  packages: what
 * brings the driver. */
static const struct {
    const char *backend, *packages;
    gale__probe probe;
} absent[] = {
    {"cuda",
        "Debian: nvidia-driver (non-free); Ubuntu: nvidia-driver-550 or newer. Kernels need NVRTC: "
        "nvidia-cuda-toolkit, or NVIDIA's cuda-nvrtc-12-x",
        {.reason = "this build of gale does not include CUDA", .remedy = "rebuild gale with -Dcuda=enabled"}},
    {"hip",
        "Debian: libamdhip64-5 and libhiprtc-builtins5, or AMD's rocm-hip-runtime; the user must be in the groups "
        "render and video",
        {.reason = "this build of gale does not include ROCm", .remedy = "rebuild gale with -Drocm=enabled"}},
    {"opencl",
        "ocl-icd-libopencl1 and a driver: nvidia-opencl-icd, mesa-opencl-icd, intel-opencl-icd, or "
        "pocl-opencl-icd for the CPU",
        {.reason = "this build of gale does not include OpenCL", .remedy = "install opencl-headers and rebuild gale"}},
    {"vulkan",
        "libvulkan1 and a driver: mesa-vulkan-drivers (AMD, Intel, and lavapipe for the CPU) or nvidia-vulkan-icd",
        {.reason = "this build of gale does not include Vulkan",
            .remedy = "install libvulkan-dev and spirv-headers and rebuild gale"}},
};

const char *gale__provider_packages(const gale__provider *provider)
{
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (!strcmp(absent[i].backend, provider->backend)) return absent[i].packages;
    return "";
}

gale_status gale__provider_probe(const gale__provider *provider, const gale__probe **out)
{
    const gale__backend *backend = gale__provider_backend(provider);
    if (backend) return gale__backend_probe(backend, out);
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        if (!strcmp(absent[i].backend, provider->backend)) {
            *out = &absent[i].probe;
            return GALE_OK;
        }
    return gale__fail(GALE_INTERNAL, "provider %s has no backend", provider->name);
}

static void probe_one(void *arg)
{
    const gale__probe *probe;
    gale__backend_probe(arg, &probe); /* a failure is met again by whoever asks for this backend */
}

void gale__probe_all(void)
{
    gale__thread *threads[N_BACKENDS];
    for (int i = 0; i < N_BACKENDS; i++) {
        threads[i] = NULL;
        if (gale__thread_start(probe_one, (void *)backends[i], &threads[i]) != GALE_OK) probe_one((void *)backends[i]);
    }
    for (int i = 0; i < N_BACKENDS; i++)
        if (threads[i]) gale__thread_join(&threads[i]);
}
