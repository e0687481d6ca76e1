/* Tiles of a picture through the U-Net, blended where they overlap. */
#include "jobs/exr/denoise.h"
#include "base/thread.h"
#include "graph/run/tensor.h"
#include "jobs/exr/unet.h"
#include "jobs/upscale/tiles.h"
#include <math.h>
#include <string.h>

enum { TILE = 512, TILE_LEAST = 128, OVERLAP = 128, MULTIPLE = 16, BLOCK = 16 };

static double luminance(const float *light, size_t n, size_t i)
{
    static const double w[3] = {0.212671, 0.715160, 0.072169};
    double sum = 0;
    for (size_t c = 0; c < 3; c++) {
        double v = (double)light[c * n + i];
        sum += w[c] * (v > 0 && isfinite(v) ? v : 0);
    }
    return sum;
}

double gale__denoise_scale(const float *light, int64_t width, int64_t height)
{
    int64_t rows = (height + BLOCK - 1) / BLOCK, columns = (width + BLOCK - 1) / BLOCK, count = 0;
    double sum = 0;
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t y0 = i / columns * height / rows, y1 = (i / columns + 1) * height / rows;
        int64_t x0 = i % columns * width / columns, x1 = (i % columns + 1) * width / columns;
        double mean = 0;
        for (int64_t y = y0; y < y1; y++)
            for (int64_t x = x0; x < x1; x++)
                mean += luminance(light, (size_t)(width * height), (size_t)(y * width + x));
        mean /= (double)((y1 - y0) * (x1 - x0));
        if (!(mean > 1e-8)) continue;
        sum += log2(mean);
        count++;
    }
    return count ? 0.18 / exp2(sum / (double)count) : 1;
}

typedef struct work {
    gale__tiling tiling;
    gale_program *program;
    gale_tensor *in, *scale;
    const float *planes;
    float *light, *weights;
    int channels;
    int64_t width, height;
} work;

/* One tile: cut out, run, blended in. */
static gale_status run_tile(work *w, int64_t i)
{
    const gale__tiling *t = &w->tiling;
    int64_t tw = gale__tiling_width(t), th = gale__tiling_height(t);
    size_t whole = (size_t)(w->width * w->height);
    float *to = gale_tensor_data(w->in);
    gale_tensor *out = NULL;
    for (int64_t r = 0; r < w->channels * th; r++)
        gale__tile_take_row(t, i, 0, r % th, w->planes + (size_t)(r / th) * whole, to + r * tw);
    GALE_TRY(gale_program_run(w->program, (gale_tensor *[]){w->in, w->scale}, &out, GALE_RUN_ON_HOST));
    const float *from = gale_tensor_data(out);
    bool only = gale__tiling_count(t) == 1;
    if (!only) gale__tile_weights(t, i, 1, w->weights);
    for (int64_t r = 0; r < 3 * th; r++)
        gale__tile_add_row(
            t, i, 1, 0, r % th, from + r * tw, only ? NULL : w->weights, w->light + (size_t)(r / th) * whole);
    gale_tensor_destroy(&out);
    return GALE_OK;
}

static gale_status prepare(work *w, gale_device *device, const gale__tza *weights, int64_t tile, double scale)
{
    gale_graph *graph = NULL;
    gale__tile_wish wish = {
        .tile_width = tile, .tile_height = tile, .overlap = OVERLAP, .margin = -1, .multiple = MULTIPLE};
    if (wish.overlap > tile / 2) wish.overlap = tile / 2;
    GALE_TRY(gale__tiling_make(w->width, w->height, &wish, &w->tiling));
    int64_t tw = gale__tiling_width(&w->tiling), th = gale__tiling_height(&w->tiling), one = 1;
    const int64_t dims[4] = {1, w->channels, th, tw};
    const float value = (float)scale;
    w->weights = gale__alloc((size_t)(tw + th) * sizeof *w->weights);
    if (!w->weights) return GALE_NO_MEMORY;
    GALE_TRY(gale_tensor_create(NULL, GALE_F32, 4, dims, &w->in));
    GALE_TRY(gale_tensor_from_cpu(NULL, GALE_F32, 1, &one, &value, &w->scale));
    GALE_TRY(gale__unet_graph(weights, tw, th, &graph));
    gale_status status = gale_program_create(graph, device, NULL, &w->program);
    gale_graph_destroy(&graph);
    return status;
}

static gale_status run_tiles(gale_device *device, const gale__tza *weights, const float *planes, int64_t width,
    int64_t height, int64_t tile, const gale_exr_denoise_options *o, gale_exr_denoise_report *report, float *light)
{
    work w = {
        .planes = planes, .light = light, .channels = gale__unet_channels(weights), .width = width, .height = height};
    uint64_t begun = gale__time_ns();
    gale_status status;
    double scale = gale__denoise_scale(planes, width, height);
    GALE_GO(prepare(&w, device, weights, tile, scale));
    int64_t count = gale__tiling_count(&w.tiling);
    for (int64_t i = 0; i <= count; i++) {
        if (o->progress && !o->progress(o->user, i, count)) {
            status = gale__fail(
                GALE_CANCELLED, "denoise: cancelled after %lld of %lld tiles", (long long)i, (long long)count);
            goto done;
        }
        if (i < count) GALE_GO(run_tile(&w, i));
    }
    report->tiles = count;
    report->scale = scale;
    report->seconds = (double)(gale__time_ns() - begun) / 1e9;
done:
    gale_tensor_destroy(&w.in);
    gale_tensor_destroy(&w.scale);
    gale_program_destroy(&w.program);
    gale__free(w.weights);
    return status;
}

gale_status gale__denoise_planes(gale_device *device, const gale__tza *weights, const float *planes, int64_t width,
    int64_t height, const gale_exr_denoise_options *o, gale_exr_denoise_report *report, float *light)
{
    for (int64_t tile = o->tile ? o->tile : TILE;; tile /= 2) {
        gale_status status = run_tiles(device, weights, planes, width, height, tile, o, report, light);
        if (status != GALE_NO_MEMORY || tile / 2 < TILE_LEAST) return status;
        gale__log(GALE__WARN, "%s: using tiles of %lld pixels instead of %lld", gale_error(), (long long)tile / 2,
            (long long)tile);
        memset(light, 0, (size_t)(width * height) * 3 * sizeof *light);
    }
}
