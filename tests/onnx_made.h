/* Models that were made (onnx_make.h), opened and run. */
#ifndef GALE_TESTS_ONNX_MADE_H
#define GALE_TESTS_ONNX_MADE_H
#include "gale/model.h"
#include "onnx_make.h"
#include "test.h"

static inline gale_status open_cpu(gale_device **out)
{
    return gale_device_open(&(gale_device_options){.chain = "cpu", .index = -1}, out);
}

static inline gale_status open_made(maker *m, gale_device *device, gale_model **out)
{
    gale__str bytes = {0};
    gale_status status = make_encode(m, &bytes);
    if (status == GALE_OK)
        status = gale_model_from_memory(bytes.text, bytes.length, GALE_MODEL_COPY, device, NULL, out);
    gale__str_finish(&bytes);
    return status;
}

/* One f32 input by name, one result; what is looked at is the run, all before it must go well. */
static inline gale_status try_made(maker *m, const char *input, int rank, const int64_t *dims, const float *data,
    const char *output, gale_tensor **out)
{
    gale_device *device = NULL;
    gale_model *model = NULL;
    gale_tensor *in = NULL;
    gale_status status = GALE_INTERNAL;
    if (CHECK_OK(open_cpu(&device)) && CHECK_OK(open_made(m, device, &model)) &&
        CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, rank, dims, data, &in)))
        status = gale_model_run_named(model, &input, &in, 1, &output, out, 1, GALE_RUN_ON_HOST);
    gale_tensor_destroy(&in);
    gale_model_close(&model);
    gale_device_close(&device);
    return status;
}

/* The same with the result as floats. */
static inline void run_made(maker *m, const char *input, int rank, const int64_t *dims, const float *data,
    const char *output, int64_t n, float *result)
{
    gale_tensor *out = NULL;
    if (CHECK_OK(try_made(m, input, rank, dims, data, output, &out)) &&
        CHECK_EQ(gale_tensor_size_bytes(out), (size_t)n * gale_type_size(gale_tensor_type(out))))
        for (int64_t i = 0; i < n; i++) {
            bool whole = gale_tensor_type(out) == GALE_I32;
            result[i] = whole ? (float)((int32_t *)gale_tensor_data(out))[i] : ((float *)gale_tensor_data(out))[i];
        }
    gale_tensor_destroy(&out);
}
#endif
