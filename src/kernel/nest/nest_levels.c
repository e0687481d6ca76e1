/* Finds quantisations that can use cheap instructions.  On a GPU, conversions between floats and integers, rounding and
 * exact division take several times as long as an addition.  An 8-bit quantised value (level) is a small number, so the
 * same result can be computed by additions whose low bits are the integer (ir_levels.c).  Such operations are marked
 * (acc = GALE__NEST_LEVEL); schedules of devices that gain from it use the marks, all others ignore them. */
#include "base/num.h"
#include "kernel/nest/nest.h"
#include <math.h>

#define SMALL 0x1p21 /* larger integers do not fit the low bits of such a sum */

typedef struct facts {
    float size;    /* largest absolute value of an integer, or of a float cast from one; INFINITY: unknown */
    uint8_t whole; /* a float without a fraction, or one too large to have any */
    uint8_t loose; /* all of its uses end in a level */
    uint8_t used;
} facts;

static bool is_byte(int type) { return type == GALE_I8 || type == GALE_U8; }

static bool const_of(const gale__nest *n, int i, double *v)
{
    const gale__nest_instr *in = &n->code[i];
    gale_type type = gale__compute_type((gale_type)in->type);
    if (in->op != GALE__NEST_CONST || (type != GALE_F32 && type != GALE_I32 && type != GALE_U32)) return false;
    *v = type == GALE_F32 ? gale__load_f64(type, &in->imm) : (double)gale__load_i64(type, &in->imm);
    return true;
}

static bool const_whole(const gale__nest *n, int i)
{
    double v;
    return const_of(n, i, &v) && fabs(v) < SMALL && rint(v) == v;
}

/* Sizes of integers, and floats that are whole. */
static void look_forward(const gale__nest *n, int i, facts *f)
{
    const gale__nest_instr *in = &n->code[i];
    double v;
    f[i] = (facts){.size = INFINITY, .loose = 1};
    if (is_byte(in->type)) f[i].size = 256;
    else if (const_whole(n, i) && const_of(n, i, &v)) f[i].size = (float)fabs(v), f[i].whole = 1;
    else if (in->op == GALE__CAST && in->type == GALE_I32 && is_byte(n->code[in->a].type)) f[i].size = f[in->a].size;
    else if ((in->op == GALE__ADD || in->op == GALE__SUB) && in->type == GALE_I32)
        f[i].size = f[in->a].size + f[in->b].size;
    else if (in->op == GALE__CAST && in->type == GALE_F32 && f[in->a].size < SMALL)
        f[i].size = f[in->a].size, f[i].whole = 1;
    else if (in->op == GALE__RINT && in->type == GALE_F32) f[i].whole = 1;
    else if (in->op == GALE__ADD && in->type == GALE_F32) f[i].whole = f[in->a].whole && f[in->b].whole;
}

/* Whether the user saturates to a level, possibly after adding a zero point, so that the exact value of a large operand
 * does not matter. */
static bool hides(const gale__nest_instr *user, const facts *of_user, const facts *f)
{
    if (user->op == GALE__CAST) return is_byte(user->type);
    return user->op == GALE__ADD && user->type == GALE_F32 && of_user->loose && of_user->used &&
           (f[user->a].size < SMALL || f[user->b].size < SMALL);
}

static void look_back(const gale__nest *n, int i, facts *f)
{
    const gale__nest_instr *in = &n->code[i];
    const int32_t operand[3] = {in->a, in->b, in->c};
    for (int k = 0; k < gale__nest_arity(in); k++) {
        f[operand[k]].used = 1;
        bool rounded = in->op == GALE__RINT && f[i].loose && f[i].used;
        if (!hides(in, &f[i], f) && !rounded) f[operand[k]].loose = 0;
    }
}

/* A divisor whose reciprocal, and products with it, can neither overflow nor underflow. */
static bool ordinary(const gale__nest *n, int i)
{
    const gale__nest_instr *in = &n->code[i];
    double v;
    if (in->op == GALE__NEST_LOAD && !n->accesses[in->access].n_guards)
        return n->buffers[n->accesses[in->access].buffer].ordinary;
    return const_of(n, i, &v) && fabs(v) > 0x1p-60 && fabs(v) < 0x1p60;
}

static bool is_level(const gale__nest *n, int i, const facts *f)
{
    const gale__nest_instr *in = &n->code[i];
    const facts *a = &f[in->a];
    bool from_float = in->op == GALE__CAST && n->code[in->a].type == GALE_F32;
    if (in->op == GALE__CAST && is_byte(in->type)) return from_float && a->whole;
    if (in->type != GALE_F32 || !f[i].used) return false;
    if (in->op == GALE__CAST) return !from_float && a->size < SMALL;
    if (in->op == GALE__RINT) return f[i].loose;
    return in->op == GALE__DIV && f[i].loose && ordinary(n, in->b);
}

void gale__nest_mark_levels(gale__nest *n)
{
    facts f[GALE__NEST_CODE_MAX];
    if (n->n_code > GALE__NEST_CODE_MAX || !gale__nest_has(n, GALE__NEST_BIT(GALE__CAST))) return;
    for (int i = 0; i < n->n_code; i++) look_forward(n, i, f);
    for (int s = 0; s < n->n_stores; s++) {
        f[n->stores[s].value].loose = 0, f[n->stores[s].value].used = 1;
        if (n->stores[s].index >= 0) f[n->stores[s].index].loose = 0;
    }
    for (int i = n->n_code - 1; i >= 0; i--)
        if (f[i].used) look_back(n, i, f);
    for (int i = 0; i < n->n_code; i++)
        if (n->code[i].op < GALE__SCALAR_COUNT && n->code[i].acc < GALE__NEST_NEAR && is_level(n, i, f))
            n->code[i].acc = GALE__NEST_LEVEL;
}
