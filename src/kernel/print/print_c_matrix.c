/* Prints what only some devices have: copies, matrices, groups of four subgroups, gates and what arrives there, as
 * calls of what the dialect's head_matrix and head_bytes define. */
#include "kernel/ir/ir_util.h"
#include "kernel/print/print_c.h"

static const char *operand_name(int type)
{
    return type == GALE_F16 ? "f16" : type == GALE_BF16 ? "bf16" : type == GALE_I8 ? "s8" : "u8";
}

/* Instructions over four subgroups, all that follow each other as one text, which compilers read much faster than many:
 * all sums of this thread, then two descriptors for each. */
static void emit_group_adds(gale__c_printer *p, const gale__ir_instr *in)
{
    gale__str *out = p->out;
    unsigned count = 0, all = (unsigned)p->ir->code[in->a].imm * 8;
    bool bytes = gale__ir_is_byte(in->type);
    const char *part = in->imm >> 16 & 1 ? "group_part_half" : "group_part";
    gale__str_add(out, "asm volatile(\"{.reg .pred p;setp.ne.b32 p,1,0;");
    for (const gale__ir_instr *x = in; x->op == in->op && x->a == in->a; x++, count++) {
        unsigned sums = (uint16_t)x->imm * 8u, first = (unsigned)(x->imm >> 32) * 8, at = all + 2 * count;
        gale__str_addf(out, "wgmma.mma_async.sync.aligned.m64n%uk%s.%s.%s {", 2 * sums, bytes ? "32.s32" : "16.f32",
            operand_name(x->type), operand_name(bytes ? x->mem : x->type));
        for (unsigned i = 0; i < sums; i++) gale__str_addf(out, "%s%%%u", i ? "," : "", first + i);
        gale__str_addf(out, "},%%%u,%%%u,p%s;", at, at + 1, bytes ? "" : ",1,1,0,0");
    }
    for (unsigned i = 0; i < all; i++)
        gale__str_addf(out, "%s\"+%c\"(v%u[%u].r[%u])", i ? "," : "}\":", bytes ? 'r' : 'f', in->a, i / 8, i % 8);
    for (unsigned i = 0; i < count; i++)
        gale__str_addf(out, "%c\"l\"(%s(&v%u[%s])),\"l\"(%s(&v%u[%s]))", i ? ',' : ':', part, in->b, p->text[in[i].c],
            part, in->b, p->text[in[i].d]);
    gale__str_add(out, ");\n");
}

static void emit_sums_add(gale__c_printer *p, const gale__ir_instr *in)
{
    int a = p->ir->code[in->b].type, b = p->ir->code[in->c].type;
    gale__str_addf(p->out, "sums_add_%s", operand_name(a));
    if (gale__ir_is_byte(a)) gale__str_addf(p->out, "_%s", operand_name(b));
    gale__str_addf(p->out, "(&v%u[%u],v%u,v%u);\n", in->a, (unsigned)in->imm, in->b, in->c);
}

static void emit_gate(gale__c_printer *p, const gale__ir_instr *in)
{
    static const char *const names[] = {"init", "arrive", "copies", "wait"};
    bool expect = in->op == GALE__IR_GATE_EXPECT;
    if (expect && !in->imm) return;
    gale__str_addf(
        p->out, "gate_%s(&v%u[%s]", expect ? "expect" : names[in->op - GALE__IR_GATE_INIT], in->a, p->text[in->b]);
    if (in->op == GALE__IR_GATE_INIT || expect) gale__str_addf(p->out, ",%uu", (unsigned)in->imm);
    if (in->op == GALE__IR_GATE_WAIT) gale__str_addf(p->out, ",%s", p->text[in->c]);
    gale__str_add(p->out, ");\n");
}

static void emit_map_copy(gale__c_printer *p, const gale__ir_instr *in)
{
    const gale__ir_instr *gate = in;
    while (gate->op != GALE__IR_GATE_EXPECT) gate--;
    gale__str_addf(p->out, "map_copy_%d(&v%u[%s],&M%u,%s,%s,&v%u[%s]);\n",
        in->imm >> 8 & 1   ? 5
        : in->imm >> 9 & 1 ? 4
                           : 2,
        in->a, p->text[in->b], (unsigned)(in->imm & 255), p->text[in->c], p->text[in->d], gate->a, p->text[gate->b]);
}

static void emit_send(gale__c_printer *p, const gale__ir_instr *in)
{
    const gale__ir_instr *gate = in, *value = &p->ir->code[in->c];
    gale__ir_val lanes[4] = {in->c};
    while (gate->op != GALE__IR_GATE_EXPECT) gate--;
    if (in->width > 1) gale__ir_operands(value, lanes);
    gale__str_addf(p->out, "send_%u(&v%u[%s],&v%u[%s],%s", in->width, in->a, p->text[in->b], gate->a, p->text[gate->b],
        p->text[in->d]);
    for (int i = 0; i < in->width; i++) gale__str_addf(p->out, ",%s", p->text[lanes[i]]);
    gale__str_add(p->out, ");\n");
}

gale_status gale__print_c_matrix(gale__c_printer *p, gale__ir_val v, const gale__ir_instr *in)
{
    gale__str *out = p->out;
    bool a = in->op == GALE__IR_MATRIX_A;
    const char *sums = (in->op == GALE__IR_SUMS ? in->type : p->ir->code[in->a].type) == GALE_I32 ? "_i32" : "";
    switch (in->op) {
    case GALE__IR_SEND: emit_send(p, in); break;
    case GALE__IR_COPY:
        gale__str_addf(out, "copy_%d(&v%u[%s],AT(%s,%u,%s),%s);\n", in->width * 4, in->a, p->text[in->b],
            gale__c_type_names[p->ir->code[in->a].type], (unsigned)in->imm, p->text[in->c], p->text[in->d]);
        break;
    case GALE__IR_COMMIT: gale__str_add(out, "copy_commit();\n"); break;
    case GALE__IR_WAIT: gale__str_addf(out, "copy_wait(%u);\n", (unsigned)in->imm); break;
    case GALE__IR_SUMS: gale__str_addf(out, "sums%s v%u[%u];\n", sums, v, (unsigned)in->imm); break;
    case GALE__IR_SUMS_ZERO: gale__str_addf(out, "sums_zero%s(&v%u[%u]);\n", sums, in->a, (unsigned)in->imm); break;
    case GALE__IR_SUMS_ADD: emit_sums_add(p, in); break;
    case GALE__IR_GROUP_ADD:
        if (in[-1].op != in->op || in[-1].a != in->a) emit_group_adds(p, in);
        break;
    case GALE__IR_GROUP_BEGIN: gale__str_add(out, "group_begin();\n"); break;
    case GALE__IR_GROUP_END: gale__str_add(out, "group_end();\n"); break;
    case GALE__IR_GROUP_WAIT: gale__str_addf(out, "group_wait(%u);\n", (unsigned)in->imm); break;
    case GALE__IR_GROUP_FENCE: gale__str_add(out, "group_fence();\n"); break;
    case GALE__IR_GATE_INIT:
    case GALE__IR_GATE_ARRIVE:
    case GALE__IR_GATE_COPIES:
    case GALE__IR_GATE_EXPECT:
    case GALE__IR_GATE_WAIT: emit_gate(p, in); break;
    case GALE__IR_MAP_COPY: emit_map_copy(p, in); break;
    case GALE__IR_REGISTERS:
        gale__str_addf(out, "registers_%s(%u);\n", in->mem ? "inc" : "dec", (unsigned)in->imm);
        break;
    case GALE__IR_SUMS_STORE:
        gale__str_addf(out, "sums_store%s(&v%u[%u],&v%u[%s],%uu);\n", sums, in->a, (unsigned)in->imm, in->b,
            p->text[in->c], (unsigned)(in->imm >> 32));
        break;
    case GALE__IR_MATRIX_SUMS:
        gale__str_addf(out, "matrix v%u=matrix_of_%s(&v%u[%s]);\n", v, operand_name(in->type), in->a, p->text[in->b]);
        break;
    default:
        if (!p->uses[v]) return GALE_OK;
        gale__str_addf(out, "matrix v%u=matrix_%s%s(&v%u[%s],%uu);\n", v, a ? "a" : "b",
            gale__ir_is_byte(in->type) ? "_bytes"
            : in->mem                  ? "_turned"
                                       : "",
            in->a, p->text[in->b], (unsigned)in->imm);
    }
    return GALE_OK;
}
