/* The contents of a model file.  Nothing is run and large data is not read, so it is fast for any size. */
#include "jobs/model/inspect.h"
#include "onnx/edit/edit.h"
#include <stdlib.h>
#include <string.h>

typedef struct op_count {
    const gale__pb_text *domain, *name;
    size_t count;
} op_count;
typedef struct facts {
    op_count *ops;
    size_t n_ops, capacity;
    size_t nodes, tensors, external;
    uint64_t parameters, bytes;
    bool failed;
} facts;

/* --- Counting. --- */

static const char *text_of(const gale__pb_text *t) { return t->at ? t->at : ""; }
/* The standard's own operators have one name for their domain here. */
static const char *domain_of(const gale__pb_text *domain) { return domain->size ? domain->at : "ai.onnx"; }

static int by_name(const void *a, const void *b)
{
    const op_count *x = a, *y = b;
    int order = strcmp(text_of(x->domain), text_of(y->domain));
    return order ? order : strcmp(text_of(x->name), text_of(y->name));
}

static int by_count(const void *a, const void *b)
{
    const op_count *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : by_name(a, b);
}

static void count_tensor(facts *f, int32_t data_type, const int64_t *dims, size_t rank, bool external)
{
    int type = gale__onnx_type(data_type);
    uint64_t n = 1;
    for (size_t i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(n, (uint64_t)dims[i], &n)) return; /* running it says what is wrong */
    uint64_t bytes = type < 0 ? 0 : n * gale_type_size((gale_type)type);
    f->tensors++;
    f->external += external;
    if (__builtin_add_overflow(f->parameters, n, &f->parameters) || __builtin_add_overflow(f->bytes, bytes, &f->bytes))
        f->failed = true;
}

static void count_graph(facts *f, const gale__pb_graph *g);

static void count_nodes(facts *f, const gale__pb_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const gale__pb_node *node = &nodes[i];
        f->nodes++;
        if (gale__grow((void **)&f->ops, &f->capacity, f->n_ops + 1, sizeof *f->ops) != GALE_OK) f->failed = true;
        else f->ops[f->n_ops++] = (op_count){&node->domain, &node->op_type, 1};
        for (size_t k = 0; k < node->attribute.n; k++) {
            const gale__pb_attribute *a = &node->attribute.at[k];
            if (a->t) count_tensor(f, a->t->data_type, a->t->dims.at, a->t->dims.n, a->t->data_location == 1);
            if (a->g) count_graph(f, a->g);
            for (size_t j = 0; j < a->graphs.n; j++) count_graph(f, &a->graphs.at[j]);
        }
    }
}

static void count_graph(facts *f, const gale__pb_graph *g)
{
    for (size_t i = 0; i < g->initializer.n; i++)
        count_tensor(f, g->initializer.at[i].data_type, g->initializer.at[i].dims.at, g->initializer.at[i].dims.n,
            g->initializer.at[i].data_location == 1);
    for (size_t i = 0; i < g->sparse_initializer.n; i++) {
        const gale__pb_sparse *s = &g->sparse_initializer.at[i];
        if (s->values) count_tensor(f, s->values->data_type, s->dims.at, s->dims.n, s->values->data_location == 1);
    }
    count_nodes(f, g->node.at, g->node.n);
}

/* One row for each operator, the most frequent first. */
static void sum_up(facts *f)
{
    size_t n = 0;
    if (f->n_ops) qsort(f->ops, f->n_ops, sizeof *f->ops, by_name);
    for (size_t i = 0; i < f->n_ops; i++) {
        op_count *last = n ? &f->ops[n - 1] : NULL;
        if (last && gale__pb_text_equal(last->domain, f->ops[i].domain) &&
            gale__pb_text_equal(last->name, f->ops[i].name))
            last->count++;
        else f->ops[n++] = f->ops[i];
    }
    f->n_ops = n;
    if (n) qsort(f->ops, n, sizeof *f->ops, by_count);
}

/* --- Types in words. --- */

void gale__add_plain(gale__str *out, const char *text, size_t size)
{
    size_t begin = out->length;
    gale__str_add_n(out, text, size);
    if (out->text) gale__text_make_plain(out->text + begin, out->length - begin, "");
}

const char *gale__arena_take(gale__arena *arena, gale__str *text)
{
    const char *copy = text->failed ? NULL : gale__arena_copy(arena, gale__str_text(text), text->length + 1);
    gale__str_finish(text);
    return copy;
}

static void add_tensor_type(gale__str *out, const gale__pb_tensor_type *t)
{
    int type = gale__onnx_type(t->elem_type);
    gale__str_add(out, type < 0 ? "?" : gale_type_name((gale_type)type));
    if (!t->shape) return;
    gale__str_add(out, " [");
    for (size_t i = 0; i < t->shape->dim.n; i++) {
        const gale__pb_dim *d = &t->shape->dim.at[i];
        if (i) gale__str_add(out, ", ");
        if (d->has_value) gale__str_addf(out, "%lld", (long long)d->dim_value);
        else if (d->dim_param.size) gale__add_plain(out, d->dim_param.at, d->dim_param.size);
        else gale__str_add(out, "?");
    }
    gale__str_add(out, "]");
}

static void add_type(gale__str *out, const gale__pb_type *t)
{
    int key = t && t->map_type ? gale__onnx_type(t->map_type->key_type) : -1;
    if (!t) gale__str_add(out, "?");
    else if (t->tensor_type) add_tensor_type(out, t->tensor_type);
    else if (t->sparse_tensor_type) {
        gale__str_add(out, "sparse ");
        add_tensor_type(out, t->sparse_tensor_type);
    } else if (t->sequence_type) {
        gale__str_add(out, "sequence of ");
        add_type(out, t->sequence_type->elem_type);
    } else if (t->optional_type) {
        gale__str_add(out, "optional ");
        add_type(out, t->optional_type->elem_type);
    } else if (t->map_type) {
        gale__str_addf(out, "map from %s to ", key < 0 ? "?" : gale_type_name((gale_type)key));
        add_type(out, t->map_type->value_type);
    } else gale__str_add(out, "?");
}

/* --- The result. --- */

static gale_status describe_dims(gale__arena *arena, const gale__pb_shape *shape, gale_inspect_value *to)
{
    gale_inspect_extent *dims = gale__arena_alloc(arena, (shape->dim.n + 1) * sizeof *dims);
    if (!dims) return GALE_NO_MEMORY;
    to->dims = dims;
    to->rank = (int)shape->dim.n;
    to->has_shape = true;
    for (size_t i = 0; i < shape->dim.n; i++) {
        const gale__pb_dim *d = &shape->dim.at[i];
        dims[i] = (gale_inspect_extent){.known = d->has_value || d->dim_param.size, .value = d->dim_value};
        if (!d->has_value && d->dim_param.size && !(dims[i].symbol = gale__arena_strdup(arena, d->dim_param.at)))
            return GALE_NO_MEMORY;
    }
    return GALE_OK;
}

static gale_status describe_value(gale__arena *arena, const gale__pb_value_info *info, gale_inspect_value *to)
{
    const gale__pb_tensor_type *tensor = info->type ? info->type->tensor_type : NULL;
    int element = tensor ? gale__onnx_type(tensor->elem_type) : -1;
    gale__str type = {0};
    add_type(&type, info->type);
    to->type = gale__arena_take(arena, &type);
    to->name = gale__arena_strdup(arena, text_of(&info->name));
    if (!to->type || !to->name) return GALE_NO_MEMORY;
    if (element >= 0) to->element = gale_type_name((gale_type)element);
    return tensor && tensor->shape ? describe_dims(arena, tensor->shape, to) : GALE_OK;
}

static gale_status describe_values(gale__arena *arena, const gale__pb_graph *defaults, const gale__pb_value_info *infos,
    size_t n, const gale_inspect_value **out, size_t *count)
{
    gale_inspect_value *values = gale__arena_alloc(arena, (n + 1) * sizeof *values);
    if (!values) return GALE_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        values[i].optional = defaults && gale__pb_has_value(defaults, &infos[i].name);
        GALE_TRY(describe_value(arena, &infos[i], &values[i]));
    }
    *out = values;
    *count = n;
    return GALE_OK;
}

static gale_status describe_lists(gale__arena *arena, const gale__pb_model *m, const facts *f, gale_inspect_result *r)
{
    gale_inspect_opset *opsets = gale__arena_alloc(arena, (m->opset_import.n + 1) * sizeof *opsets);
    gale_inspect_count *operators = gale__arena_alloc(arena, (f->n_ops + 1) * sizeof *operators);
    gale_inspect_note *metadata = gale__arena_alloc(arena, (m->metadata_props.n + 1) * sizeof *metadata);
    if (!opsets || !operators || !metadata) return GALE_NO_MEMORY;
    r->opsets = opsets;
    r->operators = operators;
    r->metadata = metadata;
    for (; r->n_opsets < m->opset_import.n; r->n_opsets++) {
        const gale__pb_opset *from = &m->opset_import.at[r->n_opsets];
        gale_inspect_opset to = {gale__arena_strdup(arena, domain_of(&from->domain)), from->version};
        if (!to.domain) return GALE_NO_MEMORY;
        opsets[r->n_opsets] = to;
    }
    for (; r->n_operators < f->n_ops; r->n_operators++) {
        const op_count *from = &f->ops[r->n_operators];
        gale_inspect_count to = {gale__arena_strdup(arena, domain_of(from->domain)),
            gale__arena_strdup(arena, text_of(from->name)), from->count};
        if (!to.domain || !to.name) return GALE_NO_MEMORY;
        operators[r->n_operators] = to;
    }
    for (; r->n_metadata < m->metadata_props.n; r->n_metadata++) {
        const gale__pb_entry *from = &m->metadata_props.at[r->n_metadata];
        gale_inspect_note to = {
            gale__arena_strdup(arena, text_of(&from->key)), gale__arena_strdup(arena, text_of(&from->value))};
        if (!to.key || !to.value) return GALE_NO_MEMORY;
        metadata[r->n_metadata] = to;
    }
    return GALE_OK;
}

static gale_status describe_model(
    const gale__onnx *file, const gale__pb_model *m, const facts *f, gale_inspect_result *r)
{
    gale__arena *arena = gale__result_arena(r);
    const gale__pb_graph *g = m->graph;
    r->file = gale__arena_strdup(arena, gale__onnx_path(file));
    r->ir_version = m->ir_version;
    r->producer = gale__arena_strdup(arena, text_of(&m->producer_name));
    r->producer_version = gale__arena_strdup(arena, text_of(&m->producer_version));
    r->graph = gale__arena_strdup(arena, g ? text_of(&g->name) : "");
    if (!r->file || !r->producer || !r->producer_version || !r->graph) return GALE_NO_MEMORY;
    r->n_nodes = f->nodes;
    r->n_functions = m->functions.n;
    r->n_tensors = f->tensors;
    r->n_external_tensors = f->external;
    r->parameters = f->parameters;
    r->parameter_bytes = f->bytes;
    if (g) GALE_TRY(describe_values(arena, g, g->input.at, g->input.n, &r->inputs, &r->n_inputs));
    if (g) GALE_TRY(describe_values(arena, NULL, g->output.at, g->output.n, &r->outputs, &r->n_outputs));
    return describe_lists(arena, m, f, r);
}

static gale_status inspect(const char *path, const gale_inspect_options *o, gale_inspect_result *result)
{
    gale__onnx *file = NULL;
    facts f = {0};
    GALE_TRY(gale__job_tell(&o->control, "read", "steps", 0, 2));
    GALE_TRY(gale__onnx_open(path, GALE__PB_KIND_MODEL, &file));
    const gale__pb_model *m = gale__onnx_root(file);
    if (m->graph) count_graph(&f, m->graph);
    for (size_t i = 0; i < m->functions.n; i++) count_nodes(&f, m->functions.at[i].node.at, m->functions.at[i].node.n);
    sum_up(&f);
    gale_status status =
        f.failed ? gale__fail(GALE_LIMIT, "%s: cannot be summarised: its tensors exceed 2^64 bytes, or memory ran out",
                       gale__onnx_path(file))
                 : describe_model(file, m, &f, result);
    gale__free(f.ops);
    if (status == GALE_OK) status = gale__job_tell(&o->control, "shapes", "steps", 1, 2);
    if (status == GALE_OK && o->shapes) status = gale__inspect_shapes(file, result);
    if (status == GALE_OK) status = gale__job_tell(&o->control, "shapes", "steps", 2, 2);
    gale__onnx_close(&file);
    return status;
}

gale_status gale_model_inspect(const char *path, const gale_inspect_options *options, gale_inspect_result **out)
{
    GALE__NEED({"path", path}, {"out", out});
    GALE__OPTIONS(options);
    static const gale_inspect_options usual = {0};
    gale_inspect_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? inspect(path, options ? options : &usual, result) : GALE_NO_MEMORY;
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_inspect_result)
