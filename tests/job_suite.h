/* What tests of jobs share: a folder, a control that counts and cancels, and a loop that makes each allocation fail. */
#ifndef GALE_TESTS_JOB_SUITE_H
#define GALE_TESTS_JOB_SUITE_H
#include "base/file.h"
#include "base/process.h"
#include "gale/job.h"
#include "onnx_make.h"
#include "test.h"
#include <unistd.h>

static char job_folder[] = "/tmp/gale-jobs-XXXXXX";

/* A path in a folder of this program's own; up to four at once. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][100];
    static bool made;
    static int at;
    if (!made) made = mkdtemp(job_folder) != NULL;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", job_folder, name);
    return path;
}

/* Writes a made model and ends the maker. */
static inline const char *make_saved(maker *m, const char *name)
{
    gale__str bytes = {0};
    const char *path = in_folder(name);
    CHECK_OK(make_encode(m, &bytes));
    CHECK_OK(gale__file_write(path, gale__str_text(&bytes), bytes.length));
    gale__str_finish(&bytes);
    make_end(m);
    return path;
}

/* Counts calls, notes the latest, and cancels at the `until`-th (0: never). */
typedef struct job_counter {
    int calls, until;
    uint64_t done, total;
} job_counter;
static inline bool job_count(void *user, const gale_job_progress *now)
{
    job_counter *c = user;
    CHECK(now->stage && now->unit && now->done <= now->total);
    c->done = now->done;
    c->total = now->total;
    return ++c->calls != c->until;
}

/* A job with the n-th allocation failing: `work` frees what it made.  Later ones are spread, more where `dense` is
 * small. all: failures that only leave something out are right too, so it goes on until none is left to fail.  What
 * pools keep does not count. */
static inline void job_faults(gale_device *device, gale_status (*work)(void), uint64_t dense, bool all)
{
    gale_status status = GALE_NO_MEMORY;
    uint64_t asked = UINT64_MAX;
    if (test_light()) dense = 1 + dense / 4;
    gale__alloc_fail_at(0);
    for (int i = 0; i < 2; i++) CHECK_OK(work()); /* what is kept for good is made */
    if (device) gale_memory_trim(device);
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1; (all ? n <= asked : status != GALE_OK) && n < 200000; n += 1 + n / dense) {
        gale__alloc_fail_at(n);
        status = work();
        if (status == GALE_OK) asked = gale__alloc_count();
        gale__alloc_fail_at(0);
        if (device) gale_memory_trim(device);
        if (status != GALE_OK && !CHECK_EQ(status, GALE_NO_MEMORY)) break;
        if (!CHECK(gale__alloc_live() <= live)) break;
    }
    if (!all) CHECK_OK(status);
}

static inline void check_json(gale_status status, char *text, const char *const *parts, size_t n)
{
    if (!CHECK_OK(status)) return;
    for (size_t i = 0; i < n; i++)
        if (!CHECK(strstr(text, parts[i]) != NULL)) printf("  %s is not in %s\n", parts[i], text);
    gale_free(text);
}
#define CHECK_JSON(call, text, ...)                                        \
    do {                                                                   \
        static const char *const parts_[] = {__VA_ARGS__};                 \
        gale_status status_ = (call);                                      \
        check_json(status_, text, parts_, sizeof parts_ / sizeof *parts_); \
    } while (0)
#endif
