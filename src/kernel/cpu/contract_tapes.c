/* The three tapes of a contraction: what is multiplied, of its two operands, and what follows the reduction. */
#include "kernel/cpu/contract.h"
#include "kernel/cpu/divide.h"

#define JOINT_BLOCK 1024

/* Emits the instructions that `wanted` marks, in order; `given` is already in its register. */
static gale_status emit_marked(gale__cpu_tape *t, const uint8_t *wanted, int given, int *reg)
{
    for (int i = 0; i < t->nest->n_code; i++)
        if (wanted[i] && i != given) GALE_TRY(gale__cpu_tape_emit(t, i, reg));
    return GALE_OK;
}

static void mark_below(const gale__nest *nest, uint8_t *wanted, int stop)
{
    for (int i = nest->n_code - 1; i >= 0; i--) {
        const gale__nest_instr *in = &nest->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        for (int k = 0; wanted[i] && i != stop && k < gale__nest_arity(in); k++) wanted[operand[k]] = 1;
    }
}

/* Lanes run along k if k is contiguous in memory; with equal strides along the longer run. */
static bool prefers_k(
    const gale__nest *nest, const uint8_t *wanted, const gale__cpu_span *rows, const gale__cpu_span *k)
{
    int score = 0;
    if (!rows->n || !k->n) return !rows->n;
    for (int i = 0; i < nest->n_code; i++) {
        if (!wanted[i] || nest->code[i].op != GALE__NEST_LOAD) continue;
        const gale__nest_access *a = &nest->accesses[nest->code[i].access];
        int64_t sr = a->stride[rows->dim[rows->n - 1]], sk = a->stride[k->dim[k->n - 1]];
        score += (sk == 1 || sk == -1) - (sr == 1 || sr == -1);
    }
    return score > 0 || (score == 0 && k->extent[k->n - 1] > rows->extent[rows->n - 1]);
}

/* The load alone, elements as stored. */
static gale_status make_narrow(const gale__cpu_contract *c, gale__cpu_operand *o)
{
    const gale__nest_access *x = o->narrow.access;
    gale__cpu_tape *t = &o->tape;
    uint8_t wanted[GALE__NEST_CODE_MAX] = {0};
    for (int i = 0; i < c->nest->n_code; i++)
        wanted[i] = c->nest->code[i].op == GALE__NEST_LOAD && &c->nest->accesses[c->nest->code[i].access] == x;
    o->along_k = prefers_k(c->nest, wanted, &o->rows, &c->k);
    o->out = gale__cpu_tape_reg(t, (int)gale_type_size(x->type));
    gale__cpu_step load = {.kind = GALE__CPU_STEP_LOAD, .size = gale_type_size(x->type) == 2, .d = o->out, .access = x};
    load.a = load.b = load.c = -1;
    gale__cpu_tape_step(t, load);
    o->section.count = (int)t->n_steps;
    gale__cpu_section *sections[1] = {&o->section};
    gale__cpu_tape_keep(t, o->out);
    GALE_TRY(gale__cpu_tape_finish_build(t, sections, 1, NULL, 0, 512));
    return gale__cpu_narrow_init(&o->narrow, c->nest);
}

gale_status gale__cpu_contract_make_operand(gale__cpu_contract *c, gale__cpu_operand *o, int value)
{
    uint8_t wanted[GALE__NEST_CODE_MAX] = {0};
    int reg[GALE__NEST_CODE_MAX];
    gale__cpu_tape_init(&o->tape, c->nest);
    if (c->narrow) return make_narrow(c, o);
    wanted[value] = 1;
    mark_below(c->nest, wanted, -1);
    o->along_k = prefers_k(c->nest, wanted, &o->rows, &c->k);
    GALE_TRY(emit_marked(&o->tape, wanted, -1, reg));
    static const gale_type types[GALE__SIMD_TYPE_COUNT] = {
        GALE_BOOL, GALE_I32, GALE_U32, GALE_I64, GALE_U64, GALE_F32, GALE_F64};
    o->out = gale__cpu_tape_convert(
        &o->tape, reg[value], gale__simd_type_of((gale_type)c->nest->code[value].type), types[c->sum_type]);
    o->section.count = (int)o->tape.n_steps;
    gale__cpu_section *sections[1] = {&o->section};
    gale__cpu_tape_keep(&o->tape, o->out);
    return gale__cpu_tape_finish_build(&o->tape, sections, 1, NULL, 0, 512);
}

/* Dimensions that one run of the tail may walk; values that are the same along all of them are loaded once. */
static uint32_t tail_dims(const gale__cpu_contract *c)
{
    const gale__cpu_span *span = c->joint.count && !c->channel.weights ? &c->joint : &c->b.rows;
    uint32_t mask = 0;
    if (c->channel.weights && c->channel.together > 1) return 0;
    for (int i = 0; i < span->n; i++) mask |= 1u << span->dim[i];
    for (int i = 0; i < c->b.rows.n; i++) mask |= 1u << c->b.rows.dim[i];
    return mask;
}

gale_status gale__cpu_contract_make_tail(gale__cpu_contract *c, const gale__contraction *info)
{
    uint8_t wanted[GALE__NEST_CODE_MAX] = {0};
    int reg[GALE__NEST_CODE_MAX];
    gale__cpu_tape *t = &c->tail;
    gale_type type = (gale_type)c->nest->code[info->reduce].type;
    gale__cpu_requant_find(&c->requant, c->nest, info->reduce, &c->b.rows);
    if (c->sum_type == GALE__SIMD_TYPE_F32)
        gale__cpu_finish_find(&c->finish, c->nest, info->reduce, c->transposed ? &c->a.rows : &c->b.rows, false);
    if (c->finish.also && !c->shares && (c->window.access || c->transposed || !c->gemm.part[0].done_rows))
        c->finish.out = NULL;
    gale__cpu_tape_init(t, c->nest);
    t->lane_dims = tail_dims(c);
    for (int s = 0; s < c->nest->n_stores; s++) wanted[c->nest->stores[s].value] = 1;
    mark_below(c->nest, wanted, info->reduce);
    c->sum = gale__cpu_tape_reg(t, (int)c->size);
    reg[info->reduce] = gale__cpu_tape_convert(t, c->sum, c->sum_type, gale__compute_type(type));
    if (t->simd->wrap[type]) reg[info->reduce] = gale__cpu_tape_op(t, t->simd->wrap[type], type, reg[info->reduce]);
    GALE_TRY(emit_marked(t, wanted, info->reduce, reg));
    for (int s = 0; s < c->nest->n_stores; s++) gale__cpu_tape_emit_store(t, &c->nest->stores[s], reg);
    c->tail_section.count = (int)t->n_steps;
    gale__cpu_section *sections[1] = {&c->tail_section};
    return gale__cpu_tape_finish_build(
        t, sections, 1, NULL, 0, (size_t)(c->joint.count ? least(c->joint.count, JOINT_BLOCK) : c->tile_lanes));
}
