/* Deep chunks, by hand because the C core's decoder (3.1) crashes on channels that were not requested: any number of
 * samples per pixel, each with depth, alpha and premultiplied colours.  For pictures they are sorted by depth and
 * composited front to back, as OpenEXR does; samples with a back (ZBack) are treated as points at their front. */
#include "media/exr.h"
#include "base/num.h"
#include <string.h>

/* Where the samples of a channel are while a chunk is composited. */
typedef struct line {
    const char *name;
    float *values;
    size_t capacity;
} line;

struct gale__exr_deep {
    gale_exr *f;
    int part;
    const gale__exr_place *places;
    int count;
    exr_decode_pipeline_t pipeline;
    gale__exr_unpack *decompress; /* the library's; NULL: no compression */
    line depth, alpha, *lines;    /* a line for each place */
    uint32_t *order;              /* of one pixel's samples */
    size_t order_capacity;
    size_t total; /* samples of the chunk */
};

static const char *layer_end(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* The channel that goes with the first target: of its layer where there is one, else the plain one. */
static const char *companion(const gale__exr_deep *d, const char *wanted)
{
    const gale_exr_part *p = &d->f->parts[d->part];
    const char *first = d->count ? d->places[0].to.channel : "", *plain = NULL;
    size_t prefix = (size_t)(layer_end(first) - first);
    for (int i = 0; i < p->channel_count; i++) {
        const char *name = p->channels[i].name;
        if (strcmp(layer_end(name), wanted)) continue;
        if ((size_t)(layer_end(name) - name) == prefix && !memcmp(name, first, prefix)) return name;
        if (layer_end(name) == name) plain = name;
    }
    return plain;
}

static exr_result_t grow(line *l, size_t n)
{
    if (n <= l->capacity) return EXR_ERR_SUCCESS;
    gale__free(l->values);
    l->values = gale__alloc(n * sizeof *l->values);
    l->capacity = l->values ? n : 0;
    return l->values ? EXR_ERR_SUCCESS : EXR_ERR_OUT_OF_MEMORY;
}

/* Samples of one channel and row, as floats, to every line that wants them. */
static void take_row(gale__exr_deep *d, const exr_coding_channel_info_t *c, const uint8_t *from, size_t at, size_t n)
{
    gale_type type = GALE_F32;
    line *takers[2] = {&d->depth, &d->alpha};
    gale__exr_type((exr_pixel_type_t)c->data_type, &type);
    for (int k = 0; k < d->count + 2; k++) {
        line *l = k < 2 ? takers[k] : &d->lines[k - 2];
        if (!l->name || strcmp(l->name, c->channel_name)) continue;
        for (size_t i = 0; i < n; i++)
            l->values[at + i] = (float)gale__load_f64(type, from + i * (size_t)c->bytes_per_element);
    }
}

/* How many samples there are must be what the chunk's bytes make up. */
static exr_result_t count_samples(gale__exr_deep *d, const exr_decode_pipeline_t *p)
{
    uint64_t pixels = (uint64_t)p->chunk.width * (uint64_t)p->chunk.height, total = 0, bytes = 0;
    for (uint64_t i = 0; i < pixels; i++) {
        if (p->sample_count_table[i] < 0) return EXR_ERR_INVALID_SAMPLE_DATA;
        total += (uint64_t)p->sample_count_table[i];
    }
    for (int i = 0; i < p->channel_count; i++) bytes += (uint64_t)p->channels[i].bytes_per_element;
    if (total > UINT32_MAX || total > d->f->limits.max_bytes / sizeof(float) / (uint64_t)(d->count + 2) ||
        total * bytes != p->chunk.unpacked_size)
        return EXR_ERR_INVALID_SAMPLE_DATA;
    d->total = (size_t)total;
    exr_result_t e = grow(&d->depth, d->total + 1);
    if (e == EXR_ERR_SUCCESS) e = grow(&d->alpha, d->total + 1);
    for (int k = 0; k < d->count && e == EXR_ERR_SUCCESS; k++) e = grow(&d->lines[k], d->total + 1);
    return e;
}

/* Rows one after another, in each all samples of one channel, then of the next.  The library's own function (3.1)
 * crashes for channels that nobody wants. */
static exr_result_t unpack(exr_decode_pipeline_t *p)
{
    gale__exr_deep *d = p->decoding_user_data;
    const uint8_t *from = p->unpacked_buffer;
    const int32_t *counts = p->sample_count_table;
    size_t at = 0;
    exr_result_t e = count_samples(d, p);
    for (int32_t y = 0; y < p->chunk.height && e == EXR_ERR_SUCCESS && d->total; y++, counts += p->chunk.width) {
        size_t n = 0;
        for (int32_t x = 0; x < p->chunk.width; x++) n += (size_t)counts[x];
        for (int i = 0; i < p->channel_count; from += n * (size_t)p->channels[i++].bytes_per_element)
            take_row(d, &p->channels[i], from, at, n);
        at += n;
    }
    return e;
}

/* The library (3.1) leaves the counts of chunks without compression as the memory was, and takes stored counts of tiles
 * at the edge, which have the size of a whole tile, for compressed ones. */
static exr_result_t decompress(exr_decode_pipeline_t *p)
{
    const gale__exr_deep *d = p->decoding_user_data;
    const gale_exr_part *part = &d->f->parts[d->part];
    size_t size = (size_t)p->chunk.width * (size_t)p->chunk.height * sizeof *p->sample_count_table,
           whole = (size_t)part->tile_width * (size_t)part->tile_height * sizeof *p->sample_count_table;
    if (part->storage == GALE_EXR_DEEP_TILED && p->chunk.sample_count_table_size == whole)
        p->chunk.sample_count_table_size = size;
    if (d->decompress) return d->decompress(p);
    if (p->chunk.sample_count_table_size != size || p->chunk.packed_size != p->chunk.unpacked_size)
        return EXR_ERR_CORRUPT_CHUNK;
    memmove(p->sample_count_table, p->packed_sample_count_table, size);
    return EXR_ERR_SUCCESS;
}

gale_status gale__exr_deep_begin(gale_exr *f, int part, const gale__exr_place *places, int count, gale__exr_deep **out)
{
    gale__exr_deep *d = gale__calloc(1, sizeof *d);
    if (!d) return GALE_NO_MEMORY;
    *d = (gale__exr_deep){.f = f, .part = part, .places = places, .count = count};
    d->lines = gale__calloc((size_t)count + 1, sizeof *d->lines);
    if (!d->lines) {
        gale__exr_deep_end(&d);
        return GALE_NO_MEMORY;
    }
    d->depth.name = companion(d, "Z");
    d->alpha.name = companion(d, "A");
    for (int i = 0; i < count; i++) d->lines[i].name = places[i].to.channel;
    *out = d;
    return GALE_OK;
}

void gale__exr_deep_end(gale__exr_deep **deep)
{
    gale__exr_deep *d = *deep;
    if (!d) return;
    if (d->pipeline.context) exr_decoding_destroy(d->f->file, &d->pipeline);
    for (int i = 0; d->lines && i < d->count; i++) gale__free(d->lines[i].values);
    gale__free(d->depth.values);
    gale__free(d->alpha.values);
    gale__free(d->lines);
    gale__free(d->order);
    gale__free(d);
    *deep = NULL;
}

/* Samples of a pixel from front to back; those of one depth stay in the file's order.  Most files have them sorted. */
static void sort(const gale__exr_deep *d, size_t first, size_t n)
{
    const float *z = d->depth.name ? d->depth.values : NULL;
    for (size_t i = 0; i < n; i++) d->order[i] = (uint32_t)(first + i);
    for (size_t gap = n / 2; gap && z; gap /= 2) /* Shell's, with the number as second key */
        for (size_t i = gap; i < n; i++) {
            uint32_t one = d->order[i];
            size_t k = i;
            for (; k >= gap; k -= gap) {
                uint32_t other = d->order[k - gap];
                if (!(z[other] > z[one] || (z[other] == z[one] && other > one))) break;
                d->order[k] = other;
            }
            d->order[k] = one;
        }
}

/* One channel of a pixel, over all of its samples. */
static float composite(const gale__exr_deep *d, const line *l, size_t n)
{
    const float *v = l->values, *a = d->alpha.name ? d->alpha.values : NULL;
    if (d->depth.name && !strcmp(l->name, d->depth.name)) return n ? v[d->order[0]] : 0;
    float sum = 0, through = 1;
    for (size_t i = 0; i < n && through > 0; i++) {
        sum += through * v[d->order[i]];
        through *= a ? 1 - a[d->order[i]] : 0;
    }
    return sum;
}

static void store(const gale__exr_place *p, int64_t x, int64_t y, float v)
{
    char *to = (char *)p->to.data + (size_t)y * p->to.row_bytes + (size_t)x * p->to.pixel_bytes;
    if (p->to.type == GALE_U32) gale__store_i64(GALE_U32, to, v > 0 && v < 4294967296.0f ? (int64_t)v : 0);
    else gale__store_f64(p->to.type, to, (double)v);
}

static exr_result_t flatten(gale__exr_deep *d, int64_t x0, int64_t y0)
{
    const exr_decode_pipeline_t *p = &d->pipeline;
    size_t at = 0;
    for (int64_t y = 0; y < p->chunk.height; y++)
        for (int64_t x = 0; x < p->chunk.width; x++) {
            size_t n = (size_t)p->sample_count_table[y * p->chunk.width + x];
            if (gale__grow((void **)&d->order, &d->order_capacity, n + 1, sizeof *d->order) != GALE_OK)
                return EXR_ERR_OUT_OF_MEMORY;
            sort(d, at, n);
            for (int k = 0; k < d->count; k++) {
                if (x0 + x >= d->places[k].width || y0 + y >= d->places[k].height) return EXR_ERR_BAD_CHUNK_LEADER;
                store(&d->places[k], x0 + x, y0 + y, composite(d, &d->lines[k], n));
            }
            at += n;
        }
    return EXR_ERR_SUCCESS;
}

exr_result_t gale__exr_deep_chunk(gale__exr_deep *d, const exr_chunk_info_t *chunk, int64_t x, int64_t y)
{
    exr_decode_pipeline_t *p = &d->pipeline;
    bool first = !p->context;
    exr_result_t e = first ? exr_decoding_initialize(d->f->file, d->part, chunk, p)
                           : exr_decoding_update(d->f->file, d->part, chunk, p);
    if (e != EXR_ERR_SUCCESS) return e;
    p->decode_flags |= EXR_DECODE_SAMPLE_COUNTS_AS_INDIVIDUAL;
    p->decoding_user_data = d;
    if (first) e = exr_decoding_choose_default_routines(d->f->file, d->part, p);
    if (p->decompress_fn != decompress) d->decompress = p->decompress_fn, p->decompress_fn = decompress;
    p->unpack_and_convert_fn = unpack;
    if (e == EXR_ERR_SUCCESS) e = exr_decoding_run(d->f->file, d->part, p);
    return e == EXR_ERR_SUCCESS ? flatten(d, x, y) : e;
}
