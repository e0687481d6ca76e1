/* Processor features, queried once. */
#ifndef GALE_BASE_CPU_H
#define GALE_BASE_CPU_H
#include "gale/base.h"

/* Features are bits: a routine names those it needs, and a processor with new ones needs no place in an order. */
enum {
#define X(id, name) GALE__CPU_AT_##id,
#include "base/cpu_features.def"
#undef X
    GALE__CPU_FEATURES
};
#define GALE__CPU_BIT(id) ((uint64_t)1 << GALE__CPU_AT_##id)
/* Features that the builds of SIMD sources with these names require (kernel/meson.build). */
#define GALE__CPU_BITS_scalar 0
#define GALE__CPU_BITS_neon GALE__CPU_BIT(NEON)
#define GALE__CPU_BITS_sve (GALE__CPU_BIT(NEON) | GALE__CPU_BIT(SVE))
#define GALE__CPU_BITS_avx2 (GALE__CPU_BIT(AVX2) | GALE__CPU_BIT(FMA) | GALE__CPU_BIT(F16C))
#define GALE__CPU_BITS_avx512                                                                           \
    (GALE__CPU_BITS_avx2 | GALE__CPU_BIT(AVX512F) | GALE__CPU_BIT(AVX512BW) | GALE__CPU_BIT(AVX512DQ) | \
        GALE__CPU_BIT(AVX512VL))

uint64_t gale__cpu_features(void);    /* bits, limited by GALE_ISA */
const char *gale__cpu_isa_name(void); /* the best build for these features: "sve" */
bool gale__cpu_has(const char *name); /* "bf16", "i8mm" ...: of the processor itself, whatever GALE_ISA says */
const char *gale__cpu_name(void);     /* "Neoverse-V1"; "unknown" if the system does not report it */
int gale__cpu_cores(void);            /* usable by this process */
int gale__cpu_processors(void);       /* of the machine, whatever this process may use */
size_t gale__cpu_near_bytes(void);    /* of a core's first data cache; 0: unknown */
uint64_t gale__cpu_memory_bytes(void);
uint64_t gale__cpu_memory_free_bytes(void);
uint64_t gale__cpu_memory_left_bytes(void); /* that, plus what can be swapped to disk */
uint64_t gale__process_peak_bytes(void);    /* peak memory of this process; 0: unknown */
#endif
