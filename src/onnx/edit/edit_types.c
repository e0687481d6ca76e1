/* Infers element types of values from the front to the back of a graph.  Only certain types are returned: an operator
 * without a rule has results of unknown type, and code that needs the type reports an error. */
#include "onnx/edit/edit.h"
#include <string.h>

enum { F32 = 1, U8 = 2, I32 = 6, I64 = 7, BOOL = 9 };

bool gale__pb_is_core(const gale__pb_text *domain) { return !domain->size || !strcmp(domain->at, "ai.onnx"); }

const gale__pb_attribute *gale__pb_find_attribute(const gale__pb_node *node, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < node->attribute.n; i++)
        if (node->attribute.at[i].name.size == n && !memcmp(node->attribute.at[i].name.at, name, n))
            return &node->attribute.at[i];
    return NULL;
}

/* First result, and what the others are: a type, or -N for that of input N-1. */
typedef struct rule {
    const char *op;
    int8_t first, rest;
} rule;
static const rule rules[] = {
    {"ArgMax", I64},
    {"ArgMin", I64},
    {"NonMaxSuppression", I64},
    {"NonZero", I64},
    {"SequenceLength", I64},
    {"Shape", I64},
    {"Size", I64},
    {"And", BOOL},
    {"Equal", BOOL},
    {"Greater", BOOL},
    {"GreaterOrEqual", BOOL},
    {"IsInf", BOOL},
    {"IsNaN", BOOL},
    {"Less", BOOL},
    {"LessOrEqual", BOOL},
    {"Not", BOOL},
    {"OptionalHasElement", BOOL},
    {"Or", BOOL},
    {"Xor", BOOL},
    {"ConvInteger", I32},
    {"MatMulInteger", I32},
    {"CastLike", -2},
    {"Where", -2},
    {"DequantizeLinear", -2},
    {"OneHot", -3},
    {"QLinearConv", -8},
    {"QLinearMatMul", -8},
    {"Dropout", -1, BOOL},
    {"TopK", -1, I64},
    {"MaxPool", -1, I64},
    {"Unique", -1, I64},
    {"Resize", -1},
    {"Upsample", -1},
    {"BitShift", -1},
    {"AveragePool", -1},
    {"GlobalAveragePool", -1},
    {"LpPool", -1},
    {"GlobalLpPool", -1},
    {"ReduceSum", -1},
    {"ReduceMean", -1},
    {"ReduceL1", -1},
    {"ReduceL2", -1},
    {"ReduceLogSum", -1},
    {"ReduceLogSumExp", -1},
    {"ReduceSumSquare", -1},
    {"ReduceProd", -1},
    {"CumSum", -1},
    {"InstanceNormalization", -1},
    {"LayerNormalization", -1},
    {"RMSNormalization", -1},
    {"GroupNormalization", -1},
    {"MeanVarianceNormalization", -1},
    {"LRN", -1},
    {"LpNormalization", -1},
#define X(op, f16, bf16, results) {#op, -1, -1},
#include "half.def"
#undef X
};

static int declared(const gale__pb_value_info *info)
{
    return info->type && info->type->tensor_type ? info->type->tensor_type->elem_type : 0;
}

static int attribute_type(const gale__pb_node *node, const char *name, int fallback)
{
    const gale__pb_attribute *a = gale__pb_find_attribute(node, name);
    return a && a->t ? a->t->data_type : a && a->i > 0 && a->i < 64 ? (int)a->i : a ? 0 : fallback;
}

/* Operators whose attributes decide. */
static int by_attribute(const gale__pb_node *node, const gale__onnx_names *types, size_t k)
{
    const char *op = node->op_type.at;
    int first = node->input.n ? gale__edit_type_of(types, &node->input.at[0]) : 0;
    if (!strcmp(op, "Cast")) return attribute_type(node, "to", 0);
    if (!strcmp(op, "ConstantOfShape")) return attribute_type(node, "value", F32);
    if (!strcmp(op, "RandomNormal") || !strcmp(op, "RandomUniform")) return attribute_type(node, "dtype", F32);
    if (!strcmp(op, "EyeLike") || !strcmp(op, "RandomNormalLike") || !strcmp(op, "RandomUniformLike") ||
        !strcmp(op, "Bernoulli"))
        return attribute_type(node, "dtype", first);
    if (!strcmp(op, "Constant")) {
        if (gale__pb_find_attribute(node, "value_float") || gale__pb_find_attribute(node, "value_floats")) return F32;
        if (gale__pb_find_attribute(node, "value_int") || gale__pb_find_attribute(node, "value_ints")) return I64;
        return attribute_type(node, "value", 0);
    }
    if (!strcmp(op, "QuantizeLinear"))
        return node->input.n > 2 && node->input.at[2].size ? gale__edit_type_of(types, &node->input.at[2])
                                                           : attribute_type(node, "output_dtype", U8);
    if (!strcmp(op, "DynamicQuantizeLinear")) return k == 1 ? F32 : U8;
    return -1;
}

static int body_result(const gale__pb_node *node, size_t k)
{
    bool loop = !strcmp(node->op_type.at, "Loop");
    const gale__pb_attribute *a =
        gale__pb_find_attribute(node, !strcmp(node->op_type.at, "If") ? "then_branch" : "body");
    k += loop;
    return a && a->g && k < a->g->output.n ? declared(&a->g->output.at[k]) : 0;
}

static int result_type(const gale__pb_node *node, const gale__onnx_names *types, size_t k)
{
    if (!node->op_type.size || !gale__pb_is_core(&node->domain)) return 0;
    const char *op = node->op_type.at;
    if (!strcmp(op, "If") || !strcmp(op, "Loop") || !strcmp(op, "Scan")) return body_result(node, k);
    int type = by_attribute(node, types, k);
    if (type >= 0) return type;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].op, op)) continue;
        int r = k && rules[i].rest ? rules[i].rest : rules[i].first;
        if (r > 0) return r;
        return (size_t)-r <= node->input.n ? gale__edit_type_of(types, &node->input.at[-r - 1]) : 0;
    }
    return 0;
}

static gale_status set(gale__onnx_names *types, const gale__pb_text *name, int type)
{
    return name->size && type ? gale__onnx_names_set(types, name->at, name->size, type) : GALE_OK;
}

gale_status gale__edit_types(const gale__pb_graph *g, gale__onnx_names *out)
{
    for (size_t i = 0; i < g->input.n; i++) GALE_TRY(set(out, &g->input.at[i].name, declared(&g->input.at[i])));
    for (size_t i = 0; i < g->value_info.n; i++)
        GALE_TRY(set(out, &g->value_info.at[i].name, declared(&g->value_info.at[i])));
    for (size_t i = 0; i < g->output.n; i++) GALE_TRY(set(out, &g->output.at[i].name, declared(&g->output.at[i])));
    for (size_t i = 0; i < g->initializer.n; i++)
        GALE_TRY(set(out, &g->initializer.at[i].name, g->initializer.at[i].data_type));
    for (size_t i = 0; i < g->sparse_initializer.n; i++)
        if (g->sparse_initializer.at[i].values)
            GALE_TRY(
                set(out, &g->sparse_initializer.at[i].values->name, g->sparse_initializer.at[i].values->data_type));
    for (size_t i = 0; i < g->node.n; i++)
        for (size_t k = 0; k < g->node.at[i].output.n; k++) {
            const gale__pb_text *name = &g->node.at[i].output.at[k];
            if (name->size && gale__onnx_names_find(out, name->at, name->size) < 0)
                GALE_TRY(set(out, name, result_type(&g->node.at[i], out, k)));
        }
    return GALE_OK;
}

static gale_status graph_names(const gale__pb_graph *g, gale__edit_visit *visit, void *user)
{
    for (size_t i = 0; i < g->node.n; i++) {
        for (size_t k = 0; k < g->node.at[i].input.n; k++) GALE_TRY(visit(user, &g->node.at[i].input.at[k]));
        GALE_TRY(gale__edit_body_names(&g->node.at[i], visit, user));
    }
    for (size_t i = 0; i < g->output.n; i++) GALE_TRY(visit(user, &g->output.at[i].name));
    return GALE_OK;
}

gale_status gale__edit_body_names(const gale__pb_node *node, gale__edit_visit *visit, void *user)
{
    for (size_t i = 0; i < node->attribute.n; i++) {
        const gale__pb_attribute *a = &node->attribute.at[i];
        if (a->g) GALE_TRY(graph_names(a->g, visit, user));
        for (size_t k = 0; k < a->graphs.n; k++) GALE_TRY(graph_names(&a->graphs.at[k], visit, user));
    }
    return GALE_OK;
}
