/* Tensors to and from other libraries by DLPack: the same memory, no copy.
 *
 * The structs have the layout of DLPack's DLManagedTensor (version 0.8 and earlier, the unversioned one that Python's
 * "dltensor" capsules hold), so a pointer to one is a pointer to the other.  Shared are tensors
 * on the host and on the CPU as a device, and those on CUDA, ROCm and OpenCL devices; others (Vulkan) go through
 * gale_tensor_to_device(tensor, NULL, ...) first.  All work of gale on a tensor is over when the call that did it
 * returns; whoever hands in memory of a device has waited for its own. */
#ifndef GALE_DLPACK_H
#define GALE_DLPACK_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_dlpack {
    void *data;
    int32_t device_type; /* 1: the CPU, 2: CUDA, 4: OpenCL (data: the cl_mem), 10: ROCm */
    int32_t device_id;
    int32_t rank;
    uint8_t type_code; /* 0: signed, 1: unsigned, 2: float, 4: bfloat16, 6: bool */
    uint8_t type_bits;
    uint16_t type_lanes;
    int64_t *dims;
    int64_t *strides; /* in elements; NULL: dense */
    uint64_t offset_bytes;
    void *owner;
    void (*release)(struct gale_dlpack *self); /* called by whoever took the struct over; may be NULL */
} gale_dlpack;

/* Holds the tensor's memory until `release` is called. */
GALE_API gale_status gale_tensor_to_dlpack(const gale_tensor *tensor, gale_dlpack **out);
/* Takes `given` over: it is released with the last view of the tensor.  On failure it stays the caller's.  Memory must
 * be dense and row-major.  flags: GALE_TENSOR_READ_ONLY. */
GALE_API gale_status gale_tensor_from_dlpack(gale_dlpack *given, gale_flags flags, gale_tensor **out);
/* The same for memory of this device, or of the host.  OpenCL: the memory must be of the device's context. */
GALE_API gale_status gale_tensor_from_dlpack_on(
    gale_device *device, gale_dlpack *given, gale_flags flags, gale_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
