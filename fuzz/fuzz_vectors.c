/* Bytes as a file of vectors, in every format, and as an index: what opens can be searched, and gives rows that it has.
 */
#include "base/file.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/thread.h"
#include "fuzz.h"
#include "jobs/search/ivf.h"
#include <math.h>
#include <string.h>

enum { DIMS_MOST = 512, K = 4 };

static void search(gale_index *x)
{
    gale_index_info info;
    gale_hit hits[K];
    float query[DIMS_MOST];
    gale_index_get_info(x, &info);
    FUZZ_CHECK(info.rows >= 0 && info.dims > 0);
    if (info.dims > DIMS_MOST) return;
    for (int64_t i = 0; i < info.dims; i++) query[i] = i % 2 ? 1 : -0.5f;
    if (gale_index_search(x, query, 1, K, NULL, hits) != GALE_OK) return;
    for (int i = 0; i < K; i++) FUZZ_CHECK(hits[i].row >= -1 && hits[i].row < info.rows && !isnan(hits[i].score));
}

/* The same bytes as an index of other vectors' rows: what is accepted has its rows inside. */
static void parse_index(const uint8_t *data, size_t size)
{
    gale__ivf v;
    void *aligned = gale__alloc_aligned(64, size + 1);
    FUZZ_CHECK(aligned != NULL);
    memcpy(aligned, data, size);
    if (gale__ivf_parse(aligned, size, "v.ivf", &v) == GALE_OK) {
        FUZZ_CHECK(v.rows > 0 && v.lists > 0 && v.lists <= v.rows && v.probes > 0 && v.probes <= v.lists);
        for (int64_t i = 0; i < v.rows; i++) FUZZ_CHECK(v.ids[i] < v.rows);
        for (int64_t i = 0; i < v.lists; i++)
            FUZZ_CHECK(v.starts[i] <= v.starts[i + 1] && v.starts[i + 1] <= (uint64_t)v.rows);
        volatile float last = v.centroids[v.lists * v.dims - 1];
        (void)last;
    }
    gale__free(aligned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const gale_index_options ways[] = {{.format = GALE_VECTORS_NPY}, {.format = GALE_VECTORS_FVECS},
        {.format = GALE_VECTORS_RAW, .dims = 3}, {.format = GALE_VECTORS_RAW, .dims = 20, .type = GALE_VECTOR_BINARY},
        {.format = GALE_VECTORS_AUTO, .dims = 11}};
    char folder[256], path[300];
    gale__parallel_set_width(1);
    FUZZ_CHECK(gale__temp_folder_make(folder, sizeof folder) == GALE_OK);
    snprintf(path, sizeof path, "%s/v", folder);
    FUZZ_CHECK(gale__file_write(path, data, size) == GALE_OK);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        gale_index *x = NULL;
        if (gale_index_open(path, &ways[i], &x) != GALE_OK) continue;
        search(x);
        gale_index_close(&x);
    }
    parse_index(data, size);
    gale__temp_folder_remove(folder);
    FUZZ_CHECK(gale__alloc_live() == 0);
    return 0;
}
