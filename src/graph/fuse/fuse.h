/* Fusion: from a primitive graph to a list of kernels, each a loop nest or one of the few special forms.
 *
 * group.c decides which values live in memory (roots); emit.c turns each root and everything folded into it into one
 * nest.  emit.c may find that a value cannot be folded after all; it then becomes a root too. */
#ifndef GALE_GRAPH_FUSE_H
#define GALE_GRAPH_FUSE_H
#include "graph/fuse/map.h"

typedef enum gale__kernel_kind {
    GALE__K_NEST,
    GALE__K_SORT,
    GALE__K_SCAN,
    GALE__K_PUT,
    GALE__K_LOOP,
    GALE__K_ROUTINE
} gale__kernel_kind;

typedef struct gale__fused {
    gale__kernel_kind kind;
    gale__node root;     /* what it writes */
    gale__nest nest;     /* K_NEST */
    gale__node *buffers; /* K_NEST: the value behind each of nest.buffers */
    const char *op;      /* operators it stands for: "MatMul+Relu" */
} gale__fused;

typedef struct gale__fusion_options {
    bool no_fusion, fast;
    bool store_operands; /* what a contraction or a window reads several times is computed once and stored */
    int layout;          /* as in gale_program_options */
} gale__fusion_options;

#define GALE__NEST_BUFFERS_MAX 64

enum { GALE__GROUP_NONE = -1, GALE__GROUP_MULTI = -2 };

typedef struct gale__fusion {
    const gale__g *g;
    gale__arena arena;
    gale__fusion_options options;
    uint8_t *live, *root, *dense; /* by node; dense: identity layout is needed */
    uint8_t *over_reduce, *is_output;
    int32_t *group;      /* by node */
    int32_t *emitted_in; /* REDUCE: the root that folded it */
    void *emitter;       /* working memory of emit.c */
    gale__fused *kernels;
    int n_kernels;
    size_t kernels_capacity; /* in execution order when done */
} gale__fusion;

gale_status gale__fuse(
    const gale__g *g, const gale__node *outputs, int n_outputs, const gale__fusion_options *options, gale__fusion *out);
void gale__fusion_finish(gale__fusion *f);
/* The node whose memory `n` is: n itself or, through reshapes, what it renames. */
gale__node gale__base(const gale__fusion *f, gale__node n);
/* Element strides of a root's memory, by its layout. */
void gale__root_strides(const gale__fusion *f, gale__node n, int64_t *strides);
int64_t gale__root_elements(const gale__g *g, gale__node n);

/* group.c */
gale_status gale__group(gale__fusion *f, const gale__node *outputs, int n_outputs);
void gale__make_root(gale__fusion *f, gale__node n);
bool gale__is_contraction(const gale__g *g, gale__node reduce);
/* emit.c: the nest of `value` over its own domain, stored into `root` (value == root, or a piece of a CONCAT at
 * `offset` along `axis`). */
gale_status gale__emit(gale__fusion *f, gale__node root, gale__node value, int axis, int64_t offset, gale__fused *out);
void gale__emitter_finish(gale__fusion *f);
#endif
