/* Between which bounds the values of a nest are. */
#ifndef GALE_KERNEL_NEST_RANGE_H
#define GALE_KERNEL_NEST_RANGE_H
#include "kernel/nest/nest.h"

/* Of all values that are not NaN.  They hold for every device, whose own functions may be off by 2^-20 of a value. */
typedef struct gale__nest_range {
    double low, high; /* infinite: unknown, or infinity itself */
    double top;       /* no finite value is larger */
} gale__nest_range;
/* Of instruction i, from those of the instructions before. */
void gale__nest_range_find(const gale__nest *nest, int i, gale__nest_range *ranges);
/* The value of a constant of a float type. */
bool gale__nest_float_const(const gale__nest *nest, int i, double *value);
#endif
