/* The table of driver bugs, and the call with which a program sets the variables before it loads any driver. */
#include "device/workarounds.h"
#include "base/cpu.h"
#include "base/env.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool on_x86(void)
{
#ifdef __x86_64__
    return true;
#else
    return false;
#endif
}

static bool has_avx512(void) { return gale__cpu_has("avx512f"); }

static const gale__workaround workarounds[] = {
#define WORKAROUND(variable, value, backend, driver, applies, fault) {variable, value, backend, driver, applies, fault},
#include "device/workarounds.def"
#undef WORKAROUND
};
#define N_WORKAROUNDS (sizeof workarounds / sizeof *workarounds)

void gale_workarounds_apply(void)
{
    if (!gale__env_get_i64(GALE__ENV_WORKAROUNDS, 1)) return;
    for (size_t i = 0; i < N_WORKAROUNDS; i++)
        if (workarounds[i].applies()) setenv(workarounds[i].variable, workarounds[i].value, 0);
}

const gale__workaround *gale__workaround_find(const gale_device_info *info)
{
    for (size_t i = 0; i < N_WORKAROUNDS; i++) {
        const gale__workaround *w = &workarounds[i];
        if (!strcmp(w->backend, info->backend) && strstr(info->driver, w->driver) && w->applies()) return w;
    }
    return NULL;
}

void gale__workaround_state(const gale__workaround *w, char *text, size_t size)
{
    const char *value = w ? getenv(w->variable) : NULL;
    text[0] = 0;
    if (value) snprintf(text, size, "%s=%s", w->variable, value);
}
