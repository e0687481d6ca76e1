/* The rotation of pairs of columns, for RotaryEmbedding and for attention that includes it. */
#ifndef GALE_OPS_ROTARY_H
#define GALE_OPS_ROTARY_H
#include "ops/lower.h"

/* The first `size` columns of x's last axis, turned in pairs: neighbours when interleaved, else halves.  cosine and
 * sine have size / 2 columns and broadcast to the rest of x. */
gale__node gale__lower_rotate(
    gale__lower *L, gale__node x, gale__node cosine, gale__node sine, int64_t size, bool interleaved);
#endif
