/* gale bench tokenize: texts per second, as a table or as JSON lines. */
#include "base/thread.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/encoder_args.h"
#include "cli/table.h"
#include "gale/selftest.h"

typedef struct printer {
    bool json;
    gale__table table;
} printer;

static void show_row(void *user, const gale_texts_time *r, size_t n_texts, size_t n_bytes)
{
    printer *p = user;
    double count = (double)n_texts, bytes = (double)n_bytes, rate = count / r->seconds, tokens = (double)r->tokens;
    if (p->json) {
        printf("{\"threads\": %d, \"texts_per_s\": %.0f, \"mb_per_s\": %.2f, \"tokens\": %.0f, "
               "\"cpu_ns_per_text\": %.0f}\n",
            r->threads, rate, bytes / r->seconds / 1e6, tokens, 1e9 * r->cpu_seconds / count);
        return;
    }
    gale__table_cell(&p->table, "%d", r->threads);
    gale__table_cell(&p->table, "%.0f", rate);
    gale__table_cell(&p->table, "%.1f", bytes / r->seconds / 1e6);
    gale__table_cell(&p->table, "%.0f", tokens / r->seconds);
    gale__table_cell(&p->table, "%.0f", 1e9 / rate);
    gale__table_cell(&p->table, "%.0f", 1e9 * r->cpu_seconds / count);
}

static gale_status show_rates(const gale_tokenizer *tokenizer, const char *file, const gale__args *a)
{
    static const char *const head[] = {"threads", "texts/s", "MB/s", "tokens/s", "ns/text", "CPU ns/text"};
    printer p = {.json = gale__args_flag(a, "json"), .table = {.align = "rrrrrr"}};
    gale_texts_options options = {.repeats = gale__args_given(a, "repeats") ? (int)gale__args_int(a, "repeats") : 0,
        .row_done = show_row,
        .user = &p};
    gale_texts_result *result = NULL;
    for (size_t i = 0; i < 6 && !p.json; i++) gale__table_cell(&p.table, "%s", head[i]);
    gale_status status = gale_texts_bench(tokenizer, file, &options, &result);
    if (!p.json && (status == GALE_OK || p.table.count > 6)) {
        if (gale__table_print(&p.table, stdout) != GALE_OK) status = GALE_NO_MEMORY;
    } else {
        for (size_t i = 0; i < p.table.count; i++) gale__free(p.table.cells[i]);
        gale__free(p.table.cells);
    }
    gale_texts_result_destroy(&result);
    return status;
}

gale_status gale__bench_tokenize(const gale__args *a)
{
    const char *model = gale__args_text(a, "model"), *file = gale__args_text(a, "texts");
    gale_tokenizer *tokenizer = NULL;
    if (!model || !file)
        return gale__fail(
            GALE_INVALID, "bench tokenize needs --model TOKENIZER and --texts FILE, with one text per line");
    uint64_t start = gale__time_ns();
    GALE_TRY(gale__open_tokenizer(model, &tokenizer));
    if (!gale__args_flag(a, "json")) printf("opened in %.1f ms\n", (double)(gale__time_ns() - start) / 1e6);
    gale_status status = show_rates(tokenizer, file, a);
    gale_tokenizer_destroy(&tokenizer);
    return status;
}
