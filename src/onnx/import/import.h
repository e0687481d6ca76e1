/* Shared by the importer's files: where a node is being read. */
#ifndef GALE_ONNX_IMPORT_H
#define GALE_ONNX_IMPORT_H
#include "onnx/import/names.h"
#include "onnx/import/net.h"

/* The names that can be seen from a node.  A function's body has a scope of its own and sees nothing outside; a graph
 * attribute sees what is around it. */
typedef struct gale__onnx_scope {
    struct gale__onnx_scope *parent; /* of a graph attribute */
    gale__onnx_net *net;
    gale__onnx_names names;
    const gale__pb_model *model;
    const gale__pb_opset *opsets; /* of the model or the function */
    size_t n_opsets;
    const gale__pb_function *function; /* whose body this is, and the call */
    const gale__onnx_net_node *call;
    int depth;       /* of functions and graphs around it */
    size_t *inlined; /* bytes that functions have taken so far */
} gale__onnx_scope;

/* import_attr.c: one attribute; *skip when it refers to one that the caller of the function left out. */
gale_status gale__onnx_import_attr(
    gale__onnx_scope *scope, const gale__pb_attribute *from, const char *where, gale_attr *to, bool *skip);
gale_status gale__onnx_import_constant(
    gale__onnx_scope *scope, const gale__onnx_net_node *node, gale_tensor **out); /* the value of a Constant node */
/* node_order.c: *out[i] is the node that is i-th in an order in which values are made before they are read
 * (gale__free); left alone where they are in order already. */
gale_status gale__onnx_import_order(const gale__pb_node *nodes, size_t n, uint32_t **out);
/* import_type.c: a declared type as kind, element type and shape. */
gale_status gale__onnx_import_type(gale__onnx_net *net, const gale__pb_value_info *from, gale__onnx_net_value *to);
#endif
