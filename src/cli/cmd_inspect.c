/* gale inspect: what a model file says about itself.  Nothing is run and large data is not read, so it is quick for any
 * size; names come from the file and are shown without their control characters. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/inspect.h"
#include "cli/model_inputs.h"
#include "onnx/edit/edit.h"
#include <stdlib.h>
#include <string.h>

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "an ONNX file", .required = true},
    {"shapes", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "also the type and shape of every value, with the free extents of the inputs as symbols"},
    {"plan", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "also what a run takes and where its parts go: operations and bytes by operator, memory; inputs are made up "
        "(--shape)"},
    GALE__ARGS_MODEL_INPUTS,
    GALE__ARGS_MODEL_OPTIONS,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    GALE__ARG_JSON,
    {0},
};

enum { LISTED_MOST = 16 };
typedef struct op_count {
    const gale__pb_text *domain, *name;
    size_t count;
} op_count;
typedef struct facts {
    gale__onnx *file;
    const gale__pb_model *model;
    op_count *ops;
    size_t n_ops, capacity;
    size_t nodes, tensors, external;
    uint64_t parameters, bytes;
    bool failed;
} facts;

/* --- Counting. --- */

static const char *text_of(const gale__pb_text *t) { return t->at ? t->at : ""; }
static bool is_standard(const gale__pb_text *domain) { return !domain->size || !strcmp(domain->at, "ai.onnx"); }

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

/* --- Text. --- */

void gale__add_plain(gale__str *out, const gale__pb_text *text)
{
    for (size_t i = 0; i < text->size; i++) {
        unsigned char c = (unsigned char)text->at[i];
        gale__str_add_n(out, c < 32 || c == 127 ? "?" : text->at + i, 1);
    }
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
        else if (d->dim_param.size) gale__add_plain(out, &d->dim_param);
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

static void add_line(gale__str *out, const char *word, const gale__pb_text *a, const gale__pb_text *b)
{
    if (!a->size && !b->size) return;
    gale__str_addf(out, "%-11s", word);
    gale__add_plain(out, a);
    if (b->size) gale__str_add(out, " ");
    gale__add_plain(out, b);
    gale__str_add(out, "\n");
}

static void add_value(gale__str *out, const char *word, const gale__pb_value_info *info, const char *end)
{
    gale__str_addf(out, "%-11s", word);
    gale__add_plain(out, &info->name);
    gale__str_add(out, "  ");
    add_type(out, info->type);
    gale__str_addf(out, "%s\n", end);
}

/* Those with a value in the file come last; where every weight is listed, as older files do, their number says it. */
static void add_inputs(gale__str *out, const gale__pb_graph *g)
{
    size_t given = 0;
    for (size_t i = 0; i < g->input.n; i++) {
        if (gale__pb_has_value(g, &g->input.at[i].name)) given++;
        else add_value(out, "input", &g->input.at[i], "");
    }
    for (size_t i = 0; i < g->input.n && given <= LISTED_MOST; i++)
        if (gale__pb_has_value(g, &g->input.at[i].name))
            add_value(out, "input", &g->input.at[i], " (optional: the file gives it a value)");
    if (given > LISTED_MOST)
        gale__str_addf(out, "%-11s%zu more are optional: the file gives them a value\n", "input", given);
}

static int print_text(const facts *f, bool shapes)
{
    static const gale__pb_text none = {"", 0};
    gale__str out = {0};
    char bytes[32];
    const gale__pb_model *m = f->model;
    add_line(&out, "producer", &m->producer_name, &m->producer_version);
    gale__str_addf(&out, "%-11s%lld\n%-11s", "IR", (long long)m->ir_version, "opsets");
    for (size_t i = 0; i < m->opset_import.n; i++) {
        const gale__pb_opset *o = &m->opset_import.at[i];
        if (i) gale__str_add(&out, ", ");
        if (is_standard(&o->domain)) gale__str_add(&out, "ai.onnx");
        else gale__add_plain(&out, &o->domain);
        gale__str_addf(&out, " %lld", (long long)o->version);
    }
    gale__str_add(&out, "\n");
    if (m->graph) {
        add_line(&out, "graph", &m->graph->name, &none);
        add_inputs(&out, m->graph);
        for (size_t i = 0; i < m->graph->output.n; i++) add_value(&out, "output", &m->graph->output.at[i], "");
    }
    gale__str_addf(&out, "%-11s%llu in %zu tensors, %s", "parameters", (unsigned long long)f->parameters, f->tensors,
        gale__bytes_text(f->bytes, bytes));
    if (f->external) gale__str_addf(&out, ", %zu of them in other files", f->external);
    gale__str_addf(&out, "\n%-11s%zu\n", "nodes", f->nodes);
    for (size_t i = 0; i < f->n_ops; i++) {
        gale__str_addf(&out, "%8zu   ", f->ops[i].count);
        if (!is_standard(f->ops[i].domain)) {
            gale__add_plain(&out, f->ops[i].domain);
            gale__str_add(&out, " ");
        }
        gale__add_plain(&out, f->ops[i].name);
        gale__str_add(&out, "\n");
    }
    for (size_t i = 0; i < m->metadata_props.n; i++) {
        gale__str_add(&out, "metadata   ");
        gale__add_plain(&out, &m->metadata_props.at[i].key);
        gale__str_add(&out, " = ");
        gale__add_plain(&out, &m->metadata_props.at[i].value);
        gale__str_add(&out, "\n");
    }
    gale_status status = shapes ? gale__inspect_shapes(f->file, &out, NULL) : GALE_OK;
    if (status == GALE_OK) return gale__print(&out);
    gale__str_finish(&out);
    return gale__report(status);
}

/* --- JSON. --- */

static void json_text(gale__json_out *j, const char *key, const gale__pb_text *text)
{
    gale__json_key(j, key);
    gale__json_string(j, text_of(text));
}

static void json_number(gale__json_out *j, const char *key, uint64_t v)
{
    gale__json_key(j, key);
    gale__json_i64(j, v > INT64_MAX ? INT64_MAX : (int64_t)v);
}

static void json_dims(gale__json_out *j, const gale__pb_shape *shape)
{
    gale__json_key(j, "shape");
    gale__json_array(j);
    for (size_t i = 0; i < shape->dim.n; i++) {
        const gale__pb_dim *d = &shape->dim.at[i];
        if (d->has_value) gale__json_i64(j, d->dim_value);
        else if (d->dim_param.size) gale__json_string(j, d->dim_param.at);
        else gale__json_null(j);
    }
    gale__json_close(j, ']');
}

static void json_values(
    gale__json_out *j, const char *key, const gale__pb_graph *g, const gale__pb_value_info *infos, size_t n)
{
    gale__json_key(j, key);
    gale__json_array(j);
    for (size_t i = 0; i < n; i++) {
        gale__str type = {0};
        gale__json_object(j);
        json_text(j, "name", &infos[i].name);
        if (g && gale__pb_has_value(g, &infos[i].name)) gale__json_key(j, "optional"), gale__json_bool(j, true);
        add_type(&type, infos[i].type);
        gale__json_key(j, "type");
        gale__json_string(j, gale__str_text(&type));
        if (infos[i].type && infos[i].type->tensor_type && infos[i].type->tensor_type->shape)
            json_dims(j, infos[i].type->tensor_type->shape);
        gale__json_close(j, '}');
        gale__str_finish(&type);
    }
    gale__json_close(j, ']');
}

static void json_lists(gale__json_out *j, const facts *f)
{
    const gale__pb_model *m = f->model;
    gale__json_key(j, "opsets");
    gale__json_array(j);
    for (size_t i = 0; i < m->opset_import.n; i++) {
        gale__json_object(j);
        gale__json_key(j, "domain");
        gale__json_string(j, is_standard(&m->opset_import.at[i].domain) ? "ai.onnx" : m->opset_import.at[i].domain.at);
        gale__json_key(j, "version");
        gale__json_i64(j, m->opset_import.at[i].version);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
    gale__json_key(j, "operators");
    gale__json_array(j);
    for (size_t i = 0; i < f->n_ops; i++) {
        gale__json_object(j);
        gale__json_key(j, "domain");
        gale__json_string(j, is_standard(f->ops[i].domain) ? "ai.onnx" : f->ops[i].domain->at);
        json_text(j, "name", f->ops[i].name);
        json_number(j, "count", f->ops[i].count);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
    gale__json_key(j, "metadata");
    gale__json_object(j);
    for (size_t i = 0; i < m->metadata_props.n; i++)
        json_text(j, text_of(&m->metadata_props.at[i].key), &m->metadata_props.at[i].value);
    gale__json_close(j, '}');
}

static int print_json(const facts *f, bool shapes)
{
    gale__str out = {0};
    gale__json_out j;
    const gale__pb_model *m = f->model;
    gale__json_begin(&j, &out);
    gale__json_object(&j);
    gale__json_key(&j, "file");
    gale__json_string(&j, gale__onnx_path(f->file));
    gale__json_key(&j, "ir_version");
    gale__json_i64(&j, m->ir_version);
    json_text(&j, "producer", &m->producer_name);
    json_text(&j, "producer_version", &m->producer_version);
    json_values(&j, "inputs", m->graph, m->graph ? m->graph->input.at : NULL, m->graph ? m->graph->input.n : 0);
    json_values(&j, "outputs", NULL, m->graph ? m->graph->output.at : NULL, m->graph ? m->graph->output.n : 0);
    json_number(&j, "nodes", f->nodes);
    json_number(&j, "functions", m->functions.n);
    json_number(&j, "tensors", f->tensors);
    json_number(&j, "external_tensors", f->external);
    json_number(&j, "parameters", f->parameters);
    json_number(&j, "parameter_bytes", f->bytes);
    json_lists(&j, f);
    gale_status status = shapes ? gale__inspect_shapes(f->file, NULL, &j) : GALE_OK;
    gale__json_close(&j, '}');
    if (status == GALE_OK) return gale__print(&out);
    gale__str_finish(&out);
    return gale__report(status);
}

static int run(const gale__args *a)
{
    facts f = {0};
    gale_status status = gale__onnx_open(gale__args_text(a, "MODEL"), GALE__PB_KIND_MODEL, &f.file);
    if (status != GALE_OK) return gale__report(status);
    f.model = gale__onnx_root(f.file);
    if (f.model->graph) count_graph(&f, f.model->graph);
    for (size_t i = 0; i < f.model->functions.n; i++)
        count_nodes(&f, f.model->functions.at[i].node.at, f.model->functions.at[i].node.n);
    sum_up(&f);
    int code = f.failed ? gale__report(gale__fail(GALE_LIMIT, "%s: cannot be summed up", gale__onnx_path(f.file)))
               : gale__args_flag(a, "json") ? print_json(&f, gale__args_flag(a, "shapes"))
                                            : print_text(&f, gale__args_flag(a, "shapes"));
    gale__free(f.ops);
    gale__onnx_close(&f.file);
    if (code || !gale__args_flag(a, "plan")) return code;
    fflush(stdout);
    return gale__on_device(a, gale__inspect_plan);
}

const gale__command gale__command_inspect = {
    .args = args,
    .run = run,
    .about = "Shows what is in an ONNX file: who wrote it, which operator sets it asks for, inputs and outputs, how "
             "many of which operators (also in bodies "
             "and functions), and its parameters. Nothing is run, and external data is not looked for. With --shapes "
             "every value is listed too: free extents of the "
             "inputs keep their names, so that a result may be f32 [batch, 2*height]; ? is what only a run can tell.",
    .examples = "  gale inspect model.onnx\n  gale inspect model.onnx --json\n  gale inspect model.onnx --shapes\n  "
                "gale inspect model.onnx --plan --shape x=1x3x256x256 --provider cuda",
};
