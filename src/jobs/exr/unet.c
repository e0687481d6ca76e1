/* Light goes through the network in perceptual terms (PU, scaled so that the largest half is 1), and comes back. */
#include "jobs/exr/unet.h"
#include "jobs/exr/maker.h"
#include <math.h>
#include <stdio.h>

typedef struct net {
    gale__maker m;
    const gale__tza *weights;
} net;

/* The curve in three pieces: A y | B y^C + D | E log(y + F) + G. */
static const double A = 1.41283765e+03, B = 1.64593172e+00, C = 4.31384981e-01, D = -2.94139609e-03, E = 1.92653254e-01,
                    F = 6.26026094e-03, G = 9.98620152e-01, Y0 = 1.57945760e-06, Y1 = 3.22087631e-02,
                    X0 = 2.23151711e-03, X1 = 3.70974749e-01;
static double top(void) { return E * log(65504 + F) + G; }

static gale_value below(net *n, gale_value x, double limit, gale_value yes, gale_value no)
{
    gale__maker *m = &n->m;
    return gale__make_select(m, gale__make_2(m, "LessOrEqual", x, gale__make_number(m, limit)), yes, no);
}

static gale_value forward(net *n, gale_value y)
{
    gale__maker *m = &n->m;
    gale_value power = gale__make_2(m, "Pow", y, gale__make_number(m, C));
    gale_value bright = gale__make_affine(m, gale__make_1(m, "Log", gale__make_affine(m, y, 1, F)), E, G);
    gale_value v = below(n, y, Y1, gale__make_affine(m, power, B, D), bright);
    return gale__make_affine(m, below(n, y, Y0, gale__make_affine(m, y, A, 0), v), 1 / top(), 0);
}

static gale_value inverse(net *n, gale_value x)
{
    gale__maker *m = &n->m;
    x = gale__make_affine(m, x, top(), 0);
    gale_value base = gale__make_2(m, "Max", gale__make_affine(m, x, 1 / B, -D / B), gale__make_number(m, 0));
    gale_value power = gale__make_2(m, "Pow", base, gale__make_number(m, 1 / C));
    gale_value bright = gale__make_affine(m, gale__make_1(m, "Exp", gale__make_affine(m, x, 1 / E, -G / E)), 1, -F);
    return below(n, x, X0, gale__make_affine(m, x, 1 / A, 0), below(n, x, X1, power, bright));
}

/* A convolution of 3 x 3 by its name, then what is negative to 0. */
static gale_value conv(net *n, gale_value x, const char *name)
{
    static const int64_t one[4] = {1, 1, 1, 1};
    const gale_attr pads = GALE_INTS("pads", one, 4);
    char key[64];
    gale__maker *m = &n->m;
    snprintf(key, sizeof key, "%s.weight", name);
    const gale__tza_tensor *w = gale__tza_find(n->weights, key);
    snprintf(key, sizeof key, "%s.bias", name);
    const gale__tza_tensor *b = gale__tza_find(n->weights, key);
    if (m->status == GALE_OK && (!w || !b || w->rank != 4 || b->rank != 1))
        m->status = gale__fail(GALE_FORMAT, "weights: layer %s is missing", name);
    if (m->status != GALE_OK) return GALE_NONE;
    gale_value in[3] = {x, gale__make_floats(m, 4, w->dims, w->values), gale__make_floats(m, 1, b->dims, b->values)};
    return gale__make_1(m, "Relu", gale__make_op(m, "Conv", in, 3, &pads, 1));
}

static gale_value pool(net *n, gale_value x)
{
    static const int64_t two[2] = {2, 2};
    const gale_attr attrs[] = {GALE_INTS("kernel_shape", two, 2), GALE_INTS("strides", two, 2)};
    return gale__make_op(&n->m, "MaxPool", &x, 1, attrs, 2);
}

/* Twice as large, each value four times; beside it what was there at that size. */
static gale_value up(net *n, gale_value x, gale_value beside)
{
    static const int64_t four = 4;
    static const float scales[4] = {1, 1, 2, 2};
    const gale_attr attrs[] = {GALE_STRING_ATTR("mode", "nearest"),
        GALE_STRING_ATTR("coordinate_transformation_mode", "asymmetric"), GALE_STRING_ATTR("nearest_mode", "floor")};
    const gale_attr axis = GALE_INT("axis", 1);
    gale_value larger = gale__make_op(
        &n->m, "Resize", (gale_value[]){x, GALE_NONE, gale__make_floats(&n->m, 1, &four, scales)}, 3, attrs, 3);
    return gale__make_op(&n->m, "Concat", (gale_value[]){larger, beside}, 2, &axis, 1);
}

static gale_value layers(net *n, gale_value x)
{
    gale_value half = pool(n, conv(n, conv(n, x, "enc_conv0"), "enc_conv1"));
    gale_value quarter = pool(n, conv(n, half, "enc_conv2")), eighth = pool(n, conv(n, quarter, "enc_conv3"));
    gale_value v = conv(n, conv(n, pool(n, conv(n, eighth, "enc_conv4")), "enc_conv5a"), "enc_conv5b");
    v = conv(n, conv(n, up(n, v, eighth), "dec_conv4a"), "dec_conv4b");
    v = conv(n, conv(n, up(n, v, quarter), "dec_conv3a"), "dec_conv3b");
    v = conv(n, conv(n, up(n, v, half), "dec_conv2a"), "dec_conv2b");
    return conv(n, conv(n, conv(n, up(n, v, x), "dec_conv1a"), "dec_conv1b"), "dec_conv0");
}

/* Light, albedo and normals to 0..1. */
static gale_value prepared(net *n, gale_value x, gale_value scale, int channels)
{
    gale__maker *m = &n->m;
    const gale_attr axis = GALE_INT("axis", 1);
    gale_value light = gale__make_slice(m, x, 1, 0, 3), zero = gale__make_number(m, 0);
    light = gale__make_select(m, gale__make_2(m, "Greater", light, zero), light, zero);
    light = gale__make_2(m, "Min", gale__make_2(m, "Mul", light, scale), gale__make_number(m, 65504));
    light = forward(n, light);
    if (channels == 3) return light;
    gale_value one = gale__make_number(m, 1);
    gale_value albedo =
        gale__make_op(m, "Clip", (gale_value[]){gale__make_slice(m, x, 1, 3, 6), zero, one}, 3, NULL, 0);
    gale_value normal = gale__make_op(
        m, "Clip", (gale_value[]){gale__make_slice(m, x, 1, 6, 9), gale__make_number(m, -1), one}, 3, NULL, 0);
    normal = gale__make_affine(m, normal, 0.5, 0.5);
    return gale__make_op(m, "Concat", (gale_value[]){light, albedo, normal}, 3, &axis, 1);
}

int gale__unet_channels(const gale__tza *weights)
{
    const gale__tza_tensor *w = gale__tza_find(weights, "enc_conv0.weight");
    int channels = w && w->rank == 4 ? (int)w->dims[1] : 0;
    return channels == 3 || channels == 9 ? channels : 0;
}

gale_status gale__unet_graph(const gale__tza *weights, int64_t width, int64_t height, gale_graph **out)
{
    net n = {.weights = weights};
    int channels = gale__unet_channels(weights);
    const int64_t dims[4] = {1, channels, height, width}, single = 1;
    gale_value x = GALE_NONE, scale = GALE_NONE;
    if (!channels)
        return gale__fail(GALE_UNSUPPORTED,
            "weights: unsupported network inputs: neither colours only nor colours, albedo and normals");
    GALE_TRY(gale_graph_create(&n.m.graph));
    gale__maker *m = &n.m;
    m->status = gale_graph_input(m->graph, "planes", GALE_F32, 4, dims, NULL, &x);
    if (m->status == GALE_OK) m->status = gale_graph_input(m->graph, "scale", GALE_F32, 1, &single, NULL, &scale);
    gale_value v = inverse(&n, layers(&n, prepared(&n, x, scale, channels)));
    v = gale__make_2(m, "Div", v, scale);
    if (m->status == GALE_OK) m->status = gale_graph_output(m->graph, "light", v);
    if (m->status == GALE_OK) *out = m->graph;
    else gale_graph_destroy(&m->graph);
    return m->status;
}
