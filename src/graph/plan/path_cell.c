/* Which recurrent steps the routines accept: those that the lowering of a cell offers.  All take f32; the kernel of all
 * steps takes narrow weights, and it and the CPU lengths of sequences, too. */
#include "graph/plan/paths.h"

static gale__cpu_cell *describe(gale__claim *c)
{
    gale__cpu_cell *a = gale__claim_args(c, sizeof *a);
    gale__prim_node out = gale__claim_node(c, c->out), weights = gale__claim_node(c, c->in[1]);
    if (!a || out.type != weights.type) return NULL;
    *a = (gale__cpu_cell){.kind = (int64_t)gale__claim_attr(c, "kind", 0),
        .trips = out.dims[0],
        .batch = out.dims[1],
        .hidden = out.dims[2],
        .reverse = (int64_t)gale__claim_attr(c, "reverse", 0),
        .type = weights.type,
        .timed = (int64_t)gale__claim_attr(c, "timed", 0),
        .steady = c->g->steady};
    a->biased = a->kind == GALE__CELL_GRU && c->n_in - a->timed > 3;
    for (int i = 0; i < c->n_in; i++) {
        bool lengths = a->timed && i == c->n_in - 1;
        gale_type type = lengths ? GALE_I32 : i == 1 || (i == 0 && a->type == GALE_F16) ? (gale_type)a->type : GALE_F32;
        if (gale__claim_node(c, c->in[i]).type != type || !gale__claim_operand(c, c->in[i])) return NULL;
    }
    c->together = true;
    c->trips = a->trips;
    c->operations = 2.0 * (double)(gale__prim_elements(c->g, c->in[1]) * a->trips * a->batch);
    return a;
}

static gale__cpu_cell *describe_usual(gale__claim *c)
{
    gale__cpu_cell *a = describe(c);
    return a && a->type == GALE_F32 && !a->timed && !a->steady ? a : NULL;
}

bool gale__claim_cell(gale__claim *c)
{
    gale__cpu_cell *a = describe(c);
    if (a && a->type != GALE_F32) return false;
    if (a) c->scratch_bytes = gale__cpu_cell_scratch(a);
    return a != NULL;
}

bool gale__claim_cell_kernels(gale__claim *c)
{
    gale__cpu_cell *a = describe_usual(c);
    return a && gale__cell_kernels_fit(a, &c->device->info.caps);
}

bool gale__claim_cell_loop(gale__claim *c)
{
    gale__cpu_cell *a = describe(c);
    return a && !a->steady && gale__cell_loop_fits(a, &c->device->info.caps, &c->scratch_bytes);
}
