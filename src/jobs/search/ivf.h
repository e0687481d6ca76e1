/* An inverted file beside the vectors: rows grouped into lists by the nearest of some centroids.  A search looks into
 * the lists whose centroids are nearest to the query, so it reads a small part of the vectors and may miss some. */
#ifndef GALE_JOBS_SEARCH_IVF_H
#define GALE_JOBS_SEARCH_IVF_H
#include "jobs/search/vector_index.h"

#define GALE__IVF_SUFFIX ".ivf"

typedef struct gale__ivf {
    gale__file_map map;
    int64_t rows, dims, lists;
    int64_t probes; /* lists to search by default */
    uint64_t source_bytes, source_hash, payload_hash;
    double recall;          /* of the default, measured when it was built */
    const float *centroids; /* [lists, dims], of length 1 */
    const uint64_t *starts; /* [lists + 1] */
    const uint32_t *ids;    /* [rows], by list */
} gale__ivf;

/* ivf_file.c.  Parsing believes nothing: sizes, order of the starts and every row are checked.  `path` is for messages.
 * The result points into data. */
gale_status gale__ivf_parse(const void *data, size_t size, const char *path, gale__ivf *out);
/* Opens PATH.ivf and compares it with the vectors. */
gale_status gale__ivf_open(const gale_index *x, gale__ivf **out);
void gale__ivf_close(gale__ivf **ivf);
/* Writes PATH.ivf; of `ivf`, everything but the map and the hashes. */
gale_status gale__ivf_write(const gale_index *x, const gale__ivf *ivf);

/* ivf_search.c: queries of length 1, as gale_index_search. */
gale_status gale__ivf_search(const gale_index *x, const gale__ivf *ivf, int64_t probes, const float *queries,
    size_t count, size_t k, const uint8_t *allowed, gale_hit *hits);
#endif
