/* Colours through tables: a 1D table between two entries, a 3D table between the four corners of a tetrahedron.  Where
 * the colours are values of their own, an entry is one word of three halves, which are exact to a small part of an
 * 8-bit level: four gathers a pixel.  Else each is a gather over all channels of the result at once. */
#include "base/num.h"
#include "jobs/exr/look.h"
#include "onnx/wire/proto.h"
#include <math.h>

/* Where a colour is along an axis: the entry before it, and how far past that. */
typedef struct axis {
    gale_value at, part; /* f32, [1, height, width] */
} axis;

#define INWARDS 1e-5 /* of the range: more than rounding, and much less than a level of 8 bits */

/* Colours are between 0 and 1 up to rounding, unless a 1D table made them: pulled inwards by a little they are known to
 * be in the domain, and kernels need not look. */
static axis place(gale__maker *m, const gale__cube *c, gale_value v, int channel)
{
    double scale = (double)(c->size - 1) / (c->high[channel] - c->low[channel]), by = c->curve_size ? 0 : INWARDS;
    gale_value zero = gale__make_number(m, 0), last = gale__make_number(m, (double)(c->size - 1)),
               t = gale__make_affine(m, v, scale * (1 - 2 * by), (by - c->low[channel]) * scale);
    t = gale__make_op(m, "Clip", (gale_value[]){t, zero, last}, 3, NULL, 0);
    gale_value at = gale__make_op(m, "Clip",
        (gale_value[]){gale__make_1(m, "Floor", t), zero, gale__make_number(m, (double)(c->size - 2))}, 3, NULL, 0);
    return (axis){at, gale__make_2(m, "Sub", t, at)};
}

/* The entry before a place along all axes. */
static gale_value base_of(gale__maker *m, const gale__cube *c, const axis a[3])
{
    double size = (double)c->size;
    gale_value rows = gale__make_2(m, "Add", a[1].at, gale__make_affine(m, a[2].at, size, 0));
    return gale__make_cast(m, gale__make_2(m, "Add", a[0].at, gale__make_affine(m, rows, size, 0)), GALE_I32);
}

/* The corners of the tetrahedron around a place: from the entry before it along the axis of the largest part, then
 * along the next, then along the last.  Of equal parts any may be first: the corner between them has no weight. */
typedef struct corners {
    gale_value index[4], weight[4];
} corners;

static gale_value step(gale__maker *m, int64_t v)
{
    const int32_t narrow = (int32_t)v;
    gale_value out = GALE_NONE;
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_I32, 0, NULL, &narrow, &out);
    return out;
}

static void find_indices(gale__maker *m, const gale__cube *c, const axis a[3], corners *out)
{
    const int64_t row = c->size, plane = row * row, all = 1 + row + plane;
    gale_value rg = gale__make_2(m, "Less", a[0].part, a[1].part), rb = gale__make_2(m, "Less", a[0].part, a[2].part),
               gb = gale__make_2(m, "Less", a[1].part, a[2].part);
    gale_value first = gale__make_select(m, rg, gale__make_select(m, gb, step(m, plane), step(m, row)),
                   gale__make_select(m, rb, step(m, plane), step(m, 1))),
               second = gale__make_select(m, rg, gale__make_select(m, rb, step(m, all - 1), step(m, all - plane)),
                   gale__make_select(m, gb, step(m, all - row), step(m, all - plane)));
    out->index[0] = base_of(m, c, a);
    out->index[1] = gale__make_2(m, "Add", out->index[0], first);
    out->index[2] = gale__make_2(m, "Add", out->index[0], second);
    out->index[3] = gale__make_2(m, "Add", out->index[0], step(m, all));
}

static void find_corners(gale__maker *m, const gale__cube *c, const axis a[3], corners *out)
{
    gale_value r = a[0].part, g = a[1].part, b = a[2].part, low = gale__make_2(m, "Min", r, g),
               high = gale__make_2(m, "Max", r, g), most = gale__make_2(m, "Max", high, b),
               least = gale__make_2(m, "Min", low, b),
               middle = gale__make_2(m, "Max", low, gale__make_2(m, "Min", high, b));
    find_indices(m, c, a, out);
    out->weight[0] = gale__make_affine(m, most, -1, 1);
    out->weight[1] = gale__make_2(m, "Sub", most, middle);
    out->weight[2] = gale__make_2(m, "Sub", middle, least);
    out->weight[3] = least;
}

/* The columns of all channels of the result. */
static gale_value stacked(gale__maker *m, const gale__cube *c, const axis a[3], const int *columns, int channels)
{
    const int64_t n = c->size * c->size * c->size, entries = 3 * n, dims[3] = {channels, 1, 1};
    int32_t begin[4] = {0};
    corners k;
    gale_value table = gale__make_floats(m, 1, &entries, c->values), sum = GALE_NONE, column = GALE_NONE;
    for (int i = 0; i < channels; i++) begin[i] = (int32_t)(columns[i] * n);
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_I32, 3, dims, begin, &column);
    find_corners(m, c, a, &k);
    for (int i = 0; i < 4; i++) {
        gale_value entry = gale__make_2(m, "Gather", table, gale__make_2(m, "Add", k.index[i], column));
        gale_value part = gale__make_2(m, "Mul", entry, k.weight[i]);
        sum = i ? gale__make_2(m, "Add", sum, part) : part;
    }
    return sum;
}

/* Red in the lowest 16 bits, then green and blue. */
static gale_value word_table(gale__maker *m, const gale__cube *c)
{
    const int64_t n = c->size * c->size * c->size;
    uint64_t *words = gale__calloc((size_t)n, sizeof *words);
    gale_value out = GALE_NONE;
    if (!words) m->status = GALE_NO_MEMORY;
    for (int64_t i = 0; words && i < 3 * n; i++) {
        float v = fminf(fmaxf(c->values[i], -65504), 65504);
        words[i % n] |= (uint64_t)gale__f32_to_f16(v) << 16 * (i / n);
    }
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_U64, 1, &n, words, &out);
    gale__free(words);
    return out;
}

/* The colours of a word: red and green are its lower half. */
static void unpack(gale__maker *m, gale_value word, gale_value rgb[3])
{
    const gale_attr right = GALE_STRING_ATTR("direction", "RIGHT"),
                    to = GALE_INT("to", gale__onnx_type_number(GALE_F16));
    const uint64_t by = 32;
    gale_value shift = GALE_NONE;
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_U64, 0, NULL, &by, &shift);
    gale_value lower = gale__make_cast(m, word, GALE_U32),
               upper = gale__make_op(m, "BitShift", (gale_value[]){word, shift}, 2, &right, 1);
    rgb[0] = lower, rgb[2] = gale__make_cast(m, upper, GALE_U32);
    rgb[1] = gale__make_op(m, "BitShift", (gale_value[]){lower, gale__make_word(m, 16)}, 2, &right, 1);
    for (int i = 0; i < 3; i++) {
        gale_value bits = gale__make_cast(m, rgb[i], GALE_U16);
        rgb[i] = gale__make_cast(m, gale__make_op(m, "BitCast", &bits, 1, &to, 1), GALE_F32);
    }
}

static void separate(gale__maker *m, const gale__cube *c, const axis a[3], gale_value v[3])
{
    gale_value table = word_table(m, c);
    corners k;
    find_corners(m, c, a, &k);
    for (int corner = 0; corner < 4; corner++) {
        gale_value entry[3];
        unpack(m, gale__make_2(m, "Gather", table, k.index[corner]), entry);
        for (int i = 0; i < 3; i++) {
            gale_value part = gale__make_2(m, "Mul", entry[i], k.weight[corner]);
            v[i] = corner ? gale__make_2(m, "Add", v[i], part) : part;
        }
    }
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

void gale__look_cube(gale__maker *m, const gale__cube *c, gale_value *v, int n, int colours, int channels)
{
    int columns[4];
    axis a[3];
    for (int i = 0; i < channels; i++)
        columns[i] = channels < 3 ? 1 : i < 3 ? i : 0; /* grey takes the green column; alpha's lane is overwritten */
    for (int i = 0; c->curve_size && i < n; i++) v[i] = curved(m, c, v[i], columns + i, n == 3 ? 1 : channels);
    if (!c->size) return;
    for (int i = 0; i < 3; i++) {
        int from = colours == 3 ? i : 0;
        a[i] = place(m, c, n == 3 ? v[i] : gale__make_slice(m, v[0], 0, from, from + 1), i);
    }
    if (n == 3) separate(m, c, a, v);
    else v[0] = stacked(m, c, a, columns, channels);
}
