/* Changing a model that was read: what `gale convert` is made of.  New messages go to the file's arena; a failed edit leaves the model unfit for use. */
#ifndef GALE_ONNX_EDIT_H
#define GALE_ONNX_EDIT_H
#include "onnx/names.h"

/* Extents called `name` (in inputs, outputs and everything between) become `value`; "INPUT:AXIS" names one without a name. */
gale_status gale__edit_pin(gale__onnx *file, gale__pb_model *model, const char *name, int64_t value);
/* Extents of an input become open: "INPUT" all of them, "INPUT:AXIS" one.  What was said about shapes behind them is forgotten. */
gale_status gale__edit_free(gale__onnx *file, gale__pb_model *model, const char *what);
/* Keeps what leads from some values to others.  text: "INPUTS:OUTPUTS", each names with commas. */
gale_status gale__edit_extract(gale__onnx *file, gale__pb_model *model, const char *text);
/* Numbers of single precision become `type` (f16 or bf16), wherever an operator takes it; inputs and outputs stay as they are. */
gale_status gale__edit_precision(gale__onnx *file, gale__pb_model *model, gale_type type);

/* A C file that holds the model: `const unsigned char NAME[]`, `const size_t NAME_size`. */
gale_status gale__emit_c(gale__onnx *file, const gale__pb_model *model, const char *name, const char *path);

/* --- For the files of this part. --- */

/* ONNX's number of the element type of every value of a graph, as far as the file says it or its operators do; 0: not known. */
gale_status gale__edit_types(const gale__pb_graph *graph, gale__names *out);
static inline int gale__edit_type_of(const gale__names *types, const gale__pb_text *name)
{
    int32_t type = name->size ? gale__names_find(types, name->at, name->size) : 0;
    return type < 0 ? 0 : type;
}
/* Calls for each name that the bodies of a node use, also for those they make themselves. */
typedef gale_status gale__edit_visit(void *user, const gale__pb_text *name);
gale_status gale__edit_body_names(const gale__pb_node *node, gale__edit_visit *visit, void *user);
static inline bool gale__pb_text_equal(const gale__pb_text *a, const gale__pb_text *b) { return a->size == b->size && (!a->size || !__builtin_memcmp(a->at, b->at, a->size)); }
const gale__pb_attribute *gale__pb_find_attribute(const gale__pb_node *node, const char *name);
bool gale__pb_is_core(const gale__pb_text *domain); /* ai.onnx */
#endif
