/* gale devices: the device behind every provider name, and why a missing one is missing. */
#include "cli/cli.h"
#include "cli/device_text.h"
#include "cli/table.h"

static const gale__arg args[] = {
    GALE__ARG_JSON,
    {"measure", 'm', GALE__ARG_FLAG, NULL, NULL, NULL,
        "measure the peak rates of every device (half a second each) and store them"},
    {0},
};

static int print_table(const gale_devices_result *r)
{
    gale__table t = {.align = "llll"};
    gale__str text = {0};
    gale__table_cell(&t, "provider");
    gale__table_cell(&t, "here");
    gale__table_cell(&t, "device, or why it is missing");
    gale__table_cell(&t, "aliases");
    for (size_t i = 0; i < r->n_providers; i++) {
        const gale_provider_state *p = &r->providers[i];
        gale__table_cell(&t, "%s", p->name);
        if (p->device) gale__table_cell(&t, "%s:%d%s", p->device->backend, p->device->index, p->chosen ? " *" : "");
        else gale__table_cell(&t, "-");
        gale__table_cell(&t, "%s", p->device ? p->device->name : p->reason);
        gale__table_cell(&t, "%s", p->aliases);
    }
    gale_status status = gale__table_print(&t, stdout);
    if (status != GALE_OK) return gale__report(status);
    gale__str_add(&text, "\n");
    if (r->automatic && r->automatic->caps.host_functions)
        gale__str_add(&text, "No GPU detected: run `gale doctor` to see what to install. ");
    gale__str_add(&text, "* marks the default.\n");
    for (size_t i = 0; i < r->n_providers; i++)
        if (*r->providers[i].note) gale__str_addf(&text, "%s: %s.\n", r->providers[i].name, r->providers[i].note);
    for (size_t i = 0; i < r->n_devices; i++) {
        gale__str_add(&text, "\n");
        gale__device_describe(&r->devices[i], &text);
    }
    gale__print(&text);
    return GALE__EXIT_OK;
}

static int print_json(const gale_devices_result *r)
{
    char *text = NULL;
    return gale__print_json(gale_devices_result_json(r, &text), &text);
}

static int run(const gale__args *a)
{
    gale_devices_options options = {.measure = gale__args_flag(a, "measure")};
    gale_devices_result *r = NULL;
    gale_status status = gale_devices_list(&options, &r);
    if (status != GALE_OK) return gale__report(status);
    int code = gale__args_flag(a, "json") ? print_json(r) : print_table(r);
    gale_devices_result_destroy(&r);
    return code;
}

const gale__command gale__command_devices = {
    .args = args,
    .run = run,
    .about = "Lists every provider name with its aliases, the device behind it on this machine, or the reason why it "
             "is missing. Below that, every device with driver, memory, limits, features and measured peak rates.",
    .examples = "  gale devices\n"
                "  gale devices --measure   # measure the peak rates, which plans and reports use\n"
                "  gale devices --json",
};
