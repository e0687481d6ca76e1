/* How a picture is cut into tiles and put together again.
 *
 * Along each axis tiles stand `stride = tile - overlap` apart, and the last one is moved back so that it ends at the
 * edge, or less than `multiple` beyond: a network with strides inside sees each pixel where it does in the whole
 * picture. Where neighbours overlap, each goes over into the other along a smooth ramp in the middle of the overlap;
 * the outer `margin` of a tile, where a network has seen the tile's edge, has no weight.  The weights of all tiles add
 * up to one everywhere, so that results are added where they belong and nothing has to be divided. */
#ifndef GALE_JOBS_TILES_H
#define GALE_JOBS_TILES_H
#include "base/mem.h"

typedef enum gale__tile_padding { GALE__PAD_REPLICATE, GALE__PAD_REFLECT } gale__tile_padding;

typedef struct gale__tile_axis {
    int64_t size; /* of the picture with its apron */
    int64_t tile; /* of each tile, without its border; larger than the picture where that must be padded */
    int64_t stride, overlap, margin;
    int64_t count, last; /* how many, and where the last one begins */
} gale__tile_axis;
typedef struct gale__tiling {
    gale__tile_axis x, y;
    gale__tile_padding padding;
    int64_t border, apron;
} gale__tiling;

typedef struct gale__tile_wish {
    int64_t tile_width, tile_height; /* 0: the whole picture */
    int64_t overlap;
    int64_t margin;                 /* -1: a quarter of the overlap */
    int64_t multiple;               /* of which the extents of a tile must be; 0 or 1: any */
    bool fixed_width, fixed_height; /* a tile has exactly this extent, also where the picture is smaller */
    gale__tile_padding padding;
    int64_t border; /* of a tile's pixels, those on each side of which no result comes: they are its neighbours', or
                       padding */
    int64_t apron;  /* pixels of padding around the whole picture, whose results are dropped: a network that pads with
                       black inside tints what is near an edge */
} gale__tile_wish;
/* GALE_INVALID when the overlap leaves no stride. */
gale_status gale__tiling_make(int64_t width, int64_t height, const gale__tile_wish *wish, gale__tiling *out);
/* What the network takes for a tile. */
static inline int64_t gale__tiling_width(const gale__tiling *t) { return t->x.tile + 2 * t->border; }
static inline int64_t gale__tiling_height(const gale__tiling *t) { return t->y.tile + 2 * t->border; }
static inline int64_t gale__tiling_count(const gale__tiling *t) { return t->x.count * t->y.count; }
/* Where tile i begins along an axis, from where the apron does. */
static inline int64_t gale__tile_axis_at(const gale__tile_axis *a, int64_t i)
{
    return i < a->count - 1 ? i * a->stride : a->last;
}
/* The weights of tile i for its tile x scale results; those that are beyond the picture are 0. */
void gale__tile_axis_weights(const gale__tile_axis *a, int64_t i, int64_t scale, float *weights);

/* Row y of the tile's part of a plane, border and all, from planes of the picture's size, padded where it goes beyond.
 */
void gale__tile_take_row(
    const gale__tiling *t, int64_t index, int64_t plane, int64_t y, const float *picture, float *row);
/* Adds row y of a result to a plane of the picture's size times scale.  Tiles come in their order: what none has
 * reached yet is written, so that memory need not be cleared.  weights: as gale__tile_weights makes them, or NULL where
 * the tile is the only one: then it is the picture. */
void gale__tile_add_row(const gale__tiling *t, int64_t index, int64_t scale, int64_t plane, int64_t y, const float *row,
    const float *weights, float *picture);
/* Of a tile's columns, then of its rows: (width + height) x scale. */
void gale__tile_weights(const gale__tiling *t, int64_t index, int64_t scale, float *weights);
#endif
