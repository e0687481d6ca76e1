/* What `gale explain` knows about a model: its kernels in the order they ran, with what was predicted and what was
 * measured. */
#ifndef GALE_CLI_EXPLAIN_H
#define GALE_CLI_EXPLAIN_H
#include "device/profiler.h"
#include "onnx/run/session.h"

typedef struct gale__explained {
    const char *model;
    gale__onnx_session *session;
    gale_device *device;
    const gale__profiler_record *records; /* of one steady run */
    size_t count;
    double predicted_us, measured_us, open_ms, first_ms;
} gale__explained;

/* Time that the device's ceilings allow; 0 when they are not known. */
double gale__predict_us(const gale_device_ceilings *c, const gale__profiler_record *r);
/* explain_html.c: a page of its own, without anything from outside. */
void gale__explain_html(const gale__explained *e, gale__str *out);
#endif
