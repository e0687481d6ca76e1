/* Signals and geometry beyond their cases: transforms of many lengths against the plain sum, gradients by finite
 * differences, bad input, and lowering when memory runs out. */
#include "refused.h"
#include "grad_check.h"
#include "ops/cases/cases.h"
#include "ops/ops.h"

/* --- Transforms. --- */

/* The largest difference between a transform of random numbers, [1, n, parts], and the sum that defines it; relative to
 * the largest result. */
static double transform_error(int n, int parts, bool inverse)
{
    char attrs[32], inputs[48];
    gale__case c = {"DFT", attrs, "f64", inputs, "e", ""};
    gale__case_run run;
    gale__case_value got[GALE__CASE_VALUES];
    double worst = 0, most = 1;
    snprintf(attrs, sizeof attrs, "inverse=%d", inverse);
    snprintf(inputs, sizeof inputs, "T[1,%d,%d] ~q%d", n, parts, n);
    if (!CHECK_OK(gale__case_open(&c, 0, &run))) return INFINITY;
    bool ok = CHECK_OK(gale__case_reference(&run, got)) && CHECK_EQ(got[0].elements, 2 * n);
    for (int k = 0; ok && k < n; k++) {
        const double *x = run.in[0].data, *y = (const double *)got[0].data + 2 * k;
        double re = 0, im = 0;
        for (int i = 0; i < n; i++) {
            double angle = (inverse ? 2 : -2) * 3.14159265358979323846 * (double)((int64_t)i * k % n) / n,
                   b = parts == 2 ? x[i * parts + 1] : 0;
            re += x[i * parts] * cos(angle) - b * sin(angle), im += x[i * parts] * sin(angle) + b * cos(angle);
        }
        double scale = inverse ? 1.0 / n : 1;
        worst = fmax(worst, fmax(fabs(y[0] - re * scale), fabs(y[1] - im * scale)));
        most = fmax(most, fmax(fabs(re * scale), fabs(im * scale)));
    }
    gale__case_close(&run);
    return ok ? worst / most : INFINITY;
}

/* Real signals go through products and convolutions, complex ones of smooth lengths through butterflies. */
TEST(transforms)
{
    static const int large[] = {64, 97, 128, 130, 131, 169, 251, 262, 343, 360, 400, 512, 1000};
    for (int n = 1; n <= 40; n++) CHECK(transform_error(n, 1, n & 1) < 1e-13 && transform_error(n, 2, n & 1) < 1e-13);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        if (!CHECK(transform_error(large[i], 1, i & 1) < 1e-12 && transform_error(large[i], 2, !(i & 1)) < 1e-12))
            printf("  of length %d\n", large[i]);
}

/* --- Gradients. --- */

static gale__node lower_op(gale__prim_graph *g, const char *name, const char *attrs, const gale__node *in, int n)
{
    gale__case c = {name, attrs, "", "", "e", ""};
    gale__case_run run;
    gale__node out = GALE__NIL;
    if (gale__case_open(&c, 0, &run) != GALE_OK) return GALE__NIL;
    gale__op_node node = {.op = run.op, .n_in = n, .n_out = 1, .attrs = run.attrs, .n_attrs = run.n_attrs};
    gale__lower L = {.g = g, .node = &node, .in = in, .out = &out, .n_in = n, .n_out = 1};
    run.op->lower(&L);
    gale__case_close(&run);
    return out;
}

static gale__node ints(gale__prim_graph *g, int64_t n, const int64_t *v)
{
    return gale__prim_const(g, GALE_I64, 1, &n, v);
}

static gale__node make_dft(gale__prim_graph *g, const gale__node *x) { return lower_op(g, "DFT", "onesided=1", x, 1); }
static gale__node make_dft_complex(gale__prim_graph *g, const gale__node *x)
{
    return lower_op(g, "DFT", "inverse=1", x, 1);
}
static gale__node make_grid(gale__prim_graph *g, const gale__node *x)
{
    return lower_op(g, "GridSample", "mode=linear", x, 2);
}
static gale__node make_grid_cubic(gale__prim_graph *g, const gale__node *x)
{
    return lower_op(g, "GridSample", "mode=cubic padding_mode=reflection align_corners=1", x, 2);
}
static gale__node make_det(gale__prim_graph *g, const gale__node *x) { return lower_op(g, "Det", "", x, 1); }
static gale__node make_deform(gale__prim_graph *g, const gale__node *x)
{
    return lower_op(g, "DeformConv", "pads=1,1,0,0", (gale__node[]){x[0], x[1], x[2], GALE__NIL, x[3]}, 5);
}
static gale__node make_col2im(gale__prim_graph *g, const gale__node *x)
{
    return lower_op(g, "Col2Im", "strides=1,2",
        (gale__node[]){x[0], ints(g, 2, (int64_t[]){3, 4}), ints(g, 2, (int64_t[]){2, 2})}, 3);
}
static gale__node make_roi(gale__prim_graph *g, const gale__node *x)
{
    static const double boxes[8] = {0.3, 0.2, 3.1, 2.6, 1.2, 0.1, 4.4, 3.3};
    gale__node rois = gale__prim_const(g, GALE_F64, 2, (int64_t[]){2, 4}, boxes);
    return lower_op(
        g, "RoiAlign", "output_height=2 output_width=2", (gale__node[]){x[0], rois, ints(g, 2, (int64_t[]){0, 0})}, 3);
}

TEST(gradients)
{
    static const grad_case cases[] = {
        {"DFT", make_dft, -1, 1, {S(1, 5, 1)}, 1},
        {"DFT, complex", make_dft_complex, -1, 1, {S(2, 6, 2)}, 1},
        {"GridSample", make_grid, -0.8, 0.8, {S(1, 2, 3, 4), S(1, 2, 2, 2)}, 1},
        {"GridSample, cubic", make_grid_cubic, -0.8, 0.8, {S(1, 1, 3, 4), S(1, 1, 2, 2)}, 1},
        {"Det", make_det, -1, 1, {S(2, 3, 3)}, 1},
        {"Det, in a loop", make_det, -1, 1, {S(1, 6, 6)}, 1},
        {"DeformConv", make_deform, -0.8, 0.8, {S(1, 2, 3, 3), S(2, 2, 2, 2), S(1, 8, 3, 3), S(1, 4, 3, 3)}, 1},
        {"Col2Im", make_col2im, -1, 1, {S(1, 4, 4)}, 1},
        {"RoiAlign", make_roi, -1, 1, {S(1, 2, 4, 5)}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) grad_check(&cases[i]);
}

/* --- What is refused, and no memory. --- */

TEST(bad_input_is_refused)
{
    refused("DFT", "", "T[2,3,1] ~1; -; !i64[] 2", "last axis");
    refused("DFT", "", "T[2,3,3] ~1", "last axis");
    refused("DFT", "", "T[2,3,1] ~1; !i64[] 0", "a length of 0");
    refused("DFT", "", "T[2,3,1] ~1; !i64[] 1000000000000", "a length of");
    refused("DFT", "inverse=1 onesided=1", "T[1,1,2] ~1", "a length of 0");
    refused("STFT", "", "T[1,4,1] ~1; !i64[] 0; -; !i64[] 2", "a length of 0");
    refused("STFT", "", "T[1,4,1] ~1; !i64[] 1; -; !i64[] 9", "longer than the signal");
    refused("HannWindow", "", "!i64[] -1", "a length of -1");
    refused(
        "MelWeightMatrix", "", "!i64[] 60000000; !i64[] 60000000; !i64[] 8000; !f32[] 0; !f32[] 4000", "a matrix of");
    refused("GridSample", "mode=round", "T[1,1,2,2] ~1; T[1,1,1,2] ~1", "round");
    refused("GridSample", "padding_mode=wrap", "T[1,1,2,2] ~1; T[1,1,1,2] ~1", "wrap");
    refused("GridSample", "", "T[1,1,2,2] ~1; T[2,1,1,2] ~1", "do not match in batch or rank");
    refused("GridSample", "", "T[1,1,0,2] ; T[1,1,1,2] ~1", "empty axis");
    refused("AffineGrid", "", "T[1,2,3] ~1; !i64[5] 1 1 2 2 2", "matrices");
    refused("RoiAlign", "mode=min", "T[1,1,2,2] ~1; T[1,4] 0 0 1 1; i64[1] 0", "min");
    refused("RoiAlign", "", "T[1,1,2,2] ~1; T[1,5] 0 0 1 1 1; i64[1] 0", "regions");
    refused("MaxRoiPool", "pooled_shape=2,", "T[1,1,2,2] ~1; T[1,5] 0 0 0 1 1", "pooled_shape");
    refused("MaxUnpool", "kernel_shape=2,2", "T[1,1,2,2] ~1; i64[1,1,2,2] 0 1 2 3; !i64[2] 3 3", "output_shape");
    refused("DeformConv", "offset_group=2", "T[1,1,3,3] ~1; T[1,1,2,2] ~2; T[1,8,2,2] ~3", "offset_group 2");
    refused("DeformConv", "", "T[1,1,3,3] ~1; T[1,1,2,2] ~2; T[1,7,2,2] ~3", "elements");
    refused("Col2Im", "", "T[1,4,5] ~1; !i64[2] 3 4; !i64[2] 2 2", "columns");
    refused("Col2Im", "strides=0,1", "T[1,4,6] ~1; !i64[2] 3 4; !i64[2] 2 2", "stride 0");
    refused("Col2Im", "", "T[1,4,6] ~1; !i64[2] 1 4; !i64[2] 2 2", "a block exceeds");
    refused("Det", "", "T[2,3] ~1", "square");
    refused("CenterCropPad", "", "T[2,3] ~1; !i64[1] 2", "extents");
    refused("CenterCropPad", "", "T[2,3] ~1; !i64[2] 2 -1", "extent -1");
    refused("ReverseSequence", "time_axis=2", "T[2,3] ~1; i64[3] 1 1 1", "time_axis 2");
    refused("ReverseSequence", "", "T[2,3] ~1; i64[2] 1 1", "lengths");
    refused("Cast", "to=f8e8m0 round_mode=sideways", "T[2] 1 2", "sideways");
}

TEST(no_memory)
{
    static const gale__case cases[] = {
        {"DFT", "", "f32", "T[1,6,1] ~1", "e", ""},
        {"DFT", "", "f32", "T[1,262,1] ~1", "e", ""},
        {"DFT", "", "f32", "T[1,6,2] ~1", "e", ""},
        {"GridSample", "", "f32", "T[1,1,2,2] ~1; T[1,1,1,2] ~1", "e", ""},
        {"RoiAlign", "", "f32", "T[1,1,2,2] ~1; T[1,4] 0 0 1 1; i64[1] 0", "e", ""},
        {"Det", "", "f32", "T[1,6,6] ~1", "e", ""},
        {"Col2Im", "", "f32", "T[1,4,6] ~1; !i64[2] 3 4; !i64[2] 2 2", "e", ""},
        {"MelWeightMatrix", "", "f32", "!i64[] 4; !i64[] 40; !i64[] 8000; !f32[] 125; !f32[] 3800", "e", ""},
        {"Dropout", "seed=1", "f32", "T[20] ~1; !f32[] 0.5; !bool[] 1", "e", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t n = 1; n < 5000; n++) {
            gale__case_run run;
            gale__node out[GALE__CASE_VALUES];
            gale__prim_graph g;
            if (!CHECK_OK(gale__case_open(&cases[i], 0, &run))) return;
            gale__prim_init(&g);
            gale__alloc_fail_at(n);
            gale_status status = gale__case_lower(&run, &g, out);
            bool over = gale__alloc_count() < n;
            gale__alloc_fail_at(0);
            if (!over && !CHECK_EQ(status, GALE_NO_MEMORY)) printf("  %s, allocation %d\n", run.name, (int)n);
            gale__prim_finish(&g);
            gale__case_close(&run);
            if (!CHECK_EQ(gale__alloc_live(), 0) || over) break;
        }
}

TESTS(ROW(transforms), ROW(gradients), ROW(bad_input_is_refused), ROW(no_memory))
