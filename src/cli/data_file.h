/* Values from and to files, by their names: .npy, .npz, .pb, .json, raw numbers. */
#ifndef GALE_CLI_DATA_FILE_H
#define GALE_CLI_DATA_FILE_H
#include "gale/model.h"

/* want: what the model declares; raw numbers take type and shape from it. */
gale_status gale__data_read(const char *path, const gale_model_value *want, gale_object **out);
gale_status gale__data_write(const char *path, const gale_object *value);
#endif
