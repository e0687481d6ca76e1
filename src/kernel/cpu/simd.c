/* Chooses the table of loops for this processor, once. */
#include "kernel/cpu/simd.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/thread.h"
#include "gale_built.h"

#define ISA_PARTS(isa)                             \
    void gale__simd_ops_##isa(gale__simd *t);      \
    void gale__simd_pair_##isa(gale__simd *t);     \
    void gale__simd_math_##isa(gale__simd *t);     \
    void gale__simd_cast_##isa(gale__simd *t);     \
    void gale__simd_move_##isa(gale__simd *t);     \
    void gale__simd_fold_##isa(gale__simd *t);     \
    void gale__simd_gemm_##isa(gale__simd *t);     \
    void gale__simd_rows_##isa(gale__simd *t);     \
    void gale__simd_bytes_##isa(gale__simd *t);    \
    void gale__simd_winograd_##isa(gale__simd *t); \
    void gale__simd_upright_##isa(gale__simd *t);  \
    void gale__simd_depth_##isa(gale__simd *t);    \
    void gale__simd_last_##isa(gale__simd *t);     \
    void gale__simd_pool_##isa(gale__simd *t);     \
    static void make_##isa(gale__simd *t)          \
    {                                              \
        gale__simd_ops_##isa(t);                   \
        gale__simd_pair_##isa(t);                  \
        gale__simd_math_##isa(t);                  \
        gale__simd_cast_##isa(t);                  \
        gale__simd_move_##isa(t);                  \
        gale__simd_fold_##isa(t);                  \
        gale__simd_gemm_##isa(t);                  \
        gale__simd_rows_##isa(t);                  \
        gale__simd_bytes_##isa(t);                 \
        gale__simd_winograd_##isa(t);              \
        gale__simd_upright_##isa(t);               \
        gale__simd_depth_##isa(t);                 \
        gale__simd_last_##isa(t);                  \
        gale__simd_pool_##isa(t);                  \
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

/* Extensions that bring micro-kernels alone; better ones first. */
#define DOT(name) void gale__simd_dot_##name(gale__simd *t);
#ifdef GALE_HAVE_DOT_I8MM
DOT(i8mm)
#endif
#ifdef GALE_HAVE_DOT_DOTPROD
DOT(dotprod)
#endif
#ifdef GALE_HAVE_DOT_BF16
DOT(bf16)
#endif
#ifdef GALE_HAVE_DOT_AVX512VNNI
DOT(avx512vnni)
#endif
#ifdef GALE_HAVE_DOT_AVX512BF16
DOT(avx512bf16)
#endif
#ifdef GALE_HAVE_DOT_AVXVNNI
DOT(avxvnni)
#endif
#ifdef GALE_HAVE_DOT_AMXINT8
DOT(amxint8)
#endif
#ifdef GALE_HAVE_DOT_AMXBF16
DOT(amxbf16)
#endif

static gale__simd table;
static gale__once table_once;

/* Later ones are better. */
static const struct {
    uint64_t needs;
    void (*make)(gale__simd *t);
} builds[] = {
    {GALE__CPU_BITS_scalar, make_scalar},
#ifdef GALE_HAVE_ISA_NEON
    {GALE__CPU_BITS_neon, make_neon},
#endif
#ifdef GALE_HAVE_ISA_SVE
    {GALE__CPU_BITS_sve, make_sve},
#endif
#ifdef GALE_HAVE_ISA_AVX2
    {GALE__CPU_BITS_avx2, make_avx2},
#endif
#ifdef GALE_HAVE_ISA_AVX512
    {GALE__CPU_BITS_avx512, make_avx512},
#endif
};

static const struct {
    uint64_t needs;
    void (*add)(gale__simd *t);
} dots[] = {
#ifdef GALE_HAVE_DOT_I8MM
    {GALE__CPU_BIT(I8MM), gale__simd_dot_i8mm},
#endif
#ifdef GALE_HAVE_DOT_DOTPROD
    {GALE__CPU_BIT(DOTPROD), gale__simd_dot_dotprod},
#endif
#ifdef GALE_HAVE_DOT_BF16
    {GALE__CPU_BIT(BF16), gale__simd_dot_bf16},
#endif
#ifdef GALE_HAVE_DOT_AVX512VNNI
    {GALE__CPU_BITS_avx512 | GALE__CPU_BIT(AVX512VNNI), gale__simd_dot_avx512vnni},
#endif
#ifdef GALE_HAVE_DOT_AVX512BF16
    {GALE__CPU_BITS_avx512 | GALE__CPU_BIT(AVX512BF16), gale__simd_dot_avx512bf16},
#endif
#ifdef GALE_HAVE_DOT_AVXVNNI
    {GALE__CPU_BITS_avx2 | GALE__CPU_BIT(AVXVNNI), gale__simd_dot_avxvnni},
#endif
#ifdef GALE_HAVE_DOT_AMXINT8
    {GALE__CPU_BITS_avx512 | GALE__CPU_BIT(AMX) | GALE__CPU_BIT(AMX_INT8), gale__simd_dot_amxint8},
#endif
#ifdef GALE_HAVE_DOT_AMXBF16
    {GALE__CPU_BITS_avx512 | GALE__CPU_BIT(AMX) | GALE__CPU_BIT(AMX_BF16), gale__simd_dot_amxbf16},
#endif
    {UINT64_MAX, NULL},
};

/* Adds what an extension of the instruction set multiplies, if it does so correctly here. */
static void add_dot(void (*add)(gale__simd *t))
{
    int kept = table.n_gemms;
    add(&table);
    for (int i = kept; i < table.n_gemms; i++) {
        const gale__simd_gemm *g = &table.gemm[i];
        int64_t wrong = gale__simd_gemm_try(g, false);
        if (!wrong) table.gemm[kept++] = *g;
        else
            gale__log(GALE__WARN,
                "products of %s on this processor failed their trial (%lld sums are wrong) and are not used",
                gale_type_name((gale_type)g->key.a), (long long)wrong);
    }
    table.n_gemms = kept;
}

enum { LARGE_CACHE = 48 << 10 };

static void make_table(void)
{
    size_t best = sizeof builds / sizeof *builds - 1;
    while (builds[best].needs & ~gale__cpu_features()) best--;
    builds[best].make(&table);
    size_t near_bytes = gale__cpu_near_bytes();
    table.small_cache = near_bytes && near_bytes < LARGE_CACHE;
    for (size_t i = 0; dots[i].add; i++)
        if (!(dots[i].needs & ~gale__cpu_features())) add_dot(dots[i].add);
}

const gale__simd *gale__simd_get(void)
{
    gale__once_run(&table_once, make_table);
    return &table;
}

gale__simd_key gale__simd_plain(gale__simd_type ct)
{
    static const uint8_t types[GALE__SIMD_TYPE_COUNT] = {
        GALE_BOOL, GALE_I32, GALE_U32, GALE_I64, GALE_U64, GALE_F32, GALE_F64};
    return (gale__simd_key){types[ct], types[ct], types[ct], 1};
}

const gale__simd_gemm *gale__simd_gemm_find(gale__simd_key key)
{
    const gale__simd *t = gale__simd_get();
    uint64_t have = gale__cpu_features();
    for (const gale__simd_gemm *g = t->gemm; g < t->gemm + t->n_gemms; g++)
        if (g->key.a == key.a && g->key.b == key.b && g->key.sum == key.sum && g->key.group == key.group &&
            !(g->needs & ~have))
            return g;
    return NULL;
}

gale__simd_type gale__simd_type_of(gale_type storage)
{
    switch (gale__compute_type(storage)) {
    case GALE_BOOL: return GALE__SIMD_TYPE_BOOL;
    case GALE_I32: return GALE__SIMD_TYPE_I32;
    case GALE_U32: return GALE__SIMD_TYPE_U32;
    case GALE_I64: return GALE__SIMD_TYPE_I64;
    case GALE_U64: return GALE__SIMD_TYPE_U64;
    case GALE_F64: return GALE__SIMD_TYPE_F64;
    default: return GALE__SIMD_TYPE_F32;
    }
}

int gale__simd_type_size(gale__simd_type ct)
{
    static const int sizes[GALE__SIMD_TYPE_COUNT] = {1, 4, 4, 8, 8, 4, 8};
    return sizes[ct];
}
