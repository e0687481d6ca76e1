/* Statistics of channels.  Samples are counted by their bits as halves (65,536 values), and everything that depends on
 * order (percentiles, bins) is read from these counts.  Of halves they are all there is to know: the device counts the
 * planes of several channels at once, and all numbers follow, so they are the same on every device.  Floats and
 * integers are counted by the cores, together with sums in double precision. */
#include "base/num.h"
#include "base/thread.h"
#include "device/device.h"
#include "gale/exr.h"
#include "graph/run/tensor.h"
#include "jobs/exr/counts.h"
#include "jobs/exr/maker.h"
#include <math.h>
#include <string.h>

enum { CODES = 65536, BLOCK = 1 << 16, VECTOR = 8 /* samples that kernels count at once */ };
enum { GROUP_BYTES = 1 << 28 /* planes in memory at a time; a file may have hundreds */ };
const double gale_exr_percents[GALE_EXR_PERCENTILES] = {0.1, 1, 5, 25, 50, 75, 95, 99, 99.9};

typedef struct tally {
    uint64_t codes[CODES];
    uint64_t nans, infinities, negatives, zeros;
    double sum, squares, least, largest;
} tally;

/* Each core has a tally; blocks have their own sums, which do not depend on who computed them. */
typedef struct sums {
    double sum, squares;
} sums;
typedef struct counting {
    const void *data;
    gale_type type; /* f32 or u32 */
    size_t n;
    tally *tallies;
    sums *blocks;
} counting;

/* Channels of a part with the same type and extents. */
typedef struct group {
    gale_exr *f;
    int part, count;
    const gale_exr_channel *const *channels;
    gale_type type;
    size_t n, stride; /* samples of a plane, and from one plane to the next */
    char *planes;
} group;

static void count_value(tally *t, double v, uint16_t code, uint64_t n)
{
    t->codes[code] += n;
    if (!isfinite(v)) {
        *(isnan(v) ? &t->nans : &t->infinities) += n;
        return;
    }
    t->negatives += v < 0 ? n : 0;
    t->zeros += v == 0 ? n : 0;
    t->sum += (double)n * v;
    t->squares += (double)n * (v * v);
    if (v < t->least) t->least = v;
    if (v > t->largest) t->largest = v;
}

static void count_block(void *arg, size_t block, int worker)
{
    const counting *c = arg;
    tally *t = &c->tallies[worker];
    size_t end = (block + 1) * BLOCK < c->n ? (block + 1) * BLOCK : c->n;
    for (size_t i = block * BLOCK; i < end; i++) {
        float v = c->type == GALE_F32 ? ((const float *)c->data)[i] : (float)((const uint32_t *)c->data)[i];
        count_value(t, (double)v, gale__f32_to_f16(v), 1);
    }
    c->blocks[block] = (sums){t->sum, t->squares};
    t->sum = t->squares = 0;
}

static void begin_tally(tally *t)
{
    memset(t, 0, sizeof *t);
    t->least = INFINITY, t->largest = -INFINITY;
}

static void add_tally(tally *to, const tally *t)
{
    for (int i = 0; i < CODES; i++) to->codes[i] += t->codes[i];
    to->nans += t->nans, to->infinities += t->infinities, to->negatives += t->negatives, to->zeros += t->zeros;
    to->least = fmin(to->least, t->least), to->largest = fmax(to->largest, t->largest);
}

/* Halves from the lowest number to the highest: negative ones backwards, then the others. */
static uint16_t code_at(int i) { return (uint16_t)(i < 0x7c00 ? 0xfbff - i : i - 0x7c00); }

/* Among samples that halves can hold: larger values are mostly a renderer's placeholder. */
static void read_percentiles(const tally *t, gale_exr_stats *s)
{
    uint64_t before = 0, finite = 0;
    int k = 0;
    for (int i = 0; i < 2 * 0x7c00; i++) finite += t->codes[code_at(i)];
    for (int i = 0; i < 2 * 0x7c00 && k < GALE_EXR_PERCENTILES && finite; i++) {
        uint16_t code = code_at(i);
        before += t->codes[code];
        while (k < GALE_EXR_PERCENTILES && (double)before >= gale_exr_percents[k] / 100 * (double)finite && before)
            s->percentiles[k++] = (double)gale__f16_to_f32(code);
    }
}

static void read_bins(const tally *t, gale_exr_stats *s)
{
    s->bins_low = -14, s->bins_high = 16; /* normal halves */
    for (uint32_t code = 1; code < 0x7c00; code++) {
        if (!t->codes[code]) continue;
        double l = (log2((double)gale__f16_to_f32((uint16_t)code)) - s->bins_low) / (s->bins_high - s->bins_low);
        int bin = (int)floor(l * GALE_EXR_BINS);
        s->bins[bin < 0 ? 0 : bin >= GALE_EXR_BINS ? GALE_EXR_BINS - 1 : bin] += t->codes[code];
    }
}

static void conclude(const tally *t, size_t n, gale_exr_stats *s)
{
    uint64_t finite = n - t->nans - t->infinities;
    s->samples = n;
    s->nans = t->nans, s->infinities = t->infinities, s->negatives = t->negatives, s->zeros = t->zeros;
    if (finite) {
        s->least = t->least, s->largest = t->largest;
        s->mean = t->sum / (double)finite;
        s->deviation = sqrt(fmax(0, t->squares / (double)finite - s->mean * s->mean));
    }
    read_percentiles(t, s);
    read_bins(t, s);
}

static gale_status measure_plane(const void *data, gale_type type, size_t n, gale_exr_stats *s)
{
    int width = gale__parallel_width();
    size_t blocks = (n + BLOCK - 1) / BLOCK;
    counting c = {
        data, type, n, gale__alloc((size_t)width * sizeof *c.tallies), gale__alloc((blocks + 1) * sizeof *c.blocks)};
    gale_status status = c.tallies && c.blocks ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < width && status == GALE_OK; i++) begin_tally(&c.tallies[i]);
    if (status == GALE_OK) {
        gale__parallel(blocks, count_block, &c);
        for (int i = 1; i < width; i++) add_tally(&c.tallies[0], &c.tallies[i]);
        for (size_t i = 0; i < blocks; i++)
            c.tallies[0].sum += c.blocks[i].sum, c.tallies[0].squares += c.blocks[i].squares;
        conclude(&c.tallies[0], n, s);
    }
    gale__free(c.tallies);
    gale__free(c.blocks);
    return status;
}

gale_status gale__exr_counts_program(gale_device *device, int64_t planes, int64_t samples, gale_program **out)
{
    gale__maker m = {0};
    gale_value v = GALE_NONE;
    const int64_t dims[2] = {planes, samples};
    GALE_TRY(gale_graph_create(&m.graph));
    m.status = gale_graph_input(m.graph, "planes", GALE_F16, 2, dims, NULL, &v);
    v = gale__make_1(&m, "CodeCounts", v);
    if (m.status == GALE_OK) m.status = gale_graph_output(m.graph, "counts", v);
    if (m.status == GALE_OK) m.status = gale_program_create(m.graph, device, NULL, out);
    gale_graph_destroy(&m.graph);
    return m.status;
}

/* counts: [planes][CODES]. */
static gale_status count_halves(gale_device *device, const group *g, uint32_t *counts)
{
    const int64_t dims[2] = {g->count, (int64_t)g->stride};
    gale_program *program = NULL;
    gale_tensor *in = NULL, *out = NULL;
    gale_status status;
    GALE_GO(gale__exr_counts_program(device, dims[0], dims[1], &program));
    GALE_GO(gale__tensor_borrow(GALE_F16, 2, dims, g->planes, NULL, NULL, &in));
    GALE_GO(gale_program_run(program, &in, &out, GALE_RUN_ON_HOST));
    GALE_GO(gale_tensor_to_cpu(out, counts, (size_t)g->count * CODES * sizeof *counts));
done:
    gale_tensor_destroy(&in);
    gale_tensor_destroy(&out);
    gale_program_destroy(&program);
    return status;
}

static gale_status measure_halves(gale_device *device, const group *g, gale_exr_stats *s)
{
    uint32_t *counts = gale__alloc((size_t)g->count * CODES * sizeof *counts);
    tally *t = gale__alloc(sizeof *t);
    gale_status status = counts && t ? count_halves(device, g, counts) : GALE_NO_MEMORY;
    for (int i = 0; i < g->count && status == GALE_OK; i++) {
        uint32_t *of = counts + (size_t)i * CODES;
        of[0] -= (uint32_t)(g->stride - g->n); /* zeros after the samples */
        begin_tally(t);
        for (int code = 0; code < CODES; code++)
            if (of[code]) count_value(t, (double)gale__f16_to_f32((uint16_t)code), (uint16_t)code, of[code]);
        conclude(t, g->n, &s[i]);
    }
    gale__free(counts);
    gale__free(t);
    return status;
}

/* All planes at once, since a chunk has all channels. */
static gale_status read_group(group *g)
{
    size_t bytes = g->stride * gale_type_size(g->type);
    gale_exr_target *t = gale__calloc((size_t)g->count, sizeof *t);
    g->planes = gale__alloc((size_t)g->count * bytes + 1);
    gale_status status = t && g->planes ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < g->count && status == GALE_OK; i++) {
        char *plane = g->planes + (size_t)i * bytes;
        memset(plane + g->n * gale_type_size(g->type), 0, bytes - g->n * gale_type_size(g->type));
        t[i] = (gale_exr_target){g->channels[i]->name, g->type, plane, 0, 0};
    }
    if (status == GALE_OK) status = gale_exr_read(g->f, g->part, 0, 0, t, g->count);
    gale__free(t);
    return status;
}

/* The channels from the first on that can be measured together, of `most`. */
static gale_status find_group(group *g, int most)
{
    const gale_exr_channel *first = g->channels[0];
    int64_t w, h;
    GALE_TRY(gale_exr_channel_size(g->f, g->part, 0, 0, first->name, &w, &h));
    g->type = first->type;
    g->n = (size_t)(w * h);
    g->stride = (g->n + VECTOR - 1) / VECTOR * VECTOR;
    for (g->count = 1; g->count < most; g->count++) {
        const gale_exr_channel *c = g->channels[g->count];
        if (c->type != g->type || c->x_sampling != first->x_sampling || c->y_sampling != first->y_sampling) break;
        if ((size_t)(g->count + 1) * g->stride * gale_type_size(g->type) > GROUP_BYTES) break;
    }
    return GALE_OK;
}

static gale_status measure_group(gale_device *device, group *g, gale_flags flags, gale_exr_stats *s)
{
    bool halves = g->type == GALE_F16, on_host = !halves || gale_device_get_info(device)->caps.host_functions;
    if (on_host && flags & GALE_EXR_MEASURE_STRICT)
        return gale__fail(GALE_UNSUPPORTED, "EXR: channel %s (%s) would be counted on the host, which --strict rejects",
            g->channels[0]->name, gale_type_name(g->type));
    gale_status status = read_group(g);
    for (int i = 0; i < g->count; i++) s[i].name = g->channels[i]->name, s[i].type = g->type;
    if (status == GALE_OK && halves) status = measure_halves(device, g, s);
    for (int i = 0; i < g->count && status == GALE_OK && !halves; i++)
        status = measure_plane(g->planes + (size_t)i * g->stride * gale_type_size(g->type), g->type, g->n, &s[i]);
    gale__free(g->planes);
    return status;
}

static gale_status list_channels(
    const gale_exr_part *p, const char *const *names, int n, const gale_exr_channel **channels)
{
    for (int i = 0; i < n; i++) {
        channels[i] = names ? NULL : &p->channels[i];
        for (int k = 0; k < p->channel_count && !channels[i]; k++)
            if (!strcmp(p->channels[k].name, names[i])) channels[i] = &p->channels[k];
        if (!channels[i]) return gale__fail(GALE_NOT_FOUND, "EXR: no channel \"%s\"", names[i]);
    }
    return GALE_OK;
}

gale_status gale_exr_measure(gale_device *device, gale_exr *f, int part, const char *const *names, int n,
    gale_flags flags, gale_exr_stats **out, int *count)
{
    GALE__NEED({"device", device}, {"file", f}, {"out", out}, {"count", count});
    GALE__WITHIN(device->context);
    const gale_exr_part *p = gale_exr_part_get(f, part);
    if (!p) return gale__fail(GALE_NOT_FOUND, "EXR: no part %d", part);
    if (!names) n = p->channel_count;
    const gale_exr_channel **channels = gale__calloc((size_t)n + 1, sizeof *channels);
    gale_exr_stats *stats = gale__calloc((size_t)n + 1, sizeof *stats);
    gale_status status = stats && channels ? list_channels(p, names, n, channels) : GALE_NO_MEMORY;
    for (int i = 0; i < n && status == GALE_OK;) {
        group g = {.f = f, .part = part, .channels = channels + i};
        status = find_group(&g, n - i);
        if (status == GALE_OK) status = measure_group(device, &g, flags, &stats[i]);
        i += g.count;
    }
    gale__free(channels);
    if (status == GALE_OK) *out = stats, *count = n;
    else gale__free(stats);
    return status;
}

/* Which colour a channel is drawn in. */
static void colour_of(const char *name, uint8_t rgb[3])
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    bool r = !strcmp(last, "R"), g = !strcmp(last, "G"), b = !strcmp(last, "B");
    rgb[0] = r || !(g || b) ? 200 : 30, rgb[1] = g || !(r || b) ? 200 : 40, rgb[2] = b || !(r || g) ? 200 : 30;
}

gale_status gale_exr_histogram_picture(
    const gale_exr_stats *stats, int count, int64_t width, int64_t height, gale_picture **out)
{
    GALE__NEED({"stats", count < 1 || stats}, {"out", out});
    gale_picture *p = NULL;
    if (width < 1 || height < 1 || width > 65536 || height > 65536)
        return gale__fail(GALE_INVALID, "exr: invalid histogram size %lld x %lld", (long long)width, (long long)height);
    GALE_TRY(gale_picture_create(width, height, 3, GALE_U8, &p));
    double top = 1;
    if (count > 4) count = 4;
    for (int k = 0; k < count; k++)
        for (int i = 0; i < GALE_EXR_BINS; i++) top = fmax(top, (double)stats[k].bins[i]);
    for (int64_t x = 0; x < width; x++)
        for (int k = 0; k < count; k++) {
            uint8_t rgb[3];
            double bin = (double)stats[k].bins[x * GALE_EXR_BINS / width];
            int64_t high = (int64_t)floor(log1p(bin) / log1p(top) * (double)height + 0.5);
            colour_of(stats[k].name, rgb);
            for (int64_t y = height - high; y < height; y++) {
                uint8_t *pixel = (uint8_t *)p->data + 3 * (y * width + x);
                for (int c = 0; c < 3; c++) pixel[c] = pixel[c] + rgb[c] > 255 ? 255 : (uint8_t)(pixel[c] + rgb[c]);
            }
        }
    *out = p;
    return GALE_OK;
}
