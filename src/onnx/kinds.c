/* Who runs a node, and what its results are.  A name may stand for a device operator and, where strings or sequences come in, for a
 * host operator too, so the kinds of the inputs decide; they are known before any run. */
#include "graph/opgraph.h"
#include "onnx/host.h"
#include "onnx/runner.h"
#include <string.h>

static bool is_control(const char *op) { return !strcmp(op, "If") || !strcmp(op, "Loop") || !strcmp(op, "SequenceMap"); }

/* Whether all of a body can be computed on a device. */
static bool body_is_numeric(const gale__net *body)
{
    for (int i = 0; i < body->n_values; i++)
        if (body->values[i].kind != GALE__NUMBERS || body->values[i].optional) return false;
    for (int i = 0; i < body->n_nodes; i++)
        if (gale__net_runner(body, &body->nodes[i]) != GALE__RUNS_ON_DEVICE) return false;
    return true;
}

gale__runner gale__net_runner(const gale__net *net, const gale__net_node *node)
{
    const gale__host_op *host = gale__host_find(node->domain, node->op);
    bool core = !*node->domain;
    if (core && is_control(node->op)) return GALE__RUNS_BODIES;
    if (core && !strcmp(node->op, "Scan")) return node->n_bodies == 1 && body_is_numeric(node->bodies[0].net) ? GALE__RUNS_ON_DEVICE : GALE__RUNS_NOWHERE;
    if (host && (!host->strings_only || gale__host_wanted(host, net, node))) return GALE__RUNS_ON_HOST;
    if (!core && !strcmp(node->op, "Gradient")) return GALE__RUNS_ON_DEVICE;
    return gale__op_find(node->op) ? GALE__RUNS_ON_DEVICE : GALE__RUNS_NOWHERE;
}

static const gale__net_value *output_of(const gale__net *body, int i)
{
    static const gale__net_value numbers = {.rank = -1};
    return i < body->n_outputs ? &body->values[body->outputs[i]] : &numbers;
}

/* The results of If are its branches', those of Loop its body's after the condition, those of SequenceMap sequences of its body's. */
static void settle_bodies(gale__net *net, const gale__net_node *node)
{
    const gale__net *body = node->n_bodies ? node->bodies[0].net : NULL;
    bool loop = !strcmp(node->op, "Loop"), map = !strcmp(node->op, "SequenceMap");
    for (int i = 0; body && i < node->n_out; i++) {
        if (node->out[i] < 0) continue;
        const gale__net_value *from = output_of(body, i + loop);
        gale__net_value *to = &net->values[node->out[i]];
        to->kind = map ? GALE__SEQUENCE : from->kind;
        to->of = map ? from->kind : from->of;
        to->optional = !map && (from->optional || (node->n_bodies > 1 && output_of(node->bodies[1].net, i)->optional));
    }
}

gale_status gale__net_settle(gale__net *net, const gale__net_node *node)
{
    gale__runner runner = gale__net_runner(net, node);
    if (runner == GALE__RUNS_NOWHERE && net->plain) return GALE_OK;
    if (runner == GALE__RUNS_NOWHERE)
        return gale__net_fail(node, GALE_UNSUPPORTED, "no operator is called %s%s%s", node->domain, *node->domain ? "." : "", node->op);
    if (runner == GALE__RUNS_BODIES) settle_bodies(net, node);
    if (runner == GALE__RUNS_ON_HOST) gale__host_kinds(gale__host_find(node->domain, node->op), net, node);
    return GALE_OK;
}
