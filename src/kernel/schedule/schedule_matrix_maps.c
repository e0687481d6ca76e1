/* MATRIX: operands that one thread asks for as boxes of maps, instead of 128 threads copying them (4,096 cubed in f16
 * on an H200: 185 us, and 216; 81,920 x 384 x 1,536: 151 us, and 181).  Either operand can be a matrix of rows along k.
 * The first one can be a window over pictures, too, whose channels are neighbours: then each step along k is a part of
 * the channels of one of the window's pixels, and the map gives 0 outside of the picture. */
#include "kernel/schedule/schedule_matrix.h"

static const gale__nest_access *access_of(
    const gale__nest *nest, const gale__contraction *c, const gale__schedule *s, int which)
{
    return &nest->accesses[gale__schedule_matrix_access(nest, gale__schedule_tile_operand(s, c, which))];
}

static uint32_t element_bytes(const gale__schedule *s) { return gale__schedule_matrix_bytes(s) ? 1 : 2; }

static bool find_rows(
    const gale__nest *nest, const gale__contraction *c, const gale__schedule *s, int which, gale__matrix_map *out)
{
    const gale__nest_access *a = access_of(nest, c, s, which);
    uint32_t size = which ? s->tile_n : s->tile_m, element = element_bytes(s);
    int64_t pitch = 0, rows = 1, k = 1;
    if (a->n_guards || a->offset < 0 || c->b_count != 1) return false;
    for (int d = nest->n_outer + nest->n_inner - 1; d >= 0; d--) {
        bool side = c->kind[d] == (uint8_t)gale__schedule_tile_kind(s, which);
        if (nest->extent[d] == 1 || (!side && c->kind[d] != 'K')) continue;
        if (side && rows == 1) pitch = a->stride[d];
        if (a->stride[d] != (side ? pitch * rows : k)) return false;
        if (side) rows *= nest->extent[d];
        else k *= nest->extent[d];
    }
    *out = (gale__matrix_map){.ref = a->buffer,
        .offset = (uint64_t)a->offset * element,
        .rows = (uint64_t)rows,
        .k = (uint64_t)k,
        .pitch = (uint64_t)pitch * element,
        .box_rows = size,
        .element = element,
        .row = s->tile_k * element,
        .spread = which && s->direct ? s->vector == 16 ? 64 : 32 : 0};
    return pitch >= k && out->pitch % 16 == 0 && out->offset % 16 == 0 && (!out->spread || rows % out->spread == 0);
}

/* Which dimensions of a nest walk a window: along the width (0) and the height (1), the windows and the pixels within
 * one, and the guard that knows where the picture ends; pictures; and channels.  -1: there is none. */
typedef struct window {
    int outer[2], inner[2], guard[2], picture, channel;
} window;

/* Dimensions of one kind, the last first; false where there are more than `most`. */
static bool find_dims(const gale__nest *nest, const gale__contraction *c, char kind, int most, int *out)
{
    int n = 0;
    for (int i = 0; i < most; i++) out[i] = -1;
    for (int d = nest->n_outer + nest->n_inner - 1; d >= 0; d--) {
        if (c->kind[d] != (uint8_t)kind || nest->extent[d] == 1) continue;
        if (n == most) return false;
        out[n++] = d;
    }
    return n > 0;
}

/* Whether a guard looks at the picture's axis that a dimension of windows walks, and where within a window. */
static bool joins(const gale__nest *nest, const gale__nest_guard *g, int outer, const int *inner, int *pixel)
{
    if (outer < 0 || g->coef[outer] < 1 || g->div != 1) return false;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++)
        if (g->coef[d] && d != outer && d != inner[0] && d != inner[1]) return false;
    *pixel = inner[0] >= 0 && g->coef[inner[0]] ? inner[0] : inner[1];
    return *pixel < 0 || (g->coef[*pixel] > 0 && !(g->coef[inner[0]] && inner[1] >= 0 && g->coef[inner[1]]));
}

/* Dimensions within the window that no guard looks at: their pixels are as far apart as the windows. */
static bool join_rest(const gale__nest *nest, const gale__nest_access *a, window *w)
{
    for (int d = nest->n_outer; d < nest->n_outer + nest->n_inner; d++) {
        if (nest->extent[d] == 1 || d == w->channel || d == w->inner[0] || d == w->inner[1]) continue;
        int axis = 0;
        while (axis < 2 && (w->outer[axis] < 0 || w->guard[axis] >= 0 || w->inner[axis] >= 0 ||
                               a->stride[w->outer[axis]] != a->stride[d]))
            axis++;
        if (axis == 2) return false;
        w->inner[axis] = d;
    }
    return true;
}

static bool find_window(const gale__nest *nest, const gale__contraction *c, const gale__schedule *s, window *w)
{
    const gale__nest_access *a = access_of(nest, c, s, 0);
    int outer[3], k[3], used = 0;
    if (c->b_count != 1 || s->index64 || a->n_guards > 2 || (a->n_guards && a->fill)) return false;
    if (!find_dims(nest, c, gale__schedule_tile_kind(s, 0), 3, outer) || !find_dims(nest, c, 'K', 3, k)) return false;
    *w = (window){{outer[0], outer[1]}, {-1, -1}, {-1, -1}, outer[2], k[0]};
    for (int axis = 0; axis < 2; axis++)
        for (int g = 0; g < a->n_guards; g++) {
            int pixel;
            if (w->guard[axis] >= 0 || !joins(nest, &a->guards[g], w->outer[axis], k + 1, &pixel)) continue;
            w->guard[axis] = g;
            w->inner[axis] = pixel;
            used++;
        }
    return used == a->n_guards && a->stride[w->channel] == 1 && join_rest(nest, a, w);
}

/* What the device is told of an axis; false where it cannot be. */
static bool describe_axis(const gale__nest *nest, const gale__nest_access *a, const window *w, int axis,
    int64_t *offset, gale__matrix_axis *out)
{
    int outer = w->outer[axis], inner = w->inner[axis];
    const gale__nest_guard *g = w->guard[axis] >= 0 ? &a->guards[w->guard[axis]] : NULL;
    int64_t windows = outer >= 0 ? nest->extent[outer] : 1, pixels = inner >= 0 ? nest->extent[inner] : 1;
    int64_t step = g ? g->coef[outer] : 1, apart = g && inner >= 0 ? g->coef[inner] : 1, first = g ? g->c0 : 0;
    int64_t pitch = outer >= 0 ? a->stride[outer] / step : 16, extent = g ? g->extent : windows + pixels - 1;
    int64_t last = first + (windows - 1) * step, upper = last + 1 - extent;
    if (outer >= 0 && (pitch < 1 || a->stride[outer] % step)) return false;
    if (inner >= 0 && a->stride[inner] != pitch * apart) return false;
    if (step > 8 || (pixels - 1) * apart > 255 || first < -128 || first > 127 || upper < -128 || upper > 127)
        return false;
    *offset -= first * pitch;
    *out = (gale__matrix_axis){(uint64_t)extent, (uint64_t)pitch, (int32_t)first, (int32_t)last, (uint32_t)step};
    return extent < 32768;
}

/* The first operand; the channels of a pixel are whole steps along k. */
static bool find_pixels(
    const gale__nest *nest, const gale__contraction *c, const gale__schedule *s, gale__matrix_map *out)
{
    const gale__nest_access *a = access_of(nest, c, s, 0);
    uint32_t element = element_bytes(s);
    window w;
    if (!find_window(nest, c, s, &w)) return false;
    int64_t offset = a->offset, channels = nest->extent[w.channel];
    *out = (gale__matrix_map){.ref = a->buffer,
        .rows = (uint64_t)(w.picture >= 0 ? nest->extent[w.picture] : 1),
        .k = (uint64_t)channels,
        .pitch = w.picture >= 0 ? (uint64_t)a->stride[w.picture] * element : 16,
        .box_rows = s->tile_m,
        .element = element,
        .row = s->tile_k * element,
        .window = true};
    if (channels % s->tile_k || channels > UINT16_MAX) return false;
    bool whole = out->pitch % 16 == 0;
    for (int axis = 0; axis < 2; axis++) {
        gale__matrix_axis *to = &out->axis[axis];
        if (!describe_axis(nest, a, &w, axis, &offset, to)) return false;
        if (w.outer[axis] >= 0) to->pitch *= element;
        whole = whole && to->pitch % 16 == 0;
    }
    out->offset = (uint64_t)offset * element;
    return whole && offset >= 0 && out->offset % 16 == 0;
}

int gale__matrix_find_maps(const gale__nest *nest, const gale__contraction *c, const gale__schedule *s)
{
    gale__matrix_map map;
    if (!find_rows(nest, c, s, 1, &map)) return 0;
    return find_rows(nest, c, s, 0, &map) ? GALE__MAPS_ROWS : find_pixels(nest, c, s, &map) ? GALE__MAPS_WINDOW : 0;
}

int gale__schedule_maps(const gale__nest *nest, const gale__schedule *s, gale__matrix_map out[GALE__LAUNCH_MAPS])
{
    gale__contraction c;
    if (!s->maps || !gale__nest_contraction(nest, &c)) return 0;
    if (s->maps == GALE__MAPS_WINDOW) find_pixels(nest, &c, s, &out[0]);
    else find_rows(nest, &c, s, 0, &out[0]);
    find_rows(nest, &c, s, 1, &out[1]);
    return 2;
}

/* Where a window begins along an axis, or how far into it a pixel is: the guard's coordinate, or without one the
 * dimension's own. */
static gale__ir_val along(gale__emit *e, int access, int guard, int dim, bool begins, const gale__ir_val *coord)
{
    const gale__emit_guard *g = guard >= 0 ? &e->layout.access[access].guard[guard] : NULL;
    gale__ir_val at = dim < 0 ? gale__ir_u32(e->ir, 0) : coord[dim];
    if (g && dim >= 0) at = gale__emit_mul(e, at, g->coef[dim]);
    return g && begins ? gale__emit_add(e, at, g->c0) : at;
}

static gale__ir_val pack(gale__ir *ir, gale_type type, gale__ir_val low, gale__ir_val high, uint32_t bits)
{
    high = gale__ir_op2(ir, GALE__IR_SHL, type, high, gale__ir_const(ir, type, bits));
    return gale__ir_op2(ir, GALE__OR, type, low, high);
}

/* The channel and the pixel within the window at k, and the first window of the tile, as MAP_COPY wants them. */
static void place_window(gale__matrix *t, gale__ir_val k, gale__ir_val *from, gale__ir_val *at)
{
    gale__emit *e = &t->tile.tiling.emit;
    gale__ir *ir = e->ir;
    gale__ir_val coord[GALE__NEST_DIMS], pixel[2], begin[2];
    window w;
    int access = t->parts[0].access;
    find_window(e->nest, &t->tile.tiling.contraction, e->schedule, &w);
    gale__emit_tile_clear_coords(&t->tile.tiling, coord);
    gale__emit_tile_coords(&t->tile.tiling, k, 'K', coord);
    gale__emit_tile_coords(&t->tile.tiling, t->tile.tiling.origin[0], gale__schedule_tile_kind(e->schedule, 0), coord);
    for (int axis = 0; axis < 2; axis++) {
        pixel[axis] = along(e, access, w.guard[axis], w.inner[axis], false, coord);
        begin[axis] = along(e, access, w.guard[axis], w.outer[axis], true, coord);
    }
    *from = pack(ir, GALE_U32, pack(ir, GALE_U32, coord[w.channel], pixel[0], 16), pixel[1], 24);
    gale__ir_val first = pack(ir, GALE_U32, op32(ir, GALE__AND, begin[0], 0xffff), begin[1], 16);
    gale__ir_val picture = w.picture >= 0 ? coord[w.picture] : gale__ir_u32(ir, 0);
    *at = pack(ir, GALE_U64, gale__ir_op1(ir, GALE__IR_CONVERT, GALE_U64, first),
        gale__ir_op1(ir, GALE__IR_CONVERT, GALE_U64, picture), 32);
}

void gale__matrix_ask(gale__matrix *t, gale__ir_val number, gale__ir_val k, int parts, bool expect)
{
    gale__ir *ir = t->tile.tiling.emit.ir;
    const gale__schedule *s = t->tile.tiling.emit.schedule;
    gale__ir_val stage = op32(ir, GALE__MUL, number, t->stage), from[2] = {k, k};
    gale__ir_val at[2] = {t->tile.tiling.origin[0], t->tile.tiling.origin[1]};
    gale__ir_val to[2] = {stage, s->keep ? op32(ir, GALE__MUL, k, s->tile_n) : stage};
    bool pixels = s->maps == GALE__MAPS_WINDOW;
    uint32_t sides = s->tile_m + (s->keep && parts == 1 ? 0u : s->tile_n);
    if (pixels && (parts & 1)) place_window(t, k, &from[0], &at[0]);
    if (s->direct) at[1] = op32(ir, GALE__IR_DIV, at[1], 4u * s->vector);
    gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_GATE_EXPECT,
                         .a = t->gates,
                         .b = number,
                         .imm = expect ? sides * s->tile_k * element_bytes(s) : 0});
    for (uint32_t w = 0; w < 2; w++) {
        uint64_t buffer = (uint64_t)t->tile.tiling.emit.nest->accesses[t->parts[w].access].buffer;
        uint64_t form = w ? s->direct != 0 : (uint64_t)pixels << 1;
        if (parts >> w & 1)
            gale__ir_add(ir, (gale__ir_instr){.op = GALE__IR_MAP_COPY,
                                 .a = t->shared,
                                 .b = op32(ir, GALE__ADD, to[w], t->parts[w].at),
                                 .c = from[w],
                                 .d = at[w],
                                 .imm = w | form << 8 | buffer << 16});
    }
}
