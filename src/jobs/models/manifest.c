/* Manifests: read from YAML or JSON, checked key by key, since people write them by hand. */
#include "jobs/models/manifest.h"
#include "base/file.h"
#include "base/yaml.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static gale_status int_of(const gale__json *map, const char *key, int low, int high, int *out)
{
    const gale__json *v = gale__json_get(map, key);
    if (!v || v->kind == GALE__JSON_NULL) return GALE_OK;
    if (v->kind != GALE__JSON_NUMBER || v->number != floor(v->number))
        return gale__fail(GALE_FORMAT, "%s is not an integer", key);
    if (v->number < low || v->number > high)
        return gale__fail(GALE_FORMAT, "%s is %g, outside %d..%d", key, v->number, low, high);
    *out = (int)v->number;
    return GALE_OK;
}

static gale_status choice_of(const gale__json *map, const char *key, const char *const *words, int first, int *out)
{
    const gale__json *v = gale__json_get(map, key);
    if (!v || v->kind == GALE__JSON_NULL) return GALE_OK;
    for (int i = 0; words[i] && v->kind == GALE__JSON_STRING; i++)
        if (gale__text_equal_nocase(v->string, words[i])) return *out = first + i, GALE_OK;
    return gale__fail(GALE_FORMAT, "%s has the unknown value \"%s\"; expected a value such as %s", key,
        v->kind == GALE__JSON_STRING ? v->string : "?", words[0]);
}

/* An unknown key is most likely a typing error. */
static void warn_unknown(const gale__json *map, const char *where, const char *const *known)
{
    for (const gale__json *c = map ? map->child : NULL; c; c = c->next) {
        int i = 0;
        while (known[i] && strcmp(known[i], c->key)) i++;
        if (!known[i]) gale__log(GALE__WARN, "manifest: unknown key %s\"%s\" is ignored", where, c->key);
    }
}

static gale_status read_range(const gale__json *params, const char *key, double *from, double *to)
{
    const gale__json *r = gale__json_get(params, key), *low = r && r->kind == GALE__JSON_ARRAY ? r->child : NULL,
                     *high = low ? low->next : NULL;
    if (!r || r->kind == GALE__JSON_NULL) return GALE_OK;
    if (!high || high->next || low->kind != GALE__JSON_NUMBER || high->kind != GALE__JSON_NUMBER ||
        !(low->number < high->number))
        return gale__fail(GALE_FORMAT, "%s must be two numbers, such as [0, 255]", key);
    *from = low->number;
    *to = high->number;
    return GALE_OK;
}

/* One number for all channels, or one for each. */
static gale_status read_numbers(const gale__json *params, const char *key, double *out, int *count)
{
    const gale__json *r = gale__json_get(params, key);
    if (!r || r->kind == GALE__JSON_NULL) return GALE_OK;
    *count = 0;
    for (const gale__json *v = r->kind == GALE__JSON_ARRAY ? r->child : r; v; v = v->next) {
        if (v->kind != GALE__JSON_NUMBER || *count == 4)
            return gale__fail(GALE_FORMAT, "%s must be a number, or one for each channel: [0.485, 0.456, 0.406]", key);
        out[(*count)++] = v->number;
        if (r->kind != GALE__JSON_ARRAY) break;
    }
    return GALE_OK;
}

static gale_status read_params(const gale__json *params, gale__manifest *m)
{
    static const char *const known[] = {"scale_factor", "tile_size", "tile_overlap", "layout", "colours", "range",
        "range_out", "multiple", "padding", "edge", "mean", "std", NULL};
    static const char *const layouts[] = {"nchw", "nhwc", NULL}, *const colours[] = {"rgb", "bgr", "luma", NULL},
                             *const paddings[] = {"replicate", "reflect", NULL};
    int layout = m->layout, colour = m->colours, padding = m->padding;
    if (!params || params->kind == GALE__JSON_NULL) return GALE_OK;
    if (params->kind != GALE__JSON_OBJECT) return gale__fail(GALE_FORMAT, "params is not a map");
    warn_unknown(params, "params: ", known);
    GALE_TRY(int_of(params, "scale_factor", 1, 64, &m->scale));
    GALE_TRY(int_of(params, "tile_size", 0, 65536, &m->tile));
    GALE_TRY(int_of(params, "tile_overlap", 0, 65535, &m->overlap));
    GALE_TRY(int_of(params, "multiple", 1, 4096, &m->multiple));
    GALE_TRY(int_of(params, "edge", 0, 256, &m->apron));
    GALE_TRY(choice_of(params, "layout", layouts, GALE__MANIFEST_LAYOUT_NCHW, &layout));
    GALE_TRY(choice_of(params, "colours", colours, 0, &colour));
    GALE_TRY(choice_of(params, "padding", paddings, 0, &padding));
    m->layout = (gale__manifest_layout)layout;
    m->colours = (gale__manifest_colours)colour;
    m->padding = (gale__tile_padding)padding;
    m->overlap_said = gale__json_get(params, "tile_overlap");
    if (m->tile && !m->overlap_said && m->overlap > m->tile / 4) m->overlap = m->tile / 8;
    if (m->tile && m->overlap >= m->tile)
        return gale__fail(GALE_FORMAT, "tile_overlap of %d is too large for a tile_size of %d", m->overlap, m->tile);
    GALE_TRY(read_numbers(params, "mean", m->mean, &m->n_mean));
    GALE_TRY(read_numbers(params, "std", m->std, &m->n_std));
    for (int i = 0; i < m->n_std; i++)
        if (!(m->std[i] > 0)) return gale__fail(GALE_FORMAT, "std must be greater than 0");
    m->range_said = gale__json_get(params, "range");
    GALE_TRY(read_range(params, "range", &m->low, &m->high));
    m->low_out = m->low;
    m->high_out = m->high;
    return read_range(params, "range_out", &m->low_out, &m->high_out);
}

static gale_status read_defaults(const gale__json *control, gale__manifest *m)
{
    const gale__json *d = gale__json_get(control, "defaults");
    int n = 0;
    if (!d || d->kind == GALE__JSON_NULL) return GALE_OK;
    if (d->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "control: defaults is not a list");
    for (const gale__json *v = d->child; v; v = v->next, n++) {
        if (v->kind != GALE__JSON_NUMBER)
            return gale__fail(GALE_FORMAT, "control: defaults: value %d is not a number", n);
        if (n < m->control_count) m->defaults[n] = (float)v->number;
    }
    return n == m->control_count
               ? GALE_OK
               : gale__fail(GALE_FORMAT, "control: %d defaults for a size of %d", n, m->control_count);
}

static gale_status read_parameter(const gale__json *p, gale__manifest *m)
{
    static const char *const known[] = {"name", "description", "index", NULL};
    gale__manifest_control *c = &m->controls[m->named_count];
    *c = (gale__manifest_control){.description = "", .index = m->named_count};
    if (p->kind != GALE__JSON_OBJECT) return gale__fail(GALE_FORMAT, "control: a parameter is not a map");
    warn_unknown(p, "control: parameters: ", known);
    GALE_TRY(gale__json_copy_text(&m->arena, p, "name", &c->name));
    GALE_TRY(gale__json_copy_text(&m->arena, p, "description", &c->description));
    if (!c->name || !*c->name) return gale__fail(GALE_FORMAT, "control: a parameter has no name");
    GALE_TRY(int_of(p, "index", 0, m->control_count - 1, &c->index));
    for (int i = 0; i < m->named_count; i++)
        if (!strcmp(m->controls[i].name, c->name) || m->controls[i].index == c->index)
            return gale__fail(GALE_FORMAT, "control: parameters %s and %s are the same", m->controls[i].name, c->name);
    m->named_count++;
    return GALE_OK;
}

static gale_status read_control(const gale__json *control, gale__manifest *m)
{
    static const char *const known[] = {"size", "defaults", "parameters", NULL};
    const gale__json *list = control ? gale__json_get(control, "parameters") : NULL;
    if (!control || control->kind == GALE__JSON_NULL) return GALE_OK;
    if (control->kind != GALE__JSON_OBJECT) return gale__fail(GALE_FORMAT, "control is not a map");
    warn_unknown(control, "control: ", known);
    for (const gale__json *p = list ? list->child : NULL; p; p = p->next) m->control_count++;
    int named = m->control_count;
    GALE_TRY(int_of(control, "size", 1, GALE__CONTROLS_MOST, &m->control_count));
    if (named > m->control_count)
        return gale__fail(GALE_FORMAT, "control: %d parameters for a size of %d", named, m->control_count);
    if (!m->control_count || m->control_count > GALE__CONTROLS_MOST)
        return gale__fail(GALE_FORMAT, "control has no size");
    m->defaults = gale__arena_alloc(&m->arena, (size_t)m->control_count * sizeof *m->defaults);
    m->controls = gale__arena_alloc(&m->arena, (size_t)m->control_count * sizeof *m->controls);
    if (!m->defaults || !m->controls) return GALE_NO_MEMORY;
    GALE_TRY(read_defaults(control, m));
    if (list && list->kind != GALE__JSON_ARRAY) return gale__fail(GALE_FORMAT, "control: parameters is not a list");
    for (const gale__json *p = list ? list->child : NULL; p; p = p->next) GALE_TRY(read_parameter(p, m));
    return GALE_OK;
}

static gale_status fill(const gale__json *root, gale__manifest *m)
{
    static const char *const known[] = {"name", "description", "source", "sha256", "params", "control", NULL};
    if (root->kind == GALE__JSON_NULL) return GALE_OK; /* nothing, or comments */
    if (root->kind != GALE__JSON_OBJECT) return gale__fail(GALE_FORMAT, "a manifest must be a map of keys");
    m->absent = !root->child;
    warn_unknown(root, "", known);
    GALE_TRY(gale__json_copy_text(&m->arena, root, "name", &m->name));
    GALE_TRY(gale__json_copy_text(&m->arena, root, "description", &m->description));
    GALE_TRY(gale__json_copy_text(&m->arena, root, "source", &m->source));
    GALE_TRY(gale__json_copy_text(&m->arena, root, "sha256", &m->sha256));
    GALE_TRY(read_params(gale__json_get(root, "params"), m));
    return read_control(gale__json_get(root, "control"), m);
}

static gale_status begin(const char *name, gale__manifest *m)
{
    *m = (gale__manifest){.description = "",
        .source = "",
        .sha256 = "",
        .tile = GALE__TILE_USUAL,
        .overlap = GALE__OVERLAP_USUAL,
        .high = 1,
        .high_out = 1,
        .absent = true};
    m->name = gale__arena_strdup(&m->arena, name);
    return m->name ? GALE_OK : GALE_NO_MEMORY;
}

gale_status gale__manifest_parse(const char *text, size_t size, const char *name, gale__manifest *out)
{
    gale__arena arena = {0};
    gale__json *root = NULL;
    gale__manifest m;
    gale_status status = begin(name, &m);
    if (status == GALE_OK) status = gale__yaml_parse(&arena, text, size, &root);
    if (status == GALE_OK) status = fill(root, &m);
    gale__arena_finish(&arena);
    if (status == GALE_OK) *out = m;
    else gale__manifest_finish(&m);
    return status;
}

void gale__manifest_finish(gale__manifest *m) { gale__arena_finish(&m->arena); }

static gale_status read_beside(const char *path, const char *name, gale__manifest *out)
{
    gale__bytes file = {0};
    GALE_TRY(gale__file_read(path, 1 << 20, &file));
    const char *before = gale__log_about(path);
    gale_status status = gale__manifest_parse(file.data, file.size, name, out);
    gale__log_about(before);
    gale__bytes_finish(&file);
    if (status != GALE_OK) return gale__fail_within(status, "%s", path);
    out->path = gale__arena_strdup(&out->arena, path);
    if (out->path) return GALE_OK;
    gale__manifest_finish(out);
    return GALE_NO_MEMORY;
}

gale_status gale__manifest_read(const char *model_path, gale__manifest *out)
{
    static const char *const extensions[] = {"yml", "yaml", "json"};
    const char *slash = strrchr(model_path, '/'), *file = slash ? slash + 1 : model_path, *dot = strrchr(file, '.');
    size_t stem = dot && dot > file ? (size_t)(dot - model_path) : strlen(model_path);
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)(stem - (size_t)(file - model_path)), file);
    gale_status status = GALE_OK;
    for (int i = 0; i < 3; i++) {
        gale__str path = {0};
        gale__str_addf(&path, "%.*s.%s", (int)stem, model_path, extensions[i]);
        status = gale__str_check(&path);
        bool found = status == GALE_OK && gale__file_exists(path.text);
        if (found) status = read_beside(path.text, name, out);
        gale__str_finish(&path);
        if (found || status != GALE_OK) return status;
    }
    gale__manifest m;
    status = begin(name, &m);
    if (status == GALE_OK) *out = m;
    return status;
}

/* A message with the names of the controls at its end: what the user wants to know next. */
static gale_status refuse_control(const gale__manifest *m, const char *what)
{
    gale__str known = {0};
    for (int i = 0; i < m->named_count; i++) gale__str_addf(&known, "%s%s", i ? ", " : "", m->controls[i].name);
    gale_status status = gale__fail(GALE_INVALID, "%s; %s has %d controls%s%s", what, m->name, m->control_count,
        m->named_count ? ": " : " without names", gale__str_text(&known));
    gale__str_finish(&known);
    return status;
}

static gale_status set_all(const gale__manifest *m, const char *text, float *values)
{
    int n = 0;
    for (const char *at = text;; n++) {
        char one[64];
        double v;
        size_t size = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", (int)(size < 60 ? size : 60), at);
        if (!gale__text_to_f64(one, &v))
            return gale__fail(GALE_INVALID, "control \"%s\" is neither NAME=VALUE nor a list of numbers", text);
        if (n < m->control_count) values[n] = (float)v;
        if (!at[size]) break;
        at += size + 1;
    }
    char what[64];
    snprintf(what, sizeof what, "%d values of control", n + 1);
    return n + 1 == m->control_count ? GALE_OK : refuse_control(m, what);
}

static gale_status set_one(const gale__manifest *m, const char *text, size_t name_size, float *values)
{
    char name[64], what[96];
    double v;
    int64_t index = -1;
    snprintf(name, sizeof name, "%.*s", (int)(name_size < 60 ? name_size : 60), text);
    if (!gale__text_to_f64(text + name_size + 1, &v))
        return gale__fail(GALE_INVALID, "control %s: \"%s\" is not a number", name, text + name_size + 1);
    for (int i = 0; i < m->named_count; i++)
        if (gale__text_equal_nocase(m->controls[i].name, name)) index = m->controls[i].index;
    if (index < 0 && (!gale__text_to_i64(name, &index) || index < 0 || index >= m->control_count)) {
        snprintf(what, sizeof what, "unknown control \"%s\"", name);
        return refuse_control(m, what);
    }
    values[index] = (float)v;
    return GALE_OK;
}

gale_status gale__manifest_set_control(const gale__manifest *m, const char *setting, float *values)
{
    const char *equals = strchr(setting, '=');
    if (!m->control_count) return gale__fail(GALE_INVALID, "%s has no controls", m->name);
    GALE_TRY(equals ? set_one(m, setting, (size_t)(equals - setting), values) : set_all(m, setting, values));
    for (int i = 0; i < m->control_count; i++) {
        float v = values[i] < 0 ? 0 : values[i] > 1 ? 1 : values[i];
        const char *name = "";
        for (int k = 0; k < m->named_count; k++)
            if (m->controls[k].index == i) name = m->controls[k].name;
        if (v != values[i])
            gale__log(GALE__WARN, "control %d%s%s of %s is limited to 0..1: %g becomes %g", i, *name ? ", " : "", name,
                m->name, (double)values[i], (double)v);
        values[i] = v;
    }
    return GALE_OK;
}

gale_status gale__manifest_set_controls(
    const gale__manifest *m, const char *const *settings, size_t count, float *values)
{
    for (int i = 0; i < m->control_count; i++) values[i] = m->defaults[i];
    for (size_t i = 0; i < count; i++) GALE_TRY(gale__manifest_set_control(m, settings[i], values));
    return GALE_OK;
}
