/* Checks that a kernel is well formed before a driver sees it: drivers' messages about bad code are rarely helpful,
 * and some drivers crash.  Types follow one rule per operation; a value is visible until the end of its block. */
#include "kernel/ir/ir_util.h"
#include <string.h>

typedef struct checker {
    const gale__ir *ir;
    bool *visible; /* by value */
    struct {
        gale__ir_val start;
        uint8_t op;
    } block[64];
    int depth;
} checker;

static gale_status bad(const checker *c, gale__ir_val v, const char *what)
{
    return gale__fail(GALE_INTERNAL, "kernel %s: instruction %u (%s): %s", c->ir->name, v,
        gale__ir_op_get(c->ir->code[v].op).name, what);
}

static bool is_compute(gale_type t)
{
    return t == GALE_BOOL || t == GALE_I32 || t == GALE_U32 || t == GALE_I64 || t == GALE_U64 || t == GALE_F32 ||
           t == GALE_F64;
}
static bool is_float(gale_type t) { return t == GALE_F32 || t == GALE_F64; }
static bool is_int(gale_type t) { return is_compute(t) && !is_float(t) && t != GALE_BOOL; }
static bool is_mem(gale_type t)
{
    return (is_compute(t) && t != GALE_BOOL) || t == GALE_I8 || t == GALE_U8 || t == GALE_I16 || t == GALE_U16;
}
static gale_type type_of(const checker *c, gale__ir_val v) { return (gale_type)c->ir->code[v].type; }
static bool is_matrix(const checker *c, gale__ir_val v)
{
    int op = c->ir->code[v].op;
    return op == GALE__IR_MATRIX_A || op == GALE__IR_MATRIX_B || op == GALE__IR_MATRIX_SUMS;
}
static bool is_scalar(const checker *c, gale__ir_val v)
{
    return c->ir->code[v].width == 1 && gale__ir_op_get(c->ir->code[v].op).kind != GALE__IR_DECLARE && !is_matrix(c, v);
}
static bool is_array(const checker *c, gale__ir_val v)
{
    return c->ir->code[v].op == GALE__IR_SHARED || c->ir->code[v].op == GALE__IR_ARRAY;
}
static bool is_shared(const checker *c, gale__ir_val v) { return c->ir->code[v].op == GALE__IR_SHARED; }

/* Which operand types an arithmetic operation takes. */
static bool takes(int op, gale_type t)
{
    switch (op) {
    case GALE__FLOOR:
    case GALE__CEIL:
    case GALE__RINT:
    case GALE__TRUNC:
    case GALE__SQRT:
    case GALE__FMA:
    case GALE__ABS: return is_float(t);
    case GALE__NOT:
    case GALE__AND:
    case GALE__OR:
    case GALE__XOR: return !is_float(t);
    case GALE__IR_REM:
    case GALE__IR_SHL:
    case GALE__IR_SHR: return is_int(t);
    case GALE__IR_FMA_HALVES:
    case GALE__IR_MULHI: return t == GALE_U32;
    case GALE__IR_MIN_NAN:
    case GALE__IR_MAX_NAN:
    case GALE__IR_FAST_EXP:
    case GALE__IR_FAST_EXP2:
    case GALE__IR_FAST_LOG:
    case GALE__IR_FAST_LOG2:
    case GALE__IR_FAST_SIN:
    case GALE__IR_FAST_COS:
    case GALE__IR_FAST_SQRT:
    case GALE__IR_FAST_DIV:
    case GALE__IR_FAST_QUOTIENT: return t == GALE_F32;
    case GALE__EQ:
    case GALE__NE: return true;
    default: return t != GALE_BOOL;
    }
}

static gale_status check_arithmetic(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (in->op < GALE__SCALAR_COUNT && gale__scalar_table[in->op].class_ != 'r')
        return bad(c, v, "not expanded (use gale__ir_scalar)");
    gale__ir_val operands[4];
    int n = gale__ir_operands(in, operands);
    gale_type t = type_of(c, operands[0]);
    for (int i = 0; i < n; i++)
        if (!is_scalar(c, operands[i]) || type_of(c, operands[i]) != t) return bad(c, v, "operands differ in type");
    if (!takes(in->op, t)) return bad(c, v, "not defined for this type");
    if (in->type != (gale__ir_is_compare(in->op) ? GALE_BOOL : t)) return bad(c, v, "the result has the wrong type");
    return GALE_OK;
}

/* Operations whose operands differ in type. */
static gale_status check_mixed(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    gale_type a = type_of(c, in->a), type = (gale_type)in->type;
    switch (in->op) {
    case GALE__SELECT:
        if (a != GALE_BOOL || type_of(c, in->b) != type || type_of(c, in->c) != type)
            return bad(c, v, "the two choices differ in type");
        break;
    case GALE__BITCAST:
        if (a == GALE_BOOL || type == GALE_BOOL || gale__ir_bits(a) != gale__ir_bits(type))
            return bad(c, v, "sizes differ");
        break;
    case GALE__IR_CONVERT:
        if (type == GALE_BOOL) return bad(c, v, "to BOOL: compare with 0 instead");
        break;
    case GALE__IR_F16_TO_F32:
        if (a != GALE_U32 || type != GALE_F32) return bad(c, v, "U32 -> F32");
        break;
    case GALE__IR_F32_TO_F16:
        if (a != GALE_F32 || type != GALE_U32) return bad(c, v, "F32 -> U32");
        break;
    case GALE__IR_SATURATE:
        if (a != GALE_F32 || (type != GALE_I32 && type != GALE_U32)) return bad(c, v, "F32 -> I32 or U32");
        if (in->imm != 8 && in->imm != 16 && in->imm != 32) return bad(c, v, "must have 8, 16 or 32 bits");
        break;
    case GALE__IR_JOIN_BYTES:
        if (a != GALE_I32 || type_of(c, in->b) != GALE_I32 || type_of(c, in->c) != GALE_U32 || type != GALE_U32)
            return bad(c, v, "I32, I32, U32 -> U32");
        break;
    case GALE__IR_SHUFFLE_XOR:
        if (gale__ir_bits(type) != 32 || a != type) return bad(c, v, "32-bit types only");
        break;
    default: break;
    }
    gale__ir_val operands[4];
    int n = gale__ir_operands(in, operands);
    for (int i = 0; i < n; i++)
        if (!is_scalar(c, operands[i])) return bad(c, v, "scalars only");
    return GALE_OK;
}

static gale_status check_vector(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (in->op == GALE__IR_EXTRACT) {
        if (in->imm >= c->ir->code[in->a].width || type_of(c, in->a) != in->type)
            return bad(c, v, "invalid lane or type");
        return GALE_OK;
    }
    gale__ir_val operands[4];
    int n = gale__ir_operands(in, operands);
    for (int i = 0; i < n; i++)
        if (!is_scalar(c, operands[i]) || type_of(c, operands[i]) != in->type) return bad(c, v, "lanes differ in type");
    return in->width < 2 ? bad(c, v, "width") : GALE_OK;
}

static gale_status check_memory(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    gale_type mem = (gale_type)in->mem, index = type_of(c, in->a);
    if (in->imm >= (uint64_t)c->ir->n_pointers) return bad(c, v, "no such pointer parameter");
    if (!is_mem(mem) || in->type != gale__compute_type(mem)) return bad(c, v, "invalid memory type");
    if ((index != GALE_U32 && index != GALE_U64) || !is_scalar(c, in->a)) return bad(c, v, "index must be U32 or U64");
    if (in->width * gale__type_table[mem].size > 16)
        return bad(c, v, "vector of more than 16 bytes (gale__ir_load_as splits)");
    if (in->op == GALE__IR_LOAD) return GALE_OK;
    const gale__ir_instr *value = &c->ir->code[in->b];
    if (c->ir->readonly >> in->imm & 1) return bad(c, v, "pointer is read-only");
    if (value->type != in->type || value->width != in->width || is_array(c, in->b))
        return bad(c, v, "value of another type");
    if (in->width > 1 && value->op != GALE__IR_PACK && value->mem != in->mem)
        return bad(c, v, "vector of another memory type");
    return GALE_OK;
}

static gale_status check_declaration(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    gale_type t = (gale_type)in->type;
    bool fits = in->op == GALE__IR_SHARED ? is_compute(t) || is_mem(t) : is_compute(t);
    if (!in->imm || in->imm >= 1u << 20 || !fits) return bad(c, v, "invalid element count or type");
    if (in->op != GALE__IR_SHARED || !in->a) return GALE_OK;
    if (in->a >= v || !c->visible[in->a] || !is_shared(c, in->a) || c->ir->code[in->a].a)
        return bad(c, v, "the array whose memory it reuses is not a work-group array");
    if (gale__ir_array_bytes(in) > gale__ir_array_bytes(&c->ir->code[in->a]))
        return bad(c, v, "larger than the array whose memory it reuses");
    return GALE_OK;
}

/* A vector in a work-group array, with its own element type. */
static gale_status check_neighbours(const checker *c, gale__ir_val v, const gale__ir_instr *in, gale_type type)
{
    gale_type mem = (gale_type)in->mem;
    if (!is_shared(c, in->a)) return bad(c, v, "only work-group arrays hold vectors");
    if (!is_mem(mem) || type != gale__compute_type(mem)) return bad(c, v, "invalid memory type");
    if (in->width * gale__type_table[mem].size > 16) return bad(c, v, "vector of more than 16 bytes");
    if (in->op == GALE__IR_GET || in->op == GALE__IR_GET_OF_CLUSTER) return GALE_OK;
    const gale__ir_instr *value = &c->ir->code[in->c];
    if (value->width != in->width || is_array(c, in->c)) return bad(c, v, "value of another width");
    if (value->op != GALE__IR_PACK && value->mem != in->mem) return bad(c, v, "vector of another memory type");
    return GALE_OK;
}

static bool is_index(const checker *c, gale__ir_val v) { return type_of(c, v) == GALE_U32 && is_scalar(c, v); }

static gale_status check_copy(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    gale_type index = type_of(c, in->c);
    if (in->imm >= (uint64_t)c->ir->n_pointers) return bad(c, v, "no such pointer parameter");
    if (!is_shared(c, in->a)) return bad(c, v, "not a work-group array");
    if (!is_index(c, in->b)) return bad(c, v, "index must be U32");
    if ((index != GALE_U32 && index != GALE_U64) || !is_scalar(c, in->c)) return bad(c, v, "index must be U32 or U64");
    if (in->width * 4 < gale__type_table[type_of(c, in->a)].size) return bad(c, v, "fewer bytes than an element");
    return type_of(c, in->d) == GALE_BOOL && is_scalar(c, in->d) ? GALE_OK : bad(c, v, "condition must be BOOL");
}

/* Whether matrices of these types have a product that the sums take. */
static bool summed(const gale__ir_instr *sums, int a, int b)
{
    if (sums->type == GALE_I32) return gale__ir_is_byte(a) && gale__ir_is_byte(b);
    return a == b && (a == GALE_F16 || a == GALE_BF16);
}

static int group_columns(const gale__ir_instr *in) { return gale__ir_is_byte(in->type) ? in->mem : in->type; }

/* Bytes lie along k: there is no way to turn them. */
static gale_status check_bytes(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (in->op == GALE__IR_MATRIX_SUMS) return bad(c, v, "sums are not rounded to bytes");
    if (!is_shared(c, in->a) || type_of(c, in->a) != GALE_U8) return bad(c, v, "not a work-group array of U8");
    if (!is_index(c, in->b) || !in->imm || in->imm % 16) return bad(c, v, "invalid index or row stride");
    return in->mem == (in->op == GALE__IR_MATRIX_B) ? GALE_OK : bad(c, v, "bytes must be stored along k");
}

static gale_status check_matrix(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    const gale__ir_instr *from = &c->ir->code[in->a];
    uint32_t threads = c->ir->subgroup;
    if (threads != 16 && threads != 32 && threads != 64 && threads != 128)
        return bad(c, v, "the subgroup size is not supported for matrices");
    if (c->ir->group[0] % threads || c->ir->group[1] != 1 || c->ir->group[2] != 1)
        return bad(c, v, "the work-group must be one-dimensional, of whole subgroups");
    if (in->op == GALE__IR_SUMS)
        return (in->type == GALE_F32 || in->type == GALE_I32) && in->imm && in->imm <= 64
                   ? GALE_OK
                   : bad(c, v, "invalid count or type");
    if (is_matrix(c, v)) {
        if (gale__ir_is_byte(in->type)) return check_bytes(c, v, in);
        if (in->type != GALE_F16 && in->type != GALE_BF16) return bad(c, v, "operands must be F16, BF16, I8 or U8");
        if (in->op == GALE__IR_MATRIX_SUMS)
            return from->op == GALE__IR_SUMS && is_index(c, in->b) && threads == 32 ? GALE_OK
                                                                                    : bad(c, v, "no such sums");
        if (!is_shared(c, in->a) || from->type != GALE_U16) return bad(c, v, "not a work-group array of U16");
        if (!is_index(c, in->b) || !in->imm || in->imm % 8) return bad(c, v, "invalid index or row stride");
        return GALE_OK;
    }
    uint32_t which = in->op == GALE__IR_GROUP_ADD ? (uint16_t)in->imm : (uint32_t)in->imm;
    if (from->op != GALE__IR_SUMS || which >= from->imm + (in->op == GALE__IR_GROUP_ADD))
        return bad(c, v, "no such sums");
    if (in->op == GALE__IR_GROUP_ADD)
        return which && which + (in->imm >> 32) <= from->imm && threads == 32 && c->ir->group[0] % 128 == 0 &&
                       is_shared(c, in->b) && is_index(c, in->c) && is_index(c, in->d) &&
                       summed(from, in->type, group_columns(in))
                   ? GALE_OK
                   : bad(c, v, "invalid array, index or type");
    if (in->op == GALE__IR_SUMS_ADD)
        return is_matrix(c, in->b) && c->ir->code[in->b].op != GALE__IR_MATRIX_B &&
                       c->ir->code[in->c].op == GALE__IR_MATRIX_B && summed(from, type_of(c, in->b), type_of(c, in->c))
                   ? GALE_OK
                   : bad(c, v, "operands are not matrices that these sums take");
    if (in->op == GALE__IR_SUMS_STORE && (!is_shared(c, in->b) || type_of(c, in->b) != from->type ||
                                             !is_index(c, in->c) || !(in->imm >> 32) || (in->imm >> 32) % 4))
        return bad(c, v, "invalid array, index or row stride");
    return GALE_OK;
}

static gale_status check_gate(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (!is_shared(c, in->a) || type_of(c, in->a) != GALE_U64 || !is_index(c, in->b)) return bad(c, v, "no such gate");
    if (in->op == GALE__IR_GATE_INIT && !in->imm) return bad(c, v, "the number of arrivals is 0");
    return in->op != GALE__IR_GATE_WAIT || is_index(c, in->c) ? GALE_OK : bad(c, v, "the count must be U32");
}

static bool has_gate(const checker *c, gale__ir_val v)
{
    while (v && c->ir->code[v].op != GALE__IR_GATE_EXPECT) v--;
    return v != 0;
}

static gale_status check_send(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (!c->ir->cluster) return bad(c, v, "the kernel has no clusters");
    if (!has_gate(c, v)) return bad(c, v, "no GATE_EXPECT before it");
    const gale__ir_instr *value = &c->ir->code[in->c];
    if (value->type != GALE_F32 || value->width != in->width || (in->width > 1 && value->op != GALE__IR_PACK))
        return bad(c, v, "only F32, and vectors as they are packed");
    return is_shared(c, in->a) && type_of(c, in->a) == GALE_F32 && is_index(c, in->b) && is_index(c, in->d)
               ? GALE_OK
               : bad(c, v, "invalid array, index or group");
}

static gale_status check_map_copy(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (!has_gate(c, v)) return bad(c, v, "no GATE_EXPECT before it");
    if ((in->imm & 255) >= c->ir->n_maps || in->imm >> 16 >= (uint64_t)c->ir->n_pointers)
        return bad(c, v, "no such map");
    bool place = in->imm >> 9 & 1 ? type_of(c, in->d) == GALE_U64 : is_index(c, in->d);
    return is_shared(c, in->a) && is_index(c, in->b) && is_index(c, in->c) && place
               ? GALE_OK
               : bad(c, v, "invalid array or index");
}

static gale_status check_meeting(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (in->imm >= (uint64_t)c->ir->n_pointers || c->ir->readonly >> in->imm & 1)
        return bad(c, v, "no such pointer parameter that can be written");
    if (!is_index(c, in->a) || (in->op == GALE__IR_AWAIT && !is_index(c, in->b)))
        return bad(c, v, "element and count must be U32");
    return c->depth && in->op == GALE__IR_ARRIVE && c->block[c->depth - 1].op == GALE__IR_IF
               ? bad(c, v, "inside a condition, which not all threads enter")
               : GALE_OK;
}

/* READY comes once, outside of all blocks, and after it everything that touches what other kernels do. */
static gale_status check_ready(const checker *c, gale__ir_val ready)
{
    if (c->depth) return bad(c, ready, "must be outside all blocks");
    for (gale__ir_val v = 1; v < ready; v++) {
        const gale__ir_instr *in = &c->ir->code[v];
        bool reads = in->op == GALE__IR_LOAD || in->op == GALE__IR_COPY || in->op == GALE__IR_MAP_COPY;
        bool writes = in->op == GALE__IR_STORE || in->op == GALE__IR_STORE_ADD;
        if (in->op == GALE__IR_READY || in->op == GALE__IR_ARRIVE || in->op == GALE__IR_AWAIT || writes ||
            (reads && !gale__ir_marks(c->ir->settled, in->op == GALE__IR_MAP_COPY ? in->imm >> 16 : in->imm)))
            return bad(c, v, "accesses device memory before READY");
    }
    return GALE_OK;
}

/* Barriers of a cluster, and what they order. */
static gale_status check_cluster(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (!c->ir->cluster) return bad(c, v, "the kernel has no clusters");
    if (in->op == GALE__IR_BARRIER) return c->depth ? bad(c, v, "must be outside all blocks") : GALE_OK;
    return in->width > 1 && is_index(c, in->c) ? GALE_OK : bad(c, v, "invalid width or group");
}

static gale_status check_array(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (gale__ir_op_get(in->op).kind == GALE__IR_DECLARE) return check_declaration(c, v, in);
    bool sums = c->ir->code[in->a].op == GALE__IR_SUMS && c->ir->subgroup == 32 && in->width == 1;
    if (!is_array(c, in->a) && !sums) return bad(c, v, "not an array");
    if (type_of(c, in->b) != GALE_U32 || !is_scalar(c, in->b)) return bad(c, v, "index must be U32");
    uint64_t index;
    if (gale__ir_is_const(c->ir, in->b, &index) && index >= c->ir->code[in->a].imm * (sums ? 8 : 1))
        return bad(c, v, "index past the end");
    bool gets = in->op == GALE__IR_GET || in->op == GALE__IR_GET_OF_CLUSTER;
    if (in->op == GALE__IR_GET_OF_CLUSTER) GALE_TRY(check_cluster(c, v, in));
    gale_type t = gets ? (gale_type)in->type : type_of(c, in->c);
    if (in->width > 1) return check_neighbours(c, v, in, t);
    gale_type element = type_of(c, in->a);
    if (t != (element == GALE_BOOL ? element : gale__compute_type(element))) return bad(c, v, "value of another type");
    return gets || is_scalar(c, in->c) ? GALE_OK : bad(c, v, "scalars only");
}

static void hide(checker *c, gale__ir_val from, gale__ir_val to)
{
    for (gale__ir_val v = from; v < to; v++)
        if (c->ir->code[v].op != GALE__IR_CONST) c->visible[v] = false;
}

static gale_status check_loop(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    uint64_t step, unused;
    if (in->type != GALE_U32 || type_of(c, in->a) != GALE_U32 || type_of(c, in->b) != GALE_U32)
        return bad(c, v, "bounds must be U32");
    if (!gale__ir_is_const(c->ir, in->c, &step) || step == 0) return bad(c, v, "step must be a constant above 0");
    if (in->imm > 2) return bad(c, v, "a loop is unrolled (1), is not (2), or as the compiler likes (0)");
    if (in->imm && (!gale__ir_is_const(c->ir, in->a, &unused) || !gale__ir_is_const(c->ir, in->b, &unused)))
        return bad(c, v, "only loops of constant bounds are unrolled");
    return GALE_OK;
}

static gale_status check_control(checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    if (in->op == GALE__IR_FOR) GALE_TRY(check_loop(c, v, in));
    if (in->op == GALE__IR_IF && type_of(c, in->a) != GALE_BOOL) return bad(c, v, "condition must be BOOL");
    if (in->op == GALE__IR_FOR || in->op == GALE__IR_IF) {
        if (c->depth == 64) return bad(c, v, "blocks are nested too deeply");
        c->block[c->depth].start = v;
        c->block[c->depth++].op = in->op;
        return GALE_OK;
    }
    if (!c->depth || (in->op == GALE__IR_ELSE && c->block[c->depth - 1].op != GALE__IR_IF))
        return bad(c, v, "END without FOR or IF");
    hide(c, c->block[c->depth - 1].start, v);
    if (in->op == GALE__IR_END) c->depth--;
    else c->block[c->depth - 1].start = v, c->block[c->depth - 1].op = GALE__IR_ELSE;
    return GALE_OK;
}

static gale_status check_leaf(const checker *c, gale__ir_val v, const gale__ir_instr *in)
{
    bool id = in->op == GALE__IR_GROUP_ID || in->op == GALE__IR_LOCAL_ID || in->op == GALE__IR_GROUP_COUNT;
    if (id && (in->imm > 2 || in->type != GALE_U32)) return bad(c, v, "invalid dimension or type");
    if (in->op == GALE__IR_WORD) {
        uint64_t size = gale__ir_bits((gale_type)in->type) / 32;
        if (in->type == GALE_BOOL || in->imm + size > (uint64_t)c->ir->n_words)
            return bad(c, v, "no such parameter word");
        if (size == 2 && in->imm % 2) return bad(c, v, "64-bit words start at an even one");
    }
    return GALE_OK;
}

static gale_status check_instr(checker *c, gale__ir_val v)
{
    const gale__ir_instr *in = &c->ir->code[v];
    gale__ir_val operands[4];
    if (in->op >= GALE__IR_COUNT)
        return gale__fail(GALE_INTERNAL, "kernel %s: instruction %u: no such operation", c->ir->name, v);
    if (in->width != 1 && in->width != 2 && in->width != 4) return bad(c, v, "width");
    int n = gale__ir_operands(in, operands);
    for (int i = 0; i < n; i++)
        if (!operands[i] || operands[i] >= v || !c->visible[operands[i]])
            return bad(c, v, "operand is not defined here");
    switch (in->op) {
    case GALE__SELECT:
    case GALE__BITCAST:
    case GALE__IR_CONVERT:
    case GALE__IR_SATURATE:
    case GALE__IR_JOIN_BYTES:
    case GALE__IR_F16_TO_F32:
    case GALE__IR_F32_TO_F16:
    case GALE__IR_SHUFFLE_XOR: return check_mixed(c, v, in);
    case GALE__IR_EXTRACT:
    case GALE__IR_PACK: return check_vector(c, v, in);
    case GALE__IR_LOAD:
    case GALE__IR_STORE: return check_memory(c, v, in);
    case GALE__IR_STORE_ADD:
        if (in->mem != GALE_U32 || in->width != 1) return bad(c, v, "only U32 are added to");
        return check_memory(c, v, in);
    case GALE__IR_SHARED:
    case GALE__IR_ARRAY:
    case GALE__IR_GET:
    case GALE__IR_GET_OF_CLUSTER:
    case GALE__IR_SET: return check_array(c, v, in);
    case GALE__IR_SET_ADD:
        if (!is_shared(c, in->a) || type_of(c, in->a) != GALE_U32 || in->width != 1)
            return bad(c, v, "only U32 in work-group arrays are added to");
        return check_array(c, v, in);
    case GALE__IR_FOR:
    case GALE__IR_IF:
    case GALE__IR_ELSE:
    case GALE__IR_END: return check_control(c, v, in);
    case GALE__IR_COPY: return check_copy(c, v, in);
    case GALE__IR_MATRIX_A:
    case GALE__IR_MATRIX_B:
    case GALE__IR_SUMS:
    case GALE__IR_SUMS_ZERO:
    case GALE__IR_SUMS_ADD:
    case GALE__IR_SUMS_STORE:
    case GALE__IR_GROUP_ADD:
    case GALE__IR_MATRIX_SUMS: return check_matrix(c, v, in);
    case GALE__IR_GATE_INIT:
    case GALE__IR_GATE_ARRIVE:
    case GALE__IR_GATE_COPIES:
    case GALE__IR_GATE_EXPECT:
    case GALE__IR_GATE_WAIT: return check_gate(c, v, in);
    case GALE__IR_MAP_COPY: return check_map_copy(c, v, in);
    case GALE__IR_SEND: return check_send(c, v, in);
    case GALE__IR_ARRIVE:
    case GALE__IR_AWAIT: return check_meeting(c, v, in);
    case GALE__IR_READY: return check_ready(c, v);
    case GALE__IR_BARRIER: return in->imm == GALE__IR_CLUSTER ? check_cluster(c, v, in) : GALE_OK;
    default: return n ? check_arithmetic(c, v, in) : check_leaf(c, v, in);
    }
}

gale_status gale__ir_validate(const gale__ir *ir)
{
    GALE_TRY(gale__ir_check(ir));
    checker c = {.ir = ir, .visible = gale__calloc(ir->count + 1, sizeof(bool))};
    if (!c.visible) return GALE_NO_MEMORY;
    gale_status status = GALE_OK;
    for (gale__ir_val v = 1; v < ir->count && status == GALE_OK; v++) {
        status = check_instr(&c, v);
        int kind = gale__ir_op_get(ir->code[v].op).kind;
        c.visible[v] = kind != GALE__IR_EFFECT && (kind != GALE__IR_CONTROL || ir->code[v].op == GALE__IR_FOR);
    }
    if (status == GALE_OK && c.depth) status = gale__fail(GALE_INTERNAL, "kernel %s: a block is not ended", ir->name);
    gale__free(c.visible);
    return status;
}
