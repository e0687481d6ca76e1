/* Half precision as a pass over a program's graph.  Contractions read narrow factors and produce narrow results from
 * f32 sums; the operators after them read and write narrow values as far as they support it (precision.def).  Values
 * that do not come from a contraction stay f32 until one reads them, so integers, indices, masks and shapes are not
 * affected.  Narrow values have a narrow type from the start, so fusion stores them that way; inside a kernel they are
 * f32. */
#include "graph/rewrite/precision.h"
#include "base/num.h"
#include "graph/build/build.h"
#include "graph/run/tensor.h"
#include "kernel/cpu/simd.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP, CONTRACTION, MAP, WIDE, NORM, NARROW, LEVELS, SUMS };
enum { AS_MADE, STAYS_F32, MADE_SUM, MADE_NARROW, TO_NARROW, TO_NARROW_CLAMPED }; /* what becomes of results */
enum { MADE_WIDE = 64 };        /* and so much more: the type that results have in the graph */
enum { IS_NARROW = 1, IS_SUM }; /* marks of values */

typedef struct entry {
    const char *op;
    int class_;
} entry;
static const entry entries[] = {
#define X(op, class_) {#op, class_},
#include "graph/rewrite/precision.def"
#undef X
};

static int by_name(const void *name, const void *e) { return strcmp(name, ((const entry *)e)->op); }

static int class_of(const gale__op *op)
{
    const entry *e = bsearch(op->name, entries, sizeof entries / sizeof *entries, sizeof *entries, by_name);
    return e ? e->class_ : KEEP;
}

/* --- Constants, when the program is made. --- */

/* Whether numbers keep their meaning: none becomes infinite, and a single number, such as an epsilon, does not become
 * 0. */
static bool suits(gale_type type, const float *x, size_t n)
{
    float most = (float)gale__type_max(type), least = type == GALE_F16 ? 6.103515625e-05F : 0;
    int wrong = n == 1 && x[0] != 0 && fabsf(x[0]) < least;
    for (size_t i = 0; i < n; i++) wrong |= (fabsf(x[i]) > most) & (fabsf(x[i]) <= FLT_MAX);
    return !wrong;
}

/* Piece by piece, so that the numbers stay in the cache.  Nothing is made of a constant that does not suit. */
static gale_status convert(gale_type type, const gale_tensor *from, gale_tensor **out)
{
    enum { PIECE = 1 << 14 };
    size_t n = (size_t)gale__tensor_elements(from), count;
    float *x = gale__alloc((n < 2 * PIECE ? n : 2 * PIECE) * sizeof *x + 1);
    gale_tensor *t = NULL;
    gale_status status = x ? gale_tensor_create(NULL, type, from->rank, from->dims, &t) : GALE_NO_MEMORY;
    bool ok = status == GALE_OK;
    for (size_t at = 0; ok && at < n; at += count) {
        count = n - at < 2 * PIECE ? n - at : PIECE; /* the last is not a single number, which is tested otherwise */
        status = gale__tensor_read(from, at * sizeof *x, count * sizeof *x, x);
        ok = status == GALE_OK && suits(type, x, count);
        if (ok) gale__simd_get()->narrow[type]((uint16_t *)t->host + at, x, NULL, NULL, count);
    }
    if (ok) *out = t;
    else gale_tensor_destroy(&t);
    gale__free(x);
    return status;
}

/* What is added to sums stays f32, and so do the states of recurrent cells. */
static bool is_added(const gale__op *op, int input)
{
    if (!strcmp(op->name, "LSTM") || !strcmp(op->name, "GRU") || !strcmp(op->name, "RNN")) return input > 2;
    return input == 2 && (!strcmp(op->name, "Conv") || !strcmp(op->name, "ConvTranspose") || !strcmp(op->name, "Gemm"));
}

/* An input with the operator's element type, not a parameter. */
static bool is_data(const gale__op *op, int input)
{
    int bit = input < 31 ? input : 31;
    return !is_added(op, input) && !((op->plan_inputs | op->shape_inputs) >> bit & 1);
}

/* Sums that a bias of this size brings back to the usual size lose most of their digits. */
#define BIAS_MOST 64

static bool bias_suits(gale_type type, const float *x, size_t n)
{
    (void)type;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > BIAS_MOST) return false;
    return true;
}

static gale_status convert_inputs(gale_graph *g, const gale__op_node *n)
{
    for (int i = 0; i < n->n_body; i++) GALE_TRY(convert_inputs(g, &n->body[i]));
    if (!n->op || class_of(n->op) != CONTRACTION) return GALE_OK;
    for (int i = 0; i < n->n_in; i++) {
        gale_value v = n->in[i];
        if (v < 0 || !g->values[v].constant || g->values[v].type != GALE_F32 || g->narrow_constants[v]) continue;
        if (is_data(n->op, i)) GALE_TRY(convert(g->narrow, g->values[v].constant, &g->narrow_constants[v]));
    }
    return GALE_OK;
}

/* Gradients are computed in the graph's own types, so everything before the last of them is unchanged. */
static int first_node(const gale_graph *g) { return g->n_gradients ? g->gradients[g->n_gradients - 1].after : 0; }

gale_status gale__precision_apply(gale_graph *g, gale_type type)
{
    g->narrow_constants = gale__calloc((size_t)g->n_values + 1, sizeof *g->narrow_constants);
    if (!g->narrow_constants) return GALE_NO_MEMORY;
    g->narrow = type;
    for (int i = first_node(g); i < g->n_nodes; i++) GALE_TRY(convert_inputs(g, &g->nodes[i]));
    return GALE_OK;
}

static bool is_widened(const gale_graph *g, int type) { return g->widened >> type & 1; }

static gale_status widen(const gale_tensor *from, gale_tensor **out)
{
    enum { PIECE = 1 << 14 };
    size_t n = (size_t)gale__tensor_elements(from), count;
    uint16_t *x = gale__alloc((n < PIECE ? n : PIECE) * sizeof *x + 1);
    gale_tensor *t = NULL;
    gale_status status = x ? gale_tensor_create(NULL, GALE_F32, from->rank, from->dims, &t) : GALE_NO_MEMORY;
    for (size_t at = 0; status == GALE_OK && at < n; at += count) {
        count = n - at < PIECE ? n - at : PIECE;
        status = gale__tensor_read(from, at * sizeof *x, count * sizeof *x, x);
        if (status == GALE_OK) gale__simd_get()->widen[from->type]((float *)t->host + at, x, NULL, NULL, count);
    }
    if (status == GALE_OK) *out = t;
    else gale_tensor_destroy(&t);
    gale__free(x);
    return status;
}

static gale_status widen_constants(gale_graph *g, const gale__op_node *n)
{
    for (int i = 0; i < n->n_body; i++) GALE_TRY(widen_constants(g, &n->body[i]));
    for (int i = 0; n->op && class_of(n->op) == CONTRACTION && i < n->n_in; i++) {
        gale_value v = n->in[i];
        if (v >= 0 && g->values[v].constant && is_widened(g, (int)g->values[v].type) && !g->narrow_constants[v])
            GALE_TRY(widen(g->values[v].constant, &g->narrow_constants[v]));
    }
    return GALE_OK;
}

gale_status gale__precision_widen(gale_graph *g, uint32_t types)
{
    bool any = false;
    for (int v = 0; v < g->n_values; v++)
        any |= (g->values[v].constant || g->values[v].input >= 0) && types >> g->values[v].type & 1;
    if (!any || g->n_gradients) return GALE_OK;
    g->narrow_constants = gale__calloc((size_t)g->n_values + 1, sizeof *g->narrow_constants);
    if (!g->narrow_constants) return GALE_NO_MEMORY;
    g->widened = types;
    for (int i = 0; i < g->n_nodes; i++) GALE_TRY(widen_constants(g, &g->nodes[i]));
    return GALE_OK;
}

void gale__precision_finish(gale_graph *g)
{
    for (int i = 0; g->narrow_constants && i < g->n_values; i++) gale_tensor_destroy(&g->narrow_constants[i]);
    gale__free(g->narrow_constants);
    g->narrow_constants = NULL;
}

/* --- Lowering. --- */

static void count_readers(gale__narrowing *s, const gale__op_node *n)
{
    for (int i = 0; !n->op && i < n->n_body; i++) count_readers(s, &n->body[i]);
    for (int i = 0; n->op && i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        s->readers[n->in[i]]++;
        s->normed[n->in[i]] |= class_of(n->op) == NORM && i == 0;
        s->multiplied[n->in[i]] |= class_of(n->op) == CONTRACTION && is_data(n->op, i);
    }
}

gale_status gale__narrowing_init(gale__narrowing *s, const gale_graph *graph, gale__prim_graph *g)
{
    *s = (gale__narrowing){.g = g, .graph = graph};
    if (graph->narrow == GALE_F32 && !graph->widened) return GALE_OK;
    s->narrow = gale__arena_alloc(&g->arena, (size_t)graph->n_values + 1);
    s->readers = gale__arena_alloc(&g->arena, ((size_t)graph->n_values + 1) * sizeof *s->readers);
    s->multiplied = gale__arena_alloc(&g->arena, ((size_t)graph->n_values + 1) * sizeof *s->multiplied);
    s->normed = gale__arena_alloc(&g->arena, ((size_t)graph->n_values + 1) * sizeof *s->normed);
    s->shown = gale__arena_alloc(&g->arena, (size_t)graph->n_values + 1);
    if (!s->narrow || !s->readers || !s->multiplied || !s->normed || !s->shown) return GALE_NO_MEMORY;
    for (int i = 0; i < graph->n_nodes; i++) count_readers(s, &graph->nodes[i]);
    for (int i = 0; i < graph->n_outputs; i++) s->readers[graph->outputs[i]]++, s->shown[graph->outputs[i]] = 1;
    return GALE_OK;
}

/* Whether a constant passes the test; what is not known when planning does. */
static bool passes(gale__narrowing *s, gale__node x, bool (*test)(gale_type, const float *, size_t))
{
    const gale__prim_node *p = gale__prim_at(s->g, x);
    void *copy = NULL;
    const void *data = NULL;
    if (p->op != GALE__PRIM_CONST) return true;
    gale_status status = gale__prim_read(p, &copy, &data);
    if (status != GALE_OK) return s->g->status = status, true;
    bool ok = test(s->graph->narrow, data, p->splat ? 1 : (size_t)gale__prim_elements(s->g, x));
    gale__free(copy);
    return ok;
}

/* Finite numbers stay finite: the largest ones occur in masks, where any large number will do. */
static gale__node clamped(gale__narrowing *s, gale__node x)
{
    double most = gale__type_max(s->graph->narrow);
    x = gale__prim_binary(s->g, GALE__MIN, x, gale__prim_scalar(s->g, GALE_F32, most));
    x = gale__prim_binary(s->g, GALE__MAX, x, gale__prim_scalar(s->g, GALE_F32, -most));
    return gale__prim_cast(s->g, x, s->graph->narrow);
}

static bool is_f32(const gale__narrowing *s, gale__node x)
{
    return x >= 0 && gale__prim_at(s->g, x)->type == GALE_F32;
}

/* Number of inputs of each kind: already narrow; f32; constants that do not fit the narrow type; f32 values that are
 * not constants; unscaled integer sums. */
typedef struct kinds {
    int narrow, f32, unsuited, wide, sums;
} kinds;

static kinds classify_inputs(gale__narrowing *s, const gale__op_node *n, int class_, const gale__node *in)
{
    kinds k = {0};
    for (int i = 0; i < n->n_in; i++) {
        gale_value v = n->in[i];
        if (v < 0 || in[i] < 0) continue;
        k.narrow += s->narrow[v] == IS_NARROW;
        k.sums += s->narrow[v] == IS_SUM;
        if (is_added(n->op, i) && is_f32(s, in[i])) k.unsuited += !passes(s, in[i], bias_suits);
        if (!is_f32(s, in[i]) || !is_data(n->op, i)) continue;
        k.f32++;
        if (s->graph->narrow_constants[v]) continue;
        int64_t n_elements = gale__prim_elements(s->g, in[i]), read = class_ == NARROW ? GALE__FOLD_MAX : 1;
        bool constant = gale__prim_at(s->g, in[i])->op == GALE__PRIM_CONST;
        if (!constant || (class_ == NARROW && n_elements > read)) k.wide++;
        else if (class_ == CONTRACTION) k.unsuited += s->graph->values[v].constant || !passes(s, in[i], suits);
        else k.unsuited += n_elements <= read && !passes(s, in[i], suits);
    }
    return k;
}

static void narrow_all(gale__narrowing *s, const gale__op_node *n, gale__node *in)
{
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0 || !is_f32(s, in[i]) || !is_data(n->op, i)) continue;
        gale_tensor *t = s->graph->narrow_constants[n->in[i]];
        if (t) in[i] = gale__prim_const_tensor(s->g, t);
        else if (gale__prim_at(s->g, in[i])->op == GALE__PRIM_CONST)
            in[i] = gale__prim_cast(s->g, in[i], s->graph->narrow);
        else in[i] = clamped(s, in[i]);
    }
}

/* A map that is the only reader of a value is fused with its producer and reads it before rounding. This applies to one
 * input, the one computed last, since a kernel contains only one contraction. */
static void take_unrounded(gale__narrowing *s, const gale__op_node *n, gale__node *in)
{
    int last = -1;
    for (int i = 0; i < n->n_in; i++) {
        gale_value v = n->in[i];
        if (v < 0 || in[i] < 0 || s->narrow[v] != IS_NARROW || s->readers[v] != 1) continue;
        const gale__prim_node *p = gale__prim_at(s->g, in[i]);
        if (p->op == GALE__CAST && is_f32(s, p->in[0]) && (last < 0 || in[i] > in[last])) last = i;
    }
    if (last >= 0) in[last] = gale__prim_at(s->g, in[last])->in[0];
}

static void widen_all(gale__narrowing *s, const gale__op_node *n, gale__node *in)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && in[i] >= 0 && !is_f32(s, in[i])) in[i] = gale__narrowing_declared(s, n->in[i], in[i]);
}

/* Whether no quantised value times this scale becomes infinite. */
static bool scale_suits(gale_type type, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)x[i]) * 256 < gale__type_max(type))) return false;
    return true;
}

/* Whether what a DequantizeLinear makes should be narrow, like the values around it.  Weights are left to products. */
static bool makes_narrow(gale__narrowing *s, const gale__node *in)
{
    if (!s->g->zero_points_outside || in[0] < 0 || gale__prim_at(s->g, in[0])->invariant) return false;
    const gale__prim_node *p = gale__prim_at(s->g, in[0]), *scale = gale__prim_at(s->g, in[1]);
    return (p->type == GALE_I8 || p->type == GALE_U8) && scale->op == GALE__PRIM_CONST && scale->type == GALE_F32 &&
           passes(s, in[1], scale_suits);
}

/* The half type of an input as the graph has it; 0 of a parameter, or of another type. */
static int half_type(const gale__narrowing *s, const gale__op_node *n, const gale__node *in, int i)
{
    if (n->in[i] < 0 || in[i] < 0 || (n->op->plan_inputs | n->op->shape_inputs) >> (i < 31 ? i : 31) & 1) return 0;
    int type = gale__prim_at(s->g, in[i])->type;
    return s->narrow[n->in[i]] ? s->narrow[n->in[i]] : is_widened(s->graph, type) ? type : 0;
}

/* Operators that only move elements leave halves as they are until one has been computed with. */
static int widen_inputs(gale__narrowing *s, const gale__op_node *n, gale__node *in)
{
    int class_ = s->off ? KEEP : class_of(n->op), type = 0;
    bool computes = class_ == CONTRACTION || class_ == MAP || class_ == WIDE || class_ == NORM;
    for (int i = 0; i < n->n_in && (computes || class_ == NARROW); i++) {
        int half = half_type(s, n, in, i);
        if (half && (computes || s->narrow[n->in[i]])) type = half;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0 || in[i] < 0) continue;
        if (!type || !half_type(s, n, in, i)) {
            in[i] = gale__narrowing_declared(s, n->in[i], in[i]);
        } else if (!is_f32(s, in[i])) {
            gale_tensor *t = s->graph->narrow_constants[n->in[i]];
            in[i] = t ? gale__prim_const_tensor(s->g, t) : gale__prim_cast(s->g, in[i], GALE_F32);
        }
    }
    return type ? MADE_WIDE + type : AS_MADE;
}

/* A result that is an output is rounded for whoever else reads it, too: where all values are outputs, as when devices
 * are compared node by node, each node is what the graph says. */
static void note_wide(gale__narrowing *s, const gale__op_node *n, int type, gale__node *out)
{
    int count = class_of(n->op) == NORM ? 1 : n->n_out; /* further ones are statistics in f32 */
    for (int i = 0; i < count; i++) {
        if (!is_f32(s, out[i])) continue;
        if (s->shown[n->out[i]]) out[i] = gale__prim_cast(s->g, out[i], (gale_type)type);
        else s->narrow[n->out[i]] = (uint8_t)type;
    }
}

int gale__narrowing_inputs(gale__narrowing *s, const gale__op_node *n, gale__node *in)
{
    if (!s->narrow || s->g->status != GALE_OK) return AS_MADE;
    if (s->graph->widened) return widen_inputs(s, n, in);
    int class_ = s->off ? KEEP : class_of(n->op), how = STAYS_F32;
    if (class_ == NORM) class_ = WIDE;
    if (class_ == LEVELS) return makes_narrow(s, in) ? TO_NARROW : STAYS_F32;
    kinds k = classify_inputs(s, n, class_, in);
    if (class_ == SUMS && (strcmp(n->op->name, "Cast") || k.sums)) return MADE_SUM;
    if (class_ == MAP && k.sums) how = TO_NARROW; /* scaled, it is the result of a product */
    if (class_ == SUMS || (k.unsuited && class_ != WIDE) || k.narrow + k.f32 == 0) class_ = KEEP;
    if (class_ == CONTRACTION || (class_ == NARROW && k.narrow && !k.wide)) {
        narrow_all(s, n, in);
        return MADE_NARROW;
    }
    /* The result of a norm that a product reads is rounded anyway.  All other readers then use the rounded value too,
     * so that it is stored once. */
    if (class_ == WIDE && !k.unsuited && s->multiplied[n->out[0]]) how = TO_NARROW_CLAMPED;
    if (k.narrow && class_ != KEEP) how = k.wide && class_ != WIDE ? TO_NARROW_CLAMPED : TO_NARROW;
    /* In bf16, rounding the terms of a sum loses less than rounding the sum itself and takes as many bytes, so the
     * norm's kernel adds them. */
    bool sum = class_ == MAP && k.narrow + k.wide > 1 && s->normed[n->out[0]] && s->readers[n->out[0]] == 1;
    if (sum && s->graph->narrow == GALE_BF16) how = STAYS_F32;
    else if (class_ == MAP) take_unrounded(s, n, in);
    widen_all(s, n, in);
    return how;
}

void gale__narrowing_results(gale__narrowing *s, const gale__op_node *n, int how, gale__node *out)
{
    if (!s->narrow || s->g->status != GALE_OK || how == AS_MADE) return;
    if (how > MADE_WIDE) {
        note_wide(s, n, how - MADE_WIDE, out);
        return;
    }
    for (int i = 0; i < n->n_out; i++) {
        bool narrows = how >= TO_NARROW && i == 0; /* further ones are statistics */
        if (out[i] < 0) continue;
        if (narrows && is_f32(s, out[i]))
            out[i] = how == TO_NARROW ? gale__prim_cast(s->g, out[i], s->graph->narrow) : clamped(s, out[i]);
        if (out[i] < 0) return; /* there was no memory for the cast */
        int type = gale__prim_at(s->g, out[i])->type;
        bool is_sum = how == MADE_SUM && (type == GALE_I32 || type == GALE_F32),
             is_narrow = (how == MADE_NARROW || narrows) && type == (int)s->graph->narrow;
        s->narrow[n->out[i]] = is_sum ? IS_SUM : is_narrow ? IS_NARROW : 0;
    }
}

gale__node gale__narrowing_declared(gale__narrowing *s, gale_value value, gale__node x)
{
    if (!s->narrow || x < 0 || !s->narrow[value]) return x;
    if (s->graph->widened) return gale__prim_cast(s->g, x, (gale_type)s->narrow[value]);
    return s->narrow[value] == IS_NARROW ? gale__prim_cast(s->g, x, GALE_F32) : x;
}
