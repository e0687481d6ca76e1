/* Loads libOpenCL at run time and names its errors.  Nothing is linked, so that one binary serves machines with and
 * without OpenCL. */
#include "device/opencl/opencl.h"
#include "device/library.h"

static const char *const sonames[] = {"libOpenCL.so.1", "libOpenCL.so", NULL};
static const char *const symbols[] = {
#define X(name) #name,
#include "device/opencl/symbols.def"
#undef X
};
static gale__cl table;
static gale__library library = {
    sonames, symbols, sizeof symbols / sizeof *symbols, &table, "it is older than OpenCL 1.2", NULL};

gale_status gale__cl_load(const gale__cl **cl, const char **soname)
{
    GALE_TRY(gale__library_load(&library));
    *cl = &table;
    if (soname) *soname = gale__dl_name(library.dl);
    return GALE_OK;
}

static const gale__driver_error error_list[] = {
#define X(name, status) {name, GALE_##status, #name},
#include "device/opencl/errors.def"
#undef X
};

static const gale__driver_errors errors = {"OpenCL", error_list, sizeof error_list / sizeof *error_list};

gale_status gale__cl_fail(cl_int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    gale_status status = gale__driver_fail(&errors, (int)error, format, args);
    va_end(args);
    return status;
}
