/* The step-by-step test of a provider, in a separate process. */
#include "device/trust.h"
#include "jobs/machine/machine.h"
#include <stdio.h>

typedef struct trial {
    const gale_trial_options *options;
    gale__arena *arena;
    char step[128]; /* the one that has begun */
    gale_trial_step *steps;
    size_t count;
    bool failed; /* out of memory */
} trial;

/* "> STEP" before a step, "+ NOTE" or "- REASON" after it. */
static void note_line(void *user, const char *line)
{
    trial *t = user;
    if (line[0] == '>') {
        snprintf(t->step, sizeof t->step, "%s", line + 2);
        return;
    }
    gale_trial_step *step = gale__arena_add(t->arena, &t->steps, &t->count, sizeof *step);
    const char *name = gale__arena_strdup(t->arena, t->step), *text = gale__arena_strdup(t->arena, line + 2);
    if (!step || !name || !text) {
        t->failed = true;
        return;
    }
    *step = (gale_trial_step){.name = name, .ok = line[0] == '+', .text = text};
    if (t->options->step) t->options->step(t->options->user, step);
}

static gale_status run_trial(const gale__provider *provider, const gale_trial_options *o, gale_trial_result *r)
{
    trial t = {.options = o, .arena = gale__result_arena(r), .step = "start"};
    gale__trust trust;
    GALE_TRY(gale__trust_spawn(provider->backend, o->device, GALE__TRUST_WHOLE, note_line, &t, &trust));
    r->passed = trust.verdict == GALE__TRUST_PASSED;
    r->reason = gale__arena_strdup(t.arena, trust.reason);
    r->steps = t.steps;
    r->n_steps = t.count;
    return r->reason && !t.failed ? GALE_OK : GALE_NO_MEMORY;
}

gale_status gale_doctor_try(const char *name, const gale_trial_options *options, gale_trial_result **out)
{
    GALE__NEED({"provider", name}, {"out", out});
    GALE__OPTIONS(options);
    static const gale_trial_options usual = {0};
    const gale__provider *provider = name ? gale__provider_find(name) : NULL;
    if (!provider)
        return gale__fail(GALE_INVALID, "unknown provider '%s' (`gale devices` lists them)", name ? name : "");
    gale_trial_result *result = gale__result_create(sizeof *result);
    gale_status status = result ? run_trial(provider, options ? options : &usual, result) : GALE_NO_MEMORY;
    return gale__result_give(status, result, out);
}

GALE__RESULT_DESTROY(gale_trial_result)

GALE__RESULT_JSON(gale_trial_result, '{')
{
    gale__json_put_bool(j, "passed", r->passed);
    gale__json_put_text(j, "reason", r->reason);
    gale__json_open(j, "steps", '[');
    for (size_t i = 0; i < r->n_steps; i++) {
        gale__json_object(j);
        gale__json_put_text(j, "name", r->steps[i].name);
        gale__json_put_bool(j, "ok", r->steps[i].ok);
        gale__json_put_text(j, "text", r->steps[i].text);
        gale__json_close(j, '}');
    }
    gale__json_close(j, ']');
}
