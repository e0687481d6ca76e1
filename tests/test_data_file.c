/* Files of values: what is written comes back, what NumPy and zlib packed is unpacked, and what is cut, changed or of
 * the wrong shape is refused. */
#include "base/file.h"
#include "base/inflate.h"
#include "base/zip.h"
#include "jobs/model/data_file.h"
#include "jobs/model/data_picture.h"
#include "object_text.h"
#include "packed.h"
#include <unistd.h>

static char folder[] = "/tmp/gale-data-XXXXXX";
static bool made;

static const char *in_folder(const char *name)
{
    static char path[100];
    if (!made) made = mkdtemp(folder) != NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

TEST(inflates)
{
    char out[3000];
    size_t used = 0;
    CHECK_OK(gale__inflate(fixed_stream, sizeof fixed_stream, out, 45 * 40, &used));
    CHECK_EQ(used, sizeof fixed_stream);
    for (int i = 0; i < 40; i++)
        if (!CHECK(!memcmp(out + 45 * i, "the quick brown fox jumps over the lazy dog; ", 45))) break;
    CHECK_OK(gale__inflate(dynamic_stream, sizeof dynamic_stream, out, 3000, &used));
    CHECK_EQ(used, sizeof dynamic_stream);
    for (int i = 0; i < 3000; i++)
        if (!CHECK_EQ((uint8_t)out[i], i % 3 ? (i * i * 31 + i / 7) % 251 : 65 + i % 20)) break;
    CHECK_OK(gale__inflate("\x01\x03\x00\xfc\xff"
                           "abcX",
        9, out, 3, &used));
    CHECK(used == 8 && !memcmp(out, "abc", 3));
    CHECK_EQ(gale__crc32(gale__crc32(0, "1234", 4), "56789", 5), 0xcbf43926u);
}

/* A stream cut anywhere, told the wrong length, or changed in any byte neither reads nor writes outside; the sanitizers
 * watch. */
TEST(inflates_hostile)
{
    char *out = malloc(3000);
    uint8_t changed[sizeof dynamic_stream];
    for (size_t n = 0; n < sizeof dynamic_stream; n++) {
        uint8_t *cut = malloc(n + 1);
        memcpy(cut, dynamic_stream, n);
        CHECK_FAILS(gale__inflate(cut, n, out, 3000, NULL), FORMAT);
        free(cut);
        memcpy(changed, dynamic_stream, sizeof changed);
        changed[n] ^= (uint8_t)(1 << n % 8);
        gale_status status = gale__inflate(changed, sizeof changed, out, 3000, NULL);
        CHECK(status == GALE_OK || status == GALE_FORMAT);
    }
    CHECK_FAILS(gale__inflate(dynamic_stream, sizeof dynamic_stream, out, 2999, NULL), FORMAT);
    CHECK_FAILS(gale__inflate(fixed_stream, sizeof fixed_stream, out, 1801, NULL), FORMAT);
    CHECK_FAILS(gale__inflate("\x07", 1, out, 0, NULL), FORMAT);
    CHECK_FAILS(gale__inflate("\x01\x03\x00\xfd\xff"
                              "abc",
                    8, out, 3, NULL),
        FORMAT);
    free(out);
}

static const gale_model_value any_f32 = {
    .name = "x", .kind = GALE_OBJECT_TENSOR, .type = GALE_F32, .rank = 2, .dims = {20, -1}};

/* numpy.array(['é', 'ab\\0']) as S2 and as U2, whose trailing zeros are no part of it. */
TEST(reads_texts)
{
    static const char narrow[] = "{'descr': '|S2', 'fortran_order': False, 'shape': (2,), }\n"
                                 "\xc3\xa9"
                                 "a\0",
                      wide[] = "{'descr': '<U2', 'fortran_order': True, 'shape': (1, 2), }\n"
                               "\xe9\0\0\0\0\0\0\0"
                               "a\0\0\0b\0\0",
                      wrong[] = "{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }\n"
                                "\0\0\x11";
    const struct {
        const char *at;
        size_t size;
        const char *want;
    } files[] = {{narrow, sizeof narrow, "string[2] '\xc3\xa9' 'a'"},
        {wide, sizeof wide, "string[1,2] '\xc3\xa9' 'ab'"}, {wrong, sizeof wrong, NULL}};
    for (size_t i = 0; i < 3; i++) {
        gale__str s = {0};
        gale_object *x = NULL, *want = files[i].want ? numbers(files[i].want) : NULL;
        size_t header = (size_t)((const char *)memchr(files[i].at, '\n', files[i].size) - files[i].at) + 1;
        gale__str_add_n(&s, "\x93NUMPY\x01", 8);
        gale__str_add_n(&s, (char[]){(char)header, 0}, 2);
        gale__str_add_n(&s, files[i].at, files[i].size);
        CHECK_OK(gale__file_write(in_folder("t.npy"), s.text, s.length));
        gale_status status = gale__data_read(in_folder("t.npy"), &any_f32, &x);
        if (want) CHECK(CHECK_OK(status) && same_object(x, want));
        else CHECK_EQ(status, GALE_FORMAT);
        gale__str_finish(&s);
        gale_object_destroy(&x);
        gale_object_destroy(&want);
    }
}

TEST(reads_npz)
{
    gale_object *x = NULL;
    char path[120], entry[140];
    snprintf(path, sizeof path, "%s", in_folder("a.npz"));
    CHECK_OK(gale__file_write(path, numpy_npz, sizeof numpy_npz));
    if (CHECK_OK(gale__data_read(path, &any_f32, &x))) { /* by the input's name */
        CHECK(x->tensor->rank == 2 && x->tensor->dims[0] == 20 && x->tensor->dims[1] == 30 &&
              ((const float *)gale_tensor_data(x->tensor))[599] == 599);
        gale_object_destroy(&x);
    }
    snprintf(entry, sizeof entry, "%s:ids", path);
    if (CHECK_OK(gale__data_read(entry, &any_f32, &x))) {
        CHECK(x->tensor->type == GALE_I64 && ((const int64_t *)gale_tensor_data(x->tensor))[1] == -1);
        gale_object_destroy(&x);
    }
    snprintf(entry, sizeof entry, "%s:nobody", path);
    CHECK_FAILS(gale__data_read(entry, &any_f32, &x), NOT_FOUND);
    gale_model_value other = any_f32;
    other.name = "y";
    CHECK_FAILS(gale__data_read(path, &other, &x), NOT_FOUND);
    other.kind = GALE_OBJECT_SEQUENCE;
    if (CHECK_OK(gale__data_read(path, &other, &x))) CHECK_EQ(gale_object_count(x), 2);
    gale_object_destroy(&x);
}

TEST(npz_hostile)
{
    uint8_t changed[sizeof numpy_npz];
    char path[120];
    int64_t live = gale__alloc_live();
    snprintf(path, sizeof path, "%s", in_folder("b.npz"));
    for (size_t n = 0; n < sizeof numpy_npz; n += test_light() ? 37 : 3) {
        gale_object *x = NULL;
        CHECK_OK(gale__file_write(path, numpy_npz, n));
        CHECK(gale__data_read(path, &any_f32, &x) != GALE_OK);
        memcpy(changed, numpy_npz, sizeof changed);
        changed[n] ^= 0xff;
        CHECK_OK(gale__file_write(path, changed, sizeof changed));
        gale__data_read(path, &any_f32, &x);
        gale_object_destroy(&x);
    }
    CHECK_EQ(gale__alloc_live(), live);
}

/* --- Back and forth. --- */

static bool survives(const char *file, const char *value, gale_model_value want)
{
    gale_object *a = numbers(value), *b = NULL;
    char path[120];
    snprintf(path, sizeof path, "%s", in_folder(file));
    want.name = "arr_0";
    if (a->tensor && a->kind == GALE_OBJECT_TENSOR) want.type = a->tensor->type, want.rank = -1;
    if (a->kind == GALE_OBJECT_TENSOR && strstr(file, ".raw")) {
        want.rank = a->tensor->rank;
        memcpy(want.dims, a->tensor->dims, sizeof want.dims);
    }
    want.kind = a->kind == GALE_OBJECT_NONE ? GALE_OBJECT_TENSOR : a->kind;
    want.optional = a->kind == GALE_OBJECT_NONE;
    bool ok =
        CHECK_OK(gale__data_write(path, a)) && CHECK_OK(gale__data_read(path, &want, &b)) && CHECK(same_object(b, a));
    if (!ok) printf("    %s as %s\n", value, file);
    gale_object_destroy(&a);
    gale_object_destroy(&b);
    return ok;
}

TEST(back_and_forth)
{
    static const char *const files[] = {"v.npy", "v.npz", "v.pb", "v.json", "v.raw"};
    static const char *const tensors[] = {"f32[2,3] 1 -0.1 nan inf -inf 3e38", "f64[2] 0.1 1e-300",
        "i64[3] -9223372036854775808 9223372036854775807 5", "u64[1] 18446744073709551615", "bool[2] 1 0", "u8[2,0,3]",
        "f32[] 5", "f16[2] 0.5 65504", "i4[2] -8 7"};
    static const char *const others[] = {"string[2,1] 'a\"\\\n' '\xc3\xa9'", "{f32[1] 1 & f32[2,1] 2 3}", "{}",
        "(string[2] 'a' 'b' = f32[] 1 & f32[] 2)", "(i64[1] -7 = f32[] 1)", "none", "{string[1] 'x' & string[0]}"};
    gale_model_value want = {.type = GALE_F32, .rank = -1};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        for (size_t k = 0; k < sizeof files / sizeof *files; k++)
            if (k != 3 || strncmp(tensors[i], "u8[2,0", 6))
                survives(files[k], tensors[i], want); /* nested arrays cannot say [2, 0, 3] */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        want.type = strstr(others[i], "string[") && !strchr(others[i], '=') ? GALE_STRING : GALE_F32;
        survives("o.pb", others[i], want);
        survives("o.json", others[i], want);
    }
    survives("t.npy", "string[2,2] 'a' '' '\xc3\xa9\xf0\x9f\x98\x80' 'long one'", want);
    survives("t.npz", "{string[1] 'x' & string[2,0] & string[] 'y'}", want);
    survives("s.npz", "{f32[1] 1 & f32[2,1] 2 3}", want);
}

TEST(refused)
{
    gale_object *o = NULL, *map = numbers("(string[1] 'a' = f32[] 1)"), *strings = numbers("string[1] 'a'");
    gale_model_value want = {.name = "x", .kind = GALE_OBJECT_TENSOR, .type = GALE_F32, .rank = 2, .dims = {-1, 2}};
    static const struct {
        const char *text;
        gale_status status;
    } bad[] = {{"[[1, 2], [3]]", GALE_FORMAT}, {"[[1], [2, 3]]", GALE_FORMAT}, {"[1, [2]]", GALE_FORMAT},
        {"[[1], 2]", GALE_FORMAT}, {"[\"x\"]", GALE_FORMAT}, {"[null]", GALE_FORMAT}, {"{\"a\": 1}", GALE_FORMAT},
        {"[", GALE_FORMAT}, {"", GALE_FORMAT}, {"[[[[[[[[[[[[[1]]]]]]]]]]]]]", GALE_LIMIT}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_OK(gale__file_write(in_folder("r.json"), bad[i].text, strlen(bad[i].text)));
        if (!CHECK_EQ(gale__data_read(in_folder("r.json"), &want, &o), bad[i].status)) printf("    %s\n", bad[i].text);
    }
    want.type = GALE_I32;
    CHECK_OK(gale__file_write(in_folder("r.json"), "[1.5]", 5));
    CHECK_FAILS(gale__data_read(in_folder("r.json"), &want, &o), FORMAT);
    CHECK_OK(gale__file_write(in_folder("r.raw"), "123456789012", 12));
    CHECK_FAILS(gale__data_read(in_folder("r.raw"), &want, &o), FORMAT);
    CHECK_OK(gale__file_write(in_folder("r.raw"), "1234567890123456", 16));
    if (CHECK_OK(gale__data_read(in_folder("r.raw"), &want, &o))) CHECK_EQ(o->tensor->dims[0], 2);
    gale_object_destroy(&o);
    want.dims[1] = -1;
    CHECK_FAILS(gale__data_read(in_folder("r.raw"), &want, &o), INVALID);
    CHECK_FAILS(gale__data_read(in_folder("r.doc"), &want, &o), UNSUPPORTED);
    CHECK_FAILS(gale__data_write(in_folder("w.npy"), map), UNSUPPORTED);
    CHECK_FAILS(gale__data_write(in_folder("w.npz"), map), UNSUPPORTED);
    CHECK_FAILS(gale__data_write(in_folder("w.raw"), strings), UNSUPPORTED);
    CHECK_FAILS(gale__data_write(in_folder("w.png"), strings), UNSUPPORTED);
    gale_object_destroy(&map);
    gale_object_destroy(&strings);
}

/* Each allocation, and then each write, fails once. */
TEST(faults)
{
    static const char *const files[] = {"f.npy", "f.npz", "f.pb", "f.json"};
    gale_object *value = numbers("f32[2,2] 1 2 3 4");
    gale_model_value want = {.name = "arr_0", .kind = GALE_OBJECT_TENSOR, .type = GALE_F32, .rank = -1};
    char path[120];
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        int64_t live = gale__alloc_live();
        snprintf(path, sizeof path, "%s", in_folder(files[k]));
        for (uint64_t n = 1;; n++) {
            gale_object *back = NULL;
            gale__alloc_fail_at(n);
            gale_status status = gale__data_write(path, value);
            if (status == GALE_OK) status = gale__data_read(path, &want, &back);
            gale__alloc_fail_at(0);
            gale_object_destroy(&back);
            CHECK_EQ(gale__alloc_live(), live);
            if (status == GALE_OK || !CHECK_EQ(status, GALE_NO_MEMORY) || !CHECK(n < 1000)) break;
        }
        gale__file_fail_at(1);
        CHECK_FAILS(gale__data_write(path, value), IO);
        gale__file_fail_at(0);
    }
    gale_object_destroy(&value);
}

/* A picture gets the extents that the input fixes; what comes out gets those of the picture. */
TEST(pictures)
{
    gale_model_value v = {.name = "x", .kind = GALE_OBJECT_TENSOR, .type = GALE_F32, .rank = 4, .dims = {1, 1, 2, 2}};
    gale_picture *p = NULL;
    gale_object *o = NULL;
    char in[100], out[100];
    snprintf(in, sizeof in, "%s", in_folder("in.pgm"));
    snprintf(out, sizeof out, "%s", in_folder("out.pgm"));
    CHECK_OK(gale_picture_create(4, 4, 1, GALE_U8, &p));
    memcpy(p->data, "\0\0\377\377\0\0\377\377\377\377\0\0\377\377\0\0", 16);
    CHECK_OK(gale_picture_write(p, in, NULL));
    gale_picture_destroy(&p);
    for (uint64_t n = 0; n < 200; n++) { /* whole first, then with each allocation failing once */
        gale__alloc_fail_at(n);
        gale_status status = gale__picture_to_input(in, &v, &(gale_pixel_options){0}, &o);
        if (status == GALE_OK) status = gale__picture_from_output(out, o, &(gale_pixel_options){0}, 4, 4);
        bool reached = gale__alloc_count() >= n;
        gale__alloc_fail_at(0);
        const float *x = o ? gale_tensor_data(gale_object_get_tensor(o)) : NULL;
        if (x) CHECK(x[0] < 0.3f && x[1] > 0.7f && x[2] > 0.7f && x[3] < 0.3f);
        gale_object_destroy(&o);
        if (n) CHECK(status == GALE_OK || status == GALE_NO_MEMORY);
        else CHECK_OK(status);
        if (n && !reached) break;
    }
    if (CHECK_OK(gale_picture_read(out, NULL, &p)))
        CHECK(p->width == 4 && p->height == 4 && ((uint8_t *)p->data)[0] < 90 && ((uint8_t *)p->data)[3] > 165);
    gale_picture_destroy(&p);
    gale_tensor *t = NULL; /* two classes of a 2 x 1 picture: the larger counts */
    CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, 4, (int64_t[]){1, 2, 1, 2}, (float[]){0.9f, 0.2f, 0.1f, 0.8f}, &t));
    CHECK_OK(gale__onnx_object_take(&t, &o));
    CHECK(gale__picture_is_output(o));
    CHECK_OK(gale__picture_from_output(out, o, &(gale_pixel_options){0}, 0, 0));
    if (CHECK_OK(gale_picture_read(out, NULL, &p))) CHECK(p->width == 2 && !memcmp(p->data, "\0\377", 2));
    gale_picture_destroy(&p);
    gale_object_destroy(&o);
    CHECK_OK(gale__file_remove(in));
    CHECK_OK(gale__file_remove(out));
}

TEST(cleans_up)
{
    gale__file_info *list = NULL;
    size_t n = 0;
    if (!made || !CHECK_OK(gale__folder_list(folder, &list, &n))) return;
    for (size_t i = 0; i < n; i++) CHECK_OK(gale__file_remove(in_folder(list[i].name)));
    gale__folder_list_free(&list, n);
    CHECK_EQ(rmdir(folder), 0);
}

TESTS(ROW(inflates), ROW(inflates_hostile), ROW(reads_texts), ROW(reads_npz), ROW(npz_hostile), ROW(back_and_forth),
    ROW(refused), ROW(faults), ROW(pictures), ROW(cleans_up))
