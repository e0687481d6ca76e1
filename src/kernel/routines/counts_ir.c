/* How often each of the 65,536 codes of 16 bits occurs in a row of samples: the histogram of a plane of halves, from
 * which everything that depends on order follows.  A work-group counts the codes of positive finite halves in
 * work-group memory and adds its counts to the result at the end; other codes, which are rare, and all of them on
 * devices with little such memory, are counted in the result itself. */
#include "kernel/routines/routine.h"
#include "kernel/schedule/special_ir.h"
#include <stdio.h>

enum { CODES = 65536, KEPT = 0x7c00, EACH = 8, AT_ONCE = 3, THREADS = 1024, FEW_THREADS = 256 };
enum { RESULT, SOURCE };
enum { W_SAMPLES, WORDS };

static bool keeps(const gale_device_caps *caps)
{
    uint32_t most = caps->shared_most_bytes > caps->shared_bytes ? caps->shared_most_bytes : caps->shared_bytes;
    return most >= KEPT * 4 && caps->group_max >= THREADS;
}

static uint32_t threads_of(const gale_device_caps *caps)
{
    return keeps(caps) ? THREADS : caps->group_max && caps->group_max < FEW_THREADS ? 64 : FEW_THREADS;
}

bool gale__counts_kernels_fit(const gale__counts_args *a, const gale_device_caps *caps)
{
    (void)caps;
    return a->samples > 0 && a->samples % EACH == 0 && a->rows < 65536 / 4 && a->samples < INT32_MAX / a->rows;
}

/* The first launch clears the result, with few groups: the second waits for all of them. */
static bool describe(const void *args, const gale_device_caps *caps, int i, gale__routine_launch *out)
{
    const gale__counts_args *a = args;
    uint32_t threads = threads_of(caps), units = caps->compute_units ? caps->compute_units : 16,
             most = (uint32_t)(a->samples / EACH + threads - 1) / threads, groups = units / (uint32_t)a->rows;
    if (i > 1) return false;
    if (!keeps(caps)) groups *= 4;
    if (groups > most) groups = most;
    *out = (gale__routine_launch){
        .groups = {groups ? groups : 1, 1, (uint32_t)a->rows}, .n_words = WORDS, .n_refs = 2, .refs = {RESULT, SOURCE}};
    if (i == 0) out->groups[0] = CODES / 4 / threads, out->n_refs = 1;
    out->words[W_SAMPLES] = (uint32_t)a->samples;
    snprintf(out->key, sizeof out->key, i ? "gale_counts_%d_%u" : "gale_counts_clear_%d_%u", keeps(caps), threads);
    return true;
}

static void clear(gale__ir *ir, uint32_t threads)
{
    gale__ir_val zero = u32(ir, 0),
                 at = add(ir, mul(ir, special(ir, GALE__IR_GROUP_ID, 0), u32(ir, threads)), thread_id(ir));
    at = add(ir, mul(ir, special(ir, GALE__IR_GROUP_ID, 2), u32(ir, CODES)), mul(ir, at, u32(ir, 4)));
    ir->group[0] = threads;
    gale__ir_store(ir, RESULT, GALE_U32, 4, at, gale__ir_pack(ir, 4, (const gale__ir_val[]){zero, zero, zero, zero}));
}

static void count_in_result(gale__ir *ir, gale__ir_val at, gale__ir_val count)
{
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_STORE_ADD,
                         .type = GALE_U32,
                         .mem = GALE_U32,
                         .width = 1,
                         .a = at,
                         .b = count,
                         .imm = RESULT});
}

static void count_in_group(gale__ir *ir, gale__ir_val kept, gale__ir_val code)
{
    gale__ir_add(ir,
        (gale__ir_instr){.op = GALE__IR_SET_ADD, .width = 1, .type = GALE_U32, .a = kept, .b = code, .c = u32(ir, 1)});
}

/* words: the EACH samples.  kept: the counts in work-group memory, or 0.  Vectors with none but kept codes, nearly all,
 * take no branch for each. */
static void count_vector(gale__ir *ir, gale__ir_val kept, gale__ir_val row, const gale__ir_val *words)
{
    gale__ir_val code[EACH], largest = 0, one = u32(ir, 1);
    for (int i = 0; i < EACH; i++) {
        gale__ir_val w = words[i / 2];
        code[i] = i % 2 ? bin(ir, GALE__IR_SHR, w, u32(ir, 16)) : bin(ir, GALE__AND, w, u32(ir, 65535));
        largest = i ? bin(ir, GALE__IR_MAX, largest, code[i]) : code[i];
    }
    if (kept) {
        begin_if(ir, test(ir, GALE__LT, largest, u32(ir, KEPT)));
        for (int i = 0; i < EACH; i++) count_in_group(ir, kept, code[i]);
        begin_else(ir);
    }
    for (int i = 0; i < EACH; i++) {
        if (kept) {
            begin_if(ir, test(ir, GALE__LT, code[i], u32(ir, KEPT)));
            count_in_group(ir, kept, code[i]);
            begin_else(ir);
        }
        count_in_result(ir, add(ir, row, code[i]), one);
        if (kept) end(ir);
    }
    if (kept) end(ir);
}

/* The part of a row that a work-group counts, in vectors of EACH samples. */
typedef struct part {
    gale__ir_val row, begin, from, to, last; /* of the result; the row's first vector; in the row */
    gale__ir_val ahead;                      /* words of the vectors that are on their way */
} part;

static part find_part(gale__ir *ir)
{
    gale__ir_val n = bin(ir, GALE__IR_DIV, word(ir, W_SAMPLES), u32(ir, EACH)),
                 groups = special(ir, GALE__IR_GROUP_COUNT, 0), row = special(ir, GALE__IR_GROUP_ID, 2);
    gale__ir_val each = bin(ir, GALE__IR_DIV, add(ir, n, bin(ir, GALE__SUB, groups, u32(ir, 1))), groups),
                 from = mul(ir, special(ir, GALE__IR_GROUP_ID, 0), each);
    return (part){.row = mul(ir, row, u32(ir, CODES)),
        .begin = mul(ir, row, n),
        .from = add(ir, from, thread_id(ir)),
        .to = bin(ir, GALE__IR_MIN, add(ir, from, each), n),
        .last = bin(ir, GALE__SUB, bin(ir, GALE__IR_MIN, add(ir, from, each), n), u32(ir, 1)),
        .ahead = array(ir, GALE__IR_ARRAY, GALE_U32, AT_ONCE * EACH / 2)};
}

/* One vector, which may be past the end. */
static void fetch(gale__ir *ir, const part *p, uint32_t i, gale__ir_val at)
{
    gale__ir_val safe = bin(ir, GALE__IR_MIN, at, p->last),
                 vector = gale__ir_load(ir, SOURCE, GALE_U32, 4, mul(ir, add(ir, p->begin, safe), u32(ir, 4)));
    for (uint32_t k = 0; k < EACH / 2; k++)
        set(ir, p->ahead, u32(ir, i * EACH / 2 + k), gale__ir_lane(ir, vector, (int)k));
}

/* A vector is fetched where one has just been counted, so that compilers need no copy, which would wait for it. */
static void count_all(gale__ir *ir, const part *p, uint32_t threads, gale__ir_val kept)
{
    gale__ir_val at = begin_for(ir, p->from, p->to, threads * AT_ONCE), words[EACH / 2];
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        for (uint32_t k = 0; k < EACH / 2; k++) words[k] = get(ir, p->ahead, u32(ir, i * EACH / 2 + k));
        if (i) begin_if(ir, test(ir, GALE__LT, add(ir, at, u32(ir, i * threads)), p->to));
        count_vector(ir, kept, p->row, words);
        if (i) end(ir);
        fetch(ir, p, i, add(ir, at, u32(ir, (AT_ONCE + i) * threads)));
    }
    end(ir);
}

static void build(const void *args, const gale_device_caps *caps, int i, gale__ir *ir)
{
    uint32_t threads = threads_of(caps);
    gale__ir_val kept = 0, zero = u32(ir, 0), tid = thread_id(ir);
    (void)args;
    if (i == 0) {
        clear(ir, threads);
        return;
    }
    ir->group[0] = threads;
    ir->readonly = 1u << SOURCE;
    ir->settled = 1u << SOURCE; /* written before the first launch */
    part p = find_part(ir);
    for (uint32_t k = 0; k < AT_ONCE; k++) fetch(ir, &p, k, add(ir, p.from, u32(ir, k * threads)));
    if (keeps(caps)) {
        kept = array(ir, GALE__IR_SHARED, GALE_U32, KEPT);
        set(ir, kept, begin_for(ir, tid, u32(ir, KEPT), threads), zero);
        end(ir);
        barrier(ir);
    }
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_READY});
    count_all(ir, &p, threads, kept);
    if (!kept) return;
    barrier(ir);
    /* Groups begin at different codes, since additions to the same ones would wait for each other. */
    gale__ir_val from = mul(ir, bin(ir, GALE__IR_REM, special(ir, GALE__IR_GROUP_ID, 0), u32(ir, KEPT / THREADS)),
                     u32(ir, THREADS)),
                 code = add(ir, begin_for(ir, tid, u32(ir, KEPT), threads), from);
    code = bin(ir, GALE__IR_MIN, code, bin(ir, GALE__SUB, code, u32(ir, KEPT)));
    gale__ir_val count = get(ir, kept, code);
    begin_if(ir, test(ir, GALE__NE, count, zero));
    count_in_result(ir, add(ir, p.row, code), count);
    end(ir);
    end(ir);
}

const gale__kernel_routine gale__counts_kernels = {.describe = describe, .build = build};
