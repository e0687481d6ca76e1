/* The interface of schedules: choosing one, its key, its words, its grid, its kernel. */
#include "kernel/schedule/schedule_emit.h"
#include "kernel/print/print.h"
#include <string.h>

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/* Largest absolute value of sum(coef * index) + c0 over the domain. */
static int64_t reach(const gale__nest *nest, const int64_t *coef, int64_t c0)
{
    int64_t sum = magnitude(c0), part;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (__builtin_mul_overflow(magnitude(coef[d]), nest->extent[d] - 1, &part) ||
            __builtin_add_overflow(sum, part, &sum))
            return INT64_MAX;
    return sum;
}

static bool needs_index64(const gale__nest *nest)
{
    const int64_t limit = INT32_MAX;
    int all = nest->n_outer + nest->n_inner;
    if (gale__nest_count(nest, 0, gale__nest_has_reduce(nest) ? nest->n_outer : all) > limit) return true;
    for (int i = 0; i < nest->n_buffers; i++)
        if (nest->buffers[i].elements > limit) return true;
    for (int i = 0; i < nest->n_accesses; i++) {
        const gale__nest_access *a = &nest->accesses[i];
        if (a->buffer < 0 && reach(nest, a->stride, a->offset) > limit) return true;
        for (int g = 0; g < a->n_guards; g++) {
            int64_t div = a->guards[g].div > 1 ? a->guards[g].div : 1;
            if (reach(nest, a->guards[g].coef, a->guards[g].c0) > limit || a->guards[g].extent > limit / div)
                return true;
        }
    }
    return false;
}

#define ONCE_BYTES (32 << 20) /* more than a cache keeps for the next kernel */

/* Buffers that would only evict others from the caches: large, with every element read once. */
static uint8_t find_once(const gale__nest *nest, const gale__schedule *s)
{
    int all = nest->n_outer + nest->n_inner, uses[8] = {0};
    uint8_t once = 0;
    if (s->kind == GALE__SCHEDULE_TILE || s->kind == GALE__SCHEDULE_MATRIX || s->kind == GALE__SCHEDULE_WINDOW ||
        ((s->kind == GALE__SCHEDULE_ROW || s->kind == GALE__SCHEDULE_COLUMN) && !s->resident))
        return 0;
    for (int i = 0; i < nest->n_code; i++) {
        if (nest->code[i].op != GALE__NEST_LOAD && nest->code[i].op != GALE__NEST_TAKE) continue;
        const gale__nest_access *a = &nest->accesses[nest->code[i].access];
        if (a->buffer >= 8) continue;
        const gale__nest_buffer *b = &nest->buffers[a->buffer];
        bool whole = nest->code[i].op == GALE__NEST_LOAD && gale__nest_count(nest, 0, all) <= b->elements;
        for (int d = 0; d < all; d++) whole = whole && a->stride[d] != 0;
        if (whole && !uses[a->buffer] && b->elements >= ONCE_BYTES / (int64_t)gale_type_size(b->type))
            once |= (uint8_t)(1 << a->buffer);
        else once &= (uint8_t) ~(1 << a->buffer);
        uses[a->buffer]++;
    }
    return once;
}

#define EARLY_ROUNDS 2 /* groups per compute unit: with more, other groups hide the latency */

/* Buffers that a latency-bound kernel may read while the preceding kernel still runs. */
static uint8_t find_settled(const gale__nest *nest, const gale_device_caps *caps, const gale__schedule *s)
{
    uint8_t settled = 0;
    bool matrix = s->kind == GALE__SCHEDULE_MATRIX && s->async == 3 && !s->relay;
    bool row = s->kind == GALE__SCHEDULE_ROW && s->resident;
    if (!caps->begins_early || (!matrix && !row)) return 0;
    if (gale__schedule_groups(nest, s) > EARLY_ROUNDS * (int64_t)caps->compute_units) return 0;
    for (int i = 0; i < nest->n_buffers && i < 8; i++)
        if (nest->buffers[i].settled && !nest->buffers[i].written) settled |= (uint8_t)(1 << i);
    return settled;
}

static gale_status choose(
    const gale__nest *nest, const gale_device_caps *caps, const gale__schedule_want *want, gale__schedule *out)
{
    gale__schedule s;
    memset(&s, 0, sizeof s);
    s.vector = s.steps = 1;
    s.threads = s.rows = 1;
    if (nest->n_code > GALE__NEST_CODE_MAX)
        return gale__fail(GALE_LIMIT,
            "a kernel of %d instructions exceeds the limit of %d; set no_fusion in gale_program_options", nest->n_code,
            GALE__NEST_CODE_MAX);
    bool reduces = gale__nest_has_reduce(nest);
    if (reduces && gale__nest_count(nest, nest->n_outer, nest->n_outer + nest->n_inner) > INT32_MAX)
        return gale__fail(GALE_LIMIT, "a reduction over 2^31 or more points: split it");
    s.index64 = needs_index64(nest);
    s.math = (uint8_t)((nest->fast ? GALE__IR_FAST : 0) | (caps->corners ? GALE__IR_CORNERS : 0) |
                       (caps->own_math ? GALE__IR_LOOSE : 0) | (nest->fast && caps->own_math ? GALE__IR_CONTRACT : 0));
    if (reduces) {
        if (!gale__schedule_choose_matrix(nest, caps, want, &s) && !gale__schedule_choose_tile(nest, caps, want, &s))
            gale__schedule_choose_reduce(nest, caps, &s);
    } else if (!gale__schedule_choose_interleave(nest, caps, &s) && !gale__schedule_choose_transpose(nest, caps, &s)) {
        gale__schedule_choose_map(nest, caps, &s);
    }
    s.once = find_once(nest, &s);
    s.settled = find_settled(nest, caps, &s);
    *out = s;
    return GALE_OK;
}

gale_status gale__schedule_choose(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *out)
{
    return choose(nest, caps, NULL, out);
}

bool gale__schedule_choose_as(
    const gale__nest *nest, const gale_device_caps *caps, const gale__schedule_want *want, gale__schedule *out)
{
    gale__schedule s;
    gale__contraction c;
    bool usual = want->how == GALE__HOW_USUAL, matrix = want->how >= GALE__HOW_MATRIX,
         tile = !matrix && want->how >= GALE__HOW_TILE;
    if (!gale__nest_contraction(nest, &c) || choose(nest, caps, usual ? NULL : want, &s) != GALE_OK) return false;
    if (!usual && ((s.kind == GALE__SCHEDULE_MATRIX) != matrix || (s.kind == GALE__SCHEDULE_TILE) != tile))
        return false;
    *out = s;
    return true;
}

gale_status gale__schedule_params(
    const gale__nest *nest, const gale__schedule *s, gale__str *key, uint32_t *words, int *n_words)
{
    gale__emit_walk w;
    w.nest = nest;
    w.schedule = s;
    w.key = key;
    w.words = words;
    w.ir = NULL;
    w.layout = NULL;
    w.n_words = w.n_bytes = 0;
    GALE_TRY(gale__emit_walk_run(&w));
    if (n_words) *n_words = w.n_words;
    return GALE_OK;
}

gale_status gale__schedule_build(const gale__nest *nest, const gale__schedule *s, const char *name, gale__ir *ir)
{
    gale_status status;
    gale__ir_init(ir, name);
    ir->math = s->math;
    ir->once = s->once;
    ir->settled = s->settled;
    if (s->kind == GALE__SCHEDULE_TILE) status = gale__schedule_build_tile(nest, s, ir);
    else if (s->kind == GALE__SCHEDULE_MATRIX) status = gale__schedule_build_matrix(nest, s, ir);
    else if (s->kind == GALE__SCHEDULE_TRANSPOSE) status = gale__schedule_build_transpose(nest, s, ir);
    else if (s->kind == GALE__SCHEDULE_INTERLEAVE) status = gale__schedule_build_interleave(nest, s, ir);
    else if (s->kind == GALE__SCHEDULE_WINDOW) status = gale__schedule_build_window(nest, s, ir);
    else status = gale__schedule_build_loops(nest, s, ir);
    if (status == GALE_OK) status = gale__ir_check(ir);
    if (status != GALE_OK) gale__ir_finish(ir);
    return status;
}

void gale__schedule_group(const gale__schedule *s, uint32_t group[3])
{
    group[0] = (uint32_t)s->threads * s->rows;
    if (s->kind == GALE__SCHEDULE_TILE)
        group[0] = (uint32_t)(s->tile_m / s->micro_m) * (uint32_t)(s->tile_n / s->micro_n) * s->steps;
    if (s->kind == GALE__SCHEDULE_MATRIX)
        group[0] = (uint32_t)(s->tile_m / s->micro_m) * (uint32_t)(s->tile_n / s->micro_n) * s->lanes * s->rows;
    if (s->relay) group[0] = group[0] * (s->team ? 1 : gale__relay_sets(s)) + gale__schedule_matrix_copiers(s);
    group[1] = group[2] = 1;
}

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

int64_t gale__schedule_tiles(const gale__contraction *c, const gale__schedule *s, int64_t tile_m, int64_t tile_n)
{
    return c->b_count * up(s->swap ? c->n : c->m, tile_m) * up(s->swap ? c->m : c->n, tile_n);
}

int64_t gale__schedule_groups(const gale__nest *nest, const gale__schedule *s)
{
    int all = nest->n_outer + nest->n_inner, vdim = gale__schedule_vector_dim(nest, s);
    int outer = s->kind == GALE__SCHEDULE_MAP ? all : s->kind == GALE__SCHEDULE_INTERLEAVE ? all - 1 : nest->n_outer;
    int64_t count = 1;
    if (s->kind == GALE__SCHEDULE_TILE || s->kind == GALE__SCHEDULE_MATRIX) {
        gale__contraction c;
        gale__nest_contraction(nest, &c);
        return gale__schedule_tiles(&c, s, s->tile_m, s->tile_n);
    }
    if (s->kind == GALE__SCHEDULE_TRANSPOSE) {
        for (int d = 0; d < all - 1; d++) count *= d == s->axis ? up(nest->extent[d], s->tile_m) : nest->extent[d];
        return count * up(nest->extent[all - 1], s->tile_n);
    }
    for (int d = 0; d < outer; d++) {
        bool slides = s->kind == GALE__SCHEDULE_WINDOW && d == s->axis;
        count *= up(nest->extent[d], d == vdim ? s->vector : slides ? s->steps : 1);
    }
    return up(count, (int64_t)s->rows * (s->kind == GALE__SCHEDULE_MAP ? s->steps : 1));
}

/* No axis gets more than every device allows; kernels put the two axes together again. */
void gale__schedule_grid(const gale__nest *nest, const gale__schedule *s, uint32_t groups[3])
{
    int64_t n = gale__schedule_groups(nest, s);
    if (s->relay && n > s->relay) n = s->relay;
    if (s->split) n *= s->split;
    int64_t y = up(n, 65535);
    groups[0] = (uint32_t)up(n, y);
    groups[1] = (uint32_t)y;
    groups[2] = 1;
}

const char *gale__schedule_name(const gale__schedule *s)
{
    static const char *const names[] = {"map", "row", "column", "tile", "matrix", "transpose", "interleave", "window"};
    return names[s->kind];
}

#define MATRIX_NAMES(how)                                                                         \
    {                                                                                             \
        "matrix, " how, "matrix, " how ", one operand copied", "matrix, " how ", operands copied" \
    }

const char *gale__schedule_describe(const gale__schedule *s, const gale_device_caps *caps)
{
    static const char *const names[][3][3] = {
        {MATRIX_NAMES("emulated bf16"), MATRIX_NAMES("emulated f16"), MATRIX_NAMES("emulated int8")},
        {MATRIX_NAMES("mma.sync m16n8k16 bf16"), MATRIX_NAMES("mma.sync m16n8k16 f16"),
            MATRIX_NAMES("mma.sync m16n8k32 int8")},
        {MATRIX_NAMES("cooperative 16x16x16 bf16"), MATRIX_NAMES("cooperative 16x16x16 f16"),
            MATRIX_NAMES("cooperative 16x16x32 int8")},
        {MATRIX_NAMES("wgmma m64k16 bf16"), MATRIX_NAMES("wgmma m64k16 f16"), MATRIX_NAMES("wgmma m64k32 int8")},
        {MATRIX_NAMES("mfma 16x16x16 bf16"), MATRIX_NAMES("mfma 16x16x16 f16"), MATRIX_NAMES("mfma 16x16x32 int8")},
        {MATRIX_NAMES("wmma 16x16x16 bf16"), MATRIX_NAMES("wmma 16x16x16 f16"), MATRIX_NAMES("wmma 16x16x16 int8")}};
    static const char *const shares[] = {"matrix, f32 as three emulated bf16",
        "matrix, f32 as three bf16 by mma.sync m16n8k16", "", "matrix, f32 as three bf16 by wgmma m64k16"};
    if (s->kind != GALE__SCHEDULE_MATRIX) return gale__schedule_name(s);
    int how = s->groups ? 3 : caps->matrix_emulated ? 0 : !caps->arch ? 2 : 1;
    if (how == 1 && !gale__dialect_copies(caps->dialect)) how = s->lanes == 64 ? 4 : 5;
    if (s->narrow == GALE_F32) return shares[how];
    int type = s->narrow == GALE_I8 ? 2 : s->narrow == GALE_F16;
    return names[how][type][(s->async & 1) + (s->async >> 1 & 1)];
}
