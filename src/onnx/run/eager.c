/* Runs a single device operator, for host operators that must compute.  Programs are cached by operator, attributes
 * and element types. */
#include "base/hash.h"
#include "onnx/run/session.h"
#include <string.h>

typedef struct gale__onnx_eager {
    struct gale__onnx_eager *next;
    gale__str key;
    gale_graph *graph;
    gale_program *program;
} gale__onnx_eager;

static void add_key_tensor(gale__str *key, gale_tensor *t)
{
    const void *data = gale_tensor_data(t);
    gale__str_addf(key, "/%d:%d", (int)gale_tensor_type(t), gale_tensor_rank(t));
    gale__str_add_n(key, (const char *)gale_tensor_dims(t), (size_t)gale_tensor_rank(t) * sizeof(int64_t));
    if (data) gale__str_add_n(key, data, gale_tensor_size_bytes(t));
    else gale__str_addf(key, "@%p", (const void *)t); /* elsewhere: the tensor itself */
}

static void add_key_attr(gale__str *key, const gale_attr *a)
{
    gale__str_addf(
        key, "|%s:%d:%lld:%a:%s:%zu", a->name, (int)a->kind, (long long)a->i, a->f, a->s ? a->s : "", a->count);
    if (a->ints) gale__str_add_n(key, (const char *)a->ints, a->count * sizeof *a->ints);
    if (a->floats) gale__str_add_n(key, (const char *)a->floats, a->count * sizeof *a->floats);
    for (size_t i = 0; a->strings && i < a->count; i++)
        gale__str_addf(key, "%zu:%s", strlen(a->strings[i]), a->strings[i]);
    if (a->tensor) add_key_tensor(key, (gale_tensor *)a->tensor);
}

static void make_key(
    const char *op, gale_tensor *const *in, int n_in, const gale_attr *attrs, int n_attrs, int n_out, gale__str *key)
{
    gale__str_addf(key, "%s/%d", op, n_out);
    for (int i = 0; i < n_in; i++) gale__str_addf(key, ",%d", in[i] ? (int)gale_tensor_type(in[i]) : -1);
    for (int i = 0; i < n_attrs; i++) add_key_attr(key, &attrs[i]);
}

static gale_status make_graph(
    const char *op, gale_tensor *const *in, int n_in, const gale_attr *attrs, int n_attrs, int n_out, gale_graph *graph)
{
    gale_value *values = gale__calloc((size_t)(n_in + n_out) + 1, sizeof *values);
    gale_status status = GALE_OK;
    if (!values) return GALE_NO_MEMORY;
    for (int i = 0; i < n_in; i++) {
        values[i] = GALE_NONE;
        if (in[i]) GALE_GO(gale_graph_input(graph, "input", gale_tensor_type(in[i]), -1, NULL, NULL, &values[i]));
    }
    GALE_GO(gale_graph_op(graph, op, values, n_in, attrs, n_attrs, values + n_in, n_out));
    for (int i = 0; i < n_out; i++) GALE_GO(gale_graph_output(graph, "output", values[n_in + i]));
done:
    gale__free(values);
    return status;
}

static void destroy(gale__onnx_eager *e)
{
    gale_program_destroy(&e->program);
    gale_graph_destroy(&e->graph);
    gale__str_finish(&e->key);
    gale__free(e);
}

static gale_status make(gale__onnx_session *s, const char *op, gale_tensor *const *in, int n_in, const gale_attr *attrs,
    int n_attrs, int n_out, gale__str *key, gale__onnx_eager **out)
{
    gale__onnx_eager *e = gale__calloc(1, sizeof *e);
    if (!e) return GALE_NO_MEMORY;
    gale_status status;
    GALE_GO(gale_graph_create(&e->graph));
    GALE_GO(make_graph(op, in, n_in, attrs, n_attrs, n_out, e->graph));
    GALE_GO(gale_program_create(e->graph, s->device, &s->options.program, &e->program));
    e->key = *key;
    *key = (gale__str){0};
    e->next = s->eager;
    *out = s->eager = e;
    return GALE_OK;
done:
    destroy(e);
    return status;
}

gale_status gale__onnx_session_op(gale__onnx_session *s, const char *op, gale_tensor *const *in, int n_in,
    const gale_attr *attrs, int n_attrs, gale_tensor **out, int n_out)
{
    gale__str key = {0};
    gale_tensor **given = gale__calloc((size_t)n_in + 1, sizeof *given);
    make_key(op, in, n_in, attrs, n_attrs, n_out, &key);
    gale_status status = given ? gale__str_check(&key) : GALE_NO_MEMORY;
    int n = 0;
    if (status != GALE_OK) goto done;
    gale__mutex_lock(&s->lock);
    gale__onnx_eager *e = s->eager;
    while (e && (e->key.length != key.length || memcmp(e->key.text, key.text, key.length))) e = e->next;
    if (!e) status = make(s, op, in, n_in, attrs, n_attrs, n_out, &key, &e);
    gale__mutex_unlock(&s->lock);
    if (status != GALE_OK) goto done;
    for (int i = 0; i < n_in; i++)
        if (in[i]) given[n++] = in[i];
    status = gale_program_run(e->program, given, out, 0);
done:
    gale__str_finish(&key);
    gale__free(given);
    return status;
}

void gale__onnx_eager_finish(gale__onnx_session *s)
{
    while (s->eager) {
        gale__onnx_eager *e = s->eager;
        s->eager = e->next;
        destroy(e);
    }
}
