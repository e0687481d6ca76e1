/* Devices: opened by backend and index, reference-counted, closed when the last object created from them is gone.  The
 * registry maps provider chains to devices. */
#include "device/front.h"
#include "device/ceilings.h"
#include "base/env.h"
#include <stdatomic.h>
#include <string.h>

const gale_device_info *gale_device_get_info(const gale_device *device)
{
    if (!device) return gale__lack(__func__, "device"), NULL;
    return &device->info;
}

const char *gale_device_why(const gale_device *device)
{
    if (!device) return gale__lack(__func__, "device"), "";
    return device->why ? device->why : "";
}

gale_device *gale__device_hold(gale_device *device)
{
    atomic_fetch_add(&device->refs, 1);
    return device;
}

gale_device *gale__device_attach(gale_device *device)
{
    atomic_fetch_add(&device->objects, 1);
    return gale__device_hold(device);
}

uint64_t gale__watchdog_ns(bool software)
{
    int64_t usual = software ? 300 : 30, seconds = gale__env_get_i64(GALE__ENV_WATCHDOG_S, usual);
    return (uint64_t)(seconds > 0 ? seconds : usual) * 1000000000u;
}

static void finish(gale_device *device)
{
    gale_device_close(&device->other);
    if (device->kernel_state_finish) device->kernel_state_finish(device->kernel_state);
    if (device->graph_state_finish) device->graph_state_finish(device->graph_state);
    gale__buffer_watch_destroy(&device->watch);
    gale__staging_spare_destroy(device);
    gale__pool_destroy(&device->pool);
    if (device->impl) device->backend->close(device);
    gale__cond_finish(&device->turns.changed);
    gale__mutex_finish(&device->turns.lock);
    gale__mutex_finish(&device->lock);
    gale__free(device->why);
    gale__free(device->chain);
    gale__context_drop(device->context);
    gale__free(device);
}

void gale__device_detach(gale_device *device)
{
    atomic_fetch_sub(&device->objects, 1);
    if (atomic_fetch_sub(&device->refs, 1) == 1) finish(device);
}

/* Logged if objects outlive the last handle of the device: usually something was not destroyed. */
static void report_leaks(const gale_device *device, int objects)
{
#ifdef NDEBUG
    if (gale__env_get_i64(GALE__ENV_DEBUG, 0) == 0) return;
#endif
    gale_memory_stats stats;
    gale_memory_get_stats(device, &stats);
    gale__log(GALE__WARN, "%s:%d closed while %d of its objects still exist, %llu of them buffers with %llu bytes",
        device->info.backend, device->info.index, objects, (unsigned long long)stats.buffers,
        (unsigned long long)stats.in_use_bytes);
}

void gale_device_close(gale_device **device)
{
    if (!device || !*device) return;
    gale_device *d = *device;
    GALE__WITHIN(d->context);
    *device = NULL;
    int objects = atomic_load(&d->objects);
    /* Read before the reference is released: afterwards the device may be freed. */
    if (objects > 0 && atomic_load(&d->refs) == objects + 1) report_leaks(d, objects);
    if (atomic_fetch_sub(&d->refs, 1) == 1) finish(d);
}

static uint64_t pool_limit(const gale_device_options *options)
{
    if (options && options->pool_limit_bytes) return options->pool_limit_bytes;
    int64_t mb = gale__env_get_i64(GALE__ENV_POOL_LIMIT_MB, 0);
    if (mb < 0) gale__log(GALE__WARN, "GALE_POOL_LIMIT_MB=%lld is negative and is ignored", (long long)mb);
    return mb > 0 ? (uint64_t)mb << 20 : 0;
}

void gale__caps_add_matrix(gale_device_caps *caps)
{
    static const gale_type operands[] = {GALE_F16, GALE_BF16};
    for (int i = 0; i < 2; i++)
        caps->matrix[caps->n_matrix++] = (gale_matrix_shape){16, 16, 16, (uint8_t)operands[i], GALE_F32};
}

void gale__caps_add_mma(gale_device_caps *caps)
{
    gale__caps_add_matrix(caps);
    static const gale_type bytes[] = {GALE_I8, GALE_U8};
    for (int i = 0; i < 2; i++)
        caps->matrix[caps->n_matrix++] = (gale_matrix_shape){16, 16, 32, (uint8_t)bytes[i], GALE_I32};
    caps->matrix_quads = true;
}

/* GALE_MATRIX decides whether kernels see the device's matrix units, or plain threads in their place. */
static void choose_matrix(gale_device *device)
{
    const char *how = gale__env_get(GALE__ENV_MATRIX);
    gale_device_caps *caps = &device->info.caps;
    bool off = !strcmp(how, "off"), emulate = !strcmp(how, "emulate");
    if (!off && !emulate && *how && strcmp(how, "auto") != 0)
        gale__log(GALE__WARN, "GALE_MATRIX=%s is ignored: expected auto, off or emulate", how);
    if (off || emulate) caps->n_matrix = 0;
    caps->matrix_f32 = caps->matrix_f32 && caps->n_matrix;
    caps->matrix_emulated = emulate && strcmp(device->backend->name, "cpu") != 0;
}

gale_status gale__device_open_one(
    const gale__backend *backend, int index, const gale_device_options *options, gale_device **out)
{
    const gale__probe *probe;
    GALE_TRY(gale__backend_probe(backend, &probe));
    if (!probe->count) return gale__fail(GALE_NO_DEVICE, "%s", probe->reason);
    if (index < 0 || index >= probe->count)
        return gale__fail(GALE_NO_DEVICE, "device index %d is out of range: %s has %d device%s here, counted from 0",
            index, backend->name, probe->count, probe->count == 1 ? "" : "s");
    gale_device *device = gale__calloc(1, sizeof *device);
    if (!device) return GALE_NO_MEMORY;
    device->backend = backend;
    device->info = probe->devices[index];
    device->debug_layer = (options && options->debug_layer) || gale__env_get_i64(GALE__ENV_DEBUG_LAYER, 0) == 1;
    device->refs = 1;
    device->context = gale__context_hold(gale__context_current());
    gale__mutex_init(&device->lock);
    gale__mutex_init(&device->turns.lock);
    gale__cond_init(&device->turns.changed);
    gale_status status = backend->open(device);
    if (status == GALE_OK) status = gale__pool_create(device, pool_limit(options), &device->pool);
    if (status == GALE_OK) status = gale__staging_spare_create(device);
    if (status == GALE_OK) status = gale__buffer_watch_create(device, &device->watch);
    if (status != GALE_OK) {
        finish(device);
        return status;
    }
    gale__context_add(device->context, GALE__COUNT_DEVICES, 1);
    choose_matrix(device);
    gale__ceilings_load(&device->info);
    *out = device;
    return GALE_OK;
}
