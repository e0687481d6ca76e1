/* Calls of a vendor's library that is faster than gale's kernels: prepared once for a shape, then submitted to streams
 * like a launch.  The library is loaded at run time; a capability says which products are worth asking for
 * (caps.products_side).  Calls can be captured: they submit work to the stream without waiting, and the caller provides
 * the workspace. */
#ifndef GALE_DEVICE_CALL_H
#define GALE_DEVICE_CALL_H
#include "device/device.h"

/* Element (batch i, row r, column c) of a factor is at offset + i * batch + r * pitch + c, in elements; if it is
 * transposed, r and c are exchanged. */
typedef struct gale__factor {
    int64_t offset, pitch, batch, transposed;
} gale__factor;
/* d [batches, m, n] = a [batches, m, k] by b [batches, k, n], all of one type (F32, F16, BF16), sums in F32 and without
 * any narrower product; d is dense. */
typedef struct gale__matrix_product {
    int64_t type, m, n, k, batches;
    gale__factor a, b;
} gale__matrix_product;

struct gale__call {
    gale_device *device;
    void *impl;
    size_t workspace_bytes;
    int n_refs; /* result and operands; the workspace, where there is any, follows them */
};

/* GALE_UNSUPPORTED where the library has nothing for this shape.  product: a gale__matrix_product. */
gale_status gale__call_product(gale_device *device, const void *product, gale__call **out);
void gale__call_destroy(gale__call **call);
gale_status gale__call_run(
    gale_stream *stream, gale__call *call, const gale__ref *refs, int n_refs, const gale__tag *tag);
#endif
