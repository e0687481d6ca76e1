/* Copies the part of a graph that some outputs need into another graph, with renumbered inputs.  Gradients of loops
 * use it: the reverse body recomputes the body. */
#include "graph/grad/grad.h"
#include <string.h>

static gale__node copy_node(const gale__prim_node *p, const int *number, gale__prim_graph *to, const gale__node *in)
{
    gale__prim_node node = *p;
    int64_t which = p->op == GALE__PRIM_INPUT ? p->attr[0] : 0;
    if (p->op == GALE__PRIM_INPUT && number) which = number[which];
    if (p->op == GALE__PRIM_INPUT) node.attr = &which;
    node.in = (gale__node *)in; /* push copies it */
    return gale__prim_push(to, &node);
}

static gale_status copy_loop(
    const gale__prim_loop_args *from, gale__prim_graph *to, const gale__node *in, gale__node *out)
{
    gale_status status = GALE_NO_MEMORY;
    int n_out = from->n_carried + from->n_stacked;
    gale__prim_loop_args loop = *from;
    gale__node *map = gale__alloc(((size_t)from->body->count + 1) * sizeof *map);
    loop.out = gale__calloc((size_t)n_out + 1, sizeof *loop.out);
    loop.body = gale__alloc(sizeof *loop.body);
    if (loop.body) gale__prim_init(loop.body);
    *out = GALE__NIL;
    if (!map || !loop.out || !loop.body) goto done;
    loop.body->fold_max = from->body->fold_max;
    GALE_GO(gale__prim_clone(from->body, from->out, n_out, NULL, loop.body, map));
    for (int i = 0; i < n_out; i++) loop.out[i] = map[from->out[i]];
    *out = gale__prim_loop(to, &loop, in);
    status = to->status;
done:
    if (*out < 0 && loop.body) {
        gale__prim_finish(loop.body);
        gale__free(loop.body);
    }
    gale__free(map);
    gale__free(loop.out);
    return status;
}

void gale__prim_reach(const gale__prim_graph *g, const gale__node *outputs, int n, bool *needed)
{
    for (int i = 0; i < n; i++) needed[outputs[i]] = true;
    for (int32_t i = g->count - 1; i >= 0; i--)
        for (int k = 0; needed[i] && k < g->nodes[i].n_in; k++) needed[g->nodes[i].in[k]] = true;
}

static int most_inputs(const gale__prim_graph *g)
{
    int most = 0;
    for (int32_t i = 0; i < g->count; i++)
        if (g->nodes[i].n_in > most) most = g->nodes[i].n_in;
    return most;
}

gale_status gale__prim_clone(const gale__prim_graph *from, const gale__node *outputs, int n, const int *number,
    gale__prim_graph *to, gale__node *map)
{
    gale_status status = GALE_NO_MEMORY;
    bool *needed = gale__calloc((size_t)from->count + 1, sizeof *needed);
    gale__node *in = gale__calloc((size_t)most_inputs(from) + 1, sizeof *in);
    if (!needed || !in) goto done;
    gale__prim_reach(from, outputs, n, needed);
    for (int32_t i = 0; i < from->count; i++) {
        const gale__prim_node *p = &from->nodes[i];
        map[i] = GALE__NIL;
        if (!needed[i]) continue;
        for (int k = 0; k < p->n_in; k++) in[k] = map[p->in[k]];
        if (p->op == GALE__PRIM_LOOP) GALE_GO(copy_loop(p->loop, to, in, &map[i]));
        else map[i] = copy_node(p, number, to, in);
    }
    status = to->status;
done:
    gale__free(needed);
    gale__free(in);
    return status;
}
