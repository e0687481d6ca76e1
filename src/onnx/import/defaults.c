/* An input may also be an initialiser: then the file gives it a value that a caller may replace.  Older files have to
 * list every weight so; hence nothing here costs more than a walk over names. */
#include "onnx/import/defaults.h"
#include "onnx/import/names.h"
#include <string.h>

typedef struct search {
    gale__pb_graph *g;
    gale__onnx_names inputs; /* by name: which input */
    bool *has, *wanted;      /* by input: a value in the file; named by the caller */
} search;

static const gale__pb_text *name_of_sparse(const gale__pb_sparse *s)
{
    static const gale__pb_text none = {"", 0};
    return s->values ? &s->values->name : &none;
}

/* Records that the input has a value in the file; returns whether it keeps it. */
static bool keeps_value(search *s, const gale__pb_text *name)
{
    int32_t at = name->size ? gale__onnx_names_find(&s->inputs, name->at, name->size) : -1;
    if (at < 0) return true;
    s->has[at] = true;
    return !s->wanted[at];
}

static gale_status prepare(search *s, const char *const *given, int n_given)
{
    s->has = gale__calloc(s->g->input.n + 1, sizeof *s->has);
    s->wanted = gale__calloc(s->g->input.n + 1, sizeof *s->wanted);
    if (!s->has || !s->wanted) return GALE_NO_MEMORY;
    for (size_t i = 0; i < s->g->input.n; i++)
        if (s->g->input.at[i].name.size)
            GALE_TRY(
                gale__onnx_names_set(&s->inputs, s->g->input.at[i].name.at, s->g->input.at[i].name.size, (int32_t)i));
    for (int i = 0; i < n_given; i++) {
        int32_t at = gale__onnx_names_find(&s->inputs, given[i], strlen(given[i]));
        if (at >= 0) s->wanted[at] = true;
    }
    return GALE_OK;
}

static void take_values(search *s)
{
    gale__pb_graph *g = s->g;
    size_t n = 0;
    for (size_t i = 0; i < g->initializer.n; i++)
        if (keeps_value(s, &g->initializer.at[i].name)) g->initializer.at[n++] = g->initializer.at[i];
    g->initializer.n = n;
    n = 0;
    for (size_t i = 0; i < g->sparse_initializer.n; i++)
        if (keeps_value(s, name_of_sparse(&g->sparse_initializer.at[i])))
            g->sparse_initializer.at[n++] = g->sparse_initializer.at[i];
    g->sparse_initializer.n = n;
}

gale_status gale__onnx_defaults_find(gale__onnx *file, const char *const *given, int n_given, gale__onnx_defaults *out)
{
    gale__pb_model *model = gale__onnx_root(file);
    search s = {.g = model->graph};
    gale__onnx_defaults d = {0};
    if (!s.g) return GALE_OK; /* the importer reports the error */
    gale_status status = prepare(&s, given, n_given);
    if (status == GALE_OK) take_values(&s);
    d.at = gale__calloc(s.g->input.n + 1, sizeof *d.at);
    d.given = gale__calloc((size_t)n_given + 1, sizeof *d.given);
    if (!d.at || !d.given) status = GALE_NO_MEMORY;
    for (size_t i = 0; i < s.g->input.n && status == GALE_OK; i++) {
        if (!s.has[i]) continue;
        const gale__pb_value_info *info = gale__arena_copy(gale__onnx_arena(file), &s.g->input.at[i], sizeof *info);
        if (!info) status = GALE_NO_MEMORY;
        else if (s.wanted[i]) d.given[d.n_given++] = info;
        else d.at[d.n++] = info;
    }
    gale__onnx_names_finish(&s.inputs);
    gale__free(s.has);
    gale__free(s.wanted);
    if (status != GALE_OK) return gale__onnx_defaults_finish(&d), status;
    *out = d;
    return GALE_OK;
}

bool gale__onnx_defaults_has(const gale__onnx_defaults *d, const char *name)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->at[i]->name.at, name)) return true;
    return false;
}

void gale__onnx_defaults_finish(gale__onnx_defaults *d)
{
    gale__free(d->at);
    gale__free(d->given);
    *d = (gale__onnx_defaults){0};
}
