/* The result of inspecting a model as JSON. */
#include "jobs/model/inspect.h"

static void add_dims(gale__json_out *j, const gale_inspect_value *v)
{
    gale__json_open(j, "shape", '[');
    for (int i = 0; i < v->rank; i++) {
        if (!v->dims[i].known) gale__json_null(j);
        else if (v->dims[i].symbol) gale__json_string(j, v->dims[i].symbol);
        else gale__json_i64(j, v->dims[i].value);
    }
    gale__json_close(j, ']');
}

/* declared: of the file's inputs and outputs, whose type is said in words, since it may be more than an element's. */
static void add_values(gale__json_out *j, const char *key, const gale_inspect_value *values, size_t n, bool declared)
{
    gale__json_open(j, key, '[');
    for (size_t i = 0; i < n; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "name", values[i].name);
        if (values[i].optional) gale__json_put_bool(j, "optional", true);
        gale__json_put_text(j, "type", declared ? values[i].type : values[i].element);
        if (values[i].has_shape) add_dims(j, &values[i]);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

static void add_lists(gale__json_out *j, const gale_inspect_result *r)
{
    gale__json_open(j, "opsets", '[');
    for (size_t i = 0; i < r->n_opsets; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "domain", r->opsets[i].domain);
        gale__json_put_i64(j, "version", r->opsets[i].version);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
    gale__json_open(j, "operators", '[');
    for (size_t i = 0; i < r->n_operators; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "domain", r->operators[i].domain);
        gale__json_put_text(j, "name", r->operators[i].name);
        gale__json_put_u64(j, "count", r->operators[i].count);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
    gale__json_open(j, "metadata", '{');
    for (size_t i = 0; i < r->n_metadata; i++) gale__json_put_text(j, r->metadata[i].key, r->metadata[i].value);
    gale__json_close(j, '}');
}

GALE__RESULT_JSON(gale_inspect_result, '{')
{
    gale__json_put_text(j, "file", r->file);
    gale__json_put_i64(j, "ir_version", r->ir_version);
    gale__json_put_text(j, "producer", r->producer);
    gale__json_put_text(j, "producer_version", r->producer_version);
    add_values(j, "inputs", r->inputs, r->n_inputs, true);
    add_values(j, "outputs", r->outputs, r->n_outputs, true);
    gale__json_put_u64(j, "nodes", r->n_nodes);
    gale__json_put_u64(j, "functions", r->n_functions);
    gale__json_put_u64(j, "tensors", r->n_tensors);
    gale__json_put_u64(j, "external_tensors", r->n_external_tensors);
    gale__json_put_u64(j, "parameters", r->parameters);
    gale__json_put_u64(j, "parameter_bytes", r->parameter_bytes);
    add_lists(j, r);
    if (r->has_values) add_values(j, "values", r->values, r->n_values, false);
}
