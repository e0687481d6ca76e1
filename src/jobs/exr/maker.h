/* Shorthand for writing graphs: after the first failure, later calls do nothing. */
#ifndef GALE_JOBS_EXR_MAKER_H
#define GALE_JOBS_EXR_MAKER_H
#include "gale/graph.h"

typedef struct gale__maker {
    gale_graph *graph;
    gale_status status;
} gale__maker;

gale_value gale__make_op(
    gale__maker *m, const char *op, const gale_value *in, int n, const gale_attr *attrs, int count);
static inline gale_value gale__make_1(gale__maker *m, const char *op, gale_value x)
{
    return gale__make_op(m, op, &x, 1, NULL, 0);
}
static inline gale_value gale__make_2(gale__maker *m, const char *op, gale_value x, gale_value y)
{
    return gale__make_op(m, op, (gale_value[]){x, y}, 2, NULL, 0);
}
gale_value gale__make_floats(gale__maker *m, int rank, const int64_t *dims, const float *values);
gale_value gale__make_ints(gale__maker *m, int64_t count, const int64_t *values);
gale_value gale__make_number(gale__maker *m, double value); /* f32, rank 0 */
gale_value gale__make_word(gale__maker *m, uint32_t value); /* u32, rank 0 */
gale_value gale__make_select(gale__maker *m, gale_value condition, gale_value x, gale_value y);
gale_value gale__make_cast(gale__maker *m, gale_value x, gale_type type);
/* Elements [start, end) of an axis. */
gale_value gale__make_slice(gale__maker *m, gale_value x, int64_t axis, int64_t start, int64_t end);
/* x * by + more. */
gale_value gale__make_affine(gale__maker *m, gale_value x, double by, double more);
#endif
