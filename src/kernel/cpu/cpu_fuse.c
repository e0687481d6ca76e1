/* Joins pairs of neighbouring f32 operations of a tape into one step, and whole quantisations, lets operations with a
 * constant read it once instead of block by block, and lets the last operation before a store write to memory. */
#include "kernel/cpu/tape.h"
#include <math.h>
#include <string.h>

/* The operation as `x op y`; -1: not one that is joined. */
static int kind_of(const gale__cpu_tape *t, const gale__cpu_step *s)
{
    static const int ops[] = {[GALE__PAIR_ADD] = GALE__ADD,
        [GALE__PAIR_SUB] = GALE__SUB,
        [GALE__PAIR_RSUB] = GALE__SUB,
        [GALE__PAIR_MUL] = GALE__MUL,
        [GALE__PAIR_MAX] = GALE__MAX,
        [GALE__PAIR_MIN] = GALE__MIN};
    if (s->kind != GALE__CPU_STEP_OP || s->c >= 0 || s->b < 0) return -1;
    for (int k = 0; k < GALE__PAIR_COUNT; k++)
        if (k != GALE__PAIR_RSUB && s->fn == t->simd->op[ops[k]][GALE__SIMD_TYPE_F32]) return k;
    return -1;
}

static int turned(int kind) { return kind == GALE__PAIR_SUB ? GALE__PAIR_RSUB : kind; }

static const gale__cpu_tape_const *const_of(const gale__cpu_tape *t, int reg)
{
    for (size_t i = 0; i < t->n_consts; i++)
        if (t->consts[i].reg == reg) return &t->consts[i];
    return NULL;
}

static float number_of(const gale__cpu_tape_const *c)
{
    uint32_t bits = (uint32_t)c->bits;
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

/* A register that holds one number in all lanes.  max and min must know that it is not NaN. */
static bool is_number(const gale__cpu_tape *t, int reg, int kind)
{
    const gale__cpu_tape_const *c = const_of(t, reg);
    if (t->regs[reg].uniform) return kind < GALE__PAIR_MAX;
    return c && (kind < GALE__PAIR_MAX || (!c->access && !isnan(number_of(c))));
}

/* Brings a constant into second place. */
static int settle(const gale__cpu_tape *t, gale__cpu_step *s, int kind)
{
    if (!is_number(t, s->a, kind) || is_number(t, s->b, kind)) return kind;
    int32_t a = s->a;
    s->a = s->b;
    s->b = a;
    return turned(kind);
}

/* Step q, which follows p, as the second half of a pair: the value of p is read by it alone, once. */
static bool join(
    const gale__cpu_tape *t, gale__cpu_step *p, int at, int kind, const gale__cpu_step *q, gale__cpu_step *out)
{
    int second = kind_of(t, q), value = p->d;
    const gale__cpu_reg *r = &t->regs[value];
    if (second < 0 || r->first != at || r->last != at + 1 || (q->a == value) == (q->b == value)) return false;
    int other = q->a == value ? q->b : q->a;
    if (q->b == value) second = turned(second);
    int form = (is_number(t, p->b, kind) ? 1 : 0) | (is_number(t, other, second) ? 2 : 0);
    *out = (gale__cpu_step){.kind = GALE__CPU_STEP_OP,
        .numbers = (uint8_t)form,
        .fn = t->simd->pair[kind][second][form],
        .d = q->d,
        .a = p->a,
        .b = p->b,
        .c = other};
    return true;
}

/* A pair with two numbers, then max or min with a third. */
static bool join_third(const gale__cpu_tape *t, gale__cpu_step *pair, int at, const gale__cpu_step *q)
{
    int kind = kind_of(t, q), value = pair->d;
    const gale__cpu_reg *r = &t->regs[value];
    if (kind < GALE__PAIR_MAX || r->first != at || r->last != at + 1 || (q->a == value) == (q->b == value))
        return false;
    int other = q->a == value ? q->b : q->a;
    if (!is_number(t, other, kind)) return false;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            if (pair->fn != t->simd->pair[i][j][3]) continue;
            float e = number_of(const_of(t, other));
            pair->kind = GALE__CPU_STEP_TRIPLE;
            pair->triple = t->simd->triple[i][j][kind == GALE__PAIR_MIN];
            pair->d = q->d;
            memcpy(&pair->imm, &e, 4);
            return true;
        }
    return false;
}

/* A product that is only summed along the block. */
static bool join_dot(
    const gale__cpu_tape *t, const gale__cpu_step *p, int at, const gale__cpu_step *q, gale__cpu_step *out)
{
    const gale__cpu_reg *r = &t->regs[p->d];
    if (q->kind != GALE__CPU_STEP_FOLD || q->fold != t->simd->fold[GALE__SUM][GALE__SIMD_TYPE_F32] || q->a != p->d)
        return false;
    if (r->first != at || r->last != at + 1 || p->fn != t->simd->op[GALE__MUL][GALE__SIMD_TYPE_F32]) return false;
    *out = (gale__cpu_step){
        .kind = GALE__CPU_STEP_DOT, .size = q->size, .dot = t->simd->dot, .d = q->d, .a = p->a, .b = p->b, .c = -1};
    return true;
}

static bool is_op(const gale__cpu_tape *t, const gale__cpu_step *s, int op)
{
    return s->kind == GALE__CPU_STEP_OP && s->fn == t->simd->op[op][GALE__SIMD_TYPE_F32];
}

/* The value of the step at i is read by the next one alone, as its first operand. */
static bool leads(const gale__cpu_tape *t, int i)
{
    const gale__cpu_reg *r = &t->regs[t->steps[i].d];
    return r->first == i && r->last == i + 1 && t->steps[i + 1].a == t->steps[i].d &&
           t->steps[i + 1].b != t->steps[i].d;
}

/* A division by a number, rounding, a number added, the cast to bytes: the first and the third may be missing.  How
 * many steps that is from i on; 0: it is something else. */
static int join_quantise(const gale__cpu_tape *t, int i, int end, gale__cpu_step *out)
{
    int begin = i;
    *out = (gale__cpu_step){.kind = GALE__CPU_STEP_OP, .a = t->steps[i].a, .b = -1, .c = -1, .numbers = 3};
    if (is_op(t, &t->steps[i], GALE__DIV) && is_number(t, t->steps[i].b, 0) && i + 1 < end && leads(t, i))
        out->b = t->steps[i++].b;
    if (!is_op(t, &t->steps[i], GALE__RINT) || i + 1 >= end || !leads(t, i)) return 0;
    i++;
    if (is_op(t, &t->steps[i], GALE__ADD) && is_number(t, t->steps[i].b, 0) && i + 1 < end && leads(t, i))
        out->c = t->steps[i++].b;
    const gale__cpu_step *cast = &t->steps[i];
    bool to_u8 = cast->kind == GALE__CPU_STEP_OP && cast->fn == t->simd->cast[GALE__SIMD_TYPE_F32][GALE_U8],
         to_i8 = cast->kind == GALE__CPU_STEP_OP && cast->fn == t->simd->cast[GALE__SIMD_TYPE_F32][GALE_I8];
    if (!to_u8 && !to_i8) return 0;
    out->fn = t->simd->quantise[to_i8];
    out->d = cast->d;
    return i + 1 - begin;
}

/* The value of the step at i is read by the next one alone. */
static bool feeds(const gale__cpu_tape *t, int i)
{
    const gale__cpu_step *next = &t->steps[i + 1];
    const gale__cpu_reg *r = &t->regs[t->steps[i].d];
    return r->first == i && r->last == i + 1 && (next->a == t->steps[i].d) != (next->b == t->steps[i].d);
}

/* The other operand of a step that reads reg. */
static int other_of(const gale__cpu_step *s, int reg) { return s->a == reg ? s->b : s->a; }

static bool is_one(const gale__cpu_tape *t, int reg)
{
    const gale__cpu_tape_const *c = const_of(t, reg);
    return c && !c->access && number_of(c) == 1;
}

/* 1 / (1 + e^-x), and that times x: how many steps that is from i on; 0: it is something else. */
static int join_sigmoid(const gale__cpu_tape *t, int i, int end, gale__cpu_step *out)
{
    static const int ops[] = {GALE__NEG, GALE__EXP, GALE__ADD, GALE__DIV};
    const gale__cpu_step *s = &t->steps[i];
    for (int k = 0; k < 4; k++)
        if (i + k >= end || !is_op(t, &s[k], ops[k]) || (k < 3 && (i + k + 1 >= end || !feeds(t, i + k)))) return 0;
    if (!is_one(t, other_of(&s[2], s[1].d)) || s[3].b != s[2].d || !is_one(t, s[3].a)) return 0;
    bool times = i + 4 < end && feeds(t, i + 3) && is_op(t, &s[4], GALE__MUL) && other_of(&s[4], s[3].d) == s[0].a;
    *out = (gale__cpu_step){.kind = GALE__CPU_STEP_OP,
        .fn = t->simd->sigmoid[times],
        .d = s[times ? 4 : 3].d,
        .a = s[0].a,
        .b = -1,
        .c = -1};
    return times ? 5 : 4;
}

/* A cast to bf16 in front of a store, which rounds in the same way itself: the store alone.  How many steps; 0: it is
 * something else. */
static int join_store(const gale__cpu_tape *t, int i, int end, gale__cpu_step *out)
{
    const gale__cpu_step *s = &t->steps[i];
    if (i + 1 >= end || s->kind != GALE__CPU_STEP_OP || s->fn != t->simd->cast[GALE__SIMD_TYPE_F32][GALE_BF16] ||
        s[1].kind != GALE__CPU_STEP_STORE || s[1].fn != t->simd->narrow[GALE_BF16] || !leads(t, i))
        return 0;
    *out = s[1];
    out->a = s->a;
    return 2;
}

/* One section, from position `to` on; returns the position after it. */
static int fuse_section(gale__cpu_tape *t, gale__cpu_section *s, int to)
{
    int end = s->first + s->count, begin = to;
    for (int i = s->first; i < end; i++, to++) {
        gale__cpu_step step = t->steps[i], both;
        int kind = kind_of(t, &step), joined = join_quantise(t, i, end, &both);
        if (!joined) joined = join_sigmoid(t, i, end, &both);
        if (!joined) joined = join_store(t, i, end, &both);
        if (joined) {
            step = both;
            i += joined - 1;
        } else if (kind >= 0) {
            kind = settle(t, &step, kind);
            if (i + 1 < end && join_dot(t, &step, i, &t->steps[i + 1], &both)) {
                step = both;
                i++;
            } else if (i + 1 < end && join(t, &step, i, kind, &t->steps[i + 1], &both)) {
                step = both;
                i++;
                if (i + 1 < end && join_third(t, &step, i, &t->steps[i + 1])) i++;
            } else if (is_number(t, step.b, kind)) {
                step.fn = t->simd->by_number[kind];
                step.numbers = 1;
            }
        }
        t->steps[to] = step;
    }
    *s = (gale__cpu_section){begin, to - begin};
    return to;
}

/* A store directly after the operation that computes its value: the operation writes to memory itself, if it can. */
static void write_through(gale__cpu_tape *t, gale__cpu_section s)
{
    if (s.count < 2) return;
    gale__cpu_step *store = &t->steps[s.first + s.count - 1], *op = store - 1;
    if (store->kind == GALE__CPU_STEP_STORE && op->kind == GALE__CPU_STEP_LOAD && op->d == store->a && !op->fn &&
        !store->fn && !store->access->n_guards && s.count == 2)
        op->out = store->access; /* a copy */
    if (store->kind != GALE__CPU_STEP_STORE || store->fn || store->access->n_guards ||
        (op->kind != GALE__CPU_STEP_OP && op->kind != GALE__CPU_STEP_TRIPLE &&
            (op->kind != GALE__CPU_STEP_TAKE_ROWS || op->fn)))
        return;
    if (op->d != store->a || op->a == op->d) return; /* an accumulator stays where it is */
    op->access = store->access;
    op->size = store->size;
}

void gale__cpu_tape_fuse(gale__cpu_tape *t, gale__cpu_section *const *sections, int n)
{
    int to = 0;
    for (int i = 0; i < n; i++) {
        to = fuse_section(t, sections[i], to);
        write_through(t, *sections[i]);
    }
    t->n_steps = (size_t)to;
}
