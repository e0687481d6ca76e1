/* gale models: the models folder. */
#include "cli/cli.h"
#include "cli/models_pull.h"
#include "cli/table.h"
#include "base/env.h"
#include "base/file.h"
#include "base/json.h"
#include "jobs/upscale/embedded.h"
#include "jobs/models/fetch.h"
#include "jobs/batch/output.h"
#include "jobs/upscale/upscale.h"
#include <string.h>

static const gale__arg args[] = {
    {"ACTION", 0, GALE__ARG_CHOICE, NULL, "list", "list|info|check|search|pull",
        "list the folder, show one network, test each of them, search the catalogue, or download one"},
    {"NAME", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "info and check: a network, by name or file (check: default all); pull: a name in the catalogue, or a URL; "
        "search: part of a name, licence or URL (default: everything)"},
    {"models", 0, GALE__ARG_FILE, "FOLDER", NULL, NULL, "models folder (default: ~/.local/share/gale/models)",
        "GALE_MODELS"},
    {"sha256", 0, GALE__ARG_TEXT, "HEX", NULL, NULL, "pull: expected SHA-256 of the file"},
    {"unverified", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "pull: accept a file without a known SHA-256"},
    {"name", 'n', GALE__ARG_TEXT, NULL, NULL, NULL, "pull: name of the file here (default: its name there)"},
    {"catalogue", 0, GALE__ARG_FILE, NULL, NULL, NULL, "pull and search: where names are looked up", "GALE_CATALOGUE"},
    GALE__ARGS_DEVICE,
    GALE__ARG_JSON,
    {0},
};

/* The usual folder need not be there. */
static gale_status list_folder(gale__model_entry **list, size_t *count)
{
    gale__str folder = {0};
    bool named = *gale__env_get(GALE__ENV_MODELS);
    gale_status status = gale__models_folder(&folder);
    bool none = !named && (status != GALE_OK || !gale__file_exists(folder.text));
    if (none || status == GALE_OK) status = gale__models_list(none ? "" : folder.text, list, count);
    gale__str_finish(&folder);
    return status;
}

static void json_entry(gale__json_out *j, const gale__model_entry *e)
{
    const gale__manifest *m = &e->manifest;
    const struct {
        const char *key, *text;
    } texts[] = {
        {"name", m->name}, {"path", e->path ? e->path : ""}, {"description", m->description}, {"source", m->source}};
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"size_bytes", (int64_t)e->size_bytes}, {"scale", m->scale}, {"tile", m->tile},
        {"overlap", m->overlap}, {"controls", m->control_count}};
    gale__json_object(j);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gale__json_put_text(j, texts[i].key, texts[i].text);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        gale__json_put_i64(j, numbers[i].key, numbers[i].value);
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
    static const char *const heads[] = {"name", "scale", "tile", "overlap", "controls", "size", "file", "source"};
    gale__table t = {.align = "lrrrrrll"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t i = 0; i < count; i++) {
        const gale__manifest *m = &list[i].manifest;
        char size[32];
        gale__table_cell(&t, "%s", m->name);
        if (m->scale) gale__table_cell(&t, "%dx", m->scale);
        else gale__table_cell(&t, "?");
        gale__table_cell(&t, "%d", m->tile);
        gale__table_cell(&t, "%d", m->overlap);
        gale__table_cell(&t, "%d", m->control_count);
        gale__table_cell(&t, "%s", gale__bytes_text(list[i].size_bytes, size));
        gale__table_cell(&t, "%s", list[i].path ? strrchr(list[i].path, '/') + 1 : "embedded");
        gale__table_cell(&t, "%.60s", m->source);
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

static void print_value(const char *what, const gale_model_value *v)
{
    printf("%s %s: %s", what, v->name, gale_type_name(v->type));
    for (int i = 0; i < v->rank; i++) {
        printf("%s", i ? "," : "[");
        if (v->dims[i] >= 0) printf("%lld", (long long)v->dims[i]);
        else printf("%s", v->symbols[i] ? v->symbols[i] : "?");
    }
    printf("%s\n", v->rank > 0 ? "]" : "");
}

static void print_controls(const gale_upscaler *u)
{
    const char *name, *description;
    int place;
    float value;
    for (int i = 0; gale_upscaler_control(u, i, &name, &description, &place, &value); i++)
        printf(
            "  %d %-12s 0 to 1, default %g%s%s\n", place, name, (double)value, *description ? ": " : "", description);
}

static void print_info(const char *path, const gale_upscaler *u)
{
    const gale__manifest *m = gale__upscaler_manifest(u);
    const gale_model *model = gale__upscaler_model(u);
    gale_upscaler_info info;
    gale_model_value v;
    gale_upscaler_get_info(u, &info);
    printf("name     %s\nfile     %s\nmanifest %s\n", info.name, path, m->path ? m->path : m->absent ? "none" : path);
    if (*info.description) printf("about    %s\n", info.description);
    if (*info.source) printf("source   %s\n", info.source);
    for (int i = 0; i < gale_model_inputs(model); i++)
        if (gale_model_input(model, i, &v) == GALE_OK) print_value("input   ", &v);
    for (int i = 0; i < gale_model_outputs(model); i++)
        if (gale_model_output(model, i, &v) == GALE_OK) print_value("output  ", &v);
    const double(*range)[2] = gale__upscaler_network(u)->range;
    printf("scale    %dx\ntile     %d, overlap %d\nrange    %g to %g", info.scale, info.tile, info.overlap, range[0][0],
        range[0][1]);
    if (range[0][0] != range[1][0] || range[0][1] != range[1][1])
        printf(", the result %g to %g", range[1][0], range[1][1]);
    printf("%s\ncontrols %d", m->absent ? " (detected)" : "", info.controls);
    if (info.controls)
        printf(": of gale upscale, --control %s", m->named_count ? "NAME=VALUE" : "NUMBER=VALUE, counted from 0");
    printf("\n");
    print_controls(u);
}

static void json_controls(gale__json_out *j, const gale_upscaler *u)
{
    const char *name, *description;
    int place;
    float value;
    gale__json_open(j, "controls", '[');
    for (int i = 0; gale_upscaler_control(u, i, &name, &description, &place, &value); i++) {
        gale__json_object(j);
        gale__json_put_text(j, "name", name);
        gale__json_put_text(j, "description", description);
        gale__json_put_i64(j, "index", place);
        gale__json_put_f64(j, "default", (double)value);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

static void json_info(const char *path, const gale_upscaler *u)
{
    gale_upscaler_info info;
    gale__str out = {0};
    gale__json_out j;
    gale_upscaler_get_info(u, &info);
    const struct {
        const char *key, *text;
    } texts[] = {{"name", info.name}, {"path", path}, {"description", info.description}, {"source", info.source}};
    const struct {
        const char *key;
        int value;
    } numbers[] = {
        {"scale", info.scale}, {"tile", info.tile}, {"overlap", info.overlap}, {"control_size", info.controls}};
    gale__json_begin(&j, &out);
    gale__json_object(&j);
    for (int i = 0; i < 4; i++) {
        gale__json_put_text(&j, texts[i].key, texts[i].text);
        gale__json_put_i64(&j, numbers[i].key, numbers[i].value);
    }
    json_controls(&j, u);
    gale__json_close(&j, '}');
    gale__print(&out);
}

/* A picture with something in it, small enough for any network; what comes out is looked at as every result is. */
static gale_status try_picture(gale_upscaler *u)
{
    enum { SIDE = 32 };
    gale_picture *in = NULL, *out = NULL;
    GALE_TRY(gale_picture_create(SIDE, SIDE, 3, GALE_U8, &in));
    uint8_t *data = in->data;
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        data[i] = (uint8_t)((i % 7 * 20 + i / 3 % SIDE * 4 + i / (3 * SIDE) * 3) & 255);
    gale_status status = gale_upscale(u, in, NULL, NULL, &out);
    gale_picture_destroy(&in);
    gale_picture_destroy(&out);
    return status;
}

static gale_status check_digest(const char *path, const gale__manifest *m, bool *recorded)
{
    char wanted[65], hex[65];
    GALE_TRY(gale__model_digest(path, m, wanted));
    *recorded = *wanted;
    if (!*wanted) return GALE_OK;
    GALE_TRY(gale__file_sha256(path, hex, NULL));
    return strcmp(hex, wanted)
               ? gale__fail(GALE_MISMATCH, "%s: the file has changed: its SHA-256 is %s, not %s; download it again",
                     path, hex, wanted)
               : GALE_OK;
}

static gale_status check(const char *path, gale_upscaler *u, gale__json_out *j)
{
    gale_upscaler_info info;
    bool recorded = false, inside = gale__embedded_find(path);
    gale_status status = inside ? GALE_OK : check_digest(path, gale__upscaler_manifest(u), &recorded);
    if (status != GALE_OK) return status;
    gale_upscaler_get_info(u, &info);
    status = try_picture(u);
    if (status != GALE_OK) return gale__fail_within(status, "%s", info.name);
    const char *file = inside ? "embedded" : recorded ? "SHA-256 matches" : "no SHA-256 recorded";
    if (!j) return printf("%s: %dx, works, %s\n", info.name, info.scale, file), GALE_OK;
    gale__json_put_i64(j, "scale", info.scale);
    gale__json_put_text(j, "file", file);
    return GALE_OK;
}

static gale_status check_one(const char *name, gale_device *device, gale__json_out *j)
{
    gale__str path = {0};
    gale_upscaler *u = NULL;
    gale_status status;
    if (j) gale__json_object(j), gale__json_put_text(j, "name", name);
    GALE_GO(gale__model_find(name, &path));
    GALE_GO(gale_upscaler_open(path.text, device, NULL, &u));
    GALE_GO(check(path.text, u, j));
done:
    if (j) gale__json_put_bool(j, "works", status == GALE_OK);
    if (j && status != GALE_OK) gale__json_put_text(j, "error", gale_error());
    if (j) gale__json_close(j, '}');
    gale_upscaler_close(&u);
    gale__str_finish(&path);
    return status;
}

static gale_status show(const char *name, gale_device *device, bool json)
{
    gale__str path = {0};
    gale_upscaler *u = NULL;
    gale_status status;
    GALE_GO(gale__model_find(name, &path));
    GALE_GO(gale_upscaler_open(path.text, device, NULL, &u));
    (json ? json_info : print_info)(gale__embedded_find(path.text) ? "embedded" : path.text, u);
done:
    gale_upscaler_close(&u);
    gale__str_finish(&path);
    return status;
}

/* One network, or all of them. */
static int check_all(const char *only, gale_device *device, bool json)
{
    gale__model_entry *list = NULL;
    gale__str text = {0};
    gale__json_out j;
    size_t count = only ? 1 : 0, failed = 0;
    gale_status status = only ? GALE_OK : list_folder(&list, &count);
    if (status != GALE_OK) return gale__report(status);
    if (json) gale__json_begin(&j, &text), gale__json_array(&j);
    for (size_t i = 0; i < count; i++) {
        const char *name = only ? only : list[i].path ? list[i].path : list[i].manifest.name;
        if (gale__report(check_one(name, device, json ? &j : NULL)) != GALE__EXIT_OK) failed++;
    }
    if (!only) gale__models_finish(&list, count);
    if (json) gale__json_close(&j, ']');
    else if (!only) printf("%zu of %zu work\n", count - failed, count);
    int code = gale__print(&text);
    return failed ? GALE__EXIT_FAILED : code;
}

static int run(const gale__args *a)
{
    const char *action = gale__args_text(a, "ACTION"), *name = gale__args_text(a, "NAME");
    gale_device *device = NULL;
    if (!strcmp(action, "list")) return run_list(a);
    if (!strcmp(action, "pull")) return gale__models_pull(a);
    if (!strcmp(action, "search")) return gale__models_search(a);
    if (!strcmp(action, "info") && !name) return gale__usage("models", "info needs the name of a network");
    gale_status status = gale_device_open(NULL, &device);
    bool json = gale__args_flag(a, "json");
    int code = status != GALE_OK         ? gale__report(status)
               : strcmp(action, "check") ? gale__report(show(name, device, json))
                                         : check_all(name, device, json);
    gale_device_close(&device);
    return code;
}

const gale__command gale__command_models = {
    .args = args,
    .run = run,
    .about = "Lists the built-in networks and those in a folder with the contents of their manifests, shows one with "
             "its inputs and controls, or tests each with a small picture and verifies its SHA-256. pull downloads one "
             "from a URL, or by its name in a catalogue. It resumes an interrupted download, and the file appears only "
             "when it is complete and its SHA-256 matches.",
    .examples = "  gale models --models ~/models\n  gale models info zoom2x-ctrl --models ~/models\n  gale models "
                "check --models ~/models --provider cpu\n"
                "  gale models search zoom --catalogue models.yml\n"
                "  gale models pull https://example.org/zoom2x.onnx --sha256 HEX",
};
