/* Models whose weights stay in the file: given out as results, read by a program, and gone when the file is cut. */
#include "onnx_make.h"
#include "gale/model.h"
#include "graph/tensor.h"
#include "test.h"
#include <unistd.h>

enum { N = 50000 };
static const char *const path = "test_onnx_file.onnx";

/* y = x + w, and w itself: 200 kB of raw data at the end of the graph. */
static bool write_model(void)
{
    maker m;
    gale__str bytes = {0};
    float *w = malloc(N * sizeof *w);
    for (int i = 0; i < N; i++) w[i] = (float)i;
    make_begin(&m, 21);
    make_input(&m, "x", 1, "1");
    make_output(&m, "y", 1, "50000");
    make_output(&m, "w", 1, "50000");
    make_node(&m, "Add", "x,w", "y");
    gale__pb_tensor *t = make_tensor(&m, "w", 1, "50000");
    make_raw(&m, t, w, N * sizeof *w);
    make_initializer(&m, t);
    bool ok = CHECK_OK(make_encode(&m, &bytes)) && CHECK_OK(gale__file_write(path, bytes.text, bytes.length));
    gale__str_finish(&bytes);
    make_end(&m);
    free(w);
    return ok;
}

static gale_status run(gale_model *model, gale_tensor **y, gale_tensor **w)
{
    gale_tensor *x = NULL, *out[2] = {NULL, NULL};
    GALE_TRY(gale_tensor_from_cpu(NULL, GALE_F32, 1, (int64_t[]){1}, (float[]){0.5f}, &x));
    gale_status status = gale_model_run_named(model, (const char *const[]){"x"}, &x, 1, (const char *const[]){"y", "w"}, out, 2, true);
    gale_tensor_destroy(&x);
    if (status != GALE_OK) return status;
    *y = out[0];
    *w = out[1];
    return GALE_OK;
}

TEST(weights_of_a_file)
{
    gale_device *device = NULL;
    gale_model *model = NULL, *late = NULL;
    gale_tensor *y = NULL, *w = NULL;
    if (!write_model() || !CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .index = -1, .strict = true}, &device))) return;
    CHECK_OK(gale_model_open(path, device, NULL, &model));
    CHECK_OK(gale_model_open(path, device, NULL, &late));
    if (CHECK_OK(run(model, &y, &w))) {
        CHECK(((const float *)gale_tensor_data(y))[N - 1] == N - 0.5f);
        if (CHECK(gale_tensor_data(w) != NULL)) CHECK(((float *)gale_tensor_data(w))[7] == 7), ((float *)gale_tensor_data(w))[7] = 0;
        gale_tensor_destroy(&y), gale_tensor_destroy(&w);
    }
    if (CHECK_OK(run(model, &y, &w))) CHECK(((const float *)gale_tensor_data(y))[7] == 7.5f && ((const float *)gale_tensor_data(w))[7] == 7);
    gale_tensor_destroy(&y), gale_tensor_destroy(&w);
    CHECK(truncate(path, 1000) == 0);
    CHECK_FAILS(run(late, &y, &w), IO);
    CHECK(strstr(gale_error(), "became shorter while it was read") != NULL);
    gale_model_close(&model), gale_model_close(&late);
    gale_device_close(&device);
    gale__file_remove(path);
}

TESTS(ROW(weights_of_a_file))
