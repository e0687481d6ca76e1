/* Sorting, scanning and scattering on a GPU: the primitives that are not loop nests, each a short list of launches.
 *
 *     gale__special_sort(&job, caps, type, rows, n, descending);
 *     for (int i = 0; i < job.n_launches; i++) {
 *         gale__special_launch_get(&job, i, &launch); // key, grid, words, and which buffer each pointer is
 *         // where gale__kernel_is_new: gale__special_build(&launch, &ir) and gale__kernel_want
 *     }
 *
 * Results are the same from run to run: sorting is stable, and updates of one element are applied in their order. */
#ifndef GALE_KERNEL_SPECIAL_H
#define GALE_KERNEL_SPECIAL_H
#include "kernel/ir/ir.h"
#include "kernel/nest/nest.h"

enum { GALE__SPECIAL_RESULT, GALE__SPECIAL_INPUT, GALE__SPECIAL_INDEX, GALE__SPECIAL_SCRATCH };
typedef struct gale__special_ref {
    uint8_t buffer;
    uint64_t offset;
} gale__special_ref; /* offset in bytes */

typedef struct gale__special_launch {
    char key[64]; /* names the kernel's text; a C identifier too */
    uint32_t groups[3];
    uint32_t words[8];
    int n_words, n_refs;
    gale__special_ref refs[5]; /* by pointer parameter */
    /* What the text is made from. */
    uint8_t kernel, type, mode; /* storage type; descending, or gale__reduce */
    uint8_t wide;               /* sort keys of 64 bits */
    uint8_t limited;            /* sort keys are indices: those out of range go last */
    uint32_t block, threads;    /* elements and threads of a group */
} gale__special_launch;

typedef struct gale__special_job {
    uint8_t op; /* 's' sort, 'c' scan, 'p' put */
    gale_type type;
    int mode;
    int64_t rows, n, inner, count;
    uint64_t limit;         /* PUT: its sort takes indices below this */
    uint64_t padded, block; /* SORT: elements of a row and of a group, powers of two; SCAN: of a group */
    uint32_t threads;
    int levels;     /* SCAN: of totals */
    uint64_t piece; /* PUT: updates that one launch applies */
    int n_launches;
    uint64_t scratch_bytes;
} gale__special_job;

/* argsort of rows of n elements: RESULT is I64 [rows, n].  NaN counts as largest. */
gale_status gale__special_sort(
    gale__special_job *job, const gale_device_caps *caps, gale_type type, int64_t rows, int64_t n, bool descending);
/* Inclusive scan of [outer, n, inner] along the middle axis; SUM PROD RMAX RMIN. */
gale_status gale__special_scan(gale__special_job *job, const gale_device_caps *caps, gale_type type, gale__reduce kind,
    int64_t outer, int64_t n, int64_t inner);
/* RESULT (n elements, initial values already in it) takes `count` updates (INPUT) at INDEX (I64); mode -1: set, the
 * last wins. */
gale_status gale__special_put(
    gale__special_job *job, const gale_device_caps *caps, gale_type type, int mode, int64_t n, int64_t count);

void gale__special_launch_get(const gale__special_job *job, int i, gale__special_launch *out);
/* The kernel is the caller's to finish; nothing to finish on failure. */
gale_status gale__special_build(const gale__special_launch *launch, gale__ir *ir);
#endif
