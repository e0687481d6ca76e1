/* Joins kernels: each part's instructions go into a loop over the groups it would have been launched with.  Parts
 * write data that later parts read, so no pointer counts as read-only, and the barriers between them also order
 * memory. */
#include "kernel/ir/join.h"
#include "kernel/ir/ir_util.h"
#include <string.h>

#define MOST_BYTES (64 << 10) /* bytes that one group moves in about the time of a launch */
#define MOST_OPERATIONS (16 << 10)
#define MOST_THREADS 1024
#define GROUP 256  /* threads, where parts are launched in smaller groups; more than this some drivers refuse */
enum { HEAD = 2 }; /* words before a part's own: how many groups, and one for alignment */

bool gale__ir_join_takes(const gale__nest *nest, const gale__schedule *s)
{
    double bytes, operations;
    uint32_t group[3], groups[3];
    bool alone = s->kind == GALE__SCHEDULE_MAP ||
                 ((s->kind == GALE__SCHEDULE_ROW || s->kind == GALE__SCHEDULE_COLUMN) && s->threads == 1);
    if (!alone || s->index64 || nest->n_buffers > GALE__JOIN_POINTERS) return false;
    gale__schedule_group(s, group);
    gale__schedule_grid(nest, s, groups);
    if (groups[1] > 1 || (uint64_t)groups[0] * group[0] > MOST_THREADS) return false;
    gale__nest_cost(nest, &bytes, &operations);
    return bytes <= MOST_BYTES && operations <= MOST_OPERATIONS;
}

int gale__ir_join_words(uint32_t *words, int n, uint32_t groups, const uint32_t *part, int n_part)
{
    words[n] = groups;
    words[n + 1] = 0;
    memcpy(&words[n + HEAD], part, (size_t)n_part * sizeof *part);
    n += HEAD + n_part;
    if (n % 2) words[n++] = 0; /* words of 64 bits begin at even ones */
    return n;
}

/* One part on its way into the whole. */
typedef struct joiner {
    gale__ir *out;
    const gale__ir *part;
    gale__ir_val *now;                 /* by instruction of the part */
    gale__ir_val local, group, groups; /* replacements of the part's LOCAL_ID, GROUP_ID and GROUP_COUNT */
} joiner;

static gale__ir_val place(joiner *j, const gale__ir_instr *in)
{
    if (in->imm) return gale__ir_u32(j->out, in->op == GALE__IR_GROUP_COUNT);
    return in->op == GALE__IR_LOCAL_ID ? j->local : in->op == GALE__IR_GROUP_ID ? j->group : j->groups;
}

static void move(joiner *j, gale__ir_val v)
{
    gale__ir_instr in = j->part->code[v];
    in.a = j->now[in.a], in.b = j->now[in.b], in.c = j->now[in.c], in.d = j->now[in.d];
    switch (in.op) {
    case GALE__IR_LOCAL_ID:
    case GALE__IR_GROUP_ID:
    case GALE__IR_GROUP_COUNT: j->now[v] = place(j, &in); return;
    case GALE__IR_WORD: in.imm += (uint64_t)j->out->n_words + HEAD; break;
    case GALE__IR_LOAD:
    case GALE__IR_STORE_ADD:
    case GALE__IR_STORE: in.imm += (uint64_t)j->out->n_pointers; break;
    default: break;
    }
    j->now[v] = gale__ir_add(j->out, in);
}

static gale__ir_val add_u32(gale__ir *ir, int op, uint64_t imm)
{
    return gale__ir_add(ir, (gale__ir_instr){.op = (uint8_t)op, .type = GALE_U32, .imm = imm});
}

/* Runs the groups of a part in a loop, as many at once as there are threads. */
static void add_part(joiner *j)
{
    gale__ir *out = j->out;
    uint32_t size = j->part->group[0];
    gale__ir_val tid = add_u32(out, GALE__IR_LOCAL_ID, 0), width = gale__ir_u32(out, size);
    for (gale__ir_val v = 1; v < j->part->count; v++)
        if (j->part->code[v].op == GALE__IR_ARRAY) move(j, v);
    j->groups = add_u32(out, GALE__IR_WORD, (uint64_t)out->n_words);
    j->local = gale__ir_op2(out, GALE__IR_REM, GALE_U32, tid, width);
    gale__ir_val first = gale__ir_op2(out, GALE__IR_DIV, GALE_U32, tid, width),
                 step = gale__ir_u32(out, out->group[0] / size);
    j->group = gale__ir_add(
        out, (gale__ir_instr){.op = GALE__IR_FOR, .type = GALE_U32, .a = first, .b = j->groups, .c = step});
    for (gale__ir_val v = 1; v < j->part->count && !out->failed; v++)
        if (j->part->code[v].op != GALE__IR_ARRAY && j->part->code[v].op != GALE__IR_READY) move(j, v);
    gale__ir_add(out, (gale__ir_instr){.op = GALE__IR_END});
    out->n_pointers += j->part->n_pointers;
    out->n_words += HEAD + j->part->n_words;
    out->n_words += out->n_words % 2;
}

static gale_status check_part(const gale__ir *part)
{
    bool alone = !part->subgroup_ops;
    for (gale__ir_val v = 1; v < part->count; v++)
        alone = alone && part->code[v].op != GALE__IR_SHARED && part->code[v].op != GALE__IR_BARRIER;
    return alone ? GALE_OK
                 : gale__fail(GALE_INVALID, "kernel %s shares memory between threads, and cannot be joined to others",
                       part->name);
}

gale_status gale__ir_join(const gale__ir *const *parts, int n, const char *name, uint32_t group_max, gale__ir *out)
{
    uint32_t most = 0;
    for (int i = 0; i < n; i++) {
        GALE_TRY(check_part(parts[i]));
        if (parts[i]->count > most) most = parts[i]->count;
    }
    gale__ir_init(out, name);
    for (int i = 0; i < n; i++)
        if (parts[i]->group[0] > out->group[0])
            out->group[0] = parts[i]->group[0]; /* powers of two: each divides the largest */
    while (out->group[0] * 2 <= GROUP && out->group[0] * 2 <= group_max) out->group[0] *= 2;
    gale__ir_val *now = gale__calloc((size_t)most + 1, sizeof *now);
    for (int i = 0; now && i < n; i++) {
        joiner j = {.out = out, .part = parts[i], .now = now};
        if (i) gale__ir_add(out, (gale__ir_instr){.op = GALE__IR_BARRIER, .imm = 1});
        memset(now, 0, ((size_t)most + 1) * sizeof *now);
        add_part(&j);
    }
    gale_status status = now ? gale__ir_check(out) : GALE_NO_MEMORY;
    gale__free(now);
    if (status != GALE_OK) gale__ir_finish(out);
    return status;
}
