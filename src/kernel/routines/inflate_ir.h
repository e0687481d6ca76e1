/* Shared by the files that write the kernel for EXR's ZIP chunks: what a work-group, which has one chunk, holds. */
#ifndef GALE_KERNEL_ROUTINES_INFLATE_IR_H
#define GALE_KERNEL_ROUTINES_INFLATE_IR_H
#include "kernel/routines/routine.h"
#include "kernel/schedule/special_ir.h"

/* Pointer parameters; words.  ROW: samples from row to row of a plane; CHANNELS: of the file. */
enum { PLANES, FLAGS, SPACE, TABLE, INPUT };
enum { W_INPUT_LAST, W_ROW, W_CHANNELS };

/* Entries of tables: bits 0-4 the length of the code, 0: it is longer than the table's, or there is none; 5-8 the
 * number of bits that follow it; LITERAL, ENDS; 16-30 the number. */
#define LITERAL 0x80000000u /* a sign is tested by one instruction */
enum { ENDS = 1024 };
enum { HEADER, SYMBOLS, DONE, BAD }; /* states */
enum { CODES, LITERALS, DISTANCES }; /* stages of a block's beginning: the codes of lengths, then those of symbols */
enum { MOST_LITERALS = 288, MOST_DISTANCES = 32, CODES_AT = 320, SYMBOLS_ALL = 352, LENGTHS = 16 };
enum { LANES = GALE__INFLATE_LANES, LITERAL_BITS = 10, DISTANCE_BITS = 8, CODE_BITS = 7, AT_ONCE = 3 };
enum { STEPS = 64, NEAR_STEPS = 4, NEAR = 13, BLOCK_LEAST = 1024, BLOCKS_MORE = 64 };

typedef struct inflating {
    gale__ir *ir;
    uint32_t each; /* samples that a thread places at a time */
    gale__ir_val lane, zero, chunk;
    gale__ir_val at, packed, size, space, place_at, sum, raw, width; /* of the chunk, as in gale__inflate_chunk */
    gale__ir_val last;                                               /* of the input's words */
    gale__ir_val end;                                                /* of the stream, in bits */
    /* Variables.  place: in bits; words: those there; filled: the first word that is not in the ring yet, ahead: this
     * thread's of the block that begins with it; count, distance: a match; late: this thread's byte of the last match,
     * which is stored when the next one begins. */
    gale__ir_val place, words[3], ahead, filled, out, state, final, entry, count, distance, late, late_at, late_count;
    /* In work-group memory. */
    gale__ir_val ring, table, sorted, lengths, counts, first, start, total;
} inflating;

static inline gale__ir_val value_of(const inflating *k, gale__ir_val variable) { return get(k->ir, variable, k->zero); }
static inline void assign(const inflating *k, gale__ir_val variable, gale__ir_val v)
{
    set(k->ir, variable, k->zero, v);
}
static inline gale__ir_val sub(gale__ir *ir, gale__ir_val a, gale__ir_val b) { return bin(ir, GALE__SUB, a, b); }
static inline gale__ir_val masked(gale__ir *ir, gale__ir_val a, uint32_t mask)
{
    return bin(ir, GALE__AND, a, u32(ir, mask));
}
static inline gale__ir_val left(gale__ir *ir, gale__ir_val a, gale__ir_val n) { return bin(ir, GALE__IR_SHL, a, n); }
static inline gale__ir_val right(gale__ir *ir, gale__ir_val a, gale__ir_val n) { return bin(ir, GALE__IR_SHR, a, n); }
static inline gale__ir_val either(gale__ir *ir, gale__ir_val a, gale__ir_val b)
{
    return gale__ir_op2(ir, GALE__OR, GALE_BOOL, a, b);
}
/* Makes memory writes of all threads visible to the group. */
static inline void barrier_all(gale__ir *ir) { gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = 1}); }

/* An IF with barriers inside, whose condition is uniform.  Written as a loop of one iteration: PoCL duplicates all code
 * after an IF with a barrier, recursively. */
static inline void begin_together(const inflating *k, gale__ir_val condition)
{
    begin_for(k->ir, k->zero, pick(k->ir, condition, u32(k->ir, 1), k->zero), 1);
}

/* The lowest n bits of v, n less than 32. */
static inline gale__ir_val lowest(gale__ir *ir, gale__ir_val v, gale__ir_val n)
{
    return bin(ir, GALE__AND, v, sub(ir, left(ir, u32(ir, 1), n), u32(ir, 1)));
}

static inline gale__ir_val reversed(gale__ir *ir, gale__ir_val v)
{
    static const uint32_t masks[] = {0x55555555, 0x33333333, 0x0f0f0f0f, 0x00ff00ff, 0x0000ffff};
    for (uint32_t i = 0; i < 5; i++) {
        gale__ir_val n = u32(ir, 1u << i);
        v = bin(ir, GALE__OR, left(ir, masked(ir, v, masks[i]), n), masked(ir, right(ir, v, n), masks[i]));
    }
    return v;
}

static inline void fail(const inflating *k) { assign(k, k->state, u32(k->ir, BAD)); }

/* Bits: the next 32; less than 32 are used; before at most NEAR - 3 words, as many as NEAR_STEPS steps take, are used;
 * at any place. */
gale__ir_val gale__inflate_window(const inflating *k);
void gale__inflate_advance(const inflating *k, gale__ir_val n);
void gale__inflate_fill_ring(const inflating *k);
void gale__inflate_seek(const inflating *k);
/* A block's codes, or all of a stored block; the state after it; the entry of a code longer than the table's. */
void gale__inflate_begin_block(const inflating *k);
void gale__inflate_end_block(const inflating *k);
void gale__inflate_find_long(const inflating *k, uint32_t stage, uint32_t bits, gale__ir_val next);
/* The bytes of a chunk in the extra memory, whose sum is checked, to samples in planes; *fine: whether they were as
 * they should. */
void gale__inflate_place(const inflating *k, gale__ir_val fine);
/* A chunk that is stored uncompressed. */
void gale__inflate_copy(const inflating *k);
#endif
