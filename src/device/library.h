/* A driver library loaded once per process, with its functions in a table filled from a list of names. */
#ifndef GALE_DEVICE_LIBRARY_H
#define GALE_DEVICE_LIBRARY_H
#include "base/file.h"
#include <stdarg.h>

typedef struct gale__library {
    const char *const *sonames; /* tried in order; NULL-ended */
    const char *const *symbols; /* one name for each pointer of the table */
    size_t count;
    void *table;         /* a struct of function pointers and nothing else */
    const char *too_old; /* what a missing symbol means: "it is older than OpenCL 1.2" */
    gale__dl *dl;        /* set once all is there, and then never closed: drivers keep threads */
} gale__library;

/* GALE_NOT_FOUND with the reason; may be tried again. */
gale_status gale__library_load(gale__library *library);

/* A driver's error codes: what each means to us, and its name. */
typedef struct gale__driver_error {
    int code;
    gale_status status;
    const char *name;
} gale__driver_error;
typedef struct gale__driver_errors {
    const char *api;
    const gale__driver_error *list;
    size_t count;
} gale__driver_errors;
/* Fails with the text and the code's name: "TEXT: CL_OUT_OF_RESOURCES (-5)". */
gale_status gale__driver_fail(const gale__driver_errors *errors, int code, const char *format, va_list args);
#endif
