/* Events: a value on the timeline of the stream they were recorded on, and a timestamp. */
#include "device/vulkan/vulkan.h"

typedef struct event_impl {
    gale__vk_timeline *timeline; /* NULL until recorded */
    uint64_t value;
    VkQueryPool pool; /* one time stamp; none when the queue has no clock */
} event_impl;

gale_status gale__vk_event_create(gale_device *device, gale_event *event)
{
    gale__vk_device *d = gale__vk_of(device);
    event_impl *e = gale__calloc(1, sizeof *e);
    if (!e) return GALE_NO_MEMORY;
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 1};
    VkResult r = d->physical.timestamp_bits ? d->fn.vkCreateQueryPool(d->handle, &info, NULL, &e->pool) : VK_SUCCESS;
    if (r != VK_SUCCESS) {
        gale__free(e);
        return gale__vk_fail(r, "vkCreateQueryPool");
    }
    event->impl = e;
    return GALE_OK;
}

void gale__vk_event_destroy(gale_event *event)
{
    gale__vk_device *d = gale__vk_of(event->device);
    event_impl *e = event->impl;
    if (!e) return;
    if (e->timeline && e->pool) gale__vk_timeline_wait(d, e->timeline, e->value); /* the time stamp may be on its way */
    if (e->pool) d->fn.vkDestroyQueryPool(d->handle, e->pool, NULL);
    gale__vk_timeline_drop(d, e->timeline);
    gale__free(e);
    event->impl = NULL;
}

static gale_status record(event_impl *e, gale__vk_stream *s)
{
    gale__vk_recorder *rec;
    if (s->capture) return gale__fail(GALE_UNSUPPORTED, "an event cannot be recorded while the stream is captured");
    if (e->pool) {
        GALE_TRY(gale__vk_command(s, 0, &rec));
        s->device->fn.vkCmdResetQueryPool(rec->commands, e->pool, 0, 1);
        s->device->fn.vkCmdWriteTimestamp(rec->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, e->pool, 0);
    }
    GALE_TRY(gale__vk_submit(s, VK_NULL_HANDLE));
    gale__vk_timeline_drop(s->device, e->timeline);
    s->timeline->refs++;
    e->timeline = s->timeline;
    e->value = s->submitted;
    return GALE_OK;
}

gale_status gale__vk_event_record(gale_event *event, gale_stream *stream)
{
    gale__vk_stream *s = stream->impl;
    gale__mutex_lock(&s->lock);
    gale_status status = record(event->impl, s);
    gale__mutex_unlock(&s->lock);
    return status;
}

gale_status gale__vk_event_wait(gale_event *event)
{
    event_impl *e = event->impl;
    return e->timeline ? gale__vk_timeline_wait(gale__vk_of(event->device), e->timeline, e->value) : GALE_OK;
}

gale_status gale__vk_event_poll(gale_event *event, bool *reached)
{
    gale__vk_device *d = gale__vk_of(event->device);
    event_impl *e = event->impl;
    uint64_t value = 0;
    *reached = true;
    if (!e->timeline) return GALE_OK;
    VkResult r = d->fn.vkGetSemaphoreCounterValue(d->handle, e->timeline->semaphore, &value);
    *reached = value >= e->value;
    return r == VK_SUCCESS ? GALE_OK : gale__vk_fail(r, "vkGetSemaphoreCounterValue");
}

/* Commands recorded so far are submitted without waiting; the wait is added to the next submission. */
static gale_status add_wait(gale__vk_stream *s, event_impl *e)
{
    if (s->capture) return gale__fail(GALE_UNSUPPORTED, "a stream cannot wait for an event while it is captured");
    if (s->open || s->n_waits == GALE__VK_WAITS) GALE_TRY(gale__vk_submit(s, VK_NULL_HANDLE));
    e->timeline->refs++;
    s->waits[s->n_waits].timeline = e->timeline;
    s->waits[s->n_waits++].value = e->value;
    return GALE_OK;
}

gale_status gale__vk_stream_wait(gale_stream *stream, gale_event *event)
{
    gale__vk_stream *s = stream->impl;
    event_impl *e = event->impl;
    if (!e->timeline || e->timeline == s->timeline) return GALE_OK;
    gale__mutex_lock(&s->lock);
    gale_status status = add_wait(s, e);
    gale__mutex_unlock(&s->lock);
    return status;
}

static gale_status get_ticks(gale__vk_device *d, event_impl *e, uint64_t *ticks)
{
    if (!e->pool) return gale__fail(GALE_UNSUPPORTED, "%s: the queue does not support timestamps", d->name);
    VkResult r = d->fn.vkGetQueryPoolResults(
        d->handle, e->pool, 0, 1, sizeof *ticks, ticks, sizeof *ticks, VK_QUERY_RESULT_64_BIT);
    return r == VK_SUCCESS ? GALE_OK : gale__vk_fail(r, "vkGetQueryPoolResults");
}

gale_status gale__vk_event_elapsed(gale_event *from, gale_event *to, double *time_us)
{
    gale__vk_device *d = gale__vk_of(from->device);
    uint64_t a = 0, b = 0;
    GALE_TRY(get_ticks(d, from->impl, &a));
    GALE_TRY(get_ticks(d, to->impl, &b));
    uint32_t spare = 64 - d->physical.timestamp_bits; /* counters that come round: the difference keeps its sign */
    *time_us = (double)((int64_t)((b - a) << spare) >> spare) * d->physical.timestamp_ns * 1e-3;
    return GALE_OK;
}
