/* A row that is no better than the worst which is kept costs one comparison. */
#include "jobs/search/top.h"
#include <stdlib.h>

static void sink(gale_hit *heap, size_t count, size_t at)
{
    gale_hit moved = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && gale__hit_before(heap[child], heap[child + 1])) child++;
        if (!gale__hit_before(moved, heap[child])) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

void gale__top_offer(gale_hit *heap, size_t *count, size_t k, gale_hit hit)
{
    if (*count == k) {
        if (!gale__hit_before(hit, heap[0])) return;
        heap[0] = hit;
        sink(heap, k, 0);
        return;
    }
    size_t at = (*count)++;
    for (; at && gale__hit_before(heap[(at - 1) / 2], hit); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = hit;
}

static int order(const void *a, const void *b)
{
    gale_hit x = *(const gale_hit *)a, y = *(const gale_hit *)b;
    return gale__hit_before(x, y) ? -1 : gale__hit_before(y, x);
}

void gale__top_sort(gale_hit *heap, size_t count) { qsort(heap, count, sizeof *heap, order); }
