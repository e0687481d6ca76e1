/* How many texts a second one thread and all of them turn into tokens.  The texts are in memory and the tokens stay
 * there, so that nothing but the tokenizer is timed. */
#include "base/file.h"
#include "base/thread.h"
#include "gale/selftest.h"
#include "jobs/job.h"
#include <string.h>
#include <time.h>

enum { TEXTS_PER_TASK = 512, REPEATS = 5 };

typedef struct texts {
    gale__bytes file;
    const char **lines;
    size_t *sizes;
    size_t count, capacity, size_capacity, bytes;
} texts;
typedef struct work {
    const gale_tokenizer *tokenizer;
    gale_encoder **encoders; /* one for each worker */
    const texts *texts;
    uint64_t *tokens; /* by worker */
    gale_status *statuses;
} work;

static gale_status read_texts(const char *path, texts *t)
{
    GALE_TRY(gale__file_read(path, 0, &t->file));
    const char *at = t->file.data, *end = at + t->file.size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        GALE_TRY(gale__grow((void **)&t->lines, &t->capacity, t->count + 1, sizeof *t->lines));
        GALE_TRY(gale__grow((void **)&t->sizes, &t->size_capacity, t->count + 1, sizeof *t->sizes));
        t->lines[t->count] = at;
        t->sizes[t->count] = (size_t)((stop ? stop : end) - at);
        t->bytes += t->sizes[t->count++];
        at = stop ? stop + 1 : end;
    }
    return t->count ? GALE_OK : gale__fail(GALE_FORMAT, "%s: contains no text", path);
}

static void run_task(void *user, size_t task, int worker)
{
    work *w = user;
    const gale_encode_options options = {.pad_length = -1};
    size_t end = (task + 1) * TEXTS_PER_TASK < w->texts->count ? (task + 1) * TEXTS_PER_TASK : w->texts->count;
    for (size_t i = task * TEXTS_PER_TASK; i < end && w->statuses[worker] == GALE_OK; i++) {
        gale_encoding e = {0};
        w->statuses[worker] = gale_tokenizer_encode(
            w->tokenizer, w->encoders[worker], w->texts->lines[i], w->texts->sizes[i], NULL, 0, &options, &e);
        w->tokens[worker] += e.count;
    }
}

/* The shortest of several passes. */
static gale_status time_passes(work *w, int width, const gale_texts_options *o, double *seconds, double *cpu)
{
    size_t tasks = (w->texts->count + TEXTS_PER_TASK - 1) / TEXTS_PER_TASK;
    int repeats = o->repeats ? o->repeats : REPEATS;
    *seconds = *cpu = 1e300;
    for (int r = 0; r < repeats; r++) {
        GALE_TRY(gale__job_tell(&o->control, "encode", "passes", (uint64_t)r, (uint64_t)repeats));
        for (int i = 0; i < width; i++) w->tokens[i] = 0;
        clock_t busy = clock();
        uint64_t start = gale__time_ns();
        if (width == 1)
            for (size_t i = 0; i < tasks; i++) run_task(w, i, 0);
        else gale__parallel(tasks, run_task, w);
        double now = (double)(gale__time_ns() - start) / 1e9;
        double used = (double)(clock() - busy) / CLOCKS_PER_SEC;
        if (now < *seconds) *seconds = now;
        if (used < *cpu) *cpu = used;
        for (int i = 0; i < width; i++)
            if (w->statuses[i] != GALE_OK) return gale__fail(w->statuses[i], "a text cannot be encoded");
    }
    return gale__job_tell(&o->control, "encode", "passes", (uint64_t)repeats, (uint64_t)repeats);
}

static gale_status time_widths(work *w, int width, const gale_texts_options *o, gale_texts_result *r)
{
    gale_texts_time *rows = gale__arena_alloc(gale__result_arena(r), 2 * sizeof *rows);
    if (!rows) return GALE_NO_MEMORY;
    r->rows = rows;
    for (int n = 1; n <= width; n = n == 1 && width > 1 ? width : width + 1) {
        gale_texts_time *row = &rows[r->n_rows];
        row->threads = n;
        GALE_TRY(time_passes(w, n, o, &row->seconds, &row->cpu_seconds));
        for (int i = 0; i < n; i++) row->tokens += w->tokens[i];
        r->n_rows++;
        if (o->row_done) o->row_done(o->user, row, r->n_texts, r->n_bytes);
    }
    return GALE_OK;
}

static gale_status bench_texts(
    const gale_tokenizer *tokenizer, const char *path, const gale_texts_options *o, gale_texts_result *r)
{
    int width = gale__parallel_width();
    texts t = {0};
    work w = {.texts = &t, .tokenizer = tokenizer};
    gale_status status;
    GALE_GO(read_texts(path, &t));
    r->n_texts = t.count;
    r->n_bytes = t.bytes;
    w.encoders = gale__calloc((size_t)width, sizeof *w.encoders);
    w.tokens = gale__calloc((size_t)width, sizeof *w.tokens);
    w.statuses = gale__calloc((size_t)width, sizeof *w.statuses);
    GALE_GO(w.encoders && w.tokens && w.statuses ? GALE_OK : GALE_NO_MEMORY);
    for (int i = 0; i < width; i++) GALE_GO(gale_encoder_create(tokenizer, &w.encoders[i]));
    status = time_widths(&w, width, o, r);
done:
    for (int i = 0; w.encoders && i < width; i++) gale_encoder_destroy(&w.encoders[i]);
    gale__free(w.encoders);
    gale__free(w.tokens);
    gale__free(w.statuses);
    gale__bytes_finish(&t.file);
    gale__free(t.lines);
    gale__free(t.sizes);
    return status;
}

gale_status gale_texts_bench(
    const gale_tokenizer *tokenizer, const char *path, const gale_texts_options *options, gale_texts_result **out)
{
    GALE__NEED({"tokenizer", tokenizer}, {"path", path}, {"out", out});
    GALE__OPTIONS(options);
    static const gale_texts_options usual = {0};
    const gale_texts_options *o = options ? options : &usual;
    if (o->repeats < 0) return gale__fail(GALE_INVALID, "texts: %d passes; at least 1 is needed", o->repeats);
    gale_texts_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? bench_texts(tokenizer, path, o, result) : GALE_NO_MEMORY;
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_texts_result)

GALE__RESULT_JSON(gale_texts_result, '{')
{
    gale__json_put_u64(j, "texts", r->n_texts);
    gale__json_put_u64(j, "bytes", r->n_bytes);
    gale__json_open(j, "rows", '[');
    for (size_t i = 0; i < r->n_rows; i++) {
        gale__json_object(j);
        gale__json_put_i64(j, "threads", r->rows[i].threads);
        gale__json_put_f64(j, "seconds", r->rows[i].seconds);
        gale__json_put_f64(j, "cpu_seconds", r->rows[i].cpu_seconds);
        gale__json_put_u64(j, "tokens", r->rows[i].tokens);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}
