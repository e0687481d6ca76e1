/* Provider names, their backends, and the devices found on this machine. */
#ifndef GALE_DEVICE_REGISTRY_H
#define GALE_DEVICE_REGISTRY_H
#include "device/device.h"

typedef struct gale__provider {
    const char *name, *label, *backend, *aliases, *note; /* backend: its name, "hip" */
    int rank;
} gale__provider;
const gale__provider *gale__providers(int *count);
const gale__provider *gale__provider_find(const char *name); /* name or alias in any case; NULL when unknown */
const gale__backend *gale__provider_backend(const gale__provider *provider); /* NULL: built without it */
const gale__backend *const *gale__backends(int *count);
/* As gale__backend_probe, and for a backend that is not built a probe that reports the reason. */
gale_status gale__provider_probe(const gale__provider *provider, const gale__probe **out);
/* What to install where there is no device of it; "": nothing. */
const char *gale__provider_packages(const gale__provider *provider);
/* Probes all backends in parallel, so that the times of slow drivers do not add up. */
void gale__probe_all(void);
#endif
