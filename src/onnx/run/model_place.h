/* The choice of a device, and its outcome beside what was predicted. */
#ifndef GALE_ONNX_RUN_MODEL_PLACE_H
#define GALE_ONNX_RUN_MODEL_PLACE_H
#include "device/device.h"
#include "gale/model.h"

/* The CPU that may take the device's place (gale_device_options.place), if both are measured; else NULL, so that
 * nothing is opened or planned for a prediction that cannot be made. */
gale_device *gale__place_other(const gale_device *device);
/* gale_model_place; told, unless NULL, hears how many devices have been tried, and ends the trial by a failure. */
typedef struct gale__place_told {
    gale_status (*tell)(void *user, int done, int n);
    void *user;
} gale__place_told;
gale_status gale__place(gale_model *m, gale_object *const *inputs, gale_device *const *devices, int n,
    const gale__place_told *told, double *times_us, int *chosen);
/* model_try.c: the times of runs that cannot be predicted, measured or stored before, and the device with the shortest;
 * *best is 0, and times_us negative, before.  Nothing is tried where a device has not been measured. */
gale_status gale__place_try(gale_model *m, gale_object *const *inputs, gale_device *const *devices, int n,
    const gale__place_told *told, double *times_us, int *best);
/* Logs the time of each device, where it has one, after what `verb` says of it, and which is chosen. */
void gale__place_log(gale_device *const *devices, const double *times_us, int n, int best, const char *verb);
/* Logs what a piece of work ("a run", "a tile") took on the chosen device; nothing where nothing was predicted. */
void gale__place_note(const gale_device *device, const char *what, double predicted_us, double took_us);
#endif
