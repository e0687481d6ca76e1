/* The smallest kernel, *p[0] = w[0], in each backend's language: it shows that a device can build and launch, and what
 * a launch costs. */
#ifndef GALE_DEVICE_POKE_H
#define GALE_DEVICE_POKE_H
#include "device/device.h"

typedef struct gale__poke {
    gale_module *module;
    gale_kernel *kernel;
} gale__poke;
gale_status gale__poke_create(gale_device *device, gale__poke *out);
void gale__poke_finish(gale__poke *poke);
gale_status gale__poke_run(gale__poke *poke, gale_stream *stream, gale_buffer *to, uint32_t value);
#endif
