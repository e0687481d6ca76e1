/* Parts of inspecting a model file. */
#ifndef GALE_JOBS_INSPECT_H
#define GALE_JOBS_INSPECT_H
#include "gale/model_jobs.h"
#include "jobs/job.h"
#include "onnx/wire/proto.h"

/* Text of a file on its way to people: without control characters. */
void gale__add_plain(gale__str *out, const char *text, size_t size);
/* A finished text as the arena's; NULL: no memory. */
const char *gale__arena_take(gale__arena *arena, gale__str *text);
/* inspect_shapes.c: every named value with its type and shape. */
gale_status gale__inspect_shapes(gale__onnx *file, gale_inspect_result *result);
#endif
