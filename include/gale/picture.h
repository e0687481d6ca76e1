/* Pictures: reading, writing and conversion, in files or memory.
 *
 * A picture is rows of interleaved samples without gaps, top row first.  Integers run from 0 to their largest value,
 * floats from 0 to 1 (and beyond, if the format supports it).  A file's metadata stays with the picture and is written
 * again if the format supports it. */
#ifndef GALE_PICTURE_H
#define GALE_PICTURE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_picture_bytes {
    void *data;
    size_t size;
} gale_picture_bytes; /* belong to the picture */

/* Threads: any number may read it at once; who changes it does so alone. */
typedef struct gale_picture {
    int64_t width, height;
    int channels;       /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA */
    gale_type type;     /* GALE_U8, GALE_U16, GALE_F16 or GALE_F32 */
    void *data;         /* height x width x channels */
    bool premultiplied; /* colours are already multiplied by alpha (EXR, some TIFF) */
    bool linear;   /* values are proportional to light (EXR, PFM, float TIFF); else encoded as sRGB or by the profile */
    bool lossless; /* read from a lossless WebP; written to WebP losslessly again, unless a quality is given */
    double gamma;  /* PNG's gAMA, such as 0.45455; 0: none */
    double dpi_x, dpi_y;     /* pixels per inch; 0: unknown */
    gale_picture_bytes icc;  /* colour profile */
    gale_picture_bytes exif; /* begins with "II" or "MM"; its orientation is 1, since reading has applied it */
    gale_picture_bytes
        xmp; /* what editors write beside EXIF: title, rating, keywords, rights; from and to PNG, JPEG, WebP and TIFF */
    gale_picture_bytes iptc;  /* records of agencies and archives (IIM); from and to JPEG and TIFF */
    gale_picture_bytes texts; /* chunks of a PNG with texts, and with what its colours mean where it has no profile, as
                                 they stand there; written again to PNG */
    gale_picture_bytes
        exr;    /* attributes of an EXR header (comments, chromaticities, camera ...) that are written again to EXR */
    int frames; /* of the animation whose first frame it is; 0 or 1: a still picture */
    const char *format; /* that it was read from, such as "png"; NULL: made here */
    int jpeg_quality;   /* of the JPEG file that it was read from, 1..100, by its quantisation table; 0: none */
} gale_picture;

/* Zeroed. */
GALE_API gale_status gale_picture_create(
    int64_t width, int64_t height, int channels, gale_type type, gale_picture **out);
GALE_API void gale_picture_destroy(gale_picture **picture);

typedef struct gale_picture_read_options {
    uint64_t max_pixels;   /* 0: 2^29 */
    uint64_t max_bytes;    /* of the decoded picture, and of the file; 0: 8 GiB */
    bool keep_orientation; /* as stored: EXIF's orientation is neither applied nor reset */
    const char *layer;    /* of an EXR: a part, a layer such as "diffuse", PART.LAYER, or one channel; NULL: the colours
                             that viewers show first; of a TIFF: the number of a page, from "1" */
    bool tolerant;        /* a truncated JPEG is grey where it ends, and NaN or infinite samples are 0, with a
                             line in the log, instead of an error or of trouble later */
    bool first_frame;     /* of an animation the first frame is wanted: nothing is said about the others */
    uint64_t reserved[4]; /* 0 */
} gale_picture_read_options;
/* Detects the format from the first bytes.  options may be NULL.  GALE_FORMAT for a truncated file, unless `tolerant`.
 */
GALE_API gale_status gale_picture_read(const char *path, const gale_picture_read_options *options, gale_picture **out);
GALE_API gale_status gale_picture_from_memory(
    const void *data, size_t size, const gale_picture_read_options *options, gale_picture **out);

typedef struct gale_picture_write_options {
    const char *format;   /* a name or an extension; NULL: from the path's extension */
    int quality;          /* 1..100 for lossy formats; 0: 92 */
    bool lossless;        /* WebP and JPEG 2000: write losslessly */
    int effort;           /* 1 (fast) .. 9 (small) if the format supports it; 0: its default */
    uint64_t reserved[4]; /* 0 */
} gale_picture_write_options;
/* If the format does not support the type, values are rounded to the nearest supported type; without alpha support the
 * picture is blended over white, with a warning in the log.  The file appears only when it is complete. */
GALE_API gale_status gale_picture_write(
    const gale_picture *picture, const char *path, const gale_picture_write_options *options);
/* options->format must be given. */
GALE_API gale_status gale_picture_to_memory(
    const gale_picture *picture, const gale_picture_write_options *options, void **data /* gale_free */, size_t *size);

/* A picture of another type or number of channels.  Added alpha is opaque; removed alpha blends the picture over
 * white; grey is ITU-R 601 luma. Between integers and linear values the sRGB curve is applied. */
GALE_API gale_status gale_picture_convert(
    const gale_picture *picture, gale_type type, int channels, gale_picture **out);

/* How much noise and compression are visible in a picture.  Large pictures are sampled, so it takes milliseconds.  All
 * zero for pictures of less than 64 pixels a side. */
typedef struct gale_picture_condition {
    int jpeg_quality; /* the picture's; 0: not read from a JPEG file */
    double noise;     /* standard deviation of luma's noise in smooth areas, in 8-bit levels */
    double blocks;    /* visibility of an 8 x 8 grid as JPEG leaves it, also in a picture saved again in another format:
                         0 none, 1 the steps on the grid are twice as large as those beside it */
} gale_picture_condition;
GALE_API gale_status gale_picture_examine(const gale_picture *picture, gale_picture_condition *out);

/* Animations, frame by frame: GIF, WebP and PNG, in and out.  Each frame is the whole picture as it is shown, of RGB
 * or, where something of it is transparent, RGBA; profile, EXIF and the like go with each.  Threads: one at a time. */
typedef struct gale_animation gale_animation;
typedef struct gale_animation_info {
    int64_t width, height;
    int frames;         /* that the file says there are */
    int loops;          /* how often it is shown; 0: for ever */
    const char *format; /* "gif", "webp" or "png" */
} gale_animation_info;
/* GALE_UNSUPPORTED: the format has none, or none that are read.  A still picture is an animation of one frame, but for
 * PNG, whose still pictures have none. */
GALE_API gale_status gale_animation_open(
    const char *path, const gale_picture_read_options *options, gale_animation **out);
GALE_API const gale_animation_info *gale_animation_get_info(const gale_animation *animation);
/* *frame is NULL past the last. */
GALE_API gale_status gale_animation_next(gale_animation *animation, gale_picture **frame, int *milliseconds);
GALE_API void gale_animation_close(gale_animation **animation);

/* Frames are encoded as they come.  options->format must be given: "gif" (at most 255 colours a frame, hundredths of
 * seconds), "webp" or "png".  The first frame says size, notes and, for PNG, depth.  Threads: one at a time. */
typedef struct gale_animation_writer gale_animation_writer;
GALE_API gale_status gale_animation_writer_create(
    const gale_picture_write_options *options, int loops, gale_animation_writer **out);
GALE_API gale_status gale_animation_writer_add(
    gale_animation_writer *writer, const gale_picture *frame, int milliseconds);
/* Either ends the animation: what is left is to destroy the writer. */
GALE_API gale_status gale_animation_writer_write(gale_animation_writer *writer, const char *path);
GALE_API gale_status gale_animation_writer_to_memory(
    gale_animation_writer *writer, void **data /* gale_free */, size_t *size);
GALE_API void gale_animation_writer_destroy(gale_animation_writer **writer);

typedef struct gale_picture_format {
    const char *name, *extensions; /* "jpeg"; "jpg jpeg jpe jfif" */
    bool reads, writes;            /* whether this build does */
    const char *package;           /* Debian package needed to build it; NULL: none */
} gale_picture_format;
/* The i-th known format; NULL past the last. */
GALE_API const gale_picture_format *gale_picture_format_get(int index);

/* The difference of two pictures of the same size, over values 0..1.  If their channels differ, grey stands for all
 * colours and missing alpha for opaque.  PSNR is in dB, infinite if nothing differs; SSIM uses the usual 11 x 11
 * Gaussian window with sigma 1.5, and is NaN for smaller pictures. */
typedef struct gale_picture_measure {
    double psnr, ssim, largest;
} gale_picture_measure;
typedef struct gale_picture_difference {
    int channels;                 /* compared, including alpha: 1 to 4 */
    gale_picture_measure each[4]; /* by channel */
    gale_picture_measure colours; /* all but alpha together; SSIM and largest difference: mean and largest of them */
    gale_picture_measure luma;    /* ITU-R 601 */
    double largest;               /* of all, */
    int64_t x, y;                 /* where it is, */
    int channel;                  /* and in which channel */
    uint64_t pixels;              /* that differ at all */
} gale_picture_difference;
/* picture (may be NULL) gets the difference of each colour times `gain`, in u8 and without alpha.  GALE_MISMATCH if
 * the sizes differ. */
GALE_API gale_status gale_picture_compare(
    const gale_picture *a, const gale_picture *b, gale_picture_difference *out, double gain, gale_picture **picture);

#ifdef __cplusplus
}
#endif
#endif
