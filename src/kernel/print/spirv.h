/* A SPIR-V module under construction: sections, unique types and constants, and the words of an instruction. */
#ifndef GALE_KERNEL_SPIRV_H
#define GALE_KERNEL_SPIRV_H
#include "kernel/ir/ir_util.h"
#include "kernel/print/print.h"
#include <spirv/unified1/GLSL.std.450.h>
#include <spirv/unified1/spirv.h>

#define GALE__SPV_BUCKETS 256

/* A type, constant or variable that exists once: position of its words in `globals`. */
typedef struct gale__spv_global {
    uint32_t at, id, next;
} gale__spv_global;

typedef struct gale__spv {
    gale__ir_words notes;   /* decorations */
    gale__ir_words globals; /* types, constants, variables outside the function */
    gale__ir_words locals;  /* variables of the function: they come first in it */
    gale__ir_words entry;   /* what is computed once, in the first block: parameters, builtins */
    gale__ir_words body;
    gale__ir_words interface_ids;
    uint32_t next_id, first_label, label; /* the block after `entry`, and the one being written */
    uint32_t glsl;                        /* the imported instruction set */
    uint32_t bucket[GALE__SPV_BUCKETS];
    gale__spv_global *known;
    size_t n_known, known_capacity;
    uint64_t capabilities; /* bits, by gale__spv_capability */
    bool failed;
} gale__spv;

typedef enum gale__spv_capability {
    GALE__SPV_FLOAT64,
    GALE__SPV_STORAGE8,
    GALE__SPV_STORAGE16,
    GALE__SPV_SUBGROUP,
    GALE__SPV_SHUFFLE,
    GALE__SPV_DENORMALS,
    GALE__SPV_NAN_INF,
    GALE__SPV_MEMORY_MODEL,
    GALE__SPV_INT8,
    GALE__SPV_INT16,
    GALE__SPV_FLOAT16,
    GALE__SPV_MATRIX,
    GALE__SPV_BF16,
    GALE__SPV_BF16_MATRIX,
    GALE__SPV_CAPABILITIES
} gale__spv_capability;

/* Appends one instruction. */
void gale__spv_emit(gale__spv *s, gale__ir_words *to, SpvOp op, const uint32_t *operands, int n);
#define EMIT(s, to, op, ...) \
    gale__spv_emit(s, to, op, (const uint32_t[]){__VA_ARGS__}, (int)(sizeof((const uint32_t[]){__VA_ARGS__}) / 4))
/* Appends one with a result of `type`; returns the result. */
uint32_t gale__spv_value(gale__spv *s, gale__ir_words *to, SpvOp op, uint32_t type, const uint32_t *operands, int n);
#define VALUE(s, to, op, type, ...) \
    gale__spv_value(                \
        s, to, op, type, (const uint32_t[]){__VA_ARGS__}, (int)(sizeof((const uint32_t[]){__VA_ARGS__}) / 4))
static inline uint32_t gale__spv_id(gale__spv *s) { return s->next_id++; }

/* Types by compute or memory type; integers carry no sign. */
uint32_t gale__spv_type(gale__spv *s, gale_type type, int width);
uint32_t gale__spv_global_type(gale__spv *s, SpvOp op, const uint32_t *operands, int n); /* any other type */
uint32_t gale__spv_pointer(gale__spv *s, SpvStorageClass where, uint32_t to);
uint32_t gale__spv_array(gale__spv *s, uint32_t of, uint64_t count);
uint32_t gale__spv_const(gale__spv *s, gale_type type, uint64_t bits);
static inline uint32_t gale__spv_u32(gale__spv *s, uint32_t v) { return gale__spv_const(s, GALE_U32, v); }
/* A global that is never shared: structs, variables. */
uint32_t gale__spv_struct(gale__spv *s, const uint32_t *members, int n);
uint32_t gale__spv_variable(gale__spv *s, SpvStorageClass where, uint32_t type);
uint32_t gale__spv_builtin(gale__spv *s, SpvBuiltIn which, uint32_t type);

/* Puts the sections together. */
gale_status gale__spv_link(gale__spv *s, const gale__ir *ir, uint32_t function, gale__ir_words *out);
void gale__spv_finish(gale__spv *s);
#endif
