/* What is in an OpenEXR file, and a picture of it for screens.
 *
 *     exr INPUT.exr OUTPUT [PROVIDERS] */
#include <gale/exr.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    gale_device_options where = GALE_DEFAULTS;
    gale_exr_look look = GALE_DEFAULTS;
    gale_device *device = NULL;
    gale_exr *file = NULL;
    gale_exr_viewer *viewer = NULL;
    gale_picture *picture = NULL;
    if (argc < 3) return fprintf(stderr, "usage: exr INPUT.exr OUTPUT [PROVIDERS]\n"), 2;
    where.chain = argc > 3 ? argv[3] : NULL;
    look.tone = GALE_EXR_ACES;
    gale_status status = gale_exr_open(argv[1], NULL, &file);
    for (int i = 0; status == GALE_OK && i < gale_exr_part_count(file); i++) {
        const gale_exr_part *part = gale_exr_part_get(file, i);
        for (int c = 0; c < part->channel_count; c++)
            printf("part %d: %s, %s\n", i, part->channels[c].name, gale_type_name(part->channels[c].type));
    }
    if (status == GALE_OK) status = gale_device_open(&where, &device);
    if (status == GALE_OK) status = gale_exr_viewer_create(device, &look, &viewer);
    if (status == GALE_OK) status = gale_exr_viewer_run(viewer, file, NULL, &picture);
    if (status == GALE_OK) status = gale_picture_write(picture, argv[2], NULL);
    if (status != GALE_OK) fprintf(stderr, "%s\n", gale_error());
    gale_picture_destroy(&picture);
    gale_exr_viewer_destroy(&viewer);
    gale_exr_close(&file);
    gale_device_close(&device);
    return status != GALE_OK;
}
