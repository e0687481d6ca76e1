/* gale doctor: what is missing and what to install, and with --try the first steps of a provider in a child process,
 * since a broken driver may take the whole process with it. */
#include "cli/cli.h"
#include "cli/device_text.h"
#include "base/access.h"
#include "base/env.h"
#include "base/file.h"
#include "device/trust.h"
#include "device/workarounds.h"
#include <string.h>

static const gale__arg args[] = {
    {"try", 't', GALE__ARG_TEXT, "PROVIDER", NULL, NULL,
        "run the provider's first steps in a child process and say which one fails"},
    {"device", 'd', GALE__ARG_INT, "N", NULL, "0..1023", "device index, counted per provider", "GALE_DEVICE"},
    {"debug-layer", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "turn on the driver's own checks", "GALE_DEBUG_LAYER"},
    {0},
};

/* What the self-test said, and the setting without which the driver computes wrong results. */
static void check_trust(const gale_device_info *info, gale__str *out)
{
    const gale__workaround *w = gale__workaround_find(info);
    gale__trust t;
    char state[256];
    gale__trust_load(info, &t);
    gale__workaround_state(w, state, sizeof state);
    if (t.verdict == GALE__TRUST_FAILED) gale__str_addf(out, "                   failed the self-test: %s\n", t.reason);
    if (w && *state) gale__str_addf(out, "                   runs with %s: %s\n", state, w->fault);
    else if (w) gale__str_addf(out, "                   set %s=%s: %s\n", w->variable, w->value, w->fault);
}

static void check_provider(const gale__provider *p, gale__str *out)
{
    const gale_device_info *info = gale__provider_device(p);
    const gale__probe *probe = NULL;
    if (info) {
        gale__str_addf(out, "ok       %-9s %s (%s)%s\n", p->name, info->name, info->driver,
            info->caps.software ? ": runs on the CPU, used only when asked for by name" : "");
        check_trust(info, out);
        return;
    }
    if (gale__provider_probe(p, &probe) != GALE_OK) return;
    gale__str_addf(out, "missing  %-9s %s\n", p->name, probe->reason);
    if (*probe->remedy) gale__str_addf(out, "                   %s\n", probe->remedy);
    gale__str_addf(out, "                   packages: %s\n", gale__provider_packages(p));
}

/* Device files that are there but closed to this user explain many a missing GPU. */
static void check_permissions(gale__str *out)
{
    static const char *const nodes[] = {
        "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/kfd", "/dev/nvidiactl", "/dev/nvidia0"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        char group[64];
        if (gale__path_access(nodes[i], group, sizeof group) == GALE__ACCESS_DENIED)
            gale__str_addf(
                out, "denied   %s: no permission; `sudo usermod -aG %s $USER`, then log in again\n", nodes[i], group);
    }
}

static void check_library(
    gale__str *out, const char *what, const char *use, const char *const *sonames, const char *package)
{
    gale__dl *dl = NULL;
    if (gale__dl_open(sonames, &dl) == GALE_OK) gale__str_addf(out, "ok       %-9s %s\n", what, gale__dl_name(dl));
    else
        gale__str_addf(out, "missing  %-9s %s not found; needed for %s\n                   packages: %s\n", what,
            sonames[0], use, package);
    gale__dl_close(&dl);
}

static void check_cache(gale__str *out)
{
    char folder[1024], file[1100];
    if (gale__cache_folder(folder, sizeof folder) != GALE_OK) {
        gale__str_addf(out, "missing  cache     %s\n", gale_error());
        return;
    }
    snprintf(file, sizeof file, "%s/doctor", folder);
    if (gale__folder_make(folder) == GALE_OK && gale__file_write(file, "ok\n", 3) == GALE_OK)
        gale__str_addf(out, "ok       cache     %s\n", folder);
    else
        gale__str_addf(out,
            "denied   cache     %s\n                   kernels are compiled again in every run; set GALE_CACHE to a "
            "folder you may write\n",
            gale_error());
    if (gale__file_exists(file)) gale__file_remove(file);
}

static int examine(void)
{
    static const char *const shaderc[] = {"libshaderc_shared.so.1", "libshaderc.so.1", NULL};
    gale__str out = {0};
    int count;
    gale__probe_all();
    const gale__provider *all = gale__providers(&count);
    for (int i = 0; i < count; i++)
        if (all[i].rank) check_provider(&all[i], &out); /* others are further names, or for tests */
    check_permissions(&out);
    check_library(&out, "shaderc", "GLSL kernels that users bring to Vulkan", shaderc, "libshaderc1");
    check_cache(&out);
    gale__str_add(&out, "\n`gale doctor --try PROVIDER` runs a provider's first steps in a process of its own.\n");
    return gale__print(&out);
}

typedef struct progress {
    char step[128];
    bool told; /* the failure has been printed */
} progress;

static void show_line(void *user, const char *line)
{
    progress *p = user;
    if (line[0] == '>') snprintf(p->step, sizeof p->step, "%s", line + 2);
    else if (line[0] == '+') printf("ok       %s%s%s\n", p->step, line[2] ? ": " : "", line + 2);
    else printf("FAILED   %s: %s\n", p->step, line + 2);
    p->told |= line[0] == '-';
    fflush(stdout);
}

static int try_provider(const gale__provider *provider, const char *name, int index)
{
    progress p = {"start"};
    gale__trust t;
    fflush(stdout);
    gale_status status = gale__trust_spawn(provider->backend, index, show_line, &p, &t);
    if (status != GALE_OK) return gale__report(status);
    if (t.verdict == GALE__TRUST_PASSED) printf("%s works here\n", name);
    else if (!p.told) printf("FAILED   %s; leave %s out of the provider chain, or update its driver\n", t.reason, name);
    return t.verdict == GALE__TRUST_PASSED ? GALE__EXIT_OK : GALE__EXIT_FAILED;
}

static int run(const gale__args *a)
{
    const char *name = gale__args_text(a, "try");
    if (!name) return examine();
    const gale__provider *provider = gale__provider_find(name);
    if (!provider) return gale__usage("doctor", "doctor: '%s' is no provider (`gale devices` lists them)", name);
    return try_provider(provider, name, (int)gale__env_get_i64(GALE__ENV_DEVICE, 0));
}

const gale__command gale__command_doctor = {
    .args = args,
    .run = run,
    .about = "Says for every provider whether it works here, and if not what to install or change. With --try the "
             "first steps of one "
             "provider are run in a child process: a driver that crashes or hangs is named with the step it did not "
             "survive.",
    .examples = "  gale doctor\n  gale doctor --try vulkan",
};
