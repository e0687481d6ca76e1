/* The steps of `gale doctor --try`: run in order in a child process, each told to the parent before it starts. */
#ifndef GALE_CLI_DOCTOR_H
#define GALE_CLI_DOCTOR_H
#include "device/device.h"

typedef struct gale__doctor {
    const char *provider;
    gale_device *device;
    gale_stream *stream;
    gale_buffer *a, *b;
    char note[256]; /* what a step wants said beside "ok" */
} gale__doctor;
/* A step that fails leaves its reason in the error slot. */
typedef struct gale__doctor_step {
    const char *name;
    gale_status (*run)(gale__doctor *d);
} gale__doctor_step;
extern const gale__doctor_step gale__doctor_steps[]; /* ends with a NULL name */
#endif
