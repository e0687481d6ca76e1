/* All steps of RNN, GRU and LSTM in one kernel, on devices whose groups can wait for each other.  A group keeps its
 * part of the weights in its own memory for the whole sequence; between steps groups hand each other the new state
 * through the device's memory, and only those that compute the same items wait for each other.  A launch a step would
 * read all weights again, and takes longer than the step. */
#include "kernel/routines/cell_loop.h"
#include "kernel/ir/ir_util.h"
#include "kernel/schedule/schedule.h"
#include <stdio.h>

enum { MATRIX = 16, LEAST_TRIPS = 3, HELD_REGISTERS = 128, MOST_ITEMS = 16, MOST_EACH = 8, STRETCH = 64 };

static uint32_t up(int64_t n, int64_t by) { return (uint32_t)((n + by - 1) / by); }
static uint32_t size_of(gale_type type) { return type == GALE_F32 ? 4 : 2; }

/* --- How the work is divided. --- */

static void divide_matrix(const gale__cpu_cell *a, gale__cell_loop *s)
{
    s->gate_warps = s->gates == 4 ? 2 : 1;
    s->k_warps = GALE__LOOP_WARPS / s->gate_warps;
    s->items = s->units = MATRIX;
    s->steps = up(a->hidden, MATRIX * s->k_warps);
    s->k = s->steps * s->k_warps * MATRIX;
    s->row = s->k + 8; /* rows begin in other banks */
    s->plane = s->k * s->units;
    s->parts = s->k_warps;
    s->pitch = s->gates * MATRIX + 8;
    s->held = s->steps * (s->gates / s->gate_warps) * 4 <= HELD_REGISTERS;
}

/* A thread computes a square of sums if there are enough items, so that each operand it reads is used four times. */
static void divide_plain(const gale__cpu_cell *a, const gale_device_caps *caps, uint32_t units, gale__cell_loop *s)
{
    s->units = units;
    s->items = 1;
    while (s->items < MOST_ITEMS && s->items < a->batch) s->items *= 2;
    s->each = s->items < MOST_EACH ? s->items : MOST_EACH;
    s->blocks = s->items / s->each;
    s->quads = units / 4;
    s->gate_parts = s->gates == 4 ? 2 : 1;
    s->tile_gates = s->gates / s->gate_parts;
    s->k = STRETCH * up(a->hidden, STRETCH);
    s->row = s->k + 8; /* neighbours in other banks, here and below */
    s->plane = s->k * units + 4;
    s->parts = GALE__LOOP_THREADS / gale__loop_side(s);
    for (uint32_t lanes = gale__loop_side(s); caps->subgroup_ops && lanes < GALE__LOOP_LANES; lanes *= 2)
        s->rounds++, s->parts /= 2;
    s->pitch = s->parts * gale__loop_side(s) + 8;
}

static uint32_t bytes_of(const gale__cell_loop *s)
{
    uint64_t kept = (uint64_t)s->gates * s->plane + (uint64_t)s->items * s->row;
    uint64_t parts = (uint64_t)s->pitch * (s->matrix ? s->parts * MATRIX : gale__loop_sums(s));
    uint64_t bytes = kept * size_of(s->type) + parts * 4 + 64;
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

static bool fits(const gale__cpu_cell *a, const gale_device_caps *caps, gale__cell_loop *s)
{
    s->unit_groups = up(a->hidden, s->units);
    s->item_groups = up(a->batch, (int64_t)s->items * s->tiles);
    uint32_t most = caps->shared_most_bytes > caps->shared_bytes ? caps->shared_most_bytes : caps->shared_bytes;
    return (uint64_t)s->unit_groups * s->item_groups <= caps->groups_together && bytes_of(s) <= most;
}

/* Divides the work among as many groups as can run at the same time. */
static bool choose(const gale__cpu_cell *a, const gale_device_caps *caps, gale__cell_loop *s)
{
    const gale__cell_loop empty = *s;
    for (uint32_t tiles = 1; tiles <= GALE__LOOP_TILES; tiles *= 2)
        for (uint32_t units = s->matrix ? MATRIX : 4; units <= MATRIX; units *= 2) {
            *s = empty;
            s->tiles = tiles;
            if (s->matrix) divide_matrix(a, s);
            else divide_plain(a, caps, units, s);
            if (fits(a, caps, s)) return true;
        }
    return false;
}

bool gale__cell_loop_for(const gale__cpu_cell *a, const gale_device_caps *caps, gale__cell_loop *out)
{
    const int64_t most = INT32_MAX / 2;
    gale__cell_loop s = {.type = (gale_type)a->type, .matrix = a->type != GALE_F32, .gates = gale__cell_gates(a)};
    int64_t step = a->batch * a->hidden, by = s.matrix ? 8 : 4;
    if (a->hidden % by || a->hidden < by || a->hidden > 1 << 14 || a->batch < 1 || a->batch > 1 << 20) return false;
    if (a->trips < LEAST_TRIPS || step > most / (a->trips + 2) || step > most / s.gates / a->trips) return false;
    if (caps->group_max && caps->group_max < GALE__LOOP_THREADS) return false;
    if (caps->loop_max && a->trips * 64 + a->hidden * 64 > caps->loop_max) return false;
    if (gale__cell_close_for(a, caps, &s.close)) {
        *out = s;
        return true;
    }
    if (s.matrix && !gale__caps_run_matrix(caps, s.type)) return false;
    if (s.matrix && caps->subgroup != GALE__LOOP_LANES && !caps->matrix_emulated) return false;
    if (!choose(a, caps, &s)) return false;
    *out = s;
    return true;
}

static uint32_t counter_words(const gale__cell_loop *s) { return s->item_groups * GALE__LOOP_COUNTER; }

bool gale__cell_loop_fits(const gale__cpu_cell *a, const gale_device_caps *caps, uint64_t *space_bytes)
{
    gale__cell_loop s;
    if (!gale__cell_loop_for(a, caps, &s)) return false;
    *space_bytes =
        s.close.groups ? 0 : 4ull * counter_words(&s) + 2ull * (uint64_t)(a->batch * a->hidden) * size_of(s.type);
    return true;
}

/* --- The launches: one to begin, one for all steps. --- */

static void set_words(const gale__cpu_cell *a, const gale__cell_loop *s, uint32_t *words)
{
    int64_t step = a->batch * a->hidden, first = a->reverse ? a->trips - 1 : 0, by = a->reverse ? -1 : 1;
    const int64_t values[GALE__LW_COUNT] = {a->batch, a->hidden, a->trips, first * step * s->gates,
        by * step * s->gates, first * step, by * step, first, by, a->trips * step,
        4 * (int64_t)counter_words(s) / size_of(s->type), counter_words(s)};
    for (int i = 0; i < GALE__LW_COUNT; i++) words[i] = (uint32_t)values[i];
}

static void set_refs(const gale__cpu_cell *a, gale__routine_launch *out)
{
    bool other = a->kind == GALE__CELL_LSTM || a->biased;
    int8_t lengths = a->timed ? (int8_t)(GALE__LOOP_OTHER + other) : GALE__LOOP_BEFORE;
    const int8_t refs[GALE__LOOP_BUFFERS] = {GALE__LOOP_RESULT, GALE__LOOP_X, GALE__LOOP_WEIGHTS, GALE__LOOP_BEFORE,
        other ? GALE__LOOP_OTHER : GALE__LOOP_BEFORE, lengths, GALE__ROUTINE_SPACE};
    out->n_refs = GALE__LOOP_BUFFERS;
    for (int i = 0; i < GALE__LOOP_BUFFERS; i++) out->refs[i] = refs[i];
}

static const char *const type_names[GALE_TYPE_COUNT] = {[GALE_F16] = "f16", [GALE_BF16] = "bf16", [GALE_F32] = "f32"};

static void describe_close(const gale__cpu_cell *a, const gale__cell_loop *s, gale__routine_launch *out)
{
    const gale__cell_close *c = &s->close;
    out->n_refs = GALE__LOOP_SPACE; /* it needs none */
    out->groups[0] = c->clusters * (c->emulated ? 1 : c->groups);
    snprintf(out->key, sizeof out->key, "gale_cell_close_%d%d%d_%s_%u_%u_%u_%u%s", (int)a->kind, a->biased != 0,
        a->timed != 0, type_names[s->type], (unsigned)a->hidden, c->groups, c->items, c->slices,
        c->emulated ? "_emulated" : "");
}

static bool describe(const void *args, const gale_device_caps *caps, int i, gale__routine_launch *out)
{
    const gale__cpu_cell *a = args;
    gale__cell_loop s;
    if (i > 1 || !gale__cell_loop_for(a, caps, &s) || (i && s.close.groups)) return false;
    *out = (gale__routine_launch){.groups = {1, 1, 1}, .n_words = GALE__LW_COUNT};
    set_words(a, &s, out->words);
    set_refs(a, out);
    if (s.close.groups) {
        describe_close(a, &s, out);
        return true;
    }
    if (i == 0) {
        int64_t elements = a->batch * a->hidden, counters = counter_words(&s);
        out->groups[0] = up(elements > counters ? elements : counters, GALE__LOOP_THREADS);
        snprintf(out->key, sizeof out->key, "gale_cell_begin_%s", type_names[s.type]);
        return true;
    }
    out->groups[0] = s.unit_groups, out->groups[1] = s.item_groups;
    snprintf(out->key, sizeof out->key, "gale_cell_loop_%d%d%d_%s_%u_%u_%u_%u_%u_%u", (int)a->kind, a->biased != 0,
        a->timed != 0, type_names[s.type], s.units, s.items, s.tiles, s.k, s.rounds, caps->matrix_emulated);
    if (s.matrix)
        out->unit =
            gale__schedule_describe(&(gale__schedule){.kind = GALE__SCHEDULE_MATRIX, .narrow = (uint8_t)s.type}, caps);
    return true;
}

static void build(const void *args, const gale_device_caps *caps, int i, gale__ir *ir)
{
    gale__cell_loop s;
    if (!gale__cell_loop_for(args, caps, &s)) return;
    if (s.close.groups) gale__cell_close_build(args, &s, ir);
    else if (i == 0) gale__cell_loop_prepare(args, &s, ir);
    else gale__cell_loop_build(args, &s, ir);
}

const gale__kernel_routine gale__cell_loop_kernels = {.describe = describe, .build = build};
