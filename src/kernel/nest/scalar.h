/* Scalar operations by number. */
#ifndef GALE_KERNEL_SCALAR_H
#define GALE_KERNEL_SCALAR_H
#include "base/num.h"
typedef enum gale__scalar {
#define X(NAME, arity, class) GALE__##NAME,
#include "scalar.def"
#undef X
    GALE__SCALAR_COUNT
} gale__scalar;
typedef struct gale__scalar_info {
    const char *name;
    int arity;
    char class_;
} gale__scalar_info;
extern const gale__scalar_info gale__scalar_table[GALE__SCALAR_COUNT];
/* The type values of a storage type are computed in: f16, bf16, f8, f4 -> F32; i8, i16, i4, i2 -> I32; u8, u16, u4, u2
 * -> U32; the rest themselves.  Results are brought back to the storage type's range after every operation on integers
 * (wrap), and rounded to it at a CAST or a store on floats. */
gale_type gale__compute_type(gale_type storage);
#endif
