/* gale inspect: prints the contents of a model file.  Names come from the file and are printed without control
 * characters. */
#include "cli/cli.h"
#include "cli/model_args.h"
#include "jobs/model/inspect.h"
#include <string.h>

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "an ONNX file", .required = true},
    {"shapes", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "also list the type and shape of every value, with the open extents of the inputs as symbols"},
    {"plan", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "also show what a run needs and where its parts run: operations and bytes by operator, memory; inputs are "
        "random (--shape)"},
    GALE__ARGS_MODEL_INPUTS,
    GALE__ARGS_MODEL_OPTIONS,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    GALE__ARG_JSON,
    {0},
};

enum { LISTED_MOST = 16 };

static void add_plain(gale__str *out, const char *text) { gale__add_plain(out, text, strlen(text)); }

static bool is_standard(const char *domain) { return !strcmp(domain, "ai.onnx"); }

static void add_line(gale__str *out, const char *word, const char *a, const char *b)
{
    if (!*a && !*b) return;
    gale__str_addf(out, "%-11s", word);
    add_plain(out, a);
    if (*b) gale__str_add(out, " ");
    add_plain(out, b);
    gale__str_add(out, "\n");
}

static void add_value(gale__str *out, const char *word, const gale_inspect_value *v, const char *end)
{
    gale__str_addf(out, "%-11s", word);
    add_plain(out, v->name);
    gale__str_add(out, "  ");
    add_plain(out, v->type); /* symbols come from the file too */
    gale__str_addf(out, "%s\n", end);
}

/* Those with a value in the file come last; where every weight is listed, as older files do, their number says it. */
static void add_inputs(gale__str *out, const gale_inspect_result *r)
{
    size_t given = 0;
    for (size_t i = 0; i < r->n_inputs; i++) {
        if (r->inputs[i].optional) given++;
        else add_value(out, "input", &r->inputs[i], "");
    }
    for (size_t i = 0; i < r->n_inputs && given <= LISTED_MOST; i++)
        if (r->inputs[i].optional) add_value(out, "input", &r->inputs[i], " (optional: has a default in the file)");
    if (given > LISTED_MOST)
        gale__str_addf(out, "%-11s%zu more are optional: they have a default in the file\n", "input", given);
}

static void add_counts(gale__str *out, const gale_inspect_result *r)
{
    char bytes[32];
    gale__str_addf(out, "%-11s%llu in %zu tensors, %s", "parameters", (unsigned long long)r->parameters, r->n_tensors,
        gale__bytes_text(r->parameter_bytes, bytes));
    if (r->n_external_tensors) gale__str_addf(out, ", %zu of them in external files", r->n_external_tensors);
    gale__str_addf(out, "\n%-11s%zu\n", "nodes", r->n_nodes);
    for (size_t i = 0; i < r->n_operators; i++) {
        gale__str_addf(out, "%8zu   ", r->operators[i].count);
        if (!is_standard(r->operators[i].domain)) {
            add_plain(out, r->operators[i].domain);
            gale__str_add(out, " ");
        }
        add_plain(out, r->operators[i].name);
        gale__str_add(out, "\n");
    }
}

static int print_text(const gale_inspect_result *r)
{
    gale__str out = {0};
    add_line(&out, "producer", r->producer, r->producer_version);
    gale__str_addf(&out, "%-11s%lld\n%-11s", "IR", (long long)r->ir_version, "opsets");
    for (size_t i = 0; i < r->n_opsets; i++) {
        if (i) gale__str_add(&out, ", ");
        add_plain(&out, r->opsets[i].domain);
        gale__str_addf(&out, " %lld", (long long)r->opsets[i].version);
    }
    gale__str_add(&out, "\n");
    add_line(&out, "graph", r->graph, "");
    add_inputs(&out, r);
    for (size_t i = 0; i < r->n_outputs; i++) add_value(&out, "output", &r->outputs[i], "");
    add_counts(&out, r);
    for (size_t i = 0; i < r->n_metadata; i++) {
        gale__str_add(&out, "metadata   ");
        add_plain(&out, r->metadata[i].key);
        gale__str_add(&out, " = ");
        add_plain(&out, r->metadata[i].value);
        gale__str_add(&out, "\n");
    }
    for (size_t i = 0; i < r->n_values; i++) add_value(&out, "value", &r->values[i], "");
    return gale__print(&out);
}

static int print_json(const gale_inspect_result *r)
{
    char *text = NULL;
    return gale__print_text(gale_inspect_result_json(r, &text), &text);
}

static void print_plan(const gale_plan_result *p)
{
    char work[32], constants[32];
    printf("\nplan on %s: %d nodes in %d kernels on the device, %d steps on the host\n", p->device,
        p->n_nodes_on_device, p->n_kernels, p->n_host_steps);
    printf("operations %.3f G, bytes moved %.1f M\n", p->operations / 1e9, p->bytes / 1e6);
    printf("memory     %s for intermediate values, %s for constants other than weights\n\n",
        gale__bytes_text(p->work_bytes, work), gale__bytes_text(p->constant_bytes, constants));
    fputs(p->report, stdout);
}

static gale_status plan(const gale__args *a, gale_device *device)
{
    gale_model_job_options options;
    gale_plan_result *result = NULL;
    gale__arena arena = {0};
    gale_status status = gale__model_job_options(a, &arena, &options);
    if (status == GALE_OK) status = gale_model_plan(gale__args_text(a, "MODEL"), device, &options, &result);
    if (status == GALE_OK) print_plan(result);
    gale_plan_result_destroy(&result);
    gale__arena_finish(&arena);
    return status;
}

static int run(const gale__args *a)
{
    gale_inspect_options options = {.shapes = gale__args_flag(a, "shapes")};
    gale_inspect_result *r = NULL;
    gale_status status = gale_model_inspect(gale__args_text(a, "MODEL"), &options, &r);
    if (status != GALE_OK) return gale__report(status);
    int code = gale__args_flag(a, "json") ? print_json(r) : print_text(r);
    gale_inspect_result_destroy(&r);
    if (code || !gale__args_flag(a, "plan")) return code;
    fflush(stdout);
    return gale__on_device(a, plan);
}

const gale__command gale__command_inspect = {
    .args = args,
    .run = run,
    .about = "Shows the contents of an ONNX file: producer, operator sets, inputs and outputs, number of each operator "
             "(including bodies and functions), and parameters. Nothing is run, and external data is not read. With "
             "--shapes every value is listed too: open extents of the inputs keep their names, so a result may be f32 "
             "[batch, 2*height]; ? is only known in a run.",
    .examples = "  gale inspect model.onnx\n  gale inspect model.onnx --json\n  gale inspect model.onnx --shapes\n  "
                "gale inspect model.onnx --plan --shape x=1x3x256x256 --provider cuda",
};
