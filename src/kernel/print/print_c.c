/* Prints kernel IR as C-family text, with the spellings of a dialect's table.  One short line per instruction; a value
 * used once in the same block is nested into its user, since compile time grows with the number of lines. */
#include "kernel/print/print_c.h"
#include "kernel/ir/ir_util.h"
#include "kernel/print/print.h"
#include "kernel/print/print_number.h"
#include <stdio.h>
#include <string.h>

/* Longer expressions are assigned to a variable. */
#define NEST_CHARS 72

const char *const gale__c_type_names[GALE_TYPE_COUNT] = {
    [GALE_BOOL] = "bool",
    [GALE_F32] = "f32",
    [GALE_F64] = "f64",
    [GALE_I8] = "i8",
    [GALE_U8] = "u8",
    [GALE_I16] = "i16",
    [GALE_U16] = "u16",
    [GALE_I32] = "i32",
    [GALE_U32] = "u32",
    [GALE_I64] = "i64",
    [GALE_U64] = "u64",
};

static gale__dialect_column column_of(gale_type t)
{
    if (t == GALE_BOOL) return GALE__DIALECT_COLUMN_BOOL;
    if (t == GALE_F32 || t == GALE_F64) return t == GALE_F32 ? GALE__DIALECT_COLUMN_F32 : GALE__DIALECT_COLUMN_F64;
    return gale__type_is_signed(t) ? GALE__DIALECT_COLUMN_SIGNED : GALE__DIALECT_COLUMN_UNSIGNED;
}

/* Fills the holes of a spelling. */
static void spell(gale__str *out, const char *s, const char *const *operands, gale_type type, uint64_t imm)
{
    for (const char *hole; (hole = strchr(s, '$')) != NULL; s = hole + 2) {
        gale__str_add_n(out, s, (size_t)(hole - s));
        switch (hole[1]) {
        case 't': gale__str_add(out, gale__c_type_names[type]); break;
        case 'u': gale__str_add(out, gale__c_type_names[gale__ir_unsigned(type)]); break;
        case 'i': gale__str_addf(out, "%llu", (unsigned long long)imm); break;
        case 'x': gale__str_addf(out, "%c", "xyzw"[imm & 3]); break;
        default: gale__str_add(out, operands[hole[1] - '0']); break;
        }
    }
    gale__str_add(out, s);
}

static void print_vector_type(const gale__c_printer *p, gale__str *s, gale_type mem, int width)
{
    if (width == 1) gale__str_add(s, gale__c_type_names[mem]);
    else gale__str_addf(s, "%s%d", p->dialect->vector[mem], width);
}

/* If an index is the sum of a value and a constant, that sum, so that the constant can become part of the address; else
 * 0. */
static gale__ir_val far_from(const gale__ir *ir, gale__ir_val index)
{
    uint64_t bits;
    while (ir->code[index].op == GALE__IR_CONVERT || ir->code[index].op == GALE__BITCAST) index = ir->code[index].a;
    return ir->code[index].op == GALE__ADD && gale__ir_is_const(ir, ir->code[index].b, &bits) ? index : 0;
}

static void print_place(const gale__c_printer *p, gale__str *s, const char *macro, const gale__ir_instr *in)
{
    gale__str_addf(s, "%s(", macro);
    print_vector_type(p, s, (gale_type)in->mem, in->width);
    gale__ir_val far = in->op == GALE__IR_LOAD && in->c ? far_from(p->ir, in->a) : 0;
    const gale__ir_instr *sum = &p->ir->code[far];
    gale__str_addf(s, ",%s,%u,%s", gale__c_type_names[in->mem], (unsigned)in->imm, p->text[far ? sum->a : in->a]);
    gale__str_addf(s, far ? "+%s)" : ")", far ? p->text[sum->b] : "");
}

static void print_element(const gale__c_printer *p, gale__str *s, const gale__ir_instr *in)
{
    if (in->width > 1) {
        char vector[32];
        bool ours = in->op != GALE__IR_GET_OF_CLUSTER;
        const char *at = gale__arena_printf((gale__arena *)&p->arena, "%sv%u[%s]%s%s%s", ours ? "" : "of_cluster(",
            in->a, p->text[in->b], ours ? "" : ",", ours ? "" : p->text[in->c], ours ? "" : ")");
        snprintf(vector, sizeof vector, "%s%d", p->dialect->vector[in->mem], in->width);
        spell(s, p->dialect->shared_vector, (const char *const[3]){vector, at ? at : ""}, GALE_F32, 0);
        s->failed |= !at;
        return;
    }
    gale__str_addf(s, "v%u", in->a);
    if (p->ir->code[in->a].op == GALE__IR_SUMS)
        gale__str_addf(s, "[(%s)>>3].r[(%s)&7u]", p->text[in->b], p->text[in->b]);
    else if (p->ir->code[in->a].imm > 1) gale__str_addf(s, "[%s]", p->text[in->b]);
}

/* Elements of 8 and 16 bits are kept in arrays as they are. */
static bool is_narrow(const gale__c_printer *p, const gale__ir_instr *in)
{
    const gale__ir_instr *array = &p->ir->code[in->a];
    return in->width == 1 && array->type != GALE_BOOL && gale__type_table[array->type].bits < 32;
}

static const char *load_macro(const gale__ir *ir, uint64_t pointer)
{
    if (!(ir->readonly >> pointer & 1)) return "LD";
    if (gale__ir_marks(ir->settled, pointer)) return "LS";
    return gale__ir_marks(ir->once, pointer) ? "LO" : "LD";
}

/* The word of which v is the upper half; 0: it is none. */
static gale__ir_val upper_half_of(const gale__c_printer *p, gale__ir_val v)
{
    const gale__ir_instr *in = &p->ir->code[v];
    uint64_t by;
    bool shifted = in->op == GALE__IR_SHR && in->type == GALE_U32 && gale__ir_is_const(p->ir, in->b, &by) && by == 16;
    return shifted && !p->reads[in->a] ? in->a : 0;
}

/* A byte below the upper bytes of a constant is one instruction; false: this is none. */
static bool print_joined_byte(const gale__c_printer *p, gale__str *s, const gale__ir_instr *in)
{
    uint64_t upper = 255;
    unsigned byte;
    if (p->dialect->join_byte && in->type == GALE_U32) gale__ir_is_const(p->ir, in->b, &upper);
    gale__ir_val word = upper & 255 ? 0 : gale__ir_word_of_byte(p->ir, in->a, &byte);
    if (!word || p->reads[word]) return false;
    gale__str_addf(s, "%s(%s,%s,0x765%u)", p->dialect->join_byte, p->text[word], p->text[in->b], byte);
    return true;
}

static gale_status print_value(const gale__c_printer *p, gale__str *s, const gale__ir_instr *in)
{
    gale_type type = (gale_type)in->type;
    if (in->op == GALE__OR && print_joined_byte(p, s, in)) return GALE_OK;
    switch (in->op) {
    case GALE__IR_CONST: gale__print_const(s, type, in->imm); return GALE_OK;
    case GALE__IR_WORD: gale__print_word(s, type, in->imm); return GALE_OK;
    case GALE__IR_LOAD: print_place(p, s, load_macro(p->ir, in->imm), in); return GALE_OK;
    case GALE__IR_GET:
    case GALE__IR_GET_OF_CLUSTER:
        if (is_narrow(p, in)) gale__str_addf(s, "(%s)", gale__c_type_names[type]);
        print_element(p, s, in);
        return GALE_OK;
    case GALE__IR_EXTRACT:
        if (p->ir->code[in->a].mem != in->type) gale__str_addf(s, "(%s)", gale__c_type_names[type]);
        gale__str_addf(s, "%s.%c", p->text[in->a], "xyzw"[in->imm & 3]);
        return GALE_OK;
    case GALE__IR_F16_TO_F32: /* a register's upper half needs no shift, which compilers do not always find out */
        if (!upper_half_of(p, in->a)) break;
        gale__str_addf(s, "from_upper(%s)", p->text[upper_half_of(p, in->a)]);
        return GALE_OK;
    case GALE__IR_MIN_NAN:
        if (!p->dialect->clamp || !gale__ir_clamped(p->ir, in)) break;
        gale__str_addf(s, "%s(%s)", p->dialect->clamp, p->text[gale__ir_clamped(p->ir, in)]);
        return GALE_OK;
    default: break;
    }
    gale_type by = gale__ir_is_compare(in->op) ? gale__ir_type(p->ir, in->a) : type;
    const char *form = p->dialect->rows[in->op][column_of(by)];
    if (!form) form = gale__dialect_common[in->op][column_of(by)];
    if (!form)
        return gale__fail(GALE_INTERNAL, "kernel %s: operation %s of type %s cannot be written in this dialect",
            p->ir->name, gale__ir_op_get(in->op).name, gale_type_name(by));
    spell(s, form, (const char *const[3]){p->text[in->a], p->text[in->b], p->text[in->c]}, type, in->imm);
    return GALE_OK;
}

/* Written in full at every use: shorter than a name, or names nothing. */
static bool is_inline(const gale__ir_instr *in)
{
    return in->op == GALE__IR_CONST || in->op == GALE__IR_EXTRACT ||
           (in->op == GALE__IR_WORD && gale__ir_bits((gale_type)in->type) == 32);
}

static bool may_nest(const gale__c_printer *p, gale__ir_val v)
{
    const gale__ir_instr *in = &p->ir->code[v];
    gale__ir_val user = p->user[v];
    int to = p->ir->code[user].op;
    if (is_inline(in)) return true;
    if (in->op == GALE__IR_LOAD || in->op == GALE__IR_SHUFFLE_XOR || p->uses[v] != 1 || p->block[user] != p->block[v])
        return false;
    if (to == GALE__IR_PACK || to == GALE__IR_FOR) return false;
    if (to == GALE__SELECT && p->ir->code[user].a != v)
        return false; /* an arm that is computed anyway does not become a branch */
    return !p->reads[v] || p->epoch[user] == p->epoch[v];
}

static gale_status emit_value(gale__c_printer *p, gale__ir_val v)
{
    const gale__ir_instr *in = &p->ir->code[v];
    gale__ir_val operands[4];
    int n = gale__ir_operands(in, operands);
    p->reads[v] = in->op == GALE__IR_GET || in->op == GALE__IR_GET_OF_CLUSTER;
    for (int i = 0; i < n; i++) p->reads[v] |= p->reads[operands[i]];
    if (!p->uses[v] || in->op == GALE__IR_PACK) return GALE_OK;

    gale__str *s = &p->scratch;
    s->length = 0;
    GALE_TRY(print_value(p, s, in));
    GALE_TRY(gale__str_check(s));
    if (!may_nest(p, v) || (s->length > NEST_CHARS && !is_inline(in))) {
        if (in->width > 1) print_vector_type(p, p->out, (gale_type)in->mem, in->width);
        else gale__str_add(p->out, gale__c_type_names[in->type]);
        gale__str_addf(p->out, " v%u=", v);
        gale__str_add_n(p->out, s->text, s->length);
        gale__str_add(p->out, ";\n");
        p->text[v] = gale__arena_printf(&p->arena, "v%u", v);
        p->reads[v] = false;
    } else {
        p->text[v] = gale__arena_copy(&p->arena, s->text, s->length + 1);
    }
    return p->text[v] ? GALE_OK : GALE_NO_MEMORY;
}

static void print_pack(const gale__c_printer *p, const gale__ir_instr *in, const gale__ir_instr *value)
{
    char vector[32];
    gale__ir_val lanes[4];
    snprintf(vector, sizeof vector, "%s%d", p->dialect->vector[in->mem], in->width);
    spell(p->out, p->dialect->make_vector, (const char *const[3]){vector}, GALE_F32, 0);
    int n = gale__ir_operands(value, lanes);
    for (int i = 0; i < n; i++)
        gale__str_addf(p->out, "%s(%s)%s", i ? "," : "(", gale__c_type_names[in->mem], p->text[lanes[i]]);
    gale__str_add(p->out, ");\n");
}

static void emit_set(gale__c_printer *p, const gale__ir_instr *in)
{
    const gale__ir_instr *value = &p->ir->code[in->c];
    print_element(p, p->out, in);
    gale__str_add(p->out, "=");
    if (in->width > 1 && value->op == GALE__IR_PACK) {
        print_pack(p, in, value);
        return;
    }
    if (is_narrow(p, in)) gale__str_addf(p->out, "(%s)", gale__c_type_names[p->ir->code[in->a].type]);
    gale__str_addf(p->out, "%s;\n", p->text[in->c]);
}

static void emit_store(gale__c_printer *p, const gale__ir_instr *in)
{
    const gale__ir_instr *value = &p->ir->code[in->b];
    print_place(p, p->out, "ST", in);
    gale__str_add(p->out, "=");
    if (value->op == GALE__IR_PACK) print_pack(p, in, value);
    else {
        if (in->width == 1) gale__str_addf(p->out, "(%s)", gale__c_type_names[in->mem]);
        gale__str_addf(p->out, "%s;\n", p->text[in->b]);
    }
}

static void emit_add(gale__c_printer *p, const gale__ir_instr *in)
{
    bool memory = in->op == GALE__IR_STORE_ADD;
    gale__str_addf(p->out, "%s(&", p->dialect->atomic_add);
    if (memory) print_place(p, p->out, "ST", in);
    else print_element(p, p->out, in);
    gale__str_addf(p->out, ",%s);\n", p->text[memory ? in->b : in->c]);
}

static void emit_meeting(gale__c_printer *p, const gale__ir_instr *in)
{
    bool arrives = in->op == GALE__IR_ARRIVE;
    gale__str_addf(p->out, "groups_%s(&ST(u32,u32,%u,%s)%s%s);\n", arrives ? "arrive" : "await", (unsigned)in->imm,
        p->text[in->a], arrives ? "" : ",", arrives ? "" : p->text[in->b]);
}

static gale_status emit_control(gale__c_printer *p, gale__ir_val v, const gale__ir_instr *in)
{
    gale__str *out = p->out;
    switch (in->op) {
    case GALE__IR_FOR:
        if (in->imm) gale__str_addf(out, "#pragma unroll%s\n", in->imm == 2 ? " 1" : "");
        gale__str_addf(
            out, "for(u32 v%u=%s;v%u<%s;v%u+=%s){\n", v, p->text[in->a], v, p->text[in->b], v, p->text[in->c]);
        p->text[v] = gale__arena_printf(&p->arena, "v%u", v);
        return p->text[v] ? GALE_OK : GALE_NO_MEMORY;
    case GALE__IR_IF: /* nested conditions already have parentheses: a second pair causes a warning */
        gale__str_addf(out, p->text[in->a][0] == '(' ? "if%s{\n" : "if(%s){\n", p->text[in->a]);
        break;
    case GALE__IR_ELSE: gale__str_add(out, "}else{\n"); break;
    default: gale__str_add(out, "}\n"); break;
    }
    return GALE_OK;
}

static gale_status emit(gale__c_printer *p, gale__ir_val v)
{
    const gale__ir_instr *in = &p->ir->code[v];
    bool matrix = (in->op >= GALE__IR_COPY && in->op <= GALE__IR_REGISTERS) ||
                  (in->op >= GALE__IR_GATE_EXPECT && in->op <= GALE__IR_MAP_COPY);
    if (matrix || in->op == GALE__IR_MATRIX_SUMS || in->op == GALE__IR_SEND) return gale__print_c_matrix(p, v, in);
    switch (in->op) {
    case GALE__IR_STORE: emit_store(p, in); return GALE_OK;
    case GALE__IR_SET: emit_set(p, in); return GALE_OK;
    case GALE__IR_STORE_ADD:
    case GALE__IR_SET_ADD: emit_add(p, in); return GALE_OK;
    case GALE__IR_ARRAY:
        gale__str_addf(
            p->out, in->imm > 1 ? "%s v%u[%u];\n" : "%s v%u;\n", gale__c_type_names[in->type], v, (unsigned)in->imm);
        return GALE_OK;
    case GALE__IR_SHARED: return GALE_OK; /* at the top */
    case GALE__IR_BARRIER:
        if (in->imm == GALE__IR_CLUSTER) gale__str_add(p->out, "cluster_barrier();\n");
        else
            gale__str_addf(p->out, "%s\n", in->imm == 2 ? p->dialect->barrier_subgroup : p->dialect->barriers[in->imm]);
        return GALE_OK;
    case GALE__IR_ARRIVE:
    case GALE__IR_AWAIT: emit_meeting(p, in); return GALE_OK;
    case GALE__IR_READY: gale__str_add(p->out, p->dialect->ready); return GALE_OK;
    case GALE__IR_FOR:
    case GALE__IR_IF:
    case GALE__IR_ELSE:
    case GALE__IR_END: return emit_control(p, v, in);
    default: return emit_value(p, v);
    }
}

static void number_blocks(gale__c_printer *p)
{
    const gale__ir *ir = p->ir;
    uint32_t block = 0, epoch = 0;
    for (gale__ir_val v = 1; v < ir->count; v++) {
        int kind = gale__ir_op_get(ir->code[v].op).kind;
        p->block[v] = block;
        p->epoch[v] = epoch;
        if (kind == GALE__IR_CONTROL) block++;
        if (kind == GALE__IR_EFFECT || kind == GALE__IR_CONTROL) epoch++;
    }
}

/* Work-group arrays: declared, or parts of the memory requested at launch; some share the memory of another. */
static void declare_shared(gale__c_printer *p)
{
    gale__str *out = p->out;
    bool launched = gale__ir_launch_bytes(p->ir) && *p->dialect->shared_launch;
    uint64_t offset = 0;
    if (launched) gale__str_add(out, p->dialect->shared_launch);
    for (gale__ir_val v = 1; v < p->ir->count; v++) {
        const gale__ir_instr *in = &p->ir->code[v];
        const char *type = gale__c_type_names[in->type];
        if (in->op != GALE__IR_SHARED) continue;
        if (!in->a && !launched) {
            gale__str_addf(
                out, in->imm > 1 ? "%s%s v%u[%u];\n" : "%s%s v%u;\n", p->dialect->shared, type, v, (unsigned)in->imm);
            continue;
        }
        spell(out, p->dialect->shared_type, (const char *const[3]){type}, GALE_F32, 0);
        gale__str_addf(out, "v%u=(", v);
        spell(out, p->dialect->shared_type, (const char *const[3]){type}, GALE_F32, 0);
        if (in->a) gale__str_addf(out, ")v%u;\n", in->a);
        else gale__str_addf(out, ")(gale_shared+%lluu);\n", (unsigned long long)offset);
        if (!in->a) offset += gale__ir_array_bytes(in);
    }
}

static void open_kernel(gale__c_printer *p)
{
    const gale__ir *ir = p->ir;
    gale__str *out = p->out;
    const gale__dialect_table *d = p->dialect;
    bool has_struct = ir->n_pointers || ir->n_words;
    if (has_struct) {
        gale__str_addf(out, "struct P_%s{", ir->name);
        if (ir->n_pointers) gale__str_addf(out, "%s[%d];", d->struct_pointers, ir->n_pointers);
        if (ir->n_words) gale__str_addf(out, "u32 w[%d];", ir->n_words);
        gale__str_add(out, "};\n");
    }
    char side[3][12], at_once[12] = "";
    for (int i = 0; i < 3; i++) snprintf(side[i], sizeof side[i], "%u", ir->group[i]);
    if (ir->at_once) snprintf(at_once, sizeof at_once, ",%u", ir->at_once);
    spell(out, d->kernel, (const char *const[4]){side[0], side[1], side[2], at_once}, GALE_F32,
        (uint64_t)ir->group[0] * ir->group[1] * ir->group[2]);
    if (ir->cluster) gale__str_addf(out, "__cluster_dims__(%u,1,1) ", ir->cluster);
    gale__str_addf(out, "%s(", ir->name);
    for (int i = 0; i < ir->n_pointers && *d->pointer; i++) {
        spell(out, ir->readonly >> i & 1 ? d->pointer_readonly : d->pointer, NULL, GALE_F32, (uint64_t)i);
        gale__str_add(out, ",");
    }
    if (has_struct) gale__str_addf(out, "const struct P_%s P", ir->name);
    for (int i = 0; i < ir->n_maps; i++) gale__str_addf(out, ",const __grid_constant__ map M%d", i);
    gale__str_add(out, "){\n");
    for (int i = 0; i < ir->n_pointers && *d->pointer_base; i++) {
        gale__str_add(out, ir->readonly >> i & 1 ? "__global const uchar*" : "__global uchar*");
        spell(out, d->pointer_base, NULL, GALE_F32, (uint64_t)i);
        gale__str_add(out, "\n");
    }
    if (ir->n_maps) gale__str_add(out, "if(threadIdx.x==0u){map_ahead(&M0);map_ahead(&M1);}\n");
    if (!gale__ir_has_ready(ir)) gale__str_add(out, d->ready);
    declare_shared(p);
}

static gale_status print_kernel(const gale__ir *ir, const gale__dialect_table *d, gale__str *out)
{
    gale__c_printer p = {.ir = ir, .dialect = d, .out = out};
    size_t n = ir->count + 1u;
    p.uses = gale__arena_alloc(&p.arena, n * sizeof *p.uses);
    p.user = gale__arena_alloc(&p.arena, n * sizeof *p.user);
    p.block = gale__arena_alloc(&p.arena, n * sizeof *p.block);
    p.epoch = gale__arena_alloc(&p.arena, n * sizeof *p.epoch);
    p.reads = gale__arena_alloc(&p.arena, n * sizeof *p.reads);
    p.text = gale__arena_alloc(&p.arena, n * sizeof *p.text);
    gale_status status = p.uses && p.user && p.block && p.epoch && p.reads && p.text ? GALE_OK : GALE_NO_MEMORY;
    if (status == GALE_OK) {
        gale__ir_count_uses(ir, p.uses, p.user);
        number_blocks(&p);
        open_kernel(&p);
    }
    for (gale__ir_val v = 1; v < ir->count && status == GALE_OK; v++) status = emit(&p, v);
    gale__str_add(out, "}\n");
    gale__str_finish(&p.scratch);
    gale__arena_finish(&p.arena);
    return status;
}

static gale_status print_lowered(
    const gale__ir *ir, const gale__dialect_table *d, const gale_device_caps *caps, gale__str *out)
{
    gale__ir lowered;
    if (caps->exact_division) return print_kernel(ir, d, out);
    GALE_TRY(gale__ir_lower(ir, (gale__ir_lowering){.division = true}, &lowered));
    gale_status status = print_kernel(&lowered, d, out);
    gale__ir_finish(&lowered);
    return status;
}

/* What the dialect and the device have of copies and matrix units. */
static gale__ir_plainly plainly_for(const gale__ir *ir, const gale__dialect_table *d, const gale_device_caps *caps)
{
    bool has = *d->head_matrix && caps->arch >= 80;
    gale__ir_plainly what = gale__ir_plainly_for(ir, caps, has && d->copies);
    what.matrix |= ir->subgroup && !has;
    return what;
}

static gale_status print_one(
    const gale__ir *ir, const gale__dialect_table *d, const gale_device_caps *caps, gale__str *out)
{
    gale__ir plain;
    gale__ir_plainly what = plainly_for(ir, d, caps);
    if (!what.matrix && !what.copies) return print_lowered(ir, d, caps, out);
    GALE_TRY(gale__ir_write_plainly(ir, what, &plain));
    gale_status status = print_lowered(&plain, d, caps, out);
    gale__ir_finish(&plain);
    return status;
}

gale_status gale__ir_print_c(
    const gale__ir *const *kernels, int n, gale__dialect dialect, const gale_device_caps *caps, gale__str *out)
{
    const gale__dialect_table *d = &gale__dialects[dialect];
    gale__ir_needs all = {0};
    for (int i = 0; i < n; i++) {
        GALE_TRY(gale__ir_check(kernels[i]));
        GALE_TRY(gale__ir_check_device(kernels[i], caps));
        gale__ir_needs needs = gale__ir_get_needs(kernels[i]);
        all.f64 |= needs.f64;
        gale__ir_plainly plainly = plainly_for(kernels[i], d, caps);
        all.f16 |= needs.f16 || (plainly.matrix && needs.matrix & 1);
        all.copies |= needs.copies && !plainly.copies;
        all.sums |= needs.sums && !plainly.matrix;
        if (!plainly.matrix) all.matrix |= needs.matrix;
        all.wide |= needs.wide || plainly.copies;
        all.subgroup |= needs.subgroup;
        all.corners |= needs.corners;
        all.fast |= needs.fast;
        all.together |= needs.together;
    }
    if (all.f64) gale__str_add(out, d->head_f64);
    gale__str_add(out, d->head);
    if (all.f16) gale__str_add(out, d->head_f16);
    if (all.subgroup) gale__str_add(out, d->head_subgroup);
    if (all.corners || all.fast) gale__str_add(out, d->head_own);
    if (all.wide) gale__str_add(out, d->head_wide);
    if (all.copies || all.sums) gale__str_add(out, d->head_matrix);
    if (all.matrix & 4) gale__str_add(out, d->head_bytes);
    if (all.together) gale__str_add(out, d->head_together);
    for (int i = 0; i < n; i++) GALE_TRY(print_one(kernels[i], d, caps, out));
    return gale__str_check(out);
}
