/* What real networks cost in fp16 on an H200, as their plans say: kernels and bytes must not grow.  Nothing runs, so
 * no card is needed.  A lost fusion or a lost layout shows here without a clock. */
#include "device/null/null.h"
#include "device/profiler.h"
#include "device/registry.h"
#include "gale/model.h"
#include "nvidia_caps.h"
#include "test.h"
#include <stdlib.h>

typedef struct bound {
    const char *model;
    int64_t dims[4];
    int rank;
    size_t kernels;
    double bytes;
} bound;

static gale_object *input(gale_model *m, int i, const bound *b)
{
    gale_model_value value;
    gale_tensor *tensor = NULL;
    gale_object *object = NULL;
    if (!CHECK_OK(gale_model_input(m, i, &value)) ||
        !CHECK_OK(gale_tensor_create(NULL, value.type, b->rank, b->dims, &tensor)))
        return NULL;
    memset(gale_tensor_data(tensor), 0, gale_tensor_size_bytes(tensor));
    CHECK_OK(gale_object_tensor(tensor, &object));
    gale_tensor_destroy(&tensor);
    return object;
}

/* The second run: the first one also computes what depends on constants alone. */
static void measure(gale_device *null, gale_model *m, gale_object **in, gale_object **out, const bound *b)
{
    gale_profiler *profiler = NULL;
    double bytes = 0;
    if (!CHECK_OK(gale_model_run(m, in, out, 0)) || !CHECK_OK(gale_profiler_start(null, &profiler))) return;
    CHECK_OK(gale_model_run(m, in, out, 0));
    CHECK_OK(gale_profiler_stop(profiler));
    for (size_t i = 0; i < profiler->count; i++) bytes += profiler->records[i].bytes;
    if (CHECK(profiler->count <= b->kernels) + CHECK(bytes <= b->bytes) < 2)
        printf("  %s: %zu kernels, %.3f GB\n", b->model, profiler->count, bytes / 1e9);
    gale_profiler_destroy(&profiler);
}

static void check_bound(const bound *b)
{
    const char *data = getenv("GALE_TEST_DATA");
    char path[512];
    gale_model_options options = {.allow_nonfinite = true, .program.precision = GALE_PRECISION_F16};
    gale_device *null = NULL;
    gale_model *m = NULL;
    gale_object *in[4] = {0}, *out[4] = {0};
    snprintf(path, sizeof path, "%s/models/%s", data ? data : "", b->model);
    FILE *file = data ? fopen(path, "rb") : NULL;
    if (!file) {
        SKIP("GALE_TEST_DATA has no models/%s", b->model);
        return;
    }
    fclose(file);
    gale__null_set_caps(&nvidia);
    CHECK_OK(gale__device_open_one(&gale__backend_null, 0, NULL, &null));
    gale__null_set_caps(NULL);
    if (CHECK_OK(gale_model_open(path, null, &options, &m))) {
        for (int i = 0; i < gale_model_inputs(m) && i < 4; i++) in[i] = input(m, i, b);
        measure(null, m, in, out, b);
    }
    for (int i = 0; i < 4; i++) gale_object_destroy(&in[i]), gale_object_destroy(&out[i]);
    gale_model_close(&m);
    gale_device_close(&null);
}

TEST(scunet) { check_bound(&(bound){"scunet.onnx", {1, 3, 256, 256}, 4, 320, 2.75e9}); }
TEST(minilm) { check_bound(&(bound){"all-MiniLM-L6-v2/model.onnx", {4096, 20}, 2, 46, 10.4e9}); }

TESTS(ROW(scunet), ROW(minilm))
