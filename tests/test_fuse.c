/* Fusion: how many kernels known patterns become, and that fused graphs compute what the reference does - on hand-made
 * graphs and on random ones. */
#include "graph_run.h"

static gale_device *device;

static gale__node sum_axis(gale__prim_graph *g, gale__node x, int axis)
{
    return gale__prim_reduce(g, GALE__SUM, x, 1u << axis, true);
}

static gale__node softmax(gale__prim_graph *g, gale__node x, int axis)
{
    gale__node e =
        gale__prim_unary(g, GALE__EXP, gale__prim_sub(g, x, gale__prim_reduce(g, GALE__RMAX, x, 1u << axis, true)));
    return gale__prim_div(g, e, sum_axis(g, e, axis));
}

static gale__node layer_norm(gale__prim_graph *g, gale__node x, gale__node scale, gale__node bias, int axis)
{
    gale__node n = gale__prim_scalar(g, GALE_F32, (double)gale__prim_at(g, x)->dims[axis]);
    gale__node d = gale__prim_sub(g, x, gale__prim_div(g, sum_axis(g, x, axis), n));
    gale__node v = gale__prim_div(g, sum_axis(g, gale__prim_mul(g, d, d), axis), n);
    gale__node r = gale__prim_div(
        g, d, gale__prim_unary(g, GALE__SQRT, gale__prim_add(g, v, gale__prim_scalar(g, GALE_F32, 1e-5))));
    return gale__prim_add(g, gale__prim_mul(g, r, scale), bias);
}

static gale__node gelu(gale__prim_graph *g, gale__node x)
{
    gale__node e =
        gale__prim_unary(g, GALE__ERF, gale__prim_mul(g, x, gale__prim_scalar(g, GALE_F32, 0.70710678118654752)));
    return gale__prim_mul(g, gale__prim_mul(g, x, gale__prim_scalar(g, GALE_F32, 0.5)),
        gale__prim_add(g, e, gale__prim_scalar(g, GALE_F32, 1)));
}

static gale__node relu(gale__prim_graph *g, gale__node x)
{
    return gale__prim_binary(g, GALE__MAX, x, gale__prim_scalar(g, GALE_F32, 0));
}

/* On a GPU small kernels become one after fusion. */
static void expect_kernels(int have, int want)
{
    if (!strcmp(gale_device_get_info(device)->backend, "cpu")) CHECK_EQ(have, want);
    else CHECK(have <= want);
}

static void expect(gr_graph *t, gale__node out, int kernels, double tolerance)
{
    gr_result r;
    if (gr_run(t, device, &out, 1, NULL, &r)) {
        if (kernels > 0) expect_kernels(r.kernels, kernels);
        if (!CHECK(r.difference <= tolerance)) printf("  difference %g\n", r.difference);
    }
    gr_end(t);
}

/* Levels of 8 bits by a scale for each column: kernels know of scales of ordinary size, which they may divide by with
 * the reciprocal, and of no others. */
TEST(sizes_of_scales_are_known)
{
    static const float scales[2][4] = {{0.5f, 0.1f, 3, 0.02f}, {0.5f, 1e-30f, 3, 0.02f}};
    const int64_t dims[1] = {4};
    for (int i = 0; i < 2; i++) {
        gr_graph t;
        gale__fusion f;
        gr_begin(&t);
        gale__node x = GR_INPUT(&t, 5, 4), by = gale__prim_const(&t.g, GALE_F32, 1, dims, scales[i]);
        gale__node level = gale__prim_unary(&t.g, GALE__RINT, gale__prim_div(&t.g, x, by)),
                   out = gale__prim_cast(&t.g, level, GALE_I8);
        const gale__fusion_options options = {.bytes = true};
        if (CHECK_OK(gale__fuse(&t.g, &out, 1, &options, &f)) && CHECK_EQ(f.n_kernels, 1)) {
            const gale__fused *k = &f.kernels[0];
            int known = 0;
            for (int b = 0; b < k->nest.n_buffers; b++) {
                known += k->nest.buffers[b].ordinary;
                CHECK(!k->nest.buffers[b].settled && !k->nest.buffers[b].constant); /* the planner says what is */
            }
            CHECK_EQ(known, !i);
        }
        gale__fusion_finish(&f);
        gr_end(&t);
    }
}

TEST(element_wise_chains_are_one_kernel)
{
    gr_graph t;
    gr_begin(&t);
    gale__node x = GR_INPUT(&t, 5, 7, 3), y = GR_INPUT(&t, 7, 3), z = GR_INPUT(&t, 5, 1, 1);
    expect(&t, gelu(&t.g, relu(&t.g, gale__prim_add(&t.g, gale__prim_mul(&t.g, x, y), z))), 1, 1e-5);
}

TEST(softmax_is_one_kernel)
{
    for (int axis = 0; axis < 3; axis++) {
        gr_graph t;
        gr_begin(&t);
        gale__node x = GR_INPUT(&t, 4, 6, 33);
        expect(&t, softmax(&t.g, x, axis), 1, 1e-5);
    }
}

TEST(log_sum_exp_is_one_kernel)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node x = GR_INPUT(&t, 9, 65);
    gale__node m = gale__prim_reduce(g, GALE__RMAX, x, 2, true);
    gale__node s = sum_axis(g, gale__prim_unary(g, GALE__EXP, gale__prim_sub(g, x, m)), 1);
    expect(&t, gale__prim_add(g, gale__prim_unary(g, GALE__LOG, s), m), 1, 1e-5);
}

TEST(layer_norm_is_one_kernel)
{
    gr_graph t;
    gr_begin(&t);
    gale__node x = GR_INPUT(&t, 3, 5, 64), s = GR_INPUT(&t, 64), b = GR_INPUT(&t, 64);
    expect(&t, layer_norm(&t.g, x, s, b, 2), 1, 1e-4);
}

TEST(group_norm_through_reshapes_is_one_kernel)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node x = GR_INPUT(&t, 2, 6, 4, 5);
    gale__node y = gale__prim_mul(g, x, x); /* an expression, so that the reshape is not a plain load */
    gale__node r = gale__prim_reshape(g, y, 3, (const int64_t[]){2, 3, 40});
    gale__node mean = gale__prim_div(g, sum_axis(g, r, 2), gale__prim_scalar(g, GALE_F32, 40));
    gale__node back = gale__prim_reshape(g, gale__prim_sub(g, r, mean), 4, (const int64_t[]){2, 6, 4, 5});
    expect(&t, back, 1, 1e-5);
}

TEST(batch_norm_statistics)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node x = GR_INPUT(&t, 4, 3, 5, 6);
    gale__node mean =
        gale__prim_div(g, gale__prim_reduce(g, GALE__SUM, x, 13, true), gale__prim_scalar(g, GALE_F32, 120));
    expect(&t, gale__prim_sub(g, x, mean), 1, 1e-5);
}

/* Reduced and spread again over the same extent: every place is written, though the value varies along none of what was
 * reduced. */
TEST(reductions_spread_over_their_own_axis)
{
    for (int axis = 0; axis < 3; axis++)
        for (int how = 0; how < 3; how++) {
            gr_graph t;
            gr_begin(&t);
            gale__prim_graph *g = &t.g;
            const int64_t dims[3] = {how == 2 ? 70 : 4, 6, 33}, split[4] = {dims[0], 2, 3, 33};
            gale__node x = GR_INPUT(&t, dims[0], 6, 33);
            gale__node y =
                gale__prim_expand(g, gale__prim_reduce(g, how ? GALE__SUM : GALE__RMAX, x, 1u << axis, true), 3, dims);
            if (how)
                y = relu(g, gale__prim_add(g, gale__prim_reshape(g, y, 4, split),
                                gale__prim_scalar(g, GALE_F32, 1))); /* spread beneath other work */
            expect(&t, y, 1, 1e-4);
        }
}

/* Two sums become one only where that counts everything as often as before. */
TEST(sums_of_sums)
{
    for (int how = 0; how < 4; how++) {
        gr_graph t;
        gr_begin(&t);
        gale__prim_graph *g = &t.g;
        gale__node x = GR_INPUT(&t, 6, 5, 4), rows = gale__prim_reduce(g, GALE__SUM, x, 1u << 2, false), y; /* [6, 5] */
        gale__node all = gale__prim_expand(g, sum_axis(g, rows, 1), 2, (const int64_t[]){6, 5});
        switch (how) {
        case 0: y = sum_axis(g, rows, 1); break;
        case 1:
            y = sum_axis(g,
                gale__prim_pad(g, rows, (const int64_t[]){0, 1}, (const int64_t[]){1, 2}, (const int64_t[]){0, 0}, 1.5),
                0);
            break;                                                         /* the padding has no four terms */
        case 2: y = gale__prim_reduce(g, GALE__PROD, all, 2, true); break; /* of five, not of twenty */
        default: y = sum_axis(g, gale__prim_mul(g, all, all), 1);
        }
        expect(&t, y, how ? 0 : 1, 1e-4);
    }
}

TEST(matmul_with_bias_and_activation_is_one_kernel)
{
    gr_graph t;
    gr_begin(&t);
    gale__node a = GR_INPUT(&t, 37, 29), b = GR_INPUT(&t, 29, 41), c = GR_INPUT(&t, 41);
    expect(&t, relu(&t.g, gale__prim_add(&t.g, gale__prim_matmul(&t.g, a, b), c)), 1, 1e-5);
}

TEST(batched_matmul_with_permutes_is_one_kernel)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    /* [2, 8, 3 * 4] as heads, times its transpose */
    gale__node x = GR_INPUT(&t, 2, 8, 12);
    gale__node h =
        gale__prim_permute(g, gale__prim_reshape(g, x, 4, (const int64_t[]){2, 8, 3, 4}), (const int[]){0, 2, 1, 3});
    gale__node s = gale__prim_matmul(g, h, gale__prim_permute(g, h, (const int[]){0, 1, 3, 2}));
    expect(&t, s, 1, 1e-5);
}

TEST(attention_is_three_kernels)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node q = GR_INPUT(&t, 2, 3, 16, 8), k = GR_INPUT(&t, 2, 3, 16, 8), v = GR_INPUT(&t, 2, 3, 16, 8);
    gale__node s = gale__prim_mul(g, gale__prim_matmul(g, q, gale__prim_permute(g, k, (const int[]){0, 1, 3, 2})),
        gale__prim_scalar(g, GALE_F32, 0.35));
    gale__node o = gale__prim_matmul(g, softmax(g, s, 3), v);
    o = gale__prim_reshape(g, gale__prim_permute(g, o, (const int[]){0, 2, 1, 3}), 3, (const int64_t[]){2, 16, 24});
    expect(&t, o, 3, 1e-5);
}

TEST(convolution_with_bias_is_one_kernel)
{
    static const gale__prim_conv_args variants[] = {
        {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
        {2, {2, 3}, {1, 2}, {1, 1}, {0, 2}, {1, 3}, 1},
        {2, {1, 2}, {2, 1}, {1, 1}, {1, 1}, {1, 0}, 2},
        {2, {1, 1}, {1, 1}, {2, 3}, {2, 1}, {1, 2}, 1},
        {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 4},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        gr_graph t;
        gr_begin(&t);
        gale__node x = GR_INPUT(&t, 2, 4, 9, 11), w = GR_INPUT(&t, 8, 4 / variants[i].groups, 3, 3),
                   b = GR_INPUT(&t, 8, 1, 1);
        gale__node y = gale__prim_add(&t.g, gale__prim_conv(&t.g, x, w, &variants[i]), b);
        expect(&t, relu(&t.g, y), 1, 1e-5);
    }
}

TEST(transposed_convolution)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_conv_args c = {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
                         whole = {2, {2, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1};
    gale__node x = GR_INPUT(&t, 1, 3, 5, 6), w = GR_INPUT(&t, 3, 4, 3, 3);
    expect(&t, gale__prim_conv_transpose(&t.g, x, w, &c, (const int64_t[]){9, 11}), 2,
        1e-5); /* the padding cuts across the phases: a copy */
    gr_begin(&t);
    x = GR_INPUT(&t, 2, 4, 15, 16), w = GR_INPUT(&t, 4, 6, 2, 2);
    expect(&t, relu(&t.g, gale__prim_conv_transpose(&t.g, x, w, &whole, (const int64_t[]){30, 32})), 1, 1e-5);
    gr_begin(&t); /* read twice, it is stored as others see it */
    gale__prim_conv_args point = {2, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1};
    x = GR_INPUT(&t, 1, 4, 5, 6), w = GR_INPUT(&t, 4, 3, 2, 2);
    gale__node y = gale__prim_conv_transpose(&t.g, x, w, &whole, (const int64_t[]){10, 12});
    expect(&t, gale__prim_add(&t.g, y, gale__prim_conv(&t.g, y, GR_INPUT(&t, 3, 3, 1, 1), &point)), 2, 1e-5);
}

TEST(pooling_is_one_kernel)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node x = GR_INPUT(&t, 2, 3, 8, 9);
    gale__node w =
        gale__prim_window(g, gale__prim_window(g, x, 3, 4, 3, 2, 1, -1, -INFINITY), 2, 4, 3, 2, 1, -1, -INFINITY);
    expect(&t, gale__prim_reduce(g, GALE__RMAX, w, 1u << 3 | 1u << 5, false), 1, 1e-6);
}

TEST(padding_an_expression_selects)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node x = GR_INPUT(&t, 4, 5);
    gale__node y = gale__prim_unary(g, GALE__EXP, x);
    expect(&t, gale__prim_pad(g, y, (const int64_t[]){1, 2}, (const int64_t[]){2, -1}, (const int64_t[]){1, 0}, 7.0), 1,
        1e-5);
}

TEST(reshapes_that_strides_cannot_express_go_through_memory)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node x = GR_INPUT(&t, 6, 4);
    gale__node y = gale__prim_permute(g,
        gale__prim_reshape(g, gale__prim_permute(g, x, (const int[]){1, 0}), 2, (const int64_t[]){8, 3}),
        (const int[]){1, 0});
    expect(&t, gale__prim_reshape(g, gale__prim_unary(g, GALE__NEG, y), 2, (const int64_t[]){4, 6}), 0, 1e-6);
}

/* Levels of a pyramid, each an output under another shape and read by the next: no copies between them. */
TEST(reshaped_outputs_are_not_copied)
{
    gr_graph t;
    gr_result r;
    gale__node out[4];
    gr_begin(&t);
    out[3] = GR_INPUT(&t, 8, 12);
    for (int i = 0, h = 4, w = 6; i < 2; i++, h /= 2, w /= 2) {
        gale__node cells = gale__prim_reshape(&t.g, i ? out[i - 1] : out[3], 4, (const int64_t[]){h, 2, w, 2});
        gale__node mean = gale__prim_div(&t.g, gale__prim_reduce(&t.g, GALE__SUM, cells, 1u << 1 | 1u << 3, true),
            gale__prim_scalar(&t.g, GALE_F32, 4));
        out[i] = gale__prim_reshape(&t.g, mean, 2, (const int64_t[]){h, w});
    }
    out[2] = gale__prim_reshape(&t.g, out[0], 1, (const int64_t[]){24}); /* the same memory again: copied */
    if (gr_run(&t, device, out, 4, NULL, &r)) {
        expect_kernels(r.kernels, 2);
        CHECK(r.difference <= 1e-6);
    }
    gr_end(&t);
}

TEST(concatenation_writes_each_piece_in_place)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node xs[3] = {GR_INPUT(&t, 2, 3, 4), GR_INPUT(&t, 2, 1, 4), GR_INPUT(&t, 2, 5, 4)};
    xs[1] = gelu(g, xs[1]);
    expect(&t, gale__prim_concat(g, 1, xs, 3), 3, 1e-5);
}

TEST(gather_folds_its_index)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node x = GR_INPUT(&t, 7, 5);
    gale__node i = gr_input(&t, GALE_I64, 2, (const int64_t[]){3, 2});
    expect(&t, relu(g, gale__prim_gather(g, x, i, 0)), 1, 1e-6);
}

TEST(scatter_sort_scan)
{
    for (int mode = -1; mode < 4; mode++) {
        gr_graph t;
        gr_begin(&t);
        gale__node x = GR_INPUT(&t, 20), i = gr_input(&t, GALE_I64, 1, (const int64_t[]){31}), u = GR_INPUT(&t, 31);
        i = gale__prim_add(&t.g, i, gale__prim_scalar(&t.g, GALE_I64, 4));
        expect(&t, gale__prim_put(&t.g, x, i, u, mode), 0, 1e-5);
        gr_begin(&t);
        x = GR_INPUT(&t, 3, 17, 2);
        expect(&t, gale__prim_scan(&t.g, (gale__reduce)(mode < 0 ? 0 : mode), x, 1, mode == 1, mode == 2), 0, 1e-5);
        gr_begin(&t);
        x = GR_INPUT(&t, 3, 70);
        expect(&t, gale__prim_sort(&t.g, x, 1, mode & 1), 0, 0);
    }
}

/* h' = tanh(x_t W + h U), stacked. */
TEST(loops_run_their_body)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        gr_graph t;
        gr_begin(&t);
        gale__prim_graph *body = gale__calloc(1, sizeof *body);
        gale__prim_init(body);
        gale__node h = gale__prim_input(body, 0, GALE_F32, 2, (const int64_t[]){2, 4}),
                   x = gale__prim_input(body, 1, GALE_F32, 2, (const int64_t[]){2, 3});
        gale__node w = gale__prim_input(body, 2, GALE_F32, 2, (const int64_t[]){3, 4}),
                   u = gale__prim_input(body, 3, GALE_F32, 2, (const int64_t[]){4, 4});
        gale__node next = gale__prim_unary(
            body, GALE__TANH, gale__prim_add(body, gale__prim_matmul(body, x, w), gale__prim_matmul(body, h, u)));
        gale__node out[2] = {next, gale__prim_mul(body, next, next)};
        gale__prim_loop_args loop = {.body = body,
            .trips = 5,
            .n_carried = 1,
            .n_sliced = 1,
            .n_constant = 2,
            .n_stacked = 1,
            .out = out,
            .reverse = reverse};
        gale__node in[4] = {GR_INPUT(&t, 2, 4), GR_INPUT(&t, 5, 2, 3), GR_INPUT(&t, 3, 4), GR_INPUT(&t, 4, 4)};
        gale__node l = gale__prim_loop(&t.g, &loop, in);
        gale__node outs[2] = {gale__prim_loop_out(&t.g, l, 0), gale__prim_loop_out(&t.g, l, 1)};
        gr_result r;
        if (gr_run(&t, device, outs, 2, NULL, &r)) CHECK(r.difference <= 1e-5);
        gr_end(&t);
    }
}

/* A constant of random numbers, and a chain of steps on it that all go through memory. */
static gale__node constant_of(gale__prim_graph *g, int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    float *data = gale__arena_alloc(&g->arena, (size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(4 * gr_unit() - 2);
    return gale__prim_const(g, GALE_F32, rank, dims, data);
}

static gale__node constant_chain(gale__prim_graph *g, int64_t n)
{
    gale__node x = constant_of(g, 1, &n);
    for (int i = 0; i < 3; i++) {
        x = gale__prim_add(
            g, gale__prim_take(g, x, gale__prim_sort(g, x, 0, i & 1)), gale__prim_scalar(g, GALE_F32, 0.25));
        x = gale__prim_mul(g, gale__prim_scan(g, GALE__SUM, x, 0, false, false), gale__prim_scalar(g, GALE_F32, 0.125));
    }
    return x;
}

/* Of all that the prologue computes, runs read only the ends of the chains: the rest is not kept. */
TEST(prologues_keep_what_runs_read)
{
    enum { N = 300 };
    gr_graph t;
    gale__plan *plan = NULL;
    gr_begin(&t);
    t.g.fold_max = 0;
    gale__node x = GR_INPUT(&t, N),
               y = gale__prim_add(&t.g, gale__prim_mul(&t.g, x, constant_chain(&t.g, N)), constant_chain(&t.g, N));
    if (CHECK_OK(t.g.status) && CHECK_OK(gale__plan_make(device, &t.g, &y, 1, NULL, &plan)))
        CHECK(plan->const_bytes <= 4 * 1280 + 3 * 256);
    gale__plan_destroy(&plan);
    gr_end(&t);
}

/* The sum at the end of a residual block takes the place of the term that it is the last to read. */
TEST(sums_take_the_place_of_a_term)
{
    enum { N = 64 };
    gr_graph t;
    gale__plan *plan = NULL;
    gr_begin(&t);
    gale__node y = GR_INPUT(&t, N, N), w = GR_INPUT(&t, N, N);
    y = relu(&t.g, y);
    for (int i = 0; i < 4; i++)
        y = gale__prim_add(&t.g, gale__prim_matmul(&t.g, relu(&t.g, gale__prim_matmul(&t.g, y, w)), w), y);
    if (!strcmp(device->info.backend, "cpu") && CHECK_OK(gale__plan_make(device, &t.g, &y, 1, NULL, &plan))) {
        uint64_t bytes = 0;
        for (int i = 0; i < plan->n_slabs; i++) bytes += plan->slabs[i];
        CHECK(bytes <= 2 * N * N * sizeof(float));
    }
    gale__plan_destroy(&plan);
    gr_end(&t);
}

/* What a gate's two kernels read after a product is stored as they read it, rather than computed again in each. */
TEST(shared_results_are_stored_last)
{
    gr_graph t;
    gr_begin(&t);
    gale__prim_graph *g = &t.g;
    gale__node x = GR_INPUT(&t, 24, 16), w = GR_INPUT(&t, 16, 40), bias = GR_INPUT(&t, 40),
               of_gate = GR_INPUT(&t, 40, 40);
    gale__node y = relu(g, gale__prim_add(g, gale__prim_matmul(g, x, w), bias));
    gale__node out = gale__prim_mul(g, y, gale__prim_matmul(g, sum_axis(g, y, 0), of_gate));
    const gale__fusion_options options = {.store_operands = true};
    gale__fusion f;
    if (CHECK_OK(gale__fuse(g, &out, 1, &options, &f))) CHECK(f.root[y] && !f.root[gale__prim_at(g, y)->in[0]]);
    gale__fusion_finish(&f);
    expect(&t, out, 0, 1e-3);
}

/* Two kernels read through the same places, which are computed in each rather than kept as a table of the results'
 * size. */
TEST(places_are_computed_again)
{
    gr_graph t;
    gale__plan *plan = NULL;
    for (int run = 0; run < 2; run++) {
        gr_begin(&t);
        gale__prim_graph *g = &t.g;
        int64_t dims[3] = {4, 80, 80}, rows[80];
        for (int i = 0; i < 80; i++) rows[i] = (int64_t)i * 37 % 40;
        gale__node table = gale__prim_const(g, GALE_I64, 1, &dims[1], rows),
                   at = gale__prim_mul(g, gale__prim_iota(g, 3, dims, 0), gale__prim_scalar(g, GALE_I64, 1600));
        at = gale__prim_add(g, at,
            gale__prim_mul(
                g, gale__prim_reshape(g, table, 3, (const int64_t[]){1, 80, 1}), gale__prim_scalar(g, GALE_I64, 40)));
        at = gale__prim_add(g, at, gale__prim_reshape(g, table, 3, (const int64_t[]){1, 1, 80}));
        gale__node x = GR_INPUT(&t, 6400), y = GR_INPUT(&t, 6400);
        gale__node outs[2] = {
            relu(g, gale__prim_take(g, x, at)), gale__prim_reduce(g, GALE__SUM, gale__prim_take(g, y, at), 4, true)};
        gr_result r;
        if (run == 0 && gr_run(&t, device, outs, 2, NULL, &r)) CHECK(r.kernels == 2 && r.difference <= 1e-5);
        if (run == 1 && CHECK_OK(gale__plan_make(device, g, outs, 2, NULL, &plan))) CHECK(plan->const_bytes <= 2048);
        gr_end(&t);
    }
    gale__plan_destroy(&plan);
}

/* The body has a prologue of its own, in the middle of its parent's. */
TEST(loops_with_prologues)
{
    gr_graph t;
    gr_begin(&t);
    t.g.fold_max = 0;
    gale__prim_graph *body = gale__calloc(1, sizeof *body);
    gale__prim_init(body);
    body->fold_max = 0;
    gale__node h = gale__prim_input(body, 0, GALE_F32, 1, (const int64_t[]){40}),
               next = gale__prim_add(body, gale__prim_mul(body, h, constant_chain(body, 40)), constant_chain(body, 40));
    gale__prim_loop_args loop = {.body = body, .trips = 3, .n_carried = 1, .out = &next};
    gale__node half[8], whole = gale__prim_scalar(&t.g, GALE_F32, 0), before;
    for (int i = 0; i < 8; i++) half[i] = constant_chain(&t.g, 40);
    before = gale__prim_mul(&t.g, GR_INPUT(&t, 40), constant_chain(&t.g, 40));
    gale__node l = gale__prim_loop_out(&t.g, gale__prim_loop(&t.g, &loop, &before), 0);
    for (int i = 0; i < 8; i++)
        whole = gale__prim_add(&t.g, whole, gale__prim_scan(&t.g, GALE__SUM, half[i], 0, false, false));
    gale__node outs[2] = {gale__prim_add(&t.g, l, whole), gale__prim_mul(&t.g, l, constant_chain(&t.g, 40))};
    gr_result r;
    if (gr_run(&t, device, outs, 2, NULL, &r)) CHECK(r.difference <= 1e-4);
    gr_end(&t);
}

/* Reductions of several axes, and what stands less often between them. */
static gale__node random_other(gale__prim_graph *g, gale__node x)
{
    int rank = gale__prim_at(g, x)->rank, axis = gr_below(rank);
    int64_t dims[GALE_MAX_RANK];
    memcpy(dims, gale__prim_at(g, x)->dims, sizeof dims); /* nodes move when one is added */
    uint32_t axes = 1u + (uint32_t)gr_below((1 << rank) - 1);
    gale__reduce kind = (gale__reduce)gr_below(4);
    switch (gr_below(8)) {
    case 0: return gale__prim_reduce(g, kind, x, axes, gr_below(2));
    case 1: return gale__prim_expand(g, gale__prim_reduce(g, kind, x, axes, true), rank, dims);
    case 2: return gale__prim_scan(g, GALE__SUM, x, axis, gr_below(2), gr_below(2));
    case 3:
        return dims[axis] ? gale__prim_gather(g, x, gale__prim_flip(g, gale__prim_iota(g, 1, &dims[axis], 0), 1), axis)
                          : x;
    case 4:
        return gale__prim_select(g, gale__prim_binary(g, GALE__GT, x, gale__prim_like(g, x, 0.1)),
            gale__prim_reduce(g, kind, x, 1u << axis, true), x);
    case 5:
        return gale__prim_concat(g, axis, (gale__node[]){gale__prim_reduce(g, GALE__SUM, x, 1u << axis, true), x}, 2);
    case 6:
        if (rank > 5) return x;
        memmove(dims + 1, dims, (size_t)rank * sizeof *dims);
        dims[0] = 1 + gr_below(3);
        return gale__prim_expand(g, x, rank + 1, dims);
    default: {
        if (axis + 1 >= rank || !dims[axis] || !dims[axis + 1]) return x;
        int64_t stride = 1 + gr_below(2), dilation = 1 + gr_below(2), offset = -gr_below(2);
        int64_t extent = (dims[axis] - 1) * stride + (dims[axis + 1] - 1) * dilation + 1 + offset + gr_below(2);
        return extent > 0
                   ? gale__prim_reduce(g, GALE__SUM, gale__prim_unwindow(g, x, axis, extent, stride, dilation, offset),
                         1u << (axis + 1), false)
                   : x;
    }
    }
}

/* A random node over what is there. */
static gale__node random_node(gale__prim_graph *g, gale__node *pool, int *n)
{
    gale__node x = pool[gr_below(*n)];
    const gale__prim_node *p = gale__prim_at(g, x);
    int64_t a[GALE_MAX_RANK], b[GALE_MAX_RANK], c[GALE_MAX_RANK];
    int perm[GALE_MAX_RANK], axis = p->rank ? gr_below(p->rank) : 0;
    static const gale__scalar unary[] = {GALE__NEG, GALE__ABS, GALE__TANH, GALE__FLOOR, GALE__SIN};
    static const gale__scalar binary[] = {GALE__ADD, GALE__SUB, GALE__MUL, GALE__MAX, GALE__MIN};
    switch (gr_below(p->rank ? 18 : 2)) {
    case 0: return gale__prim_unary(g, unary[gr_below(5)], x);
    case 1: return gale__prim_binary(g, binary[gr_below(5)], x, gale__prim_like(g, x, gr_unit()));
    case 2:
        for (int i = 0; i < *n; i++) {
            gale__node y = pool[(i + gr_below(*n)) % *n];
            if (gale__prim_same_shape(g, x, y)) return gale__prim_binary(g, binary[gr_below(5)], x, y);
        }
        return x;
    case 3:
        for (int i = 0; i < p->rank; i++) perm[i] = i;
        for (int i = p->rank - 1; i > 0; i--) {
            int k = gr_below(i + 1), s = perm[i];
            perm[i] = perm[k];
            perm[k] = s;
        }
        return gale__prim_permute(g, x, perm);
    case 4: /* split or merge an axis */
        if (p->rank > 1 && gr_below(2)) {
            int k = gr_below(p->rank - 1), r = 0;
            for (int i = 0; i < p->rank; i++)
                if (i == k) a[r++] = p->dims[i] * p->dims[i + 1], i++;
                else a[r++] = p->dims[i];
            return gale__prim_reshape(g, x, r, a);
        }
        for (int64_t f = 2; f <= 3; f++)
            if (p->dims[axis] % f == 0 && p->rank < 6 && p->dims[axis]) {
                int r = 0;
                for (int i = 0; i < p->rank; i++) {
                    if (i == axis) a[r++] = p->dims[i] / f, a[r++] = f;
                    else a[r++] = p->dims[i];
                }
                return gale__prim_reshape(g, x, r, a);
            }
        return x;
    case 5:
        for (int i = 0; i < p->rank; i++) {
            c[i] = p->dims[i] ? 1 + gr_below((int)p->dims[i]) : 0;
            bool down = gr_below(3) == 0;
            b[i] = down ? -1 : c[i] * 2 <= p->dims[i] + 1 && gr_below(2) ? 2 : 1;
            a[i] = down ? p->dims[i] - 1 : 0;
        }
        return gale__prim_slice(g, x, a, b, c);
    case 6:
        for (int i = 0; i < p->rank; i++)
            a[i] = gr_below(3) - (p->dims[i] > 2), b[i] = gr_below(3), c[i] = gr_below(4) == 0;
        return gale__prim_pad(g, x, a, b, c, gr_below(2) ? 0 : 1.5);
    case 7: return gale__prim_reduce(g, (gale__reduce)gr_below(4), x, 1u << axis, gr_below(2));
    case 8: { /* broadcast back what was reduced */
        gale__node r = gale__prim_reduce(g, gr_below(2) ? GALE__SUM : GALE__RMAX, x, 1u << axis, true);
        return gale__prim_sub(g, x, r);
    }
    case 9: {
        int64_t size = 1 + gr_below(3), stride = 1 + gr_below(2), d = 1 + gr_below(2), off = -gr_below(2);
        int64_t count = (p->dims[axis] - (size - 1) * d - 1 - off) / stride + 1;
        return p->rank < 6 && count > 0
                   ? gale__prim_window(g, x, axis, count, size, stride, d, off, gr_below(2) ? 0 : -0.5)
                   : x;
    }
    case 10:
        if (p->rank < 2 || p->dims[p->rank - 1] == 0) return x;
        for (int i = 0; i < p->rank; i++) perm[i] = i;
        perm[p->rank - 1] = p->rank - 2, perm[p->rank - 2] = p->rank - 1;
        return gale__prim_matmul(g, x, gale__prim_permute(g, x, perm));
    case 11: {
        gale__node xs[2] = {x, gale__prim_unary(g, GALE__NEG, x)};
        return gale__prim_concat(g, axis, xs, 2);
    }
    case 12: { /* and as it is */
        int rank = p->rank;
        for (int i = 0; i < rank; i++) a[i] = p->dims[i]; /* nodes move when one is added */
        return gale__prim_expand(
            g, gale__prim_reduce(g, gr_below(2) ? GALE__SUM : GALE__RMAX, x, 1u << axis, true), rank, a);
    }
    case 13: return softmax(g, x, axis);
    default: return random_other(g, x);
    }
}

static void random_graph(int seed, bool no_fusion, int layout)
{
    gr_graph t;
    gr_state = (uint64_t)seed * 7919 + 1;
    gr_begin(&t);
    gale__node pool[24];
    int n = 0;
    pool[n++] = GR_INPUT(&t, 1 + gr_below(4), 2 + gr_below(5), 1 + gr_below(6));
    t.g.fold_max = seed % 4 ? GALE__FOLD_MAX : 0; /* what hangs on the constant is then a prologue */
    pool[n++] = seed % 4 ? GR_INPUT(&t, 6, 4) : constant_of(&t.g, 2, (const int64_t[]){6, 4});
    int steps = 3 + gr_below(12);
    for (int i = 0; i < steps && n < 24; i++) {
        gale__node y = random_node(&t.g, pool, &n);
        if (!CHECK_OK(t.g.status)) break;
        if (gale__prim_elements(&t.g, y) <= 3000) pool[n++] = y;
    }
    gale__node outs[3] = {pool[n - 1], pool[n - 2], pool[gr_below(n)]};
    gale__fusion_options options = {.no_fusion = no_fusion, .layout = layout};
    gr_result r;
    bool ok = gr_run(&t, device, outs, 3, &options, &r);
    if (ok && !CHECK(r.difference <= 2e-4)) ok = false, printf("  difference %g\n", r.difference);
    if (!ok) printf("  random graph %d%s layout %d\n", seed, no_fusion ? " unfused" : "", layout);
    gr_end(&t);
}

TEST(random_graphs_agree_with_the_reference)
{
    int count = strcmp(gale_device_get_info(device)->backend, "cpu") == 0
                    ? 600
                    : 6; /* compilers of software devices are slow */
    for (int seed = 0; seed < count; seed++) random_graph(seed, seed % 7 == 3, seed % 3 == 1 ? 2 : 0);
}

int main(int argc, char **argv)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    options.chain = argc > 1 && strchr(argv[1], '=') ? strchr(argv[1], '=') + 1 : "cpu"; /* first word: provider=NAME */
    options.strict = true;
    if (argc > 1 && strchr(argv[1], '=')) argv[1] = argv[0], argv++, argc--;
    if (gale_device_open(&options, &device) != GALE_OK) {
        printf("SKIP %s: %s\n0 passed, 0 failed, 1 skipped\n", options.chain, gale_error());
        return 0;
    }
    static const test_row rows[] = {
        ROW(sizes_of_scales_are_known),
        ROW(element_wise_chains_are_one_kernel),
        ROW(softmax_is_one_kernel),
        ROW(log_sum_exp_is_one_kernel),
        ROW(layer_norm_is_one_kernel),
        ROW(group_norm_through_reshapes_is_one_kernel),
        ROW(batch_norm_statistics),
        ROW(reductions_spread_over_their_own_axis),
        ROW(sums_of_sums),
        ROW(matmul_with_bias_and_activation_is_one_kernel),
        ROW(batched_matmul_with_permutes_is_one_kernel),
        ROW(attention_is_three_kernels),
        ROW(shared_results_are_stored_last),
        ROW(convolution_with_bias_is_one_kernel),
        ROW(transposed_convolution),
        ROW(pooling_is_one_kernel),
        ROW(padding_an_expression_selects),
        ROW(reshapes_that_strides_cannot_express_go_through_memory),
        ROW(reshaped_outputs_are_not_copied),
        ROW(concatenation_writes_each_piece_in_place),
        ROW(gather_folds_its_index),
        ROW(scatter_sort_scan),
        ROW(loops_run_their_body),
        ROW(prologues_keep_what_runs_read),
        ROW(loops_with_prologues),
        ROW(sums_take_the_place_of_a_term),
        ROW(places_are_computed_again),
        ROW(random_graphs_agree_with_the_reference),
    };
    int status = test_main(rows, sizeof rows / sizeof *rows, argc, argv);
    gale_device_close(&device);
    return status;
}
