/* How large a tile may be, and how many run at once, by the memory that plans of the network ask for. */
#ifndef GALE_JOBS_BUDGET_H
#define GALE_JOBS_BUDGET_H
#include "jobs/upscale/network.h"
enum { GALE__PIXELS_ENOUGH = 1 << 20 }; /* of which a device is busy */
/* After the first run: notes what it took. */
void gale__budget_see(gale__network *n, int64_t width, int64_t height, const int64_t result[4]);
/* Pixels (of all tiles of a batch together) that a run may have in the memory that is left now; at least 1.  Where
 * `enough` plainly fit it may be fewer than there could be; else it finds out what a pixel takes by another small run,
 * once. */
gale_status gale__budget_pixels(gale__network *n, gale_device *device, int64_t enough, int64_t *pixels);
/* The side of the largest square tile of so many pixels that the network takes; at least `least`. */
int64_t gale__budget_tile(const gale__network *n, int64_t pixels, int64_t least);
/* How many of `tiles` tiles run at once: as many as the budget holds and the device has use for, shared out evenly. */
int64_t gale__budget_batch(const gale_device *device, int64_t pixels, int64_t tile_pixels, int64_t tiles);
/* After a run of `count` tiles of that size in that many lanes: notes what it took. */
void gale__budget_note(gale__network *n, int64_t width, int64_t height, int64_t lanes, int64_t count, uint64_t ns);
/* How many tiles of that size run side by side, where `tiles` are left: as many as the device has use for and memory
 * holds.  1 until a run of that size was noted.  On the CPU a tile has all threads, or each thread has a tile; which
 * takes less time is measured, if there are tiles enough for that. */
int64_t gale__budget_lanes(const gale__network *n, gale_device *device, int64_t width, int64_t height, int64_t tiles);
#endif
