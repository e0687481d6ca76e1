/* A session: an imported model with its steps, on one device. */
#include "onnx/run/session.h"
#include "device/device.h"

gale_status gale__session_open(
    gale__onnx *file, gale_device *device, const gale_model_options *options, gale__session **out)
{
    gale__session *s = gale__calloc(1, sizeof *s);
    if (!s) return GALE_NO_MEMORY;
    gale__mutex_init(&s->lock);
    s->device = gale__device_hold(device);
    if (options) s->options = *options;
    gale_status status = gale__net_import(file, &s->net);
    if (status == GALE_OK) status = gale__exec_make(s->net);
    if (status != GALE_OK) {
        gale__session_close(&s);
        return status;
    }
    *out = s;
    return GALE_OK;
}

void gale__session_close(gale__session **session)
{
    if (!session || !*session) return;
    gale__session *s = *session;
    *session = NULL;
    gale__eager_finish(s);
    if (s->net) gale__exec_destroy(s->net);
    gale__net_destroy(&s->net);
    gale_device_close(&s->device);
    gale__mutex_finish(&s->lock);
    gale__free(s);
}
