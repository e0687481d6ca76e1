/* The scalar reference: evaluates the graph one primitive at a time, in f64 and exact integers.  It is deliberately
 * slow and simple, since everything else is compared with it; constant folding uses it for single nodes. */
#include "graph/reference/reference.h"
#include <stdlib.h>
#include <string.h>

gale__reference_number gale__reference_number_load(gale_type type, const void *p)
{
    if (gale__type_is_float(type)) return (gale__reference_number){.f = gale__load_f64(type, p)};
    return (gale__reference_number){.i = gale__load_i64(type, p)};
}

void gale__reference_number_store(gale_type type, void *p, gale__reference_number n)
{
    if (gale__type_is_float(type)) gale__store_f64(type, p, n.f);
    else gale__store_i64(type, p, n.i);
}

gale__reference_number gale__reference_number_round(gale_type type, gale__reference_number n)
{
    uint64_t bits = 0;
    gale__reference_number_store(type, &bits, n);
    return gale__reference_number_load(type, &bits);
}

static gale__reference_number *numbers(int64_t n)
{
    return gale__calloc((size_t)n + 1, sizeof(gale__reference_number));
}

static gale_status load(gale_type type, const void *data, int64_t n, gale__reference_value *out)
{
    size_t size = gale_type_size(type);
    gale__reference_number *v = numbers(n);
    if (!v) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < n; i++) v[i] = gale__reference_number_load(type, (const char *)data + i * size);
    out->v = v;
    return GALE_OK;
}

static gale_status load_const(const gale__prim_node *p, gale__reference_value *out)
{
    void *copy;
    const void *data;
    out->splat = p->splat;
    GALE_TRY(gale__prim_read(p, &copy, &data));
    gale_status status = load(p->type, data, p->splat ? 1 : gale__dims_count(p->rank, p->dims), out);
    gale__free(copy);
    return status;
}

static gale_status unload(gale_type type, const gale__reference_value *r, int64_t n, void **out)
{
    size_t size = gale_type_size(type);
    char *data = gale__alloc((size_t)n * size);
    if (!data) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < n; i++) gale__reference_number_store(type, data + i * size, gale__reference_value_at(r, i));
    *out = data;
    return GALE_OK;
}

/* An element-wise or other primitive whose inputs' values are there. */
static gale_status compute(const gale__prim_node *p, const gale__prim_node *const *src, const gale__reference_value *in,
    gale__reference_value *out)
{
    int64_t n = gale__dims_count(p->rank, p->dims);
    gale__reference_number *v = numbers(n), none = {.i = 0};
    if (!v) return GALE_NO_MEMORY;
    if (p->op >= GALE__SCALAR_COUNT) {
        gale_status status = gale__reference_prim(p, src, in, v);
        if (status != GALE_OK) {
            gale__free(v);
            return status;
        }
    } else {
        gale_type from = src[p->op == GALE__SELECT ? 1 : 0]->type;
        for (int64_t i = 0; i < n; i++)
            v[i] = gale__reference_scalar(p->op, p->type, from, gale__reference_value_at(&in[0], i),
                p->n_in > 1 ? gale__reference_value_at(&in[1], i) : none,
                p->n_in > 2 ? gale__reference_value_at(&in[2], i) : none);
    }
    out->v = v;
    return GALE_OK;
}

/* --- Loops: the body is run as a graph of its own, with values handed over in storage types' stead as numbers. --- */

static gale_status evaluate(const gale__prim_graph *g, const gale__reference_value *inputs, const gale__node *outputs,
    int n, gale__reference_value *results);

typedef struct loop_state {
    const gale__prim_graph *g;
    const gale__prim_node *node;
    gale__reference_value *in;  /* the body's inputs of one step; carried values are owned here */
    gale__reference_value *out; /* n_carried + n_stacked, complete */
} loop_state;

static gale_status loop_step(loop_state *s, const gale__reference_value *outer, int64_t step)
{
    const gale__prim_loop_args *l = s->node->loop;
    int n_out = l->n_carried + l->n_stacked;
    for (int i = l->n_carried; i < s->node->n_in; i++) {
        bool sliced = i < l->n_carried + l->n_sliced;
        int64_t part = sliced ? gale__prim_elements(s->g, s->node->in[i]) / l->trips : 0;
        s->in[i] = (gale__reference_value){outer[i].v + (sliced && !outer[i].splat ? step * part : 0), outer[i].splat};
    }
    gale__reference_value *made = gale__calloc(n_out, sizeof *made);
    if (!made) return GALE_NO_MEMORY;
    gale_status status = evaluate(l->body, s->in, l->out, n_out, made);
    for (int i = 0; status == GALE_OK && i < n_out; i++) {
        if (i < l->n_carried) {
            gale__free(s->in[i].v);
            s->in[i] = made[i];
            continue;
        }
        int64_t part = gale__prim_elements(l->body, l->out[i]);
        for (int64_t k = 0; k < part; k++) s->out[i].v[step * part + k] = gale__reference_value_at(&made[i], k);
        gale__free(made[i].v);
    }
    gale__free(made);
    return status;
}

static gale_status copy_value(const gale__reference_value *r, int64_t n, gale__reference_value *out)
{
    gale__reference_number *v = numbers(n);
    if (!v) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < n; i++) v[i] = gale__reference_value_at(r, i);
    *out = (gale__reference_value){v, false};
    return GALE_OK;
}

/* All outputs of the loop, into out[n_carried + n_stacked]. */
static gale_status run_loop(
    const gale__prim_graph *g, const gale__prim_node *p, const gale__reference_value *outer, gale__reference_value *out)
{
    const gale__prim_loop_args *l = p->loop;
    gale_status status = GALE_OK;
    loop_state s = {g, p, gale__calloc(p->n_in + 1, sizeof *s.in), out};
    if (!s.in) return GALE_NO_MEMORY;
    for (int i = 0; i < l->n_carried; i++) GALE_GO(copy_value(&outer[i], gale__prim_elements(g, p->in[i]), &s.in[i]));
    for (int i = l->n_carried; i < l->n_carried + l->n_stacked; i++) {
        out[i].v = numbers(l->trips * gale__prim_elements(l->body, l->out[i]));
        if (!out[i].v) GALE_GO(GALE_NO_MEMORY);
    }
    for (int64_t t = 0; t < l->trips; t++) GALE_GO(loop_step(&s, outer, l->reverse ? l->trips - 1 - t : t));
    for (int i = 0; i < l->n_carried; i++) out[i] = s.in[i], s.in[i].v = NULL;
done:
    for (int i = 0; i < l->n_carried; i++) gale__free(s.in[i].v);
    gale__free(s.in);
    return status;
}

/* --- The walk. --- */

typedef struct walk {
    const gale__prim_graph *g;
    gale__reference_value *values; /* by node */
    int32_t *uses;                 /* remaining readers; the value is freed at 0 */
    bool *borrowed;                /* the numbers belong to the caller */
    gale__reference_value **loops; /* LOOP: all outputs */
} walk;

static void mark(walk *w, const gale__node *outputs, int n)
{
    for (int i = 0; i < n; i++) w->uses[outputs[i]]++;
    for (int32_t i = w->g->count - 1; i >= 0; i--)
        for (int k = 0; w->uses[i] && k < w->g->nodes[i].n_in; k++) w->uses[w->g->nodes[i].in[k]]++;
}

static void drop(walk *w, gale__node n)
{
    if (!w->borrowed[n]) gale__free(w->values[n].v);
    w->values[n].v = NULL;
    const gale__prim_node *p = &w->g->nodes[n];
    if (!w->loops[n]) return;
    for (int i = 0; i < p->loop->n_carried + p->loop->n_stacked; i++) gale__free(w->loops[n][i].v);
    gale__free(w->loops[n]);
    w->loops[n] = NULL;
}

static gale_status visit(walk *w, gale__node n, const gale__reference_value *inputs)
{
    const gale__prim_node *p = &w->g->nodes[n];
    if (p->op == GALE__PRIM_INPUT && p->attr[0] == GALE__SEED_INPUT)
        return load(GALE_U64, &w->g->run_seed, 1, &w->values[n]);
    if (p->op == GALE__PRIM_INPUT) {
        w->values[n] = inputs[p->attr[0]];
        w->borrowed[n] = true;
        return GALE_OK;
    }
    if (p->op == GALE__PRIM_CONST) return load_const(p, &w->values[n]);
    if (p->op == GALE__PRIM_LOOP_OUT)
        return copy_value(&w->loops[p->in[0]][p->attr[0]], gale__prim_elements(w->g, n), &w->values[n]);
    gale_status status = GALE_NO_MEMORY;
    gale__reference_value *in = gale__calloc(p->n_in + 1, sizeof *in);
    const gale__prim_node **src = gale__calloc(p->n_in + 1, sizeof *src);
    if (!in || !src) goto done;
    for (int k = 0; k < p->n_in; k++) in[k] = w->values[p->in[k]], src[k] = &w->g->nodes[p->in[k]];
    if (p->op == GALE__PRIM_LOOP) {
        w->loops[n] = gale__calloc(p->loop->n_carried + p->loop->n_stacked + 1, sizeof **w->loops);
        status = w->loops[n] ? run_loop(w->g, p, in, w->loops[n]) : GALE_NO_MEMORY;
    } else {
        status = compute(p, src, in, &w->values[n]);
    }
done:
    gale__free(in);
    gale__free((void *)src);
    return status;
}

static gale_status evaluate(const gale__prim_graph *g, const gale__reference_value *inputs, const gale__node *outputs,
    int n, gale__reference_value *results)
{
    gale_status status = GALE_OK;
    size_t count = (size_t)g->count + 1;
    walk w = {g, gale__calloc(count, sizeof *w.values), gale__calloc(count, sizeof *w.uses),
        gale__calloc(count, sizeof *w.borrowed), gale__calloc(count, sizeof *w.loops)};
    int done_outputs = 0;
    if (!w.values || !w.uses || !w.borrowed || !w.loops) GALE_GO(GALE_NO_MEMORY);
    mark(&w, outputs, n);
    for (int32_t i = 0; i < g->count; i++) {
        if (!w.uses[i]) continue;
        GALE_GO(visit(&w, i, inputs));
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (--w.uses[g->nodes[i].in[k]] == 0) drop(&w, g->nodes[i].in[k]);
    }
    for (; done_outputs < n; done_outputs++)
        GALE_GO(copy_value(
            &w.values[outputs[done_outputs]], gale__prim_elements(g, outputs[done_outputs]), &results[done_outputs]));
done:
    for (int i = 0; status != GALE_OK && i < done_outputs; i++) gale__free(results[i].v), results[i].v = NULL;
    for (int32_t i = 0; w.values && w.borrowed && w.loops && i < g->count; i++) drop(&w, i);
    gale__free(w.values);
    gale__free(w.uses);
    gale__free(w.borrowed);
    gale__free(w.loops);
    return status;
}

static bool is_given(const gale__prim_node *p) { return p->op == GALE__PRIM_INPUT && p->attr[0] != GALE__SEED_INPUT; }

static int input_count(const gale__prim_graph *g)
{
    int n = 0;
    for (int32_t i = 0; i < g->count; i++)
        if (is_given(&g->nodes[i]) && g->nodes[i].attr[0] >= n) n = (int)g->nodes[i].attr[0] + 1;
    return n;
}

gale_status gale__reference_run(
    const gale__prim_graph *g, const void *const *inputs, const gale__node *outputs, int n, void **results)
{
    gale_status status = GALE_OK;
    int n_in = input_count(g), made = 0;
    gale__reference_value *in = gale__calloc(n_in + 1, sizeof *in), *out = gale__calloc(n + 1, sizeof *out);
    if (!in || !out) GALE_GO(GALE_NO_MEMORY);
    for (int32_t i = 0; i < g->count; i++) {
        const gale__prim_node *p = &g->nodes[i];
        if (is_given(p) && !in[p->attr[0]].v)
            GALE_GO(load(p->type, inputs[p->attr[0]], gale__prim_elements(g, i), &in[p->attr[0]]));
    }
    GALE_GO(evaluate(g, in, outputs, n, out));
    for (; made < n; made++)
        GALE_GO(
            unload(g->nodes[outputs[made]].type, &out[made], gale__prim_elements(g, outputs[made]), &results[made]));
done:
    for (int i = 0; status != GALE_OK && i < made; i++) gale__free(results[i]), results[i] = NULL;
    for (int i = 0; in && i < n_in; i++) gale__free(in[i].v);
    for (int i = 0; out && i < n; i++) gale__free(out[i].v);
    gale__free(in);
    gale__free(out);
    return status;
}

/* A constant, or an EXPAND of one, as numbers. */
static gale_status fold_input(const gale__prim_graph *g, gale__node n, gale__reference_value *out)
{
    const gale__prim_node *p = &g->nodes[n], *base = p->op == GALE__PRIM_EXPAND ? &g->nodes[p->in[0]] : p;
    GALE_TRY(load_const(base, out));
    if (base == p) return GALE_OK;
    gale__reference_value narrow = *out;
    gale_status status = compute(p, &base, &narrow, out);
    out->splat = false;
    gale__free(narrow.v);
    if (status != GALE_OK) out->v = NULL;
    return status;
}

gale_status gale__reference_fold(const gale__prim_graph *g, const gale__prim_node *p, void **out)
{
    gale_status status = GALE_NO_MEMORY;
    gale__reference_value *in = gale__calloc(p->n_in + 1, sizeof *in), value = {NULL, false};
    const gale__prim_node **src = gale__calloc(p->n_in + 1, sizeof *src);
    if (!in || !src) goto done;
    for (int i = 0; i < p->n_in; i++) {
        src[i] = &g->nodes[p->in[i]];
        GALE_GO(fold_input(g, p->in[i], &in[i]));
    }
    GALE_GO(compute(p, src, in, &value));
    GALE_GO(unload(p->type, &value, gale__dims_count(p->rank, p->dims), out));
done:
    for (int i = 0; in && i < p->n_in; i++) gale__free(in[i].v);
    gale__free(value.v);
    gale__free(in);
    gale__free((void *)src);
    return status;
}
