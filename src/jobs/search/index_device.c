/* Search on a device.  Vectors lie there as tables of at most ROWS rows, scaled to length 1; a run multiplies the
 * queries with one of them and keeps the best k of each, and the few that come back are put together here. */
#include "base/mem.h"
#include "gale/graph.h"
#include "jobs/search/vector_index.h"
#include <string.h>

enum { ROWS = 1 << 20, READ_ROWS = 1 << 14 };

typedef struct gale__index_device {
    gale_device *device; /* the caller's */
    gale_tensor **tables;
    size_t count;
    gale_program *program; /* for the k below */
    int64_t k;
} gale__index_device;

static gale_status read_table(const gale_index *x, int64_t first, int64_t rows, float *to)
{
    size_t dims = (size_t)x->file.dims;
    float *buffer = gale__alloc(READ_ROWS * dims * sizeof *buffer);
    void *raw = gale__alloc(READ_ROWS * x->file.row_bytes);
    gale_status status = buffer && raw ? GALE_OK : GALE_NO_MEMORY;
    for (int64_t at = 0; at < rows && status == GALE_OK; at += READ_ROWS) {
        size_t n = rows - at < READ_ROWS ? (size_t)(rows - at) : READ_ROWS;
        const float *from;
        int64_t pitch;
        status = gale__vector_file_read(&x->file, first + at, n, buffer, raw, &from, &pitch);
        for (size_t r = 0; r < n && status == GALE_OK; r++) {
            float scale = x->scales ? x->scales[first + at + (int64_t)r] : 1, *row = to + ((size_t)at + r) * dims;
            for (size_t i = 0; i < dims; i++) row[i] = from[(int64_t)r * pitch + (int64_t)i] * scale;
        }
    }
    gale__free(buffer);
    gale__free(raw);
    return status;
}

static gale_status add_table(gale_index *x, gale__index_device *d, int64_t first, float *host)
{
    int64_t left = x->file.rows - first, dims[2] = {left < ROWS ? left : ROWS, x->file.dims};
    GALE_TRY(read_table(x, first, dims[0], host));
    GALE_TRY(gale_tensor_from_cpu(d->device, GALE_F32, 2, dims, host, &d->tables[d->count]));
    d->count++;
    return GALE_OK;
}

gale_status gale__index_to_device(gale_index *x, gale_device *device)
{
    gale__index_device *d = gale__calloc(1, sizeof *d);
    size_t tables = ((size_t)x->file.rows + ROWS - 1) / ROWS,
           most = (size_t)(x->file.rows < ROWS ? x->file.rows : ROWS);
    float *host = gale__alloc((most ? most : 1) * (size_t)x->file.dims * sizeof *host);
    if (d) {
        d->device = device;
        d->tables = gale__calloc(tables + 1, sizeof(gale_tensor *));
    }
    x->on_device = d;
    gale_status status = d && d->tables && host ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; i < tables && status == GALE_OK; i++) status = add_table(x, d, (int64_t)i * ROWS, host);
    gale__free(host);
    if (status == GALE_OK && !x->file.rows) gale__index_from_device(x);
    return status;
}

void gale__index_from_device(gale_index *x)
{
    gale__index_device *d = x->on_device;
    if (!d) return;
    for (size_t i = 0; i < d->count; i++) gale_tensor_destroy(&d->tables[i]);
    gale_program_destroy(&d->program);
    gale__free(d->tables);
    gale__free(d);
    x->on_device = NULL;
}

/* queries [q, dims], table [rows, dims] -> scores [q, k], places [q, k] */
static gale_status build(gale_graph *g, int64_t dims, int64_t k)
{
    gale_value in[2], turned, scores, of[2], best[2];
    const int64_t shape[2] = {-1, dims}, order[2] = {1, 0}, one = 1;
    const gale_attr turn[] = {GALE_INTS("perm", order, 2)};
    GALE_TRY(gale_graph_input(g, "queries", GALE_F32, 2, shape, NULL, &in[0]));
    GALE_TRY(gale_graph_input(g, "table", GALE_F32, 2, shape, NULL, &in[1]));
    GALE_TRY(gale_graph_op(g, "Transpose", &in[1], 1, turn, 1, &turned, 1));
    GALE_TRY(gale_graph_op(g, "MatMul", (const gale_value[]){in[0], turned}, 2, NULL, 0, &scores, 1));
    of[0] = scores;
    GALE_TRY(gale_graph_constant(g, GALE_I64, 1, &one, &k, &of[1]));
    GALE_TRY(gale_graph_op(g, "TopK", of, 2, NULL, 0, best, 2));
    GALE_TRY(gale_graph_output(g, "scores", best[0]));
    return gale_graph_output(g, "places", best[1]);
}

/* A program for each k; it plans anew for the last table, which has fewer rows. */
static gale_status make_program(const gale_index *x, int64_t k, gale_program **out)
{
    gale_graph *g = NULL;
    GALE_TRY(gale_graph_create(&g));
    gale_status status = build(g, x->file.dims, k);
    if (status == GALE_OK) status = gale_program_create(g, x->on_device->device, NULL, out);
    gale_graph_destroy(&g);
    return status;
}

static gale_status search_table(gale_program *program, gale_tensor *queries, gale_tensor *table, int64_t first,
    int64_t k, int64_t wanted, gale_hit *hits, size_t *counts)
{
    gale_tensor *in[2] = {queries, table}, *out[2] = {NULL, NULL};
    GALE_TRY(gale_program_run(program, in, out, true));
    const float *scores = gale_tensor_data(out[0]);
    const int64_t *places = gale_tensor_data(out[1]);
    int64_t count = gale_tensor_dims(queries)[0];
    for (int64_t q = 0; q < count; q++)
        for (int64_t i = 0; i < k; i++)
            gale__top_offer(hits + q * wanted, &counts[q], (size_t)wanted,
                (gale_hit){first + places[q * k + i], scores[q * k + i]});
    gale_tensor_destroy(&out[0]);
    gale_tensor_destroy(&out[1]);
    return GALE_OK;
}

static gale_status search_tables(
    const gale_index *x, gale_tensor *queries, int64_t wanted, gale_hit *hits, size_t *counts)
{
    gale__index_device *d = x->on_device;
    for (size_t i = 0; i < d->count; i++) {
        int64_t rows = gale_tensor_dims(d->tables[i])[0], k = wanted < rows ? wanted : rows;
        if (!d->program || d->k != k) {
            gale_program_destroy(&d->program);
            GALE_TRY(make_program(x, k, &d->program));
            d->k = k;
        }
        GALE_TRY(search_table(d->program, queries, d->tables[i], (int64_t)i * ROWS, k, wanted, hits, counts));
    }
    return GALE_OK;
}

gale_status gale__index_search_device(gale_index *x, const float *queries, size_t count, int64_t k, gale_hit *hits)
{
    gale_tensor *in = NULL;
    int64_t dims[2] = {(int64_t)count, x->file.dims};
    size_t *counts = gale__calloc(count, sizeof *counts);
    gale_status status =
        counts ? gale_tensor_from_cpu(x->on_device->device, GALE_F32, 2, dims, queries, &in) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = search_tables(x, in, k, hits, counts);
    for (size_t q = 0; q < count && status == GALE_OK; q++) {
        gale__top_sort(hits + q * (size_t)k, counts[q]);
        for (size_t i = counts[q]; i < (size_t)k; i++) hits[q * (size_t)k + i] = (gale_hit){-1, 0};
    }
    gale_tensor_destroy(&in);
    gale__free(counts);
    return status;
}
