/* How files are read and run: functions, a loop without steps, and what is refused by which words. */
#include "onnx_made.h"
#include "onnx/import/net.h"

/* x cut to what lies between "lo" and "hi" by a function, in a body in it too. */
static void write_cut(maker *m, const char *given)
{
    static const float bounds[2] = {-1, 1};
    static const uint8_t yes = 1;
    gale__pb_graph *outer, *inside;
    make_begin(m, 17);
    make_input(m, "x", 1, "3");
    make_initializer(m, make_floats(m, "low", "", bounds, 1));
    make_initializer(m, make_floats(m, "high", "", bounds + 1, 1));
    make_call(m, "Cut", given, "y");
    make_output(m, "y", 1, "3");
    make_function(m, "Cut", "a,lo,hi", "b", &outer);
    make_call(m, "Inner", "a,lo,hi", "c");
    make_raw(m,
        make_attr(m, make_node(m, "Constant", "", "yes"), "value", GALE__PB_TENSOR)->t = make_tensor(m, "", 9, ""),
        &yes, 1);
    gale__pb_node *choice = make_node(m, "If", "yes", "b");
    for (int i = 0; i < 2; i++) {
        inside = make_enter(m, choice, i ? "else_branch" : "then_branch");
        make_node(m, "Clip", "c,lo,hi", "d");
        make_output(m, "d", 1, "3");
        make_leave(m, inside);
    }
    make_function_end(m, outer);
    make_function(m, "Inner", "a,lo,hi", "b", &outer);
    make_node(m, "Clip", "a,lo,hi", "b");
    make_function_end(m, outer);
}

TEST(functions_without_some_inputs)
{
    static const struct {
        const char *given;
        float want[3];
    } calls[] = {{"x,low,high", {-1, 0, 1}}, {"x,,high", {-2, 0, 1}}, {"x,low", {-1, 0, 2}}, {"x", {-2, 0, 2}}};
    for (int i = 0; i < 4; i++) {
        float got[3] = {0};
        maker m;
        write_cut(&m, calls[i].given);
        run_made(&m, "x", 1, (const int64_t[]){3}, (const float[]){-2, 0, 2}, "y", 3, got);
        CHECK(!memcmp(got, calls[i].want, sizeof got));
        make_end(&m);
    }
}

/* Each function calls the one before it twice, or twice in each of two bodies; the first has a node, a large constant,
 * or nothing in it. */
static void write_towers(maker *m, bool bodies, int kind)
{
    static const float large[15000];
    int top = bodies ? 15 : 30;
    char name[8];
    gale__pb_graph *outer;
    make_begin(m, 17);
    make_input(m, "x", 1, "2");
    make_call(m, bodies ? "F15" : "F30", "x", "y");
    make_output(m, "y", 1, "2");
    for (int i = 0; i <= top; i++) {
        snprintf(name, sizeof name, "F%d", i);
        make_function(m, name, "a", i || kind ? "b" : "a", &outer);
        snprintf(name, sizeof name, "F%d", i - 1);
        gale__pb_node *choice = i && bodies ? make_node(m, "If", "a", "b") : NULL;
        if (!i && kind == 1) make_node(m, "Add", "a,a", "b");
        if (!i && kind == 2)
            make_attr(m, make_node(m, "Constant", "", "b"), "value", GALE__PB_TENSOR)->t =
                make_floats(m, "", "15000", large, 15000);
        if (i && !choice) make_call(m, name, "a", "c"), make_call(m, name, "c", "b");
        for (int k = 0; choice && k < 2; k++) {
            gale__pb_graph *around = make_enter(m, choice, k ? "else_branch" : "then_branch");
            make_call(m, name, "a", "c"), make_call(m, name, "c", "d");
            make_output(m, "d", 1, NULL);
            make_leave(m, around);
        }
        make_function_end(m, outer);
    }
}

TEST(functions_that_become_too_many)
{
    for (int i = 0; i < 4; i += test_sanitized() && test_brief() ? 4 : test_light() ? 3 : 1) {
        gale_device *device = NULL;
        gale_model *model = NULL;
        maker m;
        write_towers(&m, i == 3, i % 3);
        if (CHECK_OK(open_cpu(&device)))
            CHECK(open_made(&m, device, &model) == GALE_LIMIT &&
                  strstr(gale_error(), "functions of this model need more than"));
        gale_model_close(&model);
        gale_device_close(&device);
        make_end(&m);
    }
}

/* Nothing, stacked, has the rank that it would have had. */
TEST(loop_without_steps)
{
    gale_tensor *out = NULL;
    maker m;
    make_begin(&m, 17);
    make_input(&m, "x", 1, "n");
    make_initializer(&m, make_ints(&m, "none", "", (const int64_t[]){0}, 1));
    gale__pb_graph *outer = make_enter(&m, make_node(&m, "Loop", "none", "y"), "body");
    make_input(&m, "step", 7, ""), make_input(&m, "go", 9, "");
    make_node(&m, "Identity", "go", "on");
    make_node(&m, "Add", "x,x", "sum");
    make_output(&m, "on", 9, ""), make_output(&m, "sum", 1, NULL);
    make_leave(&m, outer);
    make_output(&m, "y", 1, NULL);
    if (CHECK_OK(try_made(&m, "x", 1, (const int64_t[]){2}, (const float[]){1, 2}, "y", &out)))
        CHECK(gale_tensor_rank(out) == 2 && gale_tensor_dims(out)[0] == 0);
    gale_tensor_destroy(&out);
    make_end(&m);
}

/* What is refused only when shapes and types are known still names the node as the file does. */
static void refused_in_run(const char *op, const char *inputs, const char *words)
{
    static const float three[3] = {0};
    gale_tensor *out = NULL;
    maker m;
    make_begin(&m, 21);
    make_input(&m, "x", 1, "n");
    make_initializer(&m, make_floats(&m, "three", "3", three, 3));
    make_node(&m, "Relu", "x", "y");
    make_node(&m, op, inputs, "z")->name = make_text(&m, "odd one");
    make_output(&m, "z", 1, "n");
    if (CHECK(try_made(&m, "x", 1, (const int64_t[]){2}, three, "z", &out) != GALE_OK))
        CHECK(strstr(gale_error(), "node 1 'odd one' (") && strstr(gale_error(), words));
    gale_tensor_destroy(&out);
    make_end(&m);
}

TEST(refusals_in_a_run_name_the_node)
{
    refused_in_run("Add", "y,three", "cannot be broadcast together");
    refused_in_run("Not", "y", "NOT is not defined for f32");
    refused_in_run("BitwiseAnd", "y,three", "AND is not defined for f32");
    refused_in_run("Max", "y,,three", "input 1 is missing");
}

/* Statistics that are there in training alone. */
TEST(results_that_are_left_out_name_the_node)
{
    gale_tensor *out = NULL;
    maker m;
    make_begin(&m, 21);
    make_input(&m, "x", 1, "1,1");
    make_initializer(&m, make_floats(&m, "one", "1", (const float[]){1}, 1));
    make_node(&m, "BatchNormalization", "x,one,one,one,one", "y,mean,variance")->name = make_text(&m, "odd one");
    make_output(&m, "mean", 1, "1");
    if (CHECK(try_made(&m, "x", 2, (const int64_t[]){1, 1}, (const float[]){1}, "mean", &out) == GALE_INVALID))
        CHECK(strstr(gale_error(), "node 0 'odd one' (BatchNormalization): output mean has no value"));
    make_end(&m);
}

/* One node over an input of some type; what is refused when it is opened. */
static void refused_when_read(gale__pb_node *n, maker *m, const char *words)
{
    gale_device *device = NULL;
    gale_model *model = NULL;
    n->name = make_text(m, "odd one");
    if (CHECK_OK(open_cpu(&device)) && CHECK(open_made(m, device, &model) != GALE_OK) &&
        !CHECK(strstr(gale_error(), "'odd one'") && strstr(gale_error(), words)))
        printf("  %s\n", gale_error());
    gale_model_close(&model);
    gale_device_close(&device);
    make_end(m);
}

TEST(refusals_when_read_name_the_node)
{
    for (int i = 0; i < 4; i++) {
        maker m;
        make_begin(&m, i == 1 ? 6 : 21);
        make_input(&m, "x", 1, "2");
        make_output(&m, "b", 7, NULL);
        gale__pb_node *n = i < 2 ? make_node(&m, i ? "Dropout" : "NonZero", "x", i ? "a,c,b" : "a,b")
                                 : make_node(&m, "Constant", "", "b");
        if (i == 2)
            make_attr(&m, n, "sparse_value", GALE__PB_SPARSE)->sparse_tensor = make_room(&m, sizeof(gale__pb_sparse));
        if (i == 3) make_attr(&m, n, "value", GALE__PB_TENSOR)->t = make_tensor(&m, "", 1, "2");
        refused_when_read(n, &m,
            i == 0   ? "no result 1, here 'b'"
            : i == 1 ? "no result 2"
            : i == 2 ? "attribute 'sparse_value'"
                     : "attribute 'value'");
    }
}

/* Strings where numbers are wanted: for a device, and as axes of an operator that takes strings elsewhere. */
TEST(strings_in_a_segment)
{
    gale_device *device = NULL;
    gale_model *model = NULL;
    gale_tensor *in = NULL, *out = NULL;
    const char *x = "x", *z = "z", *text = "a";
    maker m;
    make_begin(&m, 21);
    make_input(&m, "x", 8, "1");
    make_output(&m, "z", 1, NULL);
    make_node(&m, "Sqrt", "x", "z")->name = make_text(&m, "odd one");
    if (CHECK_OK(open_cpu(&device)) && CHECK_OK(open_made(&m, device, &model)) &&
        CHECK_OK(gale_tensor_from_strings(1, &(int64_t){1}, &text, NULL, &in)))
        CHECK(gale_model_run_named(model, &x, &in, 1, &z, &out, 1, GALE_RUN_ON_HOST) == GALE_INVALID &&
              strstr(gale_error(), "node 0 'odd one' (Sqrt): input 'x' is not a numeric tensor"));
    gale_model_close(&model);
    make_end(&m);
    make_begin(&m, 21);
    make_input(&m, "x", 8, "1");
    make_initializer(&m, make_ints(&m, "seven", "1", (const int64_t[]){7}, 1));
    make_output(&m, "z", 7, NULL);
    make_node(&m, "Unsqueeze", "seven,x", "z")->name = make_text(&m, "odd one");
    if (CHECK_OK(open_made(&m, device, &model)))
        CHECK(gale_model_run_named(model, &x, &in, 1, &z, &out, 1, GALE_RUN_ON_HOST) == GALE_INVALID &&
              strstr(gale_error(), "'odd one' (Unsqueeze)"));
    gale_tensor_destroy(&in);
    gale_model_close(&model);
    gale_device_close(&device);
    make_end(&m);
}

/* A value cut into heads, its shape put together from its own extents as exporters write it. */
static void write_heads(maker *m)
{
    static const int64_t zero = 0, one = 1, rest[2] = {2, 4};
    make_begin(m, 11);
    make_input(m, "x", 1, "batch,length,8");
    make_initializer(m, make_ints(m, "zero", "", &zero, 1));
    make_initializer(m, make_ints(m, "one", "", &one, 1));
    make_initializer(m, make_ints(m, "rest", "2", rest, 2));
    make_node(m, "Shape", "x", "extents");
    make_node(m, "Gather", "extents,zero", "batch");
    make_node(m, "Gather", "extents,one", "length");
    make_attr_ints(m, make_node(m, "Unsqueeze", "batch", "b"), "axes", &zero, 1);
    make_attr_ints(m, make_node(m, "Unsqueeze", "length", "l"), "axes", &zero, 1);
    make_attr_i(m, make_node(m, "Concat", "b,l,rest", "shape"), "axis", 0);
    make_node(m, "Reshape", "x,shape", "heads");
    make_attr_i(m, make_node(m, "Softmax", "heads", "y"), "axis", 3);
    make_output(m, "y", 1, "batch,length,2,4");
}

/* The old Softmax over the last axis is today's where the rank is known: no Flatten, so attention is recognised. */
TEST(ranks_follow_from_lengths)
{
    maker m;
    gale__onnx *file = NULL;
    gale__onnx_net *net = NULL;
    bool softmax = false;
    write_heads(&m);
    if (!CHECK_OK(make_file(&m, &file)) || !CHECK_OK(gale__onnx_net_import(file, &net))) return;
    for (int i = 0; i < net->n_nodes; i++) {
        const gale__onnx_net_node *node = &net->nodes[i];
        CHECK(strcmp(node->op, "Flatten") != 0);
        if (strcmp(node->op, "Softmax")) continue;
        softmax = true;
        CHECK_EQ(gale__onnx_net_attr_i(node, "axis", 0), -1);
        CHECK_EQ(net->values[node->in[0]].rank, 4);
    }
    CHECK(softmax);
    gale__onnx_net_destroy(&net);
    gale__onnx_close(&file);
}

/* Casts to the type that a value has are Identity, which recognisers look through; others stay. */
TEST(casts_that_change_nothing)
{
    static const char *const want[] = {"Identity", "Identity", "Cast", "Cast"};
    maker m;
    gale__onnx *file = NULL;
    gale__onnx_net *net = NULL;
    make_begin(&m, 21);
    make_input(&m, "x", 10, "4");
    make_output(&m, "d", 1, "4");
    make_attr_i(&m, make_node(&m, "Cast", "x", "a"), "to", 10);
    make_node(&m, "CastLike", "a,x", "b");
    make_attr_i(&m, make_node(&m, "Cast", "b", "c"), "to", 16);
    make_attr_i(&m, make_node(&m, "Cast", "c", "d"), "to", 1);
    if (CHECK_OK(make_file(&m, &file)) && CHECK_OK(gale__onnx_net_import(file, &net)) && CHECK_EQ(net->n_nodes, 4))
        for (int i = 0; i < 4; i++) CHECK(strcmp(net->nodes[i].op, want[i]) == 0);
    gale__onnx_net_destroy(&net);
    gale__onnx_close(&file);
}

TESTS(ROW(ranks_follow_from_lengths), ROW(casts_that_change_nothing), ROW(loop_without_steps),
    ROW(functions_without_some_inputs), ROW(functions_that_become_too_many), ROW(refusals_in_a_run_name_the_node),
    ROW(results_that_are_left_out_name_the_node), ROW(refusals_when_read_name_the_node), ROW(strings_in_a_segment))
