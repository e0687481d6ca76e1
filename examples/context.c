/* Two parts of one program that do not hear each other: each has a context, a device and a model of its own.
 *
 *     context MODEL */
#include <gale/gale.h>
#include <stdio.h>

static void print_line(void *name, int level, const char *line)
{
    if (level > 0) fprintf(stderr, "[%s] %s\n", (const char *)name, line);
}

static gale_status use_model(const char *path, gale_context *context, int times)
{
    gale_device *device = NULL;
    gale_run_options options = GALE_DEFAULTS;
    gale_device_options on_cpu = GALE_DEFAULTS;
    on_cpu.chain = "cpu";
    on_cpu.context = context;
    options.job.inputs.random = true;
    gale_status status = gale_device_open(&on_cpu, &device);
    for (int i = 0; i < times && status == GALE_OK; i++) status = gale_model_run_files(path, device, &options, NULL);
    gale_device_close(&device);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2) return fprintf(stderr, "usage: context MODEL\n"), 2;
    static char names[2][8] = {"first", "second"};
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        gale_context_options options = GALE_DEFAULTS;
        gale_context *context = NULL;
        gale_context_stats stats;
        options.log = print_line;
        options.log_user = names[i];
        options.log_level = GALE_LOG_INFO;
        if (gale_context_create(&options, &context) != GALE_OK || use_model(argv[1], context, 1 + i) != GALE_OK)
            failed = fprintf(stderr, "%s\n", gale_error());
        gale_context_get_stats(context, &stats);
        printf("%s: %d devices, %d runs, %d warnings\n", names[i], (int)stats.devices, (int)stats.runs,
            (int)stats.warnings);
        gale_context_destroy(&context);
    }
    return failed != 0;
}
