/* The best k of many: a heap whose root is the worst that is kept. */
#ifndef GALE_JOBS_SEARCH_TOP_H
#define GALE_JOBS_SEARCH_TOP_H
#include "gale/search.h"

/* Whether a comes before b: the higher score, and of equals the lower row. */
static inline bool gale__hit_before(gale_hit a, gale_hit b)
{
    return a.score > b.score || (a.score == b.score && a.row < b.row);
}
/* heap[0 .. *count) of at most k. */
void gale__top_offer(gale_hit *heap, size_t *count, size_t k, gale_hit hit);
void gale__top_sort(gale_hit *heap, size_t count); /* the best first */
#endif
