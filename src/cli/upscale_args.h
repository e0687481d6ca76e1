/* The arguments of gale upscale, which are many. */
#ifndef GALE_CLI_UPSCALE_ARGS_H
#define GALE_CLI_UPSCALE_ARGS_H
#include "cli/args.h"
extern const gale__arg gale__upscale_args[];
#endif
