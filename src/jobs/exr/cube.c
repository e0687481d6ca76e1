/* .cube files; OpenColorIO, which reads them too, is 5.6 MB of C++ with four further libraries.  Lines of words:
 * LUT_1D_SIZE, LUT_3D_SIZE, DOMAIN_MIN, DOMAIN_MAX, LUT_1D_INPUT_RANGE, LUT_3D_INPUT_RANGE, TITLE, comments; then three
 * numbers a line: the 1D table if there is one, and the 3D table, red fastest. */
#include "jobs/exr/cube.h"
#include "base/file.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_MOST = 129, CURVE_MOST = 65536, BYTES_MOST = 256 << 20 };

typedef struct parser {
    gale__cube c;
    int64_t curve_done, done; /* entries so far */
    double low[3], high[3];   /* DOMAIN_MIN, DOMAIN_MAX: of what comes in */
    bool curve_range;         /* the 1D table has its own */
} parser;

/* So many numbers and nothing more. */
static bool numbers(const char *text, double *v, int n)
{
    char *end;
    for (int i = 0; i < n; i++, text = end) {
        v[i] = strtod(text, &end);
        if (end == text || !isfinite(v[i])) return false;
    }
    return text[strspn(text, " \t\r")] == 0;
}

static const char *after(const char *line, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(line, word, n) && (line[n] == ' ' || line[n] == '\t') ? line + n : NULL;
}

static gale_status begin(float **values, int64_t *size, const char *text, long most, int axes)
{
    long n = strtol(text, NULL, 10);
    if (*values || n < 2 || n > most)
        return gale__fail(GALE_FORMAT, "a table with %ld entries along an axis is not supported (2 to %ld)", n, most);
    *size = n;
    *values = gale__calloc((size_t)(axes == 3 ? 3 * n * n * n : 3 * n), sizeof **values);
    return *values ? GALE_OK : GALE_NO_MEMORY;
}

/* The same for all channels. */
static bool range(const char *text, double low[3], double high[3])
{
    double v[2];
    if (!numbers(text, v, 2)) return false;
    for (int i = 0; i < 3; i++) low[i] = v[0], high[i] = v[1];
    return true;
}

static gale_status take_entry(parser *p, const char *line)
{
    gale__cube *c = &p->c;
    bool curve = p->curve_done < c->curve_size;
    int64_t all = curve ? c->curve_size : c->size * c->size * c->size, *done = curve ? &p->curve_done : &p->done;
    double v[3];
    if (!numbers(line, v, 3) || *done >= all) return gale__fail(GALE_FORMAT, "not a .cube file: %.40s", line);
    for (int i = 0; i < 3; i++) (curve ? c->curve : c->values)[i * all + *done] = (float)v[i];
    ++*done;
    return GALE_OK;
}

static gale_status parse_line(parser *p, const char *line)
{
    gale__cube *c = &p->c;
    const char *rest;
    line += strspn(line, " \t\r");
    if (!*line || *line == '#' || after(line, "TITLE")) return GALE_OK;
    if ((rest = after(line, "LUT_3D_SIZE"))) return begin(&c->values, &c->size, rest, SIZE_MOST, 3);
    if ((rest = after(line, "LUT_1D_SIZE"))) return begin(&c->curve, &c->curve_size, rest, CURVE_MOST, 1);
    if ((rest = after(line, "DOMAIN_MIN")) && numbers(rest, p->low, 3)) return GALE_OK;
    if ((rest = after(line, "DOMAIN_MAX")) && numbers(rest, p->high, 3)) return GALE_OK;
    if ((rest = after(line, "LUT_3D_INPUT_RANGE")) && range(rest, c->low, c->high)) return GALE_OK;
    if ((rest = after(line, "LUT_1D_INPUT_RANGE")) && range(rest, c->curve_low, c->curve_high)) {
        p->curve_range = true;
        return GALE_OK;
    }
    return take_entry(p, line);
}

/* The domain is that of the table that comes first. */
static gale_status conclude(parser *p)
{
    gale__cube *c = &p->c;
    int64_t all = c->size * c->size * c->size;
    bool to_curve = c->curve_size && !p->curve_range, domain = false;
    for (int i = 0; i < 3; i++) domain |= p->low[i] != 0 || p->high[i] != 1;
    for (int i = 0; i < 3; i++) {
        if (to_curve) c->curve_low[i] = p->low[i], c->curve_high[i] = p->high[i];
        if (!c->curve_size && domain) c->low[i] = p->low[i], c->high[i] = p->high[i];
        if ((c->size && !(c->high[i] > c->low[i])) || (c->curve_size && !(c->curve_high[i] > c->curve_low[i])))
            return gale__fail(GALE_FORMAT, "the domain of the table is empty");
    }
    if (!c->size && !c->curve_size)
        return gale__fail(GALE_FORMAT, "not a .cube file: it has no LUT_1D_SIZE or LUT_3D_SIZE");
    if (p->done != all || p->curve_done != c->curve_size)
        return gale__fail(GALE_FORMAT, "the table has %lld entries instead of %lld",
            (long long)(p->done + p->curve_done), (long long)(all + c->curve_size));
    return GALE_OK;
}

gale_status gale__cube_parse(const char *text, gale__cube *out)
{
    parser p = {.c.high = {1, 1, 1}, .high = {1, 1, 1}};
    char line[512];
    int64_t number = 0;
    gale_status status = GALE_OK;
    while (*text && status == GALE_OK) {
        size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(n < sizeof line ? n : sizeof line - 1), text);
        number++;
        status = parse_line(&p, line);
        if (status != GALE_OK) gale__fail_within(status, "line %lld", (long long)number);
        text += n + (text[n] == '\n');
    }
    if (status == GALE_OK) status = conclude(&p);
    if (status == GALE_OK) *out = p.c;
    else gale__cube_finish(&p.c);
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

bool gale__cube_stays(const gale__cube *c)
{
    const float *v = c->size ? c->values : c->curve;
    int64_t n = c->size ? 3 * c->size * c->size * c->size : 3 * c->curve_size;
    for (int64_t i = 0; i < n; i++)
        if (!(v[i] >= 0 && v[i] <= 1)) return false;
    return true;
}

void gale__cube_finish(gale__cube *c)
{
    gale__free(c->values);
    gale__free(c->curve);
    *c = (gale__cube){0};
}
