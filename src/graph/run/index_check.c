/* Rules are determined once, when a program is created, so that a run only checks the indices themselves. */
#include "graph/run/index_check.h"
#include "graph/run/tensor.h"
#include <stdio.h>
#include <string.h>

/* Operators whose input 1 points into an axis of input 0. */
typedef struct kind {
    const char *op, *axis; /* axis: the attribute that says which; NULL: the first */
    bool labels, tuples;   /* along axis 1; of indices into neighbouring axes */
} kind;
static const kind kinds[] = {{"Gather", .axis = "axis"}, {"GatherElements", .axis = "axis"},
    {"ScatterElements", .axis = "axis"}, {"GatherND", .axis = "batch_dims", .tuples = true},
    {"ScatterND", .tuples = true}, {"NegativeLogLikelihoodLoss", .labels = true},
    {"SoftmaxCrossEntropyLoss", .labels = true}};

static const kind *kind_of(const gale__op_node *n)
{
    for (size_t i = 0; n->op && n->n_in > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].op, n->op->name)) return &kinds[i];
    return NULL;
}

static bool int_attr(const gale__op_node *n, const char *name, int64_t *out)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].kind == GALE_ATTR_INT && !strcmp(n->attrs[i].name, name)) return *out = n->attrs[i].i, true;
    return false;
}

/* Whether the host may know its value: a constant, or an input. */
static bool from_outside(const gale_graph *g, gale_value v)
{
    return v >= 0 && v < g->n_values && (g->values[v].constant || g->values[v].input >= 0);
}

static gale__index_rule rule_for(const gale_graph *g, int number, const kind *k)
{
    const gale__op_node *n = &g->nodes[number];
    int64_t axis = k->labels ? 1 : 0;
    if (k->axis) int_attr(n, k->axis, &axis);
    gale__index_rule r = {.node = n, .number = number, .indices = n->in[1], .data = n->in[0], .axis = (int)axis};
    r.input = g->values[r.indices].constant ? -1 : g->values[r.indices].input;
    r.from_end = !k->labels;
    r.tuples = k->tuples;
    r.has_other = k->labels && int_attr(n, "ignore_index", &r.other);
    return r;
}

static const gale_tensor *tensor_of(const gale_graph *g, gale_value v, gale_tensor *const *inputs)
{
    const gale__value_info *info = &g->values[v];
    return info->constant ? info->constant : inputs ? inputs[info->input] : NULL;
}

static gale_status check_rule(const gale_graph *g, const gale__index_rule *r, gale_tensor *const *inputs)
{
    const gale_tensor *data = tensor_of(g, r->data, inputs), *t = tensor_of(g, r->indices, inputs);
    if (!data || !t || t->device || (t->type != GALE_I32 && t->type != GALE_I64)) return GALE_OK;
    const void *at = gale_tensor_data((gale_tensor *)t);
    int axis = r->axis < 0 ? r->axis + data->rank : r->axis;
    if (!at || axis < 0 || axis >= data->rank) return GALE_OK;
    int64_t n = gale__tensor_elements(t), each = r->tuples && t->rank ? t->dims[t->rank - 1] : 1;
    if (each < 1 || axis + each > data->rank) return GALE_OK;
    for (int64_t i = 0; i < n; i++) {
        int64_t extent = data->dims[axis + i % each], least = r->from_end ? -extent : 0;
        int64_t index = t->type == GALE_I32 ? ((const int32_t *)at)[i] : ((const int64_t *)at)[i];
        if ((index >= least && index < extent) || (r->has_other && index == r->other)) continue;
        char number[64];
        snprintf(number, sizeof number, "node %d (%s)", r->number, r->node->op->name);
        return gale__fail(GALE_INVALID, "%s: %s %lld at position %lld is outside %lld .. %lld",
            r->node->where ? r->node->where : number, r->from_end ? "index" : "label", (long long)index, (long long)i,
            (long long)least, (long long)extent - 1);
    }
    return GALE_OK;
}

gale_status gale__index_rules(const gale_graph *g, gale__arena *arena, gale__index_rule **out, int *count)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += kind_of(&g->nodes[i]) != NULL;
    gale__index_rule *rules = gale__arena_alloc(arena, ((size_t)n + 1) * sizeof *rules);
    if (!rules) return GALE_NO_MEMORY;
    n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const kind *k = kind_of(&g->nodes[i]);
        if (!k || !from_outside(g, g->nodes[i].in[0]) || !from_outside(g, g->nodes[i].in[1])) continue;
        rules[n] = rule_for(g, i, k);
        bool constants = g->values[rules[n].data].constant && rules[n].input < 0;
        if (constants) GALE_TRY(check_rule(g, &rules[n], NULL));
        else n++;
    }
    *out = rules;
    *count = n;
    return GALE_OK;
}

gale_status gale__index_check(const gale_graph *g, const gale__index_rule *rules, int count, gale_tensor *const *inputs)
{
    for (int i = 0; i < count; i++) GALE_TRY(check_rule(g, &rules[i], inputs));
    return GALE_OK;
}
