/* What a parallel loop costs beside its work: microseconds for an empty loop and for loops of 5, 20 and 100 us of work
 * (of one thread), divided into one and into four tasks for each thread, from one, two and eight callers at once.
 *
 *     bench_loops [THREADS]...      -- default: 2 4 8 16 */
#include "base/thread.h"
#include <stdio.h>
#include <stdlib.h>

enum { CALLERS_MOST = 8, RUN_MS = 40 };
static double steps_per_us;

static void spin(uint64_t steps)
{
    for (volatile uint64_t i = 0; i < steps; i++) {
    }
}

static double time_us(uint64_t start) { return (double)(gale__time_ns() - start) / 1e3; }

static void calibrate(void)
{
    for (int i = 0; i < 20; i++) {
        uint64_t start = gale__time_ns();
        spin(1000000);
        double rate = 1e6 / time_us(start);
        if (rate > steps_per_us) steps_per_us = rate;
    }
}

typedef struct caller {
    double work_us;
    size_t tasks;
    uint64_t begin_ns, loops;
} caller;

static void run_task(void *arg, size_t i, int worker)
{
    (void)i, (void)worker;
    spin(*(const uint64_t *)arg);
}

static void call(void *arg)
{
    caller *c = arg;
    uint64_t steps = (uint64_t)(c->work_us * steps_per_us / (double)c->tasks);
    while (gale__time_ns() < c->begin_ns) gale__parallel(c->tasks, run_task, &steps);
    for (; gale__time_ns() < c->begin_ns + RUN_MS * 1000000u; c->loops++) gale__parallel(c->tasks, run_task, &steps);
}

/* Of one caller; callers begin together. */
static double mean_us(int callers, double work_us, size_t tasks)
{
    gale__thread threads[CALLERS_MOST];
    caller each[CALLERS_MOST];
    uint64_t begin = gale__time_ns() + 5000000, loops = 0;
    for (int i = 0; i < callers; i++) {
        each[i] = (caller){.work_us = work_us, .tasks = tasks, .begin_ns = begin};
        if (gale__thread_begin(&threads[i], call, &each[i]) != GALE_OK) exit(1);
    }
    for (int i = 0; i < callers; i++) gale__thread_end(&threads[i]), loops += each[i].loops;
    return time_us(begin) * callers / (double)loops;
}

int main(int argc, char **argv)
{
    static const double works[] = {0, 5, 20, 100};
    static const char *const usual[] = {"2", "4", "8", "16"};
    calibrate();
    printf("us per loop       one task a thread, work 0, 5, 20, 100 us | four tasks a thread\n");
    for (int callers = 1; callers <= CALLERS_MOST; callers = callers == 1 ? 2 : callers * 4)
        for (int i = 0; i < (argc > 1 ? argc - 1 : 4); i++) {
            int width = atoi(argc > 1 ? argv[i + 1] : usual[i]);
            if (width < 1) return fprintf(stderr, "usage: bench_loops [THREADS]...\n"), 2;
            gale__parallel_set_width(width);
            printf("%d callers, %2d threads:", callers, width);
            for (size_t k = 0; k < 8; k++)
                printf("%s %6.1f", k == 4 ? " |" : "", mean_us(callers, works[k % 4], (size_t)width * (k < 4 ? 1 : 4)));
            printf("\n");
        }
    gale__parallel_finish();
    return 0;
}
