/* Non-maximum suppression: a loop that takes the best remaining box of every class at once and drops boxes that
 * overlap it too much. */
#include "ops/select.h"
#include <math.h>

enum { LIVE, LOW_Y, LOW_X, HIGH_Y, HIGH_X, THRESHOLD, INPUTS };

/* Corners of boxes [B, S, 4] as four values [B, S]: given as two opposite ones in any order, or as centre and size. */
static void corners(gale__lower *L, gale__node boxes, gale__node *out)
{
    gale__prim_graph *g = L->g;
    gale__node c[4];
    bool centre = gale__attr_i(L, "center_point_box", 0);
    for (int i = 0; i < 4; i++) c[i] = gale__prim_squeeze(g, gale__prim_slice_axis(g, boxes, 2, i, 1), 1u << 2);
    for (int i = 0; i < 2; i++) {
        gale__node half = gale__prim_mul(g, c[i + 2], gale__lower_value(L, boxes, 0.5));
        gale__node a = centre ? gale__prim_sub(g, c[i], half) : c[i],
                   b = centre ? gale__prim_add(g, c[i], half) : c[i + 2];
        out[LOW_Y + i] = gale__prim_binary(g, GALE__MIN, a, b);
        out[HIGH_Y + i] = gale__prim_binary(g, GALE__MAX, a, b);
    }
}

static gale__node extent(gale__prim_graph *g, gale__node low, gale__node high)
{
    return gale__prim_binary(g, GALE__MAX, gale__prim_sub(g, high, low), gale__prim_scalar(g, GALE_F32, 0));
}

/* Which boxes [B, 1, S] overlap the chosen ones [B, C, 1] by more than the threshold; boxes without area never do. */
static gale__node overlapping(gale__prim_graph *b, const gale__node *box, const gale__node *best, gale__node threshold)
{
    gale__node y = extent(b, gale__prim_binary(b, GALE__MAX, box[LOW_Y], best[LOW_Y]),
        gale__prim_binary(b, GALE__MIN, box[HIGH_Y], best[HIGH_Y]));
    gale__node x = extent(b, gale__prim_binary(b, GALE__MAX, box[LOW_X], best[LOW_X]),
        gale__prim_binary(b, GALE__MIN, box[HIGH_X], best[HIGH_X]));
    gale__node shared = gale__prim_mul(b, y, x), none = gale__prim_scalar(b, GALE_F32, 0);
    gale__node area = gale__prim_mul(b, extent(b, box[LOW_Y], box[HIGH_Y]), extent(b, box[LOW_X], box[HIGH_X]));
    gale__node other = gale__prim_mul(b, extent(b, best[LOW_Y], best[HIGH_Y]), extent(b, best[LOW_X], best[HIGH_X]));
    gale__node share = gale__prim_div(b, shared, gale__prim_sub(b, gale__prim_add(b, area, other), shared));
    return gale__prim_binary(
        b, GALE__AND, gale__prim_binary(b, GALE__GT, shared, none), gale__prim_binary(b, GALE__GT, share, threshold));
}

/* One step: live [B, C, S] holds scores, minus infinity where a box is out; *chosen [B, C] is the best place, or -1. */
static gale__node suppress(gale__prim_graph *b, const gale__prim_node *scores, gale__node *chosen)
{
    int64_t n = scores->dims[0], s = scores->dims[2], boxes[2] = {n, s};
    gale__node in[INPUTS], best[INPUTS];
    in[LIVE] = gale__prim_input(b, LIVE, GALE_F32, 3, scores->dims);
    for (int i = LOW_Y; i <= HIGH_X; i++) in[i] = gale__prim_input(b, i, GALE_F32, 2, boxes);
    in[THRESHOLD] = gale__prim_input(b, THRESHOLD, GALE_F32, 0, NULL);
    gale__node out = gale__prim_scalar(b, GALE_F32, -INFINITY);
    gale__node at = gale__prim_reduce(b, GALE__ARGMAX, in[LIVE], 1u << 2, true),
               top = gale__prim_reduce(b, GALE__RMAX, in[LIVE], 1u << 2, true);
    gale__node row = gale__prim_mul(
        b, gale__prim_iota(b, 3, (int64_t[]){n, scores->dims[1], 1}, 0), gale__prim_splat_i(b, GALE_I64, 0, NULL, s));
    gale__node place = gale__prim_add(b, at, row);
    for (int i = LOW_Y; i <= HIGH_X; i++) {
        best[i] = gale__prim_take(b, in[i], place);
        in[i] = gale__prim_unsqueeze(b, in[i], 1u << 1);
    }
    gale__node same = gale__prim_binary(b, GALE__EQ, gale__prim_iota(b, 3, scores->dims, 2), at);
    gale__node gone = gale__prim_binary(b, GALE__OR, same, overlapping(b, in, best, in[THRESHOLD]));
    gale__node found = gale__prim_select(
        b, gale__prim_binary(b, GALE__GT, top, out), at, gale__prim_splat_i(b, GALE_I64, 0, NULL, -1));
    *chosen = gale__prim_squeeze(b, found, 1u << 2);
    return gale__prim_select(b, gone, out, in[LIVE]);
}

/* The places chosen in each of `trips` steps: [trips, B, C], -1 where nothing was left. */
static gale__node choose(gale__lower *L, const gale__node *inputs, int64_t trips)
{
    gale__prim_graph *body = gale__lower_body_begin(L);
    gale__node out[2];
    if (!body) return GALE__NIL;
    gale__prim_node scores = gale__lower_peek(L->g, inputs[LIVE]);
    out[0] = suppress(body, &scores, &out[1]);
    gale__prim_loop_args loop = {
        .body = body, .trips = trips, .n_carried = 1, .n_constant = INPUTS - 1, .n_stacked = 1, .out = out};
    return gale__prim_loop_out(L->g, gale__lower_body_end(L, &loop, inputs), 1);
}

/* Batch, class and box of every choice [trips, B, C] that is one, in that order of importance. */
static void list(gale__lower *L, gale__node choices)
{
    gale__prim_graph *g = L->g;
    gale__prim_node p = gale__lower_peek(g, choices);
    int64_t total = p.dims[0] * p.dims[1] * p.dims[2];
    gale__node count, flat = gale__prim_reshape(g, gale__prim_permute(g, choices, (int[]){1, 2, 0}), 1, &total);
    gale__node places = gale__lower_chosen(L, gale__prim_binary(g, GALE__GE, flat, gale__lower_index(L, 0)), &count),
               pair = gale__prim_div(g, places, gale__lower_index(L, p.dims[0]));
    gale__node row[3] = {gale__prim_div(g, pair, gale__lower_index(L, p.dims[2])),
        gale__prim_binary(g, GALE__REM, pair, gale__lower_index(L, p.dims[2])), gale__prim_take(g, flat, places)};
    for (int i = 0; i < 3; i++) row[i] = gale__prim_unsqueeze(g, row[i], 1u << 1);
    L->out[0] = gale__prim_concat(g, 1, row, 3);
    gale__lower_give(L, 1, count);
}

LOWER(NonMaxSuppressionPadded)
{
    gale__prim_graph *g = L->g;
    gale__prim_node boxes = gale__lower_peek(g, L->in[0]), scores = gale__lower_peek(g, L->in[1]);
    int64_t n = 0;
    const int64_t *most = gale__lower_known_ints(L, 2, &n);
    bool fits = boxes.rank == 3 && scores.rank == 3 && boxes.dims[2] == 4 && boxes.dims[0] == scores.dims[0] &&
                boxes.dims[1] == scores.dims[2];
    if (!fits) gale__lower_refuse(L, "boxes must be [batches, boxes, 4] and scores [batches, classes, boxes]");
    if (!gale__lower_good(L)) return;
    int64_t trips = most && n > 0 && most[0] > 0 ? most[0] : 0;
    if (trips > boxes.dims[1]) trips = boxes.dims[1];
    if (trips * scores.dims[0] * scores.dims[1] == 0) {
        L->out[0] = gale__prim_splat_i(g, GALE_I64, 2, (int64_t[]){0, 3}, 0);
        gale__lower_give(L, 1, gale__lower_index(L, 0));
        return;
    }
    gale__node in[INPUTS], x = gale__prim_cast(g, L->in[1], GALE_F32), overlap = gale__lower_arg(L, 3),
                           least = gale__lower_arg(L, 4);
    in[LIVE] = x;
    if (least >= 0) {
        gale__node enough =
            gale__prim_binary(g, GALE__GT, x, gale__prim_cast(g, gale__prim_reshape(g, least, 0, NULL), GALE_F32));
        in[LIVE] = gale__prim_select(g, enough, x, gale__lower_value(L, x, -INFINITY));
    }
    corners(L, gale__prim_cast(g, L->in[0], GALE_F32), in);
    in[THRESHOLD] = overlap >= 0 ? gale__prim_cast(g, gale__prim_reshape(g, overlap, 0, NULL), GALE_F32)
                                 : gale__prim_scalar(g, GALE_F32, 0);
    list(L, choose(L, in, trips));
}
