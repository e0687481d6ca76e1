/* An index inside: the file, lengths of its vectors where they are not 1, and its copy on a device. */
#ifndef GALE_JOBS_SEARCH_VECTOR_INDEX_H
#define GALE_JOBS_SEARCH_VECTOR_INDEX_H
#include "base/context.h"
#include "jobs/search/top.h"
#include "jobs/search/vector_file.h"

struct gale_index {
    gale_context *context; /* held: of its device, else the one it was opened in */
    gale__vector_file file;
    bool normalized, warned;              /* warned: of vectors that cannot be compared */
    float *scales;                        /* one over the length of each row; NULL: all are 1 */
    struct gale__index_device *on_device; /* NULL: the cores search */
    struct gale__ivf *ivf;                /* opened when it is first needed */
    int64_t probes;                       /* lists of it to search; -1: as many as it says; 0: all vectors are */
};

/* Compares all vectors with queries of length 1, on the device where the index has one. */
gale_status gale__index_search_exact(
    gale_index *x, const float *queries, size_t count, int64_t k, const uint8_t *allowed, gale_hit *hits);

/* Warns, once, that so many rows contain NaN or infinity: nothing is said if they are none. */
void gale__index_warn(gale_index *x, int64_t rows);

/* index_device.c: vectors of length 1 in the device's memory, searched by a graph of MatMul and TopK. */
gale_status gale__index_to_device(gale_index *x, gale_device *device);
void gale__index_from_device(gale_index *x);
gale_status gale__index_search_device(gale_index *x, const float *queries, size_t count, int64_t k, gale_hit *hits);
#endif
