/* The device behind every provider name, and why a missing one is missing. */
#include "device/ceilings.h"
#include "device/device.h"
#include "device/trust.h"
#include "device/workarounds.h"
#include "graph/run/measure.h"
#include "jobs/machine/machine.h"
#include <string.h>

const gale_device_info *gale__provider_device(const gale__provider *provider)
{
    const gale__probe *probe;
    if (gale__provider_probe(provider, &probe) != GALE_OK || !probe->count) return NULL;
    for (int i = 0; i < probe->count; i++)
        if (!probe->devices[i].caps.software) return &probe->devices[i];
    return &probe->devices[0];
}

gale_status gale__device_state(gale__arena *arena, const gale_device_info *info, gale_device_state *out)
{
    const gale__workaround *w = gale__workaround_find(info);
    gale__trust t;
    char state[256] = "";
    *out = (gale_device_state){.info = *info, .verdict_reason = "", .setting = "", .fault = ""};
    out->has_driver = info->caps.holds_data && !info->caps.host_functions;
    gale__trust_load(info, &t);
    gale__workaround_state(w, state, sizeof state);
    out->verdict = (gale_verdict)t.verdict;
    out->verdict_reason = gale__arena_strdup(arena, t.reason);
    out->setting = gale__arena_strdup(arena, state);
    if (w) {
        out->fault = w->fault;
        out->fault_variable = w->variable;
        out->fault_value = w->value;
    }
    return out->verdict_reason && out->setting ? GALE_OK : GALE_NO_MEMORY;
}

gale_status gale_device_measure(gale_device *device)
{
    GALE__NEED({"device", device});
    GALE__WITHIN(device->context);
    GALE_TRY(gale__ceilings_measure(device));
    return gale__measure_kernels(device);
}

/* A device that cannot be measured is a warning: the others are still worth showing. */
static void measure(gale_device_info *info)
{
    gale__provider by = {.backend = info->backend};
    gale_device *device = NULL;
    gale_status status = gale__device_open_one(gale__provider_backend(&by), info->index, NULL, &device);
    if (status == GALE_OK) status = gale_device_measure(device);
    if (device) info->ceilings = device->info.ceilings;
    if (status != GALE_OK)
        gale__log(GALE__WARN, "%s:%d was not measured: %s", info->backend, info->index, gale_error());
    gale_device_close(&device);
}

/* Every device of every backend, with its ceilings; the null device is not one for users. */
static gale_status find_devices(const gale_devices_options *o, gale_devices_result *r)
{
    gale__arena *arena = gale__result_arena(r);
    gale_device_state *devices = NULL;
    int count;
    const gale__backend *const *all = gale__backends(&count);
    for (int i = 0; i < count; i++) {
        const gale__probe *probe;
        GALE_TRY(gale__backend_probe(all[i], &probe));
        for (int k = 0; k < probe->count; k++) {
            if (!probe->devices[k].caps.holds_data) continue;
            gale_device_state *to = gale__arena_add(arena, &devices, &r->n_devices, sizeof *to);
            if (!to) return GALE_NO_MEMORY;
            to->info = probe->devices[k];
            gale__ceilings_load(&to->info);
        }
    }
    for (size_t i = 0; i < r->n_devices; i++) {
        GALE_TRY(gale__job_tell(&o->control, "devices", "devices", i, r->n_devices));
        gale_device_info info = devices[i].info;
        if (o->measure) measure(&info);
        GALE_TRY(gale__device_state(arena, &info, &devices[i]));
    }
    r->devices = devices;
    return gale__job_tell(&o->control, "devices", "devices", r->n_devices, r->n_devices);
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

static gale_status copy_info(gale__arena *arena, const gale_device_info *info, const gale_device_info **out)
{
    if (info && !(*out = gale__arena_copy(arena, info, sizeof *info))) return GALE_NO_MEMORY;
    return GALE_OK;
}

static gale_status describe_provider(
    gale__arena *arena, const gale__provider *p, const gale_device_info *choice, gale_provider_state *to)
{
    const gale_device_info *info = gale__provider_device(p);
    const gale__probe *probe = NULL;
    GALE_TRY(gale__provider_probe(p, &probe));
    *to = (gale_provider_state){.name = p->name,
        .backend = p->backend,
        .note = p->note,
        .aliases = p->aliases,
        .rank = p->rank,
        .chosen = info && info == choice && p->rank,
        .reason = gale__arena_strdup(arena, probe->reason),
        .remedy = gale__arena_strdup(arena, probe->remedy)};
    return to->reason && to->remedy ? copy_info(arena, info, &to->device) : GALE_NO_MEMORY;
}

static gale_status find_providers(gale_devices_result *r)
{
    int count;
    const gale__provider *all = gale__providers(&count);
    const gale_device_info *choice = automatic();
    gale__arena *arena = gale__result_arena(r);
    gale_provider_state *list = gale__arena_alloc(arena, ((size_t)count + 1) * sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    r->providers = list;
    r->version = gale_version();
    GALE_TRY(copy_info(arena, choice, &r->automatic));
    for (int i = 0; i < count; i++) GALE_TRY(describe_provider(arena, &all[i], choice, &list[r->n_providers++]));
    return GALE_OK;
}

gale_status gale_devices_list(const gale_devices_options *options, gale_devices_result **out)
{
    GALE__NEED({"out", out});
    GALE__OPTIONS(options);
    static const gale_devices_options usual = {0};
    const gale_devices_options *o = options ? options : &usual;
    GALE_TRY(gale__job_tell(&o->control, "probe", "devices", 0, 0));
    gale__probe_all();
    gale_devices_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? find_devices(o, result) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = find_providers(result);
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_devices_result)

static void add_provider(gale__json_out *j, const gale_provider_state *p)
{
    gale__json_object(j);
    gale__json_put_text(j, "name", p->name);
    gale__json_open(j, "aliases", '[');
    for (const char *a = p->aliases; *a;) {
        size_t n = strcspn(a, " ");
        gale__str word = {0};
        gale__str_add_n(&word, a, n);
        gale__json_string(j, gale__str_text(&word));
        gale__str_finish(&word);
        a += n + (a[n] == ' ');
    }
    gale__json_close(j, ']');
    gale__json_put_text(j, "backend", p->backend);
    gale__json_put_text(j, "note", p->note);
    gale__json_put_bool(j, "available", p->device != NULL);
    gale__json_key(j, "index");
    if (p->device) gale__json_i64(j, p->device->index);
    else gale__json_null(j);
    if (!p->device) {
        gale__json_put_text(j, "reason", p->reason);
        gale__json_put_text(j, "remedy", p->remedy);
    }
    gale__json_close(j, '}');
}

GALE__RESULT_JSON(gale_devices_result, '{')
{
    gale__json_put_text(j, "version", r->version);
    gale__json_put_text(j, "automatic", r->automatic ? r->automatic->backend : NULL);
    gale__json_open(j, "providers", '[');
    for (size_t i = 0; i < r->n_providers; i++) add_provider(j, &r->providers[i]);
    gale__json_close(j, ']');
    gale__json_open(j, "devices", '[');
    for (size_t i = 0; i < r->n_devices; i++) gale__device_json(j, &r->devices[i].info);
    gale__json_close(j, ']');
}
