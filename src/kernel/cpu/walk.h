/* Walks an access over a block: the lanes are divided into runs along the fastest dimension of the span, and each run
 * into pieces inside and outside the guards, so that no lane is handled individually unless a dilation requires it. */
#ifndef GALE_KERNEL_CPU_WALK_H
#define GALE_KERNEL_CPU_WALK_H
#include "kernel/cpu/tape.h"
#include <string.h>

/* An element as a number of its bits; size: the logarithm of its bytes. */
static inline uint64_t gale__cpu_read_bits(const void *p, int size)
{
    uint64_t bits = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&bits, p, (size_t)1 << size);
#else
    memcpy((char *)&bits + 8 - ((size_t)1 << size), p, (size_t)1 << size);
#endif
    return bits;
}

/* n lanes from lane `at` on: elements address, address + stride, ...; outside the guards (inside false) neither means
 * anything. */
typedef struct gale__cpu_piece {
    size_t at, n;
    int64_t address, stride;
    bool inside;
} gale__cpu_piece;
typedef void gale__cpu_piece_fn(void *arg, const gale__cpu_piece *p);
/* The element that an access reads at these coordinates, guards aside. */
int64_t gale__cpu_address(const gale__nest_access *a, const int64_t *at, int n_dims);
/* What a lane adds to the address, and how many lanes are adjacent, from a multiple of that on; 0: not even two. */
int64_t gale__cpu_lane_address(const gale__nest_access *a, const gale__cpu_span *lanes, int64_t lane);
int64_t gale__cpu_run_of(const gale__nest_access *a, const gale__cpu_span *lanes);
void gale__cpu_walk(const gale__cpu_frame *f, const gale__nest_access *access, gale__cpu_piece_fn *fn, void *arg);
/* True when the whole block is one run without guards; then *out is that piece. */
bool gale__cpu_walk_plain(const gale__cpu_frame *f, const gale__nest_access *access, gale__cpu_piece *out);
/* Moves a block between memory and adjacent lanes, row by row, for an access without guards.  Rows are often short:
 * their bytes are copied here.  size: logarithm of an element's. */
void gale__cpu_load_rows(
    const gale__cpu_frame *f, const gale__nest_access *a, int size, void *block, const char *memory);
void gale__cpu_store_rows(
    const gale__cpu_frame *f, const gale__nest_access *a, int size, char *memory, const void *block);
/* Lanes i of [*lo, *hi) with 0 <= v + c i < limit. */
void gale__cpu_clip(int64_t v, int64_t c, int64_t limit, int64_t *lo, int64_t *hi);
#endif
