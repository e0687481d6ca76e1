/* Shapes of every value of a model, with symbols: what is known before any run. */
#ifndef GALE_ONNX_INFER_H
#define GALE_ONNX_INFER_H
#include "base/str.h"
#include "onnx/import/net.h"

/* times * (the names' product, or sum) / over + plus; names are free extents of the model's inputs; without any it is
 * `plus`. */
typedef struct gale__onnx_extent {
    bool known, sum;
    int64_t times, over, plus;
    const char *names[3];
    int n_names;
} gale__onnx_extent;

typedef struct gale__onnx_inferred {
    bool known; /* type and rank */
    gale_type type;
    int rank;
    gale__onnx_extent dims[GALE_MAX_RANK];
} gale__onnx_inferred;

/* Fills one for each value of the net (a main graph).  Free extents of inputs are called by their symbols; those
 * without one by the input's name and the axis: "x.2".  An extent that no simple formula gives, or that depends on
 * data, is not known.  Formulas hold for extents that the model accepts; where it rounds, for those that divide. */
gale_status gale__onnx_net_infer(gale__onnx_net *net, gale__onnx_inferred *out);
/* "2*height", "width/8 + 1", "batch*tokens", "past + tokens", "3", "?". */
void gale__onnx_extent_text(const gale__onnx_extent *extent, gale__str *out);
/* "f32 [batch, 2*height]"; "?" when nothing is known. */
void gale__onnx_inferred_text(const gale__onnx_inferred *value, gale__str *out);
#endif
