/* Plans of two sizes give bytes for a run and bytes for a pixel; what is left on the device does the rest.  A guess for networks whose memory does not grow with
 * the number of pixels (attention over a whole picture): those find out by running short, as before. */
#include "jobs/budget.h"
#include "base/thread.h"
#include "device/front.h"
#include "graph/program.h"
#include "onnx/session.h"
#include <math.h>
#include <string.h>

enum { SMALL = 64, LARGE = 128, ROUND = 16, PIXELS_ENOUGH = 1 << 20, BATCH_MOST = 64, GPU_LANES = 4 };

static bool is_host(const gale_device *device) { return !strcmp(gale_device_get_info(device)->backend, "cpu"); }

/* Of the memory that is left, what may be counted on: pieces do not fit without gaps, and others live on the host too. */
static double left(gale_device *device) { return (double)gale__memory_left(device) * (is_host(device) ? 0.5 : 0.75); }

/* Work memory of all programs of the model, by the plans that ran last. */
static double planned(gale_model *model)
{
    const gale__exec *exec = gale__model_session(model)->net->exec;
    double sum = 0;
    for (int i = 0; exec && i < exec->n_steps; i++) {
        const gale__segment *s = exec->steps[i].segment;
        for (const gale__variant *v = s ? s->variants : NULL; v; v = v->next) sum += v->program ? (double)v->program->last.work_bytes : 0;
    }
    return sum;
}

/* The work, and what goes in and comes out: on the device, and on its way there. */
static gale_status bytes_at(const gale__network *n, int64_t width, int64_t height, double *bytes)
{
    int64_t dims[4];
    GALE_TRY(gale__network_try(n, width, height, dims));
    *bytes = planned(n->model) + 2.0 * sizeof(float) * (double)(width * height * n->channels_in + dims[1] * dims[2] * dims[3]);
    return GALE_OK;
}

static gale_status find_cost(gale__network *n)
{
    double small = 0, large;
    int64_t w = n->fixed_width ? n->fixed_width : LARGE, h = n->fixed_height ? n->fixed_height : LARGE;
    bool fixed = n->fixed_width || n->fixed_height;
    if (!fixed) GALE_TRY(bytes_at(n, SMALL, SMALL, &small));
    gale_status status = bytes_at(n, w, h, &large);
    if (status != GALE_OK && (status != GALE_NO_MEMORY || fixed)) return status;
    if (status == GALE_NO_MEMORY) large = small * (LARGE * LARGE / (SMALL * SMALL)); /* memory is that short: a guess on the safe side */
    n->bytes_per_pixel = fmax((large - small) / (double)(w * h - (fixed ? 0 : SMALL * SMALL)), 1);
    n->bytes = fmax(large - n->bytes_per_pixel * (double)(w * h), 1);
    return GALE_OK;
}

gale_status gale__budget_pixels(gale__network *n, gale_device *device, int64_t *pixels)
{
    if (n->bytes_per_pixel == 0) GALE_TRY(find_cost(n));
    double fit = (left(device) - n->bytes) / n->bytes_per_pixel;
    *pixels = fit < 1 ? 1 : fit > 1e15 ? (int64_t)1e15 : (int64_t)fit;
    return GALE_OK;
}

int64_t gale__budget_tile(const gale__network *n, int64_t pixels, int64_t least)
{
    int64_t step = n->multiple > ROUND ? n->multiple : ROUND, tile = (int64_t)sqrt((double)pixels) / step * step;
    return tile > least ? tile : least;
}

int64_t gale__budget_batch(const gale_device *device, int64_t pixels, int64_t tile_pixels, int64_t tiles)
{
    if (is_host(device)) return 1; /* its threads have a tile each (gale__budget_lanes) */
    int64_t most = (pixels < PIXELS_ENOUGH ? pixels : PIXELS_ENOUGH) / tile_pixels;
    most = most < 1 ? 1 : most > BATCH_MOST ? BATCH_MOST : most;
    int64_t rounds = (tiles + most - 1) / most;
    return (tiles + rounds - 1) / rounds;
}

void gale__budget_note(gale__network *n, int64_t width, int64_t height)
{
    n->ran.width = width;
    n->ran.height = height;
    n->ran.bytes = planned(n->model);
}

/* Tiles side by side that a device has use for.  A GPU is busy with a few (an H200: 4 are 30 % faster than 1, and 16 as fast as 4); one in software has its threads in use. */
static int64_t lanes_of_use(const gale_device *device, int64_t tiles)
{
    int64_t most = gale__parallel_width();
    if (is_host(device)) return tiles <= most / 2 ? 1 : most; /* all threads on each tile are done sooner than a few with one each */
    if (gale_device_get_info(device)->caps.software) return 1;
    return most < GPU_LANES ? most : GPU_LANES;
}

int64_t gale__budget_lanes(const gale__network *n, gale_device *device, int64_t width, int64_t height, int64_t tiles)
{
    int64_t most = lanes_of_use(device, tiles);
    if (n->ran.width != width || n->ran.height != height) return 1;
    double more = left(device) / fmax(n->ran.bytes, 1);
    if (more + 1 < (double)most) most = (int64_t)more + 1;
    return tiles < most ? tiles : most;
}
