/* With batch_invariant a row of a batch comes out the same, bit for bit, whatever the batch: on every backend, for
 * products, norms, convolutions and attention. */
#include "device_suite.h"
#include "program_graphs.h"

enum { MOST = 17, WIDE = 512, ELEMENTS = 8 * 20 * 20 };

static gale_status product(gale_graph **out)
{
    static float w[256 * WIDE];
    pg g = pg_begin();
    pg_fill(w, 256 * WIDE, 3);
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1, 256), NULL);
    pg_output(&g, "y", OP1(&g, "Tanh", OP2(&g, "MatMul", x, pg_constant(&g, GALE_F32, SHAPE(256, WIDE), w))));
    return pg_end(&g, out);
}

static gale_status norms(gale_graph **out)
{
    static float w[WIDE];
    pg g = pg_begin();
    pg_fill(w, WIDE, 4);
    gale_value in[2] = {pg_input(&g, "x", GALE_F32, SHAPE(-1, WIDE), NULL), pg_constant(&g, GALE_F32, SHAPE(WIDE), w)};
    pg_output(&g, "y", OP1(&g, "Softmax", pg_op(&g, "LayerNormalization", in, 2, NULL, 0)));
    return pg_end(&g, out);
}

static gale_status convolution(gale_graph **out)
{
    static const int64_t pads[4] = {1, 1, 1, 1};
    float w[16 * 8 * 9];
    pg g = pg_begin();
    pg_fill(w, 16 * 8 * 9, 5);
    gale_attr padded = GALE_INTS("pads", pads, 4);
    gale_value in[2] = {
        pg_input(&g, "x", GALE_F32, SHAPE(-1, 8, 20, 20), NULL), pg_constant(&g, GALE_F32, SHAPE(16, 8, 3, 3), w)};
    pg_output(&g, "y", OP1(&g, "GlobalAveragePool", OP1(&g, "Relu", pg_op(&g, "Conv", in, 2, &padded, 1))));
    return pg_end(&g, out);
}

static gale_status attention(gale_graph **out)
{
    static const int64_t turn[3] = {0, 2, 1};
    pg g = pg_begin();
    gale_value x = pg_input(&g, "x", GALE_F32, SHAPE(-1, 24, 64), NULL),
               t = OP1_WITH(&g, "Transpose", x, GALE_INTS("perm", turn, 3));
    pg_output(&g, "y", OP2(&g, "MatMul", OP1(&g, "Softmax", OP2(&g, "MatMul", x, t)), x));
    return pg_end(&g, out);
}

/* The CPU sums several items of a recurrent layer together, unless they must not depend on each other. */
static gale_status recurrent(gale_graph **out)
{
    static float w[4 * 32 * 24], r[4 * 32 * 32];
    pg g = pg_begin();
    pg_fill(w, 4 * 32 * 24, 8);
    pg_fill(r, 4 * 32 * 32, 9);
    gale_attr attrs[2] = {GALE_INT("hidden_size", 32), GALE_INT("layout", 1)};
    gale_value in[3] = {pg_input(&g, "x", GALE_F32, SHAPE(-1, 6, 24), NULL),
        pg_constant(&g, GALE_F32, SHAPE(1, 4 * 32, 24), w), pg_constant(&g, GALE_F32, SHAPE(1, 4 * 32, 32), r)};
    pg_output(&g, "y", pg_op(&g, "LSTM", in, 3, attrs, 2));
    return pg_end(&g, out);
}

static const struct {
    gale_status (*make)(gale_graph **out);
    int rank;
    int64_t dims[4];
} networks[] = {{product, 2, {0, 256}}, {norms, 2, {0, WIDE}}, {convolution, 4, {0, 8, 20, 20}},
    {attention, 3, {0, 24, 64}}, {recurrent, 3, {0, 6, 24}}};

/* The first row of batches of several sizes. */
static void check(gale_program *p, int rank, const int64_t *shape)
{
    static float x[MOST * ELEMENTS], first[WIDE * 8];
    static const int64_t batches[] = {1, 2, 5, 8, MOST};
    pg_fill(x, MOST * ELEMENTS, 7);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        int64_t dims[4];
        gale_tensor *in = NULL, *out = NULL;
        memcpy(dims, shape, sizeof dims);
        dims[0] = batches[i];
        if (CHECK_OK(gale_tensor_from_cpu(NULL, GALE_F32, rank, dims, x, &in)) &&
            CHECK_OK(gale_program_run(p, &in, &out, GALE_RUN_ON_HOST)) && computes) {
            size_t row = gale_tensor_size_bytes(out) / (size_t)batches[i];
            if (i == 0) memcpy(first, gale_tensor_data(out), row);
            CHECK(!memcmp(first, gale_tensor_data(out), row));
        }
        gale_tensor_destroy(&in);
        gale_tensor_destroy(&out);
    }
}

static void rows_do_not_depend_on_the_batch(void)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        gale_graph *graph = NULL;
        gale_program *p = NULL;
        if (CHECK_OK(networks[i].make(&graph)) &&
            CHECK_OK(gale_program_create(graph, device, &(gale_program_options){.batch_invariant = true}, &p)))
            check(p, networks[i].rank, networks[i].dims);
        gale_program_destroy(&p);
        gale_graph_destroy(&graph);
    }
}

static const suite_case cases[] = {{"rows_do_not_depend_on_the_batch", rows_do_not_depend_on_the_batch}, {0}};
SUITE(cases)
