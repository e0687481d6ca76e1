/* What a picture's condition is found to be, and that "auto" cleans what needs it and leaves the rest alone. */
#include "base/thread.h"
#include "gale/upscale.h"
#include "jobs/upscale/cleaning.h"
#include "network_make.h"
#include "picture_make.h"

/* Bars, a disc and soft slopes: flat places and edges, no texture.  `noise` in 8-bit levels, its own for each sample or
 * one for all colours of a pixel. */
static gale_picture *scene(int64_t w, int64_t h, int channels, gale_type type, double noise, bool grey)
{
    gale_picture *p = NULL;
    uint32_t seed = 5;
    float sum = 0;
    if (gale_picture_create(w, h, channels, type, &p) != GALE_OK) return NULL;
    for (int64_t i = 0; i < w * h * channels; i++) {
        int c = (int)(i % channels);
        int64_t x = i / channels % w, y = i / channels / w;
        double far = hypot((double)(x - w / 2), (double)(y - h / 2));
        float v = 0.35f + 0.2f * sinf(0.03f * (float)x + (float)c) * cosf(0.02f * (float)y) + (x / 37 % 2 ? 0.12f : 0) +
                  (far < (double)h / 4 ? 0.15f : 0);
        if (!grey || !c) sum = 0;
        for (int k = 0; k < 12 && (!grey || !c); k++) sum += (float)(picture_random(&seed) % 4096) / 4096 - 0.5f;
        bool alpha = c == channels - 1 && channels % 2 == 0;
        v = alpha ? 0.2f + 0.8f * (float)x / (float)w : v + sum * (float)noise / 255;
        gale__samples_from_f32(type, &v, (char *)p->data + (size_t)i * gale_type_size(type), 1);
    }
    return p;
}

/* Through a JPEG file; NULL where this build has none. */
static gale_picture *compressed(const gale_picture *p, int quality)
{
    void *data = NULL;
    size_t size = 0;
    gale_picture *out = NULL;
    gale_picture_write_options o = {.format = "jpeg", .quality = quality};
    if (gale_picture_to_memory(p, &o, &data, &size) == GALE_OK)
        CHECK_OK(gale_picture_from_memory(data, size, NULL, &out));
    gale_free(data);
    return out;
}

/* From this pixel on, as one that was never a JPEG. */
static gale_picture *cropped(const gale_picture *p, int64_t left, int64_t top)
{
    gale_picture *out = NULL;
    size_t pixel = (size_t)p->channels * gale_type_size(p->type);
    if (!CHECK_OK(gale_picture_create(p->width - left, p->height - top, p->channels, p->type, &out))) return NULL;
    for (int64_t y = 0; y < out->height; y++)
        memcpy(gale__picture_row(out, y), (char *)gale__picture_row(p, y + top) + (size_t)left * pixel,
            (size_t)out->width * pixel);
    return out;
}

static gale_picture_condition condition(const gale_picture *p)
{
    gale_picture_condition c = {0};
    CHECK_OK(gale_picture_examine(p, &c));
    return c;
}

TEST(noise_is_measured)
{
    static const double levels[] = {0, 2, 5, 10, 20};
    for (int i = 0; i < 5; i++) {
        gale_picture *grey = scene(200, 160, 3, GALE_U8, levels[i], true),
                     *colour = scene(200, 160, 3, GALE_U8, levels[i], false);
        double one = condition(grey).noise, three = condition(colour).noise;
        CHECK(fabs(one - levels[i]) < 0.5 + 0.1 * levels[i]);
        CHECK(fabs(three - 0.67 * levels[i]) < 0.5 + 0.1 * levels[i]); /* luma is a mean of three */
        CHECK_EQ(condition(grey).blocks < 0.05, true);
        gale_picture_destroy(&grey), gale_picture_destroy(&colour);
    }
}

TEST(every_kind_is_measured)
{
    static const gale_type types[] = {GALE_U8, GALE_U16, GALE_F16, GALE_F32};
    for (int t = 0; t < 4; t++)
        for (int c = 1; c <= 4; c++) {
            gale_picture *p = scene(130, 90, c, types[t], 8, true), *linear = NULL;
            CHECK(fabs(condition(p).noise - 8) < 1);
            if (CHECK_OK(gale__picture_make(p, (gale__picture_kind){GALE_F32, c, true, false}, &linear)))
                CHECK(fabs(condition(linear).noise - 8) < 1);
            gale_picture_destroy(&p), gale_picture_destroy(&linear);
        }
    gale_picture *small = scene(63, 300, 3, GALE_U8, 20, true), *broken = scene(80, 80, 1, GALE_F32, 5, true);
    gale_picture_condition c = condition(small);
    CHECK(!c.jpeg_quality && c.noise == 0 && c.blocks == 0);
    for (int i = 0; i < 6400; i += 7) ((float *)broken->data)[i] = i % 2 ? NAN : INFINITY;
    CHECK(isfinite(condition(broken).noise) && isfinite(condition(broken).blocks));
    gale_picture_destroy(&small), gale_picture_destroy(&broken);
}

TEST(compression_is_measured)
{
    static const int qualities[] = {1, 10, 30, 50, 75, 90, 95, 100};
    gale_picture *p = scene(240, 200, 3, GALE_U8, 1, false);
    for (int i = 0; i < 8; i++) {
        gale_picture *jpeg = compressed(p, qualities[i]), *cut;
        if (!jpeg) {
            gale_picture_destroy(&p);
            SKIP("this build writes no JPEG");
        }
        CHECK_EQ(jpeg->jpeg_quality, qualities[i]);
        cut = cropped(jpeg, 3, 5);
        gale_picture_condition whole = condition(jpeg), part = condition(cut);
        CHECK(whole.jpeg_quality == qualities[i] && !part.jpeg_quality);
        CHECK(fabs(whole.blocks - part.blocks) < 0.1 + 0.2 * whole.blocks); /* wherever the grid begins */
        if (qualities[i] >= 10 && qualities[i] <= 50) CHECK(part.blocks > 0.1 && gale__cleaning_is_needed(&part));
        if (qualities[i] <= 92) CHECK(gale__cleaning_is_needed(&whole));
        gale_picture_destroy(&jpeg), gale_picture_destroy(&cut);
    }
    CHECK(condition(p).blocks < 0.05);
    gale_picture_destroy(&p);
}

/* Squares on a grid of their own, a diagram on squared paper, and letters: strokes on white that nearly touches them.
 */
static float drawing(int kind, int64_t x, int64_t y)
{
    uint32_t seed = (uint32_t)(x / 8 * 31 + y / 8 * 7919 + 1);
    if (kind == 0) return (float)(picture_random(&seed) % 8) / 8;
    if (kind == 1) return x % 8 == 0 || y % 8 == 0 ? 0.75f : fabs((double)(x - y)) < 2 ? 0.1f : 1;
    return x % 7 < 4 && y % 13 < 9 && (x * 5 / 7 + y * 3) % 4 < 2 ? 0 : 1;
}

TEST(drawings_are_left_alone)
{
    for (int kind = 0; kind < 3; kind++) {
        gale_picture *p = NULL;
        if (!CHECK_OK(gale_picture_create(200, 160, 1, GALE_F32, &p))) return;
        for (int i = 0; i < 200 * 160; i++) ((float *)p->data)[i] = drawing(kind, i % 200, i / 200);
        gale_picture_condition c = condition(p);
        CHECK(!gale__cleaning_is_needed(&c));
        gale_picture_destroy(&p);
    }
}

TEST(reasons)
{
    static const struct {
        gale_picture_condition found;
        const char *reason;
    } rows[] = {{{75, 0, 0.3}, "JPEG quality 75"}, {{0, 0, 0.3}, "JPEG blocks"}, {{0, 3.24, 0}, "noise 3.2"},
        {{50, 4, 0}, "JPEG quality 50, noise 4.0"}, {{0, 1, 0.03}, ""}, {{98, 1, 0}, ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        gale__cleaning_reason(&rows[i].found, text, sizeof text);
        CHECK_TEXT(text, rows[i].reason);
        CHECK_EQ(gale__cleaning_is_needed(&rows[i].found), *rows[i].reason != 0);
    }
}

TEST(examining_without_memory)
{
    gale_picture *p = scene(80, 80, 3, GALE_U8, 5, true);
    int64_t live = gale__alloc_live();
    gale_picture_condition c = {.noise = -1};
    for (uint64_t n = 1;; n++) {
        gale__alloc_fail_at(n);
        gale_status status = gale_picture_examine(p, &c);
        bool reached = gale__alloc_count() >= n;
        gale__alloc_fail_at(0);
        if (!reached) break;
        CHECK_EQ(status, GALE_NO_MEMORY);
        CHECK(c.noise == -1);
    }
    CHECK_EQ(gale__alloc_live(), live);
    gale_picture_destroy(&p);
}

static bool is_same(const gale_picture *a, const gale_picture *b)
{
    return a && b && a->width == b->width && a->height == b->height && a->channels == b->channels &&
           a->type == b->type && !memcmp(a->data, b->data, gale__picture_row_bytes(a) * (size_t)a->height);
}

static double psnr(const gale_picture *a, const gale_picture *b)
{
    gale_picture_difference d = {0};
    CHECK_OK(gale_picture_compare(a, b, &d, 1, NULL));
    return d.colours.psnr;
}

/* Enlarges by "auto" with this much cleaning; the caller's to destroy. */
static gale_picture *enlarged(
    gale_upscaler *u, const gale_picture *in, double clean, int64_t width, gale_upscale_report *r)
{
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_picture *out = NULL;
    o.clean = clean;
    o.width = width;
    CHECK_OK(gale_upscale(u, in, &o, r, &out));
    return out;
}

TEST(clean_pictures_are_left_alone)
{
    gale_upscaler *automatic = NULL, *plain = NULL;
    gale_upscale_report r;
    gale_picture *in = scene(200, 160, 3, GALE_U8, 0, true), *a, *b, *c;
    if (!CHECK_OK(gale_upscaler_open("auto", the_device(), NULL, &automatic))) return;
    if (!CHECK_OK(gale_upscaler_open(NULL, the_device(), NULL, &plain))) return;
    a = enlarged(automatic, in, 0, 0, &r);
    if (!CHECK(r.examined && r.cleaned == 0 && r.passes == 1 && r.tiles == 1))
        printf("found noise %.2f, blocks %.3f\n", r.found.noise, r.found.blocks);
    b = enlarged(plain, in, 0, 0, &r);
    CHECK(!r.examined && is_same(a, b));
    c = enlarged(automatic, in, GALE_CLEAN_NONE, 200, &r); /* nothing to do */
    CHECK(!r.examined && r.tiles == 0 && is_same(c, in));
    gale_picture_destroy(&a), gale_picture_destroy(&b), gale_picture_destroy(&c), gale_picture_destroy(&in);
    gale_upscaler_close(&automatic), gale_upscaler_close(&plain);
}

TEST(noisy_pictures_are_cleaned)
{
    gale_upscaler *u = NULL;
    gale_upscale_report r;
    gale_picture *truth = scene(96, 88, 3, GALE_U8, 0, true), *small = scene(96, 88, 3, GALE_U8, 15, false);
    if (!CHECK_OK(gale_upscaler_open("auto", the_device(), NULL, &u))) return;
    gale_picture *cleaned = enlarged(u, small, 0, 96, &r), *half = enlarged(u, small, 0.5, 96, &r);
    CHECK(r.cleaned == 0.5 && !r.examined && r.tiles == 1);
    double before = psnr(small, truth), between = psnr(half, truth), after = psnr(cleaned, truth);
    printf("noise 15: %.2f dB, half cleaned %.2f dB, cleaned %.2f dB\n", before, between, after);
    CHECK(after > before + 6 && between > before + 2 && between < after);
    gale_picture *large = enlarged(u, small, 0, 0, &r), *plain = enlarged(u, small, GALE_CLEAN_NONE, 0, NULL),
                 *four = enlarged(u, small, 0, 384, &r);
    CHECK(r.cleaned == 1 && r.examined && r.passes == 2 && r.found.noise > 8);
    CHECK(large->width == 192 && four->width == 384 && four->height == 352 && !is_same(large, plain));
    gale_picture_destroy(&large), gale_picture_destroy(&plain), gale_picture_destroy(&four);
    gale_picture_destroy(&cleaned), gale_picture_destroy(&half);
    gale_picture_destroy(&truth), gale_picture_destroy(&small);
    gale_upscaler_close(&u);
}

/* Blocks and ringing go, with the file's own quality and with the grid anywhere; the enlarged picture gains as well. */
TEST(compressed_pictures_are_cleaned)
{
    gale_upscaler *u = NULL;
    gale_upscale_report r;
    gale_picture *truth = scene(203, 165, 3, GALE_U8, 0, true), *jpeg = compressed(truth, 50);
    if (jpeg && CHECK_OK(gale_upscaler_open("auto", the_device(), NULL, &u)))
        for (int off = 0; off < 2; off++) {
            gale_picture *before = cropped(jpeg, off ? 3 : 0, off ? 5 : 0), *after,
                         *wanted = cropped(truth, off ? 3 : 0, off ? 5 : 0);
            after = enlarged(u, before, 1, before->width, &r);
            printf("JPEG 50: %.2f dB, cleaned %.2f dB\n", psnr(before, wanted), psnr(after, wanted));
            CHECK(psnr(after, wanted) > psnr(before, wanted) + 1);
            gale_picture_destroy(&before), gale_picture_destroy(&after), gale_picture_destroy(&wanted);
        }
    bool written = jpeg != NULL;
    gale_picture_destroy(&truth), gale_picture_destroy(&jpeg);
    gale_upscaler_close(&u);
    if (!written) SKIP("this build writes no JPEG");
}

/* The network hears of the file's quality, from "auto" and alone; for the same pixels from elsewhere it may be said. */
TEST(quality_is_told)
{
    CHECK(gale__cleaning_quality(0) == 0 && gale__cleaning_quality(75) == 0.75f);
    CHECK(gale__cleaning_quality(1) == 0.3f && gale__cleaning_quality(100) == 0.95f);
    gale_upscaler *u = NULL, *alone = NULL;
    gale_picture *truth = scene(100, 96, 3, GALE_U8, 0, true), *jpeg = compressed(truth, 40);
    bool written = jpeg != NULL;
    if (jpeg && CHECK_OK(gale_upscaler_open("auto", the_device(), NULL, &u)) &&
        CHECK_OK(gale_upscaler_open("clean", the_device(), NULL, &alone))) {
        gale_picture *pixels = cropped(jpeg, 0, 0), *known = enlarged(u, jpeg, 0, 100, NULL),
                     *unknown = enlarged(u, pixels, 1, 100, NULL), *same = enlarged(alone, jpeg, 0, 0, NULL);
        CHECK(is_same(known, same) && !is_same(known, unknown));
        CHECK_OK(gale_upscaler_set(alone, "jpeg_quality=0.4"));
        gale_picture *said = enlarged(alone, pixels, 0, 0, NULL);
        CHECK(is_same(known, said));
        gale_picture_destroy(&pixels), gale_picture_destroy(&known), gale_picture_destroy(&unknown);
        gale_picture_destroy(&same), gale_picture_destroy(&said);
    }
    gale_picture_destroy(&truth), gale_picture_destroy(&jpeg);
    gale_upscaler_close(&u), gale_upscaler_close(&alone);
    if (!written) SKIP("this build writes no JPEG");
}

/* Type, alpha, light and notes of a picture survive cleaning; alpha to the bit. */
TEST(every_kind_is_cleaned)
{
    static const gale_type types[] = {GALE_U8, GALE_U16, GALE_F16, GALE_F32};
    gale_upscaler *u = NULL;
    if (!CHECK_OK(gale_upscaler_open("auto", the_device(), NULL, &u))) return;
    for (int t = 0; t < 4; t++)
        for (int c = 1 + t % 2; c <= 4; c += 2) {
            gale_upscale_report r;
            gale_picture *in = scene(65, 67, c, types[t], 10, true), *out;
            in->linear = t == 3;
            in->dpi_x = 300;
            out = enlarged(u, in, 0, 65, &r);
            CHECK(out && out->type == in->type && out->channels == c && out->linear == in->linear && out->dpi_x == 300);
            size_t size = gale_type_size(types[t]);
            for (int64_t i = c - 1; out && c % 2 == 0 && i < 65 * 67 * c; i += c)
                if (!CHECK(!memcmp((char *)in->data + (size_t)i * size, (char *)out->data + (size_t)i * size, size)))
                    break;
            gale_picture_destroy(&in), gale_picture_destroy(&out);
        }
    gale_upscaler_close(&u);
}

TEST(wrong_amounts)
{
    static const double wrong[] = {-1, 1.01, 1e9};
    gale_upscaler *u = NULL;
    gale_picture *in = scene(64, 64, 1, GALE_U8, 0, true), *out = NULL;
    if (!CHECK_OK(gale_upscaler_open("auto", the_device(), NULL, &u))) return;
    for (int i = 0; i < 4; i++) {
        gale_upscale_options o = GALE_UPSCALE_OPTIONS;
        o.clean = i < 3 ? wrong[i] : (double)NAN;
        CHECK_FAILS(gale_upscale(u, in, &o, NULL, &out), INVALID);
    }
    CHECK(!out);
    gale_picture_destroy(&in);
    gale_upscaler_close(&u);
}

/* Two tiles of a cleaned picture meet without a seam. */
TEST(tiles_of_the_cleaner)
{
    gale_upscaler *u = NULL;
    gale_picture *in = scene(210, 96, 3, GALE_U8, 12, false), *whole = NULL, *tiled = NULL;
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_upscale_report r;
    if (!CHECK_OK(gale_upscaler_open("clean", the_device(), NULL, &u))) return;
    o.tile = GALE_TILE_WHOLE;
    CHECK_OK(gale_upscale(u, in, &o, NULL, &whole));
    o.tile = 160;
    CHECK_OK(gale_upscale(u, in, &o, &r, &tiled));
    CHECK(r.tiles == 2);
    CHECK(psnr(whole, tiled) > 60);
    printf("tiles of 160: %.1f dB from the whole picture\n", psnr(whole, tiled));
    gale_picture_destroy(&in), gale_picture_destroy(&whole), gale_picture_destroy(&tiled);
    gale_upscaler_close(&u);
}

/* Without memory at some point: an error or, where less memory does it as well, the picture; nothing is lost. */
TEST(cleaning_without_memory)
{
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_picture *in = scene(66, 64, 4, GALE_U8, 12, false), *good = NULL;
    int64_t live = 0;
    o.width = 66;
    o.clean = 0.5;
    for (int round = 0; round < 2; round++) { /* what the device keeps is there after the first */
        gale_upscaler *u = NULL;
        if (!CHECK_OK(gale_upscaler_open("auto", the_device(), NULL, &u))) break;
        if (!good) good = enlarged(u, in, 0.5, 66, NULL);
        for (uint64_t n = 1; round; n += 1 + (test_sanitized() && test_brief() ? 3 * n : n / 3)) {
            gale_picture *out = NULL;
            gale__alloc_fail_at(n);
            gale_status status = gale_upscale(u, in, &o, NULL, &out);
            bool reached = gale__alloc_count() >= n;
            gale__alloc_fail_at(0);
            if (status == GALE_OK) CHECK(is_same(out, good) || psnr(out, good) > 45); /* in smaller tiles */
            else CHECK_EQ(status, GALE_NO_MEMORY);
            gale_picture_destroy(&out);
            if (!reached) break;
        }
        gale_upscaler_close(&u);
        if (!round) live = gale__alloc_live();
    }
    CHECK(gale__alloc_live() <= live); /* the device may have let go of something */
    gale_picture_destroy(&good), gale_picture_destroy(&in);
}

TESTS(ROW(noise_is_measured), ROW(every_kind_is_measured), ROW(compression_is_measured), ROW(drawings_are_left_alone),
    ROW(reasons), ROW(examining_without_memory), ROW(clean_pictures_are_left_alone), ROW(noisy_pictures_are_cleaned),
    ROW(compressed_pictures_are_cleaned), ROW(quality_is_told), ROW(every_kind_is_cleaned), ROW(wrong_amounts),
    ROW(tiles_of_the_cleaner), ROW(cleaning_without_memory))
