/* Sends steps to a stream, one by one or as captures. A run that its caller may stop is sent a few steps at a time: the
 * host stays at most two batches ahead of the device and checks flag and deadline in between. Captures are split into
 * pieces of similar duration for this, so short runs keep one. */
#include "base/limits.h"
#include "graph/run/run.h"
#include <stdatomic.h>
#include <string.h>

enum { LOT_MOST = 256, PIECES_MOST = 64 };
#define LOT_NS 2000000u

static gale__ref resolve(gale__plan_place place, const gale__run_memory *m)
{
    gale__ref ref;
    switch (place.space) {
    case GALE__SPACE_WORK: return gale__buffer_ref(m->slabs[place.index], place.offset);
    case GALE__SPACE_CONST: return gale__buffer_ref(m->constants, place.offset);
    case GALE__SPACE_WEIGHT: ref = m->weights[place.index]->ref; break;
    case GALE__SPACE_INPUT: ref = m->bound[place.index]; break;
    case GALE__SPACE_SEED: ref = m->seed; break;
    default: ref = m->bound[m->n_inputs + place.index]; break;
    }
    ref.offset += place.offset;
    return ref;
}

static bool same_place(gale__ref a, gale__ref b)
{
    return a.offset == b.offset && a.mem && b.mem && a.mem->address == b.mem->address && a.mem->handle == b.mem->handle;
}

static gale__launch launch_of(const gale__plan_step *s, const gale__ref *refs)
{
    gale__launch launch = {.n_refs = s->n_refs,
        .refs = refs,
        .n_words = s->n_words,
        .words = s->words,
        .n_maps = s->n_maps,
        .maps = s->maps,
        .tag = &s->tag};
    memcpy(launch.groups, s->groups, sizeof launch.groups);
    return launch;
}

static gale_status send_step(const gale__plan_step *s, gale_stream *stream, const gale__run_memory *memory)
{
    gale__ref refs[GALE__NEST_BUFFERS_MAX];
    for (int k = 0; k < s->n_refs; k++) refs[k] = resolve(s->refs[k], memory);
    if (s->kind == GALE__STEP_COPY && same_place(refs[0], refs[1])) return GALE_OK; /* updated in place */
    if (s->kind == GALE__STEP_COPY) return gale__copy_refs(stream, refs[0], refs[1], s->size, &s->tag);
    if (s->kind == GALE__STEP_CALL) return gale__call_run(stream, s->call, refs, s->n_refs, &s->tag);
    gale__launch launch = launch_of(s, refs);
    gale_status status = gale__launch_run(stream, s->kernel, &launch);
    return status == GALE_OK ? GALE_OK : gale__fail_within(status, "%s", s->tag.op);
}

/* Limits how far the host runs ahead of the device.  Steps are sent in batches (lots). */
typedef struct pace {
    gale_stream *stream;
    gale_event **marks; /* events after the two latest lots; NULL: the run cannot be stopped */
    bool queued;        /* the device works asynchronously */
    int sent, lot;      /* steps sent in the current lot; size of a lot */
    int lots;
    uint64_t since_ns;
} pace;

static gale_status init_pace(pace *p, gale__run_context *c, const gale_device *device)
{
    *p = (pace){.stream = c->stream, .lot = 1};
    if (!gale__limits_stoppable()) return GALE_OK;
    p->marks = c->marks;
    p->queued = !device->info.caps.in_place;
    p->since_ns = gale__time_ns();
    for (int i = 0; i < 2 && p->queued; i++)
        if (!c->marks[i]) GALE_TRY(gale_event_create((gale_device *)device, &c->marks[i]));
    return GALE_OK;
}

/* Ends a lot: waits for the previous one and adapts the size, so that a lot takes about LOT_NS. */
static gale_status end_lot(pace *p)
{
    GALE_TRY(gale_event_record(p->marks[p->lots % 2], p->stream));
    p->sent = 0;
    if (p->lots++ == 0) return GALE_OK;
    GALE_TRY(gale_event_wait(p->marks[p->lots % 2]));
    uint64_t now = gale__time_ns(), took = now - p->since_ns;
    p->since_ns = now;
    if (took < LOT_NS / 2 && p->lot < LOT_MOST) p->lot *= 2;
    if (took > LOT_NS && p->lot > 1) p->lot /= 2;
    return GALE_OK;
}

/* Before a step, or a piece of a capture. */
static gale_status keep_pace(pace *p)
{
    if (!p->marks) return GALE_OK;
    if (p->queued && p->sent++ >= p->lot) GALE_TRY(end_lot(p));
    return gale__limits_check();
}

static gale_status send_range(
    const gale__plan *plan, int first, int end, bool prologue, const gale__run_memory *memory, pace *p)
{
    for (int i = first; i < end; i++) {
        if (plan->steps[i].once != prologue) continue;
        GALE_TRY(keep_pace(p));
        GALE_TRY(send_step(&plan->steps[i], p->stream, memory));
    }
    return GALE_OK;
}

/* On devices that run steps synchronously, kernels may stop in the middle. */
static gale_status send_droppable(const gale__plan *plan, const gale__run_memory *memory, pace *p)
{
    _Atomic int stopped = 0;
    gale__limits limits = {.stopped = &stopped};
    gale__limits_enter(&limits);
    gale_status status = send_range(plan, 0, plan->n_steps, false, memory, p);
    if (status == GALE_OK && atomic_load(&stopped)) status = gale__limits_check();
    gale__limits_leave(&limits);
    return status;
}

gale_status gale__plan_send(const gale__plan *plan, gale_stream *stream, const gale__run_memory *memory, bool prologue)
{
    return send_range(plan, 0, plan->n_steps, prologue, memory, &(pace){.stream = stream});
}

void gale__run_captures_drop(gale__run_context *c)
{
    for (int i = 0; i < c->n_captures; i++) gale_capture_destroy(&c->captures[i]);
    gale__free(c->captures);
    gale__free(c->launched);
    c->captures = NULL;
    c->launched = NULL;
    c->n_captures = 0;
}

/* The first step of piece i of n. */
static int piece_start(const gale__plan *plan, int i, int n) { return (int)((int64_t)plan->n_steps * i / n); }

/* Whether a step reads or writes a tensor of the caller. */
static bool is_bound(const gale__plan_step *s)
{
    for (int k = 0; k < s->n_refs; k++)
        if (s->refs[k].space == GALE__SPACE_INPUT || s->refs[k].space == GALE__SPACE_OUTPUT) return true;
    return false;
}

static gale_status capture_piece(gale__run_context *c, const gale__plan *plan, const gale__run_memory *m, int n)
{
    int first = piece_start(plan, c->n_captures, n), end = piece_start(plan, c->n_captures + 1, n);
    gale_status status = GALE_OK;
    GALE_TRY(gale_capture_begin(c->stream));
    for (int i = first; i < end && status == GALE_OK; i++) {
        if (plan->steps[i].once) continue;
        status = send_step(&plan->steps[i], c->stream, m);
        bool launch = plan->steps[i].kind == GALE__STEP_LAUNCH;
        if (launch && is_bound(&plan->steps[i])) c->launched[i] = gale__capture_last(c->stream);
    }
    gale_status ended = gale_capture_end(c->stream, &c->captures[c->n_captures]);
    c->n_captures += ended == GALE_OK;
    return status != GALE_OK ? status : ended;
}

/* Splits the steps into captures of about LOT_NS each, by the duration of the latest run. */
static gale_status capture(gale__run_context *c, const gale__plan *plan, const gale__run_memory *m, uint64_t run_ns)
{
    int most = plan->n_steps < PIECES_MOST ? plan->n_steps : PIECES_MOST;
    int n = run_ns / LOT_NS < 2 ? 1 : run_ns / LOT_NS > (uint64_t)most ? most : (int)(run_ns / LOT_NS);
    c->captures = gale__calloc((size_t)n, sizeof *c->captures);
    c->launched = gale__calloc((size_t)plan->n_steps, sizeof *c->launched);
    gale_status status = c->captures && c->launched ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; i < n && status == GALE_OK; i++) status = capture_piece(c, plan, m, n);
    if (status != GALE_OK) gale__run_captures_drop(c);
    return status;
}

/* Whether captures can be updated for other tensors: every step that touches one must be a launch. */
static bool can_rebind(const gale__plan *plan)
{
    for (int i = 0; i < plan->n_steps; i++)
        if (!plan->steps[i].once && plan->steps[i].kind != GALE__STEP_LAUNCH && is_bound(&plan->steps[i])) return false;
    return gale__captures_change(plan->device);
}

/* Updates the captures for other tensors; false if that is not possible. */
static bool rebind(gale__run_context *c, const gale__plan *plan, const gale__run_memory *memory)
{
    for (int piece = 0, i = 0; piece < c->n_captures; piece++)
        for (; i < piece_start(plan, piece + 1, c->n_captures); i++) {
            const gale__plan_step *s = &plan->steps[i];
            gale__ref refs[GALE__NEST_BUFFERS_MAX];
            if (s->once || !is_bound(s)) continue;
            if (!c->launched[i]) return false;
            for (int k = 0; k < s->n_refs; k++) refs[k] = resolve(s->refs[k], memory);
            gale__launch launch = launch_of(s, refs);
            if (gale__capture_change(c->captures[piece], c->launched[i], s->kernel, &launch) != GALE_OK) return false;
        }
    return true;
}

gale_status gale__run_send(gale__instance *instance, gale__run_context *c, const gale__run_memory *memory, bool again,
    bool same, bool *replayed)
{
    const gale__plan *plan = instance->plan;
    pace p;
    GALE_TRY(init_pace(&p, c, plan->device));
    if (!same && c->captures && !(*replayed && rebind(c, plan, memory))) {
        gale__run_captures_drop(c);
        c->fixed = true;
    }
    if (*replayed && !c->captures && (same || (again && !c->fixed && can_rebind(plan))))
        GALE_TRY(capture(c, plan, memory, atomic_load(&instance->run_ns)));
    *replayed = *replayed && c->captures;
    if (!*replayed && p.marks && !p.queued) return send_droppable(plan, memory, &p);
    if (!*replayed) return send_range(plan, 0, plan->n_steps, false, memory, &p);
    for (int i = 0; i < c->n_captures; i++) {
        GALE_TRY(keep_pace(&p));
        GALE_TRY(gale_capture_replay(c->stream, c->captures[i]));
    }
    return GALE_OK;
}
