/* Finds and describes the usable Vulkan devices (1.2, a compute queue, buffer addresses, 64-bit integers, timelines).
 * Other devices are not counted, and the reason names what they lack. */
#include "device/vulkan/vulkan.h"
#include <stdio.h>
#include <string.h>

#define MAX_DEVICES 32

typedef struct properties {
    VkPhysicalDeviceProperties2 base;
    VkPhysicalDeviceVulkan11Properties v11;
    VkPhysicalDeviceVulkan12Properties v12;
    VkPhysicalDeviceSubgroupSizeControlProperties control;
    VkPhysicalDeviceMaintenance4Properties maintenance4;
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV sm;
} properties;

/* Links the structures this device knows, in front of one another. */
static void *link_one(void *chain, bool known, VkBaseOutStructure *s, VkStructureType type)
{
    s->sType = type;
    s->pNext = NULL;
    if (!known) return chain;
    s->pNext = chain;
    return s;
}
#define LINK(chain, known, s, type) \
    link_one(chain, known, (VkBaseOutStructure *)(void *)(s), VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_##type)

void gale__vk_features_link(gale__vk_physical *p, gale__vk_features *f)
{
    void *chain = link_one(
        NULL, p->has_matrix, (VkBaseOutStructure *)(void *)&f->matrix, (VkStructureType)GALE__VK_MATRIX_FEATURES);
    chain =
        link_one(chain, p->has_bf16, (VkBaseOutStructure *)(void *)&f->bf16, (VkStructureType)GALE__VK_BF16_FEATURES);
    chain = LINK(chain, p->has_atomic, &f->atomic, SHADER_ATOMIC_FLOAT_FEATURES_EXT);
    chain = LINK(chain, p->has_dot, &f->dot, SHADER_INTEGER_DOT_PRODUCT_FEATURES);
    chain = LINK(chain, p->has_control, &f->control, SUBGROUP_SIZE_CONTROL_FEATURES);
    chain = LINK(chain, true, &f->v12, VULKAN_1_2_FEATURES);
    chain = LINK(chain, true, &f->v11, VULKAN_1_1_FEATURES);
    LINK(chain, true, &f->base, FEATURES_2);
}

static void get_properties(const gale__vk *fn, gale__vk_physical *p, properties *out)
{
    memset(out, 0, sizeof *out);
    void *chain = LINK(NULL, p->has_sm, &out->sm, SHADER_SM_BUILTINS_PROPERTIES_NV);
    chain = LINK(chain, p->version >= VK_API_VERSION_1_3, &out->maintenance4, MAINTENANCE_4_PROPERTIES);
    chain = LINK(chain, p->has_control, &out->control, SUBGROUP_SIZE_CONTROL_PROPERTIES);
    chain = LINK(chain, true, &out->v12, VULKAN_1_2_PROPERTIES);
    chain = LINK(chain, true, &out->v11, VULKAN_1_1_PROPERTIES);
    LINK(chain, true, &out->base, PROPERTIES_2);
    fn->vkGetPhysicalDeviceProperties2(p->handle, &out->base);
}

/* Turns on an extension that is there; true when the device has what it brings. */
static bool enable_extension(
    gale__vk_physical *p, const VkExtensionProperties *list, uint32_t count, const char *name, bool in_version)
{
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(list[i].extensionName, name)) {
            p->extensions[p->n_extensions++] = name;
            return true;
        }
    return in_version;
}

static gale_status enable_extensions(const gale__vk *fn, gale__vk_physical *p)
{
    uint32_t count = 0;
    fn->vkEnumerateDeviceExtensionProperties(p->handle, NULL, &count, NULL);
    VkExtensionProperties *list = gale__calloc(count + 1, sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    if (fn->vkEnumerateDeviceExtensionProperties(p->handle, NULL, &count, list) < 0) count = 0;
    bool v13 = p->version >= VK_API_VERSION_1_3;
    p->has_control = enable_extension(p, list, count, "VK_EXT_subgroup_size_control", v13);
    p->has_dot = enable_extension(p, list, count, "VK_KHR_shader_integer_dot_product", v13);
    p->has_atomic = enable_extension(p, list, count, "VK_EXT_shader_atomic_float", false);
    p->has_budget = enable_extension(p, list, count, "VK_EXT_memory_budget", false);
    p->has_sm = enable_extension(p, list, count, "VK_NV_shader_sm_builtins", false);
    p->has_matrix = enable_extension(p, list, count, "VK_KHR_cooperative_matrix", false);
    p->has_bf16 = p->has_matrix && enable_extension(p, list, count, "VK_KHR_shader_bfloat16", false);
    enable_extension(p, list, count, "VK_KHR_portability_subset", false); /* must be turned on where it is */
    gale__free(list);
    return GALE_OK;
}

/* A queue for computing only, if it has a clock, runs beside the display's. */
static bool choose_queue(const gale__vk *fn, gale__vk_physical *p)
{
    VkQueueFamilyProperties list[32];
    uint32_t count = 32;
    int best = -1;
    fn->vkGetPhysicalDeviceQueueFamilyProperties(p->handle, &count, list);
    for (uint32_t i = 0; i < count; i++) {
        if (!(list[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || !list[i].queueCount) continue;
        int score = (list[i].timestampValidBits ? 2 : 0) + (list[i].queueFlags & VK_QUEUE_GRAPHICS_BIT ? 0 : 1);
        if (score <= best) continue;
        best = score;
        p->family = i;
        p->n_queues = list[i].queueCount;
        p->timestamp_bits = list[i].timestampValidBits;
    }
    return best >= 0;
}

/* Asks for all features of the list that are there; the names of needed ones that are not go to `missing`. */
static void choose_features(const gale__vk *fn, gale__vk_physical *p, gale__str *missing)
{
    gale__vk_features have;
    memset(&have, 0, sizeof have);
    gale__vk_features_link(p, &have);
    fn->vkGetPhysicalDeviceFeatures2(p->handle, &have.base);
    memset(&p->features, 0, sizeof p->features);
#define X(where, feature, needed)                   \
    p->features.where.feature = have.where.feature; \
    if (needed && !have.where.feature) gale__str_addf(missing, "%s%s", missing->length ? ", " : "", #feature);
#include "device/vulkan/features.def"
#undef X
}

static const char *vendor_name(uint32_t id)
{
    static const struct {
        uint32_t id;
        const char *name;
    } vendors[] = {
        {0x10DE, "NVIDIA"},
        {0x1002, "AMD"},
        {0x8086, "Intel"},
        {0x13B5, "ARM"},
        {0x5143, "Qualcomm"},
        {0x106B, "Apple"},
        {0x1010, "ImgTec"},
        {0x14E4, "Broadcom"},
        {VK_VENDOR_ID_MESA, "Mesa"},
    };
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++)
        if (vendors[i].id == id) return vendors[i].name;
    return "unknown";
}

void gale__vk_heap(const gale__vk *fn, const gale__vk_physical *p, uint64_t *total, uint64_t *free_bytes)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 m = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = p->has_budget ? &budget : NULL};
    fn->vkGetPhysicalDeviceMemoryProperties2(p->handle, &m);
    *total = *free_bytes = 0;
    for (uint32_t i = 0; i < m.memoryProperties.memoryHeapCount; i++) {
        const VkMemoryHeap *heap = &m.memoryProperties.memoryHeaps[i];
        if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) || heap->size <= *total) continue;
        *total = heap->size;
        *free_bytes = p->has_budget && budget.heapBudget[i] > budget.heapUsage[i]
                          ? budget.heapBudget[i] - budget.heapUsage[i]
                          : 0;
    }
}

static uint64_t least(uint64_t a, uint64_t b) { return b && b < a ? b : a; }

static void describe_caps(const gale__vk *fn, gale__vk_physical *p, const properties *pr, gale_device_caps *caps)
{
    const VkPhysicalDeviceLimits *limits = &pr->base.properties.limits;
    const gale__vk_features *f = &p->features;
    gale__vk_heap(fn, p, &caps->memory_bytes, &caps->memory_free_bytes);
    caps->alloc_max_bytes =
        least(least(caps->memory_bytes, pr->v11.maxMemoryAllocationSize), pr->maintenance4.maxBufferSize);
    caps->compute_units = pr->sm.shaderSMCount;
    caps->subgroup = pr->v11.subgroupSize ? pr->v11.subgroupSize : 1;
    caps->group_max = limits->maxComputeWorkGroupInvocations;
    for (int i = 0; i < 3; i++) caps->groups_max[i] = limits->maxComputeWorkGroupCount[i];
    if (pr->v12.driverID == VK_DRIVER_ID_MESA_LLVMPIPE) caps->loop_max = 65535;
    caps->shared_bytes = limits->maxComputeSharedMemorySize;
    caps->push_bytes = (uint32_t)least(GALE__VK_PUSH, limits->maxPushConstantsSize);
    caps->storage8 = f->v12.storageBuffer8BitAccess && f->v12.shaderInt8;
    caps->storage16 = f->v11.storageBuffer16BitAccess && f->base.features.shaderInt16;
    caps->f16 = f->v12.shaderFloat16 && f->v11.storageBuffer16BitAccess;
    caps->f64 = f->base.features.shaderFloat64;
    caps->i64 = true;
    /* Kernels ask for f32 alone; a driver that wants one answer for all widths is not asked. */
    caps->denormals = pr->v12.shaderDenormPreserveFloat32 &&
                      pr->v12.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
    caps->nan_inf = pr->v12.shaderSignedZeroInfNanPreserveFloat32;
    caps->memory_model = f->v12.vulkanMemoryModel;
    const VkSubgroupFeatureFlags ops = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
                                       VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT;
    bool steady = p->subgroup_min == p->subgroup_max || p->subgroup_settable;
    caps->subgroup_ops = steady && (pr->v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                         (pr->v11.subgroupSupportedOperations & ops) == ops;
    caps->capture = caps->spirv = caps->holds_data = true;
    caps->kernels_per_module = 1;
    VkPhysicalDeviceType type = pr->base.properties.deviceType;
    caps->software = caps->exact_division =
        type == VK_PHYSICAL_DEVICE_TYPE_CPU; /* Vulkan promises 2.5 ulp, and that not everywhere */
    /* Vulkan promises 3 + 2 |x| ulp for exp, 3 for log (2^-21 near 1) and 2.5 for division.  The emulated fma of
     * software drivers does not make NaN of infinity times 0, which kernels of such devices rely on. */
    caps->own_math = !caps->software && caps->nan_inf;
    if (!caps->software) caps->shared_most_bytes = caps->shared_bytes; /* results lie over operands */
    caps->unified_memory = caps->software || type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
}

static uint8_t component_type(uint32_t component)
{
    return (uint8_t)(component == GALE__VK_COMPONENT_F16    ? GALE_F16
                     : component == GALE__VK_COMPONENT_BF16 ? GALE_BF16
                     : component == GALE__VK_COMPONENT_F32  ? GALE_F32
                                                            : GALE_TYPE_COUNT);
}

/* What subgroups multiply, of floats; kernels also need small work-group elements and the memory model. */
static void describe_matrix(VkInstance instance, const gale__vk *fn, const gale__vk_physical *p, gale_device_caps *caps)
{
    gale__vk_matrix_properties list[64];
    uint32_t count = 64;
    gale__vk_get_matrix_properties get = (gale__vk_get_matrix_properties)fn->vkGetInstanceProcAddr(
        instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    if (!p->features.matrix.cooperativeMatrix || !get || !caps->memory_model || !caps->storage16 || !caps->f16 ||
        (p->subgroup_min != p->subgroup_max && !p->subgroup_settable))
        return;
    for (uint32_t i = 0; i < count; i++)
        list[i] = (gale__vk_matrix_properties){.sType = (VkStructureType)GALE__VK_MATRIX_PROPERTIES};
    if (get(p->handle, &count, list) < 0) return;
    for (uint32_t i = 0; i < count && caps->n_matrix < GALE_MATRIX_SHAPES; i++) {
        const gale__vk_matrix_properties *m = &list[i];
        uint8_t operand = component_type(m->a), sum = component_type(m->c);
        bool bf16 = p->features.bf16.shaderBFloat16Type && p->features.bf16.shaderBFloat16CooperativeMatrix;
        if (m->scope != GALE__VK_SCOPE_SUBGROUP || m->a != m->b || m->c != m->result || operand == GALE_TYPE_COUNT ||
            sum == GALE_TYPE_COUNT || (operand == GALE_BF16 && !bf16))
            continue;
        caps->matrix[caps->n_matrix++] =
            (gale_matrix_shape){(uint16_t)m->m, (uint16_t)m->n, (uint16_t)m->k, operand, sum};
    }
}

static void describe(VkInstance instance, const gale__vk *fn, gale__vk_physical *p)
{
    properties pr;
    get_properties(fn, p, &pr);
    gale_device_info *info = &p->info;
    const VkPhysicalDeviceProperties *base = &pr.base.properties;
    p->timestamp_ns = (double)base->limits.timestampPeriod;
    p->subgroup_min = pr.control.minSubgroupSize;
    p->subgroup_max = pr.control.maxSubgroupSize;
    p->subgroup_settable = p->features.control.subgroupSizeControl && p->features.control.computeFullSubgroups &&
                           (pr.control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
    info->backend = "vulkan";
    snprintf(info->name, sizeof info->name, "%.127s", base->deviceName);
    snprintf(info->vendor, sizeof info->vendor, "%s", vendor_name(base->vendorID));
    snprintf(info->driver, sizeof info->driver, "%.30s %.40s (Vulkan %u.%u.%u)", pr.v12.driverName, pr.v12.driverInfo,
        VK_API_VERSION_MAJOR(base->apiVersion), VK_API_VERSION_MINOR(base->apiVersion),
        VK_API_VERSION_PATCH(base->apiVersion));
    size_t used = (size_t)snprintf(info->id, sizeof info->id, "uuid-");
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        used += (size_t)snprintf(info->id + used, sizeof info->id - used, "%02x", pr.v11.deviceUUID[i]);
    describe_caps(fn, p, &pr, &info->caps);
    describe_matrix(instance, fn, p, &info->caps);
}

/* Fills `p` and says true when the device can serve; else why not. */
static gale_status examine(
    const gale__vk_instance *instance, VkPhysicalDevice handle, gale__probe *why, gale__vk_physical *p, bool *serves)
{
    const gale__vk *fn = &instance->fn;
    VkPhysicalDeviceProperties2 base = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    *p = (gale__vk_physical){.handle = handle};
    *serves = false;
    fn->vkGetPhysicalDeviceProperties2(handle, &base);
    const char *name = base.properties.deviceName;
    p->version = base.properties.apiVersion;
    if (p->version < VK_API_VERSION_1_2) {
        snprintf(why->reason, sizeof why->reason, "%s: version too old: Vulkan %u.%u; 1.2 is needed", name,
            VK_API_VERSION_MAJOR(p->version), VK_API_VERSION_MINOR(p->version));
        return GALE_OK;
    }
    GALE_TRY(enable_extensions(fn, p));
    if (!choose_queue(fn, p)) {
        snprintf(why->reason, sizeof why->reason, "%s: no compute queue", name);
        return GALE_OK;
    }
    gale__str missing = {0};
    choose_features(fn, p, &missing);
    if (!missing.length && !missing.failed) {
        describe(instance->handle, fn, p);
        *serves = true;
    } else snprintf(why->reason, sizeof why->reason, "%s: the driver lacks %s", name, gale__str_text(&missing));
    gale_status status = gale__str_check(&missing);
    gale__str_finish(&missing);
    return status;
}

gale_status gale__vk_find(gale__vk_instance *instance, gale__probe *why, gale__vk_physical **out, int *count)
{
    VkPhysicalDevice handles[MAX_DEVICES];
    uint32_t n = MAX_DEVICES;
    if (instance->fn.vkEnumeratePhysicalDevices(instance->handle, &n, handles) < 0) n = 0;
    snprintf(
        why->reason, sizeof why->reason, "no Vulkan device: the loader is installed, but no driver found a device");
    snprintf(why->remedy, sizeof why->remedy,
        "install the driver of your device, or mesa-vulkan-drivers; check that this user may open the device (group "
        "render or video)");
    gale__vk_physical *list = gale__calloc(n + 1, sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    int real = 0, total = 0;
    for (uint32_t i = 0; i < n; i++) {
        gale__vk_physical p;
        bool serves;
        gale_status status = examine(instance, handles[i], why, &p, &serves);
        if (status != GALE_OK) {
            gale__free(list);
            return status;
        }
        if (!serves) continue;
        int at = p.info.caps.software ? total : real++;
        memmove(&list[at + 1], &list[at], (size_t)(total - at) * sizeof *list);
        list[at] = p;
        total++;
    }
    for (int i = 0; i < total; i++) list[i].info.index = i;
    *out = list;
    *count = total;
    return GALE_OK;
}

static void absent(gale_status status, gale__probe *out)
{
    snprintf(out->reason, sizeof out->reason, "%s", gale_error());
    snprintf(out->remedy, sizeof out->remedy, "%s",
        status == GALE_NOT_FOUND     ? "install libvulkan1 and the Vulkan driver of your device (mesa-vulkan-drivers)"
        : status == GALE_UNSUPPORTED ? "install a newer libvulkan1"
                                     : "install the Vulkan driver of your device, or mesa-vulkan-drivers");
}

gale_status gale__vk_probe(gale__probe *out)
{
    gale__vk_instance instance;
    gale_status status = gale__vk_instance_open(false, &instance);
    snprintf(out->library, sizeof out->library, "%s", gale__vk_soname());
    if (status != GALE_OK) {
        absent(status, out);
        return status == GALE_NO_MEMORY ? status : GALE_OK;
    }
    gale__vk_physical *list = NULL;
    int count = 0;
    status = gale__vk_find(&instance, out, &list, &count);
    if (status == GALE_OK && count) {
        out->devices = gale__calloc((size_t)count, sizeof *out->devices);
        if (!out->devices) status = GALE_NO_MEMORY;
        for (int i = 0; status == GALE_OK && i < count; i++) out->devices[i] = list[i].info;
        if (status == GALE_OK) {
            out->count = count;
            out->reason[0] = out->remedy[0] = 0;
        }
    }
    gale__free(list);
    gale__vk_instance_close(&instance);
    return status;
}
