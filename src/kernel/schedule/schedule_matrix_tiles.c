/* MATRIX, groups: which tiles, and how many groups share the k of each.  A product with many tiles takes the tile whose
 * rounds over all units are the fastest.  One with few is bound by how long operands are on their way: then smaller
 * tiles, or groups that share k, use more units. */
#include "kernel/schedule/schedule_matrix.h"

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* Tiles of four subgroups, and how much longer an element takes than in the largest: they load more for each product
 * (percent; 3152 x 768 x 3072 and like sizes in f16 on an H200). */
static const struct group_tile {
    uint16_t m, n, percent, maps; /* maps: by groups that fetch maps and compute one tile after another; 0: none do */
} group_tiles[] = {{128, 128, 100, 83}, {128, 96, 112, 91}, {128, 64, 140, 105}, {64, 128, 139, 0}, {64, 96, 145, 0},
    {64, 64, 170, 0}};

#define SHORT_BYTES_PERCENT 80 /* a single step of bytes along k, which three sets finish */

/* The tile whose rounds over all units take the least time. */
static const struct group_tile *choose_rounds(
    const gale__contraction *c, const gale__schedule *s, int64_t units, bool maps)
{
    const struct group_tile *best = NULL;
    int64_t least = INT64_MAX;
    bool short_bytes = maps && gale__schedule_matrix_bytes(s) && c->k <= 8 * gale__schedule_matrix_unit(s) &&
                       gale__schedule_tiles(c, s, 128, 64) >= 4 * units;
    for (size_t i = 0; i < sizeof group_tiles / sizeof *group_tiles; i++) {
        const struct group_tile *t = &group_tiles[i];
        int64_t percent = maps && t->maps ? t->maps : t->percent;
        if (short_bytes && t->m == 128 && t->n == 64) percent = SHORT_BYTES_PERCENT;
        int64_t time = up(gale__schedule_tiles(c, s, t->m, t->n), units) * t->m * t->n * percent;
        if (time < least) least = time, best = t;
    }
    return best;
}

/* Where there is at most one group for each unit: tiles, and how long a step of 128 bytes along k takes them.  Times
 * are in units of 10 ns, of f16 on an H200, for 50 to 577 rows, 256 to 3,072 columns and k of 384 to 4,608, whose
 * weights come from memory; estimates are 6 % off (root mean square of 412 times).  The best of all schedules that were
 * timed takes 2.7 % less time than those that the estimates choose.  The last two tiles were timed in networks alone.
 */
static const struct lone_tile {
    uint16_t m, n, step;
} lone_tiles[] = {
    {64, 32, 15}, {64, 64, 20}, {64, 96, 25}, {64, 128, 32}, {128, 64, 34}, {128, 96, 42}, {128, 128, 52}};
#define LONE_REST 352  /* all that is not a step */
#define LONE_TRAFFIC 6 /* more for each step where all units have a group */
#define SPLIT_MEET 128 /* groups that share k add their sums up, */
#define SPLIT_EACH 5   /* each of them */
#define SPLIT_MOST 8   /* groups that every device lets work together */
#define RELAY_REST 384
#define RELAY_BEHIND 41 /* what a tile takes less than its steps, since its results are stored later */
#define RELAY_TRAFFIC 7

/* The same for groups that compute one tile after another, with maps; in each of these tiles. */
static int64_t relay_time(const gale__contraction *c, const gale__schedule *s, int tile_n, int64_t steps, int64_t units)
{
    int64_t tiles = gale__schedule_tiles(c, s, 128, tile_n), groups = tiles < units ? tiles : units;
    int64_t step = (tile_n == 64 ? 26 : tile_n == 96 ? 29 : 32) + RELAY_TRAFFIC * groups / units;
    return RELAY_REST + up(tiles, units) * (steps * step - RELAY_BEHIND);
}

int gale__matrix_split_steps(const gale__group_tile *t)
{
    return t->n % (8 * t->split) || 8 * t->m % t->n ? 0 : t->n / (8 * t->split);
}

static int64_t lone_time(const struct lone_tile *t, int split, int64_t steps, int64_t groups, int64_t units)
{
    int64_t meet = split > 1 ? SPLIT_MEET : 0;
    return LONE_REST + SPLIT_EACH * split + meet + up(steps, split) * (t->step * units + LONE_TRAFFIC * groups) / units;
}

gale__group_tile gale__matrix_group_tile(
    const gale__contraction *c, const gale__schedule *s, int64_t units, bool maps, bool splits)
{
    const struct group_tile *rounds = choose_rounds(c, s, units, maps);
    gale__group_tile best = {rounds->m, rounds->n, 0};
    bool relay = rounds->m == 128 && rounds->maps && maps;
    int64_t steps = up(c->k, 8 * gale__schedule_matrix_unit(s)),
            least = relay ? relay_time(c, s, rounds->n, steps, units) : INT64_MAX;
    for (size_t i = 0; i < sizeof lone_tiles / sizeof *lone_tiles; i++) {
        const struct lone_tile *t = &lone_tiles[i];
        for (uint8_t split = 1; split <= (splits ? SPLIT_MOST : 1); split *= 2) {
            gale__group_tile tile = {t->m, t->n, split};
            /* Clusters of four lie within 16 or 18 neighbouring units, of which some stay idle. */
            int64_t groups = gale__schedule_tiles(c, s, t->m, t->n) * split, most = units * (split > 2 ? 7 : 8) / 8,
                    time = lone_time(t, split, steps, groups, units);
            if (groups > most || time >= least) continue;
            if (split > 1 && (steps < 2 * split || !gale__matrix_split_steps(&tile))) continue;
            least = time;
            best = tile;
        }
    }
    return best;
}
