/* Finding out what a network wants. */
#include "jobs/upscale/budget.h"
#include "jobs/upscale/feed.h"
#include <string.h>

enum {
    TRIAL = 64,
    TRIAL_KNOWN = 16 /* where the manifest says which sizes go */,
    TRIAL_LEAST = 36,
    SCALE_MOST = 64,
    MULTIPLE_MOST = 64
};

static bool is_picture_type(gale_type t) { return t == GALE_F32 || t == GALE_F16 || t == GALE_U8; }
static bool is_channels(int64_t d) { return d == 1 || d == 3; }

/* Which of the inputs is the picture, and which the control vector. */
static gale_status find_inputs(gale__network *n)
{
    gale_model_value v;
    n->picture = n->control = -1;
    for (int i = 0; i < gale_model_inputs(n->model); i++) {
        GALE_TRY(gale_model_input(n->model, i, &v));
        bool tensor = v.kind == GALE_OBJECT_TENSOR && is_picture_type(v.type);
        if (tensor && (v.rank == 4 || v.rank < 0) && n->picture < 0) n->picture = i;
        else if (tensor && v.type != GALE_U8 && v.rank >= 0 && v.rank <= 2 && n->control < 0) {
            n->control = i;
            n->control_rank = v.rank;
            n->control_size = !v.rank                  ? 1
                              : v.dims[v.rank - 1] > 0 ? (int)v.dims[v.rank - 1]
                                                       : n->manifest->control_count;
        } else
            return gale__fail(GALE_UNSUPPORTED,
                "%s: input \"%s\" is neither a picture (rank 4, f32, f16 or u8) nor a control vector",
                n->manifest->name, v.name);
    }
    if (n->picture < 0)
        return gale__fail(GALE_UNSUPPORTED, "%s: no input is a picture (rank 4, f32, f16 or u8)", n->manifest->name);
    if (n->control < 0)
        return n->manifest->control_count
                   ? gale__fail(GALE_MISMATCH, "%s: the manifest has %d controls, but the model has none",
                         n->manifest->name, n->manifest->control_count)
                   : GALE_OK;
    if (n->manifest->control_count ? n->control_size == n->manifest->control_count
                                   : n->control_size > 0 && n->control_size <= GALE__CONTROLS_MOST)
        return GALE_OK;
    return gale__fail(GALE_MISMATCH, "%s: the model takes a control vector of %d values, but the manifest has %d",
        n->manifest->name, n->control_size, n->manifest->control_count);
}

/* The first that may be a picture; one that says that it has other channels (features) is that only where there is no
 * other. */
static gale_status find_output(gale__network *n)
{
    gale_model_value v;
    n->result = -1;
    for (int i = 0; i < gale_model_outputs(n->model); i++) {
        GALE_TRY(gale_model_output(n->model, i, &v));
        if (v.kind != GALE_OBJECT_TENSOR || !is_picture_type(v.type) || (v.rank >= 0 && v.rank != 4)) continue;
        int64_t channels = v.rank == 4 && n->layout != GALE__MANIFEST_LAYOUT_UNKNOWN
                               ? v.dims[n->layout == GALE__MANIFEST_LAYOUT_NHWC ? 3 : 1]
                               : 0;
        bool features = channels > 0 && !is_channels(channels);
        if (features && n->result >= 0) continue;
        n->result = i;
        n->type_out = v.type;
        if (!features) return GALE_OK;
    }
    return n->result >= 0
               ? GALE_OK
               : gale__fail(GALE_UNSUPPORTED, "%s: no output is a picture (rank 4, f32, f16 or u8)", n->manifest->name);
}

/* What the declared extents tell.  Where they tell nothing of the layout it stays unknown. */
static gale_status read_extents(gale__network *n)
{
    gale_model_value v;
    GALE_TRY(gale_model_input(n->model, n->picture, &v));
    n->type_in = v.type;
    n->layout = n->manifest->layout;
    if (n->layout == GALE__MANIFEST_LAYOUT_UNKNOWN && v.rank == 4)
        n->layout = is_channels(v.dims[1])   ? GALE__MANIFEST_LAYOUT_NCHW
                    : is_channels(v.dims[3]) ? GALE__MANIFEST_LAYOUT_NHWC
                                             : GALE__MANIFEST_LAYOUT_UNKNOWN;
    n->channels_in = n->manifest->colours == GALE__COLOURS_LUMA ? 1 : 3;
    if (v.rank != 4 || n->layout == GALE__MANIFEST_LAYOUT_UNKNOWN) return GALE_OK;
    bool last = n->layout == GALE__MANIFEST_LAYOUT_NHWC;
    int64_t channels = v.dims[last ? 3 : 1], h = v.dims[last ? 1 : 2], w = v.dims[last ? 2 : 3];
    if (channels > 0 && !is_channels(channels))
        return gale__fail(GALE_UNSUPPORTED, "%s: pictures with %lld channels are neither grey nor RGB",
            n->manifest->name, (long long)channels);
    if (channels > 0) n->channels_in = (int)channels;
    n->fixed_batch = v.dims[0] > 0 ? v.dims[0] : 0;
    n->fixed_height = h > 0 ? h : 0;
    n->fixed_width = w > 0 ? w : 0;
    return GALE_OK;
}

/* Bytes range to 255 if the manifest gives no range, or only one for floats. */
static void widen_bytes(gale__network *n)
{
    for (int k = 0; k < 2; k++)
        if ((k ? n->type_out : n->type_in) == GALE_U8 && n->range[k][1] <= 1) n->range[k][0] = 0, n->range[k][1] = 255;
}

gale_status gale__network_try(const gale__network *n, int64_t width, int64_t height, int64_t dims[4])
{
    gale__feed f = {0};
    float *room = gale__alloc((size_t)width * sizeof *room);
    gale_status status = room ? gale__feed_make(n, 1, width, height, n->manifest->defaults, &f) : GALE_NO_MEMORY;
    for (int64_t at = 0; status == GALE_OK && at < n->channels_in * height; at++) {
        float *row = gale__feed_row(&f, 0, at / height, at % height, room);
        for (int64_t x = 0; x < width; x++) row[x] = 0.25f + 0.5f * (float)((at * width + x) % 61) / 61;
        gale__feed_put(&f, 0, at / height, at % height, row);
    }
    if (status == GALE_OK) status = gale__feed_try(&f, dims);
    gale__feed_finish(&f);
    gale__free(room);
    return status;
}

/* A result that is smaller than a whole scale makes it, by as much for every size: the scale is what a longer side
 * adds. */
static gale_status learn_lost(gale__network *n, const int64_t dims[4], int64_t width, int64_t height)
{
    int64_t more[4], w = n->fixed_width ? width : 2 * width, h = n->fixed_height ? height : 2 * height,
                     grown = w > width ? w - width : h - height;
    n->scale = n->manifest->scale ? n->manifest->scale : (int)((dims[3] + width - 1) / width);
    if (grown && dims[3] < SCALE_MOST * width) {
        GALE_TRY(gale__network_try(n, w, h, more));
        n->scale = (int)((w > width ? more[3] - dims[3] : more[2] - dims[2]) / grown);
        n->lost = (int)((n->scale * w - more[3]) / 2);
        if (more[3] != gale__network_gives(n, w) || more[2] != gale__network_gives(n, h)) n->scale = 0;
    }
    n->lost = (int)((n->scale * width - dims[3]) / 2);
    if (n->scale < 1 || n->scale > SCALE_MOST || n->lost < 0 || dims[3] != gale__network_gives(n, width) ||
        dims[2] != gale__network_gives(n, height))
        return gale__fail(GALE_UNSUPPORTED, "%s: %lld x %lld pixels become %lld x %lld, which is not an integer scale",
            n->manifest->name, (long long)width, (long long)height, (long long)dims[3], (long long)dims[2]);
    n->border = (n->lost + n->scale - 1) / n->scale;
    return GALE_OK;
}

static gale_status learn_scale(gale__network *n, const int64_t dims[4], int64_t width, int64_t height)
{
    if (!is_channels(dims[1]))
        return gale__fail(GALE_UNSUPPORTED, "%s: the result has %lld channels, which is neither grey nor RGB",
            n->manifest->name, (long long)dims[1]);
    n->channels_out = (int)dims[1];
    n->scale = (int)(dims[2] / height);
    n->lost = n->border = 0;
    if (!n->scale || n->scale > SCALE_MOST || dims[2] != n->scale * height || dims[3] != n->scale * width)
        GALE_TRY(learn_lost(n, dims, width, height));
    if (n->manifest->scale && n->manifest->scale != n->scale)
        return gale__fail(GALE_MISMATCH, "%s: the manifest says %dx, but the model scales by %dx", n->manifest->name,
            n->manifest->scale, n->scale);
    return GALE_OK;
}

/* A run of the usual kind first; where the layout is not known, the other one after it. */
static gale_status try_layouts(gale__network *n, int64_t width, int64_t height, int64_t dims[4])
{
    if (n->layout != GALE__MANIFEST_LAYOUT_UNKNOWN) return gale__network_try(n, width, height, dims);
    n->layout = GALE__MANIFEST_LAYOUT_NCHW;
    gale_status status = gale__network_try(n, width, height, dims);
    if (status == GALE_OK && is_channels(dims[1])) return GALE_OK;
    n->layout = GALE__MANIFEST_LAYOUT_NHWC;
    status = gale__network_try(n, width, height, dims);
    if (status != GALE_OK) n->layout = GALE__MANIFEST_LAYOUT_UNKNOWN;
    return status;
}

static gale_status try_side(gale__network *n, int64_t side)
{
    int64_t dims[4], multiple = n->manifest->multiple ? n->manifest->multiple : 1;
    n->proven = (side + multiple - 1) / multiple * multiple;
    int64_t width = n->fixed_width ? n->fixed_width : n->proven, height = n->fixed_height ? n->fixed_height : n->proven;
    gale_status status = try_layouts(n, width, height, dims);
    if (status != GALE_OK)
        return gale__fail_within(
            status, "%s: test run with %lld x %lld pixels", n->manifest->name, (long long)width, (long long)height);
    gale__budget_see(n, width, height, dims);
    GALE_TRY(learn_scale(n, dims, width, height));
    return n->manifest->absent ? gale__network_find_range(n, width, height) : GALE_OK;
}

gale_status gale__network_probe(gale_model *model, const gale__manifest *manifest, int64_t side, gale__network *out)
{
    gale__network n = {.model = model,
        .manifest = manifest,
        .multiple = manifest->multiple,
        .range = {{manifest->low, manifest->high}, {manifest->low_out, manifest->high_out}}};
    int64_t small = manifest->multiple ? TRIAL_KNOWN : TRIAL, first = side > 0 ? side : small;
    GALE_TRY(find_inputs(&n));
    GALE_TRY(read_extents(&n));
    GALE_TRY(find_output(&n));
    widen_bytes(&n);
    gale_status status = try_side(&n, first);
    if (status == GALE_NO_MEMORY && first != small) status = try_side(&n, small);
    bool free = !n.fixed_width || !n.fixed_height, of_size = status == GALE_INVALID || status == GALE_UNSUPPORTED;
    if (of_size && free && manifest->tile && first != manifest->tile && !manifest->multiple)
        status = try_side(&n, manifest->tile);
    if (status == GALE_INVALID && free && !manifest->multiple)
        return gale__fail(status,
            "%s; if sides must be multiples of a number, write it to the manifest (params: multiple)", gale_error());
    GALE_TRY(status);
    if (!free) n.multiple = 1;
    *out = n;
    return GALE_OK;
}

/* A side that is a multiple of m and, but for m, of nothing that is usual. */
static int64_t side_for(const gale__network *n, int64_t m)
{
    int64_t times = m == MULTIPLE_MOST ? 1 : 5;
    while (m * times < TRIAL_LEAST + 2 * n->border)
        times += m == MULTIPLE_MOST ? 1 : times % 6 == 5 ? 2 : 4; /* 5, 7, 11, 13, 17 ... */
    return m * times;
}

/* The smallest power of two that will do; where none does, what was seen to. */
gale_status gale__network_find_multiple(gale__network *n)
{
    int64_t dims[4];
    for (int m = 1; m <= MULTIPLE_MOST && !n->multiple; m *= 2) {
        int64_t side = side_for(n, m), w = n->fixed_width ? n->fixed_width : side,
                h = n->fixed_height ? n->fixed_height : side;
        gale_status status = gale__network_try(n, w, h, dims);
        if (gale__network_is_final(status)) return status;
        if (status == GALE_OK && dims[2] == gale__network_gives(n, h) && dims[3] == gale__network_gives(n, w))
            n->multiple = m;
    }
    if (!n->multiple) n->multiple = (int)n->proven;
    return GALE_OK;
}
