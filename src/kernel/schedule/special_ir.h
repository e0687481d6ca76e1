/* Shorthand for hand-written IR kernels: all indices are U32. */
#ifndef GALE_KERNEL_SPECIAL_IR_H
#define GALE_KERNEL_SPECIAL_IR_H
#include "kernel/schedule/special.h"

/* Kernels by number: gale__special_launch.kernel. */
enum { SORT_ROWS, SORT_BLOCKS, SORT_STEP, SORT_MERGE, SORT_WRITE, SCAN_LINES, SCAN_BLOCKS, SCAN_APPLY, PUT_APPLY };

static inline gale__ir_val u32(gale__ir *ir, uint32_t v) { return gale__ir_u32(ir, v); }
static inline gale__ir_val bin(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, GALE_U32, a, b);
}
static inline gale__ir_val add(gale__ir *ir, gale__ir_val a, gale__ir_val b) { return bin(ir, GALE__ADD, a, b); }
static inline gale__ir_val mul(gale__ir *ir, gale__ir_val a, gale__ir_val b) { return bin(ir, GALE__MUL, a, b); }
static inline gale__ir_val test(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, GALE_BOOL, a, b);
}
static inline gale__ir_val both(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, GALE__AND, GALE_BOOL, a, b);
}
static inline gale__ir_val pick(gale__ir *ir, gale__ir_val c, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op3(ir, GALE__SELECT, gale__ir_type(ir, a), c, a, b);
}
static inline gale__ir_val convert(gale__ir *ir, gale_type t, gale__ir_val a)
{
    return gale__ir_op1(ir, GALE__IR_CONVERT, t, a);
}
static inline gale__ir_val word(gale__ir *ir, int i)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = GALE_U32, .imm = (uint64_t)i});
}
static inline gale__ir_val special(gale__ir *ir, int op, int dim)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op, .type = GALE_U32, .imm = (uint64_t)dim});
}
static inline gale__ir_val thread_id(gale__ir *ir) { return special(ir, GALE__IR_LOCAL_ID, 0); }
static inline gale__ir_val group_id(gale__ir *ir)
{
    return add(ir, special(ir, GALE__IR_GROUP_ID, 0),
        mul(ir, special(ir, GALE__IR_GROUP_ID, 1), special(ir, GALE__IR_GROUP_COUNT, 0)));
}
static inline void begin_if(gale__ir *ir, gale__ir_val c)
{
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_IF, .a = c});
}
static inline void begin_else(gale__ir *ir) { gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_ELSE}); }
static inline void end(gale__ir *ir) { gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_END}); }
static inline gale__ir_val begin_for(gale__ir *ir, gale__ir_val from, gale__ir_val to, uint32_t step)
{
    return gale__ir_add(
        ir, (gale__ir_instr){.op = GALE__IR_FOR, .type = GALE_U32, .a = from, .b = to, .c = u32(ir, step)});
}
static inline void barrier(gale__ir *ir) { gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER}); }
static inline gale__ir_val array(gale__ir *ir, int op, gale_type t, uint32_t n)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op, .type = (uint8_t)t, .imm = n});
}
static inline gale__ir_val variable(gale__ir *ir, gale_type t) { return array(ir, GALE__IR_ARRAY, t, 1); }
static inline gale__ir_val get(gale__ir *ir, gale__ir_val a, gale__ir_val at)
{
    return gale__ir_op2(ir, GALE__IR_GET, gale__ir_type(ir, a), a, at);
}
static inline void set(gale__ir *ir, gale__ir_val a, gale__ir_val at, gale__ir_val v)
{
    gale__ir_op3(ir, GALE__IR_SET, gale__ir_type(ir, a), a, at, v);
}

/* special_sort.c, special_scan.c */
void gale__special_build_sort(const gale__special_launch *l, gale__ir *ir);
void gale__special_build_scan(const gale__special_launch *l, gale__ir *ir);
void gale__special_build_put(const gale__special_launch *l, gale__ir *ir);
#endif
