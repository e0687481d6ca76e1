/* Streams: commands are recorded into batches and submitted together; each batch signals the next value of the
 * stream's timeline.  A batch, its command buffer and its chunk of parameters are reused once that value is reached.
 * A full barrier separates commands, so that work on a stream runs in order. */
#include "device/vulkan/vulkan.h"
#include <string.h>

#define BATCH_COMMANDS 64 /* submitted when this many are pending ... */
#define SPIN_NS 30000u
#define PART_NS 500000000u
#define IDLE_EVERY 8 /* ... or at a multiple of this when the device has nothing to do */

void gale__vk_timeline_drop(gale__vk_device *d, gale__vk_timeline *t)
{
    if (!t || --t->refs) return;
    d->fn.vkDestroySemaphore(d->handle, t->semaphore, NULL);
    gale__free(t);
}

static gale_status timeline_create(gale__vk_device *d, gale__vk_timeline **out)
{
    gale__vk_timeline *t = gale__calloc(1, sizeof *t);
    if (!t) return GALE_NO_MEMORY;
    VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult r = d->fn.vkCreateSemaphore(d->handle, &info, NULL, &t->semaphore);
    if (r != VK_SUCCESS) {
        gale__free(t);
        return gale__vk_fail(r, "vkCreateSemaphore");
    }
    t->refs = 1;
    *out = t;
    return GALE_OK;
}

/* Sleeping and waking up would take longer than many kernels. */
static bool reached_soon(gale__vk_device *d, gale__vk_timeline *t, uint64_t value)
{
    uint64_t start = gale__time_ns(), reached = 0;
    do {
        if (d->fn.vkGetSemaphoreCounterValue(d->handle, t->semaphore, &reached) != VK_SUCCESS) return false;
        if (reached >= value) return true;
    } while (gale__time_ns() - start < SPIN_NS);
    return false;
}

gale_status gale__vk_timeline_wait(gale__vk_device *d, gale__vk_timeline *t, uint64_t value)
{
    if (reached_soon(d, t, value)) return GALE_OK;
    uint64_t limit_ns = gale__watchdog_ns(d->physical.info.caps.software);
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &t->semaphore,
        .pValues = &value,
    };
    uint64_t start = gale__time_ns(), waited = 0, left;
    VkResult r;
    do { /* in parts, each of which looks first: a driver on the CPU may lose a wake-up as well (base/thread.c) */
        left = limit_ns ? limit_ns - waited : UINT64_MAX;
        r = d->fn.vkWaitSemaphores(d->handle, &info, left < PART_NS ? left : PART_NS);
        waited = gale__time_ns() - start;
    } while (r == VK_TIMEOUT && (!limit_ns || waited < limit_ns));
    if (r == VK_SUCCESS) return GALE_OK;
    if (r == VK_TIMEOUT)
        return gale__fail(GALE_TIMEOUT, "%s: no response from the device for %.0f s (GALE_WATCHDOG_S)", d->name,
            (double)limit_ns * 1e-9);
    return gale__vk_fail(r, "%s: vkWaitSemaphores", d->name);
}

void gale__vk_barrier(gale__vk_device *d, VkCommandBuffer commands, bool host)
{
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                         VK_ACCESS_TRANSFER_WRITE_BIT | (host ? VK_ACCESS_HOST_READ_BIT : 0),
    };
    d->fn.vkCmdPipelineBarrier(
        commands, stages, stages | (host ? VK_PIPELINE_STAGE_HOST_BIT : 0), 0, 1, &barrier, 0, NULL, 0, NULL);
}

/* Opens the next batch, waiting until the device is through with what it held before. */
static gale_status open_batch(gale__vk_stream *s)
{
    VkCommandBuffer commands = s->batches[s->at].commands;
    if (s->batches[s->at].value) GALE_TRY(gale__vk_timeline_wait(s->device, s->timeline, s->batches[s->at].value));
    VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    VkResult r = s->device->fn.vkBeginCommandBuffer(commands, &info);
    if (r != VK_SUCCESS) return gale__vk_fail(r, "vkBeginCommandBuffer");
    s->rec = (gale__vk_recorder){
        .commands = commands,
        .params = &s->params,
        .params_at = (size_t)s->at * GALE__VK_CHUNK,
        .params_end = (size_t)(s->at + 1) * GALE__VK_CHUNK,
    };
    s->pending = 0;
    s->open = true;
    return GALE_OK;
}

static gale_status enqueue(gale__vk_stream *s, const VkSubmitInfo *info)
{
    gale__mutex_lock(&s->queue->lock);
    VkResult r = s->device->fn.vkQueueSubmit(s->queue->handle, 1, info, VK_NULL_HANDLE);
    gale__mutex_unlock(&s->queue->lock);
    return r == VK_SUCCESS ? GALE_OK : gale__vk_fail(r, "%s: vkQueueSubmit", s->device->name);
}

/* Releases semaphores that no submission waits for any more, once a later submission has signalled too: Mesa's
 * submitting thread releases what a submission has waited for after its signal can be seen, and then looks for the
 * next one. */
static void release_held(gale__vk_stream *s)
{
    uint64_t reached = 0;
    int kept = 0;
    if (s->device->fn.vkGetSemaphoreCounterValue(s->device->handle, s->timeline->semaphore, &reached) != VK_SUCCESS)
        return;
    for (int i = 0; i < s->n_held; i++)
        if (s->held[i].value < reached) gale__vk_timeline_drop(s->device, s->held[i].timeline);
        else s->held[kept++] = s->held[i];
    s->n_held = kept;
}

/* Waits for all submissions, with one more that only signals. */
static gale_status release_all_held(gale__vk_stream *s)
{
    uint64_t signal = s->submitted + 1;
    VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &signal};
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &timeline,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &s->timeline->semaphore};
    GALE_TRY(enqueue(s, &info));
    s->submitted = signal;
    GALE_TRY(gale__vk_timeline_wait(s->device, s->timeline, signal));
    release_held(s);
    return GALE_OK;
}

/* Room to hold what the next submission waits for. */
static gale_status make_room(gale__vk_stream *s)
{
    if (s->n_held) release_held(s);
    return s->n_held + s->n_waits > GALE__VK_HELD ? release_all_held(s) : GALE_OK;
}

/* The waits have been submitted, or have failed and are forgotten. */
static void settle_waits(gale__vk_stream *s, bool submitted, uint64_t signal)
{
    for (int i = 0; i < s->n_waits; i++) {
        if (!submitted) {
            gale__vk_timeline_drop(s->device, s->waits[i].timeline);
            continue;
        }
        s->held[s->n_held].timeline = s->waits[i].timeline;
        s->held[s->n_held++].value = signal;
    }
    s->n_waits = 0;
}

gale_status gale__vk_submit(gale__vk_stream *s, VkCommandBuffer extra)
{
    gale__vk_device *d = s->device;
    VkCommandBuffer commands[2];
    VkSemaphore waits[GALE__VK_WAITS];
    VkPipelineStageFlags stages[GALE__VK_WAITS];
    uint64_t values[GALE__VK_WAITS], signal;
    uint32_t n = 0;
    int batch = -1;
    if (!s->open && !extra && !s->n_waits) return GALE_OK;
    if (s->n_waits) GALE_TRY(make_room(s));
    signal = s->submitted + 1;
    if (s->open) {
        gale__vk_barrier(d, s->rec.commands, true);
        s->open = false;
        VkResult r = d->fn.vkEndCommandBuffer(s->rec.commands);
        if (r != VK_SUCCESS) return gale__vk_fail(r, "vkEndCommandBuffer");
        batch = s->at;
        s->at = (s->at + 1) % GALE__VK_BATCHES;
        commands[n++] = s->rec.commands;
    }
    if (extra) commands[n++] = extra;
    for (int i = 0; i < s->n_waits; i++) {
        waits[i] = s->waits[i].timeline->semaphore;
        values[i] = s->waits[i].value;
        stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = (uint32_t)s->n_waits,
        .pWaitSemaphoreValues = values,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &signal,
    };
    VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &timeline,
        .waitSemaphoreCount = (uint32_t)s->n_waits,
        .pWaitSemaphores = waits,
        .pWaitDstStageMask = stages,
        .commandBufferCount = n,
        .pCommandBuffers = commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &s->timeline->semaphore,
    };
    gale_status status = enqueue(s, &info);
    settle_waits(s, status == GALE_OK, signal);
    GALE_TRY(status);
    s->submitted = signal;
    if (batch >= 0) s->batches[batch].value = signal;
    return GALE_OK;
}

gale_status gale__vk_command(gale__vk_stream *s, size_t params_bytes, gale__vk_recorder **out)
{
    gale__vk_recorder *rec = s->capture ? &s->capture->rec : &s->rec;
    if (s->capture) {
        if (rec->params_at + params_bytes > rec->params_end) GALE_TRY(gale__vk_capture_grow(s->device, s->capture));
    } else {
        if (s->open && rec->params_at + params_bytes > rec->params_end) GALE_TRY(gale__vk_submit(s, VK_NULL_HANDLE));
        if (!s->open) GALE_TRY(open_batch(s));
    }
    if (rec->any) gale__vk_barrier(s->device, rec->commands, false);
    rec->any = true;
    *out = rec;
    return GALE_OK;
}

static bool idle(gale__vk_stream *s)
{
    uint64_t reached = 0;
    return s->device->fn.vkGetSemaphoreCounterValue(s->device->handle, s->timeline->semaphore, &reached) ==
               VK_SUCCESS &&
           reached == s->submitted;
}

gale_status gale__vk_command_done(gale__vk_stream *s, uint32_t weight)
{
    if (s->capture) return GALE_OK;
    s->pending += weight;
    if (s->pending >= BATCH_COMMANDS || (s->pending % IDLE_EVERY == 0 && idle(s)))
        return gale__vk_submit(s, VK_NULL_HANDLE);
    return GALE_OK;
}

void *gale__vk_params(gale__vk_recorder *rec, size_t bytes, gale__ref *where)
{
    *where = (gale__ref){rec->params, rec->params_at};
    rec->params_at += (bytes + 15) & ~(size_t)15;
    return (char *)rec->params->host + where->offset;
}

gale_status gale__vk_sync(gale_stream *stream)
{
    gale__vk_stream *s = stream->impl;
    gale__mutex_lock(&s->lock);
    gale_status status = gale__vk_submit(s, VK_NULL_HANDLE);
    uint64_t value = s->submitted;
    gale__mutex_unlock(&s->lock);
    return status == GALE_OK && value ? gale__vk_timeline_wait(s->device, s->timeline, value) : status;
}

void gale__vk_quiesce(gale__vk_device *d)
{
    gale__mutex_lock(&d->lock);
    for (gale__vk_stream *s = d->streams; s; s = s->next) {
        gale__mutex_lock(&s->lock);
        if (gale__vk_submit(s, VK_NULL_HANDLE) == GALE_OK && s->submitted)
            gale__vk_timeline_wait(d, s->timeline, s->submitted);
        gale__mutex_unlock(&s->lock);
    }
    gale__mutex_unlock(&d->lock);
}

static void free_stream(gale__vk_stream *s)
{
    gale__vk_device *d = s->device;
    if (s->capture) gale__vk_capture_free(d, s->capture);
    for (int i = 0; i < s->n_waits; i++) gale__vk_timeline_drop(d, s->waits[i].timeline);
    for (int i = 0; i < s->n_held; i++) gale__vk_timeline_drop(d, s->held[i].timeline);
    if (s->pool) d->fn.vkDestroyCommandPool(d->handle, s->pool, NULL);
    gale__vk_mem_free(d, &s->params);
    gale__vk_timeline_drop(d, s->timeline);
    gale__mutex_finish(&s->lock);
    gale__free(s);
}

static gale_status make_batches(gale__vk_stream *s)
{
    gale__vk_device *d = s->device;
    VkCommandBuffer commands[GALE__VK_BATCHES];
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = d->physical.family,
    };
    VkResult r = d->fn.vkCreateCommandPool(d->handle, &pool, NULL, &s->pool);
    if (r != VK_SUCCESS) return gale__vk_fail(r, "vkCreateCommandPool");
    VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = s->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = GALE__VK_BATCHES,
    };
    r = d->fn.vkAllocateCommandBuffers(d->handle, &info, commands);
    if (r != VK_SUCCESS) return gale__vk_fail(r, "vkAllocateCommandBuffers");
    for (int i = 0; i < GALE__VK_BATCHES; i++) s->batches[i].commands = commands[i];
    return gale__vk_mem_alloc(d, GALE__VK_PARAMS, GALE__VK_BATCHES * GALE__VK_CHUNK, &s->params);
}

gale_status gale__vk_stream_create(gale_device *device, gale_stream *stream)
{
    gale__vk_device *d = gale__vk_of(device);
    gale__vk_stream *s = gale__calloc(1, sizeof *s);
    if (!s) return GALE_NO_MEMORY;
    s->device = d;
    gale__mutex_init(&s->lock);
    gale_status status = timeline_create(d, &s->timeline);
    if (status == GALE_OK) status = make_batches(s);
    if (status != GALE_OK) {
        free_stream(s);
        return status;
    }
    gale__mutex_lock(&d->lock);
    s->queue = &d->queues[d->next_queue++ % d->n_queues];
    s->next = d->streams;
    d->streams = s;
    gale__mutex_unlock(&d->lock);
    stream->impl = s;
    return GALE_OK;
}

void gale__vk_stream_destroy(gale_stream *stream)
{
    gale__vk_stream *s = stream->impl;
    if (!s) return;
    gale__mutex_lock(&s->device->lock);
    gale__vk_stream **at = &s->device->streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    gale__mutex_unlock(&s->device->lock);
    gale__vk_sync(stream);
    if (s->n_held) release_all_held(s);
    free_stream(s);
    stream->impl = NULL;
}
