/* Leaves: inputs, constants and counters, and their values known at plan time.  Large constants are borrowed, and data
 * in a file is read only through its tensor, since the file may be truncated meanwhile. */
#include "graph/build/build.h"
#include "graph/run/tensor.h"
#include <string.h>

bool gale__prim_shape_ok(gale__prim_graph *g, int rank, const int64_t *dims)
{
    if (rank < 0 || rank > GALE_MAX_RANK) {
        gale__prim_fail(g, GALE_LIMIT, "graph: rank %d exceeds the limit of %d", rank, GALE_MAX_RANK);
        return false;
    }
    size_t n = 1;
    for (int d = 0; d < rank; d++) {
        if (dims[d] < 0 || gale__mul_size(n, dims[d] ? (size_t)dims[d] : 1, &n) || n > INT64_MAX / 16) {
            gale__prim_fail(g, GALE_LIMIT, "graph: extent %lld of axis %d is negative or makes the value too large",
                (long long)dims[d], d);
            return false;
        }
    }
    return g->status == GALE_OK;
}

gale__node gale__prim_input(gale__prim_graph *g, int which, gale_type type, int rank, const int64_t *dims)
{
    if (!gale__prim_shape_ok(g, rank, dims)) return GALE__NIL;
    gale__prim_draft d;
    gale__prim_draft_init(&d, GALE__PRIM_INPUT, type, rank, dims);
    d.attr[0] = which;
    d.node.n_attr = 1;
    return gale__prim_push(g, &d.node);
}

/* tensor: where `data` is, when it is large; NULL: copied when small, else borrowed. */
static gale__node push_const(gale__prim_graph *g, gale_type type, int rank, const int64_t *dims, bool splat,
    const void *data, const gale_tensor *tensor)
{
    if (!gale__prim_shape_ok(g, rank, dims)) return GALE__NIL;
    gale__prim_draft d;
    gale__prim_draft_init(&d, GALE__PRIM_CONST, type, rank, dims);
    d.node.splat = splat;
    d.node.data = data;
    d.node.tensor = tensor;
    return gale__prim_push(g, &d.node);
}

static bool all_equal(const char *data, size_t size, size_t bytes, const void *first)
{
    size_t at = 0;
    while (at < bytes && !memcmp(data + at, first, size)) at += size;
    return at == bytes;
}

/* Constants of equal elements are found here, so that 0 and 1 are recognised however they were given. */
gale__node gale__prim_const(gale__prim_graph *g, gale_type type, int rank, const int64_t *dims, const void *data)
{
    if (type == GALE_STRING) return gale__prim_fail(g, GALE_UNSUPPORTED, "a graph cannot contain strings");
    size_t size = gale_type_size(type);
    int64_t n = gale__dims_count(rank, dims);
    if (n == 0) return gale__prim_splat(g, type, rank, dims, 0);
    return push_const(g, type, rank, dims, all_equal(data, size, (size_t)n * size, data), data, NULL);
}

/* Whether all elements are equal; most differ in the first piece. */
static gale_status tensor_equal(const gale_tensor *t, bool *equal)
{
    char first[8], piece[4096];
    size_t size = gale_type_size(t->type);
    *equal = true;
    for (size_t at = 0, n; *equal && at < t->size_bytes; at += n) {
        n = t->size_bytes - at < sizeof piece ? t->size_bytes - at : sizeof piece;
        GALE_TRY(gale__tensor_read(t, at, n, piece));
        if (at == 0) memcpy(first, piece, size);
        *equal = all_equal(piece, size, n, first);
    }
    return GALE_OK;
}

gale__node gale__prim_const_tensor(gale__prim_graph *g, const gale_tensor *t)
{
    if (!t->size_bytes || t->type == GALE_STRING || (!gale__tensor_mapped(t) && t->size_bytes <= GALE__SMALL_BYTES))
        return gale__prim_const(g, t->type, t->rank, t->dims, t->host);
    bool equal = false;
    gale_status status = tensor_equal(t, &equal);
    size_t small = equal ? gale_type_size(t->type) : t->size_bytes;
    if (status == GALE_OK && small > GALE__SMALL_BYTES)
        return push_const(g, t->type, t->rank, t->dims, false, t->host, t);
    void *data = status == GALE_OK ? gale__alloc(small) : NULL;
    if (status == GALE_OK) status = data ? gale__tensor_read(t, 0, small, data) : GALE_NO_MEMORY;
    gale__node n = status == GALE_OK ? push_const(g, t->type, t->rank, t->dims, equal, data, NULL) : GALE__NIL;
    gale__free(data);
    if (status != GALE_OK && g->status == GALE_OK) g->status = status;
    return n;
}

gale__node gale__prim_splat(gale__prim_graph *g, gale_type type, int rank, const int64_t *dims, double value)
{
    uint64_t bits = gale__prim_bits(type, value);
    return push_const(g, type, rank, dims, true, &bits, NULL);
}

gale__node gale__prim_splat_i(gale__prim_graph *g, gale_type type, int rank, const int64_t *dims, int64_t value)
{
    if (gale__type_is_float(type)) return gale__prim_splat(g, type, rank, dims, (double)value);
    uint64_t bits = 0;
    gale__store_i64(type, &bits, value);
    return push_const(g, type, rank, dims, true, &bits, NULL);
}

gale__node gale__prim_scalar(gale__prim_graph *g, gale_type type, double value)
{
    return gale__prim_splat(g, type, 0, NULL, value);
}

gale__node gale__prim_like(gale__prim_graph *g, gale__node n, double value)
{
    if (!gale__prim_ok(g, n)) return GALE__NIL;
    gale__prim_node p = g->nodes[n];
    return gale__prim_splat(g, p.type, p.rank, p.dims, value);
}

gale__node gale__prim_respread(gale__prim_graph *g, gale__node n, int rank, const int64_t *dims)
{
    const gale__prim_node *p = &g->nodes[n];
    return push_const(g, p->type, rank, dims, true, p->data, NULL);
}

gale__node gale__prim_iota(gale__prim_graph *g, int rank, const int64_t *dims, int axis)
{
    if (!gale__prim_shape_ok(g, rank, dims)) return GALE__NIL;
    if (axis < 0 || axis >= rank)
        return gale__prim_fail(g, GALE_INVALID, "iota: axis %d is out of range for rank %d", axis, rank);
    if (dims[axis] == 1 || gale__dims_count(rank, dims) == 0) return gale__prim_splat(g, GALE_I64, rank, dims, 0);
    gale__prim_draft d;
    gale__prim_draft_init(&d, GALE__PRIM_IOTA, GALE_I64, rank, dims);
    d.attr[0] = axis;
    d.node.n_attr = 1;
    return gale__prim_push(g, &d.node);
}

/* --- What is known at plan time. --- */

uint64_t gale__prim_bits(gale_type type, double value)
{
    uint64_t bits = 0;
    gale__store_f64(type, &bits, value);
    return bits;
}

bool gale__prim_is_splat(const gale__prim_graph *g, gale__node n, double *value)
{
    const gale__prim_node *p = &g->nodes[n];
    if (p->op != GALE__PRIM_CONST || !p->splat) return false;
    *value = gale__load_f64(p->type, p->data);
    return true;
}

gale_status gale__prim_known(const gale__prim_graph *g, gale__node n, const gale__prim_node **out)
{
    if (n < 0)
        return gale__fail(
            GALE_NOT_FOUND, "a value that must be known when planning is missing: its optional input was omitted");
    if (g->nodes[n].op != GALE__PRIM_CONST)
        return gale__fail(GALE_NOT_FOUND, "the value of node %d must be known when planning; make it a constant", n);
    *out = &g->nodes[n];
    return GALE_OK;
}

gale_status gale__prim_read(const gale__prim_node *p, void **copy, const void **data)
{
    *copy = NULL;
    *data = p->data;
    if (!p->tensor || !gale__tensor_mapped(p->tensor)) return GALE_OK;
    void *read = gale__alloc(p->tensor->size_bytes);
    if (!read) return GALE_NO_MEMORY;
    gale_status status = gale__tensor_read(p->tensor, 0, p->tensor->size_bytes, read);
    if (status != GALE_OK) return gale__free(read), status;
    *data = *copy = read;
    return GALE_OK;
}

gale_status gale__prim_known_ints(gale__prim_graph *g, gale__node n, int64_t **out, int64_t *count)
{
    gale__node base = n >= 0 && g->nodes[n].op == GALE__PRIM_EXPAND ? g->nodes[n].in[0] : n;
    const gale__prim_node *p = NULL;
    GALE_TRY(gale__prim_known(g, base, &p));
    if (base != n && !p->splat)
        return gale__fail(GALE_NOT_FOUND, "the value of node %d must be known when planning; make it a constant", n);
    if (!gale__type_is_int(p->type) && p->type != GALE_BOOL)
        return gale__fail(GALE_INVALID, "integers are needed, not %s", gale_type_name(p->type));
    int64_t total = gale__prim_elements(g, n),
            *values = gale__arena_alloc(&g->arena, (size_t)(total + 1) * sizeof *values);
    void *copy;
    const char *data;
    if (!values) return GALE_NO_MEMORY;
    GALE_TRY(gale__prim_read(p, &copy, (const void **)&data));
    size_t size = gale_type_size(p->type);
    for (int64_t i = 0; i < total; i++) values[i] = gale__load_i64(p->type, data + (p->splat ? 0 : i * size));
    gale__free(copy);
    *out = values;
    *count = total;
    return GALE_OK;
}
