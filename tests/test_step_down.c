/* A device that cannot do the work hands it to the next of its chain: lost, too small, or without something that the
 * network needs; said aloud, once, or refused where the chain is strict. */
#include "device/null/null.h"
#include "jobs/upscale/upscale.h"
#include "network_make.h"
#include "picture_make.h"

static char lines[4096]; /* what was said as a warning */

static void keep(void *user, int level, const char *line)
{
    (void)user;
    if (level == 2) snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s\n", line);
}

static const char manifest[] = "params: {scale_factor: 2, tile_size: 32, tile_overlap: 4}";

/* A network that doubles pictures, and adds nothing by way of `kilobytes` of weights. */
static void make_bytes(int kilobytes, gale__str *bytes)
{
    maker m;
    char shape[32];
    int n = kilobytes * 256;
    picture_net(&m, "n,3,h,w", "n,3,a,b");
    twice(&m, "x", n ? "t" : "y");
    if (n) {
        float *many = make_room(&m, (size_t)n * sizeof *many);
        for (int i = 0; i < n; i++) many[i] = (float)(i % 7);
        snprintf(shape, sizeof shape, "%d", n);
        make_initializer(&m, make_floats(&m, "many", shape, many, (size_t)n));
        make_attr_i(&m, make_node(&m, "ReduceMin", "many", "none"), "keepdims", 0);
        make_node(&m, "Add", "t,none", "y");
    }
    CHECK_OK(make_encode(&m, bytes));
    make_end(&m);
}

static gale_device *open_chain(const char *chain, bool strict, uint64_t limit_bytes)
{
    gale_device_options o = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    o.chain = chain;
    o.strict = strict;
    o.pool_limit_bytes = limit_bytes;
    lines[0] = 0;
    gale_log_set(keep, NULL, 0);
    CHECK_OK(gale_device_open(&o, &device));
    return device;
}

static void check_twice(const gale_picture *in, const gale_picture *out)
{
    int64_t wrong = 0;
    if (!CHECK(out && out->width == 2 * in->width && out->height == 2 * in->height)) return;
    for (int64_t i = 0; i < out->width * out->height * 3; i++)
        wrong += ((uint8_t *)out->data)[i] !=
                 ((uint8_t *)in->data)[(i / 3 / out->width / 2 * in->width + i / 3 % out->width / 2) * 3 + i % 3];
    CHECK_EQ(wrong, 0);
}

static const char *place(const gale_upscaler *u) { return gale_device_get_info(gale_upscaler_device(u))->backend; }

/* The device goes in the middle of a picture. */
TEST(lost)
{
    for (int strict = 0; strict < 2; strict++) {
        gale__str bytes = {0};
        gale_upscaler *u = NULL;
        gale_picture *in = picture_make(40, 30, 3, GALE_U8), *out = NULL;
        gale_device *device = open_chain("null,cpu", strict, 0);
        make_bytes(0, &bytes);
        if (CHECK_OK(gale_upscaler_from_memory(bytes.text, bytes.length, manifest, device, NULL, &u))) {
            CHECK_TEXT(place(u), "null");
            gale__null_fail_launch(1);
            gale_status status = gale_upscale(u, in, NULL, NULL, &out);
            gale__null_fail_launch(0);
            if (strict) {
                CHECK_EQ(status, GALE_DEVICE_LOST);
                CHECK(strstr(gale_error(), "injected failure); --strict: no fallback to cpu") && !out);
                CHECK_TEXT(lines, "");
            } else if (CHECK_OK(status)) {
                CHECK_TEXT(place(u), "cpu");
                CHECK(strstr(lines, "injected failure); falling back to cpu\n"));
                CHECK(strstr(gale_device_why(gale_upscaler_device(u)), "cpu: the next provider"));
                check_twice(in, out);
                gale_picture_destroy(&out);
                lines[0] = 0;
                CHECK_OK(gale_upscale(u, in, NULL, NULL, &out)); /* and stays there, without another word */
                check_twice(in, out);
                CHECK_TEXT(lines, "");
            }
        }
        gale_log_set(NULL, NULL, 2);
        gale_picture_destroy(&in);
        gale_picture_destroy(&out);
        gale_upscaler_close(&u);
        gale_device_close(&device);
        gale__str_finish(&bytes);
    }
}

/* It cannot even try the network; and the last of the chain has nobody to hand it to. */
TEST(lost_at_once)
{
    gale__str bytes = {0};
    gale_upscaler *u = NULL;
    make_bytes(0, &bytes);
    for (int alone = 0; alone < 2; alone++) {
        gale_device *device = open_chain(alone ? "null" : "null,cpu", false, 0);
        gale__null_fail_launch(1);
        gale_status status = gale_upscaler_from_memory(bytes.text, bytes.length, manifest, device, NULL, &u);
        gale__null_fail_launch(0);
        CHECK_EQ(status, alone ? GALE_DEVICE_LOST : GALE_OK);
        CHECK_EQ(strstr(lines, "; falling back to cpu") != NULL, !alone);
        if (u) CHECK_TEXT(place(u), "cpu");
        gale_upscaler_close(&u);
        gale_log_set(NULL, NULL, 2);
        gale_device_close(&device);
    }
    gale__str_finish(&bytes);
}

/* What no device can do is an error without steps: those would say that the device is to blame. */
TEST(not_of_the_device)
{
    maker m;
    gale__str bytes = {0};
    gale_upscaler *u = NULL;
    gale_device *device = open_chain("null,cpu", false, 0);
    picture_net(&m, "n,h,w", "n,h,w");
    make_node(&m, "Relu", "x", "y");
    CHECK_OK(make_encode(&m, &bytes));
    CHECK_FAILS(gale_upscaler_from_memory(bytes.text, bytes.length, NULL, device, NULL, &u), UNSUPPORTED);
    CHECK(strstr(gale_error(), "neither a picture"));
    CHECK_TEXT(lines, "");
    gale_log_set(NULL, NULL, 2);
    make_end(&m);
    gale__str_finish(&bytes);
    gale_device_close(&device);
}

/* Weights that a small pool does not hold: the CPU reads them where they lie. */
static void try_small(const char *chain, bool strict)
{
    gale__str bytes = {0};
    gale_upscaler *u = NULL;
    gale_picture *in = picture_make(40, 30, 3, GALE_U8), *out = NULL;
    gale_device *device = open_chain(chain, strict, 1 << 20);
    make_bytes(2048, &bytes);
    gale_status status = gale_upscaler_from_memory(bytes.text, bytes.length, manifest, device, NULL, &u);
    if (status == GALE_OK) status = gale_upscale(u, in, NULL, NULL, &out);
    gale_log_set(NULL, NULL, 2);
    CHECK_EQ(status, strict ? GALE_NO_MEMORY : GALE_OK);
    if (strict) CHECK(strstr(gale_error(), "out of memory") && strstr(gale_error(), "; --strict: no fallback to cpu"));
    else CHECK(strstr(lines, "out of memory: ") && strstr(lines, "; falling back to cpu\n"));
    if (!strict && CHECK(u)) {
        CHECK_TEXT(place(u), "cpu");
        check_twice(in, out);
    }
    gale_picture_destroy(&in);
    gale_picture_destroy(&out);
    gale_upscaler_close(&u);
    gale_device_close(&device);
    gale__str_finish(&bytes);
}

TEST(too_small)
{
    static const char *const chains[] = {"vulkan,cpu", "opencl,cpu"};
    int tried = 0;
    for (int i = 0; i < 2; i++) {
        gale_device *device = NULL;
        gale_device_options o = GALE_DEVICE_OPTIONS;
        char name[8];
        snprintf(name, sizeof name, "%.6s", chains[i]);
        o.chain = name;
        if (gale_device_open(&o, &device) != GALE_OK) continue;
        gale_device_close(&device);
        tried++;
        try_small(chains[i], false);
        try_small(chains[i], true);
    }
    if (!tried) SKIP("neither Vulkan nor OpenCL has a device here");
}

TESTS(ROW(lost), ROW(lost_at_once), ROW(not_of_the_device), ROW(too_small))
