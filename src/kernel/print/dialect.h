/* The C family's dialects as tables of syntax templates: print_c.c contains nothing specific to any of them.
 *
 * A template is text with placeholders: $0 $1 $2 operands, $t the result's type, $u its unsigned twin, $i the
 * instruction's immediate, $x the immediate as x, y or z.  A row has a column for f32, f64, signed, unsigned and bool;
 * NULL: as in the common table. */
#ifndef GALE_KERNEL_DIALECT_H
#define GALE_KERNEL_DIALECT_H
#include "kernel/print/print.h"

typedef enum gale__dialect_column {
    GALE__DIALECT_COLUMN_F32,
    GALE__DIALECT_COLUMN_F64,
    GALE__DIALECT_COLUMN_SIGNED,
    GALE__DIALECT_COLUMN_UNSIGNED,
    GALE__DIALECT_COLUMN_BOOL,
    GALE__DIALECT_COLUMNS
} gale__dialect_column;
typedef const char *gale__dialect_spelling[GALE__DIALECT_COLUMNS];

typedef struct gale__dialect_table {
    const char *name; /* what devices call it: caps.dialect */
    const char *head, *head_f64, *head_f16, *head_subgroup,
        *head_own; /* text in front of the kernels; all but the first */
    const char *head_wide, *head_matrix, *head_bytes, *head_together; /* where needed; "": it has none */
    bool copies;                                                      /* head_matrix has asynchronous copies */
    const char *struct_pointers;                                      /* member of the parameter struct, before [NP] */
    const char *kernel; /* opens a kernel; $i: threads of a group; $0 $1 $2: its sides; the name follows */
    const char *pointer, *pointer_readonly; /* parameter for pointer $i; "" when they travel in the struct */
    const char *pointer_base;               /* statement that makes p$i of it; "" */
    const char *ready;                      /* READY, the first statement of kernels without it; "" */
    const char *shared;                     /* before a work-group array */
    const char *shared_launch;              /* declares the work-group memory requested at launch, gale_shared; "" */
    const char *shared_type;                /* pointer to an array that takes over memory of another, of $0 */
    const char *shared_vector;              /* vector of type $0 at $1 of a work-group array */
    const char *barriers[2], *barrier_subgroup; /* of work-group memory, of all memory; of a subgroup */
    const char *atomic_add;                     /* adds a U32 to what a pointer points to */
    const char *make_vector;                    /* before (a,b,c,d); $0: the vector type */
    const char *clamp;                          /* of a float between 0 and 1, NaN to 0; NULL */
    const char *join_byte;                      /* two words and which bytes of both: function; NULL */
    const char
        *vector[GALE_TYPE_COUNT]; /* names of vector types by memory type, without the element count that ends them */
    gale__dialect_spelling rows[GALE__IR_COUNT];
} gale__dialect_table;

extern const gale__dialect_table gale__dialects[];
/* What all dialects share. */
extern const gale__dialect_spelling gale__dialect_common[GALE__IR_COUNT];
#endif
