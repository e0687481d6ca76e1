/* Submitted runs. A queue's thread sends them one after the other. On a device with its own queue it does not wait for
 * them: the stream of each run waits on the device for the previous run, and callers that wait for a run, or need room
 * for another, wait for its stream. On other devices a run is complete when it has been sent. */
#include "graph/run/run.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { AHEAD = 4 }; /* runs that may be queued on the device, each with its own memory */

struct gale_run {
    gale_run *next;
    gale__run run;         /* of a program, or nothing where there is a task */
    gale__queue_task task; /* work that the queue's thread does itself */
    gale_run_control control;
    void *user;
    gale_tensor **inputs, **outputs; /* views, which hold the memory */
    gale_event *done;                /* recorded once it is sent; NULL: the device has no queue */
    gale__mutex lock;
    gale__cond changed;
    _Atomic bool sent, finished;
    bool fetches; /* results come to the host with the wait */
    gale_status status;
    char message[512];
    _Atomic int refs; /* the caller's and the queue's */
};

struct gale_queue {
    gale_device *device;
    gale__mutex lock;
    gale__cond changed;
    gale_run *first, **last; /* not yet begun */
    gale_run *ahead[AHEAD];  /* sent, oldest first; of the thread, or of who holds the lock while it is idle */
    int n_ahead;
    bool busy, stop;
    gale__thread thread;
};

/* --- Runs. --- */

static void drop_tensors(gale_tensor ***list, int n)
{
    for (int i = 0; *list && i < n; i++) gale_tensor_destroy(&(*list)[i]);
    gale__free(*list);
    *list = NULL;
}

/* Frees what the device needed. The run's lock is held, or no other thread has access. */
static void let_go(gale_run *r)
{
    gale_program *p = r->run.program;
    if (r->task.end) r->task.end(r->task.arg);
    r->task.end = NULL;
    if (!p) return;
    if (r->run.context) gale__run_context_give(p, r->run.instance, r->run.context);
    if (r->run.instance) gale__instance_release(p, r->run.instance);
    r->run.context = NULL;
    r->run.instance = NULL;
    drop_tensors(&r->inputs, p->graph->n_inputs);
    drop_tensors(&r->outputs, p->graph->n_outputs);
}

static void drop(gale_run *r)
{
    if (!r || atomic_fetch_sub(&r->refs, 1) > 1) return;
    let_go(r);
    gale_event_destroy(&r->done);
    gale__cond_finish(&r->changed);
    gale__mutex_finish(&r->lock);
    gale__free(r);
}

/* With the run's lock held. */
static void finish(gale_run *r, gale_status status)
{
    r->status = status;
    if (status != GALE_OK) snprintf(r->message, sizeof r->message, "%s", gale_error());
    let_go(r);
    atomic_store(&r->sent, true);
    atomic_store(&r->finished, true);
    gale__cond_broadcast(&r->changed);
}

/* Waits for a run that was sent. */
static void retire(gale_run *r)
{
    gale__mutex_lock(&r->lock);
    if (!atomic_load(&r->finished)) finish(r, gale__run_end(&r->run, GALE_OK));
    gale__mutex_unlock(&r->lock);
}

gale_status gale_run_wait(gale_run *r)
{
    GALE__NEED({"run", r});
    gale__mutex_lock(&r->lock);
    while (!atomic_load(&r->sent)) gale__cond_wait(&r->changed, &r->lock);
    gale__mutex_unlock(&r->lock);
    retire(r);
    return r->status == GALE_OK ? GALE_OK : gale__fail(r->status, "%s", r->message);
}

gale_status gale_run_poll(gale_run *r, bool *done)
{
    GALE__NEED({"run", r}, {"done", done});
    bool reached = atomic_load(&r->finished);
    if (!reached && atomic_load(&r->sent)) GALE_TRY(gale_event_poll(r->done, &reached));
    if (reached) GALE_TRY(gale_run_wait(r));
    *done = reached;
    return GALE_OK;
}

void *gale_run_user(const gale_run *r) { return GALE__LACKS({"run", r}) ? NULL : r->user; }

void gale_run_destroy(gale_run **run)
{
    if (!run || !*run) return;
    gale_run_wait(*run); /* its status is no longer needed */
    drop(*run);
    *run = NULL;
}

/* --- The queue's thread. --- */

/* Forgets runs that are over; waits for the oldest where there are too many, or, with `all`, for all that bring
 * something to the host. */
static void make_room(gale_queue *q, bool all)
{
    int kept = 0;
    for (int i = 0; i < q->n_ahead; i++) {
        gale_run *r = q->ahead[i];
        if ((all && r->fetches) || q->n_ahead - i + kept > AHEAD - 1) retire(r);
        if (atomic_load(&r->finished)) drop(r);
        else q->ahead[kept++] = r;
    }
    q->n_ahead = kept;
}

static void retire_all(gale_queue *q)
{
    for (int i = 0; i < q->n_ahead; i++) {
        retire(q->ahead[i]);
        drop(q->ahead[i]);
    }
    q->n_ahead = 0;
}

static bool reads_host(const gale_run *r)
{
    for (int i = 0; i < r->run.program->graph->n_inputs; i++)
        if (!r->inputs[i]->device) return true;
    return false;
}

/* Runs that were sent ahead end, and idle memory goes, before a run fails because memory is missing. */
static gale_status take_context(gale_queue *q, gale_run *r)
{
    gale_status status = gale__run_context_take(r->run.program, r->run.instance, &r->run.context);
    if (status != GALE_NO_MEMORY) return status;
    bool ended = q->n_ahead > 0;
    retire_all(q);
    return gale__turns_shed(q->device, r->run.program) || ended
               ? gale__run_context_take(r->run.program, r->run.instance, &r->run.context)
               : status;
}

/* Sends the run after the previous one. */
static gale_status send(gale_queue *q, gale_run *r)
{
    GALE_TRY(gale__limits_check());
    make_room(q, reads_host(r));
    GALE_TRY(take_context(q, r));
    if (q->n_ahead) GALE_TRY(gale_stream_wait(r->run.context->stream, q->ahead[q->n_ahead - 1]->done));
    GALE_TRY(gale__run_start(&r->run));
    if (q->device->info.caps.in_place) return GALE_OK;
    GALE_TRY(gale_event_create(q->device, &r->done));
    return gale_event_record(r->done, r->run.context->stream);
}

/* A task waits for what was sent before it, since it may read what those runs make. */
static void run_task(gale_queue *q, gale_run *r)
{
    gale__limits own = gale__run_limits(&r->control);
    retire_all(q);
    gale__limits_enter(&own);
    gale_status status = gale__limits_check();
    if (status == GALE_OK) status = r->task.work(r->task.arg, &r->control);
    gale__limits_leave(&own);
    gale__mutex_lock(&r->lock);
    finish(r, status);
    gale__mutex_unlock(&r->lock);
    drop(r);
}

static void begin(gale_queue *q, gale_run *r)
{
    if (r->task.work) return run_task(q, r);
    gale__limits limits = {.threads = r->run.program->options.threads}, own = gale__run_limits(&r->control);
    gale__limits_enter(&limits);
    gale__limits_enter(&own);
    gale_status status = send(q, r);
    gale__limits_leave(&own);
    gale__limits_leave(&limits);
    if (r->run.context && (status != GALE_OK || q->device->info.caps.in_place))
        status = gale__run_end(&r->run, status); /* steps before one that failed may be on their way */
    gale__mutex_lock(&r->lock);
    if (status != GALE_OK || q->device->info.caps.in_place) finish(r, status);
    atomic_store(&r->sent, true);
    gale__cond_broadcast(&r->changed);
    gale__mutex_unlock(&r->lock);
    if (atomic_load(&r->finished)) drop(r);
    else q->ahead[q->n_ahead++] = r;
}

static void run_queue(void *arg)
{
    gale_queue *q = arg;
    gale__mutex_lock(&q->lock);
    while (q->first || !q->stop) {
        gale_run *r = q->first;
        if (!r) {
            gale__cond_wait(&q->changed, &q->lock);
            continue;
        }
        q->first = r->next;
        if (!q->first) q->last = &q->first;
        q->busy = true;
        gale__mutex_unlock(&q->lock);
        begin(q, r);
        gale__mutex_lock(&q->lock);
        q->busy = false;
        gale__cond_broadcast(&q->changed);
    }
    gale__mutex_unlock(&q->lock);
}

/* --- The caller's side. --- */

gale_status gale_queue_create(gale_device *device, gale_queue **out)
{
    GALE__NEED({"device", device}, {"out", out});
    GALE__WITHIN(device->context);
    gale_queue *q = gale__calloc(1, sizeof *q);
    if (!q) return GALE_NO_MEMORY;
    q->last = &q->first;
    q->device = gale__device_hold(device);
    gale__mutex_init(&q->lock);
    gale__cond_init(&q->changed);
    gale_status status = gale__thread_begin(&q->thread, run_queue, q);
    if (status == GALE_OK) return *out = q, GALE_OK;
    gale__cond_finish(&q->changed);
    gale__mutex_finish(&q->lock);
    gale_device_close(&q->device);
    gale__free(q);
    return status;
}

void gale_queue_wait(gale_queue *q)
{
    if (GALE__LACKS({"queue", q})) return;
    gale__mutex_lock(&q->lock);
    while (q->first || q->busy) gale__cond_wait(&q->changed, &q->lock);
    retire_all(q);
    gale__mutex_unlock(&q->lock);
}

void gale_queue_destroy(gale_queue **queue)
{
    if (!queue || !*queue) return;
    gale_queue *q = *queue;
    *queue = NULL;
    gale_queue_wait(q);
    gale__mutex_lock(&q->lock);
    q->stop = true;
    gale__cond_broadcast(&q->changed);
    gale__mutex_unlock(&q->lock);
    gale__thread_end(&q->thread);
    gale__cond_finish(&q->changed);
    gale__mutex_finish(&q->lock);
    gale_device_close(&q->device);
    gale__free(q);
}

static gale_status view(gale_tensor *t, gale_tensor **out) { return gale_tensor_reshape(t, t->rank, t->dims, out); }

/* Views of everything, and tensors for the outputs that the caller has none for: made[i]. */
static gale_status hold_tensors(
    gale_run *r, gale_tensor *const *inputs, gale_tensor *const *outputs, gale_tensor **made)
{
    const gale_graph *g = r->run.program->graph;
    r->inputs = gale__calloc((size_t)g->n_inputs + 1, sizeof *r->inputs);
    r->outputs = gale__calloc((size_t)g->n_outputs + 1, sizeof *r->outputs);
    if (!r->inputs || !r->outputs) return GALE_NO_MEMORY;
    for (int i = 0; i < g->n_inputs; i++) GALE_TRY(view(inputs[i], &r->inputs[i]));
    for (int i = 0; i < g->n_outputs; i++) {
        const gale__plan_result *n = &r->run.instance->plan->results[i];
        gale_device *where = r->control.outputs_on_host ? NULL : r->run.program->device;
        if (!outputs[i]) GALE_TRY(gale_tensor_create(where, n->type, n->rank, n->dims, &made[i]));
        GALE_TRY(view(outputs[i] ? outputs[i] : made[i], &r->outputs[i]));
        r->fetches |= !r->outputs[i]->device;
    }
    r->run.inputs = r->inputs;
    r->run.outputs = r->outputs;
    return GALE_OK;
}

static gale_run *new_run(gale_program *p, const gale_run_control *control, void *user)
{
    gale_run *r = gale__calloc(1, sizeof *r);
    if (!r) return NULL;
    r->run.program = p;
    if (control) r->control = *control;
    r->user = user;
    atomic_init(&r->refs, 1);
    gale__mutex_init(&r->lock);
    gale__cond_init(&r->changed);
    return r;
}

/* Values that decide shapes must be there when the run is planned. */
static bool reads_values(const gale_program *p)
{
    for (int i = 0; i < p->graph->n_inputs; i++)
        if (p->plan_inputs[i]) return true;
    return false;
}

static void append(gale_queue *q, gale_run *r)
{
    atomic_fetch_add(&r->refs, 1);
    gale__mutex_lock(&q->lock);
    *q->last = r;
    q->last = &r->next;
    gale__cond_broadcast(&q->changed);
    gale__mutex_unlock(&q->lock);
}

gale_status gale__queue_submit(gale_queue *q, const gale_device *device, const gale__queue_task *task,
    const gale_run_control *control, void *user, gale_run **out)
{
    if (q->device != device) return gale__fail(GALE_INVALID, "the queue belongs to another device than the model");
    gale_run *r = new_run(NULL, control, user);
    if (!r) return GALE_NO_MEMORY;
    r->task = *task;
    append(q, r);
    *out = r;
    return GALE_OK;
}

gale_status gale_program_submit(gale_program *p, gale_queue *q, gale_tensor *const *inputs, gale_tensor **outputs,
    const gale_run_control *control, void *user, gale_run **out)
{
    GALE__NEED({"program", p}, {"queue", q}, {"outputs", outputs}, {"out", out});
    GALE__NEED({"inputs", !p->graph->n_inputs || inputs});
    GALE__CONTROL(control);
    GALE__WITHIN(p->device->context);
    GALE_TRY(gale__index_check(p->source, p->index_rules, p->n_index_rules, inputs));
    if (q->device != p->device) return gale__fail(GALE_INVALID, "the queue belongs to another device than the program");
    gale_tensor **made = gale__calloc((size_t)p->graph->n_outputs + 1, sizeof *made);
    gale_run *r = made ? new_run(p, control, user) : NULL;
    gale_status status = r ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK && reads_values(p)) gale_queue_wait(q);
    if (status == GALE_OK) status = gale__program_instance(p, inputs, &r->run.instance);
    if (status == GALE_OK) status = hold_tensors(r, inputs, outputs, made);
    for (int i = 0; made && i < p->graph->n_outputs; i++) {
        if (status != GALE_OK) gale_tensor_destroy(&made[i]);
        else if (made[i]) outputs[i] = made[i];
    }
    gale__free(made);
    if (status != GALE_OK) return drop(r), status;
    append(q, r);
    *out = r;
    return GALE_OK;
}
