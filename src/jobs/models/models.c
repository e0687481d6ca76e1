/* The available models: the built-in ones, then those of a folder. */
#include "base/env.h"
#include "base/file.h"
#include "jobs/upscale/embedded.h"
#include "jobs/models/fetch.h"
#include "jobs/models/manifest.h"
#include <stdlib.h>
#include <string.h>

void gale__models_finish(gale__model_entry **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gale__free((*list)[i].path);
        gale__manifest_finish(&(*list)[i].manifest);
    }
    gale__free(*list);
    *list = NULL;
}

static bool is_model(const gale__file_info *f)
{
    size_t n = strlen(f->name);
    return !f->folder && n > 5 && !strcmp(f->name + n - 5, ".onnx");
}

/* A broken manifest among many is no reason to lose the others. */
static gale_status add(const char *folder, const char *name, gale__model_entry *entry, bool *added)
{
    gale__str path = {0};
    gale__str_addf(&path, "%s/%s", folder, name);
    gale_status status = gale__str_check(&path);
    if (status == GALE_OK) status = gale__manifest_read(path.text, &entry->manifest);
    *added = status == GALE_OK;
    gale__file_identity file;
    if (*added) {
        entry->path = path.text;
        entry->size_bytes = gale__file_identify(path.text, &file) ? file.size_bytes : 0;
    } else gale__str_finish(&path);
    if (status == GALE_OK || status == GALE_NO_MEMORY) return status;
    gale__log(GALE__WARN, "%s; the model is skipped", gale_error());
    return GALE_OK;
}

static gale_status add_embedded(gale__model_entry *list, size_t *kept)
{
    const gale__embedded *e;
    for (size_t i = 0; (e = gale__embedded_at(i)); i++, ++*kept) {
        list[*kept].size_bytes = e->size;
        GALE_TRY(gale__manifest_parse(e->manifest, strlen(e->manifest), e->name, &list[*kept].manifest));
    }
    return GALE_OK;
}

gale_status gale__models_list(const char *folder, gale__model_entry **out, size_t *count)
{
    gale__file_info *files = NULL;
    size_t n = 0, kept = 0, inside = 0;
    if (*folder) GALE_TRY(gale__folder_list(folder, &files, &n));
    while (gale__embedded_at(inside)) inside++;
    gale__model_entry *list = gale__calloc(n + inside, sizeof *list);
    gale_status status = list ? add_embedded(list, &kept) : GALE_NO_MEMORY;
    for (size_t i = 0; i < n && status == GALE_OK; i++) {
        bool added = false;
        if (is_model(&files[i])) status = add(folder, files[i].name, &list[kept], &added);
        kept += added;
    }
    gale__folder_list_free(&files, n);
    if (status != GALE_OK) {
        if (list) gale__models_finish(&list, kept);
        return status;
    }
    *out = list;
    *count = kept;
    return GALE_OK;
}

gale_status gale__models_folder(gale__str *out)
{
    const char *own = gale__env_get(GALE__ENV_MODELS), *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (*own) gale__str_add(out, own);
    else if (xdg && *xdg == '/') gale__str_addf(out, "%s/gale/models", xdg);
    else if (home && *home) gale__str_addf(out, "%s/.local/share/gale/models", home);
    else return gale__fail(GALE_NOT_FOUND, "no models folder: none of GALE_MODELS, XDG_DATA_HOME and HOME is set");
    return gale__str_check(out);
}

/* The first word of a line that sha256sum wrote. */
static gale_status read_digest(const char *path, char hex[65])
{
    gale__bytes file = {0};
    GALE_TRY(gale__file_read(path, 4096, &file));
    char *text = file.data;
    text[strcspn(text, " \n")] = 0;
    gale_status status =
        gale__sha256_read(text, hex) ? GALE_OK : gale__fail(GALE_FORMAT, "%s: does not begin with a SHA-256", path);
    gale__bytes_finish(&file);
    return status;
}

gale_status gale__model_digest(const char *path, const gale__manifest *m, char hex[65])
{
    gale__str beside = {0};
    hex[0] = 0;
    if (*m->sha256)
        return gale__sha256_read(m->sha256, hex)
                   ? GALE_OK
                   : gale__fail(GALE_FORMAT, "%s: sha256 must have 64 hexadecimal digits", m->path);
    gale__str_addf(&beside, "%s.sha256", path);
    gale_status status = gale__str_check(&beside);
    if (status == GALE_OK && gale__file_exists(beside.text)) status = read_digest(beside.text, hex);
    gale__str_finish(&beside);
    return status;
}
