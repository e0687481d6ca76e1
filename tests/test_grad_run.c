/* Gradients on devices: the gradients of first and second order of every case, planned and run, against the scalar
 * reference. */
#include "grad_cases.h"
#include "graph/grad/grad.h"
#include "graph_run.h"

static void run_case(const grad_case *c, gale_device *device)
{
    gr_graph t;
    gr_begin(&t);
    grad_run r = {.c = c, .seed = 1};
    gale__node out[2 * GRAD_INPUTS];
    for (; r.n < GRAD_INPUTS && c->in[r.n].rank > 0; r.n++) {
        r.x[r.n] = gr_input(&t, GALE_F64, c->in[r.n].rank, c->in[r.n].dims);
        for (size_t k = 0; k < t.bytes[r.n] / sizeof(double); k++)
            ((double *)t.inputs[r.n])[k] = grad_random(&r.seed, c->low, c->high);
    }
    r.g = t.g;
    gale__node loss = grad_weigh(&r, c->make(&r.g, r.x));
    gale_status status = gale__prim_gradient(&r.g, loss, r.x, r.n, r.d);
    gale__node next = GALE__NIL;
    for (int i = 0; i < r.n && status == GALE_OK; i++) {
        gale__node part = grad_weigh(&r, r.d[i]);
        next = next < 0 ? part : gale__prim_add(&r.g, next, part);
        out[i] = r.d[i];
    }
    if (status == GALE_OK) status = gale__prim_gradient(&r.g, next, r.x, r.n, out + r.n);
    t.g = r.g;
    gr_result result;
    if (CHECK_OK(status) &&
        (!gr_run(&t, device, out, 2 * r.n > 8 ? 8 : 2 * r.n, NULL, &result) || !CHECK(result.difference <= 1e-9)))
        printf("  in %s: difference %g\n", c->name, result.difference);
    gr_end(&t);
}

TEST(cpu)
{
    gale_device_options options = GALE_DEVICE_OPTIONS;
    gale_device *device = NULL;
    options.chain = "cpu";
    options.strict = true;
    if (!CHECK_OK(gale_device_open(&options, &device))) return;
    for (size_t i = 0; i < GRAD_GROUPS; i++)
        for (size_t k = 0; k < grad_groups[i].n; k++) run_case(&grad_groups[i].cases[k], device);
    gale_device_close(&device);
}

TESTS(ROW(cpu))
