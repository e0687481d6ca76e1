/* Modules, kernels and launches on CUDA and HIP.  Generated source is looked up in the kernel cache first; the
 * compiler is loaded only on a miss. */
#include "device/binary_cache.h"
#include "device/cuda/nvrtc.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* CUDA passes at most this many bytes of parameters to every device it still supports. */
#define MAX_PARAMETER_BYTES 4096
#define EARLY_VERSION 12030 /* drivers from CUDA 12.3 on capture kernels that start early */

static gale__cu_device *of(const gale_device *device) { return device->impl; }

/* ---- building ---- */

static gale_status load(gale__cu_device *d, const void *image, void **module)
{
    char log[2048] = "";
    int options[] = {GALE__CU_JIT_ERROR_LOG, GALE__CU_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    GALE_TRY(gale__cu_enter(d));
    int code = d->api->module_load(module, image, 2, options, values);
    if (!code) return GALE_OK;
    gale_status status = gale__cu_check(d->api, code, "loading a module");
    return log[0] ? gale__fail(status, "%s\n%s", gale_error(), log) : status;
}

/* Multiply-add is contracted only where it is written; users' kernels follow the compiler's own habit, and may include
 * CUDA's headers where they are installed. */
static void full_options(const gale_device *device, const gale__source *source, gale__str *out)
{
    bool hip = of(device)->api->maker->hip;
    if (source->ours) gale__str_add(out, hip ? "-ffp-contract=off" : "--fmad=false");
    else if (!hip && gale__file_exists("/usr/local/cuda/include/cuda_fp16.h"))
        gale__str_add(out, "--include-path=/usr/local/cuda/include");
    if (device->debug_layer && !hip) gale__str_add(out, " --generate-line-info");
    if (source->options && *source->options) gale__str_addf(out, " %s", source->options);
}

static gale_status compile(gale_device *device, const gale__source *source, const char *options, gale__bytes *out)
{
    gale__cu_device *d = of(device);
    const gale__cu_maker *maker = d->api->maker;
    int major = d->api->version / maker->major_unit;
    char target[32];
    GALE_TRY(gale__cu_enter(d)); /* hipRTC compiles for the current device */
    GALE_TRY(gale__rtc_target(maker, major, (int)device->info.caps.arch, target, sizeof target));
    char *text = gale__alloc(source->size + 1);
    if (!text) return GALE_NO_MEMORY;
    memcpy(text, source->data, source->size);
    text[source->size] = 0;
    bool apart = device->apart && source->ours && !maker->hip;
    gale_status status = apart ? gale__rtc_compile_apart(major, text, target, options, out) : GALE_NOT_FOUND;
    if (status != GALE_OK) status = gale__rtc_compile(maker, major, source->ours, text, target, options, out);
    gale__free(text);
    return status;
}

static gale_status build_text(gale_device *device, const gale__source *source, void **module)
{
    gale__cu_device *d = of(device);
    gale__str options = {0};
    gale__bytes code = {0};
    char key[GALE__BINARY_KEY], target[192];
    full_options(device, source, &options);
    gale_status status;
    GALE_GO(gale__str_check(&options));
    snprintf(target, sizeof target, "%s %u %s", d->api->maker->label, device->info.caps.arch,
        d->api->maker->hip ? device->info.name : "");
    gale__binary_cache_key_for(source->data, source->size, target, device->info.driver, gale__str_text(&options), key);
    if (source->ours && gale__binary_cache_get(key, &code)) {
        if (load(d, code.data, module) == GALE_OK) goto done;
        gale__bytes_finish(&code);
    }
    GALE_GO(compile(device, source, gale__str_text(&options), &code));
    GALE_GO(load(d, code.data, module));
    if (source->ours) gale__binary_cache_put(key, code.data, code.size);
done:
    gale__bytes_finish(&code);
    gale__str_finish(&options);
    return status;
}

/* The driver finds the end of a binary by itself, but that of PTX by its zero. */
static gale_status build_binary(gale_device *device, const gale__source *source, void **module)
{
    char *image = gale__alloc(source->size + 1);
    if (!image) return GALE_NO_MEMORY;
    memcpy(image, source->data, source->size);
    image[source->size] = 0;
    gale_status status = load(of(device), image, module);
    gale__free(image);
    return status;
}

gale_status gale__cu_build(gale_device *device, const gale__source *source, gale_module *module)
{
    switch (source->code) {
    case GALE__CODE_TEXT: return build_text(device, source, &module->impl);
    case GALE__CODE_BINARY: return build_binary(device, source, &module->impl);
    default:
        return gale__fail(GALE_UNSUPPORTED,
            "%s builds kernels from its own C++ source or from a binary, not from SPIR-V, GLSL or host code",
            of(device)->api->maker->label);
    }
}

void gale__cu_unbuild(gale_module *module)
{
    gale__cu_device *d = of(module->device);
    if (!atomic_load(&d->hung) && gale__cu_enter(d) == GALE_OK) d->api->module_unload(module->impl);
    module->impl = NULL;
}

/* ---- kernels ---- */

/* Drivers since CUDA 12.4 tell of each parameter, up to the first that is not there. */
static int count_arguments(const gale__cu_api *api, void *function)
{
    enum { MOST = 4096 };
    size_t offset, size;
    int n = 0;
    while (n < MOST && api->function_parameter(function, (size_t)n, &offset, &size) == 0) n++;
    return n == 0 || n == MOST ? -1 : n; /* no parameter at all: more likely the driver does not report them */
}

gale_status gale__cu_kernel(gale_module *module, gale_kernel *kernel)
{
    gale__cu_device *d = of(module->device);
    const gale__cu_api *api = d->api;
    void *function = NULL;
    GALE_TRY(gale__cu_enter(d));
    int code = api->module_function(&function, module->impl, kernel->entry);
    if (code == GALE__CU_NOT_FOUND)
        return gale__fail(
            GALE_NOT_FOUND, "kernel \"%s\" not found in the module: declare it extern \"C\" __global__", kernel->entry);
    GALE_TRY(gale__cu_check(api, code, kernel->entry));
    int most = 0;
    uint64_t threads = (uint64_t)kernel->group[0] * kernel->group[1] * kernel->group[2];
    if (api->function_attribute && !api->function_attribute(&most, GALE__CU_FUNCTION_MAX_THREADS, function) &&
        most > 0 && threads > (uint64_t)most)
        return gale__fail(GALE_LIMIT,
            "kernel \"%s\": work-groups of %llu threads requested, but its registers allow at most %d", kernel->entry,
            (unsigned long long)threads, most);
    if (api->function_parameter) kernel->arguments = count_arguments(api, function);
    if (kernel->shared_bytes) {
        if (!api->function_set)
            return gale__fail(GALE_UNSUPPORTED,
                "kernel \"%s\": %u bytes of dynamic shared memory requested, which this driver does not support",
                kernel->entry, kernel->shared_bytes);
        code = api->function_set(function, GALE__CU_FUNCTION_SHARED, (int)kernel->shared_bytes);
        GALE_TRY(gale__cu_check(api, code, kernel->entry));
    }
    int target = 0;
    kernel->waits = module->source.waits && api->launch_ex && api->version >= EARLY_VERSION &&
                    api->function_attribute &&
                    !api->function_attribute(&target, GALE__CU_FUNCTION_PTX_VERSION, function) && target >= 90;
    kernel->impl = function;
    return GALE_OK;
}

void gale__cu_kernel_destroy(gale_kernel *kernel) { kernel->impl = NULL; } /* it lives in the module */

/* ---- launching ---- */

/* The parameter block { u64 p[]; u32 w[]; } of a launch, and the driver's list of parameters over it: one for our
 * kernels, which take the block by value; one for each pointer and word for users' kernels. */
typedef struct parameters {
    _Alignas(64) uint64_t maps[GALE__LAUNCH_MAPS][16];
    uint64_t block[MAX_PARAMETER_BYTES / 8];
    void *list[MAX_PARAMETER_BYTES / 4];
} parameters;

enum { MAP_BYTES = 0, MAP_HALVES = 1, MAP_SWIZZLE_64 = 2, MAP_SWIZZLE_128 = 3, MAP_PROMOTE_256 = 3 };

static int swizzle_of(const gale__matrix_map *m) { return m->row == 64 ? MAP_SWIZZLE_64 : MAP_SWIZZLE_128; }

/* Windows begin within a box whose corners are counted from those of the picture. */
static int encode_window(const gale__cu_api *api, const gale__matrix_map *m, uint64_t address, void *out)
{
    const gale__matrix_axis *x = &m->axis[0], *y = &m->axis[1];
    const uint64_t extent[4] = {m->k, x->extent, y->extent, m->rows}, pitch[3] = {x->pitch, y->pitch, m->pitch};
    const int32_t lower[2] = {x->first, y->first};
    const int32_t upper[2] = {(int32_t)(x->last + 1 - (int64_t)x->extent), (int32_t)(y->last + 1 - (int64_t)y->extent)};
    const uint32_t step[4] = {1, x->step, y->step, 1};
    return api->map_encode_window(out, m->element == 1 ? MAP_BYTES : MAP_HALVES, 4, address, extent, pitch, lower,
        upper, m->row / m->element, m->box_rows, step, 0, swizzle_of(m), MAP_PROMOTE_256, 0);
}

/* The rows of a spread box are numbered by five or six bits: the order of the dimensions is that in work-group memory.
 */
static int encode_rows(const gale__cu_api *api, const gale__matrix_map *m, uint64_t address, void *out)
{
    uint64_t p = m->pitch;
    uint32_t n = m->spread ? m->spread : 32;
    const uint64_t spread[5] = {m->k, 2, 4, n / 8, m->rows / n}, plain[2] = {m->k, m->rows};
    const uint64_t spread_pitch[4] = {p, n / 4 * p, 2 * p, n * p};
    const uint32_t box_k = m->row / m->element, spread_box[5] = {box_k, 2, 4, n / 8, m->box_rows / n};
    const uint32_t plain_box[2] = {box_k, m->box_rows}, step[5] = {1, 1, 1, 1, 1};
    return api->map_encode(out, m->element == 1 ? MAP_BYTES : MAP_HALVES, m->spread ? 5 : 2, address,
        m->spread ? spread : plain, m->spread ? spread_pitch : &p, m->spread ? spread_box : plain_box, step, 0,
        swizzle_of(m), MAP_PROMOTE_256, 0);
}

static gale_status encode_map(const gale__cu_api *api, const gale__launch *launch, const gale__matrix_map *m, void *out)
{
    const gale__ref *ref = &launch->refs[m->ref];
    uint64_t address = ref->mem->address + ref->offset + m->offset;
    return gale__cu_check(api, (m->window ? encode_window : encode_rows)(api, m, address, out), "describing a matrix");
}

static gale_status fill_parameters(
    const gale__cu_api *api, const gale_kernel *kernel, const gale__launch *launch, parameters *p)
{
    size_t pointers = (size_t)launch->n_refs, words = (size_t)launch->n_words, bytes = 8 * pointers + 4 * words;
    if (bytes > MAX_PARAMETER_BYTES)
        return gale__fail(GALE_LIMIT, "kernel \"%s\": %zu bytes of parameters, at most %d", kernel->entry, bytes,
            MAX_PARAMETER_BYTES);
    uint32_t *w = (uint32_t *)(p->block + pointers);
    for (size_t i = 0; i < pointers; i++) p->block[i] = launch->refs[i].mem->address + launch->refs[i].offset;
    if (words) memcpy(w, launch->words, 4 * words);
    if (words % 2) w[words] = 0; /* the padding is passed along */
    p->list[0] = p->block;
    for (int i = 0; i < launch->n_maps; i++) {
        GALE_TRY(encode_map(api, launch, &launch->maps[i], p->maps[i]));
        p->list[1 + i] = p->maps[i];
    }
    if (kernel->module->source.ours) return GALE_OK;
    for (size_t i = 0; i < pointers; i++) p->list[i] = p->block + i;
    for (size_t i = 0; i < words; i++) p->list[pointers + i] = w + i;
    return GALE_OK;
}

/* The kernel begins while the one before it ends, and waits in its first instruction, or at READY, until that one's
 * results are there: 47 kernels of a small network take 0.15 ms on an H200 instead of 0.18.  Only in captures, where
 * the driver sees what each kernel depends on, copies included. */
static int launch_early(
    const gale__cu_api *api, gale_stream *stream, const gale_kernel *kernel, const gale__launch *launch, void **list)
{
    gale__cu_launch_attribute early = {.id = GALE__CU_LAUNCH_EARLY, .value.number = 1};
    gale__cu_launch_config config = {
        .shared_bytes = kernel->shared_bytes, .stream = stream->impl, .attributes = &early, .n_attributes = 1};
    memcpy(config.groups, launch->groups, sizeof config.groups);
    memcpy(config.group, launch->group, sizeof config.group);
    return api->launch_ex(&config, kernel->impl, list, NULL);
}

static int send(
    const gale__cu_api *api, gale_stream *stream, const gale_kernel *kernel, const gale__launch *launch, void **list)
{
    const uint32_t *n = launch->groups, *g = launch->group, shared = kernel->shared_bytes;
    if (kernel->together)
        return api->launch_together(kernel->impl, n[0], n[1], n[2], g[0], g[1], g[2], shared, stream->impl, list);
    if (kernel->waits && stream->capturing) return launch_early(api, stream, kernel, launch, list);
    return api->launch(kernel->impl, n[0], n[1], n[2], g[0], g[1], g[2], shared, stream->impl, list, NULL);
}

gale_status gale__cu_launch(gale_stream *stream, gale_kernel *kernel, const gale__launch *launch)
{
    gale__cu_device *d = of(stream->device);
    parameters p;
    GALE_TRY(fill_parameters(d->api, kernel, launch, &p));
    GALE_TRY(gale__cu_enter(d));
    int code = send(d->api, stream, kernel, launch, p.list);
    GALE_TRY(gale__cu_check(d->api, code, kernel->entry));
    /* With --debug-layer, each launch is synchronised, so that an error names the kernel that caused it. */
    if (!stream->device->debug_layer || stream->capturing) return GALE_OK;
    gale_status status = gale__cu_stream_sync(d, stream->impl);
    return status == GALE_OK ? status : gale__fail_within(status, "kernel \"%s\"", kernel->entry);
}

double gale__cu_occupancy(const gale_device *device, const gale_kernel *kernel, const gale__launch *launch)
{
    gale__cu_device *d = of(device);
    const uint32_t *n = launch->groups, *g = launch->group;
    double threads = (double)g[0] * g[1] * g[2], groups = (double)n[0] * n[1] * n[2],
           units = device->info.caps.compute_units;
    int resident = 0;
    if (!d->api->groups_resident || d->unit_threads <= 0 || units <= 0 || gale__cu_enter(d) != GALE_OK) return -1;
    if (d->api->groups_resident(&resident, kernel->impl, (int)threads, kernel->shared_bytes)) return -1;
    return fmin(groups, resident * units) * threads / (d->unit_threads * units);
}

gale_status gale__cu_capture_change(
    gale_capture *capture, void *launched, gale_kernel *kernel, const gale__launch *launch)
{
    gale__cu_device *d = of(capture->device);
    parameters p;
    GALE_TRY(fill_parameters(d->api, kernel, launch, &p));
    GALE_TRY(gale__cu_enter(d));
    gale__cu_node node = {.function = kernel->impl, .shared_bytes = kernel->shared_bytes, .parameters = p.list};
    memcpy(node.groups, launch->groups, sizeof node.groups);
    memcpy(node.group, launch->group, sizeof node.group);
    return gale__cu_check(d->api, d->api->exec_change(capture->impl, launched, &node), kernel->entry);
}
