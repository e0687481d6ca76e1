/* A session: an imported model with its steps, on one device. */
#include "onnx/run/session.h"
#include "device/device.h"

gale_status gale__onnx_session_open(
    gale__onnx *file, gale_device *device, const gale_model_options *options, gale__onnx_session **out)
{
    gale__onnx_session *s = gale__calloc(1, sizeof *s);
    if (!s) return GALE_NO_MEMORY;
    gale__mutex_init(&s->lock);
    s->device = gale__device_hold(device);
    if (options) s->options = *options;
    gale_status status = gale__onnx_net_import(file, &s->net);
    if (status == GALE_OK) status = gale__onnx_exec_make(s->net);
    if (status != GALE_OK) {
        gale__onnx_session_close(&s);
        return status;
    }
    *out = s;
    return GALE_OK;
}

void gale__onnx_session_close(gale__onnx_session **session)
{
    if (!session || !*session) return;
    gale__onnx_session *s = *session;
    *session = NULL;
    gale__onnx_eager_finish(s);
    if (s->net) gale__onnx_exec_destroy(s->net);
    gale__onnx_net_destroy(&s->net);
    gale_device_close(&s->device);
    gale__mutex_finish(&s->lock);
    gale__free(s);
}
