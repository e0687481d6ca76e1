/* Nodes that composing adds to a graph, as messages of its file. */
#include "jobs/embed/compose_nodes.h"
#include <string.h>

static gale__pb_text new_name(gale__composer *c)
{
    char *name = gale__arena_printf(c->arena, "gale.pool.%zu", c->count++);
    if (!name) c->status = GALE_NO_MEMORY;
    return gale__compose_text(name ? name : "");
}

static gale__pb_tensor *add_tensor(gale__composer *c, int type, const int64_t *dims, int rank)
{
    if (c->n_tensors == sizeof c->tensors / sizeof *c->tensors)
        return c->status = gale__fail(GALE_LIMIT, "too many kinds of masks"), NULL;
    gale__pb_tensor *t = &c->tensors[c->n_tensors++];
    *t = (gale__pb_tensor){.data_type = type, .name = new_name(c), .doc_string = gale__compose_text("")};
    t->raw_data = gale__compose_text("");
    t->dims.at = gale__arena_copy(c->arena, dims, (size_t)rank * sizeof *dims);
    t->dims.n = (size_t)rank;
    if (!t->dims.at) c->status = GALE_NO_MEMORY;
    return t;
}

gale__pb_text gale__compose_constant(gale__composer *c, int type, const int64_t *ints, float number, size_t n)
{
    gale__pb_tensor *t = add_tensor(c, type, &(int64_t){(int64_t)n}, 1);
    if (!t) return gale__compose_text("");
    if (type == 7) t->int64_data.at = gale__arena_copy(c->arena, ints, n * sizeof *ints);
    else t->float_data.at = gale__arena_copy(c->arena, &number, sizeof number);
    if (!t->int64_data.at && !t->float_data.at) return c->status = GALE_NO_MEMORY, t->name;
    t->int64_data.n = type == 7 ? n : 0;
    t->float_data.n = type == 7 ? 0 : 1;
    return t->name;
}

gale__pb_text gale__compose_floats(gale__composer *c, const float *data, const int64_t *dims, int rank)
{
    gale__pb_tensor *t = add_tensor(c, 1, dims, rank);
    if (!t) return gale__compose_text("");
    t->float_data.at = (float *)(uintptr_t)data; /* only read */
    t->float_data.n = (size_t)dims[0] * (rank > 1 ? (size_t)dims[1] : 1);
    return t->name;
}

gale__pb_text gale__compose_ints(gale__composer *c, int64_t a, int64_t b, size_t n)
{
    return gale__compose_constant(c, 7, (const int64_t[]){a, b}, 0, n);
}

gale__pb_node *gale__compose_add(
    gale__composer *c, const char *op, gale__pb_text a, gale__pb_text b, gale__pb_text *out)
{
    gale__pb_text *names = gale__arena_alloc(c->arena, 6 * sizeof *names);
    gale__pb_attribute *attributes = gale__arena_alloc(c->arena, 3 * sizeof *attributes);
    *out = new_name(c);
    if (!names || !attributes) c->status = GALE_NO_MEMORY;
    if (c->status != GALE_OK) return NULL;
    gale__pb_node *node = &c->g->node.at[c->g->node.n++];
    *node = (gale__pb_node){.op_type = gale__compose_text(op),
        .name = *out,
        .domain = gale__compose_text(""),
        .overload = gale__compose_text(""),
        .doc_string = gale__compose_text("")};
    names[0] = a;
    names[1] = b;
    names[5] = *out;
    node->input.at = names;
    node->input.n = b.size ? 2 : 1;
    node->output.at = names + 5;
    node->output.n = 1;
    node->attribute.at = attributes;
    return node;
}

static gale__pb_attribute *set(gale__pb_node *node, const char *name, gale__pb_attr_type type)
{
    gale__pb_attribute *a = &node->attribute.at[node->attribute.n++];
    *a = (gale__pb_attribute){.name = gale__compose_text(name), .type = type};
    a->ref_attr_name = a->doc_string = a->s = gale__compose_text("");
    return a;
}

void gale__compose_set_int(gale__pb_node *node, const char *name, int64_t value)
{
    if (node) set(node, name, GALE__PB_INT)->i = value;
}

void gale__compose_set_list(gale__composer *c, gale__pb_node *node, const char *name, int64_t value)
{
    if (!node) return;
    gale__pb_attribute *a = set(node, name, GALE__PB_INTS);
    a->ints.at = gale__arena_copy(c->arena, &value, sizeof value);
    a->ints.n = 1;
    if (!a->ints.at) c->status = GALE_NO_MEMORY;
}

gale__pb_text gale__compose_unary(gale__composer *c, const char *op, gale__pb_text x)
{
    gale__pb_text out;
    gale__compose_add(c, op, x, gale__compose_text(""), &out);
    return out;
}

gale__pb_text gale__compose_binary(gale__composer *c, const char *op, gale__pb_text a, gale__pb_text b)
{
    gale__pb_text out;
    gale__compose_add(c, op, a, b, &out);
    return out;
}

/* Axes are an attribute in old opsets and an input in newer ones. */
gale__pb_text gale__compose_reduce(gale__composer *c, const char *op, gale__pb_text x, int64_t axis)
{
    gale__pb_text out;
    bool by_input = c->opset >= (!strcmp(op, "ReduceSum") ? 13 : 18);
    gale__pb_node *node =
        gale__compose_add(c, op, x, by_input ? gale__compose_ints(c, axis, 0, 1) : gale__compose_text(""), &out);
    if (!by_input) gale__compose_set_list(c, node, "axes", axis);
    gale__compose_set_int(node, "keepdims", 1);
    return out;
}

gale__pb_text gale__compose_where(gale__composer *c, gale__pb_text condition, gale__pb_text a, gale__pb_text b)
{
    gale__pb_text out;
    gale__pb_node *node = gale__compose_add(c, "Where", condition, a, &out);
    if (node) node->input.at[node->input.n++] = b;
    return out;
}

gale__pb_text gale__compose_reshape(gale__composer *c, gale__pb_text x, const int64_t *dims, size_t rank)
{
    return gale__compose_binary(c, "Reshape", x, gale__compose_constant(c, 7, dims, 0, rank));
}
