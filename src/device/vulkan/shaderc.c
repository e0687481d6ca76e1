/* GLSL that users bring, through libshaderc where it is installed.  The few functions of its C interface that are called
 * are declared here, so that its headers are not needed. */
#include "device/binary_cache.h"
#include "device/library.h"
#include "device/vulkan/vulkan.h"
#include <stdio.h>
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

static gale_status load(void)
{
    gale_status status = gale__library_load(&library);
    if (status != GALE_NOT_FOUND) return status;
    gale__fail_within(GALE_UNSUPPORTED, "GLSL needs libshaderc (install libshaderc1), or bring SPIR-V");
    return GALE_UNSUPPORTED;
}

/* "-DNAME=VALUE -DOTHER": all that a GLSL compiler is told from outside. */
static gale_status add_macros(void *options, const char *text)
{
    while (*(text += strspn(text, " "))) {
        size_t n = strcspn(text, " ");
        if (n < 3 || strncmp(text, "-D", 2)) return gale__fail(GALE_INVALID, "GLSL option %.*s: only -DNAME and -DNAME=VALUE are known", (int)n, text);
        const char *name = text + 2, *equals = memchr(name, '=', n - 2), *value = equals ? equals + 1 : "1";
        size_t name_n = equals ? (size_t)(equals - name) : n - 2, value_n = equals ? (size_t)(text + n - value) : 1;
        fn.compile_options_add_macro_definition(options, name, name_n, value, value_n);
        text += n;
    }
    return GALE_OK;
}

static gale_status copy_words(const void *data, size_t size, uint32_t **words, size_t *count)
{
    *words = gale__alloc(size);
    if (!*words) return GALE_NO_MEMORY;
    memcpy(*words, data, size);
    *count = size / 4;
    return GALE_OK;
}

static gale_status compile(void *compiler, void *options, const char *text, size_t size, uint32_t **words, size_t *count)
{
    void *result = fn.compile_into_spv(compiler, text, size, COMPUTE_SHADER, "kernel.comp", "main", options);
    if (!result) return gale__fail(GALE_NO_MEMORY, "shaderc has no memory");
    gale_status status;
    if (fn.result_get_compilation_status(result)) status = gale__fail(GALE_BUILD, "GLSL does not compile:\n%s", fn.result_get_error_message(result));
    else status = copy_words(fn.result_get_bytes(result), fn.result_get_length(result), words, count);
    fn.result_release(result);
    return status;
}

gale_status gale__vk_glsl(const char *text, size_t size, const char *options, uint32_t **words, size_t *count)
{
    GALE_TRY(load());
    char key[GALE__BINARY_KEY], version[32];
    unsigned spirv = 0, revision = 0;
    fn.get_spv_version(&spirv, &revision);
    snprintf(version, sizeof version, "shaderc %u.%u", spirv, revision);
    gale__binary_cache_key_for(text, size, "glsl", version, options, key);
    gale__bytes hit;
    if (gale__binary_cache_get(key, &hit)) {
        gale_status status = copy_words(hit.data, hit.size, words, count);
        gale__bytes_finish(&hit);
        return status;
    }
    void *compiler = fn.compiler_initialize(), *how = fn.compile_options_initialize();
    gale_status status = GALE_OK;
    if (!compiler || !how) status = gale__fail(GALE_NO_MEMORY, "shaderc has no memory");
    if (status == GALE_OK) status = add_macros(how, options);
    if (status == GALE_OK) {
        fn.compile_options_set_target_env(how, TARGET_VULKAN, TARGET_VULKAN_1_2);
        fn.compile_options_set_optimization_level(how, FOR_SPEED);
        status = compile(compiler, how, text, size, words, count);
    }
    if (status == GALE_OK) gale__binary_cache_put(key, *words, *count * 4);
    if (how) fn.compile_options_release(how);
    if (compiler) fn.compiler_release(compiler);
    return status;
}
