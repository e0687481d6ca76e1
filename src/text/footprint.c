/* Lines of `key: value` for a JSON object.  The plugin and the operation come first, wherever they are in the object,
 * because they distinguish footprints best. */
#include "text/footprint.h"
#include <string.h>

enum { PREFIX = 256 };

static void add_scalar(const gale__json *v, gale__str *out)
{
    char number[32];
    if (v->kind == GALE__JSON_STRING) gale__str_add_n(out, v->string, v->string_size);
    else if (v->kind == GALE__JSON_BOOL) gale__str_add(out, v->boolean ? "true" : "false");
    else if (v->kind == GALE__JSON_NUMBER) gale__str_add(out, gale__f64_to_text(v->number, number));
}

static void add_object(const gale__json *object, const char *prefix, gale__str *out);

static void add_line(const gale__json *v, const char *prefix, gale__str *out)
{
    char inner[PREFIX];
    if (v->kind == GALE__JSON_OBJECT) {
        size_t n = strlen(prefix);
        size_t room = PREFIX - 1, key = v->key_size;
        if (n + key + 1 > room) key = room > n + 1 ? room - n - 1 : 0;
        memcpy(inner, prefix, n);
        memcpy(inner + n, v->key, key);
        memcpy(inner + n + key, ".", 2);
        add_object(v, inner, out);
        return;
    }
    if (v->kind == GALE__JSON_NULL) return;
    if (out->length) gale__str_add(out, "\n");
    gale__str_addf(out, "%s%s: ", prefix, v->key);
    if (v->kind != GALE__JSON_ARRAY) {
        add_scalar(v, out);
        return;
    }
    for (const gale__json *item = v->child; item; item = item->next) {
        add_scalar(item, out);
        if (item->next) gale__str_add(out, ", ");
    }
}

static void add_object(const gale__json *object, const char *prefix, gale__str *out)
{
    if (strlen(prefix) > PREFIX / 2) return; /* deeper than anybody means */
    for (const gale__json *v = object->child; v; v = v->next) add_line(v, prefix, out);
}

void gale__footprint_add(const gale__json *object, gale__str *out)
{
    static const char *const first[] = {"plugin", "operation", NULL};
    for (int i = 0; first[i]; i++) {
        const gale__json *v = gale__json_get(object, first[i]);
        if (v) add_line(v, "", out);
    }
    for (const gale__json *v = object->child; v; v = v->next) {
        bool inner = v->kind == GALE__JSON_OBJECT;
        if (!strcmp(v->key, "plugin") || !strcmp(v->key, "operation")) continue;
        if (inner && !strcmp(v->key, "data")) add_object(v, "", out);
        else if (inner && (!strcmp(v->key, "meta") || !strcmp(v->key, "metadata"))) add_object(v, "meta.", out);
        else add_line(v, "", out);
    }
}
