/* gale compare: the difference of two pictures. */
#include "cli/cli.h"
#include "base/json.h"
#include "cli/table.h"
#include "gale/picture.h"
#include <math.h>
#include <string.h>

enum { WHITE = 255 }; /* what differences are counted in, whatever the depth */

static const gale__arg args[] = {
    {"A", 0, GALE__ARG_FILE, NULL, NULL, NULL, "a picture; -: standard input", NULL, true},
    {"B", 0, GALE__ARG_FILE, NULL, NULL, NULL, "the picture to compare with", NULL, true},
    {"diff", 'o', GALE__ARG_FILE, NULL, NULL, NULL, "write a picture of the differences", .writes = true},
    {"gain", 'g', GALE__ARG_REAL, NULL, "8", "0..1e6", "amplify the differences in that picture by this factor"},
    {"min-psnr", 0, GALE__ARG_REAL, "DB", NULL, "0..1000", "exit with 4 if the PSNR of the colours is lower"},
    {"min-ssim", 0, GALE__ARG_REAL, NULL, NULL, "-1..1", "exit with 4 if the SSIM of the luma is lower"},
    GALE__ARG_JSON,
    {0},
};

static const char *channel_name(int channels, int i)
{
    static const char *const names[5][4] = {
        {0}, {"grey"}, {"grey", "alpha"}, {"red", "green", "blue"}, {"red", "green", "blue", "alpha"}};
    return names[channels][i];
}

/* As many digits as a float has: 1 is not 0.99999994. */
static double rounded(double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", v);
    return gale__text_to_f64(text, &v) ? v : NAN;
}

static void json_measure(gale__json_out *j, const char *name, const gale_picture_measure *m)
{
    gale__json_open(j, name, '{');
    gale__json_put_f64(j, "psnr_db", m->psnr);
    gale__json_put_f64(j, "ssim", m->ssim);
    gale__json_put_f64(j, "largest_of_255", rounded(m->largest * WHITE));
    gale__json_close(j, '}');
}

static int print_json(const gale_picture *p, const gale_picture_difference *d)
{
    gale__str out = {0};
    gale__json_out j;
    gale__json_begin(&j, &out);
    gale__json_object(&j);
    gale__json_put_i64(&j, "width", p->width);
    gale__json_put_i64(&j, "height", p->height);
    gale__json_put_bool(&j, "identical", !d->pixels);
    gale__json_put_i64(&j, "pixels_that_differ", (int64_t)d->pixels);
    json_measure(&j, "colours", &d->colours);
    json_measure(&j, "luma", &d->luma);
    for (int i = 0; i < d->channels; i++) json_measure(&j, channel_name(d->channels, i), &d->each[i]);
    gale__json_open(&j, "largest_at", '{');
    gale__json_put_i64(&j, "x", d->x);
    gale__json_put_i64(&j, "y", d->y);
    gale__json_put_text(&j, "channel", channel_name(d->channels, d->channel));
    gale__json_close(&j, '}');
    gale__json_close(&j, '}');
    return gale__print(&out);
}

static void row(gale__table *t, const char *name, const gale_picture_measure *m)
{
    gale__table_cell(t, "%s", name);
    if (isinf(m->psnr)) gale__table_cell(t, "inf");
    else gale__table_cell(t, "%.2f", m->psnr);
    if (isnan(m->ssim)) gale__table_cell(t, "-");
    else gale__table_cell(t, "%.5f", m->ssim);
    gale__table_cell(t, "%.4g", m->largest * WHITE);
}

static int print_table(const gale_picture *p, const gale_picture_difference *d)
{
    gale__table t = {.align = "lrrr"};
    static const char *const heads[] = {"channel", "PSNR dB", "SSIM", "largest of 255"};
    for (int i = 0; i < 4; i++) gale__table_cell(&t, "%s", heads[i]);
    if (d->channels > 1) row(&t, "colours", &d->colours);
    if (d->channels > 2) row(&t, "luma", &d->luma);
    for (int i = 0; i < d->channels; i++) row(&t, channel_name(d->channels, i), &d->each[i]);
    gale_status status = gale__table_print(&t, stdout);
    if (status != GALE_OK) return gale__report(status);
    if (!d->pixels) printf("%lld x %lld pixels, identical\n", (long long)p->width, (long long)p->height);
    else
        printf("%lld x %lld pixels, %llu differ, most at %lld,%lld in %s\n", (long long)p->width, (long long)p->height,
            (unsigned long long)d->pixels, (long long)d->x, (long long)d->y, channel_name(d->channels, d->channel));
    return GALE__EXIT_OK;
}

/* Requested limits that are not reached. */
static int judge(const gale__args *a, const gale_picture_difference *d)
{
    int code = GALE__EXIT_OK;
    if (gale__args_given(a, "min-psnr") && !(d->colours.psnr >= gale__args_real(a, "min-psnr"))) {
        fprintf(stderr, "gale: PSNR of %.2f dB is below %g\n", d->colours.psnr, gale__args_real(a, "min-psnr"));
        code = GALE__EXIT_DIFFER;
    }
    if (gale__args_given(a, "min-ssim") && d->pixels && isnan(d->luma.ssim)) {
        fprintf(stderr, "gale: pictures smaller than 11 x 11 pixels have no SSIM, and these differ\n");
        code = GALE__EXIT_DIFFER;
    } else if (gale__args_given(a, "min-ssim") && d->pixels && !(d->luma.ssim >= gale__args_real(a, "min-ssim"))) {
        fprintf(stderr, "gale: SSIM of %.5f is below %g\n", d->luma.ssim, gale__args_real(a, "min-ssim"));
        code = GALE__EXIT_DIFFER;
    }
    return code;
}

static gale_status read_picture(const gale__args *a, const char *name, gale_picture **out)
{
    const char *path = gale__args_text(a, name);
    return gale_picture_read(strcmp(path, "-") ? path : "/dev/stdin", NULL, out);
}

static int run(const gale__args *a)
{
    gale_picture *p = NULL, *q = NULL, *made = NULL;
    gale_picture_difference d;
    const char *diff = gale__args_text(a, "diff"), *one = gale__args_text(a, "A"), *other = gale__args_text(a, "B");
    gale_status status;
    if (!strcmp(one, "-") && !strcmp(other, "-")) return gale__usage("compare", "standard input can be used only once");
    GALE_GO(read_picture(a, "A", &p));
    GALE_GO(read_picture(a, "B", &q));
    GALE_GO(gale_picture_compare(p, q, &d, gale__args_real(a, "gain"), diff ? &made : NULL));
    if (diff) GALE_GO(gale_picture_write(made, diff, NULL));
done:;
    int code = status != GALE_OK            ? gale__report_compared(status)
               : gale__args_flag(a, "json") ? print_json(p, &d)
                                            : print_table(p, &d);
    if (code == GALE__EXIT_OK) code = judge(a, &d);
    gale_picture_destroy(&p);
    gale_picture_destroy(&q);
    gale_picture_destroy(&made);
    return code;
}

const gale__command gale__command_compare = {
    .args = args,
    .run = run,
    .about = "Compares two pictures of the same size and prints PSNR, SSIM (11 x 11 Gaussian window, sigma 1.5) and "
             "the largest difference: for all colours together, for the luma and for each channel. Orientation is "
             "applied first; a picture without alpha is treated as opaque. The largest difference is given in 8-bit "
             "levels (255: black against white) for pictures of any depth, also in JSON (largest_of_255).",
    .examples = "  gale compare a.png b.jpg\n"
                "  gale compare a.png b.png --diff differences.png   # show the differences, amplified eight times\n"
                "  gale compare a.png b.png --min-psnr 40           # exit code 4 below 40 dB",
};
