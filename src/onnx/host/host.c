/* The table of host operators, the kinds of their results, and access to their arguments.  Arguments come from a file
 * or a caller, so kinds and counts are checked here. */
#include "onnx/host/host.h"
#include "base/num.h"
#include "graph/run/tensor.h"
#include <string.h>

static const gale__onnx_host_op table[] = {
#define X(domain, Name, least, most, results, gives, rest, anywhere, strings_only, run)                    \
    {domain, #Name, least, most, results, GALE__GIVES_##gives, GALE__GIVES_##rest, anywhere, strings_only, \
        gale__onnx_host_##run},
#include "onnx/host/host.def"
#undef X
};
#define ROWS (sizeof table / sizeof *table)

size_t gale__onnx_host_rows(const gale__onnx_host_op **out) { return *out = table, ROWS; }

const gale__onnx_host_op *gale__onnx_host_find(const char *domain, const char *name)
{
    size_t low = 0, high = ROWS;
    if (!strcmp(domain, "ai.onnx")) domain = "";
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(table[middle].name, name);
        if (!order) return strcmp(table[middle].domain, domain) ? NULL : &table[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* --- Kinds. --- */

static const gale__onnx_net_value *input_of(const gale__onnx_net *net, const gale__onnx_net_node *node, int i)
{
    static const gale__onnx_net_value numbers = {.rank = -1};
    return i < node->n_in && node->in[i] >= 0 ? &net->values[node->in[i]] : &numbers;
}

static bool says_string(const gale_attr *a)
{
    if (!a) return false;
    if (a->kind == GALE_ATTR_INT) return a->i == 8; /* ONNX's number of strings */
    if (a->kind == GALE_ATTR_STRING) return !strcmp(a->s, "string") || !strcmp(a->s, "TO_STRING");
    return a->kind == GALE_ATTR_TENSOR && a->tensor && gale_tensor_type(a->tensor) == GALE_STRING;
}

/* Whether attributes make the first result strings. */
static bool names_strings(const gale__onnx_net *net, const gale__onnx_net_node *node)
{
    static const char *const types[] = {"to", "dtype", "cast_to", "value", "values_tensor"};
    bool from_strings = input_of(net, node, 0)->kind == GALE__KIND_STRINGS;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (says_string(gale__onnx_net_attr(node, types[i]))) return true;
    if (gale__onnx_net_attr(node, "values_strings")) return true;
    if (!strcmp(node->op, "CastLike")) return input_of(net, node, 1)->kind == GALE__KIND_STRINGS;
    /* These map strings to numbers or back, whichever comes in. */
    return !from_strings && (!strcmp(node->op, "CategoryMapper") ||
                                (!strcmp(node->op, "LabelEncoder") && gale__onnx_net_attr(node, "classes_strings")));
}

static void set_kind(
    const gale__onnx_net *net, const gale__onnx_net_node *node, gale__onnx_host_result gives, gale__onnx_net_value *v)
{
    const gale__onnx_net_value *first = input_of(net, node, 0);
    v->kind = v->of = GALE__KIND_NUMBERS;
    v->optional = false;
    switch (gives) {
    case GALE__GIVES_NUMBERS: break;
    case GALE__GIVES_STRINGS: v->kind = GALE__KIND_STRINGS; break;
    case GALE__GIVES_NAMED: v->kind = names_strings(net, node) ? GALE__KIND_STRINGS : GALE__KIND_NUMBERS; break;
    case GALE__GIVES_MAPS: v->kind = GALE__KIND_SEQUENCE, v->of = GALE__KIND_MAP; break;
    case GALE__GIVES_ELEMENT: v->kind = first->of; break;
    case GALE__GIVES_SEQUENCE:
        v->kind = GALE__KIND_SEQUENCE;
        v->of = node->n_in ? first->kind : names_strings(net, node) ? GALE__KIND_STRINGS : GALE__KIND_NUMBERS;
        break;
    case GALE__GIVES_SAME:
    case GALE__GIVES_OPTIONAL:
    case GALE__GIVES_PRESENT:
        v->kind = first->kind;
        v->of = first->of;
        v->optional = gives == GALE__GIVES_OPTIONAL || (gives == GALE__GIVES_SAME && first->optional);
    }
}

void gale__onnx_host_kinds(const gale__onnx_host_op *op, gale__onnx_net *net, const gale__onnx_net_node *node)
{
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0) set_kind(net, node, i ? op->rest : op->gives, &net->values[node->out[i]]);
}

bool gale__onnx_host_wanted(const gale__onnx_host_op *op, const gale__onnx_net *net, const gale__onnx_net_node *node)
{
    gale__onnx_net_value first;
    for (int i = 0; i < node->n_in; i++)
        if (input_of(net, node, i)->kind != GALE__KIND_NUMBERS || input_of(net, node, i)->optional) return true;
    set_kind(net, node, op->gives == GALE__GIVES_NAMED ? GALE__GIVES_NAMED : GALE__GIVES_NUMBERS, &first);
    return first.kind != GALE__KIND_NUMBERS;
}

/* --- Arguments. --- */

static const char *const kind_names[] = {"empty", "a tensor", "a sequence", "a map"};

bool gale__onnx_host_has(const gale__onnx_host_call *call, int i)
{
    return i < call->n_in && call->in[i] && call->in[i]->kind != GALE_OBJECT_NONE;
}

static gale_status want(gale__onnx_host_call *call, int i, gale_object_kind kind)
{
    if (i >= call->n_in || !call->in[i]) return gale__fail(GALE_INVALID, "missing input %d", i);
    if (call->in[i]->kind != kind)
        return gale__fail(
            GALE_INVALID, "input %d is %s, but must be %s", i, kind_names[call->in[i]->kind], kind_names[kind]);
    return GALE_OK;
}

gale_status gale__onnx_host_tensor(gale__onnx_host_call *call, int i, gale_tensor **out)
{
    GALE_TRY(want(call, i, GALE_OBJECT_TENSOR));
    *out = call->in[i]->tensor;
    return GALE_OK;
}

gale_status gale__onnx_host_strings(gale__onnx_host_call *call, int i, gale_tensor **out)
{
    gale_tensor *t;
    GALE_TRY(gale__onnx_host_tensor(call, i, &t));
    if (t->type != GALE_STRING)
        return gale__fail(GALE_INVALID, "input %d is %s, but must be strings", i, gale_type_name(t->type));
    *out = t;
    return GALE_OK;
}

gale_status gale__onnx_host_sequence(gale__onnx_host_call *call, int i, gale_object **out)
{
    GALE_TRY(want(call, i, GALE_OBJECT_SEQUENCE));
    *out = call->in[i];
    return GALE_OK;
}

gale_status gale__onnx_host_map(gale__onnx_host_call *call, int i, gale_object **out)
{
    GALE_TRY(want(call, i, GALE_OBJECT_MAP));
    *out = call->in[i];
    return GALE_OK;
}

gale_status gale__onnx_host_numbers(gale__onnx_host_call *call, const gale_tensor *tensor, const void **out)
{
    const void *there = gale_tensor_data((gale_tensor *)tensor);
    if (there) return *out = there, GALE_OK;
    void *copy = gale__arena_alloc(&call->arena, tensor->size_bytes + 1);
    if (!copy) return GALE_NO_MEMORY;
    GALE_TRY(gale_tensor_to_cpu(tensor, copy, tensor->size_bytes));
    *out = copy;
    return GALE_OK;
}

gale_status gale__onnx_host_int(gale__onnx_host_call *call, int i, int64_t fallback, int64_t *out)
{
    gale_tensor *t;
    const void *data;
    if (!gale__onnx_host_has(call, i)) return *out = fallback, GALE_OK;
    GALE_TRY(gale__onnx_host_tensor(call, i, &t));
    if (!gale__type_is_int(t->type) || gale__tensor_elements(t) != 1)
        return gale__fail(GALE_INVALID, "input %d must be one integer, not %lld elements of %s", i,
            (long long)gale__tensor_elements(t), gale_type_name(t->type));
    GALE_TRY(gale__onnx_host_numbers(call, t, &data));
    *out = gale__load_i64(t->type, data);
    return GALE_OK;
}

int64_t gale__onnx_tensor_count(const gale_tensor *tensor) { return gale__tensor_elements(tensor); }

const char *gale__onnx_host_text(const gale__onnx_host_call *call, const char *name, const char *fallback)
{
    const gale_attr *a = gale__onnx_net_attr(call->node, name);
    return a && a->kind == GALE_ATTR_STRING && a->s ? a->s : fallback;
}

gale_status gale__onnx_host_give(gale__onnx_host_call *call, int i, gale_tensor **tensor)
{
    if (i >= call->n_out) return gale_tensor_destroy(tensor), GALE_OK;
    return gale__onnx_object_take(tensor, &call->out[i]);
}

gale_status gale__onnx_host_axis(int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return gale__fail(GALE_INVALID, "axis %lld is out of range for rank %d", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return GALE_OK;
}
