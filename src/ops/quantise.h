/* Low-bit integers that represent floats; shared by the quantised families. */
#ifndef GALE_OPS_QUANTISE_H
#define GALE_OPS_QUANTISE_H
#include "ops/lower.h"

/* y (F32, divided by the scale already) as `type`: rounded to even, plus the zero point (lined up with y; NIL: 0),
 * saturated. */
gale__node gale__lower_quantise(gale__lower *L, gale__node y, gale__node zero, gale_type type);
/* x less its zero point (lined up with x; NIL: 0): I32, or F32 where x is a float. */
gale__node gale__lower_centre(gale__lower *L, gale__node x, gale__node zero);
/* x as F32: gale__lower_centre times the scale (lined up with x). */
gale__node gale__lower_dequantise(gale__lower *L, gale__node x, gale__node scale, gale__node zero);
/* A scale or zero point of one element, whatever its rank, as rank 0; others as they are, NIL too. */
gale__node gale__lower_lone(gale__lower *L, gale__node s);
/* gale__lower_lone, where more than one element is a vector along `axis` of a value of rank `rank`; higher ranks as
 * they are.
 */
gale__node gale__lower_lone_or_along(gale__lower *L, gale__node s, int rank, int axis);
/* x (F32) as U8 with a scale and zero point found from its own range: DynamicQuantizeLinear. */
void gale__lower_quantise_range(gale__lower *L, gale__node x, gale__node *y, gale__node *scale, gale__node *zero);
#endif
