/* Modules and kernels: source in a language the device supports in, entry points out. */
#include "base/env.h"
#include "device/front.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* GALE_DEBUG: the text of every kernel, a log line each, since the log cuts lines that are too long. */
static void log_source(const gale_device *device, const gale__source *source)
{
    if (!gale__log_on(GALE__DEBUG) || !gale__env_get_i64(GALE__ENV_DEBUG, 0)) return;
    gale__log(GALE__DEBUG, "%s: building %zu bytes%s%s", device->backend->name, source->size,
        source->options && *source->options ? " with options " : "", source->options ? source->options : "");
    if (source->code != GALE__CODE_TEXT && source->code != GALE__CODE_GLSL) return;
    const char *at = source->data, *end = at + source->size;
    while (at < end && *at) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = stop ? (size_t)(stop - at) : strnlen(at, (size_t)(end - at));
        gale__log(GALE__DEBUG, "| %.*s", n > 4000 ? 4000 : (int)n, at);
        at += n + 1;
    }
}

gale_status gale__module_build(gale_device *device, const gale__source *source, gale_module **out)
{
    log_source(device, source);
    gale_module *m = gale__calloc(1, sizeof *m);
    if (!m) return GALE_NO_MEMORY;
    m->device = device;
    m->source = *source;
    if (!m->source.options) m->source.options = "";
    m->refs = 1;
    gale_status status = device->backend->build(device, &m->source, m);
    if (status != GALE_OK) {
        gale__free(m);
        return status;
    }
    if (source->code != GALE__CODE_HOST) gale__context_add(device->context, GALE__COUNT_MODULES, 1);
    m->source.data = NULL;
    m->source.options = "";
    if (!source->in_device) gale__device_attach(device);
    *out = m;
    return GALE_OK;
}

/* Which language runs on which backend (NULL: on any that builds it), and how it gets there. */
static const struct {
    const char *language, *backend;
    gale__code code;
} languages[] = {
    {"cuda", "cuda", GALE__CODE_TEXT},
    {"hip", "hip", GALE__CODE_TEXT},
    {"opencl", "opencl", GALE__CODE_TEXT},
    {"glsl", "vulkan", GALE__CODE_GLSL},
    {"spirv", "vulkan", GALE__CODE_SPIRV},
    {"spirv", "opencl", GALE__CODE_SPIRV},
    {"binary", "cuda", GALE__CODE_BINARY},
    {"binary", "hip", GALE__CODE_BINARY},
    {"binary", "opencl", GALE__CODE_BINARY},
};
#define N_LANGUAGES (sizeof languages / sizeof *languages)

static gale_status find_code(const gale_device *device, const char *language, gale__code *out)
{
    bool known = false;
    char fits[64] = "";
    for (size_t i = 0; i < N_LANGUAGES; i++) {
        bool same = gale__text_equal_nocase(languages[i].language, language);
        bool here = !strcmp(languages[i].backend, device->backend->name);
        known |= same;
        if (same && (here || !strcmp(device->backend->name, "null"))) {
            *out = languages[i].code;
            return GALE_OK;
        }
        if (here)
            snprintf(fits + strlen(fits), sizeof fits - strlen(fits), "%s%s", *fits ? ", " : "", languages[i].language);
    }
    if (!known)
        return gale__fail(GALE_INVALID,
            "unknown kernel language \"%s\"; supported are cuda, hip, opencl, glsl, spirv and binary", language);
    return gale__fail(GALE_UNSUPPORTED, "%s cannot run %s kernels%s%s", device->backend->name, language,
        *fits ? "; it supports " : "; choose another provider", fits);
}

gale_status gale_module_create(
    gale_device *device, const char *language, const void *source, size_t size, const char *options, gale_module **out)
{
    GALE__NEED({"device", device}, {"language", language}, {"out", out});
    GALE__WITHIN(device->context);
    gale__source s = {.data = source, .size = size, .options = options ? options : ""};
    if (!source || !size) return gale__fail(GALE_INVALID, "the kernel source is empty");
    GALE_TRY(find_code(device, language, &s.code));
    if (s.code == GALE__CODE_SPIRV && size % 4)
        return gale__fail(GALE_FORMAT, "SPIR-V of %zu bytes: not a multiple of 4", size);
    return gale__module_build(device, &s, out);
}

static void drop(gale_module *m)
{
    if (atomic_fetch_sub(&m->refs, 1) != 1) return;
    gale_device *device = m->device;
    bool held = !m->source.in_device;
    device->backend->unbuild(m);
    gale__free(m);
    if (held) gale__device_detach(device);
}

void gale_module_destroy(gale_module **module)
{
    if (!module || !*module) return;
    gale_module *m = *module;
    *module = NULL;
    drop(m);
}

gale_status gale__kernel_create(gale_module *module, const char *entry, const uint32_t group[3], uint32_t block_bytes,
    uint32_t shared_bytes, gale_kernel **out)
{
    uint32_t most = module->device->info.caps.group_max;
    uint64_t threads = (uint64_t)group[0] * group[1] * group[2];
    if (!group[0] || !group[1] || !group[2])
        return gale__fail(GALE_INVALID, "kernel %s: a work-group extent is 0", entry);
    if (group[0] > 65535 || group[1] > 65535 || group[2] > 65535 || (most && threads > most))
        return gale__fail(GALE_LIMIT, "kernel %s: a work-group of %u x %u x %u exceeds the %u threads that %s allows",
            entry, group[0], group[1], group[2], most, module->device->info.name);
    gale_kernel *k = gale__calloc(1, sizeof *k);
    if (!k) return GALE_NO_MEMORY;
    if (strlen(entry) >= sizeof k->entry) {
        gale__free(k);
        return gale__fail(GALE_LIMIT, "kernel %s: names are limited to %zu characters", entry, sizeof k->entry - 1);
    }
    strcpy(k->entry, entry);
    memcpy(k->group, group, sizeof k->group);
    k->block_bytes = block_bytes;
    k->shared_bytes = shared_bytes;
    k->arguments = k->parameter_bytes = -1;
    k->module = module;
    gale_status status = module->device->backend->kernel(module, k);
    if (status != GALE_OK) {
        gale__free(k);
        return status;
    }
    atomic_fetch_add(&module->refs, 1);
    *out = k;
    return GALE_OK;
}

gale_status gale_kernel_get(gale_module *module, const char *entry, const uint32_t group[3], gale_kernel **out)
{
    GALE__NEED({"module", module}, {"entry", entry}, {"group", group}, {"out", out});
    GALE__WITHIN(module->device->context);
    return gale__kernel_create(module, entry, group, 0, 0, out);
}

void gale_kernel_destroy(gale_kernel **kernel)
{
    if (!kernel || !*kernel) return;
    gale_kernel *k = *kernel;
    *kernel = NULL;
    gale_module *module = k->module;
    module->device->backend->kernel_destroy(k);
    gale__free(k);
    drop(module);
}

#define REFS_MAX 64

/* With a wrong count, a driver would read past the parameters or ignore some. */
static gale_status check_counts(const gale_kernel *k, int n_buffers, int n_words)
{
    int64_t bytes = 8 * (int64_t)n_buffers + 4 * (int64_t)n_words;
    if (k->module->source.ours) return GALE_OK;
    if (k->arguments >= 0 && (int64_t)n_buffers + n_words != k->arguments)
        return gale__fail(GALE_INVALID, "launch %s: %d buffers and %d words given, but the kernel has %d arguments",
            k->entry, n_buffers, n_words, k->arguments);
    if (k->parameter_bytes >= 0 && bytes != k->parameter_bytes)
        return gale__fail(GALE_INVALID,
            "launch %s: %d buffers and %d words are %lld bytes of parameters, but the kernel has %d", k->entry,
            n_buffers, n_words, (long long)bytes, k->parameter_bytes);
    return GALE_OK;
}

gale_status gale_kernel_launch(gale_stream *stream, gale_kernel *kernel, const uint32_t groups[3],
    gale_buffer *const *buffers, int n_buffers, const uint32_t *words, int n_words)
{
    GALE__NEED({"stream", stream}, {"kernel", kernel}, {"groups", groups}, {"buffers", n_buffers < 1 || buffers},
        {"words", n_words < 1 || words});
    GALE__WITHIN(stream->device->context);
    gale__ref refs[REFS_MAX];
    if (n_buffers < 0 || n_buffers > REFS_MAX)
        return gale__fail(
            GALE_LIMIT, "launch %s: %d buffers given; 0 to %d are supported", kernel->entry, n_buffers, REFS_MAX);
    if (n_words < 0)
        return gale__fail(GALE_INVALID, "launch %s: n_words is %d; it must not be negative", kernel->entry, n_words);
    GALE_TRY(check_counts(kernel, n_buffers, n_words));
    for (int i = 0; i < n_buffers; i++) {
        if (!buffers[i]) return gale__fail(GALE_INVALID, "%s: %s: buffers[%d] is NULL", __func__, kernel->entry, i);
        if (buffers[i]->device != stream->device)
            return gale__fail(GALE_INVALID, "launch %s: buffer %d belongs to another device", kernel->entry, i);
        refs[i] = gale__buffer_ref(buffers[i], 0);
    }
    gale__launch launch = {.n_refs = n_buffers, .n_words = n_words, .refs = refs, .words = words};
    memcpy(launch.groups, groups, sizeof launch.groups);
    memcpy(launch.group, kernel->group, sizeof launch.group);
    return gale__launch_run(stream, kernel, &launch);
}
