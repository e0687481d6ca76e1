/* Parses a command's arguments by its table.  Every error names the argument, the given value, and what was expected.
 * */
#include "cli/args.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gale__arg gale__args_common[] = {
    {"help", 'h', GALE__ARG_FLAG, NULL, NULL, NULL, "print this help and exit"},
    {"verbose", 'v', GALE__ARG_FLAG, NULL, NULL, NULL, "print more details to stderr: what was chosen and why"},
    {"quiet", 'q', GALE__ARG_FLAG, NULL, NULL, NULL, "print no warnings and no progress"},
    {0},
};

static const gale__arg *find_in(const gale__arg *table, const char *name, size_t length, char letter)
{
    for (const gale__arg *a = table; a->name; a++)
        if (letter ? a->letter == letter : strlen(a->name) == length && !strncmp(a->name, name, length)) return a;
    return NULL;
}

static const gale__arg *find_arg(const gale__arg *table, const char *name, size_t length, char letter)
{
    const gale__arg *a = find_in(table, name, length, letter);
    if (!a) a = find_in(gale__args_common, name, length, letter);
    return a && gale__arg_is_positional(a) && !letter ? NULL : a;
}

const char *gale__arg_value_name(const gale__arg *arg)
{
    if (arg->value) return arg->value;
    switch (arg->type) {
    case GALE__ARG_INT: return "N";
    case GALE__ARG_REAL: return "X";
    case GALE__ARG_FILE: return "FILE";
    case GALE__ARG_CHOICE: return arg->range;
    default: return "TEXT";
    }
}

/* How the user wrote it: "--limit" or "ACTION". */
static const char *shown(const gale__arg *arg) { return gale__arg_is_positional(arg) ? "" : "--"; }

static bool in_choices(const char *choices, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = choices; *p;) {
        size_t m = strcspn(p, "|");
        if (m == n && !strncmp(p, word, n)) return true;
        p += m + (p[m] == '|');
    }
    return false;
}

static bool in_range(const char *range, double v)
{
    const char *dots = range ? strstr(range, "..") : NULL;
    if (!dots) return true;
    char low[32] = {0};
    double a, b;
    memcpy(low, range, (size_t)(dots - range) < sizeof low ? (size_t)(dots - range) : sizeof low - 1);
    return gale__text_to_f64(low, &a) && gale__text_to_f64(dots + 2, &b) && v >= a && v <= b;
}

static gale_status check_value(const gale__arg *arg, const char *text)
{
    int64_t whole;
    double real = 0;
    bool number = arg->type == GALE__ARG_INT ? gale__text_to_i64(text, &whole) : gale__text_to_f64(text, &real);
    if (arg->type == GALE__ARG_INT && number) real = (double)whole;
    switch (arg->type) {
    case GALE__ARG_INT:
    case GALE__ARG_REAL:
        if (!number)
            return gale__fail(GALE_INVALID, "%s%s: '%s' is not a %snumber", shown(arg), arg->name, text,
                arg->type == GALE__ARG_INT ? "whole " : "");
        if (!in_range(arg->range, real))
            return gale__fail(GALE_INVALID, "%s%s: %s is outside %s", shown(arg), arg->name, text, arg->range);
        return GALE_OK;
    case GALE__ARG_CHOICE:
        if (!in_choices(arg->range, text))
            return gale__fail(GALE_INVALID, "%s%s: '%s' is not one of %s", shown(arg), arg->name, text, arg->range);
        return GALE_OK;
    default:
        if (!*text && !arg->empty) return gale__fail(GALE_INVALID, "%s%s: the value is empty", shown(arg), arg->name);
        return GALE_OK;
    }
}

static gale_status keep(gale__args *a, const gale__arg *arg, const char *text)
{
    if (arg->type != GALE__ARG_FLAG) GALE_TRY(check_value(arg, text));
    if (arg->env) setenv(arg->env, text, 1);
    a->items[a->count++] = (struct gale__args_entry){arg, text};
    return GALE_OK;
}

static gale_status fail_unknown(const gale__arg *table, const char *given)
{
    const char *names[64];
    char text[64];
    size_t n = 0, length = strcspn(given, "=");
    for (const gale__arg *a = table; a->name && n < 60; a++)
        if (!gale__arg_is_positional(a)) names[n++] = a->name;
    for (const gale__arg *a = gale__args_common; a->name && n < 63; a++) names[n++] = a->name;
    names[n] = NULL;
    snprintf(text, sizeof text, "%.*s", length < 63 ? (int)length : 63, given);
    const char *near = gale__nearest(text + strspn(text, "-"), names);
    if (near) return gale__fail(GALE_INVALID, "unknown option '%s'; did you mean '--%s'?", text, near);
    return gale__fail(GALE_INVALID, "unknown option '%s'", text);
}

/* Takes the option at argv[*i], and its value from the next word where it is not in the same one. */
static gale_status take_option(gale__args *a, int argc, char **argv, int *i)
{
    const char *word = argv[*i], *value = NULL;
    bool wide = word[1] == '-';
    size_t length = strcspn(word + 2, "=");
    const gale__arg *arg = wide ? find_arg(a->table, word + 2, length, 0) : find_arg(a->table, NULL, 0, word[1]);
    if (!arg) return fail_unknown(a->table, word);
    if (wide && word[2 + length] == '=') value = word + 3 + length;
    else if (!wide && word[2]) value = word + 2;
    if (arg->type == GALE__ARG_FLAG)
        return value ? gale__fail(GALE_INVALID, "--%s takes no value, but '%s' was given", arg->name, value)
                     : keep(a, arg, "1");
    if (!value && *i + 1 < argc) value = argv[++*i];
    if (!value) return gale__fail(GALE_INVALID, "--%s needs a value: %s", arg->name, gale__arg_value_name(arg));
    return keep(a, arg, value);
}

static const gale__arg *next_positional(const gale__arg *from)
{
    while (from->name && !gale__arg_is_positional(from)) from++;
    return from->name ? from : NULL;
}

static gale_status take_words(gale__args *a, int argc, char **argv)
{
    const gale__arg *place = next_positional(a->table);
    bool options = true;
    for (int i = 0; i < argc; i++) {
        if (options && !strcmp(argv[i], "--")) {
            options = false;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            GALE_TRY(take_option(a, argc, argv, &i));
        } else {
            if (!place) return gale__fail(GALE_INVALID, "unexpected argument '%s'", argv[i]);
            GALE_TRY(keep(a, place, argv[i]));
            if (!place->many) place = next_positional(place + 1);
        }
    }
    return GALE_OK;
}

gale_status gale__args_parse(const gale__arg *table, int argc, char **argv, gale__args *out)
{
    gale__args a = {.table = table, .items = gale__calloc((size_t)argc + 1, sizeof *a.items)};
    if (!a.items) return GALE_NO_MEMORY;
    gale_status status = take_words(&a, argc, argv);
    bool help = status == GALE_OK && gale__args_flag(&a, "help");
    for (const gale__arg *arg = table; status == GALE_OK && !help && arg->name; arg++)
        if (arg->required && !gale__args_given(&a, arg->name))
            status = gale__fail(GALE_INVALID, "missing argument: %s%s", shown(arg), arg->name);
    if (status == GALE_OK) *out = a;
    else gale__args_finish(&a);
    return status;
}

void gale__args_finish(gale__args *a)
{
    gale__free(a->items);
    *a = (gale__args){0};
}

const char *gale__args_item(const gale__args *a, const char *name, size_t i)
{
    for (size_t k = 0; k < a->count; k++)
        if (!strcmp(a->items[k].arg->name, name) && i-- == 0) return a->items[k].text;
    return NULL;
}

bool gale__args_given(const gale__args *a, const char *name) { return gale__args_item(a, name, 0) != NULL; }

const char *gale__args_text(const gale__args *a, const char *name)
{
    for (size_t k = a->count; k-- > 0;)
        if (!strcmp(a->items[k].arg->name, name)) return a->items[k].text;
    const gale__arg *arg = find_in(a->table, name, strlen(name), 0);
    return arg ? arg->fallback : NULL;
}

bool gale__args_flag(const gale__args *a, const char *name) { return gale__args_given(a, name); }

int64_t gale__args_int(const gale__args *a, const char *name)
{
    const char *text = gale__args_text(a, name);
    int64_t v;
    return text && gale__text_to_i64(text, &v) ? v : 0;
}

double gale__args_real(const gale__args *a, const char *name)
{
    const char *text = gale__args_text(a, name);
    double v;
    return text && gale__text_to_f64(text, &v) ? v : 0;
}

/* How many letters have to be changed, added, dropped or swapped with their neighbour. */
static int distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    int rows[3][MOST + 1], n = (int)strlen(a), m = (int)strlen(b);
    if (n > MOST || m > MOST) return MOST;
    for (int j = 0; j <= m; j++) rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int same = above[j - 1] + (tolower((unsigned char)a[i - 1]) != b[j - 1]);
            int best = above[j] + 1 < row[j - 1] + 1 ? above[j] + 1 : row[j - 1] + 1;
            if (same < best) best = same;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *gale__nearest(const char *word, const char *const *list)
{
    const char *best = NULL;
    int least = (int)strlen(word) / 3 + 2;
    for (; *list; list++) {
        size_t n = strlen(word);
        int d = n > 2 && !strncmp(*list, word, n) ? 1 : distance(word, *list);
        if (d < least) {
            least = d;
            best = *list;
        }
    }
    return best;
}

bool gale__args_part(const gale__args *a, int *part, int *parts)
{
    int used = 0;
    const char *text = gale__args_text(a, "part");
    *part = *parts = 0;
    if (!text) return true;
    bool numbers = sscanf(text, "%6d/%6d%n", part, parts, &used) == 2 && !text[used];
    return numbers && *part >= 1 && (*part)-- <= *parts;
}
