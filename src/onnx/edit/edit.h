/* Changing a model that was read: what `gale convert` is made of.  New messages go to the file's arena; a failed edit
 * leaves the model unfit for use. */
#ifndef GALE_ONNX_EDIT_H
#define GALE_ONNX_EDIT_H
#include "onnx/import/names.h"

/* Extents called `name` (in inputs, outputs and everything between) become `value`; "INPUT:AXIS" names one without a
 * name. */
gale_status gale__edit_pin(gale__onnx *file, gale__pb_model *model, const char *name, int64_t value);
/* Extents of an input become open: "INPUT" all of them, "INPUT:AXIS" one.  Declared shapes after them are
 * forgotten. */
gale_status gale__edit_free(gale__onnx *file, gale__pb_model *model, const char *what);
/* Keeps what leads from some values to others.  text: "INPUTS:OUTPUTS", each names with commas. */
gale_status gale__edit_extract(gale__onnx *file, gale__pb_model *model, const char *text);
/* Numbers of single precision become `type` (f16 or bf16), wherever an operator takes it; inputs and outputs stay as
 * they are. */
gale_status gale__edit_precision(gale__onnx *file, gale__pb_model *model, gale_type type);

/* The other way, for a graph whose nodes have no bodies: halves become single precision wherever they are. */
gale_status gale__edit_widen(gale__onnx *file, gale__pb_graph *graph);

/* Every node in the form of the least opset from `least` to `most` that can express it, functions inlined (export.c).
 * Both are 13 to GALE__OPSET_NEWEST.  GALE_UNSUPPORTED where a node needs more than `most`. */
gale_status gale__edit_opset(gale__onnx *file, gale__pb_model *model, int least, int most);
/* The opset of ai.onnx that the model is of; 1 where it says none. */
int64_t gale__edit_opset_of(const gale__pb_model *model);
/* Computes what depends on constants alone, and Shape and Size of values whose extents follow from inputs that are
 * wholly fixed; then tidies.  Results that are much larger than what they are computed from stay nodes.  cpu: a device
 * to compute on. */
gale_status gale__edit_fold(gale__onnx *file, gale__pb_model *model, gale_device *cpu);
/* Equal nodes and equal small initialisers become one; what nothing reads goes. */
gale_status gale__edit_tidy(gale__onnx *file, gale__pb_model *model);

/* A C file that holds the model: `const unsigned char NAME[]`, `const size_t NAME_size`. */
bool gale__edit_is_c_name(const char *text); /* of a variable */
gale_status gale__edit_emit_c(gale__onnx *file, const gale__pb_model *model, const char *name, const char *path);

/* --- For the files of this part. --- */

/* Many exporters list every initialiser among the inputs too.  Here they are weights: nobody gives them. */
void gale__edit_drop_formal_inputs(gale__pb_model *model);
/* Nodes stand in an order in which values are made before they are read. */
gale_status gale__edit_order(gale__onnx *file, gale__pb_graph *graph);
/* Constant nodes of the main graph become initialisers; the others come into order. */
gale_status gale__edit_hoist_constants(gale__onnx *file, gale__pb_graph *graph);
gale_status gale__edit_add_initializers(
    gale__onnx *file, gale__pb_graph *graph, const gale__pb_tensor *tensors, size_t n);
/* Whether a node gives the same for the same inputs, as far as is known: nothing random, no body, no function. */
bool gale__edit_is_pure(const gale__pb_model *model, const gale__pb_node *node);

/* ONNX's number of the element type of every value of a graph, as far as the file says it or its operators do; 0: not
 * known. */
gale_status gale__edit_types(const gale__pb_graph *graph, gale__onnx_names *out);
static inline int gale__edit_type_of(const gale__onnx_names *types, const gale__pb_text *name)
{
    int32_t type = name->size ? gale__onnx_names_find(types, name->at, name->size) : 0;
    return type < 0 ? 0 : type;
}
/* Which nodes, all in order, carry sums of integer products on their way to their last scaling, or make the scales:
 * false is left as it is. */
gale_status gale__edit_find_sums(const gale__pb_graph *graph, const gale__onnx_names *types, bool *keeps);
/* Calls for each name that the bodies of a node use, also for those they make themselves. */
typedef gale_status gale__edit_visit(void *user, const gale__pb_text *name);
gale_status gale__edit_body_names(const gale__pb_node *node, gale__edit_visit *visit, void *user);
static inline bool gale__pb_text_equal(const gale__pb_text *a, const gale__pb_text *b)
{
    return a->size == b->size && (!a->size || !__builtin_memcmp(a->at, b->at, a->size));
}
static inline bool gale__pb_is(const gale__pb_text *text, const char *word)
{
    return text->size == __builtin_strlen(word) && !__builtin_memcmp(text->at ? text->at : "", word, text->size);
}
const gale__pb_attribute *gale__pb_find_attribute(const gale__pb_node *node, const char *name);
bool gale__pb_has_value(const gale__pb_graph *graph, const gale__pb_text *name); /* an initialiser is called so */
bool gale__pb_is_core(const gale__pb_text *domain);                              /* ai.onnx */
#endif
