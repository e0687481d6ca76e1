/* Files of vectors, row by row: .npy, raw and fvecs.  Nothing in them is believed before it is held against the size.
 */
#ifndef GALE_JOBS_SEARCH_VECTOR_FILE_H
#define GALE_JOBS_SEARCH_VECTOR_FILE_H
#include "base/file.h"
#include "gale/search.h"

typedef struct gale__vector_file {
    gale__file_map map;
    gale_vector_type type;
    int64_t rows, dims;
    uint64_t offset;   /* of the first row */
    size_t row_bytes;  /* with what stands in front of it */
    size_t skip_bytes; /* which is so much */
} gale__vector_file;

gale_status gale__vector_file_open(const char *path, const gale_index_options *options, gale__vector_file *out);
void gale__vector_file_close(gale__vector_file *f);
/* Rows as f32: the first is at *at, in the map or in `buffer`, and the next *pitch numbers on.  buffer holds as
 * many rows as asked, of dims numbers. */
gale_status gale__vector_file_read(
    const gale__vector_file *f, int64_t first, size_t count, float *buffer, const float **at, int64_t *pitch);
/* One row as f32, in the map or in `buffer` (dims numbers); for many rows after one gale__file_map_check. */
const float *gale__vector_file_row(const gale__vector_file *f, int64_t row, float *buffer);
#endif
