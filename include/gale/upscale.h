/* Pictures through image-to-image networks: enlarge, restore.
 *
 *     gale_upscaler *u;
 *     gale_upscaler_open("auto", device, NULL, &u);        the built-in networks, or "zoom2x-ctrl.onnx"
 *     gale_upscale(u, picture, NULL, NULL, &larger);
 *
 * The picture may be grey or colour, with or without alpha, 8 bit to float, encoded or linear.  The network sees RGB or
 * luma in its own range, in tiles that are blended without seams.  The result is a picture of the same kind with the
 * same metadata.  Alpha goes through the network too, with colours multiplied by it, so that edges stay
 * clean. */
#ifndef GALE_UPSCALE_H
#define GALE_UPSCALE_H

#include "model.h"
#include "picture.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network with its manifest (NAME.yml beside the model; see docs/upscale.md).  One thread at a time. */
typedef struct gale_upscaler gale_upscaler;
/* Built-in networks (docs/upscaler-training.md): NULL or "zoom2x" doubles clean pictures; "clean" takes away JPEG
 * artefacts and noise at the same size; "auto" is zoom2x, after clean for pictures that need it (gale_upscale_options).
 * options: of the model, such as precision; NULL: defaults.  GALE_UNSUPPORTED: the model does not map pictures to
 * pictures; GALE_MISMATCH: it contradicts its manifest. */
GALE_API gale_status gale_upscaler_open(
    const char *model_path, gale_device *device, const gale_model_options *options, gale_upscaler **out);
/* From memory; manifest (YAML or JSON) may be NULL, data must outlive the upscaler. */
GALE_API gale_status gale_upscaler_from_memory(const void *data, size_t size, const char *manifest, gale_device *device,
    const gale_model_options *options, gale_upscaler **out);
GALE_API void gale_upscaler_close(gale_upscaler **upscaler);
/* Where it runs.  A device that fails (out of memory with the smallest tiles, lost, without something that the network
 * needs) is replaced by the next one of its chain, for this and all following pictures.  A warning
 * in the log states the reason.  With `strict` that is an error.  Valid until the next call. */
GALE_API const gale_device *gale_upscaler_device(const gale_upscaler *upscaler);

typedef struct gale_upscaler_info {
    const char *name, *description, *source; /* valid while the upscaler lives */
    int scale;                               /* of the network */
    int tile, overlap;                       /* defaults */
    int controls;                            /* length of the control vector; 0: none */
    const char *precision; /* that runs: "fp32", "fast", "bf16", "fp16"; the last also for networks that take it */
} gale_upscaler_info;
GALE_API void gale_upscaler_get_info(const gale_upscaler *upscaler, gale_upscaler_info *out);
/* The i-th control that has a name; false past the last.  Strings may be NULL. */
GALE_API bool gale_upscaler_control(
    const gale_upscaler *upscaler, int index, const char **name, const char **description, int *place, float *value);
/* "denoise=0.7", "2=0.7" or "0.1,0.2,0.3" for all: clamped to 0..1, and kept for later runs.  An unknown name or a
 * wrong count is GALE_INVALID. */
GALE_API gale_status gale_upscaler_set(gale_upscaler *upscaler, const char *setting);

/* All zero: defaults. */
#define GALE_TILE_WHOLE (-2)   /* the whole picture, or the largest tile that memory holds */
#define GALE_OVERLAP_NONE (-2) /* tiles side by side */
#define GALE_BATCH_AUTO (-2)   /* as many as memory holds and the device has use for */
#define GALE_CLEAN_NONE (-2)   /* never */
typedef struct gale_upscale_options {
    int64_t tile;    /* pixels, or GALE_TILE_WHOLE; 0: the manifest's */
    int64_t overlap; /* pixels, or GALE_OVERLAP_NONE; 0: the manifest's, or less if tiles are too small for it */
    int64_t batch;   /* tiles at once, or GALE_BATCH_AUTO; 0: 1 */
    int64_t lanes;   /* runs side by side where tiles go one to a run, on threads or streams of their own; 0: as many as
                        the device has use for and memory holds */
    int64_t width, height; /* of the result; 0: as the network scales, or proportional to the other one */
    bool no_check;         /* accept a result of a single colour */
    /* Called before each batch and after the last, from the running thread; false cancels (GALE_CANCELLED).  May be
     * NULL. */
    bool (*progress)(void *user, int64_t done, int64_t tiles);
    void *user;
    /* As in gale_run_control: both take effect within a tile. */
    const volatile int *cancel;
    uint64_t deadline_ns;
    /* How much of the built-in cleaning network's result goes into the picture before it is enlarged, up to 1, or
     * GALE_CLEAN_NONE.  0: none, but with "auto" 1 for pictures that show compression or noise, and for results of the
     * picture's own size, which "auto" does not enlarge. */
    double clean;
    uint64_t reserved[4]; /* 0 */
} gale_upscale_options;
#define GALE_UPSCALE_OPTIONS GALE_DEFAULTS

typedef struct gale_upscale_report {
    int64_t tiles, tile_width, tile_height, batch, lanes, passes; /* lanes: side by side, at most */
    bool by_memory;                                               /* the tile size was limited by memory */
    double network_seconds; /* of the time: in the network, with what goes to the device and comes back */
    double cleaned;         /* the share of cleaning that was applied; 0: none */
    bool examined;          /* "auto" has decided, by: */
    gale_picture_condition found;
} gale_upscale_report;
/* options and report may be NULL.  For sizes beyond the network's scale it runs repeatedly, on no more pixels than
 * needed, and the rest is resized.  If memory runs out, the batch is halved, then the tile, then the next device of the
 * chain is used, with a warning in the log. */
GALE_API gale_status gale_upscale(gale_upscaler *upscaler, const gale_picture *in, const gale_upscale_options *options,
    gale_upscale_report *report, gale_picture **out);

/* An animation, frame by frame; `take` gets each frame before and after, and for how long it is shown.  Frames that are
 * the same as the one before are not run again.  report: of all frames together. */
typedef gale_status gale_frame_take(
    void *user, const gale_picture *before, const gale_picture *after, int milliseconds);
GALE_API gale_status gale_upscale_animation(gale_upscaler *upscaler, gale_animation *in,
    const gale_upscale_options *options, gale_upscale_report *report, gale_frame_take *take, void *user);

#ifdef __cplusplus
}
#endif
#endif
