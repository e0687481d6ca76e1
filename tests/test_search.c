/* Search among vectors: every format and type against a plain loop, ties, filters, damaged files, and devices that
 * build kernels where there are any. */
#include "base/file.h"
#include "base/mem.h"
#include "base/npy.h"
#include "base/num.h"
#include "base/process.h"
#include "gale/search.h"
#include "jobs/search/index_graph.h"
#include "jobs/search/top.h"
#include "test.h"
#include <math.h>

enum { ROWS = 3000, DIMS = 50, K = 7 };
static float table[ROWS * DIMS], query[3 * DIMS];
static char folder[256];

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void fill(bool normal)
{
    uint64_t seed = 5;
    for (int i = 0; i < (ROWS + 3) * DIMS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float v = (float)(int32_t)(seed >> 32) / 2147483648.f;
        if (i < ROWS * DIMS) table[i] = v;
        else query[i - ROWS * DIMS] = v;
    }
    memcpy(table + 2000 * DIMS, table + 10 * DIMS, DIMS * sizeof *table); /* a tie */
    memcpy(query, table + 10 * DIMS, DIMS * sizeof *table);
    for (int r = 0; normal && r < ROWS; r++) {
        float sum = 0;
        for (int i = 0; i < DIMS; i++) sum += table[r * DIMS + i] * table[r * DIMS + i];
        for (int i = 0; i < DIMS; i++) table[r * DIMS + i] /= sqrtf(sum);
    }
}

static double cosine(const float *a, const float *b)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < DIMS; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Each hit has the score it should have, and nothing that was left out has a better one than the last. */
static void check_hits(const gale_hit *hits, const float *q, const uint8_t *allowed, double limit)
{
    for (int i = 0; i < K; i++) {
        if (!CHECK(hits[i].row >= 0 && hits[i].row < ROWS)) return;
        CHECK(fabs(hits[i].score - cosine(q, table + hits[i].row * DIMS)) < limit);
        CHECK(!i || hits[i].score <= hits[i - 1].score);
        CHECK(!allowed || allowed[hits[i].row]);
    }
    for (int r = 0; r < ROWS; r++) {
        bool found = false;
        for (int i = 0; i < K; i++) found |= hits[i].row == r;
        if (!found && (!allowed || allowed[r])) CHECK(cosine(q, table + r * DIMS) <= hits[K - 1].score + 2 * limit);
    }
}

static void search_file(const char *name, gale_index_options o, double limit)
{
    gale_index *x = NULL;
    gale_index_info info;
    gale_hit hits[3 * K], alone[K];
    if (!CHECK_OK(gale_index_open(path_of(name), &o, &x))) return;
    gale_index_get_info(x, &info);
    CHECK(info.rows == ROWS && info.dims == DIMS);
    if (CHECK_OK(gale_index_search(x, query, 3, K, NULL, hits)))
        for (int q = 0; q < 3; q++) check_hits(hits + q * K, query + q * DIMS, NULL, limit);
    for (int q = 0; q < 3; q++)
        if (CHECK_OK(gale_index_search(x, query + q * DIMS, 1, K, NULL, alone)))
            for (int i = 0; i < K; i++)
                CHECK(alone[i].row == hits[q * K + i].row && alone[i].score == hits[q * K + i].score);
    CHECK(hits[0].row == 10 && hits[1].row == 2000); /* of equals the lower row is first */
    gale_index_close(&x);
}

static void write_all(void)
{
    const int64_t dims[2] = {ROWS, DIMS};
    gale__str fvecs = {0};
    int32_t n = DIMS;
    CHECK_OK(gale__npy_write(path_of("v.npy"), GALE_F32, 2, dims, table));
    CHECK_OK(gale__file_write(path_of("v.raw"), table, sizeof table));
    for (int r = 0; r < ROWS; r++) {
        gale__str_add_n(&fvecs, (const char *)&n, 4);
        gale__str_add_n(&fvecs, (const char *)(table + r * DIMS), DIMS * 4);
    }
    CHECK_OK(gale__file_write(path_of("v.fvecs"), fvecs.text, fvecs.length));
    gale__str_finish(&fvecs);
}

TEST(formats_give_the_same)
{
    for (int normal = 0; normal < 2; normal++) {
        fill(normal);
        write_all();
        search_file("v.npy", (gale_index_options){0}, 1e-5);
        search_file("v.raw", (gale_index_options){.dims = DIMS}, 1e-5);
        search_file("v.fvecs", (gale_index_options){0}, 1e-5);
    }
}

/* A header of an odd length: no number is where a processor would like it. */
static void move_by_a_byte(const char *name)
{
    gale__bytes b = {0};
    gale__str s = {0};
    if (!CHECK_OK(gale__file_read(path_of(name), 0, &b))) return;
    gale__str_add_n(&s, (const char *)b.data, 10);
    gale__str_add_n(&s, " ", 1);
    gale__str_add_n(&s, (const char *)b.data + 10, b.size - 10);
    s.text[8]++;
    CHECK_OK(gale__file_write(path_of(name), s.text, s.length));
    gale__str_finish(&s);
    gale__bytes_finish(&b);
}

TEST(smaller_vectors_are_near)
{
    static const double limits[] = {0, 1e-3, 0.02, 0.6};
    static const gale_type types[] = {GALE_F32, GALE_F16, GALE_I8, GALE_U8};
    static uint8_t packed[ROWS * DIMS * 2];
    gale_hit hits[K];
    fill(true);
    for (int t = GALE_VECTOR_F16; t <= GALE_VECTOR_BINARY; t++) {
        size_t size = gale_vector_bytes((gale_vector_type)t, DIMS);
        int64_t dims[2] = {ROWS, t == GALE_VECTOR_BINARY ? (int64_t)size : DIMS};
        gale_index *x = NULL;
        for (int r = 0; r < ROWS; r++)
            gale_vector_pack((gale_vector_type)t, DIMS, table + r * DIMS, packed + (size_t)r * size);
        CHECK_OK(gale__npy_write(path_of("p.npy"), types[t], 2, dims, packed));
        if (t != GALE_VECTOR_BINARY) search_file("p.npy", (gale_index_options){.dims = DIMS}, limits[t]);
        move_by_a_byte("p.npy");
        if (!CHECK_OK(gale_index_open(path_of("p.npy"), &(gale_index_options){.dims = DIMS}, &x))) continue;
        if (CHECK_OK(gale_index_search(x, query, 1, K, NULL, hits)))
            CHECK(hits[0].row == 10 && hits[1].row == 2000 && fabsf(hits[0].score - 1) < 0.01f);
        gale_index_close(&x);
    }
}

TEST(filters_and_few_rows)
{
    static uint8_t allowed[ROWS];
    gale_index *x = NULL;
    gale_hit hits[K], *many = gale__calloc(ROWS + 5, sizeof *many);
    float v[DIMS];
    fill(true);
    write_all();
    for (int i = 0; i < ROWS; i++) allowed[i] = i % 3 == 0;
    if (CHECK_OK(gale_index_open(path_of("v.npy"), NULL, &x))) {
        if (CHECK_OK(gale_index_search(x, query + DIMS, 1, K, allowed, hits)))
            check_hits(hits, query + DIMS, allowed, 1e-5);
        if (CHECK_OK(gale_index_search(x, query, 1, ROWS + 5, NULL, many)))
            CHECK(many[ROWS - 1].row >= 0 && many[ROWS].row == -1 && many[0].row == 10);
        CHECK_OK(gale_index_vector(x, 17, v));
        CHECK(!memcmp(v, table + 17 * DIMS, sizeof v));
        CHECK_FAILS(gale_index_vector(x, ROWS, v), INVALID);
        CHECK_FAILS(gale_index_search(x, query, 1, 0, NULL, hits), INVALID);
        memset(v, 0, sizeof v);
        CHECK_FAILS(gale_index_search(x, v, 1, K, NULL, hits), INVALID);
    }
    gale_index_close(&x);
    gale__free(many);
}

TEST(devices_find_the_same)
{
    static const char *const names[] = {"opencl", "vulkan"};
    int found = 0;
    fill(false);
    write_all();
    for (int i = 0; i < 2; i++) {
        gale_device_options options = GALE_DEVICE_OPTIONS;
        gale_device *device = NULL;
        options.chain = names[i];
        options.strict = true;
        if (gale_device_open(&options, &device) != GALE_OK) continue;
        found++;
        search_file("v.npy", (gale_index_options){.device = device}, 1e-5);
        gale_device_close(&device);
    }
    if (!found) SKIP("there is neither an OpenCL nor a Vulkan device");
}

/* Exactly the rows that a heap over all of them keeps. */
static void check_graph(
    const float *rows, int64_t n, int64_t dims, const float *queries, int64_t k, gale_tensor *const out[2])
{
    gale_hit *want = gale__calloc((size_t)k, sizeof *want), *got = gale__calloc((size_t)k, sizeof *got);
    for (int64_t q = 0; q < 2; q++) {
        size_t count = 0;
        for (int64_t r = 0; r < n; r++) {
            float sum = 0;
            for (int64_t i = 0; i < dims; i++) sum += rows[r * dims + i] * queries[q * dims + i];
            if (sum == sum) gale__top_offer(want, &count, (size_t)k, (gale_hit){r, sum});
        }
        gale__top_sort(want, count);
        for (int64_t i = 0; i < k; i++)
            got[i] = (gale_hit){((const int64_t *)gale_tensor_data(out[1]))[q * k + i],
                ((const float *)gale_tensor_data(out[0]))[q * k + i]};
        gale__top_sort(got, (size_t)k);
        for (int64_t i = 0; i < k; i++)
            if (!CHECK(got[i].row == want[i].row && got[i].score == want[i].score))
                printf("  %lld: %lld, not %lld\n", (long long)i, (long long)got[i].row, (long long)want[i].row);
    }
    gale__free(want);
    gale__free(got);
}

/* The graph with small tables: several of them, two levels of blocks, the last ones not full. */
static void run_graph(gale_device *device, int64_t k, gale_type type)
{
    enum { N = 9000, D = 4, TABLE = 2500, TABLES = 4 };
    static float rows[N * D];
    static uint16_t halves[N * D];
    gale__index_shape shape = {N, D, TABLE, type, k};
    gale_graph *g = NULL;
    gale_program *program = NULL;
    gale_tensor *in[1 + TABLES] = {NULL}, *out[2] = {NULL};
    float queries[2 * D] = {1, 0.5f, 0, -1, -1, 1, 0.25f, 0};
    uint32_t seed = 3;
    for (int i = 0; i < N * D; i++) { /* few different numbers: many ties */
        rows[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 28) / 8 - 1;
        halves[i] = gale__f32_to_f16(rows[i]);
    }
    rows[17 * D] = NAN; /* never found */
    halves[17 * D] = 0x7e00;
    CHECK_OK(gale_graph_create(&g));
    CHECK_OK(gale__index_graph(g, &shape));
    if (CHECK_OK(gale_program_create(g, device, NULL, &program))) {
        CHECK_OK(gale_tensor_from_cpu(device, GALE_F32, 2, (int64_t[]){2, D}, queries, &in[0]));
        for (int t = 0; t < TABLES; t++) {
            int64_t dims[2] = {t == TABLES - 1 ? N - t * TABLE : TABLE, D};
            const void *at = type == GALE_F32 ? (const void *)(rows + t * TABLE * D) : halves + t * TABLE * D;
            CHECK_OK(gale_tensor_from_cpu(device, type, 2, dims, at, &in[1 + t]));
        }
        if (CHECK_OK(gale_program_run(program, in, out, GALE_RUN_ON_HOST))) check_graph(rows, N, D, queries, k, out);
    }
    for (int i = 0; i <= TABLES; i++) gale_tensor_destroy(&in[i]);
    for (int i = 0; i < 2; i++) gale_tensor_destroy(&out[i]);
    gale_program_destroy(&program);
    gale_graph_destroy(&g);
}

TEST(the_best_of_many_blocks)
{
    static const char *const names[] = {"cpu", "opencl", "vulkan"};
    for (int i = 0; i < 3; i++) {
        gale_device_options options = GALE_DEVICE_OPTIONS;
        gale_device *device = NULL;
        options.chain = names[i];
        options.strict = true;
        if (gale_device_open(&options, &device) != GALE_OK) continue;
        run_graph(device, 10, GALE_F32);
        run_graph(device, 200, GALE_F32); /* too many for blocks */
        run_graph(device, 3, GALE_F16);
        gale_device_close(&device);
    }
}

TEST(damaged_files_are_refused)
{
    static const char *const heads[] = {
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 3), }",
        "{'shape': (2, 3)}",
        "",
    };
    gale_index *x = NULL;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char bytes[128 + 24];
        memset(bytes, ' ', sizeof bytes);
        memcpy(bytes, "\x93NUMPY\1\0\x76\0", 10);
        memcpy(bytes + 10, heads[i], strlen(heads[i]));
        CHECK_OK(gale__file_write(path_of("d.npy"), bytes, sizeof bytes));
        CHECK_FAILS(gale_index_open(path_of("d.npy"), NULL, &x), FORMAT);
    }
    CHECK_OK(gale__file_write(path_of("d.npy"), "\x93NUMPY\1\0\xff\xff", 10));
    CHECK_FAILS(gale_index_open(path_of("d.npy"), NULL, &x), FORMAT);
    CHECK_OK(gale__file_write(path_of("d.fvecs"), "\3\0\0\0abcdabcdabcd\4\0\0\0abcdabcdabcd", 32));
    CHECK_FAILS(gale_index_open(path_of("d.fvecs"), NULL, &x), FORMAT);
    CHECK_OK(gale__file_write(path_of("d.raw"), "abcdabcd", 7));
    CHECK_FAILS(gale_index_open(path_of("d.raw"), &(gale_index_options){.dims = 1}, &x), FORMAT);
    CHECK_FAILS(gale_index_open(path_of("d.raw"), NULL, &x), INVALID);
    CHECK_FAILS(gale_index_open(path_of("none.npy"), NULL, &x), NOT_FOUND);
    CHECK(!x);
}

TEST(folder_goes)
{
    gale__temp_folder_remove(folder);
    CHECK(!gale__folder_exists(folder));
}

TEST(folder_comes) { CHECK_OK(gale__temp_folder_make(folder, sizeof folder)); }

TESTS(ROW(folder_comes), ROW(formats_give_the_same), ROW(smaller_vectors_are_near), ROW(filters_and_few_rows),
    ROW(devices_find_the_same), ROW(the_best_of_many_blocks), ROW(damaged_files_are_refused), ROW(folder_goes))
