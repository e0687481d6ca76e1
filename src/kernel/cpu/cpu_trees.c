/* Scores of decision trees.  A step down a tree waits for the node that the step before found, so 16 walks run side by
 * side: of 16 rows in one tree, which then stays in the cache for all rows of a task, or of one row in 16 trees.  Votes
 * are added in the order of the trees in either case. */
#include "base/thread.h"
#include "kernel/cpu/routines.h"
#include <string.h>

enum { LANES = 16, TASK_ROWS = 64 };

typedef gale__cpu_tree_node node;
typedef bool walk(const node *nodes, const float *const *x, int32_t *at);

/* One step of all walks: whether any of them moved.  Leaves lead to themselves. */
#define WALK(name, condition)                                               \
    static bool name(const node *nodes, const float *const *x, int32_t *at) \
    {                                                                       \
        int32_t moved = 0;                                                  \
        for (int l = 0; l < LANES; l++) {                                   \
            const node *n = &nodes[at[l]];                                  \
            float v = x[l][n->feature >> 1];                                \
            int32_t to = n->child[!(condition)];                            \
            moved |= to ^ at[l];                                            \
            at[l] = to;                                                     \
        }                                                                   \
        return moved != 0;                                                  \
    }
#define WALKS(name, op)              \
    WALK(walk_##name, v op n->value) \
    WALK(track_##name, v op n->value || (v != v && n->feature & 1))
WALKS(le, <=)
WALKS(lt, <)
WALKS(ge, >=)
WALKS(gt, >)
WALKS(eq, ==)
WALKS(ne, !=)
#undef WALKS
#undef WALK
static walk *const walks[2][6] = {{walk_le, walk_lt, walk_ge, walk_gt, walk_eq, walk_ne},
    {track_le, track_lt, track_ge, track_gt, track_eq, track_ne}};

typedef struct job {
    const gale__cpu_trees *a;
    walk *step;
    float *y;
    const float *x;
    const node *nodes;
    const int32_t *roots;
    const gale__cpu_tree_vote *votes;
} job;

static void vote(const job *j, int32_t leaf, float *y)
{
    for (int32_t i = j->nodes[leaf].votes; i >= 0; i = j->votes[i].next) y[j->votes[i].target] += j->votes[i].weight;
}

/* LANES rows, of which the last are repeated where there are fewer. */
static void run_rows(const job *j, int64_t first, int64_t n)
{
    const float *x[LANES];
    int32_t at[LANES];
    for (int64_t l = 0; l < LANES; l++) x[l] = j->x + (first + (l < n ? l : n - 1)) * j->a->features;
    for (int64_t t = 0; t < j->a->trees; t++) {
        for (int l = 0; l < LANES; l++) at[l] = j->roots[t];
        while (j->step(j->nodes, x, at)) {
        }
        for (int64_t l = 0; l < n; l++) vote(j, at[l], j->y + (first + l) * j->a->targets);
    }
}

/* One row in LANES trees at a time. */
static void run_row(const job *j, int64_t row)
{
    const float *x[LANES];
    int32_t at[LANES];
    for (int l = 0; l < LANES; l++) x[l] = j->x + row * j->a->features;
    for (int64_t t = 0; t < j->a->trees; t += LANES) {
        int64_t n = j->a->trees - t < LANES ? j->a->trees - t : LANES;
        for (int64_t l = 0; l < LANES; l++) at[l] = j->roots[t + (l < n ? l : 0)];
        while (j->step(j->nodes, x, at)) {
        }
        for (int64_t l = 0; l < n; l++) vote(j, at[l], j->y + row * j->a->targets);
    }
}

static void run_task(void *arg, size_t task, int worker)
{
    const job *j = arg;
    int64_t first = (int64_t)task * TASK_ROWS, end = first + TASK_ROWS < j->a->rows ? first + TASK_ROWS : j->a->rows;
    (void)worker;
    memset(j->y + first * j->a->targets, 0, (size_t)((end - first) * j->a->targets) * sizeof *j->y);
    for (int64_t r = first; r < end;) {
        int64_t n = end - r < LANES ? end - r : LANES;
        if (2 * n > LANES) run_rows(j, r, n);
        else n = 1, run_row(j, r);
        r += n;
    }
}

void gale__cpu_trees_run(const void *args, void *const *buffers, gale__cpu_scratch_space scratch)
{
    const gale__cpu_trees *a = args;
    job j = {.a = a,
        .step = walks[a->missing != 0][a->branch],
        .y = buffers[0],
        .x = buffers[1],
        .nodes = buffers[2],
        .roots = buffers[3],
        .votes = buffers[4]};
    (void)scratch;
    gale__parallel_kernel((size_t)((a->rows + TASK_ROWS - 1) / TASK_ROWS), run_task, &j);
}
