/* gale bench upscale: tiles per second on every provider, beside published figures. */
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/model_args.h"
#include "cli/table.h"
#include "gale/selftest.h"

enum { TILES = 36 };

static void add_times(gale__table *t, const gale_tiles_time *r)
{
    gale__table_cell(t, "%.2f", r->tiles_per_second);
    gale__table_cell(t, "%.2f s", TILES / r->tiles_per_second);
    gale__table_cell(t, "%.1f ms", 1e3 * r->beside_seconds);
    if (r->times_the_cpu > 0) gale__table_cell(t, "%.1f", r->times_the_cpu);
    else gale__table_cell(t, "-");
    gale__table_cell(t, r->lanes > 1 ? "%lld lanes" : "%lld", (long long)(r->lanes > 1 ? r->lanes : r->batch));
}

static gale_status print(const gale_tiles_result *r)
{
    static const char *const head[] = {"provider", "tiles/s", "36 tiles", "outside the network", "speed-up over CPU",
        "tiles at once", "published for SCUNet, tiles/s", "device, or why it is missing"};
    const gale_tiles_time *one = &r->rows[r->last];
    gale__table t = {.align = "lrrrrrll"};
    printf("%s, %s, tiles of %lld x %lld", r->model, one->precision, (long long)one->tile_width,
        (long long)one->tile_height);
    if (one->overlap >= 0) printf(" with an overlap of %lld", (long long)one->overlap);
    printf(": %lld tiles, best of several runs\n", (long long)one->tiles);
    for (int i = 0; i < 8; i++) gale__table_cell(&t, "%s", head[i]);
    for (size_t i = 0; i < r->n_rows; i++) {
        const gale_tiles_time *row = &r->rows[i];
        gale__table_cell(&t, "%s", row->provider);
        for (int k = 0; k < 5 && !row->device; k++) gale__table_cell(&t, "-");
        if (row->device) add_times(&t, row);
        gale__table_cell(&t, "%s", row->claim);
        gale__table_cell(&t, "%s", row->device ? row->device : row->reason);
    }
    return gale__table_print(&t, stdout);
}

gale_status gale__bench_upscale(const gale__args *a)
{
    gale_tiles_options options = {.model = gale__args_text(a, "model"),
        .chain = gale__args_text(a, "provider"),
        .scale = (int)gale__args_int(a, "scale"),
        .repeats = gale__args_given(a, "repeats") ? (int)gale__args_int(a, "repeats") : 0,
        .batch = gale__args_int(a, "batch"),
        .lanes = gale__args_int(a, "lanes")};
    gale_tiles_result *r = NULL;
    char *text = NULL;
    gale__model_options(a, &options.options);
    GALE_TRY(gale_tiles_bench(&options, &r));
    gale_status status = GALE_OK;
    if (gale__args_flag(a, "json")) gale__print_text(gale_tiles_result_json(r, &text), &text);
    else status = print(r);
    gale_tiles_result_destroy(&r);
    return status;
}
