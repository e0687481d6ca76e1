/* Builds an inverted file: spherical k-means on a sample, then every row into the list of its nearest centroid.  Both
 * are a product and a maximum, which run as a graph on the device.  How many lists a search needs is measured on rows
 * of the file against exact search. */
#include "base/thread.h"
#include "gale/graph.h"
#include "jobs/job.h"
#include "jobs/search/ivf.h"
#include <math.h>
#include <string.h>

enum { BATCH = 2048, READ_ROWS = 128, ROUNDS = 8, SAMPLE_PER_LIST = 32, LISTS_MOST = 1 << 16, QUERIES = 64, K = 10 };
#define RECALL_ENOUGH 0.95

typedef struct builder {
    gale_index *x;
    const gale_job_control *control;
    gale_device *device, *own; /* own: opened here */
    gale_program *program;
    gale_tensor *table; /* of the centroids, on the device */
    int64_t lists, n_sample;
    float *sample, *centroids, *buffer; /* buffer: a batch of rows */
    int64_t *nearest;                   /* of the sample */
    uint32_t *list_of, *ids;
    uint64_t *starts;
} builder;

static float *scratch_rows(size_t count, int64_t dims) { return gale__alloc(count * (size_t)dims * sizeof(float)); }

typedef struct reading {
    const gale_index *x;
    int64_t first, step, count;
    float *to;
} reading;

static void read_some(void *arg, size_t chunk, int worker)
{
    const reading *r = arg;
    size_t dims = (size_t)r->x->file.dims;
    int64_t end = (int64_t)(chunk + 1) * READ_ROWS < r->count ? (int64_t)(chunk + 1) * READ_ROWS : r->count;
    (void)worker;
    for (int64_t i = (int64_t)chunk * READ_ROWS; i < end; i++) {
        int64_t row = r->first + i * r->step;
        float scale = r->x->scales ? r->x->scales[row] : 1, *out = r->to + (size_t)i * dims;
        const float *v = gale__vector_file_row(&r->x->file, row, out);
        for (size_t d = 0; d < dims; d++) out[d] = v[d] * scale;
    }
}

/* `count` rows of length 1, `step` apart. */
static gale_status read_rows(builder *b, int64_t first, int64_t step, int64_t count, float *to)
{
    reading r = {b->x, first, step, count, to};
    GALE_TRY(gale__file_map_check(&b->x->file.map));
    gale__parallel((size_t)(count + READ_ROWS - 1) / READ_ROWS, read_some, &r);
    return GALE_OK;
}

/* rows [n, dims], centroids [lists, dims] -> [n]: the nearest */
static gale_status make_program(builder *b)
{
    const int64_t open[2] = {-1, b->x->file.dims}, order[2] = {1, 0};
    const gale_attr turn[] = {GALE_INTS("perm", order, 2)}, how[] = {GALE_INT("axis", 1), GALE_INT("keepdims", 0)};
    gale_graph *g = NULL;
    gale_value in[2], turned, scores, which;
    gale_status status;
    GALE_TRY(gale_graph_create(&g));
    GALE_GO(gale_graph_input(g, "rows", GALE_F32, 2, open, NULL, &in[0]));
    GALE_GO(gale_graph_input(g, "centroids", GALE_F32, 2, open, NULL, &in[1]));
    GALE_GO(gale_graph_op(g, "Transpose", &in[1], 1, turn, 1, &turned, 1));
    GALE_GO(gale_graph_op(g, "MatMul", (const gale_value[]){in[0], turned}, 2, NULL, 0, &scores, 1));
    GALE_GO(gale_graph_op(g, "ArgMax", &scores, 1, how, 2, &which, 1));
    GALE_GO(gale_graph_output(g, "nearest", which));
    status = gale_program_create(g, b->device, NULL, &b->program);
done:
    gale_graph_destroy(&g);
    return status;
}

static gale_status load_centroids(builder *b)
{
    const int64_t dims[2] = {b->lists, b->x->file.dims};
    gale_tensor_destroy(&b->table);
    return gale_tensor_from_cpu(b->device, GALE_F32, 2, dims, b->centroids, &b->table);
}

static gale_status find_nearest(builder *b, float *rows, int64_t count, int64_t *to)
{
    const int64_t dims[2] = {count, b->x->file.dims};
    gale_tensor *in[2] = {NULL, b->table}, *out = NULL;
    GALE_TRY(gale_tensor_wrap(GALE_F32, 2, dims, rows, GALE_TENSOR_READ_ONLY, NULL, NULL, &in[0]));
    gale_status status = gale_program_run(b->program, in, &out, GALE_RUN_ON_HOST);
    gale_tensor_destroy(&in[0]);
    GALE_TRY(status);
    memcpy(to, gale_tensor_data(out), (size_t)count * sizeof *to);
    gale_tensor_destroy(&out);
    for (int64_t i = 0; i < count; i++) /* a row that is not a number has no nearest */
        if (to[i] < 0 || to[i] >= b->lists) to[i] = 0;
    return GALE_OK;
}

/* Means of what is near, of length 1; a list that got nothing starts over at a row of the sample. */
static void move_centroids(builder *b, int round)
{
    size_t dims = (size_t)b->x->file.dims;
    memset(b->centroids, 0, (size_t)b->lists * dims * sizeof *b->centroids);
    for (int64_t i = 0; i < b->n_sample; i++) {
        float *c = b->centroids + (size_t)b->nearest[i] * dims;
        const float *v = b->sample + (size_t)i * dims;
        for (size_t d = 0; d < dims; d++) c[d] += v[d];
    }
    for (int64_t l = 0; l < b->lists; l++) {
        float *c = b->centroids + (size_t)l * dims;
        double sum = 0;
        for (size_t d = 0; d < dims; d++) sum += (double)c[d] * c[d];
        if (!(sum > 0) || !isfinite(sum)) {
            memcpy(c, b->sample + (size_t)((l * 7919 + round * 104729) % b->n_sample) * dims, dims * sizeof *c);
            continue;
        }
        for (size_t d = 0; d < dims; d++) c[d] = (float)(c[d] / sqrt(sum));
    }
}

static gale_status train(builder *b)
{
    int64_t dims = b->x->file.dims, step = b->x->file.rows / b->n_sample;
    GALE_TRY(read_rows(b, 0, step, b->n_sample, b->sample));
    for (int64_t l = 0; l < b->lists; l++)
        memcpy(b->centroids + l * dims, b->sample + b->n_sample / b->lists * l * dims, (size_t)dims * sizeof(float));
    for (int round = 0; round < ROUNDS; round++) {
        GALE_TRY(gale__job_tell(b->control, "centroids", "rounds", (uint64_t)round, ROUNDS));
        GALE_TRY(load_centroids(b));
        for (int64_t at = 0; at < b->n_sample; at += BATCH) {
            int64_t n = b->n_sample - at < BATCH ? b->n_sample - at : BATCH;
            GALE_TRY(find_nearest(b, b->sample + at * dims, n, b->nearest + at));
        }
        move_centroids(b, round);
    }
    return load_centroids(b);
}

static gale_status fill_lists(builder *b)
{
    int64_t rows = b->x->file.rows, nearest[BATCH];
    for (int64_t at = 0; at < rows; at += BATCH) {
        int64_t n = rows - at < BATCH ? rows - at : BATCH;
        if (at % (64 * BATCH) == 0) GALE_TRY(gale__job_tell(b->control, "lists", "rows", (uint64_t)at, (uint64_t)rows));
        GALE_TRY(read_rows(b, at, 1, n, b->buffer));
        GALE_TRY(find_nearest(b, b->buffer, n, nearest));
        for (int64_t i = 0; i < n; i++) {
            b->list_of[at + i] = (uint32_t)nearest[i];
            b->starts[nearest[i] + 1]++;
        }
    }
    for (int64_t l = 0; l < b->lists; l++) b->starts[l + 1] += b->starts[l];
    for (int64_t i = rows; i-- > 0;) b->ids[--b->starts[b->list_of[i] + 1]] = (uint32_t)i;
    /* Each start has moved to the front of its list, one place too far up. */
    memmove(b->starts, b->starts + 1, (size_t)b->lists * sizeof *b->starts);
    b->starts[b->lists] = (uint64_t)rows;
    return GALE_OK;
}

/* --- How many lists are enough. --- */

/* Rows of the file, and what exact search finds for them. */
typedef struct sample {
    float *queries;
    size_t count;
    int64_t self[QUERIES];
    gale_hit exact[QUERIES * (K + 1)], found[QUERIES * (K + 1)];
} sample;

static gale_status make_sample(builder *b, sample *s)
{
    int64_t rows = b->x->file.rows, n = rows < QUERIES ? rows : QUERIES, step = rows / n, first = step / 2;
    s->count = (size_t)n;
    s->queries = scratch_rows(s->count, b->x->file.dims);
    if (!s->queries) return GALE_NO_MEMORY;
    for (int64_t q = 0; q < n; q++) s->self[q] = first + q * step;
    GALE_TRY(gale__job_tell(b->control, "recall", "queries", 0, s->count));
    GALE_TRY(read_rows(b, first, step, n, s->queries));
    return gale__index_search_exact(b->x, s->queries, s->count, K + 1, NULL, s->exact);
}

/* The share of what exact search finds, without the row itself. */
static gale_status measure(builder *b, sample *s, const gale__ivf *v, int64_t probes, double *recall)
{
    size_t hit = 0, all = 0;
    GALE_TRY(gale__ivf_search(b->x, v, probes, s->queries, s->count, K + 1, NULL, s->found));
    for (size_t q = 0; q < s->count; q++)
        for (size_t i = q * (K + 1); i < (q + 1) * (K + 1); i++) {
            bool there = false;
            if (s->exact[i].row < 0 || s->exact[i].row == s->self[q]) continue;
            for (size_t k = q * (K + 1); k < (q + 1) * (K + 1); k++) there |= s->found[k].row == s->exact[i].row;
            hit += there;
            all++;
        }
    *recall = all ? (double)hit / (double)all : 1;
    return GALE_OK;
}

/* The fewest that find enough: doubled until they do, then approached from both sides. */
static gale_status choose_probes(builder *b, sample *s, gale__ivf *v)
{
    int64_t low = 0;
    v->probes = 1;
    GALE_TRY(measure(b, s, v, v->probes, &v->recall));
    while (v->recall < RECALL_ENOUGH && v->probes < v->lists) {
        low = v->probes;
        v->probes = 2 * low < v->lists ? 2 * low : v->lists;
        GALE_TRY(measure(b, s, v, v->probes, &v->recall));
    }
    while (v->probes - low > 1 + v->probes / 16) {
        int64_t middle = (low + v->probes) / 2;
        double recall;
        GALE_TRY(measure(b, s, v, middle, &recall));
        if (recall < RECALL_ENOUGH) low = middle;
        else {
            v->probes = middle;
            v->recall = recall;
        }
    }
    return GALE_OK;
}

static gale_status measure_recall(builder *b, gale__ivf *v)
{
    sample s = {0};
    gale_status status = make_sample(b, &s);
    if (status == GALE_OK) status = choose_probes(b, &s, v);
    gale__free(s.queries);
    return status;
}

/* --- All of it. --- */

static gale_status make_builder(builder *b, const gale_index_build_options *o)
{
    int64_t rows = b->x->file.rows, dims = b->x->file.dims, lists = o->lists;
    gale_device_options cpu = GALE_DEVICE_OPTIONS;
    if (!lists) lists = (int64_t)(2 * sqrt((double)rows));
    if (lists > rows) lists = rows;
    b->lists = lists < 1 ? 1 : lists > LISTS_MOST ? LISTS_MOST : lists;
    b->n_sample = b->lists * SAMPLE_PER_LIST < rows ? b->lists * SAMPLE_PER_LIST : rows;
    b->device = o->device;
    cpu.chain = "cpu";
    if (!b->device) GALE_TRY(gale_device_open(&cpu, &b->own));
    if (!b->device) b->device = b->own;
    b->sample = scratch_rows((size_t)b->n_sample, dims);
    b->centroids = scratch_rows((size_t)b->lists, dims);
    b->buffer = scratch_rows(BATCH, dims);
    b->nearest = gale__calloc((size_t)b->n_sample, sizeof *b->nearest);
    b->list_of = gale__alloc((size_t)rows * sizeof *b->list_of);
    b->ids = gale__alloc((size_t)rows * sizeof *b->ids);
    b->starts = gale__calloc((size_t)b->lists + 2, sizeof *b->starts);
    bool all = b->sample && b->centroids && b->buffer && b->nearest && b->list_of && b->ids && b->starts;
    return all ? make_program(b) : GALE_NO_MEMORY;
}

static void finish(builder *b)
{
    gale_tensor_destroy(&b->table);
    gale_program_destroy(&b->program);
    gale_device_close(&b->own);
    gale__free(b->sample);
    gale__free(b->centroids);
    gale__free(b->buffer);
    gale__free(b->nearest);
    gale__free(b->list_of);
    gale__free(b->ids);
    gale__free(b->starts);
}

static gale_status build(builder *b, const gale_index_build_options *o, gale_index_build_report *report)
{
    uint64_t start = gale__time_ns();
    GALE_TRY(make_builder(b, o));
    GALE_TRY(train(b));
    GALE_TRY(fill_lists(b));
    gale__ivf v = {.rows = b->x->file.rows,
        .dims = b->x->file.dims,
        .lists = b->lists,
        .centroids = b->centroids,
        .starts = b->starts,
        .ids = b->ids};
    GALE_TRY(measure_recall(b, &v));
    GALE_TRY(gale__ivf_write(b->x, &v));
    if (report)
        *report = (gale_index_build_report){.rows = v.rows,
            .lists = v.lists,
            .probes = v.probes,
            .recall = v.recall,
            .seconds = (double)(gale__time_ns() - start) * 1e-9};
    return GALE_OK;
}

gale_status gale_index_build(
    gale_index *index, const gale_index_build_options *options, gale_index_build_report *report)
{
    GALE__NEED({"index", index});
    GALE__OPTIONS(options);
    GALE__WITHIN(index->context);
    gale_index_build_options none = {0};
    const gale_index_build_options *o = options ? options : &none;
    if (o->lists < 0 || o->lists > LISTS_MOST)
        return gale__fail(
            GALE_INVALID, "the number of lists must be 1 to %d, not %lld", LISTS_MOST, (long long)o->lists);
    if (index->file.rows < 1 || index->file.rows > UINT32_MAX)
        return gale__fail(GALE_LIMIT, "%s: an index needs 1 to %u vectors, not %lld", index->file.map.path, UINT32_MAX,
            (long long)index->file.rows);
    builder b = {.x = index, .control = &o->control};
    gale_status status = build(&b, o, report);
    finish(&b);
    return status;
}
