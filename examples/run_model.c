/* Run an ONNX model by the names of its inputs and outputs.
 *
 *     run_model MODEL.onnx [PROVIDERS]
 *
 * Inputs are filled with 0.5; extents that the file leaves open become 1. */
#include <gale/model.h>
#include <stdio.h>

enum { MOST = 16 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gale_error());
    return 1;
}

static gale_status make_input(const gale_model_value *v, gale_tensor **out)
{
    int64_t dims[GALE_MAX_RANK], count = 1;
    for (int i = 0; i < v->rank; i++) count *= dims[i] = v->dims[i] < 0 ? 1 : v->dims[i];
    gale_status status = gale_tensor_create(NULL, v->type, v->rank, dims, out);
    float *data = status == GALE_OK && v->type == GALE_F32 ? gale_tensor_data(*out) : NULL;
    for (int64_t i = 0; data && i < count; i++) data[i] = 0.5f;
    return status;
}

int main(int argc, char **argv)
{
    gale_device_options where = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    gale_model *model = NULL;
    const char *in_names[MOST], *out_names[MOST];
    gale_tensor *in[MOST] = {0}, *out[MOST] = {0};
    if (argc < 2) return fprintf(stderr, "usage: run_model MODEL.onnx [PROVIDERS]\n"), 2;
    where.chain = argc > 2 ? argv[2] : NULL;
    if (gale_device_open(&where, &device) != GALE_OK) return failed("device");
    if (gale_model_open(argv[1], device, NULL, &model) != GALE_OK) return failed("model");
    int n_in = gale_model_inputs(model), n_out = gale_model_outputs(model);
    if (n_in > MOST || n_out > MOST) return fprintf(stderr, "more than %d inputs or outputs\n", MOST), 1;

    for (int i = 0; i < n_in; i++) {
        gale_model_value v;
        gale_model_input(model, i, &v);
        in_names[i] = v.name;
        if (make_input(&v, &in[i]) != GALE_OK) return failed(v.name);
    }
    for (int i = 0; i < n_out; i++) {
        gale_model_value v;
        gale_model_output(model, i, &v);
        out_names[i] = v.name;
    }
    if (gale_model_run_named(model, in_names, in, n_in, out_names, out, n_out, GALE_RUN_ON_HOST) != GALE_OK)
        return failed("run");

    for (int i = 0; i < n_out; i++) {
        printf("%s: %s, %zu bytes", out_names[i], gale_type_name(gale_tensor_type(out[i])),
            gale_tensor_size_bytes(out[i]));
        if (gale_tensor_type(out[i]) == GALE_F32 && gale_tensor_size_bytes(out[i]))
            printf(", begins with %g", (double)*(float *)gale_tensor_data(out[i]));
        putchar('\n');
        gale_tensor_destroy(&out[i]);
    }
    for (int i = 0; i < n_in; i++) gale_tensor_destroy(&in[i]);
    gale_model_close(&model);
    gale_device_close(&device);
    return 0;
}
