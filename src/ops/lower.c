/* Shared by all lowerings: attributes, plan-time values, and a few compositions that many operators need. */
#include "ops/lower.h"
#include "base/seed.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gale__prim_node gale__lower_peek(const gale__prim_graph *g, gale__node n)
{
    static const gale__prim_node nothing;
    return n >= 0 ? *gale__prim_at(g, n) : nothing;
}

gale__node gale__lower_refuse(gale__lower *L, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gale__prim_fail(L->g, GALE_INVALID, "%s: %s", L->node->op->name, text);
}

/* --- Attributes. --- */

static const gale_attr *find(gale__lower *L, const char *name, gale_attr_kind kind, gale_attr_kind other)
{
    for (int i = 0; i < L->node->n_attrs; i++) {
        const gale_attr *a = &L->node->attrs[i];
        if (strcmp(a->name, name)) continue;
        if (a->kind == kind || a->kind == other) return a;
        gale__lower_refuse(L, "attribute '%s' has the wrong type", name);
    }
    return NULL;
}

int64_t gale__attr_i(gale__lower *L, const char *name, int64_t fallback)
{
    const gale_attr *a = find(L, name, GALE_ATTR_INT, GALE_ATTR_INT);
    return a ? a->i : fallback;
}

double gale__attr_f(gale__lower *L, const char *name, double fallback)
{
    const gale_attr *a = find(L, name, GALE_ATTR_FLOAT, GALE_ATTR_INT);
    return !a ? fallback : a->kind == GALE_ATTR_INT ? (double)a->i : a->f;
}

const char *gale__attr_s(gale__lower *L, const char *name, const char *fallback)
{
    const gale_attr *a = find(L, name, GALE_ATTR_STRING, GALE_ATTR_STRING);
    return a ? a->s : fallback;
}

const int64_t *gale__attr_ints(gale__lower *L, const char *name, int *count)
{
    const gale_attr *a = find(L, name, GALE_ATTR_INTS, GALE_ATTR_INTS);
    static const int64_t none[1];
    *count = a ? (int)a->count : 0;
    return !a ? NULL : a->count ? a->ints : none;
}

const double *gale__attr_floats(gale__lower *L, const char *name, int *count)
{
    const gale_attr *a = find(L, name, GALE_ATTR_FLOATS, GALE_ATTR_FLOATS);
    *count = a ? (int)a->count : 0;
    return a ? a->floats : NULL;
}

/* "a,b,c" as three texts, in the arena. */
static const char *const *cut_at_commas(gale__lower *L, const char *text, int *count)
{
    char *copy = gale__arena_strdup(&L->g->arena, text);
    const char **parts = gale__arena_alloc(&L->g->arena, (strlen(text) + 1) * sizeof *parts);
    if (!copy || !parts) L->g->status = GALE_NO_MEMORY;
    if (!copy || !parts) return NULL;
    for (char *comma = copy; comma; copy = comma + 1) {
        parts[(*count)++] = copy;
        if ((comma = strchr(copy, ','))) *comma = 0;
        else break;
    }
    return parts;
}

const char *const *gale__attr_strings(gale__lower *L, const char *name, int *count)
{
    const gale_attr *a = find(L, name, GALE_ATTR_STRINGS, GALE_ATTR_STRING);
    *count = 0;
    if (a && a->kind == GALE_ATTR_STRING) return cut_at_commas(L, a->s, count);
    if (a) *count = (int)a->count;
    return a && a->count ? a->strings : NULL;
}

const gale_graph *gale__attr_graph(gale__lower *L, const char *name)
{
    const gale_attr *a = find(L, name, GALE_ATTR_GRAPH, GALE_ATTR_GRAPH);
    return a ? a->graph : NULL;
}

bool gale__attr_given(gale__lower *L, const char *name) { return gale__op_attr(L->node, name) != NULL; }

/* ONNX's TensorProto.DataType in its order. */
static const int8_t onnx_types[] = {-1, GALE_F32, GALE_U8, GALE_I8, GALE_U16, GALE_I16, GALE_I32, GALE_I64, GALE_STRING,
    GALE_BOOL, GALE_F16, GALE_F64, GALE_U32, GALE_U64, -1, -1, GALE_BF16, GALE_F8E4M3FN, GALE_F8E4M3FNUZ, GALE_F8E5M2,
    GALE_F8E5M2FNUZ, GALE_U4, GALE_I4, GALE_F4E2M1, GALE_F8E8M0, GALE_U2, GALE_I2, GALE_F6E2M3, GALE_F6E3M2};

gale_type gale__attr_type(gale__lower *L, const char *name, gale_type fallback)
{
    const gale_attr *a = find(L, name, GALE_ATTR_INT, GALE_ATTR_STRING);
    gale_type type = fallback;
    if (!a) return fallback;
    if (a->kind == GALE_ATTR_STRING) {
        if (gale_type_parse(a->s, &type) != GALE_OK)
            gale__lower_refuse(L, "attribute '%s': unknown element type '%s'", name, a->s);
        return type;
    }
    if (a->i > 0 && a->i < (int64_t)(sizeof onnx_types) && onnx_types[a->i] >= 0) return (gale_type)onnx_types[a->i];
    gale__lower_refuse(L, "attribute '%s': element type %lld is not supported", name, (long long)a->i);
    return fallback;
}

int gale__lower_axis(gale__lower *L, int64_t axis, int rank)
{
    if (axis >= -rank && axis < rank) return (int)(axis < 0 ? axis + rank : axis);
    gale__lower_refuse(L, "axis %lld is out of range for rank %d", (long long)axis, rank);
    return 0;
}

/* --- Plan-time values. --- */

const int64_t *gale__lower_known_ints(gale__lower *L, int i, int64_t *count)
{
    gale__node n = gale__lower_arg(L, i);
    int64_t *values = NULL;
    *count = 0;
    if (n < 0 || !gale__lower_good(L)) return NULL;
    gale_status status = gale__prim_known_ints(L->g, n, &values, count);
    if (status == GALE_NOT_FOUND)
        gale__lower_refuse(
            L, "input %d must be known when planning (a constant, or computed from shapes and constants)", i);
    else if (status != GALE_OK) gale__prim_fail(L->g, status, "%s: input %d: %s", L->node->op->name, i, gale_error());
    return values;
}

const double *gale__lower_known_floats(gale__lower *L, int i, int64_t *count)
{
    gale__node n = gale__lower_arg(L, i);
    const gale__prim_node *p = NULL;
    *count = 0;
    if (n < 0 || !gale__lower_good(L)) return NULL;
    if (gale__prim_known(L->g, n, &p) != GALE_OK) {
        gale__lower_refuse(
            L, "input %d must be known when planning (a constant, or computed from shapes and constants)", i);
        return NULL;
    }
    int64_t total = gale__prim_elements(L->g, n);
    double *values = gale__arena_alloc(&L->g->arena, (size_t)(total + 1) * sizeof *values);
    void *copy = NULL;
    const char *data;
    if (!values) L->g->status = GALE_NO_MEMORY;
    else L->g->status = gale__prim_read(p, &copy, (const void **)&data);
    if (!gale__lower_good(L)) return NULL;
    size_t size = gale_type_size(p->type);
    for (int64_t k = 0; k < total; k++) values[k] = gale__load_f64(p->type, data + (p->splat ? 0 : k * size));
    gale__free(copy);
    *count = total;
    return values;
}

uint32_t gale__lower_axes_mask(gale__lower *L, int i, int rank, bool *given)
{
    int64_t count = 0;
    int n = 0;
    const int64_t *axes =
        gale__lower_arg(L, i) >= 0 ? gale__lower_known_ints(L, i, &count) : gale__attr_ints(L, "axes", &n);
    uint32_t mask = 0;
    if (n) count = n;
    *given = axes && count > 0;
    for (int64_t k = 0; axes && k < count; k++) {
        int axis = gale__lower_axis(L, axes[k], rank);
        if (axis < GALE_MAX_RANK) mask |= 1u << axis;
        else gale__lower_refuse(L, "axis %d of a value of rank %d; at most %d can be known", axis, rank, GALE_MAX_RANK);
    }
    return mask;
}

/* --- Compositions. --- */

gale_type gale__lower_precise(const gale__lower *L)
{
    return L->device && !gale_device_get_info(L->device)->caps.f64 ? GALE_F32 : GALE_F64;
}

gale_type gale__lower_wide_type(gale_type type)
{
    return gale__type_is_float(type) && type != GALE_F64 ? GALE_F32 : type;
}

gale__node gale__lower_wide(gale__lower *L, gale__node x)
{
    return gale__prim_cast(L->g, x, gale__lower_wide_type(gale__lower_type_of(L->g, x)));
}

gale__node gale__lower_value(gale__lower *L, gale__node x, double value)
{
    return gale__prim_scalar(L->g, gale__lower_type_of(L->g, x), value);
}

gale__node gale__lower_index(gale__lower *L, int64_t value)
{
    return gale__prim_splat_i(L->g, GALE_I64, 0, NULL, value);
}

gale__node gale__lower_mean(gale__lower *L, gale__node x, uint32_t axes)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    double n = 1;
    for (int d = 0; d < p.rank; d++)
        if (axes >> d & 1) n *= (double)p.dims[d];
    gale__node sum = gale__prim_reduce(L->g, GALE__SUM, x, axes, true);
    return gale__prim_div(L->g, sum, gale__lower_value(L, x, n));
}

gale__node gale__lower_sigmoid(gale__lower *L, gale__node x)
{
    gale__prim_graph *g = L->g;
    gale__node one = gale__lower_value(L, x, 1);
    return gale__prim_div(
        g, one, gale__prim_add(g, one, gale__prim_unary(g, GALE__EXP, gale__prim_unary(g, GALE__NEG, x))));
}

gale__node gale__lower_softmax(gale__lower *L, gale__node x, uint32_t axes)
{
    gale__prim_graph *g = L->g;
    gale__node e =
        gale__prim_unary(g, GALE__EXP, gale__prim_sub(g, x, gale__prim_reduce(g, GALE__RMAX, x, axes, true)));
    return gale__prim_div(g, e, gale__prim_reduce(g, GALE__SUM, e, axes, true));
}

gale__node gale__lower_clamp(gale__lower *L, gale__node x, double low, double high)
{
    x = gale__prim_binary(L->g, GALE__MAX, x, gale__lower_value(L, x, low));
    return gale__prim_binary(L->g, GALE__MIN, x, gale__lower_value(L, x, high));
}

gale__node gale__lower_along(gale__lower *L, gale__node x, int rank, int axis)
{
    int64_t dims[GALE_MAX_RANK];
    for (int d = 0; d < rank && d < GALE_MAX_RANK; d++) dims[d] = 1;
    if (x >= 0) dims[axis] = gale__prim_elements(L->g, x);
    return gale__prim_reshape(L->g, x, rank, dims);
}

gale__node gale__lower_walk(gale__lower *L, int rank, const int64_t *dims, int axis, int64_t scale)
{
    return gale__prim_mul(L->g, gale__prim_iota(L->g, rank, dims, axis), gale__lower_index(L, scale));
}

gale__node gale__lower_wrap_index(gale__lower *L, gale__node index, int64_t extent)
{
    gale__node at = gale__prim_cast(L->g, index, GALE_I64);
    gale__node below = gale__prim_binary(L->g, GALE__LT, at, gale__lower_index(L, 0));
    return gale__prim_select(L->g, below, gale__prim_add(L->g, at, gale__lower_index(L, extent)), at);
}

/* --- Bodies of loops. --- */

gale__prim_graph *gale__lower_body_begin(gale__lower *L)
{
    gale__prim_graph *body = gale__lower_good(L) ? gale__alloc(sizeof *body) : NULL;
    if (!body && gale__lower_good(L)) L->g->status = GALE_NO_MEMORY;
    if (!body) return NULL;
    gale__prim_init(body);
    body->fold_max = L->g->fold_max;
    body->integer_products = L->g->integer_products;
    body->row_products = L->g->row_products;
    body->phases_apart = L->g->phases_apart;
    body->zero_points_outside = L->g->zero_points_outside;
    body->pixel_blocks = L->g->pixel_blocks;
    body->inner = true;
    body->scope = gale__seed_mix(L->g->scope + 1, L->node->number);
    /* Its kernels are the operator's. */
    body->status = gale__grow((void **)&body->regions, &body->regions_capacity, 1, sizeof *body->regions);
    if (body->status != GALE_OK) return body;
    body->regions[0] = (gale__prim_region){.name = L->node->op->name, .op = L->node};
    body->n_regions = 1;
    body->region = 0;
    return body;
}

/* A small constant stays one inside, so that shapes made of it are known there. */
gale__node gale__lower_body_constant(gale__lower *L, gale__prim_graph *body, int which, gale__node outside)
{
    gale__prim_node p = gale__lower_peek(L->g, outside);
    if (outside < 0 || p.op != GALE__PRIM_CONST || (!p.splat && gale__prim_elements(L->g, outside) > GALE__FOLD_MAX))
        return gale__lower_body_input(L, body, which, outside, false);
    if (!p.splat) return gale__prim_const(body, (gale_type)p.type, p.rank, p.dims, p.data);
    return gale__prim_expand(body, gale__prim_const(body, (gale_type)p.type, 0, NULL, p.data), p.rank, p.dims);
}

gale__node gale__lower_body_end(gale__lower *L, const gale__prim_loop_args *loop, const gale__node *inputs)
{
    gale__node made = gale__prim_loop(L->g, loop, inputs);
    if (made >= 0) return made;
    gale__prim_finish(loop->body);
    gale__free(loop->body);
    return GALE__NIL;
}

gale__node gale__lower_body_input(gale__lower *L, gale__prim_graph *body, int which, gale__node outside, bool sliced)
{
    gale__prim_node p = gale__lower_peek(L->g, outside);
    if (outside < 0 || (sliced && p.rank < 1))
        return gale__prim_fail(
            body, GALE_INVALID, "%s: input %d of the loop has no axis to iterate over", L->node->op->name, which);
    return gale__prim_input(body, which, p.type, p.rank - sliced, p.dims + sliced);
}

void gale__lower_repeat(
    gale__lower *L, int64_t times, void (*step)(gale__lower *L, gale__node state[2]), gale__node state[2])
{
    enum { UNROLLED = 4 };
    for (int64_t i = 0; times <= UNROLLED && i < times; i++) step(L, state);
    if (times <= UNROLLED) return;
    gale__lower inner = *L;
    inner.g = gale__lower_body_begin(L);
    if (!inner.g) return;
    gale__node out[2] = {
        gale__lower_body_input(L, inner.g, 0, state[0], false), gale__lower_body_input(L, inner.g, 1, state[1], false)};
    step(&inner, out);
    gale__node made = gale__lower_body_end(
        L, &(gale__prim_loop_args){.body = inner.g, .trips = times, .n_carried = 2, .out = out}, state);
    for (int i = 0; i < 2; i++) state[i] = gale__prim_loop_out(L->g, made, i);
}
