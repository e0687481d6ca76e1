/* A picture through a network: planes are cut, run in batches, blended, and become a picture again. */
#include "jobs/upscale/upscale.h"
#include "base/thread.h"
#include "jobs/upscale/batch.h"
#include "jobs/upscale/budget.h"
#include "jobs/upscale/matte.h"
#include "jobs/upscale/plane_resize.h"
#include <math.h>
#include <string.h>

enum { TILE_LEAST = 32, PADDING_USUAL = 64, PASSES_MOST = 6, EXTENT_BANDS = 64 };

typedef struct work {
    gale__network *network;
    gale_device *device;
    const float *control;
    const gale_upscale_options *options;
    gale_upscale_report *report;
    int64_t tile, overlap, batch; /* current values, possibly reduced to fit into memory; 0: as memory allows */
    int64_t now;                  /* the tile of this run; 0: the whole picture */
    bool batches;                 /* the batch is found for each run */
    int64_t lanes;                /* maximum concurrent tiles; 0: as many as the device can use */
    uint64_t network_ns;
} work;

/* How many of the tiles that are left run side by side; 1: none.  Networks of a fixed batch get one, and so do those
 * asked for. */
static int64_t lanes_now(const work *w, const gale__tiling *t, int64_t tiles)
{
    int64_t most = gale__parallel_width();
    if (w->batch > 1 || w->network->fixed_batch > 1) return 1;
    if (!w->lanes) return gale__budget_lanes(w->network, w->device, t->x.tile, t->y.tile, tiles);
    if (most > w->lanes) most = w->lanes;
    return tiles < most ? tiles : most;
}

/* Whether less at once may do what failed: memory that ran short, or a network that takes tiles one by one. */
static bool shrink(work *w, gale_status status, int64_t lanes, int64_t count)
{
    if (status == GALE_UNSUPPORTED && count > 1 && w->network->batches == GALE__BATCHES_MIXED) {
        w->batch = 1;
        w->batches = false;
        gale__log(GALE__WARN, "%s: one tile at a time instead of %lld", gale_error(), (long long)count);
        return true;
    }
    if (status != GALE_NO_MEMORY) return false;
    if (lanes > 1) {
        w->lanes = lanes / 2;
        gale__log(GALE__INFO, "out of memory: using %lld lanes instead of %lld", (long long)w->lanes, (long long)lanes);
    } else if (w->batch > 1) {
        w->batch /= 2;
        w->batches = false;
        gale__log(GALE__WARN, "out of memory: using batches of %lld tiles instead of %lld", (long long)w->batch,
            (long long)count);
    } else return false;
    return true;
}

static gale_status report_tiles(const work *w, int64_t done, int64_t tiles)
{
    if (!w->options->progress || w->options->progress(w->options->user, done, tiles)) return GALE_OK;
    return gale__fail(GALE_CANCELLED, "cancelled after %lld of %lld tiles", (long long)done, (long long)tiles);
}

static gale_status run_tiles(work *w, const gale__tiling *t, gale_tensor *planes, gale_tensor *out)
{
    int64_t tiles = gale__tiling_count(t);
    gale__tile_batch b = {0};
    if (w->batch > tiles) w->batch = tiles;
    gale_status status = gale__tile_batch_make(w->network, t, w->control, &b);
    for (int64_t at = 0; at < tiles && status == GALE_OK;) {
        int64_t lanes = lanes_now(w, t, tiles - at), count = lanes > 1               ? lanes
                                                             : tiles - at < w->batch ? tiles - at
                                                                                     : w->batch;
        uint64_t before = w->network_ns;
        status = report_tiles(w, at, tiles);
        if (status == GALE_OK) status = gale__tile_batch_run(&b, at, count, lanes > 1, planes, out, &w->network_ns);
        if (status == GALE_OK)
            gale__budget_note(w->network, t->x.tile, t->y.tile, lanes, count, w->network_ns - before);
        if (status == GALE_OK && w->report && lanes > w->report->lanes) w->report->lanes = lanes;
        if (status != GALE_OK && shrink(w, status, lanes, count)) status = GALE_OK;
        else at += count;
    }
    gale__tile_batch_finish(&b);
    return status == GALE_OK ? report_tiles(w, tiles, tiles) : status;
}

static bool is_fixed(const gale__network *n) { return n->fixed_width && n->fixed_height; }

/* The manifest's is kept as far as tiles have room for it, since the network may need it; one that nobody asked for is
 * less where tiles are small. */
static int64_t overlap_for(const work *w, int64_t tile)
{
    if (w->options->overlap >= 0) return w->overlap;
    if (w->network->manifest->overlap_said) return w->overlap < tile ? w->overlap : tile / 2;
    return w->overlap <= tile / 2 ? w->overlap : tile / 4;
}

/* Whether tiles of the picture must be of extents that are not the manifest's own. */
static gale_status make_tiling(work *w, int64_t width, int64_t height, gale__tiling *t)
{
    gale__network *n = w->network;
    int64_t tile_width = n->fixed_width ? n->fixed_width : w->now,
            tile_height = n->fixed_height ? n->fixed_height : w->now,
            smaller = tile_height && (!tile_width || tile_height < tile_width) ? tile_height : tile_width;
    int64_t apron = n->manifest->apron;
    /* a picture of at most a tile stays one */
    if (apron && !n->fixed_width && w->now && width <= w->now) tile_width = width + 2 * (apron + n->border);
    if (apron && !n->fixed_height && w->now && height <= w->now) tile_height = height + 2 * (apron + n->border);
    gale__tile_wish wish = {tile_width, tile_height,
        smaller > 2 * n->border ? overlap_for(w, smaller - 2 * n->border) : 0, -1, 0, n->fixed_width > 0,
        n->fixed_height > 0, n->manifest->padding, n->border, apron};
    bool usual = is_fixed(n) || (w->now == n->manifest->tile && w->now && width >= w->now && height >= w->now);
    if (!usual) GALE_TRY(gale__network_find_multiple(n));
    wish.multiple = n->multiple;
    return gale__tiling_make(width, height, &wish, t);
}

/* Networks may pad to a multiple of their own. */
static int64_t with_padding(int64_t side) { return (side + PADDING_USUAL - 1) / PADDING_USUAL * PADDING_USUAL; }

/* Tile and batch where they are left to us: the whole picture where memory holds it, else the largest tile. */
static gale_status choose(work *w, int64_t width, int64_t height, gale__tiling *t)
{
    int64_t pixels = 0, border = w->network->border, around = border + w->network->manifest->apron,
            wide = width + 2 * around, high = height + 2 * around;
    bool tile = !w->tile && !w->network->fixed_width && !w->network->fixed_height;
    w->now = w->tile;
    if (tile) GALE_TRY(gale__network_find_multiple(w->network));
    if (tile || w->batches)
        GALE_TRY(gale__budget_pixels(
            w->network, w->device, tile ? with_padding(wide) * with_padding(high) : GALE__PIXELS_ENOUGH, &pixels));
    if (tile && wide * high > pixels) w->now = gale__budget_tile(w->network, pixels, TILE_LEAST + 2 * border);
    if (tile && w->now && w->overlap > w->now / 4) w->overlap = w->now / 4;
    GALE_TRY(make_tiling(w, width, height, t));
    if (w->batches)
        w->batch = gale__budget_batch(
            w->device, pixels, gale__tiling_width(t) * gale__tiling_height(t), gale__tiling_count(t));
    if (w->report) w->report->by_memory |= tile && w->now;
    return GALE_OK;
}

/* channels_in planes, the first of the tensor, to channels_out planes, scale times as large. */
static gale_status run_planes(work *w, gale_tensor *planes, gale_tensor *out)
{
    int64_t height = gale_tensor_dims(planes)[2], width = gale_tensor_dims(planes)[3];
    for (;;) {
        gale__tiling t;
        GALE_TRY(choose(w, width, height, &t));
        bool chosen = !w->tile;
        gale_status status = run_tiles(w, &t, planes, out);
        if (status == GALE_OK && w->report)
            w->report->tiles += gale__tiling_count(&t), w->report->tile_width = gale__tiling_width(&t),
                                                        w->report->tile_height = gale__tiling_height(&t),
                                                        w->report->batch = w->batch;
        int64_t x = w->network->fixed_width ? 0 : gale__tiling_width(&t),
                y = w->network->fixed_height ? 0 : gale__tiling_height(&t), larger = x > y ? x : y;
        bool large = status == GALE_NO_MEMORY ||
                     (status == GALE_UNSUPPORTED && chosen); /* the latter: more elements than kernels count */
        if (!large || larger / 2 < TILE_LEAST + 2 * t.border) return status;
        if (w->report) w->report->by_memory = true;
        w->tile = larger / 2;
        if (w->overlap > w->tile / 4) w->overlap = w->tile / 4;
        gale__log(GALE__WARN, "%s: using tiles of %lld pixels instead of %lld",
            status == GALE_NO_MEMORY ? "out of memory" : "too large", (long long)w->tile, (long long)larger);
    }
}

static gale_status make_planes(int64_t planes, int64_t width, int64_t height, gale_tensor **out)
{
    return gale_tensor_create(NULL, GALE_F32, 4, (int64_t[]){1, planes, height, width}, out);
}

/* A grey plane (alpha, luma) through the network: repeated for one that takes RGB, and the mean of what it gives. */
static gale_status run_grey(work *w, const float *plane, int64_t width, int64_t height, float *out)
{
    size_t n = (size_t)(width * height), m = n * (size_t)(w->network->scale * w->network->scale);
    int in = w->network->channels_in, results = w->network->channels_out;
    gale_tensor *wide = NULL, *large = NULL;
    gale_status status;
    GALE_GO(make_planes(in, width, height, &wide));
    GALE_GO(make_planes(results, width * w->network->scale, height * w->network->scale, &large));
    for (int c = 0; c < in; c++) memcpy((float *)gale_tensor_data(wide) + (size_t)c * n, plane, n * sizeof *plane);
    GALE_GO(run_planes(w, wide, large));
    const float *from = gale_tensor_data(large);
    for (size_t i = 0; i < m; i++) {
        float sum = 0;
        for (int c = 0; c < results; c++) sum += from[(size_t)c * m + i];
        out[i] = sum / (float)results;
    }
done:
    gale_tensor_destroy(&wide);
    gale_tensor_destroy(&large);
    return status;
}

/* A network for luma alone: it enlarges that, and the colours are resized beside it (ITU-R 601). */
static gale_status run_luma(work *w, const float *rgb, int64_t width, int64_t height, float *out)
{
    size_t n = (size_t)(width * height), m = n * (size_t)(w->network->scale * w->network->scale);
    float *ycc = gale__calloc(3 * n, sizeof *ycc);
    if (!ycc) return GALE_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        float y = 0.299f * rgb[i] + 0.587f * rgb[n + i] + 0.114f * rgb[2 * n + i];
        ycc[i] = y;
        ycc[n + i] = (rgb[2 * n + i] - y) / 1.772f;
        ycc[2 * n + i] = (rgb[i] - y) / 1.402f;
    }
    gale_status status = run_grey(w, ycc, width, height, out);
    if (status == GALE_OK)
        status = gale__planes_resize(
            w->device, ycc + n, 2, width, height, width * w->network->scale, height * w->network->scale, out + m);
    gale__free(ycc);
    for (size_t i = 0; i < m && status == GALE_OK; i++) {
        float y = out[i], cb = out[m + i], cr = out[2 * m + i];
        out[i] = y + 1.402f * cr;
        out[m + i] = y - 0.344136f * cb - 0.714136f * cr;
        out[2 * m + i] = y + 1.772f * cb;
    }
    return status;
}

/* Colours and alpha on their way: `planes` colour planes, then alpha if present. */
typedef struct state {
    gale_tensor *memory;
    float *data;
    int planes;
    bool alpha;
    int64_t width, height;
} state;

static gale_status state_make(int planes, bool alpha, int64_t width, int64_t height, state *s)
{
    gale_tensor *memory = NULL;
    GALE_TRY(make_planes(planes + alpha, width, height, &memory));
    *s = (state){memory, gale_tensor_data(memory), planes, alpha, width, height};
    return GALE_OK;
}

static float *alpha_of(const state *s)
{
    return s->alpha ? s->data + (size_t)(s->planes * s->width * s->height) : NULL;
}

/* Once through the network. */
static gale_status pass(work *w, state *s)
{
    int scale = w->network->scale;
    state large;
    bool colour = s->planes == 3;
    int planes = colour && w->network->channels_in == 1 ? 3
                 : s->planes == w->network->channels_in ? w->network->channels_out
                                                        : 1;
    GALE_TRY(state_make(planes, s->alpha, s->width * scale, s->height * scale, &large));
    gale_status status;
    if (colour && w->network->channels_in == 1) status = run_luma(w, s->data, s->width, s->height, large.data);
    else if (s->planes == w->network->channels_in) status = run_planes(w, s->memory, large.memory);
    else status = run_grey(w, s->data, s->width, s->height, large.data);
    if (status == GALE_OK && s->alpha) status = run_grey(w, alpha_of(s), s->width, s->height, alpha_of(&large));
    gale_tensor_destroy(status == GALE_OK ? &s->memory : &large.memory);
    if (status == GALE_OK) *s = large;
    return status;
}

static gale_status resize(work *w, state *s, int64_t width, int64_t height)
{
    state made;
    if (width == s->width && height == s->height) return GALE_OK;
    GALE_TRY(state_make(s->planes, s->alpha, width, height, &made));
    gale_status status =
        gale__planes_resize(w->device, s->data, s->planes + s->alpha, s->width, s->height, width, height, made.data);
    gale_tensor_destroy(status == GALE_OK ? &s->memory : &made.memory);
    if (status == GALE_OK) *s = made;
    return status;
}

/* The smallest and the largest of many, compared without branches as integers in the order of the floats: NaNs are at
 * the ends. */
typedef struct extent {
    const float *data;
    size_t count;
    int32_t low[EXTENT_BANDS], high[EXTENT_BANDS];
} extent;

static int32_t ordered(int32_t bits) { return bits ^ ((bits >> 31) & INT32_MAX); }

static float float_of(int32_t order)
{
    float v;
    int32_t bits = ordered(order);
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void extent_band(void *arg, size_t band, int worker)
{
    extent *e = arg;
    size_t size = (e->count + EXTENT_BANDS - 1) / EXTENT_BANDS, from = band * size,
           to = from + size < e->count ? from + size : e->count;
    int32_t low = INT32_MAX, high = INT32_MIN;
    (void)worker;
    for (size_t i = from; i < to; i++) {
        int32_t v;
        memcpy(&v, &e->data[i], sizeof v);
        v = ordered(v);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    e->low[band] = low;
    e->high[band] = high;
}

static void find_extent(const float *data, size_t n, float *low, float *high)
{
    extent e = {.data = data, .count = n};
    gale__parallel(EXTENT_BANDS, extent_band, &e);
    for (int i = 1; i < EXTENT_BANDS; i++) {
        e.low[0] = e.low[i] < e.low[0] ? e.low[i] : e.low[0];
        e.high[0] = e.high[i] > e.high[0] ? e.high[i] : e.high[0];
    }
    *low = float_of(e.low[0]);
    *high = float_of(e.high[0]);
}

/* The largest difference between values of a plane; infinite if one is NaN. */
static double spread(const state *s)
{
    size_t n = (size_t)(s->width * s->height);
    double most = 0;
    for (int c = 0; c < s->planes; c++) {
        float low, high;
        find_extent(s->data + (size_t)c * n, n, &low, &high);
        most = fmax(most, isfinite(low) && isfinite(high) ? (double)high - low : INFINITY);
    }
    return most;
}

static gale_status check(const work *w, double before, const state *s)
{
    double after = spread(s);
    if (isinf(after) && isinf(before))
        return gale__fail(GALE_NOT_FINITE, "the picture contains NaN or infinity; use --tolerant to replace them by 0");
    if (isinf(after)) return gale__fail(GALE_NOT_FINITE, "%s produced NaN or infinity", w->network->manifest->name);
    if (!w->options->no_check && before > 0.05 && after < 0.005)
        return gale__fail(GALE_NOT_FINITE,
            "%s produced a picture of a single colour; check the network and the range in its manifest",
            w->network->manifest->name);
    return GALE_OK;
}

static void target(const work *w, const gale_picture *in, int64_t *width, int64_t *height)
{
    *width = w->options->width;
    *height = w->options->height;
    if (!*width && !*height) *width = in->width * w->network->scale, *height = in->height * w->network->scale;
    else if (!*width) *width = (in->width * *height + in->height / 2) / in->height;
    else if (!*height) *height = (in->height * *width + in->width / 2) / in->width;
    if (*width < 1) *width = 1;
    if (*height < 1) *height = 1;
}

bool gale__upscale_next(
    int scale, int64_t wanted_width, int64_t wanted_height, int passes, int64_t *width, int64_t *height)
{
    if (!passes) return true;
    if (passes >= PASSES_MOST || scale < 2 || (*width >= wanted_width && *height >= wanted_height)) return false;
    double across = 2.0 * (double)wanted_width / (double)(*width * scale),
           down = 2.0 * (double)wanted_height / (double)(*height * scale), less = across > down ? across : down;
    if (less < 1) *width = (int64_t)ceil((double)*width * less), *height = (int64_t)ceil((double)*height * less);
    return true;
}

/* The network runs until the picture is large enough, at least once; the rest is resizing. */
static gale_status enlarge(work *w, const gale_picture *in, state *s)
{
    int64_t width, height, now_width = s->width, now_height = s->height;
    target(w, in, &width, &height);
    double before = spread(s);
    gale__matte_range range = {0, 1};
    if (s->alpha) range = gale__matte_find(s->data, s->planes, alpha_of(s), (size_t)(s->width * s->height));
    int passes = 0;
    for (; gale__upscale_next(w->network->scale, width, height, passes, &now_width, &now_height); passes++) {
        GALE_TRY(resize(w, s, now_width, now_height));
        GALE_TRY(pass(w, s));
        now_width = s->width, now_height = s->height;
    }
    if (w->report) w->report->passes = passes;
    GALE_TRY(check(w, before, s)); /* before a picture becomes one pixel */
    GALE_TRY(resize(w, s, width, height));
    if (s->alpha) gale__matte_limit(range, s->data, s->planes, alpha_of(s), (size_t)(width * height));
    return GALE_OK;
}

/* Alpha that is opaque everywhere need not go through anything. */
static bool is_opaque(const float *alpha, size_t n)
{
    float low, high;
    find_extent(alpha, n, &low, &high);
    return low >= 1;
}

static gale_status load(const gale_picture *in, state *s)
{
    int planes = in->channels > 2 ? 3 : 1;
    GALE_TRY(state_make(planes, in->channels % 2 == 0, in->width, in->height, s));
    gale__picture_to_planes(in, planes, true, s->data, alpha_of(s));
    if (s->alpha && is_opaque(alpha_of(s), (size_t)(in->width * in->height))) s->alpha = false;
    return GALE_OK;
}

static gale_status store(const gale_picture *in, const state *s, gale_picture **out)
{
    gale_picture *p = NULL;
    GALE_TRY(gale_picture_create(s->width, s->height, in->channels, in->type, &p));
    p->premultiplied = in->premultiplied;
    gale__picture_from_planes(p, s->planes, true, s->data, alpha_of(s));
    gale_status status = gale__picture_notes_copy(in, p);
    if (status == GALE_OK) status = gale__notes_extents(p);
    if (status != GALE_OK) {
        gale_picture_destroy(&p);
        return status;
    }
    *out = p;
    return GALE_OK;
}

/* Linear pictures are encoded for the network, and become linear again. */
static gale_status relight(gale_picture **p, gale_type type)
{
    gale_picture *made = NULL;
    GALE_TRY(gale__picture_make(*p, (gale__picture_kind){type, (*p)->channels, true, (*p)->premultiplied}, &made));
    gale_picture_destroy(p);
    *p = made;
    return GALE_OK;
}

/* The options as the rest reads them: -1 for what the manifest says, 0 for a whole picture, no overlap, and as many as
 * memory holds.  The caller's have 0 for the usual. */
static gale_status resolve_options(const gale_upscale_options *options, gale_upscale_options *out)
{
    gale_upscale_options o = options ? *options : (gale_upscale_options){0};
    int64_t *const fields[] = {&o.tile, &o.overlap, &o.batch};
    if (o.tile < GALE_TILE_WHOLE || o.overlap < GALE_OVERLAP_NONE || o.batch < GALE_BATCH_AUTO)
        return gale__fail(GALE_INVALID, "gale_upscale: tile %lld, overlap %lld, batch %lld: one is out of range",
            (long long)o.tile, (long long)o.overlap, (long long)o.batch);
    if (o.width < 0 || o.height < 0 || o.lanes < 0)
        return gale__fail(GALE_INVALID, "gale_upscale: width %lld, height %lld, lanes %lld: one is negative",
            (long long)o.width, (long long)o.height, (long long)o.lanes);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        *fields[i] = *fields[i] > 0 ? *fields[i] : *fields[i] == GALE_TILE_WHOLE ? 0 : -1;
    *out = o;
    return GALE_OK;
}

gale_status gale__upscale(gale__network *network, gale_device *device, const gale_picture *in, const float *control,
    const gale_upscale_options *options, gale_upscale_report *report, gale_picture **out)
{
    const gale__manifest *m = network->manifest;
    gale_upscale_options settled;
    GALE_TRY(resolve_options(options, &settled));
    options = &settled;
    work w = {network, device, control ? control : m->defaults, options, report,
        options->tile < 0 ? m->tile : options->tile, options->overlap < 0 ? m->overlap : options->overlap,
        options->batch > 0 ? options->batch : 1, 0, options->batch == 0 && !network->fixed_batch, options->lanes, 0};
    gale_picture *encoded = NULL, *made = NULL;
    state s = {0};
    gale_status status;
    if (report) *report = (gale_upscale_report){0};
    if (network->fixed_batch && w.batch > network->fixed_batch) w.batch = network->fixed_batch;
    if (network->batches == GALE__BATCHES_MIXED) w.batch = 1, w.batches = false;
    if (in->linear)
        GALE_GO(
            gale__picture_make(in, (gale__picture_kind){GALE_F32, in->channels, false, in->premultiplied}, &encoded));
    GALE_GO(load(encoded ? encoded : in, &s));
    GALE_GO(enlarge(&w, in, &s));
    if (report) report->network_seconds = (double)w.network_ns / 1e9;
    GALE_GO(store(encoded ? encoded : in, &s, &made));
    if (in->linear) GALE_GO(relight(&made, in->type));
    *out = made;
    made = NULL;
done:
    gale_picture_destroy(&encoded);
    gale_picture_destroy(&made);
    gale_tensor_destroy(&s.memory);
    return status;
}
