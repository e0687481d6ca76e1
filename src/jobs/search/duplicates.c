/* Near duplicates, exactly: rows are taken some at a time and held against all kept rows before them, block by block on
 * all cores; those taken together are held against each other one by one, since what is kept depends on their order. */
#include "base/thread.h"
#include "jobs/search/vector_index.h"
#include "kernel/cpu/simd.h"
#include <string.h>

enum { QUERIES = 32, BLOCK_BYTES = 1 << 18 };

typedef struct finding {
    gale_index *x;
    float threshold;
    int64_t *of;
    float *score;
    float *queries;     /* [QUERIES, dims], of length 1 */
    int64_t first;      /* row of the first query */
    size_t count, rows; /* queries; rows of a block */
    struct {
        float *buffer, *scores;
        int64_t best[QUERIES]; /* the first row that is near enough; -1 */
        float at[QUERIES];
    } * workers;
    int n_workers;
    gale__mutex lock;
    gale_status status;
} finding;

static gale_status read_rows(finding *f, int worker, int64_t first, size_t rows, const float **at, int64_t *pitch)
{
    return gale__vector_file_read(&f->x->file, first, rows, f->workers[worker].buffer, at, pitch);
}

static float scale_of(const gale_index *x, int64_t row) { return x->scales ? x->scales[row] : 1; }

static void compare_block(void *arg, size_t i, int worker)
{
    finding *f = arg;
    int64_t first = (int64_t)(i * f->rows), left = f->first - first, pitch;
    size_t rows = left < (int64_t)f->rows ? (size_t)left : f->rows, dims = (size_t)f->x->file.dims;
    float *scores = f->workers[worker].scores;
    const float *at;
    gale_status status = read_rows(f, worker, first, rows, &at, &pitch);
    if (status != GALE_OK) {
        gale__mutex_lock(&f->lock);
        f->status = status;
        gale__mutex_unlock(&f->lock);
        return;
    }
    for (size_t q = 0; q < f->count; q++) {
        int64_t *best = &f->workers[worker].best[q];
        if (*best >= 0 && *best < first) continue;
        gale__simd_get()->rows.dots(scores, f->queries + q * dims, 1, at, pitch, rows, dims);
        for (size_t r = 0; r < rows; r++) {
            int64_t row = first + (int64_t)r;
            float score = scores[r] * scale_of(f->x, row);
            if (score < f->threshold || f->of[row] != row) continue;
            *best = row;
            f->workers[worker].at[q] = score;
            break;
        }
    }
}

/* Among the rows taken together, those before q that are kept. */
static void compare_near(finding *f, size_t q)
{
    size_t dims = (size_t)f->x->file.dims;
    int64_t row = f->first + (int64_t)q;
    for (size_t i = 0; i < q && f->of[row] == row; i++) {
        float score;
        if (f->of[f->first + (int64_t)i] != f->first + (int64_t)i) continue;
        gale__simd_get()->rows.dots(&score, f->queries + q * dims, 1, f->queries + i * dims, (int64_t)dims, 1, dims);
        if (score < f->threshold) continue;
        f->of[row] = f->first + (int64_t)i;
        f->score[row] = score;
    }
}

static gale_status take_rows(finding *f)
{
    size_t dims = (size_t)f->x->file.dims;
    const float *at;
    int64_t pitch;
    GALE_TRY(read_rows(f, 0, f->first, f->count, &at, &pitch));
    for (size_t q = 0; q < f->count; q++)
        for (size_t i = 0; i < dims; i++)
            f->queries[q * dims + i] = at[(int64_t)q * pitch + (int64_t)i] * scale_of(f->x, f->first + (int64_t)q);
    for (int w = 0; w < f->n_workers; w++)
        for (size_t q = 0; q < f->count; q++) f->workers[w].best[q] = -1;
    gale__parallel(((size_t)f->first + f->rows - 1) / f->rows, compare_block, f);
    GALE_TRY(f->status == GALE_OK
                 ? GALE_OK
                 : gale__fail(f->status, "%s: cannot be read; was it truncated meanwhile?", f->x->file.map.path));
    for (size_t q = 0; q < f->count; q++) {
        int64_t row = f->first + (int64_t)q;
        f->of[row] = row;
        f->score[row] = 1;
        for (int w = 0; w < f->n_workers; w++) {
            int64_t best = f->workers[w].best[q];
            if (best < 0 || (f->of[row] != row && f->of[row] < best)) continue;
            f->of[row] = best;
            f->score[row] = f->workers[w].at[q];
        }
        compare_near(f, q);
    }
    return GALE_OK;
}

static gale_status make_room(finding *f)
{
    const gale__vector_file *file = &f->x->file;
    size_t dims = (size_t)file->dims, rows = f->rows > QUERIES ? f->rows : QUERIES;
    f->queries = gale__alloc(QUERIES * dims * sizeof *f->queries);
    f->n_workers = gale__parallel_width();
    f->workers = gale__calloc((size_t)f->n_workers, sizeof *f->workers);
    if (!f->queries || !f->workers) return GALE_NO_MEMORY;
    for (int i = 0; i < f->n_workers; i++) {
        f->workers[i].buffer = gale__alloc(rows * dims * sizeof(float));
        f->workers[i].scores = gale__alloc(rows * sizeof(float));
        if (!f->workers[i].buffer || !f->workers[i].scores) return GALE_NO_MEMORY;
    }
    return GALE_OK;
}

gale_status gale_index_duplicates(gale_index *x, float threshold, int64_t *of, float *score)
{
    GALE__NEED({"index", x}, {"of", of}, {"score", score});
    GALE__WITHIN(x->context);
    finding f = {.x = x, .threshold = threshold, .of = of, .score = score};
    f.rows = BLOCK_BYTES / ((size_t)x->file.dims * sizeof(float));
    if (!f.rows) f.rows = 1;
    gale__mutex_init(&f.lock);
    gale_status status = make_room(&f);
    for (; status == GALE_OK && f.first < x->file.rows; f.first += QUERIES) {
        int64_t left = x->file.rows - f.first;
        f.count = left < QUERIES ? (size_t)left : QUERIES;
        status = take_rows(&f);
    }
    for (int i = 0; f.workers && i < f.n_workers; i++) {
        gale__free(f.workers[i].buffer);
        gale__free(f.workers[i].scores);
    }
    gale__free(f.workers);
    gale__free(f.queries);
    gale__mutex_finish(&f.lock);
    return status;
}
