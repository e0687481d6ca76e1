/* Finding out what a network wants. */
#include "jobs/feed.h"
#include <string.h>

enum { TRIAL = 64, TRIAL_KNOWN = 16 /* where the manifest says which sizes go */, SCALE_MOST = 64, MULTIPLE_MOST = 64 };

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
        else if (tensor && v.type != GALE_U8 && (v.rank == 1 || v.rank == 2) && n->control < 0) {
            n->control = i;
            n->control_rank = v.rank;
            n->control_size = v.dims[v.rank - 1] > 0 ? (int)v.dims[v.rank - 1] : n->manifest->control_count;
        } else return gale__fail(GALE_UNSUPPORTED, "%s: input \"%s\" is neither a picture (rank 4, f32, f16 or u8) nor a control vector", n->manifest->name, v.name);
    }
    if (n->picture < 0) return gale__fail(GALE_UNSUPPORTED, "%s: no input is a picture (rank 4, f32, f16 or u8)", n->manifest->name);
    if (n->control < 0) return n->manifest->control_count ? gale__fail(GALE_MISMATCH, "%s: the manifest has %d controls, the model takes none", n->manifest->name, n->manifest->control_count) : GALE_OK;
    if (n->manifest->control_count ? n->control_size == n->manifest->control_count : n->control_size > 0 && n->control_size <= GALE__CONTROLS_MOST) return GALE_OK;
    return gale__fail(GALE_MISMATCH, "%s: the model takes a control vector of %d values, and the manifest has %d", n->manifest->name, n->control_size, n->manifest->control_count);
}

static gale_status find_output(gale__network *n)
{
    gale_model_value v;
    for (int i = 0; i < gale_model_outputs(n->model); i++) {
        GALE_TRY(gale_model_output(n->model, i, &v));
        if (v.kind != GALE_OBJECT_TENSOR || !is_picture_type(v.type) || (v.rank >= 0 && v.rank != 4)) continue;
        n->result = i;
        n->type_out = v.type;
        return GALE_OK;
    }
    return gale__fail(GALE_UNSUPPORTED, "%s: no output is a picture (rank 4, f32, f16 or u8)", n->manifest->name);
}

/* What the declared extents tell.  Where they tell nothing of the layout it stays unknown. */
static gale_status read_extents(gale__network *n)
{
    gale_model_value v;
    GALE_TRY(gale_model_input(n->model, n->picture, &v));
    n->type_in = v.type;
    n->layout = n->manifest->layout;
    if (n->layout == GALE__LAYOUT_UNKNOWN && v.rank == 4) n->layout = is_channels(v.dims[1]) ? GALE__LAYOUT_NCHW : is_channels(v.dims[3]) ? GALE__LAYOUT_NHWC : GALE__LAYOUT_UNKNOWN;
    n->channels_in = n->manifest->colours == GALE__COLOURS_LUMA ? 1 : 3;
    if (v.rank != 4 || n->layout == GALE__LAYOUT_UNKNOWN) return GALE_OK;
    bool last = n->layout == GALE__LAYOUT_NHWC;
    int64_t channels = v.dims[last ? 3 : 1], h = v.dims[last ? 1 : 2], w = v.dims[last ? 2 : 3];
    if (channels > 0 && !is_channels(channels)) return gale__fail(GALE_UNSUPPORTED, "%s: a picture of %lld channels is neither grey nor RGB", n->manifest->name, (long long)channels);
    if (channels > 0) n->channels_in = (int)channels;
    n->fixed_batch = v.dims[0] > 0 ? v.dims[0] : 0;
    n->fixed_height = h > 0 ? h : 0;
    n->fixed_width = w > 0 ? w : 0;
    return GALE_OK;
}

/* Bytes run to 255 where nothing is said of them, or what is said of others. */
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

static gale_status learn_scale(gale__network *n, const int64_t dims[4], int64_t width, int64_t height)
{
    if (!is_channels(dims[1])) return gale__fail(GALE_UNSUPPORTED, "%s: the result has %lld channels, which is neither grey nor RGB", n->manifest->name, (long long)dims[1]);
    if (dims[2] < height || dims[2] % height || dims[3] != dims[2] / height * width || dims[2] / height > SCALE_MOST)
        return gale__fail(GALE_UNSUPPORTED, "%s: %lld x %lld pixels become %lld x %lld, which is no whole scale", n->manifest->name, (long long)width, (long long)height, (long long)dims[3], (long long)dims[2]);
    n->channels_out = (int)dims[1];
    n->scale = (int)(dims[2] / height);
    if (n->manifest->scale && n->manifest->scale != n->scale) return gale__fail(GALE_MISMATCH, "%s: the manifest says %dx, the model gives %dx", n->manifest->name, n->manifest->scale, n->scale);
    return GALE_OK;
}

/* A run of the usual kind first; where the layout is not known, the other one after it. */
static gale_status try_layouts(gale__network *n, int64_t width, int64_t height, int64_t dims[4])
{
    if (n->layout != GALE__LAYOUT_UNKNOWN) return gale__network_try(n, width, height, dims);
    n->layout = GALE__LAYOUT_NCHW;
    gale_status status = gale__network_try(n, width, height, dims);
    if (status == GALE_OK && is_channels(dims[1])) return GALE_OK;
    n->layout = GALE__LAYOUT_NHWC;
    return gale__network_try(n, width, height, dims);
}

static gale_status probe(gale_model *model, const gale__manifest *manifest, int64_t size, gale__network *out)
{
    gale__network n = {.model = model, .manifest = manifest, .multiple = manifest->multiple, .range = {{manifest->low, manifest->high}, {manifest->low_out, manifest->high_out}}};
    int64_t dims[4];
    GALE_TRY(find_inputs(&n));
    GALE_TRY(find_output(&n));
    GALE_TRY(read_extents(&n));
    widen_bytes(&n);
    int64_t width = n.fixed_width ? n.fixed_width : size, height = n.fixed_height ? n.fixed_height : size;
    gale_status status = try_layouts(&n, width, height, dims);
    if (status != GALE_OK) return gale__fail_within(status, "%s: a trial with %lld x %lld pixels", manifest->name, (long long)width, (long long)height);
    GALE_TRY(learn_scale(&n, dims, width, height));
    if (n.fixed_width && n.fixed_height) n.multiple = 1;
    if (manifest->absent) GALE_TRY(gale__network_find_range(&n, width, height));
    *out = n;
    return GALE_OK;
}

gale_status gale__network_probe_with(gale_model *model, const gale__manifest *manifest, int64_t side, gale__network *out)
{
    int64_t multiple = manifest->multiple ? manifest->multiple : 1, small = manifest->multiple ? TRIAL_KNOWN : TRIAL;
    gale_status status = side > 0 ? probe(model, manifest, (side + multiple - 1) / multiple * multiple, out) : GALE_NO_MEMORY;
    return status == GALE_NO_MEMORY ? probe(model, manifest, (small + multiple - 1) / multiple * multiple, out) : status;
}

gale_status gale__network_probe(gale_model *model, const gale__manifest *manifest, gale__network *out) { return gale__network_probe_with(model, manifest, 0, out); }

gale_status gale__network_find_multiple(gale__network *n)
{
    int64_t dims[4];
    for (int m = 1; m <= MULTIPLE_MOST && !n->multiple; m *= 2) {
        int64_t w = n->fixed_width ? n->fixed_width : TRIAL + m, h = n->fixed_height ? n->fixed_height : TRIAL + m;
        gale_status status = gale__network_try(n, w, h, dims);
        if (status == GALE_NO_MEMORY || status == GALE_DEVICE_LOST || status == GALE_CANCELLED) return status;
        if (status == GALE_OK && dims[2] == h * n->scale && dims[3] == w * n->scale) n->multiple = m;
    }
    if (n->multiple) return GALE_OK;
    return gale__fail(GALE_UNSUPPORTED, "%s: no multiple up to %d is one that it takes; say it in the manifest (params: multiple)", n->manifest->name, MULTIPLE_MOST);
}
