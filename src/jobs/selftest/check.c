/* Every operator case on every device, against the scalar reference and against values found independently. */
#include "device/ceilings.h"
#include "jobs/machine/machine.h"
#include "jobs/selftest/check.h"
#include <stdio.h>
#include <string.h>

/* One device's share of the work; device NULL: why there is none. */
typedef struct part {
    gale_device *device;
    char name[32], reason[256];
} part;
typedef struct parts {
    part *items;
    size_t count, capacity;
} parts;

/* --- Which devices. --- */

static gale_status add_part(parts *p, const gale__backend *backend, int index, const char *name, const char *reason)
{
    GALE_TRY(gale__grow((void **)&p->items, &p->capacity, p->count + 1, sizeof *p->items));
    part *one = &p->items[p->count++];
    *one = (part){0};
    snprintf(one->name, sizeof one->name, "%s", name);
    snprintf(one->reason, sizeof one->reason, "%s", reason);
    gale_status status = backend ? gale__device_open_one(backend, index, NULL, &one->device) : GALE_OK;
    if (status == GALE_OK) return GALE_OK;
    snprintf(one->reason, sizeof one->reason, "%s", gale_error());
    return GALE_OK; /* a device that does not open is reported as a skip */
}

static gale_status add_all(parts *p)
{
    int count;
    const gale__backend *const *all = gale__backends(&count);
    gale__probe_all();
    for (int i = 0; i < count; i++) {
        const gale__probe *probe;
        char name[32];
        GALE_TRY(gale__backend_probe(all[i], &probe));
        if (probe->count && !probe->devices[0].caps.holds_data) continue;
        if (!probe->count) GALE_TRY(add_part(p, NULL, 0, all[i]->name, probe->reason));
        for (int k = 0; k < probe->count; k++) {
            snprintf(name, sizeof name, "%s:%d", all[i]->name, probe->devices[k].index);
            GALE_TRY(add_part(p, all[i], probe->devices[k].index, name, ""));
        }
    }
    return GALE_OK;
}

/* Each name of the chain is a device to check, not an alternative. */
static gale_status add_chain(parts *p, const char *chain, int index)
{
    for (const char *at = chain; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        char name[24];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        const gale__provider *provider = gale__provider_find(name);
        const gale__probe *probe;
        if (!provider) return gale__fail(GALE_NO_DEVICE, "unknown provider \"%s\"; `gale devices` lists them", name);
        GALE_TRY(gale__provider_probe(provider, &probe));
        const gale__backend *backend = gale__provider_backend(provider);
        if (probe->count && index >= probe->count)
            return gale__fail(GALE_NO_DEVICE,
                "device index %d is out of range: %s has %d device%s here, counted from 0", index, name, probe->count,
                probe->count == 1 ? "" : "s");
        char label[32];
        snprintf(label, sizeof label, "%s:%d", name, index);
        bool empty =
            probe->count && !probe->devices[0].caps.holds_data; /* it runs nothing, so nothing can be compared */
        GALE_TRY(add_part(
            p, probe->count && !empty ? backend : NULL, index, label, empty ? "it runs nothing" : probe->reason));
    }
    return GALE_OK;
}

/* --- The work. --- */

static gale_status describe(gale__arena *arena, const part *p, gale_check_device *out)
{
    out->name = gale__arena_strdup(arena, p->name);
    out->reason = gale__arena_strdup(arena, p->device ? "" : p->reason);
    if (p->device) out->info = gale__arena_copy(arena, gale_device_get_info(p->device), sizeof *out->info);
    return out->name && out->reason && (out->info || !p->device) ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status check_part(const gale_check_options *o, gale__arena *arena, const part *p, gale_check_device *out)
{
    gale__check c = {.options = o, .arena = arena, .out = out};
    gale_status status = GALE_OK;
    if (p->device && o->bench && p->device->info.ceilings.copy_gbps <= 0) gale__ceilings_measure(p->device);
    GALE_TRY(describe(arena, p, out));
    if (p->device) status = o->bench ? gale__check_bench(&c, p->device) : gale__check_cases(&c, p->device);
    if (status == GALE_DEVICE_LOST || status == GALE_TIMEOUT) gale__check_note(&c, status, "the device", gale_error());
    else GALE_TRY(status);
    if (o->device_done) o->device_done(o->user, out);
    return GALE_OK;
}

static gale_status check_parts(const gale_check_options *o, const parts *p, gale_check_result *r)
{
    gale__arena *arena = gale__result_arena(r);
    gale_check_device *devices = gale__arena_alloc(arena, (p->count + 1) * sizeof *devices);
    if (!devices) return GALE_NO_MEMORY;
    r->devices = devices;
    for (; r->n_devices < p->count; r->n_devices++) {
        gale_check_device *d = &devices[r->n_devices];
        GALE_TRY(check_part(o, arena, &p->items[r->n_devices], d));
        r->passed += d->passed;
        r->failed += d->failed;
        r->skipped += d->skipped + !d->info;
        r->n_opened += d->info != NULL;
        r->n_cases += (size_t)(d->passed + d->failed + d->skipped) + d->n_times;
    }
    return GALE_OK;
}

static gale_status check_share(const gale_check_options *o)
{
    int last = o->parts > 0 ? o->parts - 1 : 0;
    if (o->parts < 0 || o->part < 0 || o->part > last)
        return gale__fail(
            GALE_INVALID, "check: part %d of %d does not exist; parts are counted from 0", o->part, o->parts);
    if (o->parts && o->bench) return gale__fail(GALE_INVALID, "check: timing cannot be divided into parts");
    return GALE_OK;
}

gale_status gale_check_run(const gale_check_options *options, gale_check_result **out)
{
    GALE__NEED({"out", out});
    GALE__OPTIONS(options);
    static const gale_check_options usual = {0};
    const gale_check_options *o = options ? options : &usual;
    parts p = {0};
    if (o->index < 0) return gale__fail(GALE_INVALID, "check: device index %d is negative", o->index);
    GALE_TRY(check_share(o));
    GALE_TRY(gale__job_tell(&o->control, "probe", "devices", 0, 0));
    gale_check_result *result = gale__result_create(sizeof *result);
    gale_status status = !result ? GALE_NO_MEMORY : o->chain ? add_chain(&p, o->chain, o->index) : add_all(&p);
    if (status == GALE_OK) status = check_parts(o, &p, result);
    for (size_t i = 0; i < p.count; i++) gale_device_close(&p.items[i].device);
    gale__free(p.items);
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_check_result)

/* --- JSON. --- */

static void add_notes(gale__json_out *j, const char *key, const gale_check_note *items, size_t n)
{
    gale__json_open(j, key, '[');
    for (size_t i = 0; i < n; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "case", items[i].name);
        gale__json_put_text(j, "text", items[i].text);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

static void add_times(gale__json_out *j, const gale_check_device *d)
{
    gale__json_open(j, "times", '[');
    for (size_t i = 0; i < d->n_times; i++) {
        const gale_check_time *x = &d->times[i];
        gale__json_object(j);
        gale__json_put_text(j, "case", x->name);
        gale__json_put_f64(j, "median_us", x->median_us);
        gale__json_put_f64(j, "gbps", x->gbps);
        gale__json_put_f64(j, "gflops", x->gflops);
        gale__json_put_f64(j, "share", x->share);
        gale__json_put_i64(j, "kernels", x->kernels);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

static void add_device(gale__json_out *j, const gale_check_device *d)
{
    gale__json_object(j);
    gale__json_put_text(j, "name", d->name);
    if (!d->info) gale__json_put_text(j, "reason", d->reason);
    else {
        gale__json_key(j, "device");
        gale__device_json(j, d->info);
    }
    gale__json_put_i64(j, "passed", d->passed);
    gale__json_put_i64(j, "failed", d->failed);
    gale__json_put_i64(j, "skipped", d->skipped);
    add_notes(j, "failures", d->failures, d->n_failures);
    add_notes(j, "skips", d->skips, d->n_skips);
    add_times(j, d);
    gale__json_close(j, '}');
}

GALE__RESULT_JSON(gale_check_result, '{')
{
    gale__json_open(j, "devices", '[');
    for (size_t i = 0; i < r->n_devices; i++) add_device(j, &r->devices[i]);
    gale__json_close(j, ']');
    gale__json_put_i64(j, "passed", r->passed);
    gale__json_put_i64(j, "failed", r->failed);
    gale__json_put_i64(j, "skipped", r->skipped);
}
