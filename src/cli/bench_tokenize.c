/* gale bench tokenize: how many texts a second one thread and all of them turn into tokens.  The texts lie in memory
 * and the tokens stay there, so that nothing but the tokenizer is timed. */
#include "cli/bench.h"
#include "base/file.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "gale/text.h"
#include <string.h>
#include <time.h>

enum { TEXTS_PER_TASK = 512 };

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
    return t->count ? GALE_OK : gale__fail(GALE_FORMAT, "%s: no text in it", path);
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
static gale_status time_passes(work *w, int width, int repeats, double *seconds, double *cpu)
{
    size_t tasks = (w->texts->count + TEXTS_PER_TASK - 1) / TEXTS_PER_TASK;
    *seconds = *cpu = 1e300;
    for (int r = 0; r < repeats; r++) {
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
    return GALE_OK;
}

static gale_status print_rates(work *w, int width, int repeats, bool json)
{
    gale__table table = {.align = "rrrrrr"};
    static const char *const head[] = {"threads", "texts/s", "MB/s", "tokens/s", "ns/text", "CPU ns/text"};
    gale_status status = GALE_OK;
    for (size_t i = 0; i < 6 && !json; i++) gale__table_cell(&table, "%s", head[i]);
    for (int n = 1; n <= width && status == GALE_OK; n = n == 1 && width > 1 ? width : width + 1) {
        double seconds = 0, cpu = 0, tokens = 0;
        status = time_passes(w, n, repeats, &seconds, &cpu);
        for (int i = 0; i < n; i++) tokens += (double)w->tokens[i];
        double rate = (double)w->texts->count / seconds;
        if (json)
            printf("{\"threads\": %d, \"texts_per_s\": %.0f, \"mb_per_s\": %.2f, \"tokens\": %.0f, "
                   "\"cpu_ns_per_text\": %.0f}\n",
                n, rate, (double)w->texts->bytes / seconds / 1e6, tokens, 1e9 * cpu / (double)w->texts->count);
        gale__table_cell(&table, "%d", n);
        gale__table_cell(&table, "%.0f", rate);
        gale__table_cell(&table, "%.1f", (double)w->texts->bytes / seconds / 1e6);
        gale__table_cell(&table, "%.0f", tokens / seconds);
        gale__table_cell(&table, "%.0f", 1e9 / rate);
        gale__table_cell(&table, "%.0f", 1e9 * cpu / (double)w->texts->count);
    }
    if (!json) return gale__table_print(&table, stdout) == GALE_OK ? status : GALE_NO_MEMORY;
    for (size_t i = 0; i < table.count; i++) gale__free(table.cells[i]);
    gale__free(table.cells);
    return status;
}

gale_status gale__bench_tokenize(const gale__args *a)
{
    const char *model = gale__args_text(a, "model"), *file = gale__args_text(a, "texts");
    int width = gale__parallel_width(),
        repeats = gale__args_given(a, "repeats") ? (int)gale__args_int(a, "repeats") : 5;
    gale_tokenizer *tokenizer = NULL;
    texts t = {0};
    work w = {.texts = &t};
    gale_status status;
    if (!model || !file)
        return gale__fail(
            GALE_INVALID, "bench tokenize needs --model, a tokenizer, and --texts, a file with a text a line");
    uint64_t start = gale__time_ns();
    GALE_GO(gale_tokenizer_open(model, &tokenizer));
    if (!gale__args_flag(a, "json")) printf("opened in %.1f ms\n", (double)(gale__time_ns() - start) / 1e6);
    GALE_GO(read_texts(file, &t));
    w.tokenizer = tokenizer;
    w.encoders = gale__calloc((size_t)width, sizeof *w.encoders);
    w.tokens = gale__calloc((size_t)width, sizeof *w.tokens);
    w.statuses = gale__calloc((size_t)width, sizeof *w.statuses);
    GALE_GO(w.encoders && w.tokens && w.statuses ? GALE_OK : GALE_NO_MEMORY);
    for (int i = 0; i < width; i++) GALE_GO(gale_encoder_create(tokenizer, &w.encoders[i]));
    status = print_rates(&w, width, repeats, gale__args_flag(a, "json"));
done:
    for (int i = 0; w.encoders && i < width; i++) gale_encoder_destroy(&w.encoders[i]);
    gale__free(w.encoders);
    gale__free(w.tokens);
    gale__free(w.statuses);
    gale__bytes_finish(&t.file);
    gale__free(t.lines);
    gale__free(t.sizes);
    gale_tokenizer_destroy(&tokenizer);
    return status;
}
