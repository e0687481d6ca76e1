/* Internals of tensors: a shape over reference-counted storage. */
#ifndef GALE_GRAPH_TENSOR_H
#define GALE_GRAPH_TENSOR_H
#include "base/file.h"
#include "device/device.h"
#include "gale/graph.h"

/* Reference-counted host memory, freed with the last tensor that uses it; or memory of an owner who is notified then.
 */
typedef struct gale__storage {
    _Atomic int refs;
    bool borrowed;                /* not to be written or freed */
    bool outside;                 /* written, but not freed */
    void (*release)(void *owner); /* may be NULL */
    void *owner;
    const gale__file_map *map; /* part of a file, from `offset` on: read with gale__tensor_read alone */
    uint64_t offset;
} gale__storage;
/* An element of a tensor of strings; the texts follow the elements in the same storage. */
typedef struct gale__string {
    const char *text;
    size_t size;
} gale__string;

struct gale_tensor {
    gale_device *device; /* NULL: host */
    gale_type type;
    int rank;
    int64_t dims[GALE_MAX_RANK];
    size_t size_bytes;
    gale_buffer *buffer; /* device memory; NULL for host and for nothing at all */
    void *host;          /* host memory, counted by its storage */
    gale__storage *storage;
};
static inline int64_t gale__tensor_elements(const gale_tensor *t)
{
    return (int64_t)(t->size_bytes / (t->type == GALE_STRING ? sizeof(gale__string) : gale_type_size(t->type)));
}
/* Elements; strings count as gale__string.  GALE_LIMIT when the product or the bytes overflow, GALE_INVALID for a
 * negative extent or a rank out of range. */
gale_status gale__shape_size(gale_type type, int rank, const int64_t *dims, int64_t *elements, size_t *bytes);

/* A tensor over memory that stays valid and unchanged until `release` is called, when the last view goes.  Nothing is
 * released on failure. */
gale_status gale__tensor_borrow(gale_type type, int rank, const int64_t *dims, const void *data,
    void (*release)(void *), void *owner, gale_tensor **out);
/* The same over part of a mapped file, at any alignment. */
gale_status gale__tensor_borrow_map(gale_type type, int rank, const int64_t *dims, const gale__file_map *map,
    uint64_t offset, void (*release)(void *), void *owner, gale_tensor **out);
/* Whether `host` is only a name for what gale__tensor_read reads. */
static inline bool gale__tensor_mapped(const gale_tensor *t) { return t->storage && t->storage->map; }
static inline bool gale__tensor_borrowed(const gale_tensor *t) { return t->storage && t->storage->borrowed; }
/* Whether two tensors have memory in common. */
bool gale__tensor_overlap(const gale_tensor *a, const gale_tensor *b);
/* Part of a host tensor of numbers, in memory or in a file. */
gale_status gale__tensor_read(const gale_tensor *t, size_t offset, size_t size, void *to);
/* Sends a host tensor to a buffer; `to` is filled in place when the device works in place. */
gale_status gale__tensor_upload(const gale_tensor *t, gale_stream *stream, gale_buffer *to, size_t offset);
/* Copies `from` into `to`, which must have its type and shape; either may be on the host or on a device. */
gale_status gale__tensor_assign(gale_tensor *to, const gale_tensor *from);
#endif
