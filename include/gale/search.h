/* Vector search: cosine top-k over a file of vectors, exact or by an index.
 *
 *     gale_index *index;
 *     gale_index_open("vectors.npy", NULL, &index);
 *     gale_index_search(index, query, 1, 10, NULL, hits);      // 10 gale_hit, best first
 *
 * The file is read in blocks as needed, on all cores, and never changed; on a GPU it is kept in device
 * memory.  Scores are cosines: vectors that do not have length 1 are divided by their length. */
#ifndef GALE_SEARCH_H
#define GALE_SEARCH_H

#include "device.h"
#include "embed.h"
#include "job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gale_index gale_index; /* threads: one at a time */
/* All zero: as the file says. */
typedef struct gale_index_options {
    gale_vector_format format; /* npy, raw or fvecs; GALE_VECTORS_AUTO: by the file's name and its first bytes */
    int64_t dims;              /* of raw files and binary vectors, which do not contain it */
    gale_vector_type type;     /* of raw files */
    gale_device *device;       /* device to search on; NULL or a CPU: all cores, directly from the file */
    int64_t probes;            /* as gale_index_set_probes */
    uint64_t reserved[4];      /* 0 */
} gale_index_options;
/* GALE_FORMAT: the file is damaged or not a vector file. */
GALE_API gale_status gale_index_open(const char *path, const gale_index_options *options, gale_index **out);
GALE_API void gale_index_close(gale_index **index);

typedef struct gale_index_info {
    int64_t rows, dims;
    gale_vector_type type;
    bool normalized; /* all vectors of a sample have length 1 */
} gale_index_info;
GALE_API void gale_index_get_info(const gale_index *index, gale_index_info *out);

typedef struct gale_hit {
    int64_t row; /* -1: there are fewer */
    float score; /* cosine; of binary vectors 1 - 2 (bits that differ) / dims, the query made binary too */
} gale_hit;
/* hits: count rows of k, best first; equal scores in row order.  queries: count rows of dims numbers, of any length
 * except 0.  allowed (may be NULL): one byte per row, 0: excluded; such searches run on the CPU.  One thread at a
 * time. */
GALE_API gale_status gale_index_search(
    gale_index *index, const float *queries, size_t count, int64_t k, const uint8_t *allowed, gale_hit *hits);
/* Near duplicates: of[i] is the first kept row whose cosine with row i is at least `threshold`, and score[i] that
 * cosine; rows without one are kept, and of[i] is i.  Both arrays have one entry per row.  Every row is compared with
 * all kept rows before it, on the CPU. */
GALE_API gale_status gale_index_duplicates(gale_index *index, float threshold, int64_t *of, float *score);
/* Approximate search.  gale_index_build groups the vectors into lists around centroids and writes them to PATH.ivf,
 * beside the vectors.  A search then examines, on the CPU, the lists whose centroids are nearest to the query.  It may
 * miss some rows.  The file is written completely or not at all. */
typedef struct gale_index_build_options {
    int64_t lists;       /* 0: twice the square root of the number of vectors; at most 65536 */
    gale_device *device; /* computes the lists; NULL: the CPU */
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_index_build_options;
typedef struct gale_index_build_report {
    int64_t rows, lists;
    int64_t probes; /* lists to search by default: as few as find 95 % of the ten nearest of a sample */
    double recall;  /* share that they find, over up to 64 vectors of the file, each without itself */
    double seconds;
} gale_index_build_report;
GALE_API gale_status gale_index_build(gale_index *index, const gale_index_build_options *options /* may be NULL */,
    gale_index_build_report *report /* may be NULL */);
/* Lists that searches look into: 0: exact search (the default); -1: as many as the report said.  GALE_NOT_FOUND: there
 * is no PATH.ivf; GALE_MISMATCH: it belongs to other vectors; GALE_FORMAT: it is damaged. */
GALE_API gale_status gale_index_set_probes(gale_index *index, int64_t probes);
/* One vector of the file as f32, not normalised. */
GALE_API gale_status gale_index_vector(gale_index *index, int64_t row, float *out);

#ifdef __cplusplus
}
#endif
#endif
