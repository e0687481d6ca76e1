/* Shared by the decompressors: zlib streams, OpenEXR's predictor and its Huffman code. */
#ifndef GALE_MEDIA_EXR_PACK_H
#define GALE_MEDIA_EXR_PACK_H
#include "media/exr.h"

/* A zlib stream of exactly `size` bytes. */
exr_result_t gale__exr_inflate(exr_decode_pipeline_t *d, const void *from, size_t packed, void *to, size_t size);
/* What ZIP does to bytes before deflating them, undone; from and to are different. */
void gale__exr_unpredict(uint8_t *from, uint8_t *to, size_t size);
/* Runs of bytes, which must make exactly `size`. */
bool gale__exr_unrun(const uint8_t *from, size_t n, uint8_t *to, size_t size);
/* n symbols. */
exr_result_t gale__exr_huffman(const uint8_t *data, size_t size, uint16_t *out, size_t n);
/* Writes n symbols, the largest of them below 65535; 0 where there is no room or no memory. */
size_t gale__exr_huffman_pack(const uint16_t *in, size_t n, uint8_t *out, size_t room);
/* A buffer of the pipeline's that is at least so large; its contents are lost.  NULL: no memory. */
void *gale__exr_scratch(void **buffer, size_t *capacity, size_t size);

/* Whether a channel has a row for line y of the chunk. */
static inline bool gale__exr_has_row(const exr_coding_channel_info_t *c, const exr_chunk_info_t *chunk, int32_t y)
{
    int32_t step = c->y_samples > 1 ? c->y_samples : 1;
    return c->width > 0 && c->height > 0 && ((int64_t)chunk->start_y + y) % step == 0 && y / step < c->height;
}
/* Planes of the chunk's channels, one after another, to the lines that a chunk has. */
exr_result_t gale__exr_to_lines(exr_decode_pipeline_t *d, const uint8_t *planes);

gale__exr_unpack gale__exr_undwa, gale__exr_unpiz, gale__exr_unb44, gale__exr_unpxr24;

/* Pack a chunk, if there is libdeflate. */
exr_result_t gale__exr_dwa(exr_encode_pipeline_t *e);
exr_result_t gale__exr_zip(exr_encode_pipeline_t *e);
exr_result_t gale__exr_pxr24(exr_encode_pipeline_t *e);
/* The last step of both: a chunk of n bytes, deflated; as it is where that is not shorter. */
exr_result_t gale__exr_deflate(exr_encode_pipeline_t *e, const uint8_t *from, size_t n);
bool gale__exr_deflates(void);
/* What ZIP does to bytes: low ones, then high ones, each as its difference to the one before. */
void gale__exr_predict(const uint8_t *from, uint8_t *to, size_t size);
#endif
