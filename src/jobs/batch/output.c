/* Names of output files, and of models. */
#include "jobs/batch/output.h"
#include "base/file.h"
#include "jobs/upscale/embedded.h"
#include "jobs/models/manifest.h"
#include "media/picture.h"
#include <string.h>

gale_status gale__output_name(
    const char *input, const char *folder, const char *suffix, const char *extension, gale__str *out)
{
    const char *slash = strrchr(input, '/'), *file = slash ? slash + 1 : input, *dot = strrchr(file, '.');
    size_t stem = dot && dot > file ? (size_t)(dot - file) : strlen(file);
    if (!*file) return gale__fail(GALE_INVALID, "%s: is a folder, not a file", input);
    if (folder) gale__str_addf(out, "%s%s", folder, *folder && folder[strlen(folder) - 1] == '/' ? "" : "/");
    else gale__str_add_n(out, input, (size_t)(file - input));
    gale__str_add_n(out, file, stem);
    gale__str_add(out, suffix);
    const char *instead = !extension && file[stem] ? gale__format_instead(file + stem) : NULL;
    bool only_read = instead && strcmp(instead, file + stem + 1);
    if (extension || only_read) gale__str_addf(out, ".%s", extension ? extension : instead);
    else gale__str_add(out, file + stem);
    return gale__str_check(out);
}

gale_status gale__model_find(const char *name, gale__str *out)
{
    gale__str folder = {0};
    gale__str_add(out, name);
    GALE_TRY(gale__str_check(out));
    bool folder_there = gale__folder_exists(name); /* that of a model's results, say */
    if (gale__embedded_find(name) || (gale__file_exists(name) && !folder_there)) return GALE_OK;
    if (strstr(name, "://"))
        return gale__fail(
            GALE_NOT_FOUND, "model \"%s\" not found: download it with `gale models pull`, then use its name", name);
    gale_status status = gale__models_folder(&folder);
    bool found = false;
    for (int i = 0; i < 2 && !found && status == GALE_OK && !strchr(name, '/'); i++) {
        gale__str_finish(out);
        gale__str_addf(out, "%s/%s%s", folder.text, name, i ? "" : ".onnx");
        status = gale__str_check(out);
        found = status == GALE_OK && gale__file_exists(out->text);
    }
    if (status == GALE_OK && !found && folder_there)
        status = gale__fail(GALE_NOT_FOUND,
            "model \"%s\" not found: it is a folder, and not a model in %s (GALE_MODELS)", name, folder.text);
    else if (status == GALE_OK && !found)
        status = gale__fail(GALE_NOT_FOUND,
            "model \"%s\" not found: neither a file nor a model in %s (GALE_MODELS); `gale models` lists the available "
            "ones",
            name, folder.text);
    gale__str_finish(&folder);
    return status;
}
