/* The builder's core: nodes, hash-consing, folding and leaves.  A node is compared with those already there by everything
 * that defines it, so that equal work is done once without a pass that looks for it. */
#include "graph/build.h"
#include "base/hash.h"
#include "base/str.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gale__g_init(gale__g *g)
{
    memset(g, 0, sizeof *g);
    g->region = -1;
    g->fold_max = GALE__FOLD_MAX;
}

void gale__g_finish(gale__g *g)
{
    for (int32_t i = 0; i < g->count; i++) {
        gale__loop *loop = g->nodes[i].loop;
        if (!loop || g->nodes[i].op != GALE__P_LOOP) continue;
        gale__g_finish(loop->body);
        gale__free(loop->body);
    }
    gale__free(g->nodes);
    gale__free(g->table);
    gale__free(g->regions);
    gale__arena_finish(&g->arena);
    memset(g, 0, sizeof *g);
}

gale__node gale__g_fail(gale__g *g, gale_status status, const char *format, ...)
{
    if (g->status != GALE_OK) return GALE__NIL;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    g->status = gale__fail(status, "%s", text);
    return GALE__NIL;
}

int64_t gale__count(int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= dims[d];
    return n;
}

int64_t gale__g_elements(const gale__g *g, gale__node n)
{
    return gale__count(g->nodes[n].rank, g->nodes[n].dims);
}

bool gale__g_same_shape(const gale__g *g, gale__node a, gale__node b)
{
    const gale__pnode *p = &g->nodes[a], *q = &g->nodes[b];
    return p->rank == q->rank && !memcmp(p->dims, q->dims, p->rank * sizeof *p->dims);
}

const char *gale__g_shape_text(gale__g *g, gale__node n)
{
    const char *text = "";
    const gale__pnode *p = &g->nodes[n];
    for (int d = 0; text && d < p->rank; d++) text = gale__arena_printf(&g->arena, "%s%s%lld", text, d ? ", " : "", (long long)p->dims[d]);
    text = text ? gale__arena_printf(&g->arena, "[%s]", text) : NULL;
    return text ? text : "[?]";
}

/* --- Hash-consing. --- */

static size_t data_bytes(const gale__pnode *p)
{
    return gale_type_size(p->type) * (size_t)(p->splat ? 1 : gale__count(p->rank, p->dims));
}

/* Large constants are borrowed, and equal only when they are the same memory. */
static bool data_is_small(const gale__pnode *p) { return data_bytes(p) <= GALE__FOLD_MAX * sizeof(double); }

static uint32_t hash_node(const gale__pnode *p)
{
    int64_t head[4 + GALE_MAX_RANK] = {p->op | p->type << 8 | p->rank << 16 | p->splat << 24, (int64_t)p->imm, (int64_t)(intptr_t)p->loop};
    int n = 3;
    for (int d = 0; d < p->rank; d++) head[n++] = p->dims[d];
    uint64_t h = gale__hash(head, (size_t)n * sizeof *head, 17);
    if (p->n_in) h = gale__hash(p->in, p->n_in * sizeof *p->in, h);
    if (p->n_attr) h = gale__hash(p->attr, p->n_attr * sizeof *p->attr, h);
    if (p->data) h = data_is_small(p) ? gale__hash(p->data, data_bytes(p), h) : gale__hash(&p->data, sizeof p->data, h);
    return (uint32_t)(h ^ h >> 32);
}

static bool same_node(const gale__pnode *p, const gale__pnode *q)
{
    if (p->hash != q->hash || p->op != q->op || p->type != q->type || p->rank != q->rank || p->splat != q->splat || p->imm != q->imm) return false;
    if (p->n_in != q->n_in || p->n_attr != q->n_attr || p->loop != q->loop || !p->data != !q->data) return false;
    if (memcmp(p->dims, q->dims, p->rank * sizeof *p->dims)) return false;
    if (p->n_in && memcmp(p->in, q->in, p->n_in * sizeof *p->in)) return false;
    if (p->n_attr && memcmp(p->attr, q->attr, p->n_attr * sizeof *p->attr)) return false;
    return p->data == q->data || (data_is_small(p) && !memcmp(p->data, q->data, data_bytes(p)));
}

/* The slot where a node equal to p is, or would go. */
static uint32_t find_slot(const gale__g *g, const gale__pnode *p)
{
    uint32_t mask = g->table_size - 1, slot = p->hash & mask;
    while (g->table[slot] >= 0 && !same_node(&g->nodes[g->table[slot]], p)) slot = (slot + 1) & mask;
    return slot;
}

static gale_status grow_table(gale__g *g)
{
    if (g->table && (uint32_t)g->count * 2 < g->table_size) return GALE_OK;
    uint32_t size = g->table_size ? g->table_size * 2 : 256;
    int32_t *table = gale__alloc(size * sizeof *table);
    if (!table) return GALE_NO_MEMORY;
    memset(table, 0xff, size * sizeof *table);
    gale__free(g->table);
    g->table = table;
    g->table_size = size;
    for (int32_t i = 0; i < g->count; i++) g->table[find_slot(g, &g->nodes[i])] = i;
    return GALE_OK;
}

static gale__node out_of_memory(gale__g *g)
{
    if (g->status == GALE_OK) g->status = GALE_NO_MEMORY; /* the allocator has said why */
    return GALE__NIL;
}

static gale__node append(gale__g *g, const gale__pnode *p)
{
    if (grow_table(g) != GALE_OK) return out_of_memory(g);
    gale__pnode kept = *p;
    kept.hash = hash_node(p);
    uint32_t slot = find_slot(g, &kept);
    if (g->table[slot] >= 0) return g->table[slot];
    size_t need = (size_t)g->count + 1;
    if (gale__grow((void **)&g->nodes, &g->capacity, need, sizeof *g->nodes) != GALE_OK) return out_of_memory(g);
    if (p->n_in) kept.in = gale__arena_copy(&g->arena, p->in, p->n_in * sizeof *p->in);
    if (p->n_attr) kept.attr = gale__arena_copy(&g->arena, p->attr, p->n_attr * sizeof *p->attr);
    if (p->data && data_is_small(p)) kept.data = gale__arena_copy(&g->arena, p->data, data_bytes(p));
    if ((p->n_in && !kept.in) || (p->n_attr && !kept.attr) || (p->data && !kept.data)) return out_of_memory(g);
    g->nodes[g->count] = kept;
    return g->table[slot] = g->count++;
}

/* --- Folding. --- */

/* EXPAND is never folded itself: a table of equal rows would only cost more to read. */
static bool is_constant(const gale__g *g, gale__node n)
{
    const gale__pnode *p = &g->nodes[n];
    if (p->op == GALE__P_EXPAND) p = &g->nodes[p->in[0]];
    return p->op == GALE__P_CONST && (p->splat || p->data);
}

static bool foldable(const gale__g *g, const gale__pnode *p)
{
    if (!p->n_in || p->op == GALE__P_EXPAND || p->op >= GALE__P_LOOP || p->op == GALE__P_INPUT) return false;
    if (gale__count(p->rank, p->dims) > g->fold_max) return false;
    for (int i = 0; i < p->n_in; i++)
        if (!is_constant(g, p->in[i]) || gale__g_elements(g, p->in[i]) > g->fold_max) return false;
    return true;
}

/* Element-wise work on constants of equal elements gives one too, of whatever size. */
static bool all_splats(const gale__g *g, const gale__pnode *p)
{
    if (p->op >= GALE__SCALAR_COUNT || !g->fold_max) return false;
    for (int i = 0; i < p->n_in; i++)
        if (!g->nodes[p->in[i]].splat) return false;
    return p->n_in > 0;
}

static gale__node fold(gale__g *g, const gale__pnode *p, bool splat)
{
    gale__pnode one = *p, value = {.op = GALE__P_CONST, .type = p->type, .rank = p->rank, .splat = splat, .invariant = true, .region = -1};
    memcpy(value.dims, p->dims, sizeof value.dims);
    if (splat) one.rank = 0;
    void *data = NULL;
    gale_status status = gale__reference_fold(g, &one, &data);
    if (status != GALE_OK) {
        if (g->status == GALE_OK) g->status = status;
        return GALE__NIL;
    }
    value.data = data;
    gale__node n = append(g, &value);
    gale__free(data);
    return n;
}

gale__node gale__g_push(gale__g *g, const gale__pnode *p)
{
    if (g->status != GALE_OK) return GALE__NIL;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] < 0 || p->in[i] >= g->count) return gale__g_fail(g, GALE_INVALID, "graph: an operand is missing");
    /* A value of no elements is the same whatever made it. */
    if (p->n_in && p->op != GALE__P_LOOP && gale__count(p->rank, p->dims) == 0)
        return gale__g_splat(g, p->type, p->rank, p->dims, 0);
    if (all_splats(g, p)) return fold(g, p, true);
    if (foldable(g, p)) return fold(g, p, false);
    gale__pnode node = *p;
    node.region = g->region;
    node.invariant = p->op != GALE__P_INPUT;
    for (int i = 0; i < p->n_in; i++) node.invariant = node.invariant && g->nodes[p->in[i]].invariant;
    return append(g, &node);
}

void gale__draft_init(gale__draft *d, int op, gale_type type, int rank, const int64_t *dims)
{
    memset(d, 0, sizeof *d);
    d->node.op = (uint8_t)op;
    d->node.type = (uint8_t)type;
    d->node.rank = (uint8_t)rank;
    if (rank) memcpy(d->node.dims, dims, rank * sizeof *dims);
    d->node.in = d->in;
    d->node.attr = d->attr;
}

/* --- Leaves. --- */

static bool shape_ok(gale__g *g, int rank, const int64_t *dims)
{
    if (rank < 0 || rank > GALE_MAX_RANK) {
        gale__g_fail(g, GALE_LIMIT, "graph: a value of rank %d; at most %d are possible", rank, GALE_MAX_RANK);
        return false;
    }
    size_t n = 1;
    for (int d = 0; d < rank; d++) {
        if (dims[d] < 0 || gale__mul_size(n, dims[d] ? (size_t)dims[d] : 1, &n) || n > INT64_MAX / 16) {
            gale__g_fail(g, GALE_LIMIT, "graph: extent %lld of axis %d is negative or makes the value too large", (long long)dims[d], d);
            return false;
        }
    }
    return g->status == GALE_OK;
}

gale__node gale__g_input(gale__g *g, int which, gale_type type, int rank, const int64_t *dims)
{
    if (!shape_ok(g, rank, dims)) return GALE__NIL;
    gale__draft d;
    gale__draft_init(&d, GALE__P_INPUT, type, rank, dims);
    d.attr[0] = which;
    d.node.n_attr = 1;
    return gale__g_push(g, &d.node);
}

static gale__node push_const(gale__g *g, gale_type type, int rank, const int64_t *dims, bool splat, const void *data)
{
    if (!shape_ok(g, rank, dims)) return GALE__NIL;
    gale__draft d;
    gale__draft_init(&d, GALE__P_CONST, type, rank, dims);
    d.node.splat = splat;
    d.node.data = data;
    return gale__g_push(g, &d.node);
}

/* Constants of equal elements are found here, so that 0 and 1 are recognised however they were given. */
gale__node gale__g_const(gale__g *g, gale_type type, int rank, const int64_t *dims, const void *data)
{
    if (type == GALE_STRING) return gale__g_fail(g, GALE_UNSUPPORTED, "strings are not numbers of a graph");
    size_t size = gale_type_size(type);
    int64_t n = gale__count(rank, dims);
    bool equal = n > 0;
    for (int64_t i = 1; equal && i < n; i++) equal = !memcmp((const char *)data + i * size, data, size);
    if (n == 0) return gale__g_splat(g, type, rank, dims, 0);
    return push_const(g, type, rank, dims, equal, data);
}

gale__node gale__g_splat(gale__g *g, gale_type type, int rank, const int64_t *dims, double value)
{
    uint64_t bits = gale__bits_of(type, value);
    return push_const(g, type, rank, dims, true, &bits);
}

gale__node gale__g_splat_i(gale__g *g, gale_type type, int rank, const int64_t *dims, int64_t value)
{
    if (gale__type_is_float(type)) return gale__g_splat(g, type, rank, dims, (double)value);
    uint64_t bits = 0;
    gale__store_i64(type, &bits, value);
    return push_const(g, type, rank, dims, true, &bits);
}

gale__node gale__g_scalar(gale__g *g, gale_type type, double value)
{
    return gale__g_splat(g, type, 0, NULL, value);
}

gale__node gale__g_like(gale__g *g, gale__node n, double value)
{
    if (!gale__g_ok(g, n)) return GALE__NIL;
    gale__pnode p = g->nodes[n];
    return gale__g_splat(g, p.type, p.rank, p.dims, value);
}

gale__node gale__g_respread(gale__g *g, gale__node n, int rank, const int64_t *dims)
{
    const gale__pnode *p = &g->nodes[n];
    return push_const(g, p->type, rank, dims, true, p->data);
}

gale__node gale__g_iota(gale__g *g, int rank, const int64_t *dims, int axis)
{
    if (!shape_ok(g, rank, dims)) return GALE__NIL;
    if (axis < 0 || axis >= rank) return gale__g_fail(g, GALE_INVALID, "iota: axis %d of a value of rank %d", axis, rank);
    if (dims[axis] == 1 || gale__count(rank, dims) == 0) return gale__g_splat(g, GALE_I64, rank, dims, 0);
    gale__draft d;
    gale__draft_init(&d, GALE__P_IOTA, GALE_I64, rank, dims);
    d.attr[0] = axis;
    d.node.n_attr = 1;
    return gale__g_push(g, &d.node);
}

/* --- What is known at plan time. --- */

uint64_t gale__bits_of(gale_type type, double value)
{
    uint64_t bits = 0;
    gale__store_f64(type, &bits, value);
    return bits;
}

bool gale__g_is_splat(const gale__g *g, gale__node n, double *value)
{
    const gale__pnode *p = &g->nodes[n];
    if (p->op != GALE__P_CONST || !p->splat) return false;
    *value = gale__load_f64(p->type, p->data);
    return true;
}

bool gale__g_is_value(const gale__g *g, gale__node n, double value)
{
    double v;
    return gale__g_is_splat(g, n, &v) && v == value;
}

gale_status gale__g_known(const gale__g *g, gale__node n, const gale__pnode **out)
{
    if (n < 0) return gale__fail(GALE_NOT_FOUND, "a value that must be known when planning is missing");
    if (g->nodes[n].op != GALE__P_CONST) return gale__fail(GALE_NOT_FOUND, "node %d is not known when planning", n);
    *out = &g->nodes[n];
    return GALE_OK;
}

gale_status gale__g_known_ints(gale__g *g, gale__node n, int64_t **out, int64_t *count)
{
    gale__node base = n >= 0 && g->nodes[n].op == GALE__P_EXPAND ? g->nodes[n].in[0] : n;
    const gale__pnode *p = NULL;
    GALE_TRY(gale__g_known(g, base, &p));
    if (base != n && !p->splat) return gale__fail(GALE_NOT_FOUND, "node %d is not known when planning", n);
    if (!gale__type_is_int(p->type) && p->type != GALE_BOOL) return gale__fail(GALE_INVALID, "whole numbers are wanted, not %s", gale_type_name(p->type));
    int64_t total = gale__g_elements(g, n), *values = gale__arena_alloc(&g->arena, (size_t)(total + 1) * sizeof *values);
    if (!values) return GALE_NO_MEMORY;
    size_t size = gale_type_size(p->type);
    for (int64_t i = 0; i < total; i++) values[i] = gale__load_i64(p->type, (const char *)p->data + (p->splat ? 0 : i * size));
    *out = values;
    *count = total;
    return GALE_OK;
}
