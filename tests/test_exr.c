/* OpenEXR beyond the plain picture: parts, layers, luminance with chroma, windows, attributes.  The files are written
 * here byte by byte, without compression, so that they may be of any kind, broken ones too. */
#include "picture_make.h"
#include "test.h"

typedef struct part {
    const char *name;     /* NULL: the file has this part alone */
    const char *channels; /* "A B G R", in the order of the alphabet; those with a 2 behind a slash have every second
                             sample in both directions */
    int32_t data[4], display[4]; /* windows: x, y of the first and of the last pixel */
    const char *comment;
    const float *primaries; /* eight; NULL: none */
    float aspect, density;
} part;

static void put32(gale__str *s, int32_t v)
{
    uint8_t b[4];
    for (int i = 0; i < 4; i++) b[i] = (uint8_t)((uint32_t)v >> 8 * i);
    gale__str_add_n(s, (char *)b, 4);
}

static void put_float(gale__str *s, float v)
{
    int32_t bits;
    memcpy(&bits, &v, 4);
    put32(s, bits);
}

static void attribute(gale__str *s, const char *name, const char *type, int32_t size)
{
    gale__str_add_n(s, name, strlen(name) + 1);
    gale__str_add_n(s, type, strlen(type) + 1);
    put32(s, size);
}

static void window(gale__str *s, const char *name, const int32_t w[4])
{
    attribute(s, name, "box2i", 16);
    for (int i = 0; i < 4; i++) put32(s, w[i]);
}

static void text(gale__str *s, const char *name, const char *value)
{
    attribute(s, name, "string", (int32_t)strlen(value));
    gale__str_add(s, value);
}

static void number(gale__str *s, const char *name, float v)
{
    attribute(s, name, "float", 4);
    put_float(s, v);
}

/* The k-th channel's name; 0: there is none.  step: of its samples. */
static size_t channel(const part *p, int k, const char **name, int *step)
{
    const char *at = p->channels;
    for (; k > 0 && *at; k--) at += strcspn(at, " "), at += *at == ' ';
    size_t n = strcspn(at, " /");
    *name = at;
    *step = at[n] == '/' ? at[n + 1] - '0' : 1;
    return n;
}

static void list_channels(gale__str *s, const part *p)
{
    gale__str list = {0};
    const char *name;
    int step;
    size_t n;
    for (int k = 0; (n = channel(p, k, &name, &step)); k++) {
        gale__str_add_n(&list, name, n);
        gale__str_add_n(&list, "", 1);
        put32(&list, 2); /* float */
        put32(&list, 0);
        put32(&list, step);
        put32(&list, step);
    }
    gale__str_add_n(&list, "", 1);
    attribute(s, "channels", "chlist", (int32_t)list.length);
    gale__str_add_n(s, list.text, list.length);
    gale__str_finish(&list);
}

static int32_t lines(const part *p) { return p->data[3] - p->data[1] + 1; }

static void header(gale__str *s, const part *p)
{
    if (p->name) text(s, "name", p->name), text(s, "type", "scanlineimage");
    if (p->name) attribute(s, "chunkCount", "int", 4), put32(s, lines(p));
    list_channels(s, p);
    attribute(s, "compression", "compression", 1), gale__str_add_n(s, "", 1);
    attribute(s, "lineOrder", "lineOrder", 1), gale__str_add_n(s, "", 1);
    window(s, "dataWindow", p->data);
    window(s, "displayWindow", p->display);
    number(s, "pixelAspectRatio", p->aspect > 0 ? p->aspect : 1);
    attribute(s, "screenWindowCenter", "v2f", 8), put_float(s, 0), put_float(s, 0);
    number(s, "screenWindowWidth", 1);
    if (p->density > 0) number(s, "xDensity", p->density);
    if (p->comment) text(s, "comments", p->comment);
    if (p->primaries) attribute(s, "chromaticities", "chromaticities", 32);
    for (int i = 0; i < 8 && p->primaries; i++) put_float(s, p->primaries[i]);
    gale__str_add_n(s, "", 1);
}

/* What channel k of a part has at (x, y). */
static float value(int of, int k, int x, int y)
{
    return 0.1f * (float)(k + 1) + 0.01f * (float)(x % 8) + 0.001f * (float)(y % 8) + (float)of;
}

static void line(gale__str *s, const part *p, int place, bool many, int y)
{
    gale__str samples = {0};
    const char *name;
    int step;
    for (int k = 0; channel(p, k, &name, &step); k++)
        for (int x = p->data[0]; x <= p->data[2] && y % step == 0; x++)
            if (x % step == 0) put_float(&samples, value(place, k, x, y));
    if (many) put32(s, place);
    put32(s, y);
    put32(s, (int32_t)samples.length);
    gale__str_add_n(s, samples.text, samples.length);
    gale__str_finish(&samples);
}

static gale__str make_file(const part *parts, int count)
{
    gale__str s = {0};
    bool many = parts[0].name != NULL;
    put32(&s, 20000630);
    put32(&s, 2 | (many ? 0x1000 : 0) | 0x400); /* long names */
    for (int i = 0; i < count; i++) header(&s, &parts[i]);
    if (many) gale__str_add_n(&s, "", 1);
    size_t table = s.length, at = table;
    int32_t all = 0;
    for (int i = 0; i < count; i++) all += lines(&parts[i]);
    for (int32_t i = 0; i < 2 * all; i++) put32(&s, 0);
    for (int i = 0; i < count; i++)
        for (int y = parts[i].data[1]; y <= parts[i].data[3]; y++, at += 8) {
            uint64_t here = s.length;
            for (int b = 0; b < 8; b++) s.text[at + (size_t)b] = (char)(here >> 8 * b);
            line(&s, &parts[i], i, many, y);
        }
    return s;
}

static char said[1000];
static void hear(void *user, int level, const char *text_of)
{
    (void)user, (void)level;
    snprintf(said, sizeof said, "%s", text_of);
}

/* NULL, and the message in gale_error(), when it is refused. */
static gale_picture *read_layer(const part *parts, int count, const char *layer)
{
    gale_picture *p = NULL;
    gale__str file = make_file(parts, count);
    said[0] = 0;
    gale_log_set(hear, NULL, GALE__WARN);
    gale_picture_from_memory(file.text, file.length, &(gale_picture_read_options){.layer = layer}, &p);
    gale_log_set(NULL, NULL, GALE__WARN);
    gale__str_finish(&file);
    return p;
}

/* Whether channel c of the picture is channel k of the part, as far as the picture shows it. */
static bool holds(const gale_picture *p, int c, const part *of, int place, int k)
{
    for (int64_t i = 0; i < p->width * p->height; i++) {
        int x = (int)(i % p->width) + of->display[0], y = (int)(i / p->width) + of->display[1];
        bool there = x >= of->data[0] && x <= of->data[2] && y >= of->data[1] && y <= of->data[3];
        if (((float *)p->data)[i * p->channels + c] != (there ? value(place, k, x, y) : 0)) return false;
    }
    return true;
}

#define FULL \
    {0, 0, 12, 8}, { 0, 0, 12, 8 }

TEST(layers)
{
    static const struct {
        const char *channels, *layer;
        int count, from[4];
        const char *said;
    } rows[] = {
        {"A B G R Z diffuse.B diffuse.G diffuse.R", NULL, 4, {3, 2, 1, 0}, "ignored: Z, diffuse"},
        {"A B G R Z diffuse.B diffuse.G diffuse.R", "diffuse", 3, {7, 6, 5}, "ignored: A, B, G, R, Z"},
        {"A B G R Z diffuse.B diffuse.G diffuse.R", "Z", 1, {4}, "ignored"},
        {"Z diffuse.A diffuse.B diffuse.G diffuse.R specular.B specular.G specular.R", NULL, 4, {4, 3, 2, 1},
            "ignored: Z, specular"},
        {"a.B a.G a.R v.Combined.B v.Combined.G v.Combined.R", NULL, 3, {5, 4, 3}, "ignored: a"},
        {"a.B a.G a.R v.Combined.B v.Combined.G v.Combined.R", "a", 3, {2, 1, 0}, "ignored: v.Combined"},
        {"b g r", NULL, 3, {2, 1, 0}, ""},
        {"A Y", NULL, 2, {1, 0}, ""},
        {"Z", NULL, 1, {0}, ""},
        {"a.A a.Y", NULL, 2, {1, 0}, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        part p = {.channels = rows[i].channels, .data = {0, 0, 12, 8}, .display = {0, 0, 12, 8}};
        gale_picture *got = read_layer(&p, 1, rows[i].layer);
        if (!got) printf("FAIL %s: %s\n", rows[i].channels, gale_error()), test_bad++;
        if (!got || !CHECK_EQ(got->channels, rows[i].count)) continue;
        CHECK(got->type == GALE_F32 && got->linear && got->premultiplied == (rows[i].count % 2 == 0));
        for (int c = 0; c < rows[i].count; c++) CHECK(holds(got, c, &p, 0, rows[i].from[c]));
        if (*rows[i].said ? !strstr(said, rows[i].said) : *said)
            printf("FAIL %s: \"%s\"\n", rows[i].channels, said), test_bad++;
        gale_picture_destroy(&got);
    }
    part p = {.channels = "Z diffuse.B diffuse.G diffuse.R", .data = {0, 0, 12, 8}, .display = {0, 0, 12, 8}};
    CHECK(!read_layer(&p, 1, "specular") &&
          strstr(gale_error(), "\"specular\" with a picture; available are: Z, diffuse"));
    p.channels = "N.X N.Y2 Z";
    CHECK(!read_layer(&p, 1, NULL) && strstr(gale_error(), "channels: N, Z"));
}

TEST(parts)
{
    static const part parts[] = {{"depth", "Z", FULL}, {"left", "B G R", FULL}, {"right", "B G R a.B a.G a.R", FULL}};
    static const struct {
        const char *layer;
        int part, first;
    } rows[] = {
        {NULL, 1, 2}, {"left", 1, 2}, {"right", 2, 2}, {"right.a", 2, 5}, {"a", 2, 5}, {"depth", 0, 0}, {"Z", 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gale_picture *got = read_layer(parts, 3, rows[i].layer);
        if (!got) printf("FAIL %s: %s\n", rows[i].layer ? rows[i].layer : "usual", gale_error()), test_bad++;
        for (int c = 0; got && c < got->channels; c++)
            CHECK(holds(got, c, &parts[rows[i].part], rows[i].part, rows[i].first - c));
        if (!rows[i].layer) CHECK(strstr(said, "of part left; ignored: part depth, part right") != NULL);
        gale_picture_destroy(&got);
    }
    CHECK(!read_layer(parts, 3, "middle") && strstr(gale_error(), "part depth, part left, part right"));
}

/* R = (RY + 1) Y, B likewise, and G is what is left of Y; chroma between its samples is their mean. */
TEST(luminance_with_chroma)
{
    static const float p3[8] = {0.68f, 0.32f, 0.265f, 0.69f, 0.15f, 0.06f, 0.3127f, 0.329f},
                       weights[2][3] = {{0.2126f, 0.7152f, 0.0722f}, {0.22897f, 0.69174f, 0.07929f}};
    for (int k = 0; k < 4; k++) {
        part p = {.channels = k / 2 ? "A BY/2 RY/2 Y" : "A BY RY Y",
            .data = {-4, 2, 11, 9},
            .display = {-4, 2, 11, 9},
            .primaries = k % 2 ? p3 : NULL};
        gale_picture *got = read_layer(&p, 1, NULL);
        if (!CHECK(got && got->channels == 4)) continue;
        double worst = 0;
        for (int y = 2; y <= 9; y++)
            for (int x = -4; x <= 11; x++) {
                const float *pixel = (float *)got->data + ((y - 2) * 16 + x + 4) * 4;
                double by = 0, ry = 0, luma = value(0, 3, x, y);
                for (int n = 0; n < 4; n++) { /* beyond the last sample there is none */
                    int sx = k / 2 ? x + (n % 2 && x < 11 ? x & 1 : -(x & 1)) : x,
                        sy = k / 2 ? y + (n / 2 && y < 9 ? y & 1 : -(y & 1)) : y;
                    by += value(0, 1, sx, sy) / 4;
                    ry += value(0, 2, sx, sy) / 4;
                }
                double r = (ry + 1) * luma, b = (by + 1) * luma,
                       g = (luma - r * weights[k % 2][0] - b * weights[k % 2][2]) / weights[k % 2][1];
                worst = fmax(worst, fmax(fabs(pixel[0] - r), fmax(fabs(pixel[1] - g), fabs(pixel[2] - b))));
                CHECK(pixel[3] == value(0, 0, x, y));
            }
        if (worst > 2e-4) printf("FAIL chroma %d: off by %g\n", k, worst), test_bad++;
        gale_picture_destroy(&got);
    }
}

TEST(windows)
{
    static const struct {
        int32_t data[4], display[4];
        bool cut;
    } rows[] = {
        {{3, 2, 7, 5}, {0, 0, 12, 8}, false},
        {{-3, -2, 15, 10}, {0, 0, 12, 8}, true},
        {{-5, 4, 6, 20}, {-1, 1, 10, 8}, true},
        {{5, 6, 9, 9}, {5, 6, 9, 9}, false},
    };
    for (int i = 0; i < 4; i++) {
        part p = {.channels = "A B G R"};
        memcpy(p.data, rows[i].data, sizeof p.data);
        memcpy(p.display, rows[i].display, sizeof p.display);
        gale_picture *got = read_layer(&p, 1, NULL);
        if (!CHECK(
                got && got->width == p.display[2] - p.display[0] + 1 && got->height == p.display[3] - p.display[1] + 1))
            continue;
        for (int c = 0; c < 4; c++) CHECK(holds(got, c, &p, 0, 3 - c));
        CHECK_EQ(strstr(said, "are cropped to the display window") != NULL, rows[i].cut);
        gale_picture_destroy(&got);
    }
    part apart = {.channels = "Y", .data = {20, 20, 25, 24}, .display = {0, 0, 5, 5}};
    gale_picture *got = read_layer(&apart, 1, NULL);
    if (CHECK(got && got->width == 6 && got->height == 5)) CHECK(*(float *)got->data == value(0, 0, 20, 20));
    gale_picture_destroy(&got);
    part huge = {.channels = "Y", .data = {0, 0, 5, 5}, .display = {0, 0, 2000000, 2000000}};
    CHECK(!read_layer(&huge, 1, NULL) && strstr(gale_error(), "limit"));
}

static bool has_bytes(const void *data, size_t size, const void *what, size_t n)
{
    for (size_t i = 0; i + n <= size; i++)
        if (!memcmp((const char *)data + i, what, n)) return true;
    return false;
}

TEST(attributes_are_kept)
{
    static const float p3[8] = {0.68f, 0.32f, 0.265f, 0.69f, 0.15f, 0.06f, 0.3127f, 0.329f};
    part p = {.channels = "B G R",
        .data = {0, 0, 12, 8},
        .display = {0, 0, 12, 8},
        .comment = "a long way round",
        .primaries = p3,
        .aspect = 1.5f,
        .density = 100};
    gale_picture *got = read_layer(&p, 1, NULL), *copy = NULL, *back = NULL;
    void *data = NULL;
    size_t size = 0;
    if (!CHECK(got != NULL)) return;
    CHECK(got->dpi_x == 100 && got->dpi_y == 150);
    CHECK_OK(gale_picture_convert(got, GALE_F16, 4, &copy)); /* notes go with the picture */
    CHECK_OK(gale_picture_to_memory(copy, &(gale_picture_write_options){.format = "exr"}, &data, &size));
    CHECK(has_bytes(data, size, "comments\0string\0\x10\0\0\0a long way round", 36));
    if (gale__host_is_little()) CHECK(has_bytes(data, size, p3, sizeof p3));
    CHECK_OK(gale_picture_from_memory(data, size, NULL, &back));
    if (back) CHECK(back->exr.size == got->exr.size && back->dpi_x == 100 && back->dpi_y == 150 && back->channels == 4);
    gale__free(data);
    data = NULL;
    for (size_t n = 0; n < got->exr.size; n++) { /* whatever is in them, writing ends well */
        copy->exr.size = n;
        ((uint8_t *)copy->exr.data)[n * 7 % got->exr.size] ^= (uint8_t)(1 << n % 8);
        CHECK_OK(gale_picture_to_memory(copy, &(gale_picture_write_options){.format = "exr"}, &data, &size));
        gale__free(data);
    }
    gale_picture_destroy(&got);
    gale_picture_destroy(&copy);
    gale_picture_destroy(&back);
}

static bool is_plain(const char *text)
{
    while (*text == '\t' || *text == '\n' || ((unsigned char)*text >= ' ' && *text != 0x7f)) text++;
    return !*text;
}

/* Prefixes and flipped bytes of files of each kind: an error or a picture, nothing lost, and messages that a terminal
 * can show. */
TEST(damage)
{
    static const part kinds[][2] = {{{NULL, "A BY/2 RY/2 Y", {-4, 2, 9, 9}, {0, 0, 12, 8}}},
        {{"depth", "Z", FULL}, {"left", "B G R a.B a.G a.R", FULL}},
        {{NULL, "a.B a.G a.R", {0, 0, 3, 3}, {1, 1, 9, 2}, "comment"}}};
    const gale_picture_read_options small = {.max_pixels = 1 << 16, .max_bytes = 1 << 22};
    for (int i = 0; i < 3; i++) {
        gale__str file = make_file(kinds[i], i == 1 ? 2 : 1);
        gale_picture *p = NULL;
        uint32_t seed = 1;
        int64_t live = gale__alloc_live();
        CHECK_OK(gale_picture_from_memory(file.text, file.length, &small, &p));
        gale_picture_destroy(&p);
        for (size_t n = 0; n < file.length; n += test_light() ? 5 : 1) {
            uint8_t *copy = malloc(n ? n : 1);
            memcpy(copy, file.text, n);
            CHECK(gale_picture_from_memory(copy, n, &small, &p) != GALE_OK);
            gale_picture_destroy(&p);
            free(copy);
        }
        for (int k = 0; k < (test_light() ? 300 : 3000); k++) {
            uint8_t *copy = malloc(file.length);
            memcpy(copy, file.text, file.length);
            for (int flips = 0; flips < 1 + k % 3; flips++)
                copy[picture_random(&seed) % (k % 2 ? file.length : 500)] ^= (uint8_t)(1 + picture_random(&seed) % 255);
            if (gale_picture_from_memory(copy, file.length, &small, &p) != GALE_OK)
                if (!CHECK(is_plain(gale_error()))) printf("  %s\n", gale_error());
            gale_picture_destroy(&p);
            free(copy);
        }
        for (uint64_t n = 1; n; n++) {
            gale__alloc_fail_at(n);
            gale_status status = gale_picture_from_memory(file.text, file.length, &small, &p);
            bool reached = gale__alloc_count() >= n;
            gale__alloc_fail_at(0);
            gale_picture_destroy(&p);
            if (!reached) break;
            if (status != GALE_OK && status != GALE_FORMAT) CHECK_EQ(status, GALE_NO_MEMORY);
        }
        CHECK_EQ(gale__alloc_live(), live);
        gale__str_finish(&file);
    }
}

/* A chunk without bytes, in the compressions of a chunk for each line: RLE and ZIPS. */
TEST(empty_chunks)
{
    static const part kind = {NULL, "a.B a.G a.R", {0, 0, 3, 3}, {0, 0, 3, 3}};
    for (char how = 1; how <= 2; how++) {
        gale__str file = make_file(&kind, 1);
        gale_picture *p = NULL;
        char *name = memmem(file.text, file.length, "compression", 12);
        name[12 + 12 + 4] = how;
        memset(file.text + file.length - 4 * 4 * 3 - 4, 0, 4); /* of the last chunk */
        CHECK_FAILS(gale_picture_from_memory(file.text, file.length, NULL, &p), FORMAT);
        gale__str_finish(&file);
    }
}

TESTS(ROW(layers), ROW(parts), ROW(luminance_with_chroma), ROW(windows), ROW(attributes_are_kept), ROW(damage),
    ROW(empty_chunks))
