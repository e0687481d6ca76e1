/* A stand-in for the driver and the kernel compiler of CUDA, or with FAKE_HIP of HIP: memory is the host's, work runs
 * at once, kernels are those named below; generated ones (gale_*) do nothing, but every pointer they are given must lie
 * in memory that is alive.  It checks what a driver would punish (a call without a context, freeing twice) and fails
 * where FAKE_* variables say so, so that the backend can be tested without a device: FAKE_VERSION  FAKE_INIT (code)
 * FAKE_DEVICES  FAKE_ARCH  FAKE_ALLOC_FAIL_FROM (the n-th from the start, and all later ones) FAKE_HANG (nothing ever
 * completes)  FAKE_NO_COMPILER (compiling is an error)  FAKE_NO_PRODUCTS (cuBLASLt has no algorithm for any product) */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef FAKE_HIP
#define N(cuda, hip) hip
#define HIP 1
#else
#define N(cuda, hip) cuda
#define HIP 0
#endif
#define OUT __attribute__((visibility("default")))

enum {
    OK = 0,
    INVALID = 1,
    NO_MEMORY = 2,
    NO_DEVICE = 100,
    BAD_IMAGE = 200,
    BAD_CONTEXT = 201,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL = 700
};

static _Atomic long live_blocks, alloc_calls, live_objects;
static _Atomic int lost;
static _Thread_local int current; /* device + 1 */

static long setting(const char *name, long fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : fallback;
}

/* For the test: what is still there. */
OUT long fake_live(void);
OUT long fake_live(void) { return live_blocks + live_objects; }

static int state(void) { return !current ? BAD_CONTEXT : lost ? ILLEGAL : OK; }
#define READY()            \
    do {                   \
        int s_ = state();  \
        if (s_) return s_; \
    } while (0)

/* ---- devices ---- */
#define F(cuda, hip, ...)              \
    OUT int N(cuda, hip)(__VA_ARGS__); \
    OUT int N(cuda, hip)(__VA_ARGS__)

F(cuInit, hipInit, unsigned flags) { return flags ? INVALID : (int)setting("FAKE_INIT", 0); }
F(cuDriverGetVersion, hipDriverGetVersion, int *v)
{
    return *v = (int)setting("FAKE_VERSION", HIP ? 60300000 : 12080), OK;
}
F(cuDeviceGetCount, hipGetDeviceCount, int *n) { return *n = (int)setting("FAKE_DEVICES", 2), *n ? OK : NO_DEVICE; }
F(cuDeviceGet, hipDeviceGet, int *d, int i) { return *d = i, i >= 0 && i < setting("FAKE_DEVICES", 2) ? OK : 101; }
F(cuDeviceGetName, hipDeviceGetName, char *s, int n, int d) { return snprintf(s, (size_t)n, "Stand-in %d", d), OK; }
F(cuDeviceTotalMem_v2, hipDeviceTotalMem, size_t *n, int d) { return (void)d, *n = 1 << 30, OK; }
F(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId, char *s, int n, int d)
{
    return snprintf(s, (size_t)n, "0000:0%d:00.0", d), OK;
}
F(cuDeviceGetUuid, hipDeviceGetUuid, uint8_t id[16], int d) { return memset(id, 16 + d, 16), OK; }
F(cuDeviceGetAttribute, hipDeviceGetAttribute, int *v, int a, int d)
{
    static const int rows[][3] = {{1, 56, 1024}, {5, 29, 2147483647}, {6, 30, 65535}, {7, 31, 65535}, {8, 74, 49152},
        {10, 87, HIP ? 64 : 32}, {13, 5, 1980000}, {16, 63, 132}, {39, 57, 2048}, {18, 16, 0}, {95, -2, 1}};
    int arch = (int)setting("FAKE_ARCH", 90);
    (void)d;
    if (a == N(75, 23)) return *v = arch / 10, OK;
    if (a == N(76, 61)) return *v = arch % 10, OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i][HIP] == a) return *v = rows[i][2], OK;
    return INVALID;
}
#ifdef FAKE_HIP
OUT const char *hipGetErrorName(int code);
OUT const char *hipGetErrorName(int code) { return code == NO_MEMORY ? "hipErrorOutOfMemory" : "hipErrorFake"; }
OUT const char *hipGetErrorString(int code);
OUT const char *hipGetErrorString(int code) { return code == NO_MEMORY ? "out of memory" : "stand-in error"; }
F(x, hipSetDevice, int d) { return current = d + 1, OK; }
#else
F(cuGetErrorName, x, int code, const char **s)
{
    return *s = code == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE", OK;
}
F(cuGetErrorString, x, int code, const char **s)
{
    return *s = code == NO_MEMORY ? "out of memory" : "stand-in error", OK;
}
static int contexts[16];
F(cuDevicePrimaryCtxRetain, x, void **c, int d)
{
    *c = &contexts[d];
    live_objects++;
    lost = 0;
    return OK;
}
F(cuDevicePrimaryCtxRelease_v2, x, int d)
{
    (void)d;
    live_objects--;
    return OK;
}
F(cuCtxSetCurrent, x, void *c) { return current = c ? (int)((int *)c - contexts) + 1 : 0, OK; }
#endif

/* ---- memory ---- */
F(cuMemGetInfo_v2, hipMemGetInfo, size_t *f, size_t *t) { return *f = 1 << 29, *t = 1 << 30, state(); }
/* What is alive, so that a kernel's pointers can be looked up. */
static struct {
    char *at;
    size_t size;
} blocks[4096];
static atomic_flag blocks_busy = ATOMIC_FLAG_INIT;
static void lock(void)
{
    while (atomic_flag_test_and_set(&blocks_busy)) {
    }
}
static void unlock(void) { atomic_flag_clear(&blocks_busy); }

/* Puts `at` in the place of a block; -1 when none is free (or there). */
static int swap_block(const char *old, char *at, size_t size)
{
    int found = -1;
    lock();
    for (int i = 0; i < 4096 && found < 0; i++)
        if (blocks[i].at == old) found = i, blocks[i].at = at, blocks[i].size = size;
    unlock();
    return found;
}

static int is_alive(uint64_t address)
{
    int alive = !address; /* of a tensor without elements */
    lock();
    for (int i = 0; i < 4096 && !alive; i++)
        alive = blocks[i].at && address - (uint64_t)(uintptr_t)blocks[i].at <= blocks[i].size;
    unlock();
    return alive;
}

static int take(void **p, size_t n)
{
    long fail_from = setting("FAKE_ALLOC_FAIL_FROM", 0);
    if ((++alloc_calls >= fail_from && fail_from) || n > 1 << 30) return NO_MEMORY;
    if (!n || !(*p = malloc(n))) return INVALID;
    if (swap_block(NULL, *p, n) < 0) return free(*p), NO_MEMORY;
    memset(*p, 0xcd, n); /* a device promises nothing */
    live_blocks++;
    return OK;
}
static int give(void *p)
{
    if (swap_block(p, NULL, 0) < 0) return INVALID; /* freed before, or never taken */
    free(p);
    live_blocks--;
    return OK;
}
F(cuMemAlloc_v2, hipMalloc, uint64_t *a, size_t n)
{
    void *p = NULL;
    READY();
    int code = take(&p, n);
    if (!code) *a = (uint64_t)(uintptr_t)p;
    return code;
}

F(cuMemFree_v2, hipFree, uint64_t a) { return current ? give((void *)(uintptr_t)a) : BAD_CONTEXT; }
F(cuMemHostAlloc, hipHostMalloc, void **p, size_t n, unsigned flags)
{
    READY();
    return flags == 3 ? take(p, n) : INVALID;
}
F(cuMemFreeHost, hipHostFree, void *p) { return current ? give(p) : BAD_CONTEXT; }

/* ---- work: done at once, or kept while its stream captures ---- */
typedef struct layout {
    int type;
    uint64_t rows, columns;
    int64_t pitch, stride;
    int32_t batches;
} layout; /* of cuBLASLt, by columns */
typedef struct work {
    enum { COPY, SET, ADD, LOSE, TOUCH, PRODUCT } kind;
    char *to;
    const char *from, *other;
    size_t size, unit;
    uint32_t value;
    uint64_t pointers[64]; /* TOUCH: `size` of them */
    layout layout[3];      /* PRODUCT: of from, other and to */
    int turned[2];
} work;
typedef struct graph {
    work items[256];
    int count;
} graph;
typedef struct stream {
    graph *capturing;
    int device, queries;
} stream;
typedef struct event {
    double time_ms;
} event;

static float element(const layout *l, const char *data, int64_t at)
{
    float v;
    if (!l->type) return ((const float *)data)[at];
    uint32_t bits = (uint32_t)((const uint16_t *)data)[at] << 16;
    return memcpy(&v, &bits, sizeof v), v;
}

/* A factor as [rows, columns] of floats: at the start, by steps along both. */
static float *unpack(
    const layout *l, const char *data, int64_t start, int64_t rows, int64_t row, int64_t columns, int64_t column)
{
    float *out = malloc((size_t)(rows * columns + 1) * sizeof *out);
    for (int64_t i = 0; out && i < rows * columns; i++)
        out[i] = element(l, data, start + i / columns * row + i % columns * column);
    return out;
}

/* Sanitized it would take longer than all else that this library does; unpack() is the one who reads what is given. */
__attribute__((no_sanitize("address", "undefined"))) static void add_scaled(
    float *sum, float by, const float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++) sum[i] += by * row[i];
}

/* d [columns, rows] = b [columns, depth] a [depth, rows], of f32, or bf16 cut off. */
static void multiply_one(
    const layout *d, char *to, int64_t at, int64_t depth, const float *a, const float *b, float *sum)
{
    for (uint64_t c = 0; c < d->columns; c++, at += d->pitch) {
        memset(sum, 0, d->rows * sizeof *sum);
        for (int64_t k = 0; k < depth; k++)
            add_scaled(sum, b[(int64_t)c * depth + k], a + k * (int64_t)d->rows, (int64_t)d->rows);
        for (uint64_t r = 0; r < d->rows; r++) {
            uint32_t bits;
            memcpy(&bits, &sum[r], sizeof bits);
            if (d->type) ((uint16_t *)to)[at + (int64_t)r] = (uint16_t)(bits >> 16);
            else ((float *)to)[at + (int64_t)r] = sum[r];
        }
    }
}

static void multiply(const work *w)
{
    const layout *a = &w->layout[0], *b = &w->layout[1], *d = &w->layout[2];
    int64_t depth = (int64_t)(w->turned[0] ? a->rows : a->columns), rows = (int64_t)d->rows,
            columns = (int64_t)d->columns;
    float *sum = malloc((d->rows + 1) * sizeof *sum);
    for (int64_t i = 0; i < d->batches; i++) {
        float *all_a = unpack(
                  a, w->from, i * a->stride, depth, w->turned[0] ? 1 : a->pitch, rows, w->turned[0] ? a->pitch : 1),
              *all_b = unpack(
                  b, w->other, i * b->stride, columns, w->turned[1] ? 1 : b->pitch, depth, w->turned[1] ? b->pitch : 1);
        if (all_a && all_b && sum) multiply_one(d, w->to, i * d->stride, depth, all_a, all_b, sum);
        free(all_a), free(all_b);
    }
    free(sum);
}

static int run(const work *w)
{
    if (w->kind == PRODUCT) multiply(w);
    if (w->kind == TOUCH)
        for (size_t i = 0; i < w->size; i++)
            if (!is_alive(w->pointers[i])) lost = 1;
    if (w->kind == COPY) memcpy(w->to, w->from, w->size);
    if (w->kind == SET)
        for (size_t i = 0; i < w->size; i++) memcpy(w->to + i * w->unit, &w->value, w->unit);
    if (w->kind == ADD)
        for (size_t i = 0; i < w->size; i++)
            ((float *)w->to)[i] = ((const float *)w->from)[i] + ((const float *)w->other)[i];
    if (w->kind == LOSE) lost = 1;
    return w->kind == TOUCH && lost ? ILLEGAL : OK;
}

static int send(void *handle, work w)
{
    stream *s = handle;
    READY();
    if (s->device != current) return 400;
    if (!s->capturing) return s->queries = 3, run(&w);
    if (s->capturing->count == 256) return NO_MEMORY;
    s->capturing->items[s->capturing->count++] = w;
    return OK;
}

#define P(address) (char *)(uintptr_t)(address)
F(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync, uint64_t to, const void *from, size_t n, void *s)
{
    return send(s, (work){COPY, P(to), from, NULL, n, 0, 0, {0}});
}
F(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync, void *to, uint64_t from, size_t n, void *s)
{
    return send(s, (work){COPY, to, P(from), NULL, n, 0, 0, {0}});
}
F(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync, uint64_t to, uint64_t from, size_t n, void *s)
{
    return send(s, (work){COPY, P(to), P(from), NULL, n, 0, 0, {0}});
}
F(cuMemsetD8Async, hipMemsetD8Async, uint64_t to, unsigned char v, size_t n, void *s)
{
    return send(s, (work){SET, P(to), NULL, NULL, n, 1, v, {0}});
}
F(cuMemsetD16Async, hipMemsetD16Async, uint64_t to, unsigned short v, size_t n, void *s)
{
    return to % 2 ? INVALID : send(s, (work){SET, P(to), NULL, NULL, n, 2, v, {0}});
}
F(cuMemsetD32Async, hipMemsetD32Async, uint64_t to, unsigned v, size_t n, void *s)
{
    return to % 4 ? INVALID : send(s, (work){SET, P(to), NULL, NULL, n, 4, v, {0}});
}

static int make(void **out, size_t size)
{
    READY();
    *out = calloc(1, size);
    live_objects++;
    return OK;
}
static int drop(void *object)
{
    if (!current) return BAD_CONTEXT;
    free(object);
    live_objects--;
    return OK;
}

/* A few queries after the last work find it under way, as on a device. */
static int query(int *left)
{
    return setting("FAKE_HANG", 0) ? NOT_READY : state() ? state() : *left > 0 ? (--*left, NOT_READY) : OK;
}

F(cuStreamCreate, hipStreamCreateWithFlags, void **s, unsigned flags)
{
    int code = flags == 1 ? make(s, sizeof(stream)) : INVALID;
    if (!code) ((stream *)*s)->device = current;
    return code;
}
F(cuStreamDestroy_v2, hipStreamDestroy, void *s) { return drop(s); }
F(cuStreamQuery, hipStreamQuery, void *s) { return query(&((stream *)s)->queries); }
F(cuStreamSynchronize, hipStreamSynchronize, void *s) { return (void)s, state(); }
F(cuStreamWaitEvent, hipStreamWaitEvent, void *s, void *e, unsigned flags)
{
    return s && e && !flags ? state() : INVALID;
}
F(cuEventCreate, hipEventCreateWithFlags, void **e, unsigned flags) { return flags ? INVALID : make(e, sizeof(event)); }
F(cuEventDestroy_v2, hipEventDestroy, void *e) { return drop(e); }
F(cuEventRecord, hipEventRecord, void *e, void *s)
{
    struct timespec t;
    READY();
    clock_gettime(CLOCK_MONOTONIC, &t);
    ((event *)e)->time_ms = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
    return s ? OK : INVALID;
}
F(cuEventQuery, hipEventQuery, void *e) { return (void)e, query(&(int){0}); }
F(cuEventSynchronize, hipEventSynchronize, void *e) { return (void)e, state(); }
F(cuEventElapsedTime, hipEventElapsedTime, float *ms, void *from, void *to)
{
    return *ms = (float)(((event *)to)->time_ms - ((event *)from)->time_ms), state();
}

/* ---- modules and kernels ---- */
#define IMAGE "stand-in code:"
F(cuModuleLoadDataEx, hipModuleLoadDataEx, void **m, const void *image, unsigned n, int *options, void **values)
{
    READY();
    if (strncmp(image, IMAGE, strlen(IMAGE))) {
        if (n == 2 && options[0] == 5) snprintf(values[0], (size_t)(uintptr_t)values[1], "not an image");
        return BAD_IMAGE;
    }
    *m = strdup(image);
    live_objects++;
    return OK;
}
F(cuModuleUnload, hipModuleUnload, void *m) { return drop(m); }

/* By name; "block" kernels take one block by value, the others a parameter each.  GENERATED and the number of pointers.
 */
enum { BLOCK_ADD = 1, ARGS_ADD, LOSE_ALL, POKE, GENERATED = 100 };
static const char *const names[] = {"", "block_add", "args_add", "lose", "gale_poke"};
F(cuModuleGetFunction, hipModuleGetFunction, void **f, void *m, const char *name)
{
    READY();
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]) && strstr(m, name)) return *f = (void *)(uintptr_t)i, OK;
    char block[128];
    unsigned pointers = 0;
    snprintf(block, sizeof block, "struct P_%s{", name);
    const char *text = strstr(m, block);
    if (!text || strncmp(name, "gale_", 5)) return NOT_FOUND;
    sscanf(text + strlen(block), "u64 p[%u]", &pointers);
    return *f = (void *)(uintptr_t)(GENERATED + pointers), pointers <= 64 ? OK : NOT_FOUND;
}
F(cuFuncGetAttribute, hipFuncGetAttribute, int *v, int a, void *f) { return (void)f, *v = 512, a ? INVALID : OK; }
F(cuOccupancyMaxActiveBlocksPerMultiprocessor, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, int *groups, void *f,
    int threads, size_t shared)
{
    return *groups = 4, f && threads > 0 && !shared ? state() : INVALID;
}
#ifndef FAKE_BROKEN /* a library that lacks something needed */
F(cuLaunchKernel, hipModuleLaunchKernel, void *f, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y,
    unsigned z, unsigned shared, void *s, void **p, void **extra)
{
    struct {
        uint64_t p[3];
        uint32_t w[1];
    } *block = p[0];
    struct {
        uint64_t p[1];
        uint32_t w[1];
    } *poke = p[0];
    if (!gx || !gy || !gz || !x || !y || !z || shared || extra) return INVALID;
    if ((uintptr_t)f >= GENERATED) {
        work touch = {.kind = TOUCH, .size = (uintptr_t)f - GENERATED};
        memcpy(touch.pointers, p[0], touch.size * sizeof *touch.pointers);
        return send(s, touch);
    }
    switch ((uintptr_t)f) {
    case BLOCK_ADD: return send(s, (work){ADD, P(block->p[2]), P(block->p[0]), P(block->p[1]), block->w[0], 0, 0, {0}});
    case ARGS_ADD:
        return send(s, (work){ADD, P(*(uint64_t *)p[2]), P(*(uint64_t *)p[0]), P(*(uint64_t *)p[1]), *(uint32_t *)p[3],
                           0, 0, {0}});
    case LOSE_ALL: return send(s, (work){LOSE, NULL, NULL, NULL, 0, 0, 0, {0}});
    case POKE: return send(s, (work){SET, P(poke->p[0]), NULL, NULL, 1, 4, poke->w[0], {0}});
    default: return NOT_FOUND;
    }
}
#ifndef FAKE_HIP
F(cuLaunchCooperativeKernel, x, void *f, unsigned gx, unsigned gy, unsigned gz, unsigned lx, unsigned ly, unsigned lz,
    unsigned shared, void *s, void **p)
{
    return gx * gy * gz > 132 ? 720 : cuLaunchKernel(f, gx, gy, gz, lx, ly, lz, shared, s, p, NULL);
}
#endif
#endif

/* ---- capture ---- */
#ifndef FAKE_WITHOUT_CAPTURE
F(cuStreamBeginCapture_v2, hipStreamBeginCapture, void *s, int mode)
{
    stream *at = s;
    READY();
    if (mode != 2 || at->capturing) return INVALID;
    return make((void **)&at->capturing, sizeof(graph));
}
F(cuStreamEndCapture, hipStreamEndCapture, void *s, void **g)
{
    stream *at = s;
    READY();
    if (!at->capturing) return INVALID;
    *g = at->capturing;
    at->capturing = NULL;
    return OK;
}
F(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags, void **exec, void *g, unsigned long long flags)
{
    int code = flags ? INVALID : make(exec, sizeof(graph));
    if (!code) memcpy(*exec, g, sizeof(graph));
    return code;
}
#ifndef FAKE_HIP
/* A node is known by its place, counted from 1. */
F(cuStreamGetCaptureInfo_v3, x, void *s, int *status, uint64_t *id, void **g, void *const **nodes, const void **edges,
    size_t *n)
{
    static _Thread_local void *last;
    stream *at = s;
    *status = at->capturing != NULL;
    *id = 1;
    *g = at->capturing;
    *edges = NULL;
    *n = at->capturing && at->capturing->count;
    if (*n) last = (void *)(uintptr_t)at->capturing->count;
    *nodes = &last;
    return OK;
}
F(cuGraphExecKernelNodeSetParams, x, void *exec, void *node, const void *parameters)
{
    const struct {
        void *function;
        unsigned groups[3], group[3], shared;
        void **list, **extra;
    } *p = parameters;
    graph *g = exec;
    uintptr_t at = (uintptr_t)node;
    READY();
    if (at < 1 || at > (uintptr_t)g->count || g->items[at - 1].kind != TOUCH || p->extra) return INVALID;
    if ((uintptr_t)p->function < GENERATED || g->items[at - 1].size != (uintptr_t)p->function - GENERATED)
        return INVALID;
    memcpy(g->items[at - 1].pointers, p->list[0], g->items[at - 1].size * sizeof(uint64_t));
    return OK;
}
#endif
F(cuGraphDestroy, hipGraphDestroy, void *g) { return drop(g); }
F(cuGraphExecDestroy, hipGraphExecDestroy, void *g) { return drop(g); }
F(cuGraphLaunch, hipGraphLaunch, void *exec, void *s)
{
    const graph *g = exec;
    int code = state();
    for (int i = 0; i < g->count && !code; i++) code = send(s, g->items[i]);
    return code;
}
#endif

/* ---- the compiler: text becomes an "image" that starts with IMAGE ---- */
#ifndef FAKE_WITHOUT_COMPILER
typedef struct program {
    char *text;
    char log[256];
} program;
OUT const char *N(nvrtcGetErrorString, hiprtcGetErrorString)(int code);
OUT const char *N(nvrtcGetErrorString, hiprtcGetErrorString)(int code)
{
    return code == 6 ? "compilation failed" : "other failure";
}
F(nvrtcVersion, hiprtcVersion, int *major, int *minor) { return *major = 12, *minor = 8, 0; }
#ifndef FAKE_HIP
F(nvrtcGetNumSupportedArchs, x, int *n) { return *n = 3, 0; }
F(nvrtcGetSupportedArchs, x, int *list) { return list[0] = 90, list[1] = 75, list[2] = 80, 0; }
#endif
F(nvrtcCreateProgram, hiprtcCreateProgram, void **p, const char *text, const char *name, int n,
    const char *const *headers, const char *const *header_names)
{
    program *made = calloc(1, sizeof *made);
    (void)name, (void)n, (void)headers, (void)header_names;
    made->text = malloc(strlen(text) + sizeof IMAGE);
    sprintf(made->text, "%s%s", IMAGE, text);
    *p = made;
    live_objects++;
    return 0;
}
F(nvrtcDestroyProgram, hiprtcDestroyProgram, void **p)
{
    free(((program *)*p)->text);
    free(*p);
    live_objects--;
    return *p = NULL, 0;
}
F(nvrtcCompileProgram, hiprtcCompileProgram, void *p, int n, const char *const *options)
{
    program *at = p;
    if (setting("FAKE_NO_COMPILER", 0)) return snprintf(at->log, sizeof at->log, "the compiler was called"), 6;
    if (!strstr(at->text, "#error")) return 0;
    snprintf(at->log, sizeof at->log, "kernel.cu(1): error: #error directive");
    for (int i = 0; i < n; i++) strcat(strcat(at->log, " "), options[i]);
    return 6;
}
F(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize, void *p, size_t *n)
{
    return *n = strlen(((program *)p)->log) + 1, 0;
}
F(nvrtcGetProgramLog, hiprtcGetProgramLog, void *p, char *s) { return strcpy(s, ((program *)p)->log), 0; }
F(nvrtcGetCUBINSize, hiprtcGetCodeSize, void *p, size_t *n) { return *n = strlen(((program *)p)->text) + 1, 0; }
F(nvrtcGetCUBIN, hiprtcGetCode, void *p, char *s) { return strcpy(s, ((program *)p)->text), 0; }
#endif

/* ---- cuBLASLt: what it is told is checked, and products are real ---- */
#if !defined(FAKE_HIP) && !defined(FAKE_WITHOUT_COMPILER)
typedef struct product {
    int compute, turned[2];
} product;
typedef struct wish {
    uint64_t workspace;
    uint32_t reductions, alignment;
} wish;
typedef struct choice {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} choice;
enum { BLAS_INVALID = 7, BLAS_WORKSPACE = 4096 };

F(cublasLtCreate, x, void **handle) { return current ? make(handle, 1) : BLAS_INVALID; }
F(cublasLtDestroy, x, void *handle) { return drop(handle); }
F(cublasLtMatmulDescCreate, x, void **p, int compute, int scale)
{
    int code = scale ? BLAS_INVALID : make(p, sizeof(product));
    if (!code) *(product *)*p = (product){compute, {0, 0}};
    return code;
}
F(cublasLtMatmulDescDestroy, x, void *p) { return drop(p); }
F(cublasLtMatmulDescSetAttribute, x, void *p, int attribute, const void *value, size_t size)
{
    if (attribute < 3 || attribute > 4 || size != 4) return BLAS_INVALID;
    return memcpy(&((product *)p)->turned[attribute - 3], value, size), OK;
}
F(cublasLtMatrixLayoutCreate, x, void **l, int type, uint64_t rows, uint64_t columns, int64_t pitch)
{
    int code = (int64_t)rows > pitch ? BLAS_INVALID : make(l, sizeof(layout));
    if (!code) *(layout *)*l = (layout){type, rows, columns, pitch, 0, 1};
    return code;
}
F(cublasLtMatrixLayoutDestroy, x, void *l) { return drop(l); }
F(cublasLtMatrixLayoutSetAttribute, x, void *l, int attribute, const void *value, size_t size)
{
    layout *at = l;
    if (attribute == 5 && size == 4) return memcpy(&at->batches, value, size), OK;
    if (attribute == 6 && size == 8) return memcpy(&at->stride, value, size), OK;
    return BLAS_INVALID;
}
F(cublasLtMatmulPreferenceCreate, x, void **w)
{
    int code = make(w, sizeof(wish));
    if (!code) *(wish *)*w = (wish){0, 7, 256};
    return code;
}
F(cublasLtMatmulPreferenceDestroy, x, void *w) { return drop(w); }
F(cublasLtMatmulPreferenceSetAttribute, x, void *w, int attribute, const void *value, size_t size)
{
    wish *at = w;
    if (attribute == 1 && size == 8) return memcpy(&at->workspace, value, size), OK;
    if (attribute == 3 && size == 4) return memcpy(&at->reductions, value, size), OK;
    if (attribute >= 5 && attribute <= 8 && size == 4) return memcpy(&at->alignment, value, size), OK;
    return BLAS_INVALID;
}
F(cublasLtMatmulAlgoGetHeuristic, x, void *handle, void *p, void *a, void *b, void *c, void *d, void *w, int wanted,
    choice *out, int *found)
{
    const layout *first = a, *second = b, *to = d;
    const product *how = p;
    const wish *want = w;
    *found = 0;
    if (!handle || c != d || wanted < 1 || first->batches != to->batches || second->batches != to->batches)
        return BLAS_INVALID;
    if (first->type != to->type || second->type != to->type) return BLAS_INVALID;
    if (setting("FAKE_NO_PRODUCTS", 0)) return 15;
    uint64_t rows = how->turned[0] ? first->columns : first->rows,
             depth = how->turned[0] ? first->rows : first->columns;
    uint64_t depth_b = how->turned[1] ? second->columns : second->rows,
             columns = how->turned[1] ? second->rows : second->columns;
    if (rows != to->rows || columns != to->columns || depth != depth_b) return BLAS_INVALID;
    /* f32 is multiplied as it is, sums have an order, and memory is as aligned as is said. */
    if (how->compute != (to->type ? 68 : 69) || want->reductions != 2 || want->alignment != 16) return BLAS_INVALID;
    *out = (choice){{0x5eed}, BLAS_WORKSPACE, 0, 1, {0}};
    return *found = want->workspace >= BLAS_WORKSPACE, OK;
}
F(cublasLtMatmul, x, void *handle, void *p, const void *alpha, uint64_t a, void *la, uint64_t b, void *lb,
    const void *beta, uint64_t c, void *lc, uint64_t d, void *ld, const uint64_t *algorithm, uint64_t workspace,
    size_t size, void *s)
{
    const product *how = p;
    if (!handle || *(const float *)alpha != 1 || *(const float *)beta != 0 || c != d || lc != ld) return BLAS_INVALID;
    if (*algorithm != 0x5eed || size < BLAS_WORKSPACE || !workspace || !is_alive(workspace)) return BLAS_INVALID;
    if (a % 16 || b % 16 || d % 16 || !is_alive(a) || !is_alive(b) || !is_alive(d)) return BLAS_INVALID;
    work w = {.kind = PRODUCT, .to = P(d), .from = P(a), .other = P(b), .turned = {how->turned[0], how->turned[1]}};
    memcpy(&w.layout[0], la, sizeof(layout));
    memcpy(&w.layout[1], lb, sizeof(layout));
    memcpy(&w.layout[2], ld, sizeof(layout));
    return send(s, w);
}
#endif
