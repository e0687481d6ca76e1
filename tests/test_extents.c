/* Pictures and networks of any extents: results of any size, networks with sizes of their own, networks that give less
 * than they take. */
#include "jobs/upscale/upscale.h"
#include "network_make.h"
#include "picture_make.h"

TEST(any_size)
{
    static const int64_t rows[][5] = {{0, 0, 40, 30, 1}, {80, 0, 80, 60, 2}, {0, 45, 60, 45, 2}, {50, 33, 50, 33, 2},
        {20, 0, 20, 15, 1}, {90, 70, 90, 70, 3}};
    maker m;
    gale__manifest man;
    gale__network n;
    gale_picture *in = picture_make(20, 15, 3, GALE_U8), *out = NULL;
    repeating(&m);
    if (!CHECK_OK(probe(&m, "name: twice", &man, &n))) return;
    for (int i = 0; i < 6; i++) {
        gale_upscale_options o = GALE_UPSCALE_OPTIONS;
        gale_upscale_report r;
        o.width = rows[i][0];
        o.height = rows[i][1];
        if (CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, &r, &out)))
            CHECK(out->width == rows[i][2] && out->height == rows[i][3] && r.passes == rows[i][4]);
        gale_picture_destroy(&out);
    }
    gale_picture_destroy(&in);
    finish(&man, &n);
}

/* A network of a large scale makes little more than is wanted when it runs again: 20 pixels become 80, are made 50,
 * become 200, and 100 in the end. */
TEST(again)
{
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_upscale_report r;
    gale_picture *in = picture_make(20, 15, 1, GALE_U8), *out = NULL;
    float ones[16];
    for (int i = 0; i < 16; i++) ones[i] = 1;
    picture_net(&m, "n,1,h,w", NULL);
    make_initializer(&m, make_floats(&m, "w", "16,1,1,1", ones, 16));
    make_node(&m, "Conv", "x,w", "wide");
    make_attr_i(&m, make_node(&m, "DepthToSpace", "wide", "y"), "blocksize", 4);
    if (!CHECK_OK(probe(&m, "params: {tile_size: 0}", &man, &n))) return;
    o.width = 100;
    if (CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, &r, &out)))
        CHECK(out->width == 100 && out->height == 75 && r.passes == 2 && r.tile_width == 50 && r.tile_height == 38);
    int64_t width = 1, height = 1000;
    CHECK(gale__upscale_next(8, 3, 9000, 0, &width, &height) && height == 1000);
    CHECK(gale__upscale_next(8, 3, 9000, 1, &width, &height) && width == 1 && height == 1000);
    width = 8, height = 8000;
    CHECK(gale__upscale_next(8, 9, 9000, 1, &width, &height) && width == 3 && height == 2250);
    CHECK(!gale__upscale_next(8, 9, 9000, 2, &(int64_t){24}, &(int64_t){18000}) &&
          !gale__upscale_next(1, 9, 9000, 1, &width, &height));
    gale_picture_destroy(&in);
    gale_picture_destroy(&out);
    finish(&man, &n);
}

/* One colour is suspicious where the picture had more, whichever it is; a picture of one colour, or one that is made a
 * single pixel, is none to doubt. */
TEST(one_colour)
{
    static const float none[9] = {0}, blue[3] = {0.1f, 0.2f, 0.9f}, mean[3] = {0.3f, 0.6f, 0.1f};
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_picture *in = picture_make(40, 30, 3, GALE_U8), *plain = picture_make(40, 30, 3, GALE_U8), *out = NULL;
    for (int i = 0; i < 40 * 30 * 3; i++) ((uint8_t *)plain->data)[i] = (uint8_t)(i % 3 * 100);
    picture_net(&m, "n,3,h,w", NULL);
    make_initializer(&m, make_floats(&m, "w", "3,3,1,1", none, 9));
    make_initializer(&m, make_floats(&m, "b", "3", blue, 3));
    make_node(&m, "Conv", "x,w,b", "y");
    if (CHECK_OK(probe(&m, "name: blue", &man, &n))) {
        CHECK_FAILS(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out), NOT_FINITE);
        finish(&man, &n);
    }
    picture_net(&m, "n,3,h,w", NULL);
    make_initializer(&m, make_floats(&m, "w", "1,3,1,1", mean, 3));
    make_node(&m, "Conv", "x,w", "y");
    if (CHECK_OK(probe(&m, "name: grey", &man, &n))) {
        CHECK_OK(gale__upscale(&n, the_device(), plain, NULL, &o, NULL, &out));
        gale_picture_destroy(&out);
        o.width = o.height = 1;
        CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out));
        gale_picture_destroy(&out);
        finish(&man, &n);
    }
    gale_picture_destroy(&in);
    gale_picture_destroy(&plain);
}

/* Networks with one extent or both of their own, and tiles smaller than the usual overlap: pictures of any size go
 * through. */
TEST(extents)
{
    static const struct {
        const char *dims, *manifest;
        int64_t tile, tiles[2];
    } rows[] = {
        {"n,3,h,24", "{}", -1, {1, 4}},
        {"n,3,16,w", "{}", 0, {4, 1}},
        {"n,3,16,40", "{}", -1, {4, 2}},
        {"n,3,16,40", "params: {tile_overlap: 15}", -1, {35, 3}},
        {"n,3,h,w", "params: {multiple: 3}", 0, {1, 1}},
        {"n,3,h,w", "{}", 8, {8, 11}},
        {"n,3,h,w", "params: {tile_size: 64, tile_overlap: 32}", 16, {6, 8}},
        {"n,3,h,w", "params: {tile_size: 64, tile_overlap: 32}", 40, {3, 5}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        maker m;
        gale__manifest man;
        gale__network n;
        picture_net(&m, rows[i].dims, NULL);
        twice(&m, "x", "y");
        if (!CHECK_OK(probe(&m, rows[i].manifest, &man, &n))) continue;
        for (int wide = 0; wide < 2; wide++) {
            gale_upscale_options o = GALE_UPSCALE_OPTIONS;
            gale_upscale_report r;
            gale_picture *in = picture_make(wide ? 67 : 5, wide ? 5 : 50, 3, GALE_U8), *out = NULL;
            o.tile = rows[i].tile ? rows[i].tile : GALE_TILE_WHOLE;
            if (CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, &r, &out)) &&
                CHECK(off(in, out, 2) <= 1.01f / 255))
                CHECK_EQ(r.tiles, rows[i].tiles[wide]);
            gale_picture_destroy(&in);
            gale_picture_destroy(&out);
        }
        finish(&man, &n);
    }
}

/* Repeats pixels, then takes `after` away on each side of what that gives, and `before` on each side of the picture. */
static void losing(maker *m, const char *dims, int64_t before, int64_t after)
{
    const struct {
        const char *in, *out, *name;
        int64_t k;
    } convs[2] = {{"x,w0", "inner", "w0", 2 * before + 1}, {"large,w1", "y", "w1", 2 * after + 1}};
    picture_net(m, dims, NULL);
    for (int i = 0; i < 2; i++) {
        int64_t k = convs[i].k;
        float w[9 * 11 * 11] = {0};
        char shape[32];
        for (int64_t c = 0; c < 3; c++) w[(c * 4 * k + k / 2) * k + k / 2] = 1;
        snprintf(shape, sizeof shape, "3,3,%lld,%lld", (long long)k, (long long)k);
        make_initializer(m, make_floats(m, convs[i].name, shape, w, 9 * k * k));
        make_node(m, "Conv", convs[i].in, convs[i].out);
    }
    twice(m, "inner", "large");
}

/* Networks of convolutions without padding give less than they take: tiles get the pixels around them, and nothing is
 * missing. */
TEST(lost_edges)
{
    static const struct {
        const char *dims, *manifest;
        int64_t before, after, tile, overlap;
        int lost, border;
    } rows[] = {
        {"n,3,h,w", "{}", 5, 0, 0, -1, 10, 5},
        {"n,3,h,w", "params: {padding: reflect}", 3, 1, 24, -1, 7, 4},
        {"n,3,h,w", "params: {tile_size: 20, tile_overlap: 0}", 0, 3, -1, -1, 3, 2},
        {"n,3,24,24", "{}", 4, 0, -1, -1, 8, 4},
        {"n,3,h,24", "{}", 4, 0, -1, 0, 8, 4},
        {"n,3,h,w", "params: {multiple: 8}", 4, 5, 32, 3, 13, 7},
    };
    static const int64_t sizes[][2] = {{53, 41}, {1, 1}, {2, 60}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        maker m;
        gale__manifest man;
        gale__network n;
        losing(&m, rows[i].dims, rows[i].before, rows[i].after);
        if (!CHECK_OK(probe(&m, rows[i].manifest, &man, &n))) continue;
        CHECK(n.scale == 2 && n.lost == rows[i].lost && n.border == rows[i].border);
        for (int k = 0; k < 3; k++) {
            gale_upscale_options o = GALE_UPSCALE_OPTIONS;
            gale_picture *in = picture_make(sizes[k][0], sizes[k][1], 3, GALE_U8), *out = NULL;
            o.tile = rows[i].tile ? rows[i].tile : GALE_TILE_WHOLE;
            o.overlap = rows[i].overlap ? rows[i].overlap : GALE_OVERLAP_NONE;
            o.batch = i == 1 ? 3 : 1;
            if (CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out)))
                CHECK(off(in, out, 2) <= 1.01f / 255);
            gale_picture_destroy(&in);
            gale_picture_destroy(&out);
        }
        gale_upscale_options o = GALE_UPSCALE_OPTIONS;
        gale_picture *in = picture_make(30, 30, 3, GALE_U8), *out = NULL;
        o.tile = 2 * n.border - (int64_t)i % 2;
        if (!n.fixed_width) {
            CHECK_FAILS(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out), INVALID);
            CHECK(strstr(gale_error(), "too small"));
        }
        gale_picture_destroy(&in);
        finish(&man, &n);
    }
}

TEST(last)
{
    gale_device_close(&network_device);
    CHECK(!network_device);
}

TESTS(ROW(any_size), ROW(again), ROW(one_colour), ROW(extents), ROW(lost_edges), ROW(last))
