/* gale conformance: the official ONNX suite, or any folder like it, on one device. */
#include "base/cpu.h"
#include "base/json.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/conformance.h"
#include "cli/progress.h"
#include "cli/table.h"
#include <string.h>

static const gale__arg args[] = {
    {"SUITE", 0, GALE__ARG_FILE, "DIR|TAR", NULL, NULL, "folder of cases, or an archive of one", NULL, true},
    {"filter", 'f', GALE__ARG_TEXT, "TEXT", NULL, NULL, "only cases whose name contains this text"},
    {"every", 0, GALE__ARG_INT, "N", "1", "1..100000",
        "only every N-th case: a spread for drivers whose compilers are slow"},
    {"jobs", 'J', GALE__ARG_INT, "N", NULL, "1..256",
        "cases at once; without it as many as there are cores, and one on the CPU, whose runs use all of them"},
    {"table", 0, GALE__ARG_FLAG, NULL, NULL, NULL, "passed and failed by operator, also when all passed"},
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

typedef struct tally {
    char op[64];
    int passed, failed, skipped;
} tally;
typedef struct run {
    gale__suite suite;
    gale__suite_result *results;
    bool *chosen;
    tally *tallies;
    size_t n_tallies, capacity;
    tally all;
} run;

static gale_status count(run *r, const gale__suite_result *c)
{
    size_t i = 0;
    while (i < r->n_tallies && strcmp(r->tallies[i].op, c->op)) i++;
    if (i == r->n_tallies) {
        GALE_TRY(gale__grow((void **)&r->tallies, &r->capacity, i + 1, sizeof *r->tallies));
        r->tallies[r->n_tallies++] = (tally){0};
        snprintf(r->tallies[i].op, sizeof r->tallies[i].op, "%s", c->op);
    }
    tally *both[] = {&r->tallies[i], &r->all};
    for (int k = 0; k < 2; k++) {
        both[k]->passed += c->outcome == GALE__SUITE_PASSED;
        both[k]->failed += c->outcome == GALE__SUITE_FAILED;
        both[k]->skipped += c->outcome == GALE__SUITE_SKIPPED;
    }
    return GALE_OK;
}

/* Cases are handed out one by one to as many threads as there are jobs. */
typedef struct queue {
    run *run;
    const gale__args *args;
    gale_device *device;
    gale__mutex lock;
    size_t next;
    gale__progress progress;
    gale_status status;
} queue;

static bool take(queue *q, size_t *index)
{
    gale__mutex_lock(&q->lock);
    while (q->next < q->run->suite.count && !q->run->chosen[q->next]) q->next++;
    bool any = q->next < q->run->suite.count && q->status == GALE_OK;
    if (any) *index = q->next++;
    gale__mutex_unlock(&q->lock);
    return any;
}

static void work(void *arg)
{
    queue *q = arg;
    for (size_t i; take(q, &i);) {
        const gale__suite_case *c = &q->run->suite.cases[i];
        gale__suite_result *result = &q->run->results[i];
        gale__suite_run(c, q->device, result);
        gale__mutex_lock(&q->lock);
        if (!gale__args_flag(q->args, "json") && result->outcome != GALE__SUITE_PASSED)
            printf("FAIL %s/%s: %s\n", c->group, c->name, result->reason), fflush(stdout);
        gale_status status = count(q->run, result);
        if (status != GALE_OK) q->status = status;
        gale__progress_add(&q->progress, 1);
        gale__mutex_unlock(&q->lock);
    }
}

static gale_status run_queue(queue *q, int jobs, size_t chosen)
{
    gale__thread *threads = gale__calloc((size_t)jobs, sizeof *threads);
    int begun = 0;
    if (!threads) return GALE_NO_MEMORY;
    gale__mutex_init(&q->lock);
    gale__progress_begin(&q->progress, "conformance", "cases", chosen);
    while (begun < jobs - 1 && gale__thread_begin(&threads[begun], work, q) == GALE_OK) begun++;
    work(q);
    for (int i = 0; i < begun; i++) gale__thread_end(&threads[i]);
    gale__progress_end(&q->progress);
    gale__mutex_finish(&q->lock);
    gale__free(threads);
    return q->status;
}

static gale_status run_all(run *r, const gale__args *a, gale_device *device)
{
    const char *filter = gale__args_text(a, "filter");
    int64_t every = gale__args_int(a, "every");
    size_t seen = 0, chosen = 0;
    bool host = gale_device_get_info(device)->caps.host_functions;
    int jobs = gale__args_given(a, "jobs") ? (int)gale__args_int(a, "jobs") : host ? 1 : gale__cpu_cores();
    r->results = gale__calloc(r->suite.count, sizeof *r->results);
    r->chosen = gale__calloc(r->suite.count, sizeof *r->chosen);
    if (!r->results || !r->chosen) return GALE_NO_MEMORY;
    for (size_t i = 0; i < r->suite.count; i++) {
        if (filter && !strstr(r->suite.cases[i].name, filter)) continue;
        r->chosen[i] = seen++ % (size_t)every == 0;
        chosen += r->chosen[i];
    }
    if (!chosen)
        return gale__fail(GALE_NOT_FOUND, "no case of %zu has '%s' in its name", r->suite.count, filter ? filter : "");
    queue q = {.run = r, .args = a, .device = device};
    return run_queue(&q, jobs, chosen);
}

static void print_text(const run *r, const gale__args *a)
{
    if (r->all.failed || gale__args_flag(a, "table")) {
        gale__table t = {.align = "lrr"};
        gale__table_cell(&t, "operator"), gale__table_cell(&t, "passed"), gale__table_cell(&t, "failed");
        for (size_t i = 0; i < r->n_tallies; i++) {
            if (!r->tallies[i].failed && !gale__args_flag(a, "table")) continue;
            gale__table_cell(&t, "%s", r->tallies[i].op), gale__table_cell(&t, "%d", r->tallies[i].passed),
                gale__table_cell(&t, "%d", r->tallies[i].failed);
        }
        gale__table_print(&t, stdout);
    }
    printf("%d passed, %d failed, %d skipped\n", r->all.passed, r->all.failed, r->all.skipped);
}

static int print_json(const run *r, gale_device *device)
{
    static const char *const words[] = {"passed", "failed", "skipped"};
    gale__str text = {0};
    gale__json_out j;
    gale__json_begin(&j, &text);
    gale__json_object(&j);
    gale__json_key(&j, "device"), gale__json_string(&j, gale_device_get_info(device)->name);
    gale__json_key(&j, "provider"), gale__json_string(&j, gale_device_get_info(device)->backend);
    gale__json_key(&j, "passed"), gale__json_i64(&j, r->all.passed);
    gale__json_key(&j, "failed"), gale__json_i64(&j, r->all.failed);
    gale__json_key(&j, "skipped"), gale__json_i64(&j, r->all.skipped);
    gale__json_key(&j, "cases");
    gale__json_array(&j);
    for (size_t i = 0; i < r->suite.count; i++) {
        if (!r->chosen[i]) continue;
        gale__json_object(&j);
        gale__json_key(&j, "case"), gale__json_string(&j, r->suite.cases[i].name);
        gale__json_key(&j, "group"), gale__json_string(&j, r->suite.cases[i].group);
        gale__json_key(&j, "operator"), gale__json_string(&j, r->results[i].op);
        gale__json_key(&j, "outcome"), gale__json_string(&j, words[r->results[i].outcome]);
        if (r->results[i].random) gale__json_key(&j, "random"), gale__json_bool(&j, true);
        if (r->results[i].reason[0]) gale__json_key(&j, "reason"), gale__json_string(&j, r->results[i].reason);
        gale__json_close(&j, '}');
    }
    gale__json_close(&j, ']');
    gale__json_close(&j, '}');
    gale__str_add(&text, "\n");
    return gale__print(&text);
}

static int run_command(const gale__args *a)
{
    run r = {0};
    gale_device *device = NULL;
    gale_status status = gale_device_open(NULL, &device);
    int code = GALE__EXIT_OK;
    if (status == GALE_OK) status = gale__suite_open(gale__args_text(a, "SUITE"), &r.suite);
    if (status == GALE_OK) status = run_all(&r, a, device);
    if (status != GALE_OK) code = gale__report(status);
    else if (gale__args_flag(a, "json")) code = print_json(&r, device);
    else print_text(&r, a);
    if (code == GALE__EXIT_OK && r.all.failed) code = GALE__EXIT_DIFFER;
    gale__suite_finish(&r.suite);
    gale__free(r.results);
    gale__free(r.chosen);
    gale__free(r.tallies);
    gale_device_close(&device);
    return code;
}

const gale__command gale__command_conformance = {
    .args = args,
    .run = run_command,
    .about = "Runs every case of the official ONNX backend suite (or any folder of model.onnx with "
             "test_data_set_N/input_N.pb and output_N.pb) on the chosen device, by the suite's own "
             "tolerances. On a GPU a case passes only when every number was computed there. A model with a node that "
             "the standard calls random is held to type, shape and range. The last line is "
             "`N passed, N failed, N skipped`.",
    .examples = "  gale conformance onnx-backend-tests-1.22.tar.xz                # on the fastest device\n"
                "  gale conformance data/ --provider cpu --filter attention        # some cases, on the CPU\n"
                "  gale conformance data/ --provider vulkan --every 20 --json",
};
