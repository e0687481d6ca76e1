/* ONNX's messages as they stand in a file: one struct a message, read and written by one walk over the tables of
 * schema.c.
 *
 * Everything is in the arena of the file that was opened, except large raw tensor data, which stays in the file until
 * somebody wants it.  Text ends with a zero byte that `size` does not count; one that the file does not have is "",
 * never NULL. */
#ifndef GALE_ONNX_PROTO_H
#define GALE_ONNX_PROTO_H
#include "base/hash.h"
#include "base/str.h"
#include "gale/graph.h"

typedef struct gale__pb_text {
    const char *at;
    size_t size;
} gale__pb_text;
#define GALE__LIST(T) \
    struct {          \
        T *at;        \
        size_t n;     \
    }

/* Every message begins alike: which fields were there (bit i: row i of its table), and what no table knows, kept for
 * writing. */
typedef struct gale__pb_head {
    uint64_t present;
    GALE__LIST(gale__pb_text) unknown;
} gale__pb_head;

typedef struct gale__pb_entry {
    gale__pb_head head;
    gale__pb_text key, value;
} gale__pb_entry; /* StringStringEntryProto */
typedef struct gale__pb_opset {
    gale__pb_head head;
    gale__pb_text domain;
    int64_t version;
} gale__pb_opset;
typedef struct gale__pb_segment {
    gale__pb_head head;
    int64_t begin, end;
} gale__pb_segment;

typedef struct gale__pb_tensor {
    gale__pb_head head;
    GALE__LIST(int64_t) dims;
    int32_t data_type, data_location;
    gale__pb_segment *segment;
    GALE__LIST(float) float_data;
    GALE__LIST(int32_t) int32_data;
    GALE__LIST(gale__pb_text) string_data;
    GALE__LIST(int64_t) int64_data;
    GALE__LIST(double) double_data;
    GALE__LIST(uint64_t) uint64_data;
    gale__pb_text name, doc_string;
    gale__pb_text raw_data; /* at NULL and size > 0: in the file, at raw_offset */
    uint64_t raw_offset;
    GALE__LIST(gale__pb_entry) external_data, metadata_props;
} gale__pb_tensor;

typedef struct gale__pb_sparse {
    gale__pb_head head;
    gale__pb_tensor *values, *indices;
    GALE__LIST(int64_t) dims;
} gale__pb_sparse;

typedef struct gale__pb_dim {
    gale__pb_head head;
    int64_t dim_value;
    gale__pb_text dim_param, denotation;
    bool has_value;
} gale__pb_dim;
typedef struct gale__pb_shape {
    gale__pb_head head;
    GALE__LIST(gale__pb_dim) dim;
} gale__pb_shape;
typedef struct gale__pb_tensor_type {
    gale__pb_head head;
    int32_t elem_type;
    gale__pb_shape *shape;
} gale__pb_tensor_type;
typedef struct gale__pb_type gale__pb_type;
typedef struct gale__pb_element_type {
    gale__pb_head head;
    gale__pb_type *elem_type;
} gale__pb_element_type; /* of sequences and optionals */
typedef struct gale__pb_map_type {
    gale__pb_head head;
    int32_t key_type;
    gale__pb_type *value_type;
} gale__pb_map_type;
struct gale__pb_type {
    gale__pb_head head;
    gale__pb_tensor_type *tensor_type, *sparse_tensor_type;
    gale__pb_element_type *sequence_type, *optional_type;
    gale__pb_map_type *map_type;
    gale__pb_text denotation;
};
typedef struct gale__pb_value_info {
    gale__pb_head head;
    gale__pb_text name, doc_string;
    gale__pb_type *type;
    GALE__LIST(gale__pb_entry) metadata_props;
} gale__pb_value_info;

typedef struct gale__pb_graph gale__pb_graph;
/* AttributeProto.type */
typedef enum gale__pb_attr_type {
    GALE__PB_FLOAT = 1,
    GALE__PB_INT,
    GALE__PB_STRING,
    GALE__PB_TENSOR,
    GALE__PB_GRAPH,
    GALE__PB_FLOATS,
    GALE__PB_INTS,
    GALE__PB_STRINGS,
    GALE__PB_TENSORS,
    GALE__PB_GRAPHS,
    GALE__PB_SPARSE,
    GALE__PB_SPARSES,
    GALE__PB_TYPE,
    GALE__PB_TYPES
} gale__pb_attr_type;
typedef struct gale__pb_attribute {
    gale__pb_head head;
    gale__pb_text name, ref_attr_name, doc_string, s;
    int32_t type;
    float f;
    int64_t i;
    gale__pb_tensor *t;
    gale__pb_graph *g;
    gale__pb_sparse *sparse_tensor;
    gale__pb_type *tp;
    GALE__LIST(float) floats;
    GALE__LIST(int64_t) ints;
    GALE__LIST(gale__pb_text) strings;
    GALE__LIST(gale__pb_tensor) tensors;
    GALE__LIST(gale__pb_graph) graphs;
    GALE__LIST(gale__pb_sparse) sparse_tensors;
    GALE__LIST(gale__pb_type) type_protos;
} gale__pb_attribute;

typedef struct gale__pb_node {
    gale__pb_head head;
    GALE__LIST(gale__pb_text) input, output;
    gale__pb_text name, op_type, domain, overload, doc_string;
    GALE__LIST(gale__pb_attribute) attribute;
    GALE__LIST(gale__pb_entry) metadata_props;
} gale__pb_node;

struct gale__pb_graph {
    gale__pb_head head;
    gale__pb_text name, doc_string;
    GALE__LIST(gale__pb_node) node;
    GALE__LIST(gale__pb_tensor) initializer;
    GALE__LIST(gale__pb_sparse) sparse_initializer;
    GALE__LIST(gale__pb_value_info) input, output, value_info;
    GALE__LIST(gale__pb_entry) metadata_props;
};

typedef struct gale__pb_function {
    gale__pb_head head;
    gale__pb_text name, domain, overload, doc_string;
    GALE__LIST(gale__pb_text) input, output, attribute;
    GALE__LIST(gale__pb_attribute) attribute_proto;
    GALE__LIST(gale__pb_node) node;
    GALE__LIST(gale__pb_opset) opset_import;
    GALE__LIST(gale__pb_value_info) value_info;
    GALE__LIST(gale__pb_entry) metadata_props;
} gale__pb_function;

typedef struct gale__pb_model {
    gale__pb_head head;
    int64_t ir_version, model_version;
    GALE__LIST(gale__pb_opset) opset_import;
    gale__pb_text producer_name, producer_version, domain, doc_string;
    gale__pb_graph *graph;
    GALE__LIST(gale__pb_entry) metadata_props;
    GALE__LIST(gale__pb_function) functions;
} gale__pb_model;

/* Values in files of their own (test data): TensorProto, or one of these. */
typedef struct gale__pb_sequence gale__pb_sequence;
typedef struct gale__pb_map gale__pb_map;
typedef struct gale__pb_optional gale__pb_optional;
struct gale__pb_sequence {
    gale__pb_head head;
    gale__pb_text name;
    int32_t elem_type; /* 1 tensor, 2 sparse, 3 sequence, 4 map, 5 optional */
    GALE__LIST(gale__pb_tensor) tensor_values;
    GALE__LIST(gale__pb_sparse) sparse_tensor_values;
    GALE__LIST(gale__pb_sequence) sequence_values;
    GALE__LIST(gale__pb_map) map_values;
    GALE__LIST(gale__pb_optional) optional_values;
};
struct gale__pb_map {
    gale__pb_head head;
    gale__pb_text name;
    int32_t key_type;
    GALE__LIST(int64_t) keys;
    GALE__LIST(gale__pb_text) string_keys;
    gale__pb_sequence *values;
};
struct gale__pb_optional {
    gale__pb_head head;
    gale__pb_text name;
    int32_t elem_type; /* as a sequence's; 0 none */
    gale__pb_tensor *tensor_value;
    gale__pb_sparse *sparse_tensor_value;
    gale__pb_sequence *sequence_value;
    gale__pb_map *map_value;
    gale__pb_optional *optional_value;
};

/* An opened file, counted: tensors made from it hold it. */
typedef struct gale__onnx gale__onnx;
typedef enum gale__pb_kind {
    GALE__PB_KIND_MODEL,
    GALE__PB_KIND_TENSOR,
    GALE__PB_KIND_SEQUENCE,
    GALE__PB_KIND_MAP,
    GALE__PB_KIND_OPTIONAL,
    GALE__PB_KIND_TYPE
} gale__pb_kind;
/* path: also where external data is looked for.  Errors name the file and the place ("model.onnx,
 * graph.node[3].attribute[1]: ..."). */
gale_status gale__onnx_open(const char *path, gale__pb_kind kind, gale__onnx **out);
/* The same bytes as messages of their own. */
gale_status gale__onnx_again(gale__onnx *file, gale__onnx **out);
/* Adds samples of the bytes, without external data. */
gale_status gale__onnx_sample(const gale__onnx *file, gale__sha *sha /* begun */);
/* From memory, which is copied when `copy`, else must outlive the file.  folder (may be NULL): for external data. */
gale_status gale__onnx_parse(
    const void *data, size_t size, bool copy, const char *folder, gale__pb_kind kind, gale__onnx **out);
void gale__onnx_hold(gale__onnx *file);
void gale__onnx_close(gale__onnx **file);
void *gale__onnx_root(gale__onnx *file);             /* a gale__pb_model, gale__pb_tensor ..., by kind */
gale__arena *gale__onnx_arena(gale__onnx *file);     /* for messages that are added */
const char *gale__onnx_path(const gale__onnx *file); /* "model.onnx", or "(memory)" */

/* The message as bytes, and as a file (temporary file, renamed).  What was read is written again, also fields that no
 * table knows; a scalar that is not zero and a text that is not empty are written without their bit in `present`. Large
 * raw data is copied from file to file.  external_path: a name beside the file, where raw data of initialisers above 1
 * KiB goes; NULL: all data comes inside. */
gale_status gale__onnx_encode(gale__onnx *file, gale__pb_kind kind, const void *message, gale__str *out);
gale_status gale__onnx_pack(gale__onnx *file, const gale__pb_model *model, gale__str *out); /* with all data inside */
/* GALE_INVALID where the path is a file of external data that was read so far; gale__onnx_write asks this itself. */
gale_status gale__onnx_check_outside(gale__onnx *file, const char *path);
gale_status gale__onnx_write(
    gale__onnx *file, const gale__pb_model *model, const char *path, const char *external_path);

/* ONNX's number of an element type, and back (-1: none). */
int gale__onnx_type_number(gale_type type);
int gale__onnx_type(int64_t number);
/* A tensor of the message: checked, unpacked (types under 8 bits: one byte an element), strings included, external data
 * found and its path kept inside the model's folder.  Large raw data is borrowed from the file.  Errors name the
 * tensor, not the file. */
gale_status gale__onnx_tensor(gale__onnx *file, const gale__pb_tensor *message, gale_tensor **out);
gale_status gale__onnx_sparse(gale__onnx *file, const gale__pb_sparse *message, gale_tensor **out); /* made dense */
/* A host tensor as a message in the arena. */
gale_status gale__onnx_from_tensor(
    gale__arena *arena, const gale_tensor *tensor, const char *name, gale__pb_tensor *out);
#endif
