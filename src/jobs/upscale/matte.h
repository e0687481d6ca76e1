/* Colours under alpha on their way out of a network. */
#ifndef GALE_JOBS_MATTE_H
#define GALE_JOBS_MATTE_H
#include <stddef.h>

/* The least alpha that colours are divided by: one step of 16 bits. */
#define GALE__MATTE_LEAST (1.0f / 65535)

/* The range of straight colours; at least 0 to 1. */
typedef struct gale__matte_range {
    float low, high;
} gale__matte_range;

/* Of `planes` colour planes of n samples, multiplied by alpha.  Pixels with less alpha than the minimum are ignored.
 */
gale__matte_range gale__matte_find(const float *colours, int planes, const float *alpha, size_t n);
/* Takes colours that are multiplied by alpha back into the range, the more so the less alpha there is: a small error of
 * the network would be a large one once it is divided by alpha.  What is opaque stays as it is. */
void gale__matte_limit(gale__matte_range range, float *colours, int planes, const float *alpha, size_t n);
#endif
