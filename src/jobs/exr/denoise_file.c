/* Which layers of a file are colours, albedo and normals, and the file written again. */
#include "base/num.h"
#include "device/device.h"
#include "jobs/exr/denoise.h"
#include "jobs/exr/unet.h"
#include <string.h>

typedef struct file_job {
    gale_exr *f;
    const gale_exr_denoise_options *o;
    gale_exr_layer *layers;
    int count;
    const gale_exr_layer *colour, *albedo, *normal;
    int64_t width, height;
    gale__tza weights;
    float *planes, *light; /* [3 or 9][height][width], [3][height][width] */
} file_job;

static const char *last_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* The layer's channel by its last letters, capital or small. */
static const gale_exr_channel *channel(const gale_exr_layer *l, const char *last)
{
    for (int i = 0; i < l->channel_count; i++)
        if (gale__text_equal_nocase(last_of(l->channels[i]->name), last)) return l->channels[i];
    return NULL;
}

/* R, G and B, or X, Y and Z. */
static bool has_three(const gale_exr_layer *l, const char *const names[3])
{
    return channel(l, names[0]) && channel(l, names[1]) && channel(l, names[2]);
}
static const char *const rgb[3] = {"R", "G", "B"}, *const xyz[3] = {"X", "Y", "Z"};

static const gale_exr_layer *find_named(const file_job *j, const char *wanted, const char *const *usual, int n)
{
    for (int k = 0; k < (wanted ? 1 : n); k++)
        for (int i = 0; i < j->count; i++)
            if (gale__text_equal_nocase(last_of(j->layers[i].name), wanted ? wanted : usual[k]) &&
                (has_three(&j->layers[i], rgb) || has_three(&j->layers[i], xyz)))
                return &j->layers[i];
    return NULL;
}

static gale_status find_colour(file_job *j)
{
    const char *wanted = j->o->layer;
    for (int i = 0; i < j->count; i++) {
        const gale_exr_layer *l = &j->layers[i];
        if (!has_three(l, rgb) || (wanted && strcmp(l->name, wanted))) continue;
        if (!j->colour || (!*l->name && *j->colour->name)) j->colour = l;
    }
    if (j->colour) return GALE_OK;
    return gale__fail(GALE_NOT_FOUND, "EXR: no layer%s%s with R, G and B", wanted ? " " : "", wanted ? wanted : "");
}

static void find_guides(file_job *j)
{
    static const char *const albedos[] = {
        "albedo", "denoisingalbedo", "denoise_albedo", "visiblediffuse", "diffusealbedo"};
    static const char *const normals[] = {"normal", "normals", "denoisingnormal", "denoise_normal", "N"};
    if (!j->o->albedo || *j->o->albedo) j->albedo = find_named(j, j->o->albedo, albedos, 5);
    if (!j->o->normal || *j->o->normal) j->normal = find_named(j, j->o->normal, normals, 5);
    if (!j->albedo || !j->normal) j->albedo = j->normal = NULL;
}

static gale_status open_weights(file_job *j)
{
    gale__str path = {0};
    gale__bytes bytes = {0};
    if (!j->o->weights)
        return gale__fail(
            GALE_INVALID, "denoise: missing weights; give a .tza file of Open Image Denoise or its folder");
    gale__str_add(&path, j->o->weights);
    if (gale__folder_exists(j->o->weights)) gale__str_addf(&path, "/rt_hdr%s.tza", j->albedo ? "_alb_nrm" : "");
    gale_status status = gale__str_check(&path);
    if (status == GALE_OK) status = gale__file_read(path.text, (size_t)1 << 30, &bytes);
    if (status == GALE_OK) status = gale__tza_read(bytes.data, bytes.size, &j->weights);
    if (status == GALE_OK && gale__unet_channels(&j->weights) == 9 && !j->albedo)
        status = gale__fail(
            GALE_MISMATCH, "%s: these weights need albedo and normals, which the picture does not have", path.text);
    gale__bytes_finish(&bytes);
    gale__str_finish(&path);
    return status;
}

/* Three channels of a layer into three planes; the extents must be those of the colours. */
static gale_status read_three(file_job *j, const gale_exr_layer *l, float *to)
{
    const char *const *names = has_three(l, rgb) ? rgb : xyz;
    size_t n = (size_t)(j->width * j->height);
    gale_exr_target t[3];
    int64_t w, h;
    for (int i = 0; i < 3; i++) {
        const gale_exr_channel *c = channel(l, names[i]);
        GALE_TRY(gale_exr_channel_size(j->f, l->part, 0, 0, c->name, &w, &h));
        if (w != j->width || h != j->height)
            return gale__fail(GALE_MISMATCH, "EXR: channel %s does not have the size of the colours", c->name);
        t[i] = (gale_exr_target){c->name, GALE_F32, to + (size_t)i * n, 0, 0};
    }
    return gale_exr_read(j->f, l->part, 0, 0, t, 3);
}

static gale_status read_planes(file_job *j)
{
    int channels = gale__unet_channels(&j->weights);
    GALE_TRY(gale_exr_level_size(j->f, j->colour->part, 0, 0, &j->width, &j->height));
    size_t n = (size_t)(j->width * j->height);
    j->planes = gale__calloc(n, (size_t)(channels ? channels : 3) * sizeof *j->planes);
    j->light = gale__calloc(n, 3 * sizeof *j->light);
    if (!j->planes || !j->light) return GALE_NO_MEMORY;
    GALE_TRY(read_three(j, j->colour, j->planes));
    if (channels != 9) return GALE_OK;
    GALE_TRY(read_three(j, j->albedo, j->planes + 3 * n));
    return read_three(j, j->normal, j->planes + 6 * n);
}

/* The plane of the result for a channel, or what the file has; in its own type. */
static gale_status fill_channel(file_job *j, const gale_exr_channel *c, void *data)
{
    size_t n = (size_t)(j->width * j->height);
    for (int k = 0; k < 3; k++) {
        if (channel(j->colour, rgb[k]) != c) continue;
        for (size_t i = 0; i < n; i++)
            gale__store_f64(c->type, (char *)data + i * gale_type_size(c->type), (double)j->light[(size_t)k * n + i]);
        return GALE_OK;
    }
    return gale_exr_read(j->f, j->colour->part, 0, 0, &(gale_exr_target){c->name, c->type, data, 0, 0}, 1);
}

static gale_status write_file(file_job *j, const char *path)
{
    const gale_exr_part *p = gale_exr_part_get(j->f, j->colour->part);
    size_t n = (size_t)(j->width * j->height);
    gale_exr_source *s = gale__calloc((size_t)p->channel_count, sizeof *s);
    gale_status status = s ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < p->channel_count && status == GALE_OK; i++) {
        const gale_exr_channel *c = &p->channels[i];
        void *data = gale__alloc(n * gale_type_size(c->type) + 1);
        s[i] = (gale_exr_source){c->name, c->type, data};
        if (c->x_sampling > 1 || c->y_sampling > 1)
            status = gale__fail(GALE_UNSUPPORTED, "EXR: channel %s is subsampled, which cannot be written", c->name);
        else status = data ? fill_channel(j, c, data) : GALE_NO_MEMORY;
    }
    gale_exr_new_part part = {.data = p->data,
        .display = p->display,
        .compression = j->o->compression,
        .channels = s,
        .channel_count = p->channel_count,
        .like = j->f,
        .like_part = j->colour->part};
    if (status == GALE_OK) status = gale_exr_write(path, &part, 1);
    for (int i = 0; s && i < p->channel_count; i++) gale__free((void *)(uintptr_t)s[i].data);
    gale__free(s);
    return status;
}

gale_status gale_exr_denoise(gale_device *device, gale_exr *f, const gale_exr_denoise_options *options,
    const char *path, gale_exr_denoise_report *report)
{
    GALE__NEED({"device", device}, {"file", f}, {"options", options}, {"path", path});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    file_job j = {.f = f, .o = options};
    gale_exr_denoise_report r = {0};
    gale_status status;
    GALE_GO(gale_exr_layers(f, &j.layers, &j.count));
    GALE_GO(find_colour(&j));
    find_guides(&j);
    GALE_GO(open_weights(&j));
    r.guided = gale__unet_channels(&j.weights) == 9;
    GALE_GO(read_planes(&j));
    GALE_GO(gale__denoise_planes(device, &j.weights, j.planes, j.width, j.height, options, &r, j.light));
    GALE_GO(write_file(&j, path));
    if (report) *report = r;
done:
    gale_exr_layers_free(&j.layers, j.count);
    gale__tza_finish(&j.weights);
    gale__free(j.planes);
    gale__free(j.light);
    return status;
}
