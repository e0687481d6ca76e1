/* Tensors on the host: strings, and memory that belongs to someone else. */
#include "graph/run/program.h"
#include "test.h"
#include <unistd.h>

#define SHAPE(...) \
    (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

TEST(strings_are_kept)
{
    static const char *const words[] = {"", "a", "two words", "\xc3\xa4\xc3\xb6", "x", "y"};
    gale_tensor *t = NULL, *view = NULL, *copy = NULL;
    size_t size = 7;
    char into[256];
    if (!CHECK_OK(gale_tensor_from_strings(SHAPE(2, 3), words, NULL, &t))) return;
    CHECK_EQ(gale_tensor_type(t), GALE_STRING);
    CHECK_EQ(gale__tensor_elements(t), 6);
    CHECK(gale_tensor_data(t) == NULL);
    CHECK_TEXT(gale_tensor_string(t, 3, &size), words[3]);
    CHECK_EQ(size, 4);
    CHECK(gale_tensor_string(t, -1, NULL) == NULL && gale_tensor_string(t, 6, NULL) == NULL);
    CHECK_FAILS(gale_tensor_to_cpu(t, into, sizeof into), UNSUPPORTED);
    CHECK_OK(gale_tensor_reshape(t, SHAPE(6), &view));
    CHECK_FAILS(gale_tensor_reshape(t, SHAPE(5), &copy), INVALID);
    CHECK_OK(gale_tensor_to_device(t, NULL, &copy));
    gale_tensor_destroy(&t);
    for (int i = 0; i < 6; i++) {
        CHECK_TEXT(gale_tensor_string(view, i, NULL), words[i]);
        CHECK_TEXT(gale_tensor_string(copy, i, NULL), words[i]);
    }
    CHECK_EQ(gale_tensor_rank(view), 1);
    CHECK_EQ(gale_tensor_rank(copy), 2);
    gale_tensor_destroy(&view), gale_tensor_destroy(&copy);
}

TEST(strings_hold_any_bytes)
{
    const char *const words[] = {"a\0b", NULL, "cdef"};
    const size_t sizes[] = {3, 0, 2};
    gale_tensor *t = NULL, *none = NULL, *one = NULL;
    size_t size = 9;
    if (!CHECK_OK(gale_tensor_from_strings(SHAPE(3), words, sizes, &t))) return;
    const char *text = gale_tensor_string(t, 0, &size);
    CHECK(size == 3 && !memcmp(text, "a\0b", 4));
    CHECK_TEXT(gale_tensor_string(t, 1, &size), "");
    CHECK_EQ(size, 0);
    CHECK_TEXT(gale_tensor_string(t, 2, &size), "cd");
    CHECK_OK(gale_tensor_from_strings(SHAPE(4, 0), NULL, NULL, &none));
    CHECK(gale_tensor_string(none, 0, NULL) == NULL);
    CHECK_OK(gale_tensor_from_strings(0, NULL, &words[2], NULL, &one));
    CHECK_TEXT(gale_tensor_string(one, 0, NULL), "cdef");
    gale_tensor_destroy(&t), gale_tensor_destroy(&none), gale_tensor_destroy(&one);
}

TEST(strings_are_refused_where_numbers_belong)
{
    gale_tensor *t = NULL, *number = NULL;
    gale_graph *g = NULL;
    gale_value v;
    int64_t one = 1;
    CHECK_FAILS(gale_tensor_create(NULL, GALE_STRING, 1, &one, &t), UNSUPPORTED);
    CHECK_FAILS(gale_tensor_from_cpu(NULL, GALE_STRING, 1, &one, "a", &t), UNSUPPORTED);
    CHECK_FAILS(gale_tensor_create(NULL, GALE_TYPE_COUNT, 1, &one, &t), INVALID);
    CHECK_FAILS(gale_tensor_from_strings(SHAPE(INT64_MAX, 4), NULL, NULL, &t), LIMIT);
    CHECK_FAILS(
        gale_tensor_from_strings(SHAPE(2), (const char *const[]){"a", "b"}, (const size_t[]){SIZE_MAX - 40, 60}, &t),
        LIMIT);
    CHECK_OK(gale_graph_create(&g));
    CHECK_FAILS(gale_graph_constant(g, GALE_STRING, 1, &one, "a", &v), UNSUPPORTED);
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_I64, 1, &one, &one, &number));
    CHECK(gale_tensor_string(number, 0, NULL) == NULL);
    CHECK(t == NULL);
    gale_tensor_destroy(&number);
    gale_graph_destroy(&g);
}

TEST(strings_fail_cleanly)
{
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1;; n++) {
        gale_tensor *t = NULL;
        gale__alloc_fail_at(n);
        gale_status status = gale_tensor_from_strings(SHAPE(2), (const char *const[]){"a", "b"}, NULL, &t);
        gale__alloc_fail_at(0);
        if (status != GALE_OK) CHECK(t == NULL);
        gale_tensor_destroy(&t);
        CHECK_EQ(gale__alloc_live(), live);
        if (status == GALE_OK) break;
    }
}

/* --- Memory of somebody else. --- */

static int released;
static void release(void *owner) { released += *(int *)owner; }

TEST(borrowed_memory)
{
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    int owner = 1;
    float into[6] = {0};
    gale_tensor *t = NULL, *view = NULL, *copy = NULL;
    released = 0;
    if (!CHECK_OK(gale__tensor_borrow(GALE_F32, SHAPE(2, 3), data, release, &owner, &t))) return;
    CHECK(gale_tensor_data(t) == data);
    CHECK_OK(gale_tensor_reshape(t, SHAPE(6), &view));
    CHECK_OK(gale_tensor_to_device(t, NULL, &copy));
    CHECK(gale_tensor_data(copy) != data);
    gale_tensor_destroy(&t);
    CHECK_EQ(released, 0);
    CHECK_OK(gale_tensor_to_cpu(view, into, sizeof into));
    CHECK(!memcmp(into, data, sizeof data));
    gale_tensor_destroy(&view);
    CHECK_EQ(released, 1);
    gale_tensor_destroy(&copy);
    CHECK_EQ(released, 1);
    CHECK_FAILS(gale__tensor_borrow(GALE_STRING, SHAPE(2), data, release, &owner, &t), UNSUPPORTED);
    CHECK_FAILS(gale__tensor_borrow(GALE_F32, SHAPE(-2), data, release, &owner, &t), INVALID);
    CHECK_EQ(released, 1);
}

/* A file of `n` floats 0, 1, 2 ... behind three bytes, mapped. */
static const char *const path = "test_tensor.bin";
static bool map_floats(int n, gale__file_map *map)
{
    char *bytes = calloc((size_t)n + 1, sizeof(float));
    for (int i = 0; i < n; i++) memcpy(bytes + 3 + (size_t)i * sizeof(float), &(float){(float)i}, sizeof(float));
    bool ok = CHECK_OK(gale__file_write(path, bytes, 3 + (size_t)n * sizeof(float))) &&
              CHECK_OK(gale__file_map_open(path, map));
    free(bytes);
    return ok;
}

/* Large enough to be read by several threads. */
TEST(large_mapped_memory)
{
    enum { N = 3 << 20 };
    gale__file_map map;
    gale_tensor *t = NULL;
    float *into = malloc(N * sizeof *into);
    if (!map_floats(N, &map)) return;
    CHECK_OK(gale__tensor_borrow_map(GALE_F32, SHAPE(N), &map, 3, NULL, NULL, &t));
    if (CHECK_OK(gale_tensor_to_cpu(t, into, N * sizeof *into)))
        for (int i = 0; i < N; i += 997)
            if (!CHECK(into[i] == (float)i)) break;
    CHECK(truncate(path, N * 2) == 0);
    CHECK_FAILS(gale_tensor_to_cpu(t, into, N * sizeof *into), IO);
    CHECK(strstr(gale_error(), "was truncated while it was read") != NULL);
    gale_tensor_destroy(&t);
    gale__file_map_close(&map);
    gale__file_remove(path);
    free(into);
}

TEST(mapped_memory)
{
    gale__file_map map;
    int owner = 1;
    float into[1000];
    gale_tensor *t = NULL, *far = NULL;
    gale_device *cpu = NULL;
    released = 0;
    if (!map_floats(1000, &map)) return;
    CHECK_FAILS(gale__tensor_borrow_map(GALE_F32, SHAPE(1000), &map, 4, release, &owner, &t), INVALID);
    CHECK_OK(gale__tensor_borrow_map(GALE_F32, SHAPE(1000), &map, 3, release, &owner, &t));
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    CHECK(gale_tensor_data(t) == NULL);
    CHECK_OK(gale_tensor_to_cpu(t, into, sizeof into));
    CHECK(into[1] == 1 && into[999] == 999);
    CHECK_OK(gale_tensor_to_device(t, cpu, &far));
    CHECK(((const float *)gale_tensor_data(far))[998] == 998);
    gale_tensor_destroy(&far);
    CHECK(truncate(path, 100) == 0);
    CHECK_FAILS(gale_tensor_to_cpu(t, into, sizeof into), IO);
    CHECK_FAILS(gale_tensor_to_device(t, cpu, &far), IO);
    CHECK(strstr(gale_error(), "was truncated while it was read") != NULL);
    gale_tensor_destroy(&t);
    CHECK_EQ(released, 1);
    gale_device_close(&cpu);
    gale__file_map_close(&map);
    gale__file_remove(path);
}

TEST(mapped_inputs)
{
    gale__file_map map;
    gale_graph *g = NULL;
    gale_device *cpu = NULL;
    gale_program *p = NULL;
    gale_tensor *t = NULL, *y = NULL;
    gale_value x, z;
    if (!map_floats(1000, &map)) return;
    CHECK_OK(gale_graph_create(&g));
    CHECK_OK(gale_graph_input(g, "x", GALE_F32, SHAPE(1000), NULL, &x));
    CHECK_OK(gale_graph_op(g, "Neg", &x, 1, NULL, 0, &z, 1));
    CHECK_OK(gale_graph_output(g, "z", z));
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    CHECK_OK(gale_program_create(g, cpu, NULL, &p));
    CHECK_OK(gale__tensor_borrow_map(GALE_F32, SHAPE(1000), &map, 3, NULL, NULL, &t));
    if (CHECK_OK(gale_program_run(p, &t, &y, GALE_RUN_ON_HOST)))
        CHECK(((const float *)gale_tensor_data(y))[999] == -999);
    CHECK_FAILS(
        gale_program_run(p, &y, &t, GALE_RUN_ON_HOST), INVALID); /* results cannot be written to a mapped file */
    gale_tensor_destroy(&y);
    CHECK(truncate(path, 100) == 0);
    CHECK_FAILS(gale_program_run(p, &t, &y, GALE_RUN_ON_HOST), IO);
    CHECK(y == NULL);
    gale_tensor_destroy(&t);
    gale_program_destroy(&p);
    gale_graph_destroy(&g);
    gale_device_close(&cpu);
    gale__file_map_close(&map);
    gale__file_remove(path);
}

/* x + large + one + two, all constants in the file. */
TEST(mapped_constants)
{
    gale__file_map map;
    gale_graph *g = NULL;
    gale_device *cpu = NULL, *other = NULL;
    gale_program *p[2] = {NULL, NULL};
    gale_tensor *large = NULL, *small = NULL, *equal = NULL, *x = NULL, *y = NULL;
    gale_value v[4], sum;
    int owner = 1;
    enum { N = 100000 };
    released = 0;
    if (!map_floats(N, &map)) return;
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    CHECK_OK(gale__tensor_borrow_map(GALE_F32, SHAPE(N), &map, 3, release, &owner, &large));
    CHECK_OK(gale__tensor_borrow_map(GALE_F32, SHAPE(1), &map, 3 + 4 * sizeof(float), NULL, NULL, &small));
    CHECK_OK(gale__tensor_borrow_map(GALE_F32, SHAPE(2, 1), &map, 3 + 7 * sizeof(float), NULL, NULL, &equal));
    CHECK_OK(gale_graph_create(&g));
    CHECK_OK(gale_graph_input(g, "x", GALE_F32, SHAPE(N), NULL, &v[0]));
    CHECK_OK(gale_graph_constant_tensor(g, large, &v[1]));
    CHECK_OK(gale_graph_constant_tensor(g, small, &v[2]));
    CHECK_OK(gale_graph_constant_tensor(g, equal, &v[3]));
    gale_tensor_destroy(&large), gale_tensor_destroy(&small), gale_tensor_destroy(&equal);
    CHECK_EQ(released, 0);
    sum = v[0];
    for (int i = 1; i < 4; i++) CHECK_OK(gale_graph_op(g, "Add", (gale_value[]){sum, v[i]}, 2, NULL, 0, &sum, 1));
    CHECK_OK(gale_graph_output(g, "y", sum));
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(N), &x));
    memset(gale_tensor_data(x), 0, N * sizeof(float));
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &other)); /* which has no copy of them */
    CHECK_OK(gale_program_create(g, cpu, NULL, &p[0]));
    CHECK_OK(gale_program_create(g, other, NULL, &p[1]));
    if (CHECK_OK(gale_program_run(p[0], &x, &y, GALE_RUN_ON_HOST))) {
        CHECK(((const float *)gale_tensor_data(y))[N - 1] == N - 1 + 4 + 7);
        CHECK(((const float *)gale_tensor_data(y))[N + 5] == 5 + 4 + 8);
    }
    gale_tensor_destroy(&y);
    CHECK(truncate(path, 5000) == 0);
    CHECK_OK(gale_program_run(p[0], &x, &y, GALE_RUN_ON_HOST)); /* it has what it needs */
    gale_tensor_destroy(&y);
    CHECK_FAILS(gale_program_run(p[1], &x, &y, GALE_RUN_ON_HOST), IO);
    for (int i = 0; i < 2; i++) gale_program_destroy(&p[i]);
    gale_graph_destroy(&g);
    CHECK_EQ(released, 1);
    gale_tensor_destroy(&x);
    gale_device_close(&cpu), gale_device_close(&other);
    gale__file_map_close(&map);
    gale__file_remove(path);
}

/* A program over two weights of the file, made, run once and destroyed. */
static gale_status run_once(gale_device *cpu, const gale__file_map *map, gale_tensor *x)
{
    gale_graph *g = NULL;
    gale_program *p = NULL;
    gale_tensor *w[2] = {NULL, NULL}, *y = NULL;
    gale_value sum, v;
    gale_status status;
    GALE_GO(gale_graph_create(&g));
    GALE_GO(gale_graph_input(g, "x", GALE_F32, SHAPE(10000), NULL, &sum));
    for (int i = 0; i < 2; i++) {
        GALE_GO(gale__tensor_borrow_map(GALE_F32, SHAPE(10000), map, 3 + (uint64_t)i * 40000, NULL, NULL, &w[i]));
        GALE_GO(gale_graph_constant_tensor(g, w[i], &v));
        GALE_GO(gale_graph_op(g, "Add", (gale_value[]){sum, v}, 2, NULL, 0, &sum, 1));
    }
    GALE_GO(gale_graph_output(g, "y", sum));
    GALE_GO(gale_program_create(g, cpu, NULL, &p));
    GALE_GO(gale_program_run(p, &x, &y, GALE_RUN_ON_HOST));
    CHECK(((const float *)gale_tensor_data(y))[7] == 10014);
done:
    for (int i = 0; i < 2; i++) gale_tensor_destroy(&w[i]);
    gale_tensor_destroy(&y);
    gale_program_destroy(&p);
    gale_graph_destroy(&g);
    return status;
}

TEST(weights_fail_cleanly)
{
    gale__file_map map;
    gale_device *cpu = NULL;
    gale_tensor *x = NULL;
    gale_memory_stats stats;
    if (!map_floats(20000, &map)) return;
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(10000), &x));
    memset(gale_tensor_data(x), 0, 40000);
    CHECK_OK(run_once(cpu, &map, x)); /* what stays with the device and the process is there */
    gale_memory_trim(cpu);
    int64_t live = gale__alloc_live();
    for (int what = 0; what < 2; what++)
        for (uint64_t n = 1; n < 2000; n++) {
            if (what) gale__device_alloc_fail_at(n);
            else gale__alloc_fail_at(n);
            gale_status status = run_once(cpu, &map, x);
            uint64_t asked = what ? gale__device_alloc_count() : gale__alloc_count();
            gale__alloc_fail_at(0), gale__device_alloc_fail_at(0);
            CHECK(status == GALE_OK || status == GALE_NO_MEMORY);
            gale_memory_get_stats(cpu, &stats);
            CHECK_EQ(stats.in_use_bytes, 0);
            gale_memory_trim(cpu);
            if (!CHECK_EQ(gale__alloc_live(), live) || asked < n) break;
        }
    gale_tensor_destroy(&x);
    gale_device_close(&cpu);
    gale__file_map_close(&map);
    gale__file_remove(path);
}

TEST(constants_that_are_held)
{
    gale_graph *g = NULL;
    gale_device *cpu = NULL;
    gale_tensor *t = NULL;
    gale_value v;
    CHECK_OK(gale__device_open_one(&gale__backend_cpu, 0, NULL, &cpu));
    CHECK_OK(gale_graph_create(&g));
    CHECK_OK(gale_tensor_from_strings(SHAPE(1), (const char *const[]){"a"}, NULL, &t));
    CHECK_FAILS(gale_graph_constant_tensor(g, t, &v), UNSUPPORTED);
    gale_tensor_destroy(&t);
    CHECK_OK(gale_tensor_create(cpu, GALE_F32, SHAPE(2), &t));
    CHECK_FAILS(gale_graph_constant_tensor(g, t, &v), INVALID);
    gale_tensor_destroy(&t);
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(2), &t));
    CHECK_OK(gale_graph_constant_tensor(g, t, &v));
    CHECK(g->values[v].constant->host == t->host);
    gale_tensor_destroy(&t);
    gale_graph_destroy(&g);
    gale_device_close(&cpu);
}

TESTS(ROW(strings_are_kept), ROW(strings_hold_any_bytes), ROW(strings_are_refused_where_numbers_belong),
    ROW(strings_fail_cleanly), ROW(borrowed_memory), ROW(mapped_memory), ROW(large_mapped_memory), ROW(mapped_inputs),
    ROW(mapped_constants), ROW(weights_fail_cleanly), ROW(constants_that_are_held))
