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

#include "device.h"
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

/* Pictures for screens: light to 8 or 16 bits.  In this order: the colours of the file's chromaticities to linear sRGB
 * (Bradford to D65), what is negative or no finite number to 0, exposure, tone map, the curve of the screen, rounding;
 * alpha is clamped, and colours are divided by it where it is kept.  Another size is made before, of linear values that
 * are multiplied by alpha.  All of it is one graph, on any device. */
typedef enum gale_exr_tone {
    GALE_EXR_LINEAR,   /* cut off at 1 */
    GALE_EXR_ACES,     /* Narkowicz' fit */
    GALE_EXR_REINHARD, /* x / (1 + x) */
    GALE_EXR_FILMIC,   /* Hable's curve as it is */
    GALE_EXR_HABLE,    /* the same with 11.2 as white */
    GALE_EXR_LOCAL,    /* Reinhard's, by the mean of log luminance around each pixel */
    GALE_EXR_TONE_COUNT
} gale_exr_tone;
typedef enum gale_exr_filter {
    GALE_EXR_TRIANGLE,
    GALE_EXR_BOX,
    GALE_EXR_CUBIC, /* Catmull-Rom */
    GALE_EXR_MITCHELL,
    GALE_EXR_LANCZOS, /* of three lobes */
    GALE_EXR_FILTER_COUNT
} gale_exr_filter;
/* "aces", "triangle"; NULL past the last. */
GALE_API const char *gale_exr_tone_name(int tone);
GALE_API const char *gale_exr_filter_name(int filter);

/* Zero means the default. */
typedef struct gale_exr_look {
    const char *layer; /* a part, a layer, PART.LAYER or a channel; NULL: the colours that viewers show first */
    gale_exr_tone tone;
    double exposure;       /* in stops */
    double gamma;          /* 2.2 and the like; 0: the sRGB curve */
    double radius;         /* local: of the surroundings, in pixels of the result; 0: 1/32 of the longer side */
    int64_t width, height; /* of the result; one alone: the other in proportion; none: as it is */
    int64_t side;          /* the longer side at most, where neither width nor height is given */
    gale_exr_filter filter;
    bool file_colours; /* the chromaticities are not looked at */
    bool no_alpha;     /* over black */
    bool dither;       /* noise of one level in place of bands */
    int bits;          /* 8 (also for 0) or 16 */
    bool full;         /* level 0 also where a smaller one of the file's would do */
} gale_exr_look;

/* Keeps the programs that it has made; from many threads at once.  The device must outlive it. */
typedef struct gale_exr_viewer gale_exr_viewer;
GALE_API gale_status gale_exr_viewer_create(gale_device *device, const gale_exr_look *look, gale_exr_viewer **out);
GALE_API void gale_exr_viewer_destroy(gale_exr_viewer **viewer);
/* What one picture took. */
typedef struct gale_exr_report {
    int64_t width, height;                 /* that were decoded */
    int level_x, level_y;                  /* of the file */
    uint64_t file_bytes;                   /* of the file */
    uint64_t decoded_bytes;                /* samples that were made of it */
    uint64_t upload_bytes, download_bytes; /* to the device and back; 0 where it works in the host's memory */
    int uploads, downloads;
    double decode_seconds, pixel_seconds;
} gale_exr_report;
/* report may be NULL. */
GALE_API gale_status gale_exr_viewer_run(
    gale_exr_viewer *viewer, gale_exr *file, gale_exr_report *report, gale_picture **out);

/* Many files.  Each core reads and unpacks a file of its own while others compute or encode; with fewer files than
 * cores, all cores work on each.  A file that fails is noted and passed over. */
typedef struct gale_exr_item {
    const char *input, *output; /* output NULL: nothing is written */
    gale_status status;
    const char *message; /* why it failed; "" */
    int64_t width, height;
    gale_exr_report report;
    double encode_seconds;
} gale_exr_item;
typedef struct gale_exr_progress {
    size_t done, failed, skipped, count; /* files; done counts the others too */
    uint64_t bytes;                      /* of the files read so far */
    double seconds;
} gale_exr_progress;
typedef struct gale_exr_batch_options {
    gale_exr_look look;
    gale_picture_write_options write;
    gale_exr_limits limits;
    int jobs;              /* files at once; 0: as many as there are cores */
    uint64_t memory_bytes; /* for pictures on their way, all together; 0: half of the machine's */
    bool skip_existing;    /* leaves results that are there already: goes on where an earlier run has ended */
    int shard,
        shards; /* takes the files whose number, from 0, leaves `shard` (from 0) when divided by shards; 0: all */
    /* After each file, from any thread but from one at a time; false ends the batch after the files at hand. */
    bool (*progress)(void *user, const gale_exr_progress *progress, const gale_exr_item *item);
    void *user;
} gale_exr_batch_options;
typedef struct gale_exr_batch {
    gale_exr_item *items; /* those of the shard */
    size_t count;
    gale_exr_progress total;
    bool cancelled;
    uint64_t decoded_bytes, upload_bytes, download_bytes, output_bytes;
    uint64_t uploads, downloads;
    double decode_seconds, pixel_seconds, encode_seconds; /* of all threads together */
    int jobs;
    uint64_t peak_bytes; /* of pictures on their way */
} gale_exr_batch;
/* GALE_OK also where files have failed: total.failed says how many.  inputs and outputs must outlive the result. */
GALE_API gale_status gale_exr_batch_run(gale_device *device, const char *const *inputs, const char *const *outputs,
    size_t count, const gale_exr_batch_options *options, gale_exr_batch **out);
GALE_API void gale_exr_batch_destroy(gale_exr_batch **batch);

#ifdef __cplusplus
}
#endif
#endif
