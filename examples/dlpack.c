/* A tensor that another library reads and writes: the same memory under both names, and who releases it.
 *
 *     dlpack */
#include <gale/dlpack.h>
#include <stdio.h>

/* Stands for the other library: it gets a DLPack struct, works on the data, and releases it when it is done. */
static void double_all(gale_dlpack *given)
{
    int64_t count = 1;
    for (int i = 0; i < given->rank; i++) count *= given->dims[i];
    float *data = (float *)(void *)((char *)given->data + given->offset_bytes);
    for (int64_t i = 0; i < count; i++) data[i] *= 2;
    if (given->release) given->release(given);
}

int main(void)
{
    float values[6] = {1, 2, 3, 4, 5, 6};
    int64_t dims[2] = {2, 3};
    gale_tensor *tensor = NULL, *back = NULL;
    gale_dlpack *packed = NULL;
    gale_status status = gale_tensor_wrap(GALE_F32, 2, dims, values, 0, NULL, NULL, &tensor);
    if (status == GALE_OK) status = gale_tensor_to_dlpack(tensor, &packed);
    if (status == GALE_OK) double_all(packed);

    /* The other way round: gale takes a struct over, and releases it with the tensor. */
    if (status == GALE_OK) status = gale_tensor_to_dlpack(tensor, &packed);
    if (status == GALE_OK) status = gale_tensor_from_dlpack(packed, GALE_TENSOR_READ_ONLY, &back);
    if (status == GALE_OK)
        printf("%g, at the same address: %s\n", values[5], gale_tensor_data(tensor) == (void *)values ? "yes" : "no");
    else fprintf(stderr, "%s\n", gale_error());
    gale_tensor_destroy(&back);
    gale_tensor_destroy(&tensor);
    return status != GALE_OK || values[5] != 12;
}
