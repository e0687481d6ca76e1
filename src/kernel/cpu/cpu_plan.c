/* See cpu_plan.h. */
#include "kernel/cpu/cpu_plan.h"
#include <string.h>

#define KEEP_BYTES (256u << 10) /* cached rows of one task */
#define SHORT_ROW 1024          /* inner points, of which several rows may go into one block */

typedef struct maker {
    gale__cpu_plan *plan;
    const gale__nest *nest;
    gale__cpu_tape *tape;
    int phase[GALE__NEST_CODE_MAX];
    uint8_t needed[GALE__NEST_CODE_MAX]; /* by any store */
    uint8_t wanted[GALE__NEST_CODE_MAX]; /* by the body at hand */
    int outer[GALE__NEST_CODE_MAX];      /* registers of OUTER values; -1: none yet */
    int inner[GALE__NEST_CODE_MAX];      /* registers inside the body at hand */
    int cached[GALE__NEST_CODE_MAX];     /* row of the cache, -1: none */
    bool keep;
    gale__cpu_by_row by_row;
    int rows[GALE__NEST_CODE_MAX]; /* registers of values with a lane for each row */
    int spot[GALE__NEST_CODE_MAX]; /* the same of the sums of a spot's terms; -1: none */
} maker;

static int operand(const gale__nest_instr *in, int k) { return k == 0 ? in->a : k == 1 ? in->b : in->c; }

static bool is_inner(const maker *m, int i)
{
    return m->nest->code[i].inner && m->nest->code[i].op != GALE__NEST_REDUCE;
}

static int store_phase(const maker *m, const gale__nest_store *s)
{
    int p = m->phase[s->value];
    return s->index >= 0 && m->phase[s->index] > p ? m->phase[s->index] : p;
}

static bool store_is_inner(const maker *m, const gale__nest_store *s)
{
    return is_inner(m, s->value) || (s->index >= 0 && is_inner(m, s->index));
}

static gale_status find_phases(maker *m)
{
    for (int i = 0; i < m->nest->n_code; i++) {
        const gale__nest_instr *in = &m->nest->code[i];
        m->phase[i] = 0;
        for (int k = 0; k < gale__nest_arity(in); k++)
            if (m->phase[operand(in, k)] > m->phase[i]) m->phase[i] = m->phase[operand(in, k)];
        if (in->op == GALE__NEST_REDUCE) m->phase[i]++;
    }
    m->plan->n_phases = 1;
    for (int s = 0; s < m->nest->n_stores; s++) {
        const gale__nest_store *st = &m->nest->stores[s];
        m->needed[st->value] = 1;
        if (st->index >= 0) m->needed[st->index] = 1;
        if (store_phase(m, st) + 1 > m->plan->n_phases) m->plan->n_phases = store_phase(m, st) + 1;
    }
    for (int i = m->nest->n_code - 1; i >= 0; i--) {
        const gale__nest_instr *in = &m->nest->code[i];
        for (int k = 0; m->needed[i] && k < gale__nest_arity(in); k++) m->needed[operand(in, k)] = 1;
    }
    if (m->plan->n_phases <= GALE__CPU_PHASES) return GALE_OK;
    return gale__fail(GALE_LIMIT, "cpu kernel: %d dependent reductions, at most %d are supported; split the kernel",
        m->plan->n_phases - 1, GALE__CPU_PHASES - 1);
}

static void begin(maker *m, gale__cpu_section *s) { s->first = (int)m->tape->n_steps; }
static void end(maker *m, gale__cpu_section *s) { s->count = (int)m->tape->n_steps - s->first; }

uint64_t gale__cpu_neutral(gale__reduce kind, gale__simd_type ct)
{
    static const uint64_t one[GALE__SIMD_TYPE_COUNT] = {1, 1, 1, 1, 1, 0x3f800000, 0x3ff0000000000000};
    static const uint64_t low[GALE__SIMD_TYPE_COUNT] = {
        0, 0x80000000, 0, 0x8000000000000000, 0, 0xff800000, 0xfff0000000000000};
    static const uint64_t high[GALE__SIMD_TYPE_COUNT] = {
        1, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, UINT64_MAX, 0x7f800000, 0x7ff0000000000000};
    return kind == GALE__PROD ? one[ct] : kind == GALE__RMAX ? low[ct] : kind == GALE__RMIN ? high[ct] : 0;
}

static int size_log2(gale__simd_type ct)
{
    return gale__simd_type_size(ct) == 8 ? 3 : gale__simd_type_size(ct) == 4 ? 2 : 0;
}

static void fill_step(maker *m, int reg, gale__simd_type ct, uint64_t bits)
{
    gale__cpu_tape_step(m->tape, (gale__cpu_step){.kind = GALE__CPU_STEP_FILL,
                                     .size = (uint8_t)size_log2(ct),
                                     .d = reg,
                                     .a = -1,
                                     .b = -1,
                                     .c = -1,
                                     .imm = bits});
}

/* The value of a reduction from its accumulator. */
static void finish_reduce(maker *m, const gale__cpu_plan_reduce *r)
{
    gale_type type = (gale_type)m->nest->code[r->instr].type;
    bool arg = r->kind >= GALE__ARGMAX;
    int reg = gale__cpu_tape_convert(
        m->tape, arg ? r->index : r->total, arg ? GALE__SIMD_TYPE_I64 : r->type, gale__compute_type(type));
    gale__simd_fn *wrap = m->tape->simd->wrap[type];
    if (wrap) {
        int d = gale__cpu_tape_reg(m->tape, gale__simd_type_size(gale__simd_type_of(type)));
        gale__cpu_tape_step(
            m->tape, (gale__cpu_step){.kind = GALE__CPU_STEP_OP, .fn = wrap, .d = d, .a = reg, .b = -1, .c = -1});
        reg = d;
    }
    m->outer[r->instr] = reg;
}

static void op_step(maker *m, gale__simd_fn *fn, int d, int a, int b)
{
    gale__cpu_tape_step(
        m->tape, (gale__cpu_step){.kind = GALE__CPU_STEP_OP, .fn = fn, .d = d, .a = a, .b = b, .c = -1});
}

static void spread_step(maker *m, gale_type type, int d, int a)
{
    gale__simd_type ct = gale__simd_type_of(type);
    gale__cpu_tape_step(
        m->tape, (gale__cpu_step){
                     .kind = GALE__CPU_STEP_SPREAD, .size = (uint8_t)size_log2(ct), .d = d, .a = a, .b = -1, .c = -1});
}

/* Values of rows, and for each TAKE by rows the sum of its terms. */
static gale_status make_rows(maker *m)
{
    const gale__cpu_by_row *r = &m->by_row;
    m->plan->row = m->nest->extent[m->nest->n_outer - 1];
    m->tape->by_row = true;
    begin(m, &m->plan->rows);
    for (int i = 0; i < m->nest->n_code; i++)
        if (r->by_row[i]) GALE_TRY(gale__cpu_tape_emit(m->tape, i, m->rows));
    for (int i = 0; i < m->nest->n_code; i++) {
        m->spot[i] = -1;
        for (int k = 0; r->spot[i] && k < r->spot[i]->n_terms; k++) {
            int term = m->rows[r->spot[i]->terms[k]], sum = term;
            if (k > 0) {
                sum = gale__cpu_tape_reg(m->tape, 8);
                op_step(m, m->tape->simd->op[GALE__ADD][GALE__SIMD_TYPE_I64], sum, m->spot[i], term);
            }
            m->spot[i] = sum;
        }
    }
    end(m, &m->plan->rows);
    return GALE_OK;
}

static gale_status make_lanes(maker *m, int i)
{
    const gale__cpu_by_row *r = &m->by_row;
    gale_type type = (gale_type)m->nest->code[i].type;
    if (!r->any) return gale__cpu_tape_emit(m->tape, i, m->outer);
    if (r->spread[i]) {
        m->outer[i] = gale__cpu_tape_reg(m->tape, gale__simd_type_size(gale__simd_type_of(type)));
        spread_step(m, type, m->outer[i], m->rows[i]);
    } else if (r->spot[i]) {
        m->plan->takes_rows = true;
        gale__cpu_tape_emit_take_rows(m->tape, i, r->spot[i], m->spot[i], m->outer);
    } else if (r->by_lane[i]) {
        return gale__cpu_tape_emit(m->tape, i, m->outer);
    }
    return GALE_OK;
}

static gale_status make_outer(maker *m, int p, gale__cpu_phase *ph)
{
    begin(m, &ph->outer);
    for (int r = 0; r < m->plan->n_reduces; r++)
        if (m->plan->reduces[r].phase + 1 == p) finish_reduce(m, &m->plan->reduces[r]);
    for (int i = 0; i < m->nest->n_code; i++) {
        const gale__nest_instr *in = &m->nest->code[i];
        if (!m->needed[i] || m->phase[i] != p || in->op == GALE__NEST_REDUCE || is_inner(m, i)) continue;
        GALE_TRY(make_lanes(m, i));
    }
    end(m, &ph->outer);
    begin(m, &ph->put);
    for (int s = 0; s < m->nest->n_stores; s++)
        if (!store_is_inner(m, &m->nest->stores[s]) && store_phase(m, &m->nest->stores[s]) == p)
            gale__cpu_tape_emit_store(m->tape, &m->nest->stores[s], m->outer);
    end(m, &ph->put);
    /* A map is one section, so that its last operation may write to memory. */
    if (ph->outer.count && ph->put.count == 1 && !m->plan->n_reduces) {
        ph->outer.count += ph->put.count;
        ph->put = (gale__cpu_section){ph->outer.first + ph->outer.count, 0};
    }
    return GALE_OK;
}

/* Worth keeping for a later phase rather than computing again: mathematics, indirection, or a long chain. */
static bool is_dear(const maker *m, int i)
{
    uint8_t seen[GALE__NEST_CODE_MAX] = {0};
    int cost = 0;
    seen[i] = 1;
    for (int j = i; j >= 0; j--) {
        const gale__nest_instr *in = &m->nest->code[j];
        if (!seen[j] || !is_inner(m, j)) continue;
        if (in->op == GALE__NEST_TAKE || (in->op < GALE__SCALAR_COUNT && gale__scalar_table[in->op].class_ == 'm'))
            return true;
        cost++;
        for (int k = 0; k < gale__nest_arity(in); k++) seen[operand(in, k)] = 1;
    }
    return cost > 6;
}

/* Marks what the body of phase p must compute; values of earlier phases that are kept are read from the cache. */
static void find_wanted(maker *m, int p)
{
    memset(m->wanted, 0, sizeof m->wanted);
    for (int i = 0; i < m->nest->n_code; i++)
        if (m->needed[i] && m->nest->code[i].op == GALE__NEST_REDUCE && m->phase[i] == p + 1)
            m->wanted[m->nest->code[i].a] = 1;
    for (int s = 0; s < m->nest->n_stores; s++) {
        const gale__nest_store *st = &m->nest->stores[s];
        if (!store_is_inner(m, st) || store_phase(m, st) != p) continue;
        m->wanted[st->value] = 1;
        if (st->index >= 0) m->wanted[st->index] = 1;
    }
    for (int i = m->nest->n_code - 1; i >= 0; i--) {
        const gale__nest_instr *in = &m->nest->code[i];
        if (!m->wanted[i] || !is_inner(m, i) || (m->cached[i] >= 0 && m->phase[i] < p)) continue;
        for (int k = 0; k < gale__nest_arity(in); k++) m->wanted[operand(in, k)] = 1;
    }
}

/* Before any body is made: which values a later body wants though an earlier one has computed them. */
static void find_cached(maker *m)
{
    uint8_t computed[GALE__NEST_CODE_MAX] = {0};
    for (int i = 0; i < m->nest->n_code; i++) m->cached[i] = -1;
    for (int p = 0; m->keep && p < m->plan->n_phases; p++) {
        find_wanted(m, p);
        for (int i = 0; i < m->nest->n_code; i++) {
            if (!m->wanted[i] || !is_inner(m, i) || m->phase[i] >= p || !computed[i] || m->cached[i] >= 0) continue;
            bool frontier = false; /* read by something of this phase, not only on the way to it */
            for (int j = i + 1; j < m->nest->n_code && !frontier; j++)
                for (int k = 0; k < gale__nest_arity(&m->nest->code[j]); k++)
                    frontier |= m->wanted[j] && operand(&m->nest->code[j], k) == i &&
                                (m->phase[j] >= p || m->nest->code[j].op == GALE__NEST_REDUCE);
            if (frontier && is_dear(m, i)) m->cached[i] = m->tape->n_cached++;
        }
        find_wanted(m, p);
        for (int i = 0; i < m->nest->n_code; i++) computed[i] |= m->wanted[i] && is_inner(m, i) && m->phase[i] == p;
    }
}

static void begin_reduces(maker *m, int p)
{
    for (int k = 0; k < m->plan->n_reduces; k++) {
        gale__cpu_plan_reduce *r = &m->plan->reduces[k];
        if (r->phase != p) continue;
        bool arg = r->kind >= GALE__ARGMAX;
        r->acc = r->total = gale__cpu_tape_reg(m->tape, gale__simd_type_size(r->type));
        fill_step(m, r->acc, r->type, gale__cpu_neutral(r->kind, r->type));
        if (arg) {
            r->index = gale__cpu_tape_reg(m->tape, 8);
            fill_step(m, r->index, GALE__SIMD_TYPE_I64, (uint64_t)-1);
        } else if (r->kind == GALE__SUM && r->type >= GALE__SIMD_TYPE_F32) {
            r->total = gale__cpu_tape_reg(m->tape, gale__simd_type_size(r->type));
            fill_step(m, r->total, r->type, 0);
        }
    }
}

static void feed_reduce(maker *m, const gale__cpu_plan_reduce *r)
{
    static const int ops[4] = {GALE__ADD, GALE__MUL, GALE__MAX, GALE__MIN};
    const gale__nest_instr *in = &m->nest->code[r->instr];
    const gale__simd *simd = m->tape->simd;
    gale__simd_type from = gale__simd_type_of((gale_type)m->nest->code[in->a].type);
    if (r->kind >= GALE__ARGMAX) {
        gale__cpu_step s = {
            .size = (uint8_t)size_log2(r->type), .d = r->acc, .a = m->inner[in->a], .b = r->index, .c = -1};
        s.kind = m->plan->inner_lanes ? GALE__CPU_STEP_ARG_FOLD : GALE__CPU_STEP_ARG;
        if (m->plan->inner_lanes) s.arg_fold = simd->arg_fold[r->kind - GALE__ARGMAX][r->type];
        else s.arg = simd->arg[r->kind - GALE__ARGMAX][r->type];
        gale__cpu_tape_step(m->tape, s);
        return;
    }
    int v = gale__cpu_tape_convert(m->tape, m->inner[in->a], from, gale__compute_type((gale_type)in->acc));
    if (m->plan->inner_lanes)
        gale__cpu_tape_step(m->tape, (gale__cpu_step){.kind = GALE__CPU_STEP_FOLD,
                                         .size = (uint8_t)size_log2(r->type),
                                         .fold = simd->fold[r->kind][r->type],
                                         .d = r->acc,
                                         .a = v,
                                         .b = -1,
                                         .c = -1});
    else
        gale__cpu_tape_step(m->tape, (gale__cpu_step){.kind = GALE__CPU_STEP_OP,
                                         .fn = simd->op[ops[r->kind]][r->type],
                                         .d = r->acc,
                                         .a = r->acc,
                                         .b = v,
                                         .c = -1});
}

/* Sums of floats are taken in two levels: for accuracy, and so that the result does not depend on who sums. */
static void flush_reduces(maker *m, int p)
{
    for (int k = 0; k < m->plan->n_reduces; k++) {
        const gale__cpu_plan_reduce *r = &m->plan->reduces[k];
        if (r->phase != p || r->total == r->acc) continue;
        gale__cpu_tape_step(m->tape, (gale__cpu_step){.kind = GALE__CPU_STEP_OP,
                                         .fn = m->tape->simd->op[GALE__ADD][r->type],
                                         .d = r->total,
                                         .a = r->total,
                                         .b = r->acc,
                                         .c = -1});
        fill_step(m, r->acc, r->type, 0);
    }
}

/* OUTER values inside a body: the same register when lanes are outer points, else lane 0 spread over a block. */
static void enter_body(maker *m)
{
    for (int i = 0; i < m->nest->n_code; i++) {
        const gale__nest_instr *in = &m->nest->code[i];
        m->inner[i] = -1;
        if (!m->wanted[i] || is_inner(m, i)) continue;
        m->inner[i] = m->outer[i];
        if (!m->plan->inner_lanes || in->op == GALE__NEST_CONST) continue;
        gale__simd_type ct = gale__simd_type_of((gale_type)in->type);
        m->inner[i] = gale__cpu_tape_reg(m->tape, gale__simd_type_size(ct));
        spread_step(m, (gale_type)in->type, m->inner[i], m->outer[i]);
    }
}

static gale_status make_body(maker *m, int p, gale__cpu_phase *ph)
{
    begin(m, &ph->body);
    for (int i = 0; i < m->nest->n_code; i++) {
        if (!m->wanted[i] || !is_inner(m, i)) continue;
        gale__simd_type ct = gale__simd_type_of((gale_type)m->nest->code[i].type);
        if (m->cached[i] >= 0 && m->phase[i] < p) {
            m->inner[i] = gale__cpu_tape_reg(m->tape, gale__simd_type_size(ct));
            gale__cpu_tape_step(m->tape, (gale__cpu_step){.kind = GALE__CPU_STEP_RECALL,
                                             .size = (uint8_t)size_log2(ct),
                                             .d = m->inner[i],
                                             .a = m->cached[i],
                                             .b = -1,
                                             .c = -1});
            continue;
        }
        GALE_TRY(gale__cpu_tape_emit(m->tape, i, m->inner));
        if (m->cached[i] >= 0)
            gale__cpu_tape_step(m->tape, (gale__cpu_step){.kind = GALE__CPU_STEP_KEEP,
                                             .size = (uint8_t)size_log2(ct),
                                             .d = m->cached[i],
                                             .a = m->inner[i],
                                             .b = -1,
                                             .c = -1});
    }
    for (int r = 0; r < m->plan->n_reduces; r++)
        if (m->plan->reduces[r].phase == p) feed_reduce(m, &m->plan->reduces[r]);
    for (int s = 0; s < m->nest->n_stores; s++)
        if (store_is_inner(m, &m->nest->stores[s]) && store_phase(m, &m->nest->stores[s]) == p)
            gale__cpu_tape_emit_store(m->tape, &m->nest->stores[s], m->inner);
    end(m, &ph->body);
    return GALE_OK;
}

static gale_status make_phase(maker *m, int p)
{
    gale__cpu_phase *ph = &m->plan->phases[p];
    GALE_TRY(make_outer(m, p, ph));
    find_wanted(m, p);
    for (int i = 0; i < m->nest->n_code; i++) ph->loops |= m->wanted[i];
    if (!ph->loops) return GALE_OK; /* empty sections: they may be anywhere */
    begin(m, &ph->init);
    begin_reduces(m, p);
    end(m, &ph->init);
    begin(m, &ph->enter);
    enter_body(m);
    end(m, &ph->enter);
    GALE_TRY(make_body(m, p, ph));
    begin(m, &ph->flush);
    flush_reduces(m, p);
    end(m, &ph->flush);
    return GALE_OK;
}

static gale_status list_reduces(maker *m)
{
    int n = 0;
    for (int i = 0; i < m->nest->n_code; i++) n += m->nest->code[i].op == GALE__NEST_REDUCE && m->needed[i];
    if (!n) return GALE_OK;
    m->plan->reduces = gale__calloc((size_t)n, sizeof *m->plan->reduces);
    if (!m->plan->reduces) return GALE_NO_MEMORY;
    for (int i = 0; i < m->nest->n_code; i++) {
        const gale__nest_instr *in = &m->nest->code[i];
        if (in->op != GALE__NEST_REDUCE || !m->needed[i]) continue;
        gale_type acc = (gale_type)(in->imm >= GALE__ARGMAX ? m->nest->code[in->a].type : in->acc);
        gale__cpu_plan_reduce *r = &m->plan->reduces[m->plan->n_reduces++];
        *r = (gale__cpu_plan_reduce){.instr = i,
            .phase = m->phase[i] - 1,
            .kind = (gale__reduce)in->imm,
            .type = gale__simd_type_of(acc),
            .index = -1};
    }
    return GALE_OK;
}

static gale_status make_plan(maker *m)
{
    gale__cpu_plan *p = m->plan;
    GALE_TRY(find_phases(m));
    GALE_TRY(list_reduces(m));
    find_cached(m);
    for (int i = 0; i < m->nest->n_code; i++) m->outer[i] = -1;
    if (m->by_row.any) GALE_TRY(make_rows(m));
    for (int k = 0; k < p->n_phases; k++) GALE_TRY(make_phase(m, k));
    bool is_short = p->inner_lanes && p->inner.count <= SHORT_ROW;
    size_t lanes = (size_t)(is_short ? p->all.count : p->inner_lanes ? p->inner.count : p->outer.count);
    if (p->tape.n_cached && !p->inner_lanes) { /* a row of the cache is a whole block of outer points */
        size_t most = KEEP_BYTES / 8 / (size_t)p->tape.n_cached / (size_t)p->inner.count / 16 * 16;
        if (most < lanes) lanes = most < 16 ? 16 : most;
    }
    gale__cpu_section *sections[GALE__CPU_PHASES * 6 + 1] = {&p->rows};
    gale__cpu_loop loops[GALE__CPU_PHASES];
    int n_loops = 0;
    for (int k = 0; k < p->n_phases; k++) {
        gale__cpu_phase *ph = &p->phases[k];
        gale__cpu_section *all[6] = {&ph->outer, &ph->put, &ph->init, &ph->enter, &ph->body, &ph->flush};
        memcpy(sections + 6 * k + 1, all, sizeof all);
        if (ph->loops) loops[n_loops++] = (gale__cpu_loop){&ph->body, &ph->flush};
    }
    GALE_TRY(gale__cpu_tape_finish_build(&p->tape, sections, 6 * p->n_phases + 1, loops, n_loops, lanes));
    p->short_rows = is_short && p->inner.count * 2 <= (int64_t)p->tape.block;
    if (p->tape.n_cached)
        p->tape.cache_lanes =
            p->short_rows ? p->tape.block : (size_t)p->inner.count * (p->inner_lanes ? 1 : p->tape.block);
    p->inner_step = p->inner_lanes ? (int64_t)p->tape.block : 1;
    return GALE_OK;
}

static gale_status find_by_row(maker *m)
{
    int takes = 0;
    uint8_t dims[GALE__NEST_DIMS];
    for (int d = 0; d < GALE__NEST_DIMS; d++) dims[d] = (uint8_t)d;
    for (int i = 0; i < m->nest->n_code; i++) takes += m->nest->code[i].op == GALE__NEST_TAKE;
    m->plan->spots = gale__calloc((size_t)takes + 1, sizeof *m->plan->spots);
    if (!m->plan->spots) return GALE_NO_MEMORY;
    gale__cpu_by_row_find(&m->by_row, m->nest, m->plan->spots);
    gale__cpu_span_init(&m->plan->row_span, m->nest, dims, m->nest->n_outer - 1);
    return GALE_OK;
}

/* Whether rows of kept values may fit at all. */
static bool may_keep(const gale__cpu_plan *p)
{
    return p->inner.count <= (int64_t)(KEEP_BYTES / 8 / (p->inner_lanes ? 1 : 64));
}

gale_status gale__cpu_plan_init(gale__cpu_plan *p, const gale__nest *nest, bool inner_lanes, bool keep, bool by_row)
{
    uint8_t dims[GALE__NEST_DIMS];
    for (int d = 0; d < GALE__NEST_DIMS; d++) dims[d] = (uint8_t)d;
    *p = (gale__cpu_plan){.nest = nest, .inner_lanes = inner_lanes};
    gale__cpu_span_init(&p->outer, nest, dims, nest->n_outer);
    gale__cpu_span_init(&p->inner, nest, dims + nest->n_outer, nest->n_inner);
    gale__cpu_span_init(&p->all, nest, dims, nest->n_outer + nest->n_inner);
    if (nest->n_code > GALE__NEST_CODE_MAX)
        return gale__fail(GALE_LIMIT, "cpu kernel: %d instructions, at most %d", nest->n_code, GALE__NEST_CODE_MAX);
    maker *m = gale__calloc(1, sizeof *m);
    if (!m) return GALE_NO_MEMORY;
    gale__cpu_tape_init(&p->tape, nest);
    if (!inner_lanes) p->tape.lane_dims = (1u << nest->n_outer) - 1;
    *m = (maker){.plan = p, .nest = nest, .tape = &p->tape, .keep = keep && may_keep(p)};
    gale_status status = by_row && nest->n_outer ? find_by_row(m) : GALE_OK;
    if (status == GALE_OK) status = make_plan(m);
    gale__free(m);
    if (status != GALE_OK) gale__cpu_plan_finish(p);
    return status;
}

void gale__cpu_plan_finish(gale__cpu_plan *p)
{
    gale__cpu_tape_finish(&p->tape);
    gale__free(p->reduces);
    gale__free(p->spots);
    *p = (gale__cpu_plan){0};
}
