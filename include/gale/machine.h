/* The devices of this machine: what `gale devices`, `doctor` and `top` show.
 *
 *     gale_devices_result *r = NULL;
 *     if (gale_devices_list(NULL, &r) == GALE_OK)
 *         for (size_t i = 0; i < r->n_devices; i++) puts(r->devices[i].info.name);
 *     gale_devices_result_destroy(&r);
 *
 * gale/job.h explains what all jobs share. */
#ifndef GALE_MACHINE_H
#define GALE_MACHINE_H

#include "device.h"
#include "job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Devices: the device behind every provider name, and why a missing one is missing. --- */

typedef enum gale_verdict { GALE_VERDICT_UNTESTED, GALE_VERDICT_PASSED, GALE_VERDICT_FAILED } gale_verdict;
typedef struct gale_provider_state {
    const char *name, *backend, *note; /* note: "" for most */
    const char *aliases;               /* separated by spaces */
    int rank;                          /* position in the automatic choice, from 1; 0: only by name */
    bool chosen;                       /* the default */
    const gale_device_info *device;    /* NULL: none */
    const char *reason, *remedy;       /* if there is none */
} gale_provider_state;
typedef struct gale_device_state {
    gale_device_info info;
    bool has_driver;            /* the self-test applies; otherwise the other fields are unused */
    gale_verdict verdict;       /* stored verdict of the self-test; no test is run */
    const char *verdict_reason; /* FAILED: the step and what was wrong; else "" */
    const char *setting;        /* "VARIABLE=value" without which the driver computes wrong results, where it is
                                   set; else "" */
    const char *fault;          /* which it avoids; "": none is known */
    const char *fault_variable, *fault_value; /* what to set */
} gale_device_state;
typedef struct gale_devices_options {
    bool measure; /* the ceilings of every device, half a second each, and keep them; what cannot be measured is a
                     warning in the log */
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_devices_options;
typedef struct gale_devices_result {
    const char *version;
    const gale_device_info *automatic; /* the default; NULL: none */
    const gale_provider_state *providers;
    size_t n_providers;
    const gale_device_state *devices; /* all devices, including those that are no provider's first choice */
    size_t n_devices;
} gale_devices_result;
GALE_API gale_status gale_devices_list(const gale_devices_options *options, gale_devices_result **out);
GALE_API gale_status gale_devices_result_json(const gale_devices_result *result, char **text);
GALE_API void gale_devices_result_destroy(gale_devices_result **result);
/* Measures the ceilings of one device (about half a second), puts them into what gale_device_get_info gives, and keeps
 * them for later processes.  Nothing else may use the device meanwhile. */
GALE_API gale_status gale_device_measure(gale_device *device);
/* The i-th feature that a device has: "f16", "capture" ...; NULL past the last. */
GALE_API const char *gale_device_feature(const gale_device_caps *caps, int index);

/* --- Doctor: what is missing and what to install. --- */

typedef enum gale_doctor_state { GALE_DOCTOR_OK, GALE_DOCTOR_MISSING, GALE_DOCTOR_DENIED } gale_doctor_state;
typedef enum gale_doctor_kind {
    GALE_DOCTOR_PROVIDER,
    GALE_DOCTOR_FILE, /* a device file; listed only if access is denied */
    GALE_DOCTOR_LIBRARY,
    GALE_DOCTOR_CACHE,
    GALE_DOCTOR_PICTURES /* a format of pictures */
} gale_doctor_kind;
typedef struct gale_doctor_item {
    gale_doctor_kind kind;
    gale_doctor_state state;
    const char *name;          /* "vulkan", "/dev/kfd", "shaderc", "cache" */
    const char *text;          /* what was found, or why not */
    const char *const *advice; /* additional lines: what to do */
    size_t n_advice;
} gale_doctor_item;
typedef struct gale_doctor_options {
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_doctor_options;
typedef struct gale_doctor_result {
    const gale_doctor_item *items;
    size_t n_items;
} gale_doctor_result;
GALE_API gale_status gale_doctor_examine(const gale_doctor_options *options, gale_doctor_result **out);
GALE_API gale_status gale_doctor_result_json(const gale_doctor_result *result, char **text);
GALE_API void gale_doctor_result_destroy(gale_doctor_result **result);

/* Tests a provider step by step in a separate process, since a broken driver may crash the process.  GALE_INVALID for
 * an unknown provider, GALE_NOT_FOUND if the gale program is not found. */
typedef struct gale_trial_step {
    const char *name;
    bool ok;
    const char *text; /* a note, or why it failed */
} gale_trial_step;
typedef struct gale_trial_options {
    int device; /* index, counted per provider */
    /* Called as each step ends.  May be NULL. */
    void (*step)(void *user, const gale_trial_step *step);
    void *user;
    uint64_t reserved[4]; /* 0 */
} gale_trial_options;
typedef struct gale_trial_result {
    bool passed;
    const char *reason; /* if it failed: the step and what was wrong */
    const gale_trial_step *steps;
    size_t n_steps;
} gale_trial_result;
GALE_API gale_status gale_doctor_try(const char *provider, const gale_trial_options *options, gale_trial_result **out);
GALE_API gale_status gale_trial_result_json(const gale_trial_result *result, char **text);
GALE_API void gale_trial_result_destroy(gale_trial_result **result);

/* --- Top: load and memory of each device, over all processes. --- */

typedef struct gale_usage {
    const char *device, *name; /* "cuda:0" */
    double busy_percent;       /* negative: unknown */
    uint64_t memory_used_bytes, memory_bytes;
    unsigned celsius, watts; /* 0: unknown */
} gale_usage;
typedef struct gale_usage_options {
    double seconds; /* interval for measuring the CPU's load; 0: 0.2 */
    gale_job_control control;
    uint64_t reserved[4]; /* 0 */
} gale_usage_options;
typedef struct gale_usage_result {
    const gale_usage *devices;
    size_t n_devices;
} gale_usage_result;
/* Keeps the vendors' libraries open between measurements, since opening them takes longer than a measurement.  One
 * thread at a time. */
typedef struct gale_usage_meter gale_usage_meter;
GALE_API gale_status gale_usage_meter_open(gale_usage_meter **out);
GALE_API void gale_usage_meter_close(gale_usage_meter **meter);
/* meter NULL: the libraries are opened for this measurement only. */
GALE_API gale_status gale_usage_read(
    gale_usage_meter *meter, const gale_usage_options *options, gale_usage_result **out);
GALE_API gale_status gale_usage_result_json(const gale_usage_result *result, char **text);
GALE_API void gale_usage_result_destroy(gale_usage_result **result);

#ifdef __cplusplus
}
#endif
#endif
