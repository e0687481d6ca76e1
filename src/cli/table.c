/* Tables in plain text.  Column widths depend on all cells, so a table is kept in memory until it is printed. */
#include "cli/table.h"
#include "cli/cli.h"
#include <stdarg.h>
#include <string.h>

void gale__table_cell(gale__table *t, const char *format, ...)
{
    gale__str s = {0};
    va_list args;
    va_start(args, format);
    gale__str_vaddf(&s, format, args);
    va_end(args);
    if (!s.text) gale__str_add(&s, "");
    else gale__text_make_plain(s.text, s.length, "\n\t"); /* names come from files, too */
    if (s.failed || gale__grow((void **)&t->cells, &t->capacity, t->count + 1, sizeof *t->cells) != GALE_OK) {
        t->failed = true;
        gale__str_finish(&s);
        return;
    }
    t->cells[t->count++] = s.text;
}

static void print_row(const gale__table *t, size_t first, const int *widths, size_t columns, bool bold, FILE *out)
{
    if (bold) fputs("\033[1m", out);
    for (size_t c = 0; c < columns && first + c < t->count; c++) {
        const char *text = t->cells[first + c];
        bool last = c + 1 == columns || first + c + 1 == t->count;
        fputs(c ? "  " : "", out);
        if (t->align[c] == 'r') fprintf(out, "%*s", widths[c], text);
        else fprintf(out, "%-*s", last ? 0 : widths[c], text);
    }
    fputs(bold ? "\033[0m\n" : "\n", out);
}

gale_status gale__table_print(gale__table *t, FILE *out)
{
    enum { MOST = 32 };
    int widths[MOST] = {0};
    size_t columns = strlen(t->align);
    if (columns > MOST) columns = MOST;
    for (size_t i = 0; i < t->count; i++) {
        int n = (int)strlen(t->cells[i]);
        if (n > widths[i % columns]) widths[i % columns] = n;
    }
    for (size_t i = 0; i < t->count && !t->failed; i += columns)
        print_row(t, i, widths, columns, i == 0 && gale__is_colour(out), out);
    for (size_t i = 0; i < t->count; i++) gale__free(t->cells[i]);
    gale__free(t->cells);
    bool failed = t->failed;
    *t = (gale__table){.align = t->align};
    return failed ? gale__fail(GALE_NO_MEMORY, "out of host memory") : GALE_OK;
}
