/* 64 numbers of a text without a model: enough to tell texts with other words apart, and the same everywhere. */
#ifndef GALE_JOBS_EMBED_HEURISTIC_H
#define GALE_JOBS_EMBED_HEURISTIC_H
#include "gale/base.h"
#define GALE__HEURISTIC "heuristic"
enum { GALE__HEURISTIC_DIMS = 64 };
void gale__heuristic(const char *text, size_t size, bool normalize, float out[GALE__HEURISTIC_DIMS]);
#endif
