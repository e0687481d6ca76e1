/* The builder's core: nodes, hash-consing and folding.  A new node is compared with the existing ones by everything
 * that defines it, so that equal work is done once without a separate pass. */
#include "graph/build/build.h"
#include "base/hash.h"
#include "base/str.h"
#include "graph/reference/reference.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gale__prim_init(gale__prim_graph *g)
{
    memset(g, 0, sizeof *g);
    g->region = -1;
    g->seed = GALE__NIL;
    g->fold_max = GALE__FOLD_MAX;
}

void gale__prim_finish(gale__prim_graph *g)
{
    for (int32_t i = 0; i < g->count; i++) {
        gale__prim_loop_args *loop = g->nodes[i].loop;
        if (!loop || g->nodes[i].op != GALE__PRIM_LOOP) continue;
        gale__prim_finish(loop->body);
        gale__free(loop->body);
    }
    gale__free(g->nodes);
    gale__hash_table_finish(&g->table);
    gale__free(g->regions);
    gale__arena_finish(&g->arena);
    memset(g, 0, sizeof *g);
}

gale__node gale__prim_fail(gale__prim_graph *g, gale_status status, const char *format, ...)
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

int64_t gale__dims_count(int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= dims[d];
    return n;
}

int64_t gale__prim_elements(const gale__prim_graph *g, gale__node n)
{
    return gale__dims_count(g->nodes[n].rank, g->nodes[n].dims);
}

bool gale__prim_same_shape(const gale__prim_graph *g, gale__node a, gale__node b)
{
    const gale__prim_node *p = &g->nodes[a], *q = &g->nodes[b];
    return p->rank == q->rank && !memcmp(p->dims, q->dims, p->rank * sizeof *p->dims);
}

const char *gale__prim_shape_text(gale__prim_graph *g, gale__node n)
{
    const char *text = "";
    const gale__prim_node *p = &g->nodes[n];
    for (int d = 0; text && d < p->rank; d++)
        text = gale__arena_printf(&g->arena, "%s%s%lld", text, d ? ", " : "", (long long)p->dims[d]);
    text = text ? gale__arena_printf(&g->arena, "[%s]", text) : NULL;
    return text ? text : "[?]";
}

/* --- Hash-consing. --- */

static size_t data_bytes(const gale__prim_node *p)
{
    return gale_type_size(p->type) * (size_t)(p->splat ? 1 : gale__dims_count(p->rank, p->dims));
}

/* Large constants are borrowed, never read here, and equal only when they are the same memory. */
static bool data_is_small(const gale__prim_node *p) { return !p->tensor && data_bytes(p) <= GALE__SMALL_BYTES; }

static uint64_t hash_node(const gale__prim_node *p)
{
    enum { IN_HEAD = 3 }; /* operands hashed together with the head: all of them, for nearly all nodes */
    int64_t head[3 + GALE_MAX_RANK + IN_HEAD] = {
        p->op | p->type << 8 | p->rank << 16 | p->splat << 24, (int64_t)p->imm, (int64_t)(intptr_t)p->loop};
    int n = 3;
    for (int d = 0; d < p->rank; d++) head[n++] = p->dims[d];
    for (int i = 0; i < p->n_in && i < IN_HEAD; i++) head[n++] = p->in[i];
    uint64_t h = gale__hash(head, (size_t)n * sizeof *head, 17);
    if (p->n_in > IN_HEAD) h = gale__hash(p->in + IN_HEAD, (size_t)(p->n_in - IN_HEAD) * sizeof *p->in, h);
    if (p->n_attr) h = gale__hash(p->attr, p->n_attr * sizeof *p->attr, h);
    if (p->data) h = data_is_small(p) ? gale__hash(p->data, data_bytes(p), h) : gale__hash(&p->data, sizeof p->data, h);
    return h;
}

static bool same_node(const gale__prim_node *p, const gale__prim_node *q)
{
    if (p->op != q->op || p->type != q->type || p->rank != q->rank || p->splat != q->splat || p->imm != q->imm)
        return false;
    if (p->n_in != q->n_in || p->n_attr != q->n_attr || p->loop != q->loop || !p->data != !q->data) return false;
    if (memcmp(p->dims, q->dims, p->rank * sizeof *p->dims)) return false;
    if (p->n_in && memcmp(p->in, q->in, p->n_in * sizeof *p->in)) return false;
    if (p->n_attr && memcmp(p->attr, q->attr, p->n_attr * sizeof *p->attr)) return false;
    return p->data == q->data || (data_is_small(p) && !memcmp(p->data, q->data, data_bytes(p)));
}

static gale__node find_node(const gale__prim_graph *g, const gale__prim_node *p, uint64_t hash)
{
    gale__hash_table_probe probe = gale__hash_table_look(hash);
    for (int64_t i; (i = gale__hash_table_next(&g->table, &probe)) >= 0;)
        if (same_node(&g->nodes[i], p)) return (gale__node)i;
    return GALE__NIL;
}

gale_status gale__prim_reserve(gale__prim_graph *g, int32_t nodes)
{
    if (nodes > 0) GALE_TRY(gale__grow((void **)&g->nodes, &g->capacity, (size_t)nodes, sizeof *g->nodes));
    return gale__hash_table_reserve(&g->table, nodes > 0 ? (size_t)nodes : 0);
}

/* The failure has already been reported. */
static gale__node stop(gale__prim_graph *g, gale_status status)
{
    if (g->status == GALE_OK) g->status = status;
    return GALE__NIL;
}

static gale__node append(gale__prim_graph *g, const gale__prim_node *p)
{
    uint64_t hash = hash_node(p);
    gale__node known = find_node(g, p, hash);
    if (known >= 0) return known;
    gale__prim_node kept = *p;
    size_t need = (size_t)g->count + 1;
    if (gale__grow((void **)&g->nodes, &g->capacity, need, sizeof *g->nodes) != GALE_OK) return stop(g, GALE_NO_MEMORY);
    if (p->n_in) kept.in = gale__arena_copy(&g->arena, p->in, p->n_in * sizeof *p->in);
    if (p->n_attr) kept.attr = gale__arena_copy(&g->arena, p->attr, p->n_attr * sizeof *p->attr);
    if (p->data && data_is_small(p)) kept.data = gale__arena_copy(&g->arena, p->data, data_bytes(p));
    if ((p->n_in && !kept.in) || (p->n_attr && !kept.attr) || (p->data && !kept.data)) return stop(g, GALE_NO_MEMORY);
    gale_status status = gale__hash_table_add(&g->table, hash, (uint32_t)g->count);
    if (status != GALE_OK) return stop(g, status);
    g->nodes[g->count] = kept;
    return g->count++;
}

gale__node gale__prim_find(const gale__prim_graph *g, const gale__prim_node *node)
{
    return find_node(g, node, hash_node(node));
}

/* --- Folding. --- */

/* EXPAND is never folded: a materialised table of equal rows would only be slower to read. */
static bool is_constant(const gale__prim_graph *g, gale__node n)
{
    const gale__prim_node *p = &g->nodes[n];
    if (p->op == GALE__PRIM_EXPAND) p = &g->nodes[p->in[0]];
    return p->op == GALE__PRIM_CONST && (p->splat || p->data);
}

/* One axis has all elements: zero points, or weights of a single channel. */
static bool is_vector(const gale__prim_node *p)
{
    for (int d = 0; d < p->rank; d++)
        if (p->dims[d] == gale__dims_count(p->rank, p->dims)) return true;
    return false;
}

/* Constant matrices of f16 or bf16 are not widened, since matrix units multiply that type; nor are matrices of bytes if
 * the device multiplies bytes: on the CPU even few, since a convolution by these may have many places. */
static bool widens_matrix(const gale__prim_graph *g, const gale__prim_node *p)
{
    if (p->op != GALE__CAST || (p->type != GALE_F32 && p->type != GALE_I32) || p->rank < 2) return false;
    const gale__prim_node *from = &g->nodes[p->in[0]];
    if (g->integer_products && (from->type == GALE_I8 || from->type == GALE_U8) && !from->splat)
        return gale__dims_count(p->rank, p->dims) >= (is_vector(p) || g->zero_points_outside ? 256 : 16) &&
               (p->dims[1] > 1 || p->dims[p->rank - 1] > 1);
    return p->type == GALE_F32 && (from->type == GALE_F16 || from->type == GALE_BF16) && !from->splat &&
           gale__dims_count(p->rank, p->dims) >= 256;
}

static bool foldable(const gale__prim_graph *g, const gale__prim_node *p)
{
    if (!p->n_in || p->op == GALE__PRIM_EXPAND || p->op >= GALE__PRIM_LOOP || p->op == GALE__PRIM_INPUT) return false;
    if (gale__dims_count(p->rank, p->dims) > g->fold_max || widens_matrix(g, p)) return false;
    for (int i = 0; i < p->n_in; i++)
        if (!is_constant(g, p->in[i]) || gale__prim_elements(g, p->in[i]) > g->fold_max) return false;
    return true;
}

/* An element-wise operation on constants with equal elements yields such a constant, of any size. */
static bool all_splats(const gale__prim_graph *g, const gale__prim_node *p)
{
    if (p->op >= GALE__SCALAR_COUNT || !g->fold_max) return false;
    for (int i = 0; i < p->n_in; i++)
        if (!g->nodes[p->in[i]].splat) return false;
    return p->n_in > 0;
}

static gale__node fold(gale__prim_graph *g, const gale__prim_node *p, bool splat)
{
    gale__prim_node one = *p, value = {.op = GALE__PRIM_CONST,
                                  .type = p->type,
                                  .rank = p->rank,
                                  .splat = splat,
                                  .invariant = true,
                                  .region = -1};
    memcpy(value.dims, p->dims, sizeof value.dims);
    if (splat) one.rank = 0;
    const gale__prim_node *from = &g->nodes[p->in[0]];
    if (p->op == GALE__PRIM_RESHAPE && from->op == GALE__PRIM_CONST &&
        !from->splat) { /* the same elements in the same order */
        value.data = from->data;
        return append(g, &value);
    }
    void *data = NULL;
    gale_status status = gale__reference_fold(g, &one, &data);
    if (status != GALE_OK) {
        if (g->status == GALE_OK) g->status = status;
        return GALE__NIL;
    }
    value.data = data;
    if (p->type == GALE_BOOL &&
        !splat) { /* a condition that is the same everywhere becomes a splat, so that SELECTs on it fold */
        size_t count = (size_t)gale__dims_count(p->rank, p->dims);
        value.splat = count > 1 && !memcmp(data, (char *)data + 1, count - 1);
    }
    gale__node n = append(g, &value);
    gale__free(data);
    return n;
}

gale__node gale__prim_push(gale__prim_graph *g, const gale__prim_node *p)
{
    if (g->status != GALE_OK) return GALE__NIL;
    for (int i = 0; i < p->n_in; i++)
        if (p->in[i] < 0 || p->in[i] >= g->count) return gale__prim_fail(g, GALE_INVALID, "graph: missing operand");
    if (!gale__prim_shape_ok(g, p->rank, p->dims)) return GALE__NIL;
    /* A value without elements is the same, however it was computed. */
    if (p->n_in && p->op != GALE__PRIM_LOOP && gale__dims_count(p->rank, p->dims) == 0)
        return gale__prim_splat(g, p->type, p->rank, p->dims, 0);
    if (all_splats(g, p)) return fold(g, p, true);
    if (foldable(g, p)) return fold(g, p, false);
    gale__prim_node node = *p;
    node.region = g->region;
    node.invariant = p->op != GALE__PRIM_INPUT;
    for (int i = 0; i < p->n_in; i++) node.invariant = node.invariant && g->nodes[p->in[i]].invariant;
    return append(g, &node);
}

void gale__prim_draft_init(gale__prim_draft *d, int op, gale_type type, int rank, const int64_t *dims)
{
    memset(d, 0, sizeof *d);
    d->node.op = (uint8_t)op;
    d->node.type = (uint8_t)type;
    d->node.rank = (uint8_t)rank;
    if (rank) memcpy(d->node.dims, dims, rank * sizeof *dims);
    d->node.in = d->in;
    d->node.attr = d->attr;
}
