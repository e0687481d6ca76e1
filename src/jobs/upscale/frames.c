/* An animation through a network, frame by frame.  Frames that are the same as the one before, which animations have
 * many of, are not run again. */
#include "gale/upscale.h"
#include "media/picture.h"
#include <string.h>

static bool is_same(const gale_picture *a, const gale_picture *b)
{
    return a && a->width == b->width && a->height == b->height && a->channels == b->channels && a->type == b->type &&
           !memcmp(a->data, b->data, gale__picture_row_bytes(b) * (size_t)b->height);
}

/* The report of a frame into that of all. */
static void add_report(gale_upscale_report *all, const gale_upscale_report *one)
{
    gale_upscale_report sum = *one;
    sum.tiles += all->tiles;
    sum.network_seconds += all->network_seconds;
    sum.by_memory |= all->by_memory;
    if (all->lanes > sum.lanes) sum.lanes = all->lanes;
    *all = sum;
}

gale_status gale_upscale_animation(gale_upscaler *u, gale_animation *in, const gale_upscale_options *options,
    gale_upscale_report *report, gale_frame_take *take, void *user)
{
    GALE__NEED({"upscaler", u}, {"in", in}, {"take", take});
    gale_picture *frame = NULL, *last = NULL, *large = NULL;
    gale_upscale_report sum = {0};
    int shown = 0;
    gale_status status;
    for (;;) {
        gale_upscale_report one = {0};
        GALE_GO(gale_animation_next(in, &frame, &shown));
        if (!frame) break;
        if (!is_same(last, frame)) {
            gale_picture_destroy(&large);
            GALE_GO(gale_upscale(u, frame, options, &one, &large));
            add_report(&sum, &one);
        }
        GALE_GO(take(user, frame, large, shown));
        gale_picture_destroy(&last);
        last = frame;
        frame = NULL;
    }
    if (report) *report = sum;
done:
    gale_picture_destroy(&frame);
    gale_picture_destroy(&last);
    gale_picture_destroy(&large);
    return status;
}
