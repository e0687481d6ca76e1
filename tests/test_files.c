/* Many files through a job: in order, side by side, and one that fails costs itself alone. */
#include "base/file.h"
#include "base/thread.h"
#include "jobs/batch/files.h"
#include "picture_make.h"
#include "base/claim.h"
#include "test.h"
#include <stdlib.h>
#include <unistd.h>

enum { FILES = 12 };
typedef struct seen {
    int order[FILES], count, failed;
    char said[FILES][600];
    gale__file_task *tasks;
} seen;

/* Every picture is known by its first sample; the work adds a hundred to it. */
static gale_status work(void *user, gale__file_task *t)
{
    (void)user;
    if (*(uint8_t *)t->picture->data == 7) return gale__fail(GALE_UNSUPPORTED, "seven is not liked");
    if (*(uint8_t *)t->picture->data == 8) return GALE_NO_MEMORY; /* without a word: the last one's are not its own */
    gale__sleep_ns(200000);
    *(uint8_t *)t->picture->data = (uint8_t)(*(uint8_t *)t->picture->data + 100);
    return GALE_OK;
}

static void done(void *user, gale__file_task *t)
{
    seen *s = user;
    snprintf(s->said[t - s->tasks], sizeof s->said[0], "%s", t->message ? t->message : "");
    gale__fail(t->status, "said of another");
    s->order[s->count++] = (int)(t - s->tasks);
    s->failed += t->status != GALE_OK;
}

TEST(in_order)
{
    char folder[] = "/tmp/gale-files-XXXXXX", in[FILES][64], out[FILES][64];
    gale__file_task tasks[FILES] = {{0}};
    seen s = {.tasks = tasks};
    gale__file_job job = {.work = work, .done = done, .user = &s};
    if (!CHECK(mkdtemp(folder) != NULL)) return;
    for (int i = 0; i < FILES; i++) {
        gale_picture *p = picture_make(40, 30, 1, GALE_U8);
        *(uint8_t *)p->data = (uint8_t)i;
        snprintf(in[i], sizeof in[i], "%s/%d.pgm", folder, i);
        snprintf(out[i], sizeof out[i], i == 9 ? "%s/none/%d.pgm" : "%s/%d-out.pgm", folder,
            i);                                                              /* one into a folder that is not there */
        if (i == 4) CHECK_OK(gale__file_write(in[i], "P5 40 30 255 x", 14)); /* one truncated */
        else CHECK_OK(gale_picture_write(p, in[i], NULL));
        tasks[i] = (gale__file_task){.input = in[i], .output = i == 2 ? NULL : out[i]};
        gale_picture_destroy(&p);
    }
    CHECK_OK(gale__files_run(&job, tasks, FILES));
    CHECK_EQ(s.count, FILES);
    CHECK_EQ(s.failed, 4);
    for (int i = 0; i < FILES; i++) {
        gale_picture *p = NULL;
        bool bad = i == 4 || i == 7 || i == 8 || i == 9;
        CHECK_EQ(s.order[i], i);
        CHECK_EQ(tasks[i].status != GALE_OK, bad);
        CHECK(!tasks[i].picture && !tasks[i].message && (s.said[i][0] != 0) == (bad && i != 8));
        CHECK_EQ(gale__file_exists(out[i]), !bad && i != 2);
        if (!bad && i != 2 && CHECK_OK(gale_picture_read(out[i], NULL, &p))) CHECK_EQ(*(uint8_t *)p->data, i + 100);
        gale_picture_destroy(&p);
        gale__file_remove(in[i]);
        if (!bad && i != 2) gale__file_remove(out[i]);
    }
    CHECK(strstr(s.said[4], "truncated") && strstr(s.said[7], "seven"));
    CHECK_EQ(rmdir(folder), 0);
    CHECK_OK(gale__files_run(&job, tasks, 0));
}

/* One of several has the claim; nothing is left of it afterwards. */
TEST(claims)
{
    char folder[] = "/tmp/gale-claims-XXXXXX", path[64], hidden[64];
    gale__work_claim a = {0}, b = {0};
    bool taken = false;
    if (!CHECK(mkdtemp(folder) != NULL)) return;
    snprintf(path, sizeof path, "%s/out.png", folder);
    snprintf(hidden, sizeof hidden, "%s/.out.png.claim", folder);
    CHECK_OK(gale__work_claim_take(path, &a, &taken));
    CHECK(taken && gale__file_exists(hidden));
    CHECK_OK(gale__work_claim_take(path, &b, &taken));
    CHECK(!taken && !b.path);
    gale__work_claim_release(&a);
    CHECK(!gale__file_exists(hidden));
    CHECK_OK(gale__work_claim_take(path, &b, &taken));
    CHECK(taken);
    gale__work_claim_release(&b);
    gale__work_claim_release(&b);
    CHECK_OK(gale__work_claim_take("/nowhere/at/all.png", &b, &taken)); /* no locks there: whoever asks has it */
    CHECK(taken && !b.path);
    gale__alloc_fail_at(1);
    CHECK_FAILS(gale__work_claim_take(path, &b, &taken), NO_MEMORY);
    gale__alloc_fail_at(0);
    rmdir(folder);
}

TESTS(ROW(in_order), ROW(claims))
