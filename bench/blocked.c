/* Convolutions in a channels-blocked layout (blocks of 8 channels, with AVX-512 16, lanes along them) beside gale's own
 * kernels for the same layers in the declared layout: what a blocked layout could gain, before conversions at its
 * borders.  The blocked kernels are given every advantage: inputs lie blocked and padded already, weights too.  NEON
 * and AVX-512 only; processor time of one thread, the least of several turns (GALE_THREADS=1); `bench_blocked WORD`
 * times the layers with it in their name, `bench_blocked IN OUT SIZE TAPS STRIDE` one layer (IN 0: by channel).
 */
#include "base/cpu.h"
#include "base/thread.h"
#include "kernel/cpu/interp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct layer {
    const char *name;
    int64_t k, o, size, taps, stride; /* channels, map of the input, taps along an axis */
    bool depthwise;
} layer;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *floats(int64_t n)
{
    float *p = gale__alloc_aligned(64, (size_t)n * sizeof *p + 256);
    for (int64_t i = 0; p && i < n; i++) p[i] = (float)(i % 97) / 97 - 0.5f;
    return p;
}

#if defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
enum { BLOCK = 8, TOGETHER = 8 };
#define tile_MOST tile_9
#define MOST 9
#elif defined(__x86_64__)
#pragma GCC target("avx512f")
#include <immintrin.h>
enum { BLOCK = 16, TOGETHER = 32 };
#define tile_MOST tile_14
#define MOST 14
#endif
#if defined(__x86_64__) || (defined(__ARM_NEON) && defined(__aarch64__))

typedef struct blocked {
    const layer *l;
    int64_t side, padded, plane; /* of the result; of a padded row; floats of a block of channels */
    int32_t offset[9];
    float *x, *w, *bias, *y;
} blocked;

/* P neighbouring results of TOGETHER channels each; weights: [block of k][tap][BLOCK of k][TOGETHER of o]. */
#ifdef __x86_64__
#define TILE_OF(P, S)                                                                                         \
    static void tile_##P##_##S(const blocked *b, const float *x, const float *w, const float *bias, float *y) \
    {                                                                                                         \
        __m512 s[P][2];                                                                                       \
        int64_t taps = b->l->taps * b->l->taps, next = b->side * b->side * BLOCK;                             \
        _Pragma("GCC unroll 14") for (int p = 0; p < P; p++)                                                  \
        {                                                                                                     \
            s[p][0] = _mm512_loadu_ps(bias);                                                                  \
            s[p][1] = _mm512_loadu_ps(bias + BLOCK);                                                          \
        }                                                                                                     \
        for (int64_t k = 0; k < b->l->k; k += BLOCK, x += b->plane)                                           \
            for (int64_t t = 0; t < taps; t++) {                                                              \
                const float *at = x + b->offset[t];                                                           \
                _Pragma("GCC unroll 4") for (int j = 0; j < BLOCK; j++, w += TOGETHER)                        \
                {                                                                                             \
                    __m512 w0 = _mm512_loadu_ps(w), w1 = _mm512_loadu_ps(w + BLOCK);                          \
                    __builtin_prefetch(w + 16 * TOGETHER);                                                    \
                    __builtin_prefetch(w + 16 * TOGETHER + BLOCK);                                            \
                    _Pragma("GCC unroll 14") for (int p = 0; p < P; p++)                                      \
                    {                                                                                         \
                        __m512 v = _mm512_set1_ps(at[p * S * BLOCK + j]);                                     \
                        s[p][0] = _mm512_fmadd_ps(v, w0, s[p][0]);                                            \
                        s[p][1] = _mm512_fmadd_ps(v, w1, s[p][1]);                                            \
                    }                                                                                         \
                }                                                                                             \
            }                                                                                                 \
        _Pragma("GCC unroll 14") for (int p = 0; p < P; p++)                                                  \
        {                                                                                                     \
            _mm512_storeu_ps(y + p * BLOCK, _mm512_max_ps(s[p][0], _mm512_setzero_ps()));                     \
            _mm512_storeu_ps(y + next + p * BLOCK, _mm512_max_ps(s[p][1], _mm512_setzero_ps()));              \
        }                                                                                                     \
    }
#define TILE(P)                                                                                         \
    TILE_OF(P, 1)                                                                                       \
    TILE_OF(P, 2)                                                                                       \
    static void tile_##P(const blocked *b, const float *x, const float *w, const float *bias, float *y) \
    {                                                                                                   \
        (b->l->stride == 1 ? tile_##P##_1 : tile_##P##_2)(b, x, w, bias, y);                            \
    }
TILE(1)
TILE(4)
TILE(7)
TILE(14)
#else
#define STEP(P, j)                                                                    \
    {                                                                                 \
        float32x4_t w0 = vld1q_f32(w + (j)*BLOCK), w1 = vld1q_f32(w + (j)*BLOCK + 4); \
        _Pragma("GCC unroll 12") for (int p = 0; p < P; p++)                          \
        {                                                                             \
            s[p][0] = vfmaq_laneq_f32(s[p][0], w0, v[p], j);                          \
            s[p][1] = vfmaq_laneq_f32(s[p][1], w1, v[p], j);                          \
        }                                                                             \
    }
#define TILE(P)                                                                                           \
    static void tile_##P(const blocked *b, const float *x, const float *w, const float *bias, float *y)   \
    {                                                                                                     \
        float32x4_t s[P][2], v[P];                                                                        \
        int64_t step = b->l->stride * BLOCK, taps = b->l->taps * b->l->taps;                              \
        _Pragma("GCC unroll 12") for (int p = 0; p < P; p++)                                              \
        {                                                                                                 \
            s[p][0] = vld1q_f32(bias);                                                                    \
            s[p][1] = vld1q_f32(bias + 4);                                                                \
        }                                                                                                 \
        for (int64_t k = 0; k < b->l->k; k += BLOCK, x += b->plane)                                       \
            for (int64_t t = 0; t < taps; t++)                                                            \
                for (int half = 0; half < 2; half++, w += 4 * BLOCK) {                                    \
                    const float *at = x + b->offset[t] + 4 * half;                                        \
                    _Pragma("GCC unroll 12") for (int p = 0; p < P; p++) v[p] = vld1q_f32(at + p * step); \
                    STEP(P, 0) STEP(P, 1) STEP(P, 2) STEP(P, 3)                                           \
                }                                                                                         \
        _Pragma("GCC unroll 12") for (int p = 0; p < P; p++)                                              \
        {                                                                                                 \
            vst1q_f32(y + p * BLOCK, vmaxq_f32(s[p][0], vdupq_n_f32(0)));                                 \
            vst1q_f32(y + p * BLOCK + 4, vmaxq_f32(s[p][1], vdupq_n_f32(0)));                             \
        }                                                                                                 \
    }
TILE(1)
TILE(4)
TILE(7)
TILE(9)

#endif

/* The most neighbours for which there is a tile. */
static int64_t tile_for(int64_t left)
{
#ifdef __x86_64__
    return left >= 14 ? 14 : left >= 7 ? 7 : left >= 4 ? 4 : 1;
#else
    return left >= 9 && left != 14 ? 9 : left >= 7 ? 7 : left >= 4 ? 4 : 1;
#endif
}

static void run_row(const blocked *b, const float *x, const float *w, const float *bias, float *y, int64_t n)
{
    int64_t step = b->l->stride * BLOCK;
    for (int64_t i = 0, p; i < n; i += p) {
        p = tile_for(n - i);
        (p == MOST ? tile_MOST : p == 7 ? tile_7 : p == 4 ? tile_4 : tile_1)(b, x + i * step, w, bias, y + i * BLOCK);
    }
}

/* Rows are walked inside of channels, whose weights stay in the second cache. */
static void run_dense(const blocked *b)
{
    const layer *l = b->l;
    for (int64_t o = 0; o < l->o; o += TOGETHER) {
        const float *w = b->w + o * l->k * l->taps * l->taps, *bias = b->bias + o;
        float *y = b->y + o * b->side * b->side;
        if (l->taps == 1 && l->stride == 1) {
            run_row(b, b->x, w, bias, y, b->side * b->side);
            continue;
        }
        for (int64_t row = 0; row < b->side; row++)
            run_row(b, b->x + row * l->stride * b->padded * BLOCK, w, bias, y + row * b->side * BLOCK, b->side);
    }
}

/* Four results of a block of channels at a time, of which each tap is one multiply-add. */
typedef float lanes __attribute__((vector_size(BLOCK * sizeof(float)), aligned(4), may_alias));
typedef int32_t truths __attribute__((vector_size(BLOCK * sizeof(float))));
static lanes positive(lanes x) { return (lanes)((truths)x & (truths)(x > (lanes){0})); }

static void run_depthwise(const blocked *b)
{
    const layer *l = b->l;
    for (int64_t o = 0; o < l->o; o += BLOCK)
        for (int64_t row = 0; row < b->side; row++)
            for (int64_t i = 0; i < b->side; i += 4) {
                const float *x = b->x + o / BLOCK * b->plane + (row * b->padded + i) * l->stride * BLOCK,
                            *w = b->w + o * 9;
                float *y = b->y + o * b->side * b->side + (row * b->side + i) * BLOCK;
                lanes s[4];
                for (int p = 0; p < 4; p++) s[p] = *(const lanes *)(b->bias + o);
                for (int t = 0; t < 9; t++, w += BLOCK)
                    for (int p = 0; p < 4; p++)
                        s[p] += *(const lanes *)w * *(const lanes *)(x + b->offset[t] + p * l->stride * BLOCK);
                for (int p = 0; p < 4 && i + p < b->side; p++) *(lanes *)(y + p * BLOCK) = positive(s[p]);
            }
}

static void open_blocked(blocked *b, const layer *l)
{
    int64_t pad = l->taps / 2;
    *b = (blocked){.l = l, .side = (l->size - 1) / l->stride + 1, .padded = l->size + 2 * pad};
    b->plane = b->padded * b->padded * BLOCK;
    for (int t = 0; t < l->taps * l->taps; t++)
        b->offset[t] = (int32_t)((t / l->taps * b->padded + t % l->taps) * BLOCK);
    b->x = floats(l->k / BLOCK * b->plane + 64 * BLOCK);
    b->w = floats(l->o * (l->depthwise ? 1 : l->k) * l->taps * l->taps);
    b->bias = floats(l->o);
    b->y = floats(l->o * b->side * b->side);
}

static void run_blocked(const blocked *b) { (b->l->depthwise ? run_depthwise : run_dense)(b); }

enum { X, W, B, Y, BUFFERS };
typedef struct own {
    gale__nest nest;
    gale__nest_instr code[8];
    gale__nest_access accesses[BUFFERS];
    gale__nest_guard guards[2];
    gale__nest_store stores[1];
    gale__nest_buffer buffers[BUFFERS];
    void *memory[BUFFERS];
    gale__cpu_kernel *kernel;
} own;

static int add(own *c, gale__nest_instr in)
{
    in.type = GALE_F32;
    c->code[c->nest.n_code] = in;
    return c->nest.n_code++;
}

/* The same layer as a nest over maps as declared, or channels-last. */
static void make_nest(own *c, const layer *l, bool last)
{
    int64_t pad = l->taps / 2, side = (l->size - 1) / l->stride + 1, k = l->depthwise ? 1 : l->k, s = l->size;
    const int64_t extent[6] = {l->o, side, side, k, l->taps, l->taps}, square = l->taps * l->taps;
    int64_t channel = last ? 1 : s * s, place = last ? l->k : 1, result = last ? 1 : side * side, at = last ? l->o : 1;
    *c = (own){.nest = {.n_outer = 3, .n_inner = 3, .n_buffers = BUFFERS, .n_accesses = BUFFERS, .n_stores = 1}};
    c->nest.code = c->code, c->nest.accesses = c->accesses, c->nest.stores = c->stores, c->nest.buffers = c->buffers;
    memcpy(c->nest.extent, extent, sizeof extent);
    const int64_t elements[BUFFERS] = {l->k * s * s, l->o * k * square, l->o, l->o * side * side};
    const int64_t strides[BUFFERS][6] = {{l->depthwise ? channel : 0, s * l->stride * place, l->stride * place,
                                             l->depthwise ? 0 : channel, s * place, place},
        {k * square, 0, 0, square, l->taps, 1}, {1, 0, 0, 0, 0, 0}, {result, side * at, at, 0, 0, 0}};
    for (int i = 0; i < BUFFERS; i++) {
        c->buffers[i] =
            (gale__nest_buffer){.elements = elements[i], .type = GALE_F32, .written = i == Y, .constant = i == W};
        c->accesses[i] = (gale__nest_access){.buffer = i, .type = GALE_F32};
        memcpy(c->accesses[i].stride, strides[i], sizeof strides[i]);
        c->memory[i] = floats(elements[i]);
    }
    for (int axis = 0; axis < 2; axis++) {
        c->guards[axis] = (gale__nest_guard){.c0 = -pad, .extent = s, .div = 1};
        c->guards[axis].coef[1 + axis] = l->stride;
        c->guards[axis].coef[4 + axis] = 1;
    }
    c->accesses[X].offset = -pad * (s + 1) * place;
    c->accesses[X].guards = c->guards;
    c->accesses[X].n_guards = pad ? 2 : 0;
    int x = add(c, (gale__nest_instr){.op = GALE__NEST_LOAD, .inner = 1, .access = X}),
        w = add(c, (gale__nest_instr){.op = GALE__NEST_LOAD, .inner = 1, .access = W}),
        product = add(c, (gale__nest_instr){.op = GALE__MUL, .inner = 1, .a = x, .b = w}),
        sum = add(c, (gale__nest_instr){.op = GALE__NEST_REDUCE, .a = product, .imm = GALE__SUM, .acc = GALE_F32}),
        bias = add(c, (gale__nest_instr){.op = GALE__NEST_LOAD, .access = B}),
        biased = add(c, (gale__nest_instr){.op = GALE__ADD, .a = sum, .b = bias}),
        zero = add(c, (gale__nest_instr){.op = GALE__NEST_CONST}),
        y = add(c, (gale__nest_instr){.op = GALE__MAX, .a = biased, .b = zero});
    c->stores[0] = (gale__nest_store){y, Y, -1, 0};
}

static bool open_own(own *c, const layer *l, bool last)
{
    make_nest(c, l, last);
    gale__nest_canonicalize(&c->nest);
    c->nest.last = last;
    if (gale__cpu_kernel_create(&c->nest, &c->kernel) != GALE_OK) return false;
    gale__cpu_panels p = gale__cpu_kernel_panels(c->kernel);
    if (!p.bytes) return true;
    void *made = gale__alloc_aligned(64, p.bytes);
    if (made) gale__cpu_kernel_make_panels(c->kernel, c->memory[p.buffer], made);
    gale__free(c->memory[p.buffer]);
    c->memory[p.buffer] = made;
    return made != NULL;
}

enum { DECLARED, LAST, BLOCKED, LAYOUTS };

static void measure(const layer *l)
{
    blocked b;
    own c[2];
    double best[LAYOUTS] = {1e9, 1e9, 1e9};
    bool fits = l->o % TOGETHER == 0 && (l->depthwise || l->k % BLOCK == 0) && l->taps <= 3;
    if (fits) open_blocked(&b, l);
    else b = (blocked){.side = (l->size - 1) / l->stride + 1};
    if (!open_own(&c[DECLARED], l, false) || !open_own(&c[LAST], l, true)) return;
    for (double end = now() + 1; now() < end;)
        for (int i = 0; i < LAYOUTS - !fits; i++) {
            double start = now();
            if (i == BLOCKED) run_blocked(&b);
            else gale__cpu_kernel_run(c[i].kernel, c[i].memory);
            double t = now() - start;
            if (t < best[i]) best[i] = t;
        }
    double work = 2e-3 * (double)(l->o * b.side * b.side * (l->depthwise ? 1 : l->k) * l->taps * l->taps);
    for (int i = 0; i < LAYOUTS; i++) best[i] *= 1e6;
    printf("%-30s %8.1f us %6.1f GFLOP/s (%s) | %8.1f us %6.1f GFLOP/s %4.2f (%s)", l->name, best[0], work / best[0],
        gale__cpu_kernel_schedule(c[0].kernel), best[1], work / best[1], best[0] / best[1],
        gale__cpu_kernel_schedule(c[1].kernel));
    if (fits) printf(" | %8.1f us %6.1f GFLOP/s %4.2f", best[2], work / best[2], best[0] / best[2]);
    printf("\n");
    fflush(stdout);
    for (int k = 0; k < 2; k++) {
        gale__cpu_kernel_destroy(&c[k].kernel);
        for (int i = 0; i < BUFFERS; i++) gale__free(c[k].memory[i]);
    }
    if (fits) gale__free(b.x), gale__free(b.w), gale__free(b.bias), gale__free(b.y);
}

int main(int argc, char **argv)
{
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx512f")) {
        printf("not on this processor: the kernels in blocks need AVX-512\n");
        return 0;
    }
#endif
    static const layer layers[] = {{"1x1, 64 to 256, 56x56", 64, 256, 56, 1, 1, false},
        {"1x1, 256 to 64, 56x56", 256, 64, 56, 1, 1, false}, {"1x1, 960 to 160, 7x7", 960, 160, 7, 1, 1, false},
        {"1x1, 512 to 128, 28x28", 512, 128, 28, 1, 1, false}, {"1x1, 1024 to 256, 14x14", 1024, 256, 14, 1, 1, false},
        {"1x1, 256 to 1024, 14x14", 256, 1024, 14, 1, 1, false}, {"1x1, 96 to 576, 14x14", 96, 576, 14, 1, 1, false},
        {"3x3, 256 to 256, 14x14", 256, 256, 14, 3, 1, false},
        {"3x3 by 2, 128 to 128, 56x56", 128, 128, 56, 3, 2, false},
        {"3x3 by 2, 256 to 256, 28x28", 256, 256, 28, 3, 2, false},
        {"3x3 by 2, 512 to 512, 14x14", 512, 512, 14, 3, 2, false}, {"3x3, 128 to 32, 28x28", 128, 32, 28, 3, 1, false},
        {"depthwise 3x3, 192, 28x28", 192, 192, 28, 3, 1, true},
        {"depthwise 3x3, 576, 14x14", 576, 576, 14, 3, 1, true}};
    printf("%s, %s: as declared | channels-last | in blocks, and the time as declared by theirs\n", gale__cpu_name(),
        gale__cpu_isa_name());
    if (argc == 6) {
        int64_t n[5];
        for (int i = 0; i < 5; i++) n[i] = strtoll(argv[i + 1], NULL, 10);
        layer one = {"", n[0] > 0 ? n[0] : n[1], n[1], n[2], n[3], n[4], n[0] == 0};
        measure(&one);
    }
    for (size_t i = 0; i < sizeof layers / sizeof *layers && argc < 6; i++)
        if (argc < 2 || strstr(layers[i].name, argv[1])) measure(&layers[i]);
    gale__parallel_finish();
    return 0;
}
#else
int main(void)
{
    printf("not on this architecture: the kernels in blocks are written for NEON and AVX-512\n");
    return 0;
}
#endif
