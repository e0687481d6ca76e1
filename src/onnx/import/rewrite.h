/* Writing nodes in few words, for adapters and expanders: values come back as results, the first failure stays and
 * makes the rest do nothing, so that only the end needs checking.
 *
 *     gale__onnx_rewrite w = {net, node, GALE_OK};
 *     int32_t half = gale__rw(&w, "Mul", x, gale__rw_like(&w, 0.5, x));
 *     gale__rw_become(&w, "Add", half, y);       the node itself is the last step: its results keep their places
 *     return w.status; */
#ifndef GALE_ONNX_REWRITE_H
#define GALE_ONNX_REWRITE_H
#include "onnx/import/net.h"

typedef struct gale__onnx_rewrite {
    gale__onnx_net *net;
    gale__onnx_net_node *node;
    gale_status status;
} gale__onnx_rewrite;
typedef gale_status gale__onnx_rewriter(gale__onnx_net *net, gale__onnx_net_node *node, bool *done);

#define GALE__VALUES(...) \
    (const int32_t[]){__VA_ARGS__}, (int)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
#define gale__rw(w, op, ...) gale__rw_op(w, op, NULL, 0, GALE__VALUES(__VA_ARGS__))
#define gale__rw_with(w, op, attr, ...) gale__rw_op(w, op, &(attr), 1, GALE__VALUES(__VA_ARGS__))
#define gale__rw_become(w, op, ...) gale__rw_turn(w, op, GALE__VALUES(__VA_ARGS__))

/* A node with one result, or with several that are new (out[i] filled) or given (out[i] not -1). */
int32_t gale__rw_op(
    gale__onnx_rewrite *w, const char *op, const gale_attr *attrs, int n_attrs, const int32_t *in, int n_in);
void gale__rw_node(gale__onnx_rewrite *w, const char *op, const gale_attr *attrs, int n_attrs, const int32_t *in,
    int n_in, int32_t *out, int n_out);
/* The node at hand gets another operator and other inputs; attributes stay. */
void gale__rw_turn(gale__onnx_rewrite *w, const char *op, const int32_t *in, int n_in);
/* Its inputs (-1: left out), and attributes by name. */
int32_t gale__rw_in(const gale__onnx_rewrite *w, int index);
void gale__rw_set_in(gale__onnx_rewrite *w, int index, int32_t value);
double gale__rw_float(const gale__onnx_rewrite *w, const char *name, double fallback); /* whole numbers too */
const char *gale__rw_text(const gale__onnx_rewrite *w, const char *name, const char *fallback);
const int64_t *gale__rw_list(const gale__onnx_rewrite *w, const char *name, int *count); /* NULL: absent */
void gale__rw_set(gale__onnx_rewrite *w, gale_attr attr);
void gale__rw_drop_all(gale__onnx_rewrite *w);
gale_attr gale__rw_ints_attr(gale__onnx_rewrite *w, const char *name, const int64_t *values, int n); /* in the arena */

/* Constants. */
int32_t gale__rw_ints(gale__onnx_rewrite *w, const int64_t *values, int n);
int32_t gale__rw_int(gale__onnx_rewrite *w, int64_t value);                  /* i64 [1] */
int32_t gale__rw_floats(gale__onnx_rewrite *w, const double *values, int n); /* f32 [n] */
int32_t gale__rw_scalar(gale__onnx_rewrite *w, gale_type type, double value);
int32_t gale__rw_like(gale__onnx_rewrite *w, double value, int32_t x); /* rank 0, of x's type */
/* Numbers about shapes, i64 [1]: constants where the rank is known, else nodes that are gone when planning. */
int32_t gale__rw_rank_of(gale__onnx_rewrite *w, int32_t x);
int32_t gale__rw_extent(gale__onnx_rewrite *w, int32_t x, int64_t axis);
int32_t gale__rw_ones(gale__onnx_rewrite *w, int32_t count); /* i64 [count] */
/* x with axes of extent 1 appended: how many, or an i64 [1] that says it. */
int32_t gale__rw_trail(gale__onnx_rewrite *w, int32_t x, int count);
int32_t gale__rw_trail_by(gale__onnx_rewrite *w, int32_t x, int32_t count);

/* learn.c: what follows for a node's results from what is known of its inputs. */
void gale__onnx_net_learn(gale__onnx_net *net, const gale__onnx_net_node *node);
int gale__onnx_net_rank(const gale__onnx_net *net, int32_t value);                   /* -1: not known */
bool gale__onnx_net_type(const gale__onnx_net *net, int32_t value, gale_type *type); /* false: not known */
#endif
