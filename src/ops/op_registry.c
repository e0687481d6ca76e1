/* The table of operators, from ops.def: a row names its lowering. */
#include "ops/lower.h"

#define X(Name, least, most, outputs, plan, shapes, text) \
    static const gale__op op_##Name = {#Name, least, most, outputs, plan, gale__op_##Name, text, shapes};
#include "ops/ops.def"
#undef X

const gale__op *const gale__ops_table[] = {
#define X(Name, ...) &op_##Name,
#include "ops/ops.def"
#undef X
};
const int gale__ops_count = sizeof gale__ops_table / sizeof *gale__ops_table;
