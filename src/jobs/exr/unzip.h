/* ZIP chunks of EXR files, unpacked by a device that compiles kernels (kernel/routines/inflate_ir.c). */
#ifndef GALE_JOBS_EXR_UNZIP_H
#define GALE_JOBS_EXR_UNZIP_H
#include "device/device.h"
#include "kernel/routines/routine.h"

/* Threads, tables and stores as measurements chose them; the rest is the caller's. */
#define GALE__UNZIP_ARGS .lanes = 32, .bits = 10, .late = 1

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
#endif
