/* gale exr stats, histogram, depth and diff: statistics and pictures of channels. */
#include "cli/cmd_exr.h"
#include "cli/table.h"
#include "base/env.h"
#include "base/json.h"
#include "gale/graph.h"
#include <string.h>

static void json_stats(gale__json_out *j, const gale_exr_stats *s, bool bins)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"samples", (double)s->samples}, {"nan", (double)s->nans}, {"infinite", (double)s->infinities},
        {"negative", (double)s->negatives}, {"zero", (double)s->zeros}, {"min", s->least}, {"max", s->largest},
        {"mean", s->mean}, {"deviation", s->deviation}};
    char key[32];
    gale__json_object(j);
    gale__json_put_text(j, "channel", s->name);
    gale__json_put_text(j, "type", gale_type_name(s->type));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        gale__json_put_f64(j, numbers[i].key, numbers[i].value);
    }
    for (int i = 0; i < GALE_EXR_PERCENTILES; i++) {
        snprintf(key, sizeof key, "p%g", gale_exr_percents[i]);
        gale__json_put_f64(j, key, s->percentiles[i]);
    }
    if (bins) {
        gale__json_put_f64(j, "log2_low", s->bins_low);
        gale__json_put_f64(j, "log2_high", s->bins_high);
        gale__json_open(j, "bins", '[');
        for (int i = 0; i < GALE_EXR_BINS; i++) gale__json_i64(j, (int64_t)s->bins[i]);
        gale__json_close(j, ']');
    }
    gale__json_close(j, '}');
}

typedef struct measuring {
    const gale__args *a;
    gale_device *device;
    gale_exr_meter *meter;
    bool histogram, json, strict;
    gale__json_out j;
    gale__str text;
    gale__table table;
} measuring;

static void add_row(gale__table *t, const char *file, const gale_exr_stats *s)
{
    gale__table_cell(t, "%s", file);
    gale__table_cell(t, "%s", s->name);
    gale__table_cell(t, "%s", gale_type_name(s->type));
    gale__table_cell(t, "%.5g", s->least);
    gale__table_cell(t, "%.5g", s->percentiles[1]);
    gale__table_cell(t, "%.5g", s->percentiles[4]);
    gale__table_cell(t, "%.5g", s->percentiles[7]);
    gale__table_cell(t, "%.5g", s->largest);
    gale__table_cell(t, "%.5g", s->mean);
    gale__table_cell(t, "%.5g", s->deviation);
    gale__table_cell(t, "%llu", (unsigned long long)s->negatives);
    gale__table_cell(t, "%llu", (unsigned long long)(s->nans + s->infinities));
}

static const char *const headings[] = {
    "file", "channel", "type", "min", "1 %", "median", "99 %", "max", "mean", "deviation", "negative", "not finite"};

/* The picture of the first part's colours, where --output names one. */
static gale_status draw(const measuring *m, const gale_exr_stats *s, int count)
{
    const char *path = gale__args_text(m->a, "output");
    gale_picture *p = NULL;
    gale_exr_stats chosen[4];
    int n = 0;
    if (!path) return GALE_OK;
    for (int i = 0; i < count && n < 4; i++)
        if (!strcmp(s[i].name, "R") || !strcmp(s[i].name, "G") || !strcmp(s[i].name, "B") || !strcmp(s[i].name, "Y"))
            chosen[n++] = s[i];
    int64_t width = gale__args_int(m->a, "width"), height = gale__args_int(m->a, "height");
    GALE_TRY(
        gale_exr_histogram_picture(n ? chosen : s, n ? n : count, width ? width : 1024, height ? height : 512, &p));
    gale_status status = gale_picture_write(p, path, NULL);
    gale_picture_destroy(&p);
    return status;
}

static gale_status measure_part(measuring *m, const char *path, gale_exr *f, int part)
{
    gale_exr_stats *s = NULL;
    int n = 0;
    GALE_TRY(gale_exr_meter_run(m->meter, f, part, NULL, 0, m->strict ? GALE_EXR_MEASURE_STRICT : 0, &s, &n));
    for (int i = 0; i < n; i++)
        if (m->json) json_stats(&m->j, &s[i], m->histogram);
        else add_row(&m->table, path, &s[i]);
    gale_status status = part == 0 && m->histogram ? draw(m, s, n) : GALE_OK;
    gale_free(s);
    return status;
}

static gale_status measure_parts(measuring *m, const char *path, gale_exr *f)
{
    for (int i = 0; i < gale_exr_part_count(f); i++) {
        gale_status status = measure_part(m, path, f, i);
        if (status != GALE_OK) return gale__fail_within(status, "%s", path);
    }
    return GALE_OK;
}

/* A file that fails is listed with the error, and with the parts before it. */
static gale_status measure_file(measuring *m, const char *path)
{
    gale_exr *f = NULL;
    gale_status status = gale_exr_open(path, NULL, &f);
    if (m->json) {
        gale__json_object(&m->j);
        gale__json_put_text(&m->j, "file", path);
        gale__json_open(&m->j, "channels", '[');
    }
    if (status == GALE_OK) status = measure_parts(m, path, f);
    if (m->json) {
        gale__json_close(&m->j, ']');
        if (status != GALE_OK) gale__json_put_text(&m->j, "error", gale_error());
        gale__json_close(&m->j, '}');
    }
    gale_exr_close(&f);
    return status;
}

/* The CPU, unless something else was requested: the samples are there, and counting takes less than reading. */
static gale_status open_device(measuring *m)
{
    bool strict = gale__args_flag(m->a, "strict"), requested = *gale__env_get(GALE__ENV_PROVIDER);
    GALE_TRY(gale_device_open(strict || requested ? NULL : &(gale_device_options){.chain = "cpu"}, &m->device));
    m->strict = strict && !(requested && gale_device_get_info(m->device)->caps.host_functions);
    return gale_exr_meter_create(m->device, &m->meter);
}

int gale__exr_stats(const gale__args *a, bool histogram)
{
    measuring m = {.a = a, .histogram = histogram, .json = gale__args_flag(a, "json"), .table.align = "lllrrrrrrrrr"};
    gale__inputs in = {0};
    size_t failed = 0;
    int shard = 0, shards = 1;
    gale_status status = gale__exr_shard(a, &shard, &shards);
    if (status == GALE_OK) status = open_device(&m);
    if (status == GALE_OK) status = gale__exr_inputs(a, &in, &failed);
    for (size_t i = 0; i < sizeof headings / sizeof *headings && !m.json; i++)
        gale__table_cell(&m.table, "%s", headings[i]);
    if (m.json) gale__json_begin(&m.j, &m.text), gale__json_array(&m.j);
    for (size_t i = (size_t)shard; i < in.count && status == GALE_OK; i += (size_t)shards) {
        gale_status one = measure_file(&m, in.list[i].path);
        if (one != GALE_OK) gale__report(one), failed++;
    }
    gale__inputs_finish(&in);
    gale_exr_meter_destroy(&m.meter);
    gale_device_close(&m.device);
    if (m.json) gale__json_close(&m.j, ']');
    int code = m.json ? gale__print(&m.text) : gale__report(gale__table_print(&m.table, stdout));
    if (status != GALE_OK) return gale__report(status);
    return failed ? GALE__EXIT_FAILED : code;
}

static gale_status depth(const gale__args *a, gale_device *device)
{
    const char *path = gale__args_text(a, "output");
    gale_exr *f = NULL;
    gale_picture *p = NULL;
    gale_status status;
    if (!path || gale__args_item(a, "INPUT", 1))
        return gale__fail(GALE_INVALID, "depth needs one input file and --output");
    GALE_TRY(gale_exr_open(gale__args_item(a, "INPUT", 0), NULL, &f));
    status = gale_exr_depth(device, f, gale__args_text(a, "layer"), &p);
    if (status != GALE_OK) gale__fail_within(status, "%s", gale__args_item(a, "INPUT", 0));
    GALE_GO(status);
    GALE_GO(gale_picture_write(p, path, NULL));
    GALE_GO(gale__exr_tell_made(a, path, NULL));
done:
    gale_picture_destroy(&p);
    gale_exr_close(&f);
    return status;
}

int gale__exr_depth_view(const gale__args *a) { return gale__on_device(a, depth); }

static void json_difference(gale__json_out *j, const gale_exr_difference *d)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"samples", (double)d->samples}, {"differing", (double)d->differing}, {"max", d->largest},
        {"mean", d->mean}, {"rms", d->rms}, {"psnr", d->psnr}, {"x", (double)d->x}, {"y", (double)d->y}};
    gale__json_object(j);
    gale__json_put_text(j, "channel", d->name);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        gale__json_put_f64(j, numbers[i].key, numbers[i].value);
    }
    gale__json_close(j, '}');
}

static gale_status print_comparison(const gale_exr_comparison *c, bool json)
{
    gale__str text = {0};
    gale__json_out j;
    static const char *const names[] = {"channel", "differ", "of", "largest", "at", "mean", "rms", "PSNR dB"};
    gale__table t = {.align = "lrrrlrrr"};
    if (json) {
        gale__json_begin(&j, &text);
        gale__json_array(&j);
        for (int i = 0; i < c->count; i++) json_difference(&j, &c->channels[i]);
        gale__json_close(&j, ']');
        gale__print(&text);
        return GALE_OK;
    }
    for (int i = 0; i < 8; i++) gale__table_cell(&t, "%s", names[i]);
    for (int i = 0; i < c->count; i++) {
        const gale_exr_difference *d = &c->channels[i];
        gale__table_cell(&t, "%s", d->name);
        gale__table_cell(&t, "%llu", (unsigned long long)d->differing);
        gale__table_cell(&t, "%llu", (unsigned long long)d->samples);
        gale__table_cell(&t, "%.5g", d->largest);
        gale__table_cell(&t, "%lld, %lld", (long long)d->x, (long long)d->y);
        gale__table_cell(&t, "%.5g", d->mean);
        gale__table_cell(&t, "%.5g", d->rms);
        gale__table_cell(&t, "%.2f", d->psnr);
    }
    GALE_TRY(gale__table_print(&t, stdout));
    if (c->only_first > 0) printf("only in the first file: %d channels\n", c->only_first);
    if (c->only_second > 0) printf("only in the second file: %d channels\n", c->only_second);
    return GALE_OK;
}

int gale__exr_diff(const gale__args *a)
{
    const char *first = gale__args_item(a, "INPUT", 0), *second = gale__args_item(a, "INPUT", 1),
               *path = gale__args_text(a, "output");
    gale_exr *f = NULL, *g = NULL;
    gale_exr_comparison c = {0};
    gale_status status;
    if (!second || gale__args_item(a, "INPUT", 2)) return gale__usage("exr", "diff needs two input files");
    GALE_GO(gale_exr_open(first, NULL, &f));
    GALE_GO(gale_exr_open(second, NULL, &g));
    status = gale_exr_compare(f, g, path ? GALE_EXR_COMPARE_PICTURE : 0, &c);
    if (status != GALE_OK) GALE_GO(gale__fail_within(status, "%s, %s", first, second));
    if (path) GALE_GO(gale_picture_write(c.picture, path, NULL));
    GALE_GO(print_comparison(&c, gale__args_flag(a, "json")));
done:;
    int code = status != GALE_OK ? gale__report_compared(status) : c.same ? GALE__EXIT_OK : GALE__EXIT_DIFFER;
    gale_exr_comparison_finish(&c);
    gale_exr_close(&f);
    gale_exr_close(&g);
    return code;
}
