/* Small models, written in a few lines each, for tests and for the seeds of fuzzers.
 *
 *     maker m; make_begin(&m, 21);
 *     make_input(&m, "x", 1, "2,n"); make_output(&m, "y", 1, "2,n");
 *     make_node(&m, "Relu", "x", "y");
 *
 * All lies in the maker's arena; a failed allocation ends the program. */
#ifndef GALE_TESTS_ONNX_MAKE_H
#define GALE_TESTS_ONNX_MAKE_H
#include "onnx/wire/proto.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct maker {
    gale__arena arena;
    gale__pb_model model;
    gale__pb_graph *graph;
} maker;

static inline void *make_room(maker *m, size_t size)
{
    void *p = gale__arena_alloc(&m->arena, size);
    if (!p) exit(70);
    return p;
}
static inline gale__pb_text make_text(maker *m, const char *s)
{
    size_t n = strlen(s);
    return (gale__pb_text){memcpy(make_room(m, n + 1), s, n + 1), n};
}
static inline void *make_grow(maker *m, void *at, size_t n, size_t item)
{
    char *more = make_room(m, (n + 1) * item);
    if (n) memcpy(more, at, n * item);
    return more;
}
/* A new last item of a list, all zero. */
#define MAKE_ADD(m, list) ((list).at = make_grow(m, (list).at, (list).n, sizeof *(list).at), &(list).at[(list).n++])

static inline void make_begin(maker *m, int opset)
{
    *m = (maker){.model = {.ir_version = 10}};
    m->model.producer_name = make_text(m, "gale's tests");
    gale__pb_opset *o = MAKE_ADD(m, m->model.opset_import);
    o->version = opset;
    m->model.graph = m->graph = make_room(m, sizeof *m->graph);
    m->graph->name = make_text(m, "g");
}
static inline void make_end(maker *m) { gale__arena_finish(&m->arena); }

/* "2,n,?": numbers, names, and extents that nothing is said of; NULL: not even the rank. */
static inline gale__pb_type *make_tensor_type(maker *m, int type, const char *shape)
{
    gale__pb_type *t = make_room(m, sizeof *t);
    t->tensor_type = make_room(m, sizeof *t->tensor_type);
    t->tensor_type->elem_type = type;
    if (shape) t->tensor_type->shape = make_room(m, sizeof *t->tensor_type->shape);
    for (const char *p = shape; p && *p;) {
        char word[32] = "";
        size_t n = strcspn(p, ",");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        gale__pb_dim *d = MAKE_ADD(m, t->tensor_type->shape->dim);
        if (*word >= '0' && *word <= '9') {
            d->dim_value = atoll(word);
            d->has_value = true;
        } else if (*word != '?') d->dim_param = make_text(m, word);
        p += n + (p[n] == ',');
    }
    return t;
}
static inline gale__pb_value_info make_info(maker *m, const char *name, gale__pb_type *type)
{
    return (gale__pb_value_info){.name = make_text(m, name), .type = type};
}
static inline void make_input(maker *m, const char *name, int type, const char *shape)
{
    *MAKE_ADD(m, m->graph->input) = make_info(m, name, make_tensor_type(m, type, shape));
}
static inline void make_output(maker *m, const char *name, int type, const char *shape)
{
    *MAKE_ADD(m, m->graph->output) = make_info(m, name, make_tensor_type(m, type, shape));
}

static inline void make_dims(maker *m, gale__pb_tensor *t, const char *shape)
{
    for (const char *p = shape; *p; p += strcspn(p, ","), p += *p == ',') *MAKE_ADD(m, t->dims) = atoll(p);
}
/* A tensor without data; the caller fills a list or raw data. */
static inline gale__pb_tensor *make_tensor(maker *m, const char *name, int type, const char *shape)
{
    gale__pb_tensor *t = make_room(m, sizeof *t);
    t->name = make_text(m, name);
    t->data_type = type;
    make_dims(m, t, shape);
    return t;
}
static inline void make_raw(maker *m, gale__pb_tensor *t, const void *data, size_t size)
{
    t->raw_data = (gale__pb_text){size ? memcpy(make_room(m, size), data, size) : "", size};
}
static inline gale__pb_tensor *make_floats(maker *m, const char *name, const char *shape, const float *data, size_t n)
{
    gale__pb_tensor *t = make_tensor(m, name, 1, shape);
    make_raw(m, t, data, n * sizeof *data);
    return t;
}
static inline gale__pb_tensor *make_ints(maker *m, const char *name, const char *shape, const int64_t *data, size_t n)
{
    gale__pb_tensor *t = make_tensor(m, name, 7, shape);
    for (size_t i = 0; i < n; i++) *MAKE_ADD(m, t->int64_data) = data[i];
    return t;
}
static inline void make_initializer(maker *m, const gale__pb_tensor *t) { *MAKE_ADD(m, m->graph->initializer) = *t; }

static inline void make_names(maker *m, const char *names, void *list)
{
    struct {
        gale__pb_text *at;
        size_t n;
    } l;
    memcpy(&l, list, sizeof l);
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, ",");
        char *word = make_room(m, n + 1);
        memcpy(word, p, n);
        *MAKE_ADD(m, l) = (gale__pb_text){word, n};
        p += n + (p[n] == ',');
    }
    memcpy(list, &l, sizeof l);
}
/* "a,,b": names; an empty one is left out. */
static inline gale__pb_node *make_node(maker *m, const char *op, const char *inputs, const char *outputs)
{
    gale__pb_node *n = MAKE_ADD(m, m->graph->node);
    n->op_type = make_text(m, op);
    make_names(m, inputs, &n->input);
    make_names(m, outputs, &n->output);
    return n;
}
static inline gale__pb_attribute *make_attr(maker *m, gale__pb_node *n, const char *name, int type)
{
    gale__pb_attribute *a = MAKE_ADD(m, n->attribute);
    a->name = make_text(m, name);
    a->type = type;
    return a;
}
static inline void make_attr_i(maker *m, gale__pb_node *n, const char *name, int64_t v)
{
    gale__pb_attribute *a = make_attr(m, n, name, GALE__PB_INT);
    a->i = v;
    if (!v) a->head.present |= 1 << 2; /* a zero that is there: row 2 of the table */
}
static inline void make_attr_ints(maker *m, gale__pb_node *n, const char *name, const int64_t *v, size_t count)
{
    gale__pb_attribute *a = make_attr(m, n, name, GALE__PB_INTS);
    for (size_t i = 0; i < count; i++) *MAKE_ADD(m, a->ints) = v[i];
}
/* The body of a graph attribute: what is made until make_leave goes there. */
static inline gale__pb_graph *make_enter(maker *m, gale__pb_node *n, const char *name)
{
    gale__pb_graph *outer = m->graph, *body = make_room(m, sizeof *body);
    make_attr(m, n, name, GALE__PB_GRAPH)->g = body;
    body->name = make_text(m, name);
    m->graph = body;
    return outer;
}
static inline void make_leave(maker *m, gale__pb_graph *outer) { m->graph = outer; }

/* A node that calls a function of the domain "ours"; and such a function, whose nodes are those made until
 * make_function_end. */
static inline gale__pb_node *make_call(maker *m, const char *function, const char *inputs, const char *outputs)
{
    gale__pb_node *n = make_node(m, function, inputs, outputs);
    n->domain = make_text(m, "ours");
    return n;
}
static inline gale__pb_function *make_function(
    maker *m, const char *name, const char *inputs, const char *outputs, gale__pb_graph **outer)
{
    gale__pb_function *f = MAKE_ADD(m, m->model.functions);
    f->name = make_text(m, name);
    f->domain = make_text(m, "ours");
    make_names(m, inputs, &f->input);
    make_names(m, outputs, &f->output);
    MAKE_ADD(m, f->opset_import)->version = m->model.opset_import.at[0].version;
    *outer = m->graph;
    m->graph = make_room(m, sizeof *m->graph);
    return f;
}
static inline void make_function_end(maker *m, gale__pb_graph *outer)
{
    gale__pb_function *f = &m->model.functions.at[m->model.functions.n - 1];
    f->node.at = m->graph->node.at;
    f->node.n = m->graph->node.n;
    m->graph = outer;
}

static inline gale_status make_encode(maker *m, gale__str *out)
{
    gale__onnx *none = NULL;
    GALE_TRY(gale__onnx_parse("", 0, false, NULL, GALE__PB_KIND_MODEL, &none));
    gale_status status = gale__onnx_encode(none, GALE__PB_KIND_MODEL, &m->model, out);
    gale__onnx_close(&none);
    return status;
}

/* The model as a file of its own, and the end of the maker. */
static inline gale_status make_file(maker *m, gale__onnx **out)
{
    gale__str bytes = {0};
    gale_status status = make_encode(m, &bytes);
    if (status == GALE_OK) status = gale__onnx_parse(bytes.text, bytes.length, true, NULL, GALE__PB_KIND_MODEL, out);
    gale__str_finish(&bytes);
    make_end(m);
    return status;
}
#endif
