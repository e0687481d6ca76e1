/* Pictures through networks: whatever their kind, they come out of the same kind, at the right size, with their notes,
 * in tiles as without. */
#include "base/file.h"
#include "base/thread.h"
#include "jobs/upscale/batch.h"
#include "jobs/upscale/budget.h"
#include "jobs/upscale/upscale.h"
#include "jobs/upscale/plane_resize.h"
#include "network_make.h"
#include "picture_make.h"

/* One channel: a 5 x 5 mean, zeros beyond the edge, so that tiles show where their margin is too small. */
static void blurring(maker *m)
{
    static const int64_t pads[] = {2, 2, 2, 2};
    float w[25];
    for (int i = 0; i < 25; i++) w[i] = 0.04f;
    picture_net(m, "n,1,h,w", "n,1,h,w");
    make_initializer(m, make_floats(m, "w", "1,1,5,5", w, 25));
    make_attr_ints(m, make_node(m, "Conv", "x,w", "y"), "pads", pads, 4);
}

TEST(every_kind)
{
    static const gale_type types[] = {GALE_U8, GALE_U16, GALE_F16, GALE_F32};
    static const float tolerance[] = {1.01f / 255, 3.0f / 65535, 2e-3f, 1e-5f}; /* colours are divided by alpha */
    maker m;
    gale__manifest man;
    gale__network n;
    repeating(&m);
    if (!CHECK_OK(probe(&m, "params: {tile_size: 16, tile_overlap: 4}", &man, &n))) return;
    for (int t = 0; t < 4; t++)
        for (int c = 1; c <= 4; c++)
            for (int linear = 0; linear < (t > 1) + 1; linear++) {
                gale_upscale_options o = GALE_UPSCALE_OPTIONS;
                gale_upscale_report r;
                gale_picture *in = picture_make(37, 21, c, types[t]), *out = NULL;
                uint8_t icc[600], exif[128];
                in->linear = linear;
                in->premultiplied = linear && c % 2 == 0;
                in->dpi_x = 300;
                CHECK_OK(gale__picture_bytes_set(&in->icc, icc, picture_icc(icc, c < 3)));
                CHECK_OK(gale__picture_bytes_set(&in->exif, exif, picture_exif(exif, 1)));
                o.batch = 3;
                if (CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, &r, &out))) {
                    float d = off(in, out, 2);
                    if (d > tolerance[t])
                        printf("FAIL %s x %d%s: off by %g\n", gale_type_name(types[t]), c, linear ? " linear" : "",
                            (double)d),
                            test_bad++;
                    CHECK(out->linear == in->linear && out->premultiplied == in->premultiplied && out->dpi_x == 300);
                    CHECK(out->icc.size == 600 && out->exif.size == in->exif.size &&
                          ((uint8_t *)out->exif.data)[95] == 74);
                    CHECK(r.passes == 1 && r.tile_width == 16 && r.tiles >= 3 * 2);
                }
                gale_picture_destroy(&in);
                gale_picture_destroy(&out);
            }
    finish(&man, &n);
}

/* A soft edge through a network that is off by a hundredth: alpha comes near zero, and colours do not. */
TEST(soft_edge)
{
    enum { W = 64, H = 8 };
    maker m;
    gale__manifest man;
    gale__network n;
    picture_net(&m, "n,1,h,w", "n,1,h,w");
    make_initializer(&m, make_floats(&m, "w", "1", (float[]){0.01f}, 1));
    make_node(&m, "Sub", "x,w", "y");
    if (!CHECK_OK(probe(&m, "name: off", &man, &n))) return;
    for (int kind = 0; kind < 3; kind++) { /* straight; premultiplied and linear, as EXR has it; bright */
        gale_picture *in = NULL, *words = NULL, *out = NULL, *same = NULL;
        float most = kind == 2 ? 40 : 1;
        CHECK_OK(gale_picture_create(W, H, 2, GALE_F32, &in));
        float *v = in->data;
        for (int i = 0; i < W * H; i++) {
            v[2 * i] = 0.5f + 0.5f * sinf((float)i);
            if (kind == 2 && i == W / 2) v[2 * i] = most;
            v[2 * i + 1] = i % W < 32 ? 0.01f + ldexpf(1, -i % W) : 0.01f + 0.99f * (float)(i % W - 31) / 32;
        }
        if (kind == 1) gale__premultiply(v, (size_t)W * H, 2);
        in->linear = in->premultiplied = kind == 1;
        CHECK_OK(gale_picture_convert(in, GALE_U16, 2, &words));
        CHECK_OK(gale__upscale(&n, the_device(), in, NULL, NULL, NULL, &out));
        CHECK_OK(gale__upscale(&n, the_device(), words, NULL, NULL, NULL, &same));
        if (out && same) {
            float low = 0, high = 0, far = 0;
            const float *r = out->data;
            for (int i = 0; i < W * H; i++) {
                low = fminf(low, r[2 * i]), high = fmaxf(high, r[2 * i]);
                if (kind == 0 && r[2 * i + 1] > 0.05f)
                    far = fmaxf(far, fabsf(fminf(fmaxf(r[2 * i], 0), 1) - ((uint16_t *)same->data)[2 * i] / 65535.0f));
            }
            if (!CHECK(low > -0.02f && high < most + 0.02f && far < 1e-3f))
                printf("  kind %d: %g to %g, %g from 16 bit\n", kind, (double)low, (double)high, (double)far);
        }
        gale_picture_destroy(&in);
        gale_picture_destroy(&words);
        gale_picture_destroy(&out);
        gale_picture_destroy(&same);
    }
    finish(&man, &n);
}

/* A grey network, on colours: it makes the luma, and chroma is resized. */
TEST(luma_alone)
{
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_picture *in = picture_make(40, 30, 4, GALE_U8), *out = NULL;
    picture_net(&m, "n,1,h,w", "n,1,h,w");
    make_node(&m, "Identity", "x", "y");
    if (!CHECK_OK(probe(&m, "name: same", &man, &n))) return;
    if (CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out))) CHECK(off(in, out, 1) <= 1.01f / 255);
    gale_picture_destroy(&in);
    gale_picture_destroy(&out);
    finish(&man, &n);
}

TEST(tiled_equals_whole)
{
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_options whole = GALE_UPSCALE_OPTIONS, tiled = GALE_UPSCALE_OPTIONS;
    gale_upscale_report r;
    gale_picture *in = picture_make(150, 90, 1, GALE_F32), *a = NULL, *b = NULL;
    blurring(&m);
    if (!CHECK_OK(probe(&m, "name: blur", &man, &n))) return;
    whole.tile = GALE_TILE_WHOLE;
    tiled.tile = 48;
    tiled.overlap = 8; /* a quarter of it covers the two pixels that the network sees */
    CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &whole, &r, &a));
    CHECK_EQ(r.tiles, 1);
    CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &tiled, &r, &b));
    CHECK(r.tiles > 5);
    if (a && b) CHECK(off(a, b, 1) < 1e-6f);
    gale_picture_destroy(&b);
    tiled.overlap = GALE_OVERLAP_NONE; /* and without it there is a seam to be seen */
    CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &tiled, &r, &b));
    if (a && b) CHECK(off(a, b, 1) > 0.05f);
    gale_picture_destroy(&in);
    gale_picture_destroy(&a);
    gale_picture_destroy(&b);
    finish(&man, &n);
}

/* Memory that the result is put into may hold anything, batches may be of any size, and threads may be as many as there
 * are: the result is the same to the last bit. */
TEST(blended_anywhere)
{
    enum { W = 61, H = 47, N = W * H * 4 * 3 };
    maker m;
    gale__manifest man;
    gale__network n;
    gale_tensor *planes = NULL, *result = NULL;
    float *first = gale__calloc(N, sizeof *first);
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, 4, (int64_t[]){1, 3, H, W}, &planes));
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, 4, (int64_t[]){1, 3, 2 * H, 2 * W}, &result));
    repeating(&m);
    if (!planes || !first || !result || !CHECK_OK(probe(&m, "name: twice", &man, &n))) return;
    float *from = gale_tensor_data(planes), *out = gale_tensor_data(result);
    for (int i = 0; i < W * H * 3; i++) from[i] = (float)(i * 37 % 101) / 100;
    for (int round = 0; round < 4; round++) {
        gale__tile_wish wish = {round == 3 ? 0 : 24, round == 3 ? 0 : 16, 7, -1, 1, false, false, GALE__PAD_REPLICATE};
        gale__tiling t;
        gale__tile_batch b = {0};
        uint64_t ns = 0;
        gale__parallel_set_width(round % 3 + 1);
        for (int i = 0; i < N; i++) out[i] = NAN;
        CHECK_OK(gale__tiling_make(W, H, &wish, &t));
        CHECK_OK(gale__tile_batch_make(&n, &t, NULL, &b));
        int64_t tiles = gale__tiling_count(&t), size = round == 1 ? 4 : 1;
        for (int64_t at = 0; at < tiles; at += size)
            CHECK_OK(gale__tile_batch_run(&b, at, tiles - at < size ? tiles - at : size, false, planes, result, &ns));
        CHECK(ns > 0);
        if (!round) memcpy(first, out, N * sizeof *out);
        float worst = 0;
        for (int i = 0; i < N; i++) worst = fabsf(out[i] - first[i]) <= worst ? worst : fabsf(out[i] - first[i]);
        CHECK(worst <= (round == 3 ? 1e-6f : 0)); /* the last one is one tile, which is not even copied */
        gale__tile_batch_finish(&b);
    }
    gale__parallel_set_width(0);
    gale__free(first);
    gale_tensor_destroy(&planes);
    gale_tensor_destroy(&result);
    finish(&man, &n);
}

/* The library's own network in every precision: what ran is said, and halves are near. */
TEST(precisions)
{
    static const struct {
        gale_model_options o;
        const char *name;
        double psnr;
    } rows[] = {{{0}, "fp32", 1e9}, {{.program = {.fast = true}}, "fast", 50},
        {{.precision = GALE_PRECISION_F16}, "fp16", 50}, {{.precision = GALE_PRECISION_BF16}, "bf16", 40}};
    gale_picture *in = picture_make(40, 24, 3, GALE_U8), *good = NULL;
    for (int i = 0; i < 4; i++) {
        gale_upscaler *u = NULL;
        gale_upscaler_info info;
        gale_picture *out = NULL;
        gale_picture_difference d;
        if (!CHECK_OK(gale_upscaler_open(NULL, the_device(), &rows[i].o, &u))) continue;
        gale_upscaler_get_info(u, &info);
        CHECK(!strcmp(info.precision, rows[i].name));
        CHECK_OK(gale_upscale(u, in, NULL, NULL, i ? &out : &good));
        if (i && good && out && CHECK_OK(gale_picture_compare(good, out, &d, 1, NULL)))
            CHECK(d.colours.psnr >= rows[i].psnr && (i == 1 || d.pixels));
        gale_picture_destroy(&out);
        gale_upscaler_close(&u);
    }
    gale_picture_destroy(&in);
    gale_picture_destroy(&good);
}

/* Sides that the network does not take, though its manifest says so: the picture is one tile, and the message is the
 * one of tiles. */
TEST(wrong_multiple)
{
    static const int64_t two[] = {2, 2};
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_picture *in = picture_make(33, 33, 1, GALE_U8), *out = NULL;
    picture_net(&m, "n,1,h,w", NULL);
    gale__pb_node *pool = make_node(&m, "AveragePool", "x", "p");
    make_attr_ints(&m, pool, "kernel_shape", two, 2);
    make_attr_ints(&m, pool, "strides", two, 2);
    make_initializer(&m, make_floats(&m, "s", "4", (const float[]){1, 1, 2, 2}, 4));
    make_node(&m, "Resize", "p,,s", "y");
    if (!CHECK_OK(probe(&m, "params: {tile_size: 33, multiple: 1}", &man, &n))) return;
    CHECK_FAILS(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out), MISMATCH);
    CHECK(strstr(gale_error(), "multiples"));
    gale_picture_destroy(&in);
    finish(&man, &n);
}

TEST(resizing)
{
    float from[2 * 12], to[2 * 48], back[2 * 12];
    for (int i = 0; i < 24; i++) from[i] = i < 12 ? 0.5f : (float)(i % 4) / 3;
    CHECK_OK(gale__planes_resize(the_device(), from, 2, 4, 3, 8, 6, to));
    for (int i = 0; i < 48; i++) CHECK(fabsf(to[i] - 0.5f) < 1e-6f); /* a flat plane stays flat, to its edges */
    CHECK(to[48 + 3] < to[48 + 4] && fabsf(to[48 + 3] + to[48 + 4] - 1) < 1e-6f);
    CHECK_OK(gale__planes_resize(the_device(), to, 2, 8, 6, 4, 3, back));
    for (int i = 0; i < 12; i++) CHECK(fabsf(back[i] - 0.5f) < 1e-6f);
}

/* Side by side, or one after the other: the same to the last bit.  Left to us, the first tile shows what one takes, and
 * a small pool gets fewer lanes. */
TEST(side_by_side)
{
    static const int64_t lanes[] = {1, 0, 3, 100};
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_report r;
    gale_picture *in = picture_make(61, 47, 3, GALE_F32), *good = NULL, *out = NULL;
    gale__parallel_set_width(4);
    repeating(&m);
    if (!CHECK_OK(probe(&m, "params: {tile_size: 16, tile_overlap: 4}", &man, &n))) return;
    for (int i = 0; i < 4; i++) {
        gale_upscale_options o = GALE_UPSCALE_OPTIONS;
        o.lanes = lanes[i];
        CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, &r, i ? &out : &good));
        CHECK_EQ(r.tiles, 20);
        CHECK_EQ(r.lanes, i == 0 ? 1 : lanes[i] == 3 ? 3 : 4);
        if (i && good && out)
            CHECK(!memcmp(good->data, out->data, (size_t)(good->width * good->height) * 3 * sizeof(float)));
        gale_picture_destroy(&out);
    }
    CHECK(n.ran.alone_ns > 0 && n.ran.beside_ns > 0 && n.ran.tiles == 79);
    n.ran.alone_ns = 2 * n.ran.beside_ns; /* lanes pay */
    CHECK_EQ(gale__budget_lanes(&n, the_device(), 16, 16, 3), 3);
    CHECK_EQ(gale__budget_lanes(&n, the_device(), 16, 16, 2), 1); /* all threads on each are done sooner */
    n.ran.alone_ns = n.ran.beside_ns / 2;
    CHECK_EQ(gale__budget_lanes(&n, the_device(), 16, 16, 4), 1);
    n.ran.beside_ns = 0; /* lanes are tried as soon as there are tiles enough */
    CHECK_EQ(gale__budget_lanes(&n, the_device(), 16, 16, 4), 4);
    n.ran.tiles = 7;
    CHECK_EQ(gale__budget_lanes(&n, the_device(), 16, 16, 4), 1);
    CHECK_EQ(gale__budget_lanes(&n, the_device(), 16, 16, 5), 4);
    CHECK_EQ(gale__budget_lanes(&n, the_device(), 17, 16, 4), 1); /* of which nothing is known */
    n.ran.bytes = 1e15;
    CHECK_EQ(gale__budget_lanes(&n, the_device(), 16, 16, 4), 1);
    gale_picture_destroy(&in);
    gale_picture_destroy(&good);
    finish(&man, &n);
    gale__parallel_set_width(0);
}

/* Half the picture and half the mean of all tiles: a batch mixes them.  Or a shape that is written down: a batch fails.
 */
static void unbatched(maker *m, bool mixes)
{
    static const int64_t one[] = {0}, shape[] = {1, 3, 16, 16};
    picture_net(m, "n,3,h,w", "n,3,h,w");
    make_initializer(m, make_ints(m, "shape", "4", shape, 4));
    if (!mixes) make_node(m, "Reshape", "x,shape", "y");
    else {
        make_attr_ints(m, make_node(m, "ReduceMean", "x", "mean"), "axes", one, 1);
        make_node(m, "Mean", "x,mean", "y");
    }
}

TEST(batches_that_are_none)
{
    for (int mixes = 0; mixes < 2; mixes++) {
        maker m;
        gale__manifest man;
        gale__network n;
        gale_upscale_report r;
        gale_upscale_options o = GALE_UPSCALE_OPTIONS;
        gale_picture *in = picture_make(45, 31, 3, GALE_F32), *good = NULL, *out = NULL;
        unbatched(&m, mixes);
        if (!CHECK_OK(probe(&m, "params: {tile_size: 16, tile_overlap: 4, multiple: 16}", &man, &n))) return;
        CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, &r, &good));
        CHECK_EQ(n.batches, GALE__BATCHES_UNKNOWN);
        o.batch = 4;
        CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, &r, &out));
        CHECK_EQ(n.batches, GALE__BATCHES_MIXED);
        CHECK_EQ(r.batch, 1);
        if (good && out)
            CHECK(!memcmp(good->data, out->data, (size_t)(good->width * good->height) * 3 * sizeof(float)));
        gale_picture_destroy(&in);
        gale_picture_destroy(&good);
        gale_picture_destroy(&out);
        finish(&man, &n);
    }
}

/* Says yes to every tile, and raises the flag at the third. */
static bool raise_flag(void *user, int64_t done, int64_t tiles)
{
    (void)tiles;
    *(int *)user = done >= 2;
    return true;
}

TEST(stopped_inside_a_tile)
{
    gale_upscaler *u = NULL;
    gale_picture *in = picture_make(40, 30, 3, GALE_U8), *out = NULL;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    int flag = 0;
    if (!CHECK_OK(gale_upscaler_open(NULL, the_device(), NULL, &u))) return gale_picture_destroy(&in);
    o.tile = 16;
    o.overlap = 4;
    o.progress = raise_flag;
    o.user = &flag;
    o.cancel = &flag;
    for (o.lanes = 1; o.lanes < 4; o.lanes++) {
        flag = 0;
        CHECK_FAILS(gale_upscale(u, in, &o, NULL, &out), CANCELLED);
    }
    o.cancel = NULL;
    o.deadline_ns = 1;
    CHECK_FAILS(gale_upscale(u, in, &o, NULL, &out), DEADLINE);
    o.deadline_ns = gale_time_ns() + 3600000000000u;
    CHECK_OK(gale_upscale(u, in, &o, NULL, &out));
    gale_picture_destroy(&in), gale_picture_destroy(&out);
    gale_upscaler_close(&u);
}

static bool stop_at_two(void *user, int64_t done, int64_t tiles)
{
    (void)tiles;
    *(int64_t *)user = done;
    return done < 2;
}

TEST(cancelled_and_checked)
{
    static const float zero[1] = {0};
    maker m;
    gale__manifest man;
    gale__network n;
    int64_t last = -1;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_picture *in = picture_make(40, 30, 3, GALE_U8), *out = NULL;
    repeating(&m);
    if (!CHECK_OK(probe(&m, "params: {tile_size: 16, tile_overlap: 4}", &man, &n))) return;
    o.lanes = 1;
    o.progress = stop_at_two;
    o.user = &last;
    CHECK_FAILS(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out), CANCELLED);
    CHECK_EQ(last, 2);
    finish(&man, &n);
    picture_net(&m, "n,3,h,w", "n,3,h,w");
    make_initializer(&m, make_floats(&m, "zero", "", zero, 1));
    make_node(&m, "Mul", "x,zero", "y");
    if (!CHECK_OK(probe(&m, "name: black", &man, &n))) return;
    o.progress = NULL;
    CHECK_FAILS(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out), NOT_FINITE);
    o.no_check = true;
    CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out));
    gale_picture_destroy(&out);
    gale_picture_destroy(&in);
    finish(&man, &n);
}

/* Left to memory: whole where the device has room, in tiles that a small pool holds, and the same picture both times.
 */
TEST(by_memory)
{
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_upscale_report r;
    gale_device_options small = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    gale_picture *in = picture_make(210, 130, 3, GALE_U8), *whole = NULL, *tiled = NULL;
    small.chain = "cpu";
    small.pool_limit_bytes = 1 << 20;
    repeating(&m);
    if (!CHECK_OK(probe(&m, "params: {tile_size: 16, tile_overlap: 8}", &man, &n))) return;
    CHECK_OK(gale_device_open(&small, &device));
    o.tile = GALE_TILE_WHOLE;
    o.batch = GALE_BATCH_AUTO;
    CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, &r, &whole));
    CHECK(r.tiles == 1 && r.tile_width == 210 && r.tile_height == 130 && !r.by_memory);
    CHECK(n.bytes_per_pixel == 0); /* what plainly fits is not looked at more closely */
    CHECK_OK(gale__upscale(&n, device, in, NULL, &o, &r, &tiled));
    CHECK(r.tiles > 1 && r.tile_width < 210 && r.tile_width >= 32 && r.by_memory && r.batch == 1);
    CHECK(n.bytes_per_pixel * (double)(r.tile_width * r.tile_height) < 1 << 20);
    if (whole && tiled) CHECK(off(whole, tiled, 1) <= 1.01f / 255);
    gale_picture_destroy(&in);
    gale_picture_destroy(&whole);
    gale_picture_destroy(&tiled);
    gale_device_close(&device);
    finish(&man, &n);
}

/* Each allocation up to the `most`-th fails once: either it is an error, or smaller batches and tiles give the same
 * picture. */
static void fail_each(int64_t batch, uint64_t most)
{
    maker m;
    gale__manifest man;
    gale__network n;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_picture *in = picture_make(70, 40, 4, GALE_U8), *good = NULL, *out = NULL;
    repeating(&m);
    if (!CHECK_OK(probe(&m, "params: {tile_size: 64, tile_overlap: 4, multiple: 1}", &man, &n))) return;
    o.batch = batch;
    o.lanes = 2;
    CHECK_OK(gale__upscale(&n, the_device(), in, NULL, &o, NULL, &good));
    for (uint64_t k = 1; k <= most; k += test_light() ? 7 : 1) {
        gale__alloc_fail_at(k);
        gale_status status = gale__upscale(&n, the_device(), in, NULL, &o, NULL, &out);
        bool reached = gale__alloc_count() >= k;
        gale__alloc_fail_at(0);
        if (status == GALE_OK && good) CHECK(off(good, out, 1) <= 1.01f / 255);
        else CHECK_EQ(status, GALE_NO_MEMORY);
        gale_picture_destroy(&out);
        if (!reached) break;
    }
    gale_picture_destroy(&in);
    gale_picture_destroy(&good);
    finish(&man, &n);
}

TEST(faults)
{
    gale__parallel_set_width(2);
    fail_each(1, UINT64_MAX);       /* the device keeps something from its first use */
    gale_memory_trim(the_device()); /* how many blocks its pool has depends on which lanes met */
    int64_t live = gale__alloc_live();
    fail_each(2, UINT64_MAX);
    fail_each(1, UINT64_MAX); /* and the same side by side */
    gale_memory_trim(the_device());
    CHECK_EQ(gale__alloc_live(), live);
    gale__parallel_set_width(0);
}

/* A part of the picture at half its size, rounded to 8 bits: wide x high. */
static gale_picture *halved(const gale_picture *p, int64_t x0, int64_t y0, int64_t wide, int64_t high)
{
    gale_picture *made = NULL;
    float *from = gale__calloc((size_t)(wide * high * 12), sizeof *from),
          *to = gale__calloc((size_t)(wide * high * 3), sizeof *to);
    for (int64_t i = 0; i < wide * high * 12; i++) {
        int64_t x = i % (2 * wide), y = i / (2 * wide) % (2 * high), c = i / (4 * wide * high);
        from[i] = ((uint8_t *)p->data)[((y0 + y) * p->width + x0 + x) * 3 + c] / 255.0f;
    }
    CHECK_OK(gale__planes_resize(the_device(), from, 3, 2 * wide, 2 * high, wide, high, to));
    CHECK_OK(gale_picture_create(wide, high, 3, GALE_U8, &made));
    gale__picture_from_planes(made, 3, false, to, NULL);
    gale__free(from);
    gale__free(to);
    return made;
}

/* The network of the shared data, file to picture: on a photograph that it never saw it must beat cubic interpolation
 * by what it was trained for. */
TEST(real_gain)
{
    char model[1024], photo[1024];
    gale_upscaler *u = NULL;
    gale_picture *in = NULL, *large = NULL, *small = NULL, *out = NULL, *cubic = NULL;
    gale_picture_difference d, plain;
    snprintf(model, sizeof model, "%s/models/zoom2x-ctrl.onnx", test_data());
    snprintf(photo, sizeof photo, "%s/photos/casa-mila.jpg", test_data());
    if (!gale__file_exists(model) || !gale__file_exists(photo)) SKIP("%s is not here", model);
    if (!gale__format_of_name("jpeg")->read) SKIP("built without JPEG");
    if (test_light()) SKIP("a real network takes too long here");
    CHECK_OK(gale_picture_read(photo, NULL, &in));
    CHECK_OK(gale_upscaler_open(model, the_device(), NULL, &u));
    if (in && u) {
        large = halved(in, 700, 500, 320, 240);
        small = halved(large, 0, 0, 160, 120);
        float *planes = gale__calloc(160 * 120 * 3, sizeof *planes), *wide = gale__calloc(320 * 240 * 3, sizeof *wide);
        gale__picture_to_planes(small, 3, false, planes, NULL);
        CHECK_OK(gale__planes_resize(the_device(), planes, 3, 160, 120, 320, 240, wide));
        CHECK_OK(gale_picture_create(320, 240, 3, GALE_U8, &cubic));
        gale__picture_from_planes(cubic, 3, false, wide, NULL);
        CHECK_OK(gale_upscale(u, small, NULL, NULL, &out));
        if (out && CHECK_OK(gale_picture_compare(out, large, &d, 1, NULL)) &&
            CHECK_OK(gale_picture_compare(cubic, large, &plain, 1, NULL))) {
            printf("zoom2x-ctrl: %.2f dB, cubic %.2f dB\n", d.colours.psnr, plain.colours.psnr);
            CHECK(d.colours.psnr > plain.colours.psnr + 1.5);
        }
        CHECK_OK(gale_upscaler_set(u, "denoise=0.5"));
        CHECK_FAILS(gale_upscaler_set(u, "sharpen=0.5"), INVALID);
        gale__free(planes);
        gale__free(wide);
    }
    gale_upscaler_close(&u);
    gale_picture_destroy(&in);
    gale_picture_destroy(&large);
    gale_picture_destroy(&small);
    gale_picture_destroy(&out);
    gale_picture_destroy(&cubic);
}

TEST(last)
{
    gale_device_close(&network_device);
    CHECK(!network_device);
}

/* The network inside pads with black; the padding around the picture keeps that from its edges. */
TEST(edges_have_no_tint)
{
    static const uint8_t colours[][3] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {20, 200, 90}};
    static const int64_t sides[] = {1, 3, 40};
    gale_upscaler *u = NULL;
    if (!CHECK_OK(gale_upscaler_open(NULL, the_device(), NULL, &u))) return;
    for (int i = 0; i < 12; i++) {
        const uint8_t *c = colours[i % 4];
        gale_picture *p = NULL, *out = NULL;
        gale_upscale_options o = GALE_UPSCALE_OPTIONS;
        o.no_check = true;
        CHECK_OK(gale_picture_create(sides[i / 4], sides[i / 4], 3, GALE_U8, &p));
        for (int64_t k = 0; k < p->width * p->height * 3; k++) ((uint8_t *)p->data)[k] = c[k % 3];
        int worst = 255;
        if (CHECK_OK(gale_upscale(u, p, &o, NULL, &out))) worst = 0;
        for (int64_t k = 0; out && k < out->width * out->height * 3; k++) {
            int d = abs(((uint8_t *)out->data)[k] - c[k % 3]);
            if (d > worst) worst = d;
        }
        CHECK(worst <= 1);
        gale_picture_destroy(&p);
        gale_picture_destroy(&out);
    }
    gale_upscaler_close(&u);
}

TESTS(ROW(every_kind), ROW(soft_edge), ROW(luma_alone), ROW(tiled_equals_whole), ROW(blended_anywhere), ROW(precisions),
    ROW(wrong_multiple), ROW(resizing), ROW(side_by_side), ROW(batches_that_are_none), ROW(cancelled_and_checked),
    ROW(stopped_inside_a_tile), ROW(by_memory), ROW(faults), ROW(real_gain), ROW(last), ROW(edges_have_no_tint))
