/* Capture and replay: a command buffer that is recorded once, with its own parameters, and submitted repeatedly. */
#include "device/vulkan/vulkan.h"

void gale__vk_capture_free(gale__vk_device *d, gale__vk_capture *c)
{
    if (c->timeline) gale__vk_timeline_wait(d, c->timeline, c->value);
    gale__vk_timeline_drop(d, c->timeline);
    if (c->pool) d->fn.vkDestroyCommandPool(d->handle, c->pool, NULL);
    for (size_t i = 0; i < c->n_chunks; i++) {
        gale__vk_mem_free(d, c->chunks[i]);
        gale__free(c->chunks[i]);
    }
    gale__free(c->chunks);
    gale__free(c);
}

/* Chunks stand still while the list of them grows, since the recorder points to one. */
gale_status gale__vk_capture_grow(gale__vk_device *d, gale__vk_capture *c)
{
    GALE_TRY(gale__grow((void **)&c->chunks, &c->capacity, c->n_chunks + 1, sizeof *c->chunks));
    gale__mem *chunk = gale__calloc(1, sizeof *chunk);
    if (!chunk) return GALE_NO_MEMORY;
    gale_status status = gale__vk_mem_alloc(d, GALE__VK_PARAMS, GALE__VK_CHUNK, chunk);
    if (status != GALE_OK) {
        gale__free(chunk);
        return status;
    }
    c->chunks[c->n_chunks++] = chunk;
    c->rec.params = chunk;
    c->rec.params_at = 0;
    c->rec.params_end = GALE__VK_CHUNK;
    return GALE_OK;
}

static gale_status begin(gale__vk_device *d, gale__vk_capture *c)
{
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = d->physical.family};
    VkResult r = d->fn.vkCreateCommandPool(d->handle, &pool, NULL, &c->pool);
    if (r != VK_SUCCESS) return gale__vk_fail(r, "vkCreateCommandPool");
    VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = c->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    r = d->fn.vkAllocateCommandBuffers(d->handle, &info, &c->rec.commands);
    if (r != VK_SUCCESS) return gale__vk_fail(r, "vkAllocateCommandBuffers");
    VkCommandBufferBeginInfo how = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    r = d->fn.vkBeginCommandBuffer(c->rec.commands, &how);
    return r == VK_SUCCESS ? GALE_OK : gale__vk_fail(r, "vkBeginCommandBuffer");
}

gale_status gale__vk_capture_begin(gale_stream *stream)
{
    gale__vk_stream *s = stream->impl;
    gale__vk_capture *c = gale__calloc(1, sizeof *c);
    if (!c) return GALE_NO_MEMORY;
    gale_status status = begin(s->device, c);
    if (status != GALE_OK) {
        gale__vk_capture_free(s->device, c);
        return status;
    }
    gale__mutex_lock(&s->lock);
    s->capture = c;
    gale__mutex_unlock(&s->lock);
    return GALE_OK;
}

gale_status gale__vk_capture_end(gale_stream *stream, gale_capture *capture)
{
    gale__vk_stream *s = stream->impl;
    gale__mutex_lock(&s->lock);
    gale__vk_capture *c = s->capture;
    s->capture = NULL;
    gale__mutex_unlock(&s->lock);
    gale__vk_barrier(s->device, c->rec.commands, true);
    VkResult r = s->device->fn.vkEndCommandBuffer(c->rec.commands);
    if (r != VK_SUCCESS) {
        gale__vk_capture_free(s->device, c);
        return gale__vk_fail(r, "vkEndCommandBuffer");
    }
    capture->impl = c;
    return GALE_OK;
}

/* The capture remembers its last replay, to outlive it; replayed on another stream, it lets the former one end first.
 */
gale_status gale__vk_capture_replay(gale_stream *stream, gale_capture *capture)
{
    gale__vk_stream *s = stream->impl;
    gale__vk_capture *c = capture->impl;
    if (c->timeline && c->timeline != s->timeline) GALE_TRY(gale__vk_timeline_wait(s->device, c->timeline, c->value));
    gale__mutex_lock(&s->lock);
    gale_status status = gale__vk_submit(s, c->rec.commands);
    if (status == GALE_OK) {
        s->timeline->refs++;
        gale__vk_timeline_drop(s->device, c->timeline);
        c->timeline = s->timeline;
        c->value = s->submitted;
    }
    gale__mutex_unlock(&s->lock);
    return status;
}

void gale__vk_capture_destroy(gale_capture *capture)
{
    if (capture->impl) gale__vk_capture_free(gale__vk_of(capture->device), capture->impl);
    capture->impl = NULL;
}
