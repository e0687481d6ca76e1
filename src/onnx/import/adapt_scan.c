/* Scan of opset 8 works on batches: every input and result has them along axis 0.  It becomes a scan over that axis,
 * without states, whose body is the scan of one item. */
#include "onnx/import/adapt.h"
#include <string.h>

/* Another input of `body`, standing for a value of the net around it. */
static gale_status add_input(
    gale__onnx_net *body, const gale__onnx_net_value *like, gale__onnx_origin from, int32_t *out)
{
    GALE_TRY(
        gale__grow((void **)&body->inputs, &body->inputs_capacity, (size_t)body->n_inputs + 1, sizeof *body->inputs));
    GALE_TRY(gale__onnx_net_new_value(body, like->name, out));
    gale__onnx_net_value *v = &body->values[*out];
    *v = *like;
    v->constant = NULL;
    v->node = -1;
    v->from = (uint8_t)from;
    v->input = body->n_inputs;
    body->inputs[body->n_inputs++] = *out;
    return GALE_OK;
}

/* What the scanned body takes from outside now goes through the body around it. */
static gale_status hand_captures_on(const gale__onnx_net *net, gale__onnx_net *item, gale__onnx_net *scanned)
{
    for (int i = 0; i < scanned->n_captures; i++) {
        int32_t outside = scanned->captures[i];
        GALE_TRY(gale__grow(
            (void **)&item->captures, &item->captures_capacity, (size_t)item->n_captures + 1, sizeof *item->captures));
        GALE_TRY(add_input(item, &net->values[outside], GALE__ORIGIN_OUTSIDE, &scanned->captures[i]));
        item->captures[item->n_captures++] = outside;
    }
    scanned->outer = item;
    return GALE_OK;
}

/* The body of the outer scan: one node. */
static gale_status fill_item(
    gale__onnx_net *net, gale__onnx_net_node *node, gale__onnx_net *item, gale__onnx_net_node *inner)
{
    static const gale__onnx_net_value anything = {.name = "", .rank = -1, .node = -1};
    inner->in = gale__arena_alloc(net->arena, (size_t)(inner->n_in + 1) * sizeof *inner->in);
    inner->out = gale__arena_alloc(net->arena, (size_t)(inner->n_out + 1) * sizeof *inner->out);
    item->declared = gale__arena_alloc(net->arena, (size_t)(inner->n_out + 1) * sizeof *item->declared);
    if (!inner->in || !inner->out || !item->declared) return GALE_NO_MEMORY;
    for (int i = 0; i < inner->n_in; i++) {
        const gale__onnx_net *scanned = node->bodies[0].net;
        gale__onnx_net_value like = anything;
        if (i < scanned->n_inputs) like.type = scanned->values[scanned->inputs[i]].type;
        GALE_TRY(add_input(item, &like, GALE__ORIGIN_STEP, &inner->in[i]));
    }
    GALE_TRY(hand_captures_on(net, item, node->bodies[0].net));
    for (int i = 0; i < inner->n_out; i++) {
        GALE_TRY(gale__onnx_net_new_value(item, NULL, &inner->out[i]));
        item->declared[i] = anything;
    }
    item->outputs = inner->out;
    item->n_outputs = inner->n_out;
    return gale__onnx_net_push(item, inner);
}

ADAPT(scan_batch)
{
    gale__onnx_rewrite w = {net, node, GALE_OK};
    int64_t scanned = gale__onnx_net_attr_i(node, "num_scan_inputs", 0);
    const gale_attr *directions = gale__onnx_net_attr(node, "directions");
    *done = false;
    if (gale__rw_in(&w, 0) >= 0)
        return gale__onnx_net_fail(node, GALE_UNSUPPORTED,
            "Scan of opset %d with sequence_lens is not supported; export the model for opset 9 or later", node->opset);
    if (node->n_bodies != 1 || node->n_in < 2 || scanned < 1 || scanned > node->n_in - 1)
        return gale__onnx_net_fail(node, GALE_FORMAT, "Scan needs a body, and inputs to scan");
    gale__onnx_net *item = gale__arena_alloc(net->arena, sizeof *item);
    gale_attr *attrs = gale__arena_alloc(net->arena, 2 * sizeof *attrs);
    void *bodies = gale__arena_copy(net->arena, node->bodies, sizeof *node->bodies);
    if (!item || !attrs || !bodies) return GALE_NO_MEMORY;
    *item = (gale__onnx_net){
        .arena = net->arena, .file = net->file, .outer = net, .plain = net->plain, .opset = net->opset};
    gale__onnx_net_node inner = *node;
    inner.attrs = attrs, inner.n_attrs = 1, inner.bodies = bodies;
    inner.n_in = node->n_in - 1;
    attrs[0] = (gale_attr)GALE_INT("num_scan_inputs", scanned);
    if (directions) attrs[inner.n_attrs] = *directions, attrs[inner.n_attrs++].name = "scan_input_directions";
    gale_status status = fill_item(net, node, item, &inner);
    if (item->n_nodes) node->bodies[0].net = item; /* which holds the other now */
    else gale__onnx_net_finish(item);
    GALE_TRY(status);
    gale__rw_drop_all(&w);
    gale__rw_set(&w, (gale_attr)GALE_INT("num_scan_inputs", inner.n_in));
    gale__rw_turn(&w, "Scan", node->in + 1, inner.n_in);
    return w.status;
}
