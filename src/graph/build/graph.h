/* The primitive graph: what operators are lowered to, for one set of shapes.
 *
 * Nodes are appended in topological order and never change; equal nodes are one node (hash-consing), and nodes of
 * constants small enough are evaluated at once.  Building never fails node by node: functions given GALE__NIL or making
 * an error give GALE__NIL, and the first error stays in g->status with its message.  Broadcasting is explicit (EXPAND)
 * except in the helpers that are documented to do so. */
#ifndef GALE_GRAPH_GRAPH_H
#define GALE_GRAPH_GRAPH_H
#include "base/hash_table.h"
#include "gale/graph.h"
#include "kernel/nest/nest.h"

typedef int32_t gale__node;
#define GALE__NIL (-1)
#define GALE__SEED_INPUT INT32_MAX                          /* the INPUT that is the seed of the run */
#define GALE__FOLD_MAX 4096                                 /* elements up to which constants are folded on the host */
#define GALE__SMALL_BYTES (GALE__FOLD_MAX * sizeof(double)) /* constants up to this are copied into the graph */

typedef enum gale__prim { /* element-wise primitives are the scalar operations 0 .. GALE__SCALAR_COUNT - 1 */
    GALE__PRIM_CONST = GALE__SCALAR_COUNT, /* data: dense elements, or one element when splat */
    GALE__PRIM_INPUT,                      /* attr[0]: which */
    GALE__PRIM_IOTA,                       /* I64; attr[0]: axis whose coordinate it is */
    GALE__PRIM_RESHAPE,
    GALE__PRIM_PERMUTE, /* attr[d]: the input's axis that becomes axis d */
    GALE__PRIM_EXPAND,  /* input has the same rank; extents of 1 become any extent */
    GALE__PRIM_SLICE,   /* attr[2d] start, attr[2d+1] step (not 0; negative walks down); extents from dims */
    GALE__PRIM_PAD,     /* attr[3d] low, [3d+1] high (both may be negative), [3d+2] interior (zeros between neighbours);
                        fill     in imm (bits in the storage type) */
    GALE__PRIM_WINDOW,  /* axis attr[0] of extent n becomes two axes (o, k) in its place: element (o, k) is coordinate
                        o*attr[1] + k*attr[2] + attr[3]; out of range gives fill (imm) */
    GALE__PRIM_ROLL, /* element i along axis attr[0] is element (i + attr[1]) modulo the extent, 0 < attr[1] < extent */
    GALE__PRIM_UNWINDOW, /* the sheared view behind window's gradient: input has axes (o, k) at attr[0]; output (i, k):
                         element (i, k) is input ((i - k*attr[2] - attr[3]) / attr[1], k) where that is whole and in
                         range, else 0 */
    GALE__PRIM_REDUCE,   /* attr[0] gale__reduce, attr[1] mask of axes, which stay as extents of 1; attr[2] accumulator
                         type;   ARG*: I64 */
    GALE__PRIM_TAKE, /* in[0]: data of rank 1; in[1]: I64 linear index of any shape, clamped into range; result has the
                     index's shape */
    GALE__PRIM_PUT,  /* in[0]: initial values, rank 1; in[1]: I64 index, rank 1; in[2]: updates, rank 1; attr[0]: -1 set
                     (the last wins), or SUM PROD RMAX RMIN. Index out of range: dropped */
    GALE__PRIM_CONCAT,   /* attr[0]: axis; any number of inputs */
    GALE__PRIM_SCAN,     /* attr[0] gale__reduce (SUM PROD RMAX RMIN), attr[1] axis: inclusive, forward */
    GALE__PRIM_SORT,     /* argsort along the last axis, stable; attr[0]: 1 descending; I64; NaN counts as largest;
                            attr[1]: how many places are read, the first ones */
    GALE__PRIM_LOOP,     /* see gale__prim_loop */
    GALE__PRIM_LOOP_OUT, /* in[0]: LOOP; attr[0]: which output */
    GALE__PRIM_COPY,     /* the value, materialised: stops fusion; attr 0 is 1: only where several kernels, or a sum of
                         products, read it */
    GALE__PRIM_ROUTINE,  /* claimed by a fast path: attr[0] row of the table */
    GALE__PRIM_COUNT
} gale__prim;

typedef struct gale__prim_node {
    uint8_t op, type, rank, splat;
    bool invariant; /* depends on constants alone: computed once per signature */
    int32_t n_in;
    gale__node *in;
    int64_t dims[GALE_MAX_RANK];
    int64_t *attr; /* layout by op, see above */
    int32_t n_attr;
    uint64_t imm;
    const void *data; /* CONST */
    const gale_tensor
        *tensor; /* CONST: where `data` is, when it is large and given as a tensor; only gale__prim_read may read it */
    struct gale__prim_loop_args *loop; /* LOOP */
    int32_t region;                    /* the operator it came from; -1 none */
} gale__prim_node;

/* One lowered operator: its name stays with its nodes for reports, profiles and fast paths. */
typedef struct gale__prim_region {
    const char *name;
    const struct gale__op_node *op;
    gale__node *in, *out;
    int n_in, n_out;
    gale__node first, last; /* nodes made while lowering: [first, last) */
} gale__prim_region;

typedef struct gale__prim_graph {
    gale__arena arena;
    gale__prim_node *nodes;
    int32_t count;
    size_t capacity;
    gale__hash_table table; /* hash table of nodes, for hash-consing */
    gale__prim_region *regions;
    int32_t n_regions;
    size_t regions_capacity;
    int32_t region; /* current, -1 none */
    gale_status status;
    int64_t fold_max; /* GALE__FOLD_MAX; 0: fold nothing (checks) */
    bool steady;      /* no routine whose sums depend on the number of rows: gale_program_options.batch_invariant */
    bool integer_products;    /* products of dequantised bytes are computed in integers (build_integer.c) */
    bool row_products;        /* a row by weights is a product, as the device packs these, not any sum */
    bool phases_apart;        /* phases of transposed convolutions are batches (build_phases.c) */
    bool zero_points_outside; /* and zero points are moved out of them (build_zero.c), since matrix units do not support
                                 them */
    bool pixel_blocks;        /* convolutions over three channels are rewritten for matrix units (build_pixels.c) */
    bool inner;               /* the body of a loop, whose seed, if it has one, comes with the loop's inputs */
    gale__node seed;          /* U64: what random operators draw from; NIL: none yet */
    uint64_t scope;           /* of the enclosing operators: a body and its caller draw different random numbers */
    uint64_t run_seed;        /* what the reference takes for the seed of the run */
} gale__prim_graph;

void gale__prim_init(gale__prim_graph *g);
void gale__prim_finish(gale__prim_graph *g);
gale_status gale__prim_reserve(gale__prim_graph *g, int32_t nodes); /* room for so many, when that is known before */
/* Sets g->status once and returns GALE__NIL. */
gale__node gale__prim_fail(gale__prim_graph *g, gale_status status, const char *format, ...) GALE__PRINTF(3, 4);
static inline const gale__prim_node *gale__prim_at(const gale__prim_graph *g, gale__node n) { return &g->nodes[n]; }
int64_t gale__prim_elements(const gale__prim_graph *g, gale__node n);
bool gale__prim_same_shape(const gale__prim_graph *g, gale__node a, gale__node b);
void gale__prim_print(const gale__prim_graph *g, gale__str *out);

/* Dequantised bytes with a single positive scale, if the graph computes products in integers.  Operations that only
 * depend on the order of values, such as maxima, can then run on the bytes. */
typedef struct gale__prim_scaled {
    gale__node bytes;
    double zero, scale;
} gale__prim_scaled;
bool gale__prim_dequantised(gale__prim_graph *g, gale__node x, gale__prim_scaled *out);
gale__node gale__prim_dequantise(gale__prim_graph *g, gale__node bytes, const gale__prim_scaled *as);
/* x / by, where x is a sum of whole numbers with constant scales, limited or not, and the graph computes products in
 * integers: the scales are divided instead (build_requant.c).  NIL: it is not. */
gale__node gale__prim_requotient(gale__prim_graph *g, gale__node x, gale__node by);

/* Leaves. */
gale__node gale__prim_input(gale__prim_graph *g, int which, gale_type type, int rank, const int64_t *dims);
gale__node gale__prim_const(gale__prim_graph *g, gale_type type, int rank, const int64_t *dims,
    const void *data); /* data is copied when small, else borrowed until finish */
gale__node gale__prim_const_tensor(
    gale__prim_graph *g, const gale_tensor *host); /* the same; the tensor lives until finish */
gale__node gale__prim_splat(gale__prim_graph *g, gale_type type, int rank, const int64_t *dims, double value);
gale__node gale__prim_splat_i(gale__prim_graph *g, gale_type type, int rank, const int64_t *dims, int64_t value);
gale__node gale__prim_scalar(gale__prim_graph *g, gale_type type, double value); /* rank 0 */
gale__node gale__prim_like(gale__prim_graph *g, gale__node n, double value);     /* n's type and shape */
gale__node gale__prim_iota(gale__prim_graph *g, int rank, const int64_t *dims, int axis);
/* The value at plan time: a constant of the graph, or GALE_NOT_FOUND.  gale__prim_read gives its elements (one where
 * splat), for gale__load_i64 and gale__load_f64; *copy goes to gale__free. */
gale_status gale__prim_known(const gale__prim_graph *g, gale__node n, const gale__prim_node **out);
gale_status gale__prim_read(const gale__prim_node *constant, void **copy, const void **data);
gale_status gale__prim_known_ints(
    gale__prim_graph *g, gale__node n, int64_t **out, int64_t *count); /* in the arena; any integer type */

/* Element-wise; operands of one type are broadcast to each other as in NumPy. */
gale__node gale__prim_unary(gale__prim_graph *g, gale__scalar op, gale__node x);
gale__node gale__prim_binary(gale__prim_graph *g, gale__scalar op, gale__node x, gale__node y);
gale__node gale__prim_select(gale__prim_graph *g, gale__node condition, gale__node x, gale__node y);
gale__node gale__prim_fma(gale__prim_graph *g, gale__node x, gale__node y, gale__node z);
gale__node gale__prim_fma_halves(gale__prim_graph *g, gale__node x, gale__node y, gale__node z);
gale__node gale__prim_cast(gale__prim_graph *g, gale__node x, gale_type type);    /* same type: x itself */
gale__node gale__prim_bitcast(gale__prim_graph *g, gale__node x, gale_type type); /* same size */
static inline gale__node gale__prim_add(gale__prim_graph *g, gale__node x, gale__node y)
{
    return gale__prim_binary(g, GALE__ADD, x, y);
}
static inline gale__node gale__prim_sub(gale__prim_graph *g, gale__node x, gale__node y)
{
    return gale__prim_binary(g, GALE__SUB, x, y);
}
static inline gale__node gale__prim_mul(gale__prim_graph *g, gale__node x, gale__node y)
{
    return gale__prim_binary(g, GALE__MUL, x, y);
}
static inline gale__node gale__prim_div(gale__prim_graph *g, gale__node x, gale__node y)
{
    return gale__prim_binary(g, GALE__DIV, x, y);
}

/* Views: free unless they have to be materialised. */
gale__node gale__prim_reshape(gale__prim_graph *g, gale__node x, int rank, const int64_t *dims); /* exact extents */
gale__node gale__prim_permute(gale__prim_graph *g, gale__node x, const int *perm);
gale__node gale__prim_expand(gale__prim_graph *g, gale__node x, int rank,
    const int64_t *dims); /* NumPy's broadcast_to: leading axes are added */
gale__node gale__prim_slice(
    gale__prim_graph *g, gale__node x, const int64_t *start, const int64_t *step, const int64_t *extent);
gale__node gale__prim_roll(
    gale__prim_graph *g, gale__node x, int axis, int64_t shift); /* element i becomes i + shift, with wrap-around */
gale__node gale__prim_slice_axis(gale__prim_graph *g, gale__node x, int axis, int64_t start, int64_t extent);
gale__node gale__prim_flip(gale__prim_graph *g, gale__node x, uint32_t axes);
gale__node gale__prim_pad(gale__prim_graph *g, gale__node x, const int64_t *low, const int64_t *high,
    const int64_t *interior /* NULL: 0 */, double fill);
gale__node gale__prim_window(gale__prim_graph *g, gale__node x, int axis, int64_t count, int64_t size, int64_t stride,
    int64_t dilation, int64_t offset, double fill);
gale__node gale__prim_unwindow(
    gale__prim_graph *g, gale__node x, int axis, int64_t extent, int64_t stride, int64_t dilation, int64_t offset);
gale__node gale__prim_squeeze(gale__prim_graph *g, gale__node x, uint32_t axes);   /* drops extents of 1 */
gale__node gale__prim_unsqueeze(gale__prim_graph *g, gale__node x, uint32_t axes); /* axes of the result */

/* The rest. */
gale__node gale__prim_reduce(gale__prim_graph *g, gale__reduce kind, gale__node x, uint32_t axes, bool keep);
gale__node gale__prim_sum_to(
    gale__prim_graph *g, gale__node x, int rank, const int64_t *dims);              /* reverse of broadcasting */
gale__node gale__prim_take(gale__prim_graph *g, gale__node data, gale__node index); /* data is flattened */
gale__node gale__prim_gather(gale__prim_graph *g, gale__node data, gale__node index,
    int axis); /* ONNX Gather on TAKE; negative indices count from the end */
gale__node gale__prim_put(gale__prim_graph *g, gale__node init, gale__node index, gale__node updates,
    int mode); /* flattened; result has init's shape */
gale__node gale__prim_concat(gale__prim_graph *g, int axis, const gale__node *xs, int n);
gale__node gale__prim_scan(
    gale__prim_graph *g, gale__reduce kind, gale__node x, int axis, bool exclusive, bool reverse);
gale__node gale__prim_sort(gale__prim_graph *g, gale__node x, int axis, bool descending); /* indices along axis, I64 */
gale__node gale__prim_sort_first(
    gale__prim_graph *g, gale__node x, int axis, bool descending, int64_t first); /* the first so many of them */
gale__node gale__prim_copy(gale__prim_graph *g, gale__node x);
/* If it is stored, it has the order of its own axes, not that of the views on it; a kernel that reads it element by
 * element can still be fused with it. */
gale__node gale__prim_laid_out(gale__prim_graph *g, gale__node x);
/* U32 bits; the same for the same key (U64, one number) and shape on every device. */
gale__node gale__prim_random(gale__prim_graph *g, gale__node key, int rank, const int64_t *dims);
/* The seed of the run, U64, rank 0; NIL in the body of a loop that was not given one. */
gale__node gale__prim_seed(gale__prim_graph *g);
/* Products.  Leading axes broadcast; f16, bf16 accumulate in F32.  conv: x [N, C, spatial...], w [O, C/groups,
 * kernel...]. */
gale__node gale__prim_matmul(gale__prim_graph *g, gale__node a, gale__node b); /* rank >= 2 each */
typedef struct gale__prim_conv_args {
    int spatial;
    int64_t stride[3], dilation[3], input_dilation[3], low[3], high[3], groups;
} gale__prim_conv_args;
gale__node gale__prim_conv(gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c);
gale__node gale__prim_conv_transpose(gale__prim_graph *g, gale__node x, gale__node w, const gale__prim_conv_args *c,
    const int64_t *extent); /* w [C, O/groups, kernel...]; extent: output's */

/* A loop of `trips` steps.  The body is a primitive graph of its own: inputs are [carried..., sliced..., constant...],
 * outputs [carried..., stacked...].  Sliced inputs have a leading axis of `trips` outside; stacked outputs get one. The
 * result's outputs, by gale__prim_loop_out: final carried values, then stacks. */
typedef struct gale__prim_loop_args {
    gale__prim_graph *body; /* owned by the graph that holds the loop */
    int64_t trips;
    int n_carried, n_sliced, n_constant, n_stacked;
    gale__node *out; /* in the body: n_carried + n_stacked */
    bool reverse;    /* steps run from the last slice to the first */
} gale__prim_loop_args;
gale__node gale__prim_loop(gale__prim_graph *g, const gale__prim_loop_args *loop, const gale__node *inputs);
gale__node gale__prim_loop_out(gale__prim_graph *g, gale__node loop, int which);
#endif
