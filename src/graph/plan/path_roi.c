/* Which region poolings the CPU's routine accepts: averages of a given number of f32 samples in each bin. */
#include "graph/plan/paths.h"
#include <string.h>

static bool is_text(const gale__claim *c, const char *name, const char *fallback, const char *wanted)
{
    const gale_attr *a = gale__op_attr(c->node, name);
    return !strcmp(a && a->kind == GALE_ATTR_STRING ? a->s : fallback, wanted);
}

bool gale__claim_roi(gale__claim *c)
{
    gale__cpu_roi *a = gale__claim_args(c, sizeof *a);
    gale__prim_node x = gale__claim_node(c, c->in[0]), rois = gale__claim_node(c, c->in[1]),
                    picture = gale__claim_node(c, c->in[2]), out = gale__claim_node(c, c->out);
    double ratio = gale__claim_attr(c, "sampling_ratio", 0);
    if (!a || x.type != GALE_F32 || rois.type != GALE_F32 || picture.type != GALE_I64 || ratio < 1 ||
        ratio > GALE__CPU_ROI_RATIO || !is_text(c, "mode", "avg", "avg") || x.dims[2] * x.dims[3] > INT32_MAX)
        return false;
    *a = (gale__cpu_roi){.n = x.dims[0],
        .channels = x.dims[1],
        .extent = {x.dims[2], x.dims[3]},
        .regions = rois.dims[0],
        .bins = {out.dims[2], out.dims[3]},
        .ratio = (int64_t)ratio,
        .half = is_text(c, "coordinate_transformation_mode", "half_pixel", "half_pixel"),
        .scale = gale__claim_attr(c, "spatial_scale", 1)};
    for (int i = 0; i < 3; i++) gale__claim_operand(c, c->in[i]);
    c->scratch_bytes = gale__cpu_roi_scratch(a);
    c->operations = 4.0 * (double)gale__prim_elements(c->g, c->out) * ratio * ratio;
    return true;
}
