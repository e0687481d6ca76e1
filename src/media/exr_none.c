/* Replacements for a build without OpenEXR. */
#include "media/exr_image.h"
#include "base/error.h"

static gale_status missing(void)
{
    return gale__fail(GALE_UNSUPPORTED, "EXR: this build does not include OpenEXR; install libopenexr-dev and rebuild");
}

gale_status gale_exr_open(const char *path, const gale_exr_limits *limits, gale_exr **out)
{
    return (void)path, (void)limits, (void)out, missing();
}
gale_status gale_exr_from_memory(const void *data, size_t size, const gale_exr_limits *limits, gale_exr **out)
{
    return (void)data, (void)size, (void)limits, (void)out, missing();
}
void gale_exr_close(gale_exr **file)
{
    if (file) *file = NULL;
}
int gale_exr_part_count(const gale_exr *file) { return (void)file, 0; }
const gale_exr_part *gale_exr_part_get(const gale_exr *file, int part) { return (void)file, (void)part, NULL; }
uint64_t gale_exr_size_bytes(const gale_exr *file) { return (void)file, 0; }
gale_status gale_exr_level_size(const gale_exr *file, int part, int x, int y, int64_t *width, int64_t *height)
{
    return (void)file, (void)part, (void)x, (void)y, (void)width, (void)height, missing();
}
gale_status gale_exr_channel_size(
    const gale_exr *file, int part, int x, int y, const char *channel, int64_t *width, int64_t *height)
{
    return (void)file, (void)part, (void)x, (void)y, (void)channel, (void)width, (void)height, missing();
}
gale_status gale_exr_read(gale_exr *file, int part, int x, int y, const gale_exr_target *targets, int count)
{
    return (void)file, (void)part, (void)x, (void)y, (void)targets, (void)count, missing();
}
gale_status gale__exr_image_size(gale_exr *f, const char *layer, int64_t *width, int64_t *height)
{
    return (void)f, (void)layer, (void)width, (void)height, missing();
}
gale_status gale__exr_image_read(gale_exr *f, const gale__exr_wish *wish, gale__exr_image *out)
{
    return (void)f, (void)wish, (void)out, missing();
}
gale_status gale__exr_image_describe(gale_exr *f, const gale__exr_wish *wish, gale__exr_image *out, bool *zip)
{
    return (void)f, (void)wish, (void)out, (void)zip, missing();
}
bool gale__exr_image_pack(gale_exr *f, const gale__exr_wish *wish, gale__exr_image *image, gale__exr_packed *out)
{
    return (void)f, (void)wish, (void)image, (void)out, false;
}
bool gale__exr_packed_load(gale_exr *f, gale__exr_image *image, gale__exr_packed *p)
{
    return (void)f, (void)image, (void)p, false;
}
void gale__exr_image_finish(gale__exr_image *image) { image->data = NULL; }
gale_status gale_exr_write(const char *path, const gale_exr_new_part *parts, int count)
{
    return (void)path, (void)parts, (void)count, missing();
}
