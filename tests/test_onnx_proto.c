/* ONNX files: read, decoded, written.  The suite's files when they are there, byte strings by hand for the corners, and
 * damage of every kind: a file from outside may be anything, and the answer is an error or a tree that survives being
 * written. */
#include "../fuzz/seeds.h"
#include "base/num.h"
#include "graph/run/tensor.h"
#include "onnx_tree.h"
#include "test.h"
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/gale-onnx-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[4][256];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static gale_status parse(const char *bytes, size_t size, gale__pb_kind kind, gale__onnx **out)
{
    return gale__onnx_parse(bytes, size, true, NULL, kind, out);
}
#define PARSE(text, kind, out) parse(text, sizeof(text) - 1, GALE__PB_KIND_##kind, out)

/* A tensor from bytes, as numbers. */
static bool numbers(const char *bytes, size_t size, double *out, size_t n)
{
    gale__onnx *f = NULL;
    gale_tensor *t = NULL;
    bool ok = CHECK_OK(parse(bytes, size, GALE__PB_KIND_TENSOR, &f)) &&
              CHECK_OK(gale__onnx_tensor(f, gale__onnx_root(f), &t)) && CHECK_EQ(gale__tensor_elements(t), n);
    for (size_t i = 0; ok && i < n; i++)
        out[i] = gale__load_f64(t->type, (char *)t->host + i * gale_type_size(t->type));
    gale_tensor_destroy(&t);
    gale__onnx_close(&f);
    return ok;
}
#define NUMBERS(text, out, n) numbers(text, sizeof(text) - 1, out, n)

TEST(packed_and_not)
{
    double v[3];
    /* dims 2, float type, float_data: packed, then one by one, then both */
    if (NUMBERS("\x08\x02\x10\x01\x22\x08\0\0\x80\x3f\0\0\0\x40", v, 2)) CHECK(v[0] == 1 && v[1] == 2);
    if (NUMBERS("\x08\x02\x10\x01\x25\0\0\x80\x3f\x25\0\0\0\x40", v, 2)) CHECK(v[0] == 1 && v[1] == 2);
    if (NUMBERS("\x0a\x01\x03\x10\x01\x25\0\0\x80\x3f\x22\x08\0\0\0\x40\0\0\x40\x40", v, 3))
        CHECK(v[0] == 1 && v[1] == 2 && v[2] == 3);
    /* int64: packed -1 takes ten bytes */
    if (NUMBERS("\x08\x02\x10\x07\x3a\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05", v, 2))
        CHECK(v[0] == -1 && v[1] == 5);
    if (NUMBERS("\x08\x02\x10\x0c\x5a\x06\x01\xff\xff\xff\xff\x0f", v, 2)) CHECK(v[0] == 1 && v[1] == 4294967295.0);
}

TEST(narrow_types)
{
    double v[5];
    if (NUMBERS("\x08\x01\x10\x0a\x2a\x02\x80\x78", v, 1)) CHECK(v[0] == 1); /* f16 0x3c00 */
    if (NUMBERS("\x08\x01\x10\x10\x2a\x02\x80\x7f", v, 1)) CHECK(v[0] == 1); /* bf16 0x3f80 */
    if (NUMBERS("\x08\x03\x10\x09\x2a\x03\x00\x01\x07", v, 3)) CHECK(v[0] == 0 && v[1] == 1 && v[2] == 1);
    if (NUMBERS("\x08\x03\x10\x16\x4a\x02\xf1\x08", v, 3)) CHECK(v[0] == 1 && v[1] == -1 && v[2] == -8); /* i4, raw */
    if (NUMBERS("\x08\x03\x10\x15\x2a\x03\xf1\x01\x08", v, 3))
        CHECK(v[0] == 1 && v[1] == 15 && v[2] == 8); /* u4, list */
    if (NUMBERS("\x08\x05\x10\x1a\x4a\x02\xe4\x02", v, 5))
        CHECK(v[0] == 0 && v[1] == 1 && v[2] == -2 && v[3] == -1 && v[4] == -2);
    if (NUMBERS("\x08\x02\x10\x17\x4a\x01\x72", v, 2)) CHECK(v[0] == 1 && v[1] == 6); /* f4e2m1 */
    if (NUMBERS("\x08\x01\x10\x11\x4a\x01\x38", v, 1)) CHECK(v[0] == 1);              /* f8e4m3fn */
    /* f6e2m3, raw: 01, 3f, 09, 1f and 02 in 30 bits; f6e3m2, a list of one each */
    if (NUMBERS("\x08\x05\x10\x1b\x4a\x04\xc1\x9f\x7c\x02", v, 5))
        CHECK(v[0] == 0.125 && v[1] == -7.5 && v[2] == 1.125 && v[3] == 7.5 && v[4] == 0.25);
    if (NUMBERS("\x08\x03\x10\x1c\x2a\x03\x01\x3f\x0d", v, 3)) CHECK(v[0] == 0.0625 && v[1] == -28 && v[2] == 1.25);
    if (NUMBERS("\x08\x01\x10\x03\x2a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", v, 1)) CHECK(v[0] == -1);
    if (NUMBERS("\x10\x0b\x4a\x08\0\0\0\0\0\0\xf0\x3f", v, 1)) CHECK(v[0] == 1); /* rank 0 */
    CHECK(NUMBERS("\x08\x00\x10\x01", v, 0));
}

static gale_status tensor_status(const char *bytes, size_t size)
{
    gale__onnx *f = NULL;
    gale_tensor *t = NULL;
    gale_status status = parse(bytes, size, GALE__PB_KIND_TENSOR, &f);
    if (status == GALE_OK) status = gale__onnx_tensor(f, gale__onnx_root(f), &t);
    gale_tensor_destroy(&t);
    gale__onnx_close(&f);
    return status;
}
#define TENSOR_FAILS(text, status) CHECK_FAILS(tensor_status(text, sizeof(text) - 1), status)

TEST(data_must_fit)
{
    TENSOR_FAILS("\x08\x02\x10\x01\x4a\x04\0\0\0\0", FORMAT); /* four bytes for two floats */
    CHECK(strstr(gale_error(), "4 bytes of data instead of 8 for its 2 elements of f32"));
    TENSOR_FAILS("\x08\x02\x10\x01\x25\0\0\0\0", FORMAT);
    CHECK(strstr(gale_error(), "1 values in float_data instead of 2"));
    TENSOR_FAILS("\x08\x01\x10\x01\x4a\x05\0\0\0\0\0", FORMAT);
    TENSOR_FAILS("\x08\x02\x10\x01", FORMAT);
    TENSOR_FAILS("\x08\x02\x10\x0a\x2a\x04\x80\x78\x80\x80", FORMAT); /* a number cut off */
    TENSOR_FAILS("\x08\x01\x10\x0e", UNSUPPORTED);                    /* complex */
    TENSOR_FAILS("\x08\x01\x10\x00", FORMAT);
    TENSOR_FAILS("\x08\x01\x10\x63", FORMAT);
    TENSOR_FAILS("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01", INVALID);   /* -1 */
    TENSOR_FAILS("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40\x08\x10\x10\x01", LIMIT); /* 2^62 * 16 */
    TENSOR_FAILS("\x10\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08\x01\x08"
                 "\x01\x08\x01",
        LIMIT);
    TENSOR_FAILS("\x08\x01\x10\x08\x4a\x01z", FORMAT);                     /* raw strings */
    TENSOR_FAILS("\x08\x01\x10\x01\x1a\x00\x4a\x04\0\0\0\0", UNSUPPORTED); /* segment */
    TENSOR_FAILS("\x08\x01\x10\x01\x70\x01", FORMAT);                      /* external, nowhere */
}

TEST(wire_errors)
{
    gale__onnx *f = NULL;
    CHECK_FAILS(PARSE("\x08", MODEL, &f), FORMAT);
    CHECK_FAILS(PARSE("\x0d\0\0\0\0", MODEL, &f), FORMAT); /* ir_version as 32 bits */
    CHECK(strstr(gale_error(), "ir_version: not an ONNX file, or damaged: wire type 5 instead of 0"));
    CHECK_FAILS(
        PARSE("\x3a\x05\x0a\x03\x2a\x01\x08", MODEL, &f), FORMAT); /* graph.node[0].attribute[0]: a tag and no value */
    CHECK(strstr(gale_error(), "graph.node[0].attribute[0].name: not an ONNX file, or damaged: unexpected end"));
    CHECK_FAILS(PARSE("\x3a\x05\x0a\x09", MODEL, &f), FORMAT); /* a length beyond the end */
    CHECK_FAILS(PARSE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", MODEL, &f), FORMAT);
    CHECK_FAILS(PARSE("\x3b\x3c", MODEL, &f), UNSUPPORTED); /* a group */
    CHECK_FAILS(PARSE("\x3e", MODEL, &f), FORMAT);
    CHECK_FAILS(PARSE("\x00\x00", MODEL, &f), FORMAT);
    CHECK_FAILS(PARSE("\x22\x06\0\0\x80\x3f\0\0", TENSOR, &f), FORMAT); /* one and a half floats */
    CHECK_FAILS(PARSE("\x3a\x01\x80", TENSOR, &f), FORMAT);
    CHECK(f == NULL);
    if (CHECK_OK(PARSE("", MODEL, &f))) gale__onnx_close(&f);
}

TEST(merged)
{
    gale__onnx *f = NULL;
    /* two graphs become one: nodes of both, the last name */
    if (!CHECK_OK(PARSE("\x3a\x07\x0a\x02\x22\x00\x12\x01"
                        "a"
                        "\x08\x03\x3a\x08\x12\x01"
                        "b"
                        "\x0a\x03\x22\x01"
                        "X"
                        "\x08\x04",
            MODEL, &f)))
        return;
    gale__pb_model *m = gale__onnx_root(f);
    CHECK_EQ(m->ir_version, 4);
    CHECK_EQ(m->graph->node.n, 2);
    CHECK_TEXT(m->graph->name.at, "b");
    CHECK_TEXT(m->graph->node.at[1].op_type.at, "X");
    gale__onnx_close(&f);
    /* of a choice the last one stays */
    if (!CHECK_OK(PARSE("\x0a\x0c\x12\x0a\x0a\x08\x08\x05\x12\x01n\x1a\x01x", TYPE, &f))) return;
    gale__pb_dim *d = ((gale__pb_type *)gale__onnx_root(f))->tensor_type->shape->dim.at;
    CHECK(!d->has_value && d->dim_value == 0);
    CHECK_TEXT(d->dim_param.at, "n");
    gale__onnx_close(&f);
    if (!CHECK_OK(PARSE("\x0a\x00\x22\x00", TYPE, &f))) return;
    CHECK(!((gale__pb_type *)gale__onnx_root(f))->tensor_type && ((gale__pb_type *)gale__onnx_root(f))->sequence_type);
    gale__onnx_close(&f);
}

TEST(attribute_kinds_of_old)
{
    maker m;
    gale__str bytes = {0};
    gale__onnx *f = NULL;
    seed_old(&m);
    if (CHECK_OK(make_encode(&m, &bytes)) && CHECK_OK(parse(bytes.text, bytes.length, GALE__PB_KIND_MODEL, &f))) {
        gale__pb_model *model = gale__onnx_root(f);
        CHECK_EQ(model->graph->node.at[0].attribute.at[0].type, GALE__PB_INT);
        CHECK_EQ(model->graph->node.at[1].attribute.at[0].type, GALE__PB_FLOAT);
    }
    gale__onnx_close(&f);
    gale__str_finish(&bytes);
    make_end(&m);
}

/* Few bytes must not become much memory: lists of empty messages, nesting, lists that are merged again and again. */
TEST(bounded)
{
    gale__onnx *f = NULL;
    size_t n = 200000;
    char *bytes = malloc(n + 16);
    for (size_t i = 0; i < n; i += 2)
        memcpy(bytes + i, "\x2a\x00", 2); /* graph.initializer, empty: 150 times its size */
    gale__str s = {0};
    gale__str_add_n(&s, "\x3a\xc0\x9a\x0c", 4);
    gale__str_add_n(&s, bytes, n);
    CHECK_FAILS(parse(s.text, s.length, GALE__PB_KIND_MODEL, &f), LIMIT);
    s.length = 0;
    char nest[400];
    size_t depth = 0, at = sizeof nest; /* sequence_type.elem_type. ... from the inside out */
    while (depth < 90 && at > 8) {
        size_t size = sizeof nest - at;
        char head[3] = {depth % 2 ? '\x22' : '\x0a', (char)(size & 0x7f), (char)(size >> 7)};
        size_t k = 2;
        if (size >= 128) {
            head[1] = (char)(head[1] | 0x80);
            k = 3;
        }
        at -= k;
        memcpy(nest + at, head, k);
        depth++;
    }
    CHECK_FAILS(parse(nest + at + (depth % 2 ? 0 : 0), sizeof nest - at, GALE__PB_KIND_TYPE, &f), LIMIT);
    CHECK(strstr(gale_error(), "nested"));
    for (size_t i = 0; i + 9 <= n; i += 9)
        memcpy(bytes + i, "\x3a\x07\x0a\x05\x0a\x01x\x22\x00",
            9); /* graph again and again: each time the list is copied */
    CHECK_FAILS(parse(bytes, n / 9 * 9, GALE__PB_KIND_MODEL, &f), LIMIT);
    gale__str_finish(&s);
    free(bytes);
    CHECK_EQ(gale__alloc_live(), 0);
}

TEST(sparse)
{
    maker m;
    gale__str bytes = {0};
    gale__onnx *f = NULL;
    seed_sparse(&m);
    if (!CHECK_OK(make_encode(&m, &bytes)) || !CHECK_OK(parse(bytes.text, bytes.length, GALE__PB_KIND_MODEL, &f)))
        return;
    gale__pb_graph *g = ((gale__pb_model *)gale__onnx_root(f))->graph;
    for (int k = 0; k < 2; k++) {
        gale_tensor *t = NULL;
        if (!CHECK_OK(gale__onnx_sparse(f, &g->sparse_initializer.at[k], &t))) continue;
        float *v = gale_tensor_data(t);
        CHECK(t->rank == 2 && v[0] == 0 && v[1] == 1 && v[2] == 0 && v[3] == 0 && v[4] == 0 && v[5] == 2);
        gale_tensor_destroy(&t);
    }
    gale_tensor *t = NULL;
    gale__pb_sparse *s = &g->sparse_initializer.at[0];
    s->indices->int64_data.at[0] = 6;
    CHECK_FAILS(gale__onnx_sparse(f, s, &t), FORMAT);
    s->indices->int64_data.at[0] = -1;
    CHECK_FAILS(gale__onnx_sparse(f, s, &t), FORMAT);
    s->indices->int64_data.at[0] = 0;
    s->dims.at[0] = 1ll << 40;
    CHECK_FAILS(gale__onnx_sparse(f, s, &t), LIMIT);
    g->sparse_initializer.at[1].indices->int64_data.at[1] = 3;
    CHECK_FAILS(gale__onnx_sparse(f, &g->sparse_initializer.at[1], &t), FORMAT);
    s->dims.at[0] = 5 << 20; /* 60 MiB; any number of them must not be more than a little memory holds */
    gale_status status = GALE_OK;
    for (int k = 0; k < 20 && status == GALE_OK; k++) {
        status = gale__onnx_sparse(f, s, &t);
        gale_tensor_destroy(&t);
    }
    CHECK(status == GALE_LIMIT && strstr(gale_error(), "in total when dense"));
    gale__onnx_close(&f);
    gale__str_finish(&bytes);
    make_end(&m);
}

/* --- External data. --- */

static gale_status external_status(const char *location, const char *offset, const char *length)
{
    maker m;
    gale__str bytes = {0};
    gale__onnx *f = NULL;
    gale_tensor *t = NULL;
    seed_external(&m);
    gale__pb_tensor *w = &m.graph->initializer.at[0];
    w->external_data.at[0].value = make_text(&m, location);
    w->external_data.at[1].value = make_text(&m, offset);
    w->external_data.at[2].value = make_text(&m, length);
    if (!*length) w->external_data.n = 2;
    gale_status status = make_encode(&m, &bytes);
    if (status == GALE_OK) status = gale__file_write(in_folder("e.onnx"), bytes.text, bytes.length);
    if (status == GALE_OK) status = gale__onnx_open(in_folder("e.onnx"), GALE__PB_KIND_MODEL, &f);
    if (status == GALE_OK)
        status = gale__onnx_tensor(f, ((gale__pb_model *)gale__onnx_root(f))->graph->initializer.at, &t);
    if (status == GALE_OK) CHECK(((float *)gale_tensor_data(t))[0] == 1 && ((float *)gale_tensor_data(t))[1] == 2);
    gale_tensor_destroy(&t);
    gale__onnx_close(&f);
    gale__str_finish(&bytes);
    make_end(&m);
    return status;
}

TEST(external)
{
    static const float data[] = {9, 1, 2, 7};
    char link[300];
    CHECK_OK(gale__folder_make(in_folder("sub")));
    CHECK_OK(gale__file_write(in_folder("w.bin"), data, sizeof data));
    CHECK_OK(gale__file_write(in_folder("sub/w.bin"), data, sizeof data));
    CHECK_OK(external_status("w.bin", "4", "8"));
    CHECK_OK(external_status("w.bin", "4", ""));
    CHECK_OK(external_status("./sub/../w.bin", "4", "8"));
    CHECK_OK(external_status("sub/w.bin", "4", "8"));
    CHECK_FAILS(external_status("w.bin", "4", "9"), FORMAT);
    CHECK_FAILS(external_status("w.bin", "12", "8"), FORMAT);
    CHECK_FAILS(external_status("w.bin", "-4", "8"), FORMAT);
    CHECK_FAILS(external_status("w.bin", "4x", "8"), FORMAT);
    CHECK_FAILS(external_status("w.bin", "9223372036854775807", "8"), FORMAT);
    CHECK_FAILS(external_status("nowhere.bin", "4", "8"), NOT_FOUND);
    CHECK_FAILS(external_status("/etc/hosts", "4", "8"), INVALID);
    CHECK_FAILS(external_status("../x", "4", "8"), INVALID);
    CHECK_FAILS(external_status("sub/../../x", "4", "8"), INVALID);
    CHECK_FAILS(external_status("sub", "0", "8"), IO);
    CHECK_FAILS(external_status("", "0", "8"), FORMAT);
    snprintf(link, sizeof link, "%s", in_folder("out.bin"));
    if (CHECK_EQ(symlink("/etc/hosts", link), 0)) {
        CHECK_FAILS(external_status("out.bin", "4", "8"), INVALID);
        CHECK(strstr(gale_error(), "link to a file outside its folder"));
        unlink(link);
    }
    if (CHECK_EQ(symlink("sub/w.bin", link), 0)) CHECK_OK(external_status("out.bin", "4", "8"));
    CHECK_EQ(gale__alloc_live(), 0);
}

/* --- Files. --- */

static void make_big(maker *m, size_t n)
{
    char shape[32];
    seed_gemm(m);
    snprintf(shape, sizeof shape, "%zu", n);
    gale__pb_tensor *t = make_tensor(m, "big", 1, shape);
    float *v = make_room(m, n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = (float)i;
    t->raw_data = (gale__pb_text){(char *)v, n * sizeof *v};
    make_initializer(m, t);
    make_initializer(m, make_floats(m, "after", "1", v + 3, 1));
}

static gale__pb_tensor *tensor_named(gale__onnx *f, const char *name)
{
    gale__pb_graph *g = ((gale__pb_model *)gale__onnx_root(f))->graph;
    for (size_t i = 0; i < g->initializer.n; i++)
        if (!strcmp(g->initializer.at[i].name.at, name)) return &g->initializer.at[i];
    return NULL;
}

TEST(large_data_stays_in_the_file)
{
    enum { N = 100000 };
    maker m;
    gale__str bytes = {0};
    gale__onnx *f = NULL;
    gale_tensor *t = NULL;
    float *v = malloc(N * sizeof *v);
    make_big(&m, N);
    CHECK_OK(make_encode(&m, &bytes));
    CHECK_OK(gale__file_write(in_folder("big.onnx"), bytes.text, bytes.length));
    if (!CHECK_OK(gale__onnx_open(in_folder("big.onnx"), GALE__PB_KIND_MODEL, &f))) return;
    gale__pb_tensor *big = tensor_named(f, "big");
    CHECK(!big->raw_data.at && big->raw_data.size == N * 4 &&
          !memcmp(bytes.text + big->raw_offset, m.graph->initializer.at[2].raw_data.at, N * 4));
    CHECK(f->arena.total_bytes < 65536);
    CHECK(tensor_named(f, "after")->raw_data.at != NULL);
    CHECK_OK(gale__onnx_tensor(f, big, &t));
    gale__onnx_close(&f); /* the tensor holds it */
    if (CHECK_OK(gale_tensor_to_cpu(t, v, N * sizeof *v))) CHECK(v[0] == 0 && v[N - 1] == N - 1);
    CHECK_EQ(truncate(in_folder("big.onnx"), 1000), 0);
    CHECK_FAILS(gale_tensor_to_cpu(t, v, N * sizeof *v), IO);
    CHECK(strstr(gale_error(), "was truncated while it was read"));
    gale_tensor_destroy(&t);
    CHECK_FAILS(gale__onnx_open(in_folder("big.onnx"), GALE__PB_KIND_MODEL, &f), FORMAT);
    CHECK_FAILS(gale__onnx_open(in_folder("no.onnx"), GALE__PB_KIND_MODEL, &f), NOT_FOUND);
    CHECK_FAILS(gale__onnx_open(folder, GALE__PB_KIND_MODEL, &f), IO);
    gale__str_finish(&bytes);
    make_end(&m);
    free(v);
    CHECK_EQ(gale__alloc_live(), 0);
}

TEST(written_inside_and_outside)
{
    enum { N = 300000 };
    maker m;
    gale__str bytes = {0};
    gale__onnx *a = NULL, *b = NULL, *c = NULL;
    gale_tensor *t = NULL;
    float *v = malloc(N * sizeof *v);
    make_big(&m, N);
    CHECK_OK(make_encode(&m, &bytes));
    CHECK_OK(gale__file_write(in_folder("a.onnx"), bytes.text, bytes.length));
    CHECK_OK(gale__onnx_open(in_folder("a.onnx"), GALE__PB_KIND_MODEL, &a));
    CHECK_FAILS(gale__onnx_write(a, gale__onnx_root(a), in_folder("b.onnx"), "../b.bin"), INVALID);
    CHECK_FAILS(gale__onnx_write(a, gale__onnx_root(a), in_folder("b.onnx"), "b.onnx"), INVALID);
    CHECK_OK(gale__onnx_write(a, gale__onnx_root(a), in_folder("b.onnx"), "b.bin"));
    CHECK_OK(gale__onnx_open(in_folder("b.onnx"), GALE__PB_KIND_MODEL, &b));
    CHECK(b->source.size < 4096);
    gale__pb_tensor *big = tensor_named(b, "big");
    CHECK(gale__pb_is_external(big) && !gale__pb_is_external(tensor_named(b, "w")));
    CHECK_OK(gale__onnx_tensor(b, big, &t));
    if (CHECK_OK(gale_tensor_to_cpu(t, v, N * sizeof *v))) CHECK(v[0] == 0 && v[N - 1] == N - 1);
    gale_tensor_destroy(&t);
    CHECK_OK(gale__onnx_write(b, gale__onnx_root(b), in_folder("c.onnx"), NULL));
    gale__onnx_close(&b);
    CHECK_OK(gale__onnx_open(in_folder("c.onnx"), GALE__PB_KIND_MODEL, &c));
    gale__bytes whole = {0};
    CHECK_OK(gale__file_read(in_folder("c.onnx"), 0, &whole));
    CHECK(whole.size == bytes.length && !memcmp(whole.data, bytes.text, whole.size));
    CHECK_OK(gale__onnx_write(c, gale__onnx_root(c), in_folder("c.onnx"), NULL)); /* over itself */
    CHECK(tree_equal(a, c, GALE__PB_IS_model, a->root, c->root));
    for (uint64_t n = 1; n < 40; n++) { /* a full disk leaves the old file and nothing else */
        gale__file_fail_at(n);
        gale_status status = gale__onnx_write(a, gale__onnx_root(a), in_folder("b.onnx"), "b.bin");
        gale__file_fail_at(0);
        if (status == GALE_OK) break;
        CHECK_EQ(status, GALE_IO);
        CHECK(n < 39);
    }
    gale__file_info *list = NULL;
    size_t count = 0;
    CHECK_OK(gale__folder_list(folder, &list, &count));
    for (size_t i = 0; i < count; i++) CHECK(!strstr(list[i].name, ".tmp"));
    gale__folder_list_free(&list, count);
    gale__bytes_finish(&whole);
    gale__onnx_close(&a);
    gale__onnx_close(&c);
    gale__str_finish(&bytes);
    make_end(&m);
    free(v);
    CHECK_EQ(gale__alloc_live(), 0);
}

TEST(tensors_as_messages)
{
    static const int64_t dims[] = {3};
    for (int type = 0; type < GALE_TYPE_COUNT; type++) {
        static const char *const words[] = {"a", "", "c\0d"};
        static const size_t sizes[] = {1, 0, 3};
        static const uint8_t data[24] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
        gale__arena arena = {0};
        gale__pb_tensor m = {0};
        gale_tensor *t = NULL, *back = NULL;
        gale__onnx *none = NULL;
        CHECK_EQ(gale__onnx_type(gale__onnx_type_number((gale_type)type)), type);
        CHECK_OK(type == GALE_STRING ? gale_tensor_from_strings(1, dims, words, sizes, &t)
                                     : gale_tensor_from_cpu(NULL, (gale_type)type, 1, dims, data, &t));
        CHECK_OK(gale__onnx_from_tensor(&arena, t, "t", &m));
        CHECK_OK(parse("", 0, GALE__PB_KIND_TENSOR, &none));
        if (CHECK_OK(gale__onnx_tensor(none, &m, &back))) {
            CHECK(back->type == t->type && back->rank == 1 && back->dims[0] == 3);
            if (type != GALE_STRING) CHECK(!memcmp(back->host, t->host, t->size_bytes));
            else CHECK(!memcmp(gale_tensor_string(back, 2, NULL), "c\0d", 4));
        }
        gale_tensor_destroy(&t);
        gale_tensor_destroy(&back);
        gale__onnx_close(&none);
        gale__arena_finish(&arena);
    }
}

/* --- Damage. --- */

static gale_status survive(const char *bytes, size_t size)
{
    gale__onnx *f = NULL;
    gale__str out = {0};
    gale_status status = parse(bytes, size, GALE__PB_KIND_MODEL, &f);
    if (status == GALE_OK) {
        tree_decode(f);
        status = tree_round_trip(f, &out);
        CHECK_OK(status);
    }
    gale__str_finish(&out);
    gale__onnx_close(&f);
    return status;
}

TEST(seeds_round_trip)
{
    for (int i = 0; i < SEEDS; i++) {
        maker m;
        gale__str a = {0}, b = {0};
        gale__onnx *f = NULL;
        seeds[i].make(&m);
        if (CHECK_OK(make_encode(&m, &a)) && CHECK_OK(parse(a.text, a.length, GALE__PB_KIND_MODEL, &f))) {
            if (CHECK_OK(tree_round_trip(f, &b)) && strcmp(seeds[i].name, "old"))
                CHECK(a.length == b.length && !memcmp(a.text, b.text, a.length));
            tree_decoded d = tree_decode(f);
            if (d.bad != (strcmp(seeds[i].name, "external") == 0))
                printf("%s: %d tensors: %s\n", seeds[i].name, d.bad, gale_error()), test_bad++;
        }
        gale__onnx_close(&f);
        gale__str_finish(&a);
        gale__str_finish(&b);
        make_end(&m);
    }
}

TEST(cut_and_flipped)
{
    uint64_t random = 12345;
    for (int i = 0; i < SEEDS; i++) {
        maker m;
        gale__str a = {0};
        seeds[i].make(&m);
        CHECK_OK(make_encode(&m, &a));
        for (size_t n = 0; n < a.length; n += test_light() ? 17 : 1) {
            char *copy = malloc(n ? n : 1); /* exactly so large, for the sanitizer */
            memcpy(copy, a.text, n);
            survive(copy, n);
            free(copy);
        }
        for (int k = 0; k < (test_light() ? 50 : 600); k++) {
            char *copy = malloc(a.length);
            memcpy(copy, a.text, a.length);
            for (int flips = 1 + k % 3; flips--;) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                copy[(random >> 33) % a.length] ^= (char)(1 << (random >> 29 & 7));
            }
            survive(copy, a.length);
            free(copy);
        }
        gale__str_finish(&a);
        make_end(&m);
    }
    CHECK_EQ(gale__alloc_live(), 0);
}

/* A file as a whole: opened, decoded, written twice. */
static gale_status whole_life(const char *from)
{
    gale__onnx *f = NULL;
    gale__str bytes = {0};
    gale__arena arena = {0};
    gale_status status = gale__onnx_open(from, GALE__PB_KIND_MODEL, &f);
    if (status == GALE_OK) {
        gale__pb_graph *g = ((gale__pb_model *)gale__onnx_root(f))->graph;
        for (size_t i = 0; i < g->initializer.n && status == GALE_OK; i++) {
            gale_tensor *t = NULL;
            gale__pb_tensor m = {0};
            status = gale__onnx_tensor(f, &g->initializer.at[i], &t);
            if (status == GALE_OK) status = gale__onnx_from_tensor(&arena, t, "copy", &m);
            gale_tensor_destroy(&t);
        }
        for (size_t i = 0; i < g->sparse_initializer.n && status == GALE_OK; i++) {
            gale_tensor *t = NULL;
            status = gale__onnx_sparse(f, &g->sparse_initializer.at[i], &t);
            gale_tensor_destroy(&t);
        }
    }
    if (status == GALE_OK) status = gale__onnx_encode(f, GALE__PB_KIND_MODEL, gale__onnx_root(f), &bytes);
    if (status == GALE_OK) status = gale__onnx_write(f, gale__onnx_root(f), in_folder("life.onnx"), "life.bin");
    gale__str_finish(&bytes);
    gale__arena_finish(&arena);
    gale__onnx_close(&f);
    return status;
}

TEST(every_allocation_fails)
{
    static const char *const names[] = {
        "lists", "raw", "sparse", "attributes", "external", "strings", "large", "function"};
    static const float data[] = {9, 1, 2, 7};
    CHECK_OK(gale__file_write(in_folder("w.bin"), data, sizeof data));
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        maker m;
        gale__str a = {0};
        for (int i = 0; i < SEEDS; i++)
            if (!strcmp(seeds[i].name, names[k])) seeds[i].make(&m);
        CHECK_OK(make_encode(&m, &a));
        CHECK_OK(gale__file_write(in_folder("life-in.onnx"), a.text, a.length));
        gale__str_finish(&a);
        make_end(&m);
        if (!CHECK_OK(whole_life(in_folder("life-in.onnx")))) continue;
        gale_status status = GALE_NO_MEMORY;
        for (uint64_t n = 1; status != GALE_OK && n < 5000; n += test_light() ? 7 : 1) {
            gale__alloc_fail_at(n);
            status = whole_life(in_folder("life-in.onnx"));
            gale__alloc_fail_at(0);
            if (status != GALE_OK) CHECK_EQ(status, GALE_NO_MEMORY);
        }
        CHECK_OK(status);
        CHECK_EQ(gale__alloc_live(), 0);
    }
}

/* --- The suite. --- */

static struct {
    int files, tensors, same;
} seen;

static void look_at_file(const char *path, gale__pb_kind kind)
{
    gale__onnx *f = NULL;
    gale__str out = {0};
    gale__bytes whole = {0};
    if (!CHECK_OK(gale__onnx_open(path, kind, &f))) return;
    tree_decoded d = tree_decode(f);
    CHECK_EQ(d.bad, 0);
    if (d.bad) printf("%s: %s\n", path, gale_error());
    CHECK_OK(tree_round_trip(f, &out));
    if (CHECK_OK(gale__file_read(path, 0, &whole)))
        seen.same += whole.size == out.length && !memcmp(whole.data, gale__str_text(&out), whole.size);
    seen.files++;
    seen.tensors += d.good;
    gale__bytes_finish(&whole);
    gale__str_finish(&out);
    gale__onnx_close(&f);
}

static gale__pb_kind kind_of(const gale__pb_type *type)
{
    if (!type) return GALE__PB_KIND_TENSOR;
    return type->sequence_type   ? GALE__PB_KIND_SEQUENCE
           : type->map_type      ? GALE__PB_KIND_MAP
           : type->optional_type ? GALE__PB_KIND_OPTIONAL
                                 : GALE__PB_KIND_TENSOR;
}

static void look_at_values(const char *path, const char *word, const gale__pb_value_info *infos, size_t n)
{
    char name[1200];
    for (int set = 0; set < 8; set++)
        for (size_t i = 0; i < n; i++) {
            snprintf(name, sizeof name, "%s/test_data_set_%d/%s_%zu.pb", path, set, word, i);
            if (gale__file_exists(name)) look_at_file(name, kind_of(infos[i].type));
        }
}

static void look_at_folder(const char *path, int depth)
{
    gale__file_info *list = NULL;
    size_t n = 0;
    char name[1200];
    if (!CHECK_OK(gale__folder_list(path, &list, &n))) return;
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(list[i].name);
        snprintf(name, sizeof name, "%s/%s", path, list[i].name);
        if (list[i].folder && depth < 4) look_at_folder(name, depth + 1);
        if (length < 5 || strcmp(list[i].name + length - 5, ".onnx")) continue;
        gale__onnx *f = NULL;
        look_at_file(name, GALE__PB_KIND_MODEL);
        if (gale__onnx_open(name, GALE__PB_KIND_MODEL, &f)) continue;
        gale__pb_graph *g = ((gale__pb_model *)gale__onnx_root(f))->graph;
        look_at_values(path, "input", g->input.at, g->input.n);
        look_at_values(path, "output", g->output.at, g->output.n);
        gale__onnx_close(&f);
    }
    gale__folder_list_free(&list, n);
}

TEST(suite)
{
    const char *path = getenv("GALE_TEST_SUITE");
    if (!path || !*path) SKIP("GALE_TEST_SUITE does not name the unpacked ONNX backend suite");
    look_at_folder(path, 0);
    printf("%d files, %d tensors, %d files written byte for byte as they were\n", seen.files, seen.tensors, seen.same);
    CHECK(seen.files > 0);
    CHECK_EQ(seen.same, seen.files);
    CHECK_EQ(gale__alloc_live(), 0);
}

TEST(folder_is_removed)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK_EQ(system(command), 0);
}

static const test_row rows[] = {ROW(packed_and_not), ROW(narrow_types), ROW(data_must_fit), ROW(wire_errors),
    ROW(merged), ROW(attribute_kinds_of_old), ROW(bounded), ROW(sparse), ROW(external),
    ROW(large_data_stays_in_the_file), ROW(written_inside_and_outside), ROW(tensors_as_messages), ROW(seeds_round_trip),
    ROW(cut_and_flipped), ROW(every_allocation_fails), ROW(suite), ROW(folder_is_removed)};

int main(int argc, char **argv)
{
    if (!mkdtemp(folder)) return 2;
    return test_main(rows, sizeof rows / sizeof *rows, argc, argv);
}
