/* Bytes as a model that runs: opened on the CPU and run twice with small inputs, within limits on memory and on steps.
 * Whatever the bytes are, the outcome is results or an error, and nothing is left. */
#include "base/mem.h"
#include "fuzz.h"
#include "gale/model.h"
#include "mutate_model.h"

enum { MOST_INPUTS = 16, MOST_ELEMENTS = 4096, MOST_STEPS = 2000 };
static gale_device *device;

static bool count_steps(void *user, int step, int steps)
{
    (void)step;
    (void)steps;
    return ++*(int *)user < MOST_STEPS;
}

/* Extents that are not said are 2, so that those with one name agree; numbers are small and not all equal. */
static gale_status new_tensor(const gale_model_value *v, gale_tensor **out)
{
    int64_t dims[GALE_MAX_RANK] = {0}, n = 1;
    static uint8_t bytes[MOST_ELEMENTS * 8];
    static const char *strings[MOST_ELEMENTS];
    int rank = v->rank < 0 ? 1 : v->rank;
    for (int i = 0; i < rank; i++) {
        dims[i] = v->rank < 0 || v->dims[i] < 0 ? 2 : v->dims[i];
        if (dims[i] > MOST_ELEMENTS || (n *= dims[i]) > MOST_ELEMENTS) return GALE_LIMIT;
    }
    for (int64_t i = 0; i < n; i++) strings[i] = i % 2 ? "1" : "a b";
    if (v->type == GALE_STRING) return gale_tensor_from_strings(rank, dims, strings, NULL, out);
    size_t size = gale_type_size(v->type);
    for (int64_t i = 0; i < n; i++)
        for (size_t k = 0; k < size; k++)
            bytes[(size_t)i * size + k] =
                (uint8_t)(k + 1 == size && (v->type == GALE_F32 || v->type == GALE_F64 || v->type == GALE_F16) ? 0x3f
                          : k == 0                                                                             ? i % 2
                                                                                                               : 0);
    return gale_tensor_from_cpu(NULL, v->type, rank, dims, bytes, out);
}

static gale_status new_input(const gale_model_value *v, gale_object **out)
{
    gale_tensor *t = NULL;
    gale_object *item = NULL;
    if (v->optional) return gale_object_none(out);
    if (v->kind == GALE_OBJECT_MAP) return GALE_UNSUPPORTED;
    gale_status status = new_tensor(v, &t);
    if (status == GALE_OK) status = gale_object_tensor(t, v->kind == GALE_OBJECT_SEQUENCE ? &item : out);
    if (status == GALE_OK && item) status = gale_object_sequence(&item, 1, out);
    gale_object_destroy(&item);
    gale_tensor_destroy(&t);
    return status;
}

static void run(gale_model *model)
{
    gale_object *in[MOST_INPUTS] = {0}, *out[MOST_INPUTS] = {0};
    int n = gale_model_inputs(model), results = gale_model_outputs(model);
    gale_status status = n <= MOST_INPUTS && results <= MOST_INPUTS ? GALE_OK : GALE_LIMIT;
    for (int i = 0; i < n && status == GALE_OK; i++) {
        gale_model_value v;
        status = gale_model_input(model, i, &v);
        if (status == GALE_OK) status = new_input(&v, &in[i]);
    }
    for (int k = 0; k < 2 && status == GALE_OK; k++) {
        status = gale_model_run(model, in, out, GALE_RUN_ON_HOST);
        for (int i = 0; i < MOST_INPUTS; i++) gale_object_destroy(&out[i]);
    }
    for (int i = 0; i < MOST_INPUTS; i++) gale_object_destroy(&in[i]);
}

/* Once more with other values for what the file gives a value to. */
static void run_given(gale_model *model)
{
    gale_tensor *in[MOST_INPUTS] = {0};
    const char *names[MOST_INPUTS];
    int n = gale_model_inputs(model), defaults = gale_model_defaults(model);
    gale_status status = !defaults || n + defaults > MOST_INPUTS ? GALE_LIMIT : GALE_OK;
    for (int i = 0; i < n + defaults && status == GALE_OK; i++) {
        gale_model_value v;
        status = i < n ? gale_model_input(model, i, &v) : gale_model_default(model, i - n, &v);
        names[i] = v.name;
        if (status == GALE_OK && v.kind != GALE_OBJECT_TENSOR) status = GALE_UNSUPPORTED;
        if (status == GALE_OK) status = new_tensor(&v, &in[i]);
    }
    for (int k = n; k <= n + defaults && status == GALE_OK; k++)
        gale_model_run_named(model, names, in, k, NULL, NULL, 0, GALE_RUN_ON_HOST);
    for (int i = 0; i < MOST_INPUTS; i++) gale_tensor_destroy(&in[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gale_model *model = NULL;
    int steps = 0;
    gale_model_options options = {.allow_nonfinite = true, .progress = count_steps, .user = &steps};
    gale_device_options cpu = {.chain = "cpu"};
    options.program.memory_limit_bytes = 64u << 20;
    if (!device) FUZZ_CHECK(gale_device_open(&cpu, &device) == GALE_OK);
    if (gale_model_from_memory(data, size, 0, device, &options, &model) != GALE_OK) return 0;
    run(model);
    run_given(model);
    gale_model_close(&model);
    gale_memory_trim(device);
    return 0;
}

/* Mostly models out of models; bytes now and then. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    size_t n = seed % 8 ? mutate_model(data, size, most, seed) : 0;
    return n ? n : LLVMFuzzerMutate(data, size, most);
}
