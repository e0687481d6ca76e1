/* Constants given by attributes. */
#include "ops/lower.h"
#include <string.h>

static gale__node of_floats(gale__lower *L, const double *v, int rank, int64_t n)
{
    float *data = gale__arena_alloc(&L->g->arena, (size_t)(n + 1) * sizeof *data);
    if (!data) L->g->status = GALE_NO_MEMORY;
    for (int64_t i = 0; data && i < n; i++) data[i] = (float)v[i];
    return data ? gale__prim_const(L->g, GALE_F32, rank, &n, data) : GALE__NIL;
}

/* One of value, value_int, value_float, value_ints, value_floats. */
LOWER(Constant)
{
    const gale_attr *value = gale__op_attr(L->node, "value"), *real = gale__op_attr(L->node, "value_float"),
                    *whole = gale__op_attr(L->node, "value_int");
    int n_ints, n_floats;
    const int64_t *ints = gale__attr_ints(L, "value_ints", &n_ints);
    const double *floats = gale__attr_floats(L, "value_floats", &n_floats);
    if (value && value->tensor) L->out[0] = gale__prim_const_tensor(L->g, value->tensor);
    else if (whole) L->out[0] = gale__lower_index(L, gale__attr_i(L, "value_int", 0));
    else if (real) L->out[0] = gale__prim_scalar(L->g, GALE_F32, gale__attr_f(L, "value_float", 0));
    else if (ints) L->out[0] = gale__prim_const(L->g, GALE_I64, 1, &(int64_t){n_ints}, ints);
    else if (floats) L->out[0] = of_floats(L, floats, 1, n_floats);
    else gale__lower_refuse(L, "missing attribute value, value_int, value_float, value_ints or value_floats");
}

/* The value is a tensor of one element; a plain number is taken too. */
LOWER(ConstantOfShape)
{
    int64_t rank;
    const int64_t *dims = gale__lower_known_ints(L, 0, &rank);
    const gale_attr *value = gale__op_attr(L->node, "value");
    if (gale__lower_good(L) && rank > GALE_MAX_RANK)
        gale__lower_refuse(L, "a shape of %lld axes exceeds the limit of %d", (long long)rank, GALE_MAX_RANK);
    if (!gale__lower_good(L)) return;
    if (value && value->kind == GALE_ATTR_TENSOR) {
        gale__node one = gale__prim_const_tensor(L->g, value->tensor);
        L->out[0] = gale__prim_expand(L->g, gale__prim_reshape(L->g, one, 0, NULL), (int)rank, dims);
    } else {
        L->out[0] =
            gale__prim_splat(L->g, gale__attr_type(L, "dtype", GALE_F32), (int)rank, dims, gale__attr_f(L, "value", 0));
    }
}
