/* The short hands of rewrite.h over the builder functions of net.h. */
#include "onnx/import/rewrite.h"
#include <string.h>

static void keep_first_failure(gale__onnx_rewrite *w, gale_status status)
{
    if (w->status == GALE_OK) w->status = status;
}

/* Without what is left out at the end. */
static int given(const int32_t *in, int n)
{
    while (n && in[n - 1] < 0) n--;
    return n;
}

void gale__rw_node(gale__onnx_rewrite *w, const char *op, const gale_attr *attrs, int n_attrs, const int32_t *in,
    int n_in, int32_t *out, int n_out)
{
    for (int i = 0; i < n_out && w->status == GALE_OK; i++)
        if (out[i] < 0) keep_first_failure(w, gale__onnx_net_new_value(w->net, NULL, &out[i]));
    if (w->status != GALE_OK) return;
    n_in = given(in, n_in);
    gale__onnx_net_node node = *w->node;
    node.op = op;
    node.domain = "";
    node.attrs = (gale_attr *)attrs, node.n_attrs = n_attrs;
    node.in = (int32_t *)in, node.n_in = n_in;
    node.out = out, node.n_out = n_out;
    node.bodies = NULL, node.n_bodies = 0;
    keep_first_failure(w, gale__onnx_net_push(w->net, &node));
    if (w->status == GALE_OK) gale__onnx_net_learn(w->net, &node);
}

int32_t gale__rw_op(
    gale__onnx_rewrite *w, const char *op, const gale_attr *attrs, int n_attrs, const int32_t *in, int n_in)
{
    int32_t out = -1;
    gale__rw_node(w, op, attrs, n_attrs, in, n_in, &out, 1);
    return w->status == GALE_OK ? out : -1;
}

void gale__rw_turn(gale__onnx_rewrite *w, const char *op, const int32_t *in, int n_in)
{
    if (w->status != GALE_OK) return;
    n_in = given(in, n_in);
    int32_t *copy = gale__arena_copy(w->net->arena, in, (size_t)n_in * sizeof *in);
    if (!copy) {
        keep_first_failure(w, GALE_NO_MEMORY);
        return;
    }
    w->node->op = op;
    w->node->domain = "";
    w->node->in = copy;
    w->node->n_in = n_in;
}

int32_t gale__rw_in(const gale__onnx_rewrite *w, int index) { return index < w->node->n_in ? w->node->in[index] : -1; }

void gale__rw_set_in(gale__onnx_rewrite *w, int index, int32_t value)
{
    if (w->status == GALE_OK) keep_first_failure(w, gale__onnx_net_set_input(w->net, w->node, index, value));
}

double gale__rw_float(const gale__onnx_rewrite *w, const char *name, double fallback)
{
    const gale_attr *a = gale__onnx_net_attr(w->node, name);
    if (a && a->kind == GALE_ATTR_FLOAT) return a->f;
    return a && a->kind == GALE_ATTR_INT ? (double)a->i : fallback;
}

const char *gale__rw_text(const gale__onnx_rewrite *w, const char *name, const char *fallback)
{
    const gale_attr *a = gale__onnx_net_attr(w->node, name);
    return a && a->kind == GALE_ATTR_STRING && a->s ? a->s : fallback;
}

const int64_t *gale__rw_list(const gale__onnx_rewrite *w, const char *name, int *count)
{
    const gale_attr *a = gale__onnx_net_attr(w->node, name);
    bool there = a && a->kind == GALE_ATTR_INTS && a->count <= INT32_MAX;
    *count = there ? (int)a->count : 0;
    return there ? (a->ints ? a->ints : &a->i) : NULL;
}

void gale__rw_set(gale__onnx_rewrite *w, gale_attr attr)
{
    if (w->status == GALE_OK) keep_first_failure(w, gale__onnx_net_set_attr(w->net, w->node, attr));
}

void gale__rw_drop_all(gale__onnx_rewrite *w) { w->node->n_attrs = 0; }

gale_attr gale__rw_ints_attr(gale__onnx_rewrite *w, const char *name, const int64_t *values, int n)
{
    const int64_t *copy = gale__arena_copy(w->net->arena, values, (size_t)n * sizeof *values);
    if (!copy) keep_first_failure(w, GALE_NO_MEMORY);
    return (gale_attr)GALE_INTS(name, copy, copy ? (size_t)n : 0);
}

int32_t gale__rw_ints(gale__onnx_rewrite *w, const int64_t *values, int n)
{
    int32_t out = -1;
    if (w->status == GALE_OK) keep_first_failure(w, gale__onnx_net_ints(w->net, values, n, &out));
    return out;
}

int32_t gale__rw_int(gale__onnx_rewrite *w, int64_t value) { return gale__rw_ints(w, &value, 1); }

int32_t gale__rw_floats(gale__onnx_rewrite *w, const double *values, int n)
{
    int32_t out = -1;
    gale_tensor *t = NULL;
    if (w->status != GALE_OK) return -1;
    keep_first_failure(w, gale_tensor_create(NULL, GALE_F32, 1, &(int64_t){n}, &t));
    if (w->status != GALE_OK) return -1;
    float *data = gale_tensor_data(t);
    for (int i = 0; i < n; i++) data[i] = (float)values[i];
    keep_first_failure(w, gale__onnx_net_constant(w->net, NULL, &t, &out));
    return out;
}

int32_t gale__rw_scalar(gale__onnx_rewrite *w, gale_type type, double value)
{
    int32_t out = -1;
    if (w->status == GALE_OK) keep_first_failure(w, gale__onnx_net_scalar(w->net, type, value, &out));
    return out;
}

int32_t gale__rw_like(gale__onnx_rewrite *w, double value, int32_t x)
{
    gale_type type;
    if (gale__onnx_net_type(w->net, x, &type)) return gale__rw_scalar(w, type, value);
    return gale__rw(w, "CastLike", gale__rw_scalar(w, GALE_F32, value), x);
}

int32_t gale__rw_rank_of(gale__onnx_rewrite *w, int32_t x)
{
    int rank = gale__onnx_net_rank(w->net, x);
    if (rank >= 0) return gale__rw_int(w, rank);
    return gale__rw(w, "Shape", gale__rw(w, "Shape", x));
}

int32_t gale__rw_extent(gale__onnx_rewrite *w, int32_t x, int64_t axis)
{
    gale_attr range[] = {GALE_INT("start", axis), GALE_INT("end", axis + 1)};
    return gale__rw_op(w, "Shape", range, axis == -1 ? 1 : 2, &x, 1);
}

int32_t gale__rw_ones(gale__onnx_rewrite *w, int32_t count) { return gale__rw(w, "Expand", gale__rw_int(w, 1), count); }

int32_t gale__rw_trail(gale__onnx_rewrite *w, int32_t x, int count)
{
    int64_t axes[GALE_MAX_RANK];
    if (count <= 0) return x;
    for (int i = 0; i < count && i < GALE_MAX_RANK; i++) axes[i] = -1 - i;
    return gale__rw(w, "Unsqueeze", x, gale__rw_ints(w, axes, count < GALE_MAX_RANK ? count : GALE_MAX_RANK));
}

int32_t gale__rw_trail_by(gale__onnx_rewrite *w, int32_t x, int32_t count)
{
    static const gale_attr first = GALE_INT("axis", 0);
    int32_t none = gale__rw_int(w, 0);
    int32_t shape =
        gale__rw_with(w, "Concat", first, gale__rw(w, "Shape", x), gale__rw_ones(w, gale__rw(w, "Max", count, none)));
    return gale__rw(w, "Reshape", x, shape);
}
