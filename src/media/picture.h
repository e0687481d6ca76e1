/* What the formats share: a source of bytes, a growing end, the table of formats, notes in EXIF, rows as floats.
 *
 * A format reads from memory and writes to memory: files, pipes and models' tensors then need no code of their own, and
 * a file on disk is written whole or not at all.  Whatever a reader makes of hostile bytes, gale__picture_begin has
 * checked the size before anything is allocated. */
#ifndef GALE_MEDIA_PICTURE_H
#define GALE_MEDIA_PICTURE_H
#include "base/str.h"
#include "gale/picture.h"

typedef struct gale__picture_source {
    const uint8_t *data;
    size_t size;
    uint64_t max_pixels, max_bytes;
    const char *layer; /* requested; NULL: the default */
    bool tolerant;     /* of what is missing in the file */
    int orientation;   /* 1..8, found by the reader outside EXIF; 0: not specified */
    int frames;        /* found by the reader; 0: it is a still picture */
    int jpeg_quality;  /* likewise; 0: no JPEG */
} gale__picture_source;
void gale__picture_source_init(const gale_picture_read_options *options, gale__picture_source *out);

/* Writers see a picture that they can hold: of one of their types, channels that they have, light as they have it. */
typedef struct gale__format {
    gale_picture_format about;
    bool (*is)(const uint8_t *data, size_t size);
    gale_status (*read)(gale__picture_source *in, gale_picture **out);
    gale_status (*write)(const gale_picture *picture, const gale_picture_write_options *options, gale__str *out);
    unsigned types, channels; /* that writing takes: bits GALE__PIC_*, 1 << channels */
    bool linear_floats;       /* floats in it are proportional to light */
    bool premultiplied;       /* with alpha, by its convention */
    bool keeps_icc;
    int64_t side_most;                         /* pixels that a side may have; 0: any number */
    const char *instead;                       /* extension of what stands for it where it is only read; NULL: itself */
    const struct gale__frames_in *frames_in;   /* NULL: no animations, or none that are read */
    const struct gale__frames_out *frames_out; /* likewise */
} gale__format;
enum { GALE__PIC_U8 = 1, GALE__PIC_U16 = 2, GALE__PIC_F16 = 4, GALE__PIC_F32 = 8 };
extern const gale__format gale__formats[];
extern const int gale__format_count;
const gale__format *gale__format_of_bytes(const uint8_t *data, size_t size); /* NULL: none */
const gale__format *gale__format_of_name(const char *name);                  /* a name or an extension */

/* What a picture in the format, by its name or an extension, becomes where nobody says: the same, or what stands for a
 * format that is only read.  An extension; NULL: no such format. */
const char *gale__format_instead(const char *name);

/* Whether a picture of these extents (0: not known yet) can be written in the format, by its name or an extension: it
 * is known, this build has it, and it holds so much. */
gale_status gale__format_check(const char *name, int64_t width, int64_t height);

/* As the format, by that name, holds it; NULL: the picture itself.  And what its options mean for this picture. */
gale_status gale__picture_fit(const gale__format *f, const char *name, const gale_picture *p, gale_picture **out);
void gale__write_options_settle(const gale__format *f, const gale_picture *p, gale_picture_write_options *o);
/* What follows from notes once a reader is done: the way up, and a resolution. */
gale_status gale__picture_finish_reading(const gale__picture_source *in, bool keep_orientation, gale_picture **p);

/* Whether a picture of the caller is one; its notes are not looked at. */
gale_status gale__picture_check(const gale_picture *picture);
/* Checks the extents against the limits, then allocates; data is not zeroed. */
gale_status gale__picture_begin(
    const gale__picture_source *in, uint64_t width, uint64_t height, int channels, gale_type type, gale_picture **out);
size_t gale__picture_row_bytes(const gale_picture *p);
static inline void *gale__picture_row(const gale_picture *p, int64_t y)
{
    return (char *)p->data + (size_t)y * gale__picture_row_bytes(p);
}
gale_status gale__picture_bytes_set(gale_picture_bytes *to, const void *data, size_t size);
/* Copies profile, EXIF, XMP, IPTC, texts, attributes and resolution. */
gale_status gale__picture_notes_copy(const gale_picture *from, gale_picture *to);
/* Whether the profile is for pictures with this number of channels. */
bool gale__icc_fits(const gale_picture *p);

/* n samples of a row to floats 0..1 and back; integers are rounded and saturated, NaN gives 0. */
void gale__samples_to_f32(gale_type type, const void *from, float *to, size_t n);
void gale__samples_from_f32(gale_type type, const float *from, void *to, size_t n);
/* Pixels in place.  Where alpha is 0 nothing is left of the colour, and dividing leaves it so. */
void gale__premultiply(float *pixels, size_t n, int channels);
void gale__unpremultiply(float *pixels, size_t n, int channels);
float gale__srgb_to_linear(float v);
float gale__linear_to_srgb(float v);
/* The whole of it: type, channels, light and alpha as wanted. */
typedef struct gale__picture_kind {
    gale_type type;
    int channels;
    bool linear, premultiplied;
} gale__picture_kind;
gale_status gale__picture_make(const gale_picture *p, gale__picture_kind kind, gale_picture **out);

/* Planes for networks: colours of the picture as float planes [planes][height][width], without alpha; `planes` 1 of an
 * RGB picture is its luma, 3 of a grey one repeats it.  alpha (may be NULL) gets its plane, 1 where there is none;
 * straight colours are multiplied by it when `multiply`. */
void gale__picture_to_planes(const gale_picture *p, int planes, bool multiply, float *colours, float *alpha);
/* And back into a picture of the right extents; with `multiplied`, colours are divided by alpha. */
void gale__picture_from_planes(gale_picture *p, int planes, bool multiplied, const float *colours, const float *alpha);

/* Orientation as EXIF counts it (1 upright .. 8): turns and mirrors the picture. */
gale_status gale__picture_turn(gale_picture **picture, int orientation);
/* EXIF: the orientation (0: not specified), set to upright with the small picture inside dropped; the resolution; the
 * extents after resizing. */
int gale__exif_orientation(const gale_picture_bytes *exif);
void gale__exif_upright(gale_picture_bytes *exif);
bool gale__exif_dpi(const gale_picture_bytes *exif, double *x, double *y);
void gale__exif_extents(gale_picture_bytes *exif, int64_t width, int64_t height);
/* The same of XMP, where it repeats them. */
gale_status gale__xmp_upright(gale_picture_bytes *xmp);
gale_status gale__xmp_extents(gale_picture_bytes *xmp, int64_t width, int64_t height);
/* All notes of a picture that has got another size. */
gale_status gale__notes_extents(gale_picture *p);
/* What a TIFF file says of the scene (camera, time, place, author ...), as EXIF; nothing where it says nothing.  And
 * the other way: EXIF into a TIFF file that is complete. */
gale_status gale__exif_from_tiff(const void *file, size_t size, gale_picture_bytes *exif);
gale_status gale__exif_into_tiff(const gale_picture_bytes *exif, gale__str *tiff);
/* IPTC records likewise. */
gale_status gale__iptc_from_tiff(const void *file, size_t size, gale_picture_bytes *iptc);
gale_status gale__iptc_into_tiff(const gale_picture_bytes *iptc, gale__str *tiff);

/* For ONNX's ImageDecoder: u8 pixels as Pillow has them; order "RGB", "BGR" or "Grayscale".  As stored, EXIF is not
 * looked at. */
gale_status gale__picture_decode(const void *data, size_t size, const char *order, gale_picture **out);

/* Memory as a file that libraries read and write at any place: n bytes from or to `at`.  Reading gives how many there
 * were; writing fills a gap with zeros, and is false when there is no memory. */
size_t gale__picture_memory_get(const void *data, uint64_t size, uint64_t at, void *to, size_t n);
bool gale__picture_memory_put(gale__str *out, uint64_t at, const void *from, size_t n);

/* Numbers in files. */
static inline uint32_t gale__le16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t gale__le32(const uint8_t *p) { return gale__le16(p) | gale__le16(p + 2) << 16; }
static inline uint32_t gale__be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static inline uint32_t gale__be32(const uint8_t *p) { return gale__be16(p) << 16 | gale__be16(p + 2); }
static inline bool gale__host_is_little(void) { return *(const uint8_t *)&(uint16_t){1}; }
#endif
