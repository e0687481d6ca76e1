/* What lowering shares: attributes, plan-time values, and a few compositions that many operators need. */
#include "ops/lower.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gale__pnode gale__peek(const gale__g *g, gale__node n)
{
    static const gale__pnode nothing;
    return n >= 0 ? *gale__g_at(g, n) : nothing;
}

gale__node gale__refuse(gale__lower *L, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gale__g_fail(L->g, GALE_INVALID, "%s: %s", L->node->op->name, text);
}

/* --- Attributes. --- */

static const gale_attr *find(gale__lower *L, const char *name, gale_attr_kind kind, gale_attr_kind other)
{
    for (int i = 0; i < L->node->n_attrs; i++) {
        const gale_attr *a = &L->node->attrs[i];
        if (strcmp(a->name, name)) continue;
        if (a->kind == kind || a->kind == other) return a;
        gale__refuse(L, "attribute '%s' has the wrong kind", name);
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

bool gale__attr_given(gale__lower *L, const char *name)
{
    for (int i = 0; i < L->node->n_attrs; i++)
        if (!strcmp(L->node->attrs[i].name, name)) return true;
    return false;
}

/* ONNX's TensorProto.DataType in its order. */
static const int8_t onnx_types[] = {-1, GALE_F32, GALE_U8, GALE_I8, GALE_U16, GALE_I16, GALE_I32, GALE_I64, GALE_STRING,
    GALE_BOOL, GALE_F16, GALE_F64, GALE_U32, GALE_U64, -1, -1, GALE_BF16, GALE_F8E4M3FN, GALE_F8E4M3FNUZ, GALE_F8E5M2,
    GALE_F8E5M2FNUZ, GALE_U4, GALE_I4, GALE_F4E2M1, GALE_F8E8M0, GALE_U2, GALE_I2};

gale_type gale__attr_type(gale__lower *L, const char *name, gale_type fallback)
{
    const gale_attr *a = find(L, name, GALE_ATTR_INT, GALE_ATTR_STRING);
    gale_type type = fallback;
    if (!a) return fallback;
    if (a->kind == GALE_ATTR_STRING) {
        if (gale_type_parse(a->s, &type) != GALE_OK)
            gale__refuse(L, "attribute '%s': no element type is called '%s'", name, a->s);
        return type;
    }
    if (a->i > 0 && a->i < (int64_t)(sizeof onnx_types) && onnx_types[a->i] >= 0) return (gale_type)onnx_types[a->i];
    gale__refuse(L, "attribute '%s': element type %lld is not supported", name, (long long)a->i);
    return fallback;
}

int gale__axis(gale__lower *L, int64_t axis, int rank)
{
    if (axis >= -rank && axis < rank) return (int)(axis < 0 ? axis + rank : axis);
    gale__refuse(L, "axis %lld of a value of rank %d", (long long)axis, rank);
    return 0;
}

/* --- Plan-time values. --- */

const int64_t *gale__known_ints(gale__lower *L, int i, int64_t *count)
{
    gale__node n = gale__arg(L, i);
    int64_t *values = NULL;
    *count = 0;
    if (n < 0 || !gale__good(L)) return NULL;
    gale_status status = gale__g_known_ints(L->g, n, &values, count);
    if (status == GALE_NOT_FOUND)
        gale__refuse(L, "input %d must be known when planning (a constant, or made of shapes and constants)", i);
    else if (status != GALE_OK) gale__g_fail(L->g, status, "%s: input %d: %s", L->node->op->name, i, gale_error());
    return values;
}

const double *gale__known_floats(gale__lower *L, int i, int64_t *count)
{
    gale__node n = gale__arg(L, i);
    const gale__pnode *p = NULL;
    *count = 0;
    if (n < 0 || !gale__good(L)) return NULL;
    if (gale__g_known(L->g, n, &p) != GALE_OK) {
        gale__refuse(L, "input %d must be known when planning (a constant, or made of shapes and constants)", i);
        return NULL;
    }
    int64_t total = gale__g_elements(L->g, n);
    double *values = gale__arena_alloc(&L->g->arena, (size_t)(total + 1) * sizeof *values);
    void *copy = NULL;
    const char *data;
    if (!values) L->g->status = GALE_NO_MEMORY;
    else L->g->status = gale__g_read(p, &copy, (const void **)&data);
    if (!gale__good(L)) return NULL;
    size_t size = gale_type_size(p->type);
    for (int64_t k = 0; k < total; k++) values[k] = gale__load_f64(p->type, data + (p->splat ? 0 : k * size));
    gale__free(copy);
    *count = total;
    return values;
}

uint32_t gale__axes_mask(gale__lower *L, int i, int rank, bool *given)
{
    int64_t count = 0;
    int n = 0;
    const int64_t *axes = gale__arg(L, i) >= 0 ? gale__known_ints(L, i, &count) : gale__attr_ints(L, "axes", &n);
    uint32_t mask = 0;
    if (n) count = n;
    *given = axes && count > 0;
    for (int64_t k = 0; axes && k < count; k++) {
        int axis = gale__axis(L, axes[k], rank);
        if (axis < GALE_MAX_RANK) mask |= 1u << axis;
        else gale__refuse(L, "axis %d of a value of rank %d, and at most %d are known", axis, rank, GALE_MAX_RANK);
    }
    return mask;
}

/* --- Compositions. --- */

gale_type gale__precise(const gale__lower *L)
{
    return L->device && !gale_device_get_info(L->device)->caps.f64 ? GALE_F32 : GALE_F64;
}

gale_type gale__wide_type(gale_type type) { return gale__type_is_float(type) && type != GALE_F64 ? GALE_F32 : type; }

gale__node gale__wide(gale__lower *L, gale__node x)
{
    return gale__g_cast(L->g, x, gale__wide_type(gale__type_of(L->g, x)));
}

gale__node gale__value(gale__lower *L, gale__node x, double value)
{
    return gale__g_scalar(L->g, gale__type_of(L->g, x), value);
}

gale__node gale__index(gale__lower *L, int64_t value) { return gale__g_splat_i(L->g, GALE_I64, 0, NULL, value); }

gale__node gale__mean(gale__lower *L, gale__node x, uint32_t axes)
{
    gale__pnode p = gale__peek(L->g, x);
    double n = 1;
    for (int d = 0; d < p.rank; d++)
        if (axes >> d & 1) n *= (double)p.dims[d];
    gale__node sum = gale__g_reduce(L->g, GALE__SUM, x, axes, true);
    return gale__g_div(L->g, sum, gale__value(L, x, n));
}

gale__node gale__sigmoid(gale__lower *L, gale__node x)
{
    gale__g *g = L->g;
    gale__node one = gale__value(L, x, 1);
    return gale__g_div(g, one, gale__g_add(g, one, gale__g_unary(g, GALE__EXP, gale__g_unary(g, GALE__NEG, x))));
}

gale__node gale__softmax(gale__lower *L, gale__node x, uint32_t axes)
{
    gale__g *g = L->g;
    gale__node e = gale__g_unary(g, GALE__EXP, gale__g_sub(g, x, gale__g_reduce(g, GALE__RMAX, x, axes, true)));
    return gale__g_div(g, e, gale__g_reduce(g, GALE__SUM, e, axes, true));
}

gale__node gale__clamp(gale__lower *L, gale__node x, double low, double high)
{
    x = gale__g_binary(L->g, GALE__MAX, x, gale__value(L, x, low));
    return gale__g_binary(L->g, GALE__MIN, x, gale__value(L, x, high));
}

gale__node gale__along(gale__lower *L, gale__node x, int rank, int axis)
{
    int64_t dims[GALE_MAX_RANK];
    for (int d = 0; d < rank && d < GALE_MAX_RANK; d++) dims[d] = 1;
    if (x >= 0) dims[axis] = gale__g_elements(L->g, x);
    return gale__g_reshape(L->g, x, rank, dims);
}

gale__node gale__walk(gale__lower *L, int rank, const int64_t *dims, int axis, int64_t scale)
{
    return gale__g_mul(L->g, gale__g_iota(L->g, rank, dims, axis), gale__index(L, scale));
}

gale__node gale__wrap_index(gale__lower *L, gale__node index, int64_t extent)
{
    gale__node at = gale__g_cast(L->g, index, GALE_I64);
    gale__node below = gale__g_binary(L->g, GALE__LT, at, gale__index(L, 0));
    return gale__g_select(L->g, below, gale__g_add(L->g, at, gale__index(L, extent)), at);
}

/* --- Bodies of loops. --- */

gale__g *gale__body_begin(gale__lower *L)
{
    gale__g *body = gale__good(L) ? gale__alloc(sizeof *body) : NULL;
    if (!body && gale__good(L)) L->g->status = GALE_NO_MEMORY;
    if (!body) return NULL;
    gale__g_init(body);
    body->fold_max = L->g->fold_max;
    /* Its kernels are the operator's. */
    body->status = gale__grow((void **)&body->regions, &body->regions_capacity, 1, sizeof *body->regions);
    if (body->status != GALE_OK) return body;
    body->regions[0] = (gale__region){.name = L->node->op->name, .op = L->node};
    body->n_regions = 1;
    body->region = 0;
    return body;
}

/* A small constant stays one inside, so that shapes made of it are known there. */
gale__node gale__body_constant(gale__lower *L, gale__g *body, int which, gale__node outside)
{
    gale__pnode p = gale__peek(L->g, outside);
    if (outside < 0 || p.op != GALE__P_CONST || (!p.splat && gale__g_elements(L->g, outside) > GALE__FOLD_MAX))
        return gale__body_input(L, body, which, outside, false);
    if (!p.splat) return gale__g_const(body, (gale_type)p.type, p.rank, p.dims, p.data);
    return gale__g_expand(body, gale__g_const(body, (gale_type)p.type, 0, NULL, p.data), p.rank, p.dims);
}

gale__node gale__body_end(gale__lower *L, const gale__loop *loop, const gale__node *inputs)
{
    gale__node made = gale__g_loop(L->g, loop, inputs);
    if (made >= 0) return made;
    gale__g_finish(loop->body);
    gale__free(loop->body);
    return GALE__NIL;
}

gale__node gale__body_input(gale__lower *L, gale__g *body, int which, gale__node outside, bool sliced)
{
    gale__pnode p = gale__peek(L->g, outside);
    if (outside < 0 || (sliced && p.rank < 1))
        return gale__g_fail(
            body, GALE_INVALID, "%s: input %d of the loop has no axis to go along", L->node->op->name, which);
    return gale__g_input(body, which, p.type, p.rank - sliced, p.dims + sliced);
}

void gale__repeat(gale__lower *L, int64_t times, void (*step)(gale__lower *L, gale__node state[2]), gale__node state[2])
{
    enum { UNROLLED = 4 };
    for (int64_t i = 0; times <= UNROLLED && i < times; i++) step(L, state);
    if (times <= UNROLLED) return;
    gale__lower inner = *L;
    inner.g = gale__body_begin(L);
    if (!inner.g) return;
    gale__node out[2] = {
        gale__body_input(L, inner.g, 0, state[0], false), gale__body_input(L, inner.g, 1, state[1], false)};
    step(&inner, out);
    gale__node made =
        gale__body_end(L, &(gale__loop){.body = inner.g, .trips = times, .n_carried = 2, .out = out}, state);
    for (int i = 0; i < 2; i++) state[i] = gale__g_loop_out(L->g, made, i);
}
