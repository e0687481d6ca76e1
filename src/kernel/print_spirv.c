/* Prints kernel IR as SPIR-V words for Vulkan 1.2. */
#include "kernel/ir_util.h"

void gale__words_finish(gale__words *w)
{
    gale__free(w->words);
    *w = (gale__words){0};
}

gale_status gale__ir_print_spirv(const gale__ir *kernel, const gale_device_caps *caps, gale__words *out)
{
    (void)caps, (void)out;
    return gale__fail(GALE_UNSUPPORTED, "kernel %s: built without SPIR-V", kernel->name);
}
