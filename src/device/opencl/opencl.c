/* The OpenCL backend: OpenCL 1.2 or later through any installable driver, with libOpenCL loaded at run time.  This
 * file has the table, devices and memory; it is the only one if gale is built without Khronos' headers. */
#include "device/device.h"
#include "gale_built.h"
#include <stdio.h>

#ifndef GALE_HAVE_OPENCL
static gale_status probe_absent(gale__probe *out)
{
    snprintf(out->reason, sizeof out->reason, "this build of gale does not include OpenCL");
    snprintf(out->remedy, sizeof out->remedy, "install opencl-headers and rebuild gale");
    return GALE_OK;
}
const gale__backend gale__backend_opencl = {.name = "opencl", .probe = probe_absent};
#else
#include "device/opencl/opencl.h"

static void close_device(gale_device *device)
{
    gale__cl_device *d = device->impl;
    if (!d) return;
    if (d->queue) d->cl->clReleaseCommandQueue(d->queue);
    if (d->context) d->cl->clReleaseContext(d->context);
    gale__free(d);
    device->impl = NULL;
}

static gale_status find_device(gale__cl_device *d, int index)
{
    gale__probe why = {0};
    gale__cl_found *found = NULL;
    int count = 0;
    GALE_TRY(gale__cl_find(d->cl, &why, &found, &count));
    gale_status status = GALE_OK;
    if (index < count) d->id = found[index].device;
    else
        status = gale__fail(GALE_NO_DEVICE, "opencl device %d: there are %d%s%s", index, count,
            count ? "" : ", because ", count ? "" : why.reason);
    gale__free(found);
    return status;
}

static gale_status make_context(gale__cl_device *d)
{
    cl_int e = CL_SUCCESS;
    d->context = d->cl->clCreateContext(NULL, 1, &d->id, NULL, NULL, &e);
    if (!d->context) return gale__cl_fail(e, "clCreateContext");
    d->queue = d->cl->clCreateCommandQueue(d->context, d->id, 0, &e);
    if (!d->queue) return gale__cl_fail(e, "clCreateCommandQueue");
    cl_uint align_bits = 0;
    d->cl->clGetDeviceInfo(d->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align_bits, &align_bits, NULL);
    d->sub_align = align_bits >= 8 ? align_bits / 8 : 1;
    return GALE_OK;
}

static gale_status open_device(gale_device *device)
{
    gale__cl_device *d = gale__calloc(1, sizeof *d);
    if (!d) return GALE_NO_MEMORY;
    device->impl = d;
    gale_status status = gale__cl_load(&d->cl, NULL);
    if (status == GALE_OK) status = find_device(d, device->info.index);
    if (status == GALE_OK) status = make_context(d);
    if (status != GALE_OK) close_device(device);
    return status;
}

/* Drivers allocate a buffer on first use, so an out-of-memory error would appear in some later launch; migrating the
 * buffer to the device makes it appear here. */
static cl_int migrate(gale__cl_device *d, cl_mem buffer)
{
    cl_int e =
        d->cl->clEnqueueMigrateMemObjects(d->queue, 1, &buffer, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
    return e == CL_SUCCESS ? d->cl->clFinish(d->queue) : e;
}

static gale_status alloc_memory(gale_device *device, gale__mem_kind kind, size_t size, gale__mem *out)
{
    gale__cl_device *d = gale__cl_of(device);
    bool host = kind == GALE__MEM_HOST;
    void *at = NULL;
    cl_int e = CL_SUCCESS;
    cl_mem buffer =
        d->cl->clCreateBuffer(d->context, CL_MEM_READ_WRITE | (host ? CL_MEM_ALLOC_HOST_PTR : 0), size, NULL, &e);
    if (!buffer) return gale__cl_fail(e, "clCreateBuffer of %zu bytes", size);
    if (host)
        at = d->cl->clEnqueueMapBuffer(
            d->queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size, 0, NULL, NULL, &e);
    else e = migrate(d, buffer);
    if (e != CL_SUCCESS) {
        d->cl->clReleaseMemObject(buffer);
        return gale__cl_fail(e, "%s of %zu bytes", host ? "clEnqueueMapBuffer" : "clEnqueueMigrateMemObjects", size);
    }
    *out = (gale__mem){.handle = buffer, .host = at, .size = size};
    return GALE_OK;
}

static void free_memory(gale_device *device, gale__mem *mem)
{
    gale__cl_device *d = gale__cl_of(device);
    if (!mem->handle) return;
    if (mem->host && d->cl->clEnqueueUnmapMemObject(d->queue, mem->handle, mem->host, 0, NULL, NULL) == CL_SUCCESS)
        d->cl->clFinish(d->queue);
    d->cl->clReleaseMemObject(mem->handle);
    *mem = (gale__mem){0};
}

const gale__backend gale__backend_opencl = {
    .name = "opencl",
    .selftest_parts = 2,
    .selftest_kernels = 64, /* every program costs 0.05 s on an H200 */
    .probe = gale__cl_probe,
    .open = open_device,
    .close = close_device,
    .alloc = alloc_memory,
    .free = free_memory,
    .stream_create = gale__cl_stream_create,
    .stream_destroy = gale__cl_stream_destroy,
    .upload = gale__cl_upload,
    .download = gale__cl_download,
    .copy = gale__cl_copy,
    .fill = gale__cl_fill,
    .build = gale__cl_build,
    .unbuild = gale__cl_unbuild,
    .kernel = gale__cl_kernel,
    .kernel_destroy = gale__cl_kernel_destroy,
    .launch = gale__cl_launch,
    .dlpack_type = 4,
    .dlpack_handle = true,
    .event_create = gale__cl_event_create,
    .event_destroy = gale__cl_event_destroy,
    .event_record = gale__cl_event_record,
    .event_wait = gale__cl_event_wait,
    .event_poll = gale__cl_event_poll,
    .stream_wait = gale__cl_stream_wait,
    .event_elapsed = gale__cl_event_elapsed,
    .sync = gale__cl_sync,
};
#endif
