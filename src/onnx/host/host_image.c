/* ImageDecoder: the bytes of a picture file to pixels [height, width, channels]. */
#include "graph/run/tensor.h"
#include "media/picture.h"
#include "onnx/host/host.h"

static void release(void *owner)
{
    gale_picture *p = owner;
    gale_picture_destroy(&p);
}

gale_status gale__onnx_host_image_decoder(gale__onnx_host_call *call)
{
    gale_tensor *x, *made = NULL;
    gale_picture *p = NULL;
    const void *bytes;
    GALE_TRY(gale__onnx_host_tensor(call, 0, &x));
    if (gale_tensor_type(x) != GALE_U8 || gale_tensor_rank(x) != 1)
        return gale__fail(GALE_INVALID, "the picture must be a vector of u8, the bytes of its file");
    GALE_TRY(gale__onnx_host_numbers(call, x, &bytes));
    GALE_TRY(gale__picture_decode(bytes, x->size_bytes, gale__onnx_host_text(call, "pixel_format", "RGB"), &p));
    int64_t dims[3] = {p->height, p->width, p->channels};
    gale_status status = gale__tensor_borrow(GALE_U8, 3, dims, p->data, release, p, &made);
    if (status != GALE_OK) gale_picture_destroy(&p);
    return status == GALE_OK ? gale__onnx_host_give(call, 0, &made) : status;
}
