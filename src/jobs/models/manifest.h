/* What stands beside a model: NAME.yml (or .yaml, .json) with its name, scale, tiles and controls.
 *
 *     name: zoom2x-ctrl
 *     description: Doubles a photograph.
 *     source: https://...
 *     params: {scale_factor: 2, tile_size: 128, tile_overlap: 16}
 *     control:
 *       size: 3
 *       defaults: [0, 0, 0]
 *       parameters:
 *         - {name: deblur, description: blur to undo, index: 0}
 *
 * Beyond that, params may hold what a model file does not say: layout (nchw or nhwc), colours (rgb, bgr or luma), range
 * ([0, 1], [0, 255], [-1, 1]; range_out where that of the result is another), multiple (of which extents must be),
 * padding (replicate or reflect), and for `gale run` mean and std, by which pixels of 0..1 are normalised.  sha256 at
 * the top is that of the model file. */
#ifndef GALE_JOBS_MANIFEST_H
#define GALE_JOBS_MANIFEST_H
#include "base/str.h"
#include "jobs/upscale/tiles.h"

enum { GALE__TILE_USUAL = 256, GALE__OVERLAP_USUAL = 32, GALE__CONTROLS_MOST = 256 };
typedef enum gale__manifest_layout {
    GALE__MANIFEST_LAYOUT_UNKNOWN,
    GALE__MANIFEST_LAYOUT_NCHW,
    GALE__MANIFEST_LAYOUT_NHWC
} gale__manifest_layout;
typedef enum gale__manifest_colours { GALE__COLOURS_RGB, GALE__COLOURS_BGR, GALE__COLOURS_LUMA } gale__manifest_colours;

typedef struct gale__manifest_control {
    const char *name, *description;
    int index;
} gale__manifest_control;
typedef struct gale__manifest {
    gale__arena arena; /* all texts */
    const char *path;  /* of the manifest; NULL: there is none */
    const char *name, *description, *source,
        *sha256; /* name: of the model file where the manifest gives none; others "" */
    int scale;   /* 0: not specified */
    int tile, overlap;
    bool overlap_said; /* by the manifest */
    gale__manifest_layout layout;
    gale__manifest_colours colours;
    double low, high;         /* what black and white are for the network, */
    double low_out, high_out; /* and in its result */
    double mean[4], std[4];   /* by channel: (pixel - mean) / std, before the range; gale upscale has no use for them */
    int n_mean, n_std;        /* numbers that are given; 0: none, 1: for all channels */
    bool range_said;
    bool absent;  /* there is no manifest, or an empty one */
    int multiple; /* 0: not specified */
    int apron;    /* pixels of padding around a picture ("edge") */
    gale__tile_padding padding;
    int control_count;                /* length of the control vector; 0: none */
    float *defaults;                  /* of that length */
    gale__manifest_control *controls; /* those with a name */
    int named_count;
} gale__manifest;

/* From text; `name` is used where the text gives none.  The message names the key. */
gale_status gale__manifest_parse(const char *text, size_t size, const char *name, gale__manifest *out);
/* Of a model file: the manifest beside it, or the usual values where there is none. */
gale_status gale__manifest_read(const char *model_path, gale__manifest *out);
void gale__manifest_finish(gale__manifest *m);
/* Changes the control vector by "name=0.7", "2=0.7" or "0.1,0.2,0.3".  Values are clamped to 0..1, which is logged; an
 * unknown name or a wrong count is GALE_INVALID. */
gale_status gale__manifest_set_control(const gale__manifest *m, const char *setting, float *values);
/* The defaults, changed by each of the settings. */
gale_status gale__manifest_set_controls(
    const gale__manifest *m, const char *const *settings, size_t count, float *values);

/* The embedded models and those (*.onnx) of a folder by name, each with its manifest; folder "": the embedded ones
 * alone.  A manifest that cannot be read is a warning in the log, and the model is left out. */
typedef struct gale__model_entry {
    char *path /* NULL: embedded */;
    uint64_t size_bytes;
    gale__manifest manifest;
} gale__model_entry;
gale_status gale__models_list(const char *folder, gale__model_entry **out, size_t *count);
void gale__models_finish(gale__model_entry **list, size_t count);
/* GALE_MODELS, else gale/models in the user's data folder ($XDG_DATA_HOME, ~/.local/share), which need not be there. */
gale_status gale__models_folder(gale__str *out);
/* The SHA-256 that the model should have: its manifest's, else that in MODEL.sha256 beside it, as sha256sum writes it.
 * "" where neither says. */
gale_status gale__model_digest(const char *path, const gale__manifest *m, char hex[65]);
#endif
