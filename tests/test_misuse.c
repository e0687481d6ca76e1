/* Wrong arguments to every public function: each is refused with a message that names the function and the argument,
 * none crashes, and what failed leaves its outputs alone. */
#include "gale/embed.h"
#include "gale/exr.h"
#include "gale/machine.h"
#include "gale/model_jobs.h"
#include "gale/profile.h"
#include "gale/search.h"
#include "gale/selftest.h"
#include "gale/text.h"
#include "gale/upscale.h"
#include "onnx_made.h"
#include "test.h"

/* A pointer that nothing reads, since the call fails before. */
static uint64_t rubbish[512];
#define SOME ((void *)rubbish)

/* The call's status is INVALID, and its message has the function's name, which `call` begins with, and the argument's.
 */
static bool lacks(gale_status status, const char *call, const char *argument, int line)
{
    char want[128];
    snprintf(want, sizeof want, "%.*s: %s is NULL", (int)strcspn(call, "("), call, argument);
    if (status == GALE_INVALID && !strcmp(gale_error(), want)) return true;
    test_bad++;
    printf("FAIL %s: line %d: %s: %s, not '%s'\n", test_at, line, gale_status_text(status), gale_error(), want);
    return false;
}
#define LACKS(call, argument) lacks(call, #call, argument, __LINE__)
/* Of functions that give no status. */
#define SAYS(call, argument) ((void)(call), lacks(GALE_INVALID, #call, argument, __LINE__))

/* Refused with that status and words in the message. */
static bool refuses(gale_status status, gale_status wanted, const char *words, int line)
{
    if (status == wanted && strstr(gale_error(), words)) return true;
    test_bad++;
    printf("FAIL %s: line %d: %s: %s, without '%s'\n", test_at, line, gale_status_text(status), gale_error(), words);
    return false;
}
#define REFUSES(call, status, words) refuses(call, GALE_##status, words, __LINE__)

static gale_device *cpu;

TEST(base)
{
    gale_type type = GALE_I64;
    LACKS(gale_type_parse(NULL, &type), "name");
    LACKS(gale_type_parse("f32", NULL), "type");
    CHECK(gale_type_parse("f33", &type) != GALE_OK && type == GALE_I64);
    CHECK_TEXT(gale_type_name((gale_type)-1), "?");
    CHECK_TEXT(gale_type_name(GALE_TYPE_COUNT), "?");
    CHECK_EQ(gale_type_size((gale_type)99), 0);
    CHECK_TEXT(gale_status_text((gale_status)-5), "unknown status");
    gale_free(NULL);
}

/* Destroying nothing, and nothing twice. */
#define ENDS_ONE(function, T)   \
    do {                        \
        T *nothing = NULL;      \
        function(NULL);         \
        function(&nothing);     \
        CHECK(nothing == NULL); \
    } while (0)

TEST(destroy_nothing)
{
    ENDS_ONE(gale_device_close, gale_device);
    ENDS_ONE(gale_buffer_destroy, gale_buffer);
    ENDS_ONE(gale_stream_destroy, gale_stream);
    ENDS_ONE(gale_event_destroy, gale_event);
    ENDS_ONE(gale_capture_destroy, gale_capture);
    ENDS_ONE(gale_module_destroy, gale_module);
    ENDS_ONE(gale_kernel_destroy, gale_kernel);
    ENDS_ONE(gale_profiler_destroy, gale_profiler);
    ENDS_ONE(gale_tensor_destroy, gale_tensor);
    ENDS_ONE(gale_graph_destroy, gale_graph);
    ENDS_ONE(gale_program_destroy, gale_program);
    ENDS_ONE(gale_object_destroy, gale_object);
    ENDS_ONE(gale_model_close, gale_model);
    ENDS_ONE(gale_picture_destroy, gale_picture);
    ENDS_ONE(gale_upscaler_close, gale_upscaler);
    ENDS_ONE(gale_animation_close, gale_animation);
    ENDS_ONE(gale_animation_writer_destroy, gale_animation_writer);
    ENDS_ONE(gale_embedder_close, gale_embedder);
    ENDS_ONE(gale_index_close, gale_index);
    ENDS_ONE(gale_tokenizer_destroy, gale_tokenizer);
    ENDS_ONE(gale_encoder_destroy, gale_encoder);
    ENDS_ONE(gale_exr_close, gale_exr);
    ENDS_ONE(gale_exr_viewer_destroy, gale_exr_viewer);
    ENDS_ONE(gale_exr_batch_destroy, gale_exr_batch);
    ENDS_ONE(gale_usage_meter_close, gale_usage_meter);
    gale_exr_layers_free(NULL, 3);
    gale_exr_comparison_finish(NULL);
    CHECK_OK(GALE_OK);
}

TEST(destroy_no_result)
{
    ENDS_ONE(gale_devices_result_destroy, gale_devices_result);
    ENDS_ONE(gale_doctor_result_destroy, gale_doctor_result);
    ENDS_ONE(gale_trial_result_destroy, gale_trial_result);
    ENDS_ONE(gale_usage_result_destroy, gale_usage_result);
    ENDS_ONE(gale_verify_result_destroy, gale_verify_result);
    ENDS_ONE(gale_convert_result_destroy, gale_convert_result);
    ENDS_ONE(gale_inspect_result_destroy, gale_inspect_result);
    ENDS_ONE(gale_plan_result_destroy, gale_plan_result);
    ENDS_ONE(gale_explain_result_destroy, gale_explain_result);
    ENDS_ONE(gale_run_result_destroy, gale_run_result);
    ENDS_ONE(gale_bench_result_destroy, gale_bench_result);
    ENDS_ONE(gale_tune_result_destroy, gale_tune_result);
    ENDS_ONE(gale_check_result_destroy, gale_check_result);
    ENDS_ONE(gale_conformance_result_destroy, gale_conformance_result);
    ENDS_ONE(gale_kernels_result_destroy, gale_kernels_result);
    ENDS_ONE(gale_tiles_result_destroy, gale_tiles_result);
    ENDS_ONE(gale_texts_result_destroy, gale_texts_result);
}

TEST(device)
{
    gale_device *d = NULL;
    gale_memory_stats stats;
    gale_context *c = NULL;
    LACKS(gale_device_open(NULL, NULL), "out");
    REFUSES(gale_device_open(&(gale_device_options){.chain = "no-such"}, &d), NO_DEVICE, "no-such");
    REFUSES(gale_device_open(&(gale_device_options){.chain = "cpu", .index = 7, .strict = true}, &d), NO_DEVICE, "");
    REFUSES(gale_device_open(&(gale_device_options){.chain = "cpu", .index = -7}, &d), INVALID, "-7");
    CHECK(d == NULL);
    if (CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu", .index = GALE_DEVICE_FIRST}, &d)))
        gale_device_close(&d);
    SAYS(gale_device_get_info(NULL), "device");
    SAYS(gale_device_why(NULL), "device");
    SAYS(gale_memory_get_stats(NULL, &stats), "device");
    SAYS(gale_memory_get_stats(cpu, NULL), "out");
    SAYS(gale_memory_trim(NULL), "device");
    SAYS(gale_context_get_stats(NULL, NULL), "out");
    REFUSES(gale_context_create(NULL, NULL), INVALID, "out");
    REFUSES(gale_context_create(&(gale_context_options){.log_level = 9}, &c), INVALID, "log_level is 9");
    CHECK(c == NULL);
    gale_context_destroy(NULL);
    gale_context_destroy(&c);
    gale_log_set(NULL, NULL, 99);
}

TEST(streams)
{
    gale_stream *s = NULL;
    gale_event *e = NULL;
    gale_buffer *b = NULL;
    char bytes[16] = "";
    double time_us = 7;
    LACKS(gale_buffer_create(NULL, 16, &b), "device");
    LACKS(gale_buffer_create(cpu, 16, NULL), "out");
    LACKS(gale_stream_create(NULL, &s), "device");
    LACKS(gale_stream_create(cpu, NULL), "out");
    LACKS(gale_event_create(NULL, &e), "device");
    LACKS(gale_event_create(cpu, NULL), "out");
    if (!CHECK_OK(gale_stream_create(cpu, &s)) || !CHECK_OK(gale_buffer_create(cpu, 16, &b)) ||
        !CHECK_OK(gale_event_create(cpu, &e)))
        return;
    SAYS(gale_buffer_size(NULL), "buffer");
    LACKS(gale_upload(NULL, b, 0, bytes, 16), "stream");
    LACKS(gale_upload(s, NULL, 0, bytes, 16), "to");
    LACKS(gale_upload(s, b, 0, NULL, 16), "host");
    REFUSES(gale_upload(s, b, 8, bytes, 16), INVALID, "");
    REFUSES(gale_upload(s, b, SIZE_MAX, bytes, 2), INVALID, "");
    LACKS(gale_download(s, NULL, 0, bytes, 16), "from");
    LACKS(gale_download(s, b, 0, NULL, 16), "host");
    REFUSES(gale_download(s, b, 17, bytes, 1), INVALID, "");
    LACKS(gale_copy(s, NULL, 0, b, 0, 1), "to");
    LACKS(gale_copy(s, b, 0, NULL, 0, 1), "from");
    REFUSES(gale_copy(s, b, 16, b, 0, 1), INVALID, "");
    LACKS(gale_fill(s, b, 0, 16, NULL, 4), "pattern");
    REFUSES(gale_fill(s, b, 0, 16, bytes, 3), INVALID, "pattern");
    LACKS(gale_stream_sync(NULL), "stream");
    LACKS(gale_event_record(NULL, s), "event");
    LACKS(gale_event_record(e, NULL), "stream");
    LACKS(gale_event_wait(NULL), "event");
    LACKS(gale_stream_wait(NULL, e), "stream");
    LACKS(gale_stream_wait(s, NULL), "event");
    LACKS(gale_event_elapsed(NULL, e, &time_us), "from");
    LACKS(gale_event_elapsed(e, e, NULL), "time_us");
    CHECK(gale_event_elapsed(e, e, &time_us) != GALE_OK && time_us == 7);
    LACKS(gale_capture_begin(NULL), "stream");
    LACKS(gale_capture_end(s, NULL), "out");
    LACKS(gale_capture_replay(s, NULL), "capture");
    gale_buffer_destroy(&b);
    gale_event_destroy(&e);
    gale_stream_destroy(&s);
}

TEST(asynchronous)
{
    gale_run *run = NULL;
    gale_queue *queue = NULL;
    gale_tensor *t = NULL;
    gale_object *o = NULL;
    gale_type type;
    int rank;
    int64_t dims[GALE_MAX_RANK];
    bool done = false;
    LACKS(gale_queue_create(NULL, &queue), "device");
    LACKS(gale_queue_create(cpu, NULL), "out");
    SAYS(gale_queue_wait(NULL), "queue");
    LACKS(gale_run_wait(NULL), "run");
    LACKS(gale_run_poll(NULL, &done), "run");
    LACKS(gale_run_poll(SOME, NULL), "done");
    SAYS(gale_run_user(NULL), "run");
    gale_run_destroy(NULL);
    gale_run_destroy(&run);
    LACKS(gale_event_poll(NULL, &done), "event");
    LACKS(gale_event_poll(SOME, NULL), "reached");
    LACKS(gale_program_submit(NULL, SOME, &t, &t, NULL, NULL, &run), "program");
    LACKS(gale_model_submit(NULL, SOME, &o, &o, NULL, NULL, &run), "model");
    LACKS(gale_model_run_with(NULL, &o, &o, NULL), "model");
    LACKS(gale_model_run_named_with(NULL, NULL, NULL, 0, NULL, NULL, 0, NULL), "model");
    LACKS(gale_program_output_shape(NULL, &t, 0, &type, &rank, dims), "program");
    LACKS(gale_program_output_shape(SOME, &t, 0, &type, &rank, NULL), "dims");
    SAYS(gale_tensor_buffer(NULL), "tensor");
    LACKS(gale_tensor_from_buffer(NULL, GALE_F32, 0, NULL, &t), "buffer");
    REFUSES(gale_tensor_wrap(GALE_F32, 1, (int64_t[]){2}, NULL, 0, NULL, NULL, &t), INVALID, "no memory is given");
    LACKS(gale_device_measure(NULL), "device");
    CHECK(!run && !queue && !t && !o && !done);
}

TEST(kernels)
{
    gale_module *m = NULL;
    gale_kernel *k = NULL;
    uint32_t group[3] = {1, 1, 1};
    LACKS(gale_module_create(NULL, "cuda", "x", 1, NULL, &m), "device");
    LACKS(gale_module_create(cpu, NULL, "x", 1, NULL, &m), "language");
    LACKS(gale_module_create(cpu, "cuda", "x", 1, NULL, NULL), "out");
    REFUSES(gale_module_create(cpu, "cuda", NULL, 1, NULL, &m), INVALID, "empty");
    CHECK(gale_module_create(cpu, "no-such", "x", 1, NULL, &m) != GALE_OK && !m);
    LACKS(gale_kernel_get(NULL, "f", group, &k), "module");
    LACKS(gale_kernel_get(SOME, NULL, group, &k), "entry");
    LACKS(gale_kernel_get(SOME, "f", NULL, &k), "group");
    LACKS(gale_kernel_get(SOME, "f", group, NULL), "out");
    LACKS(gale_kernel_launch(NULL, SOME, group, NULL, 0, NULL, 0), "stream");
    LACKS(gale_kernel_launch(SOME, NULL, group, NULL, 0, NULL, 0), "kernel");
    LACKS(gale_kernel_launch(SOME, SOME, NULL, NULL, 0, NULL, 0), "groups");
    LACKS(gale_kernel_launch(SOME, SOME, group, NULL, 1, NULL, 0), "buffers");
    LACKS(gale_kernel_launch(SOME, SOME, group, NULL, 0, NULL, 1), "words");
}

TEST(profiler)
{
    gale_profiler *p = NULL;
    char *text = NULL;
    uint64_t range = 5;
    LACKS(gale_profiler_start(NULL, &p), "device");
    LACKS(gale_profiler_start(cpu, NULL), "out");
    LACKS(gale_profiler_stop(NULL), "profiler");
    LACKS(gale_profiler_range_begin(NULL, "a", 0, &range), "stream");
    LACKS(gale_profiler_range_begin(SOME, NULL, 0, &range), "name");
    LACKS(gale_profiler_range_end(NULL, 0), "stream");
    if (!CHECK_OK(gale_profiler_start(cpu, &p))) return;
    CHECK_OK(gale_profiler_stop(p));
    REFUSES(gale_profiler_stop(p), INVALID, "stopped");
    LACKS(gale_profiler_to_text(p, NULL, &text), "format");
    LACKS(gale_profiler_to_text(p, "table", NULL), "out");
    CHECK(gale_profiler_to_text(p, "no-such", &text) != GALE_OK && !text);
    LACKS(gale_profiler_write(p, "table", NULL), "path");
    gale_profiler_destroy(&p);
}

TEST(tensors)
{
    gale_tensor *t = NULL, *u = NULL;
    const int64_t dims[2] = {2, 3}, negative[2] = {2, -3}, huge[3] = {INT64_MAX, INT64_MAX, 2};
    float data[6] = {0};
    LACKS(gale_tensor_create(NULL, GALE_F32, 2, NULL, &t), "dims");
    LACKS(gale_tensor_create(NULL, GALE_F32, 2, dims, NULL), "out");
    REFUSES(gale_tensor_create(NULL, (gale_type)77, 2, dims, &t), INVALID, "type");
    REFUSES(gale_tensor_create(NULL, (gale_type)-1, 2, dims, &t), INVALID, "type");
    REFUSES(gale_tensor_create(NULL, GALE_F32, -1, dims, &t), INVALID, "rank -1");
    REFUSES(gale_tensor_create(NULL, GALE_F32, GALE_MAX_RANK + 1, dims, &t), INVALID, "rank 13");
    REFUSES(gale_tensor_create(NULL, GALE_F32, 2, negative, &t), INVALID, "-3");
    CHECK(gale_tensor_create(NULL, GALE_F32, 3, huge, &t) != GALE_OK);
    REFUSES(gale_tensor_create(NULL, GALE_STRING, 2, dims, &t), UNSUPPORTED, "strings");
    LACKS(gale_tensor_from_cpu(NULL, GALE_F32, 2, dims, NULL, &t), "data");
    LACKS(gale_tensor_from_cpu(cpu, GALE_F32, 2, dims, NULL, &t), "data");
    LACKS(gale_tensor_from_strings(1, dims, NULL, NULL, &t), "strings");
    REFUSES(gale_tensor_from_strings(1, dims, (const char *const[]){"a", NULL}, NULL, &t), INVALID, "strings[1]");
    CHECK(t == NULL);
    LACKS(gale_tensor_to_cpu(NULL, data, 24), "tensor");
    LACKS(gale_tensor_reshape(NULL, 2, dims, &u), "tensor");
    LACKS(gale_tensor_to_device(NULL, cpu, &u), "tensor");
    SAYS(gale_tensor_type(NULL), "tensor");
    CHECK_EQ(gale_tensor_type(NULL), GALE_TYPE_COUNT);
    SAYS(gale_tensor_rank(NULL), "tensor");
    SAYS(gale_tensor_dims(NULL), "tensor");
    SAYS(gale_tensor_size_bytes(NULL), "tensor");
    SAYS(gale_tensor_data(NULL), "tensor");
    SAYS(gale_tensor_string(NULL, 0, NULL), "tensor");
    if (!CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 2, dims, data, &t))) return;
    LACKS(gale_tensor_to_cpu(t, NULL, 24), "data");
    REFUSES(gale_tensor_to_cpu(t, data, 23), INVALID, "24 bytes");
    REFUSES(gale_tensor_reshape(t, 1, dims, &u), INVALID, "");
    CHECK(gale_tensor_string(t, 0, NULL) == NULL && u == NULL);
    gale_tensor_destroy(&t);
}

TEST(graphs)
{
    gale_graph *g = NULL;
    gale_program *p = NULL;
    gale_value x = 5, y = 5;
    const int64_t dims[1] = {2}, odd[1] = {-2};
    LACKS(gale_graph_create(NULL), "out");
    if (!CHECK_OK(gale_graph_create(&g))) return;
    LACKS(gale_graph_input(NULL, "x", GALE_F32, 1, dims, NULL, &x), "graph");
    LACKS(gale_graph_input(g, NULL, GALE_F32, 1, dims, NULL, &x), "name");
    LACKS(gale_graph_input(g, "x", GALE_F32, 1, NULL, NULL, &x), "dims");
    LACKS(gale_graph_input(g, "x", GALE_F32, 1, dims, NULL, NULL), "out");
    REFUSES(gale_graph_input(g, "x", (gale_type)99, 1, dims, NULL, &x), INVALID, "type");
    REFUSES(gale_graph_input(g, "x", GALE_F32, -2, dims, NULL, &x), INVALID, "rank -2");
    REFUSES(gale_graph_input(g, "x", GALE_F32, 1, odd, NULL, &x), INVALID, "-2");
    REFUSES(gale_graph_constant(g, GALE_F32, 1, dims, NULL, &x), INVALID, "data is NULL");
    LACKS(gale_graph_constant_tensor(g, NULL, &x), "host");
    LACKS(gale_graph_op(g, NULL, NULL, 0, NULL, 0, NULL, 0), "op");
    REFUSES(gale_graph_op(g, "Rellu", NULL, 0, NULL, 0, NULL, 0), NOT_FOUND, "Rellu");
    REFUSES(gale_graph_op(g, "Relu", &x, 1, NULL, 0, &y, 1), INVALID, "not a value");
    LACKS(gale_graph_output(NULL, "y", 0), "graph");
    LACKS(gale_graph_output(g, NULL, 0), "name");
    REFUSES(gale_graph_output(g, "y", 3), INVALID, "y");
    LACKS(gale_program_create(NULL, cpu, NULL, &p), "graph");
    LACKS(gale_program_create(g, NULL, NULL, &p), "device");
    LACKS(gale_program_create(g, cpu, NULL, NULL), "out");
    REFUSES(gale_program_create(g, cpu, NULL, &p), INVALID, "no output");
    CHECK(x == 5 && y == 5 && p == NULL);
    gale_graph_destroy(&g);
}

TEST(attributes)
{
    gale_graph *g = NULL;
    gale_value x, y = 5;
    const int64_t dims[2] = {1, 2}, axes[1] = {0};
    gale_attr wrong = GALE_INTS("axsi", axes, 1), far = GALE_INT("colour", 1), nothing = GALE_INTS("axes", NULL, 1);
    gale_attr unnamed = GALE_INT(NULL, 1), kind = {.name = "axes", .kind = (gale_attr_kind)42};
    if (!CHECK_OK(gale_graph_create(&g)) || !CHECK_OK(gale_graph_input(g, "x", GALE_F32, 2, dims, NULL, &x))) return;
    REFUSES(gale_graph_op(g, "Squeeze", &x, 1, &wrong, 1, &y, 1), INVALID, "'axsi'; did you mean 'axes'?");
    REFUSES(gale_graph_op(g, "Squeeze", &x, 1, &far, 1, &y, 1), INVALID, "'colour'; it takes: axes");
    REFUSES(gale_graph_op(g, "Identity", &x, 1, &far, 1, &y, 1), INVALID, "takes none");
    REFUSES(gale_graph_op(g, "Squeeze", &x, 1, &nothing, 1, &y, 1), INVALID, "empty");
    REFUSES(gale_graph_op(g, "Squeeze", &x, 1, &unnamed, 1, &y, 1), INVALID, "attribute 0 has no name");
    REFUSES(gale_graph_op(g, "Squeeze", &x, 1, &kind, 1, &y, 1), INVALID, "kind 42");
    CHECK_EQ(y, 5);
    gale_graph_destroy(&g);
}

TEST(programs)
{
    gale_graph *g = NULL;
    gale_program *p = NULL;
    gale_value x, y;
    const int64_t dims[1] = {2}, other[1] = {3};
    gale_tensor *in = NULL, *out = NULL, *none = NULL;
    char *text = NULL;
    if (!CHECK_OK(gale_graph_create(&g)) || !CHECK_OK(gale_graph_input(g, "x", GALE_F32, 1, dims, NULL, &x)) ||
        !CHECK_OK(gale_graph_op(g, "Relu", &x, 1, NULL, 0, &y, 1)) || !CHECK_OK(gale_graph_output(g, "y", y)))
        return;
    LACKS(gale_graph_gradient(g, y, NULL, 1, &x), "wrt");
    REFUSES(gale_graph_gradient(g, y, &x, -1, &x), INVALID, "n is -1");
    REFUSES(gale_graph_op(g, "Relu", &x, 1, NULL, -1, &x, 1), INVALID, "n_attrs is -1");
    LACKS(gale_graph_gradient(g, y, &x, 1, NULL), "gradients");
    REFUSES(gale_graph_gradient(g, 77, &x, 1, &y), INVALID, "loss");
    REFUSES(
        gale_program_create(g, cpu, &(gale_program_options){.precision = (gale_precision)9}, &p), INVALID, "precision");
    REFUSES(gale_program_create(g, cpu, &(gale_program_options){.layout = 9}, &p), INVALID, "layout");
    REFUSES(gale_program_create(g, cpu, &(gale_program_options){.threads = -1}, &p), INVALID, "-1 threads");
    CHECK(p == NULL);
    if (!CHECK_OK(gale_program_create(g, cpu, NULL, &p)) ||
        !CHECK_OK(gale_tensor_create(NULL, GALE_F32, 1, other, &in)))
        return;
    LACKS(gale_program_run(NULL, &in, &out, GALE_RUN_ON_HOST), "program");
    LACKS(gale_program_run(p, NULL, &out, GALE_RUN_ON_HOST), "inputs");
    LACKS(gale_program_run(p, &in, NULL, GALE_RUN_ON_HOST), "outputs");
    REFUSES(gale_program_run(p, &in, &out, 6), INVALID, "flags 0x6");
    const gale_run_control less = {.threads = -1}, later = {.reserved = {1}};
    gale_queue *queue = NULL;
    gale_run *run = NULL;
    CHECK_OK(gale_queue_create(cpu, &queue));
    REFUSES(gale_program_run_with(p, &in, &out, &less), INVALID, "-1 threads");
    REFUSES(gale_program_submit(p, queue, &in, &out, &less, NULL, &run), INVALID, "-1 threads");
    REFUSES(gale_program_submit(p, queue, &in, &out, &later, NULL, &run), INVALID, "reserved");
    gale_queue_destroy(&queue);
    REFUSES(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST), INVALID, "3");
    REFUSES(gale_program_run(p, &none, &out, GALE_RUN_ON_HOST), INVALID, "x");
    LACKS(gale_program_report(p, 0, NULL), "text");
    LACKS(gale_program_report(NULL, 0, &text), "program");
    REFUSES(gale_program_report(p, 2, &text), INVALID, "flags 0x2");
    SAYS(gale_program_inputs(NULL), "program");
    SAYS(gale_program_outputs(NULL), "program");
    CHECK(out == NULL && text == NULL);
    gale_tensor_destroy(&in);
    gale_program_destroy(&p);
    gale_graph_destroy(&g);
}

/* A table of four rows, by indices or labels that the caller gives, or by a constant. */
static gale_status look_up(const char *op, bool constant, const gale_attr *attrs, int n_attrs, int64_t first)
{
    gale_graph *g = NULL;
    gale_program *p = NULL;
    gale_value in[2], y;
    const int64_t dims[2] = {2, 4}, two[1] = {2}, indices[2] = {first, 1};
    const float data[8] = {0};
    gale_tensor *t = NULL, *out = NULL;
    bool ok = CHECK_OK(gale_graph_create(&g)) && CHECK_OK(gale_graph_constant(g, GALE_F32, 2, dims, data, &in[0])) &&
              CHECK_OK(gale_tensor_from_cpu(NULL, GALE_I64, 1, two, indices, &t)) &&
              CHECK_OK(constant ? gale_graph_constant_tensor(g, t, &in[1])
                                : gale_graph_input(g, "i", GALE_I64, 1, two, NULL, &in[1])) &&
              CHECK_OK(gale_graph_op(g, op, in, 2, attrs, n_attrs, &y, 1)) && CHECK_OK(gale_graph_output(g, "y", y));
    gale_status status = ok ? gale_program_create(g, cpu, NULL, &p) : GALE_INTERNAL;
    if (status == GALE_OK) status = gale_program_run(p, &t, &out, GALE_RUN_ON_HOST);
    if (status != GALE_OK) CHECK(out == NULL);
    gale_tensor_destroy(&out);
    gale_tensor_destroy(&t);
    gale_program_destroy(&p);
    gale_graph_destroy(&g);
    return status;
}

TEST(indices)
{
    gale_attr axis = GALE_INT("axis", 1), other = GALE_INT("ignore_index", -100);
    for (int constant = 0; constant < 2; constant++) {
        CHECK_OK(look_up("Gather", constant, &axis, 1, 3));
        CHECK_OK(look_up("Gather", constant, &axis, 1, -4));
        REFUSES(look_up("Gather", constant, &axis, 1, 4), INVALID,
            "node 0 (Gather): index 4 at position 0 is outside -4 .. 3");
        REFUSES(look_up("Gather", constant, &axis, 1, -5), INVALID, "index -5");
        REFUSES(look_up("Gather", constant, NULL, 0, 2), INVALID, "-2 .. 1");
        CHECK_OK(look_up("GatherND", constant, NULL, 0, 1));
        REFUSES(look_up("GatherND", constant, NULL, 0, 2), INVALID,
            "node 0 (GatherND): index 2 at position 0 is outside -2 .. 1");
        REFUSES(look_up("GatherND", constant, NULL, 0, -3), INVALID, "index -3");
        CHECK_OK(look_up("SoftmaxCrossEntropyLoss", constant, NULL, 0, 3));
        CHECK_OK(look_up("SoftmaxCrossEntropyLoss", constant, &other, 1, -100));
        REFUSES(look_up("SoftmaxCrossEntropyLoss", constant, NULL, 0, 4), INVALID,
            "label 4 at position 0 is outside 0 .. 3");
        REFUSES(look_up("NegativeLogLikelihoodLoss", constant, NULL, 0, -1), INVALID, "label -1");
    }
}

TEST(objects)
{
    gale_object *o = NULL;
    gale_tensor *t = NULL;
    const int64_t dims[1] = {2};
    LACKS(gale_object_none(NULL), "out");
    LACKS(gale_object_tensor(NULL, &o), "tensor");
    LACKS(gale_object_sequence(NULL, 1, &o), "items");
    REFUSES(gale_object_sequence(&(gale_object *){NULL}, 1, &o), INVALID, "item 0");
    LACKS(gale_object_map(NULL, SOME, &o), "keys");
    SAYS(gale_object_get_kind(NULL), "object");
    SAYS(gale_object_get_tensor(NULL), "object");
    SAYS(gale_object_count(NULL), "object");
    SAYS(gale_object_item(NULL, 0), "object");
    if (!CHECK_OK(gale_tensor_create(NULL, GALE_I64, 1, dims, &t))) return;
    LACKS(gale_object_map(t, NULL, &o), "values");
    LACKS(gale_object_tensor(t, NULL), "out");
    if (CHECK_OK(gale_object_tensor(t, &o))) CHECK(gale_object_item(o, 9) == NULL);
    gale_object_destroy(&o);
    gale_tensor_destroy(&t);
}

static gale_status open_sqrt(gale_model **out)
{
    maker m;
    make_begin(&m, 21);
    make_input(&m, "x", 1, "2");
    make_output(&m, "y", 1, "2");
    make_node(&m, "Sqrt", "x", "y");
    gale_status status = open_made(&m, cpu, out);
    make_end(&m);
    return status;
}

TEST(models)
{
    gale_model *m = NULL;
    gale_model_value v = {.rank = 77};
    char *text = NULL;
    LACKS(gale_model_open(NULL, cpu, NULL, &m), "path");
    LACKS(gale_model_open("a.onnx", NULL, NULL, &m), "device");
    LACKS(gale_model_open("a.onnx", cpu, NULL, NULL), "out");
    REFUSES(gale_model_open("/no/such.onnx", cpu, NULL, &m), NOT_FOUND, "/no/such.onnx");
    LACKS(gale_model_from_memory(NULL, 9, GALE_MODEL_COPY, cpu, NULL, &m), "data");
    CHECK(gale_model_from_memory("garbage", 7, GALE_MODEL_COPY, cpu, NULL, &m) != GALE_OK && !m);
    SAYS(gale_model_inputs(NULL), "model");
    SAYS(gale_model_outputs(NULL), "model");
    SAYS(gale_model_defaults(NULL), "model");
    if (!CHECK_OK(open_sqrt(&m))) return;
    LACKS(gale_model_input(NULL, 0, &v), "model");
    LACKS(gale_model_input(m, 0, NULL), "out");
    REFUSES(gale_model_input(m, 1, &v), INVALID, "no input 1");
    REFUSES(gale_model_input(m, -1, &v), INVALID, "no input -1");
    REFUSES(gale_model_output(m, 1, &v), INVALID, "no output 1");
    REFUSES(gale_model_default(m, 0, &v), INVALID, "");
    LACKS(gale_model_report(m, GALE_REPORT_JSON, NULL), "text");
    LACKS(gale_model_report(NULL, GALE_REPORT_JSON, &text), "model");
    CHECK(v.rank == 77 && text == NULL);
    gale_model_close(&m);
}

TEST(runs)
{
    gale_model *m = NULL;
    const int64_t two[1] = {2}, three[1] = {3};
    const float bad[3] = {-1, -2, -3};
    gale_tensor *x = NULL, *wrong = NULL, *out = NULL;
    gale_object *in = NULL, *result = NULL;
    const char *name = "x", *y = "y", *none = "z", *nothing = NULL;
    if (!CHECK_OK(open_sqrt(&m)) || !CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 1, two, bad, &x)) ||
        !CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 1, three, bad, &wrong)) || !CHECK_OK(gale_object_tensor(x, &in)))
        return;
    LACKS(gale_model_run(NULL, &in, &result, GALE_RUN_ON_HOST), "model");
    LACKS(gale_model_run(m, NULL, &result, GALE_RUN_ON_HOST), "inputs");
    LACKS(gale_model_run(m, &in, NULL, GALE_RUN_ON_HOST), "outputs");
    REFUSES(gale_model_run(m, &result, &result, GALE_RUN_ON_HOST), INVALID, "missing input x");
    REFUSES(gale_model_run(m, &in, &result, GALE_RUN_ON_HOST), NOT_FINITE, "output y");
    CHECK(result == NULL);
    LACKS(gale_model_run_named(m, NULL, &x, 1, &y, &out, 1, GALE_RUN_ON_HOST), "input_names");
    LACKS(gale_model_run_named(m, &name, NULL, 1, &y, &out, 1, GALE_RUN_ON_HOST), "inputs");
    LACKS(gale_model_run_named(m, &name, &x, 1, NULL, &out, 1, GALE_RUN_ON_HOST), "output_names");
    LACKS(gale_model_run_named(m, &name, &x, 1, &y, NULL, 1, GALE_RUN_ON_HOST), "outputs");
    REFUSES(gale_model_run_named(m, &none, &x, 1, &y, &out, 1, GALE_RUN_ON_HOST), INVALID, "no input 'z'");
    REFUSES(gale_model_run_named(m, &name, &x, 1, &none, &out, 1, GALE_RUN_ON_HOST), INVALID, "no output 'z'");
    REFUSES(gale_model_run_named(m, &nothing, &x, 1, &y, &out, 1, GALE_RUN_ON_HOST), INVALID, "input_names[0]");
    REFUSES(gale_model_run_named(m, &name, &x, 1, &nothing, &out, 1, GALE_RUN_ON_HOST), INVALID, "output_names[0]");
    REFUSES(
        gale_model_run_named(m, &name, &(gale_tensor *){NULL}, 1, &y, &out, 1, GALE_RUN_ON_HOST), INVALID, "inputs[0]");
    REFUSES(gale_model_run_named(m, NULL, NULL, 0, &y, &out, 1, GALE_RUN_ON_HOST), INVALID, "missing input x");
    REFUSES(gale_model_run_named(m, &name, &wrong, 1, &y, &out, 1, GALE_RUN_ON_HOST), INVALID, "extent 3");
    REFUSES(gale_model_run_named(m, &name, &x, -1, &y, &out, 1, GALE_RUN_ON_HOST), INVALID, "n_inputs");
    REFUSES(gale_model_run_named(m, &name, &x, 1, &y, &out, -1, GALE_RUN_ON_HOST), INVALID, "n_outputs");
    REFUSES(gale_model_run_named(m, &name, &x, 1, &y, &out, 1, GALE_RUN_ON_HOST), NOT_FINITE, "output y");
    CHECK(out == NULL);
    gale_object_destroy(&in);
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&wrong);
    gale_model_close(&m);
}

/* A misspelt attribute in a file. */
TEST(attributes_of_files)
{
    maker m;
    gale_model *model = NULL;
    make_begin(&m, 21);
    make_input(&m, "x", 1, "2,3");
    make_output(&m, "y", 1, "2,3");
    gale__pb_node *node = make_node(&m, "Softmax", "x", "y");
    make_attr_i(&m, node, "axsi", 0);
    REFUSES(
        open_made(&m, cpu, &model), INVALID, "node 0 (Softmax): Softmax has no attribute 'axsi'; did you mean 'axis'?");
    CHECK(model == NULL);
    make_end(&m);
}

TEST(model_jobs)
{
    gale_verify_result *verified = NULL;
    gale_inspect_result *inspected = NULL;
    char *text = NULL;
    LACKS(gale_model_verify(NULL, cpu, NULL, &verified), "path");
    LACKS(gale_model_verify("a", NULL, NULL, &verified), "device");
    LACKS(gale_model_verify("a", cpu, NULL, NULL), "out");
    LACKS(gale_model_convert(NULL, "b", NULL, NULL), "path");
    LACKS(gale_model_convert("a", NULL, NULL, NULL), "output");
    LACKS(gale_model_inspect(NULL, NULL, &inspected), "path");
    LACKS(gale_model_inspect("a", NULL, NULL), "out");
    LACKS(gale_model_plan("a", NULL, NULL, SOME), "device");
    LACKS(gale_model_explain("a", NULL, NULL, SOME), "device");
    LACKS(gale_model_run_files(NULL, cpu, NULL, NULL), "path");
    LACKS(gale_model_bench("a", cpu, NULL, NULL), "out");
    LACKS(gale_verify_result_json(NULL, &text), "result");
    LACKS(gale_verify_result_json(SOME, NULL), "text");
    LACKS(gale_convert_result_json(NULL, &text), "result");
    LACKS(gale_inspect_result_json(NULL, &text), "result");
    LACKS(gale_plan_result_json(NULL, &text), "result");
    LACKS(gale_explain_result_json(NULL, &text), "result");
    LACKS(gale_run_result_json(NULL, &text), "result");
    LACKS(gale_bench_result_json(NULL, &text), "result");
    LACKS(gale_model_tune("a", NULL, NULL, SOME), "device");
    LACKS(gale_tune_result_json(NULL, &text), "result");
    CHECK(!verified && !inspected && !text);
}

TEST(machine_and_selftest)
{
    char *text = NULL;
    LACKS(gale_devices_list(NULL, NULL), "out");
    LACKS(gale_devices_result_json(NULL, &text), "result");
    SAYS(gale_device_feature(NULL, 0), "caps");
    LACKS(gale_doctor_examine(NULL, NULL), "out");
    LACKS(gale_doctor_result_json(NULL, &text), "result");
    LACKS(gale_doctor_try(NULL, NULL, SOME), "provider");
    LACKS(gale_doctor_try("cpu", NULL, NULL), "out");
    REFUSES(gale_doctor_try("no-such", NULL, SOME), INVALID, "no-such");
    LACKS(gale_trial_result_json(NULL, &text), "result");
    LACKS(gale_usage_meter_open(NULL), "out");
    LACKS(gale_usage_read(NULL, NULL, NULL), "out");
    LACKS(gale_usage_result_json(NULL, &text), "result");
    LACKS(gale_check_run(NULL, NULL), "out");
    LACKS(gale_check_result_json(NULL, &text), "result");
    LACKS(gale_conformance_run(NULL, cpu, NULL, SOME), "suite");
    LACKS(gale_conformance_run("a", NULL, NULL, SOME), "device");
    LACKS(gale_conformance_result_json(NULL, &text), "result");
    LACKS(gale_kernels_bench(NULL, NULL, SOME), "device");
    LACKS(gale_kernels_result_json(NULL, &text), "result");
    LACKS(gale_planning_bench(NULL, NULL, SOME), "device");
    LACKS(gale_start_bench(cpu, 0, NULL), "time_ms");
    LACKS(gale_tiles_bench(NULL, NULL), "out");
    LACKS(gale_tiles_result_json(NULL, &text), "result");
    LACKS(gale_texts_bench(NULL, "a", NULL, SOME), "tokenizer");
    LACKS(gale_texts_result_json(NULL, &text), "result");
    CHECK(text == NULL);
}

TEST(pictures)
{
    gale_picture *p = NULL, *q = NULL;
    gale_picture_difference d;
    void *data = NULL;
    size_t size = 3;
    LACKS(gale_picture_create(1, 1, 3, GALE_U8, NULL), "out");
    REFUSES(gale_picture_create(0, 1, 3, GALE_U8, &p), INVALID, "0 x 1");
    REFUSES(gale_picture_create(1, 1, 5, GALE_U8, &p), INVALID, "5 channels");
    REFUSES(gale_picture_create(1, 1, 3, GALE_I64, &p), INVALID, "i64");
    CHECK(gale_picture_create(INT64_MAX, INT64_MAX, 4, GALE_F32, &p) != GALE_OK);
    LACKS(gale_picture_read(NULL, NULL, &p), "path");
    LACKS(gale_picture_read("a", NULL, NULL), "out");
    REFUSES(gale_picture_read("/no/such.png", NULL, &p), NOT_FOUND, "/no/such.png");
    LACKS(gale_picture_from_memory(NULL, 4, NULL, &p), "data");
    CHECK(gale_picture_from_memory("abcd", 4, NULL, &p) != GALE_OK && !p);
    LACKS(gale_picture_write(NULL, "a.ppm", NULL), "picture");
    LACKS(gale_picture_convert(NULL, GALE_U8, 3, &p), "picture");
    LACKS(gale_picture_compare(NULL, SOME, &d, 1, NULL), "a");
    gale_picture_condition condition;
    const gale_picture bad[] = {{.width = 4, .height = 4, .channels = 3, .type = GALE_U8},
        {.width = 4, .height = 4, .channels = 77, .type = GALE_U8, .data = SOME},
        {.width = 4, .height = -4, .channels = 3, .type = GALE_U8, .data = SOME},
        {.width = INT64_MAX / 2, .height = 4, .channels = 3, .type = GALE_U8, .data = SOME},
        {.width = 4, .height = 4, .channels = 3, .type = (gale_type)99, .data = SOME}};
    static const char *const why[] = {"no data", "77 channels", "4 x -4", "too large", "not ?"};
    for (int i = 0; i < 5; i++) {
        gale_status status = i == 3 ? GALE_LIMIT : GALE_INVALID;
        CHECK(refuses(gale_picture_write(&bad[i], "/tmp/a.ppm", NULL), status, why[i], __LINE__) &&
              refuses(gale_picture_to_memory(&bad[i], &(gale_picture_write_options){.format = "ppm"}, &data, &size),
                  status, why[i], __LINE__) &&
              refuses(gale_picture_convert(&bad[i], GALE_U8, 3, &p), status, why[i], __LINE__) &&
              refuses(gale_picture_compare(&bad[i], &bad[i], &d, 1, NULL), status, why[i], __LINE__) &&
              refuses(gale_picture_examine(&bad[i], &condition), status, why[i], __LINE__) &&
              refuses(gale_animation_writer_add(SOME, &bad[i], 1), status, why[i], __LINE__) &&
              refuses(gale_upscale(SOME, &bad[i], NULL, NULL, &p), status, why[i], __LINE__));
    }
    LACKS(gale_picture_examine(NULL, &condition), "picture");
    LACKS(gale_animation_writer_to_memory(NULL, &data, &size), "writer");
    LACKS(gale_animation_open(NULL, NULL, SOME), "path");
    SAYS(gale_animation_get_info(NULL), "animation");
    LACKS(gale_animation_next(NULL, &p, NULL), "animation");
    LACKS(gale_animation_writer_create(NULL, 0, SOME), "options");
    LACKS(gale_animation_writer_add(NULL, SOME, 1), "writer");
    LACKS(gale_animation_writer_write(NULL, "a"), "writer");
    LACKS(gale_upscale_animation(NULL, SOME, NULL, NULL, SOME, NULL), "upscaler");
    CHECK(gale_picture_format_get(-1) == NULL && gale_picture_format_get(999) == NULL);
    if (!CHECK_OK(gale_picture_create(2, 2, 3, GALE_U8, &p))) return;
    LACKS(gale_picture_write(p, NULL, NULL), "path");
    CHECK(gale_picture_write(p, "/tmp/a.no-such-format", NULL) != GALE_OK);
    REFUSES(gale_picture_convert(p, GALE_I64, 3, &q), INVALID, "");
    REFUSES(gale_picture_convert(p, GALE_U8, 7, &q), INVALID, "7");
    CHECK(gale_picture_to_memory(p, NULL, &data, &size) == GALE_INVALID && !data && size == 3 && !q);
    LACKS(gale_picture_to_memory(p, SOME, NULL, &size), "data");
    LACKS(gale_picture_compare(p, p, NULL, 1, NULL), "out");
    gale_picture_destroy(&p);
}

TEST(upscalers)
{
    gale_upscaler *u = NULL;
    gale_upscaler_info info;
    gale_picture *p = NULL, *out = NULL;
    LACKS(gale_upscaler_open(NULL, NULL, NULL, &u), "device");
    LACKS(gale_upscaler_open(NULL, cpu, NULL, NULL), "out");
    LACKS(gale_upscaler_from_memory(NULL, 0, NULL, cpu, NULL, &u), "data");
    SAYS(gale_upscaler_device(NULL), "upscaler");
    SAYS(gale_upscaler_get_info(NULL, &info), "upscaler");
    SAYS(gale_upscaler_control(NULL, 0, NULL, NULL, NULL, NULL), "upscaler");
    LACKS(gale_upscale(NULL, p, NULL, NULL, &out), "upscaler");
    if (!CHECK_OK(gale_upscaler_open(NULL, cpu, NULL, &u)) || !CHECK_OK(gale_picture_create(8, 8, 3, GALE_U8, &p)))
        return;
    SAYS(gale_upscaler_get_info(u, NULL), "out");
    CHECK(!gale_upscaler_control(u, -1, NULL, NULL, NULL, NULL) &&
          !gale_upscaler_control(u, 999, NULL, NULL, NULL, NULL));
    LACKS(gale_upscaler_set(u, NULL), "setting");
    REFUSES(gale_upscaler_set(u, "no-such=1"), INVALID, "");
    LACKS(gale_upscale(u, NULL, NULL, NULL, &out), "in");
    LACKS(gale_upscale(u, p, NULL, NULL, NULL), "out");
    REFUSES(gale_upscale(u, p, &(gale_upscale_options){.width = -5}, NULL, &out), INVALID, "-5");
    REFUSES(gale_upscale(u, p, &(gale_upscale_options){.tile = -7}, NULL, &out), INVALID, "-7");
    CHECK(out == NULL);
    gale_picture_destroy(&p);
    gale_upscaler_close(&u);
}

TEST(texts)
{
    gale_tokenizer *t = NULL;
    gale_encoder *e = NULL;
    gale_encoding out;
    gale_tokenizer_info info;
    uint32_t id = 5;
    LACKS(gale_tokenizer_open(NULL, &t), "path");
    LACKS(gale_tokenizer_open("a", NULL), "out");
    CHECK(gale_tokenizer_open("/no/such", &t) != GALE_OK && !t);
    LACKS(gale_tokenizer_open_memory(NULL, 3, &t), "data");
    CHECK(gale_tokenizer_open_memory("{}", 2, &t) != GALE_OK && !t);
    SAYS(gale_tokenizer_size(NULL), "tokenizer");
    SAYS(gale_tokenizer_get_info(NULL, &info), "tokenizer");
    LACKS(gale_tokenizer_find(NULL, "a", 1, &id), "tokenizer");
    LACKS(gale_tokenizer_find(SOME, NULL, 1, &id), "token");
    LACKS(gale_tokenizer_find(SOME, "a", 1, NULL), "id");
    LACKS(gale_tokenizer_token(SOME, 0, NULL, NULL), "token");
    LACKS(gale_encoder_create(NULL, &e), "tokenizer");
    LACKS(gale_tokenizer_encode(NULL, SOME, "a", 1, NULL, 0, NULL, &out), "tokenizer");
    LACKS(gale_tokenizer_encode(SOME, NULL, "a", 1, NULL, 0, NULL, &out), "encoder");
    LACKS(gale_tokenizer_encode(SOME, SOME, NULL, 1, NULL, 0, NULL, &out), "text");
    LACKS(gale_tokenizer_encode(SOME, SOME, "a", 1, NULL, 0, NULL, NULL), "out");
    LACKS(gale_tokenizer_decode(SOME, SOME, NULL, 1, 0, SOME, NULL), "ids");
    CHECK(id == 5 && !e);
}

TEST(vectors)
{
    float one = 1, copy = 5;
    gale_vector_pack(GALE_VECTOR_F32, -3, &one, &copy);
    CHECK(copy == 5 && gale_vector_bytes(GALE_VECTOR_F32, -3) == 0);
    gale_embedder *e = NULL;
    gale_embedder_info info;
    gale_index *x = NULL;
    gale_index_info about;
    float vector[64];
    char *path = NULL;
    const char *text = "a", *nothing = NULL;
    LACKS(gale_embedder_open(NULL, cpu, NULL, &e), "path");
    LACKS(gale_embedder_open("heuristic", cpu, NULL, NULL), "out");
    REFUSES(
        gale_embedder_open("heuristic", cpu, &(gale_embedder_options){.pooling = (gale_pooling)99}, &e), INVALID, "");
    CHECK(gale_embedder_open("/no/such", cpu, NULL, &e) != GALE_OK && !e);
    LACKS(gale_encoder_find_level(NULL, &path), "level");
    REFUSES(gale_encoder_find_level("highest", &path), INVALID, "highest");
    SAYS(gale_embedder_device(NULL), "embedder");
    LACKS(gale_embedder_warm(NULL), "embedder");
    LACKS(gale_embedder_add_device(NULL, SOME), "embedder");
    LACKS(gale_embedder_add_device(SOME, NULL), "device");
    SAYS(gale_embedder_get_info(NULL, &info), "embedder");
    CHECK_TEXT(gale_pooling_name((gale_pooling)99), "?");
    CHECK_TEXT(gale_vector_type_name((gale_vector_type)99), "?");
    CHECK_TEXT(gale_vector_format_name((gale_vector_format)-1), "?");
    LACKS(gale_embed(NULL, &text, NULL, 1, vector), "embedder");
    LACKS(gale_embed_files(NULL, SOME, NULL), "embedder");
    LACKS(gale_embed_pairs(SOME, NULL, SOME), "options");
    if (!CHECK_OK(gale_embedder_open("heuristic", cpu, NULL, &e))) return;
    LACKS(gale_embed(e, NULL, NULL, 1, vector), "texts");
    LACKS(gale_embed(e, &text, NULL, 1, NULL), "vectors");
    REFUSES(gale_embed(e, &nothing, NULL, 1, vector), INVALID, "texts[0]");
    LACKS(gale_embed_files(e, NULL, NULL), "options");
    REFUSES(gale_embed_files(e, &(gale_embed_options){0}, NULL), INVALID, "");
    LACKS(gale_embed_report_json(e, SOME, SOME, NULL), "text");
    gale_embedder_close(&e);
    LACKS(gale_index_open(NULL, NULL, &x), "path");
    LACKS(gale_index_open("a", NULL, NULL), "out");
    CHECK(gale_index_open("/no/such.npy", NULL, &x) != GALE_OK && !x && !path);
    SAYS(gale_index_get_info(NULL, &about), "index");
    LACKS(gale_index_search(NULL, vector, 1, 1, NULL, SOME), "index");
    LACKS(gale_index_search(SOME, NULL, 1, 1, NULL, SOME), "queries");
    LACKS(gale_index_search(SOME, vector, 1, 1, NULL, NULL), "hits");
    LACKS(gale_index_build(NULL, NULL, NULL), "index");
    LACKS(gale_index_set_probes(NULL, 1), "index");
    LACKS(gale_index_duplicates(SOME, 1, NULL, vector), "of");
    LACKS(gale_index_vector(SOME, 0, NULL), "out");
}

TEST(exr)
{
    gale_exr *f = NULL;
    gale_picture *p = NULL;
    gale_exr_viewer *v = NULL;
    int64_t w = 5, h = 5;
    int count = 5;
    gale_exr_close(&f);
    CHECK(gale_exr_tone_name(-1) == NULL && gale_exr_filter_name(99) == NULL);
    LACKS(gale_exr_viewer_create(NULL, NULL, &v), "device");
    REFUSES(gale_exr_viewer_create(cpu, &(gale_exr_look){.tone = (gale_exr_tone)99}, &v), INVALID, "");
    REFUSES(gale_exr_viewer_create(cpu, &(gale_exr_look){.bits = 7}, &v), INVALID, "7");
    CHECK(v == NULL);
    LACKS(gale_exr_viewer_run(NULL, SOME, NULL, &p), "viewer");
    LACKS(gale_exr_batch_run(cpu, NULL, NULL, 2, NULL, SOME), "inputs");
    LACKS(gale_exr_batch_run(NULL, NULL, NULL, 0, NULL, SOME), "device");
    LACKS(gale_exr_devices_open(NULL, 2, NULL, SOME, SOME, NULL), "inputs");
    LACKS(gale_exr_devices_open(NULL, 0, NULL, NULL, SOME, NULL), "first");
    LACKS(gale_exr_measure(cpu, NULL, 0, NULL, 0, 0, SOME, &count), "file");
    LACKS(gale_exr_meter_create(NULL, SOME), "device");
    LACKS(gale_exr_meter_run(NULL, SOME, 0, NULL, 0, 0, SOME, &count), "meter");
    LACKS(gale_exr_histogram_picture(NULL, 1, 8, 8, &p), "stats");
    LACKS(gale_exr_depth(cpu, NULL, NULL, &p), "file");
    LACKS(gale_exr_compare(NULL, SOME, 0, SOME), "a");
    LACKS(gale_exr_mip(cpu, NULL, 0, NULL, "a"), "file");
    LACKS(gale_exr_layers(NULL, SOME, &count), "file");
    LACKS(gale_exr_layer_write(SOME, NULL, "a", NULL), "layer");
    LACKS(gale_exr_rewrite(SOME, NULL, NULL, NULL, 0), "path");
    LACKS(gale_exr_merge(NULL, NULL, 1, "a", NULL), "files");
    LACKS(gale_exr_sheet(NULL, 1, 0, 8, &p), "pictures");
    LACKS(gale_exr_denoise(cpu, SOME, NULL, "a", NULL), "options");
    REFUSES(gale_exr_sheet(NULL, 0, 0, -8, &p), LIMIT, "-8");
    const gale_picture empty = {.width = 4, .height = 4, .channels = 3, .type = GALE_U8}, *list[1] = {&empty};
    REFUSES(gale_exr_sheet(list, 1, 0, 8, &p), INVALID, "no data");
    if (gale_exr_open("/no/such.exr", NULL, &f) == GALE_UNSUPPORTED) SKIP("%s", gale_error());
    LACKS(gale_exr_open(NULL, NULL, &f), "path");
    LACKS(gale_exr_open("a", NULL, NULL), "out");
    LACKS(gale_exr_from_memory(NULL, 4, NULL, &f), "data");
    CHECK(gale_exr_from_memory("abcd", 4, NULL, &f) != GALE_OK && !f);
    SAYS(gale_exr_part_count(NULL), "file");
    SAYS(gale_exr_part_get(NULL, 0), "file");
    SAYS(gale_exr_size_bytes(NULL), "file");
    LACKS(gale_exr_level_size(NULL, 0, 0, 0, &w, &h), "file");
    LACKS(gale_exr_channel_size(NULL, 0, 0, 0, "R", &w, &h), "file");
    LACKS(gale_exr_read(NULL, 0, 0, 0, NULL, 0), "file");
    LACKS(gale_exr_write(NULL, SOME, 1), "path");
    REFUSES(gale_exr_write("/tmp/a.exr", SOME, 0), INVALID, "no parts to write");
    CHECK(w == 5 && h == 5 && count == 5 && !p);
}

static const test_row test_rows[] = {ROW(base), ROW(destroy_nothing), ROW(destroy_no_result), ROW(device), ROW(streams),
    ROW(asynchronous), ROW(kernels), ROW(profiler), ROW(tensors), ROW(graphs), ROW(attributes), ROW(programs),
    ROW(indices), ROW(objects), ROW(models), ROW(runs), ROW(attributes_of_files), ROW(model_jobs),
    ROW(machine_and_selftest), ROW(pictures), ROW(upscalers), ROW(texts), ROW(vectors), ROW(exr)};
int main(int argc, char **argv)
{
    return test_main_on("cpu", &cpu, test_rows, sizeof test_rows / sizeof *test_rows, argc, argv);
}
