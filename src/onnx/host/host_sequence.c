/* Sequences and optionals.  They hold references, so taking them apart or combining them moves no data; only splitting
 * and joining tensors compute, on the device. */
#include "onnx/run/texts.h"
#include "onnx/host/host.h"
#include "onnx/run/session.h"
#include <string.h>

/* --- Optionals. --- */

gale_status gale__onnx_host_pass(gale__onnx_host_call *call)
{
    if (!call->in[0]) return gale__fail(GALE_INVALID, "missing input 0");
    call->out[0] = gale__onnx_object_hold(call->in[0]);
    return GALE_OK;
}

gale_status gale__onnx_host_optional(gale__onnx_host_call *call)
{
    return call->n_in && call->in[0] ? gale__onnx_host_pass(call) : gale_object_none(&call->out[0]);
}

gale_status gale__onnx_host_optional_get(gale__onnx_host_call *call)
{
    if (!gale__onnx_host_has(call, 0))
        return gale__fail(GALE_INVALID, "the optional is empty; use OptionalHasElement first");
    return gale__onnx_host_pass(call);
}

static gale_status give_scalar(gale__onnx_host_call *call, gale_type type, const void *value)
{
    gale_tensor *made = NULL;
    GALE_TRY(gale_tensor_from_cpu(NULL, type, 0, NULL, value, &made));
    return gale__onnx_host_give(call, 0, &made);
}

gale_status gale__onnx_host_optional_has(gale__onnx_host_call *call)
{
    return give_scalar(call, GALE_BOOL, &(bool){gale__onnx_host_has(call, 0)});
}

/* --- Sequences. --- */

gale_status gale__onnx_host_sequence_empty(gale__onnx_host_call *call)
{
    return gale__onnx_object_room(0, &call->out[0]);
}

/* All tensors of a sequence have one element type. */
static gale_status check_type(const gale_object *first, const gale_object *item)
{
    if (first->kind != item->kind) return gale__fail(GALE_INVALID, "the items of a sequence have different types");
    if (first->kind != GALE_OBJECT_TENSOR || first->tensor->type == item->tensor->type) return GALE_OK;
    return gale__fail(GALE_INVALID, "a sequence of %s cannot hold %s", gale_type_name(first->tensor->type),
        gale_type_name(item->tensor->type));
}

gale_status gale__onnx_host_sequence_construct(gale__onnx_host_call *call)
{
    for (int i = 0; i < call->n_in; i++) {
        if (!gale__onnx_host_has(call, i)) return gale__fail(GALE_INVALID, "missing input %d", i);
        GALE_TRY(check_type(call->in[0], call->in[i]));
    }
    return gale_object_sequence(call->in, (size_t)call->n_in, &call->out[0]);
}

gale_status gale__onnx_host_sequence_length(gale__onnx_host_call *call)
{
    gale_object *s;
    GALE_TRY(gale__onnx_host_sequence(call, 0, &s));
    return give_scalar(call, GALE_I64, &(int64_t){(int64_t)s->count});
}

/* Input i as a position in 0 .. last, negative ones counted from `count`. */
static gale_status read_position(
    gale__onnx_host_call *call, int i, size_t count, int64_t fallback, int64_t last, size_t *out)
{
    int64_t at;
    GALE_TRY(gale__onnx_host_int(call, i, fallback, &at));
    int64_t place = at < 0 ? at + (int64_t)count : at;
    if (place < 0 || place > last)
        return gale__fail(GALE_INVALID, "position %lld is out of range for a sequence of %zu", (long long)at, count);
    *out = (size_t)place;
    return GALE_OK;
}

gale_status gale__onnx_host_sequence_at(gale__onnx_host_call *call)
{
    gale_object *s;
    size_t at = 0;
    GALE_TRY(gale__onnx_host_sequence(call, 0, &s));
    GALE_TRY(read_position(call, 1, s->count, -1, (int64_t)s->count - 1, &at));
    call->out[0] = gale__onnx_object_hold(s->items[at]);
    return GALE_OK;
}

/* A copy of the references with one put in (item) or left out (NULL) at a place. */
static gale_status edit(const gale_object *s, size_t at, gale_object *item, gale_object **out)
{
    gale_object *made;
    gale_status status = GALE_OK;
    GALE_TRY(gale__onnx_object_room(item ? s->count + 1 : s->count - 1, &made));
    for (size_t i = 0; i < made->count && status == GALE_OK; i++) {
        gale_object *from = i < at ? s->items[i] : !item ? s->items[i + 1] : i == at ? item : s->items[i - 1];
        status = gale__onnx_object_put(made, i, gale__onnx_object_hold(from));
    }
    if (status != GALE_OK) return gale_object_destroy(&made), status;
    *out = made;
    return GALE_OK;
}

gale_status gale__onnx_host_sequence_insert(gale__onnx_host_call *call)
{
    gale_object *s;
    size_t at = 0;
    GALE_TRY(gale__onnx_host_sequence(call, 0, &s));
    if (!gale__onnx_host_has(call, 1)) return gale__fail(GALE_INVALID, "missing input 1");
    if (s->count) GALE_TRY(check_type(s->items[0], call->in[1]));
    GALE_TRY(read_position(call, 2, s->count, (int64_t)s->count, (int64_t)s->count, &at));
    return edit(s, at, call->in[1], &call->out[0]);
}

gale_status gale__onnx_host_sequence_erase(gale__onnx_host_call *call)
{
    gale_object *s;
    size_t at = 0;
    GALE_TRY(gale__onnx_host_sequence(call, 0, &s));
    GALE_TRY(read_position(call, 1, s->count, -1, (int64_t)s->count - 1, &at));
    return edit(s, at, NULL, &call->out[0]);
}

/* --- Tensors to sequences. --- */

#define MOST_PARTS 64 /* results that Split has */

/* Sizes of the parts along the axis, in the call's arena. */
static gale_status read_sizes(gale__onnx_host_call *call, int64_t extent, int64_t **sizes, size_t *n)
{
    gale_tensor *split = NULL;
    const void *data = NULL;
    int64_t each = 1, sum = 0;
    if (gale__onnx_host_has(call, 1)) GALE_TRY(gale__onnx_host_tensor(call, 1, &split));
    bool list = split && split->rank > 0;
    if (!list) {
        GALE_TRY(gale__onnx_host_int(call, 1, 1, &each));
        if (each <= 0)
            return gale__fail(GALE_INVALID, "invalid part size %lld; it must be at least 1", (long long)each);
        *n = (size_t)(extent / each + (extent % each != 0));
    } else {
        if (split->rank != 1 || (split->type != GALE_I64 && split->type != GALE_I32))
            return gale__fail(
                GALE_INVALID, "the part sizes are %s of rank %d", gale_type_name(split->type), split->rank);
        *n = (size_t)split->dims[0];
        GALE_TRY(gale__onnx_host_numbers(call, split, &data));
    }
    *sizes = gale__arena_alloc(&call->arena, (*n + 1) * sizeof **sizes);
    if (!*sizes) return GALE_NO_MEMORY;
    for (size_t i = 0; i < *n; i++) {
        int64_t size = list ? split->type == GALE_I64 ? ((const int64_t *)data)[i] : ((const int32_t *)data)[i]
                       : each < extent - sum ? each
                                             : extent - sum;
        if (size < 0 || size > extent - sum)
            return gale__fail(GALE_INVALID, "part %zu of %zu has size %lld, but only %lld of %lld are left", i, *n,
                (long long)size, (long long)(extent - sum), (long long)extent);
        (*sizes)[i] = size;
        sum += size;
    }
    return sum == extent ? GALE_OK
                         : gale__fail(GALE_INVALID, "the part sizes add up to %lld, but the axis has %lld",
                               (long long)sum, (long long)extent);
}

/* Splits a tensor of numbers into n parts; more than Split gives at once are split into groups first. */
static gale_status split_into(
    gale__onnx_host_call *call, gale_tensor *x, int axis, const int64_t *sizes, size_t n, gale_tensor **parts)
{
    int64_t groups[MOST_PARTS] = {0};
    gale_tensor *cut = NULL, *whole[MOST_PARTS] = {0};
    size_t each = 1;
    while (n > each * MOST_PARTS) each *= MOST_PARTS;
    int count = (int)((n + each - 1) / each);
    for (size_t i = 0; i < n; i++) groups[i / each] += sizes[i];
    if (count == 1 && each == 1) return gale_tensor_reshape(x, x->rank, x->dims, parts);
    const gale_attr attrs[] = {GALE_INT("axis", axis)};
    GALE_TRY(gale_tensor_from_cpu(NULL, GALE_I64, 1, &(int64_t){count}, groups, &cut));
    gale_status status = gale__onnx_session_op(
        call->session, "Split", (gale_tensor *[]){x, cut}, 2, attrs, 1, each == 1 ? parts : whole, count);
    gale_tensor_destroy(&cut);
    for (int i = 0; each > 1 && i < count; i++) {
        size_t from = (size_t)i * each, left = n - from < each ? n - from : each;
        if (status == GALE_OK) status = split_into(call, whole[i], axis, sizes + from, left, parts + from);
        gale_tensor_destroy(&whole[i]);
    }
    return status;
}

/* A part as an item: without the axis when it is not kept, strings again when it numbers some. */
static gale_status finish_part(gale_tensor **part, const gale__onnx_texts *texts, bool strings, int axis, bool keep)
{
    gale_tensor *other = NULL;
    gale_status status = GALE_OK;
    if (!keep) {
        int64_t dims[GALE_MAX_RANK];
        int rank = 0;
        for (int i = 0; i < (*part)->rank; i++)
            if (i != axis) dims[rank++] = (*part)->dims[i];
        status = gale_tensor_reshape(*part, rank, dims, &other);
        if (status != GALE_OK) return status;
        gale_tensor_destroy(part);
        *part = other;
    }
    if (!strings) return GALE_OK;
    GALE_TRY(gale__onnx_texts_pick(texts, *part, &other));
    gale_tensor_destroy(part);
    *part = other;
    return GALE_OK;
}

static gale_status fill_sequence(gale_tensor **parts, size_t n, gale_object *into)
{
    for (size_t i = 0; i < n; i++) {
        gale_object *item = NULL;
        GALE_TRY(gale__onnx_object_take(&parts[i], &item));
        GALE_TRY(gale__onnx_object_put(into, i, item));
    }
    return GALE_OK;
}

gale_status gale__onnx_host_split_to_sequence(gale__onnx_host_call *call)
{
    gale_tensor *x, *numbers = NULL, **parts = NULL;
    gale_object *made = NULL;
    gale__onnx_texts texts = {0};
    int axis;
    int64_t *sizes;
    size_t n = 0, base;
    GALE_TRY(gale__onnx_host_tensor(call, 0, &x));
    GALE_TRY(gale__onnx_host_axis(gale__onnx_net_attr_i(call->node, "axis", 0), x->rank, &axis));
    GALE_TRY(read_sizes(call, x->dims[axis], &sizes, &n));
    bool strings = x->type == GALE_STRING,
         keep = gale__onnx_net_attr_i(call->node, "keepdims", 1) || gale__onnx_host_has(call, 1);
    gale_status status = gale__onnx_object_room(n, &made);
    parts = gale__arena_alloc(&call->arena, (n + 1) * sizeof *parts);
    if (!parts && status == GALE_OK) status = GALE_NO_MEMORY;
    if (status == GALE_OK && strings) status = gale__onnx_texts_add(&texts, x, &base);
    if (status == GALE_OK && strings) status = gale__onnx_texts_numbers(&texts, x, base, &numbers);
    if (status == GALE_OK && n) status = split_into(call, strings ? numbers : x, axis, sizes, n, parts);
    for (size_t i = 0; i < n && status == GALE_OK; i++) status = finish_part(&parts[i], &texts, strings, axis, keep);
    if (status == GALE_OK) status = fill_sequence(parts, n, made);
    for (size_t i = 0; parts && i < n; i++) gale_tensor_destroy(&parts[i]);
    gale_tensor_destroy(&numbers);
    gale__onnx_texts_finish(&texts);
    if (status != GALE_OK) return gale_object_destroy(&made), status;
    call->out[0] = made;
    return GALE_OK;
}

/* --- And back. --- */

/* The items as tensors, with a new axis of extent 1 when they are stacked; to be destroyed. */
static gale_status read_items(const gale_object *s, int64_t given, bool stack, gale_tensor **items, int64_t *axis)
{
    int place = 0;
    for (size_t i = 0; i < s->count; i++) {
        gale_tensor *t = s->items[i]->tensor;
        int64_t dims[GALE_MAX_RANK];
        GALE_TRY(check_type(s->items[0], s->items[i]));
        if (s->items[i]->kind != GALE_OBJECT_TENSOR)
            return gale__fail(GALE_INVALID, "item %zu of the sequence is not a tensor", i);
        if (t->rank != s->items[0]->tensor->rank)
            return gale__fail(
                GALE_INVALID, "item %zu has rank %d, but the first has %d", i, t->rank, s->items[0]->tensor->rank);
        if (t->rank + stack > GALE_MAX_RANK)
            return gale__fail(GALE_LIMIT, "rank %d is outside 0 .. %d", t->rank + 1, GALE_MAX_RANK);
        GALE_TRY(gale__onnx_host_axis(given, t->rank + stack, &place));
        for (int k = 0, from = 0; k < t->rank + stack; k++) dims[k] = stack && k == place ? 1 : t->dims[from++];
        GALE_TRY(gale_tensor_reshape(t, t->rank + stack, dims, &items[i]));
    }
    *axis = place;
    return GALE_OK;
}

gale_status gale__onnx_host_concat_from_sequence(gale__onnx_host_call *call)
{
    gale_object *s;
    gale_tensor *made = NULL;
    int64_t axis = 0;
    GALE_TRY(gale__onnx_host_sequence(call, 0, &s));
    if (!s->count) return gale__fail(GALE_INVALID, "cannot concatenate an empty sequence");
    if (!gale__onnx_net_attr(call->node, "axis")) return gale__fail(GALE_INVALID, "missing attribute axis");
    gale_tensor **items = gale__arena_alloc(&call->arena, s->count * sizeof *items);
    if (!items) return GALE_NO_MEMORY;
    gale_status status = read_items(s, gale__onnx_net_attr_i(call->node, "axis", 0),
        gale__onnx_net_attr_i(call->node, "new_axis", 0) != 0, items, &axis);
    const gale_attr attrs[] = {GALE_INT("axis", axis)};
    gale__onnx_move v = {.op = "Concat", .in = items, .n_in = (int)s->count, .attrs = attrs, .n_attrs = 1};
    if (status == GALE_OK) status = gale__onnx_host_move_as(call, &v, &(bool){true}, &made, 1);
    for (size_t i = 0; i < s->count; i++) gale_tensor_destroy(&items[i]);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}
