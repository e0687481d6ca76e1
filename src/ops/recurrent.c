/* RNN, GRU and LSTM.  The contribution of the inputs is one product for all steps; the loop has the product with the
 * state and the gates.  The reverse direction is the same loop from the last slice to the first; shorter sequences
 * keep their state after their end. */
#include "ops/recurrent.h"
#include "graph/plan/paths.h"
#include <string.h>

enum { X, W, R, B, LENGTHS, FIRST_H, FIRST_C, PEEPHOLES };
enum { INPUTS_MAX = 7 };

typedef struct cell cell;
typedef void cell_step(gale__lower *B, const cell *c, const gale__node *in, gale__node *state);
struct cell {
    int gates, n_states, n_functions;
    const char *const *defaults;
    cell_step *step;
    int64_t trips, batch, hidden;
    gale__activation function[3];
    double clip;
    bool linear_before_reset, input_forget, timed; /* timed: some sequences are shorter */
    bool late_hidden;                              /* the hidden gate's product waits for the reset gate */
    int recurrent, hidden_gate, bias, peepholes;   /* which input of the body; 0: none */
};

/* Gate k of [batch, gates * hidden]. */
static gale__node gate(gale__lower *L, const cell *c, gale__node x, int k)
{
    return gale__prim_slice_axis(L->g, x, 1, k * c->hidden, c->hidden);
}

static gale__node activate(gale__lower *L, const cell *c, int which, gale__node x)
{
    return gale__lower_activate(L, &c->function[which], c->clip, x);
}

static void rnn_step(gale__lower *L, const cell *c, const gale__node *in, gale__node *state)
{
    state[0] = activate(L, c, 0, gale__prim_add(L->g, in[1], gale__prim_matmul(L->g, in[0], in[c->recurrent])));
}

/* Gates in the order update, reset, hidden. */
static void gru_step(gale__lower *L, const cell *c, const gale__node *in, gale__node *state)
{
    gale__prim_graph *g = L->g;
    gale__node h = in[0], all = gale__prim_matmul(g, h, in[c->recurrent]), one = gale__lower_value(L, h, 1), back;
    gale__node update = activate(L, c, 0, gale__prim_add(g, gate(L, c, in[1], 0), gate(L, c, all, 0)));
    gale__node reset = activate(L, c, 0, gale__prim_add(g, gate(L, c, in[1], 1), gate(L, c, all, 1)));
    if (c->linear_before_reset) {
        back = gate(L, c, all, 2);
        if (c->bias) back = gale__prim_add(g, back, in[c->bias]);
        back = gale__prim_mul(g, reset, back);
    } else /* the product reads each element many times: it is made once */
        back = gale__prim_matmul(g, gale__prim_copy(g, gale__prim_mul(g, reset, h)), in[c->hidden_gate]);
    gale__node fresh = activate(L, c, 1, gale__prim_add(g, gate(L, c, in[1], 2), back));
    state[0] =
        gale__prim_add(g, gale__prim_mul(g, gale__prim_sub(g, one, update), fresh), gale__prim_mul(g, update, h));
}

/* Gates in the order input, output, forget, cell; peepholes input, output, forget. */
static void lstm_step(gale__lower *L, const cell *c, const gale__node *in, gale__node *state)
{
    gale__prim_graph *g = L->g;
    gale__node sum = gale__prim_add(g, in[2], gale__prim_matmul(g, in[0], in[c->recurrent])), old = in[1], peep[3],
               x[4];
    for (int k = 0; k < 4; k++) x[k] = gate(L, c, sum, k);
    for (int k = 0; c->peepholes && k < 3; k++)
        peep[k] = gale__prim_slice_axis(g, in[c->peepholes], 0, k * c->hidden, c->hidden);
    if (c->peepholes)
        x[0] = gale__prim_add(g, x[0], gale__prim_mul(g, peep[0], old)),
        x[2] = gale__prim_add(g, x[2], gale__prim_mul(g, peep[2], old));
    gale__node input = activate(L, c, 0, x[0]);
    gale__node forget =
        c->input_forget ? gale__prim_sub(g, gale__lower_value(L, input, 1), input) : activate(L, c, 0, x[2]);
    state[1] = gale__prim_add(g, gale__prim_mul(g, forget, old), gale__prim_mul(g, input, activate(L, c, 1, x[3])));
    if (c->peepholes) x[1] = gale__prim_add(g, x[1], gale__prim_mul(g, peep[1], state[1]));
    /* The clip is for what the gates are given; the cell's own value is not one of them. */
    state[0] = gale__prim_mul(g, activate(L, c, 0, x[1]), gale__lower_activate(L, &c->function[2], 0, state[1]));
}

/* --- One direction. --- */

/* Part d of the leading axis, without it. */
static gale__node part(gale__lower *L, gale__node x, int d)
{
    return x < 0 ? x : gale__prim_squeeze(L->g, gale__prim_slice_axis(L->g, x, 0, d, 1), 1);
}

/* [trips, batch, gates * hidden]: x by W and the biases that need not wait for the step. */
static gale__node input_part(gale__lower *L, const cell *c, gale__node x, int d, gale__node *late_bias)
{
    gale__prim_graph *g = L->g;
    const int turn[2] = {1, 0};
    int64_t columns = c->gates * c->hidden, rows[2] = {c->trips * c->batch, gale__lower_peek(g, x).dims[2]},
            dims[3] = {c->trips, c->batch, columns};
    gale__node w = gale__prim_permute(g, part(L, gale__lower_wide(L, L->in[W]), d), turn);
    gale__node y = gale__prim_matmul(g, gale__prim_reshape(g, x, 2, rows), w), bias = part(L, gale__lower_arg(L, B), d);
    if (bias >= 0) {
        bias = gale__lower_wide(L, bias);
        gale__node first = gale__prim_slice_axis(g, bias, 0, 0, columns),
                   second = gale__prim_slice_axis(g, bias, 0, columns, columns);
        if (c->linear_before_reset) {
            int64_t low = 0, high = c->hidden;
            *late_bias = gale__prim_slice_axis(g, second, 0, 2 * c->hidden, c->hidden);
            second = gale__prim_pad(g, gale__prim_slice_axis(g, second, 0, 0, 2 * c->hidden), &low, &high, NULL, 0);
        }
        y = gale__prim_add(g, y, gale__prim_add(g, first, second));
    }
    return gale__prim_reshape(g, y, 3, dims);
}

/* Whether step t of item b is within its length: [trips, batch, 1]. */
static gale__node timing(gale__lower *L, const cell *c)
{
    const int64_t dims[3] = {c->trips, c->batch, 1};
    gale__node lengths = gale__lower_along(L, gale__prim_cast(L->g, L->in[LENGTHS], GALE_I64), 3, 1);
    return gale__prim_binary(L->g, GALE__LT, gale__prim_iota(L->g, 3, dims, 0), lengths);
}

static void body_step(gale__lower *L, const cell *c, gale__prim_graph *body, const gale__node *in, gale__node *out)
{
    gale__lower inside = {.g = body, .node = L->node};
    c->step(&inside, c, in, out);
    out[c->n_states] = out[0];
    for (int i = 0; c->timed && i < c->n_states; i++)
        out[i] = gale__prim_select(body, in[c->n_states + 1], out[i], in[i]);
    if (c->timed)
        out[c->n_states] = gale__prim_select(
            body, in[c->n_states + 1], out[c->n_states], gale__lower_value(&inside, out[c->n_states], 0));
}

/* Whether the step is the one that routines know. */
static bool is_usual(const cell *c)
{
    for (int i = 0; i < c->n_functions; i++)
        if (strcmp(c->function[i].name, c->defaults[i])) return false;
    return c->clip == 0 && !c->input_forget && !c->late_hidden && !c->peepholes;
}

/* Recurrent weights [gates * hidden, hidden] as routines read them: [blocks of units, gates, hidden, units of a block].
 */
static gale__node blocked_weights(gale__lower *L, const cell *c, gale__node r)
{
    const int order[4] = {1, 0, 3, 2};
    int64_t blocks = (c->hidden + GALE__CELL_UNITS - 1) / GALE__CELL_UNITS, low[3] = {0},
            high[3] = {0, blocks * GALE__CELL_UNITS - c->hidden}, by_gate[3] = {c->gates, c->hidden, c->hidden},
            by_block[4] = {c->gates, blocks, GALE__CELL_UNITS, c->hidden};
    gale__node padded = gale__prim_pad(L->g, gale__prim_reshape(L->g, r, 3, by_gate), low, high, NULL, 0);
    return gale__prim_permute(L->g, gale__prim_reshape(L->g, padded, 4, by_block), order);
}

/* Offers the steps to a routine, with weights of this type: out is h of every step, then the last states. */
static bool offer_steps(
    gale__lower *L, const cell *c, const gale__node *inputs, gale__node weights, bool reverse, gale__node *out)
{
    gale_type type = gale__lower_type_of(L->g, weights);
    gale__node x = inputs[c->n_states], in[6] = {x, weights, inputs[0], inputs[1]}, before = out[0];
    if (type == GALE_F16) in[0] = gale__prim_cast(L->g, x, type); /* bf16 would lose too much */
    int n_in = 2 + c->n_states;
    if (c->bias) in[n_in++] = inputs[c->bias];
    if (c->timed) in[n_in++] = gale__prim_cast(L->g, L->in[LENGTHS], GALE_I32);
    gale_attr attrs[3] = {GALE_INT("kind", c->gates == 4   ? GALE__CELL_LSTM
                                           : c->gates == 3 ? GALE__CELL_GRU
                                                           : GALE__CELL_RNN),
        GALE_INT("reverse", reverse), GALE_INT("timed", c->timed)};
    gale__op_node node = {.name = "CellSteps",
        .path = gale__fast_paths_first("CellSteps"),
        .n_in = n_in,
        .n_out = 1 + c->n_states,
        .attrs = attrs,
        .n_attrs = 3,
        .body = L->node,
        .n_body = 1};
    gale_status status = gale__fast_paths_claim(L->g, L->device, &node, in, out);
    if (status != GALE_OK && gale__lower_good(L)) L->g->status = status;
    return out[0] != before;
}

/* Where the numbers are halves, so may the weights and the results of a routine be. */
static void claim_steps(gale__lower *L, const cell *c, const gale__node *inputs, int d, bool reverse, gale__node *out)
{
    if (!L->device || !gale__lower_good(L) || !is_usual(c)) return;
    gale__node weights = blocked_weights(L, c, part(L, gale__lower_wide(L, L->in[R]), d));
    gale_type type = gale__lower_type_of(L->g, L->in[X]);
    if (type == GALE_F16 || type == GALE_BF16) {
        gale__node narrow[3];
        for (int i = 0; i <= c->n_states; i++) narrow[i] = gale__prim_cast(L->g, out[i], type);
        if (offer_steps(L, c, inputs, gale__prim_cast(L->g, weights, type), reverse, narrow)) {
            memcpy(out, narrow, (size_t)(1 + c->n_states) * sizeof *out);
            return;
        }
    }
    if (gale__lower_good(L)) offer_steps(L, c, inputs, weights, reverse, out);
}

/* One direction: h of every step, then the last states. */
static void run_direction(
    gale__lower *L, cell *c, gale__node x, const gale__node *first, int d, bool reverse, gale__node *results)
{
    gale__node inputs[INPUTS_MAX], in[INPUTS_MAX], out[3], late = GALE__NIL;
    const int turn[2] = {1, 0};
    int n = 0;
    for (; n < c->n_states; n++) inputs[n] = part(L, first[n], d);
    inputs[n++] = input_part(L, c, x, d, &late);
    if (c->timed) inputs[n++] = timing(L, c);
    gale__prim_loop_args loop = {.trips = c->trips,
        .n_carried = c->n_states,
        .n_sliced = n - c->n_states,
        .n_stacked = 1,
        .out = out,
        .reverse = reverse};
    int at_once = c->gates - c->late_hidden;
    gale__node r = part(L, gale__lower_wide(L, L->in[R]), d); /* turned once for all steps */
    inputs[c->recurrent = n++] =
        gale__prim_permute(L->g, gale__prim_slice_axis(L->g, r, 0, 0, at_once * c->hidden), turn);
    if (c->late_hidden)
        inputs[c->hidden_gate = n++] =
            gale__prim_permute(L->g, gale__prim_slice_axis(L->g, r, 0, at_once * c->hidden, c->hidden), turn);
    c->bias = late >= 0 ? n : 0;
    if (late >= 0) inputs[n++] = late;
    c->peepholes = gale__lower_arg(L, PEEPHOLES) >= 0 ? n : 0;
    if (c->peepholes) inputs[n++] = part(L, gale__lower_wide(L, L->in[PEEPHOLES]), d);
    loop.n_constant = n - loop.n_carried - loop.n_sliced;
    if (!(loop.body = gale__lower_body_begin(L))) return;
    for (int i = 0; i < n; i++)
        in[i] = gale__lower_body_input(
            L, loop.body, i, inputs[i], i >= loop.n_carried && i < loop.n_carried + loop.n_sliced);
    for (int i = 0; i < 3; i++) out[i] = GALE__NIL;
    if (loop.body->status == GALE_OK) body_step(L, c, loop.body, in, out);
    gale__node made = gale__lower_body_end(L, &loop, inputs);
    for (int i = 0; i <= c->n_states; i++) results[i] = gale__prim_loop_out(L->g, made, i == 0 ? c->n_states : i - 1);
    claim_steps(L, c, inputs, d, reverse, results);
}

/* --- The operators. --- */

static bool has_shape(gale__lower *L, int i, int rank, int64_t a, int64_t b, int64_t c)
{
    const int64_t want[3] = {a, b, c};
    gale__prim_node p = gale__lower_peek(L->g, gale__lower_arg(L, i));
    if (gale__lower_arg(L, i) < 0 || (p.rank == rank && !memcmp(p.dims, want, (size_t)rank * sizeof *want)))
        return true;
    gale__lower_refuse(
        L, "input %d must have %d axes [%lld, %lld%s", i, rank, (long long)a, (long long)b, rank == 3 ? ", ...]" : "]");
    return false;
}

static bool read_cell(gale__lower *L, cell *c, int directions, bool batch_first)
{
    gale__prim_node x = gale__lower_peek(L->g, L->in[X]), r = gale__lower_peek(L->g, L->in[R]);
    if (x.rank != 3 || r.rank != 3) gale__lower_refuse(L, "X and R have %d and %d axes instead of 3", x.rank, r.rank);
    if (!gale__lower_good(L)) return false;
    c->trips = x.dims[batch_first], c->batch = x.dims[!batch_first], c->hidden = r.dims[2];
    c->clip = gale__attr_f(L, "clip", 0);
    c->timed = gale__lower_arg(L, LENGTHS) >= 0;
    int64_t rows = c->gates * c->hidden, d = directions;
    bool ok = has_shape(L, W, 3, d, rows, x.dims[2]) && has_shape(L, R, 3, d, rows, c->hidden) &&
              has_shape(L, B, 2, d, 2 * rows, 0);
    ok = ok && has_shape(L, LENGTHS, 1, c->batch, 0, 0) && has_shape(L, PEEPHOLES, 2, d, 3 * c->hidden, 0);
    for (int i = FIRST_H; ok && i < FIRST_H + c->n_states; i++)
        ok = has_shape(L, i, 3, batch_first ? c->batch : d, batch_first ? d : c->batch, c->hidden);
    return ok;
}

/* [directions, batch, hidden] of state i, zeros where it is not given. */
static gale__node first_state(gale__lower *L, const cell *c, int i, int directions, bool batch_first)
{
    const int turn[3] = {1, 0, 2};
    const int64_t dims[3] = {directions, c->batch, c->hidden};
    gale__node given = gale__lower_arg(L, FIRST_H + i);
    if (given < 0)
        return gale__prim_splat(L->g, gale__lower_wide_type(gale__lower_type_of(L->g, L->in[X])), 3, dims, 0);
    given = gale__lower_wide(L, given);
    return batch_first ? gale__prim_permute(L->g, given, turn) : given;
}

/* Results of the directions beside each other, in the layout and type asked for. */
static gale__node gather_directions(gale__lower *L, const gale__node *parts, int n, int axis, bool batch_first)
{
    gale__prim_graph *g = L->g;
    const int turn_all[4] = {2, 0, 1, 3}, turn_last[3] = {1, 0, 2};
    gale__node wide[2];
    for (int d = 0; d < n; d++) wide[d] = gale__prim_unsqueeze(g, parts[d], 1u << axis);
    gale__node y =
        gale__prim_cast(g, n > 1 ? gale__prim_concat(g, axis, wide, n) : wide[0], gale__lower_type_of(g, L->in[X]));
    return batch_first ? gale__prim_permute(g, y, axis ? turn_all : turn_last) : y;
}

static void lower_cell(gale__lower *L, cell *c)
{
    gale__prim_graph *g = L->g;
    const char *name = gale__attr_s(L, "direction", "forward");
    bool batch_first = gale__attr_i(L, "layout", 0) != 0, both = !strcmp(name, "bidirectional"),
         reverse = !strcmp(name, "reverse");
    const int turn[3] = {1, 0, 2};
    int directions = both ? 2 : 1;
    gale__node results[2][3], first[2], parts[2];
    if (!both && !reverse && strcmp(name, "forward")) gale__lower_refuse(L, "unknown direction '%s'", name);
    if (!gale__lower_good(L) || !read_cell(L, c, directions, batch_first)) return;
    gale__node x = gale__lower_wide(L, L->in[X]);
    if (batch_first) x = gale__prim_permute(g, x, turn);
    for (int i = 0; i < c->n_states; i++) first[i] = first_state(L, c, i, directions, batch_first);
    for (int d = 0; d < directions; d++) {
        if (!gale__activations_read(L, c->defaults, c->n_functions, d, c->function)) return;
        run_direction(L, c, x, first, d, reverse || d == 1, results[d]);
    }
    for (int o = 0; o < L->n_out; o++) {
        for (int d = 0; d < directions; d++) parts[d] = results[d][o];
        if (!gale__lower_good(L)) return;
        L->out[o] = gather_directions(L, parts, directions, o == 0, batch_first);
    }
}

static const char *const functions[] = {"Sigmoid", "Tanh", "Tanh"};

LOWER(RNN)
{
    cell c = {.gates = 1, .n_states = 1, .n_functions = 1, .defaults = functions + 1, .step = rnn_step};
    lower_cell(L, &c);
}

LOWER(GRU)
{
    cell c = {.gates = 3,
        .n_states = 1,
        .n_functions = 2,
        .defaults = functions,
        .step = gru_step,
        .linear_before_reset = gale__attr_i(L, "linear_before_reset", 0) != 0};
    c.late_hidden = !c.linear_before_reset;
    lower_cell(L, &c);
}

LOWER(LSTM)
{
    cell c = {.gates = 4,
        .n_states = 2,
        .n_functions = 3,
        .defaults = functions,
        .step = lstm_step,
        .input_forget = gale__attr_i(L, "input_forget", 0) != 0};
    lower_cell(L, &c);
}
