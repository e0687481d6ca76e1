/* One run: binds tensors to locations, submits the steps, fetches the results.  If the bindings have not changed since
 * the previous run, the steps are captured and replayed if the driver supports it.  A steady-state run allocates
 * nothing except its outputs. */
#include "base/limits.h"
#include "base/seed.h"
#include "graph/run/parcel.h"
#include <stdatomic.h>
#include <string.h>

void gale__run_context_destroy(const gale__plan *plan, int n_inputs, gale__run_context *c)
{
    if (c->stream)
        gale_stream_sync(
            c->stream); /* steps before the failed one may still be running: the pool would reuse their memory */
    gale__run_captures_drop(c);
    for (int i = 0; i < 2; i++) gale_event_destroy(&c->marks[i]);
    for (int i = 0; c->slabs && i < plan->n_slabs; i++) gale_buffer_destroy(&c->slabs[i]);
    for (int i = 0; c->staged && i < n_inputs + plan->n_outputs; i++) gale_buffer_destroy(&c->staged[i]);
    gale__free(c->slabs);
    gale__free(c->staged);
    gale__free(c->refs);
    gale__free(c->host_mems);
    gale__free(c->made);
    gale__free(c->updates);
    gale__free(c->bound);
    gale_buffer_destroy(&c->seed_buffer);
    if (c->stream) gale__parcel_finish(c->stream->device, &c->parcel);
    gale_stream_destroy(&c->stream);
    gale__free(c);
}

static gale_status new_context(gale_program *p, gale__instance *instance, gale__run_context **out)
{
    const gale__plan *plan = instance->plan;
    size_t n = (size_t)p->graph->n_inputs + (size_t)plan->n_outputs + 1;
    gale__run_context *c = gale__calloc(1, sizeof *c);
    gale_status status = GALE_NO_MEMORY;
    if (!c) return status;
    c->slabs = gale__calloc((size_t)plan->n_slabs + 1, sizeof *c->slabs);
    c->staged = gale__calloc(n, sizeof *c->staged);
    c->refs = gale__calloc(n, sizeof *c->refs);
    c->host_mems = gale__calloc(n, sizeof *c->host_mems);
    c->made = gale__calloc((size_t)plan->n_outputs + 1, sizeof *c->made);
    c->updates = gale__calloc((size_t)plan->n_outputs + 1, sizeof *c->updates);
    c->bound = gale__calloc(n, sizeof *c->bound);
    if (!c->updates || !c->slabs || !c->staged || !c->refs || !c->host_mems || !c->made || !c->bound) goto done;
    GALE_GO(gale_stream_create(p->device, &c->stream));
    for (int i = 0; i < plan->n_slabs; i++) GALE_GO(gale_buffer_create(p->device, plan->slabs[i], &c->slabs[i]));
    *out = c;
    return GALE_OK;
done:
    gale__run_context_destroy(plan, p->graph->n_inputs, c);
    return status;
}

gale_status gale__run_context_take(gale_program *p, gale__instance *instance, gale__run_context **out)
{
    gale__mutex_lock(&p->lock);
    gale__run_context *c = instance->idle;
    if (c) instance->idle = c->next;
    gale__mutex_unlock(&p->lock);
    if (!c) return new_context(p, instance, out);
    *out = c;
    return GALE_OK;
}

/* Copies of tensors are made when they are first needed. */
static uint64_t measure(const gale_program *p, const gale__plan *plan, const gale__run_context *c)
{
    uint64_t bytes = sizeof *c;
    for (int i = 0; i < plan->n_slabs; i++) bytes += plan->slabs[i];
    for (int i = 0; i < p->graph->n_inputs + plan->n_outputs; i++)
        if (c->staged[i]) bytes += gale_buffer_size(c->staged[i]);
    return bytes;
}

void gale__run_context_give(gale_program *p, gale__instance *instance, gale__run_context *c)
{
    uint64_t bytes = measure(p, instance->plan, c);
    gale__mutex_lock(&p->lock);
    p->grown |= bytes != c->bytes;
    c->bytes = bytes;
    c->next = instance->idle;
    instance->idle = c;
    gale__mutex_unlock(&p->lock);
}

gale_status gale__run_context_seed(const gale_program *p, const gale__plan *plan, gale__run_context *c)
{
    if (!plan->seeded) return GALE_OK;
    c->seed = gale__limits_seed() ? gale__limits_seed() : gale__seed_draw();
    c->seed_mem = (gale__mem){.address = (uint64_t)(uintptr_t)&c->seed, .host = &c->seed, .size = sizeof c->seed};
    if (p->device->info.caps.in_place) return GALE_OK;
    if (!c->seed_buffer) GALE_TRY(gale_buffer_create(p->device, sizeof c->seed, &c->seed_buffer));
    return gale_upload(c->stream, c->seed_buffer, 0, &c->seed, sizeof c->seed);
}

gale__ref gale__run_context_seed_ref(const gale__run_context *c)
{
    return c->seed_buffer ? gale__buffer_ref(c->seed_buffer, 0) : (gale__ref){(gale__mem *)&c->seed_mem, 0};
}

static gale__run_memory memory_of(const gale_program *p, const gale__instance *instance, const gale__run_context *c)
{
    return (gale__run_memory){
        instance->constants, instance->weights, c->slabs, c->refs, p->graph->n_inputs, gale__run_context_seed_ref(c)};
}

/* Weights that the prologue alone reads are not needed any more. */
static void drop_weights(const gale_program *p, gale__instance *instance)
{
    const gale__plan *plan = instance->plan;
    bool *read = gale__calloc((size_t)plan->n_weights + 1, sizeof *read);
    if (read) gale__plan_weights_read(plan, false, read);
    for (int i = 0; read && i < plan->n_weights; i++)
        if (!read[i]) gale__weights_give(p->device, &instance->weights[i], 1);
    gale__free(read);
}

gale_status gale__instance_prepare(gale_program *p, gale__instance *instance)
{
    const gale__plan *plan = instance->plan;
    gale__run_context *c = NULL;
    gale_status status;
    if (!plan->const_bytes && !plan->n_weights) return GALE_OK;
    instance->weights = gale__calloc((size_t)plan->n_weights + 1, sizeof *instance->weights);
    if (!instance->weights) return GALE_NO_MEMORY;
    if (plan->const_bytes) GALE_TRY(gale_buffer_create(p->device, plan->const_bytes, &instance->constants));
    GALE_TRY(new_context(p, instance, &c));
    GALE_GO(gale__weights_take(c->stream, plan->weights, plan->n_weights, instance->weights));
    for (int i = 0; i < plan->n_constants; i++)
        if (plan->constants[i].size)
            GALE_GO(gale_upload(c->stream, instance->constants, plan->constants[i].offset, plan->constants[i].data,
                plan->constants[i].size));
    gale__run_memory memory = memory_of(p, instance, c);
    GALE_GO(gale__plan_send(plan, c->stream, &memory, true));
    GALE_GO(gale_stream_sync(c->stream));
    drop_weights(p, instance);
    c->bytes = measure(p, plan, c);
    c->next = instance->idle;
    instance->idle = c;
    return GALE_OK;
done:
    gale__run_context_destroy(plan, p->graph->n_inputs, c);
    return status;
}

typedef gale__run run;

static gale_status bind_staged(run *r, int slot, size_t size)
{
    gale_buffer **staged = &r->context->staged[slot];
    if (!*staged) GALE_TRY(gale_buffer_create(r->program->device, size, staged));
    r->context->refs[slot] = gale__buffer_ref(*staged, 0);
    return GALE_OK;
}

static gale_status bind_tensor(run *r, int slot, gale_tensor *t)
{
    gale__run_context *c = r->context;
    if (t->buffer) return c->refs[slot] = gale__buffer_ref(t->buffer, 0), GALE_OK;
    if (t->size_bytes && (!r->in_place || gale__tensor_mapped(t))) return bind_staged(r, slot, t->size_bytes);
    c->host_mems[slot] = (gale__mem){.address = (uint64_t)(uintptr_t)t->host, .host = t->host, .size = t->size_bytes};
    c->refs[slot] = (gale__ref){&c->host_mems[slot], 0};
    return GALE_OK;
}

static gale_status bind_inputs(run *r)
{
    bool packed;
    r->context->parcel.used = 0;
    for (int i = 0; i < r->program->graph->n_inputs; i++) {
        gale_tensor *t = r->inputs[i];
        if (r->program->plan_inputs[i]) continue; /* a constant of the plan */
        GALE_TRY(gale__parcel_pack(r, i, t, &packed));
        if (packed) continue;
        GALE_TRY(bind_tensor(r, i, t));
        if (t->buffer || !t->size_bytes || (r->in_place && !gale__tensor_mapped(t))) continue;
        GALE_TRY(gale__tensor_upload(t, r->context->stream, r->context->staged[i], 0));
        r->uploads++;
    }
    return gale__parcel_send(r);
}

/* Whether the caller's tensor for output i fits, and does not overlap those of the outputs before it. */
static gale_status check_output(const run *r, int i, const gale__plan_result *n)
{
    const gale_tensor *t = r->outputs[i];
    const char *const *names = r->program->graph->output_names;
    bool fits = t->type == n->type && t->rank == n->rank && (!t->device || t->device == r->program->device);
    for (int a = 0; fits && a < n->rank; a++) fits = t->dims[a] == n->dims[a];
    if (!fits)
        return gale__fail(GALE_INVALID, "the tensor given for output %s does not match its type and shape", names[i]);
    if (gale__tensor_borrowed(t) || (t->buffer && t->buffer->read_only))
        return gale__fail(GALE_INVALID, "the tensor given for output %s is in read-only memory", names[i]);
    for (int k = 0; k < i; k++)
        if (r->outputs[k] && gale__tensor_overlap(t, r->outputs[k]))
            return gale__fail(GALE_INVALID, "outputs %s and %s have the same memory", names[k], names[i]);
    return GALE_OK;
}

static bool in_place(run *r, int output, int input)
{
    gale__update *u = &r->context->updates[output];
    if (!u->known || u->input != input)
        *u = (gale__update){input, true, gale__plan_in_place(r->instance->plan, output, input)};
    return u->in_place;
}

/* A result that overwrites an input is first written to other memory if later steps may still read the input. */
static bool goes_beside(run *r, int output)
{
    const gale_tensor *t = r->outputs[output];
    for (int i = 0; i < r->program->graph->n_inputs; i++) {
        const gale_tensor *in = r->inputs[i];
        if (!gale__tensor_overlap(t, in) || r->program->plan_inputs[i]) continue;
        bool begin_alike =
            t->buffer ? t->buffer->mem->address + t->buffer->offset == in->buffer->mem->address + in->buffer->offset
                      : t->host == in->host;
        if (!begin_alike || gale__tensor_mapped(in) || !in_place(r, output, i)) return true;
    }
    return false;
}

static gale_status bind_outputs(run *r)
{
    const gale__plan *plan = r->instance->plan;
    for (int i = 0; i < plan->n_outputs; i++) {
        const gale__plan_result *n = &plan->results[i];
        int slot = r->program->graph->n_inputs + i;
        if (r->outputs[i]) {
            GALE_TRY(check_output(r, i, n));
            if (goes_beside(r, i)) GALE_TRY(bind_staged(r, slot, r->outputs[i]->size_bytes));
            else if (!gale__parcel_expect(r, i, r->outputs[i])) GALE_TRY(bind_tensor(r, slot, r->outputs[i]));
        } else {
            GALE_TRY(gale_tensor_create(
                r->on_host ? NULL : r->program->device, n->type, n->rank, n->dims, &r->context->made[i]));
            if (!gale__parcel_expect(r, i, r->context->made[i])) GALE_TRY(bind_tensor(r, slot, r->context->made[i]));
        }
    }
    return GALE_OK;
}

/* Brings the outputs that were staged where they belong. */
static gale_status fetch_outputs(run *r)
{
    for (int i = 0; i < r->instance->plan->n_outputs; i++) {
        gale_tensor *t = r->context->made[i] ? r->context->made[i] : r->outputs[i];
        int slot = r->program->graph->n_inputs + i;
        const gale_buffer *staged = r->context->staged[slot];
        gale__ref ref = r->context->refs[slot];
        if (!staged || ref.mem != staged->mem || ref.offset != staged->offset) continue;
        if (t->buffer) GALE_TRY(gale_copy(r->context->stream, t->buffer, 0, staged, 0, t->size_bytes));
        else {
            GALE_TRY(gale_download(r->context->stream, staged, 0, t->host, t->size_bytes));
            r->downloads++;
        }
    }
    return GALE_OK;
}

/* Records the addresses of the tensors; true if they are the same as the last time. */
static bool note_bindings(run *r)
{
    gale__run_context *c = r->context;
    int n = r->program->graph->n_inputs + r->instance->plan->n_outputs;
    bool same = c->seen;
    for (int i = 0; i < n; i++) {
        const gale__mem *m = c->refs[i].mem;
        gale__binding now = {m ? m->address : 0, c->refs[i].offset, m ? m->handle : NULL}, *old = &c->bound[i];
        same = same && now.address == old->address && now.offset == old->offset && now.handle == old->handle;
        *old = now;
    }
    c->seen = true;
    return same;
}

/* The steps are captured where the driver can and nothing watches each of them. */
static gale_status send(run *r)
{
    gale__run_memory memory = memory_of(r->program, r->instance, r->context);
    r->replayed = r->program->device->info.caps.capture && !r->program->options.no_capture && !r->in_place &&
                  r->instance->plan->kernels > 0 && !r->program->device->profiler;
    bool again = r->context->seen, same = note_bindings(r);
    return gale__run_send(r->instance, r->context, &memory, again, same, &r->replayed);
}

static void note_run(run *r)
{
    const gale__plan *plan = r->instance->plan;
    gale_program *p = r->program;
    uint64_t run_ns = gale__time_ns() - r->start_ns;
    atomic_store(&r->instance->run_ns, run_ns);
    gale__context_add(p->device->context, GALE__COUNT_RUNS, 1);
    gale__mutex_lock(&p->lock);
    p->last.predicted_us = plan->predicted_us;
    p->last.run_us = (double)run_ns / 1e3;
    p->last.plan_us = (double)plan->plan_ns / 1e3;
    p->last.kernels = plan->kernels;
    p->last.const_bytes = plan->const_bytes + plan->weight_bytes;
    p->last.uploads = r->uploads;
    p->last.downloads = r->downloads;
    p->last.replayed = r->replayed;
    p->last.work_bytes = 0;
    for (int i = 0; i < plan->n_slabs; i++) p->last.work_bytes += plan->slabs[i];
    gale__mutex_unlock(&p->lock);
}

gale_status gale__run_start(run *r)
{
    r->start_ns = gale__time_ns();
    r->in_place = r->program->device->info.caps.in_place;
    GALE_TRY(bind_inputs(r));
    GALE_TRY(bind_outputs(r));
    GALE_TRY(gale__run_context_seed(r->program, r->instance->plan, r->context));
    GALE_TRY(send(r));
    return fetch_outputs(r);
}

gale_status gale__run_end(run *r, gale_status status)
{
    gale_status synced = gale_stream_sync(r->context->stream);
    if (synced != GALE_OK) gale__stream_forget(r->context->stream);
    if (status == GALE_OK) status = synced;
    if (status == GALE_OK) gale__parcel_unpack(r);
    if (status == GALE_OK) note_run(r);
    return status;
}

static gale_status run_once(gale_program *p, gale_tensor *const *inputs, gale_tensor **outputs, bool on_host)
{
    run r = {.program = p, .inputs = inputs, .outputs = outputs, .on_host = on_host};
    GALE_TRY(gale__program_instance(p, inputs, &r.instance));
    gale_status status = gale__run_context_take(p, r.instance, &r.context);
    if (status == GALE_OK) {
        status = gale__run_end(&r, gale__run_start(&r));
        for (int i = 0; i < r.instance->plan->n_outputs; i++) {
            if (status == GALE_OK && r.context->made[i]) outputs[i] = r.context->made[i], r.context->made[i] = NULL;
            else gale_tensor_destroy(&r.context->made[i]);
        }
        gale__run_context_give(p, r.instance, r.context);
    }
    gale__instance_release(p, r.instance);
    return status;
}

static gale_status run_in_turn(gale_program *p, gale_tensor *const *inputs, gale_tensor **outputs, bool on_host)
{
    GALE_TRY(gale__limits_check());
    GALE_TRY(gale__index_check(p->source, p->index_rules, p->n_index_rules, inputs));
    gale__turn turn = {0};
    gale_status status;
    do {
        GALE_TRY(gale__turn_begin(p->device, &turn));
        status = run_once(p, inputs, outputs, on_host);
    } while (gale__turn_again(p, &turn, &status));
    return status;
}

/* What both ways to run ask of their arguments. */
#define NEED_RUN(p, inputs, outputs)                  \
    GALE__NEED({"program", p}, {"outputs", outputs}); \
    GALE__NEED({"inputs", !(p)->graph->n_inputs || (inputs)})

gale_status gale_program_run_with(
    gale_program *p, gale_tensor *const *inputs, gale_tensor **outputs, const gale_run_control *control)
{
    static const gale_run_control none;
    const gale_run_control *o = control ? control : &none;
    NEED_RUN(p, inputs, outputs);
    GALE__CONTROL(control);
    GALE__WITHIN(p->device->context);
    gale__limits limits = {.threads = p->options.threads}, own = gale__run_limits(o);
    gale__limits_enter(&limits);
    gale__limits_enter(&own);
    gale_status status = run_in_turn(p, inputs, outputs, o->outputs_on_host);
    gale__limits_leave(&own);
    gale__limits_leave(&limits);
    return status;
}

gale_status gale_program_run(gale_program *p, gale_tensor *const *inputs, gale_tensor **outputs, gale_flags flags)
{
    NEED_RUN(p, inputs, outputs);
    GALE__FLAGS(flags, GALE_RUN_ON_HOST);
    gale_run_control control = {.outputs_on_host = flags & GALE_RUN_ON_HOST};
    return gale_program_run_with(p, inputs, outputs, &control);
}
