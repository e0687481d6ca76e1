/* Operators by name, one line each. */
#include "jobs/exr/maker.h"
#include "onnx/wire/proto.h"

gale_value gale__make_op(gale__maker *m, const char *op, const gale_value *in, int n, const gale_attr *attrs, int count)
{
    gale_value out = GALE_NONE;
    if (m->status == GALE_OK) m->status = gale_graph_op(m->graph, op, in, n, attrs, count, &out, 1);
    return out;
}

gale_value gale__make_floats(gale__maker *m, int rank, const int64_t *dims, const float *values)
{
    gale_value out = GALE_NONE;
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_F32, rank, dims, values, &out);
    return out;
}

gale_value gale__make_ints(gale__maker *m, int64_t count, const int64_t *values)
{
    gale_value out = GALE_NONE;
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_I64, 1, &count, values, &out);
    return out;
}

gale_value gale__make_number(gale__maker *m, double value)
{
    return gale__make_floats(m, 0, NULL, (float[]){(float)value});
}

gale_value gale__make_word(gale__maker *m, uint32_t value)
{
    gale_value out = GALE_NONE;
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_U32, 0, NULL, &value, &out);
    return out;
}

gale_value gale__make_select(gale__maker *m, gale_value condition, gale_value x, gale_value y)
{
    return gale__make_op(m, "Where", (gale_value[]){condition, x, y}, 3, NULL, 0);
}

gale_value gale__make_cast(gale__maker *m, gale_value x, gale_type type)
{
    const gale_attr to = GALE_INT("to", gale__onnx_type_number(type));
    return gale__make_op(m, "Cast", &x, 1, &to, 1);
}

gale_value gale__make_slice(gale__maker *m, gale_value x, int64_t axis, int64_t start, int64_t end)
{
    gale_value in[4] = {x, gale__make_ints(m, 1, &start), gale__make_ints(m, 1, &end), gale__make_ints(m, 1, &axis)};
    return gale__make_op(m, "Slice", in, 4, NULL, 0);
}

gale_value gale__make_affine(gale__maker *m, gale_value x, double by, double more)
{
    gale_value y = by == 1 ? x : gale__make_2(m, "Mul", x, gale__make_number(m, by));
    return more == 0 ? y : gale__make_2(m, "Add", y, gale__make_number(m, more));
}
