/* Index search; shared by selections by value and lookups. */
#ifndef GALE_OPS_SELECT_H
#define GALE_OPS_SELECT_H
#include "ops/lower.h"

/* How many elements of `sorted` (rank 1, ascending) are below each of `targets` (same type, any shape): I64. */
gale__node gale__lower_search(gale__lower *L, gale__node sorted, gale__node targets);
/* Places of the true elements of `mask` (BOOL, rank 1), in order and filled up to the mask's length with any valid
 * place; *count: how many, I64 scalar. */
gale__node gale__lower_chosen(gale__lower *L, gale__node mask, gale__node *count);
#endif
