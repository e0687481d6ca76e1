/* Folding: nodes that depend only on constants are run once, as a separate model over the same file, and their results
 * become initialisers.  That part temporarily replaces the graph of the model in memory, so that weights are read in
 * place and operators have their usual meaning. */
#include "onnx/edit/edit.h"
#include "onnx/import/infer.h"
#include "onnx/run/session.h"
#include <string.h>

enum { LARGE = 1 << 20, REFUSALS_MAX = 16 };

typedef struct fold {
    gale__onnx *file;
    gale__arena *arena;
    gale__pb_model *model;
    gale__pb_graph *g;
    gale_device *cpu;
    bool *never;                /* nodes that stay */
    bool *chosen;               /* nodes that go */
    uint64_t *cost;             /* by node: bytes it is computed from */
    gale__onnx_names constants; /* name to 0: initialiser; else 1 + the node */
    gale__onnx_names wanted;    /* names that what stays reads */
    gale__pb_text *frontier;
    size_t n_frontier, frontier_capacity;
    int32_t *makers;
    size_t makers_capacity; /* by frontier: the node */
} fold;

/* --- Which nodes. --- */

/* Initialisers that are held in fewer bytes than what they stand for are meant to be. */
static bool may_fold(const fold *f, size_t index)
{
    const gale__pb_node *n = &f->g->node.at[index];
    bool any = false;
    for (size_t i = 0; i < n->input.n; i++) any = any || n->input.at[i].size;
    return any && !f->never[index] && gale__edit_is_pure(f->model, n) &&
           !gale__pb_is(&n->op_type, "DequantizeLinear") && !gale__pb_is(&n->op_type, "Gradient");
}

static uint64_t bytes_of(const gale__pb_tensor *t)
{
    uint64_t n = 1;
    for (size_t i = 0; i < t->dims.n; i++) n = t->dims.at[i] > 0 && n < UINT32_MAX ? n * (uint64_t)t->dims.at[i] : n;
    int type = gale__onnx_type(t->data_type);
    return n * (type >= 0 && type != GALE_STRING ? gale_type_size((gale_type)type) : 1);
}

static gale_status choose(fold *f)
{
    gale__onnx_names sizes = {0};
    gale_status status = GALE_OK;
    gale__onnx_names_finish(&f->constants);
    for (size_t i = 0; i < f->g->initializer.n && status == GALE_OK; i++) {
        const gale__pb_tensor *t = &f->g->initializer.at[i];
        if (t->name.size) status = gale__onnx_names_set(&f->constants, t->name.at, t->name.size, 0);
        if (t->name.size && status == GALE_OK)
            status = gale__onnx_names_set(&sizes, t->name.at, t->name.size, (int32_t)i);
    }
    for (size_t i = 0; i < f->g->node.n && status == GALE_OK; i++) {
        const gale__pb_node *n = &f->g->node.at[i];
        f->chosen[i] = may_fold(f, i);
        f->cost[i] = 0;
        for (size_t k = 0; k < n->input.n && f->chosen[i]; k++) {
            const gale__pb_text *name = &n->input.at[k];
            int32_t from = name->size ? gale__onnx_names_find(&f->constants, name->at, name->size) : -2;
            f->chosen[i] = from != -1;
            if (from == 0)
                f->cost[i] += bytes_of(&f->g->initializer.at[gale__onnx_names_find(&sizes, name->at, name->size)]);
            if (from > 0) f->cost[i] += f->cost[from - 1];
        }
        for (size_t k = 0; k < n->output.n && f->chosen[i] && status == GALE_OK; k++)
            if (n->output.at[k].size)
                status = gale__onnx_names_set(&f->constants, n->output.at[k].at, n->output.at[k].size, (int32_t)i + 1);
    }
    gale__onnx_names_finish(&sizes);
    return status;
}

static gale_status want(void *user, const gale__pb_text *name)
{
    return name->size ? gale__onnx_names_set(&((fold *)user)->wanted, name->at, name->size, 1) : GALE_OK;
}

/* Results of the first `most` chosen nodes that others read. */
static gale_status find_frontier(fold *f, size_t most)
{
    size_t count = 0;
    f->n_frontier = 0;
    gale__onnx_names_finish(&f->wanted);
    for (size_t i = 0; i < f->g->output.n; i++) GALE_TRY(want(f, &f->g->output.at[i].name));
    for (size_t i = 0; i < f->g->node.n; i++) {
        const gale__pb_node *n = &f->g->node.at[i];
        if (f->chosen[i] && count++ < most) continue;
        f->chosen[i] = false;
        for (size_t k = 0; k < n->input.n; k++) GALE_TRY(want(f, &n->input.at[k]));
        GALE_TRY(gale__edit_body_names(n, want, f));
    }
    for (size_t i = 0; i < f->g->node.n; i++)
        for (size_t k = 0; f->chosen[i] && k < f->g->node.at[i].output.n; k++) {
            const gale__pb_text *name = &f->g->node.at[i].output.at[k];
            if (!name->size || gale__onnx_names_find(&f->wanted, name->at, name->size) < 0) continue;
            GALE_TRY(gale__grow((void **)&f->frontier, &f->frontier_capacity, f->n_frontier + 1, sizeof *f->frontier));
            GALE_TRY(gale__grow((void **)&f->makers, &f->makers_capacity, f->n_frontier + 1, sizeof *f->makers));
            f->makers[f->n_frontier] = (int32_t)i;
            f->frontier[f->n_frontier++] = *name;
        }
    return GALE_OK;
}

/* --- Their results. --- */

static gale_status make_part(fold *f, gale__pb_graph *part)
{
    gale__onnx_names read = {0};
    gale_status status = GALE_OK;
    part->node.at = gale__arena_alloc(f->arena, (f->g->node.n + 1) * sizeof *part->node.at);
    part->initializer.at = gale__arena_alloc(f->arena, (f->g->initializer.n + 1) * sizeof *part->initializer.at);
    part->output.at = gale__arena_alloc(f->arena, (f->n_frontier + 1) * sizeof *part->output.at);
    if (!part->node.at || !part->initializer.at || !part->output.at) return GALE_NO_MEMORY;
    for (size_t i = 0; i < f->g->node.n && status == GALE_OK; i++) {
        const gale__pb_node *n = &f->g->node.at[i];
        if (!f->chosen[i]) continue;
        part->node.at[part->node.n++] = *n;
        for (size_t k = 0; k < n->input.n && status == GALE_OK; k++)
            if (n->input.at[k].size) status = gale__onnx_names_set(&read, n->input.at[k].at, n->input.at[k].size, 1);
    }
    for (size_t i = 0; i < f->g->initializer.n; i++) {
        const gale__pb_tensor *t = &f->g->initializer.at[i];
        if (t->name.size && gale__onnx_names_find(&read, t->name.at, t->name.size) >= 0)
            part->initializer.at[part->initializer.n++] = *t;
    }
    for (size_t i = 0; i < f->n_frontier; i++)
        part->output.at[part->output.n++] = (gale__pb_value_info){.name = f->frontier[i]};
    gale__onnx_names_finish(&read);
    return status;
}

static gale_status run_part(fold *f, gale_object **out)
{
    gale__pb_graph part = {.name = f->g->name};
    gale__onnx_session *s = NULL;
    gale_object *none[1] = {NULL};
    GALE_TRY(make_part(f, &part));
    f->model->graph = &part;
    gale_status status = gale__onnx_session_open(f->file, f->cpu, NULL, &s);
    f->model->graph = f->g;
    if (status == GALE_OK) status = gale__onnx_exec_run(s, s->net, none, out, true);
    gale__onnx_session_close(&s);
    return status;
}

/* The results as initialisers; *again when one of them is better computed where it is used. */
static gale_status take_results(fold *f, gale_object *const *out, bool *again)
{
    gale__pb_tensor *made = gale__arena_alloc(f->arena, (f->n_frontier + 1) * sizeof *made);
    *again = false;
    if (!made) return GALE_NO_MEMORY;
    for (size_t i = 0; i < f->n_frontier; i++) {
        gale_tensor *t = gale_object_get_kind(out[i]) == GALE_OBJECT_TENSOR ? gale_object_get_tensor(out[i]) : NULL;
        bool much = t && gale_tensor_size_bytes(t) > LARGE && gale_tensor_size_bytes(t) > 2 * f->cost[f->makers[i]];
        if (t && !much) continue;
        f->never[f->makers[i]] = true;
        *again = true;
    }
    for (size_t i = 0; i < f->n_frontier && !*again; i++)
        GALE_TRY(gale__onnx_from_tensor(f->arena, gale_object_get_tensor(out[i]), f->frontier[i].at, &made[i]));
    if (*again) return GALE_OK;
    size_t n = 0;
    for (size_t i = 0; i < f->g->node.n; i++)
        if (!f->chosen[i]) {
            f->never[n] = f->never[i];
            f->g->node.at[n++] = f->g->node.at[i];
        }
    f->g->node.n = n;
    return gale__edit_add_initializers(f->file, f->g, made, f->n_frontier);
}

static gale_status attempt(fold *f, size_t most, bool *again)
{
    gale_object **out = NULL;
    GALE_TRY(choose(f));
    GALE_TRY(find_frontier(f, most));
    *again = false;
    if (!f->n_frontier) return GALE_OK;
    if (!(out = gale__calloc(f->n_frontier, sizeof *out))) return GALE_NO_MEMORY;
    gale_status status = run_part(f, out);
    if (status == GALE_OK) status = take_results(f, out, again);
    for (size_t i = 0; i < f->n_frontier; i++) gale_object_destroy(&out[i]);
    gale__free(out);
    return status;
}

/* A node that cannot be computed stays: the first of the chosen ones without which all before it can.  Those before it
 * are folded on the way. */
static gale_status leave_out(fold *f)
{
    size_t total = 0, count = 0;
    bool again;
    for (size_t i = 0; i < f->g->node.n; i++) total += f->chosen[i];
    for (size_t most = total / 2; most; most = most / 2) {
        gale_status status = attempt(f, most, &again);
        if (status == GALE_NO_MEMORY) return status;
        if (status == GALE_OK) return GALE_OK; /* fewer are left, and the next attempt begins after them */
    }
    GALE_TRY(choose(f));
    for (size_t i = 0; i < f->g->node.n && !count; i++)
        if (f->chosen[i]) f->never[i] = true, count++;
    return GALE_OK;
}

static gale_status fold_constants(fold *f)
{
    size_t n = f->g->node.n;
    bool again = true;
    f->never = gale__arena_alloc(f->arena, (n + 1) * sizeof *f->never);
    f->chosen = gale__arena_alloc(f->arena, (n + 1) * sizeof *f->chosen);
    f->cost = gale__arena_alloc(f->arena, (n + 1) * sizeof *f->cost);
    if (!f->never || !f->chosen || !f->cost) return GALE_NO_MEMORY;
    for (int refusals = 0; again && refusals < REFUSALS_MAX;) {
        gale_status status = attempt(f, n, &again);
        if (status == GALE_NO_MEMORY) return status;
        if (status == GALE_OK) continue;
        refusals++;
        again = true;
        GALE_TRY(leave_out(f));
    }
    return GALE_OK;
}

/* --- Shapes. --- */

static bool is_fixed(const gale__pb_value_info *info)
{
    const gale__pb_shape *shape = info->type && info->type->tensor_type ? info->type->tensor_type->shape : NULL;
    for (size_t i = 0; shape && i < shape->dim.n; i++)
        if (!shape->dim.at[i].has_value) return false;
    return shape != NULL;
}

typedef struct loose {
    gale__onnx_names names;
    bool found;
} loose;
static gale_status note_use(void *user, const gale__pb_text *name)
{
    loose *l = user;
    l->found = l->found || (name->size && gale__onnx_names_find(&l->names, name->at, name->size) >= 0);
    return GALE_OK;
}

/* Values whose extents may differ between runs: those that depend on an input with open extents. */
static gale_status find_loose(const fold *f, loose *l)
{
    for (size_t i = 0; i < f->g->input.n; i++)
        if (!is_fixed(&f->g->input.at[i]))
            GALE_TRY(gale__onnx_names_set(&l->names, f->g->input.at[i].name.at, f->g->input.at[i].name.size, 1));
    for (size_t i = 0; i < f->g->node.n; i++) {
        const gale__pb_node *n = &f->g->node.at[i];
        l->found = false;
        for (size_t k = 0; k < n->input.n; k++) GALE_TRY(note_use(l, &n->input.at[k]));
        GALE_TRY(gale__edit_body_names(n, note_use, l));
        for (size_t k = 0; l->found && k < n->output.n; k++)
            if (n->output.at[k].size)
                GALE_TRY(gale__onnx_names_set(&l->names, n->output.at[k].at, n->output.at[k].size, 1));
    }
    return GALE_OK;
}

/* The net's number of every name of the main graph that stands for one value alone; -2 for others, as functions bring
 * names of their own. */
static gale_status index_values(const fold *f, const gale__onnx_net *net, gale__onnx_names *index)
{
    for (int i = 0; i < net->n_values; i++) {
        const char *name = net->values[i].name;
        size_t size = strlen(name);
        if (size)
            GALE_TRY(gale__onnx_names_set(index, name, size, gale__onnx_names_find(index, name, size) == -1 ? i : -2));
    }
    for (size_t i = 0; i < f->g->node.n && f->model->functions.n; i++)
        for (size_t k = 0; !gale__edit_is_pure(f->model, &f->g->node.at[i]) && k < f->g->node.at[i].output.n; k++) {
            const gale__pb_text *name = &f->g->node.at[i].output.at[k];
            if (name->size) GALE_TRY(gale__onnx_names_set(index, name->at, name->size, -2));
        }
    return GALE_OK;
}

static int64_t bound(const gale__pb_node *n, const char *name, int64_t fallback, int64_t rank)
{
    const gale__pb_attribute *a = gale__pb_find_attribute(n, name);
    int64_t at = a ? a->i : fallback;
    at += at < 0 ? rank : 0;
    return at < 0 ? 0 : at > rank ? rank : at;
}

/* What Shape or Size of such a value is. */
static gale_status shape_tensor(fold *f, const gale__pb_node *n, const gale__onnx_inferred *v, gale__pb_tensor *out)
{
    bool size = gale__pb_is(&n->op_type, "Size");
    int64_t from = bound(n, "start", 0, v->rank), to = bound(n, "end", v->rank, v->rank),
            count = size        ? 1
                    : to > from ? to - from
                                : 0;
    int64_t *data = gale__arena_alloc(f->arena, (size_t)(count + 1) * sizeof *data),
            *dims = gale__arena_copy(f->arena, &count, sizeof count);
    if (!data || !dims) return GALE_NO_MEMORY;
    data[0] = size;
    for (int64_t i = 0; !size && i < count; i++) data[i] = v->dims[from + i].plus;
    for (int i = 0; size && i < v->rank; i++)
        if (__builtin_mul_overflow(data[0], v->dims[i].plus, &data[0]))
            return gale__fail(GALE_LIMIT, "'%s': the size overflows", n->input.at[0].at);
    *out = (gale__pb_tensor){
        .data_type = 7, .name = n->output.at[0], .raw_data = {(const char *)data, (size_t)count * sizeof *data}};
    out->dims.at = dims;
    out->dims.n = !size;
    return GALE_OK;
}

static gale_status replace_shapes(
    fold *f, const gale__onnx_names *index, const gale__onnx_inferred *known, const loose *l)
{
    gale__pb_tensor *made = gale__arena_alloc(f->arena, (f->g->node.n + 1) * sizeof *made);
    size_t n = 0, kept = 0;
    if (!made) return GALE_NO_MEMORY;
    for (size_t i = 0; i < f->g->node.n; i++) {
        const gale__pb_node *node = &f->g->node.at[i];
        bool asks = gale__pb_is_core(&node->domain) &&
                    (gale__pb_is(&node->op_type, "Shape") || gale__pb_is(&node->op_type, "Size")) &&
                    node->input.n == 1 && node->output.n == 1;
        const gale__pb_text *name = asks ? &node->input.at[0] : NULL;
        int32_t value = asks && gale__onnx_names_find(&l->names, name->at, name->size) < 0
                            ? gale__onnx_names_find(index, name->at, name->size)
                            : -1;
        bool sure = value >= 0 && known[value].known;
        for (int d = 0; sure && d < known[value].rank; d++)
            sure = known[value].dims[d].known && !known[value].dims[d].n_names;
        if (sure) GALE_TRY(shape_tensor(f, node, &known[value], &made[n++]));
        else f->g->node.at[kept++] = *node;
    }
    f->g->node.n = kept;
    return gale__edit_add_initializers(f->file, f->g, made, n);
}

/* A model with operators that gale does not know keeps its shapes. */
static gale_status fold_shapes(fold *f)
{
    gale__onnx_net *net = NULL;
    gale__onnx_names index = {0};
    loose l = {0};
    gale_status status = gale__onnx_net_import(f->file, &net);
    if (status != GALE_OK) return status == GALE_NO_MEMORY ? status : GALE_OK;
    gale__onnx_inferred *known = gale__calloc((size_t)net->n_values + 1, sizeof *known);
    status = known ? gale__onnx_net_infer(net, known) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = find_loose(f, &l);
    if (status == GALE_OK) status = index_values(f, net, &index);
    if (status == GALE_OK) status = replace_shapes(f, &index, known, &l);
    gale__onnx_names_finish(&index);
    gale__onnx_names_finish(&l.names);
    gale__free(known);
    gale__onnx_net_destroy(&net);
    return status;
}

static bool asks_for_shapes(const gale__pb_graph *g)
{
    for (size_t i = 0; i < g->node.n; i++)
        if (gale__pb_is(&g->node.at[i].op_type, "Shape") || gale__pb_is(&g->node.at[i].op_type, "Size")) return true;
    return false;
}

gale_status gale__edit_fold(gale__onnx *file, gale__pb_model *model, gale_device *cpu)
{
    fold f = {.file = file, .arena = gale__onnx_arena(file), .model = model, .g = model->graph, .cpu = cpu};
    if (!f.g) return gale__fail(GALE_INVALID, "the model has no graph");
    gale__edit_drop_formal_inputs(model);
    GALE_TRY(gale__edit_hoist_constants(file, f.g));
    if (asks_for_shapes(f.g)) GALE_TRY(fold_shapes(&f));
    gale_status status = fold_constants(&f);
    gale__onnx_names_finish(&f.constants);
    gale__onnx_names_finish(&f.wanted);
    gale__free(f.frontier);
    gale__free(f.makers);
    return status == GALE_OK ? gale__edit_tidy(file, model) : status;
}
