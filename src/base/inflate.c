/* Inflate and checksums by zlib.  Its memory comes from base/mem.h, so that tests can make any of its allocations
 * fail.  zlib counts input and output in 32 bits: longer ones are handed over in pieces. */
#include "base/inflate.h"
#include <limits.h>
#include <zlib.h>

static void *allocate(void *user, unsigned n, unsigned size)
{
    size_t bytes;
    (void)user;
    return gale__mul_size(n, size, &bytes) ? NULL : gale__alloc(bytes);
}

static void release(void *user, void *memory)
{
    (void)user;
    gale__free(memory);
}

static unsigned piece(size_t left) { return left < UINT_MAX ? (unsigned)left : UINT_MAX; }

static gale_status explain(int result, bool full)
{
    if (result == Z_MEM_ERROR) return GALE_NO_MEMORY;
    if (result == Z_STREAM_END) return full ? GALE_OK : gale__fail(GALE_FORMAT, "packed data: shorter than declared");
    if (result == Z_BUF_ERROR)
        return gale__fail(GALE_FORMAT, "packed data: %s", full ? "longer than declared" : "cut off");
    return gale__fail(GALE_FORMAT, "packed data: damaged");
}

gale_status gale__inflate(const void *data, size_t size, void *out, size_t out_size, size_t *used)
{
    uint8_t none;
    const uint8_t *end = (const uint8_t *)data + size;
    uint8_t *out_end = out_size ? (uint8_t *)out + out_size : &none;
    z_stream z = {.zalloc = allocate, .zfree = release, .next_in = (z_const Bytef *)(uintptr_t)data};
    z.next_out = out_size ? out : &none;
    int result = inflateInit2(&z, -MAX_WBITS);
    if (result == Z_MEM_ERROR) return GALE_NO_MEMORY;
    if (result != Z_OK)
        return gale__fail(GALE_UNSUPPORTED, "zlib %s is not the version gale was built with", zlibVersion());
    while (result == Z_OK) {
        if (!z.avail_in) z.avail_in = piece((size_t)(end - z.next_in));
        if (!z.avail_out) z.avail_out = piece((size_t)(out_end - z.next_out));
        result = inflate(&z, Z_NO_FLUSH);
    }
    gale_status status = explain(result, z.next_out == out_end);
    if (status == GALE_OK && used) *used = size - (size_t)(end - z.next_in);
    inflateEnd(&z);
    return status;
}

uint32_t gale__crc32(uint32_t crc, const void *data, size_t size) { return (uint32_t)crc32_z(crc, data, size); }
