/* Microseconds of parallel loops without work and with 5, 20 and 100 us of work for one thread, in one task and in four
 * tasks for each thread, from one, two and eight callers at once.
 *
 *     bench_loops [THREADS]...      -- default: 2 4 8 16 */
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
    (void)i, (void)worker;
    while (task_ns && gale__time_ns() - start < task_ns) {
    }
}

static void call(void *arg)
{
    caller *c = arg;
    for (uint64_t start = gale__time_ns(); gale__time_ns() - start < RUN_NS; c->loops++)
        gale__parallel(c->tasks, spin, c);
}

static double mean_us(int callers, uint64_t work_ns, size_t tasks)
{
    gale__thread threads[CALLERS_MOST];
    caller each[CALLERS_MOST];
    uint64_t start = gale__time_ns(), loops = 0;
    for (int i = 0; i < callers; i++) {
        each[i] = (caller){.tasks = tasks, .task_ns = work_ns / tasks};
        if (gale__thread_begin(&threads[i], call, &each[i]) != GALE_OK) exit(1);
    }
    for (int i = 0; i < callers; i++) gale__thread_end(&threads[i]), loops += each[i].loops;
    return (double)(gale__time_ns() - start) * callers / 1e3 / (double)loops;
}

int main(int argc, char **argv)
{
    static const int works_us[] = {0, 5, 20, 100}, all_callers[] = {1, 2, 8}, usual[] = {2, 4, 8, 16};
    for (int k = 0; k < 3 * (argc > 1 ? argc - 1 : 4); k++) {
        int callers = all_callers[k % 3], width = argc > 1 ? atoi(argv[k / 3 + 1]) : usual[k / 3];
        gale__parallel_set_width(width);
        printf("%d callers, %2d threads, 0, 5, 20 and 100 us in one task and in four:", callers, width);
        for (int i = 0; i < 8; i++)
            printf(" %6.1f", mean_us(callers, (uint64_t)works_us[i % 4] * 1000, (size_t)(i < 4 ? width : 4 * width)));
        printf("\n");
    }
    gale__parallel_finish();
    return 0;
}
