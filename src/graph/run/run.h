/* Running a plan: contexts, bindings, launches. */
#ifndef GALE_GRAPH_RUN_H
#define GALE_GRAPH_RUN_H
#include "base/limits.h"
#include "graph/run/program.h"

/* Uploads the constants and runs the prologue. */
gale_status gale__instance_prepare(gale_program *program, gale__instance *instance);
gale_status gale__run_context_take(gale_program *program, gale__instance *instance, gale__run_context **out);
void gale__run_context_give(gale_program *program, gale__instance *instance, gale__run_context *context);
/* The seed of a run, where the plan reads it: the caller's, or another in each run. */
gale_status gale__run_context_seed(const gale_program *program, const gale__plan *plan, gale__run_context *context);
gale__ref gale__run_context_seed_ref(const gale__run_context *context);
void gale__run_context_destroy(const gale__plan *plan, int n_inputs, gale__run_context *context);
/* Sends the steps of one run to the stream, or those of the prologue. */
typedef struct gale__run_memory {
    gale_buffer *constants;
    gale__weight *const *weights;
    gale_buffer *const *slabs;
    const gale__ref *bound; /* inputs, then outputs */
    int n_inputs;
    gale__ref seed; /* of the run, where the plan reads it */
} gale__run_memory;
gale_status gale__plan_send(const gale__plan *plan, gale_stream *stream, const gale__run_memory *memory, bool prologue);
/* Those of one run, which may be stopped on the way.  again: the context has served a run; same: tensors have the same
 * addresses as then.
 * *replayed: may captures be used; were they. */
gale_status gale__run_send(gale__instance *instance, gale__run_context *context, const gale__run_memory *memory,
    bool again, bool same, bool *replayed);

/* Work that a queue does in order: `end` frees the argument, whether or not the work succeeded. */
typedef struct gale__queue_task {
    gale_status (*work)(void *arg, const gale_run_control *control);
    void (*end)(void *arg);
    void *arg;
} gale__queue_task;
/* The argument stays the caller's on failure. */
gale_status gale__queue_submit(gale_queue *queue, const gale_device *device, const gale__queue_task *task,
    const gale_run_control *control, void *user, gale_run **out);

/* One run, with a context of its instance. */
typedef struct gale__run {
    gale_program *program;
    gale__instance *instance;
    gale__run_context *context;
    gale_tensor *const *inputs;
    gale_tensor **outputs; /* the caller's, or NULL: created in the context */
    bool on_host, in_place, replayed;
    uint64_t uploads, downloads, start_ns;
} gale__run;
gale_status gale__run_start(gale__run *run);                    /* binds and sends everything, without waiting */
gale_status gale__run_end(gale__run *run, gale_status started); /* waits, also if the start failed */
void gale__run_captures_drop(gale__run_context *context);
/* Runs of a device share its memory: a run that lacks memory waits for others to end (turns.c). */
typedef struct gale__turn {
    int tries;
    uint64_t ended; /* of the device's runs, when this try began */
    bool insists;   /* new runs wait for this one */
    uint64_t shed;  /* runs begun when idle memory was freed; 0: it was not */
} gale__turn;       /* zero-initialised */

void gale__turns_join(gale_program *program); /* its idle memory may be taken from now on */
void gale__turns_part(gale_program *program);
/* Each try of a run lies between these two.  Whether to try again; else *status is the run's. */
gale_status gale__turn_begin(gale_device *device, gale__turn *turn);
bool gale__turn_again(gale_program *program, gale__turn *turn, gale_status *status);
/* Frees plans of other shapes of `own` (may be NULL), and what other programs of the device keep for their next run.
 * False when there was nothing. */
bool gale__turns_shed(gale_device *device, gale_program *own);
#define GALE__CONTROL(control)                                                                                    \
    do {                                                                                                          \
        GALE__OPTIONS(control);                                                                                   \
        if ((control) && (control)->threads < 0)                                                                  \
            return gale__fail(GALE_INVALID, "%s: %d threads; use 0 for all cores", __func__, (control)->threads); \
    } while (0)
/* What the caller of a run allows. */
static inline gale__limits gale__run_limits(const gale_run_control *o)
{
    return (gale__limits){.threads = o->threads, .cancel = o->cancel, .deadline_ns = o->deadline_ns, .seed = o->seed};
}
#endif
