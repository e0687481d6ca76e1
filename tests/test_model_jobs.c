/* Jobs over model files: what their results say, and that they end in order when cancelled or without memory. */
#include "gale/model_jobs.h"
#include "job_suite.h"
#include "jobs/model/model_inputs.h"
#include <math.h>

static gale_device *cpu;
static char mlp[100], open_shape[100], halves[100]; /* files */

static const float *ramp(size_t n)
{
    static float data[64];
    for (size_t i = 0; i < n; i++) data[i] = (float)((double)i * 0.25 - 3);
    return data;
}

/* Gemm, Relu, MatMul: [2, 4] to [2, 3]; and one with an open batch that calls itself by a producer. */
static void make_models(void)
{
    maker m;
    make_begin(&m, 17);
    make_input(&m, "x", 1, "2,4");
    make_output(&m, "y", 1, "2,3");
    make_initializer(&m, make_floats(&m, "w1", "4,5", ramp(20), 20));
    make_initializer(&m, make_floats(&m, "w2", "5,3", ramp(15), 15));
    make_node(&m, "Gemm", "x,w1", "g");
    make_node(&m, "Relu", "g", "r");
    make_node(&m, "MatMul", "r,w2", "y");
    snprintf(mlp, sizeof mlp, "%s", make_saved(&m, "mlp.onnx"));
    make_begin(&m, 17);
    make_input(&m, "x", 1, "batch,4");
    make_output(&m, "y", 1, "batch,4");
    make_node(&m, "Relu", "x", "y");
    snprintf(open_shape, sizeof open_shape, "%s", make_saved(&m, "open.onnx"));
    make_begin(&m, 17);
    make_input(&m, "x", 1, "2,4");
    make_output(&m, "y", 1, "2,4");
    make_attr_i(&m, make_node(&m, "Cast", "x", "h"), "to", 10);
    make_node(&m, "Relu", "h", "r");
    make_attr_i(&m, make_node(&m, "Cast", "r", "y"), "to", 1);
    snprintf(halves, sizeof halves, "%s", make_saved(&m, "halves.onnx"));
}

/* --- Verify. --- */

TEST(verify)
{
    gale_verify_result *r = NULL;
    char *text = NULL;
    if (!CHECK_OK(gale_model_verify(mlp, cpu, NULL, &r))) return;
    CHECK_EQ(r->n_values, 4); /* g, r, y, and y of the fused run */
    CHECK_EQ(r->exceeding, 0);
    CHECK_EQ(r->first, r->n_values);
    CHECK(r->tolerance == 1e-4);
    CHECK_TEXT(r->device, gale_device_get_info(cpu)->name);
    CHECK_TEXT(r->values[r->n_values - 1].node, "output of the fused run");
    CHECK_TEXT(r->values[r->n_values - 1].name, "y");
    CHECK_JSON(
        gale_verify_result_json(r, &text), text, "\"tolerance\": 0.0001", "\"value\": \"g\"", "\"exceeds\": false");
    gale_verify_result_destroy(&r);
    CHECK(!r);
    gale_verify_result_destroy(&r);
    gale_verify_result_destroy(NULL);
}

TEST(verify_halves)
{
    gale_verify_result *r = NULL;
    gale_verify_options o = {.model = {.precision = GALE_PRECISION_F16}};
    if (CHECK_OK(gale_model_verify(mlp, cpu, &o, &r))) CHECK(r->n_values == 1 && r->tolerance == 1e-2);
    gale_verify_result_destroy(&r);
    o = (gale_verify_options){.model = {.program = {.precision = GALE_PRECISION_F16}}};
    if (CHECK_OK(gale_model_verify(mlp, cpu, &o, &r))) CHECK(r->n_values == 1 && r->tolerance == 1e-2);
    gale_verify_result_destroy(&r);
    o = (gale_verify_options){.model = {.precision = GALE_PRECISION_BF16}, .tolerance = -1};
    if (CHECK_OK(gale_model_verify(mlp, cpu, &o, &r))) CHECK(r->tolerance == 0);
    gale_verify_result_destroy(&r);
    if (CHECK_OK(gale_model_verify(halves, cpu, NULL, &r))) CHECK(r->n_values == 4 && r->tolerance == 1e-2);
    gale_verify_result_destroy(&r);
}

/* The null device computes nothing: everything exceeds the tolerance. */
TEST(verify_exceeds)
{
    gale_device *null = NULL;
    gale_verify_result *r = NULL;
    if (!CHECK_OK(gale_device_open(&(gale_device_options){.chain = "null"}, &null))) return;
    if (CHECK_OK(gale_model_verify(mlp, null, &(gale_verify_options){.model = {.allow_nonfinite = true}}, &r))) {
        CHECK(r->exceeding > 0 && r->first < r->n_values);
        CHECK(r->values[r->first].exceeds);
    }
    gale_verify_result_destroy(&r);
    gale_device_close(&null);
}

TEST(verify_refuses)
{
    gale_verify_result *r = NULL;
    const char *wrong = "q=2x4";
    int stop = 1;
    job_counter counter = {.until = 2};
    gale_verify_options o = {.inputs = {.shapes = &wrong, .n_shapes = 1}};
    CHECK_FAILS(gale_model_verify(NULL, cpu, NULL, &r), INVALID);
    CHECK_FAILS(gale_model_verify(mlp, NULL, NULL, &r), INVALID);
    CHECK_FAILS(gale_model_verify(mlp, cpu, NULL, NULL), INVALID);
    CHECK_FAILS(gale_model_verify(mlp, cpu, &o, &r), INVALID);
    CHECK_FAILS(gale_model_verify("/nowhere.onnx", cpu, NULL, &r), NOT_FOUND);
    o = (gale_verify_options){.control = {.cancel = &stop}};
    CHECK_FAILS(gale_model_verify(mlp, cpu, &o, &r), CANCELLED);
    o = (gale_verify_options){.control = {.progress = job_count, .user = &counter}};
    CHECK_FAILS(gale_model_verify(mlp, cpu, &o, &r), CANCELLED);
    CHECK_EQ(counter.calls, 2);
    counter = (job_counter){0};
    if (CHECK_OK(gale_model_verify(mlp, cpu, &o, &r))) CHECK(counter.calls >= 3 && counter.done == counter.total);
    gale_verify_result_destroy(&r);
}

static gale_status verify_once(void)
{
    gale_verify_result *r = NULL;
    gale_status status = gale_model_verify(mlp, cpu, NULL, &r);
    char *text = NULL;
    if (status == GALE_OK) status = gale_verify_result_json(r, &text);
    gale_free(text);
    gale_verify_result_destroy(&r);
    return status;
}
TEST(verify_faults) { job_faults(cpu, verify_once, 30, false); }

/* --- Convert. --- */

/* A sample of the input as raw numbers. */
static const char *sample(void)
{
    const char *path = in_folder("sample.raw");
    CHECK_OK(gale__file_write(path, ramp(8), 8 * sizeof(float)));
    return path;
}

TEST(convert)
{
    gale_convert_result *r = NULL;
    gale_inspect_result *i = NULL;
    const char *pin = "batch=3", *to = in_folder("pinned.onnx");
    gale_convert_options o = {.pins = &pin, .n_pins = 1, .opset = 21};
    if (CHECK_OK(gale_model_convert(open_shape, to, &o, &r))) CHECK_TEXT(r->path, to);
    if (CHECK_OK(gale_model_inspect(to, NULL, &i))) {
        CHECK_EQ(i->inputs[0].dims[0].value, 3);
        CHECK_EQ(i->opsets[0].version, 21);
    }
    gale_inspect_result_destroy(&i);
    gale_convert_result_destroy(&r);
    gale_convert_result_destroy(NULL);
    CHECK_OK(gale_model_convert(mlp, in_folder("mlp.c"), &(gale_convert_options){.emit_c = true}, NULL));
    CHECK(gale__file_exists(in_folder("mlp.c")));
}

static bool refuse(void *user, const gale_convert_result *result)
{
    CHECK_EQ(result->n_losses, 1);
    ++*(int *)user;
    return false;
}

TEST(convert_int8)
{
    gale_convert_result *r = NULL;
    char *text = NULL;
    const char *samples[] = {sample()}, *leave = "MatMul";
    gale_convert_options o = {.precision = GALE_CONVERT_INT8, .samples = samples, .n_samples = 1};
    if (CHECK_OK(gale_model_convert(mlp, in_folder("int8.onnx"), &o, &r))) {
        CHECK(r->n_weights == 2 && r->n_activations == 2 && r->n_samples == 1);
        if (CHECK_EQ(r->n_losses, 1)) CHECK(r->losses[0].relative < 0.05 && r->losses[0].psnr_db > 20);
        for (size_t i = 0; i < r->n_layers; i++) {
            CHECK(r->layers[i].result_relative >= 0 && r->layers[i].result_relative < 0.1);
            CHECK(r->layers[i].added_relative >= 0 && r->layers[i].added_relative <= r->layers[i].result_relative);
            CHECK(!i || r->layers[i].added_relative <= r->layers[i - 1].added_relative);
        }
        CHECK_JSON(gale_convert_result_json(r, &text), text, "\"weights\": 2", "\"output\": \"y\"");
    }
    gale_convert_result_destroy(&r);
    gale__file_remove(in_folder("int8.onnx"));
    int told = 0;
    o.accept = refuse, o.user = &told;
    CHECK_FAILS(gale_model_convert(mlp, in_folder("int8.onnx"), &o, &r), CANCELLED);
    CHECK(told == 1 && !gale__file_exists(in_folder("int8.onnx")));
    o = (gale_convert_options){.precision = GALE_CONVERT_INT8, .leave = &leave, .n_leave = 1};
    if (CHECK_OK(gale_model_convert(mlp, in_folder("int8.onnx"), &o, &r))) CHECK(r->n_weights == 1 && !r->n_losses);
    gale_convert_result_destroy(&r);
}

TEST(verify_refuses_engines)
{
    gale_verify_result *r = NULL;
    CHECK_FAILS(gale_model_verify(mlp, cpu, &(gale_verify_options){.against = "nonsense"}, &r), INVALID);
    CHECK(strstr(gale_error(), "nonsense") != NULL);
    gale_verify_options both = {.against = "onnxruntime", .other = mlp};
    CHECK_FAILS(gale_model_verify(mlp, cpu, &both, &r), INVALID);
    CHECK(r == NULL);
}

TEST(convert_refuses)
{
    const char *one = "x", *to = in_folder("never.onnx");
    int stop = 1;
    CHECK_FAILS(gale_model_convert(NULL, to, NULL, NULL), INVALID);
    CHECK_FAILS(gale_model_convert(mlp, NULL, NULL, NULL), INVALID);
    CHECK_FAILS(gale_model_convert(mlp, to, &(gale_convert_options){.opset = 12}, NULL), INVALID);
    CHECK_FAILS(gale_model_convert(mlp, to, &(gale_convert_options){.opset = 9999}, NULL), INVALID);
    CHECK_FAILS(gale_model_convert(mlp, to, &(gale_convert_options){.emit_c = true, .external = "w"}, NULL), INVALID);
    CHECK_FAILS(gale_model_convert(mlp, to, &(gale_convert_options){.samples = &one, .n_samples = 1}, NULL), INVALID);
    CHECK_FAILS(gale_model_convert(mlp, to, &(gale_convert_options){.leave = &one, .n_leave = 1}, NULL), INVALID);
    CHECK_FAILS(gale_model_convert(mlp, to, &(gale_convert_options){.pins = &one, .n_pins = 1}, NULL), INVALID);
    CHECK_FAILS(
        gale_model_convert(mlp, to, &(gale_convert_options){.precision = (gale_convert_precision)9}, NULL), INVALID);
    CHECK_FAILS(gale_model_convert(mlp, to, &(gale_convert_options){.control = {.cancel = &stop}}, NULL), CANCELLED);
    for (int n = 1; n <= 4; n++) {
        job_counter counter = {.until = n};
        gale_convert_options o = {.fold = true, .control = {.progress = job_count, .user = &counter}};
        CHECK_FAILS(gale_model_convert(mlp, to, &o, NULL), CANCELLED);
    }
    CHECK(!gale__file_exists(to));
}

static gale_status convert_once(void)
{
    gale_convert_result *r = NULL;
    char *text = NULL;
    const char *samples[] = {in_folder("sample.raw")};
    gale_convert_options o = {
        .fold = true, .precision = GALE_CONVERT_INT8, .samples = samples, .n_samples = 1, .opset = GALE_OPSET_NEWEST};
    gale_status status = gale_model_convert(mlp, in_folder("faults.onnx"), &o, &r);
    if (status == GALE_OK) status = gale_convert_result_json(r, &text);
    gale_free(text);
    gale_convert_result_destroy(&r);
    return status;
}
TEST(convert_faults)
{
    sample();
    job_faults(cpu, convert_once, 20, false);
}

/* --- Inspect. --- */

TEST(inspect)
{
    gale_inspect_result *r = NULL;
    char *text = NULL;
    if (!CHECK_OK(gale_model_inspect(mlp, &(gale_inspect_options){.shapes = true}, &r))) return;
    CHECK_TEXT(r->file, mlp);
    CHECK_TEXT(r->producer, "gale's tests");
    CHECK_TEXT(r->graph, "g");
    CHECK(r->n_nodes == 3 && r->n_tensors == 2 && r->parameters == 35 && r->parameter_bytes == 140);
    CHECK(r->n_operators == 3 && !strcmp(r->operators[0].name, "Gemm") && r->operators[0].count == 1);
    CHECK_TEXT(r->operators[0].domain, "ai.onnx");
    CHECK(r->n_opsets == 1 && r->opsets[0].version == 17);
    if (CHECK_EQ(r->n_inputs, 1)) {
        CHECK_TEXT(r->inputs[0].type, "f32 [2, 4]");
        CHECK_TEXT(r->inputs[0].element, "f32");
        CHECK(r->inputs[0].rank == 2 && r->inputs[0].dims[1].known && r->inputs[0].dims[1].value == 4);
    }
    CHECK_EQ(r->n_values, 4);
    CHECK_JSON(gale_inspect_result_json(r, &text), text, "\"nodes\": 3", "\"shape\": [2, 5]", "\"parameters\": 35");
    gale_inspect_result_destroy(&r);
    gale_inspect_result_destroy(NULL);
    if (!CHECK_OK(gale_model_inspect(open_shape, NULL, &r))) return;
    CHECK(r->inputs[0].dims[0].known && !strcmp(r->inputs[0].dims[0].symbol, "batch"));
    CHECK(!r->has_values && !r->n_values);
    gale_inspect_result_destroy(&r);
}

TEST(inspect_refuses)
{
    gale_inspect_result *r = NULL;
    int stop = 1;
    CHECK_FAILS(gale_model_inspect(NULL, NULL, &r), INVALID);
    CHECK_FAILS(gale_model_inspect(mlp, NULL, NULL), INVALID);
    CHECK_FAILS(gale_model_inspect(mlp, &(gale_inspect_options){.control = {.cancel = &stop}}, &r), CANCELLED);
    job_counter counter = {.until = 2};
    gale_inspect_options o = {.shapes = true, .control = {.progress = job_count, .user = &counter}};
    CHECK_FAILS(gale_model_inspect(mlp, &o, &r), CANCELLED);
    counter = (job_counter){0};
    if (CHECK_OK(gale_model_inspect(mlp, &o, &r))) CHECK(counter.done == 2 && counter.total == 2);
    gale_inspect_result_destroy(&r);
}

static gale_status inspect_once(void)
{
    gale_inspect_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_model_inspect(open_shape, &(gale_inspect_options){.shapes = true}, &r);
    if (status == GALE_OK) status = gale_inspect_result_json(r, &text);
    gale_free(text);
    gale_inspect_result_destroy(&r);
    return status == GALE_LIMIT ? GALE_NO_MEMORY : status; /* what cannot be counted cannot be summed up */
}
TEST(inspect_faults) { job_faults(cpu, inspect_once, 100, false); }

/* --- Plan, explain. --- */

TEST(plan)
{
    gale_plan_result *r = NULL;
    char *text = NULL;
    int stop = 1;
    if (!CHECK_OK(gale_model_plan(mlp, cpu, NULL, &r))) return;
    CHECK(r->n_nodes_on_device == 3 && r->n_kernels > 0 && !r->n_host_steps && r->operations > 0 && r->bytes > 0);
    CHECK(*r->report);
    CHECK_JSON(gale_plan_result_json(r, &text), text, "\"nodes_on_device\": 3", "\"host_steps\": 0");
    gale_plan_result_destroy(&r);
    gale_plan_result_destroy(NULL);
    CHECK_FAILS(gale_model_plan(mlp, NULL, NULL, &r), INVALID);
    CHECK_FAILS(gale_model_plan(mlp, cpu, &(gale_model_job_options){.control = {.cancel = &stop}}, &r), CANCELLED);
}

TEST(explain)
{
    gale_explain_result *r = NULL;
    char *text = NULL;
    int stop = 1;
    if (!CHECK_OK(gale_model_explain(mlp, cpu, NULL, &r))) return;
    CHECK_TEXT(r->model, mlp);
    CHECK_TEXT(r->backend, "cpu");
    CHECK(r->n_kernels > 0 && r->measured_us > 0 && r->open_ms > 0 && r->first_ms > 0);
    if (CHECK(r->n_graphs == 1 && r->graphs[0].n_nodes == 3)) {
        const gale_explain_node *nodes = r->graphs[0].nodes;
        CHECK_TEXT(nodes[2].op, "MatMul");
        CHECK(nodes[2].n_reads == 1 && nodes[2].reads[0] == 1 && !nodes[0].n_reads);
        CHECK_EQ(nodes[0].place, GALE_EXPLAIN_DEVICE);
        CHECK(nodes[2].n_outputs == 1 && strstr(nodes[2].outputs[0], ": f32 [") && nodes[2].n_inputs == 2);
    }
    CHECK_JSON(gale_explain_result_json(r, &text), text, "\"backend\": \"cpu\"", "\"kind\": \"kernel\"");
    gale_explain_result_destroy(&r);
    gale_explain_result_destroy(NULL);
    CHECK_FAILS(gale_model_explain(mlp, cpu, NULL, NULL), INVALID);
    if (CHECK_OK(gale_model_explain(mlp, cpu, &(gale_model_job_options){.no_run = true}, &r)))
        CHECK(!r->n_kernels && r->graphs[0].n_nodes == 3 && !r->first_ms);
    gale_explain_result_destroy(&r);
    CHECK_FAILS(gale_model_explain(mlp, cpu, &(gale_model_job_options){.control = {.cancel = &stop}}, &r), CANCELLED);
}

static gale_status plan_once(void)
{
    gale_plan_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_model_plan(mlp, cpu, NULL, &r);
    if (status == GALE_OK) status = gale_plan_result_json(r, &text);
    gale_free(text);
    gale_plan_result_destroy(&r);
    return status;
}
static gale_status explain_once(void)
{
    gale_explain_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_model_explain(mlp, cpu, NULL, &r);
    if (status == GALE_OK) status = gale_explain_result_json(r, &text);
    gale_free(text);
    gale_explain_result_destroy(&r);
    return status;
}
TEST(plan_faults) { job_faults(cpu, plan_once, 30, false); }
TEST(explain_faults) { job_faults(cpu, explain_once, 30, false); }

/* --- Run, bench. --- */

static void count_output(void *user, const gale_run_output *output)
{
    CHECK_TEXT(output->name, "y");
    ++*(int *)user;
}

TEST(run_files)
{
    gale_run_result *r = NULL;
    char *text = NULL, file[120];
    int seen = 0;
    const char *output = file, *input = sample();
    snprintf(file, sizeof file, "y=%s", in_folder("y.raw"));
    gale_run_options o = {.job = {.inputs = {.files = &input, .n_files = 1}},
        .outputs = &output,
        .n_outputs = 1,
        .report = true,
        .profile = in_folder("trace.json"),
        .done = count_output,
        .user = &seen};
    if (!CHECK_OK(gale_model_run_files(mlp, cpu, &o, &r))) return;
    CHECK_EQ(seen, 1);
    if (CHECK_EQ(r->n_outputs, 1)) {
        gale_tensor *t = gale_object_get_tensor(r->outputs[0].value);
        gale__bytes b = {0};
        CHECK(gale_tensor_rank(t) == 2 && gale_tensor_dims(t)[1] == 3);
        if (CHECK_OK(gale__file_read(in_folder("y.raw"), 0, &b)))
            CHECK(b.size == 24 && !memcmp(b.data, gale_tensor_data(t), 24));
        gale__bytes_finish(&b);
    }
    CHECK(r->report && *r->report);
    gale__bytes trace = {0};
    if (CHECK_OK(gale__file_read(in_folder("trace.json"), 0, &trace)))
        CHECK(strstr((const char *)trace.data, "\"nodes\": \"node 0") != NULL);
    gale__bytes_finish(&trace);
    CHECK_JSON(gale_run_result_json(r, &text), text, "\"kind\": \"tensor\"", "\"shape\": [2, 3]", "\"report\": ");
    gale_run_result_destroy(&r);
    gale_run_result_destroy(NULL);
}

TEST(run_refuses)
{
    gale_run_result *r = NULL;
    const char *wrong = "q=nowhere.npy";
    int stop = 1;
    CHECK_FAILS(gale_model_run_files(mlp, NULL, NULL, &r), INVALID);
    CHECK_FAILS(gale_model_run_files(mlp, cpu, NULL, &r), INVALID); /* nothing is given for x */
    CHECK_FAILS(gale_model_run_files(mlp, cpu, &(gale_run_options){.outputs = &wrong, .n_outputs = 1}, &r), INVALID);
    gale_run_options o = {.job = {.inputs = {.random = true}, .control = {.cancel = &stop}}};
    CHECK_FAILS(gale_model_run_files(mlp, cpu, &o, &r), CANCELLED);
    o.job.control.cancel = NULL;
    CHECK_OK(gale_model_run_files(mlp, cpu, &o, NULL));
}

static gale_status run_once(void)
{
    gale_run_result *r = NULL;
    char *text = NULL, file[120];
    const char *output = file;
    snprintf(file, sizeof file, "%s", in_folder("faults.npy"));
    gale_run_options o = {
        .job = {.inputs = {.random = true, .seed = 3}}, .outputs = &output, .n_outputs = 1, .report = true};
    gale_status status = gale_model_run_files(mlp, cpu, &o, &r);
    if (status == GALE_OK) status = gale_run_result_json(r, &text);
    gale_free(text);
    gale_run_result_destroy(&r);
    return status;
}
TEST(run_faults) { job_faults(cpu, run_once, 30, false); }

TEST(bench)
{
    gale_bench_result *r = NULL;
    char *text = NULL;
    int stop = 1;
    const int64_t batches[] = {1, 4}, none = 0;
    gale_bench_options o = {.repeats = 5, .batches = batches, .n_batches = 2};
    if (!CHECK_OK(gale_model_bench(open_shape, cpu, &o, &r))) return;
    CHECK(r->n_runs == 5 && r->best_ms == r->runs_ms[0] && r->median_ms == r->runs_ms[2] && r->best_ms > 0);
    CHECK(r->p90_ms >= r->median_ms && r->p99_ms >= r->p90_ms && r->process_peak_bytes > 0);
    if (CHECK_EQ(r->n_batches, 2)) CHECK(r->batches[1].batch == 4 && r->batches[1].best_ms > 0);
    CHECK_JSON(gale_bench_result_json(r, &text), text, "\"runs\": 5", "\"p99_ms\": ");
    gale_bench_result_destroy(&r);
    gale_bench_result_destroy(NULL);
    CHECK_FAILS(gale_model_bench(mlp, cpu, &(gale_bench_options){.repeats = -1}, &r), INVALID);
    CHECK_FAILS(gale_model_bench(mlp, cpu, &(gale_bench_options){.batches = &none, .n_batches = 1}, &r), INVALID);
    CHECK_FAILS(
        gale_model_bench(mlp, cpu, &(gale_bench_options){.job = {.control = {.cancel = &stop}}}, &r), CANCELLED);
    o.on_device = true;
    CHECK_FAILS(gale_model_bench(open_shape, cpu, &o, &r), INVALID);
    o = (gale_bench_options){.repeats = 4, .on_device = true};
    if (CHECK_OK(gale_model_bench(open_shape, cpu, &o, &r))) CHECK(r->n_runs == 4 && r->best_ms > 0);
    gale_bench_result_destroy(&r);
    o = (gale_bench_options){0};
    if (CHECK_OK(gale_model_bench(open_shape, cpu, &o, &r))) CHECK(r->n_runs == 30 && !r->n_batches);
    gale_bench_result_destroy(&r);
}

static gale_status bench_once(void)
{
    gale_bench_result *r = NULL;
    char *text = NULL;
    const int64_t batch = 2;
    gale_bench_options o = {.repeats = 1, .batches = &batch, .n_batches = 1};
    gale_status status = gale_model_bench(open_shape, cpu, &o, &r);
    if (status == GALE_OK) status = gale_bench_result_json(r, &text);
    gale_free(text);
    gale_bench_result_destroy(&r);
    return status;
}
TEST(bench_faults) { job_faults(cpu, bench_once, 30, false); }

/* --- Inputs. --- */

TEST(input_texts)
{
    static const char *const texts[] = {"x=a", "b", "x=c"};
    CHECK_TEXT(gale__text_for(texts, 3, "x", false), "c");
    CHECK_TEXT(gale__text_for(texts, 2, "x", true), "b");
    CHECK(!gale__text_for(texts, 3, "y", false));
}

TEST(seeds_differ)
{
    gale_run_result *r[3] = {0};
    for (uint64_t seed = 0; seed < 3; seed++) {
        gale_run_options o = {.job = {.inputs = {.random = true, .seed = seed / 2}}};
        if (!CHECK_OK(gale_model_run_files(mlp, cpu, &o, &r[seed]))) break;
    }
    if (r[2]) {
        const float *a = gale_tensor_data(gale_object_get_tensor(r[0]->outputs[0].value)),
                    *b = gale_tensor_data(gale_object_get_tensor(r[1]->outputs[0].value)),
                    *c = gale_tensor_data(gale_object_get_tensor(r[2]->outputs[0].value));
        CHECK(!memcmp(a, b, 24) && memcmp(a, c, 24));
    }
    for (int i = 0; i < 3; i++) gale_run_result_destroy(&r[i]);
}

/* A loop that the host runs, between steps of the device. */
static const char *make_looping(void)
{
    maker m;
    make_begin(&m, 21);
    make_input(&m, "n", 7, ""), make_input(&m, "x", 1, "2"), make_output(&m, "y", 1, "2");
    make_node(&m, "Neg", "x", "a");
    gale__pb_graph *outer = make_enter(&m, make_node(&m, "Loop", "n,,a", "b"), "body");
    make_input(&m, "i", 7, ""), make_input(&m, "c", 9, ""), make_input(&m, "s", 1, "2");
    make_output(&m, "c1", 9, ""), make_output(&m, "s1", 1, "2");
    make_node(&m, "Add", "s,s", "s1");
    make_node(&m, "Identity", "c", "c1");
    make_leave(&m, outer);
    make_node(&m, "Neg", "b", "y");
    return make_saved(&m, "looping.onnx");
}

typedef struct told {
    int step, steps, calls;
} told;

static bool note_step(void *user, int step, int steps)
{
    told *t = user;
    CHECK(step >= t->step && step <= steps && (!t->calls || steps == t->steps));
    *t = (told){step, steps, t->calls + 1};
    return true;
}

TEST(steps_of_a_model_only_grow)
{
    told t = {0};
    gale_model *m = NULL;
    gale_tensor *in[2] = {0}, *out = NULL;
    gale_model_options o = {.progress = note_step, .user = &t};
    if (CHECK_OK(gale_model_open(make_looping(), cpu, &o, &m)) &&
        CHECK_OK(gale_tensor_from_cpu(NULL, GALE_I64, 0, NULL, (int64_t[]){6}, &in[0])) &&
        CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 1, (int64_t[]){2}, (float[]){1, 2}, &in[1])) &&
        CHECK_OK(gale_model_run_named(
            m, (const char *[]){"n", "x"}, in, 2, (const char *[]){"y"}, &out, 1, GALE_RUN_ON_HOST)))
        CHECK(t.step == 3 && t.steps == 3 && t.calls >= 4 + 6);
    gale_tensor_destroy(&in[0]), gale_tensor_destroy(&in[1]), gale_tensor_destroy(&out);
    gale_model_close(&m);
}

static const test_row rows[] = {ROW(verify), ROW(verify_halves), ROW(verify_exceeds), ROW(verify_refuses),
    ROW(verify_faults), ROW(convert), ROW(convert_int8), ROW(convert_refuses), ROW(convert_faults), ROW(inspect),
    ROW(inspect_refuses), ROW(inspect_faults), ROW(verify_refuses_engines), ROW(plan), ROW(plan_faults), ROW(explain),
    ROW(explain_faults), ROW(run_files), ROW(run_refuses), ROW(run_faults), ROW(bench), ROW(bench_faults),
    ROW(input_texts), ROW(seeds_differ), ROW(steps_of_a_model_only_grow)};

int main(int argc, char **argv)
{
    gale_device_options options = {.chain = "cpu"};
    if (gale_device_open(&options, &cpu) != GALE_OK) return 2;
    make_models();
    int code = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    gale__temp_folder_remove(job_folder);
    gale_device_close(&cpu);
    return code;
}
