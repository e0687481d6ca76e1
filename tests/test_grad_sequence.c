/* Gradients of attention and of recurrent layers, by finite differences: operators whose lowering has loops, masks and
 * caches. */
#include "grad_check.h"
#include "graph/build/opgraph.h"

/* Output 0 of an operator, its inputs in their places; -1: left out. */
static gale__node lower(
    gale__prim_graph *g, const char *name, const gale__node *in, int n, const gale_attr *attrs, int n_attrs)
{
    gale__node out[3] = {GALE__NIL, GALE__NIL, GALE__NIL};
    gale__op_node node = {.op = gale__op_find(name),
        .name = name,
        .n_in = n,
        .n_out = 1,
        .attrs = (gale_attr *)attrs,
        .n_attrs = n_attrs};
    gale__lower L = {.g = g, .node = &node, .in = in, .out = out, .n_in = n, .n_out = 1};
    if (CHECK(node.op != NULL) && g->status == GALE_OK) node.op->lower(&L);
    return out[0];
}
#define LOWERED(name, inputs, ...)                                                                     \
    lower(g, name, inputs, (int)(sizeof(inputs) / sizeof *(inputs)), (const gale_attr[]){__VA_ARGS__}, \
        (int)(sizeof((const gale_attr[]){__VA_ARGS__}) / sizeof(gale_attr)))

static gale__node lengths(gale__prim_graph *g, int64_t a, int64_t b)
{
    return gale__prim_const(g, GALE_I64, DIMS(2), (int64_t[]){a, b});
}

static gale__node make_attention(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], x[2], x[3], x[4], x[5]};
    return LOWERED("Attention", in, GALE_INT("is_causal", 1), GALE_FLOAT("softcap", 2));
}
static gale__node make_attention_lengths(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], x[2], GALE__NIL, GALE__NIL, GALE__NIL, lengths(g, 3, 1)};
    return LOWERED("Attention", in, GALE_INT("q_num_heads", 2), GALE_INT("kv_num_heads", 1));
}
static gale__node make_rnn(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], x[2], x[3], lengths(g, 3, 2), x[4]};
    return LOWERED("RNN", in, GALE_STRING_ATTR("direction", "reverse"));
}
static gale__node make_gru(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], x[2], x[3], GALE__NIL, x[4]};
    return LOWERED("GRU", in, GALE_STRING_ATTR("direction", "bidirectional"));
}
static gale__node make_gru_linear(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], x[2], x[3]};
    return LOWERED("GRU", in, GALE_INT("linear_before_reset", 1));
}
static gale__node make_lstm(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], x[2], x[3], lengths(g, 1, 3), x[4], x[5], x[6]};
    return LOWERED("LSTM", in, GALE_STRING_ATTR("direction", "forward"));
}
static gale__node make_linear_attention(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], x[2], x[3], x[4], x[5]};
    return LOWERED("LinearAttention", in, GALE_INT("q_num_heads", 2), GALE_INT("kv_num_heads", 1));
}
static gale__node make_causal_conv(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], x[2], x[3]};
    return LOWERED("CausalConvWithState", in, GALE_STRING_ATTR("activation", "silu"));
}
static gale__node make_rotary(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], x[2]};
    return LOWERED("RotaryEmbedding", in, GALE_INT("interleaved", 1));
}
static gale__node make_scatter(gale__prim_graph *g, const gale__node *x)
{
    const gale__node in[] = {x[0], x[1], lengths(g, 3, 1)};
    return LOWERED("TensorScatter", in, GALE_STRING_ATTR("mode", "circular"));
}

static const grad_case attention_cases[] = {
    {"attention", make_attention, -1, 1,
        {S(1, 4, 2, 3), S(1, 2, 2, 3), S(1, 2, 2, 2), S(2, 3), S(1, 2, 1, 3), S(1, 2, 1, 2)}, 0},
    {"attention by lengths", make_attention_lengths, -1, 1, {S(2, 2, 4), S(2, 3, 2), S(2, 3, 3)}, 0},
    {"linear attention", make_linear_attention, -0.7, 0.7,
        {S(1, 3, 4), S(1, 3, 2), S(1, 3, 3), S(1, 1, 2, 3), S(1, 3, 2), S(1, 3, 1)}, 1},
    {"causal convolution", make_causal_conv, -1, 1, {S(1, 2, 3), S(2, 1, 3), S(2), S(1, 2, 2)}, 0},
    {"rotary", make_rotary, -1, 1, {S(1, 2, 2, 4), S(1, 2, 2), S(1, 2, 2)}, 0},
    {"scatter", make_scatter, -1, 1, {S(2, 4, 2), S(2, 2, 2)}, 0},
};
static const grad_case layer_cases[] = {
    {"rnn", make_rnn, -1, 1, {S(3, 2, 2), S(1, 2, 2), S(1, 2, 2), S(1, 4), S(1, 2, 2)}, 1},
    {"gru", make_gru, -1, 1, {S(3, 1, 2), S(2, 6, 2), S(2, 6, 2), S(2, 12), S(2, 1, 2)}, 1},
    {"gru, linear before reset", make_gru_linear, -1, 1, {S(3, 1, 2), S(1, 6, 2), S(1, 6, 2), S(1, 12)}, 1},
    {"lstm", make_lstm, -1, 1, {S(3, 2, 2), S(1, 8, 2), S(1, 8, 2), S(1, 16), S(1, 2, 2), S(1, 2, 2), S(1, 6)}, 1},
};

TEST(attention)
{
    for (size_t i = 0; i < sizeof attention_cases / sizeof *attention_cases; i++) grad_check(&attention_cases[i]);
    CHECK_EQ(gale__alloc_live(), 0);
}

TEST(recurrent_layers)
{
    for (size_t i = 0; i < sizeof layer_cases / sizeof *layer_cases; i++) grad_check(&layer_cases[i]);
    CHECK_EQ(gale__alloc_live(), 0);
}

TESTS(ROW(attention), ROW(recurrent_layers))
