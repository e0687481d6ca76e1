/* The three forms of `--help`, generated from the tables. */
#include "cli/cli.h"
#include "base/env.h"
#include <string.h>

#define WIDTH 80
#define COLUMN 28 /* where help texts begin */

static void pad(gale__str *out, int n)
{
    for (; n > 0; n--) gale__str_add(out, " ");
}

void gale__wrap(gale__str *out, int indent, int at, const char *text)
{
    bool fresh = true; /* at the start of a line: no space in front of the word */
    for (const char *p = text; *p;) {
        if (*p == '\n') {
            gale__str_add(out, "\n");
            p++;
            at = 0;
            fresh = true;
            continue;
        }
        int n = (int)strcspn(p, " \n");
        if (n && !fresh && at + 1 + n > WIDTH) {
            gale__str_add(out, "\n");
            at = 0;
            fresh = true;
        }
        if (n) {
            if (at < indent) {
                pad(out, indent - at);
                at = indent;
            } else if (!fresh) {
                gale__str_add(out, " ");
                at++;
            }
            gale__str_add_n(out, p, (size_t)n);
            at += n;
            fresh = false;
        }
        p += n;
        p += strspn(p, " ");
    }
    gale__str_add(out, "\n");
}

/* "  left             right, wrapped" */
static void add_row(gale__str *out, const char *left, const char *right)
{
    gale__str_addf(out, "  %s", left);
    int at = 2 + (int)strlen(left);
    if (at + 2 > COLUMN) {
        gale__str_add(out, "\n");
        at = 0;
    }
    gale__wrap(out, COLUMN, at, right);
}

/* The help text with the limits of the value: default, range, variable.  A text that ends with its own "(default: ...)"
 * is continued, so that there is one pair of parentheses. */
static void describe(const gale__arg *arg, gale__str *out)
{
    const char *open = strrchr(arg->help, '(');
    size_t length = strlen(arg->help);
    bool continued = open && !strncmp(open, "(default", 8) && arg->help[length - 1] == ')';
    const char *sep = continued ? "; " : " (";
    gale__str_add_n(out, arg->help, continued ? length - 1 : length);
    if (arg->range && (arg->type != GALE__ARG_CHOICE || gale__arg_is_positional(arg))) {
        gale__str_addf(out, "%s%s", sep, arg->range);
        sep = "; ";
    }
    if (arg->fallback) {
        gale__str_addf(out, "%sdefault: %s", sep, arg->fallback);
        sep = "; ";
    }
    if (arg->env) {
        gale__str_addf(out, "%ssets %s", sep, arg->env);
        sep = "; ";
    }
    if (sep[0] == ';') gale__str_add(out, ")");
}

static void add_arg(gale__str *out, const gale__arg *arg)
{
    gale__str left = {0}, right = {0};
    if (gale__arg_is_positional(arg)) gale__str_addf(&left, "%s%s", arg->name, arg->many ? "..." : "");
    else if (arg->letter) gale__str_addf(&left, "-%c, --%s", arg->letter, arg->name);
    else gale__str_addf(&left, "    --%s", arg->name);
    if (!gale__arg_is_positional(arg) && arg->type != GALE__ARG_FLAG)
        gale__str_addf(&left, " %s", gale__arg_value_name(arg));
    describe(arg, &right);
    add_row(out, gale__str_text(&left), gale__str_text(&right));
    out->failed = out->failed || left.failed || right.failed;
    gale__str_finish(&left);
    gale__str_finish(&right);
}

static void add_args(gale__str *out, const char *title, const gale__arg *table, bool positional)
{
    for (const gale__arg *a = table; a->name; a++) {
        if (gale__arg_is_positional(a) != positional) continue;
        if (title) gale__str_addf(out, "\n%s:\n", title);
        title = NULL;
        add_arg(out, a);
    }
}

void gale__help_command(const gale__command_row *row, gale__str *out)
{
    gale__str_addf(out, "usage: gale %s [options]", row->name);
    for (const gale__arg *a = row->command->args; a->name; a++)
        if (gale__arg_is_positional(a))
            gale__str_addf(out, a->required ? " %s%s" : " [%s%s]", a->name, a->many ? "..." : "");
    gale__str_add(out, "\n\n");
    gale__wrap(out, 0, 0, row->command->about ? row->command->about : row->help);
    add_args(out, "arguments", row->command->args, true);
    add_args(out, "options", row->command->args, false);
    add_args(out, "common options", gale__args_common, false);
    if (row->command->examples) gale__str_addf(out, "\nexamples:\n%s\n", row->command->examples);
}

static void add_group(gale__str *out, const char *group)
{
    gale__str_addf(out, "\n%s:\n", group);
    for (const gale__command_row *r = gale__commands; r->name; r++)
        if (!strcmp(r->group, group)) add_row(out, r->name, r->help);
}

void gale__help_program(gale__str *out)
{
    gale__str_add(out, "usage: gale COMMAND [options] [arguments]\n\n"
                       "  gale upscale photo.jpg                         # twice as large: photo-zoom2x.jpg\n"
                       "  gale exr thumbs renders --output-dir small     # thumbnails of OpenEXR files\n"
                       "  gale embed texts.txt -m all-MiniLM-L6-v2 -o vectors.npy\n"
                       "  gale run model.onnx --input x=photo.npy --output y=out.npy\n"
                       "  gale devices                                   # what this machine has\n\n");
    gale__wrap(out, 0, 0,
        "gale runs neural networks and image processing on any CPU or GPU, with the same result on CPU, CUDA, HIP, "
        "OpenCL and Vulkan. It reports what ran where and why.");
    for (const gale__command_row *r = gale__commands; r->name; r++) {
        const gale__command_row *first = gale__commands;
        while (strcmp(first->group, r->group)) first++;
        if (first == r) add_group(out, r->group);
    }
    gale__str_add(out, "\nmore help:\n");
    add_row(out, "gale COMMAND --help", "options and examples of a command");
    add_row(out, "gale --help env", "environment variables");
    add_row(out, "gale --version", "print the version");
    add_row(out, "gale --completion SHELL", "print completions for bash, zsh or fish");
    add_row(out, "gale --manual [COMMAND]", "print a manual page, for man -l -");
    gale__str_add(out, "\nexit codes:\n");
    for (int i = 0; i < GALE__EXIT_COUNT; i++) add_row(out, (char[]){(char)('0' + i), 0}, gale__exit_texts[i]);
}

void gale__help_env(gale__str *out)
{
    gale__wrap(out, 0, 0,
        "Environment variables. A command-line option overrides a variable, and gale's own variable overrides its "
        "aliases. An empty variable counts as unset.\n");
    for (int i = 0; i < GALE__ENV_COUNT; i++) {
        const gale__env_row *r = &gale__env_table[i];
        gale__str text = {0};
        gale__str_add(&text, r->help);
        if (*r->value) gale__str_addf(&text, " (default: %s)", r->value);
        if (r->aliases) gale__str_addf(&text, " (alias: %s)", r->aliases);
        add_row(out, r->name, gale__str_text(&text));
        out->failed = out->failed || text.failed;
        gale__str_finish(&text);
    }
}
