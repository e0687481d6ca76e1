/* gale check: every operator case on every device, against the scalar reference and against values found independently.
 */
#include "cli/check.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"
#include "jobs/machine/machine.h"
#include "cli/table.h"
#include "device/ceilings.h"
#include <math.h>
#include <string.h>

static const gale__arg args[] = {
    {"filter", 'f', GALE__ARG_TEXT, "TEXT", NULL, NULL,
        "only cases whose name contains this text, such as Conv or 'Softmax f16'"},
    {"all", 'a', GALE__ARG_FLAG, NULL, NULL, NULL,
        "all types and views on drivers that run on the CPU too, whose compilers are slow"},
    {"bench", 'b', GALE__ARG_FLAG, NULL, NULL, NULL,
        "time large cases instead: median, GB/s, GFLOP/s, share of the measured ceiling"},
    {"compare", 0, GALE__ARG_FILE, NULL, NULL, NULL, "an earlier run's output of --bench --json to compare with"},
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

/* One device's share of the work; device NULL: why there is none. */
typedef struct part {
    gale_device *device;
    char name[32], reason[256];
    gale__check_result result;
    gale__check_times times;
} part;
typedef struct parts {
    part *items;
    size_t count, capacity;
} parts;

/* --- Which devices. --- */

static gale_status add_part(parts *p, const gale__backend *backend, int index, const char *name, const char *reason)
{
    GALE_TRY(gale__grow((void **)&p->items, &p->capacity, p->count + 1, sizeof *p->items));
    part *one = &p->items[p->count++];
    *one = (part){0};
    snprintf(one->name, sizeof one->name, "%s", name);
    snprintf(one->reason, sizeof one->reason, "%s", reason);
    gale_status status = backend ? gale__device_open_one(backend, index, NULL, &one->device) : GALE_OK;
    if (status == GALE_OK) return GALE_OK;
    snprintf(one->reason, sizeof one->reason, "%s", gale_error());
    return GALE_OK; /* a device that does not open is a skip, said aloud */
}

static gale_status add_all(parts *p)
{
    int count;
    const gale__backend *const *all = gale__backends(&count);
    gale__probe_all();
    for (int i = 0; i < count; i++) {
        const gale__probe *probe;
        char name[32];
        GALE_TRY(gale__backend_probe(all[i], &probe));
        if (probe->count && !probe->devices[0].caps.holds_data) continue;
        if (!probe->count) GALE_TRY(add_part(p, NULL, 0, all[i]->name, probe->reason));
        for (int k = 0; k < probe->count; k++) {
            snprintf(name, sizeof name, "%s:%d", all[i]->name, probe->devices[k].index);
            GALE_TRY(add_part(p, all[i], probe->devices[k].index, name, ""));
        }
    }
    return GALE_OK;
}

/* Each name of the chain is a device to check, not an alternative. */
static gale_status add_chain(parts *p, const char *chain, int index)
{
    for (const char *at = chain; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        char name[24];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        const gale__provider *provider = gale__provider_find(name);
        const gale__probe *probe;
        if (!provider) return gale__fail(GALE_NO_DEVICE, "unknown provider \"%s\": `gale devices` lists them", name);
        GALE_TRY(gale__provider_probe(provider, &probe));
        const gale__backend *backend = gale__provider_backend(provider);
        if (probe->count && index >= probe->count)
            return gale__fail(GALE_NO_DEVICE,
                "device index %d is out of range: %s has %d device%s here, counted from 0", index, name, probe->count,
                probe->count == 1 ? "" : "s");
        char label[32];
        snprintf(label, sizeof label, "%s:%d", name, index);
        bool empty =
            probe->count && !probe->devices[0].caps.holds_data; /* it runs nothing, so nothing can be compared */
        GALE_TRY(add_part(
            p, probe->count && !empty ? backend : NULL, index, label, empty ? "it runs nothing" : probe->reason));
    }
    return GALE_OK;
}

/* --- Printing. --- */

static void total(const parts *p, int *passed, int *failed, int *skipped)
{
    *passed = *failed = *skipped = 0;
    for (size_t i = 0; i < p->count; i++) {
        const gale__check_result *r = &p->items[i].result;
        *passed += r->passed, *failed += r->failed, *skipped += r->skipped + !p->items[i].device;
    }
}

static void print_part(const part *p)
{
    const gale__check_result *r = &p->result;
    if (!p->device) {
        printf("SKIP %s: %s\n", p->name, p->reason);
        return;
    }
    for (size_t i = 0; i < r->n_skips; i++) printf("SKIP %s %s: %s\n", p->name, r->skips[i].name, r->skips[i].text);
    if (r->flushes) printf("%s takes denormals for zero and promises nothing else: both results pass\n", p->name);
    printf("%s (%s): %d passed, %d failed, %d skipped\n", p->name, gale_device_get_info(p->device)->name, r->passed,
        r->failed, r->skipped);
    fflush(stdout);
}

static void json_failures(gale__json_out *j, const char *key, const gale__check_failure *items, size_t n)
{
    gale__json_key(j, key);
    gale__json_array(j);
    for (size_t i = 0; i < n; i++) {
        gale__json_object(j);
        gale__json_key(j, "case"), gale__json_string(j, items[i].name);
        gale__json_key(j, "text"), gale__json_string(j, items[i].text);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

static void json_times(gale__json_out *j, const gale__check_times *t)
{
    gale__json_key(j, "times");
    gale__json_array(j);
    for (size_t i = 0; i < t->count; i++) {
        const gale__check_time *x = &t->items[i];
        gale__json_object(j);
        gale__json_key(j, "case"), gale__json_string(j, x->name);
        gale__json_key(j, "median_us"), gale__json_f64(j, x->median_us);
        gale__json_key(j, "gbps"), gale__json_f64(j, x->gbps);
        gale__json_key(j, "gflops"), gale__json_f64(j, x->gflops);
        gale__json_key(j, "share"), gale__json_f64(j, x->share);
        gale__json_key(j, "kernels"), gale__json_i64(j, x->kernels);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}

static int print_json(const parts *p)
{
    gale__str text = {0};
    gale__json_out j;
    int passed, failed, skipped;
    total(p, &passed, &failed, &skipped);
    gale__json_begin(&j, &text);
    gale__json_object(&j);
    gale__json_key(&j, "devices");
    gale__json_array(&j);
    for (size_t i = 0; i < p->count; i++) {
        const part *one = &p->items[i];
        gale__json_object(&j);
        gale__json_key(&j, "name"), gale__json_string(&j, one->name);
        if (one->device) gale__json_key(&j, "device"), gale__device_json(&j, gale_device_get_info(one->device));
        else gale__json_key(&j, "reason"), gale__json_string(&j, one->reason);
        gale__json_key(&j, "passed"), gale__json_i64(&j, one->result.passed);
        gale__json_key(&j, "failed"), gale__json_i64(&j, one->result.failed);
        gale__json_key(&j, "skipped"), gale__json_i64(&j, one->result.skipped);
        json_failures(&j, "failures", one->result.failures, one->result.n_failures);
        json_failures(&j, "skips", one->result.skips, one->result.n_skips);
        json_times(&j, &one->times);
        gale__json_close(&j, '}');
    }
    gale__json_close(&j, ']');
    gale__json_key(&j, "passed"), gale__json_i64(&j, passed);
    gale__json_key(&j, "failed"), gale__json_i64(&j, failed);
    gale__json_key(&j, "skipped"), gale__json_i64(&j, skipped);
    gale__json_close(&j, '}');
    gale__str_add(&text, "\n");
    return gale__print(&text);
}

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

static gale_status print_times(const part *p, const earlier *e)
{
    gale__table t = {.align = e->root ? "lrrrrrr" : "lrrrrr"};
    printf("%s%s%s\n", p->name,
        p->device ? ": " : " is skipped: ", p->device ? gale_device_get_info(p->device)->name : p->reason);
    if (!p->device) return GALE_OK;
    const char *const heads[] = {"case", "median us", "GB/s", "GFLOP/s", "of ceiling", "kernels", "of earlier"};
    for (int i = 0; i < (e->root ? 7 : 6); i++) gale__table_cell(&t, "%s", heads[i]);
    for (size_t i = 0; i < p->times.count; i++) {
        const gale__check_time *x = &p->times.items[i];
        double before = earlier_median(e, p->name, x->name);
        gale__table_cell(&t, "%.70s", x->name), gale__table_cell(&t, "%.1f", x->median_us),
            gale__table_cell(&t, "%.1f", x->gbps), gale__table_cell(&t, "%.1f", x->gflops);
        if (x->share > 0) gale__table_cell(&t, "%.0f %%", 100 * x->share);
        else gale__table_cell(&t, "-");
        gale__table_cell(&t, "%d", x->kernels);
        if (e->root && before > 0) gale__table_cell(&t, "%.2f x", x->median_us / before);
        else if (e->root) gale__table_cell(&t, "-");
    }
    return gale__table_print(&t, stdout);
}

/* --- The command. --- */

static gale_status work(const gale__args *given, parts *p, const earlier *e)
{
    bool json = gale__args_flag(given, "json"), bench = gale__args_flag(given, "bench");
    const char *filter = gale__args_text(given, "filter");
    for (size_t i = 0; i < p->count; i++) {
        part *one = &p->items[i];
        gale_status status = GALE_OK;
        one->result.live = json ? NULL : one->name;
        if (one->device && bench && one->device->info.ceilings.copy_gbps <= 0) gale__ceilings_measure(one->device);
        if (one->device)
            status = bench ? gale__check_bench(one->device, filter, &one->times)
                           : gale__check_device(one->device, filter, gale__args_flag(given, "all"), &one->result);
        if (status == GALE_DEVICE_LOST || status == GALE_TIMEOUT)
            gale__check_note(&one->result, status, "the device", gale_error());
        else GALE_TRY(status);
        if (!json && bench) GALE_TRY(print_times(one, e));
        else if (!json) print_part(one);
    }
    return GALE_OK;
}

/* Checking nothing is not success: says which it was. */
static gale_status check_any(const gale__args *given, const parts *p)
{
    size_t devices = 0, cases = 0;
    const char *filter = gale__args_text(given, "filter"), *chain = gale__args_text(given, "provider");
    for (size_t i = 0; i < p->count; i++) {
        const part *one = &p->items[i];
        devices += one->device != NULL;
        cases += (size_t)(one->result.passed + one->result.failed + one->result.skipped) + one->times.count;
    }
    if (!devices)
        return gale__fail(GALE_NO_DEVICE,
            "nothing was checked: no device of --provider %s is here; `gale doctor` says what is missing",
            chain ? chain : "any");
    if (!cases)
        return gale__fail(GALE_NOT_FOUND, "nothing was checked: no %scase has '%s' in its name",
            gale__args_flag(given, "bench") ? "large " : "", filter ? filter : "");
    return GALE_OK;
}

static int run(const gale__args *given)
{
    parts p = {0};
    earlier e = {0};
    const char *chain = gale__args_text(given, "provider"), *compare = gale__args_text(given, "compare");
    int passed, failed, skipped, code = GALE__EXIT_OK;
    gale_status status = GALE_OK;
    if (compare) GALE_GO(read_earlier(compare, &e));
    GALE_GO(chain ? add_chain(&p, chain, gale__args_given(given, "device") ? (int)gale__args_int(given, "device") : 0)
                  : add_all(&p));
    GALE_GO(work(given, &p, &e));
    total(&p, &passed, &failed, &skipped);
    if (gale__args_flag(given, "json")) code = print_json(&p);
    else if (!gale__args_flag(given, "bench")) printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    if (failed) code = GALE__EXIT_DIFFER;
    status = check_any(given, &p);
done:
    for (size_t i = 0; i < p.count; i++) {
        gale__check_finish(&p.items[i].result);
        gale__check_times_finish(&p.items[i].times);
        gale_device_close(&p.items[i].device);
    }
    gale__free(p.items);
    gale__arena_finish(&e.arena);
    gale__bytes_finish(&e.file);
    return status == GALE_OK ? code : gale__report(status);
}

const gale__command gale__command_check = {
    args,
    run,
    "Runs every operator case on every device present (or on each of --provider's) and compares with the scalar "
    "reference, and with "
    "values found independently. Results lie between guard bytes; odd sizes, views, nothing at all, NaN, infinities "
    "and denormals are "
    "among the cases. The last line is `N passed, N failed, N skipped`; the exit code is 4 when results differ, 3 when "
    "no device "
    "was there to check and 1 when no case has the name asked for.",
    "gale check\n"
    "gale check --provider cuda,vulkan --filter Conv\n"
    "gale check --bench --json > before.json\n"
    "gale check --bench --compare before.json  # what has become faster or slower\n",
};
