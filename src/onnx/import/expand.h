/* One function per row of expand.def. */
#ifndef GALE_ONNX_EXPAND_H
#define GALE_ONNX_EXPAND_H
#include "onnx/import/rewrite.h"

#define EXPAND(function) \
    gale_status gale__onnx_expand_##function(gale__onnx_net *net, gale__onnx_net_node *node, bool *done)
#define X(domain, Operator, function) EXPAND(function);
#include "onnx/import/expand.def"
#undef X

/* Shared by the expanders: x, of four axes where its rank is not known, with channels moved from axis 1 to the last, or
 * back. */
int32_t gale__rw_channels(gale__onnx_rewrite *w, int32_t x, bool last);
/* a b with either turned, times alpha. */
int32_t gale__rw_product(gale__onnx_rewrite *w, int32_t a, int32_t b, bool turn_a, bool turn_b, double alpha);
#endif
