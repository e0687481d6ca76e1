/* ONNX's messages, one table each, in the order of field numbers: the order that other programs write, so that a file
 * that is read and written again mostly keeps its bytes.  Unknown fields (training, sharding, annotations) are
 * preserved. */
#include "onnx/wire/schema.h"

#define ROW(m, n, k, f) .name = #f, .number = n, .kind = GALE__PB_##k, .offset = offsetof(gale__pb_##m, f)
#define ONE(m, n, k, f) \
    {                   \
        ROW(m, n, k, f) \
    }
#define MANY(m, n, k, f)              \
    {                                 \
        ROW(m, n, k, f), .list = true \
    }
#define PACKED(m, n, k, f)                            \
    {                                                 \
        ROW(m, n, k, f), .list = true, .packed = true \
    }
#define SUB(m, n, of, f)                                   \
    {                                                      \
        ROW(m, n, MESSAGE, f), .message = GALE__PB_IS_##of \
    }
#define SUBS(m, n, of, f)                                                \
    {                                                                    \
        ROW(m, n, MESSAGE, f), .message = GALE__PB_IS_##of, .list = true \
    }
#define EITHER(m, n, of, f)                                             \
    {                                                                   \
        ROW(m, n, MESSAGE, f), .message = GALE__PB_IS_##of, .choice = 1 \
    }

static const gale__pb_field entry_fields[] = {ONE(entry, 1, TEXT, key), ONE(entry, 2, TEXT, value)};
static const gale__pb_field opset_fields[] = {ONE(opset, 1, TEXT, domain), ONE(opset, 2, I64, version)};
static const gale__pb_field segment_fields[] = {ONE(segment, 1, I64, begin), ONE(segment, 2, I64, end)};

static const gale__pb_field tensor_fields[] = {
    MANY(tensor, 1, I64, dims),
    ONE(tensor, 2, I32, data_type),
    SUB(tensor, 3, segment, segment),
    PACKED(tensor, 4, F32, float_data),
    PACKED(tensor, 5, I32, int32_data),
    MANY(tensor, 6, TEXT, string_data),
    PACKED(tensor, 7, I64, int64_data),
    ONE(tensor, 8, TEXT, name),
    ONE(tensor, 9, RAW, raw_data),
    PACKED(tensor, 10, F64, double_data),
    PACKED(tensor, 11, U64, uint64_data),
    ONE(tensor, 12, TEXT, doc_string),
    SUBS(tensor, 13, entry, external_data),
    ONE(tensor, 14, I32, data_location),
    SUBS(tensor, 16, entry, metadata_props),
};
static const gale__pb_field sparse_fields[] = {
    SUB(sparse, 1, tensor, values), SUB(sparse, 2, tensor, indices), MANY(sparse, 3, I64, dims)};

static const gale__pb_field dim_fields[] = {
    {ROW(dim, 1, I64, dim_value), .choice = 1, .flag = offsetof(gale__pb_dim, has_value)},
    {ROW(dim, 2, TEXT, dim_param), .choice = 1},
    ONE(dim, 3, TEXT, denotation),
};
static const gale__pb_field shape_fields[] = {SUBS(shape, 1, dim, dim)};
static const gale__pb_field tensor_type_fields[] = {
    ONE(tensor_type, 1, I32, elem_type), SUB(tensor_type, 2, shape, shape)};
static const gale__pb_field element_type_fields[] = {SUB(element_type, 1, type, elem_type)};
static const gale__pb_field map_type_fields[] = {ONE(map_type, 1, I32, key_type), SUB(map_type, 2, type, value_type)};
static const gale__pb_field type_fields[] = {
    EITHER(type, 1, tensor_type, tensor_type),
    EITHER(type, 4, element_type, sequence_type),
    EITHER(type, 5, map_type, map_type),
    ONE(type, 6, TEXT, denotation),
    EITHER(type, 8, tensor_type, sparse_tensor_type),
    EITHER(type, 9, element_type, optional_type),
};
static const gale__pb_field value_info_fields[] = {
    ONE(value_info, 1, TEXT, name),
    SUB(value_info, 2, type, type),
    ONE(value_info, 3, TEXT, doc_string),
    SUBS(value_info, 4, entry, metadata_props),
};

static const gale__pb_field attribute_fields[] = {
    ONE(attribute, 1, TEXT, name),
    ONE(attribute, 2, F32, f),
    ONE(attribute, 3, I64, i),
    ONE(attribute, 4, TEXT, s),
    SUB(attribute, 5, tensor, t),
    SUB(attribute, 6, graph, g),
    MANY(attribute, 7, F32, floats),
    MANY(attribute, 8, I64, ints),
    MANY(attribute, 9, TEXT, strings),
    SUBS(attribute, 10, tensor, tensors),
    SUBS(attribute, 11, graph, graphs),
    ONE(attribute, 13, TEXT, doc_string),
    SUB(attribute, 14, type, tp),
    SUBS(attribute, 15, type, type_protos),
    ONE(attribute, 20, I32, type),
    ONE(attribute, 21, TEXT, ref_attr_name),
    SUB(attribute, 22, sparse, sparse_tensor),
    SUBS(attribute, 23, sparse, sparse_tensors),
};
static const gale__pb_field node_fields[] = {
    MANY(node, 1, TEXT, input),
    MANY(node, 2, TEXT, output),
    ONE(node, 3, TEXT, name),
    ONE(node, 4, TEXT, op_type),
    SUBS(node, 5, attribute, attribute),
    ONE(node, 6, TEXT, doc_string),
    ONE(node, 7, TEXT, domain),
    ONE(node, 8, TEXT, overload),
    SUBS(node, 9, entry, metadata_props),
};
static const gale__pb_field graph_fields[] = {
    SUBS(graph, 1, node, node),
    ONE(graph, 2, TEXT, name),
    SUBS(graph, 5, tensor, initializer),
    ONE(graph, 10, TEXT, doc_string),
    SUBS(graph, 11, value_info, input),
    SUBS(graph, 12, value_info, output),
    SUBS(graph, 13, value_info, value_info),
    SUBS(graph, 15, sparse, sparse_initializer),
    SUBS(graph, 16, entry, metadata_props),
};
static const gale__pb_field function_fields[] = {
    ONE(function, 1, TEXT, name),
    MANY(function, 4, TEXT, input),
    MANY(function, 5, TEXT, output),
    MANY(function, 6, TEXT, attribute),
    SUBS(function, 7, node, node),
    ONE(function, 8, TEXT, doc_string),
    SUBS(function, 9, opset, opset_import),
    ONE(function, 10, TEXT, domain),
    SUBS(function, 11, attribute, attribute_proto),
    SUBS(function, 12, value_info, value_info),
    ONE(function, 13, TEXT, overload),
    SUBS(function, 14, entry, metadata_props),
};
static const gale__pb_field model_fields[] = {
    ONE(model, 1, I64, ir_version),
    ONE(model, 2, TEXT, producer_name),
    ONE(model, 3, TEXT, producer_version),
    ONE(model, 4, TEXT, domain),
    ONE(model, 5, I64, model_version),
    ONE(model, 6, TEXT, doc_string),
    SUB(model, 7, graph, graph),
    SUBS(model, 8, opset, opset_import),
    SUBS(model, 14, entry, metadata_props),
    SUBS(model, 25, function, functions),
};

static const gale__pb_field sequence_fields[] = {
    ONE(sequence, 1, TEXT, name),
    ONE(sequence, 2, I32, elem_type),
    SUBS(sequence, 3, tensor, tensor_values),
    SUBS(sequence, 4, sparse, sparse_tensor_values),
    SUBS(sequence, 5, sequence, sequence_values),
    SUBS(sequence, 6, map, map_values),
    SUBS(sequence, 7, optional, optional_values),
};
static const gale__pb_field map_fields[] = {
    ONE(map, 1, TEXT, name),
    ONE(map, 2, I32, key_type),
    MANY(map, 3, I64, keys),
    MANY(map, 4, TEXT, string_keys),
    SUB(map, 5, sequence, values),
};
static const gale__pb_field optional_fields[] = {
    ONE(optional, 1, TEXT, name),
    ONE(optional, 2, I32, elem_type),
    SUB(optional, 3, tensor, tensor_value),
    SUB(optional, 4, sparse, sparse_tensor_value),
    SUB(optional, 5, sequence, sequence_value),
    SUB(optional, 6, map, map_value),
    SUB(optional, 7, optional, optional_value),
};

const gale__pb_table gale__pb_tables[GALE__PB_MESSAGE_COUNT] = {
#define X(m) {#m, sizeof(gale__pb_##m), m##_fields, (int)(sizeof m##_fields / sizeof *m##_fields)},
    GALE__PB_MESSAGES(X)
#undef X
};
#define X(m)                                                                                                      \
    _Static_assert(sizeof m##_fields / sizeof *m##_fields <= GALE__PB_MOST_FIELDS, "GALE__PB_MOST_FIELDS is too " \
                                                                                   "small");
GALE__PB_MESSAGES(X)
#undef X

gale__pb_which gale__pb_of_kind(gale__pb_kind kind)
{
    switch (kind) {
    case GALE__PB_KIND_TENSOR: return GALE__PB_IS_tensor;
    case GALE__PB_KIND_SEQUENCE: return GALE__PB_IS_sequence;
    case GALE__PB_KIND_MAP: return GALE__PB_IS_map;
    case GALE__PB_KIND_OPTIONAL: return GALE__PB_IS_optional;
    case GALE__PB_KIND_TYPE: return GALE__PB_IS_type;
    case GALE__PB_KIND_MODEL: break;
    }
    return GALE__PB_IS_model;
}

size_t gale__pb_item_bytes(const gale__pb_field *field)
{
    switch (field->kind) {
    case GALE__PB_I32:
    case GALE__PB_F32: return 4;
    case GALE__PB_I64:
    case GALE__PB_U64:
    case GALE__PB_F64: return 8;
    case GALE__PB_MESSAGE: return gale__pb_tables[field->message].size_bytes;
    default: return sizeof(gale__pb_text);
    }
}
