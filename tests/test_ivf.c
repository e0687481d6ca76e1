/* Inverted files: built on the CPU, they find what exact search finds; files that are missing, damaged or of other
 * vectors are refused. */
#include "base/file.h"
#include "base/mem.h"
#include "base/npy.h"
#include "base/process.h"
#include "base/thread.h"
#include "jobs/search/ivf.h"
#include "test.h"
#include <math.h>

enum { ROWS = 4000, DIMS = 12, GROUPS = 40, K = 10, QUERIES = 20 };
static float table[ROWS * DIMS], queries[QUERIES * DIMS];
static char folder[256];
static uint32_t seed;

static float draw(void) { return (float)((seed = seed * 1664525u + 1013904223u) >> 8) / (float)(1 << 24) - 0.5f; }

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Vectors in groups, as those of texts are, of any length. */
static void write_vectors(uint32_t from, int64_t rows)
{
    static float centres[GROUPS * DIMS];
    const int64_t dims[2] = {rows, DIMS};
    seed = from;
    for (int i = 0; i < GROUPS * DIMS; i++) centres[i] = draw();
    for (int r = 0; r < ROWS + QUERIES; r++)
        for (int i = 0; i < DIMS; i++) {
            float v = 3 * (centres[r % GROUPS * DIMS + i] + 0.3f * draw());
            if (r < ROWS) table[r * DIMS + i] = v;
            else queries[(r - ROWS) * DIMS + i] = v;
        }
    CHECK_OK(gale__npy_write(path_of("v.npy"), GALE_F32, 2, dims, table));
}

static gale_status open_with(int64_t probes, gale_index **out)
{
    return gale_index_open(path_of("v.npy"), &(gale_index_options){.probes = probes}, out);
}

static gale_status build(int64_t lists, gale_index_build_report *report)
{
    gale_index *x = NULL;
    GALE_TRY(open_with(0, &x));
    gale_status status = gale_index_build(x, &(gale_index_build_options){.lists = lists}, report);
    gale_index_close(&x);
    return status;
}

static int count_common(const gale_hit *a, const gale_hit *b)
{
    int common = 0;
    for (int i = 0; i < K; i++)
        for (int k = 0; k < K; k++) common += a[i].row >= 0 && a[i].row == b[k].row && a[i].score == b[k].score;
    return common;
}

TEST(finds_what_exact_search_finds)
{
    static gale_hit exact[QUERIES * K], found[QUERIES * K];
    gale_index_build_report report = {0};
    gale_index *x = NULL;
    int common = 0;
    write_vectors(1, ROWS);
    if (!CHECK_OK(build(0, &report)) || !CHECK_OK(open_with(-1, &x))) return;
    CHECK_EQ(report.rows, ROWS);
    CHECK_EQ(report.lists, 126);
    CHECK(report.recall >= 0.95 && report.recall <= 1 && report.probes < 60);
    CHECK_OK(gale_index_search(x, queries, QUERIES, K, NULL, found));
    CHECK_OK(gale_index_set_probes(x, 0));
    CHECK_OK(gale_index_search(x, queries, QUERIES, K, NULL, exact));
    for (int q = 0; q < QUERIES; q++) common += count_common(exact + q * K, found + q * K);
    if (!CHECK(common >= QUERIES * K * 85 / 100)) printf("  %d of %d\n", common, QUERIES * K);
    CHECK_OK(gale_index_set_probes(x, 1000000)); /* all lists: the same rows in the same order */
    CHECK_OK(gale_index_search(x, queries, QUERIES, K, NULL, found));
    for (int i = 0; i < QUERIES * K; i++) CHECK(found[i].row == exact[i].row && found[i].score == exact[i].score);
    CHECK_FAILS(gale_index_set_probes(x, -2), INVALID);
    gale_index_close(&x);
}

TEST(filters_and_few_rows)
{
    static uint8_t allowed[ROWS];
    gale_hit hits[K];
    gale_index *x = NULL;
    gale_index_build_report report;
    for (int i = 0; i < ROWS; i++) allowed[i] = i % 7 == 0;
    if (CHECK_OK(open_with(8, &x)) && CHECK_OK(gale_index_search(x, queries, 1, K, allowed, hits)))
        for (int i = 0; i < K; i++) CHECK(hits[i].row == -1 || allowed[hits[i].row]);
    gale_index_close(&x);
    write_vectors(2, 3);
    if (CHECK_OK(build(0, &report)) && CHECK_OK(open_with(-1, &x))) {
        CHECK_EQ(report.lists, 3);
        CHECK_OK(gale_index_search(x, queries, 1, K, NULL, hits));
        CHECK(hits[0].row >= 0 && hits[3].row == -1);
    }
    gale_index_close(&x);
    write_vectors(2, 0);
    CHECK_FAILS(build(0, &report), LIMIT);
    CHECK_FAILS(build(-1, &report), INVALID);
}

static void check_damage(const char *bytes, size_t size, size_t at)
{
    gale_index *x = NULL;
    char *copy = malloc(size);
    memcpy(copy, bytes, size);
    copy[at] ^= 0x40;
    CHECK_OK(gale__file_write(path_of("v.npy.ivf"), copy, size));
    gale_status status = open_with(-1, &x);
    if (!CHECK(status == GALE_FORMAT || status == GALE_MISMATCH)) printf("  byte %zu\n", at);
    gale_index_close(&x);
    free(copy);
}

TEST(damaged_files_are_refused)
{
    gale__bytes file = {0};
    gale_index *x = NULL;
    write_vectors(3, ROWS);
    CHECK_OK(gale__file_remove(path_of("v.npy.ivf")));
    CHECK_FAILS(open_with(-1, &x), NOT_FOUND);
    CHECK(strstr(gale_error(), "--build-index") != NULL);
    CHECK_OK(build(20, NULL));
    CHECK_OK(gale__file_read(path_of("v.npy.ivf"), 0, &file));
    for (size_t at = 0; at < 64; at++) check_damage(file.data, file.size, at);
    for (size_t at = 128; at < file.size; at += file.size / 50) check_damage(file.data, file.size, at);
    for (size_t size = 0; size < file.size; size += file.size / 9) {
        CHECK_OK(gale__file_write(path_of("v.npy.ivf"), file.data, size));
        CHECK_FAILS(open_with(-1, &x), FORMAT);
    }
    CHECK_OK(gale__file_write(path_of("v.npy.ivf"), file.data, file.size));
    CHECK_OK(open_with(-1, &x));
    gale_index_close(&x);
    write_vectors(4, ROWS); /* the same size, other numbers */
    CHECK_FAILS(open_with(-1, &x), MISMATCH);
    gale__bytes_finish(&file);
}

static bool stop(void *user, const gale_job_progress *now)
{
    int *left = user;
    (void)now;
    return --*left > 0;
}

TEST(building_can_be_cancelled)
{
    gale_index *x = NULL;
    CHECK_OK(gale__file_remove(path_of("v.npy.ivf")));
    if (!CHECK_OK(open_with(0, &x))) return;
    for (int left = 1; left <= 10; left += 3) {
        int calls = left;
        gale_index_build_options o = {.control = {.progress = stop, .user = &calls}};
        CHECK_FAILS(gale_index_build(x, &o, NULL), CANCELLED);
        CHECK(!gale__file_exists(path_of("v.npy.ivf")));
    }
    gale_index_close(&x);
}

TEST(memory_may_run_out)
{
    write_vectors(5, 50);
    CHECK_OK(build(4, NULL));
    gale__parallel_finish();
    size_t live = gale__alloc_live();
    for (uint64_t n = 1;; n += 1 + n / 16) {
        gale__alloc_fail_at(n);
        gale_status status = build(4, NULL);
        bool over = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        if (over) break;
        if (status != GALE_OK) CHECK_EQ(status, GALE_NO_MEMORY);
    }
    gale__parallel_finish();
    CHECK_EQ(gale__alloc_live(), live);
}

TEST(folder_comes) { CHECK_OK(gale__temp_folder_make(folder, sizeof folder)); }

TEST(folder_goes)
{
    gale__temp_folder_remove(folder);
    CHECK(!gale__folder_exists(folder));
}

TESTS(ROW(folder_comes), ROW(finds_what_exact_search_finds), ROW(filters_and_few_rows), ROW(damaged_files_are_refused),
    ROW(building_can_be_cancelled), ROW(memory_may_run_out), ROW(folder_goes))
