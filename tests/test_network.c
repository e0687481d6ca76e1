/* Networks from picture to picture: what is found out about them, and that values go in and come out as they should.
 * The nets are made here; the real ones of the folder for real data are asked where they are. */
#include "base/file.h"
#include "gale/upscale.h"
#include "network_make.h"
#include <math.h>

/* Random pictures through a net that repeats pixels `scale` times: out must be in, enlarged. */
static void repeats(const gale__network *n, int64_t batch, int64_t w, int64_t h, float tolerance)
{
    int64_t c = n->channels_in, s = n->scale, count = batch * c * w * h;
    float *in = gale__calloc((size_t)count, sizeof *in), *out = gale__calloc((size_t)(count * s * s), sizeof *out),
          worst = 0;
    for (int64_t i = 0; i < count; i++) in[i] = (float)(i * 37 % 101) / 100;
    if (CHECK_OK(run_network(n, in, batch, w, h, NULL, out)))
        for (int64_t i = 0; i < count * s * s; i++) {
            int64_t x = i % (w * s) / s, y = i / (w * s) % (h * s) / s, plane = i / (w * h * s * s);
            worst = fmaxf(worst, fabsf(out[i] - in[(plane * h + y) * w + x]));
        }
    CHECK(worst <= tolerance);
    gale__free(in);
    gale__free(out);
}

TEST(channels_first)
{
    maker m;
    gale__manifest man;
    gale__network n;
    repeating(&m);
    if (!CHECK_OK(probe(&m, "params: {range: [-1, 1], colours: bgr}", &man, &n))) return;
    CHECK(n.scale == 2 && n.layout == GALE__MANIFEST_LAYOUT_NCHW && n.channels_in == 3 && n.channels_out == 3 &&
          n.control < 0 && !n.fixed_width && !n.multiple);
    CHECK_OK(gale__network_find_multiple(&n));
    CHECK_EQ(n.multiple, 1);
    repeats(&n, 2, 5, 7, 1e-6f);
    finish(&man, &n);
}

TEST(channels_last)
{
    static const int64_t there[] = {0, 3, 1, 2}, back[] = {0, 2, 3, 1};
    for (int said = 0; said < 2; said++) {
        maker m;
        gale__manifest man;
        gale__network n;
        make_begin(&m, 13);
        make_input(&m, "x", 1, said ? "n,h,w,3" : "n,h,w,c"); /* said by the extents, or found by trial */
        make_output(&m, "y", 1, NULL);
        make_attr_ints(&m, make_node(&m, "Transpose", "x", "t"), "perm", there, 4);
        twice(&m, "t", "u");
        make_attr_ints(&m, make_node(&m, "Transpose", "u", "y"), "perm", back, 4);
        if (!CHECK_OK(probe(&m, "params: {scale_factor: 2}", &man, &n))) continue;
        CHECK(n.scale == 2 && n.layout == GALE__MANIFEST_LAYOUT_NHWC && n.channels_out == 3);
        repeats(&n, 3, 4, 6, 1e-6f);
        finish(&man, &n);
    }
}

TEST(fixed_grey_bytes)
{
    maker m;
    gale__manifest man;
    gale__network n;
    make_begin(&m, 13);
    make_input(&m, "x", 2, "2,1,20,30"); /* u8 */
    make_output(&m, "y", 2, "2,1,20,30");
    make_node(&m, "Identity", "x", "y");
    if (!CHECK_OK(probe(&m, "name: grey", &man, &n))) return;
    CHECK(n.scale == 1 && n.channels_in == 1 && n.fixed_width == 30 && n.fixed_height == 20 && n.fixed_batch == 2 &&
          n.multiple == 1 && n.type_in == GALE_U8);
    repeats(&n, 2, 30, 20, 0.5f / 255 + 1e-6f);
    repeats(&n, 1, 30, 20, 0.5f / 255 + 1e-6f); /* filled up */
    float tile[600 * 3] = {0}, out[600 * 3];
    CHECK_FAILS(run_network(&n, tile, 3, 30, 20, NULL, out), INVALID);
    finish(&man, &n);
}

TEST(multiples)
{
    static const int64_t four[] = {4, 4};
    static const float scales[] = {1, 1, 4, 4};
    maker m;
    gale__manifest man;
    gale__network n;
    picture_net(&m, "1,3,h,w", NULL);
    gale__pb_node *pool = make_node(&m, "AveragePool", "x", "p");
    make_attr_ints(&m, pool, "kernel_shape", four, 2);
    make_attr_ints(&m, pool, "strides", four, 2);
    make_initializer(&m, make_floats(&m, "s", "4", scales, 4));
    make_node(&m, "Resize", "p,,s", "y");
    if (!CHECK_OK(probe(&m, "name: four", &man, &n))) return;
    CHECK_OK(gale__network_find_multiple(&n));
    CHECK_EQ(n.multiple, 4);
    float tile[3 * 49] = {0}, out[3 * 49];
    CHECK_FAILS(run_network(&n, tile, 1, 7, 7, NULL, out), MISMATCH);
    finish(&man, &n);
}

/* A multiple that is no power of two: what the manifest takes for a tile is known to go. */
TEST(other_multiples)
{
    maker m;
    gale__manifest man;
    gale__network n;
    in_blocks(&m, 12);
    if (CHECK_OK(probe(&m, "params: {tile_size: 48}", &man, &n))) {
        CHECK_OK(gale__network_find_multiple(&n));
        CHECK(n.proven == 48 && n.multiple == 48);
        finish(&man, &n);
    }
    in_blocks(&m, 12);
    CHECK_FAILS(probe(&m, "{}", &man, &n), INVALID);
    CHECK(strstr(gale_error(), "params: multiple"));
    in_blocks(&m, 32);
    if (!CHECK_OK(probe(&m, "{}", &man, &n))) return;
    CHECK_OK(gale__network_find_multiple(&n));
    CHECK_EQ(n.multiple, 32);
    finish(&man, &n);
}

/* A network for one size that its file does not tell: a trial of that size is one that succeeds. */
TEST(trial_of_a_size)
{
    float zeros[3 * 24 * 24] = {0};
    maker m;
    gale__manifest man;
    gale__network n;
    picture_net(&m, "n,3,h,w", NULL);
    make_initializer(&m, make_floats(&m, "z", "1,3,24,24", zeros, 3 * 24 * 24));
    make_node(&m, "Add", "x,z", "y");
    gale_model *model = open_model(&m);
    CHECK_OK(gale__manifest_parse("params: {multiple: 8}", 21, "net", &man));
    if (!model) return;
    CHECK(gale__network_probe(model, &man, 0, &n) != GALE_OK);
    CHECK_OK(gale__network_probe(model, &man, 20, &n)); /* rounded up */
    CHECK_EQ(n.scale, 1);
    n.model = model;
    finish(&man, &n);
}

/* One that memory does not hold is followed by a small one. */
TEST(trial_too_large)
{
    maker m;
    gale__manifest man;
    gale__network n;
    gale_device_options small = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    gale_model *model = NULL;
    gale__str bytes = {0};
    int64_t dims[4];
    static const float mean[4] = {0.25f, 0.25f, 0.25f, 0.25f};
    static const int64_t after[] = {0, 0, 1, 1};
    small.chain = "cpu";
    small.pool_limit_bytes = 1 << 20;
    picture_net(&m, "n,1,h,w", "n,1,h,w");
    make_initializer(&m, make_floats(&m, "w", "1,1,2,2", mean, 4));
    make_attr_ints(&m, make_node(&m, "Conv", "x,w", "t"), "pads", after, 4);
    make_attr_ints(&m, make_node(&m, "Conv", "t,w", "y"), "pads", after, 4);
    CHECK_OK(make_encode(&m, &bytes));
    make_end(&m);
    CHECK_OK(gale__manifest_parse("{}", 2, "net", &man));
    CHECK_OK(gale_device_open(&small, &device));
    if (CHECK_OK(gale_model_from_memory(bytes.text, bytes.length, GALE_MODEL_COPY, device, NULL, &model)) &&
        CHECK_OK(gale__network_probe(model, &man, 600, &n))) {
        CHECK_EQ(n.scale, 1);
        CHECK_FAILS(gale__network_try(&n, 600, 600, dims), NO_MEMORY);
    }
    gale_model_close(&model);
    gale__manifest_finish(&man);
    gale__str_finish(&bytes);
    gale_device_close(&device);
}

static void controlled(maker *m)
{
    static const int64_t axes[] = {2, 3};
    make_begin(m, 13);
    make_input(m, "x", 1, "n,3,h,w");
    make_input(m, "c", 1, "n,3");
    make_output(m, "y", 1, NULL);
    make_initializer(m, make_ints(m, "axes", "2", axes, 2));
    make_node(m, "Unsqueeze", "c,axes", "d");
    make_node(m, "Mul", "x,d", "y");
}

TEST(control)
{
    static const float c[3] = {0.5f, 0.25f, 1};
    maker m;
    gale__manifest man;
    gale__network n;
    float in[2 * 3 * 6], out[2 * 3 * 6];
    controlled(&m);
    if (!CHECK_OK(probe(&m, "control: {size: 3}", &man, &n))) return;
    CHECK(n.control == 1 && n.control_size == 3 && n.scale == 1);
    for (int i = 0; i < 36; i++) in[i] = (float)i / 36;
    CHECK_OK(run_network(&n, in, 2, 3, 2, c, out));
    for (int i = 0; i < 36; i++) CHECK(fabsf(out[i] - in[i] * c[i / 6 % 3]) < 1e-6f);
    finish(&man, &n);
    controlled(&m);
    CHECK_FAILS(probe(&m, "control: {size: 2}", &man, &n), MISMATCH);
}

/* A single number that says how much, and features beside the picture that comes out. */
TEST(number_and_features)
{
    static const float half[1] = {0.5f};
    maker m;
    gale__manifest man;
    gale__network n;
    float in[3 * 6], out[3 * 24];
    make_begin(&m, 13);
    make_input(&m, "c", 1, "");
    make_input(&m, "x", 1, "n,3,h,w");
    make_output(&m, "wide", 1, "n,12,h,w");
    make_output(&m, "y", 1, "n,3,a,b");
    make_node(&m, "Mul", "x,c", "z");
    twice(&m, "z", "y");
    if (!CHECK_OK(probe(&m, "name: net", &man, &n))) return;
    CHECK(n.control == 0 && n.control_size == 1 && n.result == 1 && n.scale == 2 && n.channels_out == 3);
    for (int i = 0; i < 18; i++) in[i] = (float)i / 18;
    CHECK_OK(run_network(&n, in, 1, 3, 2, half, out));
    CHECK(fabsf(out[71] - 0.5f * in[17]) < 1e-6f);
    finish(&man, &n);
}

/* Controls that no manifest speaks of are set by their numbers. */
TEST(control_without_names)
{
    maker m;
    gale__str bytes = {0};
    gale_upscaler *u = NULL;
    gale_upscaler_info info;
    gale_picture *in = NULL, *out = NULL;
    controlled(&m);
    CHECK_OK(make_encode(&m, &bytes));
    make_end(&m);
    if (CHECK_OK(gale_upscaler_from_memory(bytes.text, bytes.length, "name: net", the_device(), NULL, &u))) {
        gale_upscaler_get_info(u, &info);
        CHECK_EQ(info.controls, 3);
        CHECK_OK(gale_upscaler_set(u, "1=0.5"));
        CHECK_FAILS(gale_upscaler_set(u, "3=1"), INVALID);
        CHECK(strstr(gale_error(), "3 controls without names"));
        CHECK_FAILS(gale_upscaler_set(u, "1,1"), INVALID);
        CHECK_OK(gale_picture_create(2, 1, 3, GALE_U8, &in));
        memcpy(in->data, (const uint8_t[]){200, 200, 200, 100, 100, 100}, 6);
        if (CHECK_OK(gale_upscale(u, in, NULL, NULL, &out)))
            CHECK(!memcmp(out->data, (const uint8_t[]){0, 100, 0, 0, 50, 0}, 6));
    }
    gale_picture_destroy(&in);
    gale_picture_destroy(&out);
    gale_upscaler_close(&u);
    gale__str_finish(&bytes);
}

TEST(refusals)
{
    maker m;
    gale__manifest man;
    gale__network n;
    picture_net(&m, "n,10", "n,10");
    make_node(&m, "Relu", "x", "y");
    CHECK_FAILS(probe(&m, "name: a", &man, &n), UNSUPPORTED);
    make_begin(&m, 13);
    make_input(&m, "x", 1, "n,3,h,w");
    make_input(&m, "z", 1, "n,3,h,w");
    make_output(&m, "y", 1, NULL);
    make_node(&m, "Add", "x,z", "y");
    CHECK_FAILS(probe(&m, "name: b", &man, &n), UNSUPPORTED);
    CHECK(strstr(gale_error(), "\"z\"") != NULL);
    picture_net(&m, "n,3,h,w", NULL);
    twice(&m, "x", "y");
    CHECK_FAILS(probe(&m, "params: {scale_factor: 4}", &man, &n), MISMATCH);
    CHECK(strstr(gale_error(), "4x") && strstr(gale_error(), "2x"));
    picture_net(&m, "n,3,h,w", NULL);
    make_node(&m, "GlobalAveragePool", "x", "y");
    CHECK_FAILS(probe(&m, "name: c", &man, &n), UNSUPPORTED);
}

TEST(real_ones)
{
    static const struct {
        const char *name;
        int scale, controls;
    } rows[] = {{"esrgan-slim-x2", 2, 0}, {"esrgan-slim-x4", 4, 0}, {"zoom2x-ctrl", 2, 3}};
    char path[1024];
    snprintf(path, sizeof path, "%s/models/zoom2x-ctrl.onnx", test_data());
    if (!gale__file_exists(path)) SKIP("%s is not here", path);
    for (int i = 0; i < 3; i++) {
        gale__manifest man;
        gale__network n = {0};
        gale_model *model = NULL;
        snprintf(path, sizeof path, "%s/models/%s.onnx", test_data(), rows[i].name);
        if (!CHECK_OK(gale_model_open(path, the_device(), NULL, &model))) continue;
        if (CHECK_OK(gale__manifest_read(path, &man))) {
            CHECK_OK(gale__network_probe(model, &man, 0, &n));
            CHECK(n.scale == rows[i].scale && n.control_size == rows[i].controls && n.channels_in == 3 &&
                  n.channels_out == 3);
            CHECK_TEXT(man.name, rows[i].name);
            gale__manifest_finish(&man);
        }
        gale_model_close(&model);
    }
}

TEST(last)
{
    gale_device_close(&network_device);
    CHECK(!network_device);
}

TESTS(ROW(channels_first), ROW(channels_last), ROW(fixed_grey_bytes), ROW(multiples), ROW(other_multiples),
    ROW(trial_of_a_size), ROW(trial_too_large), ROW(control), ROW(number_and_features), ROW(control_without_names),
    ROW(refusals), ROW(real_ones), ROW(last))
