/* Simplifies values that are quantised and dequantised within one kernel.  Quantisation maps a float x to the 8-bit
 * value (level) rint(x / s) + z, saturated; dequantisation maps it to (level - z) * s.  If x is first clamped to the
 * range that the levels express, the rounded quotient equals level - z: nothing saturates, and the conversion to an
 * integer and back can be omitted.  Exporters put such pairs around every operator. */
#include "base/num.h"
#include "kernel/nest/nest.h"
#include <math.h>

enum { EXTRA = 8 }; /* maximum number of instructions that clamp a value */

/* One quantisation: its instructions, scale and zero point. */
typedef struct level {
    int div, rint, add, cast; /* div: -1, the scale is 1; add: -1, there is no zero point */
    double scale, zero;
} level;

typedef struct writer {
    const gale__nest *from;
    gale__nest_instr *code;
    int n;
    int32_t now[GALE__NEST_CODE_MAX]; /* by instruction of `from` */
    uint16_t uses[GALE__NEST_CODE_MAX];
    uint8_t rough[GALE__NEST_CODE_MAX];    /* inexact: computed by the device's own functions */
    int16_t level_of[GALE__NEST_CODE_MAX]; /* by DIV, RINT and CAST: number of the level, 1 for the first */
    level levels[GALE__NEST_CODE_MAX / 4];
    int n_levels;
} writer;

static bool is_byte(int type) { return type == GALE_I8 || type == GALE_U8; }

static bool const_of(const gale__nest *n, int i, double *v)
{
    const gale__nest_instr *in = &n->code[i];
    gale_type type = gale__compute_type((gale_type)in->type);
    if (in->op != GALE__NEST_CONST || (type != GALE_F32 && type != GALE_I32)) return false;
    *v = type == GALE_F32 ? gale__load_f64(type, &in->imm) : (double)gale__load_i64(type, &in->imm);
    return true;
}

static void count_uses(writer *w)
{
    for (int i = 0; i < w->from->n_code; i++) {
        const gale__nest_instr *in = &w->from->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        for (int k = 0; k < gale__nest_arity(in); k++) w->uses[operand[k]]++;
    }
    for (int s = 0; s < w->from->n_stores; s++) {
        w->uses[w->from->stores[s].value]++;
        if (w->from->stores[s].index >= 0) w->uses[w->from->stores[s].index]++;
    }
}

/* Whether the cast ends a quantisation whose intermediate values have no other reader. */
static bool find_level(const writer *w, int cast, level *out)
{
    const gale__nest *n = w->from;
    const gale__nest_instr *code = n->code;
    if (code[cast].op != GALE__CAST || !is_byte(code[cast].type) || code[code[cast].a].type != GALE_F32) return false;
    *out = (level){.add = -1, .cast = cast, .rint = code[cast].a};
    if (code[out->rint].op == GALE__ADD) {
        out->add = out->rint;
        out->rint = code[out->add].a;
        if (!const_of(n, code[out->add].b, &out->zero) || w->uses[out->add] != 1) return false;
    }
    if (code[out->rint].op != GALE__RINT || w->uses[out->rint] != 1 || rint(out->zero) != out->zero) return false;
    out->div = code[out->rint].a;
    if (code[out->div].op != GALE__DIV) out->div = -1, out->scale = 1;
    else if (w->uses[out->div] != 1 || !const_of(n, code[out->div].b, &out->scale)) return false;
    return out->scale > 0x1p-60 && out->scale < 0x1p60 && fabs(out->zero) <= 255;
}

static int32_t push(writer *w, gale__nest_instr in) { return w->code[w->n] = in, w->n++; }

static int32_t push_const(writer *w, double v)
{
    gale__nest_instr in = {.op = GALE__NEST_CONST, .type = GALE_F32};
    gale__store_f64(GALE_F32, &in.imm, v);
    return push(w, in);
}

/* Clamps x to the range that the levels express; NaN becomes level 0, as in a cast. */
static int32_t limit(writer *w, const level *l, int32_t x)
{
    bool is_signed = w->from->code[l->cast].type == GALE_I8, inner = w->from->code[l->rint].inner;
    double low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
    gale__nest_instr in = {.type = GALE_F32, .inner = inner}, test = {.type = GALE_BOOL, .inner = inner};
    int32_t least = push_const(w, (low - l->zero) * l->scale), most = push_const(w, (high - l->zero) * l->scale);
    if (is_signed) {
        int32_t none = push_const(w, -l->zero * l->scale);
        test.op = GALE__EQ, test.a = test.b = x;
        in.op = GALE__SELECT, in.a = push(w, test), in.b = x, in.c = none;
        x = push(w, in);
    }
    test.op = GALE__GE, test.a = x, test.b = least;
    in.op = GALE__SELECT, in.a = push(w, test), in.b = x, in.c = least, in.acc = GALE__NEST_NEAR;
    x = push(w, in);
    in.op = GALE__MIN, in.a = x, in.b = most, in.c = 0;
    return push(w, in);
}

/* The quantisation whose result instruction i converts back to a float after subtracting the zero point; NULL: none. */
static const level *came_from(const writer *w, int i)
{
    const gale__nest_instr *code = w->from->code;
    double zero = 0;
    if (code[i].op != GALE__CAST || code[i].type != GALE_F32) return NULL;
    int at = code[i].a;
    if (code[at].op == GALE__SUB && code[at].type == GALE_I32) {
        if (!const_of(w->from, code[at].b, &zero)) return NULL;
        at = code[at].a;
    }
    if (code[at].op == GALE__CAST && code[at].type == GALE_I32) at = code[at].a;
    int number = is_byte(code[at].type) ? w->level_of[at] : 0;
    return number && w->levels[number - 1].zero == zero ? &w->levels[number - 1] : NULL;
}

/* Looks through a rounding to half precision of an inexact value: quantisation rounds more coarsely anyway. */
static int unrounded(const writer *w, int i)
{
    const gale__nest_instr *code = w->from->code, *in = &code[i];
    if (!w->rough[i] || in->op != GALE__CAST || in->type != GALE_F32 || code[in->a].op != GALE__CAST) return i;
    return code[code[in->a].a].type == GALE_F32 ? code[in->a].a : i;
}

static void write_instr(writer *w, int i)
{
    gale__nest_instr in = w->from->code[i];
    const int32_t operand[3] = {in.a, in.b, in.c};
    int arity = gale__nest_arity(&in);
    w->rough[i] = in.op < GALE__SCALAR_COUNT && (in.acc == 1 || in.acc == 2);
    for (int k = 0; k < arity; k++) w->rough[i] |= w->rough[operand[k]];
    const level *l = w->level_of[i] ? &w->levels[w->level_of[i] - 1] : NULL;
    bool first = l && i == (l->div >= 0 ? l->div : l->rint); /* of the instructions that make the level */
    if (first) in.a = unrounded(w, in.a);
    const level *trip = came_from(w, i);
    if (arity > 0) in.a = w->now[in.a];
    if (arity > 1) in.b = w->now[in.b];
    if (arity > 2) in.c = w->now[in.c];
    if (trip) in.a = w->now[trip->rint];
    if (l) {
        if (first) in.a = limit(w, l, in.a);
        in.acc = w->rough[i] ? GALE__NEST_ROUGH : GALE__NEST_NEAR;
    }
    w->now[i] = push(w, in);
}

static bool casts_to_bytes(const gale__nest *n)
{
    for (int i = 0; i < n->n_code; i++)
        if (n->code[i].op == GALE__CAST && is_byte(n->code[i].type)) return true;
    return false;
}

gale_status gale__nest_requantise(gale__nest *n, gale__arena *arena)
{
    gale_status status = GALE_OK;
    if (n->n_code > GALE__NEST_CODE_MAX || !casts_to_bytes(n)) return GALE_OK;
    writer *w = gale__calloc(1, sizeof *w);
    if (!w) return GALE_NO_MEMORY;
    w->from = n;
    count_uses(w);
    for (int i = 0; i < n->n_code && w->n_levels < GALE__NEST_CODE_MAX / 4; i++) {
        level *l = &w->levels[w->n_levels];
        if (!find_level(w, i, l)) continue;
        w->level_of[l->rint] = w->level_of[i] = (int16_t)++w->n_levels;
        if (l->div >= 0) w->level_of[l->div] = (int16_t)w->n_levels;
    }
    int most = n->n_code + EXTRA * w->n_levels;
    if (!w->n_levels || most > GALE__NEST_CODE_MAX) goto done;
    w->code = gale__arena_alloc(arena, (size_t)most * sizeof *w->code);
    if (!w->code) {
        status = GALE_NO_MEMORY;
        goto done;
    }
    for (int i = 0; i < n->n_code; i++) write_instr(w, i);
    for (int s = 0; s < n->n_stores; s++) {
        n->stores[s].value = w->now[n->stores[s].value];
        if (n->stores[s].index >= 0) n->stores[s].index = w->now[n->stores[s].index];
    }
    n->code = w->code;
    n->n_code = w->n;
done:
    gale__free(w);
    return status;
}
