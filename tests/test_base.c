/* The base room: memory, text, environment, files, JSON, npy, hashes, types. */
#include "test.h"
#include "base/cpu.h"
#include "base/env.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/npy.h"
#include "base/num.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[4][256];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, 256, "%s/%s", folder, name);
    return p;
}

TEST(errors)
{
    CHECK_EQ(gale__fail(GALE_IO, "%s: gone", "a.txt"), GALE_IO);
    CHECK_TEXT(gale_error(), "a.txt: gone");
    gale__fail_within(GALE_IO, "loading %d", 3);
    CHECK_TEXT(gale_error(), "loading 3: a.txt: gone");
    gale__fail(GALE_IO, "again: %s", gale_error());
    CHECK_TEXT(gale_error(), "again: loading 3: a.txt: gone");
    gale__fail(GALE_FORMAT, "no channel %s", "\x1b[2Jgr\xc3\xbcn\x7f");
    CHECK_TEXT(gale_error(), "no channel ?[2Jgr\xc3\xbcn?");
    char text[] = "a\x1b\tb\0c";
    gale__text_make_plain(text, sizeof text - 1, "\t");
    CHECK(!memcmp(text, "a?\tb?c", sizeof text));
    for (int i = 0; i < 2000; i++) gale__fail_within(GALE_IO, "deep");
    CHECK(strlen(gale_error()) < 4096);
    gale__error_clear();
    CHECK_TEXT(gale_error(), "");
    CHECK_TEXT(gale_status_text(GALE_NO_MEMORY), "out of memory");
    CHECK_TEXT(gale_status_text((gale_status)99), "unknown status");
    CHECK_TEXT(gale_version(), "0.1.0");
}

static char logged[256];
static int log_lines;
static void keep_line(void *user, int level, const char *line)
{
    (void)user, (void)level;
    snprintf(logged, sizeof logged, "%s", line);
    log_lines++;
}

TEST(log)
{
    gale__log(GALE__WARN, "nobody listens");
    CHECK(!gale__log_on(GALE__WARN));
    gale_log_set(keep_line, NULL, GALE__INFO);
    log_lines = 0;
    gale__log(GALE__DEBUG, "too quiet");
    CHECK_EQ(log_lines, 0);
    gale__log(GALE__INFO, "%d of %d", 1, 2);
    CHECK_TEXT(logged, "1 of 2");
    gale_log_set(NULL, NULL, GALE__WARN);
}

TEST(alloc_faults)
{
    int64_t live = gale__alloc_live();
    gale__alloc_fail_at(2);
    void *a = gale__alloc(10), *b = gale__calloc(3, 4), *c = gale__alloc_aligned(256, 100);
    CHECK(a && !b && c && (uintptr_t)c % 256 == 0);
    CHECK(strstr(gale_error(), "12 bytes"));
    CHECK_EQ(gale__alloc_count(), 3);
    gale__alloc_fail_at(0);
    CHECK_EQ(gale__alloc_live() - live, 2);
    gale__free(a);
    gale__free(c);
    gale__free(NULL);
    CHECK_EQ(gale__alloc_live(), live);
    CHECK(!gale__calloc(SIZE_MAX / 2, 3));
    size_t all = (size_t)gale__cpu_memory_bytes(); /* nobody writes to it */
    if (all > gale__cpu_memory_left_bytes() && all >= 1 << 30)
        CHECK(!gale__alloc(all) && !gale__calloc(1, all) && !gale__alloc_aligned(64, all));
    void *zero = gale__alloc(0);
    CHECK(zero != NULL);
    gale__free(zero);
    int *items = NULL;
    size_t room = 0;
    CHECK_OK(gale__grow((void **)&items, &room, 5, sizeof *items));
    CHECK(room >= 5);
    gale__alloc_fail_at(1);
    CHECK_FAILS(gale__grow((void **)&items, &room, 1000, sizeof *items), NO_MEMORY);
    CHECK_FAILS(gale__grow((void **)&items, &room, SIZE_MAX / 2, sizeof *items), NO_MEMORY);
    gale__alloc_fail_at(0);
    gale__free(items);
    size_t out;
    CHECK(gale__mul_size(SIZE_MAX, 2, &out) && !gale__mul_size(3, 5, &out) && out == 15);
    CHECK(gale__add_size(SIZE_MAX, 1, &out) && !gale__add_size(3, 5, &out) && out == 8);
}

TEST(arena)
{
    int64_t live = gale__alloc_live();
    gale__arena a = {0};
    unsigned char *last = NULL;
    for (size_t i = 0; i < 3000; i++) {
        size_t n = i % 97 == 0 ? 5000 : i % 50;
        unsigned char *p = gale__arena_alloc(&a, n);
        if (!CHECK(p && (uintptr_t)p % 16 == 0)) break;
        for (size_t k = 0; k < n; k++) CHECK(p[k] == 0);
        memset(p, 0xff, n);
        CHECK(p != last);
        last = p;
    }
    CHECK_TEXT(gale__arena_strdup(&a, "text"), "text");
    CHECK_TEXT(gale__arena_printf(&a, "%s-%d", "x", 7), "x-7");
    CHECK(!gale__arena_alloc(&a, SIZE_MAX - 8));
    gale__arena_finish(&a);
    CHECK_EQ(gale__alloc_live(), live);
    CHECK(gale__arena_alloc(&a, 8) != NULL);
    gale__alloc_fail_at(1);
    CHECK(!gale__arena_alloc(&a, 100000));
    gale__alloc_fail_at(0);
    gale__arena_finish(&a);
}

TEST(text)
{
    gale__str s = {0};
    CHECK_TEXT(gale__str_text(&s), "");
    gale__str_add(&s, "a");
    for (int i = 0; i < 1000; i++) gale__str_addf(&s, "%d,", i);
    CHECK_EQ(s.length, 1 + 3890);
    CHECK_EQ(strlen(s.text), s.length);
    CHECK_OK(gale__str_check(&s));
    gale__str_finish(&s);
    gale__alloc_fail_at(1);
    gale__str_add(&s, "lost");
    gale__alloc_fail_at(0);
    gale__str_add(&s, "also lost");
    CHECK_FAILS(gale__str_check(&s), NO_MEMORY);
    CHECK_TEXT(gale__str_text(&s), "");
    gale__str_finish(&s);
    int64_t i = 1;
    double d = 1;
    CHECK(gale__text_to_i64("-9223372036854775808", &i) && i == INT64_MIN);
    CHECK(!gale__text_to_i64("9223372036854775808", &i) && !gale__text_to_i64("", &i) && !gale__text_to_i64("1x", &i));
    CHECK(!gale__text_to_i64(" 1", &i) && !gale__text_to_i64("-", &i));
    CHECK(gale__text_to_f64("-1.5e3", &d) && d == -1500);
    CHECK(!gale__text_to_f64("1e999", &d) && !gale__text_to_f64("nan", &d) && !gale__text_to_f64("0x1", &d) &&
          !gale__text_to_f64(".", &d));
    char buf[32];
    CHECK_TEXT(gale__f64_to_text(0.1, buf), "0.1");
    CHECK_TEXT(gale__f64_to_text(1.0 / 3, buf), "0.3333333333333333");
    CHECK(gale__text_equal_nocase("CuDa", "cUdA") && !gale__text_equal_nocase("a", "ab"));
}

TEST(environment)
{
    gale_log_set(keep_line, NULL, GALE__WARN);
    log_lines = 0;
    unsetenv("GALE_POOL");
    unsetenv("RNN_GPU_MEMORY_POOL");
    CHECK_TEXT(gale__env_get(GALE__ENV_POOL), "1");
    setenv("RNN_GPU_MEMORY_POOL", "0", 1);
    CHECK_TEXT(gale__env_get(GALE__ENV_POOL), "0");
    setenv("GALE_POOL", "2", 1);
    CHECK_TEXT(gale__env_get(GALE__ENV_POOL), "2");
    gale__env_get(GALE__ENV_POOL);
    CHECK_EQ(log_lines, 1);
    CHECK(strstr(logged, "GALE_POOL=2") && strstr(logged, "RNN_GPU_MEMORY_POOL=0"));
    setenv("GALE_WATCHDOG_S", "soon", 1);
    CHECK_EQ(gale__env_get_i64(GALE__ENV_WATCHDOG_S, 30), 30);
    CHECK_EQ(gale__env_get_i64(GALE__ENV_WATCHDOG_S, 30), 30);
    CHECK_EQ(log_lines, 2);
    setenv("GALE_WATCHDOG_S", "5", 1);
    CHECK_EQ(gale__env_get_i64(GALE__ENV_WATCHDOG_S, 30), 5);
    setenv("RNN_GPU_DEVICE", "3", 1); /* the second of two aliases */
    CHECK_EQ(gale__env_get_i64(GALE__ENV_DEVICE, 0), 3);
    unsetenv("RNN_GPU_DEVICE");
    unsetenv("GALE_WATCHDOG_S");
    unsetenv("GALE_POOL");
    unsetenv("RNN_GPU_MEMORY_POOL");
    gale_log_set(NULL, NULL, GALE__WARN);
}

TEST(files)
{
    gale__bytes b = {0};
    const char *path = in_folder("a.bin");
    CHECK_OK(gale__file_write(path, "old", 3));
    /* Every write that can fail leaves the old content and no litter. */
    static char big[3 << 20];
    memset(big, 'x', sizeof big);
    for (uint64_t n = 1; n <= 3; n++) {
        gale__file_fail_at(n);
        CHECK_FAILS(gale__file_write(path, big, sizeof big), IO);
        CHECK(strstr(gale_error(), "a.bin") && strstr(gale_error(), "No space"));
    }
    gale__file_fail_at(0);
    CHECK_OK(gale__file_read(path, 0, &b));
    CHECK(b.size == 3 && !memcmp(b.data, "old", 4));
    gale__bytes_finish(&b);
    gale__file_info *list = NULL;
    size_t count = 0;
    CHECK_OK(gale__folder_list(folder, &list, &count));
    CHECK_EQ(count, 1);
    CHECK(count == 1 && !strcmp(list[0].name, "a.bin") && list[0].size_bytes == 3 && !list[0].folder &&
          list[0].time_ns > 0);
    gale__folder_list_free(&list, count);
    CHECK_OK(gale__file_write(path, big, sizeof big));
    CHECK_FAILS(gale__file_read(path, 1000, &b), LIMIT);
    CHECK_OK(gale__file_read(path, sizeof big, &b));
    CHECK(b.size == sizeof big && !memcmp(b.data, big, sizeof big));
    gale__bytes_finish(&b);
    CHECK_OK(gale__file_read("/proc/self/status", 0, &b)); /* tells no size */
    CHECK(b.size > 100);
    gale__bytes_finish(&b);
    CHECK_FAILS(gale__file_read(in_folder("none"), 0, &b), NOT_FOUND);
    CHECK_FAILS(gale__file_read(folder, 0, &b), IO);
    CHECK_FAILS(gale__file_write(in_folder("no/such/folder"), "x", 1), NOT_FOUND);
    CHECK(gale__file_exists(path) && !gale__file_exists(in_folder("none")));
    CHECK_OK(gale__file_remove(path));
    CHECK_FAILS(gale__file_remove(path), NOT_FOUND);
    for (uint64_t n = 1; n < 4; n++) {
        int64_t live = gale__alloc_live();
        gale__alloc_fail_at(n);
        gale_status status = gale__file_write(path, "x", 1);
        if (status == GALE_OK) status = gale__file_read(path, 0, &b);
        gale__alloc_fail_at(0);
        CHECK(status == GALE_NO_MEMORY || n > 2);
        if (status == GALE_OK) gale__bytes_finish(&b);
        CHECK_EQ(gale__alloc_live(), live);
    }
    gale__file_remove(path);
}

/* Links lead on, devices stay what they are, and what is unfinished goes when the program is ended. */
TEST(places)
{
    gale__file_out out = {0};
    gale__bytes b = {0};
    struct stat st;
    char link[300], target[300];
    snprintf(target, sizeof target, "%s", in_folder("target"));
    snprintf(link, sizeof link, "%s", in_folder("link"));
    CHECK_OK(gale__file_write(target, "old", 3));
    if (CHECK(!symlink("target", link))) {
        CHECK_OK(gale__file_check(link));
        CHECK_OK(gale__file_write(link, "newer", 5));
        CHECK(!lstat(link, &st) && S_ISLNK(st.st_mode));
        CHECK_OK(gale__file_read(target, 0, &b));
        CHECK_EQ(b.size, 5);
        gale__bytes_finish(&b);
        gale__file_remove(link);
    }
    gale__file_remove(target);
    if (CHECK(!mkfifo(link, 0600))) {
        int fd = open(link, O_RDWR);
        char got[8] = "";
        CHECK_OK(gale__file_check(link));
        CHECK_OK(gale__file_write(link, "through", 7));
        CHECK(read(fd, got, 7) == 7 && !strcmp(got, "through"));
        CHECK(!lstat(link, &st) && S_ISFIFO(st.st_mode));
        close(fd);
        gale__file_remove(link);
    }
    memset(target, 'n', 255);
    target[255] = 0;
    snprintf(link, sizeof link, "%s", in_folder("")); /* a name as long as names may be */
    char longest[600];
    snprintf(longest, sizeof longest, "%s%s", link, target);
    CHECK_OK(gale__file_write(longest, "x", 1));
    CHECK_OK(gale__file_remove(longest));
    snprintf(target, sizeof target, "%s", in_folder("target"));
    CHECK_FAILS(gale__file_check(folder), IO);
    CHECK_FAILS(gale__file_write(folder, "x", 1), IO);
    CHECK_FAILS(gale__file_check(in_folder("none/x")), NOT_FOUND);
    CHECK_OK(gale__file_check(target));
    CHECK_OK(gale__file_check("no-such-name"));
    CHECK_OK(gale__file_begin(target, &out));
    CHECK(out.name && gale__file_exists(out.name));
    gale__file_abandon_all(false);
    CHECK(out.name && !gale__file_exists(out.name));
    gale__file_drop(&out);
    for (int i = 0; i < 20; i++) { /* names are forgotten with their files */
        CHECK_OK(gale__file_begin(target, &out));
        gale__file_drop(&out);
    }
    CHECK_OK(gale__file_begin(target, &out));
    gale__file_abandon_all(false);
    CHECK(out.name && !gale__file_exists(out.name));
    gale__file_drop(&out);
    char left[400]; /* what one of the same number left when it was killed is in nobody's way, and stays */
    for (int i = 0; i < 99; i++) {
        snprintf(left, sizeof left, "%s.%ld.%d.tmp", target, (long)getpid(), i);
        close(open(left, O_CREAT, 0600));
    }
    CHECK_OK(gale__file_write(target, "x", 1));
    for (int i = 0; i < 99; i++) {
        snprintf(left, sizeof left, "%s.%ld.%d.tmp", target, (long)getpid(), i);
        CHECK_OK(gale__file_remove(left));
    }
    gale__file_remove(target);
    pid_t child = fork();
    if (child == 0) {
        gale__file_abandon_all(true);
        _exit(gale__file_begin(target, &out) == GALE_IO ? 0 : 1);
    }
    int state = 1;
    CHECK(waitpid(child, &state, 0) == child && state == 0);
}

TEST(folders)
{
    struct stat st;
    CHECK_OK(gale__folder_make(in_folder("p/q/r")));
    CHECK_OK(gale__folder_make(in_folder("p/q/r/")));
    CHECK(stat(in_folder("p"), &st) == 0 && (st.st_mode & 0777) == 0700);
    CHECK_OK(gale__file_write(in_folder("p/file"), "", 0));
    CHECK_FAILS(gale__folder_make(in_folder("p/file/x")), IO);
    CHECK(strstr(gale_error(), "p/file"));
    gale__file_info *list = NULL;
    size_t count = 0;
    CHECK_OK(gale__folder_list(in_folder("p"), &list, &count));
    CHECK(count == 2 && !strcmp(list[0].name, "file") && list[1].folder);
    gale__folder_list_free(&list, count);
    CHECK_FAILS(gale__folder_list(in_folder("none"), &list, &count), NOT_FOUND);
    gale__file_remove(in_folder("p/file"));
    gale__file_remove(in_folder("p/q/r"));
    gale__file_remove(in_folder("p/q"));
    CHECK_OK(gale__file_remove(in_folder("p")));
}

TEST(maps)
{
    const char *path = in_folder("m.bin");
    gale__file_map m;
    char into[16];
    CHECK_OK(gale__file_write(path, "0123456789", 10));
    CHECK_OK(gale__file_map_open(path, &m));
    CHECK(m.size == 10 && !memcmp(m.data, "0123456789", 10));
    CHECK_OK(gale__file_map_read(&m, 3, 7, into));
    CHECK(!memcmp(into, "3456789", 7));
    CHECK_FAILS(gale__file_map_read(&m, 3, 8, into), IO);
    CHECK_FAILS(gale__file_map_read(&m, UINT64_MAX, 2, into), IO);
    CHECK(truncate(path, 4) == 0);
    CHECK_OK(gale__file_map_read(&m, 0, 4, into));
    CHECK_FAILS(gale__file_map_read(&m, 2, 3, into), IO);
    CHECK(strstr(gale_error(), "m.bin: was truncated while it was read"));
    gale__file_map_close(&m);
    CHECK_OK(gale__file_write(path, "", 0));
    CHECK_OK(gale__file_map_open(path, &m));
    CHECK_EQ(m.size, 0);
    gale__file_map_close(&m);
    gale__file_remove(path);
    CHECK_FAILS(gale__file_map_open(path, &m), NOT_FOUND);
}

TEST(cache_folder)
{
    char buf[256], small[4];
    const char *home = getenv("HOME");
    char kept[256];
    snprintf(kept, sizeof kept, "%s", home ? home : "");
    unsetenv("GALE_CACHE");
    unsetenv("RNN_CUDA_CACHE_PATH");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/home/u", 1);
    CHECK_OK(gale__cache_folder(buf, sizeof buf));
    CHECK_TEXT(buf, "/home/u/.cache/gale");
    setenv("XDG_CACHE_HOME", "/x", 1);
    CHECK_OK(gale__cache_folder(buf, sizeof buf));
    CHECK_TEXT(buf, "/x/gale");
    setenv("GALE_CACHE", "/c", 1);
    CHECK_OK(gale__cache_folder(buf, sizeof buf));
    CHECK_TEXT(buf, "/c");
    setenv("GALE_CACHE", "/long", 1);
    CHECK_FAILS(gale__cache_folder(small, sizeof small), LIMIT);
    unsetenv("GALE_CACHE");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    CHECK_FAILS(gale__cache_folder(buf, sizeof buf), NOT_FOUND);
    if (*kept) setenv("HOME", kept, 1);
}

TEST(libraries)
{
    const char *none[] = {"libnone-a.so", "libnone-b.so.1", NULL}, *some[] = {"libnone-a.so", "libm.so.6", NULL};
    gale__dl *dl = NULL;
    int64_t live = gale__alloc_live();
    CHECK_FAILS(gale__dl_open(none, &dl), NOT_FOUND);
    CHECK(strstr(gale_error(), "libnone-a.so, libnone-b.so.1"));
    if (CHECK_OK(gale__dl_open(some, &dl))) {
        CHECK_TEXT(gale__dl_name(dl), "libm.so.6");
        CHECK(gale__dl_symbol(dl, "cos") && !gale__dl_symbol(dl, "gale_no_such_symbol"));
        gale__dl_close(&dl);
        CHECK(!dl);
    }
    CHECK_EQ(gale__alloc_live(), live);
}

TEST(hashes)
{
    char hex[65];
    gale__sha256_hex("", 0, hex);
    CHECK_TEXT(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    gale__sha256_hex("abc", 3, hex);
    CHECK_TEXT(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    gale__sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    CHECK_TEXT(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    gale__sha s;
    uint8_t digest[32];
    static char many[1000];
    memset(many, 'a', sizeof many);
    gale__sha256_init(&s);
    for (int i = 0; i < 1000; i++) gale__sha_add(&s, many, sizeof many);
    gale__sha_end(&s, digest);
    CHECK(digest[0] == 0xcd && digest[1] == 0xc7 && digest[31] == 0xd0); /* a million times "a" */
    char sha1[41];
    gale__sha1_init(&s), gale__sha_end_hex(&s, sha1);
    CHECK_TEXT(sha1, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    gale__sha1_init(&s), gale__sha_add(&s, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
        gale__sha_end_hex(&s, sha1);
    CHECK_TEXT(sha1, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    for (size_t piece = 1; piece <= 1000; piece = piece * 3 + 2) { /* a million times "a", in pieces of all kinds */
        gale__sha1_init(&s);
        for (size_t at = 0, n; at < 1000000; at += n)
            n = 1000000 - at < piece ? 1000000 - at : piece, gale__sha_add(&s, many, n);
        gale__sha_end_hex(&s, sha1);
        CHECK_TEXT(sha1, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
    CHECK(gale__hex_read("0aB", 3, sha1) && !strcmp(sha1, "0ab") && !gale__hex_read("0a", 3, sha1) &&
          !gale__hex_read("0ag", 3, sha1) && !gale__hex_read("0abc", 3, sha1));
    uint64_t seen[300];
    for (size_t n = 0; n < 300; n++) {
        seen[n] = gale__hash(many, n, 1);
        for (size_t k = 0; k < n; k++) CHECK(seen[k] != seen[n]);
    }
    CHECK(gale__hash(many, 9, 1) != gale__hash(many, 9, 2));
    CHECK(gale__hash("x", 1, 0) == gale__hash("x", 1, 0));
}

TEST(json_out)
{
    gale__str s = {0};
    gale__json_out j;
    gale__json_begin(&j, &s);
    gale__json_object(&j);
    gale__json_key(&j, "name");
    gale__json_string(&j, "a \"b\"\\\n\x01");
    gale__json_open(&j, "shape", '[');
    gale__json_i64(&j, 1);
    gale__json_i64(&j, -3);
    gale__json_close(&j, ']');
    gale__json_open(&j, "list", '[');
    gale__json_object(&j);
    gale__json_key(&j, "x");
    gale__json_f64(&j, NAN);
    gale__json_key(&j, "y");
    gale__json_f64(&j, 0.5);
    gale__json_close(&j, '}');
    gale__json_null(&j);
    gale__json_bool(&j, true);
    gale__json_close(&j, ']');
    gale__json_open(&j, "none", '[');
    gale__json_close(&j, ']');
    gale__json_close(&j, '}');
    CHECK_TEXT(gale__str_text(&s),
        "{\n  \"name\": \"a \\\"b\\\"\\\\\\n\\u0001\",\n  \"shape\": [1, -3],\n  \"list\": [\n    {\n"
        "      \"x\": null,\n      \"y\": 0.5\n    }, null, true\n  ],\n  \"none\": []\n}\n");
    gale__arena a = {0};
    gale__json *v = NULL;
    CHECK_OK(gale__json_parse(&a, s.text, s.length, &v));
    CHECK_TEXT(gale__json_text(v, "name", ""), "a \"b\"\\\n\x01");
    gale__arena_finish(&a);
    gale__str_finish(&s);
}

static gale_status parse(gale__arena *a, const char *text, gale__json **v)
{
    return gale__json_parse(a, text, strlen(text), v);
}

TEST(json_in)
{
    gale__arena a = {0};
    gale__json *v = NULL;
    CHECK_OK(parse(
        &a, " {\"a\": [1, 2.5e-1, -0], \"b\": {\"c\": \"\\u00e4\\ud83d\\ude00\\/\"}, \"d\": null, \"e\": true} ", &v));
    const gale__json *list = gale__json_get(v, "a");
    CHECK(list && list->kind == GALE__JSON_ARRAY && list->child->number == 1 && list->child->next->number == 0.25);
    CHECK(list && signbit(list->child->next->next->number));
    CHECK_TEXT(gale__json_text(gale__json_get(v, "b"), "c", ""), "\xc3\xa4\xf0\x9f\x98\x80/");
    CHECK(gale__json_get(v, "e")->boolean && gale__json_get(v, "d")->kind == GALE__JSON_NULL);
    CHECK(!gale__json_get(v, "none") && !gale__json_get(NULL, "x") && !gale__json_get(list, "x"));
    CHECK(gale__json_number(v, "none", 7) == 7 && gale__json_number(v, "e", 8) == 8);
    CHECK_OK(parse(&a, "[]", &v));
    CHECK_OK(parse(&a, "3", &v));
    static const char *const bad[] = {"", " ", "{", "[", "[1", "[1,", "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}",
        "{\"a\":1,}", "01", "1.", "+1", "-", "1e", ".5", "nul", "tru", "\"", "\"\\", "\"\\\"", "\"\\x\"", "\"\\u12\"",
        "\"\\ud800\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\\u0000\"", "\"\n\"", "\"\xff\"", "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"", "\"\xe2\x82\"", "1 2", "[1]]", "1e999", "\"\xf4\x90\x80\x80\"", "{\"a\":1 \"b\":2}",
        "[1 2]", "NaN", "Infinity", "/* */1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!CHECK_FAILS(parse(&a, bad[i], &v), FORMAT)) printf("  text: %s\n", bad[i]);
    CHECK_FAILS(parse(&a, "{\n  \"a\": 1,\n  \"b\": x\n}", &v), FORMAT);
    CHECK(strstr(gale_error(), "line 3 column 8"));
    CHECK_FAILS(gale__json_parse(&a, "\"a\0b\"", 5, &v), FORMAT);
    char deep[200001];
    memset(deep, '[', 200000);
    deep[200000] = 0;
    CHECK_FAILS(parse(&a, deep, &v), FORMAT);
    memset(deep, '[', 64);
    memset(deep + 64, ']', 64);
    CHECK_OK(gale__json_parse(&a, deep, 128, &v));
    gale__arena_finish(&a);
    /* Every allocation that can fail. */
    for (uint64_t n = 1; n < 10; n++) {
        int64_t live = gale__alloc_live();
        gale__alloc_fail_at(n);
        gale_status status = parse(&a, "{\"a\": [1, 2, 3]}", &v);
        gale__alloc_fail_at(0);
        CHECK(status == GALE_NO_MEMORY || n > 1);
        gale__arena_finish(&a);
        CHECK_EQ(gale__alloc_live(), live);
    }
}

TEST(json_mutations)
{
    /* Cut and damaged text must neither crash nor read past its end (the sanitizers see that). */
    static const char good[] = "{\"k\\u00e9y\": [1.5e3, \"\\ud83d\\ude00x\", {\"n\": null}], \"t\": true}";
    uint32_t random = 1;
    for (int round = 0; round < 3000; round++) {
        size_t n = sizeof good - 1;
        char *text = malloc(n);
        memcpy(text, good, n);
        for (int k = 0; k < round % 4; k++) {
            random = random * 1664525 + 1013904223;
            text[(random >> 8) % n] = (char)(random >> 16);
        }
        gale__arena a = {0};
        gale__json *v;
        (void)!gale__json_parse(&a, text, n - (size_t)round % n, &v);
        gale__arena_finish(&a);
        free(text);
    }
    CHECK(true);
}

static void write_npy(const char *path, const char *head, const char *header, const void *data, size_t size)
{
    gale__str s = {0};
    size_t n = strlen(header);
    gale__str_add_n(&s, head, 8);
    gale__str_add_n(&s, (char[]){(char)n, (char)(n >> 8), 0, 0}, head[6] == 1 ? 2 : 4);
    gale__str_add_n(&s, header, n);
    gale__str_add_n(&s, data, size);
    gale__file_write(path, gale__str_text(&s), s.length);
    gale__str_finish(&s);
}

TEST(npy)
{
    const char *path = in_folder("a.npy");
    const float f[6] = {0, 1, 2, 3, 4, 5};
    gale__npy n;
    int64_t live = gale__alloc_live();
    for (int t = 0; t < GALE_TYPE_COUNT; t++) {
        gale_status status = gale__npy_write(
            path, (gale_type)t, 2, (const int64_t[]){3, 2}, "................................................");
        if (status == GALE_UNSUPPORTED) continue;
        CHECK_OK(status);
        if (!CHECK_OK(gale__npy_read(path, &n))) continue;
        int small = t == GALE_I4 || t == GALE_I2 ? GALE_I8 : t == GALE_U4 || t == GALE_U2 ? GALE_U8 : t;
        CHECK(n.rank == 2 && n.dims[0] == 3 && n.dims[1] == 2 && (int)n.type == small);
        CHECK_EQ(n.data.size, 6 * gale_type_size((gale_type)t));
        gale__npy_finish(&n);
    }
    CHECK_FAILS(gale__npy_write(path, GALE_F8E5M2, 0, NULL, f), UNSUPPORTED);
    CHECK_OK(gale__npy_write(path, GALE_F32, 0, NULL, f + 5));
    CHECK_OK(gale__npy_read(path, &n));
    CHECK(n.rank == 0 && n.data.size == 4 && *(float *)n.data.data == 5);
    gale__npy_finish(&n);
    CHECK_OK(gale__npy_write(path, GALE_F32, 1, (const int64_t[]){6}, f));
    CHECK_OK(gale__npy_read(path, &n));
    CHECK(n.rank == 1 && !memcmp(n.data.data, f, sizeof f));
    gale__npy_finish(&n);
    CHECK_OK(gale__npy_write(path, GALE_F32, 2, (const int64_t[]){0, 5}, f));
    CHECK_OK(gale__npy_read(path, &n));
    CHECK(n.rank == 2 && n.dims[0] == 0 && n.data.size == 0);
    gale__npy_finish(&n);
    static const char *const heads[] = {"\x93NUMPY\x01\x00", "\x93NUMPY\x02\x00", "\x93NUMPY\x03\x00"};
    for (int i = 0; i < 3; i++) {
        write_npy(path, heads[i], "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", f, sizeof f);
        if (!CHECK_OK(gale__npy_read(path, &n))) continue;
        const float turned[6] = {0, 2, 4, 1, 3, 5};
        CHECK(!memcmp(n.data.data, turned, sizeof turned));
        gale__npy_finish(&n);
    }
    gale__file_remove(path);
    CHECK_EQ(gale__alloc_live(), live);
}

TEST(npy_hostile)
{
    const char *path = in_folder("b.npy");
    gale__npy n;
    int64_t live = gale__alloc_live();
    static const struct {
        const char *header;
        gale_status status;
    } bad[] = {
        {"", GALE_FORMAT},
        {"{}\n", GALE_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, }\n", GALE_FORMAT},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", GALE_UNSUPPORTED},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }\n", GALE_UNSUPPORTED},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", GALE_FORMAT},
        {"{'descr': '<f4', 'shape': (1,), }\n", GALE_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, }\n", GALE_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", GALE_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", GALE_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }\n", GALE_LIMIT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807, 0), }\n",
            GALE_LIMIT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1), }\n", GALE_LIMIT},
        {"{'descr': '", GALE_FORMAT},
        {"'shape': (", GALE_FORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_npy(path, "\x93NUMPY\x01\x00", bad[i].header, "1234", 4);
        gale_status status = gale__npy_read(path, &n);
        if (!CHECK_EQ(status, bad[i].status)) printf("  header: %s", bad[i].header);
        CHECK(strstr(gale_error(), "b.npy"));
    }
    write_npy(path, "\x93NUMPY\x01\x00", "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", "1234", 4);
    CHECK(gale__npy_read(path, &n) == GALE_UNSUPPORTED && strstr(gale_error(), "element type '|O' is not"));
    write_npy(path, "\x93NUMPY\x09\x00", "{}\n", "", 0);
    CHECK_FAILS(gale__npy_read(path, &n), UNSUPPORTED);
    for (size_t cut = 0; cut < 14; cut++) {
        gale__file_write(path, "\x93NUMPY\x02\x00\xff\xff\xff\xff{}", cut);
        CHECK_FAILS(gale__npy_read(path, &n), FORMAT);
    }
    gale__file_remove(path);
    CHECK_EQ(gale__alloc_live(), live);
}

TEST(types)
{
    gale_type t;
    for (int i = 0; i < GALE_TYPE_COUNT; i++) {
        CHECK_OK(gale_type_parse(gale_type_name((gale_type)i), &t));
        CHECK_EQ(t, i);
    }
    CHECK_OK(gale_type_parse("Float32", &t));
    CHECK_EQ(t, GALE_F32);
    CHECK_OK(gale_type_parse("half", &t));
    CHECK_EQ(t, GALE_F16);
    CHECK_FAILS(gale_type_parse("f33", &t), INVALID);
    CHECK_TEXT(gale_type_name((gale_type)77), "?");
    CHECK(gale_type_size(GALE_I4) == 1 && gale_type_size(GALE_F64) == 8 && gale_type_size(GALE_STRING) == 0);
}

TEST(processor)
{
    CHECK(gale__cpu_cores() >= 1);
    CHECK(*gale__cpu_name());
    CHECK(gale__cpu_memory_bytes() > 1 << 20 && gale__cpu_memory_free_bytes() <= gale__cpu_memory_bytes());
    CHECK(!gale__cpu_has("no such feature"));
    uint64_t features = gale__cpu_features();
    CHECK(features >> GALE__CPU_FEATURES == 0);
    CHECK(!(features & GALE__CPU_BIT(SVE)) || gale__cpu_has("sve")); /* GALE_ISA leaves some, and adds none */
    CHECK(!(features & GALE__CPU_BIT(AVX2)) || gale__cpu_has("avx2"));
    if (!strcmp(gale__cpu_isa_name(), "sve")) CHECK(features & GALE__CPU_BIT(SVE));
    if (!strcmp(gale__cpu_isa_name(), "avx512")) CHECK(features & GALE__CPU_BIT(AVX512F));
    printf("processor: %s, %d cores, %s\n", gale__cpu_name(), gale__cpu_cores(), gale__cpu_isa_name());
}

static const test_row rows[] = {ROW(errors), ROW(log), ROW(alloc_faults), ROW(arena), ROW(text), ROW(environment),
    ROW(files), ROW(places), ROW(folders), ROW(maps), ROW(cache_folder), ROW(libraries), ROW(hashes), ROW(json_out),
    ROW(json_in), ROW(json_mutations), ROW(npy), ROW(npy_hostile), ROW(types), ROW(processor)};

int main(int argc, char **argv)
{
    snprintf(folder, sizeof folder, "/tmp/gale-test-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    int rc = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    rmdir(folder);
    return rc;
}
