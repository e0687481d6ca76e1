/* Values from and to files: .npy arrays and ONNX's messages. */
#include "cli/data_file.h"
#include "base/npy.h"
#include "onnx/object.h"
#include <string.h>

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);
    return n >= k && !strcmp(path + n - k, end);
}

gale_status gale__data_read(const char *path, const gale_model_value *want, gale_object **out)
{
    gale__npy a = {0};
    gale_tensor *t = NULL;
    if (ends_with(path, ".pb")) return gale__object_read(path, want, out);
    if (!ends_with(path, ".npy")) return gale__fail(GALE_UNSUPPORTED, "%s: files of this kind are not known: .npy and .pb are", path);
    GALE_TRY(gale__npy_read(path, &a));
    gale_status status = gale_tensor_from_cpu(NULL, a.type, a.rank, a.dims, a.data.data, &t);
    gale__npy_finish(&a);
    return status == GALE_OK ? gale__object_take(&t, out) : status;
}

gale_status gale__data_write(const char *path, const gale_object *value)
{
    gale_tensor *t = gale_object_get_tensor(value);
    if (gale_object_get_kind(value) != GALE_OBJECT_TENSOR || !ends_with(path, ".npy")) return gale__fail(GALE_UNSUPPORTED, "%s: tensors can be written as .npy", path);
    return gale__npy_write(path, gale_tensor_type(t), gale_tensor_rank(t), gale_tensor_dims(t), gale_tensor_data(t));
}
