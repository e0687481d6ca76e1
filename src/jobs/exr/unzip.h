/* ZIP chunks of EXR files, inflated by a device that compiles kernels (kernel/routines/inflate_ir.c). */
#ifndef GALE_JOBS_EXR_UNZIP_H
#define GALE_JOBS_EXR_UNZIP_H
#include "device/device.h"
#include "gale/graph.h"
#include "media/exr_image.h"

/* One launch; zeros before gale__unzip_begin. */
typedef struct gale__unzip {
    gale_stream *stream;
    gale__inflate_args args;
    gale__routine_launch launch;
    gale_kernel *kernel;
    gale_buffer *flags, *space, *table, *input;
} gale__unzip;
/* Sends table and input; table: a word for each channel, then the chunks.  gale__unzip_end in any case. */
gale_status gale__unzip_begin(
    gale__unzip *u, gale_stream *stream, const gale__inflate_args *args, const uint32_t *table, const void *input);
gale_status gale__unzip_launch(gale__unzip *u, gale_buffer *planes);
/* Waits; `bad`: how many chunks are flagged, flags (may be NULL): which. */
gale_status gale__unzip_wait(gale__unzip *u, uint32_t *flags, size_t *bad);
void gale__unzip_end(gale__unzip *u);

/* Inflates pictures, or leaves them to the host: by how long pictures took of late, with either. */
typedef struct gale__unzipper gale__unzipper;
gale_status gale__unzipper_create(gale_device *device, gale__unzipper **out);
void gale__unzipper_destroy(gale__unzipper **z);
/* Planes on the device; *out stays NULL: the host has to read it, *could: though the device might have.  Chunks that
 * are not as they should be are the host's, too, which then says what is wrong with them. */
gale_status gale__unzipper_run(
    gale__unzipper *z, gale_exr *f, const gale__exr_wish *wish, gale__exr_image *image, bool *could, gale_tensor **out);
/* Whether the device inflates a picture of so many bytes of samples; what is not known is assumed. */
bool gale__unzipper_choose(gale__unzipper *z, const gale__exr_packed *p, uint64_t bytes);
/* What a picture took that the device could inflate; by_device: whether it did. */
void gale__unzipper_note(gale__unzipper *z, bool by_device, uint64_t bytes, double seconds);
#endif
