/* Tensors: creation, transfer between host and devices, and reshaping.  Storage is reference-counted, so a reshaped
 * tensor keeps the shared memory alive. */
#include "graph/run/tensor.h"
#include "graph/run/run.h"
#include "base/num.h"
#include "device/front.h"
#include <stdatomic.h>
#include <string.h>

gale_status gale__shape_size(gale_type type, int rank, const int64_t *dims, int64_t *elements, size_t *bytes)
{
    size_t count = 1, total;
    if (rank < 0 || rank > GALE_MAX_RANK)
        return gale__fail(GALE_INVALID, "rank %d is outside 0 .. %d", rank, GALE_MAX_RANK);
    if ((unsigned)type >= GALE_TYPE_COUNT) return gale__fail(GALE_INVALID, "%d is not an element type", (int)type);
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) return gale__fail(GALE_INVALID, "extent %lld of axis %d is negative", (long long)dims[i], i);
        if (gale__mul_size(count, (size_t)dims[i], &count))
            return gale__fail(GALE_LIMIT, "a tensor of rank %d has too many elements", rank);
    }
    if (gale__mul_size(count, type == GALE_STRING ? sizeof(gale__string) : gale_type_size(type), &total) ||
        total > SIZE_MAX / 2)
        return gale__fail(GALE_LIMIT, "a tensor of %zu elements is too large", count);
    *elements = (int64_t)count;
    *bytes = total;
    return GALE_OK;
}

/* A tensor without memory. */
static gale_status new_tensor(gale_type type, int rank, const int64_t *dims, gale_tensor **out)
{
    int64_t elements;
    size_t bytes;
    GALE_TRY(gale__shape_size(type, rank, dims, &elements, &bytes));
    gale_tensor *t = gale__calloc(1, sizeof *t);
    if (!t) return GALE_NO_MEMORY;
    t->type = type;
    t->rank = rank;
    if (rank) memcpy(t->dims, dims, (size_t)rank * sizeof *dims);
    t->size_bytes = bytes;
    *out = t;
    return GALE_OK;
}

static gale_status new_storage(gale_tensor *t)
{
    t->storage = gale__calloc(1, sizeof *t->storage);
    if (!t->storage) return GALE_NO_MEMORY;
    atomic_init(&t->storage->refs, 1);
    return GALE_OK;
}

static gale_status give_storage(gale_tensor *t, size_t size)
{
    GALE_TRY(new_storage(t));
    t->host = gale__alloc_aligned(64, size ? size : 1);
    return t->host ? GALE_OK : GALE_NO_MEMORY;
}

gale_status gale_tensor_create(gale_device *device, gale_type type, int rank, const int64_t *dims, gale_tensor **out)
{
    GALE__NEED({"dims", rank < 1 || dims}, {"out", out});
    gale_tensor *t = NULL;
    gale_status status = GALE_OK;
    if (type == GALE_STRING)
        return gale__fail(
            GALE_UNSUPPORTED, "a string tensor must be created on the host, with gale_tensor_from_strings");
    GALE_TRY(new_tensor(type, rank, dims, &t));
    if (!device) status = give_storage(t, t->size_bytes);
    else {
        t->device = gale__device_hold(device);
        if (t->size_bytes) status = gale_buffer_create(device, t->size_bytes, &t->buffer);
        if (status == GALE_NO_MEMORY && gale__device_memory_left(device) < t->size_bytes &&
            gale__turns_shed(device, NULL))
            status = gale_buffer_create(device, t->size_bytes, &t->buffer);
    }
    if (status != GALE_OK) return gale_tensor_destroy(&t), status;
    *out = t;
    return GALE_OK;
}

void gale_tensor_destroy(gale_tensor **tensor)
{
    if (!tensor || !*tensor) return;
    gale_tensor *t = *tensor;
    *tensor = NULL;
    gale_buffer_destroy(&t->buffer);
    if (t->storage && atomic_fetch_sub(&t->storage->refs, 1) == 1) {
        if (!t->storage->borrowed && !t->storage->outside) gale__free(t->host);
        if (t->storage->release) t->storage->release(t->storage->owner);
        gale__free(t->storage);
    }
    gale_device_close(&t->device);
    gale__free(t);
}

/* One transfer on a separate stream, complete on return. */
static gale_status transfer(gale_device *device, gale_buffer *buffer, void *to_host, const void *from_host, size_t size)
{
    gale_stream *stream = NULL;
    GALE_TRY(gale_stream_create(device, &stream));
    gale_status status =
        from_host ? gale_upload(stream, buffer, 0, from_host, size) : gale_download(stream, buffer, 0, to_host, size);
    gale_status synced = gale_stream_sync(stream);
    if (synced != GALE_OK) gale__stream_forget(stream);
    gale_stream_destroy(&stream);
    return status != GALE_OK ? status : synced;
}

gale_status gale_tensor_from_cpu(
    gale_device *device, gale_type type, int rank, const int64_t *dims, const void *data, gale_tensor **out)
{
    GALE__NEED({"dims", rank < 1 || dims}, {"out", out});
    gale_tensor *t = NULL;
    GALE_TRY(gale_tensor_create(device, type, rank, dims, &t));
    gale_status status = data || !t->size_bytes ? GALE_OK : gale__lack(__func__, "data");
    if (status != GALE_OK) return gale_tensor_destroy(&t), status;
    if (t->size_bytes && !device) memcpy(t->host, data, t->size_bytes);
    else if (t->size_bytes) status = transfer(device, t->buffer, NULL, data, t->size_bytes);
    if (status != GALE_OK) return gale_tensor_destroy(&t), status;
    *out = t;
    return GALE_OK;
}

gale_status gale_tensor_to_cpu(const gale_tensor *t, void *data, size_t size_bytes)
{
    GALE__NEED({"tensor", t}, {"data", !size_bytes || data});
    if (t->type == GALE_STRING)
        return gale__fail(GALE_UNSUPPORTED, "strings must be read one by one, with gale_tensor_string");
    if (size_bytes < t->size_bytes)
        return gale__fail(
            GALE_INVALID, "the tensor has %zu bytes, but the destination only %zu", t->size_bytes, size_bytes);
    if (!t->size_bytes) return GALE_OK;
    if (t->host) return gale__tensor_read(t, 0, t->size_bytes, data);
    return transfer(t->device, t->buffer, data, NULL, t->size_bytes);
}

/* --- Memory of somebody else. --- */

gale_status gale__tensor_borrow(gale_type type, int rank, const int64_t *dims, const void *data,
    void (*release)(void *), void *owner, gale_tensor **out)
{
    gale_tensor *t = NULL;
    if (type == GALE_STRING)
        return gale__fail(GALE_UNSUPPORTED, "string tensors must be created with gale_tensor_from_strings");
    GALE_TRY(new_tensor(type, rank, dims, &t));
    gale_status status = new_storage(t);
    if (status != GALE_OK) return gale_tensor_destroy(&t), status;
    t->host = (void *)data; /* never written: it is borrowed */
    t->storage->borrowed = true;
    t->storage->release = release;
    t->storage->owner = owner;
    *out = t;
    return GALE_OK;
}

gale_status gale__tensor_borrow_map(gale_type type, int rank, const int64_t *dims, const gale__file_map *map,
    uint64_t offset, void (*release)(void *), void *owner, gale_tensor **out)
{
    int64_t elements;
    size_t bytes;
    gale_tensor *t = NULL;
    GALE_TRY(gale__shape_size(type, rank, dims, &elements, &bytes));
    if (offset > map->size || bytes > map->size - offset)
        return gale__fail(GALE_INVALID, "%s: a tensor of %zu bytes at offset %llu exceeds the file's %zu bytes",
            map->path, bytes, (unsigned long long)offset, map->size);
    GALE_TRY(gale__tensor_borrow(type, rank, dims, (const char *)map->data + offset, release, owner, &t));
    t->storage->map = map;
    t->storage->offset = offset;
    *out = t;
    return GALE_OK;
}

gale_status gale_tensor_wrap(gale_type type, int rank, const int64_t *dims, void *data, gale_flags flags,
    void (*release)(void *owner), void *owner, gale_tensor **out)
{
    gale_tensor *t = NULL;
    GALE__NEED({"dims", rank < 1 || dims}, {"out", out});
    GALE__FLAGS(flags, GALE_TENSOR_READ_ONLY);
    if ((unsigned)type >= GALE_TYPE_COUNT)
        return gale__fail(GALE_INVALID, "gale_tensor_wrap: unknown element type %d", (int)type);
    size_t align = type == GALE_STRING ? 0 : gale_type_size(type);
    if (align && (uintptr_t)data % (align > 8 ? 8 : align))
        return gale__fail(
            GALE_INVALID, "the memory of a tensor of %s is not aligned to its elements", gale_type_name(type));
    GALE_TRY(gale__tensor_borrow(type, rank, dims, data, release, owner, &t));
    if (t->size_bytes && !data) {
        t->storage->release = NULL;
        gale_tensor_destroy(&t);
        return gale__fail(GALE_INVALID, "no memory is given for the tensor");
    }
    t->storage->borrowed = flags & GALE_TENSOR_READ_ONLY;
    t->storage->outside = true;
    *out = t;
    return GALE_OK;
}

gale_status gale_tensor_from_buffer(
    gale_buffer *buffer, gale_type type, int rank, const int64_t *dims, gale_tensor **out)
{
    gale_tensor *t = NULL;
    GALE__NEED({"buffer", buffer}, {"dims", rank < 1 || dims}, {"out", out});
    if ((unsigned)type >= GALE_TYPE_COUNT)
        return gale__fail(GALE_INVALID, "gale_tensor_from_buffer: unknown element type %d", (int)type);
    if (type == GALE_STRING) return gale__fail(GALE_UNSUPPORTED, "strings cannot be moved to a device");
    GALE_TRY(new_tensor(type, rank, dims, &t));
    if (t->size_bytes > buffer->size) {
        gale_status status =
            gale__fail(GALE_INVALID, "a tensor of %zu bytes does not fit a buffer of %zu", t->size_bytes, buffer->size);
        return gale_tensor_destroy(&t), status;
    }
    t->device = gale__device_hold(buffer->device);
    if (t->size_bytes) t->buffer = gale__buffer_hold(buffer);
    *out = t;
    return GALE_OK;
}

gale_buffer *gale_tensor_buffer(const gale_tensor *t) { return GALE__LACKS({"tensor", t}) ? NULL : t->buffer; }

/* Large reads of a file, in slices on all cores: what costs is not the disk but the pages they go to. */
enum { SLICE_BYTES = 1 << 20 };
typedef struct slices {
    const gale__file_map *map;
    uint64_t offset;
    size_t size;
    char *to;
    _Atomic bool failed;
} slices;

static void read_slice(void *arg, size_t i, int worker)
{
    slices *s = arg;
    size_t at = i * SLICE_BYTES, n = s->size - at < SLICE_BYTES ? s->size - at : SLICE_BYTES;
    (void)worker;
    if (gale__file_map_read(s->map, s->offset + at, n, s->to + at) != GALE_OK) s->failed = true;
}

static gale_status read_map(const gale__file_map *map, uint64_t offset, size_t size, void *to)
{
    slices s = {.map = map, .offset = offset, .size = size, .to = to};
    if (size < 4 * SLICE_BYTES) return gale__file_map_read(map, offset, size, to);
    gale__parallel((size + SLICE_BYTES - 1) / SLICE_BYTES, read_slice, &s);
    return s.failed ? gale__file_map_read(map, offset, size, to)
                    : GALE_OK; /* once more, so that this thread knows the reason */
}

gale_status gale__tensor_read(const gale_tensor *t, size_t offset, size_t size, void *to)
{
    if (gale__tensor_mapped(t)) return read_map(t->storage->map, t->storage->offset + offset, size, to);
    gale__copy_bytes(to, (const char *)t->host + offset, size);
    return GALE_OK;
}

gale_status gale__tensor_upload(const gale_tensor *t, gale_stream *stream, gale_buffer *to, size_t offset)
{
    enum { PIECE = 4 << 20 };
    if (!gale__tensor_mapped(t)) return gale_upload(stream, to, offset, t->host, t->size_bytes);
    if (to->device->info.caps.in_place && to->mem->host)
        return gale__tensor_read(t, 0, t->size_bytes, (char *)to->mem->host + to->offset + offset);
    char *piece = gale__alloc(t->size_bytes < PIECE ? t->size_bytes : PIECE);
    gale_status status = piece ? GALE_OK : GALE_NO_MEMORY;
    for (size_t at = 0, n; at < t->size_bytes && status == GALE_OK; at += n) {
        n = t->size_bytes - at < PIECE ? t->size_bytes - at : PIECE;
        status = gale__tensor_read(t, at, n, piece);
        if (status == GALE_OK) status = gale_upload(stream, to, offset + at, piece, n);
    }
    gale__free(piece);
    return status;
}

/* --- Strings. --- */

gale_status gale_tensor_from_strings(
    int rank, const int64_t *dims, const char *const *strings, const size_t *sizes, gale_tensor **out)
{
    GALE__NEED({"dims", rank < 1 || dims}, {"out", out});
    gale_tensor *t = NULL;
    GALE_TRY(new_tensor(GALE_STRING, rank, dims, &t));
    int64_t n = gale__tensor_elements(t);
    size_t total = t->size_bytes;
    gale_status status = strings || !n ? GALE_OK : gale__lack(__func__, "strings");
    for (int64_t i = 0; i < n && status == GALE_OK; i++)
        if (!strings[i] && (!sizes || sizes[i]))
            status = gale__fail(GALE_INVALID, "%s: strings[%lld] is NULL", __func__, (long long)i);
    for (int64_t i = 0; i < n && status == GALE_OK; i++)
        if (gale__add_size(total, sizes ? sizes[i] : strlen(strings[i]), &total) || gale__add_size(total, 1, &total))
            status = gale__fail(GALE_LIMIT, "%lld strings are too large in total", (long long)n);
    if (status == GALE_OK) status = give_storage(t, total);
    if (status != GALE_OK) return gale_tensor_destroy(&t), status;
    gale__string *texts = t->host;
    char *at = (char *)t->host + t->size_bytes;
    for (int64_t i = 0; i < n; i++) {
        size_t size = sizes ? sizes[i] : strlen(strings[i]);
        texts[i] = (gale__string){at, size};
        if (size) memcpy(at, strings[i], size);
        at[size] = 0;
        at += size + 1;
    }
    *out = t;
    return GALE_OK;
}

const char *gale_tensor_string(const gale_tensor *t, int64_t index, size_t *size)
{
    if (!t) return gale__lack(__func__, "tensor"), NULL;
    if (t->type != GALE_STRING || index < 0 || index >= gale__tensor_elements(t)) return NULL;
    const gale__string *text = (const gale__string *)t->host + index;
    if (size) *size = text->size;
    return text->text;
}

gale_status gale_tensor_to_device(const gale_tensor *t, gale_device *device, gale_tensor **out)
{
    GALE__NEED({"tensor", t}, {"out", out});
    if (t->type == GALE_STRING && device) return gale__fail(GALE_UNSUPPORTED, "strings cannot be moved to a device");
    if (t->type == GALE_STRING)
        return gale_tensor_reshape((gale_tensor *)t, t->rank, t->dims, out); /* they never change: a view is as good */
    gale_tensor *copy = NULL;
    gale_stream *stream = NULL;
    GALE_TRY(gale_tensor_create(device, t->type, t->rank, t->dims, &copy));
    gale_status status = GALE_OK;
    if (!device) status = gale_tensor_to_cpu(t, copy->host, copy->size_bytes);
    else if (t->size_bytes) {
        GALE_GO(gale_stream_create(device, &stream));
        if (t->host) GALE_GO(gale__tensor_upload(t, stream, copy->buffer, 0));
        else GALE_GO(gale_copy(stream, copy->buffer, 0, t->buffer, 0, t->size_bytes));
        GALE_GO(gale_stream_sync(stream));
    }
done:
    gale_stream_destroy(&stream);
    if (status != GALE_OK) return gale_tensor_destroy(&copy), status;
    *out = copy;
    return GALE_OK;
}

gale_status gale_tensor_reshape(gale_tensor *t, int rank, const int64_t *dims, gale_tensor **out)
{
    GALE__NEED({"tensor", t}, {"dims", rank < 1 || dims}, {"out", out});
    int64_t elements;
    size_t bytes;
    GALE_TRY(gale__shape_size(t->type, rank, dims, &elements, &bytes));
    if (bytes != t->size_bytes)
        return gale__fail(GALE_INVALID, "the new shape has %lld elements, but the tensor has %zu", (long long)elements,
            (size_t)gale__tensor_elements(t));
    gale_tensor *view = gale__alloc(sizeof *view);
    if (!view) return GALE_NO_MEMORY;
    *view = *t;
    view->rank = rank;
    if (rank) memcpy(view->dims, dims, (size_t)rank * sizeof *dims);
    if (t->device) gale__device_hold(t->device);
    if (t->buffer) gale__buffer_hold(t->buffer);
    if (t->storage) atomic_fetch_add(&t->storage->refs, 1);
    *out = view;
    return GALE_OK;
}

gale_type gale_tensor_type(const gale_tensor *t)
{
    if (!t) return gale__lack(__func__, "tensor"), GALE_TYPE_COUNT;
    return t->type;
}

int gale_tensor_rank(const gale_tensor *t)
{
    if (!t) return gale__lack(__func__, "tensor"), 0;
    return t->rank;
}

const int64_t *gale_tensor_dims(const gale_tensor *t)
{
    if (!t) return gale__lack(__func__, "tensor"), NULL;
    return t->dims;
}

size_t gale_tensor_size_bytes(const gale_tensor *t)
{
    if (!t) return gale__lack(__func__, "tensor"), 0;
    return t->size_bytes;
}

void *gale_tensor_data(gale_tensor *t)
{
    if (!t) return gale__lack(__func__, "tensor"), NULL;
    if (t->host) return t->type == GALE_STRING || gale__tensor_mapped(t) ? NULL : t->host;
    return t->buffer && t->buffer->mem->host ? (char *)t->buffer->mem->host + t->buffer->offset : NULL;
}

void gale_free(void *p) { gale__free(p); }

gale_status gale__tensor_assign(gale_tensor *to, const gale_tensor *from)
{
    gale_stream *stream = NULL;
    gale_status status = GALE_OK;
    bool fits = to->type == from->type && to->rank == from->rank &&
                (!to->rank || !memcmp(to->dims, from->dims, (size_t)to->rank * sizeof *to->dims));
    if (!fits || to->type == GALE_STRING)
        return gale__fail(GALE_INVALID,
            "a %s tensor of %zu bytes does not match the given %s tensor of %zu bytes: type and shape must be equal",
            gale_type_name(from->type), from->size_bytes, gale_type_name(to->type), to->size_bytes);
    if (gale__tensor_borrowed(to)) return gale__fail(GALE_INVALID, "the given tensor is in read-only memory");
    if (!to->device) return gale_tensor_to_cpu(from, to->host, to->size_bytes);
    if (!to->size_bytes) return GALE_OK;
    GALE_TRY(gale_stream_create(to->device, &stream));
    if (from->host) GALE_GO(gale__tensor_upload(from, stream, to->buffer, 0));
    else GALE_GO(gale_copy(stream, to->buffer, 0, from->buffer, 0, from->size_bytes));
    GALE_GO(gale_stream_sync(stream));
done:
    gale_stream_destroy(&stream);
    return status;
}

/* Memory that returns from another library has a separate buffer. */
static bool buffers_overlap(const gale_tensor *a, const gale_tensor *b)
{
    const gale__mem *m = a->buffer->mem, *n = b->buffer->mem;
    uint64_t x = m->address + a->buffer->offset, y = n->address + b->buffer->offset;
    return m->handle == n->handle && x < y + b->size_bytes && y < x + a->size_bytes;
}

bool gale__tensor_overlap(const gale_tensor *a, const gale_tensor *b)
{
    if (!a->size_bytes || !b->size_bytes) return false;
    if (a->buffer && b->buffer) return buffers_overlap(a, b);
    if (a->buffer || b->buffer) return false;
    const char *x = a->host, *y = b->host;
    return x && y && x < y + b->size_bytes && y < x + a->size_bytes;
}
