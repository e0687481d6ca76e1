/* Removes what value ranges show to be redundant: clamps that change nothing, selects with a known outcome, and the
 * clamping of indices that are always in range.  Graphs contain these because each operator must be correct for any
 * operand. */
#include "kernel/nest/nest_range.h"

/* Whether a comparison cannot hold; with NaN none of these does. */
static bool never(const gale__nest_instr *in, const gale__nest_range *r)
{
    const gale__nest_range *a = &r[in->a], *b = &r[in->b];
    switch (in->op) {
    case GALE__LT: return a->low >= b->high;
    case GALE__LE: return a->low > b->high;
    case GALE__GT: return a->high <= b->low;
    case GALE__GE: return a->high < b->low;
    default: return false;
    }
}

/* The operand that an instruction is equal to, also for NaN; -1: none. */
static int same_as(const gale__nest *n, int i, const gale__nest_range *r)
{
    const gale__nest_instr *in = &n->code[i];
    double v;
    bool number = in->op == GALE__MIN || in->op == GALE__MAX
                      ? gale__type_is_int((gale_type)in->type) || gale__nest_float_const(n, in->b, &v)
                      : false;
    if (in->op == GALE__MIN && number && r[in->a].high <= r[in->b].low) return in->a;
    if (in->op == GALE__MAX && number && r[in->a].low >= r[in->b].high) return in->a;
    if (in->op == GALE__SELECT && never(&n->code[in->a], r)) return in->c;
    return -1;
}

static void replace_operands(gale__nest_instr *in, const int *by)
{
    int32_t *operand[3] = {&in->a, &in->b, &in->c};
    for (int k = 0; k < gale__nest_arity(in); k++) *operand[k] = by[*operand[k]];
}

/* Drops what nothing uses any more. */
static void compact(gale__nest *n)
{
    bool used[GALE__NEST_CODE_MAX] = {false};
    int at[GALE__NEST_CODE_MAX], kept = 0;
    for (int s = 0; s < n->n_stores; s++) {
        used[n->stores[s].value] = true;
        if (n->stores[s].index >= 0) used[n->stores[s].index] = true;
    }
    for (int i = n->n_code - 1; i >= 0; i--) {
        const gale__nest_instr *in = &n->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        for (int k = 0; used[i] && k < gale__nest_arity(in); k++) used[operand[k]] = true;
    }
    for (int i = 0; i < n->n_code; i++) {
        if (!used[i]) continue;
        replace_operands(&n->code[i], at);
        at[i] = kept;
        n->code[kept++] = n->code[i];
    }
    n->n_code = kept;
    for (int s = 0; s < n->n_stores; s++) {
        n->stores[s].value = at[n->stores[s].value];
        if (n->stores[s].index >= 0) n->stores[s].index = at[n->stores[s].index];
    }
}

void gale__nest_settle(gale__nest *n)
{
    const uint64_t changed = GALE__NEST_BIT(GALE__MIN) | GALE__NEST_BIT(GALE__MAX) | GALE__NEST_BIT(GALE__SELECT) |
                             GALE__NEST_BIT(GALE__NEST_TAKE);
    gale__nest_range r[GALE__NEST_CODE_MAX];
    int by[GALE__NEST_CODE_MAX];
    bool any = false;
    if (n->n_code > GALE__NEST_CODE_MAX || !gale__nest_has(n, changed)) return;
    for (int i = 0; i < n->n_code; i++) {
        gale__nest_instr *in = &n->code[i];
        replace_operands(in, by);
        gale__nest_range_find(n, i, r);
        int same = same_as(n, i, r);
        bool as_often = same >= 0 && n->code[same].inner == in->inner && n->code[same].type == in->type;
        by[i] = as_often ? same : i;
        any |= as_often;
        if (in->op == GALE__NEST_TAKE) in->acc = r[in->a].low >= 0 && r[in->a].high < (double)in->imm;
    }
    if (!any) return;
    for (int s = 0; s < n->n_stores; s++) {
        n->stores[s].value = by[n->stores[s].value];
        if (n->stores[s].index >= 0) n->stores[s].index = by[n->stores[s].index];
    }
    compact(n);
}
