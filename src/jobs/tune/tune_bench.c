/* Candidates are compiled together, checked against the usual schedule's results, then timed in turns, so that a clock
 * that rises or another user of the device meets all of them alike.  Rows of launches are captured where the device
 * can, since a launch may take longer than the kernel. */
#include "jobs/tune/tune_bench.h"
#include "base/num.h"
#include "base/thread.h"
#include "graph/run/time.h"
#include "kernel/kernels.h"
#include "kernel/schedule/schedule_emit.h"
#include <stdlib.h>
#include <string.h>

enum { TURNS = 7, ROW_MOST = 40, ALIGNMENT = 256, BLOCK = 1 << 20, COMPARED = 16 << 20 };
#define ROW_US 400.0
#define HOPELESS 3.0
#define MARGIN 0.98

typedef struct candidate {
    const gale__schedule_want *want;
    gale__runnable run;
    gale_capture *row;
    double us[TURNS];
    bool ready;
} candidate;
typedef struct trial {
    gale__tune_bench *bench;
    const gale__nest *nest;
    gale__arena arena;
    size_t at[GALE__NEST_BUFFERS_MAX], size[GALE__NEST_BUFFERS_MAX]; /* in the pool or among the results */
    int weight, places, n, row;                                      /* places: that the weight takes in turn */
    gale__schedule schedules[GALE__TUNE_CANDIDATES];
    candidate list[GALE__TUNE_CANDIDATES];
    char *expected, *found; /* results */
    size_t compared;
} trial;

int gale__tune_weight(const gale__nest *nest)
{
    gale__contraction c;
    int access = gale__nest_contraction(nest, &c) ? gale__schedule_matrix_access(nest, c.b) : -1;
    return access < 0 ? -1 : nest->accesses[access].buffer;
}

gale_status gale__tune_bench_init(gale__tune_bench *b)
{
    GALE_TRY(gale_stream_create(b->device, &b->stream));
    GALE_TRY(gale_event_create(b->device, &b->from));
    return gale_event_create(b->device, &b->to);
}

void gale__tune_bench_finish(gale__tune_bench *b)
{
    gale_buffer_destroy(&b->pool);
    gale_buffer_destroy(&b->results);
    gale_event_destroy(&b->from);
    gale_event_destroy(&b->to);
    gale_stream_destroy(&b->stream);
}

/* Numbers of either sign that are finite and of moderate size as f16, bf16, f32 and bytes. */
static gale_status fill_pool(gale__tune_bench *b)
{
    uint16_t *block = gale__alloc(BLOCK);
    uint32_t state = 1;
    gale_status status = block ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; block && i < BLOCK / 2; i++) {
        state = state * 1664525u + 1013904223u;
        block[i] = (uint16_t)(0x3800 | (state >> 16 & 0x83ff));
    }
    for (size_t at = 0; at < b->pool_bytes && status == GALE_OK; at += BLOCK)
        status = gale_upload(b->stream, b->pool, at, block, b->pool_bytes - at < BLOCK ? b->pool_bytes - at : BLOCK);
    gale__free(block);
    return status;
}

static gale_status reserve(gale__tune_bench *b, gale_buffer **buffer, size_t *have, size_t size)
{
    if (size <= *have) return GALE_OK;
    gale_buffer_destroy(buffer);
    *have = 0;
    GALE_TRY(gale_buffer_create(b->device, size, buffer));
    *have = size;
    return buffer == &b->pool ? fill_pool(b) : GALE_OK;
}

/* Places for all buffers; the weight has the end of the pool to itself. */
static gale_status place(trial *t)
{
    gale__tune_bench *b = t->bench;
    size_t read = 0, written = 0, most = b->device->info.caps.software ? 0 : (size_t)128 << 20;
    t->weight = gale__tune_weight(t->nest);
    for (int i = 0; i < t->nest->n_buffers; i++) {
        const gale__nest_buffer *x = &t->nest->buffers[i];
        size_t *end = x->written ? &written : &read;
        t->size[i] = ((size_t)x->elements * gale_type_size(x->type) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (i == t->weight && x->written) t->weight = -1;
        if (i == t->weight) continue;
        t->at[i] = *end;
        *end += t->size[i];
    }
    if (b->weight_bytes < most) most = b->weight_bytes;
    if (t->weight >= 0) {
        t->at[t->weight] = read;
        t->places = t->size[t->weight] < most ? (int)(most / t->size[t->weight]) : 1;
        read += (size_t)t->places * t->size[t->weight];
    }
    t->compared = written < COMPARED ? written : COMPARED;
    GALE_TRY(reserve(b, &b->pool, &b->pool_bytes, read));
    return reserve(b, &b->results, &b->results_bytes, written);
}

/* Not tried: tiles that would mostly be empty; ordinary threads, unless matrix units are hardly used; and what is only
 * meant for fewer or for more tiles than there are. */
static bool worth_a_try(
    const gale__contraction *c, const gale__schedule *usual, const gale__schedule_want *want, int64_t units)
{
    int64_t m = usual->swap ? c->n : c->m, n = usual->swap ? c->m : c->n;
    bool halves = usual->kind == GALE__SCHEDULE_MATRIX && usual->narrow != GALE_F32;
    if (want->how == GALE__HOW_LOOPS) return m <= 16 || n <= 16 || c->m * c->n <= 4096;
    if (want->how < GALE__HOW_MATRIX) {
        if (halves) return false;
    } else if (want->how < GALE__HOW_GROUPS) {
        if (usual->groups && gale__schedule_tiles(c, usual, 128, 128) >= units) return false;
    } else if (want->how == GALE__HOW_DEEP) {
        if (gale__schedule_tiles(c, usual, want->m, want->n) > 2 * units) return false;
    } else if (want->how >= GALE__HOW_RELAY && gale__schedule_tiles(c, usual, want->m, want->n) <= units) return false;
    return (want->m <= 32 || want->m < 2 * m) && (want->n <= 32 || want->n < 2 * n);
}

/* The usual one is first, by a name of its own if it has one. */
static gale_status list_candidates(trial *t)
{
    const gale_device_caps *caps = &t->bench->device->info.caps;
    gale__contraction c;
    GALE_TRY(gale__schedule_choose(t->nest, caps, &t->schedules[0]));
    t->list[t->n++].want = gale__schedule_want_at(0);
    gale__nest_contraction(t->nest, &c);
    const gale__schedule_want *want;
    for (int i = 1; (want = gale__schedule_want_at(i)) && t->n < GALE__TUNE_CANDIDATES; i++) {
        gale__schedule *s = &t->schedules[t->n];
        int same = 0;
        if (!gale__schedule_choose_as(t->nest, caps, want, s)) continue;
        while (same < t->n && memcmp(s, &t->schedules[same], sizeof *s)) same++;
        if (same == 0 && t->list[0].want == gale__schedule_want_at(0)) t->list[0].want = want;
        if (same == t->n && worth_a_try(&c, &t->schedules[0], want, caps->compute_units)) t->list[t->n++].want = want;
    }
    return GALE_OK;
}

/* All at once, on all cores; then those that were built are found one by one. */
static gale_status build(trial *t)
{
    const gale__nest *nests[GALE__TUNE_CANDIDATES];
    gale__runnable all[GALE__TUNE_CANDIDATES];
    for (int i = 0; i < t->n; i++) nests[i] = t->nest;
    gale__kernel_wants as = {.as = t->schedules};
    gale_status status = gale__runnables_make(t->bench->device, &t->arena, nests, NULL, t->n, &as, all);
    for (int i = 0; i < t->n && status != GALE_NO_MEMORY; i++) {
        candidate *c = &t->list[i];
        as.as = &t->schedules[i];
        status = gale__runnables_make(t->bench->device, &t->arena, nests, NULL, 1, &as, &c->run);
        c->ready = status == GALE_OK;
        if (i == 0) GALE_TRY(status);
    }
    return status == GALE_NO_MEMORY ? status : GALE_OK;
}

static gale_status send(const trial *t, const candidate *c, int turn)
{
    const gale__tune_bench *b = t->bench;
    gale__ref refs[GALE__NEST_BUFFERS_MAX];
    for (int i = 0; i < t->nest->n_buffers; i++) {
        size_t at = t->at[i] + (i == t->weight ? (size_t)(turn % t->places) * t->size[i] : 0);
        refs[i] = gale__buffer_ref(t->nest->buffers[i].written ? b->results : b->pool, at);
    }
    gale__launch launch = {.n_refs = t->nest->n_buffers,
        .refs = refs,
        .n_words = c->run.n_words,
        .words = c->run.words,
        .n_maps = c->run.n_maps,
        .maps = c->run.maps};
    memcpy(launch.groups, c->run.groups, sizeof launch.groups);
    return gale__launch_run(b->stream, c->run.kernel, &launch);
}

static gale_status time_row(const trial *t, const candidate *c, int row, double *us)
{
    gale_stream *stream = t->bench->stream;
    GALE_TRY(gale_event_record(t->bench->from, stream));
    if (c->row) GALE_TRY(gale_capture_replay(stream, c->row));
    for (int i = 0; i < row && !c->row; i++) GALE_TRY(send(t, c, i));
    GALE_TRY(gale_event_record(t->bench->to, stream));
    GALE_TRY(gale_stream_sync(stream));
    GALE_TRY(gale_event_elapsed(t->bench->from, t->bench->to, us));
    *us /= row;
    return GALE_OK;
}

static gale_status capture_row(const trial *t, candidate *c)
{
    gale_status status = GALE_OK;
    if (!t->bench->device->info.caps.capture) return GALE_OK;
    GALE_TRY(gale_capture_begin(t->bench->stream));
    for (int i = 0; i < t->row && status == GALE_OK; i++) status = send(t, c, i);
    gale_status ended = gale_capture_end(t->bench->stream, &c->row);
    return status == GALE_OK ? ended : status;
}

/* Relative L2 error that the summation order may cause (docs/numerics.md), with one rounding of the result. */
static double tolerance(gale_type type)
{
    return type == GALE_F32 || type == GALE_F64 ? 1e-5 : type == GALE_BF16 ? 1e-2 : 1e-3;
}

static bool agrees(const trial *t)
{
    for (int i = 0; i < t->nest->n_buffers; i++) {
        const gale__nest_buffer *x = &t->nest->buffers[i];
        size_t at = t->at[i], size = gale_type_size(x->type), most = at < t->compared ? (t->compared - at) / size : 0;
        size_t n = (size_t)x->elements < most ? (size_t)x->elements : most;
        double largest;
        if (!x->written) continue;
        if (gale__relative_difference(x->type, t->found + at, t->expected + at, n, &largest) > tolerance(x->type))
            return false;
    }
    return true;
}

/* One run, its results and about how long it takes. */
static gale_status try_one(trial *t, candidate *c, char *results, double *us)
{
    gale_stream *stream = t->bench->stream;
    uint32_t zero = 0;
    GALE_TRY(gale_fill(stream, t->bench->results, 0, t->compared, &zero, sizeof zero));
    GALE_TRY(send(t, c, 0));
    GALE_TRY(gale_download(stream, t->bench->results, 0, results, t->compared));
    return time_row(t, c, 1, us);
}

static gale_status warm_up(trial *t)
{
    uint64_t end = gale__time_ns() + gale__warm_ns(t->bench->device);
    for (double us; gale__time_ns() < end;) GALE_TRY(time_row(t, &t->list[0], 8, &us));
    return GALE_OK;
}

/* Leaves the ready ones with right results that are not far slower than the usual one. */
static gale_status weed(trial *t, gale__tune_choice *out)
{
    double usual, us;
    t->expected = gale__arena_alloc(&t->arena, t->compared);
    t->found = gale__arena_alloc(&t->arena, t->compared);
    if (!t->expected || !t->found) return GALE_NO_MEMORY;
    GALE_TRY(warm_up(t));
    GALE_TRY(try_one(t, &t->list[0], t->expected, &usual));
    GALE_TRY(time_row(t, &t->list[0], 1, &usual));
    for (int i = 1; i < t->n; i++) {
        candidate *c = &t->list[i];
        c->ready = c->ready && try_one(t, c, t->found, &us) == GALE_OK;
        bool right = !c->ready || agrees(t);
        out->wrong += !right;
        c->ready = c->ready && right && us <= HOPELESS * usual + 10;
    }
    t->row = usual > ROW_US ? 1 : usual > 0 ? (int)(ROW_US / usual) : ROW_MOST;
    if (t->row > ROW_MOST) t->row = ROW_MOST;
    return GALE_OK;
}

static gale_status compare(trial *t, gale__tune_choice *out)
{
    for (int i = 0; i < t->n; i++)
        if (t->list[i].ready) GALE_TRY(capture_row(t, &t->list[i]));
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < t->n; i++)
            if (t->list[i].ready) GALE_TRY(time_row(t, &t->list[i], t->row, &t->list[i].us[turn]));
    for (int i = 0; i < t->n; i++) {
        candidate *c = &t->list[i];
        if (!c->ready) continue;
        qsort(c->us, TURNS, sizeof *c->us, gale__by_value);
        double us = c->us[TURNS / 2];
        if (out->n && us < MARGIN * out->us[0] && us < out->us[out->best]) out->best = out->n;
        out->wants[out->n] = c->want;
        out->us[out->n++] = us;
    }
    return GALE_OK;
}

gale_status gale__tune_bench_run(gale__tune_bench *b, const gale__nest *nest, gale__tune_choice *out)
{
    trial *t = gale__calloc(1, sizeof *t);
    gale_status status = t ? GALE_OK : GALE_NO_MEMORY;
    if (!t) return status;
    t->bench = b;
    t->nest = nest;
    gale__tune_choice choice = {0};
    GALE_GO(list_candidates(t));
    GALE_GO(place(t));
    GALE_GO(build(t));
    GALE_GO(weed(t, &choice));
    GALE_GO(compare(t, &choice));
    *out = choice;
done:
    for (int i = 0; i < t->n; i++) gale_capture_destroy(&t->list[i].row);
    gale__arena_finish(&t->arena);
    gale__free(t);
    return status;
}
