/* Buffers: reference-counted pieces of the pool, and the hook with which tests make the n-th device allocation fail.
 * */
#include "device/front.h"
#include <stdatomic.h>

static _Atomic uint64_t fault_at, fault_last, fault_count; /* those from fault_at to fault_last fail */

static void fail_between(uint64_t first, uint64_t last)
{
    atomic_store(&fault_last, 0);
    atomic_store(&fault_count, 0);
    atomic_store(&fault_at, first);
    atomic_store(&fault_last, last);
}

void gale__device_alloc_fail_at(uint64_t n) { fail_between(n, n); }
void gale__device_alloc_fail_from(uint64_t n) { fail_between(n, n ? UINT64_MAX : 0); }

uint64_t gale__device_alloc_count(void) { return atomic_load(&fault_count); }

bool gale__device_alloc_faulty(void)
{
    uint64_t n = atomic_fetch_add(&fault_count, 1) + 1;
    return n <= atomic_load(&fault_last) && n >= atomic_load(&fault_at);
}

gale_status gale_buffer_create(gale_device *device, size_t size_bytes, gale_buffer **out)
{
    GALE__NEED({"device", device}, {"out", out});
    GALE__WITHIN(device->context);
    if (gale__device_alloc_faulty())
        return gale__fail(GALE_NO_MEMORY, "%s out of memory: %zu bytes requested (injected failure)",
            gale__backend_label(device->backend), size_bytes);
    gale_buffer *b = gale__calloc(1, sizeof *b);
    if (!b) return GALE_NO_MEMORY;
    size_t guard = device->watch ? GALE__BUFFER_WATCH_BYTES : 0, whole = size_bytes + 2 * guard;
    gale_status status = gale__pool_take(device->pool, whole < size_bytes ? size_bytes : whole, &b->piece);
    if (status != GALE_OK) {
        gale__free(b);
        return status;
    }
    b->mem = gale__pool_piece_mem(b->piece, &b->offset);
    b->offset += guard;
    b->size = size_bytes;
    b->refs = 1;
    b->device = gale__device_attach(device);
    *out = b;
    if (guard) status = gale__buffer_watch_fill(b);
    if (status != GALE_OK) gale_buffer_destroy(out);
    return status;
}

bool gale__buffer_export(const gale_buffer *b, int *type, void **data, uint64_t *offset)
{
    const gale__backend *backend = b->device->backend;
    if (!backend->dlpack_type) return false;
    *type = backend->dlpack_type;
    *data = backend->dlpack_handle ? b->mem->handle : (void *)(uintptr_t)b->mem->address;
    *offset = b->offset;
    return true;
}

gale_status gale__buffer_import(gale_device *device, const gale__foreign *from, gale_buffer **out)
{
    const gale__backend *backend = device->backend;
    if (!backend->dlpack_type || backend->dlpack_type != from->type)
        return gale__fail(GALE_UNSUPPORTED, "%s does not use memory of DLPack's device type %d",
            gale__backend_label(backend), from->type);
    gale_buffer *b = gale__calloc(1, sizeof *b);
    if (!b) return GALE_NO_MEMORY;
    b->foreign = (gale__mem){.address = backend->dlpack_handle ? 0 : (uint64_t)(uintptr_t)from->data,
        .handle = backend->dlpack_handle ? from->data : NULL,
        .size = (size_t)from->offset + from->size};
    b->mem = &b->foreign;
    b->offset = (size_t)from->offset;
    b->size = from->size;
    b->read_only = from->read_only;
    b->release = from->release;
    b->owner = from->owner;
    b->refs = 1;
    b->device = gale__device_attach(device);
    *out = b;
    return GALE_OK;
}

static void give_foreign(gale_buffer *b)
{
    gale_device *device = b->device;
    if (b->release) b->release(b->owner);
    gale__free(b);
    gale__device_detach(device);
}

gale_buffer *gale__buffer_hold(gale_buffer *buffer)
{
    atomic_fetch_add(&buffer->refs, 1);
    return buffer;
}

void gale_buffer_destroy(gale_buffer **buffer)
{
    if (!buffer || !*buffer) return;
    gale_buffer *b = *buffer;
    *buffer = NULL;
    if (atomic_fetch_sub(&b->refs, 1) != 1) return;
    GALE__WITHIN(b->device->context);
    if (!b->piece) return give_foreign(b);
    if (b->device->watch) gale__buffer_watch_check(b), gale__buffer_watch_fill(b);
    gale__pool_give(b->device->pool, b->piece);
    gale__device_detach(b->device);
    gale__free(b);
}

size_t gale_buffer_size(const gale_buffer *buffer)
{
    if (!buffer) return gale__lack(__func__, "buffer"), 0;
    return buffer->size;
}

gale__ref gale__buffer_ref(const gale_buffer *buffer, size_t offset)
{
    return (gale__ref){buffer->mem, buffer->offset + offset};
}
