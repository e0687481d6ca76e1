/* A line for each result: its name, a tab, the picture.  Bytes below a space, and %, are written as %XX, so that any
 * name of a file fits in a line. */
#include "jobs/batch/journal.h"
#include "base/file.h"
#include <stdlib.h>
#include <string.h>

enum { BYTES_MOST = 64 << 20 };

static int by_output(const void *a, const void *b)
{
    return strcmp(((const gale__journal_entry *)a)->output, ((const gale__journal_entry *)b)->output);
}

static int by_input(const void *a, const void *b)
{
    const gale__journal_entry *x = a, *y = b;
    int order = strcmp(x->input, y->input);
    return order ? order : by_output(a, b);
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* In place, since it only becomes shorter. */
static const char *unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        int high = *from == '%' ? digit(from[1]) : -1, low = high >= 0 ? digit(from[2]) : -1;
        *to++ = low >= 0 ? (char)(high * 16 + low) : *from;
        if (low >= 0) from += 2;
    }
    *to = 0;
    return text;
}

static void escape(gale__str *out, const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == '%') gale__str_addf(out, "%%%02X", (unsigned char)*text);
        else gale__str_add_n(out, text, 1);
}

static gale_status parse(gale__journal *j, char *text)
{
    size_t lines = 1;
    for (const char *p = text; *p; p++) lines += *p == '\n';
    j->by_output = gale__calloc(lines, sizeof *j->by_output);
    j->by_input = gale__calloc(lines, sizeof *j->by_input);
    if (!j->by_output || !j->by_input) return GALE_NO_MEMORY;
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n'), *tab = strchr(line, '\t');
        if (end) *end = 0;
        if (*line != '#' && tab && (!end || tab < end)) {
            *tab = 0;
            j->by_output[j->count++] = (gale__journal_entry){unescape(line), unescape(tab + 1)};
        }
        line = end ? end + 1 : NULL;
    }
    qsort(j->by_output, j->count, sizeof *j->by_output, by_output);
    if (j->count) memcpy(j->by_input, j->by_output, j->count * sizeof *j->by_input);
    qsort(j->by_input, j->count, sizeof *j->by_input, by_input);
    return GALE_OK;
}

static gale_status path_in(const char *folder, gale__str *out)
{
    gale__str_addf(out, "%s/%s", folder, GALE__JOURNAL_NAME);
    return gale__str_check(out);
}

gale_status gale__journal_open(const char *folder, gale__journal *out)
{
    gale__journal j = {0};
    gale__str path = {0};
    gale__bytes bytes = {0};
    gale_status status = path_in(folder, &path);
    if (status == GALE_OK && gale__file_exists(path.text)) status = gale__file_read(path.text, BYTES_MOST, &bytes);
    if (status != GALE_OK && status != GALE_NO_MEMORY) {
        gale__log(GALE__WARN, "%s; names of earlier results are unknown", gale_error());
        gale__error_clear();
        status = GALE_OK;
    }
    char *text = status == GALE_OK ? gale__arena_strdup(&j.arena, bytes.data ? bytes.data : "") : NULL;
    if (status == GALE_OK) status = text ? parse(&j, text) : GALE_NO_MEMORY;
    gale__bytes_finish(&bytes);
    gale__str_finish(&path);
    if (status == GALE_OK) *out = j;
    else gale__journal_finish(&j);
    return status;
}

void gale__journal_finish(gale__journal *j)
{
    gale__free(j->by_output);
    gale__free(j->by_input);
    gale__arena_finish(&j->arena);
    *j = (gale__journal){0};
}

const char *gale__journal_input(const gale__journal *j, const char *output)
{
    gale__journal_entry key = {output, NULL};
    const gale__journal_entry *found = j->count ? bsearch(&key, j->by_output, j->count, sizeof key, by_output) : NULL;
    return found ? found->input : NULL;
}

const char *gale__journal_output(const gale__journal *j, const char *input, size_t i)
{
    size_t low = 0, high = j->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(j->by_input[middle].input, input) < 0) low = middle + 1;
        else high = middle;
    }
    low += i;
    return low < j->count && !strcmp(j->by_input[low].input, input) ? j->by_input[low].output : NULL;
}

static void add_line(gale__str *out, const gale__journal_entry *e)
{
    escape(out, e->output);
    gale__str_add(out, "\t");
    escape(out, e->input);
    gale__str_add(out, "\n");
}

gale_status gale__journal_write(
    const gale__journal *j, const char *folder, const gale__journal_entry *entries, size_t count)
{
    gale__str text = {0}, path = {0};
    gale__journal_entry *sorted = gale__calloc(count + 1, sizeof *sorted);
    if (!sorted) return GALE_NO_MEMORY;
    if (count) memcpy(sorted, entries, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_output);
    gale__str_add(&text, "# gale: results in this folder, and the pictures they were made from\n");
    for (size_t i = 0; i < j->count; i++)
        if (!bsearch(&j->by_output[i], sorted, count, sizeof *sorted, by_output)) add_line(&text, &j->by_output[i]);
    for (size_t i = 0; i < count; i++) add_line(&text, &sorted[i]);
    gale_status status = gale__str_check(&text);
    if (status == GALE_OK) status = path_in(folder, &path);
    if (status == GALE_OK) status = gale__file_write(path.text, text.text, text.length);
    gale__str_finish(&text);
    gale__str_finish(&path);
    gale__free(sorted);
    return status;
}
