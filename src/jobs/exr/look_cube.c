/* Colours through tables: a 1D table between two entries, a 3D table between the four corners of a tetrahedron.  Where
 * the colours are values of their own, an entry is one word, so that a pixel takes four gathers: of three whole
 * numbers, which are multiplied and added together, if levels of 8 bits are wanted, else of three halves, which are
 * exact to a small part of such a level.  Devices that compute with halves in pairs do so for levels, too.  Otherwise
 * each is a gather over all channels of the result at once. */
#include "base/num.h"
#include "jobs/exr/look.h"
#include "onnx/wire/proto.h"
#include <math.h>
#include <string.h>

/* Bits of a sum of levels: of one colour; of its weights; of what is left of them after the point of a level.  Errors
 * of the last two add up to less than half a level in any table: 3 * 255 / 2^WEIGHT + 1 / 2^(PLACES + 1). */
enum { FIELD = 21, WEIGHT = 11, PLACES = FIELD - 8 - WEIGHT };
/* As sums of halves: weights are digits of halves between 1 and 2, and levels are taken from their middle, where halves
 * are finer.  The errors are 3 * 255 / 2^11 of weights, 1/32 of entries and 4/32 of sums: half a level in any table. */
enum { HALF_WEIGHT = 10, MIDDLE = 128, HALF_ONE = 0x3c00, HALF_TWO = 0x4000, HALF_MINUS_ONE = 0xbc00 };
enum { HALF_WHOLE = 0x6400 }; /* 1024, from where on halves are whole numbers: levels are their lowest bits */
#define INWARDS 1e-5          /* of the range: more than rounding, and much less than a level of 8 bits */

/* A place along an axis is the digits of a float between 2^k and 2^(k + 1): those before the point are the entry before
 * it, the others how far it is past that.  Steps from entry to entry fit below the latter, in one word. */
typedef struct grid {
    uint32_t row, plane, all; /* entries to the next along the second axis, the third, and all three */
    uint32_t top, point;      /* 2^k; digits after the point */
    uint32_t steps;           /* a mask for all of them */
    uint32_t entries;         /* in memory: after the last, as far as steps of any size could lead */
} grid;

static grid grid_of(const gale__cube *c)
{
    uint32_t n = (uint32_t)c->size;
    grid g = {.row = n, .plane = n * n, .all = 1 + n + n * n, .top = 1, .point = 23, .steps = 1};
    while (g.top < n - 1) g.top *= 2, g.point--;
    while (g.steps < g.plane) g.steps = 2 * g.steps + 1;
    g.entries = (n - 2) * g.all + 2 * g.steps + 1;
    return g;
}

static gale_value shifted(gale__maker *m, gale_value v, const char *direction, uint32_t by)
{
    const gale_attr attr = GALE_STRING_ATTR("direction", direction);
    return gale__make_op(m, "BitShift", (gale_value[]){v, gale__make_word(m, by)}, 2, &attr, 1);
}

static gale_value bits_as(gale__maker *m, gale_value v, gale_type type)
{
    const gale_attr to = GALE_INT("to", gale__onnx_type_number(type));
    return gale__make_op(m, "BitCast", &v, 1, &to, 1);
}

/* Of colours between 0 and 1 up to rounding: pulled inwards by a little they are known to be in the domain, and kernels
 * need not look.  Those that a 1D table made may be anywhere. */
void gale__look_cube_scale(const gale__cube *c, int channel, gale__look_sums sums, double *scale, double *more)
{
    double by = c->curve_size ? 0 : INWARDS, size = (double)(c->size - 1) / (c->high[channel] - c->low[channel]);
    double half = 0; /* weights are cut off: this rounds the first, and the last less */
    if (sums) half = 0.5 / (1 << (sums == GALE__LOOK_HALVES ? HALF_WEIGHT : WEIGHT));
    if (!c->size) return;
    *scale = size * (1 - 2 * by) - half, *more = (by - c->low[channel]) * size + (double)grid_of(c).top + half;
}

/* The bits of a place. */
static gale_value place(gale__maker *m, const gale__cube *c, const grid *g, gale_value v)
{
    double low = (double)g->top, high = (double)nextafterf((float)(low + (double)(c->size - 1)), 0);
    v = gale__make_op(m, "Clip", (gale_value[]){v, gale__make_number(m, low), gale__make_number(m, high)}, 3, NULL, 0);
    return bits_as(m, v, GALE_U32);
}

/* The entry before a place along all axes.  The limit is never met: it tells kernels that they need not look. */
static gale_value base_of(gale__maker *m, const gale__cube *c, const grid *g, const gale_value place[3])
{
    const uint32_t step[3] = {1, g->row, g->plane}, begin = (127 + 23 - g->point) << (23 - g->point);
    gale_value sum = gale__make_word(m, 0u - begin * g->all);
    for (int i = 0; i < 3; i++) {
        gale_value at = shifted(m, place[i], "RIGHT", g->point);
        sum = gale__make_2(m, "Add", sum, i ? gale__make_2(m, "Mul", at, gale__make_word(m, step[i])) : at);
    }
    return gale__make_2(m, "Min", sum, gale__make_word(m, (uint32_t)(c->size - 2) * g->all));
}

/* The corners of the tetrahedron around a place: from the entry before it along the axis of the largest part, then
 * along the next, then along the last.  Of equal parts any may be first: the corner between them has no weight. */
typedef struct corners {
    gale_value index[4], weight[4]; /* i32; f32, or u32 of which 2^WEIGHT are one, or half; [1, height, width] */
} corners;

static gale_value fma_halves(gale__maker *m, gale_value a, gale_value b, gale_value c)
{
    return gale__make_op(m, "FmaHalves", (gale_value[]){a, b, c}, 3, NULL, 0);
}

/* Of sorted parts, each between 0 and 1, or with one more: what the corners weigh. */
static void weigh(gale__maker *m, const gale_value sorted[3], gale__look_sums sums, gale_value weight[4])
{
    const bool halves = sums == GALE__LOOK_HALVES;
    gale_value one = sums ? gale__make_word(m, halves ? HALF_TWO : 1 << WEIGHT) : gale__make_number(m, 2), part[3];
    for (int i = 0; i < 3; i++) {
        part[i] = shifted(m, sorted[i], "RIGHT", halves ? 32 - HALF_WEIGHT : sums ? 32 - WEIGHT : 9);
        if (halves) part[i] = gale__make_2(m, "Add", part[i], gale__make_word(m, HALF_ONE));
        if (!sums) /* + 1 */
            part[i] = bits_as(m, gale__make_2(m, "BitwiseOr", part[i], gale__make_word(m, 127u << 23)), GALE_F32);
    }
    for (int i = 0; i < 3; i++) {
        gale_value before = i ? part[i - 1] : one;
        weight[i] = halves ? fma_halves(m, part[i], gale__make_word(m, HALF_MINUS_ONE), before)
                           : gale__make_2(m, "Sub", before, part[i]);
    }
    weight[3] = halves ? fma_halves(m, part[2], gale__make_word(m, HALF_ONE), gale__make_word(m, HALF_MINUS_ONE))
                : sums ? part[2]
                       : gale__make_affine(m, part[2], 1, -1);
}

/* Words of parts and steps are sorted: the step along the axis of the largest part lies below it. */
static void find_corners(
    gale__maker *m, const gale__cube *c, const grid *g, const gale_value place[3], gale__look_sums sums, corners *out)
{
    const uint32_t step[3] = {1, g->row, g->plane};
    gale_value w[3], base = base_of(m, c, g, place), mask = gale__make_word(m, g->steps);
    for (int i = 0; i < 3; i++) { /* a product, since GPUs have more instructions for those in flight than for shifts */
        gale_value part = sums == GALE__LOOK_HALVES
                              ? gale__make_2(m, "Mul", place[i], gale__make_word(m, 1u << (32 - g->point)))
                              : shifted(m, place[i], "LEFT", 32 - g->point);
        w[i] = gale__make_2(m, "Add", part, gale__make_word(m, step[i]));
    }
    gale_value high = gale__make_2(m, "Max", gale__make_2(m, "Max", w[0], w[1]), w[2]),
               low = gale__make_2(m, "Min", gale__make_2(m, "Min", w[0], w[1]), w[2]),
               sum = gale__make_2(m, "Add", gale__make_2(m, "Add", w[0], w[1]), w[2]);
    const gale_value sorted[3] = {high, gale__make_2(m, "Sub", gale__make_2(m, "Sub", sum, high), low), low};
    gale_value at[4] = {base};
    for (int i = 0; i < 2; i++)
        at[i + 1] = gale__make_2(m, "Add", at[i], gale__make_2(m, "BitwiseAnd", sorted[i], mask));
    at[3] = gale__make_2(m, "Add", base, gale__make_word(m, g->all));
    for (int i = 0; i < 4; i++) out->index[i] = gale__make_cast(m, at[i], GALE_I32);
    weigh(m, sorted, sums, out->weight);
}

/* The columns of all channels of the result. */
static gale_value stacked(
    gale__maker *m, const gale__cube *c, const grid *g, const gale_value place[3], const int *columns, int channels)
{
    const int64_t n = c->size * c->size * c->size, entries = 3 * (int64_t)g->entries, dims[3] = {channels, 1, 1};
    int32_t begin[4] = {0};
    corners k;
    float *values = gale__calloc((size_t)entries, sizeof *values);
    gale_value sum = GALE_NONE, column = GALE_NONE;
    if (!values) m->status = GALE_NO_MEMORY;
    for (int i = 0; i < 3 && values; i++)
        memcpy(values + i * (int64_t)g->entries, c->values + i * n, (size_t)n * sizeof *values);
    gale_value table = values ? gale__make_floats(m, 1, &entries, values) : GALE_NONE;
    gale__free(values);
    for (int i = 0; i < channels; i++) begin[i] = columns[i] * (int32_t)g->entries;
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_I32, 3, dims, begin, &column);
    find_corners(m, c, g, place, GALE__LOOK_FLOATS, &k);
    for (int i = 0; i < 4; i++) {
        gale_value entry = gale__make_2(m, "Gather", table, gale__make_2(m, "Add", k.index[i], column));
        gale_value part = gale__make_2(m, "Mul", entry, k.weight[i]);
        sum = i ? gale__make_2(m, "Add", sum, part) : part;
    }
    return sum;
}

/* Halves, red in the lowest 16 bits; or levels with PLACES, half a level more to round them, red in the highest bits;
 * or halves of levels less MIDDLE: red, blue, green. */
static uint64_t entry_of(float v, int64_t colour, gale__look_sums sums)
{
    if (sums == GALE__LOOK_WORDS)
        return (uint64_t)lrintf((v * 255 + 0.5f) * (1 << PLACES)) << (1 + FIELD * (2 - colour));
    if (sums == GALE__LOOK_HALVES) return (uint64_t)gale__f32_to_f16(v * 255 - MIDDLE) << 16 * (colour * 2 % 3);
    return (uint64_t)gale__f32_to_f16(v) << 16 * colour;
}

static gale_value word_table(gale__maker *m, const gale__cube *c, const grid *g, gale__look_sums sums)
{
    const int64_t n = c->size * c->size * c->size, entries = g->entries;
    uint64_t *words = gale__calloc((size_t)entries, sizeof *words);
    gale_value out = GALE_NONE;
    if (!words) m->status = GALE_NO_MEMORY;
    for (int64_t i = 0; words && i < 3 * n; i++) {
        float v = fminf(fmaxf(c->values[i], -65504), 65504);
        words[i % n] |= entry_of(v, i / n, sums);
    }
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_U64, 1, &entries, words, &out);
    gale__free(words);
    return out;
}

static gale_value upper(gale__maker *m, gale_value word)
{
    const gale_attr right = GALE_STRING_ATTR("direction", "RIGHT");
    const uint64_t by = 32;
    gale_value shift = GALE_NONE;
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_U64, 0, NULL, &by, &shift);
    return gale__make_cast(m, gale__make_op(m, "BitShift", (gale_value[]){word, shift}, 2, &right, 1), GALE_U32);
}

/* The colours of a word: red and green are its lower half. */
static void unpack(gale__maker *m, gale_value word, gale_value rgb[3])
{
    rgb[0] = gale__make_cast(m, word, GALE_U32), rgb[2] = upper(m, word);
    rgb[1] = shifted(m, rgb[0], "RIGHT", 16);
    for (int i = 0; i < 3; i++)
        rgb[i] = gale__make_cast(m, bits_as(m, gale__make_cast(m, rgb[i], GALE_U16), GALE_F16), GALE_F32);
}

static void separate(gale__maker *m, const gale__cube *c, const grid *g, const gale_value place[3], gale_value v[3])
{
    gale_value table = word_table(m, c, g, GALE__LOOK_FLOATS);
    corners k;
    find_corners(m, c, g, place, GALE__LOOK_FLOATS, &k);
    for (int corner = 0; corner < 4; corner++) {
        gale_value entry[3];
        unpack(m, gale__make_2(m, "Gather", table, k.index[corner]), entry);
        for (int i = 0; i < 3; i++) {
            gale_value part = gale__make_2(m, "Mul", entry[i], k.weight[corner]);
            v[i] = corner ? gale__make_2(m, "Add", v[i], part) : part;
        }
    }
}

/* The levels of all colours as one sum: a word of red, green and blue as bytes. */
static gale_value summed(gale__maker *m, const gale__cube *c, const grid *g, const gale_value place[3])
{
    gale_value table = word_table(m, c, g, GALE__LOOK_WORDS), sum = GALE_NONE;
    corners k;
    find_corners(m, c, g, place, GALE__LOOK_WORDS, &k);
    for (int i = 0; i < 4; i++) {
        gale_value part = gale__make_2(
            m, "Mul", gale__make_2(m, "Gather", table, k.index[i]), gale__make_cast(m, k.weight[i], GALE_U64));
        sum = i ? gale__make_2(m, "Add", sum, part) : part;
    }
    const gale_value high = upper(m, sum), red = shifted(m, high, "RIGHT", 24),
                     green = gale__make_2(m, "BitwiseAnd", shifted(m, high, "LEFT", 5), gale__make_word(m, 0xff00)),
                     blue = shifted(m, gale__make_cast(m, sum, GALE_U32), "LEFT", 2),
                     two = gale__make_2(m, "BitwiseOr", red, green);
    return gale__make_2(m, "BitwiseOr", two, gale__make_2(m, "BitwiseAnd", blue, gale__make_word(m, 0xff0000)));
}

/* The same as sums of halves.  Red and blue are where their bytes belong, and green one byte below. */
static gale_value paired(gale__maker *m, const gale__cube *c, const grid *g, const gale_value place[3])
{
    const uint32_t whole = HALF_WHOLE + MIDDLE, ones = HALF_WHOLE | HALF_WHOLE << 16;
    gale_value table = word_table(m, c, g, GALE__LOOK_HALVES), sum[2] = {gale__make_word(m, 0), gale__make_word(m, 0)};
    corners k;
    find_corners(m, c, g, place, GALE__LOOK_HALVES, &k);
    for (int i = 0; i < 4; i++) {
        gale_value entry = gale__make_2(m, "Gather", table, k.index[i]);
        sum[0] = fma_halves(m, gale__make_cast(m, entry, GALE_U32), k.weight[i], sum[0]);
        sum[1] = fma_halves(m, upper(m, entry), k.weight[i], sum[1]);
    }
    for (int i = 0; i < 2; i++)
        sum[i] = fma_halves(m, sum[i], gale__make_word(m, HALF_ONE), gale__make_word(m, whole | whole << 16));
    gale_value word = gale__make_2(m, "Add", sum[0], shifted(m, sum[1], "LEFT", 8));
    return gale__make_2(m, "Sub", word, gale__make_word(m, ones + (ones + MIDDLE * 65536) * 256));
}

static gale_value constants(gale__maker *m, const double *values, const int *columns, int n)
{
    float v[4] = {0};
    const int64_t dims[3] = {n, 1, 1};
    for (int i = 0; i < n; i++) v[i] = (float)values[columns[i]];
    return gale__make_floats(m, 3, dims, v);
}

/* Each channel through its own column of the 1D table, between two entries. */
static gale_value curved(gale__maker *m, const gale__cube *c, gale_value v, const int *columns, int n)
{
    const int64_t entries = 3 * c->curve_size;
    const double last = (double)(c->curve_size - 1);
    double scale[3], begin[3];
    for (int i = 0; i < 3; i++) scale[i] = last / (c->curve_high[i] - c->curve_low[i]), begin[i] = i * (last + 1);
    gale_value t = gale__make_2(m, "Sub", v, constants(m, c->curve_low, columns, n));
    t = gale__make_2(m, "Mul", t, constants(m, scale, columns, n));
    t = gale__make_op(m, "Clip", (gale_value[]){t, gale__make_number(m, 0), gale__make_number(m, last)}, 3, NULL, 0);
    gale_value at = gale__make_2(m, "Min", gale__make_1(m, "Floor", t), gale__make_number(m, last - 1));
    gale_value part = gale__make_2(m, "Sub", t, at), table = gale__make_floats(m, 1, &entries, c->curve);
    at = gale__make_2(m, "Add", at, constants(m, begin, columns, n));
    gale_value low = gale__make_2(m, "Gather", table, gale__make_cast(m, at, GALE_I32)),
               high = gale__make_2(m, "Gather", table, gale__make_cast(m, gale__make_affine(m, at, 1, 1), GALE_I32));
    return gale__make_2(m, "Add", low, gale__make_2(m, "Mul", part, gale__make_2(m, "Sub", high, low)));
}

void gale__look_cube(
    gale__maker *m, const gale__cube *c, gale_value *v, int n, int colours, int channels, gale__look_sums sums)
{
    int columns[4];
    gale_value a[3];
    for (int i = 0; i < channels; i++)
        columns[i] = channels < 3 ? 1 : i < 3 ? i : 0; /* grey takes the green column; alpha's lane is overwritten */
    for (int i = 0; c->curve_size && i < n; i++) v[i] = curved(m, c, v[i], columns + i, n == 3 ? 1 : channels);
    if (!c->size) return;
    const grid g = grid_of(c);
    for (int i = 0; i < 3; i++) {
        int from = colours == 3 ? i : 0;
        double scale = 1, more = 0;
        if (n == 1 || c->curve_size) gale__look_cube_scale(c, i, sums, &scale, &more);
        a[i] = n == 3 ? v[i] : gale__make_slice(m, v[0], 0, from, from + 1);
        a[i] = place(m, c, &g, gale__make_affine(m, a[i], scale, more));
    }
    if (n == 3 && sums) v[0] = sums == GALE__LOOK_HALVES ? paired(m, c, &g, a) : summed(m, c, &g, a);
    else if (n == 3) separate(m, c, &g, a, v);
    else v[0] = stacked(m, c, &g, a, columns, channels);
}
