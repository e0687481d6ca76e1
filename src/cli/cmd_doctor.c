/* gale doctor: what is missing and what to install; with --try, the step-by-step test of a provider. */
#include "base/env.h"
#include "cli/cli.h"
#include "device/registry.h"
#include "gale/machine.h"
#include <string.h>

static const gale__arg args[] = {
    {"try", 't', GALE__ARG_TEXT, "PROVIDER", NULL, NULL,
        "test PROVIDER step by step in a separate process and report which step fails"},
    {"device", 'd', GALE__ARG_INT, "N", NULL, "0..1023", "device index, counted per provider", "GALE_DEVICE"},
    {"debug-layer", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "enable the driver's own validation", "GALE_DEBUG_LAYER"},
    GALE__ARG_JSON,
    {0},
};

/* One line for all that work. */
static void add_pictures(const gale_doctor_result *r, gale__str *out)
{
    int n = 0;
    for (size_t i = 0; i < r->n_items; i++) {
        const gale_doctor_item *item = &r->items[i];
        if (item->kind != GALE_DOCTOR_PICTURES || item->state != GALE_DOCTOR_OK) continue;
        bool only = item->text && !strchr(item->text, ' ');
        gale__str_addf(out, "%s%s%s", n++ ? ", " : "ok       pictures  ", item->name, only ? " (read only)" : "");
    }
    if (n) gale__str_add(out, "\n");
}

static int print_items(const gale_doctor_result *r)
{
    static const char *const states[] = {"ok", "missing", "denied"};
    gale__str out = {0};
    for (size_t i = 0; i < r->n_items; i++) {
        const gale_doctor_item *item = &r->items[i];
        if (item->kind == GALE_DOCTOR_PICTURES && item->state == GALE_DOCTOR_OK) continue;
        if (item->kind == GALE_DOCTOR_FILE)
            gale__str_addf(&out, "%-8s %s: %s\n", states[item->state], item->name, item->text);
        else gale__str_addf(&out, "%-8s %-9s %s\n", states[item->state], item->name, item->text);
        for (size_t k = 0; k < item->n_advice; k++) gale__str_addf(&out, "                   %s\n", item->advice[k]);
    }
    add_pictures(r, &out);
    gale__str_add(&out, "\n`gale doctor --try PROVIDER` runs the first steps of a provider in a separate process.\n");
    return gale__print(&out);
}

static int print_json(const gale_doctor_result *r)
{
    char *text = NULL;
    return gale__print_json(gale_doctor_result_json(r, &text), &text);
}

static int examine(bool json)
{
    gale_doctor_result *r = NULL;
    gale_status status = gale_doctor_examine(NULL, &r);
    int code = status != GALE_OK ? gale__report(status) : json ? print_json(r) : print_items(r);
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
    if (!name) return examine(gale__args_flag(a, "json"));
    if (!gale__provider_find(name))
        return gale__usage("doctor", "doctor: unknown provider '%s'; `gale devices` lists them", name);
    return try_provider(name);
}

const gale__command gale__command_doctor = {
    .args = args,
    .run = run,
    .about = "Checks every provider and every picture format, and prints what to install or change if one does not "
             "work here. With --try the first steps of one provider run in a child process: if the driver crashes or "
             "hangs, the failing step is named.",
    .examples = "  gale doctor\n  gale doctor --try vulkan\n  gale doctor --json",
};
