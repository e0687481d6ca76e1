/* Shared by the sources that are compiled once per instruction set. */
#ifndef GALE_KERNEL_CPU_SIMD_ISA_H
#define GALE_KERNEL_CPU_SIMD_ISA_H
#include "kernel/cpu/simd.h"

#define SIMD_JOIN2(a, b) a##_##b
#define SIMD_JOIN(a, b) SIMD_JOIN2(a, b)
/* The name of a function of this instruction set. */
#define SIMD(name) SIMD_JOIN(gale__simd_##name, GALE_ISA)

void SIMD(ops)(gale__simd *t);
void SIMD(pair)(gale__simd *t);
void SIMD(math)(gale__simd *t);
void SIMD(cast)(gale__simd *t);
void SIMD(move)(gale__simd *t);
void SIMD(fold)(gale__simd *t);
void SIMD(gemm)(gale__simd *t);
void SIMD(rows)(gale__simd *t);
void SIMD(bytes)(gale__simd *t);
void SIMD(winograd)(gale__simd *t);
void SIMD(upright)(gale__simd *t);
void SIMD(depth)(gale__simd *t);
void SIMD(last)(gale__simd *t);
void SIMD(pool)(gale__simd *t);
void SIMD(dot)(gale__simd *t);
void SIMD(dot_last)(gale__simd *t);
void SIMD(tiles_last)(gale__simd *t);
void SIMD(shares)(gale__simd *t, void (*open)(void), void (*close)(void));

/* Names of the micro-kernels of so many rows, and their entry in a table. */
#define PART2(name, rows) name##_##rows
#define PART(name, rows) PART2(name, rows)
#define PART_AT2(name, rows) name##_at_##rows
#define PART_AT(name, rows) PART_AT2(name, rows)
#define ROW_OF(name, rows)                                      \
    {                                                           \
        rows, PART(name, rows), PART_AT(name, rows), NULL, NULL \
    }
/* The same with a slim one. */
#define PART_SLIM2(name, rows) name##_slim_##rows
#define PART_SLIM(name, rows) PART_SLIM2(name, rows)
#define ROW_SLIM(name, rows)                                                     \
    {                                                                            \
        rows, PART(name, rows), PART_AT(name, rows), PART_SLIM(name, rows), NULL \
    }
/* The same with those that finish their tile. */
#define PART_DONE2(name, rows, form) name##_done_##form##_##rows
#define PART_DONE(name, rows, form) PART_DONE2(name, rows, form)
#define PART_ROWS2(name, rows) name##_rows_##rows
#define PART_ROWS(name, rows) PART_ROWS2(name, rows)
#define ROW_DONE(name, rows)                                                                        \
    {                                                                                               \
        rows, PART(name, rows), PART_AT(name, rows), PART_SLIM(name, rows),                         \
            {PART_DONE(name, rows, full), PART_DONE(name, rows, some), PART_DONE(name, rows, slim), \
                PART_DONE(name, rows, padded)},                                                     \
            PART_ROWS(name, rows)                                                                   \
    }

/* Blocks are equal or apart: no element depends on one before it. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* what cannot be vectorised stays a loop */
#define SIMD_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define SIMD_LOOP _Pragma("GCC ivdep")
#endif
#define SIMD_UNUSED (void)a_, (void)b_, (void)c_
/* A function over blocks: elements x, y, z of operands of types A, B, C; the result `expr` of type D. */
#define SIMD_FN1(name, D, A, expr)                                                       \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) \
    {                                                                                    \
        D *d = d_;                                                                       \
        const A *a = a_;                                                                 \
        SIMD_UNUSED;                                                                     \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                                         \
        {                                                                                \
            A x = a[i];                                                                  \
            d[i] = (D)(expr);                                                            \
        }                                                                                \
    }
#define SIMD_FN2(name, D, A, B, expr)                                                    \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) \
    {                                                                                    \
        D *d = d_;                                                                       \
        const A *a = a_;                                                                 \
        const B *b = b_;                                                                 \
        SIMD_UNUSED;                                                                     \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                                         \
        {                                                                                \
            A x = a[i];                                                                  \
            B y = b[i];                                                                  \
            d[i] = (D)(expr);                                                            \
        }                                                                                \
    }
#define SIMD_FN3(name, D, A, B, C, expr)                                                 \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) \
    {                                                                                    \
        D *d = d_;                                                                       \
        const A *a = a_;                                                                 \
        const B *b = b_;                                                                 \
        const C *c = c_;                                                                 \
        SIMD_LOOP for (size_t i = 0; i < n; i++)                                         \
        {                                                                                \
            A x = a[i];                                                                  \
            B y = b[i];                                                                  \
            C z = c[i];                                                                  \
            d[i] = (D)(expr);                                                            \
        }                                                                                \
    }
#endif
