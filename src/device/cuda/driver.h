/* The CUDA and HIP drivers as one: the functions gale calls, loaded at run time, and the few constants they need.
 * None of their headers is needed to build, and nothing links to them. */
#ifndef GALE_DEVICE_CUDA_DRIVER_H
#define GALE_DEVICE_CUDA_DRIVER_H
#include "base/env.h"
#include "base/file.h"
#include "device/device.h"

/* Result codes; HIP took over CUDA's numbers. */
enum {
    GALE__CU_OUT_OF_MEMORY = 2,
    GALE__CU_STUB_LIBRARY = 34,
    GALE__CU_NO_DEVICE = 100,
    GALE__CU_INVALID_IMAGE = 200,
    GALE__CU_NO_BINARY_FOR_GPU = 209,
    GALE__CU_ECC_UNCORRECTABLE = 214,
    GALE__CU_INVALID_PTX = 218,
    GALE__CU_NVLINK_UNCORRECTABLE = 220,
    GALE__CU_UNSUPPORTED_PTX_VERSION = 222,
    GALE__CU_NOT_FOUND = 500,
    GALE__CU_NOT_READY = 600,
    GALE__CU_ILLEGAL_ADDRESS = 700,
    GALE__CU_LAUNCH_OUT_OF_RESOURCES = 701,
    GALE__CU_LAUNCH_TIMEOUT = 702,
    GALE__CU_CONTEXT_IS_DESTROYED = 709,
    GALE__CU_ASSERT = 710,
    GALE__CU_HARDWARE_STACK_ERROR = 714,
    GALE__CU_LAUNCH_FAILED = 719,
    GALE__CU_NOT_PERMITTED = 800,
    GALE__CU_NOT_SUPPORTED = 801,
    GALE__CU_SYSTEM_NOT_READY = 802,
    GALE__CU_SYSTEM_DRIVER_MISMATCH = 803,
    GALE__CU_COMPAT_NOT_SUPPORTED = 804,
    GALE__CU_UNKNOWN = 999,
};
enum {
    GALE__CU_STREAM_NON_BLOCKING = 1,
    GALE__CU_HOST_PORTABLE = 1,
    GALE__CU_HOST_MAPPED = 2,
    GALE__CU_CAPTURE_RELAXED = 2
};
enum {
    GALE__CU_JIT_ERROR_LOG = 5,
    GALE__CU_JIT_ERROR_LOG_BYTES = 6,
    GALE__CU_FUNCTION_MAX_THREADS = 0,
    GALE__CU_FUNCTION_PTX_VERSION = 5,
    GALE__CU_FUNCTION_SHARED = 8
};

/* The memory layout of CUlaunchConfig and CUlaunchAttribute; the attribute is "programmatic stream serialization". */
enum { GALE__CU_LAUNCH_EARLY = 6 };
typedef struct gale__cu_launch_attribute {
    int id, pad;
    union {
        int number;
        char bytes[64];
    } value;
} gale__cu_launch_attribute;
typedef struct gale__cu_launch_config {
    unsigned groups[3], group[3], shared_bytes;
    void *stream;
    gale__cu_launch_attribute *attributes;
    unsigned n_attributes;
} gale__cu_launch_config;
/* A launch in a capture. */
typedef struct gale__cu_node {
    void *function;
    unsigned groups[3], group[3], shared_bytes;
    void **parameters, **extra;
} gale__cu_node;

typedef enum gale__cu_attribute {
#define X(id, cuda, hip) GALE__CU_##id,
#include "device/cuda/attributes.def"
#undef X
    GALE__CU_ATTRIBUTE_COUNT
} gale__cu_attribute;

/* What tells the two makers apart. */
typedef struct gale__cu_maker {
    const char *label, *vendor; /* "CUDA", "NVIDIA" */
    bool hip;
    gale__env library, rtc_library; /* variables that name another library */
    const char *const *sonames;     /* of the driver; NULL-ended */
    const char *rtc_label;          /* the compiler: "NVRTC" */
    const char *const *rtc_sonames;
    const char *rtc_remedy;
    int oldest_version, major_unit, minor_unit; /* as the driver counts: CUDA 11.2 is 11020 */
    int attributes[GALE__CU_ATTRIBUTE_COUNT];
} gale__cu_maker;
extern const gale__cu_maker gale__cu_cuda, gale__cu_hip;

typedef struct gale__cu_api {
    const gale__cu_maker *maker;
    gale__dl *dl;
    int version; /* of the driver, as it counts */
    bool has_capture;
#define X(need, result, field, cuda, hip, args) result(*field) args;
#include "device/cuda/api.def"
#undef X
} gale__cu_api;

/* How far loading came, for the reason of a missing device. */
typedef enum gale__cu_step {
    GALE__CU_LIBRARY,
    GALE__CU_DAMAGED,
    GALE__CU_SYMBOLS,
    GALE__CU_TOO_OLD,
    GALE__CU_INIT,
    GALE__CU_READY
} gale__cu_step;
/* Opens the driver on first use and keeps it.  On failure: the step, and for INIT the driver's code. */
gale_status gale__cu_load(const gale__cu_maker *maker, const gale__cu_api **out, gale__cu_step *step, int *code);

/* Opening by symbol list, for the driver and for the compiler. */
typedef struct gale__cu_symbol {
    bool need;
    const char *names[2];
    size_t offset;
} gale__cu_symbol; /* CUDA's, HIP's */
enum { GALE__CU_MAY, GALE__CU_NEED };
/* Opens the first library that works: the one the variable names, else of the list.  If none works, the reported reason
 * is a damaged library rather than a missing one. */
gale_status gale__cu_open_library(gale__env variable, const char *const *sonames, gale__dl **out, bool *damaged);
/* Fills `table` at the offsets; GALE_UNSUPPORTED names the first needed symbol that is missing. */
gale_status gale__cu_fill(gale__dl *dl, bool hip, const gale__cu_symbol *symbols, size_t count, void *table);

typedef struct gale__cu_device {
    const gale__cu_api *api;
    void *context; /* CUDA's primary context */
    void *blas;    /* cuBLASLt's handle; NULL: products are ours so far */
    bool blas_missing;
    int ordinal;
    int unit_threads; /* that a multiprocessor holds; 0: not known */
    char name[128];
    _Atomic bool hung; /* the watchdog gave up on it: no blocking function is called any more */
} gale__cu_device;

/* GALE_OK, or the status that fits the code with the driver's own words for it. */
gale_status gale__cu_check(const gale__cu_api *api, int code, const char *what);
void gale__cu_error_words(const gale__cu_api *api, int code, char *text, size_t size);
/* Makes the device current for this thread. */
gale_status gale__cu_enter(const gale__cu_device *d);
/* Waits for a stream within the watchdog. */
gale_status gale__cu_stream_sync(gale__cu_device *d, void *stream);

/* probe.c */
gale_status gale__cu_probe_cuda(gale__probe *out);
gale_status gale__cu_probe_hip(gale__probe *out);

/* module.c */
gale_status gale__cu_build(gale_device *device, const gale__source *source, gale_module *module);
void gale__cu_unbuild(gale_module *module);
gale_status gale__cu_kernel(gale_module *module, gale_kernel *kernel);
void gale__cu_kernel_destroy(gale_kernel *kernel);
gale_status gale__cu_launch(gale_stream *stream, gale_kernel *kernel, const gale__launch *launch);
double gale__cu_occupancy(const gale_device *device, const gale_kernel *kernel, const gale__launch *launch);
gale_status gale__cu_capture_change(
    gale_capture *capture, void *launched, gale_kernel *kernel, const gale__launch *launch);
#endif
