/* Turns instructions of a loop nest into steps over registers, and registers into few slots of scratch memory, so that
 * a block of every live value stays in the first cache. */
#include "kernel/cpu/by_row.h"
#include <string.h>

#define L1_BYTES 32768 /* what the registers of a tape may take together */
#define BLOCK_LEAST 64
#define BLOCK_MOST 4096
#define BLOCK_THROUGH 32768 /* when values go from memory to memory and no register is touched */

void gale__cpu_tape_init(gale__cpu_tape *t, const gale__nest *nest)
{
    *t = (gale__cpu_tape){.simd = gale__simd_get(), .nest = nest, .n_dims = nest->n_outer + nest->n_inner};
}

void gale__cpu_tape_finish(gale__cpu_tape *t)
{
    gale__free(t->steps);
    gale__free(t->regs);
    gale__free(t->consts);
    *t = (gale__cpu_tape){0};
}

int gale__cpu_tape_reg(gale__cpu_tape *t, int size_bytes)
{
    if (gale__grow((void **)&t->regs, &t->regs_capacity, t->n_regs + 1, sizeof *t->regs) != GALE_OK) {
        t->failed = true;
        return 0;
    }
    t->regs[t->n_regs] = (gale__cpu_reg){.slot = -1, .first = -1, .last = -1, .size = (uint8_t)size_bytes};
    return (int)t->n_regs++;
}

void gale__cpu_tape_step(gale__cpu_tape *t, gale__cpu_step step)
{
    if (t->failed) return;
    if (gale__grow((void **)&t->steps, &t->steps_capacity, t->n_steps + 1, sizeof *t->steps) != GALE_OK) {
        t->failed = true;
        return;
    }
    t->steps[t->n_steps++] = step;
}

static int add_const(gale__cpu_tape *t, gale__cpu_tape_const c)
{
    c.reg = gale__cpu_tape_reg(t, c.size);
    if (gale__grow((void **)&t->consts, &t->consts_capacity, t->n_consts + 1, sizeof *t->consts) != GALE_OK)
        t->failed = true;
    if (t->failed) return 0;
    t->regs[c.reg].fixed = true;
    t->consts[t->n_consts++] = c;
    return c.reg;
}

int gale__cpu_tape_const_reg(gale__cpu_tape *t, int size_bytes, uint64_t bits)
{
    for (size_t i = 0; i < t->n_consts; i++)
        if (t->consts[i].size == size_bytes && t->consts[i].bits == bits && !t->consts[i].access)
            return t->consts[i].reg;
    return add_const(t, (gale__cpu_tape_const){.size = (uint8_t)size_bytes, .bits = bits});
}

static int log2_of(size_t size) { return size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0; }
static int storage_log2(gale_type type) { return log2_of(gale_type_size(type)); }
static int reg_of(gale__cpu_tape *t, gale_type type)
{
    return gale__cpu_tape_reg(t, gale__simd_type_size(gale__simd_type_of(type)));
}

static int op_step(gale__cpu_tape *t, gale__simd_fn *fn, int d, int a, int b, int c)
{
    gale__cpu_tape_step(t, (gale__cpu_step){.kind = GALE__CPU_STEP_OP, .fn = fn, .d = d, .a = a, .b = b, .c = c});
    return d;
}

int gale__cpu_tape_op(gale__cpu_tape *t, gale__simd_fn *fn, gale_type type, int a)
{
    return op_step(t, fn, reg_of(t, type), a, -1, -1);
}

void gale__cpu_tape_keep(gale__cpu_tape *t, int reg)
{
    if (!t->failed) t->regs[reg].kept = true;
}

int gale__cpu_tape_convert(gale__cpu_tape *t, int r, gale__simd_type from, gale_type to)
{
    /* Floats of one compute type are rounded; integers of full width and f32, f64 stay as they are. */
    if (from == gale__simd_type_of(to) && gale__compute_type(to) == to) return r;
    return op_step(t, t->simd->cast[from][to], reg_of(t, to), r, -1, -1);
}

/* Operations whose result may leave the range of a narrow integer type. */
static bool may_overflow(int op)
{
    switch (op) {
    case GALE__NEG:
    case GALE__ABS:
    case GALE__NOT:
    case GALE__ADD:
    case GALE__SUB:
    case GALE__MUL:
    case GALE__DIV:
    case GALE__SHL:
    case GALE__FMA: return true;
    default: return false;
    }
}

static gale_status emit_scalar(gale__cpu_tape *t, const gale__nest_instr *in, const int *reg, int *out)
{
    const gale__nest_instr *code = t->nest->code;
    int arity = gale__scalar_table[in->op].arity;
    int last = arity == 1 ? in->a : arity == 2 ? in->b : in->c;
    gale__simd_type ct = gale__simd_type_of((gale_type)code[last].type);
    gale__simd_fn *fn = t->simd->op[in->op][ct];
    if (!fn) {
        return gale__fail(GALE_UNSUPPORTED, "cpu kernel: %s is not defined for %s operands",
            gale__scalar_table[in->op].name, gale_type_name((gale_type)code[last].type));
    }
    *out = op_step(
        t, fn, reg_of(t, (gale_type)in->type), reg[in->a], arity > 1 ? reg[in->b] : -1, arity > 2 ? reg[in->c] : -1);
    gale__simd_fn *wrap = t->simd->wrap[in->type];
    if (wrap && may_overflow(in->op)) *out = op_step(t, wrap, reg_of(t, (gale_type)in->type), *out, -1, -1);
    return GALE_OK;
}

/* By way of the bits in memory. */
static int emit_bitcast(gale__cpu_tape *t, int r, gale_type from, gale_type to)
{
    int raw = t->simd->narrow[from]
                  ? op_step(t, t->simd->narrow[from], gale__cpu_tape_reg(t, (int)gale_type_size(from)), r, -1, -1)
                  : r;
    return t->simd->widen[to] ? op_step(t, t->simd->widen[to], reg_of(t, to), raw, -1, -1) : raw;
}

/* The same element at every point of the dimensions of mask. */
static bool is_uniform(const gale__cpu_tape *t, const gale__nest_access *a, uint32_t mask)
{
    for (int d = 0; d < t->n_dims; d++)
        if (mask >> d & 1 && a->stride[d]) return false;
    return !a->n_guards;
}

static int emit_load(gale__cpu_tape *t, const gale__nest_instr *in)
{
    const gale__nest_access *access = &t->nest->accesses[in->access];
    gale__simd_fn *widen = t->simd->widen[access->type];
    if (is_uniform(t, access, UINT32_MAX) && !t->nest->buffers[access->buffer].written)
        return add_const(
            t, (gale__cpu_tape_const){.size = (uint8_t)gale__simd_type_size(gale__simd_type_of(access->type)),
                   .access = access,
                   .fn = widen});
    int raw = widen ? gale__cpu_tape_reg(t, (int)gale_type_size(access->type)) : -1, d = reg_of(t, access->type);
    gale__cpu_tape_step(t, (gale__cpu_step){.kind = GALE__CPU_STEP_LOAD,
                               .size = (uint8_t)storage_log2(access->type),
                               .d = d,
                               .a = -1,
                               .b = -1,
                               .c = raw,
                               .access = access,
                               .fn = widen});
    if (t->lane_dims && !t->failed) t->regs[d].uniform = is_uniform(t, access, t->lane_dims);
    return d;
}

static int emit_take(gale__cpu_tape *t, const gale__nest_instr *in, const int *reg)
{
    const gale__nest_access *access = &t->nest->accesses[in->access];
    gale__simd_fn *widen = t->simd->widen[access->type];
    int index =
        gale__cpu_tape_convert(t, reg[in->a], gale__simd_type_of((gale_type)t->nest->code[in->a].type), GALE_I64);
    int places = gale__cpu_tape_reg(t, 8), d = reg_of(t, access->type);
    int raw = widen ? gale__cpu_tape_reg(t, (int)gale_type_size(access->type)) : -1;
    gale__cpu_tape_step(t, (gale__cpu_step){.kind = GALE__CPU_STEP_TAKE,
                               .size = (uint8_t)storage_log2(access->type),
                               .d = d,
                               .a = index,
                               .b = places,
                               .c = raw,
                               .access = access,
                               .fn = widen,
                               .imm = in->imm});
    return d;
}

void gale__cpu_tape_emit_take_rows(gale__cpu_tape *t, int i, const gale__cpu_spot *spot, int index, int *reg)
{
    gale_type type = spot->base->type;
    gale__simd_fn *widen = t->simd->widen[type];
    int d = reg_of(t, type), raw = widen ? gale__cpu_tape_reg(t, (int)gale_type_size(type)) : -1;
    gale__cpu_tape_step(t, (gale__cpu_step){.kind = GALE__CPU_STEP_TAKE_ROWS,
                               .size = (uint8_t)storage_log2(type),
                               .d = d,
                               .a = index,
                               .b = -1,
                               .c = raw,
                               .spot = spot,
                               .fn = widen,
                               .imm = t->nest->code[i].imm});
    reg[i] = d;
}

gale_status gale__cpu_tape_emit(gale__cpu_tape *t, int i, int *reg)
{
    const gale__nest_instr *in = &t->nest->code[i];
    gale_type type = (gale_type)in->type;
    if (in->op < GALE__SCALAR_COUNT && in->op != GALE__CAST && in->op != GALE__BITCAST)
        return emit_scalar(t, in, reg, &reg[i]);
    switch (in->op) {
    case GALE__CAST:
        reg[i] = gale__cpu_tape_convert(t, reg[in->a], gale__simd_type_of((gale_type)t->nest->code[in->a].type), type);
        break;
    case GALE__BITCAST: reg[i] = emit_bitcast(t, reg[in->a], (gale_type)t->nest->code[in->a].type, type); break;
    case GALE__NEST_CONST:
        reg[i] = gale__cpu_tape_const_reg(t, gale__simd_type_size(gale__simd_type_of(type)), in->imm);
        break;
    case GALE__NEST_LOAD: reg[i] = emit_load(t, in); break;
    case GALE__NEST_TAKE: reg[i] = emit_take(t, in, reg); break;
    case GALE__NEST_INDEX: {
        int d = gale__cpu_tape_reg(t, 8);
        gale__cpu_tape_step(t, (gale__cpu_step){.kind = GALE__CPU_STEP_INDEX,
                                   .size = 3,
                                   .d = d,
                                   .a = -1,
                                   .b = -1,
                                   .c = -1,
                                   .access = &t->nest->accesses[in->access]});
        reg[i] = gale__cpu_tape_convert(t, d, GALE__SIMD_TYPE_I64, type);
        break;
    }
    default: return gale__fail(GALE_UNSUPPORTED, "cpu kernel: instruction %d has the unknown operation %d", i, in->op);
    }
    return GALE_OK;
}

void gale__cpu_tape_emit_store(gale__cpu_tape *t, const gale__nest_store *store, const int *reg)
{
    const gale__nest_access *access = &t->nest->accesses[store->access];
    gale_type from = (gale_type)t->nest->code[store->value].type;
    int value = reg[store->value], index = -1;
    /* A store narrows from the compute type; a value of another compute type is cast first. */
    if (gale__simd_type_of(from) != gale__simd_type_of(access->type))
        value = gale__cpu_tape_convert(t, value, gale__simd_type_of(from), gale__compute_type(access->type));
    if (store->index >= 0)
        index = gale__cpu_tape_convert(
            t, reg[store->index], gale__simd_type_of((gale_type)t->nest->code[store->index].type), GALE_I64);
    gale__simd_fn *narrow = t->simd->narrow[access->type];
    int raw = narrow ? gale__cpu_tape_reg(t, (int)gale_type_size(access->type)) : -1;
    gale__cpu_tape_step(t, (gale__cpu_step){.kind = index >= 0 ? GALE__CPU_STEP_SCATTER : GALE__CPU_STEP_STORE,
                               .size = (uint8_t)storage_log2(access->type),
                               .d = -1,
                               .a = value,
                               .b = index,
                               .c = raw,
                               .access = access,
                               .fn = narrow,
                               .imm = (uint64_t)store->limit});
}

/* The registers of a step: d, a, b, c; -1: none. */
static void regs_of(const gale__cpu_step *s, int32_t out[4])
{
    out[0] = s->kind == GALE__CPU_STEP_KEEP ? -1 : s->d;
    out[1] = s->kind == GALE__CPU_STEP_RECALL ? -1 : s->a;
    out[2] = s->b;
    out[3] = s->c;
}

/* First and last use of every register; what a loop reads and was made before must outlive the loop. */
static void find_lives(gale__cpu_tape *t, const gale__cpu_loop *loops, int n_loops)
{
    int32_t used[4];
    for (size_t i = 0; i < t->n_regs; i++) t->regs[i].first = t->regs[i].last = -1;
    for (int s = 0; s < (int)t->n_steps; s++) {
        regs_of(&t->steps[s], used);
        for (int k = 0; k < 4; k++) {
            if (used[k] < 0) continue;
            gale__cpu_reg *r = &t->regs[used[k]];
            if (r->first < 0) r->first = s;
            if (s > r->last) r->last = s;
        }
    }
    for (size_t i = 0; i < t->n_regs; i++)
        if (t->regs[i].kept) t->regs[i].last = INT32_MAX - 1;
    for (int l = 0; l < n_loops; l++) {
        int first = loops[l].first->first, last = loops[l].last->first + loops[l].last->count - 1;
        for (int s = first; s <= last; s++) {
            regs_of(&t->steps[s], used);
            for (int k = 0; k < 4; k++)
                if (used[k] >= 0 && t->regs[used[k]].first < first && t->regs[used[k]].last < last)
                    t->regs[used[k]].last = last;
        }
    }
}

/* Constants, and loads that are the same in all lanes, of which no step reads more than lane 0. */
static void find_singles(gale__cpu_tape *t)
{
    for (size_t i = 0; i < t->n_regs; i++)
        t->regs[i].single = (t->regs[i].fixed || t->regs[i].uniform) && !t->regs[i].kept;
    for (size_t s = 0; s < t->n_steps; s++) {
        int32_t used[4];
        regs_of(&t->steps[s], used);
        for (int k = t->steps[s].kind == GALE__CPU_STEP_LOAD ? 1 : 0; k < 4; k++)
            if (used[k] >= 0 && !(k >= 2 && t->steps[s].numbers >> (k - 2) & 1)) t->regs[used[k]].single = false;
    }
}

/* Steps before `end` have a lane for each row. */
static void find_by_row(gale__cpu_tape *t, int end)
{
    for (size_t i = 0; i < t->n_regs; i++) t->regs[i].by_row = t->regs[i].last >= 0 && t->regs[i].last < end;
}

/* Slots are given out step by step and taken back after the last use. */
static void assign_slots(gale__cpu_tape *t, int *free_list)
{
    int n_free = 0;
    for (size_t i = 0; i < t->n_regs; i++)
        if (t->regs[i].single) t->regs[i].slot = t->n_singles++;
        else if (t->regs[i].fixed) t->regs[i].slot = t->n_slots++;
    for (int s = 0; s < (int)t->n_steps; s++) {
        const gale__cpu_step *step = &t->steps[s];
        int32_t used[4];
        regs_of(step, used);
        for (int k = 0; k < 4; k++)
            if (used[k] >= 0 && t->regs[used[k]].slot < 0)
                t->regs[used[k]].slot = n_free ? free_list[--n_free] : t->n_slots++;
        for (int k = 0; k < 4; k++) {
            gale__cpu_reg *r = used[k] >= 0 ? &t->regs[used[k]] : NULL;
            if (!r || r->fixed || r->single || r->last > s) continue;
            r->last = INT32_MAX; /* once, though it may be read twice */
            free_list[n_free++] = r->slot;
        }
    }
}

/* One operation that reads from memory and writes to memory: the block need not fit anywhere. */
static bool goes_through(const gale__cpu_tape *t, int from)
{
    int ops = 0, last = t->nest->n_outer - 1;
    const gale__cpu_step *load = t->n_steps == (size_t)from + 2 ? &t->steps[from] : NULL;
    if (load && load->out && last >= 0 && !t->nest->n_inner) { /* a copy, unless it is a transposition */
        int64_t step = load->access->stride[last];
        if (step > -4 && step < 4 && load->out->stride[last] == 1) return true;
    }
    for (size_t s = (size_t)from; s < t->n_steps; s++) {
        const gale__cpu_step *step = &t->steps[s];
        bool op = step->kind == GALE__CPU_STEP_OP || step->kind == GALE__CPU_STEP_TRIPLE ||
                  step->kind == GALE__CPU_STEP_TAKE_ROWS;
        ops += op;
        if (op && step->access) continue;
        if (step->kind != GALE__CPU_STEP_LOAD && step->kind != GALE__CPU_STEP_STORE) return false;
        if (step->fn || last < 0 || step->access->stride[last] != 1 || step->access->n_guards) return false;
    }
    return ops == 1 && !t->nest->n_inner;
}

gale_status gale__cpu_tape_finish_build(gale__cpu_tape *t, gale__cpu_section *const *sections, int n,
    const gale__cpu_loop *loops, int n_loops, size_t lanes)
{
    if (t->failed)
        return gale__fail(
            GALE_NO_MEMORY, "cpu kernel: out of memory for a program of %d instructions", t->nest->n_code);
    int *free_list = gale__alloc((t->n_regs + 1) * sizeof *free_list);
    if (!free_list) return GALE_NO_MEMORY;
    find_lives(t, loops, n_loops);
    gale__cpu_tape_fuse(t, sections, n);
    find_lives(t, loops, n_loops);
    find_singles(t);
    int rows_end = t->by_row ? sections[0]->first + sections[0]->count : 0;
    find_by_row(t, rows_end);
    assign_slots(t, free_list);
    gale__free(free_list);
    size_t widest = 4;
    for (size_t i = 0; i < t->n_regs; i++)
        if (t->regs[i].size > widest) widest = t->regs[i].size;
    size_t block = L1_BYTES / (widest * (size_t)(t->n_slots ? t->n_slots : 1)) / 64 * 64;
    block = block < BLOCK_LEAST ? BLOCK_LEAST : block > BLOCK_MOST ? BLOCK_MOST : block;
    if (goes_through(t, rows_end)) block = BLOCK_THROUGH;
    if (lanes < block) block = (lanes + 15) / 16 * 16;
    t->block = block;
    t->slot_bytes = block * widest;
    return GALE_OK;
}

size_t gale__cpu_tape_slots_at(const gale__cpu_tape *t)
{
    return (t->n_regs * sizeof(void *) + (size_t)t->n_singles * 8 + 63) / 64 * 64;
}

size_t gale__cpu_tape_scratch_bytes(const gale__cpu_tape *t)
{
    return gale__cpu_tape_slots_at(t) + (size_t)t->n_slots * t->slot_bytes + (size_t)t->n_cached * t->cache_lanes * 8;
}
