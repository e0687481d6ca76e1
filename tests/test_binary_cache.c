/* The cache of compiled kernels: hits and misses, damage, several processes, the size limit, a folder that cannot be
 * written, failures of memory and of the disk. */
#include "test.h"
#include "base/thread.h"
#include "device/binary_cache.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64];
static int warnings;

static void count_warnings(void *user, int level, const char *line)
{
    (void)user, (void)line;
    if (level == GALE__WARN) warnings++;
}

/* A new, empty folder. */
static void fresh(const char *limit_mb)
{
    snprintf(root, sizeof root, "/tmp/gale-cache-XXXXXX");
    if (!mkdtemp(root)) root[0] = 0;
    setenv("GALE_CACHE", root, 1);
    setenv("GALE_CACHE_LIMIT_MB", limit_mb, 1);
}

static void drop(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (system(command)) printf("cannot remove %s\n", root);
}

static void make_key(int i, char key[GALE__BINARY_KEY])
{
    gale__binary_cache_key_for(&i, sizeof i, "device", "driver", "", key);
}

static void file_of(const char *key, char path[256]) { snprintf(path, 256, "%s/kernels/%.2s/%s.bin", root, key, key); }

static bool has(const char *key, const char *text)
{
    gale__bytes got = {0};
    bool found = gale__binary_cache_get(key, &got);
    bool same = found && got.size == strlen(text) && !memcmp(got.data, text, got.size);
    gale__bytes_finish(&got);
    return same;
}

TEST(keys_tell_all_parts_apart)
{
    char a[GALE__BINARY_KEY], b[GALE__BINARY_KEY];
    gale__binary_cache_key_for("text", 4, "sm_90", "12.8", "-x", a);
    CHECK_EQ(strlen(a), 64);
    gale__binary_cache_key_for("text", 4, "sm_90", "12.8", "-x", b);
    CHECK_TEXT(a, b);
    static const char *const others[][3] = {
        {"sm_80", "12.8", "-x"}, {"sm_90", "12.9", "-x"}, {"sm_90", "12.8", ""}, {"sm_901", "2.8", "-x"}};
    for (int i = 0; i < 4; i++) {
        gale__binary_cache_key_for("text", 4, others[i][0], others[i][1], others[i][2], b);
        CHECK(strcmp(a, b) != 0);
    }
    gale__binary_cache_key_for("texT", 4, "sm_90", "12.8", "-x", b);
    CHECK(strcmp(a, b) != 0);
}

TEST(what_was_put_is_found)
{
    fresh("64");
    char key[GALE__BINARY_KEY], other[GALE__BINARY_KEY];
    make_key(1, key), make_key(2, other);
    gale__bytes got = {0};
    CHECK(!gale__binary_cache_get(key, &got));
    gale__binary_cache_put(key, "abc", 3);
    gale__binary_cache_put(other, "", 0);
    CHECK(has(key, "abc"));
    CHECK(has(other, ""));
    gale__binary_cache_put(key, "newer", 5);
    CHECK(has(key, "newer"));
    gale__binary_cache_stats stats;
    if (CHECK_OK(gale__binary_cache_get_stats(&stats))) {
        CHECK_EQ(stats.files, 2);
        CHECK_EQ(stats.limit_bytes, 64 << 20);
        CHECK(strstr(stats.folder, root) == stats.folder);
    }
    CHECK_OK(gale__binary_cache_clear());
    CHECK(!has(key, "newer"));
    drop();
}

static void overwrite(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!CHECK(f != NULL)) return;
    fwrite(data, 1, size, f);
    fclose(f);
}

TEST(damaged_files_are_removed)
{
    fresh("64");
    char key[GALE__BINARY_KEY], path[256];
    make_key(3, key);
    file_of(key, path);
    for (int kind = 0; kind < 4; kind++) {
        gale__binary_cache_put(key, "0123456789", 10);
        gale__bytes file = {0};
        if (!CHECK_OK(gale__file_read(path, 0, &file))) break;
        char *data = file.data;
        if (kind == 0) overwrite(path, "garbage", 7);
        if (kind == 1) overwrite(path, data, file.size - 1);
        if (kind == 2) data[file.size - 1] ^= 1, overwrite(path, data, file.size);
        if (kind == 3) overwrite(path, "", 0);
        gale__bytes_finish(&file);
        CHECK(!has(key, "0123456789"));
        CHECK(!gale__file_exists(path));
    }
    drop();
}

TEST(a_folder_that_cannot_be_written_is_one_warning)
{
    fresh("64");
    char path[128], key[GALE__BINARY_KEY];
    snprintf(path, sizeof path, "%s/file", root);
    overwrite(path, "x", 1);
    setenv("GALE_CACHE", path, 1);
    gale_log_set(count_warnings, NULL, GALE__WARN);
    warnings = 0;
    for (int i = 0; i < 3; i++) {
        make_key(i, key);
        gale__binary_cache_put(key, "abc", 3);
        CHECK(!has(key, "abc"));
    }
    CHECK_EQ(warnings, 1);
    gale_log_set(NULL, NULL, GALE__WARN);
    drop();
}

TEST(a_limit_of_zero_turns_it_off)
{
    fresh("0");
    char key[GALE__BINARY_KEY];
    make_key(4, key);
    gale__binary_cache_put(key, "abc", 3);
    CHECK(!has(key, "abc"));
    drop();
}

TEST(the_oldest_leave_first)
{
    fresh("1");
    static char block[100 * 1024];
    char key[GALE__BINARY_KEY], path[256], command[320];
    for (int i = 0; i < 30; i++) {
        make_key(i, key);
        gale__binary_cache_put(key, block, sizeof block);
        file_of(key, path);
        /* Times a second apart, whatever the file system keeps of them. */
        snprintf(command, sizeof command, "test ! -e '%s' || touch -d '2020-01-01 00:00:%02d' '%s'", path, i, path);
        if (system(command)) printf("touch failed\n");
    }
    gale__binary_cache_stats stats;
    if (CHECK_OK(gale__binary_cache_get_stats(&stats))) CHECK(stats.size_bytes <= 2 << 20 && stats.files >= 5);
    CHECK_OK(gale__binary_cache_trim(1 << 20));
    if (CHECK_OK(gale__binary_cache_get_stats(&stats))) CHECK(stats.size_bytes <= 1 << 20 && stats.files >= 5);
    make_key(29, key), file_of(key, path);
    CHECK(gale__file_exists(path));
    make_key(0, key), file_of(key, path);
    CHECK(!gale__file_exists(path));
    drop();
}

/* Writes and reads the same few keys; 0 when nothing wrong was read. */
static int worker(int seed)
{
    char key[GALE__BINARY_KEY], text[4096];
    for (int round = 0; round < 40; round++) {
        int i = (seed + round) % 4;
        make_key(i, key);
        memset(text, 'a' + i, sizeof text - 1);
        text[sizeof text - 1] = 0;
        gale__binary_cache_put(key, text, sizeof text - 1);
        gale__bytes got = {0};
        bool found = gale__binary_cache_get(key, &got);
        bool right = !found || (got.size == sizeof text - 1 && !memcmp(got.data, text, got.size));
        gale__bytes_finish(&got);
        if (!right) return 1;
    }
    return 0;
}

TEST(processes_share_the_folder)
{
    fresh("64");
    pid_t children[4];
    for (int i = 0; i < 4; i++)
        if (!(children[i] = fork())) _exit(worker(i));
    for (int i = 0; i < 4; i++) {
        int code = -1;
        waitpid(children[i], &code, 0);
        CHECK_EQ(code, 0);
    }
    gale__binary_cache_stats stats;
    if (CHECK_OK(gale__binary_cache_get_stats(&stats))) CHECK_EQ(stats.files, 4);
    drop();
}

TEST(failures_lose_nothing)
{
    fresh("64");
    char key[GALE__BINARY_KEY];
    int64_t live = gale__alloc_live();
    for (int n = 1; n < 24; n++) {
        make_key(100 + n, key);
        gale__alloc_fail_at((uint64_t)n);
        gale__binary_cache_put(key, "abc", 3);
        gale__bytes got = {0};
        if (gale__binary_cache_get(key, &got)) CHECK(got.size == 3);
        gale__bytes_finish(&got);
        gale__binary_cache_stats stats;
        gale__binary_cache_get_stats(&stats);
        gale__alloc_fail_at(0);
        CHECK_EQ(gale__alloc_live(), live);
    }
    make_key(5, key);
    gale__file_fail_at(1);
    gale__binary_cache_put(key, "abc", 3);
    gale__file_fail_at(0);
    CHECK(!has(key, "abc"));
    drop();
}

TESTS(ROW(keys_tell_all_parts_apart), ROW(what_was_put_is_found), ROW(damaged_files_are_removed),
    ROW(a_folder_that_cannot_be_written_is_one_warning), ROW(a_limit_of_zero_turns_it_off), ROW(the_oldest_leave_first),
    ROW(processes_share_the_folder), ROW(failures_lose_nothing))
