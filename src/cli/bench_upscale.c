/* gale bench upscale: the job that everyone compares by, a picture of 1087 x 1087 in 36 tiles, on every provider of
 * this machine, beside what is claimed elsewhere for a network of that kind (SCUNet). */
#include "cli/model_bench.h"
#include "base/json.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/device_text.h"
#include "cli/model_inputs.h"
#include "cli/table.h"
#include "jobs/upscale/embedded.h"
#include "jobs/batch/output.h"
#include "jobs/upscale/upscale.h"
#include <math.h>
#include <string.h>

enum { SIDE = 1087, TILE = 256, OVERLAP = 64, TILES = 36, REPEATS = 3 };
#define ENOUGH_NS 20000000000u /* of repeats on one device */

static const struct {
    const char *provider, *claim;
} claims[] = {
    {"cpu", "0.45 (80 s)"},
    {"cuda", "10-20"},
    {"tensorrt", "10-20"},
    {"rocm", "8-15"},
    {"vulkan", "3-8; DirectML 5-10"},
};

typedef struct row {
    const gale__provider *provider;
    gale_device_info device;
    double rate, beside;
    int64_t tiles, width, height, overlap, batch, lanes;
    const char *precision;
    bool here;
    char why[256];
} row;
typedef struct rows {
    row list[16];
    int count;
} rows;

static const char *claim_of(const gale__provider *p)
{
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        if (!strcmp(claims[i].provider, p->name)) return claims[i].claim;
    return "-";
}

/* A picture with something in it everywhere, so that the check of results has nothing to say. */
static gale_status make_picture(int64_t side, gale_picture **out)
{
    uint32_t state = 1;
    GALE_TRY(gale_picture_create(side, side, 3, GALE_U8, out));
    uint8_t *p = (*out)->data;
    for (int64_t i = 0; i < side * side * 3; i++)
        p[i] = (uint8_t)((i / 3 % side + i / 3 / side) / 8 + ((state = state * 1664525u + 1013904223u) >> 27));
    return GALE_OK;
}

static gale_status time_pictures(gale_upscaler *u, int64_t side, const gale__args *a, row *r)
{
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_upscale_report report;
    const gale__network *n = gale__upscaler_network(u);
    gale_picture *in = NULL, *first = NULL, *out = NULL;
    gale_status status;
    uint64_t spent = 0;
    int repeats = gale__args_given(a, "repeats") ? (int)gale__args_int(a, "repeats") : REPEATS;
    o.tile = TILE;
    o.overlap = r->overlap = n->fixed_width || n->fixed_height
                                 ? -1
                                 : OVERLAP; /* tiles of a network's own size have room for what they have room for */
    o.batch = gale__args_int(a, "batch");
    o.lanes = gale__args_int(a, "lanes");
    GALE_GO(make_picture(o.batch == 1 && o.lanes < 2 && side > TILE ? TILE : side,
        &first)); /* batches are another plan than a tile, lanes other memory */
    GALE_GO(make_picture(side, &in));
    for (int i = 0; i < 2; i++) { /* the first makes plan and kernels, the second what is captured */
        GALE_GO(gale_upscale(u, first, &o, &report, &out));
        gale_picture_destroy(&out);
    }
    for (int i = 0; i < repeats && spent < ENOUGH_NS; i++) {
        uint64_t begun = gale__time_ns();
        GALE_GO(gale_upscale(u, in, &o, &report, &out));
        uint64_t took = gale__time_ns() - begun;
        double rate = (double)report.tiles * 1e9 / (double)took;
        gale_picture_destroy(&out);
        spent += took;
        if (rate > r->rate) r->rate = rate, r->beside = (double)took / 1e9 - report.network_seconds;
    }
    r->tiles = report.tiles;
    r->width = report.tile_width;
    r->height = report.tile_height;
    r->batch = report.batch;
    r->lanes = report.lanes;
done:
    gale_picture_destroy(&in);
    gale_picture_destroy(&first);
    return status;
}

static gale_status time_provider(const char *model, const gale__args *a, row *r)
{
    gale_device_options o = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    gale_upscaler *u = NULL;
    gale_upscaler_info info;
    gale_model_options model_options;
    gale_status status;
    gale__model_options(a, &model_options);
    o.chain = r->provider->name;
    o.strict = true;
    GALE_GO(gale_device_open(&o, &device));
    r->device = *gale_device_get_info(device);
    GALE_GO(gale_upscaler_open(model, device, &model_options, &u));
    gale_upscaler_get_info(u, &info);
    r->precision = info.precision;
    GALE_GO(time_pictures(u, SIDE / gale__args_int(a, "scale"), a, r));
    r->here = true;
done:
    gale_upscaler_close(&u);
    gale_device_close(&device);
    return status;
}

static void add_row(rows *all, const gale__provider *p, const char *why)
{
    if (all->count == sizeof all->list / sizeof *all->list) return;
    row *r = &all->list[all->count++];
    *r = (row){.provider = p};
    snprintf(r->why, sizeof r->why, "%s", why);
}

static bool is_host(const gale_device_info *info) { return info && info->caps.host_functions; }

/* Every provider once, the CPU first, to which the others are compared.  Software that stands in for a GPU is timed
 * only when it is asked for. */
static void list_all(rows *all)
{
    int count;
    const gale__provider *p = gale__providers(&count);
    add_row(all, gale__provider_find("cpu"), "");
    for (int i = 0; i < count; i++) {
        const gale_device_info *info = gale__provider_device(&p[i]);
        const gale__probe *probe = NULL;
        if (!p[i].rank || is_host(info)) continue;
        gale_status status = gale__provider_probe(&p[i], &probe);
        if (info && info->caps.software) {
            char why[256];
            snprintf(why, sizeof why, "%s is software; --provider %s times it", info->name, p[i].name);
            add_row(all, &p[i], why);
        } else
            add_row(all, &p[i], info ? "" : status == GALE_OK && *probe->reason ? probe->reason : "there is no device");
    }
}

static gale_status list_named(const char *chain, rows *all)
{
    while (*chain) {
        char word[32];
        size_t n = strcspn(chain, ",");
        snprintf(word, sizeof word, "%.*s", (int)n, chain);
        const gale__provider *p = gale__provider_find(word);
        if (!p) return gale__fail(GALE_NO_DEVICE, "'%s' is no provider; `gale devices` lists them", word);
        add_row(all, p, "");
        chain += n + (chain[n] == ',');
    }
    return GALE_OK;
}

static double cpu_rate(const rows *all)
{
    for (int i = 0; i < all->count; i++)
        if (is_host(gale__provider_device(all->list[i].provider))) return all->list[i].rate;
    return 0;
}

static gale_status print(const rows *all, const char *model, const row *one)
{
    static const char *const head[] = {"provider", "tiles/s", "36 tiles", "beside the network", "times the CPU",
        "tiles at once", "claimed for SCUNet, tiles/s", "device, or why not"};
    gale__table t = {.align = "lrrrrrll"};
    printf("%s, %s, tiles of %lld x %lld", model, one->precision, (long long)one->width, (long long)one->height);
    if (one->overlap >= 0) printf(" that overlap by %lld", (long long)one->overlap);
    printf(": %lld tiles, the fastest of a few runs\n", (long long)one->tiles);
    for (int i = 0; i < 8; i++) gale__table_cell(&t, "%s", head[i]);
    for (int i = 0; i < all->count; i++) {
        const row *r = &all->list[i];
        gale__table_cell(&t, "%s", r->provider->name);
        for (int k = 0; k < 5 && !r->here; k++) gale__table_cell(&t, "-");
        if (r->here) {
            gale__table_cell(&t, "%.2f", r->rate);
            gale__table_cell(&t, "%.2f s", TILES / r->rate);
            gale__table_cell(&t, "%.1f ms", 1e3 * r->beside);
            if (cpu_rate(all) > 0) gale__table_cell(&t, "%.1f", r->rate / cpu_rate(all));
            else gale__table_cell(&t, "-");
            gale__table_cell(
                &t, r->lanes > 1 ? "%lld side by side" : "%lld", (long long)(r->lanes > 1 ? r->lanes : r->batch));
        }
        gale__table_cell(&t, "%s", claim_of(r->provider));
        gale__table_cell(&t, "%s", r->here ? r->device.name : r->why);
    }
    return gale__table_print(&t, stdout);
}

static void print_json(const rows *all, const char *model)
{
    gale__str text = {0};
    gale__json_out j;
    gale__json_begin(&j, &text);
    gale__json_array(&j);
    for (int i = 0; i < all->count; i++) {
        const row *r = &all->list[i];
        gale__json_object(&j);
        gale__json_key(&j, "provider"), gale__json_string(&j, r->provider->name);
        gale__json_key(&j, "model"), gale__json_string(&j, model);
        gale__json_key(&j, r->here ? "device" : "why_not"), gale__json_string(&j, r->here ? r->device.name : r->why);
        if (r->here) {
            gale__json_key(&j, "precision"), gale__json_string(&j, r->precision);
            gale__json_key(&j, "tiles"), gale__json_i64(&j, r->tiles);
            gale__json_key(&j, "batch"), gale__json_i64(&j, r->batch);
            gale__json_key(&j, "lanes"), gale__json_i64(&j, r->lanes);
            gale__json_key(&j, "tiles_per_second"), gale__json_f64(&j, r->rate);
            gale__json_key(&j, "seconds_for_36"), gale__json_f64(&j, TILES / r->rate);
            gale__json_key(&j, "seconds_beside_the_network"), gale__json_f64(&j, r->beside);
            gale__json_key(&j, "times_the_cpu"), gale__json_f64(&j, cpu_rate(all) > 0 ? r->rate / cpu_rate(all) : NAN);
        }
        gale__json_key(&j, "claimed"), gale__json_string(&j, claim_of(r->provider));
        gale__json_close(&j, '}');
    }
    gale__json_close(&j, ']');
    gale__print(&text);
}

gale_status gale__bench_upscale(const gale__args *a)
{
    rows all = {0};
    gale__str path = {0};
    gale_status status;
    const row *here = NULL;
    GALE_GO(gale__model_find(gale__args_given(a, "model") ? gale__args_text(a, "model") : GALE__EMBEDDED_USUAL, &path));
    if (gale__args_given(a, "provider")) GALE_GO(list_named(gale__args_text(a, "provider"), &all));
    else list_all(&all);
    for (int i = 0; i < all.count; i++) {
        row *r = &all.list[i];
        if (*r->why) continue;
        status = time_provider(path.text, a, r);
        if (status != GALE_OK) snprintf(r->why, sizeof r->why, "%s", gale_error());
        if (r->here) here = r;
    }
    GALE_GO(here ? GALE_OK : status);
    if (gale__args_flag(a, "json")) print_json(&all, path.text);
    else status = print(&all, path.text, here);
done:
    gale__str_finish(&path);
    return status;
}
