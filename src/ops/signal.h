/* Shared by transforms and windows. */
#ifndef GALE_OPS_SIGNAL_H
#define GALE_OPS_SIGNAL_H
#include "ops/lower.h"

#define GALE__SIGNAL_LONGEST (1ll << 26) /* signals */
/* index half turns over n, times `sign`, as precise as the device is; index is brought into one turn first, where sine
 * and cosine are exact. */
gale__node gale__signal_angle(gale__lower *L, gale__node index, int64_t n, int sign);
/* One whole number given as input i, or the fallback; 1 to GALE__SIGNAL_LONGEST. */
int64_t gale__signal_length(gale__lower *L, int i, int64_t fallback);

/* A complex value; im is NIL for a real one. */
typedef struct gale__signal {
    gale__node re, im;
} gale__signal;
/* Whether the length is a product of 2, 4 and small odd numbers. */
bool gale__signal_is_smooth(int64_t n);
/* x [rows, n] transformed by butterflies in its own type; sign -1: forward.  Not divided by n. */
gale__signal gale__signal_butterflies(gale__lower *L, gale__signal x, int64_t n, int sign);
#endif
