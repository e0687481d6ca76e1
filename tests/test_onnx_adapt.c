/* Nodes of older opsets, of com.microsoft, and of sizes that depend on the data: each row of onnx_adapt.def is a model
 * of one node, run with shapes declared and without, and compared with values found independently. */
#include "test.h"
#include "onnx_made.h"
#include "ops/cases/cases.h"

typedef struct old {
    int opset;
    const char *domain, *op, *attrs, *inputs, *tolerance, *expected;
} old;
static const old rows[] = {
#define OLD(...) {__VA_ARGS__},
#include "onnx_adapt.def"
#undef OLD
};

static void add_attr(maker *m, gale__pb_node *n, const gale_attr *a)
{
    static const uint8_t kinds[] = {[GALE_ATTR_INT] = GALE__PB_INT,
        [GALE_ATTR_FLOAT] = GALE__PB_FLOAT,
        [GALE_ATTR_STRING] = GALE__PB_STRING,
        [GALE_ATTR_INTS] = GALE__PB_INTS,
        [GALE_ATTR_FLOATS] = GALE__PB_FLOATS};
    gale__pb_attribute *to = make_attr(m, n, a->name, kinds[a->kind]);
    to->i = a->i;
    to->f = (float)a->f;
    if (a->kind == GALE_ATTR_STRING) to->s = make_text(m, a->s);
    for (size_t i = 0; a->kind == GALE_ATTR_INTS && i < a->count; i++) *MAKE_ADD(m, to->ints) = a->ints[i];
    for (size_t i = 0; a->kind == GALE_ATTR_FLOATS && i < a->count; i++) *MAKE_ADD(m, to->floats) = (float)a->floats[i];
}

static const char *shape_text(const gale__case_value *v, char text[200])
{
    *text = 0;
    for (int i = 0; i < v->rank; i++)
        snprintf(text + strlen(text), 200 - strlen(text), "%s%lld", i ? "," : "", (long long)v->dims[i]);
    return text;
}

/* The model of a row; shaped: inputs declare their shapes. */
static void write_model(maker *m, const old *row, const gale__case_run *run, bool shaped)
{
    char text[200], in[200] = "", out[200] = "";
    make_begin(m, *row->domain ? 21 : row->opset);
    if (*row->domain)
        *MAKE_ADD(m, m->model.opset_import) =
            (gale__pb_opset){.domain = make_text(m, row->domain), .version = row->opset};
    for (int i = 0; i < run->n_in; i++) {
        const gale__case_value *v = &run->in[i];
        char name[8] = "";
        if (!v->absent) snprintf(name, sizeof name, "x%d", i);
        snprintf(in + strlen(in), sizeof in - strlen(in), "%s%s", i ? "," : "", name);
        if (v->plan) {
            gale__pb_tensor *t = make_tensor(m, name, gale__onnx_type_number(v->type), shape_text(v, text));
            make_raw(m, t, v->data, (size_t)v->elements * gale_type_size(v->type));
            make_initializer(m, t);
        } else if (!v->absent) {
            make_input(m, name, gale__onnx_type_number(v->type), shaped ? shape_text(v, text) : NULL);
        }
    }
    for (int i = 0; i < run->n_out; i++) {
        char name[8];
        snprintf(name, sizeof name, "y%d", i);
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", i ? "," : "", name);
        make_output(m, name, gale__onnx_type_number(run->out[i].type), NULL);
    }
    gale__pb_node *n = make_node(m, row->op, in, out);
    n->domain = make_text(m, row->domain);
    for (int i = 0; i < run->n_attrs; i++) add_attr(m, n, &run->attrs[i]);
}

static bool check_output(const old *row, const gale__case_run *run, int i, gale_tensor *got)
{
    const gale__case_value *want = &run->out[i];
    char text[200] = "another type or shape";
    if (want->absent) return true;
    bool same = gale_tensor_type(got) == want->type && gale_tensor_rank(got) == want->rank &&
                !memcmp(gale_tensor_dims(got), want->dims, (size_t)want->rank * sizeof *want->dims);
    if (same)
        same = gale__case_equal(
            want->type, want->elements, gale_tensor_data(got), want->data, run->tolerance, text, sizeof text);
    if (!same) printf("FAIL %s of opset %d %s: output %d: %s\n", row->op, row->opset, row->attrs, i, text);
    return same;
}

static bool run_model(const old *row, const gale__case_run *run, gale_model *model)
{
    gale_object *in[GALE__CASE_VALUES] = {0}, *out[GALE__CASE_VALUES] = {0};
    int n = 0;
    bool ok = true;
    gale_status status = GALE_OK;
    for (int i = 0; i < run->n_in && status == GALE_OK; i++) {
        const gale__case_value *v = &run->in[i];
        gale_tensor *t = NULL;
        if (v->absent || v->plan) continue;
        status = gale_tensor_from_cpu(NULL, v->type, v->rank, v->dims, v->data, &t);
        if (status == GALE_OK) status = gale_object_tensor(t, &in[n++]);
        gale_tensor_destroy(&t);
    }
    if (status == GALE_OK) status = gale_model_run(model, in, out, GALE_RUN_ON_HOST);
    if (status != GALE_OK) printf("FAIL %s of opset %d %s: %s\n", row->op, row->opset, row->attrs, gale_error());
    for (int i = 0; i < run->n_out && status == GALE_OK; i++)
        ok = check_output(row, run, i, gale_object_get_tensor(out[i])) && ok;
    for (int i = 0; i < n; i++) gale_object_destroy(&in[i]);
    for (int i = 0; i < run->n_out; i++) gale_object_destroy(&out[i]);
    return status == GALE_OK && ok;
}

static bool check_row(const old *row, gale_device *device, bool shaped)
{
    gale__case c = {"Identity", row->attrs, "", row->inputs, row->tolerance, row->expected};
    gale__case_run run;
    gale__str bytes = {0};
    gale_model *model = NULL;
    maker m;
    if (!CHECK_OK(gale__case_open(&c, 0, &run))) return false;
    write_model(&m, row, &run, shaped);
    gale_model_options options = {.allow_nonfinite = true};
    gale_status status = make_encode(&m, &bytes);
    if (status == GALE_OK)
        status = gale_model_from_memory(bytes.text, bytes.length, GALE_MODEL_COPY, device, &options, &model);
    if (status != GALE_OK) printf("FAIL %s of opset %d %s: %s\n", row->op, row->opset, row->attrs, gale_error());
    bool ok = status == GALE_OK && run_model(row, &run, model);
    gale_model_close(&model);
    gale__str_finish(&bytes);
    make_end(&m);
    gale__case_close(&run);
    return ok;
}

TEST(every_row)
{
    gale_device *device = NULL;
    int bad = 0;
    if (!CHECK_OK(open_cpu(&device))) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bad += !check_row(&rows[i], device, true);
        bad += !check_row(&rows[i], device, false);
    }
    CHECK_EQ(bad, 0);
    gale_device_close(&device);
}

/* Refused with words that name the operator and the opset. */
static void refused_of(
    const char *domain, int opset, const char *op, const char *attrs, const char *inputs, const char *words)
{
    old row = {opset, domain, op, attrs, inputs, "e", ""};
    gale__case c = {"Identity", attrs, "", inputs, "e", "_"};
    gale__case_run run;
    gale__str bytes = {0};
    gale_model *model = NULL;
    gale_device *device = NULL;
    maker m;
    if (!CHECK_OK(open_cpu(&device)) || !CHECK_OK(gale__case_open(&c, 0, &run))) return;
    write_model(&m, &row, &run, true);
    CHECK_OK(make_encode(&m, &bytes));
    CHECK(gale_model_from_memory(bytes.text, bytes.length, GALE_MODEL_COPY, device, NULL, &model) != GALE_OK);
    if (!CHECK(strstr(gale_error(), op) != NULL) || !CHECK(strstr(gale_error(), words) != NULL))
        printf("  %s: '%s'\n", op, gale_error());
    gale_model_close(&model);
    gale__str_finish(&bytes);
    make_end(&m);
    gale__case_close(&run);
    gale_device_close(&device);
}

static void refused(int opset, const char *op, const char *attrs, const char *inputs, const char *words)
{
    refused_of("", opset, op, attrs, inputs, words);
}

TEST(what_has_no_meaning_is_refused)
{
    refused_of("com.microsoft.nchwc", 1, "Conv", "", "f32[1,1,1,1] 1; f32[1,1,1,1] 1",
        "save the model with ORT_ENABLE_EXTENDED");
    refused_of("com.microsoft", 1, "Relu", "", "f32[2] 1 2", "com.microsoft.Relu");
    refused_of("own.domain", 1, "Relu", "", "f32[2] 1 2", "own.domain.Relu");
    refused(1, "ATen", "operator=x", "f32[2] 1 2", "opset 1");
    refused(1, "GRUUnit", "", "f32[2] 1 2", "opset 1");
    refused(1, "Reshape", "", "f32[2] 1 2", "shape");
    refused(1, "Cast", "to=COMPLEX99", "f32[2] 1 2", "COMPLEX99");
    refused(9, "TopK", "", "f32[2] 1 2", "'k'");
    refused(6, "Add", "broadcast=1 axis=1", "f32[2] 1 2; f32[2] 1 2", "axis 1");
    refused(7, "LpPoool", "", "f32[2] 1 2", "LpPoool");
}

/* --- Models with more than a row can say. --- */

/* Running sums by item, each step times a value from outside the body. */
TEST(scan_over_batches)
{
    static const float x[] = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}, two = 2, zero[4] = {0};
    static const float sums[] = {2, 4, 8, 12, 18, 24, 20, 40, 80, 120, 180, 240};
    float got[12] = {0};
    maker m;
    make_begin(&m, 8);
    make_input(&m, "x", 1, "2,3,2");
    make_initializer(&m, make_floats(&m, "start", "2,2", zero, 4));
    make_initializer(&m, make_floats(&m, "factor", "1", &two, 1));
    make_node(&m, "Relu", "factor", "outside");
    gale__pb_node *scan = make_node(&m, "Scan", ",start,x", "last,sums");
    make_attr_i(&m, scan, "num_scan_inputs", 1);
    gale__pb_graph *outer = make_enter(&m, scan, "body");
    make_input(&m, "s", 1, "2"), make_input(&m, "e", 1, "2");
    make_node(&m, "Mul", "e,outside", "scaled");
    make_node(&m, "Add", "s,scaled", "t");
    make_node(&m, "Identity", "t", "u");
    make_output(&m, "t", 1, "2"), make_output(&m, "u", 1, "2");
    make_leave(&m, outer);
    make_output(&m, "last", 1, "2,2"), make_output(&m, "sums", 1, "2,3,2");
    run_made(&m, "x", 3, (const int64_t[]){2, 3, 2}, x, "sums", 12, got);
    for (int i = 0; i < 12; i++) CHECK(got[i] == sums[i]);
    make_end(&m);
}

/* Casts behind those who read them, as converters to half precision append them; what a body reads counts too. */
static void write_mixed(maker *m, bool cycle)
{
    static const uint8_t yes = 1;
    static const float two = 2;
    make_begin(m, 21);
    make_input(m, "x", 1, "3");
    make_initializer(m, make_floats(m, "two", "1", &two, 1));
    gale__pb_tensor *sure = make_tensor(m, "yes", 9, "");
    make_raw(m, sure, &yes, 1);
    make_initializer(m, sure);
    make_node(m, "Add", cycle ? "b,c" : "b,a", "c");
    gale__pb_node *choice = make_node(m, "If", "yes", "b");
    for (int i = 0; i < 2; i++) {
        gale__pb_graph *outer = make_enter(m, choice, i ? "else_branch" : "then_branch");
        make_node(m, "Mul", i ? "a,a" : "a,two", i ? "e" : "t");
        make_output(m, i ? "e" : "t", 1, "3");
        make_leave(m, outer);
    }
    make_node(m, "Relu", "x", "a");
    make_output(m, "c", 1, "3");
}

TEST(nodes_out_of_order)
{
    static const float x[] = {-1, 2, 3};
    float got[3] = {0};
    gale_device *device = NULL;
    gale__str bytes = {0};
    gale_status status = GALE_NO_MEMORY;
    maker m;
    write_mixed(&m, false);
    run_made(&m, "x", 1, (const int64_t[]){3}, x, "c", 3, got);
    CHECK(got[0] == 0 && got[1] == 6 && got[2] == 9);
    CHECK_OK(open_cpu(&device));
    CHECK_OK(make_encode(&m, &bytes));
    for (uint64_t n = 1; n < 2000 && status == GALE_NO_MEMORY; n++) {
        gale_model *model = NULL;
        int64_t live = gale__alloc_live();
        gale__alloc_fail_at(n);
        status = gale_model_from_memory(bytes.text, bytes.length, 0, device, NULL, &model);
        gale__alloc_fail_at(0);
        gale_model_close(&model);
        CHECK_EQ(gale__alloc_live(), live);
    }
    CHECK_EQ(status, GALE_OK);
    gale__str_finish(&bytes);
    make_end(&m);
    gale_model *model = NULL;
    write_mixed(&m, true);
    CHECK(open_made(&m, device, &model) == GALE_FORMAT && strstr(gale_error(), "'c'") && strstr(gale_error(), "cycle"));
    make_end(&m);
    gale_device_close(&device);
}

/* As many parts as steps of a sequence that an exporter unrolled. */
TEST(split_into_many)
{
    enum { PARTS = 130 };
    float x[PARTS], got[2] = {0};
    char names[PARTS * 5 + 1] = "";
    maker m;
    make_begin(&m, 13);
    make_input(&m, "x", 1, "130");
    for (int i = 0; i < PARTS; i++)
        x[i] = (float)i, snprintf(names + strlen(names), sizeof names - strlen(names), "%sp%d", i ? "," : "", i);
    make_node(&m, "Split", "x", names);
    make_attr_i(&m, make_node(&m, "Concat", "p129,p65", "y"), "axis", 0);
    make_output(&m, "y", 1, "2");
    run_made(&m, "x", 1, (const int64_t[]){PARTS}, x, "y", 2, got);
    CHECK(got[0] == 129 && got[1] == 65);
    make_end(&m);
}

/* A part that nobody reads counts among the parts. */
TEST(split_with_parts_left_out)
{
    static const float x[6] = {0, 1, 2, 3, 4, 5};
    for (int opset = 2; opset < 22; opset += 9) {
        float got[3] = {0};
        maker m;
        make_begin(&m, opset);
        make_input(&m, "x", 1, "6");
        gale__pb_node *split = make_node(&m, "Split", "x", "a,,");
        CHECK_EQ(split->output.n, 2);
        if (opset >= 18) make_attr_i(&m, split, "num_outputs", 2);
        make_node(&m, "Relu", "a", "y");
        make_output(&m, "y", 1, "3");
        run_made(&m, "x", 1, (const int64_t[]){6}, x, "y", 3, got);
        CHECK(got[0] == 0 && got[1] == 1 && got[2] == 2);
        make_end(&m);
    }
}

/* Samples are places of classes, and those of no probability are never drawn. */
TEST(samples_by_probability)
{
    static const float logits[] = {0, -1000, 0, -1000, 0, -1000};
    float got[400] = {0};
    int count[3] = {0};
    maker m;
    make_begin(&m, 7);
    make_input(&m, "x", 1, "2,3");
    make_attr_i(&m, make_node(&m, "Multinomial", "x", "y"), "sample_size", 200);
    make_output(&m, "y", 6, "2,200");
    run_made(&m, "x", 2, (const int64_t[]){2, 3}, logits, "y", 400, got);
    for (int i = 0; i < 400; i++) {
        if (CHECK(got[i] == 0 || got[i] == 1 || got[i] == 2)) count[(int)got[i]] += i < 200;
        if (i >= 200) CHECK(got[i] == 1);
    }
    CHECK(count[0] > 60 && count[2] > 60 && count[1] == 0);
    make_end(&m);
}

/* Before opset 7 Dropout trains unless it is told otherwise. */
TEST(dropout_trains)
{
    float ones[1000], got[1000] = {0};
    int kept = 0;
    maker m;
    for (int i = 0; i < 1000; i++) ones[i] = 1;
    make_begin(&m, 6);
    make_input(&m, "x", 1, "1000");
    make_node(&m, "Dropout", "x", "y");
    make_output(&m, "y", 1, "1000");
    run_made(&m, "x", 1, (const int64_t[]){1000}, ones, "y", 1000, got);
    for (int i = 0; i < 1000; i++) {
        CHECK(got[i] == 0 || got[i] == 2);
        kept += got[i] != 0;
    }
    CHECK(kept > 400 && kept < 600);
    make_end(&m);
}

/* The first LabelEncoder had one list, read either way. */
static gale_tensor *encode_labels(gale_tensor *in, int out_type)
{
    static const char *const classes[] = {"ant", "bee", "cat"}, *const x = "x", *const y = "y";
    gale_device *device = NULL;
    gale_model *model = NULL;
    gale_tensor *out = NULL;
    maker m;
    make_begin(&m, 9);
    *MAKE_ADD(&m, m.model.opset_import) = (gale__pb_opset){.domain = make_text(&m, "ai.onnx.ml"), .version = 1};
    make_input(&m, "x", gale__onnx_type_number(gale_tensor_type(in)), "2");
    gale__pb_node *n = make_node(&m, "LabelEncoder", "x", "y");
    n->domain = make_text(&m, "ai.onnx.ml");
    gale__pb_attribute *a = make_attr(&m, n, "classes_strings", GALE__PB_STRINGS);
    for (int i = 0; i < 3; i++) *MAKE_ADD(&m, a->strings) = make_text(&m, classes[i]);
    make_attr_i(&m, n, "default_int64", 7);
    make_output(&m, "y", out_type, "2");
    if (CHECK_OK(open_cpu(&device)) && CHECK_OK(open_made(&m, device, &model)))
        CHECK_OK(gale_model_run_named(model, &x, &in, 1, &y, &out, 1, GALE_RUN_ON_HOST));
    gale_model_close(&model);
    gale_device_close(&device);
    make_end(&m);
    return out;
}

TEST(labels_both_ways)
{
    static const char *const words[] = {"cat", "dog"};
    gale_tensor *in = NULL, *out = NULL;
    if (!CHECK_OK(gale_tensor_from_strings(1, &(int64_t){2}, words, NULL, &in))) return;
    out = encode_labels(in, 7);
    if (CHECK(out && gale_tensor_type(out) == GALE_I64))
        CHECK(((int64_t *)gale_tensor_data(out))[0] == 2 && ((int64_t *)gale_tensor_data(out))[1] == 7);
    gale_tensor_destroy(&in);
    gale_tensor_destroy(&out);
    if (!CHECK_OK(gale_tensor_from_cpu(NULL, GALE_I64, 1, &(int64_t){2}, (const int64_t[]){1, 9}, &in))) return;
    out = encode_labels(in, 8);
    if (CHECK(out && gale_tensor_type(out) == GALE_STRING))
        CHECK_TEXT(gale_tensor_string(out, 0, NULL), "bee"), CHECK_TEXT(gale_tensor_string(out, 1, NULL), "_Unused");
    gale_tensor_destroy(&in);
    gale_tensor_destroy(&out);
}

/* Nodes with nothing behind them and too little before them are read, or refused. */
TEST(nodes_cut_short)
{
    gale_device *device = NULL;
    if (!CHECK_OK(open_cpu(&device))) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int given = 0; given < 3; given++) {
            gale__case c = {"Identity", given == 2 ? rows[i].attrs : "", "", rows[i].inputs, "e", "_"};
            gale__case_run run;
            gale_model *model = NULL;
            maker m;
            if (!CHECK_OK(gale__case_open(&c, 0, &run))) continue;
            run.n_out = 0;
            if (given < 2) run.n_in = given && run.n_in > 1;
            write_model(&m, &rows[i], &run, true);
            gale_status status = open_made(&m, device, &model);
            CHECK(status == GALE_OK || status == GALE_FORMAT || status == GALE_INVALID || status == GALE_UNSUPPORTED);
            gale_model_close(&model);
            make_end(&m);
            gale__case_close(&run);
        }
    gale_device_close(&device);
}

/* A bias is one number for each channel, of the input's type: what is none must not be read as one. */
TEST(odd_biases)
{
    static const struct {
        const char *shape;
        int type;
        size_t bytes;
    } rows_of[] = {{"1", 1, 4}, {"2", 1, 8}, {"1,1", 1, 4}, {"1", 11, 8}};
    static const float two[2] = {2, 2};
    for (int i = 0; i < 4; i++) {
        gale_tensor *out = NULL;
        maker m;
        make_begin(&m, 13);
        make_input(&m, "x", 1, "1,1,1,1");
        make_output(&m, "y", 1, NULL);
        make_initializer(&m, make_floats(&m, "w", "1,1,1,1", two, 1));
        gale__pb_tensor *bias = make_tensor(&m, "b", rows_of[i].type, rows_of[i].shape);
        make_raw(&m, bias, two, rows_of[i].bytes);
        make_initializer(&m, bias);
        make_node(&m, "Conv", "x,w,b", "y");
        gale_status status = try_made(&m, "x", 4, (const int64_t[]){1, 1, 1, 1}, two, "y", &out);
        if (i) CHECK(status != GALE_OK && strstr(gale_error(), "one f32 for each of 1 channels"));
        else CHECK(status == GALE_OK && *(const float *)gale_tensor_data(out) == 6);
        gale_tensor_destroy(&out);
        make_end(&m);
    }
}

/* Whichever allocation fails while a row is read, the error says so and nothing leaks. */
TEST(without_memory)
{
    gale_device *device = NULL;
    if (!CHECK_OK(open_cpu(&device))) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += test_light() ? 16 : 4) {
        gale__case c = {"Identity", rows[i].attrs, "", rows[i].inputs, rows[i].tolerance, rows[i].expected};
        gale__case_run run;
        gale__str bytes = {0};
        maker m;
        if (!CHECK_OK(gale__case_open(&c, 0, &run))) continue;
        write_model(&m, &rows[i], &run, i % 8 == 0);
        CHECK_OK(make_encode(&m, &bytes));
        gale_status status = GALE_NO_MEMORY;
        for (uint64_t n = 1; n < 2000 && status != GALE_OK; n++) {
            gale_model *model = NULL;
            int64_t live = gale__alloc_live();
            gale__alloc_fail_at(n);
            status = gale_model_from_memory(bytes.text, bytes.length, 0, device, NULL, &model);
            gale__alloc_fail_at(0);
            gale_model_close(&model);
            if (!CHECK(status == GALE_OK || status == GALE_NO_MEMORY) || !CHECK_EQ(gale__alloc_live(), live)) {
                printf("  %s, allocation %" PRIu64 ": %s\n", rows[i].op, n, gale_error());
                break;
            }
        }
        CHECK_EQ(status, GALE_OK);
        gale__str_finish(&bytes);
        make_end(&m);
        gale__case_close(&run);
    }
    gale_device_close(&device);
}

TESTS(ROW(every_row), ROW(what_has_no_meaning_is_refused), ROW(scan_over_batches), ROW(nodes_out_of_order),
    ROW(split_into_many), ROW(split_with_parts_left_out), ROW(samples_by_probability), ROW(dropout_trains),
    ROW(labels_both_ways), ROW(nodes_cut_short), ROW(odd_biases), ROW(without_memory))
