/* A network that takes a picture and gives a picture: what its file says, what its manifest says, and what a small run
 * shows where both are silent. */
#ifndef GALE_JOBS_NETWORK_H
#define GALE_JOBS_NETWORK_H
#include "gale/model.h"
#include "jobs/models/manifest.h"

typedef struct gale__network {
    gale_model *model; /* the caller's, as is the manifest */
    const gale__manifest *manifest;
    int picture, control, result;   /* numbers of inputs and of the output; control -1: takes none */
    int control_rank, control_size; /* rank 0: a single number */
    gale__manifest_layout layout;
    int channels_in, channels_out;                  /* 1 or 3 */
    gale_type type_in, type_out;                    /* f32, f16 or u8 */
    int64_t fixed_batch, fixed_width, fixed_height; /* 0: any */
    double range[2][2];                             /* black and white, of the picture and of the result */
    int scale;
    int lost;     /* pixels of the result that are missing on each side: convolutions without padding, as in waifu2x */
    int border;   /* pixels that a tile needs around it, so that its own are all there */
    int multiple; /* of which width and height must be; 0: not looked for yet */
    int64_t proven; /* the side of a square that went through */
    struct {
        double pixels, bytes;
    } seen;                        /* of the first run (budget.h) */
    double bytes, bytes_per_pixel; /* on the device for a run; 0: not looked for yet */
    enum {
        GALE__BATCHES_UNKNOWN,
        GALE__BATCHES_APART,
        GALE__BATCHES_MIXED
    } batches; /* whether tiles of one batch are seen to stay apart */
    struct gale__network_ran {
        int64_t width, height;
        double bytes;
        int64_t tiles;              /* so far */
        double alone_ns, beside_ns; /* least time of a tile by itself, and of one of several lanes; 0: not known */
    } ran; /* the size of the run that was noted last, what its plan took, and how long tiles of this size take */
} gale__network;

/* Tries pictures of this side first; where memory is too short for that, and for 0, small ones; where those are none of
 * the network's sizes, tiles of the manifest's.  GALE_UNSUPPORTED for a model that is not of this kind, GALE_MISMATCH
 * where it is not as its manifest says. */
gale_status gale__network_probe(gale_model *model, const gale__manifest *manifest, int64_t side, gale__network *out);
/* How long the result is for a side of so many pixels. */
static inline int64_t gale__network_gives(const gale__network *n, int64_t side)
{
    return side * n->scale - 2 * n->lost;
}
/* One run at the given size with some picture.  Fills the result's extents: batch, channels, height, width. */
gale_status gale__network_try(const gale__network *n, int64_t width, int64_t height, int64_t dims[4]);
/* Which of n devices a run of a tile of this side is predicted to end soonest on (gale_model_place): *chosen, and the
 * time there; negative: not known.  The network's model should be on the CPU. */
gale_status gale__network_place(
    const gale__network *n, int64_t side, gale_device *const *devices, int count, int *chosen, double *predicted_us);
/* Finds the multiple by running odd sizes, where neither manifest nor fixed extents tell it. */
gale_status gale__network_find_multiple(gale__network *n);
/* Finds the ranges by running a test picture of that size under each that is usual: the one that brings it back most
 * alike, if clearly so.  What is assumed is said in the log. */
gale_status gale__network_find_range(gale__network *n, int64_t width, int64_t height);
/* Failures that say nothing about what a network takes. */
static inline bool gale__network_is_final(gale_status s)
{
    return s == GALE_NO_MEMORY || s == GALE_CANCELLED || s == GALE_DEADLINE || s == GALE_DEVICE_LOST;
}
#endif
