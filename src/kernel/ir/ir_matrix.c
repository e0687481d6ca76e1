/* Lowers matrix units and asynchronous copies to ordinary threads, for devices that have none.  A matrix is then the
 * location in work-group memory that it would be loaded from; each thread keeps a few elements of every sum; a copy is
 * a load and, as late as possible, a store: what is in between hides how long the load takes.  So the kernels for
 * matrix units run on every device, which is how they are tested. */
#include "kernel/ir/ir_util.h"
#include <string.h>

#define USUAL_SHARED (32u << 10) /* work-group memory of a device that does not report it */

/* A copy that is loaded, and not stored yet. */
typedef struct late_store {
    gale__ir_val array, at, loaded, ok;
    uint8_t width;
    bool sure; /* ok is true */
    int depth; /* nesting depth of its block */
} late_store;
#define MOST_LATE 64

typedef struct writer {
    const gale__ir *from;
    gale__ir *ir;
    gale__ir_plainly what;
    gale__ir_val *now; /* by instruction of `from` */
    uint32_t per;      /* sums that a thread keeps of each matrix */
    uint32_t rows;     /* rows of a matrix that these belong to: 1; with subgroups of 32, 2, as ir.h specifies */
    gale__ir_val row, column;
    late_store late[MOST_LATE];
    int n_late, depth;
} writer;

bool gale__ir_caps_have_matrix(const gale_device_caps *caps, gale_type operand)
{
    for (uint32_t i = 0; i < caps->n_matrix; i++) {
        const gale_matrix_shape *s = &caps->matrix[i];
        bool bytes = gale__ir_is_byte(operand);
        if (s->m == 16 && s->n == 16 && s->k == (bytes ? 32 : 16) && s->operand == operand &&
            s->sum == (bytes ? GALE_I32 : GALE_F32))
            return true;
    }
    return false;
}

bool gale__caps_run_matrix(const gale_device_caps *caps, gale_type operand)
{
    bool native = gale__ir_caps_have_matrix(caps, operand) && caps->subgroup >= 16 && caps->subgroup <= 128;
    return (native || caps->matrix_emulated) && (gale__ir_is_byte(operand) ? caps->storage8 : caps->storage16);
}

uint32_t gale__caps_matrix_bytes(const gale_device_caps *caps)
{
    uint32_t declared = caps->shared_bytes ? caps->shared_bytes : USUAL_SHARED, half = caps->shared_most_bytes / 2;
    return half > declared ? half : declared;
}

gale__ir_plainly gale__ir_plainly_for(const gale__ir *ir, const gale_device_caps *caps, bool copies)
{
    gale__ir_needs needs = gale__ir_get_needs(ir);
    bool native = caps->subgroup == ir->subgroup;
    if (needs.matrix & 1) native = native && gale__ir_caps_have_matrix(caps, GALE_F16);
    if (needs.matrix & 2) native = native && gale__ir_caps_have_matrix(caps, GALE_BF16);
    if (needs.matrix & 4) native = native && gale__ir_caps_have_matrix(caps, GALE_I8);
    if (needs.quads) native = native && caps->matrix_quads;
    return (gale__ir_plainly){.matrix = needs.sums && !native, .copies = needs.copies && !copies};
}

static gale__ir_val op2(writer *w, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(w->ir, op, GALE_U32, a, b);
}
static gale__ir_val op_const(writer *w, int op, gale__ir_val a, uint64_t b)
{
    return op2(w, op, a, gale__ir_u32(w->ir, (uint32_t)b));
}

/* --- sums --- */

static gale__ir_val declare_sums(writer *w, const gale__ir_instr *in)
{
    gale__ir *ir = w->ir;
    if (!w->row) {
        gale__ir_val thread = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
        gale__ir_val lane = op_const(w, GALE__AND, thread, w->from->subgroup - 1u),
                     first = op_const(w, GALE__MUL, lane, w->per);
        bool quads = w->rows == 2;
        w->row = quads ? op_const(w, GALE__IR_SHR, lane, 2) : op_const(w, GALE__IR_SHR, first, 4);
        w->column =
            quads ? op_const(w, GALE__MUL, op_const(w, GALE__AND, lane, 3), 2) : op_const(w, GALE__AND, first, 15);
    }
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ARRAY, .type = in->type, .imm = in->imm * w->per});
}

static gale__ir_val index_of_sum(writer *w, const gale__ir_instr *in, uint32_t i)
{
    return gale__ir_u32(w->ir, (uint32_t)in->imm * w->per + i);
}

static gale_type sum_type(const writer *w, const gale__ir_instr *in) { return (gale_type)w->from->code[in->a].type; }

/* Which of a thread's sums lies in its row r and column c. */
static uint32_t number_of(const writer *w, uint32_t r, uint32_t c)
{
    return w->rows == 2 ? c / 2 * 4 + r * 2 + c % 2 : c;
}
static gale__ir_val row_of(writer *w, uint32_t r) { return op_const(w, GALE__ADD, w->row, 8 * r); }
static gale__ir_val column_of(writer *w, uint32_t c)
{
    return op_const(w, GALE__ADD, w->column, w->rows == 2 ? c / 2 * 8 + c % 2 : c);
}

static void zero_sums(writer *w, const gale__ir_instr *in)
{
    gale_type type = sum_type(w, in);
    for (uint32_t i = 0; i < w->per; i++)
        gale__ir_op3(w->ir, GALE__IR_SET, type, w->now[in->a], index_of_sum(w, in, i), gale__ir_const(w->ir, type, 0));
}

/* Where this subgroup's matrix of rounded sums begins. */
static gale__ir_val matrix_at(writer *w)
{
    gale__ir_val thread = gale__ir_add(w->ir, (gale__ir_instr){.op = GALE__IR_LOCAL_ID, .type = GALE_U32});
    return op_const(w, GALE__MUL, op_const(w, GALE__IR_DIV, thread, w->from->subgroup), 256);
}

/* Element (side, k) of an operand: `along_k` tells whether k runs along the rows in memory. */
static gale__ir_val element(writer *w, const gale__ir_instr *matrix, bool along_k, gale__ir_val side, gale__ir_val k)
{
    gale__ir *ir = w->ir;
    gale__ir_val row = along_k ? side : k, column = along_k ? k : side;
    if (matrix->op == GALE__IR_MATRIX_SUMS) {
        gale__ir_val at = op2(w, GALE__ADD, op2(w, GALE__ADD, matrix_at(w), op_const(w, GALE__MUL, side, 16)), k);
        return gale__ir_decode(
            ir, (gale_type)matrix->type, gale__ir_op2(ir, GALE__IR_GET, GALE_U32, w->now[matrix - w->from->code], at));
    }
    gale__ir_val at = op2(w, GALE__ADD, w->now[matrix->b], op_const(w, GALE__MUL, row, matrix->imm));
    gale__ir_val code = gale__ir_op2(ir, GALE__IR_GET, GALE_U32, w->now[matrix->a], op2(w, GALE__ADD, at, column));
    if (!gale__ir_is_byte(matrix->type)) return gale__ir_decode(ir, (gale_type)matrix->type, code);
    code = gale__ir_op1(ir, GALE__BITCAST, GALE_I32, code);
    return matrix->type == GALE_I8 ? gale__ir_narrow(ir, GALE_I8, code) : code;
}

/* Products of f16 and of bf16 are exact in f32, and those of bytes in i32, so a multiplication and an addition do what
 * one instruction would. */
static void add_product(writer *w, const gale__ir_instr *in)
{
    gale__ir *ir = w->ir;
    const gale__ir_instr *a = &w->from->code[in->b], *b = &w->from->code[in->c];
    gale__ir_val k = gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_FOR,
                                          .type = GALE_U32,
                                          .a = gale__ir_u32(ir, 0),
                                          .b = gale__ir_u32(ir, gale__ir_is_byte(a->type) ? 32 : 16),
                                          .c = gale__ir_u32(ir, 1)});
    gale_type type = sum_type(w, in);
    uint32_t columns = w->per / w->rows;
    gale__ir_val x[2], y[16];
    for (uint32_t r = 0; r < w->rows; r++) x[r] = element(w, a, !a->mem, row_of(w, r), k);
    for (uint32_t c = 0; c < columns; c++) y[c] = element(w, b, b->mem, column_of(w, c), k);
    for (uint32_t i = 0; i < w->per; i++) {
        uint32_t r = i / columns, c = i % columns;
        gale__ir_val at = index_of_sum(w, in, number_of(w, r, c)),
                     old = gale__ir_op2(ir, GALE__IR_GET, type, w->now[in->a], at);
        gale__ir_val sum = gale__ir_op2(ir, GALE__ADD, type, old, gale__ir_op2(ir, GALE__MUL, type, x[r], y[c]));
        gale__ir_op3(ir, GALE__IR_SET, type, w->now[in->a], at, sum);
    }
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_END});
}

static void store_sums(writer *w, const gale__ir_instr *in)
{
    gale__ir *ir = w->ir;
    gale_type type = sum_type(w, in);
    uint32_t columns = w->per / w->rows;
    for (uint32_t i = 0; i < w->per; i++) {
        uint32_t r = i / columns, c = i % columns;
        gale__ir_val at = op2(w, GALE__ADD, w->now[in->c], op_const(w, GALE__MUL, row_of(w, r), in->imm >> 32));
        gale__ir_val v = gale__ir_op2(ir, GALE__IR_GET, type, w->now[in->a], index_of_sum(w, in, number_of(w, r, c)));
        gale__ir_op3(ir, GALE__IR_SET, type, w->now[in->b], op2(w, GALE__ADD, at, column_of(w, c)), v);
    }
}

/* Sums as an operand: rounded, through work-group memory of their own. */
static gale__ir_val round_sums(writer *w, const gale__ir_instr *in)
{
    gale__ir *ir = w->ir;
    uint32_t columns = w->per / w->rows;
    gale__ir_val to = gale__ir_add(ir,
        (gale__ir_instr){.op = GALE__IR_SHARED, .type = GALE_U16, .imm = w->from->group[0] / w->from->subgroup * 256u});
    gale__ir_val first = op_const(w, GALE__MUL, w->now[in->b], w->per), begin = matrix_at(w);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER});
    for (uint32_t i = 0; i < w->per; i++) {
        uint32_t r = i / columns, c = i % columns;
        gale__ir_val v =
            gale__ir_op2(ir, GALE__IR_GET, GALE_F32, w->now[in->a], op_const(w, GALE__ADD, first, number_of(w, r, c)));
        gale__ir_val at =
            op2(w, GALE__ADD, begin, op2(w, GALE__ADD, op_const(w, GALE__MUL, row_of(w, r), 16), column_of(w, c)));
        gale__ir_op3(ir, GALE__IR_SET, GALE_U32, to, at, gale__ir_encode(ir, (gale_type)in->type, v));
    }
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER});
    return to;
}

/* --- copies --- */

static void store_copy(writer *w, const late_store *c)
{
    gale__ir *ir = w->ir;
    gale_type mem = (gale_type)ir->code[c->array].type;
    gale__ir_val lanes[4], none = gale__ir_u32(ir, 0);
    for (int i = 0; i < c->width; i++) {
        gale__ir_val word = c->width > 1 ? gale__ir_lane(ir, c->loaded, i) : c->loaded;
        lanes[i] = c->sure ? word : gale__ir_op3(ir, GALE__SELECT, GALE_U32, c->ok, word, none);
    }
    if (c->width > 1) {
        gale__ir_set_lanes(ir, c->array, GALE_U32, c->width, c->at, lanes);
        return;
    }
    /* One word: as the array's own elements. */
    int size = gale__type_table[mem].size, parts = 4 / size;
    if (size == 4) lanes[0] = gale__ir_op1(ir, GALE__BITCAST, gale__compute_type(mem), lanes[0]);
    for (int i = parts - 1; i > 0; i--) lanes[i] = op_const(w, GALE__IR_SHR, lanes[0], (uint64_t)(32 * i / parts));
    gale__ir_set_lanes(ir, c->array, mem, parts, c->at, lanes);
}

/* Stores the pending copies of this block and of those inside it. */
static void store_copies(writer *w, int depth)
{
    int first = w->n_late;
    while (first && w->late[first - 1].depth >= depth) first--;
    for (int i = first; i < w->n_late; i++) store_copy(w, &w->late[i]);
    w->n_late = first;
}

static void copy(writer *w, const gale__ir_instr *in)
{
    gale__ir *ir = w->ir;
    gale__ir_val at = w->now[in->c], ok = w->now[in->d];
    gale_type index = gale__ir_type(ir, at);
    int size = gale__type_table[w->from->code[in->a].type].size, shift = size == 1 ? 2 : size == 2 ? 1 : 0;
    if (size == 8) at = gale__ir_op2(ir, GALE__IR_SHL, index, at, gale__ir_const(ir, index, 1));
    if (shift) at = gale__ir_op2(ir, GALE__IR_SHR, index, at, gale__ir_const(ir, index, (uint64_t)shift));
    uint64_t bits;
    bool sure = gale__ir_is_const(ir, ok, &bits) && bits;
    if (!sure) at = gale__ir_op3(ir, GALE__SELECT, index, ok, at, gale__ir_const(ir, index, 0));
    gale__ir_val v = gale__ir_load(ir, (int)in->imm, GALE_U32, in->width, at);
    if (w->n_late == MOST_LATE) store_copies(w, w->depth);
    w->late[w->n_late++] = (late_store){.array = w->now[in->a],
        .at = w->now[in->b],
        .loaded = v,
        .ok = ok,
        .sure = sure,
        .width = in->width,
        .depth = w->depth};
}

/* Whether threads wait for copies in the block that begins at v. */
static bool waits_inside(const gale__ir *ir, gale__ir_val v)
{
    int depth = 0;
    do {
        int op = ir->code[v].op;
        if (op == GALE__IR_WAIT || (op == GALE__IR_BARRIER && ir->code[v].imm != 2)) return true;
        depth += (op == GALE__IR_FOR || op == GALE__IR_IF) - (op == GALE__IR_END);
    } while (depth && ++v < ir->count);
    return false;
}

/* Stores pending copies that must be complete before the instruction. */
static void follow_copies(writer *w, gale__ir_val v, const gale__ir_instr *in)
{
    bool opens = in->op == GALE__IR_FOR || in->op == GALE__IR_IF, closes = in->op == GALE__IR_END;
    if (closes || in->op == GALE__IR_ELSE) store_copies(w, w->depth);
    bool waits = in->op == GALE__IR_WAIT || (in->op == GALE__IR_BARRIER && in->imm != 2);
    if (waits || (opens && w->n_late && waits_inside(w->from, v))) store_copies(w, 0);
    w->depth += opens - closes;
}

/* True if the instruction was replaced. */
static bool replace(writer *w, gale__ir_val v, const gale__ir_instr *in)
{
    switch (in->op) {
    case GALE__IR_COPY:
        if (w->what.copies) copy(w, in);
        return w->what.copies;
    case GALE__IR_COMMIT:
    case GALE__IR_WAIT: return w->what.copies;
    default: break;
    }
    if (!w->what.matrix) return false;
    switch (in->op) {
    case GALE__IR_MATRIX_A:
    case GALE__IR_MATRIX_B: return true;
    case GALE__IR_SUMS: w->now[v] = declare_sums(w, in); return true;
    case GALE__IR_SUMS_ZERO: zero_sums(w, in); return true;
    case GALE__IR_SUMS_ADD: add_product(w, in); return true;
    case GALE__IR_SUMS_STORE: store_sums(w, in); return true;
    case GALE__IR_MATRIX_SUMS: w->now[v] = round_sums(w, in); return true;
    default: return false;
    }
}

gale_status gale__ir_write_plainly(const gale__ir *ir, gale__ir_plainly what, gale__ir *out)
{
    writer w = {.from = ir,
        .ir = out,
        .what = what,
        .per = ir->subgroup ? 256u / ir->subgroup : 0,
        .rows = ir->subgroup == 32 ? 2 : 1};
    w.now = gale__calloc(ir->count + 1u, sizeof *w.now);
    if (!w.now) return GALE_NO_MEMORY;
    gale__ir_init_like(out, ir);
    if (what.matrix) out->subgroup = 0;
    for (gale__ir_val v = 1; v < ir->count && !out->failed; v++) {
        gale__ir_instr in = ir->code[v];
        if (what.copies) follow_copies(&w, v, &in);
        if (replace(&w, v, &in)) continue;
        if (in.op == GALE__IR_BARRIER && in.imm == 2 && what.matrix) in.imm = 0; /* there are no subgroups */
        in.a = w.now[in.a], in.b = w.now[in.b], in.c = w.now[in.c], in.d = w.now[in.d];
        w.now[v] = gale__ir_add(out, in);
    }
    gale__free(w.now);
    gale_status status = gale__ir_check(out);
    if (status != GALE_OK) gale__ir_finish(out);
    return status;
}
