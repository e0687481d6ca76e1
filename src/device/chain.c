/* From provider names to a device: a chain such as "cuda,vulkan,cpu" is tried in order, and each fallback is reported
 * with its reason.  Without a chain, the best device that is not a software driver is chosen, else the CPU.  A device
 * remembers its chain, so that work it cannot do can continue on the next one. */
#include "device/registry.h"
#include "base/env.h"
#include "device/trust.h"
#include <stdio.h>
#include <string.h>

#define CHAIN_MAX 16

typedef struct step {
    const gale__provider *provider;
    bool automatic;
} step;
typedef struct choice {
    const gale_device_options *options;
    step steps[CHAIN_MAX];
    int count, index;   /* index: -1 if not given */
    bool strict, again; /* again: another device has failed at the work */
    gale__str why;
} choice;

static gale_status unknown(const char *name)
{
    gale__str known = {0};
    int count;
    const gale__provider *all = gale__providers(&count);
    for (int i = 0; i < count; i++) gale__str_addf(&known, "%s%s", i ? ", " : "", all[i].name);
    gale_status status = gale__fail(GALE_NO_DEVICE,
        "unknown provider \"%s\"; known are %s (`gale devices` lists their aliases)", name, gale__str_text(&known));
    gale__str_finish(&known);
    return status;
}

static gale_status add_step(choice *c, const gale__provider *provider, bool automatic)
{
    if (c->count == CHAIN_MAX)
        return gale__fail(GALE_LIMIT, "too many names in a provider chain (at most %d)", CHAIN_MAX);
    c->steps[c->count++] = (step){provider, automatic};
    return GALE_OK;
}

/* Providers with a rank, best first. */
static gale_status add_automatic(choice *c)
{
    int count;
    const gale__provider *all = gale__providers(&count);
    for (int rank = 1; rank <= count; rank++)
        for (int i = 0; i < count; i++)
            if (all[i].rank == rank) GALE_TRY(add_step(c, &all[i], true));
    return GALE_OK;
}

static gale_status parse_chain(choice *c, const char *chain)
{
    while (*chain) {
        size_t n = strcspn(chain, ",");
        size_t from = 0, to = n;
        while (from < to && strchr(" \t", chain[from])) from++;
        while (to > from && strchr(" \t", chain[to - 1])) to--;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(to - from), chain + from);
        if (gale__text_equal_nocase(name, "auto")) GALE_TRY(add_automatic(c));
        else {
            const gale__provider *provider = gale__provider_find(name);
            if (!provider) return unknown(name);
            GALE_TRY(add_step(c, provider, false));
        }
        chain += n + (chain[n] == ',');
    }
    return c->count ? GALE_OK : add_automatic(c);
}

/* The device of a provider that is meant when no index was given, or one that only the first of the chain has: the
 * first that is real hardware. */
static int pick_index(const choice *c, const step *s, const gale__probe *probe)
{
    if (c->index >= 0 && (s == c->steps || c->index < probe->count)) return c->index;
    for (int i = 0; i < probe->count; i++)
        if (!probe->devices[i].caps.software) return i;
    return s->automatic ? -1 : 0;
}

static gale_status not_available(const step *s, const gale__probe *probe)
{
    const char *dot = *probe->remedy ? "; " : "";
    if (s->automatic) return gale__fail(GALE_NO_DEVICE, "%s", probe->reason);
    return gale__fail(GALE_NO_DEVICE, "%s execution provider requested but not available: %s%s%s", s->provider->label,
        probe->reason, dot, probe->remedy);
}

static gale_status open_trusted(const gale__backend *backend, const gale__probe *probe, int index,
    const gale_device_options *options, gale_device **out)
{
    gale__trust_test test = {0};
    if (index >= 0 && index < probe->count) GALE_TRY(gale__trust_begin(&probe->devices[index], &test));
    gale_status status = gale__device_open_one(backend, index, options, out);
    gale_status trusted = gale__trust_end(&test, status == GALE_OK ? *out : NULL);
    if (status != GALE_OK || trusted == GALE_OK) return status;
    gale_device_close(out);
    return trusted;
}

static gale_status try_step(const choice *c, const step *s, gale_device **out)
{
    const gale__probe *probe;
    GALE_TRY(gale__provider_probe(s->provider, &probe));
    if (!probe->count) return not_available(s, probe);
    int index = pick_index(c, s, probe);
    if (index < 0 || (s->automatic && index < probe->count && probe->devices[index].caps.software))
        return gale__fail(
            GALE_NO_DEVICE, "%s is a software driver, used only if requested by name", probe->devices[0].name);
    gale_status status = open_trusted(gale__provider_backend(s->provider), probe, index, c->options, out);
    if (status != GALE_OK && !s->automatic)
        return gale__fail_within(status, "%s execution provider requested but not available", s->provider->label);
    return status;
}

/* A named provider that is missing is a warning; one that the automatic choice skips is only logged as information. */
static void note_step_down(choice *c, int at)
{
    const step *s = &c->steps[at];
    gale__str_addf(&c->why, "%s: %s\n", s->provider->name, gale_error());
    if (!s->automatic && at + 1 < c->count)
        gale__log(GALE__WARN, "%s; falling back to %s", gale_error(), c->steps[at + 1].provider->name);
}

static void note_choice(choice *c, const step *s, const gale_device *device)
{
    const char *how = c->again       ? "the next provider"
                      : s->automatic ? "best device found"
                      : c->count > 1 ? "first of the chain that works"
                                     : "requested by name";
    if (!c->again && s->automatic && !strcmp(device->info.backend, "cpu")) {
        how = "No GPU detected";
        gale__log(GALE__INFO, "No GPU detected, using the CPU (`gale devices` shows the reasons)");
    }
    gale__str_addf(&c->why, "%s: %s: %s:%d %s", s->provider->name, how, device->info.backend, device->info.index,
        device->info.name);
}

/* Stores with the device the chain that it was opened by. */
static gale_status keep_wish(choice *c, const char *chain, int at, gale_device *device)
{
    const gale_device_options none = GALE_DEVICE_OPTIONS;
    note_choice(c, &c->steps[at], device);
    device->wish = c->options ? *c->options : none;
    device->wish.index = c->index;
    device->wish.strict = c->strict;
    device->wish.context = device->context; /* held by the device */
    device->wish.chain = device->chain = gale__strdup(chain);
    device->step = at;
    if (!device->chain) return GALE_NO_MEMORY;
    GALE_TRY(gale__str_check(&c->why));
    device->why = c->why.text;
    c->why = (gale__str){0};
    return GALE_OK;
}

static gale_status open_other(const choice *c, const step *s, gale_device *device)
{
    if (!c->options || !c->options->place || !s->automatic || device->info.caps.host_functions) return GALE_OK;
    return gale_device_open(&(gale_device_options){.chain = "cpu", .index = GALE_DEVICE_FIRST}, &device->other);
}

static gale_status open_first(choice *c, const char *chain, int from, gale_device **out)
{
    gale_status status = GALE_OK;
    for (int i = from; i < c->count; i++) {
        gale_device *device;
        status = try_step(c, &c->steps[i], &device);
        if (status == GALE_OK) {
            status = keep_wish(c, chain, i, device);
            if (status == GALE_OK) status = open_other(c, &c->steps[i], device);
            if (status == GALE_OK) *out = device;
            else gale_device_close(&device);
            return status;
        }
        if (c->strict && !c->steps[i].automatic && c->count > 1)
            return gale__fail(status, "%s; --strict: no fallback to %s", gale_error(),
                i + 1 < c->count ? c->steps[i + 1].provider->name : "another provider");
        note_step_down(c, i);
    }
    if (c->count == 1) return status;
    return gale__fail(status, "no provider in the chain is available:\n%s", gale__str_text(&c->why));
}

/* The index of the options, else GALE_DEVICE, else none. */
static gale_status find_index(const gale_device_options *options, int *out)
{
    const char *text = gale__env_get(GALE__ENV_DEVICE);
    int64_t value = -1;
    if (options && options->index < GALE_DEVICE_FIRST)
        return gale__fail(GALE_INVALID, "gale_device_options: index is %d; devices are counted from 0", options->index);
    if (options && options->index > 0) value = options->index;
    else if (options && options->index == GALE_DEVICE_FIRST) value = 0;
    else if (*text && strcmp(text, "auto") && (!gale__text_to_i64(text, &value) || value < 0 || value > 4096))
        return gale__fail(
            GALE_INVALID, "GALE_DEVICE=%s is not a device index; use 0 for the first device of a provider", text);
    *out = (int)value;
    return GALE_OK;
}

gale_status gale_device_open(const gale_device_options *options, gale_device **out)
{
    GALE__NEED({"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(options && options->context ? options->context : gale__context_current());
    choice c = {.options = options};
    const char *chain = options && options->chain ? options->chain : gale__env_get(GALE__ENV_PROVIDER);
    c.strict = (options && options->strict) || gale__env_get_i64(GALE__ENV_STRICT, 0) == 1;
    gale_status status = find_index(options, &c.index);
    if (status == GALE_OK) status = parse_chain(&c, chain);
    if (status == GALE_OK) status = open_first(&c, chain, 0, out);
    gale__str_finish(&c.why);
    return status;
}

gale_status gale__device_next(const gale_device *device, gale_status why, gale_device **out)
{
    GALE__WITHIN(device->context);
    choice c = {.options = &device->wish, .index = device->wish.index, .strict = device->wish.strict, .again = true};
    char reason[1024];
    snprintf(reason, sizeof reason, "%s", *gale_error() ? gale_error() : gale_status_text(why));
    gale_status status = device->chain ? parse_chain(&c, device->chain) : GALE_NO_DEVICE;
    bool more = status == GALE_OK && device->step + 1 < c.count;
    if (more && c.strict)
        return gale__fail(why, "%s; --strict: no fallback to %s", reason, c.steps[device->step + 1].provider->name);
    if (more) {
        gale__str_addf(&c.why, "%s: %s\n", c.steps[device->step].provider->name, reason);
        status = open_first(&c, device->chain, device->step + 1, out);
    }
    gale__str_finish(&c.why);
    return more && status == GALE_OK ? GALE_OK : gale__fail(why, "%s", reason);
}
