/* OpenEXR files: what is in them, and their pixels.
 *
 *     gale_exr *file;
 *     gale_exr_open("render.exr", NULL, &file);
 *     const gale_exr_part *part = gale_exr_part_get(file, 0);
 *     gale_exr_read(file, 0, 0, 0, targets, count);        each channel into memory of the caller's
 *
 * Scan lines and tiles, all compressions, several parts and views, mip and rip levels, sub-sampled channels; deep
 * parts are read as flat ones, composited front to back.  Only the channels that are asked for are unpacked, by all
 * cores.  A file may be read from several threads at once. */
#ifndef GALE_EXR_H
#define GALE_EXR_H

#include "picture.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_exr gale_exr;

typedef enum gale_exr_storage {
    GALE_EXR_SCANLINE,
    GALE_EXR_TILED,
    GALE_EXR_DEEP_SCANLINE,
    GALE_EXR_DEEP_TILED
} gale_exr_storage;
typedef enum gale_exr_levels { GALE_EXR_ONE_LEVEL, GALE_EXR_MIPMAP, GALE_EXR_RIPMAP } gale_exr_levels;

typedef struct gale_exr_box {
    int32_t x0, y0, x1, y1; /* the first and the last pixel */
} gale_exr_box;
typedef struct gale_exr_channel {
    const char *name;           /* "R", "diffuse.R", "left.diffuse.R" */
    gale_type type;             /* GALE_F16, GALE_F32 or GALE_U32 */
    int x_sampling, y_sampling; /* 2: every second pixel has a sample */
    bool linear;                /* what the header says of its perception; B44 uses it */
} gale_exr_channel;
typedef struct gale_exr_attribute {
    const char *name, *type, *text; /* the value for people, in UTF-8 as far as the file is */
} gale_exr_attribute;
typedef struct gale_exr_part {
    const char *name, *view; /* "" where the part has none */
    gale_exr_storage storage;
    const char *compression; /* "none", "rle", "zips", "zip", "piz", "pxr24", "b44", "b44a", "dwaa", "dwab" */
    const char *line_order;  /* "increasing", "decreasing", "random" */
    gale_exr_box data, display;
    double pixel_aspect;
    int tile_width, tile_height; /* 0: no tiles */
    gale_exr_levels levels;
    bool round_up;          /* extents of levels */
    int levels_x, levels_y; /* 1 each for a part without levels; mip levels count once in both */
    const gale_exr_channel *channels;
    int channel_count;
    const gale_exr_attribute *attributes;
    int attribute_count;
    bool has_chromaticities;
    double chromaticities[8]; /* x and y of red, green, blue and white */
} gale_exr_part;

typedef struct gale_exr_limits {
    uint64_t max_pixels; /* of a level; 0: 2^29 */
    uint64_t max_bytes;  /* of what is decoded at once; 0: 8 GiB */
    bool serial;         /* decode in the calling thread: for callers that read several files at once */
} gale_exr_limits;
/* limits may be NULL.  GALE_FORMAT for what is no EXR or damaged in its header. */
GALE_API gale_status gale_exr_open(const char *path, const gale_exr_limits *limits, gale_exr **out);
/* The bytes must outlive the file. */
GALE_API gale_status gale_exr_from_memory(const void *data, size_t size, const gale_exr_limits *limits, gale_exr **out);
GALE_API void gale_exr_close(gale_exr **file);
GALE_API int gale_exr_part_count(const gale_exr *file);
/* NULL out of range.  Valid while the file is open. */
GALE_API const gale_exr_part *gale_exr_part_get(const gale_exr *file, int part);
GALE_API uint64_t gale_exr_size_bytes(const gale_exr *file);

/* Where a channel's samples go. */
typedef struct gale_exr_target {
    const char *channel;
    gale_type type; /* GALE_F16, GALE_F32 or GALE_U32: converted where the file has another */
    void *data;
    size_t pixel_bytes, row_bytes; /* from sample to sample, from row to row; 0: without gaps */
} gale_exr_target;
/* Pixels of a level: those of the data window at level 0. */
GALE_API gale_status gale_exr_level_size(
    const gale_exr *file, int part, int level_x, int level_y, int64_t *width, int64_t *height);
/* Samples of a channel at a level, fewer where it is sub-sampled. */
GALE_API gale_status gale_exr_channel_size(
    const gale_exr *file, int part, int level_x, int level_y, const char *channel, int64_t *width, int64_t *height);
/* Reads one level.  Of a deep part each pixel's samples are composited: colours and A front to back by Z, and Z is that
 * of the nearest sample.  GALE_NOT_FOUND names a channel that is missing; a damaged file is GALE_FORMAT, and then parts
 * of the targets may have been written. */
GALE_API gale_status gale_exr_read(
    gale_exr *file, int part, int level_x, int level_y, const gale_exr_target *targets, int count);

#ifdef __cplusplus
}
#endif
#endif
