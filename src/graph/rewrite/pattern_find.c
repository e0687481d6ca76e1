/* Finds a pattern in an operator graph.  The remaining goals (part of the pattern, value of the graph) are a stack
 * that is copied at every choice, so that all choices stay open until the whole pattern has matched. */
#include "graph/rewrite/pattern.h"
#include "graph/run/tensor.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GOALS_MAX = 24 };
typedef struct goal {
    int8_t part;
    gale_value value;
} goal;
typedef struct state {
    gale__pattern_match match;
    goal goals[GOALS_MAX];
    int n_goals;
} state;
typedef struct search {
    const gale__pattern *pattern;
    const gale_graph *graph;
    const uint8_t *taken;
} search;

static bool solve(const search *s, const state *at, gale__pattern_match *out);

static const gale_attr *attr_of(const gale__op_node *n, const char *name, size_t length)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (strlen(n->attrs[i].name) == length && !memcmp(n->attrs[i].name, name, length)) return &n->attrs[i];
    return NULL;
}

/* --- Constants: of the graph, or made by the operator Constant. --- */

/* values: whole numbers, as many as there are axes at most. */
typedef struct constant {
    gale_type type;
    int rank;
    int64_t count;
    double number;
    int64_t values[GALE_MAX_RANK];
} constant;

static bool constant_of_tensor(const gale_tensor *t, constant *out)
{
    uint64_t first = 0;
    if (!t || !t->host || t->type == GALE_STRING) return false;
    *out = (constant){.type = t->type, .rank = t->rank, .count = gale__tensor_elements(t)};
    if (out->count == 1 && gale__tensor_read(t, 0, t->size_bytes, &first) != GALE_OK) return false;
    if (out->count == 1) out->number = gale__load_f64(t->type, &first);
    return t->type != GALE_I64 || out->count > GALE_MAX_RANK ||
           gale__tensor_read(t, 0, t->size_bytes, out->values) == GALE_OK;
}

static bool constant_of_ints(const gale_attr *a, constant *out)
{
    *out = (constant){.type = GALE_I64, .rank = 1, .count = (int64_t)a->count};
    if (a->count && a->count <= GALE_MAX_RANK) memcpy(out->values, a->ints, a->count * sizeof *a->ints);
    return true;
}

static bool is_identity(const gale__op_node *n) { return n && n->op && !strcmp(n->op->name, "Identity"); }

static const gale__op_node *node_of(const gale_graph *g, gale_value v)
{
    return v >= 0 && g->values[v].node >= 0 ? &g->nodes[g->values[v].node] : NULL;
}

static bool constant_of(const gale_graph *g, gale_value v, constant *out)
{
    const gale__op_node *n = node_of(g, v);
    if (is_identity(n)) v = n->in[0], n = node_of(g, v);
    if (v < 0) return false;
    const gale_tensor *t = g->values[v].constant;
    if (!t && n && n->op && !strcmp(n->op->name, "Constant")) {
        const gale_attr *value = attr_of(n, "value", 5), *real = attr_of(n, "value_float", 11),
                        *whole = attr_of(n, "value_ints", 10);
        if (real && real->kind == GALE_ATTR_FLOAT)
            return *out = (constant){.type = GALE_F32, .count = 1, .number = real->f}, true;
        if (whole && whole->kind == GALE_ATTR_INTS) return constant_of_ints(whole, out);
        if (value && value->kind == GALE_ATTR_TENSOR) t = value->tensor;
    }
    return constant_of_tensor(t, out);
}

/* Equal up to the rounding of the constant's own type. */
static bool same_number(gale_type type, double a, double b)
{
    return a == b || fabs(a - b) <= ldexp(fabs(b), -gale__type_table[type].mantissa_bits);
}

static bool match_number(const search *s, const gale__pattern_node *p, gale_value v, gale__pattern_match *m)
{
    constant c;
    if (!constant_of(s->graph, v, &c) || c.count != 1 || !gale__type_is_float(c.type)) return false;
    if (p->kind == '#' && !same_number(c.type, c.number, p->value)) return false;
    if (p->kind == '$') {
        if (m->value[p->slot] != GALE_NONE && m->number[p->slot] != c.number) return false;
        m->value[p->slot] = v;
        m->number[p->slot] = c.number;
    }
    if (c.rank > m->const_rank) m->const_rank = c.rank;
    return true;
}

/* --- Attributes. --- */

static bool reduces(const gale__op *op) { return !strncmp(op->name, "Reduce", 6); }
static bool is_softmax(const gale__op *op) { return !strcmp(op->name, "Softmax"); }

/* A run of last axes: -n .. -1, or a .. b where b + 1 is the rank. */
static bool note_axes(const int64_t *axes, int64_t n, gale__pattern_match *m)
{
    int64_t low = n ? axes[0] : 0, high = low;
    uint64_t seen = 0;
    if (n < 1 || n > GALE_MAX_RANK) return false;
    for (int64_t i = 0; i < n; i++) {
        if (axes[i] < -GALE_MAX_RANK || axes[i] >= GALE_MAX_RANK) return false;
        low = axes[i] < low ? axes[i] : low;
        high = axes[i] > high ? axes[i] : high;
        seen |= 1ull << (axes[i] + GALE_MAX_RANK);
    }
    if (high - low != n - 1 || (low < 0 && high != -1) || seen != ((1ull << n) - 1) << (low + GALE_MAX_RANK))
        return false;
    int rank = low < 0 ? -1 : (int)high + 1;
    if (m->exact_rank && (m->axis != low || m->exact_rank != rank)) return false;
    m->axis = (int)low;
    m->exact_rank = rank;
    return true;
}

static bool match_reduce(const search *s, const gale__op_node *n, gale__pattern_match *m)
{
    constant c;
    const gale_attr *axes = attr_of(n, "axes", 4), *keep = attr_of(n, "keepdims", 8);
    if (keep && (keep->kind != GALE_ATTR_INT || keep->i != 1)) return false;
    if (n->n_in > 1 && n->in[1] != GALE_NONE)
        return !axes && constant_of(s->graph, n->in[1], &c) && c.type == GALE_I64 && c.rank == 1 &&
               note_axes(c.values, c.count, m);
    return axes && axes->kind == GALE_ATTR_INTS && note_axes(axes->ints, (int64_t)axes->count, m);
}

static bool match_softmax(const gale__op_node *n, gale__pattern_match *m)
{
    const gale_attr *axis = attr_of(n, "axis", 4);
    if (n->n_attrs > (axis != NULL) || (axis && axis->kind != GALE_ATTR_INT)) return false;
    return note_axes(&(int64_t){axis ? axis->i : -1}, 1, m);
}

/* "*ac,*bc->*ab" against "hbwpc,hbwqc->hbwpq": letters may be other letters, one for one. */
static bool same_equation(const char *want, const char *end, const char *have)
{
    char other[128] = {0};
    bool used[128] = {false};
    char batch[GALE_MAX_RANK + 1];
    const char *comma = strchr(want, ','), *have_comma = strchr(have, ',');
    if (!comma || !have_comma || strpbrk(have, ". ")) return false;
    ptrdiff_t n = (have_comma - have) - (comma - want) + 1; /* axes under the star */
    if (n < 0 || n > GALE_MAX_RANK) return false;
    memcpy(batch, have, (size_t)n);
    for (ptrdiff_t i = 0; i < n; i++) {
        if (!isalpha((unsigned char)batch[i]) || used[(int)batch[i]]) return false;
        used[(int)batch[i]] = true;
    }
    for (; want < end; want++) {
        if (*want == '*') {
            if (strncmp(have, batch, (size_t)n)) return false;
            have += n;
            continue;
        }
        char c = *have++;
        if (!isalpha((unsigned char)*want)) {
            if (c != *want) return false;
            continue;
        }
        if (!isalpha((unsigned char)c) || (!other[(int)*want] && used[(int)c])) return false;
        if (!other[(int)*want]) other[(int)*want] = c, used[(int)c] = true;
        if (other[(int)*want] != c) return false;
    }
    return !*have;
}

/* "alpha=0.2,beta=0.5": these and no others. */
static bool same_numbers(const gale__pattern_node *p, const gale__op_node *n)
{
    int count = 0;
    for (const char *at = p->attrs, *end = at + p->attrs_length; at < end; count++) {
        const char *equal = strchr(at, '=');
        char *after;
        double want = strtod(equal + 1, &after);
        const gale_attr *a = attr_of(n, at, (size_t)(equal - at));
        if (!a || (a->kind != GALE_ATTR_FLOAT && a->kind != GALE_ATTR_INT)) return false;
        if (!same_number(GALE_F32, a->kind == GALE_ATTR_INT ? (double)a->i : a->f, want)) return false;
        at = after + (*after == ',');
    }
    return count == n->n_attrs;
}

static bool match_attributes(
    const search *s, const gale__pattern_node *p, const gale__op_node *n, gale__pattern_match *m)
{
    if (reduces(p->op)) return match_reduce(s, n, m);
    if (is_softmax(p->op)) return match_softmax(n, m);
    if (!p->attrs) return n->n_attrs == 0;
    if (p->attrs_length == 1 && *p->attrs == '*') return true;
    if (memchr(p->attrs, '=', (size_t)p->attrs_length)) return same_numbers(p, n);
    const gale_attr *equation = attr_of(n, "equation", 8);
    return equation && equation->kind == GALE_ATTR_STRING &&
           same_equation(p->attrs, p->attrs + p->attrs_length, equation->s);
}

/* --- The search. --- */

static bool push(state *s, int part, gale_value v)
{
    if (s->n_goals == GOALS_MAX) return false;
    s->goals[s->n_goals++] = (goal){(int8_t)part, v};
    return true;
}

static bool match_inputs(const search *s, const state *at, const gale__pattern_node *p, const gale__op_node *n,
    bool swapped, gale__pattern_match *out)
{
    state next = *at;
    for (int i = p->n_in - 1; i >= 0; i--)
        if (!push(&next, p->in[i], n->in[swapped ? 1 - i : i])) return false;
    return solve(s, &next, out);
}

/* The node that makes a value and is free to be part of a match; NULL: none. */
static const gale__op_node *maker_of(const search *s, gale_value v)
{
    const gale__op_node *n = node_of(s->graph, v);
    return n && !s->taken[n - s->graph->nodes] ? n : NULL;
}

static bool note_member(gale__pattern_match *m, int node)
{
    int i = 0;
    while (i < m->n_members && m->member[i] != node) i++;
    if (i == GALE__PATTERN_NODES) return false;
    if (i == m->n_members) m->member[m->n_members++] = node;
    return true;
}

static bool match_operator(
    const search *s, state *at, const gale__pattern_node *p, gale_value v, gale__pattern_match *out)
{
    gale__pattern_match *m = &at->match;
    const gale__op_node *n = maker_of(s, v);
    for (; is_identity(n); n = maker_of(s, n->in[0]))
        if (!note_member(m, (int)(n - s->graph->nodes))) return false;
    if (!n) return false;
    int n_in = reduces(p->op) ? 1 : n->n_in;
    while (n_in && n->in[n_in - 1] == GALE_NONE) n_in--;
    if (n->op != p->op || n->n_out != 1 || n_in != p->n_in || !match_attributes(s, p, n, &at->match)) return false;
    if (!note_member(m, (int)(n - s->graph->nodes))) return false;
    if (match_inputs(s, at, p, n, false, out)) return true;
    bool commutes = p->n_in == 2 && (!strcmp(p->op->name, "Add") || !strcmp(p->op->name, "Mul"));
    return commutes && match_inputs(s, at, p, n, true, out);
}

static bool solve(const search *s, const state *before, gale__pattern_match *out)
{
    state at = *before;
    if (!at.n_goals) return *out = at.match, true;
    goal g = at.goals[--at.n_goals];
    const gale__pattern_node *p = &s->pattern->nodes[g.part];
    if (g.value < 0) return false;
    switch (p->kind) {
    case 'o': return match_operator(s, &at, p, g.value, out);
    case '#':
    case '$': return match_number(s, p, g.value, &at.match) && solve(s, &at, out);
    case '|':
        for (int i = 0; i < p->n_in; i++) {
            state next = at;
            if (push(&next, p->in[i], g.value) && solve(s, &next, out)) return true;
        }
        return false;
    default: break;
    }
    gale_value *bound = &at.match.value[p->slot];
    if (p->kind == 'w' && s->graph->values[g.value].node >= 0 && !constant_of(s->graph, g.value, &(constant){0}))
        return false;
    if (*bound != GALE_NONE && *bound != g.value) return false;
    *bound = g.value;
    return solve(s, &at, out);
}

/* Values inside are read by members alone. */
static bool closed(const gale_graph *graph, const int32_t *users, const gale__pattern_match *m)
{
    for (int i = 1; i < m->n_members; i++) {
        gale_value v = graph->nodes[m->member[i]].out[0];
        int32_t inside = 0;
        for (int k = 0; k < m->n_members; k++) {
            const gale__op_node *n = &graph->nodes[m->member[k]];
            for (int j = 0; j < n->n_in; j++) inside += n->in[j] == v;
        }
        if (inside != users[v]) return false;
    }
    return true;
}

static bool root_fits(const gale__pattern *p, int part, const gale__op *op)
{
    const gale__pattern_node *n = &p->nodes[part];
    if (n->kind == 'o') return n->op == op;
    for (int i = 0; n->kind == '|' && i < n->n_in; i++)
        if (root_fits(p, n->in[i], op)) return true;
    return false;
}

bool gale__pattern_find(const gale__pattern *p, const gale_graph *graph, const int32_t *users, const uint8_t *taken,
    int root, gale__pattern_match *out)
{
    const gale__op_node *n = &graph->nodes[root];
    if (!root_fits(p, p->root, n->op) || n->n_out != 1) return false;
    search s = {p, graph, taken};
    state at = {.n_goals = 1, .goals = {{(int8_t)p->root, n->out[0]}}};
    for (int i = 0; i < GALE__PATTERN_LETTERS; i++) at.match.value[i] = GALE_NONE;
    return solve(&s, &at, out) && closed(graph, users, out);
}
