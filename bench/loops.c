/* What a parallel loop takes: microseconds for an empty loop and for loops of 5, 20 and 100 us of work (of one thread),
 * divided into one and into four tasks for each thread, from one, two and eight callers at once.
 *
 *     bench_loops [THREADS]...      -- default: 2 4 8 16 */
#include "base/thread.h"
#include <stdio.h>
#include <stdlib.h>

enum { CALLERS_MOST = 8, RUN_NS = 40000000 };
typedef struct caller {
    size_t tasks;
    uint64_t steps, begin_ns, loops;
} caller;

static void spin(void *arg, size_t i, int worker)
{
    (void)i, (void)worker;
    for (volatile uint64_t step = 0; step < ((caller *)arg)->steps; step++) {
    }
}

static double steps_per_us(void)
{
    caller c = {.steps = 1000000};
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        uint64_t start = gale__time_ns(), took;
        spin(&c, 0, 0);
        if ((took = gale__time_ns() - start) < best) best = took;
    }
    return (double)c.steps * 1e3 / (double)best;
}

static void call(void *arg)
{
    caller *c = arg;
    while (gale__time_ns() < c->begin_ns) gale__parallel(c->tasks, spin, c);
    for (; gale__time_ns() < c->begin_ns + RUN_NS; c->loops++) gale__parallel(c->tasks, spin, c);
}

/* Of one caller; callers begin together. */
static double mean_us(int callers, double steps, size_t tasks)
{
    gale__thread threads[CALLERS_MOST];
    caller each[CALLERS_MOST];
    uint64_t begin = gale__time_ns() + 5000000, loops = 0;
    for (int i = 0; i < callers; i++) {
        each[i] = (caller){.tasks = tasks, .steps = (uint64_t)(steps / (double)tasks), .begin_ns = begin};
        if (gale__thread_begin(&threads[i], call, &each[i]) != GALE_OK) exit(1);
    }
    for (int i = 0; i < callers; i++) gale__thread_end(&threads[i]), loops += each[i].loops;
    return (double)(gale__time_ns() - begin) * callers / 1e3 / (double)loops;
}

int main(int argc, char **argv)
{
    static const double works[] = {0, 5, 20, 100};
    static const int all_callers[] = {1, 2, 8}, usual[] = {2, 4, 8, 16};
    double rate = steps_per_us();
    printf("us per loop       one task a thread, work 0, 5, 20, 100 us | four tasks a thread\n");
    for (int k = 0; k < 3 * (argc > 1 ? argc - 1 : 4); k++) {
        int callers = all_callers[k % 3], width = argc > 1 ? atoi(argv[k / 3 + 1]) : usual[k / 3];
        gale__parallel_set_width(width);
        printf("%d callers, %2d threads:", callers, width);
        for (size_t i = 0; i < 8; i++)
            printf(
                "%s %6.1f", i == 4 ? " |" : "", mean_us(callers, rate * works[i % 4], (size_t)width * (i < 4 ? 1 : 4)));
        printf("\n");
    }
    gale__parallel_finish();
    return 0;
}
