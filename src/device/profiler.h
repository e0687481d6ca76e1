/* Internals of the profiler: profiler.c collects, profile_text.c writes. */
#ifndef GALE_DEVICE_PROFILER_H
#define GALE_DEVICE_PROFILER_H
#include "base/hash_table.h"
#include "device/front.h"
#include "gale/profile.h"

typedef struct gale__profiler_record {
    gale__profiler_span_kind kind;
    const char *name, *op, *nodes; /* interned: equal texts are equal pointers */
    double bytes, operations;
    double occupancy;         /* of a kernel; < 0: not known */
    double start_us, time_us; /* since the profiler started; time_us < 0: not known */
    gale_event *from, *to;    /* until the times are taken */
    bool ended;
    int lane; /* which stream, counted in order of appearance */
} gale__profiler_record;

#define GALE__PROFILER_LANES_MAX 64
struct gale_profiler {
    gale_device *device;
    gale_stream *stream; /* for the event that is time zero */
    gale_event *base;
    gale__mutex lock;
    gale__profiler_record *records;
    size_t count, capacity;
    size_t settled;     /* records before this one have their times */
    gale_event **spare; /* for reuse */
    size_t n_spare, spare_capacity;
    const char **texts; /* the interned ones */
    size_t n_texts, texts_capacity;
    gale__hash_table interned; /* texts by hash */
    gale__arena arena;
    const gale_stream *lanes[GALE__PROFILER_LANES_MAX];
    int n_lanes;
    uint64_t lost; /* not recorded, because memory or events ran out */
};
const char *gale__profiler_span_kind_name(gale__profiler_span_kind kind);
#endif
