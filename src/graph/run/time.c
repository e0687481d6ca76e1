/* Timing for benchmarks: events around every run, the median of many. */
#include "graph/run/time.h"
#include "base/num.h"
#include "base/thread.h"
#include "graph/run/run.h"
#include <stdlib.h>
#include <string.h>

#define WARM_NS 200000000
enum { FEW = 3, ROW = 40 };

typedef struct clock_pair {
    gale_event *from, *to;
} clock_pair;

static gale_status time_one(
    gale_stream *stream, const clock_pair *c, gale_status (*send)(void *), void *arg, double *us)
{
    GALE_TRY(gale_event_record(c->from, stream));
    GALE_TRY(send(arg));
    GALE_TRY(gale_event_record(c->to, stream));
    GALE_TRY(gale_stream_sync(stream));
    return gale_event_elapsed(c->from, c->to, us);
}

uint64_t gale__warm_ns(const gale_device *device)
{
    return device->info.caps.software || device->info.caps.in_place ? 0 : WARM_NS;
}

static gale_status warm_up(gale_device *device, gale_stream *stream, const clock_pair *c, uint64_t enough_ns,
    gale_status (*send)(void *), void *arg)
{
    uint64_t begin = gale__time_ns(), end = begin + gale__warm_ns(device), passed = 0;
    double us;
    for (int i = 0; (i < FEW && passed < enough_ns) || gale__time_ns() < end; i++) {
        GALE_TRY(time_one(stream, c, send, arg, &us));
        passed = gale__time_ns() - begin;
    }
    return GALE_OK;
}

/* enough_ns: then a few runs will do. */
static gale_status time_many(gale_device *device, gale_stream *stream, int repeats, uint64_t enough_ns,
    gale_status (*send)(void *), void *arg, double *median, double *least)
{
    clock_pair c = {0};
    double *us = gale__calloc((size_t)repeats + 1, sizeof *us);
    gale_status status = us ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale_event_create(device, &c.from);
    if (status == GALE_OK) status = gale_event_create(device, &c.to);
    if (status == GALE_OK) status = warm_up(device, stream, &c, enough_ns, send, arg);
    uint64_t begin = gale__time_ns();
    int n = 0;
    while (status == GALE_OK && n < repeats && (n < FEW || gale__time_ns() - begin < enough_ns))
        status = time_one(stream, &c, send, arg, &us[n++]);
    repeats = n;
    if (status == GALE_OK) {
        qsort(us, (size_t)repeats, sizeof *us, gale__by_value);
        *median = us[repeats / 2];
        *least = us[0];
    }
    gale_event_destroy(&c.from);
    gale_event_destroy(&c.to);
    gale__free(us);
    return status;
}

typedef struct sender {
    gale__instance *instance;
    gale__run_context *context;
    gale__ref *bound;
    int n_inputs;
    gale_capture *capture;
} sender;

static gale_status send_plan(void *arg)
{
    sender *s = arg;
    if (s->capture) return gale_capture_replay(s->context->stream, s->capture);
    gale__run_memory memory = {s->instance->constants, s->instance->weights, s->context->slabs, s->bound, s->n_inputs,
        gale__run_context_seed_ref(s->context)};
    return gale__plan_send(s->instance->plan, s->context->stream, &memory, false);
}

static gale_status capture_plan(sender *s, int repeats)
{
    gale_capture *capture = NULL;
    gale_capture_destroy(&s->capture);
    GALE_TRY(send_plan(s)); /* once plainly, so that everything is loaded */
    GALE_TRY(gale_capture_begin(s->context->stream));
    gale_status status = GALE_OK;
    for (int i = 0; i < repeats && status == GALE_OK; i++) status = send_plan(s);
    gale_status ended = gale_capture_end(s->context->stream, &capture);
    s->capture = capture;
    return status != GALE_OK ? status : ended;
}

static gale_status send_row(void *arg)
{
    sender *s = arg;
    for (int i = 0; i < (s->capture ? 1 : ROW); i++) GALE_TRY(send_plan(arg));
    return GALE_OK;
}

/* All of them are one capture, since a run begins while the one before ends in captures only. */
static gale_status time_row(gale_device *device, sender *s, uint64_t enough_ns, double *us)
{
    double least;
    if (s->capture) GALE_TRY(capture_plan(s, ROW));
    GALE_TRY(time_many(device, s->context->stream, 5, enough_ns, send_row, s, us, &least));
    *us /= ROW;
    return GALE_OK;
}

gale_status gale__program_time(
    gale_program *p, gale_tensor *const *inputs, int repeats, uint64_t enough_ns, gale__timing *out)
{
    sender s = {.n_inputs = p->graph->n_inputs};
    gale_buffer **made = NULL;
    gale_status status;
    GALE_TRY(gale__program_instance(p, inputs, &s.instance));
    const gale__plan *plan = s.instance->plan;
    GALE_GO(gale__run_context_take(p, s.instance, &s.context));
    made = gale__calloc((size_t)plan->n_outputs + 1, sizeof *made);
    s.bound = gale__calloc((size_t)(s.n_inputs + plan->n_outputs) + 1, sizeof *s.bound);
    if (!made || !s.bound) {
        status = GALE_NO_MEMORY;
        goto done;
    }
    for (int i = 0; i < s.n_inputs; i++)
        if (inputs[i]->buffer) s.bound[i] = gale__buffer_ref(inputs[i]->buffer, 0);
    for (int i = 0; i < plan->n_outputs; i++) {
        size_t size = plan->results[i].size_bytes;
        GALE_GO(gale_buffer_create(p->device, size ? size : 1, &made[i]));
        s.bound[s.n_inputs + i] = gale__buffer_ref(made[i], 0);
    }
    GALE_GO(gale__run_context_seed(p, plan, s.context));
    if (p->device->info.caps.capture && !p->device->info.caps.in_place) GALE_GO(capture_plan(&s, 1));
    GALE_GO(
        time_many(p->device, s.context->stream, repeats, enough_ns, send_plan, &s, &out->median_us, &out->least_us));
    out->replayed = s.capture != NULL;
    if (!p->device->info.caps.in_place) GALE_GO(time_row(p->device, &s, enough_ns, &out->row_us));
    out->bytes = plan->bytes;
    out->operations = plan->operations;
    out->kernels = plan->kernels;
    out->predicted_us = plan->predicted_us;
done:
    gale_capture_destroy(&s.capture);
    for (int i = 0; made && i < plan->n_outputs; i++) gale_buffer_destroy(&made[i]);
    gale__free(made);
    gale__free(s.bound);
    if (s.context) gale__run_context_give(p, s.instance, s.context);
    gale__instance_release(p, s.instance);
    return status;
}

typedef struct copier {
    gale_stream *stream;
    gale_buffer *to, *from;
    size_t size;
} copier;

static gale_status send_copy(void *arg)
{
    copier *c = arg;
    return gale_copy(c->stream, c->to, 0, c->from, 0, c->size);
}

gale_status gale__copy_time(gale_device *device, size_t size, int repeats, double *median_us)
{
    copier c = {.size = size};
    gale_status status;
    double least;
    uint32_t pattern = 0x3f8ccccd;
    GALE_TRY(gale_stream_create(device, &c.stream));
    GALE_GO(gale_buffer_create(device, size, &c.to));
    GALE_GO(gale_buffer_create(device, size, &c.from));
    GALE_GO(gale_fill(c.stream, c.from, 0, size, &pattern, sizeof pattern));
    status = time_many(device, c.stream, repeats, UINT64_MAX, send_copy, &c, median_us, &least);
done:
    gale_buffer_destroy(&c.to);
    gale_buffer_destroy(&c.from);
    gale_stream_destroy(&c.stream);
    return status;
}
