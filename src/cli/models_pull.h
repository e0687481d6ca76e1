/* gale models pull and search. */
#ifndef GALE_CLI_MODELS_PULL_H
#define GALE_CLI_MODELS_PULL_H
#include "cli/cli.h"
#include "jobs/models/catalogue.h"
int gale__models_pull(const gale__args *a);
int gale__models_search(const gale__args *a);
/* GALE_CATALOGUE, else catalogue.yml or .json in the folder of models. */
gale_status gale__models_catalogue(gale__str *path);
#endif
