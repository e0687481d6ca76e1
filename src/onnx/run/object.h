/* What flows between the steps of a model: a tensor (numbers or strings), a sequence, a map, or nothing (an optional
 * left empty).  Counted and immutable: sharing is free. */
#ifndef GALE_ONNX_OBJECT_H
#define GALE_ONNX_OBJECT_H
#include "gale/model.h"

struct gale_object {
    _Atomic int refs;
    gale_object_kind kind;
    gale_tensor *tensor; /* TENSOR; MAP: the keys (i64 or string, rank 1) */
    gale_object **items; /* SEQUENCE; MAP: a value per key, rank 0 tensors or sequences */
    size_t count;
    int depth; /* of what it holds; bounded, so that walks may recurse */
};
#define GALE__OBJECT_DEPTH 32
gale_object *gale__onnx_object_hold(gale_object *object); /* gives it back */
/* Takes the tensor over, also on failure. */
gale_status gale__onnx_object_take(gale_tensor **tensor, gale_object **out);
/* A sequence with room for `count` items, all NULL: whoever makes it puts what it owns there before anyone else sees
 * it. */
gale_status gale__onnx_object_room(size_t count, gale_object **out);
/* Fills a place of it, taking the object over. */
gale_status gale__onnx_object_put(gale_object *sequence, size_t index, gale_object *item);
/* exec.c: the object with all its tensors on the host. */
gale_status gale__onnx_object_to_host(gale_object *object, gale_object **out);
/* object_file.c: a value from a file of ONNX's messages; the requested kind decides which message it is. */
gale_status gale__onnx_object_read(const char *path, const gale_model_value *want, gale_object **out);
/* And back: TensorProto, SequenceProto, MapProto, or OptionalProto for nothing at all.  Tensors are on the host. */
gale_status gale__onnx_object_write(const char *path, const gale_object *object);
#endif
