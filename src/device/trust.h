/* Whether a driver computes correctly.  The verdict of a short self-test is stored beside the measured rates, under
 * the device, its driver and everything else that affects the driver's results. */
#ifndef GALE_DEVICE_TRUST_H
#define GALE_DEVICE_TRUST_H
#include "base/thread.h"
#include "device/device.h"

typedef enum gale__trust_verdict { GALE__TRUST_UNTESTED, GALE__TRUST_PASSED, GALE__TRUST_FAILED } gale__trust_verdict;
typedef struct gale__trust {
    gale__trust_verdict verdict;
    bool passing;     /* FAILED for a reason that may not hold the next time */
    char reason[768]; /* FAILED: the step and what was wrong */
} gale__trust;

/* What is known of the device; no test is run. */
void gale__trust_load(const gale_device_info *info, gale__trust *out);

/* What it takes to use a device: it runs gale's own code, passed the self-test now or before, or the user allows
 * untrusted ones.  The test, if there must be one, runs between the two calls, while the device is opened. */
typedef struct gale__trust_test {
    const gale_device_info *info;
    gale__trust trust;
    bool needed, runs;
    gale__thread thread;
    gale_status status; /* of the test's process; trust.reason says why it could not run */
} gale__trust_test;
/* info: valid until the end; it must not change when the device is opened. */
gale_status gale__trust_begin(const gale_device_info *info, gale__trust_test *t);
/* GALE_OK when the device may be used; NULL: it was not opened, so the verdict does not matter. */
gale_status gale__trust_end(gale__trust_test *t, gale_device *device);

/* Processes may share the kernels: the index-th of every `count`. */
typedef struct gale__trust_part {
    int index, count;
} gale__trust_part;
#define GALE__TRUST_WHOLE ((gale__trust_part){0, 1})

/* The self-test in a process of its own: `on_line` gets "> STEP" before a step and "+ NOTE" or "- REASON" after it.
 * GALE_NOT_FOUND where there is no gale program to run it. */
typedef void gale__trust_line(void *user, const char *line);
gale_status gale__trust_spawn(
    const char *backend, int index, gale__trust_part part, gale__trust_line *on_line, void *user, gale__trust *out);

/* The self-test itself, in this process, with the same lines: GALE_MISMATCH where a result is wrong.  Defined in
 * jobs/selftest: it runs operators, which this room knows nothing of. */
/* Kernels of this device are made to be compiled quickly, until `once` is 0 again: before the self-test. */
void gale__trust_hurry(gale_device *device);
gale_status gale__selftest_run(gale_device *device, gale__trust_part part, gale__trust_line *on_line, void *user);
#endif
