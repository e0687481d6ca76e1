/* Shell completion and manual pages, made from the same tables as the help. */
#include "cli/cli.h"
#include "base/env.h"
#include <ctype.h>
#include <string.h>

static void add_options(gale__str *out, const gale__arg *table)
{
    for (const gale__arg *a = table; a->name; a++) {
        if (gale__arg_is_positional(a)) continue;
        if (a->letter) gale__str_addf(out, " -%c", a->letter);
        gale__str_addf(out, " --%s", a->name);
    }
}

static void add_choices(gale__str *out, const char *range)
{
    for (const char *p = range; *p; p++) gale__str_add_n(out, *p == '|' ? " " : p, 1);
}

static void add_command_names(gale__str *out)
{
    for (const gale__command_row *r = gale__commands; r->name; r++) gale__str_addf(out, " %s", r->name);
}

/* The words that may follow an option or stand as a positional, as cases on "COMMAND:--option". */
static void add_value_cases(gale__str *out, const gale__command_row *r)
{
    for (const gale__arg *a = r->command->args; a->name; a++) {
        if (gale__arg_is_positional(a) || a->type == GALE__ARG_FLAG) continue;
        gale__str_addf(out, "        %s:--%s%s", r->name, a->name, a->letter ? "|" : "");
        if (a->letter) gale__str_addf(out, "%s:-%c", r->name, a->letter);
        const char *kind = gale__complete_kind(a);
        if (kind) gale__str_addf(out, ") words=$(\"${COMP_WORDS[0]}\" --complete %s 2>/dev/null)", kind);
        else gale__str_add(out, ") words='");
        if (!kind && a->type == GALE__ARG_CHOICE) add_choices(out, a->range);
        gale__str_addf(out, "%s; files=%d ;;\n", kind ? "" : "'", a->type == GALE__ARG_FILE);
    }
}

static void add_default_case(gale__str *out, const gale__command_row *r)
{
    bool files = false;
    gale__str_addf(out, "        %s:*) words='", r->name);
    for (const gale__arg *a = r->command->args; a->name; a++) {
        if (!gale__arg_is_positional(a)) continue;
        files = files || a->type == GALE__ARG_FILE;
        if (a->type == GALE__ARG_CHOICE) {
            add_choices(out, a->range);
            gale__str_add(out, " ");
        }
    }
    add_options(out, r->command->args);
    add_options(out, gale__args_common);
    gale__str_addf(out, "'; files=%d ;;\n", files);
}

void gale__complete_bash(gale__str *out)
{
    gale__str_add(out, "# bash completion for gale: source <(gale --completion bash)\n"
                       "_gale() {\n"
                       "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' files=0\n"
                       "    local command=${COMP_WORDS[1]}\n"
                       "    [ \"$COMP_CWORD\" -le 1 ] && command='' prev=''\n"
                       "    case \"$command:$prev\" in\n"
                       "        :*) words='");
    add_command_names(out);
    gale__str_add(out, " --help --version --completion --manual' ;;\n");
    gale__str_add(out, "        --completion:*) words='bash zsh fish' ;;\n        --manual:*|--help:*) words='");
    add_command_names(out);
    gale__str_add(out, " env' ;;\n");
    for (const gale__command_row *r = gale__commands; r->name; r++) {
        add_value_cases(out, r);
        add_default_case(out, r);
    }
    gale__str_add(out, "    esac\n"
                       "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                       "    [ \"$files\" = 1 ] && COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
                       "}\n"
                       "complete -o filenames -F _gale gale\n");
}

/* Inside single quotes; zsh gives some signs a meaning of their own. */
static void add_zsh_text(gale__str *out, const char *text, const char *special)
{
    for (const char *p = text; *p; p++)
        if (*p == '\'') gale__str_add(out, "'\\''");
        else gale__str_addf(out, strchr(special, *p) ? "\\%c" : "%c", *p);
}

/* zsh's own notation: '(-j --json)'{-j,--json}'[help]:value:action'. */
static void add_zsh_arg(gale__str *out, const gale__arg *a)
{
    gale__str_add(out, " \\\n            ");
    if (gale__arg_is_positional(a)) gale__str_addf(out, "'%s%s", a->many ? "*:" : ":", a->name);
    else if (a->letter) gale__str_addf(out, "{-%c,--%s}'[", a->letter, a->name);
    else gale__str_addf(out, "'--%s[", a->name);
    if (!gale__arg_is_positional(a)) {
        add_zsh_text(out, a->help, "[]:");
        gale__str_addf(out, a->type == GALE__ARG_FLAG ? "]" : "]:%s", a->name);
    }
    const char *kind = gale__complete_kind(a);
    if (kind && a->type == GALE__ARG_FILE)
        gale__str_addf(out, ":{compadd -- $(gale --complete %s 2>/dev/null); _files}", kind);
    else if (kind) gale__str_addf(out, ":{compadd -- $(gale --complete %s 2>/dev/null)}", kind);
    else if (a->type == GALE__ARG_CHOICE) {
        gale__str_add(out, ":(");
        add_choices(out, a->range);
        gale__str_add(out, ")");
    } else if (a->type == GALE__ARG_FILE) {
        gale__str_add(out, ":_files");
    } else if (a->type != GALE__ARG_FLAG) {
        gale__str_add(out, ": ");
    }
    gale__str_add(out, "'");
}

void gale__complete_zsh(gale__str *out)
{
    gale__str_add(out, "#compdef gale\n"
                       "# zsh completion for gale: source <(gale --completion zsh)\n"
                       "_gale() {\n"
                       "    if (( CURRENT == 2 )); then\n"
                       "        local -a commands=(");
    for (const gale__command_row *r = gale__commands; r->name; r++) {
        gale__str_addf(out, "\n            '%s:", r->name);
        add_zsh_text(out, r->help, ":");
        gale__str_add(out, "'");
    }
    gale__str_add(out,
        ")\n        _describe command commands\n        return\n    fi\n    local command=$words[2]\n    shift words\n"
        "    (( CURRENT-- ))\n    case $command in\n");
    for (const gale__command_row *r = gale__commands; r->name; r++) {
        gale__str_addf(out, "        %s) _arguments", r->name);
        for (const gale__arg *a = r->command->args; a->name; a++) add_zsh_arg(out, a);
        for (const gale__arg *a = gale__args_common; a->name; a++) add_zsh_arg(out, a);
        gale__str_add(out, " ;;\n");
    }
    gale__str_add(out, "    esac\n}\ncompdef _gale gale\n");
}

/* roff takes a leading dot or apostrophe for a request, and '-' for a hyphen. */
static void add_roff(gale__str *out, const char *text)
{
    bool start = true;
    for (const char *p = text; *p; p++) {
        if (start && (*p == '.' || *p == '\'')) gale__str_add(out, "\\&");
        start = *p == '\n';
        if (*p == '\\') gale__str_add(out, "\\e");
        else if (*p == '-') gale__str_add(out, "\\-");
        else gale__str_add_n(out, p, 1);
    }
}

static void add_tag(gale__str *out, const char *tag, const char *text)
{
    gale__str_add(out, ".TP\n.B ");
    add_roff(out, tag);
    gale__str_add(out, "\n");
    add_roff(out, text);
    gale__str_add(out, "\n");
}

static void add_manual_args(gale__str *out, const gale__arg *table)
{
    for (const gale__arg *a = table; a->name; a++) {
        gale__str tag = {0}, text = {0};
        bool positional = gale__arg_is_positional(a);
        if (positional) gale__str_add(&tag, a->name);
        else if (a->letter) gale__str_addf(&tag, "-%c, --%s", a->letter, a->name);
        else gale__str_addf(&tag, "--%s", a->name);
        if (!positional && a->type != GALE__ARG_FLAG) gale__str_addf(&tag, " %s", gale__arg_value_name(a));
        gale__str_addf(&text, "%s.", a->help);
        if (a->range) gale__str_addf(&text, " Range: %s.", a->range);
        if (a->fallback) gale__str_addf(&text, " Default: %s.", a->fallback);
        if (a->env) gale__str_addf(&text, " Sets %s.", a->env);
        add_tag(out, gale__str_text(&tag), gale__str_text(&text));
        out->failed = out->failed || tag.failed || text.failed;
        gale__str_finish(&tag);
        gale__str_finish(&text);
    }
}

static void add_codes(gale__str *out)
{
    gale__str_add(out, ".SH EXIT STATUS\n");
    for (int i = 0; i < GALE__EXIT_COUNT; i++) add_tag(out, (char[]){(char)('0' + i), 0}, gale__exit_texts[i]);
}

void gale__manual(const gale__command_row *row, gale__str *out)
{
    gale__str_addf(out, ".TH GALE%s", row ? "-" : "");
    for (const char *p = row ? row->name : ""; *p; p++) gale__str_addf(out, "%c", toupper((unsigned char)*p));
    gale__str_addf(out, " 1 \"\" \"gale %s\"\n.SH NAME\ngale", gale_version());
    if (row)
        gale__str_addf(out, "\\-%s \\- %s\n.SH SYNOPSIS\n.B gale %s\n[options] [arguments]\n.SH DESCRIPTION\n",
            row->name, row->help, row->name);
    else
        gale__str_add(out, " \\- the same result on every device\n.SH SYNOPSIS\n.B gale\nCOMMAND [options] "
                           "[arguments]\n.SH COMMANDS\n");
    if (row) {
        add_roff(out, row->command->about ? row->command->about : row->help);
        gale__str_add(out, "\n.SH OPTIONS\n");
        add_manual_args(out, row->command->args);
        add_manual_args(out, gale__args_common);
        if (row->command->examples) {
            gale__str_add(out, ".SH EXAMPLES\n.nf\n");
            add_roff(out, row->command->examples);
            gale__str_add(out, "\n.fi\n");
        }
    } else {
        for (const gale__command_row *r = gale__commands; r->name; r++) add_tag(out, r->name, r->help);
        gale__str_add(out, ".SH ENVIRONMENT\n");
        for (int i = 0; i < GALE__ENV_COUNT; i++) add_tag(out, gale__env_table[i].name, gale__env_table[i].help);
    }
    add_codes(out);
}
