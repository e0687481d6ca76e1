/* Values from and to files, by their names: .npy, .npz, .pb, .json, raw numbers. */
#ifndef GALE_JOBS_DATA_FILE_H
#define GALE_JOBS_DATA_FILE_H
#include "gale/model.h"

/* want: what the model declares; raw numbers and JSON take type and shape from it.  FILE.npz:ENTRY names an entry;
 * otherwise it is the one called like the input, or the only one; a sequence is all of them in order. */
gale_status gale__data_read(const char *path, const gale_model_value *want, gale_object **out);
/* Tensors are on the host. */
gale_status gale__data_write(const char *path, const gale_object *value);

/* data_json.c */
gale_status gale__json_value_read(const char *path, const gale_model_value *want, gale_object **out);
gale_status gale__json_value_write(const char *path, const gale_object *value);
#endif
