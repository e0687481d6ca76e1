/* Routines of fast paths (graph/plan/paths.def), in three kinds:
 *
 *   host    a function of this process over host memory, for devices that run those (kernel/cpu/routines.h)
 *   kernels launches of kernels written in IR, for any device that builds kernels
 *   call    a library's function on a stream, for devices with such a library (device/call.h)
 *
 * All take `args`, a struct of the routine's own with 8-byte members only. */
#ifndef GALE_KERNEL_ROUTINES_ROUTINE_H
#define GALE_KERNEL_ROUTINES_ROUTINE_H
#include "device/call.h"
#include "kernel/cpu/routines.h"
#include "kernel/ir/ir.h"

/* One launch of a routine made of kernels. */
enum { GALE__ROUTINE_WORDS = 64, GALE__ROUTINE_REFS = 8 };
typedef struct gale__routine_launch {
    char key[64]; /* identifies the kernel's source; also a C identifier */
    uint32_t groups[3], words[GALE__ROUTINE_WORDS];
    int n_words, n_refs;
    int8_t refs[GALE__ROUTINE_REFS]; /* by pointer parameter: 0 the result, then the operands; GALE__ROUTINE_SPACE */
    const char *unit;                /* an instruction that reports name after the routine; NULL: none */
} gale__routine_launch;
#define GALE__ROUTINE_SPACE (-1) /* the extra memory requested by the claim */

/* Describes launch i; false: there is none, those before were all. */
typedef bool gale__routine_describe(const void *args, const gale_device_caps *caps, int i, gale__routine_launch *out);
/* Appends the code of launch i to `ir`, which already has its name and parameters, and sets the group; called once for
 * each key. */
typedef void gale__routine_build(const void *args, const gale_device_caps *caps, int i, gale__ir *ir);
typedef struct gale__kernel_routine {
    gale__routine_describe *describe;
    gale__routine_build *build;
} gale__kernel_routine;

/* Prepares a library's call for these arguments; its workspace is then known. */
typedef gale_status gale__call_routine(gale_device *device, const void *args, gale__call **out);

/* The attention of kernel/cpu/routines.h in f16 or bf16, sums and softmax in f32, by matrix units. */
typedef struct gale__attention {
    gale__cpu_attention a;
    int64_t type, mask_type; /* gale_type: of q, k, v and the result; of the mask */
    int64_t levels;          /* gale_type of the result in levels of 8 bits; 0: it is of `type` */
    int64_t beside;          /* heads, the last leading axis, whose results are side by side in a row; 0: one below the
                                other; levels: not 0 */
    int64_t factors;         /* levels: whether a number for each column of such a row is multiplied first */
    double step, zero;       /* levels: result / step + zero */
} gale__attention;
extern const gale__kernel_routine gale__attention_kernels;
bool gale__attention_fits(const gale__attention *a, const gale_device_caps *caps);

extern const gale__kernel_routine gale__cell_kernels;
/* Whether the kernels support such steps on this device. */
bool gale__cell_kernels_fit(const gale__cpu_cell *a, const gale_device_caps *caps);

/* Levels of pictures, [channels, height, width] of f32 or f16, one after another without the first: each half as wide
 * and as high as the one before. */
typedef struct gale__levels_args {
    int64_t channels, height, width;
    int64_t type, reduce, round_up; /* gale_type; gale__levels_reduce */
} gale__levels_args;
typedef enum gale__levels_reduce { GALE__LEVELS_AVERAGE, GALE__LEVELS_LARGEST, GALE__LEVELS_LEAST } gale__levels_reduce;
int64_t gale__levels_count(const gale__levels_args *a); /* without the first */
int64_t gale__levels_size(
    const gale__levels_args *a, int64_t n, int64_t level); /* of an axis of n samples; 0: n itself */
/* Where a level begins in the result, from 1 on; of one past the last: the elements of all. */
int64_t gale__levels_offset(const gale__levels_args *a, int64_t level);
extern const gale__kernel_routine gale__levels_kernels;
bool gale__levels_kernels_fit(const gale__levels_args *a, const gale_device_caps *caps);

extern const gale__kernel_routine gale__counts_kernels;
bool gale__counts_kernels_fit(const gale__counts_args *a, const gale_device_caps *caps);

/* EXR's ZIP chunks, scan lines or tiles with all channels of the file each, to planes [planes, height, width].  Samples
 * are of 16 bits; rows of wider ones are two channels, of which the second continues the first.  Launched by jobs, not
 * by plans.  Pointers: the planes; a flag for each chunk, 0: it was as it should; space_bytes; a table; the input.  The
 * table: for each channel of the file where its plane begins, with SECOND if it continues a row, or NOWHERE; then the
 * chunks. */
#define GALE__INFLATE_SECOND 0x80000000u
#define GALE__INFLATE_NOWHERE UINT32_MAX
typedef struct gale__inflate_chunk {
    uint32_t at, packed; /* bytes in the input */
    uint32_t size;       /* bytes unpacked: whole rows */
    uint32_t space;      /* where in the space it has gale__inflate_space bytes, a multiple of 16 */
    uint32_t place;      /* of its first sample in a plane */
    uint32_t sum;        /* Adler-32 */
    uint32_t raw;        /* 1: stored as it is */
    uint32_t width;      /* samples of a row, of one channel */
} gale__inflate_chunk;
typedef struct gale__inflate_args {
    int64_t chunks, channels, width, height;       /* channels: of the file; extents of a plane */
    int64_t input_bytes, chunk_bytes, space_bytes; /* chunk_bytes: of the largest, unpacked */
    bool odd;                                      /* a chunk has rows that are not whole vectors of 8 samples */
} gale__inflate_args;
/* For bytes of a chunk, and a few past its end. */
static inline uint64_t gale__inflate_space(uint64_t bytes) { return (bytes + 15) / 16 * 16 + 256; }
enum { GALE__INFLATE_POINTERS = 5, GALE__INFLATE_WORDS = 3, GALE__INFLATE_LANES = 32 };
extern const gale__kernel_routine gale__inflate_kernels;
bool gale__inflate_fits(const gale__inflate_args *a, const gale_device_caps *caps);

/* All steps in one kernel, whose groups wait for each other; weights in f32, f16 or bf16, and lengths. */
extern const gale__kernel_routine gale__cell_loop_kernels;
bool gale__cell_loop_fits(const gale__cpu_cell *a, const gale_device_caps *caps, uint64_t *space_bytes);

extern const gale__kernel_routine gale__nms_kernels;
/* Whether the kernels take such a suppression on this device, and the bytes of extra memory they need. */
bool gale__nms_kernels_fit(const gale__nms_args *a, const gale_device_caps *caps, uint64_t *space_bytes);
#endif
