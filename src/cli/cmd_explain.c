/* gale explain: where each part of a model runs and what it costs, as a table or a page. */
#include "base/file.h"
#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/model_args.h"
#include "cli/table.h"

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "ONNX file", NULL, true},
    GALE__ARGS_MODEL_INPUTS,
    {"html", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "write an HTML page: the graphs with all nodes, to search and to zoom, and a bar for every kernel",
        .writes = true},
    {"no-run", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "do not run the model: only describe its graphs, which needs no inputs and no shapes"},
    {"rows", 'n', GALE__ARG_INT, "N", "40", "0..1000000",
        "kernels in the table, most expensive first; 0: all, in order"},
    GALE__ARGS_MODEL_OPTIONS,
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

/* The costliest kernel not yet shown; the lists are short enough for a plain search. */
static size_t costliest(const gale_explain_result *e, const bool *shown)
{
    size_t best = e->n_kernels;
    for (size_t i = 0; i < e->n_kernels; i++)
        if (!shown[i] && (best == e->n_kernels || e->kernels[i].measured_us > e->kernels[best].measured_us)) best = i;
    return best;
}

static void add_row(gale__table *t, const gale_explain_result *e, size_t i)
{
    const gale_explain_kernel *k = &e->kernels[i];
    gale__table_cell(t, "%zu", i);
    gale__table_cell(t, "%.60s", *k->operators ? k->operators : k->kind);
    gale__table_cell(t, "%.30s", k->name);
    gale__table_cell(t, "%.2f", k->bytes / 1e6);
    gale__table_cell(t, "%.1f", k->operations / 1e6);
    gale__table_cell(t, "%.1f", k->predicted_us);
    gale__table_cell(t, "%.1f", k->measured_us);
    gale__table_cell(t, "%.0f %%", e->measured_us > 0 ? 100 * k->measured_us / e->measured_us : 0);
}

static gale_status print_text(const gale_explain_result *e, const gale__args *a)
{
    int64_t most = gale__args_int(a, "rows");
    bool *shown = gale__calloc(e->n_kernels + 1, sizeof *shown);
    if (!shown) return GALE_NO_MEMORY;
    gale__table t = {.align = "rllrrrrr"};
    printf("%s on %s %d: %s (%s)\nwhy: %s\n\n", e->model, e->backend, e->device_index, e->device, e->driver, e->why);
    static const char *const heads[] = {
        "#", "operators", "kernel", "MB", "MFLOP", "predicted us", "measured us", "share"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t k = 0; k < e->n_kernels && (!most || k < (size_t)most); k++) {
        size_t i = most ? costliest(e, shown) : k;
        shown[i] = true;
        add_row(&t, e, i);
    }
    gale__table_print(&t, stdout);
    printf("\n%zu kernels and copies: predicted %.1f us, measured %.1f us; ready %.1f ms after opening, of which "
           "reading took %.1f ms\n",
        e->n_kernels, e->predicted_us, e->measured_us, e->open_ms + e->first_ms, e->open_ms);
    gale__free(shown);
    return GALE_OK;
}

/* Without a run: how many nodes there are, and where they would run. */
static gale_status print_graphs(const gale_explain_result *e)
{
    gale__table t = {.align = "lrrrr"};
    static const char *const heads[] = {"graph", "nodes", "device", "host", "control flow"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t i = 0; i < e->n_graphs; i++) {
        size_t count[4] = {0};
        for (size_t k = 0; k < e->graphs[i].n_nodes; k++) count[e->graphs[i].nodes[k].place]++;
        gale__table_cell(&t, "%.80s", e->graphs[i].name);
        gale__table_cell(&t, "%zu", e->graphs[i].n_nodes);
        for (int k = 0; k < 3; k++) gale__table_cell(&t, "%zu", count[k]);
    }
    printf("%s for %s %d: %s\n\n", e->model, e->backend, e->device_index, e->device);
    return gale__table_print(&t, stdout);
}

static gale_status write_page(const gale_explain_result *e, const char *path)
{
    gale__str text = {0};
    gale_status status = gale__explain_html(e, &text);
    if (status == GALE_OK) status = gale__file_write(path, text.text, text.length);
    gale__str_finish(&text);
    if (status == GALE_OK) fprintf(stderr, "%s: open it in a browser\n", path);
    return status;
}

static gale_status show(const gale_explain_result *e, const gale__args *a)
{
    const char *path = gale__args_text(a, "html");
    char *text = NULL;
    if (path) GALE_TRY(write_page(e, path));
    if (!gale__args_flag(a, "json")) return e->n_kernels ? print_text(e, a) : print_graphs(e);
    gale__print_json(gale_explain_result_json(e, &text), &text);
    return GALE_OK;
}

static gale_status work(const gale__args *a, gale_device *device)
{
    gale_model_job_options options;
    gale_explain_result *result = NULL;
    gale__arena arena = {0};
    gale_status status = gale__model_job_options(a, &arena, &options);
    options.no_run = gale__args_flag(a, "no-run");
    if (status == GALE_OK) status = gale_model_explain(gale__args_text(a, "MODEL"), device, &options, &result);
    if (status == GALE_OK) status = show(result, a);
    gale_explain_result_destroy(&result);
    gale__arena_finish(&arena);
    return status;
}

static int run(const gale__args *a) { return gale__on_device(a, work); }

const gale__command gale__command_explain = {
    .args = args,
    .run = run,
    .about =
        "Runs a model with random or given inputs and shows what ran where, why, and at what cost. Lists every kernel "
        "with the operators it implements, the time predicted from the device's peak rates, and the time "
        "measured. --html writes a page that draws all graphs, including those inside nodes, coloured by where "
        "nodes run, with shapes and attributes. --no-run describes the graphs without running anything.",
    .examples = "  gale explain model.onnx --shape x=1x3x256x256\n"
                "  gale explain model.onnx --provider cuda --html model.html\n"
                "  gale explain model.onnx --no-run --html model.html   # the drawing alone\n"
                "  gale explain model.onnx --json --rows 0",
};
