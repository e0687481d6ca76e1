/* gale models search: what the catalogue has. */
#include "cli/models_pull.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/table.h"
#include "jobs/models/manifest.h"
#include <string.h>
#include <strings.h>

static bool holds(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (; text && *text; text++)
        if (!strncasecmp(text, word, n)) return true;
    return !n;
}

static bool matches(const gale__offer *o, const char *word)
{
    return !word || holds(o->name, word) || holds(o->licence, word) || holds(o->url, word);
}

/* Whether it has been fetched. */
static bool is_here(const gale__offer *o)
{
    gale__str folder = {0}, file = {0}, path = {0};
    bool here = gale__models_folder(&folder) == GALE_OK && gale__model_file_name(o->name, &file) == GALE_OK;
    if (here) gale__str_addf(&path, "%s/%s", folder.text, file.text);
    here = here && !path.failed && gale__file_exists(path.text);
    gale__str_finish(&folder);
    gale__str_finish(&file);
    gale__str_finish(&path);
    return here;
}

static int print_json(const gale__catalogue *c, const char *word)
{
    gale__str out = {0};
    gale__json_out j;
    gale__json_begin(&j, &out);
    gale__json_array(&j);
    for (size_t i = 0; i < c->count; i++) {
        const gale__offer *o = &c->offers[i];
        if (!matches(o, word)) continue;
        gale__json_object(&j);
        const char *const texts[][2] = {{"name", o->name}, {"url", o->url}, {"licence", o->licence},
            {"sha256", o->sha256 ? o->sha256 : ""}, {"manifest", o->manifest}};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            gale__json_put_text(&j, texts[k][0], texts[k][1]);
        }
        gale__json_put_i64(&j, "size_bytes", (int64_t)o->size_bytes);
        gale__json_put_bool(&j, "here", is_here(o));
        gale__json_close(&j, '}');
    }
    gale__json_close(&j, ']');
    return gale__print(&out);
}

static int print_table(const gale__catalogue *c, const char *word, const char *path)
{
    static const char *const heads[] = {"name", "size", "licence", "here", "url"};
    gale__table t = {.align = "lrlll"};
    size_t found = 0;
    char size[32];
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t i = 0; i < c->count; i++) {
        const gale__offer *o = &c->offers[i];
        if (!matches(o, word)) continue;
        found++;
        gale__table_cell(&t, "%s", o->name);
        gale__table_cell(&t, "%s", o->size_bytes ? gale__bytes_text(o->size_bytes, size) : "?");
        gale__table_cell(&t, "%s", *o->licence ? o->licence : "not stated");
        gale__table_cell(&t, "%s", is_here(o) ? "yes" : "no");
        gale__table_cell(&t, "%.80s", o->url);
    }
    int code = gale__report(gale__table_print(&t, stdout));
    printf("%zu of %zu models in %s; `gale models pull NAME` fetches one\n", found, c->count, path);
    return code;
}

int gale__models_search(const gale__args *a)
{
    gale__str path = {0};
    gale__catalogue c = {0};
    const char *word = gale__args_text(a, "NAME");
    gale_status status = gale__models_catalogue(&path);
    if (status == GALE_OK) status = gale__catalogue_read(path.text, &c);
    int code = status != GALE_OK            ? gale__report(status)
               : gale__args_flag(a, "json") ? print_json(&c, word)
                                            : print_table(&c, word, path.text);
    gale__catalogue_finish(&c);
    gale__str_finish(&path);
    return code;
}
