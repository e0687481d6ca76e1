/* Processor features, queried once: from the kernel on AArch64, from the processor on x86-64. */
#include "base/cpu.h"
#include "base/env.h"
#include "base/file.h"
#include "base/thread.h"
#include "gale_built.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct {
    char name[64];
    uint64_t present, allowed; /* bits: of the processor, and those that GALE_ISA allows */
    const char *isa;
} cpu;
static gale__once cpu_once;

/* The first number after `key` in a small text file of the kernel; fallback if there is none. */
static uint64_t read_number(const char *path, const char *key, uint64_t fallback)
{
    char text[4096];
    FILE *f = fopen(path, "re");
    if (!f) return fallback;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *at = strstr(text, key);
    if (!at) return fallback;
    char *end;
    unsigned long long v = strtoull(at + strlen(key), &end, 0);
    return end == at + strlen(key) ? fallback : v;
}

#if defined(__aarch64__)
#include <sys/auxv.h>

static const struct {
    int id, word, bit;
} features[] = {
    {GALE__CPU_AT_FP16, 0, 10},
    {GALE__CPU_AT_DOTPROD, 0, 20},
    {GALE__CPU_AT_SVE, 0, 22},
    {GALE__CPU_AT_FP16FML, 0, 23},
    {GALE__CPU_AT_ATOMICS, 0, 8},
    {GALE__CPU_AT_SVE2, 1, 1},
    {GALE__CPU_AT_I8MM, 1, 13},
    {GALE__CPU_AT_BF16, 1, 14},
    {GALE__CPU_AT_SVEI8MM, 1, 9},
    {GALE__CPU_AT_SVEBF16, 1, 12},
    {GALE__CPU_AT_SME, 1, 23},
};

static uint64_t find_features(void)
{
    const unsigned long words[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    uint64_t bits = GALE__CPU_BIT(NEON);
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        bits |= (uint64_t)(words[features[i].word] >> features[i].bit & 1) << features[i].id;
    return bits;
}

/* /proc/cpuinfo has numbers only. */
static void find_name(char *name, size_t size)
{
    static const struct {
        unsigned maker, part;
        const char *name;
    } known[] = {
        {0x41, 0xd03, "Cortex-A53"},
        {0x41, 0xd05, "Cortex-A55"},
        {0x41, 0xd07, "Cortex-A57"},
        {0x41, 0xd08, "Cortex-A72"},
        {0x41, 0xd0b, "Cortex-A76"},
        {0x41, 0xd0c, "Neoverse-N1"},
        {0x41, 0xd40, "Neoverse-V1"},
        {0x41, 0xd41, "Cortex-A78"},
        {0x41, 0xd44, "Cortex-X1"},
        {0x41, 0xd46, "Cortex-A510"},
        {0x41, 0xd47, "Cortex-A710"},
        {0x41, 0xd49, "Neoverse-N2"},
        {0x41, 0xd4f, "Neoverse-V2"},
        {0x41, 0xd84, "Neoverse-V3"},
        {0x41, 0xd8e, "Neoverse-N3"},
        {0x46, 0x001, "A64FX"},
        {0xc0, 0xac3, "Ampere-1"},
        {0x61, 0x022, "Apple M1"},
        {0x61, 0x023, "Apple M1"},
        {0x61, 0x032, "Apple M2"},
    };
    unsigned maker = (unsigned)read_number("/proc/cpuinfo", "CPU implementer\t: ", 0);
    unsigned part = (unsigned)read_number("/proc/cpuinfo", "CPU part\t: ", 0);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].maker == maker && known[i].part == part) snprintf(name, size, "%s", known[i].name);
    if (!*name && maker) snprintf(name, size, "AArch64 processor 0x%02x/0x%03x", maker, part);
}

#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>

enum { EAX, EBX, ECX, EDX };
/* `state`: the bits of XCR0 which tell that the operating system saves those registers. */
static const struct {
    int id;
    unsigned leaf, sub;
    int reg, bit;
    unsigned state;
} features[] = {
    {GALE__CPU_AT_SSE42, 1, 0, ECX, 20, 0},
    {GALE__CPU_AT_FMA, 1, 0, ECX, 12, 0x6},
    {GALE__CPU_AT_F16C, 1, 0, ECX, 29, 0x6},
    {GALE__CPU_AT_AVX, 1, 0, ECX, 28, 0x6},
    {GALE__CPU_AT_AVX2, 7, 0, EBX, 5, 0x6},
    {GALE__CPU_AT_AVX512F, 7, 0, EBX, 16, 0xe6},
    {GALE__CPU_AT_AVX512DQ, 7, 0, EBX, 17, 0xe6},
    {GALE__CPU_AT_AVX512BW, 7, 0, EBX, 30, 0xe6},
    {GALE__CPU_AT_AVX512VL, 7, 0, EBX, 31, 0xe6},
    {GALE__CPU_AT_AVX512VNNI, 7, 0, ECX, 11, 0xe6},
    {GALE__CPU_AT_AVX512BF16, 7, 1, EAX, 5, 0xe6},
    {GALE__CPU_AT_AVX512FP16, 7, 0, EDX, 23, 0xe6},
    {GALE__CPU_AT_AVXVNNI, 7, 1, EAX, 4, 0x6},
    {GALE__CPU_AT_AMX, 7, 0, EDX, 24, 0x60000},
    {GALE__CPU_AT_AMX_BF16, 7, 0, EDX, 22, 0x60000},
    {GALE__CPU_AT_AMX_INT8, 7, 0, EDX, 25, 0x60000},
};

static unsigned kept_state(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Tiles are 8 KB that the kernel saves for each thread, so a process has to request them. */
static bool may_use_tiles(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return gale__env_get_i64(GALE__ENV_AMX, 1) != 0 && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

static uint64_t find_features(void)
{
    const uint64_t tiles = GALE__CPU_BIT(AMX) | GALE__CPU_BIT(AMX_BF16) | GALE__CPU_BIT(AMX_INT8);
    uint64_t bits = 0;
    unsigned kept = kept_state();
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        unsigned r[4];
        if (!__get_cpuid_count(features[i].leaf, features[i].sub, &r[EAX], &r[EBX], &r[ECX], &r[EDX])) continue;
        if (r[features[i].reg] >> features[i].bit & 1 && (kept & features[i].state) == features[i].state)
            bits |= (uint64_t)1 << features[i].id;
    }
    return bits & tiles && !may_use_tiles() ? bits & ~tiles : bits;
}

static void find_name(char *name, size_t size)
{
    unsigned r[12] = {0};
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &r[i * 4], &r[i * 4 + 1], &r[i * 4 + 2], &r[i * 4 + 3])) return;
    char text[49] = {0};
    memcpy(text, r, 48);
    snprintf(name, size, "%s", text + strspn(text, " "));
}

#else
static uint64_t find_features(void) { return 0; }
static void find_name(char *name, size_t size) { (void)name, (void)size; }
#endif

/* Builds of the SIMD sources, better ones last; those in this binary are marked. GALE_ISA names one of them and limits
 * the features to its bits. */
static const struct {
    const char *name;
    uint64_t bits;
    bool built;
} builds[] = {
    {"scalar", GALE__CPU_BITS_scalar, true},
#define BUILD(isa, built)                 \
    {                                     \
#isa, GALE__CPU_BITS_##isa, built \
    }
#ifdef GALE_HAVE_ISA_NEON
    BUILD(neon, true),
#else
    BUILD(neon, false),
#endif
#ifdef GALE_HAVE_ISA_SVE
    BUILD(sve, true),
#else
    BUILD(sve, false),
#endif
#ifdef GALE_HAVE_ISA_AVX2
    BUILD(avx2, true),
#else
    BUILD(avx2, false),
#endif
#ifdef GALE_HAVE_ISA_AVX512
    BUILD(avx512, true),
#else
    BUILD(avx512, false),
#endif
};
enum { N_BUILDS = sizeof builds / sizeof *builds };

static bool usable(int i) { return builds[i].built && !(builds[i].bits & ~cpu.present); }

static void find_isa(void)
{
    const char *limit = gale__env_get(GALE__ENV_ISA);
    int best = N_BUILDS - 1;
    while (!usable(best)) best--;
    cpu.isa = builds[best].name;
    cpu.allowed = cpu.present;
    if (!*limit) return;
    for (int i = 0; i < N_BUILDS; i++)
        if (gale__text_equal_nocase(limit, builds[i].name) && usable(i)) {
            cpu.isa = builds[i].name;
            cpu.allowed = builds[i].bits;
            return;
        }
    gale__log(GALE__WARN, "GALE_ISA=%s is not available on this processor; using %s", limit, cpu.isa);
}

static void find_cpu(void)
{
    find_name(cpu.name, sizeof cpu.name);
    if (!*cpu.name) snprintf(cpu.name, sizeof cpu.name, "unknown");
    cpu.present = find_features();
    find_isa();
}

uint64_t gale__cpu_features(void)
{
    gale__once_run(&cpu_once, find_cpu);
    return cpu.allowed;
}

const char *gale__cpu_isa_name(void)
{
    gale__once_run(&cpu_once, find_cpu);
    return cpu.isa;
}

bool gale__cpu_has(const char *name)
{
    static const char *const names[] = {
#define X(id, text) text,
#include "base/cpu_features.def"
#undef X
    };
    gale__once_run(&cpu_once, find_cpu);
    for (int i = 0; i < GALE__CPU_FEATURES; i++)
        if (!strcmp(names[i], name)) return cpu.present >> i & 1;
    return false;
}

const char *gale__cpu_name(void)
{
    gale__once_run(&cpu_once, find_cpu);
    return cpu.name;
}

int gale__cpu_cores(void)
{
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    /* A container may have less CPU time than it sees cores: "200000 100000" means two. */
    uint64_t quota = read_number("/sys/fs/cgroup/cpu.max", "", 0);
    long allowed = (long)((quota + 99999) / 100000);
    if (allowed > 0 && allowed < n) n = allowed;
    return n < 1 ? 1 : (int)n;
}

int gale__cpu_processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

size_t gale__cpu_near_bytes(void)
{
#ifdef _SC_LEVEL1_DCACHE_SIZE
    long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : 0;
#else
    return 0;
#endif
}

uint64_t gale__cpu_memory_bytes(void)
{
    uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max", "", UINT64_MAX);
    return limit < all ? limit : all;
}

uint64_t gale__cpu_memory_free_bytes(void)
{
    uint64_t all = gale__cpu_memory_bytes(), free_kb = read_number("/proc/meminfo", "MemAvailable:", 0);
    uint64_t free_bytes =
        free_kb ? free_kb * 1024 : (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return free_bytes < all ? free_bytes : all;
}

uint64_t gale__cpu_memory_left_bytes(void)
{
    return gale__cpu_memory_free_bytes() + read_number("/proc/meminfo", "SwapFree:", 0) * 1024;
}

uint64_t gale__process_peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : (uint64_t)usage.ru_maxrss << 10;
}
