/* Chooses the table of loops for this processor, once. */
#include "kernel/cpu/simd.h"
#include "base/cpu.h"
#include "base/thread.h"

#define ISA_PARTS(isa)                         \
    void gale__simd_ops_##isa(gale__simd *t);  \
    void gale__simd_pair_##isa(gale__simd *t); \
    void gale__simd_math_##isa(gale__simd *t); \
    void gale__simd_cast_##isa(gale__simd *t); \
    void gale__simd_move_##isa(gale__simd *t); \
    void gale__simd_fold_##isa(gale__simd *t); \
    void gale__simd_gemm_##isa(gale__simd *t); \
    void gale__simd_rows_##isa(gale__simd *t); \
    static void make_##isa(gale__simd *t)      \
    {                                          \
        gale__simd_ops_##isa(t);               \
        gale__simd_pair_##isa(t);              \
        gale__simd_math_##isa(t);              \
        gale__simd_cast_##isa(t);              \
        gale__simd_move_##isa(t);              \
        gale__simd_fold_##isa(t);              \
        gale__simd_gemm_##isa(t);              \
        gale__simd_rows_##isa(t);              \
    }
ISA_PARTS(scalar)
#ifdef GALE_HAVE_ISA_NEON
ISA_PARTS(neon)
#endif
#ifdef GALE_HAVE_ISA_SVE
ISA_PARTS(sve)
#endif
#ifdef GALE_HAVE_ISA_AVX2
ISA_PARTS(avx2)
#endif
#ifdef GALE_HAVE_ISA_AVX512
ISA_PARTS(avx512)
#endif

static gale__simd table;
static gale__once table_once;

static void make_table(void)
{
    switch (gale__cpu_isa()) {
#ifdef GALE_HAVE_ISA_NEON
    case GALE__ISA_NEON: make_neon(&table); break;
#endif
#ifdef GALE_HAVE_ISA_SVE
    case GALE__ISA_SVE: make_sve(&table); break;
#endif
#ifdef GALE_HAVE_ISA_AVX2
    case GALE__ISA_AVX2: make_avx2(&table); break;
#endif
#ifdef GALE_HAVE_ISA_AVX512
    case GALE__ISA_AVX512: make_avx512(&table); break;
#endif
    default: make_scalar(&table); break;
    }
}

const gale__simd *gale__simd_get(void)
{
    gale__once_run(&table_once, make_table);
    return &table;
}

gale__ct gale__ct_of(gale_type storage)
{
    switch (gale__compute_type(storage)) {
    case GALE_BOOL: return GALE__CT_BOOL;
    case GALE_I32: return GALE__CT_I32;
    case GALE_U32: return GALE__CT_U32;
    case GALE_I64: return GALE__CT_I64;
    case GALE_U64: return GALE__CT_U64;
    case GALE_F64: return GALE__CT_F64;
    default: return GALE__CT_F32;
    }
}

int gale__ct_size(gale__ct ct)
{
    static const int sizes[GALE__CT_COUNT] = {1, 4, 4, 8, 8, 4, 8};
    return sizes[ct];
}
