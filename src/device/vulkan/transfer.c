/* Uploads, downloads, copies and fills.  Transfers are copies between buffers: host memory is a buffer too. */
#include "device/vulkan/vulkan.h"

#define LARGE_BYTES (1u << 20) /* such a transfer goes to the device at once, while the host prepares the next */
#define WEIGHT(size) ((size) >= LARGE_BYTES ? 64 : 1)
#define PATTERN_BYTES 256u

static void copy_one(gale__vk_device *d, gale__vk_recorder *rec, gale__ref to, gale__ref from, size_t size)
{
    size_t done = gale__vk_bulk_copy(d, rec, to, from, size);
    VkBufferCopy region = {from.offset + done, to.offset + done, size - done};
    if (done < size) d->fn.vkCmdCopyBuffer(rec->commands, from.mem->handle, to.mem->handle, 1, &region);
}

gale_status gale__vk_copy(gale_stream *stream, gale__ref to, gale__ref from, size_t size)
{
    gale__vk_stream *s = stream->impl;
    gale__vk_recorder *rec;
    if (!size) return GALE_OK;
    gale__mutex_lock(&s->lock);
    gale_status status = gale__vk_command(s, 0, &rec);
    if (status == GALE_OK) {
        copy_one(s->device, rec, to, from, size);
        status = gale__vk_command_done(s, WEIGHT(size));
    }
    gale__mutex_unlock(&s->lock);
    return status;
}

gale_status gale__vk_upload(gale_stream *stream, gale__ref to, gale__ref host, size_t size)
{
    return gale__vk_copy(stream, to, host, size);
}
gale_status gale__vk_download(gale_stream *stream, gale__ref from, gale__ref host, size_t size)
{
    return gale__vk_copy(stream, host, from, size);
}

/* Vulkan fills with whole 32-bit words.  Whatever does not suit that begins as a copy from the parameters, and then
 * doubles what is there already. */
static void fill_by_copies(gale__vk_device *d, gale__vk_recorder *rec, gale__ref to, size_t size, uint64_t pattern)
{
    gale__ref from;
    uint8_t *bytes = gale__vk_params(rec, PATTERN_BYTES, &from);
    for (size_t i = 0; i < PATTERN_BYTES; i++) bytes[i] = (uint8_t)(pattern >> (8 * (i % 8)));
    size_t done = size < PATTERN_BYTES ? size : PATTERN_BYTES;
    copy_one(d, rec, to, from, done);
    while (done < size) {
        size_t more = size - done < done ? size - done : done;
        gale__vk_barrier(d, rec->commands, false);
        copy_one(d, rec, (gale__ref){to.mem, to.offset + done}, to, more);
        done += more;
    }
}

/* The pattern over 8 bytes. */
static uint64_t widen(uint64_t pattern, size_t bytes)
{
    if (bytes == 1) return (pattern & 0xFF) * 0x0101010101010101u;
    if (bytes == 2) return (pattern & 0xFFFF) * 0x0001000100010001u;
    return bytes == 4 ? (pattern & UINT32_MAX) * 0x0000000100000001u : pattern;
}

/* Bulk first; it ends at a whole pattern, so that what is left begins with one too. */
static void fill_one(gale__vk_device *d, gale__vk_recorder *rec, gale__ref to, size_t size, uint64_t pattern)
{
    size_t done = gale__vk_bulk_fill(d, rec, to, size, pattern);
    to.offset += done;
    size -= done;
    if (!size) return;
    bool as_words = to.offset % 4 == 0 && size % 4 == 0 && (uint32_t)pattern == (uint32_t)(pattern >> 32);
    if (as_words) d->fn.vkCmdFillBuffer(rec->commands, to.mem->handle, to.offset, size, (uint32_t)pattern);
    else fill_by_copies(d, rec, to, size, pattern);
}

gale_status gale__vk_fill(gale_stream *stream, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes)
{
    gale__vk_stream *s = stream->impl;
    gale__vk_recorder *rec;
    if (!size) return GALE_OK;
    gale__mutex_lock(&s->lock);
    gale_status status = gale__vk_command(s, PATTERN_BYTES, &rec);
    if (status == GALE_OK) {
        fill_one(s->device, rec, to, size, widen(pattern, pattern_bytes));
        status = gale__vk_command_done(s, WEIGHT(size));
    }
    gale__mutex_unlock(&s->lock);
    return status;
}
