/* Tensors on the host: strings, and memory that belongs to someone else. */
#include "graph/opgraph.h"
#include "graph/tensor.h"
#include "test.h"

#define SHAPE(...) (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}

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
    CHECK_FAILS(gale_tensor_from_strings(SHAPE(2), (const char *const[]){"a", "b"}, (const size_t[]){SIZE_MAX - 40, 60}, &t), LIMIT);
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

TESTS(ROW(strings_are_kept), ROW(strings_hold_any_bytes), ROW(strings_are_refused_where_numbers_belong), ROW(strings_fail_cleanly))
