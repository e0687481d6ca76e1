/* Levels of a picture, all of them in one graph: each is the mean, the largest or the least of two neighbours along
 * the axes that are halved.  A level is made from the one before as the file stores it, as OpenEXR's exrmaketiled does:
 * no other value goes through memory. */
#include "base/error.h"
#include "graph/run/tensor.h"
#include "jobs/exr/maker.h"
#include "jobs/exr/mip.h"

int64_t gale__mip_halved(const gale__mip_plan *p, int64_t n, int times)
{
    n = (n + (p->round_up ? ((int64_t)1 << times) - 1 : 0)) >> times;
    return n < 1 ? 1 : n;
}

void gale__mip_count(const gale__mip_plan *p, int *nx, int *ny)
{
    *nx = *ny = 1;
    while (gale__mip_halved(p, p->width, *nx - 1) > 1) ++*nx;
    while (gale__mip_halved(p, p->height, *ny - 1) > 1) ++*ny;
    if (!p->rip) *nx = *ny = *nx > *ny ? *nx : *ny;
}

/* An odd axis made even by its last pixel. */
static gale_value clamped(gale__maker *m, gale_value v, int64_t axis)
{
    const gale_attr edge = GALE_STRING_ATTR("mode", "edge");
    int64_t pads[6] = {0};
    pads[3 + axis] = 1;
    return gale__make_op(m, "Pad", (gale_value[]){v, gale__make_ints(m, 6, pads)}, 2, &edge, 1);
}

static gale_value reduced(gale__maker *m, const gale__mip_plan *p, gale_value a, gale_value b)
{
    if (p->reduce == GALE_EXR_BRIGHTEST) return gale__make_2(m, "Max", a, b);
    if (p->reduce == GALE_EXR_DARKEST) return gale__make_2(m, "Min", a, b);
    return gale__make_affine(m, gale__make_2(m, "Add", a, b), 0.5, 0);
}

/* Half of an axis: pixels 2 i and 2 i + 1; an axis of one pixel stays. */
static gale_value halve(gale__maker *m, const gale__mip_plan *p, gale_value v, int64_t axis, int64_t n)
{
    if (n < 2) return v;
    if (n % 2 && p->round_up) v = clamped(m, v, axis), n++;
    int64_t end = n / 2 * 2;
    gale_value in[5] = {v, gale__make_ints(m, 1, &(int64_t){0}), gale__make_ints(m, 1, &end),
        gale__make_ints(m, 1, &axis), gale__make_ints(m, 1, &(int64_t){2})};
    gale_value even = gale__make_op(m, "Slice", in, 5, NULL, 0);
    in[1] = gale__make_ints(m, 1, &(int64_t){1});
    return reduced(m, p, even, gale__make_op(m, "Slice", in, 5, NULL, 0));
}

/* Returns the level as it can be read again. */
static gale_value add_level(gale__maker *m, const gale__mip_plan *p, gale_value v)
{
    gale_value stored = gale__make_cast(m, v, p->type);
    if (m->status == GALE_OK) m->status = gale_graph_output(m->graph, "level", stored);
    return gale__make_cast(m, stored, GALE_F32);
}

/* One value: kernels make several levels at once. */
static void build_mip(gale__maker *m, const gale__mip_plan *p, gale_value v)
{
    const gale_attr attrs[] = {GALE_INT("reduce", p->reduce), GALE_INT("round_up", p->round_up)};
    v = gale__make_op(m, "PictureLevels", &v, 1, attrs, 2);
    if (m->status == GALE_OK) m->status = gale_graph_output(m->graph, "levels", v);
}

static void build_rip(gale__maker *m, const gale__mip_plan *p, gale_value v, int nx, int ny)
{
    for (int y = 0; y < ny; y++) {
        gale_value row = v = y ? halve(m, p, v, 1, gale__mip_halved(p, p->height, y - 1)) : v;
        if (y) row = v = add_level(m, p, row);
        for (int x = 1; x < nx; x++) {
            row = halve(m, p, row, 2, gale__mip_halved(p, p->width, x - 1));
            row = add_level(m, p, row);
        }
    }
}

gale_status gale__mip_program(const gale__mip_plan *p, gale_device *device, gale_program **out)
{
    gale__maker m = {0};
    gale_value v = GALE_NONE;
    const int64_t dims[3] = {p->channels, p->height, p->width};
    int nx, ny;
    gale__mip_count(p, &nx, &ny);
    GALE_TRY(gale_graph_create(&m.graph));
    m.status = gale_graph_input(m.graph, "planes", p->type, 3, dims, NULL, &v);
    if (p->rip) build_rip(&m, p, gale__make_cast(&m, v, GALE_F32), nx, ny);
    else build_mip(&m, p, v);
    if (m.status == GALE_OK) m.status = gale_program_create(m.graph, device, NULL, out);
    gale_graph_destroy(&m.graph);
    return m.status;
}

const void *gale__mip_level(const gale__mip_plan *p, gale_tensor *const *outputs, int nx, int x, int y)
{
    size_t before = 0;
    if (p->rip) return gale_tensor_data(outputs[y * nx + x - 1]);
    for (int i = 1; i < x; i++)
        before += (size_t)(p->channels * gale__mip_halved(p, p->width, i) * gale__mip_halved(p, p->height, i));
    return (const char *)gale_tensor_data(outputs[0]) + before * gale_type_size(p->type);
}
