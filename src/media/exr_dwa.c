/* DWA: colours as 8 x 8 cosine transforms of perceptual values, alpha run-length encoded, everything else deflated.
 * The C core (3.1) does not decode it.  Implemented from the format: eleven sizes, the rules that classify channels,
 * then four streams. */
#include "media/exr_dwa.h"
#include "base/num.h"
#include <string.h>

enum { RULES_MOST = 64, NAME_MOST = 128 };
typedef struct rule {
    char suffix[NAME_MOST];
    int colour, scheme, type; /* colour: 0 to 2 of a set of three; -1: alone */
    bool any_case;
} rule;

typedef struct dwa {
    exr_decode_pipeline_t *d;
    uint64_t size[GALE__DWA_SIZES];
    rule rules[RULES_MOST];
    int n_rules;
    const uint8_t *at; /* of the streams */
    size_t left;
    uint8_t *memory, *planes, *other, *rle; /* one piece: planes of channels, then the streams' contents */
    uint16_t *ac, *dc;
} dwa;

static uint64_t le64(const uint8_t *p) { return (uint64_t)gale__le32(p) | (uint64_t)gale__le32(p + 4) << 32; }

static void add_rule(dwa *w, const char *suffix, int colour, int scheme, int type, bool any_case)
{
    rule *r = &w->rules[w->n_rules++];
    *r = (rule){.colour = colour, .scheme = scheme, .type = type, .any_case = any_case};
    memcpy(r->suffix, suffix, strlen(suffix) + 1);
}

/* What files of the first version take for granted. */
static void old_rules(dwa *w)
{
    static const char *const colours[] = {"r", "red", "g", "grn", "green", "b", "blu", "blue"};
    static const int places[] = {0, 0, 1, 1, 1, 2, 2, 2};
    for (int i = 0; i < 8; i++) add_rule(w, colours[i], places[i], GALE__DWA_BY_DCT, EXR_PIXEL_HALF, true);
    add_rule(w, "y", -1, GALE__DWA_BY_DCT, EXR_PIXEL_HALF, true);
    add_rule(w, "by", -1, GALE__DWA_BY_DCT, EXR_PIXEL_HALF, true);
    add_rule(w, "ry", -1, GALE__DWA_BY_DCT, EXR_PIXEL_HALF, true);
    for (int type = 0; type < 3; type++) add_rule(w, "a", -1, GALE__DWA_BY_RLE, type, true);
}

static bool read_rules(dwa *w)
{
    if (w->size[GALE__DWA_VERSION] < 2) return old_rules(w), true;
    if (w->left < 2) return false;
    size_t bytes = gale__le16(w->at);
    if (bytes < 2 || bytes > w->left) return false;
    const uint8_t *p = w->at + 2, *end = w->at + bytes;
    while (p < end) {
        size_t n = strnlen((const char *)p, (size_t)(end - p));
        if (n >= NAME_MOST || (size_t)(end - p) < n + 3 || w->n_rules == RULES_MOST) return false;
        rule *r = &w->rules[w->n_rules++];
        memcpy(r->suffix, p, n + 1);
        p += n + 1;
        r->colour = (p[0] >> 4) - 1;
        r->scheme = p[0] >> 2 & 3;
        r->any_case = p[0] & 1;
        r->type = p[1];
        p += 2;
        if (r->scheme > GALE__DWA_BY_RLE || r->colour > 2) return false;
    }
    w->at += bytes, w->left -= bytes;
    return true;
}

/* How a channel was packed; the last rule that fits. */
static const rule *rule_of(const dwa *w, const exr_coding_channel_info_t *c)
{
    const char *dot = strrchr(c->channel_name, '.'), *suffix = dot ? dot + 1 : c->channel_name;
    const rule *found = NULL;
    for (int i = 0; i < w->n_rules; i++) {
        const rule *r = &w->rules[i];
        bool same = r->any_case ? gale__text_equal_nocase(r->suffix, suffix) : !strcmp(r->suffix, suffix);
        if (same && r->type == c->data_type) found = r;
    }
    return found;
}

static size_t plane_bytes(const exr_coding_channel_info_t *c)
{
    return c->width < 1 || c->height < 1 ? 0 : (size_t)c->width * (size_t)c->height * (size_t)c->bytes_per_element;
}

/* Bytes before the plane of channel i, among all channels or among those of one scheme. */
static size_t plane_offset(const dwa *w, int i, int scheme)
{
    size_t sum = 0;
    for (int k = 0; k < i; k++) {
        const rule *r = rule_of(w, &w->d->channels[k]);
        if (scheme < 0 || (r ? r->scheme : GALE__DWA_BY_OTHER) == scheme) sum += plane_bytes(&w->d->channels[k]);
    }
    return sum;
}

static bool take(dwa *w, uint64_t n, const uint8_t **from)
{
    if (n > w->left) return false;
    *from = w->at;
    w->at += n, w->left -= (size_t)n;
    return true;
}

static exr_result_t open_ac(dwa *w, const uint8_t *from)
{
    size_t packed = (size_t)w->size[GALE__DWA_AC_PACKED], n = (size_t)w->size[GALE__DWA_AC_COUNT];
    if (!packed || !n) return n ? EXR_ERR_CORRUPT_CHUNK : EXR_ERR_SUCCESS;
    if (w->size[GALE__DWA_AC_HOW] == 0) return gale__exr_huffman(from, packed, w->ac, n);
    return w->size[GALE__DWA_AC_HOW] == 1 ? gale__exr_inflate(w->d, from, packed, w->ac, 2 * n) : EXR_ERR_CORRUPT_CHUNK;
}

static exr_result_t open_dc(dwa *w, const uint8_t *from)
{
    size_t n = 2 * (size_t)w->size[GALE__DWA_DC_COUNT];
    if (!n) return EXR_ERR_SUCCESS;
    uint8_t *room = gale__exr_scratch(&w->d->scratch_buffer_2, &w->d->scratch_alloc_size_2, n);
    if (!room) return EXR_ERR_OUT_OF_MEMORY;
    exr_result_t e = gale__exr_inflate(w->d, from, (size_t)w->size[GALE__DWA_DC_PACKED], room, n);
    if (e == EXR_ERR_SUCCESS) gale__exr_unpredict(room, (uint8_t *)w->dc, n);
    return e;
}

static exr_result_t open_rle(dwa *w, const uint8_t *from)
{
    size_t n = (size_t)w->size[GALE__DWA_RLE_SIZE];
    if (!w->size[GALE__DWA_RLE_RAW]) return EXR_ERR_SUCCESS;
    uint8_t *room = gale__exr_scratch(&w->d->scratch_buffer_2, &w->d->scratch_alloc_size_2, n);
    if (!room) return EXR_ERR_OUT_OF_MEMORY;
    exr_result_t e = gale__exr_inflate(w->d, from, (size_t)w->size[GALE__DWA_RLE_PACKED], room, n);
    if (e != EXR_ERR_SUCCESS) return e;
    return gale__exr_unrun(room, n, w->rle, (size_t)w->size[GALE__DWA_RLE_RAW]) ? e : EXR_ERR_CORRUPT_CHUNK;
}

static exr_result_t open_streams(dwa *w)
{
    const uint8_t *other, *ac, *dc, *rle;
    if (!take(w, w->size[GALE__DWA_OTHER_PACKED], &other) || !take(w, w->size[GALE__DWA_AC_PACKED], &ac) ||
        !take(w, w->size[GALE__DWA_DC_PACKED], &dc) || !take(w, w->size[GALE__DWA_RLE_PACKED], &rle))
        return EXR_ERR_CORRUPT_CHUNK;
    exr_result_t e = EXR_ERR_SUCCESS;
    if (w->size[GALE__DWA_OTHER_SIZE])
        e = gale__exr_inflate(
            w->d, other, (size_t)w->size[GALE__DWA_OTHER_PACKED], w->other, (size_t)w->size[GALE__DWA_OTHER_SIZE]);
    if (e == EXR_ERR_SUCCESS) e = open_ac(w, ac);
    if (e == EXR_ERR_SUCCESS) e = open_dc(w, dc);
    return e == EXR_ERR_SUCCESS ? open_rle(w, rle) : e;
}

/* Contents cannot be larger than the chunk; each part is checked before any memory is taken. */
static exr_result_t begin(dwa *w)
{
    uint64_t most = w->d->chunk.unpacked_size;
    size_t planes = plane_offset(w, w->d->channel_count, -1),
           others = plane_offset(w, w->d->channel_count, GALE__DWA_BY_OTHER),
           runs = plane_offset(w, w->d->channel_count, GALE__DWA_BY_RLE);
    if (w->size[GALE__DWA_OTHER_SIZE] != others || w->size[GALE__DWA_RLE_RAW] != runs ||
        w->size[GALE__DWA_RLE_SIZE] > 2 * most + 1024 || w->size[GALE__DWA_AC_COUNT] > 2 * most + 1024 ||
        w->size[GALE__DWA_DC_COUNT] > most + 1024)
        return EXR_ERR_CORRUPT_CHUNK;
    size_t ac = 2 * (size_t)w->size[GALE__DWA_AC_COUNT], dc = 2 * (size_t)w->size[GALE__DWA_DC_COUNT];
    size_t evens[4] = {
        (planes + 15) & ~(size_t)15, (others + 15) & ~(size_t)15, (runs + 15) & ~(size_t)15, (ac + 15) & ~(size_t)15};
    w->memory = gale__exr_scratch(
        &w->d->scratch_buffer_1, &w->d->scratch_alloc_size_1, evens[0] + evens[1] + evens[2] + evens[3] + dc + 16);
    if (!w->memory) return EXR_ERR_OUT_OF_MEMORY;
    w->planes = w->memory;
    w->other = w->planes + evens[0];
    w->rle = w->other + evens[1];
    w->ac = (uint16_t *)(void *)(w->rle + evens[2]);
    w->dc = (uint16_t *)(void *)(w->rle + evens[2] + evens[3]);
    return EXR_ERR_SUCCESS;
}

/* The three channels of a set that channel i begins or belongs to: same prefix, same extents; false: it is alone. */
static bool find_set(const dwa *w, int i, int set[3])
{
    const exr_coding_channel_info_t *all = w->d->channels, *c = &all[i];
    const char *dot = strrchr(c->channel_name, '.');
    size_t prefix = dot ? (size_t)(dot - c->channel_name) + 1 : 0;
    set[0] = set[1] = set[2] = -1;
    for (int k = 0; k < w->d->channel_count; k++) {
        const rule *r = rule_of(w, &all[k]);
        const char *end = strrchr(all[k].channel_name, '.');
        size_t length = end ? (size_t)(end - all[k].channel_name) + 1 : 0;
        if (!r || r->scheme != GALE__DWA_BY_DCT || r->colour < 0 || length != prefix ||
            memcmp(all[k].channel_name, c->channel_name, prefix))
            continue;
        set[r->colour] = k;
    }
    for (int k = 0; k < 3; k++)
        if (set[k] < 0 || all[set[k]].width != all[set[0]].width || all[set[k]].height != all[set[0]].height)
            return false;
    return set[0] == i || set[1] == i || set[2] == i;
}

/* Halves to floats in place, from the end on. */
static void widen(uint16_t *plane, size_t n)
{
    float *to = (float *)(void *)plane;
    for (size_t i = n; i--;) {
        float v = gale__f16_to_f32(plane[i]);
        memcpy(to + i, &v, sizeof v);
    }
}

static exr_result_t open_set(dwa *w, gale__dwa_blocks *b, const int *channels, int count)
{
    const exr_coding_channel_info_t *c = &w->d->channels[channels[0]];
    if (c->width < 1 || c->height < 1) return EXR_ERR_SUCCESS;
    b->width = c->width, b->height = c->height;
    b->linear = count == 1 && c->p_linear;
    for (int i = 0; i < count; i++) {
        if (w->d->channels[channels[i]].data_type == EXR_PIXEL_UINT) return EXR_ERR_CORRUPT_CHUNK;
        b->planes[i] = (uint16_t *)(void *)(w->planes + plane_offset(w, channels[i], -1));
    }
    if (!gale__dwa_open(b, count)) return EXR_ERR_CORRUPT_CHUNK;
    for (int i = 0; i < count; i++)
        if (w->d->channels[channels[i]].data_type == EXR_PIXEL_FLOAT)
            widen(b->planes[i], (size_t)c->width * (size_t)c->height);
    return EXR_ERR_SUCCESS;
}

/* Run-length coded channels have all first bytes of their samples, then all second ones ... */
static void join_bytes(const uint8_t *from, uint8_t *to, size_t samples, size_t size)
{
    for (size_t i = 0; size == 2 && i < samples; i++) to[2 * i] = from[i], to[2 * i + 1] = from[samples + i];
    for (size_t k = 0; size != 2 && k < size; k++)
        for (size_t i = 0; i < samples; i++) to[i * size + k] = from[k * samples + i];
}

static exr_result_t open_planes(dwa *w)
{
    gale__dwa_blocks b = {.ac = w->ac,
        .ac_end = w->ac + w->size[GALE__DWA_AC_COUNT],
        .dc = w->dc,
        .dc_end = w->dc + w->size[GALE__DWA_DC_COUNT]};
    exr_result_t e = EXR_ERR_SUCCESS;
    int set[3];
    /* Sets come first, by their prefixes in the order of the alphabet, which is that of channels too. */
    for (int i = 0; i < w->d->channel_count && e == EXR_ERR_SUCCESS; i++)
        if (find_set(w, i, set) && (set[0] >= i && set[1] >= i && set[2] >= i)) e = open_set(w, &b, set, 3);
    for (int i = 0; i < w->d->channel_count && e == EXR_ERR_SUCCESS; i++) {
        const exr_coding_channel_info_t *c = &w->d->channels[i];
        const rule *r = rule_of(w, c);
        int scheme = r ? r->scheme : GALE__DWA_BY_OTHER;
        size_t bytes = plane_bytes(c);
        uint8_t *to = w->planes + plane_offset(w, i, -1);
        if (scheme == GALE__DWA_BY_DCT && !find_set(w, i, set)) e = open_set(w, &b, &i, 1);
        else if (scheme == GALE__DWA_BY_RLE)
            join_bytes(w->rle + plane_offset(w, i, GALE__DWA_BY_RLE), to, bytes / (size_t)c->bytes_per_element,
                (size_t)c->bytes_per_element);
        else if (scheme == GALE__DWA_BY_OTHER && bytes)
            memcpy(to, w->other + plane_offset(w, i, GALE__DWA_BY_OTHER), bytes);
    }
    return e;
}

exr_result_t gale__exr_undwa(exr_decode_pipeline_t *d)
{
    dwa w = {.d = d, .at = d->packed_buffer, .left = (size_t)d->chunk.packed_size};
    if (w.left < GALE__DWA_HEADER) return EXR_ERR_CORRUPT_CHUNK;
    for (int i = 0; i < GALE__DWA_SIZES; i++) w.size[i] = le64(w.at + 8 * i);
    w.at += GALE__DWA_HEADER, w.left -= GALE__DWA_HEADER;
    if (w.size[GALE__DWA_VERSION] > 2 || !read_rules(&w)) return EXR_ERR_CORRUPT_CHUNK;
    exr_result_t e = begin(&w);
    if (e == EXR_ERR_SUCCESS) e = open_streams(&w);
    if (e == EXR_ERR_SUCCESS) e = open_planes(&w);
    return e == EXR_ERR_SUCCESS ? gale__exr_to_lines(d, w.planes) : e;
}
