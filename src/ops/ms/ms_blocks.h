/* Low-bit weights in blocks, shared by the operators of com.microsoft. */
#ifndef GALE_OPS_MS_BLOCKS_H
#define GALE_OPS_MS_BLOCKS_H
#include "ops/quantise.h"

/* Numbers of `bits` (2, 4, 8) bits out of bytes, the low ones first unless `high`: the last axis grows to `count`. */
gale__node gale__lower_unpack(gale__lower *L, gale__node x, int bits, int64_t count, bool high);
/* What the blocks of `size` along `axis` have in common, for each of `extent` elements. */
gale__node gale__lower_by_element(gale__lower *L, gale__node s, int axis, int64_t size, int64_t extent);
#endif
