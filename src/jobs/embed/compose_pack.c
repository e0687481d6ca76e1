/* Packing: an encoder's graph for rows that hold several texts one after the other.
 *
 * Masks and biases of an attention's scores stay, and tokens of other texts are hidden in addition, so that it does not
 * matter how an exporter wrote them.  Positions that are counted along a row are read
 * at the place that a token has in its own text.  Rotary embeddings and biases by distance are the same anywhere in a
 * row.  Whether the result is right is not proved here: vectors of packed texts are compared with those of single ones
 * before any are used (encoder_pack.c). */
#include "jobs/embed/compose_nodes.h"

/* What a value depends on: token ids, types or given positions; products, so that it is not a mask; a count along the
 * row. */
enum { TOKENS = 1, PRODUCT = 2, COUNTED = 4 };
enum { ADDED, KEPT, HIDDEN, POSITIONS, KINDS };

typedef struct packer {
    gale__composer *c;
    gale__onnx_names maker, traits; /* by value: its node, its bits */
    gale__onnx_names made[KINDS];   /* by value: the node that takes its place */
    gale__pb_text same;             /* [rows, 1, tokens, tokens]: of one text */
    gale__pb_text far;              /* far below any score, */
    int far_type;                   /* of this type */
    bool places;
} packer;

static int bits_of(const packer *p, const gale__pb_text *name)
{
    int32_t bits = name->size ? gale__onnx_names_find(&p->traits, name->at, name->size) : 0;
    return bits < 0 ? 0 : bits;
}

static gale_status set_value(gale__onnx_names *names, const gale__pb_text *name, size_t value)
{
    return name->size ? gale__onnx_names_set(names, name->at, name->size, (int32_t)value) : GALE_OK;
}

static gale__pb_node *maker_of(const packer *p, const gale__pb_text *name)
{
    int32_t i = gale__onnx_names_find(&p->maker, name->at, name->size);
    return i < 0 ? NULL : &p->c->g->node.at[i];
}

static bool is_one_of(const gale__pb_text *text, const char *const *words)
{
    while (*words && !gale__pb_is(text, *words)) words++;
    return *words != NULL;
}

static gale_status find_node_traits(packer *p, size_t i)
{
    static const char *const shapes[] = {"Shape", "Size", NULL};
    static const char *const products[] = {"MatMul", "Gemm", "Einsum", "Attention", "Conv", "FusedMatMul",
        "MatMulInteger", "QLinearMatMul", "MatMulNBits", NULL};
    const gale__pb_node *n = &p->c->g->node.at[i];
    int bits = is_one_of(&n->op_type, products) ? PRODUCT : gale__pb_is(&n->op_type, "CumSum") ? COUNTED : 0;
    bool core = gale__pb_is_core(&n->domain);
    for (size_t k = 0; k < n->attribute.n; k++)
        if (n->attribute.at[k].g || n->attribute.at[k].graphs.n)
            return gale__fail(GALE_UNSUPPORTED, "%s has a graph of its own", n->op_type.at);
    if (!core && (strstr(n->op_type.at, "Attention") || strstr(n->op_type.at, "Embed")))
        return gale__fail(GALE_UNSUPPORTED, "%s.%s applies masks internally", n->domain.at, n->op_type.at);
    for (size_t k = 0; k < n->input.n && !(core && is_one_of(&n->op_type, shapes)); k++)
        bits |= bits_of(p, &n->input.at[k]);
    for (size_t k = 0; k < n->output.n; k++) {
        GALE_TRY(set_value(&p->traits, &n->output.at[k], (size_t)bits));
        GALE_TRY(set_value(&p->maker, &n->output.at[k], i));
    }
    return GALE_OK;
}

static gale_status find_traits(packer *p)
{
    static const gale__text_input tokens[] = {GALE__TEXT_IDS, GALE__TEXT_TYPES, GALE__TEXT_POSITIONS};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        gale__pb_text name = gale__compose_text(gale__text_input_names[tokens[i]]);
        GALE_TRY(set_value(&p->traits, &name, TOKENS));
    }
    for (size_t i = 0; i < p->c->g->node.n; i++) GALE_TRY(find_node_traits(p, i));
    return GALE_OK;
}

/* --- Attention. --- */

/* A number in f16 too. */
static gale__pb_text far_below(packer *p, int type)
{
    if (p->far.size && p->far_type == type) return p->far;
    p->far = gale__compose_constant(p->c, 1, NULL, -10000, 1);
    p->far_type = type;
    if (type > 1) {
        gale__pb_text number = p->far;
        gale__compose_set_int(gale__compose_add(p->c, "Cast", number, gale__compose_text(""), &p->far), "to", type);
    }
    return p->far;
}

static gale__pb_text replace(packer *p, int kind, gale__pb_text x, int type)
{
    switch (kind) {
    case ADDED: return gale__compose_where(p->c, p->same, x, far_below(p, type));
    case KEPT: return gale__compose_binary(p->c, "And", x, p->same);
    case HIDDEN: return gale__compose_binary(p->c, "Or", x, gale__compose_unary(p->c, "Not", p->same));
    default: break;
    }
    gale__pb_text out, places = gale__compose_text(GALE__PACK_PLACES);
    x = gale__compose_binary(p->c, "Expand", x, gale__compose_unary(p->c, "Shape", places));
    gale__compose_set_int(gale__compose_add(p->c, "GatherElements", x, places, &out), "axis", 1);
    return out;
}

/* The value in its new form, which all nodes that read it share. */
static gale_status take_place(packer *p, int kind, int type, gale__pb_text *input)
{
    int32_t found = gale__onnx_names_find(&p->made[kind], input->at, input->size);
    gale__pb_text before = *input;
    if (found < 0) {
        replace(p, kind, before, type);
        GALE_TRY(p->c->status);
        found = (int32_t)p->c->g->node.n - 1;
        GALE_TRY(set_value(&p->made[kind], &before, (size_t)found));
    }
    *input = p->c->g->node.at[found].output.at[0];
    return GALE_OK;
}

/* Scores that a bias was added to before the mask: mask and bias become one, so that attention stays one kernel. */
static gale_status join_biases(packer *p, gale__pb_text *scores, gale__pb_text *mask)
{
    const gale__pb_node *n = maker_of(p, scores);
    if (!n || !gale__pb_is(&n->op_type, "Add")) return GALE_OK;
    bool first = bits_of(p, &n->input.at[0]) & PRODUCT, second = bits_of(p, &n->input.at[1]) & PRODUCT;
    if (first == second) return GALE_OK;
    gale__pb_text inner = n->input.at[!first], bias = n->input.at[first];
    *mask = gale__compose_binary(p->c, "Add", bias, *mask);
    *scores = inner;
    return p->c->status;
}

/* Scores keep the mask or bias that is added to them, and become far below where the other token is of another text:
 * kernels of attention compare the numbers of the texts themselves.  Where a mask chooses between scores and a number,
 * it chooses for other texts too. */
static gale_status restrict_softmax(packer *p, const gale__onnx_names *types, gale__pb_node *softmax)
{
    static const char *const through[] = {"Cast", "Identity", NULL};
    gale__pb_text *x = &softmax->input.at[0];
    gale__pb_node *n = maker_of(p, x);
    if (!(bits_of(p, x) & PRODUCT)) return GALE_OK;
    while (n && is_one_of(&n->op_type, through)) n = maker_of(p, &n->input.at[0]);
    if (n && gale__pb_is(&n->op_type, "Add")) {
        bool first = bits_of(p, &n->input.at[0]) & PRODUCT, second = bits_of(p, &n->input.at[1]) & PRODUCT;
        if (first != second) GALE_TRY(join_biases(p, &n->input.at[!first], &n->input.at[first]));
    }
    if (n && gale__pb_is(&n->op_type, "Where") && !(bits_of(p, &n->input.at[0]) & PRODUCT)) {
        bool first = bits_of(p, &n->input.at[1]) & PRODUCT, second = bits_of(p, &n->input.at[2]) & PRODUCT;
        if (first != second) return take_place(p, first ? KEPT : HIDDEN, 0, &n->input.at[0]);
    }
    return take_place(p, ADDED, gale__edit_type_of(types, x), x);
}

/* ONNX's own operator: its mask is its fourth input. */
static gale_status restrict_operator(packer *p, const gale__onnx_names *types, gale__pb_node *n)
{
    for (size_t i = 4; i < n->input.n; i++)
        if (n->input.at[i].size) return gale__fail(GALE_UNSUPPORTED, "an attention keeps keys of earlier runs");
    if (n->input.n < 4 || !n->input.at[3].size) return gale__fail(GALE_UNSUPPORTED, "an attention has no mask");
    int type = gale__edit_type_of(types, &n->input.at[3]);
    return take_place(p, type == 9 ? KEPT : ADDED, type, &n->input.at[3]);
}

/* --- Positions. --- */

/* A table of vectors as wide as those of tokens, read by something other than the tokens. */
static gale_status restart_positions(packer *p, int64_t width, gale__pb_node *n)
{
    const gale__pb_graph *g = p->c->g;
    const gale__pb_attribute *axis = gale__pb_find_attribute(n, "axis");
    size_t k = 0;
    int bits = n->input.n == 2 ? bits_of(p, &n->input.at[1]) : TOKENS;
    if ((bits & PRODUCT) || ((bits & TOKENS) && !(bits & COUNTED)) || (axis && axis->i)) return GALE_OK;
    while (k < g->initializer.n && !gale__pb_text_equal(&g->initializer.at[k].name, &n->input.at[0])) k++;
    if (k == g->initializer.n || g->initializer.at[k].dims.n != 2 || g->initializer.at[k].dims.at[1] != width)
        return GALE_OK;
    p->places = true;
    return take_place(p, POSITIONS, 0, &n->input.at[1]);
}

static gale_status rewrite(packer *p, const gale__onnx_names *types, int64_t width)
{
    gale__pb_graph *g = p->c->g;
    gale__pb_text segments = gale__compose_text(GALE__PACK_SEGMENTS);
    gale__pb_text across = gale__compose_reshape(p->c, segments, (const int64_t[]){0, 1, 1, -1}, 4),
                  down = gale__compose_reshape(p->c, segments, (const int64_t[]){0, 1, -1, 1}, 4);
    size_t end = g->node.n;
    p->same = gale__compose_binary(p->c, "Equal", down, across);
    for (size_t i = 0; i < end; i++) {
        gale__pb_node *n = &g->node.at[i];
        if (!gale__pb_is_core(&n->domain)) continue;
        if (gale__pb_is(&n->op_type, "Softmax")) GALE_TRY(restrict_softmax(p, types, n));
        if (gale__pb_is(&n->op_type, "Attention")) GALE_TRY(restrict_operator(p, types, n));
        if (gale__pb_is(&n->op_type, "Gather")) GALE_TRY(restart_positions(p, width, n));
    }
    return p->c->status;
}

gale_status gale__compose_pack(gale__composer *c, int64_t width, bool *places)
{
    packer p = {.c = c};
    gale__onnx_names types = {0};
    gale_status status = c->opset < 11 ? gale__fail(GALE_UNSUPPORTED, "its opset is below 11") : GALE_OK;
    if (status == GALE_OK) status = gale__edit_types(c->g, &types);
    if (status == GALE_OK) status = find_traits(&p);
    if (status == GALE_OK) status = rewrite(&p, &types, width);
    *places = p.places;
    gale__onnx_names_finish(&types);
    gale__onnx_names_finish(&p.maker);
    gale__onnx_names_finish(&p.traits);
    for (int i = 0; i < KINDS; i++) gale__onnx_names_finish(&p.made[i]);
    return status;
}

/* Of each text of a row: its tokens have their weights, other tokens `none`. */
static gale__pb_text weigh_texts(gale__composer *c, const int64_t *across, const int64_t *down, size_t rank, float none)
{
    gale__pb_text segments = gale__compose_reshape(c, gale__compose_text(GALE__PACK_SEGMENTS), across, rank),
                  weights = gale__compose_reshape(c, gale__compose_text(GALE__POOL_INPUT), across, rank),
                  each = gale__compose_reshape(c, gale__compose_text(GALE__PACK_EACH), down, rank);
    return gale__compose_where(
        c, gale__compose_binary(c, "Equal", segments, each), weights, gale__compose_constant(c, 1, NULL, none, 1));
}

/* As a product with weights [rows, texts of a row, tokens], which are made where they are used, or maxima of sums with
 * them, [rows, tokens, texts of a row, dims]; then the rows of it that are texts. */
gale__pb_text gale__compose_pool_packed(gale__composer *c, gale__pb_text x, gale_pooling pooling)
{
    bool max = pooling == GALE_POOLING_MAX;
    gale__pb_text flat;
    if (max) {
        x = gale__compose_reshape(c, x, (const int64_t[]){0, 0, 1, -1}, 4);
        gale__pb_text added =
            weigh_texts(c, (const int64_t[]){0, -1, 1, 1}, (const int64_t[]){1, 1, -1, 1}, 4, GALE__POOL_NOTHING);
        x = gale__compose_reduce(c, "ReduceMax", gale__compose_binary(c, "Add", x, added), 1);
    } else
        x = gale__compose_binary(
            c, "MatMul", weigh_texts(c, (const int64_t[]){0, 1, -1}, (const int64_t[]){1, -1, 1}, 3, 0), x);
    gale__compose_set_int(gale__compose_add(c, "Flatten", x, gale__compose_text(""), &flat), "axis", max ? 3 : 2);
    return gale__compose_binary(c, "Gather", flat, gale__compose_text(GALE__PACK_TEXTS));
}
