/* Colours through tables: a 1D table between two entries, a 3D table between its eight nearest ones.  Where the colours
 * are values of their own, an entry is one word of three halves, which are exact to a small part of an 8-bit level:
 * eight gathers a pixel.  Else each is a gather over all channels of the result at once. */
#include "base/num.h"
#include "jobs/exr/look.h"
#include "onnx/wire/proto.h"
#include <math.h>

/* Where a colour is along an axis: the entry before it, and how far past that. */
typedef struct axis {
    gale_value at, part; /* f32, [1, height, width] */
} axis;

static axis place(gale__maker *m, const gale__cube *c, gale_value v, int channel)
{
    double scale = (double)(c->size - 1) / (c->high[channel] - c->low[channel]);
    gale_value t = gale__make_affine(m, v, scale, -c->low[channel] * scale);
    t = gale__make_op(
        m, "Clip", (gale_value[]){t, gale__make_number(m, 0), gale__make_number(m, (double)(c->size - 1))}, 3, NULL, 0);
    gale_value at = gale__make_2(m, "Min", gale__make_1(m, "Floor", t), gale__make_number(m, (double)(c->size - 2)));
    return (axis){at, gale__make_2(m, "Sub", t, at)};
}

/* Where each of the channels begins in the table, and the corner's own offset. */
static gale_value offsets(gale__maker *m, const gale__cube *c, const int *columns, int n, int corner)
{
    int64_t all = c->size * c->size * c->size;
    int32_t v[4] = {0};
    const int64_t dims[3] = {n, 1, 1};
    gale_value out = GALE_NONE;
    for (int i = 0; i < n; i++)
        v[i] = (int32_t)(columns[i] * all + (corner & 1) + (corner >> 1 & 1) * c->size +
                         (corner >> 2 & 1) * c->size * c->size);
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_I32, 3, dims, v, &out);
    return out;
}

/* The entry before a place along all axes. */
static gale_value base_of(gale__maker *m, const gale__cube *c, const axis a[3])
{
    double size = (double)c->size;
    gale_value rows = gale__make_2(m, "Add", a[1].at, gale__make_affine(m, a[2].at, size, 0));
    return gale__make_cast(m, gale__make_2(m, "Add", a[0].at, gale__make_affine(m, rows, size, 0)), GALE_I32);
}

/* How much of a corner there is at a place. */
static gale_value weight_of(gale__maker *m, const axis a[3], int corner)
{
    gale_value weight = GALE_NONE;
    for (int i = 0; i < 3; i++) {
        gale_value w = corner >> i & 1 ? a[i].part : gale__make_affine(m, a[i].part, -1, 1);
        weight = i ? gale__make_2(m, "Mul", weight, w) : w;
    }
    return weight;
}

/* The columns of all channels of the result. */
static gale_value stacked(gale__maker *m, const gale__cube *c, const axis a[3], const int *columns, int channels)
{
    const int64_t entries = 3 * c->size * c->size * c->size;
    gale_value table = gale__make_floats(m, 1, &entries, c->values), sum = GALE_NONE, base = base_of(m, c, a);
    for (int corner = 0; corner < 8; corner++) {
        gale_value index = gale__make_2(m, "Add", base, offsets(m, c, columns, channels, corner));
        gale_value part = gale__make_2(m, "Mul", gale__make_2(m, "Gather", table, index), weight_of(m, a, corner));
        sum = corner ? gale__make_2(m, "Add", sum, part) : part;
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

static gale_value colour_of(gale__maker *m, gale_value words, int i)
{
    const gale_attr right = GALE_STRING_ATTR("direction", "RIGHT"),
                    to = GALE_INT("to", gale__onnx_type_number(GALE_F16));
    const uint64_t by = 16 * (uint64_t)i;
    gale_value shift = GALE_NONE;
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_U64, 0, NULL, &by, &shift);
    if (i) words = gale__make_op(m, "BitShift", (gale_value[]){words, shift}, 2, &right, 1);
    gale_value bits = gale__make_cast(m, words, GALE_U16);
    return gale__make_cast(m, gale__make_op(m, "BitCast", &bits, 1, &to, 1), GALE_F32);
}

static void separate(gale__maker *m, const gale__cube *c, const axis a[3], gale_value v[3])
{
    gale_value table = word_table(m, c), base = base_of(m, c, a);
    const int first = 0;
    for (int corner = 0; corner < 8; corner++) {
        gale_value index = gale__make_2(m, "Add", base, offsets(m, c, &first, 1, corner));
        gale_value words = gale__make_2(m, "Gather", table, index), weight = weight_of(m, a, corner);
        for (int i = 0; i < 3; i++) {
            gale_value part = gale__make_2(m, "Mul", colour_of(m, words, i), weight);
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
