/* Tensors inside: a shape over counted storage. */
#ifndef GALE_GRAPH_TENSOR_H
#define GALE_GRAPH_TENSOR_H
#include "device/device.h"
#include "gale/graph.h"

/* Counted host memory, freed with the last tensor over it. */
typedef struct gale__storage { _Atomic int refs; } gale__storage;
/* An element of a tensor of strings; the texts lie behind the elements in the same storage. */
typedef struct gale__string { const char *text; size_t size; } gale__string;

struct gale_tensor {
    gale_device *device;   /* NULL: host */
    gale_type type;
    int rank;
    int64_t dims[GALE_MAX_RANK];
    size_t size_bytes;
    gale_buffer *buffer;   /* device memory; NULL for host and for nothing at all */
    void *host;            /* host memory, counted by its storage */
    gale__storage *storage;
};
static inline int64_t gale__tensor_elements(const gale_tensor *t) { return (int64_t)(t->size_bytes / (t->type == GALE_STRING ? sizeof(gale__string) : gale_type_size(t->type))); }
/* Elements; strings count as gale__string.  GALE_LIMIT when the product or the bytes overflow, GALE_INVALID for a negative extent or a rank out of range. */
gale_status gale__shape_size(gale_type type, int rank, const int64_t *dims, int64_t *elements, size_t *bytes);
#endif
