/* Mutations of a model that leave it one: other operators, attributes, extents, types and edges.  Flipped bits hardly
 * ever get past the reader; these reach what runs.  Everything follows from the seed. */
#ifndef GALE_FUZZ_MUTATE_MODEL_H
#define GALE_FUZZ_MUTATE_MODEL_H
#include "../tests/onnx_make.h"

typedef struct mutant {
    maker m;
    uint64_t random;
} mutant;

static uint32_t pick(mutant *u, size_t n) /* 0 .. n - 1 */
{
    u->random = u->random * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((u->random >> 33) % n) : 0;
}

static int64_t pick_number(mutant *u)
{
    static const int64_t few[] = {0, 1, -1, 2, -2, 3, 4, 5, 7, 8, 16, 255, 1000, INT32_MAX, INT32_MIN, INT64_MAX,
        INT64_MIN, 1ll << 32, 1ll << 40};
    return few[pick(u, pick(u, 3) ? 9 : sizeof few / sizeof *few)];
}

static const struct {
    const char *domain, *name;
} mutate_ops[] = {
#define X(Name, least, most, results, known, shape, text) {"", #Name},
#include "ops/ops.def"
#undef X
#define X(domain, Name, least, most, results, first, rest, anywhere, only, fn) {domain, #Name},
#include "onnx/host/host.def"
#undef X
};
static const char *const mutate_attributes[] = {"axis", "axes", "keepdims", "perm", "pads", "strides", "dilations",
    "kernel_shape", "group", "mode", "to", "alpha", "beta", "epsilon", "auto_pad", "ceil_mode", "count_include_pad",
    "output_shape", "output_padding", "largest", "sorted", "exclusive", "reverse", "fmod", "batch_dims", "transA",
    "transB", "blocksize", "num_outputs", "split", "allowzero", "start", "end", "hidden_size", "direction", "layout",
    "linear_before_reset", "activations", "num_groups", "num_heads", "q_num_heads", "kv_num_heads", "is_causal",
    "scale", "softcap", "noop_with_empty_axes", "select_last_index", "p", "saturate", "block_size", "output_dtype",
    "dtype", "k", "upper", "equation", "coordinate_transformation_mode", "nearest_mode", "antialias", "reduction",
    "ignore_index", "padding_mode", "align_corners", "sampling_ratio", "spatial_scale", "onesided", "inverse",
    "dft_length", "periodic", "detect_negative", "new_axis", "chunk_mode", "rotary_embedding_dim", "interleaved",
    "qk_matmul_output_mode", "training_mode", "momentum", "storage_order", "value_int", "value_ints"};

/* A name that some node makes, an input or an initialiser. */
static gale__pb_text pick_value(mutant *u)
{
    gale__pb_graph *g = u->m.graph;
    size_t at = pick(u, g->input.n + g->initializer.n + g->node.n + 1);
    if (at < g->input.n) return g->input.at[at].name;
    if ((at -= g->input.n) < g->initializer.n) return g->initializer.at[at].name;
    at -= g->initializer.n;
    return at < g->node.n && g->node.at[at].output.n ? g->node.at[at].output.at[pick(u, g->node.at[at].output.n)]
                                                     : (gale__pb_text){"", 0};
}

static gale__pb_attribute *pick_attribute(mutant *u, gale__pb_node *n)
{
    gale__pb_attribute *a;
    if (n->attribute.n && pick(u, 3)) return &n->attribute.at[pick(u, n->attribute.n)];
    a = make_attr(&u->m, n, mutate_attributes[pick(u, sizeof mutate_attributes / sizeof *mutate_attributes)], 0);
    a->type = 1 + (int)pick(u, 3) + (pick(u, 2) ? 5 : 0); /* a number, a text, or a list of them */
    return a;
}

static void mutate_attribute(mutant *u, gale__pb_node *n)
{
    static const char *const words[] = {"", "linear", "nearest", "constant", "reflect", "SAME_UPPER", "VALID",
        "bidirectional", "add", "mean", "Tanh", "ij,jk->ik", "DCR", "float"};
    gale__pb_attribute *a = pick_attribute(u, n);
    a->f = (float)pick_number(u) / 2;
    a->i = pick_number(u);
    a->s = make_text(&u->m, words[pick(u, sizeof words / sizeof *words)]);
    if (a->type == GALE__PB_INTS || pick(u, 8) == 0)
        for (a->ints.n = 0; pick(u, 4) && a->ints.n < 8;) *MAKE_ADD(&u->m, a->ints) = pick_number(u);
    if (a->type == GALE__PB_FLOATS) *MAKE_ADD(&u->m, a->floats) = (float)pick_number(u);
    if (a->type == GALE__PB_STRINGS) *MAKE_ADD(&u->m, a->strings) = a->s;
    a->head.present |= 1 << 1 | 1 << 2; /* f and i, also when zero */
}

static void mutate_type(mutant *u, gale__pb_value_info *info)
{
    char shape[64] = "";
    if (!info->type || !info->type->tensor_type) return;
    if (!pick(u, 3)) info->type->tensor_type->elem_type = 1 + (int)pick(u, 26);
    if (!info->type->tensor_type->shape || !pick(u, 4)) {
        for (int i = (int)pick(u, 5); i--;)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%u%s", pick(u, 6), i ? "," : "");
        info->type = make_tensor_type(&u->m, info->type->tensor_type->elem_type, shape);
        return;
    }
    gale__pb_shape *s = info->type->tensor_type->shape;
    if (s->dim.n)
        s->dim.at[pick(u, s->dim.n)] =
            (gale__pb_dim){.dim_value = pick(u, 9) ? pick(u, 6) : pick_number(u), .has_value = true};
}

/* A new initialiser of few small numbers: what shapes, axes and indices come from. */
static void add_numbers(mutant *u)
{
    char name[24], shape[8];
    int64_t v[4];
    size_t n = 1 + pick(u, 4);
    for (size_t i = 0; i < n; i++) v[i] = pick_number(u);
    snprintf(name, sizeof name, "n%u", pick(u, 100000));
    snprintf(shape, sizeof shape, "%zu", n);
    make_initializer(&u->m, make_ints(&u->m, name, n == 1 && pick(u, 2) ? "" : shape, v, n));
}

static void add_node(mutant *u)
{
    char name[24];
    gale__pb_node *n = make_node(&u->m, "Identity", "", "");
    size_t op = pick(u, sizeof mutate_ops / sizeof *mutate_ops);
    n->op_type = make_text(&u->m, mutate_ops[op].name);
    n->domain = make_text(&u->m, mutate_ops[op].domain);
    for (size_t k = 1 + pick(u, 4); k--;) *MAKE_ADD(&u->m, n->input) = pick_value(u);
    for (size_t k = 1 + pick(u, 2); k--;) {
        snprintf(name, sizeof name, "v%u", pick(u, 100000));
        *MAKE_ADD(&u->m, n->output) = make_text(&u->m, name);
    }
    if (u->m.graph->output.n) { /* seen as a result, else it would not run */
        gale__pb_value_info *o = &u->m.graph->output.at[pick(u, u->m.graph->output.n)];
        o->name = n->output.at[0];
        if (o->type && o->type->tensor_type) o->type->tensor_type->shape = NULL;
    }
}

static void mutate_once(mutant *u)
{
    gale__pb_graph *g = u->m.graph;
    gale__pb_node *n = g->node.n ? &g->node.at[pick(u, g->node.n)] : NULL;
    switch (pick(u, 9)) {
    case 0:
        if (n) n->op_type = make_text(&u->m, mutate_ops[pick(u, sizeof mutate_ops / sizeof *mutate_ops)].name);
        break;
    case 1:
    case 2:
        if (n) mutate_attribute(u, n);
        break;
    case 3:
        if (n && n->input.n) n->input.at[pick(u, n->input.n)] = pick_value(u);
        break;
    case 4:
        if (n) *MAKE_ADD(&u->m, n->input) = pick_value(u);
        break;
    case 5:
        if (g->input.n) mutate_type(u, &g->input.at[pick(u, g->input.n)]);
        break;
    case 6:
        if (u->m.model.opset_import.n) u->m.model.opset_import.at[0].version = 1 + pick(u, 27);
        break;
    case 7: add_numbers(u); break;
    default: add_node(u); break;
    }
}

/* Into `data`; 0 when it is no model or grows too large. */
static size_t mutate_model(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    gale__onnx *file = NULL;
    gale__str out = {0};
    mutant u = {.random = seed * 2654435761u + 1};
    size_t n = 0;
    if (gale__onnx_parse(data, size, true, NULL, GALE__PB_KIND_MODEL, &file) != GALE_OK) return 0;
    u.m.model = *(gale__pb_model *)gale__onnx_root(file);
    u.m.graph = u.m.model.graph;
    for (int k = 1 + (int)pick(&u, 4); u.m.graph && k--;) mutate_once(&u);
    if (u.m.graph && gale__onnx_encode(file, GALE__PB_KIND_MODEL, &u.m.model, &out) == GALE_OK && out.length <= most)
        memcpy(data, out.text, n = out.length);
    gale__str_finish(&out);
    make_end(&u.m);
    gale__onnx_close(&file);
    return n;
}
#endif
