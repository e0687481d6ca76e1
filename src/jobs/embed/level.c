/* Levels: names for encoders, so that a program can request a quality without knowing models. */
#include "base/file.h"
#include "gale/embed.h"
#include "jobs/models/manifest.h"
#include <string.h>

static const struct {
    const char *name;
    const char *models[4];
} levels[] = {
    {"low", {"paraphrase-MiniLM-L3-v2", NULL}},
    {"medium", {"paraphrase-MiniLM-L6-v2", "all-MiniLM-L6-v2", NULL}},
    {"high", {"all-mpnet-base-v2", NULL}},
};
enum { LEVELS = sizeof levels / sizeof *levels };

static gale_status number_of(const char *level, int *out)
{
    if (gale__text_equal_nocase(level, "none"))
        return gale__fail(
            GALE_INVALID, "level none produces no vectors; use the model `heuristic` for 64 numbers without a model");
    if (gale__text_equal_nocase(level, "med")) level = "medium";
    for (int i = 0; i < LEVELS; i++)
        if (gale__text_equal_nocase(level, levels[i].name)) return *out = i, GALE_OK;
    return gale__fail(GALE_INVALID, "unknown level \"%s\"; known are none, low, medium and high", level);
}

/* The folder of a level's encoder in *out; empty where there is none. */
static gale_status find_folder(const char *folder, int level, gale__str *out)
{
    static const char *const below[] = {"", "sentence-transformers/"};
    for (int i = 0; i < 4; i++) {
        const char *model = i < 3 ? levels[level].models[i] : levels[level].name;
        for (int k = 0; model && k < 2; k++) {
            gale__str_finish(out);
            gale__str_addf(out, "%s/%s%s", folder, below[k], model);
            GALE_TRY(gale__str_check(out));
            if (gale__folder_exists(out->text)) return GALE_OK;
        }
    }
    gale__str_finish(out);
    return GALE_OK;
}

gale_status gale_encoder_find_level(const char *level, char **path)
{
    GALE__NEED({"level", level}, {"path", path});
    int wanted = 0, at;
    gale__str folder = {0}, found = {0};
    GALE_TRY(number_of(level, &wanted));
    gale_status status = gale__models_folder(&folder);
    for (at = wanted; at >= 0 && status == GALE_OK; at--) {
        status = find_folder(folder.text, at, &found);
        if (status != GALE_OK || found.length) break;
        if (at)
            gale__log(GALE__WARN, "level %s: %s is not in %s (GALE_MODELS); falling back to %s", levels[at].name,
                levels[at].models[0], folder.text, levels[at - 1].name);
    }
    if (status == GALE_OK && !found.length)
        status = gale__fail(GALE_NOT_FOUND,
            "level %s: neither its encoder nor one of a lower level is in %s (GALE_MODELS); expected a folder %s with "
            "model.onnx and tokenizer.json",
            levels[wanted].name, folder.text, levels[wanted].models[0]);
    gale__str_finish(&folder);
    if (status == GALE_OK) *path = found.text;
    else gale__str_finish(&found);
    return status;
}
