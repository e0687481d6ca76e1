/* Convolutions over three channels as matrix units take them: with a fourth channel, and in blocks of 2 x 2 pixels
 * where windows are two pixels apart.  Their results are those of the convolution as it is written. */
#include "graph_run.h"

typedef struct row {
    gale_type type;
    int64_t size[2], window[2], stride[2], low[2], high[2];
    double zero;    /* of bytes */
    int64_t copied; /* channels that are laid out; 0: none */
} row;

static const row rows[] = {
    {GALE_F16, {8, 8}, {7, 7}, {2, 2}, {3, 3}, {3, 3}, 0, 16},
    {GALE_F16, {9, 12}, {5, 5}, {2, 2}, {1, 1}, {1, 1}, 0, 16},
    {GALE_F16, {9, 12}, {5, 6}, {2, 2}, {0, 0}, {1, 0}, 0, 16},
    {GALE_BF16, {9, 11}, {6, 6}, {2, 2}, {0, 0}, {0, 0}, 0, 16}, /* the last row and column belong to no window */
    {GALE_F16, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 4},
    {GALE_F16, {6, 7}, {5, 5}, {2, 1}, {1, 1}, {1, 1}, 0, 4},
    {GALE_F16, {6, 6}, {3, 3}, {2, 2}, {0, 0}, {0, 0}, 0, 4},
    {GALE_U8, {9, 8}, {7, 7}, {2, 2}, {3, 3}, {3, 3}, 2, 16},
    {GALE_I8, {9, 8}, {5, 5}, {2, 2}, {0, 0}, {0, 0}, 0, 16},
    {GALE_I8, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, -3, 4},
    {GALE_F32, {8, 8}, {7, 7}, {2, 2}, {3, 3}, {3, 3}, 0, 0},
};

static gale__node convolution(gr_graph *t, const row *r, gale__node x, gale__node w, bool wide)
{
    bool bytes = r->type == GALE_U8 || r->type == GALE_I8;
    gale__prim_conv_args c = {.spatial = 2,
        .groups = 1,
        .stride = {r->stride[0], r->stride[1], 1},
        .dilation = {1, 1, 1},
        .input_dilation = {1, 1, 1},
        .low = {r->low[0], r->low[1]},
        .high = {r->high[0], r->high[1]}};
    gale_type type = bytes ? GALE_I32 : GALE_F32;
    t->g.pixel_blocks = wide;
    t->g.integer_products = t->g.zero_points_outside = wide && bytes;
    x = gale__prim_cast(&t->g, x, type);
    if (r->zero != 0) x = gale__prim_sub(&t->g, x, gale__prim_scalar(&t->g, type, r->zero));
    return gale__prim_conv(&t->g, x, gale__prim_cast(&t->g, w, type), &c);
}

/* Channels of the first value that was laid out. */
static int64_t copied_channels(const gale__prim_graph *g)
{
    for (int32_t i = 0; i < g->count; i++)
        if (g->nodes[i].op == GALE__PRIM_COPY) return g->nodes[i].dims[g->nodes[i].rank - 1];
    return 0;
}

TEST(results_stay)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        gr_graph t;
        void *have[2] = {0};
        gr_begin(&t);
        gale__node x = gr_input(&t, r->type, 4, (int64_t[]){2, 3, r->size[0], r->size[1]}),
                   w = gr_input(
                       &t, r->type == GALE_U8 ? GALE_I8 : r->type, 4, (int64_t[]){5, 3, r->window[0], r->window[1]});
        gale__node out[2] = {convolution(&t, r, x, w, false), convolution(&t, r, x, w, true)};
        if (CHECK_OK(t.g.status) && CHECK_OK(gale__reference_run(&t.g, (const void *const *)t.inputs, out, 2, have))) {
            const gale__prim_node *p = gale__prim_at(&t.g, out[0]);
            CHECK(gr_difference((gale_type)p->type, have[0], have[1], gale__prim_elements(&t.g, out[0])) < 1e-5);
            if (!CHECK_EQ(copied_channels(&t.g), r->copied)) printf("  row %zu\n", i);
        }
        for (int k = 0; k < 2; k++) gale__free(have[k]);
        gr_end(&t);
    }
}

TESTS(ROW(results_stay))
