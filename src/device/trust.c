/* Runs the self-test once per device and driver and stores its verdict.  The test runs in a separate process, since a
 * faulty driver may crash or hang. */
#include "device/trust.h"
#include "base/cpu.h"
#include "base/env.h"
#include "base/file.h"
#include "base/process.h"
#include "device/record.h"
#include "device/workarounds.h"
#include <stdio.h>
#include <string.h>

#define REVISION "2" /* of the self-test: a new one asks for new verdicts */
#define WAITS 4      /* times the watchdog: how long a step may take; compilers of software drivers are slow */

static const char *const verdict_names[] = {"untested", "passed", "failed"};

/* What else decides what a driver does: its setting, the processor (software drivers compile for it), our own version.
 */
static void make_extra(const gale_device_info *info, char *text, size_t size)
{
    char state[256];
    gale__workaround_state(gale__workaround_find(info), state, sizeof state);
    snprintf(text, size, "%s %s\n%s\n%s", REVISION, gale_version(), state, info->caps.software ? gale__cpu_name() : "");
}

void gale__trust_load(const gale_device_info *info, gale__trust *out)
{
    char extra[512];
    gale__arena arena = {0};
    gale__json *root;
    *out = (gale__trust){0};
    make_extra(info, extra, sizeof extra);
    gale__record_read(info, "trust", extra, &arena, &root);
    const char *verdict = root ? gale__json_text(root, "verdict", "") : "";
    for (int i = GALE__TRUST_PASSED; i <= GALE__TRUST_FAILED; i++)
        if (!strcmp(verdict, verdict_names[i])) out->verdict = (gale__trust_verdict)i;
    if (out->verdict == GALE__TRUST_FAILED)
        snprintf(out->reason, sizeof out->reason, "%s", gale__json_text(root, "reason", ""));
    gale__arena_finish(&arena);
}

static void write_verdict(gale__json_out *j, const void *user)
{
    const gale__trust *t = user;
    gale__json_put_text(j, "verdict", verdict_names[t->verdict]);
    gale__json_put_text(j, "reason", t->reason);
}

/* If the verdict cannot be stored, the test runs again next time. */
static void save(const gale_device_info *info, const gale__trust *t)
{
    char extra[512];
    make_extra(info, extra, sizeof extra);
    if (gale__record_write(info, "trust", extra, write_verdict, t) != GALE_OK)
        gale__log(
            GALE__INFO, "the self-test result of %s:%d is not stored: %s", info->backend, info->index, gale_error());
}

/* --- The self-test in a process of its own. --- */

typedef struct watched {
    gale__trust_line *on_line;
    void *user;
    char step[128], reason[512];
    bool ended; /* the last step was reported as good */
} watched;

static void take_line(void *user, const char *line)
{
    watched *w = user;
    bool ours = (line[0] == '>' || line[0] == '+' || line[0] == '-') && line[1] == ' ';
    if (!ours) return; /* what drivers print */
    if (line[0] == '>') snprintf(w->step, sizeof w->step, "%s", line + 2);
    if (line[0] == '-') snprintf(w->reason, sizeof w->reason, "%s", line + 2);
    w->ended = line[0] == '+';
    if (w->on_line) w->on_line(w->user, line);
}

/* This program where it is gale, the one that GALE_PROGRAM names, else the one on PATH. */
static void find_program(char *path, size_t size)
{
    const char *named = gale__env_get(GALE__ENV_PROGRAM);
    gale__process_self(path, size);
    const char *base = strrchr(path, '/');
    if (*named) snprintf(path, size, "%s", named);
    else if (!base || strcmp(base, "/gale")) snprintf(path, size, "gale");
}

gale_status gale__trust_spawn(
    const char *backend, int index, gale__trust_part part, gale__trust_line *on_line, void *user, gale__trust *out)
{
    char program[1024], number[16], which[32];
    watched w = {.on_line = on_line, .user = user, .step = "start"};
    gale__process_end end;
    find_program(program, sizeof program);
    snprintf(number, sizeof number, "%d", index);
    snprintf(which, sizeof which, "%d/%d", part.index + 1, part.count);
    const char *argv[] = {
        program, "selftest", "--provider", backend, "--device", number, part.count > 1 ? "--part" : NULL, which, NULL};
    GALE_TRY(gale__process_watch(argv, WAITS * gale__watchdog_ns(false), take_line, &w, &end));
    /* Only wrong results and crashes are stored: a busy machine may just have been slow or out of memory. */
    *out = (gale__trust){.verdict = GALE__TRUST_FAILED, .passing = end.timed_out || (!end.signal && end.code == 1)};
    if (end.timed_out)
        snprintf(out->reason, sizeof out->reason, "%s: the driver hangs (GALE_WATCHDOG_S sets the time limit)", w.step);
    else if (end.signal)
        snprintf(
            out->reason, sizeof out->reason, "%s: the driver crashed with %s", w.step, gale__signal_name(end.signal));
    else if (*w.reason) snprintf(out->reason, sizeof out->reason, "%s: %s", w.step, w.reason);
    else if (end.code == 0 && w.ended) out->verdict = GALE__TRUST_PASSED;
    else return gale__fail(GALE_NOT_FOUND, "%s cannot run the self-test (exit code %d)", program, end.code);
    return GALE_OK;
}

/* --- Requiring trust. --- */

void gale__trust_hurry(gale_device *device)
{
    device->once = device->backend->selftest_kernels ? device->backend->selftest_kernels : 1;
}

static gale_status test_here(gale_device *device, const char *why, gale__trust *out)
{
    watched w = {.step = "start"};
    gale__log(GALE__WARN, "%s:%d: the self-test runs in this process, because the gale program was not found (%s)",
        device->info.backend, device->info.index, why);
    gale__trust_hurry(device);
    gale_status status = gale__selftest_run(device, GALE__TRUST_WHOLE, take_line, &w);
    device->once = 0;
    if (status == GALE_NO_MEMORY) return status;
    *out = (gale__trust){.verdict = status == GALE_OK ? GALE__TRUST_PASSED : GALE__TRUST_FAILED,
        .passing = status != GALE_OK && status != GALE_MISMATCH};
    if (status != GALE_OK) snprintf(out->reason, sizeof out->reason, "%s: %s", w.step, w.reason);
    return GALE_OK;
}

static gale_status refuse(const gale_device_info *info, const gale__trust *t)
{
    const gale__workaround *w = gale__workaround_find(info);
    char remedy[512] = "update the driver";
    if (w)
        snprintf(remedy, sizeof remedy, "set %s=%s before the program starts (%s), or update the driver", w->variable,
            w->value, w->fault);
    return gale__fail(GALE_NO_DEVICE,
        "%s:%d %s (%s) failed the self-test: %s; %s; to use it anyway: GALE_ALLOW_UNTRUSTED=1 or --allow-untrusted",
        info->backend, info->index, info->name, info->driver, t->reason, remedy);
}

/* The test's process opens the device as well, which takes as long as opening it here: both happen at once. */
static void test_apart(void *arg)
{
    gale__trust_test *t = arg;
    t->status = gale__trust_spawn(t->info->backend, t->info->index, GALE__TRUST_WHOLE, NULL, NULL, &t->trust);
    if (t->status != GALE_OK) snprintf(t->trust.reason, sizeof t->trust.reason, "%s", gale_error());
}

gale_status gale__trust_begin(const gale_device_info *info, gale__trust_test *t)
{
    *t = (gale__trust_test){.info = info};
    bool driver = info->caps.holds_data && !info->caps.host_functions;
    t->needed = driver && gale__env_get_i64(GALE__ENV_ALLOW_UNTRUSTED, 0) != 1;
    if (!t->needed) return GALE_OK;
    gale__trust_load(info, &t->trust);
    t->runs = t->trust.verdict == GALE__TRUST_UNTESTED;
    return t->runs ? gale__thread_begin(&t->thread, test_apart, t) : GALE_OK;
}

gale_status gale__trust_end(gale__trust_test *t, gale_device *device)
{
    if (t->runs) gale__thread_end(&t->thread);
    if (!t->needed || !device) return GALE_OK;
    if (t->runs) {
        if (t->status != GALE_OK) GALE_TRY(test_here(device, t->trust.reason, &t->trust));
        if (!t->trust.passing) save(t->info, &t->trust);
    }
    return t->trust.verdict == GALE__TRUST_PASSED ? GALE_OK : refuse(t->info, &t->trust);
}
