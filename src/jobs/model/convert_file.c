/* A model file into another one, step by step. */
#include "jobs/model/data_picture.h"
#include "jobs/model/convert_int8.h"
#include "jobs/model/model_inputs.h"
#include "onnx/edit/edit.h"
#include "onnx/edit/int8.h"
#include "onnx/import/net.h"
#include <stdio.h>
#include <string.h>

static gale_status pin(gale__onnx *file, gale__pb_model *model, const char *text)
{
    const char *equals = strrchr(text, '=');
    char name[256];
    int64_t value;
    if (!equals || (size_t)(equals - text) >= sizeof name || !gale__text_to_i64(equals + 1, &value))
        return gale__fail(GALE_INVALID, "--pin %s: expected NAME=N", text);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    return gale__edit_pin(file, model, name, value);
}

static gale_status fold(gale__onnx *file, gale__pb_model *model)
{
    gale_device *cpu = NULL;
    GALE_TRY(gale_device_open(&(gale_device_options){.chain = "cpu"}, &cpu));
    gale_status status = gale__edit_fold(file, model, cpu);
    gale_device_close(&cpu);
    return status;
}

/* To the requested opset; for 8 bits to the lowest that supports one scale per channel. */
static gale_status bring_up(const gale_convert_options *o, gale__onnx *file, gale__pb_model *model)
{
    int wanted = o->opset == GALE_OPSET_NEWEST ? GALE__OPSET_NEWEST : o->opset;
    if (o->opset) return gale__edit_opset(file, model, wanted, wanted);
    if (o->precision != GALE_CONVERT_INT8 || gale__edit_opset_of(model) >= GALE__INT8_OPSET) return GALE_OK;
    return gale__edit_opset(file, model, GALE__INT8_OPSET, GALE__OPSET_NEWEST);
}

static gale_status edit(
    const gale_convert_options *o, gale__onnx *file, gale__pb_model *model, gale_convert_result *result)
{
    if (o->extract) GALE_TRY(gale__edit_extract(file, model, o->extract));
    for (int i = 0; i < o->n_frees; i++) GALE_TRY(gale__edit_free(file, model, o->frees[i]));
    for (int i = 0; i < o->n_pins; i++) GALE_TRY(pin(file, model, o->pins[i]));
    GALE_TRY(bring_up(o, file, model));
    GALE_TRY(gale__job_tell(&o->control, "edit", "steps", 1, 3));
    if (o->fold) GALE_TRY(fold(file, model));
    GALE_TRY(gale__job_tell(&o->control, "edit", "steps", 2, 3));
    if (o->precision == GALE_CONVERT_INT8) return gale__convert_int8(o, file, model, result);
    if (o->precision == GALE_CONVERT_F16) return gale__edit_precision(file, model, GALE_F16);
    if (o->precision == GALE_CONVERT_BF16) return gale__edit_precision(file, model, GALE_BF16);
    return GALE_OK;
}

/* "path/my-model.v2.c" to my_model_v2, "default.c" to model_default. */
static void name_of(const char *path, char name[128])
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    char plain[128 - sizeof "model_"];
    snprintf(plain, sizeof plain, "%.*s", dot && dot > base ? (int)(dot - base) : (int)strlen(base), base);
    for (char *p = plain; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) *p = '_';
    snprintf(name, 128, "%s%s", gale__edit_is_c_name(plain) ? "" : "model_", plain);
}

static gale_status write_model(
    const gale_convert_options *o, gale__onnx *file, gale__pb_model *model, const char *output)
{
    char name[128];
    if (!o->emit_c) return gale__onnx_write(file, model, output, o->external);
    name_of(output, name);
    return gale__edit_emit_c(file, model, o->c_name ? o->c_name : name, output);
}

/* Samples that are pictures become numbers as the manifest says. */
static gale_status complete_pixels(const char *path, gale_convert_options *o, gale_convert_result *result)
{
    for (int i = 0; i < o->n_samples; i++)
        if (gale__is_picture(o->samples[i])) return gale__pixels_complete(path, gale__result_arena(result), &o->pixels);
    return GALE_OK;
}

static gale_status convert(
    const char *path, const char *output, const gale_convert_options *options, gale_convert_result *result)
{
    gale__onnx *file = NULL;
    gale_convert_options completed = *options, *o = &completed;
    GALE_TRY(complete_pixels(path, o, result));
    result->path = gale__arena_strdup(gale__result_arena(result), output);
    if (!result->path) return GALE_NO_MEMORY;
    GALE_TRY(gale__job_tell(&o->control, "edit", "steps", 0, 3));
    GALE_TRY(gale__onnx_open(path, GALE__PB_KIND_MODEL, &file));
    gale__pb_model *model = gale__onnx_root(file);
    gale_status status = edit(o, file, model, result);
    if (status != GALE_OK) status = gale__fail_within(status, "%s", path);
    else status = gale__job_tell(&o->control, "edit", "steps", 3, 3);
    if (status == GALE_OK && o->accept && !o->accept(o->user, result))
        status = gale__fail(GALE_CANCELLED, "%s was not written: its losses were not accepted", output);
    if (status == GALE_OK) status = write_model(o, file, model, output);
    gale__onnx_close(&file);
    return status;
}

/* What does not go together. */
static gale_status check_options(const gale_convert_options *o)
{
    bool fits = !o->opset || o->opset == GALE_OPSET_NEWEST || (o->opset >= 13 && o->opset <= GALE__OPSET_NEWEST);
    if (!fits) return gale__fail(GALE_INVALID, "convert: opset %d is outside 13 to %d", o->opset, GALE__OPSET_NEWEST);
    if (o->emit_c && o->external)
        return gale__fail(
            GALE_INVALID, "convert: emit_c and external cannot be combined: a C file contains everything");
    if (o->precision != GALE_CONVERT_INT8 && (o->n_samples || o->n_leave))
        return gale__fail(GALE_INVALID, "convert: samples and leave require int8");
    return (unsigned)o->precision <= GALE_CONVERT_INT8 ? GALE_OK
                                                       : gale__fail(GALE_INVALID, "convert: unknown precision");
}

gale_status gale_model_convert(
    const char *path, const char *output, const gale_convert_options *options, gale_convert_result **out)
{
    GALE__NEED({"path", path}, {"output", output});
    GALE__OPTIONS(options);
    static const gale_convert_options usual = {0};
    const gale_convert_options *o = options ? options : &usual;
    GALE_TRY(check_options(o));
    gale_convert_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? convert(path, output, o, result) : GALE_NO_MEMORY;
    if (status == GALE_OK && out) *out = result;
    else gale__result_destroy(result);
    return status;
}

GALE__RESULT_DESTROY(gale_convert_result)

GALE__RESULT_JSON(gale_convert_result, '{')
{
    gale__json_put_text(j, "path", r->path);
    gale__json_put_i64(j, "weights", r->n_weights);
    gale__json_put_i64(j, "activations", r->n_activations);
    gale__json_put_i64(j, "smoothed", r->n_smoothed);
    gale__json_put_i64(j, "samples", r->n_samples);
    gale__json_open(j, "layers", '[');
    for (size_t i = 0; i < r->n_layers; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "node", r->layers[i].node);
        gale__json_put_f64(j, "relative", r->layers[i].relative);
        if (r->layers[i].result_relative >= 0) {
            gale__json_put_f64(j, "result_relative", r->layers[i].result_relative);
            gale__json_put_f64(j, "added_relative", r->layers[i].added_relative);
        }
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
    gale__json_put_u64(j, "to_leave", r->n_to_leave);
    if (r->loss_if_left > 0) gale__json_put_f64(j, "loss_if_left", r->loss_if_left);
    gale__json_open(j, "losses", '[');
    for (size_t i = 0; i < r->n_losses; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "output", r->losses[i].output);
        gale__json_put_f64(j, "relative", r->losses[i].relative);
        gale__json_put_f64(j, "psnr_db", r->losses[i].psnr_db);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}
