/* Staging: two halves of pinned memory per stream, filled in turn.  Small uploads are appended to the current half
 * without waiting; a half is reused once its event has passed.  Downloads arrive here too and are copied to the
 * caller's memory when the stream is synchronised, an event after them is waited for, or their half is needed again.
 * A stream that was synchronised lends its halves to the device's other streams: pinning memory takes milliseconds, and
 * a program with many plans has many streams, of which few run at a time. */
#include "device/front.h"
#include <stdatomic.h>
#include <string.h>

/* Halves of 8 MiB serve most streams; one that moves much gets larger ones, over which the cost of waking the host's
 * threads and of starting a transfer is spread (H200, 256 MiB up: 15 GB/s in pieces of 2 MiB, 25 of 8, 42 of 16). */
#define SMALL_BYTES ((size_t)8 << 20)
#define LARGE_BYTES ((size_t)16 << 20)
#define LARGE_FROM_BYTES ((size_t)32 << 20)
#define ALIGN_BYTES 64u
#define SLICE_BYTES ((size_t)256 << 10)

typedef struct half {
    gale__mem mem;
    gale_event event;
    size_t used;
    bool made, waiting; /* waiting: the event was recorded after its last use */
} half;
/* Halves that no stream needs at the moment. */
enum { SPARE_MOST = 16 };
typedef struct gale__staging_spare {
    gale__mutex lock;
    half halves[SPARE_MOST];
    int count;
} spare;
typedef struct landing {
    void *host;
    const void *staged;
    size_t size;
    int half;
    uint64_t number;
} landing;
typedef struct gale__staging {
    gale_device *device;
    half halves[2];
    int current;
    bool large;
    gale__mutex lock; /* protects the pending downloads: another thread may wait for an event */
    landing *landings;
    size_t count, capacity;
    uint64_t number; /* of the latest download */
    _Atomic int refs;
} staging;

typedef struct slices {
    char *to;
    const char *from;
    size_t size;
} slices;

static void copy_slice(void *arg, size_t i, int worker)
{
    (void)worker;
    const slices *s = arg;
    size_t at = i * SLICE_BYTES, n = s->size - at < SLICE_BYTES ? s->size - at : SLICE_BYTES;
    memcpy(s->to + at, s->from + at, n);
}

void gale__copy_bytes(void *to, const void *from, size_t size)
{
    if (size < 4 * SLICE_BYTES) {
        if (size) memcpy(to, from, size);
        return;
    }
    slices s = {to, from, size};
    gale__parallel((size + SLICE_BYTES - 1) / SLICE_BYTES, copy_slice, &s);
}

gale_status gale__staging_create(gale_device *device, staging **out)
{
    staging *s = gale__calloc(1, sizeof *s);
    if (!s) return GALE_NO_MEMORY;
    s->device = device;
    s->refs = 1;
    gale__mutex_init(&s->lock);
    *out = s;
    return GALE_OK;
}

staging *gale__staging_hold(staging *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void gale__staging_drop(staging **sp)
{
    staging *s = *sp;
    *sp = NULL;
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
    gale__mutex_finish(&s->lock);
    gale__free(s->landings);
    gale__free(s);
}

static void free_half(gale_device *device, half *h)
{
    device->backend->event_destroy(&h->event);
    device->backend->free(device, &h->mem);
    h->made = false;
}

void gale__staging_close(staging *s)
{
    for (int i = 0; i < 2; i++)
        if (s->halves[i].made) free_half(s->device, &s->halves[i]);
}

/* --- Halves between streams. --- */

gale_status gale__staging_spare_create(gale_device *device)
{
    spare *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    gale__mutex_init(&p->lock);
    device->spare = p;
    return GALE_OK;
}

void gale__staging_spare_destroy(gale_device *device)
{
    spare *p = device->spare;
    if (!p) return;
    while (p->count) free_half(device, &p->halves[--p->count]);
    gale__mutex_finish(&p->lock);
    gale__free(p);
    device->spare = NULL;
}

static gale_status new_half(gale_device *device, size_t size, half *h)
{
    const gale__backend *b = device->backend;
    GALE_TRY(b->alloc(device, GALE__MEM_HOST, size, &h->mem));
    h->event = (gale_event){.device = device};
    gale_status status = b->event_create(device, &h->event);
    if (status != GALE_OK) b->free(device, &h->mem);
    h->made = status == GALE_OK;
    return status;
}

void gale__staging_prepare(gale_device *device, int halves)
{
    spare *p = device->spare;
    for (int i = 0; i < halves; i++) {
        half h = {0};
        if (new_half(device, SMALL_BYTES, &h) != GALE_OK) {
            gale__error_clear(); /* the error will be reported when the memory is needed */
            return;
        }
        gale__mutex_lock(&p->lock);
        bool room = p->count < SPARE_MOST;
        if (room) p->halves[p->count++] = h;
        gale__mutex_unlock(&p->lock);
        if (!room) free_half(device, &h);
    }
}

/* A stream that needs large halves makes them rather than take small ones. */
static bool take_spare(const staging *s, half *out)
{
    spare *p = s->device->spare;
    bool found = false;
    gale__mutex_lock(&p->lock);
    for (int i = p->count - 1; i >= 0 && !found; i--) {
        if (s->large && p->halves[i].mem.size < LARGE_BYTES) continue;
        *out = p->halves[i];
        p->halves[i] = p->halves[--p->count];
        found = true;
    }
    gale__mutex_unlock(&p->lock);
    return found;
}

static void give_spare(staging *s, half *h)
{
    spare *p = s->device->spare;
    gale__mutex_lock(&p->lock);
    if (p->count < SPARE_MOST) {
        p->halves[p->count++] = *h;
        h->made = false;
    }
    gale__mutex_unlock(&p->lock);
}

/* Copies to the caller the downloads up to `mark` that `half` (-1: either) holds; the others keep their order. */
static void land(staging *s, int which, uint64_t mark)
{
    gale__mutex_lock(&s->lock);
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        const landing *l = &s->landings[i];
        if (l->number <= mark && (which < 0 || l->half == which)) gale__copy_bytes(l->host, l->staged, l->size);
        else s->landings[kept++] = *l;
    }
    s->count = kept;
    gale__mutex_unlock(&s->lock);
}

uint64_t gale__staging_mark(staging *s)
{
    gale__mutex_lock(&s->lock);
    uint64_t mark = s->number;
    gale__mutex_unlock(&s->lock);
    return mark;
}

void gale__staging_complete(staging *s, uint64_t mark) { land(s, -1, mark); }

void gale__staging_reset(staging *s)
{
    land(s, -1, UINT64_MAX);
    for (int i = 0; i < 2; i++) {
        half *h = &s->halves[i];
        h->used = 0;
        h->waiting = false;
        if (h->made) give_spare(s, h);
    }
}

static gale_status make_half(staging *s, half *h)
{
    const gale__backend *b = s->device->backend;
    if (gale__device_alloc_faulty())
        return gale__fail(GALE_NO_MEMORY, "%s: out of pinned memory (injected failure)", b->name);
    if (take_spare(s, h)) return GALE_OK;
    gale_status status = s->large ? new_half(s->device, LARGE_BYTES, h) : GALE_NO_MEMORY;
    return status == GALE_NO_MEMORY ? new_half(s->device, SMALL_BYTES, h) : status;
}

/* Closes the current half with an event and waits for the other to be free. */
static gale_status switch_halves(gale_stream *stream, staging *s)
{
    const gale__backend *b = s->device->backend;
    half *full = &s->halves[s->current], *next = &s->halves[!s->current];
    if (!next->made) GALE_TRY(make_half(s, next));
    GALE_TRY(b->event_record(&full->event, stream));
    full->waiting = true;
    if (next->waiting) {
        GALE_TRY(b->event_wait(&next->event));
        land(s, !s->current, UINT64_MAX);
        next->waiting = false;
    }
    next->used = 0;
    s->current = !s->current;
    return GALE_OK;
}

/* The first large transfer of a stream trades its halves for larger ones. */
static gale_status fit(gale_stream *stream, size_t size)
{
    staging *s = stream->staging;
    if (s->large || size < LARGE_FROM_BYTES) return GALE_OK;
    GALE_TRY(gale_stream_sync(stream));
    gale__staging_close(s);
    s->large = true;
    return GALE_OK;
}

/* Room for some of `need` bytes: *at in the current half, *size of it. */
static gale_status reserve(gale_stream *stream, size_t need, half **out, size_t *at, size_t *size)
{
    staging *s = stream->staging;
    half *h = &s->halves[s->current];
    if (!h->made) GALE_TRY(make_half(s, h));
    if (h->used + (need < h->mem.size ? need : h->mem.size) > h->mem.size) GALE_TRY(switch_halves(stream, s));
    h = &s->halves[s->current];
    *at = h->used;
    *size = need < h->mem.size ? need : h->mem.size;
    *out = h;
    h->used += (*size + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    return GALE_OK;
}

/* What a profiler sees is the transfer alone, and not that it had to wait for the copy to pinned memory. */
static gale_status send_piece(gale_stream *stream, gale__ref to, gale__ref from, size_t size, const gale__tag *tag)
{
    gale__profiler_span span = {0};
    gale__tag piece = *tag;
    piece.bytes = (double)size;
    if (GALE__PROFILER(stream->device)) span = gale__profiler_span_begin(stream, GALE__SPAN_UPLOAD, &piece);
    gale_status status = stream->device->backend->upload(stream, to, from, size);
    if (span.profiler) gale__profiler_span_end(stream, span);
    return status;
}

gale_status gale__staging_upload(gale_stream *stream, gale__ref to, const void *host, size_t size, const gale__tag *tag)
{
    GALE_TRY(fit(stream, size));
    for (size_t done = 0, n; done < size; done += n) {
        half *h;
        size_t at;
        GALE_TRY(reserve(stream, size - done, &h, &at, &n));
        gale__copy_bytes((char *)h->mem.host + at, (const char *)host + done, n);
        gale__ref target = {to.mem, to.offset + done};
        GALE_TRY(send_piece(stream, target, (gale__ref){&h->mem, at}, n, tag));
    }
    return GALE_OK;
}

static gale_status add_landing(staging *s, landing l)
{
    gale__mutex_lock(&s->lock);
    gale_status status = gale__grow((void **)&s->landings, &s->capacity, s->count + 1, sizeof *s->landings);
    if (status == GALE_OK) {
        l.number = ++s->number;
        s->landings[s->count++] = l;
    }
    gale__mutex_unlock(&s->lock);
    return status;
}

/* A download that failed half way must not write to memory that the caller may have freed. */
static void cancel(staging *s, uint64_t mark)
{
    gale__mutex_lock(&s->lock);
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->landings[i].number <= mark) s->landings[kept++] = s->landings[i];
    s->count = kept;
    gale__mutex_unlock(&s->lock);
}

void gale__staging_forget(staging *s) { cancel(s, 0); }

gale_status gale__staging_download(gale_stream *stream, gale__ref from, void *host, size_t size)
{
    staging *s = stream->staging;
    GALE_TRY(fit(stream, size));
    uint64_t mark = gale__staging_mark(s);
    gale_status status = GALE_OK;
    for (size_t done = 0, n; done < size && status == GALE_OK; done += n) {
        half *h;
        size_t at;
        n = 0;
        status = reserve(stream, size - done, &h, &at, &n);
        if (status != GALE_OK) break;
        gale__ref source = {from.mem, from.offset + done};
        status = stream->device->backend->download(stream, source, (gale__ref){&h->mem, at}, n);
        landing l = {(char *)host + done, (const char *)h->mem.host + at, n, s->current, 0};
        if (status == GALE_OK) status = add_landing(s, l);
    }
    if (status != GALE_OK) cancel(s, mark);
    return status;
}
