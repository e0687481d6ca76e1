/* Indices that follow one another. */
#ifndef GALE_KERNEL_CPU_RUNS_H
#define GALE_KERNEL_CPU_RUNS_H
#include <stdint.h>

/* How many of n >= 1 elements, from the first on, are `step` apart; any number may be an index, so that differences may
 * wrap around. */
static inline int64_t gale__cpu_even_run(const int64_t *t, int64_t n, int64_t step)
{
    enum { AT_ONCE = 16 };
    int64_t i = 1;
    while (i < n && i < AT_ONCE && (uint64_t)t[i] - (uint64_t)t[i - 1] == (uint64_t)step) i++;
    if (i < AT_ONCE) return i;
    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        uint64_t differ = 0;
        for (int k = 0; k < AT_ONCE; k++) differ |= ((uint64_t)t[i + k] - (uint64_t)t[i + k - 1]) ^ (uint64_t)step;
        if (differ) break;
    }
    while (i < n && (uint64_t)t[i] - (uint64_t)t[i - 1] == (uint64_t)step) i++;
    return i;
}
#endif
