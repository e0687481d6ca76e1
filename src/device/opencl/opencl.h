/* Shared by the files of the OpenCL backend: the functions of libOpenCL, loaded at run time, and the objects behind
 * gale_device, gale_stream, gale_module, gale_kernel and gale_event. */
#ifndef GALE_DEVICE_OPENCL_OPENCL_H
#define GALE_DEVICE_OPENCL_OPENCL_H
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include "device/device.h"

/* The library's functions by their own names: cl->clFinish(queue). */
typedef struct gale__cl {
#define X(name) __typeof__(&name) name;
#include "symbols.def"
#undef X
} gale__cl;

/* Opens libOpenCL, once per process; GALE_NOT_FOUND with the reason. */
gale_status gale__cl_load(const gale__cl **cl, const char **soname);
/* Describes a failed call: "clCreateBuffer of 12 bytes: CL_OUT_OF_RESOURCES (-5)". */
gale_status gale__cl_fail(cl_int error, const char *format, ...) GALE__PRINTF(2, 3);

/* Devices of all platforms that gale can use, GPUs before processors. */
typedef struct gale__cl_found {
    cl_platform_id platform;
    cl_device_id device;
} gale__cl_found;
gale_status gale__cl_find(const gale__cl *cl, gale__probe *why, gale__cl_found **out, int *count);
gale_status gale__cl_probe(gale__probe *out);

typedef struct gale__cl_device {
    const gale__cl *cl;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue; /* for mapping and for first touch of memory; streams have their own */
    size_t sub_align;       /* where a sub-buffer may start, bytes */
    _Atomic bool whole;     /* PoCL: programs need all of its declarations */
} gale__cl_device;

/* Waits for an event under the watchdog. */
gale_status gale__cl_wait(const gale_device *device, cl_event event);
static inline gale__cl_device *gale__cl_of(const gale_device *device) { return device->impl; }

gale_status gale__cl_stream_create(gale_device *device, gale_stream *stream);
void gale__cl_stream_destroy(gale_stream *stream);
gale_status gale__cl_upload(gale_stream *stream, gale__ref to, gale__ref host, size_t size);
gale_status gale__cl_download(gale_stream *stream, gale__ref from, gale__ref host, size_t size);
gale_status gale__cl_copy(gale_stream *stream, gale__ref to, gale__ref from, size_t size);
gale_status gale__cl_fill(gale_stream *stream, gale__ref to, size_t size, uint64_t pattern, size_t pattern_bytes);
gale_status gale__cl_sync(gale_stream *stream);
gale_status gale__cl_event_create(gale_device *device, gale_event *event);
void gale__cl_event_destroy(gale_event *event);
gale_status gale__cl_event_record(gale_event *event, gale_stream *stream);
gale_status gale__cl_event_wait(gale_event *event);
gale_status gale__cl_event_poll(gale_event *event, bool *reached);
gale_status gale__cl_stream_wait(gale_stream *stream, gale_event *event);
gale_status gale__cl_event_elapsed(gale_event *from, gale_event *to, double *time_us);

gale_status gale__cl_build(gale_device *device, const gale__source *source, gale_module *module);
void gale__cl_unbuild(gale_module *module);
gale_status gale__cl_kernel(gale_module *module, gale_kernel *kernel);
void gale__cl_kernel_destroy(gale_kernel *kernel);
gale_status gale__cl_launch(gale_stream *stream, gale_kernel *kernel, const gale__launch *launch);
#endif
