/* What runs a node: a device segment, a host operator, or the executor with the node's bodies. */
#ifndef GALE_ONNX_KINDS_H
#define GALE_ONNX_KINDS_H
#include "onnx/import/net.h"

typedef enum gale__onnx_runner {
    GALE__RUNS_ON_DEVICE,
    GALE__RUNS_ON_HOST,
    GALE__RUNS_BODIES,
    GALE__RUNS_NOWHERE
} gale__onnx_runner;
gale__onnx_runner gale__onnx_net_runner(const gale__onnx_net *net, const gale__onnx_net_node *node);
#endif
