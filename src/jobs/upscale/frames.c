/* An animation through a network, frame by frame.  Frames that are the same as the one before, which animations have
 * many of, are not run again. */
#include "device/device.h"
#include "jobs/upscale/upscale.h"
#include <string.h>

static bool is_same(const gale_picture *a, const gale_picture *b)
{
    return a && a->width == b->width && a->height == b->height && a->channels == b->channels && a->type == b->type &&
           !memcmp(a->data, b->data, gale__picture_row_bytes(b) * (size_t)b->height);
}

void gale__upscale_report_add(const gale_upscale_report *one, gale_upscale_report *all)
{
    gale_upscale_report sum = *one;
    sum.tiles += all->tiles;
    sum.network_seconds += all->network_seconds;
    sum.by_memory |= all->by_memory;
    if (all->lanes > sum.lanes) sum.lanes = all->lanes;
    if (all->cleaned > sum.cleaned) sum.cleaned = all->cleaned;
    if (all->examined) sum.examined = true, sum.found = all->found;
    *all = sum;
}

gale_status gale_upscale_animation(gale_upscaler *u, gale_animation *in, const gale_upscale_options *options,
    gale_upscale_report *report, gale_frame_take *take, void *user)
{
    GALE__NEED({"upscaler", u}, {"in", in}, {"take", take});
    GALE__WITHIN(gale_upscaler_device(u)->context);
    gale_picture *frame = NULL, *last = NULL, *large = NULL;
    gale_upscale_report sum = {0};
    gale_upscale_options o = options ? *options : (gale_upscale_options){0};
    int shown = 0;
    gale_status status;
    for (;;) {
        gale_upscale_report one = {0};
        GALE_GO(gale_animation_next(in, &frame, &shown));
        if (!frame) break;
        if (!last)
            GALE_GO(gale__upscaler_decide(u, frame, &o, &sum)); /* frames would flicker if each had its own way */
        if (!is_same(last, frame)) {
            gale_picture_destroy(&large);
            GALE_GO(gale_upscale(u, frame, &o, &one, &large));
            gale__upscale_report_add(&one, &sum);
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
