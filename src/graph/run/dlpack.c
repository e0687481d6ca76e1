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

gale_status gale_tensor_to_dlpack(const gale_tensor *t, gale_dlpack **out)
{
    int i = 0;
    GALE__NEED({"tensor", t}, {"out", out});
    void *data = gale_tensor_data((gale_tensor *)t);
    while (i < TYPES && types[i].type != t->type) i++;
    if (i == TYPES)
        return gale__fail(GALE_UNSUPPORTED, "DLPack has no type for elements of %s", gale_type_name(t->type));
    if (!data && t->size_bytes)
        return gale__fail(GALE_UNSUPPORTED,
            "the host does not see the memory of this tensor: gale_tensor_to_device(tensor, NULL, ...) copies it");
    lent *l = gale__calloc(1, sizeof *l);
    if (!l) return GALE_NO_MEMORY;
    gale_status status = gale_tensor_reshape((gale_tensor *)t, t->rank, t->dims, &l->view);
    if (status != GALE_OK) return gale__free(l), status;
    l->dl = (gale_dlpack){.data = data,
        .device_type = DL_CPU,
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

gale_status gale_tensor_from_dlpack(gale_dlpack *d, bool read_only, gale_tensor **out)
{
    int i = 0;
    GALE__NEED({"given", d}, {"out", out});
    if (d->device_type != DL_CPU)
        return gale__fail(GALE_UNSUPPORTED, "a DLPack tensor on device type %d: only memory of the host (1) is taken",
            (int)d->device_type);
    while (i < TYPES && (types[i].code != d->type_code || types[i].bits != d->type_bits)) i++;
    if (i == TYPES || d->type_lanes != 1)
        return gale__fail(GALE_UNSUPPORTED, "a DLPack tensor of type code %d with %d bits and %d lanes is not known",
            d->type_code, d->type_bits, d->type_lanes);
    if (d->rank > 0 && !d->dims)
        return gale__fail(GALE_INVALID, "a DLPack tensor of rank %d has no shape", (int)d->rank);
    if (d->rank <= GALE_MAX_RANK && !is_dense(d))
        return gale__fail(GALE_UNSUPPORTED, "a DLPack tensor must be dense and row-major: copy it first");
    void *data = d->data ? (char *)d->data + d->offset_bytes : NULL;
    return gale_tensor_wrap((gale_type)types[i].type, d->rank, d->dims, data, read_only, release_given, d, out);
}
