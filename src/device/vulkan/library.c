/* Loads libvulkan at run time, names its errors and creates instances, with Khronos' validation layer if requested. */
#include "device/library.h"
#include "device/vulkan/vulkan.h"
#include <stdio.h>
#include <string.h>

static const char *const sonames[] = {"libvulkan.so.1", "libvulkan.so", NULL};
static const char *const symbols[] = {"vkGetInstanceProcAddr"};
static struct {
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
} table;
static gale__library library = {sonames, symbols, 1, &table, "not a Vulkan loader", NULL};

/* Without the loader (containers often lack it) NVIDIA's driver is asked directly, as the loader would ask it.
 * The library for EGL comes first: the one for GLX refuses without an X server. */
static const char *const driver_sonames[] = {"libEGL_nvidia.so.0", "libGLX_nvidia.so.0", NULL};
static const char *const driver_symbols[] = {"vk_icdNegotiateLoaderICDInterfaceVersion", "vk_icdGetInstanceProcAddr"};
static struct {
    VkResult(VKAPI_PTR *negotiate)(uint32_t *version);
    PFN_vkGetInstanceProcAddr get;
} driver_table;
static gale__library driver = {driver_sonames, driver_symbols, 2, &driver_table, "not a Vulkan driver", NULL};

const char *gale__vk_soname(void)
{
    return library.dl ? gale__dl_name(library.dl) : driver.dl ? gale__dl_name(driver.dl) : "";
}

static VKAPI_ATTR VkResult VKAPI_CALL no_layers(uint32_t *count, VkLayerProperties *list)
{
    (void)list;
    *count = 0;
    return VK_SUCCESS;
}

/* Layers are the loader's business, so a driver does not know the function that lists them. */
static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL ask_driver(VkInstance instance, const char *name)
{
    if (!strcmp(name, "vkEnumerateInstanceLayerProperties")) return (PFN_vkVoidFunction)no_layers;
    return driver_table.get(instance, name);
}

static gale_status find_entry(PFN_vkGetInstanceProcAddr *out)
{
    gale_status status = gale__library_load(&library);
    if (status == GALE_OK) {
        *out = table.vkGetInstanceProcAddr;
        return GALE_OK;
    }
    char reason[512];
    snprintf(reason, sizeof reason, "%s", gale_error());
    uint32_t version = 5;
    if (status != GALE_NOT_FOUND || gale__library_load(&driver) != GALE_OK ||
        driver_table.negotiate(&version) != VK_SUCCESS)
        return gale__fail(status, "%s", reason);
    *out = ask_driver;
    return GALE_OK;
}

static const gale__driver_error error_list[] = {
#define X(name, status) {name, GALE_##status, #name},
#include "device/vulkan/errors.def"
#undef X
};

static const gale__driver_errors errors = {"Vulkan", error_list, sizeof error_list / sizeof *error_list};

gale_status gale__vk_fail(VkResult error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gale_status status = gale__driver_fail(&errors, (int)error, format, args);
    va_end(args);
    return status;
}

static gale_status load_global(gale__vk *fn)
{
    GALE_TRY(find_entry(&fn->vkGetInstanceProcAddr));
#define GLOBAL(name)                                               \
    fn->name = (PFN_##name)fn->vkGetInstanceProcAddr(NULL, #name); \
    if (!fn->name) return gale__fail(GALE_UNSUPPORTED, "%s is older than Vulkan 1.2 (no %s)", gale__vk_soname(), #name);
#include "device/vulkan/symbols.def"
    uint32_t version = 0;
    fn->vkEnumerateInstanceVersion(&version);
    if (version < VK_API_VERSION_1_2)
        return gale__fail(GALE_UNSUPPORTED, "%s is version %u.%u; 1.2 is needed", gale__vk_soname(),
            VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    return GALE_OK;
}

static gale_status load_instance(gale__vk *fn, VkInstance instance)
{
#define INSTANCE(name)                                                 \
    fn->name = (PFN_##name)fn->vkGetInstanceProcAddr(instance, #name); \
    if (!fn->name) return gale__fail(GALE_UNSUPPORTED, "%s has no %s", gale__vk_soname(), #name);
#include "device/vulkan/symbols.def"
    return GALE_OK;
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
    VkDebugUtilsMessageTypeFlagsEXT type, const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)type, (void)user;
    gale__log(severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT ? GALE__WARN : GALE__INFO, "vulkan layer: %s",
        data->pMessage);
    return VK_FALSE;
}

static bool has_layer(const gale__vk *fn, const char *name)
{
    VkLayerProperties list[64];
    uint32_t count = 64;
    if (fn->vkEnumerateInstanceLayerProperties(&count, list) < 0) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(list[i].layerName, name)) return true;
    return false;
}

static bool has_extension(const gale__vk *fn, const char *name)
{
    VkExtensionProperties list[128];
    uint32_t count = 128;
    if (fn->vkEnumerateInstanceExtensionProperties(NULL, &count, list) < 0) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(list[i].extensionName, name)) return true;
    return false;
}

static void listen(gale__vk_instance *i, const VkDebugUtilsMessengerCreateInfoEXT *info)
{
    PFN_vkCreateDebugUtilsMessengerEXT create =
        (PFN_vkCreateDebugUtilsMessengerEXT)i->fn.vkGetInstanceProcAddr(i->handle, "vkCreateDebugUtilsMessengerEXT");
    if (create) create(i->handle, info, NULL, &i->messenger);
}

static gale_status create_failed(VkResult error)
{
    if (error == VK_ERROR_INCOMPATIBLE_DRIVER)
        return gale__fail(GALE_NO_DEVICE, "no Vulkan driver: the loader is installed, but no working ICD");
    return gale__vk_fail(error, "vkCreateInstance");
}

gale_status gale__vk_instance_open(bool debug_layer, gale__vk_instance *out)
{
    gale__vk_instance i = {0};
    GALE_TRY(load_global(&i.fn));
    const char *layer = "VK_LAYER_KHRONOS_validation", *extensions[2];
    uint32_t n_extensions = 0;
    bool layered = debug_layer && has_layer(&i.fn, layer),
         heard = layered && has_extension(&i.fn, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    bool portable = has_extension(&i.fn, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    if (debug_layer && !layered) gale__log(GALE__WARN, "vulkan: no validation layer (install vulkan-validationlayers)");
    if (heard) extensions[n_extensions++] = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    if (portable) extensions[n_extensions++] = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
    VkDebugUtilsMessengerCreateInfoEXT messages = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = on_message,
    };
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "gale",
        .pEngineName = "gale",
        .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = heard ? &messages : NULL,
        .flags = portable ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
        .pApplicationInfo = &app,
        .enabledLayerCount = layered,
        .ppEnabledLayerNames = &layer,
        .enabledExtensionCount = n_extensions,
        .ppEnabledExtensionNames = extensions,
    };
    VkResult r = i.fn.vkCreateInstance(&info, NULL, &i.handle);
    if (r != VK_SUCCESS) return create_failed(r);
    gale_status status = load_instance(&i.fn, i.handle);
    if (status != GALE_OK) {
        gale__vk_instance_close(&i);
        return status;
    }
    if (heard) listen(&i, &messages);
    *out = i;
    return GALE_OK;
}

void gale__vk_instance_close(gale__vk_instance *i)
{
    if (!i->handle) return;
    if (i->messenger) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy = (PFN_vkDestroyDebugUtilsMessengerEXT)i->fn.vkGetInstanceProcAddr(
            i->handle, "vkDestroyDebugUtilsMessengerEXT");
        if (destroy) destroy(i->handle, i->messenger, NULL);
    }
    if (i->fn.vkDestroyInstance) i->fn.vkDestroyInstance(i->handle, NULL);
    *i = (gale__vk_instance){0};
}
