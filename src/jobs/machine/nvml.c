/* The few NVML calls that `gale top` needs, without its header. */
#include "jobs/machine/nvml.h"
#include <string.h>

typedef struct memory {
    unsigned long long total, free, used;
} memory;
typedef struct use {
    unsigned gpu, memory;
} use;
struct gale__nvml {
    gale__dl *dl;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *n);
    int (*handle)(unsigned index, void **device);
    int (*name)(void *device, char *name, unsigned size);
    int (*memory)(void *device, memory *out);
    int (*use)(void *device, use *out);
    int (*temperature)(void *device, int sensor, unsigned *out);
    int (*power)(void *device, unsigned *milliwatts);
    unsigned n;
    bool ready;
};

static const struct {
    const char *symbol;
    size_t at;
} symbols[] = {
    {"nvmlInit_v2", offsetof(gale__nvml, init)},
    {"nvmlShutdown", offsetof(gale__nvml, shutdown)},
    {"nvmlDeviceGetCount_v2", offsetof(gale__nvml, count)},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(gale__nvml, handle)},
    {"nvmlDeviceGetName", offsetof(gale__nvml, name)},
    {"nvmlDeviceGetMemoryInfo", offsetof(gale__nvml, memory)},
    {"nvmlDeviceGetUtilizationRates", offsetof(gale__nvml, use)},
    {"nvmlDeviceGetTemperature", offsetof(gale__nvml, temperature)},
    {"nvmlDeviceGetPowerUsage", offsetof(gale__nvml, power)},
};

static bool load(gale__nvml *n)
{
    static const char *const sonames[] = {"libnvidia-ml.so.1", "libnvidia-ml.so", NULL};
    if (gale__dl_open(sonames, &n->dl) != GALE_OK) return false;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = gale__dl_symbol(n->dl, symbols[i].symbol);
        if (!symbol) return false;
        memcpy((char *)n + symbols[i].at, &symbol, sizeof symbol);
    }
    n->ready = n->init() == 0;
    return n->ready && n->count(&n->n) == 0;
}

gale__nvml *gale__nvml_open(void)
{
    gale__nvml *n = gale__calloc(1, sizeof *n);
    if (n && !load(n)) gale__nvml_close(&n);
    return n;
}

void gale__nvml_close(gale__nvml **nvml)
{
    gale__nvml *n = *nvml;
    if (!n) return;
    if (n->ready) n->shutdown();
    gale__dl_close(&n->dl);
    gale__free(n);
    *nvml = NULL;
}

unsigned gale__nvml_count(const gale__nvml *n) { return n ? n->n : 0; }

bool gale__nvml_get(const gale__nvml *n, unsigned index, gale__nvml_state *out)
{
    void *device;
    memory m = {0};
    use u = {0};
    unsigned milliwatts = 0;
    *out = (gale__nvml_state){0};
    if (n->handle(index, &device) || n->name(device, out->name, sizeof out->name)) return false;
    if (!n->memory(device, &m)) out->total_bytes = m.total, out->used_bytes = m.used;
    if (!n->use(device, &u)) out->busy_percent = u.gpu;
    n->temperature(device, 0, &out->celsius);
    if (!n->power(device, &milliwatts)) out->watts = milliwatts / 1000;
    return true;
}
