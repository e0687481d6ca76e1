/* What this processor can do, found once, limited by GALE_ISA. */
#ifndef GALE_BASE_CPU_H
#define GALE_BASE_CPU_H
#include "gale/base.h"
typedef enum gale__isa {
    GALE__ISA_SCALAR,
    GALE__ISA_NEON,
    GALE__ISA_SVE,
    GALE__ISA_AVX2,
    GALE__ISA_AVX512,
    GALE__ISA_COUNT
} gale__isa;
gale__isa gale__cpu_isa(void); /* the best set both present and allowed */
const char *gale__isa_name(gale__isa isa);
const char *gale__cpu_name(void); /* "Neoverse-V1"; "unknown" when not told */
int gale__cpu_cores(void);        /* usable by this process */
uint64_t gale__cpu_memory_bytes(void);
uint64_t gale__cpu_memory_free_bytes(void);
uint64_t gale__cpu_memory_left_bytes(void); /* that, and what may go to disk instead */
bool gale__cpu_has(const char *feature);    /* "bf16", "i8mm", "dotprod", "fp16", "avx512bf16", "amx" ... */
#endif
