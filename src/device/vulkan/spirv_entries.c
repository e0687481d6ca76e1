/* What SPIR-V says of itself: compute entry points, since drivers may crash on a missing name, and the size of the push
 * constants, since they read whatever is there. */
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

/* The instruction that defines an id of a type, or NULL. */
static const uint32_t *type_of(const uint32_t *w, size_t count, uint32_t id)
{
    for (size_t i = 5, n; i < count && (n = length_at(w, count, i)); i += n) {
        uint32_t op = w[i] & SpvOpCodeMask;
        if (op >= SpvOpTypeVoid && op <= SpvOpTypeForwardPointer && n > 1 && w[i + 1] == id) return &w[i];
    }
    return NULL;
}

/* Bytes of a scalar, a vector of them or an address; 0: something else. */
static uint32_t size_of(const uint32_t *w, size_t count, uint32_t id)
{
    const uint32_t *t = type_of(w, count, id);
    uint32_t op = t ? *t & SpvOpCodeMask : 0;
    if (op == SpvOpTypeInt || op == SpvOpTypeFloat) return t[2] / 8;
    if (op == SpvOpTypePointer || op == SpvOpTypeForwardPointer) return 8;
    if (op != SpvOpTypeVector) return 0;
    const uint32_t *element = type_of(w, count, t[2]);
    uint32_t of = element ? *element & SpvOpCodeMask : 0;
    return of == SpvOpTypeInt || of == SpvOpTypeFloat ? element[2] / 8 * t[3] : 0;
}

static int offset_of(const uint32_t *w, size_t count, uint32_t id, uint32_t member)
{
    for (size_t i = 5, n; i < count && (n = length_at(w, count, i)); i += n)
        if ((w[i] & SpvOpCodeMask) == SpvOpMemberDecorate && n == 5 && w[i + 1] == id && w[i + 2] == member &&
            w[i + 3] == SpvDecorationOffset)
            return (int)(w[i + 4] & 0xffff);
    return -1;
}

static int end_of(const uint32_t *w, size_t count, uint32_t id)
{
    const uint32_t *t = type_of(w, count, id);
    if (!t || (*t & SpvOpCodeMask) != SpvOpTypeStruct) return -1;
    uint32_t members = (*t >> SpvWordCountShift) - 2;
    int end = 0;
    for (uint32_t i = 0; i < members; i++) {
        int offset = offset_of(w, count, id, i), size = (int)size_of(w, count, t[2 + i]);
        if (offset < 0 || !size) return -1;
        if (offset + size > end) end = offset + size;
    }
    return end;
}

int gale__vk_spirv_push_bytes(const uint32_t *w, size_t count)
{
    int bytes = 0;
    for (size_t i = 5, n; i < count && (n = length_at(w, count, i)); i += n) {
        if ((w[i] & SpvOpCodeMask) != SpvOpVariable || n < 4 || w[i + 3] != SpvStorageClassPushConstant) continue;
        const uint32_t *pointer = type_of(w, count, w[i + 1]);
        if (bytes || !pointer || (*pointer & SpvOpCodeMask) != SpvOpTypePointer) return -1; /* one of several entries */
        bytes = end_of(w, count, pointer[3]);
        if (bytes < 0) return -1;
    }
    return bytes;
}
