/* Libraries loaded at run time, so that drivers can be installed and removed without rebuilding gale. */
#include "base/file.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct gale__dl {
    void *handle;
    char *name;
};

gale_status gale__dl_open(const char *const *sonames, gale__dl **out)
{
    void *handle = NULL;
    gale__str tried = {0};
    char reason[256] = "no name given";
    bool damaged =
        false; /* the error of a file that exists but does not load is more useful than that of a missing one */
    for (; *sonames && !handle; sonames++) {
        gale__str_addf(&tried, "%s%s", tried.length ? ", " : "", *sonames);
        handle = dlopen(*sonames, RTLD_NOW | RTLD_LOCAL);
        if (handle) break;
        const char *error = dlerror();
        if (!damaged) snprintf(reason, sizeof reason, "%s", error ? error : "unknown reason");
        damaged = !strstr(reason, "No such file");
    }
    if (!handle) {
        gale__fail(GALE_NOT_FOUND, "library not found: %s (%s)", gale__str_text(&tried), reason);
        gale__str_finish(&tried);
        return GALE_NOT_FOUND;
    }
    gale__str_finish(&tried);
    gale__dl *dl = gale__calloc(1, sizeof *dl);
    if (dl) dl->name = gale__strdup(*sonames);
    if (!dl || !dl->name) {
        gale__free(dl);
        dlclose(handle);
        return GALE_NO_MEMORY;
    }
    dl->handle = handle;
    *out = dl;
    return GALE_OK;
}

void *gale__dl_symbol(gale__dl *dl, const char *name) { return dlsym(dl->handle, name); }
const char *gale__dl_name(const gale__dl *dl) { return dl->name; }

void gale__dl_close(gale__dl **dl)
{
    if (!*dl) return;
    dlclose((*dl)->handle);
    gale__free((*dl)->name);
    gale__free(*dl);
    *dl = NULL;
}
