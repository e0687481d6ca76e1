/* Models whose weights stay in the file: given out as results, read by a program, and gone when the file is cut. */
#include "onnx_make.h"
#include "gale/model.h"
#include "graph/run/tensor.h"
#include "base/hash.h"
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
    gale_status status = gale_model_run_named(
        model, (const char *const[]){"x"}, &x, 1, (const char *const[]){"y", "w"}, out, 2, GALE_RUN_ON_HOST);
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
    if (!write_model() ||
        !CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .index = -1, .strict = true}, &device)))
        return;
    CHECK_OK(gale_model_open(path, device, NULL, &model));
    CHECK_OK(gale_model_open(path, device, NULL, &late));
    if (CHECK_OK(run(model, &y, &w))) {
        CHECK(((const float *)gale_tensor_data(y))[N - 1] == N - 0.5f);
        if (CHECK(gale_tensor_data(w) != NULL))
            CHECK(((float *)gale_tensor_data(w))[7] == 7), ((float *)gale_tensor_data(w))[7] = 0;
        gale_tensor_destroy(&y), gale_tensor_destroy(&w);
    }
    if (CHECK_OK(run(model, &y, &w)))
        CHECK(((const float *)gale_tensor_data(y))[7] == 7.5f && ((const float *)gale_tensor_data(w))[7] == 7);
    gale_tensor_destroy(&y), gale_tensor_destroy(&w);
    CHECK(truncate(path, 1000) == 0);
    CHECK_FAILS(run(late, &y, &w), IO);
    CHECK(strstr(gale_error(), "was truncated while it was read") != NULL);
    gale_model_close(&model), gale_model_close(&late);
    gale_device_close(&device);
    gale__file_remove(path);
}

/* y = x + w + b, both in a file beside the model: w is large and stays there, b is read at once unless it is left out.
 */
static gale_status open_external(const char *sha1, const char *other, bool small, gale_device *device, gale_model **out)
{
    maker m;
    gale__str bytes = {0};
    make_begin(&m, 21);
    make_input(&m, "x", 1, "1");
    make_output(&m, "y", 1, "50000");
    make_node(&m, "Add", "x,w", small ? "s" : "y");
    if (small) make_node(&m, "Add", "s,b", "y");
    for (int i = 0; i < 1 + small; i++) {
        gale__pb_tensor *t = make_tensor(&m, i ? "b" : "w", 1, i ? "1" : "50000");
        const char *const entries[][2] = {
            {"location", "test_onnx_file.bin"}, {"offset", i ? "200000" : "0"}, {"checksum", i ? other : sha1}};
        t->data_location = 1;
        for (int k = 0; k < 3; k++)
            if (entries[k][1])
                *MAKE_ADD(&m, t->external_data) =
                    (gale__pb_entry){.key = make_text(&m, entries[k][0]), .value = make_text(&m, entries[k][1])};
        make_initializer(&m, t);
    }
    gale_status status = make_encode(&m, &bytes);
    if (status == GALE_OK) status = gale__file_write(path, bytes.text, bytes.length);
    if (status == GALE_OK) status = gale_model_open(path, device, NULL, out);
    gale__str_finish(&bytes);
    make_end(&m);
    return status;
}

static gale_status run_external(gale_model *model, float expected)
{
    gale_tensor *x = NULL, *y = NULL;
    GALE_TRY(gale_tensor_from_cpu(NULL, GALE_F32, 1, (int64_t[]){1}, (float[]){0.5f}, &x));
    gale_status status = gale_model_run_named(
        model, (const char *const[]){"x"}, &x, 1, (const char *const[]){"y"}, &y, 1, GALE_RUN_ON_HOST);
    if (status == GALE_OK) CHECK(((const float *)gale_tensor_data(y))[3] == expected);
    gale_tensor_destroy(&x), gale_tensor_destroy(&y);
    return status;
}

TEST(checksums)
{
    static float data[N + 1];
    static const char *const none = "0000000000000000000000000000000000000000";
    char hex[41];
    gale__sha s;
    gale_device *device = NULL;
    gale_model *model = NULL;
    for (int i = 0; i <= N; i++) data[i] = (float)i;
    gale__sha1_init(&s), gale__sha_add(&s, data, sizeof data), gale__sha_end_hex(&s, hex);
    if (!CHECK_OK(gale__file_write("test_onnx_file.bin", data, sizeof data)) ||
        !CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .index = -1, .strict = true}, &device)))
        return;
    for (int small = 0; small < 2; small++) {
        if (CHECK_OK(open_external(hex, small ? hex : NULL, small, device, &model)))
            CHECK_OK(run_external(model, 3.5f + (small ? N : 0)));
        gale_model_close(&model);
    }
    /* One that is wrong is found when data is read: opening reads b, and w only when it runs. */
    if (CHECK_OK(open_external(none, NULL, false, device, &model))) CHECK_FAILS(run_external(model, 0), MISMATCH);
    CHECK(strstr(gale_error(), "tensor 'w'") && strstr(gale_error(), "test_onnx_file.bin") &&
          strstr(gale_error(), hex) && strstr(gale_error(), none));
    CHECK_FAILS(run_external(model, 0), MISMATCH); /* and again */
    gale_model_close(&model);
    CHECK_FAILS(open_external(none, none, true, device, &model), MISMATCH);
    CHECK_FAILS(open_external(hex, none, true, device, &model), FORMAT);
    CHECK(strstr(gale_error(), "tensor 'b'") != NULL);
    CHECK_FAILS(open_external("abc", NULL, false, device, &model), FORMAT);
    gale_device_close(&device);
    gale__file_remove(path);
    gale__file_remove("test_onnx_file.bin");
}

TESTS(ROW(weights_of_a_file), ROW(checksums))
