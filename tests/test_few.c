/* Products of few rows by constants, which lie in panels before the first run: small ones of the plan's own and large
 * ones shared by plans, as given and turned, of sizes around those of panels; held against plain loops. */
#include "op_graph.h"
#include <math.h>

static gale_device *device;

static void check_product(int64_t m, int64_t k, int64_t n, bool turned)
{
    const int64_t dims_a[2] = {m, k}, dims_b[2] = {turned ? n : k, turned ? k : n};
    float *a = gale__alloc((size_t)(m * k) * sizeof *a), *b = gale__alloc((size_t)(k * n) * sizeof *b);
    gale_program *p = NULL;
    gale_tensor *y = NULL;
    og t;
    og_begin(&t);
    for (int64_t i = 0; i < m * k; i++) a[i] = og_random(&t) - 0.5f;
    for (int64_t i = 0; i < k * n; i++) b[i] = og_random(&t) - 0.5f;
    gale_value x = GALE_NONE, w = og_constant(&t, 2, dims_b, b);
    og_note(&t, gale_graph_input(t.graph, "x", GALE_F32, 2, dims_a, NULL, &x));
    og_note(&t, gale_tensor_from_cpu(NULL, GALE_F32, 2, dims_a, a, &t.inputs[t.n_inputs++]));
    og_output(&t, og_op1(&t, "Relu", og_op2(&t, "MatMul", x, turned ? OG_TRANSPOSE(&t, w, 1, 0) : w)));
    bool good = CHECK_OK(t.status) && CHECK_OK(gale_program_create(t.graph, device, NULL, &p)) &&
                CHECK_OK(gale_program_run(p, t.inputs, &y, GALE_RUN_ON_HOST));
    const float *have = good ? gale_tensor_data(y) : NULL;
    double worst = 0;
    for (int64_t i = 0; good && i < m * n; i++) {
        double sum = 0;
        for (int64_t s = 0; s < k; s++) sum += (double)a[i / n * k + s] * b[turned ? i % n * k + s : s * n + i % n];
        worst = fmax(worst, fabs((sum > 0 ? sum : 0) - have[i]));
    }
    if (!CHECK(worst < 1e-5 * (double)k))
        printf("  %lld x %lld x %lld: differs by %g\n", (long long)m, (long long)k, (long long)n, worst);
    gale_tensor_destroy(&y);
    gale_program_destroy(&p);
    og_end(&t);
    gale__free(a), gale__free(b);
}

TEST(few_rows)
{
    static const int64_t sizes[][2] = {{16, 16}, {17, 31}, {64, 64}, {40, 12}, {300, 33}, {129, 500}, {1000, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t m = 1; m < 6; m++)
            for (int turned = 0; turned < 2; turned++) check_product(m, sizes[i][0], sizes[i][1], turned);
}

/* Two kernels that read one constant in different panels, and an output that is the constant itself. */
TEST(shared_constants)
{
    enum { N = 24 };
    static const int64_t dims[2] = {N, N}, row[2] = {1, N};
    float w[N * N], x[N];
    gale_program *p = NULL;
    gale_tensor *y[3] = {0};
    og t;
    og_begin(&t);
    for (int i = 0; i < N * N; i++) w[i] = og_random(&t);
    for (int i = 0; i < N; i++) x[i] = og_random(&t);
    gale_value in = GALE_NONE, k = og_constant(&t, 2, dims, w);
    og_note(&t, gale_graph_input(t.graph, "x", GALE_F32, 2, row, NULL, &in));
    og_note(&t, gale_tensor_from_cpu(NULL, GALE_F32, 2, row, x, &t.inputs[t.n_inputs++]));
    og_output(&t, og_op2(&t, "MatMul", in, k));
    og_output(&t, og_op2(&t, "MatMul", in, OG_TRANSPOSE(&t, k, 1, 0)));
    og_output(&t, og_op2(&t, "Add", in, k));
    bool good = CHECK_OK(t.status) && CHECK_OK(gale_program_create(t.graph, device, NULL, &p));
    for (int run = 0; run < 2 && good; run++) {
        for (int i = 0; i < 3; i++) gale_tensor_destroy(&y[i]);
        good = CHECK_OK(gale_program_run(p, t.inputs, y, GALE_RUN_ON_HOST));
        const float *a = good ? gale_tensor_data(y[0]) : NULL, *b = good ? gale_tensor_data(y[1]) : NULL,
                    *c = good ? gale_tensor_data(y[2]) : NULL;
        for (int i = 0; good && i < N; i++) {
            double by_row = 0, by_column = 0;
            for (int s = 0; s < N; s++) by_column += (double)x[s] * w[s * N + i], by_row += (double)x[s] * w[i * N + s];
            CHECK(fabs(by_column - a[i]) < 1e-4 && fabs(by_row - b[i]) < 1e-4 && c[i * N] == x[0] + w[i * N]);
        }
    }
    for (int i = 0; i < 3; i++) gale_tensor_destroy(&y[i]);
    gale_program_destroy(&p);
    og_end(&t);
}

int main(int argc, char **argv)
{
    static const test_row rows[] = {ROW(few_rows), ROW(shared_constants)};
    return test_main_on("cpu", &device, rows, sizeof rows / sizeof *rows, argc, argv);
}
