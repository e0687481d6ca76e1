/* Convolutions of bytes whose result is stored channels-last: by all channels, or each channel by itself.  Units of
 * four channels are adjacent in such maps, so that nothing is interleaved; vectors are channels of the result, and
 * sums become bytes before they are stored.  Maps without borders are read in place, others from a band with borders,
 * as are maps as declared, whose channels are brought together.  With AMX, pixels and weights are tiles. */
#ifndef GALE_KERNEL_CPU_LAST_BYTES_H
#define GALE_KERNEL_CPU_LAST_BYTES_H
#include "kernel/cpu/interp.h"
#include "kernel/cpu/narrow.h"
#include "kernel/cpu/requant.h"

/* Columns or rows: place p of the map is read by tap t of lane l if p = step l + t.  Dimensions are -1 if the nest has
 * none. */
typedef struct gale__cpu_last_axis {
    int lane, tap;
    int64_t lanes, taps, step, place; /* place: elements of the map from one place to the next */
    const gale__nest_guard *guard;    /* NULL: all places are inside */
    int64_t block, blocks;            /* lanes of a task */
} gale__cpu_last_axis;

typedef struct gale__cpu_last_bytes {
    const gale__nest *nest;
    gale__cpu_last_kind kind;
    gale__cpu_narrow x, w;
    gale__cpu_requant requant;
    int channel, depth; /* dimensions: channels of the result; those that are summed, -1: each by itself */
    gale__cpu_last_axis cx, cy;
    gale__cpu_span others;    /* outer dimensions beside these */
    int64_t channels, summed; /* summed: channels of the map that are */
    bool direct;              /* without a band */
    bool tiles;               /* multiplied by tiles, where a block has enough pixels for one */
    int64_t unit, units;      /* bytes (or places) of a unit, and units of a row of taps */
    int64_t panel, groups;    /* channels of a panel; parts of the channels that are tasks of their own */
    int64_t pitch;            /* bytes of a row of the band */
    size_t private_bytes, shared_bytes;
    gale__cpu_panels panels;
} gale__cpu_last_bytes;

/* Bytes of the weights of a panel, and of all; sums of the weights follow these. */
size_t gale__cpu_last_bytes_panel(const gale__cpu_last_bytes *l);
size_t gale__cpu_last_bytes_weights(const gale__cpu_last_bytes *l);
/* Whether the nest is one of these, with values that are stored so. */
bool gale__cpu_last_bytes_find(gale__cpu_last_bytes *l, const gale__nest *nest);
void gale__cpu_last_bytes_make_panels(const gale__cpu_last_bytes *l, const void *from, void *to);
void gale__cpu_last_bytes_run(const gale__cpu_last_bytes *l, void *const *buffers);
/* Products by tiles, which set these up; NULL: not on this processor. */
const gale__simd_gemm *gale__cpu_last_bytes_tiles(void);
/* Which it would be, and its time (interp.h). */
gale__cpu_last_kind gale__cpu_last_bytes_could(const gale__nest *nest, double ns[2]);
#endif
