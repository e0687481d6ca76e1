/* Attention on matrix units: the supported shapes, the distribution over work-groups, and the launch.  Scores never
 * leave the chip.  Keys and values pass through work-group memory in blocks of up to 64; with more than one block, the
 * softmax is computed online. */
#include "kernel/routines/attention_ir.h"
#include "kernel/ir/ir_util.h"
#include "kernel/schedule/schedule.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SIZE = 128, MOST_KEYS = 64, MOST_WARPS = 4, SOFTWARE_WARPS = 2, EMULATED_LANES = 32, PAD = 8 };

static uint32_t up(int64_t n, int64_t by) { return (uint32_t)((n + by - 1) / by); }
static uint32_t up16(int64_t n) { return 16 * up(n, 16); }

static const gale__cpu_view *view_of(const gale__attention *a, int i)
{
    const gale__cpu_view *views[] = {&a->a.q, &a->a.k, &a->a.v, &a->a.mask, &a->a.hide};
    return views[i];
}

/* --- Leading axes. --- */

static bool has_view(const gale__attention *a, int v)
{
    return v < GALE__ATTENTION_MASK || (v == GALE__ATTENTION_MASK ? a->a.masked : a->a.hides) != 0;
}

/* Whether the axis in front of the first one kept is its continuation in every operand. */
static bool continues(const gale__attention *a, const gale__attention_shape *s, int axis)
{
    if (!s->axes) return false;
    for (int v = 0; v < GALE__ATTENTION_VIEWS; v++)
        if (has_view(a, v) && view_of(a, v)->lead[axis] != s->stride[v][0] * s->extent[0]) return false;
    return true;
}

static void put_in_front(const gale__attention *a, gale__attention_shape *s, int axis)
{
    memmove(s->extent + 1, s->extent, (GALE__CPU_LEAD - 1) * sizeof *s->extent);
    s->extent[0] = a->a.lead[axis];
    for (int v = 0; v < GALE__ATTENTION_VIEWS; v++) {
        memmove(s->stride[v] + 1, s->stride[v], (GALE__CPU_LEAD - 1) * sizeof *s->stride[v]);
        s->stride[v][0] = has_view(a, v) ? view_of(a, v)->lead[axis] : 0;
    }
    s->axes++;
}

static void find_axes(const gale__attention *a, gale__attention_shape *s)
{
    s->heads = 1;
    for (int i = GALE__CPU_LEAD - 1; i >= 0; i--) {
        s->heads *= a->a.lead[i];
        if (a->a.lead[i] == 1) continue;
        if (continues(a, s, i)) s->extent[0] *= a->a.lead[i];
        else put_in_front(a, s, i);
    }
}

/* --- Loads. --- */

/* Whether `by` neighbours along a row are always at a multiple of their size. */
static bool lies_in(const gale__cpu_view *v, int64_t columns, int64_t by)
{
    bool ok = v->column == 1 && columns % by == 0 && v->offset % by == 0 && v->row % by == 0;
    for (int i = 0; i < GALE__CPU_LEAD; i++) ok = ok && v->lead[i] % by == 0;
    return ok;
}

static uint8_t load_for(const gale__cpu_view *v, int64_t columns)
{
    if (lies_in(v, columns, 8)) return GALE__ATTENTION_COPY;
    return v->column != 1 && v->row == 1 ? GALE__ATTENTION_BY_COLUMN : GALE__ATTENTION_BY_ROW;
}

/* --- Sizes. --- */

/* Rows of scores are read by pairs of threads, 16 bytes each: 8 more than a multiple of 32 puts four rows in all banks.
 */
static uint32_t score_row(uint32_t columns) { return columns + (columns % 32 ? 3 * PAD : PAD); }

static void set_rows(gale__attention_shape *s)
{
    s->key_row = s->d16 + PAD;
    s->value_row = s->c16 + PAD;
    s->weight_row = s->n16 + PAD;
    s->score_row = score_row(s->n16 > s->c16 ? s->n16 : s->c16);
}

static bool fits(const gale_device_caps *caps, const gale__attention_shape *s)
{
    uint32_t rows = 16 * s->warps, scores = rows * s->score_row * 4, weights = rows * s->weight_row * 2;
    uint32_t parts = 2 * (rows * s->key_row + s->stages * s->n16 * (s->key_row + s->value_row));
    uint32_t rest = rows * 4 + (s->shuffles ? 0 : s->warps * s->lanes * 4);
    if (s->quads) scores = weights = 0, rest += caps->matrix_emulated ? s->warps * 512 : 0;
    if (s->warps * s->lanes > (caps->group_max ? caps->group_max : 256)) return false;
    if (s->weights_over_scores) weights = 0;
    return parts + scores + weights + rest <= gale__caps_matrix_bytes(caps);
}

static void divide(const gale__attention *a, const gale_device_caps *caps, uint32_t most_warps, uint32_t most_keys,
    gale__attention_shape *s)
{
    uint32_t tiles = up(a->a.m, 16), steps = up(a->a.n, most_keys), most = caps->software ? SOFTWARE_WARPS : MOST_WARPS;
    if (most > most_warps) most = most_warps;
    s->blocks = up(tiles, most);
    s->warps = up(tiles, s->blocks);
    s->n16 = up16(up(a->a.n, steps));
    s->online = steps > 1;
    s->stages = steps > 1 ? 2 : 1;
    s->whole = !s->causal && a->a.n % s->n16 == 0;
    bool ends = !s->causal && !s->online;
    s->full8 = ends ? (uint32_t)a->a.n / 8 : 0;
    s->some8 = ends ? up(a->a.n, 8) : s->n16 / 8;
    set_rows(s);
}

static bool choose_sizes(const gale__attention *a, const gale_device_caps *caps, gale__attention_shape *s)
{
    uint32_t most = MOST_WARPS;
    /* Few heads: narrower groups, so that half of the units have one. */
    while (most > 1 && s->heads * up(up(a->a.m, 16), most) * 2 < caps->compute_units) most /= 2;
    for (uint32_t keys = MOST_KEYS; keys >= 16; keys /= 2)
        for (uint32_t warps = most; warps; warps /= 2) {
            divide(a, caps, warps, keys, s);
            for (; s->stages; s->stages--)
                if (fits(caps, s)) return true;
        }
    return false;
}

/* Some drivers leave loops that are too long. */
static bool loops_end(const gale__attention *a, const gale_device_caps *caps, const gale__attention_shape *s)
{
    int64_t tiles = (int64_t)(s->n16 / 16) * (s->d16 + s->c16 + 2) + s->n16, steps = up(a->a.n, s->n16);
    return !caps->loop_max || steps * (tiles + 2 * s->n16) + 4096 < caps->loop_max;
}

bool gale__attention_shape_for(const gale__attention *a, const gale_device_caps *caps, gale__attention_shape *out)
{
    const gale__cpu_attention *c = &a->a;
    gale__attention_shape s = {.type = (gale_type)a->type, .mask_type = (gale_type)a->mask_type};
    if ((s.type != GALE_F16 && s.type != GALE_BF16) || !gale__caps_run_matrix(caps, s.type)) return false;
    if (c->d > MOST_SIZE || c->c > MOST_SIZE || c->n > INT32_MAX / 2 || c->m > INT32_MAX / 2) return false;
    s.lanes = caps->matrix_emulated ? EMULATED_LANES : caps->subgroup;
    if (s.lanes > 64) return false; /* threads that share a row of 16 would have nothing to do */
    s.shuffles = caps->subgroup_ops && !caps->matrix_emulated;
    s.quads = caps->matrix_quads && s.lanes == 32;
    s.weights_over_scores = !s.quads && caps->shared_most_bytes != 0; /* others do not lay arrays over each other */
    s.d16 = up16(c->d), s.c16 = up16(c->c);
    s.others = c->hides == GALE__HIDES_OTHERS;
    gale__cpu_view numbers = c->hide;
    numbers.row = 0; /* along which they are loaded one by one */
    s.others_wide = s.others && lies_in(&numbers, c->n, 4);
    s.masked = c->masked, s.hides = c->hides != 0, s.hidden = c->hidden, s.causal = c->causal, s.blind = c->blind;
    for (int i = 0; i < 3; i++) s.load[i] = load_for(view_of(a, i), i == GALE__ATTENTION_V ? c->c : c->d);
    s.mask_wide = s.masked && lies_in(&c->mask, c->n, 4);
    s.powers = !s.masked; /* the least floats, as masks hold, must stay finite */
    s.late = !s.masked && !s.hides && c->scale > 0;
    s.wide_result = c->c % 8 == 0;
    s.levels = (gale_type)a->levels, s.factors = a->factors, s.joins = caps->corners, s.joined = a->beside > 0;
    if (s.levels && (!s.quads || !s.wide_result || s.c16 > 2 * s.d16)) return false;
    find_axes(a, &s);
    if (!choose_sizes(a, caps, &s) || !loops_end(a, caps, &s) || s.heads * s.blocks > INT32_MAX / 2) return false;
    *out = s;
    return true;
}

bool gale__attention_fits(const gale__attention *a, const gale_device_caps *caps)
{
    gale__attention_shape s;
    return gale__attention_shape_for(a, caps, &s);
}

/* --- The launch. --- */

static uint32_t bits_of(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* A finite number stays finite. */
static double of_two(const gale__attention_shape *s, double v)
{
    if (!s->powers) return v;
    return isfinite(v) ? fmax(fmin(v * M_LOG2E, FLT_MAX), -FLT_MAX) : v;
}

static void set_words(const gale__attention *a, const gale__attention_shape *s, uint32_t *words)
{
    const gale__cpu_attention *c = &a->a;
    const uint32_t first[] = {(uint32_t)c->m, (uint32_t)c->n, (uint32_t)c->d, (uint32_t)c->c,
        bits_of(of_two(s, c->scale)), bits_of(of_two(s, c->fill)), (uint32_t)c->seen, (uint32_t)(s->blocks * s->heads),
        bits_of(a->levels ? 1 / a->step : 0), bits_of(a->zero)};
    memcpy(words, first, sizeof first);
    gale__schedule_divisor(s->blocks, words + GALE__AW_BLOCKS);
    gale__schedule_divisor(a->beside ? a->beside : 1, words + GALE__AW_BESIDE);
    for (uint32_t i = 0; i < s->axes; i++) gale__schedule_divisor(s->extent[i], words + GALE__AW_EXTENT + 3 * i);
    for (int v = 0; v < GALE__ATTENTION_VIEWS; v++) {
        const gale__cpu_view *view = view_of(a, v);
        uint32_t *w = words + GALE__AW_VIEWS + v * GALE__AW_VIEW;
        if (!has_view(a, v)) continue;
        w[0] = (uint32_t)view->offset;
        for (uint32_t i = 0; i < s->axes; i++) w[1 + i] = (uint32_t)s->stride[v][i];
        w[1 + GALE__CPU_LEAD] = (uint32_t)view->row;
        w[2 + GALE__CPU_LEAD] = (uint32_t)view->column;
    }
}

static void set_key(const gale__attention_shape *s, char key[64])
{
    static const char *const names[GALE_TYPE_COUNT] = {[GALE_F16] = "f16", [GALE_BF16] = "bf16", [GALE_F32] = "f32"};
    snprintf(key, 64, "gale_attend_%s%s_%u_%ux%u_%u%u_%u_%u_%u_%u%u%u_%s%u_%u%u%u%u%u%u%u%u%u_%u%s%s%s%s%s",
        names[s->type], s->quads ? "q" : "", s->lanes, s->warps, s->n16, s->full8, s->some8, s->d16, s->c16, s->stages,
        s->load[0], s->load[1], s->load[2], s->masked ? names[s->mask_type] : "", s->mask_wide, s->hides, s->hidden,
        s->causal, s->online, s->wide_result, s->shuffles, s->weights_over_scores, s->whole, s->blind, s->axes,
        s->levels == GALE_U8   ? "u"
        : s->levels == GALE_I8 ? "i"
                               : "",
        s->factors ? "f" : "", s->late ? "l" : "", s->joined ? "j" : "",
        s->others_wide ? "w"
        : s->others    ? "o"
                       : "");
}

static bool describe(const void *args, const gale_device_caps *caps, int i, gale__routine_launch *out)
{
    const gale__attention *a = args;
    gale__attention_shape s;
    if (i || !gale__attention_shape_for(a, caps, &s)) return false;
    int64_t groups = s.blocks * s.heads, y = up(groups, 65535);
    *out = (gale__routine_launch){.groups = {up(groups, y), (uint32_t)y, 1}, .n_words = GALE__AW_COUNT};
    out->n_refs = 4 + s.masked + s.hides + s.factors;
    for (int b = 0; b < out->n_refs; b++) out->refs[b] = (int8_t)b;
    set_words(a, &s, out->words);
    set_key(&s, out->key);
    out->unit =
        gale__schedule_describe(&(gale__schedule){.kind = GALE__SCHEDULE_MATRIX, .narrow = (uint8_t)s.type}, caps);
    return true;
}

static void build(const void *args, const gale_device_caps *caps, int i, gale__ir *ir)
{
    gale__attention_shape s;
    (void)i;
    if (gale__attention_shape_for(args, caps, &s)) gale__attention_build(&s, ir);
}

const gale__kernel_routine gale__attention_kernels = {describe, build};
