/* Objects from files of test data: a TensorProto, SequenceProto, MapProto or OptionalProto, whichever the caller
 * expects. */
#include "base/file.h"
#include "onnx/run/object.h"
#include "onnx/wire/proto.h"

enum { DEPTH_MAX = 16 };
static gale_status from_sequence(gale__onnx *file, const gale__pb_sequence *m, int depth, gale_object **out);
static gale_status from_optional(gale__onnx *file, const gale__pb_optional *m, int depth, gale_object **out);

/* In memory of its own: the file may go. */
static gale_status from_tensor(gale__onnx *file, const gale__pb_tensor *m, gale_object **out)
{
    gale_tensor *tensor = NULL, *own = NULL;
    GALE_TRY(gale__onnx_tensor(file, m, &tensor));
    gale_status status = gale_tensor_to_device(tensor, NULL, &own);
    gale_tensor_destroy(&tensor);
    return status == GALE_OK ? gale__onnx_object_take(&own, out) : status;
}

static gale_status from_sparse(gale__onnx *file, const gale__pb_sparse *m, gale_object **out)
{
    gale_tensor *tensor = NULL;
    GALE_TRY(gale__onnx_sparse(file, m, &tensor));
    return gale__onnx_object_take(&tensor, out);
}

static gale_status map_keys(const gale__pb_map *m, size_t n, gale_tensor **out)
{
    int64_t dims = (int64_t)n;
    gale_status status = GALE_OK;
    if (!m->string_keys.n) return gale_tensor_from_cpu(NULL, GALE_I64, 1, &dims, m->keys.at, out);
    const char **texts = gale__calloc(n + 1, sizeof *texts);
    size_t *sizes = gale__calloc(n + 1, sizeof *sizes);
    if (!texts || !sizes) status = GALE_NO_MEMORY;
    for (size_t i = 0; status == GALE_OK && i < n; i++)
        texts[i] = m->string_keys.at[i].at, sizes[i] = m->string_keys.at[i].size;
    if (status == GALE_OK) status = gale_tensor_from_strings(1, &dims, texts, sizes, out);
    gale__free(texts);
    gale__free(sizes);
    return status;
}

static gale_status from_map(gale__onnx *file, const gale__pb_map *m, int depth, gale_object **out)
{
    size_t n = m->string_keys.n ? m->string_keys.n : m->keys.n;
    gale_object *values = NULL;
    gale_tensor *keys = NULL;
    if (!m->values) return gale__fail(GALE_FORMAT, "a map has no values");
    GALE_TRY(from_sequence(file, m->values, depth + 1, &values));
    gale_status status = gale_object_count(values) == n ? map_keys(m, n, &keys)
                                                        : gale__fail(GALE_FORMAT, "a map has %zu keys and %zu values",
                                                              n, gale_object_count(values));
    if (status == GALE_OK) status = gale_object_map(keys, values->items, out);
    gale_tensor_destroy(&keys);
    gale_object_destroy(&values);
    return status;
}

static gale_status item_of(gale__onnx *file, const gale__pb_sequence *m, size_t i, int depth, gale_object **out)
{
    if (m->tensor_values.n) return from_tensor(file, &m->tensor_values.at[i], out);
    if (m->sparse_tensor_values.n) return from_sparse(file, &m->sparse_tensor_values.at[i], out);
    if (m->sequence_values.n) return from_sequence(file, &m->sequence_values.at[i], depth + 1, out);
    if (m->map_values.n) return from_map(file, &m->map_values.at[i], depth + 1, out);
    return from_optional(file, &m->optional_values.at[i], depth + 1, out);
}

static gale_status from_sequence(gale__onnx *file, const gale__pb_sequence *m, int depth, gale_object **out)
{
    size_t n = m->tensor_values.n          ? m->tensor_values.n
               : m->sparse_tensor_values.n ? m->sparse_tensor_values.n
               : m->sequence_values.n      ? m->sequence_values.n
               : m->map_values.n           ? m->map_values.n
                                           : m->optional_values.n;
    if (depth > DEPTH_MAX) return gale__fail(GALE_LIMIT, "values are nested more than %d levels deep", DEPTH_MAX);
    gale_object **items = gale__calloc(n + 1, sizeof *items);
    gale_status status = items ? GALE_OK : GALE_NO_MEMORY;
    for (size_t i = 0; status == GALE_OK && i < n; i++) status = item_of(file, m, i, depth, &items[i]);
    if (status == GALE_OK) status = gale_object_sequence(items, n, out);
    for (size_t i = 0; items && i < n; i++) gale_object_destroy(&items[i]);
    gale__free(items);
    return status;
}

static gale_status from_optional(gale__onnx *file, const gale__pb_optional *m, int depth, gale_object **out)
{
    if (depth > DEPTH_MAX) return gale__fail(GALE_LIMIT, "values are nested more than %d levels deep", DEPTH_MAX);
    if (m->tensor_value) return from_tensor(file, m->tensor_value, out);
    if (m->sparse_tensor_value) return from_sparse(file, m->sparse_tensor_value, out);
    if (m->sequence_value) return from_sequence(file, m->sequence_value, depth + 1, out);
    if (m->map_value) return from_map(file, m->map_value, depth + 1, out);
    if (m->optional_value) return from_optional(file, m->optional_value, depth + 1, out);
    return gale_object_none(out);
}

gale_status gale__onnx_object_read(const char *path, const gale_model_value *want, gale_object **out)
{
    gale__onnx *file = NULL;
    gale__pb_kind kind = want->optional                       ? GALE__PB_KIND_OPTIONAL
                         : want->kind == GALE_OBJECT_SEQUENCE ? GALE__PB_KIND_SEQUENCE
                         : want->kind == GALE_OBJECT_MAP      ? GALE__PB_KIND_MAP
                                                              : GALE__PB_KIND_TENSOR;
    GALE_TRY(gale__onnx_open(path, kind, &file));
    void *m = gale__onnx_root(file);
    gale_status status = kind == GALE__PB_KIND_OPTIONAL   ? from_optional(file, m, 0, out)
                         : kind == GALE__PB_KIND_SEQUENCE ? from_sequence(file, m, 0, out)
                         : kind == GALE__PB_KIND_MAP      ? from_map(file, m, 0, out)
                                                          : from_tensor(file, m, out);
    gale__onnx_close(&file);
    return status == GALE_OK ? status : gale__fail_within(status, "%s", path);
}

/* --- Writing. --- */

static gale_status to_map(gale__arena *a, const gale_object *o, gale__pb_map *m);

/* What a SequenceProto calls the kind of its elements. */
static int32_t element_kind(const gale_object *o)
{
    return o->kind == GALE_OBJECT_SEQUENCE ? 3 : o->kind == GALE_OBJECT_MAP ? 4 : 1;
}

#define ROOM(list, count) \
    (!(count) || ((list).n = (count), (list).at = gale__arena_alloc(a, (count) * sizeof *(list).at)))

static gale_status to_sequence(gale__arena *a, gale_object *const *items, size_t n, gale__pb_sequence *m)
{
    m->elem_type = n ? element_kind(items[0]) : 1;
    bool room = m->elem_type == 3   ? ROOM(m->sequence_values, n)
                : m->elem_type == 4 ? ROOM(m->map_values, n)
                                    : ROOM(m->tensor_values, n);
    if (!room) return GALE_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (items[i]->kind == GALE_OBJECT_NONE || element_kind(items[i]) != m->elem_type)
            return gale__fail(GALE_UNSUPPORTED, "the items of a sequence have different types");
        if (m->elem_type == 3) GALE_TRY(to_sequence(a, items[i]->items, items[i]->count, &m->sequence_values.at[i]));
        else if (m->elem_type == 4) GALE_TRY(to_map(a, items[i], &m->map_values.at[i]));
        else GALE_TRY(gale__onnx_from_tensor(a, items[i]->tensor, "", &m->tensor_values.at[i]));
    }
    return GALE_OK;
}

static gale_status to_map(gale__arena *a, const gale_object *o, gale__pb_map *m)
{
    bool strings = gale_tensor_type(o->tensor) == GALE_STRING;
    m->key_type = gale__onnx_type_number(gale_tensor_type(o->tensor));
    m->values = gale__arena_alloc(a, sizeof *m->values);
    if (!m->values || !(strings ? ROOM(m->string_keys, o->count) : ROOM(m->keys, o->count))) return GALE_NO_MEMORY;
    for (size_t i = 0; strings && i < o->count; i++)
        m->string_keys.at[i].at = gale_tensor_string(o->tensor, (int64_t)i, &m->string_keys.at[i].size);
    if (!strings && o->count) GALE_TRY(gale_tensor_to_cpu(o->tensor, m->keys.at, o->count * sizeof *m->keys.at));
    return to_sequence(a, o->items, o->count, m->values);
}

gale_status gale__onnx_object_write(const char *path, const gale_object *o)
{
    gale__arena arena = {0};
    gale__str text = {0};
    gale_status status;
    gale__pb_tensor tensor = {0};
    gale__pb_sequence sequence = {0};
    gale__pb_map map = {0};
    gale__pb_optional optional = {0};
    switch (o->kind) {
    case GALE_OBJECT_TENSOR:
        GALE_GO(gale__onnx_from_tensor(&arena, o->tensor, "", &tensor));
        GALE_GO(gale__onnx_encode(NULL, GALE__PB_KIND_TENSOR, &tensor, &text));
        break;
    case GALE_OBJECT_SEQUENCE:
        GALE_GO(to_sequence(&arena, o->items, o->count, &sequence));
        GALE_GO(gale__onnx_encode(NULL, GALE__PB_KIND_SEQUENCE, &sequence, &text));
        break;
    case GALE_OBJECT_MAP:
        GALE_GO(to_map(&arena, o, &map));
        GALE_GO(gale__onnx_encode(NULL, GALE__PB_KIND_MAP, &map, &text));
        break;
    case GALE_OBJECT_NONE: GALE_GO(gale__onnx_encode(NULL, GALE__PB_KIND_OPTIONAL, &optional, &text)); break;
    }
    GALE_GO(gale__str_check(&text));
    status = gale__file_write(path, gale__str_text(&text), text.length);
done:
    gale__arena_finish(&arena);
    gale__str_finish(&text);
    return status;
}
