/* Shared by the operators of ai.onnx.ml: numeric attributes, and the transformation of scores. */
#ifndef GALE_OPS_ML_H
#define GALE_OPS_ML_H
#include "ops/lower.h"

/* Numbers of an attribute, however it is written: a tensor, a list, or one number.  Lists of floats are F32, of whole
 * numbers I64. */
typedef struct gale__ml_list {
    gale_type type;
    int64_t count;
    const void *data; /* dense; NULL: the attribute is absent */
} gale__ml_list;
gale__ml_list gale__ml_list_read(gale__lower *L, const char *name);
/* The first of two names that is there: many attributes have a form "_as_tensor". */
gale__ml_list gale__ml_list_either(gale__lower *L, const char *name, const char *other);
double gale__ml_list_f(const gale__ml_list *list, int64_t i);
int64_t gale__ml_list_i(const gale__ml_list *list, int64_t i);
/* As a constant of `type` in the given shape, which must have as many elements. */
gale__node gale__ml_list_node(
    gale__lower *L, const gale__ml_list *list, const char *name, gale_type type, int rank, const int64_t *dims);

/* Input 0 as floats [N, F]: F64 stays, all else is F32; a vector is one row. */
gale__node gale__ml_samples(gale__lower *L);
/* Scores [N, E] after attribute post_transform (text, or TreeEnsemble's number), as F32 or F64. */
gale__node gale__ml_post_transform(gale__lower *L, gale__node scores);
/* One score s for two classes: [N, 2] as (-s, s), or (1 - s, s). */
gale__node gale__ml_two_scores(gale__lower *L, gale__node score, bool from_one);
/* The class of each row of scores: its label where whole-number labels are given as attribute `name`, else its number;
 * I64 [N]. */
gale__node gale__ml_class_of(gale__lower *L, gale__node scores, const char *name);
#endif
