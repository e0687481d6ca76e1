/* Operators that move elements, for strings: the numeric operator runs on the indices of the strings.  One function
 * serves them all, so shapes, axes and broadcasting have a single definition. */
#include "onnx/run/texts.h"
#include "onnx/host/host.h"
#include "onnx/run/session.h"
#include <string.h>

/* What a call made of its arguments, to be destroyed. */
typedef struct numbered {
    gale__onnx_texts texts;
    const gale_tensor **from; /* tensors of strings: inputs, then those of attributes */
    gale_tensor **to;
    size_t *bases;
    int n;
} numbered;

static gale_status add(numbered *m, int i, const gale_tensor *tensor)
{
    if (!tensor || gale_tensor_type(tensor) != GALE_STRING) return GALE_OK;
    m->from[i] = tensor;
    return gale__onnx_texts_add(&m->texts, tensor, &m->bases[i]);
}

static gale_status number_all(gale__onnx_host_call *call, const gale__onnx_move *v, numbered *m)
{
    m->n = v->n_in + v->n_attrs;
    m->from = gale__arena_alloc(&call->arena, (size_t)m->n * sizeof *m->from);
    m->to = gale__arena_alloc(&call->arena, (size_t)m->n * sizeof *m->to);
    m->bases = gale__arena_alloc(&call->arena, (size_t)m->n * sizeof *m->bases);
    if (m->n && (!m->from || !m->to || !m->bases)) return m->n = 0, GALE_NO_MEMORY;
    for (int i = 0; i < v->n_in; i++) GALE_TRY(add(m, i, v->in[i]));
    for (int i = 0; i < v->n_attrs; i++)
        GALE_TRY(add(m, v->n_in + i, v->attrs[i].kind == GALE_ATTR_TENSOR ? v->attrs[i].tensor : NULL));
    if (v->ranked) GALE_TRY(gale__onnx_texts_rank(&m->texts));
    for (int i = 0; i < m->n; i++)
        if (m->from[i]) GALE_TRY(gale__onnx_texts_numbers(&m->texts, m->from[i], m->bases[i], &m->to[i]));
    return GALE_OK;
}

/* The operator on numbers; trailing inputs that are left out are not there at all. */
static gale_status run_numbers(
    gale__onnx_host_call *call, const gale__onnx_move *v, const numbered *m, gale_tensor **out, int n_out)
{
    int n_in = v->n_in;
    while (n_in && !v->in[n_in - 1]) n_in--;
    gale_tensor **in = gale__arena_alloc(&call->arena, (size_t)(n_in + 1) * sizeof *in);
    gale_attr *attrs = gale__arena_alloc(&call->arena, (size_t)(v->n_attrs + 1) * sizeof *attrs);
    if (!in || !attrs) return GALE_NO_MEMORY;
    for (int i = 0; i < n_in; i++) in[i] = m->to[i] ? m->to[i] : v->in[i];
    for (int i = 0; i < v->n_attrs; i++) {
        attrs[i] = v->attrs[i];
        if (m->to[v->n_in + i]) attrs[i].tensor = m->to[v->n_in + i];
    }
    return gale__onnx_session_op(call->session, v->op, in, n_in, attrs, v->n_attrs, out, n_out);
}

gale_status gale__onnx_host_move_as(
    gale__onnx_host_call *call, const gale__onnx_move *v, const bool *strings, gale_tensor **out, int n_out)
{
    numbered m = {0};
    gale_tensor **made = gale__arena_alloc(&call->arena, (size_t)(n_out + 1) * sizeof *made);
    gale_status status = made ? GALE_OK : GALE_NO_MEMORY;
    bool any = false;
    if (status == GALE_OK) status = number_all(call, v, &m);
    if (status == GALE_OK) status = run_numbers(call, v, &m, made, n_out);
    for (int i = 0; i < m.n; i++) {
        any |= m.from && m.from[i] != NULL;
        gale_tensor_destroy(&m.to[i]);
    }
    for (int i = 0; status == GALE_OK && any && i < n_out; i++) {
        gale_tensor *numbers = made[i];
        if (!strings[i] || !numbers) continue;
        made[i] = NULL;
        status = gale__onnx_texts_pick(&m.texts, numbers, &made[i]);
        gale_tensor_destroy(&numbers);
    }
    for (int i = 0; made && i < n_out; i++) {
        if (status == GALE_OK) out[i] = made[i];
        else gale_tensor_destroy(&made[i]);
    }
    gale__onnx_texts_finish(&m.texts);
    return status;
}

/* --- The node's own operator. --- */

static gale_status read_inputs(gale__onnx_host_call *call, gale__onnx_move *v)
{
    gale_tensor **in = gale__arena_alloc(&call->arena, (size_t)(call->n_in + 1) * sizeof *in);
    if (!in) return GALE_NO_MEMORY;
    for (int i = 0; i < call->n_in; i++)
        if (gale__onnx_host_has(call, i)) GALE_TRY(gale__onnx_host_tensor(call, i, &in[i]));
    *v = (gale__onnx_move){
        .op = call->node->op, .in = in, .n_in = call->n_in, .attrs = call->node->attrs, .n_attrs = call->node->n_attrs};
    return GALE_OK;
}

static gale_status give_all(gale__onnx_host_call *call, gale_tensor **made, int n)
{
    gale_status status = GALE_OK;
    for (int i = 0; i < n; i++) {
        if (status == GALE_OK && made[i] && i < call->n_out) status = gale__onnx_host_give(call, i, &made[i]);
        else gale_tensor_destroy(&made[i]);
    }
    return status;
}

/* Sums and averages of numbers of strings would be nonsense. */
static gale_status only_moves(const gale__onnx_host_call *call)
{
    const char *reduction = gale__onnx_host_text(call, "reduction", "none"),
               *mode = gale__onnx_host_text(call, "mode", "nearest");
    bool resize = !strcmp(call->node->op, "Resize") || !strcmp(call->node->op, "Upsample");
    if (strcmp(reduction, "none"))
        return gale__fail(GALE_UNSUPPORTED, "reduction '%s' is not defined for strings", reduction);
    if (resize && strcmp(mode, "nearest"))
        return gale__fail(GALE_UNSUPPORTED, "strings can only be resized by mode nearest, not '%s'", mode);
    return GALE_OK;
}

static gale_status run_own(gale__onnx_host_call *call, bool ranked)
{
    gale__onnx_move v;
    const gale__onnx_host_op *op = gale__onnx_host_find(call->node->domain, call->node->op);
    gale_tensor **made = gale__arena_alloc(&call->arena, (size_t)(call->n_out + 1) * sizeof *made);
    bool *strings = gale__arena_alloc(&call->arena, (size_t)call->n_out + 1);
    if (!made || !strings) return GALE_NO_MEMORY;
    GALE_TRY(only_moves(call));
    GALE_TRY(read_inputs(call, &v));
    v.ranked = ranked;
    for (int i = 0; i < call->n_out; i++) strings[i] = (i ? op->rest : op->gives) != GALE__GIVES_NUMBERS;
    GALE_TRY(gale__onnx_host_move_as(call, &v, strings, made, call->n_out));
    return give_all(call, made, call->n_out);
}

gale_status gale__onnx_host_move(gale__onnx_host_call *call) { return run_own(call, false); }
gale_status gale__onnx_host_compare(gale__onnx_host_call *call) { return run_own(call, true); }

/* --- Selections by value: the device's operators give room for all and a count (src/ops/select.c). --- */

static gale_status one_int(int64_t value, gale_tensor **out)
{
    return gale_tensor_from_cpu(NULL, GALE_I64, 1, &(int64_t){1}, &value, out);
}

/* The first `count` along an axis. */
static gale_status cut(gale__onnx_host_call *call, gale_tensor **tensor, int64_t count, int64_t axis)
{
    gale_tensor *in[4] = {*tensor}, *made = NULL;
    gale_status status = one_int(0, &in[1]);
    if (status == GALE_OK) status = one_int(count, &in[2]);
    if (status == GALE_OK) status = one_int(axis, &in[3]);
    gale__onnx_move v = {.op = "Slice", .in = in, .n_in = 4};
    if (status == GALE_OK) status = gale__onnx_host_move_as(call, &v, &(bool){true}, &made, 1);
    for (int i = 1; i < 4; i++) gale_tensor_destroy(&in[i]);
    if (status != GALE_OK) return status;
    gale_tensor_destroy(tensor);
    *tensor = made;
    return GALE_OK;
}

/* results: what the operator gives before its count; those with a bit in `exact` are not cut. */
static gale_status select_by(
    gale__onnx_host_call *call, const char *op, int results, unsigned exact, int64_t axis, bool ranked)
{
    gale__onnx_move v;
    gale_tensor *made[6] = {0};
    const bool strings[6] = {strcmp(op, "NonZeroPadded") != 0};
    int64_t count = 0;
    GALE_TRY(read_inputs(call, &v));
    v.op = op;
    v.ranked = ranked;
    GALE_TRY(gale__onnx_host_move_as(call, &v, strings, made, results + 1));
    gale_status status = gale_tensor_to_cpu(made[results], &count, sizeof count);
    gale_tensor_destroy(&made[results]);
    for (int i = 0; i < results && status == GALE_OK; i++)
        if (!(exact >> i & 1)) status = cut(call, &made[i], count, i ? 0 : axis);
    if (status == GALE_OK) return give_all(call, made, results);
    for (int i = 0; i < results; i++) gale_tensor_destroy(&made[i]);
    return status;
}

gale_status gale__onnx_host_compress(gale__onnx_host_call *call)
{
    return select_by(call, "CompressPadded", 1, 0, gale__onnx_net_attr_i(call->node, "axis", 0), false);
}
gale_status gale__onnx_host_unique(gale__onnx_host_call *call)
{
    return select_by(call, "UniquePadded", 4, 1u << 2, gale__onnx_net_attr_i(call->node, "axis", 0), true);
}
gale_status gale__onnx_host_nonzero(gale__onnx_host_call *call)
{
    return select_by(call, "NonZeroPadded", 1, 0, 1, true);
}
