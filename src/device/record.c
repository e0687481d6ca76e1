/* One small JSON file per device and driver, so that several processes never overwrite each other's devices.  A
 * damaged file counts as no record. */
#include "device/record.h"
#include "base/file.h"
#include "base/hash.h"
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 1200

static gale_status make_folder(const char *kind, char *path, size_t size)
{
    char cache[1024];
    GALE_TRY(gale__cache_folder(cache, sizeof cache));
    int n = snprintf(path, size, "%s/%s", cache, kind);
    return n > 0 && (size_t)n < size ? GALE_OK : gale__fail(GALE_LIMIT, "%s: the path is too long", cache);
}

gale_status gale__record_path(
    const gale_device_info *info, const char *kind, const char *extra, char *path, size_t size)
{
    char key[1024], hex[65], folder[PATH_SIZE];
    GALE_TRY(make_folder(kind, folder, sizeof folder));
    int n = snprintf(key, sizeof key, "%s\n%s\n%s\n%s%s%s", info->backend, info->id, info->driver, info->name,
        *extra ? "\n" : "", extra);
    gale__sha256_hex(key, (size_t)n < sizeof key ? (size_t)n : sizeof key - 1, hex);
    n = snprintf(path, size, "%s/%.32s.json", folder, hex);
    return n > 0 && (size_t)n < size ? GALE_OK : gale__fail(GALE_LIMIT, "%s: the path is too long", folder);
}

void gale__record_read(
    const gale_device_info *info, const char *kind, const char *extra, gale__arena *arena, gale__json **out)
{
    char path[PATH_SIZE];
    gale__bytes bytes = {0};
    *out = NULL;
    if (gale__record_path(info, kind, extra, path, sizeof path) != GALE_OK || !gale__file_exists(path)) return;
    if (gale__file_read(path, 1 << 20, &bytes) != GALE_OK ||
        gale__json_parse(arena, bytes.data, bytes.size, out) != GALE_OK)
        gale__log(
            GALE__WARN, "stored data (%s) of %s cannot be read and is ignored: %s", kind, info->name, gale_error());
    gale__bytes_finish(&bytes);
}

gale_status gale__record_write(
    const gale_device_info *info, const char *kind, const char *extra, gale__record_fill *fill, const void *user)
{
    char path[PATH_SIZE], folder[PATH_SIZE];
    gale__str text = {0};
    gale__json_out j;
    GALE_TRY(make_folder(kind, folder, sizeof folder));
    GALE_TRY(gale__record_path(info, kind, extra, path, sizeof path));
    gale__json_begin(&j, &text);
    gale__json_object(&j);
    gale__json_put_text(&j, "backend", info->backend);
    gale__json_put_text(&j, "name", info->name);
    gale__json_put_text(&j, "driver", info->driver);
    fill(&j, user);
    gale__json_close(&j, '}');
    gale_status status = gale__str_check(&text);
    if (status == GALE_OK) status = gale__folder_make(folder);
    if (status == GALE_OK) status = gale__file_write(path, text.text, text.length);
    gale__str_finish(&text);
    return status;
}

gale_status gale__record_list(const char *kind, bool clear, char folder[1024], uint64_t *files, uint64_t *size_bytes)
{
    gale__file_info *list = NULL;
    size_t n = 0;
    gale_status status;
    *files = *size_bytes = 0;
    GALE_TRY(make_folder(kind, folder, 1024));
    if (!gale__folder_exists(folder)) return GALE_OK;
    GALE_GO(gale__folder_list(folder, &list, &n));
    for (size_t i = 0; i < n; i++) {
        char path[PATH_SIZE + 256];
        snprintf(path, sizeof path, "%s/%s", folder, list[i].name);
        *files += 1;
        *size_bytes += list[i].size_bytes;
        if (clear) GALE_GO(gale__file_remove(path));
    }
done:
    gale__folder_list_free(&list, n);
    return status;
}
