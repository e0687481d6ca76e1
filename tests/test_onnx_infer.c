/* Symbolic shapes: small models, and the formulas that must come out. */
#include "test.h"
#include "onnx_make.h"
#include "onnx/import/infer.h"

/* The inferred text of each value asked for, "name=text; ...", compared. */
static void check(maker *m, const char *const *names, const char *const *texts, int n)
{
    gale__str bytes = {0};
    gale__onnx *file = NULL;
    gale__onnx_net *net = NULL;
    gale__onnx_inferred *shapes = NULL;
    bool ok = CHECK_OK(make_encode(m, &bytes)) &&
              CHECK_OK(gale__onnx_parse(bytes.text, bytes.length, true, NULL, GALE__PB_KIND_MODEL, &file)) &&
              CHECK_OK(gale__onnx_net_import(file, &net));
    if (ok) shapes = gale__calloc((size_t)net->n_values + 1, sizeof *shapes);
    ok = ok && CHECK(shapes != NULL) && CHECK_OK(gale__onnx_net_infer(net, shapes));
    for (int i = 0; i < n && ok; i++) {
        bool found = false;
        for (int v = 0; v < net->n_values; v++) {
            gale__str text = {0};
            if (strcmp(net->values[v].name, names[i])) continue;
            found = true;
            gale__onnx_inferred_text(&shapes[v], &text);
            if (!CHECK_TEXT(gale__str_text(&text), texts[i])) printf("  of %s\n", names[i]);
            gale__str_finish(&text);
        }
        CHECK(found);
    }
    gale__free(shapes);
    gale__onnx_net_destroy(&net);
    gale__onnx_close(&file);
    gale__str_finish(&bytes);
}
#define CHECK_SHAPES(m, names, texts) check(m, names, texts, (int)(sizeof(names) / sizeof *(names)))

TEST(pictures)
{
    static const float weights[4 * 3 * 3 * 3] = {0}, up[4 * 2 * 2 * 2] = {0}, scales[] = {1, 1, 2, 2};
    static const char *const names[] = {"x", "half", "back", "odd", "large", "flat", "mean", "pixels"};
    static const char *const texts[] = {"f32 [n, 3, h, w]", "f32 [n, 4, h/2, w/2]", "f32 [n, 2, h, w]",
        "f32 [n, 4, h - 2, w - 2]", "f32 [n, 3, 2*h, 2*w]", "f32 [n, 3*h*w]", "f32 [n, 3, 1, 1]", "f32 [n*h*w, 3]"};
    maker m;
    make_begin(&m, 21);
    make_input(&m, "x", 1, "n,3,h,w");
    make_initializer(&m, make_floats(&m, "weights", "4,3,3,3", weights, 108));
    make_initializer(&m, make_floats(&m, "up", "4,2,2,2", up, 32));
    make_initializer(&m, make_floats(&m, "scales", "4", scales, 4));
    make_initializer(&m, make_ints(&m, "rows", "2", (const int64_t[]){-1, 3}, 2));
    gale__pb_node *conv = make_node(&m, "Conv", "x,weights", "half");
    make_attr_ints(&m, conv, "strides", (const int64_t[]){2, 2}, 2);
    make_attr_ints(&m, conv, "pads", (const int64_t[]){1, 1, 1, 1}, 4);
    make_attr_ints(&m, make_node(&m, "ConvTranspose", "half,up", "back"), "strides", (const int64_t[]){2, 2}, 2);
    make_node(&m, "Conv", "x,weights", "odd");
    make_node(&m, "Resize", "x,,scales", "large");
    make_node(&m, "Flatten", "x", "flat");
    make_node(&m, "GlobalAveragePool", "x", "mean");
    make_node(&m, "Reshape", "x,rows", "pixels");
    make_output(&m, "back", 1, NULL);
    CHECK_SHAPES(&m, names, texts);
    make_end(&m);
}

/* Shapes computed from shapes, sums of two symbols, an extent without a name, and what only a run can tell. */
TEST(tokens)
{
    static const char *const names[] = {"both", "tokens", "heads", "unnamed", "places", "chosen", "behind"};
    static const char *const texts[] = {"f32 [batch, seq + past, 8]", "i64 [1]", "f32 [batch, seq, 2, 4]",
        "f32 [other.0]", "i64 [3, 8*batch*seq]", "?", "?"};
    maker m;
    make_begin(&m, 21);
    make_input(&m, "new", 1, "batch,seq,8"), make_input(&m, "old", 1, "batch,past,8"), make_input(&m, "other", 1, "?");
    make_attr_i(&m, make_node(&m, "Concat", "old,new", "both"), "axis", 1);
    gale__pb_node *shape = make_node(&m, "Shape", "new", "tokens");
    make_attr_i(&m, shape, "start", 1), make_attr_i(&m, shape, "end", 2);
    make_initializer(&m, make_ints(&m, "zero", "1", (const int64_t[]){0}, 1));
    make_initializer(&m, make_ints(&m, "tail", "2", (const int64_t[]){2, 4}, 2));
    make_attr_i(&m, make_node(&m, "Concat", "zero,tokens,tail", "shape"), "axis", 0);
    make_node(&m, "Reshape", "new,shape", "heads");
    make_node(&m, "Relu", "other", "unnamed");
    make_node(&m, "NonZeroPadded", "new", "places,count");
    make_node(&m, "NonZero", "new", "chosen");
    make_node(&m, "Neg", "chosen", "behind");
    make_output(&m, "heads", 1, NULL);
    CHECK_SHAPES(&m, names, texts);
    make_end(&m);
}

/* A choice that shapes decide is made; one that data decide is not. */
TEST(branches)
{
    static const char *const names[] = {"taken", "open"}, *const texts[] = {"f32 [w, n, 4]", "?"};
    static const int64_t three = 3;
    maker m;
    make_begin(&m, 21);
    make_input(&m, "x", 1, "n,4,w"), make_input(&m, "flag", 9, "");
    make_initializer(&m, make_ints(&m, "three", "", &three, 1));
    make_node(&m, "Shape", "x", "shape");
    make_node(&m, "Size", "shape", "rank");
    make_node(&m, "Equal", "rank,three", "holds");
    for (int i = 0; i < 2; i++) {
        gale__pb_node *choice = make_node(&m, "If", i ? "flag" : "holds", names[i]);
        gale__pb_graph *outer = make_enter(&m, choice, "then_branch");
        make_attr_ints(&m, make_node(&m, "Transpose", "x", "a"), "perm", (const int64_t[]){2, 0, 1}, 3);
        make_output(&m, "a", 1, NULL);
        make_leave(&m, outer);
        outer = make_enter(&m, choice, "else_branch");
        make_node(&m, "Relu", "x", "b");
        make_output(&m, "b", 1, NULL);
        make_leave(&m, outer);
        make_output(&m, names[i], 1, NULL);
    }
    CHECK_SHAPES(&m, names, texts);
    make_end(&m);
}

/* Whichever allocation fails, the error says so and nothing leaks. */
TEST(without_memory)
{
    gale__str bytes = {0};
    gale_status status = GALE_NO_MEMORY;
    maker m;
    make_begin(&m, 11);
    make_input(&m, "x", 1, "n,c,w");
    make_node(&m, "Softmax", "x", "y");
    make_attr_i(&m, make_node(&m, "Concat", "x,y", "z"), "axis", 1);
    make_output(&m, "z", 1, NULL);
    if (!CHECK_OK(make_encode(&m, &bytes))) return;
    for (uint64_t n = 1; n < 5000 && status == GALE_NO_MEMORY; n++) {
        gale__onnx *file = NULL;
        gale__onnx_net *net = NULL;
        gale__onnx_inferred shapes[32];
        int64_t live = gale__alloc_live();
        gale__alloc_fail_at(n);
        status = gale__onnx_parse(bytes.text, bytes.length, false, NULL, GALE__PB_KIND_MODEL, &file);
        if (status == GALE_OK) status = gale__onnx_net_import(file, &net);
        if (status == GALE_OK) status = CHECK(net->n_values <= 32) ? gale__onnx_net_infer(net, shapes) : GALE_LIMIT;
        gale__alloc_fail_at(0);
        gale__onnx_net_destroy(&net);
        gale__onnx_close(&file);
        CHECK_EQ(gale__alloc_live(), live);
    }
    CHECK_OK(status);
    gale__str_finish(&bytes);
    make_end(&m);
}

TESTS(ROW(without_memory), ROW(pictures), ROW(tokens), ROW(branches))
