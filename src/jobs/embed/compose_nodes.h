/* Nodes that composing adds to a graph, as messages of its file, in the form of the model's opset.  The first failure
 * stays in `status`, and the rest does nothing. */
#ifndef GALE_JOBS_EMBED_COMPOSE_NODES_H
#define GALE_JOBS_EMBED_COMPOSE_NODES_H
#include "jobs/embed/compose.h"
#include "onnx/edit/edit.h"
#include <string.h>

typedef struct gale__composer {
    gale__onnx *file;
    gale__arena *arena;
    gale__pb_graph *g; /* with room for the nodes */
    int64_t opset;
    size_t count; /* names made */
    gale__pb_tensor tensors[32];
    size_t n_tensors;
    gale_status status;
} gale__composer;

static inline gale__pb_text gale__compose_text(const char *text) { return (gale__pb_text){text, strlen(text)}; }
/* type: 7, i64, or 1, one number of f32. */
gale__pb_text gale__compose_constant(gale__composer *c, int type, const int64_t *ints, float number, size_t n);
/* Numbers that outlive the file. */
gale__pb_text gale__compose_floats(gale__composer *c, const float *data, const int64_t *dims, int rank);
gale__pb_text gale__compose_ints(gale__composer *c, int64_t a, int64_t b, size_t n);
/* The node, or NULL; it has room for five inputs and three attributes. */
gale__pb_node *gale__compose_add(
    gale__composer *c, const char *op, gale__pb_text a, gale__pb_text b, gale__pb_text *out);
void gale__compose_set_int(gale__pb_node *node, const char *name, int64_t value);
void gale__compose_set_list(gale__composer *c, gale__pb_node *node, const char *name, int64_t value);
gale__pb_text gale__compose_unary(gale__composer *c, const char *op, gale__pb_text x);
gale__pb_text gale__compose_binary(gale__composer *c, const char *op, gale__pb_text a, gale__pb_text b);
gale__pb_text gale__compose_where(gale__composer *c, gale__pb_text condition, gale__pb_text a, gale__pb_text b);
gale__pb_text gale__compose_reshape(gale__composer *c, gale__pb_text x, const int64_t *dims, size_t rank);
gale__pb_text gale__compose_reduce(gale__composer *c, const char *op, gale__pb_text x, int64_t axis);

/* compose_pack.c: several texts share a row of a batch (GALE__PACK_SEGMENTS): attention stays within each of them, and
 * positions start again in each.  *places: positions are an input now.  GALE_UNSUPPORTED, with the reason, where the
 * graph is not understood. */
gale_status gale__compose_pack(gale__composer *c, int64_t width, bool *places);
/* Pooling of packed rows [rows, tokens, dims]: [texts, dims]. */
gale__pb_text gale__compose_pool_packed(gale__composer *c, gale__pb_text x, gale_pooling pooling);
#endif
