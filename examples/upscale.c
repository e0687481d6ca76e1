/* Enlarge a picture with a network, with progress.
 *
 *     upscale MODEL.onnx INPUT OUTPUT [PROVIDERS]
 *
 * Formats are told by the first bytes of the input and by the extension of the output. */
#include <gale/upscale.h>
#include <stdio.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gale_error());
    return 1;
}

static bool show(void *user, int64_t done, int64_t tiles)
{
    (void)user;
    fprintf(stderr, "\r%lld of %lld tiles", (long long)done, (long long)tiles);
    return true; /* false would cancel */
}

int main(int argc, char **argv)
{
    gale_device_options where = GALE_DEVICE_OPTIONS;
    gale_upscale_options how = GALE_UPSCALE_OPTIONS;
    gale_upscale_report report;
    gale_upscaler_info info;
    gale_device *device = NULL;
    gale_upscaler *upscaler = NULL;
    gale_picture *in = NULL, *out = NULL;
    if (argc < 4) return fprintf(stderr, "usage: upscale MODEL.onnx INPUT OUTPUT [PROVIDERS]\n"), 2;
    where.chain = argc > 4 ? argv[4] : NULL;
    how.progress = show;
    if (gale_device_open(&where, &device) != GALE_OK) return failed("device");
    if (gale_upscaler_open(argv[1], device, NULL, &upscaler) != GALE_OK) return failed("model");
    if (gale_picture_read(argv[2], NULL, &in) != GALE_OK) return failed("input");
    if (gale_upscale(upscaler, in, &how, &report, &out) != GALE_OK) return failed("upscale");
    if (gale_picture_write(out, argv[3], NULL) != GALE_OK) return failed("output");

    gale_upscaler_get_info(upscaler, &info);
    printf("\n%s, %dx: %lld x %lld -> %lld x %lld in %lld tiles\n", info.name, info.scale, (long long)in->width,
        (long long)in->height, (long long)out->width, (long long)out->height, (long long)report.tiles);
    gale_picture_destroy(&in);
    gale_picture_destroy(&out);
    gale_upscaler_close(&upscaler);
    gale_device_close(&device);
    return 0;
}
