/* Shared by the files that emit nests: the emitter, and the mutually recursive steps. */
#ifndef GALE_GRAPH_EMITTER_H
#define GALE_GRAPH_EMITTER_H
#include "graph/fuse/fuse.h"

enum { MAX_CODE = 400, MAX_BUFFERS = 16, MAX_DEPTH = 32, MAX_RECURSION = 400, HARD_BUFFERS = GALE__NEST_BUFFERS_MAX };
enum { RESTART = -2, ERROR = -1 };

typedef struct gale__fuse_memo {
    gale__node node;
    const gale__map *map;
    int instr;
} gale__fuse_memo;

/* The dimensions an axis is split into; none: one dimension. */
typedef struct gale__fuse_factors {
    int n;
    int64_t f[GALE__NEST_DIMS];
} gale__fuse_factors;
enum { ADDED = GALE_MAX_RANK, MAX_AXES = GALE_MAX_RANK + GALE__NEST_DIMS };

typedef struct gale__fuse_emitter {
    gale__fusion *fusion;
    const gale__prim_graph *g;
    gale__node root, with; /* with: NIL, or what the kernel writes besides */
    gale__map_domain domain;
    int axis_of[GALE__NEST_DIMS], place_of[GALE__NEST_DIMS]; /* of each dimension: which factors it is one of */
    int n_added;                                             /* reduced axes that became dimensions of their own */
    gale__arena scratch;                                     /* holds maps[], which are used again for every kernel */
    gale__map **maps;
    size_t maps_capacity;
    int n_maps, n_made;
    gale__nest_instr code[MAX_CODE + 4 * MAX_RECURSION];
    uint8_t zero[MAX_CODE + 4 * MAX_RECURSION]; /* 0 wherever a guard of its map fails */
    int n_code;
    gale__nest_access *accesses;
    size_t accesses_capacity;
    gale__nest_guard
        *guards[MAX_CODE + 4 * MAX_RECURSION]; /* of the accesses: in scratch, used again for every kernel */
    int n_accesses;
    gale__node buffers[HARD_BUFFERS];
    int n_buffers;
    gale__fuse_memo memos[MAX_CODE + 4 * MAX_RECURSION];
    int n_memos;
    int depth, recursion;
    int reducing; /* reductions whose operand is being emitted */
    gale__map_split split;
    gale_status status;
    const char *names[6];
    int n_names;
    int32_t regions[GALE__FUSED_REGIONS];
    int n_regions;
    gale__fuse_factors factors[MAX_AXES]; /* by axis of the value, then by added axis; kept over restarts */
} gale__fuse_emitter;

/* emit.c.  Each returns the instruction of a value, RESTART if the domain must be split, or ERROR. */
int gale__fuse_emit_value(gale__fuse_emitter *e, gale__node n, const gale__map *m, bool sum_path);
int gale__fuse_emit_const(gale__fuse_emitter *e, gale_type type, uint64_t bits);
int gale__fuse_emit_append(
    gale__fuse_emitter *e, gale__nest_instr in, bool zero); /* zero: 0 wherever a guard of its map fails */
int gale__fuse_emit_fail(gale__fuse_emitter *e, gale_status status);
/* The value becomes a root and is loaded. */
int gale__fuse_emit_load_instead(gale__fuse_emitter *e, gale__node n, const gale__map *m);
gale__map *gale__fuse_emit_map(gale__fuse_emitter *e);
/* emit_reduce.c */
int gale__fuse_emit_reduce(gale__fuse_emitter *e, gale__node n, const gale__map *m, bool sum_path);
/* Appends an axis of the domain as dimensions, one for each factor. */
bool gale__fuse_emit_axis(gale__fuse_emitter *e, int axis, int64_t extent, bool inner);
/* emit_nest.c: the finished nest, which stores these values. */
gale_status gale__fuse_emit_finish(gale__fuse_emitter *e, gale__nest_store stores[2], int n_stores, gale__fused *out);
#endif
