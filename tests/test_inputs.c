/* Files, folders and patterns as inputs: order, names that meet nobody, and nothing lost when memory ends. */
#include "base/file.h"
#include "jobs/batch/inputs.h"
#include "jobs/batch/journal.h"
#include "test.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {
    "b.png", "a.JPG", "a-z.JPG", "b.tif", "._a.JPG", "notes.txt", "below/c.png", "below/.hidden/d.png"};
enum { NAMES = sizeof names / sizeof *names };

static char *folder_make(char *folder)
{
    char path[128];
    if (!CHECK(mkdtemp(folder) != NULL)) return NULL;
    snprintf(path, sizeof path, "%s/below/.hidden", folder);
    CHECK_OK(gale__folder_make(path));
    for (int i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        CHECK_OK(gale__file_write(path, "x", 1));
    }
    return folder;
}

static void folder_remove(const char *folder)
{
    static const char *const folders[] = {"below/.hidden", "below", ""};
    char path[128];
    for (int i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        gale__file_remove(path);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        CHECK_EQ(rmdir(path), 0);
    }
}

/* Inputs and outputs, one after another, without the folder in front. */
static void check_list(const gale__inputs *in, const char *folder, const char *wanted)
{
    gale__str s = {0};
    size_t n = strlen(folder) + 1;
    for (size_t i = 0; i < in->count; i++) {
        const char *out = in->list[i].output;
        gale__str_addf(&s, "%s>%s ", in->list[i].path + n,
            out && !strncmp(out, folder, n - 1) ? out + n
            : out                               ? out
                                                : "");
    }
    if (!CHECK(!strcmp(gale__str_text(&s), wanted))) printf("  %s, not %s\n", gale__str_text(&s), wanted);
    gale__str_finish(&s);
}

/* A folder that may not be read, first in its order: the rest is there all the same.  The administrator may read
 * everything, and is somebody else meanwhile. */
TEST(unread)
{
    char folder[] = "/tmp/gale-inputs-XXXXXX", path[128];
    gale__inputs in = {0};
    uid_t me = geteuid();
    if (!folder_make(folder)) return;
    snprintf(path, sizeof path, "%s/Below", folder); /* before small letters */
    CHECK_OK(gale__folder_make(path));
    CHECK(!chmod(folder, 0755) && !chmod(path, 0) && (me || !seteuid(65534)));
    CHECK_OK(gale__inputs_add(&in, folder, true));
    CHECK(me || !seteuid(0));
    CHECK_EQ(in.unread, 2 - (me != 0)); /* `below` is private */
    CHECK(in.count == 4 + (me != 0) && strstr(in.list[0].path, "a-z.JPG"));
    gale__inputs_finish(&in);
    rmdir(path);
    folder_remove(folder);
}

TEST(folders)
{
    char folder[] = "/tmp/gale-inputs-XXXXXX", path[128];
    gale__inputs in = {0};
    size_t left_out = 9;
    if (!folder_make(folder)) return;
    CHECK_OK(gale__inputs_add(&in, folder, false));
    check_list(&in, folder, "a-z.JPG> a.JPG> b.png> b.tif> ");
    CHECK(in.ignored_count == 1 && in.ignored[0].count == 1 && !strcmp(in.ignored[0].extension, "txt"));
    CHECK_OK(gale__inputs_name(&in, NULL, "-z", NULL));
    CHECK_OK(gale__inputs_settle(&in, &left_out));
    CHECK_EQ(left_out, 1);
    check_list(&in, folder, "a.JPG>a-z.JPG b.png>b-z.png b.tif>b-z.tif ");
    gale__inputs_finish(&in);
    CHECK_OK(gale__inputs_add(&in, folder, true));
    CHECK_OK(gale__inputs_name(&in, "out/", "-z", "png"));
    CHECK_OK(gale__inputs_settle(&in, &left_out));
    CHECK_EQ(left_out, 0);
    check_list(&in, folder,
        "a-z.JPG>out/a-z-z.png a.JPG>out/a-z.png b.png>out/b-png-z.png b.tif>out/b-tif-z.png "
        "below/c.png>out/below/c-z.png ");
    gale__inputs_finish(&in);
    snprintf(path, sizeof path, "%s/[b-n]*.?[ni]*", folder);
    CHECK_OK(gale__inputs_add(&in, path, false));
    check_list(&in, folder, "b.png> b.tif> ");
    in.list[0].output = in.list[0].path;
    in.list[1].output = "none";
    CHECK_EQ(gale__inputs_settle(&in, &left_out), GALE_INVALID);
    snprintf(path, sizeof path, "%s/*.webp", folder);
    CHECK_EQ(gale__inputs_add(&in, path, true), GALE_NOT_FOUND);
    snprintf(path, sizeof path, "%s/nowhere/*.png", folder);
    CHECK(gale__inputs_add(&in, path, true) != GALE_OK);
    gale__inputs_finish(&in);
    folder_remove(folder);
}

TEST(faults)
{
    char folder[] = "/tmp/gale-inputs-XXXXXX";
    if (!folder_make(folder)) return;
    int64_t live = gale__alloc_live();
    gale_status status = GALE_NO_MEMORY;
    for (uint64_t n = 1; n < 1000 && status == GALE_NO_MEMORY; n++) {
        gale__inputs in = {0};
        size_t left_out;
        gale__alloc_fail_at(n);
        status = gale__inputs_add(&in, folder, true);
        if (status == GALE_OK) status = gale__inputs_name(&in, "out", "-z", NULL);
        if (status == GALE_OK) status = gale__inputs_settle(&in, &left_out);
        gale__alloc_fail_at(0);
        gale__inputs_finish(&in);
        CHECK_EQ(gale__alloc_live(), live);
    }
    CHECK_EQ(status, GALE_OK);
    folder_remove(folder);
}

/* Names of any bytes come back; memory that ends leaves nothing behind; a line that is none is passed over. */
TEST(journal)
{
    static const gale__journal_entry entries[] = {{"b-2.png", "/in/b.tif"}, {"a\tb%41\n.png", "/in/a\tb%41\n.png"},
        {"b.png", "/in/b.tif"}, {"\xff.png", "/in/\xff"}};
    char folder[] = "/tmp/gale-inputs-XXXXXX", path[128];
    if (!CHECK(mkdtemp(folder) != NULL)) return;
    snprintf(path, sizeof path, "%s/%s", folder, GALE__JOURNAL_NAME);
    int64_t live = gale__alloc_live();
    gale_status status = GALE_NO_MEMORY;
    for (uint64_t n = 1; n < 100 && status == GALE_NO_MEMORY; n++) {
        gale__journal none = {0}, j = {0};
        gale__alloc_fail_at(n);
        status = gale__journal_write(&none, folder, entries, 4);
        if (status == GALE_OK) status = gale__journal_open(folder, &j);
        gale__alloc_fail_at(0);
        if (status == GALE_OK) {
            CHECK_EQ(j.count, 4);
            for (int i = 0; i < 4; i++) {
                const char *input = gale__journal_input(&j, entries[i].output);
                CHECK(input && !strcmp(input, entries[i].input));
            }
            CHECK(!strcmp(gale__journal_output(&j, "/in/b.tif", 0), "b-2.png"));
            CHECK(!strcmp(gale__journal_output(&j, "/in/b.tif", 1), "b.png"));
            CHECK(!gale__journal_output(&j, "/in/b.tif", 2) && !gale__journal_input(&j, "c.png"));
            CHECK_OK(gale__journal_write(&j, folder, &(gale__journal_entry){"b.png", "/in/other"}, 1));
        }
        gale__journal_finish(&j);
        CHECK_EQ(gale__alloc_live(), live);
    }
    CHECK_EQ(status, GALE_OK);
    gale__journal again = {0};
    CHECK_OK(gale__journal_open(folder, &again));
    CHECK(again.count == 4 && !strcmp(gale__journal_input(&again, "b.png"), "/in/other"));
    gale__journal_finish(&again);
    CHECK_OK(gale__file_write(path, "no tab\n\t\nx\ty", 13));
    CHECK_OK(gale__journal_open(folder, &again));
    CHECK(gale__journal_input(&again, "x") && again.count == 2);
    gale__journal_finish(&again);
    gale__file_remove(path);
    rmdir(folder);
}

TESTS(ROW(unread), ROW(folders), ROW(faults), ROW(journal))
