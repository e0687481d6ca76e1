/* Shared by the OpenEXR files: an open file, the channels that make up the picture, and the preserved part of a
 * header. */
#ifndef GALE_MEDIA_EXR_H
#define GALE_MEDIA_EXR_H
#include "base/file.h"
#include "gale/exr.h"
#include "media/exr_image.h"
#include "media/formats.h"
#include <OpenEXR/openexr.h>

struct gale_exr {
    exr_context_t file;
    const uint8_t *data; /* NULL: the bytes are the map's */
    size_t size;
    gale__file_map map;
    gale_exr_limits limits;
    gale__arena arena; /* of what is said of the parts */
    gale_exr_part *parts;
    int count;
};

/* The library's answers as ours, with the first complaint of this thread since gale__exr_hush. */
gale_status gale__exr_said(exr_result_t result);
void gale__exr_hush(void);
/* What a context is begun with: our memory and our ears.  The functions to read or write are the caller's to add. */
exr_context_initializer_t gale__exr_starter(void *user);
/* Fills the parts from the headers. */
gale_status gale__exr_describe(gale_exr *f);
gale_status gale__exr_type(exr_pixel_type_t type, gale_type *out);
/* Compressions by the numbers of the format. */
extern const char *const gale__exr_compressions[EXR_COMPRESSION_LAST_TYPE];

/* A level that is being read: the targets with their places. */
typedef struct gale__exr_place {
    gale_exr_target to;
    int64_t width, height; /* samples that there is room for */
} gale__exr_place;
/* What a chunk is unpacked by where the library does not do it, or not as fast; NULL: by the library.  The pipeline's
 * user data is a void * that the function keeps its own state in from chunk to chunk, freed below. */
typedef exr_result_t gale__exr_unpack(exr_decode_pipeline_t *d);
gale__exr_unpack *gale__exr_unpack_find(exr_compression_t how);
void gale__exr_tool_free(void **tool);
/* From unpacked bytes to the channels' places. */
gale__exr_unpack gale__exr_put_rows;
/* Where the part's table of offsets begins, and whether chunks begin with the number of their part. */
bool gale__exr_find_table(const gale_exr *f, int part, bool *many, uint64_t *at);
/* A file with these parts, as bytes; one with rip levels behind the header that the library made for it. */
gale_status gale__exr_pack(const gale_exr_new_part *parts, int count, gale__str *out);
gale_status gale__exr_pack_rip(const gale_exr_new_part *part, const gale__str *header, gale__str *out);
/* A tile of a part with rip levels. */
exr_result_t gale__exr_rip_chunk(const gale_exr *f, int part, int tx, int ty, int lx, int ly, exr_chunk_info_t *out);
/* One chunk of a deep part, whose first pixel is (x, y) of the level, composited into the places. */
typedef struct gale__exr_deep gale__exr_deep;
gale_status gale__exr_deep_begin(gale_exr *f, int part, const gale__exr_place *places, int count, gale__exr_deep **out);
exr_result_t gale__exr_deep_chunk(gale__exr_deep *deep, const exr_chunk_info_t *chunk, int64_t x, int64_t y);
void gale__exr_deep_end(gale__exr_deep **deep);

/* Packs the chunks of a part by all cores.  `add` gives the pipeline of the next chunk, whose channels the caller then
 * points to samples, which stay there until `flush` has written all chunks so far; `finish` does so, too, unless r is
 * an error, which it returns. */
typedef struct gale__exr_hand gale__exr_hand;
typedef struct gale__exr_packer {
    exr_context_t file;
    int part;
    gale__exr_hand *hands;
    int width, filled;
} gale__exr_packer;
exr_result_t gale__exr_packer_add(gale__exr_packer *p, const exr_chunk_info_t *chunk, exr_encode_pipeline_t **out);
exr_result_t gale__exr_packer_flush(gale__exr_packer *p);
exr_result_t gale__exr_packer_finish(gale__exr_packer *p, exr_result_t r);

typedef struct gale__exr_choice {
    int part, channels;   /* channels of the picture, 1 to 4 */
    const char *names[4]; /* their names; the file's */
    bool chroma;          /* they are Y RY BY, of which RGB is made */
    gale_type type;
} gale__exr_choice;
/* `wanted`: a part, a layer, PART.LAYER or a channel; NULL: plain colours before grey before named layers, of the first
 * part that has them, flat ones before deep ones.  GALE_NOT_FOUND names what there is. */
gale_status gale__exr_choose(exr_const_context_t file, const char *wanted, gale__exr_choice *out);
/* Says in the log what is left out. */
void gale__exr_tell_rest(exr_const_context_t file, const gale__exr_choice *out);
/* Attributes that mean the same for another picture (comments, chromaticities, camera ...), as bytes, and into a header
 * that is being written. */
gale_status gale__exr_notes_read(exr_const_context_t file, int part, gale_picture_bytes *out);
exr_result_t gale__exr_notes_write(exr_context_t file, int part, const gale_picture_bytes *notes);
/* Attributes that are true of the same channels only, not of a picture made from them: views, environment map. */
exr_result_t gale__exr_marks_copy(exr_const_context_t from, int from_part, exr_context_t to, int part);
/* How much red, green and blue there are in luminance.  primaries: as in gale_exr_part; NULL: Rec. 709. */
void gale__exr_luminance(const double *primaries, double weights[3]);

/* The pixels that a part shows: its display window, or the data window where they have nothing in common. */
gale_exr_box gale__exr_frame(const gale_exr_part *p);

/* gale__exr_image_pack, of an image that is described. */
bool gale__exr_packed_suits(const gale_exr *f, const gale__exr_choice *c, const gale__exr_image *image);
bool gale__exr_packed_find(gale_exr *f, const gale__exr_choice *c, const gale__exr_image *image, gale__exr_packed *out);

/* Memory for the chosen channels of a picture, interleaved or in planes. */
typedef struct gale__exr_canvas {
    gale_type type; /* GALE_F16 or GALE_F32 */
    char *data;
    size_t channel_bytes, pixel_bytes, row_bytes; /* from channel to channel, pixel to pixel, row to row */
    int64_t width, height;
    int64_t left, top; /* where the level's first pixel is on it, perhaps outside */
} gale__exr_canvas;
/* Reads a level onto the canvas; what is outside is cut off.  What the level does not reach stays as it is.  RGB is
 * made of luminance and chroma, and sub-sampled channels are repeated. */
gale_status gale__exr_paint(
    gale_exr *f, const gale__exr_choice *c, int level_x, int level_y, const gale__exr_canvas *canvas);
#endif
