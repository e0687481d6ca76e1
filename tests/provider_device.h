/* Opening the device of one provider, for tests that compare it with the CPU. */
#ifndef GALE_TEST_PROVIDER_DEVICE_H
#define GALE_TEST_PROVIDER_DEVICE_H
#include "device/registry.h"
#include "test.h"

/* NULL: gale_error says why; a build may not include the provider. */
static inline gale_device *provider_device(const char *provider)
{
    const gale__backend *backend = gale__provider_backend(gale__provider_find(provider));
    gale_device *device = NULL;
    if (!backend) gale__fail(GALE_UNSUPPORTED, "this build of gale does not include %s", provider);
    else if (gale__device_open_one(backend, 0, NULL, &device) != GALE_OK) device = NULL;
    return device;
}
#endif
