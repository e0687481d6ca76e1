#ifndef GALE_CLI_CACHE_WARM_H
#define GALE_CLI_CACHE_WARM_H
#include "cli/args.h"

/* Returns the exit code. */
int gale__cache_warm(const gale__args *a);
#endif
