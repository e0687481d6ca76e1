/* From arguments to an encoder. */
#include "cli/encoder_args.h"
#include "base/env.h"
#include <string.h>

static gale_pooling pooling_of(const char *name)
{
    for (int i = 0; i < GALE_POOLING_COUNT; i++)
        if (!strcmp(name, gale_pooling_name((gale_pooling)i))) return (gale_pooling)i;
    return GALE_POOLING_AUTO;
}

static const struct preset {
    const char *name, *chain, *level;
} presets[] = {
    {"dev", "cpu", "low"},
    {"standard", "cuda,cpu", "medium"},
    {"high-value", "tensorrt,cpu", "high"},
    {"high-throughput", "tensorrt,cpu", "low"},
    {"edge", "cpu", "low"},
};

static const struct preset *preset_of(const gale__args *a)
{
    const char *name = gale__args_text(a, "preset");
    for (size_t i = 0; name && i < sizeof presets / sizeof *presets; i++)
        if (!strcmp(name, presets[i].name)) return &presets[i];
    return NULL;
}

/* --level has set the variable; a preset's counts where neither is given. */
static const char *level_of(const gale__args *a)
{
    const char *level = gale__env_get(GALE__ENV_VECTOR_LEVEL);
    return *level ? level : preset_of(a) ? preset_of(a)->level : "";
}

bool gale__encoder_given(const gale__args *a) { return gale__args_text(a, "model") || *level_of(a); }

gale_status gale__encoder_device(const gale__args *a, gale_device **out)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    if (preset_of(a) && !*gale__env_get(GALE__ENV_PROVIDER)) options.chain = preset_of(a)->chain;
    return gale_device_open(&options, out);
}

gale_status gale__encoder_open(const gale__args *a, gale_device *device, gale_embedder **out)
{
    const char *model = gale__args_text(a, "model");
    char *found = NULL;
    gale_embedder_options o = {.pooling = pooling_of(gale__args_text(a, "pooling")),
        .no_normalize = gale__args_flag(a, "no-normalize"),
        .dims = gale__args_int(a, "dims"),
        .max_length = gale__args_int(a, "max-length"),
        .prompt = gale__args_text(a, "prompt"),
        .prompt_name = gale__args_text(a, "prompt-name"),
        .file = gale__args_text(a, "model-file")};
    if (!gale__encoder_given(a)) return gale__fail(GALE_INVALID, "missing option: --model FOLDER or NAME");
    if (!model) GALE_TRY(gale_encoder_find_level(level_of(a), &found));
    gale__model_options(a, &o.model);
    gale_status status = gale_embedder_open(model ? model : found, device, &o, out);
    gale_free(found);
    return status;
}
