/* Pictures to tensors and back: layout from the shape, pixels scaled and normalised according to the options, and the
 * inverse for outputs. */
#include "jobs/model/data_picture.h"
#include "base/error.h"
#include "base/num.h"
#include "gale/picture.h"
#include "onnx/run/object.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES_MOST = 256 };

bool gale__is_picture(const char *path)
{
    const char *dot = strrchr(path, '.');
    const gale_picture_format *f;
    for (int i = 0; dot && (f = gale_picture_format_get(i)); i++) {
        size_t n = strlen(dot + 1);
        for (const char *at = f->extensions; at && *at; at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' '))
            if (strcspn(at, " ") == n && !strncmp(at, dot + 1, n)) return true;
    }
    return false;
}

typedef struct form {
    bool last, swapped; /* channels are the last axis; are blue, green, red */
    int channels;
    double scale, shift, mean[4], std[4];
} form; /* number = ((pixel - mean) / std) * scale + shift */

/* Numbers by channel; *count: how many were given, of which one is for all. */
static gale_status read_list(const char *name, const char *list, double *out, int *count)
{
    const char *text = list;
    *count = 0;
    for (int i = 0; text && i < 4; i++) {
        char *end;
        out[i] = strtod(text, &end);
        if (end == text || (*end && *end != ','))
            return gale__fail(
                GALE_INVALID, "--%s: '%s' is not a list of numbers such as 0.485,0.456,0.406", name, list);
        *count = i + 1;
        if (!*end) {
            for (int k = i + 1; k < 4; k++) out[k] = out[i]; /* one number for all */
            return GALE_OK;
        }
        text = end + 1;
    }
    return GALE_OK;
}

static bool is_channels(int64_t n) { return n == 1 || n == 3 || n == 4; }

/* A mask that a network makes of a normalised picture is not normalised itself, which its channels show. */
static gale_status read_normals(const gale_pixel_options *o, const char *name, bool output, form *f)
{
    int means, stds;
    GALE_TRY(read_list("mean", o->mean, f->mean, &means));
    GALE_TRY(read_list("std", o->std, f->std, &stds));
    bool fit = (means <= 1 || means == f->channels) && (stds <= 1 || stds == f->channels);
    if (!fit && !output && f->channels != 4)
        return gale__fail(GALE_INVALID, "%s has %d channels, but mean and std have %d and %d numbers", name,
            f->channels, means, stds);
    for (int i = 0; i < 4 && !fit; i++) {
        if (output || i == 3) f->mean[i] = 0, f->std[i] = 1;
    }
    return GALE_OK;
}

static gale_status find_form(
    const gale_pixel_options *o, int rank, const int64_t *dims, const char *name, bool output, form *f)
{
    bool find = o->layout == GALE_PIXEL_LAYOUT_AUTO;
    *f = (form){.scale = 1, .std = {1, 1, 1, 1}};
    if (rank != 4 && rank != 3)
        return gale__fail(GALE_INVALID, "%s has rank %d; a picture needs 4 axes, or 3 without the batch", name, rank);
    int first = rank - 3, last = rank - 1;
    f->last = o->layout == GALE_PIXEL_LAYOUT_NHWC || (find && !is_channels(dims[first]) && is_channels(dims[last]));
    int64_t channels = dims[f->last ? last : first];
    f->channels = is_channels(channels) ? (int)channels : 3;
    if (channels >= 0 && !is_channels(channels))
        return gale__fail(GALE_INVALID, "%s has %lld channels; a picture needs 1, 3 or 4 (--layout sets the axis)",
            name, (long long)channels);
    if (o->range == GALE_PIXEL_RANGE_BYTES) f->scale = 255;
    if (o->range == GALE_PIXEL_RANGE_SIGNED) f->scale = 2, f->shift = -1;
    f->swapped = o->colours == GALE_PIXEL_COLOURS_BGR && f->channels >= 3;
    return read_normals(o, name, output, f);
}

/* The channel of a picture that is the model's channel c. */
static int of_picture(const form *f, int c) { return f->swapped && c < 3 ? 2 - c : c; }

static size_t place(const form *f, const gale_picture *p, int64_t pixel, int channel)
{
    return f->last ? (size_t)(pixel * f->channels + channel) : (size_t)(channel * p->width * p->height + pixel);
}

/* To the extents that the model fixes. */
static gale_status fit(const char *path, const gale_model_value *want, bool last, gale_picture **p)
{
    const int64_t *sides = want->dims + (want->rank - 3) + !last;
    int64_t height = sides[0] > 0 ? sides[0] : (*p)->height, width = sides[1] > 0 ? sides[1] : (*p)->width;
    if (height != (*p)->height || width != (*p)->width)
        gale__log(GALE__INFO, "%s: resized from %lld x %lld to %lld x %lld, the size of input %s", path,
            (long long)(*p)->width, (long long)(*p)->height, (long long)width, (long long)height, want->name);
    return gale__picture_resize(p, width, height);
}

gale_status gale__picture_to_input(
    const char *path, const gale_model_value *want, const gale_pixel_options *options, gale_object **out)
{
    gale_picture *read = NULL, *p = NULL;
    gale_tensor *t = NULL;
    form f;
    gale_status status;
    GALE_TRY(find_form(options, want->rank, want->dims, want->name, false, &f));
    GALE_GO(gale_picture_read(path, NULL, &read));
    GALE_GO(gale_picture_convert(read, GALE_F32, f.channels, &p));
    GALE_GO(fit(path, want, f.last, &p));
    int64_t tall[4] = {1, p->height, p->width, f.channels}, planes[4] = {1, f.channels, p->height, p->width};
    GALE_GO(gale_tensor_create(NULL, want->type, want->rank, (f.last ? tall : planes) + (4 - want->rank), &t));
    size_t size = gale_type_size(want->type);
    char *data = gale_tensor_data(t);
    for (int64_t i = 0; i < p->width * p->height; i++)
        for (int c = 0; c < f.channels; c++) {
            double v = (((const float *)p->data)[i * f.channels + of_picture(&f, c)] - f.mean[c]) / f.std[c] * f.scale +
                       f.shift;
            gale__store_f64(want->type, data + place(&f, p, i, c) * size,
                gale__type_is_float(want->type) ? v : v * (f.scale == 1 ? 255 : 1) + 0.5);
        }
    status = gale__onnx_object_take(&t, out);
done:
    gale_picture_destroy(&read);
    gale_picture_destroy(&p);
    gale_tensor_destroy(&t);
    return status;
}

bool gale__picture_is_output(const gale_object *value)
{
    gale_tensor *t = gale_object_get_kind(value) == GALE_OBJECT_TENSOR ? gale_object_get_tensor(value) : NULL;
    int rank = t ? gale_tensor_rank(t) : 0;
    return rank == 3 || (rank == 4 && gale_tensor_dims(t)[0] == 1);
}

/* Classes: of [n, height, width], or with n last, the number of the largest, 0 to 1. */
static gale_status take_largest(const gale_tensor *tensor, bool last, gale_picture **out)
{
    gale_tensor *t = (gale_tensor *)tensor;
    const int64_t *dims = gale_tensor_dims(t) + gale_tensor_rank(t) - 3;
    int64_t n = dims[last ? 2 : 0], height = dims[last ? 0 : 1], width = dims[last ? 1 : 2];
    gale_type type = gale_tensor_type(t);
    const char *data = gale_tensor_data(t);
    GALE_TRY(gale_picture_create(width, height, 1, GALE_F32, out));
    for (int64_t i = 0; i < width * height; i++) {
        int64_t best = 0;
        double most = -INFINITY;
        for (int64_t c = 0; c < n; c++) {
            size_t at = (size_t)(last ? i * n + c : c * width * height + i);
            double v = gale__load_f64(type, data + at * gale_type_size(type));
            if (v > most) most = v, best = c;
        }
        ((float *)(*out)->data)[i] = (float)best / (float)(n - 1);
    }
    return GALE_OK;
}

/* Numbers to pixels of 0 to 1. */
static gale_status take_pixels(gale_tensor *t, const form *f, gale_picture **out)
{
    const int64_t *sides = gale_tensor_dims(t) + (gale_tensor_rank(t) - 3) + !f->last;
    gale_type type = gale_tensor_type(t);
    size_t size = gale_type_size(type);
    const char *data = gale_tensor_data(t);
    double whole = gale__type_is_float(type) || f->scale != 1 ? 1 : 255;
    GALE_TRY(gale_picture_create(sides[1], sides[0], f->channels, GALE_F32, out));
    gale_picture *p = *out;
    for (int64_t i = 0; i < p->width * p->height; i++)
        for (int c = 0; c < f->channels; c++) {
            double v = gale__load_f64(type, data + place(f, p, i, c) * size) / whole;
            v = (v - f->shift) / f->scale * f->std[c] + f->mean[c];
            ((float *)p->data)[i * f->channels + of_picture(f, c)] = (float)(v < 0 ? 0 : v > 1 ? 1 : v);
        }
    return GALE_OK;
}

gale_status gale__picture_from_output(
    const char *path, const gale_object *value, const gale_pixel_options *options, int64_t width, int64_t height)
{
    gale_tensor *t = gale_object_get_tensor(value);
    gale_picture *p = NULL, *bytes = NULL;
    form f;
    gale_status status;
    if (gale_object_get_kind(value) != GALE_OBJECT_TENSOR)
        return gale__fail(GALE_INVALID, "%s: only a tensor can be written as a picture", path);
    int rank = gale_tensor_rank(t);
    const int64_t *dims = gale_tensor_dims(t), *three = dims + rank - 3;
    if (rank == 4 && dims[0] != 1)
        return gale__fail(GALE_INVALID, "%s: a batch of %lld is not one picture", path, (long long)dims[0]);
    bool last = options->layout == GALE_PIXEL_LAYOUT_NHWC;
    bool classes = gale__picture_is_output(value) && three[last ? 2 : 0] > 1 && !is_channels(three[0]) &&
                   !is_channels(three[2]) && three[last ? 2 : 0] <= CLASSES_MOST;
    if (classes) GALE_GO(take_largest(t, last, &p));
    else {
        GALE_GO(find_form(options, rank, dims, path, true, &f));
        GALE_GO(take_pixels(t, &f, &p));
    }
    if (width && height) GALE_GO(gale__picture_resize(&p, width, height));
    GALE_GO(gale_picture_convert(p, GALE_U8, p->channels, &bytes));
    status = gale_picture_write(bytes, path, NULL);
done:
    gale_picture_destroy(&p);
    gale_picture_destroy(&bytes);
    return status;
}
