/* Statistics of channels.  Each core counts samples by their bits as halves (65,536 values); everything that depends
 * on order (percentiles, bins) is read from that table, and sums are exact to double precision. */
#include "base/num.h"
#include "base/thread.h"
#include "gale/exr.h"
#include "gale/graph.h"
#include <math.h>
#include <string.h>

enum { CODES = 65536, BLOCK = 1 << 16 };
const double gale_exr_percents[GALE_EXR_PERCENTILES] = {0.1, 1, 5, 25, 50, 75, 95, 99, 99.9};

/* What a core has seen. */
typedef struct tally {
    uint64_t codes[CODES];
    uint64_t nans, infinities, negatives, zeros;
    double sum, squares, least, largest;
} tally;

typedef struct counting {
    const void *data;
    gale_type type;
    size_t n;
    tally *tallies;
} counting;

static float load(const counting *c, size_t i)
{
    if (c->type == GALE_F16) return gale__f16_to_f32(((const uint16_t *)c->data)[i]);
    return c->type == GALE_F32 ? ((const float *)c->data)[i] : (float)((const uint32_t *)c->data)[i];
}

static void count_one(tally *t, float v, uint16_t code)
{
    t->codes[code]++;
    if (!isfinite(v)) {
        if (isnan(v)) t->nans++;
        else t->infinities++;
        return;
    }
    t->negatives += v < 0;
    t->zeros += v == 0;
    t->sum += (double)v;
    t->squares += (double)v * (double)v;
    if ((double)v < t->least) t->least = (double)v;
    if ((double)v > t->largest) t->largest = (double)v;
}

static void count_block(void *arg, size_t block, int worker)
{
    const counting *c = arg;
    size_t end = (block + 1) * BLOCK < c->n ? (block + 1) * BLOCK : c->n;
    for (size_t i = block * BLOCK; i < end; i++) {
        float v = load(c, i);
        count_one(&c->tallies[worker], v, c->type == GALE_F16 ? ((const uint16_t *)c->data)[i] : gale__f32_to_f16(v));
    }
}

static void add_tally(tally *to, const tally *t)
{
    for (int i = 0; i < CODES; i++) to->codes[i] += t->codes[i];
    to->nans += t->nans, to->infinities += t->infinities, to->negatives += t->negatives, to->zeros += t->zeros;
    to->sum += t->sum, to->squares += t->squares;
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
    counting c = {data, type, n, gale__calloc((size_t)width, sizeof *c.tallies)};
    if (!c.tallies) return GALE_NO_MEMORY;
    for (int i = 0; i < width; i++) c.tallies[i].least = INFINITY, c.tallies[i].largest = -INFINITY;
    gale__parallel((n + BLOCK - 1) / BLOCK, count_block, &c);
    for (int i = 1; i < width; i++) add_tally(&c.tallies[0], &c.tallies[i]);
    conclude(&c.tallies[0], n, s);
    gale__free(c.tallies);
    return GALE_OK;
}

static const gale_exr_channel *find(const gale_exr_part *p, const char *name)
{
    for (int i = 0; i < p->channel_count; i++)
        if (!strcmp(p->channels[i].name, name)) return &p->channels[i];
    return NULL;
}

/* One channel at a time: a file may have hundreds. */
static gale_status measure_channel(gale_exr *f, int part, const gale_exr_channel *c, gale_exr_stats *s)
{
    int64_t w, h;
    GALE_TRY(gale_exr_channel_size(f, part, 0, 0, c->name, &w, &h));
    size_t n = (size_t)(w * h);
    void *data = gale__alloc(n * gale_type_size(c->type) + 1);
    if (!data) return GALE_NO_MEMORY;
    s->name = c->name;
    s->type = c->type;
    gale_status status = gale_exr_read(f, part, 0, 0, &(gale_exr_target){c->name, c->type, data, 0, 0}, 1);
    if (status == GALE_OK) status = measure_plane(data, c->type, n, s);
    gale__free(data);
    return status;
}

gale_status gale_exr_measure(gale_exr *f, int part, const char *const *names, int n, gale_exr_stats **out, int *count)
{
    GALE__NEED({"file", f}, {"out", out}, {"count", count});
    const gale_exr_part *p = gale_exr_part_get(f, part);
    if (!p) return gale__fail(GALE_NOT_FOUND, "EXR: no part %d", part);
    if (!names) n = p->channel_count;
    gale_exr_stats *stats = gale__calloc((size_t)n + 1, sizeof *stats);
    gale_status status = stats ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < n && status == GALE_OK; i++) {
        const gale_exr_channel *c = names ? find(p, names[i]) : &p->channels[i];
        status =
            c ? measure_channel(f, part, c, &stats[i]) : gale__fail(GALE_NOT_FOUND, "EXR: no channel \"%s\"", names[i]);
    }
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
