/* Convolutions, and reading the attributes they share with pools. */
#include "ops/spatial.h"
#include <string.h>

#define WIDEST (1 << 24) /* window, which padding alone could fill */

bool gale__lower_read_ints(gale__lower *L, const char *name, int n, int64_t fallback, int64_t *out)
{
    int count;
    const int64_t *v = gale__attr_ints(L, name, &count);
    if (v && count != n) gale__lower_refuse(L, "attribute '%s' has %d numbers instead of %d", name, count, n);
    for (int i = 0; i < n; i++) {
        out[i] = v && count == n ? v[i] : fallback;
        if (out[i] > INT32_MAX || out[i] < -INT32_MAX)
            gale__lower_refuse(L, "attribute '%s' has the invalid value %lld", name, (long long)out[i]);
    }
    return gale__lower_good(L);
}

/* SAME: as many outputs as strides fit; the odd one of the padding goes to the end (UPPER) or the start (LOWER). */
static void same_padding(gale__windows *w, bool upper)
{
    for (int i = 0; i < w->n; i++) {
        int64_t out = (w->in[i] + w->stride[i] - 1) / w->stride[i],
                total = (out - 1) * w->stride[i] + gale__windows_reach(w, i) - w->in[i];
        if (total < 0) total = 0;
        w->low[i] = upper ? total / 2 : total - total / 2;
        w->high[i] = total - w->low[i];
    }
}

static bool read_padding(gale__lower *L, gale__windows *w)
{
    const char *automatic = gale__attr_s(L, "auto_pad", "NOTSET");
    int64_t pads[6];
    bool same = !strncmp(automatic, "SAME_", 5);
    if (!gale__lower_read_ints(L, "pads", 2 * w->n, 0, pads)) return false;
    bool valid = !strcmp(automatic, "VALID");
    for (int i = 0; i < w->n; i++) w->low[i] = valid ? 0 : pads[i], w->high[i] = valid ? 0 : pads[w->n + i];
    if (same) same_padding(w, !strcmp(automatic, "SAME_UPPER"));
    else if (!valid && strcmp(automatic, "NOTSET") && *automatic)
        gale__lower_refuse(L, "unknown auto_pad '%s'", automatic);
    return gale__lower_good(L);
}

bool gale__windows_read(gale__lower *L, gale__node x, const int64_t *kernel, gale__windows *w)
{
    gale__prim_node p = gale__lower_peek(L->g, x);
    memset(w, 0, sizeof *w);
    w->n = p.rank - 2;
    if (w->n < 1 || w->n > 3) gale__lower_refuse(L, "the input has rank %d; supported are 3 to 5", p.rank);
    if (!gale__lower_good(L)) return false;
    for (int i = 0; i < w->n; i++) w->in[i] = p.dims[2 + i];
    if (kernel) memcpy(w->kernel, kernel, w->n * sizeof *kernel);
    else if (!gale__lower_read_ints(L, "kernel_shape", w->n, 1, w->kernel)) return false;
    if (!gale__lower_read_ints(L, "strides", w->n, 1, w->stride) ||
        !gale__lower_read_ints(L, "dilations", w->n, 1, w->dilation))
        return false;
    for (int i = 0; i < w->n; i++)
        if (w->stride[i] < 1 || w->dilation[i] < 1 || w->kernel[i] < 1)
            gale__lower_refuse(L, "strides, dilations and kernels must be at least 1");
        else if (w->kernel[i] > WIDEST)
            gale__lower_refuse(L, "invalid window of %lld elements", (long long)w->kernel[i]);
    if (!gale__lower_good(L) || !read_padding(L, w)) return false;
    bool up = gale__attr_i(L, "ceil_mode", 0);
    for (int i = 0; i < w->n; i++) {
        int64_t room = w->in[i] + w->low[i] + w->high[i] - gale__windows_reach(w, i);
        bool fits =
            room >= 0 ||
            (up && room > -w->stride[i]); /* rounding up, the first window may hang over the end as the last one may */
        if (!fits)
            return gale__lower_refuse(L, "a window of %lld exceeds axis %d of extent %lld",
                       (long long)gale__windows_reach(w, i), 2 + i, (long long)w->in[i]) >= 0;
        w->out[i] = (up ? (room + w->stride[i] - 1) / w->stride[i] : room / w->stride[i]) + 1;
        /* A window that would start behind the picture is none. */
        if (up && (w->out[i] - 1) * w->stride[i] >= w->in[i] + w->low[i]) w->out[i]--;
    }
    return true;
}

static gale__prim_conv_args conv_of(const gale__windows *w, int64_t groups)
{
    gale__prim_conv_args c = {.spatial = w->n, .groups = groups};
    for (int i = 0; i < 3; i++) {
        bool in = i < w->n;
        c.stride[i] = in ? w->stride[i] : 1, c.dilation[i] = in ? w->dilation[i] : 1, c.input_dilation[i] = 1;
        c.low[i] = in ? w->low[i] : 0, c.high[i] = in ? w->high[i] : 0;
    }
    return c;
}

/* The bias joins before the sum is rounded to a half float. */
static gale__node finish(gale__lower *L, gale__node y)
{
    gale__node bias = gale__lower_arg(L, 2);
    gale__prim_node b = gale__lower_peek(L->g, bias), p = gale__lower_peek(L->g, y);
    bool fits = b.type == gale__lower_type_of(L->g, L->in[0]) || b.type == p.type; /* of the values, or of their sums */
    if (bias >= 0 && gale__lower_good(L) && (b.rank != 1 || b.dims[0] != p.dims[1] || !fits)) {
        gale__lower_refuse(L, "the bias must have one %s for each of %lld channels",
            gale_type_name(gale__lower_type_of(L->g, L->in[0])), (long long)p.dims[1]);
        return GALE__NIL;
    }
    if (bias >= 0)
        y = gale__prim_add(L->g, y, gale__lower_along(L, gale__lower_wide(L, bias), gale__lower_rank_of(L->g, y), 1));
    return gale__prim_cast(L->g, y, gale__lower_type_of(L->g, L->in[0]));
}

gale__node gale__lower_convolve(gale__lower *L, gale__node x, gale__node kernel)
{
    gale__windows w;
    gale__prim_node k = gale__lower_peek(L->g, kernel);
    if (k.rank != gale__lower_rank_of(L->g, x))
        gale__lower_refuse(L, "the input has rank %d but the kernel %d", gale__lower_rank_of(L->g, x), k.rank);
    if (!gale__lower_good(L) || !gale__windows_read(L, x, k.dims + 2, &w)) return GALE__NIL;
    gale__prim_conv_args c = conv_of(&w, gale__attr_i(L, "group", 1));
    return gale__prim_conv(L->g, x, kernel, &c);
}

LOWER(Conv)
{
    L->out[0] = finish(L, gale__lower_convolve(L, gale__lower_wide(L, L->in[0]), gale__lower_wide(L, L->in[1])));
}

/* Output extents of the transposed convolution; given extents decide the padding. */
static bool transposed_extents(gale__lower *L, gale__windows *w, int64_t *extent)
{
    const char *automatic = gale__attr_s(L, "auto_pad", "NOTSET");
    int64_t extra[3], wanted[3];
    int count;
    bool same = !strncmp(automatic, "SAME_", 5), given = gale__attr_ints(L, "output_shape", &count) != NULL;
    if (!gale__lower_read_ints(L, "output_padding", w->n, 0, extra)) return false;
    /* Some exporters give the whole shape. */
    if (given && count == w->n + 2)
        memcpy(wanted, gale__attr_ints(L, "output_shape", &count) + 2, w->n * sizeof *wanted);
    else if (!gale__lower_read_ints(L, "output_shape", w->n, 0, wanted)) return false;
    for (int i = 0; i < w->n; i++) {
        int64_t full = w->stride[i] * (w->in[i] - 1) + extra[i] + gale__windows_reach(w, i);
        if (same && !given) wanted[i] = w->in[i] * w->stride[i];
        if (same || given) {
            int64_t total = full - wanted[i] > 0 ? full - wanted[i] : 0;
            w->low[i] = !strcmp(automatic, "SAME_UPPER") ? total / 2 : total - total / 2;
            extent[i] = wanted[i];
        } else {
            extent[i] = full - w->low[i] - w->high[i];
        }
    }
    return true;
}

LOWER(ConvTranspose)
{
    gale__windows w = {0};
    gale__prim_node x = gale__lower_peek(L->g, L->in[0]), k = gale__lower_peek(L->g, L->in[1]);
    int64_t extent[3], pads[6];
    w.n = x.rank - 2;
    if (k.rank != x.rank || w.n < 1 || w.n > 3)
        gale__lower_refuse(L, "the input has rank %d but the kernel %d", x.rank, k.rank);
    if (!gale__lower_good(L)) return;
    for (int i = 0; i < w.n; i++) w.in[i] = x.dims[2 + i], w.kernel[i] = k.dims[2 + i];
    if (!gale__lower_read_ints(L, "strides", w.n, 1, w.stride) ||
        !gale__lower_read_ints(L, "dilations", w.n, 1, w.dilation) ||
        !gale__lower_read_ints(L, "pads", 2 * w.n, 0, pads))
        return;
    for (int i = 0; i < w.n; i++) w.low[i] = pads[i], w.high[i] = pads[w.n + i];
    if (!transposed_extents(L, &w, extent)) return;
    gale__prim_conv_args c = conv_of(&w, gale__attr_i(L, "group", 1));
    L->out[0] = finish(
        L, gale__prim_conv_transpose(L->g, gale__lower_wide(L, L->in[0]), gale__lower_wide(L, L->in[1]), &c, extent));
}
