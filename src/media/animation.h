/* What formats with animations give: frames one after another, each the whole picture as it is shown. */
#ifndef GALE_MEDIA_ANIMATION_H
#define GALE_MEDIA_ANIMATION_H
#include "media/picture.h"

typedef struct gale__frames_in {
    /* The source outlives the state.  info: all but the format. */
    gale_status (*open)(const gale__picture_source *in, gale_animation_info *info, void **state);
    gale_status (*next)(void *state, gale_picture **frame, int *milliseconds); /* frame NULL: there are no more */
    void (*close)(void *state);
} gale__frames_in;
typedef struct gale__frames_out {
    gale_status (*open)(const gale_picture_write_options *options, int loops, void **state);
    /* Frames are of one size, and of types and channels that the format writes. */
    gale_status (*add)(void *state, const gale_picture *frame, int milliseconds);
    gale_status (*finish)(void *state, gale__str *out);
    void (*close)(void *state);
} gale__frames_out;
extern const gale__frames_in gale__frames_in_gif, gale__frames_in_webp, gale__frames_in_png;
extern const gale__frames_out gale__frames_out_gif, gale__frames_out_webp, gale__frames_out_png;

/* A copy of an RGBA canvas, as RGB where nothing of it is transparent: alpha costs a network more. */
gale_status gale__frame_copy(const gale_picture *canvas, gale_picture **out);

/* Colours for a GIF: at most 255 for u8 RGB or RGBA, and one more for what is transparent (alpha below one half;
 * *transparent -1: nothing).  Pictures with few colours keep them exactly; else errors are diffused. */
typedef struct gale__gif_colours {
    uint8_t palette[256][3];
    int count, transparent;
    uint8_t *indices; /* width x height; gale__free */
} gale__gif_colours;
gale_status gale__gif_quantise(const gale_picture *p, gale__gif_colours *out);
#endif
