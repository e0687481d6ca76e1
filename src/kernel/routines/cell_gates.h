/* The gates of recurrent cells, shared by their kernels: ONNX's order, the usual activations. */
#ifndef GALE_KERNEL_CELL_GATES_H
#define GALE_KERNEL_CELL_GATES_H
#include "kernel/routines/routine.h"
#include "kernel/schedule/special_ir.h"

enum { GALE__CELL_GATES = 4 }; /* the most that a cell has */

static inline uint32_t gale__cell_gates(const gale__cpu_cell *a)
{
    return a->kind == GALE__CELL_LSTM ? 4 : a->kind == GALE__CELL_GRU ? 3 : 1;
}
static inline gale__ir_val gale__cell_f32(gale__ir *ir, int op, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, op, GALE_F32, a, b);
}
static inline gale__ir_val gale__cell_tanh(gale__ir *ir, gale__ir_val v)
{
    return gale__ir_scalar(ir, GALE__TANH, GALE_F32, v, 0, 0);
}
static inline gale__ir_val gale__cell_sigmoid(gale__ir *ir, gale__ir_val v)
{
    gale__ir_val one = gale__ir_f32(ir, 1), minus = gale__ir_op1(ir, GALE__NEG, GALE_F32, v);
    gale__ir_val e = gale__ir_scalar(ir, GALE__EXP, GALE_F32, minus, 0, 0);
    return gale__ir_scalar(ir, GALE__DIV, GALE_F32, one, gale__cell_f32(ir, GALE__ADD, one, e), 0);
}
/* An LSTM's new c, which replaces *c, and its h: gates input, output, forget, cell, all open. */
static inline gale__ir_val gale__cell_lstm(gale__ir *ir, const gale__ir_val *gate, gale__ir_val *c)
{
    *c = gale__cell_f32(
        ir, GALE__ADD, gale__cell_f32(ir, GALE__MUL, gate[2], *c), gale__cell_f32(ir, GALE__MUL, gate[0], gate[3]));
    return gale__cell_f32(ir, GALE__MUL, gate[1], gale__cell_tanh(ir, *c));
}
/* A GRU's h: update and reset are open, `late` is the hidden gate's product with its bias, x its input. */
static inline gale__ir_val gale__cell_gru(
    gale__ir *ir, gale__ir_val update, gale__ir_val reset, gale__ir_val late, gale__ir_val x, gale__ir_val old)
{
    gale__ir_val fresh =
        gale__cell_tanh(ir, gale__cell_f32(ir, GALE__ADD, x, gale__cell_f32(ir, GALE__MUL, reset, late)));
    gale__ir_val rest = gale__cell_f32(ir, GALE__SUB, gale__ir_f32(ir, 1), update);
    return gale__cell_f32(
        ir, GALE__ADD, gale__cell_f32(ir, GALE__MUL, rest, fresh), gale__cell_f32(ir, GALE__MUL, update, old));
}
#endif
