/* Programs: a graph as it was recognised, on a device, and what its inputs must be.  instances.c has its plans. */
#include "graph/run/program.h"
#include "graph/rewrite/fold_scales.h"
#include "graph/rewrite/merge_groups.h"
#include "graph/rewrite/merge_products.h"
#include "graph/rewrite/precision.h"
#include "graph/rewrite/recognise.h"
#include "graph/run/run.h"
#include <string.h>

gale_status gale__program_check_options(const gale_program_options *o)
{
    if (gale__reserved_used(o->reserved))
        return gale__fail(GALE_INVALID,
            "gale_program_options has an option that gale %s does not know (its reserved words are not 0)",
            gale_version());
    if ((unsigned)o->precision > GALE_PRECISION_BF16)
        return gale__fail(GALE_INVALID, "gale_program_options: unknown precision %d", (int)o->precision);
    if (o->threads < 0)
        return gale__fail(GALE_INVALID, "gale_program_options: %d threads; use 0 for all cores", o->threads);
    if (o->layout < 0 || o->layout > 2)
        return gale__fail(GALE_INVALID, "gale_program_options: unknown layout %d", o->layout);
    return GALE_OK;
}

/* The half types, as flags, that a CPU computes in f32 anyway: what is rounded between operators there only costs. */
static uint32_t slow_halves(const gale_device_caps *caps)
{
    return caps->host_functions ? (caps->f16 ? 0 : 1u << GALE_F16) | (caps->bf16 ? 0 : 1u << GALE_BF16) : 0;
}

gale_status gale_program_create(
    const gale_graph *graph, gale_device *device, const gale_program_options *options, gale_program **out)
{
    GALE__NEED({"graph", graph}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    if (options) GALE_TRY(gale__program_check_options(options));
    if (graph->n_outputs == 0)
        return gale__fail(GALE_INVALID, "the graph has no output; add one with gale_graph_output");
    gale_program *p = gale__calloc(1, sizeof *p);
    if (!p) return GALE_NO_MEMORY;
    p->plan_inputs = gale__calloc((size_t)graph->n_inputs + 1, sizeof *p->plan_inputs);
    bool plain = options && options->no_recognise;
    gale_status status = p->plan_inputs ? gale__opgraph_plan_inputs(graph, p->plan_inputs) : GALE_NO_MEMORY;
    if (status == GALE_OK) status = gale__recognise(graph, plain, &p->arena, p->graph);
    if (status == GALE_OK) status = gale__index_rules(graph, &p->arena, &p->index_rules, &p->n_index_rules);
    if (status == GALE_OK && !plain)
        status = gale__fold_scales(p->graph, options && options->precision == GALE_PRECISION_F16, &p->arena);
    if (status == GALE_OK && !plain && !device->info.caps.host_functions)
        status = gale__merge_products(p->graph, &p->arena);
    bool units = !plain && device->info.caps.n_matrix, narrow = options && options->precision;
    if (status == GALE_OK && units) status = gale__merge_groups(p->graph, narrow, &p->arena);
    if (status == GALE_OK && options && options->precision)
        status = gale__precision_apply(p->graph, options->precision == GALE_PRECISION_F16 ? GALE_F16 : GALE_BF16);
    else if (status == GALE_OK && !plain) status = gale__precision_widen(p->graph, slow_halves(&device->info.caps));
    if (status != GALE_OK) {
        gale__precision_finish(p->graph);
        gale__merge_finish(p->graph, graph);
        gale__arena_finish(&p->arena);
        gale__free(p->plan_inputs);
        gale__free(p);
        return status;
    }
    gale__graph_hold(graph);
    p->source = graph;
    p->device = gale__device_hold(device);
    if (options) p->options = *options;
    gale__mutex_init(&p->lock);
    gale__cond_init(&p->planned);
    gale__turns_join(p);
    *out = p;
    return GALE_OK;
}

void gale_program_destroy(gale_program **program)
{
    if (!program || !*program) return;
    gale_program *p = *program;
    *program = NULL;
    gale__turns_part(p);
    while (p->instances) {
        gale__instance *i = p->instances;
        p->instances = i->next;
        gale__instance_destroy(p, i);
    }
    gale_graph *source = (gale_graph *)p->source;
    gale__precision_finish(p->graph);
    gale__merge_finish(p->graph, source);
    gale_graph_destroy(&source);
    gale__arena_finish(&p->arena);
    gale_device_close(&p->device);
    gale__cond_finish(&p->planned);
    gale__mutex_finish(&p->lock);
    gale__free(p->plan_inputs);
    gale__free(p);
}

int gale_program_inputs(const gale_program *p)
{
    if (!p) return gale__lack(__func__, "program"), 0;
    return p->graph->n_inputs;
}

int gale_program_outputs(const gale_program *p)
{
    if (!p) return gale__lack(__func__, "program"), 0;
    return p->graph->n_outputs;
}

static gale_status check_symbol(const gale_graph *g, int input, int axis, gale_tensor *const *inputs)
{
    const gale__value_info *v = &g->values[g->inputs[input]];
    for (int i = 0; i <= input; i++) {
        const gale__value_info *other = &g->values[g->inputs[i]];
        for (int a = 0; a < (i == input ? axis : other->rank); a++)
            if (other->symbols[a] && !strcmp(other->symbols[a], v->symbols[axis]) &&
                inputs[i]->dims[a] != inputs[input]->dims[axis])
                return gale__fail(GALE_INVALID, "%s is %lld in input %s and %lld in input %s", v->symbols[axis],
                    (long long)inputs[i]->dims[a], other->name, (long long)inputs[input]->dims[axis], v->name);
    }
    return GALE_OK;
}

gale_status gale__program_check_inputs(const gale_program *p, gale_tensor *const *inputs)
{
    const gale_graph *g = p->graph;
    for (int i = 0; i < g->n_inputs; i++) {
        const gale__value_info *v = &g->values[g->inputs[i]];
        const gale_tensor *t = inputs[i];
        if (!t) return gale__fail(GALE_INVALID, "missing input %s", v->name);
        if (t->type != v->type)
            return gale__fail(GALE_INVALID, "input %s has type %s instead of %s", v->name, gale_type_name(t->type),
                gale_type_name(v->type));
        if (t->rank != v->rank && v->rank >= 0)
            return gale__fail(GALE_INVALID, "input %s has rank %d instead of %d", v->name, t->rank, v->rank);
        if (t->device && t->device != p->device)
            return gale__fail(
                GALE_INVALID, "input %s is on a different device than the program; use gale_tensor_to_device", v->name);
        for (int a = 0; a < v->rank; a++) {
            if (v->dims[a] >= 0 && v->dims[a] != t->dims[a])
                return gale__fail(GALE_INVALID, "input %s has extent %lld along axis %d instead of %lld", v->name,
                    (long long)t->dims[a], a, (long long)v->dims[a]);
            if (v->symbols[a]) GALE_TRY(check_symbol(g, i, a, inputs));
        }
    }
    return GALE_OK;
}
