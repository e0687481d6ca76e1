/* Lines of words: LUT_3D_SIZE, DOMAIN_MIN, DOMAIN_MAX, TITLE, comments; then three numbers a line, red fastest. */
#include "jobs/exr/cube.h"
#include "base/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_MOST = 129, BYTES_MOST = 256 << 20 };

/* Three numbers and nothing more. */
static bool three(const char *text, double v[3])
{
    char *end;
    for (int i = 0; i < 3; i++, text = end) {
        v[i] = strtod(text, &end);
        if (end == text) return false;
    }
    return text[strspn(text, " \t\r")] == 0;
}

static const char *after(const char *line, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(line, word, n) && (line[n] == ' ' || line[n] == '\t') ? line + n : NULL;
}

static gale_status begin(gale__cube *c, const char *text)
{
    long size = strtol(text, NULL, 10);
    if (c->values || size < 2 || size > SIZE_MOST)
        return gale__fail(
            GALE_FORMAT, "a table with %ld colours along each axis is not supported (2 to %d)", size, SIZE_MOST);
    c->size = size;
    c->values = gale__calloc((size_t)(3 * size * size * size), sizeof *c->values);
    return c->values ? GALE_OK : GALE_NO_MEMORY;
}

/* One line; *done counts the colours so far. */
static gale_status take(gale__cube *c, const char *line, int64_t *done)
{
    const char *rest;
    double v[3];
    line += strspn(line, " \t\r");
    if (!*line || *line == '#' || after(line, "TITLE")) return GALE_OK;
    if ((rest = after(line, "LUT_3D_SIZE"))) return begin(c, rest);
    if (after(line, "LUT_1D_SIZE"))
        return gale__fail(GALE_UNSUPPORTED, "one-dimensional tables are not supported, only 3D tables");
    if ((rest = after(line, "DOMAIN_MIN")) && three(rest, c->low)) return GALE_OK;
    if ((rest = after(line, "DOMAIN_MAX")) && three(rest, c->high)) return GALE_OK;
    int64_t all = c->size * c->size * c->size;
    if (!three(line, v) || *done >= all) return gale__fail(GALE_FORMAT, "not a .cube file: %s", line);
    for (int i = 0; i < 3; i++) c->values[i * all + *done] = (float)v[i];
    ++*done;
    return GALE_OK;
}

gale_status gale__cube_parse(const char *text, gale__cube *out)
{
    gale__cube c = {.high = {1, 1, 1}};
    char line[512];
    int64_t done = 0, number = 0;
    gale_status status = GALE_OK;
    while (*text && status == GALE_OK) {
        size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), text);
        number++;
        status = take(&c, line, &done);
        if (status != GALE_OK) gale__fail_within(status, "line %lld", (long long)number);
        text += n + (text[n] == '\n');
    }
    for (int i = 0; i < 3 && status == GALE_OK; i++)
        if (!(c.high[i] > c.low[i])) status = gale__fail(GALE_FORMAT, "the domain of the table is empty");
    if (status == GALE_OK && (!c.size || done != c.size * c.size * c.size))
        status = gale__fail(GALE_FORMAT, "the table has %lld colours instead of %lld", (long long)done,
            (long long)(c.size * c.size * c.size));
    if (status == GALE_OK) *out = c;
    else gale__cube_finish(&c);
    return status;
}

gale_status gale__cube_read(const char *path, gale__cube *out)
{
    gale__bytes bytes = {0};
    GALE_TRY(gale__file_read(path, BYTES_MOST, &bytes));
    gale_status status = gale__cube_parse(bytes.data, out);
    gale__bytes_finish(&bytes);
    return status == GALE_OK ? status : gale__fail_within(status, "%s", path);
}

void gale__cube_finish(gale__cube *c)
{
    gale__free(c->values);
    *c = (gale__cube){0};
}
