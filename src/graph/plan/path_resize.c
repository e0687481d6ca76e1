/* Which resizes the CPU's routines accept: the last two axes, each with a table of positions and weights. */
#include "graph/plan/paths.h"

enum { TAPS_MAX = 64 };

/* Rows to half of them or fewer: each is then read once. */
bool gale__claim_shrink(gale__claim *c)
{
    gale__cpu_shrink *a = gale__claim_args(c, sizeof *a);
    gale__prim_node x = gale__claim_node(c, c->in[0]), out = gale__claim_node(c, c->out),
                    y_taps = gale__claim_node(c, c->in[1]), x_taps = gale__claim_node(c, c->in[3]);
    if (!a || (x.type != GALE_F32 && x.type != GALE_F16) || out.type != GALE_F32 || x.rank < 2) return false;
    if (out.dims[x.rank - 2] > x.dims[x.rank - 2] / 2) return false;
    *a = (gale__cpu_shrink){.planes = 1,
        .height = x.dims[x.rank - 2],
        .width = x.dims[x.rank - 1],
        .out_height = out.dims[x.rank - 2],
        .out_width = out.dims[x.rank - 1],
        .taps_y = y_taps.dims[1],
        .taps_x = x_taps.dims[0],
        .half = x.type == GALE_F16,
        .finite = gale__claim_attr(c, "finite", 0) != 0};
    for (int d = 0; d < x.rank - 2; d++) a->planes *= x.dims[d];
    for (int i = 0; i < 5; i++) gale__claim_operand(c, c->in[i]);
    c->scratch_bytes = gale__cpu_shrink_scratch(a);
    c->operations = 4.0 * (double)a->planes * (double)(a->height * a->width);
    return true;
}

bool gale__claim_resize(gale__claim *c)
{
    gale__cpu_resize *a = gale__claim_args(c, sizeof *a);
    gale__prim_node x = gale__claim_node(c, c->in[0]), out = gale__claim_node(c, c->out),
                    y_taps = gale__claim_node(c, c->in[1]), x_taps = gale__claim_node(c, c->in[3]);
    if (!a || x.type != GALE_F32 || out.type != GALE_F32 || x.rank < 2 || y_taps.dims[1] > TAPS_MAX ||
        gale__claim_attr(c, "finite", 0) != 0)
        return false;
    *a = (gale__cpu_resize){.planes = 1,
        .height = x.dims[x.rank - 2],
        .width = x.dims[x.rank - 1],
        .out_height = out.dims[x.rank - 2],
        .out_width = out.dims[x.rank - 1],
        .taps_y = y_taps.dims[1],
        .taps_x = x_taps.dims[0]};
    for (int d = 0; d < x.rank - 2; d++) a->planes *= x.dims[d];
    for (int i = 0; i < 5; i++) gale__claim_operand(c, c->in[i]);
    c->scratch_bytes = gale__cpu_resize_scratch(a);
    c->operations = 2.0 * (double)gale__prim_elements(c->g, c->out) * (double)(a->taps_y + a->taps_x);
    return true;
}
