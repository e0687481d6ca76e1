/* Shorthand shared by the operator families inside lower(). */
#ifndef GALE_OPS_LOWER_H
#define GALE_OPS_LOWER_H
#include "ops/ops.h"

/* One lowering per row of ops.def. */
#define LOWER(Name) void gale__op_##Name(gale__lower *L)
#define X(Name, ...) LOWER(Name);
#include "ops/ops.def"
#undef X

/* Input i, or NIL when it was left out. */
static inline gale__node gale__lower_arg(const gale__lower *L, int i)
{
    return i >= 0 && i < L->n_in ? L->in[i] : GALE__NIL;
}
/* Output i, where it is wanted. */
static inline void gale__lower_give(gale__lower *L, int i, gale__node n)
{
    if (i < L->n_out) L->out[i] = n;
}
/* A node by value: rank, dims and type survive further building.  NIL gives rank 0. */
gale__prim_node gale__lower_peek(const gale__prim_graph *g, gale__node n);
static inline gale_type gale__lower_type_of(const gale__prim_graph *g, gale__node n)
{
    return (gale_type)gale__lower_peek(g, n).type;
}
static inline int gale__lower_rank_of(const gale__prim_graph *g, gale__node n) { return gale__lower_peek(g, n).rank; }
/* Sets the error with the operator's name in front; gives NIL. */
gale__node gale__lower_refuse(gale__lower *L, const char *format, ...) GALE__PRINTF(2, 3);

/* Attribute `name` as an element type: ONNX's number or a name ("f16"). */
gale_type gale__attr_type(gale__lower *L, const char *name, gale_type fallback);
/* Whole numbers of input i, which must be known when planning; NULL when it was left out (or on failure). */
const int64_t *gale__lower_known_ints(gale__lower *L, int i, int64_t *count);
/* The same for floats of any type, in the arena. */
const double *gale__lower_known_floats(gale__lower *L, int i, int64_t *count);
/* Axes given by input i (plan time) or attribute "axes", as a mask; *given: whether any were. */
uint32_t gale__lower_axes_mask(gale__lower *L, int i, int rank, bool *given);

/* F64, or F32 for a device that has nothing finer. */
gale_type gale__lower_precise(const gale__lower *L);
/* Half floats are computed in F32; other types as they are. */
gale_type gale__lower_wide_type(gale_type type);
gale__node gale__lower_wide(gale__lower *L, gale__node x);
/* Constants of x's type, rank 0: they broadcast. */
gale__node gale__lower_value(gale__lower *L, gale__node x, double value);
gale__node gale__lower_index(gale__lower *L, int64_t value); /* I64 */

/* Common pieces. */
gale__node gale__lower_mean(gale__lower *L, gale__node x, uint32_t axes); /* floats; axes kept */
gale__node gale__lower_sigmoid(gale__lower *L, gale__node x);
gale__node gale__lower_gelu(gale__lower *L, gale__node x, bool fast); /* fast: by tanh */
gale__node gale__lower_softplus(gale__lower *L, gale__node x);
gale__node gale__lower_softmax(gale__lower *L, gale__node x, uint32_t axes); /* floats */
gale__node gale__lower_clamp(gale__lower *L, gale__node x, double low, double high);
/* A cast to an 8-bit float without saturation: what is too large becomes NaN, or infinity where the format has one. */
gale__node gale__lower_cast_open(gale__lower *L, gale__node x, gale_type type);
/* With saturation: infinity too becomes the largest number, also where the format has one. */
gale__node gale__lower_cast_closed(gale__lower *L, gale__node x, gale_type type);
/* The product of NumPy's matmul: a vector is a row on the left and a column on the right. */
gale__node gale__lower_product(gale__lower *L, gale__node a, gale__node b);
/* Rank n with extent at `axis`, 1 elsewhere: to line a vector up with an axis. */
gale__node gale__lower_along(gale__lower *L, gale__node x, int rank, int axis);
/* Iota along `axis` over dims, times `scale`. */
gale__node gale__lower_walk(gale__lower *L, int rank, const int64_t *dims, int axis, int64_t scale);
/* Negative indices count from the end of `extent`; I64. */
gale__node gale__lower_wrap_index(gale__lower *L, gale__node index, int64_t extent);

/* Bodies of loops: a graph of its own, or NULL on failure; its input `which` like the node outside, or like its slices;
 * and the loop, which takes the body over (and frees it when it cannot be made). */
gale__prim_graph *gale__lower_body_begin(gale__lower *L);
gale__node gale__lower_body_input(gale__lower *L, gale__prim_graph *body, int which, gale__node outside, bool sliced);
gale__node gale__lower_body_constant(
    gale__lower *L, gale__prim_graph *body, int which, gale__node outside); /* the same at every step */
gale__node gale__lower_body_end(gale__lower *L, const gale__prim_loop_args *loop, const gale__node *inputs);
/* A step that turns two values into two of the same shapes, so many times: few side by side, more in a loop. */
void gale__lower_repeat(
    gale__lower *L, int64_t times, void (*step)(gale__lower *L, gale__node state[2]), gale__node state[2]);
static inline bool gale__lower_good(const gale__lower *L) { return L->g->status == GALE_OK; }
#endif
