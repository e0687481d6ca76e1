/* Samples on their way into a network and out of it. */
#include "jobs/upscale/feed.h"
#include "base/num.h"
#include <string.h>

/* The layout of the rows of one of the two tensors. */
typedef struct row_layout {
    gale_type type;
    int64_t channels, width, height;
    float low, span;
    bool last;
} row_layout;

static row_layout row_layout_of(const gale__feed *f, bool result)
{
    const gale__network *n = f->network;
    const double *range = n->range[result];
    gale_type type = result ? n->type_out : n->type_in;
    return (row_layout){type, result ? n->channels_out : n->channels_in,
        result ? gale__network_gives(n, f->width) : f->width, result ? gale__network_gives(n, f->height) : f->height,
        (float)range[0], (float)(range[1] - range[0]), n->layout == GALE__MANIFEST_LAYOUT_NHWC};
}

static bool is_plain(const row_layout *l) { return l->type == GALE_F32 && !l->last && l->low == 0 && l->span == 1; }

/* Where row y of a plane of RGB begins, in samples. */
static int64_t place(const gale__feed *f, const row_layout *l, int64_t tile, int64_t plane, int64_t y)
{
    if (f->network->manifest->colours == GALE__COLOURS_BGR && l->channels == 3) plane = 2 - plane;
    return l->last ? (tile * l->height + y) * l->width * l->channels + plane
                   : ((tile * l->channels + plane) * l->height + y) * l->width;
}

static uint8_t to_byte(float v) { return (uint8_t)(int)(v > 0 ? v < 255 ? v + 0.5f : 255 : 0); }

static void put_samples(
    gale_type type, void *to, int64_t at, int64_t step, const float *from, int64_t n, float low, float span)
{
    if (type == GALE_F32)
        for (int64_t i = 0; i < n; i++) ((float *)to)[at + i * step] = low + span * from[i];
    else if (type == GALE_F16)
        for (int64_t i = 0; i < n; i++) ((uint16_t *)to)[at + i * step] = gale__f32_to_f16(low + span * from[i]);
    else
        for (int64_t i = 0; i < n; i++) ((uint8_t *)to)[at + i * step] = to_byte(low + span * from[i]);
}

static void get_samples(
    gale_type type, const void *from, int64_t at, int64_t step, float *to, int64_t n, float low, float span)
{
    if (type == GALE_F32)
        for (int64_t i = 0; i < n; i++) to[i] = (((const float *)from)[at + i * step] - low) / span;
    else if (type == GALE_F16)
        for (int64_t i = 0; i < n; i++)
            to[i] = (gale__f16_to_f32(((const uint16_t *)from)[at + i * step]) - low) / span;
    else
        for (int64_t i = 0; i < n; i++) to[i] = (((const uint8_t *)from)[at + i * step] - low) / span;
}

float *gale__feed_row(const gale__feed *f, int64_t tile, int64_t plane, int64_t y, float *room)
{
    row_layout l = row_layout_of(f, false);
    return is_plain(&l) ? (float *)gale_tensor_data(f->picture) + place(f, &l, tile, plane, y) : room;
}

void gale__feed_put(const gale__feed *f, int64_t tile, int64_t plane, int64_t y, const float *row)
{
    row_layout l = row_layout_of(f, false);
    if (!is_plain(&l))
        put_samples(l.type, gale_tensor_data(f->picture), place(f, &l, tile, plane, y), l.last ? l.channels : 1, row,
            l.width, l.low, l.span);
}

const float *gale__feed_get(const gale__feed *f, int64_t tile, int64_t plane, int64_t y, float *room)
{
    row_layout l = row_layout_of(f, true);
    const void *data = gale_tensor_data(f->result);
    int64_t beyond = f->network->border * f->network->scale - f->network->lost, step = l.last ? l.channels : 1,
            at = place(f, &l, tile, plane, y + beyond) + beyond * step;
    if (is_plain(&l)) return (const float *)data + at;
    get_samples(l.type, data, at, step, room, l.width - 2 * beyond, l.low, l.span);
    return room;
}

static gale_status make_control(gale__feed *f, const float *control)
{
    const gale__network *n = f->network;
    gale_model_value v;
    GALE_TRY(gale_model_input(n->model, n->control, &v));
    int64_t all = n->control_rank < 2 ? 1 : v.dims[0] > 0 ? v.dims[0] : n->fixed_batch ? n->fixed_batch : f->batch;
    int64_t dims[2] = {n->control_rank == 1 ? n->control_size : all, n->control_size};
    GALE_TRY(gale_tensor_create(NULL, v.type, n->control_rank, dims, &f->control));
    static const float none = 0;
    for (int64_t i = 0; i < all * n->control_size; i++)
        put_samples(
            v.type, gale_tensor_data(f->control), i, 1, control ? &control[i % n->control_size] : &none, 1, 0, 1);
    return GALE_OK;
}

gale_status gale__feed_make(
    const gale__network *n, int64_t batch, int64_t width, int64_t height, const float *control, gale__feed *out)
{
    gale__feed f = {n, batch, width, height, NULL, NULL, NULL};
    bool last = n->layout == GALE__MANIFEST_LAYOUT_NHWC;
    int64_t all = n->fixed_batch ? n->fixed_batch : batch, c = n->channels_in;
    if (batch > all)
        return gale__fail(GALE_INVALID, "%s takes %lld pictures at once, not %lld", n->manifest->name, (long long)all,
            (long long)batch);
    const int64_t dims[4] = {all, last ? height : c, last ? width : height, last ? c : width};
    gale_status status = gale_tensor_create(NULL, n->type_in, 4, dims, &f.picture);
    if (status == GALE_OK && n->control >= 0) status = make_control(&f, control);
    if (status == GALE_OK) *out = f;
    else gale__feed_finish(&f);
    return status;
}

void gale__feed_finish(gale__feed *f)
{
    gale_tensor_destroy(&f->picture);
    gale_tensor_destroy(&f->control);
    gale_tensor_destroy(&f->result);
    *f = (gale__feed){0};
}

static bool fits(const gale__feed *f, const gale_tensor *t, bool result)
{
    row_layout l = row_layout_of(f, result);
    const int64_t *d = gale_tensor_dims(t);
    bool order = l.channels == 1 || f->network->manifest->colours != GALE__COLOURS_BGR;
    return is_plain(&l) && order && gale_tensor_rank(t) == 4 && d[0] == 1 && d[1] == l.channels && d[2] == l.height &&
           d[3] == l.width;
}

gale_status gale__feed_lend(gale__feed *f, gale_tensor *in, gale_tensor *out, bool *lent)
{
    gale_tensor *views[2] = {0};
    *lent = f->batch == 1 && f->network->fixed_batch <= 1 && fits(f, in, false) && fits(f, out, true);
    if (!*lent) return GALE_OK;
    GALE_TRY(gale_tensor_reshape(in, 4, gale_tensor_dims(in), &views[0]));
    gale_status status = gale_tensor_reshape(out, 4, gale_tensor_dims(out), &views[1]);
    gale_tensor_destroy(status == GALE_OK ? &f->picture : &views[0]);
    if (status != GALE_OK) return status;
    gale_tensor_destroy(&f->result);
    f->picture = views[0];
    f->result = views[1];
    return GALE_OK;
}

/* A batch that has more places than tiles is filled up with the last of them. */
static void fill_up(gale__feed *f)
{
    int64_t all = gale_tensor_dims(f->picture)[0];
    size_t tile = gale_tensor_size_bytes(f->picture) / (size_t)all;
    char *data = gale_tensor_data(f->picture);
    for (int64_t b = f->batch; b < all; b++)
        memcpy(data + (size_t)b * tile, data + (size_t)(f->batch - 1) * tile, tile);
}

gale_status gale__feed_try(gale__feed *f, int64_t dims[4])
{
    const gale__network *n = f->network;
    gale_tensor *inputs[2] = {f->picture, f->control};
    gale_model_value in, control = {0}, out;
    GALE_TRY(gale_model_input(n->model, n->picture, &in));
    if (f->control) GALE_TRY(gale_model_input(n->model, n->control, &control));
    GALE_TRY(gale_model_output(n->model, n->result, &out));
    fill_up(f);
    const char *names[2] = {in.name, control.name};
    gale_status status =
        gale_model_run_named(n->model, names, inputs, f->control ? 2 : 1, &out.name, &f->result, 1, GALE_RUN_ON_HOST);
    if (status == GALE_INVALID &&
        f->result) { /* of another shape than last time, or than the one that was lent: see which */
        gale_tensor_destroy(&f->result);
        status = gale_model_run_named(
            n->model, names, inputs, f->control ? 2 : 1, &out.name, &f->result, 1, GALE_RUN_ON_HOST);
    }
    GALE_TRY(status);
    const int64_t *d = gale_tensor_dims(f->result);
    bool last = n->layout == GALE__MANIFEST_LAYOUT_NHWC;
    if (gale_tensor_rank(f->result) != 4 || gale_tensor_type(f->result) != n->type_out)
        return gale__fail(GALE_UNSUPPORTED, "%s: the result is not a picture (rank 4)", n->manifest->name);
    memcpy(dims, (int64_t[4]){d[0], d[last ? 3 : 1], d[last ? 1 : 2], d[last ? 2 : 3]}, 4 * sizeof *dims);
    return GALE_OK;
}

gale_status gale__feed_run(gale__feed *f)
{
    const gale__network *n = f->network;
    int64_t dims[4];
    GALE_TRY(gale__feed_try(f, dims));
    if (dims[0] >= f->batch && dims[1] == n->channels_out && dims[2] == gale__network_gives(n, f->height) &&
        dims[3] == gale__network_gives(n, f->width))
        return GALE_OK;
    return gale__fail(GALE_MISMATCH,
        "%s: %lld x %lld pixels became %lld x %lld, which is not %d times as large; the sides may have to be multiples "
        "of a number (params: multiple)",
        n->manifest->name, (long long)f->width, (long long)f->height, (long long)dims[3], (long long)dims[2], n->scale);
}
