/* WINDOW: sums over windows that overlap, as of depthwise convolutions and pooling.  A thread computes some neighbours
 * along the dimension that windows slide along, and takes a row of them at a time: what it loads serves all of its
 * results whose windows it is in (7 x 7 by channel, 16 pictures of 56 x 56 x 96 in
 * f16 on an H200: 39 us, and 118 with COLUMN). */
#include "kernel/ir/ir_util.h"
#include "kernel/schedule/schedule_emit.h"
#include <string.h>

/* --- the choice --- */

#define WINDOW_LONGEST 11
#define WINDOW_HOP 4
#define WINDOW_LANES 112 /* products of a thread and a row; more do not fit its registers */

/* The only reduction, of values that are loaded and computed; -1: there are others, or inner points are stored. */
static int only_reduction(const gale__nest *nest)
{
    int found = -1;
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        if (in->inner && in->op == GALE__NEST_TAKE) return -1;
        if (in->op != GALE__NEST_REDUCE) continue;
        if (found >= 0 || in->imm >= GALE__ARGMAX) return -1;
        found = i;
    }
    for (int i = 0; i < nest->n_stores; i++)
        if (nest->code[nest->stores[i].value].inner || nest->stores[i].index >= 0) return -1;
    return found;
}

/* Whether `hop` steps along the last inner dimension and `far` steps along an outer one move an access, and its guards,
 * by the same amount. */
static bool slides(const gale__nest *nest, const gale__nest_access *a, int axis, int64_t hop, int64_t far)
{
    int last = nest->n_outer + nest->n_inner - 1;
    if (a->stride[axis] * far != a->stride[last] * hop) return false;
    for (int g = 0; g < a->n_guards; g++) {
        const gale__nest_guard *guard = &a->guards[g];
        if (guard->coef[axis] * far != guard->coef[last] * hop) return false;
        if (guard->div != 1 && guard->coef[axis]) return false;
    }
    return true;
}

/* Whether every load slides along the axis or does not depend on it. */
static bool all_slide(const gale__nest *nest, int axis, int64_t hop, int64_t far)
{
    bool any = false;
    for (int i = 0; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        const gale__nest_access *a = &nest->accesses[in->access];
        bool load = in->op == GALE__NEST_LOAD;
        if ((!load && in->op != GALE__NEST_INDEX) || !in->inner || !gale__schedule_access_walks(a, axis)) continue;
        if (!a->stride[axis] || !slides(nest, a, axis, hop, far)) return false;
        any = any || load;
    }
    return any;
}

static bool find_axis(const gale__nest *nest, gale__schedule *s)
{
    for (int axis = nest->n_outer - 2; axis >= 0; axis--)
        for (int hop = 1; hop <= WINDOW_HOP; hop++)
            for (int far = 1; far <= WINDOW_HOP; far++) {
                if (nest->extent[axis] < 2 || !all_slide(nest, axis, hop, far)) continue;
                s->axis = (uint8_t)axis;
                s->micro_m = (uint8_t)hop;
                s->micro_n = (uint16_t)far;
                return true;
            }
    return false;
}

/* Threads that keep a unit busy: a thread that does more needs fewer others beside it. */
static int choose_steps(const gale__nest *nest, const gale_device_caps *caps, const gale__schedule *s, int64_t wide)
{
    int64_t points = gale__nest_count(nest, 0, nest->n_outer) / s->vector;
    int64_t units = caps->compute_units ? caps->compute_units : 1;
    if (s->micro_m >= wide * s->micro_n) return 0; /* they do not overlap */
    for (int steps = 4; steps >= 2; steps /= 2) {
        if (nest->extent[s->axis] < steps || steps * s->vector * wide > WINDOW_LANES) continue;
        if (points / steps >= units * 256) return steps;
    }
    return 0;
}

bool gale__schedule_choose_window(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s)
{
    int64_t wide = nest->n_inner ? nest->extent[nest->n_outer + nest->n_inner - 1] : 0;
    gale__schedule t = *s;
    if (wide < 2 || wide > WINDOW_LONGEST || nest->n_outer < 2 || nest->steady) return false;
    if (only_reduction(nest) < 0 || !find_axis(nest, &t)) return false;
    t.steps = (uint8_t)choose_steps(nest, caps, &t, wide);
    if (!t.steps) return false;
    t.kind = GALE__SCHEDULE_WINDOW;
    t.tile_k = (uint16_t)wide;
    *s = t;
    return true;
}

/* --- the kernel --- */

/* A thread past the end repeats the last results and stores nothing; the last ones along the axis may be computed
 * twice. */
static void place_results(gale__emit *e)
{
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    gale__ir_val group = gale__emit_widen(e, gale__emit_group(e)), coord[GALE__NEST_DIMS];
    gale__ir_val mine =
        gale__emit_add(e, gale__emit_mul(e, group, gale__emit_index(e, s->rows)), gale__emit_widen(e, e->tid));
    gale__ir_val top = gale__ir_op2(ir, GALE__SUB, e->index, e->layout.outer_count, gale__emit_index(e, 1));
    gale__ir_val valid = gale__ir_op2(ir, GALE__LE, GALE_BOOL, mine, top);
    gale__emit_coords(e, gale__ir_op2(ir, GALE__IR_MIN, e->index, mine, top), 0, e->nest->n_outer, coord);
    gale__ir_val first = gale__emit_mul(e, coord[s->axis], gale__emit_index(e, s->steps));
    first = gale__ir_op2(ir, GALE__IR_MIN, e->index, first, e->layout.points);
    for (int b = 0; b < s->steps; b++) {
        coord[s->axis] = gale__emit_add(e, first, gale__emit_index(e, (uint32_t)b));
        e->outer_valid[b] = valid;
        gale__emit_outer_place(e, b, coord, e->nest->n_outer);
    }
}

/* A row of the window: all points along the last inner dimension, the others at place `row`. */
static void place_row(gale__emit *e, gale__ir_val row)
{
    int from = e->nest->n_outer, last = from + e->nest->n_inner - 1;
    gale__ir_val coord[GALE__NEST_DIMS] = {0};
    gale__emit_coords(e, gale__emit_widen(e, row), from, last, coord);
    for (int b = 0; b < e->inner_blocks; b++) {
        memcpy(e->inner_coord[b], coord, sizeof coord);
        e->inner_coord[b][last] = gale__emit_index(e, (uint32_t)b);
    }
}

/* Sums of products of floats, which are added one by one. */
static bool adds_products(const gale__nest *nest, int r)
{
    const gale__nest_instr *reduce = &nest->code[r], *in = &nest->code[reduce->a];
    gale_type sum = gale__emit_acc_type(nest, r);
    return reduce->imm == GALE__SUM && in->op == GALE__MUL && gale__type_is_float(sum) &&
           gale__compute_type((gale_type)in->type) == sum && (gale_type)in->type == sum;
}

static void add_products(gale__emit *e, int r, const gale__emit_acc *variables)
{
    gale__ir *ir = e->ir;
    const gale__nest_instr *in = &e->nest->code[e->nest->code[r].a];
    gale_type type = gale__emit_acc_type(e->nest, r);
    gale__ir_val zero = gale__ir_u32(ir, 0);
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++) {
        gale__ir_val sum = gale__ir_op2(ir, GALE__IR_GET, type, variables[o].value, zero);
        for (int k = 0; k < e->inner_blocks; k++)
            sum =
                gale__ir_op3(ir, GALE__FMA, type, gale__emit_get(e, in->a, o, k), gale__emit_get(e, in->b, o, k), sum);
        gale__ir_op3(ir, GALE__IR_SET, type, variables[o].value, zero, sum);
    }
}

static void walk_rows(gale__emit *e, int r, gale__emit_acc *sums)
{
    gale__emit_acc variables[GALE__EMIT_LANES];
    const gale__nest_instr *in = &e->nest->code[e->nest->code[r].a];
    bool products = adds_products(e->nest, r);
    e->wanted[products ? in->a : e->nest->code[r].a] = 1;
    if (products) e->wanted[in->b] = 1;
    gale__nest_mark_cone(e->nest, e->wanted);
    for (int i = 0; i < e->nest->n_code; i++)
        if (e->wanted[i] && !e->nest->code[i].inner) gale__emit_instr(e, i);
    gale__emit_reduce_begin(e, r, variables);
    gale__ir_val row = gale__emit_for(e, e->layout.inner_count, 1);
    place_row(e, row);
    gale__emit_inner_cone(e);
    if (products) add_products(e, r, variables);
    else gale__emit_reduce_step(e, r, variables);
    gale__emit_close(e);
    gale__emit_reduce_read(e, r, variables, sums);
}

gale_status gale__schedule_build_window(const gale__nest *nest, const gale__schedule *s, gale__ir *ir)
{
    gale__emit e = {.outer_blocks = s->steps, .outer_vector = s->vector, .inner_blocks = s->tile_k, .inner_vector = 1};
    gale__emit_acc sums[GALE__EMIT_LANES];
    gale_status status = gale__emit_begin(&e, nest, s, ir);
    if (status == GALE_OK) {
        int r = only_reduction(nest);
        place_results(&e);
        walk_rows(&e, r, sums);
        memset(e.wanted, 0, (size_t)nest->n_code);
        gale__emit_results(&e, r, sums);
    }
    gale__emit_end(&e);
    return status;
}
