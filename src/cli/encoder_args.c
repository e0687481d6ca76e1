/* From arguments to an encoder. */
#include "cli/encoder_args.h"
#include "base/env.h"
#include "base/file.h"
#include "base/str.h"
#include "jobs/models/manifest.h"
#include <stdio.h>
#include <string.h>

gale_status gale__open_tokenizer(const char *name, gale_tokenizer **out)
{
    gale__str path = {0};
    gale_status status;
    if (gale__file_exists(name) || gale__folder_exists(name)) return gale_tokenizer_open(name, out);
    GALE_TRY(gale__models_folder(&path));
    gale__str_addf(&path, "/%s", name);
    GALE_GO(gale__str_check(&path));
    if (gale__file_exists(path.text) || gale__folder_exists(path.text)) status = gale_tokenizer_open(path.text, out);
    else
        status = gale__fail(GALE_NOT_FOUND, "tokenizer \"%s\" not found: neither a file or folder nor %s (GALE_MODELS)",
            name, path.text);
done:
    gale__str_finish(&path);
    return status;
}

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
    gale_device_options options = {.place = true};
    if (preset_of(a) && !*gale__env_get(GALE__ENV_PROVIDER)) options.chain = preset_of(a)->chain;
    return gale_device_open(&options, out);
}

/* --- Several devices: cuda:0+cuda:1, cuda:all, all. --- */

static gale_status open_one(const char *name, int64_t index, gale__devices *out)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    if (out->count == GALE_EMBED_DEVICES)
        return gale__fail(GALE_LIMIT, "--provider: at most %d devices side by side", GALE_EMBED_DEVICES);
    options.chain = name;
    options.index = index ? (int)index : GALE_DEVICE_FIRST;
    options.strict = true;
    GALE_TRY(gale_device_open(&options, &out->list[out->count]));
    out->count++;
    return GALE_OK;
}

/* All devices of a provider: as many as can be opened. */
static gale_status open_all(const char *name, gale__devices *out)
{
    GALE_TRY(open_one(name, 0, out));
    const char *backend = gale_device_get_info(out->list[out->count - 1])->backend;
    while (out->count < GALE_EMBED_DEVICES && open_one(backend, out->count, out) == GALE_OK) {
    }
    gale__error_clear();
    return GALE_OK;
}

static gale_status open_item(const char *item, size_t size, gale__devices *out)
{
    char name[64];
    int64_t index = 0;
    snprintf(name, sizeof name, "%.*s", (int)size, item);
    char *colon = strchr(name, ':');
    if (!strcmp(name, "all")) return open_all("auto", out);
    if (colon) *colon++ = 0;
    if (colon && !strcmp(colon, "all")) return open_all(name, out);
    if (colon && (!gale__text_to_i64(colon, &index) || index < 0 || index > 1023))
        return gale__fail(GALE_INVALID, "--provider: '%.*s' is not PROVIDER:NUMBER", (int)size, item);
    return open_one(name, index, out);
}

gale_status gale__encoder_devices(const gale__args *a, gale__devices *out)
{
    const char *chain = gale__env_get(GALE__ENV_PROVIDER);
    if (!strpbrk(chain, "+:") && strcmp(chain, "all")) {
        GALE_TRY(gale__encoder_device(a, &out->list[0]));
        out->count = 1;
        return GALE_OK;
    }
    for (size_t n; *chain; chain += n + (chain[n] == '+')) {
        n = strcspn(chain, "+");
        GALE_TRY(open_item(chain, n, out));
    }
    return GALE_OK;
}

void gale__devices_close(gale__devices *d)
{
    for (int i = 0; i < d->count; i++) gale_device_close(&d->list[i]);
}

gale_status gale__encoder_open(const gale__args *a, gale_device *device, gale_packing packing, gale_embedder **out)
{
    const char *model = gale__args_text(a, "model");
    char *found = NULL;
    gale_embedder_options o = {.pooling = pooling_of(gale__args_text(a, "pooling")),
        .no_normalize = gale__args_flag(a, "no-normalize"),
        .dims = gale__args_int(a, "dims"),
        .max_length = gale__args_int(a, "max-length"),
        .prompt = gale__args_text(a, "prompt"),
        .prompt_name = gale__args_text(a, "prompt-name"),
        .file = gale__args_text(a, "model-file"),
        .packing = packing};
    if (!gale__encoder_given(a)) return gale__fail(GALE_INVALID, "missing option: --model FOLDER or NAME");
    if (!model) GALE_TRY(gale_encoder_find_level(level_of(a), &found));
    gale__model_options(a, &o.model);
    gale_status status = gale_embedder_open(model ? model : found, device, &o, out);
    gale_free(found);
    return status;
}
