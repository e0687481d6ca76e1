/* Animations frame by frame, and HEIC and AVIF: what is shown, for how long, the right way up; broken files are errors.
 * The files in fuzz/corpus/picture were made for this: four quadrants (red, green, blue, white) by libheif's and
 * libavif's encoders, and animations of parts that are disposed of in every way. */
#include "base/file.h"
#include "picture_make.h"
#include "test.h"
#include <stdlib.h>
#include <unistd.h>

enum { FRAMES = 5 };
static const int times[FRAMES] = {40, 100, 30, 250, 70};

static const char *corpus(const char *name, char path[1024])
{
    const char *folder = getenv("GALE_TEST_CORPUS");
    snprintf(path, 1024, "%s/picture/%s", folder ? folder : "fuzz/corpus", name);
    return path;
}

/* Without waiting for the disk, as gale__file_write does. */
static void put_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size);
    if (f) fclose(f);
}

static bool near(const gale_picture *p, int64_t x, int64_t y, const int wanted[4], int step)
{
    bool same = true;
    for (int c = 0; c < p->channels; c++) {
        size_t at = (size_t)((y * p->width + x) * p->channels + c);
        int v = p->type == GALE_U8 ? ((uint8_t *)p->data)[at] : ((uint16_t *)p->data)[at] / 257;
        same &= abs(v - wanted[c]) <= step;
    }
    return same;
}

static const int red[] = {200, 40, 40, 64}, green[] = {40, 200, 40, 64}, blue[] = {40, 40, 200, 255},
                 white[] = {220, 220, 220, 255};

static bool corners(const gale_picture *p, const int *a, const int *b, const int *c, const int *d, int step)
{
    int64_t x = p->width - 3, y = p->height - 3;
    return near(p, 2, 2, a, step) && near(p, x, 2, b, step) && near(p, 2, y, c, step) && near(p, x, y, d, step);
}

TEST(heif)
{
    char path[1024];
    gale_picture *p = NULL;
    if (!gale__format_of_name("heic")->read) SKIP("built without HEIC and AVIF");
    if (CHECK_OK(gale_picture_read(corpus("heic-turned.heic", path), NULL, &p))) {
        CHECK(p->width == 16 && p->height == 24 && p->channels == 3 && p->type == GALE_U8);
        CHECK_TEXT(p->format, "heic");
        CHECK(corners(p, blue, red, white, green, 12)); /* turned by the file, and not by its EXIF again */
        CHECK_EQ(gale__exif_orientation(&p->exif), 1);
        CHECK(p->exif.size > 30 && !memcmp((char *)p->exif.data + 30, "gal", 3));
    }
    gale_picture_destroy(&p);
    if (CHECK_OK(gale_picture_read(corpus("avif-mirrored.avif", path), NULL, &p))) {
        CHECK(p->width == 24 && p->height == 16 && p->channels == 4 && p->type == GALE_U8);
        CHECK_TEXT(p->format, "avif");
        CHECK(corners(p, green, red, white, blue, 2));
    }
    gale_picture_destroy(&p);
    if (CHECK_OK(gale_picture_read(corpus("avif-deep.avif", path), NULL, &p)))
        CHECK(p->type == GALE_U16 && p->channels == 3 && corners(p, red, green, blue, white, 3));
    gale_picture_destroy(&p);
    if (CHECK_OK(gale_picture_read(corpus("avif-p3.avif", path), NULL, &p)))
        CHECK(p->channels == 3 && (!p->icc.size || gale__icc_fits(p)));
    gale_picture_destroy(&p);
    CHECK_FAILS(gale_picture_read(path, &(gale_picture_read_options){.max_pixels = 100}, &p), LIMIT);
    CHECK_FAILS(gale__format_check("heic", 10, 10), UNSUPPORTED);
    CHECK(strstr(gale_error(), "jpg") != NULL);
}

/* Every prefix, and bytes that are wrong: an error or a picture, and nothing lost. */
static void hurt(const char *name, int rounds)
{
    char path[1024];
    gale__bytes file = {0};
    const gale_picture_read_options small = {.max_pixels = 1 << 16, .max_bytes = 1 << 22};
    uint32_t seed = 7;
    if (!CHECK_OK(gale__file_read(corpus(name, path), 1 << 20, &file))) return;
    for (size_t n = 0; n < file.size; n += 1 + n / 64) {
        gale_picture *p = NULL;
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, file.data, n);
        (void)!gale_picture_from_memory(copy, n, &small, &p);
        gale_picture_destroy(&p);
        free(copy);
    }
    for (int k = 0; k < rounds; k++) {
        gale_picture *p = NULL;
        uint8_t *copy = malloc(file.size);
        memcpy(copy, file.data, file.size);
        for (int i = 0; i < 3; i++) copy[picture_random(&seed) % file.size] = (uint8_t)picture_random(&seed);
        (void)!gale_picture_from_memory(copy, file.size, &small, &p);
        gale_picture_destroy(&p);
        free(copy);
    }
    gale__bytes_finish(&file);
}

TEST(damaged_heif)
{
    if (!gale__format_of_name("heic")->read) SKIP("built without HEIC and AVIF");
    int64_t live = gale__alloc_live();
    hurt("heic-turned.heic", test_light() ? 30 : 300);
    hurt("avif-mirrored.avif", test_light() ? 30 : 300);
    hurt("avif-deep.avif", test_light() ? 10 : 100);
    CHECK_EQ(gale__alloc_live(), live);
}

/* Few colours, a square that moves; in the fourth frame something is transparent. */
static gale_picture *frame_make(int index)
{
    gale_picture *p = NULL;
    if (gale_picture_create(20, 12, index == 3 ? 4 : 3, GALE_U8, &p) != GALE_OK) return NULL;
    for (int64_t i = 0; i < 20 * 12; i++) {
        uint8_t *c = (uint8_t *)p->data + i * p->channels;
        bool inside = i % 20 / 4 == index && i / 20 / 4 == 1;
        c[0] = inside ? 250 : (uint8_t)(i % 20 / 2 * 8);
        c[1] = inside ? 10 : (uint8_t)(i / 20 * 4);
        c[2] = (uint8_t)(40 * index);
        if (index == 3) c[3] = i < 40 ? 0 : 255;
        if (index == 3 && i < 40) c[0] = c[1] = c[2] = 0;
    }
    return p;
}

static gale_status write_frames(const char *format, const char *path)
{
    gale_animation_writer *w = NULL;
    const gale_picture_write_options o = {.format = format, .lossless = true};
    GALE_TRY(gale_animation_writer_create(&o, 3, &w));
    gale_status status = GALE_OK;
    for (int i = 0; i < FRAMES && status == GALE_OK; i++) {
        gale_picture *p = frame_make(i);
        status = p ? gale_animation_writer_add(w, p, times[i]) : GALE_NO_MEMORY;
        gale_picture_destroy(&p);
    }
    void *data = NULL;
    size_t size = 0;
    if (status == GALE_OK) status = gale_animation_writer_to_memory(w, &data, &size);
    if (status == GALE_OK) put_file(path, data, size);
    gale__free(data);
    gale_animation_writer_destroy(&w);
    return status;
}

/* Reads all; with `check` each is held to what was written. */
static gale_status read_frames(const char *path, bool check, int *count)
{
    gale_animation *a = NULL;
    gale_picture *p = NULL;
    const gale_picture_read_options small = {.max_pixels = 1 << 16, .max_bytes = 1 << 22};
    int shown = 0, n = 0;
    GALE_TRY(gale_animation_open(path, &small, &a));
    gale_status status;
    while ((status = gale_animation_next(a, &p, &shown)) == GALE_OK && p) {
        gale_picture *same = check ? frame_make(n) : NULL;
        if (same && CHECK(p->width == 20 && p->height == 12 && p->channels == same->channels)) {
            CHECK(!memcmp(p->data, same->data, (size_t)(20 * 12 * p->channels)));
            CHECK_EQ(shown, times[n]);
        }
        gale_picture_destroy(&same);
        gale_picture_destroy(&p);
        n++;
    }
    if (check) CHECK(gale_animation_get_info(a)->loops == 3 && gale_animation_get_info(a)->frames == FRAMES);
    gale_animation_close(&a);
    *count = n;
    return status;
}

static const char *const formats[] = {"gif", "webp", "png"};

TEST(frames_again)
{
    char path[] = "/tmp/gale-frames-XXXXXX";
    int count = 0, file = mkstemp(path);
    for (int i = 0; i < 3; i++) {
        gale_picture *p = NULL;
        if (!gale__format_of_name(formats[i])->frames_out) continue;
        CHECK_OK(write_frames(formats[i], path));
        CHECK_OK(read_frames(path, true, &count));
        CHECK_EQ(count, FRAMES);
        CHECK_OK(gale_picture_read(path, &(gale_picture_read_options){.first_frame = true}, &p));
        if (p) CHECK(p->frames == FRAMES && p->width == 20);
        gale_picture_destroy(&p);
    }
    gale_animation_writer *w = NULL;
    CHECK_FAILS(gale_animation_writer_create(&(gale_picture_write_options){.format = "jpeg"}, 0, &w), INVALID);
    close(file);
    unlink(path);
}

/* After each of the four frames: where they differ is at (0, 0), (1, 1) and (3, 1). */
static void parts(const char *name)
{
    static const int r[] = {255, 0, 0, 255}, g[] = {0, 255, 0, 255}, b[] = {0, 0, 255, 255}, w[] = {255, 255, 255, 255},
                     none[] = {0, 0, 0, 0};
    static const int *const wanted[4][3] = {{r, r, r}, {r, g, r}, {r, none, b}, {r, w, r}};
    static const int shown[] = {100, 50, 200, 30};
    char path[1024];
    gale_animation *a = NULL;
    gale_picture *p = NULL;
    int ms = 0;
    if (!gale__format_of_name(strrchr(name, '.'))->frames_in) SKIP("built without %s", strrchr(name, '.'));
    if (!CHECK_OK(gale_animation_open(corpus(name, path), NULL, &a))) return;
    CHECK(gale_animation_get_info(a)->loops == 3 && gale_animation_get_info(a)->frames == 4);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(gale_animation_next(a, &p, &ms));
        if (!CHECK(p != NULL)) break;
        CHECK_EQ(ms, shown[i]);
        CHECK_EQ(p->channels, i < 2 ? 3 : 4);
        CHECK(near(p, 0, 0, wanted[i][0], 0) && near(p, 1, 1, wanted[i][1], 0) && near(p, 3, 1, wanted[i][2], 0));
        CHECK(near(p, 5, 3, r, 0));
        gale_picture_destroy(&p);
    }
    CHECK_OK(gale_animation_next(a, &p, &ms));
    CHECK(p == NULL);
    gale_animation_close(&a);
}

TEST(parts_of_gif) { parts("gif-parts.gif"); }
TEST(parts_of_png) { parts("png-parts.png"); }

/* More colours than a GIF has: near on the whole. */
TEST(many_colours)
{
    if (!gale__format_of_name("gif")->write) SKIP("built without GIF");
    gale_picture *p = picture_make(160, 120, 3, GALE_U8), *back = NULL;
    gale_picture_difference d;
    void *data = NULL;
    size_t size = 0;
    CHECK_OK(gale_picture_to_memory(p, &(gale_picture_write_options){.format = "gif"}, &data, &size));
    CHECK_OK(gale_picture_from_memory(data, size, NULL, &back));
    if (back && CHECK_OK(gale_picture_compare(p, back, &d, 1, NULL))) CHECK(d.colours.psnr > 34);
    gale__free(data);
    gale_picture_destroy(&p);
    gale_picture_destroy(&back);
}

TEST(damaged_frames)
{
    char path[] = "/tmp/gale-frames-XXXXXX";
    int count = 0, file = mkstemp(path);
    int64_t live = gale__alloc_live();
    for (int i = 0; i < 3; i++) {
        gale__bytes whole = {0};
        uint32_t seed = 3;
        if (!gale__format_of_name(formats[i])->frames_out) continue;
        CHECK_OK(write_frames(formats[i], path));
        if (!CHECK_OK(gale__file_read(path, 1 << 20, &whole))) continue;
        for (size_t n = 0; n < whole.size; n += 1 + whole.size / (test_light() ? 30 : 200)) {
            put_file(path, whole.data, n);
            (void)!read_frames(path, false, &count);
        }
        for (int k = 0; k < (test_light() ? 30 : 300); k++) {
            uint8_t *copy = malloc(whole.size);
            memcpy(copy, whole.data, whole.size);
            for (int c = 0; c < 3; c++) copy[picture_random(&seed) % whole.size] = (uint8_t)picture_random(&seed);
            put_file(path, copy, whole.size);
            (void)!read_frames(path, false, &count);
            free(copy);
        }
        gale__bytes_finish(&whole);
    }
    CHECK_EQ(gale__alloc_live(), live);
    close(file);
    unlink(path);
}

/* Every allocation of ours fails once. */
TEST(faults)
{
    char path[] = "/tmp/gale-frames-XXXXXX";
    int count = 0, file = mkstemp(path);
    int64_t live = gale__alloc_live();
    for (int i = 0; i < 3; i++) {
        if (!gale__format_of_name(formats[i])->frames_out) continue;
        for (uint64_t n = 1;; n++) {
            gale__alloc_fail_at(n);
            gale_status status = write_frames(formats[i], path);
            if (status == GALE_OK) status = read_frames(path, false, &count);
            bool reached = gale__alloc_count() >= n;
            gale__alloc_fail_at(0);
            if (!reached) {
                CHECK_OK(status);
                break;
            }
            if (status != GALE_OK && status != GALE_NO_MEMORY && status != GALE_FORMAT) CHECK_OK(status);
        }
    }
    CHECK_EQ(gale__alloc_live(), live);
    close(file);
    unlink(path);
}

TESTS(ROW(heif), ROW(damaged_heif), ROW(frames_again), ROW(parts_of_gif), ROW(parts_of_png), ROW(many_colours),
    ROW(damaged_frames), ROW(faults))
