/* gale explain: where each part of a model runs and what it costs, predicted from the device's ceilings and measured in
 * one steady run. */
#include "base/file.h"
#include "base/json.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/explain.h"
#include "cli/model_inputs.h"
#include "cli/table.h"
#include "device/ceilings.h"
#include <string.h>

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "ONNX file", NULL, true},
    GALE__ARGS_MODEL_INPUTS,
    {"html", 0, GALE__ARG_FILE, NULL, NULL, NULL, "write a page with the graph drawn and a bar for every kernel",
        .writes = true},
    {"rows", 'n', GALE__ARG_INT, "N", "40", "0..1000000", "kernels in the table, the costliest first; 0: all in order"},
    GALE__ARGS_MODEL_OPTIONS,
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

double gale__predict_us(const gale_device_ceilings *c, const gale__profiler_record *r)
{
    if (r->kind != GALE__SPAN_KERNEL || c->copy_gbps <= 0) return 0;
    return gale__ceiling_us(c, r->bytes, r->operations);
}

static const gale_device_ceilings *ceilings(const gale__explained *e)
{
    return &gale_device_get_info(e->device)->ceilings;
}

/* The i-th costliest record not yet shown; the lists are short enough for a plain search. */
static size_t costliest(const gale__explained *e, const bool *shown)
{
    size_t best = e->count;
    for (size_t i = 0; i < e->count; i++)
        if (!shown[i] && (best == e->count || e->records[i].time_us > e->records[best].time_us)) best = i;
    return best;
}

static void add_row(gale__table *t, const gale__explained *e, size_t i)
{
    const gale__profiler_record *r = &e->records[i];
    double predicted = gale__predict_us(ceilings(e), r);
    gale__table_cell(t, "%zu", i),
        gale__table_cell(t, "%.60s", r->op && *r->op ? r->op : gale__profiler_span_kind_name(r->kind)),
        gale__table_cell(t, "%.30s", r->name);
    gale__table_cell(t, "%.2f", r->bytes / 1e6), gale__table_cell(t, "%.1f", r->operations / 1e6),
        gale__table_cell(t, "%.1f", predicted), gale__table_cell(t, "%.1f", r->time_us);
    gale__table_cell(t, "%.0f %%", e->measured_us > 0 ? 100 * r->time_us / e->measured_us : 0);
}

static gale_status print_text(const gale__explained *e, const gale__args *a)
{
    const gale_device_info *d = gale_device_get_info(e->device);
    int64_t most = gale__args_int(a, "rows");
    bool *shown = gale__calloc(e->count + 1, sizeof *shown);
    if (!shown) return GALE_NO_MEMORY;
    gale__table t = {.align = "rllrrrrr"};
    printf("%s on %s %d: %s (%s)\nwhy: %s\n\n", e->model, d->backend, d->index, d->name, d->driver,
        gale_device_why(e->device));
    static const char *const heads[] = {
        "#", "operators", "kernel", "MB", "MFLOP", "predicted us", "measured us", "share"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t k = 0; k < e->count && (!most || k < (size_t)most); k++) {
        size_t i = most ? costliest(e, shown) : k;
        shown[i] = true;
        add_row(&t, e, i);
    }
    gale__table_print(&t, stdout);
    printf("\n%zu kernels and copies: predicted %.1f us, measured %.1f us; ready %.1f ms after opening, of which "
           "reading took %.1f ms\n",
        e->count, e->predicted_us, e->measured_us, e->open_ms + e->first_ms, e->open_ms);
    gale__free(shown);
    return GALE_OK;
}

static void add_json(const gale__explained *e, gale__str *text)
{
    const gale_device_info *d = gale_device_get_info(e->device);
    gale__json_out j;
    gale__json_begin(&j, text);
    gale__json_object(&j);
    gale__json_key(&j, "model"), gale__json_string(&j, e->model);
    gale__json_key(&j, "backend"), gale__json_string(&j, d->backend);
    gale__json_key(&j, "device"), gale__json_string(&j, d->name);
    gale__json_key(&j, "why"), gale__json_string(&j, gale_device_why(e->device));
    gale__json_key(&j, "predicted_us"), gale__json_f64(&j, e->predicted_us);
    gale__json_key(&j, "measured_us"), gale__json_f64(&j, e->measured_us);
    gale__json_key(&j, "kernels");
    gale__json_array(&j);
    for (size_t i = 0; i < e->count; i++) {
        const gale__profiler_record *r = &e->records[i];
        gale__json_object(&j);
        gale__json_key(&j, "kind"), gale__json_string(&j, gale__profiler_span_kind_name(r->kind));
        gale__json_key(&j, "operators"), gale__json_string(&j, r->op ? r->op : "");
        gale__json_key(&j, "kernel"), gale__json_string(&j, r->name ? r->name : "");
        gale__json_key(&j, "bytes"), gale__json_f64(&j, r->bytes);
        gale__json_key(&j, "operations"), gale__json_f64(&j, r->operations);
        gale__json_key(&j, "predicted_us"), gale__json_f64(&j, gale__predict_us(ceilings(e), r));
        gale__json_key(&j, "measured_us"), gale__json_f64(&j, r->time_us);
        gale__json_close(&j, '}');
    }
    gale__json_close(&j, ']');
    gale__json_close(&j, '}');
    gale__str_add(text, "\n");
}

static gale_status show(const gale__explained *e, const gale__args *a)
{
    const char *path = gale__args_text(a, "html");
    gale__str text = {0};
    gale_status status = GALE_OK;
    if (path) {
        gale__explain_html(e, &text);
        status = gale__str_check(&text);
        if (status == GALE_OK) status = gale__file_write(path, text.text, text.length);
        gale__str_finish(&text);
        if (status == GALE_OK) fprintf(stderr, "%s: open it in a browser\n", path);
    }
    if (status != GALE_OK) return status;
    if (!gale__args_flag(a, "json")) return print_text(e, a);
    add_json(e, &text);
    gale__print(&text);
    return GALE_OK;
}

static gale_status work(const gale__args *a, gale_device *device)
{
    gale__explained e = {.model = gale__args_text(a, "MODEL"), .device = device};
    gale_model_options options;
    gale_model *m = NULL;
    gale_object **inputs = NULL;
    gale_profiler *profiler = NULL;
    double ms;
    gale_status status;
    gale__model_options(a, &options);
    uint64_t start = gale__time_ns();
    GALE_GO(gale__model_open_with(a, e.model, device, &options, &m));
    e.open_ms = (double)(gale__time_ns() - start) / 1e6;
    e.session = gale__onnx_model_session(m);
    GALE_GO(gale__model_inputs_make(m, a, true, &inputs));
    GALE_GO(gale__model_run_timed(m, inputs, &e.first_ms));
    GALE_GO(gale__model_run_timed(m, inputs, &ms));
    GALE_GO(gale_profiler_start(device, &profiler));
    status = gale__model_run_timed(m, inputs, &ms);
    gale_status stopped = gale_profiler_stop(profiler);
    if (status == GALE_OK) status = stopped;
    if (status != GALE_OK) goto done;
    e.records = profiler->records;
    e.count = profiler->count;
    for (size_t i = 0; i < e.count; i++) {
        if (e.records[i].time_us > 0) e.measured_us += e.records[i].time_us;
        e.predicted_us += gale__predict_us(ceilings(&e), &e.records[i]);
    }
    status = show(&e, a);
done:
    gale_profiler_destroy(&profiler);
    if (m) gale__objects_free(&inputs, gale_model_inputs(m));
    gale_model_close(&m);
    return status;
}

static int run(const gale__args *a) { return gale__on_device(a, work); }

const gale__command gale__command_explain = {
    .args = args,
    .run = run,
    .about = "Runs a model with made-up or given inputs and tells what ran where, why, and what it cost: every kernel "
             "with the operators it stands for, the time its device's ceilings allow "
             "and the time it took. --html draws the graph, coloured by where its nodes ran.",
    .examples = "  gale explain model.onnx --shape x=1x3x256x256\n"
                "  gale explain model.onnx --provider cuda --html model.html\n"
                "  gale explain model.onnx --json --rows 0",
};
