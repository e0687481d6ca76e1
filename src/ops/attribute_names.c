/* Which attributes an operator has.  A misspelt one would otherwise be ignored, and its default taken in silence. */
#include "base/error.h"
#include "graph/build/opgraph.h"
#include <stdio.h>
#include <string.h>

typedef struct row {
    const char *op, *names;
} row;
static const row rows[] = {
#define A(op, names) {op, names},
#include "ops/op_attributes.def"
#undef A
};

static const row *find_row(const char *op)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].op, op)) return &rows[i];
    return NULL;
}

enum { NAME_MOST = 64 };

/* Letters to insert, remove or replace on the way from one name to the other; names are short. */
static int distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    int line[NAME_MOST + 1];
    if (a_size > NAME_MOST || b_size > NAME_MOST) return NAME_MOST;
    for (size_t j = 0; j <= b_size; j++) line[j] = (int)j;
    for (size_t i = 1; i <= a_size; i++) {
        int corner = line[0];
        line[0] = (int)i;
        for (size_t j = 1; j <= b_size; j++) {
            int replaced = corner + (a[i - 1] != b[j - 1]);
            corner = line[j];
            int other = (line[j] < line[j - 1] ? line[j] : line[j - 1]) + 1;
            line[j] = replaced < other ? replaced : other;
        }
    }
    return line[b_size];
}

gale_status gale__op_attr_check(const char *op, const char *name, bool own)
{
    const row *r = find_row(op);
    size_t size = strlen(name), near_size = 0, names_size = r ? strcspn(r->names, "|") : 0;
    const char *near_name = NULL;
    int least = 3;
    for (const char *p = r ? r->names : ""; *p && (own || p < r->names + names_size); p += strspn(p, " |")) {
        size_t n = strcspn(p, " |");
        if (n == size && !memcmp(p, name, n)) return GALE_OK;
        int d = distance(p, n, name, size);
        if (d < least && d < (int)size) least = d, near_name = p, near_size = n;
        p += n;
    }
    if (!r) return GALE_OK;
    if (near_name)
        return gale__fail(
            GALE_INVALID, "%s has no attribute '%s'; did you mean '%.*s'?", op, name, (int)near_size, near_name);
    if (!names_size) return gale__fail(GALE_INVALID, "%s has no attribute '%s': it takes none", op, name);
    return gale__fail(GALE_INVALID, "%s has no attribute '%s'; it takes: %.*s", op, name, (int)names_size, r->names);
}
