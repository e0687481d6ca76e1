/* Kernel IR: a small typed, structured program that two printers turn into C-family text or SPIR-V words.
 *
 * A kernel is a list of instructions in program order.  Values are SSA (an instruction's index); what changes in loops
 * lives in arrays (count 1: a variable).  Values are scalars of a compute type (BOOL I32 U32 I64 U64 F32 F64) or, from
 * a vector load until EXTRACT and from PACK until a vector store, vectors of 2 or 4.  Memory holds I8 U8 I16 U16 and
 * the compute types other than BOOL; loads of 8 and 16 bits give I32/U32, stores take the low bits.  So do work-group
 * arrays.
 *
 * Matrix units: the `subgroup` threads of a subgroup hold matrices of 16 x 16 together, and all of them reach each of
 * the MATRIX and SUMS instructions at once, with the same operands.  Where it is known which thread holds what (the
 * device's matrix_quads, subgroups of 32), GET and SET take SUMS for an array of this thread's own: 8 of each matrix.
 * Thread l has rows l / 4 (numbers 0, 1, 4, 5) and l / 4 + 8 (2, 3, 6, 7), columns 2 (l % 4) and the next (0 to 3) and
 * those 8 further (4 to 7).  Operands are F16 or BF16, both the same and 16 long, with sums in F32; or bytes, I8 or U8
 * each, 32 long, with sums in I32.  Devices without such units get the same kernel with these instructions written out
 * for plain threads (ir_matrix.c). */
#ifndef GALE_KERNEL_IR_H
#define GALE_KERNEL_IR_H
#include "base/str.h"
#include "gale/device.h"
#include "kernel/nest/scalar.h"

typedef uint32_t gale__ir_val; /* 0: none */

/* Operations beside the scalar ones; numbers continue after GALE__SCALAR_COUNT.  Of the scalar operations only those of
 * class 'r', the raw halves of class 'c' (IR_DIV ... below) and nothing of class 'm' reach a printer. */
typedef enum gale__ir_op {
    GALE__IR_CONST = GALE__SCALAR_COUNT, /* imm: the bits */
    GALE__IR_WORD, /* parameter word imm, as U32, I32 or F32 (by type); I64, U64, F64: words imm, imm + 1 (low first;
                      imm even) */
    GALE__IR_GROUP_ID, /* imm: dimension; U32 */
    GALE__IR_LOCAL_ID,
    GALE__IR_GROUP_COUNT,
    GALE__IR_LANE, /* index within the subgroup; U32 (only if the device has subgroup_ops) */
    GALE__IR_DIV,  /* division of the target language (the divisor is known not to be 0); imm 1: floats may have the
                      device's own accuracy */
    GALE__IR_REM,  /* integers only */
    GALE__IR_MIN,  /* of the target language; the result for NaN is unspecified */
    GALE__IR_MAX,
    GALE__IR_SHL, /* amount (same type as the value) is known to be less than the width */
    GALE__IR_SHR,
    GALE__IR_CONVERT,    /* numeric conversion, value known to be in range (floats to ints truncate); ints wrap; BOOL to
                            number yields 0 or 1 */
    GALE__IR_MULHI,      /* U32 x U32 -> high U32 */
    GALE__IR_F16_TO_F32, /* U32 (low 16 bits) -> F32 */
    GALE__IR_F32_TO_F16, /* F32 -> U32, nearest even */
    GALE__IR_LOAD, /* a: element index (U32 or U64); imm: pointer parameter; mem: memory type; width 1, 2, 4, at most 16
                      bytes; c 1: no term of the index is negative, so it may be added up in 64 bits */
    GALE__IR_STORE,   /* a: element index; b: value; as above */
    GALE__IR_EXTRACT, /* a: vector; imm: lane */
    GALE__IR_PACK,    /* a, b (, c, d): scalars of one type -> vector */
    GALE__IR_SHARED,  /* declares a work-group array: imm elements of memory type `type`; the result names the array; a:
                         an earlier array whose memory it reuses, 0: none */
    GALE__IR_ARRAY,   /* declares a private array */
    GALE__IR_GET, /* a: array; b: index (U32; 0 for a variable: pass a CONST); width 2, 4: a vector from a work-group
                     array, as elements of type `mem`, at most 16 bytes, aligned to its size */
    GALE__IR_SET, /* a: array; b: index; c: value; width and mem as above */
    GALE__IR_FOR, /* a: first, b: end, c: step (U32, step CONST > 0, end + step below 2^32); result: the counter; imm 1:
                     unroll (all CONST), 2: do not */
    GALE__IR_IF,  /* a: BOOL */
    GALE__IR_ELSE,
    GALE__IR_END,         /* ends FOR or IF */
    GALE__IR_BARRIER,     /* all threads of the group; orders shared memory; imm 1: the device's memory too; 2: the
                             threads of the subgroup alone (kernels with matrices; all of the group come here too);
                             3: those of all groups of the cluster, whose work-group memory it orders */
    GALE__IR_SHUFFLE_XOR, /* a: value (32-bit types); imm: lane mask; subgroup_ops only */
    GALE__IR_MIN_NAN,     /* F32; propagates NaN (devices with corners); imm 1: b is the upper limit of a level
                             (ir_levels.c) */
    GALE__IR_MAX_NAN,
    GALE__IR_SATURATE,   /* F32 -> I32 or U32 in the range of imm bits: truncates, saturates, NaN to 0 (devices with
                            corners) */
    GALE__IR_JOIN_BYTES, /* a, b (I32), c (U32): a and b saturated to U8 as the two lower bytes, c shifted above them
                            (devices with corners) */
    GALE__IR_FMA_HALVES, /* as the scalar operation (devices with corners) */
    GALE__IR_FAST_EXP,   /* F32, with the device's own accuracy */
    GALE__IR_FAST_EXP2,
    GALE__IR_FAST_LOG,
    GALE__IR_FAST_LOG2, /* of a positive normal number */
    GALE__IR_FAST_SIN,
    GALE__IR_FAST_COS,
    GALE__IR_FAST_SQRT,
    GALE__IR_FAST_DIV,
    GALE__IR_FAST_QUOTIENT, /* b between 2^-100 and 2^120, of either sign */
    GALE__IR_COPY, /* `width` words of 4 bytes from pointer parameter imm, element c (U32 or U64, of the array's type),
                      to work-group array a, element b; if d (BOOL) is false, zeros are stored and nothing is read.
                      Source and destination are aligned to the size.  Asynchronous: complete after WAIT. */
    GALE__IR_COMMIT, /* closes a group of copies: those of this thread since the last COMMIT */
    GALE__IR_WAIT,   /* waits until at most imm groups of this thread are in flight; other threads see the data after a
                        BARRIER */
    GALE__IR_MATRIX_A,  /* a: work-group array of U16; b: first element (U32, a multiple of 8); imm: row stride in
                           elements (a multiple of 8); type F16 or BF16: 16 x 16 [m][k]; mem 1: stored as [k][m].  Type
                           I8  or U8: array of U8, multiples of 16, 16 x 32, mem 0 */
    GALE__IR_MATRIX_B,  /* 16 x 16 [k][n]; mem 1: stored as [n][k]; I8, U8: 32 x 16, mem 1.  Must be consumed before the
                           array changes. */
    GALE__IR_SUMS,      /* declares imm matrices of F32 or I32, held by the subgroup */
    GALE__IR_SUMS_ZERO, /* a: SUMS; imm: which */
    GALE__IR_SUMS_ADD,  /* a: SUMS; b: MATRIX_A, c: MATRIX_B; imm: which: adds their product */
    GALE__IR_SUMS_STORE,  /* a: SUMS; b: work-group array of their type; c: first element (a multiple of 4); imm: which,
                             and in the upper half the row stride in elements (a multiple of 4) */
    GALE__IR_GROUP_ADD,   /* wgmma, on devices with matrix_groups: four subgroups multiply together. a: SUMS, of which
                             each subgroup uses n for 16 x (16 n) results; imm: n, and in the upper half the first of
                             them; bit 16: rows are half as long, and their groups exchanged as g ^ (r / 2 & 3); b:
                             work-group array of U16; c, d: first elements of 64 x 16 [m][k] and (16 n) x 16   [n][k], in
                             rows of 64 with a swizzle: group g of 8 elements of row r is stored at group g ^   (r & 7).
                             Bytes: an array of U8, 32 of k, rows of 128 in groups of 16; type is that of c, mem   that of
                             d.  Asynchronous: complete after GROUP_WAIT. */
    GALE__IR_GROUP_BEGIN, /* opens a series of GROUP_ADD */
    GALE__IR_GROUP_END,   /* closes it */
    GALE__IR_GROUP_WAIT,  /* waits until at most imm series are in flight */
    GALE__IR_GROUP_FENCE, /* makes this thread's copies visible to GROUP_ADD, after a BARRIER */
    GALE__IR_GATE_INIT,   /* a gate is an mbarrier, on devices with matrix_groups: an element of a work-group array of
                             U64. a: array; b: which; imm: number of arrivals that open it.  Executed by one thread,
                             before a BARRIER */
    GALE__IR_GATE_ARRIVE, /* a, b: this thread arrives */
    GALE__IR_GATE_COPIES, /* a, b: this thread arrives when its copies so far are complete */
    GALE__IR_GATE_WAIT,   /* a, b; c (U32): phase, the number of times the gate has opened before, modulo 2: waits until
                             it opens next.  A gate that has never opened is open for c = 1 */
    GALE__IR_REGISTERS,   /* sets the registers per thread of these four subgroups to imm; mem 1: an increase
                           */
    GALE__IR_STORE_ADD,   /* a: element index; b: U32; imm: pointer parameter; mem: U32: atomic addition */
    GALE__IR_SET_ADD,     /* a: work-group array of U32; b: index; c: U32: the same */
    GALE__IR_MATRIX_SUMS, /* a: SUMS; b: which (U32); those, rounded to `type`, as a MATRIX_A */
    GALE__IR_ARRIVE,      /* signals other groups: when all threads of the group are here, element a (U32) of pointer
                             parameter imm (U32) is incremented, with release order.  A launch with these has at most
                             groups_together groups. */
    GALE__IR_AWAIT, /* waits until element a of pointer parameter imm has reached b (U32), with acquire order: what
                       those groups wrote to device memory before ARRIVE is visible afterwards */
    GALE__IR_GATE_EXPECT, /* a, b: this thread arrives, and the gate opens only when imm bytes of MAP_COPY or
                             SEND have arrived too; 0: only selects the gate for the next of these */
    GALE__IR_MAP_COPY, /* TMA, on devices with matrix_maps: copies a box of map (imm & 255), from element c of row d on,
                          to element b of work-group array a, at a multiple of 1,024 bytes, in the order that GROUP_ADD
                          requires.  It arrives at the gate of the preceding GATE_EXPECT. imm bit 8: the map is spread,
                          and d counts its 32 or 64 rows; bit 9: it is a window, c has the channel in 16 bits, then the
                          pixel of the window in 8 bits each along width and height, and d (U64) the first window in 16
                          bits each and 32 for the picture; from bit 16 on: the pointer parameter that the map is made
                          of */
    GALE__IR_READY,    /* waits for the end of the preceding kernel (programmatic dependent launch): before this, only
                          `settled` pointers are read, and nothing is written to device memory.  At most once, outside all
                          blocks; a kernel without it waits at its start */
    GALE__IR_GET_OF_CLUSTER, /* as GET of a vector, from group c (U32) of the cluster: between two BARRIERs of the
                                cluster */
    GALE__IR_SEND, /* a: work-group array of F32; b: index; c: F32, or a vector of them, aligned to its size; d: group
                      (U32) of the cluster: stored in that group's array.  Asynchronous: its 4 bytes each arrive at that
                      group's gate of the preceding GATE_EXPECT, whose GATE_WAIT makes them visible */
    GALE__IR_COUNT
} gale__ir_op;
enum { GALE__IR_CLUSTER = 3 }; /* BARRIER */

typedef struct gale__ir_instr {
    uint8_t op;
    uint8_t type;  /* gale_type of the result (element type for vectors and arrays) */
    uint8_t width; /* 1, 2, 4 */
    uint8_t mem;   /* LOAD, STORE, vector GET and SET: gale_type in memory; MATRIX_A, MATRIX_B: 1 turned */
    gale__ir_val a, b, c, d;
    uint64_t imm;
} gale__ir_instr;

/* How gale__ir_scalar expands f32 operations: with the device's own functions; with its own instructions for corner
 * cases. */
typedef enum gale__ir_math_flags {
    GALE__IR_FAST = 1,
    GALE__IR_CORNERS = 2,
    GALE__IR_LOOSE = 4,    /* the device's own functions for operations that a nest marks */
    GALE__IR_NORMAL = 8,   /* beside FAST: operands of LOG, POW and DIV are known to be of ordinary size, and the digits
                              of a small ERF do not count */
    GALE__IR_CONTRACT = 16 /* a product and a sum may be one operation */
} gale__ir_math_flags;

typedef struct gale__ir {
    char name[64];        /* entry point, a C identifier */
    gale__ir_instr *code; /* code[0] is unused */
    uint32_t count;
    size_t capacity;
    uint32_t group[3]; /* work-group size */
    int n_pointers, n_words;
    uint64_t readonly; /* bit i: pointer i (of the first 64) is only read, and nothing written aliases it */
    bool subgroup_ops; /* uses LANE or SHUFFLE_XOR */
    uint8_t subgroup;  /* threads that hold matrices together: 16, 32, 64, 128; 0: there are none */
    uint8_t at_once;   /* occupancy target: groups per compute unit; 0: the compiler decides */
    bool failed;       /* an append ran out of memory */
    uint8_t math;      /* gale__ir_math_flags; set before the first append */
    uint8_t once;    /* bit i: data of pointer i (of the first 8, read-only) is read once and need not stay in caches */
    uint8_t settled; /* bit i: its data was complete before the preceding kernel began */
    uint8_t n_maps;  /* gale__matrix_map parameters */
    uint8_t cluster; /* neighbouring groups that reach each other's work-group memory, on devices with matrix_groups:
                        the launch is one-dimensional, of whole clusters; 0: none do */
} gale__ir;

/* Whether pointer i is among those that `once` or `settled` marks. */
static inline bool gale__ir_marks(uint8_t marks, uint64_t i) { return i < 8 && marks >> i & 1; }

/* Building.  Appends never fail one by one: check once with gale__ir_check.  Constant operands are folded where trivial
 * (x+0, x*1, x*0 on integers, constants). */
void gale__ir_init(gale__ir *ir, const char *name);
void gale__ir_finish(gale__ir *ir);
/* A kernel without code, in other respects like `from`. */
void gale__ir_init_like(gale__ir *ir, const gale__ir *from);
gale_status gale__ir_check(const gale__ir *ir);
gale__ir_val gale__ir_add(gale__ir *ir, gale__ir_instr in);
gale__ir_val gale__ir_const(gale__ir *ir, gale_type type, uint64_t bits);
gale__ir_val gale__ir_u32(gale__ir *ir, uint32_t v);
gale__ir_val gale__ir_i32(gale__ir *ir, int32_t v);
gale__ir_val gale__ir_f32(gale__ir *ir, float v);
gale__ir_val gale__ir_op1(gale__ir *ir, int op, gale_type type, gale__ir_val a);
gale__ir_val gale__ir_op2(gale__ir *ir, int op, gale_type type, gale__ir_val a, gale__ir_val b);
gale__ir_val gale__ir_op3(gale__ir *ir, int op, gale_type type, gale__ir_val a, gale__ir_val b, gale__ir_val c);
gale__ir_val gale__ir_load(gale__ir *ir, int pointer, gale_type mem, int width, gale__ir_val index);
void gale__ir_store(gale__ir *ir, int pointer, gale_type mem, int width, gale__ir_val index, gale__ir_val value);
gale_type gale__ir_type(const gale__ir *ir, gale__ir_val v);
/* Vectors of 2 or 4 from scalars, and back. */
gale__ir_val gale__ir_pack(gale__ir *ir, int width, const gale__ir_val *lanes);
gale__ir_val gale__ir_lane(gale__ir *ir, gale__ir_val vector, int lane);
/* Vectors in work-group arrays: GET into scalars, SET of scalars; `mem` and width as in GET. */
void gale__ir_get_lanes(
    gale__ir *ir, gale__ir_val array, gale_type mem, int width, gale__ir_val index, gale__ir_val *out);
void gale__ir_set_lanes(
    gale__ir *ir, gale__ir_val array, gale_type mem, int width, gale__ir_val index, const gale__ir_val *values);
void gale__ir_get_of_cluster(
    gale__ir *ir, gale__ir_val array, int width, gale__ir_val index, gale__ir_val group, gale__ir_val *out);
/* Bytes of all work-group arrays; and those to ask for at launch: 0 when they are few enough to be declared. */
uint32_t gale__ir_shared_bytes(const gale__ir *ir);
uint32_t gale__ir_launch_bytes(const gale__ir *ir);
/* Whether the kernel waits for its predecessor by itself (READY). */
bool gale__ir_has_ready(const gale__ir *ir);
/* Whether its groups wait for each other. */
bool gale__ir_is_together(const gale__ir *ir);
/* Appends any scalar operation with the corner cases and elementary functions of the numeric contract: expands classes
 * 'm' and 'c' into raw instructions. `type` is the compute type of the result; operand types are read off the
 * operands.  Storage narrower than the compute type (i8, f16 ...) is the caller's business: gale__ir_narrow,
 * gale__ir_load_as, gale__ir_store_as. */
gale__ir_val gale__ir_scalar(
    gale__ir *ir, gale__scalar op, gale_type type, gale__ir_val a, gale__ir_val b, gale__ir_val c);
/* Brings a compute-type value into the range of storage type `to` (integers wrap and sign-extend; floats round to it
 * and come back). */
gale__ir_val gale__ir_narrow(gale__ir *ir, gale_type to, gale__ir_val v);
/* Value of storage type `from` (already in range) to storage type `to` with CAST's rules; both held in their compute
 * types. */
gale__ir_val gale__ir_cast(gale__ir *ir, gale_type from, gale_type to, gale__ir_val v);
/* F32 <-> the U32 code of a float type under 32 bits (saturating, as CAST). */
gale__ir_val gale__ir_encode(gale__ir *ir, gale_type to, gale__ir_val v);
gale__ir_val gale__ir_decode(gale__ir *ir, gale_type from, gale__ir_val code);
/* Loads `width` elements of any storage type into out[], as compute-type scalars; and the way back (narrowing). */
void gale__ir_load_as(gale__ir *ir, int pointer, gale_type storage, int width, gale__ir_val index, gale__ir_val *out);
/* Eight values of 8 or 16 bits, or 16 of 8 bits, as `load_as` loads them, in two steps: words in memory (how many; 0:
 * not such values), and the values in them. */
int gale__ir_word_count(gale_type storage, int width);
void gale__ir_load_words(
    gale__ir *ir, int pointer, gale_type storage, int width, gale__ir_val index, gale__ir_val *words);
/* The word that v is byte *number of; 0: it is none. */
gale__ir_val gale__ir_word_of_byte(const gale__ir *ir, gale__ir_val v, unsigned *number);
void gale__ir_from_words(gale__ir *ir, gale_type storage, int width, const gale__ir_val *words, gale__ir_val *out);
void gale__ir_store_as(
    gale__ir *ir, int pointer, gale_type storage, int width, gale__ir_val index, const gale__ir_val *values);
/* The memory type a storage type travels in: F16 -> U16, BOOL -> U8, I4 -> I8 ... */
gale_type gale__ir_mem_type(gale_type storage);

/* Structure and types checked; the message names the instruction.  Tests run it on the kernels they print. */
gale_status gale__ir_validate(const gale__ir *ir);
#endif
