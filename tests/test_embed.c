/* Encoders of text: what a folder says, pooling computed by hand, padding and batches, wrong folders, and
 * all-MiniLM-L6-v2 where it is there. */
#include "base/mem.h"
#include "base/thread.h"
#include "device/device.h"
#include "encoder_make.h"
#include "gale/embed.h"
#include "jobs/embed/embedder.h"
#include <math.h>

/* Opened once: the last test closes it. */
static gale_device *cpu_device;
static gale_device *cpu(void)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.chain = "cpu";
    if (!cpu_device) CHECK_OK(gale_device_open(&options, &cpu_device));
    return cpu_device;
}

/* Opens, embeds one text, closes. */
static gale_status vector_of(const char *folder, gale_embedder_options o, const char *text, float *out, int64_t *dims)
{
    gale_embedder *e = NULL;
    gale_embedder_info info;
    gale_status status = gale_embedder_open(folder, cpu(), &o, &e);
    if (status == GALE_OK) {
        gale_embedder_get_info(e, &info);
        *dims = info.dims;
        status = gale_embed(e, &text, NULL, 1, out);
        gale_embedder_close(&e);
    }
    return status;
}

static void check_vector(const char *folder, gale_embedder_options o, const char *text, const float *want, int64_t n)
{
    float v[16];
    int64_t dims = 0;
    if (!CHECK_OK(vector_of(folder, o, text, v, &dims)) || !CHECK_EQ(dims, n)) return;
    for (int64_t i = 0; i < n; i++)
        if (!CHECK(fabsf(v[i] - want[i]) < 1e-5f)) printf("  %lld: %g, not %g\n", (long long)i, v[i], want[i]);
}

/* "one three" is 1 4 6 2. */
TEST(pooling_is_what_it_says)
{
    static const struct {
        gale_pooling pooling;
        float want[4];
    } cases[] = {
        {GALE_POOLING_MEAN, {13 / 4.f, 57 / 4.f, -13 / 4.f, 1}},
        {GALE_POOLING_CLS, {1, 1, -1, 1}},
        {GALE_POOLING_MAX, {6, 36, -1, 1}},
        {GALE_POOLING_LAST, {2, 4, -2, 1}},
        {GALE_POOLING_MEAN_SQRT, {13 / 2.f, 57 / 2.f, -13 / 2.f, 2}},
        {GALE_POOLING_WEIGHTED, {3.5f, 15.7f, -3.5f, 1}},
    };
    static const int opsets[] = {9, 11, 13, 18, 21};
    char folder[256];
    for (size_t k = 0; k < sizeof opsets / sizeof *opsets; k++) {
        encoder_make(folder, (encoder_kind){.opset = opsets[k]});
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            gale_embedder_options o = {.pooling = cases[i].pooling, .no_normalize = true};
            check_vector(folder, o, "one three", cases[i].want, 4);
        }
        gale__temp_folder_remove(folder);
    }
}

TEST(vectors_are_cut_and_normalised)
{
    char folder[256];
    encoder_make(folder, (encoder_kind){0});
    float root = sqrtf(2), two[2] = {1 / root, 1 / root}, cut[3] = {1, 1, -1};
    check_vector(folder, (gale_embedder_options){.pooling = GALE_POOLING_CLS, .dims = 2}, " one ", two, 2);
    check_vector(
        folder, (gale_embedder_options){.pooling = GALE_POOLING_CLS, .dims = 3, .no_normalize = true}, "one", cut, 3);
    encoder_write(folder, "config.json", "{\"model_type\": \"bert\", \"max_position_embeddings\": 3}");
    float short_mean[4] = {7 / 3.f, 21 / 3.f, -7 / 3.f, 1}; /* one three becomes 1 4 2 */
    check_vector(folder, (gale_embedder_options){.no_normalize = true}, "one three", short_mean, 4);
    gale__temp_folder_remove(folder);
}

static void make_pooling(const char *folder, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/1_Pooling", folder);
    CHECK_OK(gale__folder_make(path));
    encoder_write(path, "config.json", text);
}

static void remove_pooling(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/1_Pooling", folder);
    gale__temp_folder_remove(path);
}

TEST(folders_say_how)
{
    char folder[256];
    float v[16], cls[4] = {1, 1, -1, 1}, query[4] = {16 / 4.f, 90 / 4.f, -16 / 4.f, 1};
    int64_t dims;
    gale_embedder_options plain = {.no_normalize = true};
    encoder_make(folder, (encoder_kind){0});
    make_pooling(folder, "{\"pooling_mode_cls_token\": true, \"pooling_mode_mean_tokens\": false}");
    check_vector(folder, plain, "three", cls, 4);
    make_pooling(folder, "{\"pooling_mode\": \"cls\"}");
    check_vector(folder, plain, "three", cls, 4);
    make_pooling(folder, "{\"pooling_mode_mean_tokens\": true, \"include_prompt\": false}");
    encoder_write(folder, "config_sentence_transformers.json",
        "{\"prompts\": {\"query\": \"query \", \"passage\": \"\"}, \"default_prompt_name\": null}");
    gale_embedder_options o = {.no_normalize = true, .prompt_name = "query"};
    float behind[4] = {8 / 2.f, 40 / 2.f, -8 / 2.f, 1}; /* 1 7 6 2 without the first two */
    check_vector(folder, o, "three", behind, 4);
    make_pooling(folder, "{\"pooling_mode_mean_tokens\": true}");
    check_vector(folder, o, "three", query, 4);
    check_vector(folder, (gale_embedder_options){.no_normalize = true, .prompt = "query "}, "three", query, 4);
    CHECK_FAILS(vector_of(folder, (gale_embedder_options){.prompt_name = "other"}, "one", v, &dims), NOT_FOUND);
    CHECK(strstr(gale_error(), "query, passage") != NULL);
    make_pooling(folder, "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_max_tokens\": true}");
    CHECK_FAILS(vector_of(folder, plain, "one", v, &dims), UNSUPPORTED);
    make_pooling(folder, "{\"pooling_mode\": \"attention\"}");
    CHECK_FAILS(vector_of(folder, plain, "one", v, &dims), UNSUPPORTED);
    CHECK(strstr(gale_error(), "attention") != NULL);
    remove_pooling(folder);
    encoder_write(folder, "modules.json", "[{\"type\": \"sentence_transformers.models.LayerNorm\"}]");
    CHECK_FAILS(vector_of(folder, plain, "one", v, &dims), UNSUPPORTED);
    CHECK(strstr(gale_error(), "LayerNorm") != NULL);
    char path[300];
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    encoder_model(path, (encoder_kind){.output = "sentence_embedding"}); /* has all of its modules */
    check_vector(folder, plain, "three", cls, 4);
    gale__temp_folder_remove(folder);
}

/* A layer of 4 to 2 numbers: rows (1, 2, 3, 4) and (0, 0, 1, 0.5), and 1, 0; the bytes of the file that are kept. */
static void make_dense(const char *folder, const char *config, const char *header, size_t kept)
{
    static const float numbers[10] = {1, 0, 1, 2, 3, 4, 0, 0, 1, 0.5f};
    char path[300], bytes[512] = {0};
    size_t n = strlen(header), size = 8 + n + sizeof numbers;
    snprintf(path, sizeof path, "%s/2_Dense", folder);
    CHECK_OK(gale__folder_make(path));
    encoder_write(path, "config.json", config);
    bytes[0] = (char)n;
    memcpy(bytes + 8, header, n);
    memcpy(bytes + 8 + n, numbers, sizeof numbers);
    snprintf(path, sizeof path, "%s/2_Dense/model.safetensors", folder);
    CHECK_OK(gale__file_write(path, bytes, kept < size ? kept : size));
}

#define DENSE(activation) \
    "{\"in_features\": 4, \"out_features\": 2, \"activation_function\": \"torch.nn." activation "\"}"
static const char dense_header[] = "{\"linear.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                   "\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[8,40]}}";

static const char dense_modules[] = "[{\"type\": \"a.Transformer\"}, {\"type\": \"a.Pooling\"}, "
                                    "{\"type\": \"a.Dense\", \"path\": \"2_Dense\"}, {\"type\": \"a.Normalize\"}]";

TEST(dense_layers)
{
    static const struct {
        const char *config, *header;
        size_t kept;
        gale_status status;
        const char *said;
    } bad[] = {
        {DENSE("GELU"), dense_header, 999, GALE_UNSUPPORTED, "activation torch.nn.GELU is not supported"},
        {"{\"in_features\": 4}", dense_header, 999, GALE_FORMAT, "out_features"},
        {"{\"in_features\": 5, \"out_features\": 2}", dense_header, 999, GALE_FORMAT, "linear.weight of the shape"},
        {DENSE("Tanh"), "{}", 999, GALE_FORMAT, "linear.weight of the shape"},
        {DENSE("Tanh"), "{\"linear.weight\":{\"dtype\":\"I8\",\"shape\":[2,4]}}", 999, GALE_UNSUPPORTED, "of type I8"},
        {DENSE("Tanh"), "{\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[8,1e300]}}", 999,
            GALE_FORMAT, "not where the header says"},
        {DENSE("Tanh"), dense_header, 7, GALE_FORMAT, "cut"},
        {DENSE("Tanh"), dense_header, 100, GALE_FORMAT, "cut"},
        {DENSE("Tanh"), dense_header, 8 + sizeof dense_header - 1 + 39, GALE_FORMAT, "cut"},
    };
    char folder[256], path[300];
    float v[16], relu[2] = {5, 0}, tanh2[2] = {tanhf(5), tanhf(-0.5f)}, cut[1] = {5}, unit[2] = {1, 0};
    int64_t dims;
    gale_embedder_options o = {.pooling = GALE_POOLING_CLS, .no_normalize = true}; /* [CLS] is 1 1 -1 1 */
    encoder_make(folder, (encoder_kind){0});
    encoder_write(folder, "modules.json", dense_modules);
    CHECK_FAILS(vector_of(folder, o, "one", v, &dims), NOT_FOUND);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        make_dense(folder, bad[i].config, bad[i].header, bad[i].kept);
        CHECK_EQ(vector_of(folder, o, "one", v, &dims), bad[i].status);
        if (!CHECK(strstr(gale_error(), bad[i].said) != NULL)) printf("%s\n", gale_error());
    }
    make_dense(folder, DENSE("Tanh"), dense_header, 999);
    check_vector(folder, o, "one", tanh2, 2);
    make_dense(folder, DENSE("ReLU"), dense_header, 999);
    check_vector(folder, o, "one", relu, 2);
    check_vector(folder, (gale_embedder_options){.pooling = GALE_POOLING_CLS}, "one", unit, 2);
    o.dims = 1;
    check_vector(folder, o, "one", cut, 1);
    snprintf(path, sizeof path, "%s/2_Dense/model.safetensors", folder);
    remove(path);
    CHECK_FAILS(vector_of(folder, o, "one", v, &dims), NOT_FOUND);
    CHECK(strstr(gale_error(), "pytorch_model.bin") != NULL);
    gale__temp_folder_remove(folder);
}

TEST(models_that_pool_themselves)
{
    char folder[256];
    float cls[4] = {1, 1, -1, 1}, empty[4] = {1.5f, 2.5f, -1.5f, 1};
    encoder_make(folder, (encoder_kind){.output = "sentence_embedding"});
    check_vector(folder, (gale_embedder_options){.no_normalize = true}, "three", cls, 4);
    gale__temp_folder_remove(folder);
    encoder_make(folder, (encoder_kind){.bare = true});
    check_vector(folder, (gale_embedder_options){.no_normalize = true}, "", empty, 4);
    gale__temp_folder_remove(folder);
    encoder_make(folder, (encoder_kind){.narrow = true});
    check_vector(folder, (gale_embedder_options){.no_normalize = true}, " \t", empty, 4);
    gale__temp_folder_remove(folder);
}

/* Lengths as of sentences: most of 8 to 30 tokens, some much longer. */
static void make_lengths(gale__row *rows, size_t count)
{
    uint32_t seed = 7;
    for (size_t i = 0; i < count; i++) {
        uint32_t sum = 3;
        for (int k = 0; k < 3; k++) sum += (seed = seed * 1664525u + 1013904223u) >> 28;
        if (sum % 16 == 0) sum += (seed = seed * 1664525u + 1013904223u) >> 26;
        rows[i] = (gale__row){.count = sum};
    }
}

static void check_batches(
    size_t count, size_t tokens, gale__batch_shapes *known, double padding_most, size_t shapes_most)
{
    gale__row *rows = calloc(count, sizeof *rows);
    uint8_t(*seen)[4096] = calloc(256, sizeof *seen);
    size_t real = 0, run = 0, shapes = 0;
    gale__batch b;
    make_lengths(rows, count);
    CHECK_OK(gale__rows_sort(rows, count));
    for (size_t at = 0; at < count; at += b.count) {
        gale__batch_next(rows, count, at, tokens, 0, 512, known, &b);
        if (!CHECK(b.count > 0 && b.count <= b.slots && b.slots * b.length <= tokens + b.length)) break;
        CHECK(rows[at].count <= b.length);
        run += b.slots * b.length;
        shapes += !seen[b.length % 256][b.slots % 4096]++;
    }
    for (size_t i = 0; i < count; i++) real += rows[i].count;
    double padding = (double)run / (double)real - 1;
    if (!CHECK(padding < padding_most)) printf("  padding %.4f\n", padding);
    if (!CHECK(shapes <= shapes_most)) printf("  %zu shapes\n", shapes);
    free(rows);
    free(seen);
}

TEST(batches_have_little_padding_and_few_shapes)
{
    gale__batch_shapes known = {.price = 4096};
    check_batches(131072, 32768, NULL, 0.025, 80);
    check_batches(8192, 1024, NULL, 0.02, 150);
    check_batches(3, 1024, NULL, 0.7, 3);
    check_batches(32768, 32768, &known, 0.1, 16);                                              /* few at first, */
    for (int i = 0; i < 6; i++) check_batches(131072, 32768, &known, i < 5 ? 0.05 : 0.02, 60); /* the best ones later */
    gale__row one = {.count = 17};
    gale__batch b;
    gale__batch_next(&one, 1, 0, 1024, 0, 512, NULL, &b);
    CHECK_EQ(b.length, 20); /* a single text: of few shapes */
    CHECK_EQ(b.slots, 1);
}

TEST(wrong_folders_are_refused)
{
    char folder[256], path[512];
    float v[16];
    int64_t dims;
    gale_embedder_options o = {0};
    encoder_make(folder, (encoder_kind){.words = 6});
    CHECK_FAILS(vector_of(folder, o, "one", v, &dims), MISMATCH);
    CHECK(strstr(gale_error(), "8 tokens but the model 6") != NULL);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    CHECK_OK(gale__file_remove(path));
    CHECK(vector_of(folder, o, "one", v, &dims) != GALE_OK);
    CHECK(strstr(gale_error(), "tokenizer") != NULL);
    gale__temp_folder_remove(folder);
    encoder_make(folder, (encoder_kind){.input = "past_key_values.0.key"});
    CHECK_FAILS(vector_of(folder, o, "one", v, &dims), UNSUPPORTED);
    CHECK(strstr(gale_error(), "past_key_values.0.key") != NULL);
    gale__temp_folder_remove(folder);
    encoder_make(folder, (encoder_kind){.output = "logits"});
    CHECK_FAILS(vector_of(folder, o, "one", v, &dims), UNSUPPORTED);
    CHECK(strstr(gale_error(), "logits") != NULL);
    CHECK_FAILS(vector_of(folder, (gale_embedder_options){.file = "other.onnx"}, "one", v, &dims), NOT_FOUND);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    CHECK_OK(gale__file_remove(path));
    CHECK_FAILS(vector_of(folder, o, "one", v, &dims), NOT_FOUND);
    CHECK_FAILS(vector_of("/nowhere/at/all", o, "one", v, &dims), NOT_FOUND);
    gale__temp_folder_remove(folder);
    encoder_make(folder, (encoder_kind){0});
    CHECK_FAILS(vector_of(folder, (gale_embedder_options){.dims = 5}, "one", v, &dims), INVALID);
    encoder_write(folder, "config.json", "{\"model_type\": ");
    CHECK_FAILS(vector_of(folder, o, "one", v, &dims), FORMAT);
    CHECK(strstr(gale_error(), "config.json") != NULL);
    gale__temp_folder_remove(folder);
}

TEST(memory_may_run_out)
{
    char folder[256];
    float v[16];
    int64_t dims;
    encoder_make(folder, (encoder_kind){0});
    encoder_write(folder, "modules.json", dense_modules);
    make_dense(folder, DENSE("Tanh"), dense_header, 999);
    gale_device_close(&cpu_device);
    int64_t live = gale__alloc_live(); /* the device's pool keeps some while it is open */
    CHECK_OK(vector_of(folder, (gale_embedder_options){0}, "one two", v, &dims));
    for (uint64_t n = 1; n < 100000; n += n < 400 ? 1 : 7) {
        gale__alloc_fail_at(n);
        gale_status status = vector_of(folder, (gale_embedder_options){0}, "one two", v, &dims);
        bool over = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        if (over) break;
        if (status == GALE_OK) continue; /* an allocation that something else could do without */
        CHECK_EQ(status, GALE_NO_MEMORY);
    }
    gale_device_close(&cpu_device);
    CHECK_EQ(gale__alloc_live(), live);
    gale__temp_folder_remove(folder);
}

static gale_status embed_file(const char *folder, bool cache)
{
    char in[512], out[512];
    const char *file = in;
    gale_embedder *e = NULL;
    gale_embed_report report;
    snprintf(in, sizeof in, "%s/texts.txt", folder);
    snprintf(out, sizeof out, "%s/vectors.npy", folder);
    gale_embed_options o = {.files = &file, .file_count = 1, .output = out, .window = 8, .cache = cache};
    if (cache) o.packing = GALE_PACKING_ON;
    gale_status status = gale_embedder_open(folder, cpu(), NULL, &e);
    if (status == GALE_OK) status = gale_embed_files(e, &o, &report);
    if (status == GALE_OK) CHECK_EQ(report.texts, 40);
    gale_embedder_close(&e);
    return status;
}

/* From file to file, with all its threads: whichever allocation fails, everybody stops and nothing is left. */
TEST(memory_may_run_out_in_the_pipeline)
{
    char folder[256], text[40 * 8 + 1] = "";
    encoder_make(folder, (encoder_kind){0});
    setenv("GALE_CACHE", folder, 1);
    for (int i = 0; i < 40; i++) strcat(text, i % 3 ? "one two\n" : "three\n");
    encoder_write(folder, "texts.txt", text);
    CHECK_OK(embed_file(folder, false));
    gale_device_close(&cpu_device);
    gale__parallel_finish();
    int64_t live = gale__alloc_live(); /* what is made once and kept */
    cpu();
    for (uint64_t n = 1; n < 100000; n += n < 300 ? 3 : 11) {
        gale__alloc_fail_at(n);
        gale_status status = embed_file(folder, n % 2);
        bool over = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        if (over) break;
        if (status != GALE_OK) CHECK_EQ(status, GALE_NO_MEMORY);
    }
    CHECK_OK(embed_file(folder, true));
    gale_device_close(&cpu_device);
    gale__parallel_finish();
    CHECK_EQ(gale__alloc_live(), live);
    gale__temp_folder_remove(folder);
}

/* Vectors of a file of texts, on some devices side by side. */
static gale_status embed_on(const char *folder, gale_device *const *devices, int n, const gale_embed_options *how,
    float *vectors, size_t size, gale_embed_report *report)
{
    char in[512], out[512];
    const char *file = in;
    gale_embedder *e = NULL;
    gale__bytes bytes = {0};
    gale_embed_options o = *how;
    snprintf(in, sizeof in, "%s/texts.txt", folder);
    snprintf(out, sizeof out, "%s/vectors.raw", folder);
    o.files = &file;
    o.file_count = 1;
    o.output = out;
    gale_status status = gale_embedder_open(folder, devices[0], NULL, &e);
    for (int i = 1; i < n && status == GALE_OK; i++) status = gale_embedder_add_device(e, devices[i]);
    if (status == GALE_OK) status = gale_embed_files(e, &o, report);
    gale_embedder_close(&e);
    if (status == GALE_OK) status = gale__file_read(out, 0, &bytes);
    if (status == GALE_OK && CHECK_EQ(bytes.size, size)) memcpy(vectors, bytes.data, size);
    gale__bytes_finish(&bytes);
    return status;
}

static gale_device *open_limited(const char *name, uint64_t limit_bytes)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    options.chain = name;
    options.strict = true;
    options.pool_limit_bytes = limit_bytes;
    return gale_device_open(&options, &device) == GALE_OK ? device : NULL;
}

static int halvings;
static void count_halvings(void *user, int level, const char *line)
{
    (void)user, (void)level;
    halvings += strstr(line, "halving the batch") != NULL;
}

enum { MANY = 6000 };
static void write_many(const char *folder)
{
    static const char *const words[] = {"one", "two", "three"};
    gale__str text = {0};
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < 1 + i % 23; k++) gale__str_addf(&text, "%s%s", k ? " " : "", words[(i + k) % 3]);
        gale__str_add(&text, "\n");
    }
    encoder_write(folder, "texts.txt", gale__str_text(&text));
    gale__str_finish(&text);
}

static void check_close(const float *a, const float *b, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)a[i] - b[i]));
    if (!CHECK(worst < 1e-5)) printf("  %g\n", worst);
}

TEST(devices_side_by_side_and_with_little_memory)
{
    static float want[MANY * 4], got[MANY * 4];
    char folder[256];
    gale_embed_report report = {0};
    gale_device *two[2] = {cpu(), cpu()};
    encoder_make(folder, (encoder_kind){0});
    setenv("GALE_CACHE", folder, 1);
    write_many(folder);
    CHECK_OK(embed_on(folder, two, 1, &(gale_embed_options){.window = 500}, want, sizeof want, &report));
    CHECK_EQ(report.devices, 1);
    CHECK_OK(embed_on(folder, two, 2, &(gale_embed_options){.window = 500}, got, sizeof got, &report));
    CHECK(report.devices == 2 && report.batches_by_device[0] + report.batches_by_device[1] == report.batches);
    check_close(want, got, MANY * 4);
    gale_log_set(count_halvings, NULL, GALE__WARN);
    for (int i = 0; i < 2; i++) {
        gale_device *small = open_limited(i ? "vulkan" : "opencl", (uint64_t)1 << 18), *both[2] = {small, cpu()};
        gale_embed_options large = {.window = MANY, .batch_tokens = 1 << 20};
        if (!small) continue;
        for (int packs = 0; packs < 2; packs++) {
            halvings = 0;
            large.packing = packs ? GALE_PACKING_ON : GALE_PACKING_OFF;
            CHECK_OK(embed_on(folder, both, 1, &large, got, sizeof got, &report));
            if (!CHECK(halvings > 0 && report.packed == packs))
                printf("  %s: %d batches\n", i ? "vulkan" : "opencl", (int)report.batches);
            check_close(want, got, MANY * 4);
        }
        CHECK_OK(embed_on(folder, both, 2, &(gale_embed_options){.window = 500}, got, sizeof got, &report));
        CHECK_EQ(report.devices, 2);
        check_close(want, got, MANY * 4);
        gale_device_close(&small);
    }
    gale_log_set(NULL, NULL, GALE__WARN);
    gale__temp_folder_remove(folder);
}

static void set_rates(gale_device *d, double gflops)
{
    d->info.ceilings = (gale_device_ceilings){.copy_gbps = gflops,
        .f32_gflops = gflops,
        .upload_gbps = 10,
        .download_gbps = 10,
        .launch_us = 1,
        .round_trip_us = 10,
        .efficiency = 0.5,
        .small_us = 1};
}

/* Where the CPU may take a device's place, the encoder is where a batch is predicted to be done first. */
TEST(device_by_prediction)
{
    char folder[256];
    float want[4] = {13 / 4.f, 57 / 4.f, -13 / 4.f, 1}, got[4] = {0};
    const char *text = "one three";
    encoder_make(folder, (encoder_kind){0});
    for (int round = 0; round < 2; round++) {
        gale_device *d = NULL;
        gale_embedder *e = NULL;
        if (!CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu"}, &d))) break;
        d->other = gale__device_hold(cpu());
        set_rates(d, round ? 500 : 5);
        set_rates(cpu(), 50);
        gale_embedder_options o = {.pooling = GALE_POOLING_MEAN, .no_normalize = true};
        if (CHECK_OK(gale_embedder_open(folder, d, &o, &e))) {
            CHECK(gale_embedder_device(e) == (round ? d : cpu()));
            CHECK_OK(gale_embed(e, &text, NULL, 1, got));
            for (int i = 0; i < 4; i++) CHECK(fabsf(got[i] - want[i]) < 1e-5f);
        }
        gale_embedder_close(&e);
        gale_device_close(&d);
    }
    set_rates(cpu(), 0);
    gale__temp_folder_remove(folder);
}

TEST(smaller_vectors)
{
    float v[10] = {1, -1, 0.5f, 0, -0.25f, 2, -3, NAN, 0.1f, -0.1f};
    int8_t bytes[10], want[10] = {127, -127, 64, 0, -32, 127, -127, 0, 13, -13};
    uint8_t bits[2];
    gale_vector_pack(GALE_VECTOR_INT8, 10, v, bytes);
    for (int i = 0; i < 10; i++) CHECK_EQ(bytes[i], want[i]);
    gale_vector_pack(GALE_VECTOR_BINARY, 10, v, bits);
    CHECK_EQ(bits[0], 0xa4);
    CHECK_EQ(bits[1], 0x80);
    CHECK_EQ(gale_vector_bytes(GALE_VECTOR_BINARY, 10), 2);
    CHECK_EQ(gale_vector_bytes(GALE_VECTOR_F16, 10), 20);
}

/* --- A real one. --- */

typedef struct caller {
    gale_embedder *e;
    const char *const *texts;
    const float *want;
    size_t dims;
    float worst;
} caller;

static void call(void *arg)
{
    caller *c = arg;
    float v[384];
    for (int i = 0; i < 4; i++) {
        if (gale_embed(c->e, &c->texts[i], NULL, 1, v) != GALE_OK) c->worst = 9;
        for (size_t k = 0; k < c->dims; k++) c->worst = fmaxf(c->worst, fabsf(v[k] - c->want[(size_t)i * c->dims + k]));
    }
}

TEST(minilm)
{
    static const char *const texts[] = {"this is an example sentence", "Short.", "",
        ("A sentence that is quite a bit longer than the others, so that they get padding when they stand beside it, "
         "and which therefore shows whether padding is seen by anything.")};
    static const float want[5] = {0.06766f, 0.06350f, 0.04871f, 0.07930f, 0.03745f};
    const char *data = getenv("GALE_TEST_DATA");
    char path[512];
    static float many[4 * 384];
    snprintf(path, sizeof path, "%s/models/all-MiniLM-L6-v2", data ? data : "");
    if (!gale__folder_exists(path)) SKIP("%s is not there", path);
    gale_embedder *e = NULL;
    gale_embedder_info info;
    if (CHECK_OK(gale_embedder_open(path, cpu(), NULL, &e)) && CHECK_OK(gale_embed(e, texts, NULL, 4, many))) {
        gale_embedder_get_info(e, &info);
        CHECK(info.dims == 384 && info.vocabulary == 30522 && info.max_length == 512 && info.takes_types);
        for (int i = 0; i < 5; i++) CHECK(fabsf(many[i] - want[i]) < 2e-5f);
        caller callers[3];
        gale__thread threads[3];
        for (int i = 0; i < 3; i++) {
            callers[i] = (caller){e, texts, many, 384, 0};
            CHECK_OK(gale__thread_begin(&threads[i], call, &callers[i]));
        }
        for (int i = 0; i < 3; i++) {
            gale__thread_end(&threads[i]);
            CHECK(callers[i].worst < 1e-5f);
        }
    }
    gale_embedder_close(&e);
}

TEST(device_closes)
{
    gale_device_close(&cpu_device);
    CHECK(!cpu_device);
}

TESTS(ROW(pooling_is_what_it_says), ROW(vectors_are_cut_and_normalised), ROW(folders_say_how), ROW(dense_layers),
    ROW(models_that_pool_themselves), ROW(wrong_folders_are_refused), ROW(memory_may_run_out),
    ROW(memory_may_run_out_in_the_pipeline), ROW(batches_have_little_padding_and_few_shapes),
    ROW(devices_side_by_side_and_with_little_memory), ROW(device_by_prediction), ROW(smaller_vectors), ROW(minilm),
    ROW(device_closes))
