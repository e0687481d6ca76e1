/* One run: bind tensors to places, send the steps, bring results back.  The steps of a run whose bindings have not changed since
 * the one before are captured and replayed where the driver can.  A steady run allocates nothing but its outputs. */
#include "graph/run.h"
#include <string.h>

static gale__ref resolve(gale__place place, gale_buffer *constants, gale_buffer *const *slabs, const gale__ref *bound, int n_inputs)
{
    switch (place.space) {
    case GALE__SPACE_WORK: return gale__buffer_ref(slabs[place.index], place.offset);
    case GALE__SPACE_CONST: return gale__buffer_ref(constants, place.offset);
    case GALE__SPACE_INPUT: return (gale__ref){bound[place.index].mem, bound[place.index].offset + place.offset};
    default: return (gale__ref){bound[n_inputs + place.index].mem, bound[n_inputs + place.index].offset + place.offset};
    }
}

gale_status gale__plan_send(const gale__plan *plan, gale_stream *stream, gale_buffer *constants, gale_buffer *const *slabs, const gale__ref *bound, int n_inputs, bool prologue)
{
    for (int i = 0; i < plan->n_steps; i++) {
        const gale__step *s = &plan->steps[i];
        gale__ref refs[GALE__NEST_BUFFERS_MAX];
        if (s->once != prologue) continue;
        for (int k = 0; k < s->n_refs; k++) refs[k] = resolve(s->refs[k], constants, slabs, bound, n_inputs);
        if (s->kind == GALE__STEP_COPY) {
            GALE_TRY(gale__copy_refs(stream, refs[0], refs[1], s->size, &s->tag));
            continue;
        }
        gale__launch launch = {.n_refs = s->n_refs, .refs = refs, .n_words = s->n_words, .words = s->words, .tag = &s->tag};
        memcpy(launch.groups, s->groups, sizeof launch.groups);
        gale_status status = gale__launch_run(stream, s->kernel, &launch);
        if (status != GALE_OK) return gale__fail_within(status, "%s", s->tag.op);
    }
    return GALE_OK;
}

void gale__context_destroy(gale__instance *instance, gale__context *c)
{
    const gale__plan *plan = instance->plan;
    gale_capture_destroy(&c->capture);
    for (int i = 0; c->slabs && i < plan->n_slabs; i++) gale_buffer_destroy(&c->slabs[i]);
    for (int i = 0; c->staged_in && c->staged_in[i] != (gale_buffer *)(uintptr_t)-1; i++) gale_buffer_destroy(&c->staged_in[i]);
    for (int i = 0; c->staged_out && i < plan->n_outputs; i++) gale_buffer_destroy(&c->staged_out[i]);
    gale__free(c->slabs);
    gale__free(c->staged_in);
    gale__free(c->staged_out);
    gale__free(c->bound);
    gale_stream_destroy(&c->stream);
    gale__free(c);
}

static gale_status new_context(gale_program *p, gale__instance *instance, gale__context **out)
{
    const gale__plan *plan = instance->plan;
    size_t n_in = (size_t)p->graph->n_inputs, n_out = (size_t)plan->n_outputs;
    gale__context *c = gale__calloc(1, sizeof *c);
    gale_status status = GALE_NO_MEMORY;
    if (!c) return status;
    c->slabs = gale__calloc((size_t)plan->n_slabs + 1, sizeof *c->slabs);
    c->staged_in = gale__calloc(n_in + 1, sizeof *c->staged_in);
    c->staged_out = gale__calloc(n_out + 1, sizeof *c->staged_out);
    c->bound = gale__calloc(n_in + n_out + 1, sizeof *c->bound);
    if (!c->slabs || !c->staged_in || !c->staged_out || !c->bound) goto done;
    c->staged_in[n_in] = (gale_buffer *)(uintptr_t)-1; /* ends the list */
    GALE_GO(gale_stream_create(p->device, &c->stream));
    for (int i = 0; i < plan->n_slabs; i++) GALE_GO(gale_buffer_create(p->device, plan->slabs[i], &c->slabs[i]));
    *out = c;
    return GALE_OK;
done:
    if (c->staged_in) c->staged_in[n_in] = (gale_buffer *)(uintptr_t)-1;
    gale__context_destroy(instance, c);
    return status;
}

gale_status gale__context_take(gale_program *p, gale__instance *instance, gale__context **out)
{
    gale__mutex_lock(&p->lock);
    gale__context *c = instance->idle;
    if (c) instance->idle = c->next;
    gale__mutex_unlock(&p->lock);
    if (!c) return new_context(p, instance, out);
    *out = c;
    return GALE_OK;
}

void gale__context_give(gale_program *p, gale__instance *instance, gale__context *c)
{
    gale__mutex_lock(&p->lock);
    c->next = instance->idle;
    instance->idle = c;
    gale__mutex_unlock(&p->lock);
}

gale_status gale__instance_prepare(gale_program *p, gale__instance *instance)
{
    const gale__plan *plan = instance->plan;
    gale__context *c = NULL;
    gale_status status;
    if (!plan->const_bytes) return GALE_OK;
    GALE_TRY(gale_buffer_create(p->device, plan->const_bytes, &instance->constants));
    GALE_TRY(new_context(p, instance, &c));
    for (int i = 0; i < plan->n_constants; i++)
        if (plan->constants[i].size) GALE_GO(gale_upload(c->stream, instance->constants, plan->constants[i].offset, plan->constants[i].data, plan->constants[i].size));
    GALE_GO(gale__plan_send(plan, c->stream, instance->constants, c->slabs, c->bound, p->graph->n_inputs, true));
    GALE_GO(gale_stream_sync(c->stream));
    c->next = instance->idle;
    instance->idle = c;
    return GALE_OK;
done:
    gale__context_destroy(instance, c);
    return status;
}

/* What one run needs beside its context. */
typedef struct run {
    gale_program *p;
    gale__instance *instance;
    gale__context *c;
    gale_tensor *const *inputs;
    gale_tensor **outputs;
    gale_tensor **made;     /* outputs this run made, destroyed on failure */
    gale__mem *host_mems;   /* CPU: host tensors are read and written where they lie */
    gale__ref *now;
    bool on_host, in_place, replayed;
    uint64_t uploads, downloads;
} run;

static gale_status bind_tensor(run *r, int slot, gale_tensor *t, gale_buffer **staged)
{
    if (!t->size_bytes) return r->now[slot] = (gale__ref){&r->host_mems[slot], 0}, GALE_OK;
    if (t->buffer) return r->now[slot] = gale__buffer_ref(t->buffer, 0), GALE_OK;
    if (r->in_place) {
        r->host_mems[slot] = (gale__mem){.address = (uint64_t)(uintptr_t)t->host, .host = t->host, .size = t->size_bytes};
        r->now[slot] = (gale__ref){&r->host_mems[slot], 0};
        return GALE_OK;
    }
    if (!*staged) GALE_TRY(gale_buffer_create(r->p->device, t->size_bytes, staged));
    r->now[slot] = gale__buffer_ref(*staged, 0);
    return GALE_OK;
}

static gale_status bind_inputs(run *r)
{
    for (int i = 0; i < r->p->graph->n_inputs; i++) {
        gale_tensor *t = r->inputs[i];
        if (r->p->plan_inputs[i]) continue; /* a constant of the plan */
        GALE_TRY(bind_tensor(r, i, t, &r->c->staged_in[i]));
        if (t->buffer || r->in_place || !t->size_bytes) continue;
        GALE_TRY(gale_upload(r->c->stream, r->c->staged_in[i], 0, t->host, t->size_bytes));
        r->uploads++;
    }
    return GALE_OK;
}

static gale_status bind_outputs(run *r)
{
    const gale__plan *plan = r->instance->plan;
    for (int i = 0; i < plan->n_outputs; i++) {
        const gale__pnode *n = gale__g_at(&plan->g, plan->outputs[i]);
        gale_tensor *t = r->outputs[i];
        if (t) {
            bool fits = t->type == (gale_type)n->type && t->rank == n->rank && (!t->device || t->device == r->p->device);
            for (int a = 0; fits && a < n->rank; a++) fits = t->dims[a] == n->dims[a];
            if (!fits) return gale__fail(GALE_INVALID, "the tensor given for output %s does not fit its type and shape", r->p->graph->output_names[i]);
        } else {
            GALE_TRY(gale_tensor_create(r->on_host ? NULL : r->p->device, (gale_type)n->type, n->rank, n->dims, &r->made[i]));
            t = r->made[i];
        }
        GALE_TRY(bind_tensor(r, r->p->graph->n_inputs + i, t, &r->c->staged_out[i]));
    }
    return GALE_OK;
}

static gale_status fetch_outputs(run *r)
{
    for (int i = 0; i < r->instance->plan->n_outputs; i++) {
        gale_tensor *t = r->made[i] ? r->made[i] : r->outputs[i];
        if (t->buffer || r->in_place || !t->size_bytes) continue;
        GALE_TRY(gale_download(r->c->stream, r->c->staged_out[i], 0, t->host, t->size_bytes));
        r->downloads++;
    }
    return GALE_OK;
}

static bool same_bindings(const run *r)
{
    int n = r->p->graph->n_inputs + r->instance->plan->n_outputs;
    for (int i = 0; i < n; i++)
        if (r->now[i].mem != r->c->bound[i].mem || r->now[i].offset != r->c->bound[i].offset) return false;
    return r->c->seen;
}

static gale_status send(run *r)
{
    gale__context *c = r->c;
    const gale__plan *plan = r->instance->plan;
    int n_inputs = r->p->graph->n_inputs;
    bool can = r->p->device->info.caps.capture && !r->p->options.no_capture && !r->in_place && plan->kernels > 1 && !r->p->device->profiler;
    if (!same_bindings(r)) {
        gale_capture_destroy(&c->capture);
        memcpy(c->bound, r->now, (size_t)(n_inputs + plan->n_outputs) * sizeof *r->now);
        c->seen = true;
    } else if (can && !c->capture) {
        GALE_TRY(gale_capture_begin(c->stream));
        gale_status status = gale__plan_send(plan, c->stream, r->instance->constants, c->slabs, r->now, n_inputs, false);
        gale_status ended = gale_capture_end(c->stream, &c->capture);
        if (status != GALE_OK || ended != GALE_OK) return gale_capture_destroy(&c->capture), status != GALE_OK ? status : ended;
    }
    r->replayed = can && c->capture;
    if (can && c->capture) return gale_capture_replay(c->stream, c->capture);
    return gale__plan_send(plan, c->stream, r->instance->constants, c->slabs, r->now, n_inputs, false);
}

static void note_run(run *r, uint64_t start_ns)
{
    const gale__plan *plan = r->instance->plan;
    gale_program *p = r->p;
    gale__mutex_lock(&p->lock);
    p->last.predicted_us = plan->predicted_us;
    p->last.run_us = (double)(gale__time_ns() - start_ns) / 1e3;
    p->last.plan_us = (double)plan->plan_ns / 1e3;
    p->last.kernels = plan->kernels;
    p->last.const_bytes = plan->const_bytes;
    p->last.uploads = r->uploads;
    p->last.downloads = r->downloads;
    p->last.replayed = r->replayed;
    p->last.work_bytes = 0;
    for (int i = 0; i < plan->n_slabs; i++) p->last.work_bytes += plan->slabs[i];
    gale__mutex_unlock(&p->lock);
}

static gale_status run_on_context(run *r)
{
    uint64_t start = gale__time_ns();
    gale_status status;
    GALE_GO(bind_inputs(r));
    GALE_GO(bind_outputs(r));
    GALE_GO(send(r));
    GALE_GO(fetch_outputs(r));
done:;
    gale_status synced = gale_stream_sync(r->c->stream);
    if (status == GALE_OK) status = synced;
    if (status == GALE_OK) note_run(r, start);
    return status;
}

gale_status gale_program_run(gale_program *p, gale_tensor *const *inputs, gale_tensor **outputs, bool on_host)
{
    run r = {.p = p, .inputs = inputs, .outputs = outputs, .on_host = on_host, .in_place = p->device->backend->in_place};
    size_t n_out = (size_t)p->graph->n_outputs, n = (size_t)p->graph->n_inputs + n_out;
    GALE_TRY(gale__program_instance(p, inputs, &r.instance));
    gale_status status = GALE_NO_MEMORY;
    /* One allocation for the run's small tables. */
    char *tables = gale__calloc(n + 1, sizeof(gale__ref) + sizeof(gale__mem) + sizeof(gale_tensor *));
    if (tables) {
        r.now = (gale__ref *)tables;
        r.host_mems = (gale__mem *)(tables + (n + 1) * sizeof(gale__ref));
        r.made = (gale_tensor **)(tables + (n + 1) * (sizeof(gale__ref) + sizeof(gale__mem)));
        status = gale__context_take(p, r.instance, &r.c);
        if (status == GALE_OK) {
            status = run_on_context(&r);
            gale__context_give(p, r.instance, r.c);
        }
        for (size_t i = 0; i < n_out; i++) {
            if (status == GALE_OK && r.made[i]) outputs[i] = r.made[i];
            else gale_tensor_destroy(&r.made[i]);
        }
    }
    gale__free(tables);
    gale__instance_release(p, r.instance);
    return status;
}
