/* A model that is part of the program: written by `gale convert --emit c` when this was built, run through the public
 * interface alone. */
#include "gale/model.h"
#include "test.h"

extern const unsigned char embedded_gemm[];
extern const size_t embedded_gemm_size;

TEST(runs)
{
    static const int64_t dims[] = {1, 3};
    static const float x[] = {1, 2, 3};
    gale_device_options options = {.chain = "cpu"};
    gale_device *device = NULL;
    gale_model *model = NULL;
    gale_tensor *in = NULL, *out = NULL;
    const char *in_name = "x", *out_name = "y";
    if (!CHECK_OK(gale_device_open(&options, &device)) ||
        !CHECK_OK(gale_model_from_memory(embedded_gemm, embedded_gemm_size, 0, device, NULL, &model)))
        return;
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 2, dims, x, &in));
    if (CHECK_OK(gale_model_run_named(model, &in_name, &in, 1, &out_name, &out, 1, GALE_RUN_ON_HOST))) {
        const float *y = gale_tensor_data(out); /* 2 x w + b, w = 1 2, 3 4, 5 6, b = 0.5 -0.5 */
        CHECK(y[0] == 44.5f && y[1] == 55.5f);
    }
    gale_tensor_destroy(&in);
    gale_tensor_destroy(&out);
    gale_model_close(&model);
    gale_device_close(&device);
}

TESTS(ROW(runs))
