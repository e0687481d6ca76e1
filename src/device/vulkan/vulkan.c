/* The Vulkan backend: 1.2, compute only, with libvulkan loaded at run time.  This file has the table; it is the only
 * one if gale is built without Khronos' headers. */
#include "device/device.h"
#include "gale_built.h"

#ifndef GALE_HAVE_VULKAN
#include <stdio.h>

static gale_status probe_absent(gale__probe *out)
{
    snprintf(out->reason, sizeof out->reason, "this build of gale does not include Vulkan");
    snprintf(out->remedy, sizeof out->remedy, "install libvulkan-dev and spirv-headers and rebuild gale");
    return GALE_OK;
}
const gale__backend gale__backend_vulkan = {.name = "vulkan", .probe = probe_absent};
#else
#include "device/vulkan/vulkan.h"

const gale__backend gale__backend_vulkan = {
    .name = "vulkan",
    .probe = gale__vk_probe,
    .open = gale__vk_device_open,
    .close = gale__vk_device_close,
    .alloc = gale__vk_alloc,
    .free = gale__vk_free,
    .stream_create = gale__vk_stream_create,
    .stream_destroy = gale__vk_stream_destroy,
    .upload = gale__vk_upload,
    .download = gale__vk_download,
    .copy = gale__vk_copy,
    .fill = gale__vk_fill,
    .build = gale__vk_build,
    .unbuild = gale__vk_unbuild,
    .kernel = gale__vk_kernel,
    .kernel_destroy = gale__vk_kernel_destroy,
    .launch = gale__vk_launch,
    .event_create = gale__vk_event_create,
    .event_destroy = gale__vk_event_destroy,
    .event_record = gale__vk_event_record,
    .event_wait = gale__vk_event_wait,
    .event_poll = gale__vk_event_poll,
    .stream_wait = gale__vk_stream_wait,
    .event_elapsed = gale__vk_event_elapsed,
    .capture_begin = gale__vk_capture_begin,
    .capture_end = gale__vk_capture_end,
    .capture_replay = gale__vk_capture_replay,
    .capture_destroy = gale__vk_capture_destroy,
    .sync = gale__vk_sync,
    .memory_info = gale__vk_memory_info,
};
#endif
