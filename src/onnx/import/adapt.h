/* One function per row of versions.def. */
#ifndef GALE_ONNX_ADAPT_H
#define GALE_ONNX_ADAPT_H
#include "onnx/import/rewrite.h"
#define GALE__EVERY INT32_MAX /* whatever the opset */

#define ADAPT(function) \
    gale_status gale__onnx_adapt_##function(gale__onnx_net *net, gale__onnx_net_node *node, bool *done)
#define X(Operator, V, function) ADAPT(function);
#include "onnx/import/versions.def"
#undef X
#endif
