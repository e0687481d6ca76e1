/* Fusion: from a primitive graph to a list of kernels, each a loop nest or one of the few special forms.
 *
 * group.c decides which values live in memory (roots); emit.c turns each root and everything folded into it into one
 * nest.  emit.c may find that a value cannot be folded after all; it then becomes a root too. */
#ifndef GALE_GRAPH_FUSE_H
#define GALE_GRAPH_FUSE_H
#include "graph/fuse/map.h"

typedef enum gale__fused_kind {
    GALE__FUSED_NEST,
    GALE__FUSED_SORT,
    GALE__FUSED_SCAN,
    GALE__FUSED_PUT,
    GALE__FUSED_LOOP,
    GALE__FUSED_ROUTINE
} gale__fused_kind;

enum { GALE__FUSED_REGIONS = 6 }; /* that are distinguished; a kernel may have more */
typedef struct gale__fused {
    gale__fused_kind kind;
    gale__node root, also;                /* what it writes; also: NIL, or a second value */
    gale__nest nest;                      /* K_NEST */
    gale__node *buffers;                  /* K_NEST: the value behind each of nest.buffers */
    const char *op;                       /* operators it stands for: "MatMul+Relu" */
    int32_t regions[GALE__FUSED_REGIONS]; /* the same as regions of the graph, the last one first */
    int n_regions;
    int layouts; /* K_ROUTINE: what is stored channels-last (GALE__CPU_LAST_OPERAND ...) */
} gale__fused;

typedef struct gale__fusion_options {
    bool no_fusion, fast;
    bool steady;               /* gale_program_options.batch_invariant */
    bool store_operands;       /* what a contraction or a window reads several times is computed once and stored */
    bool matrix, groups, maps; /* the device has matrix units; wgmma (caps.matrix_groups); TMA (caps.matrix_maps) */
    bool bytes;                /* matrix units multiply bytes */
    bool f32;                  /* and f32, as bf16 shares */
    bool last;                 /* host functions have kernels for values stored channels-last */
    bool wraps; /* kernels can wrap around an axis (GALE__WRAPS); otherwise a rolled value is copied in two pieces */
    int layout; /* as in gale_program_options */
} gale__fusion_options;

#define GALE__NEST_BUFFERS_MAX 64

enum { GALE__GROUP_NONE = -1, GALE__GROUP_MULTI = -2 };

typedef struct gale__fusion {
    const gale__prim_graph *g;
    gale__arena arena;
    gale__fusion_options options;
    uint8_t *live, *root, *dense; /* by node; dense: identity layout is needed */
    uint8_t *last;                /* by node: is stored channels-last (layout.c) */
    uint8_t *over_reduce, *is_output;
    gale__node *with;    /* by root: another root that is written by its kernel, NIL: none */
    uint8_t *joined;     /* by root: is written by the kernel of another */
    int32_t *group;      /* by node */
    int32_t *emitted_in; /* REDUCE: the root that folded it */
    void *emitter;       /* working memory of emit.c */
    gale__fused *kernels;
    int n_kernels;
    size_t kernels_capacity; /* in execution order when done */
} gale__fusion;

gale_status gale__fuse(const gale__prim_graph *g, const gale__node *outputs, int n_outputs,
    const gale__fusion_options *options, gale__fusion *out);
void gale__fusion_finish(gale__fusion *f);
/* The node whose memory `n` is: n itself or, through reshapes, what it renames. */
gale__node gale__fuse_base(const gale__fusion *f, gale__node n);
/* The axes of p with those after the channels as one, which they are in memory in any layout; their number. */
int gale__fuse_joined_axes(const gale__prim_node *p, int64_t *dims);
/* Element strides of a root's memory, by its layout; and of a reshape of it. */
void gale__fuse_root_strides(const gale__fusion *f, gale__node n, int64_t *strides);
void gale__fuse_reshaped_strides(const gale__fusion *f, gale__node base, gale__node n, int64_t *strides);
/* Whether what computes the node does not know of layouts, so that it is always stored as declared. */
bool gale__fuse_written_dense(const gale__prim_node *p);
/* Whether p is a routine that takes its operand 0, in the memory of base, in any layout. */
bool gale__fuse_takes_layouts(const gale__prim_graph *g, const gale__prim_node *p, gale__node base);
int64_t gale__fuse_root_elements(const gale__prim_graph *g, gale__node n);

/* group.c */
gale_status gale__fuse_group(gale__fusion *f, const gale__node *outputs, int n_outputs);
void gale__fuse_make_root(gale__fusion *f, gale__node n);
bool gale__fuse_is_contraction(const gale__prim_graph *g, gale__node reduce);
/* What one kernel writes of a root: `value` over its own domain, which is the root itself or a piece of a CONCAT; or,
 * where it is the root and has an axis, `extent` of its elements along that. */
typedef struct gale__fused_piece {
    gale__node value;
    int axis; /* -1: all of it */
    int64_t offset, extent;
} gale__fused_piece;
/* emit.c */
gale_status gale__fuse_emit(gale__fusion *f, gale__node root, const gale__fused_piece *piece, gale__fused *out);
void gale__fuse_emitter_finish(gale__fusion *f);
#endif
