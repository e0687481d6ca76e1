/* Attributes from messages: numbers widened, text borrowed from the file's arena, tensors decoded.  Inside a function
 * an attribute may stand for one that the caller gives. */
#include "onnx/import/import.h"
#include <string.h>

/* IR versions before 2 may leave the type out: it is what is there. */
static int type_of(const gale__pb_attribute *a)
{
    if (a->type) return a->type;
    if (a->ints.n) return GALE__PB_INTS;
    if (a->floats.n) return GALE__PB_FLOATS;
    if (a->strings.n) return GALE__PB_STRINGS;
    if (a->t) return GALE__PB_TENSOR;
    if (a->g) return GALE__PB_GRAPH;
    if (a->s.at && a->s.size) return GALE__PB_STRING;
    if (a->f != 0) return GALE__PB_FLOAT;
    return GALE__PB_INT;
}

static gale_status copy_floats(gale__arena *arena, const gale__pb_attribute *a, gale_attr *to)
{
    double *values = gale__arena_alloc(arena, (a->floats.n + 1) * sizeof *values);
    if (!values) return GALE_NO_MEMORY;
    for (size_t i = 0; i < a->floats.n; i++) values[i] = (double)a->floats.at[i];
    to->floats = values;
    to->count = a->floats.n;
    return GALE_OK;
}

static gale_status copy_strings(gale__arena *arena, const gale__pb_attribute *a, gale_attr *to)
{
    const char **values = gale__arena_alloc(arena, (a->strings.n + 1) * sizeof *values);
    if (!values) return GALE_NO_MEMORY;
    for (size_t i = 0; i < a->strings.n; i++) values[i] = a->strings.at[i].at ? a->strings.at[i].at : "";
    to->strings = values;
    to->count = a->strings.n;
    return GALE_OK;
}

/* Attribute tensors live as long as the model: they are kept as constants of the net without a reader. */
static gale_status keep_tensor(gale__onnx_scope *scope, gale_tensor *tensor, gale_attr *to)
{
    int32_t value;
    to->kind = GALE_ATTR_TENSOR;
    to->tensor = tensor;
    return gale__onnx_net_constant(scope->net, NULL, &tensor, &value);
}

static gale_status read_value(gale__onnx_scope *scope, const gale__pb_attribute *a, gale_attr *to)
{
    gale__onnx_net *net = scope->net;
    gale_tensor *tensor = NULL;
    static const int64_t none[1];
    switch (type_of(a)) {
    case GALE__PB_INT: to->kind = GALE_ATTR_INT, to->i = a->i; return GALE_OK;
    case GALE__PB_FLOAT: to->kind = GALE_ATTR_FLOAT, to->f = (double)a->f; return GALE_OK;
    case GALE__PB_STRING:
        to->kind = GALE_ATTR_STRING, to->s = a->s.at ? a->s.at : "", to->count = a->s.size;
        return GALE_OK;
    case GALE__PB_INTS:
        to->kind = GALE_ATTR_INTS, to->ints = a->ints.n ? a->ints.at : none, to->count = a->ints.n;
        return GALE_OK;
    case GALE__PB_FLOATS: to->kind = GALE_ATTR_FLOATS; return copy_floats(net->arena, a, to);
    case GALE__PB_STRINGS: to->kind = GALE_ATTR_STRINGS; return copy_strings(net->arena, a, to);
    case GALE__PB_TENSOR:
        if (!a->t) return gale__fail(GALE_FORMAT, "it is declared as a tensor, but contains none");
        GALE_TRY(gale__onnx_tensor(net->file, a->t, &tensor));
        return keep_tensor(scope, tensor, to);
    case GALE__PB_SPARSE:
        if (!a->sparse_tensor) return gale__fail(GALE_FORMAT, "it is declared as a tensor, but contains none");
        GALE_TRY(gale__onnx_sparse(net->file, a->sparse_tensor, &tensor));
        return keep_tensor(scope, tensor, to);
    default: return gale__fail(GALE_FORMAT, "lists of tensors or graphs are not supported");
    }
}

/* What the caller of the function gives for `name`, else the function's default. */
static gale_status read_reference(gale__onnx_scope *scope, const char *name, gale_attr *to, bool *skip)
{
    const gale_attr *given = scope->call ? gale__onnx_net_attr(scope->call, name) : NULL;
    if (given) {
        *to = *given;
        return GALE_OK;
    }
    for (size_t i = 0; scope->function && i < scope->function->attribute_proto.n; i++) {
        const gale__pb_attribute *a = &scope->function->attribute_proto.at[i];
        if (a->name.at && strcmp(a->name.at, name) == 0) return read_value(scope, a, to);
    }
    *skip = true;
    return GALE_OK;
}

gale_status gale__onnx_import_attr(
    gale__onnx_scope *scope, const gale__pb_attribute *from, const char *where, gale_attr *to, bool *skip)
{
    *to = (gale_attr){0};
    *skip = false;
    gale_status status = GALE_OK;
    if (!from->name.at || !from->name.size) return gale__fail(GALE_FORMAT, "%s: an attribute has no name", where);
    if (from->ref_attr_name.at && from->ref_attr_name.size)
        status = read_reference(scope, from->ref_attr_name.at, to, skip);
    else if (type_of(from) == GALE__PB_TYPE) *skip = true; /* types are found from values */
    else status = read_value(scope, from, to);
    to->name = from->name.at;
    return status == GALE_OK ? status : gale__fail_within(status, "%s: attribute '%s'", where, from->name.at);
}

/* A tensor of its own for a single number or a list. */
static gale_status from_numbers(const gale_attr *a, gale__arena *arena, gale_tensor **out)
{
    bool list = a->kind == GALE_ATTR_INTS || a->kind == GALE_ATTR_FLOATS;
    int64_t n = list ? (int64_t)a->count : 1;
    if (a->kind == GALE_ATTR_INT || a->kind == GALE_ATTR_INTS)
        return gale_tensor_from_cpu(NULL, GALE_I64, list, &n, list ? a->ints : &a->i, out);
    float *values = gale__arena_alloc(arena, (size_t)(n + 1) * sizeof *values);
    if (!values) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < n; i++) values[i] = (float)(list ? a->floats[i] : a->f);
    return gale_tensor_from_cpu(NULL, GALE_F32, list, &n, values, out);
}

gale_status gale__onnx_import_constant(gale__onnx_scope *scope, const gale__onnx_net_node *node, gale_tensor **out)
{
    static const char *const names[] = {"value", "value_int", "value_ints", "value_float", "value_floats",
        "value_string", "value_strings", "sparse_value"};
    const gale_attr *a = NULL;
    for (size_t i = 0; !a && i < sizeof names / sizeof *names; i++) a = gale__onnx_net_attr(node, names[i]);
    if (!a)
        return gale__onnx_net_fail(node, GALE_FORMAT,
            "it has none of the attributes value, value_int, value_float, value_string and their lists");
    switch (a->kind) {
    case GALE_ATTR_TENSOR:
        return gale_tensor_reshape(
            (gale_tensor *)a->tensor, gale_tensor_rank(a->tensor), gale_tensor_dims(a->tensor), out);
    case GALE_ATTR_STRING: return gale_tensor_from_strings(0, NULL, &a->s, &a->count, out);
    case GALE_ATTR_STRINGS: return gale_tensor_from_strings(1, &(int64_t){(int64_t)a->count}, a->strings, NULL, out);
    case GALE_ATTR_GRAPH:
        return gale__onnx_net_fail(node, GALE_FORMAT, "its value is a graph instead of a number, string or tensor");
    default: return from_numbers(a, scope->net->arena, out);
    }
}
