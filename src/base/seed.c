/* See seed.h.  The mixing is that of SplitMix64: every bit of both numbers changes half of the result's. */
#include "base/seed.h"
#include "base/thread.h"
#include <stdatomic.h>
#include <unistd.h>

static uint64_t spread(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t gale__seed_mix(uint64_t seed, uint64_t number)
{
    uint64_t mixed = spread(seed + spread(number + 0x9e3779b97f4a7c15u));
    return !seed ? 0 : mixed ? mixed : 1;
}

static uint64_t start;
static gale__once started;

static void draw_start(void)
{
    if (getentropy(&start, sizeof start) != 0) start = spread(gale__time_ns() + (uint64_t)getpid());
    if (!start) start = 1;
}

uint64_t gale__seed_draw(void)
{
    static _Atomic uint64_t drawn;
    gale__once_run(&started, draw_start);
    return gale__seed_mix(start, atomic_fetch_add(&drawn, 1));
}
