/* gale top: load and memory of each device, updated continuously. */
#include "cli/cli.h"
#include "cli/table.h"
#include "gale/machine.h"
#include <unistd.h>

static const gale__arg args[] = {
    {"once", '1', GALE__ARG_FLAG, NULL, NULL, NULL, "print one table and exit"},
    {"interval", 'i', GALE__ARG_REAL, "S", "1", "0.1..3600", "seconds between updates"},
    GALE__ARG_JSON,
    {0},
};

static int print_rows(const gale_usage_result *r)
{
    gale__table t = {.align = "llrrrrrr"};
    static const char *const heads[] = {"device", "name", "busy", "memory used", "of", "share", "temperature", "power"};
    for (int i = 0; i < 8; i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t i = 0; i < r->n_devices; i++) {
        const gale_usage *x = &r->devices[i];
        char used[32], total[32];
        gale__table_cell(&t, "%s", x->device);
        gale__table_cell(&t, "%s", x->name);
        if (x->busy_percent >= 0) gale__table_cell(&t, "%.0f %%", x->busy_percent);
        else gale__table_cell(&t, "-");
        gale__table_cell(&t, "%s", gale__bytes_text(x->memory_used_bytes, used));
        gale__table_cell(&t, "%s", gale__bytes_text(x->memory_bytes, total));
        gale__table_cell(
            &t, "%.0f %%", x->memory_bytes ? 100.0 * (double)x->memory_used_bytes / (double)x->memory_bytes : 0);
        if (x->celsius) gale__table_cell(&t, "%u C", x->celsius);
        else gale__table_cell(&t, "-");
        if (x->watts) gale__table_cell(&t, "%u W", x->watts);
        else gale__table_cell(&t, "-");
    }
    return gale__report(gale__table_print(&t, stdout));
}

static int print_json(const gale_usage_result *r)
{
    char *text = NULL;
    return gale__print_json(gale_usage_result_json(r, &text), &text);
}

static int run(const gale__args *a)
{
    bool once = gale__args_flag(a, "once") || gale__args_flag(a, "json") || !isatty(STDOUT_FILENO);
    gale_usage_options options = {.seconds = gale__args_real(a, "interval")};
    gale_usage_meter *meter = NULL;
    int code = GALE__EXIT_OK;
    gale_status status = gale_usage_meter_open(&meter);
    if (once && options.seconds > 0.2) options.seconds = 0.2;
    while (status == GALE_OK && code == GALE__EXIT_OK) {
        gale_usage_result *r = NULL;
        status = gale_usage_read(meter, &options, &r);
        if (status != GALE_OK) break;
        if (!once) printf("\033[H\033[2J");
        code = gale__args_flag(a, "json") ? print_json(r) : print_rows(r);
        fflush(stdout);
        gale_usage_result_destroy(&r);
        if (once) break;
    }
    gale_usage_meter_close(&meter);
    return status == GALE_OK ? code : gale__report(status);
}

const gale__command gale__command_top = {
    .args = args,
    .run = run,
    .about = "Shows load and memory of each device, live, until interrupted. In a pipe, with --once or with --json, "
             "one snapshot is printed.",
    .examples = "  gale top\n  gale top --once",
};
