/* Decides where a node runs, and the kinds of its results.  A name may be a device operator and, for strings or
 * sequences, a host operator too, so the kinds of the inputs decide; they are known before any run. */
#include "graph/build/opgraph.h"
#include "onnx/host/host.h"
#include "onnx/import/kinds.h"
#include <string.h>

enum { SCANNED_MOST = 64 }; /* values that a loop of the device takes or gives (ops/scan.c) */

static bool is_control(const char *op)
{
    return !strcmp(op, "If") || !strcmp(op, "Loop") || !strcmp(op, "SequenceMap");
}

/* Whether all of a body can be computed on a device. */
static bool body_is_numeric(const gale__onnx_net *body)
{
    for (int i = 0; i < body->n_values; i++)
        if (body->values[i].kind != GALE__KIND_NUMBERS || body->values[i].optional) return false;
    for (int i = 0; i < body->n_nodes; i++)
        if (gale__onnx_net_runner(body, &body->nodes[i]) != GALE__RUNS_ON_DEVICE) return false;
    return true;
}

/* Whether a Scan can be a loop of the device: no step may decide what a plan must know. */
static bool is_device_loop(const gale__onnx_net_node *node)
{
    const gale__onnx_net *body = node->bodies[0].net;
    return body_is_numeric(body) && body->planned_by != GALE__ORIGIN_STEP && body->n_inputs <= SCANNED_MOST &&
           body->n_outputs <= SCANNED_MOST;
}

/* Whose names mean what gale's operators do.  Others have operators of the same names and another meaning, such as
 * convolutions with channels last or in blocks; what gale knows of them has become the standard's before (expand.def).
 */
static bool means_ours(const char *domain)
{
    return !*domain || !strcmp(domain, "ai.onnx.ml") || !strncmp(domain, "ai.onnx.preview", 15);
}

gale__onnx_runner gale__onnx_net_runner(const gale__onnx_net *net, const gale__onnx_net_node *node)
{
    const gale__onnx_host_op *host = gale__onnx_host_find(node->domain, node->op);
    bool core = !*node->domain;
    if (core && is_control(node->op)) return GALE__RUNS_BODIES;
    if (core && !strcmp(node->op, "Scan"))
        return node->n_bodies == 1 && is_device_loop(node) ? GALE__RUNS_ON_DEVICE : GALE__RUNS_BODIES;
    if (host && (!host->strings_only || gale__onnx_host_wanted(host, net, node))) return GALE__RUNS_ON_HOST;
    if (!core && !strcmp(node->op, "Gradient")) return GALE__RUNS_ON_DEVICE;
    return means_ours(node->domain) && gale__op_find(node->op) ? GALE__RUNS_ON_DEVICE : GALE__RUNS_NOWHERE;
}

static const gale__onnx_net_value *output_of(const gale__onnx_net *body, int i)
{
    static const gale__onnx_net_value numbers = {.rank = -1};
    return i < body->n_outputs ? &body->values[body->outputs[i]] : &numbers;
}

/* The results of If are its branches', those of Scan its body's, those of Loop its body's after the condition, those of
 * SequenceMap sequences of its body's. */
static void settle_bodies(gale__onnx_net *net, const gale__onnx_net_node *node)
{
    const gale__onnx_net *body = node->n_bodies ? node->bodies[0].net : NULL;
    bool loop = !strcmp(node->op, "Loop"), map = !strcmp(node->op, "SequenceMap");
    for (int i = 0; body && i < node->n_out; i++) {
        if (node->out[i] < 0) continue;
        const gale__onnx_net_value *from = output_of(body, i + loop);
        gale__onnx_net_value *to = &net->values[node->out[i]];
        to->kind = map ? GALE__KIND_SEQUENCE : from->kind;
        to->of = map ? from->kind : from->of;
        to->optional = !map && (from->optional || (node->n_bodies > 1 && output_of(node->bodies[1].net, i)->optional));
    }
}

static bool bit(uint32_t mask, int i) { return mask >> (i < 31 ? i : 31) & 1; }
static void widen(uint8_t *to, uint8_t by) { *to = by > *to ? by : *to; }

/* Where the results come from, and what the node must know when it is planned. */
static void settle_origin(gale__onnx_net *net, const gale__onnx_net_node *node)
{
    const gale__op *op = gale__op_find(node->op);
    uint8_t from = GALE__ORIGIN_SHAPES;
    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        uint8_t its = net->values[node->in[i]].from;
        if (!op || !bit(op->shape_inputs, i)) widen(&from, its);
        if (op && bit(op->plan_inputs, i)) widen(&net->planned_by, its);
    }
    for (int b = 0; b < node->n_bodies; b++)
        for (int i = 0; i < node->bodies[b].net->n_captures; i++) {
            uint8_t its = net->values[node->bodies[b].net->captures[i]].from;
            widen(&from, its);
            if (node->bodies[b].net->planned_by) widen(&net->planned_by, its);
        }
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0) net->values[node->out[i]].from = from;
}

gale_status gale__onnx_net_settle(gale__onnx_net *net, const gale__onnx_net_node *node)
{
    settle_origin(net, node);
    gale__onnx_runner runner = gale__onnx_net_runner(net, node);
    if (runner == GALE__RUNS_NOWHERE && net->plain) return GALE_OK;
    if (runner == GALE__RUNS_NOWHERE && !strcmp(node->domain, "com.microsoft.nchwc"))
        return gale__onnx_net_fail(node, GALE_UNSUPPORTED,
            "com.microsoft.nchwc.%s holds weights in the layout of one kind of processor, as ONNX Runtime writes them "
            "with all optimizations; save the model with ORT_ENABLE_EXTENDED, or use the original",
            node->op);
    if (runner == GALE__RUNS_NOWHERE)
        return gale__onnx_net_fail(
            node, GALE_UNSUPPORTED, "unknown operator %s%s%s", node->domain, *node->domain ? "." : "", node->op);
    if (runner == GALE__RUNS_BODIES) settle_bodies(net, node);
    if (runner == GALE__RUNS_ON_HOST) gale__onnx_host_kinds(gale__onnx_host_find(node->domain, node->op), net, node);
    return GALE_OK;
}
