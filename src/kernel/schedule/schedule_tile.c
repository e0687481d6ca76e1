/* TILE: contractions.  A group computes a tile of the result; it walks k in steps of tile_k, each step's part of both
 * operands lying in work-group memory, and every thread keeps micro_m x micro_n sums in registers.  The operands' own
 * instructions run when a part is fetched, the instructions after the sum on the registers.  While one part is used the
 * next is fetched.  Several sets of threads may share each step along k: small tiles then have threads enough for large
 * parts in registers and long steps; their sums are added in the order of the sets. */
#include "kernel/schedule/schedule_emit.h"
#include "kernel/schedule/schedule_ir.h"

#define PAD 4 /* elements after each row of a part, so that its columns are in different banks */

int gale__schedule_tile_operand(const gale__schedule *s, const gale__contraction *c, int which)
{
    return (which == 0) != s->swap ? c->a : c->b;
}

char gale__schedule_tile_kind(const gale__schedule *s, int which) { return (which == 0) != s->swap ? 'M' : 'N'; }

static int last_of(const gale__nest *nest, const gale__contraction *c, char kind)
{
    int last = -1;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (c->kind[d] == kind) last = d;
    return last;
}

int gale__schedule_tile_vector_dim(
    const gale__nest *nest, const gale__schedule *s, const gale__contraction *c, int which)
{
    return last_of(nest, c, s->fast[which] ? 'K' : gale__schedule_tile_kind(s, which));
}

/* One operand on its way into work-group memory. */
typedef struct part {
    gale__emit emit;
    int which, operand;
    uint32_t size, per;      /* rows or columns of the tile; vectors along the fast direction */
    gale__ir_val first_k;    /* of this thread inside the part */
    gale__ir_val first_side; /* row or column of this thread inside the tile */
    uint32_t step_k, step_side;
    gale__ir_val staging[64]; /* variables */
    gale__ir_val shared;
} part;

typedef struct tile {
    gale__emit_tiling tiling;
    part parts[2];
    gale_type type;
    gale__ir_val sums[64];
    gale__ir_val set, thread; /* of this thread; its number in the set */
} tile;

void gale__emit_tile_coords(gale__emit_tiling *t, gale__ir_val linear, char kind, gale__ir_val *coord)
{
    const gale__nest *nest = t->emit.nest;
    int first = -1;
    for (int d = nest->n_outer + nest->n_inner - 1; d >= 0; d--)
        if (t->contraction.kind[d] == kind) first = d;
    for (int d = nest->n_outer + nest->n_inner - 1; d >= 0; d--) {
        if (t->contraction.kind[d] != kind) continue;
        coord[d] = linear;
        if (d != first) gale__emit_divmod(&t->emit, linear, &t->emit.layout.extent[d], &linear, &coord[d]);
    }
}

void gale__emit_tile_clear_coords(gale__emit_tiling *t, gale__ir_val *coord)
{
    for (int d = 0; d < GALE__NEST_DIMS; d++) coord[d] = t->zero;
    gale__emit_tile_coords(t, t->batch, 'B', coord);
}

void gale__emit_tile_place_group(gale__emit_tiling *t)
{
    gale__emit *e = &t->emit;
    gale__ir *ir = e->ir;
    gale__ir_val number = gale__emit_group(e);
    if (e->schedule->split > 1) number = op32(ir, GALE__IR_DIV, number, e->schedule->split);
    gale__ir_val group = gale__emit_widen(e, number);
    gale__ir_val top = gale__ir_op2(ir, GALE__SUB, e->index, e->layout.outer_count, gale__emit_index(e, 1));
    gale__emit_tile_place(t, gale__ir_op2(ir, GALE__IR_MIN, e->index, group, top));
}

void gale__emit_tile_place(gale__emit_tiling *t, gale__ir_val number)
{
    gale__emit *e = &t->emit;
    gale__ir_val row, column, rest;
    gale__emit_divmod(e, number, &e->layout.tiles_n, &rest, &column);
    gale__emit_divmod(e, rest, &e->layout.tiles_m, &t->batch, &row);
    t->origin[0] = gale__emit_mul(e, row, gale__emit_index(e, e->schedule->tile_m));
    t->origin[1] = gale__emit_mul(e, column, gale__emit_index(e, e->schedule->tile_n));
    t->zero = gale__emit_index(e, 0);
}

/* How a part is divided among the threads: neighbours in memory go to neighbouring threads. */
static gale_status begin_part(tile *t, int which)
{
    const gale__schedule *s = t->tiling.emit.schedule;
    part *p = &t->parts[which];
    uint32_t group[3], wide = s->wide[which];
    gale__schedule_group(s, group);
    p->which = which;
    p->operand = gale__schedule_tile_operand(s, &t->tiling.contraction, which);
    p->size = which ? s->tile_n : s->tile_m;
    p->emit.outer_blocks = p->emit.outer_vector = p->emit.inner_blocks = p->emit.inner_vector = 1;
    p->per = (s->fast[which] ? s->tile_k : p->size) / wide;
    uint32_t across = group[0] / p->per;
    if (s->fast[which]) {
        p->emit.inner_vector = (int)wide;
        p->step_side = across;
        p->emit.outer_blocks = (int)(p->size / across);
    } else {
        p->emit.outer_vector = (int)wide;
        p->step_k = across;
        p->emit.inner_blocks = (int)(s->tile_k / across);
    }
    GALE_TRY(gale__emit_begin_within(&p->emit, &t->tiling.emit));
    p->emit.vector_dim = gale__schedule_tile_vector_dim(t->tiling.emit.nest, s, &t->tiling.contraction, which);
    return GALE_OK;
}

void gale__nest_mark_cone(const gale__nest *nest, uint8_t *wanted)
{
    for (int i = nest->n_code - 1; i >= 0; i--) {
        const gale__nest_instr *in = &nest->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        if (!wanted[i] || in->op == GALE__NEST_REDUCE) continue;
        for (int k = 0; k < gale__nest_arity(in); k++) wanted[operand[k]] = 1;
    }
}

/* Rows or columns past the end repeat the last ones: their results are never stored. */
static void place_part(tile *t, part *p)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    uint32_t wide = s->wide[p->which];
    gale__ir_val along =
        gale__ir_op2(ir, GALE__MUL, GALE_U32, op32(ir, GALE__IR_REM, e->tid, p->per), gale__ir_u32(ir, wide));
    gale__ir_val across = op32(ir, GALE__IR_DIV, e->tid, p->per);
    p->first_k = s->fast[p->which] ? along : across;
    p->first_side = s->fast[p->which] ? across : along;
    uint32_t unit = s->fast[p->which] ? 1 : wide;
    gale__ir_val top =
        gale__ir_op2(ir, GALE__SUB, e->index, p->which ? e->layout.n : e->layout.m, gale__emit_index(e, unit));
    for (int b = 0; b < e->outer_blocks; b++) {
        gale__ir_val coord[GALE__NEST_DIMS], at = op32(ir, GALE__ADD, p->first_side, (uint32_t)b * p->step_side);
        at = gale__emit_add(e, t->tiling.origin[p->which], gale__emit_widen(e, at));
        gale__emit_tile_clear_coords(&t->tiling, coord);
        gale__emit_tile_coords(&t->tiling, gale__ir_op2(ir, GALE__IR_MIN, e->index, at, top),
            gale__schedule_tile_kind(s, p->which), coord);
        gale__emit_outer_place(e, b, coord, e->nest->n_outer);
    }
    e->wanted[p->operand] = 1;
    gale__nest_mark_cone(e->nest, e->wanted);
    for (int i = 0; i < e->nest->n_code; i++)
        if (e->wanted[i] && !e->nest->code[i].inner) gale__emit_instr(e, i);
    int lanes = e->outer_blocks * e->outer_vector * e->inner_blocks * e->inner_vector;
    for (int l = 0; l < lanes; l++)
        p->staging[l] = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = (uint8_t)t->type, .imm = 1});
    p->shared = gale__ir_add(
        ir, (gale__ir_instr){.op = GALE__IR_SHARED, .type = (uint8_t)t->type, .imm = s->tile_k * (p->size + PAD)});
}

/* The operand's values from k on, into the staging variables; what is past the end becomes 0 in both operands. */
static void fetch(tile *t, part *p, gale__ir_val k)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    gale__ir_val count = e->layout.inner_count, none = gale__ir_const(ir, t->type, 0), first = gale__ir_u32(ir, 0);
    uint32_t unit = (uint32_t)e->inner_vector;
    for (int b = 0; b < e->inner_blocks; b++) {
        gale__ir_val at =
            gale__ir_op2(ir, GALE__ADD, GALE_U32, k, op32(ir, GALE__ADD, p->first_k, (uint32_t)b * p->step_k));
        e->inner_valid[b] = 0;
        if (!e->schedule->exact) e->inner_valid[b] = gale__ir_op2(ir, GALE__LT, GALE_BOOL, at, count);
        at = gale__ir_op2(ir, GALE__IR_MIN, GALE_U32, at, op32(ir, GALE__SUB, count, unit));
        gale__emit_tile_coords(&t->tiling, gale__emit_widen(e, at), 'K', e->inner_coord[b]);
    }
    gale__emit_inner_cone(e);
    int n_inner = e->inner_blocks * e->inner_vector;
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o++)
        for (int i = 0; i < n_inner; i++) {
            gale__ir_val v = gale__emit_get(e, p->operand, o, i), valid = e->inner_valid[i / e->inner_vector];
            if (valid) v = gale__ir_op3(ir, GALE__SELECT, t->type, valid, v, none);
            gale__ir_op3(ir, GALE__IR_SET, t->type, p->staging[o * n_inner + i], first, v);
        }
}

/* Threads that fetched four neighbours along k store them in rows of their own, which are whole multiples of 16 bytes
 * apart: fours of every row are exchanged with others, so that neighbouring threads store in different banks. */
static bool exchanges(const tile *t, int which)
{
    const gale__schedule *s = t->tiling.emit.schedule;
    return s->fast[which] && s->wide[which] == 4 && s->tile_k >= 16 && gale_type_size(t->type) == 4;
}

/* Where row or column `side` lies in row k. */
static gale__ir_val exchanged(gale__ir *ir, gale__ir_val side, gale__ir_val k)
{
    return gale__ir_op2(ir, GALE__XOR, GALE_U32, side, op32(ir, GALE__AND, k, 28));
}

static gale__ir_val staged(tile *t, part *p, int lane)
{
    return gale__ir_op2(t->tiling.emit.ir, GALE__IR_GET, t->type, p->staging[lane], gale__ir_u32(t->tiling.emit.ir, 0));
}

/* Staging variables into work-group memory: [k][row or column]. */
static void deliver(tile *t, part *p)
{
    gale__emit *e = &p->emit;
    gale__ir *ir = e->ir;
    uint32_t row = p->size + PAD;
    gale__ir_val base = op32(ir, GALE__MUL, p->first_k, row);
    int n_inner = e->inner_blocks * e->inner_vector;
    int together = e->outer_vector == 4 && gale_type_size(t->type) == 4 ? 4 : 1;
    for (int o = 0; o < e->outer_blocks * e->outer_vector; o += together) {
        uint32_t further = (uint32_t)(o / e->outer_vector) * p->step_side + (uint32_t)(o % e->outer_vector);
        gale__ir_val side = op32(ir, GALE__ADD, p->first_side, further);
        if (exchanges(t, p->which)) side = exchanged(ir, side, p->first_k);
        gale__ir_val at = add32(ir, base, side);
        for (int i = 0; i < n_inner; i++) {
            uint32_t k = (uint32_t)(i / e->inner_vector) * p->step_k + (uint32_t)(i % e->inner_vector);
            gale__ir_val lanes[4];
            for (int v = 0; v < together; v++) lanes[v] = staged(t, p, (o + v) * n_inner + i);
            gale__ir_set_lanes(ir, p->shared, t->type, together, op32(ir, GALE__ADD, at, k * row), lanes);
        }
    }
}

/* Threads along a side of the tile, rows (0) or columns (1). */
static uint32_t threads_along(const gale__schedule *s, int which)
{
    return (uint32_t)(which ? s->tile_n / s->micro_n : s->tile_m / s->micro_m);
}

/* How many of a thread's rows or columns are neighbours: four, so that one instruction loads them from work-group
 * memory.  Columns only where one instruction stores them too, since threads then no longer write neighbours. */
static uint32_t neighbours(const tile *t, int which)
{
    const gale__schedule *s = t->tiling.emit.schedule;
    return gale_type_size(t->type) != 4 || (which && s->vector != 4) ? 1 : 4;
}

/* Row or column i of a thread, from its first one on. */
static uint32_t place_of(const tile *t, int which, uint32_t i)
{
    uint32_t together = neighbours(t, which);
    return i / together * threads_along(t->tiling.emit.schedule, which) * together + i % together;
}

/* A thread's rows or columns in row k, from `first` on. */
static void load_side(tile *t, int which, gale__ir_val k, gale__ir_val first, gale__ir_val *out)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    uint32_t together = neighbours(t, which), count = which ? s->micro_n : s->micro_m;
    gale__ir_val row = op32(ir, GALE__MUL, k, t->parts[which].size + PAD);
    for (uint32_t i = 0; i < count; i += together) {
        gale__ir_val side = op32(ir, GALE__ADD, first, place_of(t, which, i));
        if (exchanges(t, which)) side = exchanged(ir, side, k);
        gale__ir_get_lanes(ir, t->parts[which].shared, t->type, (int)together, add32(ir, row, side), out + i);
    }
}

static void multiply(tile *t, gale__ir_val ty, gale__ir_val tx)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    gale__ir_val x[16], y[16], zero = gale__ir_u32(ir, 0);
    uint32_t share = s->tile_k / s->steps;
    gale__ir_val k = loop(ir, share, 1, s->unroll);
    if (s->steps > 1) k = add32(ir, k, op32(ir, GALE__MUL, t->set, share));
    load_side(t, 0, k, ty, x);
    load_side(t, 1, k, tx, y);
    for (uint32_t i = 0; i < s->micro_m; i++)
        for (uint32_t j = 0; j < s->micro_n; j++) {
            gale__ir_val sum = t->sums[i * s->micro_n + j], old = gale__ir_op2(ir, GALE__IR_GET, t->type, sum, zero), v;
            if (gale__type_is_float(t->type)) v = gale__ir_op3(ir, GALE__FMA, t->type, x[i], y[j], old);
            else v = gale__ir_op2(ir, GALE__ADD, t->type, old, gale__ir_op2(ir, GALE__MUL, t->type, x[i], y[j]));
            gale__ir_op3(ir, GALE__IR_SET, t->type, sum, zero, v);
        }
    gale__emit_close(&t->tiling.emit);
}

static void walk_k(tile *t, gale__ir_val ty, gale__ir_val tx)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    gale__ir_val none = gale__ir_const(ir, t->type, 0), zero = gale__ir_u32(ir, 0);
    for (int i = 0; i < s->micro_m * s->micro_n; i++) {
        t->sums[i] = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = (uint8_t)t->type, .imm = 1});
        gale__ir_op3(ir, GALE__IR_SET, t->type, t->sums[i], zero, none);
    }
    for (int w = 0; w < 2; w++) fetch(t, &t->parts[w], zero);
    gale__ir_val k = gale__emit_for(&t->tiling.emit, t->tiling.emit.layout.inner_count, s->tile_k);
    for (int w = 0; w < 2; w++) deliver(t, &t->parts[w]);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER});
    for (int w = 0; w < 2; w++) fetch(t, &t->parts[w], op32(ir, GALE__ADD, k, s->tile_k));
    multiply(t, ty, tx);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER});
    gale__emit_close(&t->tiling.emit);
}

/* The sums of all sets, in the first one's variables. */
static void gather_sums(tile *t)
{
    gale__ir *ir = t->tiling.emit.ir;
    const gale__schedule *s = t->tiling.emit.schedule;
    uint32_t threads = threads_along(s, 0) * threads_along(s, 1), count = (uint32_t)s->micro_m * s->micro_n;
    gale__ir_val zero = gale__ir_u32(ir, 0), passed = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_SHARED,
                                                                           .type = (uint8_t)t->type,
                                                                           .imm = (uint64_t)threads * count});
    for (uint32_t from = 1; from < s->steps; from++) {
        gale__emit_if(&t->tiling.emit, gale__ir_op2(ir, GALE__EQ, GALE_BOOL, t->set, gale__ir_u32(ir, from)));
        for (uint32_t i = 0; i < count; i++)
            gale__ir_op3(ir, GALE__IR_SET, t->type, passed, op32(ir, GALE__ADD, t->thread, i * threads),
                gale__ir_op2(ir, GALE__IR_GET, t->type, t->sums[i], zero));
        gale__emit_close(&t->tiling.emit);
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER});
        gale__emit_if(&t->tiling.emit, gale__ir_op2(ir, GALE__EQ, GALE_BOOL, t->set, zero));
        for (uint32_t i = 0; i < count; i++) {
            gale__ir_val more =
                gale__ir_op2(ir, GALE__IR_GET, t->type, passed, op32(ir, GALE__ADD, t->thread, i * threads));
            gale__ir_val sum = gale__ir_op2(ir, GALE__IR_GET, t->type, t->sums[i], zero);
            gale__ir_op3(ir, GALE__IR_SET, t->type, t->sums[i], zero, gale__ir_op2(ir, GALE__ADD, t->type, sum, more));
        }
        gale__emit_close(&t->tiling.emit);
        gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER});
    }
}

/* sum of coef * coordinate over the dimensions of one kind; *walks: whether any of them counts. */
static gale__ir_val partial(
    tile *t, const gale__ir_val *coef, const int64_t *number, const gale__ir_val *coord, char kind, bool *walks)
{
    gale__ir_val sum = t->tiling.zero;
    *walks = false;
    for (int d = 0; d < t->tiling.emit.nest->n_outer; d++) {
        if (t->tiling.contraction.kind[d] != kind || !number[d]) continue;
        *walks = true;
        sum = gale__emit_add(&t->tiling.emit, sum, gale__emit_mul(&t->tiling.emit, coord[d], coef[d]));
    }
    return sum;
}

/* One affine form at all micro-tile points: what rows and columns add is computed once per row and once per column. */
static void place_form(tile *t, gale__ir_val start, const gale__ir_val *coef, const int64_t *number,
    gale__ir_val (*coord)[GALE__NEST_DIMS], gale__ir_val *out)
{
    gale__emit *e = &t->tiling.emit;
    int mm = e->schedule->micro_m, mn = e->schedule->micro_n / e->outer_vector;
    gale__ir_val rows[16], columns[16];
    bool by_batch, by_row = false, by_column = false;
    start = gale__emit_add(e, start, partial(t, coef, number, coord[0], 'B', &by_batch));
    for (int i = 0; i < mm; i++)
        rows[i] = partial(t, coef, number, coord[i], gale__schedule_tile_kind(e->schedule, 0), &by_row);
    for (int j = 0; j < mn; j++) {
        columns[j] = partial(t, coef, number, coord[16 + j], gale__schedule_tile_kind(e->schedule, 1), &by_column);
        columns[j] = by_column ? gale__emit_add(e, start, columns[j]) : start;
    }
    for (int i = 0; by_row && !by_column && i < mm; i++) rows[i] = gale__emit_add(e, start, rows[i]);
    for (int b = 0; b < mm * mn; b++) {
        gale__ir_val row = rows[b / mn], column = columns[b % mn];
        out[b] = !by_row ? column : by_column ? gale__emit_add(e, column, row) : row;
    }
}

/* The lanes of the result: blocks of neighbours along the columns. */
static void place_result(tile *t, gale__ir_val ty, gale__ir_val tx)
{
    gale__emit *e = &t->tiling.emit;
    gale__ir *ir = e->ir;
    const gale__schedule *s = e->schedule;
    int columns = s->micro_n / e->outer_vector;
    gale__ir_val coord[32][GALE__NEST_DIMS], valid[32];
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < (w ? columns : s->micro_m); i++) {
            uint32_t lanes = w ? (uint32_t)e->outer_vector : 1;
            gale__ir_val count = w ? e->layout.n : e->layout.m, *c = coord[16 * w + i];
            gale__ir_val at = op32(ir, GALE__ADD, w ? tx : ty, place_of(t, w, (uint32_t)i * lanes));
            at = gale__emit_add(e, t->tiling.origin[w], gale__emit_widen(e, at));
            valid[16 * w + i] = gale__ir_op2(ir, GALE__LT, GALE_BOOL, at, count);
            gale__ir_val top = gale__ir_op2(ir, GALE__SUB, e->index, count, gale__emit_index(e, lanes));
            at = gale__ir_op2(ir, GALE__IR_MIN, e->index, at, top);
            for (int d = 0; d < GALE__NEST_DIMS; d++) c[d] = t->tiling.zero;
            if (!w && !i) gale__emit_tile_coords(&t->tiling, t->tiling.batch, 'B', c);
            gale__emit_tile_coords(&t->tiling, at, gale__schedule_tile_kind(s, w), c);
        }
    for (int b = 0; b < e->outer_blocks; b++)
        e->outer_valid[b] = gale__emit_and(e, valid[b / columns], valid[16 + b % columns]);
    for (int i = 0; i < e->nest->n_accesses; i++) {
        const gale__nest_access *a = &e->nest->accesses[i];
        const gale__emit_access *v = &e->layout.access[i];
        place_form(t, v->offset, v->stride, a->stride, coord, e->base + i * e->outer_blocks);
        for (int g = 0; g < a->n_guards; g++)
            place_form(t, v->guard[g].c0, v->guard[g].coef, a->guards[g].coef, coord,
                e->guard_base + (i * GALE__GUARDS + g) * e->outer_blocks);
    }
}

static void emit_result(tile *t)
{
    gale__emit *e = &t->tiling.emit;
    gale__emit_acc sums[64];
    for (int i = 0; i < e->outer_blocks * e->outer_vector; i++)
        sums[i] = (gale__emit_acc){gale__ir_op2(e->ir, GALE__IR_GET, t->type, t->sums[i], gale__ir_u32(e->ir, 0)), 0};
    gale__emit_results(e, t->tiling.contraction.reduce, sums);
}

gale_status gale__schedule_build_tile(const gale__nest *nest, const gale__schedule *s, gale__ir *ir)
{
    gale_status status;
    tile *t = gale__calloc(1, sizeof *t);
    if (!t) return GALE_NO_MEMORY;
    t->tiling.emit.inner_blocks = t->tiling.emit.inner_vector = 1;
    t->tiling.emit.outer_vector = s->vector == 4 ? 4 : 1;
    t->tiling.emit.outer_blocks = s->micro_m * s->micro_n / t->tiling.emit.outer_vector;
    gale__nest_contraction(nest, &t->tiling.contraction);
    t->type = gale__emit_acc_type(nest, t->tiling.contraction.reduce);
    GALE_GO(gale__emit_begin(&t->tiling.emit, nest, s, ir));
    t->tiling.emit.vector_dim = last_of(nest, &t->tiling.contraction, gale__schedule_tile_kind(s, 1));
    gale__emit_tile_place_group(&t->tiling);
    for (int w = 0; w < 2; w++) {
        GALE_GO(begin_part(t, w));
        place_part(t, &t->parts[w]);
    }
    uint32_t across = threads_along(s, 1), threads = threads_along(s, 0) * across;
    t->thread = s->steps > 1 ? op32(ir, GALE__IR_REM, t->tiling.emit.tid, threads) : t->tiling.emit.tid;
    t->set = op32(ir, GALE__IR_DIV, t->tiling.emit.tid, threads);
    gale__ir_val ty = op32(ir, GALE__MUL, op32(ir, GALE__IR_DIV, t->thread, across), neighbours(t, 0)),
                 tx = op32(ir, GALE__MUL, op32(ir, GALE__IR_REM, t->thread, across), neighbours(t, 1));
    walk_k(t, ty, tx);
    if (s->steps > 1) {
        gather_sums(t);
        gale__emit_if(&t->tiling.emit, gale__ir_op2(ir, GALE__EQ, GALE_BOOL, t->set, gale__ir_u32(ir, 0)));
    }
    place_result(t, ty, tx);
    emit_result(t);
    if (s->steps > 1) gale__emit_close(&t->tiling.emit);
done:
    for (int w = 0; w < 2; w++) gale__emit_end(&t->parts[w].emit);
    gale__emit_end(&t->tiling.emit);
    gale__free(t);
    return status;
}
