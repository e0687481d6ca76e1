/* Host operators called by text: values as in object_text.h.  Attributes: `axis=1`, `mode='x'`, `ints=1,2` (`1,` for
 * one), `floats=0.5,`, `NAME_strings='a','b'`, `value=string[1]:'v'`. */
#ifndef GALE_TEST_HOST_CALLS_H
#define GALE_TEST_HOST_CALLS_H
#include "object_text.h"
#include "onnx/run/session.h"

/* --- Attributes. --- */

typedef struct parsed {
    gale_attr attrs[16];
    int n;
    char names[16][32], texts[16][4][64];
    const char *lists[16][4];
    int64_t ints[16][16];
    double floats[16][16];
    gale_tensor *tensors[16];
} parsed;

static inline void parse_texts(parsed *p, gale_attr *a, const char **at)
{
    int k = p->n, n = 0;
    for (; **at == '\''; *at += **at == ',') {
        ++*at;
        read_word(at, "'", p->texts[k][n], sizeof p->texts[k][n]);
        p->lists[k][n] = p->texts[k][n];
        n++;
        *at += **at == '\'';
    }
    bool list = strstr(a->name, "_strings") || strstr(a->name, "vocabulary") || !strcmp(a->name, "stopwords") ||
                !strcmp(a->name, "separators");
    a->kind = list ? GALE_ATTR_STRINGS : GALE_ATTR_STRING;
    a->s = p->texts[k][0];
    a->strings = p->lists[k];
    a->count = (size_t)n;
}

static inline void parse_numbers(parsed *p, gale_attr *a, const char **at)
{
    char all[200], *from = all;
    read_word(at, " ", all, sizeof all);
    bool list = strchr(all, ',') != NULL, real = strpbrk(all, ".n") != NULL;
    for (; *from; from += *from == ',') {
        p->floats[p->n][a->count] = strtod(from, NULL);
        p->ints[p->n][a->count++] = strtoll(from, NULL, 10);
        from += strcspn(from, ",");
    }
    a->kind = list ? real ? GALE_ATTR_FLOATS : GALE_ATTR_INTS : real ? GALE_ATTR_FLOAT : GALE_ATTR_INT;
    a->ints = p->ints[p->n];
    a->floats = p->floats[p->n];
    a->i = a->ints[0];
    a->f = a->floats[0];
}

static inline void parse_attrs(parsed *p, const char *text)
{
    for (skip_blanks(&text); *text; skip_blanks(&text), p->n++) {
        gale_attr *a = &p->attrs[p->n];
        read_word(&text, "=", p->names[p->n], sizeof p->names[p->n]);
        a->name = p->names[p->n];
        text++;
        if (*text == '\'') parse_texts(p, a, &text);
        else if (*text >= 'a' && *text <= 'z' && strncmp(text, "nan", 3)) {
            a->kind = GALE_ATTR_TENSOR;
            a->tensor = p->tensors[p->n] = read_tensor(&text, ',');
        } else parse_numbers(p, a, &text);
    }
}

static inline void forget_attrs(parsed *p)
{
    for (int i = 0; i < p->n; i++) gale_tensor_destroy(&p->tensors[i]);
}

/* --- Calls. --- */

/* A session that has a device and no model. */
static gale__onnx_session *test_session;

static inline void open_session(void)
{
    test_session = gale__calloc(1, sizeof *test_session);
    gale__mutex_init(&test_session->lock);
    CHECK_OK(
        gale_device_open(&(gale_device_options){.chain = "cpu", .index = -1, .strict = true}, &test_session->device));
}

static inline void close_session(void) { gale__onnx_session_close(&test_session); }

/* A node of a host operator, with its attributes; to be forgotten. */
typedef struct called {
    const gale__onnx_host_op *row;
    gale__onnx_net_node node;
    parsed attrs;
} called;

static inline called *prepare(const char *op, const char *attrs)
{
    called *c = calloc(1, sizeof *c);
    c->row = gale__onnx_host_find("", op);
    if (!c->row) c->row = gale__onnx_host_find("ai.onnx.ml", op);
    if (!c->row) c->row = gale__onnx_host_find("com.microsoft", op);
    if (!CHECK(c->row != NULL)) exit(1);
    parse_attrs(&c->attrs, attrs);
    c->node = (gale__onnx_net_node){
        .op = c->row->name, .domain = c->row->domain, .attrs = c->attrs.attrs, .n_attrs = c->attrs.n, .where = op};
    return c;
}

static inline void forget(called *c)
{
    forget_attrs(&c->attrs);
    free(c);
}

static inline gale_status call_host(called *c, gale_object *const *in, int n_in, gale_object **out, int n_out)
{
    c->node.n_in = n_in;
    c->node.n_out = n_out;
    gale__onnx_host_call call = {
        .node = &c->node, .in = in, .n_in = n_in, .out = out, .n_out = n_out, .session = test_session};
    gale_status status = c->row->run(&call);
    gale__arena_finish(&call.arena);
    for (int i = 0; status != GALE_OK && i < n_out; i++) gale_object_destroy(&out[i]);
    return status;
}

static inline gale_status call_with(
    const char *op, const char *attrs, gale_object *const *in, int n_in, gale_object **out, int n_out)
{
    called *c = prepare(op, attrs);
    gale_status status = call_host(c, in, n_in, out, n_out);
    forget(c);
    return status;
}

static inline int status_named(const char *name)
{
    static const char *const names[] = {
#define X(status, text) #status,
#include "gale/status.def"
#undef X
    };
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

static inline bool check_call(const char *op, const char *attrs, const char *in_text, const char *out_text)
{
    gale_object *in[8] = {0}, *want[8] = {0}, *out[8] = {0};
    int n_in = read_values(in_text, in), n_out = *out_text == '!' ? 1 : read_values(out_text, want);
    gale_status status = call_with(op, attrs, in, n_in, out, n_out);
    bool ok = *out_text == '!' ? CHECK_EQ(status, status_named(out_text + 1)) : CHECK_OK(status);
    if (*out_text == '!') ok &= CHECK(*gale_error() != 0);
    for (int i = 0; status == GALE_OK && i < n_out; i++) ok &= CHECK(same_object(out[i], want[i]));
    for (int i = 0; i < 8; i++) {
        gale_object_destroy(&in[i]);
        gale_object_destroy(&out[i]);
        gale_object_destroy(&want[i]);
    }
    return ok;
}

/* Each allocation of a call fails once; the call then fails with that reason or finds another way, and nothing is left
 * behind: neither then, but for what the session keeps, nor when the session is closed. */
static inline bool check_faults(const char *op, const char *attrs, const char *in_text, int n_out)
{
    gale_object *in[8] = {0}, *out[8] = {0};
    called *c = prepare(op, attrs);
    bool ok = true;
    int n_in = read_values(in_text, in);
    int64_t live = gale__alloc_live();
    open_session();
    call_host(c, in, n_in, out, n_out);
    for (int i = 0; i < n_out; i++) gale_object_destroy(&out[i]);
    uint64_t n = 1;
    for (bool done = false; ok && !done; n++) {
        gale__alloc_fail_at(n);
        gale_status status = call_host(c, in, n_in, out, n_out);
        done = gale__alloc_count() < n;
        gale__alloc_fail_at(0);
        for (int i = 0; i < n_out; i++) gale_object_destroy(&out[i]);
        ok = CHECK(n < 10000) &&
             (done || CHECK(status == GALE_OK || status == GALE_NO_MEMORY || status == GALE_INVALID ||
                            status == GALE_FORMAT || status == GALE_UNSUPPORTED));
    }
    close_session();
    ok &= CHECK_EQ(gale__alloc_live(), live);
    for (int i = 0; i < 8; i++) gale_object_destroy(&in[i]);
    forget(c);
    return ok;
}
#endif
