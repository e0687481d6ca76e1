/* gale models: the folder of picture networks. */
#include "cli/cli.h"
#include "cli/table.h"
#include "base/env.h"
#include "base/json.h"
#include "gale/upscale.h"
#include "jobs/embedded.h"
#include "jobs/manifest.h"
#include "jobs/output.h"
#include <string.h>

static const gale__arg args[] = {
    {"ACTION", 0, GALE__ARG_CHOICE, NULL, "list", "list|info|check", "list the folder, show one network, or try each of them"},
    {"NAME", 0, GALE__ARG_FILE, NULL, NULL, NULL, "info and check: a network, by name or file; check: all unless given"},
    {"models", 0, GALE__ARG_FILE, "FOLDER", NULL, NULL, "the folder of models", "GALE_MODELS"},
    GALE__ARGS_DEVICE,
    GALE__ARG_JSON,
    {0},
};

static gale_status list_folder(gale__model_entry **list, size_t *count)
{
    return gale__models_list(gale__env_get(GALE__ENV_MODELS), list, count);
}

static void json_entry(gale__json_out *j, const gale__model_entry *e)
{
    const gale__manifest *m = &e->manifest;
    const struct { const char *key, *text; } texts[] = {{"name", m->name}, {"path", e->path ? e->path : ""}, {"description", m->description}, {"source", m->source}};
    const struct { const char *key; int value; } numbers[] = {{"scale", m->scale}, {"tile", m->tile}, {"overlap", m->overlap}, {"controls", m->control_count}};
    gale__json_object(j);
    for (int i = 0; i < 4; i++) {
        gale__json_key(j, texts[i].key);
        gale__json_string(j, texts[i].text);
    }
    for (int i = 0; i < 4; i++) {
        gale__json_key(j, numbers[i].key);
        gale__json_i64(j, numbers[i].value);
    }
    gale__json_close(j, '}');
}

static int print_json(const gale__model_entry *list, size_t count)
{
    gale__str out = {0};
    gale__json_out j;
    gale__json_begin(&j, &out);
    gale__json_array(&j);
    for (size_t i = 0; i < count; i++) json_entry(&j, &list[i]);
    gale__json_close(&j, ']');
    return gale__print(&out);
}

static int print_list(const gale__model_entry *list, size_t count)
{
    static const char *const heads[] = {"name", "scale", "tile", "overlap", "controls", "where", "description"};
    gale__table t = {.align = "lrrrrll"};
    for (int i = 0; i < 7; i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t i = 0; i < count; i++) {
        const gale__manifest *m = &list[i].manifest;
        gale__table_cell(&t, "%s", m->name);
        if (m->scale) gale__table_cell(&t, "%dx", m->scale);
        else gale__table_cell(&t, "?");
        gale__table_cell(&t, "%d", m->tile);
        gale__table_cell(&t, "%d", m->overlap);
        gale__table_cell(&t, "%d", m->control_count);
        gale__table_cell(&t, "%s", list[i].path ? "folder" : "embedded");
        gale__table_cell(&t, "%.60s", m->description);
    }
    return gale__report(gale__table_print(&t, stdout));
}

static int run_list(const gale__args *a)
{
    gale__model_entry *list = NULL;
    size_t count = 0;
    gale_status status = list_folder(&list, &count);
    if (status != GALE_OK) return gale__report(status);
    int code = gale__args_flag(a, "json") ? print_json(list, count) : print_list(list, count);
    gale__models_finish(&list, count);
    return code;
}

static void print_info(const char *path, const gale_upscaler *u)
{
    gale_upscaler_info info;
    const char *name, *description;
    int place;
    float value;
    gale_upscaler_get_info(u, &info);
    printf("name     %s\nfile     %s\n", info.name, path);
    if (*info.description) printf("about    %s\n", info.description);
    if (*info.source) printf("source   %s\n", info.source);
    printf("scale    %dx\ntile     %d, overlap %d\ncontrols %d\n", info.scale, info.tile, info.overlap, info.controls);
    for (int i = 0; gale_upscaler_control(u, i, &name, &description, &place, &value); i++) printf("  %-12s %d, usually %g%s%s\n", name, place, (double)value, *description ? ": " : "", description);
}

/* Opens the network, which runs it once. */
static gale_status look(const char *name, gale_device *device, bool brief)
{
    gale__str path = {0};
    gale_upscaler *u = NULL;
    gale_upscaler_info info;
    gale_status status;
    GALE_GO(gale__model_find(name, &path));
    GALE_GO(gale_upscaler_open(path.text, device, &u));
    gale_upscaler_get_info(u, &info);
    if (brief) printf("%s: %dx, works\n", info.name, info.scale);
    else print_info(gale__embedded_find(path.text) ? "embedded" : path.text, u);
done:
    gale_upscaler_close(&u);
    gale__str_finish(&path);
    return status;
}

static int check_all(gale_device *device)
{
    gale__model_entry *list = NULL;
    size_t count = 0;
    int failed = 0;
    gale_status status = list_folder(&list, &count);
    if (status != GALE_OK) return gale__report(status);
    for (size_t i = 0; i < count; i++)
        if (gale__report(look(list[i].path ? list[i].path : list[i].manifest.name, device, true)) != GALE__EXIT_OK) failed++;
    gale__models_finish(&list, count);
    printf("%d of %zu work\n", (int)count - failed, count);
    return failed ? GALE__EXIT_FAILED : GALE__EXIT_OK;
}

static int run(const gale__args *a)
{
    const char *action = gale__args_text(a, "ACTION"), *name = gale__args_text(a, "NAME");
    gale_device *device = NULL;
    if (!strcmp(action, "list")) return run_list(a);
    if (!strcmp(action, "info") && !name) return gale__usage("models", "info needs the name of a network");
    gale_status status = gale_device_open(NULL, &device);
    int code = status != GALE_OK ? gale__report(status) : name ? gale__report(look(name, device, !strcmp(action, "check"))) : check_all(device);
    gale_device_close(&device);
    return code;
}

const gale__command gale__command_models = {
    .args = args,
    .run = run,
    .about = "Lists the networks that are embedded and those of a folder with what their manifests say, shows one with its controls, or tries each of them with a small picture.",
    .examples = "  gale models --models ~/models\n  gale models info zoom2x-ctrl --models ~/models\n  gale models check --models ~/models --provider cpu",
};
