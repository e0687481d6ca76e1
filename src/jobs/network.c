/* Finding out what a network wants, and giving it that. */
#include "jobs/network.h"
#include "base/num.h"
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

/* A sample of the network's own kind. */
static void put_sample(gale_type type, void *to, int64_t at, float v)
{
    if (type == GALE_F32) ((float *)to)[at] = v;
    else if (type == GALE_F16) ((uint16_t *)to)[at] = gale__f32_to_f16(v);
    else ((uint8_t *)to)[at] = (uint8_t)(v > 0 ? v < 255 ? v + 0.5f : 255 : 0);
}

static float get_sample(gale_type type, const void *from, int64_t at)
{
    return type == GALE_F32 ? ((const float *)from)[at] : type == GALE_F16 ? gale__f16_to_f32(((const uint16_t *)from)[at]) : ((const uint8_t *)from)[at];
}

static void range_of(const gale__network *n, gale_type type, float *low, float *span)
{
    bool bytes = type == GALE_U8 && n->manifest->low == 0 && n->manifest->high == 1; /* bytes run to 255 unless something is said */
    *low = (float)n->manifest->low;
    *span = bytes ? 255 : (float)(n->manifest->high - n->manifest->low);
}

/* Where sample (b, c, pixel) of RGB planes lies in the network's order. */
static int64_t place(const gale__network *n, int64_t b, int64_t c, int64_t pixel, int64_t channels, int64_t pixels)
{
    if (n->manifest->colours == GALE__COLOURS_BGR && channels == 3) c = 2 - c;
    return n->layout == GALE__LAYOUT_NHWC ? (b * pixels + pixel) * channels + c : (b * channels + c) * pixels + pixel;
}

/* Whether planes go in and out as they are. */
static bool is_plain(const gale__network *n, gale_type type, int64_t channels, float low, float span)
{
    return type == GALE_F32 && n->layout == GALE__LAYOUT_NCHW && low == 0 && span == 1 && (channels == 1 || n->manifest->colours != GALE__COLOURS_BGR);
}

static void set_dims(const gale__network *n, int64_t batch, int64_t channels, int64_t height, int64_t width, int64_t dims[4])
{
    bool last = n->layout == GALE__LAYOUT_NHWC;
    memcpy(dims, (int64_t[4]){batch, last ? height : channels, last ? width : height, last ? channels : width}, 4 * sizeof *dims);
}

static gale_status make_picture(const gale__network *n, const float *tiles, int64_t batch, int64_t width, int64_t height, gale_tensor **out)
{
    int64_t dims[4], pixels = width * height, channels = n->channels_in, all = n->fixed_batch ? n->fixed_batch : batch;
    float low, span;
    set_dims(n, all, channels, height, width, dims);
    range_of(n, n->type_in, &low, &span);
    GALE_TRY(gale_tensor_create(NULL, n->type_in, 4, dims, out));
    void *data = gale_tensor_data(*out);
    bool plain = is_plain(n, n->type_in, channels, low, span);
    for (int64_t b = 0; b < all; b++) /* a fixed batch is filled up with its last tile */
        for (int64_t c = 0; c < channels; c++) {
            const float *from = tiles + ((b < batch ? b : batch - 1) * channels + c) * pixels;
            if (plain) memcpy((float *)data + (b * channels + c) * pixels, from, (size_t)pixels * sizeof *from);
            else for (int64_t i = 0; i < pixels; i++) put_sample(n->type_in, data, place(n, b, c, i, channels, pixels), low + span * from[i]);
        }
    return GALE_OK;
}

static gale_status make_control(const gale__network *n, const float *control, int64_t batch, gale_tensor **out)
{
    gale_model_value v;
    GALE_TRY(gale_model_input(n->model, n->control, &v));
    int64_t all = n->control_rank == 1 ? 1 : v.dims[0] > 0 ? v.dims[0] : n->fixed_batch ? n->fixed_batch : batch;
    int64_t dims[2] = {n->control_rank == 1 ? n->control_size : all, n->control_size};
    GALE_TRY(gale_tensor_create(NULL, v.type, n->control_rank, dims, out));
    for (int64_t i = 0; i < all * n->control_size; i++) put_sample(v.type, gale_tensor_data(*out), i, control ? control[i % n->control_size] : 0);
    return GALE_OK;
}

/* The model once; the result lies on the host. */
static gale_status run_model(const gale__network *n, const float *tiles, int64_t batch, int64_t width, int64_t height, const float *control, gale_tensor **out)
{
    gale_tensor *inputs[2] = {0}, *result = NULL;
    const char *names[2], *output;
    gale_model_value v;
    int count = 0;
    gale_status status;
    GALE_GO(gale_model_input(n->model, n->picture, &v));
    names[0] = v.name;
    GALE_GO(make_picture(n, tiles, batch, width, height, &inputs[count++]));
    if (n->control >= 0) {
        GALE_GO(gale_model_input(n->model, n->control, &v));
        names[1] = v.name;
        GALE_GO(make_control(n, control, batch, &inputs[count++]));
    }
    GALE_GO(gale_model_output(n->model, n->result, &v));
    output = v.name;
    GALE_GO(gale_model_run_named(n->model, names, inputs, count, &output, &result, 1, true));
    *out = result;
done:
    for (int i = 0; i < 2; i++) gale_tensor_destroy(&inputs[i]);
    return status;
}

/* Extents of a result: batch, channels, height, width, in whatever layout. */
static gale_status read_result(const gale__network *n, const gale_tensor *t, int64_t dims[4])
{
    bool last = n->layout == GALE__LAYOUT_NHWC;
    const int64_t *d = gale_tensor_dims(t);
    if (gale_tensor_rank(t) != 4 || gale_tensor_type(t) != n->type_out) return gale__fail(GALE_UNSUPPORTED, "%s: the result is no picture of rank 4", n->manifest->name);
    memcpy(dims, (int64_t[4]){d[0], d[last ? 3 : 1], d[last ? 1 : 2], d[last ? 2 : 3]}, 4 * sizeof *dims);
    return GALE_OK;
}

gale_status gale__network_try(const gale__network *n, int64_t width, int64_t height, int64_t dims[4])
{
    gale_tensor *t = NULL;
    size_t count = (size_t)(n->channels_in * width * height);
    float *tile = gale__alloc(count * sizeof *tile);
    if (!tile) return GALE_NO_MEMORY;
    for (size_t i = 0; i < count; i++) tile[i] = 0.25f + 0.5f * (float)(i % 61) / 61;
    gale_status status = run_model(n, tile, 1, width, height, n->manifest->defaults, &t);
    if (status == GALE_OK) status = read_result(n, t, dims);
    gale_tensor_destroy(&t);
    gale__free(tile);
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

gale_status gale__network_probe(gale_model *model, const gale__manifest *manifest, gale__network *out)
{
    gale__network n = {.model = model, .manifest = manifest, .multiple = manifest->multiple};
    int64_t dims[4], size = manifest->multiple ? (TRIAL_KNOWN + manifest->multiple - 1) / manifest->multiple * manifest->multiple : TRIAL;
    GALE_TRY(find_inputs(&n));
    GALE_TRY(find_output(&n));
    GALE_TRY(read_extents(&n));
    int64_t width = n.fixed_width ? n.fixed_width : size, height = n.fixed_height ? n.fixed_height : size;
    gale_status status = try_layouts(&n, width, height, dims);
    if (status != GALE_OK) return gale__fail_within(status, "%s: a trial with %lld x %lld pixels", manifest->name, (long long)width, (long long)height);
    GALE_TRY(learn_scale(&n, dims, width, height));
    if (n.fixed_width && n.fixed_height) n.multiple = 1;
    *out = n;
    return GALE_OK;
}

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

gale_status gale__network_run(const gale__network *n, const float *tiles, int64_t batch, int64_t width, int64_t height, const float *control, float *results)
{
    int64_t dims[4], pixels = width * height * n->scale * n->scale, channels = n->channels_out;
    gale_tensor *t = NULL;
    float low, span;
    if (n->fixed_batch && batch > n->fixed_batch) return gale__fail(GALE_INVALID, "%s takes %lld pictures at once, not %lld", n->manifest->name, (long long)n->fixed_batch, (long long)batch);
    GALE_TRY(run_model(n, tiles, batch, width, height, control, &t));
    gale_status status = read_result(n, t, dims);
    if (status == GALE_OK && (dims[0] < batch || dims[1] != channels || dims[2] != height * n->scale || dims[3] != width * n->scale))
        status = gale__fail(GALE_MISMATCH, "%s: %lld x %lld pixels became %lld x %lld, not %d times as many; sides may have to be multiples of something", n->manifest->name, (long long)width, (long long)height,
            (long long)dims[3], (long long)dims[2], n->scale);
    range_of(n, n->type_out, &low, &span);
    const void *data = status == GALE_OK ? gale_tensor_data(t) : NULL;
    bool plain = is_plain(n, n->type_out, channels, low, span);
    if (plain && data) memcpy(results, data, (size_t)(batch * channels * pixels) * sizeof *results);
    for (int64_t b = 0; b < batch && data && !plain; b++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < pixels; i++) results[(b * channels + c) * pixels + i] = (get_sample(n->type_out, data, place(n, b, c, i, channels, pixels)) - low) / span;
    gale_tensor_destroy(&t);
    return status;
}
