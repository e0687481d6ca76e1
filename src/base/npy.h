/* NumPy's .npy files, read and written by `gale kernel run` and `gale run`. */
#ifndef GALE_BASE_NPY_H
#define GALE_BASE_NPY_H
#include "file.h"
typedef struct gale__npy {
    gale_type type;
    int rank;
    int64_t dims[GALE_MAX_RANK];
    gale__bytes data;
    size_t item_bytes; /* size of an element; for GALE_STRING: strings padded with zeros */
    bool wide;         /* those are 32-bit characters, else bytes */
} gale__npy;
gale_status gale__npy_read(const char *path, gale__npy *out); /* little-endian, C or Fortran order (turned to C) */
/* The same from the contents of a file, of which ownership is taken (also on failure); path is for messages. strings:
 * string arrays are accepted, else GALE_UNSUPPORTED. */
gale_status gale__npy_parse(const char *path, gale__bytes *file, bool strings, gale__npy *out);
/* Texts of `width` 32-bit characters each. */
gale_status gale__npy_encode_texts(
    const char *path, int rank, const int64_t *dims, size_t width, const uint32_t *data, gale__str *out);
gale_status gale__npy_encode(
    const char *path, gale_type type, int rank, const int64_t *dims, const void *data, gale__str *out);
gale_status gale__npy_write(const char *path, gale_type type, int rank, const int64_t *dims, const void *data);
void gale__npy_finish(gale__npy *n);
#endif
