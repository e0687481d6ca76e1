/* Driver bugs that a setting of the driver avoids. */
#ifndef GALE_DEVICE_WORKAROUNDS_H
#define GALE_DEVICE_WORKAROUNDS_H
#include "device/device.h"

typedef struct gale__workaround {
    const char *variable, *value, *backend, *driver;
    bool (*applies)(void); /* to this processor */
    const char *fault;
} gale__workaround;

/* The one for this device, NULL when none is known. */
const gale__workaround *gale__workaround_find(const gale_device_info *info);
/* "POCL_WORK_GROUP_METHOD=auto", or what the user set, or "" when the variable is not set. */
void gale__workaround_state(const gale__workaround *w, char *text, size_t size);
#endif
