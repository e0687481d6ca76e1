/* One root and everything folded into it, as a loop nest.  A recursive walk from the root to what lies in memory, each step with
 * the affine map through which its value is read.  Where a step cannot be folded the value becomes a root of its own and is
 * loaded; where a reshape needs a finer domain the walk starts again with a dimension split. */
#include "graph/fuse.h"
#include <string.h>

enum { MAX_CODE = 400, MAX_BUFFERS = 16, MAX_DEPTH = 32, MAX_RECURSION = 400, HARD_BUFFERS = GALE__NEST_BUFFERS_MAX };
enum { RESTART = -2, ERROR = -1 };

typedef struct memo { gale__node node; const gale__map *map; int instr; } memo;

/* The dimensions an axis is split into; none: one dimension. */
typedef struct factors { int n; int64_t f[GALE__NEST_DIMS]; } factors;
enum { ADDED = GALE_MAX_RANK, MAX_AXES = GALE_MAX_RANK + GALE__NEST_DIMS };

typedef struct emitter {
    gale__fusion *f;
    const gale__g *g;
    gale__node root;
    gale__domain domain;
    int axis_of[GALE__NEST_DIMS], place_of[GALE__NEST_DIMS]; /* of each dimension: which factors it is one of */
    int n_added;               /* reduced axes that became dimensions of their own */
    gale__arena scratch;       /* holds maps[], which are used again for every kernel */
    gale__map **maps; size_t maps_capacity;
    int n_maps, n_made;
    gale__nest_instr code[MAX_CODE + 4 * MAX_RECURSION];
    uint8_t zero[MAX_CODE + 4 * MAX_RECURSION]; /* 0 wherever a guard of its map fails */
    int n_code;
    gale__access *accesses[MAX_CODE + 4 * MAX_RECURSION];
    int n_accesses;
    gale__node buffers[HARD_BUFFERS];
    int n_buffers;
    memo memos[MAX_CODE + 4 * MAX_RECURSION];
    int n_memos;
    int depth, recursion;
    gale__split split;
    gale_status status;
    const char *names[6];
    int n_names;
    factors factors[MAX_AXES]; /* by axis of the value, then by added axis; kept over restarts */
} emitter;

static int emit(emitter *e, gale__node n, const gale__map *m, bool sum_path);

static int fail(emitter *e, gale_status status)
{
    if (e->status == GALE_OK) e->status = status;
    return ERROR;
}

static void note_region(emitter *e, const gale__pnode *p)
{
    if (p->region < 0) return;
    const char *name = e->g->regions[p->region].name;
    for (int i = 0; i < e->n_names; i++) if (e->names[i] == name || strcmp(e->names[i], name) == 0) return;
    if (e->n_names < 6) e->names[e->n_names++] = name;
}

static int append(emitter *e, gale__nest_instr in, bool zero)
{
    if (e->n_code >= (int)(sizeof e->code / sizeof *e->code)) return fail(e, gale__fail(GALE_LIMIT, "a fused kernel grew past %d instructions", e->n_code));
    e->code[e->n_code] = in;
    e->zero[e->n_code] = zero;
    return e->n_code++;
}

static int remember(emitter *e, gale__node n, const gale__map *m, int instr)
{
    if (instr >= 0 && e->n_memos < (int)(sizeof e->memos / sizeof *e->memos)) e->memos[e->n_memos++] = (memo){n, m, instr};
    return instr;
}

static gale__map *new_map(emitter *e)
{
    if (e->n_maps == e->n_made) {
        if (gale__grow((void **)&e->maps, &e->maps_capacity, (size_t)e->n_made + 1, sizeof *e->maps)) return fail(e, GALE_NO_MEMORY), NULL;
        e->maps[e->n_made] = gale__arena_alloc(&e->scratch, sizeof(gale__map));
        if (!e->maps[e->n_made]) return fail(e, GALE_NO_MEMORY), NULL;
        e->n_made++;
    }
    return e->maps[e->n_maps++];
}

static int buffer_of(emitter *e, gale__node base)
{
    for (int i = 0; i < e->n_buffers; i++) if (e->buffers[i] == base) return i;
    if (e->n_buffers == HARD_BUFFERS) return fail(e, gale__fail(GALE_LIMIT, "a fused kernel reads more than %d buffers", HARD_BUFFERS));
    e->buffers[e->n_buffers] = base;
    return e->n_buffers++;
}

static bool same_access(const gale__access *a, const gale__access *b)
{
    return a->buffer == b->buffer && a->offset == b->offset && a->type == b->type && a->n_guards == b->n_guards && a->fill == b->fill &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0 && memcmp(a->guards, b->guards, (size_t)a->n_guards * sizeof *a->guards) == 0;
}

static int add_access(emitter *e, const gale__access *a)
{
    for (int i = 0; i < e->n_accesses; i++) if (same_access(e->accesses[i], a)) return i;
    if (e->n_accesses >= MAX_CODE + 4 * MAX_RECURSION) return fail(e, gale__fail(GALE_LIMIT, "a fused kernel has too many accesses"));
    gale__access *copy = gale__arena_alloc(&e->f->arena, sizeof *copy);
    if (!copy) return fail(e, GALE_NO_MEMORY);
    *copy = *a;
    e->accesses[e->n_accesses] = copy;
    return e->n_accesses++;
}

/* Loads value n, which lies in the memory of base (itself, or what it reshapes), through m. */
static int load_from(emitter *e, gale__node base, gale__node n, const gale__map *m)
{
    int64_t strides[GALE_MAX_RANK];
    if (base == n) gale__root_strides(e->f, n, strides);
    else {
        int64_t size = 1;
        for (int a = gale__g_at(e->g, n)->rank - 1; a >= 0; a--) strides[a] = size, size *= gale__g_at(e->g, n)->dims[a];
    }
    gale__access access;
    access.buffer = buffer_of(e, base);
    if (access.buffer < 0) return ERROR;
    access.type = gale__g_at(e->g, n)->type;
    access.fill = 0;
    gale__map_access(m, strides, &access);
    int at = add_access(e, &access);
    if (at < 0) return ERROR;
    for (int i = 0; i < e->n_code; i++) if (e->code[i].op == GALE__NEST_LOAD && e->code[i].access == at) return i;
    return append(e, (gale__nest_instr){.op = GALE__NEST_LOAD, .type = access.type, .a = -1, .b = -1, .c = -1, .access = at}, true);
}

static int load(emitter *e, gale__node n, const gale__map *m) { return load_from(e, gale__base(e->f, n), n, m); }

static int emit_const(emitter *e, gale_type type, uint64_t bits)
{
    for (int i = 0; i < e->n_code; i++)
        if (e->code[i].op == GALE__NEST_CONST && e->code[i].type == type && e->code[i].imm == bits) return i;
    return append(e, (gale__nest_instr){.op = GALE__NEST_CONST, .type = type, .a = -1, .b = -1, .c = -1, .access = -1, .imm = bits}, bits == 0);
}

/* The bits of a number in the compute type of `type`. */
static uint64_t compute_bits(gale_type type, const void *element)
{
    uint64_t bits = 0;
    gale_type compute = gale__compute_type(type);
    if (gale__type_is_float(compute)) gale__store_f64(compute, &bits, gale__load_f64(type, element));
    else gale__store_i64(compute, &bits, gale__load_i64(type, element));
    return bits;
}

static int emit_op(emitter *e, int op, gale_type type, int a, int b, int c)
{
    if (a < 0) return a;
    bool zero = false;
    switch (op) {
    case GALE__MUL:
        zero = (e->zero[a] && (e->zero[b] || e->code[b].op == GALE__NEST_CONST)) || (e->zero[b] && e->code[a].op == GALE__NEST_CONST);
        break;
    case GALE__ADD: case GALE__SUB: zero = e->zero[a] && e->zero[b]; break;
    case GALE__NEG: case GALE__ABS: case GALE__CAST: zero = e->zero[a]; break;
    default: break;
    }
    return append(e, (gale__nest_instr){.op = (uint8_t)op, .type = (uint8_t)type, .a = a, .b = b, .c = c, .access = -1}, zero);
}

static int emit_index(emitter *e, const int64_t *coef, int n, int64_t c0)
{
    gale__access access = {.buffer = -1, .type = GALE_I64, .offset = c0};
    memcpy(access.stride, coef, (size_t)n * sizeof *coef);
    int at = add_access(e, &access);
    if (at < 0) return ERROR;
    return append(e, (gale__nest_instr){.op = GALE__NEST_INDEX, .type = GALE_I64, .a = -1, .b = -1, .c = -1, .access = at}, false);
}

/* select(guards [from, ...) of m hold, value, fill). */
static int emit_guarded(emitter *e, const gale__map *m, int from, int value, uint64_t fill_bits)
{
    gale_type type = (gale_type)e->code[value].type;
    int ok = -1;
    for (int i = from; i < m->n_guards; i++) {
        const gale__guard *guard = &m->guards[i];
        int x = emit_index(e, guard->coef, m->n, guard->c0);
        int low = emit_op(e, GALE__GE, GALE_BOOL, x, emit_const(e, GALE_I64, 0), -1);
        int high = emit_op(e, GALE__LT, GALE_BOOL, x, emit_const(e, GALE_I64, (uint64_t)(guard->extent * guard->div)), -1);
        int both = emit_op(e, GALE__AND, GALE_BOOL, low, high, -1);
        if (guard->div > 1) {
            int rest = emit_op(e, GALE__REM, GALE_I64, x, emit_const(e, GALE_I64, (uint64_t)guard->div), -1);
            both = emit_op(e, GALE__AND, GALE_BOOL, both, emit_op(e, GALE__EQ, GALE_BOOL, rest, emit_const(e, GALE_I64, 0), -1), -1);
        }
        ok = ok < 0 ? both : emit_op(e, GALE__AND, GALE_BOOL, ok, both, -1);
        if (e->status != GALE_OK) return ERROR;
    }
    int fill = emit_const(e, type, fill_bits);
    return fill < 0 ? ERROR : append(e, (gale__nest_instr){.op = GALE__SELECT, .type = (uint8_t)type, .a = ok, .b = value, .c = fill, .access = -1}, fill_bits == 0 && from == 0);
}

static int emit_view(emitter *e, gale__node n, const gale__map *m, bool sum_path)
{
    const gale__pnode *p = gale__g_at(e->g, n);
    gale__node base = gale__base(e->f, p->in[0]); /* of a reshape; n itself may be the root being written */
    int op = gale__g_at(e->g, base)->op;
    bool stored = e->f->root[base] || op == GALE__P_INPUT || (op == GALE__P_CONST && !gale__g_at(e->g, base)->splat);
    if (p->op == GALE__P_RESHAPE && stored) return load_from(e, base, n, m);
    gale__map *inner = new_map(e);
    if (!inner) return ERROR;
    bool guarded;
    gale__map_result r = gale__map_view(e->g, n, &e->domain, m, inner, &guarded, &e->split);
    if (r == GALE__MAP_SPLIT && e->domain.n < GALE__NEST_DIMS - 2) return RESTART;
    if (r != GALE__MAP_OK) {
        /* Not affine: what is below goes to memory.  A reshape then only renames that memory. */
        if (p->op == GALE__P_RESHAPE) return gale__make_root(e->f, base), load_from(e, base, n, m);
        if (n != e->root) return gale__make_root(e->f, n), load(e, n, m);
        return fail(e, gale__fail(GALE_LIMIT, "one view pads more than %d axes", GALE__GUARDS));
    }
    int v = emit(e, p->in[0], inner, sum_path && p->op != GALE__P_EXPAND);
    if (v < 0 || !guarded) return v;
    uint64_t fill = compute_bits((gale_type)p->type, &p->imm);
    if (p->op == GALE__P_UNWINDOW) fill = 0;
    if (fill == 0 && e->zero[v]) return v;
    gale__nest_instr *in = &e->code[v];
    if (in->op == GALE__NEST_LOAD && m->n_guards == 0 && e->accesses[in->access]->n_guards == inner->n_guards) { /* a load of its own with this fill */
        gale__access access = *e->accesses[in->access];
        access.fill = p->imm;
        int at = add_access(e, &access);
        return at < 0 ? ERROR : append(e, (gale__nest_instr){.op = GALE__NEST_LOAD, .type = access.type, .a = -1, .b = -1, .c = -1, .access = at}, false);
    }
    return emit_guarded(e, inner, m->n_guards, v, fill);
}

static int64_t domain_size(const emitter *e)
{
    int64_t size = 1;
    for (int d = 0; d < e->domain.n; d++) size *= e->domain.extent[d];
    return size;
}

/* Folding would compute something dear many times over. */
static bool too_dear(const emitter *e, gale__node n)
{
    const gale__pnode *p = gale__g_at(e->g, n);
    if (e->n_code > MAX_CODE - 64 || e->n_buffers >= MAX_BUFFERS || e->depth > MAX_DEPTH || e->recursion > MAX_RECURSION - 8) return true;
    if (e->f->over_reduce[n] || p->op >= GALE__SCALAR_COUNT) return false;
    bool heavy = gale__scalar_table[p->op].class_ == 'm' || p->op == GALE__DIV || p->op == GALE__SQRT || p->op == GALE__REM;
    int64_t own = gale__g_elements(e->g, n);
    return heavy && own > 0 && domain_size(e) / own >= 8 && own > 1;
}

static int emit_scalar(emitter *e, gale__node n, const gale__map *m)
{
    const gale__pnode *p = gale__g_at(e->g, n);
    int in[3] = {-1, -1, -1};
    int weight = p->n_in > 1 && gale__g_at(e->g, p->in[1])->op != GALE__P_CONST;
    e->depth += weight;
    for (int i = 0; i < p->n_in; i++) {
        in[i] = emit(e, p->in[i], m, false);
        if (in[i] < 0) return in[i];
    }
    e->depth -= weight;
    return emit_op(e, p->op, (gale_type)p->type, in[0], in[1], in[2]);
}

static int emit_take(emitter *e, gale__node n, const gale__map *m)
{
    const gale__pnode *p = gale__g_at(e->g, n);
    int index = emit(e, p->in[1], m, false);
    if (index < 0) return index;
    gale__node base = gale__base(e->f, p->in[0]);
    gale__access access = {.buffer = buffer_of(e, base), .type = (gale_type)p->type};
    if (access.buffer < 0) return ERROR;
    int at = add_access(e, &access);
    if (at < 0) return ERROR;
    return append(e, (gale__nest_instr){.op = GALE__NEST_TAKE, .type = p->type, .a = index, .b = -1, .c = -1, .access = at, .imm = (uint64_t)gale__g_elements(e->g, p->in[0])}, false);
}

/* Value of a reduction over nothing. */
static int emit_identity(emitter *e, const gale__pnode *p)
{
    uint64_t bits = 0;
    gale_type compute = gale__compute_type((gale_type)p->type);
    double v = 0;
    if (p->attr[0] == GALE__PROD) v = 1;
    else if (p->attr[0] == GALE__RMAX) v = gale__type_is_float((gale_type)p->type) ? -__builtin_inf() : gale__type_min((gale_type)p->type);
    else if (p->attr[0] == GALE__RMIN) v = gale__type_is_float((gale_type)p->type) ? __builtin_inf() : gale__type_max((gale_type)p->type);
    gale__store_f64(compute, &bits, v);
    return emit_const(e, (gale_type)p->type, bits);
}

/* Reduced axes of extent > 1, in order. */
static int reduced_axes(const gale__pnode *in, int64_t mask, int *axes)
{
    int count = 0;
    for (int a = 0; a < in->rank; a++) if (mask >> a & 1 && in->dims[a] > 1) axes[count++] = a;
    return count;
}

/* Appends an axis of the domain as dimensions, one for each factor. */
static bool add_axis(emitter *e, int axis, int64_t extent, bool inner)
{
    factors *f = &e->factors[axis];
    int64_t product = 1;
    for (int i = 0; i < f->n; i++) product *= f->f[i];
    if (f->n == 0 || product != extent) *f = (factors){1, {extent}};
    if (e->domain.n + f->n > GALE__NEST_DIMS) return false;
    for (int i = 0; i < f->n; i++) {
        e->axis_of[e->domain.n] = axis;
        e->place_of[e->domain.n] = i;
        e->domain.extent[e->domain.n] = f->f[i];
        e->domain.inner[e->domain.n++] = inner;
    }
    return true;
}

/* dims[i] .. dims[i + 1]: places in list[] of the dimensions that walk reduced axis i. */
typedef struct walk { int list[GALE__NEST_DIMS]; int first[GALE_MAX_RANK + 1]; } walk;

static bool add_inner(emitter *e, const gale__pnode *in, const int *axes, int count, walk *w)
{
    int k = 0;
    for (int i = 0; i < count; i++) {
        w->first[i] = k;
        int from = e->domain.n;
        if (e->n_added == GALE__NEST_DIMS || !add_axis(e, ADDED + e->n_added, in->dims[axes[i]], true)) return false;
        e->n_added++;
        for (int d = from; d < e->domain.n; d++) w->list[k++] = d;
    }
    w->first[count] = k;
    return true;
}

/* The dimensions not walked outside, in order, must walk the reduced axes one after the other. */
static bool match_inner(const emitter *e, const gale__pnode *in, const int *axes, int count, const int *free_dims, int n_free, walk *w)
{
    int k = 0;
    for (int i = 0; i < count; i++) {
        int64_t product = 1;
        w->first[i] = k;
        while (product < in->dims[axes[i]]) {
            if (k == n_free) return false;
            product *= e->domain.extent[free_dims[k]];
            w->list[k] = free_dims[k];
            k++;
        }
        if (product != in->dims[axes[i]]) return false;
    }
    w->first[count] = k;
    return k == n_free;
}

/* Inner dimensions for the reduction: those the domain has already, or new ones. */
static bool inner_dims(emitter *e, gale__node n, const int *axes, int count, uint32_t walked, walk *w)
{
    const gale__pnode *in = gale__g_at(e->g, gale__g_at(e->g, n)->in[0]);
    int free_dims[GALE__NEST_DIMS], n_free = 0;
    bool all_inner = true, some_inner = false;
    int64_t inner_size = 1, outer_size = 1;
    for (int d = 0; d < e->domain.n; d++) {
        some_inner |= e->domain.inner[d];
        if (walked >> d & 1) {
            if (e->domain.inner[d]) return false; /* needs an inner dimension as an outer one */
            outer_size *= e->domain.extent[d];
        } else if (e->domain.extent[d] > 1) {
            free_dims[n_free++] = d;
            all_inner &= e->domain.inner[d];
            inner_size *= e->domain.extent[d];
        }
    }
    if (n_free == 0 && !some_inner) return add_inner(e, in, axes, count, w); /* the reduction is the whole kernel's */
    if (gale__is_contraction(e->g, n) || (some_inner && !all_inner)) return false;
    if (!some_inner && inner_size > 16384 && outer_size < 1024) return false; /* too few rows for one kernel */
    if (!match_inner(e, in, axes, count, free_dims, n_free, w)) return false;
    for (int i = 0; i < n_free; i++) e->domain.inner[free_dims[i]] = true;
    return true;
}

static const gale__map *reduce_map(emitter *e, const gale__pnode *in, const gale__map *m, int64_t mask, const int *axes, const walk *w, int count)
{
    gale__map *inner = new_map(e);
    if (!inner) return NULL;
    inner->rank = m->rank;
    inner->n = e->domain.n;
    inner->n_guards = m->n_guards;
    memcpy(inner->guards, m->guards, (size_t)m->n_guards * sizeof *m->guards);
    for (int a = 0; a < in->rank; a++) {
        memset(inner->axis[a].coef, 0, sizeof inner->axis[a].coef);
        inner->axis[a].c0 = m->axis[a].c0;
        inner->axis[a].div = m->axis[a].div;
        inner->axis[a].guard = m->axis[a].guard;
        for (int d = 0; d < m->n; d++) inner->axis[a].coef[d] = m->axis[a].coef[d];
        if (mask >> a & 1) memset(&inner->axis[a], 0, sizeof inner->axis[a]), inner->axis[a].div = 1, inner->axis[a].guard = -1;
    }
    for (int i = 0; i < count; i++) {
        int64_t weight = 1;
        for (int k = w->first[i + 1] - 1; k >= w->first[i]; k--) {
            inner->axis[axes[i]].coef[w->list[k]] = weight;
            weight *= e->domain.extent[w->list[k]];
        }
    }
    return inner;
}

static int load_instead(emitter *e, gale__node n, const gale__map *m)
{
    if (n == e->root) return fail(e, gale__fail(GALE_INTERNAL, "a reduction cannot be planned"));
    gale__make_root(e->f, n);
    return load(e, n, m);
}

/* One element only: its own sum, product, maximum; place 0. */
static int emit_reduce_one(emitter *e, const gale__pnode *p, const gale__pnode *in, const gale__map *m)
{
    if (p->attr[0] >= GALE__ARGMAX) return emit_const(e, GALE_I64, 0);
    const gale__map *inner = reduce_map(e, in, m, p->attr[1], NULL, NULL, 0);
    return inner ? emit(e, p->in[0], inner, false) : ERROR;
}

/* A sum read only through views by another sum: one sum over both. */
static int emit_merged_sum(emitter *e, gale__node n, const gale__map *m)
{
    const gale__pnode *p = gale__g_at(e->g, n), *in = gale__g_at(e->g, p->in[0]);
    int axes[GALE_MAX_RANK];
    walk w;
    int count = reduced_axes(in, p->attr[1], axes);
    if (!add_inner(e, in, axes, count, &w)) return load_instead(e, n, m);
    const gale__map *inner = reduce_map(e, in, m, p->attr[1], axes, &w, count);
    return inner ? emit(e, p->in[0], inner, true) : ERROR;
}

static int emit_reduce(emitter *e, gale__node n, const gale__map *m, bool sum_path)
{
    const gale__pnode *p = gale__g_at(e->g, n), *in = gale__g_at(e->g, p->in[0]);
    int axes[GALE_MAX_RANK];
    walk w;
    if (gale__g_elements(e->g, p->in[0]) == 0) return emit_identity(e, p);
    if (sum_path && p->attr[0] == GALE__SUM && n != e->root) return emit_merged_sum(e, n, m);
    int count = reduced_axes(in, p->attr[1], axes);
    uint32_t walked;
    if (n != e->root && e->f->emitted_in[n] >= 0 && e->f->emitted_in[n] != e->root) return load_instead(e, n, m);
    if (count == 0) return emit_reduce_one(e, p, in, m);
    if (!gale__map_dims(m, &e->domain, p->dims, &walked) || !inner_dims(e, n, axes, count, walked, &w)) return load_instead(e, n, m);
    e->f->emitted_in[n] = e->root;
    const gale__map *inner = reduce_map(e, in, m, p->attr[1], axes, &w, count);
    if (!inner) return ERROR;
    int v = emit(e, p->in[0], inner, p->attr[0] == GALE__SUM);
    if (v < 0) return v;
    return append(e, (gale__nest_instr){.op = GALE__NEST_REDUCE, .type = p->type, .acc = (uint8_t)p->attr[2], .a = v, .b = -1, .c = -1, .access = -1, .imm = (uint64_t)p->attr[0]}, false);
}

static int emit_iota(emitter *e, gale__node n, const gale__map *m)
{
    const gale__map_axis *x = &m->axis[gale__g_at(e->g, n)->attr[0]];
    if (x->div != 1) return load_instead(e, n, m);
    return emit_index(e, x->coef, m->n, x->c0);
}

static int emit_fresh(emitter *e, gale__node n, const gale__map *m, bool sum_path)
{
    const gale__pnode *p = gale__g_at(e->g, n);
    if (p->op == GALE__P_INPUT || (p->op == GALE__P_CONST && !p->splat)) return load(e, n, m);
    if (e->f->root[n] && n != e->root) return load(e, n, m);
    note_region(e, p);
    if (p->op == GALE__P_CONST) return emit_const(e, (gale_type)p->type, compute_bits((gale_type)p->type, p->data));
    if (gale__prim_is_view(p->op)) return emit_view(e, n, m, sum_path);
    if (p->op == GALE__P_REDUCE) return emit_reduce(e, n, m, sum_path);
    if (p->op == GALE__P_IOTA) return emit_iota(e, n, m);
    if (p->op == GALE__P_COPY) return emit(e, p->in[0], m, false);
    if (n != e->root && too_dear(e, n)) return load_instead(e, n, m);
    if (p->op == GALE__P_TAKE) return emit_take(e, n, m);
    return emit_scalar(e, n, m);
}

static int emit(emitter *e, gale__node n, const gale__map *m, bool sum_path)
{
    for (int i = 0; i < e->n_memos; i++)
        if (e->memos[i].node == n && gale__map_equal(e->memos[i].map, m)) return e->memos[i].instr;
    if (++e->recursion > MAX_RECURSION && n != e->root && !gale__prim_is_view(gale__g_at(e->g, n)->op)) {
        e->recursion--;
        return remember(e, n, m, load_instead(e, n, m));
    }
    int instr = emit_fresh(e, n, m, sum_path);
    e->recursion--;
    return remember(e, n, m, instr);
}

/* Which instructions vary along inner dimensions; a reduction's operand always counts as inner. */
static void find_inner(emitter *e)
{
    for (int i = 0; i < e->n_code; i++) {
        gale__nest_instr *in = &e->code[i];
        const int32_t ops[3] = {in->a, in->b, in->c};
        if (in->op == GALE__NEST_REDUCE) {
            in->inner = 0;
            continue;
        }
        for (int k = 0; k < 3; k++) if (ops[k] >= 0 && e->code[ops[k]].inner) in->inner = 1;
        if (in->access < 0) continue;
        const gale__access *a = e->accesses[in->access];
        for (int d = 0; d < e->domain.n; d++) {
            if (!e->domain.inner[d] || e->domain.extent[d] == 1) continue;
            if (a->stride[d] != 0) in->inner = 1;
            for (int k = 0; k < a->n_guards; k++) if (a->guards[k].coef[d] != 0) in->inner = 1;
        }
    }
}

/* Reductions of values that do not vary inside (a constant, say) take an inner copy of them. */
static gale_status copy_outer_operands(emitter *e, int *value)
{
    for (int i = 0; i < e->n_code; i++) {
        if (e->code[i].op != GALE__NEST_REDUCE || e->code[e->code[i].a].inner) continue;
        /* shift [i, n) up by one and put the copy at i */
        if (e->n_code >= (int)(sizeof e->code / sizeof *e->code)) return gale__fail(GALE_LIMIT, "a fused kernel grew past %d instructions", e->n_code);
        memmove(&e->code[i + 1], &e->code[i], (size_t)(e->n_code - i) * sizeof *e->code);
        e->n_code++;
        if (*value >= i) (*value)++;
        for (int k = i + 1; k < e->n_code; k++) {
            int32_t *ops[3] = {&e->code[k].a, &e->code[k].b, &e->code[k].c};
            for (int o = 0; o < 3; o++) if (*ops[o] >= i) (*ops[o])++;
        }
        int32_t operand = e->code[i + 1].a;
        e->code[i] = e->code[operand];
        if (e->code[operand].op == GALE__NEST_REDUCE) /* a reduced value reduced again: pass it through a no-op */
            e->code[i] = (gale__nest_instr){.op = GALE__CAST, .type = e->code[operand].type, .a = operand, .b = -1, .c = -1, .access = -1};
        e->code[i].inner = 1;
        e->code[i + 1].a = i;
        i++;
    }
    return GALE_OK;
}

static const char *join_names(emitter *e)
{
    gale__str s = {0};
    for (int i = e->n_names - 1; i >= 0; i--) {
        gale__str_add(&s, e->names[i]);
        if (i) gale__str_add(&s, "+");
    }
    const char *text = gale__arena_strdup(&e->f->arena, s.length ? gale__str_text(&s) : "Identity");
    gale__str_finish(&s);
    return text;
}

/* Outer dimensions first: permutes every coefficient. */
static void order_dims(emitter *e, gale__nest *nest)
{
    int order[GALE__NEST_DIMS], n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < e->domain.n; d++) if (e->domain.inner[d] == (pass == 1)) order[n++] = d;
        if (pass == 0) nest->n_outer = n;
    }
    nest->n_inner = n - nest->n_outer;
    bool same = true;
    for (int i = 0; i < n; i++) {
        nest->extent[i] = e->domain.extent[order[i]];
        same &= order[i] == i;
    }
    for (int i = 0; i < e->n_accesses && !same; i++) {
        gale__access *a = e->accesses[i], old = *a;
        for (int d = 0; d < n; d++) {
            a->stride[d] = old.stride[order[d]];
            for (int k = 0; k < a->n_guards; k++) a->guards[k].coef[d] = old.guards[k].coef[order[d]];
        }
    }
}

static gale_status finish_nest(emitter *e, int value, int store_access, gale__fused *out)
{
    gale__arena *a = &e->f->arena;
    gale__nest *nest = &out->nest;
    find_inner(e);
    GALE_TRY(copy_outer_operands(e, &value));
    order_dims(e, nest);
    nest->n_code = e->n_code;
    nest->code = gale__arena_copy(a, e->code, (size_t)e->n_code * sizeof *e->code);
    nest->n_accesses = e->n_accesses;
    nest->accesses = gale__arena_alloc(a, (size_t)(e->n_accesses + 1) * sizeof *nest->accesses);
    nest->n_stores = 1;
    nest->stores = gale__arena_alloc(a, sizeof *nest->stores);
    nest->n_buffers = e->n_buffers;
    nest->buffers = gale__arena_alloc(a, (size_t)e->n_buffers * sizeof *nest->buffers);
    out->buffers = gale__arena_copy(a, e->buffers, (size_t)e->n_buffers * sizeof *e->buffers);
    if (!nest->code || !nest->accesses || !nest->stores || !nest->buffers || !out->buffers) return GALE_NO_MEMORY;
    for (int i = 0; i < e->n_accesses; i++) nest->accesses[i] = *e->accesses[i];
    nest->stores[0] = (gale__nest_store){value, store_access, -1, 0};
    for (int i = 0; i < e->n_buffers; i++)
        nest->buffers[i] = (gale__nest_buffer){gale__root_elements(e->g, e->buffers[i]), (gale_type)gale__g_at(e->g, e->buffers[i])->type, i == nest->accesses[store_access].buffer};
    out->kind = GALE__K_NEST;
    out->op = join_names(e);
    return out->op ? GALE_OK : GALE_NO_MEMORY;
}

/* The axes of the value as dimensions of the domain. */
static bool set_domain(emitter *e, const gale__pnode *p, int *dim_of_axis)
{
    e->domain.n = 0;
    for (int a = 0; a < p->rank; a++) {
        dim_of_axis[a] = e->domain.n;
        if (p->dims[a] > 1 && !add_axis(e, a, p->dims[a], false)) return false;
    }
    dim_of_axis[p->rank] = e->domain.n;
    return true;
}

static void split_factor(emitter *e)
{
    factors *f = &e->factors[e->axis_of[e->split.dim]];
    int at = e->place_of[e->split.dim];
    memmove(&f->f[at + 1], &f->f[at], (size_t)(f->n - at) * sizeof *f->f);
    f->n++;
    f->f[at] /= e->split.inner;
    f->f[at + 1] = e->split.inner;
}

static gale_status emit_once(emitter *e, gale__node value, int axis, int64_t offset, gale__fused *out, bool *restart)
{
    const gale__pnode *p = gale__g_at(e->g, value), *r = gale__g_at(e->g, e->root);
    int dim_of_axis[GALE_MAX_RANK + 1];
    int64_t strides[GALE_MAX_RANK];
    if (!set_domain(e, p, dim_of_axis)) return gale__fail(GALE_LIMIT, "a kernel needs more than %d dimensions", GALE__NEST_DIMS);
    gale__map *m = new_map(e);
    if (!m) return GALE_NO_MEMORY;
    gale__map_identity(m, &e->domain, p->rank, p->dims, dim_of_axis);
    int v = emit(e, value, m, false);
    *restart = v == RESTART;
    if (v == RESTART) return GALE_OK;
    if (v < 0) return e->status;
    gale__root_strides(e->f, e->root, strides);
    gale__access access = {.buffer = buffer_of(e, e->root), .type = (gale_type)r->type};
    if (access.buffer < 0) return e->status;
    gale__map_access(m, strides, &access);
    access.offset += offset * (axis >= 0 ? strides[axis] : 0);
    int at = add_access(e, &access);
    if (at < 0) return e->status;
    note_region(e, r);
    return finish_nest(e, v, at, out);
}

static void reset(emitter *e, gale__fusion *f, gale__node root)
{
    e->f = f;
    e->g = f->g;
    e->root = root;
    e->n_added = e->n_maps = e->n_code = e->n_accesses = e->n_buffers = e->n_memos = e->depth = e->recursion = e->n_names = 0;
    e->status = GALE_OK;
}

gale_status gale__emit(gale__fusion *f, gale__node root, gale__node value, int axis, int64_t offset, gale__fused *out)
{
    if (!f->emitter) f->emitter = gale__calloc(1, sizeof(emitter));
    emitter *e = f->emitter;
    if (!e) return GALE_NO_MEMORY;
    for (int i = 0; i < MAX_AXES; i++) e->factors[i].n = 0;
    gale_status status;
    bool restart;
    do {
        restart = false;
        reset(e, f, root);
        status = emit_once(e, value, axis, offset, out, &restart);
        if (restart) split_factor(e);
    } while (restart && status == GALE_OK);
    out->root = root;
    if (status == GALE_OK) gale__nest_canonicalize(&out->nest);
    return status;
}

void gale__emitter_finish(gale__fusion *f)
{
    emitter *e = f->emitter;
    if (!e) return;
    gale__arena_finish(&e->scratch);
    gale__free(e->maps);
    gale__free(e);
    f->emitter = NULL;
}
