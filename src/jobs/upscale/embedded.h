/* Networks that the library carries inside, so that it is of use without a download. */
#ifndef GALE_JOBS_EMBEDDED_H
#define GALE_JOBS_EMBEDDED_H
#include "base/mem.h"
/* What the library takes where no network is named; the network before it, for pictures that are not clean; and the
 * name of both, where it is decided picture by picture. */
#define GALE__EMBEDDED_USUAL "zoom2x"
#define GALE__EMBEDDED_CLEAN "clean"
#define GALE__EMBEDDED_AUTO "auto"
typedef struct gale__embedded {
    const char *name, *manifest;
    const void *data;
    size_t size;
} gale__embedded;
/* The i-th; NULL past the last. */
const gale__embedded *gale__embedded_at(size_t i);
/* By name, auto being the usual one; NULL: there is none. */
const gale__embedded *gale__embedded_find(const char *name);
#endif
