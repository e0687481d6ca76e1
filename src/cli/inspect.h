/* Parts of `gale inspect`. */
#ifndef GALE_CLI_INSPECT_H
#define GALE_CLI_INSPECT_H
#include "cli/args.h"
#include "base/json.h"
#include "onnx/wire/proto.h"

/* Text of a file without its control characters. */
void gale__add_plain(gale__str *out, const gale__pb_text *text);
/* Every named value with its type and shape, as lines, or as an array in JSON (either may be NULL). */
gale_status gale__inspect_shapes(gale__onnx *file, gale__str *lines, gale__json_out *json);
/* inspect_plan.c */
gale_status gale__inspect_plan(const gale__args *a, gale_device *device);
#endif
