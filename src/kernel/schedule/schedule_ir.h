/* Short names for what schedules of tiles write most: 32-bit indices, and loops whose ends are known. */
#ifndef GALE_KERNEL_SCHEDULE_IR_H
#define GALE_KERNEL_SCHEDULE_IR_H
#include "kernel/ir/ir.h"

static inline gale__ir_val op32(gale__ir *ir, int op, gale__ir_val a, uint32_t b)
{
    return gale__ir_op2(ir, op, GALE_U32, a, gale__ir_u32(ir, b));
}
static inline gale__ir_val add32(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, GALE__ADD, GALE_U32, a, b);
}
static inline gale__ir_val loop(gale__ir *ir, uint32_t end, uint32_t step, uint8_t unroll)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_FOR,
                                .type = GALE_U32,
                                .a = gale__ir_u32(ir, 0),
                                .b = gale__ir_u32(ir, end),
                                .c = gale__ir_u32(ir, step),
                                .imm = unroll});
}
#endif
