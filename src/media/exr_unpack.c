/* Copies decompressed chunks to their destination.  The C core's functions for half to float write out of bounds for
 * subsampled channels (3.1); here a row that keeps its type is a single copy. */
#include "media/exr.h"
#include "base/num.h"
#include "kernel/cpu/simd.h"
#include <string.h>

static const int sizes[] = {4, 2, 4}; /* EXR_PIXEL_UINT, HALF, FLOAT */

static uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static double load_sample(int type, const uint8_t *p)
{
    if (type == EXR_PIXEL_UINT) return (double)load32(p);
    return gale__load_f64(type == EXR_PIXEL_HALF ? GALE_F16 : GALE_F32, p);
}

static void store_sample(int type, uint8_t *p, double v)
{
    if (type != EXR_PIXEL_UINT) {
        gale__store_f64(type == EXR_PIXEL_HALF ? GALE_F16 : GALE_F32, p, v);
        return;
    }
    uint32_t whole = v > 0 ? v < 4294967295.0 ? (uint32_t)v : UINT32_MAX : 0;
    memcpy(p, &whole, sizeof whole);
}

/* Whole elements, `step` bytes apart in the target. */
static void spread(uint8_t *to, size_t step, const uint8_t *from, size_t size, size_t n)
{
    if (step == size) memcpy(to, from, n * size);
    else if (size == 2)
        for (size_t i = 0; i < n; i++) memcpy(to + i * step, from + 2 * i, 2);
    else
        for (size_t i = 0; i < n; i++) memcpy(to + i * step, from + 4 * i, 4);
}

static void put_row(const exr_coding_channel_info_t *c, uint8_t *to, const uint8_t *from)
{
    size_t n = (size_t)c->width, size = (size_t)sizes[c->data_type], step = (size_t)c->user_pixel_stride;
    if (c->data_type == c->user_data_type) {
        spread(to, step, from, size, n);
        return;
    }
    bool aligned = (uintptr_t)to % sizeof(float) == 0 && step == sizeof(float);
    if (c->data_type == EXR_PIXEL_HALF && c->user_data_type == EXR_PIXEL_FLOAT && aligned) {
        gale__simd_get()->widen[GALE_F16](to, from, NULL, NULL, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        store_sample(c->user_data_type, to + i * step, load_sample(c->data_type, from + i * size));
}

exr_result_t gale__exr_put_rows(exr_decode_pipeline_t *d)
{
    const uint8_t *from = d->unpacked_buffer;
    uint64_t left = d->chunk.unpacked_size;
    for (int i = 0; i < d->channel_count; i++)
        if (d->channels[i].data_type > 2) return EXR_ERR_CORRUPT_CHUNK;
    for (int32_t y = 0; y < d->chunk.height; y++) {
        int64_t line = (int64_t)d->chunk.start_y + y;
        for (int i = 0; i < d->channel_count; i++) {
            const exr_coding_channel_info_t *c = &d->channels[i];
            if (c->height < 1 || c->width < 1 || (c->y_samples > 1 && line % c->y_samples)) continue;
            uint64_t bytes = (uint64_t)c->width * (uint64_t)sizes[c->data_type];
            int64_t row = c->y_samples > 1 ? y / c->y_samples : y;
            if (bytes > left || row >= c->height) return EXR_ERR_CORRUPT_CHUNK;
            if (c->decode_to_ptr) put_row(c, c->decode_to_ptr + (size_t)row * (size_t)c->user_line_stride, from);
            from += bytes;
            left -= bytes;
        }
    }
    return EXR_ERR_SUCCESS;
}
