/* OpenEXR files: contents and pixels.
 *
 *     gale_exr *file;
 *     gale_exr_open("render.exr", NULL, &file);
 *     const gale_exr_part *part = gale_exr_part_get(file, 0);
 *     gale_exr_read(file, 0, 0, 0, targets, count);        each channel to the caller's memory
 *
 * Scan lines and tiles, all compressions, multiple parts and views, mip and rip levels, subsampled channels; deep
 * parts are composited front to back.  Only the requested channels are decompressed, on all
 * cores.  A file may be read from several threads at once. */
#ifndef GALE_EXR_H
#define GALE_EXR_H

#include "device.h"
#include "picture.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_exr gale_exr; /* threads: any number at once */

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
    bool linear;                /* pLinear of the header; used by B44 */
} gale_exr_channel;
typedef struct gale_exr_attribute {
    const char *name, *type, *text; /* the value as text, in UTF-8 if the file's is */
} gale_exr_attribute;
typedef struct gale_exr_part {
    const char *name, *view; /* "" if the part has none */
    gale_exr_storage storage;
    const char *compression; /* "none", "rle", "zips", "zip", "piz", "pxr24", "b44", "b44a", "dwaa", "dwab" */
    const char *line_order;  /* "increasing", "decreasing", "random" */
    gale_exr_box data, display;
    double pixel_aspect;
    int tile_width, tile_height; /* 0: no tiles */
    gale_exr_levels levels;
    bool round_up;          /* sizes of levels */
    int levels_x, levels_y; /* 1 each for a part without levels; mip levels count once in both */
    const gale_exr_channel *channels;
    int channel_count;
    const gale_exr_attribute *attributes;
    int attribute_count;
    bool has_chromaticities;
    double chromaticities[8]; /* x and y of red, green, blue and white */
} gale_exr_part;

typedef struct gale_exr_limits {
    uint64_t max_pixels;  /* of a level; 0: 2^29 */
    uint64_t max_bytes;   /* decoded at once; 0: 8 GiB */
    bool serial;          /* decode in the calling thread: for callers that read several files at once */
    uint64_t reserved[4]; /* 0 */
} gale_exr_limits;
/* limits may be NULL.  GALE_FORMAT: not an EXR file, or a damaged header. */
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
    gale_type type; /* GALE_F16, GALE_F32 or GALE_U32: converted if the file has another type */
    void *data;
    size_t pixel_bytes, row_bytes; /* from sample to sample, from row to row; 0: without gaps */
} gale_exr_target;
/* Pixels of a level: those of the data window at level 0.  GALE_LIMIT if there are more than the file's limit. */
GALE_API gale_status gale_exr_level_size(
    const gale_exr *file, int part, int level_x, int level_y, int64_t *width, int64_t *height);
/* Samples of a channel at a level, fewer if it is subsampled. */
GALE_API gale_status gale_exr_channel_size(
    const gale_exr *file, int part, int level_x, int level_y, const char *channel, int64_t *width, int64_t *height);
/* Reads one level.  Of a deep part each pixel's samples are composited: colours and A front to back by Z, and Z is that
 * of the nearest sample.  GALE_NOT_FOUND: a channel is missing; GALE_FORMAT: the file is damaged, and parts of the
 * targets may have been written. */
GALE_API gale_status gale_exr_read(
    gale_exr *file, int part, int level_x, int level_y, const gale_exr_target *targets, int count);

/* Pictures for display: linear values to 8 or 16 bits.  In this order: the colours of the file's chromaticities to
 * linear sRGB (Bradford to D65), negative, NaN and infinite values to 0, exposure, tone map, the display's curve, an
 * optional lookup table, rounding.  Alpha is clamped, and colours are divided by it if it is kept.  Resizing comes
 * first, on linear premultiplied values.  Everything is one graph, on any device. */
typedef enum gale_exr_tone {
    GALE_EXR_LINEAR,   /* clipped at 1 */
    GALE_EXR_ACES,     /* Narkowicz' fit */
    GALE_EXR_REINHARD, /* x / (1 + x) */
    GALE_EXR_FILMIC,   /* Hable's curve */
    GALE_EXR_HABLE,    /* the same with white at 11.2 */
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
    const char *layer; /* a part, a layer, PART.LAYER or a channel; NULL: the main colours */
    gale_exr_tone tone;
    double exposure;       /* in stops */
    double gamma;          /* such as 2.2; 0: the sRGB curve */
    double radius;         /* local: of the neighbourhood, in pixels of the result; 0: 1/32 of the longer side */
    int64_t width, height; /* of the result; one only: the other is proportional; none: unchanged */
    int64_t side;          /* maximum of the longer side, if neither width nor height is given */
    gale_exr_filter filter;
    const char *lut;      /* a .cube file with 1D or 3D tables, applied to encoded colours at the end; NULL: none */
    bool file_colours;    /* ignore the chromaticities */
    bool no_alpha;        /* over black */
    bool dither;          /* add noise of one level to avoid banding */
    int bits;             /* 8 (also for 0) or 16 */
    bool full;            /* decode level 0 even if a smaller level would suffice */
    uint64_t reserved[4]; /* 0 */
} gale_exr_look;

/* Caches its programs; may be used from many threads.  The device must outlive it. */
typedef struct gale_exr_viewer gale_exr_viewer;
GALE_API gale_status gale_exr_viewer_create(gale_device *device, const gale_exr_look *look, gale_exr_viewer **out);
GALE_API void gale_exr_viewer_destroy(gale_exr_viewer **viewer);
/* Cost of one picture. */
typedef struct gale_exr_report {
    int64_t width, height;                 /* decoded */
    int level_x, level_y;                  /* of the file */
    uint64_t file_bytes;                   /* of the file */
    uint64_t decoded_bytes;                /* decoded samples */
    uint64_t upload_bytes, download_bytes; /* to the device and back; 0 if it works in host memory */
    int uploads, downloads;                /* as they were made, with those of constants */
    double decode_seconds, pixel_seconds;
    uint64_t needed_bytes; /* of them: samples, as they were sent, and pixels of the picture */
    uint64_t packed_bytes; /* compressed samples that the device inflated; 0: the host did */
} gale_exr_report;
/* report may be NULL. */
GALE_API gale_status gale_exr_viewer_run(
    gale_exr_viewer *viewer, gale_exr *file, gale_exr_report *report, gale_picture **out);

/* Many files.  Each core processes its own file from reading to encoding; with fewer files than cores, all cores work
 * on each.  A file that fails is recorded and skipped. */
typedef struct gale_exr_item {
    const char *input, *output; /* output NULL: nothing is written */
    gale_status status;
    const char *message; /* why it failed; "" */
    int64_t width, height;
    gale_exr_report report;
    double encode_seconds;
    gale_picture *picture; /* if pictures are kept */
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
    gale_device *second;   /* shares the work with the first device: each file goes to the one that has been faster so
                              far; NULL: the first device only */
    double start_seconds;  /* how long it took to open the first device, from gale_exr_devices_open; 0: unknown */
    bool strict;           /* GALE_UNSUPPORTED if the first device computes on the host; the second is not used */
    int jobs;              /* files at once; 0: number of cores */
    uint64_t memory_bytes; /* for all pictures in flight; 0: half of the machine's memory */
    bool light; /* write samples unchanged instead of pictures for display: to EXR as gale_exr_rewrite does, to
                   TIFF and others as half or float */
    const char *compression; /* of EXR; NULL: "zip" */
    int tile;                /* of EXR; 0: scan lines */
    bool keep;               /* keep pictures with the items */
    bool skip_existing;      /* skip outputs that already exist; resumes an interrupted run */
    int shard, shards;       /* process the files whose index modulo `shards` is `shard` (from 0); 0 shards: all */
    /* Called after each file, from one thread at a time; false ends the batch after the files in progress. */
    bool (*progress)(void *user, const gale_exr_progress *progress, const gale_exr_item *item);
    void *user;
    uint64_t reserved[4]; /* 0 */
} gale_exr_batch_options;
/* What one device did. */
typedef struct gale_exr_share {
    size_t files;
    uint64_t decoded_bytes;
    double pixel_seconds, decode_seconds; /* of all lanes together */
} gale_exr_share;
/* The first device's time by its own clock; nothing is measured of a device that computes on the host, or if a
 * profiler watches it already. */
typedef struct gale_exr_usage {
    bool measured;
    double transfer_seconds, kernel_seconds; /* sums over all streams */
    double busy_seconds;                     /* in which there was either */
    double occupancy; /* mean while kernels ran: the share of all threads the device can hold at once that they fill at
                         most; 0: the driver does not tell */
} gale_exr_usage;
typedef struct gale_exr_batch {
    gale_exr_item *items; /* those of the shard */
    size_t count;
    gale_exr_progress total;
    bool cancelled;
    size_t on_second; /* files processed by the second device */
    size_t inflated;  /* files that the first device inflated */
    uint64_t decoded_bytes, upload_bytes, download_bytes, output_bytes;
    uint64_t uploads, downloads;
    double decode_seconds, pixel_seconds, encode_seconds; /* of all threads together */
    int jobs;
    uint64_t peak_bytes;      /* of pictures in flight */
    uint64_t needed_bytes;    /* of those moved: samples and pixels */
    gale_exr_share shares[2]; /* of the first device and of the second */
    gale_exr_usage usage;
    double start_seconds; /* until the first device computed: opened, and kernels of the first picture */
    /* Of the pixel stages, and of decoding, too, where most files could be inflated by a GPU: by the rates of earlier
     * batches, 0: no rates; what they took, divided by the lanes. */
    double predicted_seconds, pixel_wall_seconds;
} gale_exr_batch;
/* Devices for a batch.  If a provider was requested (GALE_PROVIDER), that one.  Otherwise the choice follows the
 * rates that earlier batches of such pictures (look NULL: unchanged) measured.  It is the CPU alone, if it is done
 * before a GPU has started, or the GPU with the CPU as second device.  *seconds (may be NULL): what that took, if a GPU
 * was opened.  Close both; *second may stay NULL. */
GALE_API gale_status gale_exr_devices_open(const char *const *inputs, size_t count, const gale_exr_look *look,
    gale_device **first, gale_device **second, double *seconds);
/* GALE_OK even if files failed: see total.failed.  inputs and outputs must outlive the result. */
GALE_API gale_status gale_exr_batch_run(gale_device *device, const char *const *inputs, const char *const *outputs,
    size_t count, const gale_exr_batch_options *options, gale_exr_batch **out);
GALE_API void gale_exr_batch_destroy(gale_exr_batch **batch);

/* Statistics of a channel.  Percentiles are computed on samples converted to half, so they are exact for half channels;
 * floats above 65504 are ignored in them. */
enum { GALE_EXR_PERCENTILES = 9, GALE_EXR_BINS = 256 };
extern GALE_API const double gale_exr_percents[GALE_EXR_PERCENTILES]; /* 0.1, 1, 5, 25, 50, 75, 95, 99, 99.9 */
typedef struct gale_exr_stats {
    const char *name; /* the file's; valid while it is open */
    gale_type type;
    uint64_t samples, nans, infinities, negatives, zeros;
    double least, largest, mean, deviation; /* of finite samples; 0 if there are none */
    double percentiles[GALE_EXR_PERCENTILES];
    uint64_t bins[GALE_EXR_BINS]; /* positive samples by base-2 logarithm */
    double bins_low, bins_high;   /* logarithms at both ends; samples beyond them are in the outermost bins */
} gale_exr_stats;
/* Level 0 of channels of a part, counted on the device, with one upload and one download for up to 256 MB of channels
 * with equal extents.  If the device has no f64, all cores count floats and integers.  names NULL: all channels.  *out
 * (gale_free) has *count entries. */
enum { GALE_EXR_MEASURE_STRICT = 1 }; /* a channel that the host would have to count is an error */
GALE_API gale_status gale_exr_measure(gale_device *device, gale_exr *file, int part, const char *const *names, int n,
    gale_flags flags, gale_exr_stats **out, int *count);
/* The same for many files: what is planned for channels of some extents serves all that follow.  Threads may share it;
 * the device must outlive it. */
typedef struct gale_exr_meter gale_exr_meter;
GALE_API gale_status gale_exr_meter_create(gale_device *device, gale_exr_meter **out);
GALE_API gale_status gale_exr_meter_run(gale_exr_meter *meter, gale_exr *file, int part, const char *const *names,
    int n, gale_flags flags, gale_exr_stats **out, int *count);
GALE_API void gale_exr_meter_destroy(gale_exr_meter **meter);
/* Overlaid curves of up to four channels (others are ignored), with logarithmic heights. */
GALE_API gale_status gale_exr_histogram_picture(
    const gale_exr_stats *stats, int count, int64_t width, int64_t height, gale_picture **out);
/* Depth as grey: 1 % of the finite samples are nearer than white, 1 % farther than black. */
GALE_API gale_status gale_exr_depth(
    gale_device *device, gale_exr *file, const char *channel /* NULL: Z */, gale_picture **out);

/* Differences between the channels that two files have in common, sample by sample. */
typedef struct gale_exr_difference {
    char *name; /* PART.CHANNEL where there are parts */
    uint64_t samples, differing;
    double largest, mean, rms, psnr; /* psnr: against the largest sample of the first file; infinite if equal */
    int64_t x, y;                    /* of the largest, from the data window's corner */
} gale_exr_difference;
typedef struct gale_exr_comparison {
    gale_exr_difference *channels;
    int count;
    int only_first, only_second; /* channels without a partner */
    bool same;                   /* nothing differs, and no channel is missing in either file */
    gale_picture *picture; /* the largest difference of colours a pixel, blue over green to red; NULL: not asked */
} gale_exr_comparison;
/* GALE_MISMATCH if the data windows differ. */
enum { GALE_EXR_COMPARE_PICTURE = 1 }; /* make the picture, too */
GALE_API gale_status gale_exr_compare(gale_exr *a, gale_exr *b, gale_flags flags, gale_exr_comparison *out);
GALE_API void gale_exr_comparison_finish(gale_exr_comparison *c);

/* Writing: any channels, one or several parts, scan lines or tiles, with levels provided by the caller. */
typedef struct gale_exr_source {
    const char *name;
    gale_type type;             /* GALE_F16, GALE_F32 or GALE_U32 */
    const void *data;           /* level 0, of the data window, without gaps */
    int x_sampling, y_sampling; /* a sample for so many pixels, in scan lines; 0: 1 */
} gale_exr_source;
typedef struct gale_exr_new_part {
    const char *name;            /* required if there are several parts */
    gale_exr_box data, display;  /* display all 0: same as data */
    const char *compression;     /* as in gale_exr_part; dwaa and dwab need libdeflate; NULL: "zip" */
    int tile_width, tile_height; /* 0: scan lines */
    gale_exr_levels levels;      /* of tiles */
    bool round_up;               /* sizes of levels */
    const gale_exr_source *channels;
    int channel_count;
    /* With levels: planes of level (x, y) of a channel, without gaps; (0, 0) is not requested. */
    const void *(*level)(void *user, int level_x, int level_y, int channel);
    void *user;
    const gale_exr *like; /* whose comments, chromaticities, camera ... are written too; NULL: none */
    int like_part;
} gale_exr_new_part;
/* The file appears only when it is complete. */
GALE_API gale_status gale_exr_write(const char *path, const gale_exr_new_part *parts, int count);

/* Levels: each is made from the previous one, from two pixels along each halved axis.  If sizes are rounded up, the
 * last pixel of an odd axis is repeated (the edge is clamped); else it is dropped. */
typedef enum gale_exr_reduce { GALE_EXR_AVERAGE, GALE_EXR_BRIGHTEST, GALE_EXR_DARKEST } gale_exr_reduce;
typedef struct gale_exr_mip_options {
    gale_exr_reduce reduce;
    gale_exr_levels levels; /* GALE_EXR_ONE_LEVEL counts as GALE_EXR_MIPMAP */
    bool round_up;
    int tile;                /* 0: 64 */
    const char *compression; /* NULL: "zip" */
    uint64_t reserved[4];    /* 0 */
} gale_exr_mip_options;
/* Writes all channels of a part with levels computed on the device to a tiled file. */
GALE_API gale_status gale_exr_mip(
    gale_device *device, gale_exr *file, int part, const gale_exr_mip_options *options, const char *path);

/* Layers: channels of a part with the same name up to the last dot. */
typedef struct gale_exr_layer {
    int part;
    char *name; /* "diffuse", "left.diffuse"; "" for channels without a dot */
    const gale_exr_channel **channels;
    int channel_count;
} gale_exr_layer;
/* Free *out with gale_exr_layers_free. */
GALE_API gale_status gale_exr_layers(const gale_exr *file, gale_exr_layer **out, int *count);
GALE_API void gale_exr_layers_free(gale_exr_layer **layers, int count);
/* Writes one layer to a file, its channels without the prefix; samples are unchanged.  compression NULL: "zip". */
GALE_API gale_status gale_exr_layer_write(
    gale_exr *file, const gale_exr_layer *layer, const char *path, const char *compression);
/* Writes the file again, samples unchanged (deep parts flattened, level 0 only), with another compression, in tiles (0:
 * scan lines).  layer: only that layer or part, in scan lines; NULL: all parts. */
GALE_API gale_status gale_exr_rewrite(
    gale_exr *file, const char *layer, const char *path, const char *compression, int tile);
/* Combines the first part of each file into one file; the caller gives distinct names of parts. */
GALE_API gale_status gale_exr_merge(
    gale_exr *const *files, const char *const *names, int count, const char *path, const char *compression);
/* Small pictures in rows, each centred in its cell, on a dark background.  NULL entries stay empty.  columns 0: about
 * as many as rows. */
GALE_API gale_status gale_exr_sheet(
    const gale_picture *const *pictures, size_t count, int columns, int64_t cell, gale_picture **out);

/* Removal of render noise with the networks of Open Image Denoise; the caller provides the weights (.tza). */
typedef struct gale_exr_denoise_options {
    const char *weights; /* a file, or a folder with rt_hdr.tza and rt_hdr_alb_nrm.tza, of which the second is used
                            if the file has albedo and normals */
    const char *layer;   /* with R, G and B; NULL: the unnamed one, else the first */
    const char *albedo, *normal; /* layers; NULL: found by the usual names; "": not used */
    int64_t tile;                /* pixels of a tile; 0: 512 */
    const char *compression;     /* of the result; NULL: "zip" */
    bool (*progress)(void *user, int64_t done, int64_t tiles); /* false cancels (GALE_CANCELLED) */
    void *user;
    uint64_t reserved[4]; /* 0 */
} gale_exr_denoise_options;
typedef struct gale_exr_denoise_report {
    bool guided; /* albedo and normals were used */
    int64_t tiles;
    double scale; /* of the exposure that the network saw */
    double seconds;
} gale_exr_denoise_report;
/* Writes the part again with the colours of the layer replaced.  report may be NULL. */
GALE_API gale_status gale_exr_denoise(gale_device *device, gale_exr *file, const gale_exr_denoise_options *options,
    const char *path, gale_exr_denoise_report *report);

#ifdef __cplusplus
}
#endif
#endif
