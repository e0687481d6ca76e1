/* A dump of the primitive graph, one node a line, for people and tests. */
#include "graph/build/graph.h"
#include "base/str.h"

static const char *const prim_names[GALE__PRIM_COUNT - GALE__SCALAR_COUNT] = {"const", "input", "iota", "reshape",
    "permute", "expand", "slice", "pad", "window", "roll", "unwindow", "reduce", "take", "put", "concat", "scan",
    "sort", "loop", "loop_out", "copy", "routine"};

static const char *name_of(const gale__prim_node *p)
{
    return p->op < GALE__SCALAR_COUNT ? gale__scalar_table[p->op].name : prim_names[p->op - GALE__SCALAR_COUNT];
}

static void print_data(const gale__prim_node *p, gale__str *out)
{
    int64_t n = 1;
    for (int d = 0; d < p->rank; d++) n *= p->dims[d];
    if (p->splat) n = 1;
    size_t size = gale_type_size(p->type);
    gale__str_add(out, p->splat ? " all" : "");
    for (int64_t i = 0; i < n && i < 8; i++)
        gale__str_addf(out, " %.9g", gale__load_f64(p->type, (const char *)p->data + i * size));
    if (n > 8) gale__str_add(out, " ...");
}

void gale__prim_print(const gale__prim_graph *g, gale__str *out)
{
    for (int32_t i = 0; i < g->count; i++) {
        const gale__prim_node *p = &g->nodes[i];
        gale__str_addf(out, "%%%d = %s %s[", i, name_of(p), gale_type_name(p->type));
        for (int d = 0; d < p->rank; d++) gale__str_addf(out, "%s%lld", d ? ", " : "", (long long)p->dims[d]);
        gale__str_add(out, "]");
        for (int k = 0; k < p->n_in; k++) gale__str_addf(out, " %%%d", p->in[k]);
        for (int k = 0; k < p->n_attr; k++) gale__str_addf(out, "%s%lld", k ? ", " : " {", (long long)p->attr[k]);
        if (p->n_attr) gale__str_add(out, "}");
        if (p->op == GALE__PRIM_CONST && p->data && !p->tensor) print_data(p, out);
        if (p->region >= 0 && p->region < g->n_regions) gale__str_addf(out, "  # %s", g->regions[p->region].name);
        gale__str_add(out, "\n");
    }
}
