/* A driver library opened once per process, its functions put into a table by a list of names. */
#ifndef GALE_DEVICE_LIBRARY_H
#define GALE_DEVICE_LIBRARY_H
#include "base/file.h"

typedef struct gale__library {
    const char *const *sonames; /* tried in order; NULL-ended */
    const char *const *symbols; /* one name for each pointer of the table */
    size_t count;
    void *table;                /* a struct of function pointers and nothing else */
    const char *too_old;        /* what a missing symbol means: "it is older than OpenCL 1.2" */
    gale__dl *dl;               /* set once all is there, and then never closed: drivers keep threads */
} gale__library;

/* GALE_NOT_FOUND with the reason; may be tried again. */
gale_status gale__library_load(gale__library *library);
#endif
