/* The table of fast paths, and what claims share. plan_routine.c turns claims into steps. */
#include "graph/plan/paths.h"
#include "graph/build/build.h"
#include "graph/fuse/map.h"
#include <string.h>

enum {
    HOST_FUNCTIONS = GALE__NEED_HOST_FUNCTIONS,
    KERNELS = GALE__NEED_KERNELS,
    I64 = GALE__NEED_I64,
    PRODUCTS = GALE__NEED_PRODUCTS,
    MATRIX = GALE__NEED_MATRIX,
    TOGETHER = GALE__NEED_TOGETHER,
};
#define HOST(function)   \
    {                    \
        .host = function \
    }
#define IR(routine)         \
    {                       \
        .kernels = &routine \
    }
#define CALL(function)   \
    {                    \
        .call = function \
    }
static const gale__fast_path paths[] = {
#define PATH(region, routine, needs, claim, run) {#region, routine, needs, claim, run},
#include "graph/plan/paths.def"
#undef PATH
    {0},
};

static uint32_t abilities(const gale_device_caps *caps)
{
    return (caps->host_functions ? HOST_FUNCTIONS : 0u) | (caps->dialect || caps->spirv ? KERNELS : 0u) |
           (caps->i64 ? I64 : 0u) | (caps->products_side ? PRODUCTS : 0u) |
           (caps->n_matrix || caps->matrix_emulated ? MATRIX : 0u) | (caps->groups_together ? TOGETHER : 0u);
}

const gale__fast_path *gale__fast_paths_at(int i)
{
    return i >= 0 && i < (int)(sizeof paths / sizeof *paths) - 1 ? &paths[i] : NULL;
}

int gale__fast_paths_first(const char *region)
{
    for (int i = 0; paths[i].region; i++)
        if (!strcmp(paths[i].region, region)) return i;
    return -1;
}

/* --- For claims. --- */

gale__prim_node gale__claim_node(const gale__claim *c, gale__node n)
{
    static const gale__prim_node nothing;
    return n < 0 ? nothing : *gale__prim_at(c->g, n);
}

double gale__claim_attr(const gale__claim *c, const char *name, double fallback)
{
    for (int i = 0; i < c->node->n_attrs; i++) {
        const gale_attr *a = &c->node->attrs[i];
        if (!strcmp(a->name, name))
            return a->kind == GALE_ATTR_INT ? (double)a->i : a->kind == GALE_ATTR_FLOAT ? a->f : fallback;
    }
    return fallback;
}

void *gale__claim_args(gale__claim *c, size_t bytes)
{
    void *args = bytes <= GALE__FAST_PATH_ARGS * sizeof(int64_t) ? gale__arena_alloc(&c->g->arena, bytes) : NULL;
    if (!args) c->g->status = GALE_NO_MEMORY;
    else memset(args, 0, bytes);
    c->args = args;
    c->n_args = (int)(bytes / sizeof(int64_t));
    return args;
}

bool gale__claim_operand(gale__claim *c, gale__node n)
{
    if (c->n_operands == GALE__FAST_PATH_OPERANDS) return false;
    c->operand[c->n_operands++] = n;
    return true;
}

static void dense_strides(const gale__prim_node *p, int64_t *stride)
{
    int64_t size = 1;
    for (int a = p->rank - 1; a >= 0; a--) {
        stride[a] = size;
        size *= p->dims[a];
    }
}

void gale__claim_view(const gale__claim *c, gale__node n, gale__node *base, int64_t *stride, int64_t *offset)
{
    const gale__prim_node *p = gale__prim_at(c->g, n);
    gale__map_domain domain = {.n = p->rank};
    gale__map maps[2];
    int dim[GALE_MAX_RANK + 1], at = 0, rank = p->rank;
    for (int a = 0; a <= rank; a++) dim[a] = a;
    memcpy(domain.extent, p->dims, (size_t)rank * sizeof *p->dims);
    gale__map_identity(&maps[0], &domain, rank, p->dims, dim);
    while (gale__prim_is_view(gale__prim_at(c->g, n)->op)) {
        bool guarded = false;
        gale__map_split split;
        if (gale__map_view(c->g, n, &domain, &maps[at], &maps[1 - at], &guarded, &split) != GALE__MAP_OK || guarded ||
            maps[1 - at].n_guards)
            break;
        at = 1 - at;
        n = gale__prim_at(c->g, n)->in[0];
    }
    int64_t dense[GALE_MAX_RANK];
    gale__nest_guard room[GALE__GUARDS];
    gale__nest_access access = {.guards = room};
    dense_strides(gale__prim_at(c->g, n), dense);
    gale__map_access(&maps[at], dense, &access);
    memcpy(stride, access.stride, (size_t)rank * sizeof *stride);
    *offset = access.offset;
    *base = n;
}

/* --- Claiming. --- */

static gale__node make_routine(const gale__claim *c, int row, int64_t total)
{
    gale__prim_node node = *gale__prim_at(c->g, c->out);
    if (c->together) {
        node.rank = 1;
        node.dims[0] = total;
    }
    if (c->turned) {
        node.dims[node.rank - 3] = node.dims[node.rank - 2];
        node.dims[node.rank - 2] = gale__prim_at(c->g, c->out)->dims[node.rank - 3];
    }
    int64_t attr[GALE__ROUTINE_ARGS + GALE__FAST_PATH_ARGS] = {row, (int64_t)c->scratch_bytes};
    memcpy(&attr[GALE__ROUTINE_OPERATIONS], &c->operations, sizeof c->operations);
    attr[GALE__ROUTINE_TRIPS] = c->trips;
    memcpy(&attr[GALE__ROUTINE_NS], c->ns, sizeof c->ns);
    memcpy(&attr[GALE__ROUTINE_ARGS], c->args, (size_t)c->n_args * sizeof *attr);
    node.op = GALE__PRIM_ROUTINE;
    node.splat = 0;
    node.imm = 0;
    node.data = NULL;
    node.loop = NULL;
    node.in = (gale__node *)c->operand; /* push copies it */
    node.n_in = c->n_operands;
    node.attr = attr;
    node.n_attr = GALE__ROUTINE_ARGS + c->n_args;
    return gale__prim_push(c->g, &node);
}

bool gale__fast_paths_layouts(const gale__prim_node *routine, double ns[2])
{
    if (routine->op != GALE__PRIM_ROUTINE) return false;
    memcpy(ns, &routine->attr[GALE__ROUTINE_NS], 2 * sizeof *ns);
    return ns[1] > 0;
}

static gale__node turn_back(const gale__claim *c, gale__node routine)
{
    int perm[GALE_MAX_RANK], rank = gale__claim_node(c, routine).rank;
    for (int d = 0; d < rank; d++) perm[d] = d;
    perm[rank - 3] = rank - 2, perm[rank - 2] = rank - 3;
    return gale__prim_permute(c->g, routine, perm);
}

/* The results of one routine, which follow one another. */
static void take_apart(const gale__claim *c, int row, gale__node *out)
{
    int64_t total = 0, from = 0;
    for (int i = 0; i < c->n_out; i++) total += out[i] >= 0 ? gale__prim_elements(c->g, out[i]) : 0;
    gale__node all = make_routine(c, row, total);
    for (int i = 0; i < c->n_out; i++) {
        if (out[i] < 0) continue;
        gale__prim_node p = *gale__prim_at(c->g, out[i]);
        int64_t n = gale__prim_elements(c->g, out[i]);
        out[i] = gale__prim_reshape(c->g, gale__prim_slice_axis(c->g, all, 0, from, n), p.rank, p.dims);
        from += n;
    }
}

gale_status gale__fast_paths_claim(
    gale__prim_graph *g, gale_device *device, const gale__op_node *node, const gale__node *in, gale__node *out)
{
    if (out[0] < 0 || gale__prim_at(g, out[0])->op == GALE__PRIM_CONST || gale__prim_elements(g, out[0]) == 0)
        return GALE_OK;
    uint32_t have = abilities(&device->info.caps);
    for (int i = node->path; paths[i].region && g->status == GALE_OK; i++) {
        if (strcmp(paths[i].region, node->name) || (paths[i].needs & ~have)) continue;
        gale__claim c = {
            .g = g, .device = device, .node = node, .in = in, .n_in = node->n_in, .out = out[0], .n_out = node->n_out};
        if (!paths[i].claim(&c)) continue;
        if (c.together) take_apart(&c, i, out);
        else out[0] = c.turned ? turn_back(&c, make_routine(&c, i, 0)) : make_routine(&c, i, 0);
        break;
    }
    return g->status;
}
