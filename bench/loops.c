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
    uint64_t task_ns, begin_ns, loops;
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
    while (gale__time_ns() < c->begin_ns) gale__parallel(c->tasks, spin, c);
    for (; gale__time_ns() < c->begin_ns + RUN_NS; c->loops++) gale__parallel(c->tasks, spin, c);
}

/* Of one caller; callers begin together. */
static double mean_us(int callers, uint64_t work_ns, size_t tasks)
{
    gale__thread threads[CALLERS_MOST];
    caller each[CALLERS_MOST];
    uint64_t begin = gale__time_ns() + 5000000, loops = 0;
    for (int i = 0; i < callers; i++) {
        each[i] = (caller){.tasks = tasks, .task_ns = work_ns / tasks, .begin_ns = begin};
        if (gale__thread_begin(&threads[i], call, &each[i]) != GALE_OK) exit(1);
    }
    for (int i = 0; i < callers; i++) gale__thread_end(&threads[i]), loops += each[i].loops;
    return (double)(gale__time_ns() - begin) * callers / 1e3 / (double)loops;
}

int main(int argc, char **argv)
{
    static const int works[] = {0, 5, 20, 100}, all_callers[] = {1, 2, 8}, usual[] = {2, 4, 8, 16};
    printf("us per loop       one task a thread, work 0, 5, 20, 100 us | four tasks a thread\n");
    for (int k = 0; k < 3 * (argc > 1 ? argc - 1 : 4); k++) {
        int callers = all_callers[k % 3], width = argc > 1 ? atoi(argv[k / 3 + 1]) : usual[k / 3];
        gale__parallel_set_width(width);
        printf("%d callers, %2d threads:", callers, width);
        for (int i = 0; i < 8; i++)
            printf("%s %6.1f", i == 4 ? " |" : "",
                mean_us(callers, (uint64_t)works[i % 4] * 1000, (size_t)width * (i < 4 ? 1 : 4)));
        printf("\n");
    }
    gale__parallel_finish();
    return 0;
}
