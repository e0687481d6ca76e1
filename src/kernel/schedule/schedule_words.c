/* The traversal of a nest that assigns a place to each of its numbers: 0 and 1 are part of the key and become
 * constants of the kernel, the rest become parameter words.  Key, words and kernel come from the same traversal, so
 * they cannot differ. */
#include "kernel/schedule/schedule_emit.h"
#include <string.h>

static void key_flush(gale__emit_walk *w)
{
    if (w->n_bytes) gale__str_add_n(w->key, w->bytes, (size_t)w->n_bytes);
    w->n_bytes = 0;
}

static void key_byte(gale__emit_walk *w, int byte)
{
    if (!w->key) return;
    if (w->n_bytes == (int)sizeof w->bytes) key_flush(w);
    w->bytes[w->n_bytes++] = (char)byte;
}

static void key_bytes(gale__emit_walk *w, uint64_t v, int n)
{
    for (int i = 0; i < n; i++) key_byte(w, (int)(v >> (8 * i) & 255));
}

/* A word, or an even pair of them. */
static gale__ir_val put_word(gale__emit_walk *w, gale_type type, uint64_t bits)
{
    bool wide = gale__type_table[type].bits == 64;
    gale__ir_val v = 0;
    w->n_words += wide && (w->n_words & 1);
    if (w->ir)
        v = gale__ir_add(
            w->ir, (gale__ir_instr){.op = GALE__IR_WORD, .type = (uint8_t)type, .imm = (uint64_t)w->n_words});
    if (w->words && w->n_words + 1 < GALE__SCHEDULE_WORDS) {
        w->words[w->n_words] = (uint32_t)bits;
        if (wide) w->words[w->n_words + 1] = (uint32_t)(bits >> 32);
    }
    w->n_words += wide ? 2 : 1;
    return v;
}

static gale_type index_type(const gale__emit_walk *w) { return w->schedule->index64 ? GALE_U64 : GALE_U32; }

static gale__ir_val put_index(gale__emit_walk *w, int64_t v) { return put_word(w, index_type(w), (uint64_t)v); }

/* 0 and 1 are classes of their own. */
static gale__ir_val put_class(gale__emit_walk *w, int64_t v)
{
    bool small = v == 0 || v == 1;
    key_byte(w, small ? (int)v : 2);
    if (!small) return put_index(w, v);
    return w->ir ? gale__ir_const(w->ir, index_type(w), (uint64_t)v) : 0;
}

void gale__schedule_divisor(int64_t d, uint32_t words[3])
{
    uint32_t shift = 0;
    while (((int64_t)1 << shift) < d) shift++;
    words[0] = (uint32_t)d;
    words[1] = (uint32_t)(((((uint64_t)1 << shift) - (uint64_t)d) << 32) / (uint64_t)d + 1);
    words[2] = shift;
}

static gale__emit_divisor put_divisor(gale__emit_walk *w, int64_t d)
{
    gale__emit_divisor out = {put_index(w, d), 0, 0};
    if (w->schedule->index64) return out;
    uint32_t words[3];
    gale__schedule_divisor(d, words);
    out.mul = put_word(w, GALE_U32, words[1]);
    out.shift = put_word(w, GALE_U32, words[2]);
    return out;
}

int gale__schedule_vector_dim(const gale__nest *nest, const gale__schedule *s)
{
    int all = nest->n_outer + nest->n_inner;
    switch (s->kind) {
    case GALE__SCHEDULE_MAP: return all - 1;
    case GALE__SCHEDULE_INTERLEAVE: return all - 2;
    case GALE__SCHEDULE_ROW: return nest->n_inner ? all - 1 : -1;
    case GALE__SCHEDULE_WINDOW:
    case GALE__SCHEDULE_COLUMN: return nest->n_outer - 1;
    default: return -1;
    }
}

bool gale__schedule_access_walks(const gale__nest_access *a, int d)
{
    if (a->stride[d]) return true;
    for (int g = 0; g < a->n_guards; g++)
        if (a->guards[g].coef[d]) return true;
    return false;
}

int gale__schedule_access_width(const gale__nest *nest, const gale__nest_access *a, int dim, int vector)
{
    int most = 16 / (int)gale_type_size(a->type), w = vector < most ? vector : most;
    int64_t sum = a->offset;
    if (dim < 0 || a->buffer < 0 || a->stride[dim] != 1) return 1;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (d != dim) sum |= a->stride[d];
    for (int g = 0; g < a->n_guards; g++) {
        if (a->guards[g].coef[dim]) return 1;
        sum |= a->guards[g].stride;
    }
    while (w > 1 && (sum & (w - 1))) w /= 2;
    return w < 1 ? 1 : w;
}

bool gale__nest_has_reduce(const gale__nest *nest)
{
    for (int i = 0; i < nest->n_code; i++)
        if (nest->code[i].op == GALE__NEST_REDUCE) return true;
    return false;
}

int64_t gale__nest_count(const gale__nest *nest, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        if (__builtin_mul_overflow(n, nest->extent[d], &n)) return INT64_MAX;
    return n;
}

/* Dimensions along which the kernel moves vectors, and how wide they are at most. */
typedef struct vectors {
    int n, dim[3], width[3];
} vectors;

/* Where a table begins is part of an instruction if it is known. */
static bool is_table(const gale__nest *nest, const gale__nest_access *a)
{
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (a->stride[d]) return false;
    for (int i = 0; i < nest->n_code && !a->n_guards; i++)
        if (nest->code[i].op == GALE__NEST_TAKE && &nest->accesses[nest->code[i].access] == a) return true;
    return false;
}

static void walk_access(gale__emit_walk *w, const gale__nest_access *a, gale__emit_access *out, const vectors *v)
{
    int dims = w->nest->n_outer + w->nest->n_inner;
    key_byte(w, a->buffer);
    key_byte(w, a->type);
    for (int i = 0; i < v->n; i++) key_byte(w, gale__schedule_access_width(w->nest, a, v->dim[i], v->width[i]));
    key_byte(w, a->n_guards);
    bool table = is_table(w->nest, a) && a->offset >= 0 && a->offset < INT32_MAX;
    key_byte(w, table);
    if (table) key_bytes(w, (uint64_t)a->offset, 4);
    out->offset = !table  ? put_index(w, a->offset)
                  : w->ir ? gale__ir_const(w->ir, index_type(w), (uint64_t)a->offset)
                          : 0;
    for (int d = 0; d < dims; d++) out->stride[d] = put_class(w, a->stride[d]);
    for (int i = 0; i < a->n_guards; i++) {
        const gale__nest_guard *g = &a->guards[i];
        gale__emit_guard *to = &out->guard[i];
        for (int d = 0; d < dims; d++) to->coef[d] = put_class(w, g->coef[d]);
        to->c0 = put_index(w, g->c0);
        to->limit = put_index(w, g->extent * (g->div > 1 ? g->div : 1));
        key_byte(w, g->div == GALE__WRAPS ? 2 : g->div > 1);
        if (g->div == 1) continue;
        to->stride = put_class(w, g->stride);
        if (g->div > 1) to->div = put_divisor(w, g->div);
    }
    if (a->n_guards) key_bytes(w, a->fill, 8);
}

static bool is_common(gale_type type, uint64_t bits)
{
    double v = 0;
    float narrow;
    uint32_t low = (uint32_t)bits;
    if (type == GALE_BOOL) return true;
    if (type == GALE_F32) {
        memcpy(&narrow, &low, sizeof low);
        v = (double)narrow;
    } else if (type == GALE_F64) memcpy(&v, &bits, sizeof v);
    else v = gale__type_table[type].bits == 32 ? (double)(int32_t)low : (double)(int64_t)bits;
    if (v == 0 && bits << (type == GALE_F32 ? 32 : 0)) return false; /* -0 */
    return v == 0 || v == 1 || v == -1 || v == 2 || v == 0.5;
}

/* How far bits are shifted, which of them are kept, and what halves are multiplied by: a compiler needs one instruction
 * only if it knows. */
static bool places_bits(const gale__nest *nest, int constant)
{
    for (int i = constant + 1; i < nest->n_code; i++) {
        const gale__nest_instr *in = &nest->code[i];
        if ((in->op == GALE__SHL || in->op == GALE__SHR || in->op == GALE__AND) && in->b == constant) return true;
        if (in->op == GALE__FMA_HALVES && in->b == constant) return true;
    }
    return false;
}

/* A constant distance in a table: part of an instruction as well. */
static bool is_distance(const gale__nest *nest, int constant)
{
    for (int i = nest->n_code - 1; i > constant; i--) {
        if (nest->code[i].op != GALE__NEST_TAKE) continue;
        const gale__nest_instr *sum = &nest->code[nest->code[i].a];
        while (sum->op == GALE__CAST) sum = &nest->code[sum->a];
        if (sum->op == GALE__ADD && sum->b == constant) return true;
    }
    return false;
}

static gale__ir_val walk_constant(gale__emit_walk *w, int instr)
{
    gale_type type = gale__compute_type((gale_type)w->nest->code[instr].type);
    uint64_t bits = w->nest->code[instr].imm;
    bool common = is_common(type, bits) ||
                  (gale__type_is_int(type) && (places_bits(w->nest, instr) || is_distance(w->nest, instr)));
    key_byte(w, common);
    if (!common) return put_word(w, type, bits);
    key_bytes(w, bits, 8);
    return w->ir ? gale__ir_const(w->ir, type, bits) : 0;
}

static void walk_code(gale__emit_walk *w)
{
    for (int i = 0; i < w->nest->n_code; i++) {
        const gale__nest_instr *in = &w->nest->code[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        gale__ir_val v = 0;
        key_byte(w, in->op);
        key_byte(w, in->type);
        key_byte(w, in->inner);
        for (int k = 0; k < gale__nest_arity(in); k++) key_bytes(w, (uint64_t)operand[k], 2);
        if (in->op == GALE__NEST_CONST) v = walk_constant(w, i);
        if (in->op == GALE__NEST_TAKE) v = put_index(w, (int64_t)in->imm);
        if (in->op == GALE__NEST_LOAD || in->op == GALE__NEST_TAKE || in->op == GALE__NEST_INDEX)
            key_bytes(w, (uint64_t)in->access, 2);
        if (in->op == GALE__NEST_REDUCE) {
            key_byte(w, (int)in->imm);
            key_byte(w, in->acc);
        } else if (in->op < GALE__SCALAR_COUNT || in->op == GALE__NEST_TAKE) key_byte(w, in->acc);
        if (w->layout) w->layout->number[i] = v;
    }
    for (int i = 0; i < w->nest->n_stores; i++) {
        const gale__nest_store *st = &w->nest->stores[i];
        key_bytes(w, (uint64_t)st->value, 2);
        key_bytes(w, (uint64_t)st->access, 2);
        key_bytes(w, (uint64_t)(st->index + 1), 2);
        gale__ir_val v = st->index >= 0 ? put_index(w, st->limit) : 0;
        if (w->layout) w->layout->limit[i] = v;
    }
}

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* Extents and counts, in vectors along the vector dimension. */
static void walk_domain(gale__emit_walk *w, gale__emit_layout *out, int vdim)
{
    const gale__nest *nest = w->nest;
    const gale__schedule *s = w->schedule;
    int all = nest->n_outer + nest->n_inner, outer = gale__nest_has_reduce(nest) ? nest->n_outer : all;
    bool tiles =
        s->kind == GALE__SCHEDULE_TILE || s->kind == GALE__SCHEDULE_MATRIX || s->kind == GALE__SCHEDULE_TRANSPOSE;
    int64_t count[2] = {1, 1};
    bool window = s->kind == GALE__SCHEDULE_WINDOW;
    key_byte(w, nest->n_outer);
    key_byte(w, nest->n_inner);
    for (int d = 0; d < all; d++) {
        int64_t n = up(nest->extent[d], d == vdim ? s->vector : window && d == s->axis ? s->steps : 1);
        if (d == all - 1 && (window || s->kind == GALE__SCHEDULE_INTERLEAVE)) continue; /* the kernel knows it */
        if (tiles || (d != 0 && d != outer)) out->extent[d] = put_divisor(w, n);
        count[d >= outer] *= n;
    }
    out->outer_count = put_index(w, tiles ? gale__schedule_groups(nest, s) : count[0]);
    out->inner_count = put_word(w, GALE_U32, (uint64_t)count[1]);
    if (s->tail) out->points = put_index(w, nest->extent[vdim]);
    if (window) out->points = put_index(w, nest->extent[s->axis] - s->steps);
}

static void walk_tiles(gale__emit_walk *w, gale__emit_layout *out, const gale__contraction *c)
{
    const gale__nest *nest = w->nest;
    const gale__schedule *s = w->schedule;
    int all = nest->n_outer + nest->n_inner;
    if (s->kind == GALE__SCHEDULE_TRANSPOSE) {
        out->tiles_m = put_divisor(w, up(nest->extent[s->axis], s->tile_m));
        out->tiles_n = put_divisor(w, up(nest->extent[all - 1], s->tile_n));
        return;
    }
    int64_t m = s->swap ? c->n : c->m, n = s->swap ? c->m : c->n;
    for (int d = 0; d < all; d++) key_byte(w, c->kind[d]);
    out->m = put_index(w, m);
    out->n = put_index(w, n);
    out->tiles_m = put_divisor(w, up(m, s->tile_m));
    out->tiles_n = put_divisor(w, up(n, s->tile_n));
}

gale_status gale__emit_walk_run(gale__emit_walk *w)
{
    const gale__nest *nest = w->nest;
    gale__emit_layout unused, *layout = w->layout ? w->layout : &unused;
    gale__emit_access spare;
    gale__contraction c;
    vectors v = {1, {gale__schedule_vector_dim(nest, w->schedule)}, {w->schedule->vector}};
    if (w->key) gale__str_add_n(w->key, (const char *)w->schedule, sizeof *w->schedule);
    walk_domain(w, layout, v.dim[0]);
    if (w->schedule->kind == GALE__SCHEDULE_TRANSPOSE) walk_tiles(w, layout, NULL);
    if ((w->schedule->kind == GALE__SCHEDULE_TILE || w->schedule->kind == GALE__SCHEDULE_MATRIX) &&
        gale__nest_contraction(nest, &c)) {
        walk_tiles(w, layout, &c);
        v.n = 2;
        for (int i = 0; i < 2; i++) {
            v.dim[i] = gale__schedule_tile_vector_dim(nest, w->schedule, &c, i);
            v.width[i] = w->schedule->wide[i];
        }
        if (w->schedule->kind == GALE__SCHEDULE_MATRIX) {
            v.dim[v.n] = gale__schedule_matrix_vector_dim(nest, w->schedule, &c);
            v.width[v.n++] = w->schedule->vector;
        }
    }
    key_byte(w, nest->n_buffers);
    for (int i = 0; i < nest->n_buffers; i++) key_byte(w, nest->buffers[i].written);
    for (int i = 0; i < nest->n_accesses; i++)
        walk_access(w, &nest->accesses[i], w->layout ? &w->layout->access[i] : &spare, &v);
    walk_code(w);
    if (w->key) {
        key_flush(w);
        GALE_TRY(gale__str_check(w->key));
    }
    if (w->n_words > GALE__SCHEDULE_WORDS - 2)
        return gale__fail(GALE_LIMIT, "a kernel needs %d parameter words, more than the limit of %d; set no_fusion",
            w->n_words, GALE__SCHEDULE_WORDS - 2);
    return GALE_OK;
}
