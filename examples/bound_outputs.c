/* Keep values on the device: the output of one run is written into a tensor of ours and read by the next one, and
 * nothing comes to the host until the end.
 *
 *     bound_outputs MODEL.onnx [PROVIDERS]       -- one f32 input and one output of the same shape */
#include <gale/model.h>
#include <stdio.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, gale_error());
    return 1;
}

int main(int argc, char **argv)
{
    gale_device_options where = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    gale_model *model = NULL;
    gale_model_value v;
    gale_tensor *buffers[2] = {0};
    gale_object *objects[2] = {0};
    int64_t dims[GALE_MAX_RANK];
    if (argc < 2) return fprintf(stderr, "usage: bound_outputs MODEL.onnx [PROVIDERS]\n"), 2;
    where.chain = argc > 2 ? argv[2] : NULL;
    if (gale_device_open(&where, &device) != GALE_OK) return failed("device");
    if (gale_model_open(argv[1], device, NULL, &model) != GALE_OK) return failed("model");
    if (gale_model_inputs(model) != 1 || gale_model_outputs(model) != 1)
        return fprintf(stderr, "the model must have one input and one output\n"), 1;
    if (gale_model_input(model, 0, &v) != GALE_OK) return failed("input");
    for (int i = 0; i < v.rank; i++) dims[i] = v.dims[i] < 0 ? 1 : v.dims[i];
    for (int i = 0; i < 2; i++) {
        if (gale_tensor_create(device, GALE_F32, v.rank, dims, &buffers[i]) != GALE_OK) return failed("tensor");
        if (gale_object_tensor(buffers[i], &objects[i]) != GALE_OK) return failed("object");
    }
    gale_tensor *start = NULL;
    gale_object *first = NULL;
    if (gale_tensor_create(NULL, GALE_F32, v.rank, dims, &start) != GALE_OK) return failed("tensor");
    size_t count = gale_tensor_size_bytes(start) / sizeof(float);
    for (size_t i = 0; i < count; i++) ((float *)gale_tensor_data(start))[i] = (float)i - 1;
    if (gale_object_tensor(start, &first) != GALE_OK) return failed("object");

    /* start -> buffers[0] -> buffers[1] -> buffers[0] ...: an output that is given is written, not made. */
    gale_object *from = first;
    for (int i = 0; i < 4; i++) {
        gale_object *to = objects[i % 2];
        if (gale_model_run(model, &from, &to, 0) != GALE_OK) return failed("run");
        from = to;
    }
    if (gale_tensor_to_cpu(gale_object_get_tensor(from), gale_tensor_data(start), gale_tensor_size_bytes(start)) !=
        GALE_OK)
        return failed("download");
    for (size_t i = 0; i < count && i < 8; i++) printf("%g ", (double)((float *)gale_tensor_data(start))[i]);
    putchar('\n');

    for (int i = 0; i < 2; i++) gale_object_destroy(&objects[i]), gale_tensor_destroy(&buffers[i]);
    gale_object_destroy(&first);
    gale_tensor_destroy(&start);
    gale_model_close(&model);
    gale_device_close(&device);
    return 0;
}
