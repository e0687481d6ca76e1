/* A command does not overwrite its inputs unless requested.  The file system decides whether two paths are the same
 * file, so that links and spelling do not matter. */
#include "base/file.h"
#include "cli/args.h"
#include <string.h>

/* Whether the value names the file: as a whole, or after the NAME= of one of several with commas between. */
static bool names_file(const char *value, const char *file)
{
    char part[4096];
    if (gale__file_same(value, file)) return true;
    for (const char *at = value; *at;) {
        size_t n = strcspn(at, ","), name = strcspn(at, "=,");
        const char *from = at[name] == '=' ? at + name + 1 : at;
        size_t length = (size_t)(at + n - from);
        if (length && length < sizeof part) {
            memcpy(part, from, length);
            part[length] = 0;
            if (gale__file_same(part, file)) return true;
        }
        at += n + (at[n] == ',');
    }
    return false;
}

static const char *file_of(const char *value)
{
    const char *equals = strchr(value, '=');
    return equals && !gale__file_exists(value) ? equals + 1 : value;
}

gale_status gale__args_check_overwrites(const gale__args *a)
{
    bool may = false;
    for (const gale__arg *arg = a->table; arg->name; arg++) may |= !strcmp(arg->name, "overwrite");
    if (gale__args_flag(a, "overwrite")) return GALE_OK;
    for (size_t i = 0; i < a->count; i++) {
        if (!a->items[i].arg->writes) continue;
        const char *file = file_of(a->items[i].text);
        for (size_t k = 0; k < a->count; k++) {
            const gale__arg *other = a->items[k].arg;
            bool reads = !other->writes && (other->type == GALE__ARG_FILE || other->type == GALE__ARG_TEXT);
            if (!reads || !names_file(a->items[k].text, file)) continue;
            return gale__fail(GALE_INVALID, "--%s: %s is also an input (%s%s) and would be overwritten; %s",
                a->items[i].arg->name, file, gale__arg_is_positional(other) ? "" : "--", other->name,
                may ? "choose another name, or use --overwrite" : "choose another name");
        }
    }
    return GALE_OK;
}
