/* The form that gradients of products take, which the fuser relies on; loops that run once; gradients when memory runs
 * out. */
#include "grad_cases.h"
#include "graph/grad/grad.h"

/* --- The form of products' gradients: one sum of one product, and only views around and between sums. --- */

typedef struct form {
    int sums, products, others, views;
    bool clean;
} form;

/* Walks down from n; `between`: above the product, below a sum. */
static void walk(const gale__prim_graph *g, gale__node n, bool between, bool *seen, form *f)
{
    if (seen[n]) return;
    seen[n] = true;
    const gale__prim_node *p = gale__prim_at(g, n);
    bool view = p->op >= GALE__PRIM_RESHAPE && p->op <= GALE__PRIM_UNWINDOW,
         sum_ = p->op == GALE__PRIM_REDUCE && p->attr[0] == GALE__SUM;
    f->sums += sum_;
    f->products += p->op == GALE__MUL;
    f->views += view;
    f->others += !view && !sum_ && p->op != GALE__MUL && p->op != GALE__PRIM_INPUT;
    if (between && p->op == GALE__PRIM_EXPAND) f->clean = false;
    for (int i = 0; i < p->n_in; i++) walk(g, p->in[i], (between || sum_) && p->op != GALE__MUL, seen, f);
}

static void check_form(grad_make *make, const grad_shape *shapes, int which, int sums)
{
    gale__prim_graph g;
    gale__prim_init(&g);
    gale__node x[2], d = GALE__NIL;
    for (int i = 0; i < 2; i++) x[i] = gale__prim_input(&g, i, GALE_F32, shapes[i].rank, shapes[i].dims);
    gale__node y = make(&g, x),
               seed = y < 0 ? GALE__NIL
                            : gale__prim_input(&g, 2, GALE_F32, gale__prim_at(&g, y)->rank, gale__prim_at(&g, y)->dims);
    if (CHECK_OK(gale__prim_gradient_from(&g, &y, &seed, 1, &x[which], 1, &d))) {
        form f = {.clean = true};
        bool *seen = gale__calloc((size_t)g.count, sizeof *seen);
        if (seen) walk(&g, d, false, seen, &f);
        gale__free(seen);
        CHECK_EQ(f.sums, sums);
        CHECK_EQ(f.products, 1);
        CHECK_EQ(f.others, 0);
        CHECK(f.clean);
    }
    gale__prim_finish(&g);
}

TEST(forms)
{
    check_form(make_matmul, (grad_shape[]){S(3, 4), S(4, 2)}, 0, 1);
    check_form(make_matmul, (grad_shape[]){S(3, 4), S(4, 2)}, 1, 1);
    check_form(make_matmul, (grad_shape[]){S(5, 3, 4), S(4, 2)}, 0, 1);
    check_form(make_matmul, (grad_shape[]){S(5, 3, 4), S(4, 2)}, 1, 1);
    const grad_shape one[] = {S(2, 3, 7), S(2, 3, 3)}, two[] = {S(2, 2, 5, 6), S(3, 2, 3, 2)},
                     three[] = {S(1, 2, 3, 5, 4), S(2, 2, 2, 2, 2)}, groups[] = {S(1, 4, 3, 5), S(4, 2, 2, 3)};
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
    gale__prim_graph g;
    gale__prim_init(&g);
    gale__node x[4] = {gale__prim_input(&g, 0, GALE_F64, DIMS(4, 3, 1)), gale__prim_input(&g, 1, GALE_F64, DIMS(8, 3)),
        gale__prim_input(&g, 2, GALE_F64, DIMS(8, 2)), gale__prim_input(&g, 3, GALE_F64, DIMS(2, 1))},
               d[4];
    gale__node y = make_lstm(&g, x), ones = gale__prim_like(&g, y, 1);
    int loops = 0;
    CHECK_OK(gale__prim_gradient_from(&g, &y, &ones, 1, x, 4, d));
    CHECK_OK(gale__prim_gradient_from(&g, &y, &ones, 1, x, 4, d)); /* again: the same stacks */
    for (gale__node i = 0; i < g.count; i++) {
        const gale__prim_node *p = gale__prim_at(&g, i);
        if (p->op != GALE__PRIM_LOOP) continue;
        if (loops++ == 0) CHECK_EQ(p->loop->n_stacked, 3); /* h after each step; h and c before */
        else CHECK(p->loop->reverse);
    }
    CHECK_EQ(loops, 3);
    gale__prim_finish(&g);
}

TEST(no_memory)
{
    for (uint64_t n = 1; n < 2000; n++) {
        gale__prim_graph g;
        gale__prim_init(&g);
        gale__alloc_fail_at(n);
        gale__node x[4] = {gale__prim_input(&g, 0, GALE_F64, DIMS(4, 3, 1)),
            gale__prim_input(&g, 1, GALE_F64, DIMS(8, 3)), gale__prim_input(&g, 2, GALE_F64, DIMS(8, 2)),
            gale__prim_input(&g, 3, GALE_F64, DIMS(2, 1))},
                   d[4];
        gale__node y = make_lstm(&g, x), ones = gale__prim_splat(&g, GALE_F64, DIMS(12, 1), 1);
        gale_status status = g.status ? g.status : gale__prim_gradient_from(&g, &y, &ones, 1, x, 4, d);
        bool over = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        if (status != GALE_OK) CHECK_EQ(status, GALE_NO_MEMORY);
        gale__prim_finish(&g);
        if (!CHECK_EQ(gale__alloc_live(), 0) || (over && CHECK_OK(status))) break;
    }
}

TESTS(ROW(forms), ROW(loop_runs_once), ROW(no_memory))
