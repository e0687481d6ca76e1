/* A picture of 1087 x 1087 in 36 tiles, the job that everyone compares by, on every provider of this machine, beside
 * what is claimed elsewhere for a network of that kind (SCUNet). */
#include "base/thread.h"
#include "gale/selftest.h"
#include "jobs/batch/output.h"
#include "jobs/machine/machine.h"
#include "jobs/upscale/embedded.h"
#include "jobs/upscale/upscale.h"
#include <math.h>
#include <stdio.h>
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

typedef struct rows {
    gale__arena *arena; /* the result's */
    gale_tiles_time *list;
    size_t count;
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

static bool tell_tiles(void *user, int64_t done, int64_t tiles)
{
    return gale__job_tell(user, "picture", "tiles", (uint64_t)done, (uint64_t)tiles) == GALE_OK;
}

static gale_status time_pictures(gale_upscaler *u, const gale_tiles_options *given, gale_tiles_time *r)
{
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    gale_upscale_report report;
    const gale__network *n = gale__upscaler_network(u);
    gale_picture *in = NULL, *first = NULL, *out = NULL;
    gale_status status;
    uint64_t spent = 0;
    int repeats = given->repeats ? given->repeats : REPEATS;
    int64_t side = SIDE / (given->scale ? given->scale : 1);
    o.tile = TILE;
    o.overlap = r->overlap = n->fixed_width || n->fixed_height
                                 ? -1
                                 : OVERLAP; /* tiles of a network's own size have room for what they have room for */
    o.batch = given->batch ? given->batch : GALE_BATCH_AUTO;
    o.lanes = given->lanes;
    o.progress = tell_tiles;
    o.user = (void *)&given->control;
    GALE_GO(make_picture(o.batch == 1 && o.lanes < 2 && side > TILE ? TILE : side,
        &first)); /* batches are another plan than a tile, lanes other memory */
    GALE_GO(make_picture(side, &in));
    for (int i = 0; i < 2; i++) { /* the first makes plan and kernels, the second what is captured */
        GALE_GO(gale_upscale(u, first, &o, &report, &out));
        gale_picture_destroy(&out);
    }
    for (int i = 0; i < repeats && spent < ENOUGH_NS; i++) {
        GALE_GO(gale__job_tell(&given->control, r->provider, "runs", (uint64_t)i, (uint64_t)repeats));
        uint64_t begun = gale__time_ns();
        GALE_GO(gale_upscale(u, in, &o, &report, &out));
        uint64_t took = gale__time_ns() - begun;
        double rate = (double)report.tiles * 1e9 / (double)took;
        gale_picture_destroy(&out);
        spent += took;
        if (rate <= r->tiles_per_second) continue;
        r->tiles_per_second = rate;
        r->beside_seconds = (double)took / 1e9 - report.network_seconds;
    }
    GALE_GO(gale__job_tell(&given->control, r->provider, "runs", (uint64_t)repeats, (uint64_t)repeats));
    r->tiles = report.tiles;
    r->tile_width = report.tile_width;
    r->tile_height = report.tile_height;
    r->batch = report.batch;
    r->lanes = report.lanes;
done:
    gale_picture_destroy(&in);
    gale_picture_destroy(&first);
    return status;
}

static gale_status time_provider(const char *model, const gale_tiles_options *given, rows *all, gale_tiles_time *r)
{
    gale_device_options o = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    gale_upscaler *u = NULL;
    gale_upscaler_info info;
    gale_status status;
    o.chain = r->provider;
    o.strict = true;
    GALE_GO(gale_device_open(&o, &device));
    GALE_GO(gale_upscaler_open(model, device, &given->options, &u));
    gale_upscaler_get_info(u, &info);
    r->precision = gale__arena_strdup(all->arena, info.precision);
    GALE_GO(r->precision ? GALE_OK : GALE_NO_MEMORY);
    GALE_GO(time_pictures(u, given, r));
    r->device = gale__arena_strdup(all->arena, gale_device_get_info(device)->name);
    status = r->device ? GALE_OK : GALE_NO_MEMORY;
done:
    gale_upscaler_close(&u);
    gale_device_close(&device);
    return status;
}

/* --- Which providers. --- */

/* why "": it is to be timed. */
static gale_status add_row(rows *all, const gale__provider *p, const char *why)
{
    gale_tiles_time *r = gale__arena_add(all->arena, &all->list, &all->count, sizeof *r);
    if (!r) return GALE_NO_MEMORY;
    *r = (gale_tiles_time){
        .provider = p->name, .claim = claim_of(p), .reason = gale__arena_printf(all->arena, "%.255s", why)};
    return r->reason ? GALE_OK : GALE_NO_MEMORY;
}

static bool is_host(const gale_device_info *info) { return info && info->caps.host_functions; }

/* Every provider once, the CPU first, to which the others are compared.  Software that stands in for a GPU is timed
 * only when it is asked for. */
static gale_status list_all(rows *all)
{
    int count;
    const gale__provider *p = gale__providers(&count);
    GALE_TRY(add_row(all, gale__provider_find("cpu"), ""));
    for (int i = 0; i < count; i++) {
        const gale_device_info *info = gale__provider_device(&p[i]);
        const gale__probe *probe = NULL;
        char why[256] = "";
        if (!p[i].rank || is_host(info)) continue;
        gale_status status = gale__provider_probe(&p[i], &probe);
        bool told = status == GALE_OK && *probe->reason;
        if (info && info->caps.software)
            snprintf(why, sizeof why, "%s is a software driver; use --provider %s to time it", info->name, p[i].name);
        else if (!info) snprintf(why, sizeof why, "%s", told ? probe->reason : "no device");
        GALE_TRY(add_row(all, &p[i], why));
    }
    return GALE_OK;
}

static gale_status list_named(const char *chain, rows *all)
{
    while (*chain) {
        char word[32];
        size_t n = strcspn(chain, ",");
        snprintf(word, sizeof word, "%.*s", (int)n, chain);
        const gale__provider *p = gale__provider_find(word);
        if (!p) return gale__fail(GALE_NO_DEVICE, "unknown provider '%s'; `gale devices` lists them", word);
        GALE_TRY(add_row(all, p, ""));
        chain += n + (chain[n] == ',');
    }
    return GALE_OK;
}

static void compare_with_cpu(rows *all)
{
    double cpu = 0;
    for (size_t i = all->count; i-- > 0;)
        if (is_host(gale__provider_device(gale__provider_find(all->list[i].provider))))
            cpu = all->list[i].tiles_per_second;
    for (size_t i = 0; i < all->count && cpu > 0; i++) all->list[i].times_the_cpu = all->list[i].tiles_per_second / cpu;
}

/* A provider that fails says why in its row; all of them failing is a failure. */
static gale_status time_all(const char *model, const gale_tiles_options *o, rows *all, gale_tiles_result *r)
{
    gale_status status = gale__fail(GALE_NO_DEVICE, "no provider to time");
    bool any = false;
    for (size_t i = 0; i < all->count; i++) {
        gale_tiles_time *row = &all->list[i];
        if (*row->reason) continue;
        status = time_provider(model, o, all, row);
        if (status == GALE_CANCELLED || status == GALE_NO_MEMORY) GALE_TRY(status);
        if (status != GALE_OK && !(row->reason = gale__arena_printf(all->arena, "%.255s", gale_error())))
            return GALE_NO_MEMORY;
        if (!row->device) continue;
        r->last = i;
        any = true;
    }
    return any ? GALE_OK : status;
}

static gale_status bench_tiles(const gale_tiles_options *o, gale_tiles_result *r)
{
    rows all = {.arena = gale__result_arena(r)};
    gale__str path = {0};
    gale_status status;
    GALE_TRY(gale__job_tell(&o->control, "probe", "providers", 0, 0));
    GALE_GO(gale__model_find(o->model ? o->model : GALE__EMBEDDED_USUAL, &path));
    GALE_GO(o->chain ? list_named(o->chain, &all) : list_all(&all));
    r->model = gale__arena_strdup(all.arena, path.text);
    GALE_GO(r->model ? GALE_OK : GALE_NO_MEMORY);
    GALE_GO(time_all(path.text, o, &all, r));
    compare_with_cpu(&all);
    r->rows = all.list;
    r->n_rows = all.count;
done:
    gale__str_finish(&path);
    return status;
}

gale_status gale_tiles_bench(const gale_tiles_options *options, gale_tiles_result **out)
{
    GALE__NEED({"out", out});
    GALE__OPTIONS(options);
    static const gale_tiles_options usual = {0};
    const gale_tiles_options *o = options ? options : &usual;
    if (o->scale < 0 || o->scale > 1024 || o->repeats < 0 || o->batch < 0 || o->lanes < 0)
        return gale__fail(GALE_INVALID, "tiles: scale must be 1 to 1024, and repeats, batch and lanes not negative");
    gale_tiles_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? bench_tiles(o, result) : GALE_NO_MEMORY;
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_tiles_result)

static void add_json(gale__json_out *j, const char *model, const gale_tiles_time *r)
{
    gale__json_object(j);
    gale__json_put_text(j, "provider", r->provider);
    gale__json_put_text(j, "model", model);
    gale__json_put_text(j, r->device ? "device" : "why_not", r->device ? r->device : r->reason);
    if (r->device) {
        gale__json_put_text(j, "precision", r->precision);
        gale__json_put_i64(j, "tiles", r->tiles);
        gale__json_put_i64(j, "batch", r->batch);
        gale__json_put_i64(j, "lanes", r->lanes);
        gale__json_put_f64(j, "tiles_per_second", r->tiles_per_second);
        gale__json_put_f64(j, "seconds_for_36", TILES / r->tiles_per_second);
        gale__json_put_f64(j, "seconds_beside_the_network", r->beside_seconds);
        gale__json_put_f64(j, "times_the_cpu", r->times_the_cpu > 0 ? r->times_the_cpu : NAN);
    }
    gale__json_put_text(j, "claimed", r->claim);
    gale__json_close(j, '}');
}

GALE__RESULT_JSON(gale_tiles_result, '[')
{
    for (size_t i = 0; i < r->n_rows; i++) add_json(j, r->model, &r->rows[i]);
}
