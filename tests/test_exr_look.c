/* The pixel pipeline of `gale exr` on every device, beside a model in double precision that is written step by step: at
 * most one level of 8 bits apart; and one kernel where nothing is resized. */
#include "provider_device.h"
#include "device_suite.h"
#include "base/num.h"
#include "graph/run/program.h"
#include "jobs/exr/colour.h"
#include "jobs/exr/look.h"
#include "jobs/exr/mip.h"
#include <math.h>

enum { W = 53, H = 31 };

static uint32_t state;
static double unit(void) { return (double)((state = state * 1664525u + 1013904223u) >> 8) / 16777216.0; }

/* Planes with dark, bright, negative and infinite samples, and some that are no numbers. */
static float *make_planes(gale_type type, int channels, void **stored)
{
    size_t n = (size_t)channels * W * H;
    float *v = calloc(n, sizeof *v);
    *stored = calloc(n, gale_type_size(type));
    state = 7;
    for (size_t i = 0; i < n; i++) {
        double x = exp2(unit() * 14 - 9);
        if (unit() < 0.05) x = -x;
        if (unit() < 0.01) x = NAN;
        if (unit() < 0.01) x = INFINITY;
        if (channels % 2 == 0 && i >= n - W * H) x = unit() < 0.1 ? 0 : unit() * 1.2 - 0.1;
        gale__store_f64(type, (char *)*stored + i * gale_type_size(type), x);
        v[i] = (float)gale__load_f64(type, (char *)*stored + i * gale_type_size(type));
    }
    return v;
}

static double curve(double x) { return (x * (0.15 * x + 0.05) + 0.004) / (x * (0.15 * x + 0.5) + 0.06) - 0.02 / 0.3; }

static double tone(gale_exr_tone t, double x, double around)
{
    if (t == GALE_EXR_ACES) return x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14);
    if (t == GALE_EXR_REINHARD) return x / (1 + x);
    if (t == GALE_EXR_FILMIC) return curve(x);
    if (t == GALE_EXR_HABLE) return curve(x) / curve(11.2);
    if (t == GALE_EXR_LOCAL) return x / (1 + around);
    return x;
}

static double filter_of(gale_exr_filter f, double x)
{
    const double pi = acos(-1);
    double a = fabs(x);
    if (f == GALE_EXR_TRIANGLE) return fmax(0, 1 - a);
    if (f == GALE_EXR_BOX) return fabs(x) <= 0.5 + 1e-9; /* a pixel at the edge of two counts for both */
    if (f == GALE_EXR_LANCZOS) return a < 1e-9 ? 1 : a < 3 ? 3 * sin(pi * a) * sin(pi * a / 3) / (pi * pi * a * a) : 0;
    double b = f == GALE_EXR_MITCHELL ? 1.0 / 3 : 0, c = f == GALE_EXR_MITCHELL ? 1.0 / 3 : 0.5;
    if (a < 1) return ((12 - 9 * b - 6 * c) * a * a * a + (-18 + 12 * b + 6 * c) * a * a + (6 - 2 * b)) / 6;
    if (a < 2)
        return ((-b - 6 * c) * a * a * a + (6 * b + 30 * c) * a * a + (-12 * b - 48 * c) * a + (8 * b + 24 * c)) / 6;
    return 0;
}

/* One axis of one line, by the definition. */
static void resample(const gale__look_plan *p, const double *in, int64_t n, int64_t stride, double *out, int64_t m)
{
    double scale = (double)m / (double)n, shrink = fmin(scale, 1);
    for (int64_t o = 0; o < m; o++) {
        double x = ((double)o + 0.5) / scale - 0.5, sum = 0, weights = 0;
        for (int64_t i = 0; i < n; i++) {
            double w = filter_of(p->filter, ((double)i - x) * shrink);
            sum += w * in[i * stride];
            weights += w;
        }
        out[o * stride] = sum / weights;
    }
}

static double *resized(const gale__look_plan *p, const float *planes)
{
    int64_t w = p->in_width, h = p->in_height, most = w > p->width ? w : p->width, high = h > p->height ? h : p->height;
    double *out = calloc((size_t)(p->channels * p->width * p->height), sizeof *out);
    double *a = calloc((size_t)(most * high), sizeof *a), *b = calloc((size_t)(most * high), sizeof *b);
    bool same = w == p->width && h == p->height;
    for (int c = 0; c < p->channels; c++) {
        for (int64_t i = 0; i < w * h; i++) {
            double v = (double)planes[c * w * h + i];
            a[i / w * most + i % w] = same || isfinite(v) ? v : 0;
        }
        if (!same) {
            for (int64_t x = 0; x < w; x++) resample(p, a + x, h, most, b + x, p->height);
            memset(a, 0, (size_t)(most * high) * sizeof *a);
            for (int64_t y = 0; y < p->height; y++) {
                double line[256], made[256];
                memcpy(line, b + y * most, (size_t)w * sizeof *line);
                resample(p, line, w, 1, made, p->width);
                memcpy(a + y * most, made, (size_t)p->width * sizeof *made);
            }
        }
        for (int64_t y = 0; y < p->height; y++)
            memcpy(out + (c * p->height + y) * p->width, a + y * most, (size_t)p->width * sizeof *out);
    }
    free(a);
    free(b);
    return out;
}

/* The geometric mean of luminance around each pixel. */
static double *surroundings(const gale__look_plan *p, const double *rgb, int colours)
{
    int64_t w = p->width, h = p->height, r = (int64_t)(p->radius + 0.5);
    double *l = calloc((size_t)(w * h), sizeof *l), *t = calloc((size_t)(w * h), sizeof *t);
    for (int64_t i = 0; i < w * h; i++)
        l[i] = log(
            1e-6 + (colours == 1 ? rgb[i] : 0.2126 * rgb[i] + 0.7152 * rgb[w * h + i] + 0.0722 * rgb[2 * w * h + i]));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < w * h; i++) {
            double sum = 0, weights = 0;
            for (int64_t k = -r; k <= r; k++) {
                int64_t x = i % w + (pass ? k : 0), y = i / w + (pass ? 0 : k);
                x = x < 0 ? 0 : x >= w ? w - 1 : x, y = y < 0 ? 0 : y >= h ? h - 1 : y;
                double g = exp(-0.5 * pow((double)k / ((double)r / 2), 2));
                sum += g * l[y * w + x], weights += g;
            }
            t[i] = sum / weights;
        }
        memcpy(l, t, (size_t)(w * h) * sizeof *l);
    }
    for (int64_t i = 0; i < w * h; i++) l[i] = exp(l[i]);
    free(t);
    return l;
}

/* Between the two nearest entries. */
static void through_curves(const gale__cube *c, double rgb[3])
{
    int64_t n = c->curve_size;
    for (int i = 0; i < 3 && n; i++) {
        double t = (rgb[i] - c->curve_low[i]) / (c->curve_high[i] - c->curve_low[i]);
        t = fmin(fmax(t, 0), 1) * (double)(n - 1);
        int64_t at = (int64_t)fmin(floor(t), (double)(n - 2));
        const float *v = c->curve + i * n + at;
        rgb[i] = (double)v[0] + (t - (double)at) * (double)(v[1] - v[0]);
        if (!c->size) rgb[i] = fmin(fmax(rgb[i], 0), 1);
    }
}

/* In the tetrahedron of four entries: along the axis of the largest part first. */
static void through_cube(const gale__cube *c, double rgb[3])
{
    int64_t n = c->size, at[3];
    double part[3], out[3] = {0};
    through_curves(c, rgb);
    if (!n) return;
    for (int i = 0; i < 3; i++) {
        double t = fmin(fmax((rgb[i] - c->low[i]) / (c->high[i] - c->low[i]), 0), 1) * (double)(n - 1);
        at[i] = (int64_t)fmin(floor(t), (double)(n - 2));
        part[i] = t - (double)at[i];
    }
    const int64_t step[3] = {1, n, n * n};
    int64_t index = at[0] + at[1] * n + at[2] * n * n;
    double before = 1;
    bool used[3] = {false};
    for (int k = 0; k < 4; k++) {
        int next = -1;
        for (int i = 0; i < 3; i++)
            if (!used[i] && (next < 0 || part[i] > part[next])) next = i;
        double after = k < 3 ? part[next] : 0;
        for (int i = 0; i < 3; i++) out[i] += (before - after) * (double)c->values[i * n * n * n + index];
        if (k == 3) break;
        used[next] = true, index += step[next], before = after;
    }
    for (int i = 0; i < 3; i++) rgb[i] = fmin(fmax(out[i], 0), 1);
}

static double encode(const gale__look_plan *p, double v)
{
    v = fmin(fmax(v, 0), 1);
    if (p->gamma > 0) return pow(v, 1 / p->gamma);
    return v <= 0.0031308 ? 12.92 * v : 1.055 * pow(v, 1 / 2.4) - 0.055;
}

/* Interleaved, before rounding. */
static double *model(const gale__look_plan *p, const float *planes)
{
    int64_t n = p->width * p->height;
    int colours = p->channels > 2 ? 3 : 1;
    double *v = resized(p, planes), *out = calloc((size_t)(n * p->kept), sizeof *out);
    bool alpha = p->channels % 2 == 0 && p->kept == p->channels;
    for (int64_t i = 0; i < n; i++) {
        double rgb[3], a = p->channels % 2 == 0 ? v[colours * n + i] : 1;
        a = a > 0 ? fmin(a, 1) : 0;
        for (int c = 0; c < colours; c++) {
            rgb[c] = v[c * n + i];
            if (p->by_matrix)
                rgb[c] =
                    p->matrix[3 * c] * v[i] + p->matrix[3 * c + 1] * v[n + i] + p->matrix[3 * c + 2] * v[2 * n + i];
        }
        for (int c = 0; c < colours; c++) {
            double x = rgb[c] > 0 && isfinite(rgb[c]) ? rgb[c] : 0;
            v[c * n + i] = fmin((alpha && a > 0 ? x / a : x) * exp2(p->exposure), 1e15);
        }
        if (alpha) out[i * p->kept + colours] = a;
    }
    double *around = p->tone == GALE_EXR_LOCAL ? surroundings(p, v, colours) : NULL;
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < colours; c++)
            out[i * p->kept + c] = encode(p, tone(p->tone, v[c * n + i], around ? around[i] : 0));
    for (int64_t i = 0; i < n && p->cube && colours == 3; i++) through_cube(p->cube, out + i * p->kept);
    free(around);
    free(v);
    return out;
}

/* kernels 0: any number. */
static void check(const char *what, const gale__look_plan *p, int kernels)
{
    const int64_t dims[3] = {p->channels, p->in_height, p->in_width};
    void *stored = NULL;
    float *planes = make_planes(p->type, p->channels, &stored);
    gale_program *program = NULL;
    gale_tensor *in = NULL, *out = NULL;
    int count = 0;
    if (CHECK_OK(gale__look_program(p, device, &program)) &&
        CHECK_OK(gale_tensor_from_cpu(NULL, p->type, 3, dims, stored, &in)) &&
        CHECK_OK(gale_program_run(program, &in, &out, GALE_RUN_ON_HOST))) {
        double *want = model(p, planes), worst = 0, most = p->bits == 16 ? 65535 : 255;
        for (int64_t i = 0; i < p->width * p->height * p->kept; i++) {
            double have =
                p->bits == 16 ? ((uint16_t *)gale_tensor_data(out))[i] : ((uint8_t *)gale_tensor_data(out))[i];
            worst = fmax(worst, fabs(have - want[i] * most));
        }
        double allowed = (p->bits == 16 ? 4 : 1) + (p->dither ? 1e-3 : 0); /* rounding takes half of a level */
        if (!CHECK(worst <= allowed)) printf("  %s: %g levels apart\n", what, worst);
        CHECK_OK(gale__program_kernels(program, &in, &count));
        if (kernels && !CHECK_EQ(count, kernels)) printf("  %s\n", what);
        free(want);
    }
    gale_tensor_destroy(&in);
    gale_tensor_destroy(&out);
    gale_program_destroy(&program);
    free(planes);
    free(stored);
}

static gale__look_plan plan_of(int channels, gale_exr_tone t)
{
    gale__look_plan p;
    memset(&p, 0, sizeof p);
    p.in_width = p.width = W;
    p.in_height = p.height = H;
    p.channels = p.kept = channels;
    p.type = GALE_F16;
    p.tone = t;
    p.bits = 8;
    p.radius = t == GALE_EXR_LOCAL ? 4 : 0;
    return p;
}

static void tones(void)
{
    if (!computes) SKIP("%s computes nothing", device->info.name);
    for (int t = 0; t < GALE_EXR_TONE_COUNT; t++)
        for (int channels = 1; channels <= 4; channels += test_brief() ? 3 : 1) {
            if (test_brief() && device->info.caps.software && t % 2 == channels / 4) continue;
            gale__look_plan p = plan_of(channels, (gale_exr_tone)t);
            check(gale_exr_tone_name(t), &p, t == GALE_EXR_LOCAL ? 0 : 1);
        }
}

static void options(void)
{
    static const double aces[8] = {0.7347, 0.2653, 0, 1, 0.0001, -0.077, 0.32168, 0.33767};
    double m[3][3];
    if (!computes) SKIP("%s computes nothing", device->info.name);
    gale__look_plan p = plan_of(4, GALE_EXR_ACES);
    CHECK(gale__colour_matrix(aces, m));
    p.by_matrix = true;
    memcpy(p.matrix, m, sizeof m);
    check("matrix", &p, 1);
    p.kept = 3;
    check("matrix without alpha", &p, 1);
    p.by_matrix = false;
    memset(p.matrix, 0, sizeof p.matrix);
    check("without alpha", &p, 1);
    p.kept = 4;
    p.exposure = -2.5;
    p.gamma = 2.2;
    p.type = GALE_F32;
    check("exposure, gamma and floats", &p, 1);
    p.bits = 16;
    check("16 bits", &p, 1);
    p.bits = 8;
    p.gamma = 0;
    p.dither = true;
    check("dither", &p, 0);
}

/* Entries that have nothing to do with their neighbours, from the fewest to the most along an axis; with 11 the steps
 * along all axes together have one digit more than each of them. */
static void large_tables(void)
{
    static const int64_t sizes[] = {33, 2, 11, 129};
    if (!computes) SKIP("%s computes nothing", device->info.name);
    for (int k = 0; k < (test_brief() ? 1 : 4); k++) {
        size_t n = (size_t)(3 * sizes[k] * sizes[k] * sizes[k]);
        gale__cube cube = {.size = sizes[k], .high = {1, 1, 1}, .values = gale__calloc(n, sizeof(float))};
        for (size_t i = 0; i < n; i++) cube.values[i] = (float)((uint32_t)(i + 1) * 2654435761u >> 16) / 65535;
        gale__look_plan p = plan_of(4, GALE_EXR_REINHARD);
        p.cube = &cube;
        check("large table", &p, 1);
        p.halves = true;
        check("large table in halves", &p, 1);
        p.kept = 3;
        check("large table without alpha", &p, 1);
        gale__cube_finish(&cube);
    }
}

static void tables(void)
{
    static const char *const texts[] = {
        "TITLE \"turned\"\n# red and blue change places\nLUT_3D_SIZE 2\nDOMAIN_MAX 1 1 0.8\n"
        "0 0 0\n0 0 1\n0 0.9 0\n0 1 1\n1 0 0\n1 0.2 1\n0.7 1 0\n1 1 1\n",
        "LUT_1D_SIZE 3\nDOMAIN_MIN 0.1 0 0\n0.2 0 1\n0.3 0.7 0.5\n1 1.2 -0.1\n",
        "LUT_1D_SIZE 2\nLUT_1D_INPUT_RANGE 0 0.9\nLUT_3D_SIZE 2\nLUT_3D_INPUT_RANGE 0 2\n0 0 0.5\n2 1.5 1\n"
        "0 0 0\n1 0 0\n0 1 0\n1 1 0\n0 0 1\n1 0 1\n0 1 1\n1 1 1\n"};
    gale__cube cube;
    if (!computes) SKIP("%s computes nothing", device->info.name);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!CHECK_OK(gale__cube_parse(texts[i], &cube))) continue;
        gale__look_plan p = plan_of(4, GALE_EXR_REINHARD);
        p.cube = &cube;
        check("table", &p, i < 2); /* both together are too long for one kernel */
        p.halves = true;
        check("table in halves", &p, 0);
        p.kept = 3;
        check("table without alpha", &p, 0);
        gale__cube_finish(&cube);
    }
}

static void damaged_tables(void)
{
    gale__cube cube;
    CHECK_FAILS(gale__cube_parse("LUT_3D_SIZE 2\n0 0 0\n", &cube), FORMAT);
    CHECK_FAILS(gale__cube_parse("LUT_3D_SIZE 2\n0 0 zero\n", &cube), FORMAT);
    CHECK_FAILS(gale__cube_parse("LUT_3D_SIZE 500\n", &cube), FORMAT);
    CHECK_FAILS(gale__cube_parse("LUT_1D_SIZE 2\n0 0 0\n", &cube), FORMAT);
    CHECK_FAILS(gale__cube_parse("LUT_1D_SIZE 2\n0 0 0\n1 1 1\n1 1 1\n", &cube), FORMAT);
    CHECK_FAILS(gale__cube_parse("LUT_1D_SIZE 1000000\n", &cube), FORMAT);
    CHECK_FAILS(gale__cube_parse("LUT_1D_SIZE 2\nLUT_1D_INPUT_RANGE 1 1\n0 0 0\n1 1 1\n", &cube), FORMAT);
    CHECK_FAILS(gale__cube_parse("0 0 0\n", &cube), FORMAT);
    CHECK_FAILS(gale__cube_parse("", &cube), FORMAT);
}

static void sizes(void)
{
    if (!computes) SKIP("%s computes nothing", device->info.name);
    for (int f = 0; f < GALE_EXR_FILTER_COUNT; f++)
        for (int s = 0; s < 3; s++) {
            gale__look_plan p = plan_of(4, GALE_EXR_REINHARD);
            p.filter = (gale_exr_filter)f;
            p.width = (const int[]){20, 11, 70}[s];
            p.height = (const int[]){12, 5, 44}[s];
            if (s == 1) p.type = GALE_F32;
            check(gale_exr_filter_name(f), &p, 0);
        }
}

/* One pixel of a level: of the four above it, those beyond the edge are the edge. */
static double level_pixel(const gale__mip_plan *p, const double *above, int64_t w, int64_t h, int64_t x, int64_t y)
{
    double v[4];
    for (int i = 0; i < 4; i++) {
        int64_t sx = 2 * x + i % 2, sy = 2 * y + i / 2;
        v[i] = above[(sy < h ? sy : h - 1) * w + (sx < w ? sx : w - 1)];
    }
    if (p->reduce == GALE_EXR_BRIGHTEST) return fmax(fmax(v[0], v[1]), fmax(v[2], v[3]));
    if (p->reduce == GALE_EXR_DARKEST) return fmin(fmin(v[0], v[1]), fmin(v[2], v[3]));
    return (v[0] + v[1] + v[2] + v[3]) / 4;
}

/* A level beside that made from the one above; `above` becomes the level as it is. */
static double level_error(const gale__mip_plan *p, const char *level, int number, double *above)
{
    int64_t w = gale__mip_halved(p, p->width, number - 1), h = gale__mip_halved(p, p->height, number - 1),
            to_w = gale__mip_halved(p, p->width, number), to_h = gale__mip_halved(p, p->height, number);
    double worst = 0, *have = calloc((size_t)(to_w * to_h * p->channels), sizeof *have);
    for (int64_t i = 0; i < to_w * to_h * p->channels; i++) {
        int64_t c = i / (to_w * to_h), y = i / to_w % to_h, x = i % to_w;
        double want = level_pixel(p, above + c * w * h, w, h, x, y);
        have[i] = gale__load_f64(p->type, level + (size_t)i * gale_type_size(p->type));
        worst = fmax(worst, fabs(have[i] - want) / (fabs(want) + 1e-3));
    }
    memcpy(above, have, (size_t)(to_w * to_h * p->channels) * sizeof *have);
    free(have);
    return worst;
}

static void check_levels(const gale__mip_plan *p)
{
    size_t n = (size_t)(p->channels * p->width * p->height), size = gale_type_size(p->type);
    char *planes = calloc(n, size);
    double *above = calloc(n, sizeof *above);
    gale_program *program = NULL;
    gale_tensor *in = NULL, *out = NULL;
    const int64_t dims[3] = {p->channels, p->height, p->width};
    int nx, ny;
    gale__mip_count(p, &nx, &ny);
    for (size_t i = 0; i < n; i++) {
        gale__store_f64(p->type, planes + i * size, exp2(unit() * 8 - 4));
        above[i] = gale__load_f64(p->type, planes + i * size);
    }
    if (CHECK_OK(gale__mip_program(p, device, &program)) &&
        CHECK_OK(gale__tensor_borrow(p->type, 3, dims, planes, NULL, NULL, &in)) &&
        CHECK_OK(gale_program_run(program, &in, &out, GALE_RUN_ON_HOST)))
        for (int i = 1; i < nx; i++)
            if (!CHECK(level_error(p, gale__mip_level(p, &out, nx, i, 0), i, above) <=
                       (p->type == GALE_F16 ? 0x1p-11 : 1e-6)))
                printf("  level %d of %lld x %lld\n", i, (long long)p->width, (long long)p->height);
    gale_tensor_destroy(&out);
    gale_tensor_destroy(&in);
    gale_program_destroy(&program);
    free(above);
    free(planes);
}

static void levels(void)
{
    if (!computes) SKIP("%s computes nothing", device->info.name);
    state = 3;
    for (int i = 0; i < 4; i++) {
        gale__mip_plan p = {
            .width = i == 1 ? 37 : 40, .height = 21, .channels = 2, .type = i == 3 ? GALE_F32 : GALE_F16};
        p.round_up = i > 0;
        p.reduce = i == 2 ? GALE_EXR_BRIGHTEST : i == 3 ? GALE_EXR_DARKEST : GALE_EXR_AVERAGE;
        check_levels(&p);
    }
}

static void matrices(void)
{
    /* ACES AP0 to linear sRGB as the Academy gives it (Bradford, D60 to D65). */
    static const double ap0[8] = {0.7347, 0.2653, 0, 1, 0.0001, -0.077, 0.32168, 0.33767};
    static const double want[9] = {
        2.52169, -1.13413, -0.38756, -0.27648, 1.37272, -0.09624, -0.01538, -0.15298, 1.16835};
    static const double srgb[8] = {0.64, 0.33, 0.3, 0.6, 0.15, 0.06, 0.3127, 0.329}, none[8] = {0};
    double m[3][3];
    CHECK(gale__colour_matrix(ap0, m));
    for (int i = 0; i < 9; i++) CHECK(fabs(m[i / 3][i % 3] - want[i]) < 2e-3);
    CHECK(!gale__colour_matrix(srgb, m));
    CHECK(!gale__colour_matrix(none, m));
    CHECK(m[0][0] == 1 && m[0][1] == 0);
}

static const suite_case cases[] = {{"tones", tones}, {"options", options}, {"tables", tables},
    {"large tables", large_tables}, {"damaged tables", damaged_tables}, {"sizes", sizes}, {"levels", levels},
    {"matrices", matrices}, {0}};
SUITE(cases)
