/* Lookups: sorted keys and binary search.  Keys from attributes and from tensors are treated alike, so lists of either
 * become tensors. */
#include "onnx/host/lookup.h"
#include "base/num.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_place(const gale__onnx_lookup_entry *a, const gale__onnx_lookup_entry *b)
{
    return (a->at > b->at) - (a->at < b->at);
}

static int order_s(const gale__onnx_lookup_entry *a, const gale__onnx_lookup_entry *b)
{
    return gale__onnx_string_compare(&a->s, &b->s);
}
static int order_i(const gale__onnx_lookup_entry *a, const gale__onnx_lookup_entry *b)
{
    return (a->i > b->i) - (a->i < b->i);
}
static int order_f(const gale__onnx_lookup_entry *a, const gale__onnx_lookup_entry *b)
{
    if (isnan(a->f) || isnan(b->f)) return isnan(a->f) - isnan(b->f);
    return (a->f > b->f) - (a->f < b->f);
}

static int compare(char kind, const gale__onnx_lookup_entry *a, const gale__onnx_lookup_entry *b)
{
    return kind == 's' ? order_s(a, b) : kind == 'i' ? order_i(a, b) : order_f(a, b);
}

static int sort_s(const void *a, const void *b)
{
    int o = order_s(a, b);
    return o ? o : by_place(a, b);
}
static int sort_i(const void *a, const void *b)
{
    int o = order_i(a, b);
    return o ? o : by_place(a, b);
}
static int sort_f(const void *a, const void *b)
{
    int o = order_f(a, b);
    return o ? o : by_place(a, b);
}

static gale__onnx_lookup_entry entry_of(char kind, const gale_tensor *t, const void *data, int64_t i)
{
    gale__onnx_lookup_entry e = {.at = i};
    const void *p = (const char *)data + (size_t)i * gale_type_size(t->type);
    if (kind == 's') e.s.text = gale_tensor_string(t, i, &e.s.size);
    else if (kind == 'i') e.i = gale__load_i64(t->type, p);
    else e.f = gale__load_f64(t->type, p);
    return e;
}

gale_status gale__onnx_lookup_make(gale__onnx_host_call *call, const gale_tensor *keys, gale__onnx_lookup *out)
{
    int64_t n = gale__tensor_elements(keys);
    const void *data = NULL;
    out->kind = keys->type == GALE_STRING ? 's' : gale__type_is_float(keys->type) ? 'f' : 'i';
    out->count = (size_t)n;
    out->entries = gale__arena_alloc(&call->arena, ((size_t)n + 1) * sizeof *out->entries);
    if (!out->entries) return GALE_NO_MEMORY;
    if (out->kind != 's') GALE_TRY(gale__onnx_host_numbers(call, keys, &data));
    for (int64_t i = 0; i < n; i++) out->entries[i] = entry_of(out->kind, keys, data, i);
    qsort(out->entries, (size_t)n, sizeof *out->entries,
        out->kind == 's'   ? sort_s
        : out->kind == 'i' ? sort_i
                           : sort_f);
    return GALE_OK;
}

/* The last of equal keys: the one before the first that is greater. */
static int64_t find(const gale__onnx_lookup *l, const gale__onnx_lookup_entry *e)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(l->kind, &l->entries[middle], e) <= 0) low = middle + 1;
        else high = middle;
    }
    return low && compare(l->kind, &l->entries[low - 1], e) == 0 ? l->entries[low - 1].at : -1;
}

gale_status gale__onnx_lookup_all(
    gale__onnx_host_call *call, const gale__onnx_lookup *l, const gale_tensor *x, const int64_t **places)
{
    int64_t n = gale__tensor_elements(x), *to = gale__arena_alloc(&call->arena, ((size_t)n + 1) * sizeof *to);
    const void *data = NULL;
    if (!to) return GALE_NO_MEMORY;
    if ((x->type == GALE_STRING) != (l->kind == 's'))
        return gale__fail(GALE_INVALID, "%s cannot be looked up among %s keys", gale_type_name(x->type),
            l->kind == 's' ? "strings" : "numbers");
    if (l->kind != 's') GALE_TRY(gale__onnx_host_numbers(call, x, &data));
    for (int64_t i = 0; i < n; i++) {
        gale__onnx_lookup_entry e = entry_of(l->kind, x, data, i);
        to[i] = find(l, &e);
    }
    *places = to;
    return GALE_OK;
}

/* --- Attributes. --- */

gale_status gale__onnx_attr_tensor(const gale_attr *a, gale_tensor **out)
{
    int64_t n = (int64_t)a->count;
    gale_tensor *made = NULL;
    switch (a->kind) {
    case GALE_ATTR_STRINGS: return gale_tensor_from_strings(1, &n, a->strings, NULL, out);
    case GALE_ATTR_INTS: return gale_tensor_from_cpu(NULL, GALE_I64, 1, &n, a->ints, out);
    case GALE_ATTR_STRING: return gale_tensor_from_strings(1, &(int64_t){1}, &a->s, NULL, out);
    case GALE_ATTR_INT: return gale_tensor_from_cpu(NULL, GALE_I64, 1, &(int64_t){1}, &a->i, out);
    case GALE_ATTR_FLOAT: return gale_tensor_from_cpu(NULL, GALE_F32, 1, &(int64_t){1}, &(float){(float)a->f}, out);
    case GALE_ATTR_FLOATS:
        GALE_TRY(gale_tensor_create(NULL, GALE_F32, 1, &n, &made));
        for (int64_t i = 0; i < n; i++) ((float *)gale_tensor_data(made))[i] = (float)a->floats[i];
        *out = made;
        return GALE_OK;
    case GALE_ATTR_TENSOR:
        if (!a->tensor) break;
        return gale_tensor_reshape((gale_tensor *)a->tensor, 1, &(int64_t){gale__tensor_elements(a->tensor)}, out);
    default: break;
    }
    return gale__fail(GALE_INVALID, "attribute %s is not a list", a->name);
}

gale_status gale__onnx_lookup_column(gale__onnx_host_call *call, const char *name, gale_tensor **out)
{
    static const char *const endings[] = {"strings", "int64s", "floats", "tensor"};
    *out = NULL;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const char *full = gale__arena_printf(&call->arena, "%s_%s", name, endings[i]);
        if (!full) return GALE_NO_MEMORY;
        const gale_attr *a = gale__onnx_net_attr(call->node, full);
        if (a && (a->count || a->kind == GALE_ATTR_TENSOR)) return gale__onnx_attr_tensor(a, out);
    }
    return GALE_OK;
}
