/* The graph that measures planes.  All that is to know of halves are the counts of their codes.  Floats and integers
 * are counted by the halves nearest to them, and the rest is sums in double precision. */
#include "jobs/exr/counts.h"
#include "base/error.h"
#include "jobs/exr/maker.h"
#include <math.h>

/* Over the samples of each plane: [planes, 1]. */
static gale_value reduced(gale__maker *m, const char *op, gale_value x)
{
    const int64_t axis = 1;
    return gale__make_op(m, op, (gale_value[]){x, gale__make_ints(m, 1, &axis)}, 2, NULL, 0);
}

static gale_value counted(gale__maker *m, gale_value condition)
{
    return gale__make_cast(m, reduced(m, "ReduceSum", gale__make_cast(m, condition, GALE_U32)), GALE_F64);
}

/* x: f32.  Comparisons with NaN are false. */
static gale_value numbers(gale__maker *m, gale_value x)
{
    const gale_attr axis = GALE_INT("axis", 1);
    gale_value zero = gale__make_number(m, 0), size = gale__make_1(m, "Abs", x), most = gale__make_number(m, INFINITY),
               finite = gale__make_2(m, "Less", size, most), part[GALE__EXR_NUMBERS];
    gale_value wide = gale__make_cast(m, x, GALE_F64), none = gale__make_cast(m, zero, GALE_F64);
    part[GALE__EXR_INFINITIES] = counted(m, gale__make_2(m, "Equal", size, most));
    part[GALE__EXR_NEGATIVES] = counted(m, gale__make_2(m, "And", finite, gale__make_2(m, "Less", x, zero)));
    part[GALE__EXR_ZEROS] = counted(m, gale__make_2(m, "Equal", x, zero));
    part[GALE__EXR_SUM] = reduced(m, "ReduceSum", gale__make_select(m, finite, wide, none));
    part[GALE__EXR_SQUARES] =
        reduced(m, "ReduceSum", gale__make_select(m, finite, gale__make_2(m, "Mul", wide, wide), none));
    part[GALE__EXR_LEAST] = reduced(m, "ReduceMin", gale__make_select(m, finite, x, most));
    part[GALE__EXR_LARGEST] = reduced(m, "ReduceMax", gale__make_select(m, finite, x, gale__make_number(m, -INFINITY)));
    for (int i = GALE__EXR_LEAST; i <= GALE__EXR_LARGEST; i++) part[i] = gale__make_cast(m, part[i], GALE_F64);
    return gale__make_op(m, "Concat", part, GALE__EXR_NUMBERS, &axis, 1);
}

gale_status gale__exr_counts_program(gale_device *device, gale_type type, gale_program **out)
{
    gale__maker m = {0};
    gale_value v = GALE_NONE, rest = GALE_NONE;
    const int64_t dims[2] = {-1, -1};
    GALE_TRY(gale_graph_create(&m.graph));
    m.status = gale_graph_input(m.graph, "planes", type, 2, dims, NULL, &v);
    if (type != GALE_F16) {
        v = gale__make_cast(&m, v, GALE_F32);
        rest = numbers(&m, v);
        v = gale__make_cast(&m, v, GALE_F16);
    }
    v = gale__make_1(&m, "CodeCounts", v);
    if (m.status == GALE_OK) m.status = gale_graph_output(m.graph, "counts", v);
    if (m.status == GALE_OK && type != GALE_F16) m.status = gale_graph_output(m.graph, "numbers", rest);
    if (m.status == GALE_OK) m.status = gale_program_create(m.graph, device, NULL, out);
    gale_graph_destroy(&m.graph);
    return m.status;
}
