/* Users' own GLSL: from the cache, through libshaderc, or through glslc or glslangValidator.  Debian 12's libshaderc
 * lacks part of the library, so that only the programs work there. */
#include "base/process.h"
#include "device/binary_cache.h"
#include "device/vulkan/vulkan.h"
#include <stdio.h>
#include <string.h>

#define MACROS_MAX 32

gale_status gale__vk_words_copy(const void *data, size_t size, uint32_t **words, size_t *count)
{
    uint32_t *copy = gale__alloc(size);
    if (!copy) return GALE_NO_MEMORY;
    memcpy(copy, data, size);
    *words = copy;
    *count = size / 4;
    return GALE_OK;
}

gale_status gale__vk_glsl_macro(const char **at, size_t *n, bool *any)
{
    *at += strspn(*at, " ");
    *n = strcspn(*at, " ");
    *any = *n > 0;
    if (*any && (*n < 3 || strncmp(*at, "-D", 2)))
        return gale__fail(GALE_INVALID, "GLSL option %.*s: only -DNAME and -DNAME=VALUE are supported", (int)*n, *at);
    return GALE_OK;
}

static gale_status add_macros(gale__arena *arena, const char *options, const char **argv, int *argc)
{
    size_t n;
    for (bool any;; options += n) {
        GALE_TRY(gale__vk_glsl_macro(&options, &n, &any));
        if (!any) return GALE_OK;
        if (*argc == MACROS_MAX) return gale__fail(GALE_LIMIT, "more than %d GLSL options", MACROS_MAX);
        argv[*argc] = gale__arena_printf(arena, "%.*s", (int)n, options);
        if (!argv[(*argc)++]) return GALE_NO_MEMORY;
    }
}

/* Each compiler's own words for "a compute shader for Vulkan 1.2". */
static const char *const compilers[][5] = {
    {"glslc", "-fshader-stage=compute", "--target-env=vulkan1.2", "-O", NULL},
    {"glslangValidator", "-V", "--target-env", "vulkan1.2", NULL},
};

static gale_status run_compiler(
    const char *const *first, gale__arena *arena, const char *in, const char *out, const char *options)
{
    const char *argv[MACROS_MAX + 8] = {NULL};
    gale__str said = {0};
    int argc = 0, code = 0;
    while (first[argc]) argv[argc] = first[argc], argc++;
    GALE_TRY(add_macros(arena, options, argv, &argc));
    argv[argc++] = "-o";
    argv[argc++] = out;
    argv[argc] = in;
    gale_status status = gale__process_run(argv, &said, &code);
    if (status == GALE_OK && code)
        status = gale__fail(GALE_BUILD, "GLSL compilation failed:\n%s", gale__str_text(&said));
    gale__str_finish(&said);
    return status;
}

static gale_status compile_in(
    const char *folder, const char *text, size_t size, const char *options, uint32_t **words, size_t *count)
{
    gale__arena arena = {0};
    gale__bytes made = {0};
    const char *in = gale__arena_printf(&arena, "%s/kernel.comp", folder),
               *out = gale__arena_printf(&arena, "%s/kernel.spv", folder);
    gale_status status = in && out ? gale__file_write(in, text, size) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = run_compiler(compilers[0], &arena, in, out, options);
    if (status == GALE_NOT_FOUND) status = run_compiler(compilers[1], &arena, in, out, options);
    if (status == GALE_NOT_FOUND)
        status = gale__fail(GALE_UNSUPPORTED,
            "GLSL needs libshaderc, glslc or glslangValidator (install glslang-tools); or use SPIR-V");
    if (status == GALE_OK) status = gale__file_read(out, 0, &made);
    if (status == GALE_OK) status = gale__vk_words_copy(made.data, made.size, words, count);
    gale__bytes_finish(&made);
    gale__arena_finish(&arena);
    return status;
}

static gale_status compile_by_program(
    const char *text, size_t size, const char *options, uint32_t **words, size_t *count)
{
    char folder[1024];
    GALE_TRY(gale__temp_folder_make(folder, sizeof folder));
    gale_status status = compile_in(folder, text, size, options, words, count);
    gale__temp_folder_remove(folder);
    return status;
}

gale_status gale__vk_glsl(const char *text, size_t size, const char *options, uint32_t **words, size_t *count)
{
    char key[GALE__BINARY_KEY];
    gale__binary_cache_key_for(text, size, "glsl", "", options, key);
    gale__bytes hit;
    if (gale__binary_cache_get(key, &hit)) {
        gale_status status = gale__vk_words_copy(hit.data, hit.size, words, count);
        gale__bytes_finish(&hit);
        return status;
    }
    gale_status status = gale__vk_shaderc(text, size, options, words, count);
    if (status == GALE_NOT_FOUND) status = compile_by_program(text, size, options, words, count);
    if (status == GALE_OK) gale__binary_cache_put(key, *words, *count * 4);
    return status;
}
