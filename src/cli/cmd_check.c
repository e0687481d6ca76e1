/* gale check: failures as they occur, then a summary line or a table of times for each device. */
#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/job_progress.h"
#include "cli/table.h"
#include "gale/selftest.h"
#include <string.h>

static const gale__arg args[] = {
    {"filter", 'f', GALE__ARG_TEXT, "TEXT", NULL, NULL,
        "only cases whose name contains TEXT, such as Conv or 'Softmax f16'"},
    {"all", 'a', GALE__ARG_FLAG, NULL, NULL, NULL,
        "test all types, views and large kernels on software drivers too; slow"},
    {"large", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "test large kernels on software drivers too, as with --filter"},
    {"part", 0, GALE__ARG_TEXT, "K/N", NULL, NULL,
        "only part K of N (from 1) of the cases, so that several processes share the work"},
    {"bench", 'b', GALE__ARG_FLAG, NULL, NULL, NULL,
        "time large cases instead: median, GB/s, GFLOP/s, share of the measured peak"},
    {"compare", 0, GALE__ARG_FILE, NULL, NULL, NULL, "output of an earlier --bench --json to compare with"},
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

/* --- Times beside an earlier run's. --- */

typedef struct earlier {
    gale__arena arena;
    gale__json *root;
    gale__bytes file;
} earlier;

static gale_status read_earlier(const char *path, earlier *e)
{
    GALE_TRY(gale__file_read(path, 256u << 20, &e->file));
    gale_status status = gale__json_parse(&e->arena, (const char *)e->file.data, e->file.size, &e->root);
    return status == GALE_OK ? GALE_OK : gale__fail_within(status, "%s", path);
}

/* The earlier median of a case on a device; 0 when it was not there. */
static double earlier_median(const earlier *e, const char *device, const char *name)
{
    const gale__json *devices = e->root ? gale__json_get(e->root, "devices") : NULL;
    for (const gale__json *d = devices ? devices->child : NULL; d; d = d->next) {
        if (strcmp(gale__json_text(d, "name", ""), device)) continue;
        const gale__json *times = gale__json_get(d, "times");
        for (const gale__json *t = times ? times->child : NULL; t; t = t->next)
            if (!strcmp(gale__json_text(t, "case", ""), name)) return gale__json_number(t, "median_us", 0);
    }
    return 0;
}

static gale_status print_times(const gale_check_device *p, const earlier *e)
{
    gale__table t = {.align = e->root ? "lrrrrrr" : "lrrrrr"};
    printf("%s%s%s\n", p->name, p->info ? ": " : " is skipped: ", p->info ? p->info->name : p->reason);
    if (!p->info) return GALE_OK;
    const char *const heads[] = {"case", "median us", "GB/s", "GFLOP/s", "of peak", "kernels", "of earlier"};
    for (int i = 0; i < (e->root ? 7 : 6); i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t i = 0; i < p->n_times; i++) {
        const gale_check_time *x = &p->times[i];
        double before = earlier_median(e, p->name, x->name);
        gale__table_cell(&t, "%.70s", x->name);
        gale__table_cell(&t, "%.1f", x->median_us);
        gale__table_cell(&t, "%.1f", x->gbps);
        gale__table_cell(&t, "%.1f", x->gflops);
        if (x->share > 0) gale__table_cell(&t, "%.0f %%", 100 * x->share);
        else gale__table_cell(&t, "-");
        gale__table_cell(&t, "%d", x->kernels);
        if (e->root && before > 0) gale__table_cell(&t, "%.2f x", x->median_us / before);
        else if (e->root) gale__table_cell(&t, "-");
    }
    return gale__table_print(&t, stdout);
}

/* --- What is printed on the way. --- */

typedef struct printer {
    const gale__args *args;
    earlier earlier;
    gale__job_progress progress;
    gale_status status; /* of printing */
} printer;

static void print_failure(void *user, const char *device, const gale_check_note *failure)
{
    (void)user;
    printf("FAIL %s %s: %s\n", device, failure->name, failure->text);
    fflush(stdout);
}

static void print_device(const gale_check_device *d)
{
    if (!d->info) {
        printf("SKIP %s: %s\n", d->name, d->reason);
        return;
    }
    for (size_t i = 0; i < d->n_skips; i++) printf("SKIP %s %s: %s\n", d->name, d->skips[i].name, d->skips[i].text);
    if (d->flushes) printf("%s flushes denormals to zero; both results are accepted\n", d->name);
    printf("%s (%s): %d passed, %d failed, %d skipped\n", d->name, d->info->name, d->passed, d->failed, d->skipped);
    fflush(stdout);
}

static void print_done(void *user, const gale_check_device *d)
{
    printer *p = user;
    gale__job_progress_end(&p->progress);
    if (gale__args_flag(p->args, "json")) return;
    if (!gale__args_flag(p->args, "bench")) print_device(d);
    else if (p->status == GALE_OK) p->status = print_times(d, &p->earlier);
}

/* --- The command. --- */

/* Checking nothing is not success: says which it was. */
static gale_status check_any(const gale__args *given, const gale_check_result *r)
{
    const char *filter = gale__args_text(given, "filter"), *chain = gale__args_text(given, "provider");
    if (!r->n_opened)
        return gale__fail(GALE_NO_DEVICE,
            "nothing was checked: no device of --provider %s is available; run `gale doctor` to see what is missing",
            chain ? chain : "any");
    if (!r->n_cases)
        return gale__fail(GALE_NOT_FOUND, "nothing was checked: no %scase name contains '%s'",
            gale__args_flag(given, "bench") ? "large " : "", filter ? filter : "");
    return GALE_OK;
}

static gale_status check(const gale__args *given, printer *p, gale_check_result **out)
{
    bool json = gale__args_flag(given, "json");
    gale_check_options options = {.filter = gale__args_text(given, "filter"),
        .all = gale__args_flag(given, "all"),
        .large = gale__args_flag(given, "large"),
        .bench = gale__args_flag(given, "bench"),
        .chain = gale__args_text(given, "provider"),
        .index = gale__args_given(given, "device") ? (int)gale__args_int(given, "device") : 0,
        .failed = json ? NULL : print_failure,
        .device_done = print_done,
        .user = p,
        .control = {.progress = gale__job_progress_show, .user = &p->progress}};
    gale__args_part(given, &options.part, &options.parts);
    gale_status status = gale_check_run(&options, out);
    gale__job_progress_end(&p->progress);
    return status == GALE_OK ? p->status : status;
}

static int run(const gale__args *given)
{
    printer p = {.args = given};
    gale_check_result *r = NULL;
    const char *compare = gale__args_text(given, "compare"), *share = gale__args_text(given, "part");
    int part, parts;
    char *text = NULL;
    int code = GALE__EXIT_OK;
    gale_status status;
    if (!gale__args_part(given, &part, &parts))
        return gale__usage("check", "--part %s: K/N is expected, with K from 1 to N, such as 2/4", share);
    if (compare) GALE_GO(read_earlier(compare, &p.earlier));
    GALE_GO(check(given, &p, &r));
    if (gale__args_flag(given, "json")) code = gale__print_json(gale_check_result_json(r, &text), &text);
    else if (!gale__args_flag(given, "bench"))
        printf("%d passed, %d failed, %d skipped\n", r->passed, r->failed, r->skipped);
    if (r->failed) code = GALE__EXIT_DIFFER;
    status = check_any(given, r);
done:
    gale_check_result_destroy(&r);
    gale__arena_finish(&p.earlier.arena);
    gale__bytes_finish(&p.earlier.file);
    return status == GALE_OK ? code : gale__report(status);
}

const gale__command gale__command_check = {
    args,
    run,
    "Runs every operator case on every available device (or those of --provider) and compares the results with a "
    "scalar reference and with independently computed values. Results are surrounded by guard bytes; the cases include "
    "odd sizes, views, empty tensors, NaN, infinities and denormals. The last line is `N passed, N failed, N skipped`. "
    "The exit code is 4 if results differ, 3 if no device was available, and 1 if no case matches --filter.",
    "gale check\n"
    "gale check --provider cuda,vulkan --filter Conv\n"
    "gale check --bench --json > before.json\n"
    "gale check --bench --compare before.json  # what became faster or slower\n",
};
