/* The bookkeeping of a SPIR-V module for Vulkan 1.2 (SPIR-V 1.5): sections grow separately and are joined at the end;
 * types and constants are created once and looked up by their words.  Written directly, so that Vulkan needs no
 * compiler for GLSL: the kernel IR is already in SSA form, and SPIR-V is a list of its instructions. */
#include "gale_built.h"
#ifdef GALE_HAVE_SPIRV
#include "kernel/print/spirv.h"
#include "base/hash.h"
#include "kernel/print/print.h"
#include <string.h>

static void add_words(gale__ir_words *w, const uint32_t *words, size_t n)
{
    if (w->failed) return;
    if (gale__grow((void **)&w->words, &w->capacity, w->count + n, sizeof *w->words) != GALE_OK) {
        w->failed = true;
        return;
    }
    if (n) memcpy(w->words + w->count, words, n * sizeof *words);
    w->count += n;
}

void gale__spv_emit(gale__spv *s, gale__ir_words *to, SpvOp op, const uint32_t *operands, int n)
{
    uint32_t first = (uint32_t)(n + 1) << 16 | (uint32_t)op;
    add_words(to, &first, 1);
    add_words(to, operands, (size_t)n);
    s->failed |= to->failed;
}

uint32_t gale__spv_value(gale__spv *s, gale__ir_words *to, SpvOp op, uint32_t type, const uint32_t *operands, int n)
{
    uint32_t id = gale__spv_id(s), head[3] = {(uint32_t)(n + 3) << 16 | (uint32_t)op, type, id};
    add_words(to, head, 3);
    add_words(to, operands, (size_t)n);
    s->failed |= to->failed;
    return id;
}

/* A global by its words, `result` being the place of its id among them (1 for types, 2 for constants). */
static uint32_t find_or_add(gale__spv *s, SpvOp op, const uint32_t *operands, int n, int result)
{
    uint32_t words[8] = {(uint32_t)(n + 2) << 16 | (uint32_t)op};
    for (int i = 1, from = 0; i < n + 2; i++) words[i] = i == result ? 0 : operands[from++];
    uint32_t *bucket = &s->bucket[gale__hash(words, (size_t)(n + 2) * 4, 0) % GALE__SPV_BUCKETS];
    for (uint32_t at = *bucket; at; at = s->known[at - 1].next) {
        const uint32_t *have = s->globals.words + s->known[at - 1].at;
        bool equal = true;
        for (int i = 0; i < n + 2 && equal; i++) equal = i == result || have[i] == words[i];
        if (equal) return s->known[at - 1].id;
    }
    if (s->failed || gale__grow((void **)&s->known, &s->known_capacity, s->n_known + 1, sizeof *s->known) != GALE_OK) {
        s->failed = true;
        return 0;
    }
    words[result] = gale__spv_id(s);
    s->known[s->n_known++] = (gale__spv_global){(uint32_t)s->globals.count, words[result], *bucket};
    *bucket = (uint32_t)s->n_known;
    add_words(&s->globals, words, (size_t)(n + 2));
    s->failed |= s->globals.failed;
    return words[result];
}

uint32_t gale__spv_type(gale__spv *s, gale_type type, int width)
{
    uint32_t id, bits = (uint32_t)gale__type_table[type].bits;
    if (width > 1) {
        id = gale__spv_type(s, type, 1);
        return find_or_add(s, SpvOpTypeVector, (const uint32_t[]){id, (uint32_t)width}, 2, 1);
    }
    if (type == GALE_F64) s->capabilities |= 1u << GALE__SPV_FLOAT64;
    if (type == GALE_BOOL) return find_or_add(s, SpvOpTypeBool, NULL, 0, 1);
    if (gale__type_is_float(type)) return find_or_add(s, SpvOpTypeFloat, &bits, 1, 1);
    return find_or_add(s, SpvOpTypeInt, (const uint32_t[]){bits, 0}, 2, 1);
}

uint32_t gale__spv_global_type(gale__spv *s, SpvOp op, const uint32_t *operands, int n)
{
    return find_or_add(s, op, operands, n, 1);
}

uint32_t gale__spv_pointer(gale__spv *s, SpvStorageClass where, uint32_t to)
{
    return find_or_add(s, SpvOpTypePointer, (const uint32_t[]){(uint32_t)where, to}, 2, 1);
}

uint32_t gale__spv_array(gale__spv *s, uint32_t of, uint64_t count)
{
    return find_or_add(s, SpvOpTypeArray, (const uint32_t[]){of, gale__spv_u32(s, (uint32_t)count)}, 2, 1);
}

uint32_t gale__spv_const(gale__spv *s, gale_type type, uint64_t bits)
{
    uint32_t t = gale__spv_type(s, type, 1);
    if (type == GALE_BOOL) return find_or_add(s, bits ? SpvOpConstantTrue : SpvOpConstantFalse, &t, 1, 2);
    return find_or_add(s, SpvOpConstant, (const uint32_t[]){t, (uint32_t)bits, (uint32_t)(bits >> 32)},
        gale__ir_bits(type) == 64 ? 3 : 2, 2);
}

uint32_t gale__spv_struct(gale__spv *s, const uint32_t *members, int n)
{
    uint32_t id = gale__spv_id(s), words[4] = {id};
    for (int i = 0; i < n; i++) words[i + 1] = members[i];
    gale__spv_emit(s, &s->globals, SpvOpTypeStruct, words, n + 1);
    return id;
}

uint32_t gale__spv_variable(gale__spv *s, SpvStorageClass where, uint32_t type)
{
    uint32_t pointer = gale__spv_pointer(s, where, type), word = (uint32_t)where;
    gale__ir_words *to = where == SpvStorageClassFunction ? &s->locals : &s->globals;
    uint32_t id = gale__spv_value(s, to, SpvOpVariable, pointer, &word, 1);
    if (where != SpvStorageClassFunction) {
        add_words(&s->interface_ids, &id, 1);
        s->failed |= s->interface_ids.failed;
    }
    return id;
}

uint32_t gale__spv_builtin(gale__spv *s, SpvBuiltIn which, uint32_t type)
{
    uint32_t id = gale__spv_variable(s, SpvStorageClassInput, type);
    EMIT(s, &s->notes, SpvOpDecorate, id, SpvDecorationBuiltIn, (uint32_t)which);
    return id;
}

/* A name fills whole words and ends with a zero byte. */
static void add_extension(gale__spv *s, gale__ir_words *out, const char *name)
{
    uint32_t words[16] = {0};
    memcpy(words, name, strlen(name));
    gale__spv_emit(s, out, SpvOpExtension, words, (int)strlen(name) / 4 + 1);
}

static void link_head(gale__spv *s, const gale__ir *ir, uint32_t function, gale__ir_words *out)
{
    static const SpvCapability capabilities[GALE__SPV_CAPABILITIES] = {
        [GALE__SPV_FLOAT64] = SpvCapabilityFloat64,
        [GALE__SPV_STORAGE8] = SpvCapabilityStorageBuffer8BitAccess,
        [GALE__SPV_STORAGE16] = SpvCapabilityStorageBuffer16BitAccess,
        [GALE__SPV_SUBGROUP] = SpvCapabilityGroupNonUniform,
        [GALE__SPV_SHUFFLE] = SpvCapabilityGroupNonUniformShuffle,
        [GALE__SPV_DENORMALS] = SpvCapabilityDenormPreserve,
        [GALE__SPV_NAN_INF] = SpvCapabilitySignedZeroInfNanPreserve,
        [GALE__SPV_MEMORY_MODEL] = SpvCapabilityVulkanMemoryModel,
        [GALE__SPV_INT8] = SpvCapabilityInt8,
        [GALE__SPV_INT16] = SpvCapabilityInt16,
        [GALE__SPV_FLOAT16] = SpvCapabilityFloat16,
        /* CooperativeMatrixKHR, BFloat16TypeKHR, BFloat16CooperativeMatrixKHR: newer than Debian 12's headers. */
        [GALE__SPV_MATRIX] = (SpvCapability)6022,
        [GALE__SPV_BF16] = (SpvCapability)5116,
        [GALE__SPV_BF16_MATRIX] = (SpvCapability)5118,
    };
    add_words(out, (const uint32_t[]){SpvMagicNumber, 0x10500, 0, s->next_id, 0}, 5);
    EMIT(s, out, SpvOpCapability, SpvCapabilityShader);
    EMIT(s, out, SpvOpCapability, SpvCapabilityInt64);
    EMIT(s, out, SpvOpCapability, SpvCapabilityPhysicalStorageBufferAddresses);
    for (int i = 0; i < GALE__SPV_CAPABILITIES; i++)
        if (s->capabilities >> i & 1) EMIT(s, out, SpvOpCapability, (uint32_t)capabilities[i]);
    if (s->capabilities >> GALE__SPV_MATRIX & 1) add_extension(s, out, "SPV_KHR_cooperative_matrix");
    if (s->capabilities >> GALE__SPV_BF16 & 1) add_extension(s, out, "SPV_KHR_bfloat16");
    uint32_t words[5] = {s->glsl};
    memcpy(words + 1, "GLSL.std.450", 13);
    gale__spv_emit(s, out, SpvOpExtInstImport, words, 5);
    bool model = s->capabilities >> GALE__SPV_MEMORY_MODEL & 1;
    EMIT(s, out, SpvOpMemoryModel, SpvAddressingModelPhysicalStorageBuffer64,
        model ? SpvMemoryModelVulkan : SpvMemoryModelGLSL450);

    uint32_t name[16] = {0}; /* the entry point's name fills whole words and ends with a zero byte */
    size_t name_words = strlen(ir->name) / 4 + 1;
    memcpy(name, ir->name, strlen(ir->name));
    uint32_t first = (uint32_t)(3 + name_words + s->interface_ids.count) << 16 | SpvOpEntryPoint;
    add_words(out, (const uint32_t[]){first, SpvExecutionModelGLCompute, function}, 3);
    add_words(out, name, name_words);
    add_words(out, s->interface_ids.words, s->interface_ids.count);
    EMIT(s, out, SpvOpExecutionMode, function, SpvExecutionModeLocalSize, ir->group[0], ir->group[1], ir->group[2]);
    if (s->capabilities >> GALE__SPV_DENORMALS & 1)
        EMIT(s, out, SpvOpExecutionMode, function, SpvExecutionModeDenormPreserve, 32);
    if (s->capabilities >> GALE__SPV_NAN_INF & 1)
        EMIT(s, out, SpvOpExecutionMode, function, SpvExecutionModeSignedZeroInfNanPreserve, 32);
}

gale_status gale__spv_link(gale__spv *s, const gale__ir *ir, uint32_t function, gale__ir_words *out)
{
    uint32_t nothing = gale__spv_id(s), type = gale__spv_id(s), label = gale__spv_id(s);
    link_head(s, ir, function, out);
    add_words(out, s->notes.words, s->notes.count);
    EMIT(s, out, SpvOpTypeVoid, nothing);
    EMIT(s, out, SpvOpTypeFunction, type, nothing);
    add_words(out, s->globals.words, s->globals.count);
    EMIT(s, out, SpvOpFunction, nothing, function, SpvFunctionControlMaskNone, type);
    EMIT(s, out, SpvOpLabel, label);
    add_words(out, s->locals.words, s->locals.count);
    add_words(out, s->entry.words, s->entry.count);
    EMIT(s, out, SpvOpBranch, s->first_label);
    EMIT(s, out, SpvOpLabel, s->first_label);
    add_words(out, s->body.words, s->body.count);
    gale__spv_emit(s, out, SpvOpReturn, NULL, 0);
    gale__spv_emit(s, out, SpvOpFunctionEnd, NULL, 0);
    if (out->words && out->count > 3) out->words[3] = s->next_id;
    if (s->failed || out->failed)
        return gale__fail(GALE_NO_MEMORY, "kernel %s: out of memory for its SPIR-V", ir->name);
    return GALE_OK;
}

void gale__spv_finish(gale__spv *s)
{
    gale__ir_words *all[] = {&s->notes, &s->globals, &s->locals, &s->entry, &s->body, &s->interface_ids};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) gale__ir_words_finish(all[i]);
    gale__free(s->known);
}
#endif
