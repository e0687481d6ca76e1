/* A model in 8 bits, in the common form: i8 initialisers followed by DequantizeLinear, activations through
 * QuantizeLinear and DequantizeLinear.  So any engine can run it, and those that multiply in 8 bits find what they
 * need. */
#include "graph/run/tensor.h"
#include "onnx/edit/edit.h"
#include "onnx/edit/int8.h"
#include <math.h>
#include <string.h>

enum { F32 = 1, U8 = 2, I8 = 3 };

/* Shift of the mean of each result of a product that is caused by rounding the weights. */
typedef struct shift {
    const float *by;
    int64_t n;
} shift;

typedef struct change {
    gale__onnx *file;
    gale__arena *arena;
    gale__pb_graph *g;
    gale__int8 *how;
    gale__onnx_names smooth; /* by value: its place in `factors`, -1 where dividing is not worth it */
    float **factors;
    size_t n_factors, factors_capacity;
    gale__onnx_names used;    /* names of values */
    gale__onnx_names weights; /* initialisers of f32 that nobody can give, by name */
    gale__onnx_names done;    /* "w|axis|x" or "x|" to its place in `to` */
    gale__pb_text *to;
    size_t n_to, to_capacity;
    gale__onnx_names shifts; /* by "weight|x", and by the result of a product: its place in `shift` */
    struct shift *shift;
    size_t n_shifts, shifts_capacity;
    gale__pb_node *nodes;
    size_t n_nodes, nodes_capacity;
    gale__pb_tensor *tensors;
    size_t n_tensors, tensors_capacity;
    double lost; /* by the weight that was written last */
} change;

/* --- Making things. --- */

static gale_status new_name(change *c, const gale__pb_text *base, const char *end, gale__pb_text *out)
{
    char *name = gale__arena_printf(c->arena, "%s_%s", base->at, end);
    while (name && gale__onnx_names_find(&c->used, name, strlen(name)) >= 0)
        name = gale__arena_printf(c->arena, "%s_", name);
    if (!name) return GALE_NO_MEMORY;
    *out = (gale__pb_text){name, strlen(name)};
    return gale__onnx_names_set(&c->used, out->at, out->size, 1);
}

static gale_status add_tensor(
    change *c, gale__pb_text name, int type, const int64_t *dims, size_t rank, const void *data, size_t bytes)
{
    gale__pb_tensor t = {.data_type = type, .name = name, .raw_data = {data, bytes}};
    t.dims.at = gale__arena_copy(c->arena, dims, rank * sizeof *dims);
    t.dims.n = rank;
    if (!t.dims.at || !data) return GALE_NO_MEMORY;
    GALE_TRY(gale__grow((void **)&c->tensors, &c->tensors_capacity, c->n_tensors + 1, sizeof *c->tensors));
    c->tensors[c->n_tensors++] = t;
    return GALE_OK;
}

/* axis < 0: one scale for all. */
static gale_status add_node(
    change *c, const char *op, const gale__pb_text *in, size_t n_in, gale__pb_text out, int64_t axis)
{
    gale__pb_node n = {.op_type = {op, strlen(op)}};
    n.input.at = gale__arena_copy(c->arena, in, n_in * sizeof *in);
    n.output.at = gale__arena_copy(c->arena, &out, sizeof out);
    n.attribute.at = gale__arena_alloc(c->arena, sizeof *n.attribute.at);
    if (!n.input.at || !n.output.at || !n.attribute.at) return GALE_NO_MEMORY;
    n.input.n = n_in;
    n.output.n = 1;
    *n.attribute.at = (gale__pb_attribute){.head.present = 1u << 2,
        .name = {"axis", 4},
        .type = GALE__PB_INT,
        .i = axis}; /* row 2: also a zero is written */
    n.attribute.n = axis >= 0;
    GALE_TRY(gale__grow((void **)&c->nodes, &c->nodes_capacity, c->n_nodes + 1, sizeof *c->nodes));
    c->nodes[c->n_nodes++] = n;
    return GALE_OK;
}

static const gale__pb_text *find_done(const change *c, const char *key)
{
    int32_t at = gale__onnx_names_find(&c->done, key, strlen(key));
    return at < 0 ? NULL : &c->to[at];
}

static gale_status set_done(change *c, const char *key, const gale__pb_text *to)
{
    GALE_TRY(gale__grow((void **)&c->to, &c->to_capacity, c->n_to + 1, sizeof *c->to));
    c->to[c->n_to] = *to;
    return gale__onnx_names_set(&c->done, key, strlen(key), (int32_t)c->n_to++);
}

/* --- Weights. --- */

void gale__int8_quantise(const float *x, size_t outer, size_t channels, size_t inner, float *scales, int8_t *q)
{
    for (size_t k = 0; k < channels; k++) {
        float most = 0;
        for (size_t o = 0; o < outer; o++)
            for (size_t i = 0; i < inner; i++) {
                float v = fabsf(x[(o * channels + k) * inner + i]);
                if (isfinite(v) && v > most) most = v;
            }
        scales[k] = most / 127 > 0 ? most / 127 : 1;
        for (size_t o = 0; o < outer; o++)
            for (size_t i = 0; i < inner; i++) {
                size_t at = (o * channels + k) * inner + i;
                float v = rintf(x[at] / scales[k]);
                q[at] = (int8_t)(v >= 127 ? 127 : v <= -127 ? -127 : v != v ? 0 : v);
            }
    }
}

/* Element k of the axis that is summed over, times its factor. */
static void multiply(float *x, size_t outer, size_t channels, size_t inner, const float *factors)
{
    for (size_t o = 0; o < outer; o++)
        for (size_t k = 0; k < channels; k++)
            for (size_t i = 0; i < inner; i++) x[(o * channels + k) * inner + i] *= factors[k];
}

/* Of a weight and what it is multiplied with, since their means differ; of a result alone. */
static char *shift_key(const change *c, const gale__pb_text *name, const gale__pb_text *x)
{
    return gale__arena_printf(c->arena, x ? "%s|%s" : "%s", name->at ? name->at : "", x && x->at ? x->at : "");
}

static gale_status set_shift(change *c, const gale__pb_text *name, const gale__pb_text *x, shift s)
{
    char *key = shift_key(c, name, x);
    if (!key) return GALE_NO_MEMORY;
    GALE_TRY(gale__grow((void **)&c->shift, &c->shifts_capacity, c->n_shifts + 1, sizeof *c->shift));
    c->shift[c->n_shifts] = s;
    return gale__onnx_names_set(&c->shifts, key, strlen(key), (int32_t)c->n_shifts++);
}

static gale_status find_shift(const change *c, const gale__pb_text *name, const gale__pb_text *x, shift *out)
{
    char *key = shift_key(c, name, x);
    if (!key) return GALE_NO_MEMORY;
    int32_t at = *key ? gale__onnx_names_find(&c->shifts, key, strlen(key)) : -1;
    *out = at < 0 ? (shift){0} : c->shift[at];
    return GALE_OK;
}

/* The error of the weights, `whole` before, times the mean of what they meet. */
static gale_status compute_shift(change *c, const gale__int8_range *range, const float *factors, const gale_tensor *t,
    int64_t axis, const float *whole, const int8_t *q, const float *scales, shift *out)
{
    size_t results = (size_t)t->dims[axis], channels = (size_t)t->dims[1 - axis], row = axis ? results : 1,
           column = axis ? 1 : channels;
    float *by = gale__arena_alloc(c->arena, results * sizeof *by);
    if (!by) return GALE_NO_MEMORY;
    for (size_t n = 0; n < results; n++) {
        double sum = 0;
        for (size_t k = 0; k < channels; k++) {
            size_t at = k * row + n * column;
            double mean = range->channels[k].sum / (double)range->rows / (factors ? (double)factors[k] : 1);
            sum += mean * ((double)q[at] * (double)scales[n] - (double)whole[at]);
        }
        by[n] = isfinite(sum) ? (float)sum : 0;
    }
    *out = (shift){by, (int64_t)results};
    return GALE_OK;
}

/* factors (may be NULL): of the other axis of a matrix.  range (may be NULL): of what it is multiplied with. */
static gale_status write_weight(change *c, const gale__pb_tensor *from, const gale_tensor *t, int64_t axis,
    const float *factors, const gale__int8_range *range, shift *moved, gale__pb_text *out)
{
    size_t n = (size_t)gale__tensor_elements(t), outer = 1, inner = 1;
    float *whole = gale__alloc(n * sizeof *whole),
          *scales = gale__arena_alloc(c->arena, (size_t)t->dims[axis] * sizeof *scales);
    int8_t *q = gale__arena_alloc(c->arena, n);
    gale__pb_text in[2];
    gale_status status =
        whole && scales && q ? gale_tensor_to_cpu((gale_tensor *)t, whole, n * sizeof *whole) : GALE_NO_MEMORY;
    for (int i = 0; i < t->rank; i++) *(i < axis ? &outer : &inner) *= i == axis ? 1 : (size_t)t->dims[i];
    if (status == GALE_OK && factors)
        multiply(
            whole, axis ? 1 : (size_t)t->dims[0], (size_t)t->dims[1 - axis], axis ? (size_t)t->dims[1] : 1, factors);
    if (status == GALE_OK) gale__int8_quantise(whole, outer, (size_t)t->dims[axis], inner, scales, q);
    if (status == GALE_OK) c->lost = gale__int8_loss(whole, outer, (size_t)t->dims[axis], inner, scales, q);
    if (status == GALE_OK && range) status = compute_shift(c, range, factors, t, axis, whole, q, scales, moved);
    gale__free(whole);
    GALE_TRY(status);
    GALE_TRY(new_name(c, &from->name, "int8", &in[0]));
    GALE_TRY(new_name(c, &from->name, "scale", &in[1]));
    GALE_TRY(new_name(c, &from->name, "dequantized", out));
    GALE_TRY(add_tensor(c, in[0], I8, t->dims, (size_t)t->rank, q, n));
    GALE_TRY(add_tensor(c, in[1], F32, &t->dims[axis], 1, scales, (size_t)t->dims[axis] * sizeof *scales));
    c->how->n_weights++;
    return add_node(c, "DequantizeLinear", in, 2, *out, axis);
}

static const gale__pb_tensor *weight_of(const change *c, const gale__pb_text *name)
{
    int32_t at = name->size ? gale__onnx_names_find(&c->weights, name->at, name->size) : -1;
    return at < 0 ? NULL : &c->g->initializer.at[at];
}

/* The axis of its results. */
static int64_t axis_of(const gale__pb_node *node, const gale__pb_tensor *weight)
{
    const gale__pb_attribute *transposed = gale__pb_find_attribute(node, "transB");
    return gale__pb_is(&node->op_type, "Conv") || (gale__pb_is(&node->op_type, "Gemm") && transposed && transposed->i)
               ? 0
               : (int64_t)weight->dims.n - 1;
}

static gale_status change_weight(
    change *c, gale__pb_text *name, const gale__pb_node *node, const float *factors, const gale__int8_range *range)
{
    const gale__pb_tensor *from = weight_of(c, name);
    if (from->dims.n < 2) return GALE_OK;
    int64_t axis = axis_of(node, from);
    char *key =
        gale__arena_printf(c->arena, "%s|%lld|%s", name->at, (long long)axis, factors ? node->input.at[0].at : "");
    if (!key) return GALE_NO_MEMORY;
    const gale__pb_text *known = find_done(c, key);
    if (known) return *name = *known, GALE_OK;
    gale_tensor *t = NULL;
    gale__pb_text made;
    shift moved = {0};
    GALE_TRY(gale__onnx_tensor(c->file, from, &t));
    gale_status status =
        gale__tensor_elements(t) ? write_weight(c, from, t, axis, factors, range, &moved, &made) : GALE_OK;
    bool changed = gale__tensor_elements(t) > 0;
    gale_tensor_destroy(&t);
    if (status != GALE_OK || !changed) return status;
    GALE_TRY(gale__int8_note(c->arena, c->how, node, c->lost));
    if (moved.by) GALE_TRY(set_shift(c, &made, &node->input.at[0], moved));
    *name = made;
    return set_done(c, key, &made);
}

/* --- Channel factors that move scale from a value to its weights. --- */

static bool is_left(const change *c, const gale__pb_node *node) { return gale__int8_is_left(c->how, node); }

static const gale__int8_range *range_of(const change *c, const gale__pb_text *name)
{
    int32_t at =
        c->how->ranges && name->size ? gale__onnx_names_find(&c->how->ranges->names, name->at, name->size) : -1;
    return at < 0 || !c->how->ranges->at[at].seen ? NULL : &c->how->ranges->at[at];
}

/* The weight that the rows of a value are multiplied with here, if it has as many channels. */
static const gale__pb_tensor *smooth_weight(const change *c, const gale__pb_node *node, const gale__int8_range *range)
{
    bool ours = gale__int8_takes(node) && gale__int8_reads_rows(node) && !is_left(c, node);
    const gale__pb_tensor *w = ours ? weight_of(c, &node->input.at[1]) : NULL;
    return w && w->dims.n == 2 && range->channels && w->dims.at[1 - axis_of(node, w)] == range->n_channels ? w : NULL;
}

typedef struct readers {
    gale__int8_smooth_weight *weights;
    float **held;
    size_t n;
} readers;

static gale_status read_weights(change *c, const gale__pb_text *x, const gale__int8_range *range, readers *r)
{
    for (size_t i = 0; i < c->g->node.n; i++) {
        const gale__pb_node *node = &c->g->node.at[i];
        const gale__pb_tensor *w =
            node->input.n && gale__pb_text_equal(&node->input.at[0], x) ? smooth_weight(c, node, range) : NULL;
        gale_tensor *t = NULL;
        if (!w) continue;
        GALE_TRY(gale__onnx_tensor(c->file, w, &t));
        int64_t axis = axis_of(node, w);
        float *data = gale__alloc(t->size_bytes + 1);
        gale_status status = data ? gale_tensor_to_cpu(t, data, t->size_bytes) : GALE_NO_MEMORY;
        r->held[r->n] = data;
        r->weights[r->n++] = (gale__int8_smooth_weight){
            data, (size_t)t->dims[axis], axis ? (size_t)t->dims[1] : 1, axis ? 1 : (size_t)t->dims[1]};
        gale_tensor_destroy(&t);
        GALE_TRY(status);
    }
    return GALE_OK;
}

static gale_status find_factors(change *c, const gale__pb_text *x, const gale__int8_range *range, float **out)
{
    readers r = {gale__calloc(c->g->node.n + 1, sizeof *r.weights), gale__calloc(c->g->node.n + 1, sizeof *r.held), 0};
    float *factors = gale__arena_alloc(c->arena, (size_t)range->n_channels * sizeof *factors);
    bool worth = false;
    gale_status status = r.weights && r.held && factors ? read_weights(c, x, range, &r) : GALE_NO_MEMORY;
    if (status == GALE_OK && r.n) status = gale__int8_smooth_find(range, r.weights, r.n, factors, &worth);
    for (size_t i = 0; i < r.n; i++) gale__free(r.held[i]);
    gale__free(r.weights);
    gale__free(r.held);
    *out = worth ? factors : NULL;
    return status;
}

/* What is known by channel of what a node multiplies with a matrix; NULL: nothing. */
static const gale__int8_range *rows_of(const change *c, const gale__pb_node *node)
{
    const gale__int8_range *range = range_of(c, &node->input.at[0]);
    return range && range->rows && smooth_weight(c, node, range) ? range : NULL;
}

/* The factors of what a node reads; NULL: none. */
static gale_status factors_of(change *c, const gale__pb_node *node, const float **out)
{
    const gale__pb_text *x = &node->input.at[0];
    const gale__int8_range *range = rows_of(c, node);
    *out = NULL;
    if (!range) return GALE_OK;
    int32_t at = gale__onnx_names_find(&c->smooth, x->at, x->size);
    if (at < 0) {
        float *factors = NULL;
        GALE_TRY(find_factors(c, x, range, &factors));
        GALE_TRY(gale__grow((void **)&c->factors, &c->factors_capacity, c->n_factors + 1, sizeof *c->factors));
        at = (int32_t)c->n_factors;
        c->factors[c->n_factors++] = factors;
        GALE_TRY(gale__onnx_names_set(&c->smooth, x->at, x->size, at));
    }
    *out = c->factors[at];
    return GALE_OK;
}

/* --- Activations. --- */

/* One after the other: divided by its factors, if there are any. */
static gale_status write_divided(
    change *c, gale__pb_text *name, const gale__int8_range *range, const float *factors, double *low, double *high)
{
    float *inverse = gale__arena_alloc(c->arena, (size_t)range->n_channels * sizeof *inverse);
    gale__pb_text in[2] = {*name}, made;
    if (!inverse) return GALE_NO_MEMORY;
    *low = *high = 0;
    for (int64_t k = 0; k < range->n_channels; k++) {
        inverse[k] = 1 / factors[k];
        double least = (double)(range->channels[k].low * inverse[k]),
               most = (double)(range->channels[k].high * inverse[k]);
        *low = least < *low ? least : *low;
        *high = most > *high ? most : *high;
    }
    GALE_TRY(new_name(c, name, "factors", &in[1]));
    GALE_TRY(new_name(c, name, "even", &made));
    GALE_TRY(add_tensor(c, in[1], F32, &range->n_channels, 1, inverse, (size_t)range->n_channels * sizeof *inverse));
    GALE_TRY(add_node(c, "Mul", in, 2, made, -1));
    *name = made;
    c->how->n_smooth++;
    return GALE_OK;
}

static gale_status write_pair(change *c, const gale__pb_text *name, double low, double high, gale__pb_text *out)
{
    float step = (float)((high - low) / 255) > 0 ? (float)((high - low) / 255) : 1;
    double at = rint(-low / (double)step);
    uint8_t zero = (uint8_t)(at > 255 ? 255 : at);
    gale__pb_text in[3] = {*name}, between;
    GALE_TRY(new_name(c, name, "scale", &in[1]));
    GALE_TRY(new_name(c, name, "zero", &in[2]));
    GALE_TRY(new_name(c, name, "uint8", &between));
    GALE_TRY(new_name(c, name, "dequantized", out));
    GALE_TRY(add_tensor(c, in[1], F32, NULL, 0, gale__arena_copy(c->arena, &step, sizeof step), sizeof step));
    GALE_TRY(add_tensor(c, in[2], U8, NULL, 0, gale__arena_copy(c->arena, &zero, 1), 1));
    GALE_TRY(add_node(c, "QuantizeLinear", in, 3, between, -1));
    in[0] = between;
    c->how->n_values++;
    return add_node(c, "DequantizeLinear", in, 3, *out, -1);
}

static gale_status change_activation(change *c, gale__pb_text *name, const float *factors)
{
    const gale__int8_range *range = range_of(c, name);
    if (!range) return GALE_OK;
    char *key = gale__arena_printf(c->arena, "%s|%s", name->at, factors ? "even" : "");
    if (!key) return GALE_NO_MEMORY;
    const gale__pb_text *known = find_done(c, key);
    if (known) return *name = *known, GALE_OK;
    double low = range->low < 0 ? range->low : 0, high = range->high > 0 ? range->high : 0;
    gale__pb_text from = *name, made;
    if (factors) GALE_TRY(write_divided(c, &from, range, factors, &low, &high));
    GALE_TRY(write_pair(c, &from, low, high, &made));
    *name = made;
    return set_done(c, key, &made);
}

/* --- Biases. --- */

/* A bias takes back what rounding the weights moved; it is added to what a product gives, or part of it. */
static gale_status change_bias(change *c, gale__pb_text *name, shift s)
{
    const gale__pb_tensor *from = weight_of(c, name);
    gale_tensor *t = NULL;
    gale__pb_text made;
    if (!from || !from->dims.n || from->dims.at[from->dims.n - 1] != s.n) return GALE_OK;
    GALE_TRY(gale__onnx_tensor(c->file, from, &t));
    float *bias = gale__arena_alloc(c->arena, t->size_bytes);
    bool fits = gale__tensor_elements(t) == s.n;
    gale_status status = bias ? gale_tensor_to_cpu(t, bias, t->size_bytes) : GALE_NO_MEMORY;
    gale_tensor_destroy(&t);
    if (status != GALE_OK || !fits) return status;
    for (int64_t n = 0; n < s.n; n++) bias[n] -= s.by[n];
    GALE_TRY(new_name(c, name, "int8", &made));
    GALE_TRY(add_tensor(c, made, F32, from->dims.at, from->dims.n, bias, (size_t)s.n * sizeof *bias));
    *name = made;
    return GALE_OK;
}

static bool is_one(const gale__pb_node *node, const char *name)
{
    const gale__pb_attribute *a = gale__pb_find_attribute(node, name);
    return !a || a->f == 1;
}

/* MatMul: left for the Add that follows; Gemm: its own. */
static gale_status shift_product(change *c, const gale__pb_node *node, gale__pb_text *in)
{
    shift s = {0};
    if (node->input.n > 1) GALE_TRY(find_shift(c, &in[1], &node->input.at[0], &s));
    if (!s.by) return GALE_OK;
    if (gale__pb_is(&node->op_type, "MatMul")) {
        const gale__pb_text *key = node->output.n ? &node->output.at[0] : NULL;
        return key && key->size ? set_shift(c, key, NULL, s) : GALE_OK;
    }
    bool plain = is_one(node, "alpha") && is_one(node, "beta");
    return plain && node->input.n > 2 ? change_bias(c, &in[2], s) : GALE_OK;
}

static gale_status shift_sum(change *c, gale__pb_node *node)
{
    gale__pb_text *in = gale__arena_copy(c->arena, node->input.at, node->input.n * sizeof *in);
    if (!in) return GALE_NO_MEMORY;
    for (int i = 0; i < 2; i++) {
        shift s;
        GALE_TRY(find_shift(c, &node->input.at[i], NULL, &s));
        if (s.by) GALE_TRY(change_bias(c, &in[1 - i], s));
    }
    node->input.at = in;
    return GALE_OK;
}

/* --- The whole. --- */

/* Products of two computed values, as in attention, stay as they are: they are small, lose much, and as floats
 * attention is one kernel. */
static bool is_changed(const change *c, const gale__pb_node *node)
{
    return gale__int8_takes(node) && node->input.n > 1 && !is_left(c, node) &&
           (weight_of(c, &node->input.at[0]) || weight_of(c, &node->input.at[1]));
}

static gale_status change_node(change *c, gale__pb_node node)
{
    if (is_changed(c, &node)) {
        gale__pb_text *in = gale__arena_copy(c->arena, node.input.at, node.input.n * sizeof *in);
        const float *factors;
        if (!in) return GALE_NO_MEMORY;
        GALE_TRY(factors_of(c, &node, &factors));
        for (size_t i = 0; i < node.input.n && i < 2; i++) {
            if (!in[i].size) continue;
            bool weight = weight_of(c, &in[i]) != NULL;
            if (weight && i == 1) GALE_TRY(change_weight(c, &in[i], &node, factors, rows_of(c, &node)));
            else if (!weight) GALE_TRY(change_activation(c, &in[i], i == 0 ? factors : NULL));
        }
        GALE_TRY(shift_product(c, &node, in));
        node.input.at = in;
    } else if (gale__pb_is_core(&node.domain) && gale__pb_is(&node.op_type, "Add") && node.input.n == 2)
        GALE_TRY(shift_sum(c, &node));
    GALE_TRY(gale__grow((void **)&c->nodes, &c->nodes_capacity, c->n_nodes + 1, sizeof *c->nodes));
    c->nodes[c->n_nodes++] = node;
    return GALE_OK;
}

static gale_status add_used(void *user, const gale__pb_text *name)
{
    return name->size ? gale__onnx_names_set(user, name->at, name->size, 1) : GALE_OK;
}

static gale_status gather(change *c)
{
    for (size_t i = 0; i < c->g->input.n; i++) GALE_TRY(add_used(&c->used, &c->g->input.at[i].name));
    for (size_t i = 0; i < c->g->initializer.n; i++) {
        const gale__pb_tensor *t = &c->g->initializer.at[i];
        GALE_TRY(add_used(&c->used, &t->name));
        if (t->data_type == F32 && t->name.size)
            GALE_TRY(gale__onnx_names_set(&c->weights, t->name.at, t->name.size, (int32_t)i));
    }
    for (size_t i = 0; i < c->g->node.n; i++) {
        for (size_t k = 0; k < c->g->node.at[i].output.n; k++)
            GALE_TRY(add_used(&c->used, &c->g->node.at[i].output.at[k]));
        GALE_TRY(gale__edit_body_names(&c->g->node.at[i], add_used, &c->used));
    }
    return GALE_OK;
}

/* The old weights go when nothing else reads them. */
static gale_status drop_weights(change *c)
{
    gale__onnx_names read = {0};
    gale_status status = GALE_OK;
    size_t n = 0;
    for (size_t i = 0; i < c->g->output.n && status == GALE_OK; i++) status = add_used(&read, &c->g->output.at[i].name);
    for (size_t i = 0; i < c->g->node.n && status == GALE_OK; i++) {
        for (size_t k = 0; k < c->g->node.at[i].input.n && status == GALE_OK; k++)
            status = add_used(&read, &c->g->node.at[i].input.at[k]);
        if (status == GALE_OK) status = gale__edit_body_names(&c->g->node.at[i], add_used, &read);
    }
    for (size_t i = 0; i < c->g->initializer.n && status == GALE_OK; i++) {
        const gale__pb_text *name = &c->g->initializer.at[i].name;
        if (!name->size || gale__onnx_names_find(&read, name->at, name->size) >= 0)
            c->g->initializer.at[n++] = c->g->initializer.at[i];
    }
    if (status == GALE_OK) c->g->initializer.n = n;
    gale__onnx_names_finish(&read);
    return status;
}

static gale_status rewrite(change *c)
{
    GALE_TRY(gather(c));
    for (size_t i = 0; i < c->g->node.n; i++) GALE_TRY(change_node(c, c->g->node.at[i]));
    c->g->node.at = gale__arena_copy(c->arena, c->nodes, c->n_nodes * sizeof *c->nodes);
    c->g->node.n = c->n_nodes;
    if (!c->g->node.at) return GALE_NO_MEMORY;
    GALE_TRY(drop_weights(c));
    GALE_TRY(gale__edit_add_initializers(c->file, c->g, c->tensors, c->n_tensors));
    return gale__edit_int8_tables(c->file, c->g, &c->used, c->how);
}

/* A name that matches no node is an error. */
static gale_status check_left(const change *c)
{
    for (int i = 0; i < c->how->n_left; i++) {
        gale__int8 one = {.left = &c->how->left[i], .n_left = 1};
        change only = {.how = &one};
        bool found = false;
        for (size_t k = 0; k < c->g->node.n && !found; k++)
            found = (gale__int8_takes(&c->g->node.at[k]) || gale__int8_looks_up(&c->g->node.at[k])) &&
                    is_left(&only, &c->g->node.at[k]);
        if (!found)
            return gale__fail(GALE_NOT_FOUND,
                "no MatMul, Gemm, Conv or Gather matches '%s' by name, result or operator", c->how->left[i]);
    }
    return GALE_OK;
}

gale_status gale__edit_int8(gale__onnx *file, gale__pb_model *model, gale__int8 *how)
{
    change c = {.file = file, .arena = gale__onnx_arena(file), .g = model->graph, .how = how};
    int64_t opset = 1;
    if (!c.g) return gale__fail(GALE_INVALID, "the model has no graph");
    for (size_t i = 0; i < model->opset_import.n; i++)
        if (gale__pb_is_core(&model->opset_import.at[i].domain)) opset = model->opset_import.at[i].version;
    if (opset < GALE__INT8_OPSET)
        return gale__fail(GALE_UNSUPPORTED,
            "opset %lld does not support scales per channel; upgrade the model first (--opset 13)", (long long)opset);
    GALE_TRY(check_left(&c));
    gale__edit_drop_formal_inputs(model);
    gale_status status = gale__edit_hoist_constants(file, c.g);
    if (status == GALE_OK) status = rewrite(&c);
    gale__onnx_names_finish(&c.used);
    gale__onnx_names_finish(&c.weights);
    gale__onnx_names_finish(&c.done);
    gale__onnx_names_finish(&c.smooth);
    gale__onnx_names_finish(&c.shifts);
    gale__free(c.shift);
    gale__free(c.factors);
    gale__free(c.to);
    gale__free(c.nodes);
    gale__free(c.tensors);
    return status;
}
