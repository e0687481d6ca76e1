/* gale selftest: the driver self-test in this process, and in others beside it where a driver's compiler takes one
 * kernel at a time.  The library starts this command the first time it opens a device with an unknown driver; `gale
 * doctor --try` prints it in words. */
#include "base/cpu.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "device/registry.h"
#include "device/trust.h"
#include <string.h>

static const gale__arg args[] = {
    {"provider", 'p', GALE__ARG_TEXT, NULL, NULL, NULL, "the provider to test", "GALE_PROVIDER"},
    {"device", 'd', GALE__ARG_INT, "N", "0", "0..1023", "device index, counted per provider"},
    {"processes", 0, GALE__ARG_INT, "N", NULL, "1..16", "processes that share the work (default: by the cores)"},
    {"part", 0, GALE__ARG_TEXT, "K/N", NULL, NULL, "only part K of N (from 1) of the kernels"},
    {"compile", 0, GALE__ARG_FILE, NULL, NULL, NULL, "compile a kernel that another process of gale has written"},
    {0},
};

typedef struct plan {
    const gale__backend *driver;
    int device, processes;
    gale__trust_part part;
} plan;

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
    fflush(stdout);
}

/* --- Parts in other processes. --- */

enum { MAX_PARTS = 16 };
typedef struct other {
    const plan *plan;
    int index;
    gale__thread *thread;
    gale_status status;
    gale__trust trust;
    char step[128];
    int done;         /* steps; the first two are memory and all kernels together */
    gale__str passed; /* lines of the kernels that passed */
} other;

static void take_line(void *user, const char *line)
{
    other *o = user;
    if (line[0] == '>') snprintf(o->step, sizeof o->step, "%s", line);
    else if (!strcmp(line, "+ ") && ++o->done > 2) gale__str_addf(&o->passed, "%s\n+ \n", o->step);
}

static void test_part(void *arg)
{
    other *o = arg;
    gale__trust_part part = {o->index, o->plan->processes};
    o->status = gale__trust_spawn(o->plan->driver->name, o->plan->device, part, take_line, o, &o->trust);
    if (o->status != GALE_OK) snprintf(o->trust.reason, sizeof o->trust.reason, "%s", gale_error());
}

/* The first part that failed is told after all that passed. */
static gale_status join_parts(other *list, int n, gale_status status)
{
    for (int i = 1; i < n; i++) {
        other *o = &list[i];
        gale__thread_join(&o->thread);
        bool good = o->status == GALE_OK && o->trust.verdict == GALE__TRUST_PASSED;
        if (status == GALE_OK) fputs(gale__str_text(&o->passed), stdout);
        if (status == GALE_OK && !good) {
            size_t head = *o->step ? strlen(o->step) : 0; /* "> STEP" is as long as "STEP: " */
            bool named = head && !strncmp(o->trust.reason, o->step + 2, head - 2);
            printf("%s\n- %s\n", head ? o->step : "> start", o->trust.reason + (named ? head : 0));
            status = o->status != GALE_OK ? o->status : o->trust.passing ? GALE_TIMEOUT : GALE_MISMATCH;
        }
        gale__str_finish(&o->passed);
    }
    fflush(stdout);
    return status;
}

/* --- The test. --- */

static gale_status open_device(const plan *p, gale_device **out)
{
    print_line(NULL, "> open the device");
    gale_status status = gale__device_open_one(p->driver, p->device, NULL, out);
    if (status != GALE_OK) printf("- %s\n", gale_error());
    else printf("+ %s, %s\n", (*out)->info.name, (*out)->info.driver);
    fflush(stdout);
    return status;
}

static gale_status test_all(plan *p)
{
    other list[MAX_PARTS] = {{0}};
    bool divided = !p->driver->compile_file && p->part.count == 1;
    int n = divided ? p->processes : 1;
    gale_device *device = NULL;
    gale_status status = GALE_OK;
    uint64_t begun = gale__time_ns();
    if (divided) p->part.count = n;
    for (int i = 1; i < n && status == GALE_OK; i++) {
        list[i] = (other){.plan = p, .index = i};
        status = gale__thread_start(test_part, &list[i], &list[i].thread);
    }
    if (status == GALE_OK) status = open_device(p, &device);
    uint64_t opened = gale__time_ns();
    if (device) gale__trust_hurry(device), device->apart = p->processes > 1;
    if (status == GALE_OK) status = gale__selftest_run(device, p->part, print_line, NULL);
    status = join_parts(list, n, status);
    uint64_t tested = gale__time_ns();
    if (status == GALE_OK) print_line(NULL, "> close the device");
    gale_device_close(&device);
    if (status == GALE_OK)
        printf("+ opening took %.3f s, the self-test %.3f s\n", (double)(opened - begun) / 1e9,
            (double)(tested - opened) / 1e9);
    return status;
}

/* A process costs a compiler its start, so that only many gain: with four cores CUDA's took longer on an H200. */
static int usual_processes(const gale__backend *backend)
{
    int cores = gale__cpu_cores();
    if (cores < 8) return 1;
    if (backend->compile_file) return cores < MAX_PARTS ? cores : MAX_PARTS;
    return backend->selftest_parts ? backend->selftest_parts : 1;
}

static int run(const gale__args *a)
{
    const char *name = gale__args_text(a, "provider"), *part = gale__args_text(a, "part");
    const gale__provider *provider = name ? gale__provider_find(name) : NULL;
    plan p = {.device = (int)gale__args_int(a, "device")};
    if (!provider)
        return gale__usage("selftest", "selftest: missing option --provider; `gale devices` lists the providers");
    if (!gale__args_part(a, &p.part.index, &p.part.count))
        return gale__usage("selftest", "--part %s: K/N is expected, with K from 1 to N, such as 2/4", part);
    if (!part) p.part = GALE__TRUST_WHOLE;
    if (!(p.driver = gale__provider_backend(provider)))
        return gale__report(gale__fail(GALE_NO_DEVICE, "this build of gale does not include %s", provider->label));
    if (gale__args_text(a, "compile")) {
        if (p.driver->compile_file) return gale__report(p.driver->compile_file(gale__args_text(a, "compile")));
        return gale__usage("selftest", "selftest: kernels of %s are not compiled to files", provider->label);
    }
    p.processes = gale__args_given(a, "processes") ? (int)gale__args_int(a, "processes") : usual_processes(p.driver);
    gale_status status = test_all(&p);
    if (status == GALE_NO_DEVICE) return GALE__EXIT_NO_DEVICE;
    return status == GALE_OK ? GALE__EXIT_OK : status == GALE_MISMATCH ? GALE__EXIT_DIFFER : GALE__EXIT_FAILED;
}

const gale__command gale__command_selftest = {
    .args = args,
    .run = run,
    .about =
        "Runs one kernel of each kind on a device and compares the results with the CPU's. gale runs this command "
        "automatically, in a separate process, the first time it opens a device with an unknown driver, and "
        "stores the verdict. Each step prints a line that starts with > before it and + or - after it; the last one "
        "says how long opening the device and the self-test took. On machines with many cores further processes "
        "compile kernels (CUDA) or test a part of them (OpenCL), since compilers keep their threads waiting for each "
        "other. `gale doctor --try PROVIDER` prints the same in words. The exit code is 4 if a result is wrong.",
    .examples = "  gale selftest --provider vulkan",
};
