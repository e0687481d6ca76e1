/* Opens libOpenCL at run time and names its errors.  Nothing is linked, so that one binary serves machines with and
 * without OpenCL. */
#include "device/opencl/opencl.h"
#include "device/library.h"
#include <stdarg.h>
#include <stdio.h>

static const char *const sonames[] = {"libOpenCL.so.1", "libOpenCL.so", NULL};
static const char *const symbols[] = {
#define X(name) #name,
#include "device/opencl/symbols.def"
#undef X
};
static gale__cl table;
static gale__library library = {sonames, symbols, sizeof symbols / sizeof *symbols, &table, "it is older than OpenCL 1.2", NULL};

gale_status gale__cl_load(const gale__cl **cl, const char **soname)
{
    GALE_TRY(gale__library_load(&library));
    *cl = &table;
    if (soname) *soname = gale__dl_name(library.dl);
    return GALE_OK;
}

static const struct { cl_int code; gale_status status; const char *name; } errors[] = {
#define X(name, status) {name, GALE_##status, #name},
#include "device/opencl/errors.def"
#undef X
};

gale_status gale__cl_fail(cl_int error, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            return gale__fail(errors[i].status, "%s: %s (%d)", text, errors[i].name, (int)error);
    return gale__fail(GALE_INTERNAL, "%s: OpenCL error %d", text, (int)error);
}
