/* Non-maximum suppression class by class: candidates in a heap, best first, each compared with those already chosen.
 * A fixed-length loop over all boxes, as on other devices, is far more work for a few cores. */
#include "base/thread.h"
#include "kernel/cpu/routines.h"
#include <math.h>

typedef struct job {
    const gale__nms_args *args;
    const float *boxes, *scores;
    float overlap, least;
    int64_t *rows; /* [batches, classes, most, 3]: while classes are at work a row holds (count of the class, in its
                      first row; ; box) */
    gale__cpu_scratch_space scratch;
} job;

typedef struct box {
    float y0, x0, y1, x1, area;
} box;

static float above(float low, float high) { return high > low ? high - low : 0; }

static box box_at(const job *j, int64_t batch, int64_t i)
{
    const float *p = j->boxes + (batch * j->args->boxes + i) * 4;
    float y0 = p[0], x0 = p[1], y1 = p[2], x1 = p[3];
    if (j->args->centre) {
        float height = y1 * 0.5f, width = x1 * 0.5f;
        y1 = y0 + height, x1 = x0 + width;
        y0 = y0 - height, x0 = x0 - width;
    }
    box b = {y0 < y1 ? y0 : y1, x0 < x1 ? x0 : x1, y0 < y1 ? y1 : y0, x0 < x1 ? x1 : x0, 0};
    b.area = above(b.y0, b.y1) * above(b.x0, b.x1);
    return b;
}

/* Chosen boxes in groups, so that compilers vectorise the comparison. */
enum { SIDE_BY_SIDE = 8 };
typedef struct chosen {
    float y0[SIDE_BY_SIDE], x0[SIDE_BY_SIDE], y1[SIDE_BY_SIDE], x1[SIDE_BY_SIDE], area[SIDE_BY_SIDE];
} chosen;

static void choose(chosen *kept, int64_t n, const box *b)
{
    chosen *c = &kept[n / SIDE_BY_SIDE];
    int64_t at = n % SIDE_BY_SIDE;
    for (int i = 0; at == 0 && i < SIDE_BY_SIDE; i++) /* boxes of nothing, that none overlaps */
        c->y0[i] = c->x0[i] = INFINITY, c->y1[i] = c->x1[i] = -INFINITY, c->area[i] = 0;
    c->y0[at] = b->y0, c->x0[at] = b->x0, c->y1[at] = b->y1, c->x1[at] = b->x1, c->area[at] = b->area;
}

static bool overlapping(const box *a, const chosen *c, float most)
{
    float shared[SIDE_BY_SIDE];
    int some = 0, over = 0;
    for (int i = 0; i < SIDE_BY_SIDE; i++) {
        float y0 = a->y0 > c->y0[i] ? a->y0 : c->y0[i], y1 = a->y1 < c->y1[i] ? a->y1 : c->y1[i],
              x0 = a->x0 > c->x0[i] ? a->x0 : c->x0[i], x1 = a->x1 < c->x1[i] ? a->x1 : c->x1[i];
        shared[i] = (y1 > y0 ? y1 - y0 : 0) * (x1 > x0 ? x1 - x0 : 0);
        some |= shared[i] > 0;
    }
    for (int i = 0; some && i < SIDE_BY_SIDE; i++)
        over |= (shared[i] > 0) & (shared[i] / (a->area + c->area[i] - shared[i]) > most);
    return over != 0;
}

/* --- A heap of places, the best score on top, the first of equals. --- */

static bool better(const float *scores, int32_t a, int32_t b)
{
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

static void sink(const float *scores, int32_t *heap, int64_t n, int64_t at)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && better(scores, heap[child + 1], heap[child])) child++;
        if (!better(scores, heap[child], heap[at])) return;
        int32_t t = heap[at];
        heap[at] = heap[child];
        heap[child] = t;
    }
}

static int64_t blocks_of(const gale__nms_args *a) { return (a->most + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE; }

static void run_class(void *arg, size_t which, int worker)
{
    const job *j = arg;
    const gale__nms_args *a = j->args;
    const float *scores = j->scores + (int64_t)which * a->boxes;
    int64_t batch = (int64_t)which / a->classes, n = 0, count = 0, *rows = j->rows + (int64_t)which * a->most * 3;
    chosen *kept = (chosen *)(void *)(j->scratch.memory + (size_t)worker * j->scratch.bytes);
    int32_t *heap = (int32_t *)(kept + blocks_of(a));
    for (int64_t i = 0; i < a->boxes; i++)
        if (scores[i] > j->least) heap[n++] = (int32_t)i;
    for (int64_t i = n / 2 - 1; i >= 0; i--) sink(scores, heap, n, i);
    while (n > 0 && count < a->most) {
        int32_t best = heap[0];
        box b = box_at(j, batch, best);
        bool hidden = false;
        heap[0] = heap[--n];
        sink(scores, heap, n, 0);
        for (int64_t k = 0; k * SIDE_BY_SIDE < count && !hidden; k++) hidden = overlapping(&b, &kept[k], j->overlap);
        if (hidden) continue;
        rows[count * 3 + 2] = best;
        choose(kept, count++, &b);
    }
    rows[0] = count;
}

/* Rows that are there move to the front, batch and class are written into them, and the rest is like the last place. */
static int64_t gather_rows(const job *j)
{
    const gale__nms_args *a = j->args;
    int64_t pairs = a->batches * a->classes, n = 0, last = -1;
    for (int64_t p = 0; p < pairs; p++) {
        const int64_t *from = j->rows + p * a->most * 3;
        int64_t count = from[0];
        last = count == a->most ? from[(count - 1) * 3 + 2] : -1;
        for (int64_t k = 0; k < count; k++, n++) {
            int64_t place = from[k * 3 + 2], *to = j->rows + n * 3;
            to[0] = p / a->classes, to[1] = p % a->classes, to[2] = place;
        }
    }
    for (int64_t i = n; i < pairs * a->most; i++) {
        int64_t *to = j->rows + i * 3;
        to[0] = a->batches - 1, to[1] = a->classes - 1, to[2] = last;
    }
    return n;
}

size_t gale__cpu_nms_scratch(const gale__nms_args *a)
{
    return (size_t)blocks_of(a) * sizeof(chosen) + (size_t)(a->boxes + 4) / 4 * 4 * sizeof(int32_t);
}

void gale__cpu_nms_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__nms_args *a = args;
    job j = {.args = a,
        .boxes = buffers[1],
        .scores = buffers[2],
        .least = -INFINITY,
        .rows = buffers[0],
        .scratch = scratch};
    if (a->overlap) j.overlap = *(const float *)buffers[3];
    if (a->least) j.least = *(const float *)buffers[3 + a->overlap];
    gale__parallel((size_t)(a->batches * a->classes), run_class, &j);
    j.rows[a->batches * a->classes * a->most * 3] = gather_rows(&j);
}
