/* Seeds of random numbers.  A program mixes its run's seed with what tells one user of it from another, so that no two
 * draw the same numbers, and draws a seed where the caller names none. */
#ifndef GALE_BASE_SEED_H
#define GALE_BASE_SEED_H
#include "gale/base.h"

/* A seed of its own for user `number` of `seed`: never 0 for a seed, and 0 (none) for 0. */
uint64_t gale__seed_mix(uint64_t seed, uint64_t number);
/* One that this process has not given out before and that nobody can repeat; not 0. */
uint64_t gale__seed_draw(void);
#endif
