/* gale models pull. */
#ifndef GALE_CLI_MODELS_PULL_H
#define GALE_CLI_MODELS_PULL_H
#include "cli/cli.h"
int gale__models_pull(const gale__args *a);
#endif
