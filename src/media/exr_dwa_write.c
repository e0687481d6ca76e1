/* DWA, written: R, G and B of a layer as luma and chroma and Y, RY, BY alone by cosine transforms, A in runs,
 * everything else deflated without loss.  The C core (3.1) has no DWA. */
#include "media/exr_dwa.h"
#include "base/num.h"
#include <string.h>
#ifdef GALE_HAVE_DEFLATE
#include <libdeflate.h>

enum { LEVEL = 6 };
typedef struct rule {
    const char *suffix;
    int colour, scheme;
} rule;
static const rule rules[] = {{"R", 0, GALE__DWA_BY_DCT}, {"G", 1, GALE__DWA_BY_DCT}, {"B", 2, GALE__DWA_BY_DCT},
    {"Y", -1, GALE__DWA_BY_DCT}, {"BY", -1, GALE__DWA_BY_DCT}, {"RY", -1, GALE__DWA_BY_DCT},
    {"A", -1, GALE__DWA_BY_RLE}};
enum { RULES = sizeof rules / sizeof *rules };

typedef struct dwa {
    exr_encode_pipeline_t *e;
    struct libdeflate_compressor *tool;
    uint64_t size[GALE__DWA_SIZES];
    uint8_t *memory, *planes, *other, *rle, *room;
    uint16_t *halves, *ac, *dc; /* halves: of three channels that are floats */
    size_t samples;             /* of one channel */
    uint8_t *at, *end;          /* of what is written */
} dwa;

static size_t suffix_at(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) + 1 : 0;
}

/* Whole numbers are lossless. */
static const rule *rule_of(const exr_coding_channel_info_t *c)
{
    const char *suffix = c->channel_name + suffix_at(c->channel_name);
    for (int i = 0; i < RULES; i++)
        if (!strcmp(rules[i].suffix, suffix) && (rules[i].scheme == GALE__DWA_BY_RLE || c->data_type != EXR_PIXEL_UINT))
            return &rules[i];
    return NULL;
}

static int scheme_of(const exr_coding_channel_info_t *c)
{
    return rule_of(c) ? rule_of(c)->scheme : GALE__DWA_BY_OTHER;
}

/* Channels of the set of three that channel i belongs to; false: it is alone. */
static bool find_set(const exr_encode_pipeline_t *e, int i, int set[3])
{
    const char *name = e->channels[i].channel_name;
    size_t prefix = suffix_at(name);
    set[0] = set[1] = set[2] = -1;
    for (int k = 0; k < e->channel_count; k++) {
        const char *other = e->channels[k].channel_name;
        const rule *r = rule_of(&e->channels[k]);
        if (r && r->colour >= 0 && suffix_at(other) == prefix && !memcmp(other, name, prefix)) set[r->colour] = k;
    }
    return set[0] >= 0 && set[1] >= 0 && set[2] >= 0 && rule_of(&e->channels[i]) &&
           rule_of(&e->channels[i])->colour >= 0;
}

static uint8_t *plane_of(const dwa *w, int channel)
{
    size_t bytes = 0;
    for (int i = 0; i < channel; i++) bytes += (size_t)w->e->channels[i].bytes_per_element * w->samples;
    return w->planes + bytes;
}

/* Lines have the channels one after another. */
static void split_lines(dwa *w)
{
    const uint8_t *from = w->e->packed_buffer;
    int32_t width = w->e->chunk.width, height = w->e->chunk.height;
    for (int32_t y = 0; y < height; y++)
        for (int i = 0; i < w->e->channel_count; i++) {
            size_t bytes = (size_t)w->e->channels[i].bytes_per_element * (size_t)width;
            memcpy(plane_of(w, i) + (size_t)y * bytes, from, bytes);
            from += bytes;
        }
}

static const uint16_t *halves_of(dwa *w, int channel, int place)
{
    const uint8_t *plane = plane_of(w, channel);
    if (w->e->channels[channel].data_type == EXR_PIXEL_HALF) return (const uint16_t *)(const void *)plane;
    uint16_t *to = w->halves + (size_t)place * w->samples;
    for (size_t i = 0; i < w->samples; i++) {
        float v;
        memcpy(&v, plane + 4 * i, sizeof v);
        to[i] = gale__f32_to_f16(v > 65504 ? 65504 : v < -65504 ? -65504 : v);
    }
    return to;
}

static void close_set(dwa *w, gale__dwa_source *s, const int *channels, int count)
{
    s->width = w->e->chunk.width, s->height = w->e->chunk.height;
    s->linear = count == 1 && w->e->channels[channels[0]].p_linear;
    for (int i = 0; i < count; i++) s->planes[i] = halves_of(w, channels[i], i);
    gale__dwa_close(s, count);
}

/* Sets first, then channels that are alone: readers expect this order. */
static void close_blocks(dwa *w)
{
    gale__dwa_source s = {.ac = w->ac, .dc = w->dc};
    int set[3];
    for (int i = 0; i < w->e->channel_count; i++)
        if (find_set(w->e, i, set) && set[0] >= i && set[1] >= i && set[2] >= i) close_set(w, &s, set, 3);
    for (int i = 0; i < w->e->channel_count; i++)
        if (scheme_of(&w->e->channels[i]) == GALE__DWA_BY_DCT && !find_set(w->e, i, set)) close_set(w, &s, &i, 1);
    w->size[GALE__DWA_AC_COUNT] = (uint64_t)(s.ac - w->ac);
    w->size[GALE__DWA_DC_COUNT] = (uint64_t)(s.dc - w->dc);
}

/* A count of repetitions less one and the byte, or a negative count and so many bytes. */
static size_t run(const uint8_t *from, size_t n, uint8_t *to)
{
    uint8_t *begin = to;
    for (size_t i = 0; i < n;) {
        size_t same = 1, plain = 0;
        while (same < 128 && i + same < n && from[i + same] == from[i]) same++;
        if (same >= 3) {
            *to++ = (uint8_t)(same - 1), *to++ = from[i];
            i += same;
            continue;
        }
        while (plain < 127 && i + plain < n &&
               !(i + plain + 2 < n && from[i + plain] == from[i + plain + 1] && from[i + plain] == from[i + plain + 2]))
            plain++;
        *to++ = (uint8_t)(256 - plain);
        memcpy(to, from + i, plain);
        to += plain, i += plain;
    }
    return (size_t)(to - begin);
}

/* Bytes of A by their place in a sample; other channels as they are. */
static void collect(dwa *w)
{
    uint8_t *rle = w->rle, *other = w->other;
    for (int i = 0; i < w->e->channel_count; i++) {
        size_t size = (size_t)w->e->channels[i].bytes_per_element;
        const uint8_t *plane = plane_of(w, i);
        int scheme = scheme_of(&w->e->channels[i]);
        for (size_t k = 0; scheme == GALE__DWA_BY_RLE && k < size; k++)
            for (size_t n = 0; n < w->samples; n++) *rle++ = plane[n * size + k];
        if (scheme == GALE__DWA_BY_OTHER) memcpy(other, plane, size * w->samples), other += size * w->samples;
    }
    w->size[GALE__DWA_RLE_RAW] = (uint64_t)(rle - w->rle);
    w->size[GALE__DWA_OTHER_SIZE] = (uint64_t)(other - w->other);
}

/* Appends a zlib stream. */
static bool deflate(dwa *w, const void *from, size_t n, uint64_t *packed)
{
    *packed = n ? libdeflate_zlib_compress(w->tool, from, n, w->at, (size_t)(w->end - w->at)) : 0;
    w->at += *packed;
    return *packed || !n;
}

static bool huffman(dwa *w)
{
    size_t n = (size_t)w->size[GALE__DWA_AC_COUNT];
    w->size[GALE__DWA_AC_PACKED] = gale__exr_huffman_pack(w->ac, n, w->at, (size_t)(w->end - w->at));
    w->at += w->size[GALE__DWA_AC_PACKED];
    return w->size[GALE__DWA_AC_PACKED] || !n;
}

static void put_rules(dwa *w)
{
    uint8_t *begin = w->at;
    w->at += 2;
    for (int i = 0; i < RULES; i++)
        for (int type = rules[i].scheme == GALE__DWA_BY_RLE ? EXR_PIXEL_UINT : EXR_PIXEL_HALF; type <= EXR_PIXEL_FLOAT;
             type++) {
            size_t n = strlen(rules[i].suffix) + 1;
            memcpy(w->at, rules[i].suffix, n);
            w->at[n] = (uint8_t)((rules[i].colour + 1) << 4 | rules[i].scheme << 2);
            w->at[n + 1] = (uint8_t)type;
            w->at += n + 2;
        }
    size_t bytes = (size_t)(w->at - begin);
    begin[0] = (uint8_t)bytes, begin[1] = (uint8_t)(bytes >> 8);
}

static void put_sizes(dwa *w, uint8_t *to)
{
    for (int i = 0; i < GALE__DWA_SIZES; i++)
        for (int k = 0; k < 8; k++) *to++ = (uint8_t)(w->size[i] >> 8 * k);
}

/* False: it would be longer than what it packs. */
static bool put_streams(dwa *w)
{
    size_t dc = 2 * (size_t)w->size[GALE__DWA_DC_COUNT];
    if (!deflate(w, w->other, (size_t)w->size[GALE__DWA_OTHER_SIZE], &w->size[GALE__DWA_OTHER_PACKED])) return false;
    if (!huffman(w)) return false;
    gale__exr_predict((const uint8_t *)w->dc, w->room, dc);
    if (!deflate(w, w->room, dc, &w->size[GALE__DWA_DC_PACKED])) return false;
    w->size[GALE__DWA_RLE_SIZE] = run(w->rle, (size_t)w->size[GALE__DWA_RLE_RAW], w->room);
    return deflate(w, w->room, (size_t)w->size[GALE__DWA_RLE_SIZE], &w->size[GALE__DWA_RLE_PACKED]);
}

static bool take_memory(dwa *w)
{
    size_t across = ((size_t)w->e->chunk.width + 7) / 8 * (((size_t)w->e->chunk.height + 7) / 8),
           bytes = ((size_t)w->e->packed_bytes + 15) & ~(size_t)15,
           blocks = 64 * sizeof(uint16_t) * across * (size_t)w->e->channel_count,
           dc = (sizeof(uint16_t) * across * (size_t)w->e->channel_count + 15) & ~(size_t)15,
           halves = (3 * sizeof(uint16_t) * w->samples + 15) & ~(size_t)15, room = 2 * bytes + 2 * dc + 64;
    w->memory = gale__exr_scratch(
        &w->e->scratch_buffer_1, &w->e->scratch_alloc_size_1, 3 * bytes + blocks + dc + halves + room);
    if (!w->memory) return false;
    w->planes = w->memory, w->other = w->planes + bytes, w->rle = w->other + bytes;
    w->ac = (uint16_t *)(void *)(w->rle + bytes);
    w->dc = (uint16_t *)(void *)(w->rle + bytes + blocks);
    w->halves = (uint16_t *)(void *)(w->rle + bytes + blocks + dc);
    w->room = w->rle + bytes + blocks + dc + halves;
    return true;
}

exr_result_t gale__exr_dwa(exr_encode_pipeline_t *e)
{
    dwa w = {.e = e, .size[GALE__DWA_VERSION] = 2};
    size_t most = (size_t)e->packed_bytes;
    w.samples = (size_t)e->chunk.width * (size_t)e->chunk.height;
    uint8_t *out = gale__exr_scratch(&e->compressed_buffer, &e->compressed_alloc_size, most + GALE__DWA_HEADER + 256);
    if (!out || !take_memory(&w)) return EXR_ERR_OUT_OF_MEMORY;
    w.tool = libdeflate_alloc_compressor(LEVEL);
    if (!w.tool) return EXR_ERR_OUT_OF_MEMORY;
    w.at = out + GALE__DWA_HEADER, w.end = out + most + GALE__DWA_HEADER + 256;
    split_lines(&w);
    collect(&w);
    close_blocks(&w);
    put_rules(&w);
    bool shorter = put_streams(&w) && (size_t)(w.at - out) < most;
    put_sizes(&w, out);
    libdeflate_free_compressor(w.tool);
    e->compressed_bytes = shorter ? (size_t)(w.at - out) : most; /* of the same length: stored as it is */
    return EXR_ERR_SUCCESS;
}

bool gale__exr_deflates(void) { return gale__host_is_little(); }
#else
exr_result_t gale__exr_dwa(exr_encode_pipeline_t *e) { return (void)e, EXR_ERR_FEATURE_NOT_IMPLEMENTED; }
bool gale__exr_deflates(void) { return false; }
#endif
