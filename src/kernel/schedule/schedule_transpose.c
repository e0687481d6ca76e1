/* TRANSPOSE: a map whose results run along the last dimension while some loads run along another one.  A group reads a
 * square tile of each such load in memory order, transposes it in work-group memory, and continues like a map. */
#include "kernel/schedule/schedule_emit.h"

#define THREADS 256
#define LEAST 16        /* extent of both dimensions that makes it worth while */
#define LEAST_ALL 16384 /* points */
#define LOADS 4         /* that can be transposed in one kernel */

static int dims_of(const gale__nest *nest) { return nest->n_outer + nest->n_inner; }
static bool runs_along(const gale__nest_access *a, int d) { return a->stride[d] == 1 || a->stride[d] == -1; }

/* The dimension a load runs along when that is not the last one; -1 else. */
static int turned_axis(const gale__nest *nest, const gale__nest_access *a)
{
    int last = dims_of(nest) - 1;
    if (runs_along(a, last) || !a->stride[last] || nest->extent[last] < LEAST) return -1;
    for (int d = 0; d < last; d++)
        if (runs_along(a, d) && nest->extent[d] >= LEAST) return d;
    return -1;
}

/* The transposed loads, all along the same axis. */
static int find_turned(const gale__nest *nest, int axis, int list[LOADS])
{
    int n = 0;
    for (int i = 0; i < nest->n_code && n < LOADS; i++)
        if (nest->code[i].op == GALE__NEST_LOAD && turned_axis(nest, &nest->accesses[nest->code[i].access]) == axis)
            list[n++] = i;
    return n;
}

bool gale__schedule_choose_transpose(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s)
{
    int axis = -1, list[LOADS], last = dims_of(nest) - 1;
    uint32_t size = 8, bytes = 0, shared = caps->shared_bytes ? caps->shared_bytes : 16384;
    if (last < 1 || gale__nest_count(nest, 0, last + 1) < LEAST_ALL || (caps->group_max && caps->group_max < THREADS))
        return false;
    for (int i = 0; i < nest->n_stores; i++)
        if (nest->stores[i].index >= 0 || nest->accesses[nest->stores[i].access].stride[last] != 1) return false;
    for (int i = 0; i < nest->n_code && axis < 0; i++)
        if (nest->code[i].op == GALE__NEST_LOAD) axis = turned_axis(nest, &nest->accesses[nest->code[i].access]);
    if (axis < 0) return false;
    int n = find_turned(nest, axis, list);
    for (int i = 0; i < n; i++) {
        const gale__nest_instr *in = &nest->code[list[i]];
        uint32_t stored = (uint32_t)gale_type_size(nest->accesses[in->access].type),
                 held = (uint32_t)gale_type_size(gale__compute_type((gale_type)in->type));
        if (stored < size) size = stored;
        bytes += held < 4 ? 4 : held;
    }
    /* Narrow elements need a larger tile for a row of it to fill a memory transaction. */
    uint32_t tile =
        size < 4 && 64 * 65 * bytes <= shared && nest->extent[axis] > 32 && nest->extent[last] > 32 ? 64 : 32;
    if (tile * (tile + 1) * bytes > shared) return false;
    s->kind = GALE__SCHEDULE_TRANSPOSE;
    s->axis = (uint8_t)axis;
    s->tile_m = s->tile_n = (uint8_t)tile;
    s->rows = THREADS;
    return true;
}

typedef struct transposer {
    gale__emit emit, loads; /* the map's lanes; those of the transposed loads */
    gale__ir_val coord[GALE__NEST_DIMS], origin[2];
    gale__ir_val across, along; /* thread in a tile: along the fast side, and the first of its rows */
    uint32_t tile, step;
} transposer;

static void place_group(transposer *t)
{
    gale__emit *e = &t->emit;
    gale__ir *ir = e->ir;
    int last = dims_of(e->nest) - 1;
    gale__ir_val group = gale__emit_widen(e, gale__emit_group(e)), row, column;
    gale__ir_val top = gale__ir_op2(ir, GALE__SUB, e->index, e->layout.outer_count, gale__emit_index(e, 1));
    group = gale__ir_op2(ir, GALE__IR_MIN, e->index, group, top);
    gale__emit_divmod(e, group, &e->layout.tiles_n, &group, &column);
    gale__emit_divmod(e, group, &e->layout.tiles_m, &group, &row);
    t->origin[0] = gale__emit_mul(e, row, gale__emit_index(e, t->tile));
    t->origin[1] = gale__emit_mul(e, column, gale__emit_index(e, t->tile));
    for (int d = last - 1; d >= 0; d--)
        if (d != e->schedule->axis) gale__emit_divmod(e, group, &e->layout.extent[d], &group, &t->coord[d]);
    t->along = gale__ir_op2(ir, GALE__IR_REM, GALE_U32, e->tid, gale__ir_u32(ir, t->tile));
    t->across = gale__ir_op2(ir, GALE__IR_DIV, GALE_U32, e->tid, gale__ir_u32(ir, t->tile));
}

/* A coordinate inside the tile, kept below the dimension's end; *valid tells whether it was. */
static gale__ir_val inside(transposer *t, int d, gale__ir_val origin, gale__ir_val step, gale__ir_val *valid)
{
    gale__emit *e = &t->emit;
    gale__ir_val at = gale__emit_add(e, origin, gale__emit_widen(e, step)), count = e->layout.extent[d].by;
    *valid = gale__ir_op2(e->ir, GALE__LT, GALE_BOOL, at, count);
    return gale__ir_op2(
        e->ir, GALE__IR_MIN, e->index, at, gale__ir_op2(e->ir, GALE__SUB, e->index, count, gale__emit_index(e, 1)));
}

/* transposed: threads run along the loads' axis, else along the last dimension. */
static void place_lanes(transposer *t, gale__emit *e, bool transposed)
{
    int last = dims_of(e->nest) - 1, axis = e->schedule->axis;
    for (int b = 0; b < e->outer_blocks; b++) {
        gale__ir_val row = gale__ir_op2(
                         e->ir, GALE__ADD, GALE_U32, t->across, gale__ir_u32(e->ir, (uint32_t)b * t->step)),
                     ok[2];
        t->coord[axis] = inside(t, axis, t->origin[0], transposed ? t->along : row, &ok[0]);
        t->coord[last] = inside(t, last, t->origin[1], transposed ? row : t->along, &ok[1]);
        e->outer_valid[b] = gale__emit_and(e, ok[0], ok[1]);
        gale__emit_outer_place(e, b, t->coord, last + 1);
    }
}

static void transpose_loads(transposer *t, const int *list, int n)
{
    gale__emit *e = &t->emit, *loads = &t->loads;
    gale__ir *ir = e->ir;
    gale__ir_val shared[LOADS], row = gale__ir_u32(ir, t->tile + 1);
    for (int i = 0; i < n; i++) {
        gale_type type = gale__compute_type((gale_type)e->nest->code[list[i]].type),
                  held = type == GALE_BOOL ? GALE_U32 : type;
        shared[i] = gale__ir_add(
            ir, (gale__ir_instr){.op = GALE__IR_SHARED, .type = (uint8_t)held, .imm = t->tile * (t->tile + 1)});
        gale__emit_instr(loads, list[i]);
        for (int b = 0; b < loads->outer_blocks; b++) {
            gale__ir_val at = gale__ir_op2(ir, GALE__ADD, GALE_U32, t->across, gale__ir_u32(ir, (uint32_t)b * t->step));
            at = gale__ir_op2(ir, GALE__ADD, GALE_U32, gale__ir_op2(ir, GALE__MUL, GALE_U32, at, row), t->along);
            gale__ir_val v = gale__emit_get(loads, list[i], b, 0);
            gale__ir_op3(
                ir, GALE__IR_SET, held, shared[i], at, type == held ? v : gale__ir_op1(ir, GALE__IR_CONVERT, held, v));
        }
    }
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER});
    for (int i = 0; i < n; i++) {
        gale_type type = gale__compute_type((gale_type)e->nest->code[list[i]].type),
                  held = type == GALE_BOOL ? GALE_U32 : type;
        for (int b = 0; b < e->outer_blocks; b++) {
            gale__ir_val at = gale__ir_op2(ir, GALE__ADD, GALE_U32, t->across, gale__ir_u32(ir, (uint32_t)b * t->step));
            at = gale__ir_op2(ir, GALE__ADD, GALE_U32, gale__ir_op2(ir, GALE__MUL, GALE_U32, t->along, row), at);
            gale__ir_val v = gale__ir_op2(ir, GALE__IR_GET, held, shared[i], at);
            e->val[list[i] * e->lanes + b] =
                type == held ? v : gale__ir_op2(ir, GALE__NE, GALE_BOOL, v, gale__ir_u32(ir, 0));
        }
        e->done[list[i]] = 1;
    }
}

gale_status gale__schedule_build_transpose(const gale__nest *nest, const gale__schedule *s, gale__ir *ir)
{
    gale_status status;
    int list[LOADS], n = find_turned(nest, s->axis, list);
    transposer *t = gale__calloc(1, sizeof *t);
    if (!t) return GALE_NO_MEMORY;
    t->tile = s->tile_m;
    t->step = THREADS / t->tile;
    t->emit.outer_blocks = t->loads.outer_blocks = (int)(t->tile / t->step);
    t->emit.outer_vector = t->emit.inner_blocks = t->emit.inner_vector = t->loads.outer_vector = t->loads.inner_blocks =
        t->loads.inner_vector = 1;
    GALE_GO(gale__emit_begin(&t->emit, nest, s, ir));
    t->loads.vector_dim = -1;
    GALE_GO(gale__emit_begin_within(&t->loads, &t->emit));
    place_group(t);
    place_lanes(t, &t->loads, true);
    transpose_loads(t, list, n);
    place_lanes(t, &t->emit, false);
    for (int i = 0; i < nest->n_code; i++) gale__emit_instr(&t->emit, i);
    for (int i = 0; i < nest->n_stores; i++) gale__emit_store(&t->emit, &nest->stores[i], 0);
done:
    gale__emit_end(&t->loads);
    gale__emit_end(&t->emit);
    gale__free(t);
    return status;
}
