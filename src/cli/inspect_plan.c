/* gale inspect --plan: what a run with given shapes would take and where its parts would go.  Inputs are made up, the
 * model runs once, and the plans are told. */
#include "base/json.h"
#include "cli/inspect.h"
#include "cli/model_inputs.h"
#include "graph/run/program.h"
#include "onnx/run/session.h"
#include <stdio.h>
#include <string.h>

typedef struct total {
    double bytes, operations;
    uint64_t work, constants;
    int kernels, on_device, on_host;
} total;

static void add_program(gale_program *p, total *t)
{
    for (gale__instance *i = p->instances; i; i = i->next) {
        t->bytes += i->plan->bytes;
        t->operations += i->plan->operations;
        t->kernels += i->plan->kernels;
        t->constants += i->plan->const_bytes;
        for (int s = 0; s < i->plan->n_slabs; s++) t->work += i->plan->slabs[s];
    }
}

static void add_net(const gale__onnx_net *net, total *t)
{
    const gale__onnx_exec *e = net->exec;
    for (int i = 0; i < e->n_steps; i++) {
        const gale__onnx_exec_step *s = &e->steps[i];
        t->on_device += s->segment ? s->segment->n_nodes : 0;
        t->on_host += !s->segment;
        for (gale__onnx_variant *v = s->segment ? s->segment->variants : NULL; v; v = v->next)
            add_program(v->program, t);
        for (int b = 0; !s->segment && b < net->nodes[s->node].n_bodies; b++)
            add_net(net->nodes[s->node].bodies[b].net, t);
    }
}

gale_status gale__inspect_plan(const gale__args *a, gale_device *device)
{
    gale_model *m = NULL;
    gale_object **in = NULL, **out = NULL;
    char *report = NULL, work[32], constants[32];
    gale_status status;
    GALE_GO(gale__model_open_for(a, device, &m));
    GALE_GO(gale__model_inputs_make(m, a, true, &in));
    out = gale__calloc((size_t)gale_model_outputs(m) + 1, sizeof *out);
    status = out ? gale_model_run(m, in, out, false) : GALE_NO_MEMORY;
    if (status != GALE_OK) goto done;
    total t = {0};
    add_net(gale__onnx_model_session(m)->net, &t);
    printf("\nplan on %s: %d nodes in %d kernels on the device, %d steps on the host\n",
        gale_device_get_info(device)->name, t.on_device, t.kernels, t.on_host);
    printf("operations %.3f G, bytes moved %.1f M\n", t.operations / 1e9, t.bytes / 1e6);
    printf("memory     %s of work, %s of constants beside the weights\n\n", gale__bytes_text(t.work, work),
        gale__bytes_text(t.constants, constants));
    GALE_GO(gale_model_report(m, false, &report));
    fputs(report, stdout);
done:
    gale_free(report);
    if (m) gale__objects_free(&in, gale_model_inputs(m));
    if (m) gale__objects_free(&out, gale_model_outputs(m));
    gale_model_close(&m);
    return status;
}
