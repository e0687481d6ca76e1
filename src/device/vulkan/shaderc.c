/* GLSL through libshaderc if it is installed.  The few functions used of its C interface are declared here, so that
 * its headers are not needed. */
#include "device/library.h"
#include "device/vulkan/vulkan.h"
#include <string.h>

enum { COMPUTE_SHADER = 2, TARGET_VULKAN = 0, TARGET_VULKAN_1_2 = (1 << 22) | (2 << 12), FOR_SPEED = 2 };

static struct {
#define X(result, name, args) result(*name) args;
#include "device/vulkan/shaderc.def"
#undef X
} fn;
static const char *const symbols[] = {
#define X(result, name, args) "shaderc_" #name,
#include "device/vulkan/shaderc.def"
#undef X
};
static const char *const sonames[] = {"libshaderc.so.1", "libshaderc_shared.so.1", "libshaderc_shared.so", NULL};
static gale__library library = {sonames, symbols, sizeof symbols / sizeof *symbols, &fn, "it is too old", NULL};

static gale_status add_macros(void *options, const char *text)
{
    size_t n;
    for (bool any;; text += n) {
        GALE_TRY(gale__vk_glsl_macro(&text, &n, &any));
        if (!any) return GALE_OK;
        const char *name = text + 2, *equals = memchr(name, '=', n - 2), *value = equals ? equals + 1 : "1";
        size_t name_n = equals ? (size_t)(equals - name) : n - 2, value_n = equals ? (size_t)(text + n - value) : 1;
        fn.compile_options_add_macro_definition(options, name, name_n, value, value_n);
    }
}

static gale_status compile(
    void *compiler, void *options, const char *text, size_t size, uint32_t **words, size_t *count)
{
    void *result = fn.compile_into_spv(compiler, text, size, COMPUTE_SHADER, "kernel.comp", "main", options);
    if (!result) return gale__fail(GALE_NO_MEMORY, "shaderc is out of memory");
    gale_status status;
    if (fn.result_get_compilation_status(result))
        status = gale__fail(GALE_BUILD, "GLSL compilation failed:\n%s", fn.result_get_error_message(result));
    else status = gale__vk_words_copy(fn.result_get_bytes(result), fn.result_get_length(result), words, count);
    fn.result_release(result);
    return status;
}

gale_status gale__vk_shaderc(const char *text, size_t size, const char *options, uint32_t **words, size_t *count)
{
    gale_status status = gale__library_load(&library);
    if (status != GALE_OK) return status;
    void *compiler = fn.compiler_initialize(), *how = fn.compile_options_initialize();
    if (!compiler || !how) status = gale__fail(GALE_NO_MEMORY, "shaderc is out of memory");
    if (status == GALE_OK) status = add_macros(how, options);
    if (status == GALE_OK) {
        fn.compile_options_set_target_env(how, TARGET_VULKAN, TARGET_VULKAN_1_2);
        fn.compile_options_set_optimization_level(how, FOR_SPEED);
        status = compile(compiler, how, text, size, words, count);
    }
    if (how) fn.compile_options_release(how);
    if (compiler) fn.compiler_release(compiler);
    return status;
}
