/* gale top: how busy each device is and how full, whoever uses it.  NVIDIA cards tell through NVML, AMD cards through
 * sysfs, the CPU through /proc; of the others only the memory is known. */
#include "cli/cli.h"
#include "cli/device_text.h"
#include "cli/nvml.h"
#include "cli/table.h"
#include "base/cpu.h"
#include "base/file.h"
#include <string.h>
#include <unistd.h>

static const gale__arg args[] = {
    {"once", '1', GALE__ARG_FLAG, NULL, NULL, NULL, "print one table and end"},
    {"interval", 'i', GALE__ARG_REAL, "S", "1", "0.1..3600", "seconds between two looks"},
    GALE__ARG_JSON,
    {0},
};

typedef struct row {
    char device[64], name[128];
    double busy;
    uint64_t used, total;
    unsigned celsius, watts;
} row; /* busy < 0: not known */
typedef struct rows {
    row items[64];
    size_t count;
} rows;
typedef struct ticks {
    uint64_t busy, all;
} ticks;

static row *add_row(rows *r)
{
    static row spare;
    return r->count < sizeof r->items / sizeof *r->items ? &r->items[r->count++] : &spare;
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

static void add_cpu(rows *r, ticks before)
{
    ticks now = cpu_ticks();
    row *x = add_row(r);
    *x = (row){
        .busy = now.all > before.all ? 100.0 * (double)(now.busy - before.busy) / (double)(now.all - before.all) : -1};
    snprintf(x->device, sizeof x->device, "cpu:0");
    snprintf(x->name, sizeof x->name, "%s, %d cores", gale__cpu_name(), gale__cpu_cores());
    x->total = gale__cpu_memory_bytes();
    x->used = x->total - gale__cpu_memory_free_bytes();
}

static void add_nvidia(rows *r, const gale__nvml *nvml)
{
    for (unsigned i = 0; i < gale__nvml_count(nvml); i++) {
        gale__nvml_state s;
        if (!gale__nvml_get(nvml, i, &s)) continue;
        row *x = add_row(r);
        *x = (row){.busy = s.busy_percent,
            .used = s.used_bytes,
            .total = s.total_bytes,
            .celsius = s.celsius,
            .watts = s.watts};
        snprintf(x->device, sizeof x->device, "cuda:%u", i);
        snprintf(x->name, sizeof x->name, "%s", s.name);
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

static void add_amd(rows *r)
{
    for (int card = 0, n = 0; card < 16; card++) {
        char folder[64];
        uint64_t busy, used = 0, total = 0;
        snprintf(folder, sizeof folder, "/sys/class/drm/card%d/device", card);
        if (!read_number(folder, "gpu_busy_percent", &busy)) continue;
        read_number(folder, "mem_info_vram_used", &used);
        read_number(folder, "mem_info_vram_total", &total);
        row *x = add_row(r);
        *x = (row){.busy = (double)busy, .used = used, .total = total};
        snprintf(x->device, sizeof x->device, "hip:%d", n++);
        snprintf(x->name, sizeof x->name, "AMD card%d", card);
    }
}

/* Cards that no library of their maker tells about: what their driver said when it was asked. */
static void add_others(rows *r)
{
    int count;
    const gale__backend *const *all = gale__backends(&count);
    for (int i = 0; i < count && !r->count; i++) {
        const gale__probe *probe;
        if (gale__backend_probe(all[i], &probe) != GALE_OK) continue;
        for (int k = 0; k < probe->count; k++) {
            const gale_device_info *info = &probe->devices[k];
            if (info->caps.software || info->caps.host_functions) continue;
            row *x = add_row(r);
            *x = (row){.busy = -1, .total = info->caps.memory_bytes};
            if (info->caps.memory_free_bytes && info->caps.memory_free_bytes < x->total)
                x->used = x->total - info->caps.memory_free_bytes;
            snprintf(x->device, sizeof x->device, "%s:%d", info->backend, info->index);
            snprintf(x->name, sizeof x->name, "%s", info->name);
        }
    }
}

static int print_json(const rows *r)
{
    gale__str out = {0};
    gale__json_out j;
    gale__json_begin(&j, &out);
    gale__json_array(&j);
    for (size_t i = 0; i < r->count; i++) {
        const row *x = &r->items[i];
        gale__json_object(&j);
        gale__json_key(&j, "device"), gale__json_string(&j, x->device);
        gale__json_key(&j, "name"), gale__json_string(&j, x->name);
        gale__json_key(&j, "busy_percent");
        if (x->busy >= 0) gale__json_f64(&j, x->busy);
        else gale__json_null(&j);
        gale__json_key(&j, "memory_used_bytes"), gale__json_i64(&j, (int64_t)x->used);
        gale__json_key(&j, "memory_bytes"), gale__json_i64(&j, (int64_t)x->total);
        gale__json_close(&j, '}');
    }
    gale__json_close(&j, ']');
    gale__str_add(&out, "\n");
    return gale__print(&out);
}

static int print_rows(const rows *r)
{
    gale__table t = {.align = "llrrrrrr"};
    static const char *const heads[] = {"device", "name", "busy", "memory used", "of", "share", "temperature", "power"};
    for (int i = 0; i < 8; i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t i = 0; i < r->count; i++) {
        const row *x = &r->items[i];
        char used[32], total[32];
        gale__table_cell(&t, "%s", x->device);
        gale__table_cell(&t, "%s", x->name);
        if (x->busy >= 0) gale__table_cell(&t, "%.0f %%", x->busy);
        else gale__table_cell(&t, "-");
        gale__table_cell(&t, "%s", gale__bytes_text(x->used, used));
        gale__table_cell(&t, "%s", gale__bytes_text(x->total, total));
        gale__table_cell(&t, "%.0f %%", x->total ? 100.0 * (double)x->used / (double)x->total : 0);
        if (x->celsius) gale__table_cell(&t, "%u C", x->celsius);
        else gale__table_cell(&t, "-");
        if (x->watts) gale__table_cell(&t, "%u W", x->watts);
        else gale__table_cell(&t, "-");
    }
    return gale__report(gale__table_print(&t, stdout));
}

static int run(const gale__args *a)
{
    bool once = gale__args_flag(a, "once") || gale__args_flag(a, "json") || !isatty(STDOUT_FILENO);
    uint64_t pause = (uint64_t)(1e9 * gale__args_real(a, "interval"));
    gale__nvml *nvml = gale__nvml_open();
    int code;
    do {
        rows r = {.count = 0};
        ticks before = cpu_ticks();
        gale__sleep_ns(once && pause > 200000000u ? 200000000u : pause);
        add_nvidia(&r, nvml);
        add_amd(&r);
        add_others(&r);
        add_cpu(&r, before);
        if (!once) printf("\033[H\033[2J");
        code = gale__args_flag(a, "json") ? print_json(&r) : print_rows(&r);
        fflush(stdout);
    } while (!once && code == GALE__EXIT_OK);
    gale__nvml_close(&nvml);
    return code;
}

const gale__command gale__command_top = {
    .args = args,
    .run = run,
    .about = "Use and memory of each device, live, until interrupted. In a pipe, with --once or with --json one look "
             "is printed.",
    .examples = "  gale top\n  gale top --once",
};
