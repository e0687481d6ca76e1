/* Exact search on the cores: blocks of rows that fit a cache are held against every query.  Each worker keeps its own
 * best; they are put together at the end, so that the result does not depend on who took which block. */
#include "jobs/search/vector_index.h"
#include "base/thread.h"
#include "device/device.h"
#include "jobs/search/ivf.h"
#include "kernel/cpu/simd.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 18, QUERIES = 12, SAMPLE = 256, K_MOST = 1 << 20 }; /* QUERIES: scored together */

static size_t block_rows(const gale_index *x)
{
    size_t rows = BLOCK_BYTES / ((size_t)x->file.dims * sizeof(float));
    return rows ? rows : 1;
}

/* --- What a worker has. --- */

typedef struct worker {
    float *buffer, *scores;
    gale_hit *best; /* [queries, k] */
    size_t *counts; /* [queries] */
    int64_t lost;   /* rows without a score */
} worker;

typedef struct search {
    gale_index *x;
    const float *queries;  /* of length 1 */
    size_t count, k, rows; /* rows: of a block */
    const uint8_t *allowed;
    worker *workers;
    int n_workers;
    _Atomic bool failed;
    gale__mutex lock;
    gale_status status;
    char message[512];
} search;

static gale_status make_worker(const gale_index *x, size_t rows, worker *w)
{
    w->buffer = gale__alloc_aligned(64, rows * (size_t)x->file.dims * sizeof *w->buffer);
    w->scores = gale__alloc(rows * QUERIES * sizeof *w->scores);
    return w->buffer && w->scores ? GALE_OK : GALE_NO_MEMORY;
}

static void finish_worker(worker *w)
{
    gale__free(w->buffer);
    gale__free(w->scores);
    gale__free(w->best);
    gale__free(w->counts);
}

static gale_status make_workers(search *s)
{
    s->n_workers = gale__parallel_width();
    s->workers = gale__calloc((size_t)s->n_workers, sizeof *s->workers);
    if (!s->workers) return GALE_NO_MEMORY;
    for (int i = 0; i < s->n_workers; i++) {
        worker *w = &s->workers[i];
        GALE_TRY(make_worker(s->x, s->rows, w));
        w->best = gale__calloc(s->count, s->k * sizeof *w->best);
        w->counts = gale__calloc(s->count, sizeof *w->counts);
        if (!w->best || !w->counts) return GALE_NO_MEMORY;
    }
    return GALE_OK;
}

static void fail(search *s, gale_status status)
{
    gale__mutex_lock(&s->lock);
    if (s->status == GALE_OK) {
        s->status = status;
        snprintf(s->message, sizeof s->message, "%s", gale_error());
    }
    atomic_store(&s->failed, true);
    gale__mutex_unlock(&s->lock);
}

/* --- Blocks. --- */

static void offer_block(const search *s, worker *w, size_t q, const float *scores, int64_t first, size_t rows)
{
    const gale_index *x = s->x;
    gale_hit *best = w->best + q * s->k;
    size_t count = w->counts[q];
    for (size_t i = 0; i < rows; i++) {
        float score = x->scales ? scores[i] * x->scales[first + (int64_t)i] : scores[i];
        if (count == s->k && score < best[0].score) continue;
        w->lost += q == 0 && !(score == score);
        if ((s->allowed && !s->allowed[first + (int64_t)i]) || !(score == score)) continue;
        gale__top_offer(best, &count, s->k, (gale_hit){first + (int64_t)i, score});
    }
    w->counts[q] = count;
}

static void search_block(void *arg, size_t i, int number)
{
    search *s = arg;
    worker *w = &s->workers[number];
    int64_t first = (int64_t)(i * s->rows), left = s->x->file.rows - first, pitch;
    size_t rows = left < (int64_t)s->rows ? (size_t)left : s->rows, dims = (size_t)s->x->file.dims;
    const gale__simd_rows *simd = &gale__simd_get()->rows;
    const float *at;
    if (atomic_load_explicit(&s->failed, memory_order_relaxed)) return;
    gale_status status = gale__vector_file_read(&s->x->file, first, rows, w->buffer, &at, &pitch);
    if (status != GALE_OK) {
        fail(s, status);
        return;
    }
    for (size_t q = 0, some; q < s->count; q += some) {
        some = s->count - q < QUERIES ? s->count - q : QUERIES;
        simd->dots(w->scores, s->queries + q * dims, some, at, pitch, rows, dims);
        for (size_t j = 0; j < some; j++) offer_block(s, w, q + j, w->scores + j * rows, first, rows);
    }
}

static void gather(search *s, gale_hit *hits)
{
    for (size_t q = 0; q < s->count; q++) {
        size_t count = 0;
        gale_hit *to = hits + q * s->k;
        for (int i = 0; i < s->n_workers; i++)
            for (size_t k = 0; k < s->workers[i].counts[q]; k++)
                gale__top_offer(to, &count, s->k, s->workers[i].best[q * s->k + k]);
        gale__top_sort(to, count);
        for (; count < s->k; count++) to[count] = (gale_hit){-1, 0};
    }
}

void gale__index_warn(gale_index *x, int64_t rows)
{
    if (!rows || x->warned) return;
    x->warned = true;
    gale__log(GALE__WARN, "%s: %lld of %lld vectors contain NaN or infinity and are never found", x->file.map.path,
        (long long)rows, (long long)x->file.rows);
}

static gale_status search_cores(
    gale_index *x, const float *queries, size_t count, int64_t k, const uint8_t *allowed, gale_hit *hits)
{
    search s = {.x = x, .queries = queries, .count = count, .k = (size_t)k, .rows = block_rows(x), .allowed = allowed};
    gale__mutex_init(&s.lock);
    gale_status status = make_workers(&s);
    if (status == GALE_OK) {
        gale__parallel(((size_t)x->file.rows + s.rows - 1) / s.rows, search_block, &s);
        status = s.status == GALE_OK ? GALE_OK : gale__fail(s.status, "%s", s.message);
    }
    int64_t lost = 0;
    for (int i = 0; s.workers && i < s.n_workers; i++) lost += s.workers[i].lost;
    if (status == GALE_OK) gather(&s, hits), gale__index_warn(x, lost);
    for (int i = 0; s.workers && i < s.n_workers; i++) finish_worker(&s.workers[i]);
    gale__free(s.workers);
    gale__mutex_finish(&s.lock);
    return status;
}

/* --- Lengths. --- */

static float length_of(const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)v[i] * v[i];
    return (float)sqrt(sum);
}

typedef struct measuring {
    search s;
    float *scales;
} measuring;

static void measure_block(void *arg, size_t i, int number)
{
    measuring *m = arg;
    worker *w = &m->s.workers[number];
    const gale__vector_file *f = &m->s.x->file;
    int64_t first = (int64_t)(i * m->s.rows), left = f->rows - first, pitch;
    size_t rows = left < (int64_t)m->s.rows ? (size_t)left : m->s.rows;
    const float *at;
    gale_status status = gale__vector_file_read(f, first, rows, w->buffer, &at, &pitch);
    if (status != GALE_OK) fail(&m->s, status);
    for (size_t r = 0; r < rows && status == GALE_OK; r++) {
        float length = length_of(at + (int64_t)r * pitch, (size_t)f->dims);
        m->scales[first + (int64_t)r] = length > 0 ? 1 / length : 0;
    }
}

/* One over the length of every row. */
static gale_status measure_all(gale_index *x)
{
    measuring m = {.s = {.x = x, .count = 1, .k = 1, .rows = block_rows(x)}};
    m.scales = gale__calloc((size_t)x->file.rows, sizeof *m.scales);
    if (!m.scales) return GALE_NO_MEMORY;
    gale__mutex_init(&m.s.lock);
    gale_status status = make_workers(&m.s);
    if (status == GALE_OK) {
        gale__parallel(((size_t)x->file.rows + m.s.rows - 1) / m.s.rows, measure_block, &m);
        status = m.s.status == GALE_OK ? GALE_OK : gale__fail(m.s.status, "%s", m.s.message);
    }
    for (int i = 0; m.s.workers && i < m.s.n_workers; i++) finish_worker(&m.s.workers[i]);
    gale__free(m.s.workers);
    gale__mutex_finish(&m.s.lock);
    if (status == GALE_OK) x->scales = m.scales;
    else gale__free(m.scales);
    return status;
}

/* Files that gale embed writes have vectors of length 1: a sample shows that, and lengths need not be known. */
static gale_status look_at_lengths(gale_index *x)
{
    worker w = {0};
    int64_t step = x->file.rows / SAMPLE ? x->file.rows / SAMPLE : 1, pitch;
    gale_status status = make_worker(x, 1, &w);
    const float *at;
    x->normalized = x->file.type == GALE_VECTOR_F32 || x->file.type == GALE_VECTOR_F16;
    for (int64_t row = 0; status == GALE_OK && x->normalized && row < x->file.rows; row += step) {
        status = gale__vector_file_read(&x->file, row, 1, w.buffer, &at, &pitch);
        float off = status == GALE_OK ? length_of(at, (size_t)x->file.dims) - 1 : 0;
        x->normalized = fabsf(off) < (x->file.type == GALE_VECTOR_F32 ? 1e-4f : 2e-3f);
    }
    finish_worker(&w);
    return status == GALE_OK && !x->normalized && x->file.rows ? measure_all(x) : status;
}

/* --- The public face. --- */

/* Vectors that do not fit the device are searched by the cores. */
static gale_status to_device(gale_index *x, gale_device *device)
{
    gale_status status = gale__index_to_device(x, device);
    if (status != GALE_NO_MEMORY || !gale_device_get_info(device)->caps.memory_bytes) return status;
    gale__index_from_device(x);
    gale__log(GALE__WARN, "%s: does not fit the memory of %s (%s); searching on the CPU", x->file.map.path,
        gale_device_get_info(device)->name, gale_error());
    gale__error_clear();
    return GALE_OK;
}

gale_status gale_index_open(const char *path, const gale_index_options *options, gale_index **out)
{
    GALE__NEED({"path", path}, {"out", out});
    GALE__OPTIONS(options);
    gale_index_options none = {0}, o = options ? *options : none;
    gale_index *x = gale__calloc(1, sizeof *x);
    if (!x) return GALE_NO_MEMORY;
    x->context = gale__context_hold(o.device ? o.device->context : gale__context_current());
    GALE__WITHIN(x->context);
    gale_status status = gale__vector_file_open(path, &o, &x->file);
    if (status == GALE_OK) status = look_at_lengths(x);
    if (status == GALE_OK) status = gale_index_set_probes(x, o.probes);
    bool cores = o.probes || !o.device || gale_device_get_info(o.device)->caps.host_functions;
    if (status == GALE_OK && !cores) status = to_device(x, o.device);
    if (status == GALE_OK) *out = x;
    else gale_index_close(&x);
    return status;
}

gale_status gale_index_set_probes(gale_index *x, int64_t probes)
{
    GALE__NEED({"index", x});
    if (probes < -1) return gale__fail(GALE_INVALID, "the number of lists to search must be -1 or more");
    if (probes && !x->ivf) GALE_TRY(gale__ivf_open(x, &x->ivf));
    x->probes = probes;
    return GALE_OK;
}

void gale_index_close(gale_index **index)
{
    gale_index *x = index ? *index : NULL;
    if (!x) return;
    gale__index_from_device(x);
    gale__ivf_close(&x->ivf);
    gale__vector_file_close(&x->file);
    gale__free(x->scales);
    gale__context_drop(x->context);
    gale__free(x);
    *index = NULL;
}

void gale_index_get_info(const gale_index *x, gale_index_info *out)
{
    if (GALE__LACKS({"index", x}, {"out", out})) return;
    *out = (gale_index_info){x->file.rows, x->file.dims, x->file.type, x->normalized};
}

gale_status gale_index_vector(gale_index *x, int64_t row, float *out)
{
    GALE__NEED({"index", x}, {"out", out});
    worker w = {0};
    const float *at;
    int64_t pitch;
    if (row < 0 || row >= x->file.rows)
        return gale__fail(GALE_INVALID, "%s: no row %lld", x->file.map.path, (long long)row);
    gale_status status = make_worker(x, 1, &w);
    if (status == GALE_OK) status = gale__vector_file_read(&x->file, row, 1, w.buffer, &at, &pitch);
    if (status == GALE_OK) memcpy(out, at, (size_t)x->file.dims * sizeof *out);
    finish_worker(&w);
    return status;
}

/* Queries of length 1; those for binary vectors are 1 and -1 before that. */
static gale_status prepare(const gale_index *x, const float *queries, size_t count, float **out)
{
    size_t dims = (size_t)x->file.dims;
    float *made = gale__alloc(count * dims * sizeof *made);
    if (!made) return GALE_NO_MEMORY;
    memcpy(made, queries, count * dims * sizeof *made);
    for (size_t q = 0; q < count; q++) {
        float *v = made + q * dims;
        for (size_t i = 0; x->file.type == GALE_VECTOR_BINARY && i < dims; i++) v[i] = v[i] > 0 ? 1 : -1;
        float length = length_of(v, dims);
        if (!(length > 0) || !isfinite(length)) {
            gale__free(made);
            return gale__fail(GALE_INVALID,
                "query %zu cannot be compared: its vector has length %g, but must be finite and not zero", q,
                (double)length);
        }
        for (size_t i = 0; i < dims; i++) v[i] /= length;
    }
    *out = made;
    return GALE_OK;
}

gale_status gale__index_search_exact(
    gale_index *x, const float *queries, size_t count, int64_t k, const uint8_t *allowed, gale_hit *hits)
{
    if (x->on_device && !allowed) return gale__index_search_device(x, queries, count, k, hits);
    return search_cores(x, queries, count, k, allowed, hits);
}

gale_status gale_index_search(
    gale_index *x, const float *queries, size_t count, int64_t k, const uint8_t *allowed, gale_hit *hits)
{
    GALE__NEED({"index", x}, {"queries", !count || queries}, {"hits", !count || hits});
    GALE__WITHIN(x->context);
    float *made = NULL;
    if (k < 1 || k > K_MOST)
        return gale__fail(GALE_INVALID, "the number of results k must be 1 to %d, not %lld", K_MOST, (long long)k);
    if (!count) return GALE_OK;
    GALE_TRY(prepare(x, queries, count, &made));
    gale_status status = x->probes && x->ivf
                             ? gale__ivf_search(x, x->ivf, x->probes, made, count, (size_t)k, allowed, hits)
                             : gale__index_search_exact(x, made, count, k, allowed, hits);
    gale__free(made);
    return status;
}
