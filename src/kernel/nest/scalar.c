/* The table of scalar operations, and which type each storage type is computed in. */
#include "kernel/nest/scalar.h"

const gale__scalar_info gale__scalar_table[GALE__SCALAR_COUNT] = {
#define X(NAME, arity, class) {#NAME, arity, class},
#include "scalar.def"
#undef X
};

gale_type gale__compute_type(gale_type storage)
{
    const gale__type_info *t = &gale__type_table[storage];
    if (t->bits >= 32 || t->kind == 'b' || t->kind == 's') return storage;
    return t->kind == 'f' ? GALE_F32 : t->kind == 'i' ? GALE_I32 : GALE_U32;
}
