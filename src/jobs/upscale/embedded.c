/* The embedded networks: files of this folder that the build turns into arrays. */
#include "jobs/upscale/embedded.h"
#include "jobs/embedded_files.h"
#include <string.h>

static const gale__embedded table[] = {
    {GALE__EMBEDDED_USUAL, gale__text_zoom2x_yml, gale__bytes_zoom2x_onnx, sizeof gale__bytes_zoom2x_onnx - 1},
    {GALE__EMBEDDED_CLEAN, gale__text_clean_yml, gale__bytes_clean_onnx, sizeof gale__bytes_clean_onnx - 1},
};

const gale__embedded *gale__embedded_at(size_t i) { return i < sizeof table / sizeof *table ? &table[i] : NULL; }

const gale__embedded *gale__embedded_find(const char *name)
{
    if (!strcmp(name, GALE__EMBEDDED_AUTO)) name = GALE__EMBEDDED_USUAL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}
