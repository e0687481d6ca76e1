/* An animation of gale upscale: all frames into one file, or each into a file of its own. */
#ifndef GALE_CLI_UPSCALE_FRAMES_H
#define GALE_CLI_UPSCALE_FRAMES_H
#include "gale/upscale.h"

typedef struct gale__frames_task {
    const char *input, *output; /* output NULL: standard output; with %d or %04d in its name: a file for each frame */
    gale_picture_read_options read;
    gale_picture_write_options write; /* with the format that it becomes */
    gale_upscale_options options;
    /* Called with the first frame; may be NULL. */
    void (*first)(void *user, const gale_picture *before, const gale_picture *after);
    void *user;
    int frames;      /* that were written */
    int64_t size[4]; /* width and height, before and after */
} gale__frames_task;
gale_status gale__upscale_frames(gale_upscaler *u, gale__frames_task *t, gale_upscale_report *report);
/* Whether frames go into this: a format that holds animations, or numbered files. */
bool gale__upscale_takes_frames(const char *output, const char *format);
bool gale__upscale_is_numbered(const char *output);
#endif
