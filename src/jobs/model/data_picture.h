/* Pictures as the inputs and outputs of models. */
#ifndef GALE_JOBS_DATA_PICTURE_H
#define GALE_JOBS_DATA_PICTURE_H
#include "gale/model_jobs.h"

bool gale__is_picture(const char *path); /* by its ending */
gale_status gale__picture_to_input(
    const char *path, const gale_model_value *want, const gale_pixel_options *options, gale_object **out);
gale_status gale__picture_from_output(const char *path, const gale_object *value, const gale_pixel_options *options);
#endif
