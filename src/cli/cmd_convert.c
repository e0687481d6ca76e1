/* gale convert: a model file into another one. */
#include "cli/cli.h"
#include "cli/convert_int8.h"
#include "cli/data_picture.h"
#include "onnx/edit/edit.h"
#include "onnx/edit/int8.h"
#include "onnx/import/net.h"
#include <string.h>

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "an ONNX file", .required = true},
    {"output", 'o', GALE__ARG_FILE, NULL, NULL, NULL, "the file to write", .writes = true},
    GALE__ARG_OVERWRITE,
    {"emit", 0, GALE__ARG_CHOICE, NULL, "onnx", "onnx|c", "c: a C file with the model as an array of bytes"},
    {"name", 0, GALE__ARG_TEXT, "NAME", NULL, NULL, "--emit c: the array's name; else it follows from the file's"},
    {"external", 0, GALE__ARG_TEXT, "NAME", NULL, NULL, "put large tensors into a file of this name beside the model"},
    {"extract", 0, GALE__ARG_TEXT, "INPUTS:OUTPUTS", NULL, NULL,
        "only what leads from these values to those; names with commas between"},
    {"pin", 0, GALE__ARG_TEXT, "NAME=N", NULL, NULL,
        "give an open extent a number; INPUT:AXIS=N for one without a name", .many = true},
    {"free", 0, GALE__ARG_TEXT, "INPUT[:AXIS]", NULL, NULL, "open the extents of an input, or one of them",
        .many = true},
    {"opset", 0, GALE__ARG_TEXT, "N|newest", NULL, NULL,
        "bring an older model up to opset N, 13 to 27, or to the newest: operators in its form, functions inlined"},
    {"fold", 0, GALE__ARG_FLAG, NULL, NULL, NULL,
        "compute what depends on constants alone, join what is equal, drop what nothing reads"},
    {"precision", 0, GALE__ARG_CHOICE, NULL, NULL, "fp16|bf16|int8",
        "weights and operators in half precision, or weights of products in 8 bit; inputs and outputs stay as they "
        "are"},
    {"calibrate", 0, GALE__ARG_TEXT, "FILE", NULL, NULL,
        "--precision int8: a sample (.npy, .npz, .pb, picture; NAME=FILE,NAME=FILE for several inputs), for "
        "activations in 8 bit",
        .many = true},
    {"leave", 0, GALE__ARG_TEXT, "NAME", NULL, NULL,
        "--precision int8: a node that stays as it is, by name, result or operator; NAME* for all that begin so",
        .many = true},
    GALE__ARGS_PICTURES,
    {0},
};

static gale_status pin(gale__onnx *file, gale__pb_model *model, const char *text)
{
    const char *equals = strrchr(text, '=');
    char name[256];
    int64_t value;
    if (!equals || (size_t)(equals - text) >= sizeof name || !gale__text_to_i64(equals + 1, &value))
        return gale__fail(GALE_INVALID, "--pin %s: it is NAME=N", text);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    return gale__edit_pin(file, model, name, value);
}

static gale_status fold(gale__onnx *file, gale__pb_model *model)
{
    gale_device *cpu = NULL;
    GALE_TRY(gale_device_open(&(gale_device_options){.chain = "cpu"}, &cpu));
    gale_status status = gale__edit_fold(file, model, cpu);
    gale_device_close(&cpu);
    return status;
}

/* To the opset that was asked for; for 8 bit to the least that has a scale for each channel. */
static gale_status bring_up(const gale__args *a, gale__onnx *file, gale__pb_model *model)
{
    const char *opset = gale__args_text(a, "opset"), *precision = gale__args_text(a, "precision");
    int64_t wanted = GALE__OPSET_NEWEST;
    if (opset && strcmp(opset, "newest")) gale__text_to_i64(opset, &wanted);
    if (opset) return gale__edit_opset(file, model, (int)wanted, (int)wanted);
    if (!precision || strcmp(precision, "int8") || gale__edit_opset_of(model) >= GALE__INT8_OPSET) return GALE_OK;
    return gale__edit_opset(file, model, GALE__INT8_OPSET, GALE__OPSET_NEWEST);
}

static gale_status edit(const gale__args *a, gale__onnx *file, gale__pb_model *model)
{
    const char *text;
    if ((text = gale__args_text(a, "extract"))) GALE_TRY(gale__edit_extract(file, model, text));
    for (size_t i = 0; (text = gale__args_item(a, "free", i)); i++) GALE_TRY(gale__edit_free(file, model, text));
    for (size_t i = 0; (text = gale__args_item(a, "pin", i)); i++) GALE_TRY(pin(file, model, text));
    GALE_TRY(bring_up(a, file, model));
    if (gale__args_flag(a, "fold")) GALE_TRY(fold(file, model));
    if ((text = gale__args_text(a, "precision")) && !strcmp(text, "int8")) GALE_TRY(gale__convert_int8(a, file, model));
    else if (text) GALE_TRY(gale__edit_precision(file, model, !strcmp(text, "fp16") ? GALE_F16 : GALE_BF16));
    return GALE_OK;
}

/* "path/my-model.v2.c" to my_model_v2, "default.c" to model_default. */
static void name_of(const char *path, char name[128])
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    char plain[128 - sizeof "model_"];
    snprintf(plain, sizeof plain, "%.*s", dot && dot > base ? (int)(dot - base) : (int)strlen(base), base);
    for (char *p = plain; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) *p = '_';
    snprintf(name, 128, "%s%s", gale__edit_is_c_name(plain) ? "" : "model_", plain);
}

static gale_status convert(const gale__args *a, const char *path, const char *output)
{
    gale__onnx *file = NULL;
    char name[128];
    GALE_TRY(gale__onnx_open(path, GALE__PB_KIND_MODEL, &file));
    gale__pb_model *model = gale__onnx_root(file);
    gale_status status = edit(a, file, model);
    if (status != GALE_OK) status = gale__fail_within(status, "%s", path);
    else if (!strcmp(gale__args_text(a, "emit"), "c")) {
        name_of(output, name);
        status =
            gale__edit_emit_c(file, model, gale__args_given(a, "name") ? gale__args_text(a, "name") : name, output);
    } else status = gale__onnx_write(file, model, output, gale__args_text(a, "external"));
    gale__onnx_close(&file);
    return status;
}

static int run(const gale__args *a)
{
    const char *output = gale__args_text(a, "output");
    bool c = !strcmp(gale__args_text(a, "emit"), "c");
    const char *opset = gale__args_text(a, "opset");
    int64_t number = 0;
    bool fits = opset && gale__text_to_i64(opset, &number) && number >= 13 && number <= GALE__OPSET_NEWEST;
    if (opset && !fits && strcmp(opset, "newest"))
        return gale__usage("convert", "--opset: '%s' is neither 13 to %d nor newest", opset, GALE__OPSET_NEWEST);
    if (!output) return gale__usage("convert", "where to? --output FILE is missing");
    if (c && gale__args_given(a, "external"))
        return gale__usage("convert", "a C file holds everything: --external does not go with --emit c");
    bool int8 = gale__args_given(a, "precision") && !strcmp(gale__args_text(a, "precision"), "int8");
    if (gale__args_given(a, "calibrate") && !int8)
        return gale__usage("convert", "--calibrate goes with --precision int8");
    if (gale__args_given(a, "leave") && !int8) return gale__usage("convert", "--leave goes with --precision int8");
    return gale__report(convert(a, gale__args_text(a, "MODEL"), output));
}

const gale__command gale__command_convert = {
    .args = args,
    .run = run,
    .about = "Writes a model again, changed as the options say. The steps are taken in this order: extract, free, pin, "
             "opset, fold, precision, emit. What is not asked for stays "
             "as it was, also what gale does not know of.\n\n"
             "Half precision: operators that take it compute in it, others stay in single precision, with Cast nodes "
             "between. Numbers beyond the "
             "largest of the type become the largest.\n\n"
             "8 bit: weights of MatMul, Gemm and Conv become int8 with a scale for each channel, for which models of "
             "an opset "
             "before 13 are brought up to the least opset that can express them. With samples "
             "(--calibrate), what these operators read is held to uint8 in the range it had "
             "there, evened out by channel where that loses less, and what the outputs lost is printed. Nodes named by "
             "--leave stay in single precision.\n\n"
             "Folding: results that would be much larger than what they are computed from stay nodes. Where all "
             "extents of the inputs are fixed (--pin), so are the shapes that follow from them.",
    .examples = "  gale convert model.onnx -o small.onnx --external small.bin   # weights beside the model\n"
                "  gale convert model.onnx -o fixed.onnx --pin batch=1 --pin height=256\n"
                "  gale convert old.onnx -o new.onnx --opset newest\n"
                "  gale convert model.onnx -o plain.onnx --pin batch=1 --fold\n"
                "  gale convert model.onnx -o open.onnx --free input:0\n"
                "  gale convert model.onnx -o part.onnx --extract x,y:z\n"
                "  gale convert model.onnx -o half.onnx --precision fp16\n"
                "  gale convert model.onnx -o small.onnx --fold --precision int8 --calibrate a.npy "
                "--calibrate b.npy\n"
                "  gale convert model.onnx -o model.c --emit c",
};
