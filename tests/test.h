/* A few lines that every test program shares: checks that say where and what, a table of tests, one last line.
 *
 *     TEST(adds) { CHECK_EQ(1 + 1, 2); }
 *     TESTS(ROW(adds), ...)
 *
 * A check that fails is printed and the test goes on; a test with a failed check counts as one failure.
 * `program NAME...` runs only the tests whose name contains one of the words. */
#ifndef GALE_TEST_H
#define GALE_TEST_H
#include "gale/base.h"
#include "gale/device.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int test_bad;        /* failed checks of the running test */
static int test_skipped;    /* the running test asked to be skipped */
static const char *test_at; /* its name */

#define TEST(name) static void test_##name(void)

static inline bool test_check(bool ok, const char *file, int line, const char *text)
{
    if (ok) return true;
    if (++test_bad <= 20) printf("FAIL %s: %s:%d: %s\n", test_at, file, line, text);
    return false;
}

static inline bool test_check_eq(int64_t a, int64_t b, const char *file, int line, const char *text)
{
    if (a == b) return true;
    if (++test_bad <= 20) printf("FAIL %s: %s:%d: %s: %" PRId64 ", not %" PRId64 "\n", test_at, file, line, text, a, b);
    return false;
}

static inline bool test_check_text(const char *a, const char *b, const char *file, int line, const char *text)
{
    if (a && b && !strcmp(a, b)) return true;
    if (++test_bad <= 20)
        printf(
            "FAIL %s: %s:%d: %s: \"%s\", not \"%s\"\n", test_at, file, line, text, a ? a : "(null)", b ? b : "(null)");
    return false;
}

static inline bool test_check_ok(gale_status status, const char *file, int line, const char *text)
{
    if (status == GALE_OK) return true;
    if (++test_bad <= 20)
        printf("FAIL %s: %s:%d: %s: %s: %s\n", test_at, file, line, text, gale_status_text(status), gale_error());
    return false;
}

/* Each is an expression, true when the check holds: `if (!CHECK_OK(open(...))) return;` */
#define CHECK(cond) test_check(cond, __FILE__, __LINE__, #cond)
#define CHECK_EQ(a, b) test_check_eq((int64_t)(a), (int64_t)(b), __FILE__, __LINE__, #a " == " #b)
#define CHECK_TEXT(a, b) test_check_text(a, b, __FILE__, __LINE__, #a)
#define CHECK_OK(call) test_check_ok(call, __FILE__, __LINE__, #call)
#define CHECK_FAILS(call, status) test_check_eq((int64_t)(call), GALE_##status, __FILE__, __LINE__, #call)

/* Leaves the running test, counted as skipped and said aloud. */
#define SKIP(...)                     \
    do {                              \
        printf("SKIP %s: ", test_at); \
        printf(__VA_ARGS__);          \
        printf("\n");                 \
        test_skipped = 1;             \
        return;                       \
    } while (0)

/* Built with the address sanitizer. */
static inline bool test_sanitized(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true;
#else
    return false;
#endif
}

/* Under an emulator or a sanitizer time is dear: heavy tests then do a part of their work. */
static inline bool test_light(void)
{
    const char *light = getenv("GALE_TEST_LIGHT");
    return light && *light >= '1' && *light <= '3';
}

/* The default run of scripts/test: what takes long and looks at everything takes a spread of it. */
static inline bool test_brief(void)
{
    const char *light = getenv("GALE_TEST_LIGHT");
    return light && (*light == '2' || *light == '3');
}

/* The same under an emulator, where a step takes fifty times as long: what looks at many values of one kind looks at
 * fewer. */
static inline bool test_emulated(void)
{
    const char *light = getenv("GALE_TEST_LIGHT");
    return light && *light == '3';
}

/* The folder of real models and pictures; a test that needs them skips, said aloud, where they are missing. */
static inline const char *test_data(void)
{
    const char *folder = getenv("GALE_TEST_DATA");
    return folder && *folder ? folder : "../shared/data";
}

typedef struct test_row {
    const char *name;
    void (*fn)(void);
} test_row;

static inline bool test_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i])) return true;
    return argc < 2;
}

/* A test that hangs is ended from outside, and says which one it was. */
static void test_ended(int signal)
{
    static const char before[] = "FAIL ", after[] = ": did not end in time\n";
    const char *name = test_at ? test_at : "main";
    bool told = write(1, before, sizeof before - 1) > 0 && write(1, name, strlen(name)) > 0 &&
                write(1, after, sizeof after - 1) > 0;
    _exit(told ? 128 + signal : 1);
}

/* Before main, since some programs open devices there.  Tests find out by themselves what a driver computes. */
__attribute__((constructor)) static void test_prepare(void)
{
    signal(SIGTERM, test_ended);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* what it said before is not lost */
    gale_workarounds_apply();
    setenv("GALE_ALLOW_UNTRUSTED", "1", 0);
    setenv("GALE_WATCHDOG_S", "200", 0); /* a driver that hangs is reported before the test is ended */
}

static inline int test_main(const test_row *rows, size_t count, int argc, char **argv)
{
    int passed = 0, failed = 0, skipped = 0;
    for (size_t i = 0; i < count; i++) {
        if (!test_wanted(rows[i].name, argc, argv)) continue;
        test_at = rows[i].name;
        test_bad = test_skipped = 0;
        rows[i].fn();
        if (test_bad) failed++;
        else if (test_skipped) skipped++;
        else passed++;
        fflush(stdout);
    }
    test_at = "exit";
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? 1 : 0;
}

/* The same on one device, opened for all of them: `device` is the program's gale_device *. */
static inline int test_main_on(
    const char *chain, gale_device **device, const test_row *rows, size_t count, int argc, char **argv)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.chain = chain;
    options.strict = true;
    test_at = "device";
    if (!CHECK_OK(gale_device_open(&options, device))) return 1;
    int status = test_main(rows, count, argc, argv);
    gale_device_close(device);
    return status;
}

#define TESTS(...)                                     \
    static const test_row test_rows[] = {__VA_ARGS__}; \
    int main(int argc, char **argv) { return test_main(test_rows, sizeof test_rows / sizeof *test_rows, argc, argv); }
#define ROW(name)          \
    {                      \
#name, test_##name \
    }
#endif
