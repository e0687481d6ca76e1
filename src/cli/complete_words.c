/* Completion that the tables alone cannot give: words that depend on the machine (`gale --complete providers|models`,
 * which the shells' scripts ask), and fish, whose script is a list of rules. */
#include "cli/cli.h"
#include "base/file.h"
#include "device/registry.h"
#include "jobs/models/manifest.h"
#include "jobs/upscale/embedded.h"
#include <string.h>

const char *gale__complete_kind(const gale__arg *a)
{
    if (!strcmp(a->name, "provider") || !strcmp(a->name, "try")) return "providers";
    return !strcmp(a->name, "model") ? "models" : NULL;
}

static void add_providers(gale__str *out)
{
    int count;
    const gale__provider *all = gale__providers(&count);
    for (int i = 0; i < count; i++)
        if (all[i].rank) gale__str_addf(out, "%s\n", all[i].name);
}

/* A folder that is not there has none but those that are embedded. */
static gale_status add_models(gale__str *out)
{
    gale__str folder = {0};
    gale__model_entry *list = NULL;
    size_t count = 0;
    gale_status status = gale__models_folder(&folder);
    bool none = status != GALE_OK || !gale__folder_exists(folder.text);
    status = gale__models_list(none ? "" : folder.text, &list, &count);
    if (status == GALE_OK) gale__str_addf(out, "%s\n", GALE__EMBEDDED_AUTO);
    for (size_t i = 0; i < count && status == GALE_OK; i++) gale__str_addf(out, "%s\n", list[i].manifest.name);
    gale__models_finish(&list, count);
    gale__str_finish(&folder);
    return status;
}

int gale__complete_words(const char *kind)
{
    gale__str out = {0};
    gale_status status = GALE_OK;
    if (kind && !strcmp(kind, "providers")) add_providers(&out);
    else if (kind && !strcmp(kind, "models")) status = add_models(&out);
    else return gale__usage(NULL, "--complete needs providers or models");
    if (status == GALE_OK) return gale__print(&out);
    gale__str_finish(&out);
    return gale__report(status);
}

/* Text between single quotes, of which fish knows two escapes. */
static void add_quoted(gale__str *out, const char *text)
{
    gale__str_add(out, "'");
    for (const char *p = text; *p; p++) gale__str_addf(out, *p == '\'' || *p == '\\' ? "\\%c" : "%c", *p);
    gale__str_add(out, "'");
}

static void add_choices(gale__str *out, const char *range)
{
    gale__str_add(out, " -x -a '");
    for (const char *p = range; *p; p++) gale__str_add_n(out, *p == '|' ? " " : p, 1);
    gale__str_add(out, "'");
}

static void add_fish_arg(gale__str *out, const char *command, const gale__arg *a)
{
    const char *kind = gale__complete_kind(a);
    bool positional = gale__arg_is_positional(a);
    if (positional && a->type != GALE__ARG_CHOICE && a->type != GALE__ARG_FILE) return;
    gale__str_addf(out, "complete -c gale -n '__fish_seen_subcommand_from %s'", command);
    if (!positional) gale__str_addf(out, " -l %s", a->name);
    if (!positional && a->letter) gale__str_addf(out, " -s %c", a->letter);
    if (kind) gale__str_addf(out, " %s -a '(gale --complete %s 2>/dev/null)'", *kind == 'm' ? "-r -F" : "-x", kind);
    else if (a->type == GALE__ARG_CHOICE) add_choices(out, a->range);
    else if (a->type == GALE__ARG_FILE) gale__str_add(out, positional ? " -F" : " -r -F");
    else if (a->type != GALE__ARG_FLAG) gale__str_add(out, " -x");
    if (!positional) gale__str_add(out, " -d ");
    if (!positional) add_quoted(out, a->help);
    gale__str_add(out, "\n");
}

void gale__complete_fish(gale__str *out)
{
    gale__str_add(out, "# fish completion for gale: gale --completion fish | source\ncomplete -c gale -f\n");
    for (const gale__command_row *r = gale__commands; r->name; r++) {
        gale__str_addf(out, "complete -c gale -n __fish_use_subcommand -a %s -d ", r->name);
        add_quoted(out, r->help);
        gale__str_add(out, "\n");
        for (const gale__arg *a = r->command->args; a->name; a++) add_fish_arg(out, r->name, a);
        for (const gale__arg *a = gale__args_common; a->name; a++) add_fish_arg(out, r->name, a);
    }
}
