/* Peak rates of a device, measured with plain copies and launches. */
#include "device/ceilings.h"
#include "device/poke.h"
#include "device/record.h"
#include <string.h>

static const struct {
    const char *key;
    size_t at;
} fields[] = {
    {"copy_gbps", offsetof(gale_device_ceilings, copy_gbps)},
    {"upload_gbps", offsetof(gale_device_ceilings, upload_gbps)},
    {"download_gbps", offsetof(gale_device_ceilings, download_gbps)},
    {"f32_gflops", offsetof(gale_device_ceilings, f32_gflops)},
    {"launch_us", offsetof(gale_device_ceilings, launch_us)},
    {"round_trip_us", offsetof(gale_device_ceilings, round_trip_us)},
    {"efficiency", offsetof(gale_device_ceilings, efficiency)},
    {"small_us", offsetof(gale_device_ceilings, small_us)},
    {"large_us", offsetof(gale_device_ceilings, large_us)},
    {"step_ns", offsetof(gale_device_ceilings, step_ns)},
};
#define N_FIELDS (sizeof fields / sizeof *fields)

static double *field(gale_device_ceilings *c, size_t i) { return (double *)((char *)c + fields[i].at); }

void gale__ceilings_load(gale_device_info *info)
{
    gale__arena arena = {0};
    gale__json *root;
    gale__record_read(info, "ceilings", "", &arena, &root);
    for (size_t i = 0; root && i < N_FIELDS; i++) {
        double v = gale__json_number(root, fields[i].key, 0);
        *field(&info->ceilings, i) = v > 0 && v < 1e12 ? v : 0;
    }
    gale__arena_finish(&arena);
}

static void write_fields(gale__json_out *j, const void *user)
{
    gale_device_ceilings c = *(const gale_device_ceilings *)user;
    for (size_t i = 0; i < N_FIELDS; i++) {
        gale__json_put_f64(j, fields[i].key, *field(&c, i));
    }
}

gale_status gale__ceilings_save(const gale_device_info *info)
{
    return gale__record_write(info, "ceilings", "", write_fields, &info->ceilings);
}

/* A failure to save is only a warning: the measured rates are valid in this process. */
static gale_status save_or_warn(const gale_device_info *info)
{
    gale_status status = gale__ceilings_save(info);
    if (status == GALE_OK || status == GALE_NO_MEMORY) return status;
    gale__log(GALE__WARN, "measured rates of %s:%d are not stored: %s", info->backend, info->index, gale_error());
    return GALE_OK;
}

gale_status gale__ceilings_set_f32(gale_device *device, double gflops)
{
    device->info.ceilings.f32_gflops = gflops;
    return save_or_warn(&device->info);
}

gale_status gale__ceilings_set_efficiency(gale_device *device, double share)
{
    device->info.ceilings.efficiency = share < 0.001 ? 0.001
                                       : share > 4   ? 4
                                                     : share; /* the stored peaks were measured on a busy machine */
    return save_or_warn(&device->info);
}

gale_status gale__ceilings_set_kernel(gale_device *device, double small_us, double large_us, double step_ns)
{
    gale_device_ceilings *c = &device->info.ceilings;
    c->small_us = small_us > 0.01 ? small_us : 0.01;
    c->large_us = large_us > c->small_us ? large_us : c->small_us;
    c->step_ns = step_ns > 0 ? step_ns : 0;
    return save_or_warn(&device->info);
}

gale_status gale__ceilings_raise_copy(gale_device *device, double gbps)
{
    if (!(gbps > device->info.ceilings.copy_gbps)) return GALE_OK;
    device->info.ceilings.copy_gbps = gbps;
    return save_or_warn(&device->info);
}

gale_status gale__ceilings_raise_round_trip(gale_device *device, double us)
{
    if (!(us > device->info.ceilings.round_trip_us)) return GALE_OK;
    device->info.ceilings.round_trip_us = us;
    return save_or_warn(&device->info);
}

/* What a measurement repeats; `bytes` moved (or launches made) per call. */
typedef struct bench {
    gale_stream *stream;
    gale_event *from, *to;
    gale_buffer *a, *b;
    gale__poke poke;
    void *host;
    size_t size;
} bench;
typedef gale_status action(bench *m);

static gale_status do_copy(bench *m) { return gale_copy(m->stream, m->a, 0, m->b, 0, m->size); }
static gale_status do_upload(bench *m) { return gale_upload(m->stream, m->a, 0, m->host, m->size); }
static gale_status do_download(bench *m) { return gale_download(m->stream, m->b, 0, m->host, m->size); }
static gale_status do_launch(bench *m)
{
    gale_status status = GALE_OK;
    for (int i = 0; i < 64 && status == GALE_OK; i++) status = gale__poke_run(&m->poke, m->stream, m->a, 1);
    return status;
}

static gale_status do_round_trip(bench *m)
{
    GALE_TRY(gale_upload(m->stream, m->a, 0, m->host, 64));
    GALE_TRY(gale__poke_run(&m->poke, m->stream, m->a, 1));
    return gale_download(m->stream, m->a, 0, m->host, 64);
}

#define ROUNDS_MAX 20
#define BUDGET_NS 100000000u

/* The best of a few rounds, each timed by the host around work and wait: what a caller sees. */
static gale_status best_us(bench *m, action *act, double *out)
{
    double best = 0;
    uint64_t begin = gale__time_ns();
    for (int i = 0; i < ROUNDS_MAX && (i < 3 || gale__time_ns() - begin < BUDGET_NS); i++) {
        uint64_t t0 = gale__time_ns();
        GALE_TRY(act(m));
        GALE_TRY(gale_stream_sync(m->stream));
        double us = (double)(gale__time_ns() - t0) / 1e3;
        if (i && (best == 0 || us < best)) best = us; /* the first one warms up */
    }
    *out = best > 0.01 ? best : 0.01;
    return GALE_OK;
}

/* Device work is timed by the device itself, several at a time. */
static gale_status best_device_us(bench *m, action *act, double *out)
{
    double best = 0;
    uint64_t begin = gale__time_ns();
    for (int i = 0; i < ROUNDS_MAX && (i < 3 || gale__time_ns() - begin < BUDGET_NS); i++) {
        double us;
        GALE_TRY(gale_event_record(m->from, m->stream));
        GALE_TRY(act(m));
        GALE_TRY(gale_event_record(m->to, m->stream));
        GALE_TRY(gale_event_elapsed(m->from, m->to, &us));
        if (i && us > 0 && (best == 0 || us < best)) best = us;
    }
    *out = best > 0.01 ? best : 0.01;
    return GALE_OK;
}

static gale_status measure(bench *m, gale_device *device)
{
    gale_device_ceilings *c = &device->info.ceilings;
    uint32_t zero = 0;
    double us;
    GALE_TRY(gale_stream_create(device, &m->stream));
    GALE_TRY(gale_event_create(device, &m->from));
    GALE_TRY(gale_event_create(device, &m->to));
    GALE_TRY(gale_buffer_create(device, m->size, &m->a));
    GALE_TRY(gale_buffer_create(device, m->size, &m->b));
    GALE_TRY(gale_fill(m->stream, m->a, 0, m->size, &zero, 4));
    GALE_TRY(gale_fill(m->stream, m->b, 0, m->size, &zero, 4));
    GALE_TRY(best_device_us(m, do_copy, &us));
    double copy = 2 * (double)m->size / us / 1e3;
    if (copy > c->copy_gbps) c->copy_gbps = copy;
    if (m->size > (size_t)64 << 20) m->size = (size_t)64 << 20;
    m->host = gale__calloc(1, m->size);
    if (!m->host) return GALE_NO_MEMORY;
    memset(m->host, 1, m->size);
    GALE_TRY(best_us(m, do_upload, &us));
    c->upload_gbps = (double)m->size / us / 1e3;
    GALE_TRY(best_us(m, do_download, &us));
    c->download_gbps = (double)m->size / us / 1e3;
    GALE_TRY(gale__poke_create(device, &m->poke));
    GALE_TRY(best_us(m, do_launch, &us));
    c->launch_us = us / 64;
    GALE_TRY(best_us(m, do_round_trip, &us));
    c->round_trip_us = us;
    return GALE_OK;
}

gale_status gale__ceilings_measure(gale_device *device)
{
    /* Larger than any cache of the device, and a small part of its memory. */
    uint64_t size = device->info.caps.memory_bytes / 16;
    uint64_t most = device->info.caps.unified_memory ? (uint64_t)64 << 20 : (uint64_t)512 << 20;
    if (size > most) size = most;
    if (device->info.caps.alloc_max_bytes && size > device->info.caps.alloc_max_bytes)
        size = device->info.caps.alloc_max_bytes;
    bench m = {.size = (size_t)(size < 1 << 20 ? 1 << 20 : size & ~(uint64_t)4095)};
    gale_status status = measure(&m, device);
    gale__poke_finish(&m.poke);
    gale_stream_destroy(&m.stream);
    gale_event_destroy(&m.from);
    gale_event_destroy(&m.to);
    gale_buffer_destroy(&m.a);
    gale_buffer_destroy(&m.b);
    gale__free(m.host);
    gale_memory_trim(device);
    return status == GALE_OK ? save_or_warn(&device->info) : status;
}
