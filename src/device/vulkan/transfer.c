/* Uploads, downloads, copies and fills.  All are copies between buffers: the host's memory is a buffer too. */
#include "device/vulkan/vulkan.h"

#define LARGE_BYTES (1u << 20) /* such a transfer goes to the device at once, while the host prepares the next */
#define WEIGHT(size) ((size) >= LARGE_BYTES ? 64 : 1)
#define PATTERN_BYTES 256u

static void copy_one(gale__vk_device *d, VkCommandBuffer commands, gale__ref to, gale__ref from, size_t size)
{
    VkBufferCopy region = {from.offset, to.offset, size};
    d->fn.vkCmdCopyBuffer(commands, from.mem->handle, to.mem->handle, 1, &region);
}

gale_status gale__vk_copy(gale_stream *stream, gale__ref to, gale__ref from, size_t size)
{
    gale__vk_stream *s = stream->impl;
    gale__vk_recorder *rec;
    if (!size) return GALE_OK;
    gale__mutex_lock(&s->lock);
    gale_status status = gale__vk_command(s, 0, &rec);
    if (status == GALE_OK) {
        copy_one(s->d, rec->commands, to, from, size);
        status = gale__vk_command_done(s, WEIGHT(size));
    }
    gale__mutex_unlock(&s->lock);
    return status;
}

gale_status gale__vk_upload(gale_stream *stream, gale__ref to, gale__ref host, size_t size) { return gale__vk_copy(stream, to, host, size); }
gale_status gale__vk_download(gale_stream *stream, gale__ref from, gale__ref host, size_t size) { return gale__vk_copy(stream, host, from, size); }

/* Vulkan fills with whole 32-bit words.  Whatever does not suit that begins as a copy from the parameters, and then
 * doubles what is there already. */
static void fill_by_copies(gale__vk_device *d, gale__vk_recorder *rec, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes)
{
    gale__ref from;
    uint8_t *bytes = gale__vk_params(rec, PATTERN_BYTES, &from);
    for (size_t i = 0; i < PATTERN_BYTES; i++) bytes[i] = (uint8_t)(pattern >> (8 * (i % pattern_bytes)));
    size_t done = size < PATTERN_BYTES ? size : PATTERN_BYTES;
    copy_one(d, rec->commands, to, from, done);
    while (done < size) {
        size_t more = size - done < done ? size - done : done;
        gale__vk_barrier(d, rec->commands, false);
        copy_one(d, rec->commands, (gale__ref){to.mem, to.offset + done}, to, more);
        done += more;
    }
}

gale_status gale__vk_fill(gale_stream *stream, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes)
{
    gale__vk_stream *s = stream->impl;
    gale__vk_recorder *rec;
    if (!size) return GALE_OK;
    uint32_t low = (uint32_t)pattern;
    if (pattern_bytes == 1) low = (low & 0xFF) * 0x01010101u;
    if (pattern_bytes == 2) low = (low & 0xFFFF) * 0x00010001u;
    bool words = to.offset % 4 == 0 && size % 4 == 0 && (pattern_bytes < 8 || low == (uint32_t)(pattern >> 32));
    gale__mutex_lock(&s->lock);
    gale_status status = gale__vk_command(s, PATTERN_BYTES, &rec);
    if (status == GALE_OK) {
        if (words) s->d->fn.vkCmdFillBuffer(rec->commands, to.mem->handle, to.offset, size, low);
        else fill_by_copies(s->d, rec, to, size, pattern, pattern_bytes);
        status = gale__vk_command_done(s, WEIGHT(size));
    }
    gale__mutex_unlock(&s->lock);
    return status;
}
