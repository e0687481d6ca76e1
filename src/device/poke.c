/* The kernel that writes one word.  Its source is in poke.cu and poke.cl; Vulkan's SPIR-V is written out below. */
#include "device/poke.h"
#include "device/poke_text.h"
#include <string.h>

static void poke_host(void *user, const gale__launch *launch)
{
    (void)user;
    memcpy((char *)launch->refs[0].mem->host + launch->refs[0].offset, launch->words, 4);
}

#define OP(code, words) (uint32_t)((words) << 16 | (code))
enum {
    MAIN = 1,
    VOID,
    FN,
    UINT,
    ZERO,
    ONE,
    WORD,
    P_WORD,
    BLOCK,
    P_BLOCK,
    PP_WORD,
    PP_UINT,
    P_UINT,
    PUSH,
    START,
    A,
    P,
    B,
    W,
    T,
    BOUND
};
enum { PUSH_CONSTANT = 9, STORAGE = 5349 }; /* storage classes: PushConstant, PhysicalStorageBuffer */

/* struct word { uint v; };  struct block { word *p; uint w; };  push constant block b;  b.p->v = b.w; */
static const uint32_t spirv[] = {
    0x07230203, 0x00010500, 0, BOUND, 0, OP(17, 2), 1,      /* OpCapability Shader */
    OP(17, 2), 5347,                                        /* OpCapability PhysicalStorageBufferAddresses */
    OP(14, 3), 5348, 1,                                     /* OpMemoryModel PhysicalStorageBuffer64 GLSL450 */
    OP(15, 7), 5, MAIN, 0x656c6167, 0x6b6f705f, 0x65, PUSH, /* OpEntryPoint GLCompute "gale_poke" */
    OP(16, 6), MAIN, 17, 1, 1, 1,                           /* OpExecutionMode LocalSize */
    OP(72, 5), BLOCK, 0, 35, 0, OP(72, 5), BLOCK, 1, 35, 8, OP(71, 3), BLOCK, 2, /* Offset, Block */
    OP(72, 5), WORD, 0, 35, 0, OP(71, 3), WORD, 2, OP(19, 2), VOID, OP(33, 3), FN, VOID, OP(21, 4), UINT, 32, 0,
    OP(43, 4), UINT, ZERO, 0, OP(43, 4), UINT, ONE, 1, OP(30, 3), WORD, UINT, OP(32, 4), P_WORD, STORAGE, WORD,
    OP(30, 4), BLOCK, P_WORD, UINT, OP(32, 4), P_BLOCK, PUSH_CONSTANT, BLOCK, OP(32, 4), PP_WORD, PUSH_CONSTANT, P_WORD,
    OP(32, 4), PP_UINT, PUSH_CONSTANT, UINT, OP(32, 4), P_UINT, STORAGE, UINT, OP(59, 4), P_BLOCK, PUSH,
    PUSH_CONSTANT,                                              /* OpVariable */
    OP(54, 5), VOID, MAIN, 0, FN, OP(248, 2), START,            /* OpFunction, OpLabel */
    OP(65, 5), PP_WORD, A, PUSH, ZERO, OP(61, 4), P_WORD, P, A, /* OpAccessChain, OpLoad */
    OP(65, 5), PP_UINT, B, PUSH, ONE, OP(61, 4), UINT, W, B, OP(65, 5), P_UINT, T, P, ZERO, OP(62, 5), T, W, 2,
    4,                     /* OpStore Aligned 4 */
    OP(253, 1), OP(56, 1), /* OpReturn, OpFunctionEnd */
};

static gale__source source_for(const gale_device *device)
{
    const char *name = device->backend->name;
    gale__source s = {.code = GALE__CODE_TEXT, .options = "", .ours = true};
    if (!strcmp(name, "vulkan")) s.code = GALE__CODE_SPIRV, s.data = spirv, s.size = sizeof spirv;
    else if (!strcmp(name, "opencl")) s.data = gale__text_poke_cl, s.size = sizeof gale__text_poke_cl - 1;
    else if (!strcmp(name, "cuda") || !strcmp(name, "hip"))
        s.data = gale__text_poke_cu, s.size = sizeof gale__text_poke_cu - 1;
    else s.code = GALE__CODE_HOST, s.fn = poke_host;
    return s;
}

gale_status gale__poke_create(gale_device *device, gale__poke *out)
{
    gale__source source = source_for(device);
    gale__poke poke = {0};
    GALE_TRY(gale__module_build(device, &source, &poke.module));
    gale_status status =
        gale__kernel_create(poke.module, "gale_poke", (const uint32_t[3]){1, 1, 1}, 12, 0, &poke.kernel);
    if (status == GALE_OK) *out = poke;
    else gale__poke_finish(&poke);
    return status;
}

void gale__poke_finish(gale__poke *poke)
{
    gale_kernel_destroy(&poke->kernel);
    gale_module_destroy(&poke->module);
}

gale_status gale__poke_run(gale__poke *poke, gale_stream *stream, gale_buffer *to, uint32_t value)
{
    gale__ref ref = gale__buffer_ref(to, 0);
    gale__launch launch = {
        .groups = {1, 1, 1}, .group = {1, 1, 1}, .n_refs = 1, .n_words = 1, .refs = &ref, .words = &value};
    return gale__launch_run(stream, poke->kernel, &launch);
}
