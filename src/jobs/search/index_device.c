/* Search on a device.  Vectors are there as tables of at most ROWS rows, in f16 where the file has f16, else in f32 and
 * of length 1.  One run multiplies some queries with all tables and finds the best rows (index_graph.c); only those
 * come back. */
#include "base/mem.h"
#include "gale/graph.h"
#include "jobs/search/index_graph.h"
#include "jobs/search/vector_index.h"
#include <math.h>
#include <string.h>

enum { ROWS = 1 << 20, PIECE_ROWS = 1 << 15, QUERIES_MOST = 64, SCORES_MOST = 1 << 27 };

typedef struct gale__index_device {
    gale_device *device; /* the caller's */
    gale_type type;
    gale_tensor **inputs; /* the queries of a run, then the tables */
    size_t tables;
    gale_program *program; /* for the k below */
    int64_t k;
} gale__index_device;

/* --- Vectors to the device. --- */

typedef struct piece {
    float *buffer;
    gale_stream *stream;
} piece;

static gale_status make_piece(const gale_index *x, gale_device *device, piece *p)
{
    p->buffer = gale__alloc(PIECE_ROWS * (size_t)x->file.dims * sizeof *p->buffer);
    if (!p->buffer) return GALE_NO_MEMORY;
    return gale_stream_create(device, &p->stream);
}

static void finish_piece(piece *p)
{
    gale_stream_destroy(&p->stream);
    gale__free(p->buffer);
}

/* Rows in the layout of the table: those of the file if they are contiguous and need no conversion. */
static gale_status read_rows(
    const gale_index *x, gale_type type, int64_t first, size_t rows, const piece *p, const void **out)
{
    size_t dims = (size_t)x->file.dims;
    const float *from;
    int64_t pitch;
    if (type == GALE_F16) {
        *out = (const char *)x->file.map.data + x->file.offset + (uint64_t)first * x->file.row_bytes;
        return gale__file_map_check(&x->file.map);
    }
    GALE_TRY(gale__vector_file_read(&x->file, first, rows, p->buffer, &from, &pitch));
    *out = from;
    if (!x->scales && pitch == x->file.dims) return GALE_OK;
    for (size_t r = 0; r < rows; r++) {
        float scale = x->scales ? x->scales[first + (int64_t)r] : 1;
        for (size_t i = 0; i < dims; i++) p->buffer[r * dims + i] = from[(int64_t)r * pitch + (int64_t)i] * scale;
    }
    *out = p->buffer;
    return GALE_OK;
}

static gale_status add_table(const gale_index *x, gale__index_device *d, int64_t first, const piece *p)
{
    int64_t left = x->file.rows - first, dims[2] = {left < ROWS ? left : ROWS, x->file.dims};
    size_t row_bytes = (size_t)x->file.dims * gale_type_size(d->type);
    gale_tensor **table = &d->inputs[1 + d->tables];
    GALE_TRY(gale_tensor_create(d->device, d->type, 2, dims, table));
    d->tables++;
    for (int64_t at = 0; at < dims[0]; at += PIECE_ROWS) {
        size_t n = dims[0] - at < PIECE_ROWS ? (size_t)(dims[0] - at) : PIECE_ROWS;
        const void *rows = NULL;
        GALE_TRY(read_rows(x, d->type, first + at, n, p, &rows));
        GALE_TRY(gale_upload(p->stream, gale_tensor_buffer(*table), (size_t)at * row_bytes, rows, n * row_bytes));
    }
    return gale_stream_sync(p->stream);
}

gale_status gale__index_to_device(gale_index *x, gale_device *device)
{
    gale__index_device *d = gale__calloc(1, sizeof *d);
    size_t tables = ((size_t)x->file.rows + ROWS - 1) / ROWS;
    piece p = {0};
    gale_status status = d ? GALE_OK : GALE_NO_MEMORY;
    if (!tables) return gale__free(d), status;
    x->on_device = d;
    if (d) {
        d->device = device;
        d->type = x->file.type == GALE_VECTOR_F16 && !x->scales ? GALE_F16 : GALE_F32;
        d->inputs = gale__calloc(tables + 1, sizeof(gale_tensor *));
        status = d->inputs ? make_piece(x, device, &p) : GALE_NO_MEMORY;
    }
    for (size_t i = 0; i < tables && status == GALE_OK; i++) status = add_table(x, d, (int64_t)i * ROWS, &p);
    finish_piece(&p);
    return status;
}

void gale__index_from_device(gale_index *x)
{
    gale__index_device *d = x->on_device;
    if (!d) return;
    for (size_t i = 0; d->inputs && i <= d->tables; i++) gale_tensor_destroy(&d->inputs[i]);
    gale_program_destroy(&d->program);
    gale__free(d->inputs);
    gale__free(d);
    x->on_device = NULL;
}

/* --- Queries. --- */

static gale_status make_program(const gale_index *x, int64_t k)
{
    gale__index_device *d = x->on_device;
    gale__index_shape shape = {x->file.rows, x->file.dims, ROWS, d->type, k};
    gale_graph *g = NULL;
    gale_program_destroy(&d->program);
    GALE_TRY(gale_graph_create(&g));
    gale_status status = gale__index_graph(g, &shape);
    if (status == GALE_OK) status = gale_program_create(g, d->device, NULL, &d->program);
    gale_graph_destroy(&g);
    d->k = k;
    return status;
}

/* Rows without a score (vectors that are not finite) have minus infinity. */
static void take_hits(gale_index *x, gale_tensor *const out[2], size_t count, size_t found, size_t k, gale_hit *hits)
{
    const float *scores = gale_tensor_data(out[0]);
    const int64_t *rows = gale_tensor_data(out[1]);
    for (size_t q = 0; q < count; q++) {
        size_t n = 0;
        for (size_t i = 0; i < found; i++)
            if (scores[q * found + i] > -INFINITY)
                hits[q * k + n++] = (gale_hit){rows[q * found + i], scores[q * found + i]};
        if (n < found) gale__index_warn(x, x->file.rows - (int64_t)n);
        gale__top_sort(hits + q * k, n);
        for (; n < k; n++) hits[q * k + n] = (gale_hit){-1, 0};
    }
}

static gale_status search_some(gale_index *x, const float *queries, size_t count, size_t k, gale_hit *hits)
{
    gale__index_device *d = x->on_device;
    int64_t dims[2] = {(int64_t)count, x->file.dims};
    gale_tensor *out[2] = {NULL, NULL};
    gale_tensor_destroy(&d->inputs[0]);
    GALE_TRY(gale_tensor_create(NULL, GALE_F32, 2, dims, &d->inputs[0]));
    memcpy(gale_tensor_data(d->inputs[0]), queries, count * (size_t)x->file.dims * sizeof *queries);
    GALE_TRY(gale_program_run(d->program, d->inputs, out, GALE_RUN_ON_HOST));
    take_hits(x, out, count, (size_t)d->k, k, hits);
    gale_tensor_destroy(&out[0]);
    gale_tensor_destroy(&out[1]);
    return GALE_OK;
}

/* In powers of two, so that few shapes are planned, as many as keep the scores within bounds. */
gale_status gale__index_search_device(gale_index *x, const float *queries, size_t count, int64_t k, gale_hit *hits)
{
    int64_t found = k < x->file.rows ? k : x->file.rows;
    gale__index_device *d = x->on_device;
    size_t most = QUERIES_MOST;
    while (most > 1 && most * (size_t)x->file.rows > SCORES_MOST) most /= 2;
    if (!d->program || d->k != found) GALE_TRY(make_program(x, found));
    for (size_t at = 0, n; at < count; at += n) {
        for (n = most; n > count - at;) n /= 2;
        GALE_TRY(search_some(x, queries + at * (size_t)x->file.dims, n, (size_t)k, hits + at * (size_t)k));
    }
    return GALE_OK;
}
