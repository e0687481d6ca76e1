/* What the caller of a run asks for: how many threads, until when, a flag that stops it, and the seed of its random
 * numbers.  Kept by thread, so that
 * kernels and host operators far below need no parameter for it, and handed on to workers of gale__parallel.  Limits
 * nest, and the narrowest holds. */
#ifndef GALE_BASE_LIMITS_H
#define GALE_BASE_LIMITS_H
#include "mem.h"

typedef struct gale__limits {
    int threads;                /* most that gale__parallel uses; 0: no limit */
    const volatile int *cancel; /* anything but 0 stops; may be NULL */
    uint64_t deadline_ns;       /* on the clock of gale__time_ns; 0: none */
    uint64_t seed;              /* of random operators; 0: the outer one's, if it has one */
    const struct gale__limits *outer;
} gale__limits;

/* From here on, in this thread, until the matching leave; *limits stays where it is meanwhile. */
void gale__limits_enter(gale__limits *limits);
void gale__limits_leave(const gale__limits *limits);
/* GALE_CANCELLED or GALE_DEADLINE when the work of this thread is to stop: asked between kernels. */
gale_status gale__limits_check(void);
/* Whether anything could stop it: where nothing can, devices are sent everything at once. */
bool gale__limits_stoppable(void);
/* Most threads for this thread's work; 0: no limit. */
int gale__limits_threads(void);
/* Of this thread's random numbers; 0: none was given. */
uint64_t gale__limits_seed(void);

/* For threads that work for another: takes over its limits, and gives back those it had. */
const gale__limits *gale__limits_get(void);
void gale__limits_set(const gale__limits *limits);
#endif
