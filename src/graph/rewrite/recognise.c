/* Recognisers: chains of small operators become one node before shapes are known.  The chain is kept with the node, so
 * that lowering can fall back to it if the shapes do not match the operator. */
#include "graph/rewrite/recognise.h"
#include "base/thread.h"
#include "graph/plan/paths.h"
#include "graph/rewrite/pattern.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct rule {
    const char *region, *op, *inputs, *attrs, *text;
} rule;
static const rule rules[] = {
#define RULE(region, op, inputs, attrs, text) {#region, #op, inputs, attrs, text},
#include "graph/rewrite/recognise.def"
#undef RULE
};
enum { N_RULES = sizeof rules / sizeof *rules, ATTRS_MAX = 6 };

static gale__pattern patterns[N_RULES];
static const char *errors[N_RULES];
static gale__once parsed;

static void parse_all(void)
{
    for (int i = 0; i < N_RULES; i++) {
        errors[i] = gale__pattern_parse(rules[i].text, &patterns[i]);
        if (!errors[i] && strcmp(rules[i].op, "NONE") && !gale__op_find(rules[i].op)) errors[i] = "unknown operator";
        for (const char *c = rules[i].inputs; *c && !errors[i]; c++)
            if (gale__pattern_slot(&patterns[i], *c) < 0) errors[i] = "an input is not in the pattern";
    }
}

bool gale__recognise_check(int i, const char **region, const char **error)
{
    gale__once_run(&parsed, parse_all);
    if (i < 0 || i >= N_RULES) return false;
    *region = rules[i].region;
    *error = errors[i];
    return true;
}

typedef struct recogniser {
    gale_graph *graph; /* the copy */
    gale__arena *arena;
    int32_t *users;       /* by value */
    uint8_t *taken;       /* by node */
    gale__op_node **made; /* by node: what takes the place of a chain that ends there */
} recogniser;

static void count_users(recogniser *r)
{
    const gale_graph *g = r->graph;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] >= 0) r->users[g->nodes[i].in[k]]++;
    for (int i = 0; i < g->n_outputs; i++) r->users[g->outputs[i]]++;
    for (int i = 0; i < g->n_gradients; i++) {
        r->users[g->gradients[i].loss]++;
        for (int k = 0; k < g->gradients[i].n; k++) r->users[g->gradients[i].wrt[k]]++;
    }
}

/* One attribute of a rule's text; returns the start of the next one. The name stays empty if the number was not
 * matched. */
static const char *make_attr(
    gale__arena *arena, const char *text, const gale__pattern *p, const gale__pattern_match *m, gale_attr *out)
{
    const char *equal = strchr(text, '='), *value = equal + 1, *end = value + strcspn(value, " "),
               *next = end + (*end == ' ');
    char *name = gale__arena_alloc(arena, (size_t)(end - text) + 1);
    if (!name) return NULL;
    memcpy(name, text, (size_t)(end - text));
    name[equal - text] = 0;
    *out = (gale_attr){.name = name, .kind = GALE_ATTR_INT};
    if (*value == '@') out->i = m->axis;
    else if (isdigit((unsigned char)*value)) out->i = strtoll(value, NULL, 10);
    else if (*value == '$') {
        int slot = gale__pattern_slot(p, value[1]);
        if (m->value[slot] == GALE_NONE) out->name = NULL;
        out->kind = GALE_ATTR_FLOAT;
        out->f = m->number[slot];
    } else {
        out->kind = GALE_ATTR_STRING;
        out->s = name + (value - text);
    }
    return next;
}

static int by_index(const void *a, const void *b) { return *(const int32_t *)a - *(const int32_t *)b; }

static gale_status make_body(recogniser *r, gale__pattern_match *m, gale__op_node *node)
{
    gale__op_node *body = gale__arena_alloc(r->arena, (size_t)m->n_members * sizeof *body);
    if (!body) return GALE_NO_MEMORY;
    qsort(m->member, (size_t)m->n_members, sizeof *m->member, by_index);
    for (int i = 0; i < m->n_members; i++) {
        body[i] = r->graph->nodes[m->member[i]];
        r->taken[m->member[i]] = 1;
    }
    node->body = body;
    node->n_body = m->n_members;
    node->min_rank = m->const_rank;
    node->exact_rank = m->exact_rank > 0 ? m->exact_rank : -1;
    return GALE_OK;
}

static gale_status make_node(recogniser *r, const rule *found, const gale__pattern *p, gale__pattern_match *m, int root)
{
    gale__op_node *node = gale__arena_alloc(r->arena, sizeof *node);
    size_t n_in = strlen(found->inputs);
    if (!node) return GALE_NO_MEMORY;
    *node = (gale__op_node){.name = found->region,
        .op = strcmp(found->op, "NONE") ? gale__op_find(found->op) : NULL,
        .out = r->graph->nodes[root].out,
        .n_out = 1,
        .where = r->graph->nodes[root].where};
    node->in = gale__arena_alloc(r->arena, (n_in + 1) * sizeof *node->in);
    node->attrs = gale__arena_alloc(r->arena, ATTRS_MAX * sizeof *node->attrs);
    if (!node->in || !node->attrs) return GALE_NO_MEMORY;
    for (size_t i = 0; i < n_in; i++) node->in[i] = m->value[gale__pattern_slot(p, found->inputs[i])];
    node->n_in = (int)n_in;
    if (node->op && node->n_in < node->op->min_in) node->in[node->n_in++] = GALE_NONE; /* a scale left out */
    for (const char *at = found->attrs; *at && node->n_attrs < ATTRS_MAX;
         node->n_attrs += node->attrs[node->n_attrs].name != NULL)
        if (!(at = make_attr(r->arena, at, p, m, &node->attrs[node->n_attrs]))) return GALE_NO_MEMORY;
    r->made[root] = node;
    return make_body(r, m, node);
}

static gale_status find_chains(recogniser *r)
{
    for (int i = r->graph->n_nodes - 1; i >= 0; i--)
        for (int k = 0; k < N_RULES && !r->taken[i]; k++) {
            gale__pattern_match m;
            if (errors[k] || !gale__pattern_find(&patterns[k], r->graph, r->users, r->taken, i, &m)) continue;
            GALE_TRY(make_node(r, &rules[k], &patterns[k], &m, i));
        }
    return GALE_OK;
}

/* Removes chains and inserts their replacements where they ended. */
static void close_up(recogniser *r)
{
    gale_graph *g = r->graph;
    int n = 0, next = 0;
    for (int i = 0; i <= g->n_nodes; i++) {
        for (; next < g->n_gradients && g->gradients[next].after == i; next++) g->gradients[next].after = n;
        if (i == g->n_nodes) break;
        if (r->taken[i] && !r->made[i]) continue;
        g->nodes[n++] = r->made[i] ? *r->made[i] : g->nodes[i];
    }
    g->n_nodes = n;
}

static gale_status recognise(gale_graph *graph, gale__arena *arena)
{
    recogniser r = {.graph = graph, .arena = arena};
    r.users = gale__calloc((size_t)graph->n_values + 1, sizeof *r.users);
    r.taken = gale__calloc((size_t)graph->n_nodes + 1, sizeof *r.taken);
    r.made = gale__calloc((size_t)graph->n_nodes + 1, sizeof *r.made);
    gale_status status = GALE_NO_MEMORY;
    if (r.users && r.taken && r.made) {
        gale__once_run(&parsed, parse_all);
        count_users(&r);
        status = find_chains(&r);
        if (status == GALE_OK) close_up(&r);
    }
    gale__free(r.users);
    gale__free(r.taken);
    gale__free(r.made);
    return status;
}

gale_status gale__recognise(const gale_graph *g, bool no_recognise, gale__arena *arena, gale_graph *out)
{
    memset(out, 0, sizeof *out);
    out->values = g->values, out->n_values = g->n_values;
    out->inputs = g->inputs, out->n_inputs = g->n_inputs;
    out->outputs = g->outputs, out->output_names = g->output_names, out->n_outputs = g->n_outputs;
    out->nodes = gale__arena_copy(arena, g->nodes, (size_t)g->n_nodes * sizeof *g->nodes), out->n_nodes = g->n_nodes;
    out->gradients = gale__arena_copy(arena, g->gradients, (size_t)g->n_gradients * sizeof *g->gradients),
    out->n_gradients = g->n_gradients;
    if (!out->nodes || !out->gradients) return GALE_NO_MEMORY;
    if (!no_recognise) GALE_TRY(recognise(out, arena));
    for (int i = 0; i < out->n_nodes; i++) out->nodes[i].path = gale__fast_paths_first(out->nodes[i].name);
    return GALE_OK;
}
