/* Symbolic shapes without symbolic arithmetic: the graph is lowered for a few assignments of numbers to the free
 * extents, node by node, and each extent of each value is read off: the same every time, or a simple function of one or
 * two symbols.  So an operator's shape rule is what its lowering builds, as everywhere; a node that cannot be lowered
 * leaves its results unknown and the rest goes on. */
#include "onnx/import/infer.h"
#include "graph/build/opgraph.h"
#include "onnx/run/session.h"
#include <string.h>

enum { WORLDS = 3, SYMBOLS = 32, READS_MAX = 4096, DEPTH_MAX = 16 };

typedef struct shape {
    gale__node node;
    int64_t dims[GALE_MAX_RANK];
    int rank;
    gale_type type;
} shape;
typedef struct world {
    gale__prim_graph g;
    shape *values; /* node NIL: not known */
    gale_graph **kept;
    size_t n_kept, kept_capacity; /* whose constants g may read */
} world;
/* A graph in a world: the main one, or a branch that is taken. */
typedef struct scope {
    world *world;
    gale__onnx_net *net;
    shape *values;
    int depth;
} scope;
typedef struct inference {
    gale__onnx_net *net;
    const char *symbols[SYMBOLS];
    int64_t numbers[SYMBOLS][WORLDS];
    int n_symbols;
    int64_t unit; /* what all numbers are multiples of */
    world worlds[WORLDS];
} inference;

/* --- Symbols. --- */

/* Numbers such that no symbol is a linear function of another over the three worlds. */
static int64_t number_of(int symbol, int w)
{
    static const uint8_t few[][WORLDS] = {{1, 2, 4}, {2, 5, 3}, {3, 1, 7}, {5, 4, 1}, {7, 3, 2}, {4, 7, 6}};
    int n = sizeof few / sizeof *few;
    if (symbol < n) return few[symbol][w];
    return 2 + (int64_t)((uint32_t)(symbol * 7919 + w * 104729) * 2654435761u >> 24) % 29;
}

/* The place of a symbol, -1 when there are too many. */
static int find_symbol(inference *f, const char *name)
{
    for (int i = 0; i < f->n_symbols; i++)
        if (strcmp(f->symbols[i], name) == 0) return i;
    if (f->n_symbols == SYMBOLS) return -1;
    f->symbols[f->n_symbols] = name;
    return f->n_symbols++;
}

static const char *symbol_of(inference *f, const gale__onnx_net_value *v, int axis)
{
    if (v->symbols[axis] && *v->symbols[axis]) return v->symbols[axis];
    return gale__arena_printf(f->net->arena, "%s.%d", v->name, axis);
}

/* --- One world. --- */

static void set_shape(const scope *s, int32_t value, gale__node n)
{
    if (value < 0) return;
    shape *v = &s->values[value];
    v->node = n;
    if (n < 0) return;
    const gale__prim_node *p = gale__prim_at(&s->world->g, n);
    v->rank = p->rank;
    v->type = (gale_type)p->type;
    memcpy(v->dims, p->dims, (size_t)p->rank * sizeof *v->dims);
}

static gale_status set_inputs(inference *f, const scope *main, int which)
{
    gale__prim_graph *g = &main->world->g;
    for (int i = 0; i < f->net->n_inputs; i++) {
        const gale__onnx_net_value *v = &f->net->values[f->net->inputs[i]];
        int64_t dims[GALE_MAX_RANK];
        bool known = v->rank >= 0 && v->kind == GALE__KIND_NUMBERS && !v->optional;
        for (int d = 0; known && d < v->rank; d++) {
            const char *name = v->dims[d] < 0 ? symbol_of(f, v, d) : NULL;
            int symbol = name ? find_symbol(f, name) : -1;
            if (v->dims[d] < 0 && !name) return GALE_NO_MEMORY;
            known = v->dims[d] >= 0 || symbol >= 0;
            dims[d] = symbol < 0 ? v->dims[d] : f->unit * number_of(symbol, which);
            if (symbol >= 0) f->numbers[symbol][which] = dims[d];
        }
        if (known) set_shape(main, f->net->inputs[i], gale__prim_input(g, i, v->type, v->rank, dims));
    }
    return g->status;
}

/* What a node reads, each once: its inputs and what its bodies take from outside. */
typedef struct reads {
    int32_t *values;
    gale_type *types;
    gale__node *nodes;
    int n;
    bool known;
} reads;

static void add_read(const scope *s, int32_t value, reads *r)
{
    if (value < 0) return;
    for (int i = 0; i < r->n; i++)
        if (r->values[i] == value) return;
    if (s->values[value].node < 0) r->known = false;
    r->types[r->n] = s->values[value].type;
    r->nodes[r->n] = s->values[value].node;
    r->values[r->n++] = value;
}

static gale_status find_reads(const scope *s, const gale__onnx_net_node *node, reads *r)
{
    gale__arena *arena = &s->world->g.arena;
    size_t most = (size_t)node->n_in;
    for (int b = 0; b < node->n_bodies; b++) most += (size_t)node->bodies[b].net->n_captures;
    *r = (reads){.known = most <= READS_MAX};
    if (!r->known) return GALE_OK;
    r->values = gale__arena_alloc(arena, (most + 1) * sizeof *r->values);
    r->types = gale__arena_alloc(arena, (most + 1) * sizeof *r->types);
    r->nodes = gale__arena_alloc(arena, (most + 1) * sizeof *r->nodes);
    if (!r->values || !r->types || !r->nodes) return GALE_NO_MEMORY;
    for (int i = 0; i < node->n_in; i++) add_read(s, node->in[i], r);
    for (int b = 0; b < node->n_bodies; b++)
        for (int i = 0; i < node->bodies[b].net->n_captures; i++) add_read(s, node->bodies[b].net->captures[i], r);
    return GALE_OK;
}

/* Constants of bodies and attributes are read in place, so such a graph lives as long as the world. */
static gale_status let_go(world *w, const gale__onnx_net_node *node, gale_graph **graph)
{
    bool tensors = node->n_bodies;
    for (int i = 0; i < node->n_attrs; i++) tensors = tensors || node->attrs[i].kind == GALE_ATTR_TENSOR;
    gale_status status =
        tensors && *graph ? gale__grow((void **)&w->kept, &w->kept_capacity, w->n_kept + 1, sizeof *w->kept) : GALE_OK;
    if (!tensors || !*graph || status != GALE_OK) gale_graph_destroy(graph);
    else w->kept[w->n_kept++] = *graph;
    return status;
}

/* One node as a graph of its own, put into the world's; whatever is wrong with it, the next may be right. */
static gale_status lower_node(const scope *s, int32_t index)
{
    const gale__onnx_net_node *node = &s->net->nodes[index];
    gale__prim_graph *g = &s->world->g;
    reads r;
    GALE_TRY(find_reads(s, node, &r));
    if (!r.known) return GALE_OK;
    int32_t *outputs = gale__arena_alloc(&g->arena, ((size_t)node->n_out + 1) * sizeof *outputs);
    gale__node *made = gale__arena_alloc(&g->arena, ((size_t)node->n_out + 1) * sizeof *made);
    gale_graph *graph = NULL;
    if (!outputs || !made) return GALE_NO_MEMORY;
    gale__onnx_segment one = {.nodes = &index, .n_nodes = 1, .inputs = r.values, .n_inputs = r.n, .outputs = outputs};
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0) outputs[one.n_outputs++] = node->out[i];
    gale_status status = gale__onnx_segment_graph(s->net, &one, r.types, &graph);
    if (status == GALE_OK) status = gale__opgraph_inline(graph, g, r.nodes, r.n, made, one.n_outputs);
    for (int i = 0; status == GALE_OK && i < one.n_outputs; i++) set_shape(s, outputs[i], made[i]);
    g->status = GALE_OK;
    if (status == GALE_NO_MEMORY) gale_graph_destroy(&graph);
    return status == GALE_NO_MEMORY ? status : let_go(s->world, node, &graph);
}

static gale_status run_scope(const scope *s);

/* What is known before any node: constants. */
static gale_status open_scope(const scope *s)
{
    for (int i = 0; i < s->net->n_values; i++) {
        const gale__onnx_net_value *v = &s->net->values[i];
        s->values[i].node = GALE__NIL;
        if (v->constant && v->kind == GALE__KIND_NUMBERS)
            set_shape(s, i, gale__prim_const_tensor(&s->world->g, v->constant));
    }
    return s->world->g.status;
}

/* The condition of an If where shapes and constants decide it: 1 or 0, else -1. */
static int condition(const scope *s, const gale__onnx_net_node *node)
{
    const gale__prim_node *known;
    void *copy = NULL;
    const void *data;
    gale__node n = node->n_in && node->in[0] >= 0 ? s->values[node->in[0]].node : GALE__NIL;
    if (n < 0 || gale__prim_elements(&s->world->g, n) != 1 || gale__prim_known(&s->world->g, n, &known) != GALE_OK ||
        gale__prim_read(known, &copy, &data) != GALE_OK)
        return -1;
    int holds = gale__load_f64((gale_type)known->type, data) != 0;
    gale__free(copy);
    return holds;
}

/* The branch that is taken, in the same world. */
static gale_status take_branch(const scope *s, const gale__onnx_net_node *node)
{
    int holds = strcmp(node->op, "If") || s->depth >= DEPTH_MAX ? -1 : condition(s, node);
    gale__onnx_net *body = NULL;
    for (int b = 0; b < node->n_bodies && holds >= 0; b++)
        if (strcmp(node->bodies[b].name, holds ? "then_branch" : "else_branch") == 0) body = node->bodies[b].net;
    if (!body || body->n_inputs != body->n_captures || body->n_outputs < node->n_out) return GALE_OK;
    scope inner = {s->world, body,
        gale__arena_alloc(&s->world->g.arena, ((size_t)body->n_values + 1) * sizeof *inner.values), s->depth + 1};
    if (!inner.values) return GALE_NO_MEMORY;
    GALE_TRY(open_scope(&inner));
    for (int i = 0; i < body->n_captures; i++) inner.values[body->inputs[i]] = s->values[body->captures[i]];
    GALE_TRY(run_scope(&inner));
    for (int i = 0; i < node->n_out; i++) set_shape(s, node->out[i], inner.values[body->outputs[i]].node);
    return GALE_OK;
}

static gale_status run_scope(const scope *s)
{
    for (int i = 0; i < s->net->n_nodes; i++) {
        gale__onnx_runner runner = gale__onnx_net_runner(s->net, &s->net->nodes[i]);
        if (runner == GALE__RUNS_ON_DEVICE) GALE_TRY(lower_node(s, i));
        if (runner == GALE__RUNS_BODIES) GALE_TRY(take_branch(s, &s->net->nodes[i]));
    }
    return GALE_OK;
}

static gale_status make_world(inference *f, int which)
{
    scope main = {&f->worlds[which], f->net, f->worlds[which].values, 0};
    GALE_TRY(open_scope(&main));
    GALE_TRY(set_inputs(f, &main, which));
    return run_scope(&main);
}

/* --- Formulas. --- */

static int64_t common(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b, b = t;
    }
    return a < 0 ? -a : a;
}

/* e = times x / over + plus in every world?  In lowest terms; x differs between the first two. */
static bool fit(const int64_t e[WORLDS], const int64_t x[WORLDS], gale__onnx_extent *out)
{
    int64_t rise = e[1] - e[0], run = x[1] - x[0], g = run ? common(rise, run) : 0;
    if (!run || !rise) return false;
    rise /= g, run /= g;
    if (run < 0) rise = -rise, run = -run;
    for (int w = 0; w < WORLDS; w++)
        if ((e[w] - e[0]) * run != (x[w] - x[0]) * rise || x[w] * rise % run) return false;
    *out = (gale__onnx_extent){.known = true, .times = rise, .over = run, .plus = e[0] - x[0] * rise / run};
    return true;
}

/* Fewer words are better: no offset, no factors. */
static int words(const gale__onnx_extent *e)
{
    return (e->plus != 0) * 2 + (e->over != 1) + (e->times != 1) + e->n_names * 4;
}

/* Tries the product, or the sum, of the symbols chosen. */
static void consider(
    const inference *f, const int64_t e[WORLDS], const int *chosen, int n, bool sum, gale__onnx_extent *best)
{
    int64_t x[WORLDS];
    gale__onnx_extent now;
    for (int w = 0; w < WORLDS; w++) {
        x[w] = sum ? 0 : 1;
        for (int i = 0; i < n; i++) x[w] = sum ? x[w] + f->numbers[chosen[i]][w] : x[w] * f->numbers[chosen[i]][w];
    }
    if (!fit(e, x, &now) || (n > 1 && !sum && now.plus) || (sum && (now.times != 1 || now.over != 1))) return;
    now.sum = sum;
    for (int i = 0; i < n; i++) now.names[now.n_names++] = f->symbols[chosen[i]];
    if (!best->known || words(&now) < words(best)) *best = now;
}

static gale__onnx_extent formula(const inference *f, const int64_t e[WORLDS])
{
    gale__onnx_extent best = {0};
    bool same = true;
    for (int w = 0; w < WORLDS; w++) {
        same = same && e[w] == e[0];
        if (e[w] < 0 || e[w] > 1ll << 30) return best;
    }
    if (same) return (gale__onnx_extent){.known = true, .over = 1, .plus = e[0]};
    int s[3], n = f->n_symbols;
    for (s[0] = 0; s[0] < n; s[0]++) consider(f, e, s, 1, false, &best);
    for (s[0] = 0; s[0] < n && !best.known; s[0]++)
        for (s[1] = s[0]; s[1] < n; s[1]++) consider(f, e, s, 2, false, &best), consider(f, e, s, 2, true, &best);
    for (s[0] = 0; s[0] < n && n <= 8 && !best.known; s[0]++)
        for (s[1] = s[0]; s[1] < n; s[1]++)
            for (s[2] = s[1]; s[2] < n; s[2]++) consider(f, e, s, 3, false, &best);
    return best;
}

static gale__onnx_inferred read_off(const inference *f, int value)
{
    const shape *s[WORLDS];
    gale__onnx_inferred out = {0};
    for (int w = 0; w < WORLDS; w++) {
        s[w] = &f->worlds[w].values[value];
        if (s[w]->node < 0 || s[w]->rank != s[0]->rank || s[w]->type != s[0]->type) return out;
    }
    out = (gale__onnx_inferred){.known = true, .type = s[0]->type, .rank = s[0]->rank};
    for (int d = 0; d < out.rank; d++) {
        int64_t e[WORLDS];
        for (int w = 0; w < WORLDS; w++) e[w] = s[w]->dims[d];
        out.dims[d] = formula(f, e);
    }
    return out;
}

/* --- The whole. --- */

/* All worlds with numbers that are multiples of `unit`; gives how many values came out known. */
static gale_status attempt(inference *f, int64_t unit, gale__onnx_inferred *out, int *count)
{
    gale_status status = GALE_OK;
    f->unit = unit;
    *count = 0;
    for (int w = 0; w < WORLDS; w++) gale__prim_init(&f->worlds[w].g);
    for (int w = 0; w < WORLDS && status == GALE_OK; w++) {
        f->worlds[w].values = gale__calloc((size_t)f->net->n_values + 1, sizeof *f->worlds[w].values);
        status = f->worlds[w].values ? make_world(f, w) : GALE_NO_MEMORY;
    }
    for (int i = 0; i < f->net->n_values && status == GALE_OK; i++) {
        out[i] = read_off(f, i);
        *count += out[i].known;
    }
    for (int w = 0; w < WORLDS; w++) {
        gale__prim_finish(&f->worlds[w].g);
        for (size_t i = 0; i < f->worlds[w].n_kept; i++) gale_graph_destroy(&f->worlds[w].kept[i]);
        gale__free(f->worlds[w].kept);
        gale__free(f->worlds[w].values);
        f->worlds[w] = (world){0};
    }
    return status;
}

gale_status gale__onnx_net_infer(gale__onnx_net *net, gale__onnx_inferred *out)
{
    static const int64_t units[] = {
        64, 8, 1}; /* models divide by their strides and windows, and have tables of positions */
    gale__onnx_inferred *tried = gale__calloc((size_t)net->n_values + 1, sizeof *tried);
    inference *f = gale__calloc(1, sizeof *f);
    gale_status status = tried && f ? GALE_OK : GALE_NO_MEMORY;
    int best = -1, count;
    for (size_t i = 0; i < sizeof units / sizeof *units && status == GALE_OK && best < net->n_values; i++) {
        f->net = net;
        status = attempt(f, units[i], tried, &count);
        if (status != GALE_OK || count <= best) continue;
        best = count;
        memcpy(out, tried, (size_t)net->n_values * sizeof *out);
        if (!f->n_symbols) break; /* nothing to vary */
    }
    gale__free(tried);
    gale__free(f);
    return status;
}

void gale__onnx_extent_text(const gale__onnx_extent *e, gale__str *out)
{
    if (!e->known) gale__str_add(out, "?");
    else if (!e->n_names) gale__str_addf(out, "%lld", (long long)e->plus);
    if (!e->known || !e->n_names) return;
    if (e->times != 1) gale__str_addf(out, "%lld*", (long long)e->times);
    for (int i = 0; i < e->n_names; i++) gale__str_addf(out, "%s%s", !i ? "" : e->sum ? " + " : "*", e->names[i]);
    if (e->over != 1) gale__str_addf(out, "/%lld", (long long)e->over);
    if (e->plus)
        gale__str_addf(out, " %c %lld", e->plus < 0 ? '-' : '+', (long long)(e->plus < 0 ? -e->plus : e->plus));
}

void gale__onnx_inferred_text(const gale__onnx_inferred *v, gale__str *out)
{
    gale__str_add(out, v->known ? gale_type_name(v->type) : "?");
    if (!v->known) return;
    gale__str_add(out, " [");
    for (int d = 0; d < v->rank; d++) {
        if (d) gale__str_add(out, ", ");
        gale__onnx_extent_text(&v->dims[d], out);
    }
    gale__str_add(out, "]");
}
