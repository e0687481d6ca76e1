/* What flows between the steps of a model: a tensor (numbers or strings), a sequence, a map, or nothing (an optional left empty).  Counted and
 * immutable: sharing is free. */
#ifndef GALE_ONNX_OBJECT_H
#define GALE_ONNX_OBJECT_H
#include "gale/model.h"

struct gale_object {
    _Atomic int refs;
    gale_object_kind kind;
    gale_tensor *tensor;       /* TENSOR; MAP: the keys (i64 or string, rank 1) */
    gale_object **items;       /* SEQUENCE; MAP: a value per key, rank 0 tensors or sequences */
    size_t count;
};
gale_object *gale__object_hold(gale_object *object); /* gives it back */
/* Takes the tensor over, also on failure. */
gale_status gale__object_take(gale_tensor **tensor, gale_object **out);
#endif
