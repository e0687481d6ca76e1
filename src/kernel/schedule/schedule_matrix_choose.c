/* Which contractions use the matrix units, and with which tiles.  Operands must be f16 or bf16, both the same: then a
 * product is exact in f32, and the sum differs from other schedules only in the order of its terms.  Or they are bytes,
 * of either sign, whose sums are whole numbers and the same in any order; or f32, on devices where cutting them into
 * bf16 pays. */
#include "kernel/ir/ir_util.h"
#include "kernel/print/print.h"
#include "kernel/schedule/schedule_emit.h"
#include <math.h>

#define LEAST_K 16
#define LEAST_RESULTS 1024
#define LEAST_SIDE 2
#define LARGE_OPERAND (4 << 20) /* elements: reading it takes longer than anything done with it */
#define FAR_K 2048

int gale__schedule_matrix_core(const gale__nest *nest, int operand)
{
    for (;; operand = nest->code[operand].a) {
        const gale__nest_instr *in = &nest->code[operand];
        bool whole = in->type == GALE_I32 && in->op == GALE__CAST && gale__ir_is_byte(nest->code[in->a].type);
        if (in->op != GALE__CAST || (in->type != GALE_F32 && !whole)) return operand;
    }
}

int gale__schedule_matrix_access(const gale__nest *nest, int operand)
{
    const gale__nest_instr *in = &nest->code[gale__schedule_matrix_core(nest, operand)];
    return in->op == GALE__NEST_LOAD && in->inner ? in->access : -1;
}

int gale__schedule_matrix_vector_dim(const gale__nest *nest, const gale__schedule *s, const gale__contraction *c)
{
    int last = -1;
    for (int d = 0; d < nest->n_outer; d++)
        if (c->kind[d] == (uint8_t)gale__schedule_tile_kind(s, 1)) last = d;
    return last;
}

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* What both operands are, GALE_I8 for bytes of either sign; GALE_BOOL: nothing that matrix units multiply. */
static gale_type operand_type(const gale__nest *nest, const gale__contraction *c)
{
    gale_type a = (gale_type)nest->code[gale__schedule_matrix_core(nest, c->a)].type,
              b = (gale_type)nest->code[gale__schedule_matrix_core(nest, c->b)].type;
    if (gale__ir_is_byte(a) && gale__ir_is_byte(b)) return GALE_I8;
    return a == b && (a == GALE_F16 || a == GALE_BF16 || a == GALE_F32) ? a : GALE_BOOL;
}

/* Sums and products have the type that matrix units give. */
static bool sums_fit(const gale__nest *nest, const gale__contraction *c, gale_type narrow)
{
    gale_type sum = narrow == GALE_I8 ? GALE_I32 : GALE_F32;
    return gale__emit_acc_type(nest, c->reduce) == sum && gale__compute_type((gale_type)nest->code[c->mul].type) == sum;
}

/* Where an operand is a plain load of whole groups of 16 bytes, or of 8, it need not pass through registers.  Bytes
 * must run along k in work-group memory, are copied by fours, too, and padding of theirs may be any number. */
static void choose_copies(const gale__nest *nest, const gale__contraction *c, gale__schedule *s, int which)
{
    gale__schedule_choose_operand(nest, c, s, which);
    int access = gale__schedule_matrix_access(nest, gale__schedule_tile_operand(s, c, which)),
        dim = gale__schedule_tile_vector_dim(nest, s, c, which);
    bool bytes = gale__schedule_matrix_bytes(s);
    if (access < 0 || dim < 0 || (bytes && !s->fast[which])) return;
    const gale__nest_access *a = &nest->accesses[access];
    if (!bytes && (a->type != s->narrow || s->narrow == GALE_F32 || (a->n_guards && a->fill))) return;
    for (int unit = (int)gale__schedule_matrix_unit(s), least = 4; unit >= least; unit /= 2) {
        if (nest->extent[dim] % unit || gale__schedule_access_width(nest, a, dim, unit) != unit) continue;
        s->wide[which] = (uint8_t)unit;
        s->async |= (uint8_t)(1 << which);
        return;
    }
}

uint32_t gale__schedule_matrix_copiers(const gale__schedule *s)
{
    if (s->relay) return GALE__RELAY_SET * (gale__schedule_matrix_shares(s) > 1 ? 2 : 1);
    uint32_t group[3];
    gale__schedule_group(s, group);
    return group[0];
}

void gale__schedule_matrix_shared(const gale__schedule *s, uint32_t *parts, uint32_t *results)
{
    uint32_t part = 0;
    for (int w = 0; w < (s->keep ? 1 : 2); w++) {
        uint32_t size = w ? s->tile_n : s->tile_m;
        uint32_t pad = s->groups ? 0 : gale__schedule_matrix_unit(s); /* so that eight rows lie in different banks */
        part += gale__schedule_matrix_along_k(s, w) ? size * (s->tile_k + pad) : s->tile_k * (size + pad);
    }
    part = part * gale__schedule_matrix_shares(s) * s->stages + (uint32_t)s->keep * s->tile_n * s->tile_k;
    *parts = part * (16 / gale__schedule_matrix_unit(s));
    uint32_t subgroups = (uint32_t)(s->tile_m / s->micro_m) * (s->tile_n / s->micro_n);
    *results = s->rows * s->tile_m * (s->tile_n + GALE__MATRIX_RESULT_PAD) * 4;
    if (!gale__schedule_sums_meet(s))
        *results =
            s->direct ? 0 : subgroups * s->slice * (s->micro_n + GALE__MATRIX_RESULT_PAD) * 4 * (s->relay ? 2 : 1);
}

#define SHORT_K 256

/* A subgroup computes up to 64 x 64: loads from work-group memory then cost less than the products (4096 cubed in f16
 * on an H200: 329 TFLOP/s, and 298 with 64 x 32).  Where k is short, what comes after the sum costs more than the
 * products, and more subgroups share it.  A tile of 32 columns is not divided along them. */
static void divide_tile(const gale__contraction *c, gale__schedule *s, bool software)
{
    s->micro_m = (uint8_t)(s->tile_m >= 128 ? 64 : s->tile_m / 2);
    s->micro_n = (uint16_t)(s->tile_n >= 128 ? 64 : s->tile_n / 2);
    if (s->tile_m >= 128 && s->tile_n >= 128 && c->k <= SHORT_K) s->micro_n = 32;
    if (s->tile_m >= 128 && s->tile_n == 32) {
        s->micro_m = (uint8_t)(s->tile_m / 4);
        s->micro_n = 32;
    }
    if (software) s->micro_n = (uint16_t)s->tile_n; /* several matrices a subgroup, few threads */
    s->slice = 16;
}

static bool fits(const gale_device_caps *caps, const gale__schedule *s)
{
    uint32_t parts, results, group[3], most = gale__caps_matrix_bytes(caps);
    gale__schedule_matrix_shared(s, &parts, &results);
    gale__schedule_group(s, group);
    if (group[0] > (caps->group_max ? caps->group_max : 256)) return false;
    /* Results reuse the memory of the parts, if the language can express it: SPIR-V for whole words. */
    bool over = caps->shared_most_bytes && (!caps->spirv || (s->wide[0] > 1 && s->wide[1] > 1));
    if (over) return (parts > results ? parts : results) <= most;
    return parts + results <= most;
}

/* The largest tile of at most 128, unless smaller ones leave much less of themselves empty. */
static int tile_for(int64_t n)
{
    if (n <= 32) return 32;
    if (n <= 96) return 64;
    return up(n, 128) * 128 * 7 > up(n, 64) * 64 * 8 ? 64 : 128;
}

/* How much of k is fetched at once, and how often ahead.  Tiles of 64 x 128 gain from fewer, longer steps (1024 cubed
 * in f16 on an H200: 152 TFLOP/s, and 137 with steps of 32), larger ones do not, and smaller ones where several groups
 * still fit a unit (3,136 x 256 x 64: 3.4 us, and 4.1).  What passes through registers does not, either (ResNet's first
 * layer, 200,704 x 64 x 147: 195 us, and 95 with steps of 32).  The smallest tiles wait for memory alone: they fetch
 * far ahead. */
#define SHARED_FOR_TWO (128 << 10)
static void longest_steps(const gale__contraction *c, const gale_device_caps *caps, const gale__schedule_want *want,
    gale__schedule *s, int64_t *ahead)
{
    int sides = s->tile_m + s->tile_n;
    bool bytes = gale__schedule_matrix_bytes(s), least = sides == 64, middle = sides == 192;
    bool small = s->async == 3 && sides <= 128 && caps->shared_most_bytes >= SHARED_FOR_TWO;
    bool longer = want ? want->how == GALE__HOW_LONG : (bytes || s->async) && (least || middle || small);
    s->tile_k = bytes ? 64 : 32;
    *ahead =
        s->async & GALE__ASYNC_HELD && !caps->matrix_emulated ? 2 : 4; /* the registers of a thread hold one stage */
    if (caps->software || c->k < 2 * s->tile_k || !longer) return;
    s->tile_k = bytes || (least && c->k >= FAR_K) ? 128 : 64;
    if (*ahead > 2) *ahead = least ? 8 : 3;
}

static bool choose_depth(
    const gale__contraction *c, const gale_device_caps *caps, const gale__schedule_want *want, gale__schedule *s)
{
    int64_t most;
    int least = gale__schedule_matrix_shares(s) > 1 ? 16 : 32;
    for (longest_steps(c, caps, want, s, &most); s->tile_k >= least; s->tile_k /= 2) {
        int64_t deep = up(c->k, s->tile_k) + 1;
        for (s->stages = (uint8_t)(deep < most ? deep : most); s->stages >= 2; s->stages--)
            if (fits(caps, s)) return true;
    }
    return false;
}

/* Copies that are held in registers leave room for two groups of 128 x 128, which cannot hide each other's waiting
 * unless k is long, and whose last round leaves units idle (Vulkan on an H200, 4,096 cubed: 503 us, and 677 in tiles of
 * 64 x 128; 589,824 x 128 x 32: 97 us, and 85). */
static bool fills_large(const gale__contraction *c, const gale__schedule *s, int64_t units)
{
    bool held = s->async & GALE__ASYNC_HELD;
    return !held || (c->k > SHORT_K && gale__schedule_tiles(c, s, 128, 128) >= 4 * units);
}

static bool choose_sizes(
    const gale__contraction *c, const gale_device_caps *caps, const gale__schedule_want *want, gale__schedule *s)
{
    int64_t m = s->swap ? c->n : c->m, n = s->swap ? c->m : c->n, units = caps->compute_units ? caps->compute_units : 1;
    int tm = tile_for(m), tn = tile_for(n);
    if (tn == 32 && c->b_count * up(m, 256) >= 4 * units && !(s->async & GALE__ASYNC_HELD)) tm = 256;
    if (caps->software) tm = tn = 32;
    /* Nearly a group for each unit is enough: larger tiles gain more than the last units. */
    while (!want && tm + tn > 64 && c->b_count * up(m, tm) * up(n, tn) < units * 7 / 8) {
        if (tm >= tn) tm /= 2;
        else tn /= 2;
    }
    if (!want && tm == 128 && tn == 128 && !fills_large(c, s, units)) tm = 64;
    if (want && caps->software && want->m + want->n > 96) return false; /* compilers take minutes */
    if (want) tm = want->m, tn = want->n;
    for (;;) {
        s->tile_m = (uint16_t)tm;
        s->tile_n = (uint16_t)tn;
        divide_tile(c, s, caps->software);
        if (choose_depth(c, caps, want, s)) return true;
        if (want || tm + tn <= 64) return false;
        if (tm >= tn) tm /= 2;
        else tn /= 2;
    }
}

bool gale__schedule_large_operand(int64_t m, int64_t n, int64_t k) { return (m > n ? m : n) * k >= LARGE_OPERAND; }

#define GROUPS_LEAST_K 128
#define MAPS_LEAST_K 48

bool gale__schedule_groups_pay(int64_t m, int64_t n, int64_t k, bool maps)
{
    return m >= 48 && n >= 48 && k >= (maps ? MAPS_LEAST_K : GROUPS_LEAST_K);
}

#define MOST_STAGES 12
#define RELAY_STAGES 4
#define RELAY_FAR_K 1024
#define TEAM_PERCENT 80 /* of the time that a set of its own takes for an element, in tiles of 128 x 256 */

/* Copies that pad with anything but 0 are partly stores, which no gate waits for. */
static bool pads(const gale__nest *nest, const gale__contraction *c, const gale__schedule *s)
{
    for (int w = 0; w < 2; w++) {
        int access = gale__schedule_matrix_access(nest, gale__schedule_tile_operand(s, c, w));
        if (nest->accesses[access].n_guards && nest->accesses[access].fill) return true;
    }
    return false;
}

#define KEEP_STAGES 6   /* of the rows' part alone */
#define KEEP_PERCENT 92 /* of the time of a tile whose columns are fetched again */
#define KEEP_ROUNDS 4   /* the first one takes as long */

/* Whether the columns' part of all steps may stay, for tiles of the same columns in each group; `pays`: and that takes
 * less time, although there may be fewer groups (in f16 on an H200: 81,920 x 1,536 x 384 147.6 us, and 167.7; 50,176 x
 * 384 x 96 16.0 us, and 20.2; 12,608 x 768 x 768, for which 128 groups have seven rounds, 29.2 us, and 26.9). */
static bool choose_keep(const gale__contraction *c, const gale_device_caps *caps, bool pays, gale__schedule *s)
{
    int64_t columns = up(s->swap ? c->m : c->n, s->tile_n), units = caps->compute_units, steps = up(c->k, s->tile_k);
    if (columns > units || steps > 64) return false;
    int64_t groups = units / columns * columns, tiles = gale__schedule_tiles(c, s, s->tile_m, s->tile_n),
            rounds = up(tiles, units);
    if (pays && (rounds < KEEP_ROUNDS || up(tiles, groups) * KEEP_PERCENT >= rounds * 100)) return false;
    gale__schedule t = *s;
    t.keep = (uint8_t)steps;
    t.relay = (uint16_t)groups;
    for (t.stages = KEEP_STAGES * s->stages / RELAY_STAGES; t.stages >= 3; t.stages--) {
        uint32_t parts, results;
        gale__schedule_matrix_shared(&t, &parts, &results);
        if (parts + results + 8 * GALE__RELAY_GATES(t.stages) > caps->shared_most_bytes) continue;
        *s = t;
        return true;
    }
    return false;
}

/* A group for each unit that computes one tile after another, where there are tiles enough for the stores of one to
 * be hidden behind the products of the next (81,920 x 1,152 x 384 in f16 on an H200: 148 us, and 189 us with a group
 * per tile; 4,096 x 1,536 x 384: 23 us, and 21). */
static void choose_relay(const gale__nest *nest, const gale__contraction *c, const gale_device_caps *caps,
    const gale__schedule_want *want, bool maps, gale__schedule *s)
{
    int64_t tiles = gale__schedule_tiles(c, s, s->tile_m, s->tile_n), units = caps->compute_units;
    bool many = maps || tiles >= 4 * units || (tiles > units && c->k >= RELAY_FAR_K);
    if (want) many = want->how >= GALE__HOW_RELAY;
    if (s->tile_m != 128 || (s->tile_n != 128 && !maps) || !units || units > UINT16_MAX || !many || s->index64) return;
    gale__schedule t = *s;
    t.relay = (uint16_t)units;
    t.micro_m = 32;
    t.stages = s->tile_k < 8 * gale__schedule_matrix_unit(s) ? 2 * RELAY_STAGES : RELAY_STAGES;
    int64_t wide = up(gale__schedule_tiles(c, s, 128, 256), units) * 2 * TEAM_PERCENT;
    bool team = want ? want->how == GALE__HOW_TEAM : c->k >= RELAY_FAR_K && wide < up(tiles, units) * 100;
    if (s->direct && team && s->tile_n == 128) {
        t.team = 1;
        t.micro_m = 16;
        t.micro_n = t.tile_n = 256;
    }
    uint32_t parts, results, gates = 8 * GALE__RELAY_GATES(t.stages);
    gale__schedule_matrix_shared(&t, &parts, &results);
    if (parts + results + gates > caps->shared_most_bytes || pads(nest, c, s)) return;
    if (maps && !t.team && (!want || want->how == GALE__HOW_KEEP)) choose_keep(c, caps, !want, &t);
    *s = t;
}

/* Of the dimension along which results are stored by vectors. */
static int64_t last_extent(const gale__nest *nest, const gale__contraction *c, const gale__schedule *s)
{
    int dim = gale__schedule_matrix_vector_dim(nest, s, c);
    return dim >= 0 ? nest->extent[dim] : 1;
}

/* Steps of 128 bytes; half of that for windows of bytes over 64 channels, of which a step has one pixel. */
static uint16_t group_step(const gale__schedule *s, bool half)
{
    return (uint16_t)((half ? 4 : 8) * gale__schedule_matrix_unit(s));
}

static gale__group_tile wanted_tile(const gale__schedule_want *want)
{
    bool lone = want->how >= GALE__HOW_DEEP && want->how < GALE__HOW_RELAY;
    return (gale__group_tile){.m = want->m,
        .n = want->how == GALE__HOW_TEAM ? want->n / 2 : want->n,
        .split = lone ? (uint8_t)(1 << (want->how - GALE__HOW_DEEP)) : 0};
}

/* Four subgroups at once, straight from work-group memory: both operands run along k.  Where each unit has one group,
 * all of its memory serves to fetch ahead, since nothing else hides how long a copy takes.  With half of the memory one
 * product that follows itself is faster, since the next one fetches its weights meanwhile (197 x 1,024 x 4,096 in f16
 * on an H200: 12.2 us, and 13.0); but in networks the next kernel then has two groups on some units and none on others
 * (FCN-ResNet-50, batch of 1: 0.465 ms, and 0.383; BERT-base, 384 tokens: 0.695 and 0.618). */
static bool choose_steps(const gale__nest *nest, const gale__contraction *c, const gale_device_caps *caps,
    const gale__schedule_want *want, bool half, gale__schedule *s)
{
    int64_t m = s->swap ? c->n : c->m, n = s->swap ? c->m : c->n, units = caps->compute_units ? caps->compute_units : 1;
    gale__schedule t = *s;
    t.groups = 1;
    t.direct = caps->matrix_quads && t.lanes == 32 && last_extent(nest, c, s) % 8 == 0;
    t.tile_k = group_step(&t, half);
    int maps = caps->matrix_maps ? gale__matrix_find_maps(nest, c, &t) : 0, longer = half ? 2 : 1;
    if (half && maps != GALE__MAPS_WINDOW) return false;
    if (want ? c->k < (maps ? MAPS_LEAST_K : GROUPS_LEAST_K) : !gale__schedule_groups_pay(m, n, c->k, maps))
        return false;
    bool splits = last_extent(nest, c, s) % 4 == 0;
    gale__group_tile tile = want ? wanted_tile(want) : gale__matrix_group_tile(c, s, units, maps, splits);
    if (tile.split > 1) {
        if (!splits || !gale__matrix_split_steps(&tile) || c->k < tile.split * t.tile_k) return false;
        t.direct = 0;
    }
    t.split = tile.split;
    t.tile_m = tile.m;
    t.micro_n = (uint16_t)(t.tile_n = tile.n);
    t.slice = t.micro_m = 16;
    int least = tile.m + tile.n < 128 ? 5 * longer : 4 * longer;
    int64_t ahead = tile.split ? up(up(c->k, t.tile_k), tile.split) : 0;
    if (ahead > MOST_STAGES) ahead = MOST_STAGES;
    for (t.stages = (uint8_t)(ahead > least ? ahead : least); t.stages >= 3; t.stages--) {
        uint32_t parts, results;
        gale__schedule_matrix_shared(&t, &parts, &results);
        bool room =
            tile.split ? parts + 8 * MOST_STAGES <= caps->shared_most_bytes && results <= parts : fits(caps, &t);
        if (parts <= caps->shared_bytes || !room) continue;
        if (tile.split < 2) choose_relay(nest, c, caps, want, maps, &t);
        if (t.relay) t.split = 0;
        if (t.relay || (!t.split && gale__schedule_tiles(c, s, tile.m, tile.n) >= units))
            t.maps = (uint8_t)maps; /* the first boxes come later than the first copies would */
        if (half && !t.maps) return false;
        *s = t;
        return !want || (!t.relay ? want->how < GALE__HOW_RELAY
                                  : want->how == (t.team      ? GALE__HOW_TEAM
                                                     : t.keep ? GALE__HOW_KEEP
                                                              : GALE__HOW_RELAY));
    }
    return false;
}

static bool choose_groups(const gale__nest *nest, const gale__contraction *c, const gale_device_caps *caps,
    const gale__schedule_want *want, gale__schedule *s)
{
    if (s->async != 3 || !s->fast[0] || !s->fast[1]) return false;
    if (s->wide[0] + s->wide[1] < 2u * gale__schedule_matrix_unit(s)) return false;
    gale__schedule t = *s;
    t.tile_k = group_step(s, false);
    bool half = gale__schedule_matrix_bytes(s) && caps->matrix_maps && !gale__matrix_find_maps(nest, c, &t);
    return (half && choose_steps(nest, c, caps, want, true, s)) || choose_steps(nest, c, caps, want, false, s);
}

#define SETS 8
#define SETS_K 256

/* Few results, each a long sum: eight subgroups take an eighth of every step along k, and a group has so few columns
 * that there are more groups to fetch them. */
static bool choose_sets(const gale__contraction *c, const gale_device_caps *caps, gale__schedule *s)
{
    int64_t m = s->swap ? c->n : c->m;
    gale__schedule t = *s;
    t.tile_m = t.micro_m = m <= 16 ? 16 : 32;
    t.tile_n = t.micro_n = 16;
    t.rows = SETS;
    t.slice = 16;
    if (s->async != 3 || s->narrow == GALE_I8 || s->lanes != 32 || c->k < SETS_K || !caps->shared_most_bytes)
        return false;
    if (gale__schedule_tiles(c, s, t.tile_m, t.tile_n) > caps->compute_units) return false;
    for (t.tile_k = c->k >= 768 ? 256 : 128; t.tile_k >= 16 * SETS; t.tile_k /= 2) {
        int64_t deep = up(c->k, t.tile_k) + 1;
        for (t.stages = (uint8_t)(deep < 12 ? deep : 12); t.stages >= 3; t.stages--) {
            uint32_t parts, results;
            gale__schedule_matrix_shared(&t, &parts, &results);
            if (parts > caps->shared_most_bytes || results > caps->shared_most_bytes) continue;
            t.unroll = t.stages == deep;
            *s = t;
            return true;
        }
    }
    return false;
}

#define SHARE_STEP 64 /* along k */

/* The same for f32 in three shares, 128 rows and so many columns: cycles of a step along k and of all that is not
 * (H200). */
#define SHARE_ROWS 128
static const struct share_tile {
    uint16_t n, step, rest;
} share_tiles[] = {{128, 4800, 9500}, {96, 4150, 9500}, {64, 3500, 8000}, {32, 2800, 8000}};

static const struct share_tile *choose_share_tile(
    const gale__contraction *c, const gale__schedule *s, const gale__schedule_want *want, int64_t units, double *cycles)
{
    const struct share_tile *best = NULL;
    *cycles = INFINITY;
    for (size_t i = 0; i < sizeof share_tiles / sizeof *share_tiles; i++) {
        const struct share_tile *t = &share_tiles[i];
        if (want && (want->how != GALE__HOW_GROUPS || want->m != SHARE_ROWS || want->n != t->n)) continue;
        int64_t rounds = up(gale__schedule_tiles(c, s, SHARE_ROWS, t->n), units);
        double time = (double)rounds * (double)(up(c->k, SHARE_STEP) * t->step + t->rest);
        if (time < *cycles) *cycles = time, best = t;
    }
    return best;
}

/* F32 in three shares: a relay whose sets compute as a team, since the sums of all steps take as many registers again.
 */
static bool choose_shares(const gale__nest *nest, const gale__contraction *c, const gale_device_caps *caps,
    const gale__schedule_want *want, gale__schedule *s)
{
    int64_t units = caps->compute_units ? caps->compute_units : 1;
    if (units > UINT16_MAX || !s->fast[0] || !s->fast[1] || s->wide[0] + s->wide[1] < 8) return false;
    if (last_extent(nest, c, s) % 8 || s->index64) return false;
    double cycles, plain = gale__schedule_tile_cycles(nest, c, caps, s);
    const struct share_tile *tile = choose_share_tile(c, s, want, units, &cycles);
    if (!tile || (!want && cycles >= plain)) return false;
    gale__schedule t = *s;
    t.groups = 1;
    t.tile_m = SHARE_ROWS;
    t.micro_n = (uint16_t)(t.tile_n = tile->n);
    t.tile_k = SHARE_STEP;
    t.slice = t.micro_m = 16;
    t.direct = t.team = 1;
    t.relay = (uint16_t)units;
    for (t.stages = RELAY_STAGES; t.stages >= 2; t.stages--) {
        uint32_t parts, results;
        gale__schedule_matrix_shared(&t, &parts, &results);
        if (parts + 8 * GALE__RELAY_GATES(t.stages) > caps->shared_most_bytes) continue;
        *s = t;
        return true;
    }
    return false;
}

/* Threads share a part evenly. */
static bool divides(const gale__schedule *s, int which)
{
    uint32_t copiers = gale__schedule_matrix_copiers(s), size = which ? s->tile_n : s->tile_m;
    uint32_t per = (s->fast[which] ? s->tile_k : size) / s->wide[which], others = s->fast[which] ? size : s->tile_k;
    if (!per || copiers % per) return false;
    uint32_t across = copiers / per;
    bool turns = gale__schedule_matrix_bytes(s) && !s->fast[which];
    if (turns && (others % (4 * across) || others / across * s->wide[which] > GALE__EMIT_LANES)) return false;
    return across <= others && others % across == 0 &&
           others / across <= (s->fast[which] ? GALE__EMIT_OUTER_BLOCKS : GALE__EMIT_INNER_BLOCKS);
}

/* Bytes whose neighbours are not known to be aligned take many loads: then less of k at once. */
static bool divide_parts(gale__schedule *s)
{
    if (divides(s, 0) && divides(s, 1)) return true;
    if (!gale__schedule_matrix_bytes(s) || s->groups) return false;
    for (; s->tile_k >= 32; s->tile_k /= 2)
        if (divides(s, 0) && divides(s, 1)) return true;
    return false;
}

/* Some drivers leave loops that are too long. */
static bool loops_end(const gale__contraction *c, const gale_device_caps *caps, const gale__schedule *s)
{
    int64_t sums = s->micro_m / 16 * (s->micro_n / 16);
    return !caps->loop_max || c->k * (sums + 1) + 4096 < caps->loop_max;
}

bool gale__schedule_matrix_columns(const gale__schedule *s)
{
    uint32_t per = s->micro_n / s->vector;
    return per <= s->lanes && s->lanes % per == 0 && s->slice % (s->lanes / per) == 0;
}

#define RESULTS_AT_ONCE 4

/* Rows that a thread finishes at once: all of them are read before the first is stored, so that they are waited for
 * together. */
static int choose_results(const gale_device_caps *caps, const gale__schedule *s)
{
    uint32_t most = caps->software ? 2 : s->relay ? 2 * RESULTS_AT_ONCE : RESULTS_AT_ONCE;
    if (!gale__schedule_matrix_columns(s)) return 1;
    while (most > 1 && s->slice / (s->lanes / (s->micro_n / s->vector)) % most) most /= 2;
    return (int)most;
}

static bool stores_bytes(const gale__nest *nest)
{
    for (int i = 0; i < nest->n_stores; i++)
        if (!gale__ir_is_byte(nest->accesses[nest->stores[i].access].type)) return false;
    return true;
}

bool gale__schedule_choose_matrix(
    const gale__nest *nest, const gale_device_caps *caps, const gale__schedule_want *want, gale__schedule *s)
{
    gale__contraction c;
    if (want && want->how < GALE__HOW_MATRIX) return false;
    if ((!caps->n_matrix && !caps->matrix_emulated) || !gale__nest_contraction(nest, &c)) return false;
    bool small = c.m < LEAST_SIDE || c.n < LEAST_SIDE || c.m * c.n < LEAST_RESULTS;
    if (small) small = !gale__schedule_large_operand(c.m, c.n, c.k);
    if (c.k < LEAST_K || (small && !nest->steady && !want)) return false;
    gale_type type = operand_type(nest, &c);
    bool shares = type == GALE_F32, native = !caps->matrix_emulated;
    if (type == GALE_BOOL || (shares && !caps->matrix_f32)) return false;
    if (shares && native && (!caps->matrix_quads || caps->subgroup != 32)) return false;
    if (!gale__caps_run_matrix(caps, shares ? GALE_BF16 : type) || !sums_fit(nest, &c, type)) return false;
    gale__schedule t = *s;
    t.kind = GALE__SCHEDULE_MATRIX;
    t.narrow = (uint8_t)type;
    t.lanes = (uint8_t)(caps->matrix_emulated ? 32 : caps->subgroup);
    t.swap = c.kind[nest->n_outer - 1] == 'M';
    for (int w = 0; w < 2; w++) choose_copies(nest, &c, &t, w);
    if (t.async && !gale__dialect_copies(caps->dialect)) t.async |= GALE__ASYNC_HELD;
    bool sought = !want || want->how >= GALE__HOW_GROUPS, able = caps->matrix_groups && native && !nest->steady;
    bool together = able && sought && (shares ? choose_shares : choose_groups)(nest, &c, caps, want, &t);
    if (want && sought && !together) return false;
    if (shares && !together && caps->matrix_groups && native) return false; /* TILE is as fast */
    if (!together && native && !shares && !want) together = !nest->steady && choose_sets(&c, caps, &t);
    if ((!together && !choose_sizes(&c, caps, want, &t)) || !divide_parts(&t) || !loops_end(&c, caps, &t)) return false;
    int64_t last = last_extent(nest, &c, &t);
    bool eight = t.direct || (t.async & GALE__ASYNC_HELD && last % 8 == 0);
    t.vector = (uint8_t)(eight ? 8 : last % 4 == 0 ? 4 : last % 2 == 0 ? 2 : 1);
    t.exact = c.k % t.tile_k == 0;
    int64_t m = t.swap ? c.n : c.m, n = t.swap ? c.m : c.n;
    bool rest = t.async == 3; /* what is past the end is not loaded: repeating the last row is slow where k is long */
    t.few = (uint8_t)((rest ? m % t.tile_m != 0 : m < t.tile_m) | (rest ? n % t.tile_n != 0 : n < t.tile_n) << 1);
    if (t.relay) t.few |= (uint8_t)((m % t.tile_m ? 0 : GALE__WHOLE_ROWS) | (n % t.tile_n ? 0 : GALE__WHOLE_COLUMNS));
    t.steps = (uint8_t)(t.direct      ? t.micro_m / 8
                        : t.split > 1 ? gale__matrix_split_steps(&(gale__group_tile){t.tile_m, t.tile_n, t.split})
                                      : choose_results(caps, &t));
    if (stores_bytes(nest) && t.direct && last % 16 == 0 && n % 64 == 0 && t.tile_n % 64 == 0) {
        t.vector = 16; /* rows of 64 bytes: memory takes a request for each row that four threads write */
        t.steps = 2;
    }
    if (t.rows > 1) {
        t.vector = (uint8_t)(last % 2 || t.tile_m == 16 ? 1 : 2);
        t.steps = (uint8_t)(t.tile_m * t.tile_n / t.vector / (SETS * t.lanes));
    }
    *s = t;
    return true;
}
