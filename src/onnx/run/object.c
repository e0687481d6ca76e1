/* Objects: reference-counted, immutable values around tensors.  A sequence holds its items, so passing it on, or
 * taking an item out or putting one in, moves references and no data. */
#include "onnx/run/object.h"
#include "base/mem.h"
#include <stdatomic.h>

static gale_status new_object(gale_object_kind kind, size_t count, gale_object **out)
{
    gale_object *o = gale__calloc(1, sizeof *o);
    if (!o) return GALE_NO_MEMORY;
    atomic_init(&o->refs, 1);
    o->kind = kind;
    if (count && !(o->items = gale__calloc(count, sizeof *o->items))) return gale__free(o), GALE_NO_MEMORY;
    o->count = count;
    *out = o;
    return GALE_OK;
}

gale_object *gale__onnx_object_hold(gale_object *object)
{
    if (object) atomic_fetch_add(&object->refs, 1);
    return object;
}

void gale_object_destroy(gale_object **object)
{
    if (!object || !*object) return;
    gale_object *o = *object;
    *object = NULL;
    if (atomic_fetch_sub(&o->refs, 1) != 1) return;
    for (size_t i = 0; i < o->count; i++) gale_object_destroy(&o->items[i]);
    gale__free(o->items);
    gale_tensor_destroy(&o->tensor);
    gale__free(o);
}

gale_status gale_object_none(gale_object **out)
{
    GALE__NEED({"out", out});
    return new_object(GALE_OBJECT_NONE, 0, out);
}

gale_status gale__onnx_object_take(gale_tensor **tensor, gale_object **out)
{
    gale_object *o;
    gale_status status = new_object(GALE_OBJECT_TENSOR, 0, &o);
    if (status != GALE_OK) return gale_tensor_destroy(tensor), status;
    o->tensor = *tensor;
    *tensor = NULL;
    *out = o;
    return GALE_OK;
}

gale_status gale_object_tensor(gale_tensor *tensor, gale_object **out)
{
    GALE__NEED({"tensor", tensor}, {"out", out});
    gale_tensor *view = NULL;
    GALE_TRY(gale_tensor_reshape(tensor, gale_tensor_rank(tensor), gale_tensor_dims(tensor), &view));
    return gale__onnx_object_take(&view, out);
}

gale_status gale__onnx_object_room(size_t count, gale_object **out)
{
    return new_object(GALE_OBJECT_SEQUENCE, count, out);
}

gale_status gale__onnx_object_put(gale_object *sequence, size_t index, gale_object *item)
{
    if (item && item->depth >= GALE__OBJECT_DEPTH) {
        gale_object_destroy(&item);
        return gale__fail(GALE_LIMIT, "sequences are nested more than %d levels deep", GALE__OBJECT_DEPTH);
    }
    if (item && item->depth >= sequence->depth) sequence->depth = item->depth + 1;
    sequence->items[index] = item;
    return GALE_OK;
}

static gale_status hold_all(gale_object *to, gale_object *const *items)
{
    for (size_t i = 0; i < to->count; i++) {
        if (!items[i]) return gale__fail(GALE_INVALID, "item %zu of %zu is missing", i, to->count);
        GALE_TRY(gale__onnx_object_put(to, i, gale__onnx_object_hold(items[i])));
    }
    return GALE_OK;
}

gale_status gale_object_sequence(gale_object *const *items, size_t count, gale_object **out)
{
    GALE__NEED({"items", !count || items}, {"out", out});
    gale_object *o;
    GALE_TRY(gale__onnx_object_room(count, &o));
    gale_status status = hold_all(o, items);
    if (status != GALE_OK) return gale_object_destroy(&o), status;
    *out = o;
    return GALE_OK;
}

gale_status gale_object_map(gale_tensor *keys, gale_object *const *values, gale_object **out)
{
    GALE__NEED({"keys", keys}, {"out", out});
    gale_type type = gale_tensor_type(keys);
    gale_object *o;
    if ((type != GALE_I64 && type != GALE_STRING) || gale_tensor_rank(keys) != 1)
        return gale__fail(GALE_INVALID, "the keys of a map must be i64 or strings of rank 1, not %s of rank %d",
            gale_type_name(type), gale_tensor_rank(keys));
    GALE__NEED({"values", !gale_tensor_dims(keys)[0] || values});
    GALE_TRY(new_object(GALE_OBJECT_MAP, (size_t)gale_tensor_dims(keys)[0], &o));
    gale_status status = gale_tensor_reshape(keys, 1, gale_tensor_dims(keys), &o->tensor);
    if (status == GALE_OK) status = hold_all(o, values);
    if (status != GALE_OK) return gale_object_destroy(&o), status;
    *out = o;
    return GALE_OK;
}

gale_object_kind gale_object_get_kind(const gale_object *object)
{
    if (!object) return gale__lack(__func__, "object"), GALE_OBJECT_NONE;
    return object->kind;
}

gale_tensor *gale_object_get_tensor(const gale_object *object)
{
    if (!object) return gale__lack(__func__, "object"), NULL;
    return object->tensor;
}

size_t gale_object_count(const gale_object *object)
{
    if (!object) return gale__lack(__func__, "object"), 0;
    return object->count;
}

gale_object *gale_object_item(const gale_object *object, size_t index)
{
    if (!object) return gale__lack(__func__, "object"), NULL;
    return index < object->count ? object->items[index] : NULL;
}
