/* What is missing on this machine and what to install; and the step-by-step test of a provider in a child process,
 * since a broken driver may crash the process. */
#include "base/access.h"
#include "base/file.h"
#include "device/trust.h"
#include "gale/picture.h"
#include "jobs/machine/machine.h"
#include <stdio.h>
#include <string.h>

typedef struct examination {
    gale__arena *arena; /* the result's */
    gale_doctor_item *items;
    size_t count;
    bool failed; /* out of memory */
} examination;

static const char *keep(examination *e, const char *text)
{
    const char *copy = text ? gale__arena_strdup(e->arena, text) : NULL;
    if (!copy) e->failed = true;
    return copy;
}

static gale_doctor_item *add(
    examination *e, gale_doctor_kind kind, gale_doctor_state state, const char *name, const char *text)
{
    gale_doctor_item *item = gale__arena_add(e->arena, &e->items, &e->count, sizeof *item);
    if (!item) {
        e->failed = true;
        return NULL;
    }
    *item = (gale_doctor_item){.kind = kind, .state = state, .name = keep(e, name), .text = keep(e, text)};
    return item;
}

/* One more line of advice on an item; NULL: there was no memory for it. */
static void advise(examination *e, gale_doctor_item *item, const char *text)
{
    const char **list = NULL;
    if (!item) return;
    memcpy(&list, &item->advice, sizeof list);
    const char **to = gale__arena_add(e->arena, &list, &item->n_advice, sizeof *to);
    if (to) *to = keep(e, text);
    else e->failed = true;
    item->advice = list;
}

/* What the self-test said, and the setting without which the driver computes wrong results. */
static void check_trust(examination *e, gale_doctor_item *item, const gale_device_info *info)
{
    gale_device_state d;
    if (gale__device_state(e->arena, info, &d) != GALE_OK) {
        e->failed = true;
        return;
    }
    if (d.verdict == GALE_VERDICT_FAILED)
        advise(e, item, gale__arena_printf(e->arena, "failed the self-test: %s", d.verdict_reason));
    if (*d.fault && *d.setting) advise(e, item, gale__arena_printf(e->arena, "runs with %s: %s", d.setting, d.fault));
    else if (*d.fault)
        advise(e, item, gale__arena_printf(e->arena, "set %s=%s: %s", d.fault_variable, d.fault_value, d.fault));
}

static void check_provider(examination *e, const gale__provider *p)
{
    const gale_device_info *info = gale__provider_device(p);
    const gale__probe *probe = NULL;
    if (info) {
        const char *text = gale__arena_printf(e->arena, "%s (%s)%s", info->name, info->driver,
            info->caps.software ? ": software driver, used only if requested by name" : "");
        check_trust(e, add(e, GALE_DOCTOR_PROVIDER, GALE_DOCTOR_OK, p->name, text), info);
        return;
    }
    if (gale__provider_probe(p, &probe) != GALE_OK) return;
    gale_doctor_item *item = add(e, GALE_DOCTOR_PROVIDER, GALE_DOCTOR_MISSING, p->name, probe->reason);
    if (*probe->remedy) advise(e, item, probe->remedy);
    advise(e, item, gale__arena_printf(e->arena, "packages: %s", gale__provider_packages(p)));
}

/* Device files that are there but closed to this user explain many a missing GPU. */
static void check_permissions(examination *e)
{
    static const char *const nodes[] = {
        "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/kfd", "/dev/nvidiactl", "/dev/nvidia0"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        char group[64];
        if (gale__path_access(nodes[i], group, sizeof group) != GALE__ACCESS_DENIED) continue;
        add(e, GALE_DOCTOR_FILE, GALE_DOCTOR_DENIED, nodes[i],
            gale__arena_printf(e->arena, "no permission; run `sudo usermod -aG %s $USER`, then log in again", group));
    }
}

static void check_library(
    examination *e, const char *what, const char *use, const char *const *sonames, const char *package)
{
    gale__dl *dl = NULL;
    if (gale__dl_open(sonames, &dl) == GALE_OK) add(e, GALE_DOCTOR_LIBRARY, GALE_DOCTOR_OK, what, gale__dl_name(dl));
    else {
        const char *text = gale__arena_printf(e->arena, "%s not found; needed for %s", sonames[0], use);
        gale_doctor_item *item = add(e, GALE_DOCTOR_LIBRARY, GALE_DOCTOR_MISSING, what, text);
        advise(e, item, gale__arena_printf(e->arena, "packages: %s", package));
    }
    gale__dl_close(&dl);
}

static void check_cache(examination *e)
{
    char folder[1024], file[1100];
    if (gale__cache_folder(folder, sizeof folder) != GALE_OK) {
        add(e, GALE_DOCTOR_CACHE, GALE_DOCTOR_MISSING, "cache", gale_error());
        return;
    }
    snprintf(file, sizeof file, "%s/doctor", folder);
    if (gale__folder_make(folder) == GALE_OK && gale__file_write(file, "ok\n", 3) == GALE_OK)
        add(e, GALE_DOCTOR_CACHE, GALE_DOCTOR_OK, "cache", folder);
    else
        advise(e, add(e, GALE_DOCTOR_CACHE, GALE_DOCTOR_DENIED, "cache", gale_error()),
            "kernels are recompiled in every run; set GALE_CACHE to a writable folder");
    if (gale__file_exists(file)) gale__file_remove(file);
}

static void check_pictures(examination *e)
{
    const gale_picture_format *f;
    for (int i = 0; (f = gale_picture_format_get(i)); i++) {
        if (f->reads) add(e, GALE_DOCTOR_PICTURES, GALE_DOCTOR_OK, f->name, f->writes ? "read and written" : "read");
        else
            advise(e, add(e, GALE_DOCTOR_PICTURES, GALE_DOCTOR_MISSING, f->name, "not included in this build"),
                gale__arena_printf(e->arena, "packages to build with: %s", f->package));
    }
}

static gale_status examine(const gale_doctor_options *o, gale_doctor_result *r)
{
    static const char *const shaderc[] = {"libshaderc_shared.so.1", "libshaderc.so.1", NULL};
    examination e = {.arena = gale__result_arena(r)};
    int count;
    const gale__provider *all = gale__providers(&count);
    for (int i = 0; i < count; i++) {
        GALE_TRY(gale__job_tell(&o->control, "providers", "providers", (uint64_t)i, (uint64_t)count));
        if (all[i].rank) check_provider(&e, &all[i]); /* others are further names, or for tests */
    }
    GALE_TRY(gale__job_tell(&o->control, "providers", "providers", (uint64_t)count, (uint64_t)count));
    check_permissions(&e);
    check_library(&e, "shaderc", "your own GLSL kernels on Vulkan", shaderc, "libshaderc1");
    check_pictures(&e);
    check_cache(&e);
    r->items = e.items;
    r->n_items = e.count;
    return e.failed ? GALE_NO_MEMORY : GALE_OK;
}

gale_status gale_doctor_examine(const gale_doctor_options *options, gale_doctor_result **out)
{
    GALE__NEED({"out", out});
    GALE__OPTIONS(options);
    static const gale_doctor_options usual = {0};
    const gale_doctor_options *o = options ? options : &usual;
    GALE_TRY(gale__job_tell(&o->control, "probe", "devices", 0, 0));
    gale__probe_all();
    gale_doctor_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? examine(o, result) : GALE_NO_MEMORY;
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_doctor_result)

GALE__RESULT_JSON(gale_doctor_result, '[')
{
    static const char *const kinds[] = {"provider", "file", "library", "cache", "pictures"};
    static const char *const states[] = {"ok", "missing", "denied"};
    for (size_t i = 0; i < r->n_items; i++) {
        const gale_doctor_item *item = &r->items[i];
        gale__json_object(j);
        gale__json_put_text(j, "kind", kinds[item->kind]);
        gale__json_put_text(j, "state", states[item->state]);
        gale__json_put_text(j, "name", item->name);
        gale__json_put_text(j, "text", item->text);
        gale__json_open(j, "advice", '[');
        for (size_t k = 0; k < item->n_advice; k++) gale__json_string(j, item->advice[k]);
        gale__json_close(j, ']');
        gale__json_close(j, '}');
    }
}
