/* Finds the compute entry points of SPIR-V, since drivers may crash on a missing name. */
#include "device/vulkan/vulkan.h"
#include <spirv/unified1/spirv.h>
#include <string.h>

static bool name_is(const uint32_t *words, size_t count, const char *name)
{
    size_t n = strlen(name) + 1;
    return n <= count * 4 && !memcmp(words, name, n);
}

/* The instruction at `i`: its length, 0 when it runs past the end. */
static size_t length_at(const uint32_t *words, size_t count, size_t i)
{
    size_t n = words[i] >> SpvWordCountShift;
    return n && n <= count - i ? n : 0;
}

static bool find_entry(const uint32_t *w, size_t count, const char *entry, uint32_t *id, gale__str *others)
{
    for (size_t i = 5, n; i < count && (n = length_at(w, count, i)); i += n) {
        if ((w[i] & SpvOpCodeMask) != SpvOpEntryPoint || n < 4 || w[i + 1] != SpvExecutionModelGLCompute) continue;
        *id = w[i + 2];
        if (name_is(&w[i + 3], n - 3, entry)) return true;
        gale__str_addf(others, "%s%.*s", others->length ? ", " : "", (int)strnlen((const char *)&w[i + 3], (n - 3) * 4),
            (const char *)&w[i + 3]);
    }
    return false;
}

gale_status gale__vk_spirv_entry(const uint32_t *w, size_t count, const char *entry, uint32_t group[3])
{
    uint32_t id = 0;
    gale__str others = {0};
    memset(group, 0, 3 * sizeof *group);
    if (count < 5 || w[0] != SpvMagicNumber)
        return gale__fail(GALE_FORMAT, "not SPIR-V: it does not begin with the magic number");
    bool found = find_entry(w, count, entry, &id, &others);
    if (!found)
        gale__fail(GALE_NOT_FOUND, "compute entry point %s not found in the SPIR-V module (it has: %s)", entry,
            gale__str_text(&others));
    gale__str_finish(&others);
    if (!found) return GALE_NOT_FOUND;
    for (size_t i = 5, n; i < count && (n = length_at(w, count, i)); i += n)
        if ((w[i] & SpvOpCodeMask) == SpvOpExecutionMode && n == 6 && w[i + 1] == id &&
            w[i + 2] == SpvExecutionModeLocalSize)
            memcpy(group, &w[i + 3], 3 * sizeof *group);
    return GALE_OK;
}
