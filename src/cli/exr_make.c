/* gale exr layers, mip and denoise: list, split and merge channels; make files from files. */
#include "cli/cmd_exr.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/progress.h"
#include "jobs/batch/output.h"
#include <string.h>

static void text_layer(gale__str *s, const gale_exr *f, const gale_exr_layer *l)
{
    const gale_exr_part *p = gale_exr_part_get(f, l->part);
    gale__str_addf(s, "  %s%s%s:", p->name, *p->name && *l->name ? "." : "",
        *l->name   ? l->name
        : *p->name ? ""
                   : "(unnamed)");
    for (int i = 0; i < l->channel_count; i++) {
        const char *dot = strrchr(l->channels[i]->name, '.');
        gale_type type = l->channels[i]->type;
        gale__str_addf(s, " %s", dot ? dot + 1 : l->channels[i]->name);
        if (i + 1 == l->channel_count || l->channels[i + 1]->type != type)
            gale__str_addf(s, " (%s)", gale_type_name(type));
    }
    gale__str_add(s, "\n");
}

static void json_layer(gale__json_out *j, const gale_exr *f, const gale_exr_layer *l)
{
    gale__json_object(j);
    gale__json_put_text(j, "part", gale_exr_part_get(f, l->part)->name);
    gale__json_put_text(j, "layer", l->name);
    gale__json_open(j, "channels", '[');
    for (int i = 0; i < l->channel_count; i++) gale__json_string(j, l->channels[i]->name);
    gale__json_close(j, ']');
    gale__json_close(j, '}');
}

/* STEM.PART.LAYER.exr, with what a path cannot hold replaced. */
static gale_status split_layer(const gale__args *a, const char *path, gale_exr *f, const gale_exr_layer *l)
{
    const gale_exr_part *p = gale_exr_part_get(f, l->part);
    gale__str suffix = {0}, name = {0};
    gale__str_addf(&suffix, "%s%s%s%s", *p->name ? "." : "", p->name, *l->name ? "." : "", l->name);
    if (!suffix.length) gale__str_add(&suffix, ".colour");
    for (size_t i = 0; i < suffix.length && suffix.text; i++)
        if (suffix.text[i] == '/' || (unsigned char)suffix.text[i] < ' ') suffix.text[i] = '-';
    gale_status status = gale__str_check(&suffix);
    if (status == GALE_OK)
        status = gale__output_name(path, gale__args_text(a, "output-dir"), suffix.text, "exr", &name);
    if (status == GALE_OK && gale__file_same(name.text, path))
        status = gale__fail(GALE_INVALID, "%s: a layer would overwrite this file; use --output-dir", path);
    if (status == GALE_OK) {
        status = gale_exr_layer_write(f, l, name.text, gale__args_text(a, "compression"));
        if (status != GALE_OK) gale__fail_within(status, "%s", path);
    }
    if (status == GALE_OK && !gale__args_flag(a, "json")) gale__print_line(stdout, "%s", name.text);
    gale__str_finish(&suffix);
    gale__str_finish(&name);
    return status;
}

static gale_status list_file(const gale__args *a, const char *path, gale__str *text, gale__json_out *j)
{
    gale_exr *f = NULL;
    gale_exr_layer *list = NULL;
    int count = 0;
    bool split = gale__args_flag(a, "split");
    gale_status status;
    GALE_TRY(gale_exr_open(path, NULL, &f));
    GALE_GO(gale_exr_layers(f, &list, &count));
    if (!j && !split) gale__str_addf(text, "%s\n", path);
    for (int i = 0; i < count; i++)
        if (split) GALE_GO(split_layer(a, path, f, &list[i]));
        else if (j) json_layer(j, f, &list[i]);
        else text_layer(text, f, &list[i]);
done:
    gale_exr_layers_free(&list, count);
    gale_exr_close(&f);
    return status;
}

/* What a file is called without folder and extension. */
static const char *stem_of(gale__inputs *in, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return gale__arena_printf(&in->arena, "%.*s", (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name)), name);
}

static gale_status merge(const gale__args *a, gale__inputs *in)
{
    gale_exr **files = gale__calloc(in->count + 1, sizeof *files);
    const char **names = gale__calloc(in->count + 1, sizeof *names);
    gale_status status = files && names ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; i < in->count && status == GALE_OK; i++) {
        names[i] = stem_of(in, in->list[i].path);
        status = names[i] ? gale_exr_open(in->list[i].path, NULL, &files[i]) : GALE_NO_MEMORY;
    }
    if (status == GALE_OK)
        status = gale_exr_merge(
            files, names, (int)in->count, gale__args_text(a, "merge"), gale__args_text(a, "compression"));
    for (size_t i = 0; files && i < in->count; i++) gale_exr_close(&files[i]);
    gale__free(files);
    gale__free(names);
    return status;
}

int gale__exr_layer_list(const gale__args *a)
{
    gale__inputs in = {0};
    gale__str text = {0};
    gale__json_out j;
    bool json = gale__args_flag(a, "json");
    size_t failed = 0;
    const char *folder = gale__args_text(a, "output-dir");
    gale_status status = gale__exr_inputs(a, &in, &failed);
    if (status == GALE_OK && folder) status = gale__folder_make_public(folder);
    if (json) gale__json_begin(&j, &text), gale__json_array(&j);
    if (status == GALE_OK && gale__args_given(a, "merge")) status = merge(a, &in);
    else
        for (size_t i = 0; i < in.count && status == GALE_OK; i++) {
            gale_status one = list_file(a, in.list[i].path, &text, json ? &j : NULL);
            if (one != GALE_OK) gale__report(one), failed++;
        }
    if (json) gale__json_close(&j, ']');
    gale__inputs_finish(&in);
    int code = gale__print(&text);
    if (status != GALE_OK) return gale__report(status);
    return failed ? GALE__EXIT_FAILED : code;
}

gale_status gale__exr_tell_made(const gale__args *a, const char *output, const gale_exr_denoise_report *denoised)
{
    gale__str text = {0};
    gale__json_out j;
    const char *input;
    if (!gale__args_flag(a, "json")) return GALE_OK;
    gale__json_begin(&j, &text);
    gale__json_object(&j);
    gale__json_open(&j, "inputs", '[');
    for (size_t i = 0; (input = gale__args_item(a, "INPUT", i)); i++) gale__json_string(&j, input);
    gale__json_close(&j, ']');
    gale__json_put_text(&j, "output", output);
    if (denoised) {
        gale__json_put_i64(&j, "tiles", denoised->tiles);
        gale__json_put_bool(&j, "guided", denoised->guided);
        gale__json_put_f64(&j, "seconds", denoised->seconds);
    }
    gale__json_close(&j, '}');
    return gale__print(&text) == GALE__EXIT_OK ? GALE_OK : GALE_NO_MEMORY;
}

/* One EXR file from another. */
static int make_one(
    const gale__args *a, const char *action, gale_status (*make)(const gale__args *a, gale_device *device))
{
    const char *path = gale__args_text(a, "output"), *dot = path ? strrchr(path, '.') : NULL;
    if (!path || gale__args_item(a, "INPUT", 1))
        return gale__usage("exr", "%s needs one input file and --output", action);
    if (dot && !strchr(dot, '/') && !gale__text_equal_nocase(dot, ".exr"))
        return gale__usage("exr", "%s writes OpenEXR, but %s ends in %s", action, path, dot);
    return gale__on_device(a, make);
}

static gale_status mip(const gale__args *a, gale_device *device)
{
    static const char *const ways[] = {"average", "brightest", "darkest"};
    const char *path = gale__args_text(a, "output"), *way = gale__args_text(a, "reduce");
    gale_exr_mip_options o = {.levels = gale__args_flag(a, "rip") ? GALE_EXR_RIPMAP : GALE_EXR_MIPMAP,
        .round_up = gale__args_flag(a, "round-up"),
        .tile = (int)gale__args_int(a, "tile"),
        .compression = gale__args_text(a, "compression")};
    gale_exr *f = NULL;
    for (int i = 0; i < 3; i++)
        if (!strcmp(way, ways[i])) o.reduce = (gale_exr_reduce)i;
    GALE_TRY(gale_exr_open(gale__args_item(a, "INPUT", 0), NULL, &f));
    gale_status status = gale_exr_mip(device, f, 0, &o, path);
    gale_exr_close(&f);
    return status == GALE_OK ? gale__exr_tell_made(a, path, NULL)
                             : gale__fail_within(status, "%s", gale__args_item(a, "INPUT", 0));
}

int gale__exr_mip_file(const gale__args *a) { return make_one(a, "mip", mip); }

static bool on_tile(void *user, int64_t done, int64_t tiles)
{
    gale__progress *p = user;
    p->total = (uint64_t)tiles;
    gale__progress_add(p, (uint64_t)done - p->done);
    return !gale__ending;
}

static gale_status denoise(const gale__args *a, gale_device *device)
{
    const char *path = gale__args_text(a, "output"), *input = gale__args_item(a, "INPUT", 0);
    gale__progress progress = {0};
    gale_exr_denoise_report r;
    gale_exr_denoise_options o = {.weights = gale__args_text(a, "weights"),
        .layer = gale__args_text(a, "layer"),
        .albedo = gale__args_text(a, "albedo"),
        .normal = gale__args_text(a, "normal"),
        .tile = gale__args_int(a, "tile"),
        .compression = gale__args_text(a, "compression"),
        .progress = on_tile,
        .user = &progress};
    gale_exr *f = NULL;
    GALE_TRY(gale_exr_open(input, NULL, &f));
    gale__progress_begin(&progress, input, "tiles", 0);
    gale_status status = gale_exr_denoise(device, f, &o, path, &r);
    gale__progress_end(&progress);
    gale_exr_close(&f);
    if (status != GALE_OK) return gale__fail_within(status, "%s", input);
    if (gale__args_flag(a, "json")) return gale__exr_tell_made(a, path, &r);
    gale__print_line(stdout, "%s -> %s: %lld tile%s, %s, %.2f s", input, path, (long long)r.tiles,
        r.tiles == 1 ? "" : "s", r.guided ? "with albedo and normals" : "colours only", r.seconds);
    return GALE_OK;
}

int gale__exr_denoise_file(const gale__args *a) { return make_one(a, "denoise", denoise); }
