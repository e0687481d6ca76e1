/* Declared types of inputs and outputs: kind, element type, extents and their names. */
#include "onnx/import/import.h"

static gale_status read_tensor_type(
    const gale__pb_value_info *from, const gale__pb_tensor_type *type, gale__onnx_net_value *to)
{
    int known = type->elem_type ? gale__onnx_type(type->elem_type) : GALE_F32;
    if (known < 0)
        return gale__fail(GALE_UNSUPPORTED, "%s: element type %d is not supported", from->name.at, type->elem_type);
    to->type = (gale_type)known;
    to->kind = known == GALE_STRING ? GALE__KIND_STRINGS : GALE__KIND_NUMBERS;
    if (!type->shape) return GALE_OK;
    if (type->shape->dim.n > GALE_MAX_RANK)
        return gale__fail(
            GALE_LIMIT, "%s: %zu axes exceed the limit of %d", from->name.at, type->shape->dim.n, GALE_MAX_RANK);
    to->rank = (int)type->shape->dim.n;
    for (int i = 0; i < to->rank; i++) {
        const gale__pb_dim *d = &type->shape->dim.at[i];
        bool symbol = d->dim_param.at && d->dim_param.size;
        to->dims[i] = d->has_value && !symbol && d->dim_value >= 0 ? d->dim_value : -1;
        to->symbols[i] = symbol ? d->dim_param.at : NULL;
    }
    return GALE_OK;
}

gale_status gale__onnx_import_type(gale__onnx_net *net, const gale__pb_value_info *from, gale__onnx_net_value *to)
{
    const gale__pb_type *type = from->type;
    gale__onnx_net_value inner = {.rank = -1};
    (void)net;
    for (int depth = 0; type && type->optional_type; depth++) {
        if (depth > 8) return gale__fail(GALE_FORMAT, "%s: the type is nested too deeply", from->name.at);
        to->optional = true;
        type = type->optional_type->elem_type;
    }
    if (!type) return GALE_OK;
    if (type->tensor_type) return read_tensor_type(from, type->tensor_type, to);
    if (type->sparse_tensor_type)
        return gale__fail(GALE_UNSUPPORTED, "%s: only initialisers can be sparse", from->name.at);
    if (type->map_type) to->kind = GALE__KIND_MAP;
    if (!type->sequence_type) return GALE_OK;
    to->kind = GALE__KIND_SEQUENCE;
    type = type->sequence_type->elem_type;
    while (type && type->optional_type) type = type->optional_type->elem_type;
    if (type && type->tensor_type) GALE_TRY(read_tensor_type(from, type->tensor_type, &inner));
    to->type = inner.type;
    to->of = type && type->sequence_type ? GALE__KIND_SEQUENCE : type && type->map_type ? GALE__KIND_MAP : inner.kind;
    return GALE_OK;
}
