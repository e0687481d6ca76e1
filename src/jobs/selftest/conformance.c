/* The official ONNX suite, or any folder like it, on one device.  Cases are handed out one by one to as many threads as
 * there are jobs. */
#include "base/cpu.h"
#include "base/thread.h"
#include "device/device.h"
#include "jobs/job.h"
#include "jobs/selftest/suite.h"
#include <stdio.h>
#include <string.h>

typedef struct queue {
    const gale_conformance_options *options;
    const gale__suite *suite;
    gale_device *device;
    size_t *chosen; /* cases of the suite; n_cases of the result */
    gale__mutex lock;
    size_t next, done;
    gale_status status;
    char message[256];  /* of the failure that ended it: the slot is a thread's own */
    gale__arena *arena; /* the result's */
    gale_conformance_result *result;
    gale_conformance_case *cases; /* the result's */
    gale_conformance_count *counts;
} queue;

static bool take_case(queue *q, size_t *index)
{
    gale__mutex_lock(&q->lock);
    bool any = q->next < q->result->n_cases && q->status == GALE_OK;
    if (any) *index = q->next++;
    gale__mutex_unlock(&q->lock);
    return any;
}

static gale_status count(queue *q, const gale_conformance_case *c)
{
    gale_conformance_result *r = q->result;
    size_t i = 0;
    while (i < r->n_operators && strcmp(q->counts[i].op, c->op)) i++;
    if (i == r->n_operators) {
        gale_conformance_count *to = gale__arena_add(q->arena, &q->counts, &r->n_operators, sizeof *to);
        if (!to) return GALE_NO_MEMORY;
        to->op = c->op;
    }
    bool passed = c->outcome == GALE_CASE_PASSED, failed = c->outcome == GALE_CASE_FAILED,
         skipped = c->outcome == GALE_CASE_SKIPPED;
    q->counts[i].passed += passed;
    q->counts[i].failed += failed;
    q->counts[i].skipped += skipped;
    r->passed += passed;
    r->failed += failed;
    r->skipped += skipped;
    return GALE_OK;
}

static gale_status record_case(
    queue *q, const gale__suite_case *from, const gale__suite_result *found, gale_conformance_case *to)
{
    *to = (gale_conformance_case){.name = gale__arena_strdup(q->arena, from->name),
        .group = gale__arena_strdup(q->arena, from->group),
        .op = gale__arena_strdup(q->arena, found->op),
        .reason = gale__arena_strdup(q->arena, found->reason),
        .outcome = found->outcome,
        .random = found->random};
    if (!to->name || !to->group || !to->op || !to->reason) return GALE_NO_MEMORY;
    if (to->outcome != GALE_CASE_PASSED && q->options->failed) q->options->failed(q->options->user, to);
    GALE_TRY(count(q, to));
    return gale__job_tell(&q->options->control, "conformance", "cases", ++q->done, q->result->n_cases);
}

static void work(void *arg)
{
    queue *q = arg;
    for (size_t i; take_case(q, &i);) {
        const gale__suite_case *c = &q->suite->cases[q->chosen[i]];
        gale__suite_result found;
        gale__suite_run(c, q->device, &found);
        gale__mutex_lock(&q->lock);
        gale_status status = q->status == GALE_OK ? record_case(q, c, &found, &q->cases[i]) : GALE_OK;
        if (status != GALE_OK) {
            q->status = status;
            snprintf(q->message, sizeof q->message, "%s", gale_error());
        }
        gale__mutex_unlock(&q->lock);
    }
}

static gale_status run_queue(queue *q, int jobs)
{
    gale__thread *threads = gale__calloc((size_t)jobs, sizeof *threads);
    int begun = 0;
    if (!threads) return GALE_NO_MEMORY;
    gale__mutex_init(&q->lock);
    while (begun < jobs - 1 && gale__thread_begin(&threads[begun], work, q) == GALE_OK) begun++;
    work(q);
    for (int i = 0; i < begun; i++) gale__thread_end(&threads[i]);
    gale__mutex_finish(&q->lock);
    gale__free(threads);
    return q->status == GALE_OK ? GALE_OK : gale__fail(q->status, "%s", q->message);
}

static void choose(queue *q, const gale_conformance_options *o)
{
    size_t seen = 0, every = o->every ? (size_t)o->every : 1;
    for (size_t i = 0; i < q->suite->count; i++) {
        if (o->filter && !strstr(q->suite->cases[i].name, o->filter)) continue;
        if (seen++ % every == 0) q->chosen[q->result->n_cases++] = i;
    }
}

static gale_status run_cases(
    const gale_conformance_options *o, const gale__suite *suite, gale_device *device, gale_conformance_result *r)
{
    const gale_device_info *info = gale_device_get_info(device);
    int jobs = o->jobs ? o->jobs : info->caps.host_functions ? 1 : gale__cpu_cores();
    queue q = {.options = o, .suite = suite, .device = device, .arena = gale__result_arena(r), .result = r};
    q.chosen = gale__arena_alloc(q.arena, (suite->count + 1) * sizeof *q.chosen);
    q.cases = gale__arena_alloc(q.arena, (suite->count + 1) * sizeof *q.cases);
    r->device = gale__arena_strdup(q.arena, info->name);
    r->provider = gale__arena_strdup(q.arena, info->backend);
    if (!q.chosen || !q.cases || !r->device || !r->provider) return GALE_NO_MEMORY;
    choose(&q, o);
    if (!r->n_cases)
        return gale__fail(
            GALE_NOT_FOUND, "no name of %zu cases contains '%s'", suite->count, o->filter ? o->filter : "");
    gale_status status = run_queue(&q, jobs);
    r->cases = q.cases;
    r->operators = q.counts;
    return status;
}

gale_status gale_conformance_run(
    const char *path, gale_device *device, const gale_conformance_options *options, gale_conformance_result **out)
{
    GALE__NEED({"suite", path}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    static const gale_conformance_options usual = {0};
    const gale_conformance_options *o = options ? options : &usual;
    gale__suite suite = {0};
    if (o->every < 0 || o->jobs < 0 || o->jobs > 256)
        return gale__fail(GALE_INVALID, "conformance: every must be at least 1, and jobs 1 to 256");
    GALE_TRY(gale__job_tell(&o->control, "suite", "cases", 0, 0));
    GALE_TRY(gale__suite_open(path, &suite));
    gale_conformance_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? run_cases(o, &suite, device, result) : GALE_NO_MEMORY;
    gale__suite_finish(&suite);
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_conformance_result)

GALE__RESULT_JSON(gale_conformance_result, '{')
{
    static const char *const words[] = {"passed", "failed", "skipped"};
    gale__json_put_text(j, "device", r->device);
    gale__json_put_text(j, "provider", r->provider);
    gale__json_put_i64(j, "passed", r->passed);
    gale__json_put_i64(j, "failed", r->failed);
    gale__json_put_i64(j, "skipped", r->skipped);
    gale__json_open(j, "cases", '[');
    for (size_t i = 0; i < r->n_cases; i++) {
        const gale_conformance_case *c = &r->cases[i];
        gale__json_object(j);
        gale__json_put_text(j, "case", c->name);
        gale__json_put_text(j, "group", c->group);
        gale__json_put_text(j, "operator", c->op);
        gale__json_put_text(j, "outcome", words[c->outcome]);
        if (c->random) gale__json_put_bool(j, "random", true);
        if (*c->reason) gale__json_put_text(j, "reason", c->reason);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}
