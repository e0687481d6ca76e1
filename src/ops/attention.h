/* What the attention operators share: heads in and out of packed rows, and the scores, mask, softmax and product
 * between. */
#ifndef GALE_OPS_ATTENTION_H
#define GALE_OPS_ATTENTION_H
#include "ops/lower.h"

/* [B, T, heads * D] as [B, heads, T, D], and back; refuses where heads do not divide the last axis. */
gale__node gale__lower_heads_split(gale__lower *L, gale__node x, int64_t heads);
gale__node gale__lower_heads_join(gale__lower *L, gale__node x);

/* q [B, H, M, D], k [B, K, N, D], v [B, K, N, C] with H a multiple of K, all of one wide type.  Filled in by the
 * caller. */
typedef struct gale__attend {
    gale__node q, k, v;
    double scale, softcap; /* softcap 0: none */
    gale__node bias;       /* added to the scores; NIL: none */
    gale__node keep;       /* BOOL: where not, the score is `hidden`; NIL: everywhere */
    double hidden;
    bool blind_rows; /* rows that no key is left to give 0, not NaN */
    int64_t seen;    /* row i sees the first i + seen keys; 0: all of them */
    gale__node sink; /* a score of each head that takes its share and gives nothing, [heads]; NIL: none */
    gale_type softmax_type;
    struct {
        const gale_graph *body;
        const gale__node *captured;
    } score_mod, prob_mod; /* of one output; the input and what it captures; NULL: none */
    /* Made: scores, after softcap, with bias and mask, after softmax. */
    gale__node stage[4];
} gale__attend;
/* The result, [B, H, M, C]. */
gale__node gale__attend_run(gale__lower *L, gale__attend *a);
/* What `scale` is when the attribute is absent or 0: 1 / sqrt of q's last axis. */
double gale__attend_scale(gale__lower *L, gale__node q);
/* Whether key j may be seen from row i of m rows: j <= i + offset, [m, n]; with window > 0 only the last `window` of
 * those. */
gale__node gale__lower_causal(gale__lower *L, int64_t m, int64_t n, gale__node offset, int64_t window);
/* a and b, either of which may be NIL. */
gale__node gale__lower_both(gale__lower *L, gale__node a, gale__node b);
/* The cache with rows of the update along `axis`: row, which broadcasts to the cache, says which one falls on a place;
 * none where it is out of range. */
gale__node gale__lower_overwrite(gale__lower *L, gale__node cache, gale__node update, int axis, gale__node row);
#endif
