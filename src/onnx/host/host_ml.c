/* ai.onnx.ml's operators on strings and maps: encoders, mappers, vectorizers.  Each is a lookup of values among keys.
 * */
#include "base/num.h"
#include "onnx/host/host.h"
#include "onnx/host/lookup.h"
#include <stdlib.h>
#include <string.h>

/* --- Mappings from keys to values. --- */

/* values[places[i]], or the fallback (one element) where there is none. */
static gale_status pick(gale__onnx_host_call *call, const gale_tensor *x, const int64_t *places,
    const gale_tensor *values, const gale_tensor *fallback, gale_tensor **out)
{
    int64_t n = gale__tensor_elements(x);
    const void *from, *other;
    gale_tensor *made = NULL;
    if (values->type != fallback->type)
        return gale__fail(GALE_INVALID, "the values are %s but the default is %s", gale_type_name(values->type),
            gale_type_name(fallback->type));
    if (values->type == GALE_STRING) {
        const char **texts = gale__arena_alloc(&call->arena, ((size_t)n + 1) * sizeof *texts);
        size_t *sizes = gale__arena_alloc(&call->arena, ((size_t)n + 1) * sizeof *sizes);
        if (!texts || !sizes) return GALE_NO_MEMORY;
        for (int64_t i = 0; i < n; i++)
            texts[i] = places[i] < 0 ? gale_tensor_string(fallback, 0, &sizes[i])
                                     : gale_tensor_string(values, places[i], &sizes[i]);
        return gale_tensor_from_strings(x->rank, x->dims, texts, sizes, out);
    }
    size_t size = gale_type_size(values->type);
    GALE_TRY(gale__onnx_host_numbers(call, values, &from));
    GALE_TRY(gale__onnx_host_numbers(call, fallback, &other));
    GALE_TRY(gale_tensor_create(NULL, values->type, x->rank, x->dims, &made));
    char *to = gale_tensor_data(made);
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * size, places[i] < 0 ? other : (const char *)from + (size_t)places[i] * size, size);
    *out = made;
    return GALE_OK;
}

/* Takes over the three columns. */
static gale_status map_elements(gale__onnx_host_call *call, const gale_tensor *x, gale_tensor *columns[3])
{
    gale__onnx_lookup lookup;
    const int64_t *places;
    gale_tensor *made = NULL;
    gale_status status = GALE_OK;
    if (!columns[0] || !columns[1] || gale__tensor_elements(columns[0]) != gale__tensor_elements(columns[1]))
        status = gale__fail(GALE_INVALID, "keys and values differ in number");
    else if (gale__tensor_elements(columns[2]) != 1) status = gale__fail(GALE_INVALID, "the default must be one value");
    if (status == GALE_OK) status = gale__onnx_lookup_make(call, columns[0], &lookup);
    if (status == GALE_OK) status = gale__onnx_lookup_all(call, &lookup, x, &places);
    if (status == GALE_OK) status = pick(call, x, places, columns[1], columns[2], &made);
    for (int i = 0; i < 3; i++) gale_tensor_destroy(&columns[i]);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}

/* The default for values of a type: an attribute, or what the operator says. */
static gale_status fallback_for(gale__onnx_host_call *call, const gale_tensor *values, gale_tensor **out)
{
    const char *names[] = {"default_tensor", values->type == GALE_STRING         ? "default_string"
                                             : gale__type_is_float(values->type) ? "default_float"
                                                                                 : "default_int64"};
    for (int i = 0; i < 2; i++) {
        const gale_attr *a = gale__onnx_net_attr(call->node, names[i]);
        if (!a) continue;
        GALE_TRY(gale__onnx_attr_tensor(a, out));
        if ((*out)->type == values->type) return GALE_OK;
        if ((*out)->type == GALE_STRING || values->type == GALE_STRING || !gale__tensor_elements(*out))
            return gale_tensor_destroy(out),
                   gale__fail(GALE_INVALID, "attribute %s does not match the values", names[i]);
        break;
    }
    double v = values->type == GALE_STRING         ? 0
               : *out                              ? gale__load_f64((*out)->type, gale_tensor_data(*out))
               : gale__type_is_float(values->type) ? -0.0
                                                   : -1;
    gale_tensor_destroy(out);
    if (values->type == GALE_STRING)
        return gale_tensor_from_strings(1, &(int64_t){1}, &(const char *){"_Unused"}, NULL, out);
    GALE_TRY(gale_tensor_create(NULL, values->type, 1, &(int64_t){1}, out));
    gale__store_f64(values->type, gale_tensor_data(*out), v);
    return GALE_OK;
}

/* Numbers 0 .. n-1. */
static gale_status count_up(int64_t n, gale_tensor **out)
{
    GALE_TRY(gale_tensor_create(NULL, GALE_I64, 1, &n, out));
    for (int64_t i = 0; i < n; i++) ((int64_t *)gale_tensor_data(*out))[i] = i;
    return GALE_OK;
}

gale_status gale__onnx_host_label_encoder(gale__onnx_host_call *call)
{
    gale_tensor *x, *columns[3] = {0};
    const gale_attr *classes = gale__onnx_net_attr(call->node, "classes_strings");
    gale_status status;
    GALE_TRY(gale__onnx_host_tensor(call, 0, &x));
    if (classes) { /* the first version: strings to their places, or back */
        int keys = x->type == GALE_STRING ? 0 : 1;
        status = gale__onnx_attr_tensor(classes, &columns[keys]);
        if (status == GALE_OK) status = count_up((int64_t)classes->count, &columns[1 - keys]);
    } else {
        status = gale__onnx_lookup_column(call, "keys", &columns[0]);
        if (status == GALE_OK) status = gale__onnx_lookup_column(call, "values", &columns[1]);
    }
    if (status == GALE_OK && !columns[1]) status = gale__fail(GALE_INVALID, "missing attribute values_*");
    if (status == GALE_OK) status = fallback_for(call, columns[1], &columns[2]);
    if (status == GALE_OK) return map_elements(call, x, columns);
    for (int i = 0; i < 3; i++) gale_tensor_destroy(&columns[i]);
    return status;
}

gale_status gale__onnx_host_category_mapper(gale__onnx_host_call *call)
{
    gale_tensor *x, *columns[3] = {0};
    const gale_attr *strings = gale__onnx_net_attr(call->node, "cats_strings"),
                    *ints = gale__onnx_net_attr(call->node, "cats_int64s");
    GALE_TRY(gale__onnx_host_tensor(call, 0, &x));
    if (!strings || !ints) return gale__fail(GALE_INVALID, "attributes cats_strings and cats_int64s are both needed");
    int keys = x->type == GALE_STRING ? 0 : 1;
    gale_status status = gale__onnx_attr_tensor(strings, &columns[keys]);
    if (status == GALE_OK) status = gale__onnx_attr_tensor(ints, &columns[1 - keys]);
    if (status == GALE_OK) status = fallback_for(call, columns[1], &columns[2]);
    if (status == GALE_OK) return map_elements(call, x, columns);
    for (int i = 0; i < 3; i++) gale_tensor_destroy(&columns[i]);
    return status;
}

gale_status gale__onnx_host_one_hot_encoder(gale__onnx_host_call *call)
{
    gale_tensor *x, *keys = NULL, *made = NULL;
    gale__onnx_lookup lookup;
    const int64_t *places = NULL;
    int64_t dims[GALE_MAX_RANK];
    GALE_TRY(gale__onnx_host_tensor(call, 0, &x));
    if (x->rank == GALE_MAX_RANK) return gale__fail(GALE_LIMIT, "the result would have rank %d", GALE_MAX_RANK + 1);
    GALE_TRY(gale__onnx_lookup_column(call, "cats", &keys));
    if (!keys) return gale__fail(GALE_INVALID, "missing attribute cats_strings or cats_int64s");
    int64_t n = gale__tensor_elements(keys), count = gale__tensor_elements(x);
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank] = n;
    gale_status status = gale__onnx_lookup_make(call, keys, &lookup);
    if (status == GALE_OK) status = gale__onnx_lookup_all(call, &lookup, x, &places);
    if (status == GALE_OK) status = gale_tensor_create(NULL, GALE_F32, x->rank + 1, dims, &made);
    gale_tensor_destroy(&keys);
    if (status != GALE_OK) return status;
    float *to = memset(gale_tensor_data(made), 0, made->size_bytes);
    for (int64_t i = 0; i < count; i++) {
        if (places[i] >= 0) to[i * n + places[i]] = 1;
        else if (!gale__onnx_net_attr_i(call->node, "zeros", 1))
            return gale_tensor_destroy(&made),
                   gale__fail(GALE_INVALID, "element %lld is not in a category", (long long)i);
    }
    return gale__onnx_host_give(call, 0, &made);
}

/* --- Maps. --- */

/* The values of a map as one tensor of rank 1; all must be single elements of one type. */
static gale_status map_values(gale__onnx_host_call *call, const gale_object *map, gale_tensor **out)
{
    const gale_tensor *first = map->count ? map->items[0]->tensor : NULL;
    for (size_t i = 0; i < map->count; i++) {
        const gale_object *v = map->items[i];
        if (v->kind != GALE_OBJECT_TENSOR || v->tensor->type != first->type || gale__tensor_elements(v->tensor) != 1)
            return gale__fail(GALE_INVALID, "the values of the map must be single elements of one type");
    }
    int64_t n = (int64_t)map->count;
    if (first && first->type == GALE_STRING) {
        const char **texts = gale__arena_alloc(&call->arena, map->count * sizeof *texts);
        size_t *sizes = gale__arena_alloc(&call->arena, map->count * sizeof *sizes);
        if (!texts || !sizes) return GALE_NO_MEMORY;
        for (size_t i = 0; i < map->count; i++) texts[i] = gale_tensor_string(map->items[i]->tensor, 0, &sizes[i]);
        return gale_tensor_from_strings(1, &n, texts, sizes, out);
    }
    gale_tensor *made = NULL;
    GALE_TRY(gale_tensor_create(NULL, first ? first->type : GALE_F32, 1, &n, &made));
    size_t size = gale_type_size(made->type);
    for (size_t i = 0; i < map->count; i++) {
        gale_status status = gale_tensor_to_cpu(map->items[i]->tensor, (char *)gale_tensor_data(made) + i * size, size);
        if (status != GALE_OK) return gale_tensor_destroy(&made), status;
    }
    *out = made;
    return GALE_OK;
}

/* Elements of `values` at places[i] of a tensor of n, the others 0 or "". */
static gale_status scatter(gale__onnx_host_call *call, const gale_tensor *values, const int64_t *places, int rank,
    const int64_t *dims, gale_tensor **out)
{
    int64_t n = dims[rank - 1], count = gale__tensor_elements(values);
    int64_t *back = gale__arena_alloc(&call->arena, ((size_t)n + 1) * sizeof *back);
    gale_tensor *shape = NULL, *nothing = NULL;
    if (!back) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < n; i++) back[i] = -1;
    for (int64_t i = 0; i < count; i++) back[places[i]] = i;
    gale_status status = gale_tensor_create(NULL, GALE_U8, rank, dims, &shape);
    if (status == GALE_OK && values->type == GALE_STRING)
        status = gale_tensor_from_strings(0, NULL, &(const char *){""}, NULL, &nothing);
    else if (status == GALE_OK) status = gale_tensor_from_cpu(NULL, values->type, 0, NULL, &(uint64_t){0}, &nothing);
    if (status == GALE_OK) status = pick(call, shape, back, values, nothing, out);
    gale_tensor_destroy(&shape);
    gale_tensor_destroy(&nothing);
    return status;
}

gale_status gale__onnx_host_dict_vectorizer(gale__onnx_host_call *call)
{
    gale_object *map;
    gale_tensor *keys = NULL, *values = NULL, *made = NULL;
    gale__onnx_lookup lookup;
    const int64_t *places = NULL;
    const gale_attr *vocabulary = gale__onnx_net_attr(call->node, "string_vocabulary");
    if (!vocabulary || !vocabulary->count) vocabulary = gale__onnx_net_attr(call->node, "int64_vocabulary");
    GALE_TRY(gale__onnx_host_map(call, 0, &map));
    if (!vocabulary) return gale__fail(GALE_INVALID, "missing attribute string_vocabulary or int64_vocabulary");
    GALE_TRY(gale__onnx_attr_tensor(vocabulary, &keys));
    int64_t n = gale__tensor_elements(keys);
    gale_status status = map_values(call, map, &values);
    if (status == GALE_OK) status = gale__onnx_lookup_make(call, keys, &lookup);
    if (status == GALE_OK) status = gale__onnx_lookup_all(call, &lookup, map->tensor, &places);
    for (size_t i = 0; status == GALE_OK && i < map->count; i++)
        if (places[i] < 0) status = gale__fail(GALE_INVALID, "key %zu of the map is not in the vocabulary", i);
    if (status == GALE_OK) status = scatter(call, values, places, 1, &n, &made);
    gale_tensor_destroy(&keys);
    gale_tensor_destroy(&values);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}

/* Places of a map's values by its whole-number keys: in their order, or at them. */
static gale_status key_places(
    gale__onnx_host_call *call, const gale_object *map, bool sparse, int64_t extent, int64_t **out)
{
    const void *data;
    gale__onnx_lookup order;
    if (map->tensor->type != GALE_I64)
        return gale__fail(
            GALE_INVALID, "the keys of the map are %s, but must be integers", gale_type_name(map->tensor->type));
    GALE_TRY(gale__onnx_host_numbers(call, map->tensor, &data));
    int64_t *places = gale__arena_alloc(&call->arena, (map->count + 1) * sizeof *places);
    if (!places) return GALE_NO_MEMORY;
    GALE_TRY(gale__onnx_lookup_make(call, map->tensor, &order));
    for (size_t i = 0; i < map->count; i++) {
        int64_t key = ((const int64_t *)data)[i];
        if (sparse && (key < 0 || key >= extent))
            return gale__fail(
                GALE_INVALID, "key %lld is not less than max_map, %lld", (long long)key, (long long)extent);
        if (sparse) places[i] = key;
        else places[order.entries[i].at] = (int64_t)i;
    }
    *out = places;
    return GALE_OK;
}

gale_status gale__onnx_host_cast_map(gale__onnx_host_call *call)
{
    gale_object *map;
    gale_tensor *values = NULL, *cast = NULL, *made = NULL;
    int64_t *places = NULL;
    const char *to = gale__onnx_host_text(call, "cast_to", "TO_FLOAT");
    bool sparse = !strcmp(gale__onnx_host_text(call, "map_form", "DENSE"), "SPARSE");
    GALE_TRY(gale__onnx_host_map(call, 0, &map));
    int64_t dims[2] = {1, sparse ? gale__onnx_net_attr_i(call->node, "max_map", 1) : (int64_t)map->count};
    gale_type type = !strcmp(to, "TO_STRING") ? GALE_STRING : !strcmp(to, "TO_INT64") ? GALE_I64 : GALE_F32;
    if (type == GALE_F32 && strcmp(to, "TO_FLOAT"))
        return gale__fail(GALE_INVALID, "cast_to '%s' is not TO_FLOAT, TO_STRING or TO_INT64", to);
    if (dims[1] < 0 || dims[1] > INT32_MAX) return gale__fail(GALE_INVALID, "invalid max_map %lld", (long long)dims[1]);
    GALE_TRY(key_places(call, map, sparse, dims[1], &places));
    GALE_TRY(map_values(call, map, &values));
    gale_status status = gale__onnx_host_cast_to(call, values, type, &cast);
    if (status == GALE_OK) status = scatter(call, cast, places, 2, dims, &made);
    gale_tensor_destroy(&values);
    gale_tensor_destroy(&cast);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}

/* --- ZipMap. --- */

static gale_status make_map(gale_tensor *keys, const float *row, gale_object **out)
{
    int64_t n = gale_tensor_dims(keys)[0];
    gale_status status = GALE_OK;
    gale_object **values = gale__calloc((size_t)n + 1, sizeof *values);
    if (!values) return GALE_NO_MEMORY;
    for (int64_t i = 0; i < n && status == GALE_OK; i++) {
        gale_tensor *v = NULL;
        status = gale_tensor_from_cpu(NULL, GALE_F32, 0, NULL, &row[i], &v);
        if (status == GALE_OK) status = gale__onnx_object_take(&v, &values[i]);
    }
    if (status == GALE_OK) status = gale_object_map(keys, values, out);
    for (int64_t i = 0; i < n; i++) gale_object_destroy(&values[i]);
    gale__free(values);
    return status;
}

gale_status gale__onnx_host_zip_map(gale__onnx_host_call *call)
{
    gale_tensor *x, *keys = NULL;
    gale_object *made = NULL;
    const void *data = NULL;
    GALE_TRY(gale__onnx_host_tensor(call, 0, &x));
    if (x->type != GALE_F32 || x->rank < 1 || x->rank > 2)
        return gale__fail(GALE_INVALID, "the values are %s of rank %d, but must be f32 of rank 1 or 2",
            gale_type_name(x->type), x->rank);
    int64_t rows = x->rank == 2 ? x->dims[0] : 1, columns = x->dims[x->rank - 1];
    GALE_TRY(gale__onnx_lookup_column(call, "classlabels", &keys));
    gale_status status = keys && gale__tensor_elements(keys) == columns
                             ? GALE_OK
                             : gale__fail(GALE_INVALID, "the number of labels differs from the number of columns, %lld",
                                   (long long)columns);
    if (status == GALE_OK) status = gale__onnx_host_numbers(call, x, &data);
    if (status == GALE_OK) status = gale__onnx_object_room((size_t)rows, &made);
    for (int64_t i = 0; i < rows && status == GALE_OK; i++) {
        gale_object *map = NULL;
        status = make_map(keys, (const float *)data + i * columns, &map);
        if (status == GALE_OK) status = gale__onnx_object_put(made, (size_t)i, map);
    }
    gale_tensor_destroy(&keys);
    if (status != GALE_OK) return gale_object_destroy(&made), status;
    call->out[0] = made;
    return GALE_OK;
}
