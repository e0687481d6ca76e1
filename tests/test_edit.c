/* Changing models: each change is made, written, read and run, and compared with the model it came from. */
#include "../fuzz/seeds.h"
#include "base/file.h"
#include "base/num.h"
#include "gale/device.h"
#include "gale/model.h"
#include "graph/run/tensor.h"
#include "onnx/edit/edit.h"
#include "onnx/import/net.h"
#include "test.h"
#include <math.h>

static gale_device *cpu;

static gale__onnx *open_seed(const char *name)
{
    gale__onnx *f = NULL;
    maker m = {0};
    for (int i = 0; i < SEEDS; i++)
        if (!strcmp(seeds[i].name, name)) seeds[i].make(&m);
    CHECK_OK(make_file(&m, &f));
    return f;
}
static gale__pb_model *root(gale__onnx *f) { return gale__onnx_root(f); }

/* The first result of a model whose inputs are 0, 0.25, 0.5 ..., extents that are not known being 2. */
static gale_tensor *run(gale__onnx *f)
{
    gale__str bytes = {0};
    gale_model *model = NULL;
    gale_tensor *result = NULL;
    gale_object *in[8] = {0}, *out[8] = {0};
    if (!CHECK_OK(gale__onnx_pack(f, root(f), &bytes)) ||
        !CHECK_OK(gale_model_from_memory(bytes.text, bytes.length, 0, cpu, NULL, &model)))
        goto done;
    for (int i = 0; i < gale_model_inputs(model); i++) {
        gale_model_value v;
        gale_tensor *t = NULL;
        gale_model_input(model, i, &v);
        for (int k = 0; k < v.rank; k++)
            if (v.dims[k] < 0) v.dims[k] = 2;
        if (v.rank < 0) v.rank = 1, v.dims[0] = 2;
        if (!CHECK_OK(gale_tensor_create(NULL, v.type, v.rank, v.dims, &t))) goto done;
        for (int64_t e = 0; e < gale__tensor_elements(t); e++)
            gale__store_f64(v.type, (char *)t->host + (size_t)e * gale_type_size(v.type), (double)(e % 7) / 4);
        CHECK_OK(gale_object_tensor(t, &in[i]));
        gale_tensor_destroy(&t);
    }
    if (CHECK_OK(gale_model_run(model, in, out, GALE_RUN_ON_HOST)))
        gale_tensor_reshape(gale_object_get_tensor(out[0]), gale_tensor_rank(gale_object_get_tensor(out[0])),
            gale_tensor_dims(gale_object_get_tensor(out[0])), &result);
done:
    for (int i = 0; i < 8; i++) gale_object_destroy(&in[i]), gale_object_destroy(&out[i]);
    gale_model_close(&model);
    gale__str_finish(&bytes);
    return result;
}

static void compare(gale__onnx *a, gale__onnx *b, double tolerance)
{
    gale_tensor *x = run(a), *y = run(b);
    if (x && y && CHECK(x->type == y->type && x->size_bytes == y->size_bytes))
        for (int64_t i = 0; i < gale__tensor_elements(x); i++) {
            size_t at = (size_t)i * gale_type_size(x->type);
            double u = gale__load_f64(x->type, (char *)x->host + at), v = gale__load_f64(y->type, (char *)y->host + at);
            if (!(fabs(u - v) <= tolerance * (1 + fabs(u)))) {
                printf("%lld: %g, not %g\n", (long long)i, v, u);
                CHECK(false);
                break;
            }
        }
    gale_tensor_destroy(&x);
    gale_tensor_destroy(&y);
}

static size_t count_ops(const gale__pb_graph *g, const char *op)
{
    size_t n = 0;
    for (size_t i = 0; i < g->node.n; i++) n += !strcmp(g->node.at[i].op_type.at, op);
    return n;
}

TEST(pinned)
{
    gale__onnx *f = open_seed("shapes");
    gale__pb_shape *s = root(f)->graph->input.at[0].type->tensor_type->shape;
    CHECK_OK(gale__edit_pin(f, root(f), "a", 3));
    CHECK(s->dim.at[0].has_value && s->dim.at[0].dim_value == 3 && !s->dim.at[0].dim_param.size &&
          !s->dim.at[1].has_value);
    CHECK_OK(gale__edit_pin(f, root(f), "x:1", 4));
    CHECK(s->dim.at[1].has_value && s->dim.at[1].dim_value == 4);
    CHECK_FAILS(gale__edit_pin(f, root(f), "nobody", 1), NOT_FOUND);
    CHECK_FAILS(gale__edit_pin(f, root(f), "x:3", 1), INVALID);
    CHECK_FAILS(gale__edit_pin(f, root(f), "x", 1), INVALID);
    CHECK_FAILS(gale__edit_pin(f, root(f), "x:0", -1), INVALID);
    gale_tensor *t = run(f);
    if (CHECK(t != NULL)) CHECK_EQ(gale__tensor_elements(t), 24);
    gale_tensor_destroy(&t);
    gale__onnx_close(&f);
}

TEST(freed)
{
    gale__onnx *f = open_seed("conv");
    gale__pb_shape *s = root(f)->graph->input.at[0].type->tensor_type->shape;
    CHECK_OK(gale__edit_free(f, root(f), "x:0"));
    CHECK(!s->dim.at[0].has_value && s->dim.at[1].has_value);
    CHECK_TEXT(s->dim.at[0].dim_param.at, "x_0");
    gale_tensor *t = run(f);
    if (CHECK(t != NULL)) CHECK_EQ(t->dims[0], 2);
    gale_tensor_destroy(&t);
    CHECK_OK(gale__edit_free(f, root(f), "x"));
    CHECK(!s->dim.at[3].has_value);
    CHECK_FAILS(gale__edit_free(f, root(f), "z"), NOT_FOUND);
    CHECK_FAILS(gale__edit_free(f, root(f), "x:9"), INVALID);
    gale__onnx_close(&f);
}

TEST(extracted)
{
    gale__onnx *f = open_seed("conv");
    CHECK_FAILS(gale__edit_extract(f, root(f), "x:nobody"), NOT_FOUND);
    CHECK_FAILS(gale__edit_extract(f, root(f), "x"), INVALID);
    CHECK_FAILS(gale__edit_extract(f, root(f), "c:c"), INVALID);
    CHECK_FAILS(gale__edit_extract(f, root(f), "w:f"), INVALID);
    CHECK(strstr(gale_error(), "'x'"));
    CHECK_OK(gale__edit_extract(f, root(f), "x:p"));
    CHECK(root(f)->graph->node.n == 2 && root(f)->graph->initializer.n == 1 && root(f)->graph->output.n == 1);
    CHECK_EQ(root(f)->graph->output.at[0].type->tensor_type->elem_type, 1);
    gale_tensor *t = run(f);
    if (CHECK(t != NULL)) CHECK(t->rank == 4 && t->dims[1] == 2 && t->dims[3] == 1);
    gale_tensor_destroy(&t);
    gale__onnx_close(&f);
    f = open_seed("conv"); /* from the middle to the end: the weights go */
    CHECK_OK(gale__edit_extract(f, root(f), "p:y"));
    CHECK(root(f)->graph->node.n == 2 && root(f)->graph->initializer.n == 0);
    CHECK_TEXT(root(f)->graph->input.at[0].name.at, "p");
    gale__onnx_close(&f);
    f = open_seed("if"); /* what bodies take from outside stays */
    CHECK_OK(gale__edit_extract(f, root(f), "c,x:y"));
    CHECK_EQ(root(f)->graph->node.n, 1);
    gale__onnx_close(&f);
    f = open_seed("if");
    CHECK_FAILS(gale__edit_extract(f, root(f), "c:y"), INVALID);
    gale__onnx_close(&f);
}

/* Names with colons, as exporters write them. */
TEST(extracted_with_colons)
{
    maker m;
    gale__onnx *f = NULL;
    make_begin(&m, 13);
    make_input(&m, "in:0", 1, "2");
    make_output(&m, "out:0", 1, "2");
    make_node(&m, "Exp", "in:0", "mid:0");
    make_node(&m, "Neg", "mid:0", "out:0");
    CHECK_OK(make_file(&m, &f));
    CHECK_OK(gale__edit_extract(f, root(f), "mid:0:out:0"));
    CHECK_EQ(root(f)->graph->node.n, 1);
    gale__onnx_close(&f);
}

TEST(half_precision)
{
    static const char *const names[] = {"conv", "gemm", "attention", "if", "loop", "scan", "quantised", "function",
        "sparse", "shapes", "erf", "split", "old"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int k = 0; k < 2; k++) {
            gale__onnx *a = open_seed(names[i]), *b = open_seed(names[i]);
            int64_t opset = root(b)->opset_import.n ? root(b)->opset_import.at[0].version : 1;
            gale_status status = gale__edit_precision(b, root(b), k ? GALE_BF16 : GALE_F16);
            if (opset < (k ? 13 : 6)) CHECK_EQ(status, GALE_UNSUPPORTED);
            else if (CHECK_OK(status)) {
                int before = test_bad;
                compare(a, b, k ? 2e-2 : 2e-3);
                if (test_bad > before) printf("%s as %s\n", names[i], k ? "bf16" : "f16");
            }
            gale__onnx_close(&a);
            gale__onnx_close(&b);
        }
}

TEST(half_weights)
{
    gale__onnx *f = open_seed("gemm");
    CHECK_OK(gale__edit_precision(f, root(f), GALE_F16));
    gale__pb_graph *g = root(f)->graph;
    CHECK_EQ(g->initializer.n, 2);
    CHECK_EQ(g->initializer.at[0].data_type, 10);
    CHECK_EQ(g->initializer.at[0].raw_data.size, 12);
    CHECK_EQ(count_ops(g, "Cast"), 2); /* in and out */
    CHECK_EQ(g->input.at[0].type->tensor_type->elem_type, 1);
    gale__onnx_close(&f);
    f = open_seed("attention"); /* four inputs at the edge, and nothing between */
    CHECK_OK(gale__edit_precision(f, root(f), GALE_BF16));
    CHECK_EQ(count_ops(root(f)->graph, "Cast"), 4);
    gale__onnx_close(&f);
}

/* A dynamically quantised product as exporters write it.  Sums of products are millions, beyond f16, until both scales
 * have been multiplied in: at once, or one after the other. */
static gale__onnx *open_dynamic(bool at_once)
{
    enum { K = 512 };
    gale__onnx *f = NULL;
    maker m;
    int8_t w[K * 2];
    for (int i = 0; i < K * 2; i++) w[i] = (int8_t)(127 - i % 5);
    make_begin(&m, 13);
    make_input(&m, "x", 1, "3,512");
    make_output(&m, "y", 1, "3,2");
    gale__pb_tensor *weight = make_tensor(&m, "w", 3, "512,2");
    make_raw(&m, weight, w, sizeof w);
    make_initializer(&m, weight);
    make_initializer(&m, make_floats(&m, "w_scale", "", (float[]){1e-6f}, 1));
    make_initializer(&m, make_floats(&m, "bias", "2", (float[]){0.5f, -0.5f}, 2));
    make_node(&m, "DynamicQuantizeLinear", "x", "q,x_scale,zero");
    make_node(&m, "MatMulInteger", "q,w,zero", "sum");
    make_attr_i(&m, make_node(&m, "Cast", "sum", "real"), "to", 1);
    if (at_once) make_node(&m, "Mul", "x_scale,w_scale", "scale");
    else make_node(&m, "Mul", "real,x_scale", "part");
    make_node(&m, "Mul", at_once ? "real,scale" : "part,w_scale", "scaled");
    make_node(&m, "Add", "scaled,bias", "y");
    CHECK_OK(make_file(&m, &f));
    return f;
}

TEST(half_leaves_sums)
{
    for (int k = 0; k < 4; k++) {
        gale__onnx *a = open_dynamic(k % 2), *b = open_dynamic(k % 2);
        if (CHECK_OK(gale__edit_precision(b, root(b), k < 2 ? GALE_F16 : GALE_BF16))) {
            compare(a, b, k < 2 ? 2e-3 : 2e-2);
            CHECK_EQ(count_ops(root(b)->graph, "Cast"), 3); /* of the sum, into Add and out of it */
        }
        gale__onnx_close(&a);
        gale__onnx_close(&b);
    }
}

/* The last node first. */
static void turn(gale__pb_graph *g)
{
    for (size_t i = 0; i < g->node.n / 2; i++) {
        gale__pb_node first = g->node.at[i];
        g->node.at[i] = g->node.at[g->node.n - 1 - i];
        g->node.at[g->node.n - 1 - i] = first;
    }
}

TEST(folded)
{
    static const char *const names[] = {"conv", "gemm", "attention", "if", "loop", "scan", "quantised", "function",
        "sparse", "shapes", "erf", "split", "old"};
    for (size_t i = 0; i < 2 * (sizeof names / sizeof *names); i++) {
        gale__onnx *a = open_seed(names[i / 2]), *b = open_seed(names[i / 2]);
        int before = test_bad;
        if (i % 2) turn(root(b)->graph);
        if (CHECK_OK(gale__edit_fold(b, root(b), cpu))) compare(a, b, 0);
        if (test_bad > before) printf("%s folded%s\n", names[i / 2], i % 2 ? ", its nodes turned round" : "");
        gale__onnx_close(&a);
        gale__onnx_close(&b);
    }
}

static void check_opsets(int least, int most)
{
    int ran = 0;
    for (int i = 0; i < SEEDS; i++) {
        gale__onnx *a = open_seed(seeds[i].name), *b = open_seed(seeds[i].name);
        gale__onnx_net *net = NULL;
        int before = test_bad;
        bool runs = gale__onnx_net_import(a, &net) == GALE_OK && net->n_inputs <= 8 && net->n_outputs <= 8;
        for (int k = 0; runs && k < net->n_inputs; k++) runs = net->values[net->inputs[k]].kind == GALE__KIND_NUMBERS;
        for (int k = 0; runs && k < net->n_outputs; k++) runs = net->declared[k].kind == GALE__KIND_NUMBERS;
        gale__onnx_net_destroy(&net);
        gale_status status = gale__edit_opset(b, root(b), least, most);
        if (runs && CHECK_OK(status)) {
            ran++;
            int64_t opset = gale__edit_opset_of(root(b)), was = gale__edit_opset_of(root(a));
            bool unsaid = !root(a)->opset_import.n; /* it is taken for the newest */
            CHECK(opset >= least && opset <= most && (least == most || opset <= was || opset <= 18 || unsaid));
            CHECK_EQ(root(b)->functions.n, 0);
            compare(a, b, 1e-6);
        }
        if (test_bad > before) printf("%s at opset %d to %d\n", seeds[i].name, least, most);
        gale__onnx_close(&a);
        gale__onnx_close(&b);
    }
    CHECK(ran > 10);
}

TEST(newest_opset) { check_opsets(GALE__OPSET_NEWEST, GALE__OPSET_NEWEST); }

/* No newer one than it takes: readers of models know the newest late. */
TEST(least_opset)
{
    check_opsets(13, GALE__OPSET_NEWEST);
    check_opsets(17, GALE__OPSET_NEWEST);
}

/* The mean over axes: an attribute before opset 18, an input since, whatever the model was. */
TEST(axes_of_their_opset)
{
    for (int opset = 13; opset <= 18; opset += 5) {
        gale__onnx *a[2] = {0};
        for (int i = 0; i < 2; i++) {
            maker m;
            make_begin(&m, 11);
            make_input(&m, "x", 1, "2,3,4");
            make_output(&m, "y", 1, NULL);
            make_attr_ints(&m, make_node(&m, "ReduceMean", "x", "mean"), "axes", (int64_t[]){1}, 1);
            make_attr_i(&m, make_node(&m, "Softmax", "mean", "y"), "axis", 1);
            CHECK_OK(make_file(&m, &a[i]));
        }
        if (CHECK_OK(gale__edit_opset(a[1], root(a[1]), opset, opset))) {
            const gale__pb_node *n = &root(a[1])->graph->node.at[0];
            CHECK_EQ(gale__edit_opset_of(root(a[1])), opset);
            CHECK(n->input.n == (opset < 18 ? 1 : 2) && root(a[1])->ir_version <= 10);
            compare(a[0], a[1], 1e-6);
        }
        CHECK_FAILS(gale__edit_opset(a[0], root(a[0]), 12, 12), INVALID);
        gale__onnx_close(&a[0]);
        gale__onnx_close(&a[1]);
    }
}

/* What was told by the number of results is an attribute since. */
TEST(parts_are_counted_at_the_newest_opset)
{
    maker m;
    gale__onnx *f = NULL;
    make_begin(&m, 13);
    make_input(&m, "x", 1, "6");
    make_output(&m, "a", 1, "3");
    make_output(&m, "b", 1, "3");
    make_node(&m, "Split", "x", "a,b");
    CHECK_OK(make_file(&m, &f));
    if (CHECK_OK(gale__edit_opset(f, root(f), GALE__OPSET_NEWEST, GALE__OPSET_NEWEST))) {
        const gale__pb_node *split = root(f)->graph->node.at;
        CHECK(split->attribute.n == 1 && !strcmp(split->attribute.at[0].name.at, "num_outputs") &&
              split->attribute.at[0].i == 2);
    }
    gale__onnx_close(&f);
}

/* Constants, a chain over them, one node twice, one that nothing reads, something large made of little, and the shape
 * of the input. */
static gale__onnx *make_foldable(void)
{
    static const float w[] = {1, 2, 3, 4};
    static const int64_t large[] = {1 << 19, 1}, last[] = {-1};
    maker m;
    gale__onnx *f = NULL;
    make_begin(&m, 17);
    make_input(&m, "x", 1, "n,4");
    make_output(&m, "y", 1, NULL);
    make_initializer(&m, make_floats(&m, "w", "4", w, 4));
    make_initializer(&m, make_floats(&m, "w2", "4", w, 4));
    make_initializer(&m, make_floats(&m, "unread", "4", w, 4));
    make_initializer(&m, make_ints(&m, "large", "2", large, 2));
    make_initializer(&m, make_ints(&m, "last", "1", last, 1));
    gale__pb_attribute *a = make_attr(&m, make_node(&m, "Constant", "", "c"), "value_float", GALE__PB_FLOAT);
    a->f = 0.5f;
    make_node(&m, "Mul", "w,c", "wc");
    make_node(&m, "Exp", "wc", "we");
    make_node(&m, "Add", "x,w", "s");
    make_node(&m, "Add", "x,w2", "t");
    make_node(&m, "Mul", "s,t", "st");
    make_node(&m, "Mul", "st,we", "p");
    make_node(&m, "Neg", "x", "nobody");
    make_node(&m, "ConstantOfShape", "large", "zeros");
    make_attr_i(&m, make_node(&m, "ReduceMax", "zeros", "zero"), "keepdims", 0);
    make_node(&m, "Add", "p,zero", "q");
    make_node(&m, "Shape", "x", "shape");
    make_node(&m, "Concat", "shape,last", "wide");
    make_attr_i(&m, &m.graph->node.at[m.graph->node.n - 1], "axis", 0);
    make_node(&m, "Reshape", "q,wide", "r");
    make_node(&m, "Expand", "r,large", "y0");
    make_node(&m, "Slice", "y0,last,large", "y1");
    make_node(&m, "Identity", "r", "y");
    CHECK_OK(make_file(&m, &f));
    return f;
}

TEST(folded_away)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        gale__onnx *a = make_foldable(), *b = make_foldable();
        gale__pb_graph *g = root(b)->graph;
        if (pinned) CHECK_OK(gale__edit_pin(b, root(b), "n", 2));
        CHECK_OK(gale__edit_fold(b, root(b), cpu));
        CHECK_EQ(count_ops(g, "Exp") + count_ops(g, "Constant") + count_ops(g, "Neg") +
                     count_ops(g, "ConstantOfShape") + count_ops(g, "Expand"),
            0);
        CHECK_EQ(count_ops(g, "Add"), 2);
        CHECK_EQ(count_ops(g, "Shape") + count_ops(g, "Concat"), pinned ? 0 : 2);
        CHECK_EQ(g->initializer.n, 4); /* w, we, zero, and the list for Concat or the shape itself */
        compare(a, b, 0);
        gale__onnx_close(&a);
        gale__onnx_close(&b);
    }
}

/* What is much larger than its making stays a node. */
TEST(folded_not_large)
{
    static const int64_t large[] = {1 << 19};
    maker m;
    gale__onnx *f = NULL;
    make_begin(&m, 17);
    make_input(&m, "x", 1, "1");
    make_output(&m, "y", 1, NULL);
    make_initializer(&m, make_ints(&m, "large", "1", large, 1));
    make_node(&m, "ConstantOfShape", "large", "zeros");
    make_node(&m, "Neg", "zeros", "n");
    make_node(&m, "Add", "n,x", "y");
    CHECK_OK(make_file(&m, &f));
    CHECK_OK(gale__edit_fold(f, root(f), cpu));
    CHECK_EQ(root(f)->graph->node.n, 3);
    gale__onnx_close(&f);
}

TEST(every_allocation_fails)
{
    static const char *const names[] = {"conv", "if", "attention", "sparse"}, *const parts[] = {"x:p", "c,x:y",
                                                                                  "q,k,v:p", "linear,pairs:y"};
    for (size_t i = 0; i < 4; i++) {
        gale_status status = GALE_NO_MEMORY;
        for (uint64_t n = 1; status != GALE_OK && n < 3000; n++) {
            gale__onnx *f = open_seed(names[i]);
            gale__str bytes = {0};
            gale__alloc_fail_at(n);
            status = gale__edit_extract(f, root(f), parts[i]);
            if (status == GALE_OK) status = gale__edit_free(f, root(f), root(f)->graph->input.at[0].name.at);
            if (status == GALE_INVALID) status = GALE_OK; /* it has no shape */
            if (status == GALE_OK) status = gale__edit_opset(f, root(f), GALE__OPSET_NEWEST, GALE__OPSET_NEWEST);
            if (status == GALE_OK) status = gale__edit_tidy(f, root(f));
            if (status == GALE_OK) status = gale__edit_precision(f, root(f), GALE_F16);
            if (status == GALE_OK) status = gale__onnx_pack(f, root(f), &bytes);
            gale__alloc_fail_at(0);
            if (status != GALE_OK && !CHECK_EQ(status, GALE_NO_MEMORY)) n = 3000;
            gale__str_finish(&bytes);
            gale__onnx_close(&f);
        }
        CHECK_OK(status);
    }
}

TEST(every_allocation_fails_in_folding)
{
    gale_status status = GALE_NO_MEMORY;
    for (uint64_t n = 1; status != GALE_OK && n < 20000; n += 1 + n / 50) {
        gale__onnx *f = make_foldable();
        gale__alloc_fail_at(n);
        status = gale__edit_pin(f, root(f), "n", 2);
        if (status == GALE_OK) status = gale__edit_fold(f, root(f), cpu);
        gale__alloc_fail_at(0);
        if (status != GALE_OK && !CHECK_EQ(status, GALE_NO_MEMORY)) n = 20000;
        gale__onnx_close(&f);
    }
    CHECK_OK(status);
}

static const test_row rows[] = {ROW(pinned), ROW(freed), ROW(extracted), ROW(extracted_with_colons),
    ROW(half_precision), ROW(half_weights), ROW(half_leaves_sums), ROW(newest_opset), ROW(least_opset),
    ROW(axes_of_their_opset), ROW(parts_are_counted_at_the_newest_opset), ROW(folded), ROW(folded_away),
    ROW(folded_not_large), ROW(every_allocation_fails), ROW(every_allocation_fails_in_folding)};

int main(int argc, char **argv)
{
    gale_device_options options = {.chain = "cpu"};
    if (gale_device_open(&options, &cpu) != GALE_OK) return 2;
    int code = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    gale_device_close(&cpu);
    return code;
}
