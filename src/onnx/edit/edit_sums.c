/* Sums of integer products in a model that becomes half precision.  They count up to millions, which f16 does not hold,
 * until the scales of both factors bring them back; and those scales are smaller than what f16 holds well.  So the way
 * from a product to its last scaling stays in single precision, and so do the scales. */
#include "onnx/edit/edit.h"
#include <string.h>

enum { F32 = 1 };
typedef struct sums {
    const gale__pb_graph *g;
    const gale__onnx_names *types;
    gale__onnx_names sums, scales; /* values */
    bool *keeps;
} sums;

static bool has(const gale__onnx_names *names, const gale__pb_text *name)
{
    return name->size && gale__onnx_names_find(names, name->at, name->size) >= 0;
}

static bool is_one_of(const gale__pb_node *n, const char *a, const char *b)
{
    return gale__pb_is_core(&n->domain) && (gale__pb_is(&n->op_type, a) || gale__pb_is(&n->op_type, b));
}

static bool is_f32(const sums *s, const gale__pb_text *name) { return gale__edit_type_of(s->types, name) == F32; }

static bool is_weight(const sums *s, const gale__pb_text *name)
{
    for (size_t i = 0; i < s->g->initializer.n; i++)
        if (gale__pb_text_equal(&s->g->initializer.at[i].name, name)) return true;
    return false;
}

/* A product or quotient of a sum and something else. */
static bool is_scaling(const sums *s, const gale__pb_node *n)
{
    if (!is_one_of(n, "Mul", "Div") || n->input.n != 2 || !is_f32(s, &n->input.at[0])) return false;
    return has(&s->sums, &n->input.at[0]) != has(&s->sums, &n->input.at[1]);
}

/* Whether the value is scaled once more: by a scale of the model's, and not by another activation. */
static bool is_scaled_again(const sums *s, const gale__pb_text *value)
{
    for (size_t i = 0; i < s->g->node.n; i++) {
        const gale__pb_node *n = &s->g->node.at[i];
        if (!is_one_of(n, "Mul", "Div") || n->input.n != 2) continue;
        for (int k = 0; k < 2; k++) {
            const gale__pb_text *other = &n->input.at[1 - k];
            if (gale__pb_text_equal(&n->input.at[k], value) && (has(&s->scales, other) || is_weight(s, other)))
                return true;
        }
    }
    return false;
}

static gale_status mark(gale__onnx_names *names, const gale__pb_node *n)
{
    for (size_t i = 0; i < n->output.n; i++)
        if (n->output.at[i].size) GALE_TRY(gale__onnx_names_set(names, n->output.at[i].at, n->output.at[i].size, 1));
    return GALE_OK;
}

/* Whether it makes a scale from scales and constants. */
static bool makes_scale(const sums *s, const gale__pb_node *n)
{
    bool any = false;
    for (size_t i = 0; i < n->input.n; i++) any = any || has(&s->scales, &n->input.at[i]);
    for (size_t i = 0; i < n->input.n && any; i++) {
        const gale__pb_text *in = &n->input.at[i];
        any = !is_f32(s, in) || has(&s->scales, in) || is_weight(s, in);
    }
    return any;
}

static gale_status look_at(sums *s, size_t i)
{
    const gale__pb_node *n = &s->g->node.at[i];
    bool reads = false;
    for (size_t k = 0; k < n->input.n; k++) reads = reads || has(&s->sums, &n->input.at[k]);
    if (is_one_of(n, "MatMulInteger", "ConvInteger")) return mark(&s->sums, n);
    if (is_one_of(n, "DynamicQuantizeLinear", "DynamicQuantizeLinear") && n->output.n > 1)
        return gale__onnx_names_set(&s->scales, n->output.at[1].at, n->output.at[1].size, 1);
    s->keeps[i] = reads || makes_scale(s, n);
    if (!reads) return s->keeps[i] ? mark(&s->scales, n) : GALE_OK;
    /* Quantised or dequantised again, or scaled for the last time: from here on it is a number like others. */
    bool last = is_one_of(n, "DequantizeLinear", "QuantizeLinear") ||
                (is_scaling(s, n) && !is_scaled_again(s, &n->output.at[0]));
    return last ? GALE_OK : mark(&s->sums, n);
}

gale_status gale__edit_find_sums(const gale__pb_graph *graph, const gale__onnx_names *types, bool *keeps)
{
    sums s = {.g = graph, .types = types, .keeps = keeps};
    gale_status status = GALE_OK;
    for (size_t i = 0; i < graph->node.n && status == GALE_OK; i++) status = look_at(&s, i);
    gale__onnx_names_finish(&s.sums);
    gale__onnx_names_finish(&s.scales);
    return status;
}
