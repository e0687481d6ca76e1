/* The resolved graph and its builder functions.  Nodes and names are in the model's arena; constants are
 * reference-counted tensors, so the net must be destroyed. */
#include "onnx/import/net.h"
#include "base/num.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gale_status gale__onnx_net_new_value(gale__onnx_net *net, const char *name, int32_t *out)
{
    GALE_TRY(gale__grow((void **)&net->values, &net->values_capacity, (size_t)net->n_values + 1, sizeof *net->values));
    *out = net->n_values;
    net->values[net->n_values++] =
        (gale__onnx_net_value){.name = name ? name : "", .rank = -1, .node = -1, .input = -1};
    return GALE_OK;
}

gale_status gale__onnx_net_constant(gale__onnx_net *net, const char *name, gale_tensor **tensor, int32_t *out)
{
    gale_tensor *t = *tensor;
    *tensor = NULL;
    gale_status status = gale__onnx_net_new_value(net, name, out);
    if (status != GALE_OK) {
        gale_tensor_destroy(&t);
        return status;
    }
    gale__onnx_net_value *v = &net->values[*out];
    v->constant = t;
    v->type = gale_tensor_type(t);
    v->kind = v->type == GALE_STRING ? GALE__KIND_STRINGS : GALE__KIND_NUMBERS;
    v->rank = gale_tensor_rank(t);
    memcpy(v->dims, gale_tensor_dims(t), (size_t)v->rank * sizeof *v->dims);
    return GALE_OK;
}

gale_status gale__onnx_net_ints(gale__onnx_net *net, const int64_t *values, int n, int32_t *out)
{
    gale_tensor *t = NULL;
    GALE_TRY(gale_tensor_from_cpu(NULL, GALE_I64, 1, &(int64_t){n}, values, &t));
    return gale__onnx_net_constant(net, NULL, &t, out);
}

gale_status gale__onnx_net_scalar(gale__onnx_net *net, gale_type type, double value, int32_t *out)
{
    uint64_t bits = 0;
    gale_tensor *t = NULL;
    gale__store_f64(type, &bits, value);
    GALE_TRY(gale_tensor_from_cpu(NULL, type, 0, NULL, &bits, &t));
    return gale__onnx_net_constant(net, NULL, &t, out);
}

gale_status gale__onnx_net_push(gale__onnx_net *net, const gale__onnx_net_node *node)
{
    gale__onnx_net_node copy = *node;
    GALE_TRY(gale__grow((void **)&net->nodes, &net->nodes_capacity, (size_t)net->n_nodes + 1, sizeof *net->nodes));
    copy.in = gale__arena_copy(net->arena, node->in, (size_t)node->n_in * sizeof *node->in);
    copy.out = gale__arena_copy(net->arena, node->out, (size_t)node->n_out * sizeof *node->out);
    copy.attrs = gale__arena_copy(net->arena, node->attrs, (size_t)node->n_attrs * sizeof *node->attrs);
    if (!copy.in || !copy.out || !copy.attrs) return GALE_NO_MEMORY;
    for (int i = 0; i < copy.n_out; i++)
        if (copy.out[i] >= 0) net->values[copy.out[i]].node = net->n_nodes;
    net->nodes[net->n_nodes++] = copy;
    return gale__onnx_net_settle(net, &copy);
}

const gale_attr *gale__onnx_net_attr(const gale__onnx_net_node *node, const char *name)
{
    for (int i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) == 0) return &node->attrs[i];
    return NULL;
}

int64_t gale__onnx_net_attr_i(const gale__onnx_net_node *node, const char *name, int64_t fallback)
{
    const gale_attr *a = gale__onnx_net_attr(node, name);
    return a && a->kind == GALE_ATTR_INT ? a->i : fallback;
}

gale_status gale__onnx_net_set_attr(gale__onnx_net *net, gale__onnx_net_node *node, gale_attr attr)
{
    gale__onnx_net_drop_attr(node, attr.name);
    gale_attr *attrs = gale__arena_alloc(net->arena, ((size_t)node->n_attrs + 1) * sizeof *attrs);
    if (!attrs) return GALE_NO_MEMORY;
    if (node->n_attrs) memcpy(attrs, node->attrs, (size_t)node->n_attrs * sizeof *attrs);
    attrs[node->n_attrs++] = attr;
    node->attrs = attrs;
    return GALE_OK;
}

void gale__onnx_net_drop_attr(gale__onnx_net_node *node, const char *name)
{
    int kept = 0;
    for (int i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name)) node->attrs[kept++] = node->attrs[i];
    node->n_attrs = kept;
}

gale_status gale__onnx_net_set_input(gale__onnx_net *net, gale__onnx_net_node *node, int index, int32_t value)
{
    int n = index >= node->n_in ? index + 1 : node->n_in;
    int32_t *in = gale__arena_alloc(net->arena, (size_t)n * sizeof *in);
    if (!in) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++) in[i] = i < node->n_in ? node->in[i] : -1;
    in[index] = value;
    node->in = in;
    node->n_in = n;
    return GALE_OK;
}

gale_status gale__onnx_net_fail(const gale__onnx_net_node *node, gale_status status, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gale__fail(status, "%s: %s", node->where, text);
}

void gale__onnx_net_finish(gale__onnx_net *net)
{
    for (int i = 0; i < net->n_values; i++) gale_tensor_destroy(&net->values[i].constant);
    for (int i = 0; i < net->n_nodes; i++)
        for (int k = 0; k < net->nodes[i].n_bodies; k++) gale__onnx_net_finish(net->nodes[i].bodies[k].net);
    gale__free(net->values);
    gale__free(net->nodes);
    gale__free(net->inputs);
    gale__free(net->captures);
}

void gale__onnx_net_destroy(gale__onnx_net **net)
{
    if (!net || !*net) return;
    gale__onnx *file = (*net)->file;
    gale__onnx_net_finish(*net);
    *net = NULL;
    gale__onnx_close(&file);
}
