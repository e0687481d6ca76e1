/* Canonical form, cost and pattern of loop nests. */
#include "test.h"
#include "base/num.h"
#include "base/thread.h"
#include "kernel/nest/nest.h"

/* c[b, m, n] = sum over k of a[b, m, k] * b[k, n], with extents of 1 strewn in and dimensions out of order. */
typedef struct product {
    gale__nest nest;
    gale__nest_instr code[4];
    gale__nest_access accesses[3];
    gale__nest_store store;
    gale__nest_buffer buffers[3];
} product;

static void make_product(product *p, int64_t b, int64_t m, int64_t n, int64_t k)
{
    *p = (product){.nest = {.n_outer = 4, .n_inner = 1, .extent = {n, 1, b, m, k}}};
    p->code[0] = (gale__nest_instr){.op = GALE__NEST_LOAD, .type = GALE_F32, .inner = 1, .access = 0};
    p->code[1] = (gale__nest_instr){.op = GALE__NEST_LOAD, .type = GALE_F32, .inner = 1, .access = 1};
    p->code[2] = (gale__nest_instr){.op = GALE__MUL, .type = GALE_F32, .inner = 1, .a = 0, .b = 1};
    p->code[3] =
        (gale__nest_instr){.op = GALE__NEST_REDUCE, .type = GALE_F32, .acc = GALE_F32, .a = 2, .imm = GALE__SUM};
    p->accesses[0] = (gale__nest_access){.buffer = 0, .type = GALE_F32, .stride = {0, 5, m * k, k, 1}};
    p->accesses[1] = (gale__nest_access){.buffer = 1, .type = GALE_F32, .stride = {1, 5, 0, 0, n}};
    p->accesses[2] = (gale__nest_access){.buffer = 2, .type = GALE_F32, .stride = {1, 5, m * n, n, 0}};
    p->store = (gale__nest_store){.value = 3, .access = 2, .index = -1};
    for (int i = 0; i < 3; i++)
        p->buffers[i] = (gale__nest_buffer){.elements = 1 << 30, .type = GALE_F32, .written = i == 2};
    p->nest.code = p->code;
    p->nest.n_code = 4;
    p->nest.accesses = p->accesses;
    p->nest.n_accesses = 3;
    p->nest.stores = &p->store;
    p->nest.n_stores = 1;
    p->nest.buffers = p->buffers;
    p->nest.n_buffers = 3;
}

TEST(canonical)
{
    product p;
    make_product(&p, 3, 5, 7, 11);
    gale__nest_canonicalize(&p.nest);
    CHECK_EQ(p.nest.n_outer, 2); /* b and m are one: a and c walk them alike, b not at all */
    CHECK_EQ(p.nest.n_inner, 1);
    CHECK_EQ(p.nest.extent[0], 15);
    CHECK_EQ(p.nest.extent[1], 7);
    CHECK_EQ(p.nest.extent[2], 11);
    CHECK_EQ(p.accesses[0].stride[0], 11);
    CHECK_EQ(p.accesses[0].stride[2], 1);
    CHECK_EQ(p.accesses[1].stride[1], 1);
    CHECK_EQ(p.accesses[2].stride[0], 7);
    gale__str out = {0};
    gale__nest_print(&p.nest, &out);
    CHECK(strstr(gale__str_text(&out), "nest 15 x 7 | 11") != NULL);
    CHECK(strstr(gale__str_text(&out), "reduce sum %2 in f32") != NULL);
    gale__str_finish(&out);
}

TEST(guards)
{
    product p;
    make_product(&p, 3, 5, 8, 12);
    gale__nest_guard room[2];
    p.accesses[0].n_guards = 2;
    p.accesses[0].guards = room;
    p.accesses[0].guards[0] =
        (gale__nest_guard){.coef = {0, 0, 0, 1, 0}, .c0 = 0, .extent = 5, .div = 1}; /* always true */
    p.accesses[0].guards[1] =
        (gale__nest_guard){.coef = {0, 0, 0, 0, 2}, .c0 = -2, .extent = 9, .div = 2, .stride = 4}; /* whole */
    gale__nest_canonicalize(&p.nest);
    CHECK_EQ(p.accesses[0].n_guards, 1);
    CHECK_EQ(p.accesses[0].guards[0].div, 1);
    CHECK_EQ(p.accesses[0].guards[0].c0, -1);
    CHECK_EQ(p.accesses[0].guards[0].coef[p.nest.n_outer], 1);
    CHECK_EQ(p.accesses[0].stride[p.nest.n_outer], 1 + 4);
    CHECK_EQ(p.accesses[0].offset, -4);
}

TEST(cost_and_contraction)
{
    product p;
    gale__contraction c;
    double bytes, operations;
    make_product(&p, 3, 5, 7, 11);
    CHECK(gale__nest_contraction(&p.nest, &c));
    CHECK_EQ(c.m, 15);
    CHECK_EQ(c.n, 7);
    CHECK_EQ(c.k, 11);
    CHECK_EQ(c.b_count, 1);
    gale__nest_cost(&p.nest, &bytes, &operations);
    CHECK_EQ(bytes, 4 * (15 * 11 + 7 * 11 + 15 * 7));
    CHECK_EQ(operations, 2 * 15 * 7 * 11);
    p.code[3].imm = GALE__RMAX;
    CHECK(!gale__nest_contraction(&p.nest, &c));
}

static gale__nest_instr number(double v)
{
    gale__nest_instr in = {.op = GALE__NEST_CONST, .type = GALE_F32};
    gale__store_f64(GALE_F32, &in.imm, v);
    return in;
}

static gale__nest_instr step(int op, gale_type type, int a, int b, int c)
{
    return (gale__nest_instr){.op = (uint8_t)op, .type = (uint8_t)type, .a = a, .b = b, .c = c};
}

/* select(x <= most, max(x, 0), 0) of a half is below `limit`; then an index of 0 to 9 into `entries`. */
static void settle(double limit, uint64_t entries, int *n_code, gale__nest_instr *take)
{
    gale__nest_instr code[] = {{.op = GALE__NEST_LOAD, .type = GALE_F16}, step(GALE__CAST, GALE_F32, 0, -1, -1),
        number(3e38), number(0), step(GALE__LE, GALE_BOOL, 1, 2, -1), step(GALE__MAX, GALE_F32, 1, 3, -1),
        step(GALE__SELECT, GALE_F32, 4, 5, 3), number(limit), step(GALE__MIN, GALE_F32, 6, 7, -1), number(9),
        step(GALE__MIN, GALE_F32, 8, 9, -1), step(GALE__CAST, GALE_I64, 10, -1, -1),
        {.op = GALE__NEST_CONST, .type = GALE_I64}, step(GALE__LT, GALE_BOOL, 11, 12, -1),
        step(GALE__ADD, GALE_I64, 11, 11, -1), step(GALE__SELECT, GALE_I64, 13, 14, 11),
        {.op = GALE__NEST_TAKE, .type = GALE_F32, .a = 15, .access = 1, .imm = entries}};
    gale__nest_store store = {.value = 16, .access = 2, .index = -1};
    gale__nest nest = {.code = code, .n_code = sizeof code / sizeof *code, .stores = &store, .n_stores = 1};
    gale__nest_settle(&nest);
    *n_code = nest.n_code;
    *take = code[store.value];
    CHECK_EQ(code[take->a].op, GALE__CAST); /* the choice for negative indices is gone */
}

TEST(clamps_that_change_nothing)
{
    int n;
    gale__nest_instr take;
    settle(65504, 10, &n, &take);
    CHECK_EQ(n, 11);
    CHECK_EQ(take.op, GALE__NEST_TAKE);
    CHECK_EQ(take.acc, 1);
    settle(65503, 10, &n, &take);
    CHECK_EQ(n, 13);
    gale__nest_instr relu[] = {{.op = GALE__NEST_LOAD, .type = GALE_F32}, number(2),
        step(GALE__DIV, GALE_F32, 0, 1, -1), number(0), step(GALE__MAX, GALE_F32, 2, 3, -1)};
    gale__nest_store store = {.value = 4, .index = -1};
    gale__nest nest = {.code = relu, .n_code = 5, .stores = &store, .n_stores = 1};
    gale__nest_settle(&nest);
    CHECK_EQ(nest.n_code, 5); /* a quotient of anything may be negative */
    gale__nest_instr by_zero[] = {{.op = GALE__NEST_LOAD, .type = GALE_F32}, number(0),
        step(GALE__MAX, GALE_F32, 0, 1, -1), number(1), step(GALE__DIV, GALE_F32, 3, 2, -1),
        step(GALE__MAX, GALE_F32, 4, 1, -1)};
    store.value = 5;
    nest = (gale__nest){.code = by_zero, .n_code = 6, .stores = &store, .n_stores = 1};
    gale__nest_settle(&nest);
    CHECK_EQ(nest.n_code, 6); /* 1 / -0 is negative */
    settle(1e15, 9, &n, &take);
    CHECK_EQ(n, 11);
    CHECK_EQ(take.acc, 0); /* 9 lies outside */
}

/* The bits of any float, masked: an index of 0 to 7. */
TEST(masked_indices_are_inside)
{
    for (uint64_t entries = 7; entries <= 8; entries++) {
        gale__nest_instr code[] = {{.op = GALE__NEST_LOAD, .type = GALE_F32}, step(GALE__BITCAST, GALE_U32, 0, -1, -1),
            {.op = GALE__NEST_CONST, .type = GALE_U32, .imm = 7}, step(GALE__AND, GALE_U32, 1, 2, -1),
            step(GALE__CAST, GALE_I64, 3, -1, -1),
            {.op = GALE__NEST_TAKE, .type = GALE_F32, .a = 4, .access = 1, .imm = entries}};
        gale__nest_store store = {.value = 5, .access = 2, .index = -1};
        gale__nest nest = {.code = code, .n_code = 6, .stores = &store, .n_stores = 1};
        gale__nest_settle(&nest);
        CHECK_EQ(code[store.value].acc, entries == 8);
    }
}

/* What stands before a product is counted for each of its values, wherever the product reads it. */
TEST(cost_of_work_before_a_product)
{
    product p;
    double bytes, operations;
    gale__nest_instr code[6];
    make_product(&p, 3, 5, 7, 11);
    code[0] = p.code[0];
    code[1] = (gale__nest_instr){.op = GALE__EXP, .type = GALE_F32, .inner = 1, .a = 0};
    code[2] = p.code[1];
    code[3] = (gale__nest_instr){.op = GALE__NEG, .type = GALE_F32, .inner = 1, .a = 2};
    code[4] = (gale__nest_instr){.op = GALE__MUL, .type = GALE_F32, .inner = 1, .a = 1, .b = 3};
    code[5] = p.code[3];
    code[5].a = 4;
    p.nest.code = code;
    p.nest.n_code = 6;
    p.store.value = 5;
    gale__nest_cost(&p.nest, &bytes, &operations);
    CHECK_EQ(operations, 2 * 15 * 7 * 11 + 10 * 15 * 11 + 7 * 11);
    p.buffers[0].elements = 40; /* a window over so many */
    gale__nest_cost(&p.nest, &bytes, &operations);
    CHECK_EQ(operations, 2 * 15 * 7 * 11 + 10 * 40 + 7 * 11);
}

TESTS(ROW(canonical), ROW(guards), ROW(cost_and_contraction), ROW(clamps_that_change_nothing),
    ROW(masked_indices_are_inside), ROW(cost_of_work_before_a_product))
