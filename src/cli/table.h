/* Tables in plain text: cells are added row by row, columns are as wide as they need to be.
 *
 *     gale__table t = {.align = "lr"};              // left, right: two columns
 *     gale__table_cell(&t, "name"); gale__table_cell(&t, "size");
 *     gale__table_cell(&t, "%s", x); gale__table_cell(&t, "%d", n);
 *     gale__table_print(&t, stdout);                // prints and frees
 *
 * The first row is the heading, bold on a terminal. */
#ifndef GALE_CLI_TABLE_H
#define GALE_CLI_TABLE_H
#include "base/str.h"
#include <stdio.h>

typedef struct gale__table {
    const char *align; /* a letter per column: l or r */
    char **cells;
    size_t count, capacity;
    bool failed;
} gale__table;
void gale__table_cell(gale__table *t, const char *format, ...) GALE__PRINTF(2, 3);
gale_status gale__table_print(gale__table *t, FILE *out);
#endif
