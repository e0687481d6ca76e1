/* Models in 8 bit: how far the results move. */
#include "base/num.h"
#include "gale/device.h"
#include "gale/model.h"
#include "graph/run/tensor.h"
#include "onnx/edit/edit.h"
#include "onnx/edit/int8.h"
#include "onnx/import/net.h"
#include "onnx/run/object.h"
#include "onnx_make.h"
#include "test.h"
#include <math.h>

static gale_device *cpu;

static gale__pb_model *root(gale__onnx *f) { return gale__onnx_root(f); }

/* Numbers of -1 to 1, by chance but the same every time. */
static const float *noise(size_t n, unsigned seed)
{
    static float data[4096];
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
    return data;
}

/* Two convolutions, a Gemm with its weights either way round, and a MatMul. */
static gale__onnx *make_net(int opset)
{
    maker m;
    gale__onnx *f = NULL;
    make_begin(&m, opset);
    make_input(&m, "x", 1, "2,3,12,12");
    make_output(&m, "y", 1, NULL);
    make_initializer(&m, make_floats(&m, "w1", "8,3,3,3", noise(216, 1), 216));
    make_initializer(&m, make_floats(&m, "w2", "8,8,3,3", noise(576, 2), 576));
    make_initializer(&m, make_floats(&m, "w3", "16,8", noise(128, 3), 128));
    make_initializer(&m, make_floats(&m, "w4", "16,10", noise(160, 4), 160));
    make_initializer(&m, make_floats(&m, "b", "8", noise(8, 5), 8));
    make_node(&m, "Conv", "x,w1,b", "c1");
    make_node(&m, "Relu", "c1", "r1");
    make_node(&m, "Conv", "r1,w2", "c2");
    make_node(&m, "Relu", "c2", "r2");
    make_node(&m, "GlobalAveragePool", "r2", "p");
    make_attr_i(&m, make_node(&m, "Flatten", "p", "f"), "axis", 1);
    make_attr_i(&m, make_node(&m, "Gemm", "f,w3", "g"), "transB", 1);
    make_node(&m, "MatMul", "g,w4", "y");
    CHECK_OK(make_file(&m, &f));
    return f;
}

/* The first result, with inputs by chance and open extents of 8; whole numbers are 0 to 999 in the first input, else 1.
 */
static gale_tensor *run(gale__onnx *f)
{
    gale__str bytes = {0};
    gale_model *m = NULL;
    gale_object *in[4] = {0}, *out[1] = {0};
    gale_tensor *result = NULL;
    if (!CHECK_OK(gale__onnx_pack(f, root(f), &bytes)) ||
        !CHECK_OK(gale_model_from_memory(bytes.text, bytes.length, 0, cpu, NULL, &m)) || gale_model_inputs(m) > 4)
        goto done;
    for (int i = 0; i < gale_model_inputs(m); i++) {
        gale_model_value v;
        gale_tensor *t = NULL;
        gale_model_input(m, i, &v);
        for (int k = 0; k < v.rank; k++) v.dims[k] = v.dims[k] < 0 ? 8 : v.dims[k];
        if (!CHECK_OK(gale_tensor_create(NULL, v.type, v.rank, v.dims, &t))) goto done;
        size_t n = (size_t)gale__tensor_elements(t);
        const float *x = noise(n, 7);
        for (size_t e = 0; e < n; e++)
            gale__store_f64(v.type, (char *)t->host + e * gale_type_size(v.type),
                v.type == GALE_F32 ? (double)x[e]
                : i                ? 1
                                   : floor((double)(x[e] + 1) * 499));
        if (!CHECK_OK(gale__onnx_object_take(&t, &in[i]))) goto done;
    }
    if (!CHECK_OK(gale_model_run(m, in, out, GALE_RUN_ON_HOST))) goto done;
    gale_tensor *made = gale_object_get_tensor(out[0]);
    CHECK_OK(gale_tensor_reshape(made, made->rank, made->dims, &result));
done:
    for (int i = 0; i < 4; i++) gale_object_destroy(&in[i]);
    gale_object_destroy(&out[0]);
    gale_model_close(&m);
    gale__str_finish(&bytes);
    return result;
}

/* Relative difference (L2) and cosine of the angle. */
static void differ(const gale_tensor *a, const gale_tensor *b, double *relative, double *cosine)
{
    double xx = 0, yy = 0, xy = 0, dd = 0;
    *relative = 1, *cosine = 0;
    if (!CHECK(a && b && a->type == GALE_F32 && a->size_bytes == b->size_bytes)) return;
    for (size_t i = 0; i < a->size_bytes / sizeof(float); i++) {
        double x = (double)((float *)a->host)[i], y = (double)((float *)b->host)[i];
        xx += x * x, yy += y * y, xy += x * y, dd += (x - y) * (x - y);
    }
    *relative = sqrt(dd / xx);
    *cosine = xy / sqrt(xx * yy);
}

static size_t count_ops(const gale__pb_graph *g, const char *op)
{
    size_t n = 0;
    for (size_t i = 0; i < g->node.n; i++) n += gale__pb_is(&g->node.at[i].op_type, op);
    return n;
}

TEST(weights)
{
    gale__onnx *a = make_net(13), *b = make_net(13);
    double relative, cosine;
    gale__int8 how = {0};
    CHECK_OK(gale__edit_int8(b, root(b), &how));
    CHECK(how.n_weights == 4 && how.n_values == 0);
    CHECK_EQ(how.n_layers, 4);
    for (size_t i = 0; i < how.n_layers; i++) CHECK(how.layers[i].relative > 1e-4 && how.layers[i].relative < 0.01);
    CHECK_EQ(count_ops(root(b)->graph, "DequantizeLinear"), 4);
    CHECK_EQ(root(b)->graph->initializer.n, 9); /* two for each weight, and the bias as it was */
    gale_tensor *x = run(a), *y = run(b);
    differ(x, y, &relative, &cosine);
    CHECK(relative < 0.02 && relative > 0);
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&y);
    gale__onnx_close(&a);
    gale__onnx_close(&b);
    a = make_net(11);
    CHECK_FAILS(gale__edit_int8(a, root(a), &how), UNSUPPORTED);
    CHECK(strstr(gale_error(), "--opset"));
    gale__onnx_close(&a);
}

TEST(activations)
{
    static const struct {
        const char *name;
        float low, high;
    } seen[] = {{"x", -1, 1}, {"r1", 0, 12}, {"f", 0, 16}, {"g", -24, 24}};
    gale__onnx *a = make_net(17), *b = make_net(17);
    gale__int8_ranges ranges = {0};
    double relative, cosine;
    CHECK_OK(gale__int8_ranges_of(root(b), &ranges));
    CHECK_EQ(ranges.n, 4);
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        gale_tensor *t = NULL;
        if (!CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 1, &(int64_t){2}, &seen[i].low, &t))) continue;
        CHECK_OK(gale__int8_ranges_note(&ranges, seen[i].name, t));
        CHECK_OK(gale__int8_ranges_note(&ranges, "nobody", t));
        gale_tensor_destroy(&t);
    }
    gale__int8 how = {.ranges = &ranges};
    CHECK_OK(gale__edit_int8(b, root(b), &how));
    CHECK(how.n_weights == 4 && how.n_values == 4 && how.n_smooth == 0);
    CHECK_EQ(count_ops(root(b)->graph, "QuantizeLinear"), 4);
    gale_tensor *x = run(a), *y = run(b);
    differ(x, y, &relative, &cosine);
    if (!CHECK(relative < 0.02 && relative > 0)) printf("relative %g\n", relative);
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&y);
    gale__int8_ranges_finish(&ranges);
    gale__onnx_close(&a);
    gale__onnx_close(&b);
}

/* One element in many that lies far out does not decide; a tensor without such keeps its range. */
TEST(outliers)
{
    gale__onnx *f = make_net(13);
    gale_tensor *t = NULL;
    for (int far = 0; far < 2; far++) {
        gale__int8_ranges ranges = {0};
        CHECK_OK(gale__int8_ranges_of(root(f), &ranges));
        CHECK_OK(gale_tensor_create(NULL, GALE_F32, 1, &(int64_t){1000000}, &t));
        for (int i = 0; i < 1000000; i++) ((float *)t->host)[i] = (float)(i % 1000) / 1000;
        if (far) ((float *)t->host)[77] = 50;
        CHECK_OK(gale__int8_ranges_note(&ranges, "x", t));
        CHECK(ranges.at[0].seen && ranges.at[0].low <= 0 && ranges.at[0].high > 0.99 && ranges.at[0].high < 1.1);
        gale_tensor_destroy(&t);
        gale__int8_ranges_finish(&ranges);
    }
    gale__onnx_close(&f);
}

/* Two products of x [8, 32], one with its weights turned; channel 5 of x is `large` times the others. */
static gale__onnx *make_products(void)
{
    maker m;
    gale__onnx *f = NULL;
    make_begin(&m, 13);
    make_input(&m, "x", 1, "8,32");
    make_input(&m, "by", 1, "32");
    make_output(&m, "y", 1, NULL);
    make_initializer(&m, make_floats(&m, "w1", "32,16", noise(512, 1), 512));
    make_initializer(&m, make_floats(&m, "w2", "16,32", noise(512, 2), 512));
    make_node(&m, "Mul", "x,by", "u");
    make_node(&m, "MatMul", "u,w1", "a");
    gale__pb_node *g = make_node(&m, "Gemm", "u,w2", "b");
    make_attr_i(&m, g, "transB", 1);
    g->name = make_text(&m, "layer/gemm");
    make_attr_i(&m, make_node(&m, "Concat", "a,b", "y"), "axis", 1);
    CHECK_OK(make_file(&m, &f));
    return f;
}

static gale_tensor *run_products(gale__onnx *f, float large)
{
    gale__str bytes = {0};
    gale_model *m = NULL;
    gale_tensor *in[2] = {NULL, NULL}, *out = NULL;
    float by[32];
    for (int i = 0; i < 32; i++) by[i] = i == 5 ? large : 1;
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 2, (int64_t[]){8, 32}, noise(256, 9), &in[0]));
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 1, (int64_t[]){32}, by, &in[1]));
    if (CHECK_OK(gale__onnx_pack(f, root(f), &bytes)) &&
        CHECK_OK(gale_model_from_memory(bytes.text, bytes.length, 0, cpu, NULL, &m)))
        CHECK_OK(gale_model_run_named(
            m, (const char *const[]){"x", "by"}, in, 2, (const char *const[]){"y"}, &out, 1, GALE_RUN_ON_HOST));
    gale_model_close(&m);
    gale__str_finish(&bytes);
    gale_tensor_destroy(&in[0]), gale_tensor_destroy(&in[1]);
    return out;
}

/* What is lost with the ranges that x has; by_channel: evened out where it helps. */
static double loss_of(float large, bool by_channel, const char *left, gale__int8 *how)
{
    gale__onnx *a = make_products(), *b = make_products();
    gale__int8_ranges ranges = {0};
    gale_tensor *u = NULL;
    double relative, cosine;
    CHECK_OK(gale__int8_ranges_of(root(b), &ranges));
    CHECK(ranges.n == 1 && ranges.at[0].by_channel);
    ranges.at[0].by_channel = by_channel;
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 2, (int64_t[]){8, 32}, noise(256, 9), &u));
    for (int i = 0; i < 8; i++) ((float *)u->host)[i * 32 + 5] *= large;
    CHECK_OK(gale__int8_ranges_note(&ranges, "u", u));
    *how = (gale__int8){.ranges = &ranges, .left = &left, .n_left = left != NULL};
    CHECK_OK(gale__edit_int8(b, root(b), how));
    gale_tensor *x = run_products(a, large), *y = run_products(b, large);
    differ(x, y, &relative, &cosine);
    gale_tensor_destroy(&u), gale_tensor_destroy(&x), gale_tensor_destroy(&y);
    gale__int8_ranges_finish(&ranges);
    gale__onnx_close(&a), gale__onnx_close(&b);
    return relative;
}

TEST(uneven_channels)
{
    gale__int8 how;
    double plain = loss_of(60, false, NULL, &how), even = loss_of(60, true, NULL, &how);
    CHECK(how.n_weights == 2 && how.n_values == 1 && how.n_smooth == 1);
    if (!CHECK(even < plain / 2 && even > 0)) printf("relative %g, by channel %g\n", plain, even);
    CHECK(loss_of(1, true, NULL, &how) < 0.02 && how.n_smooth == 0); /* nothing to even out: nothing is added */
}

/* y = (x + 1) w + c, by MatMul and Add or by Gemm: how far the means of its results move. */
static double mean_shift(bool gemm, bool by_channel, size_t *biases)
{
    enum { ROWS = 64, IN = 32, OUT = 8 };
    gale__onnx *f[2] = {NULL, NULL};
    gale_tensor *x = NULL, *y[2] = {NULL, NULL};
    gale__int8_ranges ranges = {0};
    double sum = 0;
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 2, (int64_t[]){ROWS, IN}, noise(ROWS * IN, 3), &x));
    for (int i = 0; i < ROWS * IN; i++) ((float *)x->host)[i] += 1;
    for (int k = 0; k < 2; k++) {
        maker m;
        gale__str bytes = {0};
        gale_model *model = NULL;
        make_begin(&m, 13);
        make_input(&m, "x", 1, "n,32"), make_output(&m, "y", 1, NULL);
        make_initializer(&m, make_floats(&m, "w", "32,8", noise(IN * OUT, 1), IN * OUT));
        make_initializer(&m, make_floats(&m, "c", "8", noise(OUT, 2), OUT));
        if (gemm) make_node(&m, "Gemm", "x,w,c", "y");
        else make_node(&m, "MatMul", "x,w", "p"), make_node(&m, "Add", "c,p", "y");
        CHECK_OK(make_encode(&m, &bytes));
        CHECK_OK(gale__onnx_parse(bytes.text, bytes.length, true, NULL, GALE__PB_KIND_MODEL, &f[k]));
        gale__str_finish(&bytes);
        if (k) {
            CHECK_OK(gale__int8_ranges_of(root(f[k]), &ranges));
            ranges.at[0].by_channel = by_channel;
            CHECK_OK(gale__int8_ranges_note(&ranges, "x", x));
            CHECK_OK(gale__edit_int8(f[k], root(f[k]), &(gale__int8){.ranges = &ranges}));
            *biases = 0;
            for (size_t i = 0; i < root(f[k])->graph->initializer.n; i++)
                *biases += gale__pb_is(&root(f[k])->graph->initializer.at[i].name, "c_int8");
        }
        CHECK_OK(gale__onnx_pack(f[k], root(f[k]), &bytes));
        if (CHECK_OK(gale_model_from_memory(bytes.text, bytes.length, 0, cpu, NULL, &model)))
            CHECK_OK(gale_model_run_named(
                model, (const char *const[]){"x"}, &x, 1, (const char *const[]){"y"}, &y[k], 1, GALE_RUN_ON_HOST));
        gale_model_close(&model);
        gale__str_finish(&bytes);
        make_end(&m);
        gale__onnx_close(&f[k]);
    }
    for (int n = 0; n < OUT && y[0] && y[1]; n++) {
        double mean = 0;
        for (int i = 0; i < ROWS; i++)
            mean += (double)((float *)y[1]->host)[i * OUT + n] - (double)((float *)y[0]->host)[i * OUT + n];
        sum += fabs(mean) / ROWS;
    }
    gale_tensor_destroy(&x), gale_tensor_destroy(&y[0]), gale_tensor_destroy(&y[1]);
    gale__int8_ranges_finish(&ranges);
    return sum;
}

TEST(biases)
{
    for (int gemm = 0; gemm < 2; gemm++) {
        size_t none, one;
        double before = mean_shift(gemm, false, &none), after = mean_shift(gemm, true, &one);
        CHECK(none == 0 && one == 1);
        if (!CHECK(after < before / 2 && before > 0)) printf("    %g, then %g\n", before, after);
    }
}

/* Of a product of two computed values, as in attention, neither is quantised; what weights multiply is. */
TEST(products_of_values)
{
    maker m;
    gale__onnx *f = NULL;
    gale__int8_ranges ranges = {0};
    gale_tensor *t = NULL;
    make_begin(&m, 13);
    make_input(&m, "x", 1, "16,16");
    make_output(&m, "y", 1, NULL);
    make_initializer(&m, make_floats(&m, "w", "16,16", noise(256, 1), 256));
    make_node(&m, "MatMul", "x,w", "a");
    make_node(&m, "MatMul", "a,x", "y");
    CHECK_OK(make_file(&m, &f));
    CHECK_OK(gale__int8_ranges_of(root(f), &ranges));
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 2, (int64_t[]){16, 16}, noise(256, 9), &t));
    CHECK_OK(gale__int8_ranges_note(&ranges, "x", t));
    CHECK_OK(gale__int8_ranges_note(&ranges, "a", t));
    gale__int8 how = {.ranges = &ranges};
    CHECK_OK(gale__edit_int8(f, root(f), &how));
    CHECK(how.n_weights == 1 && how.n_values == 1);
    CHECK_EQ(count_ops(root(f)->graph, "QuantizeLinear"), 1);
    gale_tensor_destroy(&t);
    gale__int8_ranges_finish(&ranges);
    gale__onnx_close(&f);
}

TEST(left_out)
{
    static const char *const names[] = {"layer/gemm", "layer/*", "Gemm", "b"};
    gale__int8 how;
    gale__onnx *f = make_products();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(loss_of(60, true, names[i], &how) > 0);
        if (!CHECK(how.n_weights == 1 && how.n_values == 1)) printf("    %s\n", names[i]);
    }
    CHECK_FAILS(
        gale__edit_int8(f, root(f), &(gale__int8){.left = (const char *const[]){"Conv"}, .n_left = 1}), NOT_FOUND);
    CHECK(strstr(gale_error(), "'Conv'") != NULL);
    gale__onnx_close(&f);
}

/* Two lookups in one table, and one in a table that a product reads too. */
static gale__onnx *make_tables(void)
{
    maker m;
    gale__onnx *f = NULL;
    make_begin(&m, 13);
    make_input(&m, "ids", 7, "2,5");
    make_output(&m, "y", 1, NULL);
    make_initializer(&m, make_floats(&m, "words", "1000,4", noise(4000, 6), 4000));
    make_initializer(&m, make_floats(&m, "tied", "1000,4", noise(4000, 8), 4000));
    make_node(&m, "Gather", "words,ids", "a");
    make_attr_i(&m, make_node(&m, "Gather", "words,ids", "b"), "axis", 0);
    make_node(&m, "Gather", "tied,ids", "c");
    make_node(&m, "Add", "a,b", "d");
    make_node(&m, "Add", "c,d", "e");
    make_node(&m, "Transpose", "tied", "turned");
    make_node(&m, "MatMul", "e,turned", "y");
    CHECK_OK(make_file(&m, &f));
    return f;
}

TEST(embeddings)
{
    gale__onnx *a = make_tables(), *b = make_tables();
    double relative, cosine;
    gale__int8 how = {0};
    CHECK_OK(gale__edit_int8(b, root(b), &how));
    CHECK_EQ(how.n_weights, 1);
    const gale__pb_graph *g = root(b)->graph;
    CHECK(count_ops(g, "Gather") == 5 && count_ops(g, "Cast") == 2 && g->initializer.n == 3);
    gale_tensor *x = run(a), *y = run(b);
    differ(x, y, &relative, &cosine);
    CHECK(relative < 0.01 && relative > 0);
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&y);
    gale__onnx_close(&b);
    b = make_tables(); /* one of the lookups is left, and so the table must stay */
    how = (gale__int8){.left = (const char *const[]){"a"}, .n_left = 1};
    CHECK_OK(gale__edit_int8(b, root(b), &how));
    CHECK_EQ(how.n_weights, 0);
    gale__onnx_close(&b);
    gale__onnx_close(&a);
    gale_status status = GALE_NO_MEMORY;
    for (uint64_t n = 1; status != GALE_OK && n < 1000; n++) {
        gale__onnx *f = make_tables();
        gale__alloc_fail_at(n);
        status = gale__edit_int8(f, root(f), &(gale__int8){0});
        gale__alloc_fail_at(0);
        if (status != GALE_OK) CHECK_EQ(status, GALE_NO_MEMORY);
        gale__onnx_close(&f);
    }
    CHECK_OK(status);
}

TEST(language_model)
{
    const char *data = getenv("GALE_TEST_DATA");
    char path[1024];
    gale__onnx *a = NULL, *b = NULL;
    double relative, cosine;
    snprintf(path, sizeof path, "%s/models/all-MiniLM-L6-v2/model.onnx", data ? data : "");
    FILE *there = data ? fopen(path, "rb") : NULL;
    if (!there) SKIP("no %s", data ? path : "GALE_TEST_DATA");
    fclose(there);
    if (!CHECK_OK(gale__onnx_open(path, GALE__PB_KIND_MODEL, &a)) ||
        !CHECK_OK(gale__onnx_open(path, GALE__PB_KIND_MODEL, &b)))
        return;
    CHECK_OK(gale__edit_opset(b, root(b), GALE__OPSET_NEWEST, GALE__OPSET_NEWEST));
    CHECK_OK(gale__edit_fold(b, root(b), cpu));
    CHECK_OK(gale__edit_int8(b, root(b), &(gale__int8){0}));
    gale_tensor *x = run(a), *y = run(b);
    differ(x, y, &relative, &cosine);
    if (!CHECK(cosine > 0.99 && cosine < 1)) printf("cosine %g\n", cosine);
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&y);
    gale__onnx_close(&a);
    gale__onnx_close(&b);
}

TEST(every_allocation_fails)
{
    gale_status status = GALE_NO_MEMORY;
    gale_tensor *uneven = NULL;
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 2, (int64_t[]){2, 8},
        (float[16]){100, -1, 1, 1, 1, 1, 1, 1, -50, 1, 1, 1, 1, 1, 1, 1}, &uneven));
    for (uint64_t n = 1; status != GALE_OK && n < 3000; n++) {
        gale__onnx *f = make_net(13);
        gale__int8_ranges ranges = {0};
        gale__alloc_fail_at(n);
        status = gale__int8_ranges_of(root(f), &ranges);
        for (size_t i = 0; i < ranges.n; i++) ranges.at[i].low = -1, ranges.at[i].high = 1, ranges.at[i].seen = true;
        if (status == GALE_OK) status = gale__int8_ranges_note(&ranges, "f", uneven);
        if (status == GALE_OK) status = gale__edit_int8(f, root(f), &(gale__int8){.ranges = &ranges});
        gale__alloc_fail_at(0);
        if (status != GALE_OK && !CHECK_EQ(status, GALE_NO_MEMORY)) n = 3000;
        gale__int8_ranges_finish(&ranges);
        gale__onnx_close(&f);
    }
    CHECK_OK(status);
    gale_tensor_destroy(&uneven);
}

static const test_row rows[] = {ROW(weights), ROW(activations), ROW(outliers), ROW(uneven_channels), ROW(biases),
    ROW(products_of_values), ROW(left_out), ROW(embeddings), ROW(language_model), ROW(every_allocation_fails)};

int main(int argc, char **argv)
{
    gale_device_options options = {.chain = "cpu"};
    if (gale_device_open(&options, &cpu) != GALE_OK) return 2;
    int code = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    gale_device_close(&cpu);
    return code;
}
