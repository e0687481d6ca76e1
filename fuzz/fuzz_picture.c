/* Bytes as a picture file: read under small limits, and what is read is written losslessly and read again as the same.
 */
#include "fuzz.h"
#include "media/picture.h"
#include <string.h>

/* PNM and its kin hold everything there is: PAM all integers, PFM floats without alpha. */
static void again(const gale_picture *p)
{
    gale_picture *back = NULL;
    void *data = NULL;
    size_t size = 0;
    bool floats = p->type == GALE_F16 || p->type == GALE_F32;
    FUZZ_CHECK(gale_picture_to_memory(
                   p, &(gale_picture_write_options){.format = floats ? "pfm" : "pam"}, &data, &size) == GALE_OK);
    FUZZ_CHECK(gale_picture_from_memory(data, size, NULL, &back) == GALE_OK);
    FUZZ_CHECK(back->width == p->width && back->height == p->height);
    if (!floats && !p->premultiplied)
        FUZZ_CHECK(back->type == p->type && back->channels == p->channels &&
                   !memcmp(back->data, p->data, gale__picture_row_bytes(p) * (size_t)p->height));
    gale__free(data);
    gale_picture_destroy(&back);
}

/* Notes are written again to the formats that keep them, whatever is in them, and the picture beside them is whole. */
static void with_notes(const gale_picture *p, const char *format)
{
    gale_picture *back = NULL;
    void *data = NULL;
    size_t size = 0;
    if (!gale__format_of_name(format)->write) return;
    FUZZ_CHECK(gale_picture_to_memory(p, &(gale_picture_write_options){.format = format}, &data, &size) == GALE_OK);
    FUZZ_CHECK(gale_picture_from_memory(data, size, NULL, &back) == GALE_OK);
    FUZZ_CHECK(back->width == p->width && back->height == p->height && back->channels == p->channels);
    gale__free(data);
    gale_picture_destroy(&back);
}

/* libheif, once it is open, stays so. */
static int64_t live_from_now_on(void)
{
    static const char heic[] = "\0\0\0\30ftypheic\0\0\0\0heicmif1";
    gale_picture *p = NULL;
    gale_picture_from_memory(heic, sizeof heic - 1, NULL, &p);
    gale_picture_destroy(&p);
    return gale__alloc_live();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int64_t live = -1;
    gale_picture *p = NULL;
    if (live < 0) live = live_from_now_on();
    if (gale_picture_from_memory(
            data, size, &(gale_picture_read_options){.max_pixels = 1 << 16, .max_bytes = 1 << 21}, &p) == GALE_OK) {
        again(p);
        if (p->exif.size) with_notes(p, "tiff");
        if (p->exr.size) with_notes(p, "exr");
    }
    gale_picture_destroy(&p);
    FUZZ_CHECK(gale__alloc_live() == live);
    return 0;
}
