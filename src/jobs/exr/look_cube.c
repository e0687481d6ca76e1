/* Colours through a 3D table, between its eight nearest entries: each a gather over all channels of the result at once.
 */
#include "jobs/exr/look.h"
#include <string.h>

/* Where a colour lies along an axis: the entry before it, and how far past that. */
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

/* These columns of the table, between the eight entries around a place. */
static gale_value between(gale__maker *m, const gale__cube *c, const axis a[3], const int *columns, int n)
{
    const int64_t entries = 3 * c->size * c->size * c->size;
    gale_value table = gale__make_floats(m, 1, &entries, c->values), sum = GALE_NONE;
    gale_value base = gale__make_2(m, "Add", a[0].at,
        gale__make_affine(
            m, gale__make_2(m, "Add", a[1].at, gale__make_affine(m, a[2].at, (double)c->size, 0)), (double)c->size, 0));
    base = gale__make_cast(m, base, GALE_I32);
    for (int corner = 0; corner < 8; corner++) {
        gale_value weight = GALE_NONE;
        for (int i = 0; i < 3; i++) {
            gale_value w = corner >> i & 1 ? a[i].part : gale__make_affine(m, a[i].part, -1, 1);
            weight = i ? gale__make_2(m, "Mul", weight, w) : w;
        }
        gale_value index = gale__make_2(m, "Add", base, offsets(m, c, columns, n, corner));
        gale_value part = gale__make_2(m, "Mul", gale__make_2(m, "Gather", table, index), weight);
        sum = corner ? gale__make_2(m, "Add", sum, part) : part;
    }
    return sum;
}

void gale__look_cube(gale__maker *m, const gale__cube *c, gale_value *v, int n, int colours, int channels)
{
    int columns[4];
    axis a[3];
    for (int i = 0; i < 3; i++)
        a[i] = place(
            m, c, n == 3 ? v[i] : gale__make_slice(m, v[0], 0, colours == 3 ? i : 0, colours == 3 ? i + 1 : 1), i);
    for (int i = 0; i < channels; i++)
        columns[i] = channels < 3 ? 1 : i < 3 ? i : 0; /* grey takes the green column; alpha's lane is overwritten */
    for (int i = 0; i < n; i++) v[i] = between(m, c, a, columns + i, n == 3 ? 1 : channels);
}
