/* The public interface of models: inputs are checked against the file's declarations, and outputs are checked for
 * finite values. */
#include "base/num.h"
#include "graph/run/run.h"
#include "graph/run/tensor.h"
#include "onnx/import/defaults.h"
#include "onnx/import/import.h"
#include "onnx/run/session.h"
#include <math.h>
#include <string.h>

struct gale_model {
    gale__onnx_session *session;
    gale__onnx_defaults defaults;
    gale__mutex lock;          /* of `others` */
    gale_model *others, *next; /* the same model with some of the defaults as inputs, made when they are first given */
};

/* A CPU without arithmetic of halves widens each of them, which takes longer than the memory that they save. */
static void warn_slow(const gale_device *device, gale_precision precision)
{
    const gale_device_caps *caps = &gale_device_get_info(device)->caps;
    bool half = precision == GALE_PRECISION_F16, brief = precision == GALE_PRECISION_BF16;
    if (!caps->host_functions || !((half && !caps->f16) || (brief && !caps->bf16))) return;
    gale__log(GALE__WARN, "this CPU has no %s arithmetic, so this is slower than fp32: omit the precision",
        half ? "fp16" : "bf16");
}

gale_status gale__onnx_model_from_file(
    gale__onnx **file, gale_device *device, const gale_model_options *options, gale_model **out)
{
    gale_model_options none = {0}, o = options ? *options : none;
    gale_model *m = gale__calloc(1, sizeof *m);
    gale_status status = m ? GALE_OK : GALE_NO_MEMORY;
    if (m) gale__mutex_init(&m->lock);
    if (status == GALE_OK) status = gale__program_check_options(&o.program);
    if (status == GALE_OK) status = gale__onnx_defaults_find(*file, o.given, o.n_given, &m->defaults);
    if (!o.program.precision) o.program.precision = o.precision;
    if (device) warn_slow(device, o.program.precision);
    o.given = NULL; /* the caller's, and done with */
    o.n_given = 0;
    if (status == GALE_OK) status = gale__onnx_session_open(*file, device, &o, &m->session);
    gale__onnx_close(file); /* the session holds it */
    if (status == GALE_OK) *out = m;
    else gale_model_close(&m);
    return status;
}

gale_status gale_model_open(const char *path, gale_device *device, const gale_model_options *options, gale_model **out)
{
    GALE__NEED({"path", path}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__WITHIN(device->context);
    gale__onnx *file = NULL;
    GALE_TRY(gale__onnx_open(path, GALE__PB_KIND_MODEL, &file));
    return gale__onnx_model_from_file(&file, device, options, out);
}

gale_status gale_model_from_memory(const void *data, size_t size, gale_flags flags, gale_device *device,
    const gale_model_options *options, gale_model **out)
{
    GALE__NEED({"data", data}, {"device", device}, {"out", out});
    GALE__OPTIONS(options);
    GALE__FLAGS(flags, GALE_MODEL_COPY);
    GALE__WITHIN(device->context);
    gale__onnx *file = NULL;
    GALE_TRY(gale__onnx_parse(data, size, flags & GALE_MODEL_COPY, NULL, GALE__PB_KIND_MODEL, &file));
    return gale__onnx_model_from_file(&file, device, options, out);
}

void gale_model_close(gale_model **model)
{
    if (!model || !*model) return;
    for (gale_model *other = (*model)->others, *next; other; other = next) {
        next = other->next;
        gale_model_close(&other);
    }
    gale__onnx_session_close(&(*model)->session);
    gale__onnx_defaults_finish(&(*model)->defaults);
    gale__mutex_finish(&(*model)->lock);
    gale__free(*model);
    *model = NULL;
}

gale__onnx_session *gale__onnx_model_session(gale_model *m) { return m->session; }

int gale_model_inputs(const gale_model *m)
{
    if (!m) return gale__lack(__func__, "model"), 0;
    return m->session->net->n_inputs;
}

int gale_model_outputs(const gale_model *m)
{
    if (!m) return gale__lack(__func__, "model"), 0;
    return m->session->net->n_outputs;
}

static void describe(const gale__onnx_net_value *v, gale_model_value *out)
{
    *out = (gale_model_value){.name = v->name, .optional = v->optional, .type = v->type, .rank = v->rank};
    out->kind = v->kind == GALE__KIND_SEQUENCE ? GALE_OBJECT_SEQUENCE
                : v->kind == GALE__KIND_MAP    ? GALE_OBJECT_MAP
                                               : GALE_OBJECT_TENSOR;
    memcpy(out->dims, v->dims, sizeof out->dims);
    memcpy(out->symbols, v->symbols, sizeof out->symbols);
}

gale_status gale_model_input(const gale_model *m, int i, gale_model_value *out)
{
    GALE__NEED({"model", m}, {"out", out});
    const gale__onnx_net *net = m->session->net;
    if (i < 0 || i >= net->n_inputs)
        return gale__fail(GALE_INVALID, "the model has %d inputs, so no input %d", net->n_inputs, i);
    describe(&net->values[net->inputs[i]], out);
    for (int k = 0; k < m->defaults.n_given; k++) out->has_default |= !strcmp(m->defaults.given[k]->name.at, out->name);
    return GALE_OK;
}

int gale_model_defaults(const gale_model *m)
{
    if (!m) return gale__lack(__func__, "model"), 0;
    return m->defaults.n;
}

gale_status gale_model_default(const gale_model *m, int i, gale_model_value *out)
{
    GALE__NEED({"model", m}, {"out", out});
    if (i < 0 || i >= m->defaults.n)
        return gale__fail(
            GALE_INVALID, "%d inputs of the model have a default, so no default input %d", m->defaults.n, i);
    const gale__pb_value_info *info = m->defaults.at[i];
    gale__onnx_net_value v = {.name = info->name.at, .rank = -1};
    GALE_TRY(gale__onnx_import_type(NULL, info, &v));
    describe(&v, out);
    out->has_default = true;
    return GALE_OK;
}

gale_status gale_model_output(const gale_model *m, int i, gale_model_value *out)
{
    GALE__NEED({"model", m}, {"out", out});
    const gale__onnx_net *net = m->session->net;
    if (i < 0 || i >= net->n_outputs)
        return gale__fail(GALE_INVALID, "the model has %d outputs, so no output %d", net->n_outputs, i);
    describe(&net->declared[i], out);
    return GALE_OK;
}

/* Extents with one name must be equal wherever they stand. */
static gale_status check_symbols(const gale__onnx_net *net, gale_object *const *inputs, int input, int axis)
{
    const gale__onnx_net_value *v = &net->values[net->inputs[input]];
    int64_t mine = inputs[input]->tensor->dims[axis];
    for (int i = 0; i <= input; i++) {
        const gale__onnx_net_value *w = &net->values[net->inputs[i]];
        for (int a = 0;
             a < w->rank && inputs[i] && inputs[i]->kind == GALE_OBJECT_TENSOR && w->rank == inputs[i]->tensor->rank;
             a++)
            if (w->symbols[a] && !strcmp(w->symbols[a], v->symbols[axis]) && inputs[i]->tensor->dims[a] != mine)
                return gale__fail(GALE_INVALID, "%s is %lld in input %s and %lld in input %s", v->symbols[axis],
                    (long long)inputs[i]->tensor->dims[a], w->name, (long long)mine, v->name);
    }
    return GALE_OK;
}

static gale_status check_tensor(const gale__onnx_net *net, gale_object *const *inputs, int i)
{
    const gale__onnx_net_value *v = &net->values[net->inputs[i]];
    const gale_tensor *t = inputs[i]->tensor;
    if (t->type != v->type)
        return gale__fail(GALE_INVALID, "input %s has type %s, but the model needs %s", v->name,
            gale_type_name(t->type), gale_type_name(v->type));
    if (v->rank < 0) return GALE_OK;
    if (t->rank != v->rank)
        return gale__fail(GALE_INVALID, "input %s has rank %d, but the model needs %d", v->name, t->rank, v->rank);
    for (int a = 0; a < t->rank; a++) {
        if (v->dims[a] >= 0 && v->dims[a] != t->dims[a])
            return gale__fail(GALE_INVALID, "input %s has extent %lld along axis %d, but the model needs %lld", v->name,
                (long long)t->dims[a], a, (long long)v->dims[a]);
        if (v->symbols[a]) GALE_TRY(check_symbols(net, inputs, i, a));
    }
    return GALE_OK;
}

static gale_status check_inputs(const gale__onnx_net *net, gale_object *const *inputs)
{
    for (int i = 0; i < net->n_inputs; i++) {
        const gale__onnx_net_value *v = &net->values[net->inputs[i]];
        const gale_object *o = inputs[i];
        if (!o || o->kind == GALE_OBJECT_NONE) {
            if (v->optional) continue;
            return gale__fail(GALE_INVALID, "missing input %s", v->name);
        }
        bool wanted = v->kind == GALE__KIND_SEQUENCE ? o->kind == GALE_OBJECT_SEQUENCE
                      : v->kind == GALE__KIND_MAP    ? o->kind == GALE_OBJECT_MAP
                                                     : o->kind == GALE_OBJECT_TENSOR;
        if (!wanted) return gale__fail(GALE_INVALID, "input %s has the wrong kind (tensor, sequence or map)", v->name);
        if (o->kind == GALE_OBJECT_TENSOR) GALE_TRY(check_tensor(net, inputs, i));
    }
    return GALE_OK;
}

/* All NaN, or nothing finite at all: garbage, whatever the model. */
static bool is_garbage(const gale_object *o)
{
    if (!o || o->kind != GALE_OBJECT_TENSOR || !gale__type_is_float(gale_tensor_type(o->tensor))) return false;
    const char *data = gale_tensor_data(o->tensor);
    size_t size = gale_type_size(gale_tensor_type(o->tensor));
    int64_t n = gale__onnx_tensor_count(o->tensor);
    if (!data || !n) return false;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(gale__load_f64(gale_tensor_type(o->tensor), data + (size_t)i * size))) return false;
    return true;
}

static gale_status check_finite(const gale__onnx_session *s, gale_object *const *outputs)
{
    for (int i = 0; !s->options.allow_nonfinite && i < s->net->n_outputs; i++)
        if (is_garbage(outputs[i]))
            return gale__fail(GALE_NOT_FINITE, "output %s produced only NaN or infinity", s->net->declared[i].name);
    return GALE_OK;
}

/* Results go to the caller's array only on success. */
static gale_status run_checked(gale_model *m, gale_object *const *inputs, gale_object **outputs, bool on_host)
{
    gale__onnx_session *s = m->session;
    GALE_TRY(check_inputs(s->net, inputs));
    for (int i = 0; i < s->net->n_outputs; i++)
        if (outputs[i] && outputs[i]->kind != GALE_OBJECT_TENSOR)
            return gale__fail(GALE_INVALID, "the value given for output %s is not a tensor", s->net->declared[i].name);
    gale_object **made = gale__calloc((size_t)s->net->n_outputs + 1, sizeof *made);
    if (!made) return GALE_NO_MEMORY;
    for (int i = 0; i < s->net->n_outputs; i++) made[i] = outputs[i];
    gale_status status = gale__onnx_exec_run(s, s->net, inputs, made, on_host);
    if (status == GALE_OK) status = check_finite(s, made);
    for (int i = 0; i < s->net->n_outputs; i++) {
        if (status == GALE_OK) outputs[i] = made[i];
        else if (!outputs[i]) gale_object_destroy(&made[i]);
    }
    gale__free(made);
    return status;
}

/* What both ways to run ask of their arguments. */
#define NEED_RUN(m, inputs, outputs) \
    GALE__NEED({"model", m});        \
    GALE__NEED(                      \
        {"inputs", !(m)->session->net->n_inputs || (inputs)}, {"outputs", !(m)->session->net->n_outputs || (outputs)})

gale_status gale_model_run_with(
    gale_model *m, gale_object *const *inputs, gale_object **outputs, const gale_run_control *control)
{
    static const gale_run_control none;
    const gale_run_control *c = control ? control : &none;
    NEED_RUN(m, inputs, outputs);
    GALE__CONTROL(control);
    GALE__WITHIN(m->session->device->context);
    gale__limits all = {.cancel = m->session->options.cancel}, limits = gale__run_limits(c);
    gale__limits_enter(&all);
    gale__limits_enter(&limits);
    gale_status status = run_checked(m, inputs, outputs, c->outputs_on_host);
    gale__limits_leave(&limits);
    gale__limits_leave(&all);
    return status;
}

gale_status gale_model_run(gale_model *m, gale_object *const *inputs, gale_object **outputs, gale_flags flags)
{
    NEED_RUN(m, inputs, outputs);
    GALE__FLAGS(flags, GALE_RUN_ON_HOST);
    gale_run_control control = {.outputs_on_host = flags & GALE_RUN_ON_HOST};
    return gale_model_run_with(m, inputs, outputs, &control);
}

static int find_input(const gale__onnx_net *net, const char *name)
{
    for (int i = 0; i < net->n_inputs; i++)
        if (!strcmp(net->values[net->inputs[i]].name, name)) return i;
    return -1;
}

static int find_output(const gale__onnx_net *net, const char *name)
{
    for (int i = 0; i < net->n_outputs; i++)
        if (!strcmp(net->declared[i].name, name)) return i;
    return -1;
}

typedef struct named {
    gale_object **in, **out;
    const gale__onnx_net *net;
} named;

static gale_status gather_named(named *n, const char *const *input_names, gale_tensor *const *inputs, int n_inputs,
    const char *const *output_names, gale_tensor **outputs, int n_outputs)
{
    for (int i = 0; i < n_inputs; i++) {
        int at = find_input(n->net, input_names[i]);
        if (at < 0 || n->in[at])
            return gale__fail(
                GALE_INVALID, at < 0 ? "the model has no input '%s'" : "input '%s' is given twice", input_names[i]);
        GALE_TRY(gale_object_tensor(inputs[i], &n->in[at]));
    }
    for (int i = 0; i < n_outputs; i++) {
        int at = find_output(n->net, output_names[i]);
        if (at < 0) return gale__fail(GALE_INVALID, "the model has no output '%s'", output_names[i]);
        if (outputs[i]) GALE_TRY(gale_object_tensor(outputs[i], &n->out[at]));
    }
    return GALE_OK;
}

gale_status gale__onnx_model_again(
    gale_model *m, gale_device *device, const gale_model_options *options, gale_model **out)
{
    gale__onnx *file = NULL;
    gale_model_options o = *options;
    const char **given = gale__calloc((size_t)m->defaults.n_given + 1, sizeof *given);
    gale_status status = given ? GALE_OK : GALE_NO_MEMORY;
    for (int i = 0; given && i < m->defaults.n_given; i++) given[i] = m->defaults.given[i]->name.at;
    if (!o.given) o.given = given, o.n_given = m->defaults.n_given;
    if (status == GALE_OK) status = gale__onnx_again(m->session->net->file, &file);
    if (status == GALE_OK) status = gale__onnx_model_from_file(&file, device, &o, out);
    gale__free(given);
    return status;
}

static gale_status make_other(gale_model *m, const char *const *given, int n, gale_model **out)
{
    gale_model_options options = m->session->options;
    options.given = given;
    options.n_given = n;
    GALE_TRY(gale__onnx_model_again(m, m->session->device, &options, out));
    (*out)->next = m->others;
    m->others = *out;
    return GALE_OK;
}

static bool is_in(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

/* Whether these are the inputs with a value in the file that `m` takes. */
static bool takes(const gale_model *m, const char *const *names, int n)
{
    for (int i = 0; i < m->defaults.n_given; i++)
        if (!is_in(m->defaults.given[i]->name.at, names, n)) return false;
    return m->defaults.n_given == n;
}

/* The model that takes the inputs named: itself, unless some of them have a value in the file. */
static gale_status model_for(gale_model *m, const char *const *names, int n, gale_model **out)
{
    int count = 0;
    bool any = false;
    for (int i = 0; i < n && !any; i++) any = gale__onnx_defaults_has(&m->defaults, names[i]);
    if (!any) return *out = m, GALE_OK;
    const char **given = gale__calloc((size_t)(n + m->defaults.n_given), sizeof *given);
    gale_status status = GALE_OK;
    if (!given) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++)
        if (gale__onnx_defaults_has(&m->defaults, names[i]) && !is_in(names[i], given, count))
            given[count++] = names[i];
    for (int i = 0; i < m->defaults.n_given; i++) given[count++] = m->defaults.given[i]->name.at;
    gale__mutex_lock(&m->lock);
    gale_model *other = m->others;
    while (other && !takes(other, given, count)) other = other->next;
    if (!other) status = make_other(m, given, count, &other);
    gale__mutex_unlock(&m->lock);
    gale__free(given);
    if (status == GALE_OK) *out = other;
    return status;
}

static gale_status check_lists(const char *function, const char *const *input_names, gale_tensor *const *inputs,
    int n_inputs, const char *const *output_names, int n_outputs)
{
    if (n_inputs < 0 || n_outputs < 0)
        return gale__fail(GALE_INVALID, "%s: n_inputs is %d and n_outputs %d; they must not be negative", function,
            n_inputs, n_outputs);
    for (int i = 0; i < n_inputs; i++)
        if (!input_names[i] || !inputs[i])
            return gale__fail(
                GALE_INVALID, "%s: %s[%d] is NULL", function, input_names[i] ? "inputs" : "input_names", i);
    for (int i = 0; i < n_outputs; i++)
        if (!output_names[i]) return gale__fail(GALE_INVALID, "%s: output_names[%d] is NULL", function, i);
    return GALE_OK;
}

#define NEED_NAMED                                                                                             \
    GALE__NEED({"model", m}, {"input_names", n_inputs < 1 || input_names}, {"inputs", n_inputs < 1 || inputs}, \
        {"output_names", n_outputs < 1 || output_names}, {"outputs", n_outputs < 1 || outputs});               \
    GALE_TRY(check_lists(__func__, input_names, inputs, n_inputs, output_names, n_outputs))

gale_status gale_model_run_named(gale_model *m, const char *const *input_names, gale_tensor *const *inputs,
    int n_inputs, const char *const *output_names, gale_tensor **outputs, int n_outputs, gale_flags flags)
{
    gale_run_control control = {.outputs_on_host = flags & GALE_RUN_ON_HOST};
    NEED_NAMED;
    GALE__FLAGS(flags, GALE_RUN_ON_HOST);
    return gale_model_run_named_with(m, input_names, inputs, n_inputs, output_names, outputs, n_outputs, &control);
}

gale_status gale_model_run_named_with(gale_model *m, const char *const *input_names, gale_tensor *const *inputs,
    int n_inputs, const char *const *output_names, gale_tensor **outputs, int n_outputs,
    const gale_run_control *control)
{
    NEED_NAMED;
    GALE_TRY(model_for(m, input_names, n_inputs, &m));
    named n = {.net = m->session->net};
    gale_status status = GALE_NO_MEMORY;
    n.in = gale__calloc((size_t)n.net->n_inputs + 1, sizeof *n.in);
    n.out = gale__calloc((size_t)n.net->n_outputs + 1, sizeof *n.out);
    if (!n.in || !n.out) goto done;
    GALE_GO(gather_named(&n, input_names, inputs, n_inputs, output_names, outputs, n_outputs));
    GALE_GO(gale_model_run_with(m, n.in, n.out, control));
    for (int i = 0; i < n_outputs; i++) {
        gale_tensor *made = gale_object_get_tensor(n.out[find_output(n.net, output_names[i])]);
        if (outputs[i]) continue;
        if (!made) status = gale__fail(GALE_INVALID, "output '%s' is not a tensor", output_names[i]);
        else status = gale_tensor_reshape(made, gale_tensor_rank(made), gale_tensor_dims(made), &outputs[i]);
        if (status != GALE_OK) goto done;
    }
done:
    for (int i = 0; n.in && i < n.net->n_inputs; i++) gale_object_destroy(&n.in[i]);
    for (int i = 0; n.out && i < n.net->n_outputs; i++) gale_object_destroy(&n.out[i]);
    gale__free(n.in);
    gale__free(n.out);
    return status;
}
