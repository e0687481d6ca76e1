/* Gradients of what networks are made of: products, norms, softmax, pooling and loops, by finite differences of first and second
 * order; the form that gradients of products take, which the fuser relies on; and gradients when memory runs out. */
#include "grad_check.h"

static gale__node mean(gale__g *g, gale__node x, uint32_t axes)
{
    double n = 1;
    for (int d = 0; d < gale__g_at(g, x)->rank; d++) if (axes >> d & 1) n *= (double)gale__g_at(g, x)->dims[d];
    return gale__g_mul(g, gale__g_reduce(g, GALE__SUM, x, axes, true), gale__g_scalar(g, GALE_F64, 1 / n));
}
static gale__node sum(gale__g *g, gale__node x, uint32_t axes) { return gale__g_reduce(g, GALE__SUM, x, axes, true); }

/* --- Softmax and norms. --- */

static gale__node softmax(gale__g *g, gale__node x, bool stop)
{
    uint32_t axis = 1u << (gale__g_at(g, x)->rank - 1);
    gale__node most = gale__g_reduce(g, GALE__RMAX, x, axis, true);
    if (stop) most = gale__g_stop_gradient(g, most);
    gale__node e = gale__g_unary(g, GALE__EXP, gale__g_sub(g, x, most));
    return gale__g_div(g, e, sum(g, e, axis));
}
static gale__node make_softmax(gale__g *g, const gale__node *x) { return softmax(g, x[0], false); }
static gale__node make_softmax_stop(gale__g *g, const gale__node *x) { return softmax(g, x[0], true); }

static gale__node make_cross_entropy(gale__g *g, const gale__node *x)
{
    gale__node z = gale__g_sub(g, x[0], gale__g_reduce(g, GALE__RMAX, x[0], 2, true));
    gale__node log_p = gale__g_sub(g, z, gale__g_unary(g, GALE__LOG, sum(g, gale__g_unary(g, GALE__EXP, z), 2)));
    gale__node label = gale__g_const(g, GALE_I64, DIMS(4), (int64_t[]){2, 0, 4 + 5, 1}), row = gale__g_iota(g, DIMS(4), 0);
    gale__node picked = gale__g_take(g, log_p, gale__g_add(g, label, gale__g_mul(g, row, gale__g_scalar(g, GALE_I64, 5))));
    return gale__g_unary(g, GALE__NEG, mean(g, picked, 1));
}

static gale__node normalize(gale__g *g, gale__node x, uint32_t axes, gale__node gain, gale__node bias)
{
    gale__node centred = gale__g_sub(g, x, mean(g, x, axes));
    gale__node spread = mean(g, gale__g_mul(g, centred, centred), axes);
    gale__node scale = gale__g_unary(g, GALE__SQRT, gale__g_add(g, spread, gale__g_scalar(g, GALE_F64, 1e-2)));
    return gale__g_add(g, gale__g_mul(g, gale__g_div(g, centred, scale), gain), bias);
}
static gale__node make_layer_norm(gale__g *g, const gale__node *x) { return normalize(g, x[0], 4, x[1], x[2]); }
static gale__node make_batch_norm(gale__g *g, const gale__node *x) { return normalize(g, x[0], 5, gale__g_unsqueeze(g, x[1], 2), gale__g_unsqueeze(g, x[2], 2)); }
static gale__node make_gelu(gale__g *g, const gale__node *x)
{
    gale__node half = gale__g_scalar(g, GALE_F64, 0.5), e = gale__g_unary(g, GALE__ERF, gale__g_mul(g, x[0], gale__g_scalar(g, GALE_F64, sqrt(0.5))));
    return gale__g_mul(g, gale__g_mul(g, x[0], half), gale__g_add(g, e, gale__g_scalar(g, GALE_F64, 1)));
}

TEST(norms)
{
    GRAD_CHECK({"softmax", make_softmax, -2, 2, {S(3, 5)}, 0}, {"softmax, stopped maximum", make_softmax_stop, -2, 2, {S(3, 5)}, 0},
        {"cross-entropy", make_cross_entropy, -2, 2, {S(4, 5)}, 0}, {"layer norm", make_layer_norm, -2, 2, {S(2, 3, 4), S(4), S(4)}, 0},
        {"batch norm", make_batch_norm, -2, 2, {S(2, 3, 4), S(3), S(3)}, 0}, {"gelu", make_gelu, -3, 3, {S(9)}, 0});
}

/* --- Products. --- */

static gale__node make_matmul(gale__g *g, const gale__node *x) { return gale__g_matmul(g, x[0], x[1]); }
static gale__node make_attention(gale__g *g, const gale__node *x)
{
    gale__node scores = gale__g_matmul(g, x[0], gale__g_permute(g, x[1], (int[]){0, 2, 1}));
    return gale__g_matmul(g, softmax(g, scores, true), x[2]);
}
static gale__node conv(gale__g *g, const gale__node *x, gale__conv c) { return gale__g_conv(g, x[0], x[1], &c); }
static gale__node make_conv1(gale__g *g, const gale__node *x) { return conv(g, x, (gale__conv){1, {2}, {2}, {1}, {3}, {1}, 1}); }
static gale__node make_conv2(gale__g *g, const gale__node *x) { return conv(g, x, (gale__conv){2, {2, 1}, {1, 2}, {1, 1}, {1, 2}, {1, -1}, 1}); }
static gale__node make_conv2_groups(gale__g *g, const gale__node *x) { return conv(g, x, (gale__conv){2, {1, 2}, {1, 1}, {2, 1}, {0, 1}, {1, 1}, 2}); }
static gale__node make_conv3(gale__g *g, const gale__node *x) { return conv(g, x, (gale__conv){3, {1, 2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 0, 0}, {0, 1, 0}, 1}); }
static gale__node make_depthwise(gale__g *g, const gale__node *x) { return conv(g, x, (gale__conv){1, {1}, {1}, {1}, {1}, {1}, 3}); }
static gale__node make_transposed(gale__g *g, const gale__node *x)
{
    gale__conv c = {2, {2, 1, 1}, {1, 2, 1}, {1, 1, 1}, {1, 0, 0}, {0, 0, 0}, 2};
    return gale__g_conv_transpose(g, x[0], x[1], &c, (int64_t[]){5, 6});
}

TEST(products)
{
    GRAD_CHECK({"matmul", make_matmul, -1, 1, {S(3, 4), S(4, 2)}, 0}, {"matmul, broadcast", make_matmul, -1, 1, {S(2, 1, 3, 4), S(3, 4, 2)}, 0},
        {"matmul, one matrix", make_matmul, -1, 1, {S(3, 2, 4), S(4, 2)}, 0}, {"attention", make_attention, -1, 1, {S(2, 3, 4), S(2, 5, 4), S(2, 5, 3)}, 0},
        {"conv 1d", make_conv1, -1, 1, {S(2, 3, 7), S(2, 3, 3)}, 0}, {"conv 2d", make_conv2, -1, 1, {S(2, 2, 5, 6), S(3, 2, 3, 2)}, 0},
        {"conv 2d, groups", make_conv2_groups, -1, 1, {S(1, 4, 3, 5), S(4, 2, 2, 3)}, 0}, {"conv 3d", make_conv3, -1, 1, {S(1, 2, 3, 3, 3), S(2, 2, 2, 2, 1)}, 0},
        {"depthwise", make_depthwise, -1, 1, {S(1, 3, 6), S(3, 1, 3)}, 0}, {"transposed conv", make_transposed, -1, 1, {S(1, 4, 3, 4), S(4, 1, 2, 2)}, 0});
}

/* --- Pooling, resizing, a small network. --- */

static gale__node windows(gale__g *g, gale__node x, double fill)
{
    x = gale__g_window(g, x, 3, 3, 3, 2, 1, -1, fill);
    x = gale__g_window(g, x, 2, 3, 2, 2, 1, 0, fill);
    return x; /* [N, C, oh, kh, ow, kw] */
}
static gale__node make_max_pool(gale__g *g, const gale__node *x) { return gale__g_reduce(g, GALE__RMAX, windows(g, x[0], -INFINITY), 1u << 3 | 1u << 5, false); }
static gale__node make_average_pool(gale__g *g, const gale__node *x)
{
    gale__node total = gale__g_reduce(g, GALE__SUM, windows(g, x[0], 0), 1u << 3 | 1u << 5, false);
    return gale__g_div(g, gale__g_mul(g, total, total), gale__g_reduce(g, GALE__SUM, windows(g, gale__g_like(g, x[0], 1), 0), 1u << 3 | 1u << 5, false));
}
static gale__node make_resize(gale__g *g, const gale__node *x)
{
    gale__node left = gale__g_gather(g, x[0], gale__g_const(g, GALE_I64, DIMS(5), (int64_t[]){0, 0, 1, 1, 2}), 1);
    gale__node right = gale__g_gather(g, x[0], gale__g_const(g, GALE_I64, DIMS(5), (int64_t[]){1, 1, 2, 2, 2}), 1);
    gale__node part = gale__g_const(g, GALE_F64, DIMS(5, 1), (double[]){0, 0.5, 0, 0.5, 0});
    return gale__g_unary(g, GALE__TANH, gale__g_add(g, left, gale__g_mul(g, gale__g_sub(g, right, left), part)));
}
static gale__node make_network(gale__g *g, const gale__node *x)
{
    gale__conv c = {2, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 0}, 1};
    gale__node h = gale__g_add(g, gale__g_conv(g, x[0], x[1], &c), gale__g_reshape(g, x[2], DIMS(1, 2, 1, 1)));
    h = gale__g_binary(g, GALE__MAX, h, gale__g_scalar(g, GALE_F64, 0));
    h = gale__g_reshape(g, gale__g_reduce(g, GALE__RMAX, gale__g_reshape(g, h, DIMS(2, 2, 2, 2, 2, 2)), 1u << 3 | 1u << 5, false), DIMS(2, 8));
    return gale__g_unary(g, GALE__LOG, softmax(g, gale__g_matmul(g, h, x[3]), false));
}

TEST(networks)
{
    GRAD_CHECK({"max pool", make_max_pool, -2, 2, {S(1, 2, 5, 5)}, 0}, {"average pool", make_average_pool, -2, 2, {S(1, 2, 5, 5)}, 0},
        {"resize", make_resize, -2, 2, {S(2, 3, 2)}, 0}, {"network", make_network, -1, 1, {S(2, 1, 4, 4), S(2, 1, 3, 3), S(2), S(8, 3)}, 0});
}

/* --- Loops. --- */

static gale__g *new_body(void)
{
    gale__g *body = gale__alloc(sizeof *body);
    if (body) gale__g_init(body);
    return body;
}

static gale__node add_loop(gale__g *g, gale__loop loop, const gale__node *inputs)
{
    gale__node n = gale__g_loop(g, &loop, inputs);
    if (n < 0) gale__g_finish(loop.body), gale__free(loop.body);
    return n;
}

/* An LSTM without biases: h, c carried; x[t] sliced; W [8, 3], R [8, 2] constant; h stacked. */
static gale__node lstm(gale__g *g, const gale__node *x, bool reverse)
{
    gale__g *b = new_body();
    if (!b) return gale__g_fail(g, GALE_NO_MEMORY, "no memory");
    gale__node h = gale__g_input(b, 0, GALE_F64, DIMS(2, 1)), c = gale__g_input(b, 1, GALE_F64, DIMS(2, 1)), xt = gale__g_input(b, 2, GALE_F64, DIMS(3, 1));
    gale__node w = gale__g_input(b, 3, GALE_F64, DIMS(8, 3)), r = gale__g_input(b, 4, GALE_F64, DIMS(8, 2)), gate[4];
    gale__node z = gale__g_add(b, gale__g_matmul(b, w, xt), gale__g_matmul(b, r, h)), one = gale__g_scalar(b, GALE_F64, 1);
    for (int i = 0; i < 4; i++) {
        gate[i] = gale__g_slice_axis(b, z, 0, 2 * i, 2);
        if (i == 3) gate[i] = gale__g_unary(b, GALE__TANH, gate[i]);
        else gate[i] = gale__g_div(b, one, gale__g_add(b, one, gale__g_unary(b, GALE__EXP, gale__g_unary(b, GALE__NEG, gate[i]))));
    }
    gale__node next_c = gale__g_add(b, gale__g_mul(b, gate[1], c), gale__g_mul(b, gate[0], gate[3]));
    gale__node next_h = gale__g_mul(b, gate[2], gale__g_unary(b, GALE__TANH, next_c));
    gale__node zero = gale__g_splat(g, GALE_F64, DIMS(2, 1), 0);
    gale__node loop = add_loop(g, (gale__loop){b, 4, 2, 1, 2, 1, (gale__node[]){next_h, next_c, next_h}, reverse}, (gale__node[]){x[3], zero, x[0], x[1], x[2]});
    gale__node all = gale__g_reshape(g, gale__g_loop_out(g, loop, 2), DIMS(8, 1));
    return gale__g_concat(g, 0, (gale__node[]){all, gale__g_loop_out(g, loop, 0), gale__g_loop_out(g, loop, 1)}, 3);
}
static gale__node make_lstm(gale__g *g, const gale__node *x) { return lstm(g, x, false); }
static gale__node make_lstm_reverse(gale__g *g, const gale__node *x) { return lstm(g, x, true); }

/* A step counter (integer) and a value that forgets its past; the final value of one and the stack of the other are read. */
static gale__node make_mixed(gale__g *g, const gale__node *x)
{
    gale__g *b = new_body();
    if (!b) return gale__g_fail(g, GALE_NO_MEMORY, "no memory");
    gale__node t = gale__g_input(b, 0, GALE_I64, DIMS(1)), y = gale__g_input(b, 1, GALE_F64, DIMS(2)), step = gale__g_input(b, 3, GALE_F64, DIMS(2));
    gale__node next_t = gale__g_add(b, t, gale__g_scalar(b, GALE_I64, 1)), at = gale__g_cast(b, next_t, GALE_F64);
    gale__node next_y = gale__g_add(b, gale__g_mul(b, y, gale__g_unary(b, GALE__SIN, step)), at), last = gale__g_mul(b, step, at);
    gale__node stack = gale__g_mul(b, next_y, step);
    gale__loop loop = {b, 3, 3, 1, 0, 2, (gale__node[]){next_t, next_y, last, stack, next_t}, false};
    gale__node n = add_loop(g, loop, (gale__node[]){gale__g_splat(g, GALE_I64, DIMS(1), 0), x[0], x[0], x[1]});
    gale__node out[3] = {gale__g_loop_out(g, n, 2), gale__g_reshape(g, gale__g_loop_out(g, n, 3), DIMS(6)), gale__g_cast(g, gale__g_reshape(g, gale__g_loop_out(g, n, 4), DIMS(3)), GALE_F64)};
    return gale__g_concat(g, 0, out, 3);
}

/* A loop in a loop: the inner one squares and adds the outer's slice. */
static gale__node make_nested(gale__g *g, const gale__node *x)
{
    gale__g *in = new_body(), *b = new_body();
    if (!in || !b) return gale__free(in), gale__free(b), gale__g_fail(g, GALE_NO_MEMORY, "no memory");
    gale__node u = gale__g_input(in, 0, GALE_F64, DIMS(2)), k = gale__g_input(in, 1, GALE_F64, DIMS(2));
    gale__node next = gale__g_add(in, gale__g_mul(in, gale__g_mul(in, u, u), gale__g_scalar(in, GALE_F64, 0.5)), k);
    gale__node y = gale__g_input(b, 0, GALE_F64, DIMS(2)), step = gale__g_input(b, 1, GALE_F64, DIMS(2)), w = gale__g_input(b, 2, GALE_F64, DIMS(2));
    gale__node inner = add_loop(b, (gale__loop){in, 2, 1, 0, 1, 0, &next, false}, (gale__node[]){y, step}), after = gale__g_mul(b, gale__g_loop_out(b, inner, 0), w);
    gale__node outer = add_loop(g, (gale__loop){b, 3, 1, 1, 1, 0, &after, false}, (gale__node[]){x[0], x[1], x[2]});
    return gale__g_loop_out(g, outer, 0);
}

TEST(loops)
{
    GRAD_CHECK({"lstm", make_lstm, -1, 1, {S(4, 3, 1), S(8, 3), S(8, 2), S(2, 1)}, 0}, {"lstm, reverse", make_lstm_reverse, -1, 1, {S(4, 3, 1), S(8, 3), S(8, 2), S(2, 1)}, 0},
        {"mixed", make_mixed, -1, 1, {S(2), S(3, 2)}, 0}, {"nested", make_nested, -1, 1, {S(2), S(3, 2), S(2)}, 0});
}

/* --- The form of products' gradients: one sum of one product, and only views around and between sums. --- */

typedef struct form { int sums, products, others, views; bool clean; } form;

/* Walks down from n; `between`: above the product, below a sum. */
static void walk(const gale__g *g, gale__node n, bool between, bool *seen, form *f)
{
    if (seen[n]) return;
    seen[n] = true;
    const gale__pnode *p = gale__g_at(g, n);
    bool view = p->op >= GALE__P_RESHAPE && p->op <= GALE__P_UNWINDOW, sum_ = p->op == GALE__P_REDUCE && p->attr[0] == GALE__SUM;
    f->sums += sum_;
    f->products += p->op == GALE__MUL;
    f->views += view;
    f->others += !view && !sum_ && p->op != GALE__MUL && p->op != GALE__P_INPUT;
    if (between && p->op == GALE__P_EXPAND) f->clean = false;
    for (int i = 0; i < p->n_in; i++) walk(g, p->in[i], (between || sum_) && p->op != GALE__MUL, seen, f);
}

static void check_form(grad_make *make, const grad_shape *shapes, int which, int sums)
{
    gale__g g;
    gale__g_init(&g);
    gale__node x[2], d = GALE__NIL;
    for (int i = 0; i < 2; i++) x[i] = gale__g_input(&g, i, GALE_F32, shapes[i].rank, shapes[i].dims);
    gale__node y = make(&g, x), seed = y < 0 ? GALE__NIL : gale__g_input(&g, 2, GALE_F32, gale__g_at(&g, y)->rank, gale__g_at(&g, y)->dims);
    if (CHECK_OK(gale__g_gradient_from(&g, &y, &seed, 1, &x[which], 1, &d))) {
        form f = {.clean = true};
        bool *seen = gale__calloc((size_t)g.count, sizeof *seen);
        if (seen) walk(&g, d, false, seen, &f);
        gale__free(seen);
        CHECK_EQ(f.sums, sums);
        CHECK_EQ(f.products, 1);
        CHECK_EQ(f.others, 0);
        CHECK(f.clean);
    }
    gale__g_finish(&g);
}

TEST(forms)
{
    check_form(make_matmul, (grad_shape[]){S(3, 4), S(4, 2)}, 0, 1);
    check_form(make_matmul, (grad_shape[]){S(3, 4), S(4, 2)}, 1, 1);
    check_form(make_matmul, (grad_shape[]){S(5, 3, 4), S(4, 2)}, 0, 1);
    check_form(make_matmul, (grad_shape[]){S(5, 3, 4), S(4, 2)}, 1, 1);
    const grad_shape one[] = {S(2, 3, 7), S(2, 3, 3)}, two[] = {S(2, 2, 5, 6), S(3, 2, 3, 2)}, three[] = {S(1, 2, 3, 5, 4), S(2, 2, 2, 2, 2)}, groups[] = {S(1, 4, 3, 5), S(4, 2, 2, 3)};
    check_form(make_conv1, one, 0, 2);
    check_form(make_conv1, one, 1, 1);
    check_form(make_conv2, two, 0, 2);
    check_form(make_conv2, two, 1, 1);
    check_form(make_conv3, three, 0, 2);
    check_form(make_conv3, three, 1, 1);
    check_form(make_conv2_groups, groups, 0, 2);
    check_form(make_conv2_groups, groups, 1, 1);
    check_form(make_transposed, (grad_shape[]){S(1, 4, 3, 4), S(4, 2, 2, 2)}, 0, 2);
    check_form(make_transposed, (grad_shape[]){S(1, 4, 3, 4), S(4, 2, 2, 2)}, 1, 1);
}

/* The forward loop runs once: its own node gets the stacks that the way back needs. */
TEST(loop_runs_once)
{
    gale__g g;
    gale__g_init(&g);
    gale__node x[4] = {gale__g_input(&g, 0, GALE_F64, DIMS(4, 3, 1)), gale__g_input(&g, 1, GALE_F64, DIMS(8, 3)), gale__g_input(&g, 2, GALE_F64, DIMS(8, 2)), gale__g_input(&g, 3, GALE_F64, DIMS(2, 1))}, d[4];
    gale__node y = make_lstm(&g, x), ones = gale__g_like(&g, y, 1);
    int loops = 0;
    CHECK_OK(gale__g_gradient_from(&g, &y, &ones, 1, x, 4, d));
    CHECK_OK(gale__g_gradient_from(&g, &y, &ones, 1, x, 4, d)); /* again: the same stacks */
    for (gale__node i = 0; i < g.count; i++) {
        const gale__pnode *p = gale__g_at(&g, i);
        if (p->op != GALE__P_LOOP) continue;
        if (loops++ == 0) CHECK_EQ(p->loop->n_stacked, 3); /* h after each step; h and c before */
        else CHECK(p->loop->reverse);
    }
    CHECK_EQ(loops, 3);
    gale__g_finish(&g);
}

TEST(no_memory)
{
    for (uint64_t n = 1; n < 2000; n++) {
        gale__g g;
        gale__g_init(&g);
        gale__alloc_fail_at(n);
        gale__node x[4] = {gale__g_input(&g, 0, GALE_F64, DIMS(4, 3, 1)), gale__g_input(&g, 1, GALE_F64, DIMS(8, 3)), gale__g_input(&g, 2, GALE_F64, DIMS(8, 2)), gale__g_input(&g, 3, GALE_F64, DIMS(2, 1))}, d[4];
        gale__node y = make_lstm(&g, x), ones = gale__g_splat(&g, GALE_F64, DIMS(12, 1), 1);
        gale_status status = g.status ? g.status : gale__g_gradient_from(&g, &y, &ones, 1, x, 4, d);
        bool over = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        if (status != GALE_OK) CHECK_EQ(status, GALE_NO_MEMORY);
        gale__g_finish(&g);
        if (!CHECK_EQ(gale__alloc_live(), 0) || (over && CHECK_OK(status))) break;
    }
}

TESTS(ROW(norms), ROW(products), ROW(networks), ROW(loops), ROW(forms), ROW(loop_runs_once), ROW(no_memory))
