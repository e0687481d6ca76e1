/* Collection of the profiler: a pair of events around each launch and transfer, read when the profiler stops or when
 * many are outstanding.  What cannot be recorded is counted as lost and never disturbs the work. */
#include "device/profiler.h"
#include "base/hash.h"
#include <stdatomic.h>
#include <string.h>

#define OUTSTANDING_MAX 1024 /* drivers keep a slot for every event that is not read yet */

const char *gale__profiler_span_kind_name(gale__profiler_span_kind kind)
{
    static const char *const names[GALE__SPAN_COUNT] = {
        "kernel", "upload", "download", "copy", "fill", "replay", "range"};
    return names[kind];
}

static const char *intern(gale_profiler *p, const char *text)
{
    uint64_t hash = gale__hash(text, strlen(text), 0);
    gale__hash_table_probe probe = gale__hash_table_look(hash);
    for (int64_t i; (i = gale__hash_table_next(&p->interned, &probe)) >= 0;)
        if (!strcmp(p->texts[i], text)) return p->texts[i];
    const char *copy = gale__arena_strdup(&p->arena, text);
    if (!copy || gale__grow((void **)&p->texts, &p->texts_capacity, p->n_texts + 1, sizeof *p->texts) != GALE_OK ||
        gale__hash_table_add(&p->interned, hash, (uint32_t)p->n_texts) != GALE_OK)
        return NULL;
    p->texts[p->n_texts++] = copy;
    return copy;
}

static gale_event *take_event(gale_profiler *p)
{
    gale_event *event = NULL;
    if (p->n_spare) return p->spare[--p->n_spare];
    gale_event_create(p->device, &event);
    return event;
}

static void give_event(gale_profiler *p, gale_event **event)
{
    if (*event && gale__grow((void **)&p->spare, &p->spare_capacity, p->n_spare + 1, sizeof *p->spare) == GALE_OK)
        p->spare[p->n_spare++] = *event;
    else gale_event_destroy(event);
    *event = NULL;
}

static void read_times(gale_profiler *p, gale__profiler_record *r)
{
    if (gale_event_elapsed(r->from, r->to, &r->time_us) != GALE_OK) r->time_us = -1;
    if (gale_event_elapsed(p->base, r->from, &r->start_us) != GALE_OK) r->start_us = 0;
    give_event(p, &r->from);
    give_event(p, &r->to);
}

/* Reads the events of all records that have ended. */
static void read_ended(gale_profiler *p)
{
    bool gap = false;
    for (size_t i = p->settled; i < p->count; i++) {
        gale__profiler_record *r = &p->records[i];
        if (r->ended && r->from) read_times(p, r);
        gap |= !r->ended;
        if (!gap) p->settled = i + 1;
    }
}

static int find_lane(gale_profiler *p, const gale_stream *stream)
{
    for (int i = 0; i < p->n_lanes; i++)
        if (p->lanes[i] == stream) return i;
    if (p->n_lanes == GALE__PROFILER_LANES_MAX) return GALE__PROFILER_LANES_MAX - 1;
    p->lanes[p->n_lanes] = stream;
    return p->n_lanes++;
}

static gale_status add_record(
    gale_profiler *p, gale_stream *stream, gale__profiler_span_kind kind, const gale__tag *tag, size_t *out)
{
    if (p->count - p->settled >= OUTSTANDING_MAX) read_ended(p);
    GALE_TRY(gale__grow((void **)&p->records, &p->capacity, p->count + 1, sizeof *p->records));
    gale__profiler_record r = {.kind = kind, .bytes = tag->bytes, .operations = tag->operations};
    r.time_us = r.occupancy = -1;
    r.name = intern(p, tag->name);
    r.op = intern(p, tag->op);
    r.nodes = intern(p, tag->nodes ? tag->nodes : "");
    if (!r.name || !r.op || !r.nodes) return GALE_NO_MEMORY;
    r.lane = find_lane(p, stream);
    r.from = take_event(p);
    r.to = r.from ? take_event(p) : NULL;
    if (!r.to || gale_event_record(r.from, stream) != GALE_OK) {
        give_event(p, &r.from);
        give_event(p, &r.to);
        return GALE_INTERNAL;
    }
    *out = p->count;
    p->records[p->count++] = r;
    return GALE_OK;
}

gale__profiler_span gale__profiler_span_begin(gale_stream *stream, gale__profiler_span_kind kind, const gale__tag *tag)
{
    gale_profiler *p = GALE__PROFILER(stream->device);
    gale__profiler_span span = {0};
    if (!p || stream->capturing) return span; /* captures contain no events; their replay is timed instead */
    gale__mutex_lock(&p->lock);
    if (add_record(p, stream, kind, tag, &span.record) == GALE_OK) span.profiler = p;
    else p->lost++;
    gale__mutex_unlock(&p->lock);
    return span;
}

void gale__profiler_span_occupancy(gale__profiler_span span, double occupancy)
{
    gale__mutex_lock(&span.profiler->lock);
    span.profiler->records[span.record].occupancy = occupancy;
    gale__mutex_unlock(&span.profiler->lock);
}

void gale__profiler_span_end(gale_stream *stream, gale__profiler_span span)
{
    gale_profiler *p = span.profiler;
    gale__mutex_lock(&p->lock);
    gale__profiler_record *r = &p->records[span.record];
    if (r->to && !r->ended) {
        if (gale_event_record(r->to, stream) != GALE_OK) {
            give_event(p, &r->from);
            give_event(p, &r->to);
            p->lost++;
        }
        r->ended = true;
    }
    gale__mutex_unlock(&p->lock);
}

gale_status gale_profiler_range_begin(gale_stream *stream, const char *name, double bytes, uint64_t *range)
{
    GALE__NEED({"stream", stream}, {"name", name}, {"range", range});
    *range = 0;
    if (!GALE__PROFILER(stream->device)) return GALE_OK;
    gale__tag tag = {.name = name, .op = "", .bytes = bytes};
    gale__profiler_span span = gale__profiler_span_begin(stream, GALE__SPAN_RANGE, &tag);
    if (span.profiler) *range = span.record + 1;
    return GALE_OK;
}

gale_status gale_profiler_range_end(gale_stream *stream, uint64_t range)
{
    GALE__NEED({"stream", stream});
    gale_profiler *p = GALE__PROFILER(stream->device);
    if (!p || !range) return GALE_OK;
    if (range > p->count || p->records[range - 1].kind != GALE__SPAN_RANGE)
        return gale__fail(GALE_INVALID, "profiler: range %llu was not started", (unsigned long long)range);
    gale__profiler_span_end(stream, (gale__profiler_span){p, range - 1});
    return GALE_OK;
}

static gale_status begin(gale_profiler *p)
{
    GALE_TRY(gale_stream_create(p->device, &p->stream));
    GALE_TRY(gale_event_create(p->device, &p->base));
    GALE_TRY(gale_event_record(p->base, p->stream));
    GALE_TRY(gale_event_wait(p->base));
    gale_profiler *none = NULL;
    if (atomic_compare_exchange_strong(&p->device->profiler, &none, p)) return GALE_OK;
    return gale__fail(GALE_INVALID, "%s:%d is already being profiled; stop that profiler first",
        p->device->info.backend, p->device->info.index);
}

gale_status gale_profiler_start(gale_device *device, gale_profiler **out)
{
    GALE__NEED({"device", device}, {"out", out});
    GALE__WITHIN(device->context);
    gale_profiler *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    gale__mutex_init(&p->lock);
    p->device = gale__device_attach(device);
    gale_status status = begin(p);
    if (status == GALE_OK) *out = p;
    else gale_profiler_destroy(&p);
    return status;
}

gale_status gale_profiler_stop(gale_profiler *p)
{
    GALE__NEED({"profiler", p});
    GALE__WITHIN(p->device->context);
    gale_profiler *self = p;
    if (!atomic_compare_exchange_strong(&p->device->profiler, &self, NULL))
        return gale__fail(GALE_INVALID, "the profiler has already been stopped");
    gale__mutex_lock(&p->lock);
    read_ended(p);
    if (p->lost) gale__log(GALE__WARN, "the profiler lost %llu records: out of memory", (unsigned long long)p->lost);
    gale__mutex_unlock(&p->lock);
    return GALE_OK;
}

void gale_profiler_destroy(gale_profiler **profiler)
{
    if (!profiler || !*profiler) return;
    gale_profiler *p = *profiler, *self = p;
    *profiler = NULL;
    atomic_compare_exchange_strong(&p->device->profiler, &self, NULL);
    for (size_t i = 0; i < p->count; i++) {
        gale_event_destroy(&p->records[i].from);
        gale_event_destroy(&p->records[i].to);
    }
    for (size_t i = 0; i < p->n_spare; i++) gale_event_destroy(&p->spare[i]);
    gale_event_destroy(&p->base);
    gale_stream_destroy(&p->stream);
    gale__free(p->records);
    gale__free(p->spare);
    gale__hash_table_finish(&p->interned);
    gale__free(p->texts);
    gale__arena_finish(&p->arena);
    gale__mutex_finish(&p->lock);
    gale__device_detach(p->device);
    gale__free(p);
}
