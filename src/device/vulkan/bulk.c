/* Large copies and fills within device memory, by gale's own kernels: a driver's copy command may reach only a fifth
 * of the memory rate (NVIDIA's on a compute-only queue does). */
#include "device/vulkan/vulkan.h"
#include <spirv/unified1/spirv.h>

#define GROUP 256u
#define VECTOR 16u                   /* bytes that a thread moves */
#define GROUPS_MAX 65535u            /* what every device takes */
#define BULK_BYTES ((size_t)1 << 20) /* below this the command is as good */

/* clang-format off */
#define I(op, words) (uint32_t)((words) << 16 | SpvOp##op)
enum { VOID = 1, FN, U32, U64, BOOL, V3, V4, P_V3, ID, BLOCK, P_BLOCK, PUSH, PP_U64, PP_U32, P_V4, N0, N1, N2, L16, L32, COPY, FILL = COPY + 32, BOUND = FILL + 32 };

/* Begins a function: loads the block { u64 to; u64 from or pattern; u32 n }, takes the thread's number, leaves when it is
 * n or more, and works out the place to write to.  Results: f+2 to, f+4 the second, f+12 the offset, f+14 the place. */
#define BEGIN(f)                                                                                          \
    I(Function, 5), VOID, f, SpvFunctionControlMaskNone, FN, I(Label, 2), f + 20,                         \
    I(AccessChain, 5), PP_U64, f + 1, PUSH, N0, I(Load, 4), U64, f + 2, f + 1,                            \
    I(AccessChain, 5), PP_U64, f + 3, PUSH, N1, I(Load, 4), U64, f + 4, f + 3,                            \
    I(AccessChain, 5), PP_U32, f + 5, PUSH, N2, I(Load, 4), U32, f + 6, f + 5,                            \
    I(Load, 4), V3, f + 7, ID, I(CompositeExtract, 5), U32, f + 8, f + 7, 0,                              \
    I(ULessThan, 5), BOOL, f + 9, f + 8, f + 6,                                                           \
    I(SelectionMerge, 3), f + 10, SpvSelectionControlMaskNone, I(BranchConditional, 4), f + 9, f + 21, f + 10, \
    I(Label, 2), f + 21,                                                                                  \
    I(UConvert, 4), U64, f + 11, f + 8, I(IMul, 5), U64, f + 12, f + 11, L16,                             \
    I(IAdd, 5), U64, f + 13, f + 2, f + 12, I(ConvertUToPtr, 4), P_V4, f + 14, f + 13
/* Stores f+15 and ends it. */
#define END(f)                                                                                            \
    I(Store, 5), f + 14, f + 15, SpvMemoryAccessAlignedMask, VECTOR,                                      \
    I(Branch, 2), f + 10, I(Label, 2), f + 10, I(Return, 1), I(FunctionEnd, 1)

static const uint32_t words[] = {
    SpvMagicNumber, 0x00010500, 0, BOUND, 0,
    I(Capability, 2), SpvCapabilityShader, I(Capability, 2), SpvCapabilityInt64,
    I(Capability, 2), SpvCapabilityPhysicalStorageBufferAddresses,
    I(MemoryModel, 3), SpvAddressingModelPhysicalStorageBuffer64, SpvMemoryModelGLSL450,
    I(EntryPoint, 7), SpvExecutionModelGLCompute, COPY, 0x79706f63, 0, ID, PUSH, /* "copy" */
    I(EntryPoint, 7), SpvExecutionModelGLCompute, FILL, 0x6c6c6966, 0, ID, PUSH, /* "fill" */
    I(ExecutionMode, 6), COPY, SpvExecutionModeLocalSize, GROUP, 1, 1,
    I(ExecutionMode, 6), FILL, SpvExecutionModeLocalSize, GROUP, 1, 1,
    I(Decorate, 4), ID, SpvDecorationBuiltIn, SpvBuiltInGlobalInvocationId,
    I(Decorate, 3), BLOCK, SpvDecorationBlock,
    I(MemberDecorate, 5), BLOCK, 0, SpvDecorationOffset, 0, I(MemberDecorate, 5), BLOCK, 1, SpvDecorationOffset, 8,
    I(MemberDecorate, 5), BLOCK, 2, SpvDecorationOffset, 16,
    I(TypeVoid, 2), VOID, I(TypeFunction, 3), FN, VOID, I(TypeInt, 4), U32, 32, 0, I(TypeInt, 4), U64, 64, 0, I(TypeBool, 2), BOOL,
    I(TypeVector, 4), V3, U32, 3, I(TypeVector, 4), V4, U32, 4,
    I(TypePointer, 4), P_V3, SpvStorageClassInput, V3, I(Variable, 4), P_V3, ID, SpvStorageClassInput,
    I(TypeStruct, 5), BLOCK, U64, U64, U32,
    I(TypePointer, 4), P_BLOCK, SpvStorageClassPushConstant, BLOCK, I(Variable, 4), P_BLOCK, PUSH, SpvStorageClassPushConstant,
    I(TypePointer, 4), PP_U64, SpvStorageClassPushConstant, U64, I(TypePointer, 4), PP_U32, SpvStorageClassPushConstant, U32,
    I(TypePointer, 4), P_V4, SpvStorageClassPhysicalStorageBuffer, V4,
    I(Constant, 4), U32, N0, 0, I(Constant, 4), U32, N1, 1, I(Constant, 4), U32, N2, 2,
    I(Constant, 5), U64, L16, VECTOR, 0, I(Constant, 5), U64, L32, 32, 0,
    BEGIN(COPY),
    I(IAdd, 5), U64, COPY + 16, COPY + 4, COPY + 12, I(ConvertUToPtr, 4), P_V4, COPY + 17, COPY + 16,
    I(Load, 6), V4, COPY + 15, COPY + 17, SpvMemoryAccessAlignedMask, VECTOR,
    END(COPY),
    BEGIN(FILL),
    I(UConvert, 4), U32, FILL + 16, FILL + 4, I(ShiftRightLogical, 5), U64, FILL + 17, FILL + 4, L32, I(UConvert, 4), U32, FILL + 18, FILL + 17,
    I(CompositeConstruct, 7), V4, FILL + 15, FILL + 16, FILL + 18, FILL + 16, FILL + 18,
    END(FILL),
};
/* clang-format on */

static VkPipeline make_pipeline(gale__vk_device *d, VkShaderModule module, const char *entry)
{
    VkPipeline made = VK_NULL_HANDLE;
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
            .stage = VK_SHADER_STAGE_COMPUTE_BIT,
            .module = module,
            .pName = entry},
        .layout = d->layout,
    };
    return d->fn.vkCreateComputePipelines(d->handle, VK_NULL_HANDLE, 1, &info, NULL, &made) == VK_SUCCESS
               ? made
               : VK_NULL_HANDLE;
}

/* Created on first use; a device that fails here uses the driver's commands. */
static bool have_pipelines(gale__vk_device *d)
{
    if (!d->bulk.wanted) return false;
    gale__mutex_lock(&d->bulk.lock);
    if (!d->bulk.tried) {
        d->bulk.tried = true;
        VkShaderModule module = VK_NULL_HANDLE;
        VkShaderModuleCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = sizeof words, .pCode = words};
        if (d->fn.vkCreateShaderModule(d->handle, &info, NULL, &module) == VK_SUCCESS) {
            d->bulk.copy = make_pipeline(d, module, "copy");
            d->bulk.fill = make_pipeline(d, module, "fill");
            d->fn.vkDestroyShaderModule(d->handle, module, NULL);
        }
    }
    bool have = d->bulk.copy && d->bulk.fill;
    gale__mutex_unlock(&d->bulk.lock);
    return have;
}

void gale__vk_bulk_finish(gale__vk_device *d)
{
    if (d->bulk.copy) d->fn.vkDestroyPipeline(d->handle, d->bulk.copy, NULL);
    if (d->bulk.fill) d->fn.vkDestroyPipeline(d->handle, d->bulk.fill, NULL);
}

/* Dispatches that touch different places need no order among themselves. */
static void dispatch(gale__vk_device *d, gale__vk_recorder *rec, VkPipeline pipeline, uint64_t to, uint64_t second,
    bool moves, size_t vectors)
{
    rec->bound = pipeline;
    d->fn.vkCmdBindPipeline(rec->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    for (size_t done = 0, n; done < vectors; done += n) {
        n = vectors - done < (size_t)GROUPS_MAX * GROUP ? vectors - done : (size_t)GROUPS_MAX * GROUP;
        struct {
            uint64_t to, second;
            uint32_t n;
        } block = {to + done * VECTOR, moves ? second + done * VECTOR : second, (uint32_t)n};
        d->fn.vkCmdPushConstants(rec->commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 20, &block);
        d->fn.vkCmdDispatch(rec->commands, (uint32_t)((n + GROUP - 1) / GROUP), 1, 1);
    }
}

static bool fits(const gale__ref *ref) { return !ref->mem->host && (ref->mem->address + ref->offset) % VECTOR == 0; }

size_t gale__vk_bulk_copy(gale__vk_device *d, gale__vk_recorder *rec, gale__ref to, gale__ref from, size_t size)
{
    if (size < BULK_BYTES || !fits(&to) || !fits(&from) || !have_pipelines(d)) return 0;
    dispatch(d, rec, d->bulk.copy, to.mem->address + to.offset, from.mem->address + from.offset, true, size / VECTOR);
    return size / VECTOR * VECTOR;
}

size_t gale__vk_bulk_fill(gale__vk_device *d, gale__vk_recorder *rec, gale__ref to, size_t size, uint64_t pattern)
{
    if (size < BULK_BYTES || !fits(&to) || !have_pipelines(d)) return 0;
    dispatch(d, rec, d->bulk.fill, to.mem->address + to.offset, pattern, false, size / VECTOR);
    return size / VECTOR * VECTOR;
}
