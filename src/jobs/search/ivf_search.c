/* The lists nearest to each query, row by row, on the cores.  A task is a list of a query; workers keep their own best.
 */
#include "base/thread.h"
#include "jobs/search/ivf.h"
#include "kernel/cpu/simd.h"
#include <stdatomic.h>
#include <string.h>

enum { FETCH_ROWS = 6, FETCH_BYTES = 512 };

typedef struct worker {
    float *row;
    gale_hit *best; /* [queries, k] */
    size_t *counts;
} worker;

typedef struct probing {
    const gale_index *x;
    const gale__ivf *ivf;
    const float *queries;
    size_t count, k, probes;
    const uint8_t *allowed;
    gale_hit *picks; /* [queries, probes]: lists */
    float *scores;   /* [lists] of one query */
    worker *workers;
    int n_workers;
    _Atomic bool cut; /* the file is shorter than it was */
} probing;

/* The nearest lists of every query. */
static void pick_lists(probing *p)
{
    const gale__simd_rows *simd = &gale__simd_get()->rows;
    size_t dims = (size_t)p->ivf->dims, lists = (size_t)p->ivf->lists;
    for (size_t q = 0; q < p->count; q++) {
        size_t n = 0;
        gale_hit *to = p->picks + q * p->probes;
        simd->dots(p->scores, p->queries + q * dims, 1, p->ivf->centroids, (int64_t)dims, lists, dims);
        for (size_t i = 0; i < lists; i++) /* a centroid that is not a number comes last */
            gale__top_offer(
                to, &n, p->probes, (gale_hit){(int64_t)i, p->scores[i] == p->scores[i] ? p->scores[i] : -2});
    }
}

/* Rows of a list are anywhere in the file: without this the cores wait for memory at each of them. */
static void fetch_ahead(const gale__vector_file *f, int64_t row)
{
    const char *at = (const char *)f->map.data + f->offset + (uint64_t)row * f->row_bytes;
    for (size_t i = 0; i < f->row_bytes && i < FETCH_BYTES; i += 64) __builtin_prefetch(at + i);
}

static void search_list(void *arg, size_t task, int number)
{
    probing *p = arg;
    worker *w = &p->workers[number];
    const gale__simd_rows *simd = &gale__simd_get()->rows;
    size_t q = task / p->probes, list = (size_t)p->picks[task].row, dims = (size_t)p->ivf->dims, n = w->counts[q];
    gale_hit *best = w->best + q * p->k;
    if (gale__file_map_check(&p->x->file.map) != GALE_OK) {
        atomic_store(&p->cut, true);
        return;
    }
    uint64_t end = p->ivf->starts[list + 1];
    for (uint64_t i = p->ivf->starts[list]; i < end; i++) {
        int64_t row = p->ivf->ids[i];
        float score;
        if (i + FETCH_ROWS < end) fetch_ahead(&p->x->file, p->ivf->ids[i + FETCH_ROWS]);
        if (p->allowed && !p->allowed[row]) continue;
        const float *v = gale__vector_file_row(&p->x->file, row, w->row);
        simd->dots(&score, p->queries + q * dims, 1, v, (int64_t)dims, 1, dims);
        if (p->x->scales) score *= p->x->scales[row];
        if (score == score && (n < p->k || score >= best[0].score))
            gale__top_offer(best, &n, p->k, (gale_hit){row, score});
    }
    w->counts[q] = n;
}

static gale_status make(probing *p)
{
    p->n_workers = gale__parallel_width();
    p->picks = gale__calloc(p->count, p->probes * sizeof *p->picks);
    p->scores = gale__alloc((size_t)p->ivf->lists * sizeof *p->scores);
    p->workers = gale__calloc((size_t)p->n_workers, sizeof *p->workers);
    if (!p->picks || !p->scores || !p->workers) return GALE_NO_MEMORY;
    for (int i = 0; i < p->n_workers; i++) {
        worker *w = &p->workers[i];
        w->row = gale__alloc_aligned(64, (size_t)p->ivf->dims * sizeof *w->row);
        w->best = gale__calloc(p->count, p->k * sizeof *w->best);
        w->counts = gale__calloc(p->count, sizeof *w->counts);
        if (!w->row || !w->best || !w->counts) return GALE_NO_MEMORY;
    }
    return GALE_OK;
}

static void finish(probing *p)
{
    for (int i = 0; p->workers && i < p->n_workers; i++) {
        gale__free(p->workers[i].row);
        gale__free(p->workers[i].best);
        gale__free(p->workers[i].counts);
    }
    gale__free(p->workers);
    gale__free(p->picks);
    gale__free(p->scores);
}

static void gather(const probing *p, gale_hit *hits)
{
    for (size_t q = 0; q < p->count; q++) {
        size_t n = 0;
        gale_hit *to = hits + q * p->k;
        for (int i = 0; i < p->n_workers; i++)
            for (size_t k = 0; k < p->workers[i].counts[q]; k++)
                gale__top_offer(to, &n, p->k, p->workers[i].best[q * p->k + k]);
        gale__top_sort(to, n);
        for (; n < p->k; n++) to[n] = (gale_hit){-1, 0};
    }
}

gale_status gale__ivf_search(const gale_index *x, const gale__ivf *ivf, int64_t probes, const float *queries,
    size_t count, size_t k, const uint8_t *allowed, gale_hit *hits)
{
    size_t most = (size_t)(probes < 1 ? ivf->probes : probes < ivf->lists ? probes : ivf->lists);
    probing p = {.x = x, .ivf = ivf, .queries = queries, .count = count, .k = k, .probes = most, .allowed = allowed};
    gale_status status = gale__file_map_check(&ivf->map);
    if (status == GALE_OK) status = make(&p);
    if (status == GALE_OK) {
        pick_lists(&p);
        gale__parallel(count * most, search_list, &p);
        status = atomic_load(&p.cut) ? gale__file_map_check(&x->file.map) : GALE_OK;
    }
    if (status == GALE_OK) gather(&p, hits);
    finish(&p);
    return status;
}
