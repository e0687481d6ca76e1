/* What fast paths gain on a device: each piece of network is timed with the table and without it.
 *
 *     build/bench/bench_paths cpu [WORD] */
#include "../tests/op_graph.h"
#include "graph/run/time.h"

static gale_device *device;

static void attention(og *t)
{
    gale_value q = OG_INPUT(t, 4, 12, 128, 32), k = OG_INPUT(t, 4, 12, 32, 128), v = OG_INPUT(t, 4, 12, 128, 32),
               m = OG_INPUT(t, 4, 1, 1, 128);
    gale_value s = og_op2(t, "Add", og_op2(t, "Div", og_op2(t, "MatMul", q, k), og_number(t, 5.6568542f)), m);
    og_output(t, og_op2(t, "MatMul", og_softmax(t, s, -1), v));
}

static void attention_windows(og *t)
{
    gale_value q = OG_INPUT(t, 256, 4, 64, 32), k = OG_INPUT(t, 256, 4, 32, 64), v = OG_INPUT(t, 256, 4, 64, 32),
               m = OG_INPUT(t, 4, 64, 64);
    gale_value s = og_op2(t, "Add", og_op2(t, "Mul", og_op2(t, "MatMul", q, k), og_number(t, 0.17677669f)), m);
    og_output(t, og_op2(t, "MatMul", og_softmax(t, s, -1), v));
}

static void depthwise(og *t)
{
    gale_value x = OG_INPUT(t, 1, 64, 112, 112), w = OG_INPUT(t, 64, 1, 3, 3), b = OG_INPUT(t, 64);
    og_output(t, og_op1(t, "Relu", og_conv(t, x, w, b, 64, 1, 1)));
}

static void depthwise_half(og *t)
{
    gale_value x = OG_INPUT(t, 1, 64, 112, 112), w = OG_INPUT(t, 64, 1, 3, 3), b = OG_INPUT(t, 64);
    og_output(t, og_op1(t, "Relu", og_conv(t, x, w, b, 64, 2, 1)));
}

static void pool(og *t)
{
    gale_value x = OG_INPUT(t, 1, 64, 112, 112);
    const int64_t kernel[2] = {3, 3}, strides[2] = {2, 2}, pads[4] = {1, 1, 1, 1};
    og_output(t, og_op(t, "MaxPool", &x, 1,
                     (gale_attr[]){GALE_INTS("kernel_shape", kernel, 2), GALE_INTS("strides", strides, 2),
                         GALE_INTS("pads", pads, 4)},
                     3));
}

static void resize(og *t)
{
    gale_value x = OG_INPUT(t, 1, 32, 80, 80), sizes = OG_INTS(t, 1, 32, 160, 160);
    og_output(t, og_op(t, "Resize", (gale_value[]){x, GALE_NONE, GALE_NONE, sizes}, 4,
                     (gale_attr[]){GALE_STRING_ATTR("mode", "linear")}, 1));
}

static void convolution(og *t)
{
    gale_value x = OG_INPUT(t, 1, 64, 80, 80), w = OG_INPUT(t, 64, 64, 3, 3), b = OG_INPUT(t, 64);
    og_output(t, og_op1(t, "Relu", og_conv(t, x, w, b, 1, 1, 1)));
}

static void convolution_16(og *t)
{
    gale_value x = OG_INPUT(t, 1, 16, 160, 160), w = OG_INPUT(t, 16, 16, 3, 3), b = OG_INPUT(t, 16);
    og_output(t, og_op1(t, "Relu", og_conv(t, x, w, b, 1, 2, 1)));
}

static void transposed(og *t)
{
    gale_value x = OG_INPUT(t, 1, 64, 64, 64), w = OG_INPUT(t, 64, 32, 2, 2);
    const int64_t strides[2] = {2, 2};
    og_output(
        t, og_op(t, "ConvTranspose", (gale_value[]){x, w}, 2, (gale_attr[]){GALE_INTS("strides", strides, 2)}, 1));
}

static void vector_matrix(og *t)
{
    gale_value x = OG_INPUT(t, 1, 1024), w = OG_INPUT(t, 1024, 4096), b = OG_INPUT(t, 4096);
    og_output(t, og_op2(t, "Add", og_op2(t, "MatMul", x, w), b));
}

static void vector_matrix_turned(og *t)
{
    gale_value x = OG_INPUT(t, 1, 1024), w = OG_INPUT(t, 4096, 1024), b = OG_INPUT(t, 4096);
    og_output(t, og_op(t, "Gemm", (gale_value[]){x, w, b}, 3, (gale_attr[]){GALE_INT("transB", 1)}, 1));
}

static void softmax_64(og *t) { og_output(t, og_softmax(t, OG_INPUT(t, 16384, 64), -1)); }
static void softmax_1024(og *t) { og_output(t, og_softmax(t, OG_INPUT(t, 1024, 1024), -1)); }

static void layer_norm_64(og *t)
{
    gale_value x = OG_INPUT(t, 16384, 64), s = OG_INPUT(t, 64), b = OG_INPUT(t, 64);
    og_output(t, og_op(t, "LayerNormalization", (gale_value[]){x, s, b}, 3, NULL, 0));
}

static void layer_norm_384(og *t)
{
    gale_value x = OG_INPUT(t, 2048, 384), s = OG_INPUT(t, 384), b = OG_INPUT(t, 384);
    og_output(t, og_op(t, "LayerNormalization", (gale_value[]){x, s, b}, 3, NULL, 0));
}

static void softmax_16384(og *t) { og_output(t, og_softmax(t, OG_INPUT(t, 64, 16384), -1)); }
static void softmax_4096(og *t) { og_output(t, og_softmax(t, OG_INPUT(t, 256, 4096), -1)); }
static void layer_norm_4096(og *t)
{
    gale_value x = OG_INPUT(t, 256, 4096), s = OG_INPUT(t, 4096), b = OG_INPUT(t, 4096);
    og_output(t, og_op(t, "LayerNormalization", (gale_value[]){x, s, b}, 3, NULL, 0));
}

static void packed_1(og *t) { og_output(t, og_packed(t, OG_INPUT(t, 1, 2048), 2048, 2048, 4, true)); }
static void packed_12(og *t) { og_output(t, og_packed(t, OG_INPUT(t, 12, 2048), 2048, 2048, 4, true)); }

static void suppression(og *t)
{
    gale_value out[2] = {GALE_NONE, GALE_NONE};
    og_suppress(t, 2, 20, 8400, 100, out);
    og_output(t, out[0]);
    og_output(t, out[1]);
}

static void product(og *t) { og_output(t, og_op2(t, "MatMul", OG_INPUT(t, 2048, 2048), OG_INPUT(t, 2048, 2048))); }

static gale_value half(og *t, gale_value x)
{
    return og_op(t, "Cast", &x, 1, (gale_attr[]){GALE_INT("to", 10)}, 1); /* ONNX's number of FLOAT16 */
}

static void product_f16(og *t)
{
    gale_value a = half(t, OG_INPUT(t, 2048, 2048)), b = half(t, OG_INPUT(t, 2048, 2048));
    og_output(t, og_op2(t, "MatMul", a, b));
}

static void suppression_one(og *t)
{
    gale_value out[2] = {GALE_NONE, GALE_NONE};
    og_suppress(t, 1, 1, 300, 300, out);
    og_output(t, out[0]);
    og_output(t, out[1]);
}

static void levels(og *t) { og_output(t, og_op1(t, "PictureLevels", half(t, OG_INPUT(t, 4, 2160, 4096)))); }
static void counts(og *t) { og_output(t, og_op1(t, "CodeCounts", half(t, OG_INPUT(t, 4, 2160 * 4096)))); }

static void recurrent(og *t)
{
    gale_value in[3] = {OG_INPUT(t, 64, 16, 512), OG_INPUT(t, 1, 2048, 512), OG_INPUT(t, 1, 2048, 512)};
    og_output(t, og_op(t, "LSTM", in, 3, (gale_attr[]){GALE_INT("hidden_size", 512)}, 1));
}

static double time_it(void (*build)(og *), bool off, int *kernels)
{
    og t;
    gale__timing time = {0};
    gale_program *p = NULL;
    og_begin(&t);
    build(&t);
    gale_program_options options = {.no_paths = off};
    if (CHECK_OK(t.status) && CHECK_OK(gale_program_create(t.graph, device, &options, &p)) &&
        CHECK_OK(og_tensors(&t, device)))
        CHECK_OK(gale__program_time(p, t.inputs, 15, UINT64_MAX, &time));
    gale_program_destroy(&p);
    og_end(&t);
    *kernels = time.kernels;
    return time.least_us;
}

/* How long it takes to look through a graph of thousands of operators. */
static void time_recognisers(void)
{
    og t;
    gale_program *p = NULL;
    og_begin(&t);
    gale_value x = OG_INPUT(&t, 4, 64), half = og_number(&t, 0.5f), one = og_number(&t, 1),
               root = og_number(&t, 1.41421356f), tiny = og_number(&t, 1e-5f), axis = OG_INTS(&t, -1);
    for (int i = 0; i < 1000; i++) {
        gale_value e = og_op2(&t, "Add", og_op1(&t, "Erf", og_op2(&t, "Div", x, root)), one),
                   d = og_op2(&t, "Mul", og_op2(&t, "Mul", x, e), half);
        d = og_op2(&t, "Sub", d, og_op2(&t, "ReduceMean", d, axis));
        x = og_op2(&t, "Div", d,
            og_op1(&t, "Sqrt", og_op2(&t, "Add", og_op2(&t, "ReduceMean", og_op2(&t, "Mul", d, d), axis), tiny)));
    }
    og_output(&t, x);
    uint64_t start = gale__time_ns();
    CHECK_OK(gale_program_create(t.graph, device, NULL, &p));
    if (p)
        printf("%d operators became %d in %.2f ms\n", t.graph->n_nodes, p->graph->n_nodes,
            (double)(gale__time_ns() - start) / 1e6);
    gale_program_destroy(&p);
    og_end(&t);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*build)(og *);
    } rows[] = {
        {"attention 4x12x128x32", attention},
        {"attention, windows 256x4x64x32", attention_windows},
        {"depthwise 3x3, 64x112x112", depthwise},
        {"depthwise 3x3 by 2", depthwise_half},
        {"pool 3x3 by 2, 64x112x112", pool},
        {"resize 32x80x80 by 2", resize},
        {"convolution 3x3, 64x80x80", convolution},
        {"convolution 3x3 by 2, 16x160x160", convolution_16},
        {"transposed 2x2, 64x64x64", transposed},
        {"vector by matrix 1024x4096", vector_matrix},
        {"vector by turned matrix", vector_matrix_turned},
        {"softmax, rows of 64", softmax_64},
        {"softmax, rows of 1024", softmax_1024},
        {"layer norm, rows of 64", layer_norm_64},
        {"layer norm, rows of 384", layer_norm_384},
        {"softmax, rows of 4096", softmax_4096},
        {"softmax, rows of 16384", softmax_16384},
        {"layer norm, rows of 4096", layer_norm_4096},
        {"vector by 4 bits, 2048x2048", packed_1},
        {"12 rows by 4 bits, 2048x2048", packed_12},
        {"suppression 2x20x8400, 100 each", suppression},
        {"levels of 4x2160x4096 halves", levels},
        {"counts of 4x2160x4096 halves", counts},
        {"product 2048x2048x2048 (GALE_BLAS=1)", product},
        {"product in f16 (GALE_BLAS=1)", product_f16},
        {"suppression 1x1x300, 300 at most", suppression_one},
        {"LSTM of 512 units, 64 steps of 16", recurrent},
    };
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.chain = argc > 1 ? argv[1] : "cpu";
    options.strict = true;
    test_at = "bench";
    if (!CHECK_OK(gale_device_open(&options, &device))) return 1;
    printf("%-36s %8s %10s %8s %10s %6s\n", "", "kernels", "us", "without", "us", "gain");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (argc > 2 && !strstr(rows[i].name, argv[2])) continue;
        int with, without;
        double a = time_it(rows[i].build, false, &with), b = time_it(rows[i].build, true, &without);
        printf("%-36s %8d %10.1f %8d %10.1f %6.2f\n", rows[i].name, with, a, without, b, b / a);
        fflush(stdout);
    }
    if (argc < 3) time_recognisers();
    gale_device_close(&device);
    return test_bad != 0;
}
