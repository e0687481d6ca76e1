/* gale selftest: the driver self-test in this process.  The library starts this command the first time it opens a
 * device with an unknown driver; `gale doctor --try` prints it in words. */
#include "base/thread.h"
#include "cli/cli.h"
#include "device/registry.h"
#include "device/trust.h"

static const gale__arg args[] = {
    {"provider", 'p', GALE__ARG_TEXT, NULL, NULL, NULL, "the provider to test", "GALE_PROVIDER"},
    {"device", 'd', GALE__ARG_INT, "N", "0", "0..1023", "device index, counted per provider"},
    {0},
};

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
    fflush(stdout);
}

static gale_status open_device(const gale__provider *provider, int index, gale_device **out)
{
    const gale__backend *backend = gale__provider_backend(provider);
    print_line(NULL, "> open the device");
    gale_status status = backend
                             ? gale__device_open_one(backend, index, NULL, out)
                             : gale__fail(GALE_NO_DEVICE, "this build of gale does not include %s", provider->label);
    if (status != GALE_OK) printf("- %s\n", gale_error());
    else printf("+ %s, %s\n", (*out)->info.name, (*out)->info.driver);
    fflush(stdout);
    return status;
}

static int run(const gale__args *a)
{
    const char *name = gale__args_text(a, "provider");
    const gale__provider *provider = name ? gale__provider_find(name) : NULL;
    gale_device *device = NULL;
    if (!provider)
        return gale__usage("selftest", "selftest: missing option --provider; `gale devices` lists the providers");
    uint64_t begun = gale__time_ns();
    gale_status status = open_device(provider, (int)gale__args_int(a, "device"), &device);
    uint64_t opened = gale__time_ns();
    if (status == GALE_OK) status = gale__selftest_run(device, print_line, NULL);
    uint64_t tested = gale__time_ns();
    if (status == GALE_OK) print_line(NULL, "> close the device");
    gale_device_close(&device);
    if (status == GALE_OK)
        printf("+ opening took %.3f s, the self-test %.3f s\n", (double)(opened - begun) / 1e9,
            (double)(tested - opened) / 1e9);
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
        "says how long opening the device and the self-test took. `gale doctor --try PROVIDER` prints the same in "
        "words. The exit code is 4 if a result is wrong.",
    .examples = "  gale selftest --provider vulkan",
};
