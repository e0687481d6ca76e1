/* `gale exr` as a library: files written and read again, levels, numbers, many files at once, and what happens when
 * memory runs out anywhere. */
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/thread.h"
#include "device/front.h"
#include "gale/exr.h"
#include "gale/graph.h"
#include "jobs/exr/exr_rates.h"
#include "jobs/exr/denoise.h"
#include "jobs/exr/unzip.h"
#include "test.h"
#include <math.h>
#include <unistd.h>

enum { W = 37, H = 21 };
static gale_device *device;
static char folder[] = "/tmp/gale-exr-XXXXXX";

static const char *path_of(const char *name)
{
    static char paths[8][200];
    static int next;
    char *p = paths[next++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static float sample(int c, int i) { return (float)(c + 1) * 0.25f + (float)(i % 97) * 0.03125f - (c == 2 ? 1 : 0); }

/* R, G, B as half, Z as float, id as whole numbers; parts: 1 or 2. */
static gale_status write_file(const char *path, int parts, const char *compression, int tile)
{
    static uint16_t rgb[3][W * H];
    static float z[W * H];
    static uint32_t id[W * H];
    for (int i = 0; i < W * H; i++) {
        for (int c = 0; c < 3; c++) rgb[c][i] = gale__f32_to_f16(sample(c, i));
        z[i] = i % 111 ? sample(3, i) * 1e5f : i % 2 ? NAN : -INFINITY;
        id[i] = (uint32_t)i * 100003u;
    }
    const gale_exr_source colours[] = {{"R", GALE_F16, rgb[0]}, {"G", GALE_F16, rgb[1]}, {"B", GALE_F16, rgb[2]}};
    const gale_exr_source data[] = {{"Z", GALE_F32, z}, {"id", GALE_U32, id}};
    gale_exr_new_part p[2] = {{.name = parts > 1 ? "colour" : NULL,
                                  .data = {-3, 5, W - 4, H + 4},
                                  .display = {0, 0, W + 5, H + 9},
                                  .compression = compression,
                                  .tile_width = tile,
                                  .tile_height = tile,
                                  .channels = colours,
                                  .channel_count = 3},
        {.name = "data",
            .data = {0, 0, W - 1, H - 1},
            .compression = compression,
            .channels = data,
            .channel_count = 2}};
    return gale_exr_write(path, p, parts);
}

TEST(written_files_are_read)
{
    static const char *const ways[] = {"none", "rle", "zips", "zip", "piz", "pxr24"};
    for (int k = 0; k < 12; k++) {
        const char *path = path_of("a.exr");
        gale_exr *f = NULL;
        float got[W * H];
        uint32_t id[W * H];
        gale__parallel_set_width(1 + k % 3); /* chunks at a time */
        if (!CHECK_OK(write_file(path, 2, ways[k % 6], k < 6 ? 0 : 16)) || !CHECK_OK(gale_exr_open(path, NULL, &f)))
            continue;
        CHECK_EQ(gale_exr_part_count(f), 2);
        CHECK_TEXT(gale_exr_part_get(f, 0)->name, "colour");
        CHECK_EQ(gale_exr_part_get(f, 0)->data.x0, -3);
        CHECK_EQ(gale_exr_part_get(f, 0)->display.y1, H + 9);
        CHECK_OK(gale_exr_read(f, 0, 0, 0, &(gale_exr_target){"G", GALE_F32, got, 0, 0}, 1));
        for (int i = 0; i < W * H; i++) CHECK(got[i] == sample(1, i));
        CHECK_OK(gale_exr_read(f, 1, 0, 0, &(gale_exr_target){"id", GALE_U32, id, 0, 0}, 1));
        for (int i = 0; i < W * H; i++) CHECK_EQ(id[i], (uint32_t)i * 100003u);
        CHECK_FAILS(gale_exr_read(f, 0, 0, 0, &(gale_exr_target){"X", GALE_F32, got, 0, 0}, 1), NOT_FOUND);
        CHECK_FAILS(gale_exr_read(f, 0, 1, 1, &(gale_exr_target){"R", GALE_F32, got, 0, 0}, 1), NOT_FOUND);
        gale_exr_close(&f);
    }
    gale__parallel_set_width(0);
    CHECK_FAILS(write_file(path_of("a.exr"), 1, "zap", 0), INVALID);
}

/* Colours within the error of the format, everything else exactly; a plain and a noisy chunk. */
static void check_dwa(const char *compression, int tile, bool floats)
{
    enum { CHANNELS = 5 };
    static const char *const names[CHANNELS] = {"A", "B", "G", "R", "Z"};
    const gale_type colour = floats ? GALE_F32 : GALE_F16;
    const gale_type types[CHANNELS] = {colour, colour, colour, colour, GALE_F32};
    char *planes[CHANNELS];
    gale_exr_source sources[CHANNELS];
    float got[W * H];
    gale_exr *f = NULL;
    for (int c = 0; c < CHANNELS; c++) {
        planes[c] = calloc(W * H, 4);
        sources[c] = (gale_exr_source){names[c], types[c], planes[c]};
        for (int i = 0; i < W * H; i++)
            gale__store_f64(types[c], planes[c] + (size_t)i * gale_type_size(types[c]),
                c == 0 ? i / 300 / 2.0 : 0.1 + c * 0.3 + (i % W) * 0.05 + (i > 400 ? i * 7919 % 13 * 0.1 : 0));
    }
    gale_exr_new_part p = {.data = {0, 0, W - 1, H - 1},
        .compression = compression,
        .tile_width = tile,
        .tile_height = tile,
        .channels = sources,
        .channel_count = CHANNELS};
    if (CHECK_OK(gale_exr_write(path_of("d.exr"), &p, 1)) && CHECK_OK(gale_exr_open(path_of("d.exr"), NULL, &f)))
        for (int c = 0; c < CHANNELS; c++) {
            CHECK_OK(gale_exr_read(f, 0, 0, 0, &(gale_exr_target){names[c], GALE_F32, got, 0, 0}, 1));
            double worst = 0;
            for (int i = 0; i < W * H; i++) {
                double want = gale__load_f64(types[c], planes[c] + (size_t)i * gale_type_size(types[c]));
                worst = fmax(worst, fabs((double)got[i] - want) / (0.1 + want));
            }
            if (!CHECK(c == 0 || c == 4 ? worst == 0 : worst < 0.03))
                printf("  %s, %s: %g\n", compression, names[c], worst);
        }
    gale_exr_close(&f);
    for (int c = 0; c < CHANNELS; c++) free(planes[c]);
}

TEST(dwa_is_written)
{
    gale_exr *f = NULL;
    gale_status status = write_file(path_of("a.exr"), 1, "dwaa", 0);
    if (status == GALE_UNSUPPORTED) SKIP("%s", gale_error());
    CHECK_OK(status);
    CHECK_OK(gale_exr_open(path_of("a.exr"), NULL, &f));
    if (f) CHECK_TEXT(gale_exr_part_get(f, 0)->compression, "dwaa");
    gale_exr_close(&f);
    for (int i = 0; i < 8; i++) check_dwa(i % 2 ? "dwab" : "dwaa", i & 2 ? 16 : 0, i >= 4);
}

TEST(limits_come_before_memory)
{
    gale_exr *f = NULL;
    float got[W * H];
    gale_exr_limits small = {.max_pixels = W * H - 1};
    CHECK_OK(write_file(path_of("a.exr"), 1, NULL, 0));
    if (!CHECK_OK(gale_exr_open(path_of("a.exr"), &small, &f))) return;
    CHECK_FAILS(gale_exr_read(f, 0, 0, 0, &(gale_exr_target){"R", GALE_F32, got, 0, 0}, 1), LIMIT);
    gale_exr_close(&f);
    CHECK_FAILS(gale_exr_open(path_of("none.exr"), NULL, &f), NOT_FOUND);
    CHECK_FAILS(gale_exr_from_memory("not an EXR file at all", 22, NULL, &f), FORMAT);
}

/* What a pixel of the next level is, by the definition. */
static float reduced(gale_exr_reduce how, const float *in, int64_t w, int64_t h, int64_t x, int64_t y)
{
    float v[4];
    for (int k = 0; k < 4; k++) {
        int64_t i = 2 * x + k % 2, j = 2 * y + k / 2;
        v[k] = in[(j < h ? j : h - 1) * w + (i < w ? i : w - 1)];
    }
    if (how == GALE_EXR_BRIGHTEST) return fmaxf(fmaxf(v[0], v[1]), fmaxf(v[2], v[3]));
    if (how == GALE_EXR_DARKEST) return fminf(fminf(v[0], v[1]), fminf(v[2], v[3]));
    return (v[0] + v[1] + v[2] + v[3]) / 4;
}

TEST(levels_are_true)
{
    for (int how = 0; how < 3; how++)
        for (int up = 0; up < 2; up++) {
            gale_exr *f = NULL;
            gale_exr_mip_options o = {.reduce = (gale_exr_reduce)how, .round_up = up, .tile = 16};
            float before[W * H], now[W * H];
            int64_t w = W, h = H, nw = 0, nh = 0;
            CHECK_OK(write_file(path_of("a.exr"), 1, NULL, 0));
            if (!CHECK_OK(gale_exr_open(path_of("a.exr"), NULL, &f))) return;
            CHECK_OK(gale_exr_mip(device, f, 0, &o, path_of("m.exr")));
            gale_exr_close(&f);
            if (!CHECK_OK(gale_exr_open(path_of("m.exr"), NULL, &f))) return;
            CHECK_EQ(gale_exr_part_get(f, 0)->levels_x, up ? 7 : 6);
            CHECK_EQ(gale_exr_part_get(f, 0)->round_up, up);
            for (int i = 0; i < W * H; i++) before[i] = sample(1, i);
            for (int l = 1; l < gale_exr_part_get(f, 0)->levels_x; l++) {
                CHECK_OK(gale_exr_level_size(f, 0, l, l, &nw, &nh));
                CHECK_OK(gale_exr_read(f, 0, l, l, &(gale_exr_target){"G", GALE_F32, now, 0, 0}, 1));
                for (int64_t i = 0; i < nw * nh; i++) {
                    float want = reduced(o.reduce, before, w, h, i % nw, i / nw);
                    if (!CHECK(fabsf(now[i] - want) <= 2e-3f * fmaxf(1, fabsf(want))))
                        printf("  how %d up %d level %d at %d of %d x %d: %g, not %g\n", how, up, l, (int)i, (int)nw,
                            (int)nh, (double)now[i], (double)want);
                    now[i] = want;
                }
                memcpy(before, now, sizeof before);
                w = nw, h = nh;
            }
            gale_exr_close(&f);
        }
}

TEST(levels_keep_types)
{
    static const char *const names[] = {"R", "Z", "id"};
    static const gale_type types[] = {GALE_F16, GALE_F32, GALE_U32};
    for (int rip = 0; rip < 2; rip++) {
        uint16_t half[W * H];
        float z[W * H];
        uint32_t id[W * H], now[W * H];
        int64_t w, h;
        gale_exr *f = NULL;
        for (int i = 0; i < W * H; i++)
            half[i] = (uint16_t)(0x3c00 + i % 512), z[i] = (float)i, id[i] = 4000000001u + (uint32_t)i;
        const gale_exr_source s[3] = {{names[0], types[0], half}, {names[1], types[1], z}, {names[2], types[2], id}};
        gale_exr_new_part part = {
            .data = {0, 0, W - 1, H - 1}, .display = {0, 0, W - 1, H - 1}, .channels = s, .channel_count = 3};
        CHECK_OK(gale_exr_write(path_of("t.exr"), &part, 1));
        if (!CHECK_OK(gale_exr_open(path_of("t.exr"), NULL, &f))) return;
        gale_exr_mip_options o = {.levels = rip ? GALE_EXR_RIPMAP : GALE_EXR_MIPMAP, .reduce = GALE_EXR_DARKEST};
        CHECK_OK(gale_exr_mip(device, f, 0, &o, path_of("m.exr")));
        gale_exr_close(&f);
        if (!CHECK_OK(gale_exr_open(path_of("m.exr"), NULL, &f))) return;
        for (int i = 0; i < 3; i++) CHECK_EQ(gale_exr_part_get(f, 0)->channels[i].type, types[i]);
        CHECK_OK(gale_exr_read(f, 0, 0, 0, &(gale_exr_target){"id", GALE_U32, now, 0, 0}, 1));
        CHECK(!memcmp(now, id, sizeof id)); /* all digits */
        CHECK_OK(gale_exr_level_size(f, 0, 1, 1, &w, &h));
        CHECK_OK(gale_exr_read(f, 0, 1, 1, &(gale_exr_target){"id", GALE_U32, now, 0, 0}, 1));
        CHECK_EQ(now[w + 1], (uint32_t)(float)id[2 * W + 2]); /* computed in f32 */
        CHECK_OK(gale_exr_read(f, 0, 1, 1, &(gale_exr_target){"R", GALE_F16, half, 0, 0}, 1));
        CHECK_EQ(half[1], 0x3c02);
        gale_exr_close(&f);
    }
}

/* One axis halved, by the definition; gives its new extent. */
static int64_t halve(float *v, int64_t *w, int64_t *h, bool down, bool up)
{
    float out[W * H];
    int64_t n = down ? *h : *w, m = n < 2 ? 1 : (n + up) / 2, nw = down ? *w : m, nh = down ? m : *h;
    for (int64_t i = 0; i < nw * nh && n > 1; i++) {
        int64_t x = i % nw, y = i / nw, a = 2 * (down ? y : x), b = a + 1 < n ? a + 1 : a;
        out[i] = (down ? v[a * *w + x] + v[b * *w + x] : v[y * *w + a] + v[y * *w + b]) / 2;
    }
    if (n > 1) memcpy(v, out, (size_t)(nw * nh) * sizeof *v);
    *w = nw, *h = nh;
    return m;
}

TEST(rip_levels_are_true)
{
    for (int up = 0; up < 2; up++) {
        gale_exr *f = NULL;
        gale_exr_mip_options o = {.levels = GALE_EXR_RIPMAP, .round_up = up, .tile = 16};
        CHECK_OK(write_file(path_of("a.exr"), 1, NULL, 0));
        if (!CHECK_OK(gale_exr_open(path_of("a.exr"), NULL, &f))) return;
        CHECK_OK(gale_exr_mip(device, f, 0, &o, path_of("r.exr")));
        gale_exr_close(&f);
        if (!CHECK_OK(gale_exr_open(path_of("r.exr"), NULL, &f))) return;
        const gale_exr_part *p = gale_exr_part_get(f, 0);
        CHECK(p->levels == GALE_EXR_RIPMAP && p->levels_x == (up ? 7 : 6) && p->levels_y == (up ? 6 : 5));
        for (int i = 0; i < p->levels_x * p->levels_y; i++) {
            int64_t w = W, h = H, nw, nh;
            float want[W * H], got[W * H];
            for (int k = 0; k < W * H; k++) want[k] = sample(1, k);
            for (int k = 0; k < i / p->levels_x; k++) halve(want, &w, &h, true, up);
            for (int k = 0; k < i % p->levels_x; k++) halve(want, &w, &h, false, up);
            CHECK_OK(gale_exr_level_size(f, 0, i % p->levels_x, i / p->levels_x, &nw, &nh));
            CHECK(nw == w && nh == h);
            CHECK_OK(
                gale_exr_read(f, 0, i % p->levels_x, i / p->levels_x, &(gale_exr_target){"G", GALE_F32, got, 0, 0}, 1));
            for (int64_t k = 0; k < w * h; k++) CHECK(fabsf(got[k] - want[k]) <= 2e-3f * fmaxf(1, fabsf(want[k])));
        }
        gale_exr_close(&f);
    }
}

TEST(numbers_are_right)
{
    gale_exr *f = NULL;
    gale_exr_stats *s = NULL;
    int n = 0;
    double sum = 0, least = 1e9, largest = -1e9;
    CHECK_OK(write_file(path_of("a.exr"), 1, NULL, 0));
    if (!CHECK_OK(gale_exr_open(path_of("a.exr"), NULL, &f))) return;
    CHECK_OK(gale_exr_measure(device, f, 0, NULL, 0, 0, &s, &n));
    CHECK_EQ(n, 3);
    uint64_t negative = 0;
    for (int i = 0; i < W * H; i++) {
        double v = (double)sample(2, i);
        sum += v, least = fmin(least, v), largest = fmax(largest, v), negative += v < 0;
    }
    CHECK_TEXT(s[0].name, "B");
    CHECK(s[0].least == least && s[0].largest == largest);
    CHECK(fabs(s[0].mean - sum / (W * H)) < 1e-6);
    CHECK_EQ(s[0].negatives, negative);
    CHECK(s[0].percentiles[0] >= least && s[0].percentiles[8] <= largest);
    for (int i = 1; i < GALE_EXR_PERCENTILES; i++) CHECK(s[0].percentiles[i] >= s[0].percentiles[i - 1]);
    gale_free(s);
    gale_exr_comparison c;
    CHECK_OK(gale_exr_compare(f, f, GALE_EXR_COMPARE_PICTURE, &c));
    CHECK(c.same && c.count == 3 && c.picture && c.picture->width == W);
    gale_exr_comparison_finish(&c);
    gale_exr_close(&f);
}

/* The counts of a device give the same numbers, with one upload and one download; 777 samples are no whole vectors. */
static void check_on(gale_device *other, gale_exr *f, const gale_exr_stats *want)
{
    gale__copy_stats before, after;
    gale_exr_stats *s = NULL;
    int n = 0;
    gale__copy_get_stats(&before);
    if (!CHECK_OK(gale_exr_measure(other, f, 0, NULL, 0, GALE_EXR_MEASURE_STRICT, &s, &n))) return;
    gale__copy_get_stats(&after);
    CHECK(n == 3 && !memcmp(s, want, 3 * sizeof *s));
    CHECK_EQ(after.uploads - before.uploads, 1);
    CHECK_EQ(after.downloads - before.downloads, 1);
    gale_free(s);
}

/* Floats and integers, whose sums differ in their order; the second time nothing is planned. */
static void check_floats_on(gale_device *other, gale_exr *f)
{
    gale_exr_meter *m = NULL;
    gale_exr_stats *want = NULL, *s = NULL;
    int n = 0;
    CHECK_OK(gale_exr_meter_create(other, &m));
    CHECK_OK(gale_exr_measure(device, f, 1, NULL, 0, 0, &want, &n));
    for (int i = 0; i < 4; i++) {
        if (!CHECK_OK(gale_exr_meter_run(m, f, 1, NULL, 0, GALE_EXR_MEASURE_STRICT, &s, &n))) break;
        CHECK(fabs(s[i % 2].mean / want[i % 2].mean - 1) < 1e-12);
        CHECK(fabs(s[i % 2].deviation / want[i % 2].deviation - 1) < 1e-9);
        s[i % 2].mean = want[i % 2].mean, s[i % 2].deviation = want[i % 2].deviation;
        CHECK(!memcmp(&s[i % 2], &want[i % 2], sizeof *s));
        gale_free(s);
    }
    gale_free(want);
    gale_exr_meter_destroy(&m);
}

TEST(devices_count_alike)
{
    static const char *const chains[] = {"cuda", "opencl", "vulkan"};
    gale_exr *f = NULL;
    gale_exr_stats *s = NULL;
    int n = 0, found = 0;
    double sum = 0;
    CHECK_OK(write_file(path_of("a.exr"), 2, NULL, 0));
    if (!CHECK_OK(gale_exr_open(path_of("a.exr"), NULL, &f))) return;
    CHECK_FAILS(gale_exr_measure(device, f, 0, NULL, 0, GALE_EXR_MEASURE_STRICT, &s, &n), UNSUPPORTED);
    CHECK_OK(gale_exr_measure(device, f, 1, NULL, 0, 0, &s, &n));
    for (int i = 0; i < W * H; i++) sum += i % 111 ? (double)(sample(3, i) * 1e5f) : 0;
    CHECK(n == 2 && s[0].nans == 3 && s[0].infinities == 4 && s[1].zeros == 1 && s[1].negatives == 0);
    CHECK(fabs(s[0].mean * (W * H - 7) / sum - 1) < 1e-12 && s[0].largest == (double)(sample(3, 96) * 1e5f));
    gale_free(s);
    CHECK_OK(gale_exr_measure(device, f, 0, NULL, 0, 0, &s, &n));
    for (int i = 0; i < 3; i++) {
        gale_device *other = NULL;
        if (gale_device_open(&(gale_device_options){.chain = chains[i], .strict = true}, &other) != GALE_OK) continue;
        found++;
        check_on(other, f, s);
        if (gale_device_get_info(other)->caps.f64) check_floats_on(other, f);
        gale_device_close(&other);
    }
    gale_free(s);
    gale_exr_close(&f);
    if (!found) SKIP("no device besides the CPU");
}

static size_t told, stop_after;
static bool on_file(void *user, const gale_exr_progress *p, const gale_exr_item *item)
{
    (void)user;
    CHECK_EQ(p->done, ++told);
    CHECK(item->input != NULL);
    return told < stop_after;
}

TEST(many_files)
{
    static char names[12][200];
    const char *in[12], *out[12];
    gale_exr_batch *b = NULL;
    for (int i = 0; i < 12; i++) {
        snprintf(names[i], sizeof names[i], "%s/n%d.exr", folder, i);
        in[i] = names[i], out[i] = NULL;
        if (i == 5) CHECK_OK(gale__file_write(in[i], "\x76\x2f\x31\x01 and nothing more", 20));
        else CHECK_OK(write_file(in[i], 1, NULL, 0));
    }
    gale_exr_batch_options o = {.look.side = 16, .keep = true, .progress = on_file};
    told = 0, stop_after = 100;
    if (!CHECK_OK(gale_exr_batch_run(device, in, out, 12, &o, &b))) return;
    CHECK_EQ(b->total.done, 12);
    CHECK_EQ(b->total.failed, 1);
    CHECK(b->items[5].status == GALE_FORMAT && strstr(b->items[5].message, "n5.exr: "));
    for (int i = 0; i < 12; i++)
        if (i != 5 && CHECK(b->items[i].picture != NULL)) {
            CHECK_EQ(b->items[i].picture->width, 16);
            CHECK(!memcmp(
                b->items[i].picture->data, b->items[0].picture->data, (size_t)(16 * b->items[0].picture->height * 3)));
        }
    gale_exr_batch_destroy(&b);
    o.shard = 2, o.shards = 3, o.memory_bytes = 1; /* less than one picture: then they go one by one */
    told = 0;
    CHECK_OK(gale_exr_batch_run(device, in, out, 12, &o, &b));
    CHECK_EQ(b->count, 4);
    CHECK_EQ(b->total.failed, 1);
    gale_exr_batch_destroy(&b);
    o = (gale_exr_batch_options){.look.side = 16, .second = device};
    CHECK_OK(gale_exr_batch_run(device, in, out, 12, &o, &b));
    CHECK(b->on_second > 0 && b->on_second < 12 && b->total.failed == 1);
    gale_exr_batch_destroy(&b);
    o = (gale_exr_batch_options){.progress = on_file, .jobs = 1};
    told = 0, stop_after = 3;
    CHECK_OK(gale_exr_batch_run(device, in, out, 12, &o, &b));
    CHECK(b->cancelled && b->total.done == 3);
    gale_exr_batch_destroy(&b);
}

/* Files that are written to `names`. */
static void write_files(char (*names)[200], const char **in, int count)
{
    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%s/m%d.exr", folder, i);
        in[i] = names[i];
        CHECK_OK(write_file(in[i], 1, NULL, 0));
    }
}

TEST(a_batch_tells_what_it_did)
{
    static char names[4][200];
    const char *in[4], *out[4] = {NULL};
    gale_device_options opencl = {.chain = "opencl", .strict = true, .index = GALE_DEVICE_FIRST};
    gale_device *gpu = NULL, *first = NULL, *second = NULL;
    gale_exr_batch *b = NULL;
    double seconds = -1;
    write_files(names, in, 4);
    CHECK_OK(gale_exr_batch_run(device, in, out, 4, NULL, &b));
    CHECK(b->shares[0].files == 4 && b->shares[0].decoded_bytes == b->decoded_bytes && !b->shares[1].files);
    CHECK(!b->uploads && !b->needed_bytes && !b->usage.measured && b->pixel_wall_seconds > 0);
    CHECK(b->predicted_seconds > 0);
    gale_exr_batch_destroy(&b);
    gale_exr_batch_options strict = {.strict = true};
    CHECK_FAILS(gale_exr_batch_run(device, in, out, 4, &strict, &b), UNSUPPORTED);
    CHECK_OK(
        gale_exr_devices_open(in, 4, NULL, &first, &second, &seconds)); /* far too little for a GPU to be started */
    CHECK(first && !second && seconds == 0 && gale_device_get_info(first)->caps.host_functions);
    gale_device_close(&first);
    if (gale_device_open(&opencl, &gpu) != GALE_OK) SKIP("no OpenCL device: %s", gale_error());
    strict.second = device;
    if (CHECK_OK(gale_exr_batch_run(gpu, in, out, 4, &strict, &b))) {
        CHECK(b->uploads >= 4 && b->downloads == 4 && b->shares[0].files == 4 && !b->on_second);
        CHECK(b->needed_bytes > b->decoded_bytes && b->needed_bytes <= b->upload_bytes + b->download_bytes);
        CHECK(b->usage.measured && b->usage.kernel_seconds > 0 && b->usage.transfer_seconds > 0);
        CHECK(!(b->usage.occupancy > 0)); /* OpenCL does not tell */
        CHECK(b->usage.busy_seconds <= b->usage.kernel_seconds + b->usage.transfer_seconds + 1e-6);
        gale_exr_batch_destroy(&b);
    }
    gale_device_close(&gpu);
}

/* What was measured is told from what is assumed, and ZIP, whose rates are of decoding, too, from the rest. */
TEST(rates_are_kept_by_kind)
{
    const gale_exr_look look = {.tone = GALE_EXR_LOCAL};
    gale_exr_batch b = {.jobs = 2, .shares = {{4, 100 << 20, 0.5, 2.0}}};
    gale__exr_rates r;
    const char *before = getenv("GALE_CACHE");
    char kept[300];
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    setenv("GALE_CACHE", path_of("rates"), 1);
    gale__exr_rates_load(&look, true, &r);
    CHECK(!(r.cpu_bytes > 0) && !(r.gpu_bytes > 0) && r.cpu > 0 && r.gpu > 0 && r.start > 0);
    gale__exr_rates_learn(&look, true, &b, device);
    gale__exr_rates_load(&look, true, &r);
    CHECK(r.cpu_bytes > 0 && !(r.gpu_bytes > 0) && fabs(r.cpu * (100 << 20) - 1.25) < 1e-6);
    b.shares[0].decode_seconds = 5;
    gale__exr_rates_learn(&look, true, &b, device);
    gale__exr_rates_load(&look, true, &r);
    CHECK(fabs(r.cpu * (100 << 20) - (1.25 / 2 + 2.75) / 1.5) < 1e-6);
    gale__exr_rates_load(&look, false, &r);
    CHECK(!(r.cpu_bytes > 0));
    gale__exr_rates_learn(&look, false, &b, device);
    gale__exr_rates_load(&look, false, &r);
    CHECK(r.cpu_bytes > 0 && fabs(r.cpu * (100 << 20) - 0.25) < 1e-6);
    if (before) setenv("GALE_CACHE", kept, 1);
    else unsetenv("GALE_CACHE");
}

/* A file of five channels, not all of which are shown: colours of one type, Z of any, from a seed. */
typedef struct zip_case {
    const char *compression;
    int width, tile;
    gale_type colours, depth;
    bool damaged, by_host;
} zip_case;

/* Rows that are all alike, noise, and something between. */
static gale_status write_zip(const char *path, const zip_case *z)
{
    enum { CHANNELS = 5, ROWS = 40 };
    static const char *const names[CHANNELS] = {"A", "B", "G", "R", "Z"};
    static char planes[CHANNELS][ROWS * 32 * 4];
    gale_exr_source sources[CHANNELS];
    uint32_t state = 7;
    for (int c = 0; c < CHANNELS; c++) {
        gale_type type = c == 4 ? z->depth : z->colours;
        sources[c] = (gale_exr_source){names[c], type, planes[c]};
        for (int i = 0; i < ROWS * z->width; i++) {
            state = state * 1664525u + 1013904223u;
            uint32_t noise = i / z->width < 16 ? 0 : i / z->width < 32 ? state >> 24 : state >> 16 & 0x3fff;
            float v = gale__f16_to_f32((uint16_t)(c ? 0x3800 + c * 64 + (int)noise : 0x3c00));
            gale__store_f64(type, planes[c] + (size_t)i * gale_type_size(type), (double)v);
        }
    }
    const gale_exr_new_part p = {.data = {2, 3, z->width + 1, ROWS + 2},
        .compression = z->compression,
        .channels = sources,
        .channel_count = CHANNELS,
        .tile_width = z->tile,
        .tile_height = z->tile / 2};
    return gale_exr_write(path, &p, 1);
}

/* The picture as the device or the host inflates it, with the message of a failure. */
static gale_status view_zip(
    gale_device *gpu, const char *path, const char *where, gale_exr_report *r, gale_picture **out, char *message)
{
    gale_exr *f = NULL;
    gale_exr_viewer *v = NULL;
    gale_status status;
    setenv("GALE_UNZIP", where, 1);
    *message = 0;
    GALE_GO(gale_exr_open(path, NULL, &f));
    GALE_GO(gale_exr_viewer_create(gpu, NULL, &v));
    GALE_GO(gale_exr_viewer_run(v, f, r, out));
done:
    if (status != GALE_OK) snprintf(message, 300, "%s", gale_error());
    gale_exr_viewer_destroy(&v);
    gale_exr_close(&f);
    unsetenv("GALE_UNZIP");
    return status;
}

static void damage_file(const char *path, size_t from_end)
{
    gale__bytes bytes = {0};
    CHECK_OK(gale__file_read(path, 1 << 20, &bytes));
    ((uint8_t *)bytes.data)[bytes.size - from_end] ^= 8;
    CHECK_OK(gale__file_write(path, bytes.data, bytes.size));
    gale__bytes_finish(&bytes);
}

/* Of a batch, a picture that one core would decode; else one that all cores would; then by what pictures took. */
TEST(the_faster_one_inflates)
{
    gale__exr_packed p = {.args = {.chunks = 135, .chunk_bytes = 16 * 4096 * 8}};
    const uint64_t bytes = 4096ull * 2160 * 6;
    gale__unzipper *z = NULL;
    int chosen = 0;
    p.serial = true;
    CHECK_OK(gale__unzipper_create(device, &z));
    CHECK(gale__unzipper_choose(z, &p, bytes));
    gale__unzipper_note(z, false, bytes, 0.001);
    CHECK(!gale__unzipper_choose(z, &p, bytes));
    for (int i = 0; i < 20; i++) gale__unzipper_note(z, false, bytes, 0.2);
    for (int i = 0; i < 300; i++) gale__unzipper_note(z, true, bytes, i < 64 ? 0.9 : 0.15); /* the first wait */
    for (int i = 0; i < 64; i++) chosen += gale__unzipper_choose(z, &p, bytes);
    CHECK_EQ(chosen, 62); /* every 32nd goes the other way, while that is not much slower */
    for (int i = 0; i < 20; i++) gale__unzipper_note(z, true, bytes, 0.5);
    for (int i = 0; i < 64; i++) chosen += gale__unzipper_choose(z, &p, bytes);
    CHECK_EQ(chosen, 62);
    gale__unzipper_destroy(&z);
    CHECK_OK(gale__unzipper_create(device, &z));
    p.serial = false, p.args.chunk_bytes *= 64,
    p.args.chunks = 3; /* a chunk that takes longer than the picture on a core */
    CHECK(!gale__unzipper_choose(z, &p, bytes));
    gale__unzipper_destroy(&z);
}

TEST(chunks_are_inflated_by_a_device)
{
    gale_device_options vulkan = {.chain = "vulkan", .strict = true, .index = GALE_DEVICE_FIRST};
    gale_device *gpu = NULL;
    const char *path = path_of("zip.exr");
    static const zip_case cases[] = {{"zip", 24, 0, GALE_F16, GALE_F16, false, false},
        {"zips", 24, 0, GALE_F16, GALE_F16, false, false}, {"zip", 23, 0, GALE_F16, GALE_F16, false, false},
        {"zips", 23, 0, GALE_F16, GALE_F16, true, true}, {"zip", 23, 0, GALE_F16, GALE_F16, true, true},
        {"piz", 23, 0, GALE_F16, GALE_F16, false, true}, {"zips", 24, 0, GALE_F32, GALE_F32, false, false},
        {"zips", 23, 0, GALE_F32, GALE_F16, false, false}, {"zips", 24, 0, GALE_F16, GALE_U32, false, false},
        {"zip", 32, 16, GALE_F16, GALE_F32, false, false}, {"zip", 29, 10, GALE_F16, GALE_F16, false, false},
        {"zips", 29, 10, GALE_F32, GALE_F32, false, false}, {"zip", 32, 16, GALE_F32, GALE_F16, false, false},
        {"zip", 29, 10, GALE_F32, GALE_F16, true, true}};
    if (gale_device_open(&vulkan, &gpu) != GALE_OK) SKIP("no Vulkan device: %s", gale_error());
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *where[2] = {"host", "device"};
        char messages[2][300];
        gale_exr_report r[2] = {0};
        gale_picture *p[2] = {NULL, NULL};
        gale_status status[2];
        CHECK_OK(write_zip(path, &cases[k]));
        if (cases[k].damaged) damage_file(path, 60);
        for (int i = 0; i < 2; i++) status[i] = view_zip(gpu, path, where[i], &r[i], &p[i], messages[i]);
        CHECK_EQ(status[0], cases[k].damaged ? GALE_FORMAT : GALE_OK);
        CHECK_EQ(status[1], status[0]);
        CHECK_TEXT(messages[1], messages[0]);
        if (!CHECK(!r[0].packed_bytes && (r[1].packed_bytes > 0) == !cases[k].by_host)) printf("  case %zu\n", k);
        if (p[0] && p[1]) CHECK(!memcmp(p[0]->data, p[1]->data, (size_t)(p[0]->width * p[0]->height * 4)));
        for (int i = 0; i < 2; i++) gale_picture_destroy(&p[i]);
    }
    gale_device_close(&gpu);
}

/* Pictures for which the first device has no memory go to the second; tiles get smaller. */
TEST(limits_of_memory)
{
    enum { SIDE = 256 };
    static char names[4][200];
    static float planes[3 * SIDE * SIDE], light[2][3 * SIDE * SIDE];
    const char *in[4], *out[4] = {NULL};
    gale_device_options none = {.chain = "cpu", .pool_limit_bytes = 1},
                        some = {.chain = "cpu", .pool_limit_bytes = 40 << 20};
    gale_device *where[2] = {device, NULL};
    gale_exr_batch *b = NULL;
    gale__bytes file = {0};
    gale__tza weights = {0};
    double worst = 0;
    write_files(names, in, 4);
    CHECK_OK(gale_device_open(&none, &where[1]));
    gale_exr_batch_options o = {.look.tone = GALE_EXR_LOCAL, .second = device};
    if (CHECK_OK(gale_exr_batch_run(where[1], in, out, 4, &o, &b))) CHECK(b->on_second == 4 && !b->total.failed);
    gale_exr_batch_destroy(&b);
    gale_device_close(&where[1]);
    snprintf(names[0], sizeof names[0], "%s/oidn/rt_hdr.tza", test_data());
    if (!gale__file_exists(names[0])) SKIP("no weights at %s", names[0]);
    CHECK_OK(gale_device_open(&some, &where[1]));
    CHECK_OK(gale__file_read(names[0], 1 << 30, &file));
    CHECK_OK(gale__tza_read(file.data, file.size, &weights));
    for (int i = 0; i < 3 * SIDE * SIDE; i++) planes[i] = sample(i % 2, i / 11);
    for (int i = 0; i < 2; i++) {
        gale_exr_denoise_report r = {0};
        CHECK_OK(
            gale__denoise_planes(where[i], &weights, planes, SIDE, SIDE, &(gale_exr_denoise_options){0}, &r, light[i]));
        CHECK(i ? r.tiles > 1 : r.tiles == 1);
    }
    for (int i = 0; i < 3 * SIDE * SIDE; i++) worst = fmax(worst, fabs((double)(light[0][i] - light[1][i])));
    CHECK(worst > 0 && worst < 0.2);
    gale__tza_finish(&weights);
    gale__bytes_finish(&file);
    gale_device_close(&where[1]);
}

/* Everything that takes memory, with the n-th allocation failing. */
static gale_status everything(const char *path)
{
    gale_exr *f = NULL;
    gale_exr_viewer *v = NULL;
    gale_picture *p = NULL;
    gale_exr_layer *layers = NULL;
    gale_exr_stats *s = NULL;
    gale_exr_look look = {.side = 12};
    int count = 0, n = 0;
    gale_status status;
    GALE_GO(gale_exr_open(path, NULL, &f));
    GALE_GO(gale_exr_viewer_create(device, &look, &v));
    GALE_GO(gale_exr_viewer_run(v, f, NULL, &p));
    GALE_GO(gale_exr_layers(f, &layers, &count));
    GALE_GO(gale_exr_layer_write(f, &layers[0], path_of("l.exr"), NULL));
    gale_status dwa = gale_exr_layer_write(f, &layers[0], path_of("l.exr"), "dwaa");
    if (dwa != GALE_UNSUPPORTED) GALE_GO(dwa);
    GALE_GO(gale_exr_measure(device, f, 0, NULL, 0, 0, &s, &n));
done:
    gale_free(s);
    gale_exr_layers_free(&layers, count);
    gale_picture_destroy(&p);
    gale_exr_viewer_destroy(&v);
    gale_exr_close(&f);
    return status;
}

TEST(memory_runs_out_anywhere)
{
    CHECK_OK(write_file(path_of("a.exr"), 1, "zip", 0));
    CHECK_OK(everything(path_of("a.exr")));
    int64_t live = gale__alloc_live();
    uint64_t n = 1;
    for (bool failed = true; failed && n < 5000; n += test_light() ? 7 : 1) {
        gale__alloc_fail_at(n);
        gale_status status = everything(path_of("a.exr"));
        failed = gale__alloc_count() >= n;
        gale__alloc_fail_at(0);
        if (!CHECK(status == GALE_OK || status == GALE_NO_MEMORY))
            printf("  allocation %d: %s\n", (int)n, gale_error());
    }
    CHECK(n > 50);
    CHECK(gale__alloc_live() <=
          live + 8); /* the device's pools keep a few; a leak would have come up hundreds of times */
}

static const test_row rows[] = {ROW(written_files_are_read), ROW(dwa_is_written), ROW(limits_come_before_memory),
    ROW(levels_are_true), ROW(levels_keep_types), ROW(rip_levels_are_true), ROW(numbers_are_right),
    ROW(devices_count_alike), ROW(many_files), ROW(a_batch_tells_what_it_did), ROW(chunks_are_inflated_by_a_device),
    ROW(rates_are_kept_by_kind), ROW(the_faster_one_inflates), ROW(limits_of_memory), ROW(memory_runs_out_anywhere)};

int main(int argc, char **argv)
{
    char command[100];
    if (!mkdtemp(folder)) return 1;
    int status = test_main_on("cpu", &device, rows, sizeof rows / sizeof *rows, argc, argv);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) ? 1 : status;
}
