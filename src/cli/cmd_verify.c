/* gale verify: the same model on the CPU and on a device, every node's results side by side.  The CPU runs first and
 * its values are kept; the device's are compared as they are made.  Nodes run one by one, so that the first one that
 * departs is named; the fused run, which is what people use, is compared at its outputs. */
#include "base/json.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/model_inputs.h"
#include "cli/table.h"
#include "onnx/run/session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const gale__arg args[] = {
    {"MODEL", 0, GALE__ARG_FILE, NULL, NULL, NULL, "ONNX file", NULL, true},
    GALE__ARGS_MODEL_INPUTS,
    {"tolerance", 0, GALE__ARG_REAL, "X", "1e-4", "0..1",
        "largest relative difference (L2 norm) of a node's result; fp16: 1e-2, bf16: 5e-2 unless given"},
    {"worst", 'n', GALE__ARG_INT, "N", "10", "0..100000", "rows of the table: the nodes that differ most"},
    GALE__ARGS_MODEL_OPTIONS,
    GALE__ARG_JSON,
    GALE__ARGS_DEVICE,
    GALE__ARG_THREADS,
    {0},
};

typedef struct row {
    const char *where, *name;
    double relative, largest;
    bool departs;
} row;
typedef struct check {
    gale_object **kept; /* by value: the CPU's */
    int n_values;
    row *rows;
    size_t count, capacity;
    double tolerance;
    gale__arena arena; /* of names: the models go before the table is printed */
} check;

static gale_status keep(void *user, const gale__onnx_net *net, int32_t value, gale_object *object)
{
    check *c = user;
    (void)net;
    return gale__onnx_object_to_host(object, &c->kept[value]);
}

/* Differences of two tensors of one type and shape; infinite where one of them is not finite and the other is. */
static void differ(gale_tensor *a, gale_tensor *b, double *relative, double *largest)
{
    gale_type type = gale_tensor_type(a);
    size_t size = gale_type_size(type), n = size ? gale_tensor_size_bytes(a) / size : 0;
    const char *pa = gale_tensor_data(a), *pb = gale_tensor_data(b);
    double sum = 0, norm = 0;
    *largest = 0;
    for (size_t i = 0; i < n; i++) {
        double x = gale__load_f64(type, pa + i * size), y = gale__load_f64(type, pb + i * size);
        if (isnan(x) && isnan(y)) continue;
        double d = x == y ? 0 : isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
        sum += d * d;
        norm += isfinite(y) ? y * y : 0;
        if (d > *largest) *largest = d;
    }
    *relative = sum == 0 ? 0 : norm > 0 ? sqrt(sum / norm) : INFINITY;
}

static bool alike(const gale_object *a, const gale_object *b)
{
    if (a->kind != b->kind || a->kind != GALE_OBJECT_TENSOR) return false;
    int rank = gale_tensor_rank(a->tensor);
    return gale_tensor_type(a->tensor) == gale_tensor_type(b->tensor) && rank == gale_tensor_rank(b->tensor) &&
           (!rank || !memcmp(gale_tensor_dims(a->tensor), gale_tensor_dims(b->tensor), (size_t)rank * sizeof(int64_t)));
}

static gale_status add_row(check *c, const char *where, const char *name, gale_object *ours, gale_object *cpu)
{
    row r = {.where = gale__arena_strdup(&c->arena, where), .name = gale__arena_strdup(&c->arena, name)};
    gale_object *host = NULL;
    if (!r.where || !r.name) return GALE_NO_MEMORY;
    if (cpu->kind != GALE_OBJECT_TENSOR || gale_tensor_type(cpu->tensor) == GALE_STRING)
        return GALE_OK; /* the host made it either way */
    GALE_TRY(gale__onnx_object_to_host(ours, &host));
    if (alike(host, cpu)) differ(host->tensor, cpu->tensor, &r.relative, &r.largest);
    else r.relative = r.largest = INFINITY;
    gale_object_destroy(&host);
    r.departs = !(r.relative <= c->tolerance) && r.largest > 1e-6;
    GALE_TRY(gale__grow((void **)&c->rows, &c->capacity, c->count + 1, sizeof *c->rows));
    c->rows[c->count++] = r;
    return GALE_OK;
}

static gale_status compare(void *user, const gale__onnx_net *net, int32_t value, gale_object *object)
{
    check *c = user;
    const gale__onnx_net_value *v = &net->values[value];
    if (!c->kept[value]) return GALE_OK;
    return add_row(c, v->node >= 0 ? net->nodes[v->node].where : "input", v->name, object, c->kept[value]);
}

/* What everything is compared with runs in the model's own precision. */
static gale_status open_model(const gale__args *a, gale_device *device, bool reference, gale_model **out)
{
    gale_model_options options;
    gale__model_options(a, &options);
    if (reference) options.precision = GALE_PRECISION_AS_IT_IS;
    return gale__model_open_with(a, gale__args_text(a, "MODEL"), device, &options, out);
}

/* One run with every value shown to `watch`; the first one is the reference. */
static gale_status run_watched(const gale__args *a, gale_device *device, gale__onnx_watch *watch, check *c)
{
    gale_model *m = NULL;
    gale_object **in = NULL, **out = NULL;
    gale_status status;
    GALE_GO(open_model(a, device, !c->kept, &m));
    gale__onnx_session *s = gale__onnx_model_session(m);
    s->watch = watch;
    s->watch_user = c;
    if (!c->kept) {
        c->n_values = s->net->n_values;
        if (!(c->kept = gale__calloc((size_t)c->n_values + 1, sizeof *c->kept))) {
            status = GALE_NO_MEMORY;
            goto done;
        }
    }
    GALE_GO(gale__onnx_exec_expose(s->net));
    GALE_GO(gale__model_inputs_make(m, a, true, &in));
    out = gale__calloc((size_t)gale_model_outputs(m) + 1, sizeof *out);
    status = out ? gale_model_run(m, in, out, true) : GALE_NO_MEMORY;
done:
    if (m) gale__objects_free(&in, gale_model_inputs(m));
    if (m) gale__objects_free(&out, gale_model_outputs(m));
    gale_model_close(&m);
    return status;
}

/* The run as it is used, compared at its outputs. */
static gale_status run_fused(const gale__args *a, gale_device *device, check *c)
{
    gale_model *m = NULL;
    gale_object **in = NULL, **out = NULL;
    gale_status status;
    GALE_GO(open_model(a, device, false, &m));
    GALE_GO(gale__model_inputs_make(m, a, true, &in));
    out = gale__calloc((size_t)gale_model_outputs(m) + 1, sizeof *out);
    if (!out) {
        status = GALE_NO_MEMORY;
        goto done;
    }
    GALE_GO(gale_model_run(m, in, out, true));
    const gale__onnx_net *net = gale__onnx_model_session(m)->net;
    for (int i = 0; i < net->n_outputs; i++)
        if (c->kept[net->outputs[i]])
            GALE_GO(add_row(c, "output of the fused run", net->declared[i].name, out[i], c->kept[net->outputs[i]]));
done:
    if (m) gale__objects_free(&in, gale_model_inputs(m));
    if (m) gale__objects_free(&out, gale_model_outputs(m));
    gale_model_close(&m);
    return status;
}

static int by_difference(const void *x, const void *y)
{
    const row *a = x, *b = y;
    return (a->relative < b->relative) - (a->relative > b->relative);
}

static int print_text(check *c, const gale__args *a, gale_device *device)
{
    const row *first = NULL;
    size_t departed = 0, shown = (size_t)gale__args_int(a, "worst");
    char first_text[300] = "";
    for (size_t i = 0; i < c->count; i++) {
        departed += c->rows[i].departs;
        if (c->rows[i].departs && !first) first = &c->rows[i];
    }
    if (first)
        snprintf(first_text, sizeof first_text, "first to depart: %.120s, value '%.80s'", first->where, first->name);
    qsort(c->rows, c->count, sizeof *c->rows, by_difference);
    gale__table t = {.align = "llrrl"};
    gale__table_cell(&t, "node"), gale__table_cell(&t, "value"), gale__table_cell(&t, "relative"),
        gale__table_cell(&t, "largest"), gale__table_cell(&t, "outcome");
    for (size_t i = 0; i < c->count && i < shown; i++) {
        const row *r = &c->rows[i];
        gale__table_cell(&t, "%.60s", r->where), gale__table_cell(&t, "%.40s", r->name),
            gale__table_cell(&t, "%.2e", r->relative), gale__table_cell(&t, "%.2e", r->largest);
        gale__table_cell(&t, "%s", r->departs ? "departs" : "agrees");
    }
    if (shown) gale__table_print(&t, stdout);
    if (*first_text) puts(first_text);
    printf("%zu values on %s against the CPU: %zu agree, %zu depart (tolerance %g)\n", c->count,
        gale_device_get_info(device)->name, c->count - departed, departed, c->tolerance);
    return departed ? GALE__EXIT_DIFFER : GALE__EXIT_OK;
}

static int print_json(const check *c, gale_device *device)
{
    gale__str text = {0};
    gale__json_out j;
    bool departed = false;
    gale__json_begin(&j, &text);
    gale__json_object(&j);
    gale__json_key(&j, "device"), gale__json_string(&j, gale_device_get_info(device)->name);
    gale__json_key(&j, "tolerance"), gale__json_f64(&j, c->tolerance);
    gale__json_key(&j, "values");
    gale__json_array(&j);
    for (size_t i = 0; i < c->count; i++) {
        departed |= c->rows[i].departs;
        gale__json_object(&j);
        gale__json_key(&j, "node"), gale__json_string(&j, c->rows[i].where);
        gale__json_key(&j, "value"), gale__json_string(&j, c->rows[i].name);
        gale__json_key(&j, "relative"), gale__json_f64(&j, c->rows[i].relative);
        gale__json_key(&j, "largest"), gale__json_f64(&j, c->rows[i].largest);
        gale__json_key(&j, "departs"), gale__json_bool(&j, c->rows[i].departs);
        gale__json_close(&j, '}');
    }
    gale__json_close(&j, ']');
    gale__json_close(&j, '}');
    gale__str_add(&text, "\n");
    int code = gale__print(&text);
    return code == GALE__EXIT_OK && departed ? GALE__EXIT_DIFFER : code;
}

/* Halves round every value; the tolerance is that of a network of some dozen layers. */
static double tolerance_of(const gale__args *a, gale_precision precision)
{
    if (gale__args_given(a, "tolerance") || precision == GALE_PRECISION_AS_IT_IS)
        return gale__args_real(a, "tolerance");
    return precision == GALE_PRECISION_F16 ? 1e-2 : 5e-2;
}

static int run(const gale__args *a)
{
    gale_device *device = NULL, *cpu = NULL;
    gale_model_options options;
    gale__model_options(a, &options);
    check c = {.tolerance = tolerance_of(a, options.precision)};
    gale_device_options only = {.chain = "cpu"};
    gale_status status;
    int code = GALE__EXIT_OK;
    GALE_GO(gale_device_open(NULL, &device));
    GALE_GO(gale_device_open(&only, &cpu));
    GALE_GO(run_watched(a, cpu, keep, &c));
    /* Values within a network of halves may well depart, small differences of large numbers say: outputs count. */
    if (!options.precision) GALE_GO(run_watched(a, device, compare, &c));
    GALE_GO(run_fused(a, device, &c));
    code = gale__args_flag(a, "json") ? print_json(&c, device) : print_text(&c, a, device);
done:
    if (status != GALE_OK) code = gale__report(status);
    gale__objects_free(&c.kept, c.n_values);
    gale__free(c.rows);
    gale__arena_finish(&c.arena);
    gale_device_close(&device);
    gale_device_close(&cpu);
    return code;
}

const gale__command gale__command_verify = {
    .args = args,
    .run = run,
    .about = "Runs a model on the CPU and on the chosen device and compares what every node makes: the first node that "
             "departs, and a table of those that differ most. Nodes are run without "
             "fusion across them for that; the fused run is compared at its outputs. In half precision outputs alone "
             "are compared, with the CPU in "
             "single precision. Exit code 4 when something departs.",
    .examples = "  gale verify model.onnx --provider cuda --shape x=1x3x256x256\n"
                "  gale verify model.onnx --provider cuda --precision fp16\n"
                "  gale verify model.onnx --provider vulkan --input x=photo.npy --worst 30",
};
