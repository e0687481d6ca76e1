/* Catalogues are untrusted, so every key is checked, and a name must not be a path. */
#include "jobs/models/catalogue.h"
#include "base/file.h"
#include "base/yaml.h"
#include "jobs/models/fetch.h"
#include <math.h>
#include <string.h>

enum { OFFERS_MOST = 100000, NAME_MOST = 200 };

static gale_status digest_of(gale__catalogue *c, const gale__json *map, const char *key, const char **out)
{
    const char *text = NULL;
    char hex[65];
    GALE_TRY(gale__json_copy_text(&c->arena, map, key, &text));
    if (!text) return GALE_OK;
    if (!gale__sha256_read(text, hex)) return gale__fail(GALE_FORMAT, "%s must have 64 hexadecimal digits", key);
    *out = gale__arena_strdup(&c->arena, hex);
    return *out ? GALE_OK : GALE_NO_MEMORY;
}

static gale_status read_offer(const gale__json *map, gale__catalogue *c, gale__offer *o)
{
    const gale__json *size = gale__json_get(map, "size");
    *o = (gale__offer){.licence = "", .manifest = ""};
    if (map->kind != GALE__JSON_OBJECT) return gale__fail(GALE_FORMAT, "is not a map of keys");
    GALE_TRY(gale__json_copy_text(&c->arena, map, "name", &o->name));
    GALE_TRY(gale__json_copy_text(&c->arena, map, "url", &o->url));
    GALE_TRY(gale__json_copy_text(&c->arena, map, "licence", &o->licence));
    GALE_TRY(gale__json_copy_text(&c->arena, map, "manifest", &o->manifest));
    GALE_TRY(digest_of(c, map, "sha256", &o->sha256));
    GALE_TRY(digest_of(c, map, "manifest_sha256", &o->manifest_sha256));
    if (!o->name || !*o->name) return gale__fail(GALE_FORMAT, "has no name");
    if (!o->url || !*o->url) return gale__fail(GALE_FORMAT, "%s: no url", o->name);
    if (!size || size->kind == GALE__JSON_NULL) return GALE_OK;
    if (size->kind != GALE__JSON_NUMBER || !(size->number >= 1 && size->number <= 0x1p53) ||
        size->number != floor(size->number))
        return gale__fail(GALE_FORMAT, "%s: size is not a number of bytes", o->name);
    o->size_bytes = (uint64_t)size->number;
    return GALE_OK;
}

static gale_status fill(const gale__json *root, gale__catalogue *c)
{
    const gale__json *list = root->kind == GALE__JSON_OBJECT ? gale__json_get(root, "models") : root;
    size_t count = 0;
    if (!list || list->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "a catalogue needs a list \"models\"");
    for (const gale__json *m = list->child; m; m = m->next) count++;
    if (count > OFFERS_MOST) return gale__fail(GALE_LIMIT, "%zu models; at most %d are supported", count, OFFERS_MOST);
    c->offers = gale__arena_alloc(&c->arena, (count + 1) * sizeof *c->offers);
    if (!c->offers) return GALE_NO_MEMORY;
    for (const gale__json *m = list->child; m; m = m->next, c->count++) {
        gale_status status = read_offer(m, c, &c->offers[c->count]);
        if (status != GALE_OK) return gale__fail_within(status, "model %zu", c->count + 1);
    }
    return GALE_OK;
}

gale_status gale__catalogue_parse(const char *text, size_t size, gale__catalogue *out)
{
    gale__arena arena = {0};
    gale__json *root = NULL;
    gale__catalogue c = {0};
    gale_status status = gale__yaml_parse(&arena, text, size, &root);
    if (status == GALE_OK) status = fill(root, &c);
    gale__arena_finish(&arena);
    if (status == GALE_OK) *out = c;
    else gale__catalogue_finish(&c);
    return status;
}

gale_status gale__catalogue_read(const char *path, gale__catalogue *out)
{
    gale__bytes file = {0};
    GALE_TRY(gale__file_read(path, 16 << 20, &file));
    gale_status status = gale__catalogue_parse(file.data, file.size, out);
    gale__bytes_finish(&file);
    return status == GALE_OK ? GALE_OK : gale__fail_within(status, "%s", path);
}

void gale__catalogue_finish(gale__catalogue *c)
{
    gale__arena_finish(&c->arena);
    *c = (gale__catalogue){0};
}

gale_status gale__catalogue_find(const gale__catalogue *c, const char *name, const gale__offer **out)
{
    gale__str known = {0};
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->offers[i].name, name)) return *out = &c->offers[i], GALE_OK;
    for (size_t i = 0; i < c->count && known.length < 300; i++)
        gale__str_addf(&known, "%s%s", i ? ", " : "", c->offers[i].name);
    gale_status status = gale__fail(GALE_NOT_FOUND, "\"%s\" is not in the catalogue; it has %s", name,
        c->count ? gale__str_text(&known) : "nothing");
    gale__str_finish(&known);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && !strcmp(text + n - m, end);
}

gale_status gale__model_file_name(const char *name, gale__str *out)
{
    static const char *const ends[] = {".onnx", ".yml", ".yaml", ".json"};
    bool whole = false;
    if (!*name || *name == '.')
        return gale__fail(
            GALE_INVALID, "invalid model name \"%s\": %s", name, *name ? "it begins with a dot" : "it is empty");
    if (strlen(name) > NAME_MOST) return gale__fail(GALE_INVALID, "invalid model name: more than %d bytes", NAME_MOST);
    for (const char *p = name; *p; p++)
        if (*p == '/' || *p == '\\' || (unsigned char)*p < 32 || *p == 127)
            return gale__fail(GALE_INVALID,
                "invalid model name \"%s\": it contains a path separator or a control character; use --name", name);
    for (int i = 0; i < 4; i++) whole = whole || ends_with(name, ends[i]);
    gale__str_addf(out, "%s%s", name, whole ? "" : ".onnx");
    return gale__str_check(out);
}

gale_status gale__url_name(const char *url, gale__str *out)
{
    const char *from = strstr(url, "://"), *at = from ? from + 3 : url;
    size_t n = strcspn(at, "?#"), slash = n;
    while (slash && at[slash - 1] != '/') slash--;
    if (!slash || slash == n) return gale__fail(GALE_INVALID, "%s: the URL has no file name; use --name", url);
    gale__str_add_n(out, at + slash, n - slash);
    return gale__str_check(out);
}
