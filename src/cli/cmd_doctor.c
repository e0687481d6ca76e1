/* gale doctor: what is missing and what to install; with --try, the step-by-step test of a provider. */
#include "base/env.h"
#include "cli/cli.h"
#include "device/registry.h"
#include "gale/machine.h"

static const gale__arg args[] = {
    {"try", 't', GALE__ARG_TEXT, "PROVIDER", NULL, NULL,
        "test PROVIDER step by step in a separate process and report which step fails"},
    {"device", 'd', GALE__ARG_INT, "N", NULL, "0..1023", "device index, counted per provider", "GALE_DEVICE"},
    {"debug-layer", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "enable the driver's own validation", "GALE_DEBUG_LAYER"},
    {0},
};

static int print_items(const gale_doctor_result *r)
{
    static const char *const states[] = {"ok", "missing", "denied"};
    gale__str out = {0};
    for (size_t i = 0; i < r->n_items; i++) {
        const gale_doctor_item *item = &r->items[i];
        if (item->kind == GALE_DOCTOR_FILE)
            gale__str_addf(&out, "%-8s %s: %s\n", states[item->state], item->name, item->text);
        else gale__str_addf(&out, "%-8s %-9s %s\n", states[item->state], item->name, item->text);
        for (size_t k = 0; k < item->n_advice; k++) gale__str_addf(&out, "                   %s\n", item->advice[k]);
    }
    gale__str_add(&out, "\nRun `gale doctor --try PROVIDER` to test a provider step by step in a separate process.\n");
    return gale__print(&out);
}

static int examine(void)
{
    gale_doctor_result *r = NULL;
    gale_status status = gale_doctor_examine(NULL, &r);
    int code = status == GALE_OK ? print_items(r) : gale__report(status);
    gale_doctor_result_destroy(&r);
    return code;
}

static void print_step(void *user, const gale_trial_step *step)
{
    if (step->ok) printf("ok       %s%s%s\n", step->name, *step->text ? ": " : "", step->text);
    else printf("FAILED   %s: %s\n", step->name, step->text);
    *(bool *)user |= !step->ok;
    fflush(stdout);
}

static int try_provider(const char *name)
{
    bool told = false; /* the failure has been printed */
    gale_trial_options options = {
        .device = (int)gale__env_get_i64(GALE__ENV_DEVICE, 0), .step = print_step, .user = &told};
    gale_trial_result *r = NULL;
    fflush(stdout);
    gale_status status = gale_doctor_try(name, &options, &r);
    if (status != GALE_OK) return gale__report(status);
    int code = r->passed ? GALE__EXIT_OK : GALE__EXIT_FAILED;
    if (r->passed) printf("%s works\n", name);
    else if (!told) printf("FAILED   %s; remove %s from the provider chain, or update its driver\n", r->reason, name);
    gale_trial_result_destroy(&r);
    return code;
}

static int run(const gale__args *a)
{
    const char *name = gale__args_text(a, "try");
    if (!name) return examine();
    if (!gale__provider_find(name))
        return gale__usage("doctor", "doctor: unknown provider '%s'; `gale devices` lists them", name);
    return try_provider(name);
}

const gale__command gale__command_doctor = {
    .args = args,
    .run = run,
    .about = "Reports for every provider whether it works and, if not, what to install or change. With --try, one "
             "provider is tested step by step in a separate process: if its driver crashes or hangs, the step at which "
             "it failed is named.",
    .examples = "  gale doctor\n  gale doctor --try vulkan",
};
