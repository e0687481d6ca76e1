/* The CPU as a device: memory is host memory, kernels are functions of this program, and a stream runs its work at the
 * call, so everything is reached as soon as it is sent.  Captures keep the commands in a list. */
#include "device/device.h"
#include "base/cpu.h"
#include "device/in_place.h"
#include <stdio.h>
#include <string.h>

typedef enum command_kind { COPY, FILL, LAUNCH } command_kind;
typedef struct command {
    command_kind kind;
    gale__ref to, from;
    size_t size, pattern_bytes;
    uint64_t pattern;
    gale_kernel *kernel;
    gale__launch launch; /* refs and words: in the recording's arena */
} command;
typedef struct recording {
    command *items;
    size_t count, capacity;
    gale__arena arena;
} recording;
typedef struct cpu_stream {
    recording *recording;
} cpu_stream; /* NULL: work runs at the call */

static void describe(gale_device_info *info)
{
    uint64_t features = gale__cpu_features();
    info->backend = "cpu";
    snprintf(info->name, sizeof info->name, "%s", gale__cpu_name());
    snprintf(info->driver, sizeof info->driver, "gale %s, %s", gale_version(), gale__cpu_isa_name());
    snprintf(info->id, sizeof info->id, "cpu-%s-%d", gale__cpu_name(), gale__cpu_cores());
    info->caps = (gale_device_caps){
        .memory_bytes = gale__cpu_memory_bytes(),
        .memory_free_bytes = gale__cpu_memory_free_bytes(),
        .alloc_max_bytes = gale__cpu_memory_bytes(),
        .compute_units = (uint32_t)gale__cpu_cores(),
        .subgroup = 1,
        .group_max = 65535,
        .f64 = true,
        .i64 = true,
        .unified_memory = true,
        .capture = true,
        .host_functions = true,
        .in_place = true,
        .holds_data = true,
        .denormals = true,
        .memory_model = true,
        .storage8 = true,
        .storage16 = true,
        .exact_division = true,
        .f16 = (features & (GALE__CPU_BIT(FP16) | GALE__CPU_BIT(AVX512FP16))) != 0,
        .bf16 = (features & (GALE__CPU_BIT(BF16) | GALE__CPU_BIT(AVX512BF16))) != 0,
    };
}

static gale_status probe(gale__probe *out)
{
    out->devices = gale__calloc(1, sizeof *out->devices);
    if (!out->devices) return GALE_NO_MEMORY;
    describe(out->devices);
    out->count = 1;
    return GALE_OK;
}

static gale_status open_device(gale_device *device)
{
    (void)device;
    return GALE_OK;
}

static void close_device(gale_device *device) { (void)device; }

static gale_status alloc(gale_device *device, gale__mem_kind kind, size_t size, gale__mem *out)
{
    (void)device, (void)kind;
    void *p = gale__alloc_aligned(64, size);
    if (!p) return GALE_NO_MEMORY;
    *out = (gale__mem){.address = (uintptr_t)p, .host = p, .size = size};
    return GALE_OK;
}

static void release(gale_device *device, gale__mem *mem)
{
    (void)device;
    gale__free(mem->host);
    *mem = (gale__mem){0};
}

static gale_status memory_info(gale_device *device, uint64_t *total, uint64_t *free_bytes)
{
    (void)device;
    *total = gale__cpu_memory_bytes();
    *free_bytes = gale__cpu_memory_free_bytes();
    return GALE_OK;
}

static char *at(gale__ref ref) { return (char *)ref.mem->host + ref.offset; }

/* Doubles what is filled already, so that any pattern runs at the speed of memcpy. */
static void fill_bytes(char *to, size_t size, uint64_t pattern, size_t pattern_bytes)
{
    size_t done = pattern_bytes;
    memcpy(to, &pattern, pattern_bytes);
    while (done < size) {
        size_t n = done < 64 << 10 ? done : 64 << 10;
        if (n > size - done) n = size - done;
        memcpy(to + done, to, n);
        done += n;
    }
}

static void run(const command *c)
{
    if (c->kind == COPY) gale__copy_bytes(at(c->to), at(c->from), c->size);
    else if (c->kind == FILL) fill_bytes(at(c->to), c->size, c->pattern, c->pattern_bytes);
    else c->kernel->module->source.fn(c->kernel->module->source.user, &c->launch);
}

static gale_status keep_launch(recording *r, gale__launch *launch)
{
    launch->refs = gale__arena_copy(&r->arena, launch->refs, (size_t)launch->n_refs * sizeof *launch->refs);
    launch->words = gale__arena_copy(&r->arena, launch->words, (size_t)launch->n_words * sizeof *launch->words);
    launch->tag = NULL;
    return launch->refs && launch->words ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status send(gale_stream *stream, command c)
{
    recording *r = ((cpu_stream *)stream->impl)->recording;
    if (!r) {
        run(&c);
        return GALE_OK;
    }
    GALE_TRY(gale__grow((void **)&r->items, &r->capacity, r->count + 1, sizeof *r->items));
    if (c.kind == LAUNCH) GALE_TRY(keep_launch(r, &c.launch));
    r->items[r->count++] = c;
    return GALE_OK;
}

static gale_status stream_create(gale_device *device, gale_stream *stream)
{
    (void)device;
    stream->impl = gale__calloc(1, sizeof(cpu_stream));
    return stream->impl ? GALE_OK : GALE_NO_MEMORY;
}

static void stream_destroy(gale_stream *stream) { gale__free(stream->impl); }

static gale_status copy(gale_stream *stream, gale__ref to, gale__ref from, size_t size)
{
    return send(stream, (command){.kind = COPY, .to = to, .from = from, .size = size});
}

static gale_status download(gale_stream *stream, gale__ref from, gale__ref host, size_t size)
{
    return copy(stream, host, from, size);
}

static gale_status fill(gale_stream *stream, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes)
{
    return send(
        stream, (command){.kind = FILL, .to = to, .size = size, .pattern = pattern, .pattern_bytes = pattern_bytes});
}

static gale_status build(gale_device *device, const gale__source *source, gale_module *module)
{
    (void)device, (void)module;
    if (source->code == GALE__CODE_HOST) return GALE_OK;
    return gale__fail(GALE_UNSUPPORTED, "cpu compiles no kernel source; choose a provider that does");
}

static gale_status launch(gale_stream *stream, gale_kernel *k, const gale__launch *l)
{
    return send(stream, (command){.kind = LAUNCH, .kernel = k, .launch = *l});
}

static void recording_destroy(recording *r)
{
    if (!r) return;
    gale__free(r->items);
    gale__arena_finish(&r->arena);
    gale__free(r);
}

static gale_status capture_begin(gale_stream *stream)
{
    cpu_stream *s = stream->impl;
    s->recording = gale__calloc(1, sizeof *s->recording);
    return s->recording ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status capture_end(gale_stream *stream, gale_capture *capture)
{
    cpu_stream *s = stream->impl;
    capture->impl = s->recording;
    s->recording = NULL;
    return GALE_OK;
}

static gale_status capture_replay(gale_stream *stream, gale_capture *capture)
{
    (void)stream;
    const recording *r = capture->impl;
    for (size_t i = 0; i < r->count; i++) run(&r->items[i]);
    return GALE_OK;
}

static void capture_destroy(gale_capture *capture) { recording_destroy(capture->impl); }

const gale__backend gale__backend_cpu = {
    .name = "cpu",
    .probe = probe,
    .open = open_device,
    .close = close_device,
    .alloc = alloc,
    .free = release,
    .memory_info = memory_info,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .upload = copy,
    .download = download,
    .copy = copy,
    .fill = fill,
    .build = build,
    .launch = launch,
    .sync = gale__in_place_sync,
    GALE__IN_PLACE,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .capture_replay = capture_replay,
    .capture_destroy = capture_destroy,
};
