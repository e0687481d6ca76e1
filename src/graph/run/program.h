/* Internals of programs: a graph on a device, its plans by signature, and the contexts that run them. */
#ifndef GALE_GRAPH_PROGRAM_H
#define GALE_GRAPH_PROGRAM_H
#include "graph/build/opgraph.h"
#include "graph/plan/plan.h"
#include "graph/plan/weights.h"
#include "graph/run/index_check.h"

/* Address of a tensor, by the driver's handles, since a block of the pool may reuse the address of another. */
typedef struct gale__binding {
    uint64_t address, offset;
    void *handle;
} gale__binding;

/* An output that overwrites an input; known: whether it can be updated in place has been determined. */
typedef struct gale__update {
    int32_t input;
    bool known, in_place;
} gale__update;

/* Small tensors of a run that are transferred together: see parcel.c. */
typedef struct gale__parcel {
    gale__mem host;      /* pinned */
    gale_buffer *device; /* for the inputs; NULL: nothing small yet */
    size_t used;         /* bytes, in this run */
    uint64_t outputs;    /* those that the device may write to the host's memory, a bit for each */
    bool refused;        /* there was no memory for it */
} gale__parcel;

/* Memory, stream and tables of one run; pooled by its instance.  Tables go by input, then output. */
typedef struct gale__run_context {
    struct gale__run_context *next;
    gale_stream *stream;
    gale_buffer **slabs;
    gale_buffer **staged;    /* device copies of host tensors, and of outputs that overwrite inputs */
    gale__ref *refs;         /* of this run */
    gale__update *updates;   /* by output */
    gale__mem *host_mems;    /* CPU: host tensors are read and written in place */
    gale_tensor **made;      /* by output: tensors this run made */
    gale__binding *bound;    /* of the previous run: what the capture was made with */
    gale_capture **captures; /* of its steps, in order, with these bindings */
    void **launched;         /* by step: where in its capture the launch of a step with tensors of the caller is */
    int n_captures;
    uint64_t seed; /* of this run: what host kernels read */
    gale__mem seed_mem;
    gale_buffer *seed_buffer; /* the same for devices; NULL until it is needed */
    gale__parcel parcel;
    gale_event *marks[2]; /* of runs that may be stopped: see send.c */
    uint64_t bytes;       /* of device memory that it holds, as of the end of its latest run */
    bool seen;            /* bound[] is filled */
    bool fixed;           /* its captures cannot be updated for other tensors */
} gale__run_context;

typedef struct gale__instance {
    struct gale__instance *next;
    uint64_t hash;
    uint8_t *signature;
    size_t signature_size;
    gale__plan *plan;
    gale_buffer *constants;
    gale__weight **weights; /* by number in the plan */
    gale__run_context *idle;
    uint64_t used; /* clock of the latest use */
    int running;
    bool ready;              /* else one of the runs is making its plan */
    uint64_t bytes;          /* that it takes, contexts not counted */
    _Atomic uint64_t run_ns; /* that the latest run took */
} gale__instance;

struct gale_program {
    gale_program *next;       /* of the device */
    const gale_graph *source; /* as given, held */
    gale_graph graph[1];      /* as recognised, in the arena; borrows from the source */
    gale__arena arena;
    gale_device *device;
    gale_program_options options;
    bool *plan_inputs;
    gale__index_rule *index_rules; /* of the source */
    int n_index_rules;
    gale__instance *instances;
    int n_instances;
    uint64_t n_planned; /* plans made so far */
    bool grown;         /* contexts have more memory than when the budget was last checked */
    uint64_t clock;
    _Atomic int32_t nodes; /* of the latest plan's graph: the next one is about as large */
    gale__mutex lock;      /* of the instances, their idle contexts and `last` */
    gale__cond planned;    /* an instance is ready, or gone */
    struct {
        double predicted_us, run_us, plan_us;
        int kernels, prologue;
        uint64_t work_bytes, const_bytes, uploads, downloads;
        bool replayed;
    } last;
};

gale_status gale__program_check_options(const gale_program_options *options);
gale_status gale__program_check_inputs(const gale_program *program, gale_tensor *const *inputs);
/* A plan for these inputs that the program does not keep: for predictions without a run. */
gale_status gale__program_plan(gale_program *program, gale_tensor *const *inputs, gale__plan **out);
/* The instance for these inputs, planned where it is new, and in use until it is released. */
gale_status gale__program_instance(gale_program *program, gale_tensor *const *inputs, gale__instance **out);
void gale__instance_destroy(const gale_program *program, gale__instance *instance);
void gale__instance_release(gale_program *program, gale__instance *instance);
/* Lets go of what no run needs now: plans of other shapes, and idle contexts.  False when there was nothing. */
bool gale__program_shed(gale_program *program);
bool gale__program_shed_idle(gale_program *program); /* only contexts, but of all plans */
/* Fused kernels of the plan for these inputs, the prologue's not counted. */
gale_status gale__program_kernels(gale_program *program, gale_tensor *const *inputs, int *kernels);
#endif
