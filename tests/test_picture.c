/* Pictures: what is written is read again in every format, depth and number of channels; notes stay; broken files are
 * errors. */
#include "base/file.h"
#include "base/thread.h"
#include "picture_make.h"
#include "test.h"
#include <unistd.h>

static int64_t largest_step(const gale_picture *a, const gale_picture *b)
{
    size_t n = (size_t)(a->width * a->height * a->channels), size = gale_type_size(a->type);
    double most = 0, full = a->type == GALE_U8 ? 255 : a->type == GALE_U16 ? 65535 : 1e6;
    for (size_t i = 0; i < n; i++) {
        double x = gale__load_f64(a->type, (char *)a->data + i * size),
               y = gale__load_f64(b->type, (char *)b->data + i * size);
        double d = fabs(x - y) * (full == 1e6 ? full : 1);
        if (d > most) most = d;
    }
    return (int64_t)most;
}

static bool same_shape(const gale_picture *a, const gale_picture *b)
{
    return a->width == b->width && a->height == b->height && a->channels == b->channels && a->type == b->type;
}

/* Few colours, and alpha that is there or not: what comes back is not close (its own test says how close). */
static bool is_rough(const char *format) { return !strcmp(format, "gif"); }

/* Out and in again; NULL when either fails. */
static gale_picture *again(const gale_picture *p, const gale_picture_write_options *o)
{
    void *data = NULL;
    size_t size = 0;
    gale_picture *back = NULL;
    if (!CHECK_OK(gale_picture_to_memory(p, o, &data, &size))) return NULL;
    CHECK_OK(gale_picture_from_memory(data, size, NULL, &back));
    gale__free(data);
    return back;
}

static void round_trip(const gale__format *f, gale_type type, int channels, int64_t w, int64_t h)
{
    gale_picture_write_options o = {.format = f->about.name, .lossless = true};
    gale_picture *p = picture_make(w, h, channels, type);
    p->linear = f->linear_floats && gale__type_is_float(type);
    p->premultiplied = f->premultiplied && channels % 2 == 0;
    p->dpi_x = p->dpi_y = 300;
    gale_picture *back = again(p, &o);
    if (back && is_rough(o.format)) CHECK(back->width == w && back->height == h);
    else if (back && CHECK(same_shape(p, back))) {
        int64_t step = largest_step(p, back);
        if (step > (!strcmp(o.format, "jpeg") ? 16 : 0))
            printf("FAIL %s %s %d %lldx%lld: off by %lld\n", o.format, gale_type_name(type), channels, (long long)w,
                (long long)h, (long long)step),
                test_bad++;
        CHECK_EQ(back->linear, p->linear);
        CHECK_EQ(back->premultiplied, p->premultiplied);
        CHECK_TEXT(back->format, f->about.name);
        if (!strcmp(o.format, "png") || !strcmp(o.format, "jpeg") || !strcmp(o.format, "tiff") ||
            !strcmp(o.format, "bmp") || !strcmp(o.format, "exr"))
            CHECK_EQ(lround(back->dpi_y), 300);
    }
    gale_picture_destroy(&p);
    gale_picture_destroy(&back);
}

TEST(round_trips)
{
    static const gale_type types[] = {GALE_U8, GALE_U16, GALE_F16, GALE_F32};
    static const int64_t extents[][2] = {{1, 1}, {17, 9}, {64, 3}, {5, 70}};
    int formats = 0;
    for (int i = 0; i < gale__format_count; i++) {
        const gale__format *f = &gale__formats[i];
        if (!f->write) continue;
        formats++;
        for (int t = 0; t < 4; t++)
            for (int c = 1; c <= 4; c++)
                for (int e = 0; e < 4; e++)
                    if (f->types & 1u << t && f->channels & 1u << c)
                        round_trip(f, types[t], c, extents[e][0], extents[e][1]);
    }
    CHECK(formats >= 4);
}

/* In steps of 8 bits. */
static double steps(const gale_picture *a, const gale_picture *b)
{
    return (double)largest_step(a, b) / (a->type == GALE_U8 ? 1 : a->type == GALE_U16 ? 257 : 1e6 / 255);
}

/* Every type and number of channels can be asked of every format: what it does not hold is converted, and comes back as
 * near as it can. */
TEST(whatever_is_given)
{
    static const gale_type types[] = {GALE_U8, GALE_U16, GALE_F16, GALE_F32};
    for (int i = 0; i < gale__format_count; i++)
        for (int t = 0; t < 4 && gale__formats[i].write; t++)
            for (int c = 1; c <= 4; c++) {
                const char *name = gale__formats[i].about.name;
                gale_picture *p = picture_make(20, 12, c, types[t]),
                             *back = again(p, &(gale_picture_write_options){.format = name, .lossless = true}),
                             *same = NULL;
                if (back && !is_rough(name) && (c % 2 || back->channels % 2 == 0) &&
                    CHECK_OK(gale__picture_make(back, (gale__picture_kind){p->type, c, false, false}, &same))) {
                    double most = !strcmp(name, "jpeg")                            ? 16
                                  : back->type == GALE_U8                          ? 0.51
                                  : back->type == GALE_F16 || types[t] == GALE_F16 ? 0.5
                                                                                   : 0.01;
                    if (steps(p, same) > most)
                        printf("FAIL %s from %s x %d: off by %g steps\n", name, gale_type_name(types[t]), c,
                            steps(p, same)),
                            test_bad++;
                }
                gale_picture_destroy(&p);
                gale_picture_destroy(&back);
                gale_picture_destroy(&same);
            }
}

TEST(lossy_is_near)
{
    static const char *const names[] = {"jpeg", "webp", "jp2"};
    for (int i = 0; i < 3; i++) {
        const gale__format *f = gale__format_of_name(names[i]);
        if (!f->write) continue;
        gale_picture *p = picture_make(200, 100, 3, GALE_U8);
        size_t sizes[2] = {0};
        for (int k = 0; k < 2; k++) {
            void *data = NULL;
            gale_picture *back = NULL;
            CHECK_OK(gale_picture_to_memory(
                p, &(gale_picture_write_options){.format = names[i], .quality = k ? 95 : 30}, &data, &sizes[k]));
            CHECK_OK(gale_picture_from_memory(data, sizes[k], NULL, &back));
            if (back) CHECK(largest_step(p, back) < (k ? 14 : 60));
            gale__free(data);
            gale_picture_destroy(&back);
        }
        CHECK(sizes[0] < sizes[1]);
        CHECK_FAILS(gale_picture_write(p, "x.png", &(gale_picture_write_options){.quality = 101}), INVALID);
        gale_picture_destroy(&p);
    }
}

TEST(notes_are_kept)
{
    static const struct {
        const char *name;
        bool icc, exif;
    } rows[] = {{"png", 1, 1}, {"jpeg", 1, 1}, {"webp", 1, 1}, {"tiff", 1, 0 /* not byte by byte: the next test */}};
    for (int i = 0; i < 4; i++)
        for (int grey = 0; grey < 2; grey++) {
            uint8_t icc[600], exif[128];
            if (!gale__format_of_name(rows[i].name)->write || (grey && i == 2)) continue;
            gale_picture *p = picture_make(16, 16, grey ? 1 : 3, GALE_U8);
            CHECK_OK(gale__picture_bytes_set(&p->icc, icc, picture_icc(icc, grey)));
            CHECK_OK(gale__picture_bytes_set(&p->exif, exif, picture_exif(exif, 1)));
            p->gamma = 0.5;
            gale_picture *back = again(p, &(gale_picture_write_options){.format = rows[i].name});
            if (back) {
                CHECK_EQ(back->icc.size, rows[i].icc ? 600 : 0);
                CHECK(!back->icc.size || !memcmp(back->icc.data, icc, 600));
                if (rows[i].exif) CHECK_EQ(back->exif.size, p->exif.size);
                CHECK(!rows[i].exif || back->exif.size != p->exif.size || !memcmp(back->exif.data, exif, p->exif.size));
                if (rows[i].exif) CHECK_EQ(lround(back->dpi_x), 72);
            }
            /* a profile of another colour space is not written */
            CHECK_OK(gale__picture_bytes_set(&p->icc, icc, picture_icc(icc, !grey)));
            gale_picture_destroy(&back);
            back = again(p, &(gale_picture_write_options){.format = rows[i].name});
            if (back) CHECK_EQ(back->icc.size, 0);
            gale_picture_destroy(&back);
            gale_picture_destroy(&p);
        }
}

/* A profile longer than one of JPEG's markers. */
TEST(long_profile)
{
    if (!gale__format_of_name("jpeg")->write) SKIP("built without JPEG");
    gale_picture *p = picture_make(8, 8, 3, GALE_U8), *back;
    uint8_t *icc = gale__calloc(1, 200000);
    picture_icc(icc, false);
    picture_put32(icc, 200000);
    for (int i = 600; i < 200000; i++) icc[i] = (uint8_t)(i * 7);
    CHECK_OK(gale__picture_bytes_set(&p->icc, icc, 200000));
    back = again(p, &(gale_picture_write_options){.format = "jpeg"});
    if (back && CHECK_EQ(back->icc.size, 200000)) CHECK(!memcmp(back->icc.data, icc, 200000));
    gale__free(icc);
    gale_picture_destroy(&p);
    gale_picture_destroy(&back);
}

/* Many bands and groups of them, at every effort; what is written does not depend on the number of threads. */
TEST(large_png)
{
    if (!gale__format_of_name("png")->write) SKIP("built without PNG");
    gale_picture *p = picture_make(800, test_light() ? 100 : 250, 4, GALE_U16);
    for (int effort = 0; effort <= 6; effort += 3) {
        void *data[2] = {0};
        size_t size[2] = {0};
        gale_picture *back = NULL;
        for (int k = 0; k < 2; k++) {
            gale__parallel_set_width(k ? 5 : 1);
            CHECK_OK(gale_picture_to_memory(
                p, &(gale_picture_write_options){.format = "png", .effort = effort ? effort : 1}, &data[k], &size[k]));
        }
        CHECK(size[0] == size[1] && !memcmp(data[0], data[1], size[0]));
        CHECK_OK(gale_picture_from_memory(data[0], size[0], NULL, &back));
        if (back) CHECK(same_shape(p, back) && !largest_step(p, back));
        gale__free(data[0]);
        gale__free(data[1]);
        gale_picture_destroy(&back);
    }
    gale__parallel_set_width(0);
    gale_picture_destroy(&p);
}

/* Left to itself the writer looks for repeats where there are some and not where there are none: neither file may be
 * larger than with looking everywhere. */
TEST(packed_png)
{
    if (!gale__format_of_name("png")->write) SKIP("built without PNG");
    for (int repeating = 0; repeating < 2; repeating++) {
        gale_picture *p = NULL, *back = NULL;
        void *data[3] = {0};
        size_t size[3] = {0};
        uint32_t seed = 1;
        CHECK_OK(gale_picture_create(700, 300, 3, GALE_U8, &p));
        uint8_t *at = p->data;
        for (int64_t i = 0; i < 700 * 300 * 3; i++) { /* noise over a slope; or the first rows of it again and again */
            seed = seed * 1664525u + 1013904223u;
            at[i] = repeating && i >= 700 * 3 * 4 ? at[i - 700 * 3 * 4]
                                                  : (uint8_t)(i / 3 % 700 / 4 + (seed >> 28) + (seed >> 24 & 7));
        }
        for (int k = 0; k < 3; k++) {
            gale__parallel_set_width(k ? 5 : 1);
            CHECK_OK(gale_picture_to_memory(
                p, &(gale_picture_write_options){.format = "png", .effort = k == 2 ? 4 : 0}, &data[k], &size[k]));
        }
        CHECK(size[0] == size[1] && !memcmp(data[0], data[1], size[0]));
        CHECK(size[0] <= size[2] + size[2] / 32);
        CHECK(repeating ? size[0] < 700 * 300 : size[0] > 700 * 300);
        CHECK_OK(gale_picture_from_memory(data[0], size[0], NULL, &back));
        if (back) CHECK(same_shape(p, back) && !largest_step(p, back));
        for (int k = 0; k < 3; k++) gale__free(data[k]);
        gale_picture_destroy(&back);
        gale_picture_destroy(&p);
    }
    gale__parallel_set_width(0);
}

TEST(orientation_is_applied_once)
{
    /* where the pixels a b c / d e f of a 3 x 2 picture come to lie */
    static const char *const wanted[9] = {
        NULL, "abcdef", "cbafed", "fedcba", "defabc", "adbecf", "daebfc", "fcebda", "cfbead"};
    if (!gale__format_of_name("png")->write) SKIP("built without PNG");
    for (int o = 1; o <= 8; o++) {
        uint8_t exif[128];
        gale_picture *p = NULL, *back, *raw = NULL;
        void *data = NULL;
        size_t size = 0;
        CHECK_OK(gale_picture_create(3, 2, 1, GALE_U8, &p));
        memcpy(p->data, "abcdef", 6);
        CHECK_OK(gale__picture_bytes_set(&p->exif, exif, picture_exif(exif, o)));
        back = again(p, &(gale_picture_write_options){.format = "png"});
        if (back) {
            CHECK(!memcmp(back->data, wanted[o], 6));
            CHECK_EQ(back->width, o > 4 ? 2 : 3);
            CHECK_EQ(gale__exif_orientation(&back->exif), 1);
            if (o > 1) CHECK(!memcmp((char *)back->exif.data + 70, "\0\0\0\0", 4)); /* the small picture is gone */
            gale_picture *twice = again(back, &(gale_picture_write_options){.format = "png"});
            if (twice) CHECK(!memcmp(twice->data, wanted[o], 6));
            gale_picture_destroy(&twice);
        }
        CHECK_OK(gale_picture_to_memory(p, &(gale_picture_write_options){.format = "png"}, &data, &size));
        CHECK_OK(gale_picture_from_memory(data, size, &(gale_picture_read_options){.keep_orientation = true}, &raw));
        if (raw) CHECK(!memcmp(raw->data, "abcdef", 6) && gale__exif_orientation(&raw->exif) == o);
        gale__free(data);
        gale_picture_destroy(&p);
        gale_picture_destroy(&back);
        gale_picture_destroy(&raw);
    }
}

TEST(exif_extents)
{
    uint8_t bytes[128];
    gale_picture_bytes exif = {bytes, picture_exif(bytes, 1)};
    gale__exif_extents(&exif, 70000, 512);
    CHECK(!memcmp(bytes + 92, "\0\1\x11\x70", 4));
    CHECK(!memcmp(bytes + 104, "\2\0", 2));
    for (size_t n = 0; n < 128; n++) { /* whatever its bytes are, it stays inside */
        uint32_t seed = (uint32_t)n;
        for (int k = 0; k < 200; k++) {
            uint8_t *copy = gale__alloc(n);
            memcpy(copy, bytes, n);
            for (int i = 0; i < 3 && n; i++) copy[picture_random(&seed) % n] = (uint8_t)picture_random(&seed);
            exif = (gale_picture_bytes){copy, n};
            double x, y;
            gale__exif_orientation(&exif);
            gale__exif_dpi(&exif, &x, &y);
            gale__exif_extents(&exif, 5, 6);
            gale__exif_upright(&exif);
            gale__free(copy);
        }
    }
}

TEST(prefixes_and_damage)
{
    const gale_picture_read_options small = {.max_pixels = 1 << 16, .max_bytes = 1 << 22};
    for (int i = 0; i < gale__format_count; i++) {
        const gale__format *f = &gale__formats[i];
        if (!f->write) continue;
        void *data = NULL;
        size_t size = 0;
        uint32_t seed = 1;
        int whole = 0, read = 0;
        gale_picture *p = picture_make(
                         13, 11, f->channels & 1 << 4 ? 4 : 3, f->types & GALE__PIC_U16 ? GALE_U16 : GALE_U8),
                     *back = NULL;
        CHECK_OK(gale_picture_to_memory(p, &(gale_picture_write_options){.format = f->about.name}, &data, &size));
        for (size_t n = 0; n < size; n++) {
            uint8_t *copy = malloc(n ? n : 1); /* exactly so large */
            memcpy(copy, data, n);
            if (gale_picture_from_memory(copy, n, &small, &back) == GALE_OK) whole++;
            gale_picture_destroy(&back);
            free(copy);
        }
        /* only what follows the last pixel may be missing */
        if (whole > (!strcmp(f->about.name, "exr") ? 0 : 16))
            printf("FAIL %s: %d of %zu prefixes are pictures\n", f->about.name, whole, size), test_bad++;
        for (int k = 0; k < (test_light() ? 100 : 600); k++) {
            uint8_t *copy = malloc(size);
            memcpy(copy, data, size);
            for (int flips = 0; flips < 1 + k % 3; flips++)
                copy[picture_random(&seed) % (k % 2           ? size
                                                 : size < 100 ? size
                                                              : 100)] ^= (uint8_t)(1 + picture_random(&seed) % 255);
            read += gale_picture_from_memory(copy, size, &small, &back) == GALE_OK;
            gale_picture_destroy(&back);
            free(copy);
        }
        CHECK(read >= 0);
        gale_picture_destroy(&p);
        gale__free(data);
    }
}

TEST(limits)
{
    gale_picture *p = picture_make(100, 50, 3, GALE_U8), *back = NULL;
    for (int i = 0; i < gale__format_count; i++) {
        void *data = NULL;
        size_t size = 0;
        if (!gale__formats[i].write) continue;
        CHECK_OK(gale_picture_to_memory(
            p, &(gale_picture_write_options){.format = gale__formats[i].about.name}, &data, &size));
        CHECK_FAILS(
            gale_picture_from_memory(data, size, &(gale_picture_read_options){.max_pixels = 4999}, &back), LIMIT);
        CHECK(gale_picture_from_memory(data, size, &(gale_picture_read_options){.max_bytes = 14999}, &back) != GALE_OK);
        gale__free(data);
    }
    gale_picture_destroy(&p);
    CHECK_FAILS(
        gale_picture_from_memory("P5 99999 99999 255 x", 20, NULL, &back), FORMAT); /* before anything is allocated */
    CHECK_FAILS(gale_picture_create(0, 5, 3, GALE_U8, &back), INVALID);
    CHECK_FAILS(gale_picture_create(5, 5, 3, GALE_I8, &back), INVALID);
}

TEST(files)
{
    char folder[] = "/tmp/gale-picture-XXXXXX", path[256];
    gale_picture *p = picture_make(20, 10, 3, GALE_U8), *back = NULL;
    gale__file_info *list = NULL;
    size_t count = 0;
    if (!CHECK(mkdtemp(folder) != NULL)) return;
    snprintf(path, sizeof path, "%s/a.PPM", folder);
    CHECK_OK(gale_picture_write(p, path, NULL));
    CHECK_OK(gale_picture_read(path, NULL, &back));
    if (back) CHECK_EQ(largest_step(p, back), 0);
    gale_picture_destroy(&back);
    CHECK_EQ(truncate(path, 300), 0);
    CHECK_FAILS(gale_picture_read(path, NULL, &back), FORMAT);
    CHECK(strstr(gale_error(), path) != NULL && strstr(gale_error(), "truncated") != NULL);
    gale__file_fail_at(1); /* the disk is full: nothing is left behind, and the old file stays */
    CHECK_FAILS(gale_picture_write(p, path, NULL), IO);
    gale__file_fail_at(0);
    CHECK_OK(gale__folder_list(folder, &list, &count));
    CHECK_EQ(count, 1);
    gale__folder_list_free(&list, count);
    CHECK_OK(gale__file_remove(path));
    CHECK_FAILS(gale_picture_read(path, NULL, &back), NOT_FOUND);
    CHECK_FAILS(gale_picture_write(p, "/tmp/none", NULL), INVALID);
    CHECK_FAILS(gale_picture_write(p, "/tmp/none.psd", NULL), INVALID);
    CHECK_FAILS(gale_picture_to_memory(p, NULL, (void **)&list, &count), INVALID);
    rmdir(folder);
    gale_picture_destroy(&p);
}

TEST(text_and_bits)
{
    static const struct {
        const char *text;
        size_t size;
        int channels;
        const char *bytes;
    } rows[] = {
        {"P1 3 2 # a comment\n1 0 1\n010", 0, 1, "\0\xff\0\xff\0\xff"},
        {"P2\n#c\n3 1 3\n0 1 3", 0, 1, "\0\x55\xff"},
        {"P3 1 1 255 1 2 3", 0, 3, "\1\2\3"},
        {"P4 9 1\n\x80\x80", 11, 1, "\0\xff\xff\xff\xff\xff\xff\xff\0"},
        {"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nTUPLTYPE GRAYSCALE_ALPHA\nENDHDR\nab", 0, 2, "ab"},
    };
    for (int i = 0; i < 5; i++) {
        gale_picture *p = NULL;
        if (!CHECK_OK(
                gale_picture_from_memory(rows[i].text, rows[i].size ? rows[i].size : strlen(rows[i].text), NULL, &p)))
            continue;
        CHECK_EQ(p->channels, rows[i].channels);
        CHECK(!memcmp(p->data, rows[i].bytes, (size_t)(p->width * p->height * p->channels)));
        gale_picture_destroy(&p);
    }
    gale_picture *p = NULL;
    CHECK_FAILS(gale_picture_from_memory("P2 1 1 3 4", 10, NULL, &p), FORMAT);
    CHECK_FAILS(gale_picture_from_memory("P2 x 1 3 4", 10, NULL, &p), FORMAT);
    CHECK_FAILS(gale_picture_from_memory("8BPS......", 10, NULL, &p), FORMAT);
    CHECK_FAILS(gale_picture_from_memory("", 0, NULL, &p), FORMAT);
}

/* BMP's palettes and runs, which are never written. */
TEST(old_bitmaps)
{
    uint8_t f[54 + 16 + 16] = {'B', 'M'};
    gale_picture *p = NULL;
    f[10] = 70, f[14] = 40, f[18] = 4, f[22] = 2, f[26] = 1, f[28] = 4, f[46] = 4;
    for (int i = 0; i < 4; i++)
        f[54 + 4 * i] = (uint8_t)(10 * i + 3), f[55 + 4 * i] = (uint8_t)(10 * i + 2),
                   f[56 + 4 * i] = (uint8_t)(10 * i + 1);
    memcpy(f + 70, "\x01\x23\0\0\x33\x00\0\0", 8); /* bottom row first */
    if (CHECK_OK(gale_picture_from_memory(f, 78, NULL, &p)))
        CHECK(!memcmp(p->data, "\37\40\41\37\40\41\1\2\3\1\2\3\1\2\3\13\14\15\25\26\27\37\40\41", 24));
    gale_picture_destroy(&p);
    CHECK_FAILS(gale_picture_from_memory(f, 77, NULL, &p), FORMAT);
    f[30] = 2; /* runs: 0 1 2 3 as a literal, a new line, 3 3 0 0 */
    memcpy(f + 70, "\0\4\x01\x23\0\0\2\x33\2\0\0\1", 12);
    if (CHECK_OK(gale_picture_from_memory(f, 82, NULL, &p)))
        CHECK(!memcmp(p->data, "\37\40\41\37\40\41\1\2\3\1\2\3\1\2\3\13\14\15\25\26\27\37\40\41", 24));
    gale_picture_destroy(&p);
    CHECK_FAILS(gale_picture_from_memory(f, 80, NULL, &p), FORMAT);
}

TEST(conversions)
{
    gale_picture *p = NULL, *q = NULL, *r = NULL;
    CHECK_OK(gale_picture_create(65536, 1, 1, GALE_U16, &p));
    for (int i = 0; i < 65536; i++) ((uint16_t *)p->data)[i] = (uint16_t)i;
    CHECK_OK(gale_picture_convert(p, GALE_F32, 4, &q));
    CHECK_OK(gale_picture_convert(q, GALE_U16, 1, &r));
    CHECK_EQ(largest_step(p, r), 0);
    gale_picture_destroy(&q);
    gale_picture_destroy(&r);
    CHECK_OK(gale_picture_convert(p, GALE_U8, 1, &q)); /* rounded, not cut */
    for (int i = 0; i < 65536; i += 7) CHECK_EQ(((uint8_t *)q->data)[i], (i + 128) / 257);
    CHECK_OK(gale__picture_make(q, (gale__picture_kind){GALE_F32, 1, true, false}, &r)); /* to light and back */
    gale_picture_destroy(&p);
    CHECK_OK(gale_picture_convert(r, GALE_U8, 1, &p));
    CHECK_EQ(largest_step(p, q), 0);
    CHECK(fabs(gale__srgb_to_linear(0.5f) - 0.2140411) < 1e-6 && fabs(gale__linear_to_srgb(0.2140411f) - 0.5) < 1e-6);
    gale_picture_destroy(&p);
    gale_picture_destroy(&q);
    gale_picture_destroy(&r);
    static const float odd[] = {NAN, -1, 2, INFINITY, 0.5f};
    uint8_t bytes[5];
    gale__samples_from_f32(GALE_U8, odd, bytes, 5);
    CHECK(!memcmp(bytes, "\0\0\xff\xff\x80", 5));
}

TEST(alpha)
{
    gale_picture *p = NULL, *q = NULL;
    CHECK_OK(gale_picture_create(1, 1, 4, GALE_U8, &p));
    memcpy(p->data, "\x64\x00\xff\x80", 4);
    CHECK_OK(gale_picture_convert(p, GALE_U8, 3, &q)); /* over white: 100 * 128 / 255 + 127 */
    CHECK_EQ(((uint8_t *)q->data)[0], 177);
    CHECK_EQ(((uint8_t *)q->data)[1], 127);
    gale_picture_destroy(&q);
    CHECK_OK(gale__picture_make(p, (gale__picture_kind){GALE_F32, 4, false, true}, &q));
    CHECK(fabs(((float *)q->data)[0] - 100.0 / 255 * 128 / 255) < 1e-6);
    gale_picture_destroy(&p);
    CHECK_OK(gale__picture_make(q, (gale__picture_kind){GALE_U8, 4, false, false}, &p));
    CHECK(!memcmp(p->data, "\x64\x00\xff\x80", 4));
    gale_picture_destroy(&p);
    gale_picture_destroy(&q);
}

TEST(planes)
{
    for (int c = 1; c <= 4; c++)
        for (int multiply = 0; multiply < 2; multiply++) {
            gale_picture *p = picture_make(700, 301, c, GALE_U16), *q = NULL;
            size_t n = 700 * 301;
            float *colours = gale__alloc(3 * n * sizeof *colours), *alpha = gale__alloc(n * sizeof *alpha);
            int planes = c > 2 ? 3 : 1;
            gale__picture_to_planes(p, planes, multiply, colours, alpha);
            const uint16_t *pixel = (uint16_t *)p->data + 1000 * c;
            double a = c % 2 ? 1 : pixel[c - 1] / 65535.0;
            CHECK(fabs(alpha[1000] - a) < 1e-6);
            for (int k = 0; k < planes; k++)
                CHECK(fabs(colours[(size_t)k * n + 1000] - pixel[k] / 65535.0 * (multiply ? a : 1)) < 1e-6);
            CHECK_OK(gale_picture_create(700, 301, c, GALE_U16, &q));
            gale__picture_from_planes(q, planes, multiply, colours, alpha);
            CHECK_EQ(largest_step(p, q), 0);
            if (c == 3) {
                gale__picture_to_planes(p, 1, false, colours, NULL);
                CHECK(fabs(colours[1000] - (0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]) / 65535) < 1e-4);
            }
            gale__free(colours);
            gale__free(alpha);
            gale_picture_destroy(&p);
            gale_picture_destroy(&q);
        }
}

TEST(decoding_for_models)
{
    gale_picture *p = NULL;
    CHECK_OK(gale__picture_decode("P6 1 1 255 \xc8\x64\x32", 14, "BGR", &p));
    if (p) CHECK(p->channels == 3 && !memcmp(p->data, "\x32\x64\xc8", 3));
    gale_picture_destroy(&p);
    CHECK_OK(gale__picture_decode("P6 1 1 255 \xc8\x64\x32", 14, "Grayscale", &p));
    if (p) CHECK(p->channels == 1 && *(uint8_t *)p->data == 124); /* 200, 100, 50 */
    gale_picture_destroy(&p);
    CHECK_OK(gale__picture_decode("P5 1 1 65535 \x80\x00", 15, "RGB", &p));
    if (p) CHECK(p->channels == 3 && !memcmp(p->data, "\x80\x80\x80", 3));
    gale_picture_destroy(&p);
    CHECK_FAILS(gale__picture_decode("P5 1 1 255 a", 12, "CMYK", &p), INVALID);
}

TEST(comparing)
{
    gale_picture *a = picture_make(60, 40, 3, GALE_U8), *b = NULL, *c = NULL, *shown = NULL;
    gale_picture_difference d;
    CHECK_OK(gale_picture_compare(a, a, &d, 1, NULL));
    CHECK(isinf(d.colours.psnr) && d.luma.ssim == 1 && !d.pixels && d.channels == 3);
    CHECK_OK(gale_picture_convert(a, GALE_U16, 3, &b));
    CHECK_OK(gale_picture_compare(a, b, &d, 1, NULL)); /* depth does not matter */
    CHECK(d.colours.psnr > 120 && d.largest < 1e-6);
    gale_picture_destroy(&b);
    CHECK_OK(gale_picture_convert(a, GALE_U8, 3, &b));
    ((uint8_t *)b->data)[(7 * 60 + 5) * 3 + 1] ^= 16; /* one step of 16 in green at 5, 7 */
    CHECK_OK(gale_picture_compare(a, b, &d, 10, &shown));
    CHECK(fabs(d.colours.psnr - 10 * log10(255.0 * 255 * 60 * 40 * 3 / 256)) < 1e-3 && isinf(d.each[0].psnr));
    CHECK(d.pixels == 1 && d.x == 5 && d.y == 7 && d.channel == 1 && fabs(d.largest * 255 - 16) < 1e-4);
    CHECK(d.each[1].ssim < 1 && d.each[1].ssim > 0.9 && d.each[0].ssim == 1);
    if (shown) CHECK(((uint8_t *)shown->data)[(7 * 60 + 5) * 3 + 1] == 160 && ((uint8_t *)shown->data)[0] == 0);
    gale_picture_destroy(&b);
    CHECK_OK(gale_picture_convert(a, GALE_U8, 4, &b)); /* opaque alpha is no difference */
    CHECK_OK(gale_picture_compare(a, b, &d, 1, NULL));
    CHECK(d.channels == 4 && !d.pixels);
    CHECK_OK(gale_picture_create(60, 39, 3, GALE_U8, &c));
    CHECK_FAILS(gale_picture_compare(a, c, &d, 1, NULL), MISMATCH);
    for (uint64_t n = 1; n; n++) {
        gale__alloc_fail_at(n);
        gale_status status = gale_picture_compare(a, b, &d, 1, NULL);
        bool reached = gale__alloc_count() >= n;
        gale__alloc_fail_at(0);
        if (!reached) break;
        CHECK_EQ(status, GALE_NO_MEMORY);
    }
    gale_picture_destroy(&a);
    gale_picture_destroy(&b);
    gale_picture_destroy(&c);
    gale_picture_destroy(&shown);
}

/* The window by hand, for one place of two small pictures: 11 x 11, so that there is only one. */
TEST(ssim_by_hand)
{
    gale_picture *a = picture_make(11, 11, 1, GALE_F32), *b = picture_make(11, 11, 1, GALE_F32);
    double total = 0, ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
    gale_picture_difference d;
    for (int i = 0; i < 121; i++) ((float *)b->data)[i] = ((float *)a->data)[i] * 0.7f + (i % 3) * 0.05f;
    for (int i = 0; i < 121; i++) total += exp(-((i % 11 - 5) * (i % 11 - 5) + (i / 11 - 5) * (i / 11 - 5)) / 4.5);
    for (int i = 0; i < 121; i++) {
        double w = exp(-((i % 11 - 5) * (i % 11 - 5) + (i / 11 - 5) * (i / 11 - 5)) / 4.5) / total,
               x = ((float *)a->data)[i], y = ((float *)b->data)[i];
        ma += w * x, mb += w * y, aa += w * x * x, bb += w * y * y, ab += w * x * y;
    }
    double want = (2 * ma * mb + 1e-4) * (2 * (ab - ma * mb) + 9e-4) /
                  ((ma * ma + mb * mb + 1e-4) * (aa - ma * ma + bb - mb * mb + 9e-4));
    CHECK_OK(gale_picture_compare(a, b, &d, 1, NULL));
    CHECK(fabs(d.each[0].ssim - want) < 1e-9 && want < 0.99);
    gale_picture_destroy(&a);
    gale_picture_destroy(&b);
    a = picture_make(10, 11, 1, GALE_U8);
    CHECK_OK(gale_picture_compare(a, a, &d, 1, NULL));
    CHECK(isnan(d.luma.ssim));
    gale_picture_destroy(&a);
}

/* Every allocation of ours fails once: an error, nothing lost. */
TEST(faults)
{
    for (int i = 0; i < gale__format_count; i++) {
        const gale__format *f = &gale__formats[i];
        uint8_t icc[600], exif[128];
        if (!f->write) continue;
        int64_t live = gale__alloc_live();
        gale_picture *p = picture_make(40, 30, 4, GALE_F32), *good;
        CHECK_OK(gale__picture_bytes_set(&p->icc, icc, picture_icc(icc, false)));
        CHECK_OK(gale__picture_bytes_set(&p->exif, exif, picture_exif(exif, 6)));
        CHECK_OK(gale__picture_bytes_set(&p->xmp, "<x tiff:Orientation='6'/>", 25));
        CHECK_OK(gale__picture_bytes_set(&p->iptc, "\x1c\2\x78\0\1a", 6));
        CHECK_OK(gale__picture_bytes_set(&p->texts, "\0\0\0\2tEXta\0....", 14));
        good = again(p, &(gale_picture_write_options){.format = f->about.name});
        for (uint64_t n = 1;; n++) {
            void *data = NULL;
            size_t size = 0;
            gale_picture *back = NULL;
            gale__alloc_fail_at(n);
            gale_status status =
                gale_picture_to_memory(p, &(gale_picture_write_options){.format = f->about.name}, &data, &size);
            if (status == GALE_OK) status = gale_picture_from_memory(data, size, NULL, &back);
            bool reached = gale__alloc_count() >= n;
            gale__alloc_fail_at(0);
            /* a library may do without, and then the picture is whole */
            bool turned = back && strcmp(f->about.name, "png"); /* PNG's EXIF is lost without a word */
            if (turned) CHECK(same_shape(good, back) && !largest_step(good, back));
            gale__free(data);
            gale_picture_destroy(&back);
            if (!reached) break;
            if (status != GALE_OK && status != GALE_NO_MEMORY && status != GALE_FORMAT) CHECK_OK(status);
        }
        gale_picture_destroy(&p);
        gale_picture_destroy(&good);
        CHECK_EQ(gale__alloc_live(), live);
    }
}

TEST(table_of_formats)
{
    int n = 0;
    for (; gale_picture_format_get(n); n++) {
        const gale_picture_format *f = gale_picture_format_get(n);
        CHECK(gale__format_of_name(f->name) == &gale__formats[n]);
        if (!f->reads) CHECK(f->package != NULL);
    }
    CHECK_EQ(n, gale__format_count);
    CHECK(gale__format_of_name(".JPG") == gale__format_of_name("jpeg"));
    CHECK(!gale__format_of_name("jp") && !gale__format_of_name(""));
}

TESTS(ROW(round_trips), ROW(whatever_is_given), ROW(lossy_is_near), ROW(notes_are_kept), ROW(long_profile),
    ROW(large_png), ROW(packed_png), ROW(orientation_is_applied_once), ROW(exif_extents), ROW(prefixes_and_damage),
    ROW(limits), ROW(files), ROW(text_and_bits), ROW(old_bitmaps), ROW(conversions), ROW(alpha), ROW(planes),
    ROW(decoding_for_models), ROW(comparing), ROW(ssim_by_hand), ROW(faults), ROW(table_of_formats))
