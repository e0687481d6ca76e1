/* Microseconds of parallel loops without work and with 5, 20 and 100 us of work for one thread, in one task and in four
 * tasks for each thread, from one, two and eight callers at once.
 *
 *     bench_loops 2 4 8 16      -- numbers of threads */
#include "base/thread.h"
#include <stdio.h>
#include <stdlib.h>

enum { CALLERS_MOST = 8, RUN_NS = 40000000 };
typedef struct caller {
    size_t tasks;
    uint64_t task_ns, loops;
} caller;

static void spin(void *arg, size_t i, int worker)
{
    uint64_t task_ns = ((caller *)arg)->task_ns, start = task_ns ? gale__time_ns() : 0;
    for ((void)i, (void)worker; task_ns && gale__time_ns() - start < task_ns;) continue;
}

static void call(void *arg)
{
    caller *c = arg;
    for (uint64_t start = gale__time_ns(); gale__time_ns() - start < RUN_NS; c->loops++)
        gale__parallel(c->tasks, spin, c);
}

static double mean_us(int callers, caller like)
{
    gale__thread threads[CALLERS_MOST];
    caller each[CALLERS_MOST];
    uint64_t start = gale__time_ns(), loops = 0;
    for (int i = 0; i < callers; i++) {
        each[i] = like;
        if (gale__thread_begin(&threads[i], call, &each[i]) != GALE_OK) exit(1);
    }
    for (int i = 0; i < callers; i++) gale__thread_end(&threads[i]), loops += each[i].loops;
    return (double)(gale__time_ns() - start) * callers / 1e3 / (double)loops;
}

int main(int argc, char **argv)
{
    static const uint64_t works_ns[] = {0, 5000, 20000, 100000};
    for (int k = 0; k < 3 * (argc - 1); k++) {
        int callers = (int[]){1, 2, 8}[k % 3], width = atoi(argv[k / 3 + 1]);
        gale__parallel_set_width(width);
        printf("%d callers, %2d threads, 0, 5, 20 and 100 us in one task and in four:", callers, width);
        for (size_t i = 0, tasks; i < 8; i++) {
            tasks = (size_t)width * (i < 4 ? 1 : 4);
            printf(i < 7 ? " %6.1f" : " %6.1f\n", mean_us(callers, (caller){tasks, works_ns[i % 4] / tasks, 0}));
        }
    }
    gale__parallel_finish();
    return 0;
}
