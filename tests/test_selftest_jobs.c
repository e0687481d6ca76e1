/* Jobs that check a device: what their results say, and that they end in order when cancelled or without memory. */
#include "base/thread.h"
#include "device/null/null.h"
#include "device/trust.h"
#include "gale/selftest.h"
#include "job_suite.h"
#include "nvidia_caps.h"
#include "onnx/run/object.h"

static gale_device *cpu;

/* --- Check. --- */

typedef struct seen {
    int devices, failures;
} seen;
static void count_device(void *user, const gale_check_device *device)
{
    CHECK(*device->name);
    ((seen *)user)->devices++;
}
static void count_failure(void *user, const char *device, const gale_check_note *failure)
{
    CHECK(*device && *failure->name && *failure->text);
    ((seen *)user)->failures++;
}

TEST(check_cpu)
{
    gale_check_result *r = NULL;
    char *text = NULL;
    seen s = {0};
    job_counter counter = {0};
    gale_check_options o = {.chain = "cpu",
        .filter = "Relu",
        .device_done = count_device,
        .failed = count_failure,
        .user = &s,
        .control = {.progress = job_count, .user = &counter}};
    if (!CHECK_OK(gale_check_run(&o, &r))) return;
    CHECK(s.devices == 1 && !s.failures && counter.calls > 100);
    CHECK(r->n_devices == 1 && r->n_opened == 1 && r->passed > 10 && !r->failed && !r->skipped);
    CHECK_EQ(r->n_cases, r->passed);
    CHECK_TEXT(r->devices[0].name, "cpu:0");
    CHECK(r->devices[0].info && r->devices[0].passed == r->passed && !*r->devices[0].reason);
    CHECK_JSON(gale_check_result_json(r, &text), text, "\"name\": \"cpu:0\"", "\"failures\": []", "\"failed\": 0");
    gale_check_result_destroy(&r);
    CHECK(!r);
    gale_check_result_destroy(&r);
    gale_check_result_destroy(NULL);
}

/* Parts have every case between them, and each of them once. */
TEST(check_parts)
{
    gale_check_result *r = NULL;
    gale_check_options o = {.chain = "cpu", .filter = "Relu"};
    int whole = 0, sum = 0, most = 0;
    if (CHECK_OK(gale_check_run(&o, &r))) whole = r->passed;
    gale_check_result_destroy(&r);
    for (o.parts = 3; o.part < o.parts; o.part++) {
        if (!CHECK_OK(gale_check_run(&o, &r))) return;
        sum += r->passed;
        if (r->passed > most) most = r->passed;
        gale_check_result_destroy(&r);
    }
    CHECK_EQ(sum, whole);
    CHECK(most < whole);
    CHECK_FAILS(gale_check_run(&o, &r), INVALID); /* part 3 of 3, counted from 0 */
    CHECK_FAILS(gale_check_run(&(gale_check_options){.chain = "cpu", .part = -1}, &r), INVALID);
    CHECK_FAILS(gale_check_run(&(gale_check_options){.chain = "cpu", .part = 1}, &r), INVALID);
    CHECK_FAILS(gale_check_run(&(gale_check_options){.chain = "cpu", .parts = 2, .bench = true}, &r), INVALID);
}

/* The null device keeps nothing, so it is told as a skip; an unknown name is a mistake. */
TEST(check_skips)
{
    gale_check_result *r = NULL;
    if (CHECK_OK(gale_check_run(&(gale_check_options){.chain = "null", .filter = "Relu"}, &r)))
        CHECK(!r->n_opened && !r->devices[0].info && *r->devices[0].reason && r->skipped == 1 && !r->n_cases);
    gale_check_result_destroy(&r);
    if (CHECK_OK(gale_check_run(&(gale_check_options){.chain = "cpu", .filter = "nonesuch"}, &r)))
        CHECK(r->n_opened == 1 && !r->n_cases);
    gale_check_result_destroy(&r);
    CHECK_FAILS(gale_check_run(&(gale_check_options){.chain = "nonesuch"}, &r), NO_DEVICE);
    CHECK_FAILS(gale_check_run(&(gale_check_options){.chain = "cpu", .index = 99}, &r), NO_DEVICE);
    CHECK_FAILS(gale_check_run(&(gale_check_options){.chain = "cpu", .index = -1}, &r), INVALID);
    CHECK_FAILS(gale_check_run(NULL, NULL), INVALID);
}

TEST(check_times)
{
    gale_check_result *r = NULL;
    char *text = NULL;
    if (test_light()) SKIP("large cases take long here");
    if (!CHECK_OK(gale_check_run(&(gale_check_options){.chain = "cpu", .filter = "DFT f32", .bench = true}, &r)))
        return;
    if (CHECK(r->devices[0].n_times > 0)) {
        const gale_check_time *t = &r->devices[0].times[0];
        CHECK(strstr(t->name, "DFT") && t->median_us > 0 && t->gbps > 0 && t->kernels > 0);
    }
    CHECK_JSON(gale_check_result_json(r, &text), text, "\"median_us\": ");
    gale_check_result_destroy(&r);
}

TEST(check_cancelled)
{
    gale_check_result *r = NULL;
    int stop = 1;
    CHECK_FAILS(gale_check_run(&(gale_check_options){.chain = "cpu", .control = {.cancel = &stop}}, &r), CANCELLED);
    for (int n = 1; n < 400; n += 97) {
        job_counter counter = {.until = n};
        gale_check_options o = {.chain = "cpu", .filter = "Add", .control = {.progress = job_count, .user = &counter}};
        CHECK_FAILS(gale_check_run(&o, &r), CANCELLED);
        CHECK_EQ(counter.calls, n);
    }
}

static gale_status check_once(void)
{
    gale_check_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_check_run(&(gale_check_options){.chain = "cpu", .filter = "HardSwish"}, &r);
    if (status == GALE_OK) status = gale_check_result_json(r, &text);
    gale_free(text);
    gale_check_result_destroy(&r);
    return status;
}
/* What a case finds no memory for is one that failed, and the rest goes on. */
TEST(check_faults) { job_faults(cpu, check_once, 8, true); }

/* --- Conformance. --- */

/* A case: y = Relu(x) for x = -1, 2; the expected output is `second` behind a 0. */
static void make_case(const char *folder, float second)
{
    maker m;
    char path[300];
    float in[2] = {-1, 2}, out[2] = {0, second};
    gale__str bytes = {0};
    snprintf(path, sizeof path, "%s/node/%s/test_data_set_0", job_folder, folder);
    CHECK_OK(gale__folder_make(path));
    for (int i = 0; i < 2; i++) {
        gale_tensor *t = NULL;
        gale_object *object = NULL;
        int64_t dims[1] = {2};
        snprintf(path, sizeof path, "%s/node/%s/test_data_set_0/%s_0.pb", job_folder, folder, i ? "output" : "input");
        CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 1, dims, i ? out : in, &t));
        CHECK_OK(gale__onnx_object_take(&t, &object));
        CHECK_OK(gale__onnx_object_write(path, object));
        gale_object_destroy(&object);
    }
    make_begin(&m, 17);
    make_input(&m, "x", 1, "2");
    make_output(&m, "y", 1, "2");
    make_node(&m, "Relu", "x", "y");
    CHECK_OK(make_encode(&m, &bytes));
    snprintf(path, sizeof path, "%s/node/%s/model.onnx", job_folder, folder);
    CHECK_OK(gale__file_write(path, bytes.text, bytes.length));
    gale__str_finish(&bytes);
    make_end(&m);
}

static void make_suite(void)
{
    in_folder("");
    make_case("test_right", 2);
    make_case("test_wrong", 3);
    make_case("test_other", 2);
}

static void count_case(void *user, const gale_conformance_case *failure)
{
    CHECK_TEXT(failure->name, "test_wrong");
    CHECK(strstr(failure->reason, "output y"));
    ++*(int *)user;
}

TEST(conformance)
{
    gale_conformance_result *r = NULL;
    char *text = NULL;
    int failed = 0;
    gale_conformance_options o = {.failed = count_case, .user = &failed};
    if (!CHECK_OK(gale_conformance_run(job_folder, cpu, &o, &r))) return;
    CHECK(failed == 1 && r->passed == 2 && r->failed == 1 && !r->skipped && r->n_cases == 3);
    CHECK_TEXT(r->provider, "cpu");
    CHECK_TEXT(r->cases[0].name, "test_other");
    CHECK_TEXT(r->cases[0].group, "node");
    CHECK(r->cases[2].outcome == GALE_CASE_FAILED && !*r->cases[1].reason);
    if (CHECK_EQ(r->n_operators, 1)) CHECK(!strcmp(r->operators[0].op, "Relu") && r->operators[0].passed == 2);
    CHECK_JSON(gale_conformance_result_json(r, &text), text, "\"outcome\": \"failed\"", "\"operator\": \"Relu\"");
    gale_conformance_result_destroy(&r);
    gale_conformance_result_destroy(NULL);
    o = (gale_conformance_options){.filter = "right", .jobs = 2};
    if (CHECK_OK(gale_conformance_run(job_folder, cpu, &o, &r))) CHECK(r->n_cases == 1 && r->passed == 1);
    gale_conformance_result_destroy(&r);
    o = (gale_conformance_options){.every = 2, .jobs = 3};
    if (CHECK_OK(gale_conformance_run(job_folder, cpu, &o, &r))) CHECK_EQ(r->n_cases, 2);
    gale_conformance_result_destroy(&r);
}

TEST(conformance_refuses)
{
    gale_conformance_result *r = NULL;
    int stop = 1;
    gale_conformance_options o = {.filter = "nonesuch"};
    CHECK_FAILS(gale_conformance_run(job_folder, cpu, &o, &r), NOT_FOUND);
    CHECK_FAILS(gale_conformance_run(NULL, cpu, NULL, &r), INVALID);
    CHECK_FAILS(gale_conformance_run(job_folder, NULL, NULL, &r), INVALID);
    CHECK_FAILS(gale_conformance_run(job_folder, cpu, &(gale_conformance_options){.every = -1}, &r), INVALID);
    CHECK_FAILS(gale_conformance_run(job_folder, cpu, &(gale_conformance_options){.jobs = 257}, &r), INVALID);
    o = (gale_conformance_options){.control = {.cancel = &stop}};
    CHECK_FAILS(gale_conformance_run(job_folder, cpu, &o, &r), CANCELLED);
    job_counter counter = {.until = 3};
    o = (gale_conformance_options){.control = {.progress = job_count, .user = &counter}};
    CHECK_FAILS(gale_conformance_run(job_folder, cpu, &o, &r), CANCELLED);
    CHECK_TEXT(gale_error(), "cancelled");
}

static gale_status conformance_once(void)
{
    gale_conformance_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_conformance_run(job_folder, cpu, &(gale_conformance_options){.filter = "right"}, &r);
    if (status == GALE_OK) status = gale_conformance_result_json(r, &text);
    gale_free(text);
    gale_conformance_result_destroy(&r);
    return status;
}
TEST(conformance_faults) { job_faults(cpu, conformance_once, 20, true); }

/* --- Kernels. --- */

static void count_row(void *user, const gale_kernel_time *row)
{
    CHECK(*row->name && row->median_us > 0);
    ++*(int *)user;
}

TEST(kernels)
{
    gale_kernels_result *r = NULL;
    char *text = NULL;
    int rows = 0;
    gale_kernels_options o = {.filter = "softmax", .scale = 256, .repeats = 3, .row_done = count_row, .user = &rows};
    if (!CHECK_OK(gale_kernels_bench(cpu, &o, &r))) return;
    CHECK(r->n_rows == 4 && rows == 4 && !r->fast);
    CHECK_TEXT(r->rows[0].name, "copy");
    CHECK(r->rows[1].kernels >= 1 && r->rows[1].gbps > 0 && r->rows[1].share_of_copy > 0);
    CHECK_JSON(gale_kernels_result_json(r, &text), text, "\"name\": \"copy\"", "\"fast\": false");
    gale_kernels_result_destroy(&r);
    gale_kernels_result_destroy(NULL);
}

TEST(kernels_refuses)
{
    gale_kernels_result *r = NULL;
    int stop = 1;
    CHECK_FAILS(gale_kernels_bench(NULL, NULL, &r), INVALID);
    CHECK_FAILS(gale_kernels_bench(cpu, NULL, NULL), INVALID);
    CHECK_FAILS(gale_kernels_bench(cpu, &(gale_kernels_options){.scale = 1025}, &r), INVALID);
    CHECK_FAILS(gale_kernels_bench(cpu, &(gale_kernels_options){.repeats = -1}, &r), INVALID);
    gale_kernels_options o = {.scale = 1024, .repeats = 3, .control = {.cancel = &stop}};
    CHECK_FAILS(gale_kernels_bench(cpu, &o, &r), CANCELLED);
}

TEST(planning_and_start)
{
    gale_planning_time t = {0};
    double ms = 0;
    int stop = 1;
    if (CHECK_OK(gale_planning_bench(cpu, NULL, &t))) CHECK(t.kernels >= 1000 && t.best_ms > 0);
    CHECK_FAILS(gale_planning_bench(cpu, &(gale_job_control){.cancel = &stop}, &t), CANCELLED);
    CHECK_FAILS(gale_planning_bench(NULL, NULL, &t), INVALID);
    if (CHECK_OK(gale_start_bench(cpu, 0, &ms))) CHECK(ms > 0);
    CHECK_FAILS(gale_start_bench(cpu, 0, NULL), INVALID);
}

static gale_status kernels_once(void)
{
    gale_kernels_result *r = NULL;
    char *text = NULL;
    gale_kernels_options o = {.filter = "max(a*x+b, 0)", .scale = 1024, .repeats = 1};
    gale_status status = gale_kernels_bench(cpu, &o, &r);
    if (status == GALE_OK) status = gale_kernels_result_json(r, &text);
    gale_free(text);
    gale_kernels_result_destroy(&r);
    return status;
}
TEST(kernels_faults) { job_faults(cpu, kernels_once, 30, false); }

/* --- Tiles and texts. --- */

TEST(tiles)
{
    gale_tiles_result *r = NULL;
    char *text = NULL;
    int stop = 1;
    gale_tiles_options o = {.chain = "cpu", .scale = 16, .repeats = 1, .batch = 1};
    if (!CHECK_OK(gale_tiles_bench(&o, &r))) return;
    if (CHECK(r->n_rows == 1 && r->last == 0)) {
        const gale_tiles_time *t = &r->rows[0];
        CHECK(t->device && !*t->reason && t->tiles >= 1 && t->tiles_per_second > 0 && t->times_the_cpu == 1);
        CHECK_TEXT(t->provider, "cpu");
        CHECK_TEXT(t->precision, "fp32");
    }
    CHECK_JSON(gale_tiles_result_json(r, &text), text, "\"provider\": \"cpu\"", "\"tiles_per_second\": ");
    gale_tiles_result_destroy(&r);
    gale_tiles_result_destroy(NULL);
    CHECK_FAILS(gale_tiles_bench(NULL, NULL), INVALID);
    CHECK_FAILS(gale_tiles_bench(&(gale_tiles_options){.scale = -1}, &r), INVALID);
    CHECK_FAILS(gale_tiles_bench(&(gale_tiles_options){.chain = "nonesuch"}, &r), NO_DEVICE);
    CHECK_FAILS(gale_tiles_bench(&(gale_tiles_options){.model = "/nowhere.onnx"}, &r), NOT_FOUND);
    o.control.cancel = &stop;
    CHECK_FAILS(gale_tiles_bench(&o, &r), CANCELLED);
    job_counter counter = {.until = 2};
    o.control = (gale_job_control){.progress = job_count, .user = &counter};
    CHECK_FAILS(gale_tiles_bench(&o, &r), CANCELLED);
}

static gale_status tiles_once(void)
{
    gale_tiles_result *r = NULL;
    char *text = NULL;
    gale_tiles_options o = {.chain = "cpu", .scale = 64, .repeats = 1, .batch = 1};
    gale_status status = gale_tiles_bench(&o, &r);
    if (status == GALE_OK) status = gale_tiles_result_json(r, &text);
    gale_free(text);
    gale_tiles_result_destroy(&r);
    return status;
}
/* Without memory an upscaler takes smaller tiles, or another device. */
TEST(tiles_faults) { job_faults(cpu, tiles_once, 6, true); }

static gale_tokenizer *tokenizer;

static void open_tokenizer(void)
{
    static const char file[] =
        "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", "
        "\"max_input_chars_per_word\": 100, \"vocab\": {\"[UNK]\": 0, \"a\": 1, \"b\": 2}}, \"pre_tokenizer\": "
        "{\"type\": "
        "\"WhitespaceSplit\"}}";
    const char *path = in_folder("tokenizer.json");
    CHECK_OK(gale__file_write(path, file, sizeof file - 1));
    CHECK_OK(gale_tokenizer_open(path, &tokenizer));
    CHECK_OK(gale__file_write(in_folder("texts.txt"), "a b a\nb\n", 8));
}

static void count_texts(void *user, const gale_texts_time *row, size_t n_texts, size_t n_bytes)
{
    CHECK(n_texts == 2 && n_bytes == 6 && row->tokens == 4);
    ++*(size_t *)user;
}

TEST(texts)
{
    gale_texts_result *r = NULL;
    char *text = NULL;
    size_t rows = 0;
    int stop = 1;
    if (!tokenizer) open_tokenizer();
    const char *path = in_folder("texts.txt");
    if (!CHECK_OK(gale_texts_bench(
            tokenizer, path, &(gale_texts_options){.repeats = 2, .row_done = count_texts, .user = &rows}, &r)))
        return;
    CHECK(r->n_rows == rows && rows >= 1 && r->rows[0].threads == 1 && r->rows[0].seconds > 0);
    CHECK_JSON(gale_texts_result_json(r, &text), text, "\"texts\": 2", "\"tokens\": 4");
    gale_texts_result_destroy(&r);
    gale_texts_result_destroy(NULL);
    CHECK_FAILS(gale_texts_bench(NULL, path, NULL, &r), INVALID);
    CHECK_FAILS(gale_texts_bench(tokenizer, path, &(gale_texts_options){.repeats = -1}, &r), INVALID);
    CHECK_FAILS(gale_texts_bench(tokenizer, "/nowhere.txt", NULL, &r), NOT_FOUND);
    CHECK_FAILS(gale_texts_bench(tokenizer, path, &(gale_texts_options){.control = {.cancel = &stop}}, &r), CANCELLED);
}

static gale_status texts_once(void)
{
    gale_texts_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_texts_bench(tokenizer, in_folder("texts.txt"), &(gale_texts_options){.repeats = 1}, &r);
    if (status == GALE_OK) status = gale_texts_result_json(r, &text);
    gale_free(text);
    gale_texts_result_destroy(&r);
    return status;
}
TEST(texts_faults)
{
    if (!tokenizer) open_tokenizer();
    job_faults(NULL, texts_once, 100, false);
}

/* --- The self-test of a driver. --- */

typedef struct sources {
    int programs, rolled;
} sources;
static void count_text(void *user, const char *text, size_t size)
{
    sources *t = user;
    t->programs++;
    t->rolled += memmem(text, size, "#pragma unroll 1\n", 17) != NULL;
}
static void no_line(void *user, const char *line) { (void)user, (void)line; }

/* Kernels that run once share programs, and the loop of a tile stays one. */
TEST(selftests_compile_quickly)
{
    sources usual = {0}, once = {0};
    for (uint32_t kernels = 0; kernels < 8; kernels += 4) {
        gale_device_options options = {.chain = "null"};
        gale_device *device = NULL;
        gale__null_set_caps(&nvidia);
        gale__null_set_sink(count_text, kernels ? &once : &usual);
        if (CHECK_OK(gale_device_open(&options, &device))) {
            device->once = kernels;
            CHECK_OK(gale__selftest_run(device, GALE__TRUST_WHOLE, no_line, NULL));
        }
        gale_device_close(&device);
    }
    gale__null_set_sink(NULL, NULL);
    gale__null_set_caps(NULL);
    CHECK(usual.programs >= 12 && !usual.rolled && once.rolled == 1 && once.programs < usual.programs * 2 / 3);
}

static const test_row rows[] = {ROW(check_cpu), ROW(check_parts), ROW(check_skips), ROW(check_times),
    ROW(check_cancelled), ROW(check_faults), ROW(conformance), ROW(conformance_refuses), ROW(conformance_faults),
    ROW(kernels), ROW(kernels_refuses), ROW(planning_and_start), ROW(kernels_faults), ROW(tiles), ROW(tiles_faults),
    ROW(texts), ROW(texts_faults), ROW(selftests_compile_quickly)};

int main(int argc, char **argv)
{
    gale_device_options options = {.chain = "cpu"};
    if (gale_device_open(&options, &cpu) != GALE_OK) return 2;
    make_suite();
    int code = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    gale_tokenizer_destroy(&tokenizer);
    gale__temp_folder_remove(job_folder);
    gale_device_close(&cpu);
    return code;
}
