/* Opens a Vulkan device with its queues, and allocates memory: one buffer with a device address per block, since the
 * pool divides blocks into pieces. */
#include "device/vulkan/vulkan.h"

static gale_status load_device(gale__vk_device *d)
{
#define DEVICE(name)                                                      \
    d->fn.name = (PFN_##name)d->fn.vkGetDeviceProcAddr(d->handle, #name); \
    if (!d->fn.name) return gale__fail(GALE_UNSUPPORTED, "the Vulkan driver has no %s", #name);
#include "device/vulkan/symbols.def"
    return GALE_OK;
}

static gale_status choose(gale__vk_device *d, int index)
{
    gale__probe why = {0};
    gale__vk_physical *list = NULL;
    int count = 0;
    GALE_TRY(gale__vk_find(&d->instance, &why, &list, &count));
    gale_status status = GALE_OK;
    if (index < count) d->physical = list[index];
    else
        status = gale__fail(GALE_NO_DEVICE, "vulkan device %d: there are %d%s%s", index, count,
            count ? "" : ", because ", count ? "" : why.reason);
    gale__free(list);
    return status;
}

static gale_status create(gale__vk_device *d)
{
    gale__vk_physical *p = &d->physical;
    d->n_queues = p->n_queues < GALE__VK_QUEUES ? p->n_queues : GALE__VK_QUEUES;
    float priorities[GALE__VK_QUEUES];
    for (int i = 0; i < GALE__VK_QUEUES; i++) priorities[i] = 1;
    VkDeviceQueueCreateInfo queues = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = p->family,
        .queueCount = d->n_queues,
        .pQueuePriorities = priorities,
    };
    gale__vk_features_link(p, &p->features);
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &p->features.base,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queues,
        .enabledExtensionCount = p->n_extensions,
        .ppEnabledExtensionNames = p->extensions,
    };
    VkResult r = d->fn.vkCreateDevice(p->handle, &info, NULL, &d->handle);
    if (r != VK_SUCCESS) return gale__vk_fail(r, "vkCreateDevice for %s", p->info.name);
    GALE_TRY(load_device(d));
    for (uint32_t i = 0; i < d->n_queues; i++) d->fn.vkGetDeviceQueue(d->handle, p->family, i, &d->queues[i].handle);
    return GALE_OK;
}

static gale_status finish_open(gale__vk_device *d, bool debug_layer)
{
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    d->fn.vkGetPhysicalDeviceMemoryProperties2(d->physical.handle, &memory);
    d->memory = memory.memoryProperties;
    /* Software copies better than it runs kernels; where checks are on, they are to see these kernels too. */
    d->bulk.wanted = !d->physical.info.caps.software || debug_layer;
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, d->physical.info.caps.push_bytes};
    VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    VkResult r = d->fn.vkCreatePipelineLayout(d->handle, &info, NULL, &d->layout);
    return r == VK_SUCCESS ? GALE_OK : gale__vk_fail(r, "vkCreatePipelineLayout");
}

gale_status gale__vk_device_open(gale_device *device)
{
    gale__vk_device *d = gale__calloc(1, sizeof *d);
    if (!d) return GALE_NO_MEMORY;
    device->impl = d;
    d->name = device->info.name;
    gale__mutex_init(&d->lock);
    gale__mutex_init(&d->bulk.lock);
    for (int i = 0; i < GALE__VK_QUEUES; i++) gale__mutex_init(&d->queues[i].lock);
    gale_status status = gale__vk_instance_open(device->debug_layer, &d->instance);
    if (status == GALE_OK) {
        d->fn = d->instance.fn;
        status = choose(d, device->info.index);
    }
    if (status == GALE_OK) status = create(d);
    if (status == GALE_OK) status = finish_open(d, device->debug_layer);
    if (status != GALE_OK) gale__vk_device_close(device);
    return status;
}

void gale__vk_device_close(gale_device *device)
{
    gale__vk_device *d = device->impl;
    if (!d) return;
    gale__vk_bulk_finish(d);
    if (d->layout) d->fn.vkDestroyPipelineLayout(d->handle, d->layout, NULL);
    if (d->handle && d->fn.vkDestroyDevice) d->fn.vkDestroyDevice(d->handle, NULL);
    gale__vk_instance_close(&d->instance);
    for (int i = 0; i < GALE__VK_QUEUES; i++) gale__mutex_finish(&d->queues[i].lock);
    gale__mutex_finish(&d->bulk.lock);
    gale__mutex_finish(&d->lock);
    gale__free(d);
    device->impl = NULL;
}

/* Kinds of memory for each place, best first: the first that the buffer may live in and that has room is taken. */
#define NEAR VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define SEEN (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
static const VkMemoryPropertyFlags wishes[][3] = {
    [GALE__VK_DEVICE] = {NEAR, SEEN, SEEN},
    [GALE__VK_HOST] = {SEEN | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, SEEN, SEEN},
    [GALE__VK_PARAMS] = {SEEN | NEAR, SEEN | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, SEEN},
};

static VkResult take_memory(
    gale__vk_device *d, gale__vk_place place, const VkMemoryRequirements *need, VkDeviceMemory *out)
{
    VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = &flags, .allocationSize = need->size};
    VkResult r = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    uint32_t tried = 0;
    for (int w = 0; w < 3; w++) {
        for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++) {
            const VkMemoryType *type = &d->memory.memoryTypes[i];
            uint32_t bit = 1u << i;
            if ((tried & bit) || !(need->memoryTypeBits & bit) ||
                (type->propertyFlags & wishes[place][w]) != wishes[place][w])
                continue;
            if (d->memory.memoryHeaps[type->heapIndex].size < need->size) continue;
            tried |= bit;
            info.memoryTypeIndex = i;
            r = d->fn.vkAllocateMemory(d->handle, &info, NULL, out);
            if (r != VK_ERROR_OUT_OF_DEVICE_MEMORY && r != VK_ERROR_OUT_OF_HOST_MEMORY) return r;
        }
        /* Memory outside the device is far slower, so running out of device memory is an error that lets plans
         * shrink. */
        if (place == GALE__VK_DEVICE && tried) break;
    }
    return r;
}

gale_status gale__vk_mem_alloc(gale__vk_device *d, gale__vk_place place, size_t size, gale__mem *out)
{
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = size ? size : 1,
        .usage = VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
    };
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkMemoryRequirements need;
    void *host = NULL;
    if (place == GALE__VK_DEVICE && size > d->physical.info.caps.alloc_max_bytes)
        return gale__fail(GALE_NO_MEMORY, "%zu bytes requested, but %s allows at most %llu at once", size, d->name,
            (unsigned long long)d->physical.info.caps.alloc_max_bytes);
    VkResult r = d->fn.vkCreateBuffer(d->handle, &info, NULL, &buffer);
    if (r != VK_SUCCESS) return gale__vk_fail(r, "vkCreateBuffer of %zu bytes", size);
    d->fn.vkGetBufferMemoryRequirements(d->handle, buffer, &need);
    r = take_memory(d, place, &need, &memory);
    if (r == VK_SUCCESS) r = d->fn.vkBindBufferMemory(d->handle, buffer, memory, 0);
    if (r == VK_SUCCESS && place != GALE__VK_DEVICE)
        r = d->fn.vkMapMemory(d->handle, memory, 0, VK_WHOLE_SIZE, 0, &host);
    if (r != VK_SUCCESS) {
        d->fn.vkDestroyBuffer(d->handle, buffer, NULL);
        if (memory) d->fn.vkFreeMemory(d->handle, memory, NULL);
        return gale__vk_fail(r, "vkAllocateMemory of %zu bytes", size);
    }
    VkBufferDeviceAddressInfo where = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = buffer};
    *out = (gale__mem){d->fn.vkGetBufferDeviceAddress(d->handle, &where), buffer, memory, host, size};
    return GALE_OK;
}

void gale__vk_mem_free(gale__vk_device *d, gale__mem *mem)
{
    if (!mem->handle) return;
    d->fn.vkDestroyBuffer(d->handle, mem->handle, NULL);
    d->fn.vkFreeMemory(d->handle, mem->extra, NULL);
    *mem = (gale__mem){0};
}

gale_status gale__vk_alloc(gale_device *device, gale__mem_kind kind, size_t size, gale__mem *out)
{
    return gale__vk_mem_alloc(gale__vk_of(device), kind == GALE__MEM_HOST ? GALE__VK_HOST : GALE__VK_DEVICE, size, out);
}

void gale__vk_free(gale_device *device, gale__mem *mem)
{
    gale__vk_device *d = gale__vk_of(device);
    gale__vk_quiesce(d);
    gale__vk_mem_free(d, mem);
}

gale_status gale__vk_memory_info(gale_device *device, uint64_t *total, uint64_t *free_bytes)
{
    gale__vk_device *d = gale__vk_of(device);
    gale__vk_heap(&d->fn, &d->physical, total, free_bytes);
    return GALE_OK;
}
