/* Colours under alpha on their way out of a network. */
#ifndef GALE_JOBS_MATTE_H
#define GALE_JOBS_MATTE_H
#include <stddef.h>

/* The least alpha that colours are divided by: one step of 16 bits. */
#define GALE__MATTE_LEAST (1.0f / 65535)

/* Between which values straight colours lie; at least 0 and 1. */
typedef struct gale__matte_range {
    float low, high;
} gale__matte_range;

/* Of `planes` colour planes of n samples, multiplied by alpha.  What lies under less alpha than the least is not asked.
 */
gale__matte_range gale__matte_find(const float *colours, int planes, const float *alpha, size_t n);
/* Takes colours that are multiplied by alpha back into the range, the more so the less alpha there is: a small error of
 * the network would be a large one once it is divided by alpha.  What is opaque stays as it is. */
void gale__matte_limit(gale__matte_range range, float *colours, int planes, const float *alpha, size_t n);
#endif
