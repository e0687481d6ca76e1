/* Infers ranks and element types of results as far as possible: enough to rewrite older forms of operators without
 * shape arithmetic.  Operators that are not in the table have unknown results, which is always safe. */
#include "onnx/import/rewrite.h"
#include <string.h>

typedef enum rank_rule {
    UNKNOWN,
    AS_FIRST,
    AS_FIRST_ONLY,
    WIDEST,
    PRODUCT,
    NONE,
    ONE,
    TWO,
    AS_LONG_AS_SECOND,
    AT_LEAST_SECOND,
    LESS_AXES,
    MORE_AXES,
    GATHERED,
    ARGUMENT,
    REDUCED
} rank_rule;
typedef enum type_rule {
    TYPE_UNKNOWN,
    TYPE_FIRST,
    TYPE_FIRST_ONLY,
    TYPE_SECOND,
    TYPE_BOOL,
    TYPE_I64,
    TYPE_TO
} type_rule;
static const struct row {
    const char *op;
    uint8_t rank, type;
} rows[] = {
#define X(Name, rank, type) {#Name, rank, type},
#include "onnx/import/learn.def"
#undef X
};

int gale__onnx_net_rank(const gale__onnx_net *net, int32_t value) { return value >= 0 ? net->values[value].rank : -1; }

bool gale__onnx_net_type(const gale__onnx_net *net, int32_t value, gale_type *type)
{
    if (value < 0) return false;
    const gale__onnx_net_value *v = &net->values[value];
    bool declared = v->input >= 0 && !net->outer; /* a body's inputs need not say theirs */
    if (v->kind != GALE__KIND_NUMBERS || !(v->typed || v->constant || declared)) return false;
    *type = v->type;
    return true;
}

static int widest(const gale__onnx_net *net, const gale__onnx_net_node *node)
{
    int rank = 0;
    for (int i = 0; i < node->n_in; i++) {
        int r = gale__onnx_net_rank(net, node->in[i]);
        if (r < 0) return -1;
        if (r > rank) rank = r;
    }
    return rank;
}

/* The length of input 1, a list of whole numbers. */
static int length(const gale__onnx_net *net, const gale__onnx_net_node *node)
{
    const gale__onnx_net_value *v = node->n_in > 1 && node->in[1] >= 0 ? &net->values[node->in[1]] : NULL;
    return v && v->rank == 1 && v->dims[0] >= 0 && v->dims[0] <= GALE_MAX_RANK ? (int)v->dims[0] : -1;
}

static int reduced(const gale__onnx_net *net, const gale__onnx_net_node *node, int rank)
{
    bool axes = node->n_in > 1 && node->in[1] >= 0;
    int n = length(net, node);
    if (rank < 0 || gale__onnx_net_attr_i(node, "keepdims", 1)) return rank;
    if (!axes) return gale__onnx_net_attr_i(node, "noop_with_empty_axes", 0) ? rank : 0;
    return n > 0 && n <= rank ? rank - n : -1;
}

static int rank_of(const gale__onnx_net *net, const gale__onnx_net_node *node, rank_rule rule)
{
    int a = node->n_in ? gale__onnx_net_rank(net, node->in[0]) : -1,
        b = node->n_in > 1 ? gale__onnx_net_rank(net, node->in[1]) : -1, n = length(net, node);
    switch (rule) {
    case UNKNOWN: return -1;
    case AS_FIRST:
    case AS_FIRST_ONLY: return a;
    case WIDEST: return widest(net, node);
    case PRODUCT: return a >= 2 && b >= 2 ? (a > b ? a : b) : -1;
    case NONE: return 0;
    case ONE: return 1;
    case TWO: return 2;
    case AS_LONG_AS_SECOND: return n;
    case AT_LEAST_SECOND: return a < 0 || n < 0 ? -1 : a > n ? a : n;
    case LESS_AXES: return a >= 0 && n > 0 && n <= a ? a - n : -1;
    case MORE_AXES: return a >= 0 && n >= 0 && a + n <= GALE_MAX_RANK ? a + n : -1;
    case GATHERED: return a >= 1 && b >= 0 && a + b - 1 <= GALE_MAX_RANK ? a + b - 1 : -1;
    case ARGUMENT: return a >= 1 && !gale__onnx_net_attr_i(node, "keepdims", 1) ? a - 1 : a;
    case REDUCED: return reduced(net, node, a);
    }
    return -1;
}

static bool type_of(const gale__onnx_net *net, const gale__onnx_net_node *node, type_rule rule, gale_type *type)
{
    int number;
    switch (rule) {
    case TYPE_UNKNOWN: return false;
    case TYPE_FIRST:
    case TYPE_FIRST_ONLY: return node->n_in > 0 && gale__onnx_net_type(net, node->in[0], type);
    case TYPE_SECOND: return node->n_in > 1 && gale__onnx_net_type(net, node->in[1], type);
    case TYPE_BOOL: *type = GALE_BOOL; return true;
    case TYPE_I64: *type = GALE_I64; return true;
    case TYPE_TO:
        number = gale__onnx_type(gale__onnx_net_attr_i(node, "to", 0));
        if (number < 0 || number == GALE_STRING) return false;
        *type = (gale_type)number;
        return true;
    }
    return false;
}

/* How long a list of numbers is, -1 when that is not known: exporters put the shape of a Reshape together from the
 * extents of other values, and its length is the rank of what comes out. */
static int64_t list_length(const gale__onnx_net *net, int32_t value)
{
    const gale__onnx_net_value *v = value >= 0 ? &net->values[value] : NULL;
    return v && v->rank == 1 ? v->dims[0] : -1;
}

static int64_t joined_length(const gale__onnx_net *net, const gale__onnx_net_node *node)
{
    int64_t sum = 0;
    for (int i = 0; i < node->n_in; i++) {
        int64_t n = list_length(net, node->in[i]);
        if (n < 0 || n > GALE_MAX_RANK) return -1;
        sum += n;
    }
    return sum;
}

/* The length of a node's only result, a list. */
static int64_t result_length(const gale__onnx_net *net, const gale__onnx_net_node *node)
{
    bool part = gale__onnx_net_attr(node, "start") || gale__onnx_net_attr(node, "end");
    if (!strcmp(node->op, "Shape")) return part ? -1 : gale__onnx_net_rank(net, node->in[0]);
    if (!strcmp(node->op, "Concat")) return joined_length(net, node);
    if (!strcmp(node->op, "Unsqueeze")) return 1;
    if (!strcmp(node->op, "Cast") || !strcmp(node->op, "Identity")) return list_length(net, node->in[0]);
    if (!strcmp(node->op, "Gather")) return list_length(net, node->in[1]);
    return -1;
}

void gale__onnx_net_learn(gale__onnx_net *net, const gale__onnx_net_node *node)
{
    const struct row *row = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !row; i++)
        if (rows[i].op[0] == node->op[0] && strcmp(rows[i].op, node->op) == 0) row = &rows[i];
    if (!row || node->domain[0]) return;
    gale_type type = GALE_F32;
    int rank = rank_of(net, node, row->rank);
    bool typed = type_of(net, node, row->type, &type);
    for (int i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0) continue;
        gale__onnx_net_value *v = &net->values[node->out[i]];
        if (v->kind != GALE__KIND_NUMBERS) continue;
        if (v->rank < 0 && rank >= 0 && !(i && row->rank == AS_FIRST_ONLY)) {
            v->rank = rank;
            for (int k = 0; k < rank; k++) v->dims[k] = -1;
            if (rank == 1) v->dims[0] = result_length(net, node);
        }
        if (!v->typed && typed && !(i && row->type == TYPE_FIRST_ONLY)) v->type = type, v->typed = true;
    }
}
