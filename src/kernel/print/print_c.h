/* A kernel on its way to C-family text, shared by the files that print it. */
#ifndef GALE_KERNEL_PRINT_C_H
#define GALE_KERNEL_PRINT_C_H
#include "kernel/ir/ir.h"
#include "kernel/print/dialect.h"

typedef struct gale__c_printer {
    const gale__ir *ir;
    const gale__dialect_table *dialect;
    gale__str *out;
    gale__arena arena;
    uint32_t *uses;
    gale__ir_val *user;
    uint32_t *block, *epoch; /* by instruction: its block; effects before it */
    bool *reads;             /* the value's text holds a GET */
    const char **text;       /* how a value is written where it is used */
    gale__str scratch;
} gale__c_printer;

extern const char *const gale__c_type_names[GALE_TYPE_COUNT];

gale_status gale__print_c_matrix(gale__c_printer *p, gale__ir_val v, const gale__ir_instr *in);
#endif
