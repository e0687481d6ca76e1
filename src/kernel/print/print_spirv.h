/* Shared by the files that print SPIR-V: one kernel being added to a module. */
#ifndef GALE_KERNEL_PRINT_SPIRV_H
#define GALE_KERNEL_PRINT_SPIRV_H
#include "kernel/print/spirv.h"

typedef struct gale__spv_frame {
    uint32_t header, body, next, merge, counter, after, other;
    uint8_t op;
} gale__spv_frame;

typedef struct gale__spv_printer {
    gale__spv spv;
    const gale__ir *ir;
    const gale_device_caps *caps;
    uint32_t *id; /* by value */
    uint32_t *uses;
    uint32_t *unit;      /* by work-group array: bytes of what it is declared as an array of; 0: as its type says */
    uint32_t *under;     /* by work-group array: the one whose memory it takes, or its own if others do; 0: neither */
    uint32_t parameters; /* the push constants; when `block`, the address of the block */
    bool block;
    bool hands; /* threads read what others wrote to the device's memory: such accesses and barriers are marked */
    bool model; /* the Vulkan memory model: accesses to shared data, and barriers, are marked */
    uint32_t *pointer, *word; /* by parameter: its value, once read */
    uint32_t builtin[4];      /* by GROUP_ID .. LANE: its variable */
    uint32_t builtin_value[4];
    gale__spv_frame frames[64];
    int depth;
} gale__spv_printer;

/* Arrays and their elements, one by one or as vectors (print_spirv_array.c). */
gale_status gale__spv_plan_arrays(gale__spv_printer *p);
uint32_t gale__spv_declare(gale__spv_printer *p, gale__ir_val v);
uint32_t gale__spv_get(gale__spv_printer *p, const gale__ir_instr *in);
void gale__spv_set(gale__spv_printer *p, const gale__ir_instr *in);

/* Matrices (print_spirv_matrix.c): the value of MATRIX_A, MATRIX_B, SUMS, or an effect. */
void gale__spv_matrix(gale__spv_printer *p, gale__ir_val v);
/* Pointer to where element `index` of work-group array `array` is, and from row to row in what it points to. */
uint32_t gale__spv_unit_pointer(gale__spv_printer *p, gale__ir_val array, uint32_t index);
uint32_t gale__spv_unit_bytes(const gale__spv_printer *p, gale__ir_val array);
#endif
