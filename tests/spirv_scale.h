/* A small SPIR-V module put together by hand: y[i] = x[i] * a + b for i < n, with gale's parameter block
 * { u64 y, x; u32 n; f32 a, b; ... } in push constants or behind an address in them. */
#ifndef GALE_TEST_SPIRV_SCALE_H
#define GALE_TEST_SPIRV_SCALE_H
#include <spirv/unified1/spirv.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct assembly {
    uint32_t words[512];
    size_t count;
    uint32_t ids;
} assembly;

static inline void emit(assembly *s, uint32_t op, const uint32_t *args, size_t n)
{
    s->words[s->count++] = (uint32_t)(n + 1) << 16 | op;
    if (n) memcpy(&s->words[s->count], args, n * sizeof *args);
    s->count += n;
}
#define EMIT(op, ...) emit(s, SpvOp##op, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

/* An instruction with a result: its id. */
static inline uint32_t make(assembly *s, uint32_t op, uint32_t type, const uint32_t *args, size_t n)
{
    s->words[s->count++] = (uint32_t)(n + 3) << 16 | op;
    s->words[s->count++] = type;
    s->words[s->count++] = ++s->ids;
    memcpy(&s->words[s->count], args, n * sizeof *args);
    s->count += n;
    return s->ids;
}
#define MAKE(op, type, ...) \
    make(s, SpvOp##op, type, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

enum {
    S_MAIN = 1,
    S_VOID,
    S_FN,
    S_U32,
    S_U64,
    S_F32,
    S_BOOL,
    S_VEC,
    S_PVEC,
    S_ID,
    S_BLOCK,
    S_PBLOCK,
    S_PUSH,
    S_PF32,
    S_PPF32,
    S_PU32,
    S_PPU32,
    S_PU64,
    S_PPU64,
    S_ZERO,
    S_FIRST
};

static inline uint32_t constant(assembly *s, uint32_t type, uint32_t value)
{
    if (type == S_U64) return MAKE(Constant, S_U64, value, 0);
    return MAKE(Constant, type, value);
}

static inline void head(assembly *s, bool by_address, uint32_t local)
{
    static const uint32_t offsets[] = {0, 8, 16, 20, 24};
    memcpy(s->words, (const uint32_t[]){SpvMagicNumber, 0x00010500, 0, 0, 0}, 20);
    s->count = 5;
    s->ids = S_FIRST;
    EMIT(Capability, SpvCapabilityShader);
    EMIT(Capability, SpvCapabilityInt64);
    EMIT(Capability, SpvCapabilityPhysicalStorageBufferAddresses);
    EMIT(MemoryModel, SpvAddressingModelPhysicalStorageBuffer64, SpvMemoryModelGLSL450);
    EMIT(EntryPoint, SpvExecutionModelGLCompute, S_MAIN, 0x6c616373, 0x65, S_ID, S_PUSH); /* "scale" */
    EMIT(ExecutionMode, S_MAIN, SpvExecutionModeLocalSize, local, 1, 1);
    EMIT(Decorate, S_ID, SpvDecorationBuiltIn, SpvBuiltInGlobalInvocationId);
    EMIT(Decorate, S_BLOCK, SpvDecorationBlock);
    for (uint32_t i = 0; i < (by_address ? 1u : 5u); i++)
        EMIT(MemberDecorate, S_BLOCK, i, SpvDecorationOffset, offsets[i]);
    EMIT(TypeVoid, S_VOID);
    EMIT(TypeFunction, S_FN, S_VOID);
    EMIT(TypeInt, S_U32, 32, 0);
    EMIT(TypeInt, S_U64, 64, 0);
    EMIT(TypeFloat, S_F32, 32);
    EMIT(TypeBool, S_BOOL);
    EMIT(TypeVector, S_VEC, S_U32, 3);
    EMIT(TypePointer, S_PVEC, SpvStorageClassInput, S_VEC);
    EMIT(Variable, S_PVEC, S_ID, SpvStorageClassInput);
    if (by_address) EMIT(TypeStruct, S_BLOCK, S_U64);
    else EMIT(TypeStruct, S_BLOCK, S_U64, S_U64, S_U32, S_F32, S_F32);
    EMIT(TypePointer, S_PBLOCK, SpvStorageClassPushConstant, S_BLOCK);
    EMIT(Variable, S_PBLOCK, S_PUSH, SpvStorageClassPushConstant);
    EMIT(TypePointer, S_PF32, SpvStorageClassPhysicalStorageBuffer, S_F32);
    EMIT(TypePointer, S_PU32, SpvStorageClassPhysicalStorageBuffer, S_U32);
    EMIT(TypePointer, S_PU64, SpvStorageClassPhysicalStorageBuffer, S_U64);
    EMIT(TypePointer, S_PPF32, SpvStorageClassPushConstant, S_F32);
    EMIT(TypePointer, S_PPU32, SpvStorageClassPushConstant, S_U32);
    EMIT(TypePointer, S_PPU64, SpvStorageClassPushConstant, S_U64);
}

typedef struct field {
    uint32_t type, push_pointer, pointer, offset, size, number, place;
} field;

/* The value of a field of the block; base: 0, or the address of the block. */
static inline uint32_t load_field(assembly *s, const field *f, uint32_t base)
{
    if (!base) return MAKE(Load, f->type, MAKE(AccessChain, f->push_pointer, S_PUSH, f->number));
    uint32_t at = MAKE(IAdd, S_U64, base, f->place);
    return MAKE(Load, f->type, MAKE(ConvertUToPtr, f->pointer, at), SpvMemoryAccessAlignedMask, f->size);
}

/* Returns the number of words. */
static inline size_t spirv_scale(assembly *s, bool by_address, uint32_t local)
{
    field f[5] = {
        {S_U64, S_PPU64, S_PU64, 0, 8, 0, 0},
        {S_U64, S_PPU64, S_PU64, 8, 8, 0, 0},
        {S_U32, S_PPU32, S_PU32, 16, 4, 0, 0},
        {S_F32, S_PPF32, S_PF32, 20, 4, 0, 0},
        {S_F32, S_PPF32, S_PF32, 24, 4, 0, 0},
    };
    uint32_t base = 0, v[5];
    head(s, by_address, local);
    for (uint32_t i = 0; i < 5; i++) {
        f[i].number = constant(s, S_U32, i);
        f[i].place = constant(s, S_U64, f[i].offset);
    }
    uint32_t four = constant(s, S_U64, 4), body = ++s->ids, end = ++s->ids;
    EMIT(Function, S_VOID, S_MAIN, SpvFunctionControlMaskNone, S_FN);
    EMIT(Label, ++s->ids);
    if (by_address) base = MAKE(Load, S_U64, MAKE(AccessChain, S_PPU64, S_PUSH, f[0].number));
    for (int i = 0; i < 5; i++) v[i] = load_field(s, &f[i], base);
    uint32_t index = MAKE(CompositeExtract, S_U32, MAKE(Load, S_VEC, S_ID), 0);
    uint32_t inside = MAKE(ULessThan, S_BOOL, index, v[2]);
    EMIT(SelectionMerge, end, SpvSelectionControlMaskNone);
    EMIT(BranchConditional, inside, body, end);
    EMIT(Label, body);
    uint32_t bytes = MAKE(IMul, S_U64, MAKE(UConvert, S_U64, index), four);
    uint32_t from = MAKE(ConvertUToPtr, S_PF32, MAKE(IAdd, S_U64, v[1], bytes));
    uint32_t to = MAKE(ConvertUToPtr, S_PF32, MAKE(IAdd, S_U64, v[0], bytes));
    uint32_t x = MAKE(Load, S_F32, from, SpvMemoryAccessAlignedMask, 4);
    uint32_t y = MAKE(FAdd, S_F32, MAKE(FMul, S_F32, x, v[3]), v[4]);
    EMIT(Store, to, y, SpvMemoryAccessAlignedMask, 4);
    EMIT(Branch, end);
    EMIT(Label, end);
    emit(s, SpvOpReturn, NULL, 0);
    emit(s, SpvOpFunctionEnd, NULL, 0);
    s->words[3] = s->ids + 1;
    return s->count;
}
#endif
