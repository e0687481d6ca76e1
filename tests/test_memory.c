/* Memory of the caller's in runs, on every backend: wrapped host memory, buffers of the device, DLPack, and shapes of
 * outputs before there are any. */
#include "device_suite.h"
#include "gale/dlpack.h"
#include "graph/run/program.h"
#include "program_graphs.h"

enum { ROWS = 3 };

static gale_program *layer(void)
{
    gale_graph *graph = NULL;
    gale_program *p = NULL;
    if (CHECK_OK(pg_layer(&graph))) CHECK_OK(gale_program_create(graph, device, NULL, &p));
    gale_graph_destroy(&graph);
    return p;
}

static bool near(const float *a, const float *b, int n)
{
    for (int i = 0; i < n && computes; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f)) return false;
    return true;
}

static void count_release(void *owner) { ++*(int *)owner; }

static void memory_of_the_caller(void)
{
    float x[ROWS * PG_IN], y[ROWS * PG_OUT] = {0}, want[ROWS * PG_OUT];
    int released = 0;
    gale_program *p = layer();
    gale_tensor *in = NULL, *out = NULL, *view = NULL;
    pg_fill(x, ROWS * PG_IN, 9);
    pg_layer_want(x, ROWS, want);
    CHECK_OK(gale_tensor_wrap(GALE_F32, SHAPE(ROWS, PG_IN), x, GALE_TENSOR_READ_ONLY, count_release, &released, &in));
    CHECK_OK(gale_tensor_wrap(GALE_F32, SHAPE(ROWS, PG_OUT), y, 0, count_release, &released, &out));
    CHECK(gale_tensor_data(in) == x && gale_tensor_data(out) == y);
    gale_tensor *given = out;
    if (p && CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST)))
        CHECK(out == given && near(y, want, ROWS * PG_OUT));
    CHECK_OK(gale_tensor_reshape(out, SHAPE(PG_OUT, ROWS), &view));
    gale_tensor_destroy(&out);
    CHECK_EQ(released, 0); /* the view holds it */
    gale_tensor_destroy(&view);
    CHECK_EQ(released, 1);
    CHECK_OK(gale_tensor_wrap(GALE_F32, SHAPE(ROWS, PG_OUT), y, GALE_TENSOR_READ_ONLY, NULL, NULL, &out));
    if (p) CHECK_FAILS(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST), INVALID); /* only to be read */
    gale_tensor_destroy(&in), gale_tensor_destroy(&out);
    CHECK_EQ(released, 2);
    CHECK_FAILS(gale_tensor_wrap(GALE_F32, SHAPE(2), NULL, 0, count_release, &released, &in), INVALID);
    CHECK_FAILS(gale_tensor_wrap(GALE_F32, SHAPE(2), (char *)x + 1, 0, count_release, &released, &in), INVALID);
    CHECK_FAILS(gale_tensor_wrap(GALE_F32, SHAPE(-2), x, 0, count_release, &released, &in), INVALID);
    CHECK(released == 2 && !in);
    gale_program_destroy(&p);
}

static void buffers_of_the_device(void)
{
    float x[ROWS * PG_IN], y[ROWS * PG_OUT], want[ROWS * PG_OUT];
    gale_program *p = layer();
    gale_buffer *a = make(sizeof x), *b = make(sizeof y + 64);
    gale_tensor *in = NULL, *out = NULL, *large = NULL;
    pg_fill(x, ROWS * PG_IN, 9);
    pg_layer_want(x, ROWS, want);
    CHECK_OK(gale_upload(stream, a, 0, x, sizeof x));
    CHECK_OK(gale_stream_sync(stream));
    CHECK_OK(gale_tensor_from_buffer(a, GALE_F32, SHAPE(ROWS, PG_IN), &in));
    CHECK_OK(gale_tensor_from_buffer(b, GALE_F32, SHAPE(ROWS, PG_OUT), &out));
    CHECK_FAILS(gale_tensor_from_buffer(b, GALE_F32, SHAPE(1000), &large), INVALID);
    CHECK(gale_tensor_buffer(in) == a && gale_tensor_buffer(out) == b);
    gale_buffer_destroy(&a); /* the tensor holds it */
    if (p) CHECK_OK(gale_program_run(p, &in, &out, 0));
    CHECK_OK(gale_download(stream, b, 0, y, sizeof y));
    CHECK_OK(gale_stream_sync(stream));
    CHECK(near(y, want, ROWS * PG_OUT));
    gale_tensor_destroy(&in), gale_tensor_destroy(&out);
    gale_buffer_destroy(&b);
    gale_program_destroy(&p);
}

static void shapes_before_the_run(void)
{
    gale_program *p = layer();
    gale_tensor *x = NULL, *y = NULL;
    gale_type type = GALE_BOOL;
    int64_t dims[GALE_MAX_RANK];
    int rank = 0;
    CHECK_OK(gale_tensor_create(NULL, GALE_F32, SHAPE(17, PG_IN), &x));
    if (x) memset(gale_tensor_data(x), 0, gale_tensor_size_bytes(x));
    if (p && CHECK_OK(gale_program_output_shape(p, &x, 0, &type, &rank, dims)))
        CHECK(type == GALE_F32 && rank == 2 && dims[0] == 17 && dims[1] == PG_OUT);
    if (p && CHECK_OK(gale_tensor_create(NULL, type, rank, dims, &y)))
        CHECK_OK(gale_program_run(p, &x, &y, GALE_RUN_ON_HOST));
    if (p) CHECK_EQ(p->n_planned, 1);
    if (p) CHECK_FAILS(gale_program_output_shape(p, &x, 1, &type, &rank, dims), INVALID);
    gale_tensor_destroy(&x), gale_tensor_destroy(&y);
    gale_program_destroy(&p);
}

static int given_back;
static void give_back(gale_dlpack *self) { given_back += self->rank; }

static void dlpack(void)
{
    float x[6] = {1, 2, 3, 4, 5, 6};
    int64_t dims[2] = {2, 3}, dense[2] = {3, 1}, turned[2] = {1, 2};
    gale_tensor *t = NULL, *again = NULL;
    gale_dlpack *lent = NULL, mine = {.data = x,
                                  .device_type = 1,
                                  .rank = 2,
                                  .type_code = 2,
                                  .type_bits = 32,
                                  .type_lanes = 1,
                                  .dims = dims,
                                  .strides = turned,
                                  .release = give_back};
    CHECK_FAILS(gale_tensor_from_dlpack(&mine, 0, &t), UNSUPPORTED);
    mine.strides = dense;
    mine.device_type = 2;
    CHECK_FAILS(gale_tensor_from_dlpack(&mine, 0, &t), UNSUPPORTED);
    mine.device_type = 1;
    mine.type_bits = 33;
    CHECK_FAILS(gale_tensor_from_dlpack(&mine, 0, &t), UNSUPPORTED);
    mine.type_bits = 32;
    given_back = 0;
    if (!CHECK_OK(gale_tensor_from_dlpack(&mine, 0, &t))) return;
    CHECK(gale_tensor_data(t) == x && gale_tensor_rank(t) == 2 && gale_tensor_dims(t)[1] == 3);
    if (CHECK_OK(gale_tensor_to_dlpack(t, &lent))) {
        gale_tensor_destroy(&t);
        CHECK_EQ(given_back, 0); /* what was lent holds it */
        CHECK(lent->data == x && lent->rank == 2 && lent->dims[0] == 2 && lent->type_code == 2 && !lent->strides);
        if (CHECK_OK(gale_tensor_from_dlpack(lent, GALE_TENSOR_READ_ONLY, &again)))
            gale_tensor_destroy(&again); /* there and back */
    }
    CHECK_EQ(given_back, 2);
}

/* There and back without a copy, where other libraries can use the device's memory. */
static void dlpack_of_the_device(void)
{
    float x[6] = {1, 2, 3, 4, 5, 6}, got[6] = {0};
    int64_t dims[2] = {2, 3};
    gale_tensor *t = NULL, *again = NULL, *refused = NULL;
    gale_dlpack *lent = NULL;
    if (!CHECK_OK(gale_tensor_from_cpu(device, GALE_F32, 2, dims, x, &t))) return;
    bool seen = gale_tensor_data(t), shared = seen || device->backend->dlpack_type;
    CHECK_EQ(gale_tensor_to_dlpack(t, &lent), shared ? GALE_OK : GALE_UNSUPPORTED);
    if (lent) {
        CHECK(lent->device_type == (seen ? 1 : device->backend->dlpack_type));
        if (!seen) CHECK_FAILS(gale_tensor_from_dlpack(lent, 0, &refused), UNSUPPORTED);
        lent->device_id++;
        if (!seen) CHECK_FAILS(gale_tensor_from_dlpack_on(device, lent, 0, &refused), INVALID);
        lent->device_id--;
        lent->device_type += 50;
        CHECK_FAILS(gale_tensor_from_dlpack_on(device, lent, 0, &refused), UNSUPPORTED);
        lent->device_type -= 50;
        gale_tensor_destroy(&t); /* what was lent holds it */
        if (CHECK_OK(gale_tensor_from_dlpack_on(device, lent, GALE_TENSOR_READ_ONLY, &again))) {
            if (holds_data && CHECK_OK(gale_tensor_to_cpu(again, got, sizeof got))) CHECK(!memcmp(got, x, sizeof x));
            gale_graph *graph = NULL;
            gale_program *p = NULL;
            gale_tensor *in = again, *out = again;
            pg g = pg_begin();
            pg_output(&g, "y", OP1(&g, "Neg", pg_input(&g, "x", GALE_F32, SHAPE(2, 3), NULL)));
            if (CHECK_OK(pg_end(&g, &graph)) && CHECK_OK(gale_program_create(graph, device, NULL, &p))) {
                CHECK_FAILS(gale_program_run(p, &in, &out, 0), INVALID); /* read only */
                out = NULL;
                if (CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST)) && computes)
                    CHECK(((float *)gale_tensor_data(out))[5] == -6);
                gale_tensor_destroy(&out);
            }
            gale_program_destroy(&p);
            gale_graph_destroy(&graph);
        } else lent->release(lent);
    }
    gale_tensor_destroy(&again);
    gale_tensor_destroy(&t);
}

static const suite_case cases[] = {
    {"memory_of_the_caller", memory_of_the_caller},
    {"buffers_of_the_device", buffers_of_the_device},
    {"shapes_before_the_run", shapes_before_the_run},
    {"dlpack", dlpack},
    {"dlpack_of_the_device", dlpack_of_the_device},
    {0},
};
SUITE(cases)
