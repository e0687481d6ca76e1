/* 64 numbers for a text without a model: enough to distinguish texts by their words, and the same on every machine. */
#ifndef GALE_JOBS_EMBED_HEURISTIC_H
#define GALE_JOBS_EMBED_HEURISTIC_H
#include "gale/base.h"
#define GALE__HEURISTIC "heuristic"
enum { GALE__HEURISTIC_DIMS = 64 };
void gale__heuristic(const char *text, size_t size, bool normalize, float out[GALE__HEURISTIC_DIMS]);
#endif
