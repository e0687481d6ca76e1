/* Load and memory of each device, over all processes: NVIDIA through NVML, AMD through sysfs, the CPU through /proc;
 * for other devices only the memory is known. */
#include "base/cpu.h"
#include "base/file.h"
#include "base/thread.h"
#include "jobs/machine/machine.h"
#include "jobs/machine/nvml.h"
#include <stdio.h>

struct gale_usage_meter {
    gale__nvml *nvml; /* NULL: no such library */
};
typedef struct ticks {
    uint64_t busy, all;
} ticks;
typedef struct list {
    gale__arena *arena; /* the result's */
    gale_usage *items;
    size_t count;
    bool failed; /* out of memory */
} list;

static void add(list *l, gale_usage one, const char *device, const char *name)
{
    gale_usage *to = gale__arena_add(l->arena, &l->items, &l->count, sizeof *to);
    one.device = device;
    one.name = name;
    if (to) *to = one;
    if (!to || !device || !name) l->failed = true;
}

/* First line of /proc/stat: time in user, nice, system, idle, wait ... */
static ticks cpu_ticks(void)
{
    gale__bytes b = {0};
    ticks t = {0};
    unsigned long long v[8] = {0};
    if (gale__file_read("/proc/stat", 0, &b) != GALE_OK) return t;
    sscanf(
        b.data, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]);
    for (int i = 0; i < 8; i++) t.all += v[i];
    t.busy = t.all - v[3] - v[4];
    gale__bytes_finish(&b);
    return t;
}

static void add_cpu(list *l, ticks before)
{
    ticks now = cpu_ticks();
    double all = (double)(now.all - before.all), busy = (double)(now.busy - before.busy);
    uint64_t bytes = gale__cpu_memory_bytes();
    gale_usage one = {.busy_percent = now.all > before.all ? 100.0 * busy / all : -1,
        .memory_bytes = bytes,
        .memory_used_bytes = bytes - gale__cpu_memory_free_bytes()};
    add(l, one, "cpu:0", gale__arena_printf(l->arena, "%s, %d cores", gale__cpu_name(), gale__cpu_cores()));
}

static void add_nvidia(list *l, const gale__nvml *nvml)
{
    for (unsigned i = 0; i < gale__nvml_count(nvml); i++) {
        gale__nvml_state s;
        if (!gale__nvml_get(nvml, i, &s)) continue;
        gale_usage one = {.busy_percent = s.busy_percent,
            .memory_used_bytes = s.used_bytes,
            .memory_bytes = s.total_bytes,
            .celsius = s.celsius,
            .watts = s.watts};
        add(l, one, gale__arena_printf(l->arena, "cuda:%u", i), gale__arena_strdup(l->arena, s.name));
    }
}

static bool read_number(const char *folder, const char *name, uint64_t *out)
{
    char path[256];
    gale__bytes b = {0};
    unsigned long long v;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!gale__file_exists(path) || gale__file_read(path, 4096, &b) != GALE_OK) return false;
    bool ok = sscanf(b.data, "%llu", &v) == 1;
    if (ok) *out = v;
    gale__bytes_finish(&b);
    return ok;
}

static void add_amd(list *l)
{
    for (int card = 0, n = 0; card < 16; card++) {
        char folder[64];
        uint64_t busy, used = 0, total = 0;
        snprintf(folder, sizeof folder, "/sys/class/drm/card%d/device", card);
        if (!read_number(folder, "gpu_busy_percent", &busy)) continue;
        read_number(folder, "mem_info_vram_used", &used);
        read_number(folder, "mem_info_vram_total", &total);
        gale_usage one = {.busy_percent = (double)busy, .memory_used_bytes = used, .memory_bytes = total};
        add(l, one, gale__arena_printf(l->arena, "hip:%d", n++), gale__arena_printf(l->arena, "AMD card%d", card));
    }
}

/* Cards that no library of their maker tells about: what their driver said when it was asked. */
static void add_others(list *l)
{
    int count;
    const gale__backend *const *all = gale__backends(&count);
    for (int i = 0; i < count && !l->count; i++) {
        const gale__probe *probe;
        if (gale__backend_probe(all[i], &probe) != GALE_OK) continue;
        for (int k = 0; k < probe->count; k++) {
            const gale_device_info *info = &probe->devices[k];
            const gale_device_caps *caps = &info->caps;
            if (caps->software || caps->host_functions) continue;
            gale_usage one = {.busy_percent = -1, .memory_bytes = caps->memory_bytes};
            if (caps->memory_free_bytes && caps->memory_free_bytes < caps->memory_bytes)
                one.memory_used_bytes = caps->memory_bytes - caps->memory_free_bytes;
            add(l, one, gale__arena_printf(l->arena, "%s:%d", info->backend, info->index),
                gale__arena_strdup(l->arena, info->name));
        }
    }
}

static gale_status read_usage(const gale_usage_meter *meter, const gale_usage_options *o, gale_usage_result *r)
{
    list l = {.arena = gale__result_arena(r)};
    ticks before = cpu_ticks();
    GALE_TRY(gale__job_tell(&o->control, "wait", "looks", 0, 1));
    gale__sleep_ns((uint64_t)(1e9 * (o->seconds > 0 ? o->seconds : 0.2)));
    GALE_TRY(gale__job_tell(&o->control, "read", "looks", 1, 1));
    add_nvidia(&l, meter->nvml);
    add_amd(&l);
    add_others(&l);
    add_cpu(&l, before);
    r->devices = l.items;
    r->n_devices = l.count;
    return l.failed ? GALE_NO_MEMORY : GALE_OK;
}

gale_status gale_usage_meter_open(gale_usage_meter **out)
{
    GALE__NEED({"out", out});
    gale_usage_meter *meter = gale__calloc(1, sizeof *meter);
    if (!meter) return GALE_NO_MEMORY;
    meter->nvml = gale__nvml_open();
    *out = meter;
    return GALE_OK;
}

void gale_usage_meter_close(gale_usage_meter **meter)
{
    if (!meter || !*meter) return;
    gale__nvml_close(&(*meter)->nvml);
    gale__free(*meter);
    *meter = NULL;
}

gale_status gale_usage_read(gale_usage_meter *meter, const gale_usage_options *options, gale_usage_result **out)
{
    GALE__NEED({"out", out});
    GALE__OPTIONS(options);
    static const gale_usage_options usual = {0};
    const gale_usage_options *o = options ? options : &usual;
    gale_usage_meter *own = NULL;
    if (!(o->seconds >= 0 && o->seconds <= 3600))
        return gale__fail(GALE_INVALID, "usage: %g seconds is outside 0 to 3600", o->seconds);
    if (!meter) GALE_TRY(gale_usage_meter_open(&own));
    gale_usage_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? read_usage(meter ? meter : own, o, result) : GALE_NO_MEMORY;
    gale_usage_meter_close(&own);
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_usage_result)

GALE__RESULT_JSON(gale_usage_result, '[')
{
    for (size_t i = 0; i < r->n_devices; i++) {
        const gale_usage *x = &r->devices[i];
        gale__json_object(j);
        gale__json_put_text(j, "device", x->device);
        gale__json_put_text(j, "name", x->name);
        gale__json_key(j, "busy_percent");
        if (x->busy_percent >= 0) gale__json_f64(j, x->busy_percent);
        else gale__json_null(j);
        gale__json_put_u64(j, "memory_used_bytes", x->memory_used_bytes);
        gale__json_put_u64(j, "memory_bytes", x->memory_bytes);
        gale__json_close(j, '}');
    }
}
