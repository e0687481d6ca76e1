/* The public face of upscaling: a model, its manifest and what was found out about it, held together.  Where a device
 * cannot do the work, not even in the smallest tiles, all of it goes to the next one of the chain that the device was
 * opened by. */
#include "device/device.h"
#include "base/limits.h"
#include "jobs/upscale/cleaning.h"
#include "jobs/upscale/embedded.h"
#include "jobs/upscale/upscale.h"
#include "onnx/run/model_place.h"
#include <stdio.h>
#include <string.h>

struct gale_upscaler {
    gale_device *device, *own; /* own: opened here, where the caller's failed */
    double predicted_us;       /* of a tile of predicted_side on the device, where it was chosen by that; else -1 */
    int64_t predicted_side;
    bool automatic;         /* pictures are examined, and cleaned where they need it */
    gale_upscaler *cleaner; /* the network for that, once it is needed; NULL: not yet */
    gale_model *model;
    gale__manifest manifest;
    bool has_manifest;
    gale__network network;
    const char *precision;
    float controls[GALE__CONTROLS_MOST];
    char *path;       /* where the model comes from: a file, */
    const void *data; /* or memory */
    size_t size;
    gale_model_options options;
};

void gale_upscaler_close(gale_upscaler **upscaler)
{
    gale_upscaler *u = upscaler ? *upscaler : NULL;
    if (!u) return;
    gale_upscaler_close(&u->cleaner);
    gale_model_close(&u->model);
    gale_device_close(&u->own);
    if (u->has_manifest) gale__manifest_finish(&u->manifest);
    gale__free(u->path);
    gale__free(u);
    *upscaler = NULL;
}

static const char *precision_of(const gale_model_options *o, gale_type type)
{
    gale_precision precision = !o                     ? GALE_PRECISION_AS_IT_IS
                               : o->program.precision ? o->program.precision
                                                      : o->precision;
    if (precision != GALE_PRECISION_AS_IT_IS) return precision == GALE_PRECISION_F16 ? "fp16" : "bf16";
    return type == GALE_F16 ? "fp16" : o && o->program.fast ? "fast" : "fp32";
}

/* A GPU tries a whole tile, whose plan is the one that the work needs; where a tile takes long, less must do. */
static int64_t trial_side(const gale_upscaler *u)
{
    const gale_device_info *info = gale_device_get_info(u->device);
    return info->caps.software || info->caps.host_functions ? 0 : u->manifest.tile;
}

/* The model on the device as it is now, and what it wants. */
static gale_status load_model(gale_upscaler *u)
{
    gale_status status = u->path ? gale_model_open(u->path, u->device, &u->options, &u->model)
                                 : gale_model_from_memory(u->data, u->size, 0, u->device, &u->options, &u->model);
    if (status == GALE_FORMAT && u->path) return gale__fail(status, "%s; a network must be an ONNX file", gale_error());
    GALE_TRY(status);
    return gale__network_probe(u->model, &u->manifest, trial_side(u), &u->network);
}

/* Whether another device may do what this one cannot. */
static bool is_of_device(gale_status status)
{
    return status == GALE_NO_MEMORY || status == GALE_UNSUPPORTED || status == GALE_BUILD ||
           status == GALE_DEVICE_LOST || status == GALE_TIMEOUT;
}

static void say_step(const gale_upscaler *u, const char *why)
{
    gale__log(GALE__WARN, "%s; falling back to %s", why, gale_device_get_info(u->device)->backend);
}

/* After a failure: the network on the next device of its chain that takes it, and a line about each step.  What is not
 * supported may be so everywhere: then the line waits until a device has taken it. */
static gale_status step_down(gale_upscaler *u, gale_status status)
{
    char why[1024];
    while (is_of_device(status)) {
        gale_device *next = NULL;
        bool wait = status == GALE_UNSUPPORTED;
        snprintf(why, sizeof why, "%s", *gale_error() ? gale_error() : gale_status_text(status));
        GALE_TRY(gale__device_next(u->device, status, &next));
        gale_upscaler_close(&u->cleaner); /* it may be on the same device */
        gale_model_close(&u->model);
        gale_device_close(&u->own);
        u->device = u->own = next;
        u->predicted_us = -1;
        if (!wait) say_step(u, why);
        status = load_model(u);
        if (wait && status == GALE_OK) say_step(u, why);
    }
    return status;
}

/* A tile's side for the prediction: that of the manifest, else a usual one. */
static int64_t side_of(const gale_upscaler *u) { return u->manifest.tile > 0 ? u->manifest.tile : 256; }

/* Loads the model on the device, or, where the CPU may take its place, on that of the two which a tile is predicted to
 * be done on first.  The CPU plans for both, and shows what the network takes. */
static gale_status load_placed(gale_upscaler *u)
{
    gale_device *devices[2] = {u->device, gale__place_other(u->device)};
    int chosen = 0;
    u->predicted_us = -1;
    if (!devices[1]) return load_model(u);
    u->device = devices[1];
    u->predicted_side = side_of(u);
    gale_status status = load_model(u);
    if (status == GALE_OK)
        status = gale__network_place(&u->network, u->predicted_side, devices, 2, &chosen, &u->predicted_us);
    if (status == GALE_OK && chosen == 1) return GALE_OK;
    gale_model_close(&u->model);
    u->device = devices[0];
    return status == GALE_NO_MEMORY ? status : load_model(u);
}

/* The outcome of the choice: the time of a tile of the predicted size, by that of the tiles that ran. */
static void note_outcome(const gale_upscaler *u, const gale_upscale_report *r)
{
    double pixels = (double)(r->tiles * r->tile_width * r->tile_height);
    double side = (double)u->predicted_side;
    if (pixels > 0 && u->predicted_us > 0)
        gale__place_note(u->device, "a tile", u->predicted_us, r->network_seconds * 1e6 / pixels * side * side);
}

/* Controls that no manifest speaks of have numbers alone, and are 0. */
static gale_status take_controls(gale_upscaler *u)
{
    gale__manifest *m = &u->manifest;
    int count = u->network.control_size;
    if (!m->control_count && count) {
        if (!(m->defaults = gale__arena_alloc(&m->arena, (size_t)count * sizeof *m->defaults))) return GALE_NO_MEMORY;
        m->control_count = count;
    }
    return gale__manifest_set_controls(m, NULL, 0, u->controls);
}

/* With manifest and source in place: loads the model and looks at it, or lets go of all. */
static gale_status finish_opening(
    gale_upscaler *u, const gale_model_options *options, gale_status status, gale_upscaler **out)
{
    if (options) u->options = *options;
    u->has_manifest = status == GALE_OK;
    if (u->has_manifest && (u->manifest.n_mean || u->manifest.n_std))
        gale__log(GALE__WARN, "%s: mean and std of the manifest are ignored: gale upscale knows only a range",
            u->manifest.name);
    if (status == GALE_OK) {
        status = load_placed(u);
        if (status != GALE_OK) status = step_down(u, status);
    }
    if (status == GALE_OK) status = take_controls(u);
    u->precision = precision_of(options, u->network.type_in);
    if (status == GALE_OK) *out = u;
    else gale_upscaler_close(&u);
    return status;
}

gale_status gale_upscaler_open(
    const char *model_path, gale_device *device, const gale_model_options *options, gale_upscaler **out)
{
    GALE__NEED({"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    const gale__embedded *inside = gale__embedded_find(model_path ? model_path : GALE__EMBEDDED_USUAL);
    if (inside) {
        GALE_TRY(gale_upscaler_from_memory(inside->data, inside->size, inside->manifest, device, options, out));
        (*out)->automatic = model_path && !strcmp(model_path, GALE__EMBEDDED_AUTO);
        return GALE_OK;
    }
    gale_upscaler *u = gale__calloc(1, sizeof *u);
    if (!u) return GALE_NO_MEMORY;
    u->device = device;
    u->path = gale__strdup(model_path);
    return finish_opening(u, options, u->path ? gale__manifest_read(model_path, &u->manifest) : GALE_NO_MEMORY, out);
}

gale_status gale_upscaler_from_memory(const void *data, size_t size, const char *manifest, gale_device *device,
    const gale_model_options *options, gale_upscaler **out)
{
    GALE__NEED({"data", data}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    gale_upscaler *u = gale__calloc(1, sizeof *u);
    if (!u) return GALE_NO_MEMORY;
    u->device = device;
    u->data = data;
    u->size = size;
    return finish_opening(u, options,
        gale__manifest_parse(manifest ? manifest : "{}", manifest ? strlen(manifest) : 2, "model", &u->manifest), out);
}

const gale_device *gale_upscaler_device(const gale_upscaler *u)
{
    if (!u) return gale__lack(__func__, "upscaler"), NULL;
    return u->device;
}

const gale_model *gale__upscaler_model(const gale_upscaler *u) { return u->model; }
const gale__manifest *gale__upscaler_manifest(const gale_upscaler *u) { return &u->manifest; }
const gale__network *gale__upscaler_network(const gale_upscaler *u) { return &u->network; }

void gale_upscaler_get_info(const gale_upscaler *u, gale_upscaler_info *out)
{
    if (GALE__LACKS({"upscaler", u}, {"out", out})) return;
    const gale__manifest *m = &u->manifest;
    *out = (gale_upscaler_info){m->name, m->description, m->source, u->network.scale, m->tile, m->overlap,
        u->network.control_size, u->precision};
}

bool gale_upscaler_control(
    const gale_upscaler *u, int index, const char **name, const char **description, int *place, float *value)
{
    if (!u) return gale__lack(__func__, "upscaler"), false;
    if (index < 0 || index >= u->manifest.named_count) return false;
    const gale__manifest_control *c = &u->manifest.controls[index];
    if (name) *name = c->name;
    if (description) *description = c->description;
    if (place) *place = c->index;
    if (value) *value = u->controls[c->index];
    return true;
}

gale_status gale_upscaler_set(gale_upscaler *u, const char *setting)
{
    GALE__NEED({"upscaler", u}, {"setting", setting});
    GALE__WITHIN(u->device->context);
    float before[GALE__CONTROLS_MOST];
    memcpy(before, u->controls, sizeof before);
    gale_status status = gale__manifest_set_control(&u->manifest, setting, u->controls);
    if (status != GALE_OK) memcpy(u->controls, before, sizeof before);
    return status;
}

/* The controls for a picture: one named jpeg_quality is told that of its file, unless the caller has set it. */
static void controls_for(const gale_upscaler *u, const gale_picture *in, float *out)
{
    memcpy(out, u->controls, sizeof u->controls);
    for (int i = 0; i < u->manifest.named_count; i++) {
        const gale__manifest_control *c = &u->manifest.controls[i];
        if (!strcmp(c->name, "jpeg_quality") && out[c->index] == 0)
            out[c->index] = gale__cleaning_quality(in->jpeg_quality);
    }
}

static gale_status run(gale_upscaler *u, const gale_picture *in, const gale_upscale_options *options,
    gale_upscale_report *report, gale_picture **out)
{
    float controls[GALE__CONTROLS_MOST];
    controls_for(u, in, controls);
    gale_status status =
        u->model ? GALE_OK
                 : load_model(
                       u); /* it is gone where a device before the last of the chain had failed, and the last as well */
    for (;;) {
        if (status == GALE_OK) status = gale__upscale(&u->network, u->device, in, controls, options, report, out);
        if (status == GALE_OK || !is_of_device(status)) return status;
        GALE_TRY(step_down(u, status));
        status = GALE_OK;
    }
}

static bool is_same_size(const gale_picture *in, const gale_upscale_options *o)
{
    return (o->width == in->width || (!o->width && o->height)) && (o->height == in->height || (!o->height && o->width));
}

gale_status gale__upscaler_decide(
    const gale_upscaler *u, const gale_picture *in, gale_upscale_options *options, gale_upscale_report *report)
{
    if (!(options->clean >= 0 && options->clean <= 1) && options->clean != GALE_CLEAN_NONE)
        return gale__fail(GALE_INVALID, "gale_upscale: clean %g is not in 0..1", options->clean);
    if (options->clean != 0 || !u->automatic) return GALE_OK;
    GALE_TRY(gale_picture_examine(in, &report->found));
    report->examined = true;
    options->clean = gale__cleaning_is_needed(&report->found) || is_same_size(in, options) ? 1 : GALE_CLEAN_NONE;
    return GALE_OK;
}

/* The cleaned picture as floats, so that nothing is rounded on the way. */
static gale_status clean(gale_upscaler *u, const gale_picture *in, const gale_upscale_options *options,
    gale_upscale_report *report, gale_picture **out)
{
    gale_picture *before = NULL, *after = NULL;
    gale_upscale_options o = *options;
    gale_upscale_report ran = {0};
    gale_status status;
    o.width = in->width;
    o.height = in->height;
    o.no_check = true; /* what is nearly of one colour may become so */
    if (!u->cleaner) GALE_GO(gale_upscaler_open(GALE__EMBEDDED_CLEAN, u->device, &u->options, &u->cleaner));
    GALE_GO(gale__cleaning_begin(in, &before));
    GALE_GO(run(u->cleaner, before, &o, &ran, &after));
    gale__upscale_report_add(&ran, report);
    gale__cleaning_blend(before, options->clean, after);
    report->cleaned = options->clean;
    *out = after;
    after = NULL;
done:
    gale_picture_destroy(&before);
    gale_picture_destroy(&after);
    return status;
}

/* Cleans the picture first where it is asked for or needed. */
static gale_status upscale(gale_upscaler *u, const gale_picture *in, const gale_upscale_options *options,
    gale_upscale_report *report, gale_picture **out)
{
    gale_upscale_options o = options ? *options : (gale_upscale_options){0};
    gale_upscale_report first = {0}, second = {0};
    gale_picture *cleaned = NULL, *large = NULL, *made = NULL;
    gale_status status;
    GALE_GO(gale__upscaler_decide(u, in, &o, &first));
    if (o.clean > 0) GALE_GO(clean(u, in, &o, &first, &cleaned));
    bool enlarges = !u->automatic || !is_same_size(in, &o);
    if (enlarges) {
        GALE_GO(run(u, cleaned ? cleaned : in, &o, &second, &large));
        note_outcome(u, &second);
        gale__upscale_report_add(&second, &first);
    }
    if (large && !cleaned) made = large, large = NULL;
    else GALE_GO(gale__cleaning_end(in, large ? large : cleaned ? cleaned : in, &made));
    if (report) *report = first;
    *out = made;
done:
    gale_picture_destroy(&cleaned);
    gale_picture_destroy(&large);
    return status;
}

gale_status gale_upscale(gale_upscaler *u, const gale_picture *in, const gale_upscale_options *options,
    gale_upscale_report *report, gale_picture **out)
{
    gale__limits limits = {0};
    GALE__NEED({"upscaler", u}, {"in", in}, {"out", out});
    GALE_TRY(gale__picture_check(in));
    GALE__OPTIONS(options);
    GALE__WITHIN(u->device->context);
    if (options) limits = (gale__limits){.cancel = options->cancel, .deadline_ns = options->deadline_ns};
    gale__limits_enter(&limits);
    gale_status status = upscale(u, in, options, report, out);
    gale__limits_leave(&limits);
    return status;
}
