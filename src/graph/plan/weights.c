/* The store of weights of each device.  A weight is uploaded by the first user, while others wait for it, and is
 * released with the last plan that reads it. */
#include "graph/plan/weights.h"
#include "base/hash.h"
#include "graph/fuse/layout.h"

enum { BUCKETS = 1024 };
#define LAST UINT64_MAX /* key of what is stored channels-last */
typedef struct store {
    gale__mutex lock;
    gale__weight *buckets[BUCKETS];
} store;

static void finish_store(void *state)
{
    store *s = state;
    gale__mutex_finish(&s->lock);
    gale__free(s);
}

static store *store_of(gale_device *device)
{
    gale__mutex_lock(&device->lock);
    store *s = device->graph_state;
    if (!s && (s = gale__calloc(1, sizeof *s))) {
        gale__mutex_init(&s->lock);
        device->graph_state = s;
        device->graph_state_finish = finish_store;
    }
    gale__mutex_unlock(&device->lock);
    return s;
}

static gale__weight **bucket_of(store *s, const gale_tensor *t)
{
    return &s->buckets[gale__hash(&t->host, sizeof t->host, t->size_bytes) % BUCKETS];
}

/* Called with the lock held: adds what is no longer used to the list. */
static void drop(store *s, gale__weight *w, gale__weight **gone)
{
    if (--w->refs) return;
    gale__weight **at = bucket_of(s, w->tensor);
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    w->next = *gone;
    *gone = w;
}

/* Called without the lock: notifies the owner of borrowed memory, whose callback may do anything. */
static void free_weights(gale__weight *gone)
{
    for (gale__weight *next; gone; gone = next) {
        next = gone->next;
        gale_buffer_destroy(&gone->buffer);
        gale_tensor_destroy(&gone->tensor);
        gale__free(gone);
    }
}

static bool readable_in_place(const gale__weight *w, const gale_stream *stream)
{
    return stream->device->info.caps.in_place && !gale__tensor_mapped(w->tensor) &&
           (uintptr_t)w->tensor->host % 64 == 0;
}

static void *host_of(const gale_buffer *b) { return (char *)(uintptr_t)b->mem->address + b->offset; }

/* Packs panels from the tensor itself or, if it cannot be read in place, from a temporary copy. */
static gale_status fill_panels(gale__weight *w, gale_stream *stream, const gale__panels *panels)
{
    gale_buffer *plain = NULL;
    gale_status status;
    GALE_GO(gale_buffer_create(stream->device, panels->bytes, &w->buffer));
    if (!readable_in_place(w, stream)) {
        GALE_GO(gale_buffer_create(stream->device, w->tensor->size_bytes, &plain));
        GALE_GO(gale__tensor_upload(w->tensor, stream, plain, 0));
        GALE_GO(gale_stream_sync(stream));
    }
    gale__panels_make(panels, plain ? host_of(plain) : w->tensor->host, host_of(w->buffer));
    w->ref = gale__buffer_ref(w->buffer, 0);
done:
    gale_buffer_destroy(&plain);
    return status;
}

static gale_status fill_channels_last(gale__weight *w, gale_stream *stream, bool *uploaded)
{
    const gale_tensor *t = w->tensor;
    char *declared = gale__alloc(t->size_bytes), *channels_last = gale__alloc(t->size_bytes);
    gale_status status = declared && channels_last ? GALE_OK : GALE_NO_MEMORY;
    if (status != GALE_OK) goto done;
    GALE_GO(gale__tensor_read(t, 0, t->size_bytes, declared));
    gale__layout_to_last(t->dims, t->rank, gale_type_size(t->type), declared, channels_last);
    GALE_GO(gale_buffer_create(stream->device, t->size_bytes, &w->buffer));
    w->ref = gale__buffer_ref(w->buffer, 0);
    *uploaded = true;
    status = gale_upload(stream, w->buffer, 0, channels_last, t->size_bytes);
done:
    gale__free(declared);
    gale__free(channels_last);
    return status;
}

/* The device reads the tensor in place if it can; otherwise it gets a copy in device memory. */
static gale_status fill(gale__weight *w, gale_stream *stream, bool *uploaded)
{
    const gale_tensor *t = w->tensor;
    if (readable_in_place(w, stream)) {
        w->mem = (gale__mem){.address = (uint64_t)(uintptr_t)t->host, .host = t->host, .size = t->size_bytes};
        w->ref = (gale__ref){&w->mem, 0};
        return GALE_OK;
    }
    GALE_TRY(gale_buffer_create(stream->device, t->size_bytes, &w->buffer));
    w->ref = gale__buffer_ref(w->buffer, 0);
    *uploaded = true;
    return gale__tensor_upload(t, stream, w->buffer, 0);
}

static gale_status find_or_create(
    store *s, gale_stream *stream, const gale__weight_wanted *wanted, bool *uploaded, gale__weight **out)
{
    const gale_tensor *t = wanted->tensor;
    if (!t) return *out = NULL, GALE_OK;
    gale__weight **bucket = bucket_of(s, t);
    uint64_t key = wanted->last ? LAST : wanted->panels.key;
    for (gale__weight *w = *bucket; w; w = w->next)
        if (w->tensor->host == t->host && w->tensor->size_bytes == t->size_bytes && w->key == key)
            return w->refs++, *out = w, GALE_OK;
    gale__weight *w = gale__calloc(1, sizeof *w);
    if (!w) return GALE_NO_MEMORY;
    gale_status status = gale_tensor_reshape((gale_tensor *)t, t->rank, t->dims, &w->tensor);
    w->key = key;
    if (status == GALE_OK && key == LAST) status = fill_channels_last(w, stream, uploaded);
    else if (status == GALE_OK) status = key ? fill_panels(w, stream, &wanted->panels) : fill(w, stream, uploaded);
    if (status != GALE_OK) {
        if (*uploaded) gale_stream_sync(stream); /* part of it may be on its way */
        return free_weights(w), status;          /* the caller's tensor still exists: no notification */
    }
    w->refs = 1;
    w->next = *bucket;
    *bucket = w;
    *out = w;
    return GALE_OK;
}

gale_status gale__weights_take(gale_stream *stream, const gale__weight_wanted *wanted, int n, gale__weight **out)
{
    store *s = n ? store_of(stream->device) : NULL;
    if (!s) return n ? GALE_NO_MEMORY : GALE_OK;
    gale__weight *gone = NULL;
    bool uploaded = false;
    int made = 0;
    gale__mutex_lock(&s->lock);
    gale_status status = GALE_OK;
    while (made < n && status == GALE_OK) {
        status = find_or_create(s, stream, &wanted[made], &uploaded, &out[made]);
        made += status == GALE_OK;
    }
    if (uploaded) {
        gale_status synced = gale_stream_sync(stream);
        if (status == GALE_OK) status = synced;
    }
    while (status != GALE_OK && made > 0) {
        if (out[--made]) drop(s, out[made], &gone);
        out[made] = NULL;
    }
    gale__mutex_unlock(&s->lock);
    free_weights(gone);
    return status;
}

void gale__weights_give(gale_device *device, gale__weight **weights, int n)
{
    store *s = n ? store_of(device) : NULL;
    gale__weight *gone = NULL;
    if (!s) return;
    gale__mutex_lock(&s->lock);
    for (int i = 0; i < n; i++) {
        if (weights[i]) drop(s, weights[i], &gone);
        weights[i] = NULL;
    }
    gale__mutex_unlock(&s->lock);
    free_weights(gone);
}
