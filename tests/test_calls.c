/* Products by a vendor's library, against a stand-in for cuBLASLt (fake_driver.c) that multiplies for real: which
 * products go there, that results are right in every layout, inside captures too, and that everything falls back to
 * kernels. */
#include "op_graph.h"
#include "device/call.h"
#include "graph/run/program.h"
#include <math.h>
#include <stdlib.h>

static gale_device *device;

typedef void builder(og *t);

static gale_value matmul(og *t, gale_value a, gale_value b) { return og_op2(t, "MatMul", a, b); }
static void plain(og *t) { og_output(t, matmul(t, OG_INPUT(t, 512, 512), OG_INPUT(t, 512, 528))); }
static void turned(og *t)
{
    gale_value a = OG_INPUT(t, 512, 512), b = OG_INPUT(t, 528, 512);
    og_output(t, matmul(t, OG_TRANSPOSE(t, a, 1, 0), OG_TRANSPOSE(t, b, 1, 0)));
}
static void batched(og *t) { og_output(t, matmul(t, OG_INPUT(t, 3, 2, 256, 320), OG_INPUT(t, 3, 2, 320, 304))); }
static void folded(og *t) { og_output(t, matmul(t, OG_INPUT(t, 4, 160, 512), OG_INPUT(t, 512, 448))); }
static void gemm(og *t)
{
    og_output(t, og_op(t, "Gemm", (gale_value[]){OG_INPUT(t, 512, 512), OG_INPUT(t, 528, 512)}, 2,
                     (gale_attr[]){GALE_INT("transB", 1)}, 1));
}
static void chained(og *t)
{
    og_output(t, matmul(t, matmul(t, OG_INPUT(t, 512, 512), OG_INPUT(t, 512, 512)), OG_INPUT(t, 512, 512)));
}
static void small(og *t) { og_output(t, matmul(t, OG_INPUT(t, 64, 64), OG_INPUT(t, 64, 64))); }
static void biased(og *t)
{
    og_output(t,
        og_op(t, "Gemm", (gale_value[]){OG_INPUT(t, 512, 512), OG_INPUT(t, 512, 528), OG_INPUT(t, 528)}, 3, NULL, 0));
}

/* Steps that are calls, in the plan for these inputs. */
static int calls_of(gale_program *p, og *t)
{
    gale__instance *i = NULL;
    int n = 0;
    if (!CHECK_OK(gale__program_instance(p, t->inputs, &i))) return -1;
    for (int k = 0; k < i->plan->n_steps; k++) n += i->plan->steps[k].kind == GALE__STEP_CALL;
    gale__instance_release(p, i);
    return n;
}

static bool run_on(gale_device *on, og *t, float *out, size_t bytes, int runs)
{
    gale_program *p = NULL;
    gale_tensor *y = NULL;
    bool ok = CHECK_OK(gale_program_create(t->graph, on, NULL, &p));
    for (int i = 0; ok && i < runs; i++) ok = CHECK_OK(gale_program_run(p, t->inputs, &y, GALE_RUN_ON_HOST));
    ok = ok && CHECK_EQ(gale_tensor_size_bytes(y), bytes) && CHECK_OK(gale_tensor_to_cpu(y, out, bytes));
    if (ok && on == device && runs > 2) CHECK(p->last.replayed); /* the same tensors again: calls are in the capture */
    gale_tensor_destroy(&y);
    gale_program_destroy(&p);
    return ok;
}

/* Two kernels of gale's own. */
static void normed(og *t)
{
    gale_value y = og_op(t, "Softmax", (gale_value[]){OG_INPUT(t, 64, 48)}, 1, NULL, 0);
    og_output(t, matmul(t, matmul(t, y, OG_INPUT(t, 48, 48)), OG_INPUT(t, 48, 32)));
}

/* Runs with two sets of tensors in turn; the number of runs that were replayed.  The stand-in notices launches with
 * memory that is gone. */
static int alternate(builder *build)
{
    enum { RUNS = 6 };
    og t[2];
    gale_program *p = NULL;
    gale_tensor *y[2] = {0};
    int replayed = 0;
    for (int i = 0; i < 2; i++) {
        og_begin(&t[i]);
        build(&t[i]);
        if (!CHECK_OK(t[i].status) || !CHECK_OK(og_tensors(&t[i], device))) return -1;
    }
    bool ok = CHECK_OK(gale_program_create(t[0].graph, device, NULL, &p));
    for (int i = 0; ok && i < RUNS; i++) {
        if (i == RUNS - 1) { /* the memory of the last run is gone */
            for (int k = 0; k < t[0].n_inputs; k++) gale_tensor_destroy(&t[0].inputs[k]);
            gale_tensor_destroy(&y[0]);
            gale_memory_trim(device);
        }
        int which = i == RUNS - 1 ? 1 : i % 2;
        ok = CHECK_OK(gale_program_run(p, t[which].inputs, &y[which], 0));
        replayed += p->last.replayed;
    }
    for (int i = 0; i < 2; i++) gale_tensor_destroy(&y[i]), og_end(&t[i]);
    gale_program_destroy(&p);
    return replayed;
}

TEST(captures_serve_other_tensors)
{
    CHECK_EQ(alternate(normed), 5);  /* from the second run on */
    CHECK_EQ(alternate(chained), 0); /* calls cannot be changed */
}

/* The stand-in's result beside the CPU's. */
static void check_same(const char *name, builder *build, size_t elements, int runs)
{
    og t;
    gale_device *cpu = NULL;
    float *want = calloc(elements, sizeof *want), *have = calloc(elements, sizeof *have);
    double off = 0, all = 0;
    og_begin(&t);
    build(&t);
    if (CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) &&
        CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu"}, &cpu)) &&
        run_on(cpu, &t, want, elements * sizeof *want, 1) && run_on(device, &t, have, elements * sizeof *have, runs)) {
        for (size_t i = 0; i < elements; i++) {
            off += (double)(want[i] - have[i]) * (double)(want[i] - have[i]);
            all += (double)want[i] * (double)want[i];
        }
        if (!CHECK(sqrt(off) <= 1e-5 * sqrt(all))) printf("  %s: %g\n", name, sqrt(off / all));
    }
    gale_device_close(&cpu);
    free(want), free(have);
    og_end(&t);
}

static int count(builder *build, const gale_program_options *options)
{
    og t;
    gale_program *p = NULL;
    int n = -1;
    og_begin(&t);
    build(&t);
    if (CHECK_OK(t.status) && CHECK_OK(og_tensors(&t, NULL)) &&
        CHECK_OK(gale_program_create(t.graph, device, options, &p)))
        n = calls_of(p, &t);
    gale_program_destroy(&p);
    og_end(&t);
    return n;
}

TEST(the_capability_says_so) { CHECK(gale_device_get_info(device)->caps.products_side > 0); }

TEST(large_plain_products_are_called)
{
    CHECK_EQ(count(plain, NULL), 1);
    CHECK_EQ(count(chained, NULL), 2);
    CHECK_EQ(count(gemm, NULL), 1);
    CHECK_EQ(count(small, NULL), 0);
    CHECK_EQ(count(biased, NULL), 0);
    CHECK_EQ(count(plain, &(gale_program_options){.no_paths = true}), 0);
}

TEST(layouts_are_right)
{
    check_same("plain", plain, 512 * 528, 1);
    check_same("turned", turned, 512 * 528, 1);
    check_same("batched", batched, 3 * 2 * 256 * 304, 1);
    check_same("folded", folded, 4 * 160 * 448, 1);
    check_same("gemm", gemm, 512 * 528, 1);
}

TEST(calls_are_captured) { check_same("chained", chained, 512 * 512, 4); }

/* bf16 goes there too, in f32 sums; the stand-in refuses a product that is described in another way. */
TEST(narrow_types)
{
    gale__matrix_product s = {
        .type = GALE_BF16, .m = 512, .n = 512, .k = 512, .batches = 1, .a = {.pitch = 512}, .b = {.pitch = 512}};
    gale__call *call = NULL;
    if (CHECK_OK(gale__call_product(device, &s, &call))) CHECK_EQ(call->workspace_bytes, 4096);
    gale__call_destroy(&call);
    s.b.pitch = 100; /* rows that overlap */
    CHECK_FAILS(gale__call_product(device, &s, &call), INTERNAL);
    CHECK(call == NULL);
}

TEST(without_an_algorithm_kernels_serve)
{
    setenv("FAKE_NO_PRODUCTS", "1", 1);
    CHECK_EQ(count(plain, NULL), 0);
    CHECK_EQ(count(chained, NULL), 0); /* so the device has the kernels that serve where allocations fail, too */
    unsetenv("FAKE_NO_PRODUCTS");
}

TEST(allocations_may_fail)
{
    og t;
    og_begin(&t);
    chained(&t);
    CHECK_OK(og_tensors(&t, NULL));
    int64_t live = gale__alloc_live();
    for (uint64_t n = 1, over = 0; !over && n < 2000; n++) {
        gale_program *p = NULL;
        gale__instance *i = NULL;
        gale__alloc_fail_at(n);
        gale_status status = gale_program_create(t.graph, device, NULL, &p);
        if (status == GALE_OK) status = gale__program_instance(p, t.inputs, &i);
        over = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        CHECK(status == GALE_OK || (!over && status == GALE_NO_MEMORY));
        if (i) gale__instance_release(p, i);
        gale_program_destroy(&p);
        if (!CHECK_EQ(gale__alloc_live(), live)) break;
    }
    og_end(&t);
}

int main(int argc, char **argv)
{
    static const test_row rows[] = {
        ROW(the_capability_says_so),
        ROW(large_plain_products_are_called),
        ROW(layouts_are_right),
        ROW(calls_are_captured),
        ROW(captures_serve_other_tensors),
        ROW(narrow_types),
        ROW(without_an_algorithm_kernels_serve),
        ROW(allocations_may_fail),
    };
    setenv("GALE_MATRIX", "off", 1); /* with matrix units gale multiplies f32 itself */
    return test_main_on("cuda", &device, rows, sizeof rows / sizeof *rows, argc, argv);
}
