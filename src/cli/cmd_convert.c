/* gale convert: parses options, and prints the losses of 8-bit models. */
#include "cli/cli.h"
#include "cli/model_args.h"
#include "cli/table.h"
#include "onnx/import/net.h"
#include <string.h>

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "an ONNX file", .required = true},
    {"output", 'o', GALE__ARG_FILE, NULL, NULL, NULL, "output file", .writes = true},
    GALE__ARG_OVERWRITE,
    {"emit", 0, GALE__ARG_CHOICE, NULL, "onnx", "onnx|c",
        "c: write a C source file with the model as an array of bytes"},
    {"name", 0, GALE__ARG_TEXT, "NAME", NULL, NULL,
        "--emit c: name of the array (default: derived from the file name)"},
    {"external", 0, GALE__ARG_TEXT, "NAME", NULL, NULL, "store large tensors in a file of this name beside the model"},
    {"extract", 0, GALE__ARG_TEXT, "INPUTS:OUTPUTS", NULL, NULL,
        "keep only the part between these inputs and outputs; separate names with commas"},
    {"pin", 0, GALE__ARG_TEXT, "NAME=N", NULL, NULL, "fix an open extent; INPUT:AXIS=N for one without a name",
        .many = true},
    {"free", 0, GALE__ARG_TEXT, "INPUT[:AXIS]", NULL, NULL, "make the extents of an input variable, or one of them",
        .many = true},
    {"opset", 0, GALE__ARG_TEXT, "N|newest", NULL, NULL,
        "upgrade an older model to opset N, 13 to 28, or to the newest; functions are inlined"},
    {"fold", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "evaluate everything that depends only on constants, merge duplicates, remove unused nodes"},
    {"precision", 0, GALE__ARG_CHOICE, NULL, NULL, "fp16|bf16|int8",
        "convert weights and operators to half precision, or weights of products to 8 bits; inputs and outputs keep "
        "their types"},
    {"calibrate", 0, GALE__ARG_TEXT, "FILE", NULL, NULL,
        "--precision int8: a sample (.npy, .npz, .pb, picture; NAME=FILE,NAME=FILE for several inputs), to quantise "
        "activations too",
        .many = true},
    {"leave", 0, GALE__ARG_TEXT, "NAME", NULL, NULL,
        "--precision int8: keep a node unchanged, given by name, result or operator; NAME* matches a prefix",
        .many = true},
    GALE__ARGS_PICTURES,
    {0},
};

static bool is_int8(const gale__args *a)
{
    return gale__args_given(a, "precision") && !strcmp(gale__args_text(a, "precision"), "int8");
}

static gale_status read_options(const gale__args *a, gale__arena *arena, gale_convert_options *o)
{
    const char *opset = gale__args_text(a, "opset"), *precision = gale__args_text(a, "precision");
    int64_t number = GALE_OPSET_NEWEST;
    *o = (gale_convert_options){.extract = gale__args_text(a, "extract"),
        .fold = gale__args_flag(a, "fold"),
        .external = gale__args_text(a, "external"),
        .emit_c = !strcmp(gale__args_text(a, "emit"), "c"),
        .c_name = gale__args_text(a, "name")};
    if (opset && strcmp(opset, "newest")) gale__text_to_i64(opset, &number);
    if (opset) o->opset = (int)number;
    if (precision)
        o->precision = is_int8(a)                   ? GALE_CONVERT_INT8
                       : !strcmp(precision, "fp16") ? GALE_CONVERT_F16
                                                    : GALE_CONVERT_BF16;
    gale__pixel_options(a, &o->pixels);
    GALE_TRY(gale__args_list(a, "free", arena, &o->frees, &o->n_frees));
    GALE_TRY(gale__args_list(a, "pin", arena, &o->pins, &o->n_pins));
    GALE_TRY(gale__args_list(a, "calibrate", arena, &o->samples, &o->n_samples));
    return gale__args_list(a, "leave", arena, &o->leave, &o->n_leave);
}

static void add_loss(gale__table *t, double loss)
{
    if (loss < 0) gale__table_cell(t, "-");
    else gale__table_cell(t, "%.2e", loss);
}

/* The layers that lose most, which are the first to leave in single precision.  Without samples nothing is known of
 * what the outputs lose, and a warning reports this where weights lose much. */
static void print_layers(const gale_convert_result *r)
{
    enum { ROWS = 10 };
    const double much = 0.03;
    gale__table t = {.align = r->n_samples ? "lrrr" : "lr"};
    if (!r->n_layers) return;
    gale__table_cell(&t, "node");
    gale__table_cell(&t, "weights lose (relative L2)");
    if (r->n_samples) gale__table_cell(&t, "its result loses"), gale__table_cell(&t, "of that, added here");
    for (size_t i = 0; i < r->n_layers && i < ROWS; i++) {
        gale__table_cell(&t, "%.80s", r->layers[i].node);
        gale__table_cell(&t, "%.2e", r->layers[i].relative);
        if (!r->n_samples) continue;
        add_loss(&t, r->layers[i].result_relative);
        add_loss(&t, r->layers[i].added_relative);
    }
    gale__table_print(&t, stdout);
    if (r->n_layers > ROWS) printf("(%zu more layers)\n", r->n_layers - ROWS);
    if (r->n_samples || r->layers[0].relative <= much) return;
    gale__log(GALE__WARN,
        "%s loses %.0f %% of its weights; give samples (--calibrate) to see what outputs lose, compare with `gale "
        "verify`, or leave it (--leave %s)",
        r->layers[0].node, 100 * r->layers[0].relative, r->layers[0].node);
}

static void print_advice(const gale_convert_result *r)
{
    if (!r->n_to_leave && r->loss_if_left > 0)
        printf(
            "no small set of layers causes the loss: with the worst ones in float, an output would still lose %.3g\n",
            r->loss_if_left);
    if (!r->n_to_leave) return;
    printf("an output would lose at most %.3g with %zu of the layers in float:\n ", r->loss_if_left, r->n_to_leave);
    for (size_t i = 0; i < r->n_to_leave; i++) printf(" --leave '%s'", r->layers[i].node);
    printf("\n");
}

/* Before the file is written, which may fail. */
static bool print_losses(void *user, const gale_convert_result *r)
{
    (void)user;
    print_layers(r);
    if (!r->n_samples) return true;
    gale__table t = {.align = "lrr"};
    gale__table_cell(&t, "output");
    gale__table_cell(&t, "relative L2");
    gale__table_cell(&t, "PSNR");
    for (size_t i = 0; i < r->n_losses; i++) {
        const gale_convert_loss *l = &r->losses[i];
        gale__table_cell(&t, "%s", l->output);
        gale__table_cell(&t, "%.3g", l->relative);
        if (l->psnr_db) gale__table_cell(&t, "%.1f dB", l->psnr_db);
        else gale__table_cell(&t, "-");
    }
    gale__table_print(&t, stdout);
    printf("%d weights in 8 bits, %d activations in 8 bits (%d with channel factors); %d samples\n", r->n_weights,
        r->n_activations, r->n_smoothed, r->n_samples);
    print_advice(r);
    return true;
}

static int convert(const gale__args *a, const char *output)
{
    gale_convert_options options;
    gale__arena arena = {0};
    gale_status status = read_options(a, &arena, &options);
    options.accept = print_losses;
    if (status == GALE_OK) status = gale_model_convert(gale__args_text(a, "MODEL"), output, &options, NULL);
    gale__arena_finish(&arena);
    return gale__report(status);
}

static int run(const gale__args *a)
{
    const char *output = gale__args_text(a, "output");
    bool c = !strcmp(gale__args_text(a, "emit"), "c");
    const char *opset = gale__args_text(a, "opset");
    int64_t number = 0;
    bool fits = opset && gale__text_to_i64(opset, &number) && number >= 13 && number <= GALE__OPSET_NEWEST;
    if (opset && !fits && strcmp(opset, "newest"))
        return gale__usage(
            "convert", "--opset: '%s' is neither a number from 13 to %d nor newest", opset, GALE__OPSET_NEWEST);
    if (!output) return gale__usage("convert", "missing option: --output FILE");
    if (c && gale__args_given(a, "external"))
        return gale__usage("convert", "--external cannot be combined with --emit c: a C file contains everything");
    if (gale__args_given(a, "calibrate") && !is_int8(a))
        return gale__usage("convert", "--calibrate requires --precision int8");
    if (gale__args_given(a, "leave") && !is_int8(a)) return gale__usage("convert", "--leave requires --precision int8");
    return convert(a, output);
}

const gale__command gale__command_convert = {
    .args = args,
    .run = run,
    .about = "Writes a modified copy of a model. Steps are applied in this order: extract, free, pin, opset, fold, "
             "precision, emit. Everything else is preserved, including fields unknown to gale.\n"
             "\n"
             "Half precision: operators that support it compute in it, others stay in single precision, with Cast "
             "nodes in between. Numbers out of range become the largest number of the type.\n"
             "\n"
             "8 bits: weights of MatMul, Gemm and Conv become int8 with one scale per channel; models older than opset "
             "13 are upgraded to the lowest opset that can express this. With samples (--calibrate), the inputs of "
             "these operators are quantised to uint8 in the range observed, with channel factors where these reduce "
             "the error. The loss of each layer and of each output is printed, with the layers that should stay in "
             "float if that helps. Nodes named by --leave stay in single precision.\n"
             "\n"
             "Folding: results that would be much larger than their inputs stay nodes. If all extents of the inputs "
             "are fixed (--pin), shapes derived from them are folded too.",
    .examples = "  gale convert model.onnx -o small.onnx --external small.bin   # weights in a separate file\n"
                "  gale convert model.onnx -o fixed.onnx --pin batch=1 --pin height=256\n"
                "  gale convert old.onnx -o new.onnx --opset newest\n"
                "  gale convert model.onnx -o plain.onnx --pin batch=1 --fold\n"
                "  gale convert model.onnx -o open.onnx --free input:0\n"
                "  gale convert model.onnx -o part.onnx --extract x,y:z\n"
                "  gale convert model.onnx -o half.onnx --precision fp16\n"
                "  gale convert model.onnx -o small.onnx --fold --precision int8 --calibrate a.npy --calibrate b.npy\n"
                "  gale convert model.onnx -o model.c --emit c",
};
