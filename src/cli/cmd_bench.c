/* gale bench: tables of times. */
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/model_args.h"
#include "cli/table.h"
#include "gale/selftest.h"
#include "jobs/job.h"
#include <string.h>

static const gale__arg args[] = {
    {"WHAT", 0, GALE__ARG_TEXT, "kernels|plan|start|upscale|tokenize|embed|MODEL", "kernels", NULL,
        "kernels: memory-bound kernels; plan: planning time; start: time to the first kernel; upscale: a picture in 36 "
        "tiles, on every provider; tokenize, embed: texts per second, embed on every provider; or an ONNX file"},
    {"model", 'm', GALE__ARG_FILE, "NAME|FILE", NULL, NULL,
        "upscale: the network (default: the built-in one); tokenize: the tokenizer"},
    {"texts", 0, GALE__ARG_FILE, NULL, NULL, NULL, "tokenize: file with one text per line"},
    {"length", 0, GALE__ARG_INT, "TOKENS", "18", "1..512", "embed: tokens per text"},
    {"batch", 'b', GALE__ARG_INT, NULL, "1", "0..256",
        "upscale: tiles per run of the network; 0: as many as memory allows"},
    {"lanes", 0, GALE__ARG_INT, NULL, "0", "0..256",
        "upscale: concurrent runs; 0: as many as the device can use and memory allows"},
    GALE__ARGS_MODEL_INPUTS,
    {"batches", 0, GALE__ARG_TEXT, "1,2,4", NULL, NULL,
        "a model: also measure these batch sizes, used as the first extent of the inputs"},
    {"on-device", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "a model: keep inputs and results on the device during the steady-state runs"},
    GALE__ARGS_MODEL_OPTIONS,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {"filter", 'f', GALE__ARG_TEXT, "TEXT", NULL, NULL, "only rows whose name contains TEXT"},
    {"repeats", 'r', GALE__ARG_INT, "N", "30", "3..10000", "number of runs to take the median of"},
    {"scale", 0, GALE__ARG_INT, "N", "1", "1..1024", "divide the large sizes by N"},
    {"fast", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "use the device's own exp, log, sin and division instead of gale's"},
    GALE__ARG_JSON,
    {0},
};

/* Rows are kept as they come, since those before a failure are worth showing. */
typedef struct kept {
    gale__arena arena;
    gale_kernel_time *rows;
    size_t count;
} kept;

static void keep_row(void *user, const gale_kernel_time *row)
{
    kept *k = user;
    gale_kernel_time *to = gale__arena_add(&k->arena, &k->rows, &k->count, sizeof *to);
    if (to) *to = *row;
}

static void print_kernels(const gale_kernels_result *r)
{
    static const char *const head[] = {"work", "kernels", "median us", "best us", "GB/s", "of copy", "GFLOP/s", ""};
    gale__table t = {.align = "lrrrrrrl"};
    if (r->fast) printf("fast: with the device's own exp, log, sin, cos, square root and division\n");
    for (size_t i = 0; i < 8; i++) gale__table_cell(&t, "%s", head[i]);
    for (size_t i = 0; i < r->n_rows; i++) {
        const gale_kernel_time *row = &r->rows[i];
        gale__table_cell(&t, "%s", row->name);
        gale__table_cell(&t, "%d", row->kernels);
        gale__table_cell(&t, "%.1f", row->median_us);
        gale__table_cell(&t, "%.1f", row->least_us);
        gale__table_cell(&t, "%.1f", row->gbps);
        gale__table_cell(&t, "%.1f %%", 100 * row->share_of_copy);
        gale__table_cell(&t, "%.0f", row->gflops);
        gale__table_cell(&t, "%s", row->replayed ? "replayed" : "");
    }
    gale__table_print(&t, stdout);
}

static gale_status bench_kernels(gale_device *device, const gale__args *a)
{
    kept k = {.count = 0};
    char *text = NULL;
    gale_kernels_options options = {.filter = gale__args_text(a, "filter"),
        .repeats = (int)gale__args_int(a, "repeats"),
        .scale = (int)gale__args_int(a, "scale"),
        .fast = gale__args_flag(a, "fast"),
        .row_done = keep_row,
        .user = &k};
    gale_kernels_result *result = NULL;
    gale_status status = gale_kernels_bench(device, &options, &result);
    gale_kernels_result shown = {.fast = options.fast, .rows = k.rows, .n_rows = k.count};
    if (k.count && gale__args_flag(a, "json")) gale__print_text(gale_kernels_result_json(&shown, &text), &text);
    else if (k.count) print_kernels(&shown);
    gale_kernels_result_destroy(&result);
    gale__arena_finish(&k.arena);
    return status;
}

static gale_status bench_plan(gale_device *device)
{
    gale_planning_time t;
    GALE_TRY(gale_planning_bench(device, NULL, &t));
    printf("planning a program of %d kernels for a new shape takes %.2f ms (%.2f us per kernel)\n", t.kernels,
        t.best_ms, 1e3 * t.best_ms / t.kernels);
    return GALE_OK;
}

static gale_status bench_start(gale_device *device, bool fast)
{
    double ms;
    GALE_TRY(gale_start_bench(device, fast ? GALE_BENCH_FAST : 0, &ms));
    printf("first kernel %.1f ms after the device was opened\n", ms);
    return GALE_OK;
}

static int run(const gale__args *a)
{
    gale_device *device = NULL;
    const char *what = gale__args_text(a, "WHAT");
    if (!strcmp(what, "upscale")) return gale__report(gale__bench_upscale(a));
    if (!strcmp(what, "tokenize")) return gale__report(gale__bench_tokenize(a));
    if (!strcmp(what, "embed")) return gale__report(gale__bench_embed(a));
    bool model = strcmp(what, "plan") && strcmp(what, "start") && strcmp(what, "kernels");
    gale_status status = model ? gale__open_device(&device) : gale_device_open(NULL, &device);
    if (status == GALE_OK) {
        const gale_device_info *info = gale_device_get_info(device);
        if (!gale__args_flag(a, "json") && !model)
            printf("%s %d: %s (%s)\n", info->backend, info->index, info->name, info->driver);
        if (!strcmp(what, "plan")) status = bench_plan(device);
        else if (!strcmp(what, "start")) status = bench_start(device, gale__args_flag(a, "fast"));
        else if (!strcmp(what, "kernels")) status = bench_kernels(device, a);
        else status = gale__bench_model(device, what, a);
    }
    gale_device_close(&device);
    return gale__report(status);
}

const gale__command gale__command_bench = {
    args,
    run,
    "Times generated kernels, or a model, on one device. The copy rate of the device is measured in the same run, and "
    "every row shows the share of it that the work reaches, counting each byte that must be moved once. Times are "
    "measured by the device, on runs replayed from a capture if the driver supports it.",
    "gale bench kernels --provider cuda\n"
    "gale bench kernels --provider cpu --scale 8   # smaller sizes\n"
    "gale bench plan --provider cpu\n"
    "gale bench upscale --model scunet.onnx        # pictures in tiles, on every provider\n"
    "gale bench tokenize --model all-MiniLM-L6-v2 --texts texts.txt\n"
    "gale bench model.onnx --shape x=1x3x256x256   # a model: cold start, percentiles, memory",
};
