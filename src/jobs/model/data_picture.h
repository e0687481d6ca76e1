/* Pictures as the inputs and outputs of models. */
#ifndef GALE_JOBS_DATA_PICTURE_H
#define GALE_JOBS_DATA_PICTURE_H
#include "gale/model_jobs.h"
#include "gale/picture.h"
#include "jobs/job.h"

bool gale__is_picture(const char *path); /* by its ending */
/* A picture of floats gets other extents, in place. */
gale_status gale__picture_resize(gale_picture **picture, int64_t width, int64_t height);
/* Extents that the input fixes are the picture's afterwards, whatever they were. */
gale_status gale__picture_to_input(
    const char *path, const gale_model_value *want, const gale_pixel_options *options, gale_object **out);
/* width and height 0: as the output has them.  Of other numbers of channels than 1, 3 and 4 the largest of each pixel
 * counts: its number, spread over black to white. */
gale_status gale__picture_from_output(
    const char *path, const gale_object *value, const gale_pixel_options *options, int64_t width, int64_t height);
/* Whether it is of a picture's form: 3 axes, or 4 with one item. */
bool gale__picture_is_output(const gale_object *value);
/* What is not given of how pictures become numbers, by the manifest beside the model; texts are the arena's. */
gale_status gale__pixels_complete(const char *model_path, gale__arena *arena, gale_pixel_options *pixels);
/* The same where a picture is among the inputs. */
gale_status gale__inputs_complete(const char *model_path, gale__arena *arena, gale_input_options *inputs);
#endif
