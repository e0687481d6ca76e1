/* Modules and kernels: SPIR-V words, and a compute pipeline for each entry point.  Parameters are passed in push
 * constants or, if there are too many, by the address of a block in the stream's memory.  Compiled pipelines are
 * cached on disk. */
#include "device/binary_cache.h"
#include "device/vulkan/vulkan.h"
#include <stdio.h>
#include <string.h>

#define CACHE_HEADER 64 /* a driver that keeps nothing returns little more than the header */

typedef struct module_impl {
    uint32_t *words;
    size_t count;
    VkShaderModule module;
} module_impl;

static gale_status get_words(const gale__source *source, uint32_t **words, size_t *count)
{
    const char *options = source->options ? source->options : "";
    if (source->code == GALE__CODE_GLSL) return gale__vk_glsl(source->data, source->size, options, words, count);
    if (source->code != GALE__CODE_SPIRV)
        return gale__fail(GALE_UNSUPPORTED, "vulkan builds kernels from SPIR-V or GLSL");
    uint32_t magic = 0;
    if (source->size >= 20) memcpy(&magic, source->data, 4);
    if (source->size % 4 || magic != 0x07230203u)
        return gale__fail(GALE_FORMAT, "not SPIR-V: %zu bytes that do not begin with its magic number", source->size);
    return gale__vk_words_copy(source->data, source->size, words, count);
}

static void free_module(gale__vk_device *d, module_impl *m)
{
    if (m->module) d->fn.vkDestroyShaderModule(d->handle, m->module, NULL);
    gale__free(m->words);
    gale__free(m);
}

gale_status gale__vk_build(gale_device *device, const gale__source *source, gale_module *module)
{
    gale__vk_device *d = gale__vk_of(device);
    module_impl *m = gale__calloc(1, sizeof *m);
    if (!m) return GALE_NO_MEMORY;
    gale_status status = get_words(source, &m->words, &m->count);
    if (status == GALE_OK) {
        VkShaderModuleCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = m->count * 4, .pCode = m->words};
        VkResult r = d->fn.vkCreateShaderModule(d->handle, &info, NULL, &m->module);
        if (r != VK_SUCCESS) status = gale__vk_fail(r, "vkCreateShaderModule of %zu words", m->count);
    }
    if (status == GALE_OK) module->impl = m;
    else free_module(d, m);
    return status;
}

void gale__vk_unbuild(gale_module *module)
{
    if (module->impl) free_module(gale__vk_of(module->device), module->impl);
    module->impl = NULL;
}

/* A cache for this one pipeline, so that kernels may be built side by side and each is found by its own key. */
static VkPipelineCache open_cache(gale__vk_device *d, const char *key, bool *hit)
{
    gale__bytes kept = {0};
    VkPipelineCache cache = VK_NULL_HANDLE;
    *hit = gale__binary_cache_get(key, &kept);
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = kept.size, .pInitialData = kept.data};
    if (d->fn.vkCreatePipelineCache(d->handle, &info, NULL, &cache) != VK_SUCCESS) cache = VK_NULL_HANDLE;
    if (*hit) gale__bytes_finish(&kept);
    return cache;
}

static void keep_cache(gale__vk_device *d, VkPipelineCache cache, const char *key)
{
    size_t size = 0;
    if (d->fn.vkGetPipelineCacheData(d->handle, cache, &size, NULL) != VK_SUCCESS || size <= CACHE_HEADER) return;
    void *data = gale__alloc(size);
    if (data && d->fn.vkGetPipelineCacheData(d->handle, cache, &size, data) == VK_SUCCESS)
        gale__binary_cache_put(key, data, size);
    gale__free(data);
}

static VkResult create_pipeline(
    gale__vk_device *d, const module_impl *m, const gale_kernel *k, VkPipelineCache cache, VkPipeline *out)
{
    const gale__vk_physical *p = &d->physical;
    uint32_t subgroup = p->info.caps.subgroup;
    /* Where the driver may choose among sizes, gale's own kernels get the one they were printed for. */
    bool fix = p->subgroup_settable && p->subgroup_min != p->subgroup_max && k->module->source.ours &&
               k->group[0] % subgroup == 0;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = subgroup,
    };
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = fix ? &size : NULL,
                .flags = fix ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = m->module,
                .pName = k->entry,
            },
        .layout = d->layout,
    };
    return d->fn.vkCreateComputePipelines(d->handle, cache, 1, &info, NULL, out);
}

static gale_status check_group(const gale__vk_device *d, const gale_kernel *k, const uint32_t group[3])
{
    uint64_t threads = (uint64_t)k->group[0] * k->group[1] * k->group[2];
    if (group[0] && memcmp(group, k->group, 3 * sizeof *group))
        return gale__fail(GALE_INVALID, "kernel %s: its local size is %ux%ux%u, but %ux%ux%u was requested", k->entry,
            group[0], group[1], group[2], k->group[0], k->group[1], k->group[2]);
    if (threads > d->physical.info.caps.group_max)
        return gale__fail(GALE_LIMIT, "kernel %s: a work-group of %llu exceeds the %u that this device allows",
            k->entry, (unsigned long long)threads, d->physical.info.caps.group_max);
    return GALE_OK;
}

gale_status gale__vk_kernel(gale_module *module, gale_kernel *kernel)
{
    gale__vk_device *d = gale__vk_of(module->device);
    module_impl *m = module->impl;
    uint32_t group[3];
    bool hit = false;
    char key[GALE__BINARY_KEY], device[256];
    VkPipeline pipeline = VK_NULL_HANDLE;
    GALE_TRY(gale__vk_spirv_entry(m->words, m->count, kernel->entry, group));
    GALE_TRY(check_group(d, kernel, group));
    if (!module->source.ours) kernel->parameter_bytes = gale__vk_spirv_push_bytes(m->words, m->count);
    snprintf(device, sizeof device, "vulkan %s %s", d->physical.info.name, d->physical.info.id);
    gale__binary_cache_key_for(m->words, m->count * 4, device, d->physical.info.driver, kernel->entry, key);
    VkPipelineCache cache = open_cache(d, key, &hit);
    VkResult r = create_pipeline(d, m, kernel, cache, &pipeline);
    if (r == VK_SUCCESS && cache && !hit) keep_cache(d, cache, key);
    if (cache) d->fn.vkDestroyPipelineCache(d->handle, cache, NULL);
    if (r != VK_SUCCESS) {
        gale_status status = gale__vk_fail(r, "vkCreateComputePipelines of %s", kernel->entry);
        return r == VK_ERROR_INITIALIZATION_FAILED || r == VK_ERROR_UNKNOWN ? GALE_BUILD : status;
    }
    kernel->impl = pipeline;
    return GALE_OK;
}

void gale__vk_kernel_destroy(gale_kernel *kernel)
{
    gale__vk_device *d = gale__vk_of(kernel->module->device);
    if (!kernel->impl) return;
    gale__vk_quiesce(d);
    d->fn.vkDestroyPipeline(d->handle, kernel->impl, NULL);
    kernel->impl = NULL;
}

static gale_status check_launch(
    const gale__vk_device *d, const gale_kernel *k, const gale__launch *l, size_t block_bytes)
{
    const gale_device_caps *caps = &d->physical.info.caps;
    for (int i = 0; i < 3; i++)
        if (l->groups[i] > caps->groups_max[i])
            return gale__fail(GALE_LIMIT, "kernel %s: %u work-groups on axis %d exceed the %u that this device allows",
                k->entry, l->groups[i], i, caps->groups_max[i]);
    size_t most = k->module->source.ours ? GALE__VK_CHUNK : caps->push_bytes;
    if (block_bytes > most)
        return gale__fail(GALE_LIMIT, "kernel %s: %zu bytes of parameters, at most %zu", k->entry, block_bytes, most);
    return GALE_OK;
}

static void write_block(const gale__launch *l, void *block)
{
    char *at = block;
    for (int i = 0; i < l->n_refs; i++, at += 8) {
        uint64_t address = l->refs[i].mem ? l->refs[i].mem->address + l->refs[i].offset : 0;
        memcpy(at, &address, 8);
    }
    if (l->n_words) memcpy(at, l->words, 4u * (size_t)l->n_words);
}

static void record_launch(
    gale__vk_device *d, gale__vk_recorder *rec, const gale_kernel *k, const gale__launch *l, size_t block_bytes)
{
    char push[GALE__VK_PUSH];
    uint32_t push_bytes = (uint32_t)block_bytes;
    if (block_bytes > d->physical.info.caps.push_bytes) {
        gale__ref at;
        write_block(l, gale__vk_params(rec, block_bytes, &at));
        uint64_t address = at.mem->address + at.offset;
        memcpy(push, &address, push_bytes = 8);
    } else write_block(l, push);
    VkPipeline pipeline = k->impl;
    if (rec->bound != pipeline) d->fn.vkCmdBindPipeline(rec->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    rec->bound = pipeline;
    if (push_bytes)
        d->fn.vkCmdPushConstants(rec->commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes, push);
    d->fn.vkCmdDispatch(rec->commands, l->groups[0], l->groups[1], l->groups[2]);
}

gale_status gale__vk_launch(gale_stream *stream, gale_kernel *kernel, const gale__launch *launch)
{
    gale__vk_stream *s = stream->impl;
    gale__vk_recorder *rec;
    size_t block_bytes = 8u * (size_t)launch->n_refs + 4u * (size_t)launch->n_words;
    GALE_TRY(check_launch(s->device, kernel, launch, block_bytes));
    gale__mutex_lock(&s->lock);
    gale_status status = gale__vk_command(s, block_bytes, &rec);
    if (status == GALE_OK) {
        record_launch(s->device, rec, kernel, launch, block_bytes);
        status = gale__vk_command_done(s, 1);
    }
    gale__mutex_unlock(&s->lock);
    return status;
}
