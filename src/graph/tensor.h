/* Tensors inside: a shape over counted storage. */
#ifndef GALE_GRAPH_TENSOR_H
#define GALE_GRAPH_TENSOR_H
#include "device/device.h"
#include "gale/graph.h"

struct gale_tensor {
    gale_device *device;   /* NULL: host */
    gale_type type;
    int rank;
    int64_t dims[GALE_MAX_RANK];
    size_t size_bytes;
    gale_buffer *buffer;   /* device memory; NULL for host and for nothing at all */
    void *host;            /* host memory, counted by host_refs */
    _Atomic int *host_refs;
};
/* Elements; GALE_LIMIT when the product or the bytes overflow, GALE_INVALID for a negative extent or a rank out of range. */
gale_status gale__shape_size(gale_type type, int rank, const int64_t *dims, int64_t *elements, size_t *bytes);
#endif
