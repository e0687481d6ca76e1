/* Seeds of random numbers. A program combines its run's seed with the number of each consumer, so that no two draw the
 * same numbers, and chooses a seed if the caller gives none. */
#ifndef GALE_BASE_SEED_H
#define GALE_BASE_SEED_H
#include "gale/base.h"

/* A separate seed for consumer `number` of `seed`: never 0, except for seed 0 (none). */
uint64_t gale__seed_mix(uint64_t seed, uint64_t number);
/* A seed that this process has not used before and that cannot be reproduced; not 0. */
uint64_t gale__seed_draw(void);
#endif
