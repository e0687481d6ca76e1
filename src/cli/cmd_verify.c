/* gale verify: the table of values that differ most between a device and the CPU. */
#include "cli/cli.h"
#include "cli/model_args.h"
#include "cli/table.h"
#include <stdlib.h>
#include <string.h>

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "ONNX file", NULL, true},
    {"OTHER", 0, GALE__ARG_FILE, NULL, NULL, NULL,
        "a second ONNX file: outputs of this one on the device are compared with those of the first on the CPU"},
    GALE__ARGS_MODEL_INPUTS,
    {"tolerance", 0, GALE__ARG_REAL, "X", "1e-4", "0..1",
        "maximum relative difference (L2 norm) of a node's result (default with fp16 values: 1e-2, with bf16 values: "
        "5e-2)"},
    {"against", 0, GALE__ARG_CHOICE, NULL, NULL, "onnxruntime",
        "compare outputs with those of ONNX Runtime on the CPU instead, run by python3 where it is installed"},
    {"worst", 'n', GALE__ARG_INT, "N", "10", "0..100000", "rows of the table: the nodes that differ most"},
    GALE__ARGS_MODEL_OPTIONS,
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

static int by_difference(const void *x, const void *y)
{
    const gale_verify_value *a = x, *b = y;
    return (a->relative < b->relative) - (a->relative > b->relative);
}

static gale_status print_worst(const gale_verify_result *r, size_t most)
{
    gale_verify_value *worst = gale__calloc(r->n_values + 1, sizeof *worst);
    if (!worst) return GALE_NO_MEMORY;
    if (r->n_values) memcpy(worst, r->values, r->n_values * sizeof *worst);
    qsort(worst, r->n_values, sizeof *worst, by_difference);
    gale__table t = {.align = "llrrl"};
    gale__table_cell(&t, "node");
    gale__table_cell(&t, "value");
    gale__table_cell(&t, "relative");
    gale__table_cell(&t, "largest");
    gale__table_cell(&t, "outcome");
    for (size_t i = 0; i < r->n_values && i < most; i++) {
        const gale_verify_value *v = &worst[i];
        gale__table_cell(&t, "%.60s", v->node);
        gale__table_cell(&t, "%.40s", v->name);
        gale__table_cell(&t, "%.2e", v->relative);
        gale__table_cell(&t, "%.2e", v->largest);
        gale__table_cell(&t, "%s", v->exceeds ? "exceeds" : "agrees");
    }
    gale__free(worst);
    return gale__table_print(&t, stdout);
}

static int print_text(const gale_verify_result *r, size_t worst)
{
    gale_status status = worst ? print_worst(r, worst) : GALE_OK;
    if (status != GALE_OK) return gale__report(status);
    if (r->exceeding)
        printf("first to exceed the tolerance: %.120s, value '%.80s'\n", r->values[r->first].node,
            r->values[r->first].name);
    printf("%zu values on %s compared with %s: %zu agree, %zu differ (tolerance %g)\n", r->n_values, r->device,
        r->against, r->n_values - r->exceeding, r->exceeding, r->tolerance);
    return GALE__EXIT_OK;
}

static int print_json(const gale_verify_result *r)
{
    char *text = NULL;
    return gale__print_json(gale_verify_result_json(r, &text), &text);
}

static gale_status work(const gale__args *a, gale_device *device, gale__arena *arena, gale_verify_result **out)
{
    gale_verify_options options = {.other = gale__args_text(a, "OTHER"), .against = gale__args_text(a, "against")};
    gale__model_options(a, &options.model);
    GALE_TRY(gale__input_options(a, arena, &options.inputs));
    if (gale__args_given(a, "tolerance")) options.tolerance = gale__args_real(a, "tolerance");
    if (gale__args_given(a, "tolerance") && !options.tolerance) options.tolerance = -1;
    return gale_model_verify(gale__args_text(a, "MODEL"), device, &options, out);
}

static int run(const gale__args *a)
{
    gale_device *device = NULL;
    gale_verify_result *r = NULL;
    gale__arena arena = {0};
    gale_status status = gale_device_open(NULL, &device); /* where a run would be fastest does not matter here */
    if (status == GALE_OK) status = work(a, device, &arena, &r);
    int code = status != GALE_OK            ? gale__report_compared(status)
               : gale__args_flag(a, "json") ? print_json(r)
                                            : print_text(r, (size_t)gale__args_int(a, "worst"));
    if (code == GALE__EXIT_OK && r->exceeding) code = GALE__EXIT_DIFFER;
    gale_verify_result_destroy(&r);
    gale__arena_finish(&arena);
    gale_device_close(&device);
    return code;
}

const gale__command gale__command_verify = {
    .args = args,
    .run = run,
    .about = "Runs a model on the CPU and on the chosen device and compares the result of every node. Prints the first "
             "node that exceeds the tolerance, and a table of the nodes that differ most. For this comparison nodes "
             "are not fused; the fused run is compared at its outputs. In half precision only outputs are compared, "
             "with the CPU in single precision. With a second model, or another engine (--against), outputs are "
             "compared with its outputs. Exit code 4 if a value exceeds the tolerance.",
    .examples = "  gale verify model.onnx --provider cuda --shape x=1x3x256x256\n"
                "  gale verify model.onnx --provider cuda --precision fp16\n"
                "  gale verify model.onnx model-int8.onnx --tolerance 0.05\n"
                "  gale verify model.onnx --against onnxruntime\n"
                "  gale verify model.onnx --provider vulkan --input x=photo.npy --worst 30",
};
