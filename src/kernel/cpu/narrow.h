/* Operands of a contraction that are narrower than its sums: bytes, less a zero point, or bf16.  They are packed as
 * stored, for micro-kernels that multiply several steps of k at once, in units: some steps of one row side
 * by side.
 *
 * Zero points never enter the panels.  With a' and b' for what the panels hold, the sum of (a' - p)(b' - q) over k
 * steps is that of a' b', less p times the sum of b', less q times the sum of a', plus k p q; so the panels come with
 * the sums of their rows.  A micro-kernel that wants signed bytes takes unsigned ones less 128, which moves the zero
 * point. */
#ifndef GALE_KERNEL_CPU_NARROW_H
#define GALE_KERNEL_CPU_NARROW_H
#include "kernel/cpu/tape.h"

typedef struct gale__cpu_narrow {
    const gale__nest_access *access; /* of the elements; NULL: the operand is not narrow */
    int zero;                        /* instruction of the zero point; -1: none */
    bool known;                      /* the zero point is a constant */
    int32_t point;                   /* that constant, less shift */
    uint8_t flip;                    /* 0x80: bytes change their sign when they are packed */
    int32_t shift;                   /* what that takes away from them */
    bool widened;                    /* bytes are packed as 16-bit numbers */
    gale__cpu_tape tape;             /* zero points, rows side by side, unless they are known */
    gale__cpu_section section;
    int out;
} gale__cpu_narrow;

/* The micro-kernel for factors `a` and `b` of a product, and how they are packed for it; NULL: these are not narrow, or
 * this processor has none.  tiles: there are enough rows and lanes for one that multiplies tiles. */
const gale__simd_gemm *gale__cpu_narrow_find(
    const gale__nest *nest, int mul, int a, int b, bool tiles, gale__cpu_narrow *narrow_a, gale__cpu_narrow *narrow_b);
/* Whether `value` is bytes as I32, less a zero point that is known or not: its load, and the point. */
bool gale__cpu_narrow_look(const gale__nest *nest, int value, gale__cpu_narrow *n);
/* The tape of the zero points. */
gale_status gale__cpu_narrow_init(gale__cpu_narrow *n, const gale__nest *nest);
/* Less shift: of n rows of the span from r0 on.  f: a frame of the tape; not used where the point is known. */
void gale__cpu_narrow_points(
    const gale__cpu_narrow *n, gale__cpu_frame *f, const gale__cpu_span *rows, int64_t r0, int64_t count, int32_t *out);
/* Elements as stored become those of panels. */
void gale__cpu_narrow_convert(const gale__cpu_narrow *n, const void *from, int64_t count, void *to);
/* `group` rows of n elements, from `from` on, woven into units, in one of the two areas, which are both overwritten. */
char *gale__cpu_narrow_weave(const gale__simd *simd, char *from, char *to, int64_t group, int64_t n, size_t element);
/* Bytes of a unit for steps side by side. */
size_t gale__cpu_narrow_unit(const gale__simd_gemm *gemm);

/* How panels are packed: `group` steps a unit of `unit` bytes, panels of `width` rows. */
typedef struct gale__cpu_units {
    const gale__cpu_narrow *narrow;
    const gale__cpu_span *rows, *k;
    gale__cpu_section section;
    int out;                        /* register of the elements as stored */
    int64_t group, width, together; /* together: units come in multiples of it, filled up with 0 */
    size_t unit;
    bool along_k;
    const int32_t
        *order;     /* step of k at each place of the units (-1: 0), which are packed at once; NULL: as they come */
    int64_t places; /* then how many */
} gale__cpu_units;
/* Rows [r0, r0 + count) as panels of kn steps from k0 on; sums (or NULL): of each row over these steps, panels filled
 * up with 0.  temp: gale__cpu_units_temp bytes. */
void gale__cpu_units_pack(const gale__cpu_units *u, gale__cpu_frame *f, int64_t r0, int64_t count, int64_t k0,
    int64_t kn, char *temp, char *out, int32_t *sums);
size_t gale__cpu_units_temp(const gale__cpu_tape *t);
#endif
