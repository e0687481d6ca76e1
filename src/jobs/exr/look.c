/* The graph of the pixel pipeline; without resizing all of it is one kernel.  Four bytes are made as one word a pixel:
 * the colours are separate values, so that alpha, the matrix and the table are computed once for all of them, and
 * planes are read and words are written in runs.  Otherwise all channels of the result are one value, and alpha takes
 * its place by a choice. */
#include "jobs/exr/look.h"
#include "base/error.h"
#include "base/mem.h"
#include "onnx/wire/proto.h"
#include <math.h>
#include <string.h>

static const char *const tones[] = {"linear", "aces", "reinhard", "filmic", "hable", "local"};
static const char *const filters[] = {"triangle", "box", "cubic", "mitchell", "lanczos"};
static const char *const modes[] = {"linear", "box", "cubic", "mitchell", "lanczos3"};

const char *gale_exr_tone_name(int tone) { return tone >= 0 && tone < GALE_EXR_TONE_COUNT ? tones[tone] : NULL; }
const char *gale_exr_filter_name(int filter)
{
    return filter >= 0 && filter < GALE_EXR_FILTER_COUNT ? filters[filter] : NULL;
}

typedef struct look {
    gale__maker m;
    const gale__look_plan *p;
    gale_value x;         /* planes, f32, of the result's extents */
    int colours;          /* 1 or 3 */
    bool packed;          /* colours one by one */
    gale__look_sums sums; /* of a 3D table; else FLOATS: the first colour is not a word of bytes, of all three */
    gale_value v[3];
    int n; /* of v: 3 if packed, else 1, [channels of the result, height, width] */
} look;

static bool has_alpha(const gale__look_plan *p) { return p->channels % 2 == 0; }

static bool is_resized(const gale__look_plan *p) { return p->width != p->in_width || p->height != p->in_height; }

/* Samples that are not finite count as 0 in sums: one of them would take its surroundings with it. */
static gale_value resized(look *l, gale_value x)
{
    const gale__look_plan *p = l->p;
    const int64_t sizes[3] = {p->channels, p->height, p->width};
    const gale_attr attrs[] = {GALE_STRING_ATTR("mode", modes[p->filter]), GALE_FLOAT("cubic_coeff_a", -0.5),
        GALE_INT("antialias", 1), GALE_INT("exclude_outside", 1), GALE_INT("finite", 1)};
    if (!is_resized(p)) return x;
    return gale__make_op(
        &l->m, "Resize", (gale_value[]){x, GALE_NONE, GALE_NONE, gale__make_ints(&l->m, 3, sizes)}, 4, attrs, 5);
}

/* One factor for each channel of the result, 0 for alpha. */
static gale_value column(look *l, const double *factors, int step)
{
    float v[4] = {0};
    const int64_t dims[3] = {l->p->kept, 1, 1};
    for (int i = 0; i < l->colours; i++) v[i] = (float)factors[i * step];
    return gale__make_floats(&l->m, 3, dims, v);
}

/* One colour by its row of the matrix. */
static gale_value mixed_colour(look *l, int row)
{
    gale__maker *m = &l->m;
    gale_value sum = GALE_NONE;
    if (!l->p->by_matrix) return gale__make_slice(m, l->x, 0, row, row + 1);
    for (int i = 0; i < 3; i++) {
        gale_value part = gale__make_affine(m, gale__make_slice(m, l->x, 0, i, i + 1), l->p->matrix[3 * row + i], 0);
        sum = i ? gale__make_2(m, "Add", sum, part) : part;
    }
    return sum;
}

/* The colours by the matrix, and a channel of anything where alpha will be. */
static gale_value mixed(look *l)
{
    gale__maker *m = &l->m;
    if (!l->p->by_matrix && l->p->channels == l->p->kept) return l->x;
    if (!l->p->by_matrix) return gale__make_slice(m, l->x, 0, 0, l->colours);
    gale_value sum = GALE_NONE;
    for (int i = 0; i < l->colours; i++) {
        gale_value part =
            gale__make_2(m, "Mul", gale__make_slice(m, l->x, 0, i, i + 1), column(l, l->p->matrix + i, l->colours));
        sum = i ? gale__make_2(m, "Add", sum, part) : part;
    }
    return sum;
}

/* Whether colours go straight to the curve in a kernel that clamps between 0 and 1, NaN to 0, in one instruction. */
static bool is_clamped(const look *l) { return l->p->fast && l->p->tone == GALE_EXR_LINEAR; }

/* What is between 0 and the largest number stays: as whole numbers, the bits of all others are not below those of
 * infinity.  Before a clamp it suffices to make infinity NaN, which 0 times it is. */
static gale_value clean(look *l, gale_value v)
{
    const gale_attr to = GALE_INT("to", gale__onnx_type_number(GALE_U32));
    gale__maker *m = &l->m;
    gale_value zero = gale__make_number(m, 0), bits = gale__make_op(m, "BitCast", &v, 1, &to, 1);
    if (is_clamped(l)) return gale__make_2(m, "Add", gale__make_2(m, "Mul", v, zero), v);
    return gale__make_select(m, gale__make_2(m, "Less", bits, gale__make_word(m, 0x7f800000)), v, zero);
}

/* Up to where their squares are numbers still, or clamped. */
static gale_value at_most(look *l, gale_value v)
{
    gale__maker *m = &l->m;
    gale_value zero = gale__make_number(m, 0);
    if (is_clamped(l)) v = gale__make_select(m, gale__make_2(m, "Greater", v, zero), v, zero);
    return gale__make_2(m, "Min", v, gale__make_number(m, is_clamped(l) ? 1 : 1e15));
}

static gale_value limited(look *l, gale_value v, double low, double high)
{
    gale__maker *m = &l->m;
    return gale__make_op(
        m, "Clip", (gale_value[]){v, gale__make_number(m, low), gale__make_number(m, high)}, 3, NULL, 0);
}

/* Alpha between 0 and 1, NaN as 0; [1, height, width]. */
static gale_value alpha_of(look *l)
{
    gale__maker *m = &l->m;
    gale_value a = gale__make_slice(m, l->x, 0, l->colours, l->colours + 1), zero = gale__make_number(m, 0);
    a = gale__make_select(m, gale__make_2(m, "Greater", a, zero), a, zero);
    return gale__make_2(m, "Min", a, gale__make_number(m, 1));
}

/* (x (a x + b) + c) / (x (d x + e) + f). */
static gale_value ratio(look *l, gale_value x, const double k[6])
{
    gale__maker *m = &l->m;
    gale_value top = gale__make_2(m, "Mul", x, gale__make_affine(m, x, k[0], k[1]));
    gale_value bottom = gale__make_2(m, "Mul", x, gale__make_affine(m, x, k[3], k[4]));
    return gale__make_2(m, "Div", gale__make_affine(m, top, 1, k[2]), gale__make_affine(m, bottom, 1, k[5]));
}

/* Hable's: a .15, b .5, c .1, d .2, e .02, f .3. */
static const double hable[6] = {0.15, 0.05, 0.004, 0.15, 0.5, 0.06};
static double hable_of(double x)
{
    return (x * (0.15 * x + 0.05) + 0.004) / (x * (0.15 * x + 0.5) + 0.06) - 0.02 / 0.3;
}

/* One axis of a Gaussian, whose weights add up to one; what is beyond the edge is the edge. */
static gale_value blurred(look *l, gale_value x, bool down, int64_t radius)
{
    gale__maker *m = &l->m;
    int64_t n = 2 * radius + 1, kernel[4] = {1, 1, down ? n : 1, down ? 1 : n};
    int64_t pads[8] = {0, 0, down ? radius : 0, down ? 0 : radius, 0, 0, down ? radius : 0, down ? 0 : radius};
    float *w = gale__calloc((size_t)n, sizeof *w);
    double sum = 0, sigma = (double)radius / 2;
    if (!w) m->status = GALE_NO_MEMORY;
    if (m->status != GALE_OK) return gale__free(w), GALE_NONE;
    for (int64_t i = 0; i < n; i++) sum += exp(-0.5 * pow((double)(i - radius) / sigma, 2));
    for (int64_t i = 0; i < n; i++) w[i] = (float)(exp(-0.5 * pow((double)(i - radius) / sigma, 2)) / sum);
    const gale_attr edge = GALE_STRING_ATTR("mode", "edge");
    gale_value padded = gale__make_op(m, "Pad", (gale_value[]){x, gale__make_ints(m, 8, pads)}, 2, &edge, 1);
    gale_value y = gale__make_2(m, "Conv", padded, gale__make_floats(m, 4, kernel, w));
    gale__free(w);
    return y;
}

/* x / (1 + the geometric mean of luminance around it). */
static gale_value local(look *l, gale_value v)
{
    static const double weights[3] = {0.2126, 0.7152, 0.0722};
    gale__maker *m = &l->m;
    const int64_t four[4] = {1, 1, l->p->height, l->p->width};
    gale_value sum = GALE_NONE;
    for (int i = 0; i < l->colours; i++) {
        gale_value part =
            gale__make_affine(m, gale__make_slice(m, v, 0, i, i + 1), l->colours == 1 ? 1 : weights[i], 0);
        sum = i ? gale__make_2(m, "Add", sum, part) : part;
    }
    gale_value log = gale__make_1(m, "Log", gale__make_affine(m, sum, 1, 1e-6));
    log = gale__make_2(m, "Reshape", log, gale__make_ints(m, 4, four));
    int64_t radius = (int64_t)(l->p->radius + 0.5), longer = l->p->width > l->p->height ? l->p->width : l->p->height;
    if (radius < 1) radius = longer / 32 > 1 ? longer / 32 : 1;
    log = blurred(l, blurred(l, log, true, radius), false, radius);
    log = gale__make_2(m, "Reshape", log, gale__make_ints(m, 3, four + 1));
    return gale__make_2(m, "Div", v, gale__make_affine(m, gale__make_1(m, "Exp", log), 1, 1));
}

static gale_value toned(look *l, gale_value v)
{
    static const double aces[6] = {2.51, 0.03, 0, 2.43, 0.59, 0.14};
    gale__maker *m = &l->m;
    switch (l->p->tone) {
    case GALE_EXR_ACES: return ratio(l, v, aces);
    case GALE_EXR_REINHARD: return gale__make_2(m, "Div", v, gale__make_affine(m, v, 1, 1));
    case GALE_EXR_FILMIC: return gale__make_affine(m, ratio(l, v, hable), 1, -0.02 / 0.3);
    case GALE_EXR_HABLE:
        return gale__make_affine(m, gale__make_affine(m, ratio(l, v, hable), 1, -0.02 / 0.3), 1 / hable_of(11.2), 0);
    case GALE_EXR_LOCAL: return local(l, v);
    default: return v;
    }
}

/* v, or `least`, to a power.  By exp and log, for results of 16 bits at most: a third of what Pow takes, which is exact
 * to the last place unless it is the device's own. */
static gale_value raised(look *l, gale_value v, double power, double least)
{
    gale__maker *m = &l->m;
    gale_value base = gale__make_2(m, "Max", v, gale__make_number(m, least));
    if (l->p->fast) return gale__make_2(m, "Pow", base, gale__make_number(m, power));
    return gale__make_1(m, "Exp", gale__make_affine(m, gale__make_1(m, "Log", base), power, 0));
}

/* The curve of the screen, of values up to 1, times `scale` and `more`.  That of sRGB is a power above `knee` and a
 * line below: the sum of both, each of the part of v on its side, which needs no choice. */
static gale_value encoded(look *l, gale_value v, double scale, double more)
{
    const double knee = 0.0031308, slope = 12.92;
    gale__maker *m = &l->m;
    if (l->p->gamma > 0) return gale__make_affine(m, raised(l, v, 1 / l->p->gamma, 1e-30), scale, more);
    gale_value low = is_clamped(l) ? at_most(l, gale__make_affine(m, v, 1 / knee, 0))
                                   : gale__make_2(m, "Min", v, gale__make_number(m, knee));
    gale_value line = gale__make_affine(m, low, scale * slope * (is_clamped(l) ? knee : 1), 0);
    gale_value curve =
        gale__make_affine(m, raised(l, v, 1 / 2.4, knee), scale * 1.055, scale * (-0.055 - slope * knee) + more);
    return gale__make_2(m, "Add", line, curve);
}

/* Numbers 0, 1, 2 ... times a factor along the second or third axis. */
static gale_value ramp(look *l, bool down, double factor)
{
    int64_t n = down ? l->p->height : l->p->width, dims[3] = {1, down ? n : 1, down ? 1 : n};
    float *v = gale__calloc((size_t)n, sizeof *v);
    if (!v) l->m.status = GALE_NO_MEMORY;
    for (int64_t i = 0; v && i < n; i++) v[i] = (float)fmod((double)i * factor, 1);
    gale_value out = v ? gale__make_floats(&l->m, 3, dims, v) : GALE_NONE;
    gale__free(v);
    return out;
}

/* Noise in 0..1 that differs between neighbours as much as it can (Jimenez' interleaved gradient noise). */
static gale_value noise(look *l)
{
    gale__maker *m = &l->m;
    gale_value sum = gale__make_2(m, "Add", ramp(l, false, 0.06711056), ramp(l, true, 0.00583715));
    sum = gale__make_affine(m, gale__make_2(m, "Sub", sum, gale__make_1(m, "Floor", sum)), 52.9829189, 0);
    return gale__make_2(m, "Sub", sum, gale__make_1(m, "Floor", sum));
}

/* As numbers that a cast to integers cuts to levels. */
static gale_value scaled(look *l, gale_value v)
{
    gale__maker *m = &l->m;
    double most = l->p->bits == 16 ? 65535 : 255;
    v = gale__make_affine(m, v, most, 0);
    v = l->p->dither ? gale__make_2(m, "Add", v, noise(l)) : gale__make_affine(m, v, 1, 0.5);
    return limited(l, v, 0, most);
}

/* Alpha in its channel, the colours in theirs. */
static gale_value with_alpha(look *l, gale_value colours, gale_value alpha)
{
    gale__maker *m = &l->m;
    const int64_t dims[3] = {l->p->kept, 1, 1};
    bool is[4] = {false};
    gale_value mask = GALE_NONE;
    is[l->p->kept - 1] = true;
    if (m->status == GALE_OK) m->status = gale_graph_constant(m->graph, GALE_BOOL, 3, dims, is, &mask);
    return gale__make_select(m, mask, gale__make_affine(m, alpha, l->p->bits == 16 ? 65535 : 255, 0.5), colours);
}

/* Whether colours become levels with the curve, and not after the table or with noise. */
static bool is_direct(const look *l) { return l->packed && !l->p->cube && !l->p->dither; }

/* The nearest level in the lowest byte, by the place of the digits of a float: an addition and no conversion. */
static gale_value low_byte(look *l, gale_value levels)
{
    gale__maker *m = &l->m;
    const gale_attr to = GALE_INT("to", gale__onnx_type_number(GALE_U32));
    gale_value v = gale__make_affine(m, levels, 1, 0x1p23);
    v = gale__make_op(m, "BitCast", &v, 1, &to, 1);
    return gale__make_2(m, "BitwiseAnd", v, gale__make_word(m, 255));
}

/* Red in the lowest byte, alpha in the highest: the order of bytes in memory. */
static gale_value packed(look *l, gale_value alpha)
{
    const gale_attr left = GALE_STRING_ATTR("direction", "LEFT");
    gale__maker *m = &l->m;
    gale_value word = l->sums ? l->v[0] : GALE_NONE;
    for (int i = l->sums ? 3 : 0; i < 4; i++) {
        gale_value levels = i < 3 && is_direct(l)   ? l->v[i]
                            : i < 3 && l->p->dither ? gale__make_1(m, "Floor", scaled(l, l->v[i]))
                                                    : gale__make_affine(m, i < 3 ? l->v[i] : alpha, 255, 0);
        gale_value byte = low_byte(l, levels);
        byte = gale__make_op(m, "BitShift", (gale_value[]){byte, gale__make_word(m, 8 * (uint32_t)i)}, 2, &left, 1);
        word = i ? gale__make_2(m, l->sums ? "Add" : "BitwiseOr", word, byte) : byte;
    }
    return word;
}

static gale_value interleaved(look *l, gale_value alpha)
{
    static const int64_t order[3] = {1, 2, 0};
    const gale_attr perm = GALE_INTS("perm", order, 3);
    gale__maker *m = &l->m;
    bool direct = l->p->fast && !l->p->dither && alpha == GALE_NONE; /* the curve's values are levels up to rounding */
    gale_value v = direct ? low_byte(l, gale__make_affine(m, l->v[0], 255, 0)) : scaled(l, l->v[0]);
    if (alpha != GALE_NONE) v = with_alpha(l, v, alpha);
    v = gale__make_cast(m, v, l->p->bits == 16 ? GALE_U16 : GALE_U8);
    return gale__make_op(m, "Transpose", &v, 1, &perm, 1);
}

/* 1 / alpha; 1 where alpha is nothing, or so little that its inverse would not be a number.  No half is between 0 and
 * 2^-24, so that of halves the colours divided by alpha have a known bound. */
static gale_value inverse_of(look *l, gale_value alpha)
{
    gale__maker *m = &l->m;
    bool halves = l->p->type == GALE_F16 && !is_resized(l->p);
    gale_value one = gale__make_number(m, 1), least = gale__make_number(m, halves ? 0x1p-25 : 1e-30);
    gale_value some = gale__make_2(m, "Greater", alpha, least);
    return gale__make_2(m, "Div", one, gale__make_select(m, some, alpha, one));
}

/* Linear colours, none of them negative, not premultiplied if alpha is kept. */
static void collect(look *l, gale_value alpha)
{
    gale__maker *m = &l->m;
    gale_value inverse = alpha != GALE_NONE ? inverse_of(l, alpha) : GALE_NONE;
    l->n = l->packed ? 3 : 1;
    for (int i = 0; i < l->n; i++) {
        gale_value v = clean(l, l->packed ? mixed_colour(l, i) : mixed(l));
        if (alpha != GALE_NONE) v = gale__make_2(m, "Mul", v, inverse);
        v = gale__make_affine(m, v, exp2(l->p->exposure), 0);
        l->v[i] = at_most(l, v);
    }
}

static void build(look *l)
{
    const gale__look_plan *p = l->p;
    const int64_t dims[3] = {p->channels, p->in_height, p->in_width};
    gale__maker *m = &l->m;
    bool alpha = has_alpha(p) && p->kept == p->channels && !p->padded;
    bool leaves = p->cube && !gale__cube_stays(p->cube);
    l->packed = gale__look_is_packed(p);
    bool levels = l->packed && p->cube && p->cube->size && !p->dither && !leaves;
    l->sums = levels ? p->halves ? GALE__LOOK_HALVES : GALE__LOOK_WORDS : GALE__LOOK_FLOATS;
    m->status = gale_graph_input(m->graph, "planes", p->type, 3, dims, NULL, &l->x);
    l->colours = p->channels > 2 ? 3 : 1;
    l->x = resized(l, gale__make_cast(m, l->x, GALE_F32));
    gale_value a = alpha ? alpha_of(l) : GALE_NONE;
    collect(l, a);
    for (int i = 0; i < l->n; i++) {
        double scale = is_direct(l) ? 255 : 1, more = 0;
        if (p->cube && l->n == 3 && !p->cube->curve_size) gale__look_cube_scale(p->cube, i, l->sums, &scale, &more);
        l->v[i] = encoded(l, gale__make_2(m, "Min", toned(l, l->v[i]), gale__make_number(m, 1)), scale, more);
    }
    if (p->cube) gale__look_cube(m, p->cube, l->v, l->n, l->colours, p->kept, l->sums);
    for (int i = 0; leaves && i < l->n; i++) l->v[i] = limited(l, l->v[i], 0, 1);
    gale_value v = l->packed ? packed(l, alpha ? a : gale__make_number(m, 1)) : interleaved(l, a);
    if (m->status == GALE_OK) m->status = gale_graph_output(m->graph, "picture", v);
}

bool gale__look_is_packed(const gale__look_plan *p)
{
    return p->kept == 4 && p->bits == 8 && p->tone != GALE_EXR_LOCAL;
}

gale_status gale__look_graph(const gale__look_plan *plan, gale_graph **out)
{
    look l = {.p = plan};
    GALE_TRY(gale_graph_create(&l.m.graph));
    build(&l);
    if (l.m.status == GALE_OK) *out = l.m.graph;
    else gale_graph_destroy(&l.m.graph);
    return l.m.status;
}

/* The device's own functions will do for levels of 8 bits, if it says how exact they are. */
gale_status gale__look_program(const gale__look_plan *plan, gale_device *device, gale_program **out)
{
    gale__look_plan p = *plan;
    const gale_device_caps *caps = &gale_device_get_info(device)->caps;
    p.fast = plan->bits == 8 && caps->own_math;
    p.halves |= p.fast && caps->corners;
    const gale_program_options options = {.fast = p.fast};
    gale_graph *graph = NULL;
    GALE_TRY(gale__look_graph(&p, &graph));
    gale_status status = gale_program_create(graph, device, &options, out);
    gale_graph_destroy(&graph);
    return status;
}
