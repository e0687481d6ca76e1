/* Fast paths: routines that compute a whole region faster than the kernels that fusion would generate.
 *
 * paths.def is the table.  While an operator graph is lowered, each region whose name is in the table is offered to
 * those of its rows whose needs the device meets; the first that claims it replaces it by one ROUTINE node, and the
 * lowered nodes are no longer used.  Unclaimed regions are fused as usual, so a row may be removed and everything still
 * works.
 */
#ifndef GALE_GRAPH_PATHS_H
#define GALE_GRAPH_PATHS_H
#include "device/device.h"
#include "graph/build/opgraph.h"
#include "kernel/routines/routine.h"

enum { GALE__FAST_PATH_OPERANDS = 6, GALE__FAST_PATH_ARGS = 64 };

/* A region offered to a row, and the routine that the row replaces it by. */
typedef struct gale__claim {
    gale__prim_graph *g;
    const gale_device *device;
    const gale__op_node *node; /* attributes */
    const gale__node *in;
    int n_in;
    gale__node out; /* as lowered: has the type and shape of the routine's result */
    int n_out;      /* how many results the region has */
    bool together;  /* set by the row: the routine writes all results, of one type, one after another; else only the
                       first */
    bool turned;    /* set by the row: the routine's result has the third and the second last axis exchanged */
    /* Set by the row if operand 0 and the result may be stored channels-last, of which the first word of the arguments
     * is told (GALE__CPU_LAST_OPERAND, GALE__CPU_LAST_RESULT): its time as declared, and with both so; 0: it does not.
     */
    double ns[2];
    gale__node operand[GALE__FAST_PATH_OPERANDS];
    int n_operands; /* read by the routine; each is stored in memory, dense */
    const void *args;
    int n_args;             /* words */
    uint64_t scratch_bytes; /* host functions: for each worker */
    double operations;
    int64_t trips; /* steps that wait for each other, of recurrent cells; 0: none */
} gale__claim;

/* One claim function per row: false declines the region. */
#define PATH(region, routine, needs, claim, run) bool claim(gale__claim *c);
#include "graph/plan/paths.def"
#undef PATH

/* What a row needs of a device, from its capabilities. */
typedef enum gale__fast_path_need {
    GALE__NEED_HOST_FUNCTIONS = 1,
    GALE__NEED_KERNELS = 2, /* builds them from text or SPIR-V */
    GALE__NEED_I64 = 4,
    GALE__NEED_PRODUCTS = 8, /* a library for matrix products */
    GALE__NEED_MATRIX = 16,  /* matrix units, or kernels for them written for plain threads */
    GALE__NEED_TOGETHER = 32 /* work-groups that can wait for each other */
} gale__fast_path_need;

/* One of three kinds (kernel/routines/routine.h): the member that is not NULL. */
typedef struct gale__fast_path {
    const char *region, *routine;
    uint32_t needs;
    bool (*claim)(gale__claim *c); /* false: not this one */
    struct {
        gale__cpu_routine *host;
        const gale__kernel_routine *kernels;
        gale__call_routine *call;
    } run;
} gale__fast_path;

/* The first row for regions of this name; -1: none. */
int gale__fast_paths_first(const char *region);
/* Row i; NULL: there are no more. */
const gale__fast_path *gale__fast_paths_at(int i);
/* Offers the region to the rows for its name; out[0] becomes the routine's result when one claims it. */
gale_status gale__fast_paths_claim(
    gale__prim_graph *g, gale_device *device, const gale__op_node *node, const gale__node *in, gale__node *out);

/* The times of a routine whose operand 0 and result may be stored channels-last; false: it is none. */
bool gale__fast_paths_layouts(const gale__prim_node *routine, double ns[2]);

/* For claim functions. */
gale__prim_node gale__claim_node(const gale__claim *c, gale__node n); /* rank 0 for NIL */
double gale__claim_attr(const gale__claim *c, const char *name, double fallback);
/* Room for the routine's arguments, a struct of 8-byte members, cleared; NULL (and c->g->status) without memory. */
void *gale__claim_args(gale__claim *c, size_t bytes);
/* How n is laid out in the memory of another node, looking through the views between them: that node is *base, n's axis
 * d moves by stride[d]. */
void gale__claim_view(const gale__claim *c, gale__node n, gale__node *base, int64_t *stride, int64_t *offset);
/* Adds an operand; false when there are too many. */
bool gale__claim_operand(gale__claim *c, gale__node n);

/* ROUTINE's attributes. */
enum {
    GALE__ROUTINE_ROW,
    GALE__ROUTINE_SCRATCH,
    GALE__ROUTINE_OPERATIONS, /* bits of a double */
    GALE__ROUTINE_TRIPS,
    GALE__ROUTINE_NS, /* bits of two doubles, as in the claim */
    GALE__ROUTINE_ARGS = GALE__ROUTINE_NS + 2
};
#endif
