/* How recurrent layers of few units are divided.  Where groups wait for each other through the device's memory, a step
 * takes as long as two trips there, whatever its size.  If one group holds all weights of a layer in its registers, it
 * needs no other; if a cluster of groups does, they send each other the state through their work-group memory.  Groups
 * or clusters share out the batch and do not wait for each other. */
#include "kernel/routines/cell_loop.h"

enum { CLUSTER = 8, MOST_THREADS = 512, MOST_ITEMS = 16, MOST_PRODUCTS = 4096, REGISTER_FILE = 1 << 16 };
/* Clock cycles.  NEVER: where a step in the other form takes less, by matrix units or without. */
enum { BY_BARRIER = 50, BY_CLUSTER = 400, A_SHUFFLE = 30, NEVER_NARROW = 2800, NEVER = 4500 };

static uint32_t less(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t up(uint64_t n, uint64_t by) { return (uint32_t)((n + by - 1) / by); }

/* Units that a thread finishes, of as many items. */
static uint32_t places_of(const gale__cell_close *c) { return c->items > c->slices ? c->items / c->slices : 1; }

/* The cycles of a step, roughly: four schedulers issue products, sums meet by shuffles, gates open, the state is sent.
 * A few more for each group, so that those that gain little are left to others. */
static uint32_t estimate(const gale__cpu_cell *a, const gale__cell_close *c)
{
    uint32_t gates = gale__cell_gates(a), warps = c->units * c->slices / GALE__LOOP_LANES, turns = up(warps, 4);
    uint32_t products = turns * c->items * c->chunks * 4 * gates, loads = warps * c->items * c->chunks * 2;
    uint32_t meeting = 0, items = c->items;
    for (uint32_t lanes = 1; lanes < c->slices; lanes *= 2) {
        if (items > 1) items /= 2;
        meeting += A_SHUFFLE + warps * items * gates;
    }
    uint32_t opening = 200 + turns * places_of(c) * gates * (a->type == GALE_F32 ? 60 : 30);
    uint32_t exchange = c->groups > 1 && !c->emulated ? BY_CLUSTER : BY_BARRIER;
    return (products > loads ? products : loads) + meeting + opening + exchange + c->clusters * c->groups;
}

static bool fits(const gale__cpu_cell *a, const gale_device_caps *caps, const gale__cell_close *c)
{
    uint32_t gates = gale__cell_gates(a), threads = c->units * c->slices, held = 4 * c->chunks * gates;
    uint32_t sums = c->items * gates, size = a->type == GALE_F32 ? 4 : 2, k = 4 * c->chunks * c->slices;
    if (threads > MOST_THREADS || threads % GALE__LOOP_LANES || held > GALE__CLOSE_HELD || sums > GALE__CLOSE_SUMS)
        return false;
    uint32_t registers = held + sums + places_of(c) * (2 * gates + 4) + 32;
    uint32_t most_registers = REGISTER_FILE / (128 * up(threads, 128)) / 8 * 8; /* as they are assigned to subgroups */
    if (registers > less(255, most_registers) || held * c->items > MOST_PRODUCTS) return false;
    uint64_t bytes = (uint64_t)gates * (k / 4) * (4 * c->units * size + 16) + 8ull * c->items * k + 64;
    uint32_t most = caps->shared_most_bytes > caps->shared_bytes ? caps->shared_most_bytes : caps->shared_bytes;
    if (c->emulated) bytes = c->groups * (bytes + 4ull * threads), threads *= c->groups;
    return bytes <= most && (!caps->group_max || threads <= caps->group_max) &&
           (uint64_t)c->clusters * c->groups <= caps->groups_together;
}

bool gale__cell_close_for(const gale__cpu_cell *a, const gale_device_caps *caps, gale__cell_close *out)
{
    bool emulated = !caps->matrix_groups && caps->matrix_emulated && caps->groups_together > 1;
    uint32_t per = a->type == GALE_F32 ? 4 : 8, least = a->type == GALE_F32 ? NEVER : NEVER_NARROW;
    gale__cell_close c = {.emulated = emulated};
    *out = (gale__cell_close){0};
    if ((!caps->matrix_groups || !caps->subgroup_ops) && !emulated) return false;
    for (c.groups = 1; c.groups <= CLUSTER && a->hidden % (per * c.groups) == 0; c.groups *= 2)
        for (c.slices = 1; c.slices <= GALE__LOOP_LANES; c.slices *= 2)
            for (c.items = 1; c.items <= MOST_ITEMS && c.items < 2 * a->batch; c.items *= 2) {
                c.units = (uint32_t)a->hidden / c.groups;
                c.clusters = up((uint64_t)a->batch, c.items);
                c.chunks = up((uint64_t)a->hidden, 4 * c.slices);
                c.pack = less(4, GALE__LOOP_LANES / c.slices);
                if (!fits(a, caps, &c) || estimate(a, &c) >= least) continue;
                least = estimate(a, &c);
                *out = c;
            }
    return out->groups != 0;
}
