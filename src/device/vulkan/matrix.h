/* VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16, which are newer than the headers of Debian 12: their
 * structures and constants, under gale's own names. */
#ifndef GALE_DEVICE_VULKAN_MATRIX_H
#define GALE_DEVICE_VULKAN_MATRIX_H
#include <vulkan/vulkan_core.h>

enum {
    GALE__VK_MATRIX_FEATURES = 1000506000, /* VkStructureType */
    GALE__VK_MATRIX_PROPERTIES = 1000506001,
    GALE__VK_BF16_FEATURES = 1000141000,
};
enum { GALE__VK_COMPONENT_F16 = 0, GALE__VK_COMPONENT_F32 = 1, GALE__VK_COMPONENT_BF16 = 1000141000 };
enum { GALE__VK_SCOPE_SUBGROUP = 3 };

typedef struct gale__vk_matrix_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} gale__vk_matrix_features;
typedef struct gale__vk_bf16_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 shaderBFloat16Type, shaderBFloat16DotProduct, shaderBFloat16CooperativeMatrix;
} gale__vk_bf16_features;
typedef struct gale__vk_matrix_properties {
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    uint32_t a, b, c, result; /* VkComponentTypeKHR */
    VkBool32 saturates;
    uint32_t scope; /* VkScopeKHR */
} gale__vk_matrix_properties;
typedef VkResult(VKAPI_PTR *gale__vk_get_matrix_properties)(
    VkPhysicalDevice device, uint32_t *count, gale__vk_matrix_properties *list);
#endif
