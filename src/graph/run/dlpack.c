/* Tensors as other libraries describe them.  The layout of DLPack's structs is checked here, since nothing of theirs is
 * included. */
#include "gale/dlpack.h"
#include "graph/run/tensor.h"
#include <string.h>

enum { DL_CPU = 1, DL_SIGNED = 0, DL_UNSIGNED = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

_Static_assert(
    offsetof(gale_dlpack, device_type) == sizeof(void *) && offsetof(gale_dlpack, rank) == sizeof(void *) + 8,
    "DLTensor: data, device, ndim");
_Static_assert(offsetof(gale_dlpack, type_code) == sizeof(void *) + 12, "DLTensor: dtype behind ndim");
_Static_assert(offsetof(gale_dlpack, dims) == sizeof(void *) + 16 &&
                   offsetof(gale_dlpack, owner) > offsetof(gale_dlpack, offset_bytes),
    "DLTensor: shape, strides, byte_offset; then DLManagedTensor's own");

static const struct {
    uint8_t type, code, bits;
} types[] = {
    {GALE_F32, DL_FLOAT, 32},
    {GALE_F64, DL_FLOAT, 64},
    {GALE_F16, DL_FLOAT, 16},
    {GALE_BF16, DL_BFLOAT, 16},
    {GALE_I8, DL_SIGNED, 8},
    {GALE_I16, DL_SIGNED, 16},
    {GALE_I32, DL_SIGNED, 32},
    {GALE_I64, DL_SIGNED, 64},
    {GALE_U8, DL_UNSIGNED, 8},
    {GALE_U16, DL_UNSIGNED, 16},
    {GALE_U32, DL_UNSIGNED, 32},
    {GALE_U64, DL_UNSIGNED, 64},
    {GALE_BOOL, DL_BOOL, 8},
};
enum { TYPES = sizeof types / sizeof *types };

/* What is given out: the struct comes first, so that a pointer to it is one to this. */
typedef struct lent {
    gale_dlpack dl;
    gale_tensor *view; /* holds the memory */
} lent;

static void release_lent(gale_dlpack *self)
{
    lent *l = self->owner;
    gale_tensor_destroy(&l->view);
    gale__free(l);
}

/* The address for other libraries: that of the host if it can access the memory, else that of the device. */
static gale_status find_memory(const gale_tensor *t, gale_dlpack *to)
{
    to->device_type = DL_CPU;
    to->data = gale_tensor_data((gale_tensor *)t);
    if (to->data || !t->size_bytes) return GALE_OK;
    int type;
    if (!t->buffer || !gale__buffer_export(t->buffer, &type, &to->data, &to->offset_bytes))
        return gale__fail(GALE_UNSUPPORTED, "other libraries cannot use the memory of this tensor: "
                                            "gale_tensor_to_device(tensor, NULL, ...) copies it to the host");
    to->device_type = type;
    to->device_id = t->device->info.index;
    return GALE_OK;
}

gale_status gale_tensor_to_dlpack(const gale_tensor *t, gale_dlpack **out)
{
    int i = 0;
    gale_dlpack memory = {0};
    GALE__NEED({"tensor", t}, {"out", out});
    while (i < TYPES && types[i].type != t->type) i++;
    if (i == TYPES)
        return gale__fail(GALE_UNSUPPORTED, "DLPack has no type for elements of %s", gale_type_name(t->type));
    GALE_TRY(find_memory(t, &memory));
    lent *l = gale__calloc(1, sizeof *l);
    if (!l) return GALE_NO_MEMORY;
    gale_status status = gale_tensor_reshape((gale_tensor *)t, t->rank, t->dims, &l->view);
    if (status != GALE_OK) return gale__free(l), status;
    l->dl = (gale_dlpack){.data = memory.data,
        .device_type = memory.device_type,
        .device_id = memory.device_id,
        .offset_bytes = memory.offset_bytes,
        .rank = t->rank,
        .type_code = types[i].code,
        .type_bits = types[i].bits,
        .type_lanes = 1,
        .dims = l->view->dims,
        .owner = l,
        .release = release_lent};
    *out = &l->dl;
    return GALE_OK;
}

static bool is_dense(const gale_dlpack *d)
{
    int64_t step = 1;
    for (int i = d->rank - 1; d->strides && i >= 0; i--) {
        if (d->dims[i] == 0) return true;
        if (d->dims[i] != 1 && d->strides[i] != step) return false;
        step *= d->dims[i];
    }
    return true;
}

static void release_given(void *owner)
{
    gale_dlpack *d = owner;
    if (d->release) d->release(d);
}

/* The type of the elements, where the tensor is one that gale can take. */
static gale_status find_type(const gale_dlpack *d, gale_type *out)
{
    int i = 0;
    while (i < TYPES && (types[i].code != d->type_code || types[i].bits != d->type_bits)) i++;
    if (i == TYPES || d->type_lanes != 1)
        return gale__fail(GALE_UNSUPPORTED,
            "a DLPack tensor of type code %d with %d bits and %d lanes is not supported", d->type_code, d->type_bits,
            d->type_lanes);
    if (d->rank > 0 && !d->dims)
        return gale__fail(GALE_INVALID, "a DLPack tensor of rank %d has no shape", (int)d->rank);
    if (d->rank <= GALE_MAX_RANK && !is_dense(d))
        return gale__fail(GALE_UNSUPPORTED, "a DLPack tensor must be dense and row-major: copy it first");
    *out = (gale_type)types[i].type;
    return GALE_OK;
}

gale_status gale_tensor_from_dlpack(gale_dlpack *d, gale_flags flags, gale_tensor **out)
{
    gale_type type;
    GALE__NEED({"given", d}, {"out", out});
    GALE__FLAGS(flags, GALE_TENSOR_READ_ONLY);
    if (d->device_type != DL_CPU)
        return gale__fail(GALE_UNSUPPORTED,
            "a DLPack tensor on device type %d: use gale_tensor_from_dlpack_on for device memory", (int)d->device_type);
    GALE_TRY(find_type(d, &type));
    void *data = d->data ? (char *)d->data + d->offset_bytes : NULL;
    return gale_tensor_wrap(type, d->rank, d->dims, data, flags, release_given, d, out);
}

gale_status gale_tensor_from_dlpack_on(gale_device *device, gale_dlpack *d, gale_flags flags, gale_tensor **out)
{
    gale_type type;
    int64_t elements;
    gale_buffer *buffer = NULL;
    gale__foreign from = {.read_only = flags & GALE_TENSOR_READ_ONLY, .release = release_given, .owner = d};
    GALE__NEED({"device", device}, {"given", d}, {"out", out});
    GALE__FLAGS(flags, GALE_TENSOR_READ_ONLY);
    if (d->device_type == DL_CPU) return gale_tensor_from_dlpack(d, flags, out);
    if (d->device_id != device->info.index)
        return gale__fail(GALE_INVALID, "a DLPack tensor on device %d is not on %s:%d", (int)d->device_id,
            device->info.backend, device->info.index);
    GALE_TRY(find_type(d, &type));
    GALE_TRY(gale__shape_size(type, d->rank, d->dims, &elements, &from.size));
    if (!d->data && from.size) return gale__fail(GALE_INVALID, "a DLPack tensor of %zu bytes has no data", from.size);
    from.type = d->device_type;
    from.data = d->data;
    from.offset = d->offset_bytes;
    GALE_TRY(gale__buffer_import(device, &from, &buffer));
    buffer->release = NULL; /* until nothing can fail any more */
    gale_status status = gale_tensor_from_buffer(buffer, type, d->rank, d->dims, out);
    if (status == GALE_OK) buffer->release = release_given;
    gale_buffer_destroy(&buffer);
    return status;
}
