/* Packed rows: every text is in one of them, they have little padding, and an encoder gives the same vectors packed as
 * padded, however its masks and positions are written.  Encoders that mix tokens in other ways are not packed. */
#include "encoder_make.h"
#include "gale/embed.h"
#include "gale/model_jobs.h"
#include "jobs/embed/embedder.h"
#include <math.h>

/* --- Rows. --- */

static uint32_t seed;
static uint32_t pick(uint32_t most) { return ((seed = seed * 1664525u + 1013904223u) >> 8) % most; }

/* Walks over the batches as a run does. */
static void check_packing(size_t count, size_t tokens, const uint32_t *lengths, double padding_most, size_t shapes_most)
{
    gale__row *rows = calloc(count + 1, sizeof *rows);
    gale__batch *batches = calloc(count + 1, sizeof *batches), shapes[64];
    float *marks = calloc(count + 1, sizeof *marks);
    size_t n = 0, real = 0, run = 0, n_shapes = 0, texts = 0;
    for (size_t i = 0; i < count; i++) rows[i] = (gale__row){.count = lengths[i], .out = &marks[i]}, real += lengths[i];
    CHECK_OK(gale__rows_sort(rows, count));
    CHECK_OK(gale__pack(rows, count, tokens, 512, batches, &n, NULL));
    for (size_t i = 0; i < n; i++) {
        const gale__batch *b = &batches[i];
        gale__slot slot = {0};
        CHECK(b->first == texts && b->count > 0 && b->count <= b->texts);
        CHECK(b->slots == 1 || b->slots * b->length <= tokens);
        for (size_t t = 0; t < b->count; t++) {
            if (!CHECK(gale__slot_next(&slot, &rows[b->first + t], b))) break;
            CHECK(slot.end <= b->length && slot.texts <= b->each);
            *rows[b->first + t].out += 1;
        }
        texts += b->count;
        run += b->slots * b->length;
        size_t k = 0;
        while (k < n_shapes && (shapes[k].slots != b->slots || shapes[k].length != b->length ||
                                   shapes[k].texts != b->texts || shapes[k].each != b->each))
            k++;
        if (k == n_shapes && n_shapes < 64) shapes[n_shapes++] = *b;
    }
    for (size_t i = 0; i < count; i++) CHECK(marks[i] == 1);
    double padding = count ? 1 - (double)real / (double)run : 0;
    if (!CHECK(texts == count && padding <= padding_most)) printf("  %zu texts, padding %.4f\n", texts, padding);
    if (!CHECK(n_shapes <= shapes_most)) printf("  %zu shapes\n", n_shapes);
    free(rows);
    free(batches);
    free(marks);
}

TEST(rows_have_little_padding)
{
    enum { COUNT = 131072 };
    uint32_t *lengths = calloc(COUNT, sizeof *lengths);
    seed = 7;
    for (int i = 0; i < COUNT; i++) lengths[i] = 4 + pick(10) + pick(10) + pick(13);
    check_packing(COUNT, 32768, lengths, 0.02, 2);
    check_packing(20000, 32768, lengths, 0.04, 2);
    for (int i = 0; i < COUNT; i += 50) lengths[i] = 30 + pick(480); /* some are long */
    check_packing(COUNT, 32768, lengths, 0.02, 8);
    for (int i = 0; i < 3000; i++) lengths[i] = 290 + pick(20); /* nothing fits beside any */
    check_packing(3000, 32768, lengths, 0.05, 8);
    for (int i = 0; i < 3000; i++) lengths[i] = pick(3); /* without tokens too, which take a place */
    check_packing(3000, 32768, lengths, 0.7, 3);
    check_packing(5, 32768, (const uint32_t[]){1, 64, 65, 512, 600}, 0.5, 5);
    check_packing(1, 8, (const uint32_t[]){20}, 0.7, 1);
    check_packing(0, 8, lengths, 0, 0);
    free(lengths);
}

/* What does not fill a batch is left over, but no text twice. */
TEST(rows_left_over)
{
    enum { COUNT = 5000, TOKENS = 32768, MOST = 4096 };
    static gale__row rows[COUNT + MOST];
    static gale__batch batches[COUNT + MOST];
    size_t waiting = 0, n, left;
    seed = 11;
    for (int window = 0; window < 6; window++) {
        size_t count = waiting + COUNT, texts = 0, old = 0;
        for (size_t i = waiting; i < count; i++)
            rows[i] = (gale__row){.count = 2 + pick(40) + (pick(40) ? 0 : pick(90))};
        left = MOST;
        CHECK_OK(gale__rows_sort(rows, count));
        CHECK_OK(gale__pack(rows, count, TOKENS, 512, batches, &n, &left));
        for (size_t i = 0; i < n; texts += batches[i++].count) {
            CHECK(batches[i].first == texts);
            CHECK(batches[i].slots * batches[i].length == TOKENS || batches[i].length > 64);
        }
        CHECK(n > 1 && left > 0 && left <= MOST && texts + left == count);
        for (size_t i = 0; i < left; i++) {
            old += rows[texts + i].waited > 1;
            rows[i] = rows[texts + i];
            rows[i].waited++;
        }
        CHECK(old == 0);
        waiting = left;
    }
    left = 3; /* too few: all are in batches */
    CHECK_OK(gale__rows_sort(rows, waiting));
    CHECK_OK(gale__pack(rows, waiting, TOKENS, 512, batches, &n, &left));
    CHECK(n > 0 && left == 0);
}

/* --- Graphs. --- */

typedef struct step {
    const char *op, *inputs, *outputs; /* op: with an attribute, "Cast to=1" */
} step;

#define BIAS \
    {"Cast to=1", "attention_mask", "f"}, {"Unsqueeze", "f,axes", "f4"}, {"Sub", "one,f4", "o"}, { "Mul", "o,far", "m" }
#define SCORES                \
    {                         \
        "MatMul", "h,ht", "s" \
    }
#define MIX                  \
    {                        \
        "MatMul", "p,h", "a" \
    }
#define TRUTHS \
    {"Cast to=9", "attention_mask", "b"}, { "Unsqueeze", "b,axes", "b4" }
#define LENGTH \
    {"Shape", "input_ids", "sh"}, { "Gather", "sh,i1", "t" }

/* From h [b, 1, t, 4] and its transpose ht to a [b, 1, t, 4], by way of p. */
static const struct {
    const char *name;
    bool refused;
    step steps[9];
} attentions[] = {
    {"added", false, {BIAS, SCORES, {"Add", "s,m", "x"}, {"Softmax", "x", "p"}, MIX}},
    {"added first", false, {BIAS, SCORES, {"Add", "m,s", "y"}, {"Identity", "y", "x"}, {"Softmax", "x", "p"}, MIX}},
    {"kept", false, {TRUTHS, SCORES, {"Where", "b4,s,far", "x"}, {"Softmax", "x", "p"}, MIX}},
    {"hidden", false, {TRUTHS, {"Not", "b4", "n4"}, SCORES, {"Where", "n4,far,s", "x"}, {"Softmax", "x", "p"}, MIX}},
    {"multiplied", false,
        {{"Cast to=1", "attention_mask", "f"}, {"Unsqueeze", "f,axes", "f4"}, SCORES, {"Softmax", "s", "p0"},
            {"Mul", "p0,f4", "p1"}, {"ReduceSum", "p1,last", "r"}, {"Div", "p1,r", "p"}, MIX}},
    {"operator", false, {TRUTHS, {"Expand", "b4,four", "b5"}, {"Attention", "h,h,h,b5", "a"}}},
    {"operator, added", false, {BIAS, {"Expand", "m,four", "m5"}, {"Attention", "h,h,h,m5", "a"}}},
    {"operator without a mask", true, {{"Attention", "h,h,h", "a"}}},
    {"scaled by length", true,
        {{"Shape", "input_ids", "sh2"}, {"Gather", "sh2,i1", "t2"}, {"Cast to=1", "t2", "tf"}, SCORES,
            {"Mul", "s,tf", "s2"}, {"Softmax", "s2", "p"}, MIX}},
    {"mean of the row", true, {{"ReduceMean", "h,axes2", "r"}, {"Add", "h,r", "a"}}},
    {"of three axes", true,
        {SCORES, {"Squeeze", "s,i1", "s3"}, {"Softmax", "s3", "p3"}, {"Unsqueeze", "p3,i1", "p"}, MIX}},
};
static const struct {
    const char *name;
    step steps[6];
} positions[] = {
    {"none", {{0}}},
    {"slice", {LENGTH, {"Unsqueeze", "t,i0", "t1"}, {"Slice", "numbers,i0,t1,i1", "q"}, {"Gather", "places,q", "e"}}},
    {"range", {LENGTH, {"Range", "n0,t,n1", "q"}, {"Gather", "places,q", "e"}}},
    {"counted", {{"Equal", "input_ids,n0", "z"}, {"Not", "z", "nz"}, {"Cast to=7", "nz", "c"}, {"CumSum", "c,n1", "cs"},
                    {"Mul", "cs,c", "q"}, {"Gather", "places,q", "e"}}},
    {"given", {{"Gather", "places,position_ids", "e"}}},
};

static void add_steps(maker *m, const step *steps, size_t most)
{
    for (size_t i = 0; i < most && steps[i].op; i++) {
        char op[32];
        const char *space = strchr(steps[i].op, ' ');
        snprintf(op, sizeof op, "%.*s", space ? (int)(space - steps[i].op) : 31, steps[i].op);
        gale__pb_node *n = make_node(m, op, steps[i].inputs, steps[i].outputs);
        if (space) make_attr_i(m, n, "to", atoi(space + 4));
    }
}

static void add_table(maker *m, const char *name, int words)
{
    float table[64 * ENCODER_DIMS];
    char shape[32];
    for (int i = 0; i < words * ENCODER_DIMS; i++) table[i] = sinf((float)(i * i + words));
    snprintf(shape, sizeof shape, "%d,%d", words, ENCODER_DIMS);
    make_initializer(m, make_floats(m, name, shape, table, (size_t)words * ENCODER_DIMS));
}

static void write_encoder(const char *folder, size_t attention, size_t position)
{
    static const struct {
        const char *name, *shape;
        int64_t values[4];
        size_t n;
    } ints[] = {{"axes", "2", {1, 2}, 2}, {"axes2", "1", {2}, 1}, {"i0", "1", {0}, 1}, {"i1", "1", {1}, 1},
        {"last", "1", {-1}, 1}, {"n0", "", {0}, 1}, {"n1", "", {1}, 1}, {"four", "4", {1, 1, 1, 1}, 4}};
    maker m;
    char path[512];
    gale__str bytes = {0};
    int64_t numbers[64];
    for (int i = 0; i < 64; i++) numbers[i] = i;
    make_begin(&m, 23);
    make_input(&m, "input_ids", 7, "b,t");
    make_input(&m, "attention_mask", 7, "b,t");
    if (!strcmp(positions[position].name, "given")) make_input(&m, "position_ids", 7, "b,t");
    add_table(&m, "words", ENCODER_WORDS);
    add_table(&m, "places", 64);
    make_initializer(&m, make_ints(&m, "numbers", "1,64", numbers, 64));
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        make_initializer(&m, make_ints(&m, ints[i].name, ints[i].shape, ints[i].values, ints[i].n));
    make_initializer(&m, make_floats(&m, "one", "", (const float[]){1}, 1));
    make_initializer(&m, make_floats(&m, "far", "", (const float[]){-3e38f}, 1));
    make_node(&m, "Gather", "words,input_ids", "w");
    add_steps(&m, positions[position].steps, 6);
    make_node(&m, position ? "Add" : "Identity", position ? "w,e" : "w", "x3");
    make_node(&m, "Unsqueeze", "x3,i1", "h");
    make_attr_ints(&m, make_node(&m, "Transpose", "h", "ht"), "perm", (const int64_t[]){0, 1, 3, 2}, 4);
    add_steps(&m, attentions[attention].steps, 9);
    make_node(&m, "Squeeze", "a,i1", "last_hidden_state");
    make_output(&m, "last_hidden_state", 1, "b,t,4");
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (CHECK_OK(make_encode(&m, &bytes))) CHECK_OK(gale__file_write(path, bytes.text, bytes.length));
    gale__str_finish(&bytes);
    make_end(&m);
}

/* --- Vectors. --- */

enum { TEXTS = 300 };
static gale_status embed(const char *folder, gale_device *cpu, gale_pooling pooling, gale_packing packing,
    float *vectors, gale_embed_report *report)
{
    char in[512], out[512];
    const char *file = in;
    gale_embedder *e = NULL;
    gale__bytes bytes = {0};
    snprintf(in, sizeof in, "%s/texts.txt", folder);
    snprintf(out, sizeof out, "%s/vectors.raw", folder);
    gale_embed_options o = {.files = &file, .file_count = 1, .output = out, .window = 128, .packing = packing};
    gale_embedder_options how = {.pooling = pooling, .max_length = 60};
    gale_status status = gale_embedder_open(folder, cpu, &how, &e);
    if (status == GALE_OK) status = gale_embed_files(e, &o, report);
    gale_embedder_close(&e);
    if (status == GALE_OK) status = gale__file_read(out, 0, &bytes);
    if (status == GALE_OK && CHECK_EQ(bytes.size, TEXTS * 4 * sizeof *vectors)) memcpy(vectors, bytes.data, bytes.size);
    gale__bytes_finish(&bytes);
    return status;
}

static double difference(const float *a, const float *b)
{
    double worst = 0;
    for (size_t i = 0; i < TEXTS * 4; i++) worst = fmax(worst, fabs((double)a[i] - b[i]));
    return worst;
}

/* The same texts in memory: packed ones take fewer runs. */
static void embed_list(const char *folder, gale_device *cpu, gale_packing packing, float *vectors, uint64_t *runs)
{
    char path[512];
    static const char *list[TEXTS];
    static size_t sizes[TEXTS];
    gale_embedder *e = NULL;
    gale__bytes bytes = {0};
    snprintf(path, sizeof path, "%s/texts.txt", folder);
    gale_embedder_options how = {.pooling = GALE_POOLING_MEAN, .max_length = 60, .packing = packing};
    if (!CHECK_OK(gale__file_read(path, 0, &bytes))) return;
    const char *at = (const char *)bytes.data;
    for (int i = 0; i < TEXTS; at = list[i] + sizes[i] + 1, i++) list[i] = at, sizes[i] = strcspn(at, "\n");
    if (CHECK_OK(gale_embedder_open(folder, cpu, &how, &e))) {
        CHECK_OK(gale_embed(e, list, sizes, TEXTS, vectors)); /* the model's form is tested */
        gale_context_stats before, after;
        gale_context_get_stats(NULL, &before);
        CHECK_OK(gale_embed(e, list, sizes, TEXTS, vectors));
        gale_context_get_stats(NULL, &after);
        *runs = after.runs - before.runs;
    }
    gale_embedder_close(&e);
    gale__bytes_finish(&bytes);
}

static void make_halves(const char *folder)
{
    char path[512], half[512];
    gale_convert_result *result = NULL;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    snprintf(half, sizeof half, "%s/half.onnx", folder);
    CHECK_OK(gale_model_convert(path, half, &(gale_convert_options){.precision = GALE_CONVERT_F16}, &result));
    gale_convert_result_destroy(&result);
    CHECK(!rename(half, path));
}

static void compare(const char *folder, gale_device *cpu, gale_pooling pooling, const char *name, bool packs)
{
    static float want[TEXTS * 4], got[TEXTS * 4];
    gale_embed_report report = {0};
    CHECK_OK(embed(folder, cpu, pooling, GALE_PACKING_OFF, want, &report));
    CHECK(!report.packed);
    CHECK_OK(embed(folder, cpu, pooling, GALE_PACKING_ON, got, &report));
    double worst = difference(want, got);
    if (!CHECK(report.packed == packs && worst < 1e-5)) printf("  %s: %d, %g\n", name, report.packed, worst);
}

/* Empty ones, single words, long ones, and some with the token that is also padding. */
static void write_texts(const char *folder)
{
    static const char *const words[] = {"one", "two", "three", "query", "other"};
    gale__str text = {0};
    for (int i = 0; i < TEXTS; i++) {
        uint32_t n = i % 7 == 0 ? 0 : i % 11 == 0 ? 70 : i % 29 == 0 ? 58 : pick(24);
        for (uint32_t k = 0; k < n; k++) gale__str_addf(&text, "%s ", words[pick(5)]);
        gale__str_add(&text, i % 31 == 0 ? "[PAD] one\n" : "\n");
    }
    encoder_write(folder, "texts.txt", gale__str_text(&text));
    gale__str_finish(&text);
}

TEST(packed_vectors_are_the_same)
{
    char folder[256], name[64];
    gale_device *cpu = NULL;
    if (!CHECK_OK(gale__temp_folder_make(folder, sizeof folder))) return;
    if (!CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu"}, &cpu))) return;
    setenv("GALE_CACHE", folder, 1);
    encoder_write(folder, "tokenizer.json", encoder_tokenizer);
    seed = 3;
    write_texts(folder);
    size_t n_attentions = sizeof attentions / sizeof *attentions, n_positions = sizeof positions / sizeof *positions;
    for (size_t a = 0; a < n_attentions; a++)
        for (size_t p = a ? 2 : 0; p < (a ? 3 : n_positions); p++) {
            write_encoder(folder, a, p);
            snprintf(name, sizeof name, "%s, %s", attentions[a].name, positions[p].name);
            compare(folder, cpu, GALE_POOLING_MEAN, name, !attentions[a].refused);
        }
    write_encoder(folder, 0, 3);
    compare(folder, cpu, GALE_POOLING_CLS, "first token", true);
    compare(folder, cpu, GALE_POOLING_LAST, "last token", true);
    compare(folder, cpu, GALE_POOLING_WEIGHTED, "weighted", true);
    compare(folder, cpu, GALE_POOLING_MAX, "maxima", true);
    for (int half = 0; half < 2; half++) { /* a file of halves too */
        static float want[TEXTS * 4], got[TEXTS * 4];
        uint64_t runs[2] = {0, 0};
        embed_list(folder, cpu, GALE_PACKING_AUTO, want, &runs[0]);
        embed_list(folder, cpu, GALE_PACKING_ON, got, &runs[1]);
        CHECK(0 < runs[1] && 3 * runs[1] < 2 * runs[0] && difference(want, got) < (half ? 4e-3 : 1e-5));
        if (!half) make_halves(folder);
    }
    gale_device_close(&cpu);
    gale__temp_folder_remove(folder);
}

TESTS(ROW(rows_have_little_padding), ROW(rows_left_over), ROW(packed_vectors_are_the_same))
