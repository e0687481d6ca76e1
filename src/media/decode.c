/* Pixels for ONNX's ImageDecoder, which is defined by Pillow's behaviour: 8 bits, alpha dropped, orientation ignored,
 * luma rounded as in Pillow. */
#include "media/picture.h"
#include <string.h>

/* Colours of 8-bit pixels in the wanted order; rows close up. */
static void pick(const gale_picture *p, bool grey, bool reversed)
{
    int c = p->channels;
    const uint8_t *from = p->data;
    uint8_t *to = p->data;
    for (size_t i = 0, n = (size_t)p->width * (size_t)p->height; i < n; i++, from += c) {
        uint8_t r = from[0], g = from[c > 2 ? 1 : 0], b = from[c > 2 ? 2 : 0];
        if (grey) {
            *to++ = c > 2 ? (uint8_t)((r * 19595u + g * 38470u + b * 7471u + 0x8000) >> 16) : r;
            continue;
        }
        *to++ = reversed ? b : r;
        *to++ = g;
        *to++ = reversed ? r : b;
    }
}

/* Pixels only shrink in place: grey ones that are to have three channels are widened first. */
static gale_status to_bytes(gale_picture **p, int channels)
{
    gale_picture *made = NULL;
    int wide = (*p)->channels < channels ? channels : (*p)->channels;
    if ((*p)->type == GALE_U8 && wide == (*p)->channels) return GALE_OK;
    GALE_TRY(gale__picture_make(
        *p, (gale__picture_kind){.type = GALE_U8, .channels = wide, .premultiplied = (*p)->premultiplied}, &made));
    gale_picture_destroy(p);
    *p = made;
    return GALE_OK;
}

gale_status gale__picture_decode(const void *data, size_t size, const char *order, gale_picture **out)
{
    gale_picture *p = NULL;
    bool grey = !strcmp(order, "Grayscale"), reversed = !strcmp(order, "BGR");
    if (!grey && !reversed && strcmp(order, "RGB"))
        return gale__fail(GALE_INVALID, "unknown pixel_format \"%s\"; supported are RGB, BGR and Grayscale", order);
    GALE_TRY(gale_picture_from_memory(data, size, &(gale_picture_read_options){.keep_orientation = true}, &p));
    gale_status status = to_bytes(&p, grey ? 1 : 3);
    if (status != GALE_OK) {
        gale_picture_destroy(&p);
        return status;
    }
    pick(p, grey, reversed);
    p->channels = grey ? 1 : 3;
    *out = p;
    return GALE_OK;
}
