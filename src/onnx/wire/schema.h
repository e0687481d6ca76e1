/* The messages as tables: what read.c and write.c walk over.  A new field is a row in schema.c and a member in proto.h.
 */
#ifndef GALE_ONNX_SCHEMA_H
#define GALE_ONNX_SCHEMA_H
#include "onnx/wire/proto.h"

#define GALE__PB_MESSAGES(X) \
    X(entry)                 \
    X(opset)                 \
    X(segment)               \
    X(tensor)                \
    X(sparse)                \
    X(dim)                   \
    X(shape)                 \
    X(tensor_type)           \
    X(type)                  \
    X(element_type)          \
    X(map_type)              \
    X(value_info)            \
    X(attribute)             \
    X(node)                  \
    X(graph)                 \
    X(function)              \
    X(model)                 \
    X(sequence)              \
    X(map)                   \
    X(optional)
typedef enum gale__pb_which {
#define X(name) GALE__PB_IS_##name,
    GALE__PB_MESSAGES(X)
#undef X
        GALE__PB_MESSAGE_COUNT
} gale__pb_which;

enum { GALE__PB_MOST_FIELDS = 24 };
typedef enum gale__pb_field_kind {
    GALE__PB_I32,
    GALE__PB_I64,
    GALE__PB_U64,
    GALE__PB_F32,
    GALE__PB_F64,
    GALE__PB_TEXT,
    GALE__PB_RAW /* bytes of a tensor, left in the file when large */,
    GALE__PB_MESSAGE
} gale__pb_field_kind;
typedef struct gale__pb_field {
    const char *name;
    uint8_t number, kind; /* kind: gale__pb_field_kind */
    bool list, packed;    /* packed: written so.  Both forms are read */
    uint8_t choice;       /* not 0: at most one field with this number is there, the last one read */
    uint8_t message;      /* gale__pb_which, of MESSAGE */
    uint16_t offset;
    uint16_t flag; /* not 0: offset of a bool that says whether the field is there */
} gale__pb_field;
typedef struct gale__pb_table {
    const char *name; /* as in ONNX's own text */
    size_t size_bytes;
    const gale__pb_field *fields;
    int n_fields;
} gale__pb_table;
extern const gale__pb_table gale__pb_tables[GALE__PB_MESSAGE_COUNT];
gale__pb_which gale__pb_of_kind(gale__pb_kind kind);
size_t gale__pb_item_bytes(const gale__pb_field *field); /* one value, in memory */

/* Any of GALE__LIST's lists; carried over with memcpy, since their pointers are of other types. */
typedef struct gale__pb_list {
    void *at;
    size_t n;
} gale__pb_list;
#endif
