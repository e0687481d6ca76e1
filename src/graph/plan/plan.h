/* A plan: a primitive graph made into steps on one device, with a place for every value.
 *
 * Work values share slabs by lifetime; small constants, and values that depend on constants alone, have a slab that
 * stays; large constants are in the device's store.  A plan is immutable; a context (program.c) gives its places real
 * memory. */
#ifndef GALE_GRAPH_PLAN_H
#define GALE_GRAPH_PLAN_H
#include "device/call.h"
#include "graph/fuse/fuse.h"
#include "graph/plan/weights.h"
#include "kernel/kernels.h"

typedef enum gale__plan_space {
    GALE__SPACE_NONE,
    GALE__SPACE_WORK,
    GALE__SPACE_CONST,
    GALE__SPACE_WEIGHT,
    GALE__SPACE_INPUT,
    GALE__SPACE_OUTPUT,
    GALE__SPACE_SEED
} gale__plan_space;
typedef struct gale__plan_place {
    uint8_t space;
    int32_t index;
    uint64_t offset;
} gale__plan_place; /* index: slab, weight, input or output */

typedef enum gale__plan_step_kind { GALE__STEP_LAUNCH, GALE__STEP_COPY, GALE__STEP_CALL } gale__plan_step_kind;
typedef struct gale__plan_step {
    uint8_t kind;
    bool once;    /* belongs to the prologue */
    bool routine; /* of a fast path, named by tag.name */
    gale_kernel *kernel;
    gale__call *call; /* CALL: the plan's, or its body's */
    uint32_t groups[3];
    const uint32_t *words;
    const gale__matrix_map *maps;
    int n_words, n_maps, n_refs;
    gale__plan_place *refs; /* COPY: to, from */
    uint64_t size;          /* COPY */
    const uint8_t *writer;  /* by ref: the ref that the part of the kernel writes which reads it; NULL: not known */
    uint64_t aligned;       /* bit k: ref k is read only at the elements that the same part writes */
    double depth;           /* terms of the longest sum, of all parts one after the other; 0: none, or not known */
    double trips;           /* of a routine: steps that wait for each other */
    gale__tag tag;
} gale__plan_step;

typedef struct gale__plan_result {
    gale_type type;
    int rank;
    int64_t dims[GALE_MAX_RANK];
    size_t size_bytes;
} gale__plan_result;

typedef struct gale__plan {
    gale__prim_graph g; /* empty once the plan has settled */
    gale__arena arena;
    gale_device *device;
    gale__plan_step *steps;
    int n_steps;
    size_t steps_capacity;
    gale__runnable *runnables;
    int n_runnables;
    gale__call **calls;
    int n_calls;
    size_t calls_capacity; /* prepared library calls, owned */
    uint64_t *slabs;
    int n_slabs; /* bytes of each work slab */
    uint64_t const_bytes;
    struct {
        const void *data;
        uint64_t offset, size;
    } * constants;
    int n_constants;
    size_t constants_capacity;
    gale__weight_wanted *weights;
    int n_weights;
    size_t weights_capacity; /* constants that are shared between plans: see weights.h */
    uint64_t weight_bytes;
    bool seeded; /* its steps read the seed of the run */
    gale__node *outputs;
    int n_outputs;
    gale__plan_result *results; /* what the outputs are */
    struct gale__plan **bodies;
    int n_bodies;
    size_t bodies_capacity; /* of loops: they own the kernels their steps use */
    double predicted_us, bytes, operations;
    uint64_t plan_ns; /* time for lowering and planning, set by the program */
    int kernels;      /* launches and calls, the prologue's not counted */
} gale__plan;

/* Takes over g (finished with the plan).  memory_limit 0: the device's. */
gale_status gale__plan_make(gale_device *device, gale__prim_graph *g, const gale__node *outputs, int n_outputs,
    const gale__fusion_options *options, gale__plan **out);
void gale__plan_destroy(gale__plan **plan);
/* Whether an output may overwrite an input, element by element: nothing reads an element after it was overwritten. */
bool gale__plan_in_place(const gale__plan *plan, int output, int input);
/* Frees what was only needed until the constants were uploaded and the prologue had run. */
void gale__plan_settle(gale__plan *plan);
/* Marks the weights that steps read; prologue: those of the prologue too.  read: cleared, one for each. */
void gale__plan_weights_read(const gale__plan *plan, bool prologue, bool *read);

/* memory.c: packs values with lifetimes into slabs. */
typedef struct gale__plan_item {
    uint64_t size;
    int first, last;
    int32_t slab;
    uint64_t offset;
    int32_t over; /* -1, or the item whose place it takes: of the same size, last used when this one begins */
    bool left;    /* its place went to such an item */
} gale__plan_item;
/* order: the items in order of `first`. */
gale_status gale__plan_memory_pack(
    gale__plan_item *items, gale__plan_item *const *order, int n, uint64_t slab_limit, uint64_t **slabs, int *n_slabs);

/* plan_special.c: the steps of SORT, SCAN and PUT. */
typedef struct gale__planner gale__planner;
gale_status gale__planner_special(gale__planner *p, const gale__fused *k);
#endif
