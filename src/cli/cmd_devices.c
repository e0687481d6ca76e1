/* gale devices: what every provider name stands for on this machine, and why a missing one is missing. */
#include "cli/cli.h"
#include "cli/device_text.h"
#include "cli/table.h"
#include "device/ceilings.h"
#include "graph/run/measure.h"
#include <string.h>

static const gale__arg args[] = {
    GALE__ARG_JSON,
    {"measure", 'm', GALE__ARG_FLAG, NULL, NULL, NULL,
        "measure the ceilings of every device (half a second each) and keep them"},
    {0},
};

typedef struct found {
    gale_device_info *items;
    size_t count, capacity;
} found;

/* Every device of every backend, with its ceilings; the null device is not one for users. */
static gale_status find_devices(found *f)
{
    int count;
    const gale__backend *const *all = gale__backends(&count);
    for (int i = 0; i < count; i++) {
        const gale__probe *probe;
        GALE_TRY(gale__backend_probe(all[i], &probe));
        GALE_TRY(gale__grow((void **)&f->items, &f->capacity, f->count + (size_t)probe->count + 1, sizeof *f->items));
        for (int k = 0; k < probe->count; k++) {
            if (!probe->devices[k].caps.holds_data) continue;
            gale_device_info *info = &f->items[f->count++];
            *info = probe->devices[k];
            gale__ceilings_load(info);
        }
    }
    return GALE_OK;
}

/* A device that cannot be measured is a warning: the others are still worth showing. */
static void measure(found *f)
{
    for (size_t i = 0; i < f->count; i++) {
        gale_device_info *info = &f->items[i];
        gale__provider by = {.backend = info->backend};
        gale_device *device = NULL;
        gale_status status = gale__device_open_one(gale__provider_backend(&by), info->index, NULL, &device);
        if (status == GALE_OK) status = gale__ceilings_measure(device);
        if (status == GALE_OK) status = gale__measure_kernels(device);
        if (device) info->ceilings = device->info.ceilings;
        if (status != GALE_OK)
            gale__log(GALE__WARN, "%s:%d is not measured: %s", info->backend, info->index, gale_error());
        gale_device_close(&device);
    }
}

/* What a run without any choice of its own would take: as the chain does, without opening it. */
static const gale_device_info *automatic(void)
{
    int count;
    const gale__provider *all = gale__providers(&count);
    for (int rank = 1; rank <= count; rank++)
        for (int i = 0; i < count; i++) {
            const gale_device_info *info = all[i].rank == rank ? gale__provider_device(&all[i]) : NULL;
            if (info && !info->caps.software) return info;
        }
    return NULL;
}

static gale_status print_table(const found *f)
{
    int count;
    const gale__provider *all = gale__providers(&count);
    const gale_device_info *choice = automatic();
    gale__table t = {.align = "llll"};
    gale__str text = {0};
    gale__table_cell(&t, "provider"), gale__table_cell(&t, "here"),
        gale__table_cell(&t, "device, or why there is none"), gale__table_cell(&t, "aliases");
    for (int i = 0; i < count; i++) {
        const gale_device_info *info = gale__provider_device(&all[i]);
        const gale__probe *probe = NULL;
        GALE_TRY(gale__provider_probe(&all[i], &probe));
        gale__table_cell(&t, "%s", all[i].name);
        if (info)
            gale__table_cell(&t, "%s:%d%s", info->backend, info->index, info == choice && all[i].rank ? " *" : "");
        else gale__table_cell(&t, "-");
        gale__table_cell(&t, "%s", info ? info->name : probe->reason);
        gale__table_cell(&t, "%s", all[i].aliases);
    }
    GALE_TRY(gale__table_print(&t, stdout));
    if (choice && choice->caps.host_functions)
        gale__str_add(&text, "\nNo GPU detected: `gale doctor` says what to install. ");
    else gale__str_add(&text, "\n");
    gale__str_add(&text, "* is what gale takes when nothing is asked for.\n");
    for (int i = 0; i < count; i++)
        if (*all[i].note) gale__str_addf(&text, "%s: %s.\n", all[i].name, all[i].note);
    for (size_t i = 0; i < f->count; i++) gale__str_add(&text, "\n"), gale__device_describe(&f->items[i], &text);
    gale__print(&text);
    return GALE_OK;
}

static void json_provider(gale__json_out *j, const gale__provider *p)
{
    const gale_device_info *info = gale__provider_device(p);
    const gale__probe *probe = NULL;
    gale__json_object(j);
    gale__json_key(j, "name"), gale__json_string(j, p->name);
    gale__json_key(j, "aliases");
    gale__json_array(j);
    for (const char *a = p->aliases; *a;) {
        size_t n = strcspn(a, " ");
        gale__str word = {0};
        gale__str_add_n(&word, a, n);
        gale__json_string(j, gale__str_text(&word));
        gale__str_finish(&word);
        a += n + (a[n] == ' ');
    }
    gale__json_close(j, ']');
    gale__json_key(j, "backend"), gale__json_string(j, p->backend);
    gale__json_key(j, "note"), gale__json_string(j, p->note);
    gale__json_key(j, "available"), gale__json_bool(j, info != NULL);
    gale__json_key(j, "index");
    if (info) gale__json_i64(j, info->index);
    else gale__json_null(j);
    if (!info && gale__provider_probe(p, &probe) == GALE_OK) {
        gale__json_key(j, "reason"), gale__json_string(j, probe->reason);
        gale__json_key(j, "remedy"), gale__json_string(j, probe->remedy);
    }
    gale__json_close(j, '}');
}

static int print_json(const found *f)
{
    gale__str text = {0};
    gale__json_out j;
    int count;
    const gale__provider *all = gale__providers(&count);
    const gale_device_info *choice = automatic();
    gale__json_begin(&j, &text);
    gale__json_object(&j);
    gale__json_key(&j, "version"), gale__json_string(&j, gale_version());
    gale__json_key(&j, "automatic");
    if (choice) gale__json_string(&j, choice->backend);
    else gale__json_null(&j);
    gale__json_key(&j, "providers");
    gale__json_array(&j);
    for (int i = 0; i < count; i++) json_provider(&j, &all[i]);
    gale__json_close(&j, ']');
    gale__json_key(&j, "devices");
    gale__json_array(&j);
    for (size_t i = 0; i < f->count; i++) gale__device_json(&j, &f->items[i]);
    gale__json_close(&j, ']');
    gale__json_close(&j, '}');
    gale__str_add(&text, "\n");
    return gale__print(&text);
}

static int run(const gale__args *a)
{
    found f = {0};
    int code = GALE__EXIT_OK;
    gale__probe_all();
    gale_status status = find_devices(&f);
    if (status == GALE_OK) {
        if (gale__args_flag(a, "measure")) measure(&f);
        if (gale__args_flag(a, "json")) code = print_json(&f);
        else status = print_table(&f);
    }
    gale__free(f.items);
    return status == GALE_OK ? code : gale__report(status);
}

const gale__command gale__command_devices = {
    .args = args,
    .run = run,
    .about =
        "Every provider name with its aliases, what it stands for on this machine, and for what is missing the reason. "
        "Below it every device with driver, memory, limits, features and the ceilings that were measured.",
    .examples = "  gale devices\n  gale devices --measure   # take the ceilings, which plans and reports use\n  gale "
                "devices --json",
};
