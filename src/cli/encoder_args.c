/* From arguments to an encoder. */
#include "cli/encoder_args.h"
#include <string.h>

static gale_pooling pooling_of(const char *name)
{
    for (int i = 0; i < GALE_POOLING_COUNT; i++)
        if (!strcmp(name, gale_pooling_name((gale_pooling)i))) return (gale_pooling)i;
    return GALE_POOLING_AUTO;
}

gale_status gale__encoder_open(const gale__args *a, gale_device *device, gale_embedder **out)
{
    const char *model = gale__args_text(a, "model");
    gale_embedder_options o = {.pooling = pooling_of(gale__args_text(a, "pooling")),
        .no_normalize = gale__args_flag(a, "no-normalize"),
        .dims = gale__args_int(a, "dims"),
        .max_length = gale__args_int(a, "max-length"),
        .prompt = gale__args_text(a, "prompt"),
        .prompt_name = gale__args_text(a, "prompt-name"),
        .file = gale__args_text(a, "model-file")};
    if (!model) return gale__fail(GALE_INVALID, "--model is missing: the folder of an encoder, or its name");
    gale__model_options(a, &o.model);
    return gale_embedder_open(model, device, &o, out);
}
