/* Emits one root and everything fused into it as a loop nest: a recursive walk from the root to the values in memory,
 * in which each step has the affine map through which its value is read.  If a step cannot be fused, the value becomes
 * a separate root and is loaded; if a reshape needs a finer domain, the walk starts again with a dimension split. */
#include "graph/fuse/emitter.h"
#include <string.h>

int gale__fuse_emit_fail(gale__fuse_emitter *e, gale_status status)
{
    if (e->status == GALE_OK) e->status = status;
    return ERROR;
}

static void note_region(gale__fuse_emitter *e, const gale__prim_node *p)
{
    if (p->region < 0) return;
    int at = 0;
    while (at < e->n_regions && e->regions[at] != p->region) at++;
    if (at == e->n_regions && at < GALE__FUSED_REGIONS) e->regions[e->n_regions++] = p->region;
    const char *name = e->g->regions[p->region].name;
    for (int i = 0; i < e->n_names; i++)
        if (e->names[i] == name || strcmp(e->names[i], name) == 0) return;
    if (e->n_names < 6) e->names[e->n_names++] = name;
}

int gale__fuse_emit_append(gale__fuse_emitter *e, gale__nest_instr in, bool zero)
{
    if (e->n_code >= (int)(sizeof e->code / sizeof *e->code))
        return gale__fuse_emit_fail(e, gale__fail(GALE_LIMIT, "a fused kernel exceeds %d instructions", e->n_code));
    e->code[e->n_code] = in;
    e->zero[e->n_code] = zero;
    return e->n_code++;
}

static int remember(gale__fuse_emitter *e, gale__node n, const gale__map *m, int instr)
{
    if (instr >= 0 && e->n_memos < (int)(sizeof e->memos / sizeof *e->memos))
        e->memos[e->n_memos++] = (gale__fuse_memo){n, m, instr};
    return instr;
}

gale__map *gale__fuse_emit_map(gale__fuse_emitter *e)
{
    if (e->n_maps == e->n_made) {
        if (gale__grow((void **)&e->maps, &e->maps_capacity, (size_t)e->n_made + 1, sizeof *e->maps))
            return gale__fuse_emit_fail(e, GALE_NO_MEMORY), NULL;
        e->maps[e->n_made] = gale__arena_alloc(&e->scratch, sizeof(gale__map));
        if (!e->maps[e->n_made]) return gale__fuse_emit_fail(e, GALE_NO_MEMORY), NULL;
        e->n_made++;
    }
    return e->maps[e->n_maps++];
}

static int buffer_of(gale__fuse_emitter *e, gale__node base)
{
    for (int i = 0; i < e->n_buffers; i++)
        if (e->buffers[i] == base) return i;
    if (e->n_buffers == HARD_BUFFERS)
        return gale__fuse_emit_fail(
            e, gale__fail(GALE_LIMIT, "a fused kernel reads more than %d buffers", HARD_BUFFERS));
    e->buffers[e->n_buffers] = base;
    return e->n_buffers++;
}

static bool same_access(const gale__nest_access *a, const gale__nest_access *b)
{
    return a->buffer == b->buffer && a->offset == b->offset && a->type == b->type && a->n_guards == b->n_guards &&
           a->fill == b->fill && memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
           (a->n_guards == 0 || memcmp(a->guards, b->guards, (size_t)a->n_guards * sizeof *a->guards) == 0);
}

static int add_access(gale__fuse_emitter *e, const gale__nest_access *a)
{
    for (int i = 0; i < e->n_accesses; i++)
        if (same_access(&e->accesses[i], a)) return i;
    if (e->n_accesses >= MAX_CODE + 4 * MAX_RECURSION)
        return gale__fuse_emit_fail(e, gale__fail(GALE_LIMIT, "a fused kernel has too many memory accesses"));
    if (gale__grow((void **)&e->accesses, &e->accesses_capacity, (size_t)e->n_accesses + 1, sizeof *e->accesses) !=
        GALE_OK)
        return gale__fuse_emit_fail(e, GALE_NO_MEMORY);
    gale__nest_guard *room = a->n_guards ? e->guards[e->n_accesses] : NULL;
    if (a->n_guards && !room)
        room = e->guards[e->n_accesses] = gale__arena_alloc(&e->scratch, GALE__GUARDS * sizeof *room);
    if (a->n_guards && !room) return gale__fuse_emit_fail(e, GALE_NO_MEMORY);
    gale__nest_access_copy(&e->accesses[e->n_accesses], a, room);
    return e->n_accesses++;
}

/* Loads value n, which is in the memory of base (itself, or what it reshapes), through m. */
static int load_from(gale__fuse_emitter *e, gale__node base, gale__node n, const gale__map *m)
{
    int64_t strides[GALE_MAX_RANK];
    if (base == n) gale__fuse_root_strides(e->fusion, n, strides);
    else gale__fuse_reshaped_strides(e->fusion, base, n, strides);
    gale__nest_guard room[GALE__GUARDS];
    gale__nest_access access = {
        .buffer = buffer_of(e, base), .type = (gale_type)gale__prim_at(e->g, n)->type, .guards = room};
    if (access.buffer < 0) return ERROR;
    gale__map_access(m, strides, &access);
    int at = add_access(e, &access);
    if (at < 0) return ERROR;
    for (int i = 0; i < e->n_code; i++)
        if (e->code[i].op == GALE__NEST_LOAD && e->code[i].access == at) return i;
    return gale__fuse_emit_append(e,
        (gale__nest_instr){.op = GALE__NEST_LOAD, .type = access.type, .a = -1, .b = -1, .c = -1, .access = at}, true);
}

static int load(gale__fuse_emitter *e, gale__node n, const gale__map *m)
{
    return load_from(e, gale__fuse_base(e->fusion, n), n, m);
}

int gale__fuse_emit_const(gale__fuse_emitter *e, gale_type type, uint64_t bits)
{
    for (int i = 0; i < e->n_code; i++)
        if (e->code[i].op == GALE__NEST_CONST && e->code[i].type == type && e->code[i].imm == bits) return i;
    return gale__fuse_emit_append(e,
        (gale__nest_instr){.op = GALE__NEST_CONST, .type = type, .a = -1, .b = -1, .c = -1, .access = -1, .imm = bits},
        bits == 0);
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

static int emit_op(gale__fuse_emitter *e, int op, gale_type type, int a, int b, int c)
{
    if (a < 0) return a;
    bool zero = false;
    switch (op) {
    case GALE__MUL:
        zero = (e->zero[a] && (e->zero[b] || e->code[b].op == GALE__NEST_CONST)) ||
               (e->zero[b] && e->code[a].op == GALE__NEST_CONST);
        break;
    case GALE__ADD:
    case GALE__SUB: zero = e->zero[a] && e->zero[b]; break;
    case GALE__NEG:
    case GALE__ABS:
    case GALE__CAST: zero = e->zero[a]; break;
    default: break;
    }
    return gale__fuse_emit_append(
        e, (gale__nest_instr){.op = (uint8_t)op, .type = (uint8_t)type, .a = a, .b = b, .c = c, .access = -1}, zero);
}

static int emit_index(gale__fuse_emitter *e, const int64_t *coef, int n, int64_t c0)
{
    gale__nest_access access = {.buffer = -1, .type = GALE_I64, .offset = c0};
    memcpy(access.stride, coef, (size_t)n * sizeof *coef);
    int at = add_access(e, &access);
    if (at < 0) return ERROR;
    return gale__fuse_emit_append(e,
        (gale__nest_instr){.op = GALE__NEST_INDEX, .type = GALE_I64, .a = -1, .b = -1, .c = -1, .access = at}, false);
}

/* select(guards [from, ...) of m hold, value, fill). */
static int emit_guarded(gale__fuse_emitter *e, const gale__map *m, int from, int value, uint64_t fill_bits)
{
    gale_type type = (gale_type)e->code[value].type;
    int ok = -1;
    for (int i = from; i < m->n_guards; i++) {
        const gale__nest_guard *guard = &m->guards[i];
        int x = emit_index(e, guard->coef, m->n, guard->c0);
        int low = emit_op(e, GALE__GE, GALE_BOOL, x, gale__fuse_emit_const(e, GALE_I64, 0), -1);
        int high = emit_op(
            e, GALE__LT, GALE_BOOL, x, gale__fuse_emit_const(e, GALE_I64, (uint64_t)(guard->extent * guard->div)), -1);
        int both = emit_op(e, GALE__AND, GALE_BOOL, low, high, -1);
        if (guard->div > 1) {
            int rest = emit_op(e, GALE__REM, GALE_I64, x, gale__fuse_emit_const(e, GALE_I64, (uint64_t)guard->div), -1);
            both = emit_op(e, GALE__AND, GALE_BOOL, both,
                emit_op(e, GALE__EQ, GALE_BOOL, rest, gale__fuse_emit_const(e, GALE_I64, 0), -1), -1);
        }
        ok = ok < 0 ? both : emit_op(e, GALE__AND, GALE_BOOL, ok, both, -1);
        if (e->status != GALE_OK) return ERROR;
    }
    int fill = gale__fuse_emit_const(e, type, fill_bits);
    return fill < 0 ? ERROR
                    : gale__fuse_emit_append(e,
                          (gale__nest_instr){
                              .op = GALE__SELECT, .type = (uint8_t)type, .a = ok, .b = value, .c = fill, .access = -1},
                          fill_bits == 0 && from == 0);
}

static int emit_view(gale__fuse_emitter *e, gale__node n, const gale__map *m, bool sum_path)
{
    const gale__prim_node *p = gale__prim_at(e->g, n);
    gale__node base = gale__fuse_base(e->fusion, p->in[0]); /* of a reshape; n itself may be the root being written */
    int op = gale__prim_at(e->g, base)->op;
    bool stored = e->fusion->root[base] || op == GALE__PRIM_INPUT ||
                  (op == GALE__PRIM_CONST && !gale__prim_at(e->g, base)->splat);
    if (p->op == GALE__PRIM_RESHAPE && stored) return load_from(e, base, n, m);
    gale__map *inner = gale__fuse_emit_map(e);
    if (!inner) return ERROR;
    bool guarded;
    gale__map_result r = gale__map_view(e->g, n, &e->domain, m, inner, &guarded, &e->split);
    if (r == GALE__MAP_SPLIT && e->domain.n < GALE__NEST_DIMS - 2) return RESTART;
    if (r != GALE__MAP_OK) {
        /* Not affine: the input is materialised.  A reshape then only renames that memory. */
        if (p->op == GALE__PRIM_RESHAPE) return gale__fuse_make_root(e->fusion, base), load_from(e, base, n, m);
        if (n != e->root) return gale__fuse_make_root(e->fusion, n), load(e, n, m);
        return gale__fuse_emit_fail(e, gale__fail(GALE_LIMIT, "a view pads more than %d axes", GALE__GUARDS));
    }
    uint64_t fill = guarded && p->op != GALE__PRIM_UNWINDOW ? compute_bits((gale_type)p->type, &p->imm) : 0;
    /* Two sums cannot be merged across nonzero padding: the fill value would be counted once per term of the inner
     * sum. */
    int v = gale__fuse_emit_value(e, p->in[0], inner, sum_path && p->op != GALE__PRIM_EXPAND && fill == 0);
    if (v < 0 || !guarded) return v;
    if (fill == 0 && e->zero[v]) return v;
    gale__nest_instr *in = &e->code[v];
    if (in->op == GALE__NEST_LOAD && m->n_guards == 0 &&
        e->accesses[in->access].n_guards == inner->n_guards) { /* a separate load with this fill value */
        gale__nest_access access = e->accesses[in->access];
        access.fill = p->imm;
        int at = add_access(e, &access);
        return at < 0 ? ERROR
                      : gale__fuse_emit_append(e,
                            (gale__nest_instr){
                                .op = GALE__NEST_LOAD, .type = access.type, .a = -1, .b = -1, .c = -1, .access = at},
                            false);
    }
    return emit_guarded(e, inner, m->n_guards, v, fill);
}

static int64_t domain_size(const gale__fuse_emitter *e)
{
    int64_t size = 1;
    for (int d = 0; d < e->domain.n; d++) size *= e->domain.extent[d];
    return size;
}

/* Whether fusing n would recompute an expensive value many times. */
static bool too_dear(const gale__fuse_emitter *e, gale__node n)
{
    const gale__prim_node *p = gale__prim_at(e->g, n);
    if (e->n_code > MAX_CODE - 64 || e->n_buffers >= MAX_BUFFERS || e->depth > MAX_DEPTH ||
        e->recursion > MAX_RECURSION - 8)
        return true;
    if (e->fusion->over_reduce[n] || p->op >= GALE__SCALAR_COUNT) return false;
    bool heavy =
        gale__scalar_table[p->op].class_ == 'm' || p->op == GALE__DIV || p->op == GALE__SQRT || p->op == GALE__REM;
    int64_t own = gale__prim_elements(e->g, n);
    return heavy && own > 0 && domain_size(e) / own >= 8 && own > 1;
}

static int emit_scalar(gale__fuse_emitter *e, gale__node n, const gale__map *m)
{
    const gale__prim_node *p = gale__prim_at(e->g, n);
    int in[3] = {-1, -1, -1};
    int weight = p->n_in > 1 && gale__prim_at(e->g, p->in[1])->op != GALE__PRIM_CONST;
    e->depth += weight;
    for (int i = 0; i < p->n_in; i++) {
        in[i] = gale__fuse_emit_value(e, p->in[i], m, false);
        if (in[i] < 0) return in[i];
    }
    e->depth -= weight;
    return emit_op(e, p->op, (gale_type)p->type, in[0], in[1], in[2]);
}

static int emit_take(gale__fuse_emitter *e, gale__node n, const gale__map *m)
{
    const gale__prim_node *p = gale__prim_at(e->g, n);
    int index = gale__fuse_emit_value(e, p->in[1], m, false);
    if (index < 0) return index;
    gale__node base = gale__fuse_base(e->fusion, p->in[0]);
    gale__nest_access access = {.buffer = buffer_of(e, base), .type = (gale_type)p->type};
    if (access.buffer < 0) return ERROR;
    int at = add_access(e, &access);
    if (at < 0) return ERROR;
    return gale__fuse_emit_append(e,
        (gale__nest_instr){.op = GALE__NEST_TAKE,
            .type = p->type,
            .a = index,
            .b = -1,
            .c = -1,
            .access = at,
            .imm = (uint64_t)gale__prim_elements(e->g, p->in[0])},
        false);
}

int gale__fuse_emit_load_instead(gale__fuse_emitter *e, gale__node n, const gale__map *m)
{
    if (n == e->root) return gale__fuse_emit_fail(e, gale__fail(GALE_INTERNAL, "cannot plan a reduction"));
    gale__fuse_make_root(e->fusion, n);
    return load(e, n, m);
}

static int emit_iota(gale__fuse_emitter *e, gale__node n, const gale__map *m)
{
    const gale__map_axis *x = &m->axis[gale__prim_at(e->g, n)->attr[0]];
    if (x->div != 1) return gale__fuse_emit_load_instead(e, n, m);
    return emit_index(e, x->coef, m->n, x->c0);
}

static int emit_fresh(gale__fuse_emitter *e, gale__node n, const gale__map *m, bool sum_path)
{
    const gale__prim_node *p = gale__prim_at(e->g, n);
    if (p->op == GALE__PRIM_INPUT || (p->op == GALE__PRIM_CONST && !p->splat)) return load(e, n, m);
    if (e->fusion->root[n] && n != e->root && n != e->with) return load(e, n, m);
    note_region(e, p);
    if (p->op == GALE__PRIM_CONST)
        return gale__fuse_emit_const(e, (gale_type)p->type, compute_bits((gale_type)p->type, p->data));
    if (gale__prim_is_view(p->op)) return emit_view(e, n, m, sum_path);
    if (p->op == GALE__PRIM_REDUCE) return gale__fuse_emit_reduce(e, n, m, sum_path);
    if (p->op == GALE__PRIM_IOTA) return emit_iota(e, n, m);
    if (p->op == GALE__PRIM_COPY) return gale__fuse_emit_value(e, p->in[0], m, false);
    if (n != e->root && n != e->with && too_dear(e, n)) return gale__fuse_emit_load_instead(e, n, m);
    if (p->op == GALE__PRIM_TAKE) return emit_take(e, n, m);
    return emit_scalar(e, n, m);
}

int gale__fuse_emit_value(gale__fuse_emitter *e, gale__node n, const gale__map *m, bool sum_path)
{
    for (int i = 0; i < e->n_memos; i++)
        if (e->memos[i].node == n && gale__map_equal(e->memos[i].map, m)) return e->memos[i].instr;
    if (++e->recursion > MAX_RECURSION && n != e->root && !gale__prim_is_view(gale__prim_at(e->g, n)->op)) {
        e->recursion--;
        return remember(e, n, m, gale__fuse_emit_load_instead(e, n, m));
    }
    int instr = emit_fresh(e, n, m, sum_path);
    e->recursion--;
    return remember(e, n, m, instr);
}

/* The axes of what is written as dimensions of the domain. */
static bool set_domain(gale__fuse_emitter *e, int rank, const int64_t *dims, int *dim_of_axis)
{
    e->domain.n = 0;
    for (int a = 0; a < rank; a++) {
        dim_of_axis[a] = e->domain.n;
        if (dims[a] > 1 && !gale__fuse_emit_axis(e, a, dims[a], false)) return false;
    }
    dim_of_axis[rank] = e->domain.n;
    return true;
}

/* Total roll, by axis, between n and the first reduction that the kernel fuses below it; false if there is no such
 * reduction. */
static bool find_rolled(const gale__fuse_emitter *e, gale__node n, int64_t *shift, int *budget)
{
    const gale__prim_node *p = gale__prim_at(e->g, n);
    if (!e->fusion->over_reduce[n] && n != e->root) return false;
    if (--*budget < 0) return false;
    if (p->op == GALE__PRIM_ROLL) {
        shift[p->attr[0]] += p->attr[1];
        if (find_rolled(e, p->in[0], shift, budget)) return true;
        shift[p->attr[0]] -= p->attr[1];
        return false;
    }
    if (p->op >= GALE__SCALAR_COUNT && p->op != GALE__PRIM_COPY) return n != e->root;
    for (int i = 0; i < p->n_in; i++)
        if (find_rolled(e, p->in[i], shift, budget)) return true;
    return false;
}

/* A kernel that ends in ROLL iterates in the order of its input and wraps around when it stores.  So the fused
 * reduction keeps its own loops. */
static bool unroll(gale__fuse_emitter *e, gale__map *m)
{
    const gale__prim_node *r = gale__prim_at(e->g, e->root);
    int64_t shift[GALE_MAX_RANK] = {0};
    int budget = 64;
    if (!e->fusion->options.wraps || !find_rolled(e, e->root, shift, &budget)) return true;
    for (int a = 0; a < r->rank; a++)
        if (shift[a] && !gale__map_roll(m, &e->domain, a, r->dims[a], -shift[a])) return false;
    return true;
}

static void split_factor(gale__fuse_emitter *e)
{
    gale__fuse_factors *f = &e->factors[e->axis_of[e->split.dim]];
    int at = e->place_of[e->split.dim];
    memmove(&f->f[at + 1], &f->f[at], (size_t)(f->n - at) * sizeof *f->f);
    f->n++;
    f->f[at] /= e->split.inner;
    f->f[at + 1] = e->split.inner;
}

/* Adds the store of a root, or of one piece of a CONCAT at its place in the root (piece not NULL). */
static gale_status add_store(
    gale__fuse_emitter *e, gale__node root, const gale__map *m, const gale__fused_piece *piece, gale__nest_store *out)
{
    int64_t strides[GALE_MAX_RANK];
    gale__nest_guard room[GALE__GUARDS];
    gale__fuse_root_strides(e->fusion, root, strides);
    gale__nest_access access = {
        .buffer = buffer_of(e, root), .type = (gale_type)gale__prim_at(e->g, root)->type, .guards = room};
    if (access.buffer < 0) return e->status;
    gale__map_access(m, strides, &access);
    if (piece && piece->axis >= 0) access.offset += piece->offset * strides[piece->axis];
    *out = (gale__nest_store){out->value, add_access(e, &access), -1, 0};
    return out->access < 0 ? e->status : GALE_OK;
}

static gale_status emit_once(gale__fuse_emitter *e, const gale__fused_piece *piece, gale__fused *out, bool *restart)
{
    const gale__prim_node *p = gale__prim_at(e->g, piece->value), *r = gale__prim_at(e->g, e->root);
    int dim_of_axis[GALE_MAX_RANK + 1];
    int64_t dims[GALE_MAX_RANK];
    bool part = piece->value == e->root && piece->axis >= 0;
    memcpy(dims, p->dims, sizeof dims);
    if (part) dims[piece->axis] = piece->extent;
    if (!set_domain(e, p->rank, dims, dim_of_axis))
        return gale__fail(GALE_LIMIT, "a kernel needs more than %d dimensions", GALE__NEST_DIMS);
    gale__map *m = gale__fuse_emit_map(e);
    if (!m) return GALE_NO_MEMORY;
    gale__map_identity(m, &e->domain, p->rank, dims, dim_of_axis);
    if (part) m->axis[piece->axis].c0 = piece->offset;
    else if (piece->axis < 0 && !unroll(e, m)) return gale__fail(GALE_INTERNAL, "a rolled value cannot be planned");
    gale__nest_store stores[2];
    int n_stores = 1 + (e->with >= 0), v = 0;
    for (int i = 0; i < n_stores && v >= 0; i++)
        v = stores[i].value = gale__fuse_emit_value(e, i ? e->with : piece->value, m, false);
    *restart = v == RESTART;
    if (v == RESTART) return GALE_OK;
    if (v < 0) return e->status;
    for (int i = 0; i < n_stores; i++)
        GALE_TRY(add_store(e, i ? e->with : e->root, m, part ? NULL : piece, &stores[i]));
    note_region(e, r);
    return gale__fuse_emit_finish(e, stores, n_stores, out);
}

static void reset(gale__fuse_emitter *e, gale__fusion *f, gale__node root)
{
    e->fusion = f;
    e->g = f->g;
    e->root = root;
    e->with = f->with[root];
    e->n_added = e->n_maps = e->n_code = e->n_accesses = e->n_buffers = e->n_memos = e->depth = e->recursion =
        e->reducing = e->n_names = e->n_regions = 0;
    e->status = GALE_OK;
}

gale_status gale__fuse_emit(gale__fusion *f, gale__node root, const gale__fused_piece *piece, gale__fused *out)
{
    if (!f->emitter) f->emitter = gale__calloc(1, sizeof(gale__fuse_emitter));
    gale__fuse_emitter *e = f->emitter;
    if (!e) return GALE_NO_MEMORY;
    for (int i = 0; i < MAX_AXES; i++) e->factors[i].n = 0;
    gale_status status;
    bool restart;
    do {
        restart = false;
        reset(e, f, root);
        status = emit_once(e, piece, out, &restart);
        if (restart) split_factor(e);
    } while (restart && status == GALE_OK);
    out->root = root;
    out->also = e->with;
    if (status == GALE_OK) gale__nest_canonicalize(&out->nest);
    return status;
}

void gale__fuse_emitter_finish(gale__fusion *f)
{
    gale__fuse_emitter *e = f->emitter;
    if (!e) return;
    gale__arena_finish(&e->scratch);
    gale__free(e->maps);
    gale__free(e->accesses);
    gale__free(e);
    f->emitter = NULL;
}
