/* The plan of the first small run shows how much memory a pixel takes at most; if that is too much, a second size
 * gives bytes per run and bytes per pixel.  The rest follows from the free memory of the device.  For networks whose
 * memory does not grow with the number of pixels (attention over a whole picture) this is a guess; they are retried
 * when memory runs out. */
#include "jobs/upscale/budget.h"
#include "base/thread.h"
#include "device/front.h"
#include "graph/run/program.h"
#include "onnx/run/session.h"
#include <math.h>
#include <string.h>

enum { SMALL = 64, ROUND = 16, BATCH_MOST = 64, GPU_LANES = 4, TRY_LANES = 3 };

static bool is_host(const gale_device *device) { return gale_device_get_info(device)->caps.host_functions; }

/* Of the memory that is left, what may be counted on: pieces do not fit without gaps, and others live on the host too.
 */
static double left(gale_device *device)
{
    return (double)gale__device_memory_left(device) * (is_host(device) ? 0.5 : 0.75);
}

/* Work memory of all programs of the model, by the plans that ran last, and how long these took to make. */
static void find_planned(gale_model *model, double *bytes, double *plan_us)
{
    const gale__onnx_exec *exec = gale__onnx_model_session(model)->net->exec;
    *bytes = *plan_us = 0;
    for (int i = 0; exec && i < exec->n_steps; i++) {
        const gale__onnx_segment *s = exec->steps[i].segment;
        for (const gale__onnx_variant *v = s ? s->variants : NULL; v; v = v->next) {
            *bytes += v->program ? (double)v->program->last.work_bytes : 0;
            *plan_us += v->program ? v->program->last.plan_us : 0;
        }
    }
}

/* The work, and what goes in and comes out: on the device, and on its way there. */
static double bytes_of(const gale__network *n, int64_t width, int64_t height, const int64_t result[4])
{
    double bytes, plan_us;
    find_planned(n->model, &bytes, &plan_us);
    return bytes + 2.0 * sizeof(float) * (double)(width * height * n->channels_in + result[1] * result[2] * result[3]);
}

void gale__budget_see(gale__network *n, int64_t width, int64_t height, const int64_t result[4])
{
    n->seen.pixels = (double)(width * height);
    n->seen.bytes = bytes_of(n, width, height, result);
}

/* By what was seen, and a run of another size. */
static gale_status find_cost(gale__network *n)
{
    int64_t dims[4], step = n->multiple ? n->multiple : 1,
                     side = n->proven > SMALL ? (n->proven / 2 + step - 1) / step * step : 2 * n->proven;
    if (side == n->proven) side *= 2;
    int64_t w = n->fixed_width ? n->fixed_width : side, h = n->fixed_height ? n->fixed_height : side;
    double each = n->seen.bytes / n->seen.pixels, more = (double)(w * h) - n->seen.pixels;
    gale_status status = n->fixed_width && n->fixed_height ? GALE_NO_MEMORY : gale__network_try(n, w, h, dims);
    if (status == GALE_OK) each = (bytes_of(n, w, h, dims) - n->seen.bytes) / more;
    else if (status != GALE_NO_MEMORY) return status; /* memory is that short: a guess on the safe side */
    n->bytes_per_pixel = fmax(each, 1);
    n->bytes = fmax(n->seen.bytes - n->bytes_per_pixel * n->seen.pixels, 1);
    return GALE_OK;
}

gale_status gale__budget_pixels(gale__network *n, gale_device *device, int64_t enough, int64_t *pixels)
{
    double room = left(device),
           fit = room * n->seen.pixels / n->seen.bytes; /* more pixels take no more for each than few do */
    if (fit < (double)enough) {
        if (n->bytes_per_pixel == 0) GALE_TRY(find_cost(n));
        fit = (room - n->bytes) / n->bytes_per_pixel;
    }
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
    int64_t most = (pixels < GALE__PIXELS_ENOUGH ? pixels : GALE__PIXELS_ENOUGH) / tile_pixels;
    most = most < 1 ? 1 : most > BATCH_MOST ? BATCH_MOST : most;
    int64_t rounds = (tiles + most - 1) / most;
    return (tiles + rounds - 1) / rounds;
}

static void note_least(double *least, double ns)
{
    if (*least == 0 || ns < *least) *least = fmax(ns, 1);
}

void gale__budget_note(gale__network *n, int64_t width, int64_t height, int64_t lanes, int64_t count, uint64_t ns)
{
    double bytes, plan_us;
    find_planned(n->model, &bytes, &plan_us);
    n->ran.tiles += count;
    if (n->ran.width != width || n->ran.height != height) { /* the first of its size, which is planned */
        if (count == 1) n->ran = (struct gale__network_ran){.width = width, .height = height, .bytes = bytes};
    } else if (lanes > 1) {
        double planning_ns = n->ran.beside_ns == 0 ? plan_us * 1e3 : 0;
        note_least(&n->ran.beside_ns, ((double)ns - planning_ns) / (double)count);
    } else if (count == 1) note_least(&n->ran.alone_ns, (double)ns);
}

/* Tiles of one thread each wait for no other, but the memory of all of them together fits no cache: which is faster
 * depends on the network, the tile and the machine.  Trying
 * takes no more than a third of the tiles of this and earlier pictures. */
static bool lanes_pay(const gale__network *n, int64_t tiles, int64_t most)
{
    if (n->ran.beside_ns > 0) return n->ran.beside_ns < n->ran.alone_ns || n->ran.alone_ns == 0;
    return n->ran.alone_ns > 0 && n->ran.tiles + tiles >= TRY_LANES * most;
}

/* Tiles side by side that a device has use for.  A GPU is busy with a few (an H200: 4 are 30 % faster than 1, and 16 as
 * fast as 4); one in software has its threads in use. */
static int64_t lanes_of_use(const gale__network *n, const gale_device *device, int64_t tiles)
{
    int64_t most = gale__parallel_width();
    if (is_host(device)) return tiles > most / 2 && lanes_pay(n, tiles, most) ? most : 1;
    if (gale_device_get_info(device)->caps.software) return 1;
    return most < GPU_LANES ? most : GPU_LANES;
}

int64_t gale__budget_lanes(const gale__network *n, gale_device *device, int64_t width, int64_t height, int64_t tiles)
{
    int64_t most = lanes_of_use(n, device, tiles);
    if (n->ran.width != width || n->ran.height != height) return 1;
    double more = left(device) / fmax(n->ran.bytes, 1);
    if (more + 1 < (double)most) most = (int64_t)more + 1;
    return tiles < most ? tiles : most;
}
