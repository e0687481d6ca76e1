/* What this processor can do: asked of the kernel on AArch64, of the processor on x86-64, once. */
#include "base/cpu.h"
#include "base/env.h"
#include "base/file.h"
#include "base/thread.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    char name[64];
    gale__isa isa;
} cpu;
static gale__once cpu_once;

/* The first number behind `key` in a small text file of the kernel's; fallback when there is none. */
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
    const char *name;
    int word, bit;
} features[] = {
    {"fp16", 0, 10},
    {"dotprod", 0, 20},
    {"sve", 0, 22},
    {"fp16fml", 0, 23},
    {"atomics", 0, 8},
    {"sve2", 1, 1},
    {"i8mm", 1, 13},
    {"bf16", 1, 14},
    {"svei8mm", 1, 9},
    {"svebf16", 1, 12},
    {"sme", 1, 23},
};

bool gale__cpu_has(const char *feature)
{
    const unsigned long words[2] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    if (!strcmp(feature, "neon")) return true;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (!strcmp(feature, features[i].name)) return words[features[i].word] >> features[i].bit & 1;
    return false;
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

enum { EAX, EBX, ECX, EDX };
/* `state`: the bits of XCR0 that say the operating system keeps those registers. */
static const struct {
    const char *name;
    unsigned leaf, sub;
    int reg, bit;
    unsigned state;
} features[] = {
    {"sse4.2", 1, 0, ECX, 20, 0},
    {"fma", 1, 0, ECX, 12, 0x6},
    {"f16c", 1, 0, ECX, 29, 0x6},
    {"avx", 1, 0, ECX, 28, 0x6},
    {"avx2", 7, 0, EBX, 5, 0x6},
    {"avx512f", 7, 0, EBX, 16, 0xe6},
    {"avx512dq", 7, 0, EBX, 17, 0xe6},
    {"avx512bw", 7, 0, EBX, 30, 0xe6},
    {"avx512vl", 7, 0, EBX, 31, 0xe6},
    {"avx512vnni", 7, 0, ECX, 11, 0xe6},
    {"avx512bf16", 7, 1, EAX, 5, 0xe6},
    {"avx512fp16", 7, 0, EDX, 23, 0xe6},
    {"avxvnni", 7, 1, EAX, 4, 0x6},
    {"amx", 7, 0, EDX, 24, 0x60000},
    {"amx-bf16", 7, 0, EDX, 22, 0x60000},
    {"amx-int8", 7, 0, EDX, 25, 0x60000},
};

static unsigned kept_state(void)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

bool gale__cpu_has(const char *feature)
{
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        if (strcmp(feature, features[i].name)) continue;
        unsigned r[4];
        if (!__get_cpuid_count(features[i].leaf, features[i].sub, &r[EAX], &r[EBX], &r[ECX], &r[EDX])) return false;
        return r[features[i].reg] >> features[i].bit & 1 && (kept_state() & features[i].state) == features[i].state;
    }
    return false;
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
bool gale__cpu_has(const char *feature) { return (void)feature, false; }
static void find_name(char *name, size_t size) { (void)name, (void)size; }
#endif

static const char *const isa_names[GALE__ISA_COUNT] = {"scalar", "neon", "sve", "avx2", "avx512"};

const char *gale__isa_name(gale__isa isa) { return (unsigned)isa < GALE__ISA_COUNT ? isa_names[isa] : "?"; }

/* Present in the processor and in this build. */
static bool isa_usable(gale__isa isa)
{
    switch (isa) {
#ifdef GALE_HAVE_ISA_NEON
    case GALE__ISA_NEON: return gale__cpu_has("neon");
#endif
#ifdef GALE_HAVE_ISA_SVE
    case GALE__ISA_SVE: return gale__cpu_has("sve");
#endif
#ifdef GALE_HAVE_ISA_AVX2
    case GALE__ISA_AVX2: return gale__cpu_has("avx2") && gale__cpu_has("fma") && gale__cpu_has("f16c");
#endif
#ifdef GALE_HAVE_ISA_AVX512
    case GALE__ISA_AVX512:
        return isa_usable(GALE__ISA_AVX2) && gale__cpu_has("avx512f") && gale__cpu_has("avx512bw") &&
               gale__cpu_has("avx512dq") && gale__cpu_has("avx512vl");
#endif
    default: return isa == GALE__ISA_SCALAR;
    }
}

static gale__isa find_isa(void)
{
    const char *limit = gale__env_get(GALE__ENV_ISA);
    int best = GALE__ISA_COUNT - 1;
    while (!isa_usable((gale__isa)best)) best--;
    if (!*limit) return (gale__isa)best;
    for (int i = 0; i < GALE__ISA_COUNT; i++)
        if (gale__text_equal_nocase(limit, isa_names[i]) && isa_usable((gale__isa)i)) return (gale__isa)i;
    gale__log(GALE__WARN, "GALE_ISA=%s is not to be had here; %s is used", limit, isa_names[best]);
    return (gale__isa)best;
}

static void find_cpu(void)
{
    find_name(cpu.name, sizeof cpu.name);
    if (!*cpu.name) snprintf(cpu.name, sizeof cpu.name, "unknown");
    cpu.isa = find_isa();
}

gale__isa gale__cpu_isa(void)
{
    gale__once_run(&cpu_once, find_cpu);
    return cpu.isa;
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
    /* A container may be given less time than it sees cores: "200000 100000" means two. */
    uint64_t quota = read_number("/sys/fs/cgroup/cpu.max", "", 0);
    long allowed = (long)((quota + 99999) / 100000);
    if (allowed > 0 && allowed < n) n = allowed;
    return n < 1 ? 1 : (int)n;
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
