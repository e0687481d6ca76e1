/* How work is divided: small arithmetic that most kernels need. */
#ifndef GALE_KERNEL_CPU_DIVIDE_H
#define GALE_KERNEL_CPU_DIVIDE_H
#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
/* How many parts of a size v has, the last of which may be smaller. */
static inline int64_t parts(int64_t v, int64_t of) { return (v + of - 1) / of; }
static inline int64_t round_up(int64_t v, int64_t to) { return parts(v, to) * to; }
#endif
