/* Environment variables from the table in env.def.  An empty variable counts as unset. */
#include "base/env.h"
#include "base/str.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gale__env_row gale__env_table[GALE__ENV_COUNT] = {
#define X(id, name, alias, value, help) {name, alias, value, help},
#include "env.def"
#undef X
};

static _Atomic bool warned_conflict[GALE__ENV_COUNT], warned_number[GALE__ENV_COUNT];

static const char *get_set(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* The first alias that is set; its name is left in `name`. */
static const char *get_alias(const char *aliases, char name[64])
{
    for (const char *p = aliases; p && *p;) {
        size_t n = strcspn(p, " ");
        snprintf(name, 64, "%.*s", (int)n, p);
        const char *v = get_set(name);
        if (v) return v;
        p += n + strspn(p + n, " ");
    }
    return NULL;
}

const char *gale__env_get(gale__env id)
{
    const gale__env_row *row = &gale__env_table[id];
    char alias[64];
    const char *own = get_set(row->name), *other = get_alias(row->aliases, alias);
    if (own && other && strcmp(own, other) && !atomic_exchange(&warned_conflict[id], true))
        gale__log(GALE__WARN, "%s=%s is used; its alias %s=%s is ignored", row->name, own, alias, other);
    return own ? own : other ? other : row->value;
}

int64_t gale__env_get_i64(gale__env id, int64_t fallback)
{
    const char *text = gale__env_get(id);
    int64_t v;
    if (gale__text_to_i64(text, &v)) return v;
    if (*text && !atomic_exchange(&warned_number[id], true))
        gale__log(GALE__WARN, "%s=%s is not an integer and is ignored", gale__env_table[id].name, text);
    return fallback;
}
