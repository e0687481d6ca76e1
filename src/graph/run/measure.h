/* Peak rates of generated kernels: arithmetic, and the copy rate of a map if the driver's own copy is slower. */
#ifndef GALE_GRAPH_MEASURE_H
#define GALE_GRAPH_MEASURE_H
#include "device/device.h"
/* Takes a fraction of a second; keeps what it finds with the device's other ceilings. */
gale_status gale__measure_kernels(gale_device *device);
#endif
