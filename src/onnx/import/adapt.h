/* One function per row of versions.def. */
#ifndef GALE_ONNX_ADAPT_H
#define GALE_ONNX_ADAPT_H
#include "onnx/import/rewrite.h"
#define GALE__EVERY INT32_MAX /* whatever the opset */

#define ADAPT(function) gale_status gale__adapt_##function(gale__net *net, gale__net_node *node, bool *done)
#define X(Operator, V, function) ADAPT(function);
#include "onnx/import/versions.def"
#undef X
#endif
