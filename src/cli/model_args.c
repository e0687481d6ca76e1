/* Converts arguments to the options of jobs for models. */
#include "cli/model_args.h"
#include <string.h>

void gale__model_options(const gale__args *a, gale_model_options *out)
{
    const char *precision = gale__args_text(a, "precision");
    *out = (gale_model_options){.allow_nonfinite = gale__args_flag(a, "allow-nonfinite")};
    out->program.batch_invariant = gale__args_flag(a, "batch-invariant");
    out->program.fast = precision && !strcmp(precision, "fast");
    if (precision && !strcmp(precision, "fp16")) out->precision = GALE_PRECISION_F16;
    if (precision && !strcmp(precision, "bf16")) out->precision = GALE_PRECISION_BF16;
    if (gale__args_given(a, "memory-limit"))
        out->program.memory_limit_bytes = (uint64_t)gale__args_int(a, "memory-limit") << 20;
}

void gale__pixel_options(const gale__args *a, gale_pixel_options *out)
{
    const char *layout = gale__args_text(a, "layout"), *range = gale__args_text(a, "range");
    const char *colours = gale__args_text(a, "colours");
    *out = (gale_pixel_options){.mean = gale__args_text(a, "mean"), .std = gale__args_text(a, "std")};
    if (!strcmp(colours, "rgb")) out->colours = GALE_PIXEL_COLOURS_RGB;
    if (!strcmp(colours, "bgr")) out->colours = GALE_PIXEL_COLOURS_BGR;
    if (!strcmp(range, "1")) out->range = GALE_PIXEL_RANGE_ONE;
    if (!strcmp(layout, "nchw")) out->layout = GALE_PIXEL_LAYOUT_NCHW;
    if (!strcmp(layout, "nhwc")) out->layout = GALE_PIXEL_LAYOUT_NHWC;
    if (!strcmp(range, "255")) out->range = GALE_PIXEL_RANGE_BYTES;
    if (!strcmp(range, "-1")) out->range = GALE_PIXEL_RANGE_SIGNED;
}

gale_status gale__args_list(
    const gale__args *a, const char *name, gale__arena *arena, const char *const **list, int *count)
{
    const char **texts = gale__arena_alloc(arena, (a->count + 1) * sizeof *texts);
    if (!texts) return GALE_NO_MEMORY;
    for (*count = 0; (texts[*count] = gale__args_item(a, name, (size_t)*count));) ++*count;
    *list = texts;
    return GALE_OK;
}

gale_status gale__input_options(const gale__args *a, gale__arena *arena, gale_input_options *out)
{
    *out = (gale_input_options){.random = gale__args_flag(a, "random"), .seed = (uint64_t)gale__args_int(a, "seed")};
    gale__pixel_options(a, &out->pixels);
    GALE_TRY(gale__args_list(a, "input", arena, &out->files, &out->n_files));
    GALE_TRY(gale__args_list(a, "dim", arena, &out->dims, &out->n_dims));
    return gale__args_list(a, "shape", arena, &out->shapes, &out->n_shapes);
}

gale_status gale__model_job_options(const gale__args *a, gale__arena *arena, gale_model_job_options *out)
{
    *out = (gale_model_job_options){0};
    gale__model_options(a, &out->model);
    return gale__input_options(a, arena, &out->inputs);
}
