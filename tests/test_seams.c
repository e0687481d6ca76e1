/* Seams.  A network that sees the whole tile at once gives neighbours that differ all over, however far they overlap;
 * what keeps their border from being seen is the ramp.
 *
 * With weights w and 1 - w of two results that differ by D, the blended picture's gradient is that of the results,
 * averaged, and D times the ramp's steepness.  The ramp is t^2 (3 - 2 t) over the middle half of the overlap, 1.5 /
 * (overlap / 2 x scale) a pixel at its steepest.  Without an overlap it is D at once. */
#include "base/file.h"
#include "jobs/upscale/upscale.h"
#include "network_make.h"
#include "picture_make.h"

static void number(maker *m, const char *name, float v) { make_initializer(m, make_floats(m, name, "", &v, 1)); }

/* Each tile is made lighter by what its mean is. */
static void gate(maker *m)
{
    picture_net(m, "n,3,h,w", "n,3,h,w");
    number(m, "k", 0.3f);
    number(m, "one", 0.85f);
    make_node(m, "GlobalAveragePool", "x", "mean");
    make_node(m, "Mul", "mean,k", "more");
    make_node(m, "Add", "more,one", "gain");
    make_node(m, "Mul", "x,gain", "y");
}

/* Each pixel looks at all of the tile, most at those of its own colour, and takes an eighth of what it sees. */
static void attention(maker *m)
{
    static const int64_t flat[] = {0, 3, -1}, turn[] = {0, 2, 1};
    picture_net(m, "n,3,h,w", "n,3,h,w");
    number(m, "scale", 4);
    number(m, "part", 0.125f);
    make_initializer(m, make_ints(m, "flat", "3", flat, 3));
    make_node(m, "Shape", "x", "shape");
    make_node(m, "Reshape", "x,flat", "k");
    make_attr_ints(m, make_node(m, "Transpose", "k", "q"), "perm", turn, 3);
    make_node(m, "MatMul", "q,k", "products");
    make_node(m, "Mul", "products,scale", "scores");
    make_attr_i(m, make_node(m, "Softmax", "scores", "weights"), "axis", -1);
    make_node(m, "MatMul", "weights,q", "seen");
    make_attr_ints(m, make_node(m, "Transpose", "seen", "turned"), "perm", turn, 3);
    make_node(m, "Reshape", "turned,shape", "picture");
    make_node(m, "Sub", "picture,x", "other");
    make_node(m, "Mul", "other,part", "little");
    make_node(m, "Add", "x,little", "y");
}

/* Four layers of 3 x 3 that see four pixels to each side, and twice the size. */
static void layers(maker *m)
{
    static const int64_t pads[] = {1, 1, 1, 1};
    uint32_t seed = 7;
    float w[4][8 * 8 * 9];
    picture_net(m, "n,3,h,w", NULL);
    for (int i = 0; i < 4; i++) {
        int in = i ? 8 : 3, out = i < 3 ? 8 : 3;
        char name[8], shape[16], inputs[24], to[8], act[8];
        for (int k = 0; k < in * out * 9; k++)
            w[i][k] = ((float)(picture_random(&seed) % 2001) / 1000 - 1) / (float)(in * 3);
        snprintf(name, sizeof name, "w%d", i), snprintf(shape, sizeof shape, "%d,%d,3,3", out, in),
            snprintf(to, sizeof to, "c%d", i), snprintf(act, sizeof act, "r%d", i);
        make_initializer(m, make_floats(m, name, shape, w[i], (size_t)(in * out * 9)));
        if (i) snprintf(inputs, sizeof inputs, "r%d,%s", i - 1, name);
        else snprintf(inputs, sizeof inputs, "x,%s", name);
        make_attr_ints(m, make_node(m, "Conv", inputs, to), "pads", pads, 4);
        make_node(m, i < 3 ? "Relu" : "Identity", to, act);
    }
    make_node(m, "Add", "x,r3", "z");
    twice(m, "z", "y");
}

/* Smooth, and lighter from one corner to the other, so that tiles have different means. */
static gale_picture *smooth(int64_t w, int64_t h)
{
    gale_picture *p = NULL;
    CHECK_OK(gale_picture_create(w, h, 3, GALE_F32, &p));
    for (int64_t i = 0; p && i < w * h * 3; i++) {
        double x = (double)(i / 3 % w) / (double)w, y = (double)(i / 3 / w) / (double)h;
        ((float *)p->data)[i] = (float)(0.15 + 0.4 * x + 0.25 * y + 0.08 * sin(9 * x + (double)(i % 3)) * cos(7 * y));
    }
    return p;
}

/* The mean gradient across the line before column (or row) `at`. */
static double across(const gale_picture *p, bool rows, int64_t at)
{
    const float *d = p->data;
    int64_t n = rows ? p->width : p->height;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++) {
            int64_t here = rows ? at * p->width + i : i * p->width + at, before = rows ? here - p->width : here - 1;
            sum += fabs((double)d[here * 3 + c] - d[before * 3 + c]);
        }
    return sum / (double)(3 * n);
}

/* Gradients of the tiled picture over those of the one without tiles: on the ramps (or cuts), and elsewhere. */
typedef struct gradients {
    double seams, elsewhere, steepest;
} gradients;

static gradients compare(const gale_picture *whole, const gale_picture *tiled, const gale__tiling *t, int64_t scale)
{
    double sums[2][2] = {{0}}, steepest = 0;
    for (int rows = 0; rows < 2; rows++) {
        const gale__tile_axis *a = rows ? &t->y : &t->x;
        for (int64_t at = 1; at < a->size * scale; at++) {
            bool seam = false;
            for (int64_t i = 0; i + 1 < a->count; i++) {
                double middle =
                           0.5 * (double)((gale__tile_axis_at(a, i + 1) + gale__tile_axis_at(a, i) + a->tile) * scale),
                       reach = 0.5 * (double)((a->overlap - 2 * a->margin) * scale);
                seam |= fabs((double)at - middle) <= reach;
            }
            double g = across(tiled, rows, at), w = across(whole, rows, at);
            sums[seam][0] += g;
            sums[seam][1] += w;
            if (seam && g - w > steepest) steepest = g - w;
        }
    }
    return (gradients){sums[1][0] / sums[1][1], sums[0][0] / sums[0][1], steepest};
}

static gradients measure(
    gale__network *n, const gale_picture *in, const gale_picture *whole, int64_t tile, int64_t overlap)
{
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_upscale_report r;
    gale_picture *tiled = NULL;
    gale__tiling t;
    gradients g = {NAN, NAN, NAN};
    o.tile = tile;
    o.overlap = overlap ? overlap : GALE_OVERLAP_NONE;
    CHECK_OK(gale__tiling_make(in->width, in->height, &(gale__tile_wish){tile, tile, overlap, -1, 1}, &t));
    if (CHECK_OK(gale__upscale(n, the_device(), in, NULL, &o, &r, &tiled)) &&
        CHECK_EQ(r.tiles, gale__tiling_count(&t)) && CHECK(r.tiles > 1))
        g = compare(whole, tiled, &t, n->scale);
    gale_picture_destroy(&tiled);
    return g;
}

static void no_seam(const char *name, void (*make)(maker *), int64_t w, int64_t h, int64_t tile)
{
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_picture *in = smooth(w, h), *whole = NULL;
    make(&m);
    if (!CHECK_OK(probe(&m, "name: seen", &man, &n))) return;
    o.tile = GALE_TILE_WHOLE;
    if (in && CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &whole))) {
        gradients cut = measure(&n, in, whole, tile, 0);
        double d =
            cut.steepest; /* neighbours differ by so much; where tiles lie otherwise, by a quarter more or less */
        CHECK(cut.seams > 3 * cut.elsewhere && d > 2.0 / 255); /* there is something to hide */
        for (int64_t overlap = 8; overlap <= tile / 2; overlap *= 2) {
            gradients g = measure(&n, in, whole, tile, overlap);
            double ramp = (double)(overlap / 2), bound = 1.25 * 1.5 / ramp * d,
                   mean = 1.25 * (cut.seams - cut.elsewhere) / ramp;
            printf("%s, tiles of %d that overlap by %d: gradient x %.3f on seams, x %.3f elsewhere, by at most %.5f "
                   "more (bound %.5f); cut: x %.2f, %.5f more\n",
                name, (int)tile, (int)overlap, g.seams, g.elsewhere, g.steepest, bound, cut.seams, d);
            CHECK(g.steepest <= bound);
            CHECK(g.seams - g.elsewhere <= mean);
            if (overlap >= 16)
                CHECK(g.steepest < 1.0 / 255); /* half the usual overlap: less than a step of 8 bits a pixel */
        }
    }
    gale_picture_destroy(&in);
    gale_picture_destroy(&whole);
    finish(&man, &n);
}

TEST(pooled) { no_seam("pooled", gate, 150, 110, 64); }
TEST(attending) { no_seam("attending", attention, 88, 60, 32); }

/* A network whose field the margin covers leaves no trace at all. */
TEST(covered)
{
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_picture *in = picture_make(101, 77, 3, GALE_F32), *whole = NULL, *tiled = NULL;
    gale_picture_difference d;
    layers(&m);
    if (!CHECK_OK(probe(&m, "name: layers", &man, &n))) return;
    o.tile = GALE_TILE_WHOLE;
    CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &whole));
    for (int overlap = 4; overlap <= 16; overlap += 12) { /* a quarter of 16 is what it sees */
        o.tile = 40;
        o.overlap = overlap ? overlap : GALE_OVERLAP_NONE;
        o.batch = 3;
        CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &tiled));
        if (whole && tiled && CHECK_OK(gale_picture_compare(whole, tiled, &d, 1, NULL)))
            CHECK(overlap == 16 ? d.largest < 2e-6 : d.largest > 1e-4);
        gale_picture_destroy(&tiled);
    }
    gale_picture_destroy(&in);
    gale_picture_destroy(&whole);
    finish(&man, &n);
}

/* A real one with attention in shifted windows, on a photograph: on seams its gradients are those of the picture
 * without tiles. */
TEST(real_one)
{
    enum { W = 192, H = 128 };
    char path[1024], photo[1024];
    gale__manifest man;
    gale__network n;
    gale_model *model = NULL;
    gale_picture *in = NULL, *part = NULL, *whole = NULL;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    snprintf(path, sizeof path, "%s/models/scunet.onnx", test_data());
    snprintf(photo, sizeof photo, "%s/photos/casa-mila.jpg", test_data());
    if (!gale__file_exists(path) || !gale__file_exists(photo)) SKIP("%s is not here", path);
    if (!gale__format_of_name("jpeg")->read) SKIP("built without JPEG");
    if (test_light()) SKIP("a real network takes too long here");
    CHECK_OK(gale_picture_read(photo, NULL, &in));
    CHECK_OK(gale_picture_create(W, H, 3, GALE_F32, &part));
    for (int64_t i = 0; in && part && i < W * H * 3; i++)
        ((float *)part->data)[i] =
            ((uint8_t *)in->data)[((400 + i / 3 / W) * in->width + 600 + i / 3 % W) * 3 + i % 3] / 255.0f;
    CHECK_OK(gale__manifest_read(path, &man));
    if (part && CHECK_OK(gale_model_open(path, the_device(), NULL, &model)) &&
        CHECK_OK(gale__network_probe(model, &man, 0, &n))) {
        o.tile = GALE_TILE_WHOLE;
        if (CHECK_OK(gale__upscale(&n, the_device(), part, NULL, &o, NULL, &whole))) {
            gradients g = measure(&n, part, whole, 128, 64), small = measure(&n, part, whole, 64, 16),
                      cut = measure(&n, part, whole, 64, 0);
            printf("scunet, gradient on seams and elsewhere: tiles of 128 that overlap by 64 x %.4f and %.4f; of 64 by "
                   "16 x %.4f and %.4f; cut x %.4f and %.4f; at most %.5f more\n",
                g.seams, g.elsewhere, small.seams, small.elsewhere, cut.seams, cut.elsewhere, g.steepest);
            /* texture itself varies by some per cent with the tile; a cut adds a quarter to the gradient */
            CHECK(g.seams < 1.05 * g.elsewhere && g.steepest < 1.0 / 255);
            CHECK(small.seams - small.elsewhere < (cut.seams - cut.elsewhere) / 3);
        }
    }
    gale_model_close(&model);
    gale__manifest_finish(&man);
    gale_picture_destroy(&in);
    gale_picture_destroy(&part);
    gale_picture_destroy(&whole);
}

TEST(last)
{
    gale_device_close(&network_device);
    CHECK(!network_device);
}

TESTS(ROW(pooled), ROW(attending), ROW(covered), ROW(real_one), ROW(last))
