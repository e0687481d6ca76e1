/* Statistics of channels.  Samples are counted by their bits as halves (65,536 values), and everything that depends on
 * order (percentiles, bins) is read from these counts.  Of halves they are all there is to know: the device counts the
 * planes of several channels at once, and all numbers follow, so they are the same on every device.  Of floats, and of
 * integers as floats, there are sums in double precision beside them; devices without it leave them to the CPU. */
#include "base/num.h"
#include "base/thread.h"
#include "device/device.h"
#include "gale/exr.h"
#include "graph/run/tensor.h"
#include "jobs/exr/counts.h"
#include "jobs/exr/maker.h"
#include <math.h>
#include <string.h>

enum { CODES = 65536, VECTOR = 8 /* samples that kernels count at once */ };
enum { GROUP_BYTES = 1 << 28 /* planes in memory at a time; a file may have hundreds */ };
const double gale_exr_percents[GALE_EXR_PERCENTILES] = {0.1, 1, 5, 25, 50, 75, 95, 99, 99.9};

typedef struct tally {
    uint64_t codes[CODES];
    uint64_t nans, infinities, negatives, zeros;
    double sum, squares, least, largest;
} tally;

/* Channels of a part with the same type and extents. */
typedef struct group {
    gale_exr *f;
    int part, count;
    const gale_exr_channel *const *channels;
    gale_type type;   /* of the planes: f16 or f32 */
    size_t n, stride; /* samples of a plane, and from one plane to the next */
    char *planes;
} group;

struct gale_exr_meter {
    gale_device *device, *cpu; /* the second where the first has no f64; else NULL */
    gale__mutex lock;
    gale_program *programs[2]; /* for halves and floats, which plan once for planes of the same extents */
};

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

static void begin_tally(tally *t)
{
    memset(t, 0, sizeof *t);
    t->least = INFINITY, t->largest = -INFINITY;
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

/* The program for planes of this type, made when it is first needed. */
static gale_status find_program(gale_exr_meter *m, gale_type type, gale_program **out)
{
    gale_program **kept = &m->programs[type != GALE_F16];
    gale__mutex_lock(&m->lock);
    gale_status status =
        *kept ? GALE_OK : gale__exr_counts_program(type != GALE_F16 && m->cpu ? m->cpu : m->device, type, kept);
    gale__mutex_unlock(&m->lock);
    if (status == GALE_OK) *out = *kept;
    return status;
}

/* counts: [planes][CODES]; numbers: [planes][GALE__EXR_NUMBERS], not for halves. */
static gale_status count_planes(gale_exr_meter *m, const group *g, uint32_t *counts, double *numbers)
{
    const int64_t dims[2] = {g->count, (int64_t)g->stride};
    gale_program *program = NULL;
    gale_tensor *in = NULL, *out[2] = {NULL, NULL};
    gale_status status;
    GALE_GO(find_program(m, g->type, &program));
    GALE_GO(gale__tensor_borrow(g->type, 2, dims, g->planes, NULL, NULL, &in));
    GALE_GO(gale_program_run(program, &in, out, GALE_RUN_ON_HOST));
    GALE_GO(gale_tensor_to_cpu(out[0], counts, (size_t)g->count * CODES * sizeof *counts));
    if (out[1]) GALE_GO(gale_tensor_to_cpu(out[1], numbers, (size_t)g->count * GALE__EXR_NUMBERS * sizeof *numbers));
done:
    gale_tensor_destroy(&in);
    for (int i = 0; i < 2; i++) gale_tensor_destroy(&out[i]);
    return status;
}

static void read_counts(tally *t, const group *g, const uint32_t *counts, const double *n)
{
    const uint64_t more = g->stride - g->n; /* samples after the plane's: zeros of halves, NaN of floats */
    bool halves = g->type == GALE_F16;
    begin_tally(t);
    for (int code = 0; code < CODES; code++) {
        uint64_t of = counts[code] - (halves && !code ? more : 0);
        if (!halves) t->codes[code] = of, t->nans += (code & 0x7fff) > 0x7c00 ? of : 0;
        else if (of) count_value(t, (double)gale__f16_to_f32((uint16_t)code), (uint16_t)code, of);
    }
    if (halves) return;
    t->nans -= more;
    t->infinities = (uint64_t)n[GALE__EXR_INFINITIES];
    t->negatives = (uint64_t)n[GALE__EXR_NEGATIVES], t->zeros = (uint64_t)n[GALE__EXR_ZEROS];
    t->sum = n[GALE__EXR_SUM], t->squares = n[GALE__EXR_SQUARES];
    t->least = n[GALE__EXR_LEAST], t->largest = n[GALE__EXR_LARGEST];
}

static gale_status measure_planes(gale_exr_meter *m, const group *g, gale_exr_stats *s)
{
    uint32_t *counts = gale__alloc((size_t)g->count * CODES * sizeof *counts);
    double *numbers = gale__calloc((size_t)g->count * GALE__EXR_NUMBERS, sizeof *numbers);
    tally *t = gale__alloc(sizeof *t);
    gale_status status = counts && numbers && t ? count_planes(m, g, counts, numbers) : GALE_NO_MEMORY;
    for (int i = 0; i < g->count && status == GALE_OK; i++) {
        read_counts(t, g, counts + (size_t)i * CODES, numbers + (size_t)i * GALE__EXR_NUMBERS);
        conclude(t, g->n, &s[i]);
    }
    gale__free(counts);
    gale__free(numbers);
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
        memset(plane + g->n * gale_type_size(g->type), g->type == GALE_F16 ? 0 : 0xff,
            bytes - g->n * gale_type_size(g->type));
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
    g->type = first->type == GALE_F16 ? GALE_F16 : GALE_F32;
    g->n = (size_t)(w * h);
    g->stride = (g->n + VECTOR - 1) / VECTOR * VECTOR;
    for (g->count = 1; g->count < most; g->count++) {
        const gale_exr_channel *c = g->channels[g->count];
        if (c->type != first->type || c->x_sampling != first->x_sampling || c->y_sampling != first->y_sampling) break;
        if ((size_t)(g->count + 1) * g->stride * gale_type_size(g->type) > GROUP_BYTES) break;
    }
    return GALE_OK;
}

static gale_status measure_group(gale_exr_meter *m, group *g, gale_flags flags, gale_exr_stats *s)
{
    bool on_host = gale_device_get_info(m->device)->caps.host_functions || (g->type != GALE_F16 && m->cpu);
    if (on_host && flags & GALE_EXR_MEASURE_STRICT)
        return gale__fail(GALE_UNSUPPORTED, "EXR: channel %s (%s) would be counted on the host, which --strict rejects",
            g->channels[0]->name, gale_type_name(g->channels[0]->type));
    gale_status status = read_group(g);
    for (int i = 0; i < g->count; i++) s[i].name = g->channels[i]->name, s[i].type = g->channels[i]->type;
    if (status == GALE_OK) status = measure_planes(m, g, s);
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
        if (!channels[i])
            return gale__fail(GALE_NOT_FOUND, "EXR: no channel \"%s\"; `gale exr info` lists the channels", names[i]);
    }
    return GALE_OK;
}

gale_status gale_exr_meter_create(gale_device *device, gale_exr_meter **out)
{
    GALE__NEED({"device", device}, {"out", out});
    GALE__WITHIN(device->context);
    gale_exr_meter *m = gale__calloc(1, sizeof *m);
    if (!m) return GALE_NO_MEMORY;
    m->device = device;
    gale__mutex_init(&m->lock);
    bool whole = gale_device_get_info(device)->caps.f64;
    gale_status status = whole ? GALE_OK : gale_device_open(&(gale_device_options){.chain = "cpu"}, &m->cpu);
    if (status == GALE_OK) *out = m;
    else gale_exr_meter_destroy(&m);
    return status;
}

void gale_exr_meter_destroy(gale_exr_meter **meter)
{
    gale_exr_meter *m = meter ? *meter : NULL;
    if (!m) return;
    for (int i = 0; i < 2; i++) gale_program_destroy(&m->programs[i]);
    gale_device_close(&m->cpu);
    gale__mutex_finish(&m->lock);
    gale__free(m);
    *meter = NULL;
}

gale_status gale_exr_meter_run(gale_exr_meter *m, gale_exr *f, int part, const char *const *names, int n,
    gale_flags flags, gale_exr_stats **out, int *count)
{
    GALE__NEED({"meter", m}, {"file", f}, {"out", out}, {"count", count});
    GALE__WITHIN(m->device->context);
    const gale_exr_part *p = gale_exr_part_get(f, part);
    if (!p)
        return gale__fail(
            GALE_NOT_FOUND, "EXR: no part %d; parts are counted from 0, and `gale exr info` lists them", part);
    if (!names) n = p->channel_count;
    const gale_exr_channel **channels = gale__calloc((size_t)n + 1, sizeof *channels);
    gale_exr_stats *stats = gale__calloc((size_t)n + 1, sizeof *stats);
    gale_status status = stats && channels ? list_channels(p, names, n, channels) : GALE_NO_MEMORY;
    for (int i = 0; i < n && status == GALE_OK;) {
        group g = {.f = f, .part = part, .channels = channels + i};
        status = find_group(&g, n - i);
        if (status == GALE_OK) status = measure_group(m, &g, flags, &stats[i]);
        i += g.count;
    }
    gale__free(channels);
    if (status == GALE_OK) *out = stats, *count = n;
    else gale__free(stats);
    return status;
}

gale_status gale_exr_measure(gale_device *device, gale_exr *f, int part, const char *const *names, int n,
    gale_flags flags, gale_exr_stats **out, int *count)
{
    GALE__NEED({"device", device}, {"file", f}, {"out", out}, {"count", count});
    gale_exr_meter *m = NULL;
    GALE_TRY(gale_exr_meter_create(device, &m));
    gale_status status = gale_exr_meter_run(m, f, part, names, n, flags, out, count);
    gale_exr_meter_destroy(&m);
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
